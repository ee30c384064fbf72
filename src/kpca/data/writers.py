"""Tables out: numbers with columns of any type beside them, in any of the formats, all or nothing."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kpca._base.errors import InputError
from kpca._base.files import silence_stdout
from kpca.data.formats import FORMATS, by_name, check_format
from kpca.data.rows import ROWS, quoted
from kpca.data.sinks import write_failed

_NOTHING: Mapping[str, NDArray[Any]] = {}


class _Writer(Protocol):
    def write(self, chunk: NDArray[Any], extras: Mapping[str, NDArray[Any]]) -> None: ...

    def finish(self) -> None: ...

    def abandon(self) -> None: ...


class TableWriter:
    """Takes rows chunk by chunk within a `with` block; a file gets its name at the end of the block.

    If the block ends with an exception, Ctrl-C included, a file keeps its former content and nothing else stays behind.
    """

    def __init__(
        self, writer: _Writer, target: str, names: Sequence[str], extras: Sequence[str], *, is_stream: bool = False
    ) -> None:
        self._writer, self._target = writer, target
        self._names, self._extras = tuple(names), tuple(extras)
        self._is_stream, self._closed = is_stream, False
        self.wanted = True  # False once the program that reads our output has stopped reading
        self.n_rows = 0

    def write(self, numbers: Any, extras: Mapping[str, Any] = _NOTHING) -> None:
        """Append rows: `numbers` of shape (m, p), and m entries of each extra column."""
        if self._closed:
            raise InputError(f"{self._target} must be open to be written to; its `with` block has ended.")
        rows = np.asarray(numbers)
        if rows.ndim != 2 or rows.shape[1] != len(self._names):
            raise InputError(f"Rows for {self._target} must have shape (m, {len(self._names)}); got {rows.shape}.")
        if set(extras) != set(self._extras):
            raise InputError(
                f"Rows for {self._target} must come with the columns {self._listed(self._extras)}; got "
                f"{self._listed(extras)}: write all of them."
            )
        beside = {name: _column(extras[name]) for name in self._extras}
        for name, column in beside.items():
            if column.shape != (len(rows),):
                raise InputError(
                    f"Column {quoted(name)} for {self._target} must have {len(rows)} entries; got shape {column.shape}."
                )
        if self.wanted and len(rows):
            self._guarded(lambda: self._writer.write(rows, beside))
            self.n_rows += len(rows)

    @staticmethod
    def _listed(names: Any) -> str:
        return ", ".join(quoted(name) for name in names) or "none"

    def _guarded(self, work: Any) -> None:
        """Run something that writes; a reader that has gone away is no error, a full disk is one."""
        try:
            work()
        except BrokenPipeError as error:
            if not self._is_stream:
                raise write_failed(self._target, error, kept=True) from error
            self.wanted = False
            silence_stdout()
        except UnicodeEncodeError as error:
            raise InputError(
                f"Texts for {self._target} must be Unicode; {ascii(error.object)[:60]} is not (half of a pair of "
                "surrogates): replace such letters."
            ) from error
        except OSError as error:
            raise write_failed(self._target, error, kept=not self._is_stream) from error

    def __enter__(self) -> TableWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._closed:
            return
        self._closed = True
        if kind is not None:
            self._writer.abandon()
            return
        try:
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
    if found.ndim == 1 and found.dtype.kind in "biufM":
        return found
    objects = np.empty(len(values), dtype=object)
    for place, value in enumerate(values):
        objects[place] = value
    return objects


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
    kind = np.dtype(dtype)
    if kind not in (np.float32, np.float64):
        raise InputError(f"dtype must be float32 or float64; got {kind}: convert the numbers.")
    if not isinstance(path, str | os.PathLike):
        raise InputError(f"path must be the path of a file; got {type(path).__name__}.")
    target = os.fsdecode(path)
    if format is not None:
        check_format(format)
    found, compressed = _output_format(target, format)
    where = "standard output" if target == "-" else repr(target)
    _check_names(where, names, extras, found)
    if target != "-" and found != "zarr" and os.path.isdir(target):
        raise InputError(f"{target!r} must be a file or new; it is a folder: choose another name.")
    if target != "-" and os.path.lexists(target) and os.path.exists(target) and not _replaceable(target):
        raise InputError(f"{target!r} must be a file or new; it is a pipe or a device: write to - instead.")
    try:
        writer = _writer(target, found, names, extras, dtype=kind, compressed=compressed)
    except OSError as error:
        raise write_failed(where, error, kept=True) from error
    return TableWriter(writer, where, names, extras, is_stream=target == "-")


def _replaceable(path: str) -> bool:
    return os.path.isfile(path) or os.path.isdir(path)


def _output_format(target: str, format: str | None) -> tuple[str, bool]:
    if not target or "\0" in target:
        raise InputError(f"path must be the path of a file; got {target!r}: check it.")
    if target == "-":
        if format not in (None, "csv", "tsv"):
            raise InputError(f"Standard output must be a text table; got format {format!r}: give the name of a file.")
        return format or "csv", False
    said, compressed = by_name(target)
    found = format or said
    if found is None:
        ends = ", ".join(f".{name}" for name in FORMATS)
        raise InputError(f"The path of a table must end in {ends} (text also in .gz); got {target!r}: add one.")
    if compressed and found not in ("csv", "tsv"):
        raise InputError(f"{target!r} must not end in .gz, as only text tables may be compressed: leave it out.")
    return found, compressed


def _check_names(where: str, names: Sequence[str], extras: Sequence[str], format: str) -> None:
    both = [*extras, *names]
    if not both:
        raise InputError(f"A table for {where} must have at least one column; got none: name some.")
    if len(set(both)) < len(both):
        seen: set[str] = set()
        twice = next(name for name in both if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise InputError(f"The columns of {where} must have different names; {quoted(twice)} comes twice: rename one.")
    if format == "npy" and extras:
        raise InputError(
            f"{where} can hold one array of numbers only, and no column {quoted(extras[0])} beside it: write .npz, "
            ".csv or .parquet instead."
        )
    reserved = {"npz": (ROWS, "names"), "zarr": (ROWS,)}.get(format, ())
    for name in extras:
        if name in reserved or (
            format in ("npz", "zarr") and (not name or set("/\\") & set(name) or name.startswith("."))
        ):
            raise InputError(
                f"{where} cannot have an array called {quoted(name)} beside its rows: rename the column, or write "
                ".csv or .parquet."
            )


def _writer(
    target: str, format: str, names: list[str], extras: list[str], *, dtype: np.dtype[Any], compressed: bool
) -> _Writer:
    # Imported here: one is wanted of many, and their libraries take time to load.
    if format in ("csv", "tsv", "parquet", "feather", "arrow"):
        from kpca.data import arrow_writers

        if format in ("csv", "tsv"):
            stream = sys.stdout.buffer if target == "-" else None
            mark = "," if format == "csv" else "\t"
            return arrow_writers.TextWriter(
                target, dtype, names, extras, delimiter=mark, compressed=compressed, stream=stream
            )
        maker = arrow_writers.ParquetWriter if format == "parquet" else arrow_writers.FeatherWriter
        return maker(target, dtype, names, extras)
    if format in ("npy", "npz"):
        from kpca.data import npy

        if format == "npy":
            return _Plain(npy.NpyWriter(target, len(names), dtype))
        return npy.NpzWriter(target, names, dtype, extras)
    if format == "zarr":
        from kpca.data.zarr import ZarrWriter

        return ZarrWriter(target, len(names), dtype, names, extras)
    from kpca.data.h5ad_writer import H5adWriter

    return H5adWriter(target, names, extras=extras, dtype=dtype)


class _Plain:
    """A writer of numbers alone."""

    def __init__(self, writer: Any) -> None:
        self._inner = writer
        self.finish, self.abandon = writer.finish, writer.abandon

    def write(self, chunk: NDArray[Any], extras: Mapping[str, NDArray[Any]]) -> None:
        self._inner.write(chunk)
