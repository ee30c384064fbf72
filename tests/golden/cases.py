"""Small fits of every kind, and all that can be asked of them; what they give today is frozen beside this file.

Only the public API is used, so the cases outlive any change of the modules behind it. Data are rounded to three
digits, which makes them the same on every machine.
"""

from __future__ import annotations

import hashlib
import tempfile
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator
from sklearn.gaussian_process import kernels as gp
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

import kpca
from kpca import (
    IncrementalKernelPCA,
    KernelPCA,
    KernelPCADetector,
    Nystroem,
    RandomFeatures,
    detector,
    diagnostics,
    explain,
    kernels,
    preimage,
    selection,
)

Found = dict[str, Any]  # name -> array, number or text
CASES: dict[str, Callable[[], Found]] = {}
# Routes and layouts depend on how much memory may be used; here that is the same on every machine.
MEMORY = "1GiB"
FLOATS = (np.float64, np.float32)
# Bits that depend on the number of BLAS threads: products with large dense rows or a given matrix are BLAS's own. These
# cases run with one. The last is LAPACK's: it takes as many threads as BLAS had at the start, whatever is set later.
ONE_BLAS_THREAD = ("linear multiplied", "linear sparse multiplied", "matrix, krylov")
BLAS_THREADS_OF_THE_START = ("dense, many components",)
_ATTRIBUTES = (
    "batches_seen_",
    "centre_",
    "compression_loss_",
    "drift_",
    "dual_coef_",
    "eigenvalue_bounds_",
    "eigenvalues_",
    "explained_variance_ratio_",
    "gamma_",
    "information_ratio_",
    "landmark_indices_",
    "mass_",
    "n_components_",
    "n_components_reason_",
    "n_passes_",
    "n_samples_seen_",
    "offset_",
    "rank_",
    "residuals_",
    "solver_",
    "unexplained_",
)


def run(name: str) -> Found:
    """Return what a case gives."""
    limit = threadpool_limits(1, "blas") if name in ONE_BLAS_THREAD else nullcontext()
    with kpca.config(memory_limit=MEMORY), limit, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return CASES[name]()


def case(name: str) -> Callable[[Callable[[], Found]], Callable[[], Found]]:
    def noted(work: Callable[[], Found]) -> Callable[[], Found]:
        assert name not in CASES
        CASES[name] = work
        return work

    return noted


def rows(n: int, seed: int, d: int = 3, dtype: Any = np.float64) -> np.ndarray:
    """Rows on a noisy ring."""
    rng = np.random.default_rng(seed)
    angle = rng.uniform(0, 2 * np.pi, n)
    ring = np.column_stack([np.cos(angle), np.sin(angle), 0.3 * rng.normal(size=(n, d - 2))])
    return np.round(ring, 3).astype(dtype)


def sparse_rows(n: int, d: int, seed: int) -> sparse.csr_array:
    """Rows of which nine entries in ten are zero."""
    rng = np.random.default_rng(seed)
    return sparse.csr_array(np.where(rng.random((n, d)) < 0.1, np.round(rng.normal(size=(n, d)), 3), 0.0))


X, NEW = rows(60, 0), rows(7, 1)
POSITIVE, NEW_POSITIVE = np.abs(X), np.abs(NEW)
WEIGHTS = np.random.default_rng(2).integers(0, 3, len(X)).astype(float)


# -- what is asked of a model -----------------------------------------------------------------------------------------


def facts(model: Any, new: Any = NEW, *, back: bool = False) -> Found:
    """Return the file of a fitted model, its attributes and what it makes of new rows."""
    found = {"file": file_digest(model)}  # first: later questions may be answered from memory
    for name in _ATTRIBUTES:
        if hasattr(model, name):
            found[name] = getattr(model, name)
    if hasattr(model, "transform"):
        found["transform"] = model.transform(new)
    if back:
        found["inverse_transform"] = model.inverse_transform(found["transform"])
        found["denoise"] = model.denoise(new)
        found["preimage"] = model.preimage_report_.method
    return found


def fit(model: Any, X: Any = X, new: Any = NEW, *, back: bool = False, **options: Any) -> Found:
    """Return the scores of the rows of a fit, and all facts."""
    scores = model.fit_transform(X, **options)
    return {**facts(model, new, back=back), "scores": scores}


