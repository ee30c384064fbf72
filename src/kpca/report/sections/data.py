"""What the data is, and what was done to it."""

from __future__ import annotations

from typing import Any

import numpy as np

from kpca.report.greys import grey_picture
from kpca.report.markup import Markup, bullets, joined, name, paragraph, picture, table, tag
from kpca.report.material import Material
from kpca.report.sections.base import Section
from kpca.report.words import count, listed, number, percent, sentence, visible

_SHOWN = 12  # columns in the table
_PICTURES = 10


def data(material: Material) -> Section:
    """Return the section on the data."""
    subject, facts = material.subject, material.subject.data
    parts: list[Markup] = [paragraph(*_size(material))]
    if facts.missing:
        entries = max(facts.n_rows * facts.n_columns, 1)
        parts.append(
            paragraph(f"{count(facts.missing, 'entry is', 'entries are')} missing, {percent(facts.missing / entries)}.")
        )
    else:
        parts.append(paragraph("No entry is missing."))
    if facts.treated:
        before = "Before the model saw the rows:"
        if not facts.of_fit:
            before = "The rows were treated like those that the model was fitted to, of which was noted:"
        parts += [paragraph(before), bullets(sentence(text) for text in facts.treated)]
    parts += [_columns(material)] if subject.image_shape is None else _pictures(material)
    return Section("data", "The data", joined(parts))


def _size(material: Material) -> list[Any]:
    facts, subject = material.subject.data, material.subject
    text: list[Any] = [name(facts.name), f" has {count(facts.n_rows, 'row')} and {count(facts.n_columns, 'column')}"]
    kinds = [f"{number_of:,} of {kind}" for kind, number_of in facts.kinds]
    text.append(f" ({listed(kinds)}). " if kinds else ". ")
    m, d = subject.X.shape
    if d != facts.n_columns:
        text.append(f"The model sees {count(d, 'column')}, made from these. ")
    if m < facts.n_rows:
        text.append(f"This report looks at {count(m, 'row')} of them. ")
    if material.sparse:
        filled = subject.X.nnz / max(m * d, 1)
        text.append(f"Most entries are zero: {percent(filled)} are not. ")
    if subject.image_shape is not None:
        height, width = subject.image_shape
        text.append(f"Each row is a picture of {height} × {width} dots. ")
    if subject.labels is not None:
        text.append("Labels are shown, but the model has not seen them. ")
    return text


def _pictures(material: Material) -> list[Markup]:
    """Return some rows as pictures."""
    low, high = material.picture_range
    some = np.unique(np.linspace(0, len(material.rows) - 1, min(_PICTURES, len(material.rows))).astype(np.intp))
    made = []
    for i in some:
        grey = grey_picture(material.dense[i].reshape(material.subject.image_shape), low, high)
        made.append(picture(grey, f"row {visible(material.id_texts[i])}", visible(material.id_texts[i], 24)))
    text = f"Rows from all over the data; black is {number(low)}, white is {number(high)}."
    return [tag("div", *made, class_="pictures"), paragraph(text, class_="caption")]


def _columns(material: Material) -> Markup:
    d = material.X.shape[1]
    rows = []
    for column in range(min(d, _SHOWN)):
        values = material.column(column)
        low, middle, high = np.quantile(values, [0.0, 0.5, 1.0])
        distinct = len(np.unique(values))
        rows.append([name(material.names[column]), number(low), number(middle), number(high), f"{distinct:,}"])
    which = "All columns" if d <= _SHOWN else f"The first {_SHOWN} of {d:,} columns"
    scaled = bool(material.subject.data.treated) and material.subject.restore is None
    units = ", as the model sees them" if scaled else ""
    of = f", over {count(len(material.rows), 'row')}" if material.sampled else ""
    return table(["Column", "Lowest", "Median", "Highest", "Different values"], rows, caption=f"{which}{units}{of}.")
