"""What a report is about, and what its sections share."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kpca import diagnostics, explain
from kpca._base.config import config
from kpca._base.errors import InputError
from kpca.detector import KernelPCADetector
from kpca.report.packing import Markup, picture, tag
from kpca.report.words import id_texts, sentence


@dataclass(frozen=True)
class DataFacts:
    """What is known of the data before it became the rows of a model."""

    name: str  # of the file, without its folder
    digest: str  # SHA-256, hexadecimal
    n_rows: int  # in the file
    n_columns: int
    kinds: tuple[tuple[str, int], ...] = ()  # ("numbers", 12), ("categories", 2), ...
    missing: int = 0  # entries
    treated: tuple[str, ...] = ()  # sentences: what was imputed, encoded, scaled, left out
    of_fit: bool = True  # the data that model and treatment were fitted to; else other rows


@dataclass(frozen=True)
class Subject:
    """A fitted model and the rows to show; X is in memory, and a sample of the rows where there are very many."""

    model: Any  # KernelPCA or IncrementalKernelPCA, fitted
    X: Any  # dense or CSR, as the model takes it; shape: (m, d)
    ids: NDArray[Any]  # shape: (m,)
    labels: NDArray[Any] | None  # shape: (m,)
    names: tuple[str, ...]  # of the columns of X
    data: DataFacts
    chosen: tuple[str, ...] = ()  # sentences: which kernel, bandwidth, number of components, and why
    code: str = ""  # Python that repeats the fit
    command: str = ""  # the command line that does
    seed: int = 0
    restore: Callable[[NDArray[Any]], NDArray[Any]] | None = None  # rows of X back to the units of the file
    image_shape: tuple[int, int] | None = None  # height and width, where a row is a picture
    title: str = ""  # of the page; empty: made from the name of the data
    numbers: NDArray[Any] | None = None  # places of the rows in the file, from 0; None: 0, 1, ...; shape: (m,)
    drawn_from: int | None = None  # how many rows X is a sample of; None: X is all of them


# -- What the sections of a report share: scores, samples, what moves the components, which rows are unusual ----------

FloatArray = NDArray[Any]
Made = TypeVar("Made")
MOST_DOTS = 20_000  # rows of the map, and of everything that is drawn or judged row by row
_EXPLAINED_ROWS = 1000  # rows that importance is averaged over
_SHUFFLED_ROWS, _MOST_SHUFFLED = 200, 100  # rows and columns, where columns are shuffled one by one
# Rows times columns that a detector is fitted to; an entry of a sparse row costs as much as this many others.
_MOST_LEARNED, _FEWEST_LEARNED, _SPARSE_WORK = 2e7, 1000, 60
_MOST_GRADIENTS = 2e8  # numbers of all Jacobians: rows x components x columns


class Refusal(str):
    """The sentence that says why something is not in the report."""

    __slots__ = ()


def not_here(what: str, refusal: Refusal) -> Markup:
    """Return the sentence that stands in the place of something that this model does not serve."""
    return tag("p", f"{what} ", sentence(refusal), class_="refusal")


@dataclass(frozen=True)
class Influence:
    """How much each column moves the components."""

    by_component: FloatArray  # shape: (c, d)
    overall: FloatArray  # shape: (d,)
    rows: int
    how: str  # "gradients", or where there are none "shuffled" or "correlated"

    @property
    def order(self) -> NDArray[np.intp]:
        """Columns, the most important first."""
        return np.argsort(-self.overall, kind="stable")


@dataclass(frozen=True)
class UnusualRows:
    """How unusual the rows of the map are."""

    detector: KernelPCADetector
    statistic: FloatArray  # shape: (m,)
    limit: float
    learned: int  # rows that the detector was fitted to
    warned: tuple[str, ...]  # what the detector warned of

    @property
    def beyond(self) -> NDArray[np.bool_]:
        """Which rows are beyond the limit."""
        return self.statistic > self.limit

    @property
    def ratio(self) -> FloatArray:
        """The statistic in units of the limit.  # shape: (m,)"""
        return self.statistic / (self.limit if self.limit > 0 else 1.0)


