"""Components that another draw of the rows would change: eigenvalues too close together, and the bootstrap."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from kpca.diagnostics.case import Case
from kpca.diagnostics.report import Finding, Look, Severity
from kpca.stability import bootstrap_stability

# Less than half of the variance of a component's scores comes back.
_UNSTABLE = 0.5
# A span that comes back to this degree holds the same rows, whatever its components do inside.
_SPAN = 0.8
_COMPONENTS = 10
_NO_VARIANCE = 1e-10
# Groups of components that are named one by one.
_NAMED = 5


def near_equal(case: Case) -> Look | str:
    """Look for neighbouring eigenvalues whose gap is within their sampling error.

    An eigenvalue of n rows has a standard deviation of about sqrt(2/n) of itself; components closer than that are mixed
    at random (the rule of thumb of North, Bell, Cahalan and Moeng, 1982). The figure is the smallest relative gap. A
    note: their span is as good as ever, only its axes are not.
    """
    values = case.values[case.values > _NO_VARIANCE * max(float(case.values.max(initial=0.0)), 0.0)]
    if len(values) < 2:
        return "there are fewer than 2 components with variance"
    gaps = 1.0 - values[1:] / values[:-1]
    limit = math.sqrt(2.0 / max(case.effective, 1.0))
    smallest = float(gaps.min())
    if smallest >= limit:
        return Look(smallest)
    groups = _runs(gaps < limit)
    named = [_span(first, last) for first, last in groups[:_NAMED]]
    if len(groups) > _NAMED:
        named.append(f"{len(groups) - _NAMED} further groups")
    sentence = (
        f"Eigenvalues of components {_listed(named)} differ by as little as {100 * smallest:.2g} %, less than "
        f"sampling error ({100 * limit:.2g} %): within a group, components may rotate into each other."
    )
    remedy = "Interpret such components together, not one by one, and cut between groups; or use more rows."
    return Look(smallest, Finding("equal_eigenvalues", smallest, sentence, remedy, "note"))


def unstable(case: Case) -> Look | str:
    """Look which of the first 10 components change when the rows are drawn again, by the bootstrap.

    The figure is the lowest mean squared cosine between a component and its resampled self; below 0.5 less than half of
    the variance of its scores comes back. A note if there are several and the span of all stays (0.8 or more): they
    rotate among themselves. A warning otherwise, and a problem if not even the first component stays and all
    rows were used.
    """
    if (reason := case.why_no_rows()) is not None:
        return reason
    count = min(int(np.count_nonzero(case.values > _NO_VARIANCE * case.values.max(initial=0.0))), _COMPONENTS)
    distinct = len(np.unique(case.groups[case.sample]))
    if count == 0 or distinct < 5:
        return "there are fewer than 5 different rows with variance"
    found = bootstrap_stability(
        case.kernel,
        case.some,
        min(count, distinct - 1),
        center=case.center,
        resamples=case.resamples,
        seed=case.seed,
        threads=case.threads,
    )
    lowest = float(found.components.min())
    low = np.flatnonzero(found.components < _UNSTABLE)
    firm = int(low[0]) if len(low) else len(found.components)
    also = (("stable_components", float(firm)),)
    if not len(low):
        return Look(lowest, also=also)
    trusted = {0: "none of them can be trusted", 1: "the first can be trusted"}.get(
        firm, f"the first {firm} can be trusted"
    )
    stays = len(low) > 1 and float(found.subspaces[-1]) >= _SPAN
    plural = len(low) > 1
    sentence = (
        f"Component{'s' if plural else ''} {_listed([str(j + 1) for j in low])} of {len(found.components)} looked at "
        f"change{'' if plural else 's'} when the rows are drawn again: as little as {100 * lowest:.2g} % of the "
        f"variance of {'their' if plural else 'its'} scores comes back{case.sampled}; {trusted}."
    )
    # more rows than were drawn from may hold what these do not
    severity: Severity = "note" if stays else "warning" if firm or case.sampled else "problem"
    nothing = "Use more rows, or another kernel or bandwidth: there is nothing here that other rows confirm."
    remedy = {
        "note": "They rotate among each other, and their span stays: interpret them together.",
        "warning": f"Keep n_components={firm}, or use more rows." if firm else nothing,
        "problem": nothing,
    }[severity]
    return Look(lowest, Finding("unstable", lowest, sentence, remedy, severity), also)


def _runs(close: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return (first, last) component of each run of close neighbours, counted from 1."""
    runs: list[tuple[int, int]] = []
    for j in np.flatnonzero(close):
        if runs and runs[-1][1] == j + 1:
            runs[-1] = (runs[-1][0], int(j) + 2)
        else:
            runs.append((int(j) + 1, int(j) + 2))
    return runs


def _span(first: int, last: int) -> str:
    return f"{first} and {last}" if last == first + 1 else f"{first} to {last}"


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
