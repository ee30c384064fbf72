"""What a feature map is: rows in, r numbers out, whose dot products stand for kernel values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kpca.kernels import Kernel, Linear

FloatArray = NDArray[Any]


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


@runtime_checkable
class DifferentiableMap(FeatureMap, Protocol):
    """A feature map that may have gradients."""

    def why_no_pull(self) -> str | None:
        """Return None if the features have gradients, else why they have not, as part of a sentence."""

    def pull(self, X: FloatArray, G: FloatArray) -> FloatArray:
        """Return sum_r G_ir df_r(x_i)/dx of dense rows, in float64.  # shape: (m, d)"""


# -- The features of the linear kernel: the rows themselves -----------------------------------------------------------


@dataclass(frozen=True)
class IdentityMap:
    """f(x) = x, for which nothing is left unexplained."""

    rank: int
    kernel: Kernel = field(default_factory=Linear)
    exact: bool = True

    def __call__(self, X: Any, *, threads: int = 1) -> FloatArray:
        """Return the rows as a new dense array.  # shape: (m, d)"""
        return X.toarray() if sparse.issparse(X) else np.array(X)

    def unexplained(self, X: Any, features: FloatArray) -> FloatArray:
        """Return 0 for each row.  # shape: (m,)"""
        return np.zeros(len(features))
