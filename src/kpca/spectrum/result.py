"""What a solver returns: eigenpairs, and how far they can be trusted."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from kpca.gram.engine import Array, FloatArray, like
from kpca.gram.operator import Moments, Precision


@dataclass(frozen=True)
class Spectrum:
    """The largest eigenvalues of a symmetric operator B (by value, not by modulus), in descending order."""

    values: FloatArray  # shape: (k,)
    vectors: Array  # orthonormal, where the operator multiplies, shape: (n, k)
    residuals: FloatArray  # |B u - lambda u| of each pair, with what the product itself may be wrong, shape: (k,)
    bounds: FloatArray  # lower and upper bound of the i-th largest eigenvalue, shape: (k, 2)
    trace: float
    frobenius2: float
    smallest: float  # the smallest eigenvalue seen: how indefinite B is known to be
    n_passes: int
    converged: bool
    solver: str
    error: float = 0.0  # what rounding and the kernel's own evaluation may have done to any eigenvalue
    probe: Array | None = None  # random columns, multiplied until they would have shown what was missed, shape: (n, p)
    spare: Array | None = None  # Ritz vectors after the last, as far as they got, shape: (n, s)

    def scores(self, weights: FloatArray | None = None) -> Array:
        """Return the scores of the rows, U sqrt(lambda) / sqrt(w).  # shape: (n, k)"""
        scores = self.vectors * like(np.sqrt(np.maximum(self.values, 0.0)), self.vectors)
        return scores if weights is None else scores / like(np.sqrt(weights)[:, None], scores)

    def head(self, k: int) -> Spectrum:
        if k >= len(self.values):
            return self
        vectors = self.vectors[:, :k]
        return replace(
            self,
            values=self.values[:k],
            vectors=np.ascontiguousarray(vectors) if isinstance(vectors, np.ndarray) else vectors,
            residuals=self.residuals[:k],
            bounds=self.bounds[:k],
        )


# -- What an iteration must remember to go on later as if nothing had happened, and who remembers it ------------------


@dataclass(frozen=True)
class State:
    """Block Krylov after a pass. The arrays are views: they are good until the next pass."""

    k: int
    passes: int
    Q: FloatArray  # the basis, shape (n, size)
    A: FloatArray  # its images, shape (n, size)
    H: FloatArray  # Q'A, shape (size, size)
    errors: FloatArray  # how wrong each image may be, shape (size,)
    share: FloatArray  # of each column, that random columns and their images have, shape (size,)
    cheap: Precision
    single_error: float
    best: float
    best_pass: int
    guessed: int | None  # columns of the guess it began with
    probed: bool
    chain: int  # where the last images of random columns stand in the basis
    images: int  # how many times these were multiplied
    generator: dict[str, Any]  # of random numbers
    found: dict[Precision, Moments]  # what the products have told of the operator


class Keeper(Protocol):
    """Remembers a state, if only the last one."""

    def load(self) -> State | None:
        """Return the state to go on from, None to begin anew."""

    def save(self, state: State) -> None:
        """Remember a state; called after every pass, it may decline some."""


# -- Bounds on eigenvalues from what was measured: Ritz values, residuals, trace and Frobenius norm -------------------

_EPS = float(np.finfo(np.float64).eps)


def eigenvalue_bounds(
    ritz: FloatArray,
    residuals: FloatArray,
    k: int,
    *,
    error: float,
    trace: float,
    square: float,
    psd: bool,
) -> FloatArray:
    """Return lower and upper bounds of the k largest eigenvalues.  # shape: (k, 2)

    Parameters
    ----------
    ritz, residuals : all Ritz values of the basis in descending order, and the norms of their residuals.
    error : how much the computed product may differ from the exact one, for a unit vector.
    trace, square : of the operator, and the most that the square of its Frobenius norm may be; NaN where unknown.
    psd : True if no eigenvalue is negative, so that the trace bounds what is missing.
    """
    top = max(float(np.abs(ritz).max(initial=0.0)), 1e-300)
    slack = error + 8 * _EPS * top * math.sqrt(len(ritz))
    missing = max(trace - float(ritz.sum()), 0.0) + slack * (1 + math.sqrt(len(ritz)))
    unseen = missing if psd and math.isfinite(trace) else math.inf  # bounds the norm of B on the rest of the space
    if not math.isnan(square):
        # The residuals stand twice in B, beside and below the Ritz values; each may be too long by the slack.
        seen = float(ritz @ ritz) + 2.0 * float(np.square(np.maximum(residuals - slack, 0.0)).sum())
        unseen = min(unseen, math.sqrt(max(square - seen, 0.0) + 2.0 * slack * float(np.abs(ritz).sum())))
    rest = ritz[k:]
    R_rest = float(np.linalg.norm(residuals[k:])) + (slack if len(rest) else 0.0)
    mu = max(float(rest.max(initial=-math.inf)), unseen) + R_rest
    R = float(np.linalg.norm(residuals[:k])) + slack
    theta = ritz[:k]
    upper = np.maximum(theta, mu) + R
    separated = theta - mu > 2 * slack
    upper[separated] = theta[separated] + np.minimum(R, R**2 / (theta[separated] - mu)) + slack
    if psd and math.isfinite(trace):
        upper = np.minimum(upper, theta + missing)
    return np.column_stack([theta - slack, upper])


# -- How many eigenvalues share the trace: the participation ratio, and what it is for rows with nothing in common ----


def participation_ratio(trace: float, frobenius2: float) -> float:
    """Return (sum of eigenvalues)^2 / sum of their squares: m for m equal ones, NaN where there are none."""
    return trace**2 / frobenius2 if frobenius2 > 0 else float("nan")


def unrelated_ratio(masses: FloatArray) -> float:
    """Return the participation ratio of rows with k(x, y) = 0 and these weights, centred: n - 1 if all are 1.

    B = W - w w'/m with m = sum w, so tr B = m - s2/m and |B|^2 = s2 - 2 s3/m + s2^2/m^2 with s_p = sum w^p.
    """
    mass, s2, s3 = (float(np.sum(masses**power)) for power in (1, 2, 3))
    square = s2 - 2.0 * s3 / mass + (s2 / mass) ** 2
    return (mass - s2 / mass) ** 2 / square if square > 0 else 0.0
