"""Scores as an H5AD file: X holds them, obs what comes with the rows. The file appears whole or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from kpca._base.errors import InputError
from kpca._base.files import temporary_name
from kpca._base.text import data_frame
from kpca.data.h5ad import OBS_NAMES, anndata, h5py, is_missing

# A column of one of these names becomes the names of the cells.
INDEX_NAMES = (OBS_NAMES, "id", "index", "_index")
_CHUNK_ROWS = 1000
_EMPTY = ("layers", "obsm", "obsp", "uns", "varm", "varp")


class _Held:
    """A file for HDF5 to write to that never fails: what went wrong is kept, for the caller to raise.

    HDF5 ends the process when it closes a file after a write that failed, on a full disk for example.
    """

    def __init__(self, path: str) -> None:
        self._file = open(path, "x+b", buffering=0)  # noqa: SIM115 (closed with the HDF5 file)
        self.error: OSError | None = None

    def check(self) -> None:
        """Raise what has gone wrong so far."""
        if self.error is not None:
            raise self.error

    def close(self, *, lasting: bool) -> None:
        """Close the file, once all of it is on the disk if that is wanted."""
        if lasting:
            os.fsync(self._file.fileno())
        self._file.close()

    # what h5py asks of a file object

    def write(self, data: Any) -> int:
        """Write all, or remember why not."""
        left = memoryview(data).cast("B")
        size = len(left)
        try:
            while left and self.error is None:
                left = left[self._file.write(left) :]
        except OSError as error:
            self.error = error
        return size

    def read(self, size: int) -> bytes:
        """Read; h5py knows file objects by it."""
        buffer = bytearray(size)
        self.readinto(buffer)
        return bytes(buffer)

    def readinto(self, buffer: Any) -> int:
        """Read; what could not be written is read as zeros."""
        view = memoryview(buffer).cast("B")
        count = self._file.readinto(view) or 0
        view[count:] = bytes(len(view) - count)
        return len(view)

    def truncate(self, size: int | None = None) -> int:
        """Set the size, or remember why not."""
        try:
            return self._file.truncate(size)
        except OSError as error:
            self.error = self.error or error
            return size or 0

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go to a place."""
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        """Return the place."""
        return self._file.tell()

    def flush(self) -> None:
        """Nothing waits: the file has no buffer."""


class H5adWriter:
    """Takes rows of numbers, with other columns beside them, and writes them as an annotated matrix.

    Parameters
    ----------
    path : of the new file; one of that name is replaced at the end.
    names : of the number columns; they become the names of the variables.
    extras : names of the columns beside them, which become columns of obs; the first called obs_names, id or index
        becomes the names of the rows.
    dtype : of the numbers.
    """

    def __init__(
        self, path: str | os.PathLike[str], names: Sequence[str], *, extras: Sequence[str] = (), dtype: Any = np.float64
    ) -> None:
        self._anndata, library = anndata("Writing H5AD"), h5py("Writing H5AD")
        self._target = os.fspath(path)
        self._names, self._extras = list(names), list(extras)
        for name in self._extras:
            if "/" in name or not name:
                raise InputError(
                    f"Columns of {self._target!r} must have a name without '/', which H5AD keeps for itself; got "
                    f"{name!r}: rename it, or write .parquet or .csv."
                )
        self._index = next((name for name in self._extras if name in INDEX_NAMES), None)
        self._columns: dict[str, list[NDArray[Any]]] = {name: [] for name in self._extras}
        self._temporary = temporary_name(self._target)
        try:
            self._held = _Held(self._temporary)
            self._file = library.File(self._held, "w")
            width = len(self._names)
            self._X = self._file.create_dataset(
                "X", shape=(0, width), maxshape=(None, width), chunks=(_CHUNK_ROWS, max(width, 1)), dtype=dtype
            )
        except OSError as error:
            self.abandon()
            raise self._failed(error) from error

    def write(self, numbers: NDArray[Any], extras: Mapping[str, NDArray[Any]] | None = None) -> None:
        """Append rows: numbers of shape (m, len(names)), and m values of each other column."""
        given = extras or {}
        if set(given) != set(self._extras) or any(len(given[name]) != len(numbers) for name in self._extras):
            raise InputError(
                f"Each chunk must come with its {len(self._extras)} columns {self._extras}, of its length."
            )
        start = self._X.shape[0]
        try:
            self._X.resize(start + len(numbers), axis=0)
            self._X[start:] = numbers
            self._file.flush()
            self._held.check()
        except OSError as error:
            raise self._failed(error) from error
        for name, parts in self._columns.items():
            parts.append(np.asarray(given[name]))

    def finish(self) -> None:
        """Write what belongs to the rows, and put the file in the place of the target."""
        write = self._anndata.io.write_elem
        try:
            for item, attributes in ((self._file, ("anndata", "0.1.0")), (self._X, ("array", "0.2.0"))):
                item.attrs["encoding-type"], item.attrs["encoding-version"] = attributes
            write(self._file, "obs", self._obs())
            write(self._file, "var", data_frame({}, index=self._names))
            for name in _EMPTY:
                write(self._file, name, {})
            self._file.close()
            self._held.check()
            self._held.close(lasting=True)
            os.replace(self._temporary, os.path.realpath(self._target))
        except OSError as error:
            self.abandon()
            raise self._failed(error) from error

    def abandon(self) -> None:
        """Remove the file; the target is as it was."""
        if hasattr(self, "_file"):
            self._file.close()
        if hasattr(self, "_held"):
            self._held.close(lasting=False)
        with contextlib.suppress(FileNotFoundError):
            os.remove(self._temporary)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.finish()
        else:
            self.abandon()

    def _obs(self) -> Any:
        """Return the columns beside the numbers as a frame whose index is the names of the rows."""
        joined = {name: _joined(parts) for name, parts in self._columns.items()}
        count = self._X.shape[0]
        names = [str(number) for number in range(count)]
        if self._index is not None:
            names = ["" if value is None else str(value) for value in joined.pop(self._index)]
        frame = data_frame({}, index=names)
        for name, values in joined.items():
            frame[name] = values
            if values.dtype == object:
                frame[name] = frame[name].astype("category")  # which may have values missing
        return frame

    def _failed(self, error: OSError) -> InputError:
        reason = " ".join(str(error.strerror or error).split()).rstrip(".")
        return InputError(f"{self._target!r} cannot be written ({reason}): free some space, or choose another place.")


def _joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """Return all values of a column: numbers and truth values as they are, all else as texts or None."""
    whole = np.concatenate(parts) if parts else np.empty(0)
    if whole.dtype.kind in "biuf":
        return whole
    texts = np.empty(len(whole), dtype=object)
    for number, value in enumerate(whole):
        texts[number] = None if is_missing(value) else str(value)
    return texts
