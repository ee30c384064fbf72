"""What one pass over the rows of a table finds out before they are prepared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kpca.chunks import default_rows, sample_numbers
from kpca.errors import InputError
from kpca.io.preparing.words import WordCounts
from kpca.io.reading.memory import part
from kpca.io.reading.roles import as_texts, inputs_of, listed, place, quoted
from kpca.io.rows import Layout, Rows, Table
from kpca.progress import row_monitor

SAMPLE_BYTES = 256 << 20  # medians and quartiles come from so much of the numbers, and from all of them if they fit
FEWEST_SAMPLED = 2_000  # rows, however wide they are
_DOCUMENTS_AT_ONCE = 4096  # each may be as long as a book
_COUNTED = 100_000  # rows in which the values of categories are counted for a message


def pass_over(table: Table, at_once: int | None = None) -> Iterator[Rows]:
    """Yield all rows in chunks, tell how far it is, and notice where a file changed under the reader's hands."""
    monitor, seen = row_monitor(table.n_rows), 0
    for rows in table.chunks(at_once or chunk_rows(table)):
        seen += len(rows)
        if seen > table.n_rows:
            raise changed(table, table.n_rows, "more")
        yield rows
        if monitor is not None:
            monitor(len(rows))
    if seen != table.n_rows:
        raise changed(table, table.n_rows, f"{seen:,}")


def changed(table: Table, before: int, now: str) -> InputError:
    """Return the sentence for a table that has other rows than when it was read before."""
    return InputError(
        f"{table.name} must give the same rows each time it is read; it gave {before:,}, then {now}: read it when "
        "nothing else writes to it."
    )


def chunk_rows(table: Table) -> int:
    """Return the rows that are read at once: from the shape and the type of the table alone."""
    rows = default_rows(max(len(inputs_of(table.layout)), 1), table.dtype, sparse=table.sparse)
    return rows if table.layout.text is None else min(rows, _DOCUMENTS_AT_ONCE)


def sample_size(table: Table) -> int:
    """Return of how many rows medians and quartiles are taken."""
    p = max(len(table.layout.numbers), 1)
    row_bytes = min(p, 256) * (table.dtype.itemsize + 4) if table.sparse else p * table.dtype.itemsize
    return min(table.n_rows, max(SAMPLE_BYTES // row_bytes, FEWEST_SAMPLED))


def check_finite(rows: Rows, name: str) -> bool:
    """Return whether some numbers are missing; refuse infinite ones, and missing ones where zeros are not stored."""
    numbers = rows.numbers
    values = numbers.data if sparse.issparse(numbers) else numbers
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(np.sum(values, dtype=np.float64)):  # false alarms only cost the second look
            return False
    for bad, what in ((np.isinf(values), "infinity"), (np.isnan(values), "a missing number")):
        if bad.any() and (what == "infinity" or sparse.issparse(numbers)):
            row, column = _first(numbers, bad)
            where = f"{place(rows, row)} of column {quoted(rows.layout.numbers[column])}"
            remedy = "correct or remove such rows, or leave the column out with --drop"
            if what != "infinity":
                remedy = "fill it before the table is made sparse, or remove such rows"
            raise InputError(f"{name} must hold finite numbers; got {what} in {where}: {remedy}.")
    return bool(np.isnan(values).any())


def _first(numbers: Any, bad: NDArray[np.bool_]) -> tuple[int, int]:
    """Return the row and column of the first marked entry; marks have the form of the stored values."""
    if not sparse.issparse(numbers):
        row, column = np.argwhere(bad)[0]
        return int(row), int(column)
    position = int(np.flatnonzero(bad)[0])
    return int(np.searchsorted(numbers.indptr, position, side="right")) - 1, int(numbers.indices[position])


def complete(rows: Rows) -> NDArray[np.bool_]:
    """Return which rows have all their numbers, categories and documents.  # shape: (m,)"""
    whole = np.ones(len(rows), dtype=bool)
    if not sparse.issparse(rows.numbers):
        whole &= ~np.isnan(rows.numbers).any(axis=1)
    texts = [as_texts(values) for values in rows.categories.values()]
    texts += [] if rows.documents is None else [as_texts(rows.documents)]
    for values in texts:
        whole &= np.array([value is not None for value in values.tolist()], dtype=bool)
    return whole


@dataclass
class Survey:
    """What was found out about the rows that are kept."""

    layout: Layout
    name: str
    n_rows: int = 0
    n_kept: int = 0
    missing: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))  # of each number column
    first_missing: str = ""  # where the first missing number is, by column and row
    values: dict[str, set[str | None]] = field(default_factory=dict)  # of each category
    missing_texts: dict[str, int] = field(default_factory=dict)
    sample: Any = None  # rows for medians and quartiles; shape: (s, p)

    @property
    def n_missing(self) -> int:
        """Missing entries, of numbers and of texts."""
        return int(self.missing.sum()) + sum(self.missing_texts.values())