def in_both_precisions(model: Callable[[], Any], X: Any = X, new: Any = NEW, **options: Any) -> Found:
    """Return the facts of fits to float64 rows and to the same rows as float32."""
    found: Found = {}
    for dtype in FLOATS:
        each = fit(model(), X.astype(dtype), new.astype(dtype), **options)
        found |= {f"{np.dtype(dtype)} {name}": value for name, value in each.items()}
    return found


def file_digest(model: Any) -> str:
    """Return the SHA-256 of the file of a model, or why there is none."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.kpca"
        try:
            kpca.save(model, path)
        except kpca.InputError:
            return "refused"
        return hashlib.sha256(path.read_bytes()).hexdigest()


def _add(name: str, work: Callable[..., Found], model: Callable[[], Any], *given: Any, **options: Any) -> None:
    case(name)(lambda: work(model(), *given, **options))


def _add_both(name: str, model: Callable[[], Any], *given: Any, **options: Any) -> None:
    case(name)(lambda: in_both_precisions(model, *given, **options))


# -- kernels, by the whole matrix -------------------------------------------------------------------------------------


def gaussian_of_pair(x: Any, y: Any) -> float:
    return float(np.exp(-0.5 * np.sum((x - y) ** 2)))


def quadratic_of_rows(X: Any, Y: Any) -> Any:
    return (X @ Y.T + 1.0) ** 2


for _name in kernels.NAMES:
    _of_counts = _name in ("chi2", "additive_chi2", "histogram_intersection")
    _rows = (POSITIVE, NEW_POSITIVE) if _of_counts else (X, NEW)
    _add_both(f"kernel {_name}", lambda _name=_name: KernelPCA(3, kernel=_name, gamma=0.4), *_rows)

for _name, _kernel in {
    "gamma per column": kernels.RBF(gamma=(0.5, 1.0, 2.0)),
    "sum": kernels.RBF(0.5) + 0.5 * kernels.Linear() + kernels.Constant(1.0),
    "product": kernels.Laplacian(0.3) * kernels.Polynomial(2),
    "scaled": 3.0 * kernels.Matern(2.5, (1.0, 2.0, 3.0)),
    "pairs": gaussian_of_pair,
    "matrices": quadratic_of_rows,
    "Gaussian process, translated": gp.RBF(1.5) + gp.WhiteKernel(0.1),
    "Gaussian process, as it is": gp.ExpSineSquared(2.0, 3.0) * gp.RBF([1.0, 2.0, 3.0]),
}.items():
    _add(f"kernel: {_name}", fit, lambda _kernel=_kernel: KernelPCA(3, kernel=_kernel))

_add("all components", fit, lambda: KernelPCA(kernel="rbf", gamma="scale"), X[:25])
_add("dense, many rows", fit, lambda: KernelPCA(3, kernel="rbf", gamma="median", eigen_solver="dense"), rows(800, 3))
_add("dense, many components", fit, lambda: KernelPCA(40, kernel="rbf", gamma=1.0), rows(400, 2))
_add_both("share", lambda: KernelPCA(0.9, kernel="rbf", gamma=1.0))
_add_both("automatic number", lambda: KernelPCA("auto", kernel="rbf", gamma="median"))
_add_both("weights", lambda: KernelPCA(3, kernel="rbf", gamma=0.5), sample_weight=WEIGHTS)
_add_both("not centred", lambda: KernelPCA(3, kernel="poly", degree=2, center=False))
_add("constant rows", fit, lambda: KernelPCA(2, kernel="rbf", remove_zero_eig=True), np.ones((6, 3)))
_add("sparse rbf", fit, lambda: KernelPCA(3, kernel="rbf", gamma=0.2), sparse_rows(60, 20, 0), sparse_rows(5, 20, 1))
_add("sparse cosine", fit, lambda: KernelPCA(3, kernel="cosine"), sparse_rows(60, 20, 0), sparse_rows(5, 20, 1))

# -- kernels, by products with the matrix -----------------------------------------------------------------------------


def _krylov(n_components: Any, **options: Any) -> KernelPCA:
    return KernelPCA(n_components, **{"kernel": "rbf", "gamma": 0.5, "eigen_solver": "krylov", **options})


_add_both("krylov", lambda: _krylov(4), rows(900, 4))
_add("krylov laplacian", fit, lambda: _krylov(3, kernel="laplacian", tol=1e-6), rows(900, 5))
_add("krylov not centred", fit, lambda: _krylov(3, kernel="poly", degree=2, center=False), rows(900, 6))
_add("krylov share", fit, lambda: _krylov(0.9, tol=1e-6), rows(900, 7))
_add("krylov weights", fit, lambda: _krylov(3), rows(900, 8), sample_weight=1.0 + np.arange(900) % 3)
_add("krylov sparse", fit, lambda: _krylov(3, gamma=0.05, tol=1e-6), sparse_rows(900, 30, 2), sparse_rows(5, 30, 3))
# more rows than 4096: float32 tiles, and float64 where they are not enough
_add("krylov tiles", fit, lambda: _krylov(3, gamma=0.2), rows(4600, 9, 5), rows(7, 10, 5))

# -- the linear kernel ------------------------------------------------------------------------------------------------

_add_both("linear primal", lambda: KernelPCA(3, preimage="auto"), rows(200, 11, 6), rows(5, 12, 6), back=True)
_add_both("linear dual", lambda: KernelPCA(3), rows(20, 13, 50), rows(5, 14, 50))
_add("linear multiplied", fit, lambda: KernelPCA(2, tol=1e-6), rows(1050, 15, 1010), rows(5, 16, 1010))
_add("linear weights", fit, lambda: KernelPCA(2), sample_weight=WEIGHTS)
_add("linear sparse primal", fit, lambda: KernelPCA(3), sparse_rows(90, 20, 4), sparse_rows(5, 20, 5))
_add("linear sparse multiplied", fit, lambda: KernelPCA(3), sparse_rows(400, 350, 6), sparse_rows(5, 350, 7))

# -- given matrices ---------------------------------------------------------------------------------------------------


def products(A: Any, B: Any) -> np.ndarray:
    """Return A B' of rows of three digits in whole numbers, which are exact whatever BLAS does, scaled by 2^-20."""
    return (np.rint(1000 * A) @ np.rint(1000 * B).T) / 2**20


