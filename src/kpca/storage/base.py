"""What every kind of storage offers to the readers and writers above it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kpca.errors import InputError

Indices = NDArray[np.int64]
ROWS = "X"  # what the array of the rows is called in files of several arrays
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


def printable(text: object, most: int = 60) -> str:
    """Return text as a message may show it: on one line, without control characters, its middle left out if long."""
    letters = "".join(letter if letter.isprintable() else " " for letter in str(text)[: 4 * most])
    line = " ".join(letters.split())
    return line if len(line) <= most else f"{line[: most // 2]}…{line[-(most - most // 2 - 1) :]}"


def quoted(text: object, most: int = 60) -> str:
    """Return text as a message quotes it."""
    return repr(printable(text, most))


def unreadable(path: str, what: str, error: BaseException) -> InputError:
    """Return the sentence for a file that is not what its name says, or is cut short."""
    if isinstance(error, FileNotFoundError) and not os.path.exists(path):
        return InputError(
            f"{path!r} must stay where it is while it is read; it is gone, or the working folder is another one: put "
            "it back, or give its full path."
        )
    reason = printable(error, 160).rstrip(".") or type(error).__name__
    return InputError(f"{path!r} must be a whole {what}; it cannot be read ({reason}): write it again.")


def plain_values(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """Return ids or labels as one array without objects, which only unpickling could read again.

    Missing texts become empty, whole numbers with some missing floats with NaN, and what is mixed texts.
    """
    whole = np.concatenate(parts) if parts else np.empty(0)
    if whole.dtype.kind != "O":
        return whole.astype(str) if whole.dtype.kind == "T" else whole
    values = whole.tolist()
    kinds = {type(value) for value in values if value is not None}
    if kinds and kinds <= {bool, int, float} and all(abs(value) <= 2**53 for value in values if value is not None):
        return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    return np.array(["" if value is None else str(value) for value in values], dtype=str)
