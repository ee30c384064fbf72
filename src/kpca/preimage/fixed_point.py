"""Pre-images by fixed point: for kernels of the distance, the row that P phi(x) points to is a weighted mean of rows.

Where sum_j g_j f(t_j) is largest, with t_j = -|z - b_j|^2, z = sum_j w_j b_j / sum_j w_j with w_j = g_j f'(t_j) (Mika
et al. 1998 for the Gaussian). The weights may have either sign, so the step is damped until the sum grows, and where
it has no denominator to speak of it goes along the gradient instead.

A row off the components is shrunk by the projection: noise adds to its distance from everything, and so takes the same
factor from all its kernel values. With `rescale` that factor is found along with z: in m + a u, where u is the part of
phi(x) in the components and m that of the mean outside them, a >= 1 is chosen to bring it nearest to phi(z).
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from kpca.errors import InputError
from kpca.gram.slopes import why_not
from kpca.gram.tiles import edges
from kpca.gram.workers import in_order
from kpca.kernels import Kernel, RadialKernel, Scaled
from kpca.linalg import mean_of_rows
from kpca.preimage.expansion import Expansion
from kpca.preimage.limits import Box, check_box, check_penalty, check_rescale
from kpca.preimage.result import Found
from kpca.preimage.target import Target

FloatArray = NDArray[Any]
# Kernel values of a tile, by which its rows are chosen.
_TILE_NUMBERS = 2**21
_FEWEST_ROWS, _MOST_ROWS = 16, 512
# A sum of weights below this share of the sum of their sizes is no denominator: steps would be arbitrarily long.
_DENOMINATOR = 0.05
_LARGEST_GAIN = 1e6
# float32 serves while neither distances nor weights lose more than this in it.
_SINGLE_DISTANCE_ERROR, _SINGLE_WEIGHT_ERROR = 1e-4, 1e-3
_SINGLE_TOL = 1e-3
# A row whose last step was taken whole takes an accelerated one next, at most so many times as long.
_ACCELERATED, _FARTHEST = 2.0, 4.0
# Steps are halved so many times before a row is left where it is.
_HALVINGS = 10
OUT_OF_REACH = "no training row is near enough to the input to pull it: started from the nearest training row instead"
NOTHING_LEFT = "the components hold nothing of the row to rescale: its scores were taken as they are"


class FixedPoint(BaseEstimator):  # type: ignore[misc]
    """Pre-images as weighted means of training rows; for radial kernels.

    Parameters
    ----------
    box : None, or (low, high) of numbers or arrays; results lie inside.
    penalty : float
        Pull towards the input in `denoise`: its weight beside those of the training rows, whose sum is at most about 1.
    rescale : bool
        In `denoise`, undo what noise does to the length of the projection.
    starts : int
        Starting points tried for each row, of which the best result is taken: the input in `denoise`, then the training
        rows nearest in feature space.
    max_iter, tol : int, float
        At most so many steps, or until one is shorter than this share of the bandwidth or of the spread of the data.
    """

    def __init__(
        self,
        *,
        box: Any = None,
        penalty: float = 0.0,
        rescale: bool = True,
        starts: int = 1,
        max_iter: int = 100,
        tol: float = 1e-5,
    ) -> None:
        self.box = box
        self.penalty = penalty
        self.rescale = rescale
        self.starts = starts
        self.max_iter = max_iter
        self.tol = tol

    def fitted(self, target: Target, *, seed: int = 0, threads: int = 1) -> FixedPointWay:
        """Return the way back for a model."""
        factor, kernel = _radial(target.kernel)
        if target.expansion is None:
            raise InputError("preimage='fixed-point' needs training rows or landmarks: take preimage='ridge'.")
        for name in ("starts", "max_iter"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
                raise InputError(f"{name} must be a whole number from 1; got {value!r}.")
        if isinstance(self.tol, bool) or not isinstance(self.tol, Real) or not 0.0 < float(self.tol) < 1.0:
            raise InputError(f"tol must be a number between 0 and 1; got {self.tol!r}.")
        penalty = check_penalty(self.penalty)
        expansion = target.expansion
        return FixedPointWay(
            expansion,
            _Base.of(kernel, expansion.rows),
            factor,
            check_box(self.box, expansion.rows.shape[1]),
            penalty,
            check_rescale(self.rescale),
            int(self.starts),
            int(self.max_iter),
            float(self.tol),
        )


def _radial(kernel: Kernel) -> tuple[float, RadialKernel]:
    """Return a multiple of a radial kernel as factor and kernel."""
    factor = 1.0
    while isinstance(kernel, Scaled):
        factor, kernel = factor * kernel.factor, kernel.kernel
    if not isinstance(kernel, RadialKernel):
        raise InputError(
            f"preimage='fixed-point' needs a kernel of the distance, such as rbf or matern; got the {kernel.name} "
            f"kernel: take preimage='{'ridge' if why_not(kernel) else 'gradient'}'."
        )
    return factor, kernel


@dataclass(frozen=True)
class _Base:
    """The base rows in coordinates in which the kernel has no scale left, relative to their mean."""

    kernel: RadialKernel
    mean: FloatArray  # float64, shape: (d,)
    scale: FloatArray  # of each feature, shape: (d,)
    rows: FloatArray  # (sqrt2 b, 1, -|b|^2), shape: (n, d + 2)
    radius: float  # the largest |b|^2
    spread: float  # root of the total variance

    @staticmethod
    def of(kernel: RadialKernel, rows: FloatArray) -> _Base:
        mean = mean_of_rows(rows).astype(np.float64)
        n, d = rows.shape
        scale = np.asarray(kernel.prepare(np.ones((1, d)))[0], dtype=np.float64)
        augmented = np.empty((n, d + 2), dtype=rows.dtype)
        augmented[:, :d] = (rows - mean) * (scale * np.sqrt(2.0))
        norms = 0.5 * np.einsum("ij,ij->i", augmented[:, :d], augmented[:, :d], dtype=np.float64)
        augmented[:, d], augmented[:, d + 1] = 1.0, -norms
        return _Base(kernel, mean, scale, augmented, float(norms.max(initial=0.0)), float(np.sqrt(norms.mean())))

    def inward(self, rows: FloatArray) -> FloatArray:
        """Return rows of data as sqrt2 times the scaled, centred rows.  # shape: (m, d)"""
        return np.asarray((rows - self.mean) * (self.scale * np.sqrt(2.0)), dtype=np.float64)

    def outward(self, points: FloatArray) -> FloatArray:
        """Return the rows of data that these are.  # shape: (m, d)"""
        rows: FloatArray = np.asarray(points, dtype=np.float64) / (self.scale * np.sqrt(2.0)) + self.mean
        return rows


