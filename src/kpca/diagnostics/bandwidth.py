"""A bandwidth that suits the rows, in the words of the parameter that the user has in hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca._base.linalg import largest_eigenpairs
from kpca._base.threads import single_threaded
from kpca.diagnostics.case import Case, Entries
from kpca.diagnostics.report import Finding, Look, Severity
from kpca.kernels import (
    Chi2,
    GaussianProcess,
    Kernel,
    PairwiseCallable,
    Polynomial,
    RadialKernel,
    Sigmoid,
    VectorisedCallable,
)
from kpca.kernels.base import has_bandwidth, widened
from kpca.spectrum.result import participation_ratio, unrelated_ratio

FloatArray = NDArray[Any]
# What the median rule makes of the median pair under a Gaussian: exp(-1/2).
_USUAL = math.exp(-0.5)
_ROWS, _STEPS, _FARTHEST = 200, 60, 60.0


def usual_factor(kernel: Kernel, rows: Any) -> float | None:
    """Return by how much to widen the bandwidth so that the median pair of rows has similarity exp(-1/2).

    For a Gaussian that is the median rule. None where no bandwidth does it.
    """
    some = rows[:: max(1, rows.shape[0] // _ROWS)]
    low, high = -_FARTHEST, _FARTHEST  # decimal logarithms
    if not _median(kernel, some, 10.0**low) <= _USUAL <= _median(kernel, some, 10.0**high):  # or one is NaN
        return None
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _median(kernel, some, 10.0**middle) < _USUAL else (low, middle)
    return float(10.0**high)


def _median(kernel: Kernel, rows: Any, factor: float) -> float:
    """Return the median similarity k(x, y) / sqrt(k(x, x) k(y, y)) of pairs, NaN where there is no bandwidth."""
    wider = widened(kernel, factor)
    if wider is None:
        return float("nan")
    with np.errstate(over="ignore", under="ignore"):
        K = wider.block(rows, rows).astype(np.float64)
    lengths = np.sqrt(np.abs(np.diagonal(K)))
    lengths[lengths == 0] = 1.0
    pairs = (K / np.multiply.outer(lengths, lengths))[np.triu_indices(len(K), 1)]
    return float(np.median(pairs)) if len(pairs) else float("nan")


def in_words(kernel: Kernel, factor: float, given: Any) -> str:
    """Return "gamma about 0.03" for a kernel widened by a factor; `given` is the kernel as the user named it."""
    wider = widened(kernel, factor)
    name = None if wider is None or wider.bandwidth is None else wider.bandwidth[0]
    value = getattr(wider, name) if name else None
    if name == "gamma":
        return f"each gamma times {1 / factor**2:.2g}" if isinstance(value, tuple) else f"gamma about {value:.2g}"
    return _length(value, given) if isinstance(value, float) else f"bandwidths times {factor:.2g}"


def _length(length: float, given: Any) -> str:
    # by name these kernels take gamma = 1 / (2 length^2)
    return f"gamma about {0.5 / length**2:.2g}" if isinstance(given, str) else f"length_scale about {length:.2g}"


# -- A bandwidth so small that no row has a neighbour: K tends to the identity, and the structure is lost -------------

# Rows whose nearest other row is looked for among all, and columns of that at a time.
_PROBES, _PROBES_OF_CALLS, _COLUMNS = 100, 20, 4096


def too_narrow(case: Case) -> Look | str:
    """Look whether the spectrum is as flat as that of K = I, because no row resembles any other.

    The figure is the participation ratio (tr B)^2 / |B|^2 over what it would be if rows that differ had nothing in
    common: n - 1 for n different rows of weight 1. It alone does not tell: independent noise of many more features than
    rows is as flat at every bandwidth, because all its distances are about equal. So the nearest other row is looked at
    too: its similarity, in the median over rows, is 0.14 or more at 1 / n_features on standardised data, and near 0
    where the bandwidth is to blame. A problem: ratio from 0.9, nearest below 0.1. A warning: ratio from 0.8, nearest
    below 0.3, and a mean similarity below 0.02.
    """
    kernel = case.kernel
    if (reason := case.why_no_rows()) is not None:
        return reason
    unknown = isinstance(kernel, Entries | GaussianProcess | PairwiseCallable | VectorisedCallable)
    if not unknown and not has_bandwidth(kernel):
        return f"the {kernel.name} kernel has no bandwidth"
    ratio, estimated = _flatness(case)
    if ratio is None:
        return "there are fewer than 3 different rows with variance"
    nearest, mean = _similarities(case)
    severity: Severity | None = None
    if ratio >= 0.8 and nearest < 0.3 and mean < 0.02:
        severity = "warning"
    if ratio >= 0.9 and nearest < 0.1:
        severity = "problem"
    also = (("nearest_similarity", nearest),)
    if severity is None:
        return Look(ratio, also=also)
    sentence = (
        f"Hardly any row resembles another under this kernel (the nearest one has a similarity of {nearest:.2g}, "
        f"1 is the same), and the spectrum is {100 * ratio:.1f} % as flat as that of rows with nothing in "
        f"common{estimated}: components show single rows, the structure is lost."
    )
    return Look(ratio, Finding("narrow", ratio, sentence, _remedy(case), severity), also)


def _remedy(case: Case) -> str:
    factor = usual_factor(case.kernel, case.some) if not case.precomputed else None
    if factor is None:
        return "Take a wider bandwidth, so that neighbours have a similarity well above 0."
    words = in_words(case.kernel, factor, case.model.kernel)
    return (
        f"Take a wider bandwidth: {words} (the median rule), {_times(factor)} times as wide, gives a typical pair of "
        "rows a similarity of 0.6."
    )


def _times(factor: float) -> str:
    return f"{factor:,.0f}" if factor >= 10 else f"{factor:.2g}"


def _flatness(case: Case) -> tuple[float | None, str]:
    """Return the participation ratio over its limit for K = I, and what to say if it is that of a sample."""
    model, n = case.model, case.rows.shape[0]
    everything = np.ones(n) if case.weights is None else case.weights
    frobenius2 = float(getattr(model, "_frobenius2", np.nan))
    exact = case.whole and case.center and case.feature_map is None and frobenius2 > 0  # NaN is not
    if exact and len(case.values) and case.values[0] > 0:
        trace = float(case.values[0]) / float(model.explained_variance_ratio_[0])
        limit = unrelated_ratio(np.bincount(case.groups, weights=everything))
        return (participation_ratio(trace, frobenius2) / limit if limit >= 2 else None), ""
    B = case.matrix
    trace, frobenius2 = float(np.trace(B)), float(np.vdot(B, B))
    masses = np.bincount(np.unique(case.groups[case.sample], return_inverse=True)[1], weights=case.roots**2)
    limit = unrelated_ratio(masses)
    return (participation_ratio(trace, frobenius2) / limit if limit >= 2 and frobenius2 > 0 else None), case.sampled


def _similarities(case: Case) -> tuple[float, float]:
    """Return the similarity of the nearest other row, in the median over rows, and the mean one, of |k| normalised."""
    kernel, n = case.kernel, case.rows.shape[0]
    columns = case.sample if case.slow else np.arange(n)
    probes = case.sample[:: max(1, len(case.sample) // (_PROBES_OF_CALLS if case.slow else _PROBES))]
    nearest, total, count = np.zeros(len(probes)), 0.0, 0
    some = case.rows[probes]
    own = np.abs(kernel.diagonal(some))
    for start in range(0, len(columns), _COLUMNS):
        these = columns[start : start + _COLUMNS]
        others = case.rows[these]
        sizes = np.sqrt(np.multiply.outer(own, np.abs(kernel.diagonal(others))))
        K = np.abs(np.asarray(kernel.block(some, others), dtype=np.float64))
        K = np.divide(K, sizes, out=np.zeros_like(K), where=sizes > 0)
        K[case.groups[probes][:, None] == case.groups[these][None, :]] = 0.0
        np.maximum(nearest, K.max(axis=1), out=nearest)
        total, count = total + float(K.sum()), count + K.size
    return float(np.median(nearest)), total / max(count, 1)


# -- A bandwidth so large that the kernel is another, simpler one: linear PCA, or the kernel of minus the distance ----

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
    with single_threaded():
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
    if isinstance(kernel, RadialKernel) and kernel.singular_at_zero:
        return "-|x - y|"
    distances = {"l1": "-|x - y|_1, the sum of absolute differences", "chi2": "minus the additive chi-squared distance"}
    return distances.get(kernel.shared[0] if kernel.shared else "", "an infinite bandwidth")
