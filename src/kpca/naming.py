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
    labels = np.empty(len(ids), dtype=object)
    labels[:] = list(ids)  # one label per row, tuples and texts of any length included
    if len(labels) != m:
        raise InputError(f"ids must be one for each of the {m} rows; got {len(labels)}.")
    plain = np.array(list(ids))
    return plain if plain.shape == labels.shape else labels
