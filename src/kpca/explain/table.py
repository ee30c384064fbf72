"""How much of a result there is room for in print, and how its numbers are written."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca.inputs import whole_number

SHOWN = 15  # variables in print; all are in the arrays
_MOST_COLUMNS = 6  # components in print


def shown_components(count: int) -> int:
    """Return how many components have room in print."""
    return min(count, _MOST_COLUMNS)


def left_out(variables: int, components: int) -> list[str]:
    """Return a line on what the printed table leaves out, if it does."""
    parts = []
    if variables > SHOWN:
        parts.append(f"{variables - SHOWN:,} more variables")
    if components > _MOST_COLUMNS:
        parts.append(f"{components - _MOST_COLUMNS:,} more components")
    return [f"... and {' and '.join(parts)}"] if parts else []


def number(value: float) -> str:
    """Return a number with three digits."""
    return f"{value:.3g}" if abs(value) < 1e-3 and value != 0 else f"{value:.3f}" if abs(value) < 10 else f"{value:.4g}"


class Ranked:
    """Variables with a figure for each, which put them in order."""

    names: tuple[str, ...]
    values: NDArray[Any]  # shape: (d,)

    @property
    def order(self) -> NDArray[np.intp]:
        """The columns, most important first.  # shape: (d,)"""
        return np.argsort(-self.values, kind="stable")

    def top(self, n: int = 10) -> list[tuple[str, float]]:
        """Return the n most important variables with their figures, the first first."""
        return [(self.names[column], float(self.values[column])) for column in self.order[: whole_number("n", n, 1)]]
