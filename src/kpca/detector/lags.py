"""Rows of a process that remembers: each row with the ones before it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[Any]


def lagged(X: FloatArray, lags: int, history: FloatArray | None = None) -> FloatArray:
    """Return the rows (x_t, x_{t-1}, ..., x_{t-lags}); before the history lies its first row again and again.

    Parameters
    ----------
    X : (m, d), one row per moment.
    history : (h, d), rows that came before, the newest last; None if there are none.
    """
    if lags == 0 or len(X) == 0:
        return X if lags == 0 else np.empty((0, X.shape[1] * (lags + 1)), X.dtype)
    before = X[:0] if history is None else history[-lags:]
    series = np.concatenate([before, X])
    missing = np.repeat(series[:1], lags - len(before), axis=0)
    series = np.concatenate([missing, series])
    return np.column_stack([series[lags - lag : len(series) - lag] for lag in range(lags + 1)])


def remembered(X: FloatArray, lags: int, history: FloatArray | None = None) -> FloatArray:
    """Return the rows that the next ones need: the newest, as many as there are lags."""
    series = X if history is None else np.concatenate([history, X])
    return series[len(series) - min(lags, len(series)) :].copy()
