"""How many eigenvalues share the trace: the participation ratio, and what it is for rows with nothing in common."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[Any]


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
