"""NumPy's own files: .npy, read through a memory map and written in chunks, and .npz, read at once.

What a file says of itself is compared with what it is before memory is taken for it, and nothing is unpickled.
"""

from __future__ import annotations

import math
import os
import shutil
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kpca._base.config import memory_budget
from kpca._base.errors import InputError
from kpca._base.files import NewFile
from kpca.data.arrays import ArrayReader, MatrixReader, SparseReader, chosen_array
from kpca.data.rows import NUMBERS, ROWS, plain_values, quoted, unreadable

_SPARSE_KEYS = {
    "csr": ("data", "indices", "indptr"),
    "csc": ("data", "indices", "indptr"),
    "bsr": ("data", "indices", "indptr"),
    "coo": ("data", "row", "col"),
    "dia": ("data", "offsets"),
}
_READ_AT_ONCE = 1 << 20
_NAMES = ("names", "columns", "feature_names")  # arrays of a .npz that may hold the names of the columns


@dataclass(frozen=True)
class _Header:
    """What a .npy file or a member of a .npz says of its array."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran: bool

    @property
    def n_bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def _read_header(file: Any) -> _Header:
    """Return the header of an array; the file is then at its first entry."""
    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"version {version} of the format is for structured arrays")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(file)
    if any(isinstance(length, bool) or length < 0 for length in shape):
        raise ValueError(f"a shape of {shape}")
    return _Header(dtype, shape, fortran)


def _check_dtype(dtype: np.dtype[Any], where: str) -> None:
    if dtype.hasobject:
        raise InputError(f"{where} must hold numbers or texts, not Python objects, which may run code: save it anew.")
    if dtype.names is not None:
        raise InputError(f"{where} must be a plain array; it has fields ({quoted(dtype)}): save each as a column.")


def open_npy(path: str) -> MatrixReader:
    """Open a .npy file without reading its rows."""
    try:
        with open(path, "rb") as file:
            header = _read_header(file)
            _check_dtype(header.dtype, repr(path))
            there = os.fstat(file.fileno()).st_size - file.tell()
        if header.n_bytes > there:
            raise ValueError(f"it should hold {header.n_bytes} bytes of numbers and holds {there}")
        if not header.n_bytes:
            raise InputError(f"{path!r} must have at least one row and one column; got shape {header.shape}: fill it.")
        mapped = np.lib.format.open_memmap(path, mode="r")
    except InputError:
        raise
    except Exception as error:  # a damaged header makes NumPy's parser of it raise anything
        raise unreadable(path, ".npy file of numbers", error) from error
    return ArrayReader(mapped, repr(path))


class _Archive:
    """A .npz file: named arrays, each read when it is asked for, together not more than memory may be used for."""

    def __init__(self, path: str) -> None:
        self.path, self._limit, self._taken = path, memory_budget(), 0
        try:
            with zipfile.ZipFile(path) as zipped:
                members = [name for name in zipped.namelist() if name.endswith(".npy")]
                self.headers = {name.removesuffix(".npy"): self._header(zipped, name) for name in members}
        except InputError:
            raise
        except Exception as error:  # damaged archives and headers make the libraries raise anything
            raise unreadable(path, ".npz file of numbers", error) from error
        if not self.headers:
            raise InputError(f"{path!r} must hold arrays of NumPy; it holds none: save it with numpy.savez.")

    def _header(self, zipped: zipfile.ZipFile, name: str) -> _Header:
        with zipped.open(name) as file:
            header = _read_header(file)
        if header.n_bytes > zipped.getinfo(name).file_size and not header.dtype.hasobject:
            raise ValueError(f"{name} should hold {header.n_bytes} bytes and holds fewer")
        return header

    def load(self, name: str) -> NDArray[Any]:
        """Return an array, if it is a plain one and there is room for it."""
        header, where = self.headers[name], f"Array {quoted(name)} of {self.path!r}"
        _check_dtype(header.dtype, where)
        self._taken += header.n_bytes
        if self._taken > self._limit:
            raise InputError(f"{where} takes {_size(header.n_bytes)}, more than the memory allowed: save it as .npy.")
        try:
            with zipfile.ZipFile(self.path) as zipped, zipped.open(f"{name}.npy") as file:
                _read_header(file)
                flat = np.empty(math.prod(header.shape), dtype=header.dtype)
                _fill(file, flat)
        except Exception as error:  # as above
            raise unreadable(self.path, ".npz file of numbers", error) from error
        return flat.reshape(header.shape, order="F" if header.fortran else "C")

    @property
    def sparse_format(self) -> str | None:
        """The format of the SciPy sparse matrix in this file, None if there is none."""
        header = self.headers.get("format")
        if header is None or header.shape != () or header.dtype.kind not in "SU" or "shape" not in self.headers:
            return None
        name = self.load("format").item()
        kind = name.decode("ascii", "replace") if isinstance(name, bytes) else str(name)
        keys = _SPARSE_KEYS.get(kind)
        if keys is None or not all(key in self.headers for key in keys):
            lacking = ", ".join(set(keys or ()) - set(self.headers)) or f"a known format, not {quoted(kind)}"
            raise InputError(f"{self.path!r} must hold a whole sparse matrix; it lacks {lacking}: write it again.")
        return kind

    def load_sparse(self, kind: str) -> Any:
        """Return the SciPy sparse matrix in this file as CSR, checked entry by entry."""
        arrays = [self.load(key) for key in _SPARSE_KEYS[kind]]
        shape = tuple(int(length) for length in np.atleast_1d(self.load("shape")).ravel())
        try:
            if len(shape) != 2 or min(shape) < 0:
                raise ValueError(f"a shape of {shape}")
            needed = 8 * (shape[0] + 1 + (shape[1] if kind in ("csc", "dia", "bsr") else 0))
            if needed + self._taken > self._limit:
                raise ValueError(f"a shape of {shape}, too large for the memory allowed")
            return _sparse(kind, arrays, shape)
        except (ValueError, TypeError, IndexError, OverflowError, MemoryError) as error:
            raise unreadable(self.path, "sparse matrix", error) from error


def _sparse(kind: str, arrays: list[NDArray[Any]], shape: tuple[int, int]) -> Any:
    data, first, *others = arrays
    if any(array.dtype.kind not in "iu" for array in arrays[1:]):
        raise ValueError("places of entries that are no whole numbers")
    if kind == "coo":
        rows, columns = first, others[0]
        if not len(rows) == len(columns) == len(data):
            raise ValueError("lists of different lengths")
        if len(rows) and (min(rows.min(), columns.min()) < 0 or rows.max() >= shape[0] or columns.max() >= shape[1]):
            raise ValueError("places of entries outside the matrix")
        return sparse.coo_array((data, (rows, columns)), shape=shape).tocsr()
    if kind == "dia":
        return sparse.dia_array((data, first), shape=shape).tocsr()
    maker = {"csr": sparse.csr_array, "csc": sparse.csc_array, "bsr": sparse.bsr_array}[kind]
    matrix = maker((data, first, others[0]), shape=shape)
    matrix.check_format(full_check=True)
    return matrix.tocsr()


def _fill(file: Any, flat: NDArray[Any]) -> None:
    """Read an array piece by piece: what is not there is noticed before more memory is touched."""
    view: Any = flat.view(np.uint8) if flat.size and flat.dtype.itemsize else np.empty(0, np.uint8)
    done = 0
    while done < len(view):
        piece = file.read(min(_READ_AT_ONCE, len(view) - done))
        if not piece:
            raise EOFError("the file ends too early")
        view[done : done + len(piece)] = np.frombuffer(piece, np.uint8)
        done += len(piece)
    file.read(1)  # the end of a member is where its checksum is compared


def _size(count: int) -> str:
    return f"{count / 2**30:.1f} GiB" if count >= 2**29 else f"{count / 2**20:.1f} MiB"


def open_npz(path: str, array: str | None = None) -> MatrixReader:
    """Load a .npz file, which cannot be read in parts: a SciPy sparse matrix, or the array that holds the rows."""
    archive = _Archive(path)
    kind = archive.sparse_format if array is None else None
    headers, chosen = archive.headers, None
    reader: MatrixReader
    if kind is not None:
        reader = SparseReader(archive.load_sparse(kind), repr(path))
    else:
        matrices = [name for name, found in headers.items() if len(found.shape) == 2 and found.dtype.kind in NUMBERS]
        chosen = chosen_array(path, array, matrices, {name: found.shape for name, found in headers.items()})
        reader = ArrayReader(archive.load(chosen), f"Array {quoted(chosen)} of {path!r}")
    others = {name: found for name, found in headers.items() if name != chosen}
    beside = (name for name, found in others.items() if found.shape == (reader.n_rows,))
    reader.sides = {name: partial(archive.load, name) for name in beside}
    for name in _NAMES:
        found = others.get(name)
        if found is not None and found.dtype.kind in "SU" and found.shape == (reader.n_columns,):
            reader.names = [str(text) for text in archive.load(name).tolist()]
            break
    return reader


def _write_header(file: Any, shape: tuple[int, int], dtype: np.dtype[Any]) -> None:
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)


class NpyWriter:
    """A .npy file; the number of rows goes into the header at the end, so it need not be known before."""

    # Plain writes rather than a memory map: on a full disk a write raises, a map ends the process.

    def __init__(self, path: str, names: Sequence[str], extras: Sequence[str], dtype: np.dtype[Any]) -> None:
        self._n_columns, self._dtype, self._rows = len(names), dtype, 0
        self._new = NewFile(path)
        try:
            self._header_bytes = self._put_header()
        except BaseException:
            self._new.abandon()
            raise

    def _put_header(self) -> int:
        self._new.file.seek(0)
        _write_header(self._new.file, (self._rows, self._n_columns), self._dtype)
        return self._new.file.tell()

    def write(self, chunk: NDArray[Any], extras: Mapping[str, NDArray[Any]]) -> None:
        self._new.file.write(np.ascontiguousarray(chunk, dtype=self._dtype).data)
        self._rows += len(chunk)

    def finish(self) -> None:
        """Write the header again, now with the number of rows, and give the file its name."""
        # NumPy pads headers so that the number of rows may grow to any length in place.
        if self._put_header() != self._header_bytes:
            raise RuntimeError("The header of a .npy file changed its length with the number of rows.")
        self._new.finish()

    def abandon(self) -> None:
        self._new.abandon()


class NpzWriter:
    """A .npz file: rows in `X`, names in `names`, an array per extra; rows wait in a second file for their number."""

    def __init__(self, path: str, names: Sequence[str], extras: Sequence[str], dtype: np.dtype[Any]) -> None:
        self._names, self._extras = list(names), {name: list[NDArray[Any]]() for name in extras}
        self._dtype, self._rows = dtype, 0
        self._waiting = NewFile(path)
        try:
            self._new = NewFile(path)
        except BaseException:
            self._waiting.abandon()
            raise

    def write(self, chunk: NDArray[Any], extras: Mapping[str, NDArray[Any]]) -> None:
        self._waiting.file.write(np.ascontiguousarray(chunk, dtype=self._dtype).data)
        self._rows += len(chunk)
        for name, held in self._extras.items():
            held.append(extras[name])

    def finish(self) -> None:
        self._waiting.file.flush()
        with zipfile.ZipFile(self._new.file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as zipped:
            with zipped.open(f"{ROWS}.npy", "w", force_zip64=True) as member:
                _write_header(member, (self._rows, len(self._names)), self._dtype)
                with open(self._waiting.path, "rb") as rows:
                    shutil.copyfileobj(rows, member, _READ_AT_ONCE)
            arrays = {"names": np.array(self._names, dtype=str)}
            arrays |= {name: plain_values(held) for name, held in self._extras.items()}
            for name, array in arrays.items():
                with zipped.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)
        self._new.finish()
        self._waiting.abandon()

    def abandon(self) -> None:
        self._waiting.abandon()
        self._new.abandon()
