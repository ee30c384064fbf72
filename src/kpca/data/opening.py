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

from kpca._base.config import MEMORY_LIMIT, memory_budget
from kpca._base.errors import InputError, Setting
from kpca._base.progress import row_monitor
from kpca._base.validation import check_loaded
from kpca.data import formats
from kpca.data.arrays import MatrixReader, SlicedReader
from kpca.data.frames import FrameColumns, is_any_frame
from kpca.data.roles import RelaidTable, Roles, assign, roles_of
from kpca.data.rows import (
    NUMBER,
    TEXT,
    Columns,
    Layout,
    Rows,
    Table,
    check_finite,
    check_rows,
    default_names,
    digest_of_rows,
    float_dtype,
    joined,
    part,
    quoted,
    regrouped,
    rows_of,
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
    formats.check_format(format)
    name = os.fsdecode(path) if isinstance(path, str | os.PathLike) else None
    if not name or "\0" in name:
        got = type(path).__name__ if name is None else f"{name!r}: check it"
        raise InputError(f"path must be the path of a file or folder; got {got}.")
    is_stream = name == "-"
    if is_stream:
        name, sniffed = formats.spooled()
        format = format or sniffed
    found = formats.BY_NAME[formats.format_of(name, format)]
    given = {"array": array, "header": header, "delimiter": delimiter, "size": size}
    options: dict[str, Any] = {option: value for option, value in given.items() if value is not None}
    for option in options:
        if option not in found.options:
            takers = [other.name for other in formats.BY_NAME.values() if option in other.options]
            said = f"is for {' and '.join(takers)}; {name!r} is of format {found.name}: leave it out"
            raise InputError(said, param=option)
    roles = roles_of(columns, drop, label, id, text, optional=optional)
    if found.name == "images":
        beside = [None if role in roles.optional else getattr(roles, role) for role in ("label", "id")]
        if (roles.columns, roles.drop, roles.text, *beside) != (None,) * 5:
            told = "whose columns are pixels, whose labels are subfolders and whose ids are names of files"
            raise InputError(f"{name!r} is a folder of images, {told}: name no columns.")
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
    check_loaded(X, name)
    if isinstance(X, str | bytes | os.PathLike | Mapping) and not sparse.issparse(X):
        what = "open_table opens files" if not isinstance(X, Mapping) else "make it a data frame"
        raise InputError(f"X must be a data frame, an array or a sparse matrix; got {type(X).__name__}: {what}.")
    if isinstance(X, np.ma.MaskedArray):  # masked means missing
        X = np.ma.filled(X.astype(float_dtype(X.dtype)), np.nan)
    try:
        X = X if hasattr(X, "shape") else np.asarray(X)
    except (TypeError, ValueError) as error:
        raise InputError("X must be a data frame, or rows of equal length; it is neither: make it an array.") from error
    reader = MatrixReader(X) if sparse.issparse(X) or isinstance(X, np.ndarray) else SlicedReader(X)
    matrix = MatrixTable(name, reader, roles, lambda: digest_of_rows(matrix))
    return matrix


# -- Tables over named columns: text, Parquet, Arrow and frames, with the types that their columns have ---------------


class _StoredTable:
    """What tables over storage have in common: their pieces are numbered, checked and cut into chunks."""

    layout: Layout
    sparse = False
    image_shape: tuple[int, int] | None = None
    _pieces: Callable[[int], Iterator[Rows]]

    def __init__(self, name: str, n_rows: int, dtype: Any, width: int, digest: Callable[[], str]) -> None:
        self.name, self.n_rows, self.dtype, self.digest = name, n_rows, np.dtype(dtype), digest
        self._width = max(width, 1)  # columns that are read for each row

    def chunks(self, rows: int | None = None) -> Iterator[Rows]:
        count = check_rows(rows, default_rows(self._width, self.dtype, sparse=self.sparse))
        return regrouped(self._checked(count), count, part, joined)

    def _checked(self, rows: int) -> Iterator[Rows]:
        first = 0
        for piece in self._pieces(rows):
            found = replace(piece, first=first)
            check_finite(found, self.name)
            yield found
            first += len(found)

    def whole(self) -> Rows:
        """Return all rows, if there is room for them."""
        needed, budget = self.n_rows * max(len(self.layout.numbers), 1) * self.dtype.itemsize, memory_budget()
        if needed > budget and not self.sparse:  # a sparse matrix is in memory already
            raise InputError(
                f"{self.name!r} must fit into memory to be taken whole; it needs {needed / 2**30:.2f} GiB and "
                f"{budget / 2**30:.2f} GiB are allowed",
                remedy=("read it in chunks, or allow more memory (", MEMORY_LIMIT, ")"),
            )
        return joined(list(self.chunks()))


class ColumnTable(_StoredTable):
    """A table over columns of any types."""

    def __init__(self, name: str, columns: Columns, layout: Layout, digest: Callable[[], str]) -> None:
        single = bool(layout.numbers) and all(map(columns.is_single, layout.numbers))
        dtype = np.float32 if single else np.float64
        super().__init__(name, columns.n_rows, dtype, len(layout.numbers), digest)
        self.layout, self._columns, self._pieces = layout, columns, partial(columns.pieces, layout, self.dtype)

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
    used, beside = chosen.numbers, (chosen.text, chosen.id, chosen.label)
    if scanned is not None:
        scanned.scan([*used, *chosen.texts], id=chosen.id, label=chosen.label, seen=row_monitor(None))
        if roles.columns is None:  # a column without a name and without entries is left out, unless it was asked for
            used = tuple(name for name in used if not scanned.is_blank(name))
    if columns.n_rows < 1:
        raise InputError(f"{where} must have at least one row; it has none: check how it was written.")
    kinds = {column: columns.kind(column) for column in (*used, *beside) if column is not None}
    for column, kind in kinds.items():
        if kind not in (NUMBER, TEXT):
            told = f"Column {quoted(column)} of {where} must be numbers or texts, not of type {quoted(kind)}"
            drop = "drop it, or store each number of it in a column of its own"
            raise InputError(told, remedy="choose another" if column in beside else drop)
    numbers = tuple(column for column in used if kinds[column] == NUMBER)
    categories = tuple(column for column in used if kinds[column] == TEXT)
    for column in numbers if scanned is not None else ():
        if infinite := scanned.infinite(column):
            raise InputError(f"{infinite}: correct it, leave the row out, or drop the column.")
    for column in categories if scanned is not None and encode is None else ():
        if slip := scanned.slip(column):  # a text in a column of numbers
            raise InputError(
                slip,
                remedy=(
                    *("correct it (NA if it is missing), drop the column (", Setting("drop", column)),
                    *("), or take its entries for categories (", Setting("encode", "onehot"), ")"),
                ),
            )
    return ColumnTable(name, columns, replace(chosen, numbers=numbers, categories=categories), digest)


# -- Tables over a matrix: NumPy and Zarr arrays and sparse matrices, with arrays beside them for ids and labels ------


class MatrixTable(_StoredTable):
    """A table whose columns are those of a matrix, all numbers."""

    def __init__(self, name: str, reader: MatrixReader, roles: Roles, digest: Callable[[], str]) -> None:
        super().__init__(name, reader.n_rows, reader.dtype, reader.n_columns, digest)
        self._reader, self.sparse, self.image_shape = reader, reader.sparse, reader.image_shape
        if reader.n_columns > _MOST_COLUMNS:
            raise InputError(f"{name!r} must have at most {_MOST_COLUMNS} columns; got {reader.n_columns}: drop some.")
        if roles.text is not None:
            said = f"{name!r} must hold texts to have a column of documents; it holds numbers: leave "
            raise InputError((said, Setting("text"), " out"))
        label = reader.beside.get("label") if roles.label is None else roles.label
        id = reader.beside.get("id") if roles.id is None else roles.id
        both = roles.id is None and id is not None and id == label  # the default id may be the label, too
        roles = replace(roles, label=label, id=None if both else id)
        names = default_names(reader.n_columns) if reader.names is None else reader.names
        where, named, only = repr(name), reader.names is not None, bool(reader.beside)
        chosen = assign(where, names, roles, named=named, sides=reader.sides, only_sides=only)
        self.layout = replace(chosen, id=id) if both else chosen
        places = {column: place for place, column in reversed(list(enumerate(names)))}
        self._used = np.array([places[column] for column in chosen.numbers])
        self._all = len(self._used) == len(names) and bool((np.diff(self._used) == 1).all())
        # Where ids and labels are: the place of a column of the matrix, or an array beside it.
        self._sides: dict[str, int | NDArray[Any]] = {}
        for column in self.layout.beside:
            beside = reader.sides.get(column)
            found = None if beside is None else as_values(beside(), f"Array {quoted(column)} of {where}")
            self._sides[column] = places[column] if found is None else found

    def _pieces(self, rows: int) -> Iterator[Rows]:
        first = 0
        for block in self._reader.blocks(rows):
            values = {}
            for name, side in self._sides.items():
                if isinstance(side, np.ndarray):
                    values[name] = side[first : first + block.shape[0]]
                else:
                    column = block[:, [side]]
                    values[name] = np.array(column.toarray() if sparse.issparse(column) else column).ravel()
            numbers = block if self._all else block[:, self._used]
            if self.sparse:
                numbers = sparse.csr_array(numbers).astype(self.dtype, copy=False)
            else:
                numbers = np.array(numbers, dtype=self.dtype, order="C")  # a copy: memory maps give their pages back
            yield rows_of(self.layout, numbers, values.__getitem__, values.__getitem__)
            first += block.shape[0]


def as_values(array: NDArray[Any], where: str) -> NDArray[Any]:
    """Return ids or labels as tables give them: texts as objects, empty ones as None."""
    if array.dtype.kind == "S":
        try:
            array = np.char.decode(array, "utf-8")
        except UnicodeDecodeError as error:
            raise InputError(f"{where} must be text in UTF-8; it is not: save it as an array of str.") from error
    if array.dtype.kind in "UT":
        return np.fromiter((text or None for text in array.tolist()), dtype=object)
    if array.dtype.kind in "biufM":
        return array.astype(array.dtype.newbyteorder("="), copy=False)
    if array.dtype.kind == "O" and all(value is None or isinstance(value, str) for value in array.tolist()):
        return array
    raise InputError(f"{where} must hold numbers, texts or dates to be id or label; got {array.dtype}: choose another.")
