"""What every kind of storage offers to the readers and writers above it."""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kpca._base.errors import InputError, InPython, Setting
from kpca._base.validation import NUMBERS_OF_TIMES

Indices = NDArray[np.int64]
ROWS = "X"  # what the array of the rows is called in files of several arrays
NUMBERS = "biuf"  # NumPy's kinds of real numbers
# Where columns get their roles, for messages about columns that name such a parameter.
OF_TABLES = InPython(" (of kpca.io.open_table or table_of)")


# -- What storage gives: a matrix, or columns of any types; and what takes rows ---------------------------------------

Sides = Mapping[str, Callable[[], NDArray[Any]]]


class Reader(Protocol):
    """A matrix in storage, read in blocks or by row number; `MatrixReader` adds arrays beside the rows."""

    n_rows: int
    n_columns: int
    dtype: np.dtype[Any]  # what the numbers become: float32 or float64
    sparse: bool
    names: list[str] | None

    def blocks(self, rows: int) -> Iterator[Any]:
        """Yield all rows in order, in blocks that suit the storage and hold about `rows` rows."""

    def take(self, indices: Indices) -> Any:
        """Return the rows of these numbers, which ascend without repeats."""


NUMBER, TEXT = "number", "text"


class Columns(Protocol):
    """Named columns of any types in storage: text tables, Parquet, Arrow files, data frames."""

    names: list[str]
    hidden: tuple[str, ...]  # columns that pandas keeps the names of the rows in
    n_rows: int

    def kind(self, name: str) -> str:
        """Return NUMBER, TEXT, or the type of a column that is neither and cannot be used."""

    def is_single(self, name: str) -> bool:
        """Whether float32 holds a column of numbers."""

    def pieces(self, layout: Layout, dtype: np.dtype[Any], rows: int) -> Iterator[Rows]:
        """Yield the columns of a layout, all rows in order, in pieces that suit the storage, of about `rows` rows."""


class Writer(Protocol):
    """A place that takes rows in order; nothing can be seen there before `finish`, unless it is an array."""

    def write(self, chunk: NDArray[Any], extras: Mapping[str, NDArray[Any]]) -> None:
        """Append rows, and the entries of the columns beside them."""

    def finish(self) -> None:
        """Make the rows visible under the name of the target."""

    def abandon(self) -> None:
        """Leave the target as it was; nothing stays behind."""


def float_dtype(dtype: np.dtype[Any], where: str = "X") -> np.dtype[Any]:
    """Return float32 for floats of up to 32 bits, float64 for other real numbers, or refuse."""
    if dtype.kind == "c":
        raise InputError(f"{where} must hold real numbers; got {dtype}: give real and imaginary parts as columns.")
    if dtype.kind in "mM":
        raise InputError(f"{where} must hold numbers only; got {dtype}: {NUMBERS_OF_TIMES}.")
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


def listed(names: Sequence[object], most: int = 12, *, raw: bool = False) -> str:
    """Return names as messages list them, the first ones only where there are many."""
    shown = [str(name) if raw else quoted(name) for name in names[:most]]
    return ", ".join(shown) + (f" and {len(names) - most:,} more" if len(names) > most else "")


def hint(given: str, known: Sequence[str]) -> str:
    """Return how a sentence about an unknown name ends: the one that was meant, or those there are."""
    same = [name for name in known if name.lower() == given.strip().lower()]
    close = same or difflib.get_close_matches(given, known[:10_000], n=1)
    if close:
        return f": did you mean {quoted(close[0])}?"
    return f": it has {listed(known, 8) or 'none'}."


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, NaT or the NA of pandas."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, np.datetime64 | np.timedelta64):
        return bool(np.isnat(value))
    return isinstance(value, float | np.floating) and math.isnan(value)


@contextlib.contextmanager
def needed(what: str, extra: str) -> Iterator[None]:
    """Say in a sentence, if an optional library is not installed, what needs it and which extra brings it."""
    try:
        yield
    except ImportError as error:
        raise InputError(f"{what}: pip install 'kpca[{extra}]'.") from error


def unreadable(path: str, what: str, error: BaseException | str) -> InputError:
    """Return the sentence for a file that is gone, closed to us, not what its name says, or cut short."""
    if isinstance(error, FileNotFoundError) and not os.path.exists(path):
        return InputError(f"{path!r} must stay where it is while it is read; it is gone: put it back.")
    if isinstance(error, PermissionError):
        return InputError(f"{path!r} must be readable; permission is denied: change its permissions.")
    reason = printable(error, 160).rstrip(".") or type(error).__name__
    return InputError(f"{path!r} must be a whole {what}; it cannot be read ({reason}): write it again.")


