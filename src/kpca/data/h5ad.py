"""The only file that imports anndata and h5py, which hold annotated matrices in memory and on disk."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kpca._base.config import MEMORY_LIMIT, memory_budget
from kpca._base.errors import InputError
from kpca._base.files import temporary_name
from kpca._base.text import data_frame
from kpca.data.arrays import MatrixReader
from kpca.data.rows import NUMBERS, Indices, float_dtype, hint, is_missing, needed, taken_in_passing, unreadable


def anndata(doing: str) -> Any:
    """Return anndata, or say what it is needed for."""
    with needed(f"{doing} needs anndata", "anndata"):
        import anndata
        import anndata.io
    return anndata


def h5py(doing: str) -> Any:
    """Return h5py, which comes with anndata, or say what it is needed for."""
    with needed(f"{doing} needs h5py", "anndata"):
        import h5py
    return h5py


# -- A first look at an H5AD file by a process of its own -------------------------------------------------------------

# Seconds that names may take to be read on a busy machine, and bytes of a file for each further one.
PATIENCE = 60.0
_BYTES_PER_SECOND = 1e8
_MEMORY = 2 << 30

# Reads what AnnData files have texts in: all attributes, the names of rows and columns, and the annotations asked for.
_LOOK = """
import sys
import h5py
try:
    import resource
    resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[2]), int(sys.argv[2])))
except (ImportError, ValueError, OSError):
    pass

def look(item, wanted):
    for key in item.attrs:
        item.attrs[key]
    if isinstance(item, h5py.Dataset):
        if wanted and item.dtype.kind == "O":
            item[()]
        return
    for key in item:
        if isinstance(item.get(key, getlink=True), h5py.HardLink):
            look(item[key], wanted)

def main(path, columns):
    with h5py.File(path, "r") as file:
        for key in ("X", "layers", "obsm", "obs", "var"):
            if key in file:
                look(file[key], False)
        for key in ("obs", "var"):
            index = file[key].attrs.get("_index", "_index")
            for column in {index, *columns} & set(file[key]):
                look(file[key][column], True)

try:
    main(sys.argv[1], sys.argv[3:])
except MemoryError:
    sys.exit(4)
except PermissionError:
    pass
except (OSError, RuntimeError) as error:
    print(" ".join(str(error).split()), file=sys.stderr)
    sys.exit(5)
except Exception:
    pass  # not damaged but something else: said by the reader itself
