"""The truth in long double: kernel values by differences, centring, eigenvalues and residuals to some 1e-18.

Independent of how kpca computes: it takes from a fitted kernel its parameters alone. Every entry of a kernel matrix comes
with a magnitude A, so that arithmetic of unit eps changes it by at most about eps A; that says how good this truth is, and
what any evaluation in float64 may do. Nothing here needs more than long double of 64 bits (x87) or better.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import eigh

from kpca import kernels
from kpca.kernels.base import Composite, Constant, Product, Scaled
from kpca.kernels.dot import ArcCosine, Cosine, Linear, Polynomial, Sigmoid
from kpca.kernels.radial import RBF, Exponential, Matern, RationalQuadratic
from kpca.kernels.sums import AdditiveChi2, Chi2, HistogramIntersection, Laplacian

Array = NDArray[Any]
LD = np.longdouble
EPS_LONG = float(np.finfo(LD).eps)
EPS = float(np.finfo(np.float64).eps)
# A product of fewer multiplications is done by NumPy's own loop; of more, in slices that BLAS multiplies exactly.
_SLICED = 150_000
# Eigenvalues nearer than this (relative to the largest) are solved together.
_TOGETHER = 1e-9
# Rows up to which all eigenvectors are found first; of more only the leading ones.
_ALL_ROWS = 400
# Beyond it kernel matrices are made in float64.
LONG_ROWS = 1200


def good_enough() -> bool:
    """Return True if long double is longer than double here."""
    return EPS_LONG < 1e-18


# -- products to 64 bits ----------------------------------------------------------------------------------------------


def product(A: Array, B: Array) -> Array:
    """Return A B to about 64 bits of the largest entry of each row of A times that of each column of B.  # shape: (n, k)"""
    n, m = A.shape
    k = B.shape[1]
    if n * m * k <= _SLICED or m < 8:
        return np.asarray(A.astype(LD) @ B.astype(LD))
    bits = (53 - math.ceil(math.log2(m)) - 1) // 2
    (a1, a2, a3), rows = _slices(A, 1, bits)
    (b1, b2, b3), columns = _slices(B, 0, bits)
    small = a1 @ b3 + a3 @ b1 + a2 @ b2  # below 2^-2b of the whole: a float64 sum of them is enough
    found = (a1 @ b1).astype(LD)
    found += a1 @ b2
    found += a2 @ b1
    found += small
    return np.asarray(np.ldexp(np.ldexp(found, rows), columns))


def _slices(A: Array, axis: int, bits: int) -> tuple[list[Array], Array]:
    """Return A in slices of so many bits (the last takes the rest) after scaling by powers of 2, and their exponents."""
    rest = A.astype(LD)
    exponents = np.frexp(np.abs(rest).max(axis=axis, keepdims=True, initial=0.0))[1]
    rest = np.ldexp(rest, -exponents)
    found = []
    for number in (1, 2):
        part = np.rint(np.ldexp(rest, bits * number))
        part = np.ldexp(part, -bits * number).astype(np.float64)
        rest -= part
        found.append(part)
    return [*found, rest.astype(np.float64)], exponents


# -- kernel values: a constant, what is added to it, and the magnitude that rounding is relative to --------------------


@dataclass(frozen=True)
class Values:
    """k(x_i, x_j) = constant + part_ij, the part without cancellation where the kernel is nearly constant."""

    constant: Any
    part: Array  # shape: (n, n)
    size: Array  # shape: (n, n), float64
    given: bool = False  # True if the values are those of a function: then nothing better than float64 exists

    def whole(self) -> Array:
        return np.asarray(self.part + self.constant)


def kernel_values(kernel: Any, X: Array) -> Values:
    """Return the values of a kernel between all rows, from its definition and its parameters."""
    if isinstance(kernel, Composite):
        return _composite(kernel, X)
    if isinstance(kernel, Constant):
        zero = np.zeros((len(X), len(X)))
        return Values(LD(kernel.constant), zero.astype(LD), zero)
    for kinds, make in _MAKERS:
        if isinstance(kernel, kinds):
            return make(kernel, X)
    K = np.asarray(kernel.block(np.asarray(X, dtype=np.float64), np.asarray(X, dtype=np.float64)))
    return Values(LD(0), ((K + K.T) / 2).astype(LD), 8 * np.abs(K), given=True)


