"""New points to scores: what remains of a fit when all it has to do is transform."""

from __future__ import annotations

from collections.abc import Callable
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
class Centre:
    """The mean in feature space as a combination of rows, sum_j c_j phi(b_j)."""

    coefficients: FloatArray  # c, shape: (n,)
    levels: FloatArray  # K c: the mean's inner products with the rows, shape: (n,)

    @property
    def square(self) -> float:
        """c' K c, the squared length of the mean."""
        return float(self.coefficients @ self.levels)


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

    def residuals(self, X: Any, *, threads: int = 1) -> FloatArray:
        """Return |x - mean|^2 - |t|^2: what the components leave of each row.  # shape: (m,)"""
        left = np.empty(X.shape[0])
        step = band_rows(X.shape[1])
        for start in range(0, X.shape[0], step):
            part = X[start : start + step]
            rows = (part.toarray() if sparse.issparse(part) else part) - self.mean
            rows -= (rows @ self.components.T) @ self.components
            left[start : start + step] = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
        return left

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
    centre: Centre | None = None  # None for a model that is not centred
    precision: np.dtype[Any] | None = None  # in which kernel values are computed; None: that of the rows
    # What the engine made of the training rows: new ones, perhaps one at a time, then cost only their own kernel
    # values.
    memo: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)

    def __call__(self, X: Any, *, threads: int = 1) -> FloatArray:
        """Return the scores of the rows of X, never holding more than a few tiles.  # shape: (m, k)"""
        cross, _ = self._cross(X, threads)
        scores: FloatArray = cross @ self.coefficients
        scores -= self.offset
        return scores

    def residuals(self, X: Any, *, threads: int = 1) -> FloatArray:
        """Return |phi(x) - P phi(x)|^2 = k(x, x) - 2 k_x'c + c'Kc - |t|^2, at least 0.  # shape: (m,)"""
        cross, X = self._cross(X, threads)
        left: FloatArray = self.kernel.diagonal(X).astype(np.float64)
        if self.centre is None:
            products = cross @ self.coefficients
        else:
            c = self.centre.coefficients
            products = cross @ np.column_stack([self.coefficients, c])
            left += self.centre.square - 2.0 * (products[:, -1] + cross.constant * c.sum())
            products = products[:, :-1] - self.offset
        left -= np.einsum("ij,ij->i", products, products)
        return np.maximum(left, 0.0, out=left)

    def _cross(self, X: Any, threads: int) -> tuple[CrossGram, Any]:
        """Return the kernel values of new rows with the known ones, and the new rows in the form of those."""
        if sparse.issparse(self.X) != sparse.issparse(X):
            X = X.toarray() if sparse.issparse(X) else sparse.csr_matrix(X)
        dtype = X.dtype if self.precision is None else self.precision
        m, d, k = X.shape[0], max(row_columns(X), row_columns(self.X)), len(self.offset)
        needed = transform_bytes(m, self.X.shape[0], d, k, itemsize=dtype.itemsize, threads=threads)
        require(needed, memory_budget, "or transform fewer rows at a time")
        cross = CrossGram(self.kernel, X, self.X, dtype=dtype, shifted=self.shifted, threads=threads, memo=self.memo)
        return cross, X

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
    mean: FloatArray  # of the features, or 0 without centring, shape: (r,)

    @property
    def offset(self) -> FloatArray:
        """V' mean.  # shape: (k,)"""
        offset: FloatArray = self.mean @ self.directions
        return offset

    def __call__(self, X: Any, *, threads: int = 1) -> FloatArray:
        """Return the scores of the rows of X; their features are made a piece at a time.  # shape: (m, k)"""
        scores = np.empty((X.shape[0], self.directions.shape[1]))
        self._each(X, lambda features: features @ self.directions, scores, threads)
        return scores - self.offset

    def residuals(self, X: Any, *, threads: int = 1) -> FloatArray:
        """Return |f(x) - mean|^2 - |t|^2: what the components leave of the features.  # shape: (m,)"""

        def left(features: FloatArray) -> FloatArray:
            rows = features - self.mean
            rows -= (rows @ self.directions) @ self.directions.T
            lengths: FloatArray = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
            return lengths

        residuals = np.empty(X.shape[0])
        self._each(X, left, residuals, threads)
        return residuals

    def _each(self, X: Any, work: Callable[[FloatArray], FloatArray], out: FloatArray, threads: int) -> None:
        """Write what `work` makes of the features of the rows of X, a piece at a time."""
        step = max(1, _PIECE_NUMBERS // max(self.feature_map.rank, 1))
        pieces = [slice(start, min(start + step, X.shape[0])) for start in range(0, X.shape[0], step)]

        def commit(rows: slice, part: FloatArray) -> None:
            out[rows] = part

        in_order(pieces, lambda: lambda rows: work(self.feature_map(X[rows])), commit, threads)

    def flipped(self, signs: FloatArray) -> FeatureProjection:
        """Return the projection with the signs of some components changed."""
        return replace(self, directions=self.directions * signs.astype(self.directions.dtype))

    def head(self, k: int) -> FeatureProjection:
        """Return the projection on the first k components."""
        if k >= self.directions.shape[1]:
            return self
        return replace(self, directions=np.ascontiguousarray(self.directions[:, :k]))


Projection = LinearProjection | KernelProjection | MatrixProjection | FeatureProjection
