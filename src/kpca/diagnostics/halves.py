"""The model refitted to one half of its rows and asked about the other: what it makes of rows it has not seen."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kpca.decompose import Request, decompose
from kpca.kernels import Kernel
from kpca.kernels._checks import as_float64
from kpca.projection import MatrixProjection, Projection

if TYPE_CHECKING:
    from kpca.diagnostics.case import Case

FloatArray = NDArray[Any]
# Rows of both halves together, and the fewest; few where each kernel value is a call of Python.
_MOST, _MOST_OF_CALLS, _FEWEST = 4000, 200, 10
# Up to so many rows each half has its turn: one split of few rows is a matter of luck.
_BOTH_WAYS = 1000
# With as many components as rows any model explains all it was fitted to; so at most one for so many rows.
_ROWS_PER_COMPONENT = 4
_TOL = 1e-6


@dataclass(frozen=True)
class Half:
    """Components of some rows, and rows that took no part."""

    projection: Projection
    values: FloatArray  # eigenvalues, shape: (k,)
    mass: float  # sum of the weights of the fitted rows
    explained: float  # share of the variance of the fitted rows
    variance: float  # trace of the covariance of the fitted rows
    length: float  # mean of k(x, x)
    fitted: NDArray[np.intp]  # numbers of the fitted rows
    held: Any  # rows that were held out, shape: (m, d)
    held_weights: FloatArray  # shape: (m,)

    def parts(self, X: Any, threads: int) -> tuple[FloatArray, FloatArray]:
        """Return the scores of rows and the squared length of what they leave of each.  # shapes: (m, k), (m,)"""
        assert not isinstance(self.projection, MatrixProjection)
        return self.projection.parts(X, threads=threads)


def halves_of(case: Case) -> list[Half]:
    """Return the model fitted to half of the rows, and for few rows also the other way round.

    Rows that are equal stay together: a twin that was held out is no news.
    """
    kernel, n = case.kernel, case.rows.shape[0]
    random = np.random.default_rng([case.seed, 1])
    some = random.permutation(n)[: _MOST_OF_CALLS if case.slow else _MOST]
    _, first = np.unique(case.groups[some], return_inverse=True)
    side = random.permutation(int(first.max()) + 1)[first] * 2 <= first.max()
    one, other = np.sort(some[side]), np.sort(some[~side])
    if min(len(one), len(other)) * 2 < _FEWEST:
        return []
    turns = [(one, other), (other, one)] if len(some) <= _BOTH_WAYS else [(one, other)]
    return [_half(case, kernel, fitted, held) for fitted, held in turns]


def _half(case: Case, kernel: Kernel, fitted: NDArray[np.intp], held: NDArray[np.intp]) -> Half:
    count = min(len(case.values), max(1, len(fitted) // _ROWS_PER_COMPONENT))
    request = Request(n_components=count, tol=_TOL, center=case.center, seed=case.seed, threads=case.threads)
    weights = None if case.weights is None else case.weights[fitted]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the model itself has warned of
        rows = as_float64(case.rows[fitted])
        found = decompose(kernel, rows, weights, request)
    spectrum = found.spectrum
    keep = max(1, int(np.count_nonzero(spectrum.values > 0)))
    mass = float(len(fitted) if weights is None else weights.sum())
    held_weights = np.ones(len(held)) if case.weights is None else case.weights[held]
    return Half(
        projection=found.projection.head(keep),
        values=spectrum.values[:keep],
        mass=mass,
        explained=float(spectrum.values.sum() / spectrum.trace) if spectrum.trace > 0 else float("nan"),
        variance=float(spectrum.trace) / mass,
        length=float(np.abs(kernel.diagonal(rows)).mean()),
        fitted=fitted,
        held=as_float64(case.rows[held]),
        held_weights=held_weights,
    )
