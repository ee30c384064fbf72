"""Tables of named columns: text, Parquet, Arrow and frames, with the types that their columns have."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kpca.chunks import default_rows
from kpca.errors import InputError
from kpca.io.reading.assigned import Assigned, Roles, assign
from kpca.io.reading.checked import check_finite, check_room, check_rows, joined, regrouped
from kpca.io.reading.roles import RelaidTable
from kpca.io.rows import Layout, Rows, Table
from kpca.progress import row_monitor
from kpca.storage.base import quoted
from kpca.storage.columns import NUMBER, TEXT, Columns, Piece, Wanted
from kpca.storage.text import TextTable


class ColumnTable:
    """A table over columns of any types."""

    sparse = False
    image_shape: tuple[int, int] | None = None

    def __init__(self, name: str, columns: Columns, layout: Layout, digest: Callable[[], str]) -> None:
        self.name, self.layout, self.n_rows = name, layout, columns.n_rows
        self._columns, self._digest = columns, digest
        single = bool(layout.numbers) and all(map(columns.is_single, layout.numbers))
        self.dtype: np.dtype[Any] = np.dtype(np.float32 if single else np.float64)

    def chunks(self, rows: int | None = None) -> Iterator[Rows]:
        """Yield checked chunks."""
        count = check_rows(rows, default_rows(max(len(self.layout.numbers), 1), self.dtype))
        return regrouped(self._pieces(count), count)

    def _pieces(self, rows: int) -> Iterator[Rows]:
        layout = self.layout
        beside = [name for name in (layout.id, layout.label) if name is not None]
        texts = [*layout.categories, *([layout.text] if layout.text is not None else [])]
        first = 0
        for piece in self._columns.pieces(Wanted(layout.numbers, texts, beside), self.dtype, rows):
            yield self._rows(piece, first)
            first += len(piece.numbers)

    def _rows(self, piece: Piece, first: int) -> Rows:
        layout = self.layout
        check_finite(self.name, layout.numbers, piece.numbers, first)
        return Rows(
            layout,
            piece.numbers,
            {name: piece.texts[name] for name in layout.categories},
            None if layout.text is None else piece.texts[layout.text],
            None if layout.id is None else piece.values[layout.id],
            None if layout.label is None else piece.values[layout.label],
            first,
        )

    def whole(self) -> Rows:
        """Return all rows, if there is room for them."""
        check_room(self.name, self.n_rows * max(len(self.layout.numbers), 1) * self.dtype.itemsize)
        return joined(list(self.chunks()))

    def with_layout(self, layout: Layout) -> Table:
        """Return the table with these roles; numbers that are wanted as texts are read as they are written."""
        texts = {*layout.categories, layout.text}
        moved = tuple(name for name in self.layout.numbers if name in texts)
        if not moved:
            return RelaidTable(self, layout)
        numbers = tuple(name for name in self.layout.numbers if name not in texts)
        own = replace(self.layout, numbers=numbers, categories=(*self.layout.categories, *moved))
        return RelaidTable(ColumnTable(self.name, self._columns, own, self._digest), layout)

    def digest(self) -> str:
        """Return the SHA-256 of the file, or of the columns of a frame."""
        return self._digest()


def table_of_columns(
    name: str, columns: Columns, roles: Roles, digest: Callable[[], str], *, encode: str | None = None
) -> ColumnTable:
    """Return the table whose columns have these roles; what cannot be used is refused here."""
    where = repr(name)
    named = columns.dialect.named if isinstance(columns, TextTable) else True
    if not columns.names:
        raise InputError(f"{where} must have at least one column; it has none: check how it was written.")
    chosen = assign(where, columns.names, roles, named=named, hidden=columns.hidden)
    if isinstance(columns, TextTable):
        chosen = _scanned(columns, chosen, explicit=roles.columns is not None)
    if columns.n_rows < 1:
        raise InputError(f"{where} must have at least one row; it has none: check how it was written.")
    numbers, categories = list[str](), list[str]()
    for column in chosen.used:
        kind = columns.kind(column)
        if kind not in (NUMBER, TEXT):
            raise InputError(
                f"Column {quoted(column)} of {where} must hold numbers or texts; it is of type {quoted(kind)}: drop "
                "it, or store each number of it in a column of its own."
            )
        (numbers if kind == NUMBER else categories).append(column)
    for beside in (chosen.text, chosen.id, chosen.label):
        if beside is not None and columns.kind(beside) not in (NUMBER, TEXT):
            raise InputError(
                f"Column {quoted(beside)} of {where} must hold numbers or texts to be id, label or text; it is of type "
                f"{quoted(columns.kind(beside))}: choose another."
            )
    if isinstance(columns, TextTable):
        _check_entries(columns, numbers, categories if encode is None else ())
    layout = Layout(tuple(numbers), tuple(categories), chosen.text, chosen.id, chosen.label)
    return ColumnTable(name, columns, layout, digest)


def _scanned(columns: TextTable, chosen: Assigned, *, explicit: bool) -> Assigned:
    """Read a text table through; a column without a name and without entries is left out, unless it was asked for."""
    plain = [*chosen.used, *([chosen.text] if chosen.text is not None else [])]
    columns.scan(plain, id=chosen.id, label=chosen.label, seen=row_monitor(None))
    if explicit:
        return chosen
    used = tuple(name for name in chosen.used if not columns.is_blank(name))
    return Assigned(used, chosen.text, chosen.id, chosen.label)


def _check_entries(columns: TextTable, numbers: Sequence[str], categories: Sequence[str]) -> None:
    """Refuse infinite numbers, and texts that slipped into columns of numbers."""
    for name in numbers:
        infinite = columns.infinite(name)
        if infinite:
            raise InputError(f"{infinite}: correct it, leave the row out, or drop the column.")
    for name in categories:
        slip = columns.slip(name)
        if slip:
            raise InputError(
                f"{slip}: correct it (NA if it is missing), drop the column (--drop {quoted(name)}), or take its "
                "entries for categories (--encode onehot)."
            )
