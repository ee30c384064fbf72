"""What kernels are functions of: inner products and squared distances of rows of a graph with known rows.

|x|^2 + |y|^2 - 2 x.y of centred rows is off by rounding of the size of |x|^2, which does no harm unless rows spread
over thousands of bandwidths or the kernel has a cusp at distance 0. `Split` is for these: rows are cut into a multiple
of a power of two, so short that inner products have no rounding at all, and a remainder of about a millionth of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca import kernels
from kpca._base.errors import InputError
from kpca.io.onnx._graph import (
    Value,
    absolute,
    angle,
    exp,
    expm1,
    is_zero,
    log1p,
    matern_less_one,
    maximum,
    minimum,
    power,
    sqrt,
    unit_rows,
)
from kpca.kernels import Kernel

FloatArray = NDArray[Any]


def negative_squares(X: Value, Y: FloatArray, factor: float) -> Value:
    """Return -factor |x_i - y_j|^2, at most 0; few steps, because each of them touches m n numbers.  # shape: (m, n)"""
    doubled = X @ np.ascontiguousarray(2.0 * factor * Y.T)
    return minimum(doubled - (X * X).sums() * factor - factor * _dots(Y, Y), 0.0)


@dataclass(frozen=True)
class Split:
    """Squared distances of rows and of their mirror images, |x - y|^2 and |x + y|^2, right also where they are tiny."""

    norms: Value
    inner: Value  # twice the inner products, like norms without rounding
    own: Value  # what remainders add to the norms
    rest: Value  # and to the inner products

    def apart(self) -> Value:
        """Return |x_i - y_j|^2.  # shape: (m, n)"""
        return maximum((self.norms - self.inner) + (self.own - self.rest), 0.0)

    def together(self) -> Value:
        """Return |x_i + y_j|^2.  # shape: (m, n)"""
        return maximum((self.norms + self.inner) + (self.own + self.rest), 0.0)


def split(X: Value, Y: FloatArray) -> Split:
    """Return what distances of rows X and known rows Y are made of.

    With x = h + l and y = g + k, |x - y|^2 = |h - g|^2 + 2 (h - g).(l - k) + |l - k|^2. The first is a sum of whole
    numbers (times a power of four) below 2^53, exact however it is added up. A row farther out than all of Y is close
    to none of them, and needs no such care.
    """
    d = Y.shape[1]
    largest = float(np.abs(Y).max(initial=0.0)) or 1.0
    bits = (51 - math.ceil(math.log2(max(d, 1)))) // 2  # 4 d (2^bits)^2 <= 2^53
    step = 2.0 ** (math.floor(math.log2(largest)) + 1 - bits)
    G = np.round(Y / step) * step
    K = Y - G
    H = X.graph.node("Round", X / step) * step
    L = X - H
    return Split(
        norms=(H * H).sums() + _dots(G, G),
        inner=H @ np.ascontiguousarray(2.0 * G.T),
        own=2.0 * (H * L).sums() + (L * L).sums() + (2.0 * _dots(G, K) + _dots(K, K)),
        rest=H @ np.ascontiguousarray(2.0 * K.T) + L @ np.ascontiguousarray(2.0 * Y.T),
    )


def _dots(Y: FloatArray, Z: FloatArray) -> FloatArray:
    products: FloatArray = np.einsum("ij,ij->i", Y, Z)
    return products


# -- Kernel values as formulas of an ONNX graph: one row of `TABLE` per kernel ----------------------------------------

# k(x_i, y_j) of rows of the graph with known rows; minus f(0), where the kernel has it, if the last says so.
Formula = Callable[[Any, Value, FloatArray, bool], Value]

# Above this, rounding of |x|^2 + |y|^2 - 2 x.y may show in scores.
_DISTANCE_ERROR = 1e-13
# exp(-u) is 0 well before: keeps infinity times 0 out of polynomial times exponential.
_FAR = 1000.0


def kernel_values(kernel: Kernel, X: Value, Y: FloatArray, *, shifted: bool = False) -> Value:
    """Return the values of a kernel, as the engine has them: `shifted` ones are minus f(0).  # shape: (m, n)"""
    return _formula(kernel)(kernel, X, Y, shifted)


