"""Trying kernels on the same folds, for all numbers of components at once, and what makes one better than another.

A criterion gives a loss per held-out row, per fold, or of all rows at once. Those that look at the data, or at labels,
can compare different kernels; those that look at variance in feature space compare parameters of one kernel only,
because every kernel has a variance of its own.
"""

from __future__ import annotations

import difflib
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.metrics import get_scorer, get_scorer_names
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

from kpca._base.config import memory_budget, rows_bytes
from kpca._base.errors import InputError, Setting
from kpca._base.linalg import FloatArray
from kpca._base.threads import in_order, kept_single_threaded, no_openmp_threads
from kpca.estimators.cost import Request
from kpca.estimators.exact import Decomposition
from kpca.estimators.fitted import NEIGHBOURS, restoration_errors, total_variance
from kpca.estimators.memory import dense_bytes, krylov_bytes
from kpca.estimators.n_components import ParallelAnalysis, parallel_analysis
from kpca.estimators.warm_start import Follower
from kpca.features.projection import MatrixProjection
from kpca.selection.candidates import Candidate
from kpca.selection.rows import FOLDS, Indices, folds_of, row_sample
from kpca.selection.stability import Stability, bootstrap_stability
from kpca.spectrum.krylov import basis_size

_RESAMPLES = 5


@dataclass(frozen=True)
class FittedFold:
    """A kernel fitted to some rows, and the rows it is judged by; criteria look at this and nothing else."""

    candidate: Candidate
    found: Decomposition
    X: Any  # rows of the fit
    held_out: Any  # rows it is judged by; none where the criterion does not ask for them
    y: NDArray[Any] | None
    held_out_y: NDArray[Any] | None
    variance: float  # of the rows of all folds: losses of different folds are relative to the same
    y_variance: FloatArray | None  # the same of numbers to predict, shape: (targets,)
    scores: FloatArray  # of the rows of the fit, shape: (n, k)
    held_out_scores: FloatArray  # shape: (m, k)
    request: Request

    def analysed(self, analysis: Callable[..., Any], counts: Sequence[int], **others: Any) -> Any:
        """Return what an analysis of the rows of the fit under this kernel finds in the first components."""
        asked = self.request
        how = {"center": asked.center, "seed": asked.seed, "threads": asked.threads, **others}
        return analysis(self.candidate.kernel, self.X, max(counts), **how)


class Criterion:
    """How a fitted kernel is judged; losses are smaller the better."""

    name = ""  # what the user calls it
    title = ""  # what the score is, in words
    held_out = True  # judged by rows that the fit has not seen
    comparable = True  # between kernels of different kinds
    lossless = 1.0  # the score without any loss: 1 is perfect, and 0 no better than nothing
    beyond = 0  # eigenvalues that are looked at after the last component

    def losses(self, fitted: FittedFold, counts: Sequence[int]) -> FloatArray:
        """Return the loss of each held-out row, or one for all, by number of components.  # shape: (len(counts), m)"""
        first = ((fitted.scores[:, :count], fitted.held_out_scores[:, :count]) for count in counts)
        return np.array([self.loss(fitted, scores, new) for scores, new in first])

    def loss(self, fitted: FittedFold, scores: FloatArray, new: FloatArray) -> FloatArray:
        """Return the losses by the first scores of the fitted rows, and of the held-out ones.  # shape: (m,)"""
        raise NotImplementedError

    def score(self, loss: FloatArray) -> FloatArray:
        """Return a mean loss as a score, larger is better."""
        return self.lossless - loss  # a difference, so that it is never -0


@dataclass(frozen=True)
class Restoration(Criterion):
    """How well rows are restored from their scores: by the mean of the fitted rows with the nearest scores.

    The loss of a row is its squared distance from what is restored, over the variance of the data. Rows that are alike
    in their scores and not in the data cost, wherever the kernel has put them.
    """

    neighbours: int = NEIGHBOURS
    name = "reconstruction"
    title = "share of the variance of held-out rows that their scores restore"

    def loss(self, fitted: FittedFold, scores: FloatArray, new: FloatArray) -> FloatArray:
        return restoration_errors(fitted.X, scores, fitted.held_out, new, self.neighbours) / fitted.variance


class HeldOutVariance(Criterion):
    """How much of the variance of new rows, in feature space, the components explain."""

    name = "variance"
    title = "share of the variance of held-out rows in feature space that the components explain"
    comparable = False

    def losses(self, fitted: FittedFold, counts: Sequence[int]) -> FloatArray:
        projection = fitted.found.projection
        assert not isinstance(projection, MatrixProjection)
        left = projection.parts(fitted.held_out, threads=fitted.request.threads).residuals
        squares = np.square(fitted.held_out_scores, dtype=np.float64)
        total = float(np.mean(left + squares.sum(axis=1))) or 1.0
        return np.array([(left + squares[:, count:].sum(axis=1)) / total for count in counts])


