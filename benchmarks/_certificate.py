"""What a fit claims of its components, held against the truth: each check says how much of its allowance was used."""

from __future__ import annotations

import contextlib
import math
import os
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

import kpca
from benchmarks._exact import EPS, LD, Truth, truth_of
from benchmarks._hostile import Case
from kpca.estimators.cost import Request
from kpca.estimators.exact import decompose
from kpca.estimators.solvers import Near
from kpca.estimators.warm_start import Follower
from kpca.features import IdentityMap
from kpca.gram import Centered, MatrixGram
from kpca.kernels.resolve import resolve, resolve_gamma
from kpca.spectrum import solve_krylov
from kpca.spectrum.krylov import smallest_basis

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
    notes: dict[str, float] = field(default_factory=dict)  # margins of what is promised nowhere
    width: float = 0.0  # of the widest bounds, over the largest eigenvalue
    refused: str = ""  # the error that the package gave, a sentence
    crash: str = ""
    warned: str = ""  # a warning that is none of the package's own
    table: list[str] = field(default_factory=list)  # pairs beside the truth, where a check fails
    seconds: float = 0.0

    @property
    def failures(self) -> dict[str, float]:
        bad = {name: margin for name, margin in self.margins.items() if not margin <= 1.0}
        return bad | ({"crash": BROKEN} if self.crash else {})


@dataclass
class Claim:
    """Eigenpairs, and what is said of them."""

    kernel: Any  # None: X is the matrix
    X: Array
    weights: Array | None
    center: bool
    values: Array
    route: str
    tol: float | None = None  # the residual asked for, if it was reached
    bounds: Array | None = None
    vectors: Array | None = None
    residuals: Array | None = None  # |B u - lambda u|
    ratio: Array | None = None
    scores: Array | None = None
    estimate: bool = False  # the numbers are estimates, and bounds are said to be no more
    exact: bool = True  # False where features take the place of the kernel


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
    """Hold the refusal of an indefinite matrix against the truth: its threshold is 5e-3 of the largest in float32."""
    if "significant negative eigenvalues" not in said:
        return {}
    options = case.values()
    (X, weights), wanted = case.present(), options.get("n_components")
    gamma = None if case.matrix else resolve_gamma(options.get("gamma"), X)
    parts = {name: options[name] for name in ("degree", "coef0") if name in options}
    kernel = None if case.matrix else resolve(options["kernel"], X, gamma=gamma, **parts)
    k = min(wanted, len(X)) if isinstance(wanted, int) else len(X)
    truth = truth_of(kernel, X, weights, k, center=options.get("center", True))
    top = max(float(truth.values[0]), 0.0)
    return {
        "refusal": 0.0 if float(truth.values[-1]) < -truth.error and float(truth.values[-1]) < -1e-6 * top else BROKEN
    }


# -- ways to fit ------------------------------------------------------------------------------------------------------

Told = list[Any]


def _converged(told: Told) -> bool:
    return not any(issubclass(one.category, ConvergenceWarning) for one in told)


def _claim(case: Case, model: Any, told: Told) -> Claim:
    """Return what a fitted KernelPCA claims."""
    dtype, values = str(model.eigenvalues_.dtype), model.eigenvalues_
    features = getattr(model, "feature_map_", None)
    exact = features is None
    X, weights = case.present()
    scores = None
    if not case.matrix and len(values) and len(X) <= 400:
        try:
            scores = model.transform(sparse.csr_matrix(X) if case.form == "csr" else X)
        except kpca.InputError:  # values of rows it has just been fitted to
            scores = np.full((len(X), len(values)), np.nan)
    return Claim(
        model.kernel_,
        X,
        weights,
        bool(model.center),
        values,
        f"{model.solver_}{' (given)' if case.matrix else ''}{'' if case.how == 'fit' else f', {case.how}'}",
        tol=(float(model.tol) or _FINEST[dtype]) if exact and _converged(told) else None,
        bounds=model.eigenvalue_bounds_,
        vectors=model.eigenvectors_,
        residuals=model.residuals_.astype(np.float64) * (float(values.max(initial=0.0)) or 1.0),
        ratio=model.explained_variance_ratio_,
        scores=scores,
        estimate=not exact and not _certified(features),
        exact=exact,
    )


