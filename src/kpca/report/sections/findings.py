"""What may be the matter with the model: the findings of the diagnostics."""

from __future__ import annotations

from kpca.report.markup import Markup, bullets, joined, paragraph, tag
from kpca.report.material import Material, Refusal
from kpca.report.sections.base import Section, not_here
from kpca.report.words import count, listed, sentence

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
    parts: list[Markup] = []
    if found.findings:
        parts.append(paragraph(f"The diagnostics have {count(len(found), 'finding')}."))
    else:
        parts.append(paragraph("The diagnostics found nothing to complain about."))
    for finding in found:
        word = tag("strong", f"{_GRAVITY[finding.severity]}: ")
        remedy = paragraph(tag("span", "What to do: ", class_="remedy"), sentence(finding.remedy))
        parts.append(
            tag("div", paragraph(word, sentence(finding.sentence)), remedy, class_=f"finding {finding.severity}")
        )
    looked = [LOOKS[kind] for kind in LOOKS if kind in found.measured]
    if looked:
        parts.append(paragraph(f"Looked for: {listed(looked)}."))
    skipped = [f"{LOOKS.get(kind, kind)}: {reason}" for kind, reason in found.skipped.items()]
    if skipped:
        inside = [tag("summary", f"Not looked for: {count(len(skipped), 'thing')}"), bullets(map(sentence, skipped))]
        parts.append(tag("details", *inside))
    return Section("findings", title, joined(parts))
