"""Kernels of the distance: Gaussian, exponential, Matern and rational quadratic.

Each is f(t) with t = -s, s = ||x' - y'||^2 of prepared rows. In the Matern family u = sqrt(s) = sqrt(2 nu) r / l.
"""

from __future__ import annotations

import abc
import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.spatial.distance import cdist

from kpca._base.errors import InputError
from kpca.kernels.arrays import (
    FloatArray,
    Matrix,
    check_features,
    copied,
    each,
    finite,
    float_dtype,
    namespace,
    negative_squared_distances,
    positive,
    positive_or_each,
)
from kpca.kernels.base import Argument, Bandwidth, ProfileKernel, Writer, checked, plainly, registered
from kpca.kernels.profiles import Loop, compiled
from kpca.kernels.rounding import PROFILE, Lengths, beside_diagonal, pair_norms, times_logarithm

# exp(-u) is 0 well before u = 1000 even in float64; the cap keeps inf * 0 out of polynomial times exponential.
_FAR = 1000.0
# Below this u the Matern profiles minus one come from their series, above it directly (a loss of at most four bits).
_NEAR = 0.25


class RadialKernel(ProfileKernel):
    """f(t) with t = -||x - y||^2 <= 0 after scaling, f(0) = 1 and decreasing with distance."""

    argument = "radial"
    at_zero: ClassVar[float] = 1.0
    # True if f goes on smoothly for t > 0: then a t that rounding made positive needs no clamp.
    smooth_past_zero: ClassVar[bool] = False
    psd = True  # every profile here is a mixture of Gaussians (Schoenberg): positive definite in any dimension
    shift_invariant = True
    bandwidth: ClassVar[Bandwidth] = ("length_scale", 1)
    random_features = "fourier"
    alike = "Two rows are fully alike (1) if they are equal, and the less alike the farther apart they are."

    @abc.abstractmethod
    def _scale(self) -> tuple[str, float | tuple[float, ...]]:
        """Return the name of the bandwidth parameter, and the factor(s) by which prepare multiplies the features."""

    @abc.abstractmethod
    def shifted(self, t: FloatArray) -> FloatArray:
        """Overwrite t by f(t) - f(0), without cancellation for t near 0, and return it.

        See docs/mathematics.md, section 4.
        """

    @abc.abstractmethod
    def inverse(self, value: FloatArray) -> FloatArray:
        """Return t with f(t) = value as a new array; values above 1 count as 1, those below the tiniest as that."""

    @abc.abstractmethod
    def stretch(self, rng: np.random.Generator, count: int) -> FloatArray | float:
        """Return random numbers r for which normal frequencies w make E cos(r w.(x' - y')) = f.  # shape: (count,)"""

    @property
    def shared(self) -> tuple[Argument, float] | None:
        """-||x - y||^2, unless there is a bandwidth per feature."""
        scale = self._scale()[1]
        return ("distance", scale * scale) if isinstance(scale, float) else None

    def check(self, X: Matrix) -> None:
        check_features(*self._scale(), X)

    def factors(self, d: int) -> NDArray[np.float64]:
        """Return what `prepare` multiplies d features by."""
        return np.broadcast_to(np.asarray(self._scale()[1], dtype=np.float64), (d,))

    def prepare(self, X: Matrix) -> Matrix:
        name, scale = self._scale()
        check_features(name, scale, X)
        if isinstance(scale, float):
            return X * scale
        factors = np.asarray(scale, dtype=X.dtype)
        if not sparse.issparse(X):
            return X * factors
        scaled = X.copy()
        scaled.data *= factors[scaled.indices]
        return scaled

    def diagonal(self, X: Matrix) -> NDArray[np.float64]:
        return np.full(X.shape[0], self.at_zero)

    @abc.abstractmethod
    def steepness(self, near: float) -> float:
        """Return the largest |f'(t)| / f(t) for t <= -near."""

    def spread(self, t: Lengths, weights: FloatArray, norm: float, *, shifted: bool = False) -> float:
        """Entries beside the diagonal, which is exact: errors of t that are absolute, and relative for near pairs.

        |f' dt| <= c e f S with S = (|x| + |y|)^2: three bounds on the norm of f S (Hoelder), the least of which holds.
        Relative errors do |t f'| <= f log(1/f) <= 1 - f, as log f is convex.
        """
        mass, steep, highest = float(weights.sum()), min(self.steepness(t.near), t.steepness), 1.0
        widest, wide = pair_norms(weights, t.squares)
        if math.isinf(norm):
            norm = min(mass, steep * widest) if shifted else mass
        beside = mass if shifted else beside_diagonal(norm, weights)
        relative = 0.0
        if t.near > 0:
            highest = float(self.value(np.array([-t.near]))[0])
            relative = t.error * (norm if shifted else times_logarithm(beside, mass))
        far = min(beside, highest * mass)
        most = min(4.0 * float(t.squares.max(initial=0.0)) * far, wide * math.sqrt(highest * far), widest * highest)
        return (steep * t.error * most if most > 0 else 0.0) + relative + PROFILE * norm

    def _arguments(self, X: Matrix, Y: Matrix) -> NDArray[np.float64]:
        # Differences first, scale last: an offset common to all rows is removed before anything is rounded.
        name, scale = self._scale()
        if sparse.issparse(X):
            return negative_squared_distances(self.prepare(X), self.prepare(Y))
        check_features(name, scale, X)
        t: NDArray[np.float64]
        if isinstance(scale, float):
            t = cdist(X, Y, "sqeuclidean")
            t *= -scale * scale
        else:
            t = cdist(X, Y, "sqeuclidean", w=np.square(scale))
            np.negative(t, out=t)
        return t

    @staticmethod
    def _clip(value: FloatArray) -> FloatArray:
        """Return values brought into (0, 1], where the profile has an inverse."""
        value = np.asarray(value)
        value = value.astype(float_dtype(value), copy=False)
        return np.asarray(np.clip(value, np.finfo(value.dtype).tiny, 1.0))