class Material:
    """A subject, and what is computed of it."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.model = subject.model
        m = subject.X.shape[0]
        self.rows = _drawn(m, MOST_DOTS)  # those of the map
        self.numbers = self.rows if subject.numbers is None else np.asarray(subject.numbers)[self.rows]
        self.of_rows = m if subject.drawn_from is None else subject.drawn_from
        self.X = subject.X if m <= MOST_DOTS else subject.X[self.rows]
        self.id_texts = id_texts(np.asarray(subject.ids)[self.rows])
        self.labels = None if subject.labels is None else np.asarray(subject.labels)[self.rows]
        self.names = subject.names
        self.sampled = len(self.rows) < self.of_rows  # the rows of the map are not all rows
        self.sparse = bool(sparse.issparse(self.X))
        self.drawings: dict[str, Any] = {}  # what the script of the page draws, by the name of the picture

    @cached_property
    def scores(self) -> FloatArray:
        """Scores of the rows of the map.  # shape: (m, k)"""
        return np.asarray(self.model.transform(self.X), dtype=np.float64)

    def restored(self, rows: Any) -> FloatArray:
        """Return rows in the units of the file.  # shape: (m, d)"""
        dense: FloatArray = np.asarray(rows.toarray() if sparse.issparse(rows) else rows, dtype=np.float64)
        if self.subject.restore is None:
            return dense
        found = np.asarray(self.subject.restore(dense), dtype=np.float64)
        if found.shape != dense.shape:
            must = f"restore must return rows of the {dense.shape[1]} columns it was given"
            raise InputError(f"{must}; got shape {found.shape}.")
        return found

    @cached_property
    def dense(self) -> FloatArray:
        """The rows of the map in the units of the file; not for sparse rows.  # shape: (m, d)"""
        return self.restored(self.X)

    @cached_property
    def picture_range(self) -> tuple[float, float]:
        """The values that are black and white in pictures of rows."""
        return float(self.dense.min()), float(self.dense.max())

    def picture(
        self, row: FloatArray, text: str, caption: Any = None, limits: tuple[float, float] | None = None
    ) -> Markup:
        """Return a row as a picture, with what it shows in words."""
        assert self.subject.image_shape is not None
        return picture(row.reshape(self.subject.image_shape), limits or self.picture_range, text, caption)

    def spread_out(self, most: int) -> NDArray[np.intp]:
        """Return the numbers of a few rows from all over the map."""
        return np.unique(np.linspace(0, len(self.rows) - 1, min(most, len(self.rows))).astype(np.intp))

    def column(self, number: int) -> FloatArray:
        """Return one column of the rows of the map, in the units of the file.  # shape: (m,)"""
        if self.sparse:
            return np.asarray(self.X[:, [number]].toarray(), dtype=np.float64).ravel()
        return self.dense[:, number]

    @cached_property
    def findings(self) -> diagnostics.Report | Refusal:
        """What the diagnostics say."""
        return attempt(lambda: diagnostics.check(self.model, self.subject.X, random_state=self.subject.seed))

    @cached_property
    def influence(self) -> Influence | Refusal:
        """How much each column moves the components; from gradients, or where there are none in another way."""
        k, d = int(self.model.n_components_), self.X.shape[1]
        most = int(max(20, min(_EXPLAINED_ROWS, _MOST_GRADIENTS / (k * d))))
        names = list(self.names)
        how = "gradients"
        found: Any = attempt(lambda: explain.importance(self.model, self.X, max_rows=most, names=names, weighted=True))
        if isinstance(found, Refusal):
            if d > _MOST_SHUFFLED or getattr(self.model.kernel_, "name", "") == "callable":
                return self._correlated()
            options: dict[str, Any] = {"repeats": 3, "max_rows": _SHUFFLED_ROWS, "random_state": self.subject.seed}
            how = "shuffled"
            found = attempt(lambda: explain.permutation_importance(self.model, self.X, names=names, **options))
        if isinstance(found, Refusal):
            return found
        return Influence(found.by_component, found.values, found.rows, how)

    def _correlated(self) -> Influence:
        """Return how closely each column goes along with each component: the sizes of their correlations."""
        scores = self.scores - self.scores.mean(axis=0)
        X: Any = self.X if self.sparse else np.asarray(self.X, dtype=np.float64)
        m = len(scores)
        mean = np.asarray(X.mean(axis=0), dtype=np.float64).ravel()
        squares = X.multiply(X) if self.sparse else np.square(X - mean)
        variance = np.asarray(squares.mean(axis=0), dtype=np.float64).ravel() - (mean**2 if self.sparse else 0.0)
        products = np.asarray((X.T @ scores).T) / m  # scores are centred, so columns need not be
        sizes = np.sqrt(np.maximum(variance, 0.0)) * scores.std(axis=0)[:, None]  # shape: (k, d)
        by_component = np.minimum(np.abs(products) / np.where(sizes > 0, sizes, np.inf), 1.0)
        shares = np.asarray(self.model.explained_variance_, dtype=np.float64)
        overall = np.sqrt(shares @ np.square(by_component) / (shares.sum() or 1.0))
        return Influence(by_component, overall, m, "correlated")

    @cached_property
    def anomalies(self) -> UnusualRows | Refusal:
        """Which rows are unusual, by a detector of its own with default settings."""
        return attempt(self._judged)

    def _judged(self) -> UnusualRows:
        m, d = self.X.shape
        width = _SPARSE_WORK * self.X.nnz / m if self.sparse else d  # of wide rows a sample, to bound the time
        most = int(max(_FEWEST_LEARNED, _MOST_LEARNED / max(width, 1)))
        some = self.X if m <= most else self.X[_drawn(m, most)]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            detector = KernelPCADetector(random_state=self.subject.seed, n_jobs=self.model.n_jobs).fit(some)
            statistic = detector.statistics(self.X)[detector.statistic]
        told = tuple(dict.fromkeys(" ".join(str(w.message).split()) for w in caught if w.category is UserWarning))
        for other in caught:
            if other.category is not UserWarning:  # told to the user of Python, not to the reader
                warnings.warn_explicit(other.message, other.category, other.filename, other.lineno)
        return UnusualRows(detector, statistic, -float(detector.offset_), some.shape[0], told)


def attempt(function: Callable[[], Made]) -> Made | Refusal:
    """Return what a function makes, or the sentence with which it refuses."""
    try:
        with config(progress=False, checkpoint=None):  # the steps of a report are its sections
            return function()
    except InputError as error:
        return Refusal(str(error))


def _drawn(m: int, most: int) -> NDArray[np.intp]:
    """Return the numbers of all of m rows, or of a sample that is always the same."""
    return np.arange(m) if m <= most else np.sort(np.random.default_rng(0).choice(m, most, replace=False))
