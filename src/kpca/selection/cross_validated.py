"""What choosing starts from: a model that is meant, and some rows in memory."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

from kpca import kernels
from kpca._base.config import thread_count
from kpca._base.errors import InputError
from kpca._base.linalg import mean_of_rows
from kpca._base.validation import check_data, check_precomputed, check_rows, check_symmetric
from kpca.data.sources import as_source, in_memory, sample_rows
from kpca.estimators.kernel_pca import KernelPCA
from kpca.kernels import RBF
from kpca.preimage import gcv
from kpca.preimage.learned import RidgeMap
from kpca.selection.rows import check_labels, folds_of


class _Unfitted(BaseEstimator):  # type: ignore[misc]
    """Takes what scikit-learn's checks would write on an estimator."""


def meant_model(estimator: Any, parameters: dict[str, Any]) -> KernelPCA:
    """Return an unfitted model: a copy of the estimator, or one of these parameters of KernelPCA."""
    if estimator is not None:
        if parameters:
            name = next(iter(parameters))
            raise InputError(f"With estimator=, its own parameters are used; got {name} as well: leave it out.")
        if not isinstance(estimator, KernelPCA):
            raise InputError(f"estimator must be a KernelPCA; got {type(estimator).__name__}.")
        model: KernelPCA = clone(estimator)
    else:
        known = KernelPCA().get_params(deep=False)
        spare = [name for name in parameters if name not in known or name == "n_components"]
        if spare:
            raise InputError(f"{spare[0]} is no parameter of a model whose n_components is asked for: leave it out.")
        model = KernelPCA(**parameters)
    return model


def is_precomputed(model: KernelPCA) -> bool:
    """Return True if X is the kernel matrix."""
    return isinstance(model.kernel, str) and model.kernel == "precomputed"


def checked_rows(X: Any, most: int, seed: int, *, square: bool) -> tuple[Any, np.ndarray[Any, Any] | None]:
    """Return finite rows in memory, at most so many, and which they are; None: all, or not known for a stream."""
    if not in_memory(X):
        if square:
            raise InputError("A precomputed kernel matrix must lie in memory here; give an array.")
        return sample_rows(as_source(X), most, seed), None
    X = check_data(_Unfitted(), X, reset=True)
    check_rows(X.shape[0])
    if square:
        check_precomputed(X)
        check_symmetric(X, centred=True)
    if X.shape[0] <= most:
        return X, None
    some = np.sort(np.random.default_rng(seed).choice(X.shape[0], most, replace=False))
    return (X[some][:, some] if square else X[some]), some


def kernel_of(model: KernelPCA, X: Any) -> kernels.Kernel:
    """Return the kernel of a model for these rows."""
    kernel = kernels.resolve(
        model.kernel,
        X,
        gamma=kernels.resolve_gamma(model.gamma, X),
        degree=model.degree,
        coef0=model.coef0,
        kernel_params=model.kernel_params,
    )
    kernel.check(X)
    return kernel


