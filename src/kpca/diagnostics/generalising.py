"""Components that describe the rows they were fitted to, and no others: too few rows for what the kernel can bend."""

from __future__ import annotations

import numpy as np

from kpca.diagnostics.case import Case
from kpca.diagnostics.definiteness import negative_mass
from kpca.diagnostics.report import Finding, Look, Severity
from kpca.diagnostics.suggestion import in_words, usual_factor
from kpca.kernels import Composite, Kernel, Polynomial
from kpca.kernels.widening import has_bandwidth

# The share of variance explained of new rows over that of fitted rows: below these a warning, a problem.
_WARNING, _PROBLEM = 0.5, 0.1
# With more of the spectrum negative, shares of variance mean nothing.
_INDEFINITE = 0.01
# With less variance than this beside k(x, x), residuals are rounding.
_DIGITS = 1e-10


def overfitting(case: Case) -> Look | str:
    """Look what the components of one half of the rows explain of the other half.

    The figure is the share of the variance explained of rows that were held out over that of rows the components were
    fitted to, both in feature space. It is 0.8 to 1 for digits, wine and breast cancer with Gaussians of usual width,
    and below 0.4 for polynomials of degree 6 on wine. A warning below 0.5, a problem below 0.1. Of more than
    4000 rows 4000 are used, so for more the figure is on the safe side; it is then a warning at most.
    """
    if (reason := _why_not(case)) is not None:
        return reason
    inside = float(np.mean([half.explained for half in case.halves]))
    outside = float(np.mean([_explained_outside(case, number) for number in range(len(case.halves))]))
    if not (inside > 0 and np.isfinite(outside)):
        return "there is no variance"
    ratio, fitted = outside / inside, case.halves[0]
    if ratio >= _WARNING:
        return Look(ratio)
    used = sum(half.held.shape[0] for half in case.halves) * (1 if len(case.halves) > 1 else 2)
    all_used = case.whole and used >= case.rows.shape[0] - 1
    count = len(fitted.values)
    sentence = (
        f"The first {'component' if count == 1 else f'{count} components'} of one half of "
        f"{'the' if all_used else f'{used:,}'} rows explain{'s' if count == 1 else ''} {_percent(inside)} of its "
        f"variance, but {_percent(outside)} of the other half's: {_percent(ratio)} as much."
    )
    severity: Severity = "problem" if ratio < _PROBLEM and all_used else "warning"
    return Look(ratio, Finding("overfitting", ratio, sentence, _remedy(case), severity))


def _why_not(case: Case) -> str | None:
    reason = case.why_no_rows()
    if reason is not None:
        return reason
    if not case.kernel.psd and negative_mass(case.spectrum, 1e-9) > _INDEFINITE:
        reason = "the kernel is indefinite, so shares of variance mean nothing"
    elif not case.halves:
        reason = "there are fewer than 10 different rows"
    elif case.halves[0].variance < _DIGITS * case.halves[0].length:
        reason = "the variance is too small beside k(x, x) for residuals to have digits left"
    return reason


def _explained_outside(case: Case, number: int) -> float:
    half = case.halves[number]
    scores, left = half.parts(half.held, case.threads)
    explained = np.einsum("ij,ij->i", scores, scores)
    total = float(half.held_weights @ (explained + left))
    return float(half.held_weights @ explained) / total if total > 0 else float("nan")


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %"


def _remedy(case: Case) -> str:
    degree = _degree(case.kernel)
    if degree > 1:
        return f"Lower the degree (now {degree:g}), keep fewer components, or use more rows."
    if not case.precomputed and has_bandwidth(case.kernel):
        factor = usual_factor(case.kernel, case.some)
        if factor is not None and factor > 2:
            words = in_words(case.kernel, factor, case.model.kernel)
            return f"Take a wider bandwidth ({words}), keep fewer components, or use more rows."
    return "Keep fewer components, use more rows, or drop features that are noise."


def _degree(kernel: Kernel) -> float:
    """Return the highest degree of a polynomial in a kernel, 0 if there is none; those of a product add up."""
    if isinstance(kernel, Polynomial):
        return float(kernel.degree)
    if isinstance(kernel, Composite):
        degrees = [_degree(member) for member in kernel.members]
        return float(max(degrees) if kernel.name == "sum" else sum(degrees))
    return 0.0
