"""Eigenpairs of F F' by way of its small side, with the directions in feature space they belong to."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from scipy.linalg import qr, solve_triangular, svd

from kpca._base.errors import InputError
from kpca._base.linalg import eigenpairs_by_arpack
from kpca.gram.engine import FloatArray, column_norms
from kpca.gram.factored import Factored
from kpca.spectrum.dense import solve_dense
from kpca.spectrum.krylov import Monitor, solve_krylov
from kpca.spectrum.result import Spectrum, eigenvalue_bounds

# More components of sparse rows than this are found by blocks.
FEW_SPARSE = 50
# Cosines of columns of F V with which they are orthogonal as they come, by the precision of the data; what is left of
# them where they were made so; and the smallest eigenvalue of all of them that speaks of nearly so.
_MIXED, _ROUNDING, _NEARLY = {"d": 1e-14, "f": 1e-8}, 1e-14, 0.5


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
    name = "primal" if operator.primal else "dual"
    small = replace(small, solver=name if direct else f"{name}-{small.solver}")
    if operator.primal:
        return _from_directions(operator, small, measured=not direct)
    images = operator.transposed_times(small.vectors)
    return small, (images / _lengths(images)).T


def _from_directions(operator: Factored, small: Spectrum, *, measured: bool) -> tuple[Spectrum, FloatArray]:
    """Return the eigenpairs of F F' that belong to those of F'F (docs/mathematics.md, section 4).

    The columns of F V are U sqrt(Lambda) but for rounding of F'F, which shows in u_j as many times enlarged as
    sqrt(lambda_j) is smaller than sqrt(lambda_1). Their products tell; where they are not orthogonal to the precision
    of the data, the singular vectors of F V take their place.
    """
    V, values = small.vectors, small.values
    images, products = operator.images(V)
    lengths = np.sqrt(products.diagonal())
    lengths[lengths == 0] = 1.0
    products /= np.multiply.outer(lengths, lengths)
    mixed = np.linalg.norm(products - np.eye(len(products)), axis=0)
    if mixed.max(initial=0.0) <= _MIXED[operator.dtype.char]:
        images /= lengths
    else:
        images, roots, turn = _singular(images, products, lengths)
        V, values, mixed = V @ turn.T, roots**2, np.full(len(roots), _ROUNDING)
    if measured:
        gaps = operator.features_times(operator.transposed_times(images)) - images * values
        residuals = column_norms(gaps) + small.error
    else:
        residuals = small.residuals + float(values.max(initial=0.0)) * mixed
    lower, upper = np.minimum(small.bounds[:, 0], values), np.maximum(small.bounds[:, 1], values)
    bounds = np.column_stack([lower, upper])
    return replace(small, values=values, vectors=images, residuals=residuals, bounds=bounds), V.T


def _singular(Z: FloatArray, products: FloatArray, lengths: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the singular value decomposition of Z, which is used up.

    `products` are those of its columns, divided by their lengths. Cholesky's factor of it loses nothing while columns
    are nearly orthogonal, and is found at the speed of a product; otherwise Householder's does.
    """
    if np.linalg.eigvalsh(products)[0] >= _NEARLY:
        upper = np.linalg.cholesky(products).T
        left, roots, turn = svd(upper * lengths, check_finite=False)
        return Z @ (solve_triangular(upper, left, check_finite=False) / lengths[:, None]), roots, turn
    Q, R = qr(Z, mode="economic", overwrite_a=True, check_finite=False)
    left, roots, turn = svd(R, check_finite=False)
    return Q @ left, roots, turn


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
    known = trace, math.nan, found.smallest
    return Spectrum(values, vectors, residuals + error, bounds, *known, 1, True, "arpack", error)


def _lengths(columns: FloatArray) -> FloatArray:
    lengths = column_norms(columns)
    return np.where(lengths > 0, lengths, 1.0)
