"""What is in the columns of a table, found in one reading of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kpca.data.rows import Rows, Table
from kpca.io.results import watched

FloatArray = NDArray[Any]
_MOST_DIFFERENT = 10_000  # values of a category that are counted


@dataclass(frozen=True)
class Column:
    """One column: for numbers the range and the mean, for categories how many are different (None beyond 10 000)."""

    name: str
    kind: str  # "number" or "category"
    missing: int
    smallest: float | None = None
    mean: float | None = None
    largest: float | None = None
    different: int | None = None

    @property
    def figures(self) -> tuple[float | None, float | None, float | None, int | None]:
        """The figures of a line of a table."""
        return self.smallest, self.mean, self.largest, self.different


def summary_of(table: Table) -> list[Column]:
    """Return a summary of each column that is number or category, in this order."""
    numbers = _Numbers(len(table.layout.numbers))
    values: dict[str, set[str | None]] = {name: set() for name in table.layout.categories}
    missing = dict.fromkeys(values, 0)
    for rows in watched(table):
        numbers.add(rows)
        for name, known in values.items():
            missing[name] += sum(value is None for value in rows.categories[name])
            if len(known) <= _MOST_DIFFERENT + 1:  # with None
                known.update(rows.categories[name], [None])
    found = numbers.columns(table.layout.numbers)
    for name, known in values.items():
        count = len(known - {None})
        found.append(Column(name, "category", missing[name], different=count if count <= _MOST_DIFFERENT else None))
    return found


class _Numbers:
    """Smallest, largest, sum and number of the values of each column that are not missing."""

    def __init__(self, count: int) -> None:
        self._low: FloatArray = np.full(count, np.inf)
        self._high: FloatArray = np.full(count, -np.inf)
        self._mean, self._seen, self._missing = np.zeros(count), *np.zeros((2, count), dtype=np.int64)

    def add(self, rows: Rows) -> None:
        if not len(rows) or not self._low.size:
            return
        X = rows.numbers
        if sparse.issparse(X):
            low, high = (np.asarray(side.todense()).ravel() for side in (X.min(axis=0), X.max(axis=0)))
            sums, gaps = np.asarray(X.sum(axis=0, dtype=np.float64)).ravel(), np.zeros(X.shape[1], dtype=np.int64)
        else:
            gaps = np.isnan(X).sum(axis=0)
            low, high = np.fmin.reduce(X, axis=0), np.fmax.reduce(X, axis=0)  # NaN only where all are
            sums = np.asarray(np.nansum(X, axis=0, dtype=np.float64))
        lower, higher = (np.minimum, np.maximum) if sparse.issparse(X) else (np.fmin, np.fmax)
        self._low, self._high = lower(self._low, low), higher(self._high, high)
        seen = self._seen + len(rows) - gaps
        count = np.maximum(seen, 1)
        self._mean = self._mean * (self._seen / count) + sums / count
        self._seen, self._missing = seen, self._missing + gaps

    def columns(self, names: tuple[str, ...]) -> list[Column]:
        figures = np.column_stack([self._low, self._mean, self._high]).tolist()
        found = zip(names, self._missing.tolist(), figures, self._seen, strict=True)
        return [Column(name, "number", missing, *(three if seen else ())) for name, missing, three, seen in found]
