"""Functions of values that ONNX or its runtime lack in float64, made of those they have."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from kpca.io.onnx._graph import Operand, Value


def exp(x: Value) -> Value:
    """e^x."""
    return x.graph.node("Exp", x)


def sqrt(x: Value) -> Value:
    """The square root."""
    return x.graph.node("Sqrt", x)


def absolute(x: Value) -> Value:
    """|x|."""
    return x.graph.node("Abs", x)


def maximum(x: Value, y: Operand) -> Value:
    """The larger of two."""
    return x.graph.node("Max", x, y)


def minimum(x: Value, y: Operand) -> Value:
    """The smaller of two."""
    return x.graph.node("Min", x, y)


def is_zero(x: Value) -> Value:
    """True where x is 0."""
    return x.graph.node("Equal", x, 0.0)


def below(x: Value, y: Operand) -> Value:
    """True where x < y."""
    return x.graph.node("Less", x, y)


def expm1(x: Value) -> Value:
    """e^x - 1 without cancellation, for x <= 0: with h = tanh(x/2) it is 2h / (1 - h)."""
    half = x.graph.node("Tanh", 0.5 * x)
    return 2.0 * half / (1.0 - half)


def log1p(x: Value) -> Value:
    """log(1 + x) without cancellation, for x >= 0: the rounding of w = 1 + x is the same in log w and in w - 1."""
    w = 1.0 + x
    gained = w - 1.0
    none = is_zero(gained)
    quotient = x.graph.node("Log", w) * x / x.graph.where(none, 1.0, gained)
    return x.graph.where(none, x, quotient)


def power(base: Value, exponent: int | float) -> Value:
    """A power, by squaring where the exponent is whole."""
    if not isinstance(exponent, int):
        return base.graph.node("Pow", base, float(exponent))
    if exponent == 0:
        return 0.0 * base + 1.0
    total = base
    for bit in bin(exponent)[3:]:  # the bits after the leading one, highest first
        total = total * total
        if bit == "1":
            total = total * base
    return total


def polynomial(x: Value, coefficients: Sequence[float]) -> Value:
    """c_0 + c_1 x + c_2 x^2 + ... by Horner's rule."""
    total: Operand = coefficients[-1]
    for coefficient in coefficients[-2::-1]:
        total = total * x + coefficient
    assert isinstance(total, Value)
    return total


def angle(sine: Value, cosine: Value) -> Value:
    """The angle in [0, pi/2] whose sine and cosine, not both 0, have the given ratio; right to the last digits.

    Runtimes have the arc tangent in float32 only. From there one step is exact: sin(a - b) = sin a cos b - cos a sin b.
    """
    graph = sine.graph
    length = sqrt(sine * sine + cosine * cosine)
    sine, cosine = sine / length, cosine / length
    ratio = graph.cast(sine / cosine, np.float32)  # infinite for a right angle
    rough = graph.cast(graph.node("Atan", ratio), np.float64)
    return rough + (sine * graph.node("Cos", rough) - cosine * graph.node("Sin", rough))


def unit_rows(X: Value) -> tuple[Value, Value]:
    """Rows of length 1 (rows of zeros stay), and the lengths they had.  # shapes: (m, d), (m, 1)"""
    graph = X.graph
    peaks = absolute(X).largest()  # taken out first, so that squares neither overflow nor vanish
    divisors = graph.where(is_zero(peaks), 1.0, peaks)
    scaled = X / divisors
    lengths = sqrt((scaled * scaled).sums())
    return scaled / graph.where(is_zero(lengths), 1.0, lengths), lengths * peaks


def matern_less_one(u: Value, nu: float) -> Value:
    """The Matern profile of nu = 3/2 or 5/2 minus 1: by its series for u < 1/4, where the first terms cancel."""
    coefficients = [
        (-1) ** k * (1.0 - k if nu == 1.5 else (k - 1) * (k - 3) / 3.0) / math.factorial(k) for k in range(2, 14)
    ]
    near = u * u * polynomial(minimum(u, 0.25), coefficients)
    first = u if nu == 1.5 else u * (1.0 + u / 3.0)
    far = expm1(-u) + first * exp(-u)
    return u.graph.where(below(u, 0.25), near, far)
