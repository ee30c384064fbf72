"""What pre-image methods share: what a model offers them, settings that all of them have, and how they return rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from sklearn.base import BaseEstimator

from kpca._base.config import memory_limit
from kpca._base.errors import InputError, Setting, Words
from kpca._base.linalg import FloatArray
from kpca._base.threads import in_order, single_threaded
from kpca.features.projection import FeatureProjection, KernelProjection
from kpca.gram.slopes import rows_per_tile
from kpca.kernels import Kernel, RadialKernel, Scaled

Box = tuple[FloatArray, FloatArray]  # the lowest and the highest value of each feature, shapes: (d,), (d,)
# Kernel PCA of other rows: (kernel, rows, count, center, tol, seed, threads) -> projection, scores of the rows
Refit = Callable[..., tuple[KernelProjection, FloatArray]]
# Ridge, relative to the mean diagonal, when random features are expressed by rows: what is small is noise.
_ANCHOR_RIDGE = 1e-8
# Bytes for each kernel value of a tile: all the arrays of its size that a method holds at once.
_BYTES = 64
# Of a limit that is set, the share that tiles may take; the rest is for the rows themselves.
_SHARE = 0.5


@dataclass(frozen=True)
class Found:
    """Pre-images of some scores: finite, always; what was done instead where the method failed is in `fallbacks`."""

    rows: FloatArray  # shape: (m, d)
    iterations: NDArray[np.intp]  # 0 where a map was applied, shape: (m,)
    converged: NDArray[np.bool_]  # shape: (m,)
    fallbacks: dict[str, NDArray[np.bool_]] = field(default_factory=dict)  # a sentence -> which rows, shape: (m,)
    gains: FloatArray | None = None  # by how much scores were multiplied, where they were, shape: (m,)

    @staticmethod
    def empty(m: int, like: FloatArray, *, gains: bool = False) -> Found:
        rows = np.empty((m, like.shape[1]), like.dtype)
        return Found(rows, np.zeros(m, np.intp), np.zeros(m, bool), {}, np.ones(m) if gains else None)

    @staticmethod
    def mapped(
        rows: FloatArray,
        inputs: FloatArray | None = None,
        box: Box | None = None,
        penalty: float = 0.0,
        fallbacks: dict[str, NDArray[np.bool_]] | None = None,
    ) -> Found:
        """Return the rows of a map, which takes no steps: pulled towards the inputs, and inside the box."""
        some = {sentence: which for sentence, which in (fallbacks or {}).items() if which.any()}
        if inputs is not None and penalty:  # the pull of a method that has no objective to add it to
            rows = ((rows + penalty * inputs) / (1.0 + penalty)).astype(rows.dtype, copy=False)
        failed = np.logical_or.reduce([np.zeros(len(rows), bool), *some.values()])
        return Found(inside(rows, box), np.zeros(len(rows), np.intp), ~failed, some)

    @staticmethod
    def in_tiles(
        pieces: list[slice], work: Callable[[slice], Found], like: FloatArray, threads: int, *, gains: bool = False
    ) -> Found:
        found = Found.empty(pieces[-1].stop if pieces else 0, like, gains=gains)
        in_order(pieces, lambda: work, found.write, threads)
        return found

    def write(self, rows: slice | NDArray[np.bool_], part: Found) -> None:
        self.rows[rows], self.iterations[rows], self.converged[rows] = part.rows, part.iterations, part.converged
        if self.gains is not None and part.gains is not None:
            self.gains[rows] = part.gains
        for sentence, which in part.fallbacks.items():
            if which.any():
                self.fallbacks.setdefault(sentence, np.zeros(len(self.rows), bool))[rows] = which

    @staticmethod
    def joined(parts: list[Found]) -> Found:
        if len(parts) == 1:
            return parts[0]
        if not parts:
            raise InputError("X must have rows; got none.")
        ends = np.cumsum([len(part.rows) for part in parts]).tolist()
        joined = Found.empty(ends[-1], parts[0].rows, gains=parts[0].gains is not None)
        for part, end in zip(parts, ends, strict=True):
            joined.write(slice(end - len(part.rows), end), part)
        return joined


class Way(Protocol):
    """An inverse map: from scores to rows of data."""

    def __call__(self, scores: FloatArray, *, inputs: FloatArray | None = None, threads: int = 1) -> Found:
        """Return a row for each row of scores; `inputs` are the rows that the scores are of, where they are known."""


class PreimageMethod(BaseEstimator):  # type: ignore[misc]
    """Settings of a pre-image method; its `fitted(target, seed=..., threads=...)` gives the inverse map of a model."""

    name = ""  # in KernelPCA(preimage=...)
    box: Any
    penalty: float
    rescale: bool  # not of all methods
    exact_if_linear = True  # False where the linear kernel is to use it too, though its own inverse map is exact
    takes_gains = False  # whether `denoise` lengthens the scores for it, if it has a `rescale` that is True

    def limits(self, d: int) -> tuple[Box | None, float]:
        """Return the box and the penalty, a finite number from 0."""
        box, penalty = self.box, self.penalty
        if box is not None:
            try:
                low, high = (np.broadcast_to(np.asarray(edge, dtype=np.float64), (d,)) for edge in box)
            except (TypeError, ValueError) as error:
                raise InputError(
                    f"must be None or a pair (low, high) of numbers, or of {d} numbers each, one per feature",
                    param="box",
                    value=box,
                ) from error
            if np.isnan(low).any() or np.isnan(high).any() or (low > high).any():
                raise InputError("must have low <= high for every feature", param="box", value=box)
            box = low, high
        if isinstance(penalty, bool) or not isinstance(penalty, Real) or not 0.0 <= float(penalty) < np.inf:
            raise InputError("must be a finite number, 0 or larger", param="penalty", value=penalty)
        return box, float(penalty)

    def rescales(self) -> bool:
        """Return whether rows are to be rescaled: True or False, nothing that happens to be one of them."""
        if not isinstance(self.rescale, bool | np.bool_):
            raise InputError("must be True or False", param="rescale", value=self.rescale)
        return bool(self.rescale)

    def reason(self, way: Any, kernel: Kernel) -> str:
        return "as asked for"

    def expansion(self, target: PreimageTarget) -> Expansion:
        """Return the expansion of a model, or raise InputError if it has none."""
        if target.expansion is None:
            raise self.refusal("a model that is a combination of known rows, which this one is not")
        return target.expansion

    def refusal(self, needs: str, instead: str = "ridge") -> InputError:
        """Return the error that the method needs something else, and which method does not."""
        message: Words = (Setting("preimage", self.name), f" needs {needs}")
        return InputError(message, remedy=("take ", Setting("preimage", instead)))


def inside(rows: FloatArray, box: Box | None) -> FloatArray:
    if box is None:
        return rows
    return np.clip(rows, box[0].astype(rows.dtype), box[1].astype(rows.dtype))


def unscaled(kernel: Kernel) -> tuple[float, Kernel]:
    factor = 1.0
    while isinstance(kernel, Scaled):
        factor, kernel = factor * kernel.factor, kernel.kernel
    return factor, kernel


def is_radial(kernel: Kernel) -> bool:
    return isinstance(unscaled(kernel)[1], RadialKernel)


@dataclass(frozen=True)
class Expansion:
    """The map from scores to combinations of rows, and what inner products with these rows are."""

    kernel: Kernel
    rows: FloatArray  # b, dense, shape: (n, d)
    directions: FloatArray  # A, float64, shape: (n, k)
    centre: FloatArray  # c, float64; 0 for a model that is not centred, shape: (n,)
    offset: FloatArray  # A' K c, so that A' k_x = t + offset, shape: (k,)
    scores: FloatArray  # of the rows b, shape: (n, k)
    levels: FloatArray  # K c = <mean, phi(b_j)>, shape: (n,)
    diagonal: FloatArray  # k(b_j, b_j), shape: (n,)
    centre_square: float  # c' K c, the squared length of the mean

    def coefficients(self, scores: FloatArray) -> FloatArray:
        """Return g of each row of scores.  # shape: (m, n)"""
        return np.asarray(scores @ self.directions.T + self.centre)

    def amplified(self, scores: FloatArray, gains: FloatArray | None) -> FloatArray:
        """Return the scores of gain * phi(x), for scores of phi(x): A' (gain k_x) - offset.  # shape: (m, k)"""
        if gains is None:
            return scores
        return np.asarray(gains[:, None] * (scores + self.offset) - self.offset).astype(scores.dtype)

    def products(self, scores: FloatArray) -> FloatArray:
        """Return <P phi, phi(b_j)>; no kernel value is computed.  # shape: (m, n)"""
        return np.asarray(scores @ (self.scores + self.offset).T + self.levels)

    def squares(self, scores: FloatArray) -> FloatArray:
        """Return |P phi|^2.  # shape: (m,)"""
        return np.asarray((scores * (scores + 2.0 * self.offset)).sum(axis=1) + self.centre_square)

    def distances(self, scores: FloatArray) -> FloatArray:
        """Return |P phi - phi(b_j)|^2, at least 0.  # shape: (m, n)"""
        distances = self.squares(scores)[:, None] - 2.0 * self.products(scores) + self.diagonal
        return np.maximum(distances, 0.0, out=distances)


