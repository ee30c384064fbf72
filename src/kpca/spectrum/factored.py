"""Eigenpairs of F F' by way of its small side, with the directions in feature space they belong to."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from kpca._base.errors import InputError
from kpca._base.linalg import eigenpairs_by_arpack
from kpca.gram.engine import FloatArray, column_norms
from kpca.gram.factored import Factored
from kpca.spectrum.dense import solve_dense
from kpca.spectrum.krylov import Monitor, solve_krylov
from kpca.spectrum.result import Spectrum, eigenvalue_bounds

# More components of sparse rows than this are found by blocks.
FEW_SPARSE = 50


def solve_factored(
    operator: Factored,
    k: int,
    tol: float,
    *,
    direct: bool,
    max_passes: int | None = None,
    seed: int = 0,
    monitor: Monitor | None = None,
) -> tuple[Spectrum, FloatArray]:
    """Return the k largest eigenpairs of F F' and the unit directions v_j = F'u_j / |F'u_j|.  # shape: (k, d)

    `direct` forms the small side and uses LAPACK; otherwise it is only multiplied.
    """
    if not direct and not math.isfinite(operator.trace()):
        raise InputError("The squares of the data must be finite; some are too large: scale the data.")
    if direct:
        small = solve_dense(operator, k)
    elif (found := _by_arpack(operator, k, tol)) is not None:
        small = found
    else:
        small = solve_krylov(operator, k, tol, max_passes=max_passes, seed=seed, monitor=monitor)
    if operator.primal:
        directions = small.vectors.T
        vectors = operator.features_times(small.vectors)  # = U sqrt(lambda)
        vectors /= _lengths(vectors)
    else:
        images = operator.transposed_times(small.vectors)
        directions = (images / _lengths(images)).T
        vectors = small.vectors
    solver = "primal" if operator.primal else "dual"
    return replace(small, vectors=vectors, solver=solver if direct else f"{solver}-{small.solver}"), directions


def _by_arpack(operator: Factored, k: int, tol: float) -> Spectrum | None:
    """Return the eigenpairs of sparse rows by ARPACK: their products are so cheap that one column at a time wins."""
    if not operator.sparse or k > FEW_SPARSE:
        return None
    found = eigenpairs_by_arpack(operator, operator.shape[0], k, 0.1 * tol)
    if found is None or found.residuals is None or found.residuals.max() > tol * found.values[0]:
        return None
    values, vectors, residuals = found.values, found.vectors, found.residuals
    error, trace = operator.error(vectors), operator.trace()
    bounds = eigenvalue_bounds(values, residuals, k, error=error, trace=trace, square=math.nan, psd=True)
    return Spectrum(values, vectors, residuals, bounds, trace, math.nan, found.smallest, 1, True, "arpack", error)


def _lengths(columns: FloatArray) -> FloatArray:
    lengths = column_norms(columns)
    return np.where(lengths > 0, lengths, 1.0)
