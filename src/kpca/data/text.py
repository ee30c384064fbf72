"""Text tables: CSV, TSV and their relatives, read in blocks by pyarrow after a first reading of all of them."""

from __future__ import annotations

import gzip
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca._base.errors import InputError
from kpca._base.files import NewFile
from kpca.data import text_lines
from kpca.data.arrow import Batches, pyarrow
from kpca.data.rows import NUMBER, TEXT, Indices, Layout, Rows, quoted, rows_of, unreadable
from kpca.data.text_blocks import TRUTH, BlockParser, Grid, one_chunk
from kpca.data.text_lines import MISSING_LABELS, Block, TextFile, find_dialect

_BYTES_PER_COLUMN = 1 << 8  # of a block: there is some work per column and block


class TextTable:
    """A text table; `scan` must have been called before its rows are read."""

    def __init__(self, path: str, *, delimiter: str | None = None, header: bool | None = None) -> None:
        if delimiter is not None and (not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '"\r\n'):
            raise InputError(f"must be a single character, and no quote; got {quoted(delimiter)}", param="delimiter")
        if delimiter is not None and not delimiter.isascii():
            given = f"must be a character of ASCII; got {quoted(delimiter)}: replace it in the file"
            raise InputError(given, param="delimiter")
        self._arrow = pyarrow("Reading text tables")
        self.path, self._file = path, TextFile(path)
        head, complete = self._file.head(text_lines.SAMPLE_BYTES)
        self.dialect = find_dialect(path, head, complete, delimiter, header)
        self.names, self.hidden = list(self.dialect.names), tuple[str, ...]()
        for place in (place for place, name in enumerate(self.names) if not name):
            is_index = place == 0 and len(self.names) > 1  # a first column without a name, as pandas writes one
            fresh = "index" if is_index else f"unnamed_{place}"
            while fresh in self.names:
                fresh += "_"
            self.names[place] = fresh
            self.hidden = (fresh,) if is_index else self.hidden
        self._place = {name: place for place, name in reversed(list(enumerate(self.names)))}
        self.n_rows = 0
        self._parser = BlockParser(self._arrow, path, self.dialect)
        self._verbatim: dict[int, tuple[str, ...]] = {}  # ids and labels: how missing ones are written
        self._facts: dict[int, ColumnFacts] = {}
        self._blocks: list[tuple[int, int, int, int]] = []  # offset, length, first line, first row
        self._size = int(
            min(max(text_lines.BLOCK_BYTES, len(self.names) * _BYTES_PER_COLUMN), text_lines.LONGEST_RECORD)
        )

    def scan(self, used: Sequence[str], *, id: str | None = None, label: str | None = None, seen: Any = None) -> None:
        """Read through the file once: types, missing entries, blocks and rows; `seen` gets their number."""
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
        slips = [facts.first_text[1] for facts in self._facts.values() if facts.mixed and facts.first_text]
        commas = any(re.fullmatch(r"\s*[+-]?\d*,\d+\s*", text) for text in slips)
        if self.dialect.decimal == "." and self.dialect.delimiter != "," and commas:
            self.dialect = replace(self.dialect, decimal=",")
            self._parser = BlockParser(self._arrow, self.path, self.dialect)
            self.scan(used, id=id, label=label)
        if self.n_rows == 0:
            what = "it has a header and nothing below it" if self.dialect.named else "it has none"
            raise InputError(f"{self.path!r} must have rows of data; {what}: check how it was written.")
        alone = self._facts.get(0) if len(self.names) == 1 else None
        line, entry = alone.first_text if alone is not None and alone.first_text is not None else (0, "")
        parts = entry.split()
        if len(parts) > 1 and all(re.fullmatch(r"[+-]?[\d.]+([eE][+-]?\d+)?", part) for part in parts):
            raise InputError(  # its delimiter is a run of blanks
                f"{self.path!r} must separate its columns by commas, semicolons, tabs or bars; line {line} separates "
                f"{len(parts)} numbers by blanks: save it with commas."
            )

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

    def pieces(self, layout: Layout, dtype: np.dtype[Any], rows: int) -> Iterator[Rows]:
        seen = 0
        for block in self._data_blocks():
            piece = self._piece(block, layout, dtype)
            seen += len(piece.numbers)
            yield piece
        if seen != self.n_rows:
            raise self._changed()

    def take(self, layout: Layout, dtype: np.dtype[Any], indices: Indices) -> NDArray[Any]:
        """Return the numbers of these rows, reading only the blocks they lie in where the file can be searched."""
        bounds = [*(first for _, _, _, first in self._blocks), self.n_rows]
        taken = np.empty((len(indices), len(layout.numbers)), dtype=dtype)
        stream = None if self._file.seekable else self._data_blocks()
        for number, (offset, length, line, first) in enumerate(self._blocks):
            here = slice(*np.searchsorted(indices, bounds[number : number + 2]))
            block = next(stream, None) if stream is not None else None
            if here.start == here.stop:
                continue
            block = self._file.block(offset, length, line) if stream is None else block
            numbers = self._piece(block, layout, dtype).numbers if block is not None else taken[:0]
            inside = indices[here] - first
            if inside[-1] >= len(numbers):
                raise self._changed()
            taken[here] = numbers[inside]
        return taken

    def _changed(self) -> InputError:
        return InputError(f"{self.path!r} must stay as it is while it is read; it has changed: read it again.")

    def _piece(self, block: Block, layout: Layout, dtype: np.dtype[Any]) -> Rows:
        places = [self._place[name] for name in layout.numbers]
        others = [self._place[name] for name in (*layout.texts, *layout.beside)]
        grid = self._parser.grid(block)
        numbers = None
        if grid is not None and not any(self._facts[place].state == TRUTH for place in places):
            numbers = grid.numbers(places) if places else np.empty((grid.n_rows, 0))
        if grid is not None and numbers is not None:
            columns = {place: grid.taken([place]) for place in others}
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
        try:
            return rows_of(
                layout,
                numbers.astype(dtype, copy=False),
                lambda name: np.fromiter(self._parser.present(columns[self._place[name]]).to_pylist(), dtype=object),
                lambda name: self._values(self._place[name], columns[self._place[name]]),
            )
        except (TypeError, ValueError) as failure:  # an entry is none of what all were
            raise self._changed() from failure

    def _values(self, place: int, entries: Any) -> NDArray[Any]:
        """Return ids or labels: whole numbers or numbers where all of the file are, else texts."""
        facts, spelled = self._facts[place], set(self._verbatim[place])
        make: Callable[[str], Any] = str
        kind: Any = None
        if facts.texts == 0 and facts.truths == 0 and facts.numbers > 0:
            if facts.whole:
                make, kind = int, np.int64
            elif len(spelled) > 1:  # a label; an id that is no whole number stays as it is written
                make, kind = (lambda entry: float(entry.replace(self.dialect.decimal, "."))), np.float64
        elif facts.texts == 0 and facts.numbers == 0 and facts.truths > 0:
            make, kind = (lambda entry: entry.strip().lower() == "true"), np.bool_
        missing = np.nan if kind is np.float64 else None
        values = [missing if entry in spelled else make(entry) for entry in entries.to_pylist()]
        if kind is np.float64 or (kind is not None and facts.missing == 0):
            return np.array(values, dtype=kind)
        return np.fromiter(values, dtype=object)


