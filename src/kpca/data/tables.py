"""Tables of named columns: text, Parquet, Arrow and frames, with the types that their columns have."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kpca._base.errors import InputError
from kpca._base.progress import row_monitor
from kpca.data.columns import NUMBER, TEXT, Columns, Piece, Wanted
from kpca.data.roles import Assigned, RelaidTable, Roles, assign
from kpca.data.rows import (
    Layout,
    Reader,
    Rows,
    Table,
    check_finite,
    check_room,
    check_rows,
    default_names,
    joined,
    quoted,
    regrouped,
)
from kpca.data.sources import default_rows
from kpca.data.text import TextTable


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


# -- Tables over a matrix: NumPy and Zarr arrays and sparse matrices, with arrays beside them for ids and labels ------

_MOST_COLUMNS = 10_000_000  # each has a name; more than that is a slip, or an attack


class MatrixTable:
    """A table whose columns are those of a matrix, all numbers."""

    image_shape: tuple[int, int] | None = None

    def __init__(
        self,
        name: str,
        reader: Reader,
        roles: Roles,
        digest: Callable[[], str],
        *,
        names: Sequence[str] | None = None,
        sides: Mapping[str, Callable[[], NDArray[Any]]] | None = None,
    ) -> None:
        sides = sides or {}
        self.name, self.n_rows, self.dtype, self.sparse = name, reader.n_rows, reader.dtype, reader.sparse
        if reader.n_columns > _MOST_COLUMNS:
            raise InputError(
                f"{name!r} must have at most {_MOST_COLUMNS} columns; it has {reader.n_columns}: choose some."
            )
        found = names if names is not None else default_names(reader.n_columns)
        self._reader, self._digest = reader, digest
        chosen = assign(repr(name), found, roles, named=names is not None, sides=list(sides))
        if chosen.text is not None:
            raise InputError(
                f"{name!r} must have a column of texts to be read as documents; all of {quoted(chosen.text)} are "
                "numbers: give a CSV or Parquet file."
            )
        places = {column: place for place, column in reversed(list(enumerate(found)))}
        self._used = np.array([places[column] for column in chosen.used])
        self._all = len(self._used) == len(found) and bool((np.diff(self._used) == 1).all())
        self._id, self._label = (self._side(column, places, sides) for column in (chosen.id, chosen.label))
        self.layout = Layout(tuple(chosen.used), (), None, chosen.id, chosen.label)

    def _side(
        self, column: str | None, places: Mapping[str, int], sides: Mapping[str, Callable[[], NDArray[Any]]]
    ) -> int | NDArray[Any] | None:
        """Return where ids or labels are: the place of a column of the matrix, or an array beside it."""
        if column is None:
            return None
        if column in sides:
            return as_values(sides[column](), f"Array {quoted(column)} of {self.name!r}")
        return places[column]

    def chunks(self, rows: int | None = None) -> Iterator[Rows]:
        """Yield checked chunks."""
        count = check_rows(rows, default_rows(self._reader.n_columns, self.dtype, sparse=self.sparse))
        return regrouped(self._pieces(count), count)

    def _pieces(self, rows: int) -> Iterator[Rows]:
        first = 0
        for block in self._reader.blocks(rows):
            numbers = self._numbers(block)
            check_finite(self.name, self.layout.numbers, numbers, first)
            beside = [self._values(block, side, first) for side in (self._id, self._label)]
            yield Rows(self.layout, numbers, ids=beside[0], labels=beside[1], first=first)
            first += block.shape[0]

    def _numbers(self, block: Any) -> Any:
        chosen = block if self._all else block[:, self._used]
        if self.sparse:
            return sparse.csr_array(chosen).astype(self.dtype, copy=False)
        return np.array(chosen, dtype=self.dtype, order="C")  # a copy: the pages of a memory map are given back

    @staticmethod
    def _values(block: Any, side: int | NDArray[Any] | None, first: int) -> NDArray[Any] | None:
        if side is None:
            return None
        if isinstance(side, np.ndarray):
            return side[first : first + block.shape[0]]
        column = block[:, [side]]
        return np.array(column.toarray() if sparse.issparse(column) else column).ravel()

    def whole(self) -> Rows:
        """Return all rows, if there is room for them."""
        if not self.sparse:  # a sparse matrix is in memory already
            check_room(self.name, self.n_rows * len(self._used) * self.dtype.itemsize)
        return joined(list(self.chunks()))

    def digest(self) -> str:
        """Return the SHA-256 of the file, or of the array."""
        return self._digest()


def as_values(array: NDArray[Any], where: str) -> NDArray[Any]:
    """Return ids or labels as tables give them: texts as objects, empty ones as None."""
    if array.dtype.kind == "S":
        try:
            array = np.char.decode(array, "utf-8")
        except UnicodeDecodeError as error:
            raise InputError(f"{where} must be text in UTF-8; it is not: save it as an array of str.") from error
    if array.dtype.kind in "UT":
        texts = np.empty(len(array), dtype=object)
        texts[:] = [text or None for text in array.tolist()]
        return texts
    if array.dtype.kind in "biufM":
        return array.astype(array.dtype.newbyteorder("="), copy=False)
    if array.dtype.kind == "O" and all(value is None or isinstance(value, str) for value in array.tolist()):
        return array
    raise InputError(f"{where} must hold numbers, texts or dates to be id or label; got {array.dtype}: choose another.")
