"""Gradients of kernels with respect to a row, summed with weights over known rows: GEMMs, nothing of size m n d.

Each kernel is a node that computes its values once and then takes weights back to gradients, so that sums and products
are the chain rule and nothing else. With t the number a profile f is of, and primes for prepared rows,
grad_z f(t) is f'(t) b' (dot) or 2 f'(t) (b' - z') (radial), pulled back through `prepare`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kpca import kernels
from kpca._base.linalg import FloatArray, mean_of_rows
from kpca.gram._evaluators import CLOSE, DOUBLE, DOUBLE_DISTANCE_ERROR, SINGLE, SINGLE_DISTANCE_ERROR, pairs_of
from kpca.gram.tiles import slices
from kpca.kernels import Kernel
from kpca.kernels.dot import angles

Pull: TypeAlias = Callable[[FloatArray], FloatArray]  # weights (m, n) -> sum_j W_ij grad k(z_i, b_j), shape (m, d)
# Rows whose directions differ by no more agree: most digits of v - cos theta u are rounding there.
KINK = 1e-9
# Rows so far out, in bandwidths, that squares would overflow count as being here: every profile is flat by then.
_FARTHEST = {DOUBLE: 1e150, SINGLE: 1e17}
_NUMBERS_AT_ONCE = 2**21


def why_not(kernel: Kernel) -> str | None:
    """Return None if the kernel has gradients here, else why it has not, as part of a sentence."""
    if isinstance(kernel, kernels.Sum | kernels.Product | kernels.Scaled):
        return next((reason for reason in map(why_not, kernel.members) if reason), None)
    if isinstance(kernel, kernels.ProfileKernel | kernels.Constant | kernels.ArcCosine):
        return None
    if isinstance(kernel, kernels.GaussianProcess):
        return f"the Gaussian-process kernel {kernel.kernel} has no gradient here: only its values are known"
    return f"the {kernel.name} kernel has no gradient here: it is not a smooth function of distances or inner products"


def rows_per_tile(n: int) -> int:
    """Return how many rows are worked on at a time against n known ones; a matter of n only."""
    return max(16, min(512, _NUMBERS_AT_ONCE // max(n, 1)))


class Slopes:
    """Values and gradients of k(z, b_j), contracted with weights; made once for the rows b.

    `shifted` subtracts `constant` from all kernel values, k(z, z) included: f(0) where the kernel can do so without
    cancellation (radial ones, their sums and multiples), else 0. Gradients do not change. Everything is finite as long
    as the kernel's own values are.
    """

    def __init__(self, kernel: Kernel, rows: FloatArray, dtype: Any = np.float64, *, shifted: bool = False) -> None:
        reason = why_not(kernel)
        if reason is not None:
            raise TypeError(reason)
        self.dtype = np.dtype(dtype)
        self._node = node_of(kernel, rows, self.dtype, shifted)
        self._n = len(rows)
        self.constant = self._node.constant

    def contract(self, Z: FloatArray, W: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return sum_j W_ij k(z_i, b_j) and its gradient with respect to z_i.  # shapes: (m,), (m, d)"""
        sums, gradients = np.empty(len(Z), self.dtype), np.empty(Z.shape, self.dtype)
        for part in slices(len(Z), rows_per_tile(self._n)):
            weights = W[part].astype(self.dtype, copy=False)
            values, pull = self._node.at(Z[part])
            sums[part] = np.einsum("ij,ij->i", weights, values)
            gradients[part] = pull(weights)
        return sums, gradients

    def jacobian(self, Z: FloatArray, A: FloatArray) -> FloatArray:
        """Return the gradients of sum_j A_jl k(z_i, b_j), one product with d columns for each l.  # shape: (m, k, d)"""
        gradients = np.empty((len(Z), A.shape[1], Z.shape[1]), self.dtype)
        columns = np.ascontiguousarray(A.T, dtype=self.dtype)
        for part in slices(len(Z), rows_per_tile(self._n)):
            _, pull = self._node.at(Z[part])
            for number, column in enumerate(columns):
                gradients[part, number] = pull(np.broadcast_to(column, (len(Z[part]), self._n)))
        return gradients

    def own(self, Z: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return k(z_i, z_i) and its gradient with respect to z_i.  # shapes: (m,), (m, d)"""
        values, gradients = self._node.own(Z.astype(np.float64, copy=False))
        return values.astype(self.dtype, copy=False), gradients.astype(self.dtype, copy=False)


class Node(Protocol):
    constant: float

    def at(self, Z: FloatArray) -> tuple[FloatArray, Pull]:
        """Return k(z_i, b_j) - constant, not to be overwritten, and how weights become gradients."""

    def own(self, Z: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return k(z_i, z_i) - constant and its gradient, in float64."""


def node_of(kernel: Kernel, B: FloatArray, dtype: np.dtype[Any], shifted: bool) -> Node:
    node: Node
    match kernel:
        case kernels.Sum():
            node = SumNode([node_of(member, B, dtype, shifted) for member in kernel.members])
        case kernels.Product():
            node = ProductNode([node_of(member, B, dtype, False) for member in kernel.members])
        case kernels.Scaled():
            node = TimesNode(kernel.factor, node_of(kernel.kernel, B, dtype, shifted))
        case kernels.RadialKernel():
            node = RadialNode(kernel, B, dtype, shifted)
        case kernels.Cosine():
            node = CosineNode(B, dtype)
        case kernels.DotKernel():
            node = DotNode(kernel, B, dtype)
        case kernels.ArcCosine():
            node = StepsNode(B, dtype) if kernel.order == 0 else RectifiedNode(B, dtype)
        case kernels.Constant():
            node = FlatNode(kernel, B, dtype, shifted)
        case _:
            raise TypeError(f"{kernel!r} has no gradient here")
    return node


class _LevelNode:
    """A kernel whose k(z, z) does not change around z."""

    kernel: Kernel
    constant = 0.0

    def own(self, Z: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self.kernel.diagonal(Z) - self.constant, np.zeros(Z.shape)


class FlatNode(_LevelNode):
    """The constant kernel."""

    def __init__(self, kernel: kernels.Constant, B: FloatArray, dtype: np.dtype[Any], shifted: bool) -> None:
        self.kernel, value = kernel, kernel.constant
        self.value, self.constant = (0.0, value) if shifted else (value, 0.0)
        self.n, self._dtype = len(B), dtype

    def at(self, Z: FloatArray) -> tuple[FloatArray, Pull]:
        values = np.full((len(Z), self.n), self.value, dtype=self._dtype)
        return values, lambda W: np.zeros(Z.shape, dtype=self._dtype)


class SumNode:
    """k_1 + k_2 + ...: so are the gradients."""

    def __init__(self, members: list[Node]) -> None:
        self.members = members
        self.constant = sum(member.constant for member in members)

    def at(self, Z: FloatArray) -> tuple[FloatArray, Pull]:
        parts = [member.at(Z) for member in self.members]
        values = reduce(np.add, [part for part, _ in parts])
        return values, lambda W: reduce(np.add, [pull(W) for _, pull in parts])

    def own(self, Z: FloatArray) -> tuple[FloatArray, FloatArray]:
        parts = [member.own(Z) for member in self.members]
        return reduce(np.add, [part for part, _ in parts]), reduce(np.add, [part for _, part in parts])


class ProductNode:
    """k_1 k_2 ...: each member's gradient is weighted by the values of the others."""

    constant = 0.0

    def __init__(self, members: list[Node]) -> None:
        self.members = members

    def at(self, Z: FloatArray) -> tuple[FloatArray, Pull]:
        parts = [member.at(Z) for member in self.members]
        values = [part for part, _ in parts]

        def pull(W: FloatArray) -> FloatArray:
            pulled = [back(reduce(np.multiply, [W, *_without(values, i)])) for i, (_, back) in enumerate(parts)]
            return reduce(np.add, pulled)

        return reduce(np.multiply, values), pull

    def own(self, Z: FloatArray) -> tuple[FloatArray, FloatArray]:
        parts = [member.own(Z) for member in self.members]
        values = [part[:, None] for part, _ in parts]
        slopes = [reduce(np.multiply, [slope, *_without(values, i)]) for i, (_, slope) in enumerate(parts)]
        return reduce(np.multiply, values)[:, 0], reduce(np.add, slopes)


class TimesNode:
    """A number times a kernel."""

    def __init__(self, factor: float, member: Node) -> None:
        self.factor, self.member = factor, member
        self.constant = factor * member.constant

    def at(self, Z: FloatArray) -> tuple[FloatArray, Pull]:
        values, pull = self.member.at(Z)
        return values * self.factor, lambda W: pull(W) * self.factor

    def own(self, Z: FloatArray) -> tuple[FloatArray, FloatArray]:
        values, gradients = self.member.own(Z)
        return values * self.factor, gradients * self.factor


class DotNode:
    """f(x.y) where `prepare` multiplies by a number (or one per feature)."""

    constant = 0.0

    def __init__(self, kernel: kernels.DotKernel, B: FloatArray, dtype: np.dtype[Any]) -> None:
        self.kernel, self._dtype = kernel, dtype
        self.factors = kernel.prepare(np.ones((1, B.shape[1])))  # shape: (1, d)
        self.B = self._prepared(B)

    def _prepared(self, X: FloatArray) -> FloatArray:
        rows: FloatArray = X.astype(np.float64, copy=False) * self.factors
        return rows.astype(self._dtype, copy=False)

    def at(self, Z: FloatArray) -> tuple[FloatArray, Pull]:
        t = self._prepared(Z) @ self.B.T
        factors = self.factors.astype(self._dtype)

        def pull(W: FloatArray) -> FloatArray:
            slope = self.kernel.derivative(t)
            slope *= W
            return np.asarray((slope @ self.B) * factors)

        return self.kernel.value(t.copy()), pull

    def own(self, Z: FloatArray) -> tuple[FloatArray, FloatArray]:
        rows = Z * self.factors
        t = np.einsum("ij,ij->i", rows, rows)
        slope = 2.0 * self.kernel.derivative(t)[:, None]
        return self.kernel.value(t), slope * rows * self.factors


class AngularNode(_LevelNode):
    """What kernels of directions share: rows of length 1, and lengths; a row of zeros has no direction."""

    def __init__(self, B: FloatArray, dtype: np.dtype[Any]) -> None:
        self._dtype = dtype
        directions, lengths = directions_and_lengths(B)
        self.V, self.lengths = directions.astype(dtype, copy=False), lengths.astype(dtype, copy=False)

    def _tangent(self, C: FloatArray, cosines: FloatArray, U: FloatArray, lengths: FloatArray) -> FloatArray:
        """Return sum_j C_ij (v_j - (u_i.v_j) u_i) / |z_i|, and 0 for rows of zeros."""
        pulled: FloatArray = C @ self.V
        pulled -= np.einsum("ij,ij->i", C, cosines)[:, None] * U
        # what is left along u is rounding, which a short row would magnify
        pulled -= np.einsum("ij,ij->i", pulled, U)[:, None] * U
        pulled /= np.where(lengths == 0, 1.0, lengths)[:, None]
        pulled[lengths == 0] = 0.0
        return pulled


class CosineNode(AngularNode):
    """u.v: the Jacobian of normalisation is (I - u u') / |z|."""

    kernel = kernels.Cosine()

    def at(self, Z: FloatArray) -> tuple[FloatArray, Pull]:
        U, lengths = (part.astype(self._dtype, copy=False) for part in directions_and_lengths(Z))
        cosines = U @ self.V.T
        return cosines, lambda W: self._tangent(W, cosines, U, lengths)


class StepsNode(AngularNode):
    """1 - theta / pi: grad theta = -(v - cos theta u) / (|z| sin theta), of length 1 / |z|; 0 where rows agree."""

    kernel = kernels.ArcCosine(0)

    def at(self, Z: FloatArray) -> tuple[FloatArray, Pull]:
        U, lengths = directions_and_lengths(Z)
        theta = angles(U, self.V.astype(np.float64, copy=False))
        cosines = np.cos(theta)

        def pull(W: FloatArray) -> FloatArray:
            sines = np.sin(theta)
            kink = sines <= KINK
            C = np.where(kink, 0.0, W / np.where(kink, 1.0, np.pi * sines))
            C[:, self.lengths == 0] = 0.0
            return self._tangent(C, cosines, U, lengths).astype(self._dtype, copy=False)

        return (1.0 - theta / np.pi).astype(self._dtype, copy=False), pull


class RectifiedNode(AngularNode):
    """|z| |b| (sin theta + (pi - theta) cos theta) / pi, whose gradient is (sin theta |b| u + (pi - theta) b) / pi.

    At z = 0, where there is a kink, that is b / 2 (u counts as 0, theta as pi / 2): half way between both sides.
    """

    kernel = kernels.ArcCosine(1)

    def at(self, Z: FloatArray) -> tuple[FloatArray, Pull]:
        U, lengths = directions_and_lengths(Z)
        theta = angles(U, self.V.astype(np.float64, copy=False))
        scale = self.lengths / np.pi
        values = np.sin(theta) + (np.pi - theta) * np.cos(theta)
        values *= scale * lengths[:, None]

        def pull(W: FloatArray) -> FloatArray:
            weights = W * scale
            pulled: FloatArray = ((np.pi - theta) * weights) @ self.V
            pulled += np.einsum("ij,ij->i", np.sin(theta), weights)[:, None] * U
            return pulled.astype(self._dtype, copy=False)

        return values.astype(self._dtype, copy=False), pull

    def own(self, Z: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self.kernel.diagonal(Z), 2.0 * Z


class RadialNode(_LevelNode):
    """f(-|x - y|^2) of rows that are centred first: an offset must not eat the digits of the distances."""

    kernel: kernels.RadialKernel

    def __init__(self, kernel: kernels.RadialKernel, B: FloatArray, dtype: np.dtype[Any], shifted: bool) -> None:
        self.kernel, self._dtype = kernel, dtype
        self._profile = kernel.shifted if shifted else kernel.value
        self.constant = kernel.at_zero if shifted else 0.0
        self.centre = mean_of_rows(B)
        self.factors = kernel.prepare(np.ones((1, B.shape[1])))  # shape: (1, d)
        self._work = dtype
        self.B, self.norms = self._prepared(B)
        radius = float(self.norms.max(initial=0.0))
        if dtype == SINGLE and np.finfo(SINGLE).eps * radius > SINGLE_DISTANCE_ERROR:
            self._work = DOUBLE
            self.B, self.norms = self._prepared(B)
        error = float(np.finfo(self._work).eps) * radius
        self._correct = kernel.singular_at_zero or (error > DOUBLE_DISTANCE_ERROR and self._work == DOUBLE)
        self._close = -float(np.finfo(self._work).eps) * CLOSE[self._work]

    def _prepared(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        rows = scaled_rows(X, self.centre, self.factors, self._work)
        return rows, np.einsum("ij,ij->i", rows, rows)

    def at(self, Z: FloatArray) -> tuple[FloatArray, Pull]:
        rows, norms = self._prepared(Z)
        t = (2.0 * rows) @ self.B.T
        t -= norms[:, None]
        t -= self.norms
        close = t > self._close * (norms[:, None] + self.norms) if self._correct else None
        if close is not None:
            for i, j in pairs_of(close):
                gap = self.B[j] - rows[i]
                t[i, j] = -np.einsum("ij,ij->i", gap, gap)
        np.minimum(t, 0.0, out=t)

        def pull(W: FloatArray) -> FloatArray:
            slope = self.kernel.derivative(t)
            if self.kernel.singular_at_zero:
                slope[t == 0] = 0.0  # a kink: 0 is among its subgradients
            slope *= W
            apart = self._set_apart(slope, rows, close) if close is not None else 0.0
            pulled = slope @ self.B
            pulled -= slope.sum(axis=1)[:, None] * rows
            pulled += apart
            pulled *= 2.0 * self.factors.astype(self._work)
            return pulled.astype(self._dtype, copy=False)

        return self._profile(t.copy()).astype(self._dtype, copy=False), pull

    def _set_apart(self, slope: FloatArray, rows: FloatArray, close: NDArray[np.bool_]) -> FloatArray:
        """Return what close pairs contribute, from differences, and set their entries of `slope` to 0."""
        apart = np.zeros_like(rows)
        for i, j in pairs_of(close):
            gap = self.B[j] - rows[i]
            gap *= slope[i, j][:, None]
            np.add.at(apart, i, gap)
        slope[close] = 0.0
        return apart


def directions_and_lengths(X: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return rows of length 1 and their former lengths, in float64; rows of zeros stay.  # shapes: (m, d), (m,)"""
    X = X.astype(np.float64, copy=False)
    directions = kernels.Cosine().prepare(X)
    return directions, np.einsum("ij,ij->i", X, directions)


def scaled_rows(X: FloatArray, centre: FloatArray, factors: FloatArray, dtype: np.dtype[Any] = DOUBLE) -> FloatArray:
    """Return (X - centre) * factors, with rows too far out for their squares brought in.  # shape: (m, d)"""
    limit = _FARTHEST[dtype]
    with np.errstate(over="ignore"):
        rows = (X - centre) * factors
    far = np.abs(rows).max(axis=1, initial=0.0) > limit
    if far.any():
        outer = rows[far].clip(-1e300, 1e300)
        rows[far] = outer * (limit / np.abs(outer).max(axis=1))[:, None]
    return np.asarray(rows.astype(dtype, copy=False))


def _without(values: list[FloatArray], i: int) -> list[FloatArray]:
    return values[:i] + values[i + 1 :]
