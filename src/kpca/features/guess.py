"""A first guess of the leading eigenvectors from landmarks: it saves block Krylov its first passes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca.features.nystroem_map import NystroemMap
from kpca.features.scatter import scatter_of
from kpca.gram import CrossGram, Gram
from kpca.gram.coarse import coarse_eigenvectors, coarse_landmarks, coarse_largest
from kpca.kernels import Kernel
from kpca.linalg import largest_eigenpairs

FloatArray = NDArray[Any]
# Up to so many rows a pass costs no more than the features that would save it.
_FEW_ROWS = 5000


def leading_eigenvectors(gram: Gram, count: int, *, centred: bool, seed: int) -> tuple[FloatArray, float]:
    """Return approximate leading eigenvectors and an estimate of the largest eigenvalue.  # shape: (n, <= count)

    They are those of the operator with features of some landmarks in the place of the kernel: better by about one pass
    than eigenvectors of the landmarks alone extended to all rows, which serve few rows and indefinite kernels.
    """
    n = gram.shape[0]
    if n <= _FEW_ROWS or not gram.kernel.psd:
        return coarse_eigenvectors(gram, count, centred=centred, seed=seed)
    X = gram.rows(None)
    some = coarse_landmarks(n, count, seed)
    features = _Rough(NystroemMap(gram.kernel, X[some], X.dtype))
    weighted = not bool((gram.scale == 1.0).all())
    scatter = scatter_of(features, X, np.square(gram.scale) if weighted else None, threads=gram.threads)
    found = largest_eigenpairs(scatter.operator(centred=centred), min(count, features.rank))
    solid = found.values > 1e-6 * max(float(found.values[0]), 0.0)
    if not solid.any():
        return np.empty((n, 0)), 0.0
    V = found.vectors[:, solid] / np.sqrt(found.values[solid])
    cross = CrossGram(
        gram.kernel, X, features.map.landmarks, dtype=features.map.precision(np.float32), threads=gram.threads
    )
    columns = cross @ features.map.coefficients(V)
    if centred:
        columns -= scatter.mean @ V
    return columns * gram.scale[:, None], coarse_largest(gram, some, centred=centred)


@dataclass(frozen=True)
class _Rough:
    """Landmark features of float32 rows: a guess needs no more digits."""

    map: NystroemMap

    @property
    def kernel(self) -> Kernel:
        return self.map.kernel

    @property
    def rank(self) -> int:
        return self.map.rank

    @property
    def exact(self) -> bool:
        return False

    def __call__(self, X: Any, *, threads: int = 1) -> FloatArray:
        return self.map(X.astype(np.float32, copy=False), threads=threads)

    def unexplained(self, X: Any, features: FloatArray) -> FloatArray:
        return np.zeros(len(features))
