"""Rows of tiles times vectors: in one call to compiled loops where there are some for the kernel, else tile by tile."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kpca._base.linalg import FloatArray
from kpca.gram._evaluators import Evaluator, fill_tiles
from kpca.gram.tiles import Spare, over_slices, slices

# Blocks of fewer columns than this are multiplied by BLAS as they are; wider ones are filled up: a ragged block takes
# up to twice as long as a full one.
_RAGGED, _VECTOR_BYTES, _ACROSS = 5, 64, 8
# Rows of a block that a thread converts at a time, and columns of a tile that are mirrored at a time.
_LOADED_ROWS, _MIRRORED = 4096, 64


class Products(NamedTuple):
    """What a strip gives: products, and after them those with the weights, where moments are asked for."""

    left: FloatArray  # T V in float64, shape: (rows, b)
    right: FloatArray | None  # V'T in the precision of the tiles, shape: (b, columns)
    squares: float  # sum of the w_i w_j t_ij^2


class Strips:
    """A strip is some rows against a run of columns, in tiles of `width` columns.

    `inner` vectors belong to the columns; with `symmetric` also to the rows, which are then multiplied from both sides.
    """

    def __init__(
        self,
        values: Evaluator,
        V: FloatArray,
        dtype: np.dtype[Any],
        *,
        width: int,
        threads: int,
        symmetric: bool = False,
        weights: FloatArray | None = None,
    ) -> None:
        self._values, self._factored, self.dtype = values, values.factored, dtype
        self._width, self._symmetric = width, symmetric
        self.weights = None if weights is None else weights.astype(dtype)
        n, b = V.shape
        self.count, lanes, down = b, _VECTOR_BYTES // dtype.itemsize, _ACROSS
        if self._factored is not None:
            lanes = self._factored.loop.lanes
        elif b < _RAGGED:
            lanes = down = 1
        self._spare = Spare() if self._factored is None else self._factored.spare
        # as columns for T V, as rows for V'T: the quickest forms of both
        self._inner = np.zeros((n, -(-b // lanes) * lanes), dtype=dtype)
        self._across = np.zeros((-(-b // down) * down, n if symmetric else 0), dtype=dtype)

        def load(rows: slice) -> None:
            self._inner[rows, :b] = V[rows]
            if symmetric:
                self._across[:b, rows] = self._inner[rows, :b].T

        over_slices(load, n, _LOADED_ROWS, threads)

    @property
    def shapes(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """The shapes of what all strips together give: a row (a column) for each of the vectors' rows."""
        more = self.weights is not None
        return (len(self._inner), self.count + more), (len(self._across) + more, len(self._inner))

    def fill(self, rows: slice, columns: slice, tiles: FloatArray, diagonal: FloatArray | None = None) -> None:
        """Write the tiles of a strip one after the other.  # shape of tiles: (len(rows) * len(columns),)"""
        if self._factored is not None:
            fill_tiles(self._factored, rows, columns, tiles, width=self._width, diagonal=diagonal)
            return
        for cut, tile in self._cut(rows, columns, tiles, apart=True):
            self._fill_one(rows, cut, tile, diagonal if cut.start == columns.start else None)

    def times(
        self,
        rows: slice,
        columns: slice,
        tiles: FloatArray | None = None,
        *,
        diagonal: FloatArray | None = None,
        left: FloatArray | None = None,
    ) -> Products:
        """Multiply a strip: tiles that `fill` has written, or else such as are computed now and not kept.

        The products of the rows are written to `left`, if there is one.
        `diagonal` is given where the first tile is a square on the diagonal: it is multiplied from one side.
        """
        height, length, more = rows.stop - rows.start, columns.stop - columns.start, self.weights is not None
        if left is None:
            left = self._spare.take(np.dtype(np.float64), height, self.count + more)
        right = self._spare.take(self.dtype, len(self._across) + more, length) if self._symmetric else None
        width = min(self._width, length)
        if self._factored is not None:
            loop, L, R, bounded, radial, _ = self._factored
            scratch = self._spare.take(self.dtype, loop.scratch(width, L.shape[1], self._inner.shape[1]))
            across = self._across[:, rows] if self._symmetric else None
            w = self.weights
            vectors = self._inner[columns], across, left, right
            weights = (None, None) if w is None else (w[rows], w[columns])
            filled = -1 if tiles is None else 1
            how: dict[str, Any] = {"bounded": bounded, "radial": radial, "width": self._width, "filled": filled}
            squares = loop(L[rows], R[columns], scratch, tiles, diagonal, *vectors, *weights, **how)
            self._spare.give(scratch)
            return Products(left, right, squares)
        squares = 0.0
        left[...] = 0.0
        scratch = self._spare.take(self.dtype, height * width if tiles is None else 0)
        for cut, tile in self._cut(rows, columns, scratch if tiles is None else tiles, apart=tiles is not None):
            own = diagonal is not None and cut.start == columns.start
            if tiles is None:
                self._fill_one(rows, cut, tile, diagonal if own else None)
            here = slice(cut.start - columns.start, cut.stop - columns.start)
            squares += self._times_one(rows, cut, tile, left, None if right is None else right[:, here], own=own)
        self._spare.give(scratch)
        return Products(left, right, squares)

    def take_back(self, found: Products) -> None:
        """Let the memory of products be that of others."""
        self._spare.give(found.left)
        if found.right is not None:
            self._spare.give(found.right)

    def _cut(self, rows: slice, columns: slice, tiles: FloatArray, *, apart: bool) -> Any:
        """Yield the columns and the memory of each tile: apart, or all in the same place."""
        height, start = rows.stop - rows.start, 0
        for cut in slices(columns.stop - columns.start, self._width):
            size = height * (cut.stop - cut.start)
            tile = tiles[start : start + size].reshape(height, -1)
            start += size if apart else 0
            yield slice(columns.start + cut.start, columns.start + cut.stop), tile

    def _fill_one(self, rows: slice, columns: slice, tile: FloatArray, diagonal: FloatArray | None) -> None:
        self._values.fill(rows, columns, tile)
        if diagonal is not None:
            symmetrise(tile, diagonal)

    def _times_one(
        self, rows: slice, columns: slice, tile: FloatArray, left: FloatArray, right: FloatArray | None, *, own: bool
    ) -> float:
        b = self.count
        left[:, :b] += (tile @ self._inner[columns])[:, :b]
        if right is not None:
            right[: len(self._across)] = 0.0 if own else self._across[:, rows] @ tile
        if self.weights is None or right is None:
            return 0.0
        # Products of their own: BLAS may sum up a column otherwise beside one more, and a product must have the same
        # bits whether or not the moments are asked for.
        w, u = self.weights[rows], self.weights[columns]
        left[:, b] += tile @ u
        right[-1] = 0.0 if own else w @ tile
        squares = float(np.dot((tile * tile) @ u, w.astype(np.float64)))
        return squares if own else 2.0 * squares


def symmetrise(K: FloatArray, diagonal: FloatArray) -> None:
    """Overwrite the lower triangle by the upper one, some columns at a time, and the diagonal by what it should be."""
    for cut in slices(len(K), _MIRRORED):  # a whole transpose leaves the cache
        own = K[cut, cut]
        own[...] = np.triu(own) + np.triu(own, 1).T
        K[cut.stop :, cut] = K[cut, cut.stop :].T
    np.fill_diagonal(K, diagonal)
