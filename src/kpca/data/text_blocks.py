"""Blocks of a text table as columns of Arrow, and what to say of rows that do not fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca._base.errors import InputError
from kpca.data.rows import NUMBER, TEXT, quoted
from kpca.data.text_lines import MISSING, Block, Dialect, is_filler, records

TRUTH = "truth"
_TRUE, _FALSE = ["true", "True", "TRUE"], ["false", "False", "FALSE"]
_NUMBER = r"^\s*[+-]?((\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?|inf|infinity|nan)\s*$"
_WIDE = 1 << 10  # columns; pyarrow has some work and memory per column and block, so wide blocks go another way
_MARK = b"\xef\xbb\xbf"  # that of UTF-8 at the beginning of a file, but a letter anywhere else
_NEVER = "\x1f"  # a delimiter that separates nothing


class BlockParser:
    """Reads blocks of a text table of one dialect."""

    def __init__(self, arrow: Any, path: str, dialect: Dialect) -> None:
        self.arrow, self.path, self.dialect = arrow, path, dialect
        self.width = len(dialect.names)
        self.padded = False  # whether entries that mean "missing" have blanks around them; it takes time to look

    def read(self, block: Block, states: dict[int, str]) -> Any:
        """Return columns by place, as these states say, refusing ragged rows; ArrowInvalid if that cannot be."""
        csv, arrow = self.arrow.csv, self.arrow
        kinds = {NUMBER: arrow.float64(), TRUTH: arrow.bool_(), TEXT: arrow.string()}
        ragged: list[Any] = []

        def handle(row: Any) -> str:
            comment = self.dialect.comments and row.text.lstrip().startswith("#")
            if comment or not row.text.replace(self.dialect.delimiter, " ").strip():
                return "skip"
            ragged.append(row)
            return "error"

        names, mark = [str(place) for place in range(self.width)], self.dialect.delimiter
        reading = csv.ReadOptions(column_names=names, block_size=len(block.data) + 2, use_threads=True)
        parsing = csv.ParseOptions(delimiter=mark, newlines_in_values=True, invalid_row_handler=handle)
        truths = TRUTH in states.values()
        converting = csv.ConvertOptions(
            column_types={str(place): kinds[state] for place, state in states.items()},
            include_columns=[str(place) for place in states] if len(states) < self.width else None,
            null_values=_padded(MISSING) if self.padded else list(MISSING),
            true_values=_padded(_TRUE) if truths else [],
            false_values=_padded(_FALSE) if truths else [],
            decimal_point=self.dialect.decimal,
            strings_can_be_null=False,
        )
        data = b"\n" + block.data if block.data.startswith(_MARK) else block.data  # or pyarrow would pass over it
        try:
            return csv.read_csv(arrow.BufferReader(data), reading, parsing, converting)
        except arrow.ArrowInvalid as error:
            if ragged:
                raise self._ragged(block) from error
            raise

    def _ragged(self, block: Block) -> InputError:
        width, mark = self.width, self.dialect.delimiter
        for line, _, fields in records(block.data.decode(), mark, block.line):
            if len(fields) != width and not is_filler(fields, width, self.dialect.comments):
                if self.dialect.named and len(fields) == width + 1 and line == self.dialect.skipped_lines + 1:
                    told = f"its header has {width} name{'s' * (width > 1)}, and line {line} has {len(fields)} entries"
                    remedy = 'add the one that is missing, "" in front for a column of row names, as R writes it'
                    return InputError(f"{self.path!r} must name each of its columns; {told}", remedy=remedy)
                told = f"line {line} has {len(fields)} ({quoted(mark.join(fields))}): correct it, or quote entries"
                return InputError(
                    f"{self.path!r} must have {width} entries a row; {told} that hold the delimiter {mark!r}."
                )
        return InputError(f"{self.path!r} must have {width} entries in each row; one has more or fewer: correct it.")

    def lines(self, block: Block, last: int) -> list[int]:
        """Return the lines in the file of the first rows of a block, up to row `last`."""
        lines: list[int] = []
        for line, _, fields in records(block.data.decode(), self.dialect.delimiter, block.line):
            if not is_filler(fields, self.width, self.dialect.comments):
                lines.append(line)
            if len(lines) > last:
                break
        return lines

    def present(self, entries: Any) -> Any:
        """Return texts in which those that mean "missing" are null."""
        compute = self.arrow.compute
        entries = one_chunk(entries)
        trimmed = compute.utf8_trim_whitespace(entries)
        return compute.if_else(compute.is_in(trimmed, self.arrow.array(MISSING)), None, entries)

    def fits(self, entries: Any, state: str) -> NDArray[np.bool_]:
        """Return which entries are of this kind; null ones are of any."""
        compute = self.arrow.compute
        if state == TRUTH:
            fits = compute.is_in(compute.utf8_trim_whitespace(entries), self.arrow.array([*_TRUE, *_FALSE]))
            fits = compute.or_(fits, compute.is_null(entries))
        else:
            pattern = _NUMBER if self.dialect.decimal == "." else _NUMBER.replace(r"\.", ",")
            fits = compute.match_substring_regex(entries, pattern, ignore_case=True)
        found: NDArray[np.bool_] = compute.fill_null(fits, True).to_numpy(zero_copy_only=False)
        return found

    def grid(self, block: Block) -> Grid | None:
        """Return a wide, plain block as a grid of texts; None if it is narrow, or has quotes, comments or gaps."""
        data = block.data
        if self.width < _WIDE or self.dialect.decimal != "." or b'"' in data or b"#" in data or b"\x1f" in data:
            return None
        data = data.replace(b"\r\n", b"\n").strip(b"\n")
        if b"\r" in data or b"\n\n" in data or data.startswith(_MARK):
            return None
        letters = np.frombuffer(data, np.uint8)
        ends = np.flatnonzero((letters == ord(self.dialect.delimiter)) | (letters == 10))
        rows, left = divmod(len(ends) + 1, self.width)
        if left or data.count(b"\n") != rows - 1 or not (letters[ends[self.width - 1 :: self.width]] == 10).all():
            return None
        csv = self.arrow.csv
        one = data.replace(self.dialect.delimiter.encode(), b"\n") + b"\n"
        table = csv.read_csv(
            self.arrow.BufferReader(one),
            csv.ReadOptions(column_names=["0"], block_size=len(one) + 1),
            csv.ParseOptions(delimiter=_NEVER, quote_char=False, ignore_empty_lines=False),
            csv.ConvertOptions(column_types={"0": self.arrow.string()}, strings_can_be_null=False),
        )
        return Grid(self, one_chunk(table.column(0)), rows)


class Grid:
    """The entries of a wide block, row by row, as one column of texts: there is no work per column."""

    def __init__(self, parser: BlockParser, entries: Any, rows: int) -> None:
        self._parser, self._entries, self.n_rows = parser, entries, rows

    def taken(self, places: Sequence[int]) -> Any:
        """Return the entries of these columns, row by row."""
        width = self._parser.width
        if len(places) == width and bool((np.diff(places) == 1).all()):
            return self._entries
        wanted = (np.arange(self.n_rows)[:, None] * width + np.asarray(places)).ravel()
        return self._entries.take(self._parser.arrow.array(wanted))

    def numbers(self, places: Sequence[int]) -> NDArray[Any] | None:
        """Return these columns as numbers, None if an entry is no number.  # shape: (n_rows, len(places))"""
        arrow = self._parser.arrow
        trimmed = arrow.compute.utf8_trim_whitespace(self._parser.present(self.taken(places)))
        try:
            found = trimmed.cast(arrow.float64()).to_numpy(zero_copy_only=False)
        except arrow.ArrowInvalid:
            return None
        return np.asarray(found).reshape(self.n_rows, len(places))


def one_chunk(entries: Any) -> Any:
    """Return a column as one array."""
    return entries.combine_chunks() if hasattr(entries, "combine_chunks") else entries


def _padded(spellings: Sequence[str]) -> list[str]:
    """Return spellings with a blank before, after, or both: pyarrow compares entries as they stand."""
    return [f"{before}{text}{after}" for text in spellings for before in ("", " ") for after in ("", " ")]
