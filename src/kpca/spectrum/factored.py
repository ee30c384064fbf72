"""Eigenpairs of F F' by way of its small side, with the directions in feature space they belong to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca.gram.factored import Factored
from kpca.spectrum.dense import solve_dense
from kpca.spectrum.krylov import Monitor, solve_krylov
from kpca.spectrum.result import Spectrum

FloatArray = NDArray[Any]


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
    if direct:
        small = solve_dense(operator, k)
    else:
        small = solve_krylov(operator, k, tol, max_passes=max_passes, seed=seed, monitor=monitor)
    if operator.primal:
        directions = small.vectors.T
        scores = operator.features_times(small.vectors)  # = U sqrt(lambda)
        vectors = scores / _lengths(scores)
    else:
        images = operator.transposed_times(small.vectors)
        directions = (images / _lengths(images)).T
        vectors = small.vectors
    solver = "primal" if operator.primal else "dual"
    return replace(small, vectors=vectors, solver=solver if direct else f"{solver}-krylov"), directions


def _lengths(columns: FloatArray) -> FloatArray:
    """Return the column norms, 1 for columns that are zero."""
    lengths = np.sqrt(np.einsum("ij,ij->j", columns, columns))
    return np.where(lengths > 0, lengths, 1.0)
