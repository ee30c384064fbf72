"""How much of a result there is room for in print, and how its numbers are written."""

from __future__ import annotations

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
