"""The features of the linear kernel: the rows themselves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kpca.kernels import Kernel, Linear

FloatArray = NDArray[Any]


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
