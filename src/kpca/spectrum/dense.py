"""All of the matrix at once, by LAPACK: for small n, or for a large share of all components."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from kpca._base.errors import InputError
from kpca._base.linalg import exhaustive, largest_eigenpairs
from kpca.gram.engine import FloatArray, column_norms, to_host
from kpca.gram.operator import Operator
from kpca.spectrum.result import Spectrum, eigenvalue_bounds

_EPS = float(np.finfo(np.float64).eps)
# Residuals of more pairs than this are estimated together, from products with random combinations of them.
_MEASURED_ONE_BY_ONE = 32
_COMBINATIONS = 8
# A matrix of up to this many rows is copied to measure residuals; of more, its products are taken anew.
COPIED = 1200


def solve_dense(operator: Operator, k: int) -> Spectrum:
    """Return the k largest eigenpairs of the whole matrix."""
    B = operator.matrix()
    trace, frobenius2 = float(np.trace(B)), float(np.vdot(B, B))
    if not math.isfinite(frobenius2):
        raise InputError("The squares of the data must be finite; some are NaN or too large: scale the data.")
    # ARPACK leaves the matrix as it was, and measures on it.
    copy = B.copy() if len(B) <= COPIED and exhaustive(k, len(B)) else None
    found = largest_eigenpairs(B, k)
    values, vectors, residuals = found.values, found.vectors, found.residuals
    here = operator.placed(vectors)
    del B
    if residuals is None:
        multiply = (lambda V: to_host(operator @ operator.placed(V))) if copy is None else copy.__matmul__
        residuals = _residuals(multiply, values, vectors)
    error = operator.error(here) + 16 * _EPS * math.sqrt(frobenius2)
    if exhaustive(k, operator.shape[0]):
        # LAPACK is backward stable: each value is an eigenvalue, of its own index, of a matrix this near.
        spread = error + float(residuals.max(initial=0.0))
        bounds = np.column_stack([values - spread, values + spread])
    else:
        square = frobenius2 + 64 * _EPS * frobenius2
        bounds = eigenvalue_bounds(values, residuals, k, error=error, trace=trace, square=square, psd=operator.psd)
    residuals = residuals + operator.error(here)
    return Spectrum(values, here, residuals, bounds, trace, frobenius2, found.smallest, 1, True, "dense", error)


def _residuals(multiply: Callable[[FloatArray], FloatArray], values: FloatArray, vectors: FloatArray) -> FloatArray:
    """Return |B u - lambda u|, measured with the operator or a copy of its matrix.  # shape: (k,)"""
    k = vectors.shape[1]
    if k <= _MEASURED_ONE_BY_ONE:
        return column_norms(multiply(vectors) - vectors * values)
    # E|R w|^2 = |R|_F^2 for random signs w, and no residual exceeds |R|_F.
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(k, _COMBINATIONS))
    gaps = multiply(vectors @ signs) - vectors @ (values[:, None] * signs)
    return np.full(k, float(np.linalg.norm(gaps)) / math.sqrt(_COMBINATIONS))
