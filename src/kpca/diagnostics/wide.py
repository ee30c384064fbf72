"""A bandwidth so large that the kernel is another, simpler one: linear PCA, or the kernel of minus the distance."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca import blas
from kpca.diagnostics.case import Case
from kpca.diagnostics.report import Finding, Look, Severity
from kpca.diagnostics.suggestion import in_words, usual_factor
from kpca.kernels import Chi2, Exponential, Kernel, Laplacian, Matern, Polynomial, RadialKernel, Sigmoid
from kpca.kernels.widening import widened
from kpca.linalg import largest_eigenpairs

FloatArray = NDArray[Any]
# Components whose scores are compared.
_COMPONENTS = 10
# The matrices must be aligned, and at most this share of the variance of scores may differ.
_ALIGNED, _SAME, _NEARLY = 0.99, 0.001, 0.01
# So many times the bandwidth is as good as infinitely wide.
_LIMIT = 1e4
# Of fewer rows any kernel is about linear.
_FEWEST = 5
# Beside k(x, x) this is rounding, where a kernel is not computed as its difference from that.
_ROUNDING = 1e-10


def linear_in_disguise(case: Case) -> Look | str:
    """Look whether scores are those of PCA: the alignment <B, L> / (|B| |L|) of B with L, the centred X X'.

    High alignment alone does not tell: in one or two dimensions it is high at bandwidths that still bend the data. So
    the leading scores are compared too, by what the best rotation and scaling of PCA's leaves of their variance
    (Procrustes). A warning: alignment from 0.99 and less than 0.1 % left; a note: less than 1 %. It is no problem: the
    answer is right, and available for less. Rows of many more features than rows often come to this at every bandwidth,
    as all their distances are alike.
    """
    if case.linear:
        return "the kernel is linear"
    if (reason := case.why_no_data()) is not None:
        return reason
    if len(np.unique(case.groups)) < _FEWEST:
        return f"there are fewer than {_FEWEST} different rows"
    L = _linear_matrix(case)
    alignment, left = _compared(case, case.matrix, L)
    if not np.isfinite(alignment):
        return "all rows are alike"
    severity = _severity(alignment, left)
    also = (("linear_scores", left),)
    if severity is None:
        return Look(alignment, also=also)
    sentence = (
        f"This is {'' if severity == 'warning' else 'nearly '}linear PCA: scores differ from those of "
        f"kernel='linear' in {_share(left)} of their variance (alignment of the two kernel matrices "
        f"{alignment:.4f}{case.sampled})."
    )
    return Look(alignment, Finding("linear", alignment, sentence, _linear_remedy(case), severity), also)


def without_bandwidth(case: Case) -> Look | str:
    """Look whether a wider bandwidth would change nothing, for kernels whose limit is not linear PCA.

    exp(-r/l) tends to 1 - r/l, so B to that of minus the distance (Laplacian: sum of absolute differences; chi2: the
    additive chi-squared distance), which has no bandwidth left. The figure is the alignment with that limit; the rule
    is that for linear PCA.
    """
    if (reason := case.why_no_data()) is not None:
        return reason
    factor = usual_factor(case.kernel, case.some)
    # the limit is reached from a usual bandwidth, so that digits do not end first where the bandwidth is huge already
    far = None if factor is None else widened(case.kernel, _LIMIT * factor)
    if factor is None or far is None:
        return f"the {case.kernel.name} kernel has no bandwidth, or none that matters for these rows"
    limit = case.matrix_of(far)
    if _severity(*_compared(case, limit, _linear_matrix(case))) is not None:
        return "with a wide bandwidth this kernel is linear PCA, which is looked at"
    alignment, left = _compared(case, case.matrix, limit)
    severity = _severity(alignment, left)
    narrower = f"Take a narrower bandwidth: {in_words(case.kernel, _narrower(factor), case.model.kernel)}."
    if severity is None:
        return _alike(case, alignment, narrower)
    name = _limit_name(case.kernel)
    sentence = (
        f"The bandwidth is so large that it no longer matters: scores differ from those of the kernel of {name} in "
        f"{_share(left)} of their variance (alignment {alignment:.4f}{case.sampled})."
    )
    remedy = narrower
    if isinstance(case.kernel, Chi2):
        remedy += " Or take kernel='additive_chi2', which is the same."
    return Look(alignment, Finding("flat", alignment, sentence, remedy, severity))


def _alike(case: Case, alignment: float, remedy: str) -> Look | str:
    """Return what is to be said of a bandwidth so large that only rounding tells rows apart."""
    length = float(case.roots**2 @ np.abs(case.kernel.diagonal(case.some)))
    spread = float(np.trace(case.matrix)) / length
    if not (spread < _ROUNDING and len(np.unique(case.groups)) > 1):
        return Look(alignment) if np.isfinite(alignment) else "all rows are alike"
    sentence = (
        f"The bandwidth is so large that rows are alike but for rounding: their variance is {max(spread, 0.0):.1g} of "
        "k(x, x)."
    )
    return Look(spread, Finding("flat", spread, sentence, remedy, "problem"))


def alignment_of(A: FloatArray, B: FloatArray) -> float:
    """Return <A, B> / (|A| |B|), NaN if one of them is 0."""
    A, B = _unit(A), _unit(B)
    sizes = float(np.linalg.norm(A)) * float(np.linalg.norm(B))
    return float(np.vdot(A, B)) / sizes if sizes > 0 else float("nan")


def _unit(A: FloatArray) -> FloatArray:
    """Return A over its largest entry: squares then neither overflow nor vanish."""
    largest = float(np.abs(A).max(initial=0.0))
    unit: FloatArray = A / largest if largest > 0 else A
    return unit


def left_by_procrustes(T: FloatArray, P: FloatArray) -> float:
    """Return the share of |T|^2 that no rotation and scaling of P reproduces: 1 - |T'P|_*^2 / (|T|^2 |P|^2)."""
    T, P = _unit(T), _unit(P)
    sizes = float(np.vdot(T, T)) * float(np.vdot(P, P))
    shared = float(np.linalg.svd(T.T @ P, compute_uv=False).sum())
    return max(0.0, 1.0 - shared**2 / sizes) if sizes > 0 else float("nan")


