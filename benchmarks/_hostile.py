"""Hostile cases: data, weights, kernel, options and the way they are used are all drawn from one seed.

Kernels and options are kept as the Python that makes them, so that a case can be printed, and be made smaller.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator

import kpca
from benchmarks._kernels import NOT_NEGATIVE, THEIRS, bandwidth, kernel, number, typical
from kpca import kernels

Array = NDArray[Any]
Rng = np.random.Generator
Options = dict[str, str]


@dataclass(frozen=True)
class Case:
    """Something to fit, and how."""

    seed: int
    how: str  # a row of `benchmarks._ways.WAYS`
    kind: str  # of the data
    X: Array  # rows, or a matrix
    options: Options
    weights: Array | None = None
    form: str = "dense"  # dense, csr, operator
    batches: tuple[int, ...] = ()  # rows of each batch of a stream; none: all at once

    @property
    def matrix(self) -> bool:
        """Whether X is the kernel matrix itself."""
        return self.how == "krylov" or self.options.get("kernel") == "'precomputed'"

    @property
    def title(self) -> str:
        n, d = self.X.shape
        weights = "" if self.weights is None else ", weighted"
        batches = f" in {len(self.batches)} batches" if self.batches else ""
        form = "" if self.form == "dense" else f" {self.form}"
        return f"{self.how}{batches}: {self.kind} {n} x {d} {self.X.dtype}{form}{weights}; {self.arguments}"

    @property
    def arguments(self) -> str:
        return ", ".join(f"{name}={text}" for name, text in self.options.items())

    def given(self) -> Any:
        """Return the data as the estimator gets them."""
        if self.form == "csr":
            return sparse.csr_matrix(self.X)
        return aslinearoperator(self.X) if self.form == "operator" else self.X

    def present(self) -> tuple[Array, Array | None]:
        """Return rows of positive weight, and their weights."""
        if self.weights is None or self.weights.all():
            return self.X, self.weights
        rows = np.flatnonzero(self.weights)
        return self.X[np.ix_(rows, rows)] if self.matrix else self.X[rows], self.weights[rows]

    def values(self) -> dict[str, Any]:
        """Return the options as what their text means."""
        return {name: evaluated(text) for name, text in self.options.items()}


def evaluated(text: str) -> Any:
    return eval(text, _namespace())


@cache
def _namespace() -> dict[str, Any]:
    from sklearn.gaussian_process import kernels as gp

    return {
        **{name: getattr(kernels, name) for name in dir(kernels) if name[0].isupper()},
        "np": np,
        "gp": gp,
        "kpca": kpca,
    }


# -- data -------------------------------------------------------------------------------------------------------------


def _clusters(rng: Rng, n: int, d: int) -> Array:
    centres = 10.0 ** rng.integers(0, 9) * rng.standard_normal((rng.integers(2, 6), d))
    return rng.standard_normal((n, d)) + centres[rng.integers(0, len(centres), n)]


def _duplicates(rng: Rng, n: int, d: int) -> Array:
    few = rng.standard_normal((rng.integers(1, 6), d))
    return few[rng.integers(0, len(few), n)]


def _outliers(rng: Rng, n: int, d: int) -> Array:
    X = rng.standard_normal((n, d))
    X[rng.integers(0, n, rng.integers(1, 4))] *= 10.0 ** rng.uniform(1, 8)
    return X


def _constant(rng: Rng, n: int, d: int) -> Array:
    X = rng.standard_normal((n, d))
    X[:, rng.random(d) < 0.5] = rng.choice([0.0, 1.0, 0.1, 1e6])
    return X


def _collinear(rng: Rng, n: int, d: int) -> Array:
    X = rng.standard_normal((n, (d + 1) // 2))
    return np.column_stack([X, X.sum(axis=1), *(X[:, :1] * c for c in range(2, 2 + d // 2))])[:, :d]


def _curve(rng: Rng, n: int, d: int) -> Array:
    t = np.linspace(0, 2 * np.pi, n, endpoint=False)
    return np.column_stack([(np.cos, np.sin)[m % 2]((1 + m // 2) * t) for m in range(d)])


def _planted(rng: Rng, n: int, d: int) -> Array:
    signal = rng.standard_normal((n, min(d, 3))) @ rng.standard_normal((min(d, 3), d))
    return np.asarray(signal + 10.0 ** -rng.uniform(1, 12) * rng.standard_normal((n, d)))


@cache
def _stock(name: str) -> Array:
    from sklearn import datasets

    return np.asarray(getattr(datasets, f"load_{name}")(return_X_y=True)[0], dtype=np.float64)


def _stock_rows(rng: Rng, n: int, d: int) -> Array:
    X = _stock(str(rng.choice(["iris", "wine", "breast_cancer", "digits", "diabetes"])))
    return X[np.sort(rng.permutation(len(X))[:n])]


DATA: dict[str, tuple[float, Callable[[Rng, int, int], Array]]] = {
    "gaussian": (1, lambda rng, n, d: rng.standard_normal((n, d))),
    "clusters": (2, _clusters),
    "lattice": (1, lambda rng, n, d: rng.integers(-3, 4, (n, d)).astype(float)),
    "duplicates": (1, _duplicates),
    "equal": (0.25, lambda rng, n, d: np.tile(rng.standard_normal(d), (n, 1))),
    "one-hot": (0.5, lambda rng, n, d: np.eye(d)[rng.integers(0, d, n)]),
    "binary": (0.5, lambda rng, n, d: rng.integers(0, 2, (n, d)).astype(float)),
    "cauchy": (0.7, lambda rng, n, d: rng.standard_cauchy((n, d))),
    "heavy tails": (0.5, lambda rng, n, d: rng.standard_t(1.5, (n, d))),
    "outliers": (1, _outliers),
    "constant columns": (1, _constant),
    "collinear": (1, _collinear),
    "curve": (1, _curve),
    "sparse": (1, lambda rng, n, d: rng.standard_normal((n, d)) * (rng.random((n, d)) < rng.choice([0.02, 0.2, 0.5]))),
    "uneven scales": (1, lambda rng, n, d: rng.standard_normal((n, d)) * 10.0 ** rng.uniform(-6, 6, d)),
    "planted": (1, _planted),
    "stock": (2, _stock_rows),
    "nearly equal": (0.5, lambda rng, n, d: 1 + 10.0 ** -rng.uniform(5, 15) * rng.standard_normal((n, d))),
}
# Of these many eigenvalues coincide, which solvers of a few of them may pass over.
_SYMMETRIC = ("one-hot", "curve", "lattice", "binary", "duplicates")


def _rows(rng: Rng, n: int, d: int) -> tuple[str, Array]:
    """Return rows of some kind in float64; some lie far from the origin, or are very small or large."""
    shares = np.array([share for share, _ in DATA.values()])
    kind = str(rng.choice(list(DATA), p=shares / shares.sum()))
    X = DATA[kind][1](rng, n, d)
    if rng.random() < 0.25:
        X = X + 10.0 ** rng.uniform(3, 8) * (1.0 if rng.random() < 0.5 else rng.standard_normal(X.shape[1]))
    if rng.random() < 0.2:
        X = X * 10.0 ** rng.uniform(-16, 11)
    return kind, X


# -- weights, sizes, options ------------------------------------------------------------------------------------------


def _weights(rng: Rng, X: Array) -> Array | None:
    n, which = len(X), rng.random()
    if which < 0.7:
        return None
    if which < 0.76:
        return rng.random(n) + 0.01
    if which < 0.82:
        return rng.integers(1, 5, n).astype(float)
    if which < 0.87:  # one side of the data counts for almost nothing
        return np.where(X[:, 0] > np.median(X[:, 0]), 10.0 ** -rng.uniform(1, 20), 1.0)
    w = 10.0 ** rng.uniform(-20, 0, n) if which < 0.93 else rng.integers(0, 2, n).astype(float)
    w[rng.permutation(n)[:2]] = 1.0
    return w


def _size(rng: Rng, most: int) -> int:
    """Return a number of rows: mostly small, a few per cent large."""
    which = rng.random()
    shares = ((0.62, 2, 50), (0.955, 50, 150), (0.985, 150, 400), (0.998, 400, 1200), (1.0, 1200, 6000))
    low, high = next((low, high) for share, low, high in shares if which < share)
    if high > most:
        low, high = min(low, most // 2), most
    return int(rng.integers(low, high)) if high <= 400 else int(np.exp(rng.uniform(np.log(low), np.log(high))))


def _components(rng: Rng, n: int) -> str:
    which = rng.random()
    if which < 0.85 or n > 1000:
        return repr(int(rng.integers(1, min(n, 30) + 1)))
    return "None" if which < 0.93 else number(rng.choice([0.5, 0.9, 0.99, 0.9999]))


def _finish(rng: Rng, n: int) -> Options:
    """Return options that decide how well and by what a fit is solved."""
    options = {} if rng.random() < 0.5 else {"tol": f"1e{rng.integers(-12, 0)}"}
    if rng.random() < 0.6:
        options["eigen_solver"] = repr(str(rng.choice(["dense", "krylov"]))) if n < 1500 else "'krylov'"
    if rng.random() < 0.04:
        options["max_iter"] = repr(int(rng.integers(1, 4)))
    if rng.random() < 0.15:
        options["center"] = "False"
    return options


# -- cases ------------------------------------------------------------------------------------------------------------


def _data(rng: Rng, n: int, most: int) -> tuple[str, Array, Options, str]:
    """Return the kind of rows, the rows, a kernel for them, and the form they are given in."""
    d = int(rng.integers(1, 61)) if rng.random() < 0.4 else int(rng.integers(1, 9))
    if most > 1500 and rng.random() < 0.01:
        n, d = min(n, 100), 3000
    kind, X = _rows(rng, n, d)
    X = X.astype(np.float32) if rng.random() < 0.4 else X
    options = kernel(rng, X.astype(np.float64))
    if any(name in options["kernel"] for name in NOT_NEGATIVE):
        X = np.abs(X)
    return kind, X, options, "csr" if rng.random() < (0.4 if kind == "sparse" else 0.04) else "dense"


def _exact(rng: Rng, n: int, most: int) -> Case:
    kind, X, named, form = _data(rng, n, most)
    options = {"n_components": _components(rng, len(X)), **named, **_finish(rng, len(X))}
    return Case(0, "fit", kind, X, options, _weights(rng, X), form)


def _copies(rng: Rng, n: int, most: int) -> Case:
    """So many rows that only a few eigenpairs are looked for in the whole matrix, and data with repeated ones."""
    n, kind = int(rng.integers(257, 500)), str(rng.choice(_SYMMETRIC))
    X = DATA[kind][1](rng, n, int(rng.integers(1, 9)))
    X = X.astype(np.float32) if rng.random() < 0.3 else X
    options = {"n_components": str(rng.integers(1, 12)), **kernel(rng, X.astype(np.float64)), **_finish(rng, n)}
    if any(name in options["kernel"] for name in NOT_NEGATIVE):
        X = np.abs(X)
    if options["kernel"].startswith("lambda x, y"):  # too slow for so many rows
        options["kernel"] = "'rbf'"
    return Case(0, "fit", kind, X, options, _weights(rng, X) if rng.random() < 0.3 else None)


def _again(rng: Rng, n: int, most: int) -> Case:
    """A model that is saved and loaded, or whose fit goes on after an interruption, or is that of scikit-learn."""
    which = rng.random()
    if which < 0.3:
        return replace((_landmarks if rng.random() < 0.4 else _exact)(rng, n, most), how="saved")
    if which < 0.4:
        return replace(_landmarks(rng, n, most), how="chunks", form="dense")
    if which < 0.65:
        kind, X, options, form = _data(rng, n, most)
        if options["kernel"].strip("'") not in THEIRS or options.get("gamma", "1")[0] in "'[":
            options = {"kernel": str(rng.choice(["'linear'", "'rbf'", "'cosine'"]))}
        k = str(rng.integers(1, min(len(X), 30) + 1))
        return Case(
            0, "from scikit-learn", kind, X, {"n_components": k, "eigen_solver": "'dense'", **options}, None, form
        )
    case = _exact(rng, max(n, 40), most)
    options = {**case.options, "n_components": str(rng.integers(1, 8)), "eigen_solver": "'krylov'"}
    options.pop("max_iter", None)
    return replace(case, how="resumed", options={**options, "stop": str(rng.integers(1, 4))})


def _given_matrix(rng: Rng, n: int, most: int) -> Case:
    which = str(rng.choice(["kernel", "indefinite", "low rank", "copies", "identity", "not centred"]))
    if which == "low rank":
        F = rng.standard_normal((n, int(rng.integers(1, min(n, 6) + 1))))
        K = F @ F.T
    elif which == "indefinite":
        K = rng.standard_normal((n, n))
        K = K + K.T + 2 * np.sqrt(n) * rng.integers(0, 2) * np.eye(n)
    elif which == "copies":
        K = spectrum_matrix(rng, rng.choice([1.0, 1.0 - 1e-12, 0.5, 1e-8, 0.0], n))
    elif which == "identity":
        K = np.eye(n) + 10.0 ** -rng.integers(1, 17)
    else:
        X = rng.standard_normal((n, 3))
        K = np.exp(-bandwidth(rng) * np.square(X[:, None] - X[None]).sum(-1))
    if which == "not centred":
        shift = 10.0 ** rng.integers(0, 6) * rng.standard_normal(n)
        K = K + (shift[:, None] + shift[None, :])
    K = K * (10.0 ** rng.uniform(-16, 11) if rng.random() < 0.2 else 1.0)
    K = K.astype(np.float32) if rng.random() < 0.3 else K
    options = {"n_components": _components(rng, n), "kernel": "'precomputed'", **_finish(rng, n)}
    form = str(rng.choice(["dense", "dense", "csr", "operator"]))
    return Case(0, "fit", f"matrix ({which})", K, options, _weights(rng, K), form)


def _approximation(rng: Rng, n: int, *, batches: bool = False) -> tuple[str, int]:
    """Return landmarks or random features, and how many."""
    rank = int(rng.integers(1, n + 1)) if rng.random() < 0.7 else int(rng.integers(1, min(n, 12) + 1))
    if rng.random() < 0.15:
        rank = 2 * int(rng.integers(1, 60))
        return f"kpca.RandomFeatures(rank={rank})", rank
    which = rng.random()
    if which < 0.1 and not batches:
        return "'nystroem'", n
    if which < 0.15 and not batches:
        return f"kpca.Nystroem(rank={10.0 ** -rng.integers(1, 9)!r})", 1
    method = rng.choice(["rpcholesky", "rpcholesky", "uniform", "kmeans", "leverage"])
    if which < 0.25 and not batches:
        rows = sorted(int(row) for row in rng.permutation(n)[:rank])
        return f"kpca.Nystroem(landmarks={rows})", rank
    return f"kpca.Nystroem(rank={rank}, landmarks={str(method)!r})", rank


def _landmarks(rng: Rng, n: int, most: int) -> Case:
    kind, X, named, form = _data(rng, n, most)
    approximation, rank = _approximation(rng, len(X))
    k = repr(int(rng.integers(1, min(rank, 30) + 1))) if rng.random() < 0.8 else "None"
    options = {"n_components": k, **named, "approximation": approximation}
    if rng.random() < 0.15:
        options["center"] = "False"
    return Case(0, "fit", kind, X, options, _weights(rng, X), form)


def _stream(rng: Rng, n: int, most: int) -> Case:
    case = _landmarks(rng, n, most)
    approximation, rank = _approximation(rng, len(case.X), batches=True)
    k = repr(int(rng.integers(1, min(rank, 30) + 1))) if rng.random() < 0.8 else "None"
    options = {**case.options, "n_components": k, "approximation": approximation}
    if rng.random() < 0.3:
        free = ("n_components", "approximation", "center")
        options = {name: text for name, text in options.items() if name in free} | {"kernel": "'linear'"}
    if rng.random() < 0.5:
        options["warm_up"] = repr(int(rng.integers(1, len(case.X) + 1)))
    cuts: Any = np.unique(rng.integers(1, len(case.X) + 1, int(rng.integers(0, 6)))) if rng.random() < 0.9 else []
    batches = tuple(int(size) for size in np.diff([0, *cuts, len(case.X)]) if size) if len(cuts) else ()
    return replace(case, how="stream" if rng.random() < 0.9 else "stream, saved", options=options, batches=batches)


_FOLLOWED = ("rbf", "laplacian", "matern12", "matern32", "matern52", "rational_quadratic", "poly")


def _path(rng: Rng, n: int, most: int) -> Case:
    """A grid of bandwidths, by `selection.path`, or one after another by the fits behind it."""
    n = int(rng.integers(300, 600)) if rng.random() < 0.25 else max(n, 60 if rng.random() < 0.7 else 4)
    kind, X = _rows(rng, n, int(rng.integers(1, 12)))
    X = X.astype(np.float32) if rng.random() < 0.3 else X
    name = str(rng.choice(_FOLLOWED))
    metric = {"laplacian": "cityblock", "poly": "norm"}.get(name, "euclidean")
    gamma = (bandwidth(rng) * typical(X.astype(np.float64), metric)) ** (-1 if name == "laplacian" else -2)
    gammas = gamma * rng.choice([1.1, 1.27, 1.6]) ** np.arange(int(rng.integers(2, 7)))
    options = {"kernel": repr(name), "grid": f"[{', '.join(map(number, gammas))}]", "parameter": "'gamma'"}
    options["n_components"] = repr(int(rng.integers(1, max(len(X) // 8, 2))) % 20 + 1)
    options["tol"] = f"1e{rng.integers(-10, -1)}"
    if rng.random() < 0.15:
        options["center"] = "False"
    if rng.random() < 0.3:
        return Case(0, "path", kind, X, options)
    if rng.random() < 0.5:  # a guess that has all leading eigenvectors but one
        options |= {"grid": f"[{number(gamma)}]", "hidden": repr(int(rng.integers(0, 3)))}
    return Case(0, "near", kind, X, options)


# -- operators of known spectra, and starts that leave out what is looked for -----------------------------------------


def spectrum_matrix(rng: Rng, values: Array) -> Array:
    """Return a matrix with these eigenvalues, about, and random eigenvectors."""
    Q = np.linalg.qr(rng.standard_normal((len(values), len(values))))[0]
    K = (Q * values) @ Q.T
    return np.asarray((K + K.T) / 2)


SPECTRA: dict[str, Callable[[Rng, int, int], Array]] = {
    "repeated": lambda rng, n, k: np.r_[np.ones(rng.integers(1, n)), np.geomspace(0.5, 1e-6, n)][:n],
    "clustered": lambda rng, n, k: np.r_[1 - 1e-12 * np.arange(2 * k), np.geomspace(0.3, 1e-8, n)][:n],
    "small gap": lambda rng, n, k: np.r_[np.linspace(2, 1, k), 1 - 1e-12, np.geomspace(0.9, 1e-3, n)][:n],
    "rank deficient": lambda rng, n, k: np.r_[np.linspace(2, 1, max(k - 2, 1)), np.zeros(n)][:n],
    "decaying": lambda rng, n, k: float(rng.uniform(0.3, 0.95)) ** np.arange(n),
    "flat": lambda rng, n, k: 1 + 10.0 ** -rng.integers(1, 9) * rng.random(n),
    "one large": lambda rng, n, k: np.r_[10.0 ** rng.integers(1, 9), np.ones(n - 1) - 1e-3 * np.linspace(0, 1, n - 1)],
    "pairs": lambda rng, n, k: np.repeat(np.geomspace(1, 1e-10, n), 2)[:n],
    "steps": lambda rng, n, k: rng.choice([1.0, 0.99, 0.5], n),
    "indefinite": lambda rng, n, k: np.linspace(1, -1.5, n),
    "one hidden": lambda rng, n, k: np.r_[1.0, np.full(n - 1, 10.0 ** -rng.uniform(0, 4))],
}
STARTS = ("None", "without", "trailing", "zero", "deficient", "leading", "huge", "tiny")


def _krylov(rng: Rng, n: int, most: int) -> Case:
    n = int(rng.integers(30, max(min(most, 350), 31))) if rng.random() < 0.3 else int(rng.integers(20, 120))
    k = int(rng.integers(1, max(n // 6, 2)))
    which = str(rng.choice(list(SPECTRA)))
    values = SPECTRA[which](rng, n, k)
    options = {
        "k": repr(k),
        "tol": f"1e{rng.integers(-12, 0)}",
        "start": repr(str(rng.choice(STARTS))),
        "columns": repr(int(rng.integers(1, k + 16))),
        "left_out": repr(int(rng.integers(1, 4))),
    }
    psd = 0.4 if values.min() >= 0 else 0.0
    for name, share in (("centred", 0.4), ("psd", psd), ("short", 0.2)):
        if rng.random() < share:
            options[name] = "True"
    scale = 10.0 ** rng.uniform(-16, 11) if rng.random() < 0.2 else 1.0
    K = scale * spectrum_matrix(rng, values)
    return Case(0, "krylov", which, K, {**options, "seed": repr(int(rng.integers(0, 5)))})


_MADE: list[tuple[float, Callable[[Rng, int, int], Case]]] = [
    (0.50, _exact),
    (0.52, _copies),
    (0.60, _given_matrix),
    (0.76, _landmarks),
    (0.87, _stream),
    (0.91, _again),
    (0.95, _path),
    (1.00, _krylov),
]


def draw(seed: int, most: int = 6000) -> Case:
    """Return the case of a seed, of at most so many rows."""
    rng = np.random.default_rng(seed)
    n, which = _size(rng, most), rng.random()
    make = next(make for share, make in _MADE if which < share)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return replace(make(rng, n, most), seed=seed)
