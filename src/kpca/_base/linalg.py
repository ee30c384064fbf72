"""Two pieces of linear algebra that must not lose digits: eigenpairs by the right LAPACK driver, and means of rows."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.linalg.blas import dsymv
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from kpca._base.threads import all_threads, single_threaded

FloatArray = NDArray[Any]
# From this share of all eigenpairs on, divide and conquer for all of them is faster than bisection for some.
SHARE_FOR_ALL = 1 / 8
# Rows of a matrix beyond which LAPACK and ARPACK get all threads of BLAS.
_SMALL_FOR_THREADS = 2000
_EXHAUSTIVE = 256  # up to this many rows all eigenpairs are looked at
# Fewer eigenpairs than this are found by products.
_FEW = 10
_ARPACK_TOL = 1e-11
# A residual whose square, the error of an eigenvalue, is far below the accuracy asked of eigenvalues.
_ARPACK_CHECK = 1e-7
_ROWS_AT_ONCE = 4096
_NUMBERS_IN_CACHE = 60_000
_NUMBERS_AT_ONCE = 250_000  # numbers in the temporaries of work that goes over the rows, a few of them at a time


def rows_at_once(d: int) -> int:
    """Return how many rows of d columns are worked on at a time, so that temporaries stay small beside the data."""
    return min(_ROWS_AT_ONCE, max(16, _NUMBERS_AT_ONCE // max(d, 1)))


@dataclass(frozen=True)
class Eigenpairs:
    """The largest eigenvalues, descending, with orthonormal eigenvectors."""

    values: FloatArray  # shape: (k,)
    vectors: FloatArray  # shape: (n, k)
    smallest: float  # the smallest eigenvalue that was computed
    residuals: FloatArray | None = None  # |B u - lambda u| where the matrix was still there to measure it


def threads_for(n: int) -> AbstractContextManager[None]:
    """Return the threads for LAPACK on a matrix of n rows: one, so that bits repeat beside others, unless it is large.

    Several are slow beside anything else that is running.
    """
    return all_threads() if n > _SMALL_FOR_THREADS else single_threaded()


def exhaustive(k: int, n: int) -> bool:
    """Return True if every eigenvalue above the k-th is sure to be found; a few of many are left to ARPACK."""
    return k >= _FEW or n <= _EXHAUSTIVE


def largest_eigenpairs(B: FloatArray, k: int) -> Eigenpairs:
    """Return the k largest eigenpairs; B is C-contiguous and overwritten."""
    n = len(B)
    with threads_for(n):
        if not exhaustive(k, n) and (found := eigenpairs_by_arpack(B, n, k, _ARPACK_TOL)) is not None:
            return found
        return _all(B, k) if k > n * SHARE_FOR_ALL else _some(B, k)


def eigenpairs_by_arpack(multiply: Any, n: int, k: int, tol: float) -> Eigenpairs | None:
    """Return the k largest eigenpairs by ARPACK, or None if it fails or has passed over one of them.

    `multiply` is a C-contiguous symmetric matrix or whatever multiplies like one; it is left as it was.
    """
    start, fresh = np.random.default_rng(0).standard_normal((2, n))
    is_matrix = isinstance(multiply, np.ndarray)

    def once(v: FloatArray) -> FloatArray:
        # a symmetric product reads half of the matrix
        product: FloatArray = dsymv(1.0, multiply.T, v) if is_matrix else (multiply @ v.reshape(n, 1)).ravel()
        return product

    try:
        values, vectors = eigsh(_Product(n, once), k, which="LA", v0=start, tol=tol)
        values, vectors = values[::-1].copy(), np.ascontiguousarray(vectors[:, ::-1])
        # It sees one direction of a repeated eigenvalue, so copies may be left. Look at what is left, from another
        # start: the copies are orthogonal to the first.
        rest = _Product(n, lambda v: once(v) - vectors @ (values * (vectors.T @ v)))
        left = eigsh(rest, 1, which="LA", v0=fresh, tol=_ARPACK_CHECK, return_eigenvectors=False)[0]
    except ArpackError:
        return None
    if left > values[-1] + 1e-10 * abs(values[0]):
        return None
    gaps = multiply @ vectors - vectors * values
    return Eigenpairs(values, vectors, float(values[-1]), np.sqrt(np.einsum("ij,ij->j", gaps, gaps)))


class _Product(LinearOperator):  # type: ignore[misc]
    """A product as ARPACK takes it; the checks of SciPy's own would cost as much as a product of 300 rows."""

    def __init__(self, n: int, product: Callable[[FloatArray], FloatArray]) -> None:
        super().__init__(np.dtype(np.float64), (n, n))
        self.matvec = product

    def _matvec(self, v: FloatArray) -> FloatArray:
        return self.matvec(v)


def _some(B: FloatArray, k: int) -> Eigenpairs:
    """Return some eigenpairs by bisection; LAPACK gets the transpose, which is the same and needs no copy."""
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
    return Eigenpairs(values[::-1].copy(), np.ascontiguousarray(vectors[:, ::-1]), float(values[0]))


def _all(B: FloatArray, k: int) -> Eigenpairs:
    """Return the first of all eigenpairs, by divide and conquer."""
    values, vectors = eigh(B.T, lower=True, driver="evd", overwrite_a=True, check_finite=False)
    return Eigenpairs(values[::-1][:k].copy(), np.ascontiguousarray(vectors[:, ::-1][:, :k]), float(values[0]))


def mean_of_rows(X: FloatArray, weights: FloatArray | None = None) -> NDArray[np.float64]:
    """Return the (weighted) mean row in float64; of rows that are all alike, exactly that row.

    Sums are taken of differences from the first row, so an offset common to all rows costs no digits.
    """
    origin = X[0].astype(np.float64)
    total = np.zeros(X.shape[1])
    step = max(16, _NUMBERS_IN_CACHE // max(X.shape[1], 1))
    for start in range(0, len(X), step):
        part = X[start : start + step] - origin
        total += np.ones(len(part)) @ part if weights is None else weights[start : start + step] @ part
    mean: NDArray[np.float64] = origin + total / (len(X) if weights is None else weights.sum())
    return mean
