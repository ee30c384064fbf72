"""Tables in: files, folders, frames and arrays become rows whose columns have roles; results go out as `TableWriter`s.

Text tables are read twice: once to learn what each column holds in the whole file, then as often as rows are wanted.
Truth values are numbers (0 and 1), dates are categories, and numbers are doubles, so whole numbers beyond 2**53 are
rounded; ids and labels are kept as they are. A first column without a name, as pandas writes its index, is the id if
no other is named. Names used twice are refused where such a column is used.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kpca._base.config import memory_budget
from kpca._base.errors import InputError
from kpca.data import formats
from kpca.data.arrays import ArrayReader, SlicedReader, SparseReader
from kpca.data.frames import is_frame
from kpca.data.roles import Roles, roles_of
from kpca.data.rows import NUMBERS, Reader, Table, float_dtype, quoted
from kpca.data.tables import ColumnTable, MatrixTable, table_of_columns
from kpca.data.writers import TableWriter, open_writer

__all__ = ["TableWriter", "open_table", "open_writer", "table_of"]

_NAMES = ("names", "columns", "feature_names")  # arrays of a .npz that may hold the names of the columns
_HASHED_AT_ONCE = 1 << 16  # rows


def open_table(
    path: str | os.PathLike[str],
    *,
    columns: Sequence[Any] | None = None,
    drop: Sequence[Any] | None = None,
    label: Any = None,
    id: Any = None,
    text: Any = None,
    format: str | None = None,
    header: bool | None = None,
    array: str | None = None,
    delimiter: str | None = None,
    encode: str | None = None,
    size: tuple[int, int] | None = None,
    optional: Sequence[str] = (),
) -> Table:
    """Open a file or folder as a table.

    Parameters
    ----------
    path : path
        A CSV, TSV (also .gz), .npy, .npz, Parquet, Arrow or Feather, or .h5ad file; a folder of Parquet files, a Zarr,
        or a folder of images; "-" is standard input.
    columns, drop : list of names, optional
        The columns to analyse, or those to leave out; numbers from 0 where columns have no names.
    label, id, text : name, optional
        Columns that are not analysed as numbers: what a row belongs to, what it is called, and documents. In .npz and
        Zarr files label and id may be arrays beside the rows.
    format : str, optional
        One of "csv tsv npy npz parquet feather arrow zarr h5ad", if the name of the file does not say it.
    header : bool, optional
        Whether the first line of a text table names its columns; found out if not given.
    array : str, optional
        The array of a .npz file or Zarr group that holds the rows, where several could.
    delimiter : str, optional
        Of a text table; found out if not given.
    encode : str, optional
        What will be done with categories. If nothing, texts in a column of numbers are refused as slips.
    size : (height, width), optional
        To which the pictures of a folder are resized; needed where they are of different sizes.
    optional : list of "label" and "id"
        Which of these two may name a column that there is not; then there is no label, or no id.
    """
    if format is not None:
        formats.check_format(format)
    name = _path_of(path)
    table: Table
    is_stream = name == "-"
    if is_stream:
        name = formats.spooled()
        format = format or _sniffed(name)
    found = formats.format_of(name, format)
    if array is not None and found not in ("npz", "zarr"):
        raise InputError(f"array is for .npz and Zarr; {name!r} is of format {found}: leave it out.")
    if (header is not None or delimiter is not None) and found not in ("csv", "tsv"):
        raise InputError(f"header and delimiter are for text tables; {name!r} is of format {found}: leave them out.")
    if size is not None and found != "images":
        raise InputError(f"size is for folders of images; {name!r} is of format {found}: leave it out.")
    roles = roles_of(columns, drop, label, id, text, optional=optional)
    if found in ("csv", "tsv"):
        delimiter = "\t" if delimiter is None and found == "tsv" else delimiter
        table = _open_text(name, roles, header=header, delimiter=delimiter, encode=encode)
    elif found in ("images", "h5ad"):
        table = _open_elsewhere(name, found, roles, size)
    else:
        table = _open_plain(name, found, roles, array)
    if is_stream and isinstance(table, ColumnTable | MatrixTable):
        table.name = formats.STANDARD_INPUT
    return table


def _open_elsewhere(path: str, format: str, roles: Roles, size: tuple[int, int] | None) -> Table:
    """Open what other doors know: folders of images, and AnnData's files."""
    if format == "images":
        beside = [None if role in roles.optional else getattr(roles, role) for role in ("label", "id")]
        if (roles.columns, roles.drop, roles.text, *beside) != (None,) * 5:
            raise InputError(
                f"{path!r} is a folder of images, whose columns are pixels, whose labels are folders and whose ids are "
                "names of files: leave the roles of columns out."
            )
        from kpca.data.images import open_images

        return open_images(path, size=size)
    if roles.text is not None:
        raise InputError(f"{path!r} has no column of documents, as it is an .h5ad file: leave text out.")
    from kpca.data.h5ad import open_h5ad

    return open_h5ad(path, columns=roles.columns, drop=roles.drop, label=roles.label, id=roles.id)


