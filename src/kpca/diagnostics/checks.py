"""`check`: what a fitted model and its rows are looked at for, one look after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from kpca._base.config import config, thread_count
from kpca._base.errors import InputError
from kpca._base.linalg import FloatArray
from kpca._base.validation import check_rows, seed_of, whole_number
from kpca.data.sources import as_source, in_memory, sample_rows
from kpca.diagnostics.bandwidth import linear_in_disguise, too_narrow, without_bandwidth
from kpca.diagnostics.case import Case, Entries
from kpca.diagnostics.model import approximation_error, indefinite, near_equal, overfitting, unstable
from kpca.diagnostics.report import Look, Report, report_of
from kpca.diagnostics.rows import drift, duplicated, one_feature
from kpca.estimators.incremental import IncrementalKernelPCA
from kpca.estimators.kernel_pca import KernelPCA
from kpca.selection.rows import row_sample, some_rows

# Rows that are looked at; of more, a sample.
_MOST_ROWS = 50_000

LOOKS: dict[str, Callable[[Case], Look | str]] = {
    "narrow": too_narrow,
    "linear": linear_in_disguise,
    "flat": without_bandwidth,
    "indefinite": indefinite,
    "equal_eigenvalues": near_equal,
    "unstable": unstable,
    "scale": one_feature,
    "duplicates": duplicated,
    "overfitting": overfitting,
    "approximation": approximation_error,
    "drift": drift,
}


def check(model: Any, X: Any = None, *, new: Any = None, resamples: int = 10, random_state: Any = 0) -> Report:
    """Say what may be the matter with a fitted model, each finding with a number, a sentence and a remedy.

    Nothing of size n x n is held: what needs a whole matrix looks at 1000 rows, and says so.

    Parameters
    ----------
    model : a fitted KernelPCA or IncrementalKernelPCA.
    X : the training rows, or rows like them, in memory or in files; needed where the model does not keep all of them
        (landmarks, random features, streams). Not for a precomputed kernel.
    new : rows to compare with the training rows, for drift.
    resamples : draws of the bootstrap behind "unstable".
    random_state : of samples, halves and draws; the same gives the same report.

    Returns
    -------
    report : Report
        Findings are of these kinds; see the docstrings of the looks for their rules.
        "narrow" the bandwidth is too small; "linear" the model is linear PCA; "flat" the bandwidth is so large that it
        no longer matters; "indefinite" a negative part of the spectrum; "equal_eigenvalues" components that may rotate;
        "unstable" components that change with the draw of the rows; "scale" one feature makes up all distances;
        "duplicates"; "overfitting"; "approximation" too few features; "drift" new rows of another kind.

    Examples
    --------
    >>> import numpy as np
    >>> from kpca import KernelPCA, diagnostics
    >>> X = np.random.default_rng(0).standard_normal((200, 3))
    >>> report = diagnostics.check(KernelPCA(2, kernel="rbf", gamma=1e-6).fit(X))
    >>> "linear" in report, report.measured["linear"] > 0.999
    (True, True)
    >>> print(report.findings[0].remedy)
    If bends are wanted, take gamma about 0.11; kernel='linear' gives the same for less.
    """
    if not isinstance(model, KernelPCA | IncrementalKernelPCA):
        got = f"got {type(model).__name__}: of a pipeline, pass that step"
        raise InputError(f"model must be a fitted KernelPCA or IncrementalKernelPCA; {got}.")
    check_is_fitted(model)
    resamples = whole_number("resamples", resamples, 1)
    with config(checkpoint=None, progress=False):
        case = _case(model, X, new, resamples, seed_of(random_state))
        looks = {kind: look(case) for kind, look in LOOKS.items()}
    rows = "" if case.rows is None else f", {case.rows.shape[0]:,} rows"
    about = f"{type(model).__name__} (kernel {case.kernel.name}, {len(case.values)} components{rows})"
    return report_of(looks, about)


def _case(model: Any, X: Any, new: Any, resamples: int, seed: int) -> Case:
    kernel = model.kernel_
    if kernel is None:
        if X is not None or new is not None:
            raise InputError("A model of a precomputed kernel has no rows of data; leave X and new at None.")
        (kernel, rows, weights), whole = _precomputed(model), True
    else:
        rows, weights, whole = _rows(model, X, seed)
        new = None if new is None else some_rows(_loaded(model, new, seed)[0], _MOST_ROWS, seed)
    return Case(
        model=model,
        kernel=kernel,
        rows=rows,
        weights=weights,
        whole=whole,
        new=new,
        names=[str(name) for name in model.feature_names_in_] if hasattr(model, "feature_names_in_") else None,
        center=bool(model.center),
        values=np.asarray(model.eigenvalues_, dtype=np.float64),
        effective=_effective(model),
        feature_map=getattr(model, "feature_map_", None),
        resamples=resamples,
        seed=seed,
        threads=thread_count(model.n_jobs),
    )


def _precomputed(model: KernelPCA) -> tuple[Entries, FloatArray, FloatArray | None]:
    """Return the matrix as a kernel, and the numbers of its rows as rows."""
    K, weights = model.X_fit_, _weights(model)
    rows = np.arange(K.shape[0], dtype=np.float64)[:, None]
    if model.eigenvectors_.shape[0] != K.shape[0]:  # rows of weight 0 have coefficients of 0
        rows = rows[np.any(model._projection.coefficients != 0, axis=1)]  # type: ignore[union-attr]
    return Entries(K), rows, weights if weights is None or len(weights) == len(rows) else None


def _weights(model: Any) -> FloatArray | None:
    roots = getattr(model, "_roots", None)
    return None if roots is None or roots.size == 1 else np.square(roots[:, 0])


def _effective(model: Any) -> float:
    """Return what the rows of the fit are worth, (sum w)^2 / sum w^2."""
    if isinstance(model, IncrementalKernelPCA):
        return float(min(model.n_samples_seen_, model.mass_))
    weights = _weights(model)
    return float(model.eigenvectors_.shape[0] if weights is None else weights.sum() ** 2 / (weights**2).sum())


def _rows(model: Any, X: Any, seed: int) -> tuple[Any, FloatArray | None, bool]:
    """Return the rows to look at, their weights, and whether they are all rows of the fit."""
    weights = _weights(model)
    if X is None:
        kept = isinstance(model, KernelPCA) and not hasattr(model, "feature_map_")
        if not kept or model.X_fit_.shape[0] != model.eigenvectors_.shape[0]:  # a compressed model has landmarks
            return None, None, False
        X, whole = model.X_fit_, True
    else:
        X, whole = _loaded(model, X, seed)
        check_rows(X.shape[0])
        if weights is not None and (len(weights) != X.shape[0] or not whole):
            needed = f"the {len(weights)} rows of positive weight that the model was fitted to, in memory"
            raise InputError(f"X must be {needed}; got {X.shape[0]} rows: their weights would not be known.")
        streamed = isinstance(model, IncrementalKernelPCA)
        whole = whole and X.shape[0] == (model.n_samples_seen_ if streamed else model.eigenvectors_.shape[0])
    some = row_sample(X.shape[0], _MOST_ROWS, seed)
    if some is None:
        return X, weights, whole
    return X[some], None if weights is None else weights[some], False


def _loaded(model: Any, X: Any, seed: int) -> tuple[Any, bool]:
    """Return rows as the model takes them, of a file a sample, and whether they are all rows."""
    if in_memory(X):
        rows = model._checked(X)
        return (rows.tocsr() if sparse.issparse(rows) else rows), True
    source = as_source(X)
    some = sample_rows(source, _MOST_ROWS, seed)
    return model._checked(some), source.n_rows is not None and some.shape[0] == source.n_rows
