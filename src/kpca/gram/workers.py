"""Worker threads that compute pieces in any order and hand them over in one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
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
    errors: list[BaseException] = []
    turn = 0

    def work() -> None:
        nonlocal turn
        try:
            worker = make_worker()
            while not errors:
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
        except BaseException as error:
            errors.append(error)

    with blas.single_threaded():
        others = [threading.Thread(target=work, daemon=True) for _ in range(threads - 1)]
        try:
            for thread in others:
                thread.start()
            work()  # the calling thread is one of them
            for thread in others:
                thread.join()
        except BaseException as error:  # an interrupt between two pieces of work
            errors.append(error)
            for thread in others:
                if thread.ident is not None:  # the interrupt may have come before it was started
                    thread.join()
    if errors:
        raise errors[0]
