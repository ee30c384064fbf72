"""Rows in named columns of any type: what text tables, Parquet, Arrow files and frames have in common."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kpca._base.errors import InputError
from kpca.data.rows import Indices, quoted

NUMBER, TEXT = "number", "text"


@dataclass(frozen=True)
class Wanted:
    """The columns to be read, by what they are to become."""

    numbers: Sequence[str] = ()  # floats; missing ones are NaN
    texts: Sequence[str] = ()  # objects; missing ones are None
    values: Sequence[str] = ()  # ids and labels: as they are stored


@dataclass(frozen=True)
class Piece:
    """Some rows of some columns."""

    numbers: NDArray[Any]  # shape: (m, p)
    texts: dict[str, NDArray[Any]] = field(default_factory=dict)
    values: dict[str, NDArray[Any]] = field(default_factory=dict)


class Columns(Protocol):
    """A file or frame of named columns."""

    names: list[str]
    hidden: tuple[str, ...]  # columns that pandas keeps the names of the rows in
    n_rows: int

    def kind(self, name: str) -> str:
        """Return NUMBER, TEXT, or the type of a column that is neither and cannot be used."""

    def is_single(self, name: str) -> bool:
        """Whether float32 holds a column of numbers."""

    def pieces(self, wanted: Wanted, dtype: np.dtype[Any], rows: int) -> Iterator[Piece]:
        """Yield all rows in order, in pieces that suit the storage and hold about `rows` rows."""


def type_kind(arrow: Any, kind: Any) -> str:
    """Return what a column of this type of Arrow is."""
    types = arrow.types
    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_floating(kind) or types.is_integer(kind) or types.is_boolean(kind) or types.is_decimal(kind):
        return NUMBER
    if types.is_null(kind):
        return NUMBER
    if types.is_string(kind) or types.is_large_string(kind) or types.is_temporal(kind) or _is_view(types, kind):
        return TEXT
    return str(kind)


def _is_view(types: Any, kind: Any) -> bool:
    return hasattr(types, "is_string_view") and bool(types.is_string_view(kind))


def numbers_of(arrow: Any, column: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return a column of Arrow as floats, missing entries as NaN."""
    kind = arrow.float32() if dtype == np.float32 else arrow.float64()
    if arrow.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if arrow.types.is_boolean(column.type):
        column = column.cast(arrow.uint8())
    values: NDArray[Any] = column.cast(kind, safe=False).to_numpy(zero_copy_only=False)
    return values


def texts_of(arrow: Any, column: Any) -> NDArray[Any]:
    """Return a column of Arrow as texts, dates as ISO 8601 writes them, missing entries as None."""
    if arrow.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    moment = arrow.types.is_temporal(column.type)
    column = column.cast(arrow.string())
    if moment:  # how many digits a second has differs from file to file
        column = arrow.compute.replace_substring_regex(column, r"(:\d\d)(\.\d*?)0+(\D*)$", r"\1\2\3")
        column = arrow.compute.replace_substring_regex(column, r"(:\d\d)\.(\D*)$", r"\1\2")
    texts = np.empty(len(column), dtype=object)
    texts[:] = column.to_pylist()
    return texts


def values_of(arrow: Any, column: Any, *, missing: bool) -> NDArray[Any]:
    """Return a column of Arrow in NumPy's type for it, or as objects where texts are or entries may be missing."""
    types = arrow.types
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if types.is_floating(column.type) or (
        (types.is_integer(column.type) or types.is_boolean(column.type)) and not missing
    ):
        found: NDArray[Any] = column.to_numpy(zero_copy_only=False)
        return found
    if (types.is_timestamp(column.type) and column.type.tz is None) and not missing:
        moments: NDArray[Any] = column.to_numpy(zero_copy_only=False)
        return moments
    if types.is_date32(column.type) and not missing:
        return np.asarray(column.to_numpy(zero_copy_only=False), dtype="datetime64[D]")
    objects = np.empty(len(column), dtype=object)
    objects[:] = column.to_pylist()
    return objects


def piece_of(arrow: Any, batch: Any, wanted: Wanted, dtype: np.dtype[Any], missing: Collection[str]) -> Piece:
    """Return a record batch of Arrow as arrays; `missing` are the values of which some are missing somewhere."""
    numbers = np.empty((batch.num_rows, len(wanted.numbers)), dtype=dtype)
    for place, name in enumerate(wanted.numbers):
        numbers[:, place] = numbers_of(arrow, batch.column(name), dtype)
    texts = {name: texts_of(arrow, batch.column(name)) for name in wanted.texts}
    values = {name: values_of(arrow, batch.column(name), missing=name in missing) for name in wanted.values}
    return Piece(numbers, texts, values)


# -- Columns of numbers as rows for the readers in chunks: all columns must be numbers, as an array's are -------------


class NumbersReader:
    """A table whose columns are all numbers; one that keeps pandas' names of the rows is passed over."""

    sparse = False

    def __init__(self, table: Any, path: str) -> None:
        self._table: Columns = table
        names = [name for name in table.names if name not in table.hidden]
        if len(set(names)) < len(names):
            twice = sorted({name for name in names if names.count(name) > 1}) if len(names) < 1000 else ["some"]
            raise InputError(
                f"The columns of {path!r} must have different names; got {quoted(twice)} twice: rename some."
            )
        if hasattr(table, "scan"):
            table.scan(names)
            names = [name for name in names if not table.is_blank(name)]
        if table.n_rows < 1 or not names:
            raise InputError(f"{path!r} must have at least one row and one column; got {table.n_rows} row(s).")
        for column, name in enumerate(names):
            if table.kind(name) != NUMBER:
                where = f"column {column} ({quoted(name)})"
                slip = getattr(table, "slip", lambda _: None)(name)
                if slip:
                    raise InputError(f"{slip}: correct it or drop the column.")
                raise InputError(
                    f"{path!r} must hold numbers only; {where} is of type {table.kind(name)}: encode or drop it."
                )
        self.names: list[str] | None = names
        self.n_rows, self.n_columns = table.n_rows, len(names)
        self.dtype = np.dtype(np.float32 if all(map(table.is_single, names)) else np.float64)
        self._wanted = Wanted(numbers=names)

    def blocks(self, rows: int) -> Iterator[Any]:
        """Yield the rows as they are stored together."""
        for piece in self._table.pieces(self._wanted, self.dtype, rows):
            yield piece.numbers

    def take(self, indices: Indices) -> Any:
        """Return these rows."""
        if hasattr(self._table, "take"):
            return self._table.take(self._wanted, self.dtype, indices)
        taken = np.empty((len(indices), self.n_columns), dtype=self.dtype)
        first = 0
        for block in self.blocks(1 << 13):
            here = slice(*np.searchsorted(indices, [first, first + len(block)]))
            taken[here] = block[indices[here] - first]
            first += len(block)
        return taken
