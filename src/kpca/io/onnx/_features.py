"""Random features as formulas of an ONNX graph: one row of `TABLE` per kind of part.

A formula gives V'f(x) for a matrix V, or f(x) itself: linear maps that follow each other are multiplied out beforehand.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.fft import rfft

from kpca._base.errors import InputError
from kpca.features.frequencies import Projection
from kpca.features.parts import Activated, Beside, Flat, Fourier, Homogeneous, Part, TensorSketch
from kpca.io.onnx._graph import Value, maximum, sqrt, unit_rows

FloatArray = NDArray[Any]
# (part, rows, V, number of features) -> the features times V, or themselves if V is None
Formula = Callable[[Any, Value, FloatArray | None, int], Value]


def random_features(part: Part, X: Value, V: FloatArray | None, rank: int) -> Value:
    """Return f(x) V, or f(x) if there is no V.  # shape: (m, k) or (m, rank)"""
    if type(part) not in TABLE:
        raise InputError(
            f"Exporting as ONNX must know the formula of the features; got {type(part).__name__}: take landmarks."
        )
    return TABLE[type(part)](part.at(np.dtype(np.float64)), X, V, rank)


def _times(F: Value, V: FloatArray | None) -> Value:
    return F if V is None else F @ np.ascontiguousarray(V)


def _joined(pieces: list[tuple[Value, FloatArray | None]]) -> Value:
    """Return the sum of products with parts of V, or features side by side where there is no V."""
    graph = pieces[0][0].graph
    if pieces[0][1] is None:
        return graph.node("Concat", *[piece for piece, _ in pieces], axis=1) if len(pieces) > 1 else pieces[0][0]
    total, *others = [_times(piece, part) for piece, part in pieces]
    for other in others:
        total = total + other
    return total


def _some(V: FloatArray | None, rows: slice, factor: float | FloatArray = 1.0) -> FloatArray | None:
    """Return some rows of V times a factor (one each, or one for all)."""
    return None if V is None else V[rows] * (factor if np.ndim(factor) == 0 else np.asarray(factor)[:, None])


def _projected(projection: Projection, X: Value, count: int) -> Value:
    """Return (X - origin) W, with W as a matrix whatever made it.  # shape: (m, count)"""
    W = projection.back(np.eye(count)).T
    origin = getattr(projection, "origin", None)
    return (X if origin is None else X - origin) @ np.ascontiguousarray(W)


def _waves(angles: Value, rank: int, phase: float) -> list[Value]:
    """Return all cosines, all sines and, of an odd number, one more cosine of random phase."""
    graph, pairs = angles.graph, rank // 2
    first = angles.columns(np.arange(pairs)) if rank % 2 else angles
    waves = [graph.node("Cos", first), graph.node("Sin", first)] if pairs else []
    if rank % 2:
        waves.append(graph.node("Cos", angles.columns(np.array([pairs])) + phase))
    return waves


def _cuts(rank: int) -> list[slice]:
    """Return the columns of cosines, sines and, of an odd number, the last one."""
    pairs = rank // 2
    cuts = [slice(0, pairs), slice(pairs, 2 * pairs), slice(2 * pairs, rank)]
    return [cut for cut in cuts if cut.stop > cut.start]


