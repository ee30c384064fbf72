"""The operator F F' of explicit features: the linear kernel's, without ever being n x n.

F = S (X - mean) with S the square roots of the weights. Its nonzero eigenvalues are those of F'F, which is d x d:
`Factored` is the small side of the two, and turns its eigenvectors into those of the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from kpca._base.linalg import FloatArray, mean_of_rows
from kpca._base.threads import in_order
from kpca.gram.operator import GivenOperator, T
from kpca.gram.tiles import slices

_EPS = float(np.finfo(np.float64).eps)
# Numbers in a chunk of rows that stays in the cache while it is centred and multiplied.
_CHUNK = 100_000
# Up to this many numbers a pass over the rows is done before a second thread has started.
_ONE_THREAD_NUMBERS = 4_000_000
# Columns of the identity that sparse rows multiply at a time, where their small side is written out.
_COLUMNS_AT_ONCE = 64
# Rows from which a first guess of the mean is made.
_SAMPLE = 64
# An origin is as good as the mean while its squared distance is at most this many times the mean square of the rows'.
_NEAR_ORIGIN = 4.0


class Factored(GivenOperator):
    """F'F (primal, d x d) or F F' (dual, n x n), whichever is smaller, of dense or CSR rows."""

    psd = True

    def __init__(self, X: Any, *, centred: bool, scale: FloatArray | None = None, threads: int = 1) -> None:
        n, d = X.shape
        self._threads = threads if n * d > _ONE_THREAD_NUMBERS else 1
        self.primal = d <= n
        self.shape = (d, d) if self.primal else (n, n)
        self._X, self._scale, self._centred = X, scale, centred
        self._mass = float(n if scale is None else scale @ scale)
        self.sparse = sparse.issparse(X)
        self._matrix_trace: float | None = None
        self._matrix_norm: float | None = None

    def hand(self, work: Callable[[Any], T]) -> T:
        return work(self._X)

    @cached_property
    def mean(self) -> FloatArray:
        """The (weighted) mean row, 0 without centring.  # shape: (d,)"""
        if not self._centred:
            return np.zeros(self._X.shape[1])
        if not self.sparse:
            return mean_of_rows(self._X, None if self._scale is None else self._scale**2)
        # a product with float64 weights; SciPy's own sum of float32 rows would be one of float32 numbers
        return np.asarray(self._X.T @ self._roots**2, dtype=np.float64).ravel() / self._mass

    def _chunks(self) -> list[slice]:
        n, d = self._X.shape
        return slices(n, max(1, _CHUNK // d))

    def _over_chunks(
        self, origin: FloatArray, work: Callable[[slice, FloatArray], Any], commit: Callable[[slice, Any], None]
    ) -> None:
        """Work on the rows of S (X - origin), a chunk at a time; commit the results in the order of the rows."""
        chunks = self._chunks()

        def make_worker() -> Callable[[slice], Any]:
            memory = np.empty((chunks[0].stop, self._X.shape[1]), dtype=self._X.dtype)
            return lambda rows: work(rows, self._relative(rows, origin, memory[: rows.stop - rows.start]))

        in_order(chunks, make_worker, commit, self._threads)

    def _relative(self, rows: slice, origin: FloatArray, out: FloatArray) -> FloatArray:
        """Return some rows of S (X - origin) in the dtype of the data: written to `out`, or the rows as they are.

        A difference of two float32 numbers is rounded relative to itself, whatever their size: so it is taken from the
        origin as float32 writes it, and what that leaves of the origin is subtracted next.
        """
        if self._scale is None and not origin.any():
            return np.asarray(self._X[rows])
        near = origin.astype(out.dtype)
        np.subtract(self._X[rows], near, out=out)
        rest = (origin - near).astype(out.dtype)
        if rest.any():
            out -= rest
        if self._scale is not None:
            out *= self._scale[rows, None].astype(out.dtype)
        return out

    @cached_property
    def _origin(self) -> FloatArray:
        """A point so near the mean that rows relative to it lose no digits; 0, which costs nothing, if it will do."""
        n, d = self._X.shape
        if not self._centred:
            return np.zeros(d)
        some = self._X[:: max(1, n // _SAMPLE)]
        middle = mean_of_rows(some)
        spread = float(np.square(some - middle).sum()) / len(some)
        return np.zeros(d) if middle @ middle <= _NEAR_ORIGIN * spread else middle

    @cached_property
    def features(self) -> FloatArray:
        """All of the dense F, for repeated products.  # shape: (n, d)"""
        whole = np.empty(self._X.shape, dtype=self._X.dtype)
        for rows in self._chunks():
            whole[rows] = self._relative(rows, self.mean, whole[rows])
        return whole

    @cached_property
    def null(self) -> FloatArray | None:
        if self.primal or not self._centred:
            return None
        return self._roots / math.sqrt(self._mass)

    @property
    def _roots(self) -> FloatArray:
        return np.ones(self._X.shape[0]) if self._scale is None else self._scale

    def features_times(self, V: FloatArray) -> FloatArray:
        """Return F V in float64.  # shape: (n, b)"""
        if self.sparse:
            image: FloatArray = np.asarray(self._X @ V, dtype=np.float64) - self.mean @ V
            return image if self._scale is None else image * self._scale[:, None]
        V = V.astype(self._X.dtype, copy=False)
        if "features" in self.__dict__:
            return np.asarray(self.features @ V, dtype=np.float64)
        image = np.empty((self._X.shape[0], V.shape[1]))
        rest = (self.mean - self._origin) @ V

        def commit(rows: slice, part: FloatArray) -> None:
            image[rows] = part - (rest if self._scale is None else np.multiply.outer(self._scale[rows], rest))

        self._over_chunks(self._origin, lambda _, part: part @ V, commit)
        return image

    def transposed_times(self, U: FloatArray) -> FloatArray:
        """Return F'U in float64.  # shape: (d, b)"""
        if not self.sparse:
            return np.asarray(self.features.T @ U.astype(self._X.dtype, copy=False), dtype=np.float64)
        scaled = U if self._scale is None else U * self._scale[:, None]
        image: FloatArray = np.asarray(self._X.T @ scaled, dtype=np.float64)
        image -= np.multiply.outer(self.mean, scaled.sum(axis=0))
        return image

    def __matmul__(self, V: FloatArray) -> FloatArray:
        if self.primal:
            if not self.sparse:
                V = self.features @ V.astype(self._X.dtype, copy=False)
                return np.asarray(self.features.T @ V, dtype=np.float64)
            return self.transposed_times(self.features_times(V))
        return self.features_times(self.transposed_times(V))

    @cached_property
    def _squared_norm(self) -> float:
        if not self.sparse:
            sums: list[float] = []
            self._over_chunks(
                self.mean,
                lambda _, part: float(np.einsum("ij,ij->", part, part, dtype=np.float64)),
                lambda _, total: sums.append(total),
            )
            return sum(sums)
        X = self._X.astype(np.float64)
        raw = np.asarray(X.multiply(X).sum(axis=1)).ravel() - 2.0 * (X @ self.mean) + self.mean @ self.mean
        return float(np.maximum(raw, 0.0) @ self._roots**2)

    def trace(self) -> float:
        return self._squared_norm if self._matrix_trace is None else self._matrix_trace

    def frobenius2(self) -> float:
        """Return NaN: the sum of the squared eigenvalues costs as much as forming the matrix."""
        return math.nan

    def sum_of_squares(self) -> float:
        """Return the sum of the squared eigenvalues, from products with a part of the identity at a time."""
        total = 0.0
        for start in range(0, self.shape[0], 512):
            part = self @ np.eye(self.shape[0], min(512, self.shape[0] - start), -start)
            total += float(np.vdot(part, part))
        return total

    def frobenius2_error(self) -> float:
        return math.nan

    def error(self, V: FloatArray) -> float:
        """Return the rounding of a product: |F|^2 is at most the trace; the norm of the matrix is less, if known."""
        eps = _EPS if self.sparse else float(np.finfo(self._X.dtype).eps)
        return 4 * eps * (self.trace() if self._matrix_norm is None else self._matrix_norm)

    def matrix(self) -> FloatArray:
        if self.sparse:
            M = np.empty(self.shape)
            for part in slices(len(M), _COLUMNS_AT_ONCE):  # the product on the way is as long as the data
                M[:, part] = self @ np.eye(len(M), part.stop - part.start, -part.start)
        elif self.primal:
            M = self._second_moments()
        else:
            M = np.asarray(self.features @ self.features.T, dtype=np.float64)
        self._matrix_trace, self._matrix_norm = float(np.trace(M)), float(np.sqrt(np.vdot(M, M)))
        return M

    def _second_moments(self) -> FloatArray:
        """Return F'F, and find the mean, in one pass over the rows."""
        # Rows are taken relative to a point near the mean; what it is off by is put right at the end, at no loss of
        # digits because it is small.
        d = self._X.shape[1]
        C, total = np.zeros((d, d)), np.zeros(d)

        def sums(rows: slice, part: FloatArray) -> tuple[FloatArray, FloatArray]:
            # a product with ones is faster than a sum down the columns
            return part.T @ part, (np.ones(len(part)) if self._scale is None else self._scale[rows]) @ part

        def commit(_: slice, found: tuple[FloatArray, FloatArray]) -> None:
            np.add(C, found[0], out=C)
            np.add(total, found[1], out=total)

        self._over_chunks(self._origin, sums, commit)
        if self._centred:
            C -= np.multiply.outer(total / self._mass, total)
            self.__dict__["mean"] = self._origin + total / self._mass
        return C