def _open_plain(path: str, format: str, roles: Roles, array: str | None) -> Table:
    """Open a file that says itself what its columns are."""
    digest = functools.partial(formats.digest_of, path)
    if format in ("parquet", "feather", "arrow"):
        from kpca.data.arrow import FeatherTable, ParquetTable

        opened = ParquetTable(path) if format == "parquet" else FeatherTable(path)
        return table_of_columns(path, opened, roles, digest)
    if format == "npy":
        from kpca.data.npy import open_npy

        return MatrixTable(path, open_npy(path), roles, digest)
    return (_open_npz if format == "npz" else _open_zarr)(path, roles, digest, array)


def _path_of(path: object) -> str:
    if not isinstance(path, str | os.PathLike):
        raise InputError(f"path must be the path of a file or folder; got {type(path).__name__}.")
    name = os.fsdecode(path)
    if not name or "\0" in name:
        raise InputError(f"path must be the path of a file or folder; got {name!r}: check it.")
    return name


def _sniffed(path: str) -> str:
    """Return the format of what came from standard input: by its first bytes, else a text table."""
    with open(path, "rb") as file:
        return formats.sniffed(file.read(8)) or "csv"


def _open_text(
    path: str, roles: Roles, *, header: bool | None, delimiter: str | None, encode: str | None
) -> ColumnTable:
    from kpca.data.text import TextTable

    if delimiter is not None and (not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '"\r\n'):
        raise InputError(f"delimiter must be a single character, and no quote; got {quoted(delimiter)}.")
    if delimiter is not None and not delimiter.isascii():
        raise InputError(f"delimiter must be a character of ASCII; got {quoted(delimiter)}: replace it in the file.")
    table = TextTable(path, delimiter=delimiter, header=header)
    return table_of_columns(path, table, roles, functools.partial(formats.digest_of, path), encode=encode)


def _open_npz(path: str, roles: Roles, digest: Callable[[], str], array: str | None) -> Table:
    from kpca.data.npy import Archive

    archive = Archive(path, memory_budget())
    kind = archive.sparse_format if array is None else None
    headers = archive.headers
    reader: Reader
    if kind is not None:
        reader = SparseReader(archive.load_sparse(kind), repr(path))
        chosen = None
    else:
        matrices = [name for name, found in headers.items() if len(found.shape) == 2 and found.dtype.kind in NUMBERS]
        chosen = _chosen(path, array, matrices, {name: found.shape for name, found in headers.items()})
        reader = ArrayReader(archive.load(chosen), f"Array {quoted(chosen)} of {path!r}")
    sides = {
        name: functools.partial(archive.load, name)
        for name, found in headers.items()
        if name != chosen and found.shape == (reader.n_rows,)
    }
    names = None
    for name in _NAMES:
        found = headers.get(name)
        if name != chosen and found is not None and found.dtype.kind in "SU" and found.shape == (reader.n_columns,):
            names = [str(text) for text in archive.load(name).tolist()]
            break
    return MatrixTable(path, reader, roles, digest, names=names, sides=sides)