def _fourier(part: Fourier, X: Value, V: FloatArray | None, rank: int) -> Value:
    angles = _projected(part.projection, X, -(-rank // 2))
    factor = math.sqrt(2.0 / rank)
    waves = _waves(angles, rank, part.phase)
    if V is None:
        return factor * _joined([(wave, None) for wave in waves])
    return _joined([(wave, _some(V, cut, factor)) for wave, cut in zip(waves, _cuts(rank), strict=True)])


def _homogeneous(part: Homogeneous, X: Value, V: FloatArray | None, rank: int) -> Value:
    # The logarithm of 0 may be anything finite: its features are multiplied by sqrt(0).
    logs = X.graph.node("Log", maximum(X, float(np.finfo(np.float64).tiny)))
    waves = _waves(logs.columns(part.features) * part.frequencies, rank, part.phase)
    sizes, pairs = sqrt(X), rank // 2
    features = [part.features[:pairs], part.features[:pairs], part.features[pairs:]]
    pieces = [
        (wave * sizes.columns(which) * part.roots[cut], _some(V, cut))
        for wave, which, cut in zip(waves, [which for which in features if len(which)], _cuts(rank), strict=True)
    ]
    return _joined(pieces)


def _activated(part: Activated, X: Value, V: FloatArray | None, rank: int) -> Value:
    rows = unit_rows(X)[0] if part.unit_rows else X
    if part.activation == "sign":
        signs = X.graph.node("Sign", _projected(part.projection, rows, rank - 1)) * math.sqrt(0.5 / (rank - 1))
        return _joined(
            [(_flat(Flat(math.sqrt(0.5)), X, None, 1), _some(V, slice(0, 1))), (signs, _some(V, slice(1, rank)))]
        )
    F = _projected(part.projection, rows, rank)
    if part.activation == "relu":
        return _times(maximum(F, 0.0) * math.sqrt(2.0 / rank), V)
    return _times(F * math.sqrt(1.0 / rank), V)


def _sketched(part: TensorSketch, X: Value, V: FloatArray | None, rank: int) -> Value:
    """The convolution as a product of transforms: each sketch and its transform are one matrix, so is the way back."""
    if len(part.sketches) == 1:
        counts = X @ np.ascontiguousarray(part.sketches[0].toarray().T)
        return _times(counts + _spike(part, 0, rank), V)
    real, imaginary = _transform(part, 0, X, rank)
    for number in range(1, len(part.sketches)):
        a, b = _transform(part, number, X, rank)
        real, imaginary = real * a - imaginary * b, real * b + imaginary * a
    cosines, sines = _inverse_transform(rank, V)
    return real @ cosines + imaginary @ sines


def _spike(part: TensorSketch, number: int, rank: int) -> FloatArray:
    constant = np.zeros(rank)
    constant[part.places[number]] = part.constants[number]
    return constant


def _transform(part: TensorSketch, number: int, X: Value, rank: int) -> tuple[Value, Value]:
    W, constant = rfft(part.sketches[number].toarray().T, axis=1), rfft(_spike(part, number, rank))
    pieces = [(np.ascontiguousarray(of(W)), of(constant)) for of in (np.real, np.imag)]
    return X @ pieces[0][0] + pieces[0][1], X @ pieces[1][0] + pieces[1][1]


def _inverse_transform(rank: int, V: FloatArray | None) -> tuple[FloatArray, FloatArray]:
    """Return C and S with irfft(a + ib) V = a C + b S; transforms of V instead of a matrix of rank^2 numbers."""
    transformed = rfft(np.eye(rank) if V is None else V, axis=0)
    # each frequency but the first and, of an even number, the last stands for its mirror image too
    weights = np.full(len(transformed), 2.0 / rank)
    weights[0] = 1.0 / rank
    if rank % 2 == 0:
        weights[-1] = 1.0 / rank
    return weights[:, None] * transformed.real, weights[:, None] * transformed.imag


def _flat(part: Flat, X: Value, V: FloatArray | None, rank: int) -> Value:
    row = np.zeros(rank)
    row[0] = part.root
    return (0.0 * X).sums() + (row if V is None else row @ V)


def _beside(part: Beside, X: Value, V: FloatArray | None, rank: int) -> Value:
    pieces, start = [], 0
    for member, width in zip(part.members, part.ranks, strict=True):
        pieces.append(random_features(member, X, _some(V, slice(start, start + width)), width))
        start += width
    if V is None:
        return part.root * _joined([(piece, None) for piece in pieces])
    total, *others = pieces
    for other in others:
        total = total + other
    return part.root * total


TABLE: dict[type, Formula] = {
    Fourier: _fourier,
    Homogeneous: _homogeneous,
    Activated: _activated,
    TensorSketch: _sketched,
    Flat: _flat,
    Beside: _beside,
}
