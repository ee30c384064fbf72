"""NumPy's own files: .npy, read through a memory map and written in chunks, and .npz, read at once.

What a file says of itself is compared with what it is before memory is taken for it, and nothing is unpickled.
"""

from __future__ import annotations

import math
import os
import shutil
import zipfile
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kpca._base.config import memory_budget
from kpca._base.errors import InputError
from kpca._base.files import NewFile
from kpca.data.arrays import MatrixReader, chosen_array
from kpca.data.rows import NUMBERS, ROWS, plain_values, quoted, unreadable

_SPARSE_PLACES = ("indices", "indptr", "row", "col", "coords", "offsets")  # where the entries of a sparse matrix are
_SPARSE_PARTS = ("format", "shape", "data", "_is_array", *_SPARSE_PLACES)
_NAMES = ("names", "columns", "feature_names")  # arrays of a .npz that may hold the names of the columns


class _Header(NamedTuple):
    """What a .npy file or a member of a .npz says of its array."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    n_bytes: int


def _read_header(file: Any) -> _Header:
    """Return the header of an array; the file is then at its first entry."""
    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"version {version} of the format is for structured arrays")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(file)
    if any(isinstance(length, bool) or length < 0 for length in shape):
        raise ValueError(f"a shape of {shape}")
    return _Header(dtype, shape, math.prod(shape) * dtype.itemsize)


def _check_dtype(dtype: np.dtype[Any], where: str) -> None:
    if dtype.hasobject:
        raise InputError(f"{where} must hold numbers or texts, not Python objects, which may run code: save numbers.")
    if dtype.names is not None:
        raise InputError(f"{where} must be a plain array; it has fields ({quoted(dtype)}): save each as a column.")


def open_npy(path: str) -> MatrixReader:
    """Open a .npy file without reading its rows."""
    try:
        with open(path, "rb") as file:
            header = _read_header(file)
            _check_dtype(header.dtype, repr(path))
            there = os.fstat(file.fileno()).st_size - file.tell()
        if header.n_bytes > there:  # a shape so large that NumPy's own product overflows is one, too
            raise ValueError(f"it should hold {header.n_bytes} bytes of numbers and holds {there}")
        mapped = np.lib.format.open_memmap(path, mode="r")
    except InputError:
        raise
    except Exception as error:  # a damaged header makes NumPy's parser of it raise anything
        raise unreadable(path, ".npy file of numbers", error) from error
    return MatrixReader(mapped, repr(path))


class _Archive:
    """A .npz file: named arrays, each read when it is asked for, together not more than memory may be used for."""

    def __init__(self, path: str) -> None:
        self.path, self._limit, self._taken = path, memory_budget(), 0
        self.headers: dict[str, _Header] = {}
        try:
            with zipfile.ZipFile(path) as zipped:
                for member in (member for member in zipped.infolist() if member.filename.endswith(".npy")):
                    with zipped.open(member) as file:
                        header = _read_header(file)
                    if header.n_bytes > member.file_size and not header.dtype.hasobject:
                        raise ValueError(f"{member.filename} should hold {header.n_bytes} bytes and holds fewer")
                    self.headers[member.filename.removesuffix(".npy")] = header
        except Exception as error:  # damaged archives and headers make the libraries raise anything
            raise unreadable(path, ".npz file of numbers", error) from error
        if not self.headers:
            raise InputError(f"{path!r} must hold arrays of NumPy; it holds none: save it with numpy.savez.")

    def _check_room(self, name: str) -> None:
        """Refuse an array that is no plain one, or that there is no room for."""
        header, where = self.headers[name], f"Array {quoted(name)} of {self.path!r}"
        _check_dtype(header.dtype, where)
        self._taken += header.n_bytes
        if self._taken > self._limit:
            count = header.n_bytes
            size = f"{count / 2**30:.1f} GiB" if count >= 2**29 else f"{count / 2**20:.1f} MiB"
            told = f"{where} takes {size}, more than the {self._limit / 2**20:,.1f} MiB of memory allowed"
            raise InputError(told, remedy="save it as .npy, which is read in parts, or allow more memory")

    def load(self, name: str) -> NDArray[Any]:
        """Return an array, if it is a plain one and there is room for it."""
        self._check_room(name)
        try:
            with zipfile.ZipFile(self.path) as zipped, zipped.open(f"{name}.npy") as file:
                array: NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
                file.read(1)  # the end of a member is where its checksum is compared
        except Exception as error:  # as above
            raise unreadable(self.path, ".npz file of numbers", error) from error
        return array

    def load_sparse(self) -> Any:
        """Return the SciPy sparse matrix in this file as CSR, checked entry by entry."""
        for name in (name for name in _SPARSE_PARTS if name in self.headers):
            self._check_room(name)
        try:
            if any(self.headers[name].dtype.kind not in "iu" for name in _SPARSE_PLACES if name in self.headers):
                raise ValueError("places of entries that are no whole numbers")
            matrix = sparse.load_npz(self.path)
            rows, columns = matrix.shape
            if 8 * (rows + 1 + (columns if matrix.format in ("csc", "dia", "bsr") else 0)) + self._taken > self._limit:
                raise ValueError(f"a shape of {matrix.shape}, too large for the memory allowed")
            if matrix.format in ("csr", "csc", "bsr"):
                matrix.check_format(full_check=True)
            return matrix.tocsr()
        except Exception as error:  # SciPy, too, raises what it likes
            raise unreadable(self.path, "sparse matrix", error) from error


def open_npz(path: str, array: str | None = None) -> MatrixReader:
    """Load a .npz file, which cannot be read in parts: a SciPy sparse matrix, or the array that holds the rows."""
    archive = _Archive(path)
    headers, chosen, kind = archive.headers, None, archive.headers.get("format")
    if array is None and kind is not None and not kind.shape and kind.dtype.kind in "SU" and "shape" in headers:
        reader = MatrixReader(archive.load_sparse(), repr(path))
    else:
        matrices = [name for name, found in headers.items() if len(found.shape) == 2 and found.dtype.kind in NUMBERS]
        chosen = chosen_array(path, array, matrices, {name: found.shape for name, found in headers.items()})
        reader = MatrixReader(archive.load(chosen), f"Array {quoted(chosen)} of {path!r}")
    others = {name: found for name, found in headers.items() if name != chosen}
    beside = (name for name, found in others.items() if found.shape == (reader.n_rows,))
    reader.sides = {name: partial(archive.load, name) for name in beside}
    for name in _NAMES:
        found = others.get(name)
        if found is not None and found.dtype.kind in "SU" and found.shape == (reader.n_columns,):
            reader.names = [str(text) for text in archive.load(name).tolist()]
            break
    return reader


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
        file, shape = self._new.file, (self._rows, self._n_columns)
        file.seek(0)
        header = {"descr": np.lib.format.dtype_to_descr(self._dtype), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        return file.tell()

    def write(self, chunk: NDArray[Any], extras: Mapping[str, NDArray[Any]]) -> None:
        self._new.file.write(np.ascontiguousarray(chunk, dtype=self._dtype).data)
        self._rows += len(chunk)

    def _complete(self) -> None:
        """Write the header again, now with the number of rows."""
        # NumPy pads headers so that the number of rows may grow to any length in place.
        if self._put_header() != self._header_bytes:
            raise RuntimeError("The header of a .npy file changed its length with the number of rows.")

    def finish(self) -> None:
        self._complete()
        self._new.finish()

    def abandon(self) -> None:
        self._new.abandon()


class NpzWriter(NpyWriter):
    """A .npz file: rows in `X`, names in `names`, an array per extra; rows wait in a .npy file for their number."""

    def __init__(self, path: str, names: Sequence[str], extras: Sequence[str], dtype: np.dtype[Any]) -> None:
        super().__init__(path, names, extras, dtype)
        self._path, self._names, self._extras = path, names, {name: list[NDArray[Any]]() for name in extras}

    def write(self, chunk: NDArray[Any], extras: Mapping[str, NDArray[Any]]) -> None:
        super().write(chunk, extras)
        for name, held in self._extras.items():
            held.append(extras[name])

    def finish(self) -> None:
        self._complete()
        self._new.file.flush()
        packed = NewFile(self._path)
        try:
            with zipfile.ZipFile(packed.file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as zipped:
                with zipped.open(f"{ROWS}.npy", "w", force_zip64=True) as member, open(self._new.path, "rb") as rows:
                    shutil.copyfileobj(rows, member, 1 << 20)
                arrays = {"names": np.array(self._names, dtype=str)}
                arrays |= {name: plain_values(held) for name, held in self._extras.items()}
                for name, array in arrays.items():
                    with zipped.open(f"{name}.npy", "w", force_zip64=True) as member:
                        np.lib.format.write_array(member, array, allow_pickle=False)
            packed.finish()
        except BaseException:
            packed.abandon()
            raise
        self.abandon()
