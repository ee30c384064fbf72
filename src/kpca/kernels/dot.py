"""Kernels of the inner product: linear, polynomial, sigmoid and cosine. They depend on where the origin is."""

from __future__ import annotations

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
    as_float64,
    copied,
    finite,
    float_dtype,
    namespace,
    negative_squared_distances,
    non_negative,
    positive,
    squared_norms,
    to_dense,
)
from kpca.kernels.base import Argument, Kernel, ProfileKernel, Writer, checked, plainly, registered
from kpca.kernels.profiles import Loop, compiled
from kpca.kernels.rounding import PROFILE, Lengths, around


class DotKernel(ProfileKernel):
    """f(t) with t = x.y after scaling; f(t) = t, unless said otherwise."""

    argument = "dot"

    def diagonal(self, X: Matrix) -> NDArray[np.float64]:
        return np.asarray(self.value(squared_norms(self.prepare(as_float64(X)))))

    def _arguments(self, X: Matrix, Y: Matrix) -> NDArray[np.float64]:
        return np.asarray(to_dense(self.prepare(X) @ self.prepare(Y).T))

    def spread(self, t: Lengths, weights: FloatArray, norm: float, *, shifted: bool = False) -> float:
        """Errors of t and of f; entries |x_i| |x_j| h_i h_j of the first have the norm sum_i w_i |x_i|^2 h_i^2."""
        own = min(norm, float(weights @ self._most(t.squares)))
        return float(weights @ self._moved(t.squares, t.error)) + self._roundings * own

    _roundings: ClassVar[float] = PROFILE

    def _most(self, squares: FloatArray) -> FloatArray:
        """Return b^2 with |f(x.y)| <= b(x) b(y), by |x|^2."""
        return squares

    def _moved(self, squares: FloatArray, error: float) -> FloatArray:
        """Return e^2 with |f(t + dt) - f(t)| <= e(x) e(y) for |dt| <= error |x| |y|, by |x|^2."""
        return error * squares

    def most(self, X: Matrix) -> NDArray[np.float64]:
        return np.asarray(self._most(squared_norms(self.prepare(as_float64(X)))), dtype=np.float64)

    def value(self, t: FloatArray) -> FloatArray:
        return t

    def derivative(self, t: FloatArray) -> FloatArray:
        ones: FloatArray = namespace(t).ones_like(t)
        return ones

    def curvature(self, t: FloatArray) -> FloatArray:
        zeros: FloatArray = namespace(t).zeros_like(t)
        return zeros


@registered("linear")
@dataclass(frozen=True)
class Linear(DotKernel):
    """x . y: kernel PCA is then PCA."""

    name: ClassVar[str] = "linear"
    written = "x · y"
    alike = "This is the inner product: it makes kernel PCA ordinary PCA, and components straight directions."
    shared = ("dot", 1.0)
    random_features = "projected"
    psd = True  # a Gram matrix by definition

    def traced(self, pairs: Any, *, shifted: bool = False) -> Any:
        return pairs.dots()

    def prepare(self, X: Matrix) -> Matrix:
        return X

    def loop(self, *, shifted: bool = False) -> Loop:
        return ("itself",)


class _Shifted(DotKernel):
    """f(gamma x.y + coef0)."""

    gamma: float
    coef0: float

    @property
    def shared(self) -> tuple[Argument, float]:
        return "dot", self.gamma

    def prepare(self, X: Matrix) -> Matrix:
        return X * math.sqrt(self.gamma)

    def _base(self, number: Writer) -> str:
        factor = "" if self.gamma == 1 else f"{number(self.gamma)} "
        sign = "+" if self.coef0 > 0 else "−"
        return f"{factor}x · y" + ("" if self.coef0 == 0 else f" {sign} {number(abs(self.coef0))}")


def _degree(name: str, value: object) -> int | float:
    """Return 3 for 3.0: a whole number is kept as an int, so that equal kernels also print alike."""
    degree = non_negative(name, value)
    return int(degree) if degree.is_integer() else degree


