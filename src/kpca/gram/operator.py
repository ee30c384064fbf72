"""The kernel matrix as an operator: it multiplies, and never (necessarily) exists.

`Gram` is S K S with S = diag(s), s the square roots of the sample weights (1 without weights); `Centered` removes the
mean in feature space around any operator. A solver sees `Operator`, never the data.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from kpca._base.errors import InputError
from kpca._base.threads import in_order
from kpca.gram._numpy import Evaluator, evaluator, has_single, held_bytes
from kpca.gram.shared import SharedArguments
from kpca.gram.tiles import EDGE, TileStore, edges
from kpca.kernels import Kernel

FloatArray = NDArray[Any]
Precision = Literal["single", "double"]
_DTYPE: dict[Precision, np.dtype[Any]] = {"single": np.dtype(np.float32), "double": np.dtype(np.float64)}
_EPS = float(np.finfo(np.float64).eps)
# Rows on which a float32 product is checked against float64: most drawn at random, some far out, where errors are
# largest.
_CHECKED_ROWS, _CHECKED_LARGEST = 64, 16
_SAFETY = 4.0
# Up to this many rows float64 tiles throughout are faster than a change of precision on the way.
_DOUBLE_ROWS = 4096
# Entries of a band of rows that stays in the cache while it is centred.
_BAND = 32_768
# Up to this many rows a product is over before a second thread has started.
_ONE_THREAD_ROWS = 700
# Blocks of fewer columns than this are multiplied as they are, wider ones filled up to a multiple of 8.
_RAGGED = 5


def many_rows(n: int) -> bool:
    """Return True if there are so many rows that float32 tiles pay."""
    return n > _DOUBLE_ROWS


@dataclass(frozen=True)
class Moments:
    """What one pass tells of an operator M: its product with s, its trace and the square of its Frobenius norm."""

    image: FloatArray  # M s, shape (n,)
    trace: float
    frobenius2: float


class Operator(Protocol):
    """What a solver may ask of a symmetric operator."""

    @property
    def shape(self) -> tuple[int, int]: ...

    @property
    def psd(self) -> bool:
        """True if no eigenvalue can be negative."""

    @property
    def null(self) -> FloatArray | None:
        """A unit vector known to be mapped to 0, if there is one.  # shape: (n,)"""

    def __matmul__(self, V: FloatArray) -> FloatArray: ...

    def at(self, precision: Precision) -> Operator:
        """Return the same operator with products of this precision (itself, where there is only one)."""

    def trace(self) -> float: ...

    def frobenius2(self) -> float: ...

    def frobenius2_error(self) -> float:
        """Return how wrong the square of the Frobenius norm may be."""

    def error(self, V: FloatArray) -> float:
        """Return an estimate, on the safe side, of |computed - exact| of a product with the unit columns of V."""

    def matrix(self) -> FloatArray:
        """Return the whole operator as a float64 array that the caller may overwrite.  # shape: (n, n)"""

    def found(self) -> dict[Precision, Moments]:
        """Return what products have told of the operator so far, by their precision; empty where that costs nothing."""

    def recall(self, found: dict[Precision, Moments]) -> None:
        """Take what an operator of the same data had found, which saves finding it again."""