def _formula(kernel: Kernel) -> Formula:
    if isinstance(kernel, kernels.PairwiseCallable | kernels.VectorisedCallable):
        raise InputError(
            "An ONNX file holds formulas; this kernel is a Python function: take one of kpca.kernels, or sums and "
            "products of them."
        )
    if type(kernel) not in TABLE:
        names = ", ".join(kind.name for kind in TABLE if not issubclass(kind, kernels.Composite))
        raise InputError(
            f"Exporting as ONNX must know the formula of the kernel, which it does for {names}, their sums and "
            f"products; got {kernel.name!r}: take one of these."
        )
    return TABLE[type(kernel)]


# -- of distances -----------------------------------------------------------------------------------------------------


def _argument(kernel: kernels.RadialKernel, X: Value, Y: FloatArray) -> Value:
    """Return t = -|x - y|^2 of prepared rows; centred first, so that an offset costs no digits.  # shape: (m, n)"""
    centre = _short(Y.mean(axis=0))
    scale = kernel.prepare(np.ones((1, Y.shape[1])))
    factor = 1.0
    if np.ptp(scale) == 0.0:  # a common one at the end, where it rounds no coordinate
        factor, scale = float(scale[0, 0]) ** 2, np.ones_like(scale)
    known = (Y - centre) * scale
    rows = X - centre if factor != 1.0 else (X - centre) * scale
    radius = factor * float(np.einsum("ij,ij->i", known, known).max(initial=0.0))
    careful = kernel.singular_at_zero or float(np.finfo(np.float64).eps) * radius > _DISTANCE_ERROR
    return split(rows, known).apart() * -factor if careful else negative_squares(rows, known, factor)


def _short(centre: FloatArray) -> FloatArray:
    """Return numbers near these with so few digits that taking them off rows leaves the digits of the rows."""
    with np.errstate(over="ignore"):
        rounded = centre.astype(np.float32).astype(np.float64)
    return np.where(np.isfinite(rounded), rounded, centre)


def _rbf(kernel: Any, X: Value, Y: FloatArray, shifted: bool) -> Value:
    t = _argument(kernel, X, Y)
    return expm1(t) if shifted else exp(t)


def _matern(kernel: Any, X: Value, Y: FloatArray, shifted: bool) -> Value:
    nu = kernel.nu if isinstance(kernel, kernels.Matern) else 0.5
    u = minimum(sqrt(-_argument(kernel, X, Y)), _FAR)
    if nu == 0.5:
        return expm1(-u) if shifted else exp(-u)
    if shifted:
        return matern_less_one(u, nu)
    return (1.0 + (u if nu == 1.5 else u * (1.0 + u / 3.0))) * exp(-u)


def _rational_quadratic(kernel: Any, X: Value, Y: FloatArray, shifted: bool) -> Value:
    exponent: Value = -kernel.alpha * log1p(-_argument(kernel, X, Y))
    return expm1(exponent) if shifted else exp(exponent)


# -- of inner products and angles -------------------------------------------------------------------------------------


def _linear(kernel: Any, X: Value, Y: FloatArray, shifted: bool) -> Value:
    return X @ np.ascontiguousarray(Y.T)


def _base(kernel: Any, X: Value, Y: FloatArray) -> Value:
    """Return gamma x.y + coef0.  # shape: (m, n)"""
    root = math.sqrt(kernel.gamma)
    return (root * X) @ np.ascontiguousarray(root * Y.T) + float(kernel.coef0)


def _polynomial(kernel: Any, X: Value, Y: FloatArray, shifted: bool) -> Value:
    return power(_base(kernel, X, Y), kernel.degree)


def _sigmoid(kernel: Any, X: Value, Y: FloatArray, shifted: bool) -> Value:
    return X.graph.node("Tanh", _base(kernel, X, Y))


def _cosine(kernel: Any, X: Value, Y: FloatArray, shifted: bool) -> Value:
    return unit_rows(X)[0] @ np.ascontiguousarray(kernels.Cosine().prepare(Y).T)