"""


def look_first(name: str, columns: list[str]) -> None:
    """Refuse a file that a process cannot read to the end."""
    wait = PATIENCE + os.path.getsize(name) / _BYTES_PER_SECOND
    # -P: nothing that lies in the working directory is taken for a library
    command = [sys.executable, "-P", "-c", _LOOK, name, str(_MEMORY + os.path.getsize(name)), *columns]
    try:
        ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=wait, check=False)
    except subprocess.TimeoutExpired:
        raise _damaged(name, "reading the names in it does not end") from None
    except OSError:  # no further process may be started here
        return
    if ended.returncode < 0:
        raise _damaged(name, "reading the names in it ends a process")
    told = ended.stderr.decode(errors="replace") or "HDF5 gives no reason"
    if reason := {4: "the names in it ask for more memory than they can need", 5: told}.get(ended.returncode):
        raise _damaged(name, reason)


def _damaged(name: str, reason: BaseException | str) -> InputError:
    return unreadable(name, "H5AD file", reason)


# -- The matrix of an H5AD file: cells are rows, genes columns, annotations of cells stand beside them -----------------

_NAME_BYTES = 100  # of a name in memory, roughly
OBS_NAMES = "obs_names"  # what the index of the cells is called as a column


class H5adReader(MatrixReader):
    """A matrix of an H5AD file; rows are read when they are asked for.

    `beside` are annotations of the cells (columns of obs) that will be wanted; `layer` or `use_rep` is taken instead of
    X: a layer, or an embedding such as "X_pca".
    """

    def __init__(
        self, path: str, *, beside: Sequence[str] = (), layer: str | None = None, use_rep: str | None = None
    ) -> None:
        if layer is not None and use_rep is not None:
            raise InputError("Only one of layer and use_rep can be taken; got both: leave one out.")
        if os.path.isfile(path):
            look_first(path, list(beside))
        self._path, self.beside = path, {"id": OBS_NAMES}
        with _opened(path) as file:
            self._place = _place(path, file, layer, use_rep)
            matrix = file[self._place]
            self.sparse, self._by_column = _is_group(matrix), _attribute(matrix) == "csc_matrix"
            self.n_rows, self.n_columns = self._shape(matrix)
            stored = matrix["data"] if self.sparse else matrix
            self.dtype = float_dtype(stored.dtype, f"{self._place!r} of {path!r}")
            _index(path, file["obs"], self.n_rows)  # must be there
            if use_rep is None:
                index = data_frame({}, index=[str(gene) for gene in _index(path, file["var"], self.n_columns)]).index
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", UserWarning)  # that some had an end such as -1 before
                    self.names = [str(gene) for gene in anndata("Reading H5AD").utils.make_index_unique(index)]
            else:
                self.names = [f"{use_rep}_{number}" for number in range(self.n_columns)]
            hidden = {_attribute(file["obs"], "_index", "_index"), "__categories"}
            self.sides = {key: partial(self._side, key) for key in [*file["obs"], OBS_NAMES] if key not in hidden}

    def _shape(self, matrix: Any) -> tuple[int, int]:
        """Return the shape of a matrix, once its parts are there and fit it."""
        where, sizes = f"{self._place!r} of {self._path!r}", tuple(getattr(matrix, "shape", ()))
        if self.sparse:
            if _attribute(matrix) not in {"csr_matrix", "csc_matrix"}:
                raise InputError(f"{where} must be a matrix; got {_attribute(matrix) or 'a group'!r}: choose another.")
            for part in ("data", "indices", "indptr"):
                if part not in matrix:
                    raise _damaged(self._path, f"its sparse matrix has no {part}")
                _member(self._path, matrix, part)
            sizes = tuple(int(number) for number in matrix.attrs["shape"])
            if len(sizes) != 2 or matrix["indptr"].shape != (sizes[1 if self._by_column else 0] + 1,):
                raise _damaged(self._path, "the row pointers of its sparse matrix do not fit its shape")
        if len(sizes) != 2 or min(sizes) < 1:
            raise InputError(f"{where} must have rows and columns; got shape {sizes}.")
        return sizes[0], sizes[1]

    def _side(self, key: str) -> NDArray[Any]:
        """Return a column of obs: texts with None for what is missing, or numbers with NaN.  # shape: (n_rows,)"""
        with _opened(self._path) as file:
            group = file["obs"]
            if key == OBS_NAMES and key not in group:
                return _index(self._path, group, self.n_rows)
            values = _column(self._path, group, key, self.n_rows)
            codes, categories = getattr(values, "codes", None), getattr(values, "categories", None)
            if "__categories" in group and key in group["__categories"]:  # as anndata wrote them before version 0.8
                stored = group["__categories"]
                codes, categories = values, _column(self._path, stored, key, stored[key].shape[0])
            if codes is not None:
                codes, texts = np.asarray(codes), np.full(self.n_rows, None, dtype=object)
                texts[codes >= 0] = _texts(np.asarray(categories))[codes[codes >= 0]]
                return texts
            if hasattr(values, "isna") and values.dtype.kind in NUMBERS:  # numbers, some of them missing
                return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
            return _numbers_or_texts(np.asarray(values))

    def blocks(self, rows: int) -> Iterator[Any]:
        """Yield rows; of a matrix stored by columns all at once, as they can be found only in the whole."""
        with _opened(self._path) as file:
            step = self.n_rows if self._by_column else rows
            for start in range(0, self.n_rows, step):
                yield self._read(file[self._place], start, min(start + step, self.n_rows))

    def take(self, indices: Indices) -> Any:
        """Return these rows, reading those between them too, a chunk at a time."""
        return taken_in_passing(self.blocks(_ROWS_AT_ONCE), indices)

    def _read(self, matrix: Any, start: int, stop: int) -> Any:
        """Return some rows of the matrix: of a dense one by slices, of a sparse one by its row pointers."""
        if not self.sparse:
            _check_room(self._path, (stop - start) * self.n_columns * self.dtype.itemsize)
            return np.ascontiguousarray(matrix[start:stop], dtype=self.dtype)
        minor, major = (self.n_rows, self.n_columns) if self._by_column else (self.n_columns, self.n_rows)
        first, last = (0, major) if self._by_column else (start, stop)
        pointers = np.asarray(matrix["indptr"][first : last + 1], dtype=np.int64)
        stored = int(matrix["data"].shape[0])
        sound = pointers[0] >= 0 and pointers[-1] <= stored and (np.diff(pointers) >= 0).all()
        if not sound or matrix["indices"].shape[0] != stored:
            raise _damaged(self._path, "the row pointers of its sparse matrix do not fit its entries")
        here = slice(int(pointers[0]), int(pointers[-1]))
        _check_room(self._path, (here.stop - here.start) * (self.dtype.itemsize + 8))
        indices = np.asarray(matrix["indices"][here])
        if len(indices) and (indices.min() < 0 or indices.max() >= minor):
            raise _damaged(self._path, "its sparse matrix has entries outside its shape")
        data = np.asarray(matrix["data"][here]).astype(self.dtype, copy=False)
        if self._by_column:
            return sparse.csc_matrix((data, indices, pointers), shape=(minor, major)).tocsr()
        block = sparse.csr_matrix((data, indices, pointers - pointers[0]), shape=(stop - start, minor))
        block.sort_indices()
        return block


