"""Kernels that are no inner product: how much of their spectrum is negative."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca.diagnostics.case import Case
from kpca.diagnostics.report import Finding, Look, Severity
from kpca.kernels import AdditiveChi2, Kernel, Polynomial, Sigmoid

FloatArray = NDArray[Any]
# Shares of the spectrum from which a negative part is a note, a warning, a problem.
_NOTE, _WARNING, _PROBLEM = 0.001, 0.01, 0.1
# Negative eigenvalues up to this part of the largest are rounding, in matrices that came in either precision.
_ROUNDING = {np.dtype(np.float64): 1e-9, np.dtype(np.float32): 1e-5}


def indefinite(case: Case) -> Look | str:
    """Look for negative eigenvalues: their share of the sum of all absolute ones.

    Positive semidefinite kernels have none. For the others they are computed, for many rows on a sample of them. Such
    directions carry no variance and are left out, so up to 1 % hardly matters (a note from 0.1 %); from 10 % on
    distances in feature space mean little, and it is a problem.
    """
    if case.kernel.psd:
        return Look(0.0)
    if (reason := case.why_no_rows()) is not None:
        return reason
    values = case.spectrum if case.center else np.linalg.eigvalsh(case.matrix_of(case.kernel, centred=False))
    dtype = getattr(getattr(case.kernel, "K", case.rows), "dtype", np.dtype(np.float64))
    mass = negative_mass(values, _ROUNDING.get(np.dtype(dtype), 1e-9))
    if mass < _NOTE:
        return Look(mass)
    severity: Severity = "problem" if mass >= _PROBLEM else "warning" if mass >= _WARNING else "note"
    sentence = (
        f"The kernel is not positive semidefinite: {100 * mass:.2g} % of its spectrum{case.sampled} is negative, and "
        "has no place in a feature space; shares of variance and reconstruction errors leave it out."
    )
    return Look(mass, Finding("indefinite", mass, sentence, _remedy(case.kernel, case.center), severity))


def negative_mass(values: FloatArray, rounding: float) -> float:
    """Return sum |negative eigenvalues| / sum |eigenvalues|, without what rounding has made negative."""
    total = float(np.abs(values).sum())
    below = values[values < -rounding * float(np.abs(values).max(initial=0.0))]
    return float(-below.sum()) / total if total > 0 else 0.0


def _remedy(kernel: Kernel, centred: bool) -> str:
    match kernel:
        case Sigmoid():
            return "Take a smaller gamma with coef0 of 0 or above, or kernel='rbf', which is an inner product."
        case Polynomial(degree=degree):
            whole = isinstance(degree, int)
            return (
                f"Take {'a coef0 of 0 or above' if whole else 'a whole degree'}: the kernel is then an inner product."
            )
        case AdditiveChi2() if not centred:
            return "Take center=True: centred, this kernel has no negative part."
    return "Take a kernel that is an inner product, or clip the negative eigenvalues of its matrix before the fit."
