"""Which model a detector stands on: kernel, number of components, exact or by landmarks."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca import blas, kernels
from kpca.errors import InputError
from kpca.features import Nystroem
from kpca.incremental import IncrementalKernelPCA
from kpca.kernel_pca import KernelPCA
from kpca.kernels.widening import has_bandwidth, widened
from kpca.statistics import Measure

FloatArray = NDArray[Any]
# What gamma may be called.
_RULES = ("wide", "scale", "median")
Model = KernelPCA | IncrementalKernelPCA
# A bandwidth of so many median distances, times the root of the number of columns.
_WIDE = 8.0
# Components where none are asked for: one per column and one per so many rows, but not more than these.
_MOST_BY_COLUMNS = 100
_ROWS_EACH, _MOST_BY_ROWS = 30, 30
_FEWEST_ROWS_EACH = 5
# Rows up to which "auto" is exact, and the landmarks it takes beyond: a wide kernel needs few.
_EXACT_ROWS = 5000
_LANDMARKS, _LANDMARKS_PER_COMPONENT = 300, 4
# Negative residuals beyond this share of the variance are not rounding.
_NEGATIVE = 1e-6
# Up to so many rows a fit is LAPACK's, once and for each fold; its threads gain little and lose all on a busy machine.
_CALM_ROWS = 2000


def kernel_for(rows: Any, kernel: Any, gamma: Any, **parameters: Any) -> kernels.Kernel:
    """Return the kernel that is asked for, "wide" included."""
    if isinstance(gamma, str) and gamma not in _RULES:
        raise InputError(
            f"gamma must be a positive number, one per feature, None, 'wide', 'scale' or 'median'; got {gamma!r}."
        )
    if isinstance(gamma, str) and gamma == "wide":
        return wide_kernel(rows, kernel, **parameters)
    return kernels.resolve(kernel, rows, gamma=kernels.resolve_gamma(gamma, rows), **parameters)


def wide_kernel(rows: Any, kernel: Any, **parameters: Any) -> kernels.Kernel:
    """Return a named kernel with a bandwidth of 8 sqrt(d) median distances; any other as it is.

    A name without distances has gamma 1/n_features.
    """
    gamma = kernels.resolve_gamma("median", rows)
    found = kernels.resolve(kernel, rows, gamma=gamma, **parameters)
    if not (isinstance(kernel, str) and has_bandwidth(found)):
        return kernels.resolve(kernel, rows, gamma=kernels.resolve_gamma(None, rows), **parameters)
    return widened(found, _WIDE * float(np.sqrt(rows.shape[1]))) or found


def components_for(asked: int | float | None, n: int, d: int) -> int | float:
    """Return how many components, or which share of the variance, are taken of n rows of d columns."""
    if asked is not None:
        return int(asked) if isinstance(asked, Integral) else float(asked)
    by_columns, by_rows = min(d, _MOST_BY_COLUMNS), min(n // _ROWS_EACH, _MOST_BY_ROWS)
    return max(1, min(by_columns + by_rows, n // _FEWEST_ROWS_EACH))


@dataclass(frozen=True)
class Recipe:
    """All that decides on a model, but for its rows."""

    kernel: kernels.Kernel
    count: int | float
    approximation: Any
    forgetting: float
    seed: int
    n_jobs: int | None

    def model(self, rows: Any, n: int) -> Model:
        """Return the model of some of n rows: with landmarks, if n is that many."""
        features = self.approximation
        if self._auto:
            exact = n <= _EXACT_ROWS or isinstance(self.kernel, kernels.Linear)
            features = None if exact else self._landmarks()
        if features is not None:
            return self._incremental(rows, features)
        model = KernelPCA(self._count(rows), kernel=self.kernel, copy_X=False, n_jobs=self.n_jobs)
        with blas.kept_single_threaded() if rows.shape[0] <= _CALM_ROWS else nullcontext():
            return model.fit(rows)

    def stream(self, rows: Any) -> IncrementalKernelPCA:
        """Return a model that can go on learning."""
        features = self._landmarks() if self._auto or self.approximation is None else self.approximation
        return self._incremental(rows, features)

    @property
    def _auto(self) -> bool:
        return isinstance(self.approximation, str) and self.approximation == "auto"

    def _incremental(self, rows: Any, features: Any) -> IncrementalKernelPCA:
        model = IncrementalKernelPCA(
            self._count(rows),
            kernel=self.kernel,
            approximation=features,
            forgetting=self.forgetting,
            random_state=self.seed,
            n_jobs=self.n_jobs,
        )
        with _few_landmarks_are_enough():
            return model.fit(rows)

    def _count(self, rows: Any) -> int | float:
        return min(self.count, int(rows.shape[0])) if isinstance(self.count, int) else self.count

    def _landmarks(self) -> Nystroem:
        rank = max(_LANDMARKS, _LANDMARKS_PER_COMPONENT * self.count if isinstance(self.count, int) else 0)
        return Nystroem(rank=rank, landmarks="rpcholesky" if self.kernel.psd else "kmeans")


def warn_of_model(model: Model, measure: Measure, residuals: FloatArray | None) -> None:
    """Warn of a model under which rows that are far away can look normal.

    `residuals` are those of the rows of the fit, None if nothing is judged by them.
    """
    if not len(measure.variances) and not isinstance(model, KernelPCA):  # which says so itself
        warnings.warn(
            "All rows are alike under this kernel, so there is no variance to judge others by: take a narrower "
            "bandwidth.",
            UserWarning,
            stacklevel=4,
        )
    below = 0.0 if residuals is None else float(np.mean(residuals < -_NEGATIVE * measure.variances.sum()))
    if below:
        warnings.warn(
            f"The SPE of {below:.0%} of the rows is negative: the kernel is not positive semidefinite, its residuals "
            "are no squared lengths, and rows far away can look normal; take another kernel, or statistic='t2'.",
            UserWarning,
            stacklevel=4,
        )


@contextmanager
def _few_landmarks_are_enough() -> Iterator[None]:
    """Silence the remark that fewer landmarks explain all rows: of a wide kernel that is to be expected."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*landmarks? explains? all rows")
        yield