def plain_values(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """Return ids or labels without objects: missing texts empty, missing whole numbers NaN, mixed values as texts."""
    whole = np.concatenate(parts) if parts else np.empty(0)
    if whole.dtype.kind != "O":
        return whole.astype(str) if whole.dtype.kind == "T" else whole
    values = whole.tolist()
    kinds = {type(value) for value in values if value is not None}
    if kinds and kinds <= {bool, int, float} and all(abs(value) <= 2**53 for value in values if value is not None):
        return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    return np.array(["" if value is None else str(value) for value in values], dtype=str)


def stacked(parts: list[Any]) -> Any:
    """Return rows one after another as one array, or as CSR if the first ones are sparse."""
    if len(parts) == 1:
        return parts[0]
    if sparse.issparse(parts[0]):
        return sparse.vstack(parts, format="csr")
    return np.concatenate([part.toarray() if sparse.issparse(part) else part for part in parts])


# -- What a table gives: rows whose columns have roles. Files, frames and folders of images all come in this form -----

Texts = NDArray[np.object_]


@dataclass(frozen=True)
class Layout:
    """The roles of the columns of a table; a column has one role at most, and none if it was left out."""

    numbers: tuple[str, ...]
    categories: tuple[str, ...] = ()  # texts and dates: no numbers, and neither text, id nor label
    text: str | None = None  # documents
    id: str | None = None
    label: str | None = None

    @property
    def texts(self) -> tuple[str, ...]:
        """The columns that hold texts: categories and documents."""
        return self.categories if self.text is None else (*self.categories, self.text)

    @property
    def beside(self) -> list[str]:
        """The columns that are not analysed: id and label."""
        return [name for name in (self.id, self.label) if name is not None]


@dataclass(frozen=True)
class Rows:
    """Some rows of a table, or all of them. Missing numbers are NaN, missing texts None."""

    layout: Layout
    numbers: Any  # float32 or float64, C-ordered or CSR; shape: (m, p)
    categories: Mapping[str, Texts] = field(default_factory=dict)  # one array of m texts for each of layout.categories
    documents: Texts | None = None  # shape: (m,)
    ids: NDArray[Any] | None = None  # shape: (m,)
    labels: NDArray[Any] | None = None  # numbers or texts; shape: (m,)
    first: int = 0  # the number of the first of these rows in the table, for messages

    def __len__(self) -> int:
        return int(self.numbers.shape[0])


def rows_of(layout: Layout, numbers: Any, text: Callable[[str], Any], value: Callable[[str], Any]) -> Rows:
    """Return rows whose other columns are found by their names: as texts, or as values for id and label."""
    return Rows(
        layout,
        numbers,
        {name: text(name) for name in layout.categories},
        None if layout.text is None else text(layout.text),
        None if layout.id is None else value(layout.id),
        None if layout.label is None else value(layout.label),
    )


class Table(Protocol):
    """A file, frame or folder whose rows can be read again and again, in chunks or all at once."""

    name: str  # what messages call it: mostly a path
    layout: Layout
    n_rows: int  # found by a first reading where the file does not say it
    dtype: np.dtype[Any]  # of the numbers: float32 or float64
    sparse: bool  # whether the numbers come as CSR
    image_shape: tuple[int, int] | None  # height and width, where a row holds the grey levels of a picture

    def chunks(self, rows: int | None = None) -> Iterator[Rows]:
        """Yield the rows in order, in pieces of `rows` rows (about 8 MiB if None), the last one shorter."""

    def whole(self) -> Rows:
        """Return all rows at once."""

    def digest(self) -> str:
        """Return the SHA-256 of what the table was read from, in hexadecimal digits."""


# -- Rows of tables: checked, put together and cut anew ---------------------------------------------------------------


def check_rows(rows: object, default: int) -> int:
    """Return the number of rows of a chunk."""
    if rows is None:
        return default
    if isinstance(rows, bool) or not isinstance(rows, Integral) or rows < 1:
        raise InputError(f"rows must be None or a whole number of rows from 1; got {rows!r}.")
    return int(rows)


def check_finite(rows: Rows, name: str) -> bool:
    """Return whether numbers are missing (NaN); refuse infinite ones, and name the first place."""
    values = rows.numbers.data if sparse.issparse(rows.numbers) else rows.numbers
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(np.sum(values, dtype=np.float64)):  # false alarms only cost the second look
            return False
    infinite = np.isinf(values)
    if infinite.any():
        raise InputError(
            f"{name} must hold finite numbers; got infinity in {entry(rows, infinite)}",
            remedy=("correct or remove such rows, or leave the column out with ", Setting("drop"), OF_TABLES),
        )
    return bool(np.isnan(values).any())


def entry(rows: Rows, marked: NDArray[np.bool_]) -> str:
    """Return how a message speaks of the first marked number; marks have the form of the stored values."""
    if sparse.issparse(rows.numbers):
        position = int(np.flatnonzero(marked)[0])
        row = int(np.searchsorted(rows.numbers.indptr, position, side="right")) - 1
        column = int(rows.numbers.indices[position])
    else:
        row, column = (int(number) for number in np.argwhere(marked)[0])
    return f"{place(rows, row)} of column {quoted(rows.layout.numbers[column])}"


def place(rows: Rows, position: int) -> str:
    """Return how a message speaks of a row."""
    known = "counted from 0" if rows.ids is None else f"id {quoted(rows.ids[position])}"
    return f"row {rows.first + position} ({known})"


def regrouped(
    pieces: Iterator[Any], rows: int, cut: Callable[[Any, slice], Any], join: Callable[[list[Any]], Any]
) -> Iterator[Any]:
    """Cut pieces of any length into chunks of `rows` rows; a piece that is one already is passed on as it is."""
    waiting: list[Any] = []
    held = 0
    for piece in pieces:
        start, length = 0, len(piece) if isinstance(piece, Rows) else int(piece.shape[0])
        while start < length:
            stop = min(start + rows - held, length)
            waiting.append(piece if stop - start == length else cut(piece, slice(start, stop)))
            held += stop - start
            start = stop
            if held == rows:
                yield join(waiting)
                waiting, held = [], 0
    if held:
        yield join(waiting)


def taken_in_passing(blocks: Iterator[Any], indices: Indices) -> Any:
    """Return the rows of these numbers, which ascend, from blocks that hold all rows; stop at the last of them."""
    parts: list[Any] = []
    first = 0
    for block in blocks:
        here = slice(*np.searchsorted(indices, [first, first + block.shape[0]]))
        if here.start < here.stop or not parts:
            parts.append(block[indices[here] - first])
        first += block.shape[0]
        if here.stop == len(indices):
            break
    return stacked(parts)


def part(rows: Rows, chosen: slice | NDArray[Any]) -> Rows:
    """Return some of the rows: a slice, a mask or positions. `first` is kept right for slices only."""
    categories = {name: values[chosen] for name, values in rows.categories.items()}
    documents, ids, labels = (None if one is None else one[chosen] for one in (rows.documents, rows.ids, rows.labels))
    first = rows.first + (chosen.start or 0 if isinstance(chosen, slice) else 0)
    return Rows(rows.layout, rows.numbers[chosen], categories, documents, ids, labels, first)


def joined(parts: list[Rows]) -> Rows:
    """Return rows one after another as one."""
    if len(parts) == 1:
        return parts[0]
    head, numbers = parts[0], stacked([part.numbers for part in parts])
    categories = {name: np.concatenate([part.categories[name] for part in parts]) for name in head.categories}
    beside = ("documents", "ids", "labels")
    documents, ids, labels = (together([getattr(part, name) for part in parts]) for name in beside)
    return Rows(head.layout, numbers, categories, documents, ids, labels, head.first)


def together(parts: Sequence[NDArray[Any] | None]) -> NDArray[Any] | None:
    """Return ids or labels of all pieces, None where there are none."""
    arrays = [part for part in parts if part is not None]
    return np.concatenate(arrays) if arrays else None


def digest_of_rows(table: Table) -> str:
    """Return the SHA-256 of the columns that are analysed: rows in memory have no bytes of a file."""
    total = hashlib.sha256(repr(table.layout).encode())
    for rows in table.chunks(1 << 16):
        numbers = rows.numbers
        for array in (numbers.indptr, numbers.indices, numbers.data) if sparse.issparse(numbers) else (numbers,):
            total.update(np.ascontiguousarray(array).view(np.uint8).data if array.size else b"")
        for texts in (*rows.categories.values(), rows.documents):
            total.update(repr(None if texts is None else texts.tolist()).encode("utf-8", "backslashreplace"))
    return total.hexdigest()
