"""Many climbs at once: the fixed point of a weighted mean, each row with its own damping, memory and end."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca._base.linalg import FloatArray, mean_of_rows
from kpca.kernels import RBF, RadialKernel

Flags = NDArray[np.bool_]
Known = tuple[FloatArray, FloatArray]  # kernel values and slopes between points and base rows, shapes: (m, n), (m, n)
SINGLE, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)
# A sum of weights below this share of the sum of their sizes is no denominator: steps would be arbitrarily long.
_DENOMINATOR = 0.05
# Mean squared distances from the mean, in units of the bandwidth, from which on kernel values are not all near 1.
_NARROW = 0.05
# A row whose last step was taken whole takes an accelerated one next, at most this many times as long.
_ACCELERATED, _FARTHEST = 2.0, 4.0
# Steps are halved this many times before a row is left where it is.
_HALVINGS = 10
# Differences of sums of kernel values below this many roundings say nothing.
_ROUNDINGS = 32.0


@dataclass(frozen=True)
class Base:
    """The base rows in coordinates in which the kernel has no scale left, relative to their mean.

    Distances are found here, not by an evaluator of `kpca.gram`: points move in these coordinates and need no
    preparation, the rows serve the weighted means as well, and models that were saved hold them as they are.
    """

    kernel: RadialKernel
    mean: FloatArray  # float64, shape: (d,)
    scale: FloatArray  # of each feature, shape: (d,)
    rows: FloatArray  # (sqrt2 b, 1, -|b|^2), shape: (n, d + 2)
    radius: float  # the largest |b|^2
    spread: float  # root of the total variance

    @staticmethod
    def of(kernel: RadialKernel, rows: FloatArray) -> Base:
        mean = mean_of_rows(rows).astype(np.float64)
        n, d = rows.shape
        scale = np.asarray(kernel.prepare(np.ones((1, d)))[0], dtype=np.float64)
        augmented = np.empty((n, d + 2), dtype=rows.dtype)
        augmented[:, :d] = (rows - mean) * (scale * np.sqrt(2.0))
        norms = 0.5 * np.einsum("ij,ij->i", augmented[:, :d], augmented[:, :d], dtype=np.float64)
        augmented[:, d], augmented[:, d + 1] = 1.0, -norms
        return Base(kernel, mean, scale, augmented, float(norms.max(initial=0.0)), float(np.sqrt(norms.mean())))

    @cached_property
    def single(self) -> FloatArray:
        return self.rows.astype(SINGLE, copy=False)

    @cached_property
    def double(self) -> FloatArray:
        return self.rows.astype(DOUBLE, copy=False)

    def inward(self, rows: FloatArray) -> FloatArray:
        """Return rows of data as sqrt2 times the scaled, centred rows.  # shape: (m, d)"""
        return np.asarray((rows - self.mean) * (self.scale * np.sqrt(2.0)), dtype=np.float64)

    def outward(self, points: FloatArray) -> FloatArray:
        return np.asarray(points / (self.scale * np.sqrt(2.0)) + self.mean)

    def kernel_at(
        self, points: FloatArray, dtype: np.dtype[Any], *, shifted: bool = False
    ) -> tuple[FloatArray, FloatArray, FloatArray | None]:
        """Return f and f' between points, in these coordinates, and the base rows.  # shapes: (m, n), (m, n)

        And, if `shifted`, f - 1, which is right to the last digits also where f is near 1.
        """
        m, d = points.shape
        L = np.empty((m, d + 2), dtype)
        L[:, :d] = points
        L[:, d] = -0.5 * np.einsum("ij,ij->i", L[:, :d], L[:, :d], dtype=np.float64)
        L[:, d + 1] = 1.0
        t = np.asarray(L @ (self.double if dtype == DOUBLE else self.single).T)  # -|z - b|^2
        if shifted or not self.kernel.smooth_past_zero:
            np.minimum(t, 0.0, out=t)
        slopes, less, one = None, None, dtype.type(1.0)
        if not isinstance(self.kernel, RBF):  # the Gaussian is its own derivative
            slopes = self.kernel.derivative(t)
            if self.kernel.singular_at_zero:  # a row that is a base row is not held there by an infinite weight
                slopes[t >= -64.0 * np.finfo(t.dtype).eps * max(self.radius, 1.0)] = 0.0
        if shifted and self.spread**2 <= _NARROW:
            less = self.kernel.shifted(t)
            values = less + one
        else:  # most values are far from 1, and the plain profile is faster
            values = self.kernel.value(t)
            less = values - one if shifted else None
        return values, values if slopes is None else slopes, less


