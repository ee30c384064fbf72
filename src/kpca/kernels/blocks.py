"""Kernels that are not a profile of one number per pair: they give blocks, and have no gradient by the profile rule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import additive_chi2_kernel, manhattan_distances

from kpca._base.errors import InputError
from kpca.kernels.base import Argument, FloatArray, Kernel, Matrix, as_float64, canonical, float_dtype, positive


@dataclass(frozen=True)
class Laplacian(Kernel):
    """exp(-gamma ||x - y||_1)."""

    gamma: float = 1.0
    name: ClassVar[str] = "laplacian"

    def __post_init__(self) -> None:
        object.__setattr__(self, "gamma", positive("gamma", self.gamma))

    @property
    def psd(self) -> bool:
        """A product over features of exponential kernels."""
        return True

    @property
    def shift_invariant(self) -> bool:
        """Only differences of rows enter."""
        return True

    @property
    def shared(self) -> tuple[Argument, float]:
        """-gamma ||x - y||_1."""
        return "l1", self.gamma

    def arguments(self, X: Matrix, Y: Matrix) -> NDArray[np.float64]:
        """Return -||x_i - y_j||_1 in float64.  # shape: (n, m)"""
        t = _l1_distances(X, Y)
        return np.negative(t, out=t)

    def value(self, t: FloatArray) -> FloatArray:
        """Overwrite t by e^t and return it."""
        return np.exp(t, out=t)

    def block(self, X: Matrix, Y: Matrix) -> FloatArray:
        """Return the kernel values, from L1 distances in float64.  # shape: (n, m)"""
        t = self.arguments(X, Y)
        t *= self.gamma
        return self.value(t).astype(float_dtype(X), copy=False)

    def diagonal(self, X: Matrix) -> NDArray[np.float64]:
        """Return ones.  # shape: (n,)"""
        return np.ones(X.shape[0])


class _Histogram(Kernel):
    """A kernel of non-negative rows, such as counts or histograms."""

    accepts_sparse: ClassVar[bool]

    def check(self, X: Matrix) -> None:
        """Refuse negative values, naming the first column that has one, and sparse input where it is not supported."""
        if sparse.issparse(X):
            if not self.accepts_sparse:
                raise InputError(
                    f"kernel {self.name!r} must be given a dense array; got a sparse matrix: sparse input is not "
                    "supported here, so convert it with X.toarray()."
                )
            X = canonical(X)
            columns = X.indices[X.data < 0]
        else:
            columns = np.flatnonzero((X < 0).any(axis=0))
        if len(columns):
            raise InputError(
                f"kernel {self.name!r} must be given values of 0 or above; got negative ones in column "
                f"{columns.min()}: shift or clip the data, or choose another kernel."
            )

    def arguments(self, X: Matrix, Y: Matrix) -> NDArray[np.float64]:
        """Return -sum_m (x_im - y_jm)^2 / (x_im + y_jm) in float64.  # shape: (n, m)"""
        self.check(X)
        self.check(Y)
        K: NDArray[Any] = additive_chi2_kernel(as_float64(X), as_float64(Y))
        return K


@dataclass(frozen=True)
class AdditiveChi2(_Histogram):
    """-sum (x - y)^2 / (x + y), as scikit-learn has it: minus a distance, so only conditionally positive definite."""

    name: ClassVar[str] = "additive_chi2"
    accepts_sparse = False

    @property
    def psd(self) -> bool:
        """Zero on the diagonal and negative elsewhere; positive semidefinite only once centred."""
        return False

    def block(self, X: Matrix, Y: Matrix) -> FloatArray:
        """Return the kernel values, summed in float64.  # shape: (n, m)"""
        return self.arguments(X, Y).astype(float_dtype(X), copy=False)

    def diagonal(self, X: Matrix) -> NDArray[np.float64]:
        """Return zeros.  # shape: (n,)"""
        return np.zeros(X.shape[0])


@dataclass(frozen=True)
class Chi2(_Histogram):
    """exp(-gamma sum (x - y)^2 / (x + y))."""

    gamma: float = 1.0
    name: ClassVar[str] = "chi2"
    accepts_sparse = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "gamma", positive("gamma", self.gamma))

    @property
    def psd(self) -> bool:
        """The exponential of a conditionally positive definite kernel (Schoenberg)."""
        return True

    @property
    def shared(self) -> tuple[Argument, float]:
        """-gamma sum (x - y)^2 / (x + y)."""
        return "chi2", self.gamma

    def value(self, t: FloatArray) -> FloatArray:
        """Overwrite t by e^t and return it."""
        return np.exp(t, out=t)

    def block(self, X: Matrix, Y: Matrix) -> FloatArray:
        """Return the kernel values, summed in float64.  # shape: (n, m)"""
        t = self.arguments(X, Y)
        t *= self.gamma
        return self.value(t).astype(float_dtype(X), copy=False)

    def diagonal(self, X: Matrix) -> NDArray[np.float64]:
        """Return ones.  # shape: (n,)"""
        return np.ones(X.shape[0])


@dataclass(frozen=True)
class HistogramIntersection(_Histogram):
    """sum min(x, y): how much two histograms have in common."""

    name: ClassVar[str] = "histogram_intersection"
    accepts_sparse = True

    @property
    def psd(self) -> bool:
        """min(x, y) is the overlap of the intervals [0, x] and [0, y]: an inner product of their indicators."""
        return True

    def block(self, X: Matrix, Y: Matrix) -> FloatArray:
        """Return the kernel values, summed in float64.  # shape: (n, m)"""
        self.check(X)
        self.check(Y)
        X64, Y64 = as_float64(X), as_float64(Y)
        if sparse.issparse(X):
            # min(x, y) = (x + y - |x - y|) / 2, because scikit-learn has the L1 distance for sparse rows
            K = -_l1_distances(X64, Y64)
            K += self.diagonal(X64)[:, None]
            K += self.diagonal(Y64)[None, :]
            K *= 0.5
            np.maximum(K, 0.0, out=K)
        else:
            K = np.empty((X64.shape[0], Y64.shape[0]))
            for i, row in enumerate(X64):
                K[i] = np.minimum(row, Y64).sum(axis=1)
        return K.astype(float_dtype(X), copy=False)

    def diagonal(self, X: Matrix) -> NDArray[np.float64]:
        """Return the sum of each row.  # shape: (n,)"""
        return np.asarray(as_float64(X).sum(axis=1), dtype=np.float64).ravel()


def _l1_distances(X: Matrix, Y: Matrix) -> NDArray[np.float64]:
    """Return sum_m |x_im - y_jm| in float64.  # shape: (n, m)"""
    distances: NDArray[Any]
    if not sparse.issparse(X):
        distances = cdist(as_float64(X), as_float64(Y), "cityblock")
        return distances
    # scikit-learn sorts the indices of what it is given, in place
    distances = manhattan_distances(canonical(as_float64(X)), canonical(as_float64(Y)))
    return distances
