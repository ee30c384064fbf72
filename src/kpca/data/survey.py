"""What a preparation learns in one pass over a table, what scikit-learn makes of it, and what is said of it."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, OneHotEncoder, RobustScaler, StandardScaler

from kpca._base.errors import InputError, Setting
from kpca._base.progress import row_monitor
from kpca.data.roles import as_texts, inputs_of
from kpca.data.rows import (
    OF_TABLES,
    Rows,
    Table,
    Texts,
    check_finite,
    digest_of_rows,
    entry,
    listed,
    part,
    place,
    quoted,
)
from kpca.data.sources import default_rows, sample_numbers

# -- Documents as numbers: which words count, and scikit-learn's TF-IDF of them ----------------------------------------

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
        how = {"min_df": fewest, "max_df": share, "max_features": self._most, "dtype": self._dtype.type}
        return TfidfVectorizer(sublinear_tf=True, **how)

    def take(self, documents: Texts) -> None:
        """Count the words of some more documents; a missing one has none."""
        for document in documents.tolist():
            words = Counter(self._analyse(document or ""))
            self._documents.update(words.keys())
            self._uses.update(words)
            least = 1
            while len(self._documents) > (_MOST_HELD if least == 1 else _MOST_HELD // 2):
                self._forgotten = True
                for word in [word for word, count in self._documents.items() if count <= least]:
                    del self._documents[word], self._uses[word]
                least += 1
        self._n += len(documents)

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
                f"The documents in column {quoted(self._column)} must hold words of two letters or more; none does",
                remedy=("name another column with ", Setting("text"), OF_TABLES),
            )
        found = len(words)
        words = sorted(sorted(words, key=lambda word: (-self._uses[word], word))[: self._most])
        vectorizer = self._vectorizer(fewest, largest)
        vectorizer.vocabulary_ = {word: place for place, word in enumerate(words)}
        vectorizer.fixed_vocabulary_ = False
        counts = np.array([self._documents[word] for word in words], dtype=self._dtype)
        vectorizer.idf_ = np.log((1 + self._n) / (1 + counts)) + 1
        limits = [f"in at least {fewest} documents"] if fewest > 1 else []
        limits += [f"in at most {math.floor(largest * self._n):,}"] if largest < 1 else []
        which = f" (those {' and '.join(limits)})" if limits else ""
        kept = len(words)
        cut = f", the most frequent of {found:,}" if kept < found else ""
        rare = "; the rarest words were forgotten while counting, there were so many" if self._forgotten else ""
        documents = f"{self._n:,} documents" if self._n > 1 else "document"
        alone = ""
        if fewest == 1 and self._n > 1:
            alone = " No word is in two documents, so no two are alike; cut texts without blanks into words first."
        of = f"{kept:,} word{'' if kept == 1 else 's'}{which}{cut}{rare}"
        return vectorizer, f"The {documents} of {quoted(self._column)} became TF-IDF weights of {of}.{alone}"


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
    return InputError(f"{table.name} must give the same rows each time; it gave {before:,}, then {now}.")


def chunk_rows(table: Table) -> int:
    """Return the rows that are read at once: from the shape and the type of the table alone."""
    rows = default_rows(max(len(inputs_of(table.layout)), 1), table.dtype, sparse=table.sparse)
    return rows if table.layout.text is None else min(rows, _DOCUMENTS_AT_ONCE)


def has_holes(rows: Rows, name: str) -> bool:
    """Return whether some numbers are missing; refuse infinite ones, and missing ones where zeros are not stored."""
    holes = check_finite(rows, name)
    if holes and sparse.issparse(rows.numbers):
        where = entry(rows, np.isnan(rows.numbers.data))
        raise InputError(f"{name} must hold finite numbers; got a missing number in {where}: fill it.")
    return holes


def with_texts(rows: Rows) -> Rows:
    """Return rows whose categories and documents are texts, None where they are missing."""
    documents = None if rows.documents is None else as_texts(rows.documents)
    return replace(rows, categories={name: as_texts(v) for name, v in rows.categories.items()}, documents=documents)


def complete(rows: Rows) -> NDArray[np.bool_]:
    """Return which rows have all their numbers, categories and documents, which are texts.  # shape: (m,)"""
    whole = np.ones(len(rows), dtype=bool)
    if not sparse.issparse(rows.numbers):
        whole &= ~np.isnan(rows.numbers).any(axis=1)
    for values in (*rows.categories.values(), *(() if rows.documents is None else (rows.documents,))):
        whole &= np.array([value is not None for value in values.tolist()], dtype=bool)
    return whole