# -- The first reading of a text table: what each column holds in the whole file, not in its first lines --------------

_WHOLE = r"^(0|-?[1-9]\d{0,18})$"  # what a whole number of 64 bits looks like when a program writes it
_FEW = 0.1  # of the entries of a column: this many texts among numbers are slips, more are what the column holds
_SURELY = 1000  # texts, and more than a few: it need not be counted on


@dataclass
class ColumnFacts:
    """What is known of a column so far."""

    state: str = NUMBER  # what all entries so far can be read as: NUMBER, TRUTH or TEXT
    numbers: int = 0
    truths: int = 0
    texts: int = 0
    missing: int = 0
    whole: bool = True  # for ids and labels: all entries are whole numbers
    first_text: tuple[int, str] | None = None  # line, entry
    first_infinite: tuple[int, str] | None = None

    @property
    def settled(self) -> bool:
        """Whether it holds texts, whatever is to come."""
        return self.texts > _SURELY and self.texts > _FEW * (self.texts + self.numbers + self.truths)

    @property
    def mixed(self) -> bool:
        """Whether it is a column of numbers with a few texts among them."""
        others = self.texts + self.truths
        return self.state == TEXT and self.numbers > 0 and others <= _FEW * (self.numbers + others)


class Scan:
    """Learns about columns, block by block; `verbatim` are ids and labels, with how missing ones are written."""

    def __init__(self, parser: BlockParser, places: Iterable[int], verbatim: dict[int, tuple[str, ...]]) -> None:
        self._parser, self._verbatim = parser, verbatim
        self._arrow, self._compute = parser.arrow, parser.arrow.compute
        self.facts = {place: ColumnFacts(TEXT if place in verbatim else NUMBER) for place in [*places, *verbatim]}

    def states(self) -> dict[int, str]:
        """Return what each column is to be read as."""
        return {place: facts.state for place, facts in self.facts.items()}

    def learn(self, block: Block) -> int:
        """Learn from a block; return how many rows it has."""
        grid = self._parser.grid(block)
        if grid is not None and self._learn_from_grid(grid):
            return grid.n_rows
        table = self._read(block)
        found: list[tuple[int, int, str]] = []  # column, row of the block, infinite entry
        for place, facts in self.facts.items():
            entries = table.column(str(place))
            if facts.state == TEXT:
                self._count_texts(place, facts, one_chunk(entries))
                continue
            facts.missing += entries.null_count
            count = len(entries) - entries.null_count
            if facts.state == TRUTH:
                facts.truths += count
                continue
            facts.numbers += count
            infinite = self._compute.is_inf(entries) if facts.first_infinite is None else None
            if infinite is not None and self._compute.any(infinite, min_count=0).as_py():
                row = int(np.flatnonzero(self._compute.fill_null(infinite, False).to_numpy())[0])
                found.append((place, row, str(entries[row].as_py())))
        self._note(block, "first_infinite", found)
        return int(table.num_rows)

    def _note(self, block: Block, what: str, found: list[tuple[int, int, str]]) -> None:
        """Keep the line and the entry of what was found in some columns of a block."""
        lines = self._parser.lines(block, max(row for _, row, _ in found)) if found else []
        for place, row, entry in found:
            setattr(self.facts[place], what, (lines[row], entry))

    def _learn_from_grid(self, grid: Grid) -> bool:
        """Learn from a wide block; return whether it is one of what was thought, and finite."""
        places = [place for place, facts in self.facts.items() if facts.state == NUMBER]
        numbers = grid.numbers(places) if places else np.empty((grid.n_rows, 0))
        if numbers is None or np.isinf(numbers).any() or TRUTH in self.states().values():
            return False
        for place, missing in zip(places, np.isnan(numbers).sum(axis=0).tolist(), strict=True):
            self.facts[place].missing += missing
            self.facts[place].numbers += grid.n_rows - missing
        for place, facts in self.facts.items():
            if facts.state == TEXT:
                self._count_texts(place, facts, grid.taken([place]))
        return True

    def _read(self, block: Block) -> Any:
        """Return a block as what its columns are, once columns are known to be less than was thought."""
        while True:
            try:
                return self._parser.read(block, self.states())
            except self._arrow.ArrowInvalid as failure:
                if self._demote(block):
                    continue
                if self._parser.padded:  # a column that looks like numbers, but pyarrow cannot read as such
                    named = re.search(r"In CSV column #(\d+)", str(failure))
                    facts = self.facts.get(int(named[1])) if named else None
                    if facts is None or facts.state == TEXT:
                        raise unreadable(self._parser.path, "text table", failure) from failure
                    facts.state = TEXT
                self._parser.padded = True  # blanks around a word for "missing", maybe

    def _demote(self, block: Block) -> bool:
        """Find columns of this block that hold other things than was thought; return whether there are any."""
        try:
            texts = self._parser.read(block, dict.fromkeys(self.facts, TEXT))
        except self._arrow.ArrowInvalid as error:
            raise unreadable(self._parser.path, "text table", error) from error
        found: list[tuple[int, int, str]] = []  # column, row of the block, entry
        truths = 0
        for place, facts in self.facts.items():
            if facts.state == TEXT:
                continue
            entries = self._parser.present(texts.column(str(place)))
            others = np.flatnonzero(~self._parser.fits(entries, facts.state))
            if not len(others):
                continue
            if facts.state == NUMBER and facts.numbers == 0 and self._parser.fits(entries, TRUTH).all():
                facts.state = TRUTH
                truths += 1
            else:
                facts.state = TEXT
                found.append((place, int(others[0]), entries[int(others[0])].as_py()))
        self._note(block, "first_text", found)
        return bool(found) or truths > 0

    def _count_texts(self, place: int, facts: ColumnFacts, entries: Any) -> None:
        """Count what a column of texts holds; of an id or label also truth values, and whether it is whole numbers."""
        compute, fits, spelled = self._compute, self._parser.fits, self._verbatim.get(place)
        if spelled is None:
            entries, known = self._parser.present(entries), facts.settled
        else:
            entries = compute.if_else(compute.is_in(entries, self._arrow.array(spelled)), None, entries)
            known = facts.texts > 0
        facts.missing += entries.null_count
        if not known:
            numbers = int(np.count_nonzero(fits(entries, NUMBER))) - entries.null_count
            truths = 0 if spelled is None else int(np.count_nonzero(fits(entries, TRUTH))) - entries.null_count
            facts.numbers, facts.truths = facts.numbers + numbers, facts.truths + truths
            facts.texts += len(entries) - entries.null_count - numbers - truths
        if spelled is not None and facts.whole:
            whole = compute.fill_null(compute.match_substring_regex(entries, _WHOLE), True)
            facts.whole = bool(compute.all(whole, min_count=0).as_py())
            try:
                entries.cast(self._arrow.int64() if facts.whole else entries.type)
            except self._arrow.ArrowInvalid:  # more than 64 bits
                facts.whole = False


