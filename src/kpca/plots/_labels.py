"""Labels of rows as a picture can show them: a few classes, or a scale of numbers, and rows that have none."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca._base.errors import InputError
from kpca._base.validation import check_mask
from kpca.data.rows import is_missing
from kpca.plots._given import FloatArray, power_of, times, without
from kpca.plots.axes import plain

MOST_CLASSES = 10  # colours and shapes that can be told apart
OTHERS = "others"
_YEAR = 365.2425  # days


@dataclass(frozen=True)
class Labels:
    """A class for each row, or a number for each row; -1 and NaN are rows without."""

    codes: NDArray[np.intp] | None  # shape: (m,)
    names: tuple[str, ...] = ()  # of the classes; the last may stand for all that are rare
    values: FloatArray | None = None  # shape: (m,)
    meaning: str = ""  # of the numbers
    power: int = 0  # of ten, that the numbers are without
    rest: int = 0  # classes that the last one stands for, 0 where it is one like the others

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Which rows have no label.  # shape: (m,)"""
        if self.codes is not None:
            return np.asarray(self.codes < 0)
        return np.asarray(np.isnan(np.asarray(self.values)))

    def scale_name(self, otherwise: str = "") -> str:
        """Return what is written at a scale of the numbers."""
        return plain(self.meaning or otherwise, 40) + times(self.power)

    def only(self, rows: Any) -> Labels:
        """Return the labels of some rows; the classes are the same."""
        codes = None if self.codes is None else self.codes[rows]
        return replace(self, codes=codes, values=None if self.values is None else self.values[rows])


def labels_of(y: Any, count: int, meaning: str | None = None) -> Labels | None:
    """Return the labels of `count` rows: classes if at most ten differ, else a scale of numbers.

    Of more than ten texts the nine most frequent are classes, and all others one more.
    """
    if y is None:
        return None
    check_mask(y, "labels", "one for each row")
    if isinstance(y, list | tuple) and not any(np.ndim(label) for label in y):
        given = np.empty(len(y), dtype=object)  # of a list of texts and gaps NumPy would make texts of the gaps
        given[:] = y
    else:
        try:
            given = np.asarray(y)
        except ValueError as error:
            raise InputError(f"Labels must be one per row, {count} in all; got lists of different lengths.") from error
    if given.shape != (count,):
        raise InputError(f"There must be one label per row, {count} in all; got shape {given.shape}.")
    name = str(meaning or getattr(y, "name", None) or "")
    if given.dtype.kind == "c":
        raise InputError("Labels must be classes or real numbers; got complex numbers: show a part of them.")
    if given.dtype.kind == "O":
        given = _settled(given)
    if given.dtype.kind in "mM":
        return _times(given, name)
    if given.dtype.kind in "iuf":
        return _numbers(given, name)
    if given.dtype.kind == "b":
        return Labels(given.astype(np.intp), ("False", "True"))
    return _classes(given)


def _times(given: NDArray[Any], name: str) -> Labels:
    """Return points in time as classes where they are few, else as years; spans of time as seconds."""
    if given.dtype.kind == "M":
        if len(np.unique(given[~np.isnat(given)])) <= MOST_CLASSES:
            return _classes(np.array([None if np.isnat(time) else str(time) for time in given], dtype=object))
        days = given.astype("datetime64[s]").astype(np.float64) / 86_400.0
        values = np.where(np.isnat(given), np.nan, 1970.0 + days / _YEAR)
        return Labels(None, values=values, meaning=name or "year")
    seconds = np.where(np.isnat(given), np.nan, given.astype("timedelta64[ms]").astype(np.float64) / 1e3)
    return _numbers(seconds, name or "seconds")


def _settled(given: NDArray[Any]) -> NDArray[Any]:
    """Return objects as numbers or points in time, where all are; as they are else."""
    there = np.array([not is_missing(label) for label in given], dtype=bool)
    kept = given[there]
    if not len(kept):
        return np.full(len(given), np.nan)
    if all(isinstance(label, bool | np.bool_) for label in kept) and there.all():
        return given.astype(bool)
    if all(isinstance(label, Real | Decimal) and not isinstance(label, bool | np.bool_) for label in kept):
        numbers = np.full(len(given), np.nan)
        numbers[there] = [_as_float(label) for label in kept]
        return numbers
    if all(hasattr(label, "isoformat") and hasattr(label, "year") for label in kept):
        times = np.full(len(given), np.datetime64("NaT"), dtype="datetime64[s]")
        local = (label.replace(tzinfo=None) if hasattr(label, "hour") else label for label in kept)
        times[there] = [np.datetime64(label) for label in local]
        return times
    return given


def _as_float(label: Any) -> float:
    try:
        return float(label)
    except OverflowError:  # a whole number beyond all floats
        return np.inf


def _numbers(given: NDArray[Any], name: str) -> Labels:
    values = given.astype(np.float64)
    values[~np.isfinite(values)] = np.nan
    there = ~np.isnan(values)
    found = np.unique(values[there])
    if len(found) > MOST_CLASSES:
        power = power_of(found)
        return Labels(None, values=without(values, power), meaning=name, power=power)
    codes = np.where(there, np.searchsorted(found, values), -1)
    short = (int(value) if value.is_integer() and abs(value) < 1e15 else value for value in found.tolist())
    return Labels(codes, tuple(map(repr, short)))


def _classes(given: NDArray[Any]) -> Labels:
    """Return texts as classes; by a table of names: sorting half a million texts takes seconds."""
    table: dict[str, int] = {}
    codes = np.empty(len(given), dtype=np.intp)
    for row, label in enumerate(given.tolist()):
        text = label.decode("utf-8", "replace") if isinstance(label, bytes) else str(label)
        codes[row] = -1 if is_missing(label) else table.setdefault(text, len(table))
    kept = found = sorted(table)
    if len(found) > MOST_CLASSES:
        # the most frequent, and of those that are equally frequent the first by name; shown in the order of names
        counts = np.bincount(codes[codes >= 0]).tolist()
        kept = sorted(sorted(found, key=lambda name: -counts[table[name]])[: MOST_CLASSES - 1])
    number = np.full(len(found) + 1, len(kept), dtype=np.intp)
    number[[table[name] for name in kept]] = np.arange(len(kept))
    number[-1] = -1  # a row without a label stays one
    rest = len(found) - len(kept)
    return Labels(number[codes], (*kept, *([f"{OTHERS} ({rest:,} classes)"] if rest else [])), rest=rest)


def sample_of(labels: Labels, most: int, least: int) -> NDArray[np.intp]:
    """Return at most about this many rows, of each class its share but not fewer than `least`, in mixed order."""
    assert labels.codes is not None
    rng = np.random.default_rng(0)
    parts = [np.empty(0, dtype=np.intp)]
    for number in range(len(labels.names)):
        rows = np.flatnonzero(labels.codes == number)
        size = min(len(rows), max(least, round(most * len(rows) / max(len(labels.codes), 1))))
        parts.append(rng.choice(rows, size, replace=False))
    return np.asarray(rng.permutation(np.concatenate(parts)), dtype=np.intp)
