"""Makes the files of models that must load for ever: `python -m tests.golden.make_models`.

Files that are there are left alone: what was written then is what users have. A new version of the format, or a new
kind of thing to store, adds files.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.gaussian_process import kernels as gp
from sklearn.impute import SimpleImputer
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression
from sklearn.linear_model import Ridge as LinearRidge
from sklearn.model_selection import KFold, TimeSeriesSplit
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, OneHotEncoder, RobustScaler, StandardScaler

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
from kpca.io import Layout, Preparation, Rows, read_about, save

FOLDER = Path(__file__).parent / "models"
ABOUT = "from synthetic rows"


def rows(n: int, seed: int) -> np.ndarray:
    """Rows on a noisy ring, rounded so that they are the same on every machine."""
    rng = np.random.default_rng(seed)
    angle = rng.uniform(0, 2 * np.pi, n)
    ring = np.column_stack([np.cos(angle), np.sin(angle), 0.1 * rng.normal(size=n)])
    return np.round(ring, 3)


X, NEW = rows(24, 0), rows(5, 1)
WEIGHTS = 1.0 + np.arange(len(X)) % 3
HOLES = np.where(np.arange(X.size).reshape(X.shape) % 11 == 3, np.nan, X)
DOCUMENTS = [f"{('red', 'green', 'blue')[i % 3]} apple number{i % 5} is here" for i in range(20)]
LETTERS = np.array([["a", "x"], ["b", "y"], ["a", None], ["c", "x"]] * 6, dtype=object)


def _table(start: int, stop: int) -> Rows:
    """Numbers, a category, a document and an identifier for each row."""
    some = slice(start, stop)
    colours = np.array([("u", "v", None)[i % 3] for i in range(start, stop)], dtype=object)
    words = np.array(DOCUMENTS[some], dtype=object)
    return Rows(Layout(("a", "b"), ("c",), "t", "i"), HOLES[some, :2], {"c": colours}, words, np.arange(start, stop))


# Rows that a model has not seen, where they are not just NEW.
NEW_ROWS: dict[str, Any] = {
    "kernels": np.abs(NEW),
    "random": np.abs(NEW),
    "matrix": NEW @ X.T,
    "sparse": sparse.csr_array(np.where(np.abs(NEW) > 0.3, NEW, 0.0)),
    "steps": np.where(np.arange(NEW.size).reshape(NEW.shape) == 4, np.nan, NEW),
    "words": [*DOCUMENTS[:3], "new words"],
    "counts": [*DOCUMENTS[:3], "new words"],
    "categories": np.array([["a", "y"], ["z", "x"], ["b", None]], dtype=object),
    "table": _table(12, 16),
}

_KERNELS = kernels.Sum(
    (
        kernels.Linear(),
        kernels.Polynomial(2, 0.5, 1.0),
        0.01 * kernels.Sigmoid(0.1, 0.0),
        kernels.Cosine(),
        kernels.RBF(gamma=(0.5, 1.0, 2.0)),
        kernels.Exponential(1.5),
        kernels.Matern(1.5, (1.0, 2.0, 3.0)),
        kernels.RationalQuadratic(0.5, 2.0),
        kernels.Laplacian(0.3) * kernels.ArcCosine(1),
        kernels.Chi2(0.4),
        kernels.AdditiveChi2(),
        kernels.HistogramIntersection(),
        kernels.Constant(0.5),
        kernels.GaussianProcess(
            gp.ConstantKernel(0.5) * gp.ExpSineSquared(2.0, 3.0)
            + gp.RBF([1.0, 2.0, 3.0])
            + gp.Matern(1.5, nu=0.8)
            + gp.RationalQuadratic(1.0, 0.5)
            + gp.DotProduct(0.5) ** 2
            + gp.PairwiseKernel(0.5, metric="laplacian")
            + gp.WhiteKernel(0.1)
        ),
    )
)
_RANDOM = kernels.Sum(
    (
        kernels.RBF(0.5),
        kernels.Laplacian(0.3),
        2.0 * kernels.AdditiveChi2(),
        kernels.ArcCosine(0),
        kernels.Polynomial(2, 0.5, 1.0),
        kernels.Constant(0.5),
    )
)


def _back(way: Any, **options: Any) -> KernelPCA:
    return KernelPCA(2, **{"kernel": "rbf", "gamma": 0.5, "preimage": way, **options}).fit(X)


def _streamed(model: IncrementalKernelPCA, *sizes: int) -> IncrementalKernelPCA:
    for start, stop in zip((0, *sizes), (*sizes, len(X)), strict=True):
        model.partial_fit(X[start:stop], sample_weight=WEIGHTS[start:stop])
    return model


def _prepared() -> Pipeline:
    preparation = Preparation(encode="onehot", impute="median", scale="robust")
    return Pipeline([("prepare", preparation), ("model", KernelPCA(2, kernel="rbf"))]).fit(_table(0, 12))


MODELS: dict[str, Callable[[], Any]] = {
    # of version 0.1.0 from the start
    "exact": lambda: KernelPCA(3, kernel="rbf", gamma=0.5, preimage="fixed-point").fit(X),
    "pipeline": lambda: make_pipeline(
        StandardScaler(), KernelPCA(2, kernel=kernels.RBF(gamma=(0.5, 1.0, 2.0)) + 0.5 * kernels.Linear())
    ).fit(X),
    "stream": lambda: (
        IncrementalKernelPCA(2, kernel="rbf", approximation=Nystroem(6), warm_up=10)
        .partial_fit(X[:12])
        .partial_fit(X[12:])
    ),
    "detector": lambda: KernelPCADetector(n_components=3, lags=1).fit(X),
    # kernels, matrices, precisions
    "kernels": lambda: KernelPCA(2, kernel=_KERNELS).fit(np.abs(X)),
    "float32": lambda: KernelPCA(2, kernel="rbf", gamma="median").fit(X.astype(np.float32)),
    "weights": lambda: KernelPCA(2, kernel="poly", center=False).fit(X, sample_weight=WEIGHTS),
    "linear": lambda: KernelPCA("auto", preimage="auto").fit(X),
    "matrix": lambda: KernelPCA(2, kernel="precomputed").fit(X @ X.T),
    "sparse": lambda: KernelPCA(2, kernel="cosine").fit(sparse.csr_array(np.where(np.abs(X) > 0.3, X, 0.0))),
    # features
    "landmarks": lambda: KernelPCA(2, kernel="rbf", approximation=Nystroem(8), preimage="auto").fit(X),
    "compressed": lambda: compress(KernelPCA(2, kernel="rbf").fit(X), 8),
    "random": lambda: KernelPCA(2, kernel=_RANDOM, approximation=RandomFeatures(30)).fit(np.abs(X)),
    "features": lambda: make_pipeline(Nystroem(8, gamma=0.5), RandomFeatures(10, "hadamard"), KernelPCA(2)).fit(X),
    # streams
    "stream-linear": lambda: _streamed(IncrementalKernelPCA(2, forgetting=0.9), 10),
    "stream-back": lambda: _streamed(
        IncrementalKernelPCA(2, kernel="rbf", approximation=Nystroem(6), warm_up=10, preimage="ridge"), 12, 18
    ),
    "stream-waiting": lambda: _streamed(IncrementalKernelPCA(2, kernel="rbf", approximation=Nystroem(6)), 8, 16),
    # anomalies
    "detector-folds": lambda: KernelPCADetector(
        folds=KFold(3, shuffle=True, random_state=1), approximation=Nystroem(8), scale="robust", limit="kde"
    ).fit(X),
    "detector-going-on": lambda: (
        KernelPCADetector(3, kernel="linear", folds=TimeSeriesSplit(2), limit="theory").fit(X[:18]).partial_fit(X[18:])
    ),
    # ways back
    "auto": lambda: _back(preimage.Auto(box=([-1.0, -np.inf, -1.0], 1.0), penalty=0.1)),
    "fixed-point": lambda: _back(preimage.FixedPoint(starts=2)),
    "distance": lambda: _back(preimage.Distance()),
    "gradient": lambda: _back(preimage.Gradient(), kernel="poly"),
    "ridge": lambda: _back(preimage.Ridge(alpha=0.1, gamma=0.5)),
    "ridge-map": lambda: _back(None, fit_inverse_transform=True),
    "regressor": lambda: _back(LinearRegression()),
    "linear-ridge": lambda: _back(LinearRidge(alpha=0.5)),
    "learned": lambda: _back(preimage.Learned(KernelRidge(kernel="rbf", alpha=0.1), box=(-1, 1))),
    # steps before a model
    "steps": lambda: make_pipeline(
        SimpleImputer(strategy="median", add_indicator=True),
        RobustScaler(),
        MinMaxScaler(),
        MaxAbsScaler(),
        Normalizer(),
        KernelPCA(2),
    ).fit(HOLES),
    "words": lambda: make_pipeline(TfidfVectorizer(), KernelPCA(2, kernel="cosine")).fit(DOCUMENTS),
    "counts": lambda: make_pipeline(CountVectorizer(), TfidfTransformer(), KernelPCA(2)).fit(DOCUMENTS),
    "categories": lambda: make_pipeline(OneHotEncoder(handle_unknown="ignore"), KernelPCA(2, kernel="rbf")).fit(
        LETTERS
    ),
    "table": _prepared,
    # parameters alone
    "unfitted": lambda: KernelPCA(0.9, kernel=gp.RBF(2.0) + gp.WhiteKernel(0.1), gamma=[0.1, 0.2], random_state=7),
}


def made(name: str) -> Any:
    """Return a model of this name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return MODELS[name]()


