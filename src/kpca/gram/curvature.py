"""Mixed second derivatives of kernels with respect to a row, summed with weights over known rows.

Each kernel is a node that, at a tile of rows, knows its values and the matrices of its first and second derivatives, so
that sums and products are the chain rule and nothing else. With t the number a profile f is of, and primes for prepared
rows, the second derivatives of f(t) are f'' b'_p b'_q (dot) or 4 f'' (b' - z')_p (b' - z')_q - 2 f' [p = q] (radial),
times the factors of `prepare`. Where that costs no digits these are products with all pairs at a time, not a matrix
for each pair. All in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from kpca._base.linalg import FloatArray
from kpca.gram import slopes
from kpca.gram._evaluators import DOUBLE, DOUBLE_DISTANCE_ERROR
from kpca.gram.tiles import by_slices
from kpca.kernels import Kernel
from kpca.kernels.dot import angles

Pairs = Sequence[tuple[int, int]]
# Weighted rows for some pairs that exist at a time, for each tile at work.
_NUMBERS_AT_ONCE = 2**21


class Curvature:
    """Second derivatives of k(z, b_l) with respect to z, contracted with weights; made once for the rows b.

    Kernels without gradients (`why_not` of gram.slopes) have none here either. Where a kernel has a kink, at rows that
    coincide (Matern 1/2, exponential), or that have the same direction or none (cosine, arc-cosine), such a pair
    contributes 0, as it does to gradients.
    """

    def __init__(self, kernel: Kernel, rows: FloatArray) -> None:
        reason = slopes.why_not(kernel)
        if reason is not None:
            raise TypeError(reason)
        self._node = slopes.node_of(kernel, rows.astype(np.float64, copy=False), DOUBLE, False)
        self._n = len(rows)

    def mixed(self, Z: FloatArray, A: FloatArray, pairs: Pairs, *, threads: int = 1) -> FloatArray:
        """Return sum_l A_lj d^2 k(z_i, b_l) / dz^p dz^q for the pairs (p, q) of features.  # shape: (m, k, pairs)"""
        Z, A = Z.astype(np.float64, copy=False), A.astype(np.float64, copy=False)
        derivatives = np.empty((len(Z), A.shape[1], len(pairs)))
        if not pairs:
            return derivatives
        step = slopes.rows_per_tile(self._n)
        return by_slices(lambda tile: _local(self._node, Z[tile]).contracted(A, pairs), derivatives, step, threads)


@dataclass(frozen=True)
class _Local:
    """A kernel at some rows z_i: everything as matrices over (i, l), which are not to be overwritten."""

    values: FloatArray  # k(z_i, b_l), shape: (m, n)
    first: Callable[[int], FloatArray]  # p -> dk / dz^p, shape: (m, n)
    second: Callable[[int, int], FloatArray]  # p, q -> d^2 k / dz^p dz^q, shape: (m, n)
    shortcut: Callable[[FloatArray, Pairs], FloatArray] | None = None  # the contraction, where there is a faster way

    def contracted(self, A: FloatArray, pairs: Pairs) -> FloatArray:
        if self.shortcut is not None:
            return self.shortcut(A, pairs)
        out = np.empty((len(self.values), A.shape[1], len(pairs)))
        for i, (p, q) in enumerate(pairs):
            out[:, :, i] = self.second(p, q) @ A
        return out


def _local(node: slopes.Node, Z: FloatArray) -> _Local:
    match node:
        case slopes.SumNode():
            return _sum([_local(member, Z) for member in node.members])
        case slopes.ProductNode():
            return reduce(_times, [_local(member, Z) for member in node.members])
        case slopes.TimesNode():
            return _multiple(node.factor, _local(node.member, Z))
    return _OF_LEAF[type(node)](node, Z)


def _flat(node: slopes.FlatNode, Z: FloatArray) -> _Local:
    shape = len(Z), node.n
    return _Local(
        np.full(shape, node.value),
        first=lambda p: np.zeros(shape),
        second=lambda p, q: np.zeros(shape),
        shortcut=lambda A, pairs: np.zeros((len(Z), A.shape[1], len(pairs))),
    )


def _sum(parts: list[_Local]) -> _Local:
    """k_1 + k_2 + ...: so are the derivatives."""
    return _Local(
        reduce(np.add, [part.values for part in parts]),
        first=lambda p: reduce(np.add, [part.first(p) for part in parts]),
        second=lambda p, q: reduce(np.add, [part.second(p, q) for part in parts]),
        shortcut=lambda A, pairs: reduce(np.add, [part.contracted(A, pairs) for part in parts]),
    )