@dataclass(frozen=True)
class _Point:
    """The objective and the weights of the fixed point, at one point for each row."""

    heights: FloatArray  # shape: (m,)
    gains: FloatArray  # shape: (m,)
    values: FloatArray  # kernel values, shape: (m, n)
    slopes: FloatArray  # f', shape: (m, n)

    def some(self, which: Flags) -> _Point:
        values = self.values[which]
        slopes = values if self.slopes is self.values else self.slopes[which]
        return _Point(self.heights[which], self.gains[which], values, slopes)


@dataclass
class Hill:
    """For some rows: the largest value of sum_j (a p_j + q_j) f(t_j) - a^2 |u|^2 / 2 - penalty |z - x|^2."""

    base: Base
    augmented: FloatArray  # the base rows in the precision of the work, shape: (n, d + 2)
    moving: FloatArray  # p, what a gain multiplies, shape: (m, n)
    fixed: FloatArray  # q, shape: (n,)
    squares: FloatArray | None  # |u|^2, or None if gains are 1, shape: (m,)
    largest: FloatArray  # gain that is allowed, shape: (m,)
    inputs: FloatArray  # x in the coordinates of the base, or nothing, shape: (m, d)
    penalty: float
    box: tuple[FloatArray, FloatArray] | None

    def some(self, which: NDArray[Any]) -> Hill:
        squares = None if self.squares is None else self.squares[which]
        rows = {name: getattr(self, name)[which] for name in ("moving", "largest", "inputs")}
        return replace(self, squares=squares, **rows)

    def inside(self, points: FloatArray) -> FloatArray:
        return points if self.box is None else np.clip(points, *self.box)

    def at(self, points: FloatArray, known: Known | None = None) -> _Point:
        """Evaluate the objective at one point for each row; `known` are the kernel's values and slopes there."""
        values, slopes = known or self.base.kernel_at(points, self.augmented.dtype)[:2]
        moving = np.einsum("ij,ij->i", values, self.moving).astype(np.float64)
        fixed = (values @ self.fixed).astype(np.float64)
        gains = np.ones(len(points))
        heights = fixed + moving
        if self.squares is not None:
            gains = np.clip(moving / self.squares, 1.0, self.largest)
            heights = fixed + gains * moving - 0.5 * gains**2 * self.squares
        if self.penalty:
            heights -= 0.5 * self.penalty * np.square(points - self.inputs).sum(axis=1)
        return _Point(heights, gains, values, slopes)

    def step(self, points: FloatArray, here: _Point) -> tuple[FloatArray, FloatArray]:
        """Return the way to the fixed point of each row, and the sum of the sizes of its weights."""
        W = self.moving * here.gains[:, None].astype(self.moving.dtype)
        W += self.fixed
        W *= here.slopes
        d = points.shape[1]
        sums = (W @ self.augmented[:, : d + 1]).astype(np.float64)  # of w b and of w
        size = np.abs(W, out=W).sum(axis=1, dtype=np.float64) + self.penalty
        way = sums[:, :d] - sums[:, d:] * points
        if self.penalty:
            way += self.penalty * (self.inputs - points)
        below = np.maximum(sums[:, d] + self.penalty, _DENOMINATOR * size)
        return np.divide(way, below[:, None], out=np.zeros_like(way), where=below[:, None] > 0), size


