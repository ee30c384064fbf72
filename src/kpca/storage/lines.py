"""The bytes of a text table, cut into blocks that end where a record ends.

Blocks come as UTF-8, whatever the file is written in, and memory holds one of them at a time. A line break inside
quotes ends no record; a quote opens a field only where the field begins, as spreadsheets write it.
"""

from __future__ import annotations

import bisect
import codecs
import gzip
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from kpca.errors import InputError
from kpca.storage.base import unreadable

BLOCK_BYTES = 4 << 20
LONGEST_RECORD = 32 << 20  # bytes; a longer line is no row of a table, and would have to be held whole
_BOMS = [
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16: its mark begins with that of UTF-16
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
]
_GZIP = b"\x1f\x8b"
_QUOTE = 34


@dataclass(frozen=True)
class Block:
    """Some whole records of a text table."""

    data: bytes  # UTF-8, checked
    line: int  # the number of its first line in the file, from 1
    offset: int  # of its first byte after what comes before the text (a mark of the encoding)


class TextFile:
    """A text file, plain or compressed by gzip, in UTF-8 or in what a mark at its beginning says."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            with open(path, "rb") as file:
                self._gzip = file.read(2) == _GZIP
            with self._open() as file:
                head = file.read(4)
        except (OSError, EOFError, zlib.error) as error:
            raise unreadable(path, "gzip file" if self._is_gzip() else "file", error) from error
        self._mark, self._encoding = next(((m, e) for m, e in _BOMS if head.startswith(m)), (b"", "utf-8"))

    def _is_gzip(self) -> bool:
        return getattr(self, "_gzip", False)

    @property
    def seekable(self) -> bool:
        """Whether blocks can be read again by their offset."""
        return not self._gzip and self._encoding == "utf-8"

    def _open(self) -> BinaryIO:
        return gzip.open(self.path, "rb") if self._gzip else open(self.path, "rb")  # type: ignore[return-value]

    def pieces(self, size: int, offset: int = 0) -> Iterator[bytes]:
        """Yield the text in UTF-8, in pieces of about `size` bytes; an offset is for files that can be searched."""
        decoder = None if self._encoding == "utf-8" else codecs.getincrementaldecoder(self._encoding)()
        try:
            with self._open() as file:
                file.seek(len(self._mark) + offset)
                while piece := file.read(size):
                    yield piece if decoder is None else decoder.decode(piece).encode()
                if decoder is not None:
                    decoder.decode(b"", final=True)
        except UnicodeError as error:
            raise InputError(
                f"{self.path!r} must be text in {self._encoding.upper()}, as its first bytes say; it is not: save it "
                "as UTF-8."
            ) from error
        except (OSError, EOFError, zlib.error) as error:
            raise unreadable(self.path, "gzip file" if self._gzip else "file", error) from error

    def head(self, size: int) -> tuple[bytes, bool]:
        """Return the first lines, of about `size` bytes and two at least, and whether they are all there are."""
        pieces: list[bytes] = []
        length = lines = 0
        for piece in self.pieces(size):
            pieces.append(piece)
            length += len(piece)
            lines += piece.count(b"\n") or piece.count(b"\r")
            if lines > 1:
                data = b"".join(pieces)
                return self._checked(data[: max(data.rfind(b"\n"), data.rfind(b"\r")) + 1], 1, b"\n"), False
            if length > LONGEST_RECORD:
                raise self._too_long(b"".join(pieces), 1, ",", b"\n")
        return self._checked(b"".join(pieces), 1, b"\n"), True

    def blocks(self, delimiter: str, size: int = BLOCK_BYTES) -> Iterator[Block]:
        """Yield all of the text in blocks of whole records."""
        line, offset, rest, newline = 1, 0, b"", b"\n"
        wanted = size
        pieces = self.pieces(size)
        piece = next(pieces, b"")
        if (
            b"\r" in piece
            and b"\r\n" not in piece
            and not (b"\n" in piece and _Quotes(piece, delimiter).last_end(b"\n"))
        ):
            newline = b"\r"  # other line ends are inside of entries, if there are any
        while piece or rest:
            data, piece = rest + piece, next(pieces, b"")
            if not piece:  # the file ends here
                opened = _Quotes(data, delimiter).unclosed()
                if opened is not None:
                    raise self._unclosed(line + data[:opened].count(newline))
                yield Block(self._checked(data, line, newline), line, offset)
                return
            cut = _Quotes(data, delimiter).last_end(newline) if len(data) >= wanted else 0
            if cut == 0:
                if len(data) > LONGEST_RECORD:
                    raise self._too_long(data, line, delimiter, newline)
                rest, wanted = data, max(wanted, 2 * len(data)) if len(data) >= wanted else wanted
                continue
            yield Block(self._checked(data[:cut], line, newline), line, offset)
            line, offset, rest, wanted = line + data[:cut].count(newline), offset + cut, data[cut:], size

    def block(self, offset: int, length: int, line: int) -> Block:
        """Return a block again, from where it was."""
        data = b"".join(_exactly(self.pieces(length, offset), length))
        return Block(self._checked(data, line, b"\n"), line, offset)

    def _unclosed(self, line: int) -> InputError:
        return InputError(
            f"{self.path!r} must close every quote; the one that opens a field in line {line} is not closed: add the "
            "closing quote, or remove the opening one."
        )

    def _too_long(self, data: bytes, line: int, delimiter: str, newline: bytes) -> InputError:
        opened = _Quotes(data, delimiter).unclosed()
        if opened is not None and newline in data:
            return self._unclosed(line + data[:opened].count(newline))
        last = line + data.count(newline)
        return InputError(
            f"{self.path!r} must have lines of at most {LONGEST_RECORD >> 20} MiB; line {last} is longer: check that "
            "it is a text table with one row per line."
        )

    def _checked(self, data: bytes, line: int, newline: bytes) -> bytes:
        zero = data.find(b"\0")
        if zero >= 0:
            where = line + data[:zero].count(newline)
            raise InputError(
                f"{self.path!r} must be a text table; line {where} has a NUL byte, so it is binary, damaged or UTF-16 "
                "without its mark: save it as CSV in UTF-8."
            )
        if not data.isascii():
            try:
                data.decode()
            except UnicodeDecodeError as error:
                where = line + data[: error.start].count(newline)
                raise InputError(
                    f"{self.path!r} must be text in UTF-8; line {where} holds the byte 0x{data[error.start]:02x}, "
                    "which does not belong there (another encoding, such as Latin-1, it seems): save the file as UTF-8."
                ) from error
        return data


def _exactly(pieces: Iterator[bytes], length: int) -> Iterator[bytes]:
    for piece in pieces:
        yield piece[:length]
        length -= len(piece)
        if length <= 0:
            return


class _Quotes:
    """Which bytes of some records lie inside quotes; the first byte begins a record."""

    def __init__(self, data: bytes, delimiter: str) -> None:
        self._data = data
        self._places = np.flatnonzero(np.frombuffer(data, np.uint8) == _QUOTE) if b'"' in data else np.empty(0, int)
        self._spans: list[tuple[int, int, bool]] | None = None
        if not self._are_regular(delimiter):
            self._spans = _quoted_spans(data, delimiter)

    def _are_regular(self, delimiter: str) -> bool:
        """Whether quotes open and close in turn: each that opens begins a field or follows one that closed."""
        opening, closing = self._places[0::2], self._places[1::2]
        if not len(opening):
            return True
        bytes_before: Any = np.frombuffer(self._data, np.uint8)[np.maximum(opening - 1, 0)]
        begins = (opening == 0) | np.isin(bytes_before, [ord(delimiter), 10, 13])
        begins[1:] |= opening[1:] == closing[: len(opening) - 1] + 1  # a doubled quote
        return bool(begins.all())

    def last_end(self, newline: bytes) -> int:
        """Return where the last complete record ends, 0 if none does."""
        end = self._data.rfind(newline)
        while end >= 0 and (start := self._quoted_from(end)) is not None:
            end = self._data.rfind(newline, 0, start)
        return end + 1

    def _quoted_from(self, place: int) -> int | None:
        """Return a quote before this place within the field it is quoted in, None if it is not quoted."""
        if self._spans is None:
            count = int(np.searchsorted(self._places, place))
            return int(self._places[count - 1]) if count % 2 else None
        found = bisect.bisect_right(self._spans, place, key=lambda span: span[0]) - 1
        return self._spans[found][0] if found >= 0 and place < self._spans[found][1] else None

    def unclosed(self) -> int | None:
        """Return the place of the quote that nothing closes."""
        if self._spans is not None:
            return self._spans[-1][0] if self._spans and not self._spans[-1][2] else None
        if len(self._places) % 2 == 0:
            return None
        last = len(self._places) - 1
        while last >= 2 and self._places[last] == self._places[last - 1] + 1:  # a doubled quote opens nothing
            last -= 2
        return int(self._places[last])


def _quoted_spans(data: bytes, delimiter: str) -> list[tuple[int, int, bool]]:
    """Return begin, end and whether it is closed of each quoted field: the slow way, right for stray quotes too."""
    mark = re.escape(delimiter.encode())
    pattern = re.compile(rb'(?:\A|(?<=[\r\n])|(?<=%b))"[^"]*(?:""[^"]*)*("|\Z)' % mark)
    return [(found.start(), found.end(), bool(found[1])) for found in pattern.finditer(data)]
