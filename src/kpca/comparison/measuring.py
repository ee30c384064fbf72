"""What a call takes: its time, its memory, and the warnings it gives on the way."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
# What Python shows nobody but the author of the code that warns.
_FOR_AUTHORS = (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning)


@dataclass(frozen=True)
class Measured:
    """The result of a call, or the exception it ended in, and what it took."""

    value: Any
    error: Exception | None
    seconds: float
    peak_bytes: int | None  # above what the process held before; None where the system does not tell
    warnings: tuple[str, ...]


def measure(call: Callable[[], Any]) -> Measured:
    """Call once; an exception is part of the result, one that is none of the program's (Ctrl-C) goes on its way."""
    value, failure = None, None
    with heard() as said:
        restarted = _restart_peak()
        before = _memory("VmRSS")
        started = time.perf_counter()
        try:
            value = call()
        except Exception as error:  # whatever it is, the other methods must still be heard
            failure = error
        seconds = time.perf_counter() - started
        after = _memory("VmHWM")
    peak = max(after - before, 0) if restarted and before is not None and after is not None else None
    return Measured(value, failure, seconds, peak, tuple(said))


@contextlib.contextmanager
def heard() -> Iterator[list[str]]:
    """Collect, in place of printing, what is warned of: each text once, on one line."""
    said: list[str] = []
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield said
    finally:
        texts = (one_line(w.message) for w in caught if not issubclass(w.category, _FOR_AUTHORS))
        said.extend(dict.fromkeys(texts))


def one_line(message: object) -> str:
    """Return a text without its line breaks."""
    return " ".join(str(message).split())


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed NumPy's global generator: Isomap, and others without a random_state, take their start from it."""
    state = np.random.get_state()  # noqa: NPY002
    np.random.seed(seed % 2**32)  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(state)  # noqa: NPY002


def _restart_peak() -> bool:
    """Make the peak start from what is in use now; return False where the system cannot."""
    gc.collect(1)  # what the call before left behind; a full search takes a second once numba is loaded
    # What earlier calls freed may still be held by the C library; whoever came next would get it without being charged.
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    try:
        _RESET.write_text("5")
    except OSError:
        return False
    return True


def _memory(field: str) -> int | None:
    """Return a field of Linux's account of this process, in bytes; None on other systems."""
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return None
    values = [line.split()[1] for line in lines if line.startswith(f"{field}:")]
    return int(values[0]) * 1024 if values else None
