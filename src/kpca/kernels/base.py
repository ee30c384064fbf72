"""Checks of scalar parameters, and the two array conversions every kernel needs."""

from __future__ import annotations

import abc
import math
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.spatial.distance import cdist

from kpca._base.errors import InputError

FloatArray: TypeAlias = NDArray[np.floating[Any]]
# A dense float array or a CSR matrix/array; SciPy ships no types, so the union cannot be spelled out.
Matrix: TypeAlias = Any


def finite(name: str, value: object) -> float:
    """Return `value` as a float; it must be a finite real number."""
    if not isinstance(value, Real) or isinstance(value, (bool, np.bool_)) or not math.isfinite(value):
        raise InputError("must be a finite number", param=name, value=value, remedy="give one, such as 1.0")
    return float(value)


def positive(name: str, value: object) -> float:
    """Return `value` as a float; it must be a finite number above zero."""
    number = finite(name, value)
    if number <= 0:
        raise InputError("must be positive", param=name, value=value, remedy="give a number above 0")
    return number


def non_negative(name: str, value: object) -> float:
    """Return `value` as a float; it must be a finite number, zero or above."""
    number = finite(name, value)
    if number < 0:
        raise InputError("must not be negative", param=name, value=value, remedy="give 0 or a number above it")
    return number


def whole_if_possible(value: float) -> int | float:
    """Return 3 for 3.0: a whole number is kept as an int, so that equal kernels also print alike."""
    return int(value) if isinstance(value, Integral) or float(value).is_integer() else value


def positive_or_each(name: str, value: object) -> float | tuple[float, ...]:
    """Return a positive float, or a tuple of them where one per feature was given."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if isinstance(value, str) or not isinstance(value, (Sequence, np.ndarray)):
        return positive(name, value)
    if isinstance(value, np.ndarray) and value.ndim != 1:
        raise InputError(
            f"{name} must be a number or one per feature; got an array of shape {value.shape}: flatten it first."
        )
    items: Sequence[object] = value.tolist() if isinstance(value, np.ndarray) else value
    if len(items) == 0:
        raise InputError(f"{name} must be a number or one per feature; got an empty sequence: give at least one value.")
    return tuple(positive(f"{name}[{i}]", item) for i, item in enumerate(items))


def check_features(name: str, value: float | tuple[float, ...], X: Matrix) -> None:
    """Refuse a parameter that has one value per feature, but not as many as X has features."""
    if isinstance(value, tuple) and len(value) != X.shape[1]:
        raise InputError(
            f"{name} must be one number or one per feature; got {len(value)} values for {X.shape[1]} features: "
            f"give {X.shape[1]} values or a single one."
        )


def as_float64(X: Matrix) -> Matrix:
    """Return X in float64, dense or CSR as it came; X itself if it is that already."""
    return X.astype(np.float64, copy=False)


def canonical(X: Matrix) -> Matrix:
    """Return a CSR matrix with sorted indices and no duplicates: X itself or a copy, never X changed."""
    if X.has_canonical_format:
        return X
    X = X.copy()
    X.sum_duplicates()
    return X


def float_dtype(X: Matrix) -> np.dtype[Any]:
    """Return the dtype in which kernel values of X are given back: float32 for float32, else float64."""
    return np.dtype(np.float32) if X.dtype == np.float32 else np.dtype(np.float64)


def to_dense(product: Matrix) -> FloatArray:
    """Return a dense array of a product that SciPy may have left sparse."""
    dense: FloatArray = product.toarray() if sparse.issparse(product) else np.asarray(product)
    return dense


def squared_norms(X: Matrix) -> NDArray[np.float64]:
    """Return ||x_i||^2 for each row in float64.  # shape: (n,)"""
    if sparse.issparse(X):
        X = as_float64(X)
        return np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64).ravel()
    norms: NDArray[np.float64] = np.einsum("ij,ij->i", X, X, dtype=np.float64)
    return norms


# -- What a kernel is: values for pairs of rows; and, for almost all of them, a profile f of one number per pair ------

# Below this share of ||x||^2 + ||y||^2 a squared distance has lost four digits, and is computed from differences.
_CANCELLED = 1e-4
_PAIRS_AT_ONCE = 4096

# Of two rows: -||x - y||^2, x.y, -||x - y||_1, or -sum (x - y)^2 / (x + y).
Argument = Literal["distance", "dot", "l1", "chi2"]


