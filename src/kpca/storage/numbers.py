"""Columns of numbers as rows for the readers in chunks: all columns must be numbers, as an array's are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from kpca.errors import InputError
from kpca.storage.base import Indices, quoted
from kpca.storage.columns import NUMBER, Columns, Wanted


class NumbersReader:
    """A table whose columns are all numbers; one that keeps pandas' names of the rows is passed over."""

    sparse = False

    def __init__(self, table: Any, path: str) -> None:
        self._table: Columns = table
        names = [name for name in table.names if name not in table.hidden]
        if len(set(names)) < len(names):
            twice = sorted({name for name in names if names.count(name) > 1}) if len(names) < 1000 else ["some"]
            raise InputError(
                f"The columns of {path!r} must have different names; got {quoted(twice)} twice: rename some."
            )
        if hasattr(table, "scan"):
            table.scan(names)
            names = [name for name in names if not table.is_blank(name)]
        if table.n_rows < 1 or not names:
            raise InputError(f"{path!r} must have at least one row and one column; got {table.n_rows} row(s).")
        for column, name in enumerate(names):
            if table.kind(name) != NUMBER:
                where = f"column {column} ({quoted(name)})"
                slip = getattr(table, "slip", lambda _: None)(name)
                if slip:
                    raise InputError(f"{slip}: correct it or drop the column.")
                raise InputError(
                    f"{path!r} must hold numbers only; {where} is of type {table.kind(name)}: encode or drop it."
                )
        self.names: list[str] | None = names
        self.n_rows, self.n_columns = table.n_rows, len(names)
        self.dtype = np.dtype(np.float32 if all(map(table.is_single, names)) else np.float64)
        self._wanted = Wanted(numbers=names)

    def blocks(self, rows: int) -> Iterator[Any]:
        """Yield the rows as they are stored together."""
        for piece in self._table.pieces(self._wanted, self.dtype, rows):
            yield piece.numbers

    def take(self, indices: Indices) -> Any:
        """Return these rows."""
        if hasattr(self._table, "take"):
            return self._table.take(self._wanted, self.dtype, indices)
        taken = np.empty((len(indices), self.n_columns), dtype=self.dtype)
        first = 0
        for block in self.blocks(1 << 13):
            here = slice(*np.searchsorted(indices, [first, first + len(block)]))
            taken[here] = block[indices[here] - first]
            first += len(block)
        return taken
