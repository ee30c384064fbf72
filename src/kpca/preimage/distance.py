"""Back from scores to data by distances (Kwok and Tsang 2004).

Scores say how far P phi(x) is from each known row in feature space. The kernel turns that into distances in the space
of the data, and a point is then found from its distances to its nearest rows, as on a map.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca._base.linalg import FloatArray, mean_of_rows
from kpca._base.validation import whole_number
from kpca.gram.engine import evaluator
from kpca.gram.tiles import edges
from kpca.kernels import Kernel, Linear, Polynomial, ProfileKernel, RadialKernel, Scaled
from kpca.preimage.target import Box, Expansion, Found, PreimageMethod, PreimageTarget, tile_rows, unscaled

# From squared distances in feature space, with |P phi|^2, |phi(b)|^2 and |b|^2, to squared distances of prepared rows;
# NaN where there is none.
Turn = Callable[[FloatArray, FloatArray, FloatArray, FloatArray], FloatArray]

TOO_FAR = "Every distance in feature space was too large to be turned back; the nearest row was taken instead."
WORSE = "The point found by distances fits worse in feature space than the nearest row, which was taken instead."
# Directions in which neighbours spread less than this share of their largest spread are left out: distances that are
# not exact would be blown up along them.
_THIN = 1e-6
# Distances from scores are a little short, by what is outside the components: so much of their mean square is added to
# the square of how far from the mean of its neighbours a point may be.
_SLACK = 0.1
# Two squared distances in feature space differ if by more than this many roundings of what they are made of.
_ROUNDINGS = 64.0


class Distance(PreimageMethod):
    """Find pre-images by their distances to the nearest known rows.

    Parameters
    ----------
    neighbours : how many of the nearest rows are used.
    box : (low, high), numbers or one per feature, that results are clipped to.
    penalty : pull towards the inputs, where they are known: (row + penalty * input) / (1 + penalty).
    rescale : whether scores of rows that lie outside what the components explain are brought to full length first.
    """

    name, takes_gains = "distance", True

    def __init__(self, neighbours: int = 10, box: Any = None, penalty: float = 0.0, rescale: bool = True) -> None:
        self.neighbours, self.box, self.penalty, self.rescale = neighbours, box, penalty, rescale

    def fitted(self, target: PreimageTarget, *, seed: int = 0, threads: int = 1) -> DistanceWay:
        count = whole_number("neighbours", self.neighbours, 1)
        self.rescales()
        d = target.rows.shape[1]
        limits, kernel = self.limits(d), unscaled(target.kernel)[1]
        if _turn(target.kernel) is None or not isinstance(kernel, ProfileKernel):
            raise self.refusal(
                "a kernel whose distances can be turned back, which radial, linear and polynomial kernels of odd "
                f"degree are; got the {target.kernel.name} kernel"
            )
        expansion = self.expansion(target)
        known = _Known.of(expansion, kernel.prepare(np.ones((1, d)))[0])
        return DistanceWay(expansion, known, min(count, len(known.rows)), target.rows.dtype, *limits)


def _turn(kernel: Kernel) -> Turn | None:
    """Return how distances in feature space become squared distances of prepared rows, or None if they do not."""
    if isinstance(kernel, Scaled):
        inner, factor = _turn(kernel.kernel), kernel.factor
        if inner is None or factor == 0.0:
            return None
        return lambda gaps, squares, own, norms: inner(gaps / factor, squares / factor, own / factor, norms)
    if isinstance(kernel, RadialKernel):
        # |phi(x) - phi(b)|^2 = 2 - 2 f; beyond sqrt(2) there is no such x
        return lambda gaps, *_: np.where(gaps < 2.0, -kernel.inverse(1.0 - 0.5 * gaps), np.nan)
    if isinstance(kernel, Linear) or (isinstance(kernel, Polynomial) and kernel.degree == 1):
        return lambda gaps, *_: gaps
    if isinstance(kernel, Polynomial) and isinstance(kernel.degree, int) and kernel.degree % 2 == 1:
        degree, coef0 = kernel.degree, kernel.coef0

        def root(values: FloatArray) -> FloatArray:
            return np.asarray(np.sign(values) * np.abs(values) ** (1.0 / degree) - coef0)

        def turn(gaps: FloatArray, squares: FloatArray, own: FloatArray, norms: FloatArray) -> FloatArray:
            products = 0.5 * (squares + own - gaps)  # <P phi, phi(b)>
            return np.maximum(root(squares) + norms - 2.0 * root(products), 0.0)

        return turn
    return None


@dataclass(frozen=True)
class _Known:
    """The distinct rows of an expansion, and what is known of them beforehand."""

    index: NDArray[np.intp]  # among the rows of the expansion, shape: (n,)
    rows: FloatArray  # (b - centre) * scale, float64, shape: (n, d)
    centre: FloatArray  # shape: (d,)
    scale: FloatArray  # shape: (d,)
    norms: FloatArray  # |b * scale|^2, shape: (n,)
    scores: FloatArray  # float64, shape: (n, k)
    outside: FloatArray  # squared length of the part of phi(b) - mean outside the components, shape: (n,)
    lengths: FloatArray  # |phi(b) - mean|^2: of both parts, shape: (n,)
    diagonal: FloatArray  # k(b, b), shape: (n,)
    rounding: FloatArray  # of squared distances in feature space, shape: (n,)

    @classmethod
    def of(cls, expansion: Expansion, scale: FloatArray) -> _Known:
        # A row that is there ten times would be all ten neighbours, and say nothing but how far it is.
        index = np.sort(np.unique(expansion.rows, axis=0, return_index=True)[1])
        rows = expansion.rows[index]
        centre = mean_of_rows(rows)
        scores = expansion.scores[index].astype(np.float64)
        own = np.einsum("ij,ij->i", scores, scores)
        size = expansion.diagonal[index] - 2.0 * expansion.levels[index] + expansion.centre_square
        eps = float(np.finfo(expansion.scores.dtype).eps)
        parts = np.abs(expansion.diagonal[index]) + 2.0 * np.abs(expansion.levels[index]) + expansion.centre_square
        # An eigensolver is right to a few roundings of its largest eigenvalue, and so are the scores of a small row.
        largest = float(np.square(expansion.scores, dtype=np.float64).sum(axis=0).max(initial=0.0))
        rounding = _ROUNDINGS * (float(np.finfo(np.float64).eps) * parts + eps * own) + 8.0 * eps * largest
        images = scores, np.maximum(size - own, 0.0), np.maximum(size, own), expansion.diagonal[index], rounding
        return cls(index, (rows - centre) * scale, centre, scale, np.square(rows * scale).sum(axis=1), *images)


@dataclass(frozen=True)
class DistanceWay:
    """The inverse map by distances."""

    expansion: Expansion
    known: _Known
    neighbours: int
    dtype: np.dtype[Any]
    box: Box | None
    penalty: float

    def __call__(self, scores: FloatArray, *, inputs: FloatArray | None = None, threads: int = 1) -> Found:
        """Return a point for each row of scores: between its neighbours, as far from each as the scores say."""
        m, d = len(scores), self.known.rows.shape[1]
        memo: dict[Any, Any] = {}  # what the evaluator makes of the known rows, for all tiles
        height = tile_rows(max(len(self.expansion.rows), self.neighbours * d), threads)

        def work(piece: slice) -> Found:
            wanted = None if inputs is None else inputs[piece]
            return self._tile(scores[piece].astype(np.float64), wanted, memo)

        return Found.in_tiles(edges(m, height) if m else [], work, np.empty((0, d), self.dtype), threads)

    def _tile(self, scores: FloatArray, inputs: FloatArray | None, memo: dict[Any, Any]) -> Found:
        """Return the points of some scores; known rows where no distance can be used or the nearest one is better."""
        known, turn = self.known, _turn(self.expansion.kernel)
        assert turn is not None  # or the kernel would have been refused
        near, gaps = self._nearest(scores)  # shapes: (m, q), (m, q)
        with np.errstate(over="ignore", invalid="ignore"):
            length = self.expansion.squares(scores)  # |P phi|^2
            squares = turn(gaps, length[:, None], known.diagonal[near], known.norms[near])
        usable = np.isfinite(squares)
        too_far: NDArray[np.bool_] = ~np.asarray(usable.any(axis=1))
        squares = np.where(usable, squares, 0.0)
        usable[too_far, 0] = True
        points = located(known.rows[near], squares, usable)  # shape: (m, d)
        exact = too_far | (gaps[:, 0] <= known.rounding[near[:, 0]])
        points[exact] = known.rows[near[exact, 0]]
        nearest = self.expansion.rows[known.index[near[:, 0]]]
        rows = (points / known.scale + known.centre).astype(self.dtype)
        rows[exact] = nearest[exact]
        # |phi(z) - P phi|^2 = k(z, z) - 2 sum_j g_j k(z, b_j) + |P phi|^2 of rows z. What a row leaves outside the
        # components it may: a row with just these scores is at k(z, z) - |P phi|^2, which for a rough kernel is more
        # than the nearest row is.
        z, base = rows.astype(np.float64), self.expansion.rows
        values = np.empty((len(z), len(base)))
        source = evaluator(self.expansion.kernel, z, base, values.dtype, memo=memo)
        source.fill(slice(0, len(z)), slice(0, len(base)), values)
        own = self.expansion.kernel.diagonal(z)
        with np.errstate(over="ignore", invalid="ignore"):
            values *= self.expansion.coefficients(scores)
            distances = own - 2.0 * values.sum(axis=1) + length
            # g is large where a kernel is wide, and the terms cancel
            rounding = _ROUNDINGS * float(np.finfo(np.float64).eps) * np.abs(values).sum(axis=1)
            limits = np.maximum(gaps[:, 0] + known.rounding[near[:, 0]], own - length)
            worse: NDArray[np.bool_] = ~exact & (distances > limits + rounding)
        rows[worse] = nearest[worse]
        return Found.mapped(rows, inputs, self.box, self.penalty, {TOO_FAR: too_far, WORSE: worse})

    def _nearest(self, scores: FloatArray) -> tuple[NDArray[np.intp], FloatArray]:
        """Return the nearest known rows, the nearest first, and squared distances to them in feature space."""
        # |P phi - phi(b)|^2 = |t - t_b|^2 + (the part of phi(b) outside the components): nothing that is large cancels,
        # as it would where a wide kernel makes all products nearly 1.
        known, count = self.known, self.neighbours
        with np.errstate(over="ignore", invalid="ignore"):
            rough = known.lengths - 2.0 * (scores @ known.scores.T)  # less |t|^2, shape: (m, n)
            near = np.argpartition(rough, count - 1, axis=1)[:, :count]
            gaps = known.outside[near]
            for column in range(count):  # not all at once: that would be k numbers for each neighbour
                difference = scores - known.scores[near[:, column]]
                gaps[:, column] += np.einsum("ij,ij->i", difference, difference)
        order = np.argsort(gaps, axis=1, kind="stable")
        return np.take_along_axis(near, order, axis=1), np.take_along_axis(gaps, order, axis=1)


def located(neighbours: FloatArray, squares: FloatArray, usable: NDArray[np.bool_]) -> FloatArray:
    """Return the point with these squared distances from its neighbours.  # shape: (m, d)

    |z - x_i|^2 = s_i less its mean over i is linear in z: with x_i measured from their mean, 2 x_i.z = |x_i|^2 - s_i up
    to a constant. The solution of least squares in the span of the x_i comes from their singular values.

    Shapes: (m, q, d), (m, q), (m, q). Neighbours that are not usable take no part.
    """
    share = usable / usable.sum(axis=1, keepdims=True)
    centres = np.einsum("mq,mqd->md", share, neighbours)
    X = (neighbours - centres[:, None, :]) * usable[:, :, None]
    norms = np.einsum("mqd,mqd->mq", X, X)
    targets = (norms - squares) * usable
    targets -= np.einsum("mq,mq->m", share, targets)[:, None] * usable
    U, sizes, Vt = np.linalg.svd(X, full_matrices=False)
    kept = sizes > _THIN * sizes[:, :1]
    inverse = np.where(kept, 0.5 / np.where(kept, sizes, 1.0), 0.0)
    coordinates = inverse * np.einsum("mqr,mq->mr", U, targets)
    # A point with these distances is at mean s_i - mean |x_i|^2 (squared) from the mean of its neighbours, and its foot
    # in their span no farther: distances that contradict each other do not blow it up.
    own, mean = (np.einsum("mq,mq->m", share, part) for part in (norms, squares))
    reach = np.maximum(mean - own, 0.0) + _SLACK * mean
    size = np.einsum("mr,mr->m", coordinates, coordinates)
    too_far = size > reach
    coordinates *= np.sqrt(np.where(too_far, reach, 1.0) / np.where(too_far, size, 1.0))[:, None]
    return np.asarray(np.einsum("mrd,mr->md", Vt, coordinates) + centres)
