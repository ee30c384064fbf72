"""Tables of results: aligned text, and data frames where pandas is installed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kpca.errors import InputError

SHOWN = 15  # variables in print; all are in the arrays
_MOST_COLUMNS = 6  # components in print


def text_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return lines in which columns are aligned, the first to the left."""
    widths = [max(len(line[column]) for line in [titles, *rows]) for column in range(len(titles))]
    lines = [titles, ["-" * width for width in widths], *rows]
    return [
        "  ".join(
            f"{cell:{width}}" if column == 0 else f"{cell:>{width}}"
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]


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


def data_frame(columns: dict[str, Any], index: Sequence[Any] | None = None, index_name: str | None = None) -> Any:
    """Return a data frame of pandas, which is imported here only."""
    try:
        import pandas  # type: ignore[import-untyped, unused-ignore]  # not a dependency
    except ImportError:
        raise InputError("to_pandas needs pandas, which is not installed: use the arrays of the result.") from None
    labels = None if index is None else pandas.Index(list(index), name=index_name)
    return pandas.DataFrame(columns, index=labels)