def results(name: str, model: Any) -> dict[str, Any]:
    """Return what a model gives for rows that it has not seen."""
    if name == "unfitted":
        return {"parameters": repr(model)}
    new = NEW_ROWS.get(name, NEW)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of rows unlike those of the fit
        if isinstance(model, KernelPCADetector):
            found = model.statistics(new)
            answers = {
                "scores": np.column_stack([found.t2, found.spe]),
                "decision": model.decision_function(new),
                "contributions": model.contributions(new).values,
            }
        else:
            answers = {"scores": model.transform(new)}
            if getattr(model, "preimage", None) is not None or getattr(model, "fit_inverse_transform", False):
                answers["inverse"] = model.inverse_transform(answers["scores"])
                answers["denoised"] = model.denoise(new)
    return {answer: np.asarray(value).tolist() for answer, value in answers.items()}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name in MODELS:
        path = FOLDER / f"{name}.kpca"
        model = made(name)
        save(model, path, about={"made": ABOUT, "name": name})
        target = FOLDER / f"v{read_about(path).version}-{name}.kpca"
        if target.exists():
            path.unlink()
            continue
        path.rename(target)
        target.with_suffix(".json").write_text(json.dumps(results(name, model)) + "\n", encoding="utf-8")
        print(target.name, target.stat().st_size)
