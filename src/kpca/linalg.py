"""Two pieces of linear algebra that must not lose digits: eigenpairs by the right LAPACK driver, and means of rows."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.sparse.linalg import ArpackError, eigsh

from kpca import blas

FloatArray = NDArray[Any]
# From this share of all eigenpairs on, divide and conquer for all of them is faster than bisection for some.
SHARE_FOR_ALL = 1 / 8
# Up to this many rows LAPACK is no faster on several threads.
_SMALL_FOR_THREADS = 256
# Fewer eigenpairs than this are found by products.
_FEW = 10
_ROWS_AT_ONCE = 4096


def largest_eigenpairs(B: FloatArray, k: int) -> tuple[FloatArray, FloatArray, float]:
    """Return the k largest eigenvalues, descending, their eigenvectors, and the smallest eigenvalue computed.

    B is C-contiguous and overwritten; its transpose is what LAPACK wants without a copy.
    """
    n = len(B)
    with blas.all_threads() if n > _SMALL_FOR_THREADS else nullcontext():
        if not exhaustive(k, n):
            found = _by_arpack(B, k)
            if found is not None:
                return found
        return _all(B, k) if k > n * SHARE_FOR_ALL else _some(B, k)


def exhaustive(k: int, n: int) -> bool:
    """Return True if every eigenvalue above the k-th is sure to be found; a few of many are left to ARPACK."""
    return k >= _FEW or n <= _SMALL_FOR_THREADS


def _by_arpack(B: FloatArray, k: int) -> tuple[FloatArray, FloatArray, float] | None:
    """Return the largest eigenpairs by ARPACK, or None if it fails or has passed over one of them."""
    start = np.random.default_rng(0).standard_normal(len(B))
    try:
        values, vectors = eigsh(B, k, which="LA", v0=start)
        values, vectors = values[::-1].copy(), np.ascontiguousarray(vectors[:, ::-1])
        # It looks for one direction at a time, so a copy of a repeated eigenvalue may be left: look at what is left.
        B -= (vectors * values) @ vectors.T
        left = eigsh(B, 1, which="LA", v0=start, tol=1e-2, return_eigenvectors=False)[0]
        B += (vectors * values) @ vectors.T
    except ArpackError:
        return None
    return None if left > values[-1] + 0.02 * abs(values[0]) else (values, vectors, float(values[-1]))


def _some(B: FloatArray, k: int) -> tuple[FloatArray, FloatArray, float]:
    n = len(B)
    diagonal = B.diagonal().copy()
    values, vectors = eigh(
        B.T, lower=True, driver="evr", subset_by_index=(n - k, n - 1), overwrite_a=True, check_finite=False
    )
    if len(values) < k:
        # The driver returns nothing at all for some matrices with one repeated eigenvalue, such as I - 11'/n. It has
        # overwritten one triangle and the diagonal; the other triangle brings the matrix back.
        rows, columns = np.triu_indices(n, 1)
        B[rows, columns] = B[columns, rows]
        np.fill_diagonal(B, diagonal)
        return _all(B, k)
    return values[::-1].copy(), np.ascontiguousarray(vectors[:, ::-1]), float(values[0])


def _all(B: FloatArray, k: int) -> tuple[FloatArray, FloatArray, float]:
    values, vectors = eigh(B.T, lower=True, driver="evd", overwrite_a=True, check_finite=False)
    return values[::-1][:k].copy(), np.ascontiguousarray(vectors[:, ::-1][:, :k]), float(values[0])


def mean_of_rows(X: FloatArray, weights: FloatArray | None = None) -> NDArray[np.float64]:
    """Return the (weighted) mean row in float64; of rows that are all alike, exactly that row.

    Sums are taken of differences from the first row, so an offset common to all rows costs no digits.
    """
    origin = X[0].astype(np.float64)
    total = np.zeros(X.shape[1])
    for start in range(0, len(X), _ROWS_AT_ONCE):
        part = X[start : start + _ROWS_AT_ONCE] - origin
        total += part.sum(axis=0) if weights is None else weights[start : start + _ROWS_AT_ONCE] @ part
    mean: NDArray[np.float64] = origin + total / (len(X) if weights is None else weights.sum())
    return mean
