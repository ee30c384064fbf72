"""What one pass over chunks of rows keeps of their features: mass, mean and scatter, in float64.

Fits of arrays, files larger than memory and streams are this one pass; two of them merge into that of all rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca.features.base import FeatureMap
from kpca.features.nystroem_map import NystroemMap
from kpca.features.value_sums import value_sums
from kpca.gram.workers import in_order

FloatArray = NDArray[Any]
# Features of one piece: so many that adding up r x r sums costs little beside making them.
PIECE_NUMBERS = 2_000_000
SHORTEST_PIECE = 256
# From so many rows per landmark on, kernel values are summed and then whitened; of fewer, whitening r x r sums in
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
    rounding: float = 0.0  # what rounding of the sums may have added to `unexplained` or to an eigenvalue, if counted

    @staticmethod
    def empty(rank: int) -> Scatter:
        """Return the scatter of no rows."""
        return Scatter(0, 0.0, np.zeros(rank), np.zeros((rank, rank)), 0.0, 0.0)

    def merged(self, other: Scatter) -> Scatter:
        """Return the scatter of the rows of both."""
        mass = self.mass + other.mass
        if mass == 0.0 or other.mass == 0.0:
            return self
        if self.mass == 0.0:
            return other
        # C = C1 + C2 + m1 m2 / (m1 + m2) (mean1 - mean2)(mean1 - mean2)'  (docs/mathematics.md, section 7)
        gap = other.mean - self.mean
        matrix = self.matrix + other.matrix
        matrix += np.multiply.outer(gap * (self.mass * other.mass / mass), gap)
        return Scatter(
            self.rows + other.rows,
            mass,
            self.mean + gap * (other.mass / mass),
            matrix,
            self.trace + other.trace,
            self.unexplained + other.unexplained,
            self.rounding + other.rounding,
        )

    def faded(self, factor: float) -> Scatter:
        """Return the scatter with all weights multiplied by a factor: how a stream forgets."""
        return replace(
            self,
            mass=self.mass * factor,
            matrix=self.matrix * factor,
            trace=self.trace * factor,
            unexplained=self.unexplained * factor,
            rounding=self.rounding * factor,
        )

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
    monitor: Callable[[int], None] | None = None,
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
    pieces = _pieces(n, PIECE_NUMBERS // max(rank, 1))
    limit = _allowed(feature_map, X.dtype, leading) if n >= WHITENED_LATE * rank else 0.0
    if isinstance(feature_map, NystroemMap) and limit > 0.0:
        counter = _Counter(monitor)
        # as many bytes in a piece, also where float32 rows need float64 kernel values
        numbers = PIECE_NUMBERS * X.dtype.itemsize // feature_map.precision(X.dtype).itemsize
        cuts = _pieces(n, numbers // rank)
        late = value_sums(feature_map, X, weights, cuts, limit=limit, threads=threads, monitor=counter.first)
        if late is not None:
            left = max(late.trace - late.explained, 0.0)
            return Scatter(late.rows, late.mass, late.mean, late.matrix, late.trace, left, late.rounding)
        monitor = counter.again
    # Relative to a point near the mean, so that features that are all nearly alike lose no digits.
    origin = feature_map(X[:SHORTEST_PIECE]).mean(axis=0)
    sums = _Sums(rank)

    def make_worker() -> Callable[[slice], _Piece]:
        return lambda rows: _piece(feature_map, X[rows], None if weights is None else weights[rows], origin)

    def commit(rows: slice, piece: _Piece) -> None:
        sums.add(piece)
        if monitor is not None:
            monitor(rows.stop - rows.start)

    in_order(pieces, make_worker, commit, threads)
    return sums.scatter(origin.astype(np.float64))


def _pieces(n: int, length: int) -> list[slice]:
    step = max(SHORTEST_PIECE, length)
    return [slice(start, min(start + step, n)) for start in range(0, n, step)]


def _allowed(feature_map: FeatureMap, dtype: Any, leading: bool) -> float:
    """Return what rounding of sums of kernel values may do, as a share of the trace: no more than that of features."""
    if not isinstance(feature_map, NystroemMap):
        return 0.0
    if leading:
        return 2.0 * feature_map.error(dtype)
    # The small eigenvalues are right in float64 only, of float32 rows as well.
    return feature_map.error(np.float64) if feature_map.precision(dtype) == np.float64 else 0.0


class _Counter:
    """Reports rows once, though they may have to be gone through again; each time the monitor may stop the pass."""

    def __init__(self, monitor: Callable[[int], None] | None) -> None:
        self._monitor, self._ahead = monitor, 0

    def first(self, rows: int) -> None:
        self._ahead += rows
        if self._monitor is not None:
            self._monitor(rows)

    def again(self, rows: int) -> None:
        known = min(rows, self._ahead)
        self._ahead -= known
        if self._monitor is not None:
            self._monitor(rows - known)


@dataclass(frozen=True)
class _Piece:
    """Sums over some rows, of features relative to an origin."""

    rows: int
    mass: float
    first: FloatArray  # shape: (r,)
    second: FloatArray  # shape: (r, r)
    trace: float
    unexplained: float


def _piece(feature_map: FeatureMap, X: Any, weights: FloatArray | None, origin: FloatArray) -> _Piece:
    F = feature_map(X)
    diagonal = feature_map.kernel.diagonal(X)
    w = np.ones(len(F)) if weights is None else weights
    left = float(w @ feature_map.unexplained(X, F))
    F -= origin
    if weights is not None:
        F *= np.sqrt(w)[:, None].astype(F.dtype)
    first = np.sqrt(w).astype(F.dtype) @ F
    return _Piece(int(np.count_nonzero(w)), float(w.sum()), first, F.T @ F, float(w @ diagonal), left)


class _Sums:
    """The sums of all pieces, in float64."""

    def __init__(self, rank: int) -> None:
        self._rows, self._mass, self._trace, self._unexplained = 0, 0.0, 0.0, 0.0
        self._first, self._second = np.zeros(rank), np.zeros((rank, rank))

    def add(self, piece: _Piece) -> None:
        self._rows += piece.rows
        self._mass += piece.mass
        self._trace += piece.trace
        self._unexplained += piece.unexplained
        self._first += piece.first
        self._second += piece.second

    def scatter(self, origin: FloatArray) -> Scatter:
        gap = self._first / self._mass
        self._second -= np.multiply.outer(gap * self._mass, gap)
        return Scatter(self._rows, self._mass, origin + gap, self._second, self._trace, self._unexplained)
