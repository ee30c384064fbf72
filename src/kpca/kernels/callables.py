"""Any Python function as a kernel: of matrices, at full speed, or of a pair of rows, pair by pair."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kpca._base.errors import InputError
from kpca.kernels.arrays import FloatArray, Matrix, float_dtype, to_dense
from kpca.kernels.base import Kernel, Writer, plainly

# The diagonal of a vectorised function comes from square blocks of this many rows.
_DIAGONAL_ROWS = 64
_EXPECTED = (
    "expected is f(X, Y) -> array of shape (len(X), len(Y)) whose entries depend on their own two rows only, "
    "or f(x, y) -> real number for two rows"
)


@dataclass(frozen=True)
class _Callable(Kernel):
    """What both kinds share: a function and its keyword arguments; nothing is known about definiteness."""

    function: Callable[..., Any]
    params: Mapping[str, Any] = field(default_factory=dict, hash=False)
    name: ClassVar[str] = "callable"
    psd = False  # not known

    def formula(self, number: Writer = plainly) -> str:
        name = getattr(self.function, "__name__", None) or type(self.function).__name__
        return f"{name}(x, y), a function of its own"

    def _finite(self, K: FloatArray) -> None:
        bad = K.size - np.count_nonzero(np.isfinite(K))
        if bad:
            raise InputError(
                f"kernel {_name(self.function)} must return finite values; got {bad} of {K.size} NaN or infinite: "
                "check the function on these data."
            )


@dataclass(frozen=True)
class VectorisedCallable(_Callable):
    """f(X, Y, **params) -> matrix of all pairs."""

    def block(self, X: Matrix, Y: Matrix) -> FloatArray:
        K = to_dense(self.function(X, Y, **self.params))
        expected = (X.shape[0], Y.shape[0])
        if K.shape != expected or K.dtype.kind not in "biuf":
            raise InputError(
                f"kernel {_name(self.function)} must return real numbers of shape {expected}; got shape {K.shape} "
                f"of {K.dtype}: return one value for each pair of rows."
            )
        self._finite(K)
        return K.astype(float_dtype(X), copy=False)

    def diagonal(self, X: Matrix) -> NDArray[np.float64]:
        diagonal = np.empty(X.shape[0])
        for start in range(0, X.shape[0], _DIAGONAL_ROWS):
            rows = X[start : start + _DIAGONAL_ROWS]
            diagonal[start : start + _DIAGONAL_ROWS] = np.diagonal(self.block(rows, rows))
        return diagonal


@dataclass(frozen=True)
class PairwiseCallable(_Callable):
    """f(x, y, **params) -> number for two rows, as scikit-learn's callable kernels; n m calls for a block."""

    def block(self, X: Matrix, Y: Matrix) -> FloatArray:
        K: FloatArray = np.empty((X.shape[0], Y.shape[0]), dtype=float_dtype(X))
        for i, x in enumerate(_rows(X)):
            for j, y in enumerate(_rows(Y)):
                K[i, j] = K[j, i] if Y is X and j < i else self._number(x, y)
        self._finite(K)
        return K

    def diagonal(self, X: Matrix) -> NDArray[np.float64]:
        diagonal = np.array([self._number(x, x) for x in _rows(X)], dtype=np.float64)
        self._finite(diagonal)
        return diagonal

    def _number(self, x: Matrix, y: Matrix) -> float:
        result = self.function(x, y, **self.params)
        if not _is_real_scalar(result):
            raise InputError(
                f"kernel {_name(self.function)} must return a real number for two rows; got {_describe(result)}."
            )
        return float(result)


