"""The largest eigenpairs of a symmetric matrix that may be overwritten, by the LAPACK driver that is right for them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

FloatArray = NDArray[Any]
# From this share of all eigenpairs on, divide and conquer for all of them is faster than bisection for some.
SHARE_FOR_ALL = 1 / 8


def largest_eigenpairs(B: FloatArray, k: int) -> tuple[FloatArray, FloatArray, float]:
    """Return the k largest eigenvalues, descending, their eigenvectors, and the smallest eigenvalue computed.

    B is C-contiguous and overwritten; its transpose is what LAPACK wants without a copy.
    """
    n = len(B)
    if k > n * SHARE_FOR_ALL:
        return _all(B, k)
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
