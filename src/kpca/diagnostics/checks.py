"""`check`: what a fitted model and its rows are looked at for, one look after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.utils.validation import check_is_fitted

from kpca._base.config import config
from kpca._base.errors import InputError
from kpca._base.validation import seed_of, whole_number
from kpca.diagnostics.bandwidth import linear_in_disguise, too_narrow, without_bandwidth
from kpca.diagnostics.case import Case
from kpca.diagnostics.model import approximation_error, indefinite, near_equal, overfitting, unstable
from kpca.diagnostics.report import GRAVEST_FIRST, Finding, Look, NotLooked, Report
from kpca.diagnostics.rows import drift, duplicated, one_feature
from kpca.estimators.incremental import IncrementalKernelPCA
from kpca.estimators.kernel_pca import KernelPCA

LOOKS: dict[str, Callable[[Case], Look]] = {
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
    found: list[Finding] = []
    measured: dict[str, float] = {}
    skipped: dict[str, str] = {}
    with config(checkpoint=None, progress=False):
        case = Case(model, X, new, resamples, seed_of(random_state))
        for kind, take in LOOKS.items():
            try:
                look = take(case)
            except NotLooked as reason:
                skipped[kind] = str(reason)
                continue
            measured |= {name: float(number) for name, number in {kind: look.number, **look.also}.items()}
            if look.severity is not None:
                found.append(Finding(kind, look.number, look.sentence, look.remedy, look.severity))
    found.sort(key=lambda finding: GRAVEST_FIRST.index(finding.severity))
    rows = "" if case.rows is None else f", {case.rows.shape[0]:,} rows"
    about = f"{type(model).__name__} (kernel {case.kernel.name}, {len(case.values)} components{rows})"
    return Report(tuple(found), measured, skipped, about)
