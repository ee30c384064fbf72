"""Every kernel: what it should say of two rows, data it is defined on, whether it has gradients. One row each."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.gaussian_process import kernels as gp
from sklearn.metrics import pairwise

from kpca import kernels as ours
from kpca.kernels import Kernel
from kpca.kernels.base import has_bandwidth

FEATURES = 4
_LENGTH = math.sqrt(0.5 / 0.7)  # of gamma 0.7
EACH = (0.3, 1.0, 2.5, 0.02)  # one gamma, or length, per feature


@dataclass(frozen=True)
class Case:
    """A kernel, what it should say, and where it is defined."""

    kernel: Kernel
    slow: Callable[[Any, Any], float]  # k(x, y) of two lists, as one would write it down
    scikit_learn: Callable[[Any, Any], Any] | None = None
    non_negative: bool = False  # only defined on such data
    sparse: bool = True
    fixed_features: bool = False  # as many as EACH has
    smooth: bool = True  # has gradients
    named: dict[str, Kernel] = field(default_factory=dict)  # its names, and what they mean: see NAMED

    def data(self, n: int, d: int = FEATURES, seed: int = 0, scale: float = 1.0) -> np.ndarray:
        X = np.random.default_rng(seed).normal(size=(n, d)) * scale
        return np.abs(X) if self.non_negative else X


def dot(x: Any, y: Any) -> float:
    return math.fsum(a * b for a, b in zip(x, y, strict=True))


def square(x: Any, y: Any, weights: Any = None) -> float:
    weights = weights or [1.0] * len(x)
    return math.fsum(w * (a - b) ** 2 for a, b, w in zip(x, y, weights, strict=True))


def l1(x: Any, y: Any) -> float:
    return math.fsum(abs(a - b) for a, b in zip(x, y, strict=True))


def chi2(x: Any, y: Any) -> float:
    return math.fsum((a - b) ** 2 / (a + b) for a, b in zip(x, y, strict=True) if a + b > 0)


def cosine(x: Any, y: Any) -> float:
    lengths = math.hypot(*x) * math.hypot(*y)
    return dot(x, y) / lengths if lengths else 0.0


def matern(nu: float, r: float) -> float:
    u = math.sqrt(2 * nu) * r
    return {0.5: 1.0, 1.5: 1.0 + u, 2.5: 1.0 + u + u * u / 3}[nu] * math.exp(-u)


def intersection(x: Any, y: Any) -> float:
    return math.fsum(map(min, x, y))


def angle(x: Any, y: Any) -> float:
    if not any(x) or not any(y):
        return math.pi / 2
    x, y = np.divide(x, math.hypot(*x)), np.divide(y, math.hypot(*y))
    return 2 * math.atan2(math.hypot(*(x - y)), math.hypot(*(x + y)))


def rectified(x: Any, y: Any) -> float:
    theta = angle(x, y)
    return math.hypot(*x) * math.hypot(*y) * (math.sin(theta) + (math.pi - theta) * math.cos(theta)) / math.pi


CASES = {
    "linear": Case(ours.Linear(), dot, pairwise.linear_kernel, named={"linear": ours.Linear()}),
    "poly": Case(
        ours.Polynomial(3, 0.7, 1.5),
        lambda x, y: (0.7 * dot(x, y) + 1.5) ** 3,
        lambda X, Y: pairwise.polynomial_kernel(X, Y, degree=3, gamma=0.7, coef0=1.5),
        named={"poly": ours.Polynomial(2, 0.7, 1.5), "polynomial": ours.Polynomial(2, 0.7, 1.5)},
    ),
    "poly of degree 10": Case(ours.Polynomial(10, 0.1), lambda x, y: (0.1 * dot(x, y) + 1) ** 10, smooth=False),
    "poly of degree 1": Case(ours.Polynomial(1, 2.0, 0.0), lambda x, y: 2 * dot(x, y)),
    "poly of degree 0": Case(ours.Polynomial(0), lambda x, y: 1.0),
    "poly of degree 2.5": Case(
        ours.Polynomial(2.5, 0.01),
        lambda x, y: (0.01 * dot(x, y) + 1) ** 2.5,
        lambda X, Y: pairwise.polynomial_kernel(X, Y, degree=2.5, gamma=0.01),
        non_negative=True,
    ),
    "poly minus": Case(ours.Polynomial(2, 1.0, -1.0), lambda x, y: (dot(x, y) - 1) ** 2),
    "sigmoid": Case(
        ours.Sigmoid(0.4, -0.3),
        lambda x, y: math.tanh(0.4 * dot(x, y) - 0.3),
        lambda X, Y: pairwise.sigmoid_kernel(X, Y, gamma=0.4, coef0=-0.3),
        named={"sigmoid": ours.Sigmoid(0.7, 1.5)},
    ),
    "cosine": Case(ours.Cosine(), cosine, pairwise.cosine_similarity, named={"cosine": ours.Cosine()}),
    "rbf": Case(
        ours.RBF(0.7),
        lambda x, y: math.exp(-0.7 * square(x, y)),
        lambda X, Y: pairwise.rbf_kernel(X, Y, gamma=0.7),
        named={"rbf": ours.RBF(0.7)},
    ),
    "rbf by sigma": Case(ours.RBF(sigma=1.3), lambda x, y: math.exp(-square(x, y) / (2 * 1.3**2)), gp.RBF(1.3)),
    "rbf each": Case(
        ours.RBF(EACH),
        lambda x, y: math.exp(-square(x, y, EACH)),
        gp.RBF(np.sqrt(0.5 / np.array(EACH))),
        fixed_features=True,
    ),
    "exponential": Case(
        ours.Exponential(1.7),
        lambda x, y: math.exp(-math.dist(x, y) / 1.7),
        gp.Matern(1.7, nu=0.5),
        named={"exponential": ours.Exponential(_LENGTH)},
    ),
    "exponential each": Case(
        ours.Exponential(EACH),
        lambda x, y: math.exp(-math.dist(np.divide(x, EACH), np.divide(y, EACH))),
        gp.Matern(np.array(EACH), nu=0.5),
        fixed_features=True,
    ),
    "matern 1/2": Case(
        ours.Matern(0.5, 1.7),
        lambda x, y: matern(0.5, math.dist(x, y) / 1.7),
        gp.Matern(1.7, nu=0.5),
        named={"matern12": ours.Matern(0.5, _LENGTH)},
    ),
    "matern 3/2": Case(
        ours.Matern(1.5, 0.8),
        lambda x, y: matern(1.5, math.dist(x, y) / 0.8),
        gp.Matern(0.8, nu=1.5),
        named={"matern32": ours.Matern(1.5, _LENGTH)},
    ),
    "matern 5/2": Case(
        ours.Matern(2.5, 2.2),
        lambda x, y: matern(2.5, math.dist(x, y) / 2.2),
        gp.Matern(2.2, nu=2.5),
        named={"matern52": ours.Matern(2.5, _LENGTH)},
    ),
    "matern each": Case(
        ours.Matern(2.5, EACH),
        lambda x, y: matern(2.5, math.dist(np.divide(x, EACH), np.divide(y, EACH))),
        gp.Matern(np.array(EACH), nu=2.5),
        fixed_features=True,
    ),
    "rational quadratic": Case(
        ours.RationalQuadratic(0.6, 1.4),
        lambda x, y: (1 + square(x, y) / (2 * 0.6 * 1.4**2)) ** -0.6,
        gp.RationalQuadratic(length_scale=1.4, alpha=0.6),
        named={"rational_quadratic": ours.RationalQuadratic(1.0, _LENGTH)},
    ),
    "rational quadratic each": Case(
        ours.RationalQuadratic(3.0, EACH),
        lambda x, y: (1 + math.dist(np.divide(x, EACH), np.divide(y, EACH)) ** 2 / 6.0) ** -3.0,
        fixed_features=True,
    ),
    "laplacian": Case(
        ours.Laplacian(0.3),
        lambda x, y: math.exp(-0.3 * l1(x, y)),
        lambda X, Y: pairwise.laplacian_kernel(X, Y, gamma=0.3),
        smooth=False,
        named={"laplacian": ours.Laplacian(0.7)},
    ),
    "chi2": Case(
        ours.Chi2(0.8),
        lambda x, y: math.exp(-0.8 * chi2(x, y)),
        lambda X, Y: pairwise.chi2_kernel(X, Y, gamma=0.8),
        non_negative=True,
        sparse=False,
        smooth=False,
        named={"chi2": ours.Chi2(0.7)},
    ),
    "additive_chi2": Case(
        ours.AdditiveChi2(),
        lambda x, y: -chi2(x, y),
        pairwise.additive_chi2_kernel,
        non_negative=True,
        sparse=False,
        smooth=False,
        named={"additive_chi2": ours.AdditiveChi2()},
    ),
    "histogram": Case(
        ours.HistogramIntersection(),
        intersection,
        non_negative=True,
        smooth=False,
        named={"histogram_intersection": ours.HistogramIntersection()},
    ),
    "arc_cosine0": Case(
        ours.ArcCosine(0), lambda x, y: 1 - angle(x, y) / math.pi, named={"arc_cosine0": ours.ArcCosine(0)}
    ),
    "arc_cosine1": Case(ours.ArcCosine(1), rectified, named={"arc_cosine1": ours.ArcCosine(1)}),
    "constant": Case(ours.Constant(0.4), lambda x, y: 0.4, gp.ConstantKernel(0.4)),
    "sum": Case(
        ours.RBF(0.7) + 2.0 * ours.Matern(1.5, 0.8) + 0.25,
        lambda x, y: math.exp(-0.7 * square(x, y)) + 2.0 * matern(1.5, math.dist(x, y) / 0.8) + 0.25,
        gp.RBF(math.sqrt(0.5 / 0.7)) + gp.ConstantKernel(2.0) * gp.Matern(0.8) + gp.ConstantKernel(0.25),
    ),
    "product": Case(
        3.0 * ours.Linear() * ours.RBF(0.7) * ours.Cosine(),
        lambda x, y: 3.0 * dot(x, y) * math.exp(-0.7 * square(x, y)) * cosine(x, y),
    ),
    "product of sums": Case(
        (ours.Linear() + 1.0) * (ours.RBF(0.7) + 0.5 * ours.Exponential(2.0)) * ours.Polynomial(2, 0.1),
        lambda x, y: (
            (dot(x, y) + 1.0)
            * (math.exp(-0.7 * square(x, y)) + 0.5 * math.exp(-math.dist(x, y) / 2.0))
            * (0.1 * dot(x, y) + 1.0) ** 2
        ),
    ),
    "sum of products": Case(
        0.5 * (ours.Linear() + ours.Laplacian(0.3) * ours.Cosine()),
        lambda x, y: 0.5 * (dot(x, y) + math.exp(-0.3 * l1(x, y)) * cosine(x, y)),
        smooth=False,
    ),
    "gaussian process": Case(
        ours.from_gaussian_process(2.0 * gp.RBF(1.3) * gp.DotProduct(0.5) + gp.RationalQuadratic()),
        lambda x, y: 2.0 * math.exp(-square(x, y) / (2 * 1.3**2)) * (dot(x, y) + 0.25) + 1 / (1 + square(x, y) / 2),
        2.0 * gp.RBF(1.3) * gp.DotProduct(0.5) + gp.RationalQuadratic(),
    ),
}
# Kernels with gradients, and those of them that see only differences of rows.
SMOOTH: dict[str, Kernel] = {name: case.kernel for name, case in CASES.items() if case.smooth}
RADIAL = [name for name, kernel in SMOOTH.items() if kernel.shift_invariant and name != "constant"]
# name -> what it means with gamma 0.7, degree 2 and coef0 1.5
NAMED: dict[str, Kernel] = {name: kernel for case in CASES.values() for name, kernel in case.named.items()}
# name -> parameters by which it makes something of rows with a handful of columns of about unit variance
TUNED: dict[str, dict[str, Any]] = {
    "linear": {},
    "poly": {"degree": 2, "gamma": 0.1, "coef0": 1.0},
    "rbf": {"gamma": 0.1},
    "sigmoid": {"gamma": 0.01, "coef0": 0.0},
    "cosine": {},
    "laplacian": {"gamma": 0.1},
    "exponential": {"gamma": 0.1},
    "matern12": {"gamma": 0.1},
    "matern32": {"gamma": 0.1},
    "matern52": {"gamma": 0.1},
    "rational_quadratic": {"gamma": 0.1},
    "chi2": {"gamma": 0.3},
    "additive_chi2": {},
    "histogram_intersection": {},
    "arc_cosine0": {},
    "arc_cosine1": {},
}


def tuned(*names: str) -> dict[str, dict[str, Any]]:
    """Some kernels by name, with parameters as the estimators take them."""
    return {name: TUNED[name] for name in names}


def tuned_kernels(*names: str) -> dict[str, Kernel]:
    """The same kernels as objects."""
    usual = {"gamma": None, "degree": 3, "coef0": 1.0, "kernel_params": None}
    return {name: ours.resolve(name, np.ones((2, 1)), **usual | TUNED[name]) for name in names}


WITH_BANDWIDTH = [name for name, kernel in tuned_kernels(*TUNED).items() if has_bandwidth(kernel)]