class Gram:
    """S K S in tiles of one precision, evaluated on worker threads; kept while `budget` bytes last."""

    def __init__(
        self,
        kernel: Kernel,
        X: Any,
        *,
        scale: FloatArray | None = None,
        shifted: bool = False,
        precision: Precision = "double",
        threads: int = 1,
        budget: int = 0,
        arguments: SharedArguments | None = None,
    ) -> None:
        self._arguments = arguments
        self.kernel, self.shape = kernel, (X.shape[0], X.shape[0])
        self.dtype: np.dtype[Any] = _DTYPE[precision]
        self.n_evaluations = 0
        self.shifted, self.threads = shifted, threads if X.shape[0] > _ONE_THREAD_ROWS else 1
        self._X, self._scale = X, scale
        self._edges = edges(X.shape[0], EDGE[self.dtype.itemsize])
        self._pieces = [(i, j) for i in range(len(self._edges)) for j in range(i, len(self._edges))]
        self._widest = max(cut.stop - cut.start for cut in self._edges)
        self.keep_tiles(budget)
        self._other: dict[Precision, Gram] = {precision: self}
        self._moments: Moments | None = None

    @property
    def psd(self) -> bool:
        """True if the kernel is positive semidefinite; a shifted one is so only after centring."""
        return self.kernel.psd

    @property
    def null(self) -> None:
        """Nothing is known to be mapped to 0."""
        return None

    @property
    def scale(self) -> FloatArray:
        """The square roots of the weights.  # shape: (n,)"""
        return np.ones(self.shape[0]) if self._scale is None else self._scale

    @cached_property
    def constant(self) -> float:
        """What is subtracted from every kernel value."""
        return self._evaluator.constant

    @cached_property
    def _evaluator(self) -> Evaluator:
        return self._evaluator_of(self.dtype)

    def _evaluator_of(self, dtype: np.dtype[Any]) -> Evaluator:
        if self._arguments is not None:
            return self._arguments.evaluator(self.kernel, dtype, shifted=self.shifted)
        return evaluator(self.kernel, self._X, self._X, dtype, shifted=self.shifted)

    @cached_property
    def _diagonal(self) -> FloatArray:
        """k(x_i, x_i) - constant, without weights.  # shape: (n,)"""
        return self.kernel.diagonal(self._X) - self.constant

    @property
    def held_bytes(self) -> int:
        """What the evaluator made of the data and holds on to."""
        return held_bytes(self._evaluator)

    def rows(self, some: NDArray[np.intp] | None) -> Any:
        """Return the data behind some rows, or behind all."""
        return self._X if some is None else self._X[some]

    def at(self, precision: Precision) -> Gram:
        """Return the same operator with tiles of this precision; itself where float32 would save nothing."""
        pays = many_rows(self.shape[0]) or self._arguments is not None
        if precision not in self._other and not (pays and has_single(self.kernel, self._X)):
            return self
        if precision not in self._other:
            self._other[precision] = Gram(
                self.kernel,
                self._X,
                scale=self._scale,
                shifted=self.shifted,
                precision=precision,
                threads=self.threads,
                arguments=self._arguments,
            )
            self._other[precision]._other = self._other
        return self._other[precision]

    def keep_tiles(self, budget: int, reuses: int = 2) -> None:
        """Keep tiles of this precision from now on, as many as `budget` bytes hold; those kept so far are dropped.

        `reuses` is the number of later products that are expected: it decides whether fresh memory is worth its time.
        """
        self._store = TileStore(len(self._pieces), self._widest**2 * self.dtype.itemsize, budget, reuses)

    def release(self) -> None:
        """Let go of tiles and prepared rows now: twins know each other, so Python would get round to it only later."""
        for twin in list(self._other.values()):
            twin.keep_tiles(0)
            twin.__dict__.pop("_evaluator", None)

    def diagonal(self) -> FloatArray:
        """Return the diagonal of S K S.  # shape: (n,)"""
        return self._diagonal if self._scale is None else self._diagonal * self._scale**2

    def block(self, rows: slice, columns: slice) -> FloatArray:
        """Return a part of S K S, computed anew.  # shape: (len(rows), len(columns))"""
        n = self.shape[0]
        rows, columns = slice(*rows.indices(n)), slice(*columns.indices(n))
        out = np.empty((rows.stop - rows.start, columns.stop - columns.start), dtype=self.dtype)
        self._fill(rows, columns, out)
        if self._scale is not None:
            out *= self._scale[rows, None].astype(self.dtype)
            out *= self._scale[None, columns].astype(self.dtype)
        return out

    def _fill(self, rows: slice, columns: slice, out: FloatArray) -> None:
        self._evaluator.fill(rows, columns, out)
        if rows == columns:  # symmetric to the bit, with an exact diagonal
            out += out.T.copy()
            out *= 0.5
        both = range(max(rows.start, columns.start), min(rows.stop, columns.stop))
        if both:
            i = np.arange(both.start, both.stop)
            out[i - rows.start, i - columns.start] = self._diagonal[i]

    def _tile(self, number: int, scratch: FloatArray) -> FloatArray:
        """Return a tile: the one kept, or computed into its room in the store or else into scratch memory."""
        tile = self._store.get(number)
        if tile is not None:
            return tile
        i, j = self._pieces[number]
        rows, columns = self._edges[i], self._edges[j]
        shape = (rows.stop - rows.start, columns.stop - columns.start)
        room = self._store.room(number, shape, self.dtype)
        tile = scratch[: shape[0] * shape[1]].reshape(shape) if room is None else room
        started = time.perf_counter()
        self._fill(rows, columns, tile)
        self.n_evaluations += tile.size
        if room is not None:
            self._store.keep(number, tile, time.perf_counter() - started)
        return tile

    def _scratch(self) -> FloatArray:
        return np.empty(self._widest**2, dtype=self.dtype)

    def __matmul__(self, V: FloatArray) -> FloatArray:
        """Return S K S V in float64; both triangles come from one evaluation.  # shape: (n, b)"""
        if self._known_moments(self.dtype) is not None:
            return self._multiply(V)
        # The first product of a precision also finds the moments, while each tile is at hand.
        image, squares = np.zeros(self.shape[0]), [0.0]
        W = self._multiply(V, image, squares)
        self._set_moments(image if self._scale is None else image * self._scale, squares[0])
        return W

    def _set_moments(self, image: FloatArray, frobenius2: float) -> None:
        if not math.isfinite(frobenius2):
            raise InputError(
                f"The values of the {self.kernel.name} kernel must be finite; for this data some are NaN or too large: "
                f"{self.kernel.remedy}."
            )
        self._moments = Moments(image, float(self.diagonal().sum()), frobenius2)

    def _multiply(
        self, V: FloatArray, image: FloatArray | None = None, squares: list[float] | None = None
    ) -> FloatArray:
        """Return S K S V; add K s^2 to `image` and the squares of all entries of S K S to `squares`.

        The moments have products of their own: BLAS may sum up a column otherwise beside one column more, and a product
        must have the same bits whether or not the moments are known already.
        """
        scale, b = self._scale, V.shape[1]
        # GEMM takes up to twice as long for a ragged block as for a full one.
        width = b if b < _RAGGED else -(-b // 8) * 8
        inner = np.zeros((self.shape[0], width), dtype=self.dtype)
        inner[:, :b] = V if scale is None else V * scale[:, None]
        across, wide = np.ascontiguousarray(inner.T), self.dtype == _DTYPE["double"]
        weights = (np.ones(self.shape[0]) if scale is None else scale**2).astype(self.dtype)
        out = np.zeros(V.shape)
        pieces = [(number, self._edges[i], self._edges[j]) for number, (i, j) in enumerate(self._pieces)]

        def make_worker() -> Any:
            scratch = self._scratch()

            def multiply(piece: tuple[int, slice, slice]) -> tuple[Any, ...]:
                number, rows, columns = piece
                tile = self._tile(number, scratch)
                # The quickest forms of K V and K'V: float64 likes the few columns on the left, float32 only once.
                left = (across[:, columns] @ tile.T).T if wide else tile @ inner[columns]
                right = (across[:, rows] @ tile).T if rows is not columns else None
                if squares is None:
                    return left, right
                inside = np.vecdot(tile, tile) if scale is None else (tile * tile) @ weights[columns]
                total = float(np.dot(inside, weights[rows].astype(np.float64)))
                return left, right, tile @ weights[columns], weights[rows] @ tile, total

            return multiply

        def commit(piece: tuple[int, slice, slice], result: tuple[Any, ...]) -> None:
            _, rows, columns = piece
            left, right, *moments = result
            out[rows] += left[:, :b]
            if right is not None:
                out[columns] += right[:, :b]
            if image is not None and squares is not None:
                image[rows] += moments[0]
                if right is not None:
                    image[columns] += moments[1]
                squares[0] += moments[2] if right is None else 2.0 * moments[2]

        in_order(pieces, make_worker, commit, self.threads)
        if scale is not None:
            out *= scale[:, None]
        return out

    def _known_moments(self, at_least: np.dtype[Any]) -> Moments | None:
        """Return the most precise moments found so far, by this operator or its twin of the other precision."""
        known = [gram for gram in self._other.values() if gram._moments is not None]
        best = max(known, key=lambda gram: gram.dtype.itemsize, default=None)
        return None if best is None or best.dtype.itemsize < at_least.itemsize else best._moments

    def moments(self) -> Moments:
        """Return M s, the trace and the Frobenius norm; known after any product, otherwise from a pass of its own."""
        if self._known_moments(_DTYPE["single"]) is None:
            self @ np.empty((self.shape[0], 0))
        moments = self._known_moments(_DTYPE["single"])
        assert moments is not None
        return moments

    def found(self) -> dict[Precision, Moments]:
        """Return the moments that products of each precision have found."""
        return {name: gram._moments for name, gram in self._other.items() if gram._moments is not None}

    def recall(self, found: dict[Precision, Moments]) -> None:
        """Take moments found earlier, each to the operator of its precision."""
        for precision, moments in found.items():
            gram = self.at(precision)
            gram._moments = moments
            gram._evaluator  # noqa: B018  # `error` asks the operators that were used

    def trace(self) -> float:
        """Return the trace, from the exact diagonal."""
        return float(self.diagonal().sum())

    def frobenius2(self) -> float:
        """Return the sum of the squares of all entries."""
        return self.moments().frobenius2

    def frobenius2_error(self) -> float:
        """Return how wrong the sum of squares may be: every entry by a few roundings of its own precision."""
        precise = self._known_moments(_DTYPE["double"]) is not None
        eps = _EPS if precise else float(np.finfo(np.float32).eps)
        return (8 * eps + 2 * self._evaluator.argument_error) * self.frobenius2()

    def error(self, V: FloatArray) -> float:
        """Return the largest |E v| over the unit columns v of V, E the error of this precision's kernel values.

        float32: measured on some rows against float64, the farthest from the mean among them, times a factor for the
        rows not seen. float64: a bound from rounding and from the evaluator's own error of t.
        """
        if self.dtype == _DTYPE["double"]:
            twin = next((gram for gram in self._other.values() if "_evaluator" in gram.__dict__), self)
            return (16 * _EPS + twin._evaluator.argument_error) * math.sqrt(self.frobenius2())
        n = self.shape[0]
        drawn = np.random.default_rng(n).choice(n, min(n, _CHECKED_ROWS), replace=False)
        rows = np.union1d(drawn, self._evaluator.farthest(_CHECKED_LARGEST))
        gap = self._rows_times(rows, V, _DTYPE["single"]) - self._rows_times(rows, V, _DTYPE["double"])
        norms = np.sqrt(np.einsum("ij,ij->j", gap, gap) * n / len(rows))
        return _SAFETY * float(norms.max(initial=0.0))

    def _rows_times(self, rows: NDArray[np.intp], V: FloatArray, dtype: np.dtype[Any]) -> FloatArray:
        """Return some rows of S K S V with kernel values of this precision.  # shape: (r, b)"""
        inner = np.ascontiguousarray(V if self._scale is None else V * self._scale[:, None], dtype=dtype)
        some = self._X[rows]
        out = np.zeros((len(rows), V.shape[1]))
        for columns in self._edges:
            tile = np.empty((len(rows), columns.stop - columns.start), dtype=dtype)
            if dtype == self.dtype or self._arguments is not None:
                self._evaluator_of(dtype).fill(rows, columns, tile)
            else:
                # made of these columns only: the prepared rows of all would be as large as the data, for a few values
                local = evaluator(self.kernel, some, self._X[columns], dtype, shifted=self.shifted)
                local.fill(slice(0, len(rows)), slice(0, columns.stop - columns.start), tile)
            inside = np.flatnonzero((rows >= columns.start) & (rows < columns.stop))
            tile[inside, rows[inside] - columns.start] = self._diagonal[rows[inside]]
            out += tile @ inner[columns]
        return out if self._scale is None else out * self._scale[rows, None]

    def matrix(self) -> FloatArray:
        """Return S K S as a float64 array, filled by all threads.  # shape: (n, n)"""
        K = np.empty(self.shape)

        def make_worker() -> Any:
            return lambda piece: self._fill(piece[0], piece[1], K[piece[0], piece[1]])

        def commit(piece: tuple[slice, slice], _: None) -> None:
            rows, columns = piece
            if rows is not columns:
                K[columns, rows] = K[rows, columns].T

        in_order([(self._edges[i], self._edges[j]) for i, j in self._pieces], make_worker, commit, self.threads)
        self.n_evaluations += K.size
        if self._scale is not None:
            K *= self._scale[:, None]
            K *= self._scale[None, :]
        self._set_moments(K @ self.scale, float(np.vdot(K, K)))
        return K


class Centered:
    """P M P with P = I - s s'/|s|^2: the operator of the data with its (weighted) mean in feature space removed."""

    def __init__(self, inner: Gram | Any) -> None:
        self.inner, self.shape = inner, inner.shape
        self._scale = inner.scale
        self._mass = float(self._scale @ self._scale)
        self._other: Centered | None = None

    @property
    def psd(self) -> bool:
        """As the operator inside."""
        return bool(self.inner.psd)

    @cached_property
    def null(self) -> FloatArray:
        """s / |s|.  # shape: (n,)"""
        return self._scale / math.sqrt(self._mass)

    def _project(self, V: FloatArray) -> FloatArray:
        return V - np.multiply.outer(self._scale, (self._scale @ V) / self._mass)

    def __matmul__(self, V: FloatArray) -> FloatArray:
        """Return W - mean(W) with W = M (V - mean(V)) (docs/mathematics.md, section 1).  # shape: (n, b)"""
        return self._project(self.inner @ self._project(V))

    def at(self, precision: Precision) -> Centered:
        """Return the centred operator of this precision."""
        inner = self.inner.at(precision)
        return self if inner is self.inner else self._twin(inner)

    def _twin(self, inner: Any) -> Centered:
        # one object per operator inside, so that solvers can tell whether two precisions are one
        if self._other is None or self._other.inner is not inner:
            self._other = Centered(inner)
            self._other._other = self
        return self._other

    def trace(self) -> float:
        """tr B = tr M - s'Ms / |s|^2."""
        moments = self.inner.moments()
        return float(moments.trace - (self._scale @ moments.image) / self._mass)

    def frobenius2(self) -> float:
        """|B|^2 = |M|^2 - 2 |Ms|^2/|s|^2 + (s'Ms)^2/|s|^4."""
        moments = self.inner.moments()
        quadratic = float(self._scale @ moments.image) / self._mass
        square = moments.frobenius2 - 2.0 * float(moments.image @ moments.image) / self._mass + quadratic**2
        return max(square, 0.0)

    def frobenius2_error(self) -> float:
        """Return how wrong the sum of squares may be: that of the operator inside, of which much may cancel."""
        return 4.0 * float(self.inner.frobenius2_error())

    def error(self, V: FloatArray) -> float:
        """Centring does not lengthen a vector, so the inner operator's error holds."""
        return float(self.inner.error(V))

    def found(self) -> dict[Precision, Moments]:
        """Return what the operator inside has found."""
        return dict(self.inner.found())

    def recall(self, found: dict[Precision, Moments]) -> None:
        """Hand it to the operator inside."""
        self.inner.recall(found)

    def row_means(self) -> FloatArray:
        """Return the weighted mean of each row of K, M s / (s |s|^2): what `transform` subtracts.  # shape: (n,)"""
        image: FloatArray = self.inner.moments().image
        return image / (self._scale * self._mass)

    def matrix(self) -> FloatArray:
        """Return P M P as an array, centred in place by means of rows and columns.  # shape: (n, n)"""
        return center(self.inner.matrix(), self._scale)


def center(M: FloatArray, scale: FloatArray) -> FloatArray:
    """Overwrite M = S K S by its centred form and return it; M need not be symmetric."""
    mass = float(scale @ scale)
    columns = (scale @ M) / mass
    rows = (M @ scale) / mass
    total = float(columns @ scale) / mass
    rows -= 0.5 * total * scale
    columns -= 0.5 * total * scale
    step = max(1, _BAND // len(M))
    for start in range(0, len(M), step):  # a band at a time, so that nothing but M is of its size or leaves the cache
        band = slice(start, start + step)
        M[band] -= np.multiply.outer(rows[band], scale)
        M[band] -= np.multiply.outer(scale[band], columns)
    return M
