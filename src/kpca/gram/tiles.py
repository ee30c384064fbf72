"""How the kernel matrix is cut into tiles, and which of them are kept.

Tiles depend on the number of rows and the precision only, never on free memory or on the number of threads, and their
contributions are added in one fixed order: a product repeats to the bit.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from kpca._base.linalg import FloatArray
from kpca._base.threads import in_order

Made = TypeVar("Made")
# By bytes of an entry: a tile of about 1.6 MB is large enough for GEMM, small enough to stay near the core. Of many
# rows larger ones are no slower, and leave the interpreter time to serve sixteen threads.
EDGE, _LARGE_EDGE, _MANY_ROWS = {4: 640, 8: 448}, {4: 960, 8: 576}, 10_000
# Smaller ones for new rows against known ones: a few thousand new rows must still give every thread its share.
CROSS_EDGE = {4: 512, 8: 288}
# A product with a ragged tile, of 571 instead of 576 rows, runs at four fifths of the speed.
_WHOLE = 32
# numpy asks for huge pages from 4 MiB on; with small ones the page faults of fresh memory cost more than the kernel.
SLAB_BYTES = 32 * 2**20
_PAGE_BYTES = 4096
# Fresh memory is first judged by so much of it; it may take no more than this share of the time that it saves. Of the
# time for tiles that are computed and multiplied, computing takes about half; a kept byte is read in so many seconds.
LOOK_BYTES, _WORTH, _COMPUTING, _READING = 8 * 2**20, 0.5, 0.5, 1e-10
# Numbers that a thread makes at a time, which takes milliseconds: many threads then seldom meet. But of few rows there
# must be enough pieces for all threads.
_PIECE_NUMBERS, _MANY_PIECES = 2_000_000, 64
# Tiles in a strip of many, more than so many rows of them; tiles of new rows that a thread works on at a time.
_RUN, _FEW_CUTS = 4, 12
_FEWEST_TILES, _MOST_TILES = 2, 16
# Numbers of rows that are centred at a time: what is made of them is as large as they are.
_BAND_NUMBERS, _SHORTEST_BAND = 4_000_000, 4096
# Numbers that a thread clears at a time.
_CLEARED_NUMBERS = 2**17
# Tiles that a worker holds at the same time: its own, a temporary of the profile, and products on their way.
_TILES_PER_WORKER = 4


def tile_edge(n: int, itemsize: int) -> int:
    """Return the rows and columns of a tile of a kernel matrix of n rows, at most."""
    return (_LARGE_EDGE if n > _MANY_ROWS else EDGE)[itemsize]


def edges(n: int, longest: int) -> list[slice]:
    """Return consecutive ranges of n rows, none longer than that, all but the last of one length that GEMM likes."""
    count = max(1, -(-n // longest))
    return slices(n, max(1, -(-n // (count * _WHOLE))) * _WHOLE)


@dataclass(frozen=True)
class Strip:
    """A piece of work on a symmetric matrix: some rows against a run of columns, from the diagonal on to the right."""

    number: int
    rows: slice
    columns: slice

    @property
    def place(self) -> tuple[slice, slice]:
        return self.rows, self.columns

    @property
    def size(self) -> int:
        rows, columns = self.place
        return int((rows.stop - rows.start) * (columns.stop - columns.start))


def strips_of(cuts: list[slice]) -> list[Strip]:
    """Return the upper triangle in strips: single tiles, but longer runs of many, so that threads meet less often."""
    length = 1 if len(cuts) <= _FEW_CUTS else _RUN
    pairs = [(rows, run) for i, rows in enumerate(cuts) for run in runs(cuts[i:], length)]
    return [Strip(k, rows, slice(run[0].start, run[-1].stop)) for k, (rows, run) in enumerate(pairs)]


def cross_tiles(count: int) -> int:
    """Return how many of so many tiles, side by side, a thread works on at a time."""
    return min(max(count // _MANY_PIECES // 2, _FEWEST_TILES), _MOST_TILES)


def runs(cuts: list[slice], length: int) -> list[list[slice]]:
    """Return consecutive ranges in runs of so many."""
    return [cuts[start : start + length] for start in range(0, len(cuts), length)]


def slices(n: int, step: int) -> list[slice]:
    return [slice(start, min(start + step, n)) for start in range(0, n, step)]


def by_slices(work: Callable[[slice], FloatArray], out: FloatArray, step: int, threads: int) -> FloatArray:
    """Write what `work` makes of `step` rows at a time to these rows of `out`, and return it."""
    over_slices(lambda rows: out.__setitem__(rows, work(rows)), len(out), step, threads)
    return out


def over_slices(work: Callable[[slice], Made], n: int, step: int, threads: int) -> list[Made]:
    """Return what `work` makes of `step` of n rows at a time, in the order of the rows."""
    found: list[Made] = []
    in_order(slices(n, step), lambda: work, lambda rows, made: found.append(made), threads)
    return found


def zeros(shape: tuple[int, int], threads: int) -> FloatArray:
    """Return memory that the threads have cleared side by side: fresh pages are slow to come."""
    numbers = np.empty(math.prod(shape))
    over_slices(lambda part: numbers[part].fill(0.0), numbers.size, _CLEARED_NUMBERS, threads)
    return numbers.reshape(shape)


def piece_rows(n: int, width: int, shortest: int) -> int:
    """Return how many of n rows, with so many numbers each, are a piece of work; a matter of these numbers only."""
    return max(shortest, min(_PIECE_NUMBERS // max(width, 1), n // _MANY_PIECES))


def band_rows(d: int) -> int:
    """Return how many new rows are worked on at a time; a matter of their length only."""
    return max(_SHORTEST_BAND, _BAND_NUMBERS // (d + 2))


def workers_bytes(threads: int, n: int) -> int:
    return threads * _TILES_PER_WORKER * min(tile_edge(n, 4) ** 2 * 4, 8 * n * n)


class Spare:
    """Memory that is used again and again: of fresh memory the system would clear the pages each time."""

    def __init__(self) -> None:
        self._free: dict[tuple[str, int], list[FloatArray]] = {}

    def take(self, dtype: np.dtype[Any], *shape: int) -> FloatArray:
        """Return memory that somebody gave back, or fresh memory; what it holds is anything."""
        size = math.prod(shape)
        try:
            memory = self._free[dtype.char, size.bit_length()].pop()
        except (KeyError, IndexError):
            memory = np.empty(1 << size.bit_length(), dtype=dtype)  # pages beyond the size are never touched
        return memory[:size].reshape(shape)

    def give(self, taken: FloatArray) -> None:
        """Take back what `take` has returned."""
        memory = taken.base
        if isinstance(memory, np.ndarray):
            self._free.setdefault((memory.dtype.char, memory.size.bit_length() - 1), []).append(memory)


def keeping_pays(fresh: float, computing: float, reuses: int) -> bool:
    """Return True if tiles are worth their memory: seconds for a byte of it, and for computing one, saved so often."""
    return fresh <= _WORTH * reuses * (computing - _READING)


class TileStore:
    """Keeps as many tiles as the budget allows; a tile not kept is computed anew each time, to the same bits.

    Tiles are admitted by their number, the first ones first, until the budget is used up or fresh memory turns out to
    cost more time than it saves, as it may on virtual machines: a kept tile saves `reuses` evaluations. A first look at
    some memory, and the first tiles computed, decide whether any are kept at all. Memory that came at once says little
    of what comes next, so no more is asked for at a time than has come so far.
    """

    def __init__(self, n_tiles: int, tile_bytes: int, budget: int, reuses: int = 2) -> None:
        self._reuses, self._tile_bytes = reuses, tile_bytes
        self._capacity = min(n_tiles, max(0, budget) // max(tile_bytes, 1))
        self._tiles: list[FloatArray | None] = [None] * self._capacity
        self._slab, self._used = np.empty(0, dtype=np.uint8), 0
        self._asked, self._fresh = 0, _Cost()  # bytes of memory, and what those took that have come
        self._computing = _Cost()
        self._lock = threading.Lock()

    def get(self, number: int) -> FloatArray | None:
        return self._tiles[number] if number < len(self._tiles) else None

    def room(self, number: int, count: int, dtype: np.dtype[Any]) -> FloatArray | None:
        """Return memory for so many numbers, which the calling thread has touched; None if they are not to be kept."""
        if number >= self._capacity:
            return None
        size = count * dtype.itemsize
        with self._lock:
            looking = not self._asked
            if not looking and not self._admitted(size):
                return None
            if self._used + size > self._slab.nbytes:
                # whole tiles, and no more of them than are still to come: the budget is a promise
                whole = max(1, min(SLAB_BYTES // self._tile_bytes, self._capacity - number))
                self._slab, self._used = np.empty(whole * self._tile_bytes, dtype=np.uint8), 0
            memory = self._slab[self._used : self._used + size]
            touched = memory[:LOOK_BYTES] if looking else memory
            self._asked += touched.nbytes
            if kept := len(touched) == size:
                self._used += size
        # outside the lock: where memory is slow to come, threads wait for it side by side
        seconds = _touch(touched)
        with self._lock:
            self._fresh.add(touched.nbytes, seconds)
        return memory.view(dtype) if kept else None

    def _admitted(self, size: int) -> bool:
        coming = self._asked > self._fresh.size
        if not self._computing.size or (coming and self._asked + size > 2 * self._fresh.size):
            return False  # not yet known
        if not keeping_pays(self._fresh.rate, self._computing.rate, self._reuses):
            self._capacity = 0
        return self._capacity > 0

    def keep(self, number: int, tile: FloatArray, seconds: float) -> None:
        """Remember a tile that was computed into its room; only now, so that half a tile is never taken for one."""
        self._tiles[number] = tile
        with self._lock:
            self._computing.add(tile.nbytes, seconds)

    def not_kept(self, size: int, seconds: float) -> None:
        """Take note of the time that so many bytes of tiles took which were computed and multiplied, but not kept."""
        with self._lock:
            if self._fresh.size and not self._computing.size:
                self._computing.add(size, _COMPUTING * seconds)


@dataclass
class _Cost:
    """The seconds that so many bytes took."""

    size: int = 0
    seconds: float = 0.0

    @property
    def rate(self) -> float:
        return self.seconds / max(self.size, 1)

    def add(self, size: int, seconds: float) -> None:
        self.size += size
        self.seconds += seconds


def _touch(memory: FloatArray) -> float:
    """Return how long it takes until all pages of some memory are there."""
    started = time.perf_counter()
    memory[::_PAGE_BYTES] = 0
    return time.perf_counter() - started