@dataclass(frozen=True)
class PreimageTarget:
    """A kernel, some rows with their scores, and how scores combine rows in feature space."""

    kernel: Kernel
    rows: FloatArray  # training rows, all or some of them, shape: (n, d)
    scores: FloatArray  # theirs, shape: (n, k)
    weights: FloatArray | None  # theirs, all positive, shape: (n,)
    expansion: Expansion | None  # None where the model has none
    refit: Refit | None = None  # how a model of fewer rows is fitted, for methods that are weighed on held-out ones


def expansion_of(
    kernel: Kernel,
    projection: KernelProjection | FeatureProjection,
    rows: FloatArray,
    scores: FloatArray,
    *,
    threads: int = 1,
) -> Expansion:
    """Return how scores combine rows: training rows, landmarks, or for random features the rows given.

    `scores` are those of `rows`; where the model compares new rows with these very rows they need not be found again.
    """
    if isinstance(projection, FeatureProjection):
        return _anchored(kernel, projection, rows, threads)
    base = projection.X
    if base is not rows:
        scores = projection(base, threads=threads)
    centre, levels = np.zeros((2, base.shape[0]))
    if projection.centre is not None:
        centre, levels = projection.centre.coefficients, projection.centre.levels
    own = levels, kernel.diagonal(base), float(centre @ levels)
    directions = projection.coefficients.astype(np.float64)
    return Expansion(kernel, base, directions, centre, projection.offset, scores.astype(np.float64), *own)


