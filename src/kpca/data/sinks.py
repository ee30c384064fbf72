"""Writing rows in chunks: to an array, or to a file that appears whole or not at all."""

from __future__ import annotations

import errno
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca._base.errors import InputError
from kpca._base.files import NewFile
from kpca.data.arrays import release_pages
from kpca.data.rows import Writer, default_names
from kpca.data.sources import Source, as_source

_FULL = {errno.ENOSPC, errno.EDQUOT}
_SUFFIXES = (".npy", ".zarr", ".parquet")


class Sink:
    """Takes rows chunk by chunk within a `with` block; a file gets its name at the end of the block.

    If the block ends with an exception, a file keeps its former content and nothing else stays behind. An array that
    was handed in keeps what was written until then.
    """

    def __init__(self, writer: Writer, target: str, n_rows: int | None, n_columns: int) -> None:
        self._writer, self._target = writer, target
        self._kept = not isinstance(writer, _ArrayWriter)  # whether a failure leaves the target as it was
        self._n_rows, self._n_columns = n_rows, n_columns
        self._written = 0
        self._closed = False

    def write(self, chunk: Any) -> None:
        """Append rows, of shape (m, n_columns)."""
        if self._closed:
            raise InputError(f"{self._target} must be open to be written to; its `with` block has ended.")
        rows = np.asarray(chunk)
        if rows.ndim != 2 or rows.shape[1] != self._n_columns:
            raise InputError(f"Rows written must have shape (m, {self._n_columns}); got {rows.shape}.")
        if self._n_rows is not None and self._written + len(rows) > self._n_rows:
            raise InputError(f"{self._target} must take {self._n_rows} rows; more than that were written.")
        try:
            self._writer.write(rows)
        except OSError as error:
            raise write_failed(self._target, error, kept=self._kept) from error
        self._written += len(rows)

    def __enter__(self) -> Sink:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed = True
        if kind is not None:
            self._writer.abandon()
            return
        try:
            if self._n_rows is not None and self._written != self._n_rows:
                raise InputError(f"{self._target} must get {self._n_rows} rows; only {self._written} were written.")
            self._writer.finish()
        except BaseException as failure:
            self._writer.abandon()
            if isinstance(failure, OSError):
                raise write_failed(self._target, failure, kept=self._kept) from failure
            raise


def write_failed(target: str, error: OSError, *, kept: bool) -> InputError:
    """Return the sentence for a target that could not be written."""
    after = "what was there before is unchanged" if kept else "it holds the rows written until then"
    if error.errno in _FULL:
        return InputError(
            f"The disk must have room for {target}, and it is full: make room or choose another place; {after}."
        )
    return InputError(f"{target} must be writable; the system says: {error.strerror or error}; {after}.")


