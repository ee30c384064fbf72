"""Data frames as columns of any types: pandas and polars, known by what they can do."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca.storage.base import NUMBERS
from kpca.storage.columns import NUMBER, TEXT, Piece, Wanted


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
