"""What a search is made on: rows, labels, folds, numbers of components, and a budget of time, all of it checked."""

from __future__ import annotations

import re
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import KFold, StratifiedKFold, check_cv

from kpca._base.config import config, progress_callback
from kpca._base.errors import Cancelled, InputError, InPython, Setting
from kpca._base.validation import check_data, check_mask, check_rows
from kpca.data.rows import is_missing
from kpca.data.sources import as_source, in_memory, sample_rows
from kpca.estimators.kernel_pca import KernelPCA

Indices = NDArray[np.intp]
# Numbers of components that are tried where none are given.
LADDER = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
FOLDS = 3
# Whole numbers are classes if there are no more of them, or if this many rows share one, on average.
_FEW_CLASSES, _ROWS_OF_A_CLASS = 20, 5
_UNITS = {"": 1.0, "s": 1.0, "sec": 1.0, "second": 1.0, "min": 60.0, "m": 60.0, "minute": 60.0, "h": 3600.0}
_UNITS |= {"hour": 3600.0, "ms": 1e-3}


def searched_rows(X: Any, y: Any, max_rows: int, seed: int, cv: Any = FOLDS) -> tuple[Any, NDArray[Any] | None]:
    """Return the rows of a search with their labels: all, or a sample of at most this many."""
    numbered = not (isinstance(cv, Integral) or cv is None or hasattr(cv, "split") or isinstance(cv, str))
    loaded = in_memory(X)
    if not loaded and y is not None:
        raise InputError("Labels must come with rows in memory; these are read in chunks: load a sample of both.")
    if not loaded and numbered:
        raise InputError("cv must be a number of folds or a splitter for rows that are read in chunks.")
    rows = check_data(KernelPCA(), X if loaded else sample_rows(as_source(X), max_rows, seed), reset=True)
    check_rows(rows.shape[0])
    labels = None if y is None else check_labels(y, rows.shape[0])
    some = row_sample(rows.shape[0], max_rows, seed)
    if some is None:
        return rows, labels
    if numbered:
        message = f"cv must be a number of folds or a splitter where rows are sampled; got {rows.shape[0]} rows and "
        raise InputError((message, Setting("max_rows", max_rows)), remedy="row numbers would mean other rows")
    return rows[some], None if labels is None else labels[some]


def row_sample(n: int, most: int, seed: int) -> Indices | None:
    """Return the numbers of at most this many of n rows, ascending, the same for the same seed; None is all of them."""
    return None if n <= most else np.sort(np.random.default_rng(seed).choice(n, most, replace=False))


def some_rows(X: Any, most: int, seed: int) -> Any:
    """Return X, or a sample of its rows where there are more than this many."""
    some = row_sample(X.shape[0], most, seed)
    return X if some is None else X[some]


def check_labels(y: Any, n: int) -> NDArray[Any]:
    """Return labels as an array: float for numbers to predict, anything else for classes."""
    check_mask(y, "y", "an entry per row")
    labels: NDArray[Any] = np.empty(())
    got = "entries of different lengths"
    with suppress(ValueError):
        labels = np.asarray(y)
        got = f"shape {labels.shape}"
    if labels.ndim not in (1, 2) or len(labels) != n:
        raise InputError(f"must have one entry per row, {n}; got {got}", param="y")
    if labels.dtype.kind == "O" or (labels.dtype.kind == "U" and not isinstance(y, np.ndarray)):
        plain = plain_labels(np.asarray(y, dtype=object))  # as text, NaN would be a class
        if plain is None:
            raise InputError("must be known for every row; got None or NaN", param="y", remedy="remove such rows")
        labels = plain
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.dtype.kind == "f":
        if not np.isfinite(labels).all():
            raise InputError("must be finite; got NaN or infinity", param="y", remedy="remove such rows")
        whole = labels.ndim == 1 and (labels == np.round(labels)).all()
        if whole and np.abs(labels).max() < 2**53 and name_classes(labels):
            labels = labels.astype(np.int64)  # classes that went through a float column
    elif labels.dtype.kind in "iu" and labels.ndim == 1 and not name_classes(labels):
        labels = labels.astype(np.float64)  # numbers, not names
    elif labels.dtype.kind in "mM":
        labels = labels.astype(str)
    elif labels.dtype.kind not in "biuU":
        remedy = "convert them to text or numbers"
        raise InputError(f"must be classes or real numbers; got {labels.dtype}", param="y", remedy=remedy)
    if labels.ndim == 2 and labels.dtype.kind != "f":
        raise InputError(f"must be one class per row, or numbers; got {labels.dtype} {labels.shape}", param="y")
    return labels


def name_classes(labels: NDArray[Any], few: float = _FEW_CLASSES) -> bool:
    """Return True for numbers that name classes: there are few of them, or many rows share one."""
    different = len(np.unique(labels))
    return different <= few or _ROWS_OF_A_CLASS * different <= len(labels)


def plain_labels(entries: NDArray[Any]) -> NDArray[Any] | None:
    """Return objects as numbers, if they all are, else as text; None if some are missing."""
    kinds = {type(entry) for entry in entries.ravel()}
    if all(issubclass(kind, Real | np.bool_) for kind in kinds):
        whole = all(issubclass(kind, Integral | np.bool_) for kind in kinds)
        whole = whole and all(abs(int(entry)) < 2**63 for entry in entries.ravel())
        return entries.astype(np.int64 if whole else np.float64)
    return None if any(map(is_missing, entries.ravel())) else entries.astype(str)


