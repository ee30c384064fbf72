"""What a long fit says while it runs: a line per pass or second, or a call that may stop it."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from typing import Any

from kpca._base.config import progress_callback
from kpca._base.errors import Cancelled

_SECONDS_BETWEEN_LINES = 1.0


class _Teller:
    """Tells the callback that was set, which may cancel the work, or writes lines to stderr."""

    def __init__(self, what: str) -> None:
        self._what, self._setting = what, progress_callback()
        self._started = self._said = time.perf_counter()

    @property
    def listened(self) -> bool:
        """Whether anybody wants to know."""
        return self._setting is not False

    @property
    def elapsed(self) -> float:
        """Seconds since the work began."""
        return time.perf_counter() - self._started

    def tell(self, state: dict[str, Any], line: str, done: str, *, each: bool = True) -> None:
        """Pass on a state; `done` says how far the work got if it stops here. Without `each`, one line a second."""
        if callable(self._setting):
            if self._setting(state) is False:
                raise Cancelled(f"The {self._what} was cancelled by the progress callback {done}.")
            return
        now = time.perf_counter()
        if each or now - self._said >= _SECONDS_BETWEEN_LINES:
            self._said = now
            sys.stderr.write(f"kpca: {line}\n")
            sys.stderr.flush()


def pass_monitor() -> Callable[[int, float, float], None] | None:
    """Return what a solver calls after each pass (number, residual, tol), or None if nobody wants to know."""
    teller = _Teller("fit")
    residuals: list[float] = []

    def report(number: int, residual: float, tol: float) -> None:
        elapsed = teller.elapsed
        residuals.append(residual)
        # by the passes seen here: those before a resumed fit took no time of it
        remaining = _remaining(residuals, tol) * elapsed / len(residuals)
        state = {"pass": number, "residual": residual, "tol": tol, "elapsed": elapsed, "remaining": remaining}
        line = f"pass {number}, residual {residual:.1e} (asked {tol:.1e}), {elapsed:.1f} s, {_left(remaining)}"
        teller.tell(state, line, f"after pass {number}")

    return report if teller.listened else None


def row_monitor(total: int | None) -> Callable[[int], None] | None:
    """Return what a pass over rows calls when some more are done, or None if nobody wants to know."""
    teller = _Teller("fit")
    done = 0

    def report(rows: int) -> None:
        nonlocal done
        done += rows
        elapsed = teller.elapsed
        remaining = math.nan if total is None else elapsed / done * max(0, total - done)
        state: dict[str, Any] = {"pass": 1, "residual": math.nan, "tol": math.nan, "rows": done, "of": total}
        of = "" if total is None else f" of {total:,}"
        line = f"{done:,}{of} rows, {elapsed:.1f} s, {_left(remaining)}"
        state |= {"elapsed": elapsed, "remaining": remaining}
        teller.tell(state, line, f"after {done} rows", each=done == total)

    return report if teller.listened else None


def step_monitor(total: int, what: str) -> Callable[..., None] | None:
    """Return what a search calls after each step, with details to pass on, or None if nobody wants to know."""
    teller = _Teller("search")
    done = 0

    def report(**details: object) -> None:
        nonlocal done
        done += 1
        elapsed = teller.elapsed
        remaining = elapsed / done * max(0, total - done)
        state = {what: done, "of": total, "elapsed": elapsed, "remaining": remaining, **details}
        told = "".join(f", {value:.4g}" if isinstance(value, float) else f", {value}" for value in details.values())
        line = f"{what} {done} of {total}{told}; {elapsed:.1f} s, {_left(remaining)}"
        teller.tell(state, line, f"after {what} {done} of {total}", each=done == total)

    return report if teller.listened else None


def item_monitor(total: int) -> Callable[[str, int], None] | None:
    """Return what is called before each of several methods (name, number from 1), or None if nobody wants to know."""
    teller = _Teller("comparison")

    def report(method: str, number: int) -> None:
        elapsed = teller.elapsed
        # one takes a thousand times as long as another: what remains is not known
        state: dict[str, Any] = {"pass": number, "residual": math.nan, "tol": math.nan, "elapsed": elapsed}
        state |= {"remaining": math.nan, "method": method, "number": number, "of": total}
        teller.tell(state, f"{method}, {number} of {total}, {elapsed:.1f} s so far", f"before {method}")

    return report if teller.listened else None


def _left(seconds: float) -> str:
    return f"about {seconds:.1f} s left" if math.isfinite(seconds) else "time left unknown"


def _remaining(residuals: list[float], tol: float) -> float:
    """Return about how many passes are left, if the residual goes on falling at the rate of the last three."""
    recent = residuals[-3:]
    if recent[-1] <= tol:
        return 0.0
    if len(recent) < 2 or recent[-1] >= recent[0]:
        return math.nan
    rate = math.log(recent[0] / recent[-1]) / (len(recent) - 1)
    return math.ceil(math.log(recent[-1] / max(tol, 1e-300)) / rate)
