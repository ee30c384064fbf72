"""Worker threads that compute pieces in any order and hand them over in one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from kpca import blas

Piece = TypeVar("Piece")
Result = TypeVar("Result")


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
        with blas.single_threaded():
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

    with blas.single_threaded(), ThreadPoolExecutor(threads) as pool:
        try:
            for future in [pool.submit(work) for _ in range(threads)]:
                future.result()
        except BaseException:
            stop.set()
            raise
