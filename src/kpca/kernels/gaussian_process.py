"""scikit-learn's Gaussian-process kernels: translated where this package has the same one, wrapped where it has not.

White noise is no function of two rows but of "the same sample": kernel(X) has it on its diagonal, kernel(X, Y) has it
nowhere. Kernel PCA compares rows, and scikit-learn's KernelPCA evaluates kernel(X, X): noise counts as zero, here too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kpca._base.errors import InputError
from kpca.kernels.arrays import FloatArray, Matrix, float_dtype
from kpca.kernels.base import Constant, Kernel, registered
from kpca.kernels.dot import Polynomial
from kpca.kernels.radial import RBF, Matern, RationalQuadratic
from kpca.kernels.rounding import PROFILE, around

# What PairwiseKernel may compute and is positive semidefinite, if gamma is not negative.
_PSD_METRICS = {"linear", "rbf", "laplacian", "cosine", "chi2"}
# Rows on which the error of values is measured, and the share by which data are changed for that.
_MEASURED_ROWS, _STEP = 32, 1e-9


@cache
def theirs() -> Any:
    """Return scikit-learn's module of kernels, which takes a while to load and is seldom needed."""
    from sklearn.gaussian_process import kernels

    return kernels


@registered()
@dataclass(frozen=True)
class GaussianProcess(Kernel):
    """A Gaussian-process kernel as it is: `kernel(X, Y)` and its diagonal."""

    kernel: Any = field(hash=False)
    name: ClassVar[str] = "gaussian_process"

    @property
    def psd(self) -> bool:
        """Whether it is in any number of columns."""
        return self.psd_in(2)

    def psd_in(self, columns: int) -> bool:
        """A covariance function is; what is only called one may be of rows, of a line, or not at all."""
        return _is_psd(self.kernel, columns)

    @property
    def shift_invariant(self) -> bool:
        """scikit-learn calls it stationary."""
        return bool(self.kernel.is_stationary())

    def check(self, X: Matrix) -> None:
        if sparse.issparse(X):
            raise InputError(
                f"kernel {self.kernel} must be given a dense array; got a sparse matrix: sparse input is not supported "
                "by this Gaussian-process kernel, so convert it with X.toarray()."
            )
        try:
            self.kernel(X[:1])
        except ValueError as error:
            raise InputError(f"kernel {self.kernel} must be defined on these data; it says: {error}") from error

    def block(self, X: Matrix, Y: Matrix) -> FloatArray:
        return np.asarray(self.kernel(X, Y)).astype(float_dtype(X), copy=False)

    def diagonal(self, X: Matrix) -> NDArray[np.float64]:
        """Return kernel.diag(X), but without white noise, as in `block`.  # shape: (n,)"""
        parts = (self.kernel, *self.kernel.get_params(deep=True).values())
        if any(isinstance(part, theirs().WhiteKernel) for part in parts):
            return np.array([self.kernel(x, x)[0, 0] for x in X[:, None, :]], dtype=np.float64)
        return np.array(self.kernel.diag(X), dtype=np.float64)

    def block_error(self, X: Matrix, weights: FloatArray, norm: float) -> float:
        """Measured on some rows: what other sizes do, as an error of distances would, and other last digits of X."""
        rows = np.unique(np.linspace(0, len(X) - 1, min(len(X), _MEASURED_ROWS)).astype(np.intp))
        exact, moved = self.kernel(X[rows], X), 0.0
        signs = np.random.default_rng(0).choice([-1.0, 1.0], X.shape)
        for step, unit in ((_STEP * np.ones(X.shape), around(X.shape[1])), (_STEP * signs, around(1))):
            near = X * (1.0 + step)
            gaps = self.kernel(near[rows], near) - exact
            moved += unit / _STEP * math.sqrt(float(weights[rows] @ (gaps**2 @ weights) / weights[rows].sum()))
        return moved * math.sqrt(float(weights.sum())) + PROFILE * norm


def from_gaussian_process(kernel: Any) -> Kernel:
    """Return a Gaussian-process kernel with its current parameters as a kernel of this package."""
    if isinstance(kernel, theirs().CompoundKernel):
        raise InputError(
            "kernel must give one matrix; got a CompoundKernel, which gives several: pass one of its kernels."
        )
    # Exact types: a subclass may have changed what the kernel computes.
    translated = _translations().get(type(kernel), lambda kernel: None)(kernel)
    return GaussianProcess(kernel) if translated is None else translated


def _matern(kernel: Any) -> Kernel | None:
    if kernel.nu == np.inf:
        return RBF(sigma=_length_scale(kernel))
    return Matern(kernel.nu, _length_scale(kernel)) if kernel.nu in (0.5, 1.5, 2.5) else None


def _power(kernel: Any) -> Kernel | None:
    base, exponent = kernel.kernel, kernel.exponent
    return Polynomial(exponent, 1.0, base.sigma_0**2) if type(base) is theirs().DotProduct and exponent >= 0 else None


@cache
def _translations() -> dict[type, Callable[[Any], Kernel | None]]:
    """Return what makes our kernel of each type, or None for parameters that ours does not have."""
    gp = theirs()
    return {
        gp.Sum: lambda kernel: from_gaussian_process(kernel.k1) + from_gaussian_process(kernel.k2),
        gp.Product: lambda kernel: from_gaussian_process(kernel.k1) * from_gaussian_process(kernel.k2),
        gp.Exponentiation: _power,
        gp.ConstantKernel: lambda kernel: Constant(kernel.constant_value),
        gp.WhiteKernel: lambda kernel: Constant(0.0),
        gp.RBF: lambda kernel: RBF(sigma=_length_scale(kernel)),
        gp.Matern: _matern,
        gp.RationalQuadratic: lambda kernel: RationalQuadratic(kernel.alpha, _length_scale(kernel)),
        gp.DotProduct: lambda kernel: Polynomial(1, 1.0, kernel.sigma_0**2),
    }


def _length_scale(kernel: Any) -> Any:
    """Return the length scale, or one per feature; scikit-learn counts an array of one as a number."""
    return np.squeeze(np.asarray(kernel.length_scale, dtype=np.float64))


def _is_psd(kernel: Any, columns: int) -> bool:
    """Return True where every member is known to be positive semidefinite; of somebody's subclass nothing is known."""
    gp, kind = theirs(), type(kernel)
    if kind in (gp.Sum, gp.Product):
        return _is_psd(kernel.k1, columns) and _is_psd(kernel.k2, columns)
    if kind is gp.Exponentiation:
        return float(kernel.exponent).is_integer() and kernel.exponent >= 0 and _is_psd(kernel.kernel, columns)
    if kind is gp.PairwiseKernel:
        return _is_psd_by_metric(kernel)
    sometimes: dict[Any, Callable[[], bool]] = {
        gp.ConstantKernel: lambda: kernel.constant_value >= 0,
        gp.RationalQuadratic: lambda: kernel.alpha > 0,
        # cos of the distance is the inner product of directions on a circle, so of numbers, not of points in a plane
        gp.ExpSineSquared: lambda: columns == 1,
    }
    always = (gp.RBF, gp.Matern, gp.DotProduct, gp.WhiteKernel)
    return kind in always or (kind in sometimes and bool(sometimes[kind]()))


def _is_psd_by_metric(kernel: Any) -> bool:
    given = kernel.pairwise_kernels_kwargs or {}
    if kernel.gamma is not None and kernel.gamma < 0:
        return False
    if kernel.metric in ("poly", "polynomial"):
        return Polynomial(given.get("degree", 3), 1.0, given.get("coef0", 1.0)).psd
    return kernel.metric in _PSD_METRICS
