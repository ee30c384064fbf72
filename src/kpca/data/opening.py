"""Tables in: files, folders, frames and arrays become rows whose columns have roles.

Text tables are read twice: once to learn what each column holds in the whole file, then as often as rows are wanted.
Truth values are numbers (0 and 1), dates are categories, and numbers are doubles, so whole numbers beyond 2**53 are
rounded; ids and labels are kept as they are. A first column without a name, as pandas writes its index, is the id if
no other is named. Names used twice are refused where such a column is used.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kpca._base.errors import InputError, Setting
from kpca._base.progress import row_monitor
from kpca.data import formats
from kpca.data.arrays import MatrixReader, SlicedReader
from kpca.data.frames import FrameColumns, is_any_frame
from kpca.data.roles import Assigned, RelaidTable, Roles, assign, roles_of
from kpca.data.rows import (
    NUMBER,
    TEXT,
    Columns,
    Layout,
    Rows,
    Sides,
    Table,
    check_finite,
    check_room,
    check_rows,
    default_names,
    digest_of_rows,
    float_dtype,
    joined,
    part,
    quoted,
    regrouped,
)
from kpca.data.sources import default_rows

_MOST_COLUMNS = 10_000_000  # of a matrix: each has a name; more than that is a slip, or an attack


def open_table(
    path: str | os.PathLike[str],
    *,
    columns: Sequence[Any] | None = None,
    drop: Sequence[Any] | None = None,
    label: Any = None,
    id: Any = None,
    text: Any = None,
    format: str | None = None,
    header: bool | None = None,
    array: str | None = None,
    delimiter: str | None = None,
    encode: str | None = None,
    size: tuple[int, int] | None = None,
    optional: Sequence[str] = (),
) -> Table:
    """Open a file or folder as a table.

    Parameters
    ----------
    path : path
        A CSV, TSV (also .gz), .npy, .npz, Parquet, Arrow or Feather, or .h5ad file; a folder of Parquet files, a Zarr,
        or a folder of images; "-" is standard input.
    columns, drop : list of names, optional
        The columns to analyse, or those to leave out; numbers from 0 where columns have no names.
    label, id, text : name, optional
        Columns that are not analysed as numbers: what a row belongs to, what it is called, and documents. In .npz and
        Zarr files label and id may be arrays beside the rows.
    format : str, optional
        One of "csv tsv npy npz parquet feather arrow zarr h5ad", if the name of the file does not say it.
    header : bool, optional
        Whether the first line of a text table names its columns; found out if not given.
    array : str, optional
        The array of a .npz file or Zarr group that holds the rows, where several could.
    delimiter : str, optional
        Of a text table; found out if not given.
    encode : str, optional
        What will be done with categories. If nothing, texts in a column of numbers are refused as slips.
    size : (height, width), optional
        To which the pictures of a folder are resized; needed where they are of different sizes.
    optional : list of "label" and "id"
        Which of these two may name a column that there is not; then there is no label, or no id.
    """
    if format is not None:
        formats.check_format(format)
    name = _path_of(path)
    is_stream = name == "-"
    if is_stream:
        name = formats.spooled()
        format = format or formats.sniffed(name)
    found = formats.BY_NAME[formats.format_of(name, format)]
    given = {"array": array, "header": header, "delimiter": delimiter, "size": size}
    options: dict[str, Any] = {option: value for option, value in given.items() if value is not None}
    for option in options:
        if option not in found.options:
            takers = [other.name for other in formats.BY_NAME.values() if option in other.options]
            raise InputError(f"is for {' and '.join(takers)}; {name!r} is {found.name}: leave it out", param=option)
    roles = roles_of(columns, drop, label, id, text, optional=optional)
    if found.name == "images":
        beside = [None if role in roles.optional else getattr(roles, role) for role in ("label", "id")]
        if (roles.columns, roles.drop, roles.text, *beside) != (None,) * 5:
            raise InputError(f"{name!r} is a folder of images, whose columns are pixels: leave out their roles.")
        roles = Roles()
    if "beside" in found.options:
        options["beside"] = [str(side) for side in (roles.label, roles.id) if side is not None]
    opened = found.open(name, **options)
    called = formats.STANDARD_INPUT if is_stream else name
    digest: Callable[[], str] = getattr(opened, "digest", partial(formats.digest_of, name))
    if hasattr(opened, "kind"):
        table: ColumnTable | MatrixTable = table_of_columns(name, opened, roles, digest, encode=encode)
    else:
        table = MatrixTable(name, opened, roles, digest)
    table.name = called
    return table


def _path_of(path: object) -> str:
    if not isinstance(path, str | os.PathLike):
        raise InputError(f"path must be the path of a file or folder; got {type(path).__name__}.")
    name = os.fsdecode(path)
    if not name or "\0" in name:
        raise InputError(f"path must be the path of a file or folder; got {name!r}: check it.")
    return name


def table_of(
    X: Any,
    *,
    columns: Sequence[Any] | None = None,
    drop: Sequence[Any] | None = None,
    label: Any = None,
    id: Any = None,
    text: Any = None,
    name: str = "X",
) -> Table:
    """Return a data frame (pandas, polars, pyarrow, ...), an array or a sparse matrix in memory as a table."""
    roles = roles_of(columns, drop, label, id, text)
    if is_any_frame(X):
        table = table_of_columns(name, FrameColumns(X), roles, lambda: digest_of_rows(table))
        return table
    if sparse.issparse(X) or isinstance(X, np.ndarray) or not hasattr(X, "shape"):
        reader = MatrixReader(X if sparse.issparse(X) else _array(X))
    else:
        reader = SlicedReader(X)
    matrix = MatrixTable(name, reader, roles, lambda: digest_of_rows(matrix))
    return matrix


def _array(X: Any) -> NDArray[Any]:
    if isinstance(X, str | bytes | os.PathLike | Mapping):
        what = "open_table opens files" if not isinstance(X, Mapping) else "make it a data frame"
        raise InputError(f"X must be a data frame, an array or a sparse matrix; got {type(X).__name__}: {what}.")
    if isinstance(X, np.ma.MaskedArray):  # masked means missing
        filled: NDArray[Any] = np.ma.filled(X.astype(float_dtype(X.dtype)), np.nan)
        return filled
    try:
        return np.asarray(X)
    except (TypeError, ValueError) as error:
        raise InputError("X must be a data frame, or rows of equal length; it is neither: make it an array.") from error


# -- Tables over named columns: text, Parquet, Arrow and frames, with the types that their columns have ---------------


class ColumnTable:
    """A table over columns of any types."""

    sparse = False
    image_shape: tuple[int, int] | None = None

    def __init__(self, name: str, columns: Columns, layout: Layout, digest: Callable[[], str]) -> None:
        self.name, self.layout, self.n_rows = name, layout, columns.n_rows
        self._columns, self.digest = columns, digest
        single = bool(layout.numbers) and all(map(columns.is_single, layout.numbers))
        self.dtype: np.dtype[Any] = np.dtype(np.float32 if single else np.float64)

    def chunks(self, rows: int | None = None) -> Iterator[Rows]:
        count = check_rows(rows, default_rows(max(len(self.layout.numbers), 1), self.dtype))
        return regrouped(self._pieces(count), count, part, joined)

    def _pieces(self, rows: int) -> Iterator[Rows]:
        first = 0
        for piece in self._columns.pieces(self.layout, self.dtype, rows):
            found = replace(piece, first=first)
            check_finite(found, self.name)
            yield found
            first += len(found)

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
        return RelaidTable(ColumnTable(self.name, self._columns, own, self.digest), layout)


def table_of_columns(
    name: str, columns: Columns, roles: Roles, digest: Callable[[], str], *, encode: str | None = None
) -> ColumnTable:
    """Return the table whose columns have these roles; what cannot be used is refused here."""
    where = repr(name)
    scanned: Any = columns if hasattr(columns, "scan") else None  # a text table
    named = True if scanned is None else scanned.dialect.named
    if not columns.names:
        raise InputError(f"{where} must have at least one column; it has none: check how it was written.")
    chosen = assign(where, columns.names, roles, named=named, hidden=columns.hidden)
    if scanned is not None:
        chosen = _scanned(scanned, chosen, explicit=roles.columns is not None)
    if columns.n_rows < 1:
        raise InputError(f"{where} must have at least one row; it has none: check how it was written.")
    numbers, categories = list[str](), list[str]()
    for column in chosen.used:
        kind = columns.kind(column)
        if kind not in (NUMBER, TEXT):
            raise InputError(
                f"Column {quoted(column)} of {where} must be numbers or texts, not of type {quoted(kind)}: drop it."
            )
        (numbers if kind == NUMBER else categories).append(column)
    for beside in (chosen.text, chosen.id, chosen.label):
        if beside is not None and columns.kind(beside) not in (NUMBER, TEXT):
            raise InputError(
                f"Column {quoted(beside)} of {where} is of type {quoted(columns.kind(beside))}: choose another."
            )
    if scanned is not None:
        _check_entries(scanned, numbers, categories if encode is None else ())
    layout = Layout(tuple(numbers), tuple(categories), chosen.text, chosen.id, chosen.label)
    return ColumnTable(name, columns, layout, digest)


def _scanned(columns: Any, chosen: Assigned, *, explicit: bool) -> Assigned:
    """Read a text table through; a column without a name and without entries is left out, unless it was asked for."""
    plain = [*chosen.used, *([chosen.text] if chosen.text is not None else [])]
    columns.scan(plain, id=chosen.id, label=chosen.label, seen=row_monitor(None))
    if explicit:
        return chosen
    used = tuple(name for name in chosen.used if not columns.is_blank(name))
    return Assigned(used, chosen.text, chosen.id, chosen.label)


def _check_entries(columns: Any, numbers: Sequence[str], categories: Sequence[str]) -> None:
    """Refuse infinite numbers, and texts that slipped into columns of numbers."""
    for name in numbers:
        infinite = columns.infinite(name)
        if infinite:
            raise InputError(f"{infinite}: correct it, leave the row out, or drop the column.")
    for name in categories:
        slip = columns.slip(name)
        if slip:
            raise InputError(
                slip,
                remedy=(
                    *("correct it (NA if it is missing), drop the column (", Setting("drop", name)),
                    *("), or take its entries for categories (", Setting("encode", "onehot"), ")"),
                ),
            )


# -- Tables over a matrix: NumPy and Zarr arrays and sparse matrices, with arrays beside them for ids and labels ------


class MatrixTable:
    """A table whose columns are those of a matrix, all numbers."""

    def __init__(self, name: str, reader: MatrixReader, roles: Roles, digest: Callable[[], str]) -> None:
        sides, names = reader.sides, reader.names
        self.name, self.n_rows, self.dtype, self.sparse = name, reader.n_rows, reader.dtype, reader.sparse
        self.image_shape = reader.image_shape
        if reader.n_columns > _MOST_COLUMNS:
            raise InputError(f"{name!r} must have at most {_MOST_COLUMNS} columns; got {reader.n_columns}: drop some.")
        label, id = (reader.beside.get(role) if given is None else given for role, given in roles.beside)
        both = roles.id is None and id is not None and id == label  # the default id may be the label, too
        roles = replace(roles, label=label, id=None if both else id)
        found = names if names is not None else default_names(reader.n_columns)
        self._reader, self.digest = reader, digest
        only = bool(reader.beside)
        chosen = assign(repr(name), found, roles, named=names is not None, sides=list(sides), only_sides=only)
        chosen = replace(chosen, id=id) if both else chosen
        if chosen.text is not None:
            raise InputError(f"Column {quoted(chosen.text)} of {name!r} must hold texts, not numbers: choose another.")
        places = {column: place for place, column in reversed(list(enumerate(found)))}
        self._used = np.array([places[column] for column in chosen.used])
        self._all = len(self._used) == len(found) and bool((np.diff(self._used) == 1).all())
        self._id, self._label = (self._side(column, places, sides) for column in (chosen.id, chosen.label))
        self.layout = Layout(tuple(chosen.used), (), None, chosen.id, chosen.label)

    def _side(self, column: str | None, places: Mapping[str, int], sides: Sides) -> int | NDArray[Any] | None:
        """Return where ids or labels are: the place of a column of the matrix, or an array beside it."""
        if column is not None and column in sides:
            return as_values(sides[column](), f"Array {quoted(column)} of {self.name!r}")
        return None if column is None else places[column]

    def chunks(self, rows: int | None = None) -> Iterator[Rows]:
        count = check_rows(rows, default_rows(self._reader.n_columns, self.dtype, sparse=self.sparse))
        return regrouped(self._pieces(count), count, part, joined)

    def _pieces(self, rows: int) -> Iterator[Rows]:
        first = 0
        for block in self._reader.blocks(rows):
            numbers = self._numbers(block)
            ids, labels = (self._values(block, side, first) for side in (self._id, self._label))
            found = Rows(self.layout, numbers, ids=ids, labels=labels, first=first)
            check_finite(found, self.name)
            yield found
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
