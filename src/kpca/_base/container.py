"""One file of named arrays and a header, for whatever has to outlive a process; nothing in it can be executed.

Layout: 8 bytes that say what this is, 8 bytes with the length of the header (little endian), the header as JSON in
UTF-8, the arrays one after the other as they lie in memory, and the SHA-256 of all of that. The header lists name,
dtype, shape and order of each array. Any changed, missing or added byte is noticed.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
from numpy.typing import NDArray

from kpca._base.errors import InputError
from kpca._base.files import new_file, unfinished

AnyArray = NDArray[Any]
# The byte above 127 and the two kinds of line end show a file that went through a conversion of text.
_MAGIC = b"\x93kpca\r\n\x1a"
_VERSION = 1
_RESERVED = {"format", "version", "arrays"}
_DIGEST_BYTES = hashlib.sha256().digest_size
# Plain numbers of fixed size: what has the same meaning on every machine and needs no code to be read.
_DTYPES = frozenset(["b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"])
# Bytes of a header: whatever is large is in arrays, and JSON takes many times its size in memory.
_LONGEST_HEADER = 2**24
_MOST_LISTS = 10**6  # and dictionaries in a header: an empty one takes two letters in JSON and 70 bytes in memory
_MOST_DIMENSIONS = 8


def write_container(path: str | os.PathLike[str], header: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> None:
    """Write a header (what JSON can hold, with a "kind") and arrays of numbers to a file, all or nothing.

    The file appears under its name only when it is complete and on the disk: until then an older one stays as it is.
    """
    if not isinstance(header.get("kind"), str) or _RESERVED & set(header):
        raise InputError(f"The header of a container must have a kind, and no key of {sorted(_RESERVED)}.")
    target = Path(path)
    for name, array in arrays.items():
        if array.dtype.str[1:] not in _DTYPES:
            wrong = f"{name!r} holds {array.dtype}: convert or drop it"
            raise InputError(f"Arrays in a file must hold plain numbers; {wrong}.")
    table = [
        {"name": name, "dtype": array.dtype.str, "shape": list(array.shape), "order": _order(array)}
        for name, array in arrays.items()
    ]
    whole = {"format": "kpca", "version": _VERSION, **header, "arrays": table}
    text = json.dumps(whole, allow_nan=False).encode()
    if len(text) > _LONGEST_HEADER or _lists_in(text) > _MOST_LISTS:
        most = f"must be of at most {_LONGEST_HEADER // 2**20} MiB and {_MOST_LISTS:,} lists"
        got = f"it would be of {len(text) / 2**20:.1f} MiB and {_lists_in(text):,}"
        raise InputError(f"The header of {target} {most}; {got}: store less beside the arrays.")
    try:
        if target.exists() and not target.is_file():  # a device or a folder must not be replaced
            raise InputError(f"{target} must be a file, or not exist; it is something else: choose another path.")
        digest = hashlib.sha256()
        with new_file(os.fspath(target)) as file:
            for piece in _pieces(text, arrays):
                digest.update(piece)
                file.write(piece)
            file.write(digest.digest())
    except OSError as error:
        raise InputError(f"{target} must be writable; {_reason(error)}.") from error


def _pieces(text: bytes, arrays: Mapping[str, AnyArray]) -> Iterator[Any]:
    yield _MAGIC
    yield len(text).to_bytes(8, "little")
    yield text
    for array in arrays.values():
        if array.size:
            yield np.ravel(array, order=_order(array)).view(np.uint8).data


def _order(array: AnyArray) -> Literal["C", "F"]:
    return "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"


class _Damaged(Exception):
    """The bytes of a file are not what was written."""


def read_container(path: str | os.PathLike[str], kind: str) -> tuple[dict[str, Any], dict[str, AnyArray]]:
    """Return the header and the arrays of a file of this kind that `write_container` wrote; refuse anything else."""
    with _opened(path, kind) as reader:
        header, table = reader.header()
        arrays = {name: _array(entry, reader) for name, entry in table.items()}
        reader.finish()
        reader.check_kind(header)
    return header, arrays


def read_header(path: str | os.PathLike[str], kind: str) -> tuple[dict[str, Any], int]:
    """Return the header of a file of this kind, and the bytes of the file; the arrays are not read.

    That they are all there is checked by their sizes, not by the digest, which takes reading the whole file.
    """
    with _opened(path, kind) as reader:
        header, table = reader.header()
        if sum(_layout(entry)[2] for entry in table.values()) != reader.left:
            raise _Damaged("The file is of another length.")
        reader.check_kind(header)
        return header, reader.size


@contextmanager
def _opened(path: str | os.PathLike[str], kind: str) -> Iterator[_Reader]:
    """Give what reads a file, and turn what goes wrong into a sentence that names it."""
    target = Path(path)
    try:
        if not stat.S_ISREG(os.stat(target).st_mode):  # before it is opened: a pipe would wait for somebody
            raise InputError(f"{target} must be a file; it is something else: choose another path.")
        with open(target, "rb") as file:
            yield _Reader(file, os.fstat(file.fileno()).st_size, target, kind)
    except OSError as error:
        raise InputError(f"{target} must be readable; {_reason(error)}.") from error
    except _Damaged as error:
        said = f"{target} must be complete and unchanged; it is damaged or cut short"
        raise InputError(said, remedy="delete it or use another copy of it") from error


class _Reader:
    """The bytes of a file, in order; memory is taken only for what the file really has."""

    def __init__(self, file: BinaryIO, size: int, target: Path, kind: str) -> None:
        self._file, self._target, self._kind, self.size = file, target, kind, size
        self._digest = hashlib.sha256()
        self.left = size - _DIGEST_BYTES  # bytes that the digest is about and that were not read yet

    def header(self) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """Return the header, and the description of each array by its name."""
        if self._file.read(len(_MAGIC)) != _MAGIC:
            said = f"{self._target} must be a file that kpca wrote; it is of another format"
            raise InputError(said, remedy="choose another path")
        self._file.seek(0)
        self.take(len(_MAGIC))
        length = int.from_bytes(self.take(8), "little")
        if length > _LONGEST_HEADER:
            raise _Damaged("The header is too long.")
        text = self.take(length)
        if _lists_in(text) > _MOST_LISTS:
            raise _Damaged("There are more lists than anybody writes.")
        try:
            header = json.loads(text, parse_constant=int, object_pairs_hook=_once)  # int refuses NaN and infinity
            table = _once([(str(entry["name"]), dict(entry)) for entry in header.pop("arrays", [])])
            right = header["format"] == "kpca" and isinstance(header["kind"], str)
            right = right and type(header["version"]) is int and header["version"] >= 1
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise _Damaged("The header cannot be read.") from error
        if not right:
            raise _Damaged("The header says something else.")
        if header["version"] > _VERSION:
            other = f"it is of version {header['version']}: update kpca or choose another path"
            raise InputError(f"{self._target} must be of version {_VERSION} of the file format; {other}.")
        return header, table

    def check_kind(self, header: dict[str, Any]) -> None:
        """Refuse a file of another kind."""
        other = header["kind"]
        if other != self._kind:
            other = f"a {other}" if other.isprintable() and len(other) <= 40 else "something else"
            raise InputError(f"{self._target} must hold a {self._kind}; it holds {other}: choose another path.")

    def take(self, count: int) -> bytes:
        """Return the next `count` bytes."""
        return self.fill(count).tobytes()

    def fill(self, count: int) -> AnyArray:
        """Return the next `count` bytes as an array that may be changed."""
        self.left -= count
        if self.left < 0:
            raise _Damaged("The file ends too early.")
        piece: AnyArray = np.empty(count, dtype=np.uint8)
        if count and self._file.readinto(piece.data) != count:  # type: ignore[attr-defined]  # binary files have it
            raise _Damaged("The file has become shorter.")
        self._digest.update(piece.data)
        return piece

    def finish(self) -> None:
        """Refuse a file of which something is left, or whose digest is another one."""
        if self.left != 0 or self._file.read() != self._digest.digest():
            raise _Damaged("The digest is another one.")


def _lists_in(text: bytes) -> int:
    """Return how many lists and dictionaries a JSON text has at most; brackets inside of texts count too."""
    return text.count(b"[") + text.count(b"{")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a dictionary of pairs, none of which may have the key of another."""
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("A key is there twice.")
    return made


