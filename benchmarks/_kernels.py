"""Hostile kernels, as the Python that makes them: names, Gaussian processes, sums and products, and functions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist

Array = NDArray[Any]
Rng = np.random.Generator
Options = dict[str, str]


def number(value: Any) -> str:
    return repr(float(value))


def bandwidth(rng: Rng) -> float:
    """Return a multiple of the median distance: mostly a sensible one."""
    return float(10.0 ** (rng.uniform(-6, 6) if rng.random() < 0.35 else rng.uniform(-0.7, 0.7)))


def typical(X: Array, metric: str) -> float:
    """Return the median distance of some rows (or their length); 1 where they are all alike."""
    found = np.linalg.norm(X[:200], axis=1) if metric == "norm" else pdist(X[:200], metric)
    found = found[np.isfinite(found) & (found > 0)]
    return float(np.clip(np.median(found), 1e-100, 1e100)) if len(found) else 1.0


_NAMES = (
    *("linear", "linear", "linear", "rbf", "rbf", "rbf", "laplacian", "poly", "poly", "sigmoid", "cosine", "cosine"),
    *("matern12", "matern32", "matern52", "rational_quadratic", "exponential", "chi2", "additive_chi2"),
    *("histogram_intersection", "arc_cosine0", "arc_cosine1"),
)
THEIRS = ("linear", "rbf", "poly", "sigmoid", "cosine")  # of scikit-learn, too
_WITHOUT_GAMMA = ("linear", "cosine", "additive_chi2", "histogram_intersection", "arc_cosine0", "arc_cosine1")
NOT_NEGATIVE = ("chi2", "histogram", "minimum")


def _named(rng: Rng, X: Array) -> Options:
    name = str(rng.choice(_NAMES))
    options = {"kernel": repr(name)}
    if name in _WITHOUT_GAMMA:
        return options
    metric = {"laplacian": "cityblock", "chi2": "cityblock", "poly": "norm", "sigmoid": "norm"}.get(name, "euclidean")
    power = 1 if metric == "cityblock" else 2
    gamma = (bandwidth(rng) * typical(X, metric)) ** -power
    which = rng.random()
    if which > 0.1:
        options["gamma"] = repr(str(rng.choice(["scale", "median"]))) if which < 0.25 else number(gamma)
    if name == "rbf" and rng.random() < 0.1:
        options["gamma"] = f"[{', '.join(map(number, gamma * 10.0 ** rng.uniform(-1, 1, X.shape[1])))}]"
    if name == "poly":
        options |= {
            "degree": str(rng.choice(["1", "2", "3", "4", "5", "1.5"])),
            "coef0": number(rng.choice([0.0, 0.5, 1.0, 100.0])),
        }
    if name == "sigmoid":
        options["coef0"] = number(rng.choice([-1.0, 0.0, 1.0]))
    return options


def _gaussian_process(rng: Rng, X: Array) -> str:
    length, scale = bandwidth(rng) * typical(X, "euclidean"), number(rng.choice([0.5, 1.0, 3.0]))
    nu = rng.choice(["0.5", "0.7", "1.5", "2.5", "3.5", "np.inf"])
    return str(
        rng.choice(
            [
                f"gp.ExpSineSquared({scale}, {length!r})",
                f"gp.RBF({length!r})",
                f"gp.Matern({length!r}, nu={nu})",
                f"gp.RationalQuadratic({length!r}, alpha={scale})",
                f"gp.ConstantKernel({scale}) * gp.RBF({length!r}) + gp.WhiteKernel(0.1)",
                f"gp.DotProduct({scale})",
                f"gp.RBF({length!r}) ** 2",
                f"gp.DotProduct({scale}) ** 2",
                f"gp.ExpSineSquared({scale}, {length!r}) * gp.RBF({length!r})",
                f"gp.PairwiseKernel(gamma={1 / length!r}, metric='laplacian')",
            ]
        )
    )


_FUNCTIONS = (
    "lambda x, y: 1 / (1 + float(np.abs(x - y).sum()))",
    "lambda x, y: float(np.minimum(x, y).sum())",
    "lambda X, Y: np.exp(-np.sqrt(np.square(X[:, None] - Y[None]).sum(-1)))",
    "lambda X, Y: -np.abs(X[:, None] - Y[None]).sum(-1)",
    "lambda X, Y: np.cos(X[:, None] - Y[None]).sum(-1)",
)


def _composite(rng: Rng, X: Array) -> str:
    far = typical(X, "euclidean")
    rbf, matern = f"RBF({0.5 / (bandwidth(rng) * far) ** 2!r})", f"Matern(1.5, {bandwidth(rng) * far!r})"
    laplacian = f"Laplacian({1 / (bandwidth(rng) * typical(X, 'cityblock'))!r})"
    dots = typical(X, "norm") ** -2
    return str(
        rng.choice(
            [
                f"{rbf} + {laplacian}",
                f"{rbf} * {matern}",
                f"{number(10.0 ** rng.uniform(-8, 8))} * {rbf}",
                f"{rbf} + {dots!r} * Linear()",
                f"{laplacian} * {dots!r} * Linear()",
                f"{rbf} + 1000.0",
                f"{matern} * {laplacian} + {rbf}",
                f"Polynomial(2, {dots!r}, 1.0) + {rbf}",
                f"Cosine() * {rbf}",
                f"Cosine() + {matern}",
                f"RationalQuadratic({number(rng.choice([0.3, 2.0]))}, {bandwidth(rng) * far!r})",
            ]
        )
    )


def kernel(rng: Rng, X: Array) -> Options:
    which = rng.random()
    if which < 0.72:
        return _named(rng, X)
    if which < 0.84:
        return {"kernel": _composite(rng, X)}
    return {"kernel": _gaussian_process(rng, X) if which < 0.94 else str(rng.choice(_FUNCTIONS))}
