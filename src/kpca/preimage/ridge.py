"""Back from scores to data: the learned map of scikit-learn, with an intercept.

Kernel ridge regression from the training scores to the training rows (Bakir, Weston and Schoelkopf 2004). The rows are
centred first, so that a constant added to the data is added to the reconstruction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from kpca.errors import InputError
from kpca.gram import CrossGram, Gram
from kpca.kernels import Kernel
from kpca.linalg import mean_of_rows
from kpca.planning.memory import require, ridge_bytes
from kpca.preimage.result import Found
from kpca.settings import memory_budget

FloatArray = NDArray[Any]


@dataclass(frozen=True)
class RidgeMap:
    """A fitted map from scores to rows of data."""

    kernel: Kernel
    scores: FloatArray  # of the training rows, shape: (n, k)
    dual_coef: FloatArray  # shape: (n, d)
    mean: FloatArray  # shape: (d,)

    def __call__(self, scores: FloatArray, *, threads: int = 1) -> FloatArray:
        """Return the rows that belong to these scores.  # shape: (m, d)"""
        cross = CrossGram(self.kernel, scores, self.scores, dtype=scores.dtype, threads=threads)
        return (cross @ self.dual_coef + self.mean).astype(scores.dtype, copy=False)


@dataclass(frozen=True)
class RidgeMapWay:
    """The ridge map as a way back."""

    map: RidgeMap

    def __call__(self, scores: FloatArray, *, inputs: FloatArray | None = None, threads: int = 1) -> Found:
        """Return a row for each row of scores."""
        rows, m = self.map(scores, threads=threads), len(scores)
        return Found(rows, np.zeros(m, np.intp), np.ones(m, bool))


def fit_ridge_map(
    kernel: Kernel,
    scores: FloatArray,
    X: FloatArray,
    alpha: float,
    weights: FloatArray | None = None,
    *,
    threads: int = 1,
) -> RidgeMap:
    """Solve (K + alpha / weights) C = X - mean, with K the kernel matrix of the scores."""
    kernel.check(scores)
    n, d = X.shape
    require(ridge_bytes(n, d, scores.shape[1], X.dtype.itemsize), memory_budget, "or leave fit_inverse_transform out")
    K = Gram(kernel, scores, threads=threads).matrix()
    K.flat[:: len(K) + 1] += alpha if weights is None else alpha / weights
    mean = mean_of_rows(X, weights)
    try:
        # K is symmetric, and its transpose is in LAPACK's order: it is factored where it lies
        factor = cho_factor(K.T, lower=True, overwrite_a=True, check_finite=False)
        dual_coef = cho_solve(factor, X - mean, overwrite_b=True, check_finite=False)
    except LinAlgError as error:
        raise InputError(
            f"The ridge system of fit_inverse_transform must be positive definite; with alpha={alpha} it is singular: "
            "raise alpha."
        ) from error
    return RidgeMap(kernel, scores, dual_coef.astype(X.dtype, copy=False), mean)
