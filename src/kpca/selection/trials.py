"""Trying kernels on the same folds: fit to some rows, judge by the others, for all numbers of components at once."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca._base.config import memory_budget
from kpca._base.errors import InputError
from kpca._base.linalg import FloatArray
from kpca._base.threads import no_openmp_threads
from kpca.estimators.cost import Request
from kpca.estimators.exact import Decomposition
from kpca.estimators.fitted import total_variance
from kpca.estimators.warm_start import Follower
from kpca.selection.candidates import Candidate
from kpca.selection.rows import FOLDS, Indices, folds_of, row_sample


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
        means: FloatArray = self.losses.mean(axis=1)
        return means

    def error(self, place: int) -> float:
        """Return the standard error of a mean loss; NaN where it is a single number."""
        losses = self.losses[place]
        return float(np.std(losses, ddof=1) / np.sqrt(losses.size)) if losses.size > 1 else float("nan")


@dataclass(frozen=True, eq=False)
class Bench:
    """Rows cut into folds, on which candidates are tried one after the other; what fits have in common is kept."""

    candidates: Sequence[Candidate]
    X: Any
    y: NDArray[Any] | None
    folds: Sequence[tuple[Indices, Indices]]
    criterion: Any
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
        return [(fit, rest, Follower(kernels, self.X[fit], self.request, budget=room)) for fit, rest in folds]

    @cached_property
    def _variances(self) -> tuple[float, FloatArray | None]:
        with np.errstate(over="ignore"):
            numbers = None if self.y is None or self.y.dtype.kind != "f" else self.y.reshape(len(self.y), -1)
            return total_variance(self.X), None if numbers is None else numbers.var(axis=0)

    def try_(self, candidate: Candidate) -> KernelTrial:
        """Return what comes of a candidate; a kernel that fails on these rows is a result, too."""
        started = time.perf_counter()
        parts, failure = [], ""
        # Neighbours are found before threads have met, and of equal ones the same whatever the threads.
        with warnings.catch_warnings(), no_openmp_threads():
            # what there is to say of one of many kernels is said by its loss
            warnings.simplefilter("ignore")
            try:
                candidate.kernel.check(self.X)
                parts = [self._losses(candidate, *fit) for fit in self._fits]
            except ValueError as error:  # InputError, or scikit-learn's of a kernel that is far from positive
                failure = " ".join(str(error).split())
        missing = np.full((len(self.counts), 1), np.nan)
        losses = np.concatenate([part for part, _ in parts], axis=1) if parts else missing
        found = min((components for _, components in parts), default=0)
        seconds = time.perf_counter() - started
        return KernelTrial(candidate, tuple(self.counts), losses, self.X.shape[0], seconds, failure, found)

    def _losses(
        self, candidate: Candidate, fit: Indices, held_out: Indices, follower: Follower
    ) -> tuple[FloatArray, int]:
        """Return the losses on one fold, and how many components there were.  # shape: (len(counts), m)"""
        found = follower(candidate.kernel)
        keep = int(np.count_nonzero(found.spectrum.values > 0))
        found, rows = found.head(keep), self.X[held_out]
        with np.errstate(over="ignore", invalid="ignore"):
            scores = found.projection(rows, threads=self.request.threads) if len(held_out) else np.empty((0, keep))
        if not np.isfinite(scores).all():
            raise InputError(f"Scores of held-out rows must be finite; under {candidate.label} some are not.")
        y, new_y = (None, None) if self.y is None else (self.y[fit], self.y[held_out])
        both = (found.spectrum.scores(), scores)
        fitted = FittedFold(candidate, found, follower.X, rows, y, new_y, *self._variances, *both, self.request)
        asked = [min(count, keep) for count in self.counts] if self.fewer and keep else self.counts
        counts = [count for count in asked if count <= keep]
        judged = self.criterion.losses(fitted, counts) if counts else np.empty((0, 1))
        missing = np.full((len(self.counts) - len(counts), judged.shape[1]), np.nan)
        return np.vstack([judged, missing]), keep