def component_counts(wanted: Any, most: int) -> tuple[int, ...]:
    """Return the numbers of components to try, ascending, none larger than the rows of the fits allow."""
    if wanted is None:
        return tuple(count for count in LADDER if count <= most)
    listed = isinstance(wanted, Sequence | np.ndarray) and not isinstance(wanted, str)
    several = list(wanted) if listed else [wanted]
    if not several:
        raise InputError("must be a whole number, a list of them or None", param="n_components", value=wanted)
    for count in several:
        if isinstance(count, bool) or not isinstance(count, Integral) or not 1 <= int(count) <= most:
            message = f"must be whole numbers from 1 to {most} for these rows"
            raise InputError(message, param="n_components", value=count)
    return tuple(sorted({int(count) for count in several}))


def folds_of(cv: Any, n: int, y: NDArray[Any] | None, seed: int) -> list[tuple[Indices, Indices]]:
    """Return pairs of row numbers to fit to and to judge by."""
    if isinstance(cv, Integral) and not isinstance(cv, bool):
        if int(cv) < 2:
            raise InputError(f"must be from 2 folds to one per row, {n}", param="cv", value=cv)
        if int(cv) > n:
            raise InputError((f"must have at least {cv} rows", InPython(f" for cv={cv} folds")), param="X", value=n)
        sizes = np.zeros(1) if y is None or y.dtype.kind == "f" else np.unique(y, return_counts=True)[1]
        kind: Any = StratifiedKFold if sizes.max() >= int(cv) else KFold
        splitter = kind(int(cv), shuffle=True, random_state=seed % 2**32)
    else:
        try:
            splitter = check_cv(cv)
        except ValueError as error:
            raise InputError(f"cv must be a number of folds or a splitter of scikit-learn; got {cv!r}.") from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a class has fewer members than there are folds
            pairs = list(splitter.split(np.empty((n, 1)), y))
    except (TypeError, ValueError) as error:
        said = " ".join(str(error).split())
        raise InputError(f"cv must be able to split these rows, of which scikit-learn says: {said}") from error
    if not pairs:
        raise InputError("cv must give at least one fold; got none.")
    return [(_numbers(fit, n), _numbers(held_out, n)) for fit, held_out in pairs]


def _numbers(part: Any, n: int) -> Indices:
    """Return the row numbers of one side of a fold, which may be marks of rows."""
    numbers = np.asarray(part)
    if numbers.dtype == bool and numbers.shape == (n,):
        numbers = np.flatnonzero(numbers)
    if numbers.ndim != 1 or not numbers.size or numbers.dtype.kind not in "iu":
        got = f"{numbers.dtype} of shape {numbers.shape}"
        raise InputError(f"cv must give row numbers to fit to and to judge by, some of each; got {got}.")
    if numbers.min() < 0 or numbers.max() >= n:
        raise InputError(f"cv must give row numbers from 0 to {n - 1}; got {numbers.min()} to {numbers.max()}.")
    return numbers.astype(np.intp)


def parse_seconds(budget: Any) -> float | None:
    """Return a budget in seconds from a number or from text such as "60s" or "2 min"; None is no limit."""
    if budget is None:
        return None
    seconds: Any = budget
    if isinstance(budget, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", budget.lower())
        unit = match[2] if match else "?"
        unit = unit if unit in _UNITS else unit.removesuffix("s")
        seconds = float(match[1]) * _UNITS[unit] if match and unit in _UNITS else None
    if isinstance(seconds, bool) or not isinstance(seconds, Real) or not 0 < float(seconds) < float("inf"):
        words = ("must be ", InPython("None, "), 'seconds, or text such as "60s" or "2min"')
        raise InputError(words, param="budget", value=budget)
    return float(seconds)


class TimeUp(Cancelled):
    """The budget of time, not the user, ended a fit."""


class Clock:
    """Runs from when it is made; without a budget it never stops."""

    def __init__(self, budget: float | None) -> None:
        self.budget, self._started = budget, time.perf_counter()
        self.asking = threading.Lock()  # fits go side by side, and a callback of the user's is asked one at a time

    @property
    def elapsed(self) -> float:
        return time.perf_counter() - self._started

    @property
    def left(self) -> float:
        return float("inf") if self.budget is None else self.budget - self.elapsed

    @contextmanager
    def stopping(self, reserve: float = 0.0, unless: Callable[[], bool] = lambda: False) -> Iterator[None]:
        """End fits inside with `TimeUp` once no more than the reserve is left; they say nothing of themselves.

        A callback of the user's is still asked after every pass, so that it can stop the whole.
        """
        asked = progress_callback()

        def go_on(state: dict[str, Any]) -> bool:
            if callable(asked):
                with self.asking:
                    answer = asked(state)
                if answer is False:
                    raise Cancelled("The search was cancelled by the progress callback.")
            if self.left <= reserve and not unless():
                raise TimeUp("The time of the search is up.")
            return True

        with config(progress=go_on if callable(asked) or self.budget is not None else False):
            yield
