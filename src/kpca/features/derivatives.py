"""How scores change with the rows: gradients of t(x) and of |phi(x) - mean|^2, for every projection that has them.

Centring drops out of dt_j/dx = sum_l A_lj dk(x, b_l)/dx, so that all of it is products of slopes with coefficients
(gram/slopes.py). Landmarks are rows b_l like any others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

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
_EVERY = 2**62


@dataclass(frozen=True)
class Derivatives:
    """Gradients of a projection at dense rows, in double precision, some rows at a time."""

    _gradients: Callable[[FloatArray, FloatArray, float], FloatArray]
    _jacobians: Callable[[FloatArray], FloatArray]
    _components: int
    _steps: tuple[int, int]  # rows at a time, of either
    _threads: int

    def along(self, X: FloatArray, U: FloatArray, distance: float = 0.0) -> FloatArray:
        """Return the gradient of sum_j U_ij t_j(x) + distance |phi(x) - mean|^2 at x_i.  # shape: (m, d)"""

        def work(rows: slice) -> FloatArray:
            return self._gradients(X[rows].astype(np.float64, copy=False), U[rows], distance)

        return by_slices(work, np.empty(X.shape), self._steps[0], self._threads)

    def jacobian(self, X: FloatArray) -> FloatArray:
        """Return dt_j/dx at x_i.  # shape: (m, k, d)"""

        def work(rows: slice) -> FloatArray:
            return self._jacobians(X[rows].astype(np.float64, copy=False))

        return by_slices(work, np.empty((len(X), self._components, X.shape[1])), self._steps[1], self._threads)


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
    if reason is not None or isinstance(projection, MatrixProjection):
        raise InputError(f"Gradients are needed here, and there are none: {reason}.")
    match projection:
        case LinearProjection():
            return _linear(projection.doubled())
        case KernelProjection():
            return _expanded(projection, threads)
        case FeatureProjection():
            return _featured(projection.doubled(), threads)


def _linear(projection: LinearProjection) -> Derivatives:
    """t = V'(x - mean)."""
    V, mean = projection.components, projection.mean

    def gradients(Z: FloatArray, U: FloatArray, distance: float) -> FloatArray:
        found: FloatArray = U @ V
        if distance:
            found += 2.0 * distance * (Z - mean)
        return found

    return Derivatives(gradients, lambda Z: np.repeat(V[None], len(Z), axis=0), len(V), (_EVERY, _EVERY), 1)


def _expanded(projection: KernelProjection, threads: int) -> Derivatives:
    """t_j = sum_l A_lj k(x, b_l) - offset_j, and the mean is sum_l c_l phi(b_l)."""
    known = projection.X.astype(np.float64, copy=False)
    slopes = engine_for(known).slopes(projection.kernel, known)
    A = projection.coefficients.astype(np.float64)

    def gradients(Z: FloatArray, U: FloatArray, distance: float) -> FloatArray:
        weights = U @ A.T
        if distance and projection.centre is not None:
            weights -= 2.0 * distance * projection.centre.coefficients
        found: FloatArray = slopes.contract(Z, weights)[1]
        if distance:
            found += distance * slopes.own(Z)[1]
        return found

    k, step = A.shape[1], rows_per_tile(len(A))
    fewer = max(1, min(step, _PIECE_NUMBERS // max(k * known.shape[1], 1)))
    return Derivatives(gradients, lambda Z: slopes.jacobian(Z, A), k, (step, fewer), threads)


def _featured(projection: FeatureProjection, threads: int) -> Derivatives:
    """t = V'(f(x) - mean), by the gradients of random features."""
    V, feature_map = projection.directions, _differentiable(projection)

    def gradients(Z: FloatArray, U: FloatArray, distance: float) -> FloatArray:
        weights = U @ V.T
        if distance:
            weights += 2.0 * distance * (feature_map(Z) - projection.mean)
        return feature_map.pull(Z, weights)

    def jacobians(Z: FloatArray) -> FloatArray:
        units = np.eye(V.shape[1])
        return np.stack([gradients(Z, np.tile(unit, (len(Z), 1)), 0.0) for unit in units], axis=1)

    step = max(1, _PIECE_NUMBERS // max(feature_map.rank, 1))
    return Derivatives(gradients, jacobians, V.shape[1], (step, step), threads)


def _differentiable(projection: FeatureProjection) -> RandomMap:
    feature_map = projection.feature_map
    assert isinstance(feature_map, RandomMap)  # landmarks and rows are projected in other ways
    return feature_map