class Prediction(Criterion):
    """How well labels of held-out rows are predicted from scores, by nearest neighbours."""

    name = "knn"

    def __init__(self, continuous: bool) -> None:
        self.continuous, self.title = continuous, f"{'R²' if continuous else 'accuracy'} of k nearest neighbours"

    def loss(self, fitted: FittedFold, scores: FloatArray, new: FloatArray) -> FloatArray:
        """Return 1 for a wrong class, or the squared error over the variance of y.  # shape: (m,)"""
        y, truth, spread = fitted.y, fitted.held_out_y, fitted.y_variance
        assert y is not None and truth is not None
        predicted = _neighbours(self.continuous, len(y)).fit(scores, y).predict(new)
        if not self.continuous:
            return np.asarray(predicted != truth, dtype=np.float64)
        assert spread is not None
        gap = np.square(predicted - truth).reshape(len(truth), -1)
        return np.asarray((gap / np.where(spread > 0, spread, 1.0)).mean(axis=1))


class Scored(Criterion):
    """What a scorer of scikit-learn says of a predictor that is fitted to scores; one number a fold."""

    lossless = 0.0

    def __init__(self, name: str, scorer: Any, predictor: Callable[[int], Any]) -> None:
        self.name, self._scorer, self._predictor = name, scorer, predictor
        self.title = f"{name} of {type(predictor(1)).__name__}"

    def loss(self, fitted: FittedFold, scores: FloatArray, new: FloatArray) -> FloatArray:
        predictor = self._predictor(len(scores))
        try:
            return -np.array([float(self._scorer(predictor.fit(scores, fitted.y), new, fitted.held_out_y))])
        except (AttributeError, TypeError, ValueError) as error:
            said = " ".join(str(error).split()).rstrip(".")
            judged = f"must be able to judge {type(predictor).__name__} on these labels; it says: {said}."
            raise InputError(f"{self.name!r} {judged}", param="criterion") from error


class Excess(Criterion):
    """How far the leading eigenvalues stand out of those of data without structure (parallel analysis)."""

    name = "parallel"
    title = "variance above that of permuted columns, as a share of all"
    held_out, lossless = False, 0.0

    def losses(self, fitted: FittedFold, counts: Sequence[int]) -> FloatArray:
        found: ParallelAnalysis = fitted.analysed(parallel_analysis, counts)
        above = np.maximum(found.values - found.null, 0.0)
        above[found.count :] = 0.0
        summed = np.cumsum(above) * (found.excess / max(float(above.sum()), 1e-300))
        return -np.array([[summed[min(count, len(summed)) - 1]] for count in counts])


class Gap(Criterion):
    """How far the last eigenvalue that is kept lies above the first that is not, relative to it."""

    name = "gap"
    title = "relative gap after the last component"
    beyond = 1
    held_out, lossless = False, 0.0

    def losses(self, fitted: FittedFold, counts: Sequence[int]) -> FloatArray:
        """Return minus 1 - lambda_(k+1) / lambda_k; no gap is known after the last eigenvalue that was computed."""
        values = fitted.found.spectrum.values
        known = [1.0 - values[count] / values[count - 1] if count < len(values) else np.nan for count in counts]
        return -np.array(known)[:, None]


class Steadiness(Criterion):
    """How little the span of the components changes when rows are drawn again."""

    name = "stability"
    title = "mean squared cosine between the components' spans under resampling"
    held_out, lossless = False, 0.0

    def losses(self, fitted: FittedFold, counts: Sequence[int]) -> FloatArray:
        found: Stability = fitted.analysed(bootstrap_stability, counts, resamples=_RESAMPLES)
        return -np.array([[found.subspaces[min(count, len(found.subspaces)) - 1]] for count in counts])


_UNLABELLED = {kind.name: kind for kind in (Restoration, Excess, HeldOutVariance, Gap, Steadiness)}
NAMES = (*_UNLABELLED, "knn")


def _neighbours(continuous: bool, rows: int) -> Any:
    return (KNeighborsRegressor if continuous else KNeighborsClassifier)(min(NEIGHBOURS, rows))


