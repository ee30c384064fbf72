"""Hostile cases: everything about one, data, kernel, weights and options, is drawn from its seed.

Kernels and options are kept as the Python that makes them, so that a case can be made smaller and printed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, aslinearoperator
from scipy.spatial.distance import pdist

import kpca
from kpca import kernels

Array = NDArray[Any]
Rng = np.random.Generator


@dataclass(frozen=True)
class Case:
    """One fit: how, of what, with which options (as Python text)."""

    seed: int
    kind: str  # of the data
    X: Array  # rows, or the kernel matrix
    options: dict[str, str]
    weights: Array | None = None
    form: str = "dense"  # dense, csr, operator
    estimator: str = "KernelPCA"
    how: str = "fit"
    batches: tuple[int, ...] = field(default=())  # rows of each batch of a stream

    @property
    def matrix(self) -> bool:
        return self.options.get("kernel") == "'precomputed'"

    @property
    def title(self) -> str:
        n, d = self.X.shape
        weights = "" if self.weights is None else " weighted"
        batches = f" in {len(self.batches)} batches" if self.batches else ""
        call = f"{self.estimator}({', '.join(f'{name}={text}' for name, text in self.options.items())})"
        return f"{self.how}{batches}: {self.kind} {n} x {d} {self.X.dtype} {self.form}{weights}, {call}"

    def given(self) -> Any:
        """Return the data as the estimator gets it."""
        if self.form == "csr":
            return sparse.csr_matrix(self.X)
        return aslinearoperator(self.X) if self.form == "operator" else self.X

    def model(self) -> Any:
        call = f"{self.estimator}({', '.join(f'{name}={text}' for name, text in self.options.items())})"
        return eval(call, namespace())


@cache
def namespace() -> dict[str, Any]:
    """Return the names that the text of a case may use."""
    from sklearn.gaussian_process import kernels as gp

    own = {name: getattr(kernels, name) for name in dir(kernels) if name[0].isupper()}
    return {**own, "np": np, "gp": gp, "kpca": kpca, "KernelPCA": kpca.KernelPCA, "LinearOperator": LinearOperator,
            "IncrementalKernelPCA": kpca.IncrementalKernelPCA}


# -- data -------------------------------------------------------------------------------------------------------------


def _clusters(rng: Rng, n: int, d: int) -> Array:
    far = 10.0 ** rng.integers(0, 9)
    centres = far * rng.standard_normal((rng.integers(2, 6), d))
    return rng.standard_normal((n, d)) + centres[rng.integers(0, len(centres), n)]


def _duplicates(rng: Rng, n: int, d: int) -> Array:
    few = rng.standard_normal((rng.integers(1, 6), d))
    return few[rng.integers(0, len(few), n)]


def _tails(rng: Rng, n: int, d: int) -> Array:
    return rng.standard_cauchy((n, d)) if rng.random() < 0.5 else rng.standard_t(1.5, (n, d))


def _outliers(rng: Rng, n: int, d: int) -> Array:
    X = rng.standard_normal((n, d))
    some = rng.integers(0, n, rng.integers(1, 4))
    X[some] *= 10.0 ** rng.uniform(1, 8)
    return X


def _constant(rng: Rng, n: int, d: int) -> Array:
    X = rng.standard_normal((n, d))
    X[:, rng.random(d) < 0.5] = rng.choice([0.0, 1.0, 1e6, 0.1])
    return X


def _collinear(rng: Rng, n: int, d: int) -> Array:
    X = rng.standard_normal((n, max(1, (d + 1) // 2)))
    return np.column_stack([X, X.sum(axis=1), *(X[:, :1] * c for c in range(2, 2 + d // 2))])[:, :d]


def _curve(rng: Rng, n: int, d: int) -> Array:
    t = np.linspace(0, 2 * np.pi, n, endpoint=False)
    return np.column_stack([(np.cos, np.sin)[m % 2]((1 + m // 2) * t) for m in range(d)])


def _sparse(rng: Rng, n: int, d: int) -> Array:
    return rng.standard_normal((n, d)) * (rng.random((n, d)) < rng.choice([0.02, 0.2, 0.5]))


def _scales(rng: Rng, n: int, d: int) -> Array:
    return rng.standard_normal((n, d)) * 10.0 ** rng.uniform(-6, 6, d)


def _noise_and_signal(rng: Rng, n: int, d: int) -> Array:
    r = min(d, 3)
    signal = rng.standard_normal((n, r)) @ rng.standard_normal((r, d))
    return signal + 10.0 ** -rng.uniform(1, 12) * rng.standard_normal((n, d))


@cache
def _stock(name: str) -> Array:
    from sklearn import datasets

    return np.asarray(getattr(datasets, f"load_{name}")(return_X_y=True)[0], dtype=np.float64)


def _stock_rows(rng: Rng, n: int, d: int) -> Array:
    X = _stock(str(rng.choice(["iris", "wine", "breast_cancer", "digits", "diabetes"])))
    return X[np.sort(rng.permutation(len(X))[:n])]


DATA: dict[str, Callable[[Rng, int, int], Array]] = {
    "gaussian": lambda rng, n, d: rng.standard_normal((n, d)),
    "clusters": _clusters,
    "lattice": lambda rng, n, d: rng.integers(-3, 4, (n, d)).astype(float),
    "duplicates": _duplicates,
    "equal": lambda rng, n, d: np.tile(rng.standard_normal(d), (n, 1)),
    "one-hot": lambda rng, n, d: np.eye(d)[rng.integers(0, d, n)],
    "binary": lambda rng, n, d: rng.integers(0, 2, (n, d)).astype(float),
    "heavy tails": _tails,
    "outliers": _outliers,
    "constant columns": _constant,
    "collinear": _collinear,
    "curve": _curve,
    "sparse": _sparse,
    "uneven scales": _scales,
    "signal and noise": _noise_and_signal,
    "stock": _stock_rows,
}
_RARE = {"equal": 0.25, "one-hot": 0.5, "binary": 0.5}


def _rows(rng: Rng, n: int, d: int) -> tuple[str, Array]:
    names = list(DATA)
    shares = np.array([_RARE.get(name, 1.0) for name in names])
    kind = str(rng.choice(names, p=shares / shares.sum()))
    X = DATA[kind](rng, n, d)
    if rng.random() < 0.25:
        X = X + 10.0 ** rng.uniform(3, 8) * (1.0 if rng.random() < 0.5 else rng.standard_normal(X.shape[1]))
    if rng.random() < 0.2:
        X = X * 10.0 ** rng.uniform(-16, 11)
    return kind, X


# -- kernels ----------------------------------------------------------------------------------------------------------


def _number(value: float) -> str:
    return repr(float(value))


def _bandwidth(rng: Rng) -> float:
    return float(10.0 ** (rng.uniform(-6, 6) if rng.random() < 0.35 else rng.uniform(-0.7, 0.7)))


def _typical(X: Array, metric: str) -> float:
    """Return the median distance of some rows; 1 where they are all alike."""
    some = X[:200]
    found = pdist(some, metric) if metric != "norm" else np.linalg.norm(some, axis=1)
    found = found[np.isfinite(found) & (found > 0)]
    return float(np.clip(np.median(found), 1e-100, 1e100)) if len(found) else 1.0


def _single(rng: Rng, X: Array) -> dict[str, str]:
    """Return the options of one kernel by name."""
    name = str(rng.choice(["linear", "rbf", "rbf", "laplacian", "poly", "sigmoid", "cosine", "matern12", "matern32",
                           "matern52", "rational_quadratic", "exponential", "chi2", "additive_chi2",
                           "histogram_intersection", "arc_cosine0", "arc_cosine1"]))
    options = {"kernel": repr(name)}
    if name in ("linear", "cosine", "additive_chi2", "histogram_intersection", "arc_cosine0", "arc_cosine1"):
        return options
    if rng.random() < 0.25:
        if rng.random() < 0.6:
            options["gamma"] = repr(str(rng.choice(["scale", "median"])))
    elif name in ("laplacian", "chi2"):
        options["gamma"] = _number(1 / (_bandwidth(rng) * _typical(X, "cityblock")))
    elif name in ("poly", "sigmoid"):
        options["gamma"] = _number(1 / (_bandwidth(rng) * _typical(X, "norm") ** 2))
    else:
        options["gamma"] = _number(0.5 / (_bandwidth(rng) * _typical(X, "euclidean")) ** 2)
        if name == "rbf" and rng.random() < 0.1:
            each = float(options["gamma"]) * 10.0 ** rng.uniform(-1, 1, X.shape[1])
            options["gamma"] = f"[{', '.join(map(_number, each))}]"
    if name == "poly":
        options["degree"] = repr(int(rng.integers(1, 6)))
        options["coef0"] = _number(rng.choice([0.0, 1.0, 0.5, 100.0]))
    if name == "sigmoid":
        options["coef0"] = _number(rng.choice([0.0, 1.0, -1.0]))
    return options


def _gaussian_process(rng: Rng, X: Array) -> str:
    length, number = _number(_bandwidth(rng) * _typical(X, "euclidean")), _number(rng.choice([0.5, 1.0, 3.0]))
    return str(rng.choice([
        f"gp.ExpSineSquared({number}, {length}, length_scale_bounds='fixed')",
        f"gp.RBF({length})",
        f"gp.Matern({length}, nu={rng.choice([0.5, 0.7, 1.5, 2.5, 3.5, np.inf])!r})".replace("np.float64(inf)", "np.inf")
        .replace("np.float64(", "").replace("))", ")"),
        f"gp.RationalQuadratic({length}, alpha={number})",
        f"gp.ConstantKernel({number}) * gp.RBF({length}) + gp.WhiteKernel(0.1)",
        f"gp.DotProduct({number})",
        f"gp.RBF({length}) ** 2",
        f"gp.DotProduct({number}) ** 2",
        f"gp.ExpSineSquared({number}, {length}) * gp.RBF({length})",
        f"gp.PairwiseKernel(gamma={_number(1 / float(length))}, metric='laplacian')",
    ]))


_CALLABLES = [
    "lambda x, y: 1 / (1 + float(np.abs(x - y).sum()))",
    "lambda x, y: float(np.minimum(x, y).sum())",
    "lambda X, Y: np.exp(-np.sqrt(np.square(X[:, None] - Y[None]).sum(-1)))",
    "lambda X, Y: -np.abs(X[:, None] - Y[None]).sum(-1)",
    "lambda X, Y: np.cos(X[:, None] - Y[None]).sum(-1)",
]


def _composite(rng: Rng, X: Array) -> str:
    gamma, l1, length = (_bandwidth(rng) for _ in range(3))
    gamma, l1 = 0.5 / (gamma * _typical(X, "euclidean")) ** 2, 1 / (l1 * _typical(X, "cityblock"))
    length, dot = length * _typical(X, "euclidean"), 1 / _typical(X, "norm") ** 2
    rbf, laplacian, matern = f"RBF({gamma!r})", f"Laplacian({l1!r})", f"Matern(1.5, {length!r})"
    return str(rng.choice([
        f"{rbf} + {laplacian}", f"{rbf} * {matern}", f"{_number(10.0 ** rng.uniform(-8, 8))} * {rbf}",
        f"{rbf} + {dot!r} * Linear()", f"{laplacian} * {dot!r} * Linear()", f"{rbf} + 1000.0", f"{matern} * {laplacian} + {rbf}",
        f"Polynomial(2, {dot!r}, 1.0) + {rbf}", f"Cosine() * {rbf}", f"Cosine() + {matern}",
    ]))


def _kernel(rng: Rng, X: Array) -> dict[str, str]:
    which = rng.random()
    if which < 0.72:
        return _single(rng, X)
    if which < 0.84:
        return {"kernel": _composite(rng, X)}
    return {"kernel": _gaussian_process(rng, X) if which < 0.94 else str(rng.choice(_CALLABLES))}


# -- weights, options, and all of it ----------------------------------------------------------------------------------


def _weights(rng: Rng, n: int) -> Array | None:
    which = rng.random()
    if which < 0.7:
        return None
    if which < 0.77:
        return rng.random(n) + 0.01
    if which < 0.84:
        return rng.integers(1, 5, n).astype(float)
    w = 10.0 ** rng.uniform(-20, 0, n) if which < 0.92 else rng.integers(0, 2, n).astype(float)
    w[rng.permutation(n)[:2]] = 1.0
    return w


def _size(rng: Rng, most: int) -> int:
    """Return a number of rows: mostly small, a few per cent large."""
    which = rng.random()
    if which < 0.62 or most <= 50:
        return int(rng.integers(2, 50))
    if which < 0.955 or most <= 150:
        return int(rng.integers(50, 150))
    if which < 0.985 or most <= 400:
        return int(rng.integers(150, min(most, 300) + 1))
    return int(np.exp(rng.uniform(np.log(300), np.log(most))))


def _components(rng: Rng, n: int) -> str:
    which = rng.random()
    if which < 0.85:
        return repr(int(rng.integers(1, min(n, 30) + 1)))
    return "None" if which < 0.93 else _number(rng.choice([0.5, 0.9, 0.99, 0.9999]))


def _tolerance(rng: Rng) -> dict[str, str]:
    return {} if rng.random() < 0.5 else {"tol": _number(10.0 ** rng.integers(-12, 0))}


def _exact(rng: Rng, n: int, small: bool) -> Case:
    d = int(rng.integers(1, 61)) if rng.random() < 0.4 else int(rng.integers(1, 9))
    if not small and rng.random() < 0.01:
        n, d = min(n, 100), 3000
    kind, X = _rows(rng, n, d)
    X = X.astype(np.float32) if rng.random() < 0.4 else X
    options = _kernel(rng, X.astype(np.float64))
    if any(name in options["kernel"] for name in ("chi2", "histogram", "minimum")):
        X = np.abs(X)
    form = "csr" if rng.random() < (0.4 if kind == "sparse" else 0.04) else "dense"
    options = {"n_components": _components(rng, len(X)), **options, **_tolerance(rng)}
    if rng.random() < 0.6:
        options["eigen_solver"] = repr(str(rng.choice(["dense", "krylov"])))
    if rng.random() < 0.15:
        options["center"] = "False"
    return Case(0, kind, X, options, _weights(rng, len(X)), form)


def _precomputed(rng: Rng, n: int, small: bool) -> Case:
    which = str(rng.choice(["kernel", "indefinite", "low rank", "copies", "identity", "uncentred"]))
    if which == "low rank":
        F = rng.standard_normal((n, int(rng.integers(1, min(n, 6) + 1))))
        K = F @ F.T
    elif which == "indefinite":
        K = rng.standard_normal((n, n))
        K = K + K.T + 2 * np.sqrt(n) * rng.integers(0, 2) * np.eye(n)
    elif which == "copies":
        Q = np.linalg.qr(rng.standard_normal((n, n)))[0]
        values = rng.choice([1.0, 1.0 - 1e-12, 0.5, 1e-8, 0.0], n)
        K = (Q * values) @ Q.T
        K = (K + K.T) / 2
    elif which == "identity":
        K = np.eye(n) + 10.0 ** -rng.integers(1, 17) * np.ones((n, n))
    else:
        X = rng.standard_normal((n, 3))
        K = np.exp(-_bandwidth(rng) * np.square(X[:, None] - X[None]).sum(-1))
    if which == "uncentred":
        shift = 10.0 ** rng.integers(0, 6) * rng.standard_normal(n)
        K = K + shift[:, None] + shift[None, :]
    K = K * (10.0 ** rng.uniform(-16, 11) if rng.random() < 0.2 else 1.0)
    K = K.astype(np.float32) if rng.random() < 0.3 else K
    form = str(rng.choice(["dense", "dense", "csr", "operator"]))
    options = {"n_components": _components(rng, n), "kernel": "'precomputed'", **_tolerance(rng)}
    if rng.random() < 0.5:
        options["eigen_solver"] = repr(str(rng.choice(["dense", "krylov"])))
    if rng.random() < 0.2:
        options["center"] = "False"
    return Case(0, f"matrix ({which})", K, options, _weights(rng, n), form)


_HOWS: list[tuple[float, Callable[[Rng, int, bool], Case]]] = [(0.88, _exact), (1.0, _precomputed)]


def draw(seed: int, *, most: int = 6000) -> Case:
    """Return the case of a seed, of at most about so many rows."""
    rng = np.random.default_rng(seed)
    n, which = _size(rng, most), rng.random()
    make = next(make for share, make in _HOWS if which < share)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        case = make(rng, n, most < 1500)
    return Case(**{**vars(case), "seed": seed})
