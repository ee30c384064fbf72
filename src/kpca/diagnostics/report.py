"""What a check returns: findings, everything that was measured, and what could not be looked at."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Severity = Literal["note", "warning", "problem"]
GRAVEST_FIRST: tuple[Severity, ...] = ("problem", "warning", "note")


def graded(figure: float, **limits: float) -> Severity | None:
    """Return how grave a figure is, by the limits from which it is a note, a warning, a problem."""
    return next((level for level in GRAVEST_FIRST if figure >= limits.get(level, math.inf)), None)


@dataclass(frozen=True)
class Finding:
    """One thing that is the matter: its measured figure, what it means, and what to do."""

    kind: str
    number: float
    sentence: str
    remedy: str
    severity: Severity

    def __str__(self) -> str:
        return f"[{self.severity}] {self.kind}: {self.sentence}\n    {self.remedy}"


@dataclass(frozen=True)
class Look:
    """What one look has measured; it is a finding if it has a severity. `also` are further figures by name."""

    number: float
    severity: Severity | None = None
    sentence: str = ""
    remedy: str = ""
    also: dict[str, float] = field(default_factory=dict)


class NotLooked(Exception):
    """Why a look could not be taken."""


@dataclass(frozen=True)
class Report:
    """Findings, the gravest first; an empty report is false.

    Attributes
    ----------
    findings : the findings.
    measured : kind -> figure, of everything that was looked at, also where all is well.
    skipped : kind -> why it could not be looked at.
    """

    findings: tuple[Finding, ...]
    measured: dict[str, float]
    skipped: dict[str, str]
    about: str = ""

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    def __contains__(self, kind: object) -> bool:
        return any(kind in (finding, finding.kind) for finding in self.findings)

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return the findings as plain dictionaries, for a table or JSON."""
        return [asdict(finding) for finding in self.findings]

    def __str__(self) -> str:
        count = {0: "Nothing is the matter", 1: "1 finding"}.get(len(self), f"{len(self)} findings")
        lines = [f"{count}{f' with {self.about}' if self.about else ''}."]
        lines += [str(finding) for finding in self.findings]
        if self.measured:
            lines.append("Looked at: " + ", ".join(f"{kind} {number:.3g}" for kind, number in self.measured.items()))
        lines += [f"Not looked at: {kind} ({reason})" for kind, reason in self.skipped.items()]
        return "\n".join(lines)
