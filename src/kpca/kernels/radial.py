"""Kernels of the distance: Gaussian, exponential, Matern and rational quadratic.

Each is f(t) with t = -s, s = ||x' - y'||^2 of prepared rows. In the Matern family u = sqrt(s) = sqrt(2 nu) r / l.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kpca._base.errors import InputError
from kpca.kernels.base import FloatArray, RadialKernel, finite, positive, positive_or_each

# exp(-u) is 0 well before u = 1000 even in float64; the cap keeps inf * 0 out of polynomial times exponential.
_FAR = 1000.0
# Below this u the Matern profiles minus one come from their series, above it directly (a loss of at most four bits).
_NEAR = 0.25


@dataclass(frozen=True, init=False)
class RBF(RadialKernel):
    """exp(-gamma ||x - y||^2), gamma = 1 / (2 sigma^2); one gamma (or sigma) for all features, or one for each."""

    gamma: float | tuple[float, ...]
    name: ClassVar[str] = "rbf"
    smooth_past_zero: ClassVar[bool] = True

    def __init__(self, gamma: object = None, sigma: object = None) -> None:
        if (gamma is None) == (sigma is None):
            raise InputError(f"RBF must be given exactly one of gamma and sigma; got gamma={gamma!r}, sigma={sigma!r}.")
        if gamma is None:
            width = positive_or_each("sigma", sigma)
            gamma = _each(lambda s: 0.5 / s / s, width)
        object.__setattr__(self, "gamma", positive_or_each("gamma", gamma))

    @property
    def sigma(self) -> float | tuple[float, ...]:
        """The standard deviation(s) of the Gaussian, 1 / sqrt(2 gamma)."""
        return _each(lambda g: math.sqrt(0.5 / g), self.gamma)

    def _scale(self) -> tuple[str, float | tuple[float, ...]]:
        return "gamma", _each(math.sqrt, self.gamma)

    def value(self, t: FloatArray) -> FloatArray:
        """f(t) = e^t, in place."""
        return np.exp(t, out=t)

    def derivative(self, t: FloatArray) -> FloatArray:
        """f'(t) = e^t."""
        return np.exp(t)

    def curvature(self, t: FloatArray) -> FloatArray:
        """f''(t) = e^t."""
        return np.exp(t)

    def shifted(self, t: FloatArray) -> FloatArray:
        """f(t) - 1 = expm1(t), in place."""
        return np.expm1(t, out=t)

    def inverse(self, value: FloatArray) -> FloatArray:
        """t = log(value)."""
        return np.log(self._clip(value))


class _MaternProfile(RadialKernel):
    """The three Matern profiles with closed forms; subclasses say which (`_order` = nu) and how wide."""

    length_scale: float | tuple[float, ...]

    @property
    @abc.abstractmethod
    def _order(self) -> float:
        """nu."""

    @property
    def singular_at_zero(self) -> bool:
        """True for nu = 1/2: f'(t) = e^-u / (2u)."""
        return self._order == 0.5

    def _scale(self) -> tuple[str, float | tuple[float, ...]]:
        return "length_scale", _each(lambda length: math.sqrt(2 * self._order) / length, self.length_scale)

    def value(self, t: FloatArray) -> FloatArray:
        """f = e^-u, (1 + u) e^-u or (1 + u + u^2/3) e^-u, in place."""
        u = _root(t, out=t)
        if self._order == 0.5:
            np.negative(u, out=u)
            return np.exp(u, out=u)
        decay = np.exp(-u)
        if self._order == 1.5:
            u += 1.0
        else:
            _times_third(u)
            u += 1.0
        u *= decay
        return u

    def derivative(self, t: FloatArray) -> FloatArray:
        """f' = e^-u / (2u), e^-u / 2 or (1 + u) e^-u / 6, as du/dt = -1/(2u)."""
        u = _root(t)
        decay = np.exp(-u)
        if self._order == 0.5:
            with np.errstate(divide="ignore"):
                decay /= 2.0 * np.abs(u)
            return decay
        decay *= 0.5 if self._order == 1.5 else (1.0 + u) / 6.0
        return decay

    def curvature(self, t: FloatArray) -> FloatArray:
        """f'' = (1 + u) e^-u / (4 u^3), e^-u / (4u) or e^-u / 12; at t = 0 the first two are infinite."""
        u = _root(t)
        decay = np.exp(-u)
        if self._order == 2.5:
            decay /= 12.0
            return decay
        u = np.abs(u)  # t = 0 may be a -0 here
        with np.errstate(divide="ignore", over="ignore"):
            decay /= 4.0 * u
            if self._order == 0.5:
                # one after the other: u^2 may vanish where the quotient does not overflow yet
                decay *= 1.0 + u
                decay /= u
                decay /= u
        return decay

    def shifted(self, t: FloatArray) -> FloatArray:
        """f - 1 in place: by series for small u (the terms of order u cancel), by expm1 elsewhere."""
        u = _root(t, out=t)
        if self._order == 0.5:
            np.negative(u, out=u)
            return np.expm1(u, out=u)
        near = u < _NEAR
        small = u[near]
        decay = np.exp(-u)
        drop = np.expm1(-u)
        if self._order == 2.5:
            _times_third(u)
        u *= decay
        u += drop
        u[near] = _matern_series(small, self._order)
        return u

    def inverse(self, value: FloatArray) -> FloatArray:
        """t with f(t) = value: -log(value)^2 for nu = 1/2, else Newton's method in s = u^2.

        log f is convex and decreasing in s (a mixture of Gaussians), and f >= e^-u, so from s = log(value)^2 the steps
        approach the root from one side and cannot overshoot.
        """
        value = self._clip(value)
        target = np.log(value.astype(np.float64))
        t: NDArray[Any] = 0.0 - np.square(target)
        if self._order != 0.5:
            for _ in range(50):
                gap = self._log(t) - target
                slope = self.derivative(t) / self.value(t.copy())
                moved = np.minimum(t - np.maximum(gap, 0.0) / slope, 0.0)
                if np.array_equal(moved, t):
                    break
                t = moved
        return t.astype(value.dtype, copy=False)

    def _log(self, t: FloatArray) -> FloatArray:
        """Return log f(t), accurate for small u and for u so large that f has lost its digits."""
        u = _root(t)
        polynomial = u if self._order == 1.5 else u + u * u / 3.0
        with np.errstate(divide="ignore"):
            return np.where(u < 1.0, np.log1p(self.shifted(t.copy())), np.log1p(polynomial) - u)


