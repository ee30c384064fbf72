"""New points to scores: what remains of a fit when all it has to do is transform."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, Self, cast

import numpy as np
from scipy import sparse

from kpca._base.config import BASE, memory_budget, require, row_columns
from kpca._base.linalg import FloatArray
from kpca._base.threads import in_order, single_threaded
from kpca.features import FeatureMap
from kpca.gram import CrossGram
from kpca.gram.engine import like, to_host
from kpca.gram.tiles import band_rows, by_slices, piece_rows, slices, workers_bytes
from kpca.kernels import Kernel

# Numbers of rows that stay in the cache while they are centred and multiplied.
_CENTRED_NUMBERS = 100_000
# Features of the shortest piece of work.
_SHORTEST_PIECE = 500_000
# Rows of scores that a thread goes over at a time; up to so many, a single one does.
SCORES_AT_ONCE = 32_768
# Rows of given kernel values that are multiplied at a time.
_MATRIX_ROWS = 512
# Residuals below this many units in the last place of what they are the difference of are 0.
_ROUNDING = 16.0


@dataclass(frozen=True)
class Centre:
    """The mean in feature space as a combination of rows, sum_j c_j phi(b_j)."""

    coefficients: FloatArray  # c, shape: (n,)
    levels: FloatArray  # K c: the mean's inner products with the rows, shape: (n,)

    @property
    def square(self) -> float:
        """c' K c, the squared length of the mean."""
        return float(self.coefficients @ self.levels)


class Parts(NamedTuple):
    """What a projection splits rows into."""

    scores: FloatArray  # t, shape: (m, k)
    residuals: FloatArray  # the squared length of what the components leave, shape: (m,)


