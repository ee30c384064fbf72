"""Kernels of the inner product: linear, polynomial, sigmoid and cosine. They depend on where the origin is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kpca.kernels._checks import (
    FloatArray,
    Matrix,
    finite,
    non_negative,
    positive,
    squared_norms,
    whole_if_possible,
)
from kpca.kernels.base import Argument, DotKernel


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
