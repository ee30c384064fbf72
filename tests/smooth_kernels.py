"""Kernels with gradients, one of each kind and some of several: what tests of derivatives run over."""

from __future__ import annotations

from sklearn.gaussian_process import kernels as gp

from kpca.kernels import (
    RBF,
    ArcCosine,
    Constant,
    Cosine,
    Exponential,
    Kernel,
    Linear,
    Matern,
    Polynomial,
    RationalQuadratic,
    Sigmoid,
    from_gaussian_process,
)

FEATURES = 4
EACH = (0.3, 1.0, 2.5, 0.02)
SMOOTH: dict[str, Kernel] = {
    "rbf": RBF(0.7),
    "rbf each": RBF(EACH),
    "exponential": Exponential(1.7),
    "exponential each": Exponential(EACH),
    "matern 1/2": Matern(0.5, 1.7),
    "matern 3/2": Matern(1.5, 0.8),
    "matern 5/2": Matern(2.5, 2.2),
    "matern each": Matern(2.5, EACH),
    "rational quadratic": RationalQuadratic(0.6, 1.4),
    "rational quadratic each": RationalQuadratic(3.0, EACH),
    "linear": Linear(),
    "poly": Polynomial(3, 0.7, 1.5),
    "poly of degree 1": Polynomial(1, 2.0, 0.0),
    "poly of degree 0": Polynomial(0),
    "poly of degree 2.5": Polynomial(2.5, 0.01, 1.0),
    "poly minus": Polynomial(2, 1.0, -1.0),
    "sigmoid": Sigmoid(0.4, -0.3),
    "cosine": Cosine(),
    "arc_cosine0": ArcCosine(0),
    "arc_cosine1": ArcCosine(1),
    "constant": Constant(0.4),
    "sum": RBF(0.7) + 2.0 * Matern(1.5, 0.8) + 0.25,
    "product": 3.0 * Linear() * RBF(0.7) * Cosine(),
    "product of sums": (Linear() + 1.0) * (RBF(0.7) + 0.5 * Exponential(2.0)) * Polynomial(2, 0.1),
    "gaussian process": from_gaussian_process(2.0 * gp.RBF(1.3) * gp.DotProduct(0.5) + gp.RationalQuadratic()),
}
RADIAL = [name for name, kernel in SMOOTH.items() if kernel.shift_invariant and name != "constant"]
