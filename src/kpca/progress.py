"""What a long fit says while it runs: a line per pass, or a call that may stop it."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable

from kpca.errors import Cancelled
from kpca.settings import progress_callback


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


def _remaining(residuals: list[float], tol: float) -> float:
    """Return about how many passes are left, if the residual goes on falling at the rate of the last three."""
    recent = residuals[-3:]
    if recent[-1] <= tol:
        return 0.0
    if len(recent) < 2 or recent[-1] >= recent[0]:
        return math.nan
    rate = math.log(recent[0] / recent[-1]) / (len(recent) - 1)
    return math.ceil(math.log(recent[-1] / max(tol, 1e-300)) / rate)
