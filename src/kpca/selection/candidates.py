"""From what the user says should be tried to the kernels that are: names, grids of bandwidths and degrees, objects."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.metrics import pairwise_distances
from sklearn.model_selection import ParameterGrid

from kpca import kernels
from kpca.errors import InputError
from kpca.kernels import Kernel

FloatArray = NDArray[Any]
# What is tried where nothing is said.
DEFAULT = ("linear", "rbf", "poly", "cosine")
DEGREES = (2, 3, 4)
# Named kernels with a bandwidth; the others have none, or (poly, sigmoid) a scale that matters less.
_DISTANCE = {
    "rbf": "sqeuclidean",
    "exponential": "sqeuclidean",
    "matern12": "sqeuclidean",
    "matern32": "sqeuclidean",
    "matern52": "sqeuclidean",
    "rational_quadratic": "sqeuclidean",
    "laplacian": "cityblock",
    "chi2": "chi2",
}
# The widest bandwidth of a grid: gamma is so small a part of the median rule's that the kernel is all but linear.
_WIDEST = 1 / 64
# Where neighbours are as far apart as strangers the grid still reaches so many times the median rule's gamma.
_NARROWEST = 16.0
_SAMPLE = 1000
_PARAMETERS = ("gamma", "degree", "coef0", "kernel_params")


@dataclass(frozen=True)
class Candidate:
    """A kernel that is tried: the parameters a KernelPCA takes, and the kernel they make."""

    parameters: dict[str, Any]
    kernel: Kernel

    @property
    def name(self) -> str:
        """The kernel in the user's words."""
        given = self.parameters["kernel"]
        return given if isinstance(given, str) else self.kernel.name

    @property
    def label(self) -> str:
        """The kernel with its parameters, short."""
        others = {name: value for name, value in self.parameters.items() if name != "kernel"}
        if not others:
            given = self.parameters["kernel"]
            return given if isinstance(given, str) else repr(self.kernel)
        return f"{self.name} " + ", ".join(f"{name}={_short(value)}" for name, value in others.items())


def candidates(wanted: Any, X: Any, bandwidths: int) -> list[Candidate]:
    """Return what to try on rows X: `wanted` as `tune` takes it, with so many bandwidths where none are given."""
    wanted = DEFAULT if wanted is None else wanted
    found: list[Candidate] = []
    for kernel, grid in _entries(wanted):
        found += _of(kernel, grid, X, bandwidths)
    if not found:
        raise InputError(f"kernels must name at least one kernel to try; got {wanted!r}.")
    return found


def _entries(wanted: Any) -> Iterable[tuple[Any, Any]]:
    """Return pairs of a kernel and its grid, None where there is none."""
    if isinstance(wanted, Mapping):
        return list(wanted.items())
    if isinstance(wanted, (str, Kernel)) or callable(wanted):
        return [(wanted, None)]
    if not isinstance(wanted, Iterable):
        raise InputError(f"kernels must be a name, a kernel, a list of them or a dictionary of grids; got {wanted!r}.")
    return [(kernel, None) for kernel in wanted]


def _of(kernel: Any, grid: Any, X: Any, bandwidths: int) -> list[Candidate]:
    if isinstance(kernel, str) and kernel == "precomputed":
        raise InputError("kernels must be ones that are evaluated; a precomputed matrix leaves nothing to choose.")
    if not isinstance(kernel, str):
        if grid is not None:
            raise InputError(f"Grids must belong to kernels by name; got {grid!r} for {kernel!r}.")
        return [_candidate({"kernel": kernel}, X)]
    kernels.resolve(kernel, X, gamma=1.0)  # a wrong name is found out here
    return [_candidate({"kernel": kernel, **one}, X) for one in ParameterGrid(_grid(kernel, grid, X, bandwidths))]


