"""A bar with the time left, from what the library says of its progress."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class Bar:
    """A bar on a terminal; `heard` is what `kpca.config(progress=...)` is given."""

    def __init__(self, progress: Progress, what: str) -> None:
        self._progress = progress
        self._what = what
        self._task: TaskID = progress.add_task(what, total=None, left="")
        self._worst = 0.0  # the residual of the first pass: where an iteration started from
        self._fresh = True  # nothing was heard of this part of the work yet

    def stage(self, what: str) -> None:
        """Begin another part of the work, whose length is not known yet."""
        self._what, self._worst, self._fresh = what, 0.0, True
        # a new one, as a bar with a known length cannot be given an unknown one again
        self._progress.remove_task(self._task)
        self._task = self._progress.add_task(what, total=None, left="")

    def heard(self, state: dict[str, Any]) -> bool:
        """Show a state that the library reports; never asks it to stop."""
        share, detail = self._share(state)
        left = state.get("remaining", math.nan)
        self._progress.update(
            self._task,
            description=f"{self._what}{detail}",
            total=None if share is None else 1.0,
            completed=share or 0.0,
            left=f"{_time(left)} left" if math.isfinite(left) else "",
        )
        if self._fresh:  # shown even where the work is over before the next picture of the bar
            self._fresh = False
            self._progress.refresh()
        return True

    def _share(self, state: dict[str, Any]) -> tuple[float | None, str]:
        """Return how much of the work is done, if that is known, and how far it is in words."""
        total = state.get("of")
        if "rows" in state:
            of = f" of {total:,}" if total else ""
            return (state["rows"] / total if total else None), f", {state['rows']:,}{of} rows"
        if total:
            named = [key for key in state if key not in _COMMON]
            done = state.get("number", state.get(named[0], 0) if named else 0)
            label = state.get("method") or state.get("label") or ""
            return (max(done - 1, 0) if "number" in state else done) / total, f", {label}" if label else ""
        residual, tol = state.get("residual", math.nan), state.get("tol", math.nan)
        if not (residual > 0 and tol > 0):
            return None, ""
        self._worst = max(self._worst, residual)
        if self._worst <= tol:
            return 1.0, ""
        share = math.log(self._worst / residual) / math.log(self._worst / tol)
        return min(max(share, 0.0), 1.0), f", pass {state['pass']}"


_COMMON = ("pass", "residual", "tol", "elapsed", "remaining", "of", "method", "number")


def _time(seconds: float) -> str:
    if seconds < 99:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
