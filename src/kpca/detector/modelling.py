"""What a detector's model is made of: which rows and columns, scaled how, with which kernel and how many components.

Also which rows are held out for limits, and which ones a model is fitted to meanwhile.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.model_selection import KFold
from sklearn.preprocessing import RobustScaler, StandardScaler

from kpca import kernels
from kpca._base.errors import InputError, InputWarning, Setting
from kpca._base.linalg import largest_eigenpairs
from kpca._base.threads import kept_single_threaded, single_threaded
from kpca.detector.limits import Measure, measure_by
from kpca.estimators.approximate import landmark_projection
from kpca.estimators.incremental import IncrementalKernelPCA
from kpca.estimators.kernel_pca import KernelPCA
from kpca.features import Nystroem
from kpca.features.nystroem_map import NystroemMap
from kpca.features.scatter import scatter_of
from kpca.kernels.base import has_bandwidth, widened

FloatArray = NDArray[Any]
Indices = NDArray[np.intp]
Model = KernelPCA | IncrementalKernelPCA
# From this many rows on, this many of them are held out once, instead of each of them in turn.
_MANY_ROWS, _HELD_OUT = 50_000, 20_000
_WIDE = 8.0  # a bandwidth of this many median distances, times the root of the number of columns
# Components where none are asked for: one per column and one per this many rows, but not more than these.
_MOST_BY_COLUMNS = 100
_ROWS_EACH, _MOST_BY_ROWS = 30, 30
_FEWEST_ROWS_EACH = 5
# Rows up to which "auto" is exact, and the landmarks it takes beyond: a wide kernel needs few.
_EXACT_ROWS = 5000
_LANDMARKS, _LANDMARKS_PER_COMPONENT = 300, 4
# Folds share the landmarks and scales of all rows where theirs differ by no more than this, relative to the scale, and
# where so many landmarks are left to each component.
_ALIKE, _LANDMARKS_LEFT = 0.05, 2
_NEGATIVE = 1e-6  # negative residuals beyond this share of the variance are not rounding
# Up to so many rows a fit is LAPACK's, once and for each fold; its threads gain little and lose all on a busy machine.
_CALM_ROWS = 2000


def compare_names(known: Sequence[str] | None, names: Sequence[str] | None) -> None:
    """Refuse other columns than those of the fit, or another order, where both have names."""
    if known is None or names is None or list(known) == list(names):
        return
    if len(known) != len(names):
        raise InputError(f"columns must be the {len(known)} of the fit; got {len(names)}.")
    expected, got = next((name, other) for name, other in zip(known, names, strict=True) if name != other)
    raise InputError(f"columns must be those of the fit, in that order; got {got!r} in place of {expected!r}.")


@contextmanager
def _silenced(message: str) -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=message)
        yield


# Silences the remark that rows have no names: they have been compared, or are numbers in the order of the fit.
names_are_known = partial(_silenced, "X does not have valid feature names")


def is_labelled_row(row: Any) -> bool:
    """Return True for a row of a pandas frame."""
    return hasattr(row, "iloc") and hasattr(row, "name") and not hasattr(row, "columns")


def lagged(X: FloatArray, lags: int, history: FloatArray | None = None) -> FloatArray:
    """Return the rows (x_t, x_{t-1}, ..., x_{t-lags}) of a process that remembers.  # shape: (m, d (lags + 1))

    The history are rows that came before, the newest last; before it lies its first row again and again.
    """
    if lags == 0 or len(X) == 0:
        return X if lags == 0 else np.empty((0, X.shape[1] * (lags + 1)), X.dtype)
    series = X if history is None else np.concatenate([history[-lags:], X])
    missing = np.repeat(series[:1], lags + len(X) - len(series), axis=0)
    series = np.concatenate([missing, series])
    return np.column_stack([series[lags - lag : len(series) - lag] for lag in range(lags + 1)])


def remembered(X: FloatArray, lags: int, history: FloatArray | None = None) -> FloatArray | None:
    """Return the rows that the next ones need: the newest, as many as there are lags; None if there are no lags."""
    if lags == 0:
        return None
    series = X if history is None else np.concatenate([history, X])
    return series[len(series) - min(lags, len(series)) :].copy()


def fitted_scaler(scale: str | None, X: Any) -> Any:
    """Return scikit-learn's scaler of these rows, None for none; zeros of sparse rows stay zeros."""
    if scale is None:
        return None
    dense = not sparse.issparse(X)
    if scale == "robust":
        return RobustScaler(with_centering=dense).fit(X)
    return StandardScaler(with_mean=dense).fit(X)


