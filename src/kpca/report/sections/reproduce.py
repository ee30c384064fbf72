"""How to get the same again."""

from __future__ import annotations

import importlib.metadata
import platform
from typing import Any

from kpca import __version__
from kpca.report.markup import Markup, code, joined, paragraph, table
from kpca.report.material import Material
from kpca.report.sections.base import Section

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
