"""Rows of tables: checked, put together and cut anew."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kpca.chunks import stacked
from kpca.errors import InputError
from kpca.io.rows import Rows
from kpca.settings import memory_budget
from kpca.storage.base import quoted


def check_rows(rows: object, default: int) -> int:
    """Return the number of rows of a chunk."""
    if rows is None:
        return default
    if isinstance(rows, bool) or not isinstance(rows, Integral) or rows < 1:
        raise InputError(f"rows must be None or a whole number of rows from 1; got {rows!r}.")
    return int(rows)


def check_room(name: str, needed: int) -> None:
    """Refuse rows that do not fit into the memory allowed, before any is read."""
    budget = memory_budget()
    if needed > budget:
        raise InputError(
            f"{name!r} must fit into memory to be taken whole; it needs {needed / 2**30:.2f} GiB and "
            f"{budget / 2**30:.2f} GiB are allowed: read it in chunks, or allow more memory (--memory)."
        )


def check_finite(name: str, columns: Sequence[str], numbers: Any, first: int) -> None:
    """Refuse infinity, naming the first place; NaN is a missing entry and stays."""
    values = numbers.data if sparse.issparse(numbers) else numbers
    infinite = np.isinf(values)
    if not infinite.any():
        return
    if sparse.issparse(numbers):
        place = int(np.flatnonzero(infinite)[0])
        row, column = int(np.searchsorted(numbers.indptr, place, side="right")) - 1, int(numbers.indices[place])
    else:
        row, column = (int(place[0]) for place in np.nonzero(infinite))
    raise InputError(
        f"Column {quoted(columns[column])} of {name!r} must be finite; row {first + row}, counted from 0, holds "
        "infinity: correct it, leave the row out, or drop the column."
    )


def regrouped(pieces: Iterator[Rows], rows: int) -> Iterator[Rows]:
    """Cut pieces of any length into chunks of `rows` rows."""
    waiting: list[Rows] = []
    held = 0
    for piece in pieces:
        start = 0
        while start < len(piece):
            part = part_of(piece, start, start + rows - held)
            start += len(part)
            held += len(part)
            waiting.append(part)
            if held == rows:
                yield joined(waiting)
                waiting, held = [], 0
    if held:
        yield joined(waiting)


def part_of(rows: Rows, start: int, stop: int) -> Rows:
    """Return some of these rows."""
    if start == 0 and stop >= len(rows):
        return rows
    part = slice(start, stop)
    return replace(
        rows,
        numbers=rows.numbers[part],
        categories={name: texts[part] for name, texts in rows.categories.items()},
        documents=None if rows.documents is None else rows.documents[part],
        ids=None if rows.ids is None else rows.ids[part],
        labels=None if rows.labels is None else rows.labels[part],
        first=rows.first + start,
    )


def joined(parts: list[Rows]) -> Rows:
    """Return rows one after another as one."""
    if len(parts) == 1:
        return parts[0]
    head = parts[0]
    return replace(
        head,
        numbers=stacked([part.numbers for part in parts]),
        categories={name: np.concatenate([part.categories[name] for part in parts]) for name in head.categories},
        documents=_together([part.documents for part in parts]),
        ids=_together([part.ids for part in parts]),
        labels=_together([part.labels for part in parts]),
    )


def _together(parts: Sequence[NDArray[Any] | None]) -> NDArray[Any] | None:
    arrays = [part for part in parts if part is not None]
    return np.concatenate(arrays) if arrays else None
