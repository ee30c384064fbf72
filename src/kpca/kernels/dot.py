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
from kpca.kernels.base import (
    Argument,
    DotKernel,
    FloatArray,
    Kernel,
    Matrix,
    as_float64,
    finite,
    float_dtype,
    negative_squared_distances,
    non_negative,
    positive,
    squared_norms,
    whole_if_possible,
)


@dataclass(frozen=True)
class Linear(DotKernel):
    """x . y: kernel PCA is then PCA."""

    name: ClassVar[str] = "linear"

    @property
    def psd(self) -> bool:
        """A Gram matrix by definition."""
        return True

    @property
    def shared(self) -> tuple[Argument, float]:
        """x.y itself."""
        return "dot", 1.0

    def prepare(self, X: Matrix) -> Matrix:
        """Return X itself."""
        return X

    def value(self, t: FloatArray) -> FloatArray:
        """f(t) = t."""
        return t

    def derivative(self, t: FloatArray) -> FloatArray:
        """f'(t) = 1."""
        return np.ones_like(t)

    def curvature(self, t: FloatArray) -> FloatArray:
        """f''(t) = 0."""
        return np.zeros_like(t)


@dataclass(frozen=True)
class Polynomial(DotKernel):
    """(gamma x . y + coef0)^degree; a degree that is not whole is defined where the base is not negative."""

    degree: float = 3
    gamma: float = 1.0
    coef0: float = 1.0
    name: ClassVar[str] = "poly"

    def __post_init__(self) -> None:
        object.__setattr__(self, "degree", whole_if_possible(non_negative("degree", self.degree)))
        object.__setattr__(self, "gamma", positive("gamma", self.gamma))
        object.__setattr__(self, "coef0", finite("coef0", self.coef0))

    @property
    def psd(self) -> bool:
        """A whole power of a sum of positive semidefinite kernels is one too; otherwise there are counterexamples."""
        return isinstance(self.degree, int) and self.coef0 >= 0

    @property
    def remedy(self) -> str:
        """A negative base has no power that is not whole."""
        whole = isinstance(self.degree, int)
        return super().remedy if whole else "take a whole degree, or data without a negative base gamma x.y + coef0"

    @property
    def shared(self) -> tuple[Argument, float]:
        """gamma x.y."""
        return "dot", self.gamma

    def prepare(self, X: Matrix) -> Matrix:
        """Return sqrt(gamma) X."""
        return X * math.sqrt(self.gamma)

    def value(self, t: FloatArray) -> FloatArray:
        """f(t) = (t + coef0)^degree, in place; NaN where the base is negative and the degree not whole."""
        t += self.coef0
        return _power(t, self.degree)

    def derivative(self, t: FloatArray) -> FloatArray:
        """f'(t) = degree (t + coef0)^(degree - 1)."""
        if self.degree == 0:
            return np.zeros_like(t)
        slope = _power(t + t.dtype.type(self.coef0), self.degree - 1)
        slope *= self.degree
        return slope

    def curvature(self, t: FloatArray) -> FloatArray:
        """f''(t) = degree (degree - 1) (t + coef0)^(degree - 2); infinite at base 0 for a degree between 1 and 2."""
        if self.degree in (0, 1):
            return np.zeros_like(t)
        bend = _power(t + t.dtype.type(self.coef0), self.degree - 2)
        bend *= self.degree * (self.degree - 1)
        return bend


@dataclass(frozen=True)
class Sigmoid(DotKernel):
    """tanh(gamma x . y + coef0): not positive semidefinite in general."""

    gamma: float = 1.0
    coef0: float = 1.0
    name: ClassVar[str] = "sigmoid"

    def __post_init__(self) -> None:
        object.__setattr__(self, "gamma", positive("gamma", self.gamma))
        object.__setattr__(self, "coef0", finite("coef0", self.coef0))

    @property
    def psd(self) -> bool:
        """Indefinite for almost every choice of parameters and data."""
        return False

    @property
    def shared(self) -> tuple[Argument, float]:
        """gamma x.y."""
        return "dot", self.gamma

    def prepare(self, X: Matrix) -> Matrix:
        """Return sqrt(gamma) X."""
        return X * math.sqrt(self.gamma)

    def value(self, t: FloatArray) -> FloatArray:
        """f(t) = tanh(t + coef0), in place."""
        t += self.coef0
        return np.tanh(t, out=t)

    def derivative(self, t: FloatArray) -> FloatArray:
        """f'(t) = 1 / cosh(t + coef0)^2 = 4e / (1 + e)^2 with e = exp(-2 |t + coef0|), which cannot overflow."""
        decay = np.exp(-2.0 * np.abs(t + t.dtype.type(self.coef0)))
        slope: FloatArray = 4.0 * decay / np.square(1.0 + decay)
        return slope

    def curvature(self, t: FloatArray) -> FloatArray:
        """f''(t) = -2 tanh(t + coef0) f'(t)."""
        bend = self.derivative(t)
        bend *= -2.0
        bend *= np.tanh(t + t.dtype.type(self.coef0))
        return bend