def _anchored(kernel: Kernel, projection: FeatureProjection, rows: FloatArray, threads: int) -> Expansion:
    """Return the combinations of rows whose random features come nearest to the directions and the mean."""
    # Inner products are those of the features, as in the scores of all rows: scores of known rows by the kernel itself
    # would differ from those of the same rows by their features, and no row be at distance 0 from itself.
    F = projection.feature_map(rows, threads=threads).astype(np.float64)
    wanted = np.column_stack([projection.directions, projection.mean]).astype(np.float64)
    with single_threaded():
        images = F @ wanted
        G = F @ F.T
        diagonal = G.diagonal().copy()
        G.flat[:: len(G) + 1] += _ANCHOR_RIDGE * max(float(np.trace(G)) / len(G), np.finfo(np.float64).tiny)
        combined = cho_solve(cho_factor(G, overwrite_a=True), images)
    offset = projection.offset.astype(np.float64)
    own = images[:, :-1] - offset, images[:, -1], diagonal, float(projection.mean @ projection.mean)
    return Expansion(kernel, rows, np.ascontiguousarray(combined[:, :-1]), combined[:, -1], offset, *own)


def tile_rows(n: int, threads: int) -> int:
    """Return the rows of a tile against n known rows: a matter of n alone, or of a limit that was set."""
    rows, limit = rows_per_tile(n), memory_limit()
    if limit is None:
        return rows
    return max(1, min(rows, int(_SHARE * limit) // (max(threads, 1) * max(n, 1) * _BYTES)))
