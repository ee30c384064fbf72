"""Zarr folders. The only file that knows zarr."""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca._base.config import memory_budget
from kpca._base.errors import InputError
from kpca._base.files import temporary_name
from kpca.data.arrays import MatrixReader, SlicedReader, chosen_array
from kpca.data.rows import ROWS, default_names, needed, plain_values, unreadable

_MOST_ENTRIES = 1 << 48  # more than any disk holds


def _zarr(doing: str) -> Any:
    with needed(f"{doing} Zarr needs zarr", "io"):
        import zarr
    return zarr


def open_zarr(path: str, array: str | None = None) -> MatrixReader:
    """Open a Zarr array, or that array of a Zarr group which holds the rows, without reading them."""
    zarr = _zarr("Reading")
    try:
        node = zarr.open(path, mode="r")
        arrays = dict(sorted(node.arrays())) if isinstance(node, zarr.Group) else {"": node}
        for found in arrays.values():
            tuple(found.shape), tuple(found.chunks), np.dtype(found.dtype)
        kept = dict(node.attrs).get("names")
    except Exception as error:  # metadata that somebody else wrote can be wrong in any way
        raise unreadable(path, "Zarr array", error) from error
    shapes = {name: tuple(map(int, found.shape)) for name, found in arrays.items()}
    chosen = chosen_array(path, array, [name for name, shape in shapes.items() if len(shape) == 2], shapes)
    shape, chunks = shapes[chosen], tuple(map(int, arrays[chosen].chunks))
    entries, stored = math.prod(shape), math.prod(chunks) * int(np.dtype(arrays[chosen].dtype).itemsize)
    if entries > _MOST_ENTRIES or min(stored, entries * 8) > memory_budget():  # one stored chunk is held at least
        raise InputError(f"{path!r} has shape {shape} in chunks of {chunks}, which is too much: write it again.")
    reader = SlicedReader(arrays[chosen], repr(path))
    beside = (name for name, shape in shapes.items() if name != chosen and shape == (reader.n_rows,))
    reader.sides = {name: partial(_loaded, path, name, arrays[name]) for name in beside}
    if isinstance(kept, list) and len(kept) == reader.n_columns and all(isinstance(name, str) for name in kept):
        reader.names = kept
    return reader


def _loaded(path: str, name: str, array: Any) -> NDArray[Any]:
    try:
        return np.asarray(array[...])
    except Exception as error:  # whatever a codec makes of damaged bytes
        raise unreadable(f"{path}/{name}", "Zarr array", error) from error


class ZarrWriter:
    """A Zarr array, a stored chunk per chunk; with extras, held until the end, a group with its rows in `X`."""

    def __init__(self, path: str, names: Sequence[str], extras: Sequence[str], dtype: np.dtype[Any]) -> None:
        self._zarr = _zarr("Writing")
        self._target, self._temporary = os.path.realpath(path), temporary_name(path)
        if os.path.lexists(self._target) and not any(
            os.path.exists(os.path.join(self._target, mark)) for mark in ("zarr.json", ".zarray", ".zgroup")
        ):
            raise InputError(f"{path!r} must be new or a Zarr folder; it is something else: move it away.")
        self._n_columns, self._dtype, self._rows = len(names), dtype, 0
        self._attributes = {} if list(names) == default_names(len(names)) else {"names": list(names)}
        self._extras: dict[str, list[NDArray[Any]]] = {name: [] for name in extras}
        self._group: Any = None
        self._array: Any = None

    def _open(self, rows: int) -> Any:
        if self._array is None:
            shape, chunks = (0, self._n_columns), (max(rows, 1), self._n_columns)
            kept = {"attributes": self._attributes} if self._attributes else {}
            config = {"write_empty_chunks": True}
            how: dict[str, Any] = {"shape": shape, "chunks": chunks, "dtype": self._dtype, "config": config}
            if self._extras:
                self._group = self._zarr.open_group(self._temporary, mode="w-", **kept)
                self._array = self._group.create_array(ROWS, **how)
            else:
                self._array = self._zarr.create_array(self._temporary, **how, **kept)
        return self._array

    def write(self, chunk: NDArray[Any], extras: Mapping[str, NDArray[Any]]) -> None:
        array = self._open(len(chunk))
        array.resize((self._rows + len(chunk), self._n_columns))
        array[self._rows : self._rows + len(chunk)] = chunk
        self._rows += len(chunk)
        for name, held in self._extras.items():
            held.append(extras[name])

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
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self._temporary)
