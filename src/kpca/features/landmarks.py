"""Landmarks: the few rows (or points) by which a Nystroem map knows the rest."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from threadpoolctl import threadpool_limits

from kpca._base.errors import InputError, InputWarning, Setting
from kpca._base.linalg import FloatArray, mean_of_rows
from kpca._base.threads import single_threaded
from kpca._base.validation import all_finite, check_mask
from kpca.features.nystroem_map import NystroemMap
from kpca.features.pivots import pivoted_cholesky
from kpca.gram import CrossGram
from kpca.gram.tiles import by_slices, over_slices, piece_rows, slices
from kpca.kernels import Kernel

# Of more rows than this, landmarks are chosen among some that are drawn once: so many for each of them, within limits.
# More change the choice little and cost in proportion.
CHOSEN_FROM, _FOR_EACH, _FEWEST = 30_000, 15, 10_000
# The unexplained fraction that ends the doubling of a rank is measured on at most this many rows.
_MEASURED_ON = 10_000
_ENOUGH_JUDGES = 2000
# Few landmarks are a matter of luck, and cost little: of so many draws the best is taken, up to so many kernel values.
_DRAWS, _CHEAP_DRAW = 5, 1_600_000
# A fraction of the trace that is rounding: nothing is gained by asking for less.
_ROUNDING = 1e-13
_FIRST_RANK = 16
_ROWS_AT_ONCE, _SHORTEST_PIECE, _DIAGONAL_ROWS = 4096, 288, 65_536
# Multiplications per pass of k-means from which mini-batches take over.
_MINI_BATCHES = 2e9
_PASSES = 50


@dataclass(frozen=True)
class Landmarks:
    """Points to compare every row with."""

    points: Any  # dense or CSR, shape: (r, d)
    indices: NDArray[np.intp] | None  # the rows of X they are, in the same order; None if they are not rows of X
    method: str


@dataclass(frozen=True)
class _Task:
    """What a method is asked for: some number of landmarks, or, if there is a fraction, at most that many."""

    kernel: Kernel
    X: Any
    rank: int
    weights: FloatArray | None
    seed: int
    threads: int
    fraction: float = 0.0

    @property
    def shares(self) -> FloatArray:
        """The weights, which are 1 without weights.  # shape: (n,)"""
        return np.ones(self.X.shape[0]) if self.weights is None else self.weights


def choose_landmarks(
    kernel: Kernel,
    X: Any,
    rank: int | float,
    method: Any = "rpcholesky",
    *,
    weights: FloatArray | None = None,
    seed: int = 0,
    threads: int = 1,
) -> Landmarks:
    """Choose landmarks for the rows of X.

    Parameters
    ----------
    rank : int or float
        How many; or, between 0 and 1, the fraction of the trace of K that may stay unexplained: "rpcholesky" grows
        until that is reached, the other methods double their number, measured on at most 10 000 rows.
    method : str or array
        "rpcholesky" (randomly pivoted Cholesky: each by what the others leave unexplained), "uniform", "kmeans"
        (centres of clusters), "leverage" (ridge leverage scores, estimated from a uniform pilot); or row numbers, 1-D;
        or points, 2-D: then `rank` does not matter.
    weights : (n,) or None
        Rows count as often as their weight says; rows of weight 0 are never chosen.

    Of more than 30 000 rows, landmarks are chosen among some drawn once by `seed`: 15 for each, from 10 000 to 30 000;
    a fraction is judged by at most 10 000 of the others. How much landmarks explain of all rows can be measured
    afterwards.
    """
    # For a positive semidefinite kernel all other values are finite, too.
    with np.errstate(over="ignore", invalid="ignore"):
        if not all_finite(_diagonal(kernel, X, threads)):
            raise InputError(f"Kernel values must be finite; some are NaN or too large: {kernel.remedy}.")
    if not isinstance(method, str):
        return _given(X, method)
    choose = _chooser(kernel, method, X.shape[1])
    rows = np.arange(X.shape[0]) if weights is None else np.flatnonzero(weights)
    count, fraction = check_rank(rank, len(rows))
    some = rows_chosen_from(len(rows), count)
    sampled = some < len(rows)
    among = np.sort(np.random.default_rng([seed, 1]).choice(rows, some, replace=False)) if sampled else rows
    part = X if len(among) == X.shape[0] else X[among]
    task = _Task(
        kernel, part, count or len(among), None if weights is None else weights[among], seed, threads, fraction
    )
    with single_threaded():  # sums repeat to the bit, whatever BLAS would do by itself
        if not fraction or (method == "rpcholesky" and not sampled):
            found = choose(task)
        else:
            # Rows that could be chosen have more than their share of landmarks, which are all explained.
            others = np.setdiff1d(rows, among, assume_unique=True)
            judges = others if len(others) >= _ENOUGH_JUDGES else rows
            if len(judges) > _MEASURED_ON:
                judges = np.sort(np.random.default_rng([seed, 2]).choice(judges, _MEASURED_ON, replace=False))
            found = _judged(task, choose, X[judges], None if weights is None else weights[judges])
    return found if found.indices is None else replace(found, indices=among[found.indices])


