"""Many small minimisations at once: limited-memory BFGS, each row with its own history, steps and end.

The rows have nothing to do with one another but that a function gives values and gradients of many rows for little more
than those of one. Solved as one problem of all rows they would share a step length and a curvature that suits none.
Bounds are kept by projection; entries held by a bound take no part in the quasi-Newton step (Bertsekas 1982).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kpca._base.linalg import FloatArray
from kpca.preimage.target import Box, Found

# (rows (a, d), which of all rows they are (a,)) -> values (a,), gradients (a, d)
Function = Callable[[FloatArray, NDArray[np.intp]], tuple[FloatArray, FloatArray]]
Flags = NDArray[np.bool_]

_MEMORY = 10  # pairs of steps and changes of the gradient that are remembered
_NUMBERS_REMEMBERED = 2**21
_LONGEST = 10.0  # no step is longer, in units of the caller
_TRIALS = 25
_SHORTEST = 1e-3  # of tol: no step is shorter
_DECREASE = 1e-4  # of what the slope promises (Armijo)
_ROUNDING = 1e-11  # of a value: differences below that are decided by the slopes (Hager and Zhang 2005)
_CURVED = 1e-10  # a pair whose curvature is less than this share of its largest possible one is not remembered
_TINY = 1e-290  # the square of a change of the gradient that is hardly a number any more


@dataclass(frozen=True)
class Point:
    """Rows, and what the function says there."""

    rows: FloatArray  # shape: (m, d)
    values: FloatArray  # shape: (m,)
    gradients: FloatArray  # shape: (m, d)

    @property
    def finite(self) -> Flags:
        return np.asarray(np.isfinite(self.values) & np.isfinite(self.gradients).all(axis=1))


def rows_per_descent(d: int) -> int:
    """Return how many rows to work on at a time, so that what they remember stays small; a matter of d only."""
    return max(16, _NUMBERS_REMEMBERED // (2 * _MEMORY * max(d, 1)))


class _Descending:
    """The rows still under way, each with its memory."""

    def __init__(self, function: Function, start: Point, bounds: Box | None, tol: float) -> None:
        self._function, self._bounds, self._tol = function, bounds, tol
        a, d = start.rows.shape
        self.numbers = np.arange(a)
        self.Y, self.F, self.G = start.rows, start.values, start.gradients
        self.S, self.C = np.zeros((a, _MEMORY, d)), np.zeros((a, _MEMORY, d))  # steps, changes of the gradient
        self.known = np.zeros((a, _MEMORY), dtype=bool)
        self.scale = np.zeros(a)  # s.c / c.c of the newest pair; 0 where nothing is remembered

    def keep(self, rows: Flags) -> None:
        if not rows.all():
            for name, value in vars(self).items():
                if isinstance(value, np.ndarray):
                    setattr(self, name, value[rows])

    def forget(self, rows: Flags) -> None:
        self.known[rows] = False
        self.scale[rows] = 0.0

    def move(self, rows: Flags, Y: FloatArray, F: FloatArray, G: FloatArray, slot: int) -> None:
        """Go to Y and remember the step; where the function is not convex along it, all steps are forgotten."""
        step, change = Y - self.Y, G - self.G
        along, square = _dots(step, change), _dots(change, change)
        convex = rows & (along > _CURVED * np.sqrt(_dots(step, step) * square)) & (square > _TINY)
        self.S[:, slot], self.C[:, slot], self.known[:, slot] = step, change, convex
        self.forget(rows & ~convex)
        self.scale[convex] = along[convex] / square[convex]
        self.Y, self.F, self.G = Y, F, G

    def direction(self, newest: int) -> FloatArray:
        """Return -H G by the two loops of L-BFGS; where nothing is remembered, a step of length 1 down the gradient."""
        G, S, C = self.G, self.S, self.C
        if self._bounds is not None:
            low, high = self._bounds
            free = ~((low >= self.Y) & (G > 0) | (high <= self.Y) & (G < 0))
            G, S, C = G * free, S * free[:, None], C * free[:, None]
        along, squares = np.einsum("ahd,ahd->ah", S, C), np.einsum("ahd,ahd->ah", C, C)
        useful = self.known & (along > _CURVED * self.scale[:, None] * squares)
        weights = np.where(useful, 1.0 / np.where(useful, along, 1.0), 0.0)
        D, shares = -G, np.zeros_like(weights)
        order = [(newest - back) % _MEMORY for back in range(_MEMORY)]
        for slot in order:
            shares[:, slot] = weights[:, slot] * _dots(S[:, slot], D)
            D -= shares[:, slot, None] * C[:, slot]
        D *= self.scale[:, None]
        for slot in reversed(order):
            D += (shares[:, slot] - weights[:, slot] * _dots(C[:, slot], D))[:, None] * S[:, slot]
        length = np.sqrt(_dots(D, D))
        D *= (_LONGEST / np.maximum(length, _LONGEST))[:, None]
        lost = ~(_dots(D, G) < 0)  # NaN included
        self.forget(lost)
        # -G / |G|, and 0 where G is 0; divided by the largest entry first, because squares may vanish
        peak = np.abs(G[lost]).max(axis=1, initial=0.0)[:, None]
        downhill = -G[lost] / np.where(peak > 0, peak, 1.0)
        D[lost] = downhill / np.maximum(np.sqrt(_dots(downhill, downhill)), 1.0)[:, None]
        return D

    def search(self, D: FloatArray, pending: Flags, slot: int) -> Flags:
        """Move the pending rows along D, by shorter steps until it is downhill; return which have moved."""
        Y, F, G = self.Y.copy(), self.F.copy(), self.G.copy()
        steps, longest = np.ones(len(D)), np.abs(D).max(axis=1, initial=0.0)
        moved = np.zeros(len(D), dtype=bool)
        for _ in range(_TRIALS):
            which = np.flatnonzero(pending)
            if not len(which):
                break
            trial = self.Y[which] + steps[which, None] * D[which]
            if self._bounds is not None:
                trial = trial.clip(*self._bounds)
            values, gradients = self._function(trial, self.numbers[which])
            moves, before = trial - self.Y[which], self.F[which]
            promise, kept = _dots(self.G[which], moves), _dots(gradients, moves)
            rise = values - before
            lower = rise <= _DECREASE * promise
            level = (rise <= _ROUNDING * np.abs(before)) & (np.abs(kept) <= -0.9 * promise)
            good = (lower | level) & (promise < 0) & np.isfinite(values) & np.isfinite(gradients).all(axis=1)
            accepted = which[good]
            Y[accepted], F[accepted], G[accepted] = trial[good], values[good], gradients[good]
            moved[accepted] = True
            # the minimum of the parabola through what is known, within reason; also where there is none
            excess = rise - promise
            shorter = np.where(excess > 0, -0.5 * promise / np.where(excess > 0, excess, 1.0), 0.1)
            steps[which] *= shorter.clip(0.1, 0.5)
            pending = pending & ~moved & (steps * longest > _SHORTEST * self._tol)
        self.move(moved, Y, F, G, slot)
        return moved


def descend(function: Function, start: Point, bounds: Box | None, *, max_iter: int, tol: float) -> Found:
    """Return rows where the function has a local minimum; lengths are in units of about the spread of the data.

    The start lies within the bounds, and so do all rows that the function is asked about.

    A row has converged if its next step would be shorter than tol in every entry, or if nothing lower is found down to
    steps as short as that. NaN and infinity count as too high; a row that starts there stays there.
    """
    m = len(start.rows)
    rows = _Descending(function, start, bounds, tol)
    found = Found(start.rows.copy(), np.zeros(m, dtype=np.intp), np.zeros(m, dtype=bool))
    rows.keep(start.finite)
    for iteration in range(max_iter + 1):
        slot = iteration % _MEMORY
        D = rows.direction(newest=slot - 1)
        done = np.abs(D).max(axis=1, initial=0.0) <= tol
        if iteration < max_iter and not done.all():
            found.iterations[rows.numbers] += ~done
            moved = done | rows.search(D, ~done, slot)
            # nothing lower along a quasi-Newton step: once more down the gradient; nothing lower there: the end
            done |= ~moved & (rows.scale == 0)
            rows.forget(~moved)
        found.rows[rows.numbers], found.converged[rows.numbers] = rows.Y, done
        rows.keep(~done)
        if not len(rows.numbers):
            break
    return found


def _dots(A: FloatArray, B: FloatArray) -> FloatArray:
    return np.asarray(np.einsum("ij,ij->i", A, B))
