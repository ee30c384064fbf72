"""The sections of a report, one per file: each makes HTML, and the data of its interactive pictures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kpca.report.material import Refusal
from kpca.report.words import Markup, paragraph, sentence

# -- What a section is ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Section:
    """A part of the page."""

    id: str
    title: str
    body: Markup
    data: Mapping[str, Any] = field(default_factory=dict)  # for the script, by the name of the picture


def not_here(what: str, refusal: Refusal) -> Markup:
    """Return the sentence that stands in the place of something that this model does not serve."""
    return paragraph(f"{what} ", sentence(refusal.sentence), class_="refusal")
