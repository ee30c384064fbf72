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

import kpca
from benchmarks._exact import EPS, LD, Truth, truth_of
from benchmarks._hostile import Case
from benchmarks._ways import WAYS, Claim
from kpca.kernels.resolve import resolve, resolve_gamma

Array = NDArray[Any]
# A failure that is none of degree.
BROKEN = 1e9


@dataclass
class Outcome:
    """What became of a case. Margins: how many times its allowance each check has used; above 1 is a failure."""

    seed: int
    title: str
    route: str = ""
    margins: dict[str, float] = field(default_factory=dict)
    notes: dict[str, float] = field(default_factory=dict)  # margins of what is promised nowhere
    width: float = 0.0  # of the widest bounds, over the largest eigenvalue
    blur: float = 0.0  # what the truth does not know, over the narrowest half of bounds
    refused: str = ""  # the error that the package gave, a sentence
    crash: str = ""
    warned: str = ""  # a warning that is none of the package's own
    table: list[str] = field(default_factory=list)  # pairs beside the truth, where a check fails
    seconds: float = 0.0

    @property
    def failures(self) -> dict[str, float]:
        bad = {name: margin for name, margin in self.margins.items() if not margin <= 1.0}
        return bad | ({"crash": BROKEN} if self.crash else {})


def judge(case: Case) -> Outcome:
    """Fit as the case says, and check all that is claimed."""
    started = time.perf_counter()
    found = Outcome(case.seed, case.title, route=case.how)
    with warnings.catch_warnings(record=True) as told, np.errstate(all="ignore"), kpca.config(threads=1):
        warnings.simplefilter("always")
        try:
            for claim in WAYS[case.how](case, told):
                found.route = claim.route
                check(claim, found)
        except Exception as error:
            if _meant(error):
                found.refused = str(error)
                found.margins |= _refusal(case, found.refused)
            else:
                found.crash = traceback.format_exc(limit=-4)
    ours = (UserWarning, ConvergenceWarning)
    found.warned = next((str(one.message) for one in told if not issubclass(one.category, ours)), "")
    found.seconds = time.perf_counter() - started
    return found


