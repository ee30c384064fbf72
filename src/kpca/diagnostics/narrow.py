"""A bandwidth so small that no row has a neighbour: K tends to the identity, and the structure is lost."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca.diagnostics.case import Case
from kpca.diagnostics.entries import Entries
from kpca.diagnostics.report import Finding, Look, Severity
from kpca.diagnostics.suggestion import in_words, usual_factor
from kpca.kernels import GaussianProcess, PairwiseCallable, VectorisedCallable
from kpca.kernels.widening import has_bandwidth
from kpca.spectrum.participation import participation_ratio, unrelated_ratio

FloatArray = NDArray[Any]
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
