"""A bandwidth that suits the rows, in the words of the parameter that the user has in hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca.kernels import RBF, Chi2, Exponential, Kernel, Laplacian, Matern, RationalQuadratic
from kpca.kernels.widening import widened

FloatArray = NDArray[Any]
# What the median rule makes of the median pair under a Gaussian: exp(-1/2).
_USUAL = math.exp(-0.5)
_ROWS, _STEPS, _FARTHEST = 200, 60, 60.0


def usual_factor(kernel: Kernel, rows: Any) -> float | None:
    """Return by how much to widen the bandwidth so that the median pair of rows has similarity exp(-1/2).

    For a Gaussian that is the median rule. None where no bandwidth does it.
    """
    some = rows[:: max(1, rows.shape[0] // _ROWS)]
    low, high = -_FARTHEST, _FARTHEST  # decimal logarithms
    if not _median(kernel, some, 10.0**low) <= _USUAL <= _median(kernel, some, 10.0**high):  # or one is NaN
        return None
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _median(kernel, some, 10.0**middle) < _USUAL else (low, middle)
    return float(10.0**high)


def _median(kernel: Kernel, rows: Any, factor: float) -> float:
    """Return the median similarity k(x, y) / sqrt(k(x, x) k(y, y)) of pairs, NaN where there is no bandwidth."""
    wider = widened(kernel, factor)
    if wider is None:
        return float("nan")
    with np.errstate(over="ignore", under="ignore"):
        K = wider.block(rows, rows).astype(np.float64)
    lengths = np.sqrt(np.abs(np.diagonal(K)))
    lengths[lengths == 0] = 1.0
    pairs = (K / np.multiply.outer(lengths, lengths))[np.triu_indices(len(K), 1)]
    return float(np.median(pairs)) if len(pairs) else float("nan")


def in_words(kernel: Kernel, factor: float, given: Any) -> str:
    """Return "gamma about 0.03" for a kernel widened by a factor; `given` is the kernel as the user named it."""
    wider = widened(kernel, factor)
    match wider:
        case RBF(gamma=float(gamma)) | Laplacian(gamma=gamma) | Chi2(gamma=gamma):
            return f"gamma about {gamma:.2g}"
        case RBF():
            return f"each gamma times {1 / factor**2:.2g}"
        case Exponential(length_scale=float(length)) | Matern(length_scale=float(length)):
            return _length(length, given)
        case RationalQuadratic(length_scale=float(length)):
            return _length(length, given)
    return f"bandwidths times {factor:.2g}"


def _length(length: float, given: Any) -> str:
    # by name these kernels take gamma = 1 / (2 length^2)
    return f"gamma about {0.5 / length**2:.2g}" if isinstance(given, str) else f"length_scale about {length:.2g}"