def _layout(entry: dict[str, Any]) -> tuple[np.dtype[Any], list[int], int]:
    """Return the dtype, the shape and the bytes of an array."""
    shape: Any
    text, shape, order = (entry.get(key) for key in ("dtype", "shape", "order"))
    if not isinstance(text, str) or text[:1] not in ("<", ">", "|") or text[1:] not in _DTYPES:
        raise _Damaged("There are no such numbers.")
    whole = isinstance(shape, list) and all(type(length) is int and 0 <= length < 2**63 for length in shape)
    if not whole or len(shape) > _MOST_DIMENSIONS or order not in ("C", "F"):
        raise _Damaged("There is no such shape.")
    dtype = np.dtype(text)
    return dtype, shape, math.prod(shape) * dtype.itemsize


def _array(entry: dict[str, Any], reader: _Reader) -> AnyArray:
    dtype, shape, size = _layout(entry)
    try:
        flat: AnyArray = reader.fill(size).view(dtype)
        return flat.reshape(shape, order=entry["order"])
    except ValueError as error:  # no entries, but dimensions whose product is too large a number
        raise _Damaged("There is no such shape.") from error


def remove_leftovers(path: str | os.PathLike[str]) -> None:
    """Remove the unfinished files that killed processes left behind while they wrote this one."""
    try:
        for name in unfinished(os.fspath(path)):
            Path(name).unlink(missing_ok=True)
    except OSError as error:
        target = os.path.realpath(path)
        raise InputError(f"{target} must be in a writable folder; {_reason(error)}.") from error


def _reason(error: OSError) -> str:
    """Return what the system says, and what to do about it."""
    if error.errno == errno.ENOSPC:
        return "the disk is full: free some space or choose another path"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "no permission: change the permissions or choose another path"
    if error.errno == errno.ENOENT:
        return "there is no such file or folder: check the path"
    return f"the system says {(error.strerror or str(error)).lower()!r}: choose another path"