@registered("rbf")
@dataclass(frozen=True, init=False)
class RBF(RadialKernel):
    """exp(-gamma ||x - y||^2), gamma = 1 / (2 sigma^2); one gamma (or sigma) for all features, or one for each."""

    gamma: float | tuple[float, ...]
    name: ClassVar[str] = "rbf"
    smooth_past_zero = True
    bandwidth = ("gamma", -2)

    def __init__(self, gamma: object = None, sigma: object = None) -> None:
        if (gamma is None) == (sigma is None):
            raise InputError(f"RBF must be given exactly one of gamma and sigma; got gamma={gamma!r}, sigma={sigma!r}.")
        if gamma is None:
            gamma = each(lambda s: 0.5 / s / s, positive_or_each("sigma", sigma))
        object.__setattr__(self, "gamma", positive_or_each("gamma", gamma))

    @property
    def sigma(self) -> float | tuple[float, ...]:
        """The standard deviation(s) of the Gaussian, 1 / sqrt(2 gamma)."""
        return each(lambda g: math.sqrt(0.5 / g), self.gamma)

    def formula(self, number: Writer = plainly) -> str:
        if isinstance(self.gamma, tuple):
            return f"exp(−Σ γⱼ (xⱼ − yⱼ)²), {_of_each('γ', self.gamma, number)}"
        return f"exp(−{'' if self.gamma == 1 else f'{number(self.gamma)} '}‖x − y‖²)"

    def meaning(self, number: Writer = plainly) -> str:
        if isinstance(self.gamma, tuple):
            return super().meaning(number)
        far = number(math.sqrt(math.log(2.0) / self.gamma), 3)
        return f"Two rows are fully alike (1) if they are equal, and half alike (0.5) at a distance of {far}."

    def stretch(self, rng: np.random.Generator, count: int) -> FloatArray | float:
        """exp(-|u|^2) = E cos(w.u) for w normal with variance 2."""
        return math.sqrt(2.0)

    def traced(self, pairs: Any, *, shifted: bool = False) -> Any:
        t = pairs.distances(self)
        return pairs.expm1(t) if shifted else pairs.exp(t)

    def _scale(self) -> tuple[str, float | tuple[float, ...]]:
        return "gamma", each(math.sqrt, self.gamma)

    def loop(self, *, shifted: bool = False) -> Loop:
        return ("expm1",) if shifted else ("exp",)

    def value(self, t: FloatArray) -> FloatArray:
        if not compiled(t, self.loop()):
            namespace(t).exp(t, out=t)
        return t

    def steepness(self, near: float) -> float:
        return 1.0

    def derivative(self, t: FloatArray) -> FloatArray:
        return self.value(copied(t))

    curvature = derivative

    def shifted(self, t: FloatArray) -> FloatArray:
        if not compiled(t, self.loop(shifted=True)):
            namespace(t).expm1(t, out=t)
        return t

    def inverse(self, value: FloatArray) -> FloatArray:
        return np.log(self._clip(value))


