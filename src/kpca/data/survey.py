"""Documents as numbers: which words count, found out in one pass, and scikit-learn's TF-IDF of them."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer

from kpca._base.errors import InputError
from kpca._base.progress import row_monitor
from kpca.data.roles import as_texts, inputs_of, listed, place, quote
from kpca.data.rows import Layout, Rows, Table, Texts, part
from kpca.data.sources import default_rows, sample_numbers

FEWEST_DOCUMENTS = 2  # a word of one document makes it similar to no other
LARGEST_SHARE = 0.5  # words of more than half of the documents hardly tell them apart
FROM_DOCUMENTS = 20  # below that number of documents a share says little
_MOST_HELD = 1_000_000  # different words; beyond that the rarest so far are forgotten


class WordCounts:
    """In how many documents each word occurs, and how often in all."""

    def __init__(self, column: str, max_words: int, dtype: np.dtype[Any]) -> None:
        self._column, self._most, self._dtype = column, max_words, dtype
        self._analyse = self._vectorizer().build_analyzer()
        self._documents: Counter[str] = Counter()  # word -> documents that hold it
        self._uses: Counter[str] = Counter()
        self._n = 0
        self._forgotten = False

    def _vectorizer(self, fewest: int = FEWEST_DOCUMENTS, share: float = LARGEST_SHARE) -> TfidfVectorizer:
        # sublinear: the tenth use of a word in a document says less than the first.
        return TfidfVectorizer(
            sublinear_tf=True, min_df=fewest, max_df=share, max_features=self._most, dtype=self._dtype.type
        )

    def take(self, documents: Texts) -> None:
        """Count the words of some more documents; a missing one has none."""
        for document in documents.tolist():
            words = Counter(self._analyse(document or ""))
            self._documents.update(words.keys())
            self._uses.update(words)
            if len(self._documents) > _MOST_HELD:
                self._forget()
        self._n += len(documents)

    def _forget(self) -> None:
        self._forgotten = True
        least = 1
        while len(self._documents) > _MOST_HELD // 2:
            for word in [word for word, count in self._documents.items() if count <= least]:
                del self._documents[word], self._uses[word]
            least += 1

    def fitted(self) -> tuple[TfidfVectorizer, str]:
        """Return the vectorizer as `fit` would leave it, and what was done in one sentence."""
        share = LARGEST_SHARE if self._n >= FROM_DOCUMENTS else 1.0
        rules = [(FEWEST_DOCUMENTS, share), (FEWEST_DOCUMENTS, 1.0), (1, 1.0)]  # short or uniform texts: fewer rules
        for fewest, largest in rules:
            words = [w for w, count in self._documents.items() if fewest <= count <= largest * self._n]
            if words:
                break
        else:
            raise InputError(
                f"The documents in column {quote(self._column)} must hold words of two letters or more; they hold "
                "none: name another column with --text."
            )
        found = len(words)
        words = sorted(sorted(words, key=lambda word: (-self._uses[word], word))[: self._most])
        vectorizer = self._vectorizer(fewest, largest)
        vectorizer.vocabulary_ = {word: place for place, word in enumerate(words)}
        vectorizer.fixed_vocabulary_ = False
        counts = np.array([self._documents[word] for word in words], dtype=self._dtype)
        vectorizer.idf_ = np.log((1 + self._n) / (1 + counts)) + 1
        return vectorizer, self._sentence(len(words), found, fewest, largest)

    def _sentence(self, kept: int, found: int, fewest: int, share: float) -> str:
        rules = [f"in at least {fewest} documents"] if fewest > 1 else []
        rules += [f"in at most {math.floor(share * self._n):,}"] if share < 1 else []
        which = f" (those {' and '.join(rules)})" if rules else ""
        cut = f", the most frequent of {found:,}" if kept < found else ""
        rare = "; the rarest words were forgotten while counting, there were so many" if self._forgotten else ""
        documents = f"{self._n:,} documents" if self._n > 1 else "document"
        alone = ""
        if fewest == 1 and self._n > 1:
            alone = (
                " No word is in two documents, so no two of them are alike; texts of languages that put no blanks "
                "between words must be cut into words first."
            )
        words = f"{kept:,} word{'' if kept == 1 else 's'}{which}{cut}{rare}"
        return f"The {documents} of {quote(self._column)} became TF-IDF weights of {words}.{alone}"


# -- What one pass over the rows of a table finds out before they are prepared ----------------------------------------

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
            where = f"{place(rows, row)} of column {quote(rows.layout.numbers[column])}"
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
            found.first_missing = f"{place(rows, row)} of column {quote(rows.layout.numbers[column])}"
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
                    f"{quote(column)} of {self.survey.name} has more, a column of numbers for each: name it with --id "
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
    told = [f"{quote(column)} ({least}{_different(values[column])})" for column in columns]
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


# -- Rows that lie in memory, as a table ------------------------------------------------------------------------------


class MemoryTable:
    """A table around rows that are in memory already."""

    def __init__(self, rows: Rows, name: str = "The data", image_shape: tuple[int, int] | None = None) -> None:
        if sparse.issparse(rows.numbers):
            rows = replace(rows, numbers=sparse.csr_array(rows.numbers))
        if rows.numbers.dtype not in (np.float32, np.float64):
            raise InputError(f"{name} must hold its numbers as float32 or float64; got {rows.numbers.dtype}.")
        self._rows = rows
        self.name = name
        self.image_shape = image_shape

    @property
    def layout(self) -> Layout:
        """The roles of the columns."""
        return self._rows.layout

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return len(self._rows)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the numbers."""
        dtype: np.dtype[Any] = self._rows.numbers.dtype
        return dtype

    @property
    def sparse(self) -> bool:
        """Whether the numbers are CSR."""
        return bool(sparse.issparse(self._rows.numbers))

    def chunks(self, rows: int | None = None) -> Iterator[Rows]:
        """Yield the rows in pieces, which are views."""
        rows = rows or default_rows(max(self._rows.numbers.shape[1], 1), self.dtype, sparse=self.sparse)
        for start in range(0, self.n_rows, rows):
            yield part(self._rows, slice(start, start + rows))

    def whole(self) -> Rows:
        """Return all rows."""
        return self._rows

    def digest(self) -> str:
        """Return the SHA-256 of the entries, column by column."""
        held, found = self._rows, hashlib.sha256(repr(self.layout).encode())
        numbers = held.numbers
        arrays = [numbers.data, numbers.indices, numbers.indptr] if self.sparse else [numbers]
        for array in arrays:
            found.update(np.ascontiguousarray(array).view(np.uint8).data if array.size else b"")
        for column in [*held.categories.values(), held.documents, held.ids, held.labels]:
            if column is not None:
                found.update(repr(column.tolist()).encode("utf-8", "surrogatepass"))
        return found.hexdigest()
