"""The same rows in every kind of storage: what the tests of reading in chunks run over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow
import pyarrow.ipc
import pyarrow.parquet
import zarr
from numpy.typing import NDArray
from scipy import sparse

FloatArray = NDArray[Any]
NAMES = ["a", "b", "c", "d", "e"]
N, D = 203, len(NAMES)


def make_rows(dtype: Any = np.float64) -> FloatArray:
    rows = np.random.default_rng(3).standard_normal((N, D)).astype(dtype)
    rows[np.abs(rows) < 0.5] = 0.0
    return rows


class Sliceable:
    """What h5py offers, in miniature."""

    def __init__(self, rows: FloatArray, stored: int) -> None:
        self.shape, self.dtype, self.chunks, self._rows = rows.shape, rows.dtype, (stored, 2), rows

    def __getitem__(self, key: slice) -> FloatArray:
        assert isinstance(key, slice)
        return self._rows[key].copy()


class Lazy(Sliceable):
    """What dask offers, in miniature: slices are computed on demand, chunks are tuples."""

    class Part:
        def __init__(self, rows: FloatArray) -> None:
            self.compute = lambda: rows

    def __init__(self, rows: FloatArray) -> None:
        super().__init__(rows, 50)
        self.chunks: Any = ((50, 50, 50, 53), (D,))

    def __getitem__(self, key: slice) -> Any:
        return Lazy.Part(super().__getitem__(key))


class Restarting:
    """An iterable that starts anew."""

    def __init__(self, *pieces: Any) -> None:
        self.pieces = pieces

    def __iter__(self) -> Iterator[Any]:
        return (piece for piece in self.pieces)


def pieces_of(X: Any) -> list[Any]:
    return [X[:1], X[1:90], X[90:91], X[91:]]


def saved_npy(X: FloatArray, folder: Path, *, order: Any = "C") -> Path:
    np.save(folder / "x.npy", np.asarray(X, order=order))
    return folder / "x.npy"


def saved_npz(X: FloatArray, folder: Path) -> Path:
    np.savez_compressed(folder / "x.npz", rows=X)
    return folder / "x.npz"


def saved_sparse(X: FloatArray, folder: Path) -> Path:
    sparse.save_npz(folder / "s.npz", sparse.csr_array(X))
    return folder / "s.npz"


def saved_zarr(X: FloatArray, folder: Path, *, stored: int = 7, group: bool = False) -> Path:
    if group:
        zarr.open_group(folder / "g.zarr").create_array("rows", data=X, chunks=(stored, 3))
        return folder / "g.zarr"
    zarr.create_array(folder / "x.zarr", data=X, chunks=(stored, 3))
    return folder / "x.zarr"


def saved_parquet(X: FloatArray, folder: Path, *, group: int = 40) -> Path:
    table = pyarrow.table({name: X[:, column] for column, name in enumerate(NAMES)})
    pyarrow.parquet.write_table(table, folder / "x.parquet", row_group_size=group)
    return folder / "x.parquet"


def saved_parquet_folder(X: FloatArray, folder: Path) -> Path:
    (folder / "many.parquet").mkdir()
    for number, piece in enumerate(pieces_of(X)):
        frame = pandas.DataFrame(piece, columns=NAMES, index=np.arange(len(piece)) * 2 + 1)  # the index is stored too
        frame.to_parquet(folder / "many.parquet" / f"part-{number}.parquet")
    return folder / "many.parquet"


def saved_text(X: FloatArray, folder: Path, *, suffix: str = ".csv") -> Path:
    delimiter = "," if suffix.startswith(".csv") else "\t"
    pandas.DataFrame(X, columns=NAMES).to_csv(folder / f"x{suffix}", sep=delimiter, index=suffix == ".csv")
    return folder / f"x{suffix}"


def saved_feather(X: FloatArray, folder: Path) -> Path:
    table = pyarrow.table({name: X[:, column] for column, name in enumerate(NAMES)})
    with pyarrow.ipc.new_file(folder / "x.feather", table.schema) as file:
        file.write_table(table, max_chunksize=250)
    return folder / "x.feather"


def mapped(X: FloatArray, folder: Path, mode: Any) -> Any:
    return np.load(saved_npy(X, folder), mmap_mode=mode)


KINDS: dict[str, Callable[[FloatArray, Path], Any]] = {
    "array": lambda X, _: X,
    "fortran": lambda X, _: np.asfortranarray(X),
    "strided": lambda X, _: np.repeat(X, 2, axis=0)[::2],
    "big-endian": lambda X, _: X.astype(X.dtype.newbyteorder(">")),
    "memory map": lambda X, folder: mapped(X, folder, "r"),
    "private map": lambda X, folder: mapped(X, folder, "c"),
    "csr": lambda X, _: sparse.csr_matrix(X),
    "csc": lambda X, _: sparse.csc_array(X),
    "pandas": lambda X, _: pandas.DataFrame(X, columns=NAMES, index=np.arange(N)[::-1]),
    "pandas nullable": lambda X, _: pandas.DataFrame(X, columns=NAMES).astype(
        "Float64" if X.dtype == np.float64 else "Float32"
    ),
    "polars": lambda X, _: polars.DataFrame(X, schema=NAMES),
    "pyarrow": lambda X, _: pyarrow.table({name: X[:, column] for column, name in enumerate(NAMES)}),
    "sliceable": lambda X, _: Sliceable(X, 60),
    "whole in one chunk": lambda X, _: Sliceable(X, N),
    "lazy": lambda X, _: Lazy(X),
    "list of rows": lambda X, _: X.tolist() if X.dtype == np.float64 else list(X),
    "list of chunks": lambda X, _: pieces_of(X),
    "list of csr": lambda X, _: pieces_of(sparse.csr_array(X)),
    "list of frames": lambda X, _: pieces_of(polars.DataFrame(X, schema=NAMES)),
    "restarting": lambda X, _: Restarting(*pieces_of(X)),
    "generator": lambda X, _: (piece for piece in pieces_of(X)),
    "npy": saved_npy,
    "npy path as text": lambda X, folder: str(saved_npy(X, folder)),
    "fortran npy": lambda X, folder: saved_npy(X, folder, order="F"),
    "npz": saved_npz,
    "sparse npz": saved_sparse,
    "zarr": saved_zarr,
    "zarr, large chunks": lambda X, folder: saved_zarr(X, folder, stored=150),
    "zarr group": lambda X, folder: saved_zarr(X, folder, group=True),
    "zarr array": lambda X, folder: zarr.open_array(saved_zarr(X, folder), mode="r"),
    "parquet": saved_parquet,
    "parquet folder": saved_parquet_folder,
    "feather": saved_feather,
    "csv": saved_text,
    "tsv.gz": lambda X, folder: saved_text(X, folder, suffix=".tsv.gz"),
    "list of paths": lambda X, folder: [saved_npy(X, folder)],
}
STREAMS = {name for name in KINDS if name.startswith(("list of", "restarting", "generator"))} - {"list of rows"}
TEXTS = {"csv", "tsv.gz"}  # numbers in text are read in double precision
SPARSE = {"csr", "csc", "list of csr", "sparse npz"}


def dense(chunk: Any) -> FloatArray:
    if sparse.issparse(chunk):
        assert chunk.format == "csr"
        return np.asarray(chunk.toarray())
    assert type(chunk) is np.ndarray and chunk.flags.c_contiguous and chunk.dtype.isnative
    return chunk
