"""What the cost of a fit depends on: sizes, the kernel and the limits; and some rows, where there are data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from kpca.gram._numpy import has_single
from kpca.gram.operator import many_rows
from kpca.kernels import Kernel, Linear
from kpca.planning.memory import prepared_bytes, prepared_columns, rows_bytes

# Rows that stand for all where costs are measured and spectra estimated.
SAMPLE_ROWS = 1000
_MADE_UP_ROWS = 640


@dataclass(frozen=True)
class Problem:
    """A fit as the planner sees it."""

    n: int
    d: int
    n_components: int | float | str | None
    kernel: Kernel | None  # None: the matrix is given
    itemsize: int  # of a number of the data
    sample: Any  # some rows, drawn or, without data, made up; shape: (<= SAMPLE_ROWS, d)
    measured: bool  # the sample is of real rows, so its spectrum says something
    nnz: int | None  # numbers in sparse rows
    single: bool  # float32 tiles are of use
    held: int  # bytes of the data and what evaluators make of them, both precisions
    held_single: int  # the same without float64
    tol: float
    eigen_solver: str
    center: bool
    threads: int
    limit: int
    explicit_limit: bool
    inverse: int = 0  # rows that the way back is learned from
    rank: int | None = None
    pivoted: bool = True  # landmarks are chosen by pivoted Cholesky

    @property
    def linear(self) -> bool:
        """True for the linear kernel, which has routes of its own."""
        return isinstance(self.kernel, Linear)


def drawn_rows(X: Any) -> Any:
    """Return rows at equal distances, from the first on."""
    step = max(1, -(-X.shape[0] // SAMPLE_ROWS))
    return X[::step]


def made_up_rows(n: int, d: int, dtype: np.dtype[Any]) -> Any:
    """Return rows for timing a kernel that has no data yet; positive, because some kernels ask for that."""
    rows = np.abs(np.random.default_rng(0).standard_normal((min(n, _MADE_UP_ROWS), d)))
    return rows.astype(dtype)


def held_bytes(kernel: Kernel | None, X: Any, n: int, d: int, itemsize: int) -> tuple[int, int, bool]:
    """Return what lies in memory with and without float64 evaluators, and whether float32 tiles are of use."""
    if kernel is None:
        data = rows_bytes(X) if X is not None else n * n * itemsize
        return data, data, False
    if X is None:
        per_row = prepared_columns(kernel, d)
        data, double, single = n * d * itemsize, 8 * n * per_row, 4 * n * per_row
        useful = many_rows(n) and per_row > 0
    else:
        data, double, single = rows_bytes(X), prepared_bytes(kernel, X), prepared_bytes(kernel, X, 4)
        useful = many_rows(n) and not sparse.issparse(X) and has_single(kernel, X)
    if not useful:
        return data + double, data + double, False
    return data + single + double, data + single, True
