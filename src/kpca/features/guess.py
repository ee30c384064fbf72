"""A first guess of the leading eigenvectors from a few hundred rows: what saves block Krylov its first passes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from kpca._base.linalg import FloatArray, largest_eigenpairs
from kpca._base.threads import in_order
from kpca.gram.engine import evaluator
from kpca.gram.operator import Gram, center
from kpca.gram.tiles import slices

# Measured at n = 3 000 to 20 000: more rows save no more passes, of few rows a few more do; so few need one thread of
# LAPACK only.
_LANDMARKS, _LANDMARKS_OF_FEW = 192, 256
_SAMPLE_FOR_VALUES = 1000
# Up to this many rows a pass costs no more than the features that would save it.
_FEW_ROWS = 5000
_DOUBLE = np.dtype(np.float64)
# What is added to the landmarks' kernel matrix, of its mean diagonal.
_RIDGE = 1e-8
# Rows whose features are summed up, at most (more save no more passes), and those of a piece of work.
_MOST_ROWS, _PIECE_ROWS = 8192, 1024


def coarse_eigenvalues(gram: Gram, *, centred: bool, seed: int) -> FloatArray:
    """Return all positive eigenvalues of the operator on some of the rows, largest first: the shape of the spectrum."""
    n = gram.shape[0]
    some = np.sort(np.random.default_rng(seed).choice(n, min(n, _SAMPLE_FOR_VALUES), replace=False))
    return np.asarray(np.maximum(np.linalg.eigvalsh(_among(gram, some, centred))[::-1], 0.0))


def _among(gram: Gram, some: NDArray[np.intp], centred: bool) -> FloatArray:
    part = gram.among(some, shifted=gram.shifted and centred).matrix()
    return center(part, gram.scale[some]) if centred else part


def leading_eigenvectors(gram: Gram, count: int, *, centred: bool, seed: int) -> tuple[FloatArray, float]:
    """Return approximate leading eigenvectors and an estimate of the largest eigenvalue.  # shape: (n, <= count)

    They are those of the operator with features of some landmarks in the place of the kernel: better by about one pass
    than eigenvectors of the landmarks alone extended to all rows (Nystroem), which serve few rows and indefinite
    kernels. None are returned where values overflow: the product that comes next says so.
    """
    n = gram.shape[0]
    m = min(n, max(min(_LANDMARKS if n > _FEW_ROWS else _LANDMARKS_OF_FEW, n // 16), 3 * count))
    some = np.sort(np.random.default_rng(seed).choice(n, m, replace=False))
    found = None
    if n > _FEW_ROWS and gram.psd:
        found = gram.hand(lambda X: _by_features(gram, X, some, count, centred=centred, seed=seed))
    columns, largest = _by_landmarks(gram, some, count, centred) if found is None else found
    return (columns, largest) if np.isfinite(columns).all() else (np.empty((n, 0)), 0.0)


def _by_landmarks(gram: Gram, some: NDArray[np.intp], count: int, centred: bool) -> tuple[FloatArray, float]:
    n = gram.shape[0]
    found = largest_eigenpairs(_among(gram, some, centred), min(count, len(some)))
    solid = found.values > 1e-6 * max(found.values[0], 0.0)
    if not solid.any():
        return np.empty((n, 0)), 0.0
    values, vectors = found.values[solid], found.vectors[:, solid]
    columns = (gram.cross_to(some) @ (vectors * gram.scale[some, None] / values)) * gram.scale[:, None]
    return columns, float(values[0]) * n / len(some)


def _by_features(
    gram: Gram, X: Any, some: NDArray[np.intp], count: int, *, centred: bool, seed: int
) -> tuple[FloatArray, float] | None:
    """Solve the problem of the features f = L^-1 k, with LL' the landmarks' own kernel matrix and a little more.

    That little keeps the rounding of K'K, which is summed up as it is, from being enlarged; a guess can bear it. None
    where the kernel is not positive semidefinite after all.
    """
    shifted, Z = gram.shifted and centred, X[some]
    own = Gram(gram.kernel, Z, shifted=shifted).matrix()
    if centred:
        own = center(own, np.ones(len(own)))
    np.fill_diagonal(own, own.diagonal() + _RIDGE * max(float(np.trace(own)), 1e-300) / len(own))
    try:
        lower = np.linalg.cholesky(own)
    except np.linalg.LinAlgError:
        return None
    mass, mean, second = _sums(gram, X, Z, shifted=shifted, seed=seed)
    if not np.isfinite(second).all():
        return second, 0.0  # which is no guess
    if centred:
        second -= mass * np.multiply.outer(mean, mean)
        second = center(second, np.ones(len(own)))
    whitened = solve_triangular(lower, solve_triangular(lower, second, lower=True).T, lower=True)
    found = largest_eigenpairs(np.ascontiguousarray(0.5 * (whitened + whitened.T)), min(count, len(own)))
    solid = found.values > 1e-6 * max(float(found.values[0]), 0.0)
    if not solid.any():
        return np.empty((len(gram.scale), 0)), 0.0
    W = solve_triangular(lower, found.vectors[:, solid] / np.sqrt(found.values[solid]), lower=True, trans=1)
    if centred:
        W -= W.mean(axis=0)
    columns = gram.cross_to(some) @ W
    if centred:
        columns -= mean @ W
    columns *= gram.scale[:, None]
    return columns, max(float(found.values[0]), 0.0)


def _sums(gram: Gram, X: Any, Z: Any, *, shifted: bool, seed: int) -> tuple[float, FloatArray, FloatArray]:
    """Return the sum of the weights, the weighted mean of the kernel values with Z, and the sum of their products.

    Of many rows, as some of them have it.  # shapes: (), (m,), (m, m)
    """
    roots, m = gram.scale, Z.shape[0]
    if len(roots) > _MOST_ROWS:
        drawn = np.sort(np.random.default_rng(seed).choice(len(roots), _MOST_ROWS, replace=False))
        X, roots = X[drawn], roots[drawn]
    weighted = not bool((roots == 1.0).all())
    values = evaluator(gram.kernel, X, Z, _DOUBLE, shifted=shifted, threads=gram.threads)
    totals = np.zeros(m), np.zeros((m, m))

    def make_worker() -> Callable[[slice], tuple[FloatArray, FloatArray]]:
        scratch = np.empty((_PIECE_ROWS, m))

        def work(rows: slice) -> tuple[FloatArray, FloatArray]:
            K, r = scratch[: rows.stop - rows.start], roots[rows]
            values.fill(rows, slice(0, m), K)
            if weighted:
                K *= r[:, None]
            return r @ K, K.T @ K

        return work

    def commit(_: slice, found: tuple[FloatArray, FloatArray]) -> None:
        for total, part in zip(totals, found, strict=True):
            np.add(total, part, out=total)

    in_order(slices(len(roots), _PIECE_ROWS), make_worker, commit, gram.threads)
    mass, drawn_mass = float(gram.scale @ gram.scale), float(roots @ roots)
    return mass, totals[0] / drawn_mass, totals[1] * (mass / drawn_mass)
