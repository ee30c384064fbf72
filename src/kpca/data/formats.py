"""The table of formats, and which of them a path has: by its name, compared with its first bytes before it is read."""

from __future__ import annotations

import atexit
import hashlib
import importlib
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kpca._base.errors import InputError, InPython, Setting
from kpca.data.rows import ROWS, Writer, quoted

STANDARD_INPUT = "standard input"


@dataclass(frozen=True)
class Format:
    """A kind of storage: what names and first bytes it is known by, and what opens and writes it.

    To add one, write a file with its reader (a `MatrixReader`, or `Columns`) and its writer, and a row below.
    """

    name: str
    suffixes: tuple[str, ...]
    home: str  # the file of this folder that knows it
    opens: str  # what there takes a path, and the options below, and gives a `MatrixReader` or `Columns`
    writes: str  # what there takes a path, names, extras and a dtype, and gives a `Writer`; "" if nothing does
    marks: tuple[tuple[bytes, str], ...] = ()  # first bytes, and what a file is that begins so
    options: Mapping[str, Any] = field(default_factory=dict)  # of the opener, with what each is if it is not given
    writing: Mapping[str, Any] = field(default_factory=dict)  # options of the writer
    one_array: bool = False  # whether it holds one array of numbers and nothing beside
    reserved: tuple[str, ...] | None = None  # names that arrays beside the rows cannot have; None: they are no arrays

    def open(self, path: str, **options: Any) -> Any:
        return self._of(self.opens)(path, **{**self.options, **options})

    def writer(self, path: str, names: Sequence[str], extras: Sequence[str], dtype: Any) -> Writer:
        made: Writer = self._of(self.writes)(path, names, extras, dtype, **self.writing)
        return made

    def _of(self, name: str) -> Any:
        # Imported here: one is wanted of many, and their libraries take time to load.
        return getattr(importlib.import_module(f"kpca.data.{self.home}"), name)


_TEXT, _TABS = {"header": None, "delimiter": None}, {"delimiter": "\t"}
_STREAM = (b"\xff\xff\xff\xff", "an Arrow stream")
_ARROW = ((b"ARROW1", "an Arrow file"), (b"FEA1", "a Feather file of version 1"), _STREAM)
_HDF5 = ((b"\x89HDF\r\n\x1a\n", "an HDF5 file, as .h5ad is"),)
_ZIP = ((b"PK\x03\x04", "a ZIP archive, as .npz and Excel's .xlsx are"), (b"PK\x05\x06", "an empty ZIP archive"))
_TABLE = (
    Format("csv", (".csv", ".txt"), "text", "TextTable", "TextWriter", ((b"\x1f\x8b", "a gzip file"),), _TEXT),
    Format("tsv", (".tsv", ".tab"), "text", "TextTable", "TextWriter", (), {**_TEXT, **_TABS}, _TABS),
    Format("npy", (".npy",), "npy", "open_npy", "NpyWriter", ((b"\x93NUMPY", "a NumPy file (.npy)"),), one_array=True),
    Format("npz", (".npz",), "npy", "open_npz", "NpzWriter", _ZIP, {"array": None}, reserved=(ROWS, "names")),
    Format("parquet", (".parquet", ".pq"), "arrow", "ParquetTable", "ParquetWriter", ((b"PAR1", "a Parquet file"),)),
    Format("feather", (".feather",), "arrow", "FeatherTable", "FeatherWriter"),
    Format("arrow", (".arrow", ".ipc"), "arrow", "FeatherTable", "FeatherWriter", _ARROW),
    Format("zarr", (".zarr",), "zarr", "open_zarr", "ZarrWriter", (), {"array": None}, reserved=(ROWS,)),
    Format("h5ad", (".h5ad",), "h5ad", "H5adReader", "H5adWriter", _HDF5, {"beside": ()}),
    Format("images", (), "images", "ImageReader", "", options={"size": None}),
)
BY_NAME = {format.name: format for format in _TABLE}
FORMATS = tuple(format.name for format in _TABLE if format.suffixes)
_SUFFIXES = {suffix: format.name for format in _TABLE for suffix in format.suffixes}
_MARKS = [(mark, format.name, words) for format in _TABLE for mark, words in format.marks] + [
    (b"\x28\xb5\x2f\xfd", "", "a file compressed by zstd"),
    (b"BZh", "", "a file compressed by bzip2"),
    (b"\xfd7zXZ", "", "a file compressed by xz"),
    (b"\xd0\xcf\x11\xe0", "", "an old Excel file"),
    (b"%PDF", "", "a PDF file"),
    (b"\x89PNG", "", "a picture"),
    *((bytes([0x80, version]), "", "a pickle") for version in range(2, 6)),
]
_OR_SAY = ("rename it, or give ", InPython("kpca.io.open_table its format", Setting("format")))
_FAMILY = {"tsv": "csv", "feather": "arrow"}  # formats that have the same first bytes
_PICKLE = "pickles are never read, as they may run code: save it as .npy, .npz or .parquet"
_FOREIGN = {
    **dict.fromkeys((".xlsx", ".xls", ".ods"), "save the sheet as CSV in UTF-8"),
    **dict.fromkeys((".pkl", ".pickle"), _PICKLE),
    ".json": "save it as CSV or Parquet",
    ".mat": "save it as .npy or .npz",
    **dict.fromkeys((".h5", ".hdf5"), "save it as .h5ad, .npy or .zarr"),
    ".kpca": "this is a model: give the data it is to be used on",
}


