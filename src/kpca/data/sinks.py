"""Rows out, in chunks: to an array, or to a file in any of the formats, which appears whole or not at all."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca._base.errors import InputError
from kpca._base.files import silence_stdout, write_failed
from kpca.data.arrays import release_pages
from kpca.data.formats import BY_NAME, FORMATS, Format, by_name, check_format
from kpca.data.rows import Writer, default_names, listed, quoted
from kpca.data.sources import Source

_NOTHING: Mapping[str, NDArray[Any]] = {}
_STREAM = "standard output"


class TableWriter:
    """Takes rows chunk by chunk within a `with` block; a file gets its name at the end of the block.

    If the block ends with an exception, Ctrl-C included, a file keeps its former content and nothing else stays behind;
    an array that was handed in keeps what was written until then.
    """

    def __init__(
        self, writer: Writer, target: str, n_columns: int, extras: Sequence[str] = (), *, n_rows: int | None = None
    ) -> None:
        self._writer, self._target = writer, target
        self._n_columns, self._extras = n_columns, tuple(extras)
        self.expected = n_rows  # None: any number
        self._is_stream, self._closed = target == _STREAM, False
        self._kept = not (self._is_stream or isinstance(writer, _ArrayWriter))  # whether a failure changes nothing
        self.wanted = True  # False once the program that reads our output has stopped reading
        self.n_rows = 0

    def write(self, numbers: Any, extras: Mapping[str, Any] = _NOTHING) -> None:
        """Append rows: `numbers` of shape (m, p), and m entries of each extra column."""
        if self._closed:
            raise InputError(f"{self._target} must be open to be written to; its `with` block has ended.")
        rows = np.asarray(numbers)
        if rows.ndim != 2 or rows.shape[1] != self._n_columns:
            raise InputError(f"Rows for {self._target} must have shape (m, {self._n_columns}); got {rows.shape}.")
        if set(extras) != set(self._extras):
            wanted, got = listed(self._extras) or "none", listed(list(extras)) or "none"
            raise InputError(f"Rows for {self._target} must come with the columns {wanted}; got {got}.")
        beside = {name: _column(extras[name]) for name in self._extras}
        for name, column in beside.items():
            if column.shape != (len(rows),):
                raise InputError(f"Column {quoted(name)} must have {len(rows)} entries; got shape {column.shape}.")
        if self.expected is not None and self.n_rows + len(rows) > self.expected:
            raise InputError(f"{self._target} must take {self.expected} rows; more than that were written.")
        if self.wanted and len(rows):
            self._guarded(lambda: self._writer.write(rows, beside))
            self.n_rows += len(rows)

    def _guarded(self, work: Any) -> None:
        """Run something that writes; a reader that has gone away is no error, a full disk is one."""
        try:
            work()
        except BrokenPipeError as error:
            if not self._is_stream:
                raise write_failed(self._target, error, kept=self._kept) from error
            self.wanted = False
            silence_stdout()
        except UnicodeEncodeError as error:
            raise InputError(f"Texts for {self._target} must be Unicode; {ascii(error.object)[:60]} is not.") from error
        except OSError as error:
            raise write_failed(self._target, error, kept=self._kept) from error

    def __enter__(self) -> TableWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *more: object) -> None:
        if self._closed:
            return
        self._closed = True
        if kind is not None:
            self._writer.abandon()
            return
        try:
            if self.expected not in (None, self.n_rows):
                raise InputError(f"{self._target} must get {self.expected} rows; only {self.n_rows} were written.")
            if self.wanted:
                self._guarded(self._writer.finish)
        except BaseException:
            self._writer.abandon()
            raise


def _column(values: Any) -> NDArray[Any]:
    """Return a column as an array of one dimension, whatever its entries are."""
    if isinstance(values, np.ndarray):
        return values
    try:
        found = np.asarray(values)
    except ValueError:
        found = np.empty(0)
    return found if found.ndim == 1 and found.dtype.kind in "biufM" else np.fromiter(values, dtype=object)


class _ArrayWriter:
    """Rows of an array that exists: NumPy, a memory map, Zarr, or anything that slices can be assigned to."""

    def __init__(self, array: Any) -> None:
        self._array, self._rows = array, 0

    def write(self, chunk: NDArray[Any], extras: Mapping[str, NDArray[Any]]) -> None:
        self._array[self._rows : self._rows + len(chunk)] = chunk
        self._rows += len(chunk)
        release_pages(self._array)  # of a memory map: what was written is the file's now

    def finish(self) -> None:
        if isinstance(self._array, np.memmap):
            self._array.flush()

    def abandon(self) -> None:
        """Leave the rows written so far: what they replaced is gone."""


def open_writer(
    path: str | os.PathLike[str],
    names: Sequence[str],
    *,
    extras: Sequence[str] = (),
    dtype: Any = np.float64,
    format: str | None = None,
) -> TableWriter:
    """Return a writer of rows to a file in one of the formats that tables are read from.

    Parameters
    ----------
    path : path
        Its end says the format; "-" is standard output, as CSV. A file that is there is replaced at the end.
    names : sequence of str
        Of the columns of numbers.
    extras : sequence of str
        Of columns of any type beside them, which come first: id, label, and so on.
    dtype : float32 or float64
        Of the numbers.
    format : str, optional
        One of "csv tsv npy npz parquet feather arrow zarr h5ad", if the path does not say it.
    """
    names, extras = [str(name) for name in names], [str(name) for name in extras]
    if np.dtype(dtype) not in (np.float32, np.float64):
        raise InputError(f"dtype must be float32 or float64; got {np.dtype(dtype)}: convert the numbers.")
    target = os.fsdecode(path) if isinstance(path, str | os.PathLike) else None
    if not target or "\0" in target:
        got = type(path).__name__ if target is None else f"{target!r}: check it"
        raise InputError(f"path must be the path of a file; got {got}.")
    check_format(format)
    said, compressed = ("csv", False) if target == "-" else by_name(target)
    if target == "-" and format not in (None, "csv", "tsv"):
        raise InputError(f"Standard output must be a text table; got format {format!r}: give the name of a file.")
    if not (kind := format or said):
        ends = ", ".join(f".{name}" for name in FORMATS)
        told = f"The path of a table must end in {ends} (text also in .gz); got {target!r}: choose one of these."
        raise InputError(told)
    if compressed and kind not in ("csv", "tsv"):
        raise InputError(f"{target!r} must not end in .gz, as only text tables may be compressed: leave it out.")
    found = BY_NAME[kind]
    where = _STREAM if target == "-" else repr(target)
    _check_names(where, names, extras, found)
    folder = os.path.isdir(target)
    fits = os.path.isfile(target) or not os.path.exists(target) or (folder and found.name == "zarr")
    if target != "-" and not fits:
        what = "a folder: choose another name" if folder else "a pipe or a device: write to - instead"
        raise InputError(f"{target!r} must be a file or new; it is {what}.")
    try:
        writer = found.writer(target, names, extras, np.dtype(dtype))
    except OSError as error:
        raise write_failed(where, error, kept=True) from error
    return TableWriter(writer, where, len(names), extras)


def _check_names(where: str, names: Sequence[str], extras: Sequence[str], format: Format) -> None:
    both = [*extras, *names]
    if not both:
        raise InputError(f"A table for {where} must have at least one column; got none: name some.")
    for name, count in Counter(both).items():
        if count > 1:
            raise InputError(
                f"The columns of {where} must have different names; {quoted(name)} comes twice: rename one."
            )
    if format.one_array and extras:
        raise InputError(f"{where} can hold numbers only, no column {quoted(extras[0])}: write .npz or .csv.")
    for name in extras if format.reserved is not None else ():
        if name in format.reserved or not name or set("/\\") & set(name) or name.startswith("."):  # type: ignore[operator]
            raise InputError(f"{where} cannot have an array called {quoted(name)}: rename it, or write .csv.")


def open_sink(
    target: Any, n_rows: int | None, n_columns: int, dtype: Any, *, names: Sequence[str] | None = None
) -> TableWriter:
    """Return a writer of rows of `n_columns` numbers.

    Parameters
    ----------
    target : array, memory map, Zarr array or path
        An array of shape (n_rows, n_columns), or a path in one of the formats of `open_writer`.
    n_rows : int or None
        Number of rows that will come; None if unknown: a file grows, an array must get as many rows as it has.
    dtype : float32 or float64
        Type of the numbers in a file.
    names : sequence of str, optional
        Names of the columns of a file; x0, x1, ... if not given.
    """
    names = default_names(n_columns) if names is None else [str(name) for name in names]
    if len(names) != n_columns:
        raise InputError(f"names must be one per column, {n_columns} in all; got {len(names)}.")
    if isinstance(target, str | os.PathLike):
        writer = open_writer(target, names, dtype=dtype)
        writer.expected = n_rows
        return writer
    if not (hasattr(target, "shape") and hasattr(target, "__setitem__")):
        raise InputError(f"The target must be an array or a path; got {type(target).__name__}.")
    shape = tuple(target.shape)
    if len(shape) != 2 or shape[1] != n_columns or n_rows not in (None, shape[0]):
        wanted = f"({'n' if n_rows is None else n_rows}, {n_columns})"
        raise InputError(f"The target array must have shape {wanted}; got {shape}.")
    if np.dtype(target.dtype) not in (np.float32, np.float64):
        raise InputError(f"The target array must be of type float32 or float64; got {target.dtype}.")
    return TableWriter(_ArrayWriter(target), "the target array", n_columns, n_rows=shape[0])


def scores_in_chunks(model: Any, transform: Any, source: Source, rows: int | None = None) -> Iterator[NDArray[Any]]:
    """Yield what `transform` makes of each chunk; the names of the columns are compared with the model's once."""
    expected = getattr(model, "feature_names_in_", None)
    named = expected is not None and source.names is not None
    if named and [str(name) for name in expected] != source.names:  # type: ignore[union-attr]
        raise InputError("X must have the columns the model was fitted on, in that order: select and order them.")
    for chunk in source.chunks(rows):
        with warnings.catch_warnings():
            if named:  # chunks are plain arrays
                warnings.filterwarnings("ignore", message="X does not have valid feature names")
            scores = np.asarray(transform(chunk))
        if scores.ndim != 2 or len(scores) != chunk.shape[0]:
            raise InputError(f"model.transform must give one row of scores per row of X; got shape {scores.shape}.")
        yield scores
