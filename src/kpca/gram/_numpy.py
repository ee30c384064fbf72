"""The NumPy engine: rows in main memory, dense or CSR, multiplied tile by tile on worker threads.

Tiles depend on the number of rows and the precision only, and their contributions are added in one fixed order: a
product repeats to the bit whatever the number of threads and the memory for tiles.
"""

from __future__ import annotations

import time
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca._base.linalg import FloatArray
from kpca._base.threads import in_order
from kpca.gram._evaluators import FEW_ROWS, Evaluator, Memo, diagonal_of, evaluator, has_single
from kpca.gram._strips import Products, Strips, symmetrise
from kpca.gram.shared import SharedArguments
from kpca.gram.slopes import Slopes
from kpca.gram.tiles import (
    CROSS_EDGE,
    Strip,
    TileStore,
    band_rows,
    by_slices,
    cross_tiles,
    edges,
    runs,
    slices,
    strips_of,
    tile_edge,
    zeros,
)
from kpca.kernels import Kernel
from kpca.kernels.profiles import add

# Rows that both halves of a product are added up for at a time.
_BAND_ROWS = 4096
# Rows that some are computed against at a time, when an error is measured.
_CHECKED_ROWS = 4096
# Columns of a tile of few rows, at most: their products are summed up in the precision of the tile.
_WIDEST = 4096