@dataclass
class Climb:
    """Where the rows of a tile have come to."""

    points: FloatArray  # float64, shape: (m, d)
    heights: FloatArray
    gains: FloatArray
    iterations: NDArray[np.intp]
    converged: Flags
    lost: Flags  # no base row pulls there

    def some(self, which: Flags) -> Climb:
        return Climb(*(value[which] for value in vars(self).values()))

    def replace(self, which: Flags, others: Climb) -> None:
        for name, value in vars(self).items():
            value[which] = getattr(others, name)

    def go(self, hill: Hill, tol: float, max_iter: int, known: Known | None = None) -> None:
        """Climb until no step is longer than tol; `known` are the kernel's values and slopes at the start."""
        m, here = len(self.points), hill.at(self.points, known)
        under_way = _UnderWay(hill, np.arange(m), self.points.copy(), here, np.full(m, _ACCELERATED))
        self.converged[:] = False
        for _ in range(max_iter):
            step, size = under_way.hill.step(under_way.points, under_way.here)
            target = under_way.target(step)
            short = np.sqrt(0.5 * np.square(target - under_way.points).sum(axis=1)) <= tol
            self.iterations[under_way.numbers] += 1
            self.lost[under_way.numbers] = size < np.finfo(np.float32).tiny
            # the last step is too short to be worth another look; beside a kink it may lead down, and is not taken
            self._end(under_way, short, under_way.points if hill.base.kernel.singular_at_zero else target)
            if len(under_way.numbers):
                stuck = under_way.move(target if not short.any() else target[~short])
                self._end(under_way, stuck, under_way.points)
            if not len(under_way.numbers):
                return
        self._end(under_way, np.ones(len(under_way.numbers), bool), under_way.points, converged=False)

    def _end(self, under_way: _UnderWay, which: Flags, points: FloatArray, *, converged: bool = True) -> None:
        if which.any():
            numbers = under_way.numbers[which]
            self.points[numbers], self.converged[numbers] = points[which], converged
            self.heights[numbers], self.gains[numbers] = under_way.here.heights[which], under_way.here.gains[which]
            under_way.keep(~which)


@dataclass
class _UnderWay:
    """The rows that have not arrived."""

    hill: Hill
    numbers: NDArray[np.intp]  # which of all rows they are
    points: FloatArray
    here: _Point
    damping: FloatArray
    before: tuple[FloatArray, FloatArray] | None = None  # the points and steps before these

    def keep(self, rest: Flags) -> None:
        self.numbers, self.points, self.damping = self.numbers[rest], self.points[rest], self.damping[rest]
        if self.before is not None:
            self.before = self.before[0][rest], self.before[1][rest]
        self.hill, self.here = self.hill.some(rest), self.here.some(rest)

    def target(self, step: FloatArray) -> FloatArray:
        """Return where to go: by the damped step, or where it is not damped the secant one through the step before."""
        # Steps shrink by nearly the same factor from one to the next, often a negative one; Anderson's method with one
        # remembered step (Walker and Ni 2011) finds where they would end.
        way: FloatArray = np.minimum(self.damping, 1.0)[:, None] * step
        if self.before is not None:
            turn, path = step - self.before[1], self.points - self.before[0]
            length = np.einsum("ij,ij->i", turn, turn)
            share = np.divide(np.einsum("ij,ij->i", step, turn), length, out=np.zeros_like(length), where=length > 0)
            share = np.where(self.damping >= _ACCELERATED, np.clip(share, -_FARTHEST, _FARTHEST), 0.0)
            way -= share[:, None] * (path + turn)
        self.before = self.points, step
        return self.hill.inside(self.points + way)

    def move(self, target: FloatArray) -> Flags:
        """Go there if that is not lower, else take shorter steps; return which rows cannot go on."""
        there = self.hill.at(target)
        slack = _ROUNDINGS * float(np.finfo(self.hill.augmented.dtype).eps)
        up = there.heights >= self.here.heights - slack * np.abs(self.here.heights)
        self.points = np.where(up[:, None], target, self.points)
        if not up.all():
            for new, old in zip(vars(there).values(), vars(self.here).values(), strict=True):
                new[~up] = old[~up]
        self.here = there
        self.damping = np.where(up, np.minimum(_ACCELERATED, 2.0 * self.damping), 0.5 * self.damping)
        return self.damping < 0.5**_HALVINGS
