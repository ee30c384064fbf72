"""The only file that imports anndata and h5py, which hold annotated matrices in memory and on disk."""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import os
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kpca._base.config import MEMORY_LIMIT, memory_budget
from kpca._base.errors import InputError
from kpca.data.rows import Layout, Rows, float_dtype
from kpca.data.sources import default_rows


def anndata(doing: str) -> Any:
    """Return anndata, or say what it is needed for."""
    try:
        import anndata
        import anndata.io
    except ImportError as error:
        raise InputError(f"{doing} needs anndata: pip install 'kpca[anndata]'.") from error
    return anndata


def h5py(doing: str) -> Any:
    """Return h5py, which comes with anndata, or say what it is needed for."""
    try:
        import h5py
    except ImportError as error:
        raise InputError(f"{doing} needs h5py: pip install 'kpca[anndata]'.") from error
    return h5py


# -- A first look at an H5AD file by a process of its own -------------------------------------------------------------

# Seconds that names may take to be read on a busy machine, and bytes of a file for each further one.
PATIENCE = 60.0
_BYTES_PER_SECOND = 1e8
_MEMORY = 2 << 30
_NO_MEMORY, _UNREADABLE = 4, 5

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
    if ended.returncode == _UNREADABLE:
        raise _damaged(name, ended.stderr.decode(errors="replace").strip().rstrip(".") or "HDF5 gives no reason")
    if ended.returncode == _NO_MEMORY:
        raise _damaged(name, "the names in it ask for more memory than they can need")
    if ended.returncode < 0:
        raise _damaged(name, "reading the names in it ends a process")


def _damaged(name: str, reason: str) -> InputError:
    return InputError(f"{name!r} must be a whole H5AD file; it cannot be read ({reason}): write it again.")


# -- An H5AD file as a table: cells are rows, genes number columns, annotations of cells labels and ids ---------------

_NAME_BYTES = 100  # of a name in memory, roughly
_DIGEST_BYTES = 1 << 20
OBS_NAMES = "obs_names"  # what the index of the cells is called as a column


@dataclass(frozen=True)
class H5adTable:
    """A matrix of an H5AD file with the names of its rows and columns; rows are read when they are asked for."""

    name: str
    layout: Layout
    n_rows: int
    dtype: np.dtype[Any]
    sparse: bool
    place: str  # of the matrix in the file
    selected: NDArray[np.intp] | None  # the columns taken, None for all
    ids: NDArray[Any]
    labels: NDArray[Any] | None
    by_column: bool  # CSC on the disk: its rows can be found only in the whole
    n_stored: int  # columns on the disk

    @property
    def image_shape(self) -> None:
        """None: rows are no pictures."""
        return None

    def chunks(self, rows: int | None = None) -> Iterator[Rows]:
        """Yield the rows in order, in pieces of `rows` rows (about 8 MiB if None), the last one shorter."""
        step = default_rows(self.n_stored, self.dtype, sparse=self.sparse) if rows is None else rows
        if self.by_column:
            everything = self.whole()
            for start in range(0, self.n_rows, step):
                yield self._rows(everything.numbers[start : start + step], start)
            return
        with _opened(self.name) as file:
            for start in range(0, self.n_rows, step):
                numbers = self._read(file[self.place], start, min(start + step, self.n_rows))
                yield self._rows(numbers, start)

    def whole(self) -> Rows:
        """Return all rows at once."""
        with _opened(self.name) as file:
            return self._rows(self._read(file[self.place], 0, self.n_rows), 0)

    def digest(self) -> str:
        """Return the SHA-256 of the file."""
        total = hashlib.sha256()
        with open(self.name, "rb") as file:
            while piece := file.read(_DIGEST_BYTES):
                total.update(piece)
        return total.hexdigest()

    def _rows(self, numbers: Any, start: int) -> Rows:
        here = slice(start, start + numbers.shape[0])
        labels = None if self.labels is None else self.labels[here]
        return Rows(self.layout, numbers, ids=self.ids[here], labels=labels, first=start)

    def _read(self, matrix: Any, start: int, stop: int) -> Any:
        """Return some rows of the matrix: of a dense one by slices, of a sparse one by its row pointers."""
        if not self.sparse:
            _check_room(self.name, (stop - start) * self.n_stored * self.dtype.itemsize)
            block = np.asarray(matrix[start:stop]).astype(self.dtype, copy=False)
            return np.ascontiguousarray(block if self.selected is None else block[:, self.selected])
        block = self._read_sparse(matrix, start, stop)
        return block if self.selected is None else block[:, self.selected]

    def _read_sparse(self, group: Any, start: int, stop: int) -> Any:
        minor, major = (self.n_rows, self.n_stored) if self.by_column else (self.n_stored, self.n_rows)
        first, last = (0, major) if self.by_column else (start, stop)
        pointers = np.asarray(group["indptr"][first : last + 1], dtype=np.int64)
        stored = int(group["data"].shape[0])
        sound = pointers[0] >= 0 and pointers[-1] <= stored and (np.diff(pointers) >= 0).all()
        if not sound or group["indices"].shape[0] != stored:
            raise _damaged(self.name, "the row pointers of its sparse matrix do not fit its entries")
        here = slice(int(pointers[0]), int(pointers[-1]))
        _check_room(self.name, (here.stop - here.start) * (self.dtype.itemsize + 8))
        indices = np.asarray(group["indices"][here])
        if len(indices) and (indices.min() < 0 or indices.max() >= minor):
            raise _damaged(self.name, "its sparse matrix has entries outside its shape")
        data = np.asarray(group["data"][here]).astype(self.dtype, copy=False)
        if self.by_column:
            return sparse.csc_matrix((data, indices, pointers), shape=(minor, major)).tocsr()
        block = sparse.csr_matrix((data, indices, pointers - pointers[0]), shape=(stop - start, minor))
        block.sort_indices()
        return block


