"""The kernel matrix as an operator: it multiplies, and never (necessarily) exists.

`Gram` is S K S with S = diag(s), s the square roots of the sample weights (1 without weights); `Centered` removes the
mean in feature space around any operator. A solver sees `Operator`, never the data.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from kpca._base.config import rows_bytes
from kpca._base.errors import InputError
from kpca.gram.engine import Array, FloatArray, band_by_band, engine_for, inner_products, like, to_host
from kpca.gram.shared import SharedArguments
from kpca.gram.tiles import slices
from kpca.kernels import Kernel

T = TypeVar("T")
Precision = Literal["single", "double"]
_DTYPE: dict[Precision, np.dtype[Any]] = {"single": np.dtype(np.float32), "double": np.dtype(np.float64)}
_EPS = float(np.finfo(np.float64).eps)
# Rows on which a float32 product is checked against float64: most drawn at random, some far out, where errors are
# largest.
_CHECKED_ROWS, _CHECKED_LARGEST = 64, 16
_SAFETY = 4.0
# Roundings of a product, a few and about the root of the terms that are added up at a time. Rows that repeat make them
# of one sign; then the largest eigenvalue is as large as the norm, and has a slack of its own.
_SUMS, _ROOTS, _LONGEST_SUM = 2.0, 0.6, 600
# Up to this many rows float64 tiles throughout are faster than a change of precision on the way.
_DOUBLE_ROWS = 4096
# Entries of a band of rows that stays in the cache while it is centred.
_BAND = 32_768
# Up to this many rows a product is over before a second thread has started.
_ONE_THREAD_ROWS = 700


def many_rows(n: int) -> bool:
    """Return True if there are so many rows that float32 tiles pay."""
    return n > _DOUBLE_ROWS


@dataclass(frozen=True)
class Moments:
    """What one pass tells of an operator M: its product with s, its trace and the square of its Frobenius norm."""

    image: Array  # M s, shape (n,)
    trace: float
    frobenius2: float


class Operator(Protocol):
    """What a solver may ask of a symmetric operator."""

    shape: tuple[int, int]
    psd: bool  # True if no eigenvalue can be negative

    @property
    def null(self) -> Array | None:
        """A unit vector known to be mapped to 0, if there is one.  # shape: (n,)"""

    @property
    def threads(self) -> int | None:
        """Threads for what else has n rows; None leaves it to BLAS."""

    def placed(self, V: FloatArray) -> Array:
        """Return an array of main memory where products live: a solver makes its vectors of what this gives."""

    def __matmul__(self, V: Array) -> Array: ...

    def at(self, precision: Precision) -> Operator:
        """Return the same operator with products of this precision (itself, where there is only one)."""

    def trace(self) -> float: ...

    def frobenius2(self) -> float: ...

    def frobenius2_error(self) -> float:
        """Return how wrong the square of the Frobenius norm may be."""

    def error(self, V: Array) -> float:
        """Return an estimate, on the safe side, of |computed - exact| of a product with the unit columns of V."""

    def matrix(self) -> FloatArray:
        """Return all of it as a float64 array in main memory that the caller may overwrite.  # shape: (n, n)"""

    def found(self) -> dict[Precision, Moments]:
        """Return what products have told of the operator so far, by their precision; empty where that costs nothing."""

    def recall(self, found: dict[Precision, Moments]) -> None:
        """Take what an operator of the same data had found, which saves finding it again."""


class OfData:
    """What operators made of data share: the rows (or the matrix itself), and the square roots of the weights.

    Unless a subclass says otherwise, the numbers are given: in main memory, in the one precision they came with, and
    with nothing that a product would find.
    """

    _data: Any
    _scale: Array | None
    threads: int | None = None

    @property
    def scale(self) -> Array:
        return self.placed(np.ones(self._data.shape[0])) if self._scale is None else self._scale

    @property
    def data_bytes(self) -> int:
        return rows_bytes(self._data)

    def hand(self, work: Callable[[Any], T]) -> T:
        """Return what `work` makes of the data, for what is no operator: feature maps and fingerprints."""
        return work(self._data)

    def _weighted(self, K: FloatArray) -> FloatArray:
        """Overwrite K by S K S and return it."""
        if self._scale is not None:
            scale = to_host(self._scale)
            K *= scale[:, None]
            K *= scale[None, :]
        return K

    def placed(self, V: FloatArray) -> Array:
        return V

    def at(self, precision: Precision) -> Any:
        return self

    def keep_tiles(self, budget: int, reuses: int = 2) -> None:
        pass

    def found(self) -> dict[Precision, Moments]:
        return {}

    def recall(self, found: dict[Precision, Moments]) -> None:
        pass


