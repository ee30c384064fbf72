"""Results as tables: aligned text, and data frames where pandas is installed."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Sequence
from typing import Any

from kpca._base.errors import InputError

_LONG = 40  # letters of a name in print


def text_table(titles: Sequence[str], rows: Sequence[Sequence[str]], left: Collection[int] = (0,)) -> list[str]:
    """Return lines in which columns are aligned: those named in `left` to the left, the others to the right."""
    cells = [[" ".join(cell.split()) for cell in line] for line in rows]  # a name may have line breaks in it
    widths = [max(_width(line[column]) for line in [titles, *cells]) for column in range(len(titles))]
    lines = [titles, ["-" * width for width in widths], *cells]
    return ["  ".join(map(_aligned, line, widths, (c in left for c in range(len(titles))))).rstrip() for line in lines]


def short_name(name: str) -> str:
    """Return a name as it is printed: its beginning and its end, where it is long."""
    name = " ".join(name.split())
    return name if len(name) <= _LONG else f"{name[: _LONG // 2]}…{name[-(_LONG - _LONG // 2 - 1) :]}"


def _aligned(cell: str, width: int, left: bool) -> str:
    room = " " * (width - _width(cell))
    return cell + room if left else room + cell


def _width(text: str) -> int:
    """Return how many places a text takes in print: two for letters of East Asia, none for accents of their own."""
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return len(text) + wide - sum(bool(unicodedata.combining(letter)) for letter in text)


def data_frame(data: Any, *, index: Any = None, index_name: str | None = None, columns: Any = None) -> Any:
    """Return a data frame of pandas, which is imported here only."""
    try:
        import pandas
    except ImportError:
        raise InputError("to_pandas needs pandas, which is not installed: use the arrays of the result.") from None
    labels = None if index is None else pandas.Index(list(index), name=index_name)
    return pandas.DataFrame(data, index=labels, columns=columns)
