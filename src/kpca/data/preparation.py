"""From the columns of a file to the rows of a model: missing values filled, categories encoded, numbers scaled."""

from __future__ import annotations

import contextlib
import copy
import itertools
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from kpca._base.config import memory_budget
from kpca._base.errors import InputError, InPython, Setting
from kpca._base.validation import seed_of, unchanged_on_error, whole_number
from kpca.data import survey
from kpca.data.arrays import plain
from kpca.data.roles import inputs_of, layout_for, relaid, with_layout
from kpca.data.rows import (
    OF_TABLES,
    Indices,
    Rows,
    Table,
    float_dtype,
    listed,
    part,
    place,
    quoted,
    stacked,
    taken_in_passing,
)
from kpca.data.sources import ReaderSource, Source, default_rows
from kpca.data.survey import MemoryTable, Survey, WordCounts

IMPUTES = (None, "median", "mean", "drop")
ENCODES = (None, "onehot")
_OR_OTHERS = (", ", InPython("'mean'", "mean"), " or ", InPython("'drop'", "drop"))


@dataclass(frozen=True)
class Prepared:
    """Rows as a model takes them, with what goes beside them."""

    X: Any  # dense or CSR; shape: (m, d)
    ids: NDArray[Any] | None  # shape: (m,)
    labels: NDArray[Any] | None  # shape: (m,)
    kept: NDArray[np.int64]  # the numbers of these rows in their table; shape: (m,)