def _certified(features: Any) -> bool:
    return isinstance(features, IdentityMap) or bool(getattr(features, "exact", False))


def _fit(case: Case, told: Told) -> Iterator[Claim]:
    model = kpca.KernelPCA(**case.values()).fit(case.given(), sample_weight=case.weights)
    yield _claim(case, model, told)


_KEPT = ("eigenvalues_", "eigenvectors_", "residuals_", "eigenvalue_bounds_", "explained_variance_ratio_")


def _same(one: Any, other: Any) -> None:
    for name in _KEPT:
        assert np.array_equal(getattr(one, name), getattr(other, name), equal_nan=True), f"{name} differs"


def _saved(case: Case, told: Told) -> Iterator[Claim]:
    model = kpca.KernelPCA(**case.values()).fit(case.given(), sample_weight=case.weights)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.kpca")
        kpca.save(model, path)
        loaded = kpca.load(path)
    _same(model, loaded)
    yield _claim(case, loaded, told)


def _resumed(case: Case, told: Told) -> Iterator[Claim]:
    """Stop after some passes, go on from the file, and end as the fit that was left alone."""
    options = case.values()
    stop = options.pop("stop")

    def fitted() -> Any:
        return kpca.KernelPCA(**options).fit(case.given(), sample_weight=case.weights)

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "fit.kpca")
        with (
            kpca.config(checkpoint=path, progress=lambda state: state["pass"] < stop),
            contextlib.suppress(kpca.Cancelled),
        ):
            fitted()
        with kpca.config(checkpoint=path):
            model = fitted()
    _same(model, fitted())
    yield _claim(case, model, told)


def _stream(case: Case, told: Told) -> Iterator[Claim]:
    model, X, w, start = kpca.IncrementalKernelPCA(**case.values()), case.given(), case.weights, 0
    if not case.batches:
        model.fit(X, sample_weight=w)
    for size in case.batches:
        rows = slice(start, start + size)
        model.partial_fit(X[rows], sample_weight=None if w is None else w[rows])
        start += size
    features = model.feature_map_
    X, weights = case.present()
    kind = (
        "linear" if isinstance(features, IdentityMap) else "landmarks" if hasattr(features, "landmarks") else "random"
    )
    yield Claim(
        model.kernel_,
        X,
        weights,
        bool(model.center),
        model.eigenvalues_,
        f"stream, {kind}",
        bounds=model.eigenvalue_bounds_,
        estimate=not _certified(features),
        exact=False,
        ratio=model.explained_variance_ratio_,
    )


def _path(case: Case, told: Told) -> Iterator[Claim]:
    options = case.values()
    name, center, tol = options.pop("kernel"), options.get("center", True), options["tol"]
    found = kpca.selection.path(case.X, name, **options)
    for gamma, row, shares in zip(found.values, found.eigenvalues, found.residuals, strict=True):
        kernel, known = resolve(name, case.X, gamma=float(gamma)), np.isfinite(row)
        residuals = shares[known] * max(float(row[known].max(initial=0.0)), 1e-300)
        yield Claim(kernel, case.X, None, center, row[known], "path", tol=tol, residuals=residuals)


