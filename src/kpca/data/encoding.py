"""Categories as columns of 0 and 1, by scikit-learn's OneHotEncoder, and back."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, OneHotEncoder, RobustScaler, StandardScaler

from kpca._base.errors import InputError, Setting
from kpca.data.rows import Rows, Texts, listed, quoted
from kpca.data.survey import Survey


def encoder_of(values: Iterable[set[str | None]], dtype: np.dtype[Any]) -> OneHotEncoder:
    """Return an encoder of columns that hold these values; a missing one is a value too, and the last."""
    columns: list[list[str | None]] = []
    for found in values:
        texts = sorted(text for text in found if text is not None)
        columns.append([*texts, None] if None in found else [*texts])
    # A table with each value of each column is all the encoder has to see; shorter columns repeat their last value.
    seen = np.empty((max(map(len, columns)), len(columns)), dtype=object)
    for place, column in enumerate(columns):
        seen[:, place] = column + [column[-1]] * (len(seen) - len(column))
    return OneHotEncoder(handle_unknown="ignore", dtype=dtype.type).fit(seen)


def encoded(encoder: OneHotEncoder, rows: Rows, columns: tuple[str, ...], warned: set[str]) -> Any:
    """Return the categories as CSR; columns with unknown values are warned of, unless they are in `warned`."""
    # What encoder.transform returns, which takes far longer: it sorts each column of each chunk.
    codes = np.empty((len(rows), len(columns)), dtype=np.int64)  # the column of the result, -1 for unknown values
    start = 0
    for place, column in enumerate(columns):
        values, texts = encoder.categories_[place].tolist(), rows.categories[column].tolist()
        found = {value: start + number for number, value in enumerate(values)}
        codes[:, place] = [found.get(text, -1) for text in texts]
        start += len(values)
        if column not in warned and (codes[:, place] < 0).any():
            warned.add(column)
            unknown = [text for text in texts if text not in found]
            first = "a missing value" if unknown[0] is None else quoted(unknown[0])
            told = (
                f"Column {quoted(column)} holds {first}, which the fit has not seen; {len(unknown):,} of {len(rows):,}"
            )
            warnings.warn(f"{told} rows have such values and are 0 in all of its columns of 0 and 1.", stacklevel=3)
    known = codes >= 0
    pointers = np.concatenate([[0], np.cumsum(known.sum(axis=1))])
    ones = np.ones(int(pointers[-1]), dtype=encoder.dtype)
    return sparse.csr_array((ones, codes[known], pointers), shape=(len(rows), start))


def decoded(encoder: OneHotEncoder, X: Any, columns: tuple[str, ...]) -> dict[str, Texts]:
    """Return of each category the value whose column is largest, None where all of them are 0."""
    texts: dict[str, Texts] = {}
    start = 0
    for place, column in enumerate(columns):
        values = np.array(encoder.categories_[place], dtype=object)
        block = X[:, start : start + len(values)]
        block = block.toarray() if sparse.issparse(block) else block
        texts[column] = values[np.argmax(block, axis=1)]
        texts[column][~block.any(axis=1)] = None  # the row had a value that was unknown
        start += len(values)
    return texts


# -- scikit-learn's scalers and imputers for numbers that come in chunks, dense or sparse -----------------------------

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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of a column without any: the caller sees NaN
        return np.array([np.nanmedian(column) for column in sample.T], dtype=sample.dtype)  # one at a time: it is large


def check_scaler(scaler: Any, names: tuple[str, ...], name: str) -> None:
    """Refuse columns whose spread is beyond the numbers of a computer."""
    # An infinite variance counts as constant for scikit-learn, so the scale alone does not tell.
    bad = np.zeros(len(names), dtype=bool)
    for attribute in ("scale_", "var_", "mean_", "center_", "min_", "data_range_"):
        if (values := getattr(scaler, attribute, None)) is not None:
            bad |= ~np.isfinite(values)
    if bad.any():
        raise InputError(
            f"{name} must have columns whose spread is a number; that of "
            f"{listed([names[column] for column in np.flatnonzero(bad)])} is too large or too small",
            remedy=("divide the column by a power of ten, or leave it out with ", Setting("drop")),
        )


# -- What a preparation says it did, in sentences ---------------------------------------------------------------------


def sentences(survey: Survey, impute: str | None, scaler: Any, words: str) -> list[str]:
    """Return what was left out, imputed, encoded and scaled."""
    said = []
    names = survey.layout.numbers
    sampled = ""
    if survey.sample is not None and survey.sample.shape[0] < survey.n_kept:
        sampled = f" of {survey.sample.shape[0]:,} rows drawn from all {survey.n_kept:,}"
    if survey.n_kept < survey.n_rows:
        lost = survey.n_rows - survey.n_kept
        verb = "was" if lost == 1 else "were"
        said.append(f"{lost:,} of {survey.n_rows:,} rows {verb} left out, because values are missing in them.")
    elif survey.missing.any():
        holes = [f"{quoted(names[column])} {survey.missing[column]:,}" for column in np.flatnonzero(survey.missing)]
        of = f" (the {impute}s{sampled})" if sampled and impute == "median" else ""
        said.append(
            f"{_count(int(survey.missing.sum()), 'missing number')} replaced by the {impute} of the column{of}: "
            f"{listed(holes, raw=True)}."
        )
    if survey.values:
        counts = [
            f"{quoted(column)} ({len(values):,}{', one of them for missing' if None in values else ''})"
            for column, values in survey.values.items()
        ]
        said.append(f"Each value became a column of 0 and 1, not scaled: {listed(counts, raw=True)}.")
    if words:
        empty = survey.missing_texts.get(str(survey.layout.text), 0) if impute != "drop" else 0
        said.append(words)
        if empty:
            said.append(f"{_count(empty, 'missing document')} taken as empty.")
    if scaler is not None:
        said += _scaling(scaler, survey, sampled)
    return said


def _count(number: int, what: str) -> str:
    return f"{number:,} {what} was" if number == 1 else f"{number:,} {what}s were"


def _scaling(scaler: Any, survey: Survey, sampled: str) -> list[str]:
    """Return what scaling did, and to which columns nothing."""
    names = survey.layout.numbers
    tiny = 10 * np.finfo(np.float64).eps  # where scikit-learn sets a scale of 1
    why = "constant"
    if isinstance(scaler, StandardScaler):
        centred = scaler.with_mean
        how = "mean 0 and variance 1" if centred else "variance 1"
        still = (scaler.scale_ == 1) & (scaler.var_ != 1)
    elif isinstance(scaler, RobustScaler):
        centred = scaler.with_centering
        how = f"{'median 0 and ' if centred else ''}distance 1 between the quartiles{sampled}"
        still, why = scaler.scale_ == 1, "without a distance between the quartiles"
        for column in np.flatnonzero(still):  # a scale of 1 may also be what the quartiles say
            values = survey.sample[:, [column]]
            values = values.toarray() if sparse.issparse(values) else values
            still[column] = np.ptp(np.percentile(values, (25.0, 75.0))) < 0.5
    elif isinstance(scaler, MinMaxScaler):
        centred, how, still = True, "the range from 0 to 1", scaler.data_range_ < tiny
    else:
        centred, how, still, why = False, "a largest size of 1", scaler.max_abs_ < tiny, "zero everywhere"
    zeros = "" if centred else ", without centring, so that zeros stay zeros"
    said = [f"{_count(len(names), 'column')} scaled to {how}{zeros}."]
    if still.any():
        which = [names[column] for column in np.flatnonzero(still)]
        said.append(f"{_count(len(which), 'column')} not stretched, being {why}: {listed(which)}.")
    return said