@contextlib.contextmanager
def _opened(name: str) -> Iterator[Any]:
    """Open an HDF5 file, and say in a sentence what is wrong with it, then or while it is read."""
    library = h5py("Reading H5AD")
    if os.path.isdir(name) or not os.path.exists(name):
        what = "it is a folder: give the file" if os.path.isdir(name) else "there is none of that name: check the path"
        raise InputError(f"{name!r} must be an H5AD file; {what}.")
    try:
        with library.File(name, "r") as file:
            yield file
    except InputError:
        raise
    except (OSError, RuntimeError, KeyError, ValueError, TypeError, MemoryError, AttributeError, IndexError) as error:
        raise _damaged(name, error) from error


def _check_room(name: str, size: int) -> None:
    """Refuse to read more at once than memory may be used for: a small file can claim to hold any number of zeros."""
    if size > memory_budget():
        raise InputError(
            f"Reading {name!r} needs {size / 2**20:,.0f} MiB at once; {memory_budget() / 2**20:,.0f} may be used",
            remedy=("take fewer columns or an embedding in it (use_rep), or raise ", MEMORY_LIMIT),
        )


def _is_group(item: Any) -> bool:
    return hasattr(item, "keys")


def _attribute(item: Any, attribute: str = "encoding-type", default: str = "") -> str:
    """Return what an attribute says, by default how something is encoded."""
    value = item.attrs.get(attribute, default)
    return value.decode() if isinstance(value, bytes) else str(value)


def _member(name: str, group: Any, key: str) -> Any:
    """Return something in a group, unless it leads out of the file."""
    outside = isinstance(group.get(key, getlink=True), h5py("").ExternalLink)
    found: Any = None if outside else group[key]
    if outside or (not _is_group(found) and (found.is_virtual or found.external)):
        raise _damaged(name, f"{key!r} is in another file")
    if not _is_group(found) and found.chunks is not None:
        _check_room(name, int(np.prod(found.chunks, dtype=np.float64)) * found.dtype.itemsize)
    return found


def _place(name: str, file: Any, layer: str | None, use_rep: str | None) -> str:
    """Return where in the file the matrix is."""
    if not _is_group(file.get("obs")) or not _is_group(file.get("var")):
        old = "obs" in file and "var" in file
        what = "it is of an old form: read and write it again with anndata" if old else "it lacks obs and var"
        raise InputError(f"{name!r} must be an H5AD file as anndata writes them since version 0.7; {what}.")
    if layer is None and (use_rep is None or use_rep == "X"):
        if "X" not in file or _attribute(file["X"]) == "null":
            raise InputError(f"{name!r} must have a matrix X; it has none: choose one with layer or use_rep.")
        _member(name, file, "X")
        return "X"
    what, folder, key = ("layer", "layers", layer) if layer is not None else ("use_rep", "obsm", str(use_rep))
    known = list(file[folder]) if _is_group(file.get(folder)) else []
    if key not in known:
        raise InputError(f"{what} must be one of those in {name!r}; got {key!r}{hint(key, known)}")
    _member(name, file[folder], key)
    return f"{folder}/{key}"


def _index(name: str, group: Any, count: int) -> NDArray[Any]:
    """Return the names of the cells or genes.  # shape: (count,)"""
    key = _attribute(group, "_index", "_index")
    if key not in group:
        raise _damaged(name, f"{group.name.strip('/')} has no names")
    return _texts(_column(name, group, key, count))


def _column(name: str, group: Any, key: str, count: int) -> Any:
    """Return a column of obs or var as anndata reads it; its length is checked before anything is read."""
    stored = _member(name, group, key)
    parts = [_member(name, stored, part) for part in stored] if _is_group(stored) else [stored]
    _check_room(name, sum(_NAME_BYTES * int(np.prod(part.shape, dtype=np.float64)) for part in parts))
    if (count,) not in [part.shape for part in parts]:
        raise _damaged(name, f"{key!r} has shape {parts[0].shape if parts else ()} for {count} names")
    library = anndata("Reading H5AD")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", library.OldFormatWarning)  # what is understood needs no warning
        values = library.io.read_elem(stored)
    if np.ndim(values) != 1 or len(values) != count:
        raise _damaged(name, f"{key!r} has {np.shape(values)} entries for {count} names")
    return values


