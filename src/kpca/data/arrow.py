"""The only file that imports pyarrow, which reads and writes Parquet, Arrow and text tables."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca._base.errors import InputError
from kpca.data.columns import Piece, Wanted, piece_of, type_kind
from kpca.data.rows import Indices, unreadable


def pyarrow(doing: str) -> Any:
    """Return the library with the parts used here, or say what it is needed for."""
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.csv
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError as error:
        raise InputError(f"{doing} needs pyarrow: pip install 'kpca[io]'.") from error
    return pyarrow


# -- Parquet files, one or a folder of them ---------------------------------------------------------------------------

_KIND = "Parquet file"
_BUFFER_BYTES = 1 << 16  # read a column piece by piece, not all of a row group at once


class ParquetTable:
    """A Parquet file, or the files of a folder in the order of their names, with the same columns of any types."""

    def __init__(self, path: str) -> None:
        self._arrow = pyarrow("Reading Parquet")
        self.path, self._paths = path, _files(path)
        self._counts: list[int] = []  # rows of each file
        self._schema: Any = None
        for file in self._paths:
            with self._open(file) as table:
                schema = checked_schema(table.schema_arrow, file, _KIND)
                self._counts.append(table.metadata.num_rows)
            if self._schema is not None and not _same(schema, self._schema):
                raise InputError(
                    f"The files of {path!r} must have the same columns in the same order; {file!r} differs from "
                    f"{self._paths[0]!r}: give each kind a folder of its own."
                )
            self._schema = schema if self._schema is None else self._schema
        self.names: list[str] = list(self._schema.names)
        self.hidden = hidden_columns(self._schema)
        self.n_rows = sum(self._counts)

    def _open(self, file: str) -> Any:
        try:
            return self._arrow.parquet.ParquetFile(file, pre_buffer=False, buffer_size=_BUFFER_BYTES)
        except (self._arrow.ArrowException, OSError) as error:
            raise unreadable(file, _KIND, error) from error

    def kind(self, name: str) -> str:
        """Return what a column holds."""
        return type_kind(self._arrow, self._schema.field(name).type)

    def is_single(self, name: str) -> bool:
        """Whether float32 holds a column of numbers."""
        kind = self._schema.field(name).type
        return bool(self._arrow.types.is_floating(kind) and kind.bit_width <= 32)

    def batches(self, file: str, columns: Sequence[str], rows: int, groups: list[int] | None = None) -> Iterator[Any]:
        """Yield record batches of up to `rows` rows of a file, or of some of its row groups."""
        with self._open(file) as table:
            batches = table.iter_batches(rows, row_groups=groups, columns=list(columns), use_threads=False)
            while True:
                try:
                    batch = next(batches, None)
                except (self._arrow.ArrowException, OSError) as error:
                    raise unreadable(file, _KIND, error) from error
                if batch is None:
                    return
                yield batch

    def pieces(self, wanted: Wanted, dtype: np.dtype[Any], rows: int) -> Iterator[Piece]:
        """Yield the batches of each file in turn."""
        columns = [*wanted.numbers, *wanted.texts, *wanted.values]
        missing = self._maybe_missing(wanted.values)
        for file, count in zip(self._paths, self._counts, strict=True):
            seen = 0
            for batch in self.batches(file, columns, rows):
                seen += batch.num_rows
                yield piece_of(self._arrow, batch, wanted, dtype, missing)
            if seen != count:
                raise InputError(f"{file!r} must stay as it is while it is read; it had {count} rows, then {seen}.")

    def _maybe_missing(self, columns: Sequence[str]) -> set[str]:
        """Return those of some columns in which entries are missing, or may be where the files do not say."""
        found: set[str] = set()
        for file in self._paths if columns else []:
            with self._open(file) as table:
                groups = [table.metadata.row_group(number) for number in range(table.metadata.num_row_groups)]
                for place, name in enumerate(table.schema.names):
                    if name not in columns:
                        continue
                    known = [group.column(place).statistics for group in groups]
                    if any(s is None or not s.has_null_count or s.null_count for s in known):
                        found.add(name)
        return found

    def take(self, wanted: Wanted, dtype: np.dtype[Any], indices: Indices) -> Any:
        """Return the numbers of these rows, reading only the row groups they lie in."""
        taken = np.empty((len(indices), len(wanted.numbers)), dtype=dtype)
        done, first = 0, 0
        for file, count in zip(self._paths, self._counts, strict=True):
            end = done + int(np.searchsorted(indices[done:], first + count))
            if end > done:
                taken[done:end] = self._take_from(file, wanted, dtype, indices[done:end] - first)
            done, first = end, first + count
        return taken

    def _take_from(self, file: str, wanted: Wanted, dtype: np.dtype[Any], indices: Indices) -> NDArray[Any]:
        with self._open(file) as table:
            lengths = [table.metadata.row_group(group).num_rows for group in range(table.num_row_groups)]
        ends = np.cumsum(lengths)
        groups, inverse = np.unique(np.searchsorted(ends, indices, side="right"), return_inverse=True)
        starts = np.concatenate([[0], np.cumsum(np.asarray(lengths)[groups])])  # of each group among those read
        places = indices - (ends - lengths)[groups][inverse] + starts[inverse]
        parts, first = [], 0
        for batch in self.batches(file, wanted.numbers, 1 << 13, groups.tolist()):
            block = piece_of(self._arrow, batch, wanted, dtype, ()).numbers
            inside = places[(places >= first) & (places < first + len(block))] - first
            parts.append(block[inside])
            first += len(block)
        return np.concatenate(parts)


def _files(path: str) -> list[str]:
    if not os.path.isdir(path):
        return [path]
    found = sorted(str(file) for file in Path(path).rglob("*.parquet") if not file.name.startswith((".", "_")))
    if not found:
        raise InputError(f"The folder {path!r} must hold files that end in .parquet; it holds none.")
    return found


def checked_schema(schema: Any, path: str, what: str) -> Any:
    """Return a schema whose names and metadata can be read: they are decoded only when they are looked at."""
    try:
        list(schema.names), schema.pandas_metadata
    except (ValueError, TypeError) as error:
        raise unreadable(path, what, error) from error
    return schema


def hidden_columns(schema: Any) -> tuple[str, ...]:
    """Return the columns in which pandas keeps the names of the rows."""
    about = schema.pandas_metadata
    kept = about.get("index_columns") if isinstance(about, dict) else None
    kept = kept if isinstance(kept, list) else []
    return tuple(name for name in kept if isinstance(name, str) and name in schema.names)


def _same(one: Any, other: Any) -> bool:
    """Whether two files have the same columns; only whether they may be null need not agree."""
    return list(one.names) == list(other.names) and list(one.types) == list(other.types)


# -- Arrow files: Feather and the two forms of Arrow IPC, file and stream ---------------------------------------------

_FILE_MARK = b"ARROW1"
_ARROW_KIND = "Arrow or Feather file"


class FeatherTable:
    """An Arrow file; its batches are mapped, so memory holds those that are looked at."""

    def __init__(self, path: str) -> None:
        self._arrow = pyarrow("Reading Arrow files")
        self.path = path
        with open(path, "rb") as file:
            mark = file.read(len(_FILE_MARK))
        if mark.startswith(b"FEA1"):
            raise InputError(
                f"{path!r} must be an Arrow file; it is of version 1 of Feather, which is no longer read: write it "
                "again."
            )
        self._is_file = mark == _FILE_MARK
        self.n_rows = 0
        self._missing: set[int] = set()  # places of columns in which entries are missing
        schema: Any = None
        for batch, fresh in self._batches():
            schema = fresh
            if batch is not None:
                self.n_rows += batch.num_rows
                self._missing |= {place for place, column in enumerate(batch.columns) if column.null_count}
        self._schema = schema
        self.names: list[str] = list(schema.names)
        self.hidden = hidden_columns(schema)

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        try:
            with self._arrow.memory_map(self.path) as source:
                ipc = self._arrow.ipc
                yield ipc.open_file(source) if self._is_file else ipc.open_stream(source)
        except (self._arrow.ArrowException, OSError, EOFError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise unreadable(self.path, _ARROW_KIND, error) from error

    def _batches(self) -> Iterator[tuple[Any, Any]]:
        """Yield the batches with their schema; None first, so that the schema is there without batches."""
        with self._opened() as reader:
            checked_schema(reader.schema, self.path, _ARROW_KIND)
            yield None, reader.schema
            if self._is_file:
                for number in range(reader.num_record_batches):
                    batch = reader.get_batch(number)
                    batch.validate(full=True)
                    yield batch, reader.schema
                return
            for batch in reader:
                batch.validate(full=True)
                yield batch, reader.schema

    def kind(self, name: str) -> str:
        """Return what a column holds."""
        return type_kind(self._arrow, self._schema.field(name).type)

    def is_single(self, name: str) -> bool:
        """Whether float32 holds a column of numbers."""
        kind = self._schema.field(name).type
        return bool(self._arrow.types.is_floating(kind) and kind.bit_width <= 32)

    def pieces(self, wanted: Wanted, dtype: np.dtype[Any], rows: int) -> Iterator[Piece]:
        """Yield the rows of each batch, cut where it is long."""
        seen = 0
        missing = [name for place, name in enumerate(self.names) if place in self._missing]
        for batch, _ in self._batches():
            if batch is None:
                continue
            for start in range(0, batch.num_rows, rows):
                part = batch.slice(start, rows)
                seen += part.num_rows
                yield piece_of(self._arrow, part, wanted, dtype, missing)
        if seen != self.n_rows:
            raise InputError(f"{self.path!r} must stay as it is while it is read; it has changed: read it again.")
