"""Where scores point to in feature space: a combination of known rows.

With t the scores of x, P phi(x) = sum_j g_j phi(b_j), where the b_j are training rows or landmarks and g = c + A t.
Here c makes the mean in feature space (leaving it out is the usual mistake) and column j of A principal direction j.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca.kernels import Kernel

FloatArray = NDArray[Any]


@dataclass(frozen=True)
class Expansion:
    """The map from scores to combinations of rows, and what inner products with these rows are."""

    kernel: Kernel
    rows: FloatArray  # b, dense, shape: (n, d)
    directions: FloatArray  # A, float64, shape: (n, k)
    centre: FloatArray  # c, float64; 0 for a model that is not centred, shape: (n,)
    offset: FloatArray  # A' K c, so that A' k_x = t + offset, shape: (k,)
    scores: FloatArray  # of the rows b, shape: (n, k)
    levels: FloatArray  # K c = <mean, phi(b_j)>, shape: (n,)
    diagonal: FloatArray  # k(b_j, b_j), shape: (n,)
    centre_square: float  # c' K c, the squared length of the mean

    def coefficients(self, scores: FloatArray, gains: FloatArray | None = None) -> FloatArray:
        """Return g of each row of scores; a gain multiplies the part of phi(x) in the components.  # shape: (m, n)"""
        if gains is not None:
            scores = self.amplified(scores, gains)
        coefficients: FloatArray = scores @ self.directions.T + self.centre
        return coefficients

    def amplified(self, scores: FloatArray, gains: FloatArray) -> FloatArray:
        """Return the scores of gain * phi(x), for scores of phi(x): A' (gain k_x) - offset.  # shape: (m, k)"""
        amplified: FloatArray = gains[:, None] * (scores + self.offset) - self.offset
        return amplified

    def products(self, scores: FloatArray) -> FloatArray:
        """Return <P phi, phi(b_j)>; no kernel value is computed.  # shape: (m, n)"""
        products: FloatArray = scores @ (self.scores + self.offset).T + self.levels
        return products

    def squares(self, scores: FloatArray) -> FloatArray:
        """Return |P phi|^2.  # shape: (m,)"""
        own: FloatArray = (scores * (scores + 2.0 * self.offset)).sum(axis=1) + self.centre_square
        return own

    def distances(self, scores: FloatArray) -> FloatArray:
        """Return |P phi - phi(b_j)|^2, at least 0.  # shape: (m, n)"""
        distances = self.squares(scores)[:, None] - 2.0 * self.products(scores) + self.diagonal
        return np.maximum(distances, 0.0, out=distances)