def _composite(kernel: Any, X: Array) -> Values:
    parts = [kernel_values(member, X) for member in kernel.members]
    given = any(part.given for part in parts)
    if isinstance(kernel, Scaled):
        factor, one = LD(kernel.factor), parts[0]
        return Values(factor * one.constant, factor * one.part, float(factor) * one.size, given)
    found = parts[0]
    for other in parts[1:]:
        if isinstance(kernel, Product):  # (a + S)(b + T) = ab + aT + bS + ST
            S, T, a, b = found.part, other.part, found.constant, other.constant
            size = np.abs(found.whole()) * other.size + np.abs(other.whole()) * found.size
            part = a * T + b * S + S * T
            found = Values(a * b, part, (size + 3 * np.abs(part)).astype(np.float64), given)
        else:
            size = found.size + other.size + np.abs(found.part) + np.abs(other.part)
            found = Values(found.constant + other.constant, found.part + other.part, size.astype(np.float64), given)
    return found


def over_columns(X: Array, term: Callable[[Array, Array], Array]) -> Array:
    """Return the sum over columns m of term(x_im, x_jm).  # shape: (n, n)"""
    total = np.zeros((len(X), len(X)), dtype=LD)
    for column in X.T.astype(LD):
        total += term(column[:, None], column[None, :])
    return total


def _squares(X: Array, scale: Any = 1.0) -> Array:
    factors = np.broadcast_to(np.asarray(scale, dtype=LD), (X.shape[1],))
    return over_columns(X.astype(LD) * 1, lambda x, y: np.square(x - y)) if np.ndim(scale) == 0 and scale == 1.0 else (
        sum(factor * np.square(column[:, None] - column[None, :])
            for factor, column in zip(factors, X.T.astype(LD), strict=True))
    )


def _decaying(t: Array, part: Array, slope: Array, d: int) -> Values:
    """Return f(0) = 1 and f - 1, with the size |t f'(t)| (d + 4) of what an error of t does, and that of f itself."""
    return Values(LD(1), part, ((d + 4) * np.abs(t * slope) + 3 * np.abs(part)).astype(np.float64))


def _rbf(kernel: Any, X: Array) -> Values:
    t = -_squares(X, np.asarray(kernel.gamma, dtype=LD))
    return _decaying(t, np.expm1(t), np.exp(t), X.shape[1])


def _matern(kernel: Any, X: Array) -> Values:
    nu = LD(kernel.nu)
    s = _squares(X, 1 / np.square(np.asarray(kernel.length_scale, dtype=LD)))
    u = np.sqrt(2 * nu * s)
    fall = np.exp(-u)
    if kernel.nu == 0.5:
        return _decaying(u, np.expm1(-u), fall, X.shape[1])
    more = u if kernel.nu == 1.5 else u + u * u / 3
    near = np.minimum(u, LD(0.5))
    series, term = np.zeros_like(u), np.ones_like(u)
    for k in range(2, 26):  # the terms of order u cancel
        term = near**k / LD(math.factorial(k)) * (-1) ** k
        series += term * (LD(1 - k) if kernel.nu == 1.5 else LD((k - 1) * (k - 3)) / 3)
    part = np.where(u < 0.5, series, np.expm1(-u) + more * fall)
    return _decaying(u, part, u * fall * (1 if kernel.nu == 1.5 else (1 + u) / 3), X.shape[1])


def _rational(kernel: Any, X: Array) -> Values:
    s = _squares(X, 1 / np.square(np.asarray(kernel.length_scale, dtype=LD)) / (2 * LD(kernel.alpha)))
    power = -LD(kernel.alpha) * np.log1p(s)
    return _decaying(power, np.expm1(power), np.exp(power), X.shape[1])


def _laplacian(kernel: Any, X: Array) -> Values:
    t = -LD(kernel.gamma) * over_columns(X, lambda x, y: np.abs(x - y))
    return _decaying(t, np.expm1(t), np.exp(t), X.shape[1])


def _chi2_distance(X: Array) -> Array:
    return over_columns(X, lambda x, y: np.square(x - y) / np.where(x + y == 0, LD(1), x + y))


def _chi2(kernel: Any, X: Array) -> Values:
    t = -LD(kernel.gamma) * _chi2_distance(X)
    return _decaying(t, np.expm1(t), np.exp(t), X.shape[1])


def _additive_chi2(kernel: Any, X: Array) -> Values:
    t = -_chi2_distance(X)
    return Values(LD(0), t, ((X.shape[1] + 4) * np.abs(t)).astype(np.float64))


def _intersection(kernel: Any, X: Array) -> Values:
    t = over_columns(X, np.minimum)
    return Values(LD(0), t, ((X.shape[1] + 4) * np.abs(t)).astype(np.float64))


def _dots(X: Array) -> tuple[Array, Array]:
    """Return x.y and what its rounding is relative to, (d + 2) |x| |y|."""
    rows = X.astype(LD)
    lengths = np.sqrt(np.square(rows).sum(axis=1)).astype(np.float64)
    return product(rows, rows.T), (X.shape[1] + 2) * np.outer(lengths, lengths)


def _linear(kernel: Any, X: Array) -> Values:
    return Values(LD(0), *_dots(X))


