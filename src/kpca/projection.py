"""New points to scores: what remains of a fit when all it has to do is transform."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca.gram import CrossGram
from kpca.kernels import Kernel

FloatArray = NDArray[Any]


@dataclass(frozen=True)
class LinearProjection:
    """t(x) = V'(x - mean): the linear kernel in the primal."""

    components: FloatArray  # unit directions, zero for components without variance, shape: (k, d)
    mean: FloatArray  # shape: (d,)

    def __call__(self, X: Any, *, threads: int = 1) -> FloatArray:
        """Return the scores of the rows of X.  # shape: (m, k)"""
        if isinstance(X, np.ndarray):
            # centred before the product, so that an offset costs no digits
            scores: FloatArray = (X - self.mean) @ self.components.T
        else:
            scores = np.asarray(X @ self.components.T) - self.mean @ self.components.T
        return scores

    def head(self, k: int) -> LinearProjection:
        """Return the projection on the first k components."""
        return replace(self, components=self.components[:k])


@dataclass(frozen=True)
class KernelProjection:
    """t(x) = A'(k_x - mean of the rows of K); A sums to 0, so the mean of k_x drops out."""

    kernel: Kernel
    X: Any  # the training rows, shape: (n, d)
    coefficients: FloatArray  # A, shape: (n, k)
    offset: FloatArray  # A' (row means), shape: (k,)
    shifted: bool  # kernel values enter minus f(0), here and in the offset
    # What the engine made of the training rows: new ones, perhaps one at a time, then cost only their own kernel
    # values.
    memo: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)

    def __call__(self, X: Any, *, threads: int = 1) -> FloatArray:
        """Return the scores of the rows of X, never holding more than a few tiles.  # shape: (m, k)"""
        cross = CrossGram(self.kernel, X, self.X, dtype=X.dtype, shifted=self.shifted, threads=threads, memo=self.memo)
        return cross @ self.coefficients - self.offset

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "memo": {}}  # made again where it is needed

    def head(self, k: int) -> KernelProjection:
        """Return the projection on the first k components."""
        if k >= len(self.offset):
            return self
        return replace(self, coefficients=np.ascontiguousarray(self.coefficients[:, :k]), offset=self.offset[:k])


@dataclass(frozen=True)
class MatrixProjection:
    """The same for kernel values that come precomputed."""

    coefficients: FloatArray  # A, shape: (n, k)
    offset: FloatArray  # shape: (k,)

    def __call__(self, X: Any, *, threads: int = 1) -> FloatArray:
        """Return the scores that belong to rows of kernel values.  # shape: (m, k)"""
        return np.asarray(X @ self.coefficients, dtype=np.float64) - self.offset

    def head(self, k: int) -> MatrixProjection:
        """Return the projection on the first k components."""
        if k >= len(self.offset):
            return self
        return replace(self, coefficients=np.ascontiguousarray(self.coefficients[:, :k]), offset=self.offset[:k])


Projection = LinearProjection | KernelProjection | MatrixProjection
