"""Pre-images without a choice: a mixture of what is found and what is learned, weighed on rows that were held out.

A row found by fixed point (or descent) and one predicted by ridge regression err in different ways, and their mean is
often better than either. How much each counts depends on how far a row is from the components: it is settled at the
fit, by kernel PCA of a part of the rows and pre-images of others, to which noise of several sizes has been added.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from kpca.decompose import Request, decompose
from kpca.gram.slopes import why_not
from kpca.kernels import Kernel, RadialKernel, Scaled
from kpca.preimage.fixed_point import FixedPoint, FixedPointWay
from kpca.preimage.gradient import Gradient, GradientWay
from kpca.preimage.learned import Ridge, RidgeWay
from kpca.preimage.lengthened import lengthened_ridge, lengthening
from kpca.preimage.limits import check_box, check_penalty, check_rescale
from kpca.preimage.result import Found
from kpca.preimage.target import Target, expansion_of
from kpca.projection import KernelProjection

FloatArray = NDArray[Any]
# Rows that the weights are settled on, and rows of the model they are settled with.
_HELD_OUT, _FITTED, _FEWEST = 200, 1000, 20
_HELD_SHARE = 0.2
# Of components the same share of the rows is taken as in the model, or this one where the model has a smaller.
_COMPONENT_SHARE = 1 / 3
_TOL = 1e-4
# Variances of the noise added, in units of the variance of each feature.
_NOISE = (0.0, 0.125, 0.5, 2.0)


class Auto(BaseEstimator):  # type: ignore[misc]
    """The way back that suits the kernel: fixed point or descent together with ridge, weighed on held-out rows.

    Parameters
    ----------
    box : None, or (low, high) of numbers or arrays; results lie inside.
    penalty : float
        Pull towards the input in `denoise`.
    rescale : bool
        In `denoise`, undo what noise does to the length of the projection (radial kernels).
    """

    def __init__(self, *, box: Any = None, penalty: float = 0.0, rescale: bool = True) -> None:
        self.box = box
        self.penalty = penalty
        self.rescale = rescale

    def fitted(self, target: Target, *, seed: int = 0, threads: int = 1) -> AutoWay | RidgeWay:
        """Return the way back for a model."""
        check_box(self.box, target.rows.shape[1])
        check_penalty(self.penalty)
        check_rescale(self.rescale)
        ridge = Ridge(box=self.box, penalty=self.penalty).fitted(target, seed=seed, threads=threads)
        searching = self._searching(target.kernel)
        if searching is None or target.expansion is None:
            return ridge
        search = searching.fitted(target, seed=seed, threads=threads)
        trial = Trial.of(target, self._searching(target.kernel, free=True), ridge, seed=seed, threads=threads)
        return AutoWay(search, ridge, _for_denoising(search, ridge, target, threads), trial)

    def _searching(self, kernel: Kernel, *, free: bool = False) -> FixedPoint | Gradient | None:
        """Return the method that looks for rows under this kernel, without box and penalty if `free`."""
        limits: dict[str, Any] = {} if free else {"box": self.box, "penalty": self.penalty}
        if is_radial(kernel):
            return FixedPoint(rescale=self.rescale, **limits)
        return Gradient(**limits) if why_not(kernel) is None else None


def is_radial(kernel: Kernel) -> bool:
    """Return True for kernels of the distance and multiples of them."""
    while isinstance(kernel, Scaled):
        kernel = kernel.kernel
    return isinstance(kernel, RadialKernel)


@dataclass(frozen=True)
class Trial:
    """What held-out rows said: mean squared errors of either way and of the mixture, at several sizes of noise."""

    shares: FloatArray  # of the row that was looked for, by size of noise, shape: (levels,)
    gaps: FloatArray  # squared distance of denoised from noisy rows over the variance, by size of noise
    restoring: float  # its share where only scores are known
    errors: FloatArray  # looked for, learned, mixed; nothing if there were too few rows, shape: (levels, 3)
    variance: float  # sum of the variances of the features
    held_out: int

    @staticmethod
    def of(target: Target, searching: Any, ridge: RidgeWay, *, seed: int, threads: int) -> Trial:
        """Settle the weights for a model, with the bandwidth and the penalty that its own ridge map found."""
        rows, expansion = target.rows, target.expansion
        assert expansion is not None
        n = len(rows)
        variance = float(np.var(rows, axis=0, dtype=np.float64).sum())
        held = min(int(_HELD_SHARE * n), _HELD_OUT)
        if n < _FEWEST or not variance:
            return Trial(np.ones(1), np.zeros(1), 1.0, np.empty((0, 3)), variance, 0)
        rng = np.random.default_rng(seed)
        order = rng.permutation(n)
        test, train = rows[order[:held]], rows[np.sort(order[held : held + _FITTED])]
        k = expansion.directions.shape[1]
        share = max(k / len(expansion.rows), _COMPONENT_SHARE)
        count = max(1, min(k, int(share * len(train))))
        request = Request(count, _TOL, center=bool(expansion.centre.any()), seed=seed, threads=threads)
        found = decompose(target.kernel, np.ascontiguousarray(train), None, request)
        projection = found.projection
        assert isinstance(projection, KernelProjection)
        scores = found.spectrum.scores(None).astype(rows.dtype)
        small = Target(
            target.kernel, train, scores, None, expansion_of(target.kernel, projection, projection.X, scores)
        )
        search = searching.fitted(small, seed=seed, threads=threads)
        learned = Ridge(alpha=ridge.alpha, gamma=ridge.gamma or None).fitted(small, seed=seed, threads=threads)
        lengthened = _for_denoising(search, learned, small, threads)
        spread = np.std(rows, axis=0, dtype=np.float64)
        noise = rng.standard_normal(test.shape) * spread
        shares, gaps, errors = [], [], []
        for level in _NOISE:
            noisy = (test + np.sqrt(level) * noise).astype(rows.dtype)
            its = projection(noisy, threads=threads)
            rows_found, rows_learned = _both(search, lengthened, its, noisy, threads)
            mixture = _mixture(rows_found, rows_learned, test)
            shares.append(mixture[0])
            errors.append(mixture[1:])
            gaps.append(float(np.square(rows_found - noisy, dtype=np.float64).sum(axis=1).mean()))
        its = projection(test, threads=threads)
        plain = _mixture(search(its, threads=threads).rows, learned(its, threads=threads).rows, test)
        gaps_sorted = np.maximum.accumulate(np.array(gaps)) / variance
        return Trial(np.array(shares), gaps_sorted, plain[0], np.array(errors), variance, held)


def _for_denoising(search: FixedPointWay | GradientWay, ridge: RidgeWay, target: Target, threads: int) -> RidgeWay:
    """Return the learned map for scores of the length that the search gives them."""
    if not isinstance(search, FixedPointWay) or not search.rescale:
        return ridge
    return lengthened_ridge(ridge, target, lengthening(target), threads=threads)


def _both(
    search: FixedPointWay | GradientWay, learned: RidgeWay, scores: FloatArray, inputs: FloatArray, threads: int
) -> tuple[FloatArray, FloatArray]:
    """Return denoised rows of either way; what is learned is learned of scores of the right length."""
    found = search(scores, inputs=inputs, threads=threads)
    if found.gains is not None:
        scores = search.expansion.amplified(scores, found.gains)
    return found.rows, learned(scores, inputs=inputs, threads=threads).rows


def _mixture(found: FloatArray, learned: FloatArray, truth: FloatArray) -> tuple[float, float, float, float]:
    """Return the share of the rows found that brings the mixture nearest to the truth, and three squared errors."""
    apart = (learned - found).astype(np.float64)
    square = float(np.vdot(apart, apart))
    share = float(np.vdot(learned - truth, apart)) / square if square > 0 else 1.0
    share = min(max(share, 0.0), 1.0)
    mixed = share * found + (1.0 - share) * learned
    errors = [float(np.square(rows - truth).sum(axis=1).mean()) for rows in (found, learned, mixed)]
    return share, errors[0], errors[1], errors[2]


@dataclass(frozen=True)
class AutoWay:
    """Rows looked for and rows learned, mixed."""

    search: FixedPointWay | GradientWay
    ridge: RidgeWay
    denoising: RidgeWay  # the same for scores with gains
    trial: Trial

    def __call__(self, scores: FloatArray, *, inputs: FloatArray | None = None, threads: int = 1) -> Found:
        """Return a row for each row of scores."""
        if inputs is None and self.trial.restoring == 0.0:
            return self.ridge(scores, threads=threads)
        found = self.search(scores, inputs=inputs, threads=threads)
        if inputs is None:
            shares = np.full(len(scores), self.trial.restoring)
        else:
            gaps = np.square(found.rows - inputs, dtype=np.float64).sum(axis=1) / (self.trial.variance or 1.0)
            shares = np.interp(gaps, self.trial.gaps, self.trial.shares)
        if inputs is not None and found.gains is not None:
            scores = self.search.expansion.amplified(scores, found.gains).astype(scores.dtype)
        learned = (self.ridge if inputs is None else self.denoising)(scores, inputs=inputs, threads=threads)
        mixed = shares[:, None] * found.rows + (1.0 - shares)[:, None] * learned.rows
        fallbacks = {**found.fallbacks, **learned.fallbacks}
        return Found(mixed.astype(found.rows.dtype), found.iterations, found.converged, fallbacks, found.gains)
