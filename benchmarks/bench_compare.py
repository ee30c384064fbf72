"""S-curve and Swiss roll through every method of `kpca.compare`: are the two coordinates of the sheet found again?"""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np

from benchmarks._data import FloatArray
from benchmarks._race import chosen, log, parse, run_task, save, show

_METHODS = ("PCA", "incremental PCA", "randomised PCA", "kernel PCA", "MDS", "Isomap", "t-SNE", "UMAP")
_TITLES = {"swiss roll": "Swiss roll", "s-curve": "S-curve"}


def sheet(data: str, n: int, noise: float) -> tuple[FloatArray, FloatArray]:
    """Return rows on a curled sheet, and where on the sheet they are: along it, and across.  # shape: (n, 3), (n, 2)"""
    from sklearn.datasets import make_s_curve, make_swiss_roll

    make = make_swiss_roll if data == "swiss roll" else make_s_curve
    clean, along = make(n, noise=0.0, random_state=0)
    rows: FloatArray = make(n, noise=noise, random_state=0)[0]  # the same sheet: noise is drawn last
    return rows, np.column_stack([along, clean[:, 1]])


def method(name: str, data: str, n: int, noise: float) -> dict[str, Any]:
    """Run one method; in the fresh process."""
    from kpca import InputError, compare

    X, known = sheet(data, n, noise)
    try:
        found: dict[str, Any] = compare(X, known, methods=[name], target_kind="numbers").to_dicts()[0]
    except InputError as error:  # UMAP, where it is not installed
        return {"name": name, "outcome": "not installed", "error": str(error)}
    return found


def main() -> None:
    """Run all methods on all sheets."""
    options = parse(__doc__)
    n = 300 if options.quick else 1500
    kept = []
    for data, noise in [(data, noise) for data in _TITLES for noise in (0.0, 0.05)]:
        title = f"{_TITLES[data]}, n={n}, noise {noise:g}"
        names = chosen(_METHODS, options, lambda name, title=title: f"{title}, {name}")  # type: ignore[misc]
        lines = []
        for name in names:
            args = {"name": name, "data": data, "n": n, "noise": noise}
            runs = [run_task("benchmarks.bench_compare:method", args) for _ in range(options.repeats)]
            row = {"data": data, "noise": noise, "n": n, **runs[0], "runs": runs}
            if row["outcome"] == "done":
                row["best"] = min(run["seconds"] for run in runs)
                row["median"] = statistics.median(run["seconds"] for run in runs)
            log(f"{title}, {name}: {row.get('best', row['error'])}")
            kept.append(row)
            lines.append(_cells(row))
        if lines:
            columns = ["method", "R2 along", "R2 across", "trustworthiness", "continuity", "distances", "ranks"]
            show(title, [*columns, "best s", "median s", "peak MiB", "new rows"], lines)
    save("compare", options, kept)


def _cells(row: dict[str, Any]) -> list[str]:
    if row["outcome"] != "done":
        return [row["name"], str(row["error"])]
    quality = [*row["knn"].values()]
    quality += [row[name] for name in ("trustworthiness", "continuity", "distance_correlation", "rank_correlation")]
    peak = row["peak_bytes"]
    return [
        row["name"],
        *(f"{value:.3f}" for value in quality),
        f"{row['best']:.3g}",
        f"{row['median']:.3g}",
        "not measured" if peak is None else f"{peak / 2**20:.1f}",
        "yes" if row["places_new_rows"] else "no",
    ]


if __name__ == "__main__":
    main()
