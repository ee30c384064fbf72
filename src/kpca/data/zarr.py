"""Zarr folders. The only file that knows zarr."""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca._base.errors import InputError
from kpca._base.files import temporary_name
from kpca.data.arrays import SlicedReader
from kpca.data.rows import ROWS, Reader, plain_values, unreadable

_MOST_ENTRIES = 1 << 48  # more than any disk holds


def _zarr(doing: str) -> Any:
    try:
        import zarr
    except ImportError as error:
        raise InputError(f"{doing} Zarr needs zarr: pip install 'kpca[io]'.") from error
    return zarr


@dataclass(frozen=True)
class ZarrNode:
    """What lies at a path: arrays by name, one of them without a name if the path is an array."""

    path: str
    arrays: dict[str, Any]
    attributes: dict[str, Any]

    def names(self, n_columns: int) -> list[str] | None:
        """Return the names of the columns, where they are kept beside the rows."""
        kept = self.attributes.get("names")
        if isinstance(kept, list) and len(kept) == n_columns and all(isinstance(name, str) for name in kept):
            return kept
        return None

    def load(self, name: str) -> NDArray[Any]:
        """Return all of an array."""
        try:
            return np.asarray(self.arrays[name][...])
        except Exception as error:  # whatever a codec makes of damaged bytes
            raise unreadable(f"{self.path}/{name}", "Zarr array", error) from error

    def reader(self, name: str, limit: int | None = None) -> Reader:
        """Return an array as rows; what would take too much memory for one stored chunk is refused."""
        array = self.arrays[name]
        entries = math.prod(int(length) for length in array.shape)
        stored = math.prod(int(length) for length in array.chunks) * int(np.dtype(array.dtype).itemsize)
        if entries > _MOST_ENTRIES or (limit is not None and min(stored, entries * 8) > limit):
            raise InputError(
                f"{self.path!r} must be an array that can be read; it says that its shape is {tuple(array.shape)}, "
                f"stored in chunks of {tuple(array.chunks)}, which is too much: write it in smaller chunks."
            )
        return SlicedReader(array, repr(self.path))


def look_at_zarr(path: str) -> ZarrNode:
    """Open what lies at a path, without reading its rows."""
    zarr = _zarr("Reading")
    try:
        node = zarr.open(path, mode="r")
        arrays = dict(node.arrays()) if isinstance(node, zarr.Group) else {"": node}
        for array in arrays.values():
            tuple(array.shape), tuple(array.chunks), np.dtype(array.dtype)
        return ZarrNode(path, arrays, dict(node.attrs))
    except Exception as error:  # metadata that somebody else wrote can be wrong in any way
        raise unreadable(path, "Zarr array", error) from error


def open_zarr(path: str, limit: int | None = None) -> Reader:
    """Open a Zarr array, or the one array of a Zarr group."""
    node = look_at_zarr(path)
    if len(node.arrays) != 1:
        raise InputError(
            f"{path!r} must hold one array; it holds {len(node.arrays)}: give the path of the one you mean."
        )
    reader = node.reader(next(iter(node.arrays)), limit)
    reader.names = node.names(reader.n_columns)
    return reader


class ZarrWriter:
    """A Zarr array whose stored chunks are the chunks that are written; with extras a group, its rows in `X`.

    Extras are held until the end: how long the longest text is, is known only then.
    """

    def __init__(
        self,
        path: str,
        n_columns: int,
        dtype: np.dtype[Any],
        names: Sequence[str] | None = None,
        extras: Sequence[str] = (),
    ) -> None:
        self._zarr = _zarr("Writing")
        self._target, self._temporary = os.path.realpath(path), temporary_name(path)
        if os.path.lexists(self._target) and not any(
            os.path.exists(os.path.join(self._target, mark)) for mark in ("zarr.json", ".zarray", ".zgroup")
        ):
            raise InputError(
                f"{path!r} must be new or a Zarr folder to be replaced; it is something else: move it away."
            )
        self._n_columns, self._dtype, self._rows = n_columns, dtype, 0
        self._attributes = {} if names is None else {"names": list(names)}
        self._extras: dict[str, list[NDArray[Any]]] = {name: [] for name in extras}
        self._group: Any = None
        self._array: Any = None

    def _open(self, rows: int) -> Any:
        if self._array is None:
            shape, chunks = (0, self._n_columns), (max(rows, 1), self._n_columns)
            kept = {"attributes": self._attributes} if self._attributes else {}
            how: dict[str, Any] = {"shape": shape, "chunks": chunks, "dtype": self._dtype}
            if self._extras:
                self._group = self._zarr.open_group(self._temporary, mode="w-", **kept)
                self._array = self._group.create_array(ROWS, config={"write_empty_chunks": True}, **how)
            else:
                self._array = self._zarr.create_array(
                    self._temporary, config={"write_empty_chunks": True}, **how, **kept
                )
        return self._array

    def write(self, chunk: NDArray[Any], extras: Mapping[str, NDArray[Any]] | None = None) -> None:
        """Append rows."""
        array = self._open(len(chunk))
        array.resize((self._rows + len(chunk), self._n_columns))
        array[self._rows : self._rows + len(chunk)] = chunk
        self._rows += len(chunk)
        for name, held in self._extras.items():
            held.append(np.asarray((extras or {})[name]))

    def finish(self) -> None:
        """Put the new folder in the place of the old one, which returns if that fails."""
        self._open(1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # zarr says that its types of text are young
            for name, held in self._extras.items():
                self._group.create_array(name, data=plain_values(held))
        if not os.path.lexists(self._target):
            os.rename(self._temporary, self._target)
            return
        aside = temporary_name(self._target)
        os.rename(self._target, aside)
        try:
            os.rename(self._temporary, self._target)
        except OSError:
            os.rename(aside, self._target)
            raise
        shutil.rmtree(aside)

    def abandon(self) -> None:
        """Remove what was written."""
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self._temporary)