@registered("poly", "polynomial")
@dataclass(frozen=True)
class Polynomial(_Shifted):
    """(gamma x . y + coef0)^degree; a degree that is not whole is defined where the base is not negative."""

    degree: float = checked(_degree, 3)
    gamma: float = checked(positive, 1.0)
    coef0: float = checked(finite, 1.0)
    name: ClassVar[str] = "poly"
    alike = "Products of several columns count, so that components see how columns act together."
    random_features = "sketched"
    rotatable = False

    @property
    def psd(self) -> bool:
        """A whole power of a sum of positive semidefinite kernels is one too; otherwise there are counterexamples."""
        return isinstance(self.degree, int) and self.coef0 >= 0

    @property
    def remedy(self) -> str:
        """A negative base has no power that is not whole."""
        whole = isinstance(self.degree, int)
        return super().remedy if whole else "take a whole degree, or data without a negative base gamma x.y + coef0"

    def formula(self, number: Writer = plainly) -> str:
        return f"({self._base(number)})^{number(self.degree)}"

    @classmethod
    def grid(cls, scale: float, count: int) -> dict[str, list[Any]]:
        return {"degree": [2, 3, 4], "gamma": [scale], "coef0": [1.0]}

    def traced(self, pairs: Any, *, shifted: bool = False) -> Any:
        return pairs.power(pairs.dots(self.gamma) + float(self.coef0), self.degree)

    def loop(self, *, shifted: bool = False) -> Loop | None:
        return _power_loop(self.coef0, self.degree, 1.0)

    def value(self, t: FloatArray) -> FloatArray:
        """f(t) = (t + coef0)^degree, in place; NaN where the base is negative and the degree not whole."""
        return _power(t, self.coef0, self.degree, 1.0)

    def derivative(self, t: FloatArray) -> FloatArray:
        return self._falling(t, 1)

    def curvature(self, t: FloatArray) -> FloatArray:
        """f''(t) = degree (degree - 1) (t + coef0)^(degree - 2); infinite at base 0 for a degree between 1 and 2."""
        return self._falling(t, 2)

    @property
    def _roundings(self) -> float:  # type: ignore[override]
        return PROFILE * (1.0 + 0.25 * self.degree)

    def _most(self, squares: FloatArray) -> FloatArray:
        """|x.y + c| <= ((|x|^2 + |c|) (|y|^2 + |c|))^(1/2)."""
        return (squares + abs(self.coef0)) ** self.degree

    def _moved(self, squares: FloatArray, error: float) -> FloatArray:
        """|f'| is largest at the end; a power below 1 has none at base 0, but |a^p - b^p| <= |a - b|^p."""
        if self.degree < 1:
            return (error * squares) ** self.degree if self.degree > 0 else np.zeros_like(squares)
        return self.degree * error * squares * (squares + abs(self.coef0)) ** (self.degree - 1)

    def _falling(self, t: FloatArray, order: int) -> FloatArray:
        if self.degree in range(order):
            zeros: FloatArray = namespace(t).zeros_like(t)
            return zeros
        factor = self.degree if order == 1 else self.degree * (self.degree - 1)
        return _power(copied(t), self.coef0, self.degree - order, float(factor))


