"""Rows restored from scores without a way back: by the mean of known rows whose scores are nearest."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.neighbors import NearestNeighbors

from kpca import blas

FloatArray = NDArray[Any]
NEIGHBOURS = 5
# Numbers gathered at once.
_GATHERED = 4_000_000


def restoration_errors(
    X: Any, scores: FloatArray, new: Any, new_scores: FloatArray, neighbours: int = NEIGHBOURS
) -> FloatArray:
    """Return the squared distance of each new row from the mean of the rows with the nearest scores.  # shape: (m,)

    Without scores all rows are equally near, and the mean of all is taken.
    """
    if not scores.shape[1]:
        return _squares_from_mean(X, new)
    count = min(neighbours, len(scores))
    nearest = _nearest(scores, new_scores, count)
    if sparse.issparse(X):
        ones = np.full(nearest.size, 1.0 / count)
        starts = np.arange(0, nearest.size + 1, count)
        mean = sparse.csr_array((ones, nearest.ravel(), starts), (len(nearest), X.shape[0]))
        gap = sparse.csr_array(new) - mean @ sparse.csr_array(X)
        return np.asarray(gap.multiply(gap).sum(axis=1), dtype=np.float64).ravel()
    errors = np.empty(len(nearest))
    step = max(1, _GATHERED // (count * X.shape[1]))
    for start in range(0, len(nearest), step):
        part = slice(start, start + step)
        gap = _dense(new[part]) - X[nearest[part]].mean(axis=1, dtype=np.float64)
        errors[part] = np.einsum("ij,ij->i", gap, gap)
    return errors


def _dense(X: Any) -> FloatArray:
    dense: FloatArray = X.toarray() if sparse.issparse(X) else X
    return dense


def _squares_from_mean(X: Any, new: Any) -> FloatArray:
    """Return the squared distance of each new row from the mean of the rows of X.  # shape: (m,)"""
    mean = np.asarray(X.mean(axis=0, dtype=np.float64)).ravel()
    errors = np.empty(new.shape[0])
    step = max(1, _GATHERED // X.shape[1])
    for start in range(0, len(errors), step):
        gap = _dense(new[start : start + step]) - mean
        errors[start : start + step] = np.einsum("ij,ij->i", gap, gap)
    return errors


def total_variance(X: Any) -> float:
    """Return the mean squared distance of the rows from their mean; 1 where they are all alike."""
    if sparse.issparse(X):
        X = X.astype(np.float64)
        mean = np.asarray(X.mean(axis=0)).ravel()
        total = float(X.multiply(X).sum()) / X.shape[0] - float(mean @ mean)
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            total = float(X.var(axis=0, dtype=np.float64).sum())
    return total if total > 0 else 1.0


def _nearest(scores: FloatArray, new_scores: FloatArray, count: int) -> NDArray[np.intp]:
    """Return the numbers of the rows with the nearest scores.  # shape: (m, count)"""
    found: NDArray[np.intp]
    with blas.no_openmp_threads():  # which of equal neighbours is taken would depend on how many threads look
        found = NearestNeighbors(n_neighbors=count).fit(scores).kneighbors(new_scores, return_distance=False)
    return found