def _polynomial(kernel: Any, X: Array) -> Values:
    dots, size = _dots(X)
    t, c, p = LD(kernel.gamma) * dots, LD(kernel.coef0), kernel.degree
    size = float(kernel.gamma) * size + 2 * np.abs((t + c).astype(np.float64))
    if p == 0:
        return Values(LD(1), np.zeros_like(t), np.zeros(t.shape))
    if isinstance(p, int):
        part = sum(LD(math.comb(p, j)) * c ** (p - j) * t**j for j in range(1, p + 1))
        slope = p * np.abs(t + c) ** (p - 1)
        return Values(c**p, part, (size * slope.astype(np.float64) + 4 * p * np.abs(part)).astype(np.float64))
    with np.errstate(all="ignore"):
        part = np.power(t + c, LD(p))
        slope = np.abs(p * np.power(t + c, LD(p - 1)))
    slope = np.where(t + c == 0, LD(0), slope)
    return Values(LD(0), part, (size * slope.astype(np.float64) + 4 * np.abs(part)).astype(np.float64))


def _sigmoid(kernel: Any, X: Array) -> Values:
    dots, size = _dots(X)
    t = LD(kernel.gamma) * dots + LD(kernel.coef0)
    part = np.tanh(t)
    slope = (1 / np.square(np.cosh(np.minimum(np.abs(t), LD(5000))))).astype(np.float64)
    size = (float(kernel.gamma) * size + 2 * np.abs(t)).astype(np.float64) * slope + 2 * np.abs(part)
    return Values(LD(0), part, size.astype(np.float64))


def _unit(X: Array) -> Array:
    rows = X.astype(LD)
    rows = rows / np.where((peak := np.abs(rows).max(axis=1, keepdims=True)) == 0, LD(1), peak)
    length = np.sqrt(np.square(rows).sum(axis=1, keepdims=True))
    return np.asarray(rows / np.where(length == 0, LD(1), length))


def _cosine(kernel: Any, X: Array) -> Values:
    rows = _unit(X)
    dots = rows @ rows.T
    return Values(LD(0), dots, np.full(dots.shape, X.shape[1] + 6.0))


def _arc_cosine(kernel: Any, X: Array) -> Values:
    rows = _unit(X)
    apart, together = _squares(rows), over_columns(rows, lambda x, y: np.square(x + y))
    theta = 2 * np.arctan2(np.sqrt(apart), np.sqrt(together))
    none = ~rows.any(axis=1)
    pi = LD(4) * np.arctan(LD(1))
    theta[none] = pi / 2
    theta[:, none] = pi / 2
    if kernel.order == 0:
        return Values(LD(1), -theta / pi, np.full(theta.shape, X.shape[1] + 6.0))
    lengths = np.sqrt(np.square(X.astype(LD)).sum(axis=1))
    part = np.outer(lengths, lengths) / pi * (np.sin(theta) + (pi - theta) * np.cos(theta))
    return Values(LD(0), part, (np.outer(lengths, lengths) * (X.shape[1] + 6)).astype(np.float64))


_MAKERS: list[tuple[Any, Callable[[Any, Array], Values]]] = [
    (RBF, _rbf),
    ((Exponential, Matern), _matern),
    (RationalQuadratic, _rational),
    (Laplacian, _laplacian),
    (Chi2, _chi2),
    (AdditiveChi2, _additive_chi2),
    (HistogramIntersection, _intersection),
    (Linear, _linear),
    (Polynomial, _polynomial),
    (Sigmoid, _sigmoid),
    (Cosine, _cosine),
    (ArcCosine, _arc_cosine),
]


# -- the matrix whose eigenpairs are looked for, and its leading eigenvalues -------------------------------------------


@dataclass(frozen=True)
class Truth:
    """The largest eigenvalues of the centred (weighted) kernel matrix, its products, and how good all that is."""

    values: Array  # shape: (k,), long double, descending
    error: float  # |values - exact| is at most about this
    rounding: float  # what an evaluation of the kernel values in float64 may do to an eigenvalue
    trace: Any
    multiply: Callable[[Array], Array]  # (n, k) -> (n, k)


def truth_of(kernel: Any, X: Any, weights: Array | None, k: int, *, center: bool = True) -> Truth:
    """Return the truth about the rows of X (or of a kernel matrix, with kernel=None), all of positive weight."""
    X = X.toarray() if sparse.issparse(X) else np.asarray(X)
    s = np.ones(len(X), dtype=LD) if weights is None else np.sqrt(weights.astype(LD))
    if kernel is None:
        given = Values(LD(0), X.astype(LD), np.abs(X).astype(np.float64))
        return _of_matrix(given, s, k, center)
    if isinstance(kernel, Linear):
        return _of_rows(X, s, k, center)
    return _of_matrix(kernel_values(kernel, X), s, k, center)


