"""Rows in data frames, pandas and polars, known by what they can do: neither library is imported."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca._base.errors import InputError
from kpca.data.arrays import check_shape
from kpca.data.rows import NUMBER, NUMBERS, TEXT, Indices, Piece, Wanted, label


def is_frame(X: Any) -> bool:
    """Whether X is a data frame of pandas or polars."""
    return hasattr(X, "columns") and hasattr(X, "to_numpy") and hasattr(X, "shape")


class FrameReader:
    """A data frame whose columns are all numbers; missing entries become NaN, for the check to find."""

    sparse = False

    def __init__(self, frame: Any) -> None:
        self._frame = frame
        self._pandas = hasattr(frame, "iloc")
        self.names: list[str] | None = [str(name) for name in frame.columns]
        self.n_rows, self.n_columns = check_shape(frame)
        single = [_is_single(dtype, label(column, self.names)) for column, dtype in enumerate(frame.dtypes)]
        self.dtype = np.dtype(np.float32 if all(single) else np.float64)

    def _array(self, part: Any) -> Any:
        if self._pandas:
            return part.to_numpy(dtype=self.dtype, na_value=np.nan)
        return np.asarray(part.to_numpy(), dtype=self.dtype)

    def blocks(self, rows: int) -> Iterator[Any]:
        """Yield slices of the frame as arrays."""
        for start in range(0, self.n_rows, rows):
            part = self._frame.iloc[start : start + rows] if self._pandas else self._frame.slice(start, rows)
            yield self._array(part)

    def take(self, indices: Indices) -> Any:
        """Return these rows as an array."""
        return self._array(self._frame.iloc[indices] if self._pandas else self._frame[indices])


def _is_single(dtype: Any, where: str) -> bool:
    """Whether float32 holds a column of this type; text, dates and other types that are no numbers are refused."""
    kind = getattr(dtype, "kind", None)
    if kind is not None:  # pandas: NumPy's types, and its own, which imitate them
        number, single = kind in NUMBERS, kind == "f" and getattr(dtype, "itemsize", 8) <= 4
    else:  # polars
        number = dtype.is_numeric() or str(dtype) == "Boolean"
        single = str(dtype) in {"Float16", "Float32"}
    if not number:
        raise InputError(f"X must hold numbers only; {where} is of type {dtype}: encode or drop it.")
    return single


# -- Data frames as columns of any types: pandas and polars, known by what they can do --------------------------------


class FrameColumns:
    """The columns of a data frame. The index of a pandas frame is the id if it is more than a count of the rows."""

    def __init__(self, frame: Any) -> None:
        self._pandas = hasattr(frame, "iloc")
        self.hidden: tuple[str, ...] = ()
        if self._pandas and not _counts(frame.index):
            name = frame.index.name if isinstance(frame.index.name, str) else "index"
            while name in set(map(str, frame.columns)):
                name += "_"
            frame = frame.copy(deep=False)
            frame.insert(0, name, list(frame.index), allow_duplicates=True)
            self.hidden = (name,)
        self._frame = frame
        self.names = [str(name) for name in frame.columns]
        self._place = {name: place for place, name in reversed(list(enumerate(self.names)))}
        self.n_rows = int(frame.shape[0])
        self._dtypes = list(frame.dtypes)

    def _column(self, name: str) -> Any:
        place = self._place[name]
        return self._frame.iloc[:, place] if self._pandas else self._frame[:, place]

    def kind(self, name: str) -> str:
        """Return what a column holds."""
        dtype = self._dtypes[self._place[name]]
        if not self._pandas:
            words = str(dtype)
            if dtype.is_numeric() or words in ("Boolean", "Null"):
                return NUMBER
            return words if words.startswith(("List", "Array", "Struct", "Object", "Binary")) else TEXT
        if hasattr(dtype, "categories"):
            return NUMBER if getattr(dtype.categories, "dtype", dtype).kind in NUMBERS else TEXT
        if getattr(dtype, "kind", "O") in NUMBERS:
            return NUMBER
        if getattr(dtype, "kind", "O") == "c":
            return str(dtype)
        return self._object_kind(name)

    def _object_kind(self, name: str) -> str:
        """Return what a column of objects holds: texts and the like, or containers, which cannot be used."""
        nested = next(
            (type(v).__name__ for v in self._column(name) if isinstance(v, list | dict | set | tuple | np.ndarray)),
            None,
        )
        return TEXT if nested is None else nested

    def is_single(self, name: str) -> bool:
        """Whether float32 holds a column of numbers."""
        dtype = self._dtypes[self._place[name]]
        if not self._pandas:
            return str(dtype) in ("Float16", "Float32")
        return getattr(dtype, "kind", "O") == "f" and getattr(dtype, "itemsize", 8) <= 4

    def pieces(self, wanted: Wanted, dtype: np.dtype[Any], rows: int) -> Iterator[Piece]:
        """Yield slices of the frame."""
        values = {name: self._values(name) for name in wanted.values}
        for start in range(0, self.n_rows, rows):
            part = slice(start, min(start + rows, self.n_rows))
            numbers = np.empty((part.stop - part.start, len(wanted.numbers)), dtype=dtype)
            for place, name in enumerate(wanted.numbers):
                numbers[:, place] = self._numbers(name, part, dtype)
            texts = {name: self._texts(name, part) for name in wanted.texts}
            yield Piece(numbers, texts, {name: array[part] for name, array in values.items()})

    def _numbers(self, name: str, part: slice, dtype: np.dtype[Any]) -> NDArray[Any]:
        column = self._column(name)[part] if not self._pandas else self._column(name).iloc[part]
        if not self._pandas:
            return np.array(column.cast(float).to_numpy(), dtype=dtype)
        if hasattr(column.dtype, "categories"):
            return np.array([np.nan if _is_missing(value) else value for value in column], dtype=dtype)
        return np.asarray(column.to_numpy(dtype=dtype, na_value=np.nan))

    def _objects(self, name: str, part: slice) -> list[Any]:
        column = self._column(name)
        found = column[part].to_list() if not self._pandas else column.iloc[part].tolist()
        return [None if _is_missing(value) else value for value in found]

    def _texts(self, name: str, part: slice) -> NDArray[Any]:
        texts = np.empty(part.stop - part.start, dtype=object)
        texts[:] = [None if value is None else str(value) for value in self._objects(name, part)]
        return texts

    def _values(self, name: str) -> NDArray[Any]:
        """Return ids or labels: NumPy's type where it has one and none is missing, else objects."""
        found = self._objects(name, slice(0, self.n_rows))
        kinds = {type(value) for value in found}
        for kind, dtypes in ((bool, (np.bool_,)), (int, (np.int64, np.uint64))):
            for dtype in dtypes if kinds <= {kind} else ():
                with contextlib.suppress(OverflowError):  # said which: NumPy would make floats of the largest ones
                    return np.array(found, dtype=dtype)
        if self.kind(name) == NUMBER and kinds <= {float, type(None)}:
            return np.array([np.nan if value is None else value for value in found], dtype=np.float64)
        values = np.empty(len(found), dtype=object)
        values[:] = found
        return values


