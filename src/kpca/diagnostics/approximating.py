"""Features that do not carry the components asked of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca.diagnostics.case import Case
from kpca.diagnostics.report import Finding, Look, Severity
from kpca.features import IdentityMap

FloatArray = NDArray[Any]
# Relative errors of an eigenvalue from which it is uncertain, and from which of the first it is a problem.
_UNCERTAIN, _PROBLEM = 0.1, 0.25
_COMPONENTS = 10
_NO_VARIANCE = 1e-10
# Pivoted landmarks leave about what half as many of the best possible features leave.
_LANDMARKS_PER_FEATURE = 2


def approximation_error(case: Case) -> Look | str:
    """Look how far eigenvalues of explicit features are from exact ones, for the first 10 components.

    With rows it is measured, on a sample: eigenvalues of the features' matrix against those of the kernel's. Without,
    it is the width of the bounds over the eigenvalue; those of landmarks hold for certain and are wide, those of random
    features are an estimate. The figure is the largest relative error. A warning from 10 %, a problem if the first
    component is wrong by 25 %.
    """
    if case.feature_map is None or isinstance(case.feature_map, IdentityMap):
        return "the model is exact"
    count = min(_COMPONENTS, int(np.count_nonzero(case.values > _NO_VARIANCE * case.values.max(initial=0.0))))
    if count == 0:
        return "there is no variance"
    bounds = np.asarray(case.model.eigenvalue_bounds_, dtype=np.float64)[:count]
    widths = (bounds[:, 1] - bounds[:, 0]) / case.values[:count]
    exact: FloatArray | None = None
    errors, how = widths, "may be wrong by" if case.feature_map.exact else "are estimated to be wrong by"
    if case.rows is not None and case.center:
        exact = case.spectrum
        count = min(count, int(np.count_nonzero(exact > _NO_VARIANCE * exact[0])))
        errors, how = _measured(case, exact[:count]), "are wrong by"
    worst = float(errors.max())
    certain = int(np.argmax(errors > _UNCERTAIN)) if (errors > _UNCERTAIN).any() else len(errors)
    also = (("certain_components", float(certain)),)
    if worst <= _UNCERTAIN:
        return Look(worst, also=also)
    severity: Severity = "problem" if errors[0] > _PROBLEM and exact is not None else "warning"
    rank = case.feature_map.rank
    told = case.sampled if exact is not None else ""
    sentence = (
        f"Eigenvalues from {rank:,} features {how} up to {100 * worst:.0f} %{told}; "
        f"the first {certain} of {len(errors)} components looked at are certain to 10 %."
    )
    return Look(worst, Finding("approximation", worst, sentence, _remedy(case, exact, worst, count), severity), also)


def _measured(case: Case, exact: FloatArray) -> FloatArray:
    """Return |lambda_features - lambda| / lambda on the sampled rows.  # shape: (k,)"""
    rows = case.rows[case.sample]
    features = np.asarray(case.feature_map(rows, threads=case.threads), dtype=np.float64) * case.roots[:, None]
    features -= np.multiply.outer(case.roots, (case.roots @ features) / float(case.roots @ case.roots))
    small = features.T @ features if features.shape[1] <= len(features) else features @ features.T
    found = np.zeros(len(exact))
    values = np.linalg.eigvalsh(small)[::-1][: len(exact)]
    found[: len(values)] = np.maximum(values, 0.0)
    errors: FloatArray = np.abs(found - exact) / exact
    return errors


def _remedy(case: Case, exact: FloatArray | None, worst: float, count: int) -> str:
    rank = case.feature_map.rank
    if not case.feature_map.exact and case.kernel.psd:  # random: error like rank^(-1/2)
        wanted = int(np.ceil(rank * (worst / _UNCERTAIN) ** 2))
        return f"Take about {_round(wanted):,} random features, or landmarks (approximation='nystroem'), or none."
    if exact is not None:
        tails = np.append(np.cumsum(exact[::-1])[::-1][1:], 0.0)  # what the first 1, 2, ... leave
        enough = _LANDMARKS_PER_FEATURE * (1 + int(np.argmax(tails <= _UNCERTAIN * exact[count - 1])))
        if rank < enough < len(exact) // 2:
            return f"Take about {_round(enough):,} landmarks, or keep fewer components."
    measure = "" if exact is not None else " Bounds are wide: give X, and the error is measured."
    return f"Take more than {rank:,} landmarks, twice as many to begin with, or keep fewer components.{measure}"


def _round(number: int) -> int:
    """Return two leading digits, rounded up."""
    step: int = 10 ** max(0, len(str(number)) - 2)
    return -(-number // step) * step
