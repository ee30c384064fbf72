"""How far a row is from a model, and where normal ends: T^2, SPE and both combined, with limits for each.

With t the scores of x and v their variances,

    T^2      = sum_j t_j^2 / v_j
    SPE      = |phi(x) - mean|^2 - |t|^2, the part of phi(x) outside the span of the training rows included
    combined = T^2 + SPE / v,

the last being the Mahalanobis distance in feature space that gives every direction outside the components the same
variance v: what rows that were held out show of it, and no more than that of the last component. All three are
quadratic forms sum_j w_j t_j^2 + a SPE, and so are their gradients.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import brentq
from scipy.stats import chi2, f, gaussian_kde
from sklearn.utils.validation import check_is_fitted

from kpca._base.errors import InputError
from kpca.features.derivatives import Derivatives, derivatives_of
from kpca.features.projection import KernelProjection, LinearProjection, MatrixProjection, Projection

FloatArray = NDArray[Any]
STATISTICS = ("t2", "spe", "combined")
METHODS = ("quantile", "theory", "kde")
_ROWS_AT_ONCE = 2**15  # rows whose scores are held at once
_PLACES = 16.0  # units in the last place that a statistic, or a number of a row, may be off by
_DOUBLE = float(np.finfo(np.float64).eps)
ROUNDING = _PLACES * _DOUBLE
# A column of which the components explain less than this is constant, and one of which they leave less has no part in
# what they leave.
_NO_PART = 1e-9
# Components of a variance below this share of the largest are rounding; what they would explain is left to the SPE.
_SMALLEST = {np.dtype(np.float64): 1e-10, np.dtype(np.float32): 1e-5}
_FOLLOWS = 0.1  # by how much the smallest variance that counts may be smaller in a fold than in the model
_MOST = 20_000  # rows that a calibration remembers


@dataclass(frozen=True, eq=False)
class Statistics:
    """The three statistics of some rows."""

    t2: FloatArray  # shape: (m,)
    spe: FloatArray  # shape: (m,)
    combined: FloatArray  # shape: (m,)

    def __getitem__(self, name: str) -> FloatArray:
        return np.asarray(getattr(self, check_statistic(name)))

    def at(self, outside: float) -> Statistics:
        """Return the same, combined with that variance for the directions outside the components."""
        return replace(self, combined=self.t2 + self.spe / outside)

    @staticmethod
    def joined(parts: Sequence[Statistics]) -> Statistics:
        """Return the statistics of the rows of all parts, one after the other."""
        return Statistics(*(np.concatenate([part[name] for part in parts]) for name in STATISTICS))


def check_choice(param: str, value: Any, allowed: Sequence[str | None]) -> Any:
    """Return one of some words, or None where that is one of them; refuse anything else."""
    if not any(value is one or (isinstance(value, str) and value == one) for one in allowed):
        *most, last = map(repr, allowed)
        raise InputError(f"must be {', '.join(most)} or {last}", param=param, value=value)
    return value


def check_statistic(name: Any) -> str:
    """Return the name of a statistic, or raise InputError."""
    return str(check_choice("statistic", name, STATISTICS))


@dataclass(frozen=True, eq=False)
class Written:
    """How rows came to us: before they were scaled, x / scale = z + origin, each number rounded to a unit."""

    origin: FloatArray | float = 0.0  # shape: (d,)
    unit: float = _DOUBLE  # the eps of their dtype

    def parts(self, projection: Any, X: Any, *, threads: int = 1) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return scores, SPE, 0 where it is nothing but rounding, and how large rounding can make it."""
        scores, left = projection.parts(X, threads=threads)
        rounding = self._rounding(projection, X, np.abs(left) + np.einsum("ij,ij->i", scores, scores))
        return scores, np.where(np.abs(left) <= rounding, 0.0, left), rounding

    def _rounding(self, projection: Any, X: Any, squares: FloatArray) -> FloatArray:
        """Return the SPE that rows can have because numbers are rounded; `squares` are |phi(x) - mean|^2."""
        if isinstance(projection, LinearProjection):
            numbers = X.multiply(X) if sparse.issparse(X) else np.square(X + self.origin)
            return np.asarray(numbers @ self.of_rows(projection))
        # a difference of kernel values, or of features, whose own rounding is far above that of rows
        size = np.abs(projection.kernel.diagonal(X)) if isinstance(projection, KernelProjection) else squares
        return np.asarray(ROUNDING * size, dtype=np.float64)

    def of_rows(self, projection: LinearProjection) -> FloatArray:
        """Return by column how much of the square of a number its rounding may be of the SPE.  # shape: (d,)"""
        P = 1.0 - np.square(projection.components, dtype=np.float64).sum(axis=0)  # the diagonal of I - V'V
        P[(P < _NO_PART) | (P > 1.0 - _NO_PART)] = 0.0
        return np.asarray(np.square(_PLACES * self.unit) * P)


