"""What a fit claims of its components, held against the truth: each check says how much of its allowance was used."""

from __future__ import annotations

import math
import time
import traceback
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from benchmarks._exact import LD, LONG_ROWS, Truth, truth_of
from benchmarks._hostile import Case

Array = NDArray[Any]
# What tol=0 asks for.
_FINEST = {"float64": 1e-10, "float32": 1e-5}
# A failure that is none of degree.
BROKEN = 1e9


@dataclass
class Outcome:
    """What became of a case. Margins: how many times its allowance each check has used; above 1 is a failure."""

    seed: int
    title: str
    route: str = ""
    margins: dict[str, float] = field(default_factory=dict)
    notes: dict[str, float] = field(default_factory=dict)  # not promised anywhere: margins that fail nothing
    refused: str = ""  # the error that the package gave, a sentence
    crash: str = ""
    seconds: float = 0.0

    @property
    def failures(self) -> dict[str, float]:
        bad = {name: margin for name, margin in self.margins.items() if not margin <= 1.0}
        return bad | ({"crash": BROKEN} if self.crash else {})


def judge(case: Case) -> Outcome:
    """Fit, and check."""
    started = time.perf_counter()
    found = Outcome(case.seed, case.title, route=case.how)
    with warnings.catch_warnings(record=True) as told, np.errstate(all="ignore"):
        warnings.simplefilter("always")
        try:
            model = case.model().fit(case.given(), sample_weight=case.weights)
        except np.linalg.LinAlgError as error:
            found.crash = repr(error)
        except (ValueError, NotImplementedError) as error:
            found.refused = str(error)
        except Exception:
            found.crash = traceback.format_exc(limit=-3)
        else:
            converged = not any(issubclass(one.category, ConvergenceWarning) for one in told)
            found.route = f"{model.solver_}{' given' if case.matrix else ''}"
            _check_exact(case, model, converged, found)
    found.seconds = time.perf_counter() - started
    return found


def _present(case: Case) -> tuple[Array, Array | None]:
    if case.weights is None or case.weights.all():
        return case.X, case.weights
    rows = np.flatnonzero(case.weights)
    return case.X[rows][:, rows] if case.matrix else case.X[rows], case.weights[rows]


def _check_exact(case: Case, model: Any, converged: bool, found: Outcome) -> None:
    values, bounds = model.eigenvalues_.astype(np.float64), model.eigenvalue_bounds_
    k, dtype = len(values), str(model.eigenvalues_.dtype)
    X, weights = _present(case)
    if len(X) > LONG_ROWS:
        return
    if k == 0:
        return
    truth = truth_of(model.kernel_, X, weights, k, center=bool(model.center))
    if not math.isfinite(truth.error + float(np.abs(truth.values).max())):
        return
    claimed = model.residuals_.astype(np.float64) * (float(values.max()) or 1.0)
    found.margins["bounds"] = _bounds_margin(values, bounds, truth)
    found.margins |= _form_margins(values, bounds, dtype)
    U = model.eigenvectors_.astype(LD)
    residuals = np.sqrt(np.square(truth.multiply(U) - U * values.astype(LD)).sum(axis=0)).astype(np.float64)
    found.margins["residual"] = _worst(residuals, 2 * claimed + truth.error)
    eps = float(np.finfo(dtype).eps)
    slack = float(np.max(values - bounds[:, 0], initial=0.0))
    if converged:
        tol = float(model.tol) or _FINEST[dtype]
        allowed = np.maximum(tol * values.max(), claimed) + slack + eps * np.abs(values) + truth.error
        gaps = np.abs(values - truth.values.astype(np.float64))
        found.margins["tolerance"] = _worst(gaps, allowed)
    real = values > claimed
    if real.any():
        G = (U[:, real].T @ U[:, real]).astype(np.float64) - np.eye(int(real.sum()))
        found.margins["orthogonality"] = float(np.linalg.norm(G, 2)) / (50 * eps * math.sqrt(real.sum()))


def _worst(errors: Array, allowed: Array) -> float:
    if not np.isfinite(errors).all():
        return BROKEN
    ratios = np.divide(errors, allowed, out=np.where(errors > 0, BROKEN, 0.0), where=allowed > 0)
    return min(float(ratios.max(initial=0.0)), BROKEN)


def _bounds_margin(values: Array, bounds: Array, truth: Truth) -> float:
    """Return how much of the way from the value returned to a bound the truth needs."""
    if not np.isfinite(bounds[:, 0]).all() or np.isnan(bounds).any():
        return BROKEN
    low, high = bounds[:, 0].astype(LD), bounds[:, 1].astype(LD)
    at = np.clip(values.astype(LD), low, high)
    below, above = at - truth.values, truth.values - at
    used = np.where(below > 0, _share(below, at - low, truth.error), _share(above, high - at, truth.error))
    return float(min(used.max(initial=0.0), LD(BROKEN)))


def _share(error: Array, room: Array, blur: float) -> Array:
    """Return error / room, the error less what the truth does not know."""
    error = np.maximum(error - LD(blur), 0)
    return np.where(error == 0, LD(0), error / np.maximum(room, LD(1e-4000)))


def _form_margins(values: Array, bounds: Array, dtype: str) -> dict[str, float]:
    """Return 0 where bounds are numbers in order, hold the value returned, and are no narrower than its rounding."""
    low, high = bounds.T
    numbers = not np.isnan(bounds).any() and np.isfinite(low).all() and np.isfinite(values).all() and (low <= high).all()
    found = {"finite": 0.0 if numbers else BROKEN}
    if numbers:
        middle, half = (low + high) / 2, (high - low) / 2
        outside = np.where((low <= values) & (values <= high), 0.0, np.abs(values - middle))
        found["inside"] = _worst(outside, np.where(outside > 0, half, 1.0))
        if dtype == "float32":
            found["width"] = _worst(0.25 * float(np.finfo(np.float32).eps) * np.abs(values), high - low)
    return found