def open_h5ad(
    path: str | os.PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] | None = None,
    label: str | None = None,
    id: str | None = None,
    layer: str | None = None,
    use_rep: str | None = None,
) -> H5adTable:
    """Open an H5AD file as a table.

    Parameters
    ----------
    columns, drop : names of genes to take, or to leave out.
    label, id : names of annotations of the cells (columns of obs); ids are the names of the cells if None.
    layer, use_rep : take a layer, or an embedding such as "X_pca", instead of X.
    """
    name = os.fspath(path)
    if layer is not None and use_rep is not None:
        raise InputError("Only one of layer and use_rep can be taken; got both: leave one out.")
    if os.path.isfile(name):
        look_first(name, [column for column in (label, id) if column is not None])
    with _opened(name) as file:
        place = _place(name, file, layer, use_rep)
        matrix = file[place]
        shape, by_column = _shape(name, matrix, place)
        ids, found = _index(name, file, "obs", shape[0]), None
        names = _index(name, file, "var", shape[1]) if use_rep is None else _numbered(use_rep, shape[1])
        unique = _unique(names)
        selected = _selected(name, unique, columns, drop)
        if label is not None:
            found = _annotation(name, file, label, shape[0])
        if id is not None:
            ids = _annotation(name, file, id, shape[0])
        stored = matrix["data"] if isinstance(matrix, h5py("").Group) else matrix
        dtype = float_dtype(stored.dtype, f"{place!r} of {name!r}")
        return H5adTable(
            name=name,
            layout=Layout(
                numbers=tuple(unique if selected is None else [unique[column] for column in selected]),
                id=OBS_NAMES if id is None else id,
                label=label,
            ),
            n_rows=shape[0],
            dtype=dtype,
            sparse=matrix is not stored,
            place=place,
            selected=selected,
            ids=ids,
            labels=found,
            by_column=by_column,
            n_stored=shape[1],
        )


# -- the file ---------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _opened(name: str) -> Iterator[Any]:
    """Open an HDF5 file, and say in a sentence what is wrong with it, then or while it is read."""
    library = h5py("Reading H5AD")
    if os.path.isdir(name):
        raise InputError(f"{name!r} must be an H5AD file; it is a folder: give the file.")
    if not os.path.exists(name):
        raise InputError(f"{name!r} must be an H5AD file; there is none of that name: check the path.")
    try:
        with library.File(name, "r") as file:
            yield file
    except PermissionError as error:
        raise InputError(f"{name!r} must be readable; permission is denied: change its rights.") from error
    except InputError:
        raise
    except (OSError, RuntimeError, KeyError, ValueError, TypeError, MemoryError, AttributeError, IndexError) as error:
        raise _damaged(name, " ".join(str(error).split()).rstrip(".") or type(error).__name__) from error


