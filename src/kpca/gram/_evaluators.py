"""How the NumPy engine computes the kernel values of one tile, for each kind of kernel and data.

An evaluator is made once for rows X and columns Y, and then fills tiles. A radial kernel costs one GEMM and one
profile: with rows (sqrt2 x, -|x|^2, 1) and columns (sqrt2 y, 1, -|y|^2) the product is t = -|x - y|^2 at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kpca._base.linalg import FloatArray, mean_of_rows, rows_at_once
from kpca.gram.tiles import slices
from kpca.kernels import DotKernel, Kernel, Product, ProfileKernel, RadialKernel, Scaled, Sum

Rows = slice | NDArray[np.intp]
Memo = dict[Any, Any]
DOUBLE, SINGLE = np.dtype(np.float64), np.dtype(np.float32)

# float32 distances are used while eps * max|x|^2 stays below this (docs/mathematics.md, section 4); beyond it float64
# ones.
SINGLE_DISTANCE_ERROR = 4e-6
# Above this the float64 product is not enough either, and close pairs are computed from differences.
DOUBLE_DISTANCE_ERROR = 1e-11
# Close: the relative error of t may exceed 1/this. Every profile has |t f'(t)| < 1/2, so that bounds the value's error.
CLOSE = {DOUBLE: 1e10, SINGLE: 1e4}
_PAIRS_AT_ONCE = 8192


class Evaluator(Protocol):
    """Fills tiles with kernel values minus `constant`; `argument_error` is what t may be wrong by in float64."""

    constant: float
    argument_error: float

    def fill(self, rows: Rows, columns: slice, out: FloatArray) -> None:
        """Write k(x_i, y_j) - constant into `out`.  # shape: (len(rows), len(columns))"""

    def farthest(self, count: int) -> NDArray[np.intp]:
        """Return the rows farthest out, where rounding does most harm."""


def has_single(kernel: Kernel, X: Any) -> bool:
    """Return True if float32 tiles cost less than float64 ones: profiles of dense rows, and what is made of them."""
    if isinstance(kernel, Sum | Product):
        return all(has_single(member, X) for member in kernel.members)
    if isinstance(kernel, Scaled):
        return has_single(kernel.kernel, X)
    if sparse.issparse(X) or not isinstance(kernel, ProfileKernel):
        return False
    # no value of x.y may come near the largest float32
    return not isinstance(kernel, DotKernel) or bool(kernel.diagonal(X).max(initial=0.0) < 1e30)


def evaluator(
    kernel: Kernel, X: Any, Y: Any, dtype: np.dtype[Any], *, shifted: bool = False, memo: Memo | None = None
) -> Evaluator:
    memo = {} if memo is None else memo
    if isinstance(kernel, Sum | Product):
        shifted = shifted and isinstance(kernel, Sum)
        members = [evaluator(member, X, Y, dtype, shifted=shifted, memo=memo) for member in kernel.members]
        return _CombinedValues(members, np.add if isinstance(kernel, Sum) else np.multiply, dtype)
    if isinstance(kernel, Scaled):
        return _TimesValues(kernel.factor, evaluator(kernel.kernel, X, Y, dtype, shifted=shifted, memo=memo))
    if not isinstance(kernel, ProfileKernel):
        return _BlockValues(kernel, X, Y)
    if sparse.issparse(X):
        return _SparseValues(kernel, X, Y, shifted)
    if isinstance(kernel, RadialKernel):
        return _RadialValues(kernel, X, Y, dtype, shifted=shifted, memo=memo)
    return _DotValues(kernel, X, Y, dtype, memo)


def held_bytes(source: Any) -> int:
    """Return the bytes of what an evaluator made of its rows and holds on to; data it was only handed do not count."""
    if isinstance(source, _BlockValues):
        return 0
    parts = {id(part): part for part in vars(source).values()}.values()
    total = 0
    for part in parts:
        if isinstance(part, np.ndarray):
            total += part.nbytes
        elif sparse.issparse(part):
            total += part.data.nbytes + part.indices.nbytes + part.indptr.nbytes
    members = getattr(source, "_members", [getattr(source, "_member", None)])
    return total + sum(held_bytes(member) for member in members if member is not None)


class _AnyRows:
    """For evaluators that do not know which of their rows lie far out."""

    def farthest(self, count: int) -> NDArray[np.intp]:
        return np.arange(0)


class _BlockValues(_AnyRows):
    """A kernel that only gives blocks."""

    constant = 0.0
    argument_error = 0.0

    def __init__(self, kernel: Kernel, X: Any, Y: Any) -> None:
        self._kernel, self._X, self._Y = kernel, X, Y

    def fill(self, rows: Rows, columns: slice, out: FloatArray) -> None:
        # float64 rows give float64 values: those of float32 rows would be rounded before they are summed
        X, Y = (part.astype(np.float64, copy=False) for part in (self._X[rows], self._Y[columns]))
        out[...] = self._kernel.block(X, X if isinstance(rows, slice) and rows == columns and self._X is self._Y else Y)


