"""From what the user says about gamma to the number(s) the kernels use."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.spatial.distance import pdist

from kpca._base.errors import InputError, Setting
from kpca.kernels.arrays import Matrix, as_float64, canonical, check_features, positive_or_each
from kpca.kernels.base import KERNELS, Kernel
from kpca.kernels.callables import from_callable
from kpca.kernels.gaussian_process import from_gaussian_process, theirs

RULES = ("scale", "median")
_MEDIAN_ROWS = 1000
_ALLOWED = "must be a positive number, one per feature, None, 'scale' or 'median'"


def resolve_gamma(gamma: object, X: Matrix) -> float | NDArray[np.float64]:
    """Return gamma as a positive number, or as one per feature.

    None is 1 / n_features, "scale" is 1 / (n_features * X.var()), "median" is 1 / (2 m^2) with m the median distance of
    a fixed sample of at most 1000 rows. Where the data has no spread to measure, the rules give 1.0.
    """
    if gamma is None:
        return 1.0 / float(X.shape[1])
    if isinstance(gamma, str):
        if gamma not in RULES:
            raise InputError(f"{_ALLOWED}; got {gamma!r}.{_hint(gamma, RULES)}", param="gamma")
        # 1 / (n_features var) and 1 / (2 m^2), both as 1 / spread
        with np.errstate(over="ignore"):
            measured = _variance(X) if gamma == "scale" else _median_distance(X)
        spread = X.shape[1] * measured if gamma == "scale" else 2.0 * measured * measured
        found = 1.0 / spread if spread else 1.0
        if not (math.isfinite(found) and found > 0):
            told = f" must find a finite bandwidth; got a spread of {spread:g}: rescale X."
            raise InputError((Setting("gamma", gamma), told))
        return found
    if not isinstance(gamma, (bool, int, float, list, tuple, np.ndarray, np.generic)):
        raise InputError(_ALLOWED, param="gamma", value=gamma)
    number = positive_or_each("gamma", gamma)
    check_features("gamma", number, X)
    return np.array(number) if isinstance(number, tuple) else number


def _variance(X: Matrix) -> float:
    """Return the variance of all entries of X, the zeros of a sparse X included; exactly 0 if they are all the same."""
    if sparse.issparse(X):
        X = canonical(X)
    if X.max() == X.min():
        return 0.0  # the mean of many equal numbers is not exactly that number
    X = as_float64(X)
    if not sparse.issparse(X):
        return float(X.var())
    size = X.shape[0] * X.shape[1]
    mean = X.data.sum() / size
    return float((np.square(X.data - mean).sum() + (size - X.nnz) * mean**2) / size)


def _median_distance(X: Matrix) -> float:
    """Return the median distance of pairs of rows; if that is 0, the mean of the distances that are not, or 0."""
    n = X.shape[0]
    if n > _MEDIAN_ROWS:
        # Always the same rows: a bandwidth must not change with random_state.
        X = X[np.sort(np.random.default_rng(0).choice(n, _MEDIAN_ROWS, replace=False))]
    X = as_float64(X)
    if X.shape[0] < 2:
        return 0.0
    if sparse.issparse(X):
        from sklearn.metrics.pairwise import euclidean_distances  # slow to import, and seldom needed

        distances = euclidean_distances(X)[np.triu_indices(X.shape[0], k=1)]
    else:
        distances = pdist(X)
    median = float(np.median(distances))
    if median > 0:
        return median
    apart = distances[distances > 0]
    return float(apart.mean()) if apart.size else 0.0


# -- From what the user says about the kernel (a name, a function, an object) to a kernel -----------------------------


def named() -> dict[str, tuple[type[Kernel], Mapping[str, Any]]]:
    return {name: (kind, meant) for kind in KERNELS for name, meant in kind.names.items()}


def resolve(
    kernel: object,
    X: Matrix,
    *,
    gamma: float | NDArray[np.float64],
    degree: float = 3,
    coef0: float = 1,
    kernel_params: Mapping[str, Any] | None = None,
) -> Kernel:
    """Return the kernel that is meant; gamma, degree and coef0 go to named ones, kernel_params to functions.

    A kernel object keeps its own parameters. `gamma` is what `resolve_gamma` returned.
    """
    if isinstance(kernel, Kernel):
        return kernel
    if isinstance(kernel, str):
        return _by_name(kernel, {"gamma": gamma, "degree": degree, "coef0": coef0})
    if isinstance(kernel, type) and issubclass(kernel, Kernel):
        raise InputError(
            f"must be a kernel object; got the class {kernel.__name__}: call it with its parameters", param="kernel"
        )
    if isinstance(kernel, theirs().Kernel):
        return from_gaussian_process(kernel)
    if callable(kernel):
        return from_callable(kernel, kernel_params, X)
    raise InputError(
        "must be a name, a kernel object or a function",
        param="kernel",
        value=kernel,
        remedy=("try ", Setting("kernel", "rbf")),
    )


def _by_name(name: str, given: dict[str, Any]) -> Kernel:
    known, gamma = named(), given["gamma"]
    if name not in known:
        told = f"must be one of {', '.join(map(repr, known))}; got {name!r}.{_hint(name.lower(), known)}"
        raise InputError(told, param="kernel")
    if np.ndim(gamma) and name != "rbf":
        raise InputError(
            ("must be a single number for ", Setting("kernel", name), f"; got {len(np.atleast_1d(gamma))} values"),
            param="gamma",
            remedy=("use one number, or ", Setting("kernel", "rbf"), ", which takes one per feature"),
        )
    kind, meant = known[name]
    taken = {each.name for each in fields(kind)}  # type: ignore[arg-type]  # all are dataclasses
    if "length_scale" in taken:  # that of a Gaussian with this gamma
        given["length_scale"] = float(np.sqrt(0.5 / gamma))
    return kind(**{parameter: value for parameter, value in given.items() if parameter in taken}, **meant)


def _hint(given: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(given, list(known), n=1)
    return f" Did you mean {close[0]!r}?" if close else ""
