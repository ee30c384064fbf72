"""What a feature map is: rows in, r numbers out, whose dot products stand for kernel values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from kpca._base.config import thread_count
from kpca._base.errors import InputError
from kpca._base.linalg import FloatArray
from kpca._base.validation import all_finite, check_data
from kpca.kernels import Kernel, Linear, resolve, resolve_gamma


class FeatureMap(Protocol):
    """f with f(x).f(y) close to k(x, y)."""

    @property
    def kernel(self) -> Kernel:
        """The kernel the features stand for."""

    @property
    def rank(self) -> int:
        """The number of features, r."""

    @property
    def exact(self) -> bool:
        """True if K - F F' is positive semidefinite, so that what is left of the trace bounds what is missed."""

    def __call__(self, X: Any, *, threads: int = 1) -> FloatArray:
        """Return the features of dense or CSR rows, in the dtype of X.  # shape: (m, r)"""

    def unexplained(self, X: Any, features: FloatArray) -> FloatArray:
        """Return k(x, x) - |f(x)|^2, at least 0; 0 also where it says nothing, if not `exact`.  # shape: (m,)"""


class Inexact:
    """What feature maps share for which what is left of the trace says nothing, or which leave nothing."""

    exact: bool = False

    def unexplained(self, X: Any, features: FloatArray) -> FloatArray:
        return np.zeros(len(features))


@dataclass(frozen=True)
class IdentityMap(Inexact):
    """f(x) = x in float64, for which nothing is left unexplained: sums of float32 rows would lose small components."""

    rank: int
    kernel: Kernel = field(default_factory=Linear)
    exact: bool = True

    def __call__(self, X: Any, *, threads: int = 1) -> FloatArray:
        return (X.toarray() if sparse.issparse(X) else np.asarray(X)).astype(np.float64)


class FeatureTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """What transformers with a `map_` share."""

    def _keep(self, of_kernel: tuple[Any, ...], random_state: Any, n_jobs: int | None) -> None:
        self.kernel, self.gamma, self.degree, self.coef0, self.kernel_params = of_kernel
        self.random_state, self.n_jobs = random_state, n_jobs

    def _resolved(self, X: Any, rows: Any) -> tuple[Kernel, Any]:
        """Return the kernel of the parameters for X, and what gamma comes to for some rows."""
        gamma = resolve_gamma(self.gamma, rows)
        others = {name: getattr(self, name) for name in ("degree", "coef0", "kernel_params")}
        return resolve("rbf" if self.kernel is None else self.kernel, X, gamma=gamma, **others), gamma

    def transform(self, X: Any) -> FloatArray:
        """Return the features of the rows of X, dense and in their dtype.  # shape: (m, rank_)"""
        check_is_fitted(self)
        X = check_data(self, X, reset=False)
        self.kernel_.check(X)
        threads = thread_count(self.n_jobs)
        with np.errstate(over="ignore", invalid="ignore"):
            features: FloatArray = self.map_(X, threads=threads)
        if not all_finite(features, threads):
            raise InputError(
                f"{self._what_overflows} must be finite; some are NaN or too large: {self.kernel_.remedy}."
            )
        return features

    @property
    def _n_features_out(self) -> int:
        return int(self.rank_)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "map_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
