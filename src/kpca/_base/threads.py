"""How many threads BLAS and LAPACK use, for a while.

NumPy and SciPy each bring an OpenBLAS with threads of its own, which go on spinning for some 25 ms after a call. Two
pools at once, or a pool beside our own workers, take the cores from each other: small problems then run at a third of
their speed.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, TypeVar

from threadpoolctl import OpenBLASController, ThreadpoolController

_lock = threading.Lock()
_limit: Any = None  # what was set first, for the last block to undo
_set: int | None = None  # the threads that are set; None: as at the start
_inside = _wide = 0  # how many `single_threaded` and `all_threads` blocks are open, in all threads
_owners = 0  # how many have opened the former: fits side by side


@dataclass
class _Owner:
    """Whoever opened the first of some blocks that lie in one another, in threads that work for each other, too."""

    blocks: int = 0


_owner: ContextVar[_Owner | None] = ContextVar("_owner", default=None)
_kept: ContextVar[bool] = ContextVar("_kept", default=False)


@cache
def _pools() -> tuple[ThreadpoolController, int]:
    # Finding the loaded libraries takes milliseconds, so it is done once.
    pools = ThreadpoolController().select(user_api="blas")
    return pools, max((int(pool["num_threads"]) for pool in pools.info()), default=1)


def _settle(*, inside: int = 0, wide: int = 0, owners: int = 0) -> None:
    """Count blocks that were opened or closed, and set the threads that are right for those that are open."""
    global _inside, _wide, _owners, _limit, _set  # noqa: PLW0603
    _inside, _wide, _owners = _inside + inside, _wide + wide, _owners + owners
    pools, count = _pools()
    # a fit beside others stays with one thread: theirs are not to change the bits of those
    wanted = 1 if _inside and (not _wide or _owners > 1) else count if _wide else None
    if wanted == _set:
        return
    if wanted is None:
        _limit.restore_original_limits()
    else:
        limit = pools.limit(limits=wanted)
        _limit = limit if _set is None else _limit
    _set = wanted
    # threadpoolctl, from version 3.7 on, reserves the next change to the thread which made this one
    if clear := getattr(OpenBLASController, "clear_controlling_thread", None):
        clear(force=True)


@contextmanager
def single_threaded() -> Iterator[None]:
    """Let each BLAS call use the calling thread only.

    The setting belongs to the process, so blocks are counted: the last one to close undoes it, also when fits run side
    by side in several threads.
    """
    owner = _owner.get()
    if owner is None:
        _owner.set(owner := _Owner())
    with _lock:
        owner.blocks += 1
        _settle(inside=1, owners=int(owner.blocks == 1))
    try:
        yield
    finally:
        with _lock:
            owner.blocks -= 1
            _settle(inside=-1, owners=-int(owner.blocks == 0))
        if not owner.blocks:
            _owner.set(None)


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
    """Let BLAS use as many threads as at the start again, for one large call inside a `single_threaded` block.

    Beside the blocks of other fits nothing changes: the call is then slower, and its last bits may be others.
    """
    if _kept.get():
        yield
        return
    with _lock:
        _settle(wide=1)
    try:
        yield
    finally:
        with _lock:
            _settle(wide=-1)


@contextmanager
def kept_single_threaded() -> Iterator[None]:
    """Let each BLAS call use the calling thread only, large ones too: for many calls on a machine that may be busy.

    Threads of LAPACK wait for each other by spinning; where another program has one of the cores, a call of 50 ms takes
    seconds.
    """
    before = _kept.get()
    with single_threaded():
        _kept.set(True)
        try:
            yield
        finally:
            _kept.set(before)


# -- Worker threads that compute pieces in any order and hand them over in one ----------------------------------------

Piece = TypeVar("Piece")
Result = TypeVar("Result")
_MOST_THREADS = max(64, 2 * (os.cpu_count() or 1))


@cache
def _idle() -> ThreadPoolExecutor:
    """Threads that have nothing to do: starting one takes as long as waking fifteen.

    Work that finds none of them idle is not waited for: whoever asked does it alone.
    """
    return ThreadPoolExecutor(_MOST_THREADS, thread_name_prefix="kpca")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.cache_clear)  # threads do not survive in a child


def in_order(
    pieces: list[Piece],
    make_worker: Callable[[], Callable[[Piece], Result]],
    commit: Callable[[Piece, Result], None],
    threads: int,
) -> None:
    """Apply a worker to every piece on some threads; `commit` the results one at a time, in the order of the pieces.

    Each thread makes its own worker, which may hold scratch memory. The order makes sums repeat to the bit whatever the
    number of threads. An error or an interrupt stops the other threads at their next piece.

    Threads call each other: whoever takes a piece wakes one more, as long as pieces are left. Long pieces so have all
    threads at work soon, and short ones only as many as come in time: many threads that all want the interpreter for a
    moment wait longer for it than the pieces take.
    """
    threads = min(threads, len(pieces))
    if threads > 1:
        _Crew(pieces, make_worker, commit, threads).run()
        return
    worker = make_worker()
    with single_threaded():
        for piece in pieces:
            commit(piece, worker(piece))


class _Crew(Generic[Piece, Result]):
    """Threads that work on pieces: the one that asked, and those that come in time."""

    def __init__(
        self,
        pieces: list[Piece],
        make_worker: Callable[[], Callable[[Piece], Result]],
        commit: Callable[[Piece, Result], None],
        threads: int,
    ) -> None:
        self._make_worker, self._commit = make_worker, commit
        self._queue, self._left = iter(enumerate(pieces)), len(pieces)
        self._done: dict[int, tuple[Piece, Result]] = {}  # not yet committed
        self._turn, self._others = 0, threads - 1
        # Threads that are late find nothing left to do: only those that are at work are waited for.
        self._finished, self._at_work = threading.Condition(threading.Lock()), set[int]()
        self._errors: list[BaseException] = []
        # Futures forget what they called, so the workers' memory, which may be large, is freed as soon as all are done.
        self._called: list[Future[None]] = []

    def run(self) -> None:
        me, done = threading.get_ident(), False
        with single_threaded():
            while not done:
                try:
                    self._work()
                    with self._finished:
                        done = self._finished.wait_for(lambda: not self._at_work - {me})
                except BaseException as error:  # an interrupt: the others are told, and waited for again
                    self._errors.append(error)
            for late in self._called:
                late.cancel()
        if self._errors:
            raise self._errors[0]

    def _work(self) -> None:
        me, worker = threading.get_ident(), None
        try:
            while not self._errors and (taken := self._take(me)):
                worker = worker or self._make_worker()
                self._hand_over(*taken, worker(taken[1]))
        except BaseException as error:
            self._errors.append(error)
        finally:
            with self._finished:
                self._at_work.discard(me)
                self._finished.notify_all()

    def _take(self, me: int) -> tuple[int, Piece] | None:
        """Return the next piece and its number, and call one more thread if there are more; None if there is none."""
        with self._finished:
            if not self._left:
                return None
            taken = next(self._queue)
            self._left -= 1
            self._at_work.add(me)
            more = self._left and self._others
            self._others -= bool(more)
        if more:
            with suppress(RuntimeError):  # no more threads are to be had, as at the very end: those at work do it all
                # settings of this thread, kpca's and NumPy's, hold in the other, too
                self._called.append(_idle().submit(copy_context().run, self._work))
        return taken

    def _hand_over(self, number: int, piece: Piece, result: Result) -> None:
        with self._finished:
            self._done[number] = (piece, result)
            while self._turn in self._done:
                self._commit(*self._done.pop(self._turn))
                self._turn += 1
