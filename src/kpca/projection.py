"""New points to scores: what remains of a fit when all it has to do is transform."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kpca.features import FeatureMap
from kpca.gram import CrossGram
from kpca.gram.cross import band_rows
from kpca.gram.workers import in_order
from kpca.kernels import Kernel
from kpca.planning.memory import require, row_columns, transform_bytes
from kpca.settings import memory_budget

FloatArray = NDArray[Any]
# Features of the rows that are projected at once.
_PIECE_NUMBERS = 500_000


@dataclass(frozen=True)
class LinearProjection:
    """t(x) = V'(x - mean): the linear kernel in the primal."""

    components: FloatArray  # unit directions, zero for components without variance, shape: (k, d)
    mean: FloatArray  # shape: (d,)

    def __call__(self, X: Any, *, threads: int = 1) -> FloatArray:
        """Return the scores of the rows of X.  # shape: (m, k)"""
        if isinstance(X, np.ndarray):
            # centred before the product, so that an offset costs no digits
            m, step = len(X), band_rows(X.shape[1])
            if m <= step:
                return (X - self.mean) @ self.components.T
            scores: FloatArray = np.empty((m, len(self.components)))
            for start in range(0, m, step):
                scores[start : start + step] = (X[start : start + step] - self.mean) @ self.components.T
        else:
            scores = np.asarray(X @ self.components.T) - self.mean @ self.components.T
        return scores

    def flipped(self, signs: FloatArray) -> LinearProjection:
        """Return the projection with the signs of some components changed."""
        return replace(self, components=self.components * signs[:, None].astype(self.components.dtype))

    def head(self, k: int) -> LinearProjection:
        """Return the projection on the first k components."""
        return replace(self, components=self.components[:k])


@dataclass(frozen=True)
class KernelProjection:
    """t(x) = A'(k_x - mean of the rows of K); A sums to 0, so the mean of k_x drops out."""

    kernel: Kernel
    X: Any  # the training rows, shape: (n, d)
    coefficients: FloatArray  # A, shape: (n, k)
    offset: FloatArray  # A' (row means), shape: (k,)
    shifted: bool  # kernel values enter minus f(0), here and in the offset
    precision: np.dtype[Any] | None = None  # in which kernel values are computed; None: that of the rows
    # What the engine made of the training rows: new ones, perhaps one at a time, then cost only their own kernel
    # values.
    memo: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)

    def __call__(self, X: Any, *, threads: int = 1) -> FloatArray:
        """Return the scores of the rows of X, never holding more than a few tiles.  # shape: (m, k)"""
        if sparse.issparse(self.X) != sparse.issparse(X):  # new rows take the form of the training rows
            X = X.toarray() if sparse.issparse(X) else sparse.csr_matrix(X)
        dtype = X.dtype if self.precision is None else self.precision
        m, d, k = X.shape[0], max(row_columns(X), row_columns(self.X)), len(self.offset)
        needed = transform_bytes(m, self.X.shape[0], d, k, itemsize=dtype.itemsize, threads=threads)
        require(needed, memory_budget, "or transform fewer rows at a time")
        cross = CrossGram(self.kernel, X, self.X, dtype=dtype, shifted=self.shifted, threads=threads, memo=self.memo)
        scores: FloatArray = cross @ self.coefficients
        scores -= self.offset
        return scores

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "memo": {}}  # made again where it is needed

    def flipped(self, signs: FloatArray) -> KernelProjection:
        """Return the projection with the signs of some components changed."""
        return replace(self, coefficients=self.coefficients * signs, offset=self.offset * signs)

    def head(self, k: int) -> KernelProjection:
        """Return the projection on the first k components."""
        if k >= len(self.offset):
            return self
        return replace(self, coefficients=np.ascontiguousarray(self.coefficients[:, :k]), offset=self.offset[:k])


@dataclass(frozen=True)
class MatrixProjection:
    """The same for kernel values that come precomputed."""

    coefficients: FloatArray  # A, shape: (n, k)
    offset: FloatArray  # shape: (k,)

    def __call__(self, X: Any, *, threads: int = 1) -> FloatArray:
        """Return the scores that belong to rows of kernel values.  # shape: (m, k)"""
        return np.asarray(X @ self.coefficients, dtype=np.float64) - self.offset

    def head(self, k: int) -> MatrixProjection:
        """Return the projection on the first k components."""
        if k >= len(self.offset):
            return self
        return replace(self, coefficients=np.ascontiguousarray(self.coefficients[:, :k]), offset=self.offset[:k])


@dataclass(frozen=True)
class FeatureProjection:
    """t(x) = V'(f(x) - mean of the features)."""

    feature_map: FeatureMap
    directions: FloatArray  # V, shape: (r, k)
    offset: FloatArray  # V' mean, shape: (k,)

    def __call__(self, X: Any, *, threads: int = 1) -> FloatArray:
        """Return the scores of the rows of X; their features are made a piece at a time.  # shape: (m, k)"""
        scores = np.empty((X.shape[0], len(self.offset)))
        step = max(1, _PIECE_NUMBERS // max(self.feature_map.rank, 1))
        pieces = [slice(start, min(start + step, X.shape[0])) for start in range(0, X.shape[0], step)]

        def commit(rows: slice, part: FloatArray) -> None:
            scores[rows] = part

        in_order(pieces, lambda: lambda rows: self.feature_map(X[rows]) @ self.directions, commit, threads)
        return scores - self.offset

    def flipped(self, signs: FloatArray) -> FeatureProjection:
        """Return the projection with the signs of some components changed."""
        return replace(
            self, directions=self.directions * signs.astype(self.directions.dtype), offset=self.offset * signs
        )

    def head(self, k: int) -> FeatureProjection:
        """Return the projection on the first k components."""
        if k >= len(self.offset):
            return self
        return replace(self, directions=np.ascontiguousarray(self.directions[:, :k]), offset=self.offset[:k])


Projection = LinearProjection | KernelProjection | MatrixProjection | FeatureProjection
