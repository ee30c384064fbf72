"""The ways to components that cases take, and what each of them claims."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn import decomposition
from sklearn.exceptions import ConvergenceWarning

import kpca
from benchmarks._hostile import Case
from kpca.estimators.cost import Request
from kpca.estimators.exact import decompose
from kpca.estimators.solvers import Near
from kpca.estimators.warm_start import Follower
from kpca.features import IdentityMap
from kpca.gram import Centered, MatrixGram
from kpca.kernels.resolve import resolve
from kpca.spectrum import solve_krylov
from kpca.spectrum.krylov import smallest_basis

Array = NDArray[Any]
# What tol=0 asks for.
_FINEST = {"float64": 1e-10, "float32": 1e-5}


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
    asked: Any = None  # how many components, or which share of the variance
    exact: bool = True  # False where features take the place of the kernel


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
        asked=case.values().get("n_components"),
        estimate=not exact and not _certified(features),
        exact=exact,
    )


def _certified(features: Any) -> bool:
    return isinstance(features, IdentityMap) or bool(getattr(features, "exact", False))


def _fit(case: Case, told: Told) -> Iterator[Claim]:
    model = kpca.KernelPCA(**case.values()).fit(case.given(), sample_weight=case.weights)
    yield _claim(case, model, told)


def _chunks(case: Case, told: Told) -> Iterator[Claim]:
    """Rows that are read in chunks, twice."""
    X = case.given()
    model = kpca.KernelPCA(**case.values()).fit(_InChunks(X), sample_weight=case.weights)
    yield _claim(case, model, told)


class _InChunks:
    """Rows with a shape and slices, and nothing else of an array."""

    def __init__(self, X: Any) -> None:
        self._X, self.shape, self.dtype, self.ndim = X, X.shape, X.dtype, 2

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, rows: Any) -> Any:
        return self._X[rows]


def _theirs(case: Case, told: Told) -> Iterator[Claim]:
    """Components that scikit-learn has found, with residuals and bounds that are measured here."""
    model = kpca.KernelPCA.from_sklearn(decomposition.KernelPCA(**case.values()).fit(case.given()))
    claim = _claim(case, model, told)
    yield replace(claim, route="from scikit-learn", tol=None, exact=False, scores=None)


_KEPT = ("eigenvalues_", "eigenvectors_", "residuals_", "eigenvalue_bounds_", "explained_variance_ratio_")


def _same(one: Any, other: Any) -> None:
    for name in _KEPT:
        assert np.array_equal(getattr(one, name), getattr(other, name), equal_nan=True), f"{name} differs"


def _reloaded(model: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.kpca")
        kpca.save(model, path)
        return kpca.load(path)


def _saved(case: Case, told: Told) -> Iterator[Claim]:
    model = kpca.KernelPCA(**case.values()).fit(case.given(), sample_weight=case.weights)
    loaded = _reloaded(model)
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
        if case.how == "stream, saved":
            model = _reloaded(model)
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
        f"{case.how}, {kind}",
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
    how = {"start": _start(case, options), "seed": options["seed"]}
    if options.get("short"):
        how["room"] = smallest_basis(k, len(case.X))
    spectrum = solve_krylov(Centered(operator) if centred else operator, k, tol, **how)
    yield Claim(
        None,
        case.X,
        None,
        centred,
        spectrum.values,
        "solve_krylov",
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
    "stream, saved": _stream,
    "chunks": _chunks,
    "from scikit-learn": _theirs,
    "path": _path,
    "near": _near,
    "krylov": _krylov,
}
