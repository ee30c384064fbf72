"""What a long fit says while it runs: a line per pass or second, or a call that may stop it."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable

from kpca._base.config import progress_callback
from kpca._base.errors import Cancelled

_SECONDS_BETWEEN_LINES = 1.0


def pass_monitor() -> Callable[[int, float, float], None] | None:
    """Return what a solver calls after each pass (number, residual, tol), or None if nobody wants to know."""
    setting = progress_callback()
    if setting is False:
        return None
    started = time.perf_counter()
    residuals: list[float] = []

    def report(number: int, residual: float, tol: float) -> None:
        elapsed = time.perf_counter() - started
        residuals.append(residual)
        # by the passes seen here: those before a resumed fit took no time of it
        remaining = _remaining(residuals, tol) * elapsed / len(residuals)
        if callable(setting):
            state = {"pass": number, "residual": residual, "tol": tol, "elapsed": elapsed, "remaining": remaining}
            if setting(state) is False:
                raise Cancelled(f"The fit was cancelled by the progress callback after pass {number}.")
            return
        left = f"about {remaining:.1f} s left" if math.isfinite(remaining) else "time left unknown"
        sys.stderr.write(f"kpca: pass {number}, residual {residual:.1e} (asked {tol:.1e}), {elapsed:.1f} s, {left}\n")
        sys.stderr.flush()

    return report


def row_monitor(total: int | None) -> Callable[[int], None] | None:
    """Return what a pass over rows calls when some more are done, or None if nobody wants to know."""
    setting = progress_callback()
    if setting is False:
        return None
    started = time.perf_counter()
    done, said = 0, started

    def report(rows: int) -> None:
        nonlocal done, said
        done += rows
        now = time.perf_counter()
        elapsed = now - started
        remaining = math.nan if total is None else elapsed / done * max(0, total - done)
        if callable(setting):
            state = {"pass": 1, "residual": math.nan, "tol": math.nan, "rows": done, "of": total}
            if setting({**state, "elapsed": elapsed, "remaining": remaining}) is False:
                raise Cancelled(f"The fit was cancelled by the progress callback after {done} rows.")
        elif now - said >= _SECONDS_BETWEEN_LINES or done == total:
            said = now
            left = f"about {remaining:.1f} s left" if math.isfinite(remaining) else "time left unknown"
            of = "" if total is None else f" of {total:,}"
            sys.stderr.write(f"kpca: {done:,}{of} rows, {elapsed:.1f} s, {left}\n")
            sys.stderr.flush()

    return report


def step_monitor(total: int, what: str) -> Callable[..., None] | None:
    """Return what a search calls after each of its steps, or None if nobody wants to know.

    What it is called with, such as a label and a score, is passed on; True prints a line a second.
    """
    setting = progress_callback()
    if setting is False:
        return None
    started = time.perf_counter()
    done, said = 0, 0.0

    def report(**details: object) -> None:
        nonlocal done, said
        done += 1
        elapsed = time.perf_counter() - started
        remaining = elapsed / done * max(0, total - done)
        if callable(setting):
            state = {what: done, "of": total, "elapsed": elapsed, "remaining": remaining, **details}
            if setting(state) is False:
                raise Cancelled(f"The search was cancelled by the progress callback after {what} {done} of {total}.")
        elif elapsed - said >= _SECONDS_BETWEEN_LINES or done == total:
            said = elapsed
            told = "".join(f", {value:.4g}" if isinstance(value, float) else f", {value}" for value in details.values())
            sys.stderr.write(f"kpca: {what} {done} of {total}{told}; {elapsed:.1f} s, about {remaining:.1f} s left\n")
            sys.stderr.flush()

    return report


def item_monitor(total: int) -> Callable[[str, int], None] | None:
    """Return what is called before each of several methods (name, number from 1), or None if nobody wants to know."""
    setting = progress_callback()
    if setting is False:
        return None
    started = time.perf_counter()

    def report(method: str, number: int) -> None:
        elapsed = time.perf_counter() - started
        if callable(setting):
            # one takes a thousand times as long as another: what remains is not known
            state = {"pass": number, "residual": math.nan, "tol": math.nan, "elapsed": elapsed, "remaining": math.nan}
            if setting({**state, "method": method, "number": number, "of": total}) is False:
                raise Cancelled(f"The comparison was cancelled by the progress callback before {method}.")
            return
        sys.stderr.write(f"kpca: {method}, {number} of {total}, {elapsed:.1f} s so far\n")
        sys.stderr.flush()

    return report


def _remaining(residuals: list[float], tol: float) -> float:
    """Return about how many passes are left, if the residual goes on falling at the rate of the last three."""
    recent = residuals[-3:]
    if recent[-1] <= tol:
        return 0.0
    if len(recent) < 2 or recent[-1] >= recent[0]:
        return math.nan
    rate = math.log(recent[0] / recent[-1]) / (len(recent) - 1)
    return math.ceil(math.log(recent[-1] / max(tol, 1e-300)) / rate)