@dataclass(frozen=True)
class FixedPointWay:
    """The fixed point of a fitted model."""

    expansion: Expansion
    base: _Base
    factor: float
    box: Box | None
    penalty: float
    rescale: bool
    starts: int
    max_iter: int
    tol: float

    def __call__(self, scores: FloatArray, *, inputs: FloatArray | None = None, threads: int = 1) -> Found:
        """Return a row for each row of scores; with `inputs`, the rows the scores are of, as denoised rows."""
        m, (n, d) = len(scores), self.expansion.rows.shape
        dtype = self.expansion.rows.dtype
        found = Found(np.empty((m, d), dtype), np.zeros(m, np.intp), np.zeros(m, bool), {}, np.ones(m))
        step = max(_FEWEST_ROWS, min(_MOST_ROWS, _TILE_NUMBERS // max(n, 1)))

        def commit(rows: slice, part: Found) -> None:
            found.write(rows, part)

        in_order(
            edges(m, step) if m else [],
            lambda: lambda rows: self._tile(scores[rows], None if inputs is None else inputs[rows]),
            commit,
            threads,
        )
        return found

    def _tile(self, scores: FloatArray, inputs: FloatArray | None) -> Found:
        scores = scores.astype(np.float64, copy=False)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
            if not len(self.base.rows):
                raise InputError("There are no rows to combine.")
            problem = _Problem.of(self, scores, inputs)
            best, lost = self._searched(problem, scores, inputs)
            rows = self.base.outward(best.points)
        fallbacks = {} if inputs is None else {OUT_OF_REACH: lost, NOTHING_LEFT: problem.nothing_left}
        if self.box is not None:
            rows = np.clip(rows, *self.box)
        return Found(rows.astype(self.expansion.rows.dtype), best.iterations, best.converged, fallbacks, best.gains)

    def _searched(
        self, problem: _Problem, scores: FloatArray, inputs: FloatArray | None
    ) -> tuple[_Climb, NDArray[np.bool_]]:
        """Return the best of climbs from the input, where there is one, and from the base rows nearest to P phi."""
        lost = np.zeros(len(scores), bool)
        if inputs is None:
            nearest = self._nearest(scores, self.starts)
            best = self._climbed(problem, self._base_points(nearest[:, 0]))
            rest = nearest[:, 1:]
        else:
            best = self._climbed(problem, problem.inputs)
            lost = best.lost.copy()
            if lost.any():
                first = self._nearest(scores[lost], 1)[:, 0]
                best.replace(lost, self._climbed(problem.some(lost), self._base_points(first)))
            rest = self._nearest(scores, self.starts - 1)
        for start in rest.T:
            best = best.better(self._climbed(problem, self._base_points(start)))
        return best, lost

    def _nearest(self, scores: FloatArray, count: int) -> NDArray[np.intp]:
        """Return the base rows nearest to P phi, the nearest first.  # shape: (m, count)"""
        count = min(count, len(self.expansion.rows))
        if count == 0:
            return np.empty((len(scores), 0), np.intp)
        distances = self.expansion.distances(scores)
        if count == 1:
            return np.asarray(distances.argmin(axis=1)[:, None])
        some = np.argpartition(distances, count - 1, axis=1)[:, :count]
        order = np.argsort(np.take_along_axis(distances, some, axis=1), axis=1, kind="stable")
        return np.take_along_axis(some, order, axis=1)

    def _base_points(self, which: NDArray[np.intp]) -> FloatArray:
        return self.base.rows[which, :-2].astype(np.float64)

    def _climbed(self, problem: _Problem, start: FloatArray) -> _Climb:
        """Return where fixed-point steps lead: in float32 first where that is enough, then in the precision wanted."""
        climb = _Climb.begun(problem, problem.inside(start))
        unit = min(1.0, self.base.spread) or 1.0
        if problem.single is not None:
            climb.go(problem.single, max(self.tol, _SINGLE_TOL) * unit, self.max_iter)
        if problem.single is None or self.expansion.rows.dtype != np.float32:
            climb.go(problem, self.tol * unit, self.max_iter)
        return climb


@dataclass(frozen=True)
class _Point:
    """The objective and the weights of the fixed point, at one point for each row."""

    heights: FloatArray  # shape: (m,)
    gains: FloatArray  # shape: (m,)
    values: FloatArray  # kernel values, shape: (m, n)
    slopes: FloatArray  # f', shape: (m, n)


@dataclass
class _Problem:
    """For some rows: the largest value of sum_j (a p_j + q_j) f(t_j) - a^2 |u|^2 / 2 - penalty |z - x|^2."""

    base: _Base
    augmented: FloatArray  # the base rows in the precision of the work, shape: (n, d + 2)
    moving: FloatArray  # p, what a gain multiplies, shape: (m, n)
    fixed: FloatArray  # q, shape: (n,)
    squares: FloatArray | None  # |u|^2, or None if gains are 1, shape: (m,)
    inputs: FloatArray  # x in the coordinates of the base, or nothing, shape: (m, d)
    penalty: float
    box: tuple[FloatArray, FloatArray] | None
    nothing_left: NDArray[np.bool_]
    single: _Problem | None = None

    @staticmethod
    def of(way: FixedPointWay, scores: FloatArray, inputs: FloatArray | None) -> _Problem:
        expansion, base = way.expansion, way.base
        m, n = len(scores), len(base.rows)
        squares, nothing_left = None, np.zeros(m, bool)
        if inputs is not None and way.rescale:
            u = scores + expansion.offset
            squares = np.einsum("ij,ij->i", u, u)
            # what rounding leaves of nothing must not be enlarged
            rounding = 100.0 * float(np.finfo(expansion.rows.dtype).eps) * np.linalg.norm(expansion.offset)
            nothing_left = np.sqrt(squares) <= max(rounding, 1e-150)
            squares = np.where(nothing_left, np.inf, squares)
            moving = u @ expansion.directions.T
            fixed = expansion.centre - expansion.directions @ expansion.offset
        else:
            moving, fixed = expansion.coefficients(scores), np.zeros(n)
        moving *= way.factor
        fixed = fixed * way.factor
        box = None if way.box is None else (base.inward(way.box[0]), base.inward(way.box[1]))
        points = np.empty((m, 0)) if inputs is None else base.inward(inputs)
        penalty = way.penalty if inputs is not None else 0.0
        augmented = base.rows.astype(np.float64, copy=False)
        problem = _Problem(base, augmented, moving, fixed, squares, points, penalty, box, nothing_left)
        size = float((np.abs(moving).sum(axis=1) + np.abs(fixed).sum()).max(initial=0.0))
        radius = max(base.radius, 0.5 * float(np.square(points).sum(axis=1).max(initial=0.0)))
        eps = float(np.finfo(np.float32).eps)
        if eps * radius <= _SINGLE_DISTANCE_ERROR and eps * size <= _SINGLE_WEIGHT_ERROR:
            problem.single = problem.rounded()
        return problem

    def rounded(self) -> _Problem:
        """Return the same in float32."""
        return _Problem(
            self.base,
            self.augmented.astype(np.float32),
            self.moving.astype(np.float32),
            self.fixed.astype(np.float32),
            self.squares,
            self.inputs,
            self.penalty,
            self.box,
            self.nothing_left,
        )

    def some(self, which: NDArray[Any]) -> _Problem:
        """Return the problem of some of the rows."""
        return _Problem(
            self.base,
            self.augmented,
            self.moving[which],
            self.fixed,
            None if self.squares is None else self.squares[which],
            self.inputs[which],
            self.penalty,
            self.box,
            self.nothing_left[which],
            None if self.single is None else self.single.some(which),
        )

    def inside(self, points: FloatArray) -> FloatArray:
        return points if self.box is None else np.clip(points, *self.box)

    def at(self, points: FloatArray) -> _Point:
        """Evaluate the objective at one point for each row."""
        m, d = points.shape
        dtype = self.augmented.dtype
        L = np.empty((m, d + 2), dtype)
        L[:, :d] = points
        L[:, d] = -0.5 * np.einsum("ij,ij->i", L[:, :d], L[:, :d], dtype=np.float64)
        L[:, d + 1] = 1.0
        t = L @ self.augmented.T
        np.minimum(t, 0.0, out=t)
        kernel = self.base.kernel
        slopes = kernel.derivative(t)
        if kernel.singular_at_zero:  # a row that is a base row is not held there by an infinite weight
            slopes[t >= -64.0 * np.finfo(dtype).eps * max(self.base.radius, 1.0)] = 0.0
        values = kernel.value(t)
        moving = np.einsum("ij,ij->i", values, self.moving, dtype=np.float64)
        fixed = (values @ self.fixed).astype(np.float64)
        gains = np.ones(m)
        heights = fixed + moving
        if self.squares is not None:
            gains = np.clip(moving / self.squares, 1.0, _LARGEST_GAIN)
            lost = np.where(np.isinf(self.squares), 0.0, 0.5 * gains**2 * self.squares)
            heights = fixed + gains * moving - lost
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
class _Climb:
    """Where the rows of a tile have come to."""

    points: FloatArray  # float64, shape: (m, d)
    heights: FloatArray
    gains: FloatArray
    iterations: NDArray[np.intp]
    converged: NDArray[np.bool_]
    lost: NDArray[np.bool_]  # no base row pulls there

    @staticmethod
    def begun(problem: _Problem, start: FloatArray) -> _Climb:
        m = len(start)
        return _Climb(
            start.copy(), np.full(m, -np.inf), np.ones(m), np.zeros(m, np.intp), np.zeros(m, bool), np.zeros(m, bool)
        )

    def better(self, other: _Climb) -> _Climb:
        """Return the higher of two, row by row."""
        self.replace(other.heights > self.heights, other.some(other.heights > self.heights))
        return self

    def some(self, which: NDArray[np.bool_]) -> _Climb:
        return _Climb(*(value[which] for value in vars(self).values()))

    def replace(self, which: NDArray[np.bool_], others: _Climb) -> None:
        """Take over other results for some rows."""
        for name, value in vars(self).items():
            value[which] = getattr(others, name)

    def go(self, problem: _Problem, tol: float, max_iter: int) -> None:
        """Climb until no step is longer than tol."""
        live = np.arange(len(self.points))
        self.converged[:] = False
        points, damping = self.points.copy(), np.full(len(live), _ACCELERATED)
        before: tuple[FloatArray, FloatArray] | None = None
        here = problem.at(points)
        slack = 4.0 * float(np.finfo(problem.augmented.dtype).eps)
        for _ in range(max_iter):
            step, size = problem.step(points, here)
            way = _accelerated(points, step, before, damping)
            before = points, step
            target = problem.inside(points + way)
            there = problem.at(target)
            moved = np.sqrt(0.5 * np.square(target - points).sum(axis=1))
            up = there.heights >= here.heights - slack * np.abs(here.heights)
            self.iterations[live] += 1
            points = np.where(up[:, None], target, points)
            here = _taken(up, there, here)
            damping = np.where(up, np.minimum(_ACCELERATED, 2.0 * damping), 0.5 * damping)
            ended = (moved <= tol) | (damping < 0.5**_HALVINGS)
            self._note(live, points, here, ended, size)
            if ended.all():
                return
            if ended.sum() * 4 >= len(ended):  # the others go on alone
                rest = ~ended
                live, points, damping = live[rest], points[rest], damping[rest]
                before = before[0][rest], before[1][rest]
                problem = problem.some(rest)
                here = _Point(here.heights[rest], here.gains[rest], here.values[rest], here.slopes[rest])

    def _note(
        self, live: NDArray[np.intp], points: FloatArray, here: _Point, ended: NDArray[np.bool_], size: FloatArray
    ) -> None:
        self.points[live], self.heights[live], self.gains[live] = points, here.heights, here.gains
        self.converged[live] = ended
        self.lost[live] = size < np.finfo(np.float32).tiny


def _accelerated(
    points: FloatArray, step: FloatArray, before: tuple[FloatArray, FloatArray] | None, damping: FloatArray
) -> FloatArray:
    """Return how far to go: the damped step, or where it is not damped the secant one through the step before.

    Steps shrink by nearly the same factor from one to the next, often a negative one; Anderson's method with one
    remembered step (Walker and Ni 2011) finds where they would end.
    """
    way: FloatArray = np.minimum(damping, 1.0)[:, None] * step
    if before is None:
        return way
    turn, path = step - before[1], points - before[0]
    length = np.einsum("ij,ij->i", turn, turn)
    share = np.divide(np.einsum("ij,ij->i", step, turn), length, out=np.zeros_like(length), where=length > 0)
    share = np.where(damping >= _ACCELERATED, np.clip(share, -_FARTHEST, _FARTHEST), 0.0)
    way -= share[:, None] * (path + turn)
    return way


def _taken(up: NDArray[np.bool_], there: _Point, here: _Point) -> _Point:
    """Return the new point where it is higher, else the old one."""
    if up.all():
        return there
    for name in ("heights", "gains", "values", "slopes"):
        getattr(there, name)[~up] = getattr(here, name)[~up]
    return there