class Gram(OfData):
    """S K S of the rows of X in one precision, computed by the engine of these rows."""

    null = None

    def __init__(
        self,
        kernel: Kernel,
        X: Any,
        *,
        scale: Array | None = None,
        shifted: bool = False,
        precision: Precision = "double",
        threads: int = 1,
        budget: int = 0,
        arguments: SharedArguments | None = None,
    ) -> None:
        self.psd = kernel.psd_in(X.shape[1])  # a shifted one is so only after centring
        self.kernel, self.shape, self.dtype = kernel, (X.shape[0], X.shape[0]), _DTYPE[precision]
        self.threads: int = threads if X.shape[0] > _ONE_THREAD_ROWS else 1
        self.shifted = shifted
        self._data, self._scale, self._arguments = X, scale, arguments
        self._engine = engine_for(X)
        how: dict[str, Any] = {"shifted": shifted, "threads": self.threads, "arguments": arguments}
        weights = None if scale is None else to_host(scale) ** 2
        self._tiles = self._engine.tiles(kernel, X, self.dtype, **how, weights=weights)
        self.keep_tiles(budget)
        self._other: dict[Precision, Gram] = {precision: self}
        self._moments: Moments | None = None
        self._known_error: tuple[float, float] | None = None

    @property
    def constant(self) -> float:
        return self._tiles.constant

    @property
    def n_evaluations(self) -> int:
        return self._tiles.n_evaluations

    @property
    def held_bytes(self) -> int:
        return self._tiles.held_bytes

    def placed(self, V: FloatArray) -> Array:
        return self._engine.placed(V)

    def among(self, some: NDArray[np.intp], *, shifted: bool) -> Gram:
        return Gram(self.kernel, self._data[some], scale=self.scale[some], shifted=shifted)

    def cross_to(self, some: NDArray[np.intp]) -> CrossGram:
        """Return the float32 kernel values of all rows with some of them, without weights."""
        X, dtype = self._data, _DTYPE["single"]
        return CrossGram(self.kernel, X, X[some], dtype=dtype, shifted=self.shifted, threads=self.threads)

    def at(self, precision: Precision) -> Gram:
        """Return the same operator with tiles of this precision; itself where float32 would save nothing."""
        if precision not in self._other:
            pays = many_rows(self.shape[0]) or self._arguments is not None
            if not (pays and self._engine.has_single(self.kernel, self._data)):
                return self
            options: dict[str, Any] = {"scale": self._scale, "shifted": self.shifted, "threads": self.threads}
            twin = Gram(self.kernel, self._data, precision=precision, arguments=self._arguments, **options)
            self._other[precision], twin._other = twin, self._other
        return self._other[precision]

    def keep_tiles(self, budget: int, reuses: int = 2) -> None:
        """Keep tiles of this precision from now on, as many as `budget` bytes hold; those kept so far are dropped.

        `reuses` is the number of later products that are expected: it decides whether fresh memory is worth its time.
        """
        self._tiles.keep(budget, reuses)

    def release(self) -> None:
        """Let go of tiles and prepared rows now: twins know each other, so Python would get round to it only later."""
        for twin in self._other.values():
            twin._tiles.release()

    def diagonal(self) -> Array:
        return self._tiles.diagonal if self._scale is None else self._tiles.diagonal * self._scale**2

    def block(self, rows: slice, columns: slice) -> FloatArray:
        """Return a part of S K S, computed anew.  # shape: (len(rows), len(columns))"""
        n = self.shape[0]
        rows, columns = slice(*rows.indices(n)), slice(*columns.indices(n))
        out = np.empty((rows.stop - rows.start, columns.stop - columns.start), dtype=self.dtype)
        self._tiles.fill(rows, columns, out)
        if self._scale is not None:
            out *= self._scale[rows, None].astype(self.dtype)
            out *= self._scale[None, columns].astype(self.dtype)
        return out

    def __matmul__(self, V: Array) -> Array:
        """Return S K S V in float64; both triangles come from one evaluation.  # shape: (n, b)"""
        scale = self._scale
        # The first product of a precision also finds the moments, while each tile is at hand.
        new = self._known_moments(self.dtype) is None
        inner, weights = (V, None) if scale is None else (V * scale[:, None], scale**2)
        W, image, squares = self._tiles.multiply(inner, weights, moments=new)
        if new:
            self._set_moments(image if scale is None else image * scale, squares)
        if scale is not None:
            W *= scale[:, None]
        return W

    def _set_moments(self, image: Array, frobenius2: float) -> None:
        if not math.isfinite(frobenius2):
            raise InputError(
                f"The values of the {self.kernel.name} kernel must be finite; for this data some are NaN or too large: "
                f"{self.kernel.remedy}."
            )
        self._moments = Moments(image, self.trace(), frobenius2)

    def _known_moments(self, at_least: np.dtype[Any]) -> Moments | None:
        """Return the most precise moments found so far, by this operator or its twin of the other precision."""
        known = [gram for gram in self._other.values() if gram._moments is not None]
        best = max(known, key=lambda gram: gram.dtype.itemsize, default=None)
        return None if best is None or best.dtype.itemsize < at_least.itemsize else best._moments

    def moments(self) -> Moments:
        """Return M s, the trace and the Frobenius norm; known after any product, otherwise from a pass of its own."""
        known = self._known_moments(_DTYPE["single"])
        if known is not None:
            return known
        self @ self.placed(np.empty((self.shape[0], 0)))
        return self.moments()

    def found(self) -> dict[Precision, Moments]:
        return {name: gram._moments for name, gram in self._other.items() if gram._moments is not None}

    def recall(self, found: dict[Precision, Moments]) -> None:
        for precision, moments in found.items():
            gram = self.at(precision)
            gram._moments = moments
            gram._tiles.values  # noqa: B018  # prepares the rows: `error` asks the operators that were used

    def trace(self) -> float:
        return float(to_host(self.diagonal()).sum())

    def frobenius2(self) -> float:
        return self.moments().frobenius2

    def frobenius2_error(self) -> float:
        """Return how wrong the sum of squares may be: every entry by a few roundings of its own precision."""
        square, precise = self.frobenius2(), self._known_moments(_DTYPE["double"]) is not None
        rounded = 2.0 * math.sqrt(square) * self._double_error(math.sqrt(square))
        return rounded if precise else rounded + 8 * float(np.finfo(np.float32).eps) * square

    def error(self, V: Array) -> float:
        """Return the largest |E v| over the unit columns v of V, E the error of this precision's kernel values.

        float32: measured on some rows against float64, the farthest from the mean among them, times a factor for the
        rows not seen. float64: a bound (docs/mathematics.md, section 4).
        """
        if self.dtype == _DTYPE["double"]:
            return self._double_error(math.sqrt(self.frobenius2()))
        n = self.shape[0]
        drawn = np.random.default_rng(n).choice(n, min(n, _CHECKED_ROWS), replace=False)
        rows = np.union1d(drawn, self._tiles.values.farthest(_CHECKED_LARGEST))
        inner = V if self._scale is None else V * self._scale[:, None]
        single, double = (self._tiles.rows_times(rows, inner, dtype) for dtype in _DTYPE.values())
        if self._scale is not None:
            own = to_host(self._scale)[rows, None]
            single, double = single * own, double * own
        norms = np.sqrt(np.einsum("ij,ij->j", single - double, single - double) * n / len(rows))
        return _SAFETY * float(norms.max(initial=0.0))

    def _double_error(self, norm: float) -> float:
        """Return what rounding may do to float64 products: that of the kernel values, and that of the sums."""
        if self._known_error is None or self._known_error[0] != norm:  # asked for after every pass
            used = next((gram for gram in self._other.values() if gram._tiles.ready), self)
            sums = (_SUMS + _ROOTS * math.sqrt(min(self.shape[0], _LONGEST_SUM))) * _EPS * norm
            self._known_error = norm, sums + used._tiles.error(norm)
        return self._known_error[1]

    def matrix(self) -> FloatArray:
        K = self._weighted(self._tiles.matrix())
        self._set_moments(self.placed(K @ to_host(self.scale)), float(np.vdot(K, K)))
        return K


