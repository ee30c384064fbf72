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
from kpca.gram._evaluators import Evaluator, Memo, evaluator, has_single
from kpca.gram.shared import SharedArguments
from kpca.gram.slopes import Slopes
from kpca.gram.tiles import CROSS_EDGE, CROSS_TILES, TileStore, edges, over_slices, piece_rows, slices, tile_edge
from kpca.kernels import Kernel

# Blocks of fewer columns than this are multiplied as they are, wider ones filled up to a multiple of 8.
_RAGGED = 5
# Rows of a block that a thread converts at a time, and columns of a tile that are mirrored at a time.
_LOADED_ROWS, _MIRRORED = 4096, 64


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
    ) -> None:
        self.dtype, self.n_evaluations = dtype, 0
        self._kernel, self._X, self._shifted, self._arguments = kernel, X, shifted, arguments
        self._n, self._threads = X.shape[0], threads
        self._edges = edges(self._n, tile_edge(self._n, dtype.itemsize))
        self._pieces = [(i, j) for i in range(len(self._edges)) for j in range(i, len(self._edges))]
        self._widest = max(cut.stop - cut.start for cut in self._edges)
        self.keep(0)

    @cached_property
    def values(self) -> Evaluator:
        return self._evaluator(self.dtype)

    def _evaluator(self, dtype: np.dtype[Any]) -> Evaluator:
        if self._arguments is not None:
            return self._arguments.evaluator(self._kernel, dtype, shifted=self._shifted)
        return evaluator(self._kernel, self._X, self._X, dtype, shifted=self._shifted, threads=self._threads)

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
        return self._kernel.diagonal(self._X) - self.constant

    def keep(self, budget: int, reuses: int = 2) -> None:
        self._store = TileStore(len(self._pieces), self._widest**2 * self.dtype.itemsize, budget, reuses)

    def release(self) -> None:
        self.keep(0)
        self.__dict__.pop("values", None)

    def fill(self, rows: slice, columns: slice, out: FloatArray) -> None:
        self.values.fill(rows, columns, out)
        if rows == columns:  # symmetric to the bit, with an exact diagonal
            _mirror(out)
        both = range(max(rows.start, columns.start), min(rows.stop, columns.stop))
        if both:
            i = np.arange(both.start, both.stop)
            out[i - rows.start, i - columns.start] = self.diagonal[i]

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
        self.fill(rows, columns, tile)
        self.n_evaluations += tile.size
        if room is not None:
            self._store.keep(number, tile, time.perf_counter() - started)
        return tile

    def multiply(
        self, V: FloatArray, weights: FloatArray | None = None, *, moments: bool = False
    ) -> tuple[FloatArray, FloatArray, float]:
        b = V.shape[1]
        # GEMM takes up to twice as long for a ragged block as for a full one.
        width = b if b < _RAGGED else -(-b // 8) * 8
        inner, across = (np.zeros(shape, dtype=self.dtype) for shape in ((self._n, width), (width, self._n)))
        wide = self.dtype == np.float64

        def load(rows: slice) -> None:
            inner[rows, :b] = V[rows]
            across[:b, rows] = inner[rows, :b].T

        over_slices(load, self._n, _LOADED_ROWS, self._threads)
        out, image, squares = np.zeros(V.shape), np.zeros(self._n), 0.0
        w = (np.ones(self._n) if weights is None else weights).astype(self.dtype)
        pieces = [(number, self._edges[i], self._edges[j]) for number, (i, j) in enumerate(self._pieces)]

        def make_worker() -> Any:
            scratch = np.empty(self._widest**2, dtype=self.dtype)

            def multiply(piece: tuple[int, slice, slice]) -> tuple[Any, ...]:
                number, rows, columns = piece
                tile = self._tile(number, scratch)
                # The quickest forms of K V and K'V: float64 likes the few columns on the left, float32 only once.
                left = (across[:, columns] @ tile.T).T if wide else tile @ inner[columns]
                right = (across[:, rows] @ tile).T if rows is not columns else None
                if not moments:
                    return left, right
                # Products of their own: BLAS may sum up a column otherwise beside one more, and a product must have
                # the same bits whether or not the moments are asked for.
                inside = np.vecdot(tile, tile) if weights is None else (tile * tile) @ w[columns]
                total = float(np.dot(inside, w[rows].astype(np.float64)))
                return left, right, tile @ w[columns], None if right is None else w[rows] @ tile, total

            return multiply

        def commit(piece: tuple[int, slice, slice], result: tuple[Any, ...]) -> None:
            nonlocal squares
            _, rows, columns = piece
            left, right, *found = result
            out[rows] += left[:, :b]
            if right is not None:
                out[columns] += right[:, :b]
            if found:
                image[rows] += found[0]
                if right is not None:
                    image[columns] += found[1]
                squares += found[2] if right is None else 2.0 * found[2]

        in_order(pieces, make_worker, commit, self._threads)
        return out, image, squares

    def rows_times(self, rows: NDArray[np.intp], V: FloatArray, dtype: np.dtype[Any]) -> FloatArray:
        inner, some = np.ascontiguousarray(V, dtype=dtype), self._X[rows]
        out, diagonal = np.zeros((len(rows), V.shape[1])), self.diagonal
        known = dtype == self.dtype or self._arguments is not None
        values = (self.values if dtype == self.dtype else self._evaluator(dtype)) if known else None

        def multiply(columns: slice) -> FloatArray:
            tile = np.empty((len(rows), columns.stop - columns.start), dtype=dtype)
            if values is not None:
                values.fill(rows, columns, tile)
            else:
                # made of these columns only: the prepared rows of all would be as large as the data, for a few values
                local = evaluator(self._kernel, some, self._X[columns], dtype, shifted=self._shifted)
                local.fill(slice(0, len(rows)), slice(0, columns.stop - columns.start), tile)
            inside = np.flatnonzero((rows >= columns.start) & (rows < columns.stop))
            tile[inside, rows[inside] - columns.start] = diagonal[rows[inside]]
            product: FloatArray = tile @ inner[columns]
            return product

        def commit(_: slice, part: FloatArray) -> None:
            np.add(out, part, out=out)

        in_order(self._edges, lambda: multiply, commit, self._threads)
        return out

    def matrix(self) -> FloatArray:
        K = np.empty((self._n, self._n))

        def make_worker() -> Any:
            return lambda piece: self.fill(piece[0], piece[1], K[piece[0], piece[1]])

        def commit(piece: tuple[slice, slice], _: None) -> None:
            rows, columns = piece
            if rows is not columns:
                K[columns, rows] = K[rows, columns].T

        in_order([(self._edges[i], self._edges[j]) for i, j in self._pieces], make_worker, commit, self._threads)
        self.n_evaluations += K.size
        return K


def _mirror(K: FloatArray) -> None:
    """Overwrite the lower triangle by the upper one, some columns at a time: a whole transpose leaves the cache."""
    for cut in slices(len(K), _MIRRORED):
        own = K[cut, cut]
        own[...] = np.triu(own) + np.triu(own, 1).T
        K[cut.stop :, cut] = K[cut, cut.stop :].T


class NumpyCross:
    """K(X, Y) - constant in tiles: threads work on some rows of X, and prepare them, against some columns."""

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
        inner = np.ascontiguousarray(V, dtype=self._dtype)
        (m, n), edge = (self._X.shape[0], len(inner)), CROSS_EDGE[self._dtype.itemsize]
        out, cuts = np.zeros((m, V.shape[1])), edges(n, edge)
        spans = [cuts[i : i + CROSS_TILES] for i in range(0, len(cuts), CROSS_TILES)]
        pieces = [(rows, span) for rows in edges(m, piece_rows(m, n, edge)) for span in spans]

        def make_worker() -> Any:
            scratch = np.empty(min(m, edge) * min(n, edge), dtype=self._dtype)

            def multiply(piece: tuple[slice, list[slice]]) -> FloatArray:
                rows, span = piece
                values, total = self._evaluator(self._X[rows]), np.zeros((rows.stop - rows.start, inner.shape[1]))
                for part in edges(len(total), edge):
                    height = part.stop - part.start
                    for cut in span:
                        tile = scratch[: height * (cut.stop - cut.start)].reshape(height, cut.stop - cut.start)
                        values.fill(part, cut, tile)
                        total[part] += tile @ inner[cut]
                return total

            return multiply

        def commit(piece: tuple[slice, list[slice]], total: FloatArray) -> None:
            out[piece[0]] += total

        in_order(pieces, make_worker, commit, self._threads)
        return out


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
