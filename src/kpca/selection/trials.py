"""Trying kernels on the same folds: fit to some rows, judge by the others, for all numbers of components at once."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca._base.config import memory_budget
from kpca._base.errors import InputError
from kpca._base.threads import no_openmp_threads
from kpca.estimators.cost import Request
from kpca.estimators.exact import Decomposition
from kpca.estimators.fitted import total_variance
from kpca.estimators.warm_start import Follower
from kpca.selection.candidates import Candidate

FloatArray = NDArray[Any]
Indices = NDArray[np.intp]


@dataclass(frozen=True)
class Fitted:
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
    center: bool
    seed: int
    threads: int


@dataclass(frozen=True)
class Trial:
    """What came of a candidate: a loss for each number of components, by row, fold or once; smaller is better."""

    candidate: Candidate
    counts: tuple[int, ...]
    losses: FloatArray  # NaN where there are not so many components, shape: (len(counts), m)
    rows: int
    seconds: float
    failure: str = ""
    components: int = 0  # found in all folds

    @property
    def means(self) -> FloatArray:
        """The mean loss for each number of components.  # shape: (len(counts),)"""
        means: FloatArray = self.losses.mean(axis=1)
        return means


class Bench:
    """Rows cut into folds, on which candidates are tried one after the other; what fits have in common is kept."""

    def __init__(
        self,
        candidates: Sequence[Candidate],
        X: Any,
        y: NDArray[Any] | None,
        *,
        folds: Sequence[tuple[Indices, Indices]],
        criterion: Any,
        counts: Sequence[int],
        request: Request,
        fewer: bool = False,
    ) -> None:
        """`fewer`: where there are not so many components, those that there are stand for them."""
        self.X, self.y, self.criterion, self.request = X, y, criterion, request
        self.counts = tuple(counts)
        whole = np.arange(X.shape[0])
        self._folds = list(folds) if criterion.held_out else [(whole, whole[:0])]
        shared = memory_budget() // (2 * len(self._folds))
        kernels = [candidate.kernel for candidate in candidates]
        self._followers = [Follower(kernels, X[fit], request, budget=shared) for fit, _ in self._folds]
        self._variance, self._fewer = total_variance(X), fewer
        with np.errstate(over="ignore"):
            self._y_variance = None if y is None or y.dtype.kind != "f" else y.reshape(len(y), -1).var(axis=0)

    def try_(self, candidate: Candidate) -> Trial:
        """Return what comes of a candidate; a kernel that fails on these rows is a result, too."""
        started = time.perf_counter()
        parts: list[tuple[FloatArray, int]] = []
        failure = ""
        # Neighbours are found before threads have met, and of equal ones the same whatever the threads.
        with warnings.catch_warnings(), no_openmp_threads():
            # what there is to say of one of many kernels is said by its loss
            warnings.simplefilter("ignore")
            try:
                candidate.kernel.check(self.X)
                for number in range(len(self._folds)):
                    parts.append(self._losses(candidate, number))
            except ValueError as error:  # InputError, or scikit-learn's of a kernel that is far from positive
                failure = " ".join(str(error).split())
        losses = np.full((len(self.counts), 1), np.nan)
        if parts and not failure:
            losses = np.concatenate([part for part, _ in parts], axis=1)
        found = min((components for _, components in parts), default=0)
        return Trial(candidate, self.counts, losses, self.X.shape[0], time.perf_counter() - started, failure, found)

    def _losses(self, candidate: Candidate, number: int) -> tuple[FloatArray, int]:
        """Return the losses on one fold, and how many components there were.  # shape: (len(counts), m)"""
        fit, held_out = self._folds[number]
        follower = self._followers[number]
        found = follower(candidate.kernel)
        keep = int(np.count_nonzero(found.spectrum.values > 0))
        spectrum, projection = found.spectrum.head(keep), found.projection.head(keep)
        rows = self.X[held_out]
        with np.errstate(over="ignore", invalid="ignore"):
            scores = projection(rows, threads=self.request.threads) if len(held_out) else np.empty((0, keep))
        if not np.isfinite(scores).all():
            raise InputError(f"Scores of held-out rows must be finite; under {candidate.label} some are not.")
        fitted = Fitted(
            candidate,
            Decomposition(spectrum, projection),
            follower.X,
            rows,
            None if self.y is None else self.y[fit],
            None if self.y is None else self.y[held_out],
            self._variance,
            self._y_variance,
            spectrum.scores(),
            scores,
            self.request.center,
            self.request.seed,
            self.request.threads,
        )
        asked = [min(count, keep) for count in self.counts] if self._fewer and keep else self.counts
        counts = [count for count in asked if count <= keep]
        judged = self.criterion.losses(fitted, counts) if counts else np.empty((0, 1))
        missing = np.full((len(self.counts) - len(counts), judged.shape[1]), np.nan)
        return np.vstack([judged, missing]), keep
