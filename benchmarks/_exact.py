"""The truth in long double: kernel values by differences, centring, eigenvalues and residuals, to some 1e-18.

Independent of how kpca computes: of a kernel it takes the parameters alone. Every entry of a kernel matrix comes
with a size, so that arithmetic of unit eps changes it by at most about eps times that: it says how good this truth is,
and what any evaluation in float64 may do. Long double must have 64 bits (x87) or more; `good_enough` says if it has.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import eigh

from kpca.kernels.base import Composite, Constant, Product, Scaled
from kpca.kernels.dot import ArcCosine, Cosine, Linear, Polynomial, Sigmoid
from kpca.kernels.radial import RBF, Exponential, Matern, RationalQuadratic
from kpca.kernels.sums import AdditiveChi2, Chi2, HistogramIntersection, Laplacian

Array = NDArray[Any]
LD = np.longdouble
EPS_LONG, EPS = (float(np.finfo(real).eps) for real in (np.longdouble, np.float64))
# A product of fewer multiplications is done by NumPy's own loop; of more, in slices that BLAS multiplies exactly.
_SLICED = 150_000
# Eigenvalues nearer than this (relative to the largest) are solved together.
_TOGETHER = 1e-9
# Matrices of more rows than this are made in float64.
LONG_ROWS = 1200


def good_enough() -> bool:
    """Return True if long double is longer than double here."""
    return EPS_LONG < 1e-18


# -- products to 64 bits ----------------------------------------------------------------------------------------------


def product(A: Array, B: Array) -> Array:
    """Return A B, to about 64 bits of the largest entry of each row of A times that of each column of B."""
    n, m = A.shape
    if n * m * B.shape[1] <= _SLICED or m < 8:
        return np.asarray(A.astype(LD, copy=False) @ B.astype(LD, copy=False))
    bits = (53 - math.ceil(math.log2(m)) - 1) // 2  # sums of m products of so many bits are exact (Ozaki et al. 2012)
    (a1, a2, a3), rows = _slices(A, 1, bits)
    (b1, b2, b3), columns = _slices(B, 0, bits)
    found = (a1 @ b1).astype(LD)
    found += a1 @ b2
    found += a2 @ b1
    found += a1 @ b3 + a3 @ b1 + a2 @ b2  # so small a part that float64 is enough for it
    return np.asarray(np.ldexp(np.ldexp(found, rows), columns))


def _slices(A: Array, axis: int, bits: int) -> tuple[list[Array], Array]:
    """Return A, scaled by powers of 2 along an axis, in slices of so many bits (the last has the rest); the powers."""
    powers = np.frexp(np.abs(A).max(axis=axis, keepdims=True, initial=0.0))[1]
    rest, found = np.ldexp(A.astype(LD), -powers), []
    for number in (1, 2):
        part = np.ldexp(np.rint(np.ldexp(rest, bits * number)), -bits * number).astype(np.float64)
        rest -= part
        found.append(part)
    return [*found, rest.astype(np.float64)], powers


# -- kernel values: a constant, what is added to it, and the size that rounding is relative to -------------------------


@dataclass(frozen=True)
class Values:
    """k(x_i, x_j) = constant + part_ij, the part without cancellation where the kernel is nearly constant."""

    constant: Any
    part: Array  # shape: (n, n)
    size: Array  # shape: (n, n), float64


def kernel_values(kernel: Any, X: Array) -> Values:
    """Return the values of a kernel between all rows of X, in the precision of X."""
    if isinstance(kernel, Composite):
        return _composite(kernel, X)
    if isinstance(kernel, Constant):
        return Values(X.dtype.type(kernel.constant), np.zeros((len(X), len(X)), X.dtype), np.zeros((len(X), len(X))))
    for kinds, make in _MAKERS:
        if isinstance(kernel, kinds):
            return make(kernel, X)
    rows = X.astype(np.float64)
    K = np.asarray(kernel.block(rows, rows.copy()), dtype=np.float64)
    return Values(0.0, ((K + K.T) / 2).astype(X.dtype), 8 * np.abs(K))  # a function: what it returns is the kernel


def _composite(kernel: Any, X: Array) -> Values:
    members = [kernel_values(member, X) for member in kernel.members]
    if isinstance(kernel, Scaled):
        factor, one = X.dtype.type(kernel.factor), members[0]
        return Values(factor * one.constant, factor * one.part, kernel.factor * one.size)
    found = members[0]
    for other in members[1:]:
        (a, S), (b, T) = (found.constant, found.part), (other.constant, other.part)
        if isinstance(kernel, Product):  # (a + S)(b + T) = ab + aT + bS + ST
            constant, part = a * b, a * T + b * S + S * T
            size = np.abs(a + S) * other.size + np.abs(b + T) * found.size + 3 * np.abs(part)
        else:
            constant, part = a + b, S + T
            size = found.size + other.size + np.abs(S) + np.abs(T)
        found = Values(constant, part, size.astype(np.float64))
    return found


def over_columns(X: Array, term: Callable[[Array, Array], Array]) -> Array:
    """Return the sum over columns m of term(x_im, x_jm).  # shape: (n, n)"""
    total = np.zeros((len(X), len(X)), dtype=X.dtype)
    for column in X.T:
        total += term(column[:, None], column[None, :])
    return total


