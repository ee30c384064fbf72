"""From what the user says should be tried to the kernels that are: names, grids of bandwidths and degrees, objects."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.metrics import pairwise_distances
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.model_selection import ParameterGrid

from kpca import kernels
from kpca._base.errors import InputError
from kpca._base.linalg import FloatArray
from kpca.kernels import Kernel
from kpca.kernels.arrays import squared_norms
from kpca.selection.rows import some_rows

# What is tried where nothing is said.
DEFAULT = ("linear", "rbf", "poly", "cosine")
DEGREES: tuple[int, ...] = tuple(kernels.Polynomial.grid(1.0, 1)["degree"])
# What kernels are functions of (`Kernel.shared`) -> the distance that a bandwidth is measured by.
_METRICS = {"distance": "sqeuclidean", "l1": "cityblock", "chi2": "chi2"}
# The widest bandwidth of a grid: gamma is so small a part of the median rule's that the kernel is all but linear.
_WIDEST = 1 / 16
# At the narrowest a nearest neighbour has a similarity of e^-2 (Gaussian): gamma is this many times what its distance
# suggests, and this many times the median rule's at least and at most.
_NARROW, _LEAST_NARROW, _MOST_NARROW = 4.0, 16.0, 1000.0
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
            return self.name if isinstance(self.parameters["kernel"], str) else repr(self.kernel)
        words = {name: f"{value:.3g}" if isinstance(value, float) else repr(value) for name, value in others.items()}
        return f"{self.name} " + ", ".join(f"{name}={value}" for name, value in words.items())


def candidates(
    wanted: Any, X: Any, bandwidths: int, others: Mapping[str, Any] = MappingProxyType({})
) -> list[Candidate]:
    """Return what to try on rows X: `wanted` as `tune` takes it, with this many bandwidths where none are given.

    `others` are the parameters of an estimator, which hold for all kernels that are not given their own.
    """
    wanted = DEFAULT if wanted is None else wanted
    if isinstance(wanted, (str, Kernel)) or callable(wanted):
        wanted = [wanted]
    if not isinstance(wanted, Iterable):
        raise InputError(f"kernels must be a name, a kernel, a list of them or a dictionary of grids; got {wanted!r}.")
    several = sorted(wanted, key=repr) if isinstance(wanted, (set, frozenset)) else wanted  # the same order each time
    grids = list(several.items()) if isinstance(several, Mapping) else [(kernel, None) for kernel in several]
    others = {name: value for name, value in others.items() if name in _PARAMETERS}
    found = [one for kernel, grid in grids for one in _of(kernel, grid, X, bandwidths, others)]
    if not found:
        raise InputError(f"kernels must name at least one kernel to try; got {wanted!r}.")
    return found


def _of(kernel: Any, grid: Any, X: Any, bandwidths: int, others: Mapping[str, Any]) -> list[Candidate]:
    if isinstance(kernel, str) and kernel == "precomputed":
        raise InputError("kernels must be ones that are evaluated; a precomputed matrix leaves nothing to choose.")
    if not isinstance(kernel, str):
        if grid is not None:
            raise InputError(f"Grids must belong to kernels by name; got {grid!r} for {kernel!r}.")
        return [_candidate({"kernel": kernel}, X, others)]
    some = kernels.resolve(kernel, X, gamma=1.0)  # a wrong name is found out here
    try:
        some.check(X)
    except InputError:  # its trial will say so: there may be others that can be tried
        return [Candidate({"kernel": kernel}, some)]
    grids = ParameterGrid(_grid(kernel, some, grid, X, bandwidths))
    return [_candidate({"kernel": kernel, **one}, X, others) for one in grids]


def _grid(kernel: str, some: Kernel, grid: Any, X: Any, bandwidths: int) -> dict[str, list[Any]]:
    """Return lists of values by parameter; `some` is a kernel of this name."""
    if isinstance(grid, Mapping):
        unknown = [name for name in grid if name not in _PARAMETERS]
        if unknown:
            raise InputError(f"Grids must be of {', '.join(_PARAMETERS)}; got {unknown[0]!r} for kernel {kernel!r}.")
        return {name: _listed(name, values) for name, values in grid.items()}
    if grid is not None and not isinstance(grid, Integral):
        if not _is_scaled(some):
            raise InputError(f"Grids must be of kernels with a bandwidth or a degree; got {grid!r} for {kernel!r}.")
        return {("degree" if hasattr(some, "degree") else "gamma"): _listed(kernel, grid)}
    count = bandwidths if grid is None else int(grid)
    if isinstance(grid, bool) or count < 1:
        raise InputError(f"A grid must have a whole number of values from 1; got {grid!r} for kernel {kernel!r}.")
    if some.bandwidth is not None:
        return {"gamma": bandwidth_grid(kernel, X, count).tolist()}
    return some.grid(float(kernels.resolve_gamma("scale", X)), count)


def _is_scaled(kernel: Kernel) -> bool:
    """Return True if gamma matters to a kernel."""
    return kernel.bandwidth is not None or hasattr(kernel, "gamma")


def _listed(name: str, values: Any) -> list[Any]:
    """Return the values of a grid as a list; a single one counts as a list of one."""
    single = isinstance(values, (str, Real, Mapping)) or not isinstance(values, Iterable)
    if single or (isinstance(values, np.ndarray) and values.ndim == 0):
        return [values]
    found = list(values)
    if not found:
        raise InputError(f"A grid must have at least one value; got an empty one for {name!r}.")
    return found


def _candidate(parameters: dict[str, Any], X: Any, others: Mapping[str, Any]) -> Candidate:
    """Return a candidate whose gamma is a number: one found by a rule must not change with the rows it is used on."""
    whole = {**others, **parameters}
    gamma = whole["gamma"] = kernels.resolve_gamma(whole.get("gamma"), X)
    name = parameters["kernel"]
    by_rule = isinstance(name, str) and isinstance(others.get("gamma"), str)
    if "gamma" in parameters or (by_rule and _is_scaled(kernels.resolve(name, X, gamma=1.0))):
        parameters = {**parameters, "gamma": gamma}
    return Candidate(parameters, kernels.resolve(whole.pop("kernel"), X, **whole))


def bandwidth_grid(kernel: str, X: Any, count: int) -> FloatArray:
    """Return `count` values of gamma, ascending, from all but linear to where rows see only their nearest neighbours.

    The middle is the median rule: 1 / (2 m^2) for kernels of the distance, 1 / m for those of other distances, m the
    median over pairs of rows; at the narrow end the median over rows of the distance to the nearest other one takes its
    place. At most 1000 rows are looked at, always the same.
    """
    shared = kernels.resolve(kernel, X, gamma=1.0).shared
    metric = _METRICS[shared[0] if shared else "distance"]
    typical, nearest = _distances(X, metric)
    middle = (0.5 if metric == "sqeuclidean" else 1.0) / typical
    if not (math.isfinite(middle) and middle > 0):
        raise InputError(f"A grid of bandwidths needs a finite spread of the rows; got {typical:g}: rescale X.")
    if count == 1:
        return np.array([middle])
    ratio = _NARROW * typical / nearest if nearest > 0 else _LEAST_NARROW
    return middle * np.geomspace(_WIDEST, min(max(ratio, _LEAST_NARROW), _MOST_NARROW), count)


def _distances(X: Any, metric: str) -> tuple[float, float]:
    """Return the median distance of two different rows, and that of a row to its nearest different one.

    Distances are squared, where that is what the kernel takes.
    """
    X = some_rows(X, _SAMPLE, 0).astype(np.float64)
    if metric == "chi2":
        D: FloatArray = -np.asarray(kernels.AdditiveChi2().block(X, X))
    elif metric != "sqeuclidean":
        D = np.asarray(pairwise_distances(X, metric=metric))
    else:
        with np.errstate(over="ignore", invalid="ignore"):  # too large a spread is found out by its size
            if not sparse.issparse(X):
                X = X - np.median(X, axis=0)  # not the mean: a row far out would cost the others their digits
            lengths = squared_norms(X)
            D = euclidean_distances(X, squared=True)
            D[1e-13 * np.add.outer(lengths, lengths) >= D] = 0.0  # rounding
    apart = D[np.triu_indices(len(D), 1)]
    apart = apart[apart != 0]
    if not apart.size:
        return 1.0, 0.0
    typical = float(np.median(apart))
    if not math.isfinite(typical):
        return typical, 0.0
    D[D == 0] = np.inf
    nearest = D.min(axis=1)
    return typical, float(np.median(nearest[np.isfinite(nearest)]))