def _near(case: Case, told: Told) -> Iterator[Claim]:
    """Fits that start from those before them, or from a guess that lacks one of the leading eigenvectors."""
    options = case.values()
    X, center, k, tol = case.X, options.get("center", True), options["n_components"], options["tol"]
    request = Request(k, tol, eigen_solver="krylov", center=center)
    family = [resolve(options["kernel"], X, gamma=gamma) for gamma in options["grid"]]
    follower = Follower(family, X, request)
    for kernel in family:
        if "hidden" not in options:
            spectrum, how = follower(kernel).spectrum, "near"
        else:
            whole = decompose(kernel, X, None, Request(min(k + 8, len(X) - 1), 1e-10, "dense", center)).spectrum
            guess = np.delete(whole.vectors, options["hidden"] % whole.vectors.shape[1], axis=1)
            near = Near(guess, float(whole.values[0]))
            spectrum, how = decompose(kernel, X, None, request, near=near).spectrum, "near, one hidden"
        tol_reached = tol if spectrum.converged else None
        yield Claim(
            kernel,
            X,
            None,
            center,
            spectrum.values,
            f"{spectrum.solver}, {how}",
            tol=tol_reached,
            bounds=spectrum.bounds,
            vectors=spectrum.vectors,
            residuals=spectrum.residuals,
        )


class _Known(MatrixGram):
    """A matrix known to be positive semidefinite."""

    psd = True


def _krylov(case: Case, told: Told) -> Iterator[Claim]:
    options = case.values()
    k, tol, centred = options["k"], options["tol"], options.get("centred", False)
    operator = (_Known if options.get("psd") else MatrixGram)(case.X)
    how = {"start": _start(case, options), "followed": options.get("followed", False), "seed": options["seed"]}
    if options.get("short"):
        how["room"] = smallest_basis(k, len(case.X))
    spectrum = solve_krylov(Centered(operator) if centred else operator, k, tol, **how)
    yield Claim(
        None,
        case.X,
        None,
        centred,
        spectrum.values,
        f"solve_krylov, {options['start'] or 'no'} start",
        tol=tol if spectrum.converged else None,
        bounds=spectrum.bounds,
        vectors=spectrum.vectors,
        residuals=spectrum.residuals,
    )


def _start(case: Case, options: dict[str, Any]) -> Array | None:
    """Return columns that lead astray: without some of the leading eigenvectors, trailing ones, dependent ones."""
    B, kind, count, left = case.X, options["start"], options["columns"], options["left_out"]
    if kind is None or kind == "None":
        return None
    if options.get("centred"):
        B = B - B.mean(axis=0) - B.mean(axis=1)[:, None] + B.mean()
    V = np.linalg.eigh((B + B.T) / 2)[1][:, ::-1]
    noise = np.random.default_rng(options["seed"]).standard_normal((len(B), count))
    made = {
        "without": V[:, left : left + count],
        "trailing": V[:, -count:],
        "zero": np.zeros((len(B), count)),
        "deficient": np.repeat(V[:, :1], count, axis=1),
        "leading": V[:, :count],
        "huge": 1e150 * noise,
        "tiny": 1e-150 * noise,
    }
    return np.ascontiguousarray(made[kind])


WAYS: dict[str, Callable[[Case, Told], Iterator[Claim]]] = {
    "fit": _fit,
    "saved": _saved,
    "resumed": _resumed,
    "stream": _stream,
    "path": _path,
    "near": _near,
    "krylov": _krylov,
}


# -- checks -----------------------------------------------------------------------------------------------------------