def _meant(error: Exception) -> bool:
    """Return True if somebody raised this error on purpose, and not the machinery of NumPy."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return isinstance(error, ValueError | NotImplementedError) and (last.line or "").startswith("raise ")


def _refusal(case: Case, said: str) -> dict[str, float]:
    """Hold the refusal of an indefinite matrix against the truth."""
    if "significant negative eigenvalues" not in said or case.how == "from scikit-learn":
        return {}
    options = case.values()
    (X, weights), wanted = case.present(), options.get("n_components")
    parts, kernel = {name: options[name] for name in ("degree", "coef0") if name in options}, None
    if not case.matrix:
        kernel = resolve(options["kernel"], X, gamma=resolve_gamma(options.get("gamma"), X), **parts)
    k = min(wanted, len(X)) if isinstance(wanted, int) else len(X)
    truth = truth_of(kernel, X, weights, k, center=options.get("center", True))
    least = -max(truth.error, 1e-6 * float(truth.values[0]))
    return {"refusal": 0.0 if float(truth.values[-1]) < least else BROKEN}


# -- checks -----------------------------------------------------------------------------------------------------------


def check(claim: Claim, found: Outcome) -> None:
    """Hold a claim against the truth, and note the worst margins so far."""
    k, values = len(claim.values), claim.values.astype(np.float64)
    if k == 0:
        return
    margins = _form(values, claim)
    _note(found.margins, margins)
    if margins["finite"]:
        return
    truth = truth_of(claim.kernel, claim.X, claim.weights, k, center=claim.center)
    if not math.isfinite(truth.error) or not np.isfinite(truth.values.astype(np.float64)).all():
        return  # the kernel has no finite values here, and the package says so
    pairs, true = _pairs(claim, values, truth)
    # what is said to be an estimate, or is promised nowhere, fails nothing
    _note(found.notes if claim.estimate else found.margins, pairs)
    if claim.vectors is not None:
        sized = values > (0.0 if claim.residuals is None else claim.residuals)
        crooked = _crookedness(claim.vectors.astype(LD), sized) / (50 * float(np.finfo(claim.values.dtype).eps))
        _note(found.margins if claim.exact else found.notes, {"orthogonal": crooked})
    if claim.bounds is not None:
        half, top = float(np.min(claim.bounds[:, 1] - claim.bounds[:, 0])) / 2, float(values.max(initial=0.0))
        found.blur = max(found.blur, truth.error / half if half > 0 else 0.0)
        found.width = max(found.width, float(np.max(claim.bounds[:, 1] - claim.bounds[:, 0])) / (top or 1.0))
    if claim.scores is not None and claim.vectors is not None and claim.exact:
        _note(found.notes, {"scores": _scores(claim, values, truth)})
    if not found.table and any(not margin <= 1.0 for margin in (*margins.values(), *pairs.values())):
        found.table = _table(claim, truth, true)


def _pairs(claim: Claim, values: Array, truth: Truth) -> tuple[dict[str, float], Array]:
    """Return the margins of what is claimed of each pair, and the true residuals (NaN without vectors)."""
    margins, true = {}, np.full(len(values), np.nan)
    eps, top = float(np.finfo(claim.values.dtype).eps), float(values.max(initial=0.0))
    residuals = np.zeros(len(values)) if claim.residuals is None else claim.residuals
    if claim.bounds is not None:
        margins["bounds"] = _bounds(values, claim.bounds, truth)
    if claim.vectors is not None:
        U = claim.vectors.astype(LD)
        true = np.sqrt(np.square(truth.multiply(U) - U * values.astype(LD)).sum(axis=0)).astype(np.float64)
        margins["residual"] = _worst(true, 2 * residuals + truth.error)
    if claim.tol is not None:
        # What rounding may do: to kernel values in float64, and as the lower bounds say.
        stated = 0.0 if claim.bounds is None else float(np.max(values - claim.bounds[:, 0], initial=0.0))
        slack = truth.rounding + stated
        allowed = np.maximum(claim.tol * top, residuals) + slack + eps * np.abs(values) + truth.error
        margins["tolerance"] = _worst(np.abs(values - truth.values.astype(np.float64)), allowed)
        if claim.ratio is not None and np.isfinite(claim.ratio).all() and truth.trace > 0:
            shares = truth.values.astype(np.float64) / truth.trace
            sums = shares * math.sqrt(len(claim.X)) * slack  # what the trace may be wrong by
            gaps = np.abs(claim.ratio.astype(np.float64) - shares)
            room = (allowed + sums) / truth.trace + 2 * eps * shares
            margins["ratio"] = _worst(gaps, room)
            margins["count"] = _count(claim, np.cumsum(shares), float(room.sum()))
    return margins, true


def _count(claim: Claim, shares: Array, room: float) -> float:
    """Return 0 if there are as many components as were asked for: a number, or enough for a share of the variance."""
    if isinstance(claim.asked, int):
        return 0.0 if len(shares) == min(claim.asked, len(claim.X)) else BROKEN
    if not isinstance(claim.asked, float):
        return 0.0
    enough = shares[-1] >= claim.asked - room or len(shares) == len(claim.X)
    one_less = len(shares) > 1 and shares[-2] > claim.asked + room
    return 0.0 if enough and not one_less else BROKEN


def _table(claim: Claim, truth: Truth, true: Array) -> list[str]:
    """Return a line for each pair: what it is, and how far from that the numbers returned are."""
    lines = [f"{'exact':>25} {'returned':>10} {'lower':>10} {'upper':>10} {'residual claimed':>17} {'true':>9}"]
    for i, exact in enumerate(truth.values[:12]):
        low, high = (np.nan, np.nan) if claim.bounds is None else claim.bounds[i]
        gaps = (f"{float(LD(number) - exact):+10.2e}" for number in (claim.values[i], low, high))
        claimed = np.nan if claim.residuals is None else claim.residuals[i]
        lines.append(f"{float(exact):25.17g} {' '.join(gaps)} {claimed:17.2e} {true[i]:9.2e}")
    return [*lines, f"the truth itself is good to {truth.error:.1e}"]


def _note(margins: dict[str, float], new: dict[str, float]) -> None:
    for name, margin in new.items():
        margins[name] = max(margin, margins.get(name, 0.0))


def _worst(errors: Array, allowed: Array) -> float:
    if not np.isfinite(errors).all():
        return BROKEN
    ratios = np.divide(errors, allowed, out=np.where(errors > 0, BROKEN, 0.0), where=allowed > 0)
    return min(float(ratios.max(initial=0.0)), BROKEN)


def _form(values: Array, claim: Claim) -> dict[str, float]:
    """Return 0 where bounds are numbers in order, hold the value returned, and are no narrower than its rounding."""
    found = {"finite": 0.0 if np.isfinite(values).all() else BROKEN}
    if claim.bounds is None:
        return found
    low, high = claim.bounds.T
    if np.isnan(claim.bounds).any() or not np.isfinite(low).all() or not (low <= high).all() or found["finite"]:
        return {"finite": BROKEN}
    middle, half = low / 2 + high / 2, high / 2 - low / 2
    outside = np.where((low <= values) & (values <= high), 0.0, np.abs(values - middle))
    found["inside"] = _worst(outside, np.where(outside > 0, half, 1.0))
    if claim.values.dtype == np.float32:
        found["width"] = _worst(0.25 * float(np.finfo(np.float32).eps) * np.abs(values), high - low)
    return found


def _bounds(values: Array, bounds: Array, truth: Truth) -> float:
    """Return how much of the way from the value returned to a bound the truth needs."""
    low, high = bounds[:, 0].astype(LD), bounds[:, 1].astype(LD)
    at = np.clip(values.astype(LD), low, high)
    below, above = at - truth.values, truth.values - at
    used = np.where(below > 0, _share(below, at - low, truth.error), _share(above, high - at, truth.error))
    return float(min(used.max(initial=0.0), LD(BROKEN)))


def _share(error: Array, room: Array, blur: float) -> Array:
    """Return error / room, the error less what the truth does not know."""
    error = np.maximum(error - LD(blur), 0)
    return np.asarray(np.where(error == 0, LD(0), error / np.maximum(room, LD(1e-300))))


def _crookedness(U: Array, real: Array) -> float:
    """Return |U'U - I| / sqrt(k) of the vectors whose eigenvalues are more than their error."""
    k = int(real.sum())
    if not k:
        return 0.0
    return float(np.linalg.norm((U[:, real].T @ U[:, real]).astype(np.float64) - np.eye(k), 2)) / math.sqrt(k)


def _scores(claim: Claim, values: Array, truth: Truth) -> float:
    """Return how far scores of the rows are from U sqrt(lambda), over what residuals and rounding explain."""
    assert claim.vectors is not None and claim.scores is not None and claim.residuals is not None
    s = np.ones(len(claim.X)) if claim.weights is None else np.sqrt(claim.weights)
    roots = np.sqrt(np.maximum(values, 0.0))
    real = roots > 0
    if not real.any():
        return 0.0
    wanted = claim.vectors[:, real].astype(np.float64) * roots[real] / s[:, None]
    gaps = np.linalg.norm((claim.scores[:, real].astype(np.float64) - wanted) * s[:, None], axis=0)
    eps = float(np.finfo(claim.values.dtype).eps)
    errors = (2 * claim.residuals[real] + truth.rounding) / roots[real]
    return _worst(gaps, errors + 16 * (eps + EPS * len(s)) * roots.max())