_EXACT = Written()


@dataclass(frozen=True, eq=False)
class Measure:
    """The statistics of a fitted model, as functions of rows."""

    projection: Any  # on the components that count; never that of a precomputed kernel
    variances: FloatArray  # of these, shape: (k,)

    def __call__(self, X: Any, *, written: Written = _EXACT, threads: int = 1) -> Statistics:
        """Return the statistics of rows that have been checked; one pass over their kernel values."""
        t2, spe = np.empty((2, X.shape[0]))
        for start in range(0, X.shape[0], _ROWS_AT_ONCE):
            here = slice(start, start + _ROWS_AT_ONCE)
            with np.errstate(over="ignore", invalid="ignore"):
                scores, spe[here], _ = written.parts(self.projection, X[here], threads=threads)
                t2[here] = np.square(scores) @ (1.0 / self.variances)
        return Statistics(t2, spe, t2).at(self.outside)

    @property
    def outside(self) -> float:
        """The most that the variance of directions outside the components can be; 1 where there are no components."""
        return float(self.variances[-1]) if len(self.variances) else 1.0

    def surface(
        self, name: str, *, outside: float | None = None, written: Written = _EXACT, threads: int = 1
    ) -> Surface:
        """Return one statistic with its gradients, or raise InputError where the kernel has none."""
        inverse, residual = 1.0 / self.variances, 1.0 / (outside or self.outside)
        forms = {"t2": (inverse, 0.0), "spe": (0.0 * inverse, 1.0), "combined": (inverse, residual)}
        derivatives = derivatives_of(self.projection, threads=threads)
        return Surface(self.projection.doubled(), derivatives, *forms[check_statistic(name)], written, threads)