_K, _NEW_K = products(X, X), products(NEW, X)
_SPARSE_K = sparse.csr_array(np.where(np.abs(_K) > 0.7, _K, 0.0) + 20.0 * np.eye(len(_K)))


def _given(n_components: int = 3, **options: Any) -> KernelPCA:
    return KernelPCA(n_components, kernel="precomputed", **options)


_add_both("matrix", _given, _K, _NEW_K)
_add("matrix, weights", fit, _given, _K, _NEW_K, sample_weight=WEIGHTS)
_add("matrix, sparse", fit, _given, _SPARSE_K, _NEW_K)


@case("matrix, krylov")
def _matrix_krylov() -> Found:
    known = products(rows(900, 17), rows(900, 17))
    return fit(_given(eigen_solver="krylov"), known, known[:5])


@case("matrix, operator")
def _operator() -> Found:
    model = _given(2, eigen_solver="krylov").fit(aslinearoperator(_K))
    return facts(model, aslinearoperator(_NEW_K))


# -- approximations ---------------------------------------------------------------------------------------------------

_MANY = rows(300, 19)
for _name, _landmarks in {
    "rpcholesky": Nystroem(20),
    "uniform": Nystroem(20, "uniform"),
    "kmeans": Nystroem(20, "kmeans"),
    "leverage": Nystroem(20, "leverage"),
    "numbers of rows": Nystroem(landmarks=np.arange(0, 300, 15)),
    "points": Nystroem(landmarks=rows(20, 20)),
    "a share": Nystroem(0.05),
}.items():
    _add_both(
        f"landmarks, {_name}",
        lambda _landmarks=_landmarks: KernelPCA(3, kernel="rbf", gamma=0.5, approximation=_landmarks),
        _MANY,
    )
_add("landmarks, weights", fit, lambda: KernelPCA(3, kernel="rbf", approximation=Nystroem(15)), sample_weight=WEIGHTS)
_add(
    "landmarks, sparse",
    fit,
    lambda: KernelPCA(2, kernel="rbf", approximation=Nystroem(20)),
    sparse_rows(90, 20, 8),
    sparse_rows(5, 20, 9),
)
_add_both("landmarks alone", lambda: Nystroem(20, kernel="matern32", gamma=0.5))

