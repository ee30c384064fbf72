"""Zarr folders. The only file that knows zarr."""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca.errors import InputError
from kpca.storage.arrays import SlicedReader
from kpca.storage.base import Reader, unreadable
from kpca.storage.files import temporary_name


def _zarr(doing: str) -> Any:
    try:
        import zarr
    except ImportError as error:
        raise InputError(f"{doing} Zarr needs zarr: pip install 'kpca[io]'.") from error
    return zarr


def open_zarr(path: str) -> Reader:
    """Open a Zarr array, or the one array of a Zarr group."""
    zarr = _zarr("Reading")
    try:
        node = zarr.open(path, mode="r")
        arrays = [array for _, array in node.arrays()] if isinstance(node, zarr.Group) else [node]
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise unreadable(path, "Zarr array", error) from error
    if len(arrays) != 1:
        raise InputError(f"{path!r} must hold one array; it holds {len(arrays)}: give the path of the one you mean.")
    return SlicedReader(arrays[0])


class ZarrWriter:
    """A Zarr array whose stored chunks are the chunks that are written."""

    def __init__(self, path: str, n_columns: int, dtype: np.dtype[Any]) -> None:
        self._zarr = _zarr("Writing")
        self._target, self._temporary = os.path.realpath(path), temporary_name(path)
        if os.path.lexists(self._target) and not any(
            os.path.exists(os.path.join(self._target, mark)) for mark in ("zarr.json", ".zarray", ".zgroup")
        ):
            raise InputError(
                f"{path!r} must be new or a Zarr folder to be replaced; it is something else: move it away."
            )
        self._n_columns, self._dtype, self._rows = n_columns, dtype, 0
        self._array: Any = None

    def _open(self, rows: int) -> Any:
        if self._array is None:
            shape, chunks = (0, self._n_columns), (max(rows, 1), self._n_columns)
            self._array = self._zarr.create_array(
                self._temporary, shape=shape, chunks=chunks, dtype=self._dtype, config={"write_empty_chunks": True}
            )
        return self._array

    def write(self, chunk: NDArray[Any]) -> None:
        """Append rows."""
        array = self._open(len(chunk))
        array.resize((self._rows + len(chunk), self._n_columns))
        array[self._rows : self._rows + len(chunk)] = chunk
        self._rows += len(chunk)

    def finish(self) -> None:
        """Put the new folder in the place of the old one, which returns if that fails."""
        self._open(1)
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
