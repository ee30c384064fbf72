"""Which random features each kernel has: f with E f(x).f(y) = k(x, y), drawn by `draw_part`.

Kernels of differences have Fourier features, cos and sin of random frequencies (Bochner); sums over features of
homogeneous kernels have them in log x; kernels of angles have activations of random projections; polynomials have
convolved count sketches. The identity behind each stands beside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from kpca import kernels
from kpca._base.errors import InputError
from kpca._base.linalg import FloatArray
from kpca.features.frequencies import DenseProjection, draw_projection
from kpca.features.parts import Activated, Beside, Flat, Fourier, Homogeneous, Part, TensorSketch
from kpca.kernels import Kernel
from kpca.kernels.base import KERNELS

STRUCTURES = ("independent", "orthogonal", "hadamard")


@dataclass(frozen=True)
class Draw:
    """What is drawn: how many features, for how many columns, how and from which source."""

    d: int
    rank: int
    structure: str
    rng: np.random.Generator
    origin: FloatArray | None  # shape: (d,)

    @property
    def frequencies(self) -> int:
        """Each has two features, its cosine and its sine; of an odd rank the last has one."""
        return -(-self.rank // 2)


def _fourier(kernel: Any, draw: Draw) -> Part:
    """A radial kernel: normal frequencies, each stretched by a random number, are a mixture of Gaussians."""
    scale = kernel.prepare(np.ones((1, draw.d)))[0]  # a number per feature, whether the kernel has one or one each
    stretch = kernel.stretch(draw.rng, draw.frequencies)
    projection = draw_projection(
        draw.rng, draw.d, draw.frequencies, draw.structure, scale=scale, stretch=stretch, origin=draw.origin
    )
    return Fourier(projection, draw.rng.uniform(0.0, 2.0 * math.pi))


def _axes(kernel: Any, draw: Draw) -> Part:
    """A product over features: frequencies of each feature are independent."""
    weights = kernel.frequencies(draw.rng, (draw.d, draw.frequencies))
    return Fourier(DenseProjection(weights, draw.origin), draw.rng.uniform(0.0, 2.0 * math.pi))


def _homogeneous(kernel: Any, draw: Draw) -> Part:
    """weight * sum_j sqrt(x_j y_j) E cos(w log(x_j / y_j)) (Vedaldi and Zisserman), frequencies dealt out evenly."""
    weight, frequencies = kernel.frequencies(draw.rng, draw.frequencies)
    count = draw.frequencies
    features = np.resize(draw.rng.permutation(draw.d), count)
    # Columns of a feature: two for each frequency, one for the last of an odd rank.
    columns = np.full(count, 2.0)
    columns[draw.rank // 2 :] = 1.0
    share = np.bincount(features, weights=columns, minlength=draw.d)
    # Fewer frequencies than features: those dealt out, chosen at random, stand for the others.
    expected = draw.rank / draw.d if count < draw.d else share[features]
    roots = np.sqrt(weight * 2.0 / np.broadcast_to(expected, (count,)))
    pairs = draw.rank // 2
    return Homogeneous(
        features, frequencies, np.concatenate([roots[:pairs], roots]), draw.rng.uniform(0.0, 2.0 * math.pi)
    )


def _activated(kernel: Any, draw: Draw) -> Part:
    """An inner product or a cosine, by plain projections; an arc-cosine kernel, by signs or positive parts of them."""
    activation = "none"
    if isinstance(kernel, kernels.ArcCosine):
        activation = "sign" if kernel.order == 0 else "relu"
    how: dict[str, Any] = {"scale": np.ones(draw.d), "fixed_length": activation == "none"}
    projection = draw_projection(draw.rng, draw.d, draw.rank - (activation == "sign"), draw.structure, **how)
    return Activated(projection, activation, unit_rows=isinstance(kernel, kernels.Cosine))


def _polynomial(kernel: kernels.Polynomial, draw: Draw) -> Part:
    degree = kernel.degree
    if not isinstance(degree, int) or degree < 1 or kernel.coef0 < 0:
        raise InputError(
            "Random features of the polynomial kernel need a whole degree from 1 and coef0 of at least 0; got "
            f"degree={kernel.degree!r}, coef0={kernel.coef0!r}: change them, or take landmarks."
        )
    places = draw.rng.integers(0, draw.rank, size=(degree, draw.d + 1))
    signs = draw.rng.choice(np.array([-1.0, 1.0]), size=(degree, draw.d + 1))
    shape, columns = (draw.rank, draw.d), np.arange(draw.d)
    sketches = tuple(
        sparse.csr_matrix((math.sqrt(kernel.gamma) * sign[:-1], (place[:-1], columns)), shape=shape)
        for place, sign in zip(places, signs, strict=True)
    )
    return TensorSketch(sketches, math.sqrt(kernel.coef0) * signs[:, -1], places[:, -1])


def _sum(kernel: kernels.Sum, draw: Draw) -> Part:
    # A constant takes the one column it needs; the others share the rest evenly, the first ones what is left over.
    least = [smallest_rank(member) for member in kernel.members]
    growing = [not isinstance(member, kernels.Constant) for member in kernel.members]
    spare = draw.rank - sum(least)
    sharers = max(sum(growing), 1)
    shares = [spare // sharers + (number < spare % sharers) for number in range(sharers)]
    ranks = [low + (shares.pop(0) if grows else 0) for low, grows in zip(least, growing, strict=True)]
    if not any(growing):
        ranks[-1] += spare
    parts = tuple(
        draw_part(member, replace(draw, rank=rank)) for member, rank in zip(kernel.members, ranks, strict=True)
    )
    return Beside(parts, tuple(ranks))


# `Kernel.random_features` -> what draws them
_FAMILIES: dict[str, Callable[[Any, Draw], Part]] = {
    "fourier": _fourier,
    "axes": _axes,
    "projected": _activated,
    "activated": _activated,
    "sketched": _polynomial,
    "homogeneous": _homogeneous,
    "flat": lambda kernel, draw: Flat(math.sqrt(kernel.constant)),
    "scaled": lambda kernel, draw: Beside((draw_part(kernel.kernel, draw),), (draw.rank,), math.sqrt(kernel.factor)),
    "sum": _sum,
}


def structure_of(kernel: Kernel, asked: str) -> str:
    """Return the structure a kernel's features get: "independent" where directions have no meaning for it.

    Raises InputError for kernels that have no random features.
    """
    if asked not in STRUCTURES:
        raise InputError(f"structure must be one of {', '.join(map(repr, STRUCTURES))}; got {asked!r}.")
    members = kernel.members if isinstance(kernel, kernels.Composite) else ()
    found = [structure_of(member, asked) for member in members]
    if type(kernel) not in KERNELS or kernel.random_features is None:
        simple = [kind for kind in KERNELS if not issubclass(kind, kernels.Composite | kernels.Constant)]
        names = ", ".join(kind.name for kind in simple if kind.random_features is not None)
        raise InputError(
            f"Random features exist for the kernels {names}, their sums and multiples; got {kernel.name!r}: choose one "
            "of these, or take landmarks, which every kernel has."
        )
    if not kernel.rotatable:
        if asked == "hadamard":
            raise InputError(
                f"structure='hadamard' needs a kernel whose frequencies have no preferred axes; got {kernel.name!r}: "
                "take structure='independent'."
            )
        return "independent"
    return asked if not found or asked in found else found[0]


def smallest_rank(kernel: Kernel) -> int:
    if isinstance(kernel, kernels.Scaled | kernels.Sum):
        return sum(smallest_rank(member) for member in kernel.members)
    return 2 if isinstance(kernel, kernels.ArcCosine) and kernel.order == 0 else 1


def offset(kernel: Kernel, X: Any) -> FloatArray | None:
    """Return a(x) if the features stand for k(x, y) + a(x) + a(y), which is k once centred; None if for k itself.

    Only -(x - y)^2 / (x + y) = 4xy / (x + y) - x - y needs it: alone it is not positive semidefinite.  # shape: (n,)
    """
    if isinstance(kernel, kernels.AdditiveChi2):
        return np.asarray(X.sum(axis=1, dtype=np.float64)).ravel()
    if isinstance(kernel, kernels.Scaled):
        inner = offset(kernel.kernel, X)
        return None if inner is None else kernel.factor * inner
    if isinstance(kernel, kernels.Sum):
        found = [part for part in (offset(member, X) for member in kernel.members) if part is not None]
        return np.sum(found, axis=0) if found else None
    return None


def draw_part(kernel: Kernel, draw: Draw) -> Part:
    """Draw the features of a kernel that `structure_of` accepts."""
    return _FAMILIES[str(kernel.random_features)](kernel, draw)
