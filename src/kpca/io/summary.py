"""What is in the columns of a table, found in one reading of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kpca._base.progress import row_monitor
from kpca.data.rows import Rows, Table

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
    categories = {name: _Category() for name in table.layout.categories}
    monitor = row_monitor(table.n_rows)
    for rows in table.chunks():
        numbers.add(rows)
        for name, category in categories.items():
            category.add(rows.categories[name])
        if monitor is not None:
            monitor(len(rows))
    found = numbers.columns(table.layout.numbers)
    return [*found, *(category.column(name) for name, category in categories.items())]


class _Numbers:
    """Smallest, largest, sum and number of the values of each column that are not missing."""

    def __init__(self, count: int) -> None:
        self._low, self._high = np.full(count, np.inf), np.full(count, -np.inf)
        self._mean, self._seen = np.zeros(count), np.zeros(count, dtype=np.int64)
        self._missing = np.zeros(count, dtype=np.int64)

    def add(self, rows: Rows) -> None:
        if not len(rows) or not self._low.size:
            return
        X = rows.numbers
        if sparse.issparse(X):
            low, high = (np.asarray(side.todense()).ravel() for side in (X.min(axis=0), X.max(axis=0)))
            sums, gaps = np.asarray(X.sum(axis=0, dtype=np.float64)).ravel(), np.zeros(X.shape[1], dtype=np.int64)
        else:
            missing = np.isnan(X)
            gaps = missing.sum(axis=0)
            low = np.where(missing, np.inf, X).min(axis=0)
            high = np.where(missing, -np.inf, X).max(axis=0)
            sums = np.where(missing, 0.0, X).sum(axis=0, dtype=np.float64)
        here = len(rows) - gaps
        np.minimum(self._low, low, out=self._low)
        np.maximum(self._high, high, out=self._high)
        seen = self._seen + here
        with np.errstate(invalid="ignore", divide="ignore"):
            self._mean = np.where(
                seen > 0, self._mean * (self._seen / np.maximum(seen, 1)) + sums / np.maximum(seen, 1), 0
            )
        self._seen, self._missing = seen, self._missing + gaps

    def columns(self, names: tuple[str, ...]) -> list[Column]:
        return [
            Column(
                name,
                "number",
                int(self._missing[j]),
                *(
                    (None, None, None)
                    if not self._seen[j]
                    else (float(self._low[j]), float(self._mean[j]), float(self._high[j]))
                ),
            )
            for j, name in enumerate(names)
        ]


class _Category:
    """The different values of a column, up to a number of them."""

    def __init__(self) -> None:
        self._values: set[str] | None = set()
        self._missing = 0

    def add(self, values: NDArray[Any]) -> None:
        self._missing += sum(value is None for value in values)
        if self._values is not None:
            self._values.update(value for value in values if value is not None)
            if len(self._values) > _MOST_DIFFERENT:
                self._values = None

    def column(self, name: str) -> Column:
        return Column(name, "category", self._missing, different=None if self._values is None else len(self._values))