def _check_room(name: str, size: int) -> None:
    """Refuse to read more at once than memory may be used for: a small file can claim to hold any number of zeros."""
    if size > memory_budget():
        raise InputError(
            f"Reading {name!r} needs {size / 2**20:,.0f} MiB at once; {memory_budget() / 2**20:,.0f} may be used",
            remedy=("take fewer columns or an embedding in it (use_rep), or raise ", MEMORY_LIMIT),
        )


def _member(name: str, group: Any, key: str) -> Any:
    """Return something in a group, unless it leads out of the file."""
    library = h5py("")
    link = group.get(key, getlink=True)
    if isinstance(link, library.ExternalLink):
        raise _damaged(name, f"{key!r} is in another file")
    found = group[key]
    if isinstance(found, library.Dataset):
        if found.is_virtual or found.external:
            raise _damaged(name, f"{key!r} is in another file")
        if found.chunks is not None:
            _check_room(name, int(np.prod(found.chunks, dtype=np.float64)) * found.dtype.itemsize)
    return found


def _place(name: str, file: Any, layer: str | None, use_rep: str | None) -> str:
    """Return where in the file the matrix is."""
    groups = h5py("").Group
    if not isinstance(file.get("obs"), groups) or not isinstance(file.get("var"), groups):
        old = "obs" in file and "var" in file
        what = "it is of an old form: read and write it again with anndata" if old else "it lacks obs and var"
        raise InputError(f"{name!r} must be an H5AD file as anndata writes them since version 0.7; {what}.")
    if layer is None and (use_rep is None or use_rep == "X"):
        if "X" not in file or _kind(file["X"]) == "null":
            raise InputError(f"{name!r} must have a matrix X; it has none: choose one with layer or use_rep.")
        _member(name, file, "X")
        return "X"
    folder, key = ("layers", layer) if layer is not None else ("obsm", use_rep)
    known = list(file[folder]) if isinstance(file.get(folder), groups) else []
    what = "layer" if layer is not None else "use_rep"
    if key not in known:
        raise InputError(f"{what} must be one of those in {name!r}; got {key!r}{hint(str(key), known)}")
    _member(name, file[folder], str(key))
    return f"{folder}/{key}"


def _kind(item: Any) -> str:
    kind = item.attrs.get("encoding-type", "")
    return kind.decode() if isinstance(kind, bytes) else str(kind)


def _shape(name: str, matrix: Any, place: str) -> tuple[tuple[int, int], bool]:
    """Return the shape of a matrix, and whether it is stored by columns."""
    by_column = False
    if isinstance(matrix, h5py("").Group):
        kind = _kind(matrix)
        if kind not in {"csr_matrix", "csc_matrix"}:
            raise InputError(f"{place!r} of {name!r} must be a matrix; got {kind or 'a group'!r}: choose another.")
        for part in ("data", "indices", "indptr"):
            if part not in matrix:
                raise _damaged(name, f"its sparse matrix has no {part}")
            _member(name, matrix, part)
        by_column = kind == "csc_matrix"
        sizes = tuple(int(number) for number in matrix.attrs["shape"])
        if len(sizes) != 2 or matrix["indptr"].shape != (sizes[1 if by_column else 0] + 1,):
            raise _damaged(name, "the row pointers of its sparse matrix do not fit its shape")
    else:
        sizes = tuple(matrix.shape)
    if len(sizes) != 2 or min(sizes) < 1:
        raise InputError(f"{place!r} of {name!r} must have rows and columns; got shape {sizes}.")
    return (sizes[0], sizes[1]), by_column


# -- names and annotations --------------------------------------------------------------------------------------------


def _index(name: str, file: Any, table: str, count: int) -> NDArray[Any]:
    """Return the names of the cells or genes.  # shape: (count,)"""
    group = file[table]
    key = group.attrs.get("_index", "_index")
    key = key.decode() if isinstance(key, bytes) else str(key)
    if key not in group:
        raise _damaged(name, f"{table} has no names")
    return _texts(_column(name, group, key, count))


