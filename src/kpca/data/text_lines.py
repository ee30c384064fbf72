"""What a text table looks like: delimiter, decimal mark, header and names, found out from its first lines."""

from __future__ import annotations

import bisect
import codecs
import gzip
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from kpca._base.errors import InputError
from kpca.data.rows import default_names, unreadable

DELIMITERS = ",;\t|"
MISSING_LABELS = (
    *("", "NA", "N/A", "n/a", "NaN", "nan", "NAN", "null", "NULL"),
    *("<NA>", "#N/A", "#NA"),  # of pandas and of spreadsheets
)  # "+", "-" and "None" may well be classes
MISSING = (*MISSING_LABELS, "?", "-", "None")  # of numbers and categories
SAMPLE_BYTES = 1 << 18
_SAMPLE_RECORDS = 500
_NUMBER = re.compile(r"\s*[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?\s*|\s*[+-]?(inf|infinity|nan)\s*", re.IGNORECASE)
_COMMA_NUMBER = re.compile(r"\s*[+-]?(\d+(,\d*)?|,\d+)([eE][+-]?\d+)?\s*")
_SEPARATOR = re.compile(r"\s*\"?sep=([^\r\n\"])\"?[^\r\n\w]*(?:\r\n|\r|\n)", re.IGNORECASE)  # the first line, for Excel
_COUNTED = 4  # names 0, 1, 2, ... in a file of fewer columns may well be its first row


@dataclass(frozen=True)
class Dialect:
    """How a text table is written."""

    delimiter: str
    decimal: str
    skipped: int  # bytes before the first row: comments, blank lines and the header
    skipped_lines: int
    names: tuple[str, ...]  # "" for columns without a name
    named: bool  # whether the file names its columns
    comments: bool = True  # whether a line that begins with # may be one; not where rows begin so


def records(text: str, delimiter: str, line: int = 1) -> Iterator[tuple[int, int, list[str]]]:
    """Yield the line, end and fields of each record, without blank lines: slow, for first lines and errors."""
    mark = re.escape(delimiter)
    field = re.compile(rf'(?:"([^"]*(?:""[^"]*)*)(?:"|\Z))?([^{mark}\r\n]*)({mark}|\r\n|\r|\n|\Z)')
    place, fields, began = 0, list[str](), line
    while place < len(text):
        found = field.match(text, place)
        if found is None:  # cannot be: every text begins with a field, if an empty one
            raise InputError("A text table must consist of fields; it does not.")
        body = (found[1] or "").replace('""', '"') + found[2]
        fields.append(body)
        place = found.end()
        line += _lines_in(found[0])
        if found[3] == delimiter and place < len(text):
            continue
        if found[3] == delimiter:  # the text ends in a delimiter: one more field, which is empty
            fields.append("")
        if fields != [""] or found[1] is not None:
            yield began, place, fields
        fields, began = [], line


def _lines_in(text: str) -> int:
    return text.count("\n") + text.count("\r") - text.count("\r\n")


def is_filler(fields: Sequence[str], width: int, comments: bool = True) -> bool:
    """Whether a record of the wrong width is a comment or a line of blanks, which is passed over."""
    if len(fields) == width:
        return False
    return (comments and fields[0].startswith("#")) or not any(field.strip() for field in fields)


