"""The columns of one table in the roles they had in another: by name, in any order, texts as numbers and back."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kpca.chunks import default_rows
from kpca.errors import InputError
from kpca.io.rows import Layout, Rows, Table, Texts
from kpca.storage.base import default_names
from kpca.tables import short_name

_NAMED = 12  # columns that a message names; it counts the others


def quoted(name: object) -> str:
    """Return a name or a value as messages show it: on one line and not too long."""
    return repr(short_name(str(name)))


def listed(names: Sequence[object], most: int = _NAMED, *, raw: bool = False) -> str:
    """Return names as messages list them, the first ones only where there are many."""
    shown = [str(name) if raw else quoted(name) for name in names[:most]]
    return ", ".join(shown) + (f" and {len(names) - most:,} more" if len(names) > most else "")


def inputs_of(layout: Layout) -> tuple[str, ...]:
    """Return the names of the columns that describe a row; its id and label do not."""
    return (*layout.numbers, *layout.categories, *([] if layout.text is None else [layout.text]))


def place(rows: Rows, position: int) -> str:
    """Return how a message speaks of a row."""
    known = "counted from 0" if rows.ids is None else f"id {quoted(rows.ids[position])}"
    return f"row {rows.first + position} ({known})"


def as_texts(values: NDArray[Any]) -> Texts:
    """Return texts with None where they are missing; truth values, dates and numbers become texts."""
    if values.dtype.kind in "mM":
        texts = values.astype(str).astype(object)
        texts[np.isnat(values)] = None
        return texts
    if values.dtype == object and all(value is None or type(value) is str for value in values.tolist()):
        return values
    texts = np.empty(len(values), dtype=object)
    texts[:] = [_text(value) for value in values]
    return texts


def _text(value: Any) -> str | None:
    if value is None or type(value).__name__ in {"NAType", "NaTType"}:  # of pandas
        return None
    if isinstance(value, float | np.floating):
        number = float(value)
        if math.isnan(number):
            return None
        return str(int(number)) if number.is_integer() and abs(number) < 2**53 else str(value)
    return str(value)


def layout_for(wanted: Layout, table: Table) -> Layout:
    """Return the wanted columns, with the id and label of the table; refuse one that lacks a column."""
    there = table.layout
    present = {*inputs_of(there), there.id, there.label} - {None}
    p, q = len(wanted.numbers), len(there.numbers)
    if p != q and _unnamed(wanted) and _unnamed(there):  # columns that have no names cannot be chosen by name
        raise InputError(
            f"{table.name} has {q:,} features, but Preparation is expecting {p:,} features as input: give it the "
            "columns of the fit."
        )
    lacking = [name for name in inputs_of(wanted) if name not in present]
    if lacking:
        near = difflib.get_close_matches(lacking[0], sorted(str(name) for name in present)[:10_000], n=1)
        hint = f" (did you mean {quoted(near[0])}?)" if near else ""
        raise InputError(
            f"{table.name} must have the columns that the model was fitted to; it lacks {listed(lacking)}{hint}: "
            "add them, or fit a model without them."
        )
    taken = set(inputs_of(wanted))
    free = [None if name in taken else name for name in (there.id, there.label)]
    return replace(
        wanted,
        id=free[0] or (wanted.id if wanted.id in present else None),
        label=free[1] or (wanted.label if wanted.label in present and wanted.label != free[0] else None),
    )


def _unnamed(layout: Layout) -> bool:
    return inputs_of(layout) == layout.numbers == tuple(default_names(len(layout.numbers)))


def relaid(rows: Rows, layout: Layout, name: str) -> Rows:
    """Return rows whose columns have other roles, as the layout says; each of its columns is among those of `rows`."""
    if layout == rows.layout:
        return rows
    columns = _Columns(rows, name)
    return Rows(
        layout,
        numbers=columns.numbers(layout.numbers),
        categories={column: as_texts(columns[column]) for column in layout.categories},
        documents=None if layout.text is None else as_texts(columns[layout.text]),
        ids=None if layout.id is None else columns[layout.id],
        labels=None if layout.label is None else columns[layout.label],
        first=rows.first,
    )


class _Columns:
    """The columns of some rows, by name."""

    def __init__(self, rows: Rows, name: str) -> None:
        self._rows, self._name = rows, name
        self._number = {column: place for place, column in enumerate(rows.layout.numbers)}

    def __getitem__(self, column: str) -> NDArray[Any]:
        rows = self._rows
        if column in self._number:
            values = rows.numbers[:, [self._number[column]]]
            return np.asarray(values.toarray() if sparse.issparse(values) else values).ravel()
        if column in rows.categories:
            return rows.categories[column]
        beside = {rows.layout.text: rows.documents, rows.layout.id: rows.ids, rows.layout.label: rows.labels}
        found = beside.get(column)
        if found is None:
            raise InputError(f"{self._name} must have the column {quoted(column)}; it has not: add it.")
        return found

    def numbers(self, wanted: tuple[str, ...]) -> Any:
        """Return these columns as numbers: those that came as texts are read as such or refused.  # shape: (m, p)"""
        rows = self._rows
        if wanted == rows.layout.numbers:
            return rows.numbers
        places = [self._number.get(column, -1) for column in wanted]
        if -1 not in places:
            taken = rows.numbers[:, places]
            return taken if sparse.issparse(taken) else np.ascontiguousarray(taken)
        if sparse.issparse(rows.numbers):
            lacking = [column for column in wanted if column not in self._number]
            raise InputError(f"{self._name} must hold numbers in {listed(lacking)}, as at the fit; it holds texts.")
        taken = np.empty((len(rows), len(wanted)), dtype=rows.numbers.dtype)
        for target, (column, source) in enumerate(zip(wanted, places, strict=True)):
            taken[:, target] = rows.numbers[:, source] if source >= 0 else self._parsed(column)
        return taken

    def _parsed(self, column: str) -> NDArray[np.float64]:
        values = self[column]
        parsed = np.empty(len(values))
        for position, value in enumerate(values.tolist()):
            try:
                parsed[position] = np.nan if value is None else float(value)
            except (TypeError, ValueError):
                raise InputError(
                    f"{self._name} must hold numbers in column {quoted(column)}, as at the fit; "
                    f"{place(self._rows, position)} holds {quoted(value)}: correct it, or fit a model without the "
                    "column."
                ) from None
        return parsed


class RelaidTable:
    """A table whose columns have other roles."""

    def __init__(self, table: Table, layout: Layout) -> None:
        self._table = table
        self.layout = layout
        self.name = table.name
        same = layout.numbers == table.layout.numbers
        self.image_shape = table.image_shape if same else None

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return self._table.n_rows

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the numbers."""
        return self._table.dtype

    @property
    def sparse(self) -> bool:
        """Whether the numbers are CSR."""
        return self._table.sparse

    def chunks(self, rows: int | None = None) -> Iterator[Rows]:
        """Yield the rows in pieces."""
        rows = rows or default_rows(max(len(inputs_of(self._table.layout)), 1), self.dtype, sparse=self.sparse)
        for chunk in self._table.chunks(rows):
            yield relaid(chunk, self.layout, self.name)

    def whole(self) -> Rows:
        """Return all rows."""
        return relaid(self._table.whole(), self.layout, self.name)

    def digest(self) -> str:
        """Return the SHA-256 of what the table was read from."""
        return self._table.digest()


def with_layout(table: Table, layout: Layout) -> Table:
    """Return the table with these columns in these roles; a file that can do so reads them as such itself."""
    if layout == table.layout:
        return table
    own = getattr(table, "with_layout", None)
    return own(layout) if own is not None else RelaidTable(table, layout)
