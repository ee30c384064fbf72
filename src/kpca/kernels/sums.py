"""Kernels that are not a profile of one number per pair: they give blocks, and have no gradient by the profile rule."""

from __future__ import annotations

import abc
import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.spatial.distance import cdist

from kpca._base.errors import InputError
from kpca.kernels.arrays import FloatArray, Matrix, as_float64, canonical, float_dtype, namespace, positive
from kpca.kernels.base import Argument, Kernel, Writer, checked, plainly, registered
from kpca.kernels.profiles import compiled
from kpca.kernels.rounding import PROFILE, around, beside_diagonal, times_logarithm


class _Decaying(Kernel):
    """exp(-gamma D) of a distance D that is not squared: a profile without derivatives."""

    gamma: float
    distance: ClassVar[Argument]
    _distance_written: ClassVar[str]
    bandwidth = ("gamma", -1)
    psd = True

    @property
    def shared(self) -> tuple[Argument, float]:
        return self.distance, self.gamma

    @abc.abstractmethod
    def arguments(self, X: Matrix, Y: Matrix) -> NDArray[np.float64]:
        """Return -D in float64.  # shape: (n, m)"""

    def value(self, t: FloatArray) -> FloatArray:
        if not compiled(t, ("exp",)):
            namespace(t).exp(t, out=t)
        return t

    def block(self, X: Matrix, Y: Matrix) -> FloatArray:
        t = self.arguments(X, Y)
        t *= self.gamma
        return self.value(t).astype(float_dtype(X), copy=False)

    def diagonal(self, X: Matrix) -> NDArray[np.float64]:
        return np.ones(X.shape[0])

    def block_error(self, X: Matrix, weights: FloatArray, norm: float) -> float:
        """Sums of positive terms are right to a share of themselves."""
        moved = times_logarithm(beside_diagonal(norm, weights), float(weights.sum()))
        return around(X.shape[1]) * moved + PROFILE * norm

    def formula(self, number: Writer = plainly) -> str:
        return f"exp(−{'' if self.gamma == 1 else f'{number(self.gamma)} '}{self._distance_written})"


@registered("laplacian")
@dataclass(frozen=True)
class Laplacian(_Decaying):
    """exp(-gamma ||x - y||_1).

    Positive definite, as a product over features of exponential kernels.
    """

    gamma: float = checked(positive, 1.0)
    name: ClassVar[str] = "laplacian"
    alike = "Two rows are fully alike (1) if they are equal, and the less alike the farther apart they are."
    distance, _distance_written = "l1", "Σ |xⱼ − yⱼ|"
    shift_invariant = True
    random_features = "axes"
    rotatable = False

    def frequencies(self, rng: np.random.Generator, shape: tuple[int, int]) -> FloatArray:
        """exp(-gamma |t|) = E cos(w t) for w Cauchy: one for each feature, independent."""
        return self.gamma * rng.standard_cauchy(shape)

    def traced(self, pairs: Any, *, shifted: bool = False) -> Any:
        return pairs.exp(-self.gamma * pairs.l1())

    def arguments(self, X: Matrix, Y: Matrix) -> NDArray[np.float64]:
        t = _l1_distances(X, Y)
        return np.negative(t, out=t)


class _Histogram(Kernel):
    """A kernel of non-negative rows, such as counts or histograms."""

    accepts_sparse: ClassVar[bool] = False
    alike = "It compares counts or histograms, column by column."

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
        from sklearn.metrics.pairwise import additive_chi2_kernel  # slow to import, and seldom needed

        self.check(X)
        self.check(Y)
        return np.asarray(additive_chi2_kernel(as_float64(X), as_float64(Y)))


