"""Rows that come more than once: they count as often, and cost as much."""

from __future__ import annotations

from scipy.sparse.linalg import LinearOperator

from kpca.diagnostics.case import Case
from kpca.diagnostics.entries import Entries
from kpca.diagnostics.report import Finding, Look

# Shares of rows that repeat another from which it is a note, and a warning.
_NOTE, _WARNING = 0.05, 0.3


def duplicated(case: Case) -> Look | str:
    """Look how many rows repeat another one, as the kernel sees them: parallel rows are the same to a cosine.

    The figure is the share of rows that could go. Nothing is wrong with the result, as each row counts as often as it
    comes; but weights give the same for less, and repeats that are an accident of how data were joined distort what is
    usual. A note from 5 %, a warning from 30 %.
    """
    if (reason := case.why_no_rows()) is not None:
        return reason
    if isinstance(case.kernel, Entries) and isinstance(case.kernel.K, LinearOperator):
        return "a LinearOperator has no entries to compare"
    n, distinct = case.rows.shape[0], int(case.groups.max()) + 1
    share = 1.0 - distinct / n
    if share < _NOTE:
        return Look(share)
    what = "rows" if case.whole else "rows of a sample"
    sentence = (
        f"Of {n:,} {what} {100 * share:.0f} % repeat another one ({distinct:,} differ); each counts as often as it "
        "comes."
    )
    remedy = (
        "If the repeats are an accident, drop them (numpy.unique); if they count, fit the different rows with "
        f"sample_weight = how often each comes: the same result from {distinct:,} rows."
    )
    return Look(share, Finding("duplicates", share, sentence, remedy, "warning" if share >= _WARNING else "note"))
