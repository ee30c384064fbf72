"""How many threads BLAS and LAPACK use, for a while.

NumPy and SciPy each bring an OpenBLAS with threads of its own, which go on spinning for some 25 ms after a call. Two pools at
once, or a pool beside our own workers, take the cores from each other: small problems then run at a third of their speed.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


@cache
def _pools() -> tuple[ThreadpoolController, int]:
    # Finding the loaded libraries takes milliseconds, so it is done once.
    pools = ThreadpoolController()
    return pools, max((int(pool["num_threads"]) for pool in pools.info()), default=1)


def single_threaded() -> Any:
    """Return a context in which each BLAS call uses the calling thread only."""
    return _pools()[0].limit(limits=1)


def all_threads() -> Any:
    """Return a context in which BLAS uses as many threads as it did at the start, for one large call."""
    pools, count = _pools()
    return pools.limit(limits=count)
