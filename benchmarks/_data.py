"""The data of the races; always the same for the same arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.spatial.distance import cdist

FloatArray = NDArray[Any]


def clustered(n: int, d: int = 50) -> FloatArray:
    """Return 20 Gaussian clusters.  # shape: (n, d)"""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(20, d)) * 2
    return centres[rng.integers(0, 20, n)] + rng.normal(size=(n, d)) * 0.7


def normal(n: int, d: int = 50) -> FloatArray:
    """Return independent normal numbers: a kernel matrix without gaps.  # shape: (n, d)"""
    return np.random.default_rng(0).normal(size=(n, d))


def digits() -> FloatArray:
    """Return scikit-learn's handwritten digits.  # shape: (1797, 64)"""
    from sklearn.datasets import load_digits

    return np.asarray(load_digits().data, dtype=np.float64)


def decaying(n: int, d: int) -> FloatArray:
    """Return rows whose j-th singular value falls as 1/j, in a basis that is not the axes.  # shape: (n, d)"""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)) / np.arange(1, d + 1)
    axis = rng.normal(size=d)
    axis /= np.linalg.norm(axis)
    reflected: FloatArray = X - 2.0 * np.outer(X @ axis, axis)
    return reflected


def sparse_counts(n: int, d: int, density: float) -> Any:
    """Return a CSR matrix of uniform numbers at random places.  # shape: (n, d)"""
    return sparse.random(n, d, density=density, format="csr", random_state=np.random.default_rng(0))


def median_gamma(X: FloatArray) -> float:
    """Return 1 / (2 m^2), m the median distance among the first 500 rows."""
    return float(1.0 / (2.0 * np.median(cdist(X[:500], X[:500], "sqeuclidean"))))