# -- Text tables out ---------------------------------------------------------------------------------------------------


class TextWriter:
    """A text table in a file, compressed if its name says so, or on standard output ("-"); floats keep all digits."""

    def __init__(
        self, path: str, names: Sequence[str], extras: Sequence[str], dtype: np.dtype[Any], *, delimiter: str = ","
    ) -> None:
        self._arrow = pyarrow("Writing text tables")
        self._batch = Batches(self._arrow, names, extras, dtype)
        self._delimiter, self._begun = delimiter, False
        self._new = None if path == "-" else NewFile(path)
        self._file: Any = sys.stdout.buffer if self._new is None else self._new.file
        self._packed: Any = None
        if path.lower().endswith(".gz"):
            self._file = self._packed = gzip.GzipFile("", "wb", 6, self._file, mtime=0)

    def write(self, chunk: NDArray[Any], extras: Mapping[str, NDArray[Any]]) -> None:
        self._put(self._arrow.Table.from_batches([self._batch(chunk, extras)]))

    def _put(self, table: Any) -> None:
        csv, buffer = self._arrow.csv, self._arrow.BufferOutputStream()
        csv.write_csv(table, buffer, csv.WriteOptions(include_header=not self._begun, delimiter=self._delimiter))
        self._file.write(buffer.getvalue().to_pybytes())
        self._begun = True

    def finish(self) -> None:
        """Write what is still to be written and give the file its name."""
        if not self._begun:
            self._put(self._batch.decided().empty_table())
        if self._packed is not None:
            self._packed.close()
        if self._new is not None:
            self._new.finish()
        else:
            self._file.flush()

    def abandon(self) -> None:
        """Remove what was written; what went to a stream is gone."""
        if self._packed is not None:
            self._packed.fileobj = None  # or it would write its last bytes when it is collected
        if self._new is not None:
            self._new.abandon()
