"""Kernels and random features as formulas of an ONNX graph.

A kernel writes its own formula (`Kernel.traced`) with what `Pairs` offers. |x|^2 + |y|^2 - 2 x.y of centred rows is off
by rounding of the size of |x|^2, which does no harm unless rows spread over thousands of bandwidths or the kernel has a
cusp at distance 0. `_squares` is for these: rows are cut into a multiple of a power of two, so short that inner
products have no rounding at all, and a remainder of about a millionth of it.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.fft import rfft

from kpca import kernels
from kpca._base.errors import InputError
from kpca.features.frequencies import Projection
from kpca.features.parts import Activated, Beside, Flat, Fourier, Homogeneous, Part, TensorSketch
from kpca.io.onnx import _graph
from kpca.io.onnx._graph import Value, absolute, angle, is_zero, maximum, minimum, sqrt, unit_rows
from kpca.kernels import Kernel
from kpca.kernels.base import KERNELS

FloatArray = NDArray[Any]
# Above this, rounding of |x|^2 + |y|^2 - 2 x.y may show in scores.
_DISTANCE_ERROR = 1e-13


class Pairs:
    """Rows X of a graph with known rows Y: what kernels are functions of, and the functions.  # shape: (m, n)"""

    exp, expm1, log1p, sqrt = map(staticmethod, (_graph.exp, _graph.expm1, _graph.log1p, sqrt))
    sin, cos, tanh, power = map(staticmethod, (_graph.sin, _graph.cos, _graph.tanh, _graph.power))
    minimum, below, polynomial = map(staticmethod, (minimum, _graph.below, _graph.polynomial))

    def __init__(self, X: Value, Y: FloatArray) -> None:
        self._X, self._Y = X, Y
        self.where = X.graph.where

    def values(self, kernel: Kernel, *, shifted: bool = False) -> Value:
        """Return the values of a kernel, as the engine has them: `shifted` ones are minus f(0).  # shape: (m, n)"""
        if isinstance(kernel, kernels.PairwiseCallable | kernels.VectorisedCallable):
            raise InputError("An ONNX file holds formulas; this kernel is a Python function: take one of kpca.kernels.")
        known = [kind for kind in KERNELS if kind.traced is not Kernel.traced]
        if type(kernel) not in known:
            names = ", ".join(kind.name for kind in known if not issubclass(kind, kernels.Composite))
            raise InputError(
                f"Exporting as ONNX must know the formula of the kernel, which it does for {names}, their sums and "
                f"products; got {kernel.name!r}: take one of these."
            )
        values: Value = kernel.traced(self, shifted=shifted)
        return values

    def constant(self, number: float) -> Value:
        """Return one number for all pairs."""
        return (0.0 * self._X).sums() + np.full(len(self._Y), number)

    def distances(self, kernel: kernels.RadialKernel) -> Value:
        """Return t = -|x - y|^2 of prepared rows; centred first, so that an offset costs no digits."""
        X, Y = self._X, self._Y
        centre = _short(Y.mean(axis=0))
        scale = kernel.prepare(np.ones((1, Y.shape[1])))
        factor = 1.0
        if np.ptp(scale) == 0.0:  # a common one at the end, where it rounds no coordinate
            factor, scale = float(scale[0, 0]) ** 2, np.ones_like(scale)
        known = (Y - centre) * scale
        rows = X - centre if factor != 1.0 else (X - centre) * scale
        radius = factor * float(_dots(known, known).max(initial=0.0))
        careful = kernel.singular_at_zero or float(np.finfo(np.float64).eps) * radius > _DISTANCE_ERROR
        if careful:
            return next(_squares(rows, known, operator.sub)) * -factor
        # few steps, because each of them touches m n numbers
        doubled = rows @ np.ascontiguousarray(2.0 * factor * known.T)
        return minimum(doubled - (rows * rows).sums() * factor - factor * _dots(known, known), 0.0)

    def dots(self, gamma: float = 1.0) -> Value:
        """Return gamma x.y."""
        root = math.sqrt(gamma)
        return (self._X if root == 1.0 else root * self._X) @ np.ascontiguousarray(root * self._Y.T)

    def cosines(self) -> Value:
        """Return x.y of unit rows."""
        return self._units[0] @ np.ascontiguousarray(kernels.Cosine().prepare(self._Y).T)

    def angles(self) -> Value:
        """Return the angle 2 atan(|u - v| / |u + v|) of unit rows; rows of zeros are at right angles to everything."""
        known = kernels.Cosine().prepare(self._Y)
        apart, together = map(sqrt, _squares(self._units[0], known, operator.sub, operator.add))
        nowhere = is_zero(apart + together)  # two rows of zeros
        half = angle(self.where(nowhere, 1.0, apart), self.where(nowhere, 1.0, together))
        return half + half

    def lengths(self) -> tuple[Value, FloatArray]:
        """Return |x| and |y|.  # shapes: (m, 1), (n,)"""
        return self._units[1], np.sqrt(kernels.Linear().diagonal(self._Y))

    @cached_property
    def _units(self) -> tuple[Value, Value]:
        return unit_rows(self._X)

    def l1(self) -> Value:
        """Return sum |x_j - y_j|."""
        return self._each_row(lambda x: absolute(self._Y - x))

    def chi2(self) -> Value:
        """Return -sum (x_j - y_j)^2 / (x_j + y_j)."""

        def terms(x: Value) -> Value:
            gap, total = self._Y - x, self._Y + x
            quotient: Value = gap * gap / x.graph.where(is_zero(total), 1.0, total)
            return quotient

        return -self._each_row(terms)

    def overlaps(self) -> Value:
        """Return sum min(x_j, y_j)."""
        return self._each_row(lambda x: minimum(x, self._Y))

    def _each_row(self, terms: Callable[[Value], Value]) -> Value:
        """Return sums over features, a row at a time: for all at once would be m n d numbers."""
        n, d = self._Y.shape

        def sums(x: Value) -> Value:
            return x.graph.node("Reshape", terms(x).sums(), np.array([n], dtype=np.int64))

        return self._X.graph.each_row(self._X, d, sums)


