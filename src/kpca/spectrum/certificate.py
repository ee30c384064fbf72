"""Bounds on eigenvalues from what was measured: Ritz values, residuals, trace and Frobenius norm.

Let U hold k orthonormal Ritz vectors, Q all of them, R = B Q - Q Theta. In the basis (U, the rest of Q, everything
else) B is

    [ Theta_k   .         R_k' ]
    [ .         Theta_r   R_r' ]      with an unknown symmetric block C, |C| <= missed.
    [ R_k       R_r       C    ]

The i-th Ritz value is at most the i-th eigenvalue. What U does not see is at most mu = max(theta_k+1, missed) + |R_r|.
Where mu < theta_i the i-th eigenvalue exceeds theta_i by at most |R_k|^2 / (theta_i - mu), and never by more than
|R_k|; where not, it is at most mu + |R_k|.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[Any]
_EPS = float(np.finfo(np.float64).eps)


def eigenvalue_bounds(
    ritz: FloatArray,
    residuals: FloatArray,
    k: int,
    *,
    error: float,
    trace: float,
    frobenius2: float,
    frobenius2_error: float,
    psd: bool,
) -> FloatArray:
    """Return lower and upper bounds of the k largest eigenvalues.  # shape: (k, 2)

    Parameters
    ----------
    ritz, residuals : all Ritz values of the basis in descending order, and the norms of their residuals.
    error : how much the computed product may differ from the exact one, for a unit vector.
    trace, frobenius2, frobenius2_error : of the operator, and how wrong the latter may be; NaN where unknown.
    psd : True if no eigenvalue is negative, so that the trace bounds what is missing.
    """
    top = max(float(np.abs(ritz).max(initial=0.0)), 1e-300)
    slack = error + 8 * _EPS * top * math.sqrt(len(ritz))
    unseen = _unseen(ritz, residuals, slack=slack, trace=trace, frobenius2=frobenius2 + frobenius2_error, psd=psd)
    rest = ritz[k:]
    R_rest = float(np.linalg.norm(residuals[k:])) + (slack if len(rest) else 0.0)
    mu = max(float(rest.max(initial=-math.inf)), unseen) + R_rest
    R = float(np.linalg.norm(residuals[:k])) + slack
    theta = ritz[:k]
    upper = np.maximum(theta, mu) + R
    separated = theta - mu > 2 * slack
    upper[separated] = theta[separated] + np.minimum(R, R**2 / (theta[separated] - mu)) + slack
    if psd and math.isfinite(trace):
        missing = max(trace - float(ritz.sum()), 0.0) + slack * (1 + math.sqrt(len(ritz)))
        upper = np.minimum(upper, theta + missing)
    return np.column_stack([theta - slack, upper])


def _unseen(
    ritz: FloatArray, residuals: FloatArray, *, slack: float, trace: float, frobenius2: float, psd: bool
) -> float:
    """Return a bound on the norm of B on the complement of the basis."""
    missing = max(trace - float(ritz.sum()), 0.0) + slack * (1 + math.sqrt(len(ritz)))
    unseen = missing if psd and math.isfinite(trace) else math.inf
    if math.isnan(frobenius2):
        return unseen
    # The residuals stand twice in B, beside and below the Ritz values; each may be too long by the slack.
    seen = float(ritz @ ritz) + 2.0 * float(np.square(np.maximum(residuals - slack, 0.0)).sum())
    return min(unseen, math.sqrt(max(frobenius2 - seen, 0.0) + 2.0 * slack * float(np.abs(ritz).sum())))
