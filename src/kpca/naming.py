"""What columns and rows are called."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca.errors import InputError
from kpca.storage.frames import is_frame


def column_names(given: Sequence[Any] | None, known: Iterable[Any] | None, X: Any, d: int) -> tuple[str, ...]:
    """Return the names of d columns: those given, those of the fit, those of the data frame X, or x0, x1, ..."""
    if given is not None:
        if not isinstance(given, Iterable):
            raise InputError(f"names must be one for each of the {d} columns; got {given!r}.")
        names = tuple(str(name) for name in given) if not isinstance(given, str) else (given,)
        if len(names) != d:
            raise InputError(f"names must be one for each of the {d} columns; got {len(names)}.")
        return names
    if known is not None:
        found = tuple(str(name) for name in known)
        if len(found) == d:  # the names of a fit to lagged or transformed rows are others than those asked for
            return found
    if is_frame(X) and len(X.columns) == d:
        return tuple(str(name) for name in X.columns)
    return tuple(f"x{column}" for column in range(d))


def row_labels(ids: Any, X: Any, m: int) -> NDArray[Any]:
    """Return what the m rows are called: ids, the index of a pandas frame, or their numbers.  # shape: (m,)"""
    if ids is None:
        return np.asarray(X.index) if is_frame(X) and hasattr(X, "iloc") else np.arange(m)
    if isinstance(ids, str) or not isinstance(ids, Iterable):
        raise InputError(f"ids must be one for each of the {m} rows; got {ids!r}.")
    given = list(ids)
    if len(given) != m:
        raise InputError(f"ids must be one for each of the {m} rows; got {len(given)}.")
    labels = np.empty(m, dtype=object)
    for row, label in enumerate(given):  # one by one: arrays would be made of tuples and lists
        labels[row] = label
    if len({type(label) for label in given}) == 1 and isinstance(given[0], str | int | float | np.generic):
        return np.array(given)
    return labels