class _MaternProfile(RadialKernel):
    """The three Matern profiles with closed forms; subclasses say which and how wide."""

    nu: float
    length_scale: float | tuple[float, ...]

    def loop(self, *, shifted: bool = False) -> Loop:
        return (f"matern{int(2 * self.nu)}{'_minus_1' if shifted else ''}",)

    @property
    def singular_at_zero(self) -> bool:
        """True for nu = 1/2: f'(t) = e^-u / (2u)."""
        return self.nu == 0.5

    def steepness(self, near: float) -> float:
        """1 / (2u), 1 / (2 + 2u) or (1 + u) / (6 + 6u + 2u^2)."""
        if self.nu == 0.5:
            return 0.5 / math.sqrt(near) if near > 0 else math.inf
        return 0.5 if self.nu == 1.5 else 1.0 / 6.0

    def stretch(self, rng: np.random.Generator, count: int) -> FloatArray | float:
        """Multivariate t with 2 nu degrees of freedom; sqrt(2 nu) is in the scale of the kernel already."""
        return np.asarray(1.0 / np.sqrt(rng.chisquare(2.0 * self.nu, count)))

    def traced(self, pairs: Any, *, shifted: bool = False) -> Any:
        u = pairs.minimum(pairs.sqrt(-pairs.distances(self)), _FAR)
        if self.nu == 0.5:
            return pairs.expm1(-u) if shifted else pairs.exp(-u)
        rest = u if self.nu == 1.5 else u * (1.0 + u / 3.0)  # the polynomial less 1
        if not shifted:
            return (1.0 + rest) * pairs.exp(-u)
        near = u * u * pairs.polynomial(pairs.minimum(u, _NEAR), _series(self.nu, 13))
        far = pairs.expm1(-u) + rest * pairs.exp(-u)
        return pairs.where(pairs.below(u, _NEAR), near, far)

    def _scale(self) -> tuple[str, float | tuple[float, ...]]:
        return "length_scale", each(lambda length: math.sqrt(2 * self.nu) / length, self.length_scale)

    def value(self, t: FloatArray) -> FloatArray:
        """f = e^-u, (1 + u) e^-u or (1 + u + u^2/3) e^-u, in place."""
        if compiled(t, self.loop()):
            return t
        xp = namespace(t)
        u = _root(t, out=t)
        if self.nu == 0.5:
            xp.negative(u, out=u)
            xp.exp(u, out=u)
            return u
        decay = xp.exp(-u)
        if self.nu == 2.5:
            _times_third(u)
        u += 1.0
        u *= decay
        return u

    def derivative(self, t: FloatArray) -> FloatArray:
        """f' = e^-u / (2u), e^-u / 2 or (1 + u) e^-u / 6, as du/dt = -1/(2u)."""
        slope: FloatArray = copied(t)
        if compiled(slope, (f"{self.loop()[0]}_slope",)):
            return slope
        xp = namespace(t)
        u = _root(t)
        decay: FloatArray = xp.exp(-u)
        if self.nu == 0.5:
            with np.errstate(divide="ignore"):
                decay /= 2.0 * xp.abs(u)
            return decay
        decay *= 0.5 if self.nu == 1.5 else (1.0 + u) / 6.0
        return decay

    def curvature(self, t: FloatArray) -> FloatArray:
        """f'' = (1 + u) e^-u / (4 u^3), e^-u / (4u) or e^-u / 12; at t = 0 the first two are infinite."""
        xp = namespace(t)
        u = _root(t)
        decay: FloatArray = xp.exp(-u)
        if self.nu == 2.5:
            decay /= 12.0
            return decay
        u = xp.abs(u)  # t = 0 may be a -0 here
        with np.errstate(divide="ignore", over="ignore"):
            decay /= 4.0 * u
            if self.nu == 0.5:
                # one after the other: u^2 may vanish where the quotient does not overflow yet
                decay *= 1.0 + u
                decay /= u
                decay /= u
        return decay

    def shifted(self, t: FloatArray) -> FloatArray:
        """f - 1 in place: by series for small u (the terms of order u cancel), by expm1 elsewhere."""
        if compiled(t, self.loop(shifted=True)):
            return t
        xp = namespace(t)
        u = _root(t, out=t)
        if self.nu == 0.5:
            xp.negative(u, out=u)
            xp.expm1(u, out=u)
            return u
        near = u < _NEAR
        small = u[near]
        decay = xp.exp(-u)
        drop = xp.expm1(-u)
        if self.nu == 2.5:
            _times_third(u)
        u *= decay
        u += drop
        total: FloatArray = xp.zeros_like(small)
        for coefficient in reversed(_series(self.nu, 13 if xp.finfo(small.dtype).bits == 64 else 8)):
            total *= small
            total += coefficient
        total *= small
        total *= small
        u[near] = total
        return u

    def inverse(self, value: FloatArray) -> FloatArray:
        """t with f(t) = value: -log(value)^2 for nu = 1/2, else Newton's method in s = u^2.

        log f is convex and decreasing in s (a mixture of Gaussians), and f >= e^-u, so from s = log(value)^2 the steps
        approach the root from one side and cannot overshoot.
        """
        value = self._clip(value)
        target = np.log(value.astype(np.float64))
        t: NDArray[Any] = 0.0 - np.square(target)
        if self.nu != 0.5:
            for _ in range(50):
                # log f(t), accurate for small u and for u so large that f has lost its digits
                u = _root(t)
                polynomial = u if self.nu == 1.5 else u + u * u / 3.0
                with np.errstate(divide="ignore"):
                    large = np.log1p(polynomial) - u
                    gap = np.where(u < 1.0, np.log1p(self.shifted(t.copy())), large) - target
                slope = self.derivative(t) / self.value(t.copy())
                moved = np.minimum(t - np.maximum(gap, 0.0) / slope, 0.0)
                if np.array_equal(moved, t):
                    break
                t = moved
        return t.astype(value.dtype, copy=False)


