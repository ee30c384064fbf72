"""The inverse map of a model: from what the user asks for to the map itself, a report on it, walks along components.

A new method is a file with a subclass of `PreimageMethod`, and a row of `METHODS`.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from kpca._base.errors import InputError, Setting
from kpca._base.linalg import FloatArray
from kpca.features.projection import FeatureProjection, KernelProjection, LinearProjection
from kpca.kernels import Kernel
from kpca.preimage.auto import Auto
from kpca.preimage.distance import Distance
from kpca.preimage.fixed_point import FixedPoint, FixedPointWay
from kpca.preimage.gradient import Gradient
from kpca.preimage.learned import Learned, Ridge
from kpca.preimage.target import Box, Found, PreimageMethod, PreimageTarget, Refit, Way, expansion_of, is_radial

# What `preimage=` may name; other floors read this table, too.
METHODS: dict[str, type[PreimageMethod]] = {
    method.name: method for method in (Auto, Ridge, FixedPoint, Distance, Gradient)
}
# Rows that a map from scores back to rows is learned from: it solves a system of that size.
LEARNED_ROWS = 3000
# Gains for other methods are needed to few digits.
_GAIN_TOL = 1e-2


@dataclass(frozen=True)
class PreimageReport:
    """What `preimage_report_` is; `str` puts it in words.

    Attributes
    ----------
    method : the method used, and `reason` why that one.
    rows : how many rows were asked for; 0 if none have been.
    iterations : (rows,) steps of each, 0 where a map was applied.
    converged : (rows,) False where `max_iter` ended the search.
    fallbacks : a sentence on what was done instead, and which rows it was done for.
    gains : (rows,) by how much the part of each row in the components was lengthened in `denoise`, or None.
    """

    method: str
    reason: str
    rows: int
    iterations: NDArray[np.intp]
    converged: NDArray[np.bool_]
    fallbacks: dict[str, NDArray[np.bool_]]
    gains: FloatArray | None

    def __str__(self) -> str:
        lines = [f"{self.method}: {self.reason}"]
        if self.rows:
            steps = f"{self.rows} rows"
            if self.iterations.any():
                steps += f", {np.median(self.iterations):.0f} steps (median), {self.iterations.max()} at most"
                if not self.converged.all():
                    steps += f"; {np.count_nonzero(~self.converged)} did not converge: raise max_iter"
            lines.append(steps)
        lines += [f"{np.count_nonzero(which)} rows: {sentence}" for sentence, which in self.fallbacks.items()]
        return "\n".join(lines)


@dataclass(frozen=True)
class LinearWay:
    """The inverse map of the linear kernel, x = mean + V t: the nearest row that has these scores."""

    components: FloatArray  # shape: (k, d)
    mean: FloatArray  # shape: (d,)
    box: Box | None = None
    penalty: float = 0.0

    def __call__(self, scores: FloatArray, *, inputs: FloatArray | None = None, threads: int = 1) -> Found:
        rows = (scores @ self.components + self.mean).astype(self.components.dtype, copy=False)
        return Found.mapped(rows, inputs, self.box, self.penalty)


def check_preimage(preimage: Any) -> PreimageMethod | None:
    """Return the settings that `KernelPCA(preimage=...)` names, None for None, or raise InputError."""
    if preimage is None or isinstance(preimage, PreimageMethod):
        return preimage
    names = ", ".join(map(repr, METHODS))
    if isinstance(preimage, str):
        if preimage in METHODS:
            return METHODS[preimage]()
        close = difflib.get_close_matches(preimage.lower().replace("_", "-"), list(METHODS), n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise InputError((Setting("preimage"), f" must be one of {names}; got {preimage!r}.{hint}"))
    if not inspect.isclass(preimage) and hasattr(preimage, "fit") and hasattr(preimage, "predict"):
        return Learned(preimage)
    must = f"must be None, one of {names}, a method of kpca.preimage, or a regressor with fit and predict"
    raise InputError(must, param="preimage", value=preimage)


@dataclass(frozen=True)
class Back:
    """The inverse map of a fitted model, for `inverse_transform` and for `denoise`."""

    way: Way
    method: str
    reason: str
    lengthen: FixedPointWay | None = None  # finds gains, for a way that does not do so itself

    def restored(self, scores: FloatArray, *, threads: int = 1) -> Found:
        return self.way(scores, threads=threads)

    def denoised(self, inputs: FloatArray, project: Callable[[FloatArray], FloatArray], *, threads: int = 1) -> Found:
        """Return the rows that are left of inputs when only their components are kept; `project` gives scores."""
        if isinstance(self.way, FixedPointWay) and self.way.can_project:
            return self.way(None, inputs=inputs, threads=threads)
        scores = project(inputs)
        if self.lengthen is None:
            return self.way(scores, inputs=inputs, threads=threads)
        gains = self.lengthen(scores, inputs=inputs, threads=threads).gains
        scores = self.lengthen.expansion.amplified(scores, gains)
        return replace(self.way(scores, inputs=inputs, threads=threads), gains=gains)

    def report(self, found: Found | None = None) -> PreimageReport:
        """Return how rows were found, or if none have been, how they would be."""
        found = found or Found(np.empty((0, 0)), np.empty(0, np.intp), np.empty(0, bool))
        how = len(found.rows), found.iterations, found.converged, found.fallbacks, found.gains
        return PreimageReport(self.method, self.reason, *how)


def fit_back(
    settings: PreimageMethod,
    kernel: Kernel,
    projection: LinearProjection | KernelProjection | FeatureProjection,
    rows: Any,
    scores: FloatArray,
    *,
    weights: FloatArray | None = None,
    seed: int = 0,
    threads: int = 1,
    refit: Refit | None = None,
) -> Back:
    """Return the inverse map of a fitted model, by the method that the settings are of.

    `rows` are dense training rows with their scores and weights, all or many of them: maps are learned from some.
    `refit` fits a smaller model, which "auto" weighs its methods on.
    """
    if isinstance(projection, LinearProjection) and settings.exact_if_linear:
        limits = settings.limits(projection.components.shape[1])
        reason = "the linear kernel leads back exactly, whatever the method"
        return Back(LinearWay(projection.components, projection.mean, *limits), "linear", reason)
    n = rows.shape[0]
    some = slice(None) if n <= LEARNED_ROWS else np.linspace(0, n - 1, LEARNED_ROWS).astype(np.intp)
    target = PreimageTarget(kernel, rows[some], scores[some], None if weights is None else weights[some], None, refit)
    if not isinstance(projection, LinearProjection):
        known = (target.rows, target.scores) if isinstance(projection, FeatureProjection) else (rows, scores)
        target = replace(target, expansion=expansion_of(kernel, projection, *known, threads=threads))
    way: Way = settings.fitted(target, seed=seed, threads=threads)
    lengthen = None
    if settings.takes_gains and settings.rescale and is_radial(kernel):
        lengthen = FixedPoint(tol=_GAIN_TOL).fitted(target, threads=threads)
    return Back(way, settings.name, settings.reason(way, kernel), lengthen)


def traverse(
    model: Any, component: int = 0, steps: int | FloatArray = 9, *, span: float = 2.0, around: Any = None
) -> tuple[FloatArray, FloatArray]:
    """Return the pre-images of points along a component: what it looks like in the data.

    Parameters
    ----------
    model : a fitted KernelPCA or IncrementalKernelPCA that has an inverse map (`preimage="auto"`, say).
    component : its number, from 0.
    steps : how many points, evenly spread over `span` standard deviations either way; or the positions themselves.
    around : None starts from the mean in feature space, a row of data from its scores.

    Returns
    -------
    positions : (s,) in standard deviations of the component.
    rows : (s, d)

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> import kpca
    >>> X, _ = load_digits(return_X_y=True)
    >>> model = kpca.KernelPCA(8, kernel="rbf", gamma="median", preimage="fixed-point").fit(X[:300])
    >>> positions, rows = kpca.preimage.traverse(model, 0, steps=5)
    >>> positions.tolist(), rows.shape
    ([-2.0, -1.0, 0.0, 1.0, 2.0], (5, 64))
    """
    check_is_fitted(model)
    k = int(model.n_components_)
    if isinstance(component, bool) or not isinstance(component, Integral) or not 0 <= component < k:
        raise InputError(f"component must be a whole number from 0 to {k - 1}; got {component!r}.")
    if isinstance(steps, Integral) and not isinstance(steps, bool):
        if steps < 1 or isinstance(span, bool) or not isinstance(span, Real) or not np.isfinite(float(span)):
            raise InputError(f"steps must be at least 1 and span a finite number; got {steps!r} and {span!r}.")
        positions = np.linspace(-span, span, int(steps)) if steps > 1 else np.zeros(1)
    else:
        try:
            positions = np.asarray(steps, dtype=np.float64)
        except (TypeError, ValueError):
            positions = np.empty(0)
        if positions.ndim != 1 or not len(positions) or not np.isfinite(positions).all():
            raise InputError(f"steps must be a number of points or a list of finite positions; got {steps!r}.")
    scores = np.zeros((len(positions), k), dtype=model.eigenvalues_.dtype)
    if around is not None:
        row = around if np.ndim(around) == 2 else np.atleast_2d(np.asanyarray(around))  # a frame keeps its names
        if row.shape[0] != 1:
            raise InputError(f"around must be one row of data; got {row.shape[0]}.")
        scores[:] = model.transform(row)
    deviation = float(np.sqrt(model.explained_variance_[component]))
    scores[:, component] = positions * deviation + (scores[:, component] if around is not None else 0.0)
    return positions, model.inverse_transform(scores)