@registered("sigmoid")
@dataclass(frozen=True)
class Sigmoid(_Shifted):
    """tanh(gamma x . y + coef0): not positive semidefinite in general."""

    gamma: float = checked(positive, 1.0)
    coef0: float = checked(finite, 1.0)
    name: ClassVar[str] = "sigmoid"
    alike = "It follows the inner product up to a ceiling; it is not a true similarity for all data."
    psd = False  # indefinite for almost every choice of parameters and data

    def _most(self, squares: FloatArray) -> FloatArray:
        return np.ones_like(squares)

    def formula(self, number: Writer = plainly) -> str:
        return f"tanh({self._base(number)})"

    @classmethod
    def grid(cls, scale: float, count: int) -> dict[str, list[Any]]:
        return {"gamma": (scale * np.geomspace(1 / 16, 1.0, min(count, 5))).tolist(), "coef0": [0.0]}

    def traced(self, pairs: Any, *, shifted: bool = False) -> Any:
        return pairs.tanh(pairs.dots(self.gamma) + float(self.coef0))

    def loop(self, *, shifted: bool = False) -> Loop:
        return "tanh", self.coef0

    def value(self, t: FloatArray) -> FloatArray:
        """f(t) = tanh(t + coef0), in place."""
        if not compiled(t, self.loop()):
            t += self.coef0
            namespace(t).tanh(t, out=t)
        return t

    def derivative(self, t: FloatArray) -> FloatArray:
        """f'(t) = 1 / cosh(t + coef0)^2 = 4e / (1 + e)^2 with e = exp(-2 |t + coef0|), which cannot overflow."""
        slope: FloatArray = copied(t)
        if compiled(slope, ("tanh_slope", self.coef0)):
            return slope
        xp = namespace(t)
        decay = xp.exp(-2.0 * xp.abs(t + self.coef0))
        slope = 4.0 * decay / xp.square(1.0 + decay)
        return slope

    def curvature(self, t: FloatArray) -> FloatArray:
        """f''(t) = -2 tanh(t + coef0) f'(t)."""
        bend = self.derivative(t)
        bend *= -2.0
        bend *= namespace(t).tanh(t + self.coef0)
        return bend


@registered("cosine")
@dataclass(frozen=True)
class Cosine(DotKernel):
    """x . y / (||x|| ||y||); a row of zeros has similarity 0 with everything, itself included.

    Derivatives are with respect to the normalised inner product.
    """

    name: ClassVar[str] = "cosine"
    written = "x · y / (‖x‖ ‖y‖)"
    alike = "Two rows are alike if their columns have the same proportions, whatever their size."
    random_features = "projected"
    psd = True  # a Gram matrix by definition

    def traced(self, pairs: Any, *, shifted: bool = False) -> Any:
        return pairs.cosines()

    def prepare(self, X: Matrix) -> Matrix:
        """Return rows of length 1; rows of zeros stay as they are."""
        # Divided by the largest entry first, so that squares neither overflow nor vanish. Not by abs(X).max(axis=1) of
        # a CSR matrix: where indices are unsorted, SciPy sorts those that abs(X) shares with X, not X's data.
        if sparse.issparse(X):
            peaks, filled = np.zeros(X.shape[0]), np.flatnonzero(np.diff(X.indptr))
            if len(filled):
                peaks[filled] = np.maximum.reduceat(np.abs(X.data), X.indptr[filled])
        else:
            peaks = np.abs(X).max(axis=1, initial=0.0)
        unit = _divide_rows(X, peaks)
        return _divide_rows(unit, np.sqrt(squared_norms(unit)))

    def loop(self, *, shifted: bool = False) -> Loop:
        return ("itself",)


def _power_loop(origin: float, exponent: float, factor: float) -> Loop | None:
    if isinstance(exponent, int):
        return ("whole_power", origin, exponent, factor) if exponent > 0 else None
    return "power", origin, 1.0, exponent, factor


def _power(t: FloatArray, origin: float, exponent: float, factor: float) -> FloatArray:
    """Overwrite t by factor (t + origin)^exponent: by squaring for whole exponents (np.power is ten times slower)."""
    loop = _power_loop(origin, exponent, factor)
    if loop is not None and compiled(t, loop):
        return t
    if isinstance(exponent, int):
        t += origin
        base = copied(t) if exponent > 1 else t
        if exponent == 0:
            t[...] = 1.0
        for bit in bin(exponent)[3:]:  # the bits after the leading one, highest first
            t *= t
            if bit == "1":
                t *= base
    else:
        t += origin
        with np.errstate(invalid="ignore", divide="ignore"):
            if isinstance(t, np.ndarray):
                np.power(t, exponent, out=t)  # not **=, which takes square roots by another function
            else:
                t **= exponent
    if factor != 1.0:
        t *= factor
    return t