class Own(Pairs):
    """Each row of a graph with itself, so that the values of a kernel are k(x, x).  # shape: (m, 1)"""

    def __init__(self, X: Value) -> None:
        super().__init__(X, np.zeros((1, 0)))

    def _nothing(self) -> Value:
        """Return 0 for each row."""
        return self.constant(0.0)

    def distances(self, kernel: kernels.RadialKernel) -> Value:
        """Return 0."""
        return self._nothing()

    l1 = chi2 = _nothing

    def dots(self, gamma: float = 1.0) -> Value:
        """Return gamma |x|^2."""
        return (self._X * self._X).sums() * gamma

    def cosines(self) -> Value:
        """Return |u|^2 of unit rows: 1, or 0 of a row of zeros."""
        return (self._units[0] * self._units[0]).sums()

    def angles(self) -> Value:
        """Return 0, but a right angle for a row of zeros."""
        return self.where(is_zero(self._units[1]), 0.5 * math.pi, self._nothing())

    def lengths(self) -> tuple[Value, Any]:
        """Return |x| twice."""
        return self._units[1], self._units[1]

    def overlaps(self) -> Value:
        """Return sum x_j."""
        return self._X.sums()


def _short(centre: FloatArray) -> FloatArray:
    """Return numbers near these with so few digits that taking them off rows leaves the digits of the rows."""
    with np.errstate(over="ignore"):
        rounded = centre.astype(np.float32).astype(np.float64)
    return np.where(np.isfinite(rounded), rounded, centre)


def _squares(X: Value, Y: FloatArray, *signs: Callable[[Any, Any], Any]) -> Iterator[Value]:
    """Give |x_i - y_j|^2 for `sub`, |x_i + y_j|^2 for `add`, right also where they are tiny.  # shape: (m, n)

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
    norms = (H * H).sums() + _dots(G, G)
    inner = H @ np.ascontiguousarray(2.0 * G.T)  # twice the inner products, like norms without rounding
    # what remainders add to the norms, and to the inner products
    own = 2.0 * (H * L).sums() + (L * L).sums() + (2.0 * _dots(G, K) + _dots(K, K))
    rest = H @ np.ascontiguousarray(2.0 * K.T) + L @ np.ascontiguousarray(2.0 * Y.T)
    for sign in signs:
        yield maximum(sign(norms, inner) + sign(own, rest), 0.0)


def _dots(Y: FloatArray, Z: FloatArray) -> FloatArray:
    products: FloatArray = np.einsum("ij,ij->i", Y, Z)
    return products


# -- Random features: V'f(x) for a matrix V, or f(x) itself; linear maps in a row are multiplied out beforehand --------

# (part, rows, V, number of features) -> the features times V, or themselves if V is None
Formula = Callable[[Any, Value, FloatArray | None, int], Value]


def random_features(part: Part, X: Value, V: FloatArray | None, rank: int) -> Value:
    """Return f(x) V, or f(x) if there is no V.  # shape: (m, k) or (m, rank)"""
    if type(part) not in TABLE:
        raise InputError(f"ONNX needs features with a formula; got {type(part).__name__}: take landmarks.")
    return TABLE[type(part)](part.at(np.dtype(np.float64)), X, V, rank)


def _joined(*pieces: tuple[Value, FloatArray | None]) -> Value:
    """Return the sum of products with parts of V, or features side by side where there is no V."""
    values = [piece if part is None else piece @ np.ascontiguousarray(part) for piece, part in pieces]
    if len(values) > 1 and pieces[0][1] is None:
        return values[0].graph.node("Concat", *values, axis=1)
    return functools.reduce(operator.add, values)


def _some(V: FloatArray | None, rows: slice) -> FloatArray | None:
    return None if V is None else V[rows]


def _projected(projection: Projection, X: Value, count: int) -> Value:
    """Return (X - origin) W, with W as a matrix whatever made it.  # shape: (m, count)"""
    W = projection.back(np.eye(count)).T
    origin = getattr(projection, "origin", None)
    return (X if origin is None else X - origin) @ np.ascontiguousarray(W)


