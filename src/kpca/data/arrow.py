"""The only file that imports pyarrow, which reads and writes Parquet, Arrow and text tables."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca._base.errors import InputError
from kpca._base.files import NewFile
from kpca.data.rows import (
    NUMBER,
    TEXT,
    Indices,
    Layout,
    Rows,
    needed,
    quoted,
    rows_of,
    stacked,
    taken_in_passing,
    unreadable,
)


def pyarrow(doing: str) -> Any:
    """Return the library with the parts used here, or say what it is needed for."""
    with needed(f"{doing} needs pyarrow", "io"):
        import pyarrow
        import pyarrow.compute
        import pyarrow.csv
        import pyarrow.ipc
        import pyarrow.parquet
    return pyarrow


# -- Columns of Arrow as arrays ----------------------------------------------------------------------------------------


def _decoded(arrow: Any, column: Any) -> Any:
    return column.cast(column.type.value_type) if arrow.types.is_dictionary(column.type) else column


def _texts_of(arrow: Any, column: Any) -> NDArray[Any]:
    """Return a column of Arrow as texts, dates as ISO 8601 writes them, missing entries as None."""
    column = _decoded(arrow, column)
    moment = arrow.types.is_temporal(column.type)
    column = column.cast(arrow.string())
    if moment:  # how many digits a second has differs from file to file
        column = arrow.compute.replace_substring_regex(column, r"(:\d\d)(\.\d*?)0+(\D*)$", r"\1\2\3")
        column = arrow.compute.replace_substring_regex(column, r"(:\d\d)\.(\D*)$", r"\1\2")
    return np.fromiter(column.to_pylist(), dtype=object)


def _values_of(arrow: Any, column: Any, *, missing: bool) -> NDArray[Any]:
    """Return a column of Arrow in NumPy's type for it, or as objects where texts are or entries may be missing."""
    types, column = arrow.types, _decoded(arrow, column)
    kind = column.type
    whole = types.is_integer(kind) or types.is_boolean(kind) or (types.is_timestamp(kind) and kind.tz is None)
    if types.is_floating(kind) or (not missing and (whole or types.is_date32(kind))):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    return np.fromiter(column.to_pylist(), dtype=object)


def _piece_of(arrow: Any, batch: Any, layout: Layout, dtype: np.dtype[Any], missing: Collection[str]) -> Rows:
    """Return a record batch of Arrow as arrays; `missing` are the values of which some are missing somewhere."""
    numbers = np.empty((batch.num_rows, len(layout.numbers)), dtype=dtype)
    for place, name in enumerate(layout.numbers):
        column = _decoded(arrow, batch.column(name))
        column = column.cast(arrow.uint8()) if arrow.types.is_boolean(column.type) else column
        column = column.cast(arrow.from_numpy_dtype(dtype), safe=False)
        numbers[:, place] = column.to_numpy(zero_copy_only=False)  # missing entries as NaN
    values = {name: _values_of(arrow, batch.column(name), missing=name in missing) for name in layout.beside}
    return rows_of(layout, numbers, lambda name: _texts_of(arrow, batch.column(name)), values.__getitem__)


class _ArrowColumns:
    """Columns with a schema of Arrow."""

    def __init__(self, arrow: Any, schema: Any, n_rows: int) -> None:
        self._arrow, self._schema, self.n_rows = arrow, schema, n_rows
        self.names: list[str] = list(schema.names)
        about = schema.pandas_metadata
        kept = about.get("index_columns") if isinstance(about, dict) else None
        kept = kept if isinstance(kept, list) else []  # where pandas keeps the names of the rows
        self.hidden = tuple(name for name in kept if isinstance(name, str) and name in self.names)

    def kind(self, name: str) -> str:
        types, kind = self._arrow.types, self._schema.field(name).type
        kind = kind.value_type if types.is_dictionary(kind) else kind
        numbers = (types.is_floating, types.is_integer, types.is_boolean, types.is_decimal, types.is_null)
        if any(is_so(kind) for is_so in numbers):
            return NUMBER
        texts = (types.is_string, types.is_large_string, types.is_string_view, types.is_temporal)
        return TEXT if any(is_so(kind) for is_so in texts) else str(kind)

    def is_single(self, name: str) -> bool:
        kind = self._schema.field(name).type
        return bool(self._arrow.types.is_floating(kind) and kind.bit_width <= 32)


def _checked_schema(schema: Any, path: str, what: str) -> Any:
    """Return a schema whose names and metadata can be read: they are decoded only when they are looked at."""
    try:
        list(schema.names), schema.pandas_metadata
    except (ValueError, TypeError) as error:
        raise unreadable(path, what, error) from error
    return schema


# -- Parquet files, one or a folder of them ---------------------------------------------------------------------------

_KIND = "Parquet file"
_BUFFER_BYTES = 1 << 16  # read a column piece by piece, not all of a row group at once


