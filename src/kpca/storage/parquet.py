"""Parquet files, one or a folder of them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from kpca.errors import InputError
from kpca.storage._arrow import pyarrow
from kpca.storage.base import Indices, label, unreadable
from kpca.storage.files import NewFile

_KIND = "Parquet file"
_BUFFER_BYTES = 1 << 16  # read a column piece by piece, not all of a row group at once


class ParquetReader:
    """A Parquet file, or the files of a folder in the order of their names, with the same columns of numbers."""

    sparse = False

    def __init__(self, path: str) -> None:
        self._arrow = pyarrow("Reading Parquet")
        self._paths = _files(path)
        self._counts: list[int] = []  # rows of each file
        self.names: list[str] | None = None
        single = True
        for file in self._paths:
            with self._open(file) as table:
                names = _columns(table.schema_arrow)
                single = _check_types(self._arrow, table.schema_arrow, names, file) and single
                self._counts.append(table.metadata.num_rows)
            if self.names is not None and names != self.names:
                raise InputError(
                    f"The files of {path!r} must have the same columns in the same order; {file!r} differs from "
                    f"{self._paths[0]!r}: give each kind a folder of its own."
                )
            self.names = names
        self.n_rows, self.n_columns = sum(self._counts), len(self.names or [])
        if self.n_rows < 1 or self.n_columns < 1:
            raise InputError(f"{path!r} must have at least one row and one column; got {self.n_rows} row(s).")
        self.dtype = np.dtype(np.float32 if single else np.float64)

    def _open(self, file: str) -> Any:
        try:
            return self._arrow.parquet.ParquetFile(file, pre_buffer=False, buffer_size=_BUFFER_BYTES)
        except (self._arrow.ArrowException, OSError) as error:
            raise unreadable(file, _KIND, error) from error

    def _batches(self, file: str, rows: int, groups: list[int] | None = None) -> Iterator[NDArray[Any]]:
        """Yield arrays of up to `rows` rows of a file, or of some of its row groups."""
        kind = self._arrow.float32() if self.dtype == np.float32 else self._arrow.float64()
        with self._open(file) as table:
            batches = table.iter_batches(rows, row_groups=groups, columns=self.names, use_threads=False)
            while True:
                try:
                    batch = next(batches, None)
                except (self._arrow.ArrowException, OSError) as error:
                    raise unreadable(file, _KIND, error) from error
                if batch is None:
                    return
                block = np.empty((batch.num_rows, self.n_columns), dtype=self.dtype)
                for column, name in enumerate(self.names or []):
                    block[:, column] = batch.column(name).cast(kind, safe=False).to_numpy(zero_copy_only=False)
                yield block

    def blocks(self, rows: int) -> Iterator[Any]:
        """Yield the batches of each file in turn."""
        for file, count in zip(self._paths, self._counts, strict=True):
            seen = 0
            for block in self._batches(file, rows):
                seen += len(block)
                yield block
            if seen != count:
                raise InputError(f"{file!r} must stay as it is while it is read; it had {count} rows, then {seen}.")

    def take(self, indices: Indices) -> Any:
        """Return these rows, reading only the row groups they lie in."""
        taken = np.empty((len(indices), self.n_columns), dtype=self.dtype)
        done, first = 0, 0
        for file, count in zip(self._paths, self._counts, strict=True):
            end = done + int(np.searchsorted(indices[done:], first + count))
            if end > done:
                taken[done:end] = self._take_from(file, indices[done:end] - first)
            done, first = end, first + count
        return taken

    def _take_from(self, file: str, indices: Indices) -> NDArray[Any]:
        with self._open(file) as table:
            lengths = [table.metadata.row_group(group).num_rows for group in range(table.num_row_groups)]
        ends = np.cumsum(lengths)
        groups, inverse = np.unique(np.searchsorted(ends, indices, side="right"), return_inverse=True)
        starts = np.concatenate([[0], np.cumsum(np.asarray(lengths)[groups])])  # of each group among those read
        places = indices - (ends - lengths)[groups][inverse] + starts[inverse]
        parts, first = [], 0
        for block in self._batches(file, 1 << 13, groups.tolist()):
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


def _columns(schema: Any) -> list[str]:
    """Return the names of the columns, without those in which pandas keeps an index."""
    index = {name for name in (schema.pandas_metadata or {}).get("index_columns", []) if isinstance(name, str)}
    return [name for name in schema.names if name not in index]


def _check_types(arrow: Any, schema: Any, names: list[str], file: str) -> bool:
    """Whether float32 holds every column; a column that is no number is refused, and so is a name used twice."""
    if len(set(names)) < len(names):
        raise InputError(f"The columns of {file!r} must have different names; got {', '.join(names)}: rename some.")
    single = True
    for column, name in enumerate(names):
        kind = schema.field(name).type
        floating = arrow.types.is_floating(kind)
        if not (floating or arrow.types.is_integer(kind) or arrow.types.is_boolean(kind) or _is_decimal(arrow, kind)):
            where = label(column, names)
            raise InputError(f"{file!r} must hold numbers only; {where} is of type {kind}: encode or drop it.")
        single = single and floating and kind.bit_width <= 32
    return single


def _is_decimal(arrow: Any, kind: Any) -> bool:
    return bool(arrow.types.is_decimal(kind))


class ParquetWriter:
    """A Parquet file, one row group per chunk."""

    def __init__(self, path: str, dtype: np.dtype[Any], names: Sequence[str]) -> None:
        self._arrow = pyarrow("Writing Parquet")
        if len(set(names)) < len(names):
            raise InputError(f"The columns of {path!r} must have different names; got {', '.join(names)}.")
        kind = self._arrow.float32() if dtype == np.float32 else self._arrow.float64()
        self._schema = self._arrow.schema([(name, kind) for name in names])
        self._new = NewFile(path)
        self._writer: Any = None

    def write(self, chunk: NDArray[Any]) -> None:
        """Append rows as a row group."""
        columns = [self._arrow.array(np.ascontiguousarray(chunk[:, column])) for column in range(chunk.shape[1])]
        batch = self._arrow.RecordBatch.from_arrays(columns, schema=self._schema)
        self._open().write_batch(batch, row_group_size=max(len(chunk), 1))

    def _open(self) -> Any:
        if self._writer is None:
            file: BinaryIO = self._new.file
            self._writer = self._arrow.parquet.ParquetWriter(file, self._schema, use_dictionary=False)
        return self._writer

    def finish(self) -> None:
        """Write the footer and give the file its name."""
        self._open().close()
        self._new.finish()

    def abandon(self) -> None:
        """Remove what was written."""
        if self._writer is not None:
            self._writer.is_open = False  # or pyarrow would write a footer, and complain, when it is collected
        self._new.abandon()