def write_whole(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file that appears whole or not at all; a failure leaves what was there as it was."""
    target = os.fsdecode(path)
    if os.path.isdir(target):
        raise InputError(f"{target!r} must be a file or new; it is a folder: choose another name.")
    new = None
    try:
        new = NewFile(target)
        new.file.write(content)
        new.finish()
        new = None
    except OSError as error:
        raise write_failed(repr(target), error, kept=True) from error
    finally:
        if new is not None:
            new.abandon()


class _ArrayWriter:
    """Rows of an array that exists: NumPy, a memory map, Zarr, or anything that slices can be assigned to."""

    def __init__(self, array: Any) -> None:
        self._array, self._rows = array, 0

    def write(self, chunk: NDArray[Any]) -> None:
        self._array[self._rows : self._rows + len(chunk)] = chunk
        self._rows += len(chunk)
        release_pages(self._array)  # of a memory map: what was written is the file's now

    def finish(self) -> None:
        if isinstance(self._array, np.memmap):
            self._array.flush()

    def abandon(self) -> None:
        """Leave the rows written so far: what they replaced is gone."""


def open_sink(
    target: Any, n_rows: int | None, n_columns: int, dtype: Any, *, names: Sequence[str] | None = None
) -> Sink:
    """Return a sink for rows of `n_columns` numbers.

    Parameters
    ----------
    target : array, memory map, Zarr array or path
        An array of shape (n_rows, n_columns), or a path that ends in .npy, .zarr or .parquet.
    n_rows : int or None
        Number of rows that will come; None if unknown: a file grows, an array must get as many rows as it has.
    dtype : float32 or float64
        Type of the numbers in a file.
    names : sequence of str, optional
        Names of the columns of a Parquet file; x0, x1, ... if not given.
    """
    dtype = np.dtype(dtype)
    if dtype not in (np.float32, np.float64):
        raise InputError(f"dtype must be float32 or float64; got {dtype}.")
    names = default_names(n_columns) if names is None else [str(name) for name in names]
    if len(names) != n_columns:
        raise InputError(f"names must be one per column, {n_columns} in all; got {len(names)}.")
    if not isinstance(target, (str, os.PathLike)):
        return _array_sink(target, n_rows, n_columns)
    path = os.fsdecode(target)
    try:
        return Sink(_file_writer(path, n_columns, dtype, names), repr(path), n_rows, n_columns)
    except OSError as error:
        raise write_failed(repr(path), error, kept=True) from error


def _array_sink(target: Any, n_rows: int | None, n_columns: int) -> Sink:
    if not (hasattr(target, "shape") and hasattr(target, "__setitem__")):
        raise InputError(f"The target must be an array or a path; got {type(target).__name__}.")
    shape = tuple(target.shape)
    if len(shape) != 2 or shape[1] != n_columns or n_rows not in (None, shape[0]):
        wanted = f"({'n' if n_rows is None else n_rows}, {n_columns})"
        raise InputError(f"The target array must have shape {wanted}; got {shape}.")
    if np.dtype(target.dtype) not in (np.float32, np.float64):
        raise InputError(f"The target array must be of type float32 or float64; got {target.dtype}.")
    return Sink(_ArrayWriter(target), "the target array", shape[0], n_columns)


def _file_writer(path: str, n_columns: int, dtype: np.dtype[Any], names: Sequence[str]) -> Writer:
    from kpca.data import arrow_writers, npy, zarr

    suffix = os.path.splitext(path.rstrip("/"))[1].lower()
    if suffix not in _SUFFIXES:
        raise InputError(f"The path of a target must end in {', '.join(_SUFFIXES)}; got {path!r}.")
    if suffix != ".zarr" and os.path.isdir(path):
        raise InputError(f"{path!r} must be a file or new; it is a folder: choose another name.")
    if suffix == ".npy":
        return npy.NpyWriter(path, n_columns, dtype)
    if suffix == ".zarr":
        return zarr.ZarrWriter(path, n_columns, dtype)
    if len(set(names)) < len(names):
        raise InputError(f"The columns of {path!r} must have different names; got {', '.join(names)}: rename some.")
    return arrow_writers.ParquetWriter(path, dtype, names)


def write_scores(model: Any, X: Any, out: Any, rows: int | None = None) -> Any:
    """Transform X chunk by chunk and write the scores to `out`; neither need fit into memory.

    Parameters
    ----------
    model : fitted estimator with `transform`
    X : array, frame, path or iterable of chunks
        Whatever `kpca.chunks.as_source` takes.
    out : array, memory map, Zarr array or path
        An array of the shape of the scores, or a path that ends in .npy, .zarr or .parquet; a file appears whole or
        not at all.
    rows : int, optional
        Rows per chunk; about 8 MiB of X if not given.

    Returns
    -------
    out, as it was given.
    """
    source = as_source(X)
    parts = scores_in_chunks(model, model.transform, source, rows)
    scores = next(parts)
    names = [str(name) for name in model.get_feature_names_out()] if hasattr(model, "get_feature_names_out") else None
    with open_sink(out, source.n_rows, scores.shape[1], scores.dtype, names=names) as sink:
        sink.write(scores)
        for part in parts:
            sink.write(part)
    return out


def scores_in_chunks(
    model: Any, transform: Callable[[Any], Any], source: Source, rows: int | None = None
) -> Iterator[NDArray[Any]]:
    """Yield what `transform` makes of each chunk; the names of the columns are compared with the model's once."""
    named = _check_names(model, source)
    for chunk in source.chunks(rows):
        yield _transformed(transform, chunk, named)


def _check_names(model: Any, source: Source) -> bool:
    """Whether the model and X both name their columns; different names are refused."""
    expected = getattr(model, "feature_names_in_", None)
    if expected is None or source.names is None:
        return False
    if [str(name) for name in expected] != source.names:
        raise InputError(
            "X must have the columns the model was fitted on, in that order; it has others: select and order them."
        )
    return True


def _transformed(transform: Callable[[Any], Any], chunk: Any, named: bool) -> NDArray[Any]:
    with warnings.catch_warnings():
        if named:  # they were compared once for all chunks, which are plain arrays
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
        scores = np.asarray(transform(chunk))
    if scores.ndim != 2 or len(scores) != chunk.shape[0]:
        raise InputError(f"model.transform must give one row of scores per row of X; got shape {scores.shape}.")
    return scores
