"""Columns that drive the components, what the components look like in the data, and rows that do not belong."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError

from kpca import preimage
from kpca._base.errors import InputError
from kpca.report.material import FloatArray, Influence, Material, Refusal, UnusualRows, attempt, not_here
from kpca.report.packing import Markup, bar, joined, name, packed, pictures, plot, table, tag, whole
from kpca.report.words import aligned, count, label, number, percent, sentence, visible

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


def variables(material: Material) -> Iterator[Markup]:
    """Make the section on columns and extreme rows."""
    found = material.influence
    if isinstance(found, Refusal):
        yield not_here("Which columns drive the components cannot be said.", found)
    else:
        yield from _influence(material, found)
    yield tag(
        "p",
        "The rows at the two ends of a component often tell what it is about. Which end is high is a matter of "
        "convention: the sign of a component has no meaning.",
    )
    yield from _extremes(material)


def _influence(material: Material, found: Influence) -> Iterator[Markup]:
    """Make bars of the importance of the columns; where rows are pictures, pictures."""
    lines = {"Overall": found.overall}
    if len(found.by_component) > 1:
        lines |= {f"Component {j + 1}": line for j, line in enumerate(found.by_component[:_BAR_COMPONENTS])}
    tops = {title: float(line.max(initial=0.0)) or 1.0 for title, line in lines.items()}
    over, d = count(found.rows, "row"), len(found.overall)
    if material.subject.image_shape is not None:
        yield tag(
            "p", f"Which dots of a picture move the components: white dots most, black dots not at all (over {over})."
        )
        words = "the importance of each dot of a picture, white for the largest"
        yield pictures(material.picture(lines[t], f"{t}: {words}", t, (0.0, tops[t])) for t in lines)
        return
    yield tag("p", _HOW[found.how].format(over))
    rows: list[list[Any]] = []
    for j in found.order[:_BARS]:
        bars = (bar(line[j] / tops[title], number(line[j], 3)) for title, line in lines.items())
        rows.append([name(material.names[j], 48), *bars])
    which = "All columns" if d <= _BARS else f"The {_BARS} most important of {d:,} columns"
    yield table(["Column", *lines], rows, caption=f"{which}, most important first.", left=range(len(lines) + 1))


def _extremes(material: Material) -> Iterator[Markup]:
    """Make pictures or a table of the rows with the lowest and the highest scores."""
    scores = material.scores[:, :_END_COMPONENTS].T
    most = min(_ENDS, scores.shape[1] // 2) or 1
    pictured, rows = material.subject.image_shape is not None, []

    def labelled(i: int) -> str:
        return "" if material.labels is None else f" [{label(material.labels[i])}]"

    for j, line in enumerate(scores):
        lowest, highest = (np.argsort(sign * line, kind="stable")[:most] for sign in (1, -1))
        if pictured:
            yield tag("h3", f"Component {j + 1}: lowest scores on the left, highest on the right")
            shown = [(i, f"{material.id_texts[i]}{labelled(i)}") for i in (*lowest, *highest[::-1])]
            yield pictures(material.picture(material.dense[i], f"row {one}", visible(one, 24)) for i, one in shown)
            continue
        for side, places in (("high", highest), ("low", lowest)):
            who: list[Any] = []
            for i in places:
                who += [", " if who else "", name(material.id_texts[i], 40), f"{labelled(i)} ({number(line[i], 3)})"]
            rows.append([f"{j + 1}, {side}", joined(who)])
    if not pictured:
        caption = "The rows with the highest and lowest scores; scores in brackets."
        yield table(["Component and end", "Rows"], rows, caption=caption, left=(0, 1))


# -- What the components look like in the data: walks along them, and what the model keeps of rows --------------------

_COMPONENTS = 4
_PICTURES, _POINTS = 9, 5  # points of a walk, as pictures and as columns of a table
_COLUMNS = 8  # of the data, that a table follows
_KEPT = 8  # rows that are shown beside what the model keeps of them


def preimages(material: Material) -> Iterator[Markup]:
    """Make the section on pre-images of the components."""
    model, shape = material.model, material.subject.image_shape
    steps = _POINTS if shape is None else _PICTURES

    def walks() -> list[tuple[FloatArray, FloatArray]]:
        try:
            walked = [preimage.traverse(model, j, steps) for j in range(min(int(model.n_components_), _COMPONENTS))]
        except (NotFittedError, NotImplementedError) as error:  # how the model says that it has no inverse map
            raise InputError(str(error).replace("inverse_transform needs", "The inverse map needs")) from error
        return [(positions, material.restored(rows)) for positions, rows in walked]

    found = attempt(walks)
    if isinstance(found, Refusal):
        yield not_here("There is no inverse map from the components to the data.", found)
        return
    yield tag(
        "p",
        "Each walk starts at position 0, the mean in feature space, and follows one component up to two standard "
        "deviations either way, all other components held still. What is shown are rows that would have about "
        "these scores, found by the model; they are not rows of the data.",
    )
    for component, (positions, rows) in enumerate(found):
        places = [f"{'+' if at > 0 else ''}{number(at, 3)}" for at in positions]
        yield tag("h3", f"Component {component + 1}")
        if shape is None:
            yield _followed(material, places, rows)
        else:
            around = zip(places, rows, strict=True)
            yield pictures(material.picture(row, f"at {at} standard deviations", at) for at, row in around)
    if shape is not None:
        yield from _kept(material)
    how = f"The inverse map from scores to rows is “{model.preimage_report_.method}”: {model.preimage_report_.reason}."
    yield tag("p", how, class_="caption")


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


def _kept(material: Material) -> Iterator[Markup]:
    """Show rows and what is left of them if only their components are kept."""
    some = material.spread_out(_KEPT)
    k = int(material.model.n_components_)
    yield tag("h3", f"What {'the component keeps' if k == 1 else f'the {k:,} components keep'} of a row")
    about = count(len(some), "row")
    yield tag("p", f"{about} from all over the data: above as they are, below as the model keeps them.")
    made = []
    for i, row in zip(some, material.restored(material.model.denoise(material.X[some])), strict=True):
        title = f"row {visible(material.id_texts[i], 24)}"
        after = material.picture(row, f"what is kept of {title}", visible(material.id_texts[i], 12))
        made.append(tag("div", material.picture(material.dense[i], title), after, class_="pair"))
    yield pictures(made)


# -- Rows that do not belong: how far out, and because of which columns -----------------------------------------------

_TOP = 10  # rows in the table
_MOST_DRAWN = 4000  # dots of the chart
_CAUSES = 3  # columns that are named for each


def anomalies(material: Material) -> Iterator[Markup]:
    """Make the section on unusual rows."""
    found = material.anomalies
    if isinstance(found, Refusal):
        yield not_here("Unusual rows could not be looked for.", found)
        return
    beyond, m = int(found.beyond.sum()), len(found.statistic)
    yield tag(
        "p",
        "A detector of its own, with default settings, looked at the same rows: it learns from them what is usual "
        "for single columns and for relations between columns, and gives each row a distance from that. The limit "
        f"is set such that about {100 * found.detector.confidence:g} % of usual rows are within it, so a few rows "
        "beyond it are to be expected: those far beyond deserve a look.",
    )
    of = f"{count(m, 'row')}{' of the map' if material.sampled else ''}"
    text = f"None of the {of} is beyond the limit."
    if beyond:
        text = f"{count(beyond, 'row is', 'rows are')} beyond the limit, {percent(beyond / m)} of {of}."
    if found.learned < m:
        text += f" What is usual was learned from {count(found.learned, 'row')}."
    yield tag("p", text)
    for text in found.warned:
        yield tag("p", "Note: ", sentence(text), class_="caption")
    yield plot("chart-plot", "Control chart: the distance of each row in units of the limit, in the order of the rows.")
    drawn, some = np.arange(m), ""
    if m > _MOST_DRAWN:  # the farthest half of this many, and evenly spread ones of the others
        far = np.argsort(-found.statistic, kind="stable")[: max(_MOST_DRAWN // 2, beyond)]
        others = np.setdiff1d(drawn, far)
        spread = others[np.linspace(0, len(others) - 1, min(len(others), _MOST_DRAWN // 2)).astype(np.intp)]
        drawn = np.union1d(far, spread)
        some = f" All rows beyond the limit are drawn, and a part of the others: {len(drawn):,} dots."
    yield tag("p", f"Each dot is a row, in the order of the data; the line at 1 is the limit.{some}", class_="caption")
    ratio = np.log10(np.maximum(found.ratio, 1e-12))  # it spans many powers of ten
    material.drawings["chart"] = {"ratio": packed(ratio[drawn]), "rows": whole(drawn)}
    yield from _farthest(material, found)


def _farthest(material: Material, found: UnusualRows) -> Iterator[Markup]:
    order = np.argsort(-found.statistic, kind="stable")[:_TOP]
    causes = attempt(lambda: found.detector.contributions(material.X[order]).values)
    texts = [0] if material.labels is None else [0, 1]
    titles: list[Any] = [*["Row", "Label"][: len(texts)], "Distance", "Limit", "Times the limit"]
    rows: list[list[Any]] = []
    for i in order:
        times = found.statistic[i] / found.limit if found.limit > 0 else np.inf
        labels = [] if material.labels is None else [label(material.labels[i])]
        numbers = number(found.statistic[i]), number(found.limit), number(times, 3)
        rows.append([name(material.id_texts[i], 40), *labels, *numbers])
    if not isinstance(causes, Refusal):
        texts.append(len(titles))
        titles.append(tag("span", "Columns that contribute most: value here (median)", class_="texts"))
        for row, i, contributions in zip(rows, order, causes, strict=True):
            parts: list[Any] = []
            for j in np.argsort(-contributions, kind="stable")[:_CAUSES]:
                if contributions[j] > 0:
                    column = material.column(int(j))
                    usual = number(float(np.median(column)), 3)
                    parts += [", " if parts else "", name(material.names[j], 32), f" {number(column[i], 3)} ({usual})"]
            row.append(joined(parts or ["none stands out"]))
    yield table(titles, rows, caption=f"The {count(len(order), 'row')} farthest out.", left=texts)
    if isinstance(causes, Refusal):
        yield not_here("Which columns are behind it cannot be said.", causes)