class _DotValues:
    """f(x.y) of dense rows."""

    constant = 0.0
    argument_error = 0.0

    def __init__(self, kernel: ProfileKernel, X: FloatArray, Y: FloatArray, dtype: np.dtype[Any], memo: Memo) -> None:
        self._kernel, self.argument_dtype = kernel, dtype
        if (kernel, dtype) not in memo:
            memo[kernel, dtype] = _prepared(kernel, Y, dtype)
        self._R = memo[kernel, dtype]
        self._L = self._R if Y is X else _prepared(kernel, X, dtype)

    def arguments(self, rows: Rows, columns: slice, out: FloatArray) -> None:
        np.matmul(self._L[rows], self._R[columns].T, out=out)

    def fill(self, rows: Rows, columns: slice, out: FloatArray) -> None:
        self.arguments(rows, columns, out)
        self._kernel.value(out)

    def farthest(self, count: int) -> NDArray[np.intp]:
        return _largest(np.einsum("ij,ij->i", self._L, self._L), count)


class _RadialValues:
    """f(-|x - y|^2) of dense rows, which are centred first: an offset must not eat the digits of the distances."""

    def __init__(
        self, kernel: RadialKernel, X: FloatArray, Y: FloatArray, dtype: np.dtype[Any], *, shifted: bool, memo: Memo
    ) -> None:
        self._profile = kernel.shifted if shifted else kernel.value
        self._smooth = kernel.smooth_past_zero
        self.constant = kernel.at_zero if shifted else 0.0
        radius = self._load(kernel, X, Y, dtype, memo)
        if dtype == SINGLE and np.finfo(SINGLE).eps * radius > SINGLE_DISTANCE_ERROR:
            dtype = DOUBLE  # distances in float64, rounded once the profile has made them harmless
            self._load(kernel, X, Y, dtype, memo)
        error = np.finfo(dtype).eps * radius
        self.argument_dtype, self.argument_error = dtype, float(np.finfo(DOUBLE).eps) * radius
        self._correct = kernel.singular_at_zero or (error > DOUBLE_DISTANCE_ERROR and dtype == DOUBLE)
        if self._correct:
            self.argument_error = min(self.argument_error, 1.0 / CLOSE[DOUBLE])
        self._close = -error * CLOSE[dtype]

    def _load(self, kernel: RadialKernel, X: FloatArray, Y: FloatArray, dtype: np.dtype[Any], memo: Memo) -> float:
        """Set the two factors of t, and return the largest |x|^2 or |y|^2."""
        if (kernel, dtype) not in memo:
            centre = mean_of_rows(Y)
            memo[kernel, dtype] = (centre, *self._augmented(kernel, Y, centre, dtype, column=True))
        centre, self._R, columns = memo[kernel, dtype]
        self._L, rows = self._augmented(kernel, X, centre, dtype, column=False)
        return float(max(rows, columns))

    @staticmethod
    def _augmented(
        kernel: RadialKernel, X: FloatArray, centre: FloatArray, dtype: np.dtype[Any], *, column: bool
    ) -> tuple[FloatArray, float]:
        """Return rows (sqrt2 x, -|x|^2, 1), or (sqrt2 y, 1, -|y|^2) for columns, and the largest |x|^2."""
        n, d = X.shape
        rows = np.empty((n, d + 2), dtype=dtype)
        radius = 0.0
        step = rows_at_once(d)
        for start in range(0, n, step):
            part = rows[start : start + step]
            part[:, :d] = kernel.prepare(X[start : start + step] - centre) * np.sqrt(2.0)
            # of the rounded rows, so that the distance of a row from itself is 0 up to the last bits
            norms = 0.5 * np.einsum("ij,ij->i", part[:, :d], part[:, :d], dtype=np.float64)
            part[:, d + column] = -norms
            part[:, d + 1 - column] = 1.0
            radius = max(radius, float(norms.max(initial=0.0)))
        return rows, radius

    def arguments(self, rows: Rows, columns: slice, out: FloatArray) -> None:
        """Write t into `out`, which has the `argument_dtype`; by rounding it may be a little above 0."""
        L, R = self._L[rows], self._R[columns]
        np.matmul(L, R.T, out=out)
        if self._correct:
            self._from_differences(L, R, out)

    def fill(self, rows: Rows, columns: slice, out: FloatArray) -> None:
        t = out if out.dtype == self.argument_dtype else np.empty(out.shape, self.argument_dtype)
        self.arguments(rows, columns, t)
        if not self._smooth:
            np.minimum(t, 0.0, out=t)
        self._profile(t)
        if t is not out:
            out[...] = t

    def farthest(self, count: int) -> NDArray[np.intp]:
        return _largest(-self._L[:, -2], count)  # |x|^2 of the centred rows

    def _from_differences(self, L: FloatArray, R: FloatArray, t: FloatArray) -> None:
        """Compute t anew for close pairs, where |x|^2 + |y|^2 - 2 x.y has lost its digits."""
        d = L.shape[1] - 2
        close = t > self._close
        count = np.count_nonzero(close)
        if count * 4 > t.size:  # most pairs: feature by feature, without gathering
            t.fill(0.0)
            for m in range(d):
                gap = np.subtract.outer(L[:, m], R[:, m])
                gap *= gap
                t -= gap
            t *= 0.5
        elif count:
            for i, j in pairs_of(close):
                gap = L[i, :d] - R[j, :d]
                t[i, j] = -0.5 * np.einsum("ij,ij->i", gap, gap)


