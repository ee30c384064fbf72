"""What kernels are functions of: inner products and squared distances of rows of a graph with known rows.

|x|^2 + |y|^2 - 2 x.y of centred rows is off by rounding of the size of |x|^2, which does no harm unless rows spread
over thousands of bandwidths or the kernel has a cusp at distance 0. `Split` is for these: rows are cut into a multiple
of a power of two, so short that inner products have no rounding at all, and a remainder of about a millionth of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca.io.onnx._functions import maximum, minimum
from kpca.io.onnx._graph import Value

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
