"""Arrow files: Feather and the two forms of Arrow IPC, file and stream."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from kpca.errors import InputError
from kpca.storage._arrow import pyarrow
from kpca.storage.base import unreadable
from kpca.storage.columns import Piece, Wanted, piece_of, type_kind
from kpca.storage.parquet import checked_schema, hidden_columns

_FILE_MARK = b"ARROW1"
_KIND = "Arrow or Feather file"


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
            raise unreadable(self.path, _KIND, error) from error

    def _batches(self) -> Iterator[tuple[Any, Any]]:
        """Yield the batches with their schema; None first, so that the schema is there without batches."""
        with self._opened() as reader:
            checked_schema(reader.schema, self.path, _KIND)
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
