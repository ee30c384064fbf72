"""Where a list of eigenvalues falls into large and small ones, by the profile likelihood of Zhu & Ghodsi (2006).

The first q values are taken for draws of one normal law and the others for draws of another, with means of their own
and one variance; the q under which the values are likeliest is the elbow:

    l(q) = -(p/2) log(2 pi s^2) - p'/2,   s^2 = (sum_{i<=q} (v_i - m_1)^2 + sum_{i>q} (v_i - m_2)^2) / p',  p' = p - 2.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[Any]


def elbow(values: FloatArray) -> tuple[int, FloatArray]:
    """Return how many values stand above the elbow, and the log-likelihood of 1, 2, ... of them.  # shape: (p - 1,)

    Fewer than three values have no elbow: all of them are counted. Two groups of equal values fit exactly, and are
    infinitely likely.

    Examples
    --------
    >>> import numpy as np
    >>> elbow(np.array([9.0, 8.5, 8.0, 1.2, 1.1, 1.0, 0.9]))[0]
    3
    """
    v = np.sort(np.asarray(values, dtype=np.float64))[::-1]
    p = len(v)
    if p < 3:
        return p, np.zeros(max(p - 1, 0))
    q = np.arange(1, p)
    scale = float(np.abs(v).max()) or 1.0
    v = v / scale
    # sums of squared deviations from the mean of the first q and of the others
    head, head2 = np.cumsum(v)[:-1], np.cumsum(v**2)[:-1]
    tail, tail2 = v.sum() - head, (v**2).sum() - head2
    deviations = np.maximum(head2 - head**2 / q, 0.0) + np.maximum(tail2 - tail**2 / (p - q), 0.0)
    exact = deviations <= 1e-14 * (v**2).sum()
    with np.errstate(divide="ignore"):
        likelihood = -0.5 * p * np.log(2.0 * np.pi * deviations / (p - 2)) - 0.5 * (p - 2)
    likelihood[exact] = np.inf
    return int(np.argmax(likelihood)) + 1, likelihood