@registered("exponential")
@dataclass(frozen=True)
class Exponential(_MaternProfile):
    """exp(-||x - y|| / length_scale): the Matern kernel with nu = 1/2."""

    length_scale: float | tuple[float, ...] = checked(positive_or_each, 1.0)
    name: ClassVar[str] = "exponential"
    nu = 0.5

    def formula(self, number: Writer = plainly) -> str:
        return "exp(−‖x − y‖{}){}".format(*_over(self.length_scale, number))


def _nu(name: str, value: object) -> float:
    nu = finite(name, value)
    if nu not in (0.5, 1.5, 2.5):
        raise InputError(
            f"{name} must be 0.5, 1.5 or 2.5; got {value!r}: for others, pass scikit-learn's Matern as the kernel."
        )
    return nu


@registered(matern12={"nu": 0.5}, matern32={"nu": 1.5}, matern52={"nu": 2.5})
@dataclass(frozen=True)
class Matern(_MaternProfile):
    """The Matern kernel with nu = 1/2, 3/2 or 5/2, in scikit-learn's convention u = sqrt(2 nu) ||x - y|| / l."""

    nu: float = checked(_nu, 1.5)
    length_scale: float | tuple[float, ...] = checked(positive_or_each, 1.0)
    name: ClassVar[str] = "matern"

    def formula(self, number: Writer = plainly) -> str:
        profile = {0.5: "e^(−u)", 1.5: "(1 + u) e^(−u)"}.get(self.nu, "(1 + u + u²/3) e^(−u)")
        root = "" if self.nu == 0.5 else f"√{number(2 * self.nu)} "
        return "{} with u = {}‖x − y‖{}{}".format(profile, root, *_over(self.length_scale, number))


