"""A kernel around some rows: its values there, and its first and second derivatives, summed with weights or one by one.

Each kernel is a node, so that sums and products are the chain rule and nothing else. With t the number a profile f is
of, and primes for prepared rows, grad_z f(t) is f'(t) b' (dot) or 2 f'(t) (b' - z') (radial), and the second
derivatives are f'' b'_p b'_q (dot) or 4 f'' (b' - z')_p (b' - z')_q - 2 f' [p = q] (radial), times the factors of
`prepare`. Where that costs no digits these are products with all pairs at a time, not a matrix for each pair. All in
float64.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, reduce
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from kpca import kernels
from kpca._base.linalg import FloatArray, mean_of_rows
from kpca.gram._evaluators import CLOSE, DOUBLE, DOUBLE_DISTANCE_ERROR, profile_of
from kpca.gram.tiles import slices
from kpca.kernels import Kernel
from kpca.kernels.arrays import pairs_of
from kpca.kernels.dot import angles

Pairs: TypeAlias = Sequence[tuple[int, int]]
_EPS = float(np.finfo(np.float64).eps)
# Rows whose directions differ by no more agree: most digits of v - cos theta u are rounding there.
_KINK = 1e-9
# Rows so far out, in bandwidths, that squares would overflow count as being here: every profile is flat by then.
_FARTHEST = 1e150
# Weighted rows for some pairs that exist at a time, for each tile at work.
_NUMBERS_AT_ONCE = 2**21


@dataclass(frozen=True)
class Local:
    """A kernel at some rows z_i: everything as matrices over (i, j), which are not to be overwritten."""

    values: FloatArray  # k(z_i, b_j) - constant, shape: (m, n)
    pull: Callable[[FloatArray], FloatArray]  # weights (m, n) -> sum_j W_ij grad k(z_i, b_j), shape: (m, d)
    first: Callable[[int], FloatArray]  # p -> dk / dz^p, shape: (m, n)
    second: Callable[[int, int], FloatArray]  # p, q -> d^2 k / dz^p dz^q, shape: (m, n)
    shortcut: Callable[[FloatArray, Pairs], FloatArray] | None = None  # the contraction, where there is a faster way

    def contracted(self, A: FloatArray, pairs: Pairs) -> FloatArray:
        """Return sum_j A_jl d^2 k(z_i, b_j) / dz^p dz^q.  # shape: (m, k, pairs)"""
        if self.shortcut is not None:
            return self.shortcut(A, pairs)
        return np.stack([self.second(p, q) @ A for p, q in pairs], axis=2)


