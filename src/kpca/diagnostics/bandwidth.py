"""Bandwidths that do not suit the rows: too narrow for any neighbours, or so wide that the kernel is a simpler one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kpca import kernels
from kpca._base.linalg import FloatArray, largest_eigenpairs
from kpca._base.threads import single_threaded
from kpca.diagnostics.case import Case, Entries
from kpca.diagnostics.report import Look, NotLooked, Severity
from kpca.kernels import Kernel
from kpca.kernels.base import has_bandwidth, widened
from kpca.selection.path import alignment_of, in_unit_range
from kpca.spectrum.result import participation_ratio, unrelated_ratio

# The usual bandwidth gives the median pair this similarity, as the median rule does under a Gaussian; it is found on
# some rows by bisection, between decimal exponents of the factor.
_USUAL = math.exp(-0.5)
_ROWS, _STEPS, _FARTHEST = 200, 60, 60.0
# Rows whose nearest other row is looked for among all (fewer where each value is a call), and columns at a time.
_PROBES, _PROBES_OF_CALLS, _COLUMNS = 100, 20, 4096
# Components whose scores are compared.
_COMPONENTS = 10
# The matrices must be aligned, and at most this share of the variance of scores may differ.
_ALIGNED, _SAME, _NEARLY = 0.99, 0.001, 0.01
# So many times the bandwidth is as good as infinitely wide.
_LIMIT = 1e4
# A narrower bandwidth is the usual one, or this part of the present one if that is narrower still.
_NARROWER = 1.0 / 3.0
# Of fewer rows any kernel is about linear.
_FEWEST = 5
# Beside k(x, x) this is rounding, where a kernel is not computed as its difference from that.
_ROUNDING = 1e-10


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


def in_words(case: Case, factor: float) -> str:
    """Return "gamma about 0.03" for a bandwidth widened by a factor, by the parameter that the user has in hand."""
    wider = widened(case.kernel, factor)
    name = None if wider is None or wider.bandwidth is None else wider.bandwidth[0]
    value = getattr(wider, name) if name else None
    if name == "gamma":
        return f"each gamma times {1 / factor**2:.2g}" if isinstance(value, tuple) else f"gamma about {value:.2g}"
    if not isinstance(value, float):
        return f"bandwidths times {factor:.2g}"
    by_name = isinstance(case.model.kernel, str)  # these kernels then take gamma = 1 / (2 length^2)
    return f"gamma about {0.5 / value**2:.2g}" if by_name else f"length_scale about {value:.2g}"


def too_narrow(case: Case) -> Look:
    """Look whether the spectrum is as flat as that of K = I, because no row resembles any other.

    The figure is the participation ratio (tr B)^2 / |B|^2 over what it would be if rows that differ had nothing in
    common: n - 1 for n different rows of weight 1. It alone does not tell: independent noise of many more features than
    rows is as flat at every bandwidth, because all its distances are about equal. So the nearest other row is looked at
    too: its similarity, in the median over rows, is 0.14 or more at 1 / n_features on standardised data, and near 0
    where the bandwidth is to blame. A problem: ratio from 0.9, nearest below 0.1. A warning: ratio from 0.8, nearest
    below 0.3, and a mean similarity below 0.02.
    """
    kernel = case.kernel
    case.need_rows()
    foreign = Entries | kernels.GaussianProcess | kernels.PairwiseCallable | kernels.VectorisedCallable
    if not isinstance(kernel, foreign) and not has_bandwidth(kernel):
        raise NotLooked(f"the {kernel.name} kernel has no bandwidth")
    ratio, estimated = _flatness(case)
    if ratio is None:
        raise NotLooked("there are fewer than 3 different rows with variance")
    nearest, mean = _similarities(case)
    also = {"nearest_similarity": nearest}
    grave = ratio >= 0.9 and nearest < 0.1
    if not grave and not (ratio >= 0.8 and nearest < 0.3 and mean < 0.02):
        return Look(ratio, also=also)
    sentence = (
        f"Hardly any row resembles another under this kernel (the nearest one has a similarity of {nearest:.2g}, "
        f"1 is the same), and the spectrum is {100 * ratio:.1f} % as flat as that of rows with nothing in "
        f"common{estimated}: components show single rows, the structure is lost."
    )
    remedy = "Take a wider bandwidth, so that neighbours have a similarity well above 0."
    factor = None if case.precomputed else usual_factor(kernel, case.some)
    if factor is not None:
        times = f"{factor:,.0f}" if factor >= 10 else f"{factor:.2g}"
        gives = f"{times} times as wide, gives a typical pair of rows a similarity of 0.6"
        remedy = f"Take a wider bandwidth: {in_words(case, factor)} (the median rule), {gives}."
    return Look(ratio, "problem" if grave else "warning", sentence, remedy, also)


def _flatness(case: Case) -> tuple[float | None, str]:
    """Return the participation ratio over its limit for K = I, and what to say if it is that of a sample."""
    frobenius2 = float(getattr(case.model, "_frobenius2", np.nan))
    exact = case.whole and case.center and case.feature_map is None and frobenius2 > 0  # NaN is not
    if exact and len(case.values) and case.values[0] > 0:
        trace = float(case.values[0]) / float(case.model.explained_variance_ratio_[0])
        masses, estimated = np.bincount(case.groups, weights=case.weights), ""
    else:
        trace, frobenius2 = float(np.trace(case.matrix)), float(np.vdot(case.matrix, case.matrix))
        groups = np.unique(case.groups[case.sample], return_inverse=True)[1]
        masses, estimated = np.bincount(groups, weights=case.roots**2), case.sampled
    limit = unrelated_ratio(masses.astype(np.float64))
    return (participation_ratio(trace, frobenius2) / limit if limit >= 2 and frobenius2 > 0 else None), estimated


def _similarities(case: Case) -> tuple[float, float]:
    """Return the similarity of the nearest other row, in the median over rows, and the mean one, of |k| normalised."""
    kernel = case.kernel
    columns = case.sample if case.slow else np.arange(case.rows.shape[0])
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


def linear_in_disguise(case: Case) -> Look:
    """Look whether scores are those of PCA: the alignment <B, L> / (|B| |L|) of B with L, the centred X X'.

    High alignment alone does not tell: in one or two dimensions it is high at bandwidths that still bend the data. So
    the leading scores are compared too, by what the best rotation and scaling of PCA's leaves of their variance
    (Procrustes). A warning: alignment from 0.99 and less than 0.1 % left; a note: less than 1 %. It is no problem: the
    answer is right, and available for less. Rows of many more features than rows often come to this at every bandwidth,
    as all their distances are alike.
    """
    if isinstance(case.kernel, kernels.Linear):
        raise NotLooked("the kernel is linear")
    case.need_rows(of_data=True)
    if len(np.unique(case.groups)) < _FEWEST:
        raise NotLooked(f"there are fewer than {_FEWEST} different rows")
    alignment, left, severity = _compared(case, case.matrix, _linear_matrix(case))
    if not np.isfinite(alignment):
        raise NotLooked("all rows are alike")
    also = {"linear_scores": left}
    if severity is None:
        return Look(alignment, also=also)
    sentence = (
        f"This is {'' if severity == 'warning' else 'nearly '}linear PCA: scores differ from those of "
        f"kernel='linear' in {_share(left)} of their variance (alignment of the two kernel matrices "
        f"{alignment:.4f}{case.sampled})."
    )
    remedy = f"{_to_bend(case)}; kernel='linear' gives the same for less."
    return Look(alignment, severity, sentence, remedy, also)


def _to_bend(case: Case) -> str:
    """Return what makes a kernel that is all but linear bend the data."""
    match case.kernel:
        case kernels.Polynomial(degree=1):
            return "Take a degree of 2 or more if bends are wanted"
        case kernels.Polynomial():
            return "Let higher powers count: a larger gamma or a smaller coef0"
        case kernels.Sigmoid():
            return "Take a larger gamma if bends are wanted"
    factor = usual_factor(case.kernel, case.some)
    other = "a kernel that has them" if factor is None else in_words(case, min(factor, _NARROWER))
    return f"If bends are wanted, take {other}"


def without_bandwidth(case: Case) -> Look:
    """Look whether a wider bandwidth would change nothing, for kernels whose limit is not linear PCA.

    exp(-r/l) tends to 1 - r/l, so B to that of minus the distance (Laplacian: sum of absolute differences; chi2: the
    additive chi-squared distance), which has no bandwidth left. The figure is the alignment with that limit; the rule
    is that for linear PCA. It is a problem where only rounding tells rows apart.
    """
    case.need_rows(of_data=True)
    factor = usual_factor(case.kernel, case.some)
    # the limit is reached from a usual bandwidth, so that digits do not end first where the bandwidth is huge already
    far = None if factor is None else widened(case.kernel, _LIMIT * factor)
    if factor is None or far is None:
        raise NotLooked(f"the {case.kernel.name} kernel has no bandwidth, or none that matters for these rows")
    limit = case.matrix_of(far)
    if _compared(case, limit, _linear_matrix(case))[2] is not None:
        raise NotLooked("with a wide bandwidth this kernel is linear PCA, which is looked at")
    alignment, left, severity = _compared(case, case.matrix, limit)
    remedy = f"Take a narrower bandwidth: {in_words(case, min(factor, _NARROWER))}."
    if severity is None:
        length = float(case.roots**2 @ np.abs(case.kernel.diagonal(case.some)))
        spread = float(np.trace(case.matrix)) / length
        if not (spread < _ROUNDING and len(np.unique(case.groups)) > 1):
            if not np.isfinite(alignment):
                raise NotLooked("all rows are alike")
            return Look(alignment)
        size = f"their variance is {max(spread, 0.0):.1g} of k(x, x)"
        sentence = f"The bandwidth is so large that rows are alike but for rounding: {size}."
        return Look(spread, "problem", sentence, remedy)
    distances = {"l1": "-|x - y|_1, the sum of absolute differences", "chi2": "minus the additive chi-squared distance"}
    name = distances.get(case.kernel.shared[0] if case.kernel.shared else "", "an infinite bandwidth")
    if isinstance(case.kernel, kernels.RadialKernel) and case.kernel.singular_at_zero:
        name = "-|x - y|"
    sentence = (
        f"The bandwidth is so large that it no longer matters: scores differ from those of the kernel of "
        f"{name} in {_share(left)} of their variance (alignment {alignment:.4f}{case.sampled})."
    )
    if isinstance(case.kernel, kernels.Chi2):
        remedy += " Or take kernel='additive_chi2', which is the same."
    return Look(alignment, severity, sentence, remedy)


def _share(left: float) -> str:
    return "less than 0.1 %" if left < _SAME else f"{100 * left:.1f} %"


def _compared(case: Case, *matrices: FloatArray) -> tuple[float, float, Severity | None]:
    """Return the alignment of two matrices, what Procrustes leaves of the first one's scores, and how grave that is."""
    with single_threaded():
        found = [largest_eigenpairs(M.copy(), min(len(case.values), _COMPONENTS, len(M))) for M in matrices]
    scores = [pairs.vectors * np.sqrt(np.maximum(pairs.values, 0.0)) for pairs in found]  # shapes: (m, count)
    alignment, left = alignment_of(*matrices), left_by_procrustes(*scores)
    same = alignment >= _ALIGNED and left < _NEARLY
    return alignment, left, ("warning" if left < _SAME else "note") if same else None


def left_by_procrustes(T: FloatArray, P: FloatArray) -> float:
    """Return the share of |T|^2 that no rotation and scaling of P reproduces: 1 - |T'P|_*^2 / (|T|^2 |P|^2)."""
    T, P = in_unit_range(T), in_unit_range(P)
    sizes = float(np.vdot(T, T)) * float(np.vdot(P, P))
    shared = float(np.linalg.svd(T.T @ P, compute_uv=False).sum())
    return max(0.0, 1.0 - shared**2 / sizes) if sizes > 0 else float("nan")


def _linear_matrix(case: Case) -> FloatArray:
    """Return the centred X X' of the rows as the kernel scales their features.  # shape: (m, m)"""
    kernel, rows = case.kernel, case.some
    if isinstance(kernel, kernels.RadialKernel) and not isinstance(kernel._scale()[1], float):
        rows = kernel.prepare(rows)
    return case.products_of(in_unit_range(rows))
