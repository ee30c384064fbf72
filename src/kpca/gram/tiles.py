"""How the kernel matrix is cut into tiles, and which of them are kept.

Tiles depend on the number of rows and the precision only, never on free memory or on the number of threads, and their
contributions are added in one fixed order: a product repeats to the bit.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from kpca._base.linalg import FloatArray
from kpca._base.threads import in_order

# By bytes of an entry: a tile of about 1.6 MB was fastest for both precisions: large enough for GEMM, small enough to
# stay near the core.
EDGE = {4: 640, 8: 448}
# Smaller ones for new rows against known ones: a few thousand new rows must still give every thread its share.
CROSS_EDGE = {4: 512, 8: 280}
# A product with a ragged tile, of 571 instead of 576 rows, runs at four fifths of the speed.
_WHOLE = 32
# numpy asks for huge pages from 4 MiB on; with small ones the page faults of fresh memory cost more than the kernel.
SLAB_BYTES = 32 * 2**20
_PAGE_BYTES = 4096
# Numbers of new rows that are prepared at a time: what is made of them is as large as they are.
_BAND_NUMBERS, _SHORTEST_BAND = 2_000_000, 4096
# Tiles that a worker holds at the same time: its own, a temporary of the profile, and products on their way.
_TILES_PER_WORKER = 4


def edges(n: int, longest: int) -> list[slice]:
    """Return consecutive ranges of n rows, none longer than that, all but the last of one length that GEMM likes."""
    count = max(1, -(-n // longest))
    return slices(n, -(-n // (count * _WHOLE)) * _WHOLE)


def slices(n: int, step: int) -> list[slice]:
    return [slice(start, min(start + step, n)) for start in range(0, n, step)]


def by_slices(work: Callable[[slice], FloatArray], out: FloatArray, step: int, threads: int) -> FloatArray:
    """Write what `work` makes of `step` rows at a time to these rows of `out`, and return it."""
    in_order(slices(len(out), step), lambda: work, out.__setitem__, threads)
    return out


def band_rows(d: int) -> int:
    """Return how many new rows are worked on at a time; a matter of their length only."""
    return max(_SHORTEST_BAND, _BAND_NUMBERS // (d + 2))


def workers_bytes(threads: int, n: int) -> int:
    return threads * _TILES_PER_WORKER * min(EDGE[4] ** 2 * 4, 8 * n * n)


class TileStore:
    """Keeps as many tiles as the budget allows; a tile not kept is computed anew each time, to the same bits.

    Tiles are admitted by their number, the first ones first, until the budget is used up or fresh memory turns out to
    cost more time than it saves, which on virtual machines it may: a kept tile saves `reuses` evaluations.
    """

    def __init__(self, n_tiles: int, tile_bytes: int, budget: int, reuses: int = 2) -> None:
        self._reuses, self._tile_bytes = reuses, tile_bytes
        self._capacity = min(n_tiles, max(0, budget) // max(tile_bytes, 1))
        self._tiles: list[FloatArray | None] = [None] * self._capacity
        self._slab, self._used = np.empty(0, dtype=np.uint8), 0
        self._fresh = (0.0, 0.0)  # seconds per byte that the last two slabs cost
        self._saved = math.inf  # seconds per byte that evaluations take
        self._lock = threading.Lock()

    def get(self, number: int) -> FloatArray | None:
        return self._tiles[number] if number < self._capacity else None

    def room(self, number: int, shape: tuple[int, int], dtype: np.dtype[Any]) -> FloatArray | None:
        size = shape[0] * shape[1] * dtype.itemsize
        with self._lock:
            if self._used + size > self._slab.nbytes and number < self._capacity:
                if min(self._fresh) > self._reuses * self._saved:  # one alone may have been interrupted
                    self._capacity = number
                else:
                    # whole tiles, and no more of them than are still to come: the budget is a promise
                    count = min(max(1, SLAB_BYTES // self._tile_bytes), self._capacity - number)
                    self._slab, self._used = np.empty(count * self._tile_bytes, dtype=np.uint8), 0
                    started = time.perf_counter()
                    self._slab[::_PAGE_BYTES] = 0
                    self._fresh = (self._fresh[1], (time.perf_counter() - started) / self._slab.nbytes)
            if number >= self._capacity:
                return None
            memory = self._slab[self._used : self._used + size]
            self._used += size
        return memory.view(dtype).reshape(shape)

    def keep(self, number: int, tile: FloatArray, seconds: float) -> None:
        """Remember a tile that was computed into its room; only now, so that half a tile is never taken for one."""
        self._tiles[number] = tile
        self._saved = min(self._saved, seconds / tile.nbytes)