def _compared(case: Case, A: FloatArray, B: FloatArray) -> tuple[float, float]:
    count = min(len(case.values), _COMPONENTS)
    return alignment_of(A, B), left_by_procrustes(_scores(A, count), _scores(B, count))


def _scores(M: FloatArray, count: int) -> FloatArray:
    """Return U sqrt(lambda) of the largest eigenvalues.  # shape: (m, count)"""
    with blas.single_threaded():
        found = largest_eigenpairs(M.copy(), min(count, len(M)))
    scores: FloatArray = found.vectors * np.sqrt(np.maximum(found.values, 0.0))
    return scores


def _severity(alignment: float, left: float) -> Severity | None:
    if not (alignment >= _ALIGNED and left < _NEARLY):
        return None
    return "warning" if left < _SAME else "note"


def _linear_matrix(case: Case) -> FloatArray:
    """Return the centred X X' of the rows as the kernel scales their features.  # shape: (m, m)"""
    kernel, rows = case.kernel, case.some
    if isinstance(kernel, RadialKernel) and not isinstance(kernel._scale()[1], float):
        rows = kernel.prepare(rows)
    largest = float(abs(rows).max())
    return case.products_of(rows / largest if largest > 0 else rows)  # of which no square vanishes


def _share(left: float) -> str:
    return "less than 0.1 %" if left < _SAME else f"{100 * left:.1f} %"


def _narrower(factor: float) -> float:
    """Return by how much to change the bandwidth: to the usual one, but at least to a third."""
    return min(factor, 1.0 / 3.0)


def _linear_remedy(case: Case) -> str:
    same = "kernel='linear' gives the same for less."
    match case.kernel:
        case Polynomial(degree=1):
            return f"Take a degree of 2 or more if bends are wanted; {same}"
        case Polynomial():
            return f"Let higher powers count: a larger gamma or a smaller coef0; {same}"
        case Sigmoid():
            return f"Take a larger gamma if bends are wanted; {same}"
    factor = usual_factor(case.kernel, case.some)
    if factor is None:
        return f"If bends are wanted, take a kernel that has them; {same}"
    return f"If bends are wanted, take {in_words(case.kernel, _narrower(factor), case.model.kernel)}; {same}"


def _limit_name(kernel: Kernel) -> str:
    match kernel:
        case Exponential() | Matern(nu=0.5):
            return "-|x - y|"
        case Laplacian():
            return "-|x - y|_1, the sum of absolute differences"
        case Chi2():
            return "minus the additive chi-squared distance"
    return "an infinite bandwidth"