class ParquetTable(_ArrowColumns):
    """A Parquet file, or the files of a folder in the order of their names, with the same columns of any types."""

    def __init__(self, path: str) -> None:
        self._arrow = pyarrow("Reading Parquet")
        self._paths = [path]
        if os.path.isdir(path):
            found = (str(file) for file in Path(path).rglob("*.parquet") if not file.name.startswith((".", "_")))
            self._paths = sorted(found)
        if not self._paths:
            raise InputError(f"The folder {path!r} must hold files that end in .parquet; it holds none.")
        self._counts: list[int] = []  # rows of each file
        first: Any = None
        for file in self._paths:
            with self._open(file) as table:
                schema = _checked_schema(table.schema_arrow, file, _KIND)
                self._counts.append(table.metadata.num_rows)
            first = schema if first is None else first
            # only whether columns may be null need not agree
            if list(schema.names) != list(first.names) or list(schema.types) != list(first.types):
                raise InputError(
                    f"The files of {path!r} must have the same columns in the same order; {file!r} differs from "
                    f"{self._paths[0]!r}: give each kind a folder of its own."
                )
        super().__init__(self._arrow, first, sum(self._counts))

    def _open(self, file: str) -> Any:
        try:
            return self._arrow.parquet.ParquetFile(file, pre_buffer=False, buffer_size=_BUFFER_BYTES)
        except (self._arrow.ArrowException, OSError) as error:
            raise unreadable(file, _KIND, error) from error

    def batches(self, file: str, columns: Sequence[str], rows: int, groups: list[int] | None = None) -> Iterator[Any]:
        """Yield record batches of up to `rows` rows of a file, or of some of its row groups."""
        with self._open(file) as table:
            try:
                yield from table.iter_batches(rows, row_groups=groups, columns=list(columns), use_threads=False)
            except (self._arrow.ArrowException, OSError) as error:
                raise unreadable(file, _KIND, error) from error

    def pieces(self, layout: Layout, dtype: np.dtype[Any], rows: int) -> Iterator[Rows]:
        columns = [*layout.numbers, *layout.texts, *layout.beside]
        missing: set[str] = set()  # ids or labels of which some are missing, or may be where the files do not say
        for file in self._paths if layout.beside else []:
            with self._open(file) as table:
                groups = [table.metadata.row_group(number) for number in range(table.metadata.num_row_groups)]
                for place, name in enumerate(table.schema.names):
                    known = [group.column(place).statistics for group in groups] if name in layout.beside else []
                    if any(s is None or not s.has_null_count or s.null_count for s in known):
                        missing.add(name)
        for file, count in zip(self._paths, self._counts, strict=True):
            seen = 0
            for batch in self.batches(file, columns, rows):
                seen += batch.num_rows
                yield _piece_of(self._arrow, batch, layout, dtype, missing)
            if seen != count:
                raise InputError(f"{file!r} must stay as it is while it is read; it had {count} rows, then {seen}.")

    def take(self, layout: Layout, dtype: np.dtype[Any], indices: Indices) -> Any:
        """Return the numbers of these rows, reading only the row groups they lie in."""
        parts, first = [np.empty((0, len(layout.numbers)), dtype)], 0
        for file, count in zip(self._paths, self._counts, strict=True):
            here = indices[slice(*np.searchsorted(indices, [first, first + count]))] - first
            first += count
            if not len(here):
                continue
            with self._open(file) as table:
                lengths = [table.metadata.row_group(group).num_rows for group in range(table.num_row_groups)]
            ends = np.cumsum(lengths, dtype=np.int64)
            groups, inverse = np.unique(np.searchsorted(ends, here, side="right"), return_inverse=True)
            starts = np.concatenate([[0], np.cumsum(np.asarray(lengths)[groups])])  # of each group among those read
            places = here - (ends - lengths)[groups][inverse] + starts[inverse]
            batches = self.batches(file, layout.numbers, 1 << 13, groups.tolist())
            blocks = (_piece_of(self._arrow, batch, layout, dtype, ()).numbers for batch in batches)
            parts.append(taken_in_passing(blocks, places))
        return stacked(parts)


# -- Arrow files: Feather and the two forms of Arrow IPC, file and stream ---------------------------------------------

_FILE_MARK = b"ARROW1"
_ARROW_KIND = "Arrow or Feather file"