def find_dialect(path: str, head: bytes, complete: bool, delimiter: str | None, header: bool | None) -> Dialect:
    """Return how the table that begins with these lines is written."""
    text = head.decode()
    said = _SEPARATOR.match(text)
    comments, begin = list[str](), said.end() if said else 0
    for line in re.compile(r"[^\r\n]*(?:\r\n|\r|\n|\Z)").finditer(text, begin):  # comments and blank lines
        stripped = line[0].strip()
        if stripped and not stripped.startswith("#"):
            break
        comments += [stripped] if stripped else []
        begin = line.end()
    body = text[begin:]
    if delimiter is None:
        delimiter = said[1] if said and said[1].isascii() else _delimiter(body)
    found = [record for record, _ in zip(records(body, delimiter), range(_SAMPLE_RECORDS), strict=False)]
    if not complete and 1 < len(found) < _SAMPLE_RECORDS:
        found = found[:-1]  # its quotes may be cut
    if not found:
        raise InputError(f"{path!r} must have rows of numbers; it is empty: check how it was written.")
    below = [field for _, _, fields in found[1:] or found[:1] for field in fields]
    commas = sum("," in field and _is_comma_number(field, delimiter) for field in below)
    points = sum("." in field and _is_number(field) for field in below)
    decimal = "," if commas > points else "."
    rows = [found[0][2], *(fields for _, _, fields in found[1:] if not is_filler(fields, len(found[0][2])))]
    if header is None:
        header = _has_header(rows, decimal)
    names: list[str] | None
    if header:
        names, end = [name.strip() for name in rows[0]], found[0][1]
        if len(rows) > 1 and all(len(fields) == len(names) + 1 and not fields[-1].strip() for fields in rows[1:]):
            names.append("")  # each row ends in a delimiter, the header does not
    else:
        # those in the last comment, as numpy.savetxt writes them, if there is one for each column
        told = [name.strip() for name in comments[-1].lstrip("#").split(delimiter)] if comments else []
        good = len(told) == len(rows[0]) > 1 and all(told) and not any(map(_is_number, told))
        names, end = told if good else None, 0
    named = header or names is not None
    width = len(rows[0]) if names is None else len(names)
    begin_so = any(len(fields) == width and fields[0].lstrip().startswith("#") for fields in rows[1:])
    skipped = text[: begin + end]
    found_names = tuple(default_names(len(rows[0])) if names is None else names)
    return Dialect(delimiter, decimal, len(skipped.encode()), _lines_in(skipped), found_names, named, not begin_so)


def _delimiter(text: str) -> str:
    """Return the delimiter under which most records have one width, then most fields are numbers, then most columns."""

    def score(delimiter: str) -> tuple[bool, float, float, int]:
        rows = [fields for (_, _, fields), _ in zip(records(text, delimiter), range(100), strict=False)]
        width, count = Counter(len(fields) for fields in rows).most_common(1)[0] if rows else (1, 0)
        body = [field for fields in rows[1:] or rows for field in fields if field.strip() not in MISSING]
        numbers = sum(_is_number(field) or _is_comma_number(field, delimiter) for field in body)
        even = count / max(len(rows), 1)
        return width > 1, round(even, 1), round(numbers / max(len(body), 1), 1), width

    return max(DELIMITERS, key=score)


def _has_header(rows: list[list[str]], decimal: str) -> bool:
    """Whether the first row names the columns: texts above numbers, no number in it at all, or 0, 1, 2, ..."""

    def number(field: str) -> bool:
        return _is_number(field) or (decimal == "," and _is_comma_number(field, ";"))

    first = [field.strip() for field in rows[0]]
    below = rows[1:]
    counted = first[1:] if first[0] == "" else first  # as pandas writes frames without names
    numbered = counted == [str(place) for place in range(len(counted))]
    if numbered and below and (first[0] == "" or len(first) >= _COUNTED):
        return bool(counted)
    numbers = [number(field) and field not in MISSING for field in first]
    if not any(numbers):
        return any(field not in MISSING for field in first)
    for place, field in enumerate(first):
        if field in MISSING or numbers[place]:
            continue
        column = [fields[place] for fields in below if place < len(fields) and fields[place].strip() not in MISSING]
        if column and all(map(number, column)):
            return True
    return False


def _is_number(field: str) -> bool:
    return _NUMBER.fullmatch(field) is not None


def _is_comma_number(field: str, delimiter: str) -> bool:
    return delimiter != "," and _COMMA_NUMBER.fullmatch(field) is not None


# -- The bytes of a text table, cut into blocks that end where a record ends ------------------------------------------

BLOCK_BYTES = 4 << 20
LONGEST_RECORD = 32 << 20  # bytes; a longer line is no row of a table, and would have to be held whole
_BOMS = [
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16: its mark begins with that of UTF-16
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
]