class Node(abc.ABC):
    """A kernel and the rows b it is compared with."""

    kernel: Kernel
    constant: float = 0.0

    @abc.abstractmethod
    def at(self, Z: FloatArray, *, exact: bool) -> Local:
        """Return the kernel at the rows z; `exact`, for second derivatives, takes distances from differences."""

    def own(self, Z: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return k(z_i, z_i) - constant, as if it did not change around z, and its gradient.  # shapes: (m,), (m, d)"""
        return self.kernel.diagonal(Z) - self.constant, np.zeros(Z.shape)


def node_of(kernel: Kernel, B: FloatArray, shifted: bool) -> Node:
    """Return the node of a kernel with gradients; the values of a product cannot be shifted."""
    match kernel:
        case kernels.Product():
            return _ProductNode([node_of(member, B, False) for member in kernel.members])
        case kernels.Sum() | kernels.Scaled():
            members = [node_of(member, B, shifted) for member in kernel.members]
            return _SumNode(members, kernel.factor if isinstance(kernel, kernels.Scaled) else 1.0)
        case kernels.RadialKernel():
            return _RadialNode(kernel, B, shifted)
        case kernels.DotKernel():
            return (_CosineNode if isinstance(kernel, kernels.Cosine) else _DotNode)(kernel, B)
        case kernels.ArcCosine():
            return (_StepsNode if kernel.order == 0 else _RectifiedNode)(kernel, B)
        case kernels.Constant():
            return _FlatNode(kernel, B, shifted)
    raise TypeError(f"{kernel!r} has no gradient here")


class _SumNode(Node):
    """factor (k_1 + k_2 + ...): so are the derivatives."""

    def __init__(self, members: list[Node], factor: float) -> None:
        self._members, self._factor = members, factor
        self.constant = factor * sum(member.constant for member in members)

    def _total(self, parts: Iterable[FloatArray]) -> FloatArray:
        total = reduce(np.add, parts)
        return total if self._factor == 1.0 else total * self._factor

    def at(self, Z: FloatArray, *, exact: bool) -> Local:
        parts = [member.at(Z, exact=exact) for member in self._members]
        return Local(
            self._total(part.values for part in parts),
            pull=lambda W: self._total(part.pull(W) for part in parts),
            first=lambda p: self._total(part.first(p) for part in parts),
            second=lambda p, q: self._total(part.second(p, q) for part in parts),
            shortcut=lambda A, pairs: reduce(np.add, [part.contracted(self._factor * A, pairs) for part in parts]),
        )

    def own(self, Z: FloatArray) -> tuple[FloatArray, FloatArray]:
        parts = [member.own(Z) for member in self._members]
        return self._total(value for value, _ in parts), self._total(slope for _, slope in parts)


class _ProductNode(Node):
    """k_1 k_2 ...: each member's gradient is weighted by the values of the others."""

    def __init__(self, members: list[Node]) -> None:
        self._members = members

    def at(self, Z: FloatArray, *, exact: bool) -> Local:
        parts = [member.at(Z, exact=exact) for member in self._members]
        values = [part.values for part in parts]

        def pull(W: FloatArray) -> FloatArray:
            return reduce(np.add, [part.pull(_times_others(W, values, i)) for i, part in enumerate(parts)])

        return replace(reduce(_times, parts), pull=pull)

    def own(self, Z: FloatArray) -> tuple[FloatArray, FloatArray]:
        parts = [member.own(Z) for member in self._members]
        values = [value[:, None] for value, _ in parts]
        slopes = [_times_others(slope, values, i) for i, (_, slope) in enumerate(parts)]
        return reduce(np.multiply, values)[:, 0], reduce(np.add, slopes)


def _times_others(weights: FloatArray, values: list[FloatArray], i: int) -> FloatArray:
    return reduce(np.multiply, [weights, *values[:i], *values[i + 1 :]])


def _times(a: Local, b: Local) -> Local:
    """The product of two kernels at the same rows, but for `pull`: (uv)'' = u'' v + u' v' + v' u' + u v''."""

    def second(p: int, q: int) -> FloatArray:
        matrix = a.second(p, q) * b.values
        matrix += a.first(p) * b.first(q)
        matrix += a.first(q) * b.first(p)
        matrix += a.values * b.second(p, q)
        return matrix

    return Local(a.values * b.values, a.pull, lambda p: a.first(p) * b.values + a.values * b.first(p), second)


class _FlatNode(Node):
    """The constant kernel."""

    def __init__(self, kernel: kernels.Constant, B: FloatArray, shifted: bool) -> None:
        self.kernel, self._n = kernel, len(B)
        self._value, self.constant = (0.0, kernel.constant) if shifted else (kernel.constant, 0.0)

    def at(self, Z: FloatArray, *, exact: bool) -> Local:
        values = np.full((len(Z), self._n), self._value)
        return Local(
            values,
            pull=lambda W: np.zeros(Z.shape),
            first=lambda p: np.zeros(values.shape),
            second=lambda p, q: np.zeros(values.shape),
            shortcut=lambda A, pairs: np.zeros((len(Z), A.shape[1], len(pairs))),
        )


class _DotNode(Node):
    """f(x.y) where `prepare` multiplies by a number (or one per feature)."""

    kernel: kernels.DotKernel

    def __init__(self, kernel: kernels.DotKernel, B: FloatArray) -> None:
        self.kernel = kernel
        self._factors = kernel.prepare(np.ones((1, B.shape[1])))  # shape: (1, d)
        self._B = B * self._factors

    def at(self, Z: FloatArray, *, exact: bool) -> Local:
        t = (Z * self._factors) @ self._B.T
        slope, bend = cache(lambda: self.kernel.derivative(t)), cache(lambda: self.kernel.curvature(t))
        rows = cache(lambda: self._B * self._factors)  # what remains of b when t is differentiated

        def pull(W: FloatArray) -> FloatArray:
            weighted = self.kernel.derivative(t)
            weighted *= W
            return np.asarray((weighted @ self._B) * self._factors)

        return Local(
            self.kernel.value(t.copy()),
            pull=pull,
            first=lambda p: slope() * rows()[:, p],
            second=lambda p, q: bend() * (rows()[:, p] * rows()[:, q]),
            shortcut=lambda A, pairs: _moments(bend(), A, rows(), pairs),
        )

    def own(self, Z: FloatArray) -> tuple[FloatArray, FloatArray]:
        rows = Z * self._factors
        t = np.einsum("ij,ij->i", rows, rows)
        slope = 2.0 * self.kernel.derivative(t)[:, None]
        return self.kernel.value(t), slope * rows * self._factors


class _CosineNode(Node):
    """u.v, and what kernels of directions share: rows of length 1, and lengths; a row of zeros has no direction."""

    def __init__(self, kernel: Kernel, B: FloatArray) -> None:
        self.kernel = kernel
        self._V, self._lengths = _directions_and_lengths(B)

    def at(self, Z: FloatArray, *, exact: bool) -> Local:
        return self._cosine(*_directions_and_lengths(Z))

    def _tangent(self, C: FloatArray, cosines: FloatArray, U: FloatArray, lengths: FloatArray) -> FloatArray:
        """Return sum_j C_ij (v_j - (u_i.v_j) u_i) / |z_i|, as (I - u u') / |z| is du/dz; 0 for rows of zeros."""
        pulled: FloatArray = C @ self._V
        pulled -= np.einsum("ij,ij->i", C, cosines)[:, None] * U
        # what is left along u is rounding, which a short row would magnify
        pulled -= np.einsum("ij,ij->i", pulled, U)[:, None] * U
        pulled /= np.where(lengths == 0, 1.0, lengths)[:, None]
        pulled[lengths == 0] = 0.0
        return pulled

    def _cosine(self, U: FloatArray, lengths: FloatArray) -> Local:
        """c = u.v of rows of length 1: |z| dc/dz^p = v_p - c u_p, and the second derivative, by the product rule, is
        (3 c u_p u_q - u_p v_q - u_q v_p - c [p = q]) / |z|^2. Around a row of zeros nothing changes.
        """
        V, c = self._V, U @ self._V.T
        inverse = np.where(lengths > 0, 1.0 / np.where(lengths > 0, lengths, 1.0), 0.0)[:, None]

        def second(p: int, q: int) -> FloatArray:
            u_p, u_q = U[:, p, None], U[:, q, None]
            matrix: FloatArray = (3.0 * u_p * u_q - float(p == q)) * c
            matrix -= u_p * V[:, q]
            matrix -= u_q * V[:, p]
            matrix *= inverse
            matrix *= inverse
            return matrix

        return Local(
            c,
            pull=lambda W: self._tangent(W, c, U, lengths),
            first=lambda p: inverse * (V[:, p] - c * U[:, p, None]),
            second=second,
        )


class _StepsNode(_CosineNode):
    """1 - theta / pi: grad theta = -(v - cos theta u) / (|z| sin theta), of length 1 / |z|; 0 where rows agree.

    It is g(c) of the cosine c, with g' = 1 / (pi sin theta) and g'' = cos theta / (pi sin^3 theta).
    """

    def at(self, Z: FloatArray, *, exact: bool) -> Local:
        U, lengths = _directions_and_lengths(Z)
        theta = angles(Z if exact else U, self._V)
        cosines, c = np.cos(theta), cache(lambda: self._cosine(U, lengths))

        def pull(W: FloatArray) -> FloatArray:
            sines = np.sin(theta)
            kink = sines <= _KINK
            C = np.where(kink, 0.0, W / np.where(kink, 1.0, np.pi * sines))
            C[:, self._lengths == 0] = 0.0
            return self._tangent(C, cosines, U, lengths)

        @cache
        def slope() -> FloatArray:
            sines = np.sin(theta)
            flat = (sines <= _KINK) | (self._lengths == 0)
            return np.where(flat, 0.0, 1.0 / (np.pi * np.where(flat, 1.0, sines)))

        bend = cache(lambda: cosines * np.pi**2 * slope() ** 3)
        return Local(
            (1.0 - theta / np.pi),
            pull=pull,
            first=lambda p: slope() * c().first(p),
            second=lambda p, q: slope() * c().second(p, q) + bend() * c().first(p) * c().first(q),
        )


class _RectifiedNode(_CosineNode):
    """|z| |b| (sin theta + (pi - theta) cos theta) / pi, whose gradient is (sin theta |b| u + (pi - theta) b) / pi.

    At z = 0, where there is a kink, that is b / 2 (u counts as 0, theta as pi / 2): half way between both sides.
    Its second derivative is |b| / pi times |z| c_p c_q / sin theta + sin theta ([p = q] - u_p u_q) / |z|, where c_p is
    dc/dz^p of the cosine; both vanish where rows agree, and at z = 0 they count as 0.
    """

    def at(self, Z: FloatArray, *, exact: bool) -> Local:
        U, lengths = _directions_and_lengths(Z)
        theta = angles(U, self._V)
        scale, c = self._lengths / np.pi, cache(lambda: self._cosine(U, lengths))
        values = np.sin(theta) + (np.pi - theta) * np.cos(theta)
        values *= scale * lengths[:, None]

        def pull(W: FloatArray) -> FloatArray:
            weights = W * scale
            pulled: FloatArray = ((np.pi - theta) * weights) @ self._V
            pulled += np.einsum("ij,ij->i", np.sin(theta), weights)[:, None] * U
            return pulled

        @cache
        def across_and_along() -> tuple[FloatArray, FloatArray]:
            sines = np.sin(theta)
            flat = sines <= _KINK
            along = sines * scale
            along[lengths == 0] = 0.0
            along /= np.where(lengths > 0, lengths, 1.0)[:, None]
            return np.where(flat, 0.0, scale * lengths[:, None] / np.where(flat, 1.0, sines)), along

        def second(p: int, q: int) -> FloatArray:
            across, along = across_and_along()
            matrix: FloatArray = across * c().first(p) * c().first(q)
            return matrix + along * (float(p == q) - U[:, p, None] * U[:, q, None])

        return Local(
            values,
            pull=pull,
            first=lambda p: scale * (np.sin(theta) * U[:, p, None] + (np.pi - theta) * self._V[:, p]),
            second=second,
        )

    def own(self, Z: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self.kernel.diagonal(Z), 2.0 * Z


class _RadialNode(Node):
    """f(-|x - y|^2) of rows that are centred first: an offset must not eat the digits of the distances."""

    kernel: kernels.RadialKernel

    def __init__(self, kernel: kernels.RadialKernel, B: FloatArray, shifted: bool) -> None:
        self.kernel = kernel
        self._profile, self.constant = profile_of(kernel, shifted)
        self._centre = mean_of_rows(B)
        self._factors = kernel.prepare(np.ones((1, B.shape[1])))  # shape: (1, d)
        self._B, self._norms = self._prepared(B)
        wide = bool(_EPS * self._norms.max(initial=0.0) > DOUBLE_DISTANCE_ERROR)
        self._correct = kernel.singular_at_zero or wide
        # (b - z)_p (b - z)_q multiplied out loses digits: to rows many bandwidths apart, and where f'' has a pole
        self._by_moments = not wide and bool(np.isfinite(kernel.curvature(np.zeros(1)))[0])

    def _prepared(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return (X - centre) * factors, with rows too far out for their squares brought in, and those squares."""
        with np.errstate(over="ignore"):
            rows = (X - self._centre) * self._factors
        far = np.abs(rows).max(axis=1, initial=0.0) > _FARTHEST
        if far.any():
            outer = rows[far].clip(-1e300, 1e300)
            rows[far] = outer * (_FARTHEST / np.abs(outer).max(axis=1))[:, None]
        return rows, np.einsum("ij,ij->i", rows, rows)

    def at(self, Z: FloatArray, *, exact: bool) -> Local:
        rows, norms = self._prepared(Z)
        if exact:
            t = cdist(rows, self._B, "sqeuclidean")
            return self._local(rows, np.negative(t, out=t), None)
        t = (2.0 * rows) @ self._B.T
        t -= norms[:, None]
        t -= self._norms
        close = t > -_EPS * CLOSE[DOUBLE] * (norms[:, None] + self._norms) if self._correct else None
        if close is not None:
            for i, j in pairs_of(close):
                gap = self._B[j] - rows[i]
                t[i, j] = -np.einsum("ij,ij->i", gap, gap)
        return self._local(rows, np.minimum(t, 0.0, out=t), close)

    def _local(self, rows: FloatArray, t: FloatArray, close: NDArray[np.bool_] | None) -> Local:
        kernel, B, factors = self.kernel, self._B, self._factors[0]

        def slope() -> FloatArray:
            found = kernel.derivative(t)
            if kernel.singular_at_zero:
                found[t == 0] = 0.0  # a kink: 0 is among its subgradients
            return found

        def pull(W: FloatArray) -> FloatArray:
            weights, apart = slope(), np.zeros_like(rows)
            weights *= W
            if close is not None:  # what close pairs contribute comes from differences
                for i, j in pairs_of(close):
                    gap = B[j] - rows[i]
                    gap *= weights[i, j][:, None]
                    np.add.at(apart, i, gap)
                weights[close] = 0.0
            pulled = weights @ B
            pulled -= weights.sum(axis=1)[:, None] * rows
            pulled += apart
            pulled *= 2.0 * self._factors
            return pulled

        @cache
        def slope_and_bend() -> tuple[FloatArray, FloatArray]:
            bend = kernel.curvature(t)
            bend[~np.isfinite(bend)] = 0.0  # at distance 0, or as good as that: what bend is multiplied by is 0 there
            return slope(), bend

        def gaps(p: int) -> FloatArray:
            return np.asarray(B[:, p] - rows[:, p, None])

        def second(p: int, q: int) -> FloatArray:
            slope, bend = slope_and_bend()
            matrix = gaps(p)
            matrix *= matrix if p == q else gaps(q)
            matrix *= bend
            matrix *= 4.0
            if p == q:
                matrix -= 2.0 * slope
            matrix *= factors[p] * factors[q]
            return matrix

        def shortcut(A: FloatArray, pairs: Pairs) -> FloatArray:
            return self._multiplied_out(rows, *slope_and_bend(), A, pairs)

        return Local(
            self._profile(t.copy()),
            pull=pull,
            first=lambda p: 2.0 * factors[p] * (slope_and_bend()[0] * gaps(p)),
            second=second,
            shortcut=shortcut if self._by_moments else None,
        )

    def _multiplied_out(
        self, rows: FloatArray, slope: FloatArray, bend: FloatArray, A: FloatArray, pairs: Pairs
    ) -> FloatArray:
        """Return the contraction with (b - z)_p (b - z)_q multiplied out.  # shape: (m, k, pairs)"""
        p, q = np.array(pairs, dtype=np.intp).T
        used, places = np.unique(np.concatenate([p, q]), return_inverse=True)
        in_p, in_q = np.split(places, 2)
        means = bend @ A  # shape: (m, k)
        firsts = np.stack([bend @ (A * self._B[:, [v]]) for v in used], axis=2)  # shape: (m, k, used)
        z_p, z_q = rows[:, None, p], rows[:, None, q]
        out = _moments(bend, A, self._B, pairs)
        out -= z_q * firsts[:, :, in_p]
        out -= z_p * firsts[:, :, in_q]
        out += z_p * z_q * means[:, :, None]
        out *= 4.0
        if np.any(p == q):
            out -= 2.0 * (slope @ A)[:, :, None] * (p == q)
        out *= self._factors[0, p] * self._factors[0, q]
        return out


def _directions_and_lengths(X: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return rows of length 1 and their former lengths; rows of zeros stay.  # shapes: (m, d), (m,)"""
    directions = kernels.Cosine().prepare(X)
    return directions, np.einsum("ij,ij->i", X, directions)


def _moments(bend: FloatArray, A: FloatArray, rows: FloatArray, pairs: Pairs) -> FloatArray:
    """Return sum_l bend_il A_lj b_lp b_lq, a bounded number of weighted rows at a time.  # shape: (m, k, pairs)"""
    (m, n), k = bend.shape, A.shape[1]
    out = np.empty((m, k, len(pairs)))
    step = max(1, _NUMBERS_AT_ONCE // max(1, n * k))
    for part in slices(len(pairs), step):
        weighted = np.stack([A * (rows[:, p] * rows[:, q])[:, None] for p, q in pairs[part]], axis=2)  # (n, k, some)
        out[:, :, part] = (bend @ weighted.reshape(n, -1)).reshape(m, k, -1)
    return out
