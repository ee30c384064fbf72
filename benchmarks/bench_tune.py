"""Choosing without labels: how good, how fast beside GridSearchCV, and whether a budget of time is kept.

Three parts: "quality" compares what `tune` finds without labels with what it finds with them; "search" races the same
search (5 000 rows, thirty bandwidths, three folds) against scikit-learn's; "budget" gives it less time than it needs.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks._child import measure
from benchmarks._data import clustered, median_gamma
from benchmarks._race import (
    Contender,
    Heat,
    alternate,
    log,
    parse,
    run_task,
    save,
    show,
    summarise,
    touch_memory,
    verdict,
)
from benchmarks._real import golub, usps

FloatArray = NDArray[Any]
_TASK = "benchmarks.bench_tune"
_ASKED_SPEED, _ASKED_LOSS, _ASKED_OVERRUN = 10.0, 0.05, 1.1
_NEIGHBOURS = 5


# -- how good ---------------------------------------------------------------------------------------------------------


def labelled_data(name: str, seed: int) -> tuple[FloatArray, NDArray[Any]]:
    """Return rows, and classes or intrinsic coordinates."""
    from sklearn.datasets import make_circles, make_moons, make_s_curve

    if name == "half moons":
        return make_moons(1000, noise=0.1, random_state=seed)
    if name == "circles":
        return make_circles(1000, noise=0.05, factor=0.3, random_state=seed)
    if name == "S-curve":
        X, t = make_s_curve(1000, noise=0.05, random_state=seed)
        return X, np.column_stack([t, X[:, 1]])
    if name == "USPS":
        X, y = usps()
        return X[1000 * seed : 1000 * seed + 1000], y[1000 * seed : 1000 * seed + 1000]
    return golub()


def quality(*, name: str, components: int | None, seed: int) -> dict[str, Any]:
    """Choose without labels, and see what is lost by the labels' measure; both try the same on the same folds."""
    from kpca import selection

    X, y = labelled_data(name, seed)
    start = time.perf_counter()
    blind = selection.tune(X, n_components=components, random_state=seed)
    seconds = time.perf_counter() - start
    seeing = selection.tune(X, y, n_components=components, rule="best", refit=False, random_state=seed)
    names = ("label", "n_components")
    scores = {tuple(entry[one] for one in names): entry["score"] for entry in seeing.table}
    mine = next(
        entry
        for entry in blind.table
        if entry["n_components"] == blind.best_params["n_components"]
        and all(entry.get(key) == value for key, value in blind.best_params.items())
    )
    return {
        "best": seeing.best_score,
        "found": scores[mine["label"], mine["n_components"]],
        "best_label": f"{seeing.table[0]['label']}, {seeing.table[0]['n_components']}",
        "found_label": f"{mine['label']}, {mine['n_components']}",
        "seconds": seconds,
        "tried": len(blind.table),
    }


def judge_quality(quick: bool) -> list[dict[str, Any]]:
    """Run and print the comparison."""
    rows = []
    for name in ("half moons", "circles", "S-curve", "USPS", "golub"):
        for components in (None, 2) if name != "USPS" else (None, 10):
            for seed in range(1 if quick else 3):
                found = run_task(f"{_TASK}:quality", {"name": name, "components": components, "seed": seed})
                log(f"{name}, {components} components, seed {seed}: {found['found']:.3f} of {found['best']:.3f}")
                rows.append({"data": name, "components": components, "seed": seed, **found})
    show(
        "chosen without labels, judged with them (k-NN accuracy; R² for the S-curve)",
        ["data", "components", "seed", "without labels", "with labels", "lost", "asked", "chosen", "best", "s"],
        [
            [
                row["data"],
                "any" if row["components"] is None else str(row["components"]),
                str(row["seed"]),
                f"{row['found']:.3f}",
                f"{row['best']:.3f}",
                f"{1 - row['found'] / row['best']:.1%}",
                verdict(row["found"] >= (1 - _ASKED_LOSS) * row["best"], f"≤ {_ASKED_LOSS:.0%}"),
                row["found_label"],
                row["best_label"],
                f"{row['seconds']:.1f}",
            ]
            for row in rows
        ],
    )
    return rows


# -- how fast ---------------------------------------------------------------------------------------------------------


def restored(estimator: Any, X: FloatArray, y: Any = None) -> float:
    """Score a fitted KernelPCA of scikit-learn as `tune` does: rows restored by those with the nearest scores."""
    from sklearn.neighbors import NearestNeighbors

    scores = estimator.eigenvectors_ * np.sqrt(estimator.eigenvalues_)
    near = NearestNeighbors(n_neighbors=_NEIGHBOURS).fit(scores).kneighbors(estimator.transform(X))[1]
    gap = X - estimator.X_fit_[near].mean(axis=1)
    return -float(np.einsum("ij,ij->i", gap, gap).mean())


