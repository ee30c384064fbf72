"""Landmarks on covertype: 581 012 x 54, rank 1 000, k = 20, float32, against scikit-learn's Nystroem and PCA.

Needs covtype.npz in the folder that KPCA_DATA names, or in ../shared/data.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from benchmarks._child import bits, measure
from benchmarks._data import FloatArray, clustered, median_gamma
from benchmarks._race import Contender, Heat, parse, race, run_task, save, show, show_race, touch_memory
from benchmarks._real import data_file

FILE, ROWS = data_file("covtype.npz"), 581_012
_FIT = "benchmarks.bench_covertype:fit"
_SPEED, _MEMORY = 4.0, 8.0
# Rows on which the trace error of both is measured, in float64.
_CHECKED = 20_000


def covertype(rows: int = ROWS) -> FloatArray:
    """Return the rows in a random order, ten columns standardised; made-up rows without the file.  # shape: (n, 54)"""
    if not FILE.exists():  # `bench_cores` only needs rows of this shape; `main` refuses
        return clustered(rows, 54).astype(np.float32)
    with np.load(FILE, allow_pickle=False) as file:
        X = np.ascontiguousarray(file["X"], dtype=np.float32)
    X[:, :10] -= X[:, :10].mean(axis=0, dtype=np.float64).astype(np.float32)
    X[:, :10] /= X[:, :10].std(axis=0, dtype=np.float64).astype(np.float32)
    return X[np.random.default_rng(0).permutation(len(X))[:rows]]


def fit(*, library: str, rows: int, rank: int, k: int, check: bool) -> dict[str, Any]:
    """Fit, and return the scores of all rows; in the fresh process."""
    X = covertype(rows)
    gamma = median_gamma(X)
    model = _model(library, gamma, rank, k)
    _model(library, gamma, 20, 2).fit_transform(X[:500])  # what is loaded at the first call is import time
    scores, result = measure(lambda: model.fit_transform(X))
    if library == "kpca":
        result["bits"] = bits(model.eigenvalues_, scores)
    if check:
        some = X[np.random.default_rng(1).choice(len(X), min(len(X), _CHECKED), replace=False)].astype(np.float64)
        landmarks = model[0].components_ if library == "sklearn" else model.feature_map_.landmarks
        result["trace_error"] = trace_error(some, np.asarray(landmarks, dtype=np.float64), gamma)
        values = model[1].singular_values_.astype(np.float64) ** 2 if library == "sklearn" else model.eigenvalues_
        result["eigenvalues"] = np.asarray(values, dtype=np.float64).tolist()
    return result


def _model(library: str, gamma: float, rank: int, k: int) -> Any:
    if library == "sklearn":
        from sklearn.decomposition import PCA
        from sklearn.kernel_approximation import Nystroem
        from sklearn.pipeline import make_pipeline

        return make_pipeline(Nystroem(gamma=gamma, n_components=rank, random_state=0), PCA(k, random_state=0))
    import kpca

    return kpca.KernelPCA(k, kernel="rbf", gamma=gamma, approximation=kpca.Nystroem(rank), random_state=0)


def trace_error(X: FloatArray, Z: FloatArray, gamma: float) -> float:
    """Return tr(K - K(X,Z) K(Z,Z)^-1 K(Z,X)) / tr K over some rows, by the eigenvectors of K(Z,Z)."""
    from scipy.linalg import eigh
    from scipy.spatial.distance import cdist

    values, vectors = eigh(np.exp(-gamma * cdist(Z, Z, "sqeuclidean")))
    solid = values > 1e-12 * values[-1]
    W = vectors[:, solid] / np.sqrt(values[solid])
    explained = 0.0
    for start in range(0, len(X), 2000):
        K = np.exp(-gamma * cdist(X[start : start + 2000], Z, "sqeuclidean"))
        explained += float(np.square(K @ W).sum())
    return 1.0 - explained / len(X)


def certificate(*, rows: int, rank: int, k: int) -> dict[str, Any]:
    """Return the bounds of landmarks beside the exact eigenvalues, on as many rows as an exact fit takes quickly."""
    import kpca

    X = covertype(rows)
    gamma = median_gamma(X)
    model = _model("kpca", gamma, rank, k).fit(X)
    exact = kpca.KernelPCA(k, kernel="rbf", gamma=gamma, tol=1e-6, random_state=0).fit(X.astype(np.float64))
    bounds, values = model.eigenvalue_bounds_, exact.eigenvalues_
    holds = bool((bounds[:, 0] <= values).all() and (values <= bounds[:, 1]).all())
    return {"bounds": bounds.tolist(), "eigenvalues": values.tolist(), "holds": holds}


def main() -> None:
    """Run the race."""
    options = parse(__doc__)
    if not FILE.exists():
        sys.exit(f"{FILE.name} is not there: set KPCA_DATA to its folder.")
    rows, rank, small = (20_000, 200, 4_000) if options.quick else (ROWS, 1_000, 20_000)
    touch_memory(options.touch_gib)
    args = {"rows": rows, "rank": rank, "k": 20}
    contenders = [
        Contender("sklearn Nystroem + PCA", _FIT, {"library": "sklearn", **args}),
        Contender("kpca", _FIT, {"library": "kpca", **args}, _SPEED),
    ]
    found = race([Heat(f"covertype {rows} x 54, rank {rank}, k=20, float32", contenders)], options)
    show_race("landmarks, fit and scores of all rows", found)
    theirs, ours = (row["runs"][0]["trace_error"] for row in found)
    memory = found[0]["peak_mib"] / found[1]["peak_mib"]
    checked = run_task("benchmarks.bench_covertype:certificate", {"rows": small, "rank": rank, "k": 20})
    show(
        "what else is asked",
        ["", "scikit-learn", "kpca", "asked", "met"],
        [
            ["relative trace error", f"{theirs:.4f}", f"{ours:.4f}", "smaller", _word(ours < theirs)],
            ["peak memory", "1", f"1/{memory:.1f}", f"at most 1/{_MEMORY:.0f}", _word(memory >= _MEMORY)],
            [
                f"bounds hold on {small} rows",
                "none",
                f"{len(checked['bounds'])} bounds",
                "all",
                _word(checked["holds"]),
            ],
        ],
    )
    save("covertype", options, {"race": found, "certificate": checked, "memory_ratio": memory})


def _word(met: bool) -> str:
    return "[green]yes[/]" if met else "[bold red]NO[/]"


if __name__ == "__main__":
    main()
