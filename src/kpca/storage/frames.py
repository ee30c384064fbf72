"""Rows in data frames, pandas and polars, known by what they can do: neither library is imported."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from kpca.errors import InputError
from kpca.storage.arrays import check_shape
from kpca.storage.base import NUMBERS, Indices, label


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
