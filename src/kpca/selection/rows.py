"""What a search is made on: rows, labels, folds and numbers of components, checked."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import KFold, StratifiedKFold, check_cv

from kpca import inputs
from kpca.chunks import as_source, in_memory, sample_rows
from kpca.errors import InputError
from kpca.kernel_pca import KernelPCA

# Numbers of components that are tried where none are given.
LADDER = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
FOLDS = 3
# Whole numbers in a float column are classes if there are no more of them.
_CLASSES = 20


def searched_rows(X: Any, y: Any, max_rows: int, seed: int) -> tuple[Any, NDArray[Any] | None]:
    """Return the rows of a search with their labels: all, or a sample of at most so many."""
    if not in_memory(X):
        if y is not None:
            raise InputError("Labels must come with rows in memory; these are read in chunks: load a sample of both.")
        rows = inputs.check_data(KernelPCA(), sample_rows(as_source(X), max_rows, seed), reset=True)
        inputs.check_rows(rows.shape[0])
        return rows, None
    rows = inputs.check_data(KernelPCA(), X, reset=True)
    inputs.check_rows(rows.shape[0])
    labels = None if y is None else check_labels(y, rows.shape[0])
    if rows.shape[0] > max_rows:
        some = np.sort(np.random.default_rng(seed).choice(rows.shape[0], max_rows, replace=False))
        rows, labels = rows[some], None if labels is None else labels[some]
    return rows, labels


def check_labels(y: Any, n: int) -> NDArray[Any]:
    """Return labels as an array: float for numbers to predict, anything else for classes."""
    labels = np.asarray(y)
    if labels.ndim not in (1, 2) or len(labels) != n:
        raise InputError(f"y must have one entry per row, {n} in all; got shape {labels.shape}.")
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.dtype.kind == "f":
        if not np.isfinite(labels).all():
            raise InputError("y must be finite; got NaN or infinity: remove such rows.")
        if (labels == np.round(labels)).all() and len(np.unique(labels)) <= _CLASSES:
            labels = labels.astype(np.int64)  # classes that went through a float column
    elif labels.dtype.kind == "O":
        labels = labels.astype(str)
    if labels.ndim == 2 and labels.dtype.kind != "f":
        raise InputError(f"y must be one class per row, or numbers; got {labels.dtype} of shape {labels.shape}.")
    return labels


def component_counts(wanted: Any, n: int, cv: Any) -> tuple[int, ...]:
    """Return the numbers of components to try, ascending, none larger than the folds allow."""
    folds = int(cv) if isinstance(cv, Integral) else FOLDS
    most = n - 1 if cv is None else max(1, n - -(-n // max(folds, 2)) - 1)
    if wanted is None:
        return tuple(count for count in LADDER if count <= most)
    several = [wanted]
    if isinstance(wanted, Sequence | np.ndarray) and not isinstance(wanted, str):
        several = list(wanted)
    if not several:
        raise InputError(f"n_components must be a whole number, a list of them or None; got {wanted!r}.")
    for count in several:
        if isinstance(count, bool) or not isinstance(count, Integral) or not 1 <= int(count) <= most:
            raise InputError(f"n_components must be whole numbers from 1 to {most} for these rows; got {count!r}.")
    return tuple(sorted({int(count) for count in several}))


def folds_of(cv: Any, X: Any, y: NDArray[Any] | None, seed: int) -> list[tuple[Any, Any]]:
    """Return pairs of row numbers to fit to and to judge by."""
    n = X.shape[0]
    if isinstance(cv, Integral) and not isinstance(cv, bool):
        if not 2 <= int(cv) <= n:
            raise InputError(f"cv must be from 2 folds to one per row, {n}; got {cv!r}.")
        sizes = np.zeros(1) if y is None or y.dtype.kind == "f" else np.unique(y, return_counts=True)[1]
        if sizes.max() >= int(cv):
            splitter: Any = StratifiedKFold(int(cv), shuffle=True, random_state=seed % 2**32)
        else:
            splitter = KFold(int(cv), shuffle=True, random_state=seed % 2**32)
    else:
        try:
            splitter = check_cv(cv)
        except ValueError as error:
            raise InputError(f"cv must be a number of folds or a splitter of scikit-learn; got {cv!r}.") from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a class has fewer members than there are folds
            return [(fit, held_out) for fit, held_out in splitter.split(np.empty((n, 1)), y)]
    except ValueError as error:
        raise InputError(f"cv must split these rows; scikit-learn says: {error}") from error