def _squares(X: Array, lengths: Any = 1.0) -> Array:
    """Return |x - y|^2 of rows over one length for all columns, or one for each; differences are taken first."""
    squares = np.square(np.asarray(lengths, dtype=X.dtype))
    if squares.ndim == 0:
        return np.asarray(over_columns(X, lambda x, y: np.square(x - y)) / squares)
    total = np.zeros((len(X), len(X)), dtype=X.dtype)
    for column, square in zip(X.T, squares, strict=True):
        total += np.square(column[:, None] - column[None, :]) / square
    return total


def _falling(t: Array, part: Array, slope: Array, X: Array) -> Values:
    """Return f(0) = 1 and part = f - 1; an error eps (d + 4) |t| of the argument changes f by as much times f'."""
    size = (X.shape[1] + 4) * np.abs(t * slope) + 3 * np.abs(part)
    return Values(X.dtype.type(1), part, size.astype(np.float64))


def _sized(part: Array, X: Array, sizes: Array | float | None = None) -> Values:
    """Return values of sums over columns, whose terms are no larger than `sizes`."""
    sizes = np.abs(part) if sizes is None else np.broadcast_to(sizes, part.shape)
    return Values(X.dtype.type(0), part, (X.shape[1] + 6) * sizes.astype(np.float64))


def _exponential_of(t: Array, X: Array) -> Values:
    return _falling(t, np.expm1(t), np.exp(t), X)


def _rbf(kernel: Any, X: Array) -> Values:
    gamma = np.asarray(kernel.gamma, dtype=X.dtype)
    return _exponential_of(-gamma * _squares(X) if gamma.ndim == 0 else -_squares(X, 1 / np.sqrt(gamma)), X)


def _matern(kernel: Any, X: Array) -> Values:
    real = X.dtype.type
    u = np.sqrt(2 * real(kernel.nu) * _squares(X, kernel.length_scale))
    fall = np.exp(-u)
    if kernel.nu == 0.5:
        return _falling(u, np.expm1(-u), fall, X)
    # f - 1 by its series where u is small, since the terms of order u cancel: (1 + u + ...) e^-u - 1
    near, series = np.minimum(u, real(0.5)), np.zeros_like(u)
    for k in range(25, 1, -1):
        factor = real(1 - k) if kernel.nu == 1.5 else real((k - 1) * (k - 3)) / 3
        series = series * near + (-1) ** k * factor / real(math.factorial(k))
    more, slope = (u, u * fall) if kernel.nu == 1.5 else (u + u * u / 3, u * (1 + u) * fall / 3)
    return _falling(u, np.where(u < 0.5, series * near * near, np.expm1(-u) + more * fall), slope, X)


def _rational(kernel: Any, X: Array) -> Values:
    alpha = X.dtype.type(kernel.alpha)
    return _exponential_of(-alpha * np.log1p(_squares(X, kernel.length_scale) / (2 * alpha)), X)


def _laplacian(kernel: Any, X: Array) -> Values:
    return _exponential_of(-X.dtype.type(kernel.gamma) * over_columns(X, lambda x, y: np.abs(x - y)), X)


def _chi2_distances(X: Array) -> Array:
    return over_columns(X, lambda x, y: np.square(x - y) / np.where(x + y == 0, X.dtype.type(1), x + y))


def _chi2(kernel: Any, X: Array) -> Values:
    return _exponential_of(-X.dtype.type(kernel.gamma) * _chi2_distances(X), X)


def _dots(X: Array) -> tuple[Array, Array]:
    """Return x.y, and the (d + 2) |x| |y| that its rounding is relative to."""
    lengths = np.sqrt(np.square(X).sum(axis=1))
    return _gram(X), (X.shape[1] + 2) * np.outer(lengths, lengths)


def _gram(X: Array) -> Array:
    return product(X, X.T) if X.dtype == LD else np.asarray(X @ X.T)


