"""What people know about the rows they expect back: they lie in a box, and not too far from the input."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca.errors import InputError

FloatArray = NDArray[Any]
Box = tuple[FloatArray, FloatArray]


def check_box(box: Any, d: int) -> Box | None:
    """Return the lowest and the highest value of each feature, or None.  # shapes: (d,), (d,)"""
    if box is None:
        return None
    try:
        low, high = (np.broadcast_to(np.asarray(edge, dtype=np.float64), (d,)) for edge in box)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"box must be None or a pair (low, high) of numbers, or of {d} numbers each, one per feature; got {box!r}."
        ) from error
    if np.isnan(low).any() or np.isnan(high).any() or (low > high).any():
        raise InputError(f"box must have low <= high for every feature; got {box!r}.")
    return low, high


def check_penalty(penalty: Any) -> float:
    """Return the penalty, a finite number from 0."""
    if isinstance(penalty, bool) or not isinstance(penalty, Real) or not 0.0 <= float(penalty) < np.inf:
        raise InputError(f"penalty must be a finite number, 0 or larger; got {penalty!r}.")
    return float(penalty)


def check_rescale(rescale: Any) -> bool:
    """Return whether rows are to be rescaled: True or False, nothing that happens to be one of them."""
    if not isinstance(rescale, bool | np.bool_):
        raise InputError(f"rescale must be True or False; got {rescale!r}.")
    return bool(rescale)


def inside(rows: FloatArray, box: Box | None) -> FloatArray:
    """Return the nearest rows in the box."""
    if box is None:
        return rows
    return np.clip(rows, box[0].astype(rows.dtype), box[1].astype(rows.dtype))


def pulled(rows: FloatArray, inputs: FloatArray | None, penalty: float) -> FloatArray:
    """Return (rows + penalty * inputs) / (1 + penalty): the pull of a method that has no objective to add it to."""
    if inputs is None or penalty == 0.0:
        return rows
    mixed: FloatArray = (rows + penalty * inputs) / (1.0 + penalty)
    return mixed.astype(rows.dtype, copy=False)