def _grid(kernel: str, grid: Any, X: Any, bandwidths: int) -> dict[str, list[Any]]:
    """Return lists of values by parameter."""
    if isinstance(grid, Mapping):
        unknown = [name for name in grid if name not in _PARAMETERS]
        if unknown:
            raise InputError(f"Grids must be of {', '.join(_PARAMETERS)}; got {unknown[0]!r} for kernel {kernel!r}.")
        return {name: _listed(name, values) for name, values in grid.items()}
    if grid is not None and not isinstance(grid, int):
        return {("degree" if kernel in ("poly", "polynomial") else "gamma"): _listed(kernel, grid)}
    count = bandwidths if grid is None else grid
    if isinstance(count, bool) or count < 1:
        raise InputError(f"A grid must have a whole number of values from 1; got {grid!r} for kernel {kernel!r}.")
    if kernel in _DISTANCE:
        return {"gamma": bandwidth_grid(kernel, X, count).tolist()}
    scale = float(kernels.resolve_gamma("scale", X))
    if kernel in ("poly", "polynomial"):
        return {"degree": list(DEGREES), "gamma": [scale], "coef0": [1.0]}
    if kernel == "sigmoid":
        return {"gamma": (scale * np.geomspace(1 / 16, 1.0, min(count, 5))).tolist(), "coef0": [0.0]}
    return {}


def _listed(name: str, values: Any) -> list[Any]:
    """Return the values of a grid as a list; a single one counts as a list of one."""
    if isinstance(values, (str, int, float, Mapping)) or np.ndim(values) == 0:
        return [values]
    found = list(values)
    if not found:
        raise InputError(f"A grid must have at least one value; got an empty one for {name!r}.")
    return found


def _candidate(parameters: dict[str, Any], X: Any) -> Candidate:
    """Return a candidate whose gamma is a number: one found by a rule must not change with the rows it is used on."""
    parameters = dict(parameters)
    gamma = kernels.resolve_gamma(parameters.get("gamma"), X)
    if "gamma" in parameters:
        parameters["gamma"] = gamma
    others = {name: value for name, value in parameters.items() if name not in ("kernel", "gamma")}
    kernel = kernels.resolve(parameters["kernel"], X, gamma=gamma, **others)
    kernel.check(X)
    return Candidate(parameters, kernel)


def bandwidth_grid(kernel: str, X: Any, count: int) -> FloatArray:
    """Return `count` values of gamma, ascending, from all but linear to where rows see only their nearest neighbours.

    The middle is the median rule: 1 / (2 m^2) for kernels of the distance, 1 / m for those of other distances, m the
    median over pairs of rows; at the narrow end the median over rows of the distance to the nearest other one takes its
    place. At most 1000 rows are looked at, always the same.
    """
    typical, nearest = _distances(X, _DISTANCE[kernel])
    factor = 0.5 if _DISTANCE[kernel] == "sqeuclidean" else 1.0
    middle = factor / typical
    if not (math.isfinite(middle) and middle > 0):
        raise InputError(f"A grid of bandwidths needs a finite spread of the rows; got {typical:g}: rescale X.")
    narrow = max(factor / nearest, middle * 4.0) if nearest > 0 else middle * _NARROWEST
    narrow = min(narrow, middle * 1e6)
    if count == 1:
        return np.array([middle])
    return np.geomspace(middle * _WIDEST, narrow, count)


def _distances(X: Any, metric: str) -> tuple[float, float]:
    """Return the median distance of two different rows, and that of a row to its nearest different one."""
    n = X.shape[0]
    if n > _SAMPLE:
        X = X[np.sort(np.random.default_rng(0).choice(n, _SAMPLE, replace=False))]
    D = _pairs(X.astype(np.float64), metric)
    apart = D[np.triu_indices(len(D), 1)]
    apart = apart[apart > 1e-13 * max(float(apart.max(initial=0.0)), 1e-300)]
    if not apart.size:
        return 1.0, 0.0
    D[apart.min() * (1 - 1e-9) >= D] = np.inf
    nearest = D.min(axis=1)
    return float(np.median(apart)), float(np.median(nearest[np.isfinite(nearest)]))


def _pairs(X: Any, metric: str) -> FloatArray:
    """Return the distances of all pairs; squared, where that is what the kernel takes.  # shape: (n, n)"""
    if metric == "chi2":
        return -np.asarray(kernels.AdditiveChi2().block(X, X))
    if metric == "sqeuclidean":
        if not sparse.issparse(X):
            X = X - X.mean(axis=0)
        squares: FloatArray = np.square(pairwise_distances(X, metric="euclidean"))
        return squares
    return np.asarray(pairwise_distances(X, metric=metric))


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else repr(value)