def from_callable(function: Callable[..., Any], kernel_params: Mapping[str, Any] | None, X: Matrix) -> Kernel:
    """Return the function as a kernel, after finding out on five rows of X which of the two kinds it is.

    It is vectorised only if a 2 x 3 call returns a 2 x 3 matrix of which every entry is also what the function says for
    that pair alone: a shape can be right by accident (x @ y on three features), all six values cannot.
    """
    params = dict(kernel_params or {})
    rows = np.arange(5) % X.shape[0]

    def call(*pair: Any) -> Any:
        return function(*pair, **params)

    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        vectorised, cause = _tried(_vectorised_fault, call, X[rows[:2]], X[rows[2:]])
        if vectorised is None:
            return VectorisedCallable(function, params)
        pairwise, pair_cause = _tried(_pairwise_fault, call, *itertools.islice(_rows(X[rows[:2]]), 2))
    if pairwise is None:
        return PairwiseCallable(function, params)
    reasons = vectorised if vectorised == pairwise else f"{vectorised} for 2 and 3 rows, {pairwise} for one pair"
    raise InputError(f"kernel {_name(function)} cannot be used: it {reasons}; {_EXPECTED}.") from pair_cause or cause


def _tried(fault: Callable[..., str | None], *arguments: Any) -> tuple[str | None, Exception | None]:
    """Return what is wrong with a function, None if nothing, and the exception if there was one."""
    try:
        return fault(*arguments), None
    except Exception as error:
        return " ".join(f"raised {type(error).__name__}: {error}".rstrip(": ").split()), error


def _vectorised_fault(call: Callable[..., Any], X: Matrix, Y: Matrix) -> str | None:
    """Return None if f(X, Y) holds what f says pair by pair."""
    K = call(X, Y)
    if not _is_real(K) or np.shape(K) != (X.shape[0], Y.shape[0]):
        return f"returned {_describe(K)}"
    alone = [[call(X[i : i + 1], Y[j : j + 1]) for j in range(Y.shape[0])] for i in range(X.shape[0])]
    if any(np.shape(value) != (1, 1) or not _is_real(value) for value in itertools.chain(*alone)):
        return f"returned {_describe(K)} but {_describe(alone[0][0])} for 1 and 1"
    K, single = to_dense(K), np.array([[to_dense(value)[0, 0] for value in line] for line in alone])
    # Products of different shapes round differently: float32 by 1e-7 of the largest entry, times the number of terms.
    tolerance = 1e-4 if float_dtype(X) == np.float32 else 1e-9
    largest = float(np.abs(K[np.isfinite(K)]).max(initial=0.0))
    if not np.allclose(K, single, rtol=tolerance, atol=tolerance * largest, equal_nan=True):
        return f"returned {_describe(K)} with other values than for each pair alone"
    return None


def _pairwise_fault(call: Callable[..., Any], x: Matrix, y: Matrix) -> str | None:
    """Return None if f(x, y) is a real number."""
    result = call(x, y)
    return None if _is_real_scalar(result) else f"returned {_describe(result)}"


def _rows(X: Matrix) -> Any:
    """Iterate over rows: one-dimensional if dense, 1 x d if sparse, as scikit-learn hands them to callables."""
    return (X[[i], :] for i in range(X.shape[0])) if sparse.issparse(X) else iter(X)


def _is_real(result: object) -> bool:
    """Return whether a result consists of real numbers (bool included: "equal or not" is a kernel)."""
    dtype = result.dtype if sparse.issparse(result) else np.asarray(result).dtype  # type: ignore[attr-defined]
    return bool(dtype.kind in "biuf")


def _is_real_scalar(result: object) -> bool:
    return not sparse.issparse(result) and np.ndim(result) == 0 and _is_real(result)  # type: ignore[arg-type]


def _describe(result: object) -> str:
    if sparse.issparse(result):
        return f"a sparse matrix of shape {result.shape}"  # type: ignore[attr-defined]
    if isinstance(result, (np.ndarray, list, tuple)):
        return f"an array of shape {np.shape(result)}"
    return f"{result!r}" if result is None or isinstance(result, (str, complex)) else f"a {type(result).__name__}"


def _name(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__name__", None) or repr(function))
