"""The first reading of a text table: what each column holds in the whole file, not in its first lines."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kpca.storage.base import unreadable
from kpca.storage.columns import NUMBER, TEXT
from kpca.storage.lines import Block
from kpca.storage.text_blocks import TRUTH, BlockParser, Grid, one_chunk

_WHOLE = r"^(0|-?[1-9]\d{0,18})$"  # what a whole number of 64 bits looks like when a program writes it
_FEW = 0.1  # of the entries of a column: so many texts among numbers are slips, more are what the column holds
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
        self.facts = {place: ColumnFacts() for place in [*places, *verbatim]}
        for place in verbatim:
            self.facts[place].state = TEXT

    def states(self) -> dict[int, str]:
        """Return what each column is to be read as."""
        return {place: facts.state for place, facts in self.facts.items()}

    def learn(self, block: Block) -> int:
        """Learn from a block; return how many rows it has."""
        grid = self._parser.grid(block)
        if grid is not None and self._learn_from_grid(grid):
            return grid.n_rows
        table = self._read(block)
        for place, facts in self.facts.items():
            entries = table.column(str(place))
            if facts.state == TEXT:
                self._count_texts(place, facts, one_chunk(entries))
            else:
                facts.missing += entries.null_count
                count = len(entries) - entries.null_count
                facts.numbers += count if facts.state == NUMBER else 0
                facts.truths += count if facts.state == TRUTH else 0
        self._find_infinite(block, table)
        return int(table.num_rows)

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
                self._count_texts(place, facts, grid.column(place))
        return True

    def _read(self, block: Block) -> Any:
        """Return a block as what its columns are, once columns are known to be less than was thought."""
        while True:
            try:
                return self._parser.read(block, self.states())
            except self._arrow.ArrowInvalid as failure:
                if self._demote(block):
                    continue
                if self._parser.padded:
                    self._demote_named(failure)
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
        lines = self._parser.lines(block, max((row for _, row, _ in found), default=-1))
        for place, row, entry in found:
            self.facts[place].first_text = (lines[row], entry)
        return bool(found) or truths > 0

    def _demote_named(self, failure: Exception) -> None:
        """Take a column that pyarrow cannot read as numbers, although it looks like numbers, for one of texts."""
        named = re.search(r"In CSV column #(\d+)", str(failure))
        facts = self.facts.get(int(named[1])) if named else None
        if facts is None or facts.state == TEXT:
            raise unreadable(self._parser.path, "text table", failure) from failure
        facts.state = TEXT

    def _count_texts(self, place: int, facts: ColumnFacts, entries: Any) -> None:
        if place in self._verbatim:
            self._count_values(place, facts, entries)
            return
        entries = self._parser.present(entries)
        facts.missing += entries.null_count
        if facts.settled:
            return
        numbers = int(np.count_nonzero(self._parser.fits(entries, NUMBER))) - entries.null_count
        facts.numbers += numbers
        facts.texts += len(entries) - entries.null_count - numbers

    def _count_values(self, place: int, facts: ColumnFacts, entries: Any) -> None:
        """Learn whether an id or label is a whole number, a number or a truth value everywhere."""
        compute, fits = self._compute, self._parser.fits
        missing = compute.is_in(entries, self._arrow.array(self._verbatim[place]))
        entries = compute.if_else(missing, None, entries)
        facts.missing += entries.null_count
        if facts.texts == 0:
            numbers = int(np.count_nonzero(fits(entries, NUMBER))) - entries.null_count
            truths = int(np.count_nonzero(fits(entries, TRUTH))) - entries.null_count
            facts.numbers, facts.truths = facts.numbers + numbers, facts.truths + truths
            facts.texts += len(entries) - entries.null_count - numbers - truths
        if facts.whole:
            whole = compute.fill_null(compute.match_substring_regex(entries, _WHOLE), True)
            facts.whole = bool(compute.all(whole, min_count=0).as_py()) and self._fit_64_bits(entries)

    def _fit_64_bits(self, entries: Any) -> bool:
        try:
            entries.cast(self._arrow.int64())
        except self._arrow.ArrowInvalid:
            return False
        return True

    def _find_infinite(self, block: Block, table: Any) -> None:
        """Note the first infinite entry of each column of numbers."""
        found = []
        for place, facts in self.facts.items():
            if facts.state != NUMBER or facts.first_infinite is not None:
                continue
            entries = table.column(str(place))
            infinite = self._compute.is_inf(entries)
            if self._compute.any(infinite, min_count=0).as_py():
                row = int(np.flatnonzero(self._compute.fill_null(infinite, False).to_numpy())[0])
                found.append((place, row, str(entries[row].as_py())))
        lines = self._parser.lines(block, max((row for _, row, _ in found), default=-1))
        for place, row, entry in found:
            self.facts[place].first_infinite = (lines[row], entry)