def _divide_rows(X: Matrix, divisors: NDArray[np.float64]) -> Matrix:
    """Return a copy of X with each row divided, rows with divisor 0 unchanged; dtype and CSR kept."""
    divisors = np.where(divisors == 0, 1.0, divisors).astype(X.dtype)
    if not sparse.issparse(X):
        return X / divisors[:, None]
    divided = X.copy()
    divided.data /= np.repeat(divisors, np.diff(divided.indptr))
    return divided


# -- Arc-cosine kernels: what infinitely wide layers of steps (order 0) or rectified units (order 1) see of two rows --


def _order(name: str, value: Any) -> int:
    if isinstance(value, bool) or value not in (0, 1):
        raise InputError(f"{name} must be 0 or 1; got {value!r}: 0 is that of steps, 1 that of rectified units.")
    return int(value)


@registered(arc_cosine0={"order": 0}, arc_cosine1={"order": 1})
@dataclass(frozen=True)
class ArcCosine(Kernel):
    """1 - theta / pi, or |x| |y| (sin theta + (pi - theta) cos theta) / pi: theta is the angle between two rows.

    Order 0 is a function of x.y / (|x| |y|), but not one for tiles by GEMM: its slope is infinite where rows agree, so
    a rounding of 1e-16 there becomes one of 1e-8. Angles are computed from differences instead. A row of zeros is at
    right angles to everything, itself included.
    """

    order: int = checked(_order, 1)
    name: ClassVar[str] = "arc_cosine"
    random_features = "activated"
    psd = True  # the expectation of a product of random features

    def traced(self, pairs: Any, *, shifted: bool = False) -> Any:
        theta = pairs.angles()
        if self.order == 0:
            return 1.0 - theta / math.pi
        own, known = pairs.lengths()
        return (pairs.sin(theta) + (math.pi - theta) * pairs.cos(theta)) * own * (known / math.pi)

    def block(self, X: Matrix, Y: Matrix) -> FloatArray:
        X64, Y64 = as_float64(X), as_float64(Y)
        theta = angles(X64, Y64)
        if self.order == 0:
            theta *= -1.0 / np.pi
            theta += 1.0
            return theta.astype(float_dtype(X), copy=False)
        K = np.sin(theta)
        K += (np.pi - theta) * np.cos(theta)
        K *= np.sqrt(squared_norms(X64))[:, None] / np.pi
        K *= np.sqrt(squared_norms(Y64))
        return K.astype(float_dtype(X), copy=False)

    def block_error(self, X: Matrix, weights: FloatArray, norm: float) -> float:
        """Angles are right to the rounding of unit rows; values follow them by less."""
        return around(X.shape[1]) * float(weights @ self.most(X)) + PROFILE * norm

    def most(self, X: Matrix) -> NDArray[np.float64]:
        return squared_norms(as_float64(X)) if self.order else np.ones(X.shape[0])

    def diagonal(self, X: Matrix) -> NDArray[np.float64]:
        if self.order == 1:
            return squared_norms(X)
        return np.where(squared_norms(Cosine().prepare(as_float64(X))) > 0, 1.0, 0.5)


def angles(X: Matrix, Y: Matrix) -> NDArray[np.float64]:
    """Return the angle between all pairs of rows, accurate also near 0 and pi.  # shape: (n, m)"""
    U, V = Cosine().prepare(X), Cosine().prepare(Y)
    theta: NDArray[Any]
    if sparse.issparse(U):
        apart, together = -negative_squared_distances(U, V), -negative_squared_distances(U, -V)
        theta = np.arctan2(np.sqrt(np.maximum(apart, 0.0)), np.sqrt(np.maximum(together, 0.0)))
    else:
        theta = np.arctan2(cdist(U, V), cdist(U, -V))  # |u - v| and |u + v| of unit rows: Kahan's formula
    theta *= 2.0
    theta[squared_norms(U) == 0] = np.pi / 2
    theta[:, squared_norms(V) == 0] = np.pi / 2
    return theta
