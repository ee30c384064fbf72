"""The data, what to watch out for, how to reproduce it, and all in short."""

from __future__ import annotations

import importlib.metadata
import platform
from typing import Any

import numpy as np

from kpca import __version__
from kpca.estimators.summary import rows_of
from kpca.report.material import Material, Refusal, Section, not_here
from kpca.report.packing import Markup, bullets, code, joined, name, paragraph, pictures, table, tag
from kpca.report.spectrum import shares_of
from kpca.report.words import count, listed, number, percent, sentence, visible

_GRAVITY = {"problem": "Problem", "warning": "Warning", "note": "Note"}
LOOKS = {
    "narrow": "a bandwidth that is too small",
    "linear": "a kernel that is linear in disguise",
    "flat": "a bandwidth that is too large",
    "indefinite": "a kernel with a negative part",
    "equal_eigenvalues": "components that are not distinct",
    "unstable": "components that change with the draw of the rows",
    "scale": "one column that decides everything",
    "duplicates": "duplicate rows",
    "overfitting": "components that new rows do not confirm",
    "approximation": "too coarse an approximation",
    "drift": "new rows of another kind",
}


def findings(material: Material) -> Section:
    """Return the section on the diagnostics."""
    title = "What to watch out for"
    found = material.findings
    if isinstance(found, Refusal):
        return Section("findings", title, not_here("The diagnostics could not be run.", found))
    text = "The diagnostics found nothing to complain about."
    parts = [paragraph(f"The diagnostics have {count(len(found), 'finding')}." if found.findings else text)]
    for finding in found:
        word = tag("strong", f"{_GRAVITY[finding.severity]}: ")
        remedy = paragraph(tag("span", "What to do: ", class_="remedy"), sentence(finding.remedy))
        what = paragraph(word, sentence(finding.sentence))
        parts.append(tag("div", what, remedy, class_=f"finding {finding.severity}"))
    looked = [LOOKS[kind] for kind in LOOKS if kind in found.measured]
    if looked:
        parts.append(paragraph(f"Looked for: {listed(looked)}."))
    skipped = [f"{LOOKS.get(kind, kind)}: {reason}" for kind, reason in found.skipped.items()]
    if skipped:
        inside = [tag("summary", f"Not looked for: {count(len(skipped), 'thing')}"), bullets(map(sentence, skipped))]
        parts.append(tag("details", *inside))
    return Section("findings", title, joined(parts))


# -- How to get the same again ----------------------------------------------------------------------------------------

_LIBRARIES = ("numpy", "scipy", "scikit-learn")


def reproduce(material: Material) -> Section:
    """Return the section with command, code, versions, seed and digest."""
    subject = material.subject
    parts: list[Markup] = []
    if subject.command:
        parts += [paragraph("The command:"), code(subject.command)]
    if subject.code:
        parts += [paragraph("The same in Python:" if subject.command else "In Python:"), code(subject.code)]
    if not parts:
        parts.append(paragraph("Neither the command nor the code of the fit was recorded."))
    rows: list[list[Any]] = [["kpca", __version__]]
    rows += [[library, importlib.metadata.version(library)] for library in _LIBRARIES]
    rows += [["Python", platform.python_version()], ["Seed", str(subject.seed)]]
    rows += [["SHA-256 of the data", subject.data.digest or "not recorded"]]
    parts.append(table(["What", "Which"], rows, caption="Versions, seed and data.", left=(0, 1)))
    return Section("reproduce", "How to reproduce this", joined(parts))


# -- What the data is, and what was done to it ------------------------------------------------------------------------

_SHOWN = 12  # columns in the table
_PICTURES = 10


def data(material: Material) -> Section:
    """Return the section on the data."""
    subject, facts = material.subject, material.subject.data
    parts: list[Markup] = [paragraph(*_size(material))]
    text = "No entry is missing."
    if facts.missing:
        share = percent(facts.missing / max(facts.n_rows * facts.n_columns, 1))
        text = f"{count(facts.missing, 'entry is', 'entries are')} missing, {share}."
    parts.append(paragraph(text))
    if facts.treated:
        before = "Before the model saw the rows:"
        if not facts.of_fit:
            before = "The rows were treated like those the model was fitted to, for which this was noted:"
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
    low, high = material.picture_range
    made = []
    for i in material.spread_out(_PICTURES):
        text = material.id_texts[i]
        made.append(material.picture(material.dense[i], f"row {visible(text)}", visible(text, 24)))
    text = f"Rows from all over the data; black is {number(low)}, white is {number(high)}."
    return [pictures(made), paragraph(text, class_="caption")]


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