def _arc_cosine(kernel: Any, X: Value, Y: FloatArray, shifted: bool) -> Value:
    """From the angle 2 atan(|u - v| / |u + v|) of unit rows; a row of zeros is at right angles to everything."""
    graph, (U, lengths) = X.graph, unit_rows(X)
    V = kernels.Cosine().prepare(Y)
    parts = split(U, V)
    apart, together = sqrt(parts.apart()), sqrt(parts.together())
    nowhere = is_zero(apart + together)  # two rows of zeros
    theta = 2.0 * angle(graph.where(nowhere, 1.0, apart), graph.where(nowhere, 1.0, together))
    if kernel.order == 0:
        return 1.0 - theta / math.pi
    values = graph.node("Sin", theta) + (math.pi - theta) * graph.node("Cos", theta)
    return values * lengths * (np.sqrt(kernels.Linear().diagonal(Y)) / math.pi)


# -- feature by feature: a row at a time, for all at once would be m n d numbers --------------------------------------


def _row_sums(terms: Value, n: int) -> Value:
    """Return the sums of the rows of an (n, d) value as a row.  # shape: (n,)"""
    return terms.graph.node("Reshape", terms.sums(), np.array([n], dtype=np.int64))


def _laplacian(kernel: Any, X: Value, Y: FloatArray, shifted: bool) -> Value:
    distances = X.graph.each_row(X, Y.shape[1], lambda x: _row_sums(absolute(Y - x), len(Y)))
    return exp(-kernel.gamma * distances)


def _additive_chi2(kernel: Any, X: Value, Y: FloatArray, shifted: bool) -> Value:
    def less(x: Value) -> Value:
        gap, total = Y - x, Y + x
        return _row_sums(gap * gap / x.graph.where(is_zero(total), 1.0, total), len(Y))

    return -X.graph.each_row(X, Y.shape[1], less)


def _chi2(kernel: Any, X: Value, Y: FloatArray, shifted: bool) -> Value:
    return exp(kernel.gamma * _additive_chi2(kernel, X, Y, shifted))


def _intersection(kernel: Any, X: Value, Y: FloatArray, shifted: bool) -> Value:
    return X.graph.each_row(X, Y.shape[1], lambda x: _row_sums(minimum(x, Y), len(Y)))


# -- made of others ---------------------------------------------------------------------------------------------------


def _constant(kernel: Any, X: Value, Y: FloatArray, shifted: bool) -> Value:
    return (0.0 * X).sums() + np.full(len(Y), kernel.constant)


def _sum(kernel: Any, X: Value, Y: FloatArray, shifted: bool) -> Value:
    first, *others = [kernel_values(member, X, Y, shifted=shifted) for member in kernel.members]
    for other in others:
        first = first + other
    return first


def _product(kernel: Any, X: Value, Y: FloatArray, shifted: bool) -> Value:
    first, *others = [kernel_values(member, X, Y) for member in kernel.members]  # the product of shifted ones is none
    for other in others:
        first = first * other
    return first


def _scaled(kernel: Any, X: Value, Y: FloatArray, shifted: bool) -> Value:
    values = kernel_values(kernel.kernel, X, Y, shifted=shifted)
    return values * float(kernel.factor)


TABLE: dict[type[Kernel], Formula] = {
    kernels.Linear: _linear,
    kernels.Polynomial: _polynomial,
    kernels.Sigmoid: _sigmoid,
    kernels.Cosine: _cosine,
    kernels.ArcCosine: _arc_cosine,
    kernels.RBF: _rbf,
    kernels.Exponential: _matern,
    kernels.Matern: _matern,
    kernels.RationalQuadratic: _rational_quadratic,
    kernels.Laplacian: _laplacian,
    kernels.Chi2: _chi2,
    kernels.AdditiveChi2: _additive_chi2,
    kernels.HistogramIntersection: _intersection,
    kernels.Constant: _constant,
    kernels.Sum: _sum,
    kernels.Product: _product,
    kernels.Scaled: _scaled,
}
