"""Random projections X -> (X - origin) W: independent normal columns, orthogonal blocks, or signed Hadamard blocks."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Self, cast

import numpy as np
from scipy import sparse
from scipy.linalg import hadamard

from kpca._base.linalg import FloatArray

# Columns this many times as long as there are of them are nearly orthogonal.
_LONG = 8
# Directions of a Hadamard block take few values in few dimensions; from here on they are as good as normal.
_SMALLEST_HADAMARD = 64
# The transform is done by products with Hadamard matrices of at most this size: more arithmetic than butterflies of
# two, but at the speed of matrix products instead of that of memory.
_LARGEST_FACTOR = 32


class Numbers:
    """What dataclasses of numbers share: to be had in another precision."""

    def at(self, dtype: np.dtype[Any]) -> Self:
        members: Any = self
        return cast(Self, replace(members, **{name: _cast(part, dtype) for name, part in vars(self).items()}))


@dataclass(frozen=True)
class DenseProjection(Numbers):
    """W as a matrix: `into` writes (X - origin) W of dense or CSR rows, `back` returns weights W', of gradients."""

    weights: FloatArray  # shape: (d, count)
    origin: FloatArray | None = None  # shape: (d,)

    def into(self, X: Any, out: FloatArray) -> None:
        if sparse.issparse(X):  # zeros stay unstored: the origin is taken off afterwards
            out[...] = X @ self.weights if self.origin is None else X @ self.weights - self.origin @ self.weights
        else:
            np.matmul(X if self.origin is None else X - self.origin, self.weights, out=out)

    def back(self, weights: FloatArray) -> FloatArray:
        return np.asarray(weights @ self.weights.T)


@dataclass(frozen=True)
class HadamardProjection(Numbers):
    """W of blocks H D1 H D2 H D3 (structured orthogonal features), H a Hadamard matrix and D random signs.

    Rows are padded with zeros to the size of H, and no W is stored: p log p operations per block instead of d p.
    """

    scale: FloatArray  # of the features, shape: (d,)
    signs: FloatArray  # shape: (blocks, 3, p)
    stretch: FloatArray  # of the columns, lengths and the 1/sqrt(p) of H included, shape: (count,)
    origin: FloatArray | None = None  # shape: (d,)

    def into(self, X: Any, out: FloatArray) -> None:
        X = X.toarray() if sparse.issparse(X) else X
        d, p = self.scale.size, self.signs.shape[2]
        rows = np.zeros((X.shape[0], p), dtype=self.scale.dtype)
        np.multiply(X if self.origin is None else X - self.origin, self.scale, out=rows[:, :d])
        turned, spare = np.empty_like(rows), np.empty_like(rows)
        for block, signs in enumerate(self.signs):
            np.multiply(rows, signs[2], out=turned)
            for sign in (signs[1], signs[0]):
                turned, spare = _hadamard_transform(turned, spare)
                turned *= sign
            turned, spare = _hadamard_transform(turned, spare)
            stretch = self.stretch[block * p : (block + 1) * p]
            np.multiply(turned[:, : stretch.size], stretch, out=out[:, block * p : block * p + stretch.size])

    def back(self, weights: FloatArray) -> FloatArray:
        """Return weights W': the transposed transforms in the opposite order, H being symmetric.  # shape: (m, d)"""
        d, p = self.scale.size, self.signs.shape[2]
        total = np.zeros((len(weights), p), dtype=self.scale.dtype)
        turned, spare = np.empty_like(total), np.empty_like(total)
        for block, signs in enumerate(self.signs):
            stretch = self.stretch[block * p : (block + 1) * p]
            turned[:, stretch.size :] = 0.0
            np.multiply(weights[:, block * p : block * p + stretch.size], stretch, out=turned[:, : stretch.size])
            for sign in signs:
                turned, spare = _hadamard_transform(turned, spare)
                turned *= sign
            total += turned
        return np.asarray(total[:, :d] * self.scale)