@dataclass(frozen=True)
class Cosine(DotKernel):
    """x . y / (||x|| ||y||); a row of zeros has similarity 0 with everything, itself included."""

    name: ClassVar[str] = "cosine"

    @property
    def psd(self) -> bool:
        """The linear kernel of normalised rows."""
        return True

    def prepare(self, X: Matrix) -> Matrix:
        """Return rows of length 1; rows of zeros stay as they are."""
        # Divided by the largest entry first, so that squares neither overflow nor vanish.
        unit = _divide_rows(X, _largest(X))
        lengths = np.sqrt(squared_norms(unit))
        return _divide_rows(unit, lengths)

    def value(self, t: FloatArray) -> FloatArray:
        """f(t) = t."""
        return t

    def derivative(self, t: FloatArray) -> FloatArray:
        """f'(t) = 1, with respect to the normalised inner product."""
        return np.ones_like(t)

    def curvature(self, t: FloatArray) -> FloatArray:
        """f''(t) = 0, with respect to the normalised inner product."""
        return np.zeros_like(t)


def _power(base: FloatArray, exponent: float) -> FloatArray:
    """Overwrite base by its power: by squaring for whole exponents (np.power is ten times slower), else np.power."""
    if not isinstance(exponent, int):
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.power(base, exponent, out=base)
    if exponent == 0:
        base.fill(1.0)
        return base
    factor = base.copy() if exponent > 1 else base
    for bit in bin(exponent)[3:]:  # the bits after the leading one, highest first
        np.multiply(base, base, out=base)
        if bit == "1":
            base *= factor
    return base


def _largest(X: Matrix) -> NDArray[np.float64]:
    """Return max_m |x_im| of each row.  # shape: (n,)"""
    if not sparse.issparse(X):
        return np.asarray(np.abs(X).max(axis=1, initial=0.0), dtype=np.float64)
    # Not abs(X).max(axis=1): where indices are unsorted, SciPy sorts those that abs(X) shares with X, not X's data.
    peaks = np.zeros(X.shape[0])
    filled = np.flatnonzero(np.diff(X.indptr))
    if len(filled):
        peaks[filled] = np.maximum.reduceat(np.abs(X.data), X.indptr[filled])
    return peaks


def _divide_rows(X: Matrix, divisors: NDArray[np.float64]) -> Matrix:
    """Return a copy of X with each row divided, rows with divisor 0 unchanged; dtype and CSR kept."""
    divisors = np.where(divisors == 0, 1.0, divisors).astype(X.dtype)
    if not sparse.issparse(X):
        return X / divisors[:, None]
    divided = X.copy()
    divided.data /= np.repeat(divisors, np.diff(divided.indptr))
    return divided


# -- Arc-cosine kernels: what infinitely wide layers of steps (order 0) or rectified units (order 1) see of two rows --


@dataclass(frozen=True)
class ArcCosine(Kernel):
    """1 - theta / pi, or |x| |y| (sin theta + (pi - theta) cos theta) / pi: theta is the angle between two rows.

    Order 0 is a function of x.y / (|x| |y|), but not one for tiles by GEMM: its slope is infinite where rows agree, so
    a rounding of 1e-16 there becomes one of 1e-8. Angles are computed from differences instead. A row of zeros is at
    right angles to everything, itself included.
    """

    order: int = 1
    name: ClassVar[str] = "arc_cosine"

    def __post_init__(self) -> None:
        if isinstance(self.order, bool) or self.order not in (0, 1):
            raise InputError(
                f"order must be 0 or 1; got {self.order!r}: 0 is that of steps, 1 that of rectified units."
            )
        object.__setattr__(self, "order", int(self.order))

    @property
    def psd(self) -> bool:
        """The expectation of a product of random features."""
        return True

    def block(self, X: Matrix, Y: Matrix) -> FloatArray:
        """Return the kernel values, from angles in float64.  # shape: (n, m)"""
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

    def diagonal(self, X: Matrix) -> NDArray[np.float64]:
        """Return 1 (1/2 for a row of zeros) for order 0, squared lengths for order 1.  # shape: (n,)"""
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