class FeatherTable(_ArrowColumns):
    """An Arrow file; its batches are mapped, so memory holds those that are looked at."""

    def __init__(self, path: str) -> None:
        self._arrow = pyarrow("Reading Arrow files")
        self.path = path
        with open(path, "rb") as file:
            mark = file.read(len(_FILE_MARK))
        if mark.startswith(b"FEA1"):
            raise InputError(f"{path!r} must be an Arrow file; it is Feather version 1: write it again.")
        self._is_file = mark == _FILE_MARK
        n_rows = 0
        self._missing: set[int] = set()  # places of columns in which entries are missing
        for batch in self._batches():
            n_rows += batch.num_rows
            self._missing |= {place for place, column in enumerate(batch.columns) if column.null_count}
        super().__init__(self._arrow, self._schema, n_rows)

    def _batches(self) -> Iterator[Any]:
        """Yield the checked batches; the schema is known from the beginning."""
        try:
            with self._arrow.memory_map(self.path) as source:
                ipc = self._arrow.ipc
                reader = ipc.open_file(source) if self._is_file else ipc.open_stream(source)
                self._schema = _checked_schema(reader.schema, self.path, _ARROW_KIND)
                for batch in map(reader.get_batch, range(reader.num_record_batches)) if self._is_file else reader:
                    batch.validate(full=True)
                    yield batch
        except InputError:
            raise
        except (self._arrow.ArrowException, OSError, EOFError, ValueError) as error:
            raise unreadable(self.path, _ARROW_KIND, error) from error

    def pieces(self, layout: Layout, dtype: np.dtype[Any], rows: int) -> Iterator[Rows]:
        """Yield the rows of each batch, cut where it is long."""
        seen = 0
        missing = [name for place, name in enumerate(self.names) if place in self._missing]
        for batch in self._batches():
            for start in range(0, batch.num_rows, rows):
                part = batch.slice(start, rows)
                seen += part.num_rows
                yield _piece_of(self._arrow, part, layout, dtype, missing)
        if seen != self.n_rows:
            raise InputError(f"{self.path!r} must stay as it is while it is read; it has changed: read it again.")


# -- Rows out: Parquet and Arrow files, with columns of any type beside the numbers; the batches serve text too --------


class Batches:
    """Turns rows into record batches of one schema, which the first rows decide."""

    def __init__(self, arrow: Any, names: Sequence[str], extras: Sequence[str], dtype: np.dtype[Any]) -> None:
        self._arrow, self._names, self._extras = arrow, list(names), list(extras)
        self._kind = arrow.from_numpy_dtype(dtype)
        self.schema: Any = None

    def __call__(self, chunk: NDArray[Any], extras: Mapping[str, NDArray[Any]]) -> Any:
        beside, text = [], self._arrow.string()
        for place, name in enumerate(self._extras):
            values = np.asarray(extras[name])
            kind = None if self.schema is None else self.schema.field(place).type
            try:
                column = self._arrow.array(values.tolist() if values.dtype.kind == "O" else values, type=kind)
            except (self._arrow.ArrowException, TypeError, ValueError, OverflowError) as error:
                if kind is not None and kind != text:
                    told = f"Column {quoted(name)} must keep its type, {kind}: make all of it texts."
                    raise InputError(told) from error
                # what is of several types becomes text
                column = self._arrow.array([None if value is None else str(value) for value in values.tolist()])
            beside.append(column.cast(text) if self._arrow.types.is_null(column.type) else column)
        numbers = [self._arrow.array(np.ascontiguousarray(column), type=self._kind) for column in chunk.T]
        schema = self.decided([column.type for column in beside])
        return self._arrow.RecordBatch.from_arrays([*beside, *numbers], schema=schema)

    def decided(self, types: Sequence[Any] = ()) -> Any:
        """Return the schema, which the first types of the extras decide; they are texts if there were no rows."""
        if self.schema is None:
            fields = zip(self._extras, types or [self._arrow.string()] * len(self._extras), strict=True)
            self.schema = self._arrow.schema([*fields, *((name, self._kind) for name in self._names)])
        return self.schema


class ParquetWriter:
    """A Parquet file, one row group per chunk."""

    def __init__(self, path: str, names: Sequence[str], extras: Sequence[str], dtype: np.dtype[Any]) -> None:
        self._arrow = pyarrow("Writing Parquet")
        self._batch = Batches(self._arrow, names, extras, dtype)
        self._new = NewFile(path)
        self._writer: Any = None

    def write(self, chunk: NDArray[Any], extras: Mapping[str, NDArray[Any]]) -> None:
        batch = self._batch(chunk, extras)  # which decides on the schema
        self._opened().write_batch(batch)

    def _opened(self) -> Any:
        if self._writer is None:
            self._writer = self._open(self._batch.decided())
        return self._writer

    def _open(self, schema: Any) -> Any:
        return self._arrow.parquet.ParquetWriter(self._new.file, schema, use_dictionary=False)

    def finish(self) -> None:
        self._opened().close()
        self._new.finish()

    def abandon(self) -> None:
        if hasattr(self._writer, "is_open"):
            self._writer.is_open = False  # or pyarrow would write a footer, and complain, when it is collected
        self._new.abandon()


class FeatherWriter(ParquetWriter):
    """An Arrow file, one batch per chunk, uncompressed so that it can be mapped."""

    def _open(self, schema: Any) -> Any:
        return self._arrow.ipc.new_file(self._new.file, schema)