def _of_rows(X: Array, s: Array, k: int, center: bool) -> Truth:
    """Return the truth about F F' with F = S (X - mean), by way of its small side."""
    F = X.astype(LD)
    far = np.abs(F).max(initial=0.0)
    if center:
        F = F - F[0]
        for _ in range(2):
            F = F - (np.square(s) @ F) / np.square(s).sum()
    F = F * s[:, None]
    n, d = F.shape
    C = product(F.T, F) if d < n else product(F, F.T)
    trace = np.square(F).sum()
    values, error = leading(C, min(k, len(C)))
    values = np.concatenate([values, np.zeros(max(k - len(values), 0), dtype=LD)])
    error += 4 * (d + 4) * EPS_LONG * float(trace)
    # rows as they are given are exact: float64 may lose what a difference of rows far from the origin loses
    rounding = 4 * EPS * float(trace)
    del far
    return Truth(values, error, rounding, trace, lambda U: product(F, product(F.T, U)))


def _of_matrix(found: Values, s: Array, k: int, center: bool) -> Truth:
    K = found.part if center else found.whole()
    size = found.size if center else found.size + float(abs(found.constant))
    if center:
        p = np.square(s) / np.square(s).sum()
        means = K @ p
        K = K - means[:, None] - means[None, :] + p @ means
    B = K * s[:, None] * s[None, :]
    skew = float(np.abs(B - B.T).max(initial=0.0)) * len(B)
    B = (B + B.T) / 2
    roots = s.astype(np.float64)
    norm = float(np.linalg.norm(size * roots[:, None] * roots[None, :]))
    values, error = leading(B, k)
    error += 4 * (EPS if found.given else EPS_LONG) * norm + skew
    return Truth(values, error, 4 * EPS * norm + skew, np.trace(B), lambda U: product(B, U))


def leading(B: Array, k: int) -> tuple[Array, float]:
    """Return the k largest eigenvalues of a symmetric long double matrix, and how wrong they may be.

    Rayleigh-Ritz on float64 eigenvectors V: W = M - (EM + ME)/2 with M = V'BV and E = V'V - I is the matrix in an
    orthonormal basis up to E^2. Its eigenvalues differ from its diagonal by second order between groups that are apart;
    each group is solved in float64 after its own middle has been subtracted.
    """
    n = len(B)
    peak = float(np.abs(B).max(initial=0.0)) if n else 0.0
    if peak == 0.0 or not math.isfinite(peak):
        return np.full(min(k, n), LD(peak)), 0.0
    scale = np.ldexp(LD(1), int(np.frexp(LD(peak))[1]))
    B = B / scale
    some = min(n, k + 8)
    subset = None if n <= _ALL_ROWS or some == n else (n - some, n - 1)
    values, V = eigh(B.astype(np.float64), subset_by_index=subset)
    values, V = values[::-1], V[:, ::-1]
    top = float(np.abs(values).max())
    count = _count(values, k, n, top)
    V = V[:, :count]
    images = product(B, V)
    M, E = product(V.T, images), product(V.T, V) - np.eye(count)
    D = np.diag(M)
    W = (M + M.T) / 2 - E * (D[:, None] + D[None, :]) / 2
    found = _by_groups(W, _TOGETHER * top)
    error = 8 * EPS_LONG * math.sqrt(n) * top
    off = float(np.linalg.norm((W - np.diag(np.diag(W))).astype(np.float64)))
    error += off**2 / (_TOGETHER * top)
    if count < n:
        R = float(np.linalg.norm((images - product(V, M)).astype(np.float64)))
        gap = float(values[count - 1] - values[count]) if count < len(values) else 0.0
        error += R * min(1.0, R / gap) if gap > 0 else R
    return np.asarray(found[:k] * scale), float(error * scale)


def _count(values: Array, k: int, n: int, top: float) -> int:
    """Return how many vectors to take: at least k, up to a gap, else all there are."""
    gaps = values[k - 1 : -1] - values[k:]
    wide = np.flatnonzero(gaps > 100 * _TOGETHER * top)
    if len(wide):
        return k + int(wide[0])
    if len(values) == n or not len(gaps):
        return len(values)
    return k + int(np.argmax(gaps))


def _by_groups(W: Array, together: float) -> Array:
    diagonal = np.diag(W)
    order = np.argsort(-diagonal, kind="stable")
    ends = [0, *(np.flatnonzero(-np.diff(diagonal[order]) > together) + 1).tolist(), len(order)]
    found = []
    for start, stop in zip(ends, ends[1:], strict=False):
        group = order[start:stop]
        middle = diagonal[group].mean()
        block = W[np.ix_(group, group)] - middle * np.eye(len(group))
        found.append(middle + np.linalg.eigvalsh(block.astype(np.float64))[::-1].astype(LD))
    return -np.sort(-np.concatenate(found))
