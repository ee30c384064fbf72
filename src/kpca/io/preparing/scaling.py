"""scikit-learn's scalers and imputers for numbers that come in chunks, dense or sparse."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

from kpca.errors import InputError
from kpca.io.reading.roles import listed

SCALES = ("none", "standard", "robust", "minmax")


def gradual_scaler(scale: str, *, sparse: bool) -> Any:
    """Return a scaler that takes rows in chunks, None where there is none; zeros of a sparse table stay zeros."""
    if scale == "standard":
        return StandardScaler(with_mean=not sparse)
    if scale == "minmax":
        return MaxAbsScaler() if sparse else MinMaxScaler()
    return None


def centres(scaler: Any) -> bool:
    """Whether a scaler moves zeros, and so needs dense numbers."""
    moves = isinstance(scaler, MinMaxScaler)
    return bool(moves or getattr(scaler, "with_mean", False) or getattr(scaler, "with_centering", False))


def robust_scaler(sample: Any) -> RobustScaler:
    """Return a scaler by the median and the quartiles of a sample."""
    if sparse.issparse(sample):
        return RobustScaler(with_centering=False).fit(sample)
    quartiles = np.empty((3, sample.shape[1]), dtype=sample.dtype)
    for column in range(sample.shape[1]):  # one at a time: the sample is large
        quartiles[:, column] = np.percentile(sample[:, column], (25.0, 50.0, 75.0))
    # Of these five rows the second, third and fourth are the quartiles and the median: those of the sample.
    return RobustScaler().fit(quartiles[[0, 0, 1, 2, 2]])


def medians(sample: NDArray[Any]) -> NDArray[Any]:
    """Return the medians of the numbers that are there.  # shape: (p,)"""
    found = np.empty(sample.shape[1], dtype=sample.dtype)
    for column in range(sample.shape[1]):
        values = sample[:, column]
        values = values[~np.isnan(values)]
        found[column] = np.median(values) if len(values) else np.nan
    return found


def imputer_of(values: NDArray[Any], strategy: str, dtype: np.dtype[Any]) -> SimpleImputer:
    """Return an imputer that fills in these values: the mean and the median of one row are the row itself."""
    return SimpleImputer(strategy=strategy).fit(values.astype(dtype)[None, :])


def filled(sample: Any, imputer: SimpleImputer | None) -> Any:
    """Return the sample without holes; it is changed in place."""
    if imputer is not None:
        holes = np.isnan(sample)
        if holes.any():
            np.copyto(sample, imputer.statistics_.astype(sample.dtype), where=holes)
    return sample


def check_scaler(scaler: Any, names: tuple[str, ...], name: str) -> None:
    """Refuse columns whose spread is beyond the numbers of a computer."""
    # An infinite variance counts as constant for scikit-learn, so the scale alone does not tell.
    given = [
        getattr(scaler, attribute, None) for attribute in ("scale_", "var_", "mean_", "center_", "min_", "data_range_")
    ]
    bad = np.zeros(len(names), dtype=bool)
    for values in given:
        if values is not None:
            bad |= ~np.isfinite(values)
    if bad.any():
        raise InputError(
            f"{name} must have columns whose spread is a number; that of "
            f"{listed([names[column] for column in np.flatnonzero(bad)])} is too large or too small: divide the "
            "column by a power of ten, or leave it out with --drop."
        )
