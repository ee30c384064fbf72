"""Operators of given numbers: a kernel matrix that exists already, or F F' of explicit features, never n x n.

The linear kernel has F = S (X - mean) with S the square roots of the weights. The nonzero eigenvalues of F F' are those
of F'F, which is d x d: `Factored` is the small side of the two, and turns its eigenvectors into those of the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

from kpca._base.linalg import FloatArray, mean_of_rows
from kpca._base.threads import all_threads, in_order
from kpca.gram.operator import Moments, OfData
from kpca.gram.tiles import by_slices, slices
from kpca.kernels import Kernel

_EPS = float(np.finfo(np.float64).eps)
# Numbers in a chunk of rows that stays in the cache while it is centred and multiplied.
_CHUNK = 100_000
# The fewest rows of F, or columns, that are multiplied at a time.
_SHORTEST_BAND = 700
# Up to this many numbers a pass over the rows is done before a second thread has started.
_ONE_THREAD_NUMBERS = 400_000
# Columns of the identity that a LinearOperator multiplies at a time to be written out, and rows that are squared.
_MATRIX_COLUMNS, _ROWS_AT_ONCE = 256, 512
# Columns of the identity that sparse rows multiply at a time, where their small side is written out.
_COLUMNS_AT_ONCE = 64
# Rows from which a first guess of the mean is made.
_SAMPLE = 64
# An origin is as good as the mean while its squared distance is at most this many times the mean square of the rows'.
_NEAR_ORIGIN = 4.0


class MatrixGram(OfData):
    """S K S of a given K; products are those of NumPy in bands of rows, of SciPy, or of the LinearOperator itself."""

    kernel: Kernel | None = None
    psd, null = False, None  # nothing is known of a matrix that somebody else made

    def __init__(self, K: Any, *, scale: FloatArray | None = None, threads: int = 1) -> None:
        self.shape = (K.shape[0], K.shape[0])
        self._data, self._scale, self.threads = K, scale, threads
        self.constant = 0.0

    def __matmul__(self, V: FloatArray) -> FloatArray:
        if self._scale is None:
            return self._product(V)
        return self._product(V * self._scale[:, None]) * self._scale[:, None]

    def _product(self, V: FloatArray) -> FloatArray:
        K = self._data
        if isinstance(K, np.ndarray):
            # float32 entries, float64 sums: NumPy would make a float64 copy of the whole matrix
            def work(rows: slice) -> FloatArray:
                return np.asarray(K[rows].astype(np.float64, copy=False) @ V)

            return by_slices(work, np.empty(V.shape), _ROWS_AT_ONCE, self.threads or 1)
        # how many threads a LinearOperator needs is its own affair
        with all_threads() if isinstance(K, LinearOperator) else nullcontext():
            return np.asarray(K @ V, dtype=np.float64)

    @cached_property
    def _entries(self) -> tuple[float, float]:
        """The trace and the square of the Frobenius norm; NaN for an operator without entries."""
        scale = self.scale
        if isinstance(self._data, LinearOperator):
            return math.nan, math.nan
        diagonal = np.asarray(self._data.diagonal(), dtype=np.float64)
        if sparse.issparse(self._data):
            squares = float(scale**2 @ (self._data.multiply(self._data) @ scale**2))
        else:
            squares = sum(
                float(scale[rows] ** 2 @ (np.square(self._data[rows], dtype=np.float64) @ scale**2))
                for rows in slices(self.shape[0], _ROWS_AT_ONCE)
            )
        return float(diagonal @ scale**2), squares

    def moments(self) -> Moments:
        return Moments(self._image, *self._entries)

    @cached_property
    def _image(self) -> FloatArray:
        # the mean over training rows of each column: new rows of kernel values are compared with that
        if isinstance(self._data, LinearOperator):
            return (self @ self.scale[:, None])[:, 0]
        return np.asarray(self._data.T @ self.scale**2, dtype=np.float64).ravel() * self.scale

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
        if isinstance(self._data, LinearOperator):
            K = np.empty(self.shape)
            for part in slices(len(K), _MATRIX_COLUMNS):
                K[:, part] = self._data @ np.eye(len(K), part.stop - part.start, -part.start)
        else:
            K = self._data.toarray() if sparse.issparse(self._data) else self._data
            K = np.array(K, dtype=np.float64)
        return self._weighted(K)


class Factored(OfData):
    """F'F (primal, d x d) or F F' (dual, n x n), whichever is smaller, of dense or CSR rows."""

    kernel, psd = None, True

    def __init__(self, X: Any, *, centred: bool, scale: FloatArray | None = None, threads: int = 1) -> None:
        n, d = X.shape
        self._threads = threads if n * d > _ONE_THREAD_NUMBERS else 1
        self.primal = d <= n
        self.shape = (d, d) if self.primal else (n, n)
        self._data, self._scale, self._centred = X, scale, centred
        self._mass = float(n if scale is None else scale @ scale)
        self.sparse = sparse.issparse(X)
        self._trace: float | None = None
        self._matrix_norm: float | None = None

    @cached_property
    def mean(self) -> FloatArray:
        """The (weighted) mean row, 0 without centring.  # shape: (d,)"""
        if not self._centred:
            return np.zeros(self._data.shape[1])
        if not self.sparse:
            return mean_of_rows(self._data, None if self._scale is None else self._scale**2)
        # a product with float64 weights; SciPy's own sum of float32 rows would be one of float32 numbers
        return np.asarray(self._data.T @ self.scale**2, dtype=np.float64).ravel() / self._mass

    def _chunks(self) -> list[slice]:
        n, d = self._data.shape
        return slices(n, max(1, _CHUNK // d))

    def _over_chunks(
        self, origin: FloatArray, work: Callable[[slice, FloatArray], Any], commit: Callable[[slice, Any], None]
    ) -> None:
        """Work on the rows of S (X - origin), a chunk at a time; commit the results in the order of the rows."""
        chunks = self._chunks()

        def make_worker() -> Callable[[slice], Any]:
            memory = np.empty((chunks[0].stop, self._data.shape[1]), dtype=self._data.dtype)
            return lambda rows: work(rows, self._relative(rows, origin, memory[: rows.stop - rows.start]))

        in_order(chunks, make_worker, commit, self._threads)

    def _relative(self, rows: slice, origin: FloatArray, out: FloatArray) -> FloatArray:
        """Return some rows of S (X - origin) in the dtype of the data: written to `out`, or the rows as they are.

        A difference of two float32 numbers is rounded relative to itself, whatever their size: so it is taken from the
        origin as float32 writes it, and what that leaves of the origin is subtracted next.
        """
        if self._scale is None and not origin.any():
            return np.asarray(self._data[rows])
        near = origin.astype(out.dtype)
        np.subtract(self._data[rows], near, out=out)
        rest = (origin - near).astype(out.dtype)
        if rest.any():
            out -= rest
        if self._scale is not None:
            out *= self._scale[rows, None].astype(out.dtype)
        return out

    @cached_property
    def _origin(self) -> FloatArray:
        """A point so near the mean that rows relative to it lose no digits; 0, which costs nothing, if it will do."""
        n, d = self._data.shape
        if not self._centred:
            return np.zeros(d)
        some = self._data[:: max(1, n // _SAMPLE)]
        middle = mean_of_rows(some)
        spread = float(np.square(some - middle).sum()) / len(some)
        return np.zeros(d) if middle @ middle <= _NEAR_ORIGIN * spread else middle

    @cached_property
    def features(self) -> FloatArray:
        """All of the dense F, for repeated products.  # shape: (n, d)"""
        whole = np.empty(self._data.shape, dtype=self._data.dtype)
        self._over_chunks(self.mean, whole.__setitem__, lambda *_: None)
        return whole

    @cached_property
    def null(self) -> FloatArray | None:
        if self.primal or not self._centred:
            return None
        return self.scale / math.sqrt(self._mass)

    def features_times(self, V: FloatArray) -> FloatArray:
        """Return F V in float64, each column in one piece: what follows goes along them.  # shape: (n, b)"""
        if self.sparse:
            image: FloatArray = np.asarray(self._data @ V, dtype=np.float64) - self.mean @ V
            return image if self._scale is None else image * self._scale[:, None]
        V = V.astype(self._data.dtype, copy=False)
        if "features" in self.__dict__:
            F = self.features
            return by_slices(lambda rows: F[rows] @ V, np.empty((len(F), V.shape[1])), _band(len(F)), self._threads)
        image = np.empty((V.shape[1], self._data.shape[0]))
        rest = (self.mean - self._origin) @ V

        def work(rows: slice, part: FloatArray) -> None:
            off = rest[:, None] if self._scale is None else np.multiply.outer(rest, self._scale[rows])
            np.subtract(V.T @ part.T, off, out=image[:, rows])

        self._over_chunks(self._origin, work, lambda *_: None)
        return image.T

    def transposed_times(self, U: FloatArray) -> FloatArray:
        """Return F'U in float64.  # shape: (d, b)"""
        if not self.sparse:
            F, U = self.features, U.astype(self._data.dtype, copy=False)
            return self._summed(lambda rows: F[rows].T @ U[rows], len(F), (F.shape[1], U.shape[1]))
        scaled = U if self._scale is None else U * self._scale[:, None]
        image: FloatArray = np.asarray(self._data.T @ scaled, dtype=np.float64)
        image -= np.multiply.outer(self.mean, scaled.sum(axis=0))
        return image

    def __matmul__(self, V: FloatArray) -> FloatArray:
        if self.primal:
            if not self.sparse:
                F, V = self.features, V.astype(self._data.dtype, copy=False)
                return self._summed(lambda rows: F[rows].T @ (F[rows] @ V), len(F), (F.shape[1], V.shape[1]))
            return self.transposed_times(self.features_times(V))
        return self.features_times(self.transposed_times(V))

    def trace(self) -> float:
        if self._trace is None:
            if not self.sparse:
                sums: list[float] = []
                self._over_chunks(
                    self.mean,
                    lambda _, part: float(np.einsum("ij,ij->", part, part, dtype=np.float64)),
                    lambda _, total: sums.append(total),
                )
                self._trace = sum(sums)
            else:
                X = self._data.astype(np.float64)
                raw = np.asarray(X.multiply(X).sum(axis=1)).ravel() - 2.0 * (X @ self.mean) + self.mean @ self.mean
                self._trace = float(np.maximum(raw, 0.0) @ self.scale**2)
        return self._trace

    def frobenius2(self) -> float:
        """Return NaN: the sum of the squared eigenvalues costs as much as forming the matrix."""
        return math.nan

    def sum_of_squares(self) -> float:
        """Return the sum of the squared eigenvalues, from products with a part of the identity at a time."""
        images = (self @ np.eye(self.shape[0], cut.stop - cut.start, -cut.start) for cut in slices(self.shape[0], 512))
        return sum(float(np.vdot(image, image)) for image in images)

    frobenius2_error = frobenius2

    def error(self, V: FloatArray) -> float:
        """Return the rounding of a product: |F|^2 is at most the trace; the norm of the matrix is less, if known."""
        eps = _EPS if self.sparse else float(np.finfo(self._data.dtype).eps)
        return 4 * eps * (self.trace() if self._matrix_norm is None else self._matrix_norm)

    def matrix(self) -> FloatArray:
        if self.sparse:
            M = np.empty(self.shape)
            for part in slices(len(M), _COLUMNS_AT_ONCE):  # the product on the way is as long as the data
                M[:, part] = self @ np.eye(len(M), part.stop - part.start, -part.start)
        elif self.primal:
            M = self._second_moments()
        else:
            F = self.features
            M = self._summed(lambda columns: F[:, columns] @ F[:, columns].T, F.shape[1], self.shape)
        self._trace, self._matrix_norm = float(np.trace(M)), float(np.sqrt(np.vdot(M, M)))
        return M

    def _second_moments(self) -> FloatArray:
        """Return F'F, and find the mean, in one pass over the rows."""
        # Rows are taken relative to a point near the mean; what it is off by is put right at the end, at no loss of
        # digits because it is small.
        d = self._data.shape[1]
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

    def _summed(self, work: Callable[[slice], FloatArray], n: int, shape: tuple[int, int]) -> FloatArray:
        """Return in float64 the sum of what `work` makes of bands of n rows or columns, in their order."""
        total = np.zeros(shape)

        def commit(_: slice, part: FloatArray) -> None:
            np.add(total, part, out=total)

        in_order(slices(n, _band(n)), lambda: work, commit, self._threads)
        return total


def _band(n: int) -> int:
    """Return how many of n rows are multiplied at a time: bands of about the same length."""
    return -(-n // max(1, n // _SHORTEST_BAND))
