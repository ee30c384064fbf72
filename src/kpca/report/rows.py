"""Columns that drive the components, what the components look like in the data, and rows that do not belong."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError

from kpca import preimage
from kpca._base.errors import InputError
from kpca.report.material import Influence, Material, Refusal, Section, UnusualRows, attempt, not_here
from kpca.report.packing import Markup, bar, joined, name, packed, paragraph, pictures, plot, table, tag, whole
from kpca.report.words import aligned, count, label, number, percent, sentence, visible

FloatArray = NDArray[Any]

# -- What drives the components: columns, and the rows at their ends --------------------------------------------------

_BARS, _BAR_COMPONENTS = 10, 3  # columns that have bars; components that have bars or pictures of their own
_ENDS, _END_COMPONENTS = 3, 5  # rows at each end, of this many components
_HOW = {
    "correlated": "There are no gradients here, so a bar only shows how closely a column goes along with a component: "
    "the size of their correlation, 0 to 1, over {}.",
    "shuffled": "There are no gradients here, so each column was shuffled in turn: a bar is the share of a component's "
    "variance that is lost without the column, over {}.",
    "gradients": "A bar shows how much the score of a row changes if the column changes by its standard deviation, on "
    "average over {}; overall, components count by the variance they hold. Bars are relative to the longest of their "
    "column.",
}


def variables(material: Material) -> Section:
    """Return the section on columns and extreme rows."""
    found = material.influence
    if isinstance(found, Refusal):
        parts = [not_here("Which columns drive the components cannot be said.", found)]
    else:
        parts = _influence(material, found)
    return Section("variables", "What drives the components", joined([*parts, *_extremes(material)]))


def _influence(material: Material, found: Influence) -> list[Markup]:
    """Return the importance of the columns as bars; where rows are pictures, as pictures."""
    lines = {"Overall": found.overall}
    if len(found.by_component) > 1:
        lines |= {f"Component {j + 1}": line for j, line in enumerate(found.by_component[:_BAR_COMPONENTS])}
    tops = [float(line.max(initial=0.0)) or 1.0 for line in lines.values()]
    over, d = count(found.rows, "row"), len(found.overall)
    if material.subject.image_shape is not None:
        words = "the importance of each dot of a picture, white for the largest"
        made = [
            material.picture(line, f"{title}: {words}", title, (0.0, top))
            for (title, line), top in zip(lines.items(), tops, strict=True)
        ]
        text = f"Which dots of a picture move the components: white dots most, black dots not at all (over {over})."
        return [paragraph(text), pictures(made)]
    rows: list[list[Any]] = []
    for j in found.order[:_BARS]:
        bars = (bar(line[j] / top, number(line[j], 3)) for line, top in zip(lines.values(), tops, strict=True))
        rows.append([name(material.names[j], 48), *bars])
    which = "All columns" if d <= _BARS else f"The {_BARS} most important of {d:,} columns"
    caption = f"{which}, most important first."
    made_of = table(["Column", *lines], rows, caption=caption, left=range(len(lines) + 1))
    return [paragraph(_HOW[found.how].format(over)), made_of]


def _extremes(material: Material) -> list[Markup]:
    m, k = material.scores.shape
    scores = material.scores[:, : min(k, _END_COMPONENTS)].T
    lowest, highest = (
        np.argsort(sign * scores, axis=1, kind="stable")[:, : min(_ENDS, m // 2) or 1] for sign in (1, -1)
    )
    head = paragraph(
        "The rows at the two ends of a component often tell what it is about. Which end is high is a matter of "
        "convention: the sign of a component has no meaning."
    )

    def labelled(i: int) -> str:
        return "" if material.labels is None else f" [{label(material.labels[i])}]"

    if material.subject.image_shape is not None:
        made = [head]
        for j in range(len(scores)):
            shown = []
            for i in (*lowest[j], *highest[j][::-1]):
                title = f"{material.id_texts[i]}{labelled(i)}"
                shown.append(material.picture(material.dense[i], f"row {title}", visible(title, 24)))
            made += [tag("h3", f"Component {j + 1}: lowest scores on the left, highest on the right"), pictures(shown)]
        return made
    rows = []
    for j, line in enumerate(scores):
        for side, places in (("high", highest[j]), ("low", lowest[j])):
            who: list[Any] = []
            for i in places:
                who += [", " if who else "", name(material.id_texts[i], 40), f"{labelled(i)} ({number(line[i], 3)})"]
            rows.append([f"{j + 1}, {side}", joined(who)])
    caption = "The rows with the highest and lowest scores; scores in brackets."
    return [head, table(["Component and end", "Rows"], rows, caption=caption, left=(0, 1))]


# -- What the components look like in the data: walks along them, and what the model keeps of rows --------------------

_COMPONENTS = 4
_PICTURES, _POINTS = 9, 5  # points of a walk, as pictures and as columns of a table
_COLUMNS = 8  # of the data, that a table follows
_KEPT = 8  # rows that are shown beside what the model keeps of them


def preimages(material: Material) -> Section:
    """Return the section on pre-images of the components."""
    title = "What the components look like in the data"
    walks = attempt(lambda: _walks(material))
    if isinstance(walks, Refusal):
        return Section("preimages", title, not_here("There is no inverse map from the components to the data.", walks))
    parts = [
        paragraph(
            "Each walk starts at position 0, the mean in feature space, and follows one component up to two standard "
            "deviations either way, all other components held still. What is shown are rows that would have about "
            "these scores, found by the model; they are not rows of the data."
        )
    ]
    shape = material.subject.image_shape
    for component, (positions, rows) in enumerate(walks):
        places = [f"{'+' if at > 0 else ''}{number(at, 3)}" for at in positions]
        parts.append(tag("h3", f"Component {component + 1}"))
        if shape is None:
            parts.append(_followed(material, places, rows))
        else:
            around = zip(places, rows, strict=True)
            parts.append(pictures(material.picture(row, f"at {at} standard deviations", at) for at, row in around))
    if shape is not None:
        parts += _kept(material)
    found = material.model.preimage_report_
    how = f"The inverse map from scores to rows is “{found.method}”: {found.reason}."
    return Section("preimages", title, joined([*parts, paragraph(how, class_="caption")]))


def _walks(material: Material) -> list[tuple[FloatArray, FloatArray]]:
    """Return positions and rows, in the units of the file, along the first components."""
    model = material.model
    steps = _PICTURES if material.subject.image_shape is not None else _POINTS
    try:
        found = [preimage.traverse(model, j, steps) for j in range(min(int(model.n_components_), _COMPONENTS))]
    except (NotFittedError, NotImplementedError) as error:  # how the model says that it has no inverse map
        raise InputError(str(error).replace("inverse_transform needs", "The inverse map needs")) from error
    return [(positions, material.restored(rows)) for positions, rows in found]


def _followed(material: Material, places: list[str], rows: FloatArray) -> Markup:
    """Return the columns that change most along a walk, relative to their spread, with a star beyond all rows."""
    spread, d = material.dense.std(axis=0), rows.shape[1]
    change = np.ptp(rows, axis=0) / np.where(spread > 0, spread, np.inf)
    lines = []
    for j in np.argsort(-change, kind="stable")[:_COLUMNS]:
        low, high = float(material.dense[:, j].min()), float(material.dense[:, j].max())
        slack = 1e-9 * max(abs(low), abs(high))
        outside = (rows[:, j] < low - slack) | (rows[:, j] > high + slack)
        cells = (f"{text}{'*' * out}" for text, out in zip(aligned(rows[:, j].tolist()), outside.tolist(), strict=True))
        lines.append([name(material.names[j], 48), *cells])
    which = "Columns" if d <= _COLUMNS else f"The {_COLUMNS} of {d:,} columns that change most"
    caption = f"{which}, at positions in standard deviations of the component."
    if any("*" in cell for line in lines for cell in line[1:]):
        caption += " * Beyond the range of the data: the model guesses."
    return table(["Column", *(f"at {at}" for at in places)], lines, caption=caption)


def _kept(material: Material) -> list[Markup]:
    """Return rows and what is left of them if only their components are kept."""
    some = material.spread_out(_KEPT)
    kept = material.restored(material.model.denoise(material.X[some]))
    made = []
    for i, row in zip(some, kept, strict=True):
        title = f"row {visible(material.id_texts[i], 24)}"
        after = material.picture(row, f"what is kept of {title}", visible(material.id_texts[i], 12))
        made.append(tag("div", material.picture(material.dense[i], title), after, class_="pair"))
    k = int(material.model.n_components_)
    head = f"What {'the component keeps' if k == 1 else f'the {k:,} components keep'} of a row"
    text = f"{count(len(some), 'row')} from all over the data: above as they are, below as the model keeps them."
    return [tag("h3", head), paragraph(text), pictures(made)]


# -- Rows that do not belong: how far out, and because of which columns -----------------------------------------------

_TOP = 10  # rows in the table
_MOST_DRAWN = 4000  # dots of the chart
_CAUSES = 3  # columns that are named for each
_TITLE = "Unusual rows"


def anomalies(material: Material) -> Section:
    """Return the section on unusual rows."""
    found = material.anomalies
    if isinstance(found, Refusal):
        return Section("anomalies", _TITLE, not_here("Unusual rows could not be looked for.", found))
    drawn = _drawn(found)
    part = f" All rows beyond the limit are drawn, and a part of the others: {len(drawn):,} dots."
    some = "" if len(drawn) == len(found.statistic) else part
    parts: list[Markup] = [
        paragraph(
            "A detector of its own, with default settings, looked at the same rows: it learns from them what is usual "
            "for single columns and for relations between columns, and gives each row a distance from that. The limit "
            f"is set such that about {100 * found.detector.confidence:g} % of usual rows are within it, so a few rows "
            "beyond it are to be expected: those far beyond deserve a look."
        ),
        paragraph(_how_many(material, found)),
        *(paragraph("Note: ", sentence(text), class_="caption") for text in found.warned),
        plot("chart-plot", "Control chart: the distance of each row in units of the limit, in the order of the rows."),
        paragraph(f"Each dot is a row, in the order of the data; the line at 1 is the limit.{some}", class_="caption"),
        *_farthest(material, found),
    ]
    ratio = np.log10(np.maximum(found.ratio, 1e-12))  # it spans many powers of ten
    return Section("anomalies", _TITLE, joined(parts), {"chart": {"ratio": packed(ratio[drawn]), "rows": whole(drawn)}})


def _how_many(material: Material, found: UnusualRows) -> str:
    beyond, m = int(found.beyond.sum()), len(found.statistic)
    of = f"{count(m, 'row')}{' of the map' if material.sampled else ''}"
    text = f"None of the {of} is beyond the limit."
    if beyond:
        text = f"{count(beyond, 'row is', 'rows are')} beyond the limit, {percent(beyond / m)} of {of}."
    if found.learned < m:
        text += f" What is usual was learned from {count(found.learned, 'row')}."
    return text


def _drawn(found: UnusualRows) -> NDArray[np.intp]:
    """Return the rows of the chart: all, or the farthest half of this many, and evenly spread ones of the others."""
    m = len(found.statistic)
    if m <= _MOST_DRAWN:
        return np.arange(m)
    far = np.argsort(-found.statistic, kind="stable")[: max(_MOST_DRAWN // 2, int(found.beyond.sum()))]
    others = np.setdiff1d(np.arange(m), far)
    spread = others[np.linspace(0, len(others) - 1, min(len(others), _MOST_DRAWN // 2)).astype(np.intp)]
    return np.union1d(far, spread)


def _farthest(material: Material, found: UnusualRows) -> list[Markup]:
    order = np.argsort(-found.statistic, kind="stable")[:_TOP]
    causes = attempt(lambda: found.detector.contributions(material.X[order]).values)
    labelled = material.labels is not None
    titles: list[Any] = ["Row", *["Label"] * labelled, "Distance", "Limit", "Times the limit"]
    texts = [0, 1] if labelled else [0]
    rows: list[list[Any]] = []
    for place, i in enumerate(order):
        row: list[Any] = [name(material.id_texts[i], 40)]
        if material.labels is not None:
            row.append(label(material.labels[i]))
        times = found.statistic[i] / found.limit if found.limit > 0 else np.inf
        row += [number(found.statistic[i]), number(found.limit), number(times, 3)]
        if not isinstance(causes, Refusal):
            row.append(_named(material, causes[place], int(i)))
        rows.append(row)
    caption = f"The {count(len(order), 'row')} farthest out."
    if isinstance(causes, Refusal):
        refused = not_here("Which columns are behind it cannot be said.", causes)
        return [table(titles, rows, caption=caption, left=texts), refused]
    texts.append(len(titles))
    titles.append(tag("span", "Columns that contribute most: value here (median)", class_="texts"))
    return [table(titles, rows, caption=caption, left=texts)]


def _named(material: Material, contributions: FloatArray, row: int) -> Markup:
    """Return the columns that contribute most to a row, with its values in them."""
    parts: list[Any] = []
    for j in np.argsort(-contributions, kind="stable")[:_CAUSES]:
        if contributions[j] > 0:
            column = material.column(int(j))
            usual = number(float(np.median(column)), 3)
            parts += [", " if parts else "", name(material.names[j], 32), f" {number(column[row], 3)} ({usual})"]
    return joined(parts or ["none stands out"])
