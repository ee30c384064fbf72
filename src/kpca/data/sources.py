"""Reading rows in chunks: any array, frame, file or stream becomes a Source, which need not fit into memory.

A source gives the same chunks for the same rows, however they are stored: chunks are cut at multiples of a number of
rows that depends on the number of columns and the type alone. So results have the same bits whether the rows come from
memory, a Parquet folder or a generator.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator
from numbers import Integral
from typing import Any, Protocol, runtime_checkable

import numpy as np
from scipy import sparse

from kpca._base.errors import InputError
from kpca._base.validation import check_finite, check_loaded
from kpca.data.arrays import MatrixReader, NumbersReader, SlicedReader
from kpca.data.formats import BY_NAME, by_name, format_of, unknown_suffix
from kpca.data.frames import FrameReader, is_any_frame
from kpca.data.rows import Indices, Reader, check_rows, float_dtype, quoted, regrouped, stacked

CHUNK_BYTES = 8 << 20
_MOST_ROWS = 1 << 16  # thin data: what is computed from a chunk is wider than the chunk
_STORED_PER_ROW = 256  # entries a sparse row is taken to have, if it has that many columns
_KEYS_AT_ONCE = 1 << 20


@runtime_checkable
class Source(Protocol):
    """Rows that are read in chunks. Chunks may be views of the data: never write into them."""

    n_rows: int | None  # None while it is unknown (a stream that has not been read to its end)
    n_columns: int
    dtype: np.dtype[Any]  # of the chunks: float32 (for float16 and float32) or float64 (for all other numbers)
    sparse: bool  # whether chunks are CSR
    repeatable: bool  # whether `chunks` may be called again
    random_access: bool  # whether `rows` works
    names: list[str] | None  # of the columns, if they have any

    def chunks(self, rows: int | None = None) -> Iterator[Any]:
        """Yield C-ordered arrays or CSR of exactly `rows` rows, in order, the last one shorter."""

    def batches(self) -> Iterator[Any]:
        """Yield rows as they come: the pieces of a stream, cut only where they are long; else as `chunks` does."""

    def rows(self, indices: Any) -> Any:
        """Return the rows of these numbers, in the order given."""


def default_rows(n_columns: int, dtype: Any, *, sparse: bool = False) -> int:
    """Return the rows of a chunk of about 8 MiB: from the shape and the type alone, so that results repeat."""
    itemsize = np.dtype(dtype).itemsize
    row_bytes = min(n_columns, _STORED_PER_ROW) * (itemsize + 4) if sparse else n_columns * itemsize
    return max(1, min(CHUNK_BYTES // int(row_bytes), _MOST_ROWS))


def in_memory(X: Any) -> bool:
    """Return True for arrays, sparse matrices, frames and lists of rows, which are taken whole; False for the rest."""
    if isinstance(X, list | tuple):
        return not (X and all(_is_reader_material(piece) and len(getattr(piece, "shape", (0, 0))) == 2 for piece in X))
    if isinstance(X, np.memmap | str | os.PathLike):
        return False
    if isinstance(X, np.ndarray) or sparse.issparse(X) or is_any_frame(X):
        return True
    if hasattr(X, "chunks"):  # a source, or an array that lies in chunks (Zarr, h5py, dask)
        return False
    return hasattr(X, "__array__") or not isinstance(X, Iterable) or isinstance(X, bytes | dict)


def as_source(X: Any) -> Source:
    """Return X as a source of chunks.

    X may be a NumPy array or memory map, a SciPy sparse matrix, anything with `shape` and slices of rows (Zarr, h5py,
    dask), a data frame, the path of a file or folder in any of the formats of `kpca.data.formats` whose columns are
    all numbers, or an iterable of such pieces. A generator can be read once; an iterable that starts anew, such as a
    list, again and again.
    """
    if isinstance(X, Source):
        return X
    check_loaded(X)
    if isinstance(X, (list, tuple)) and not X:
        raise InputError("X must have at least one row; got an empty list.")
    if isinstance(X, (list, tuple)) and in_memory(X):  # rows that are lists of numbers
        try:
            X = np.asarray(X)
        except (TypeError, ValueError) as error:
            raise InputError("X must be 2-D: a list of rows of equal length, or a list of 2-D chunks.") from error
    if _is_reader_material(X):
        return ReaderSource(_reader(X))
    if isinstance(X, Iterable) and not isinstance(X, (bytes, dict)):
        return ReaderSource(_Stream(X))
    raise InputError(f"X must be an array, a frame, a path, or an iterable of 2-D chunks; got {type(X).__name__}.")


def _is_reader_material(X: Any) -> bool:
    return isinstance(X, (str, os.PathLike)) or (hasattr(X, "shape") and hasattr(X, "__getitem__"))


def _reader(X: Any) -> Reader:
    """Open one array, frame or file."""
    if isinstance(X, (str, os.PathLike)):
        path = os.fsdecode(X)
        if by_name(path)[0] is None and not os.path.lexists(path):  # a text that is no path, more likely
            raise unknown_suffix(path)
        format = format_of(path)
        opened = BY_NAME[format].open(path)
        if format == "npz" and opened.sides:  # a label, perhaps, of which nobody here would know
            has = ", ".join(quoted(name, 30) for name in opened.sides)
            said = f"{path!r} must hold one array or a SciPy sparse matrix to be read as rows; it holds {has}, too"
            raise InputError(said, remedy="save the rows alone, or open it by kpca.io.open_table")
        return NumbersReader(opened, path) if hasattr(opened, "kind") else opened
    if sparse.issparse(X) or isinstance(X, np.ndarray):
        return MatrixReader(X)
    if is_any_frame(X):
        return FrameReader(X)
    if _is_reader_material(X):
        return SlicedReader(X)
    check_loaded(X, "A chunk")
    raise InputError(f"A chunk must be a 2-D array, a sparse matrix, a data frame or a path; got {type(X).__name__}.")


class ReaderSource:
    """The source of what a reader gives: its rows are checked and cut; by number if the reader can take them so."""

    def __init__(self, reader: Reader | _Stream) -> None:
        self._reader = reader
        self.n_rows, self.n_columns, self.dtype = reader.n_rows, reader.n_columns, reader.dtype
        self.sparse, self.names = reader.sparse, reader.names
        self.repeatable: bool = getattr(reader, "repeatable", True)
        self.random_access = hasattr(reader, "take")

    def chunks(self, rows: int | None = None) -> Iterator[Any]:
        """Yield checked chunks, cut anew: where blocks and pieces end does not matter."""
        rows = check_rows(rows, default_rows(self.n_columns, self.dtype, sparse=self.sparse))
        return regrouped(self._checked(self._reader.blocks(rows)), rows, lambda block, part: block[part], stacked)

    def batches(self) -> Iterator[Any]:
        """Yield checked pieces of a stream as they come, without waiting for a chunk to fill."""
        if self.random_access:
            return self.chunks()
        return self._checked(self._reader.blocks(default_rows(self.n_columns, self.dtype, sparse=self.sparse)))

    def _checked(self, blocks: Iterator[Any]) -> Iterator[Any]:
        first = 0
        for block in blocks:
            yield self._as_given(block, np.arange(first, first + block.shape[0]))
            first += block.shape[0]
        if self.n_rows is not None and first != self.n_rows:
            raise InputError(f"X must give the same rows each time it is read; it gave {self.n_rows}, then {first}.")
        self.n_rows = first

    def _as_given(self, block: Any, numbers: Indices) -> Any:
        """Return a block as floats in C order or CSR, all finite; `numbers` are those of its rows in the source."""
        if len(block.shape) != 2 or block.shape[1] != self.n_columns:
            raise InputError(f"All rows must have {self.n_columns} columns; got a block of shape {block.shape}.")
        float_dtype(block.dtype)
        if sparse.issparse(block):
            block = block.tocsr().astype(self.dtype, copy=False)
        else:
            block = np.ascontiguousarray(block, dtype=self.dtype)
        check_finite(block, self.names, numbers)
        return block

    def rows(self, indices: Any) -> Any:
        """Return checked rows, in the order asked for."""
        if isinstance(self._reader, _Stream):
            raise InputError("Rows of an iterable of chunks cannot be asked for by number: give an array or a file.")
        wanted = np.asarray(indices)
        if wanted.ndim != 1 or wanted.dtype.kind not in "iu":
            raise InputError(f"Row numbers must be a list of whole numbers; got {wanted.dtype} of {wanted.ndim}-D.")
        n = self._reader.n_rows
        if wanted.size and not (wanted.min() >= 0 and wanted.max() < n):
            raise InputError(f"Row numbers must be from 0 to {n - 1}; got {wanted.min()} to {wanted.max()}.")
        distinct, inverse = np.unique(wanted.astype(np.int64), return_inverse=True)
        taken = self._as_given(self._reader.take(distinct), distinct)
        return taken if np.array_equal(distinct, wanted) else taken[inverse]


class _Stream:
    """Pieces that come one after another, as one reader; how many rows there are is known at the end."""

    def __init__(self, pieces: Iterable[Any]) -> None:
        self._pieces = pieces
        iterator = iter(pieces)
        self.repeatable = iterator is not pieces
        piece = next(iterator, None)
        if piece is None:
            raise InputError("X must have at least one chunk of rows; the iterable gave none.")
        first = _reader(piece)
        self.n_columns, self.dtype, self.sparse, self.names = first.n_columns, first.dtype, first.sparse, first.names
        known = isinstance(pieces, (list, tuple)) and all(hasattr(piece, "shape") for piece in pieces)
        self.n_rows = sum(int(piece.shape[0]) for piece in pieces) if known else None
        # A generator whose first piece is taken out already; the chain lets go of that piece once it has been read.
        self._started = None if self.repeatable else itertools.chain([piece], iterator)

    def blocks(self, rows: int) -> Iterator[Any]:
        """Start anew, or refuse."""
        if self.repeatable:
            return self._read(iter(self._pieces), rows)
        if self._started is None:
            raise InputError("These chunks can be read once and have been: give a list or a file, not a generator.")
        pieces, self._started = self._started, None
        return self._read(pieces, rows)

    def _read(self, pieces: Iterator[Any], rows: int) -> Iterator[Any]:
        for number, piece in enumerate(pieces):
            reader = _reader(piece)
            if reader.n_columns != self.n_columns:
                told = f"All chunks must have {self.n_columns} columns; chunk {number} has {reader.n_columns}."
                raise InputError(told)
            if reader.sparse != self.sparse:
                raise InputError(f"All chunks must be dense or all sparse; chunk {number} differs: convert it.")
            if not np.can_cast(reader.dtype, self.dtype):
                told = f"All chunks must fit the type of the first, {self.dtype}; chunk {number} is {reader.dtype}"
                raise InputError(told, remedy="convert it")
            if reader.names is not None and self.names is not None and reader.names != self.names:
                raise InputError(f"All chunks must have the column names of the first; those of chunk {number} differ.")
            yield from reader.blocks(rows)


def sample_rows(source: Source, count: int, seed: int) -> Any:
    """Return `count` distinct rows, all subsets equally likely, in the order of the source; all if there are fewer.

    Each row draws a number from a generator with this seed, in order; the rows with the smallest numbers are the
    sample. So it depends on the seed and the data alone: a source that is read through gives the same rows as one
    whose rows can be asked for by number.
    """
    if isinstance(count, bool) or not isinstance(count, Integral) or count < 1:
        raise InputError(f"A sample must have a whole number of rows from 1; got {count!r}.")
    if source.random_access and source.n_rows is not None:
        return source.rows(sample_numbers(source.n_rows, int(count), seed))
    if not source.repeatable:
        raise InputError("Rows that can be read once cannot be sampled: give a list or a file, not a generator.")
    return _smallest_draws(source.chunks(), int(count), seed)


def sample_numbers(n: int, count: int, seed: int) -> Indices:
    """Return the numbers of the rows that `sample_rows` would take from n rows, ascending; all if there are fewer."""
    firsts = range(0, n, _KEYS_AT_ONCE)
    numbers: Indices = _smallest_draws((np.arange(i, min(i + _KEYS_AT_ONCE, n)) for i in firsts), count, seed)
    return numbers


def _smallest_draws(pieces: Iterable[Any], count: int, seed: int) -> Any:
    """Return the rows with the `count` smallest draws, in order, holding those so far; equal draws go by place."""
    random, held, draws = np.random.default_rng(seed), None, np.empty(0)
    for piece in pieces:
        fresh = random.random(piece.shape[0])
        near = np.flatnonzero(fresh < draws.max()) if len(draws) == count else np.arange(len(fresh))
        if not len(near):
            continue
        draws = np.concatenate([draws, fresh[near]])
        held = piece[near] if held is None else stacked([held, piece[near]])
        kept = np.sort(np.argsort(draws, kind="stable")[:count])
        draws, held = draws[kept], held[kept]
    return held