class CrossGram:
    """K(X, Y) - constant between new rows and known ones, as an operator that never holds them all."""

    def __init__(
        self,
        kernel: Kernel,
        X: Any,
        Y: Any,
        *,
        dtype: np.dtype[Any],
        shifted: bool = False,
        threads: int = 1,
        memo: dict[Any, Any] | None = None,
    ) -> None:
        self.shape, self.dtype = (X.shape[0], Y.shape[0]), dtype
        self._engine = engine_for(X)
        self._tiles = self._engine.cross(kernel, X, Y, dtype, shifted=shifted, threads=threads, memo=memo)
        self.constant = self._tiles.constant

    def __matmul__(self, V: Array) -> Array:
        return self._tiles.multiply(self._engine.placed(V))


class Centered:
    """P M P with P = I - s s'/|s|^2: the operator of the data with its (weighted) mean in feature space removed."""

    def __init__(self, inner: Gram | Any) -> None:
        self.inner, self.shape, self.psd, self.threads = inner, inner.shape, bool(inner.psd), inner.threads
        self._scale = inner.scale
        self._mass = float(self._scale @ self._scale)
        self._other: Centered | None = None

    @cached_property
    def null(self) -> Array:
        return self._scale / math.sqrt(self._mass)

    def placed(self, V: FloatArray) -> Array:
        return self.inner.placed(V)

    def _project(self, V: Array) -> Array:
        column = self._scale[:, None]
        means = like(inner_products(column, V, self.threads) / self._mass, V)  # shape: (1, b)
        return band_by_band(lambda rows: V[rows, :] - column[rows, :] * means, V.shape[1], V, self.threads)

    def __matmul__(self, V: Array) -> Array:
        """Return W - mean(W) with W = M (V - mean(V)) (docs/mathematics.md, section 1).  # shape: (n, b)"""
        return self._project(self.inner @ self._project(V))

    def at(self, precision: Precision) -> Centered:
        inner = self.inner.at(precision)
        if inner is self.inner:
            return self
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

    def error(self, V: Array) -> float:
        """Centring does not lengthen a vector, so the inner operator's error holds."""
        return float(self.inner.error(V))

    def found(self) -> dict[Precision, Moments]:
        return dict(self.inner.found())

    def recall(self, found: dict[Precision, Moments]) -> None:
        self.inner.recall(found)

    def row_means(self) -> Array:
        """Return the weighted mean of each row of K, M s / (s |s|^2): what `transform` subtracts.  # shape: (n,)"""
        return self.inner.moments().image / (self._scale * self._mass)

    def matrix(self) -> FloatArray:
        return center(self.inner.matrix(), to_host(self._scale))


def center(M: FloatArray, scale: FloatArray) -> FloatArray:
    """Overwrite M = S K S by its centred form and return it; M need not be symmetric."""
    mass = float(scale @ scale)
    columns = (scale @ M) / mass
    rows = (M @ scale) / mass
    total = float(columns @ scale) / mass
    rows -= 0.5 * total * scale
    columns -= 0.5 * total * scale
    # a band at a time, so that nothing but M is of its size or leaves the cache
    for band in slices(len(M), max(1, _BAND // len(M))):
        M[band] -= np.multiply.outer(rows[band], scale)
        M[band] -= np.multiply.outer(scale[band], columns)
    return M
