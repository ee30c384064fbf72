"""Worker threads that compute pieces in any order and hand them over in one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

Piece = TypeVar("Piece")
Result = TypeVar("Result")

_blas: list[ThreadpoolController] = []


def single_threaded_blas() -> Any:
    """Return a context in which each BLAS call uses the calling thread only: our own threads share the cores."""
    if not _blas:  # finding the loaded libraries takes milliseconds, so it is done once
        _blas.append(ThreadpoolController())
    return _blas[0].limit(limits=1)


def in_order(
    pieces: list[Piece],
    make_worker: Callable[[], Callable[[Piece], Result]],
    commit: Callable[[Piece, Result], None],
    threads: int,
) -> None:
    """Apply a worker to every piece on some threads; `commit` the results one at a time, in the order of the pieces.

    Each thread makes its own worker, which may hold scratch memory. The order makes sums repeat to the bit whatever the
    number of threads. An error or an interrupt stops the other threads at their next piece.
    """
    threads = min(threads, len(pieces))
    if threads <= 1:
        worker = make_worker()
        with single_threaded_blas():
            for piece in pieces:
                commit(piece, worker(piece))
        return

    lock = threading.Lock()
    queue: Iterator[tuple[int, Piece]] = iter(enumerate(pieces))
    waiting: dict[int, tuple[Piece, Result]] = {}
    stop = threading.Event()
    turn = 0

    def work() -> None:
        nonlocal turn
        try:
            worker = make_worker()
            while not stop.is_set():
                with lock:
                    number, piece = next(queue, (-1, None))
                if number < 0:
                    return
                result = worker(piece)  # type: ignore[arg-type]
                with lock:
                    waiting[number] = (piece, result)  # type: ignore[assignment]
                    while turn in waiting:
                        commit(*waiting.pop(turn))
                        turn += 1
        except BaseException:
            stop.set()
            raise

    with single_threaded_blas(), ThreadPoolExecutor(threads) as pool:
        try:
            for future in [pool.submit(work) for _ in range(threads)]:
                future.result()
        except BaseException:
            stop.set()
            raise
