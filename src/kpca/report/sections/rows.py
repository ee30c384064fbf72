"""Rows that do not belong: how far out, and because of which columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError

from kpca import preimage
from kpca._base.errors import InputError
from kpca.report.material import Anomalies, Material, Refusal, attempt
from kpca.report.packing import grey_picture, packed, whole
from kpca.report.sections import Section, not_here
from kpca.report.words import (
    Markup,
    aligned,
    count,
    joined,
    label,
    name,
    number,
    paragraph,
    percent,
    picture,
    plot,
    sentence,
    table,
    tag,
    visible,
)

_TOP = 10  # rows in the table
_MOST_DRAWN = 4000  # dots of the chart
_CAUSES = 3  # columns that are named for each
_TITLE = "Unusual rows"


def anomalies(material: Material) -> Section:
    """Return the section on unusual rows."""
    found = material.anomalies
    if isinstance(found, Refusal):
        return Section("anomalies", _TITLE, not_here("Unusual rows could not be looked for.", found))
    level = f"{100 * found.detector.confidence:g} %"
    drawn = _drawn(found)
    parts: list[Markup] = [
        paragraph(
            "A detector of its own, with default settings, looked at the same rows: it learns from them what is usual "
            "for single columns and for relations between columns, and gives each row a distance from that. The limit "
            f"is set such that about {level} of usual rows are within it, so a few rows beyond it are to be expected: "
            "those far beyond deserve a look."
        ),
        paragraph(_how_many(material, found)),
        *(paragraph("Note: ", sentence(text), class_="caption") for text in found.warned),
        plot("chart-plot", "Control chart: the distance of each row in units of the limit, in the order of the rows."),
        paragraph(
            "Each dot is a row, in the order of the data; the line at 1 is the limit."
            + (
                ""
                if len(drawn) == len(found.statistic)
                else f" All rows beyond the limit are drawn, and a part of the others: {len(drawn):,} dots."
            ),
            class_="caption",
        ),
    ]
    parts += _farthest(material, found)
    data = {"chart": {"ratio": packed(_ratio(found)[drawn]), "rows": whole(drawn)}}
    return Section("anomalies", _TITLE, joined(parts), data)


def _how_many(material: Material, found: Anomalies) -> str:
    beyond, m = int(found.beyond.sum()), len(found.statistic)
    of = f"{count(m, 'row')}{' of the map' if material.sampled else ''}"
    text = f"None of the {of} is beyond the limit."
    if beyond:
        text = f"{count(beyond, 'row is', 'rows are')} beyond the limit, {percent(beyond / m)} of {of}."
    if found.learned < m:
        text += f" What is usual was learned from {count(found.learned, 'row')}."
    return text


def _drawn(found: Anomalies) -> NDArray[np.intp]:
    """Return the rows of the chart: all, or the farthest half of so many, and evenly spread ones of the others."""
    m = len(found.statistic)
    if m <= _MOST_DRAWN:
        return np.arange(m)
    far = np.argsort(-found.statistic, kind="stable")[: max(_MOST_DRAWN // 2, int(found.beyond.sum()))]
    others = np.setdiff1d(np.arange(m), far)
    spread = others[np.linspace(0, len(others) - 1, min(len(others), _MOST_DRAWN // 2)).astype(np.intp)]
    return np.union1d(far, spread)


def _ratio(found: Anomalies) -> NDArray[Any]:
    """Return log10 of the statistic in units of the limit: it spans many powers of ten.  # shape: (m,)"""
    limit = found.limit if found.limit > 0 else 1.0
    return np.log10(np.maximum(found.statistic / limit, 1e-12))


def _farthest(material: Material, found: Anomalies) -> list[Markup]:
    order = np.argsort(-found.statistic, kind="stable")[: min(_TOP, len(found.statistic))]
    causes = attempt(lambda: found.detector.contributions(material.X[order]).values)
    titles: list[Any] = ["Row", *([] if material.labels is None else ["Label"]), "Distance", "Limit", "Times the limit"]
    texts = [0] if material.labels is None else [0, 1]
    rows: list[list[Any]] = []
    for place, i in enumerate(order):
        row: list[Any] = [name(material.id_texts[i], 40)]
        if material.labels is not None:
            row.append(label(material.labels[i]))
        row += [number(found.statistic[i]), number(found.limit), number(_times(found, i), 3)]
        if not isinstance(causes, Refusal):
            row.append(_named(material, causes[place], int(i)))
        rows.append(row)
    if not isinstance(causes, Refusal):
        titles.append(tag("span", "Columns that contribute most: value here (median)", class_="texts"))
        texts.append(len(titles) - 1)
    made = [table(titles, rows, caption=f"The {count(len(order), 'row')} farthest out.", left=texts)]
    if isinstance(causes, Refusal):
        made.append(not_here("Which columns are behind it cannot be said.", causes))
    return made


def _times(found: Anomalies, i: int) -> float:
    return float(found.statistic[i] / found.limit) if found.limit > 0 else float("inf")


def _named(material: Material, contributions: NDArray[Any], row: int) -> Markup:
    """Return the columns that contribute most to a row, with its values in them."""
    best = [j for j in np.argsort(-contributions, kind="stable")[:_CAUSES] if contributions[j] > 0]
    parts: list[Any] = []
    for j in best:
        column = material.column(int(j))
        usual = number(float(np.median(column)), 3)
        parts += [", " if parts else "", name(material.names[j], 32), f" {number(column[row], 3)} ({usual})"]
    return joined(parts or ["none stands out"])


