"""How scores change with the rows: gradients of t(x) and of what the components leave, wherever there are any.

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

    _gradients: Callable[[FloatArray, FloatArray, FloatArray, FloatArray], FloatArray]
    _jacobians: Callable[[FloatArray], FloatArray]
    _components: int
    _steps: tuple[int, int]  # rows at a time, of either
    _threads: int

    def along(self, X: FloatArray, scores: FloatArray, weights: FloatArray, residual: FloatArray) -> FloatArray:
        """Return the gradient of sum_j w_j t_j(x)^2 + a_i |phi(x) - P phi(x)|^2 at x_i, whose scores are given.

        The `weights` are w, (k,); `residual` is a, (m,).  # shape: (m, d)
        """

        def work(rows: slice) -> FloatArray:
            Z = X[rows].astype(np.float64, copy=False)
            return self._gradients(Z, scores[rows], weights, residual[rows, None])

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

    def gradients(Z: FloatArray, scores: FloatArray, weights: FloatArray, residual: FloatArray) -> FloatArray:
        found: FloatArray = 2.0 * (scores * weights) @ V
        if residual.any():
            # by itself, as a residual may weigh so much that it is lost in the difference of two large vectors
            left = Z - mean
            left -= left @ V.T @ V
            found += 2.0 * residual * left
        return found

    return Derivatives(gradients, lambda Z: np.repeat(V[None], len(Z), axis=0), len(V), (_EVERY, _EVERY), 1)


def _expanded(projection: KernelProjection, threads: int) -> Derivatives:
    """t_j = sum_l A_lj k(x, b_l) - offset_j, and the mean is sum_l c_l phi(b_l)."""
    known = projection.X.astype(np.float64, copy=False)
    slopes = engine_for(known).slopes(projection.kernel, known)
    A = projection.coefficients.astype(np.float64)

    def gradients(Z: FloatArray, scores: FloatArray, weights: FloatArray, residual: FloatArray) -> FloatArray:
        # |phi(x) - mean|^2 - |t|^2 is left
        along = 2.0 * (scores * (weights - residual)) @ A.T
        if projection.centre is not None:
            along -= 2.0 * residual * projection.centre.coefficients
        found: FloatArray = slopes.contract(Z, along)[1]
        if residual.any():
            found += residual * slopes.own(Z)[1]
        return found

    k, step = A.shape[1], rows_per_tile(len(A))
    fewer = max(1, min(step, _PIECE_NUMBERS // max(k * known.shape[1], 1)))
    return Derivatives(gradients, lambda Z: slopes.jacobian(Z, A), k, (step, fewer), threads)


def _featured(projection: FeatureProjection, threads: int) -> Derivatives:
    """t = V'(f(x) - mean), by the gradients of random features."""
    V, feature_map = projection.directions, _differentiable(projection)

    def gradients(Z: FloatArray, scores: FloatArray, weights: FloatArray, residual: FloatArray) -> FloatArray:
        along = 2.0 * (scores * (weights - residual)) @ V.T
        if residual.any():
            along += 2.0 * residual * (feature_map(Z) - projection.mean)
        return feature_map.pull(Z, along)

    def jacobians(Z: FloatArray) -> FloatArray:
        return np.stack([feature_map.pull(Z, np.tile(direction, (len(Z), 1))) for direction in V.T], axis=1)

    step = max(1, _PIECE_NUMBERS // max(feature_map.rank, 1))
    return Derivatives(gradients, jacobians, V.shape[1], (step, step), threads)


def _differentiable(projection: FeatureProjection) -> RandomMap:
    feature_map = projection.feature_map
    assert isinstance(feature_map, RandomMap)  # landmarks and rows are projected in other ways
    return feature_map
