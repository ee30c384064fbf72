"""Rows in data frames of any library, through narwhals: pandas, polars, Modin, cuDF and tables of pyarrow."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca._base.errors import InputError
from kpca._base.validation import check_times
from kpca.data.arrays import check_shape
from kpca.data.rows import NUMBER, TEXT, Indices, Layout, Rows, default_names, is_missing, label, rows_of

_SINGLE = ("Float16", "Float32")
_NESTED = ("List", "Array", "Struct", "Binary")


def is_any_frame(X: Any) -> bool:
    """Whether X is a data frame of any library, a table of pyarrow included."""
    if not hasattr(X, "columns"):
        return False
    from narwhals.dependencies import is_into_dataframe  # here: most X are arrays, and it takes time to load

    return bool(is_into_dataframe(X))


def is_frame(X: Any) -> bool:
    """Whether X is a data frame whose `columns` are names; those of a table of pyarrow are not."""
    if not is_any_frame(X):
        return False
    from narwhals.dependencies import is_pyarrow_table

    return not is_pyarrow_table(X)


def _names_of(X: Any) -> list[str]:
    return [str(name) for name in (X.columns if is_frame(X) else X.column_names)]


def _numbered(X: Any) -> Any:
    """Return a frame of narwhals whose columns are called by their places, as names may come twice."""
    import narwhals

    if hasattr(X, "set_axis"):  # pandas and its relatives
        X = X.set_axis([str(place) for place in range(X.shape[1])], axis="columns")
    elif hasattr(X, "rename_columns"):  # pyarrow
        X = X.rename_columns([str(place) for place in range(X.shape[1])])
    frame = narwhals.from_native(X, eager_only=True)
    return frame.rename({name: str(place) for place, name in enumerate(frame.columns)})


def _is_number(dtype: Any) -> bool:
    return bool(dtype.is_numeric()) or str(dtype) == "Boolean"


class FrameReader:
    """A data frame whose columns are all numbers; missing entries become NaN, for the check to find."""

    sparse = False

    def __init__(self, frame: Any) -> None:
        self.names: list[str] | None = _names_of(frame)
        self.n_rows, self.n_columns = check_shape(frame)
        self._frame = _numbered(frame)
        dtypes = list(self._frame.schema.values())
        check_times(self.names, dtypes)
        for column, dtype in enumerate(dtypes):
            if not _is_number(dtype):
                where, native = label(column, self.names), self._frame[:, column].to_native()
                kind = getattr(native, "dtype", None) or getattr(native, "type", dtype)  # as the library calls it
                raise InputError(f"X must hold numbers only; {where} is of type {kind}: encode or drop it.")
        self.dtype = np.dtype(np.float32 if all(str(dtype) in _SINGLE for dtype in dtypes) else np.float64)

    def _array(self, part: Any) -> Any:
        block = part.to_numpy()
        if block.dtype != object:
            return np.asarray(block, dtype=self.dtype)
        return np.column_stack([_floats(part[name], self.dtype) for name in part.columns])

    def blocks(self, rows: int) -> Iterator[Any]:
        for start in range(0, self.n_rows, rows):
            yield self._array(self._frame[start : start + rows])

    def take(self, indices: Indices) -> Any:
        return self._array(self._frame[indices])


def _floats(column: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return a column of narwhals as floats, missing entries as NaN."""
    values = column.to_numpy()
    if values.dtype == object or str(column.dtype) == "Categorical":
        values = [np.nan if is_missing(value) else value for value in column.to_list()]
    return np.asarray(values, dtype=dtype)


class FrameColumns:
    """The columns of a data frame. The index of a pandas frame is the id if it is more than a count of the rows."""

    def __init__(self, frame: Any) -> None:
        import narwhals

        self.names, self.hidden, self.n_rows = _names_of(frame), tuple[str, ...](), int(frame.shape[0])
        columns = _numbered(frame)
        self._columns = [columns[name] for name in columns.columns]
        index = narwhals.maybe_get_index(columns)
        # one that only numbers the rows, or has several levels, is no id
        if index is not None and type(index).__name__ not in ("RangeIndex", "MultiIndex"):
            name = index.name if isinstance(index.name, str) else "index"
            while name in self.names:
                name += "_"
            self.names, self.hidden = [name, *self.names], (name,)
            self._columns.insert(0, narwhals.from_native(index.to_series(), series_only=True))
        self._place = {name: place for place, name in reversed(list(enumerate(self.names)))}

    def _column(self, name: str) -> Any:
        return self._columns[self._place[name]]

    def kind(self, name: str) -> str:
        column = self._column(name)
        dtype = str(column.dtype)
        if _is_number(column.dtype):
            return NUMBER
        if dtype == "Categorical":
            return NUMBER if _is_number(column.cat.get_categories().dtype) else TEXT
        if dtype == "Unknown":
            return NUMBER if column.is_null().all() else str(column.to_native().dtype)
        if dtype == "Object":  # texts and the like, or containers, which cannot be used
            nested = (type(v).__name__ for v in column if isinstance(v, list | dict | set | tuple | np.ndarray))
            return next(nested, TEXT)
        return dtype if dtype.startswith(_NESTED) else TEXT

    def is_single(self, name: str) -> bool:
        return str(self._column(name).dtype) in _SINGLE

    def pieces(self, layout: Layout, dtype: np.dtype[Any], rows: int) -> Iterator[Rows]:
        values = {name: self._values(name) for name in layout.beside}
        for start in range(0, self.n_rows, rows):
            part = slice(start, min(start + rows, self.n_rows))
            numbers = np.empty((part.stop - part.start, len(layout.numbers)), dtype=dtype)
            for place, name in enumerate(layout.numbers):
                numbers[:, place] = _floats(self._column(name)[part], dtype)
            yield rows_of(layout, numbers, partial(self._texts, part), lambda name, part=part: values[name][part])  # type: ignore[misc]

    def _objects(self, name: str, part: slice) -> list[Any]:
        return [None if is_missing(value) else value for value in self._column(name)[part].to_list()]

    def _texts(self, part: slice, name: str) -> NDArray[Any]:
        texts = (None if value is None else str(value) for value in self._objects(name, part))
        return np.fromiter(texts, dtype=object)

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
        return np.fromiter(found, dtype=object)


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
    if is_any_frame(X) and X.shape[1] == d:
        return tuple(_names_of(X))
    return tuple(default_names(d))


def row_labels(ids: Any, X: Any, m: int) -> NDArray[Any]:
    """Return what the m rows are called: ids, the index of a pandas frame, or their numbers.  # shape: (m,)"""
    if ids is None:
        return np.asarray(X.index) if is_frame(X) and hasattr(X, "iloc") else np.arange(m)
    if isinstance(ids, str) or not isinstance(ids, Iterable):
        raise InputError(f"ids must be one for each of the {m} rows; got {ids!r}.")
    given = list(ids)
    if len(given) != m:
        raise InputError(f"ids must be one for each of the {m} rows; got {len(given)}.")
    if len({type(name) for name in given}) == 1 and isinstance(given[0], str | int | float | np.generic):
        return np.array(given)
    return np.fromiter(given, dtype=object)  # not `array`, which would make rows of tuples and lists