def search(
    *, library: str, n: int, k: int, count: int, check: bool, solver: str = "auto", every: int = 1
) -> dict[str, Any]:
    """Search thirty bandwidths on three folds; only every third, and the time tripled, where it takes minutes."""
    X = clustered(n)
    gammas = (median_gamma(X) * np.geomspace(1 / 32, 32, count)).tolist()
    if library == "sklearn":
        from sklearn.decomposition import KernelPCA
        from sklearn.model_selection import GridSearchCV

        model = KernelPCA(k, kernel="rbf", eigen_solver=solver, random_state=0)
        grid = GridSearchCV(model, {"gamma": gammas[::every]}, scoring=restored, cv=3, refit=every == 1)
        grid.estimator.fit(X[:300])
        found, result = measure(lambda: grid.fit(X))
        return result | {"gamma": found.best_params_["gamma"], "seconds": every * result["seconds"]}
    from kpca import selection

    selection.tune(X[:300], kernels={"rbf": gammas[:2]}, n_components=k)
    if library == "path":
        made, result = measure(
            lambda: selection.path(X, "rbf", grid=gammas, n_components=k, criterion="reconstruction")
        )
        return result | {"gamma": made.best_value}
    tuned, result = measure(lambda: selection.tune(X, kernels={"rbf": gammas}, n_components=k, rule="best"))
    return result | {"gamma": tuned.best_params["gamma"]}


def race_search(quick: bool, repeats: int) -> list[dict[str, Any]]:
    """Run and print the race."""
    n, count = (600, 6) if quick else (5000, 30)
    args = {"n": n, "k": 10, "count": count}
    heat = Heat(
        f"n={n}, {count} bandwidths, 3 folds",
        [
            Contender(
                "GridSearchCV, defaults (10 of 30, × 3)", f"{_TASK}:search", args | {"library": "sklearn", "every": 3}
            ),
            Contender("GridSearchCV, arpack", f"{_TASK}:search", args | {"library": "sklearn", "solver": "arpack"}),
            Contender("tune", f"{_TASK}:search", args | {"library": "tune"}, _ASKED_SPEED),
            Contender("path with criterion", f"{_TASK}:search", args | {"library": "path"}, _ASKED_SPEED),
        ],
    )
    rows = summarise(heat, alternate(heat, repeats))
    arpack = rows[1]["best"]
    show(
        heat.title,
        ["contender", "best s", "median s", "times defaults", "times arpack", "asked", "peak MiB", "gamma chosen"],
        [
            [
                row["contender"],
                f"{row['best']:.1f}",
                f"{row['median']:.1f}",
                f"{row['ratio_best']:.1f}",
                f"{arpack / row['best']:.1f}",
                verdict(row["met"], f"≥ {_ASKED_SPEED:.0f}"),
                f"{row['peak_mib']:.0f}",
                f"{row['runs'][0]['gamma']:.4g}",
            ]
            for row in rows
        ],
    )
    return rows


# -- on time ----------------------------------------------------------------------------------------------------------


def limited(*, n: int, d: int, budget: str, rows: int) -> dict[str, Any]:
    """Search with less time than it takes."""
    from kpca import selection

    X = clustered(n, d)
    start = time.perf_counter()
    found = selection.tune(X, kernels=["linear", "rbf", "laplacian", "poly", "cosine"], budget=budget, max_rows=rows)
    return {
        "seconds": time.perf_counter() - start,
        "complete": found.complete,
        "tried": len(found.trials),
        "rows": found.trials[0].rows,
        "reason": found.reason,
    }


def judge_budget(quick: bool) -> list[dict[str, Any]]:
    """Run and print."""
    cases = (
        [("2s", 2.0, 3000, 5000)]
        if quick
        else [
            ("5s", 5.0, 5000, 5000),
            ("20s", 20.0, 20_000, 20_000),
            ("60s", 60.0, 20_000, 20_000),
            ("60s", 60.0, 100_000, 10_000),
        ]
    )
    rows = []
    for text, seconds, n, most in cases:
        found = run_task(f"{_TASK}:limited", {"n": n, "d": 50, "budget": text, "rows": most})
        log(f"{n} rows, {text}: {found['seconds']:.1f} s; {found['reason']}")
        rows.append({"budget": seconds, "n": n, **found})
    show(
        "a budget of time",
        ["rows", "budget s", "took s", "asked", "complete", "kernels tried", "on rows"],
        [
            [
                f"{row['n']:,}",
                f"{row['budget']:.0f}",
                f"{row['seconds']:.1f}",
                verdict(row["seconds"] <= _ASKED_OVERRUN * row["budget"], f"≤ {_ASKED_OVERRUN * row['budget']:.1f}"),
                "yes" if row["complete"] else "no",
                str(row["tried"]),
                f"{row['rows']:,}",
            ]
            for row in rows
        ],
    )
    return rows


def main() -> None:
    """Run the parts that `--only` lets through: quality, search, budget."""
    options = parse(__doc__)
    rows: dict[str, Any] = {}
    parts = {
        "quality": lambda: judge_quality(options.quick),
        "search": lambda: race_search(options.quick, options.repeats),
        "budget": lambda: judge_budget(options.quick),
    }
    touch_memory(options.touch_gib)
    for name, part in parts.items():
        if options.only in name:
            rows[name] = part()
    save("tune", options, rows)


if __name__ == "__main__":
    main()
