"""Pre-images without a choice: a mixture of what is found and what is learned, weighed on rows that were held out.

A row found by fixed point (or descent) and one predicted by ridge regression err in different ways, and their mean is
often better than either. How much each counts depends on how far a row is from the components: it is settled at the
fit, by kernel PCA of a part of the rows and pre-images of others, to which noise of several sizes has been added. What
is learned is learned twice, with the penalty that suits rows without noise and with one that suits noisy ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import nnls

from kpca._base.linalg import FloatArray
from kpca.gram.slopes import why_not
from kpca.kernels import Kernel, resolve_gamma
from kpca.preimage.distance import Distance, DistanceWay
from kpca.preimage.fixed_point import FixedPoint, FixedPointWay
from kpca.preimage.gradient import Gradient, GradientWay
from kpca.preimage.learned import Ridge, RidgeWay
from kpca.preimage.target import Found, PreimageMethod, PreimageTarget, Way, expansion_of, inside, is_radial

# Rows that the shares are settled on, and rows of the model they are settled with.
_HELD_OUT, _FITTED, _FEWEST = 200, 1000, 20
_HELD_SHARE = 0.2
# Of components the same share of the rows is taken as in the model, or this one where the model has a smaller.
_COMPONENT_SHARE = 1 / 3
_TOL = 1e-4
# Variances of the noise added, in units of the variance of each feature.
_NOISE = (0.0, 0.125, 0.5, 2.0)
# Penalties among which that of the second map is chosen, in units of k(t, t) = 1.
_PENALTIES = (1e-2, 1e-1, 1.0)


class Auto(PreimageMethod):
    """The inverse map that suits the kernel: rows looked for, learned and found by distances, weighed on held-out rows.

    Parameters
    ----------
    box : None, or (low, high) of numbers or arrays; results lie inside.
    penalty : float
        Pull towards the input in `denoise`.
    rescale : bool
        In `denoise`, undo what noise does to the length of the projection (radial kernels).
    """

    name = "auto"

    def __init__(self, *, box: Any = None, penalty: float = 0.0, rescale: bool = True) -> None:
        self.box, self.penalty, self.rescale = box, penalty, rescale

    def fitted(self, target: PreimageTarget, *, seed: int = 0, threads: int = 1) -> AutoWay | RidgeWay:
        self.limits(target.rows.shape[1])
        self.rescales()
        ridge = Ridge(box=self.box, penalty=self.penalty).fitted(target, seed=seed, threads=threads)
        searching = self._searching(target.kernel)
        if searching is None or target.expansion is None:
            return ridge
        search = searching.fitted(target, seed=seed, threads=threads)
        trial = Trial.of(target, self._searching(target.kernel, free=True), ridge, seed=seed, threads=threads)
        trial = trial.seen_by(search, target, seed=seed, threads=threads)
        smooth = Ridge(alpha=trial.penalty, gamma=_wide(target.scores), box=self.box, penalty=self.penalty)
        ways: list[RidgeWay | DistanceWay] = [ridge, smooth.fitted(target, seed=seed, threads=threads)]
        if isinstance(search, FixedPointWay):
            ways.append(Distance(box=self.box, penalty=self.penalty).fitted(target, seed=seed, threads=threads))
        return AutoWay(search, tuple(ways), trial)

    def _searching(self, kernel: Kernel, *, free: bool = False) -> FixedPoint | Gradient | None:
        """Return the method that looks for rows under this kernel, without box and penalty if `free`."""
        limits: dict[str, Any] = {} if free else {"box": self.box, "penalty": self.penalty}
        if is_radial(kernel):
            return FixedPoint(rescale=self.rescale, **limits)
        return Gradient(**limits) if why_not(kernel) is None else None

    def reason(self, way: Any, kernel: Kernel) -> str:
        if not isinstance(way, AutoWay):
            return f"the {kernel.name} kernel has no gradient here, so the way back is learned by ridge regression"
        looked, trial = "fixed point" if isinstance(way.search, FixedPointWay) else "descent", way.trial
        if not trial.held_out:
            return f"too few rows to hold some out, so rows are looked for by {looked} alone"
        shares = ", ".join(f"{share:.2f}" for share in trial.shares[:, 0])
        return (
            f"rows looked for by {looked} and rows learned by ridge are mixed; by {trial.held_out} held-out rows the "
            f"share of the former is {trial.restoring[0]:.2f} without noise, and {shares} in denoising, from clean to "
            "noisy"
        )


@dataclass(frozen=True)
class Trial:
    """What held-out rows said: the shares of the rows looked for, learned, learned with the larger penalty, and, of
    radial kernels, found by distances.
    """

    shares: FloatArray  # by size of noise, shape: (levels, members)
    gaps: FloatArray  # squared distance of denoised from noisy rows over the variance, by size of noise
    restoring: FloatArray  # the shares where only scores are known, shape: (members,)
    errors: FloatArray  # mean squared ones, of the members and last of the mixture, shape: (levels, members + 1)
    penalty: float  # the larger one
    variance: float  # sum of the variances of the features
    held_out: int

    @staticmethod
    def of(target: PreimageTarget, searching: Any, ridge: RidgeWay, *, seed: int, threads: int) -> Trial:
        """Settle the shares for a model, with the bandwidth and the penalty that its own ridge map found."""
        rows, n = target.rows, len(target.rows)
        variance = float(np.var(rows, axis=0, dtype=np.float64).sum())
        if n < _FEWEST or not variance:
            alone = np.array([1.0, 0.0, 0.0, 0.0][: 4 if is_radial(target.kernel) else 3])
            return Trial(alone[None], np.zeros(1), alone, np.empty((0, 5)), _PENALTIES[0], variance, 0)
        held = min(int(_HELD_SHARE * n), _HELD_OUT)
        rng = np.random.default_rng(seed)
        order = rng.permutation(n)
        test, train = rows[order[:held]], np.ascontiguousarray(rows[np.sort(order[held : held + _FITTED])])
        # kernel PCA of some of the rows, with as many components for its size as the model has
        expansion, kernel = target.expansion, target.kernel
        assert expansion is not None and target.refit is not None
        k = expansion.directions.shape[1]
        count = max(1, min(k, int(max(k / len(expansion.rows), _COMPONENT_SHARE) * len(train))))
        how = {"center": bool(expansion.centre.any()), "tol": _TOL, "seed": seed, "threads": threads}
        projection, known = target.refit(kernel, train, count, **how)
        known = known.astype(train.dtype)
        expansion = expansion_of(kernel, projection, train, known, threads=threads)
        small = PreimageTarget(kernel, train, known, None, expansion)
        search = searching.fitted(small, seed=seed, threads=threads)
        noise = rng.standard_normal(test.shape) * np.std(rows, axis=0, dtype=np.float64)
        cases, gaps = [], []  # rows found in place of noisy ones with scores of the length found; how far they are
        for level in _NOISE:
            part = (test + np.sqrt(level) * noise).astype(rows.dtype)
            scores = projection(part, threads=threads)
            if np.isfinite(scores).all():  # not every kernel is defined for every noisy row
                found = search(scores, inputs=part, threads=threads)
                cases.append((found.rows, search.expansion.amplified(scores, found.gains)))
                gaps.append(float(np.square(found.rows - part, dtype=np.float64).sum(axis=1).mean()))

        def learned(alpha: float, gamma: float | None) -> RidgeWay:
            return Ridge(alpha=alpha, gamma=gamma).fitted(small, seed=seed, threads=threads)

        firm, wide = learned(ridge.alpha, ridge.gamma or None), _wide(small.scores)
        others = [Distance().fitted(small)] if isinstance(search, FixedPointWay) else []
        tried = []
        for penalty in _PENALTIES:
            ways: list[Way] = [firm, learned(penalty, wide), *others]
            tried.append([_mixture([x, *(way(t, threads=threads).rows for way in ways)], test) for x, t in cases])
        # relative to the best of each size of noise, so that the largest does not decide alone
        mixed = np.array([[errors[-1] for _, errors in mixtures] for mixtures in tried])
        best = int(np.argmin((mixed / np.maximum(mixed.min(axis=0), 1e-300)).sum(axis=1)))
        shares, errors = (np.array(part) for part in zip(*tried[best], strict=True))
        clean = projection(test, threads=threads)
        plain = [search(clean, threads=threads).rows, firm(clean, threads=threads).rows]
        restoring = np.append(_mixture(plain, test)[0], np.zeros(1 + len(others)))
        far = np.maximum.accumulate(gaps) / variance
        return Trial(shares, far, restoring, errors, _PENALTIES[best], variance, held)

    def seen_by(self, search: Any, target: PreimageTarget, *, seed: int, threads: int) -> Trial:
        """Return the trial with the gaps that the model itself leaves, which has more rows to explain noise with."""
        if not (self.held_out and isinstance(search, FixedPointWay) and search.can_project):
            return self
        rows = target.rows[np.linspace(0, len(target.rows) - 1, self.held_out).astype(np.intp)]
        noise = np.random.default_rng(seed).standard_normal(rows.shape) * np.std(target.rows, axis=0, dtype=np.float64)
        gaps = []
        for level in _NOISE:
            noisy = (rows + np.sqrt(level) * noise).astype(rows.dtype)
            found = search(None, inputs=noisy, threads=threads).rows
            gaps.append(np.square(found - noisy, dtype=np.float64).sum(axis=1).mean() / self.variance)
        return replace(self, gaps=np.maximum.accumulate(gaps))


def _wide(scores: FloatArray) -> float | None:
    """Return the gamma of the second map: 1 over the median squared distance of scores, None if they are all alike."""
    median = 2.0 * float(resolve_gamma("median", scores))
    return median if 0.0 < median < np.inf else None


def _mixture(members: list[FloatArray], truth: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the shares that bring the mixture nearest to the truth, and the squared errors of all and of that."""
    gaps = [(rows - truth).ravel().astype(np.float64) for rows in members]
    errors = [float(gap @ gap) / len(truth) for gap in gaps]
    # least squares of sum_i w_i gap_i with w >= 0; that they sum to 1 is one more, heavy equation
    heavy = 1e3 * np.sqrt(max(errors) * len(truth)) or 1.0
    A = np.vstack([np.column_stack(gaps), np.full(len(members), heavy)])
    b = np.append(np.zeros(len(A) - 1), heavy)
    shares = np.asarray(nnls(A, b)[0])
    shares = shares / shares.sum()
    mixed = sum(share * gap for share, gap in zip(shares, gaps, strict=True))
    return shares, np.array([*errors, float(np.square(mixed).sum()) / len(truth)])


