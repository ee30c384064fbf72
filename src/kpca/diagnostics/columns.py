"""Features of wildly different scale: one of them may be all that the kernel sees."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kpca.diagnostics.case import Case
from kpca.diagnostics.report import Finding, Look, Severity
from kpca.kernels import ArcCosine, Cosine, Laplacian, RadialKernel

FloatArray = NDArray[Any]
# Shares of the squared distances in one feature that are a warning, and a problem.
_WARNING, _PROBLEM = 0.99, 0.9999
# What lies beyond these quantiles of a feature is brought to them: a few wild values are no scale.
_TAIL = 0.01
# Columns looked at together.
_COLUMNS = 256


def one_feature(case: Case) -> Look | str:
    """Look whether one feature makes up nearly all of the distances, as it does where units differ wildly.

    The figure is the largest feature's share of the total variance (Laplacian: of the mean absolute deviations), after
    the scaling that the kernel itself does, with the outermost 1 % on both sides clipped; constant features count for
    nothing. A warning from 99 %, a problem from 99.99 %, if other features vary at all.
    """
    if (reason := case.why_no_data()) is not None:
        return reason
    if case.rows.shape[1] < 2:
        return "there is one feature only"
    rows, absolute = case.some, isinstance(case.kernel, Laplacian)
    if isinstance(case.kernel, RadialKernel):
        rows = case.kernel.prepare(rows)
    elif isinstance(case.kernel, Cosine | ArcCosine):
        rows = Cosine().prepare(rows)
    spreads = _spreads(rows, absolute)
    varying = _varying(case.rows)
    total = float(spreads.sum())
    if total <= 0 or np.count_nonzero(varying) < 2:
        return "fewer than 2 features vary"
    largest = int(np.argmax(spreads))
    share = float(spreads[largest]) / total
    if share < _WARNING:
        return Look(share)
    name = f"Feature {largest}" if case.names is None else f"Feature {case.names[largest]!r}"
    severity: Severity = "problem" if share >= _PROBLEM else "warning"
    sentence = (
        f"{name} makes up {_percent(share)} of all distances; the kernel hardly sees the other "
        f"{case.rows.shape[1] - 1} features."
    )
    remedy = (
        "Bring features to a common scale, such as sklearn.preprocessing.StandardScaler in a pipeline, or give gamma "
        "one value per feature."
    )
    return Look(share, Finding("scale", share, sentence, remedy, severity))


def _percent(share: float) -> str:
    return "more than 99.99 %" if share > 0.9999 else f"{100 * share:.2f} %"


def _spreads(rows: Any, absolute: bool) -> FloatArray:
    """Return the variance (or mean absolute deviation) of each feature without its tails.  # shape: (d,)"""
    spreads = np.zeros(rows.shape[1])
    for start in range(0, rows.shape[1], _COLUMNS):
        part = rows[:, start : start + _COLUMNS]
        part = part.toarray() if sparse.issparse(part) else np.asarray(part, dtype=np.float64)
        low, high = np.quantile(part, [_TAIL, 1.0 - _TAIL], axis=0)
        part = np.clip(part, low, high)
        part = part - part[0]  # before the mean: an offset costs no digits
        part = part - part.mean(axis=0)
        spreads[start : start + _COLUMNS] = (np.abs(part) if absolute else part**2).mean(axis=0)
    return spreads


def _varying(rows: Any) -> NDArray[np.bool_]:
    """Return which features are not constant.  # shape: (d,)"""
    highest, lowest = rows.max(axis=0), rows.min(axis=0)
    if sparse.issparse(rows):
        highest, lowest = highest.toarray().ravel(), lowest.toarray().ravel()
    varying: NDArray[np.bool_] = np.asarray(highest) > np.asarray(lowest)
    return varying
