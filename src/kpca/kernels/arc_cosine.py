"""Arc-cosine kernels: what infinitely wide layers of steps (order 0) or rectified units (order 1) see of two rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.spatial.distance import cdist

from kpca.errors import InputError
from kpca.kernels._checks import FloatArray, Matrix, as_float64, float_dtype, squared_norms
from kpca.kernels.base import Kernel, negative_squared_distances
from kpca.kernels.dot import Cosine


@dataclass(frozen=True)
class ArcCosine(Kernel):
    """1 - theta / pi, or |x| |y| (sin theta + (pi - theta) cos theta) / pi: theta is the angle between two rows.

    Order 0 is a function of x.y / (|x| |y|), but not one for tiles by GEMM: its slope is infinite where rows agree, so
    a rounding of 1e-16 there becomes one of 1e-8. Angles are computed from differences instead. A row of zeros is at
    right angles to everything, itself included.
    """

    order: int = 1
    name: ClassVar[str] = "arc_cosine"

    def __post_init__(self) -> None:
        if isinstance(self.order, bool) or self.order not in (0, 1):
            raise InputError(
                f"order must be 0 or 1; got {self.order!r}: 0 is that of steps, 1 that of rectified units."
            )
        object.__setattr__(self, "order", int(self.order))

    @property
    def psd(self) -> bool:
        """The expectation of a product of random features."""
        return True

    def block(self, X: Matrix, Y: Matrix) -> FloatArray:
        """Return the kernel values, from angles in float64.  # shape: (n, m)"""
        X64, Y64 = as_float64(X), as_float64(Y)
        theta = angles(X64, Y64)
        if self.order == 0:
            theta *= -1.0 / np.pi
            theta += 1.0
            return theta.astype(float_dtype(X), copy=False)
        K = np.sin(theta)
        K += (np.pi - theta) * np.cos(theta)
        K *= np.sqrt(squared_norms(X64))[:, None] / np.pi
        K *= np.sqrt(squared_norms(Y64))
        return K.astype(float_dtype(X), copy=False)

    def diagonal(self, X: Matrix) -> NDArray[np.float64]:
        """Return 1 (1/2 for a row of zeros) for order 0, squared lengths for order 1.  # shape: (n,)"""
        if self.order == 1:
            return squared_norms(X)
        return np.where(squared_norms(Cosine().prepare(as_float64(X))) > 0, 1.0, 0.5)


def angles(X: Matrix, Y: Matrix) -> NDArray[np.float64]:
    """Return the angle between all pairs of rows, accurate also near 0 and pi.  # shape: (n, m)"""
    U, V = Cosine().prepare(X), Cosine().prepare(Y)
    theta: NDArray[Any]
    if sparse.issparse(U):
        apart, together = -negative_squared_distances(U, V), -negative_squared_distances(U, -V)
        theta = np.arctan2(np.sqrt(np.maximum(apart, 0.0)), np.sqrt(np.maximum(together, 0.0)))
    else:
        theta = np.arctan2(cdist(U, V), cdist(U, -V))  # |u - v| and |u + v| of unit rows: Kahan's formula
    theta *= 2.0
    theta[squared_norms(U) == 0] = np.pi / 2
    theta[:, squared_norms(V) == 0] = np.pi / 2
    return theta