def _waves(angles: Value, rank: int, phase: float) -> list[tuple[Value, slice, slice]]:
    """Return all cosines, all sines and, of an odd number, one more cosine of random phase.

    Beside each are the columns of its angles, and those of its features.
    """
    pairs = rank // 2
    both, last = slice(0, pairs), slice(pairs, pairs + 1)
    first = angles.columns(np.arange(pairs)) if rank % 2 else angles
    waves = [(_graph.cos(first), both, both), (_graph.sin(first), both, slice(pairs, 2 * pairs))] if pairs else []
    if rank % 2:
        waves.append((_graph.cos(angles.columns(np.array([pairs])) + phase), last, slice(2 * pairs, rank)))
    return waves


def _fourier(part: Fourier, X: Value, V: FloatArray | None, rank: int) -> Value:
    waves = _waves(_projected(part.projection, X, -(-rank // 2)), rank, part.phase)
    factor = math.sqrt(2.0 / rank)
    joined = _joined(*((wave, None if V is None else factor * V[cut]) for wave, _, cut in waves))
    return factor * joined if V is None else joined


def _homogeneous(part: Homogeneous, X: Value, V: FloatArray | None, rank: int) -> Value:
    # The logarithm of 0 may be anything finite: its features are multiplied by sqrt(0).
    logs = _graph.log(maximum(X, float(np.finfo(np.float64).tiny)))
    waves = _waves(logs.columns(part.features) * part.frequencies, rank, part.phase)
    sizes = sqrt(X)
    return _joined(
        *((wave * sizes.columns(part.features[which]) * part.roots[cut], _some(V, cut)) for wave, which, cut in waves)
    )


def _activated(part: Activated, X: Value, V: FloatArray | None, rank: int) -> Value:
    rows = unit_rows(X)[0] if part.unit_rows else X
    if part.activation == "sign":
        signs = _graph.sign(_projected(part.projection, rows, rank - 1)) * math.sqrt(0.5 / (rank - 1))
        constant = _flat(Flat(math.sqrt(0.5)), X, None, 1)
        return _joined((constant, _some(V, slice(0, 1))), (signs, _some(V, slice(1, rank))))
    F, relu = _projected(part.projection, rows, rank), part.activation == "relu"
    return _joined((maximum(F, 0.0) * math.sqrt(2.0 / rank) if relu else F * math.sqrt(1.0 / rank), V))


def _sketched(part: TensorSketch, X: Value, V: FloatArray | None, rank: int) -> Value:
    """The convolution as a product of transforms: each sketch and its transform are one matrix, so is the inverse."""
    if len(part.sketches) == 1:
        counts = X @ np.ascontiguousarray(part.sketches[0].toarray().T)
        return _joined((counts + _spike(part, 0, rank), V))
    real, imaginary = _transform(part, 0, X, rank)
    for number in range(1, len(part.sketches)):
        a, b = _transform(part, number, X, rank)
        real, imaginary = real * a - imaginary * b, real * b + imaginary * a
    # C and S with irfft(a + ib) V = a C + b S: transforms of V instead of a matrix of rank^2 numbers
    transformed = rfft(np.eye(rank) if V is None else V, axis=0)
    # each frequency but the first and, of an even number, the last stands for its mirror image too
    weights = np.full((len(transformed), 1), 2.0 / rank)
    weights[[0] if rank % 2 else [0, -1]] = 1.0 / rank
    C: FloatArray = weights * transformed.real
    S: FloatArray = weights * transformed.imag
    return real @ C + imaginary @ S


def _spike(part: TensorSketch, number: int, rank: int) -> FloatArray:
    constant = np.zeros(rank)
    constant[part.places[number]] = part.constants[number]
    return constant


def _transform(part: TensorSketch, number: int, X: Value, rank: int) -> tuple[Value, Value]:
    W, constant = rfft(part.sketches[number].toarray().T, axis=1), rfft(_spike(part, number, rank))
    pieces = [(np.ascontiguousarray(of(W)), of(constant)) for of in (np.real, np.imag)]
    return X @ pieces[0][0] + pieces[0][1], X @ pieces[1][0] + pieces[1][1]


def _flat(part: Flat, X: Value, V: FloatArray | None, rank: int) -> Value:
    row = np.zeros(rank)
    row[0] = part.root
    return (0.0 * X).sums() + (row if V is None else row @ V)


def _beside(part: Beside, X: Value, V: FloatArray | None, rank: int) -> Value:
    pieces, start = [], 0
    for member, width in zip(part.members, part.ranks, strict=True):
        pieces.append(random_features(member, X, _some(V, slice(start, start + width)), width))
        start += width
    joined = _joined(*((piece, None) for piece in pieces)) if V is None else functools.reduce(operator.add, pieces)
    return part.root * joined


TABLE: dict[type, Formula] = {
    Fourier: _fourier,
    Homogeneous: _homogeneous,
    Activated: _activated,
    TensorSketch: _sketched,
    Flat: _flat,
    Beside: _beside,
}
