"""The operator F F' of explicit features: the linear kernel's, without ever being n x n.

F = S (X - mean) with S the square roots of the weights. Its nonzero eigenvalues are those of F'F, which is d x d: `Factored` is
the small side of the two, and turns its eigenvectors into those of the other.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kpca.gram.operator import Precision
from kpca.linalg import mean_of_rows

FloatArray = NDArray[Any]
_EPS = float(np.finfo(np.float64).eps)
_ROWS_AT_ONCE = 4096


class Factored:
    """F'F (primal, d x d) or F F' (dual, n x n), whichever is smaller, of dense or CSR rows."""

    def __init__(self, X: Any, *, centred: bool, scale: FloatArray | None = None) -> None:
        n, d = X.shape
        self.primal = d <= n
        self.shape = (d, d) if self.primal else (n, n)
        self._X = X
        self._scale = np.ones(n) if scale is None else scale
        self._mass = float(self._scale @ self._scale)
        self.mean = self._weighted_mean() if centred else np.zeros(d)
        self._centred = centred
        self._sparse = sparse.issparse(X)

    def _weighted_mean(self) -> FloatArray:
        weights = self._scale**2
        if sparse.issparse(self._X):
            return np.asarray(self._X.T @ weights, dtype=np.float64).ravel() / self._mass
        return mean_of_rows(self._X, weights)

    def _chunks(self) -> list[slice]:
        return [slice(i, min(i + _ROWS_AT_ONCE, len(self._scale))) for i in range(0, len(self._scale), _ROWS_AT_ONCE)]

    @cached_property
    def _F(self) -> FloatArray:
        """The dense features, in the dtype of the data.  # shape: (n, d)"""
        F = np.empty(self._X.shape, dtype=self._X.dtype)
        for rows in self._chunks():
            # the difference is taken in float64, so that float32 data with an offset keeps its digits
            F[rows] = (self._X[rows] - self.mean) * self._scale[rows, None]
        return F

    @property
    def psd(self) -> bool:
        """F'F and F F' have no negative eigenvalue."""
        return True

    @cached_property
    def null(self) -> FloatArray | None:
        """s / |s| in the dual, after centring.  # shape: (n,)"""
        return None if self.primal or not self._centred else self._scale / math.sqrt(self._mass)

    def at(self, precision: Precision) -> Factored:
        """Return itself: features are multiplied as they are."""
        return self

    def features_times(self, V: FloatArray) -> FloatArray:
        """Return F V in float64.  # shape: (n, b)"""
        if not self._sparse:
            return np.asarray(self._F @ V.astype(self._F.dtype, copy=False), dtype=np.float64)
        image: FloatArray = np.asarray(self._X @ V, dtype=np.float64)
        image -= self.mean @ V
        image *= self._scale[:, None]
        return image

    def transposed_times(self, U: FloatArray) -> FloatArray:
        """Return F'U in float64.  # shape: (d, b)"""
        if not self._sparse:
            return np.asarray(self._F.T @ U.astype(self._F.dtype, copy=False), dtype=np.float64)
        scaled = U * self._scale[:, None]
        return np.asarray(self._X.T @ scaled, dtype=np.float64) - np.multiply.outer(self.mean, scaled.sum(axis=0))

    def __matmul__(self, V: FloatArray) -> FloatArray:
        """Return F'F V or F F'V.  # shape: (d or n, b)"""
        if self.primal:
            return self.transposed_times(self.features_times(V))
        return self.features_times(self.transposed_times(V))

    @cached_property
    def _squares(self) -> FloatArray:
        """|f_i|^2 of each row.  # shape: (n,)"""
        if not self._sparse:
            return np.einsum("ij,ij->i", self._F, self._F, dtype=np.float64)
        X = self._X.astype(np.float64)
        raw = np.asarray(X.multiply(X).sum(axis=1)).ravel() - 2.0 * (X @ self.mean) + self.mean @ self.mean
        return np.maximum(raw, 0.0) * self._scale**2

    def trace(self) -> float:
        """Return the sum of all eigenvalues, |F|_F^2."""
        return float(self._squares.sum())

    def frobenius2(self) -> float:
        """Return the sum of the squared eigenvalues; formed blockwise from the small side's entries."""
        total = 0.0
        for start in range(0, self.shape[0], 512):
            width = min(512, self.shape[0] - start)
            part = self @ np.eye(self.shape[0], width, -start)
            total += float(np.vdot(part, part))
        return total

    def frobenius2_error(self) -> float:
        """Return how wrong the sum of squares may be."""
        return 64 * self._eps * self.trace() ** 2

    @property
    def _eps(self) -> float:
        return _EPS if self._sparse else float(np.finfo(self._F.dtype).eps)

    def error(self, V: FloatArray) -> float:
        """Return the rounding of a product: |F|^2 is at most the trace."""
        return 4 * self._eps * self.trace()

    def matrix(self) -> FloatArray:
        """Return F'F or F F' in float64, summed over chunks of rows.  # shape: (d, d) or (n, n)"""
        if self._sparse:
            return self @ np.eye(self.shape[0])
        if not self.primal:
            return np.asarray(self._F @ self._F.T, dtype=np.float64)
        C = np.zeros(self.shape)
        for rows in self._chunks():
            C += self._F[rows].T @ self._F[rows]
        return C