class Preparation(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Make rows of numbers from a table, and treat later tables the same.

    Numbers are imputed, then scaled. Categories become a column of 0 and 1 for each of their values, which is not
    scaled; a missing category is a value of its own. Documents become TF-IDF weights, and the rows CSR.

    Parameters
    ----------
    encode : None or "onehot"
        None refuses categories. A value that the fit has not seen is 0 in all columns, with a warning.
    impute : None, "median", "mean" or "drop"
        What becomes of missing numbers: None refuses them; "drop" leaves out rows in which anything is missing. Means
        are those of all rows; medians (and the quartiles of scale="robust") too, as long as the numbers take 256 MiB
        at most, else those of as many rows as 256 MiB hold (2000 at least), drawn at random.
    scale : "none", "standard", "robust" or "minmax"
        scikit-learn's StandardScaler, RobustScaler or MinMaxScaler. Sparse numbers are not centred, so that zeros stay
        zeros: "minmax" is MaxAbsScaler for them.
    max_categories : int
        The most different values that a column may have to be encoded.
    max_words : int
        The most words for TF-IDF: the most frequent of those in two documents or more and, from 20 documents on, in at
        most half of them. Rules that would leave no word are not applied.
    random_state : int, RandomState or None
        Draws the rows for medians and quartiles of large tables; None is 0.

    Attributes
    ----------
    layout_ : Layout
        The columns of the fit.
    numbers_imputer_, scaler_, encoder_, vectorizer_ : scikit-learn's transformers, None where there is nothing to do.
    notes_ : tuple of str
        What `describe` says.
    n_rows_, n_kept_, n_missing_ : int
        Rows seen, rows kept, entries missing.
    """

    def __init__(
        self,
        *,
        encode: str | None = None,
        impute: str | None = None,
        scale: str = "none",
        max_categories: int = 1000,
        max_words: int = 20_000,
        random_state: Any = None,
    ) -> None:
        self.encode = encode
        self.impute = impute
        self.scale = scale
        self.max_categories = max_categories
        self.max_words = max_words
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find out what to fill in, which values there are and how large numbers are, in one or two passes.

        X is a Table (a file that `open_table` opened), Rows, a data frame or an array; y is ignored.
        """
        with unchanged_on_error(self):
            return self._fit(as_table(X))

    def _fit(self, table: Table) -> Self:
        self._check_parameters()
        layout = table.layout
        if not inputs_of(layout):
            raise InputError(
                f"{table.name} must have at least one column besides the id and the label; it has none",
                remedy=("check ", Setting("columns"), " and ", Setting("drop"), OF_TABLES),
            )
        if table.n_rows < 1:
            raise InputError(f"{table.name} must have at least one row; it has none.")
        if self.encode is None:
            survey.check_uncoded(table)
        self.layout_, self.sparse_ = layout, table.sparse or layout.text is not None
        self.dtype_ = np.dtype(table.dtype)
        self.image_shape_ = table.image_shape
        self.n_features_in_ = len(inputs_of(layout))
        words = WordCounts(layout.text, self.max_words, self.dtype_) if layout.text is not None else None
        scaler = survey.gradual_scaler(self.scale, sparse=table.sparse) if layout.numbers else None
        # A missing number of a sparse table is refused: there is nothing to fill in.
        imputed = self.impute if layout.numbers and not table.sparse else None
        means = StandardScaler(with_std=False) if imputed == "mean" else None
        sampled = imputed == "median" or (layout.numbers and self.scale == "robust")
        scalers = [each for each in (scaler, means) if each is not None]  # fitted in passing
        seed = seed_of(self.random_state) if sampled else None
        found = Survey(table, scalers, words, drop=self.drops, seed=seed, most=self.max_categories)
        for rows in survey.pass_over(table):
            found.take(rows)
        self._check_survey(found)
        self.n_rows_, self.n_kept_ = found.n_rows, found.n_kept
        self.n_missing_ = int(found.missing.sum()) + found.missing_texts.total()
        self.numbers_imputer_ = self._imputer(found, means)
        self.scaler_ = self._scaler(table, found, scaler)
        self.encoder_ = survey.encoder_of(found.values.values(), self.dtype_) if layout.categories else None
        self.vectorizer_: Any = None
        told = ""
        if words is not None:
            self.vectorizer_, told = words.fitted()
        self.notes_ = tuple(survey.sentences(found, self.impute, self.scaler_, told))
        return self

    def _check_parameters(self) -> None:
        for name, allowed in (("encode", ENCODES), ("impute", IMPUTES), ("scale", survey.SCALES)):
            if getattr(self, name) not in allowed:
                told = ", ".join(repr(value) for value in allowed)
                raise InputError(f"must be one of {told}", param=name, value=getattr(self, name))
        whole_number("max_categories", self.max_categories, 1)
        whole_number("max_words", self.max_words, 1)
        seed_of(self.random_state)

    def _check_survey(self, found: Survey) -> None:
        names = found.layout.numbers
        empty = [names[column] for column in np.flatnonzero(found.missing == found.n_rows)]
        empty += [column for column in found.layout.categories if found.missing_texts.get(column) == found.n_rows]
        if empty:
            raise InputError(
                f"{found.name} must have something in each column; there is nothing in {listed(empty)}",
                remedy=(f"leave {'it' if len(empty) == 1 else 'them'} out with ", Setting("drop"), OF_TABLES),
            )
        if self.impute is None and found.missing.any():
            holes = [f"{quoted(names[column])} {found.missing[column]:,}" for column in np.flatnonzero(found.missing)]
            raise InputError(
                f"{found.name} must have a number in every row; {found.missing.sum():,} "
                f"{'is' if found.missing.sum() == 1 else 'are'} missing or NaN ({listed(holes, raw=True)}), the first "
                f"in {found.first_missing}",
                remedy=("use ", Setting("impute", "median"), *_OR_OTHERS),
            )
        check_kept(found.n_kept, found)

    def _imputer(self, found: Survey, means: Any) -> SimpleImputer | None:
        if self.impute == "median" and found.sample is not None and not sparse.issparse(found.sample):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # of a column without any number, found below
                # one column at a time: the sample is large
                values = np.array([np.nanmedian(column) for column in found.sample.T], dtype=found.sample.dtype)
        elif self.impute == "mean" and means is not None:
            values = means.mean_
        else:
            return None
        names = found.layout.numbers
        unseen = [names[column] for column in np.flatnonzero(~np.isfinite(values))]
        if unseen:
            raise InputError(
                f"{found.name} must have columns with a {self.impute}; {listed(unseen)} have too large or too few "
                "numbers",
                remedy=("leave them out with ", Setting("drop"), OF_TABLES),
            )
        # the mean and the median of one row are the row itself
        return SimpleImputer(strategy=self.impute).fit(values.astype(self.dtype_)[None, :])

    def _scaler(self, table: Table, found: Survey, scaler: Any) -> Any:
        if not found.layout.numbers or self.scale == "none":
            return None
        imputer = self.numbers_imputer_
        with np.errstate(over="ignore", invalid="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # what they say is checked below
            if self.scale == "robust":
                if imputer is not None:  # in place: the sample is large
                    fill = imputer.statistics_.astype(found.sample.dtype)
                    np.copyto(found.sample, fill, where=np.isnan(found.sample))
                scaler = survey.robust_scaler(found.sample)
            elif imputer is not None and found.missing.any():  # the spread is that of the numbers as filled in
                scaler = survey.gradual_scaler(self.scale, sparse=table.sparse)
                for rows in survey.pass_over(table):
                    scaler.partial_fit(imputer.transform(rows.numbers))
        # An infinite variance counts as constant for scikit-learn, so the scale alone does not tell.
        bad = np.zeros(len(found.layout.numbers), dtype=bool)
        for attribute in ("scale_", "var_", "mean_", "center_", "min_", "data_range_"):
            if (values := getattr(scaler, attribute, None)) is not None:
                bad |= ~np.isfinite(values)
        if bad.any():
            which = listed([found.layout.numbers[column] for column in np.flatnonzero(bad)])
            raise InputError(
                f"{found.name} must have columns whose spread is a number; that of {which} is too large or too small",
                remedy=("divide the column by a power of ten, or leave it out with ", Setting("drop"), OF_TABLES),
            )
        return scaler

    def transform(self, X: Any) -> Any:
        """Return the rows as the model takes them: an array, CSR, or a source where they do not fit into memory.

        A source (`kpca.data.sources.Source`) is returned where the prepared rows would take more than a quarter of the
        memory budget (`kpca.config(memory_limit=...)`, or half of the memory that is free).
        """
        self._check_fitted()
        table, room = self.select(as_table(X)), memory_budget() // SHARE_OF_MEMORY
        row_bytes = self.n_features_out_ * self.dtype_.itemsize
        if not self.sparse_ and table.n_rows * row_bytes > room and n_kept(self, table) * row_bytes > room:
            return prepared_source(self, table)
        warned: set[str] = set()
        parts: list[Any] = []
        held = done = 0
        steady = not self.sparse_ and not self.drops
        whole = np.empty((table.n_rows, self.n_features_out_), dtype=self.dtype_) if steady else None
        for rows in survey.pass_over(table, rows_at_once(self, table)):
            chunk = self.prepare(rows, warned=warned).X
            if whole is not None:
                whole[done : done + len(rows)] = chunk
            elif chunk.shape[0]:
                parts.append(chunk)
            done += chunk.shape[0]
            if sparse.issparse(chunk):
                held += chunk.data.nbytes + chunk.indices.nbytes + chunk.indptr.nbytes
                if held > room:
                    return prepared_source(self, table)
        check_kept(done, table)
        return whole if whole is not None else stacked(parts)

    def prepare(self, rows: Rows, *, warned: set[str] | None = None) -> Prepared:
        """Return some rows as the model takes them, with their ids and labels; `warned` collects columns warned of."""
        self._check_fitted()
        wanted = replace(self.layout_, id=rows.layout.id, label=rows.layout.label)
        if rows.layout != wanted:
            table = MemoryTable(rows, "The rows")
            rows = relaid(rows, layout_for(wanted, table), table.name)
        kept = np.arange(rows.first, rows.first + len(rows))
        with np.errstate(over="ignore"):  # infinity is found in a moment
            if sparse.issparse(rows.numbers):
                numbers = sparse.csr_array(rows.numbers).astype(self.dtype_, copy=False)
            else:
                numbers = np.ascontiguousarray(rows.numbers, dtype=self.dtype_)
        rows = survey.with_texts(replace(rows, numbers=numbers))
        holes = survey.has_holes(rows, "The data")
        if self.drops:
            whole = survey.complete(rows)
            if not whole.all():
                rows, kept = part(rows, whole), kept[whole]
        elif holes and self.numbers_imputer_ is None:
            missing = np.isnan(rows.numbers)
            row, column = (int(number) for number in np.argwhere(missing)[0])
            raise InputError(
                "Rows must have a number in every column, as at the fit; column "
                f"{quoted(self.layout_.numbers[column])} lacks {int(missing[:, column].sum()):,} in these rows (NaN), "
                f"first in {place(rows, row)}",
                remedy=("fill them, remove such rows, or fit a model with ", Setting("impute", "median")),
            )
        blocks = [self._numbers(rows, holes and not self.drops)] if self.layout_.numbers else []
        if self.encoder_ is not None:
            warned = set() if warned is None else warned
            blocks.append(survey.encoded(self.encoder_, rows, self.layout_.categories, warned))
        if self.vectorizer_ is not None and rows.documents is not None:
            documents = [document or "" for document in rows.documents.tolist()]
            none = sparse.csr_array((0, len(self.vectorizer_.vocabulary_)), dtype=self.dtype_)
            blocks.append(self.vectorizer_.transform(documents) if documents else none)
        if self.sparse_:
            joined = blocks[0] if len(blocks) == 1 else sparse.hstack(blocks, format="csr")
            X: Any = sparse.csr_array(joined).astype(self.dtype_, copy=False)
        else:
            dense = [block.toarray() if sparse.issparse(block) else block for block in blocks]
            X = np.ascontiguousarray(dense[0] if len(dense) == 1 else np.hstack(dense), dtype=self.dtype_)
        return Prepared(X, rows.ids, rows.labels, kept)

    def _numbers(self, rows: Rows, holes: bool) -> Any:
        numbers = rows.numbers
        if not numbers.shape[0]:
            return numbers
        moves = isinstance(self.scaler_, MinMaxScaler) or getattr(self.scaler_, "with_mean", False)
        centres = moves or getattr(self.scaler_, "with_centering", False)  # zeros do not stay zeros
        if sparse.issparse(numbers) and (not self.sparse_ or centres):
            numbers = numbers.toarray()  # a sparse table for a model of dense ones
        if holes and self.numbers_imputer_ is not None:
            numbers = self.numbers_imputer_.transform(numbers)
        if self.scaler_ is not None:
            numbers = self.scaler_.transform(numbers)
        return numbers

    def select(self, table: Table) -> Table:
        """Return the columns of the fit, in their roles, from another table; it may have more, in any order."""
        self._check_fitted()
        if self.image_shape_ is not None and table.image_shape not in (None, self.image_shape_):
            sizes = [" × ".join(map(str, shape or ())) for shape in (self.image_shape_, table.image_shape)]
            raise InputError(f"{table.name} must hold images of {sizes[0]} pixels; got {sizes[1]}: resize them.")
        return with_layout(table, layout_for(self.layout_, table))

    def inverse_transform(self, X: Any) -> Rows:
        """Return rows in the units of the file: numbers unscaled, of each category the value of the largest column."""
        self._check_fitted()
        if self.vectorizer_ is not None:
            raise InputError("Weights of words must stay as they are: TF-IDF has no inverse map to documents.")
        X = X if sparse.issparse(X) else np.asarray(plain(X))
        if X.ndim != 2 or X.shape[1] != self.n_features_out_:
            raise InputError(f"Prepared rows must be of shape (m, {self.n_features_out_}); got {tuple(X.shape)}.")
        X = X.astype(self.dtype_ if float_dtype(X.dtype).itemsize == 4 else float_dtype(X.dtype), copy=False)
        p = len(self.layout_.numbers)
        numbers = X[:, :p] if not sparse.issparse(X) else sparse.csr_array(X)[:, :p]
        if self.scaler_ is not None and X.shape[0]:
            numbers = self.scaler_.inverse_transform(numbers)
        layout = replace(self.layout_, id=None, label=None)
        texts = {} if self.encoder_ is None else survey.decoded(self.encoder_, X[:, p:], layout.categories)
        return Rows(layout, numbers, texts)

    @property
    def drops(self) -> bool:
        """Whether rows with missing values are left out."""
        return bool(self.impute == "drop")

    @property
    def n_features_out_(self) -> int:
        """The number of columns of prepared rows."""
        self._check_fitted()
        words = 0 if self.vectorizer_ is None else len(self.vectorizer_.vocabulary_)
        values = 0 if self.encoder_ is None else sum(map(len, self.encoder_.categories_))
        return len(self.layout_.numbers) + values + words

    @property
    def feature_names_in_(self) -> NDArray[np.object_]:
        """The names of the columns of the fit: numbers, categories, documents."""
        self._check_fitted()
        return np.array(inputs_of(self.layout_), dtype=object)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return the names of the columns of prepared rows: "age", "colour=red", "colour missing", "review:good"."""
        self._check_fitted()
        if input_features is not None and list(input_features) != list(self.feature_names_in_):
            raise InputError(f"input_features must be the names of the fit; got {listed(list(input_features))}.")
        names = list(self.layout_.numbers)
        if self.encoder_ is not None:
            for column, values in zip(self.layout_.categories, self.encoder_.categories_, strict=True):
                names += [f"{column} missing" if value is None else f"{column}={value}" for value in values.tolist()]
        if self.vectorizer_ is not None:
            names += [f"{self.layout_.text}:{word}" for word in sorted(self.vectorizer_.vocabulary_)]
        # A number goes behind those that occurred before: columns may be called like values of others.
        taken: dict[str, None] = {}
        for name in names:
            others = (f"{name} ({number})" for number in itertools.count(2))
            taken[name if name not in taken else next(other for other in others if other not in taken)] = None
        return np.array(list(taken), dtype=object)

    def describe(self) -> tuple[str, ...]:
        """Return sentences: what was left out, imputed, encoded and scaled."""
        self._check_fitted()
        return tuple(self.notes_)

    def frozen(self) -> Self:
        """Return a copy that later fits of this preparation do not change."""
        return copy.copy(self)

    def _check_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError("This Preparation is not fitted yet: call fit with a table first.")

    def __sklearn_is_fitted__(self) -> bool:
        return "layout_" in vars(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.impute is not None
        tags.input_tags.categorical = tags.input_tags.string = self.encode is not None
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def as_table(X: Any) -> Table:
    """Return X as a table: a table itself, rows, a data frame or an array."""
    if isinstance(X, Rows):
        return MemoryTable(X)
    if hasattr(X, "layout") and hasattr(X, "chunks") and hasattr(X, "whole"):
        table: Table = X
        return table
    from kpca.data.opening import table_of  # reads files too, and is loaded where it is wanted

    if isinstance(X, np.ndarray) and X.dtype == object:
        with contextlib.suppress(TypeError, ValueError):  # what is no number is refused where columns have names
            X = X.astype(np.float64)
    return table_of(X)


# -- The prepared rows of a table: an array where they fit into memory, else a source that prepares chunk after chunk -


# Prepared rows may take this part of the memory budget: the model makes a copy and works with about as much again.
SHARE_OF_MEMORY = 4


def rows_at_once(preparation: Preparation, table: Table) -> int:
    """Return how many rows are prepared together: neither they nor what they become are large."""
    out = default_rows(preparation.n_features_out_, preparation.dtype_, sparse=preparation.sparse_)
    return min(survey.chunk_rows(table), out)


def n_kept(preparation: Preparation, table: Table) -> int:
    """Return the number of rows that are not left out: all of them, or those that a pass finds complete."""
    if not preparation.drops:
        return table.n_rows
    return sum(int(survey.complete(survey.with_texts(rows)).sum()) for rows in survey.pass_over(table))


def check_kept(count: int, table: Table | Survey) -> None:
    """Refuse a table of which no row is left."""
    if not count:
        raise InputError(
            (
                *(f"{table.name} must have at least one row without missing values under ", Setting("impute", "drop")),
                f"; each of its {table.n_rows:,} rows has some",
            ),
            remedy=("use ", Setting("impute", "median"), ", or leave columns out with ", Setting("drop"), OF_TABLES),
        )


def prepared_source(preparation: Preparation, table: Table) -> Source:
    """Return the prepared rows as a source of chunks, which reads the table anew in each pass."""
    return ReaderSource(PreparedRows(preparation, table))


class PreparedRows:
    """Rows that are prepared as they are read; like arrays, they have no names of columns, so that models take both."""

    names: list[str] | None = None

    def __init__(self, preparation: Preparation, table: Table) -> None:
        self._preparation = preparation.frozen()
        self._table = table
        self._warned: set[str] = set()
        self.n_columns = preparation.n_features_out_
        self.dtype = preparation.dtype_
        self.sparse = preparation.sparse_
        self.n_rows = n_kept(preparation, table)
        check_kept(self.n_rows, table)

    def blocks(self, rows: int) -> Iterator[Any]:
        """Yield prepared rows; those with missing values may be left out, so blocks are of any length."""
        seen = 0
        for chunk in self._table.chunks(min(rows, rows_at_once(self._preparation, self._table))):
            block = self._preparation.prepare(chunk, warned=self._warned).X
            seen += block.shape[0]
            if block.shape[0]:
                yield block
        if seen != self.n_rows:
            raise survey.changed(self._table, self.n_rows, f"{seen:,}")

    def take(self, indices: Indices) -> Any:
        """Return the prepared rows of these numbers, which ascend, in a pass that ends with the last of them."""
        return taken_in_passing(self.blocks(rows_at_once(self._preparation, self._table)), indices)
