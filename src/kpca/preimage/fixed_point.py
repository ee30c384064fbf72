"""Pre-images by fixed point: for kernels of the distance, the row that P phi(x) points to is a weighted mean of rows.

Where sum_j g_j f(t_j) is largest, with t_j = -|z - b_j|^2, z = sum_j w_j b_j / sum_j w_j with w_j = g_j f'(t_j) (Mika
et al. 1998 for the Gaussian). The weights may have either sign, so the step is damped until the sum grows, and where
it has no denominator to speak of it goes along the gradient instead.

A row off the components is shrunk by the projection: noise adds to its distance from everything, and so takes the same
factor from all its kernel values. With `rescale` that factor is found along with z: in m + a u, where u is the part of
phi(x) in the components and m that of the mean outside them, a >= 1 is chosen to bring it nearest to phi(z), less what
rows without noise need, of which the components hold a part only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca._base.errors import InputError
from kpca._base.linalg import FloatArray
from kpca._base.validation import whole_number
from kpca.gram.slopes import why_not
from kpca.gram.tiles import edges
from kpca.kernels import RadialKernel
from kpca.preimage.climbing import DOUBLE, SINGLE, Base, Climb, Hill, Known
from kpca.preimage.target import Box, Expansion, Found, PreimageMethod, PreimageTarget, inside, tile_rows, unscaled

Stages = list[tuple[Hill, float]]
# The shortest step that float32 is trusted with, in units of the bandwidth or the spread of the data.
_SINGLE_TOL = 1e-3
# Rows whose gains are looked at, and how closely, to know what is usual.
_USUAL_ROWS, _USUAL_TOL = 200, 1e-2
# A row this many times farther from the mean than any known row is no weighted mean of them any more.
_TOO_FAR = 3.0
# What float32 may do to scores, whose size is about 1, to distances and to weights.
_SINGLE_SCORE_ERROR, _SINGLE_DISTANCE_ERROR, _SINGLE_WEIGHT_ERROR = 1e-4, 1e-4, 1e-3
OUT_OF_REACH = "no training row is near enough to the input to pull it: started from the nearest training row instead"
LEFT = "the search left the data far behind, and the nearest training row is returned"
NOTHING_LEFT = "the components hold nothing of the row to rescale: its scores were taken as they are"


class FixedPoint(PreimageMethod):
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
        At most this many steps, or until one is shorter than this share of the bandwidth or of the spread of the data,
        whichever is less. Below 1e-3 the last steps are taken in float64.
    """

    name = "fixed-point"

    def __init__(
        self,
        *,
        box: Any = None,
        penalty: float = 0.0,
        rescale: bool = True,
        starts: int = 1,
        max_iter: int = 100,
        tol: float = 1e-2,
    ) -> None:
        self.box, self.penalty, self.rescale = box, penalty, rescale
        self.starts, self.max_iter, self.tol = starts, max_iter, tol

    def fitted(self, target: PreimageTarget, *, seed: int = 0, threads: int = 1) -> FixedPointWay:
        factor, kernel = unscaled(target.kernel)
        if not isinstance(kernel, RadialKernel):
            raise self.refusal(
                f"a kernel of the distance, such as rbf or matern; got the {kernel.name} kernel",
                "ridge" if why_not(kernel) else "gradient",
            )
        expansion = self.expansion(target)
        counts = [whole_number(name, getattr(self, name), 1) for name in ("starts", "max_iter")]
        if isinstance(self.tol, bool) or not isinstance(self.tol, Real) or not 0.0 < float(self.tol) < 1.0:
            raise InputError("must be a number between 0 and 1", param="tol", value=self.tol)
        limits, rescale = self.limits(expansion.rows.shape[1]), self.rescales()
        base = Base.of(kernel, expansion.rows)
        way = FixedPointWay(expansion, base, factor or 1.0, *limits, rescale, *counts, float(self.tol))
        if not rescale:
            return way
        # The gain of some training rows, the median: what the components leave out makes it more than 1.
        some = np.linspace(0, len(target.rows) - 1, min(len(target.rows), _USUAL_ROWS)).astype(np.intp)
        free = replace(way, box=None, penalty=0.0, starts=1, tol=_USUAL_TOL)
        gains = free(target.scores[some], inputs=target.rows[some], threads=threads).gains
        if gains is None or not len(gains):
            return way
        order = np.argsort(gains, kind="stable")
        below = np.cumsum(np.ones(len(some)) if target.weights is None else target.weights[some][order])
        return replace(way, usual=float(gains[order][np.searchsorted(below, 0.5 * below[-1])]))