def _times(a: _Local, b: _Local) -> _Local:
    """The product of two kernels at the same rows: (uv)'' = u'' v + u' v' + v' u' + u v''."""

    def second(p: int, q: int) -> FloatArray:
        matrix = a.second(p, q) * b.values
        matrix += a.first(p) * b.first(q)
        matrix += a.first(q) * b.first(p)
        matrix += a.values * b.second(p, q)
        return matrix

    return _Local(a.values * b.values, lambda p: a.first(p) * b.values + a.values * b.first(p), second)


def _multiple(factor: float, part: _Local) -> _Local:
    return _Local(
        factor * part.values,
        first=lambda p: factor * part.first(p),
        second=lambda p, q: factor * part.second(p, q),
        shortcut=lambda A, pairs: part.contracted(factor * A, pairs),
    )


def _dot(node: slopes.DotNode, Z: FloatArray) -> _Local:
    t = (Z * node.factors) @ node.B.T
    slope, bend = node.kernel.derivative(t), node.kernel.curvature(t)
    rows = node.B * node.factors  # what remains of b when t is differentiated
    return _Local(
        node.kernel.value(t),
        first=lambda p: slope * rows[:, p],
        second=lambda p, q: bend * (rows[:, p] * rows[:, q]),
        shortcut=lambda A, pairs: _moments(bend, A, rows, pairs),
    )


def _radial(node: slopes.RadialNode, Z: FloatArray) -> _Local:
    """f(-|x - y|^2), of rows that are centred first and distances that come from differences."""
    kernel, B, factors = node.kernel, node.B, node.factors[0]
    rows = slopes.scaled_rows(Z, node.centre, node.factors)
    t = cdist(rows, B, "sqeuclidean")
    np.negative(t, out=t)
    slope, bend = kernel.derivative(t), kernel.curvature(t)
    if kernel.singular_at_zero:
        slope[t == 0] = 0.0  # a kink
    bend[~np.isfinite(bend)] = 0.0  # at distance 0, or as good as that: what bend is multiplied by is 0 there
    # (b - z)_p (b - z)_q multiplied out loses digits: to rows many bandwidths apart, and where f'' has a pole
    bounded = bool(np.isfinite(kernel.curvature(np.zeros(1)))[0])
    by_moments = bounded and float(np.finfo(DOUBLE).eps) * float(node.norms.max(initial=0.0)) <= DOUBLE_DISTANCE_ERROR

    def gap(p: int) -> FloatArray:
        return np.asarray(B[:, p] - rows[:, p, None])

    def second(p: int, q: int) -> FloatArray:
        matrix = gap(p)
        matrix *= matrix if p == q else gap(q)
        matrix *= bend
        matrix *= 4.0
        if p == q:
            matrix -= 2.0 * slope
        matrix *= factors[p] * factors[q]
        return matrix

    return _Local(
        kernel.value(t),
        first=lambda p: 2.0 * factors[p] * (slope * gap(p)),
        second=second,
        shortcut=(lambda A, pairs: _radial_moments(node, rows, slope, bend, A=A, pairs=pairs)) if by_moments else None,
    )


def _radial_moments(
    node: slopes.RadialNode, rows: FloatArray, slope: FloatArray, bend: FloatArray, *, A: FloatArray, pairs: Pairs
) -> FloatArray:
    """Return the contraction with (b - z)_p (b - z)_q multiplied out.  # shape: (m, k, pairs)"""
    p, q = np.array(pairs, dtype=np.intp).T
    used, places = np.unique(np.concatenate([p, q]), return_inverse=True)
    in_p, in_q = np.split(places, 2)
    means = bend @ A  # shape: (m, k)
    firsts = np.stack([bend @ (A * node.B[:, [v]]) for v in used], axis=2)  # shape: (m, k, used)
    z_p, z_q = rows[:, None, p], rows[:, None, q]
    out = _moments(bend, A, node.B, pairs)
    out -= z_q * firsts[:, :, in_p]
    out -= z_p * firsts[:, :, in_q]
    out += z_p * z_q * means[:, :, None]
    out *= 4.0
    if np.any(p == q):
        out -= 2.0 * (slope @ A)[:, :, None] * (p == q)
    out *= node.factors[0, p] * node.factors[0, q]
    return out