@dataclass(frozen=True)
class LinearProjection:
    """t(x) = V'(x - mean): the linear kernel in the primal."""

    components: FloatArray  # unit directions, zero for components without variance, shape: (k, d)
    mean: FloatArray  # shape: (d,)

    def __call__(self, X: Any, *, threads: int = 1) -> FloatArray:
        if isinstance(X, np.ndarray):
            # centred before the product, so that an offset costs no digits
            (m, d), scores = X.shape, np.empty((len(X), len(self.components)))
            pieces = slices(m, max(1, _CENTRED_NUMBERS // d))

            def make_worker() -> Callable[[slice], Any]:
                memory = np.empty((pieces[0].stop, d), dtype=np.result_type(X, self.mean))
                return lambda here: np.matmul(
                    np.subtract(X[here], self.mean, out=memory[: here.stop - here.start]),
                    self.components.T,
                    out=scores[here],
                )

            in_order(pieces, make_worker, lambda *_: None, threads)
            return scores
        return np.asarray(np.asarray(X @ self.components.T) - self.mean @ self.components.T)

    def parts(self, X: Any, *, threads: int = 1) -> Parts:
        """Return the scores, and |x - mean|^2 - |t|^2: what the components leave of each row."""

        def work(here: slice) -> FloatArray:
            part = X[here]
            rows = (part.toarray() if sparse.issparse(part) else part) - self.mean
            return np.column_stack(_split(rows, self.components.T))

        both = np.empty((X.shape[0], len(self.components) + 1))
        return _parts_of(by_slices(work, both, band_rows(X.shape[1]), threads))

    def doubled(self) -> LinearProjection:
        directions = _orthonormal(self.components.T.astype(np.float64))
        return replace(self, components=directions.T, mean=self.mean.astype(np.float64))

    def flipped(self, signs: FloatArray) -> LinearProjection:
        return replace(self, components=self.components * signs[:, None].astype(self.components.dtype))

    def head(self, k: int) -> LinearProjection:
        return replace(self, components=self.components[:k])


class _ByComponents:
    """What projections share whose arrays have an entry for each component on their last axis."""

    _numbers: ClassVar[tuple[str, ...]] = ("coefficients", "offset")

    def head(self, k: int) -> Self:
        """Return the projection on the first k components."""
        if k >= getattr(self, self._numbers[0]).shape[-1]:
            return self
        return self._changed(lambda numbers: np.ascontiguousarray(numbers[..., :k]))

    def flipped(self, signs: FloatArray) -> Self:
        return self._changed(lambda numbers: numbers * signs.astype(numbers.dtype))

    def _changed(self, change: Callable[[FloatArray], FloatArray]) -> Self:
        whole: Any = self
        return cast(Self, replace(whole, **{name: change(getattr(self, name)) for name in self._numbers}))


@dataclass(frozen=True)
class KernelProjection(_ByComponents):
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

    # A row alone is over before the limits of BLAS are set and undone for each step.
    @single_threaded()
    def __call__(self, X: Any, *, threads: int = 1) -> FloatArray:
        """Return the scores of the rows of X, never holding more than a few tiles.  # shape: (m, k)"""
        cross, _ = self._cross(X, threads)
        scores = cross @ self.coefficients
        scores -= like(self.offset, scores)
        return scores

    @single_threaded()
    def parts(self, X: Any, *, threads: int = 1) -> Parts:
        """Return the scores, and |phi(x) - P phi(x)|^2 = k(x, x) - 2 k_x'c + c'Kc - |t|^2.

        The latter is negative for some rows if the kernel is not positive semidefinite: it is no squared length then.
        """
        cross, X = self._cross(X, threads)
        left: FloatArray = self.kernel.diagonal(X).astype(np.float64)
        rounding = _ROUNDING * float(np.finfo(np.float64).eps) * np.abs(left)
        if self.centre is None:
            scores = to_host(cross @ self.coefficients) - self.offset
        else:
            c = self.centre.coefficients
            products = to_host(cross @ np.column_stack([self.coefficients, c]))
            left += self.centre.square - 2.0 * (products[:, -1] + cross.constant * c.sum())
            scores = products[:, :-1] - self.offset
        left -= np.einsum("ij,ij->i", scores, scores)
        if self.kernel.psd_in(X.shape[1]):
            left[left <= rounding] = 0.0
        return Parts(scores, left)

    @property
    def shift(self) -> float:
        """What kernel values enter without: f(0), or 0 where they are not shifted."""
        return float(self._cross(self.X[:1], 1)[0].constant)

    def doubled(self) -> KernelProjection:
        return replace(self, precision=np.dtype(np.float64), memo={})

    def _cross(self, X: Any, threads: int) -> tuple[CrossGram, Any]:
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


@dataclass(frozen=True)
class MatrixProjection(_ByComponents):
    """The same for kernel values that come precomputed."""

    coefficients: FloatArray  # A, shape: (n, k)
    offset: FloatArray  # shape: (k,)

    def __call__(self, X: Any, *, threads: int = 1) -> FloatArray:
        if not isinstance(X, np.ndarray):
            return np.asarray(X @ self.coefficients, dtype=np.float64) - self.offset
        scores = np.empty((len(X), len(self.offset)))
        return by_slices(lambda rows: X[rows] @ self.coefficients - self.offset, scores, _MATRIX_ROWS, threads)


@dataclass(frozen=True)
class FeatureProjection(_ByComponents):
    """t(x) = V'(f(x) - mean of the features)."""

    _numbers: ClassVar[tuple[str, ...]] = ("directions",)
    feature_map: FeatureMap
    directions: FloatArray  # V, shape: (r, k)
    mean: FloatArray  # of the features, or 0 without centring, shape: (r,)

    @property
    def offset(self) -> FloatArray:
        return np.asarray(self.mean @ self.directions)

    @single_threaded()
    def __call__(self, X: Any, *, threads: int = 1) -> FloatArray:
        """Return the scores of the rows of X; their features are made a piece at a time.  # shape: (m, k)"""
        scores, offset = np.empty((X.shape[0], self.directions.shape[1])), self.offset
        return self._each(X, lambda features: features @ self.directions - offset, scores, threads)

    def parts(self, X: Any, *, threads: int = 1) -> Parts:
        """Return the scores, and |f(x) - mean|^2 - |t|^2: what the components leave of the features."""
        k = self.directions.shape[1]

        def work(features: FloatArray) -> FloatArray:
            return np.column_stack(_split(features - self.mean, self.directions))

        return _parts_of(self._each(X, work, np.empty((X.shape[0], k + 1)), threads))

    def doubled(self) -> FeatureProjection:
        directions = _orthonormal(self.directions.astype(np.float64))
        return replace(self, directions=directions, mean=self.mean.astype(np.float64))

    def _each(self, X: Any, work: Callable[[FloatArray], FloatArray], out: FloatArray, threads: int) -> FloatArray:
        rank = max(self.feature_map.rank, 1)
        step = piece_rows(len(out), rank, max(1, _SHORTEST_PIECE // rank))
        return by_slices(lambda rows: work(self.feature_map(X[rows])), out, step, threads)


def _split(rows: FloatArray, directions: FloatArray) -> Parts:
    """Return centred rows split by orthonormal directions, and overwrite them by what these leave."""
    rounding = np.square(_ROUNDING * np.finfo(rows.dtype).eps) * np.einsum("ij,ij->i", rows, rows)
    scores = rows @ directions
    rows -= scores @ directions.T
    squares = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
    return Parts(scores, np.where(squares > rounding, squares, 0.0))


def converted(scores: FloatArray, dtype: np.dtype[Any], threads: int) -> FloatArray:
    """Return scores in this dtype: themselves where they have it."""
    if scores.dtype == dtype or len(scores) <= SCORES_AT_ONCE or not isinstance(scores, np.ndarray):
        return scores.astype(dtype, copy=False)
    return by_slices(lambda rows: scores[rows], np.empty(scores.shape, dtype=dtype), SCORES_AT_ONCE, threads)


def _parts_of(both: FloatArray) -> Parts:
    """Return scores with residuals in a last column as what they are."""
    return Parts(both[:, :-1], both[:, -1])


def transform_bytes(m: int, n: int, d: int, k: int, *, itemsize: int, threads: int = 1) -> int:
    """Return what the scores of m new rows take: themselves, the prepared rows of both sides, a tile per thread."""
    scores = m * k * (8 + (itemsize if itemsize == 4 else 0))
    prepared = (d + 2) * (n + min(m, band_rows(d))) * itemsize
    return scores + prepared + n * k * itemsize + workers_bytes(threads, n) + BASE


def _orthonormal(V: FloatArray) -> FloatArray:
    """Return columns of length 1 or 0 that are orthogonal to rounding, of ones that are to single precision."""
    # One step of Newton's iteration for the nearest orthonormal columns, which squares the error.
    return np.asarray(1.5 * V - 0.5 * (V @ (V.T @ V)))


Projection = LinearProjection | KernelProjection | MatrixProjection | FeatureProjection