# -- What the components look like in the data: walks along them, and what the model keeps of rows --------------------

FloatArray = NDArray[Any]
_COMPONENTS = 4
_PICTURES, _POINTS = 9, 5  # points of a walk, as pictures and as columns of a table
_COLUMNS = 8  # of the data, that a table follows
_BEYOND = " * Beyond the range of the data: the model guesses."
_KEPT = 8  # rows that are shown beside what the model keeps of them


def preimages(material: Material) -> Section:
    """Return the section on the way back to the data."""
    title = "What the components look like in the data"
    walks = attempt(lambda: _walks(material))
    if isinstance(walks, Refusal):
        return Section("preimages", title, not_here("There is no way back from the components to the data.", walks))
    parts = [
        paragraph(
            "Each walk starts at position 0, the mean in feature space, and follows one component up to two standard "
            "deviations either way, all other components held still. What is shown are rows that would have about "
            "these scores, found by the model; they are not rows of the data."
        )
    ]
    pictures = material.subject.image_shape is not None
    for component, (positions, rows) in enumerate(walks):
        parts.append(tag("h3", f"Component {component + 1}"))
        made = _pictures(material, positions, rows) if pictures else _followed(material, positions, rows)
        parts.append(made)
    if pictures:
        parts += _kept(material)
    found = material.model.preimage_report_
    parts.append(paragraph(f"The way back from scores to rows is “{found.method}”: {found.reason}.", class_="caption"))
    return Section("preimages", title, joined(parts))


def _walks(material: Material) -> list[tuple[FloatArray, FloatArray]]:
    """Return positions and rows, in the units of the file, along the first components."""
    model = material.model
    steps = _PICTURES if material.subject.image_shape is not None else _POINTS
    try:
        found = [preimage.traverse(model, j, steps) for j in range(min(int(model.n_components_), _COMPONENTS))]
    except (NotFittedError, NotImplementedError) as error:  # how the model says that it has no way back
        raise _told(error) from error
    return [(positions, material.restored(rows)) for positions, rows in found]


def _told(error: Exception) -> InputError:
    return InputError(str(error).replace("inverse_transform needs", "The way back needs"))


def _pictures(material: Material, positions: FloatArray, rows: FloatArray) -> Markup:
    low, high = material.picture_range
    shape = material.subject.image_shape
    assert shape is not None
    made = [
        picture(grey_picture(row.reshape(shape), low, high), f"at {_position(at)} standard deviations", _position(at))
        for at, row in zip(positions, rows, strict=True)
    ]
    return tag("div", *made, class_="pictures")


def _position(at: float) -> str:
    return f"{'+' if at > 0 else ''}{number(at, 3)}"


def _followed(material: Material, positions: FloatArray, rows: FloatArray) -> Markup:
    """Return the columns that change most along a walk, relative to their spread."""
    spread = _spread(material)
    change = np.ptp(rows, axis=0) / np.where(spread > 0, spread, np.inf)
    best = np.argsort(-change, kind="stable")[:_COLUMNS]
    lines = [[name(material.names[j], 48), *_values(rows[:, j], material.dense[:, j])] for j in best]
    d = rows.shape[1]
    which = "Columns" if d <= _COLUMNS else f"The {_COLUMNS} of {d:,} columns that change most"
    beyond = any("*" in cell for line in lines for cell in line[1:])
    caption = f"{which}, at positions in standard deviations of the component." + (_BEYOND if beyond else "")
    return table(["Column", *(f"at {_position(at)}" for at in positions)], lines, caption=caption)


def _values(walk: FloatArray, column: FloatArray) -> list[str]:
    """Return the values of a column along a walk, with a star where no row of the data goes so far."""
    low, high = float(column.min()), float(column.max())
    slack = 1e-9 * max(abs(low), abs(high))
    outside = (walk < low - slack) | (walk > high + slack)
    return [f"{text}{'*' if out else ''}" for text, out in zip(aligned(walk.tolist()), outside, strict=True)]


def _spread(material: Material) -> FloatArray:
    spread: FloatArray = material.dense.std(axis=0)
    return spread


def _kept(material: Material) -> list[Markup]:
    """Return rows and what is left of them if only their components are kept."""
    m = len(material.rows)
    some = np.unique(np.linspace(0, m - 1, min(_KEPT, m)).astype(np.intp))
    kept = material.restored(material.model.denoise(material.X[some]))
    low, high = material.picture_range
    shape = material.subject.image_shape
    made = []
    for i, row in zip(some, kept, strict=True):
        title = f"row {visible(material.id_texts[i], 24)}"
        before = picture(grey_picture(material.dense[i].reshape(shape), low, high), title)
        after = picture(
            grey_picture(row.reshape(shape), low, high), f"what is kept of {title}", visible(material.id_texts[i], 12)
        )
        made.append(tag("div", before, after, class_="pair"))
    k = int(material.model.n_components_)
    head = f"What {'the component keeps' if k == 1 else f'the {k:,} components keep'} of a row"
    text = f"{count(len(some), 'row')} from all over the data: above as they are, below as the model keeps them."
    return [tag("h3", head), paragraph(text), tag("div", *made, class_="pictures")]
