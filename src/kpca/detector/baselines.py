"""What a row is compared with when its statistic is split among variables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import pairwise_distances_argmin

from kpca.detector.batches import is_labelled_row
from kpca.errors import InputError
from kpca.storage.frames import is_frame

FloatArray = NDArray[Any]
BASELINES = ("mean", "nearest")


def baseline_rows(
    baseline: Any,
    rows: FloatArray,
    *,
    centre: FloatArray,
    known: FloatArray,
    prepare: Callable[[Any], FloatArray],
) -> tuple[FloatArray, str]:
    """Return baselines in the space of the model, one or as many as rows, and what they are called.

    Parameters
    ----------
    baseline : "mean", "nearest", or an array or data frame in the units of the data: (d,) for all rows, or one row for
        each.
    rows : (m, D), what the model sees of the rows: scaled, with lags.
    centre : (D,), mean training row, in the same form.
    known : (n, D), normal rows that the model keeps, in the same form.
    prepare : takes rows in the units of the data to that form.
    """
    if isinstance(baseline, str):
        if baseline == "mean":
            return np.atleast_2d(np.asarray(centre, dtype=np.float64)), "the mean training row"
        if baseline == "nearest":
            # around the centre, as an offset would eat the digits of the distances
            nearest = pairwise_distances_argmin(rows - centre, known - centre)
            return np.asarray(known[nearest], dtype=np.float64), "the nearest training row"
        raise InputError(f"baseline must be 'mean', 'nearest' or an array; got {baseline!r}.")
    given = baseline.to_frame().T if is_labelled_row(baseline) else baseline
    given = given if is_frame(given) else np.asarray(given)  # names of columns are compared with those of the fit
    if len(given.shape) not in (1, 2) or (len(given.shape) == 2 and len(given) not in (1, len(rows))):
        raise InputError(
            f"A baseline must be one row or one for each of the {len(rows)} rows; got shape {given.shape}."
        )
    made = np.asarray(prepare(given if is_frame(given) else np.atleast_2d(given)), dtype=np.float64)
    if not np.isfinite(made).all():
        raise InputError("A baseline must be finite; got NaN or infinity: fill in what is missing.")
    return made, "the baseline given"
