"""Text tables: CSV, TSV and their relatives, read in blocks by pyarrow after a first reading of all of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca.errors import InputError
from kpca.storage._arrow import pyarrow
from kpca.storage.base import Indices, quoted
from kpca.storage.columns import NUMBER, TEXT, Piece, Wanted
from kpca.storage.dialect import MISSING_LABELS, SAMPLE_BYTES, Dialect, find_dialect
from kpca.storage.lines import BLOCK_BYTES, LONGEST_RECORD, Block, TextFile
from kpca.storage.text_blocks import TRUTH, BlockParser
from kpca.storage.text_scan import ColumnFacts, Scan

_BYTES_PER_COLUMN = 1 << 8  # of a block: there is some work per column and block


class TextTable:
    """A text table; `scan` must have been called before its rows are read."""

    def __init__(self, path: str, *, delimiter: str | None = None, header: bool | None = None) -> None:
        self._arrow = pyarrow("Reading text tables")
        self.path, self._file = path, TextFile(path)
        head, complete = self._file.head(SAMPLE_BYTES)
        self.dialect = find_dialect(path, head, complete, delimiter, header)
        self.names, self.hidden = _column_names(self.dialect)
        self._place = {name: place for place, name in reversed(list(enumerate(self.names)))}
        self.n_rows = 0
        self._parser = BlockParser(self._arrow, path, self.dialect)
        self._verbatim: dict[int, tuple[str, ...]] = {}  # ids and labels: how missing ones are written
        self._facts: dict[int, ColumnFacts] = {}
        self._blocks: list[tuple[int, int, int, int]] = []  # offset, length, first line, first row
        self._size = int(min(max(BLOCK_BYTES, len(self.names) * _BYTES_PER_COLUMN), LONGEST_RECORD))

    def scan(
        self,
        used: Sequence[str],
        *,
        id: str | None = None,
        label: str | None = None,
        seen: Callable[[int], None] | None = None,
    ) -> None:
        """Read through the file once: types, missing entries, the number of rows, where the blocks are.

        `seen` is told of rows as they are read.
        """
        beside = [(id, ("",)), (label, MISSING_LABELS)]
        self._verbatim = {self._place[name]: spelled for name, spelled in beside if name is not None}
        scan = Scan(self._parser, [self._place[name] for name in used], self._verbatim)
        self.n_rows, self._blocks = 0, []
        for block in self._data_blocks():
            rows = scan.learn(block)
            self._blocks.append((block.offset, len(block.data), block.line, self.n_rows))
            self.n_rows += rows
            if seen is not None:
                seen(rows)
        self._facts = scan.facts
        if self.dialect.decimal == "." and self.dialect.delimiter != "," and self._has_decimal_commas():
            self.dialect = replace(self.dialect, decimal=",")
            self._parser = BlockParser(self._arrow, self.path, self.dialect)
            self.scan(used, id=id, label=label)
        if self.n_rows == 0:
            what = "it has a header and nothing below it" if self.dialect.named else "it has none"
            raise InputError(f"{self.path!r} must have rows of data; {what}: check how it was written.")

        self._check_blanks()

    def _check_blanks(self) -> None:
        """Refuse a table of one column whose entries are several numbers: its delimiter is a run of blanks."""
        facts = self._facts.get(0)
        if len(self.names) > 1 or facts is None or facts.first_text is None:
            return
        line, entry = facts.first_text
        if len(parts := entry.split()) > 1 and all(re.fullmatch(r"[+-]?[\d.]+([eE][+-]?\d+)?", part) for part in parts):
            raise InputError(
                f"{self.path!r} must separate its columns by commas, semicolons, tabs or bars; line {line} separates "
                f"{len(parts)} numbers by blanks: save it with commas."
            )

    def _has_decimal_commas(self) -> bool:
        texts = [facts.first_text[1] for facts in self._facts.values() if facts.mixed and facts.first_text]
        return any(re.fullmatch(r"\s*[+-]?\d*,\d+\s*", text) for text in texts)

    def _data_blocks(self) -> Iterator[Block]:
        """Yield the blocks without what comes before the first row."""
        skipped, lines = self.dialect.skipped, self.dialect.skipped_lines
        mark = self.dialect.delimiter.encode()
        for block in self._file.blocks(self.dialect.delimiter, self._size):
            passed = min(skipped, len(block.data))
            skipped -= passed
            data = block.data[passed:] if passed else block.data
            line = max(block.line, 1 + lines) if passed else block.line
            if data and not (data.isspace() and mark not in data):  # tabs alone are a row of a table with tabs
                yield Block(data, line, block.offset + passed)

    # --- what was learned ---

    def kind(self, name: str) -> str:
        """Return what all entries of a column are."""
        return TEXT if self._facts[self._place[name]].state == TEXT else NUMBER

    def is_single(self, name: str) -> bool:
        """Numbers in text are read in double precision."""
        return False

    def is_blank(self, name: str) -> bool:
        """Whether a column has neither a name nor an entry, as a delimiter at the end of each line makes one."""
        place = self._place[name]
        return not self.dialect.names[place] and self._facts[place].missing == self.n_rows

    def slip(self, name: str) -> str | None:
        """Return the beginning of the sentence on texts in a column of numbers, if it is one with a few in it."""
        facts = self._facts[self._place[name]]
        if not facts.mixed or facts.first_text is None:
            return None
        line, entry = facts.first_text
        others = facts.texts + facts.truths
        return (
            f"Column {quoted(name)} of {self.path!r} must hold numbers, as {facts.numbers} of its entries are; line "
            f"{line} holds {quoted(entry)}" + (f" and {others - 1} other(s) are texts too" if others > 1 else "")
        )

    def infinite(self, name: str) -> str | None:
        """Return the beginning of the sentence on the first infinite entry of a column, if there is one."""
        found = self._facts[self._place[name]].first_infinite
        if found is None:
            return None
        return f"Column {quoted(name)} of {self.path!r} must be finite; line {found[0]} holds {found[1]}"

    # --- rows ---

    def pieces(self, wanted: Wanted, dtype: np.dtype[Any], rows: int) -> Iterator[Piece]:
        """Yield the rows block by block."""
        seen = 0
        for block in self._data_blocks():
            piece = self._piece(block, wanted, dtype)
            seen += len(piece.numbers)
            yield piece
        if seen != self.n_rows:
            raise self._changed()

    def take(self, wanted: Wanted, dtype: np.dtype[Any], indices: Indices) -> NDArray[Any]:
        """Return the numbers of these rows, reading only the blocks they lie in where the file can be searched."""
        bounds = [*(first for _, _, _, first in self._blocks), self.n_rows]
        taken = np.empty((len(indices), len(wanted.numbers)), dtype=dtype)
        stream = None if self._file.seekable else self._data_blocks()
        for number, (offset, length, line, first) in enumerate(self._blocks):
            here = slice(*np.searchsorted(indices, bounds[number : number + 2]))
            block = next(stream, None) if stream is not None else None
            if here.start == here.stop:
                continue
            block = self._file.block(offset, length, line) if stream is None else block
            numbers = self._piece(block, wanted, dtype).numbers if block is not None else taken[:0]
            inside = indices[here] - first
            if inside[-1] >= len(numbers):
                raise self._changed()
            taken[here] = numbers[inside]
        return taken

    def _changed(self) -> InputError:
        return InputError(f"{self.path!r} must stay as it is while it is read; it has changed: read it again.")

    def _piece(self, block: Block, wanted: Wanted, dtype: np.dtype[Any]) -> Piece:
        places = [self._place[name] for name in wanted.numbers]
        others = [self._place[name] for name in (*wanted.texts, *wanted.values)]
        grid = self._parser.grid(block)
        numbers = None
        if grid is not None and not any(self._facts[place].state == TRUTH for place in places):
            numbers = grid.numbers(places) if places else np.empty((grid.n_rows, 0))
        if grid is not None and numbers is not None:
            columns = {place: grid.column(place) for place in others}
        else:
            states = {place: self._facts[place].state for place in places}
            # Others as they stand, also where all of them are numbers: "007" is another text than "7".
            states |= dict.fromkeys(others, TEXT)
            try:
                table = self._parser.read(block, states)
            except self._arrow.ArrowInvalid as failure:
                raise self._changed() from failure
            numbers = np.empty((table.num_rows, len(places)), dtype=dtype)
            for number, place in enumerate(places):
                numbers[:, number] = table.column(str(place)).cast(self._arrow.float64()).to_numpy()
            columns = {place: table.column(str(place)) for place in others}
        texts = {name: self._texts(columns[self._place[name]]) for name in wanted.texts}
        try:
            values = {name: self._values(self._place[name], columns[self._place[name]]) for name in wanted.values}
        except (TypeError, ValueError) as failure:  # an entry is none of what all were
            raise self._changed() from failure
        return Piece(numbers.astype(dtype, copy=False), texts, values)

    def _texts(self, entries: Any) -> NDArray[Any]:
        texts = np.empty(len(entries), dtype=object)
        texts[:] = self._parser.present(entries).to_pylist()
        return texts

    def _values(self, place: int, entries: Any) -> NDArray[Any]:
        """Return ids or labels: whole numbers or numbers where all of the file are, else texts."""
        facts, spelled = self._facts[place], set(self._verbatim[place])
        make: Callable[[str], Any] = str
        if facts.texts == 0 and facts.truths == 0 and facts.numbers > 0:
            if facts.whole:
                make = int
            elif len(spelled) > 1:  # a label; an id that is no whole number stays as it is written
                numbers = [np.nan if entry in spelled else self._float(entry) for entry in entries.to_pylist()]
                return np.array(numbers, dtype=np.float64)
        elif facts.texts == 0 and facts.numbers == 0 and facts.truths > 0:
            make = _truth
        values = [None if entry in spelled else make(entry) for entry in entries.to_pylist()]
        if make is not str and facts.missing == 0:
            return np.array(values, dtype=bool if make is _truth else np.int64)
        found = np.empty(len(values), dtype=object)
        found[:] = values
        return found

    def _float(self, entry: str) -> float:
        return float(entry.replace(self.dialect.decimal, "."))


def _truth(entry: str) -> bool:
    return entry.strip().lower() == "true"


def _column_names(dialect: Dialect) -> tuple[list[str], tuple[str, ...]]:
    """Return names for all columns and that of an index.

    A first column without a name is the index of a frame that pandas wrote; others are called after their place.
    """
    names, taken = list(dialect.names), set(dialect.names)
    hidden: tuple[str, ...] = ()
    for place, name in enumerate(names):
        if name:
            continue
        is_index = place == 0 and len(names) > 1
        fresh = "index" if is_index else f"unnamed_{place}"
        while fresh in taken:
            fresh += "_"
        names[place] = fresh
        taken.add(fresh)
        hidden = (fresh,) if is_index else hidden
    return names, hidden
