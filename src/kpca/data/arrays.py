"""Rows of numbers: NumPy, memory maps, SciPy sparse, whatever else can be sliced, and columns that are all numbers."""

from __future__ import annotations

import contextlib
import mmap
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from scipy import sparse

from kpca._base.errors import InputError, InPython, Setting
from kpca._base.validation import check_mask
from kpca.data.rows import (
    NUMBER,
    TEXT,
    Columns,
    Indices,
    Layout,
    Sides,
    float_dtype,
    label,
    printable,
    quoted,
    taken_in_passing,
)

_ROWS_TAKEN_AT_ONCE = 256  # of a memory map: each row may bring in pages of its own
_OR_ALONE = ", for instance, or save it alone"
_WIDEST_BLOCK = 4  # a block is at most this many times longer than asked, to save decoding a stored chunk again


def release_pages(X: Any) -> None:
    """Give back the resident pages of a memory map, which is read again when touched; not of a copy-on-write one."""
    owner = X
    while isinstance(owner, np.ndarray):
        if isinstance(owner, np.memmap) and owner.mode == "c":
            return
        if isinstance(owner, np.memmap) and isinstance(owner.base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            with contextlib.suppress(ValueError):  # the map was closed by its owner: there is nothing to give back
                owner.base.madvise(mmap.MADV_DONTNEED)
            return
        owner = owner.base


def plain(block: Any) -> Any:
    """Return a block as a NumPy array, in memory; a lazy one is computed, one with masked entries refused."""
    if hasattr(block, "compute"):
        block = block.compute()
    check_mask(block)
    if sparse.issparse(block):
        return block
    try:
        return np.asarray(block)
    except (TypeError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise InputError(f"X must give NumPy arrays when sliced; got {type(block).__name__} ({reason}).") from error


def check_shape(X: Any, where: str = "X") -> tuple[int, int]:
    """Return the shape if it is that of a table with rows and columns, or refuse."""
    shape = tuple(X.shape)
    if len(shape) != 2:
        raise InputError(f"{where} must be 2-D; got shape {shape}: use reshape(-1, 1) for a single column.")
    try:
        n_rows, n_columns = (int(length) for length in shape)
    except (TypeError, ValueError) as error:
        raise InputError(f"{where} must know its shape; got {shape}: compute it first, or give its chunks.") from error
    if n_rows < 1 or n_columns < 1:
        raise InputError(f"{where} must have at least one row and one column; got shape {shape}: fill it.")
    return n_rows, n_columns


def chosen_array(path: str, array: str | None, matrices: list[str], shapes: Mapping[str, tuple[int, ...]]) -> str:
    """Return which of the arrays of a file holds the rows: the one that is named, or the only matrix."""
    if array is not None:
        if array not in shapes:
            has = ", ".join(quoted(name, 30) for name in list(shapes)[:20])
            raise InputError(f"{path!r} must hold the array that is named; it has no {quoted(array)}: it has {has}.")
        return array
    if len(matrices) == 1:
        return matrices[0]
    if not matrices and len(shapes) == 1:
        return next(iter(shapes))  # the reader says what is wrong with it
    has = ", ".join(f"{quoted(name, 30)} of shape {shape}" for name, shape in list(shapes.items())[:20]) or "none"
    one = (matrices or list(shapes) or ["X"])[0]
    raise InputError(
        f"{path!r} must hold one 2-D array of numbers, or be told which holds the rows; it holds {has}",
        remedy=("name one by ", InPython(f"kpca.io.open_table(..., array={one!r})", Setting("array", one)), _OR_ALONE),
    )


class MatrixReader:
    """A NumPy array, memory map or sparse matrix (CSR, or converted once); storage reads, and adds to it, as it can."""

    names: list[str] | None = None
    sides: Sides = MappingProxyType({})  # arrays beside the rows, which can be id or label
    beside: Mapping[str, str] = MappingProxyType({})  # role -> the side that has it if no other is named
    sparse = False
    image_shape: tuple[int, int] | None = None

    def __init__(self, X: Any, where: str = "X", dtype: Any = None) -> None:
        self.n_rows, self.n_columns = check_shape(X, where)
        self.dtype = float_dtype(X.dtype if dtype is None else dtype, where)
        self.sparse = bool(sparse.issparse(X))
        self._X, self._where = X.tocsr() if self.sparse else X, where

    def blocks(self, rows: int) -> Iterator[Any]:
        """Yield slices, of a NumPy array views; the pages of a memory map are given back once a block is done with."""
        for start in range(0, self.n_rows, rows):
            try:
                yield plain(self._X[start : start + rows])
            finally:
                release_pages(self._X)

    def take(self, indices: Indices) -> Any:
        if self.sparse:
            return self._X[indices]
        taken = np.empty((len(indices), self.n_columns), dtype=self._X.dtype)
        for start in range(0, len(indices), _ROWS_TAKEN_AT_ONCE):
            part = slice(start, start + _ROWS_TAKEN_AT_ONCE)
            taken[part] = plain(self._X[indices[part]])
            release_pages(self._X)
        return taken


class SlicedReader(MatrixReader):
    """Anything with `shape` and slices of rows: Zarr arrays, h5py datasets, dask arrays."""

    def __init__(self, X: Any, where: str = "X") -> None:
        check_shape(X, where)
        try:
            dtype = np.dtype(X.dtype)
        except (AttributeError, TypeError):  # an array of another library names its types differently
            dtype = plain(X[:1]).dtype
        super().__init__(X, where, dtype)
        # how many rows are stored, hence decoded, together
        try:
            first = X.chunks[0]
            self._stored = max(int(first[0] if isinstance(first, tuple) else first), 1)
        except (AttributeError, TypeError, ValueError, IndexError):  # not stored in chunks
            self._stored = 1

    def _slice(self, start: int, stop: int) -> Any:
        try:
            block = plain(self._X[start:stop])
        except InputError:
            raise
        except Exception as error:  # a stored chunk that cannot be decoded: codecs raise what they like
            reason = printable(error, 160).rstrip(".") or type(error).__name__
            told = f"Rows {start} to {stop - 1} of {self._where} must be readable; that failed ({reason})"
            raise InputError(told, remedy="check how they are stored") from error
        if block.shape[:1] != (stop - start,):
            raise InputError(f"{self._where} must not change while it is read; got shape {block.shape}: read it again.")
        return block

    def blocks(self, rows: int) -> Iterator[Any]:
        """Yield slices that end where stored chunks end."""
        step = min(max(rows, self._stored), _WIDEST_BLOCK * rows)
        step = step // self._stored * self._stored or step
        for start in range(0, self.n_rows, step):
            yield self._slice(start, min(start + step, self.n_rows))

    def take(self, indices: Indices) -> Any:
        """Return these rows, reading only the stored chunks they lie in."""
        taken = np.empty((len(indices), self.n_columns), dtype=self.dtype)
        done = 0
        while done < len(indices):
            start = int(indices[done])
            stop = (start // self._stored + 1) * self._stored
            end = done + int(np.searchsorted(indices[done:], stop))
            block = self._slice(start, int(indices[end - 1]) + 1)
            taken[done:end] = block[indices[done:end] - start]
            done = end
        return taken


class NumbersReader:
    """Columns of storage that are all numbers; one that keeps pandas' names of the rows is passed over."""

    sparse = False

    def __init__(self, table: Any, path: str) -> None:
        self._table: Columns = table
        names = [name for name in table.names if name not in table.hidden]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise InputError(f"The columns of {path!r} must have different names; {quoted(twice)} comes twice.")
        if hasattr(table, "scan"):
            table.scan(names)
            names = [name for name in names if not table.is_blank(name)]
        if table.n_rows < 1 or not names:
            raise InputError(f"{path!r} must have at least one row and one column; got {table.n_rows} row(s).")
        for column, name in enumerate(names):
            if (kind := table.kind(name)) != NUMBER:
                slip = getattr(table, "slip", lambda _: None)(name)
                if slip:
                    raise InputError(f"{slip}: correct it or drop the column.")
                held = "holds texts or dates" if kind == TEXT else f"is of type {kind}"
                said = f"{path!r} must hold numbers only; {label(column, names)} {held}"
                raise InputError(said, remedy="encode or drop it")
        self.names: list[str] | None = names
        self.n_rows, self.n_columns = table.n_rows, len(names)
        self.dtype = np.dtype(np.float32 if all(map(table.is_single, names)) else np.float64)
        self._layout = Layout(tuple(names))

    def blocks(self, rows: int) -> Iterator[Any]:
        for piece in self._table.pieces(self._layout, self.dtype, rows):
            yield piece.numbers

    def take(self, indices: Indices) -> Any:
        if hasattr(self._table, "take"):
            return self._table.take(self._layout, self.dtype, indices)
        return taken_in_passing(self.blocks(1 << 13), indices)
