"""What a preparation says it did, in sentences."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.preprocessing import MinMaxScaler, RobustScaler, StandardScaler

from kpca.io.preparing.survey import Survey
from kpca.io.reading.roles import listed, quoted


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
        still, why = _without_spread(scaler, survey.sample), "without a distance between the quartiles"
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


def _without_spread(scaler: RobustScaler, sample: Any) -> Any:
    """Return the columns whose quartiles are equal: a scale of 1 may also be what the quartiles say."""
    still = scaler.scale_ == 1
    for column in np.flatnonzero(still):
        values = sample[:, [column]]
        values = values.toarray() if sparse.issparse(values) else values
        still[column] = np.ptp(np.percentile(values, (25.0, 75.0))) < 0.5
    return still