@dataclass(frozen=True)
class _Case:
    """What is known of some rows before the search; None is what takes inputs to know, where there are none."""

    scores: FloatArray  # shape: (m, k)
    inputs: FloatArray | None = None  # shape: (m, d)
    values: FloatArray | None = None  # of the kernel at the inputs, shape: (m, n)
    slopes: FloatArray | None = None  # of the kernel at the inputs, shape: (m, n)
    squares: FloatArray | None = None  # |u|^2, shape: (m,)
    largest: FloatArray | None = None  # gain, that makes the part in the components as long as the whole, shape: (m,)
    nothing: NDArray[np.bool_] | None = None  # where that part is rounding, shape: (m,)

    def some(self, which: NDArray[np.bool_]) -> _Case:
        if which.all():
            return self
        parts: Any = (None if part is None else part[which] for part in vars(self).values())
        return _Case(*parts)


@dataclass(frozen=True)
class FixedPointWay:
    """The fixed point of a fitted model."""

    expansion: Expansion
    base: Base
    factor: float
    box: Box | None
    penalty: float
    rescale: bool
    starts: int
    max_iter: int
    tol: float
    usual: float = 1.0  # the gain of rows without noise, which others are measured by

    def __call__(self, scores: FloatArray | None, *, inputs: FloatArray | None = None, threads: int = 1) -> Found:
        """Return a row for each row of scores; with `inputs`, the rows the scores are of, as denoised rows.

        Scores of inputs that are None are found on the way, for little more than a step: see `can_project`.
        """
        given, known = inputs if scores is None else scores, self.expansion.rows
        assert given is not None

        def work(piece: slice) -> Found:
            return self._tile(*(None if part is None else part[piece] for part in (scores, inputs)))

        pieces = edges(len(given), tile_rows(len(known), threads)) if len(given) else []
        return Found.in_tiles(pieces, work, known, threads, gains=True)

    @cached_property
    def can_project(self) -> bool:
        """True if scores from kernel values in float32 are good enough."""
        longest = float(np.linalg.norm(self.expansion.directions, axis=0).max(initial=0.0))
        size = longest * float(np.sqrt(len(self.expansion.rows))) * self.factor
        return self.tol >= _SINGLE_TOL and float(np.finfo(SINGLE).eps) * size <= _SINGLE_SCORE_ERROR

    def _tile(self, scores: FloatArray | None, inputs: FloatArray | None) -> Found:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
            if inputs is not None:
                case = self._look(scores, inputs)
            else:
                assert scores is not None
                case = _Case(scores.astype(np.float64, copy=False))
            rough = self._hill(case, SINGLE)
            # float32 is enough where neither distances nor weights lose much in it
            size = np.abs(rough.moving).sum(axis=1) + np.abs(rough.fixed).sum()
            radius = np.maximum(self.base.radius, 0.5 * np.square(rough.inputs).sum(axis=1))
            eps = float(np.finfo(SINGLE).eps)
            enough = (eps * radius <= _SINGLE_DISTANCE_ERROR) & (eps * size <= _SINGLE_WEIGHT_ERROR)
            found = Found.empty(len(case.scores), self.expansion.rows, gains=True)
            for which, single in ((enough, True), (~enough, False)):
                if which.any():
                    part = rough if which.all() else rough.some(which)
                    found.write(which, self._solved(part, case.some(which), single=single))
        return found

    def _look(self, scores: FloatArray | None, inputs: FloatArray) -> _Case:
        """Return the kernel at the inputs in float32, their scores, found from it if not given, and allowed gains."""
        expansion = self.expansion
        values, slopes, shifted = self.base.kernel_at(self.base.inward(inputs), SINGLE, shifted=True)
        assert shifted is not None
        eps = float(np.finfo(expansion.rows.dtype).eps)
        if scores is None:
            eps = float(np.finfo(SINGLE).eps)
            # A' k = A'(k - 1) + A'1: most digits are in the first
            products = (shifted @ self.single_directions).astype(np.float64) + expansion.directions.sum(axis=0)
            scores = products * self.factor - expansion.offset
        scores = scores.astype(np.float64, copy=False)
        u = scores + expansion.offset
        squares = np.einsum("ij,ij->i", u, u)
        # |phi(x) - P phi(x)|^2 = k(x, x) - 2 k_x'c + c'Kc - |t|^2, and no projection is longer than phi(x)
        mass = float(expansion.centre.sum())
        away = -2.0 * (shifted @ expansion.centre.astype(SINGLE)).astype(np.float64)
        away = self.factor * (away + 1.0 - 2.0 * mass) + expansion.centre_square
        residual = np.maximum(away - np.einsum("ij,ij->i", scores, scores), 0.0)
        # what rounding leaves of nothing must not be enlarged
        rounding = 100.0 * eps * float(np.linalg.norm(expansion.offset))
        nothing = np.sqrt(squares) <= max(rounding, 1e-150)
        largest = np.sqrt(1.0 + residual / np.where(nothing, np.inf, squares))
        return _Case(scores, inputs, values, slopes, np.where(nothing, 1.0, squares), largest, nothing)

    def _solved(self, rough: Hill, case: _Case, *, single: bool) -> Found:
        """Return the rows at the top of a hill, found in float32 where that does, and then in float64 if asked for."""
        unit = min(1.0, self.base.spread) or 1.0
        stages = [(rough, max(self.tol, _SINGLE_TOL) * unit)] if single else []
        if not single or self.tol < _SINGLE_TOL:
            stages.append((self._hill(case, DOUBLE), self.tol * unit))
        best, lost = self._searched(stages, case, known=single and self.box is None)
        limit = np.maximum(self.base.radius, 0.5 * np.square(rough.inputs).sum(axis=1) if self.penalty else 0.0)
        left = ~(0.5 * np.square(best.points).sum(axis=1) <= _TOO_FAR**2 * limit)
        if left.any():
            best.points[left] = self._base_points(self._nearest(case.scores[left], 1)[:, 0])
            best.converged[left] = False
        fallbacks = {LEFT: left}
        if case.nothing is not None:
            fallbacks |= {OUT_OF_REACH: lost} | ({NOTHING_LEFT: case.nothing} if self.rescale else {})
        rows = inside(self.base.outward(best.points), self.box)
        return Found(rows.astype(self.expansion.rows.dtype), best.iterations, best.converged, fallbacks, best.gains)

    def _hill(self, case: _Case, dtype: np.dtype[Any]) -> Hill:
        expansion, base, scores, inputs = self.expansion, self.base, case.scores, case.inputs
        m, n = len(scores), len(base.rows)
        directions = expansion.directions if dtype == DOUBLE else self.single_directions
        squares, largest = None, np.ones(m)
        if case.squares is not None and case.largest is not None and self.rescale:
            moving = (scores + expansion.offset).astype(dtype) @ directions.T
            fixed = expansion.centre - expansion.directions @ expansion.offset
            squares, largest = case.squares * (self.usual / self.factor), case.largest
        else:
            moving, fixed = scores.astype(dtype) @ directions.T, np.zeros(n)
            moving += expansion.centre.astype(dtype)
        # of a multiple of a kernel all is the same multiple, and the largest is where it was
        sums = base.double if dtype == DOUBLE else base.single, moving, fixed.astype(dtype), squares, largest
        box = None if self.box is None else (base.inward(self.box[0]), base.inward(self.box[1]))
        if inputs is None:
            return Hill(base, *sums, np.empty((m, 0)), 0.0, box)
        return Hill(base, *sums, base.inward(inputs), self.penalty, box)

    @cached_property
    def single_directions(self) -> FloatArray:
        return self.expansion.directions.astype(SINGLE)

    def _searched(self, stages: Stages, case: _Case, *, known: bool) -> tuple[Climb, NDArray[np.bool_]]:
        """Return the best of climbs from the input, where there is one, and from the base rows nearest to P phi.

        And which inputs no base row pulls; `known` tells whether the kernel at the inputs serves the first stage.
        """
        scores, lost = case.scores, np.zeros(len(case.scores), bool)
        if case.values is None or case.slopes is None:
            nearest = self._nearest(scores, self.starts)
            best = self._climbed(stages, self._base_points(nearest[:, 0]))
            rest = nearest[:, 1:]
        else:
            best = self._climbed(stages, stages[0][0].inputs, (case.values, case.slopes) if known else None)
            lost = best.lost.copy()
            if lost.any():
                first = self._nearest(scores[lost], 1)[:, 0]
                again = [(hill.some(lost), tol) for hill, tol in stages]
                best.replace(lost, self._climbed(again, self._base_points(first)))
            rest = self._nearest(scores, self.starts - 1)
        for start in rest.T:
            other = self._climbed(stages, self._base_points(start))
            higher = other.heights > best.heights
            best.replace(higher, other.some(higher))
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

    def _climbed(self, stages: Stages, start: FloatArray, known: Known | None = None) -> Climb:
        """Return where fixed-point steps lead; `known` is the kernel at the start."""
        m = len(start)
        points, heights, counts = stages[0][0].inside(start).copy(), np.full(m, -np.inf), np.zeros(m, np.intp)
        climb = Climb(points, heights, np.ones(m), counts, *np.zeros((2, m), bool))
        for hill, tol in stages:
            climb.go(hill, tol, self.max_iter, known)
            known = None
        return climb

    def __getstate__(self) -> dict[str, Any]:
        made = ("single_directions", "can_project")  # again where they are needed
        return {name: value for name, value in self.__dict__.items() if name not in made}
