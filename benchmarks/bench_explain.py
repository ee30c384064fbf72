"""Do explanations find the variables that matter: planted among noise, and genes that tell two leukaemias apart?"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks._race import chosen, log, parse, run_task, save, show, verdict
from benchmarks._real import data_file
from benchmarks._structures import PLANTED, found, loadings, structure

FloatArray = NDArray[Any]
_SEEDS, _ASKED = 20, 95  # per cent of the seeds, where something is asked
_GENES, _NEIGHBOURS, _DRAWS = 50, 3, 100
# gamma is in multiples of that of "median" for rbf, of 1/d for poly; components None: as many as columns.
_NARROW: dict[str, Any] = {"kernel": "rbf", "width": 4.0}
_SQUARES: dict[str, Any] = {"kernel": "poly", "degree": 2, "coef0": 1.0, "width": 3.0}
_WAYS: dict[str, tuple[str, int | None, dict[str, Any]]] = {
    "linear loadings": ("loadings", 3, {}),
    "gradient, rbf": ("gradient", 3, _NARROW),
    "gradient, poly": ("gradient", 3, _SQUARES),
    "shuffled, rbf": ("shuffled", 3, _NARROW),
    "shuffled, poly": ("shuffled", 3, _SQUARES),
    "refitted, rbf": ("refitted", None, _NARROW),
}
# Where each way should find what is planted; elsewhere it is reported only.
_EXPECTED = {
    "gradient, rbf": ("ring", "xor"),
    "gradient, poly": ("xor", "xor among two-valued noise", "product"),
    "shuffled, rbf": ("ring", "xor"),
    "shuffled, poly": ("xor", "xor among two-valued noise", "product"),
    "refitted, rbf": tuple(PLANTED),
}


def planted(kind: str, seeds: int, check: bool) -> dict[str, Any]:
    """Return how often each way puts the planted variables on top; in the fresh process."""
    counts = dict.fromkeys(_WAYS, 0)
    for seed in range(seeds):
        X = structure(kind, seed)
        for name, (way, k, kernel) in _WAYS.items():
            counts[name] += found(_values(way, X, k or X.shape[1], dict(kernel)), PLANTED[kind])
    return {"counts": counts}


def _values(way: str, X: FloatArray, k: int, kernel: dict[str, Any]) -> FloatArray:
    from kpca import KernelPCA, explain
    from kpca.kernels import resolve_gamma

    if way == "loadings":
        return loadings(X, k)
    unit = float(resolve_gamma("median", X)) if kernel["kernel"] == "rbf" else 1.0 / X.shape[1]
    model = KernelPCA(k, gamma=kernel.pop("width") * unit, **kernel).fit(X)
    if way == "gradient":
        return explain.importance(model).values
    return explain.permutation_importance(model, refit=way == "refitted").values


def genes(check: bool) -> dict[str, Any]:
    """Return accuracies of nearest neighbours from some genes: (left out one by one, new patients)."""
    from kpca import KernelPCA, explain, selection

    with np.load(data_file("golub_leukemia.npz"), allow_pickle=False) as file:
        train, test = (np.log10(np.clip(file[name], 100, 16000)) for name in ("X_train", "X_test"))
        y, y_test = file["y_train"], file["y_test"]
    varies = np.ptp(train, axis=0) > 0  # the rounded deviation of a constant column may not be 0
    train, test = train[:, varies], test[:, varies]
    mean, spread = train.mean(axis=0), train.std(axis=0)
    data = (train - mean) / spread, y, (test - mean) / spread, y_test
    X, d = data[0], data[0].shape[1]

    def rated(columns: Any) -> list[float]:
        return [_left_out(X[:, columns], y), _new(X[:, columns], y, data[2][:, columns], y_test)]

    rbf: dict[str, Any] = {"kernel": "rbf", "gamma": "median"}
    elbow = selection.n_components(X, method="elbow", **rbf)
    few, auto = KernelPCA(elbow.count, **rbf).fit(X), KernelPCA("auto", **rbf).fit(X)
    by_few = explain.importance(few).order[:_GENES]
    by_auto = explain.importance(auto, weighted=True).order[:_GENES]
    by_loadings = np.argsort(-loadings(X, elbow.count))[:_GENES]
    random = np.random.default_rng(0)
    drawn = np.array([rated(random.choice(d, _GENES, replace=False)) for _ in range(_DRAWS)])
    return {
        "genes": d,
        "accuracies": {
            f"all {d:,} genes": rated(np.arange(d)),
            f"{_GENES} random genes (mean of {_DRAWS} draws)": drawn.mean(axis=0).tolist(),
            f"{_GENES} by loadings of {elbow.count} components of PCA": rated(by_loadings),
            f"{_GENES} by importance, {elbow.count} components (elbow)": rated(by_few),
            f"{_GENES} by weighted importance, {auto.n_components_} components ('auto')": rated(by_auto),
        },
        "shared": int(np.intersect1d(by_few, by_auto).size),
    }


def _vote(distances: FloatArray, y: NDArray[Any]) -> NDArray[Any]:
    nearest = np.argsort(distances, axis=1, kind="stable")[:, :_NEIGHBOURS]
    voted: NDArray[Any] = (y[nearest].mean(axis=1) > 0.5).astype(int)
    return voted


def _left_out(X: FloatArray, y: NDArray[Any]) -> float:
    distances = np.linalg.norm(X[:, None] - X[None], axis=2)
    np.fill_diagonal(distances, np.inf)
    return float((_vote(distances, y) == y).mean())


def _new(X: FloatArray, y: NDArray[Any], new: FloatArray, y_new: NDArray[Any]) -> float:
    return float((_vote(np.linalg.norm(new[:, None] - X[None], axis=2), y) == y_new).mean())


def main() -> None:
    """Run all planted structures, and the genes where the data are there."""
    options = parse(__doc__, more={"--seeds": {"type": int, "default": _SEEDS, "help": "draws of each structure"}})
    seeds = 2 if options.quick else options.seeds
    rows: list[dict[str, Any]] = []
    lines = []
    for kind in chosen(list(PLANTED), options, lambda kind: kind):
        counts = run_task("benchmarks.bench_explain:planted", {"kind": kind, "seeds": seeds, "check": True})["counts"]
        log(f"{kind}: {counts}")
        asked = [name for name, kinds in _EXPECTED.items() if kind in kinds]
        met = all(counts[name] * 100 >= _ASKED * seeds for name in asked)
        rows.append({"structure": kind, "seeds": seeds, "counts": counts, "asked": asked, "met": met})
        cells = [f"{counts[name]}{' *' if name in asked else ''}" for name in _WAYS]
        lines.append([kind, *cells, verdict(met, f"* ≥ {_ASKED} %")])
    if lines:
        show(f"draws of {seeds} in which the planted variables come first", ["structure", *_WAYS, "asked"], lines)
    if data_file("golub_leukemia.npz").exists() and options.only in "leukaemia":
        run = run_task("benchmarks.bench_explain:genes", {"check": True})
        rows.append({"structure": "leukaemia", **run})
        everything = run["accuracies"][f"all {run['genes']:,} genes"]
        table = []
        for name, rates in run["accuracies"].items():
            met = (
                all(mine >= base for mine, base in zip(rates, everything, strict=True))
                if "importance" in name
                else None
            )
            table.append([name, *(f"{rate:.3f}" for rate in rates), verdict(met, "≥ all genes")])
        titles = ["genes", "38 patients, left out", "34 new patients", "asked"]
        show(f"leukaemia: accuracy of {_NEIGHBOURS} nearest neighbours, genes chosen without labels", titles, table)
    save("explain", options, rows)


if __name__ == "__main__":
    main()
