"""Anomaly detectors on ADBench data: what runs in a fresh process for `bench_detection`.

Detectors are unsupervised: fitted to all rows, whose labels only the AUROC sees. kpca and "pyod KPCA, raw" take rows as
they are; all others get rows that were standardised before the clock starts.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks._child import MIB, measure, memory_peak
from benchmarks._data import FloatArray
from benchmarks._real import data_file

SETS = ("breastw", "vowels", "cardio", "thyroid", "satellite", "pendigits", "mammography", "shuttle", "http")
STATISTICS = ("combined", "spe", "t2")
# Published setting: 200 benign rows of unit variance, sigma = 2, 190 components, the rest judged by the SPE.
_TRAINED, _SIGMA, _COMPONENTS = 200, 2.0, 190


def adbench(name: str, rows: int | None = None, seed: int = 0) -> tuple[FloatArray, NDArray[Any]]:
    """Return rows in double precision and which are anomalies; `rows` of them, with the same share of anomalies."""
    from sklearn.model_selection import train_test_split

    with np.load(data_file(f"adbench/{name}.npz"), allow_pickle=False) as file:
        X, y = file["X"].astype(np.float64), file["y"].astype(int)
    if rows is None or rows >= len(X):
        return X, y
    kept, _ = train_test_split(np.arange(len(X)), train_size=rows, stratify=y, random_state=seed)
    return X[kept], y[kept]


def detect(
    *, contender: str, data: str, rows: int | None, seed: int, components: int | None = None, memory_gib: float = 6.0
) -> dict[str, Any]:
    """Fit a detector, score all rows, and return AUROC, time and memory; {"outcome": ...} where memory did not do."""
    from sklearn.metrics import roc_auc_score
    from sklearn.preprocessing import StandardScaler

    X, y = adbench(data, rows, seed)
    if contender not in _AS_THEY_ARE:
        X = StandardScaler().fit_transform(X)
    score = _CONTENDERS[contender]
    if components is not None:
        components = min(components, len(X) - 1)
    score(X[:200], seed, components and min(components, 20))  # what is loaded at the first call is import time
    limit = int(memory_gib * 2**30)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))  # a matrix too large is refused, and the machine goes on
    start = time.process_time()
    try:
        scores, result = measure(lambda: score(X, seed, components))
    except MemoryError:
        return {"outcome": f"> {memory_gib:g} GiB"}
    cpu = time.process_time() - start
    details = {key: scores.pop(key) for key in ("components", "landmarks") if key in scores}
    auroc = {name: float(roc_auc_score(y, found)) for name, found in scores.items()}
    total = max(memory_peak(), _usage()) / MIB
    return {"outcome": "done", **result, "cpu_seconds": cpu, "total_peak_mib": total, "auroc": auroc, **details}


def _usage() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0


# -- contenders: rows, seed, components -> scores by name, the larger the more abnormal -------------------------------


def _kpca(X: FloatArray, seed: int, components: int | None) -> dict[str, Any]:
    from kpca import KernelPCADetector

    detector = KernelPCADetector(random_state=seed).fit(X)
    found = detector.statistics(X)  # score_samples is minus one of these: the work is the same
    scores = {name: found[name] for name in STATISTICS}
    return {**scores, "components": len(detector.model_.eigenvalues_), "landmarks": _landmarks(detector.model_)}


def _landmarks(model: Any) -> int | None:
    feature_map = getattr(model, "feature_map_", None)
    return None if feature_map is None else len(feature_map.landmarks)


def _pyod_kpca(X: FloatArray, seed: int, components: int | None) -> dict[str, Any]:
    from pyod.models.kpca import KPCA

    # n_components = k and n_selected_components = k give the same scores; the first does not compute the others
    return {"score": KPCA(n_components=components, random_state=seed).fit(X).decision_scores_}


def _pyod_kpca_all(X: FloatArray, seed: int, components: int | None) -> dict[str, Any]:
    return _pyod_kpca(X, seed, None)


def _svm(X: FloatArray, seed: int, components: int | None) -> dict[str, Any]:
    from sklearn.svm import OneClassSVM

    return {"score": -OneClassSVM(gamma="scale").fit(X).score_samples(X)}


def _forest(X: FloatArray, seed: int, components: int | None) -> dict[str, Any]:
    from sklearn.ensemble import IsolationForest

    return {"score": -IsolationForest(random_state=seed).fit(X).score_samples(X)}


def _lof(X: FloatArray, seed: int, components: int | None) -> dict[str, Any]:
    from sklearn.neighbors import LocalOutlierFactor

    return {"score": -LocalOutlierFactor().fit(X).negative_outlier_factor_}


_AS_THEY_ARE = ("kpca", "pyod KPCA, raw")
_CONTENDERS: dict[str, Callable[[FloatArray, int, int | None], dict[str, Any]]] = {
    "kpca": _kpca,
    "pyod KPCA, raw": _pyod_kpca_all,
    "pyod KPCA": _pyod_kpca_all,
    "pyod KPCA, k": _pyod_kpca,
    "one-class SVM": _svm,
    "isolation forest": _forest,
    "LOF": _lof,
}


# -- the published setting --------------------------------------------------------------------------------------------


def breastw(*, scaled_by: str, draws: int) -> dict[str, Any]:
    """Return the AUROC of the rows that were not trained on: of the first 200 benign rows, and of random ones."""
    X, y = adbench("breastw")
    benign = np.flatnonzero(y == 0)
    first = _published(X, y, benign[:_TRAINED], scaled_by)
    random = [
        _published(X, y, np.random.default_rng(seed).choice(benign, _TRAINED, replace=False), scaled_by)
        for seed in range(draws)
    ]
    return {"scaled_by": scaled_by, "first": first, "random": random}


def _published(X: FloatArray, y: NDArray[Any], trained: NDArray[Any], scaled_by: str) -> float:
    from sklearn.metrics import roc_auc_score

    from kpca import KernelPCADetector

    spread = X[trained if scaled_by == "training rows" else slice(None)].std(axis=0)
    X = X / np.where(spread > 0, spread, 1.0)
    detector = KernelPCADetector(
        _COMPONENTS, gamma=1 / (2 * _SIGMA**2), statistic="spe", scale=None, approximation=None, random_state=0
    ).fit(X[trained])
    others = np.setdiff1d(np.arange(len(X)), trained)
    return float(roc_auc_score(y[others], -detector.score_samples(X[others])))
