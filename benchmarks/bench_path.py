"""Thirty bandwidths at once against single fits: 5 000 rows of clusters (50 features) and of digits (256)."""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks._child import measure
from benchmarks._data import clustered, median_gamma
from benchmarks._race import Contender, Heat, alternate, chosen, parse, save, show, touch_memory, verdict
from benchmarks._real import usps

FloatArray = NDArray[Any]
_BANDWIDTHS, _ASKED = 30, 12.0
_TASK = "benchmarks.bench_path"


def rows(data: str, n: int) -> FloatArray:
    """Return the data of a heat.  # shape: (n, d)"""
    return clustered(n) if data == "clusters" else usps()[0][:n]


def grid(X: FloatArray, count: int) -> FloatArray:
    """Return bandwidths from 32 times the median rule's to a 32nd of it."""
    return median_gamma(X) * np.geomspace(1 / 32, 32, count)


def single(*, data: str, n: int, k: int, tol: float, check: bool) -> dict[str, Any]:
    """Fit five bandwidths of the grid, each on its own; the median counts."""
    import kpca

    X = rows(data, n)
    kpca.KernelPCA(k, kernel="rbf", tol=tol).fit(X[:600])
    times, last = [], {}
    for gamma in grid(X, 5):
        model = kpca.KernelPCA(k, kernel="rbf", gamma=float(gamma), tol=tol)
        _, last = measure(lambda model=model: model.fit(X))
        times.append(last["seconds"])
    return last | {"seconds": statistics.median(times)}


def path(*, data: str, n: int, k: int, count: int, check: bool) -> dict[str, Any]:
    """Fit all bandwidths, and compare some of the eigenvalues with those of single fits."""
    import kpca

    X = rows(data, n)
    values = grid(X, count)
    kpca.selection.path(X[:600], "rbf", grid=values[:3], n_components=k)
    found, result = measure(lambda: kpca.selection.path(X, "rbf", grid=values, n_components=k))
    if check:
        errors = []
        for i in range(0, count, max(1, count // 6)):
            truth = kpca.KernelPCA(k, kernel="rbf", gamma=float(values[i])).fit(X).eigenvalues_
            errors.append(float(np.abs(found.eigenvalues[i] - truth).max() / truth[0]))
        result["eigenvalue_error"] = max(errors)
        result["residual"] = float(np.nanmax(found.residuals))
    return result


def heats(n: int, k: int, count: int) -> list[Heat]:
    """Return what is raced."""
    found = []
    for data in ("clusters", "digits"):
        args = {"data": data, "n": n, "k": k}
        found.append(
            Heat(
                f"{data}, n={n}, k={k}",
                [
                    Contender("one fit, defaults", f"{_TASK}:single", args | {"tol": 0.0}),
                    Contender("one fit, tol=1e-3", f"{_TASK}:single", args | {"tol": 1e-3}),
                    Contender(f"path of {count}", f"{_TASK}:path", args | {"count": count}),
                ],
            )
        )
    return found


def main() -> None:
    """Run the race."""
    options = parse(__doc__)
    touch_memory(options.touch_gib)
    n, k, count = (800, 5, 6) if options.quick else (5000, 10, _BANDWIDTHS)
    rows_: list[dict[str, Any]] = []
    for heat in chosen(heats(n, k, count), options, lambda heat: heat.title):
        runs = alternate(heat, options.repeats)
        best = {name: min(run["seconds"] for run in mine) for name, mine in runs.items()}
        median = {name: statistics.median(run["seconds"] for run in mine) for name, mine in runs.items()}
        last = list(runs)[-1]
        for name in list(runs)[:-1]:
            rows_.append(
                {
                    "heat": heat.title,
                    "fit": name,
                    "fit_seconds": best[name],
                    "path_seconds": best[last],
                    "fits_best": best[last] / best[name],
                    "fits_median": median[last] / median[name],
                    "path_mib": max(run["peak_mib"] for run in runs[last]),
                    "eigenvalue_error": runs[last][0]["eigenvalue_error"],
                    "residual": runs[last][0]["residual"],
                }
            )
    show(
        f"a path of {count} bandwidths, in single fits (asked: at most {_ASKED:.0f})",
        [
            "data",
            "one fit",
            "s",
            "path s",
            "fits, best",
            "fits, median",
            "asked",
            "MiB",
            "eigenvalue error",
            "residual",
        ],
        [
            [
                row["heat"],
                row["fit"],
                f"{row['fit_seconds']:.3f}",
                f"{row['path_seconds']:.2f}",
                f"{row['fits_best']:.1f}",
                f"{row['fits_median']:.1f}",
                verdict(row["fits_best"] <= _ASKED, f"≤ {_ASKED:.0f}"),
                f"{row['path_mib']:.0f}",
                f"{row['eigenvalue_error']:.1e}",
                f"{row['residual']:.1e}",
            ]
            for row in rows_
        ],
    )
    save("path", options, rows_)


if __name__ == "__main__":
    main()