def _cosine(node: slopes.AngularNode, Z: FloatArray) -> _Local:
    """c = u.v of rows of length 1: |z| dc/dz^p = v_p - c u_p, and the second derivative, by the product rule, is
    (3 c u_p u_q - u_p v_q - u_q v_p - c [p = q]) / |z|^2. Around a row of zeros nothing changes.
    """
    U, lengths = slopes.directions_and_lengths(Z)
    V, c = node.V, U @ node.V.T
    inverse = np.where(lengths > 0, 1.0 / np.where(lengths > 0, lengths, 1.0), 0.0)[:, None]

    def second(p: int, q: int) -> FloatArray:
        u_p, u_q = U[:, p, None], U[:, q, None]
        matrix: FloatArray = (3.0 * u_p * u_q - float(p == q)) * c
        matrix -= u_p * V[:, q]
        matrix -= u_q * V[:, p]
        matrix *= inverse
        matrix *= inverse
        return matrix

    return _Local(c, first=lambda p: inverse * (V[:, p] - c * U[:, p, None]), second=second)


def _steps(node: slopes.StepsNode, Z: FloatArray) -> _Local:
    """1 - theta / pi = g(c) with g' = 1 / (pi sin theta) and g'' = cos theta / (pi sin^3 theta); 0 where rows agree."""
    theta = angles(Z, node.V)
    c, sines = _cosine(node, Z), np.sin(theta)
    flat = (sines <= slopes.KINK) | (node.lengths == 0)
    slope = np.where(flat, 0.0, 1.0 / (np.pi * np.where(flat, 1.0, sines)))
    bend = np.cos(theta) * np.pi**2 * slope**3
    return _Local(
        1.0 - theta / np.pi,
        first=lambda p: slope * c.first(p),
        second=lambda p, q: slope * c.second(p, q) + bend * c.first(p) * c.first(q),
    )


def _rectified(node: slopes.RectifiedNode, Z: FloatArray) -> _Local:
    """|z| |b| (sin theta + (pi - theta) cos theta) / pi, with gradient (sin theta |b| u + (pi - theta) b) / pi.

    Its second derivative is |b| / pi times |z| c_p c_q / sin theta + sin theta ([p = q] - u_p u_q) / |z|, where c_p is
    dc/dz^p of the cosine; both vanish where rows agree, and at z = 0, where there is a kink, they count as 0.
    """
    U, lengths = slopes.directions_and_lengths(Z)
    theta = angles(U, node.V)
    c, sines = _cosine(node, Z), np.sin(theta)
    scale = node.lengths / np.pi
    flat = sines <= slopes.KINK
    across = np.where(flat, 0.0, scale * lengths[:, None] / np.where(flat, 1.0, sines))
    along = sines * scale
    along[lengths == 0] = 0.0
    along /= np.where(lengths > 0, lengths, 1.0)[:, None]
    return _Local(
        scale * lengths[:, None] * (sines + (np.pi - theta) * np.cos(theta)),
        first=lambda p: scale * (sines * U[:, p, None] + (np.pi - theta) * node.V[:, p]),
        second=lambda p, q: across * c.first(p) * c.first(q) + along * (float(p == q) - U[:, p, None] * U[:, q, None]),
    )


_OF_LEAF: dict[type[slopes.Node], Callable[[Any, FloatArray], _Local]] = {
    slopes.RadialNode: _radial,
    slopes.DotNode: _dot,
    slopes.CosineNode: _cosine,
    slopes.StepsNode: _steps,
    slopes.RectifiedNode: _rectified,
    slopes.FlatNode: _flat,
}


def _moments(bend: FloatArray, A: FloatArray, rows: FloatArray, pairs: Pairs) -> FloatArray:
    """Return sum_l bend_il A_lj b_lp b_lq, a bounded number of weighted rows at a time.  # shape: (m, k, pairs)"""
    (m, n), k = bend.shape, A.shape[1]
    out = np.empty((m, k, len(pairs)))
    step = max(1, _NUMBERS_AT_ONCE // max(1, n * k))
    for start in range(0, len(pairs), step):
        some = pairs[start : start + step]
        weighted = np.stack([A * (rows[:, p] * rows[:, q])[:, None] for p, q in some], axis=2)  # shape: (n, k, some)
        out[:, :, start : start + step] = (bend @ weighted.reshape(n, -1)).reshape(m, k, -1)
    return out