class NumpyTiles:
    """K(X, X) - constant in tiles of one precision, half of them evaluated, the other half their mirror images."""

    def __init__(
        self,
        kernel: Kernel,
        X: Any,
        dtype: np.dtype[Any],
        *,
        shifted: bool,
        threads: int,
        arguments: SharedArguments | None,
        weights: FloatArray | None = None,
    ) -> None:
        self.dtype, self.n_evaluations, self._weights = dtype, 0, weights
        self._kernel, self._X, self._shifted, self._arguments = kernel, X, shifted, arguments
        self._n, self._threads = X.shape[0], threads
        self._edges = edges(self._n, tile_edge(self._n, dtype.itemsize))
        self._strips = strips_of(self._edges)
        self._width = self._edges[0].stop
        self.keep(0)

    @cached_property
    def values(self) -> Evaluator:
        return self._evaluator(self.dtype)

    def _evaluator(self, dtype: np.dtype[Any]) -> Evaluator:
        if self._arguments is not None:
            return self._arguments.evaluator(self._kernel, dtype, shifted=self._shifted)
        how: dict[str, Any] = {"shifted": self._shifted, "threads": self._threads, "weights": self._weights}
        return evaluator(self._kernel, self._X, self._X, dtype, **how)

    @cached_property
    def constant(self) -> float:
        if self.ready:
            return self.values.constant
        one = self._X[:1]  # that much is known without preparing all rows
        return evaluator(self._kernel, one, one, self.dtype, shifted=self._shifted).constant

    @property
    def ready(self) -> bool:
        return "values" in self.__dict__

    @property
    def held_bytes(self) -> int:
        return self.values.held_bytes

    @cached_property
    def diagonal(self) -> FloatArray:
        return diagonal_of(self._kernel, self._X, shifted=self._shifted)

    def error(self, norm: float) -> float:
        weights = np.ones(self._n) if self._weights is None else self._weights
        with np.errstate(over="ignore"):
            return self.values.error(self._X, weights, norm)

    def keep(self, budget: int, reuses: int = 2) -> None:
        # the first strip is as long as any
        self._store = TileStore(len(self._strips), self._strips[0].size * self.dtype.itemsize, budget, reuses)

    def release(self) -> None:
        self.keep(0)
        self.__dict__.pop("values", None)

    def fill(self, rows: slice, columns: slice, out: FloatArray) -> None:
        self.values.fill(rows, columns, out)
        if rows == columns:  # symmetric to the bit, with an exact diagonal
            symmetrise(out, self.diagonal[rows])
            return
        both = range(max(rows.start, columns.start), min(rows.stop, columns.stop))
        if both:
            i = np.arange(both.start, both.stop)
            out[i - rows.start, i - columns.start] = self.diagonal[i]

    def multiply(
        self, V: FloatArray, weights: FloatArray | None = None, *, moments: bool = False
    ) -> tuple[FloatArray, FloatArray, float]:
        self.diagonal  # noqa: B018  # once, and not while threads wait for it
        w = (np.ones(self._n) if weights is None else weights) if moments else None
        how: dict[str, Any] = {"width": self._width, "threads": self._threads, "symmetric": True, "weights": w}
        strips = Strips(self.values, V, self.dtype, **how)
        squares, (out, across) = 0.0, (zeros(shape, self._threads) for shape in strips.shapes)

        def multiply(strip: Strip) -> Products:
            kept, started = self._kept(strips, strip), time.perf_counter()
            found = strips.times(*strip.place, kept, diagonal=self._diagonal_of(strip))
            if kept is None:
                self._store.not_kept(strip.size * self.dtype.itemsize, time.perf_counter() - started)
            return found

        def commit(strip: Strip, found: Products) -> None:
            nonlocal squares
            rows, columns = strip.place
            add(out[rows], found.left)
            if found.right is not None:
                add(across[:, columns], found.right)
            squares += found.squares
            strips.take_back(found)

        in_order(self._strips, lambda: multiply, commit, self._threads)
        b = V.shape[1]
        by_slices(lambda rows: out[rows, :b] + across[:b, rows].T, out[:, :b], _BAND_ROWS, self._threads)
        return out[:, :b], out[:, b] + across[-1] if moments else np.zeros(self._n), squares

    def _diagonal_of(self, strip: Strip) -> FloatArray | None:
        rows, columns = strip.place
        return self.diagonal[rows] if rows.start == columns.start else None

    def _kept(self, strips: Strips, strip: Strip) -> FloatArray | None:
        """Return the values of a strip: those kept, or now computed into room for them; None where there is none."""
        tiles = self._store.get(strip.number)
        if tiles is not None:
            return tiles
        size = strip.size
        tiles = self._store.room(strip.number, size, self.dtype)
        self.n_evaluations += size
        if tiles is not None:
            started = time.perf_counter()
            strips.fill(*strip.place, tiles, diagonal=self._diagonal_of(strip))
            self._store.keep(strip.number, tiles, time.perf_counter() - started)
        return tiles

    def rows_times(self, rows: NDArray[np.intp], V: FloatArray, dtype: np.dtype[Any]) -> FloatArray:
        inner, some, out = np.ascontiguousarray(V, dtype=dtype), self._X[rows], np.zeros((len(rows), V.shape[1]))
        known = dtype == self.dtype or self._arguments is not None
        memo: Memo = {}
        # Unless that is known, not of all rows at once: what is prepared of them is as large as the data.
        for band in slices(self._n, self._n if known else band_rows(self._X.shape[1])):
            if known:
                values = self.values if dtype == self.dtype else self._evaluator(dtype)
            else:
                how: dict[str, Any] = {"shifted": self._shifted, "memo": memo, "threads": self._threads}
                values = evaluator(self._kernel, self._X[band], some, dtype, **how)
            out += self._some_times(values, rows, inner, band, across=known)
        return out

    def _some_times(
        self, values: Evaluator, some: NDArray[np.intp], inner: FloatArray, band: slice, *, across: bool
    ) -> FloatArray:
        """Return K(some, band) V of a band of rows; `across` where values are those of some rows, not with them."""
        out = np.zeros((len(some), inner.shape[1]))

        def multiply(part: slice) -> FloatArray:
            length, here = part.stop - part.start, slice(band.start + part.start, band.start + part.stop)
            tile = np.empty((len(some), length) if across else (length, len(some)), dtype=inner.dtype)
            if across:
                values.fill(some, here, tile)
            else:
                values.fill(part, slice(0, len(some)), tile)
                tile = tile.T
            inside = np.flatnonzero((some >= here.start) & (some < here.stop))
            tile[inside, some[inside] - here.start] = self.diagonal[some[inside]]
            product: FloatArray = tile @ inner[here]
            return product

        def commit(_: slice, part: FloatArray) -> None:
            np.add(out, part, out=out)

        in_order(slices(band.stop - band.start, _CHECKED_ROWS), lambda: multiply, commit, self._threads)
        return out

    def matrix(self) -> FloatArray:
        K = np.empty((self._n, self._n))

        def make_worker() -> Any:
            return lambda piece: self.fill(piece[0], piece[1], K[piece[0], piece[1]])

        def commit(piece: tuple[slice, slice], _: None) -> None:
            rows, columns = piece
            if rows is not columns:
                K[columns, rows] = K[rows, columns].T

        pairs = [(rows, columns) for i, rows in enumerate(self._edges) for columns in self._edges[i:]]
        in_order(pairs, make_worker, commit, self._threads)
        self.n_evaluations += K.size
        return K


