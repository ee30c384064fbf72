"""Which rows are held out for limits, and which ones a model is fitted to meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import KFold

from kpca.errors import InputError

Indices = NDArray[np.intp]
# From so many rows on, this many of them are held out once, instead of each of them in turn.
_MANY_ROWS, _HELD_OUT = 50_000, 20_000


def check_folds(folds: Any) -> None:
    """Refuse what is neither a number of parts nor a cross-validator."""
    whole = isinstance(folds, Integral) and not isinstance(folds, bool)
    if not (_is_cross_validator(folds) or (whole and folds >= 2)):
        raise InputError(f"folds must be a whole number from 2 or a cross-validator of scikit-learn; got {folds!r}.")


def splits(rows: Any, folds: Any, *, lags: int, seed: int) -> Iterator[tuple[Indices, Indices]]:
    """Yield which rows are fitted and which are held out; with lags these have no moment in common."""
    n = rows.shape[0]
    if _is_cross_validator(folds):
        found = _given(rows, folds)
    elif n > _MANY_ROWS and not lags:
        order = np.random.default_rng(seed).permutation(n)
        found = iter([(np.sort(order[_HELD_OUT:]), np.sort(order[:_HELD_OUT]))])
    else:
        # blocks in time, if there are lags
        parts = KFold(min(int(folds), n), shuffle=not lags, random_state=None if lags else seed)
        found = parts.split(np.empty(n))
    for others, held in found:
        apart = np.ones(n, dtype=bool)
        for lag in range(-lags, lags + 1) if lags else ():
            apart[np.clip(held + lag, 0, n - 1)] = False
        fitted = others[apart[others]] if lags else others
        if len(fitted) < 2:
            near = f", as rows within {lags} of a row held out share moments with it" if lags else ""
            raise InputError(
                f"Limits need at least 2 rows to fit while others are held out; folds={folds!r} leaves {len(fitted)} "
                f"of {n}{near}: give more rows{', fewer lags, folds in blocks' if lags else ''} or other folds."
            )
        yield fitted, held


def _given(rows: Any, folds: Any) -> Iterator[tuple[Indices, Indices]]:
    """Yield the splits of a cross-validator, which has nothing but rows to go by."""
    try:
        yield from folds.split(rows)
    except (TypeError, ValueError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise InputError(
            f"folds must split these {rows.shape[0]} rows, without labels and groups, as KFold(5) does; "
            f"{type(folds).__name__} cannot ({reason})."
        ) from error


def _is_cross_validator(folds: Any) -> bool:
    return hasattr(folds, "split") and hasattr(folds, "get_n_splits")