def check_criterion(criterion: Any, y: NDArray[Any] | None, predictor: Any = None) -> Criterion:
    """Return the criterion that is meant: by name, by a scorer of scikit-learn, or by what there is to judge by."""
    continuous = y is not None and y.dtype.kind == "f"
    if criterion is None:
        criterion = "reconstruction" if y is None else "knn"
    named = isinstance(criterion, str)
    if named and criterion in _UNLABELLED:
        criterion = _UNLABELLED[criterion]()
    if isinstance(criterion, Criterion):
        if predictor is not None:
            rest = f" {criterion.name!r} uses none."
            raise InputError(("A predictor must go with a scorer of scikit-learn; ", Setting("criterion"), rest))
        return criterion
    if named and criterion not in ("knn", *get_scorer_names()):
        close = difflib.get_close_matches(criterion, [*NAMES, *get_scorer_names()], n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        known = f"{', '.join(map(repr, NAMES))} or a scorer of scikit-learn"
        raise InputError(f"must be one of {known}; got {criterion!r}.{hint}", param="criterion")
    if not (named or callable(criterion)):
        raise InputError("must be a name or a scorer of scikit-learn", param="criterion", value=criterion)
    if y is None:
        remedy = ("give ", Setting("y"), ", or take ", Setting("criterion", "reconstruction"))
        raise InputError((Setting("criterion", criterion), " must be given labels; got none"), remedy=remedy)
    if criterion == "knn" and predictor is None:
        return Prediction(continuous)
    if predictor is not None and (isinstance(predictor, type) or not hasattr(predictor, "get_params")):
        raise InputError(f"predictor must be a classifier or regressor of scikit-learn; got {predictor!r}.")
    if criterion == "knn":
        message = "'knn' brings its own predictor: name a scorer, such as 'accuracy', for another."
        raise InputError(message, param="criterion")
    name = criterion if named else getattr(criterion, "__name__", type(criterion).__name__)
    chosen = partial(_neighbours, continuous) if predictor is None else lambda _: clone(predictor)
    return Scored(name, get_scorer(criterion), chosen)


@dataclass(frozen=True)
class KernelTrial:
    """What came of a candidate: a loss for each number of components, by row, fold or once; smaller is better."""

    candidate: Candidate
    counts: tuple[int, ...]
    losses: FloatArray  # NaN where there are fewer components, shape: (len(counts), m)
    rows: int
    seconds: float
    failure: str = ""
    components: int = 0  # found in all folds

    @property
    def means(self) -> FloatArray:
        """The mean loss for each number of components.  # shape: (len(counts),)"""
        return np.asarray(self.losses.mean(axis=1))

    def error(self, place: int) -> float:
        """Return the standard error of a mean loss; NaN where it is a single number."""
        losses = self.losses[place]
        return float(np.std(losses, ddof=1) / np.sqrt(losses.size)) if losses.size > 1 else float("nan")


@dataclass(frozen=True)
class _Part:
    """What came of a candidate on one fold."""

    losses: FloatArray  # shape: (len(counts), m)
    components: int
    failure: str
    seconds: float


@dataclass(frozen=True, eq=False)
class Bench:
    """Rows cut into folds, on which candidates are tried; what fits have in common is kept."""

    candidates: Sequence[Candidate]
    X: Any
    y: NDArray[Any] | None
    folds: Sequence[tuple[Indices, Indices]]
    criterion: Criterion
    counts: Sequence[int]
    request: Request
    fewer: bool = False  # take all components there are, where there are fewer than asked for

    def sampled(self, count: int, cv: Any) -> Bench:
        """Return the same bench with a sample of the rows."""
        seed, some = self.request.seed, row_sample(self.X.shape[0], count, self.request.seed)
        if some is None:
            return self
        cv = cv if isinstance(cv, Integral) and cv <= count else FOLDS  # row numbers of others mean other rows
        labels = None if self.y is None else self.y[some]
        folds = folds_of(cv, count, labels, seed) if self.criterion.held_out else []
        return replace(self, X=self.X[some], y=labels, folds=folds)

    @cached_property
    def _fits(self) -> list[tuple[Indices, Indices, Follower]]:
        """The rows to fit to and to judge by, and what fits kernel after kernel."""
        whole = np.arange(self.X.shape[0])
        folds = self.folds if self.criterion.held_out else [(whole, whole[:0])]
        kernels, room = [candidate.kernel for candidate in self.candidates], memory_budget() // (2 * len(folds))
        request = replace(self.request, threads=max(1, self.request.threads // len(folds)))
        return [
            (fit, rest, Follower(kernels, self.X[fit], request, budget=room, new=self.X[rest])) for fit, rest in folds
        ]

    @cached_property
    def _variances(self) -> tuple[float, FloatArray | None]:
        with np.errstate(over="ignore"):
            numbers = None if self.y is None or self.y.dtype.kind != "f" else self.y.reshape(len(self.y), -1)
            return total_variance(self.X), None if numbers is None else numbers.var(axis=0)

    def try_(
        self,
        order: Sequence[Candidate],
        found: Callable[[KernelTrial], None],
        ready: Callable[[int], None] = lambda place: None,
    ) -> None:
        """Try candidates on all threads, and hand over what comes of each, in this order.

        A kernel that fails on these rows is a result, too. `ready` is told the place of each before it is begun, and
        may raise. Folds are worked on side by side, and the next candidate is begun before all of them are done. On one
        fold candidates are fitted in this order, whatever the threads: each starts from those before it.
        """
        fits, _ = self._fits, self._variances  # made here, and not by several threads
        pieces = [(candidate, number) for candidate in range(len(order)) for number in range(len(fits))]
        followed = [[threading.Event() for _ in fits] for _ in order]
        parts: list[_Part] = []
        threads = self._side_by_side()

        def work(piece: tuple[int, int]) -> _Part:
            place, number = piece
            try:
                if number == 0:
                    ready(place)
                if place > 0:
                    followed[place - 1][number].wait()
                # Neighbours are found before threads have met, and of equal ones the same whatever the threads.
                with no_openmp_threads():
                    return self._part(order[place], *fits[number], followed[place][number].set)
            finally:
                followed[place][number].set()

        def commit(piece: tuple[int, int], part: _Part) -> None:
            parts.append(part)
            if len(parts) == len(fits):
                found(self._trial(order[piece[0]], parts, min(threads, len(fits))))
                parts.clear()

        with warnings.catch_warnings(), kept_single_threaded():
            warnings.simplefilter("ignore")  # what there is to say of one of many kernels is said by its loss
            in_order(pieces, lambda: work, commit, threads)

    def _side_by_side(self) -> int:
        """Return how many folds are worked on at a time, by threads and memory: some are judged, others fitted."""
        asked, n = self.request, max(follower.X.shape[0] for _, _, follower in self._fits)
        k = n if asked.n_components is None else min(n, int(asked.n_components))
        if all(follower.request.eigen_solver == "krylov" for _, _, follower in self._fits):
            needed = krylov_bytes(n, k, basis_size(k, n), rows_bytes(self.X), 1)
        else:
            needed = dense_bytes(n, k)
        return max(1, min(asked.threads, 2 * len(self._fits), memory_budget() // (2 * needed)))

    def _part(
        self, candidate: Candidate, fit: Indices, held_out: Indices, follower: Follower, fitted: Callable[[], None]
    ) -> _Part:
        """Return what comes of a candidate on one fold; `fitted` is called once the next one may be fitted."""
        started, losses, components, failure = time.perf_counter(), np.empty((0, 0)), 0, ""
        try:
            candidate.kernel.check(self.X)
            found = follower(candidate.kernel)
            fitted()
            losses, components = self._losses(candidate, fit, held_out, follower, found)
        except ValueError as error:  # InputError, or scikit-learn's of a kernel that is far from positive
            failure = " ".join(str(error).split())
        return _Part(losses, components, failure, time.perf_counter() - started)

    def _trial(self, candidate: Candidate, parts: Sequence[_Part], threads: int) -> KernelTrial:
        failure = next((part.failure for part in parts if part.failure), "")
        losses = np.full((len(self.counts), 1), np.nan) if failure else np.hstack([part.losses for part in parts])
        components = 0 if failure else min(part.components for part in parts)
        seconds = sum(part.seconds for part in parts) / threads
        return KernelTrial(candidate, tuple(self.counts), losses, self.X.shape[0], seconds, failure, components)

    def _losses(
        self, candidate: Candidate, fit: Indices, held_out: Indices, follower: Follower, found: Decomposition
    ) -> tuple[FloatArray, int]:
        """Return the losses on one fold, and how many components there were.  # shape: (len(counts), m)"""
        keep = int(np.count_nonzero(found.spectrum.values > 0))
        found = found.head(keep)
        with np.errstate(over="ignore", invalid="ignore"):
            scores = follower.scores(found) if len(held_out) else np.empty((0, keep))
        if not np.isfinite(scores).all():
            raise InputError(f"Scores of held-out rows must be finite; under {candidate.label} some are not.")
        y, new_y = (None, None) if self.y is None else (self.y[fit], self.y[held_out])
        both = (found.spectrum.scores(), scores)
        rows = (follower.X, follower.new)
        fitted = FittedFold(candidate, found, *rows, y, new_y, *self._variances, *both, follower.request)
        asked = [min(count, keep) for count in self.counts] if self.fewer and keep else self.counts
        counts = [count for count in asked if count <= keep]
        judged = self.criterion.losses(fitted, counts) if counts else np.empty((0, 1))
        missing = np.full((len(self.counts) - len(counts), judged.shape[1]), np.nan)
        return np.vstack([judged, missing]), keep
