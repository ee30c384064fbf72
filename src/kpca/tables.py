"""Results as tables: aligned text, and data frames where pandas is installed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from kpca.errors import InputError


def text_table(titles: Sequence[str], rows: Sequence[Sequence[str]], left: Collection[int] = (0,)) -> list[str]:
    """Return lines in which columns are aligned: those named in `left` to the left, the others to the right."""
    widths = [max(len(line[column]) for line in [titles, *rows]) for column in range(len(titles))]
    lines = [titles, ["-" * width for width in widths], *rows]
    return [
        "  ".join(
            f"{cell:{width}}" if column in left else f"{cell:>{width}}"
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]


def data_frame(data: Any, *, index: Any = None, index_name: str | None = None, columns: Any = None) -> Any:
    """Return a data frame of pandas, which is imported here only."""
    try:
        import pandas  # type: ignore[import-untyped, unused-ignore]  # not a dependency
    except ImportError:
        raise InputError("to_pandas needs pandas, which is not installed: use the arrays of the result.") from None
    labels = None if index is None else pandas.Index(list(index), name=index_name)
    return pandas.DataFrame(data, index=labels, columns=columns)
