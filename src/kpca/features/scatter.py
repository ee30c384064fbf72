"""What one pass over chunks of rows keeps of their features: mass, mean and scatter, in float64.

With landmarks, kernel values are summed up and whitened once at the end: half the work of whitening every row.
f = L^-1 k, so that the scatter of the features is L^-1 S L^-T with S that of the kernel values k. But L^-1 enlarges
what rounding did to S, by up to the condition number of K(Z, Z) where whitened rows suffer its root only. How much that
was is measured on the sums themselves: for random directions w the same pass also sums (w.f)^2 row by row, which must
equal w' L^-1 S L^-T w (docs/mathematics.md, section 7).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kpca._base.linalg import FloatArray
from kpca._base.threads import in_order, single_threaded
from kpca.features.base import FeatureMap
from kpca.features.nystroem_map import NystroemMap
from kpca.gram.tiles import slices

_EPS = float(np.finfo(np.float64).eps)
Monitor = Callable[[int], None]  # is told the number of rows of each piece that is done
# Directions in which the sums are checked: 16 cost some 4 % of the pass, and have 120 pairs to estimate a norm from.
_PROBES = 16
# Standard deviations by which the error of the trace may exceed its estimate.
_DEVIATIONS = 4.0
# Rows that the origin is taken from.
_FIRST_ROWS = 256
# Features of one piece: so many that adding up r x r sums costs little beside making them.
PIECE_NUMBERS = 2_000_000
SHORTEST_PIECE = 256
# A thread adds up this many pieces by itself, where there are so many runs of them: runs are added up one at a time.
_RUN, _FEWEST_RUNS, _FEWEST_PIECES = 4, 64, 16
# From this many rows per landmark on, kernel values are summed and then whitened; of fewer, whitening r x r sums in
# float64 costs more than whitening the rows.
WHITENED_LATE = 8
# Features per component from which only the upper end of their spectrum matters.
FEW = 8


@dataclass(frozen=True)
class Scatter:
    """Sums over the rows seen so far, each with its weight w: enough for PCA of their features f."""

    rows: int  # rows of positive weight
    mass: float  # sum of w
    mean: FloatArray  # sum of w f / mass, shape: (r,)
    matrix: FloatArray  # sum of w (f - mean)(f - mean)', shape: (r, r)
    trace: float  # sum of w k(x, x)
    unexplained: float  # sum of w (k(x, x) - |f|^2), where the features explain a part of the kernel; else 0
    rounding: float = 0.0  # what rounding of the sums may have added to the trace, or to an eigenvalue
    of_values: bool = False  # True if kernel values were summed up and whitened once

    @staticmethod
    def empty(rank: int) -> Scatter:
        return Scatter(0, 0.0, np.zeros(rank), np.zeros((rank, rank)), 0.0, 0.0)

    def merged(self, other: Scatter) -> Scatter:
        mass = self.mass + other.mass
        if mass == 0.0 or other.mass == 0.0:
            return self
        if self.mass == 0.0:
            return other
        # C = C1 + C2 + m1 m2 / (m1 + m2) (mean1 - mean2)(mean1 - mean2)'  (docs/mathematics.md, section 7)
        gap = other.mean - self.mean
        matrix = self.matrix + other.matrix
        matrix += np.multiply.outer(gap * (self.mass * other.mass / mass), gap)
        mean = self.mean + gap * (other.mass / mass)
        trace, unexplained, rounding = (
            getattr(self, name) + getattr(other, name) for name in ("trace", "unexplained", "rounding")
        )
        # either mean is rounded, however far from 0 it is: so is the gap
        off = 2.0 * _EPS * float(np.linalg.norm(self.mean) + np.linalg.norm(other.mean))
        length = float(np.linalg.norm(gap))
        rounding += self.mass * other.mass / mass * (2.0 * length + off) * off
        rounding += 4.0 * _EPS * self.mass * other.mass / mass * length**2 + 2.0 * _EPS * float(np.trace(matrix))
        return Scatter(self.rows + other.rows, mass, mean, matrix, trace, unexplained, rounding)

    def faded(self, factor: float) -> Scatter:
        """Return the scatter with all weights multiplied by a factor: how a stream forgets."""
        sums = ("mass", "matrix", "trace", "unexplained", "rounding")
        return replace(self, **{name: getattr(self, name) * factor for name in sums})

    def operator(self, *, centred: bool) -> FloatArray:
        """Return the r x r matrix whose eigenvalues are those of kernel PCA with these features, as a new array."""
        if centred:
            return self.matrix.copy()
        return self.matrix + self.mass * np.multiply.outer(self.mean, self.mean)

    def total_variance(self, *, centred: bool) -> float:
        """Return the most the sum of all eigenvalues of the exact kernel matrix can be.

        tr B = tr K - mass |mean of phi|^2, and the features' part of that mean is no longer than the whole.
        """
        explained = float(np.trace(self.matrix)) + (0.0 if centred else self.mass * float(self.mean @ self.mean))
        return explained + self.unexplained


def scatter_of(
    feature_map: FeatureMap,
    X: Any,
    weights: FloatArray | None = None,
    *,
    threads: int = 1,
    monitor: Monitor | None = None,
    leading: bool = False,
) -> Scatter:
    """Return the scatter of the features of some rows, which are made a piece at a time and not kept.

    `monitor` is called with the number of rows of each piece that is done, and may raise. `leading` promises that only
    the largest eigenvalues of the scatter will be looked at: sums of float32 kernel values are enough for these, where
    they would not do for the small ones.
    """
    n, rank = X.shape[0], feature_map.rank
    if n == 0 or (weights is not None and not weights.any()):
        return Scatter.empty(rank)
    seen = 0  # rows that were reported, though they have to be gone through again

    def report(rows: int, *, again: bool = False) -> None:
        nonlocal seen
        known = min(rows, seen) if again else 0
        seen += -known if again else rows
        if monitor is not None:
            monitor(rows - known)

    if isinstance(feature_map, NystroemMap) and n >= WHITENED_LATE * rank:
        limit = _allowed(feature_map, X.dtype, leading)
        if limit > 0.0:
            late = _value_sums(feature_map, X, weights, limit=limit, threads=threads, monitor=report)
            if late is not None:
                return late
    # Relative to a point near the mean, so that features that are all nearly alike lose no digits.
    origin = feature_map(X[:SHORTEST_PIECE]).mean(axis=0)
    sums = _Sums.empty(rank)

    def work(rows: slice) -> _Sums:
        part = X[rows]
        F, diagonal = feature_map(part), feature_map.kernel.diagonal(part)
        w = None if weights is None else weights[rows]
        left = float((np.ones(len(F)) if w is None else w) @ feature_map.unexplained(part, F))
        return replace(_summed(F, w, diagonal, origin), unexplained=left)

    # of few rows every thread gets a piece, if that is not so short that its sums cost more than its features
    runs = _runs(n, min(PIECE_NUMBERS // max(rank, 1), max(4 * rank, n // _FEWEST_PIECES)))
    _add_up(sums, runs, lambda: work, threads, lambda rows: report(rows, again=True))
    rounding = _of_sums(runs, origin.dtype) * float(np.trace(sums.second))
    gap, second = sums.centred()
    mean = origin.astype(np.float64) + gap
    return Scatter(sums.rows, sums.mass, mean, second, sums.trace, sums.unexplained, rounding)


def _of_sums(runs: list[list[slice]], dtype: np.dtype[Any]) -> float:
    """Return what rounding may do to sums of squares over the rows, as a share of them (docs/mathematics.md, 4).

    A piece is summed up in the precision of its numbers, and all pieces in float64.
    """
    longest, count = runs[0][0].stop, sum(len(pieces) for pieces in runs)
    of_piece, of_all = 4.0 + 2.0 * math.sqrt(longest), 4.0 + 2.0 * math.sqrt(count)
    return of_piece * float(np.finfo(dtype).eps) + of_all * _EPS


def _allowed(feature_map: NystroemMap, dtype: Any, leading: bool) -> float:
    """Return what rounding of sums of kernel values may do, as a share of the trace: no more than that of features."""
    if leading:
        return 2.0 * feature_map.error(dtype)
    # The small eigenvalues are right in float64 only, of float32 rows as well.
    return feature_map.error(np.float64) if feature_map.precision(dtype) == np.float64 else 0.0


@dataclass
class _Sums:
    """Sums over some rows, each with its weight w, of numbers f (features or kernel values) relative to an origin."""

    rows: int
    mass: float
    first: FloatArray  # sum of w f, shape: (r,)
    second: FloatArray  # sum of w f f', shape: (r, r)
    trace: float
    unexplained: float = 0.0
    probed: FloatArray | float = 0.0  # of kernel values: the second moments of probes, row by row, shape: (s, s)

    @staticmethod
    def empty(rank: int) -> _Sums:
        return _Sums(0, 0.0, np.zeros(rank), np.zeros((rank, rank)), 0.0, 0.0, np.zeros((_PROBES, _PROBES)))

    def add(self, piece: _Sums) -> None:
        for name, value in vars(piece).items():
            total = getattr(self, name)
            total += value  # arrays in place
            setattr(self, name, total)

    def centred(self) -> tuple[FloatArray, FloatArray]:
        """Return the mean relative to the origin and the sums around it, for which the sums are used up."""
        gap = self.first / self.mass
        self.second -= np.multiply.outer(gap * self.mass, gap)
        return gap, self.second


def _runs(n: int, step: int) -> list[list[slice]]:
    """Return n rows in pieces of `step`, those of a run together; a matter of these numbers only."""
    pieces = slices(n, max(SHORTEST_PIECE, step))
    length = max(1, min(_RUN, len(pieces) // _FEWEST_RUNS))
    return [pieces[start : start + length] for start in range(0, len(pieces), length)]


def _add_up(
    sums: _Sums,
    runs: list[list[slice]],
    make_worker: Callable[[], Callable[[slice], _Sums]],
    threads: int,
    done: Monitor,
) -> None:
    """Add what workers find for the rows of each piece: within a run first, then run by run, in their order."""

    def make_runner() -> Callable[[list[slice]], _Sums]:
        worker = make_worker()

        def run(pieces: list[slice]) -> _Sums:
            if len(pieces) == 1:
                return worker(pieces[0])
            found = _Sums.empty(len(sums.first))
            for rows in pieces:
                found.add(worker(rows))
            return found

        return run

    def commit(pieces: list[slice], found: _Sums) -> None:
        sums.add(found)
        done(pieces[-1].stop - pieces[0].start)

    in_order(runs, make_runner, commit, threads)


def _summed(F: FloatArray, weights: FloatArray | None, diagonal: FloatArray, origin: FloatArray) -> _Sums:
    """Return the sums over the rows of F, which is overwritten by sqrt(w) (F - origin)."""
    w = np.ones(len(F)) if weights is None else weights
    F -= origin
    if weights is not None:
        F *= np.sqrt(w)[:, None].astype(F.dtype)
    first = np.sqrt(w).astype(F.dtype) @ F
    return _Sums(int(np.count_nonzero(w)), float(w.sum()), first, F.T @ F, float(w @ diagonal))


class _TooCoarseError(Exception):
    """Sums of kernel values have lost too many digits to be whitened."""


def _value_sums(
    landmarks: NystroemMap, X: Any, weights: FloatArray | None, *, limit: float, threads: int, monitor: Monitor
) -> Scatter | None:
    """Return the scatter, or None where rounding may have changed it by more than `limit` times the trace."""
    # as many bytes in a piece, also where float32 rows need float64 kernel values
    numbers = PIECE_NUMBERS * X.dtype.itemsize // landmarks.precision(X.dtype).itemsize
    runs = _runs(X.shape[0], numbers // landmarks.rank)
    # Relative to the median of each landmark's first kernel values: wide kernels lose no digits then, as with the mean,
    # and the many rows that are far from a landmark of a narrow one add nothing; a mean would make them add the same
    # small number again and again, which rounds the same way each time.
    few = X[:_FIRST_ROWS]
    values = np.empty((few.shape[0], landmarks.rank), dtype=landmarks.precision(X.dtype))
    landmarks.fill_values(few, values)
    origin = np.asarray(np.median(values, axis=0).astype(values.dtype))  # shape: (r,)
    directions = np.random.default_rng(0).standard_normal((landmarks.rank, _PROBES))
    probes = landmarks.coefficients(directions).astype(origin.dtype)  # k.probe = f.direction, shape: (r, s)
    sums = _Sums.empty(landmarks.rank)
    longest = runs[0][0].stop

    def make_worker() -> Callable[[slice], _Sums]:
        scratch = np.empty((longest, landmarks.rank), dtype=origin.dtype)

        def work(rows: slice) -> _Sums:
            part, K = X[rows], scratch[: rows.stop - rows.start]
            landmarks.fill_values(part, K)
            found = _summed(K, None if weights is None else weights[rows], landmarks.kernel.diagonal(part), origin)
            seen = (K @ probes).astype(np.float64)
            return replace(found, probed=seen.T @ seen)

        return work

    first = True

    def done(rows: int) -> None:
        nonlocal first
        monitor(rows)
        # The first run tells whether it is worth going on. Errors of runs are at best independent: relative to the
        # trace, of all of them together as much smaller.
        if first and not _rounding(sums, probes) <= limit * sums.trace * math.sqrt(len(runs)):
            raise _TooCoarseError
        first = False

    try:
        _add_up(sums, runs, make_worker, threads, done)
    except _TooCoarseError:
        return None
    rounding = _rounding(sums, probes)
    if not rounding <= limit * sums.trace:
        return None
    gap, second = sums.centred()
    mean = landmarks.whitened(origin + gap)
    matrix = landmarks.whitened_twice(second)
    explained = float(np.trace(matrix)) + sums.mass * float(mean @ mean)
    left = max(sums.trace - explained, 0.0)
    return Scatter(sums.rows, sums.mass, mean, matrix, sums.trace, left, rounding, of_values=True)


def _rounding(sums: _Sums, probes: FloatArray) -> float:
    """Return a bound on what rounding of the sums does to the features' scatter: to its trace and its norm."""
    # E is the error of the whitened sums, and w'Ev is seen for s random directions. The mean of w'Ew is tr E, up to
    # sqrt(2/s) |E|_F for one standard deviation; the mean square of w'Ev is |E|_F^2, which is no less than |E|^2.
    A = probes.astype(np.float64)
    with single_threaded():
        gaps = A.T @ (sums.second @ A) - sums.probed
    size = math.sqrt(float(np.mean(np.square(gaps[np.triu_indices(_PROBES, 1)]))))
    return abs(float(np.trace(gaps))) / _PROBES + _DEVIATIONS * math.sqrt(2.0 / _PROBES) * size