@registered("rational_quadratic")
@dataclass(frozen=True)
class RationalQuadratic(RadialKernel):
    """(1 + ||x - y||^2 / (2 alpha l^2))^-alpha: a mixture of Gaussians of many widths."""

    alpha: float = checked(positive, 1.0)
    length_scale: float | tuple[float, ...] = checked(positive_or_each, 1.0)
    name: ClassVar[str] = "rational_quadratic"

    def formula(self, number: Writer = plainly) -> str:
        alpha, length = number(self.alpha), self.length_scale
        if isinstance(length, tuple):
            return f"(1 + ‖(x − y) / ℓ‖² / (2 · {alpha}))^(−{alpha}), {_of_each('ℓ', length, number)}"
        return f"(1 + ‖x − y‖² / (2 · {alpha} · {number(length)}²))^(−{alpha})"

    def stretch(self, rng: np.random.Generator, count: int) -> FloatArray | float:
        """(1 + s)^-alpha = E exp(-T s), T of the gamma law with shape alpha."""
        return np.sqrt(2.0 * rng.gamma(self.alpha, size=count))

    def traced(self, pairs: Any, *, shifted: bool = False) -> Any:
        exponent = -self.alpha * pairs.log1p(-pairs.distances(self))
        return pairs.expm1(exponent) if shifted else pairs.exp(exponent)

    def _scale(self) -> tuple[str, float | tuple[float, ...]]:
        return "length_scale", each(lambda length: 1.0 / (math.sqrt(2 * self.alpha) * length), self.length_scale)

    def loop(self, *, shifted: bool = False) -> Loop:
        return "power_minus_1" if shifted else "power", 1.0, -1.0, -self.alpha, 1.0

    def steepness(self, near: float) -> float:
        """Return the largest of alpha / (1 - t)."""
        return self.alpha

    def value(self, t: FloatArray) -> FloatArray:
        """f(t) = (1 - t)^-alpha, in place; by log1p, because alpha may be huge and t tiny."""
        if not compiled(t, self.loop()):
            namespace(t).exp(self._exponent(t), out=t)
        return t

    def derivative(self, t: FloatArray) -> FloatArray:
        """f'(t) = alpha (1 - t)^-(alpha + 1)."""
        slope: FloatArray = copied(t)
        if compiled(slope, ("power", 1.0, -1.0, -self.alpha - 1.0, self.alpha)):
            return slope
        self.value(slope)
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
        if not compiled(t, self.loop(shifted=True)):
            namespace(t).expm1(self._exponent(t), out=t)
        return t

    def inverse(self, value: FloatArray) -> FloatArray:
        """t = 1 - value^(-1/alpha), or the farthest finite t where that overflows (alpha small)."""
        value = self._clip(value)
        with np.errstate(over="ignore"):
            t = -np.expm1(-np.log(value) / self.alpha)
        return np.maximum(t, np.finfo(value.dtype).min, out=t)

    def _exponent(self, t: FloatArray) -> FloatArray:
        xp = namespace(t)
        xp.negative(t, out=t)
        xp.log1p(t, out=t)
        t *= -self.alpha
        return t


def _over(length: float | tuple[float, ...], number: Writer) -> tuple[str, str]:
    """Return " / l", and what l is where there is one for each column."""
    if isinstance(length, tuple):
        return " / ℓ", f", {_of_each('ℓ', length, number)}"
    return "" if length == 1 else f" / {number(length)}", ""


def _of_each(letter: str, values: tuple[float, ...], number: Writer) -> str:
    return f"one {letter} for each of the {len(values):,} columns, from {number(min(values))} to {number(max(values))}"


def _root(t: FloatArray, out: FloatArray | None = None) -> FloatArray:
    """Return u = sqrt(-t), at most `_FAR`."""
    xp = namespace(t)
    u: FloatArray = xp.negative(t, out=out)
    xp.sqrt(u, out=u)
    xp.clip(u, None, _FAR, out=u)
    return u


def _times_third(u: FloatArray) -> None:
    """Overwrite u by u + u^2/3 = u (1 + u/3)."""
    factor = u / 3.0
    factor += 1.0
    u *= factor


def _series(nu: float, last: int) -> list[float]:
    """Return the coefficients of u^2, ..., u^last in f - 1; that of u is 0."""
    # Of u^k it is (-1)^k (1 - k) / k! for nu = 3/2 and (-1)^k (k - 1)(k - 3) / (3 k!) for nu = 5/2.
    factors = {k: 1.0 - k if nu == 1.5 else (k - 1) * (k - 3) / 3.0 for k in range(2, last + 1)}
    return [(-1) ** k * factor / math.factorial(k) for k, factor in factors.items()]
