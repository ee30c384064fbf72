"""NumPy's own files: .npy, read through a memory map and written in chunks, and .npz, read at once."""

from __future__ import annotations

import zipfile
import zlib
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kpca.errors import InputError
from kpca.storage.arrays import ArrayReader, SparseReader
from kpca.storage.base import Reader, unreadable
from kpca.storage.files import NewFile


def open_npy(path: str) -> Reader:
    """Open a .npy file without reading its rows."""
    try:
        mapped = np.lib.format.open_memmap(path, mode="r")
    except (ValueError, OSError, EOFError) as error:
        raise unreadable(path, ".npy file of numbers", error) from error
    return ArrayReader(mapped)


def open_npz(path: str) -> Reader:
    """Load a .npz file, which cannot be read in parts: a SciPy sparse matrix, or the one array it holds."""
    broken = (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile, zlib.error)
    try:
        with open(path, "rb") as file, np.lib.npyio.NpzFile(file, allow_pickle=False) as archive:
            keys = list(archive.files)
            matrix = sparse.load_npz(path) if "format" in keys else None
            if matrix is None and len(keys) == 1:
                return ArrayReader(archive[keys[0]])
    except InputError:
        raise
    except broken as error:
        raise unreadable(path, ".npz file of numbers", error) from error
    if matrix is None:
        raise InputError(
            f"{path!r} must hold one array or a SciPy sparse matrix; it holds {', '.join(keys) or 'none'}."
        )
    return SparseReader(matrix)


class NpyWriter:
    """A .npy file; the number of rows goes into the header at the end, so it need not be known before."""

    # Plain writes rather than a memory map: on a full disk a write raises, a map ends the process.

    def __init__(self, path: str, n_columns: int, dtype: np.dtype[Any]) -> None:
        self._n_columns, self._dtype, self._rows = n_columns, dtype, 0
        self._new = NewFile(path)
        try:
            self._header_bytes = self._write_header(self._new.file)
        except BaseException:
            self._new.abandon()
            raise

    def _write_header(self, file: BinaryIO) -> int:
        file.seek(0)
        descr = np.lib.format.dtype_to_descr(self._dtype)
        header = {"descr": descr, "fortran_order": False, "shape": (self._rows, self._n_columns)}
        np.lib.format.write_array_header_1_0(file, header)
        return file.tell()

    def write(self, chunk: NDArray[Any]) -> None:
        """Append rows."""
        self._new.file.write(np.ascontiguousarray(chunk, dtype=self._dtype).data)
        self._rows += len(chunk)

    def finish(self) -> None:
        """Write the header again, now with the number of rows, and give the file its name."""
        # NumPy pads headers so that the number of rows may grow to any length in place.
        if self._write_header(self._new.file) != self._header_bytes:
            raise RuntimeError("The header of a .npy file changed its length with the number of rows.")
        self._new.finish()

    def abandon(self) -> None:
        """Remove what was written."""
        self._new.abandon()
