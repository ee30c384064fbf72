"""A budget of time, and what is left of it."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Real
from typing import Any

from kpca.errors import Cancelled, InputError
from kpca.settings import config, progress_callback

_UNITS = {"": 1.0, "s": 1.0, "sec": 1.0, "second": 1.0, "min": 60.0, "m": 60.0, "minute": 60.0, "h": 3600.0}
_UNITS |= {"hour": 3600.0, "ms": 1e-3}


def parse_seconds(budget: Any) -> float | None:
    """Return a budget in seconds from a number or from text such as "60s" or "2 min"; None is no limit."""
    if budget is None:
        return None
    seconds: Any = budget
    if isinstance(budget, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", budget.lower())
        unit = match[2] if match else "?"
        unit = unit if unit in _UNITS else unit.removesuffix("s")
        seconds = float(match[1]) * _UNITS[unit] if match and unit in _UNITS else None
    if isinstance(seconds, bool) or not isinstance(seconds, Real) or not 0 < float(seconds) < float("inf"):
        raise InputError(f'budget must be None, seconds, or text such as "60s" or "2min"; got {budget!r}.')
    return float(seconds)


class TimeUp(Cancelled):
    """The budget of time, not the user, ended a fit."""


class Clock:
    """Runs from when it is made; without a budget it never stops."""

    def __init__(self, budget: float | None) -> None:
        self.budget, self._started = budget, time.perf_counter()

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self._started

    @property
    def left(self) -> float:
        """Seconds until the end of the budget."""
        return float("inf") if self.budget is None else self.budget - self.elapsed

    @contextmanager
    def stopping(self, reserve: float = 0.0) -> Iterator[None]:
        """End fits inside with `TimeUp` once no more than the reserve is left; they say nothing of themselves.

        A callback of the user's is still asked after every pass, so that it can stop the whole.
        """
        asked = progress_callback()

        def go_on(state: dict[str, Any]) -> bool:
            if callable(asked) and asked(state) is False:
                raise Cancelled("The search was cancelled by the progress callback.")
            if self.left <= reserve:
                raise TimeUp("The time of the search is up.")
            return True

        with config(progress=go_on if callable(asked) or self.budget is not None else False):
            yield