def rows_chosen_from(n: int, count: int) -> int:
    """Return how many of n rows landmarks are chosen among; a count of 0 is one that nobody knows yet."""
    if n <= CHOSEN_FROM or not count:
        return min(n, CHOSEN_FROM)
    return min(n, max(count, min(CHOSEN_FROM, max(_FEWEST, _FOR_EACH * count))))


def check_rank(rank: object, n: int) -> tuple[int, float]:
    """Return (count, 0), or (0, fraction) where a fraction of the trace was given."""
    if isinstance(rank, Integral) and not isinstance(rank, bool):
        if int(rank) < 1:
            raise InputError("must be at least 1", param="rank", value=int(rank))
        if int(rank) > n:
            raise InputError(
                f"must be at most the number of rows with positive weight; got {rank} for {n} sample(s)", param="rank"
            )
        return int(rank), 0.0
    if isinstance(rank, Real) and not isinstance(rank, bool) and 0 < float(rank) < 1:
        return 0, float(rank)
    raise InputError(
        "must be a whole number from 1, or a fraction of the trace between 0 and 1", param="rank", value=rank
    )


def unexplained_fraction(
    features: NystroemMap, X: Any, weights: FloatArray | None = None, *, threads: int = 1
) -> float:
    """Return the share of the (weighted) trace of K that the map leaves out, over all rows, measured in float64."""
    n = X.shape[0]
    own, left = np.empty(n), np.empty(n)

    def work(rows: slice) -> None:
        part = X[rows].astype(np.float64, copy=False)
        own[rows], left[rows] = features.kernel.diagonal(part), features.unexplained(part, features(part))

    over_slices(work, n, piece_rows(n, features.rank, _SHORTEST_PIECE), threads)
    share = np.ones(n) if weights is None else weights
    total = float(share @ own)
    return float(share @ left) / total if total > 0 else 0.0


def _diagonal(kernel: Kernel, X: Any, threads: int) -> FloatArray:
    """Return k(x, x) of all rows.  # shape: (n,)"""
    return by_slices(lambda rows: kernel.diagonal(X[rows]), np.empty(X.shape[0]), _DIAGONAL_ROWS, threads)


