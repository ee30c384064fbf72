"""What every kind of storage offers to the readers and writers above it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kpca.errors import InputError

Indices = NDArray[np.int64]
NUMBERS = "biuf"  # NumPy's kinds of real numbers


class Reader(Protocol):
    """Rows in storage: a known number of them, in blocks or by number, as they are stored."""

    n_rows: int
    n_columns: int
    dtype: np.dtype[Any]  # what the numbers become: float32 or float64
    sparse: bool
    names: list[str] | None

    def blocks(self, rows: int) -> Iterator[Any]:
        """Yield all rows in order, in blocks that suit the storage and hold about `rows` rows."""

    def take(self, indices: Indices) -> Any:
        """Return the rows of these numbers, which ascend without repeats."""


class Writer(Protocol):
    """A place that takes rows in order; nothing can be seen there before `finish`, unless it is an array."""

    def write(self, chunk: NDArray[Any]) -> None:
        """Append rows."""

    def finish(self) -> None:
        """Make the rows visible under the name of the target."""

    def abandon(self) -> None:
        """Leave the target as it was; nothing stays behind."""


def float_dtype(dtype: np.dtype[Any], where: str = "X") -> np.dtype[Any]:
    """Return float32 for floats of up to 32 bits, float64 for other real numbers, or refuse."""
    if dtype.kind == "c":
        raise InputError(f"{where} must hold real numbers; got {dtype}: give real and imaginary parts as columns.")
    if dtype.kind not in NUMBERS:
        raise InputError(f"{where} must hold numbers only; got {dtype}: encode or drop what is no number.")
    return np.dtype(np.float32 if dtype.kind == "f" and dtype.itemsize <= 4 else np.float64)


def label(column: int, names: list[str] | None) -> str:
    """Return how a message speaks of a column."""
    return f"column {column}" + (f" ({names[column]!r})" if names and column < len(names) else "")


def default_names(n_columns: int) -> list[str]:
    """Return the names of columns that nobody named."""
    return [f"x{column}" for column in range(n_columns)]


def unreadable(path: str, what: str, error: BaseException) -> InputError:
    """Return the sentence for a file that is not what its name says, or is cut short."""
    reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    return InputError(f"{path!r} must be a whole {what}; it cannot be read ({reason}): write it again.")
