"""What a fitted model offers to those who look for a way back to its data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from kpca import blas
from kpca.kernels import Kernel
from kpca.preimage.expansion import Expansion
from kpca.projection import FeatureProjection, KernelProjection

FloatArray = NDArray[Any]
# Ridge, relative to the mean diagonal, when random features are expressed by rows: what is small is noise.
_ANCHOR_RIDGE = 1e-8


@dataclass(frozen=True)
class Target:
    """A kernel, some rows with their scores, and how scores combine rows in feature space."""

    kernel: Kernel
    rows: FloatArray  # training rows, all or some of them, shape: (n, d)
    scores: FloatArray  # theirs, shape: (n, k)
    weights: FloatArray | None  # theirs, all positive, shape: (n,)
    expansion: Expansion | None  # None where the model has none


def expansion_of(
    kernel: Kernel,
    projection: KernelProjection | FeatureProjection,
    rows: FloatArray,
    scores: FloatArray,
    *,
    threads: int = 1,
) -> Expansion:
    """Return how scores combine rows: training rows, landmarks, or for random features the rows given.

    `scores` are those of `rows`; where the model compares new rows with these very rows they need not be found again.
    """
    if isinstance(projection, FeatureProjection):
        return _anchored(kernel, projection, rows, threads)
    base = projection.X
    n = base.shape[0]
    if base is not rows:
        scores = projection(base, threads=threads)
    centre, levels = np.zeros(n), np.zeros(n)
    if projection.centre is not None:
        centre, levels = projection.centre.coefficients, projection.centre.levels
    return Expansion(
        kernel,
        base,
        projection.coefficients.astype(np.float64),
        centre,
        projection.offset,
        scores.astype(np.float64),
        levels,
        kernel.diagonal(base),
        float(centre @ levels),
    )


def _anchored(kernel: Kernel, projection: FeatureProjection, rows: FloatArray, threads: int) -> Expansion:
    """Return the combinations of rows whose random features come nearest to the directions and the mean.

    Inner products are those of the features, as in the scores of all rows: scores of known rows by the kernel itself
    would differ from those of the same rows by their features, and no row be at distance 0 from itself.
    """
    F = projection.feature_map(rows, threads=threads).astype(np.float64)
    wanted = np.column_stack([projection.directions, projection.mean]).astype(np.float64)
    with blas.single_threaded():
        images = F @ wanted
        G = F @ F.T
        diagonal = G.diagonal().copy()
        G.flat[:: len(G) + 1] += _ANCHOR_RIDGE * max(float(np.trace(G)) / len(G), np.finfo(np.float64).tiny)
        combined = cho_solve(cho_factor(G, overwrite_a=True), images)
    offset = projection.offset.astype(np.float64)
    return Expansion(
        kernel,
        rows,
        np.ascontiguousarray(combined[:, :-1]),
        combined[:, -1],
        offset,
        images[:, :-1] - offset,
        images[:, -1],
        diagonal,
        float(projection.mean @ projection.mean),
    )