for _structure in ("orthogonal", "independent", "hadamard"):
    _add_both(
        f"random {_structure}",
        lambda _structure=_structure: KernelPCA(3, kernel="rbf", approximation=RandomFeatures(41, _structure)),
        _MANY,
    )
for _name in ("laplacian", "poly", "arc_cosine1", "additive_chi2"):
    _add(
        f"random {_name}",
        fit,
        lambda _name=_name: KernelPCA(3, kernel=_name, gamma=0.4, approximation=RandomFeatures(40)),
        POSITIVE,
        NEW_POSITIVE,
    )


@case("random alone")
def _random_alone() -> Found:
    model = RandomFeatures(30, kernel=kernels.RBF(0.5) + 2.0 * kernels.Linear())
    error = model.fit(X).kernel_error_
    return {**fit(model), "error": np.array([error.rms, error.largest, error.standard_error])}


@case("compressed")
def _compressed() -> Found:
    model = KernelPCA(3, kernel="rbf", gamma=0.5, preimage="fixed-point").fit(_MANY)
    return facts(kpca.compress(model, 40), back=True)


# -- streams ----------------------------------------------------------------------------------------------------------

_BATCHES = [rows(n, 30 + n) for n in (40, 25, 35)]


@case("stream, linear")
def _stream_linear() -> Found:
    return fit(IncrementalKernelPCA(2), _MANY, back=True)


@case("stream, landmarks")
def _stream_landmarks() -> Found:
    found: Found = {}
    for dtype in FLOATS:
        model = IncrementalKernelPCA(2, kernel="rbf", approximation=Nystroem(10), warm_up=50)
        for number, batch in enumerate(_BATCHES):
            model.partial_fit(batch.astype(dtype))
            found |= {f"{np.dtype(dtype)} {number} {name}": value for name, value in facts(model).items()}
    return found


@case("stream, reservoir")
def _stream_reservoir() -> Found:
    model = IncrementalKernelPCA(
        0.9, kernel="rbf", gamma=0.5, approximation=Nystroem(12), warm_up=30, forgetting=0.9, preimage="ridge"
    )
    for batch in _BATCHES:
        model.partial_fit(batch, sample_weight=1.0 + np.arange(len(batch)) % 2)
    return facts(model, back=True)


@case("stream, random")
def _stream_random() -> Found:
    model = IncrementalKernelPCA(3, kernel="rbf", approximation=RandomFeatures(30), forgetting=0.8)
    for batch in _BATCHES:
        model.partial_fit(batch)
    return facts(model)


# -- anomalies --------------------------------------------------------------------------------------------------------

_ODD = np.vstack([NEW, 3.0 * NEW[:2]])


def _judged(model: KernelPCADetector, new: Any = _ODD) -> Found:
    statistics, limits = model.statistics(new), model.limits_
    return {
        **facts(model, new),
        "t2": statistics.t2,
        "spe": statistics.spe,
        "combined": statistics.combined,
        "limits": np.array([limits.t2, limits.spe, limits.combined]),
        "predict": model.predict(new),
        "contributions": model.contributions(new).values,
    }


@case("detector")
def _detector() -> Found:
    return _judged(KernelPCADetector().fit(_MANY))


@case("detector float32")
def _detector_float32() -> Found:
    return _judged(KernelPCADetector().fit(_MANY.astype(np.float32)), _ODD.astype(np.float32))


@case("detector, lags")
def _detector_lags() -> Found:
    model = KernelPCADetector(lags=2, scale="robust", limit="kde", statistic="spe").fit(_MANY[:100])
    watched = list(detector.monitor(model, [_MANY[100:120], _ODD]))
    return {
        **_judged(model),
        "watched": np.array([each.spe for each in watched]),
        "alarms": np.array([each.alarm for each in watched]),
    }


@case("detector that goes on")
def _detector_goes_on() -> Found:
    return _judged(KernelPCADetector(forgetting=0.95, approximation=Nystroem(15)).fit(X).partial_fit(_MANY[:30]))


# -- ways back --------------------------------------------------------------------------------------------------------


def _back(way: Any, **options: Any) -> KernelPCA:
    return KernelPCA(3, **{"kernel": "rbf", "gamma": 0.5, "preimage": way, **options})


