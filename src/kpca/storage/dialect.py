"""What a text table looks like: delimiter, decimal mark, header and names, found out from its first lines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kpca.errors import InputError
from kpca.storage.base import default_names

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
    """Yield the line, the end and the fields of each record; blank lines are none.

    The slow, plain reading of a text table, for its first lines and for the places of errors.
    """
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
    comments, begin = _preamble(text, said.end() if said else 0)
    body = text[begin:]
    if delimiter is None:
        delimiter = said[1] if said and said[1].isascii() else _delimiter(body)
    found = [record for record, _ in zip(records(body, delimiter), range(_SAMPLE_RECORDS), strict=False)]
    if not complete and 1 < len(found) < _SAMPLE_RECORDS:
        found = found[:-1]  # its quotes may be cut
    if not found:
        raise InputError(f"{path!r} must have rows of numbers; it is empty: check how it was written.")
    decimal = _decimal([fields for _, _, fields in found[1:]] or [found[0][2]], delimiter)
    rows = [found[0][2], *(fields for _, _, fields in found[1:] if not is_filler(fields, len(found[0][2])))]
    if header is None:
        header = _has_header(rows, decimal)
    names: list[str] | None
    if header:
        names, end = [name.strip() for name in rows[0]], found[0][1]
        if len(rows) > 1 and all(len(fields) == len(names) + 1 and not fields[-1].strip() for fields in rows[1:]):
            names.append("")  # each row ends in a delimiter, the header does not
    else:
        names, end = _commented_names(comments, len(rows[0]), delimiter), 0
    named = header or names is not None
    width = len(rows[0]) if names is None else len(names)
    begin_so = any(len(fields) == width and fields[0].lstrip().startswith("#") for fields in rows[1:])
    skipped = text[: begin + end]
    return Dialect(
        delimiter,
        decimal,
        len(skipped.encode()),
        _lines_in(skipped),
        tuple(names if names is not None else default_names(len(rows[0]))),
        named,
        not begin_so,
    )


def _preamble(text: str, begin: int) -> tuple[list[str], int]:
    """Return the comments and blank lines from a place on, and where they end."""
    comments = []
    for line in re.compile(r"[^\r\n]*(?:\r\n|\r|\n|\Z)").finditer(text, begin):
        stripped = line[0].strip()
        if stripped and not stripped.startswith("#"):
            break
        if stripped:
            comments.append(stripped)
        begin = line.end()
    return comments, begin


def _commented_names(comments: list[str], width: int, delimiter: str) -> list[str] | None:
    """Return the names in the last comment, as numpy.savetxt writes them, if there is one for each column."""
    if not comments:
        return None
    names = [name.strip() for name in comments[-1].lstrip("#").split(delimiter)]
    return names if len(names) == width > 1 and all(names) and not any(map(_is_number, names)) else None


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


def _decimal(rows: list[list[str]], delimiter: str) -> str:
    if delimiter == ",":
        return "."
    fields = [field for fields in rows for field in fields]
    commas = sum("," in field and _is_comma_number(field, delimiter) for field in fields)
    points = sum("." in field and _is_number(field) for field in fields)
    return "," if commas > points else "."


def _has_header(rows: list[list[str]], decimal: str) -> bool:
    """Whether the first row names the columns: texts above numbers, no number in it at all, or 0, 1, 2, ..."""

    def number(field: str) -> bool:
        return _is_number(field) or (decimal == "," and _is_comma_number(field, ";"))

    first = [field.strip() for field in rows[0]]
    below = rows[1:]
    counted = first[1:] if first[0] == "" else first  # as pandas writes frames without names
    if (
        counted == [str(place) for place in range(len(counted))]
        and below
        and (first[0] == "" or len(first) >= _COUNTED)
    ):
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