class NumpyCross:
    """K(X, Y) - constant in tiles: threads work on some rows of X against some columns."""

    def __init__(
        self, kernel: Kernel, X: Any, Y: Any, dtype: np.dtype[Any], *, shifted: bool, threads: int, memo: Memo | None
    ) -> None:
        self._kernel, self._X, self._Y, self._dtype, self._shifted = kernel, X, Y, dtype, shifted
        self._memo, self._threads = {} if memo is None else memo, threads
        self.constant = self._evaluator(X[:1], threads).constant  # and prepares Y, once for all threads

    def _evaluator(self, some: Any, threads: int = 1) -> Evaluator:
        how: dict[str, Any] = {"shifted": self._shifted, "memo": self._memo, "threads": threads}
        return evaluator(self._kernel, some, self._Y, self._dtype, **how)

    def multiply(self, V: FloatArray) -> FloatArray:
        m = self._X.shape[0]
        out = np.zeros((m, V.shape[1]))
        for band in slices(m, band_rows(self._X.shape[1])):
            self._multiply(self._X[band], V, out[band])
        return out

    def _multiply(self, X: Any, V: FloatArray, out: FloatArray) -> None:
        m, n, edge = len(out), len(V), CROSS_EDGE[self._dtype.itemsize]
        if m < FEW_ROWS:
            self._multiply_few(X, V, out)
            return
        cuts = edges(n, edge)
        width = cuts[0].stop
        strips = Strips(self._evaluator(X, self._threads), V, self._dtype, width=width, threads=self._threads)
        rows = edges(m, max(edge, edge**2 // width))  # as large a tile where there are few columns
        length = cross_tiles(len(rows) * len(cuts))
        spans = [slice(run[0].start, run[-1].stop) for run in runs(cuts, length)]
        alone = len(spans) == 1  # then nobody else has a share in these rows
        pieces = [(here, span) for here in rows for span in spans]

        def multiply(piece: tuple[slice, slice]) -> Products:
            return strips.times(*piece, left=out[piece[0]] if alone else None)

        def commit(piece: tuple[slice, slice], found: Products) -> None:
            if not alone:
                add(out[piece[0]], found.left)
                strips.take_back(found)

        in_order(pieces, lambda: multiply, commit, self._threads)

    def _multiply_few(self, X: Any, V: FloatArray, out: FloatArray) -> None:
        """Multiply tiles that are wide rather than high, as many at a time as are worth a thread."""
        m, edge = len(out), CROSS_EDGE[self._dtype.itemsize]
        values, inner = self._evaluator(X, self._threads), np.ascontiguousarray(V, dtype=self._dtype)
        cuts = edges(len(V), max(edge, min(edge**2 // m, _WIDEST)))

        def multiply(run: list[slice]) -> FloatArray:
            total = np.zeros((m, V.shape[1]))
            for cut in run:
                tile = np.empty((m, cut.stop - cut.start), dtype=self._dtype)
                values.fill(slice(0, m), cut, tile)
                total += tile @ inner[cut]
            return total

        def commit(_: list[slice], part: FloatArray) -> None:
            np.add(out, part, out=out)

        in_order(runs(cuts, max(1, 2 * edge**2 // (m * cuts[0].stop))), lambda: multiply, commit, self._threads)


class NumpyEngine:
    """Main memory; takes all rows that no other engine takes."""

    devices: tuple[str, ...] = ("cpu",)
    tiles, cross, slopes = NumpyTiles, NumpyCross, Slopes
    evaluator, has_single = staticmethod(evaluator), staticmethod(has_single)

    @staticmethod
    def takes(X: Any) -> bool:
        return True

    @staticmethod
    def placed(V: FloatArray) -> FloatArray:
        return V
