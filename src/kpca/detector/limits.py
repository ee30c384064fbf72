"""Where normal ends: limits of the statistics at a level of confidence.

Statistics of the rows that a model was fitted to are too small, so limits are quantiles of rows that took no part:
held out when the model was fitted, or judged before they were learned from.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import chi2, f, gaussian_kde

from kpca.errors import InputError
from kpca.statistics import STATISTICS, Statistics, check_statistic

FloatArray = NDArray[Any]
METHODS = ("quantile", "theory", "kde")
# Rows that a calibration remembers.
_MOST = 20_000


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
        limit: float = getattr(self, check_statistic(name))
        return limit


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
        joined = {name: np.append(self.statistics[name], statistics[name])[-_MOST:] for name in STATISTICS}
        return Calibration(Statistics(**joined), weights)

    def at(self, outside: float) -> Calibration:
        """Return the calibration with both statistics combined as a model does whose last component has that variance.

        That variance is larger the fewer rows a model is of: as the models that judged have it, held-out rows of many
        columns would look closer than new rows do to the model of all rows.
        """
        combined = self.statistics.t2 + self.statistics.spe / outside
        return replace(self, statistics=replace(self.statistics, combined=combined))

    def limits(self, method: str, confidence: float, *, fitted: tuple[int, int] | None = None) -> Limits:
        """Return the limits that a share `confidence` of normal rows stays within.

        Parameters
        ----------
        method : {"quantile", "theory", "kde"}
        fitted : (rows, components) of a model with the linear kernel, whose T^2 then has its own theory.
        """
        find = {"quantile": _quantile, "theory": _scaled_chi2, "kde": _smoothed}[method]
        found = {name: find(self.statistics[name], self.weights, confidence) for name in STATISTICS}
        limits = Limits(**found, method=method, confidence=confidence, rows=len(self.weights))
        if method == "theory" and fitted is not None:
            limits = replace(limits, t2=_hotelling(*fitted, confidence))
        return limits

    @property
    def size(self) -> float:
        """The number of rows, or of equal weights that say as much (Kish's effective size)."""
        return float(self.weights.sum() ** 2 / np.square(self.weights).sum())

    def quantile(self, name: str, level: float) -> float:
        """Return the quantile of one statistic."""
        return _quantile(self.statistics[name], self.weights, level)


def check_limit(method: Any, confidence: Any) -> None:
    """Refuse an unknown method, and a confidence that is not a share."""
    if not isinstance(method, str) or method not in METHODS:
        raise InputError(f"limit must be 'quantile', 'theory' or 'kde'; got {method!r}.")
    if not isinstance(confidence, Real) or not 0.0 < float(confidence) < 1.0:
        raise InputError(f"confidence must be a number between 0 and 1, such as 0.99; got {confidence!r}.")


def _quantile(values: FloatArray, weights: FloatArray, level: float) -> float:
    """Return the number that a new row exceeds with probability 1 - level: value i of n stands at i / (n + 1).

    Beyond the largest value there is nothing to go by, and it is the limit.
    """
    order = np.argsort(values, kind="stable")
    positions = np.cumsum(weights[order])
    positions /= positions[-1] + weights.mean()
    return float(np.interp(level, positions, values[order]))


def _moments(values: FloatArray, weights: FloatArray) -> tuple[float, float]:
    mean = float(np.average(values, weights=weights))
    return mean, float(np.average(np.square(values - mean), weights=weights))


def _scaled_chi2(values: FloatArray, weights: FloatArray, level: float) -> float:
    """Return the quantile of g chi2_h with the mean and the variance of the values."""
    mean, variance = _moments(values, weights)
    if variance <= 0.0 or mean <= 0.0:
        return mean
    return float(variance / (2.0 * mean) * chi2.ppf(level, 2.0 * mean * mean / variance))


def _hotelling(n: int, k: int, level: float) -> float:
    """Return the limit of T^2 of a new row, for normal rows and the linear kernel."""
    if n <= k:
        return float("inf")
    return float(k * (n * n - 1.0) / (n * (n - k)) * f.ppf(level, k, n - k))


def _smoothed(values: FloatArray, weights: FloatArray, level: float) -> float:
    """Return the quantile of a kernel density estimate of the logarithms, as the statistics are positive and skew."""
    logarithms = np.log(np.maximum(values, 1e-300))
    if logarithms.max() - logarithms.min() <= 1e-12:
        return float(values.max())
    density = gaussian_kde(logarithms, weights=weights)
    spread = float(np.sqrt(density.covariance[0, 0]))
    low, high = logarithms.min() - 40.0 * spread, logarithms.max() + 40.0 * spread
    return float(np.exp(brentq(lambda x: density.integrate_box_1d(-np.inf, x) - level, low, high)))
