"""Rows restored from scores without a way back: by the mean of known rows whose scores are nearest."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.neighbors import NearestNeighbors

from kpca import blas

FloatArray = NDArray[Any]
NEIGHBOURS = 5
# Multiplications up to which neighbours are found before threads have met.
_SHORT = 20_000_000
# Numbers gathered at once.
_GATHERED = 4_000_000


def restoration_errors(
    X: Any, scores: FloatArray, new: Any, new_scores: FloatArray, neighbours: int = NEIGHBOURS
) -> FloatArray:
    """Return the squared distance of each new row from the mean of the rows with the nearest scores.  # shape: (m,)

    Without scores all rows are equally near, and the mean of all is taken.
    """
    count = min(neighbours, len(scores)) if scores.shape[1] else len(scores)
    nearest = _nearest(scores, new_scores, count) if scores.shape[1] else np.tile(np.arange(count), (new.shape[0], 1))
    if sparse.issparse(X):
        ones = np.full(nearest.size, 1.0 / count)
        starts = np.arange(0, nearest.size + 1, count)
        mean = sparse.csr_array((ones, nearest.ravel(), starts), (len(nearest), X.shape[0]))
        gap = new - mean @ X
        return np.asarray(gap.multiply(gap).sum(axis=1), dtype=np.float64).ravel()
    errors = np.empty(len(nearest))
    step = max(1, _GATHERED // (count * X.shape[1]))
    for start in range(0, len(nearest), step):
        part = slice(start, start + step)
        gap = new[part] - X[nearest[part]].mean(axis=1, dtype=np.float64)
        errors[part] = np.einsum("ij,ij->i", gap, gap)
    return errors


def _nearest(scores: FloatArray, new_scores: FloatArray, count: int) -> NDArray[np.intp]:
    """Return the numbers of the rows with the nearest scores.  # shape: (m, count)"""
    found: NDArray[np.intp]
    with blas.no_openmp_threads() if scores.size * len(new_scores) <= _SHORT else nullcontext():
        found = NearestNeighbors(n_neighbors=count).fit(scores).kneighbors(new_scores, return_distance=False)
    return found