def share(name: str, value: Any) -> float:
    """Return a number between 0 and 1, both excluded, or raise InputError."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0.0 < float(value) < 1.0:
        raise InputError(f"{name} must be a number between 0 and 1; got {value!r}.")
    return float(value)


def counts_to_try(most: int) -> list[int]:
    """Return 1, 2, ... 10, then steps of a quarter, up to `most`, which is the last."""
    counts, step = [], 1
    while step < most:
        counts.append(step)
        step = step + 1 if step < 10 else int(np.ceil(1.25 * step))
    return [*counts, most]


# -- How many components, judged on held-out rows: by neighbours' labels, or by what comes back of the rows themselves

FloatArray = NDArray[Any]
Indices = NDArray[np.intp]
# Residuals of models that are fitted to be compared: folds differ by far more.
_TOL = 1e-5
_FOLDS = 5


@dataclass(frozen=True)
class Curve:
    """A measure of held-out rows for some numbers of components: its mean over folds, and the error of that."""

    counts: NDArray[np.int64]  # shape: (q,)
    means: FloatArray  # shape: (q,)
    errors: FloatArray  # standard errors, shape: (q,)

    def smallest_within_one_error(self) -> int:
        """Return the place of the smallest count that is within one standard error of the best."""
        best = int(np.argmax(self.means))
        return int(np.argmax(self.means >= self.means[best] - self.errors[best]))

    @classmethod
    def of(cls, counts: list[int], folds: list[list[float]]) -> Curve:
        """Return the curve of what each fold measured."""
        measured = np.array(folds)
        spread = measured.std(axis=0, ddof=1) if len(measured) > 1 else np.zeros(measured.shape[1])
        return cls(np.array(counts), measured.mean(axis=0), spread / np.sqrt(len(measured)))


def neighbour_curve(
    model: KernelPCA, X: Any, y: Any, counts: list[int], *, cv: Any, n_neighbors: int, seed: int, square: bool
) -> tuple[Curve, str]:
    """Return accuracy (or R^2) of the nearest neighbours by scores, for each count, and the name of the measure."""
    if y is None:
        raise InputError("method='knn' must have y, a label or a number for each row; got None.")
    y = check_labels(y, X.shape[0])
    classes = y.dtype.kind != "f"
    folds = _folds(X, y, cv, seed)
    n_neighbors = min(n_neighbors, *(len(train) for train, _ in folds))
    kind = KNeighborsClassifier if classes else KNeighborsRegressor
    measured = []
    for train, test in folds:
        fitted = _fitted(model, _part(X, train, train, square), max(counts))
        known, new = (fitted.transform(_part(X, some, train, square)) for some in (train, test))
        near = [kind(n_neighbors).fit(known[:, :j], y[train]).score(new[:, :j], y[test]) for j in counts]
        measured.append(near)
    return Curve.of(counts, measured), "accuracy" if classes else "R^2"


def reconstruction_curve(model: KernelPCA, X: Any, counts: list[int], *, cv: Any, seed: int) -> Curve:
    """Return the share of the held-out rows' variance that comes back from so many scores, for each count.

    One fit per fold; the way back from the first j scores is linear for the linear kernel, and else a ridge regression
    whose bandwidth and penalty generalised cross-validation chooses on the training rows.
    """
    if sparse.issparse(X):
        raise InputError("method='reconstruction' must have dense rows to come back to; X is sparse: densify it.")
    threads = thread_count(model.n_jobs)
    measured = []
    for train, test in _folds(X, None, cv, seed):
        fitted = _fitted(model, X[train], max(counts))
        known, new = (fitted.transform(X[some]).astype(np.float64) for some in (train, test))
        mean = mean_of_rows(X[train])
        rows, truth = X[train] - mean, X[test] - mean
        whole = float(np.square(truth).sum())
        back = []
        for j in counts:
            if hasattr(fitted, "components_"):
                restored = new[:, :j] @ fitted.components_[:j]
            else:
                restored = _restored(known[:, :j], rows, new[:, :j], threads)
            back.append(1.0 - float(np.square(truth - restored).sum()) / whole if whole > 0 else 1.0)
        measured.append(back)
    return Curve.of(counts, measured)


def _restored(known: FloatArray, rows: FloatArray, new: FloatArray, threads: int) -> FloatArray:
    """Return centred rows for new scores, by a regression of known ones.  # shape: (m, d)"""
    found = gcv.fit(known, rows, None, alpha=None, gamma=None, threads=threads)
    if found is None:
        return np.zeros((len(new), rows.shape[1]))
    solved = RidgeMap(RBF(gamma=found.gamma), known, found.coefficients, np.zeros(rows.shape[1]))
    return solved(new, threads=threads)


def _fitted(model: KernelPCA, X: Any, most: int) -> KernelPCA:
    """Return the model fitted to training rows, with as many components as can be; without a way back."""
    asked: KernelPCA = clone(model)
    most = min(most, X.shape[0])
    asked.set_params(n_components=most, preimage=None, fit_inverse_transform=False, remove_zero_eig=False)
    asked.set_params(tol=float(model.tol) or _TOL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fewer rows than components, no variance: a fit to all rows will say it
        return asked.fit(X)


def _part(X: Any, rows: Indices, columns: Indices, square: bool) -> Any:
    return X[rows][:, columns] if square else X[rows]


def _folds(X: Any, y: Any, cv: Any, seed: int) -> list[tuple[Indices, Indices]]:
    """Return (training rows, held-out rows); None is five folds, or as many as there are rows."""
    n = X.shape[0]
    folds = folds_of(max(2, min(_FOLDS, n)) if cv is None else cv, n, y, seed)
    if min(len(train) for train, _ in folds) < 2:
        raise InputError(f"Each fold must leave at least 2 rows to fit; X has {n}: take more folds, or more rows.")
    return folds
