"""What a solver returns: eigenpairs, and how far they can be trusted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[Any]


@dataclass(frozen=True)
class Spectrum:
    """The largest eigenvalues of a symmetric operator B (by value, not by modulus), in descending order."""

    values: FloatArray  # shape: (k,)
    vectors: FloatArray  # orthonormal, shape: (n, k)
    residuals: FloatArray  # |B u - lambda u| of each pair, with what the product itself may be wrong, shape: (k,)
    bounds: FloatArray  # lower and upper bound of the i-th largest eigenvalue, shape: (k, 2)
    trace: float
    frobenius2: float
    smallest: float  # the smallest eigenvalue seen: how indefinite B is known to be
    n_passes: int
    converged: bool
    solver: str
    error: float = 0.0  # what rounding and the kernel's own evaluation may have done to any eigenvalue
    spare: FloatArray | None = None  # Ritz vectors after the last, as far as they got, shape: (n, s)

    def scores(self, weights: FloatArray | None = None) -> FloatArray:
        """Return the scores of the rows, U sqrt(lambda) / sqrt(w).  # shape: (n, k)"""
        scores: FloatArray = self.vectors * np.sqrt(np.maximum(self.values, 0.0))
        return scores if weights is None else scores / np.sqrt(weights)[:, None]

    def head(self, k: int) -> Spectrum:
        """Return the first k pairs."""
        if k >= len(self.values):
            return self
        return replace(
            self,
            values=self.values[:k],
            vectors=np.ascontiguousarray(self.vectors[:, :k]),
            residuals=self.residuals[:k],
            bounds=self.bounds[:k],
        )