def _chooser(kernel: Kernel, method: str, columns: int) -> Callable[[_Task], Landmarks]:
    if method not in _METHODS:
        close = difflib.get_close_matches(method.lower(), _METHODS, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        allowed = ", ".join(map(repr, _METHODS))
        raise InputError(f"landmarks must be one of {allowed}, row numbers or points; got {method!r}.{hint}")
    if method in ("rpcholesky", "leverage") and not kernel.psd_in(columns):
        raise InputError(
            f"landmarks={method!r} needs a kernel known to be positive semidefinite, and {kernel.name!r} is not: "
            "choose another kernel, or landmarks='uniform' or 'kmeans'."
        )
    return _METHODS[method]


def _by_pivots(task: _Task) -> Landmarks:
    """Randomly pivoted Cholesky; of a few draws the one that leaves least, where draws cost next to nothing."""
    cheap = not task.fraction and task.X.shape[0] * task.rank <= _CHEAP_DRAW
    how: dict[str, Any] = {"fraction": task.fraction, "weights": task.weights, "threads": task.threads}
    seeds = [task.seed + 7919 * number for number in range(_DRAWS if cheap else 1)]
    draws = (pivoted_cholesky(task.kernel, task.X, most=task.rank, seed=seed, **how) for seed in seeds)
    found = min(draws, key=lambda draw: draw.unexplained)
    count = len(found.indices)
    if not count:
        raise InputError("Some k(x, x) must be positive to choose landmarks by; all are 0: look at data and kernel.")
    if count < task.rank and not task.fraction:
        said = f"{count} landmarks explain all rows to rounding; no more are returned, though "
        warnings.warn(InputWarning((said, Setting("rank", task.rank))), stacklevel=4)
    return Landmarks(task.X[found.indices], found.indices, "rpcholesky")


def _uniform(task: _Task) -> Landmarks:
    indices = _sampled(np.random.default_rng(task.seed), task.shares, task.rank)
    return Landmarks(task.X[indices], indices, "uniform")


def _sampled(rng: np.random.Generator, likely: FloatArray, rank: int) -> NDArray[np.intp]:
    """Draw different rows, in proportion; where too few have a positive share, others fill up."""
    chance = likely + max(float(likely.max()) * 1e-12, np.finfo(np.float64).tiny)
    return np.sort(rng.choice(len(chance), rank, replace=False, p=chance / chance.sum()))


def _kmeans(task: _Task) -> Landmarks:
    """Centres of clusters; not rows of X, but what the rows lie around."""
    from sklearn.cluster import KMeans, MiniBatchKMeans  # slow to import, and seldom needed

    X, (n, d) = task.X, task.X.shape
    # An offset common to all rows would cost the distances their digits.
    origin = np.zeros(d) if sparse.issparse(X) else mean_of_rows(X)
    rows = X if sparse.issparse(X) else (X - origin).astype(X.dtype, copy=False)
    kind = MiniBatchKMeans if float(n) * task.rank * d > _MINI_BATCHES else KMeans
    clusters = kind(task.rank, n_init=1, max_iter=_PASSES, random_state=task.seed)
    # One thread: scikit-learn adds up what its threads found in the order in which they finish.
    with threadpool_limits(1, user_api="openmp"):
        centres = clusters.fit(rows, sample_weight=task.weights).cluster_centers_
    centres = (centres + origin).astype(X.dtype)
    # Means lie between the rows, and rounding must not bring them out: some kernels take no value below 0.
    edges = X.min(axis=0), X.max(axis=0)
    centres = np.clip(centres, *(edge.toarray() if sparse.issparse(edge) else edge for edge in edges))
    return Landmarks(sparse.csr_matrix(centres) if sparse.issparse(X) else centres, None, "kmeans")


def _leverage(task: _Task) -> Landmarks:
    """Rows in proportion to their ridge leverage scores, estimated in two rounds."""
    # A pilot by chance overrates the rows it has not seen; a second one, half by the scores of the first and half by
    # chance, has seen them.
    X, rank, w = task.X, task.rank, task.shares
    rng = np.random.default_rng(task.seed)
    chance = w / w.sum()
    size = min(X.shape[0], 2 * rank)
    for _ in range(2):
        pilot = _sampled(rng, chance, size)
        scores = _leverage_scores(task, pilot, np.minimum(size * chance[pilot], 1.0), rng)
        chance = 0.5 * scores / max(float(scores.sum()), 1e-300) + 0.5 * w / w.sum()
    indices = _sampled(rng, scores, rank)
    return Landmarks(X[indices], indices, "leverage")


def _leverage_scores(
    task: _Task, pilot: NDArray[np.intp], drawn: FloatArray, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Estimate the ridge leverage scores from rows S that were drawn with these probabilities.  # shape: (n,)

    l_i = w_i (k_ii - k_iS (K_SS + mu D)^-1 k_Si) / mu, at most 1, with D = diag(probability / weight). The ridge mu is
    the one for which the scores add up to the rank.
    """
    kernel, X, w = task.kernel, task.X, task.shares
    n, Z, root = X.shape[0], X[pilot], np.sqrt(drawn / w[pilot])
    points = Z.astype(np.float64)
    values, vectors = np.linalg.eigh(np.asarray(kernel.block(points, points)) / root / root[:, None])
    values, vectors = np.maximum(values, 0.0), vectors / root[:, None]
    memo: dict[Any, Any] = {}

    def squares(rows: Any) -> FloatArray:
        cross = CrossGram(kernel, rows, Z, dtype=np.dtype(np.float64), threads=task.threads, memo=memo)
        return np.asarray(np.square(cross @ vectors))

    def scores(some: Any, parts: FloatArray, ridge: float) -> FloatArray:
        left = kernel.diagonal(X[some]) - parts @ (1.0 / (values + ridge))
        return np.asarray(np.clip(w[some] * np.maximum(left, 0.0) / ridge, 0.0, 1.0))

    some = np.sort(rng.choice(n, min(n, _ROWS_AT_ONCE), replace=False))
    parts, wanted = squares(X[some]), task.rank * len(some) / n
    low, high = (np.log(max(float(w @ kernel.diagonal(X)), 1e-290) * factor) for factor in (1e-14, 1.0))
    for _ in range(40):  # the sum falls as the ridge grows
        middle = 0.5 * (low + high)
        low, high = (middle, high) if scores(some, parts, np.exp(middle)).sum() > wanted else (low, middle)
    found = np.empty(n)
    for part in slices(n, _ROWS_AT_ONCE):
        found[part] = scores(part, squares(X[part]), np.exp(high))
    return found


_METHODS: dict[str, Callable[[_Task], Landmarks]] = {
    "rpcholesky": _by_pivots,
    "uniform": _uniform,
    "kmeans": _kmeans,
    "leverage": _leverage,
}


def _judged(task: _Task, choose: Callable[[_Task], Landmarks], judges: Any, weights: FloatArray | None) -> Landmarks:
    """Choose ever more landmarks until no more than the fraction of the judges' trace is unexplained.

    Pivots go to an ever smaller fraction of the sample: they follow its residuals, so they explain it better than other
    rows. The same seed draws the same pivots first, so each round adds to the one before. Of other landmarks the number
    is doubled, until every row is one.
    """
    n, pivots, target = task.X.shape[0], choose is _by_pivots, task.fraction
    rank = task.rank if pivots else min(_FIRST_RANK, n)
    while True:
        found = choose(replace(task, rank=rank, fraction=target))
        if not pivots and rank == n:
            return found
        features = NystroemMap(task.kernel, found.points, judges.dtype)
        left = unexplained_fraction(features, judges, weights, threads=task.threads)
        if left <= task.fraction or (pivots and (found.points.shape[0] == rank or target < _ROUNDING)):
            return found
        if pivots:
            target *= 0.95 * task.fraction / left
        else:
            rank = min(2 * rank, n)


def _given(X: Any, landmarks: Any) -> Landmarks:
    check_mask(landmarks, "landmarks")
    try:
        array = landmarks.tocsr() if sparse.issparse(landmarks) else np.asarray(landmarks)
    except ValueError as error:  # rows of different lengths
        raise InputError("landmarks must be a method, row numbers (1-D) or points (2-D); got a ragged list.") from error
    if sparse.issparse(array) or (array.ndim == 2 and array.dtype.kind in "iuf"):
        if array.shape[1] != X.shape[1] or not array.shape[0]:
            raise InputError(
                f"landmarks as points must have the {X.shape[1]} columns of X, and some rows; got shape {array.shape}."
            )
        points = array.astype(X.dtype)  # they may be dense where X is sparse and the other way round
        if not np.isfinite(points.data if sparse.issparse(points) else points).all():
            raise InputError("landmarks as points must be finite; got NaN or infinity: remove such points.")
        return Landmarks(points, None, "given")
    if array.ndim != 1 or array.dtype.kind not in "iu" or not len(array):
        raise InputError(
            "landmarks must be a method, row numbers (1-D whole numbers) or points (2-D); "
            f"got {type(landmarks).__name__} of shape {array.shape} and type {array.dtype}."
        )
    n = X.shape[0]
    if array.min() < 0 or array.max() >= n:
        wrong = int(array[(array < 0) | (array >= n)][0])
        raise InputError(f"landmarks as row numbers must lie between 0 and {n - 1}; got {wrong}.")
    indices = array.astype(np.intp)
    return Landmarks(X[indices], indices, "given")
