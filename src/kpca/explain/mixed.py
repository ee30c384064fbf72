"""How strongly pairs of variables act together in components: three ways to make one number of mixed derivatives.

With t_j the score on component j, h_j = d^2 t_j / dx^p dx^q and g_j the gradient of t_j:

total: the mean over samples of the norm of h over components. Every pair has some in a kernel that is itself a product,
    as exp(-|x|^2) is, and how much depends on the distribution of each variable alone: so compare with a null.
net: the norm over components of the mean of h over samples: what does not average out. Variables that are merely
    independent have little, until components are included that are nothing but products of two variables.
joint: the part of net that goes along with a slope in the same component, sum_j w_j mean(h_j) mean(g_j), w_j being the
    components' shares of variance. A component x_r + x_p x_q has that; a component x_p x_q alone, which any two
    variables make up, does not. For (x.y + c)^2 the entries of this vector are the covariances of x_p x_q with x_r.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from kpca.derivatives import derivatives_of, why_no_derivatives
from kpca.errors import InputError
from kpca.gram.curvature import Curvature
from kpca.projection import FeatureProjection, KernelProjection, LinearProjection, Projection

FloatArray = NDArray[Any]
Measure = Literal["joint", "net", "total"]
MEASURES: tuple[Measure, ...] = ("joint", "net", "total")
_NUMBERS_AT_ONCE = 2**22


@dataclass(frozen=True)
class Slope:
    """The components' gradients over a sample, in steps of `scale` per variable."""

    mean: FloatArray  # of g_j, shape: (k, d)
    importance: FloatArray  # mean over samples of the norm over components, shape: (d,)


@dataclass(frozen=True)
class Strengths:
    """What was measured of some pairs."""

    overall: FloatArray  # shape: (pairs,)
    each: FloatArray  # per component, shape: (k, pairs)
    partners: NDArray[np.intp] | None  # the variable that a joint pair goes along with most, shape: (pairs,)


def check_mixed(projection: Projection) -> None:
    """Raise InputError if the scores have no second derivatives."""
    features = isinstance(projection, FeatureProjection)
    reason = "random features have none here" if features else why_no_derivatives(projection)
    if reason is not None:
        raise InputError(f"Interactions are second derivatives, and there are none: {reason}.")


def slope_of(projection: Projection, X: FloatArray, components: FloatArray, scale: FloatArray, threads: int) -> Slope:
    """Return what the gradients are on average, a bounded number of rows at a time."""
    k, (m, d) = int(components.max()) + 1, X.shape
    derivatives = derivatives_of(projection.head(k), threads=threads)
    step = max(1, _NUMBERS_AT_ONCE // max(k * d, 1))
    total, importance = np.zeros((len(components), d)), np.zeros(d)
    for start in range(0, m, step):
        jacobian = derivatives.jacobian(X[start : start + step])[:, components] * scale
        total += jacobian.sum(axis=0)
        importance += np.sqrt(np.square(jacobian).sum(axis=1)).sum(axis=0)
    return Slope(total / m, importance / m)


def strengths(
    projection: Projection,
    X: FloatArray,
    *,
    pairs: list[tuple[int, int]],
    slope: Slope,
    variances: FloatArray,
    components: FloatArray,
    scale: FloatArray,
    measure: Measure,
    threads: int,
) -> Strengths:
    """Return how strongly the pairs act together at the rows of X, a bounded number of pairs at a time."""
    k = len(components)
    if isinstance(projection, LinearProjection) or not pairs:
        return Strengths(np.zeros(len(pairs)), np.zeros((k, len(pairs))), None)
    assert isinstance(projection, KernelProjection)  # see check_mixed
    curvature = Curvature(projection.kernel, projection.X)
    A = projection.coefficients[:, components]
    overall, each = np.empty(len(pairs)), np.empty((k, len(pairs)))
    means = np.empty((k, len(pairs)))
    step = max(1, _NUMBERS_AT_ONCE // max(len(X) * k, 1))
    for start in range(0, len(pairs), step):
        some = slice(start, start + step)
        mixed = curvature.mixed(X, A, pairs[some], threads=threads)  # shape: (m, k, some)
        mixed *= [scale[p] * scale[q] for p, q in pairs[some]]
        means[:, some] = mixed.mean(axis=0)
        if measure == "total":
            overall[some] = np.sqrt(np.square(mixed).sum(axis=1)).mean(axis=0)
            each[:, some] = np.abs(mixed).mean(axis=0)
    if measure == "total":
        return Strengths(overall, each, None)
    if measure == "net":
        return Strengths(np.sqrt(np.square(means).sum(axis=0)), np.abs(means), None)
    return _joint(means, slope.mean, variances)


def _joint(means: FloatArray, slopes: FloatArray, variances: FloatArray) -> Strengths:
    """Return |sum_j w_j h_j g_j| / (sum_j w_j |g_j|^2)^1/2, at most the norm of w^1/2 h, hence in the same units."""
    shares = variances / variances.sum() if variances.sum() > 0 else np.zeros_like(variances)
    weighted = shares[:, None] * slopes  # shape: (k, d)
    size = float(np.sqrt(np.sum(weighted * slopes)))
    if size == 0.0:
        return Strengths(np.zeros(means.shape[1]), np.zeros_like(means), None)
    along = weighted.T @ means / size  # shape: (d, pairs)
    each = np.abs(means) * np.linalg.norm(weighted, axis=1)[:, None] / size
    return Strengths(np.linalg.norm(along, axis=0), each, np.abs(along).argmax(axis=0))