@dataclass(frozen=True)
class AutoWay:
    """Rows looked for and rows learned, mixed."""

    search: FixedPointWay | GradientWay
    others: tuple[RidgeWay | DistanceWay, ...]  # learned, learned with the larger penalty, by distances
    trial: Trial

    def __call__(self, scores: FloatArray, *, inputs: FloatArray | None = None, threads: int = 1) -> Found:
        if inputs is None and self.trial.restoring[0] == 0.0:
            return self.others[0](scores, threads=threads)
        found = self.search(scores, inputs=inputs, threads=threads)
        if inputs is None:
            shares = np.tile(self.trial.restoring, (len(scores), 1))
        else:
            gaps = np.square(found.rows - inputs, dtype=np.float64).sum(axis=1) / (self.trial.variance or 1.0)
            shares = np.column_stack([np.interp(gaps, self.trial.gaps, column) for column in self.trial.shares.T])
            scores = self.search.expansion.amplified(scores, found.gains)
        mixed = shares[:, :1] * found.rows
        fallbacks = dict(found.fallbacks)
        for way, share in zip(self.others, shares[:, 1:].T, strict=True):
            if share.any():
                rows = way(scores, inputs=inputs, threads=threads)
                mixed += share[:, None] * rows.rows
                fallbacks |= rows.fallbacks
        mixed = inside(mixed.astype(found.rows.dtype), self.others[0].box)  # a mean of rows in a box, up to rounding
        return Found(mixed, found.iterations, found.converged, fallbacks, found.gains)