# -- What a reader should take home, in a few sentences made from the numbers -----------------------------------------

_FAR = 2.0  # times the limit
_GRAVE = ("problem", "warning")
_EXPLAINED = (
    "Ordinary principal component analysis (PCA) looks for the few straight directions along which rows of numbers "
    "differ most. Kernel PCA does the same after each row has been described by how alike it is to the others; what "
    "“alike” means is said by a function of two rows, the kernel. Straight directions there are bent ones in the data, "
    "so that rings, branches and clusters can be seen.",
    "The space of these descriptions is called feature space. Its directions are the components, the place of a row "
    "along a component is its score, and the share of the variance says how much of the differences between rows a "
    "component accounts for.",
)


def summary(material: Material) -> Section:
    """Return the first section."""
    shares = shares_of(material.model)
    k = len(shares.values)
    held = f"{count(k, 'component holds', 'components hold')} {shares.words(k)} of the {shares.word}"
    first = f"{held} in feature space of {_of_what(material)}"
    parts = [
        tag("p", sentence(first), class_="lead"),
        bullets([*_columns_used(material), *_unusual(material), *_findings(material)]),
        tag("details", tag("summary", "What is kernel PCA?"), *map(paragraph, _EXPLAINED)),
    ]
    return Section("summary", "In short", joined(parts))


def _of_what(material: Material) -> str:
    """Return which rows the components are of: those of the fit, which need not be those of the report."""
    fitted, columns = rows_of(material.model), count(material.X.shape[1], "column")
    if fitted == material.of_rows:
        return f"{count(fitted, 'row')} and {columns}"
    about = f"this report is about {count(material.of_rows, 'row')}"
    return f"the {count(fitted, 'row')} and {columns} that the model was fitted to; {about}"


def _columns_used(material: Material) -> list[Any]:
    found = material.influence
    if isinstance(found, Refusal) or material.subject.image_shape is not None or not np.any(found.overall > 0):
        return []
    top = [name(material.names[j], 48) for j in found.order[:3] if found.overall[j] > 0]
    one = len(top) == 1
    which = "The column that moves" if one else "The columns that move"
    if found.how == "correlated":  # which says nothing about causes
        which = "The column that goes along with" if one else "The columns that go along with"
    tail = f" (of {len(found.overall):,})." if len(found.overall) > len(top) else "."
    return [joined([f"{which} the components most: ", Markup(listed(top)), tail])]


def _unusual(material: Material) -> list[Any]:
    found = material.anomalies
    if isinstance(found, Refusal):
        return []
    m, beyond = len(found.statistic), int(found.beyond.sum())
    far = int((found.statistic > _FAR * found.limit).sum())
    looked_at = f"Of {m:,} rows looked at, " if material.sampled else ""
    if not beyond:
        return [sentence(f"{looked_at}{'none' if looked_at else 'no row'} is beyond the limit of what is usual")]
    are = count(beyond, "is", "are") if looked_at else count(beyond, "row is", "rows are")
    text = f"{looked_at}{are} beyond the limit of what is usual ({percent(beyond / m)})"
    if not far:
        return [sentence(f"{text}, none more than twice as far out as the limit")]
    farthest = int(np.argmax(found.statistic))
    times = f", at {number(found.statistic[farthest] / found.limit, 2)} times the limit." if found.limit > 0 else "."
    much = f"{text}, {far:,} of them more than twice as far out; the farthest is row "
    return [joined([much, name(material.id_texts[farthest], 40), times])]


def _findings(material: Material) -> list[Any]:
    found = material.findings
    if isinstance(found, Refusal):
        return []
    if not found.findings:
        return ["The diagnostics found nothing to complain about."]
    first = found.findings[0]
    grave = sum(finding.severity in _GRAVE for finding in found)
    head = count(grave, "thing to attend to", "things to attend to") if grave else count(len(found), "remark")
    text = f"The diagnostics have {head}: {sentence(first.sentence)}"
    more = Markup(' <a href="#findings">All findings.</a>')
    return [joined([text, more]) if len(found) > 1 else text]