class Kernel(abc.ABC):
    """A similarity k(x, y) of two rows. Concrete kernels are frozen dataclasses: compare, hash, print, never change."""

    name: ClassVar[str]

    @property
    @abc.abstractmethod
    def psd(self) -> bool:
        """True if every kernel matrix of admissible data is positive semidefinite; False if not, or not known."""

    @property
    def shift_invariant(self) -> bool:
        """True if adding a constant row to all the data changes no value."""
        return False

    @property
    def shared(self) -> tuple[Argument, float] | None:
        """What the value of a pair is a function of, beside parameters, and the factor that this is taken with.

        Kernels with the same argument can be evaluated from it one after the other: `value(factor * argument)`. None if
        it is not one number per pair, or not one that other kernels share.
        """
        return None

    @property
    def remedy(self) -> str:
        """What to do when values come out NaN or infinite."""
        return "scale the data, or choose other parameters of the kernel"

    def check(self, X: Matrix) -> None:
        """Raise InputError if the kernel is not defined on X."""
        return None

    @abc.abstractmethod
    def block(self, X: Matrix, Y: Matrix) -> FloatArray:
        """Return k(x_i, y_j) in the float dtype of X, computed plainly and accurately.  # shape: (n, m)"""

    @abc.abstractmethod
    def diagonal(self, X: Matrix) -> NDArray[np.float64]:
        """Return k(x_i, x_i).  # shape: (n,)"""

    # NumPy scalars on the left must leave the operation to __radd__ and __rmul__.
    __array_ufunc__ = None

    def __add__(self, other: Kernel | float) -> Kernel:
        from kpca.kernels.composite import add  # composites are kernels, so they import this module

        return add(self, other) if isinstance(other, (Kernel, Real)) else NotImplemented

    def __radd__(self, other: float) -> Kernel:  # sum([k1, k2]) starts with 0 + k1
        return self + other

    def __mul__(self, other: Kernel | float) -> Kernel:
        from kpca.kernels.composite import multiply

        return multiply(self, other) if isinstance(other, (Kernel, Real)) else NotImplemented

    def __rmul__(self, other: float) -> Kernel:
        return self * other


class ProfileKernel(Kernel):
    """A kernel f(t) of one number per pair of prepared rows."""

    argument: ClassVar[Literal["dot", "radial"]]

    @property
    def singular_at_zero(self) -> bool:
        """True if f' is unbounded at t = 0: an error in a tiny distance then shows, and engines compute it exactly."""
        return False

    @abc.abstractmethod
    def prepare(self, X: Matrix) -> Matrix:
        """Return rows scaled so that f has no scale left: same dtype, CSR stays CSR; X itself if nothing is to do."""

    @abc.abstractmethod
    def value(self, t: FloatArray) -> FloatArray:
        """Overwrite t by f(t) and return it."""

    @abc.abstractmethod
    def derivative(self, t: FloatArray) -> FloatArray:
        """Return f'(t), the derivative with respect to t, as a new array."""

    @abc.abstractmethod
    def curvature(self, t: FloatArray) -> FloatArray:
        """Return f''(t), the second derivative with respect to t, as a new array; infinite where f' has a pole or kink.

        Of the radial ones, that is t = 0 for Matern 1/2 (exponential) and 3/2.
        """

    @abc.abstractmethod
    def _arguments(self, X: Matrix, Y: Matrix) -> NDArray[np.float64]:
        """Return t for all pairs of float64 rows, not yet prepared.  # shape: (n, m)"""

    def block(self, X: Matrix, Y: Matrix) -> FloatArray:
        """Return k(x_i, y_j), computed in float64 and rounded once to the dtype of X.  # shape: (n, m)"""
        return self.value(self._arguments(as_float64(X), as_float64(Y))).astype(float_dtype(X), copy=False)


class RadialKernel(ProfileKernel):
    """f(t) with t = -||x - y||^2 <= 0 after scaling, f(0) = 1 and decreasing with distance."""

    argument = "radial"
    at_zero: ClassVar[float] = 1.0
    # True if f goes on smoothly for t > 0: then a t that rounding made positive needs no clamp.
    smooth_past_zero: ClassVar[bool] = False

    @property
    def psd(self) -> bool:
        """Every profile here is a mixture of Gaussians (Schoenberg), hence positive definite in any dimension."""
        return True

    @property
    def shift_invariant(self) -> bool:
        """Only differences of rows enter."""
        return True

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

    @property
    def shared(self) -> tuple[Argument, float] | None:
        """-||x - y||^2, unless there is a bandwidth per feature."""
        scale = self._scale()[1]
        return ("distance", scale * scale) if isinstance(scale, float) else None

    def check(self, X: Matrix) -> None:
        """Refuse X if there is a bandwidth per feature, and not one for each."""
        check_features(*self._scale(), X)

    def prepare(self, X: Matrix) -> Matrix:
        """Return X times the scale, per feature where there is one each."""
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
        """Return f(0) for each row.  # shape: (n,)"""
        return np.full(X.shape[0], self.at_zero)

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
        clipped: FloatArray = np.clip(value, np.finfo(value.dtype).tiny, 1.0)
        return clipped


class DotKernel(ProfileKernel):
    """f(t) with t = x.y after scaling."""

    argument = "dot"

    def diagonal(self, X: Matrix) -> NDArray[np.float64]:
        """Return f(||x_i||^2) of the prepared rows.  # shape: (n,)"""
        diagonal: NDArray[Any] = self.value(squared_norms(self.prepare(as_float64(X))))
        return diagonal

    def _arguments(self, X: Matrix, Y: Matrix) -> NDArray[np.float64]:
        t: NDArray[Any] = to_dense(self.prepare(X) @ self.prepare(Y).T)
        return t


def negative_squared_distances(X: Matrix, Y: Matrix) -> NDArray[np.float64]:
    """Return -||x_i - y_j||^2 of CSR rows; sums of norms where that is accurate, differences where it is not."""
    norms = squared_norms(X)[:, None] + squared_norms(Y)[None, :]
    t: NDArray[Any] = to_dense(X @ Y.T)
    t *= 2.0
    t -= norms
    rows, columns = np.nonzero(t > -_CANCELLED * norms)
    for start in range(0, len(rows), _PAIRS_AT_ONCE):
        i, j = rows[start : start + _PAIRS_AT_ONCE], columns[start : start + _PAIRS_AT_ONCE]
        t[i, j] = -squared_norms(X[i] - Y[j])
    return t
