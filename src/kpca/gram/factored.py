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
from kpca.gram.operator import Moments, OfData, Precision
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
# Columns that a thread multiplies at a time where there are more columns than rows.
_WIDEST = 512
# Columns on which the error of float32 products is measured, and what it is multiplied by to be on the safe side.
_MEASURED, _SAFETY = 4, 4.0


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
    """F'F (primal, d x d) or F F' (dual, n x n), whichever is smaller, of dense or CSR rows.

    Sums are float64 whatever the dtype of the rows: u = F v / |F v| magnifies what rounding did to F'F by the root of
    lambda_1 / lambda. `at("single")` multiplies float32 rows as they are, for passes whose error can be borne.
    """

    kernel, psd = None, True

    def __init__(
        self,
        X: Any,
        *,
        centred: bool,
        scale: FloatArray | None = None,
        threads: int = 1,
        precision: Precision = "double",
    ) -> None:
        n, d = X.shape
        self._threads = threads if n * d > _ONE_THREAD_NUMBERS else 1
        self.primal = d <= n
        self.shape = (d, d) if self.primal else (n, n)
        self._data, self._scale, self._centred = X, scale, centred
        self._mass = float(n if scale is None else scale @ scale)
        self.sparse, self.dtype = sparse.issparse(X), X.dtype
        self._trace: float | None = None
        self._single = precision == "single"
        self._other: Factored | None = None

    def at(self, precision: Precision) -> Factored:
        """Return the same operator with products of this precision; itself where float32 would save nothing."""
        if (precision == "single") == self._single or self.sparse or self.dtype == np.float64:
            return self
        if self._other is None:
            how: dict[str, Any] = {"centred": self._centred, "scale": self._scale, "threads": self._threads}
            self._other = Factored(self._data, **how, precision=precision)
            self._other._other, self._other._middle = self, self._middle
        return self._other

    # -- the rows, relative to their mean -------------------------------------------------------------------------

    @property
    def mean(self) -> FloatArray:
        """The (weighted) mean row, 0 without centring.  # shape: (d,)"""
        return self._middle[0] + self._middle[1]

    @cached_property
    def _middle(self) -> tuple[FloatArray, FloatArray]:
        """The mean as a point near it and the rest, so that rows far from 0 lose no digits.  # shapes: (d,), (d,)"""
        origin = self._origin
        if not self._centred:
            return origin, origin
        if self.sparse:
            # a product with float64 weights; SciPy's own sum of float32 rows would be one of float32 numbers
            return np.asarray(self._data.T @ self.scale**2, dtype=np.float64).ravel() / self._mass, origin
        total = np.zeros(len(origin))
        self._add_up(lambda rows, part: self._roots(rows) @ part, total, (origin, None))
        return origin, total / self._mass

    @cached_property
    def _origin(self) -> FloatArray:
        """A point near the mean; 0, which costs nothing, if it will do."""
        n, d = self._data.shape
        if not self._centred or self.sparse:
            return np.zeros(d)
        if self._scale is not None:
            return mean_of_rows(self._data, self._scale**2)  # some rows would not do: a few may have all of the weight
        some = self._data[:: max(1, n // _SAMPLE)]
        middle = mean_of_rows(some)
        spread = float(np.square(some - middle).sum()) / len(some)
        return np.zeros(d) if middle @ middle <= _NEAR_ORIGIN * spread else middle

    def _roots(self, rows: slice) -> FloatArray:
        return np.ones(rows.stop - rows.start) if self._scale is None else self._scale[rows]

    def _chunks(self) -> list[slice]:
        n, d = self._data.shape
        return slices(n, max(1, _CHUNK // d))

    def _on_rows(
        self, work: Callable[[slice, FloatArray], Any], middle: tuple[FloatArray, FloatArray | None] | None = None
    ) -> Callable[[], Callable[[slice], Any]]:
        """Return what makes workers on rows of F, or of S (X - middle), in float64."""
        origin, rest = self._middle if middle is None else middle
        as_it_is = self._scale is None and self.dtype == np.float64 and not origin.any()
        as_it_is = as_it_is and (rest is None or not rest.any())
        shape = self._chunks()[0].stop, self._data.shape[1]

        def make_worker() -> Callable[[slice], Any]:
            memory = np.empty((0, 0) if as_it_is else shape)

            def on(rows: slice) -> Any:
                if as_it_is:
                    return work(rows, self._data[rows])
                part = memory[: rows.stop - rows.start]
                self._relative(slice(None), rows, (origin, rest), part)
                return work(rows, part)

            return on

        return make_worker

    def _add_up(
        self,
        work: Callable[[slice, FloatArray], FloatArray],
        total: FloatArray,
        middle: tuple[FloatArray, FloatArray | None] | None = None,
    ) -> None:
        """Add what `work` makes of rows to a total, in the order of the rows."""

        def commit(_: slice, found: FloatArray) -> None:
            np.add(total, found, out=total)

        in_order(self._chunks(), self._on_rows(work, middle), commit, self._threads)

    def _relative(
        self, columns: slice, rows: slice, middle: tuple[FloatArray, FloatArray | None], out: FloatArray
    ) -> None:
        """Write some rows and columns of S (X - middle): each difference is rounded relative to itself."""
        origin, rest = middle
        out[...] = self._data[rows, columns]  # then no operation has to convert numbers on the way
        if origin.any():
            out -= origin[columns]
        if rest is not None:
            out -= rest[columns]
        if self._scale is not None:
            out *= self._scale[rows, None]

    @cached_property
    def features(self) -> FloatArray:
        """All of the dense F in the dtype of the data, for repeated products.  # shape: (n, d)"""
        whole = np.empty(self._data.shape, dtype=self.dtype)
        in_order(self._chunks(), self._on_rows(whole.__setitem__), lambda *_: None, self._threads)
        return whole

    @cached_property
    def null(self) -> FloatArray | None:
        if self.primal or not self._centred:
            return None
        return self.scale / math.sqrt(self._mass)

    # -- products -------------------------------------------------------------------------------------------------

    def features_times(self, V: FloatArray) -> FloatArray:
        """Return F V in float64, each column in one piece: what follows goes along them.  # shape: (n, b)"""
        return self.images(V)[0]

    def images(self, V: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return Z = F V in float64, each column in one piece, and Z'Z.  # shapes: (n, b), (b, b)"""
        n, b = self._data.shape[0], V.shape[1]
        if self.sparse:
            Z: FloatArray = np.asfortranarray(self._data @ V, dtype=np.float64)
            Z -= self.mean @ V
            if self._scale is not None:
                Z *= self._scale[:, None]
            return Z, Z.T @ Z
        turned, products = np.empty((b, n)), np.zeros((b, b))
        # the rest of the mean is small, so that it may be subtracted from the products as well
        origin, rest = self._middle
        off = rest @ V

        def work(rows: slice, part: FloatArray) -> FloatArray:
            here = V.T @ part.T
            here -= off[:, None] if self._scale is None else np.multiply.outer(off, self._scale[rows])
            turned[:, rows] = here
            return np.asarray(here @ here.T)

        self._add_up(work, products, (origin, None))
        return turned.T, products

    def transposed_times(self, U: FloatArray) -> FloatArray:
        """Return F'U in float64.  # shape: (d, b)"""
        if self.sparse:
            scaled = U if self._scale is None else U * self._scale[:, None]
            sums: FloatArray = np.asarray(self._data.T @ scaled, dtype=np.float64)
            sums -= np.multiply.outer(self.mean, scaled.sum(axis=0))
            return sums
        image = np.zeros((self._data.shape[1], U.shape[1]))
        self._add_up(lambda rows, part: part.T @ U[rows], image)
        return image

    def __matmul__(self, V: FloatArray) -> FloatArray:
        if not self.sparse and (self._single or self.dtype == np.float64):
            F, V = self.features, V.astype(self.dtype, copy=False)
            if self.primal:
                return self._summed(lambda rows: F[rows].T @ (F[rows] @ V), V.shape)
            inside = self._summed(lambda rows: F[rows].T @ V[rows], (F.shape[1], V.shape[1])).astype(self.dtype)
            return by_slices(lambda rows: F[rows] @ inside, np.empty(V.shape), _band(len(F)), self._threads)
        if not self.primal:
            return self.features_times(self.transposed_times(V))
        if self.sparse:
            return self.transposed_times(self.features_times(V))
        image = np.zeros(V.shape)
        self._add_up(lambda _, part: part.T @ (part @ V), image)
        return image

    def trace(self) -> float:
        if self._trace is None:
            self._trace = self._squares()
        return self._trace

    def _squares(self) -> float:
        sums: list[float] = []
        if not self.sparse:
            work = self._on_rows(lambda _, part: float(np.einsum("ij,ij->", part, part)))
            in_order(self._chunks(), work, lambda _, total: sums.append(total), self._threads)
            return math.fsum(sums)
        X = self._data.astype(np.float64)
        raw = np.asarray(X.multiply(X).sum(axis=1)).ravel() - 2.0 * (X @ self.mean) + self.mean @ self.mean
        return float(np.maximum(raw, 0.0) @ self.scale**2)

    @cached_property
    def size(self) -> float:
        """The sum of the squares that sums are made of: of sparse rows before their mean is subtracted."""
        return self.trace() + (self._mass * float(self.mean @ self.mean) if self.sparse else 0.0)

    def frobenius2(self) -> float:
        """Return NaN: the sum of the squared eigenvalues costs as much as forming the matrix."""
        return math.nan

    def sum_of_squares(self) -> float:
        """Return the sum of the squared eigenvalues, from products with a part of the identity at a time."""
        images = (self @ np.eye(self.shape[0], cut.stop - cut.start, -cut.start) for cut in slices(self.shape[0], 512))
        return sum(float(np.vdot(image, image)) for image in images)

    frobenius2_error = frobenius2

    def error(self, V: FloatArray) -> float:
        """Return what rounding may do to a product (docs/mathematics.md, section 4); of float32 products, measured."""
        if self._single and V.shape[1]:
            some = np.ascontiguousarray(V[:, :_MEASURED])
            return _SAFETY * float(np.linalg.norm(self @ some - self.at("double") @ some, axis=0).max())
        n, d = self._data.shape
        return _EPS * (8.0 + 2.0 * math.sqrt(n) + 2.0 * math.sqrt(d)) * self.size

    # -- the small side -------------------------------------------------------------------------------------------

    def matrix(self) -> FloatArray:
        if self.sparse:
            M = np.empty(self.shape)
            for part in slices(len(M), _COLUMNS_AT_ONCE):  # the product on the way is as long as the data
                M[:, part] = self @ np.eye(len(M), part.stop - part.start, -part.start)
        else:
            M = self._second_moments() if self.primal else self._products()
        self._trace = float(np.trace(M))
        return M

    def _second_moments(self) -> FloatArray:
        """Return F'F, and find the mean, in one pass over the rows."""
        # Rows are taken relative to a point near the mean; what it is off by is put right at the end, at no loss of
        # digits because it is small.
        origin, d = self._origin, self._data.shape[1]
        C, total = np.zeros((d, d)), np.zeros(d)

        def sums(rows: slice, part: FloatArray) -> tuple[FloatArray, FloatArray]:
            return part.T @ part, self._roots(rows) @ part  # a product is faster than a sum down the columns

        def commit(_: slice, found: tuple[FloatArray, FloatArray]) -> None:
            np.add(C, found[0], out=C)
            np.add(total, found[1], out=total)

        in_order(self._chunks(), self._on_rows(sums, (origin, None)), commit, self._threads)
        self.size = float(np.trace(C))  # of what was summed
        if self._centred:
            rest = total / self._mass
            C -= np.multiply.outer(rest, total)
            self.__dict__["_middle"] = origin, rest
        return C

    def _products(self) -> FloatArray:
        """Return F F', some columns of F at a time."""
        n, d = self._data.shape
        M = np.zeros((n, n))

        def make_worker() -> Callable[[slice], FloatArray]:
            memory = np.empty(n * min(d, _WIDEST))

            def work(columns: slice) -> FloatArray:
                part = memory[: n * (columns.stop - columns.start)].reshape(n, -1)
                self._relative(columns, slice(0, n), self._middle, part)
                return part @ part.T

            return work

        def commit(_: slice, product: FloatArray) -> None:
            np.add(M, product, out=M)

        in_order(slices(d, _WIDEST), make_worker, commit, self._threads)
        return M

    def _summed(self, work: Callable[[slice], FloatArray], shape: tuple[int, ...]) -> FloatArray:
        """Return in float64 the sum of what `work` makes of bands of the rows, in their order."""
        n, total = self._data.shape[0], np.zeros(shape)

        def commit(_: slice, part: FloatArray) -> None:
            np.add(total, part, out=total)

        in_order(slices(n, _band(n)), lambda: work, commit, self._threads)
        return total


def _band(n: int) -> int:
    """Return how many of n rows are multiplied at a time: bands of about the same length."""
    return -(-n // max(1, n // _SHORTEST_BAND))
