"""The data, what to watch out for, how to reproduce it, and all in short."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Iterator
from typing import Any

import numpy as np

from kpca import __version__
from kpca.estimators.summary import rows_of
from kpca.report.components import shares_of
from kpca.report.material import Material, Refusal, UnusualRows, not_here
from kpca.report.packing import Markup, bullets, code, joined, name, pictures, table, tag
from kpca.report.words import count, listed, number, percent, sentence, visible

_NOTHING = "The diagnostics found nothing to complain about."
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


def findings(material: Material) -> Iterator[Markup]:
    """Make the section on the diagnostics."""
    found = material.findings
    if isinstance(found, Refusal):
        yield not_here("The diagnostics could not be run.", found)
        return
    yield tag("p", f"The diagnostics have {count(len(found), 'finding')}." if found.findings else _NOTHING)
    for finding in found:
        what = tag("p", tag("strong", f"{_GRAVITY[finding.severity]}: "), sentence(finding.sentence))
        remedy = tag("p", tag("span", "What to do: ", class_="remedy"), sentence(finding.remedy))
        yield tag("div", what, remedy, class_=f"finding {finding.severity}")
    looked = [LOOKS[kind] for kind in LOOKS if kind in found.measured]
    if looked:
        yield tag("p", f"Looked for: {listed(looked)}.")
    skipped = [f"{LOOKS.get(kind, kind)}: {reason}" for kind, reason in found.skipped.items()]
    if skipped:
        inside = [tag("summary", f"Not looked for: {count(len(skipped), 'thing')}"), bullets(map(sentence, skipped))]
        yield tag("details", *inside)


# -- How to get the same again ----------------------------------------------------------------------------------------

_LIBRARIES = ("numpy", "scipy", "scikit-learn")


def reproduce(material: Material) -> Iterator[Markup]:
    """Make the section with command, code, versions, seed and digest."""
    subject = material.subject
    if subject.command:
        yield tag("p", "The command:")
        yield code(subject.command)
    if subject.code:
        yield tag("p", "The same in Python:" if subject.command else "In Python:")
        yield code(subject.code)
    if not subject.command and not subject.code:
        yield tag("p", "Neither the command nor the code of the fit was recorded.")
    rows = [["kpca", __version__]]
    rows += [[library, importlib.metadata.version(library)] for library in _LIBRARIES]
    rows += [["Python", platform.python_version()], ["Seed", str(subject.seed)]]
    rows += [["SHA-256 of the data", subject.data.digest or "not recorded"]]
    yield table(["What", "Which"], rows, caption="Versions, seed and data.", left=(0, 1))


# -- What the data is, and what was done to it ------------------------------------------------------------------------

_SHOWN = 12  # columns in the table
_PICTURES = 10


def data(material: Material) -> Iterator[Markup]:
    """Make the section on the data."""
    subject, facts = material.subject, material.subject.data
    yield tag("p", *_size(material))
    text = "No entry is missing."
    if facts.missing:
        share = percent(facts.missing / max(facts.n_rows * facts.n_columns, 1))
        text = f"{count(facts.missing, 'entry is', 'entries are')} missing, {share}."
    yield tag("p", text)
    if facts.treated:
        before = "Before the model saw the rows:"
        if not facts.of_fit:
            before = "The rows were treated like those the model was fitted to, for which this was noted:"
        yield tag("p", before)
        yield bullets(sentence(text) for text in facts.treated)
    if subject.image_shape is None:
        d, rows = material.X.shape[1], []
        for column, called in enumerate(material.names[:_SHOWN]):
            values = material.column(column)
            spread = [number(at) for at in np.quantile(values, [0.0, 0.5, 1.0])]
            rows.append([name(called), *spread, f"{len(np.unique(values)):,}"])
        which = "All columns" if d <= _SHOWN else f"The first {_SHOWN} of {d:,} columns"
        units = ", as the model sees them" if facts.treated and subject.restore is None else ""
        of = f", over {count(len(material.rows), 'row')}" if material.sampled else ""
        titles = ["Column", "Lowest", "Median", "Highest", "Different values"]
        yield table(titles, rows, caption=f"{which}{units}{of}.")
        return
    shown = [(material.dense[i], material.id_texts[i]) for i in material.spread_out(_PICTURES)]
    yield pictures(material.picture(row, f"row {visible(text)}", visible(text, 24)) for row, text in shown)
    low, high = map(number, material.picture_range)
    yield tag("p", f"Rows from all over the data; black is {low}, white is {high}.", class_="caption")


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


def summary(material: Material) -> Iterator[Markup]:
    """Make the first section."""
    shares = shares_of(material.model)
    k, fitted = len(shares.values), rows_of(material.model)
    held = f"{count(k, 'component holds', 'components hold')} {shares.words(k)} of the {shares.word}"
    of = f"{count(fitted, 'row')} and {count(material.X.shape[1], 'column')}"
    if fitted != material.of_rows:  # the components are of the rows of the fit, which need not be those of the report
        of = f"the {of} that the model was fitted to; this report is about {count(material.of_rows, 'row')}"
    yield tag("p", sentence(f"{held} in feature space of {of}"), class_="lead")
    yield bullets(_points(material))
    yield tag("details", tag("summary", "What is kernel PCA?"), *(tag("p", text) for text in _EXPLAINED))


def _points(material: Material) -> Iterator[Any]:
    """Say what moves the components, how many rows are unusual, and what the diagnostics found."""
    drivers, unusual, found = material.influence, material.anomalies, material.findings
    pictured = material.subject.image_shape is not None
    if not (isinstance(drivers, Refusal) or pictured) and np.any(drivers.overall > 0):
        top = [name(material.names[j], 48) for j in drivers.order[:3] if drivers.overall[j] > 0]
        one = len(top) == 1
        which = "The column that moves" if one else "The columns that move"
        if drivers.how == "correlated":  # which says nothing about causes
            which = "The column that goes along with" if one else "The columns that go along with"
        tail = f" (of {len(drivers.overall):,})." if len(drivers.overall) > len(top) else "."
        yield joined([f"{which} the components most: ", Markup(listed(top)), tail])
    if not isinstance(unusual, Refusal):
        yield _unusual(material, unusual)
    if isinstance(found, Refusal):
        return
    if not found.findings:
        yield _NOTHING
        return
    grave = sum(finding.severity in _GRAVE for finding in found)
    head = count(grave, "thing to attend to", "things to attend to") if grave else count(len(found), "remark")
    more = Markup(' <a href="#findings">All findings.</a>' if len(found) > 1 else "")
    yield joined([f"The diagnostics have {head}: {sentence(found.findings[0].sentence)}", more])


def _unusual(material: Material, found: UnusualRows) -> Any:
    m, beyond = len(found.statistic), int(found.beyond.sum())
    far = int((found.statistic > _FAR * found.limit).sum())
    looked_at = f"Of {m:,} rows looked at, " if material.sampled else ""
    if not beyond:
        return sentence(f"{looked_at}{'none' if looked_at else 'no row'} is beyond the limit of what is usual")
    are = count(beyond, "is", "are") if looked_at else count(beyond, "row is", "rows are")
    text = f"{looked_at}{are} beyond the limit of what is usual ({percent(beyond / m)})"
    if not far:
        return sentence(f"{text}, none more than twice as far out as the limit")
    farthest = int(np.argmax(found.statistic))
    times = f", at {number(found.statistic[farthest] / found.limit, 2)} times the limit." if found.limit > 0 else "."
    much = f"{text}, {far:,} of them more than twice as far out; the farthest is row "
    return joined([much, name(material.id_texts[farthest], 40), times])
