"""Models of every kind that a file can hold, small and quick to fit, and what they give."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import TfidfTransformer, TfidfVectorizer
from sklearn.gaussian_process import kernels as gp
from sklearn.impute import SimpleImputer
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression
from sklearn.linear_model import Ridge as LinearRidge
from sklearn.model_selection import KFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, OneHotEncoder, RobustScaler, StandardScaler

from kpca import (
    IncrementalKernelPCA,
    KernelPCA,
    KernelPCADetector,
    Nystroem,
    RandomFeatures,
    compress,
    kernels,
    preimage,
)

N, D = 60, 3
X = np.random.default_rng(0).normal(size=(N, D))
NEW = np.random.default_rng(1).normal(size=(9, D))
POSITIVE, NEW_POSITIVE = np.abs(X), np.abs(NEW)
SPARSE = sparse.csr_array(np.where(np.abs(X) > 0.7, X, 0.0))
NEW_SPARSE = sparse.csr_array(np.where(np.abs(NEW) > 0.7, NEW, 0.0))
WEIGHTS = np.random.default_rng(2).integers(0, 3, N).astype(float)
DOCUMENTS = [f"{['red', 'green', 'blue'][i % 3]} apple number{i % 7} is here" for i in range(30)]
LETTERS = np.array([["a", "x"], ["b", "y"], ["a", None], ["c", "x"]] * 8, dtype=object)

Case = tuple[Any, Any]  # a model, and rows to try it on
CASES: dict[str, Callable[[], Case]] = {}


def case(name: str) -> Callable[[Callable[[], Case]], Callable[[], Case]]:
    def noted(make: Callable[[], Case]) -> Callable[[], Case]:
        CASES[name] = make
        return make

    return noted


def _fitted(model: Any, rows: Any = X, new: Any = NEW, **options: Any) -> Case:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(rows, **options), new


def _add(name: str, model: Callable[[], Any], rows: Any = X, new: Any = NEW, **options: Any) -> None:
    CASES[name] = lambda: _fitted(model(), rows, new, **options)


for _name in kernels.NAMES:
    _histograms = _name in ("chi2", "additive_chi2", "histogram_intersection")
    _rows, _new = (POSITIVE, NEW_POSITIVE) if _histograms else (X, NEW)
    _add(f"kernel {_name}", lambda _name=_name: KernelPCA(4, kernel=_name, gamma=0.2), _rows, _new)

for _kernel in (
    kernels.RBF(gamma=(0.1, 0.2, 0.3)),
    kernels.RBF(0.3) + 2.0 * kernels.Linear(),
    kernels.RBF(0.3) * kernels.Polynomial(2) + kernels.Constant(1.0),
    kernels.Matern(2.5, (1.0, 2.0, 3.0)),
    kernels.RationalQuadratic(0.5, 2.0),
    kernels.Sum((kernels.Laplacian(0.1), kernels.ArcCosine(0))),
):
    _add(f"kernel {_kernel}", lambda _kernel=_kernel: KernelPCA(3, kernel=_kernel))

_gaussian = gp.RBF(2.0) + gp.WhiteKernel(0.1)
_add("Gaussian process, translated", lambda: KernelPCA(3, kernel=_gaussian))
_add("Gaussian process, as it is", lambda: KernelPCA(3, kernel=gp.ExpSineSquared(2.0, 3.0) * gp.RBF([1.0, 2.0, 3.0])))
_add("gamma for each column", lambda: KernelPCA(3, kernel="rbf", gamma=np.array([0.1, 0.2, 0.3])))
_add("all components", lambda: KernelPCA(kernel="rbf"))
_add("a share", lambda: KernelPCA(0.9, kernel="rbf"))
_add("automatic number", lambda: KernelPCA("auto", kernel="rbf", gamma="median"))
_add("krylov", lambda: KernelPCA(3, kernel="rbf", eigen_solver="krylov", tol=1e-6))
_add("float32", lambda: KernelPCA(3, kernel="rbf", preimage="auto"), X.astype(np.float32), NEW.astype(np.float32))
_add("sparse", lambda: KernelPCA(3, kernel="rbf", gamma=0.2), SPARSE, NEW_SPARSE)
_add("sparse matrix", lambda: KernelPCA(2, kernel="cosine"), sparse.csr_matrix(SPARSE), sparse.csr_matrix(NEW_SPARSE))
_add("sparse linear", lambda: KernelPCA(2), SPARSE, NEW_SPARSE)
_add("sparse landmarks", lambda: KernelPCA(2, kernel="rbf", approximation=Nystroem(20)), SPARSE, NEW_SPARSE)
_add("weights", lambda: KernelPCA(3, kernel="rbf", fit_inverse_transform=True), sample_weight=WEIGHTS)
_add("not centred", lambda: KernelPCA(3, kernel="rbf", center=False, preimage="fixed-point"))
_add("linear, inverse", lambda: KernelPCA(2, preimage="auto"))
_add("precomputed", lambda: KernelPCA(3, kernel="precomputed"), X @ X.T, NEW @ X.T)
_add("constant rows", lambda: KernelPCA(kernel="rbf"), np.ones((5, 2)), np.ones((2, 2)))

_BOX = ([-1.0, -np.inf, -1.0], 1.0)
for _way in (
    "auto",
    "ridge",
    "fixed-point",
    "distance",
    "gradient",
    preimage.Auto(box=_BOX, penalty=0.1),
    preimage.FixedPoint(box=(-1, 1), starts=2),
    preimage.Ridge(alpha=0.1, gamma=0.5, rescale=False),
    LinearRegression(),
    preimage.Learned(KernelRidge(kernel="rbf", alpha=0.1), box=(-1, 1)),
    LinearRidge(alpha=0.5),
):
    _add(f"way back {_way}", lambda _way=_way: KernelPCA(3, kernel="rbf", gamma=0.2, preimage=_way))
_add("way back of poly", lambda: KernelPCA(3, kernel="poly", preimage="auto"))
_add("way back of laplacian", lambda: KernelPCA(3, kernel="laplacian", preimage="auto"))
_add("way back of sums", lambda: KernelPCA(3, kernel=2.0 * kernels.RBF(0.3), preimage="auto"))

for _structure in ("orthogonal", "independent", "hadamard"):
    _features = RandomFeatures(41, _structure)
    _add(f"random {_structure}", lambda _f=_features: KernelPCA(3, kernel="rbf", approximation=_f, preimage="auto"))
for _name in ("laplacian", "poly", "arc_cosine0", "arc_cosine1", "additive_chi2", "cosine", "matern32"):
    _features = RandomFeatures(40)
    _add(
        f"random {_name}",
        lambda _n=_name, _f=_features: KernelPCA(3, kernel=_n, gamma=0.3, approximation=_f),
        POSITIVE,
        NEW_POSITIVE,
    )
_add("random sum", lambda: KernelPCA(3, kernel=kernels.RBF(0.2) + 2.0 * kernels.Linear(), approximation="rff"))
_add("landmarks", lambda: KernelPCA(3, kernel="rbf", approximation=Nystroem(20), preimage="auto"))
_add("given landmarks", lambda: KernelPCA(3, kernel="rbf", approximation=Nystroem(landmarks=X[:15])))
_add("Nystroem", lambda: Nystroem(20, gamma=0.3))
_add("RandomFeatures", lambda: RandomFeatures(30, kernel="rbf"))

for _name, _kernel in (("linear", "linear"), ("rbf", "rbf")):
    _add(f"stream {_name}", lambda _k=_kernel: IncrementalKernelPCA(2, kernel=_k, preimage="auto"))
_add("stream share", lambda: IncrementalKernelPCA(0.8, kernel="rbf", approximation="rff", forgetting=0.9))


@case("compressed")
def _compressed() -> Case:
    return compress(KernelPCA(2, kernel="rbf").fit(X), 20), NEW


@case("stream under way")
def _under_way() -> Case:
    model = IncrementalKernelPCA(
        2, kernel="rbf", approximation=Nystroem(5), warm_up=20, forgetting=0.9, preimage="ridge"
    )
    for part in (X[:20], X[20:30], X[30:45]):
        model.partial_fit(part, sample_weight=np.linspace(0.5, 1.5, len(part)))
    return model, NEW


@case("stream that waits")
def _waits() -> Case:
    model = IncrementalKernelPCA(2, kernel="rbf", approximation=Nystroem(10), preimage="distance")
    return model.partial_fit(X[:20]).partial_fit(X[20:35], sample_weight=np.ones(15) * 2), NEW


for _name, _options in {
    "detector": {},
    "detector linear": {"kernel": "linear", "limit": "theory", "statistic": "t2"},
    "detector lags": {"lags": 2, "scale": "robust", "limit": "kde"},
    "detector landmarks": {"approximation": Nystroem(15), "contamination": 0.1, "statistic": "spe"},
    "detector random": {"approximation": "rff", "scale": None, "n_components": 0.9},
    "detector folds": {"folds": KFold(3, shuffle=True, random_state=1), "gamma": "median"},
}.items():
    _add(_name, lambda _o=_options: KernelPCADetector(**_o))


@case("detector that goes on")
def _goes_on() -> Case:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return KernelPCADetector(lags=1, forgetting=0.95).fit(X[:40]).partial_fit(X[40:]), NEW


_holes = np.where(np.random.default_rng(3).random(X.shape) < 0.1, np.nan, X)
_add(
    "pipeline of scalers",
    lambda: make_pipeline(
        SimpleImputer(strategy="median", add_indicator=True),
        RobustScaler(),
        MinMaxScaler(),
        MaxAbsScaler(),
        KernelPCA(2),
    ),
    _holes,
    np.where(np.arange(27).reshape(9, 3) == 4, np.nan, NEW),
)
_add(
    "pipeline, one passes",
    lambda: Pipeline(
        [("no", "passthrough"), ("in", make_pipeline(StandardScaler())), ("k", KernelPCA(2, kernel="rbf"))]
    ),
)
_add(
    "pipeline of words",
    lambda: make_pipeline(TfidfVectorizer(), KernelPCA(2, kernel="cosine")),
    DOCUMENTS,
    [*DOCUMENTS[:4], "new words"],
)
_add(
    "pipeline of counts",
    lambda: make_pipeline(MaxAbsScaler(), TfidfTransformer(), KernelPCA(2)),
    sparse.csr_array(POSITIVE),
    sparse.csr_array(NEW_POSITIVE),
)
_add(
    "pipeline of categories",
    lambda: make_pipeline(OneHotEncoder(handle_unknown="ignore"), KernelPCA(2, kernel="rbf")),
    LETTERS,
    np.array([["a", "y"], ["z", "x"]], dtype=object),
)
_add(
    "pipeline of rare categories",
    lambda: make_pipeline(
        OneHotEncoder(min_frequency=10, handle_unknown="infrequent_if_exist", sparse_output=False),
        KernelPCA(2, kernel="rbf"),
    ),
    LETTERS,
    LETTERS[:3],
)

UNFITTED: dict[str, Callable[[], Any]] = {
    "KernelPCA": lambda: KernelPCA(0.5, kernel=kernels.RBF(sigma=2.0), gamma=[0.1, 0.2], random_state=7),
    "odd parameters": lambda: KernelPCA(
        None, kernel_params={"a": 1, "b": [1.5, None]}, tol=np.float64(1e-3), coef0=-0.0
    ),
    "IncrementalKernelPCA": lambda: IncrementalKernelPCA(approximation=Nystroem(10), preimage=preimage.Ridge()),
    "KernelPCADetector": lambda: KernelPCADetector(kernel="poly", n_components=np.int64(3)),
    "Nystroem": lambda: Nystroem(landmarks=[1, 2, 3]),
    "Pipeline": lambda: make_pipeline(
        TfidfVectorizer(stop_words=["a", "b"]), StandardScaler(with_mean=False), KernelPCA(2)
    ),
}


def results(model: Any, new: Any) -> dict[str, Any]:
    """What a fitted model gives, or the sentence with which it refuses."""
    last = model.steps[-1][1] if isinstance(model, Pipeline) else model
    found: dict[str, Any] = {}

    def note(name: str, work: Callable[[], Any]) -> None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found[name] = work()
        except (ValueError, AttributeError, NotImplementedError) as error:
            found[name] = f"{type(error).__name__}: {error}"

    for method in ("transform", "denoise", "score_samples", "decision_function", "predict"):
        if hasattr(model, method):
            note(method, lambda method=method: getattr(model, method)(new))
    if hasattr(last, "inverse_transform"):
        scores = model.transform(new)
        note("inverse_transform", lambda: last.inverse_transform(scores))
    if hasattr(last, "contributions"):
        note("contributions", lambda: last.contributions(new).values)
    if hasattr(last, "reconstruction_error"):
        note("reconstruction_error", lambda: model.reconstruction_error(new, "feature"))
    for name in ("eigenvalues_", "eigenvalue_bounds_", "explained_variance_ratio_", "residuals_", "information_ratio_"):
        if hasattr(last, name):
            note(name, lambda name=name: getattr(last, name))
    return found