for _way in ("auto", "ridge", "fixed-point", "distance", "gradient"):
    _add_both(f"back by {_way}", lambda _way=_way: _back(_way), back=True)
for _name, _options in {
    "scikit-learn's map": {"preimage": None, "fit_inverse_transform": True, "alpha": 0.1},
    "a regressor": {"preimage": LinearRegression()},
    "box and penalty": {"preimage": preimage.Auto(box=(-0.8, 0.8), penalty=0.1)},
    "fixed points, twice": {"preimage": preimage.FixedPoint(starts=2)},
    "gradient of poly": {"kernel": "poly", "preimage": "auto"},
    "distance of laplacian": {"kernel": "laplacian", "preimage": "auto"},
    "landmarks": {"approximation": Nystroem(20), "preimage": "fixed-point"},
    "random features": {"approximation": RandomFeatures(40), "preimage": "auto"},
}.items():
    _add(f"back: {_name}", fit, lambda _options=_options: _back(None, **_options), back=True)


@case("walk")
def _walk() -> Found:
    positions, found = preimage.traverse(_back("fixed-point").fit(X), 0, steps=5)
    return {"positions": positions, "rows": found}


@case("errors")
def _errors() -> Found:
    model = _back("ridge").fit(X)
    return {
        "input": model.reconstruction_error(NEW),
        "feature": model.reconstruction_error(NEW, "feature"),
        "score_samples": model.score_samples(NEW),
        "nearest": KernelPCA(2, kernel="rbf").fit(X).score_samples(NEW),
    }


# -- choosing, looking, explaining ------------------------------------------------------------------------------------


@case("path")
def _path() -> Found:
    found = selection.path(X, "rbf", grid=[0.1, 0.5, 2.0], n_components=3, criterion="reconstruction")
    names = ("eigenvalues", "explained_variance_ratio", "participation", "alignment", "residuals", "scores")
    return {name: getattr(found, name) for name in names}


@case("tune")
def _tune() -> Found:
    found = selection.tune(X, kernels={"linear": None, "rbf": 3, "poly": 2}, n_components=[1, 2, 3], cv=3)
    return {
        **{f"best {name}": value for name, value in found.best_params.items()},
        "best score": found.best_score,
        "reason": found.reason,
        "labels": " | ".join(sorted(str(entry["label"]) for entry in found.table)),
        "scores": np.array([entry["score"] for entry in found.table]),
        **facts(found.best_estimator),
    }


@case("tune, labels")
def _tune_labels() -> Found:
    found = selection.tune(X, X[:, 0] > 0.2, kernels={"rbf": [0.1, 1.0]}, n_components=[1, 2], cv=3)
    return {"scores": np.array([entry["score"] for entry in found.table]), "best gamma": found.best_params["gamma"]}


@case("number of components")
def _number() -> Found:
    found = {
        method: selection.n_components(X, method=method, kernel="rbf", gamma=0.5, max_components=6)
        for method in ("parallel", "elbow", "fraction", "reconstruction")
    }
    return {method: choice.count for method, choice in found.items()} | {
        f"{method} {name}": curve for method, choice in found.items() for name, curve in choice.curve.items()
    }


@case("findings")
def _findings() -> Found:
    models = {
        "narrow": KernelPCA(3, kernel="rbf", gamma=500.0).fit(X),
        "wide": KernelPCA(3, kernel="rbf", gamma=1e-6).fit(X),
        "right": KernelPCA(2, kernel="rbf", gamma="median").fit(_MANY),
        "landmarks": KernelPCA(2, kernel="rbf", approximation=Nystroem(4)).fit(_MANY),
    }
    return {
        name: " ".join(sorted(finding.kind for finding in diagnostics.check(model, _MANY, new=NEW, resamples=3)))
        for name, model in models.items()
    }


@case("importance")
def _importance() -> Found:
    model = KernelPCA(2, kernel="rbf", gamma=0.5).fit(X)
    gradient = explain.importance(model, X)
    linear = explain.importance(make_pipeline(StandardScaler(), KernelPCA(2)).fit(X), X, weighted=True)
    shuffled = explain.permutation_importance(model, X)
    return {
        "values": gradient.values,
        "by component": gradient.by_component,
        "linear": linear.values,
        "shuffled": shuffled.values,
    }