Projection = DenseProjection | HadamardProjection


def draw_projection(
    rng: np.random.Generator,
    d: int,
    count: int,
    structure: str,
    *,
    scale: FloatArray,
    stretch: FloatArray | float = 1.0,
    origin: FloatArray | None = None,
    fixed_length: bool = False,
) -> Projection:
    """Draw `count` columns scale * z * stretch, each z normal or (in high dimension: almost) with the law of a normal.

    "orthogonal" columns are Haar directions, orthogonal in blocks of d, of chi_d-distributed lengths; `fixed_length`
    makes all of them sqrt(d) long, which serves second moments better. `stretch` is a number per column.
    """
    stretch = np.broadcast_to(np.asarray(stretch, dtype=np.float64), (count,))
    if structure == "hadamard":
        p = max(_SMALLEST_HADAMARD, 1 << (d - 1).bit_length())
        signs = rng.choice(np.array([-1.0, 1.0]), size=(-(-count // p), 3, p))
        lengths = np.full(count, math.sqrt(p)) if fixed_length else np.sqrt(rng.chisquare(p, count))
        return HadamardProjection(scale, signs, stretch * lengths * p**-1.5, origin)
    if structure == "independent":
        directions = rng.standard_normal((d, count))
    else:
        whole, rest = divmod(count, d)
        frames = [_haar_frames(rng, whole, d, d), _haar_frames(rng, 1, d, rest)]
        directions = np.hstack([frame.transpose(1, 0, 2).reshape(d, -1) for frame in frames])
        directions *= math.sqrt(d) if fixed_length else np.sqrt(rng.chisquare(d, count))
    directions *= scale[:, None]
    directions *= stretch
    return DenseProjection(directions, origin)


def _haar_frames(rng: np.random.Generator, blocks: int, d: int, columns: int) -> FloatArray:
    """Return blocks of orthonormal columns, each uniform among all such frames.  # shape: (blocks, d, columns)"""
    Z = rng.standard_normal((blocks, d, columns))
    if Z.size == 0:  # LAPACK would prepare for matrices of this shape even if there is none
        return Z
    if d >= _LONG * columns:
        # Long columns are nearly orthogonal already: Gram-Schmidt by way of Z'Z = L L' is exact enough, and far faster.
        L = np.linalg.cholesky(Z.transpose(0, 2, 1) @ Z)
        return np.asarray(Z @ np.linalg.inv(L).transpose(0, 2, 1))
    Q, R = np.linalg.qr(Z)
    # QR leaves signs to LAPACK; only with a positive diagonal of R the law of Q is Haar's.
    signs = np.where(np.diagonal(R, axis1=1, axis2=2) < 0, -1.0, 1.0)
    return np.asarray(Q * signs[:, None, :])


def _hadamard_transform(rows: FloatArray, spare: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return rows times the Hadamard matrix (entries +-1), and the array left free; both arguments are overwritten."""
    # The matrix of size a b c is the Kronecker product of those of size a, b and c: one product per factor.
    count, p = rows.shape
    right = 1
    while right < p:
        size = min(_LARGEST_FACTOR, p // right)
        H = hadamard(size, dtype=rows.dtype)
        if right == 1:
            np.matmul(rows.reshape(-1, size), H, out=spare.reshape(-1, size))
        else:
            shape = (count * (p // (size * right)), size, right)
            np.matmul(H, rows.reshape(shape), out=spare.reshape(shape))
        rows, spare = spare, rows
        right *= size
    return rows, spare


def _cast(part: Any, dtype: np.dtype[Any]) -> Any:
    if isinstance(part, tuple):
        return tuple(_cast(member, dtype) for member in part)
    if isinstance(part, np.ndarray) or sparse.issparse(part):
        return part.astype(dtype, copy=False) if part.dtype.kind == "f" else part
    return part.at(dtype) if hasattr(part, "at") else part