def _chosen(path: str, array: str | None, matrices: list[str], shapes: Mapping[str, tuple[int, ...]]) -> str:
    """Return the array that holds the rows."""
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
    raise InputError(
        f"{path!r} must hold one 2-D array of numbers, or be told which holds the rows; it holds {has}: name "
        f"one by array={(matrices or list(shapes) or ['X'])[0]!r}, for instance."
    )


def _open_zarr(path: str, roles: Roles, digest: Callable[[], str], array: str | None) -> Table:
    from kpca.data.zarr import look_at_zarr

    node = look_at_zarr(path)
    shapes = {name: tuple(found.shape) for name, found in node.arrays.items()}
    matrices = [name for name, found in node.arrays.items() if len(found.shape) == 2]
    chosen = _chosen(path, array, matrices, shapes)
    reader = node.reader(chosen, memory_budget())
    sides = {
        name: functools.partial(node.load, name)
        for name, shape in shapes.items()
        if name != chosen and shape == (reader.n_rows,)
    }
    return MatrixTable(path, reader, roles, digest, names=node.names(reader.n_columns), sides=sides)


def table_of(
    X: Any,
    *,
    columns: Sequence[Any] | None = None,
    drop: Sequence[Any] | None = None,
    label: Any = None,
    id: Any = None,
    text: Any = None,
    name: str = "X",
) -> Table:
    """Return a data frame (pandas, polars), an array or a sparse matrix in memory as a table."""
    roles = roles_of(columns, drop, label, id, text)
    if is_frame(X):
        from kpca.data.frames import FrameColumns

        frame = FrameColumns(X)
        table = table_of_columns(name, frame, roles, lambda: _digest_of_rows(table))
        return table
    reader: Reader
    if sparse.issparse(X):
        reader = SparseReader(X)
    elif isinstance(X, np.ndarray) or not hasattr(X, "shape"):
        reader = ArrayReader(_array(X))
    else:
        reader = SlicedReader(X)
    matrix = MatrixTable(name, reader, roles, lambda: _digest_of_rows(matrix))
    return matrix


def _array(X: Any) -> NDArray[Any]:
    if isinstance(X, str | bytes | os.PathLike | Mapping):
        what = "open_table opens files" if not isinstance(X, Mapping) else "make it a data frame"
        raise InputError(f"X must be a data frame, an array or a sparse matrix; got {type(X).__name__}: {what}.")
    if isinstance(X, np.ma.MaskedArray):
        return _unmasked(X)
    try:
        return np.asarray(X)
    except (TypeError, ValueError) as error:
        raise InputError("X must be a data frame, or rows of equal length; it is neither: make it an array.") from error


def _unmasked(X: Any) -> NDArray[Any]:
    """Return a masked array with NaN, which means missing, where it is masked."""
    dtype = float_dtype(X.dtype)
    found: NDArray[Any] = np.ma.filled(X.astype(dtype), np.nan)
    return found


def _digest_of_rows(table: Table) -> str:
    """Return the SHA-256 of the columns that are analysed: a frame in memory has no bytes of its own."""
    total = hashlib.sha256(repr(table.layout).encode())
    for rows in table.chunks(_HASHED_AT_ONCE):
        if sparse.issparse(rows.numbers):
            for part in (rows.numbers.indptr, rows.numbers.indices, rows.numbers.data):
                total.update(np.ascontiguousarray(part).view(np.uint8).data)
        else:
            total.update(np.ascontiguousarray(rows.numbers).view(np.uint8).data)
        for texts in (*rows.categories.values(), rows.documents):
            total.update(repr(None if texts is None else texts.tolist()).encode("utf-8", "backslashreplace"))
    return total.hexdigest()
