"""How the NumPy engine computes the kernel values of one tile, for each kind of kernel and data.

An evaluator is made once for rows X and columns Y, and then fills tiles. A radial kernel costs one GEMM and one
profile: with rows (sqrt2 x, -|x|^2, 1) and columns (sqrt2 y, 1, -|y|^2) the product is t = -|x - y|^2 at once.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kpca._base.linalg import FloatArray, mean_of_rows, rows_at_once
from kpca.gram.tiles import Spare, by_slices, over_slices
from kpca.kernels import Composite, DotKernel, Kernel, Product, ProfileKernel, RadialKernel, Scaled
from kpca.kernels.arrays import as_float64, pairs_of, squared_norms
from kpca.kernels.profiles import Fused, centred, fused
from kpca.kernels.rounding import Lengths, around

Rows = slice | NDArray[np.intp]
Memo = dict[Any, Any]
DOUBLE, SINGLE = np.dtype(np.float64), np.dtype(np.float32)

# float32 distances are used while eps * max|x|^2 stays below this (docs/mathematics.md, section 4); beyond it float64
# ones.
SINGLE_DISTANCE_ERROR = 4e-6
# Above this the float64 product is not enough either, and close pairs are computed from differences.
DOUBLE_DISTANCE_ERROR = 1e-11
# Close: the relative error of t may exceed 1/this. Every profile has |t f'(t)| < 1/2, so that bounds the value's error.
CLOSE = {DOUBLE: 1e12, SINGLE: 1e4}
# Fewer rows than this are not worth bringing the others into the order that compiled products want; of longer rows
# BLAS makes better use of the cache.
FEW_ROWS, _LONG_ROWS = 64, 1024
# Rows on which a slope without a bound is measured.
_STEEP_ROWS = 16


class Factored(NamedTuple):
    """Tiles as f(L R'), f a compiled loop."""

    loop: Fused
    L: FloatArray
    R: FloatArray
    bounded: bool  # True if f must not see what rounding has made positive
    radial: bool  # True if the last two columns are lengths and ones
    spare: Spare


def fill_tiles(
    factored: Factored, rows: Rows, columns: slice, tiles: FloatArray, *, width: int, diagonal: FloatArray | None = None
) -> None:
    """Write tiles of some columns each, one after the other, without vectors to multiply them by."""
    loop, bounded, radial, spare = factored.loop, factored.bounded, factored.radial, factored.spare
    L, R = factored.L[rows], factored.R[columns]
    scratch = spare.take(L.dtype, loop.scratch(min(width, len(R)), L.shape[1], 0))
    nothing = np.empty((len(R), 0), dtype=L.dtype), None, np.empty((len(L), 0)), None, None, None
    loop(L, R, scratch, tiles, diagonal, *nothing, bounded=bounded, radial=radial, width=width, filled=0)
    spare.give(scratch)


class Evaluator(abc.ABC):
    """Fills tiles with kernel values minus `constant`; `argument_error` is what t may be wrong by in float64."""

    constant: float = 0.0
    argument_error: float = 0.0

    @abc.abstractmethod
    def fill(self, rows: Rows, columns: slice, out: FloatArray) -> None:
        """Write k(x_i, y_j) - constant into `out`.  # shape: (len(rows), len(columns))"""

    @abc.abstractmethod
    def error(self, X: Any, weights: FloatArray, norm: float) -> float:
        """Return what rounding may do to these values of X with X in float64: |S E S|_F, weights s^2.

        `norm` is that of the values themselves, infinite where it is not known.
        """

    def farthest(self, count: int) -> NDArray[np.intp]:
        """Return the rows farthest out, where rounding does most harm; none if that is not known."""
        return np.arange(0)

    @property
    def factored(self) -> Factored | None:
        """What tiles are made of without the interpreter, if they can be."""
        return None

    @property
    def held_bytes(self) -> int:
        """The bytes of what was made of the rows and is held on to; data that were only handed do not count."""
        parts = {id(part): part for part in vars(self).values()}.values()
        held = [part for part in parts if isinstance(part, np.ndarray)]
        for part in filter(sparse.issparse, parts):
            held += [part.data, part.indices, part.indptr]
        return sum(part.nbytes for part in held)


def has_single(kernel: Kernel, X: Any) -> bool:
    """Return True if float32 tiles cost less than float64 ones: profiles of dense rows, and what is made of them."""
    if isinstance(kernel, Composite):
        return all(has_single(member, X) for member in kernel.members)
    if sparse.issparse(X) or not isinstance(kernel, ProfileKernel):
        return False
    # no value of x.y may come near the largest float32
    return not isinstance(kernel, DotKernel) or bool(kernel.diagonal(X).max(initial=0.0) < 1e30)


def evaluator(
    kernel: Kernel,
    X: Any,
    Y: Any,
    dtype: np.dtype[Any],
    *,
    shifted: bool = False,
    memo: Memo | None = None,
    threads: int = 1,
    weights: FloatArray | None = None,
) -> Evaluator:
    """Return what fills tiles; distances are most precise near the mean of Y, in these weights if there are any."""
    memo = {} if memo is None else memo
    how: dict[str, Any] = {"memo": memo, "threads": threads}
    if isinstance(kernel, Composite):
        shifted = shifted and not isinstance(kernel, Product)
        members = [evaluator(one, X, Y, dtype, shifted=shifted, weights=weights, **how) for one in kernel.members]
        return _CombinedValues(kernel, members)
    if not isinstance(kernel, ProfileKernel):
        return _BlockValues(kernel, X, Y)
    if sparse.issparse(X):
        return _SparseValues(kernel, X, Y, shifted=shifted, memo=memo)
    if isinstance(kernel, RadialKernel):
        return _RadialValues(kernel, X, Y, dtype, shifted=shifted, weights=weights, **how)
    return _DotValues(kernel, X, Y, dtype, **how)


def profile_of(kernel: Any, shifted: bool) -> tuple[Callable[[FloatArray], FloatArray], float]:
    """Return what overwrites t by kernel values, and what it subtracts from them: f(0), if shifted and radial."""
    return (kernel.shifted, kernel.at_zero) if shifted and isinstance(kernel, RadialKernel) else (kernel.value, 0.0)


def diagonal_of(kernel: Kernel, X: Any, *, shifted: bool) -> FloatArray:
    """Return k(x, x) less what `shifted` values lack: of a sum it is subtracted from each member.  # shape: (n,)"""
    if isinstance(kernel, Composite) and not isinstance(kernel, Product):
        parts = [diagonal_of(member, X, shifted=shifted) for member in kernel.members]
        total: FloatArray = np.sum(parts, axis=0)
        return total * (kernel.factor if isinstance(kernel, Scaled) else 1.0)
    rows = X if isinstance(kernel, ProfileKernel) else as_float64(X)  # as the blocks of the others have them
    return kernel.diagonal(rows) - (kernel.at_zero if shifted and isinstance(kernel, RadialKernel) else 0.0)


class _BlockValues(Evaluator):
    """A kernel that only gives blocks, or arguments -D of exp(-gamma D) in blocks."""

    argument_dtype = DOUBLE
    held_bytes = 0

    def __init__(self, kernel: Any, X: Any, Y: Any) -> None:
        self._kernel, self._X, self._Y = kernel, X, Y

    def _pair(self, rows: Rows, columns: slice) -> tuple[Any, Any]:
        # float64 rows give float64 values: those of float32 rows would be rounded before they are summed
        X, Y = (part.astype(np.float64, copy=False) for part in (self._X[rows], self._Y[columns]))
        return X, X if isinstance(rows, slice) and rows == columns and self._X is self._Y else Y

    def arguments(self, rows: Rows, columns: slice, out: FloatArray) -> None:
        np.multiply(self._kernel.arguments(*self._pair(rows, columns)), self._kernel.gamma, out=out)

    def fill(self, rows: Rows, columns: slice, out: FloatArray) -> None:
        out[...] = self._kernel.block(*self._pair(rows, columns))

    def error(self, X: Any, weights: FloatArray, norm: float) -> float:
        return block_error(self._kernel, X, weights, norm)


def block_error(kernel: Kernel, X: Any, weights: FloatArray, norm: float) -> float:
    """Return what rounding may have done to values that the kernel computes by itself."""
    return kernel.block_error(X, weights, norm if math.isfinite(norm) else float(weights @ kernel.most(X)))


class ProfileValues(Evaluator):
    """f(t) of prepared rows; `arguments` writes t into an array of the `argument_dtype`."""

    _kernel: Any

    def __init__(self, kernel: Kernel, dtype: np.dtype[Any], *, shifted: bool) -> None:
        self._kernel, self._shifted = kernel, shifted
        self._profile, self.constant = profile_of(kernel, shifted)
        self.argument_dtype = dtype
        self._may_pass_zero = not isinstance(kernel, RadialKernel) or kernel.smooth_past_zero
        self._correct, self._close, self._near = False, 0.0, 0.0

    def _expect_errors(self, kernel: RadialKernel, radius: float) -> None:
        """Decide which distances are computed from differences: `radius` is the largest |x|^2."""
        correct: dict[Any, bool] = {}
        errors: dict[Any, float] = {dtype: float(np.finfo(dtype).eps) * radius for dtype in (SINGLE, DOUBLE)}
        for dtype, error in errors.items():
            correct[dtype] = kernel.singular_at_zero or (dtype == DOUBLE and error > DOUBLE_DISTANCE_ERROR)
        self._correct = correct[self.argument_dtype]
        self._close = -errors[self.argument_dtype] * CLOSE[self.argument_dtype]
        self._near = 0.99 * errors[DOUBLE] * CLOSE[DOUBLE] if correct[DOUBLE] else 0.0
        self.argument_error = min(errors[DOUBLE], 1.0 / CLOSE[DOUBLE]) if correct[DOUBLE] else errors[DOUBLE]

    @abc.abstractmethod
    def lengths(self) -> Lengths:
        """Return the rows by their lengths, and how wrong their t may be in float64."""

    def error(self, X: Any, weights: FloatArray, norm: float) -> float:
        kernel, t = self._kernel, self.lengths()
        if kernel.singular_at_zero and t.near > 0:
            t = replace(t, steepness=self._steepness(weights, t.near))
        return float(kernel.spread(t, weights, norm, shifted=self._shifted))

    def _steepness(self, weights: FloatArray, near: float) -> float:
        """Return twice the |f'| / f of pairs that are not near, in the mean square on some rows: it has no bound."""
        rows = np.unique(np.linspace(0, len(weights) - 1, min(len(weights), _STEEP_ROWS)).astype(np.intp))
        t = np.empty((len(rows), len(weights)), self.argument_dtype)
        self.arguments(rows, slice(0, len(weights)), t)
        pairs = np.where(t < -near, weights[rows, None] * weights, 0.0)
        t = np.minimum(t, -near).astype(np.float64)
        slopes = float(np.vdot(pairs, self._kernel.derivative(t) ** 2))
        return 2.0 * math.sqrt(slopes / max(float(np.vdot(pairs, self._kernel.value(t) ** 2)), 1e-300))

    @abc.abstractmethod
    def arguments(self, rows: Rows, columns: slice, out: FloatArray) -> None:
        """Write t into `out`; by rounding that of a distance may be a little above 0."""

    def fill(self, rows: Rows, columns: slice, out: FloatArray) -> None:
        t = out if out.dtype == self.argument_dtype else np.empty(out.shape, self.argument_dtype)
        self.arguments(rows, columns, t)
        if not self._may_pass_zero:
            np.minimum(t, 0.0, out=t)
        self._profile(t)
        if t is not out:
            out[...] = t


class _DenseValues(ProfileValues):
    """f(L R'), of which subclasses make the factors."""

    _L: FloatArray
    _R: FloatArray

    def __init__(self, kernel: ProfileKernel, dtype: np.dtype[Any], *, shifted: bool) -> None:
        super().__init__(kernel, dtype, shifted=shifted)
        self._tile_dtype, self._loop = dtype, fused(kernel.loop(shifted=shifted), dtype)
        self._radial, self._spare = isinstance(kernel, RadialKernel), Spare()

    @property
    def factored(self) -> Factored | None:
        if self._loop is None or self._correct or self._L.dtype != self._tile_dtype:
            return None
        if len(self._L) < FEW_ROWS or self._L.shape[1] > _LONG_ROWS:
            return None
        return Factored(self._loop, self._L, self._R, not self._may_pass_zero, self._radial, self._spare)

    def fill(self, rows: Rows, columns: slice, out: FloatArray) -> None:
        if (factored := self.factored) is None or not out.flags.c_contiguous or out.dtype != self._tile_dtype:
            super().fill(rows, columns, out)
        else:
            fill_tiles(factored, rows, columns, out.reshape(-1), width=max(out.shape[1], 1))


class _DotValues(_DenseValues):
    """f(x.y) of dense rows."""

    def __init__(
        self, kernel: ProfileKernel, X: FloatArray, Y: FloatArray, dtype: np.dtype[Any], *, memo: Memo, threads: int
    ) -> None:
        super().__init__(kernel, dtype, shifted=False)
        if (kernel, dtype) not in memo:
            memo[kernel, dtype] = _prepared(kernel, Y, dtype, threads)
        self._R = memo[kernel, dtype]
        self._L = self._R if Y is X else _prepared(kernel, X, dtype, threads)

    def arguments(self, rows: Rows, columns: slice, out: FloatArray) -> None:
        np.matmul(self._L[rows], self._R[columns].T, out=out)

    def lengths(self) -> Lengths:
        return Lengths(squared_norms(self._L), around(self._L.shape[1]))

    def farthest(self, count: int) -> NDArray[np.intp]:
        return np.argsort(-np.einsum("ij,ij->i", self._L, self._L), kind="stable")[:count]


class _RadialValues(_DenseValues):
    """f(-|x - y|^2) of dense rows, which are centred first: an offset must not eat the digits of the distances."""

    def __init__(
        self,
        kernel: RadialKernel,
        X: FloatArray,
        Y: FloatArray,
        dtype: np.dtype[Any],
        *,
        shifted: bool,
        memo: Memo,
        threads: int,
        weights: FloatArray | None,
    ) -> None:
        super().__init__(kernel, dtype, shifted=shifted)
        # in a tuple, as these are only handed
        self._rows, self._factors = (X, Y), kernel.factors(X.shape[1])
        how: dict[str, Any] = {"memo": memo, "threads": threads, "weights": weights}
        radius = self._load(kernel, X, Y, dtype, **how)
        if dtype == SINGLE and np.finfo(SINGLE).eps * radius > SINGLE_DISTANCE_ERROR:
            self.argument_dtype = DOUBLE  # distances in float64, rounded once the profile has made them harmless
            self._load(kernel, X, Y, DOUBLE, **how)
        self._expect_errors(kernel, radius)

    def _load(
        self,
        kernel: RadialKernel,
        X: FloatArray,
        Y: FloatArray,
        dtype: np.dtype[Any],
        *,
        memo: Memo,
        threads: int,
        weights: FloatArray | None,
    ) -> float:
        """Set the two factors of t, and return the largest |x|^2 or |y|^2."""
        if (kernel, dtype) not in memo:
            centre = mean_of_rows(Y, weights)
            memo[kernel, dtype] = (centre, *_augmented(kernel, Y, centre, dtype, threads, column=True))
        centre, self._R, columns = memo[kernel, dtype]
        if X is Y:
            self._L, rows = _turned(self._R, threads), columns
        else:
            self._L, rows = _augmented(kernel, X, centre, dtype, threads, column=False)
        return float(max(rows, columns))

    def arguments(self, rows: Rows, columns: slice, out: FloatArray) -> None:
        np.matmul(self._L[rows], self._R[columns].T, out=out)
        if not self._correct:
            return
        # anew for close pairs, where |x|^2 + |y|^2 - 2 x.y has lost its digits; from the rows as they came, as those
        # that are centred and scaled have lost some, too
        X, Y = self._rows[0][rows], self._rows[1][columns]
        how: dict[str, Any] = {"dtype": np.result_type(X, Y, self.argument_dtype)}
        close = out > self._close
        count = np.count_nonzero(close)
        if count * 4 > out.size:  # most pairs: feature by feature, without gathering
            out.fill(0.0)
            for m, factor in enumerate(self._factors):
                gap = np.subtract.outer(X[:, m], Y[:, m], **how)
                gap *= factor
                gap *= gap
                out -= gap
        elif count:
            for i, j in pairs_of(close):
                gap = np.subtract(X[i], Y[j], **how)
                gap *= self._factors
                out[i, j] = -np.einsum("ij,ij->i", gap, gap)

    def lengths(self) -> Lengths:
        return Lengths(-self._L[:, -2].astype(np.float64), around(self._L.shape[1]), self._near)

    def farthest(self, count: int) -> NDArray[np.intp]:
        return np.argsort(self._L[:, -2], kind="stable")[:count]  # -|x|^2 of the centred rows


class _SparseValues(ProfileValues):
    """f(x.y) or f(-|x - y|^2) of CSR rows; never densified or centred, so t is computed in float64."""

    def __init__(self, kernel: ProfileKernel, X: Any, Y: Any, *, shifted: bool, memo: Memo) -> None:
        super().__init__(kernel, DOUBLE, shifted=shifted)
        self._may_pass_zero = not isinstance(kernel, RadialKernel)
        if (kernel, "sparse") not in memo:
            known = kernel.prepare(Y.astype(np.float64))
            memo[kernel, "sparse"] = known, squared_norms(known)
        self._rows = X, Y
        self._Y, self._y_norms = memo[kernel, "sparse"]
        self._X = self._Y if Y is X else kernel.prepare(X.astype(np.float64))
        if isinstance(kernel, RadialKernel):
            self._x_norms = self._y_norms if Y is X else squared_norms(self._X)
            self._expect_errors(kernel, float(max(self._x_norms.max(initial=0.0), self._y_norms.max(initial=0.0))))

    def arguments(self, rows: Rows, columns: slice, out: FloatArray) -> None:
        X, Y = self._X[rows], self._Y[columns]
        out[...] = (X @ Y.T).toarray()
        if not self._may_pass_zero:
            out *= 2.0
            out -= self._x_norms[rows, None]
            out -= self._y_norms[None, columns]
            if self._correct:
                X, Y = self._rows[0][rows], self._rows[1][columns]
                for i, j in pairs_of(out > self._close):
                    out[i, j] = -squared_norms(self._kernel.prepare(as_float64(X[i]) - as_float64(Y[j])))

    def lengths(self) -> Lengths:
        terms = int(np.diff(self._X.indptr).max(initial=0))
        return Lengths(squared_norms(self._X), around(terms), self._near)


class _CombinedValues(Evaluator):
    """A sum, product or multiple of kernels, tile by tile."""

    def __init__(self, kernel: Composite, members: list[Evaluator]) -> None:
        self._kernel, self._members = kernel, members
        self._combine = np.multiply if isinstance(kernel, Product) else np.add
        self._factor = kernel.factor if isinstance(kernel, Scaled) else 1.0
        self.constant = self._factor * sum(member.constant for member in members)  # of a product all are 0
        self.argument_error = sum(member.argument_error for member in members)

    @property
    def held_bytes(self) -> int:
        return sum(member.held_bytes for member in self._members)

    def fill(self, rows: Rows, columns: slice, out: FloatArray) -> None:
        self._members[0].fill(rows, columns, out)
        if self._factor != 1.0:
            out *= self._factor
        other = np.empty_like(out)
        for member in self._members[1:]:
            member.fill(rows, columns, other)
            self._combine(out, other, out=out)

    def error(self, X: Any, weights: FloatArray, norm: float) -> float:
        """|d(uv)| <= |u| |dv| + |v| |du|: as |u| <= b(x) b(y), b^2 is a weight of the rows for dv."""
        if isinstance(self._kernel, Scaled):
            return self._factor * self._members[0].error(X, weights, norm / self._factor if self._factor else 0.0)
        most = [kernel.most(X) for kernel in self._kernel.members] if isinstance(self._kernel, Product) else []
        total = 0.0
        for i, values in enumerate(self._members):
            total += values.error(X, np.prod([weights, *most[:i], *most[i + 1 :]], axis=0), math.inf)
        # to combine them is one more rounding of each, far less than what was charged for its profile
        return total * (1.0 + 0.25 * len(self._members))

    def farthest(self, count: int) -> NDArray[np.intp]:
        return np.unique(np.concatenate([member.farthest(count) for member in self._members]))


def _prepared(kernel: ProfileKernel, X: FloatArray, dtype: np.dtype[Any], threads: int) -> FloatArray:
    """Return the prepared rows, rounded once to the dtype of the tiles."""

    def work(part: slice) -> FloatArray:
        return np.asarray(kernel.prepare(X[part].astype(np.float64, copy=False)))

    return by_slices(work, np.empty(X.shape, dtype=dtype), rows_at_once(X.shape[1]), threads)


def _turned(columns: FloatArray, threads: int) -> FloatArray:
    """Return as rows what `_augmented` has made of the same data as columns."""
    rows = np.empty_like(columns)

    def work(cut: slice) -> None:
        rows[cut] = columns[cut]
        rows[cut, -2:] = columns[cut, :-3:-1]

    over_slices(work, len(rows), rows_at_once(columns.shape[1]), threads)
    return rows


def _augmented(
    kernel: RadialKernel, X: FloatArray, centre: FloatArray, dtype: np.dtype[Any], threads: int, *, column: bool
) -> tuple[FloatArray, float]:
    """Return rows (sqrt2 x, -|x|^2, 1), or (sqrt2 y, 1, -|y|^2) for columns, and the largest |x|^2."""
    n, d = X.shape
    rows = np.empty((n, d + 2), dtype=dtype)

    factors = np.sqrt(2.0) * kernel.factors(d)

    def work(cut: slice) -> float:
        part = rows[cut]
        largest = centred(X[cut], centre, factors, part, column=column)
        if largest is not None:
            return largest
        part[:, :d] = kernel.prepare(X[cut] - centre) * np.sqrt(2.0)
        # of the rounded rows, so that the distance of a row from itself is 0 up to the last bits
        norms = 0.5 * np.einsum("ij,ij->i", part[:, :d], part[:, :d], dtype=np.float64)
        part[:, d + column] = -norms
        part[:, d + 1 - column] = 1.0
        return float(norms.max(initial=0.0))

    return rows, max(over_slices(work, n, rows_at_once(d), threads), default=0.0)