def scaled(scaler: Any, X: Any) -> Any:
    """Return rows on the scale of those that a scaler was fitted to."""
    if scaler is None or X.shape[0] == 0:
        return X
    centres = scaler.with_centering if isinstance(scaler, RobustScaler) else scaler.with_mean
    # dense, as a scaler either refuses to centre sparse rows or leaves it out without a word
    return scaler.transform(X.toarray() if centres and sparse.issparse(X) else X)


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
        fitted = others[apart[others]]
        if len(fitted) < 2:
            near = f", as rows within {lags} of a row held out share moments with it" if lags else ""
            left = f"folds={folds!r} leaves {len(fitted)} of {n}{near}"
            remedy = f"give more rows{', fewer lags, folds in blocks' if lags else ''} or other folds"
            raise InputError(f"Limits need at least 2 rows to fit while others are held out; {left}", remedy=remedy)
        yield fitted, held


def _given(rows: Any, folds: Any) -> Iterator[tuple[Indices, Indices]]:
    """Yield the splits of a cross-validator, which has nothing but rows to go by."""
    try:
        yield from folds.split(rows)
    except (TypeError, ValueError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        must = f"must split these {rows.shape[0]} rows, without labels and groups, as KFold(5) does"
        raise InputError(f"{must}; {type(folds).__name__} cannot ({reason})", param="folds") from error


def _is_cross_validator(folds: Any) -> bool:
    return hasattr(folds, "split") and hasattr(folds, "get_n_splits")


def kernel_for(rows: Any, X: Any, scale: str | None, kernel: Any, gamma: Any, **parameters: Any) -> kernels.Kernel:
    """Return the kernel that is asked for; "wide" widens one that has a bandwidth and was asked for by name.

    Refuses rows that it does not take, and says so if it would take X, the rows before they were scaled.
    """
    if isinstance(gamma, str) and gamma not in ("wide", "scale", "median"):
        must = "must be a positive number, one per feature, None, 'wide', 'scale' or 'median'"
        raise InputError(must, param="gamma", value=gamma)
    wide = isinstance(gamma, str) and gamma == "wide"
    resolved = kernels.resolve_gamma("median" if wide else gamma, rows)
    found = kernels.resolve(kernel, rows, gamma=resolved, **parameters)
    if wide and isinstance(kernel, str) and has_bandwidth(found):
        found = widened(found, _WIDE * float(np.sqrt(rows.shape[1]))) or found
    elif wide:
        found = kernels.resolve(kernel, rows, gamma=kernels.resolve_gamma(None, rows), **parameters)
    try:
        found.check(rows)
    except InputError:
        if scale is None:
            raise
        found.check(X)
        why = f"Kernel {found.name!r} takes values of 0 or above, and columns that are scaled have others; got "
        raise InputError((why, Setting("scale", scale)), remedy=("give ", Setting("scale", None))) from None
    return found


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

    def model(self, rows: Any, n: int | None) -> Model:
        """Return the model of some of n rows: with landmarks, if n is that many, or None: it goes on learning then."""
        features, whole = self.approximation, isinstance(self.count, int)
        auto = isinstance(features, str) and features == "auto"
        count = min(self.count, int(rows.shape[0])) if whole else self.count
        if auto or features is None:
            if n is not None and (not auto or n <= _EXACT_ROWS or isinstance(self.kernel, kernels.Linear)):
                exact = KernelPCA(count, kernel=self.kernel, copy_X=False, n_jobs=self.n_jobs)
                with kept_single_threaded() if rows.shape[0] <= _CALM_ROWS else nullcontext():
                    return exact.fit(rows)
            rank = max(_LANDMARKS, int(_LANDMARKS_PER_COMPONENT * self.count) if whole else 0)
            known = self.kernel.psd_in(rows.shape[1])
            features = Nystroem(rank=rank, landmarks="rpcholesky" if known else "kmeans")
        given: dict[str, Any] = {"kernel": self.kernel, "approximation": features, "forgetting": self.forgetting}
        model = IncrementalKernelPCA(count, random_state=self.seed, n_jobs=self.n_jobs, **given)
        with _silenced(".*landmarks? explains? all rows"):  # fewer will do: of a wide kernel that is to be expected
            return model.fit(rows)


@dataclass(frozen=True)
class Fold:
    """Rows that are held out, and what a model that knows nothing of them can be made from."""

    held: Indices
    others: Indices  # all rows that are not fitted, those held among them
    basis: NDArray[np.bool_]  # landmarks of the model of all rows that are none of these


def shared_folds(
    model: Model, rows: Any, parts: Sequence[tuple[Indices, Indices]], scale: str | None
) -> list[Fold] | None:
    """Return folds whose models may share landmarks and scales with the model of all rows; None if they may not.

    Of many rows most say the same, and what a part of them says of scales is what all do. A row that lies so far out
    that it decides on a scale is found out by the scale without it; folds then need models of their own.
    """
    n, features = rows.shape[0], None if isinstance(model, KernelPCA) else model.feature_map_
    if n <= _EXACT_ROWS or sparse.issparse(rows) or not isinstance(features, NystroemMap):
        return None
    folds = []
    for fitted, held in parts:
        apart = np.ones(n, dtype=bool)
        apart[fitted] = False
        others = np.flatnonzero(apart)
        left_out = {row.tobytes() for row in rows[others]}
        basis = np.array([point.tobytes() not in left_out for point in features.landmarks])
        scaler = fitted_scaler(scale, rows[fitted])
        alike = scaler is None or np.abs(scaled(scaler, np.eye(rows.shape[1])) - np.eye(rows.shape[1])).max() <= _ALIKE
        enough = basis.sum() >= _LANDMARKS_LEFT * model.n_components_
        if not (alike and enough and len(fitted) + len(others) == n and 2 * len(others) <= n):
            return None
        folds.append(Fold(held, others, basis))
    return folds


def measure_without(model: IncrementalKernelPCA, rows: Any, fold: Fold, most: int, *, threads: int) -> Measure:
    """Return the statistics by the model of all rows but some, of at `most` so many components.

    Sums over the rest are those over all rows less those over the others. Landmarks among the others are left out of
    the basis: with f the features, other landmarks z span the directions f(z), and components are found among these.
    """
    stream = model._ready
    features = model.feature_map_
    assert isinstance(features, NystroemMap) and stream.scatter is not None
    rest = stream.scatter.merged(scatter_of(features, rows[fold.others], threads=threads).faded(-1.0))
    with single_threaded():
        Q = np.linalg.qr(features(features.landmarks[fold.basis].astype(np.float64)).T)[0]  # shape: (r, s)
        found = largest_eigenpairs(Q.T @ rest.operator(centred=True) @ Q, min(model.n_components_, Q.shape[1]))
        directions, mean = Q @ found.vectors, Q @ (Q.T @ rest.mean)
    projection = landmark_projection(features, directions, mean, features.precision(rows.dtype))
    return measure_by(projection, found.values / (rest.mass - 1.0), rows.dtype, most)


def warn_of_model(model: Model, measure: Measure, residuals: FloatArray | None) -> None:
    """Warn of a model under which rows far away can look normal; no `residuals` if nothing is judged by them."""
    if not len(measure.variances) and not isinstance(model, KernelPCA):  # which says so itself
        alike = "All rows are alike under this kernel, so there is no variance to judge others by"
        warnings.warn(InputWarning(f"{alike}: take a narrower bandwidth."), stacklevel=4)
    below = 0.0 if residuals is None else float(np.mean(residuals < -_NEGATIVE * measure.variances.sum()))
    if below:
        said = (
            f"The SPE of {below:.0%} of the rows is negative: the kernel is not positive semidefinite, its residuals "
            "are no squared lengths, and rows far away can look normal; take another kernel, or "
        )
        warnings.warn(InputWarning((said, Setting("statistic", "t2"))), stacklevel=4)
