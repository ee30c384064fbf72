"""Rows out through pyarrow: Parquet, Arrow files and text tables, with columns of any type beside the numbers."""

from __future__ import annotations

import gzip
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from kpca._base.errors import InputError
from kpca._base.files import NewFile
from kpca.data.arrow import pyarrow
from kpca.data.rows import quoted

_NOTHING: Mapping[str, NDArray[Any]] = {}


class _Batches:
    """Turns rows into record batches of one schema, which the first rows decide."""

    def __init__(self, arrow: Any, dtype: np.dtype[Any], names: Sequence[str], extras: Sequence[str]) -> None:
        self._arrow, self._names, self._extras = arrow, list(names), list(extras)
        self._kind = arrow.float32() if dtype == np.float32 else arrow.float64()
        self.schema: Any = None if extras else arrow.schema([(name, self._kind) for name in names])

    def __call__(self, chunk: NDArray[Any], extras: Mapping[str, NDArray[Any]]) -> Any:
        beside = [self._extra(name, np.asarray(extras[name])) for name in self._extras]
        if self.schema is None:
            fields = [(name, column.type) for name, column in zip(self._extras, beside, strict=True)]
            self.schema = self._arrow.schema([*fields, *((name, self._kind) for name in self._names)])
        numbers = [
            self._arrow.array(np.ascontiguousarray(chunk[:, place]), type=self._kind) for place in range(chunk.shape[1])
        ]
        return self._arrow.RecordBatch.from_arrays([*beside, *numbers], schema=self.schema)

    def empty(self) -> Any:
        """Return the schema of a table that has got no rows."""
        if self.schema is None:
            texts = [(name, self._arrow.string()) for name in self._extras]
            self.schema = self._arrow.schema([*texts, *((name, self._kind) for name in self._names)])
        return self.schema

    def _extra(self, name: str, values: NDArray[Any]) -> Any:
        """Return a column of any type; what is of several types becomes text."""
        kind = None if self.schema is None else self.schema.field(self._extras.index(name)).type
        given: Any = values.tolist() if values.dtype.kind == "O" else values
        try:
            column = self._arrow.array(given, type=kind)
        except (self._arrow.ArrowException, TypeError, ValueError, OverflowError) as error:
            if kind is not None and kind != self._arrow.string():
                raise InputError(
                    f"Column {quoted(name)} must be of one type in all rows; it began as {kind} and then held "
                    "others: make all of it texts."
                ) from error
            return self._arrow.array([None if value is None else str(value) for value in values.tolist()])
        return column.cast(self._arrow.string()) if self._arrow.types.is_null(column.type) else column


class ParquetWriter:
    """A Parquet file, one row group per chunk."""

    def __init__(self, path: str, dtype: np.dtype[Any], names: Sequence[str], extras: Sequence[str] = ()) -> None:
        self._arrow = pyarrow("Writing Parquet")
        self._batch = _Batches(self._arrow, dtype, names, extras)
        self._new = NewFile(path)
        self._writer: Any = None

    def write(self, chunk: NDArray[Any], extras: Mapping[str, NDArray[Any]] = _NOTHING) -> None:
        """Append rows as a row group."""
        batch = self._batch(chunk, extras)
        self._open().write_batch(batch, row_group_size=max(len(chunk), 1))

    def _open(self) -> Any:
        if self._writer is None:
            file: BinaryIO = self._new.file
            self._writer = self._arrow.parquet.ParquetWriter(file, self._batch.empty(), use_dictionary=False)
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


class FeatherWriter:
    """An Arrow file, one batch per chunk, uncompressed so that it can be mapped."""

    def __init__(self, path: str, dtype: np.dtype[Any], names: Sequence[str], extras: Sequence[str] = ()) -> None:
        self._arrow = pyarrow("Writing Arrow files")
        self._batch = _Batches(self._arrow, dtype, names, extras)
        self._new = NewFile(path)
        self._writer: Any = None

    def write(self, chunk: NDArray[Any], extras: Mapping[str, NDArray[Any]] = _NOTHING) -> None:
        """Append rows as a batch."""
        batch = self._batch(chunk, extras)
        self._open().write_batch(batch)

    def _open(self) -> Any:
        if self._writer is None:
            self._writer = self._arrow.ipc.new_file(self._new.file, self._batch.empty())
        return self._writer

    def finish(self) -> None:
        """Write the footer and give the file its name."""
        self._open().close()
        self._new.finish()

    def abandon(self) -> None:
        """Remove what was written."""
        self._new.abandon()


class TextWriter:
    """A text table, in a new file or in one that is open already, such as standard output.

    Floats have as many digits as it takes to read the same bits again.
    """

    def __init__(
        self,
        path: str,
        dtype: np.dtype[Any],
        names: Sequence[str],
        extras: Sequence[str] = (),
        *,
        delimiter: str = ",",
        compressed: bool = False,
        stream: BinaryIO | None = None,
    ) -> None:
        self._arrow = pyarrow("Writing text tables")
        self._batch = _Batches(self._arrow, dtype, names, extras)
        self._delimiter, self._begun = delimiter, False
        self._new = NewFile(path) if stream is None else None
        self._packed: Any = None
        file = stream if self._new is None else self._new.file
        if compressed and self._new is not None:
            self._packed = gzip.GzipFile("", "wb", 6, self._new.file, mtime=0)
        self._file: Any = self._packed or file

    def write(self, chunk: NDArray[Any], extras: Mapping[str, NDArray[Any]] = _NOTHING) -> None:
        """Append rows."""
        self._put(self._arrow.Table.from_batches([self._batch(chunk, extras)]))

    def _put(self, table: Any) -> None:
        csv, buffer = self._arrow.csv, self._arrow.BufferOutputStream()
        csv.write_csv(table, buffer, csv.WriteOptions(include_header=not self._begun, delimiter=self._delimiter))
        self._file.write(buffer.getvalue().to_pybytes())
        self._begun = True

    def finish(self) -> None:
        """Write what is still to be written and give the file its name."""
        if not self._begun:
            self._put(self._batch.empty().empty_table())
        if self._packed is not None:
            self._packed.close()
        if self._new is not None:
            self._new.finish()
        else:
            self._file.flush()

    def abandon(self) -> None:
        """Remove what was written; what went to a stream is gone."""
        if self._packed is not None:
            self._packed.fileobj = None  # or it would write its last bytes when it is collected
        if self._new is not None:
            self._new.abandon()