class Surveyor:
    """Takes in the chunks of a pass."""

    def __init__(
        self,
        table: Table,
        *,
        drop: bool,
        scalers: list[Any],
        sample_seed: int | None,
        max_categories: int,
        words: WordCounts | None,
    ) -> None:
        layout = table.layout
        self.survey = Survey(layout, table.name, missing=np.zeros(len(layout.numbers), np.int64))
        self.survey.values = {column: set() for column in layout.categories}
        self._drop, self._scalers, self._limit, self._words = drop, scalers, max_categories, words
        self._chosen = np.empty(0, np.int64)
        self._parts: list[Any] = []
        self._kept_sampled = 0
        if sample_seed is not None:
            self._chosen = sample_numbers(table.n_rows, sample_size(table), sample_seed)
            if not table.sparse:
                self.survey.sample = np.empty((len(self._chosen), len(layout.numbers)), dtype=table.dtype)

    def take(self, rows: Rows) -> None:
        """Take in the next rows."""
        found = self.survey
        if rows.numbers.shape[1] != len(found.layout.numbers):
            raise InputError(
                f"{found.name} must have {len(found.layout.numbers)} columns of numbers; {place(rows, 0)} has "
                f"{rows.numbers.shape[1]}."
            )
        holes = check_finite(rows, found.name)
        if holes:
            self._count_missing(rows)
        self._count_texts(rows)
        chosen = self._chosen_of(len(rows))
        found.n_rows += len(rows)
        if self._drop:
            whole = complete(rows)
            chosen = (np.cumsum(whole) - 1)[chosen[whole[chosen]]]
            rows = rows if whole.all() else part(rows, whole)
        if not len(rows):
            return
        found.n_kept += len(rows)
        self._collect_values(rows)
        if self._words is not None and rows.documents is not None:
            self._words.take(as_texts(rows.documents))
        with np.errstate(over="ignore", invalid="ignore"):  # looked at afterwards, where columns have names
            for scaler in self._scalers:
                scaler.partial_fit(rows.numbers)
        self._sample(rows.numbers[chosen])

    def _chosen_of(self, m: int) -> NDArray[np.int64]:
        first = self.survey.n_rows
        span = slice(*np.searchsorted(self._chosen, [first, first + m]))
        return self._chosen[span] - first

    def _sample(self, numbers: Any) -> None:
        if not numbers.shape[0]:
            return
        if self.survey.sample is None:
            self._parts.append(numbers)
            return
        stop = self._kept_sampled + len(numbers)
        self.survey.sample[self._kept_sampled : stop] = numbers
        self._kept_sampled = stop

    def _count_missing(self, rows: Rows) -> None:
        found, holes = self.survey, np.isnan(rows.numbers)
        if not found.missing.any():
            row, column = _first(rows.numbers, holes)
            found.first_missing = f"{place(rows, row)} of column {quoted(rows.layout.numbers[column])}"
        found.missing += holes.sum(axis=0)

    def _count_texts(self, rows: Rows) -> None:
        texts = dict(rows.categories)
        if rows.documents is not None and rows.layout.text is not None:
            texts[rows.layout.text] = rows.documents
        for column, values in texts.items():
            count = sum(value is None for value in as_texts(values).tolist())
            if count:
                held = self.survey.missing_texts
                held[column] = held.get(column, 0) + count

    def _collect_values(self, rows: Rows) -> None:
        for column, values in rows.categories.items():
            known = self.survey.values[column]
            known.update(as_texts(values).tolist())
            if len(known) > self._limit:
                raise InputError(
                    f"A column that is encoded by --encode onehot must have at most {self._limit:,} different values; "
                    f"{quoted(column)} of {self.survey.name} has more, a column of numbers for each: name it with --id "
                    "or --label, leave it out with --drop, or raise max_categories."
                )

    def finished(self) -> Survey:
        """Return what was found."""
        found = self.survey
        if found.sample is None:
            found.sample = sparse.vstack(self._parts, format="csr") if self._parts else None
        else:
            found.sample = found.sample[: self._kept_sampled]
        return found


def check_uncoded(table: Table) -> None:
    """Refuse categories that nobody said what to do with, all of them in one sentence."""
    columns = table.layout.categories
    if not columns:
        return
    values: dict[str, set[str | None]] = {column: set() for column in columns}
    seen = 0
    for rows in table.chunks(chunk_rows(table)):
        for column in columns:
            values[column].update(as_texts(rows.categories[column]).tolist())
        seen += len(rows)
        if seen >= _COUNTED:
            break
    least = "" if seen >= table.n_rows else "at least "
    told = [f"{quoted(column)} ({least}{_different(values[column])})" for column in columns]
    raise InputError(
        f"{table.name} must hold numbers, or be told what to do with the other columns; {listed(told, 20, raw=True)} "
        f"hold{'s' if len(told) == 1 else ''} texts: name one with --label or --id, leave some out with --drop, or use "
        "--encode onehot."
    )


def _different(values: set[str | None]) -> str:
    count = len(values - {None})
    return f"{count:,} different value{'' if count == 1 else 's'}"


def check_table(table: Table) -> None:
    """Refuse a table without rows or without columns."""
    if not inputs_of(table.layout):
        raise InputError(
            f"{table.name} must have at least one column besides the id and the label; it has none: check --columns "
            "and --drop."
        )
    if table.n_rows < 1:
        raise InputError(f"{table.name} must have at least one row; it has none.")
