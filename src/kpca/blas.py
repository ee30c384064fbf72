"""How many threads BLAS and LAPACK use, for a while.

NumPy and SciPy each bring an OpenBLAS with threads of its own, which go on spinning for some 25 ms after a call. Two
pools at once, or a pool beside our own workers, take the cores from each other: small problems then run at a third of
their speed.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from threadpoolctl import OpenBLASController, ThreadpoolController

_lock = threading.Lock()
_inside = 0  # how many `single_threaded` blocks are open, in all threads
_kept = 0  # how many `kept_single_threaded` blocks are open
_limit: Any = None  # what the first of them set, for the last of them to undo


@cache
def _pools() -> tuple[ThreadpoolController, int]:
    # Finding the loaded libraries takes milliseconds, so it is done once.
    pools = ThreadpoolController().select(user_api="blas")
    return pools, max((int(pool["num_threads"]) for pool in pools.info()), default=1)


@contextmanager
def single_threaded() -> Iterator[None]:
    """Let each BLAS call use the calling thread only.

    The setting belongs to the process, so blocks are counted: the last one to close undoes it, also when fits run side
    by side in several threads.
    """
    global _inside, _limit  # noqa: PLW0603
    with _lock:
        _inside += 1
        if _inside == 1:
            _limit = _pools()[0].limit(limits=1)
            _release()
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                _limit.restore_original_limits()
                _release()


def _release() -> None:
    """Let any thread change the limits next: threadpoolctl reserves that to the thread which did so first."""
    clear = getattr(OpenBLASController, "clear_controlling_thread", None)  # from version 3.7 on
    if clear is not None:
        clear(force=True)


@cache
def _openmp() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="openmp")


@contextmanager
def no_openmp_threads() -> Iterator[None]:
    """Let loops of scikit-learn use the calling thread only: short ones wait longer for each other than they work."""
    with _openmp().limit(limits=1):
        yield


@contextmanager
def all_threads() -> Iterator[None]:
    """Let BLAS use as many threads as at the start again, for one large call inside a `single_threaded` block."""
    if _kept:
        yield
        return
    pools, count = _pools()
    with pools.limit(limits=count):
        yield


@contextmanager
def kept_single_threaded() -> Iterator[None]:
    """Let each BLAS call use the calling thread only, large ones too: for many calls on a machine that may be busy.

    Threads of LAPACK wait for each other by spinning; where another program has one of the cores, a call of 50 ms takes
    seconds.
    """
    global _kept  # noqa: PLW0603
    with single_threaded():
        with _lock:
            _kept += 1
        try:
            yield
        finally:
            with _lock:
                _kept -= 1
