"""What this machine does per second, measured once per process in a few hundredths of a second.

Two kinds of numbers: rates of the machine (products, LAPACK, fresh memory), and the cost of one tile of the very kernel
that is asked for, on the worker threads that will compute it.
"""

from __future__ import annotations

import contextlib
import mmap
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca import blas
from kpca.gram._numpy import evaluator
from kpca.gram.tiles import EDGE
from kpca.gram.workers import in_order
from kpca.kernels import Kernel

FloatArray = NDArray[Any]
_REPEATS = 3
# A tile that takes longer is measured on a smaller one.
_LONGEST = 0.004
_SMALL_EDGE = 48
_FRESH_BYTES = 8 * 2**20
_PAGE_BYTES = 4096


@dataclass(frozen=True)
class Rates:
    """Speeds of the machine: products on one thread, LAPACK on all, and what the first touch of memory costs."""

    flops_single: float  # float32 product, per second and thread
    flops_double: float  # float64 product, per second and thread
    flops_narrow: float  # float64 product of a long narrow block, per second and thread
    exps: float  # float32 exponentials inside the cache, per second and thread
    eigh_small: float  # flops per second of LAPACK on one thread, 9 m^3 for all eigenpairs of 200 rows
    fresh: float  # seconds per byte of memory that was never touched


@dataclass(frozen=True)
class TileCost:
    """Seconds of one thread per kernel value, with all threads at work."""

    fill: float
    products: float  # both products, K V and K'V, for all columns of the block


@cache
def machine_rates() -> Rates:
    """Return the rates of this machine; the first call measures them."""
    rng = np.random.default_rng(0)
    with blas.single_threaded():
        double = rng.standard_normal((384, 384))
        single = double.astype(np.float32)
        out_double, out_single = np.empty_like(double), np.empty_like(single)
        long, narrow = rng.standard_normal((8192, 64)), rng.standard_normal((64, 16))
        image = np.empty((8192, 16))
        symmetric = double[:200, :200] @ double[:200, :200].T
        values, work = -np.abs(single), np.empty_like(single)
        flops = 2.0 * 384**3
        return Rates(
            flops_single=flops / _best(lambda: np.matmul(single, single, out=out_single)),
            flops_double=flops / _best(lambda: np.matmul(double, double, out=out_double)),
            flops_narrow=2.0 * long.size * 16 / _best(lambda: np.matmul(long, narrow, out=image)),
            exps=values.size / _best(lambda: np.exp(values, out=work)),
            eigh_small=9.0 * 200**3 / _best(lambda: np.linalg.eigh(symmetric)),
            fresh=min(_fresh_seconds() for _ in range(_REPEATS)) / _FRESH_BYTES,
        )


def _best(call: Callable[[], Any]) -> float:
    """Return the shortest of a few times: others may take the core meanwhile."""
    times = []
    for _ in range(_REPEATS):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return max(min(times), 1e-9)


def _fresh_seconds() -> float:
    # From the system itself: the allocator might hand out what was used before. In large pages, as NumPy asks for.
    with mmap.mmap(-1, _FRESH_BYTES) as source:
        if hasattr(mmap, "MADV_HUGEPAGE"):
            with contextlib.suppress(OSError):
                source.madvise(mmap.MADV_HUGEPAGE)
        memory = np.frombuffer(source, dtype=np.uint8)
        started = time.perf_counter()
        memory[::_PAGE_BYTES] = 0
        seconds = time.perf_counter() - started
        del memory
    return seconds


def tile_cost(kernel: Kernel, rows: Any, itemsize: int, columns: int, *, shifted: bool, threads: int) -> TileCost:
    """Time tiles of this kernel on some rows of the data, and the products with them, on as many threads as a fit has.

    `rows` need not be as many as a tile has: they are repeated. `columns` is the width of the block.
    """
    dtype = np.dtype(np.float32 if itemsize == 4 else np.float64)
    edge = EDGE[itemsize]
    some = rows[np.arange(edge) % rows.shape[0]]
    small = evaluator(kernel, some[:_SMALL_EDGE], some[:_SMALL_EDGE], dtype, shifted=shifted)
    probe = np.empty((_SMALL_EDGE, _SMALL_EDGE), dtype)
    with blas.single_threaded():
        per_value = _best(lambda: small.fill(slice(0, _SMALL_EDGE), slice(0, _SMALL_EDGE), probe)) / probe.size
    edge = int(min(edge, max(_SMALL_EDGE, (_LONGEST / per_value) ** 0.5)))
    source = evaluator(kernel, some[:edge], some[:edge], dtype, shifted=shifted)
    V = np.random.default_rng(0).standard_normal((edge, columns)).astype(dtype)
    across = np.ascontiguousarray(V.T)
    everything = slice(0, edge)

    def seconds(work: Callable[[FloatArray], Any]) -> float:
        def make_worker() -> Callable[[int], None]:
            tile = np.full((edge, edge), 0.5, dtype)
            source.fill(everything, everything, tile)

            def timed(_: int) -> None:
                started = time.perf_counter()
                work(tile)
                times.append(time.perf_counter() - started)

            return timed

        times: list[float] = []
        in_order(list(range(_REPEATS * threads)), make_worker, lambda piece, result: None, threads)
        return float(np.median(times)) / edge**2

    def multiply(tile: FloatArray) -> None:
        _ = across @ tile.T if itemsize == 8 else tile @ V
        _ = across @ tile

    return TileCost(
        seconds(lambda tile: source.fill(everything, everything, tile)),
        seconds(multiply),
    )