@dataclass(frozen=True)
class Exponential(_MaternProfile):
    """exp(-||x - y|| / length_scale): the Matern kernel with nu = 1/2."""

    length_scale: float | tuple[float, ...] = 1.0
    name: ClassVar[str] = "exponential"

    def __post_init__(self) -> None:
        object.__setattr__(self, "length_scale", positive_or_each("length_scale", self.length_scale))

    @property
    def _order(self) -> float:
        return 0.5


@dataclass(frozen=True)
class Matern(_MaternProfile):
    """The Matern kernel with nu = 1/2, 3/2 or 5/2, in scikit-learn's convention u = sqrt(2 nu) ||x - y|| / l."""

    nu: float = 1.5
    length_scale: float | tuple[float, ...] = 1.0
    name: ClassVar[str] = "matern"

    def __post_init__(self) -> None:
        nu = finite("nu", self.nu)
        if nu not in (0.5, 1.5, 2.5):
            raise InputError(
                f"nu must be 0.5, 1.5 or 2.5; got {self.nu!r}: for others, pass scikit-learn's Matern as the kernel."
            )
        object.__setattr__(self, "nu", nu)
        object.__setattr__(self, "length_scale", positive_or_each("length_scale", self.length_scale))

    @property
    def _order(self) -> float:
        return self.nu


@dataclass(frozen=True)
class RationalQuadratic(RadialKernel):
    """(1 + ||x - y||^2 / (2 alpha l^2))^-alpha: a mixture of Gaussians of many widths."""

    alpha: float = 1.0
    length_scale: float | tuple[float, ...] = 1.0
    name: ClassVar[str] = "rational_quadratic"

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", positive("alpha", self.alpha))
        object.__setattr__(self, "length_scale", positive_or_each("length_scale", self.length_scale))

    def _scale(self) -> tuple[str, float | tuple[float, ...]]:
        return "length_scale", _each(lambda length: 1.0 / (math.sqrt(2 * self.alpha) * length), self.length_scale)

    def value(self, t: FloatArray) -> FloatArray:
        """f(t) = (1 - t)^-alpha, in place; by log1p, because alpha may be huge and t tiny."""
        return np.exp(self._exponent(t), out=t)

    def derivative(self, t: FloatArray) -> FloatArray:
        """f'(t) = alpha (1 - t)^-(alpha + 1)."""
        slope = self.value(t.copy())
        slope *= self.alpha
        slope /= 1.0 - t
        return slope

    def curvature(self, t: FloatArray) -> FloatArray:
        """f''(t) = alpha (alpha + 1) (1 - t)^-(alpha + 2)."""
        bend = self.derivative(t)
        bend *= self.alpha + 1.0
        bend /= 1.0 - t
        return bend

    def shifted(self, t: FloatArray) -> FloatArray:
        """f(t) - 1 = expm1(-alpha log1p(-t)), in place."""
        return np.expm1(self._exponent(t), out=t)

    def inverse(self, value: FloatArray) -> FloatArray:
        """t = 1 - value^(-1/alpha), or the farthest finite t where that overflows (alpha small)."""
        value = self._clip(value)
        with np.errstate(over="ignore"):
            t = -np.expm1(-np.log(value) / self.alpha)
        return np.maximum(t, np.finfo(value.dtype).min, out=t)

    def _exponent(self, t: FloatArray) -> FloatArray:
        np.negative(t, out=t)
        np.log1p(t, out=t)
        t *= -self.alpha
        return t


def _each(function: Callable[[float], float], value: float | tuple[float, ...]) -> float | tuple[float, ...]:
    """Apply a function to a number, or to each of a tuple."""
    return tuple(function(item) for item in value) if isinstance(value, tuple) else function(value)


def _root(t: FloatArray, out: FloatArray | None = None) -> FloatArray:
    """Return u = sqrt(-t), at most `_FAR`."""
    u = np.negative(t, out=out)
    np.sqrt(u, out=u)
    return np.minimum(u, _FAR, out=u)


def _times_third(u: FloatArray) -> None:
    """Overwrite u by u + u^2/3 = u (1 + u/3)."""
    factor = u / 3.0
    factor += 1.0
    u *= factor


def _matern_series(u: FloatArray, nu: float) -> FloatArray:
    """Return f - 1 for u < 1/4 from its power series, to the rounding of u's dtype.

    The coefficient of u^k is (-1)^k (1 - k) / k! for nu = 3/2 and (-1)^k (k - 1)(k - 3) / (3 k!) for nu = 5/2.
    """
    last = 13 if u.dtype == np.float64 else 8
    total = np.zeros_like(u)
    for k in range(last, 1, -1):
        factor = 1.0 - k if nu == 1.5 else (k - 1) * (k - 3) / 3.0
        total *= u
        total += (-1) ** k * factor / math.factorial(k)
    total *= u
    total *= u
    return total
