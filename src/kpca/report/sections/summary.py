"""What a reader should take home, in a few sentences made from the numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from kpca.facts import rows_of
from kpca.report.markup import Markup, bullets, joined, name, paragraph, tag
from kpca.report.material import Material, Refusal
from kpca.report.sections.base import Section
from kpca.report.sections.spectrum import shares_of
from kpca.report.words import count, number, percent, sentence

_FAR = 2.0  # times the limit
_GRAVE = ("problem", "warning")


def summary(material: Material) -> Section:
    """Return the first section."""
    shares = shares_of(material.model)
    k = len(shares.values)
    first = (
        f"{count(k, 'component holds', 'components hold')} {shares.words(k)} of the {shares.word} in feature space of "
        f"{_of_what(material)}"
    )
    parts = [
        tag("p", sentence(first), class_="lead"),
        bullets([*_columns(material), *_unusual(material), *_findings(material)]),
        tag("details", tag("summary", "What is kernel PCA?"), *_explained()),
    ]
    return Section("summary", "In short", joined(parts))


def _of_what(material: Material) -> str:
    """Return which rows the components are of: those of the fit, which need not be those of the report."""
    fitted, columns = rows_of(material.model), count(material.X.shape[1], "column")
    if fitted == material.of_rows:
        return f"{count(fitted, 'row')} and {columns}"
    return (
        f"the {count(fitted, 'row')} and {columns} that the model was fitted to; this report is about "
        f"{count(material.of_rows, 'row')}"
    )


def _explained() -> list[Markup]:
    return [
        paragraph(
            "Ordinary principal component analysis (PCA) looks for the few straight directions along which rows of "
            "numbers differ most. Kernel PCA does the same after each row has been described by how alike it is to the "
            "others; what “alike” means is said by a function of two rows, the kernel. Straight directions there are "
            "bent ones in the data, so that rings, branches and clusters can be seen."
        ),
        paragraph(
            "The space of these descriptions is called feature space. Its directions are the components, the place of "
            "a row along a component is its score, and the share of the variance says how much of the differences "
            "between rows a component accounts for."
        ),
    ]


def _columns(material: Material) -> list[Any]:
    found = material.influence
    if isinstance(found, Refusal) or material.subject.image_shape is not None or not np.any(found.overall > 0):
        return []
    top = [name(material.names[j], 48) for j in found.order[:3] if found.overall[j] > 0]
    parts: list[Any] = [top[0]]
    for place, one in enumerate(top[1:], 2):
        parts += [" and " if place == len(top) else ", ", one]
    rest = len(found.overall) - len(top)
    which = "The column that moves" if len(top) == 1 else "The columns that move"
    if found.how == "correlated":  # which says nothing about causes
        which = "The column that goes along with" if len(top) == 1 else "The columns that go along with"
    tail = f" (of {len(found.overall):,})." if rest else "."
    return [joined([f"{which} the components most: ", *parts, tail])]


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