def _texts(values: Any) -> NDArray[Any]:
    """Return texts; None for what is missing.  # shape: (n,)"""
    decoded = (value.decode() if isinstance(value, bytes) else value for value in values)
    return np.fromiter((None if is_missing(value) else str(value) for value in decoded), dtype=object)


def _numbers_or_texts(values: NDArray[Any]) -> NDArray[Any]:
    return values if values.dtype.kind in NUMBERS else _texts(values)


# -- Scores as an H5AD file: X holds them, obs what comes with the rows -----------------------------------------------

# A column of one of these names becomes the names of the cells.
INDEX_NAMES = (OBS_NAMES, "id", "index", "_index")
_ROWS_AT_ONCE = 1000
_EMPTY = ("layers", "obsm", "obsp", "uns", "varm", "varp")


class _Held(io.FileIO):
    """A file that keeps write errors for the caller: HDF5 ends the process when it closes a file after one."""

    error: OSError | None = None

    def check(self) -> None:
        if self.error is not None:
            raise self.error

    def write(self, data: Any) -> int:
        """Write all, or remember why not."""
        left = memoryview(data).cast("B")
        size = len(left)
        try:
            while left and self.error is None:
                left = left[super().write(left) :]
        except OSError as error:
            self.error = error
        return size

    def readinto(self, buffer: Any) -> int:
        """Read; what could not be written is read as zeros."""
        view = memoryview(buffer).cast("B")
        count = super().readinto(view) or 0
        view[count:] = bytes(len(view) - count)
        return len(view)

    def truncate(self, size: int | None = None) -> int:
        """Set the size, or remember why not."""
        try:
            return super().truncate(size)
        except OSError as error:
            self.error = self.error or error
            return size or 0


class H5adWriter:
    """Rows become X, other columns obs, the first called obs_names, id or index its index; anndata writes all but X."""

    def __init__(self, path: str, names: Sequence[str], extras: Sequence[str], dtype: np.dtype[Any]) -> None:
        self._anndata, library = anndata("Writing H5AD"), h5py("Writing H5AD")
        self._target, self._names = path, list(names)
        for name in extras:
            if "/" in name or not name:
                raise InputError(f"Columns of {path!r} must have a name without '/'; got {name!r}: rename it.")
        self._columns: dict[str, list[NDArray[Any]]] = {name: [] for name in extras}
        self._temporary = temporary_name(path)
        self._held = _Held(self._temporary, "x+")
        self._file = library.File(self._held, "w")
        width = len(self._names)
        shapes = {"shape": (0, width), "maxshape": (None, width), "chunks": (_ROWS_AT_ONCE, max(width, 1))}
        self._X = self._file.create_dataset("X", dtype=dtype, **shapes)

    def write(self, chunk: NDArray[Any], extras: Mapping[str, NDArray[Any]]) -> None:
        start = self._X.shape[0]
        self._X.resize(start + len(chunk), axis=0)
        self._X[start:] = chunk
        self._file.flush()
        self._held.check()
        for name, parts in self._columns.items():
            parts.append(extras[name])

    def finish(self) -> None:
        """Write what belongs to the rows, and put the file in the place of the target."""
        write = self._anndata.io.write_elem
        joined = {k: _numbers_or_texts(np.concatenate(v) if v else np.empty(0)) for k, v in self._columns.items()}
        index = next((name for name in joined if name in INDEX_NAMES), None)
        names = [str(number) for number in range(self._X.shape[0])]
        if index is not None:
            names = ["" if value is None else str(value) for value in joined.pop(index)]
        obs = data_frame({}, index=names)
        for name, values in joined.items():
            obs[name] = values
            if values.dtype == object:
                obs[name] = obs[name].astype("category")  # which may have values missing
        for item, attributes in ((self._file, ("anndata", "0.1.0")), (self._X, ("array", "0.2.0"))):
            item.attrs["encoding-type"], item.attrs["encoding-version"] = attributes
        write(self._file, "obs", obs)
        write(self._file, "var", data_frame({}, index=self._names))
        for name in _EMPTY:
            write(self._file, name, {})
        self._file.close()
        self._held.check()
        os.fsync(self._held.fileno())
        self._held.close()
        os.replace(self._temporary, os.path.realpath(self._target))

    def abandon(self) -> None:
        self._file.close()
        self._held.close()
        with contextlib.suppress(FileNotFoundError):
            os.remove(self._temporary)