def _polynomial(kernel: Any, X: Array) -> Values:
    dots, size = _dots(X)
    real, p = X.dtype.type, kernel.degree
    t, c = real(kernel.gamma) * dots, real(kernel.coef0)
    size = real(kernel.gamma) * size + 2 * np.abs(t + c)
    if isinstance(p, int):  # (t + c)^p - c^p, without cancellation where t is small beside c
        constant, part = c**p, sum((math.comb(p, j) * c ** (p - j) * t**j for j in range(1, p + 1)), 0 * t)
    else:
        constant, part = real(0), np.power(t + c, real(p))
    slope = np.where(t + c == 0, real(0), p * np.power(np.abs(t + c), real(p - 1))) if p else 0 * t
    return Values(constant, part, (size * slope + 4 * p * np.abs(part)).astype(np.float64))


def _sigmoid(kernel: Any, X: Array) -> Values:
    dots, size = _dots(X)
    t = X.dtype.type(kernel.gamma) * dots + X.dtype.type(kernel.coef0)
    slope = 1 / np.square(np.cosh(np.minimum(np.abs(t), X.dtype.type(300))))
    size = (X.dtype.type(kernel.gamma) * size + 2 * np.abs(t)) * slope + 2 * np.abs(np.tanh(t))
    return Values(X.dtype.type(0), np.tanh(t), size.astype(np.float64))


def _unit(X: Array) -> Array:
    peaks = np.abs(X).max(axis=1, keepdims=True)
    rows = X / np.where(peaks == 0, X.dtype.type(1), peaks)
    lengths = np.sqrt(np.square(rows).sum(axis=1, keepdims=True))
    return np.asarray(rows / np.where(lengths == 0, X.dtype.type(1), lengths))


def _cosine(kernel: Any, X: Array) -> Values:
    rows = _unit(X)
    return _sized(_gram(rows), X, 1.0)


def _arc_cosine(kernel: Any, X: Array) -> Values:
    """Kahan's angle, 2 atan2(|u - v|, |u + v|), which is accurate near 0 and pi."""
    rows, pi = _unit(X), 4 * np.arctan(X.dtype.type(1))
    theta = 2 * np.arctan2(np.sqrt(_squares(rows)), np.sqrt(over_columns(rows, lambda x, y: np.square(x + y))))
    none = ~rows.any(axis=1)
    theta[none], theta[:, none] = pi / 2, pi / 2
    if kernel.order == 0:
        return _sized(1 - theta / pi, X, 1.0)
    lengths = np.sqrt(np.square(X).sum(axis=1))
    sizes = np.outer(lengths, lengths)
    return _sized(sizes / pi * (np.sin(theta) + (pi - theta) * np.cos(theta)), X, sizes)


_MAKERS: list[tuple[Any, Callable[[Any, Array], Values]]] = [
    (RBF, _rbf),
    ((Exponential, Matern), _matern),
    (RationalQuadratic, _rational),
    (Laplacian, _laplacian),
    (Chi2, _chi2),
    (AdditiveChi2, lambda kernel, X: _sized(-_chi2_distances(X), X)),
    (HistogramIntersection, lambda kernel, X: _sized(over_columns(X, np.minimum), X)),
    (Linear, lambda kernel, X: Values(X.dtype.type(0), *_dots(X))),
    (Polynomial, _polynomial),
    (Sigmoid, _sigmoid),
    (Cosine, _cosine),
    (ArcCosine, _arc_cosine),
]


# -- the matrix whose eigenpairs are looked for, and its leading eigenvalues -------------------------------------------


@dataclass(frozen=True)
class Truth:
    """The largest eigenvalues of the centred (weighted) kernel matrix, its products, and how good all that is."""

    values: Array  # descending, shape: (k,)
    error: float  # about the most that the values, or a product with a unit vector, may be wrong by
    rounding: float  # what evaluating the kernel in float64 may do to an eigenvalue
    trace: float
    multiply: Callable[[Array], Array]  # shapes: (n, k) -> (n, k)


def truth_of(kernel: Any, X: Any, weights: Array | None, k: int, *, center: bool = True) -> Truth:
    """Return the truth about rows X of positive weight; with kernel=None X is the kernel matrix."""
    if k > len(X):  # there are no more, and what features add to them is none
        found = truth_of(kernel, X, weights, len(X), center=center)
        return replace(found, values=np.append(found.values, np.zeros(k - len(X), found.values.dtype)))
    X = X.toarray() if sparse.issparse(X) else np.asarray(X)
    real = LD if len(X) <= LONG_ROWS or isinstance(kernel, Linear) else np.float64
    s = np.ones(len(X), dtype=real) if weights is None else np.sqrt(weights.astype(real))
    if isinstance(kernel, Linear):
        return _of_rows(X.astype(real), s, k, center)
    if kernel is None:
        values = Values(real(0), X.astype(real), np.abs(X).astype(np.float64))
    else:
        values = kernel_values(kernel, X.astype(real))
    return _of_values(values, s, k, center)