class _SparseValues(_AnyRows):
    """f(x.y) or f(-|x - y|^2) of CSR rows; never densified or centred, so t is computed in float64."""

    def __init__(self, kernel: ProfileKernel, X: Any, Y: Any, shifted: bool) -> None:
        self._kernel, self.argument_dtype = kernel, DOUBLE
        self._radial = isinstance(kernel, RadialKernel)
        self._profile = kernel.shifted if isinstance(kernel, RadialKernel) and shifted else kernel.value
        self.constant = kernel.at_zero if isinstance(kernel, RadialKernel) and shifted else 0.0
        self.argument_error = 0.0
        self._X = kernel.prepare(X.astype(np.float64))
        self._Y = self._X if Y is X else kernel.prepare(Y.astype(np.float64))
        if self._radial:
            self._x_norms, self._y_norms = (_sparse_squared_norms(rows) for rows in (self._X, self._Y))
            radius = max(self._x_norms.max(initial=0.0), self._y_norms.max(initial=0.0))
            error = np.finfo(np.float64).eps * radius
            self._correct = kernel.singular_at_zero or error > DOUBLE_DISTANCE_ERROR
            self.argument_error = min(error, 1.0 / CLOSE[DOUBLE]) if self._correct else error
            self._close = -error * CLOSE[DOUBLE]

    def arguments(self, rows: Rows, columns: slice, out: FloatArray) -> None:
        X, Y = self._X[rows], self._Y[columns]
        t = (X @ Y.T).toarray()
        if self._radial:
            t *= 2.0
            t -= self._x_norms[rows, None]
            t -= self._y_norms[None, columns]
            if self._correct:
                for i, j in pairs_of(t > self._close):
                    t[i, j] = -_sparse_squared_norms(X[i] - Y[j])
            np.minimum(t, 0.0, out=t)
        out[...] = t

    def fill(self, rows: Rows, columns: slice, out: FloatArray) -> None:
        t = np.empty(out.shape)
        self.arguments(rows, columns, t)
        out[...] = self._profile(t)


class _CombinedValues:
    """A sum or product of kernels, tile by tile."""

    def __init__(self, members: list[Evaluator], combine: np.ufunc, dtype: np.dtype[Any]) -> None:
        self._members, self._combine, self._dtype = members, combine, dtype
        self.constant = sum(member.constant for member in members)  # of a product all are 0
        self.argument_error = sum(member.argument_error for member in members)

    def fill(self, rows: Rows, columns: slice, out: FloatArray) -> None:
        self._members[0].fill(rows, columns, out)
        other = np.empty_like(out)
        for member in self._members[1:]:
            member.fill(rows, columns, other)
            self._combine(out, other, out=out)

    def farthest(self, count: int) -> NDArray[np.intp]:
        return np.unique(np.concatenate([member.farthest(count) for member in self._members]))


class _TimesValues:
    """A kernel times a number."""

    def __init__(self, factor: float, member: Evaluator) -> None:
        self._factor, self._member = factor, member
        self.constant = factor * member.constant
        self.argument_error = member.argument_error

    def fill(self, rows: Rows, columns: slice, out: FloatArray) -> None:
        self._member.fill(rows, columns, out)
        out *= self._factor

    def farthest(self, count: int) -> NDArray[np.intp]:
        return self._member.farthest(count)


def pairs_of(chosen: NDArray[np.bool_]) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Yield the places of the pairs chosen, so many at a time that their differences stay small."""
    i, j = np.nonzero(chosen)
    for start in range(0, len(i), _PAIRS_AT_ONCE):
        yield i[start : start + _PAIRS_AT_ONCE], j[start : start + _PAIRS_AT_ONCE]


def _prepared(kernel: ProfileKernel, X: FloatArray, dtype: np.dtype[Any]) -> FloatArray:
    """Return the prepared rows, rounded once to the dtype of the tiles."""
    rows = np.empty(X.shape, dtype=dtype)
    for part in slices(len(X), rows_at_once(X.shape[1])):
        rows[part] = kernel.prepare(X[part].astype(np.float64, copy=False))
    return rows


def _largest(sizes: FloatArray, count: int) -> NDArray[np.intp]:
    return np.argsort(-sizes, kind="stable")[:count]


def _sparse_squared_norms(X: Any) -> NDArray[np.float64]:
    return np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64).ravel()
