"""A first guess of the leading eigenvectors from a few hundred rows: what saves block Krylov its first passes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca._base.linalg import FloatArray, largest_eigenpairs
from kpca.features.base import Inexact
from kpca.features.nystroem_map import NystroemMap
from kpca.features.scatter import scatter_of
from kpca.gram.operator import CrossGram, Gram, center

# Measured at n = 6 000 to 20 000: more rows save no more passes; so few need one thread of LAPACK only.
_LANDMARKS = 256
_SAMPLE_FOR_VALUES = 1000
# Up to this many rows a pass costs no more than the features that would save it.
_FEW_ROWS = 5000


def coarse_eigenvalues(gram: Gram, *, centred: bool, seed: int) -> FloatArray:
    """Return all positive eigenvalues of the operator on some of the rows, largest first: the shape of the spectrum."""
    n = gram.shape[0]
    some = np.sort(np.random.default_rng(seed).choice(n, min(n, _SAMPLE_FOR_VALUES), replace=False))
    return np.asarray(np.maximum(np.linalg.eigvalsh(_among(gram, some, centred))[::-1], 0.0))


def _among(gram: Gram, some: NDArray[np.intp], centred: bool) -> FloatArray:
    part = gram.among(some, shifted=gram.shifted and centred).matrix()
    return center(part, gram.scale[some]) if centred else part


def leading_eigenvectors(gram: Gram, count: int, *, centred: bool, seed: int) -> tuple[FloatArray, float]:
    """Return approximate leading eigenvectors and an estimate of the largest eigenvalue.  # shape: (n, <= count)

    They are those of the operator with features of some landmarks in the place of the kernel: better by about one pass
    than eigenvectors of the landmarks alone extended to all rows (Nystroem), which serve few rows and indefinite
    kernels.
    """
    n = gram.shape[0]
    m = min(n, max(min(_LANDMARKS, n // 16), 3 * count))
    some = np.sort(np.random.default_rng(seed).choice(n, m, replace=False))
    if n > _FEW_ROWS and gram.kernel.psd:
        return gram.hand(lambda X: _by_features(gram, X, some, count, centred))
    found = largest_eigenpairs(_among(gram, some, centred), min(count, len(some)))
    solid = found.values > 1e-6 * max(found.values[0], 0.0)
    if not solid.any():
        return np.empty((n, 0)), 0.0
    values, vectors = found.values[solid], found.vectors[:, solid]
    columns = (gram.cross_to(some) @ (vectors * gram.scale[some, None] / values)) * gram.scale[:, None]
    return columns, float(values[0]) * n / len(some)


def _by_features(gram: Gram, X: Any, some: NDArray[np.intp], count: int, centred: bool) -> tuple[FloatArray, float]:
    features = _Rough(NystroemMap(gram.kernel, X[some], X.dtype))
    weighted = not bool((gram.scale == 1.0).all())
    scatter = scatter_of(features, X, np.square(gram.scale) if weighted else None, threads=gram.threads)
    found = largest_eigenpairs(scatter.operator(centred=centred), min(count, features.rank))
    solid = found.values > 1e-6 * max(float(found.values[0]), 0.0)
    V = found.vectors[:, solid] / np.sqrt(found.values[solid])
    cross = CrossGram(
        gram.kernel, X, features.map.landmarks, dtype=features.map.precision(np.float32), threads=gram.threads
    )
    columns = cross @ features.map.coefficients(V)
    if centred:
        columns -= scatter.mean @ V
    return columns * gram.scale[:, None] if weighted else columns, max(float(found.values[0]), 0.0)


class _Rough(Inexact):
    """Landmark features of float32 rows: a guess needs no more digits."""

    def __init__(self, features: NystroemMap) -> None:
        self.map, self.kernel, self.rank = features, features.kernel, features.rank

    def __call__(self, X: Any, *, threads: int = 1) -> FloatArray:
        return self.map(X.astype(np.float32, copy=False), threads=threads)