@dataclass(frozen=True)
class Block:
    """Some whole records of a text table."""

    data: bytes  # UTF-8, checked
    line: int  # the number of its first line in the file, from 1
    offset: int  # of its first byte after what comes before the text (a mark of the encoding)


class TextFile:
    """A text file, plain or compressed by gzip, in UTF-8 or in what a mark at its beginning says."""

    def __init__(self, path: str) -> None:
        self.path, self._gzip = path, False
        try:
            with open(path, "rb") as file:
                self._gzip = file.read(2) == b"\x1f\x8b"
            with self._open() as file:
                head = file.read(4)
        except (OSError, EOFError, zlib.error) as error:
            raise unreadable(path, "gzip file" if self._gzip else "file", error) from error
        self._mark, self._encoding = next(((m, e) for m, e in _BOMS if head.startswith(m)), (b"", "utf-8"))
        self.seekable = not self._gzip and self._encoding == "utf-8"  # whether blocks can be read again by their offset

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
            raise InputError(f"{self.path!r} must be {self._encoding.upper()}, as it begins: save it anew.") from error
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
        lone = b"\r" in piece and b"\r\n" not in piece
        if lone and not (b"\n" in piece and _Quotes(piece, delimiter).last_end(b"\n")):
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
        data = next(self.pieces(length, offset), b"")
        return Block(self._checked(data, line, b"\n"), line, offset)

    def _unclosed(self, line: int) -> InputError:
        return InputError(f"{self.path!r} must close every quote; the one in line {line} is not closed: correct it.")

    def _too_long(self, data: bytes, line: int, delimiter: str, newline: bytes) -> InputError:
        opened = _Quotes(data, delimiter).unclosed()
        if opened is not None and newline in data:
            return self._unclosed(line + data[:opened].count(newline))
        last, most = line + data.count(newline), LONGEST_RECORD >> 20
        return InputError(f"{self.path!r} must have lines of at most {most} MiB; line {last} is longer: check it.")

    def _checked(self, data: bytes, line: int, newline: bytes) -> bytes:
        zero = data.find(b"\0")
        if zero >= 0:
            where = line + data[:zero].count(newline)
            told = f"{self.path!r} must be a text table; line {where} has a NUL byte, so it is binary or damaged"
            raise InputError(told, remedy="save it as UTF-8")
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


class _Quotes:
    """Which bytes of some records lie inside quotes; the first byte begins a record."""

    def __init__(self, data: bytes, delimiter: str) -> None:
        self._data = data
        self._places = np.flatnonzero(np.frombuffer(data, np.uint8) == ord('"')) if b'"' in data else np.empty(0, int)
        self._spans: list[tuple[int, int, bool]] | None = None  # begin, end, and whether it is closed
        opening, closing = self._places[0::2], self._places[1::2]
        if not len(opening):
            return
        # Quotes are regular if they open and close in turn: each that opens begins a field or follows one that closed.
        bytes_before: Any = np.frombuffer(data, np.uint8)[np.maximum(opening - 1, 0)]
        begins = (opening == 0) | np.isin(bytes_before, [ord(delimiter), 10, 13])
        begins[1:] |= opening[1:] == closing[: len(opening) - 1] + 1  # a doubled quote
        if not begins.all():  # the slow way, right for stray quotes too
            mark = re.escape(delimiter.encode())
            pattern = re.compile(rb'(?:\A|(?<=[\r\n])|(?<=%b))"[^"]*(?:""[^"]*)*("|\Z)' % mark)
            self._spans = [(found.start(), found.end(), bool(found[1])) for found in pattern.finditer(data)]

    def last_end(self, newline: bytes) -> int:
        """Return where the last complete record ends, 0 if none does."""
        end = self._data.rfind(newline)
        while end >= 0:
            if self._spans is None:  # quoted if an odd number of quotes come before
                count = int(np.searchsorted(self._places, end))
                start = int(self._places[count - 1]) if count % 2 else None
            else:
                found = bisect.bisect_right(self._spans, end, key=lambda span: span[0]) - 1
                start = self._spans[found][0] if found >= 0 and end < self._spans[found][1] else None
            if start is None:
                break
            end = self._data.rfind(newline, 0, start)
        return end + 1

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
