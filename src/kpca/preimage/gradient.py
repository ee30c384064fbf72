"""Pre-images by descent: the row whose image in feature space is nearest to where the scores point.

|phi(z) - P phi(x)|^2 = k(z, z) - 2 sum_j g_j k(z, b_j) + |P phi(x)|^2 is minimised over z, for every kernel that has a
gradient, from the best start at hand.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca._base.errors import InputError
from kpca._base.linalg import FloatArray, mean_of_rows
from kpca._base.validation import whole_number
from kpca.gram.engine import engine_for
from kpca.gram.slopes import why_not
from kpca.gram.tiles import slices
from kpca.kernels import ArcCosine, Constant, Cosine, Kernel, Product, ProfileKernel, RadialKernel, Scaled, Sum
from kpca.preimage.descent import Function, Point, descend, rows_per_descent
from kpca.preimage.target import Box, Expansion, Found, PreimageMethod, PreimageTarget, inside, tile_rows

_NOT_FINITE = "the objective is no finite number at the start, which is returned"
_NO_START = "the start given is not finite, and the nearest known row was the start"
_OUT_OF_REACH = "no known row is near enough to the input to pull it, and the nearest known row was the start"
_LEFT = "the descent left the data far behind, and its start is returned"
_TOO_FAR = 3.0  # times the farthest of known rows, start and input
_SAMPLE = 64  # rows that show whether kernel values are mostly near those at distance 0


class Gradient(PreimageMethod):
    """Minimise the distance in feature space by L-BFGS, for any kernel that has a gradient.

    Parameters
    ----------
    box : None or (low, high)
        Numbers, or one per feature: the result lies within. With an indefinite kernel, whose objective may fall for
        ever, it also lies within the range of the data widened by half on either side.
    penalty : float
        Adds 2 penalty |z' - x'|^2 to the objective where the inputs x are known; z' and x' are in the scale of the
        kernel (its bandwidths), or divided by the spread of the data where the kernel has no scale.
    max_iter : int
        Steps for each row.
    tol : float
        A row has converged if its next step is shorter than this in every feature, in units of the spread of the data
        or the width of the kernel, whichever is less.
    rescale : bool
        Whether the part of phi(x) in the components is brought back to the length that phi(x) has.
    """

    name, takes_gains = "gradient", True

    def __init__(
        self, box: Any = None, penalty: float = 0.0, max_iter: int = 200, tol: float = 1e-6, rescale: bool = True
    ) -> None:
        self.box, self.penalty, self.rescale = box, penalty, rescale
        self.max_iter, self.tol = max_iter, tol

    def fitted(self, target: PreimageTarget, *, seed: int = 0, threads: int = 1) -> GradientWay:
        """Return the inverse map of a model; nothing is learned, so `seed` and `threads` do not matter."""
        reason = why_not(target.kernel)
        if reason is not None:
            raise self.refusal(f"a kernel with a gradient; {reason}")
        expansion, max_iter = self.expansion(target), whole_number("max_iter", self.max_iter, 1)
        if isinstance(self.tol, bool) or not isinstance(self.tol, Real) or not 0.0 < float(self.tol) < np.inf:
            raise InputError("must be a positive number", param="tol", value=self.tol, remedy="take one such as 1e-6")
        self.rescales()
        return GradientWay(expansion, *self.limits(expansion.rows.shape[1]), max_iter, float(self.tol))


@dataclass(frozen=True)
class GradientWay:
    """The inverse map by descent."""

    expansion: Expansion
    box: Box | None
    penalty: float
    max_iter: int
    tol: float

    def __call__(
        self,
        scores: FloatArray,
        *,
        inputs: FloatArray | None = None,
        threads: int = 1,
        start: FloatArray | None = None,
    ) -> Found:
        """Return a row for each row of scores, found from `start`, or else from the better of input and known rows."""
        m, (n, d) = len(scores), self.expansion.rows.shape
        scores = scores.astype(np.float64, copy=False)
        problem = _Problem(self)

        def work(part: slice) -> Found:
            given = (None if array is None else array[part] for array in (inputs, start))
            return problem.solve(scores[part], *given)

        pieces = slices(m, min(tile_rows(n, threads), rows_per_descent(d)))
        return Found.in_tiles(pieces, work, self.expansion.rows, threads)


class _Problem:
    """The objective in good coordinates: y = (z - origin) / units, with the data spread over about 1.

    With a kernel that does not see where the origin is, the mean row is: no digits go into an offset.
    """

    def __init__(self, way: GradientWay) -> None:
        self._way, self._expansion, kernel, box = way, way.expansion, way.expansion.kernel, way.box
        known = way.expansion.rows.astype(np.float64, copy=False)
        self._origin = mean_of_rows(known) if kernel.shift_invariant else np.zeros(known.shape[1])
        self._known = known - self._origin
        self._units, scale = _units(kernel, self._known)
        if not kernel.psd_in(known.shape[1]):
            # What an indefinite kernel makes of rows is no distance, and may fall for ever: a box around the data, half
            # as wide again on either side, within the user's box where they meet.
            low, high = known.min(axis=0), known.max(axis=0)
            low, high = 1.5 * low - 0.5 * high, 1.5 * high - 0.5 * low
            near, far = (low, high) if box is None else box
            apart = (low > far) | (high < near)
            box = np.where(apart, near, np.maximum(low, near)), np.where(apart, far, np.minimum(high, far))
        # Where most kernel values are near those at distance 0, it is their difference from it that matters.
        some = known[:: max(1, len(known) // _SAMPLE)]
        wide = bool(kernel.block(some, some).mean() > 0.5 * kernel.diagonal(some).mean())
        self._slopes = engine_for(self._known).slopes(kernel, self._known, shifted=wide)
        self._pull = 2.0 * way.penalty * scale * scale
        self._box, self._bounds = box, None if box is None else (self._inner(box[0]), self._inner(box[1]))
        self._ignores_length = _ignores_length(kernel)
        # What does not grow with z may be least at infinity.
        bounded = kernel.shift_invariant
        self._radius = float(_lengths(self._known / self._units).max(initial=0.0)) if bounded else np.inf

    def _inner(self, rows: FloatArray) -> FloatArray:
        return np.asarray((rows - self._origin) / self._units)

    def solve(self, scores: FloatArray, inputs: FloatArray | None, start: FloatArray | None) -> Found:
        weights = self._expansion.coefficients(scores)
        wanted = self._inner(inputs) if inputs is not None and self._pull > 0.0 else None

        def objective(Y: FloatArray, numbers: NDArray[np.intp]) -> tuple[FloatArray, FloatArray]:
            with np.errstate(over="ignore", invalid="ignore"):  # too far: the descent turns back
                own, slope = self._slopes.own(Y * self._units)
                sums, slopes = self._slopes.contract(Y * self._units, weights[numbers])
                values, gradients = own - 2.0 * sums, (slope - 2.0 * slopes) * self._units
            if wanted is not None:
                gap = Y - wanted[numbers]
                values += self._pull * np.einsum("ij,ij->i", gap, gap)
                gradients += 2.0 * self._pull * gap
            return values, gradients

        first, lost = self._start(objective, scores, inputs, start)
        found = descend(objective, first, self._bounds, max_iter=self._way.max_iter, tol=self._way.tol)
        ends = found.rows
        if wanted is None and self._ignores_length:  # the ends are as long as the starts where the box allows it
            lengths = _lengths(ends)
            ratio = (_lengths(first.rows) / np.where(lengths > 0, lengths, 1.0))[:, None]
            scaled = ends * np.where(ratio > 0, ratio, 1.0)
            ends = np.where((self._within(scaled) == scaled).all(axis=1, keepdims=True), scaled, ends)
        farthest = _lengths(first.rows if wanted is None else np.concatenate([first.rows, wanted], axis=1))
        left = _lengths(ends) > _TOO_FAR * np.maximum(self._radius, farthest)
        ends = np.where(left[:, None], first.rows, ends)
        no_start = np.zeros(len(ends), bool) if start is None else ~np.asarray(np.isfinite(start).all(axis=1))
        failures = {_NO_START: no_start, _NOT_FINITE: ~first.finite, _OUT_OF_REACH: lost, _LEFT: left}
        rows = ends * self._units + self._origin
        if self._box is not None and self._bounds is not None:  # what is at an edge is there to the last bit
            rows = np.where(self._bounds[0] >= ends, self._box[0], rows)
            rows = np.where(self._bounds[1] <= ends, self._box[1], rows)
        rows = inside(rows.astype(self._expansion.rows.dtype), self._way.box)
        return Found(rows, found.iterations, found.converged & ~left, failures)

    def _start(
        self, objective: Function, scores: FloatArray, inputs: FloatArray | None, start: FloatArray | None
    ) -> tuple[Point, NDArray[np.bool_]]:
        """Return the start that was given; without one, the known row nearest in feature space or the input."""
        # And where an input is no start because it lies on a plateau, out of reach of all known rows.
        # |P phi - phi(b_j)|^2 less |P phi|^2; not clipped, which would make ties of the best ones
        distances = self._expansion.diagonal - 2.0 * self._expansion.products(scores)
        nearest = self._within(self._known[distances.argmin(axis=1)] / self._units)
        every, other = np.arange(len(scores)), inputs if start is None else start
        lost: NDArray[np.bool_] = np.zeros(len(scores), dtype=bool)
        if other is None:
            return Point(nearest, *objective(nearest, every)), lost
        finite = np.isfinite(other).all(axis=1, keepdims=True)
        given = np.where(finite, self._within(self._inner(other)), nearest)
        there = Point(given, *objective(given, every))
        if start is not None:
            return there, lost
        if np.isfinite(self._radius) and not self._pull:
            lost = (there.gradients == 0.0).all(axis=1)
        here = Point(nearest, *objective(nearest, every))
        better = ~lost & there.finite & (there.values < np.where(here.finite, here.values, np.inf))
        for mine, others in zip(vars(here).values(), vars(there).values(), strict=True):
            mine[better] = others[better]
        return here, lost

    def _within(self, Y: FloatArray) -> FloatArray:
        return Y if self._bounds is None else Y.clip(*self._bounds)


def _units(kernel: Kernel, known: FloatArray) -> tuple[FloatArray, float]:
    """Return the unit of length of each feature, and what it is in the scale of the kernel.  # shape: (d,)"""
    # It is the spread of the known rows, or the width of the kernel where that is less. Profile kernels have a scale:
    # that of their prepared rows; for others it is the spread.
    factors, scaled = np.ones((1, known.shape[1])), False
    if isinstance(kernel, ProfileKernel) and not isinstance(kernel, Cosine):
        factors, scaled = kernel.prepare(factors), True
    prepared = known * factors
    spread = float(np.sqrt(np.var(prepared - mean_of_rows(prepared), axis=0).sum()))
    if isinstance(kernel, RadialKernel):
        slope = float(kernel.derivative(np.zeros(1))[0])
        width = 1.0 / np.sqrt(slope) if np.isfinite(slope) else 1.0
        length = min(spread, width) or width
    else:
        length = spread or float(np.sqrt(np.square(prepared).sum(axis=1).mean())) or 1.0
    return length / factors[0], length if scaled else 1.0


def _lengths(rows: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.norm(rows, axis=1))


def _ignores_length(kernel: Kernel) -> bool:
    if isinstance(kernel, Sum | Product | Scaled):
        return all(_ignores_length(member) for member in kernel.members)
    return isinstance(kernel, Cosine | Constant) or (isinstance(kernel, ArcCosine) and kernel.order == 0)