def _counts(index: Any) -> bool:
    """Whether an index of pandas only numbers the rows, or has several levels."""
    return type(index).__name__ in ("RangeIndex", "MultiIndex")


def _is_missing(value: Any) -> bool:
    if value is None:
        return True
    if isinstance(value, float):
        return math.isnan(value)
    return type(value).__name__ in ("NAType", "NaTType")


# -- What columns and rows are called ---------------------------------------------------------------------------------


def column_names(given: Sequence[Any] | None, known: Iterable[Any] | None, X: Any, d: int) -> tuple[str, ...]:
    """Return the names of d columns: those given, those of the fit, those of the data frame X, or x0, x1, ..."""
    if given is not None:
        if not isinstance(given, Iterable):
            raise InputError(f"names must be one for each of the {d} columns; got {given!r}.")
        names = tuple(str(name) for name in given) if not isinstance(given, str) else (given,)
        if len(names) != d:
            raise InputError(f"names must be one for each of the {d} columns; got {len(names)}.")
        return names
    if known is not None:
        found = tuple(str(name) for name in known)
        if len(found) == d:  # the names of a fit to lagged or transformed rows are others than those asked for
            return found
    if is_frame(X) and len(X.columns) == d:
        return tuple(str(name) for name in X.columns)
    return tuple(f"x{column}" for column in range(d))


def row_labels(ids: Any, X: Any, m: int) -> NDArray[Any]:
    """Return what the m rows are called: ids, the index of a pandas frame, or their numbers.  # shape: (m,)"""
    if ids is None:
        return np.asarray(X.index) if is_frame(X) and hasattr(X, "iloc") else np.arange(m)
    if isinstance(ids, str) or not isinstance(ids, Iterable):
        raise InputError(f"ids must be one for each of the {m} rows; got {ids!r}.")
    given = list(ids)
    if len(given) != m:
        raise InputError(f"ids must be one for each of the {m} rows; got {len(given)}.")
    labels = np.empty(m, dtype=object)
    for row, name in enumerate(given):  # one by one: arrays would be made of tuples and lists
        labels[row] = name
    if len({type(name) for name in given}) == 1 and isinstance(given[0], str | int | float | np.generic):
        return np.array(given)
    return labels
