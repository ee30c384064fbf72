"""What may be the matter with a fitted model: each finding with its number, a sentence and a remedy."""

from kpca.diagnostics.checks import check
from kpca.diagnostics.report import Finding, Report

__all__ = ["Finding", "Report", "check"]
