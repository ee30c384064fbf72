"""What the components look like in the data: walks along them, and what the model keeps of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError

from kpca import preimage
from kpca.errors import InputError
from kpca.report.greys import grey_picture
from kpca.report.markup import Markup, joined, name, paragraph, picture, table, tag
from kpca.report.material import Material, Refusal, attempt
from kpca.report.sections.base import Section, not_here
from kpca.report.words import aligned, count, number, visible

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
