"""From what the user says about the way back, and a fitted model, to the way itself."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from kpca.errors import InputError
from kpca.kernels import Kernel
from kpca.planning.rules import LEARNED_ROWS
from kpca.preimage.auto import Auto, AutoWay, is_radial
from kpca.preimage.distance import Distance
from kpca.preimage.fixed_point import FixedPoint, FixedPointWay
from kpca.preimage.gradient import Gradient
from kpca.preimage.learned import Learned, Ridge, RidgeWay
from kpca.preimage.limits import check_box, check_penalty
from kpca.preimage.linear import LinearWay
from kpca.preimage.report import PreimageReport
from kpca.preimage.result import Found, Way
from kpca.preimage.target import Target, expansion_of
from kpca.projection import FeatureProjection, KernelProjection, LinearProjection

FloatArray = NDArray[Any]
NAMES: dict[str, type[BaseEstimator]] = {
    "auto": Auto,
    "ridge": Ridge,
    "fixed-point": FixedPoint,
    "distance": Distance,
    "gradient": Gradient,
}
# Gains for other methods are needed to few digits.
_GAIN_TOL = 1e-2


def check_preimage(preimage: Any) -> BaseEstimator | None:
    """Return the settings that `KernelPCA(preimage=...)` names, None for None, or raise InputError."""
    if preimage is None or isinstance(preimage, (*NAMES.values(), Learned)):
        return preimage
    if isinstance(preimage, str):
        if preimage in NAMES:
            return NAMES[preimage]()
        close = difflib.get_close_matches(preimage.lower().replace("_", "-"), list(NAMES), n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise InputError(f"preimage must be one of {', '.join(map(repr, NAMES))}; got {preimage!r}.{hint}")
    if not inspect.isclass(preimage) and hasattr(preimage, "fit") and hasattr(preimage, "predict"):
        return Learned(preimage)
    raise InputError(
        f"preimage must be None, one of {', '.join(map(repr, NAMES))}, a method of kpca.preimage, or a regressor with "
        f"fit and predict; got {preimage!r}."
    )


@dataclass(frozen=True)
class Back:
    """A fitted way back, for `inverse_transform` and for `denoise`."""

    way: Way
    method: str
    reason: str
    lengthen: FixedPointWay | None = None  # finds gains, for a way that does not do so itself

    def restored(self, scores: FloatArray, *, threads: int = 1) -> Found:
        """Return the rows that scores stand for."""
        return self.way(scores, threads=threads)

    def denoised(self, inputs: FloatArray, project: Callable[[FloatArray], FloatArray], *, threads: int = 1) -> Found:
        """Return the rows that are left of inputs when only their components are kept; `project` gives scores."""
        if isinstance(self.way, FixedPointWay) and self.way.can_project:
            return self.way.denoised(inputs, threads=threads)
        scores = project(inputs)
        if self.lengthen is None:
            return self.way(scores, inputs=inputs, threads=threads)
        gains = self.lengthen(scores, inputs=inputs, threads=threads).gains
        assert gains is not None
        scores = self.lengthen.expansion.amplified(scores, gains).astype(scores.dtype)
        found = self.way(scores, inputs=inputs, threads=threads)
        return Found(found.rows, found.iterations, found.converged, found.fallbacks, gains)

    def report(self, found: Found | None = None) -> PreimageReport:
        """Return how rows were found, or if none have been, how they would be."""
        return PreimageReport.of(self.method, self.reason, found)


def fit_back(
    settings: BaseEstimator,
    kernel: Kernel,
    projection: LinearProjection | KernelProjection | FeatureProjection,
    rows: Any,
    scores: FloatArray,
    *,
    weights: FloatArray | None = None,
    seed: int = 0,
    threads: int = 1,
) -> Back:
    """Return the way back of a fitted model, by the method that the settings are of.

    `rows` are dense training rows with their scores and weights, all or many of them: maps are learned from some.
    """
    if isinstance(projection, LinearProjection) and not isinstance(settings, Learned):
        d = projection.components.shape[1]
        box, penalty = check_box(settings.box, d), check_penalty(settings.penalty)
        reason = "the linear kernel leads back exactly, whatever the method"
        return Back(LinearWay(projection.components, projection.mean, box, penalty), "linear", reason)
    some = _spread(rows.shape[0], LEARNED_ROWS)
    target = Target(kernel, rows[some], scores[some], None if weights is None else weights[some], None)
    if not isinstance(projection, LinearProjection):
        anchors = target if isinstance(projection, FeatureProjection) else Target(kernel, rows, scores, None, None)
        expansion = expansion_of(kernel, projection, anchors.rows, anchors.scores, threads=threads)
        target = Target(kernel, target.rows, target.scores, target.weights, expansion)
    way: Way = settings.fitted(target, seed=seed, threads=threads)
    back = Back(way, _name(settings), _reason(settings, way, kernel))
    if not (isinstance(settings, Distance | Gradient | Ridge) and settings.rescale and is_radial(kernel)):
        return back
    return replace(back, lengthen=FixedPoint(tol=_GAIN_TOL).fitted(target, threads=threads))


def _spread(n: int, count: int) -> slice | NDArray[np.intp]:
    """Return `count` of n rows, evenly spread, or all."""
    return slice(None) if n <= count else np.linspace(0, n - 1, count).astype(np.intp)


def _name(settings: BaseEstimator) -> str:
    if isinstance(settings, Learned):
        return type(settings.regressor).__name__
    return next(name for name, kind in NAMES.items() if isinstance(settings, kind))


def _reason(settings: BaseEstimator, way: Way, kernel: Kernel) -> str:
    """Return why this way is taken, in words."""
    if not isinstance(settings, Auto):
        return "as asked for"
    if isinstance(way, RidgeWay):
        return f"the {kernel.name} kernel has no gradient here, so the way back is learned by ridge regression"
    assert isinstance(way, AutoWay)
    looked = "fixed point" if isinstance(way.search, FixedPointWay) else "descent"
    trial = way.trial
    if not trial.held_out:
        return f"too few rows to hold some out, so rows are looked for by {looked} alone"
    shares = ", ".join(f"{share:.2f}" for share in trial.shares[:, 0])
    return (
        f"rows looked for by {looked} and rows learned by ridge are mixed; by {trial.held_out} held-out rows the share "
        f"of the former is {trial.restoring[0]:.2f} without noise, and {shares} in denoising, from clean to noisy"
    )
