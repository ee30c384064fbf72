"""Checks of parameters, and what every kernel does with arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray
from scipy import sparse

from kpca._base.errors import InputError

FloatArray: TypeAlias = NDArray[np.floating[Any]]
# A dense float array or a CSR matrix/array; SciPy ships no types, so the union cannot be spelled out.
Matrix: TypeAlias = Any

# Below this share of ||x||^2 + ||y||^2 a squared distance has lost four digits, and is computed from differences.
_CANCELLED = 1e-4
_PAIRS_AT_ONCE = 8192


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


def positive_or_each(name: str, value: object) -> float | tuple[float, ...]:
    """Return a positive float, or a tuple of them where one per feature was given."""
    allowed = "must be a number or one per feature; got "
    if isinstance(value, np.ndarray):
        if value.ndim > 1:
            raise InputError(f"{allowed}an array of shape {value.shape}: flatten it first", param=name)
        value = value.tolist()
    if isinstance(value, str) or not isinstance(value, Sequence):
        return positive(name, value)
    if len(value) == 0:
        raise InputError(f"{allowed}an empty sequence", param=name, remedy="give at least one value")
    return tuple(positive(f"{name}[{i}]", item) for i, item in enumerate(value))


def check_features(name: str, value: float | tuple[float, ...], X: Matrix) -> None:
    """Refuse a parameter that has one value per feature, but not as many as X has features."""
    if isinstance(value, tuple) and len(value) != X.shape[1]:
        raise InputError(
            f"must be one number or one per feature; got {len(value)} values for {X.shape[1]} features",
            param=name,
            remedy=f"give {X.shape[1]} values or a single one",
        )


def each(function: Callable[[float], float], value: float | tuple[float, ...]) -> float | tuple[float, ...]:
    return tuple(function(item) for item in value) if isinstance(value, tuple) else function(value)


def namespace(t: Any) -> Any:
    """Return the array library of t: NumPy at once, others as array-api-compat has them."""
    return np if isinstance(t, np.ndarray | np.generic) else array_namespace(t)


def copied(t: Any) -> Any:
    return t.copy() if isinstance(t, np.ndarray) else array_namespace(t).asarray(t, copy=True)


def as_float64(X: Matrix) -> Matrix:
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
    return np.asarray(np.einsum("ij,ij->i", X, X, dtype=np.float64))


def negative_squared_distances(X: Matrix, Y: Matrix) -> NDArray[np.float64]:
    """Return -||x_i - y_j||^2 of CSR rows; sums of norms where that is accurate, differences where it is not."""
    norms = squared_norms(X)[:, None] + squared_norms(Y)[None, :]
    t: NDArray[Any] = to_dense(X @ Y.T)
    t *= 2.0
    t -= norms
    for i, j in pairs_of(t > -_CANCELLED * norms):
        t[i, j] = -squared_norms(X[i] - Y[j])
    return t


def pairs_of(chosen: NDArray[np.bool_]) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Yield the places of the pairs chosen, so many at a time that their differences stay small."""
    i, j = np.nonzero(chosen)
    for start in range(0, len(i), _PAIRS_AT_ONCE):
        yield i[start : start + _PAIRS_AT_ONCE], j[start : start + _PAIRS_AT_ONCE]