def _of_rows(F: Array, s: Array, k: int, center: bool) -> Truth:
    """Return the truth about F F', F = S (X - mean), by way of its small side."""
    if center:
        F = F - F[0]
        for _ in range(2):
            F = F - (np.square(s) @ F) / np.square(s).sum()
    F = F * s[:, None]
    C = product(F.T, F) if F.shape[1] < len(F) else product(F, F.T)
    values, error = leading(C, min(k, len(C)))
    trace = float(np.square(F).sum())
    error += 4 * (F.shape[1] + 4) * EPS_LONG * trace
    values = np.concatenate([values, np.zeros(max(k - len(values), 0), dtype=LD)])
    return Truth(values, error, 4 * EPS * trace, trace, lambda U: product(F, product(F.T, U)))


def _of_values(found: Values, s: Array, k: int, center: bool) -> Truth:
    K, size = (found.part, found.size) if center else (found.part + found.constant, found.size + abs(found.constant))
    if center:
        shares = np.square(s) / np.square(s).sum()
        means = K @ shares
        K = K - means[:, None] - means[None, :] + shares @ means
    B = K * s[:, None] * s[None, :]
    skew = float(np.abs(B - B.T).max(initial=0.0)) * len(B)
    B = (B + B.T) / 2
    roots = s.astype(np.float64)
    size = np.linalg.norm(size.astype(np.float64) * roots[:, None] * roots[None, :])
    eps = float(np.finfo(B.dtype).eps)
    values, error = leading(B, k)
    return Truth(
        values,
        float(error + 4 * eps * size + skew),
        float(4 * EPS * size + skew),
        float(np.trace(B)),
        lambda U: product(B, U) if B.dtype == LD else (B @ U.astype(B.dtype)).astype(LD),
    )


def leading(B: Array, k: int) -> tuple[Array, float]:
    """Return the k largest eigenvalues of a symmetric matrix, and how wrong they may be.

    Of long double by Rayleigh-Ritz on float64 eigenvectors V: with M = V'BV and E = V'V - I the matrix in an
    orthonormal basis is W = M - (EM + ME)/2, up to E^2. Its eigenvalues differ by second order only from those of the
    blocks of W that belong to groups of near eigenvalues; each block is solved in float64 after its middle has been
    subtracted from it.
    """
    n, peak = len(B), float(np.abs(B).max(initial=0.0))
    if peak == 0.0 or not math.isfinite(peak):
        return np.full(min(k, n), B.dtype.type(peak)), 0.0
    scale = np.ldexp(B.dtype.type(1), int(np.frexp(B.dtype.type(peak))[1]))
    B = B / scale
    if B.dtype != LD:
        few = (n - min(k, n), n - 1)
        values = eigh(B, eigvals_only=True, driver="evx", subset_by_index=few)[::-1]
        return np.asarray(values * scale), float(8 * EPS * math.sqrt(n) * np.linalg.norm(B) * scale)
    values, V = np.linalg.eigh(B.astype(np.float64))  # all: LAPACK's ways to some of them lose copies
    values, V = values[::-1], V[:, ::-1]
    top = float(np.abs(values).max())
    count = _count(values, k, top)
    V = V[:, :count]
    images = product(B, V)
    M, E = product(V.T, images), product(V.T, V) - np.eye(count)
    D = np.diag(M)
    W = (M + M.T) / 2 - E * (D[:, None] + D[None, :]) / 2
    off = float(np.linalg.norm((W - np.diag(np.diag(W))).astype(np.float64)))
    error = 8 * EPS_LONG * math.sqrt(n) * top + off**2 / (_TOGETHER * top)
    if count < n:  # what the vectors that were left out may do
        R = float(np.linalg.norm((images - product(V, M)).astype(np.float64)))
        error += R * min(1.0, R / float(values[count - 1] - values[count]))
    return np.asarray(_by_groups(W, _TOGETHER * top)[:k] * scale), float(error * scale)


def _count(values: Array, k: int, top: float) -> int:
    """Return how many eigenvectors to take: k, and more up to a gap."""
    gaps = values[k - 1 : -1] - values[k:]
    wide = np.flatnonzero(gaps > 100 * _TOGETHER * top)
    return k + int(wide[0]) if len(wide) else len(values)


def _by_groups(W: Array, together: float) -> Array:
    order = np.argsort(-np.diag(W), kind="stable")
    diagonal = np.diag(W)[order]
    found = []
    for group in np.split(order, np.flatnonzero(-np.diff(diagonal) > together) + 1):
        middle = np.diag(W)[group].mean()
        block = W[np.ix_(group, group)] - middle * np.eye(len(group))
        found.append(middle + np.linalg.eigvalsh(block.astype(np.float64))[::-1].astype(LD))
    return -np.sort(-np.concatenate(found))