class Survey:
    """Takes in the chunks of a pass, and holds what was found out about the rows that are kept."""

    def __init__(
        self, table: Table, scalers: list[Any], words: WordCounts | None, *, drop: bool, seed: int | None, most: int
    ) -> None:
        self.layout, self.name = table.layout, table.name
        self.n_rows = self.n_kept = 0
        self.missing = np.zeros(len(self.layout.numbers), np.int64)  # of each number column
        self.first_missing = ""  # where the first missing number is, by column and row
        self.values: dict[str, set[str | None]] = {column: set() for column in self.layout.categories}
        self.missing_texts: Counter[str] = Counter()
        self._drop, self._scalers, self._limit, self._words = drop, scalers, most, words
        self._chosen = np.empty(0, np.int64)  # rows for medians and quartiles
        self._parts: list[Any] = []
        self._room: Any = None  # for a dense sample: its parts are not held twice
        self._sampled = 0
        if seed is not None:
            p = max(len(table.layout.numbers), 1)
            row_bytes = min(p, 256) * (table.dtype.itemsize + 4) if table.sparse else p * table.dtype.itemsize
            size = min(table.n_rows, max(SAMPLE_BYTES // row_bytes, FEWEST_SAMPLED))
            self._chosen = sample_numbers(table.n_rows, size, seed)
            if not table.sparse:
                self._room = np.empty((len(self._chosen), len(self.layout.numbers)), dtype=table.dtype)

    @cached_property
    def sample(self) -> Any:
        """Rows for medians and quartiles, once all have been taken in; None if there are none.  # shape: (s, p)"""
        if self._room is not None:
            return self._room[: self._sampled]
        return sparse.vstack(self._parts, format="csr") if self._parts else None

    def take(self, rows: Rows) -> None:
        if rows.numbers.shape[1] != len(self.layout.numbers):
            raise InputError(f"{self.name} must have {len(self.layout.numbers)} number columns in {place(rows, 0)}.")
        rows = with_texts(rows)
        if has_holes(rows, self.name):
            holes = np.isnan(rows.numbers)
            self.first_missing = self.first_missing or entry(rows, holes)
            self.missing += holes.sum(axis=0)
        documents = {} if rows.documents is None else {str(rows.layout.text): rows.documents}
        for column, values in {**rows.categories, **documents}.items():
            self.missing_texts[column] += sum(value is None for value in values.tolist())
        span = slice(*np.searchsorted(self._chosen, [self.n_rows, self.n_rows + len(rows)]))
        chosen = self._chosen[span] - self.n_rows
        self.n_rows += len(rows)
        if self._drop:
            whole = complete(rows)
            chosen = (np.cumsum(whole) - 1)[chosen[whole[chosen]]]
            rows = rows if whole.all() else part(rows, whole)
        if not len(rows):
            return
        self.n_kept += len(rows)
        for column, values in rows.categories.items():
            self.values[column].update(values.tolist())
            if len(self.values[column]) > self._limit:
                raise InputError(
                    f"An encoded column must have at most {self._limit:,} different values; {quoted(column)} of "
                    f"{self.name} has more",
                    remedy=(
                        *("name it with ", Setting("id"), ", leave it out with ", Setting("drop"), OF_TABLES),
                        *(", or raise ", Setting("max_categories")),
                    ),
                )
        if self._words is not None and rows.documents is not None:
            self._words.take(rows.documents)
        with np.errstate(over="ignore", invalid="ignore"):  # looked at afterwards, where columns have names
            for scaler in self._scalers:
                scaler.partial_fit(rows.numbers)
        if len(chosen) and self._room is None:
            self._parts.append(rows.numbers[chosen])
        elif len(chosen):
            self._room[self._sampled : self._sampled + len(chosen)] = rows.numbers[chosen]
            self._sampled += len(chosen)


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
    told = []
    for column in columns:
        count = len(values[column] - {None})
        told.append(f"{quoted(column)} ({least}{count:,} different value{'' if count == 1 else 's'})")
    raise InputError(
        f"{table.name} must hold numbers, or be told what to do with the other columns; {listed(told, 20, raw=True)} "
        f"hold{'s' if len(told) == 1 else ''} texts or dates",
        remedy=(
            *("name one with ", Setting("label"), " or ", Setting("id"), ", leave some out with "),
            *(Setting("drop"), OF_TABLES),
            *(", or use ", Setting("encode", "onehot")),
        ),
    )


# -- Categories as columns of 0 and 1, by scikit-learn's OneHotEncoder, and back --------------------------------------


def encoder_of(values: Iterable[set[str | None]], dtype: np.dtype[Any]) -> OneHotEncoder:
    """Return an encoder of columns that hold these values; a missing one is a value too, and the last."""
    columns: list[list[str | None]] = []
    for found in values:
        texts = sorted(text for text in found if text is not None)
        columns.append([*texts, None] if None in found else [*texts])
    # A table with each value of each column is all the encoder has to see; shorter columns repeat their last value.
    seen = np.empty((max(map(len, columns)), len(columns)), dtype=object)
    for at, column in enumerate(columns):
        seen[:, at] = column + [column[-1]] * (len(seen) - len(column))
    return OneHotEncoder(handle_unknown="ignore", dtype=dtype.type).fit(seen)


def encoded(encoder: OneHotEncoder, rows: Rows, columns: tuple[str, ...], warned: set[str]) -> Any:
    """Return the categories as CSR; columns with unknown values are warned of, unless they are in `warned`."""
    # What encoder.transform returns, which takes far longer: it sorts each column of each chunk.
    codes = np.empty((len(rows), len(columns)), dtype=np.int64)  # the column of the result, -1 for unknown values
    start = 0
    for at, column in enumerate(columns):
        values, texts = encoder.categories_[at].tolist(), rows.categories[column].tolist()
        found = {value: start + number for number, value in enumerate(values)}
        codes[:, at] = [found.get(text, -1) for text in texts]
        start += len(values)
        if column not in warned and (codes[:, at] < 0).any():
            warned.add(column)
            unknown = [text for text in texts if text not in found]
            first = "a missing value" if unknown[0] is None else quoted(unknown[0])
            told = f"Column {quoted(column)} holds {first}, which the fit has not seen; {len(unknown):,} of"
            told += f" {len(rows):,} rows have such values and are 0 in all of its columns of 0 and 1."
            warnings.warn(told, stacklevel=3)
    known = codes >= 0
    pointers = np.concatenate([[0], np.cumsum(known.sum(axis=1))])
    ones = np.ones(int(pointers[-1]), dtype=encoder.dtype)
    return sparse.csr_array((ones, codes[known], pointers), shape=(len(rows), start))


def decoded(encoder: OneHotEncoder, X: Any, columns: tuple[str, ...]) -> dict[str, Texts]:
    """Return of each category the value whose column is largest, None where all of them are 0."""
    texts: dict[str, Texts] = {}
    start = 0
    for at, column in enumerate(columns):
        values = np.array(encoder.categories_[at], dtype=object)
        block = X[:, start : start + len(values)]
        block = block.toarray() if sparse.issparse(block) else block
        texts[column] = values[np.argmax(block, axis=1)]
        texts[column][~block.any(axis=1)] = None  # the row had a value that was unknown
        start += len(values)
    return texts


# -- scikit-learn's scalers and imputers for numbers that come in chunks, dense or sparse -----------------------------

SCALES = ("none", "standard", "robust", "minmax")


def gradual_scaler(scale: str, *, sparse: bool) -> Any:
    """Return a scaler that takes rows in chunks, None where there is none; zeros of a sparse table stay zeros."""
    if scale == "standard":
        return StandardScaler(with_mean=not sparse)
    if scale == "minmax":
        return MaxAbsScaler() if sparse else MinMaxScaler()
    return None


def robust_scaler(sample: Any) -> RobustScaler:
    """Return a scaler by the median and the quartiles of a sample."""
    if sparse.issparse(sample):
        return RobustScaler(with_centering=False).fit(sample)
    quartiles = np.empty((3, sample.shape[1]), dtype=sample.dtype)
    for column in range(sample.shape[1]):  # one at a time: the sample is large
        quartiles[:, column] = np.percentile(sample[:, column], (25.0, 50.0, 75.0))
    # Of these five rows the second, third and fourth are the quartiles and the median: those of the sample.
    return RobustScaler().fit(quartiles[[0, 0, 1, 2, 2]])


# -- What a preparation says it did, in sentences ---------------------------------------------------------------------


def sentences(found: Survey, impute: str | None, scaler: Any, words: str) -> list[str]:
    """Return what was left out, imputed, encoded and scaled."""
    said = []
    names = found.layout.numbers
    sampled = ""
    if found.sample is not None and found.sample.shape[0] < found.n_kept:
        sampled = f" of {found.sample.shape[0]:,} rows drawn from all {found.n_kept:,}"
    if found.n_kept < found.n_rows:
        lost = found.n_rows - found.n_kept
        verb = "was" if lost == 1 else "were"
        said.append(f"{lost:,} of {found.n_rows:,} rows {verb} left out, because values are missing in them.")
    elif found.missing.any():
        holes = [f"{quoted(names[column])} {found.missing[column]:,}" for column in np.flatnonzero(found.missing)]
        of = f" (the {impute}s{sampled})" if sampled and impute == "median" else ""
        said.append(
            f"{_count(int(found.missing.sum()), 'missing number')} replaced by the {impute} of the column{of}: "
            f"{listed(holes, raw=True)}."
        )
    if found.values:
        counts = [
            f"{quoted(column)} ({len(values):,}{', one of them for missing' if None in values else ''})"
            for column, values in found.values.items()
        ]
        said.append(f"Each value became a column of 0 and 1, not scaled: {listed(counts, raw=True)}.")
    if words:
        empty = found.missing_texts.get(str(found.layout.text), 0) if impute != "drop" else 0
        said.append(words)
        if empty:
            said.append(f"{_count(empty, 'missing document')} taken as empty.")
    if scaler is not None:
        said += _scaling(scaler, found, sampled)
    return said


def _count(number: int, what: str) -> str:
    return f"{number:,} {what} was" if number == 1 else f"{number:,} {what}s were"


def _scaling(scaler: Any, found: Survey, sampled: str) -> list[str]:
    """Return what scaling did, and to which columns nothing."""
    names = found.layout.numbers
    tiny = 10 * np.finfo(np.float64).eps  # where scikit-learn sets a scale of 1
    why = "constant"
    if isinstance(scaler, StandardScaler):
        centred = scaler.with_mean
        how = "mean 0 and variance 1" if centred else "variance 1"
        still = (scaler.scale_ == 1) & (scaler.var_ != 1)
    elif isinstance(scaler, RobustScaler):
        centred = scaler.with_centering
        how = f"{'median 0 and ' if centred else ''}distance 1 between the quartiles{sampled}"
        still, why = scaler.scale_ == 1, "without a distance between the quartiles"
        for column in np.flatnonzero(still):  # a scale of 1 may also be what the quartiles say
            values = found.sample[:, [column]]
            values = values.toarray() if sparse.issparse(values) else values
            still[column] = np.ptp(np.percentile(values, (25.0, 75.0))) < 0.5
    elif isinstance(scaler, MinMaxScaler):
        centred, how, still = True, "the range from 0 to 1", scaler.data_range_ < tiny
    else:
        centred, how, still, why = False, "a largest size of 1", scaler.max_abs_ < tiny, "zero everywhere"
    zeros = "" if centred else ", without centring, so that zeros stay zeros"
    said = [f"{_count(len(names), 'column')} scaled to {how}{zeros}."]
    if still.any():
        which = [names[column] for column in np.flatnonzero(still)]
        said.append(f"{_count(len(which), 'column')} not stretched, being {why}: {listed(which)}.")
    return said


# -- Rows that lie in memory, as a table ------------------------------------------------------------------------------


class MemoryTable:
    """A table around rows that are in memory already."""

    def __init__(self, rows: Rows, name: str = "The data", image_shape: tuple[int, int] | None = None) -> None:
        self.sparse = bool(sparse.issparse(rows.numbers))
        if self.sparse:
            rows = replace(rows, numbers=sparse.csr_array(rows.numbers))
        self.dtype: np.dtype[Any] = rows.numbers.dtype
        if self.dtype not in (np.float32, np.float64):
            raise InputError(f"{name} must hold its numbers as float32 or float64; got {self.dtype}.")
        self._rows, self.name, self.image_shape = rows, name, image_shape
        self.layout, self.n_rows = rows.layout, len(rows)

    def chunks(self, rows: int | None = None) -> Iterator[Rows]:
        """Yield the rows in pieces, which are views."""
        rows = rows or default_rows(max(self._rows.numbers.shape[1], 1), self.dtype, sparse=self.sparse)
        for start in range(0, len(self._rows), rows):
            yield part(self._rows, slice(start, start + rows))

    def whole(self) -> Rows:
        return self._rows

    def digest(self) -> str:
        return digest_of_rows(self)
