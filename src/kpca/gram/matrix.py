"""A kernel matrix that exists already: dense, sparse, or a SciPy LinearOperator."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

from kpca._base.linalg import FloatArray
from kpca.gram.operator import GivenOperator, Moments, T
from kpca.gram.tiles import slices

_EPS = float(np.finfo(np.float64).eps)
# Columns of the identity multiplied at a time, where a LinearOperator has to be written out.
_COLUMNS_AT_ONCE = 256
_ROWS_AT_ONCE = 512


class MatrixGram(GivenOperator):
    """S K S of a given K; products are those of NumPy, SciPy or the LinearOperator itself."""

    psd, null = False, None  # nothing is known of a matrix that somebody else made

    def __init__(self, K: Any, *, scale: FloatArray | None = None) -> None:
        self.shape = (K.shape[0], K.shape[0])
        self._K, self._scale = K, scale
        self.constant = 0.0

    def hand(self, work: Callable[[Any], T]) -> T:
        return work(self._K)

    @property
    def scale(self) -> FloatArray:
        return np.ones(self.shape[0]) if self._scale is None else self._scale

    def __matmul__(self, V: FloatArray) -> FloatArray:
        if self._scale is None:
            return self._product(V)
        return self._product(V * self._scale[:, None]) * self._scale[:, None]

    def _product(self, V: FloatArray) -> FloatArray:
        if not isinstance(self._K, np.ndarray) or self._K.dtype == np.float64:
            return np.asarray(self._K @ V, dtype=np.float64)
        # float32 entries, float64 sums: NumPy would make a float64 copy of the whole matrix
        out = np.empty(V.shape)
        for rows in slices(len(out), _ROWS_AT_ONCE):
            out[rows] = self._K[rows].astype(np.float64) @ V
        return out

    @cached_property
    def _entries(self) -> tuple[float, float]:
        """The trace and the square of the Frobenius norm; NaN for an operator without entries."""
        scale = self.scale
        if isinstance(self._K, LinearOperator):
            return math.nan, math.nan
        diagonal = np.asarray(self._K.diagonal(), dtype=np.float64)
        if sparse.issparse(self._K):
            squares = float(scale**2 @ (self._K.multiply(self._K) @ scale**2))
        else:
            squares = sum(
                float(scale[i : i + 512] ** 2 @ (np.square(self._K[i : i + 512], dtype=np.float64) @ scale**2))
                for i in range(0, self.shape[0], 512)
            )
        return float(diagonal @ scale**2), squares

    def moments(self) -> Moments:
        trace, frobenius2 = self._entries
        return Moments(self._image, trace, frobenius2)

    @cached_property
    def _image(self) -> FloatArray:
        # the mean over training rows of each column: new rows of kernel values are compared with that
        if isinstance(self._K, LinearOperator):
            return (self @ self.scale[:, None])[:, 0]
        scale = self.scale
        return np.asarray(self._K.T @ scale**2, dtype=np.float64).ravel() * scale

    def trace(self) -> float:
        return self._entries[0]

    def frobenius2(self) -> float:
        return self._entries[1]

    def frobenius2_error(self) -> float:
        return 64 * _EPS * self._entries[1]

    def error(self, V: FloatArray) -> float:
        """Return the rounding of a float64 product, |M|_F being at least its norm."""
        norm = math.sqrt(self._entries[1]) if math.isfinite(self._entries[1]) else float(np.linalg.norm(self._image))
        return 16 * _EPS * norm

    def matrix(self) -> FloatArray:
        if isinstance(self._K, LinearOperator):
            K = np.empty(self.shape)
            for part in slices(len(K), _COLUMNS_AT_ONCE):
                K[:, part] = self._K @ np.eye(len(K), part.stop - part.start, -part.start)
        else:
            K = self._K.toarray() if sparse.issparse(self._K) else self._K
            K = np.array(K, dtype=np.float64)
        if self._scale is not None:
            K *= self._scale[:, None]
            K *= self._scale[None, :]
        return K
