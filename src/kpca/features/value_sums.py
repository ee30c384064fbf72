"""Sums of kernel values with landmarks, whitened once at the end: half the work of whitening every row.

f = L^-1 k, so that the scatter of the features is L^-1 S L^-T with S that of the kernel values k. But L^-1 enlarges
what rounding did to S, by up to the condition number of K(Z, Z) where whitened rows suffer its root only. How much that
was is measured on the sums themselves: for random directions w the same pass also sums (w.f)^2 row by row, which must
equal w' L^-1 S L^-T w (docs/mathematics.md, section 7).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca import blas
from kpca.features.nystroem_map import NystroemMap
from kpca.gram.workers import in_order

FloatArray = NDArray[Any]
# Directions in which the sums are checked: 16 cost some 4 % of the pass, and have 120 pairs to estimate a norm from.
_PROBES = 16
# Standard deviations by which the error of the trace may exceed its estimate.
_DEVIATIONS = 4.0
# Rows that the origin is taken from.
_FIRST_ROWS = 256


@dataclass(frozen=True)
class WhitenedSums:
    """Sums over some rows, each with its weight w, of the features that their kernel values stand for."""

    rows: int
    mass: float
    mean: FloatArray  # shape: (r,)
    matrix: FloatArray  # sum of w (f - mean)(f - mean)', shape: (r, r)
    trace: float  # sum of w k(x, x)
    explained: float  # sum of w |f|^2
    rounding: float  # what rounding may have done to the trace of the matrix, and to any of its eigenvalues


def value_sums(
    landmarks: NystroemMap,
    X: Any,
    weights: FloatArray | None,
    pieces: list[slice],
    *,
    limit: float,
    threads: int,
    monitor: Callable[[int], None] | None,
) -> WhitenedSums | None:
    """Return the sums, or None where rounding may have changed them by more than `limit` times the trace.

    The first piece tells whether it is worth going on.
    """
    origin = _origin(landmarks, X)
    directions = np.random.default_rng(0).standard_normal((landmarks.rank, _PROBES))
    probes = landmarks.coefficients(directions).astype(origin.dtype)  # k.probe = f.direction, shape: (r, s)
    sums = _Sums(landmarks.rank)

    longest = max(piece.stop - piece.start for piece in pieces)

    def make_worker() -> Callable[[slice], _Piece]:
        worker = _Worker(landmarks, origin, probes, longest)
        return lambda rows: worker.sums(X[rows], None if weights is None else weights[rows])

    def commit(rows: slice, piece: _Piece) -> None:
        sums.add(piece)
        if monitor is not None:
            monitor(rows.stop - rows.start)

    in_order(pieces[:1], make_worker, commit, 1)
    # Errors of pieces are at best independent: relative to the trace, of all of them together as much smaller.
    if not sums.rounding(probes) <= limit * sums.trace * math.sqrt(len(pieces)):
        return None
    in_order(pieces[1:], make_worker, commit, threads)
    rounding = sums.rounding(probes)
    return sums.whitened(landmarks, origin, rounding) if rounding <= limit * sums.trace else None


def _origin(landmarks: NystroemMap, X: Any) -> FloatArray:
    """Return the median of each landmark's first kernel values, from which all are taken.  # shape: (r,)

    Wide kernels lose no digits then, as with the mean, and the many rows that are far from a landmark of a narrow one
    add nothing; a mean would make them add the same small number again and again, which rounds the same way each time.
    """
    few = X[:_FIRST_ROWS]
    values = np.empty((few.shape[0], landmarks.rank), dtype=landmarks.precision(X.dtype))
    landmarks.fill_values(few, values)
    origin: FloatArray = np.median(values, axis=0).astype(values.dtype)
    return origin


@dataclass(frozen=True)
class _Piece:
    """Sums over some rows, of kernel values relative to the origin."""

    rows: int
    mass: float
    first: FloatArray  # shape: (r,)
    second: FloatArray  # shape: (r, r)
    trace: float
    probed: FloatArray  # the second moments of probes, row by row, shape: (s, s)


class _Worker:
    """Sums up pieces, with memory for the kernel values of one."""

    def __init__(self, landmarks: NystroemMap, origin: FloatArray, probes: FloatArray, longest: int) -> None:
        self._landmarks, self._origin, self._probes = landmarks, origin, probes
        self._scratch = np.empty((longest, landmarks.rank), dtype=origin.dtype)

    def sums(self, X: Any, weights: FloatArray | None) -> _Piece:
        K = self._scratch[: X.shape[0]]
        self._landmarks.fill_values(X, K)
        K -= self._origin
        w = np.ones(len(K)) if weights is None else weights
        if weights is not None:
            K *= np.sqrt(w)[:, None].astype(K.dtype)
        first = np.sqrt(w).astype(K.dtype) @ K
        seen = (K @ self._probes).astype(np.float64)
        trace = float(w @ self._landmarks.kernel.diagonal(X))
        return _Piece(int(np.count_nonzero(w)), float(w.sum()), first, K.T @ K, trace, seen.T @ seen)


class _Sums:
    """The sums of all pieces, in float64."""

    def __init__(self, rank: int) -> None:
        self.rows, self.mass, self.trace = 0, 0.0, 0.0
        self._first, self._second = np.zeros(rank), np.zeros((rank, rank))
        self._probed = np.zeros((_PROBES, _PROBES))

    def add(self, piece: _Piece) -> None:
        self.rows += piece.rows
        self.mass += piece.mass
        self.trace += piece.trace
        self._first += piece.first
        self._second += piece.second
        self._probed += piece.probed

    def rounding(self, probes: FloatArray) -> float:
        """Return a bound on what rounding of the sums does to the features' scatter: to its trace and its norm.

        E is the error of the whitened sums, and w'Ev is seen for s random directions. The mean of w'Ew is tr E, up to
        sqrt(2/s) |E|_F for one standard deviation; the mean square of w'Ev is |E|_F^2, which is no less than |E|^2.
        """
        A = probes.astype(np.float64)
        with blas.single_threaded():
            gaps = A.T @ (self._second @ A) - self._probed
        size = math.sqrt(float(np.mean(np.square(gaps[np.triu_indices(_PROBES, 1)]))))
        return abs(float(np.trace(gaps))) / _PROBES + _DEVIATIONS * math.sqrt(2.0 / _PROBES) * size

    def whitened(self, landmarks: NystroemMap, origin: FloatArray, rounding: float) -> WhitenedSums:
        """Return the sums of the features; this uses up the sums of the kernel values."""
        gap = self._first / self.mass
        self._second -= np.multiply.outer(gap * self.mass, gap)
        mean = landmarks.whitened(origin + gap)
        matrix = landmarks.whitened_twice(self._second)
        explained = float(np.trace(matrix)) + self.mass * float(mean @ mean)
        return WhitenedSums(self.rows, self.mass, mean, matrix, self.trace, explained, rounding)