def by_name(path: str) -> tuple[str | None, bool]:
    """Return the format that the name of a file says, None if it says none, and whether .gz ends it."""
    name = path.rstrip("/").lower()
    compressed = name.endswith(".gz")
    suffix = os.path.splitext(name.removesuffix(".gz") if compressed else name)[1]
    return _SUFFIXES.get(suffix), compressed


def check_format(format: object) -> None:
    """Refuse a name that is none of a format."""
    if format is not None and format not in FORMATS:
        raise InputError(f"must be one of {', '.join(FORMATS)}; got {quoted(format)}", param="format")


def check_there(path: str) -> os.stat_result:
    """Return what the system knows of a file or folder, refusing what is not there or cannot be read again."""
    try:
        status = os.stat(path)
    except FileNotFoundError as error:
        what = " is a link to a file that is gone: mend it." if os.path.islink(path) else ": check the path."
        raise InputError(f"File not found: {path!r}{what}") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{path!r} must be the path of a file; the system says: {reason}: check the path.") from error
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        raise InputError(f"{path!r} must be a file or folder; it is a pipe or a device: give - for standard input.")
    try:
        if stat.S_ISREG(status.st_mode):
            open(path, "rb").close()
        else:
            os.listdir(path)
    except OSError as error:
        raise InputError(f"{path!r} must be readable; got {error.strerror}: change its permissions.") from error
    return status


def format_of(path: str, format: str | None = None) -> str:
    """Return the format of a file or folder that is there: one of FORMATS, or "images"."""
    status = check_there(path)
    said, compressed = by_name(path)
    found = format or said
    if stat.S_ISDIR(status.st_mode):
        inside = os.listdir(path)
        if found == "zarr" or {"zarr.json", ".zarray", ".zgroup"} & set(inside):
            return "zarr"
        if found not in (None, "parquet"):
            raise InputError(f"{path!r} must be a file; it is a folder: give the path of a file in it.")
        if found == "parquet" or any(name.endswith((".parquet", ".pq")) for name in inside):
            return "parquet"
        if not inside:
            told = f"The folder {path!r} must hold Parquet files, a Zarr or images; it is empty: check the path."
            raise InputError(told)
        return "images"
    if found == "zarr":
        raise InputError(f"{path!r} must be a folder, as Zarr arrays are; it is a file: check what it is.")
    if found is None:
        raise unknown_suffix(path)
    if compressed and found not in ("csv", "tsv"):
        raise InputError(f"{path!r} must not be compressed, as only text tables may be: unpack it first.")
    if status.st_size == 0:
        raise InputError(f"{path!r} must have rows of data; it is an empty file: check how it was written.")
    with open(path, "rb") as file:
        head = file.read(8)
    wanted = _FAMILY.get(found, found)
    for mark, other, words in _MARKS:
        if head.startswith(mark) and other != wanted:
            remedy = f"rename it so that it ends in .{other}" if other else "save it in a format of tables"
            remedy = "save the sheet as CSV, or rename an .npz" if words.startswith("a ZIP") else remedy
            raise InputError(f"{path!r} must be of the format its name says, {found}; it is {words}: {remedy}.")
    if wanted != "csv" and not any(head.startswith(mark) for mark, other, _ in _MARKS if other == wanted):
        told = f"{path!r} must be of format {found}; its first bytes are not those of one"
        raise InputError(told, remedy="check how it was written, or name its true format")
    return found


def unknown_suffix(path: str) -> InputError:
    """Return the sentence for a path whose name says no format."""
    known = f"{path!r} must end in {', '.join(_SUFFIXES)} (text also in .gz); it does not"
    remedy = _FOREIGN.get(os.path.splitext(path.lower())[1])
    return InputError(known, remedy=remedy or _OR_SAY)


def digest_of(path: str) -> str:
    """Return the SHA-256 of a file, or of the files of a folder with their names, in order."""
    total = hashlib.sha256()
    inside = (os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names)
    for file in sorted(filter(os.path.isfile, inside)) if os.path.isdir(path) else [path]:
        if file != path:
            total.update(os.path.relpath(file, path).encode("utf-8", "surrogateescape") + b"\0")
        feed(total, file)
    return total.hexdigest()


def feed(total: hashlib._Hash, path: str) -> None:
    """Add the bytes of a file to a digest."""
    try:
        with open(path, "rb") as file:
            hashlib.file_digest(file, lambda: total)
    except OSError as error:
        raise InputError(f"{path!r} must stay readable; the system says: {error.strerror}: read it again.") from error


def spooled() -> tuple[str, str]:
    """Return the path of a file that holds standard input until the process ends, and the format of its first bytes."""
    folder = tempfile.mkdtemp(prefix="kpca-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = os.path.join(folder, STANDARD_INPUT)
    try:
        with open(path, "xb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise InputError(f"Standard input must fit in TMPDIR; got {error.strerror}: set another.") from error
    with open(path, "rb") as file:
        head = file.read(8)
    return path, next((format for mark, format, _ in _MARKS if head.startswith(mark) and format), "csv")
