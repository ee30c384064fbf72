"""Learned maps and the length of projections: what is learned of scores must be learned of scores of the same length.

`denoise` brings the projection of every row to the length of an image (see fixed_point), also that of a row without
noise, of which the components hold only a part. A map for such scores is learned from training scores treated alike.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca.linalg import mean_of_rows
from kpca.preimage.fixed_point import FixedPoint, FixedPointWay
from kpca.preimage.learned import Ridge, RidgeWay
from kpca.preimage.target import Target

FloatArray = NDArray[Any]
# Gains are needed to few digits.
_TOL = 1e-2


def lengthening(target: Target) -> FixedPointWay:
    """Return what finds the gains of rows, for a radial kernel."""
    return FixedPoint(tol=_TOL).fitted(target)


def lengthened_ridge(ridge: RidgeWay, target: Target, lengthen: FixedPointWay, *, threads: int = 1) -> RidgeWay:
    """Return the ridge map of scores with gains, with the penalty and the bandwidth, in its units, of the one without.

    `lengthen` finds gains in the expansion of the target.
    """
    if ridge.map is None:
        return ridge
    gains = lengthen(target.scores, inputs=target.rows, threads=threads).gains
    assert gains is not None
    scores = lengthen.expansion.amplified(target.scores, gains).astype(target.scores.dtype)
    before, after = (_variance(part, target.weights) for part in (target.scores, scores))
    gamma = ridge.gamma * (before / after if before > 0 and after > 0 else 1.0)
    settings = Ridge(alpha=ridge.alpha, gamma=gamma, box=ridge.box, penalty=ridge.penalty)
    return settings.fitted(replace(target, scores=scores), threads=threads)


def _variance(scores: FloatArray, weights: FloatArray | None) -> float:
    """Return the sum of the variances of the columns."""
    squares = np.square(scores - mean_of_rows(scores, weights), dtype=np.float64).sum(axis=1)
    return float(np.average(squares, weights=weights))