def _column(name: str, group: Any, key: str, count: int) -> Any:
    """Return a column of obs or var as anndata reads it; its length is checked before anything is read."""
    stored = _member(name, group, key)
    parts = [stored] if hasattr(stored, "shape") else [_member(name, stored, part) for part in stored]
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


def _annotation(name: str, file: Any, key: str, count: int) -> NDArray[Any]:
    """Return a column of obs: texts with None for what is missing, or numbers with NaN.  # shape: (count,)"""
    group = file["obs"]
    index = group.attrs.get("_index", "_index")
    if key == OBS_NAMES and key not in group:
        return _index(name, file, "obs", count)
    known = [column for column in group if column not in {index, "__categories"}]
    if key not in known:
        raise InputError(f"Columns of obs in {name!r} must be named as they are; got {key!r}{hint(key, known)}")
    values = _column(name, group, key, count)
    if "__categories" in group and key in group["__categories"]:  # as anndata wrote them before version 0.8
        categories = _texts(_column(name, group["__categories"], key, group["__categories"][key].shape[0]))
        return _of_codes(np.asarray(values), categories)
    if hasattr(values, "codes"):  # categorical
        return _of_codes(np.asarray(values.codes), _texts(np.asarray(values.categories)))
    if hasattr(values, "isna") and values.dtype.kind in "biuf":  # numbers, some of them missing
        return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
    values = np.asarray(values)
    return values if values.dtype.kind in "biuf" else _texts(values)


def _of_codes(codes: NDArray[Any], categories: NDArray[Any]) -> NDArray[Any]:
    """Return the categories that codes stand for, None for -1.  # shape: (n,)"""
    texts = np.full(len(codes), None, dtype=object)
    texts[codes >= 0] = categories[codes[codes >= 0]]
    return texts


def _texts(values: Any) -> NDArray[Any]:
    """Return texts; None for what is missing.  # shape: (n,)"""
    texts = np.empty(len(values), dtype=object)
    for number, value in enumerate(values):
        text = value.decode() if isinstance(value, bytes) else str(value)
        texts[number] = None if is_missing(value) else text
    return texts


def is_missing(value: Any) -> bool:
    """Return True for None, NaN, NaT and the NA of pandas: all but the first are unequal to everything."""
    if isinstance(value, str):
        return False
    return value is None or type(value).__name__ in {"NAType", "NaTType"} or bool(np.not_equal(value, value))


def _numbered(use_rep: str, count: int) -> list[str]:
    return [f"{use_rep}_{number}" for number in range(count)]


def _unique(names: Iterable[Any]) -> list[str]:
    """Return names with -1, -2, ... behind those that have occurred before, as anndata makes them unique."""
    given = [str(name) for name in names]
    taken, seen = set(given), Counter[str]()
    unique = []
    for name in given:
        number, seen[name] = seen[name], seen[name] + 1
        found = name
        while number and found in taken:
            found, number = f"{name}-{number}", number + 1
        taken.add(found)
        unique.append(found)
    return unique


def _selected(
    name: str, known: list[str], columns: Sequence[str] | None, drop: Sequence[str] | None
) -> NDArray[np.intp] | None:
    """Return the numbers of the columns that are taken, or None for all of them."""
    places = {column: number for number, column in enumerate(known)}
    for wanted in (*(columns or ()), *(drop or ())):
        if wanted not in places:
            raise InputError(f"Columns must be names of genes in {name!r}; got {wanted!r}{hint(str(wanted), known)}")
    if columns is None and not drop:
        return None
    left_out = set(drop or ())
    taken = [column for column in dict.fromkeys(known if columns is None else columns) if column not in left_out]
    if not taken:
        raise InputError(f"At least one column of {name!r} must be left; all are dropped: drop fewer.")
    return np.array([places[column] for column in taken], dtype=np.intp)


def hint(given: str, known: Sequence[str]) -> str:
    """Return how a sentence about an unknown name ends: the one that was meant, or those there are."""
    close = difflib.get_close_matches(given, known, n=1)
    if close:
        return f": did you mean {close[0]!r}?"
    some = ", ".join(map(repr, known[:8])) + (", …" if len(known) > 8 else "")
    return f": there are {some}." if known else ": there are none."