@dataclass(frozen=True, eq=False)
class Surface:
    """s(x) = sum_j w_j t_j^2 + a SPE in double precision, whatever the model was fitted in."""

    projection: Any  # in double precision
    derivatives: Derivatives
    weights: FloatArray  # w, shape: (k,)
    residual: float  # a
    written: Written
    threads: int = 1

    def values(self, X: FloatArray) -> FloatArray:
        """Return s of each row.  # shape: (m,)"""
        scores, left, _ = self._parts(X)
        return np.asarray(np.square(scores) @ self.weights + self.residual * left)

    def resolution(self, X: FloatArray) -> FloatArray:
        """Return how small a difference of s means nothing, because of rounding.  # shape: (m,)"""
        scores, left, rounding = self._parts(X)
        terms = np.abs(left) + np.square(scores).sum(axis=1)
        return np.asarray(self.residual * (ROUNDING * terms + rounding))

    def gradients(self, X: FloatArray) -> FloatArray:
        """Return the gradient of s at each row.  # shape: (m, d)"""
        scores, left, _ = self._parts(X)
        return self.derivatives.along(X, scores, self.weights, np.where(left == 0.0, 0.0, self.residual))

    def _parts(self, X: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        return self.written.parts(self.projection, X.astype(np.float64, copy=False), threads=self.threads)


def measure_of(model: Any, most: int | None = None) -> Measure:
    """Return the statistics of a fitted KernelPCA or IncrementalKernelPCA."""
    check_is_fitted(model)
    projection: Projection = model._projecting()
    if isinstance(projection, MatrixProjection):
        raise InputError("T2 and SPE need k(x, x) of new rows; a precomputed kernel has none: take a kernel of kpca.")
    variances = np.asarray(model.explained_variance_, dtype=np.float64)
    return measure_by(projection, variances, model.eigenvalues_.dtype, most)


def measure_by(projection: Any, variances: FloatArray, dtype: Any, most: int | None = None) -> Measure:
    """Return the statistics by components of these variances, descending, of rows of this dtype.

    A model that judges for another one has at `most` its number of components, and if it can that number: a direction
    that is close to rounding must not be a component of one and left to the SPE by the other.
    """
    smallest = _SMALLEST[np.dtype(dtype)] * float(variances.max(initial=0.0)) * (1.0 if most is None else _FOLLOWS)
    count = int(np.count_nonzero((variances > smallest) & (variances > 0.0)))
    count = count if most is None else min(count, most)
    return Measure(projection.head(count), variances[:count])


@dataclass(frozen=True)
class Limits:
    """The limit of each statistic: larger is abnormal."""

    t2: float
    spe: float
    combined: float
    method: str  # "quantile", "theory" or "kde"
    confidence: float  # the share of normal rows that is meant to stay within
    rows: int  # how many rows the limits are from

    def __getitem__(self, name: str) -> float:
        return float(getattr(self, check_statistic(name)))


@dataclass(frozen=True, eq=False)
class Calibration:
    """Statistics of rows that are taken to be normal, each with a weight."""

    statistics: Statistics
    weights: FloatArray  # shape: (m,)

    @classmethod
    def of(cls, statistics: Statistics) -> Calibration:
        """Return the calibration by some rows, all of the same weight."""
        return cls(statistics, np.ones(len(statistics.spe)))

    def extended(self, statistics: Statistics, fade: float) -> Calibration:
        """Return the calibration with newer rows, the weight of the older ones multiplied by `fade`."""
        weights = np.append(fade * self.weights, np.ones(len(statistics.spe)))[-_MOST:]
        joined = Statistics.joined([self.statistics, statistics])
        return Calibration(Statistics(*(joined[name][-_MOST:] for name in STATISTICS)), weights)

    def at(self, outside: float) -> Calibration:
        """Return the calibration with both statistics combined by that variance, not that of the models that judged."""
        return replace(self, statistics=self.statistics.at(outside))

    def outside(self, most: float, rounding: float) -> float:
        """Return the variance that directions outside the components count with.

        It is g, where g chi2_h has the mean and the variance of the SPE: the variance of a single direction, and the
        mean of several weighted by themselves. T^2 is a chi2 of the same kind, so that both count alike. Where an exact
        relation leaves no SPE, it is `rounding`. It is no more than that of the last component, `most`, which far rows
        need to be abnormal; nor is it less where the SPE is no squared length.
        """
        spe = self.statistics.spe
        if (spe < 0.0).any():
            return most
        mean, variance = _moments(spe, self.weights)
        return min(most, max(variance / (2.0 * mean) if mean > 0.0 else 0.0, rounding) or most)

    def limits(
        self, method: str, confidence: float, *, rounding: float = 0.0, fitted: tuple[int, int] | None = None
    ) -> Limits:
        """Return the limits that a share `confidence` of normal rows stays within, that of the SPE above `rounding`.

        `fitted` are (rows, components) of a model with the linear kernel, whose T^2 then has its own theory.
        """
        find = {"quantile": _quantile, "theory": _scaled_chi2, "kde": _smoothed}[method]
        found = {name: find(self.statistics[name], self.weights, confidence) for name in STATISTICS}
        if found["spe"] >= 0.0:  # of an indefinite kernel it may be below
            found["spe"] = max(found["spe"], rounding)
        limits = Limits(**found, method=method, confidence=confidence, rows=len(self.weights))
        if method != "theory" or fitted is None:
            return limits
        n, k = fitted  # Hotelling's T^2 of a new row, for normal rows
        return replace(
            limits, t2=float(k * (n * n - 1.0) / (n * (n - k)) * f.ppf(confidence, k, n - k)) if n > k else np.inf
        )

    @property
    def size(self) -> float:
        """The number of rows, or of equal weights that say as much (Kish's effective size)."""
        return float(self.weights.sum() ** 2 / np.square(self.weights).sum())

    def quantile(self, name: str, level: float) -> float:
        return _quantile(self.statistics[name], self.weights, level)


def _quantile(values: FloatArray, weights: FloatArray, level: float) -> float:
    """Return the number that a new row exceeds with probability 1 - level: value i of n stands at i / (n + 1).

    Beyond the largest value there is nothing to go by, and it is the limit.
    """
    order = np.argsort(values, kind="stable")
    positions = np.cumsum(weights[order])
    positions /= positions[-1] + weights.mean()
    return float(np.interp(level, positions, values[order]))


def _moments(values: FloatArray, weights: FloatArray) -> tuple[float, float]:
    with np.errstate(over="ignore", invalid="ignore"):  # a row may be that far out
        mean = float(np.average(values, weights=weights))
        return mean, float(np.average(np.square(values - mean), weights=weights))


def _scaled_chi2(values: FloatArray, weights: FloatArray, level: float) -> float:
    """Return the quantile of g chi2_h with the mean and the variance of the values."""
    mean, variance = _moments(values, weights)
    if variance <= 0.0 or mean <= 0.0:
        return mean
    return float(variance / (2.0 * mean) * chi2.ppf(level, 2.0 * mean * mean / variance))


def _smoothed(values: FloatArray, weights: FloatArray, level: float) -> float:
    """Return the quantile of a kernel density estimate of the logarithms, as the statistics are positive and skew."""
    logarithms = np.log(np.maximum(values, 1e-300))
    if logarithms.max() - logarithms.min() <= 1e-12:
        return float(values.max())
    density = gaussian_kde(logarithms, weights=weights)
    spread = float(np.sqrt(density.covariance[0, 0]))
    low, high = logarithms.min() - 40.0 * spread, logarithms.max() + 40.0 * spread
    return float(np.exp(brentq(lambda x: density.integrate_box_1d(-np.inf, x) - level, low, high)))