def check(claim: Claim, found: Outcome) -> None:
    """Hold a claim against the truth, and note the worst margins so far."""
    k, values = len(claim.values), claim.values.astype(np.float64)
    if k == 0:
        return
    dtype = str(claim.values.dtype)
    eps, top = float(np.finfo(dtype).eps), float(values.max(initial=0.0))
    margins = {"finite": 0.0 if np.isfinite(values).all() else BROKEN}
    notes = found.notes if claim.estimate else margins
    if claim.bounds is not None:
        margins |= _form(values, claim.bounds, dtype)
        found.width = max(found.width, float(np.max(claim.bounds[:, 1] - claim.bounds[:, 0])) / (top or 1.0))
    truth = truth_of(claim.kernel, claim.X, claim.weights, k, center=claim.center)
    if not (
        math.isfinite(truth.error)
        and np.isfinite(truth.values.astype(np.float64)).all()
        and max(margins.values()) < BROKEN
    ):
        _note(found.margins, margins)
        return
    if claim.bounds is not None:
        _note(notes, {"bounds": _bounds(values, claim.bounds, truth)})
    slack = truth.rounding if claim.bounds is None else float(np.max(values - claim.bounds[:, 0], initial=0.0))
    residuals = np.zeros(k) if claim.residuals is None else claim.residuals
    allowed, true = np.full(k, np.inf), np.full(k, np.nan)
    if claim.tol is not None:
        allowed = np.maximum(claim.tol * top, residuals) + slack + eps * np.abs(values) + truth.error
        margins["tolerance"] = _worst(np.abs(values - truth.values.astype(np.float64)), allowed)
    if claim.vectors is not None:
        U = claim.vectors.astype(LD)
        true = np.sqrt(np.square(truth.multiply(U) - U * values.astype(LD)).sum(axis=0)).astype(np.float64)
        _note(notes, {"residual": _worst(true, 2 * residuals + truth.error)})
        crooked = _orthogonality(U, values > residuals) / (50 * eps)
        _note(margins if claim.exact else found.notes, {"orthogonality": crooked})
    if claim.ratio is not None and claim.tol is not None and np.isfinite(claim.ratio).all() and truth.trace > 0:
        share = truth.values.astype(np.float64) / truth.trace
        room = (allowed + share * math.sqrt(len(claim.X)) * (truth.rounding + slack)) / truth.trace + 2 * eps * share
        margins["ratio"] = _worst(np.abs(claim.ratio.astype(np.float64) - share), room)
    if claim.scores is not None and claim.vectors is not None and claim.exact:
        _note(found.notes, {"scores": _scores(claim, values, 2 * residuals + slack, eps)})
    if not found.table and any(not margin <= 1.0 for margin in (*margins.values(), *notes.values())):
        found.table = _table(claim, truth, true)
    _note(found.margins, margins)


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


def _form(values: Array, bounds: Array, dtype: str) -> dict[str, float]:
    """Return 0 where bounds are numbers in order, hold the value returned, and are no narrower than its rounding."""
    low, high = bounds.T
    if np.isnan(bounds).any() or not np.isfinite(low).all() or not (low <= high).all():
        return {"finite": BROKEN}
    middle, half = low / 2 + high / 2, high / 2 - low / 2
    outside = np.where((low <= values) & (values <= high), 0.0, np.abs(values - middle))
    found = {"inside": _worst(outside, np.where(outside > 0, half, 1.0))}
    if dtype == "float32":
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


def _orthogonality(U: Array, real: Array) -> float:
    """Return |U'U - I| / sqrt(k) of the vectors whose eigenvalues are more than their error."""
    k = int(real.sum())
    if not k:
        return 0.0
    return float(np.linalg.norm((U[:, real].T @ U[:, real]).astype(np.float64) - np.eye(k), 2)) / math.sqrt(k)


def _scores(claim: Claim, values: Array, errors: Array, eps: float) -> float:
    """Return how far scores of the rows are from U sqrt(lambda), over what residuals and rounding explain."""
    assert claim.vectors is not None and claim.scores is not None
    s = np.ones(len(claim.X)) if claim.weights is None else np.sqrt(claim.weights)
    roots = np.sqrt(np.maximum(values, 0.0))
    real = roots > 0
    if not real.any():
        return 0.0
    wanted = claim.vectors[:, real].astype(np.float64) * roots[real] / s[:, None]
    gaps = np.linalg.norm((claim.scores[:, real].astype(np.float64) - wanted) * s[:, None], axis=0)
    return _worst(gaps, errors[real] / roots[real] + 16 * (eps + EPS * len(s)) * roots.max())
