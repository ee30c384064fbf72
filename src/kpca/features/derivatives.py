"""How scores change with the rows: gradients of t(x) and of |phi(x) - mean|^2, for every projection that has them.

Centring drops out of dt_j/dx = sum_l A_lj dk(x, b_l)/dx, so that all of it is products of slopes with coefficients
(gram/slopes.py). Landmarks are rows b_l like any others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy import sparse

from kpca._base.errors import InputError
from kpca._base.linalg import FloatArray
from kpca.features.projection import FeatureProjection, KernelProjection, LinearProjection, MatrixProjection, Projection
from kpca.features.random import RandomMap
from kpca.gram.engine import engine_for
from kpca.gram.slopes import rows_per_tile, why_not
from kpca.gram.tiles import by_slices

# Numbers of a Jacobian that are made at once.
_PIECE_NUMBERS = 2**21


class Derivatives(Protocol):
    """Gradients at dense rows, in double precision."""

    def along(self, X: FloatArray, U: FloatArray, distance: float = 0.0) -> FloatArray:
        """Return the gradient of sum_j U_ij t_j(x) + distance |phi(x) - mean|^2 at x_i.  # shape: (m, d)"""

    def jacobian(self, X: FloatArray) -> FloatArray:
        """Return dt_j/dx at x_i.  # shape: (m, k, d)"""


def why_no_derivatives(projection: Projection) -> str | None:
    """Return None if the projection has gradients, else why it has not, as part of a sentence."""
    match projection:
        case LinearProjection():
            return None
        case KernelProjection():
            if sparse.issparse(projection.X):
                return "gradients need dense rows, and the model was fitted to sparse ones"
            return why_not(projection.kernel)
        case FeatureProjection():
            return _differentiable(projection).why_no_pull()
        case MatrixProjection():
            return "a precomputed kernel gives no values for rows that are changed a little"


def derivatives_of(projection: Projection, *, threads: int = 1) -> Derivatives:
    """Return the gradients of a projection's scores, or raise InputError where it has none."""
    reason = why_no_derivatives(projection)
    if reason is not None:
        raise InputError(f"Gradients are needed here, and there are none: {reason}.")
    match projection:
        case LinearProjection():
            return _Linear(projection.doubled())
        case KernelProjection():
            return _Expanded(projection, threads)
        case FeatureProjection():
            return _Featured(projection.doubled(), threads)
        case MatrixProjection():
            raise AssertionError("has a reason")


@dataclass(frozen=True)
class _Linear:
    """t = V'(x - mean)."""

    projection: LinearProjection

    def along(self, X: FloatArray, U: FloatArray, distance: float = 0.0) -> FloatArray:
        gradients: FloatArray = U @ self.projection.components
        if distance:
            gradients += 2.0 * distance * (X - self.projection.mean)
        return gradients

    def jacobian(self, X: FloatArray) -> FloatArray:
        return np.repeat(self.projection.components[None], len(X), axis=0)


class _Expanded:
    """t_j = sum_l A_lj k(x, b_l) - offset_j, and the mean is sum_l c_l phi(b_l)."""

    def __init__(self, projection: KernelProjection, threads: int) -> None:
        rows = projection.X.astype(np.float64, copy=False)
        self._slopes = engine_for(rows).slopes(projection.kernel, rows)
        self._A = projection.coefficients.astype(np.float64)
        self._centre = None if projection.centre is None else projection.centre.coefficients
        self._step, self._threads = rows_per_tile(len(self._A)), threads

    def along(self, X: FloatArray, U: FloatArray, distance: float = 0.0) -> FloatArray:
        def work(rows: slice) -> FloatArray:
            Z = X[rows].astype(np.float64, copy=False)
            weights = U[rows] @ self._A.T
            if distance and self._centre is not None:
                weights -= 2.0 * distance * self._centre
            gradients = self._slopes.contract(Z, weights)[1]
            if distance:
                gradients += distance * self._slopes.own(Z)[1]
            return gradients

        return by_slices(work, np.empty(X.shape), self._step, self._threads)

    def jacobian(self, X: FloatArray) -> FloatArray:
        k = self._A.shape[1]
        step = max(1, min(self._step, _PIECE_NUMBERS // max(k * X.shape[1], 1)))

        def work(rows: slice) -> FloatArray:
            return self._slopes.jacobian(X[rows].astype(np.float64, copy=False), self._A)

        return by_slices(work, np.empty((len(X), k, X.shape[1])), step, self._threads)


@dataclass(frozen=True)
class _Featured:
    """t = V'(f(x) - mean), by the gradients of random features."""

    projection: FeatureProjection
    threads: int

    def along(self, X: FloatArray, U: FloatArray, distance: float = 0.0) -> FloatArray:
        projection = self.projection
        step = max(1, _PIECE_NUMBERS // max(projection.feature_map.rank, 1))

        def work(rows: slice) -> FloatArray:
            Z = X[rows].astype(np.float64, copy=False)
            weights = U[rows] @ projection.directions.T
            if distance:
                weights += 2.0 * distance * (projection.feature_map(Z) - projection.mean)
            return _differentiable(projection).pull(Z, weights)

        return by_slices(work, np.empty(X.shape), step, self.threads)

    def jacobian(self, X: FloatArray) -> FloatArray:
        k = self.projection.directions.shape[1]
        ones = np.zeros((len(X), k))
        parts = np.empty((len(X), k, X.shape[1]))
        for j in range(k):
            ones[:, j] = 1.0
            parts[:, j] = self.along(X, ones)
            ones[:, j] = 0.0
        return parts


def _differentiable(projection: FeatureProjection) -> RandomMap:
    feature_map = projection.feature_map
    assert isinstance(feature_map, RandomMap)  # landmarks and rows are projected in other ways
    return feature_map