@registered("additive_chi2")
@dataclass(frozen=True)
class AdditiveChi2(_Histogram):
    """-sum (x - y)^2 / (x + y), as scikit-learn has it: minus a distance, so only conditionally positive definite."""

    name: ClassVar[str] = "additive_chi2"
    written = "−Σ (xⱼ − yⱼ)² / (xⱼ + yⱼ)"
    random_features = "homogeneous"
    rotatable = False
    psd = False  # zero on the diagonal and negative elsewhere; positive semidefinite only once centred

    def frequencies(self, rng: np.random.Generator, count: int) -> tuple[float, FloatArray]:
        """4xy / (x + y) = 2 sqrt(xy) sech(log(x/y) / 2), and sech(t/2) = E cos(w t) for w of density sech(pi w)."""
        return 2.0, np.log(np.tan(0.5 * math.pi * rng.uniform(size=count))) / math.pi

    def traced(self, pairs: Any, *, shifted: bool = False) -> Any:
        return pairs.chi2()

    def block(self, X: Matrix, Y: Matrix) -> FloatArray:
        return self.arguments(X, Y).astype(float_dtype(X), copy=False)

    def diagonal(self, X: Matrix) -> NDArray[np.float64]:
        return np.zeros(X.shape[0])

    def most(self, X: Matrix) -> NDArray[np.float64]:
        """(x - y)^2 / (x + y) <= x + y, and a + b <= (1 + a) (1 + b)."""
        return (1.0 + HistogramIntersection().diagonal(X)) ** 2

    def block_error(self, X: Matrix, weights: FloatArray, norm: float) -> float:
        return around(X.shape[1]) * norm


@registered("chi2")
@dataclass(frozen=True)
class Chi2(_Histogram, _Decaying):
    """exp(-gamma sum (x - y)^2 / (x + y)).

    Positive definite, as the exponential of a conditionally positive definite kernel (Schoenberg).
    """

    gamma: float = checked(positive, 1.0)
    name: ClassVar[str] = "chi2"
    distance, _distance_written = "chi2", "Σ (xⱼ − yⱼ)² / (xⱼ + yⱼ)"

    def traced(self, pairs: Any, *, shifted: bool = False) -> Any:
        return pairs.exp(self.gamma * pairs.chi2())


@registered("histogram_intersection")
@dataclass(frozen=True)
class HistogramIntersection(_Histogram):
    """sum min(x, y): how much two histograms have in common."""

    name: ClassVar[str] = "histogram_intersection"
    written = "Σ min(xⱼ, yⱼ)"
    accepts_sparse = True
    random_features = "homogeneous"
    rotatable = False
    psd = True  # min(x, y) is the overlap of the intervals [0, x] and [0, y]: an inner product of their indicators

    def frequencies(self, rng: np.random.Generator, count: int) -> tuple[float, FloatArray]:
        """min(x, y) = sqrt(xy) exp(-|log(x/y)| / 2)."""
        return 1.0, 0.5 * rng.standard_cauchy(count)

    def traced(self, pairs: Any, *, shifted: bool = False) -> Any:
        return pairs.overlaps()

    def block(self, X: Matrix, Y: Matrix) -> FloatArray:
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
        return np.asarray(as_float64(X).sum(axis=1), dtype=np.float64).ravel()

    def block_error(self, X: Matrix, weights: FloatArray, norm: float) -> float:
        """Sparse rows have it from x + y - |x - y|, with the error of the sums."""
        if sparse.issparse(X):
            own = self.diagonal(X)
            norm = math.sqrt(2.0 * float(weights.sum() * (weights @ own**2) + (weights @ own) ** 2))
        return around(X.shape[1]) * norm


def _l1_distances(X: Matrix, Y: Matrix) -> NDArray[np.float64]:
    X, Y = as_float64(X), as_float64(Y)
    if not sparse.issparse(X):
        return np.asarray(cdist(X, Y, "cityblock"))
    from sklearn.metrics.pairwise import manhattan_distances  # slow to import, and seldom needed

    # which sorts the indices of what it is given, in place
    return np.asarray(manhattan_distances(canonical(X), canonical(Y)))
