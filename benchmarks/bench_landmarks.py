"""What landmarks leave unexplained: tr(K - K^) / tr K against their number, for each way to choose them.

Gaussian kernel, median over seeds; beside them the least that any approximation of that rank could leave (from the
eigenvalues). Asked of randomly pivoted Cholesky: no more than uniform landmarks and no more than k-means, at any rank.
"""

from __future__ import annotations

import os
import statistics
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks._data import median_gamma
from benchmarks._race import chosen, log, parse, result_file, save, show, verdict
from kpca import KernelPCA
from kpca.features import NystroemMap, choose_landmarks, unexplained_fraction
from kpca.kernels import RBF

FloatArray = NDArray[Any]
METHODS = ("rpcholesky", "uniform", "kmeans", "leverage")
RANKS = (10, 20, 50, 100, 150)
_HERE = Path(__file__).resolve().parent
# Errors below this are rounding, and so is who is ahead.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Set:
    """Rows and the bandwidth (sigma) of the Gaussian kernel on them."""

    name: str
    X: FloatArray
    sigma: float


# -- the data ---------------------------------------------------------------------------------------------------------


def smile(n: int) -> FloatArray:
    """Return a face: nearly all rows in two small eyes, the rest on a circle and a mouth.  # shape: (n, 2)"""
    rng = np.random.default_rng(0)
    outline, mouth = n // 20, n // 50
    eye = (n - outline - mouth) // 2
    around = rng.uniform(0.0, 2.0 * np.pi, outline)
    along = rng.uniform(1.2 * np.pi, 1.8 * np.pi, n - outline - 2 * eye)
    parts = [
        10.0 * np.column_stack([np.cos(around), np.sin(around)]),
        6.0 * np.column_stack([np.cos(along), np.sin(along)]),
        rng.normal([-4.0, 4.0], 0.5, (eye, 2)),
        rng.normal([4.0, 4.0], 0.5, (eye, 2)),
    ]
    return np.concatenate(parts) + rng.normal(0.0, 0.05, (n, 2))


def spiral(n: int) -> FloatArray:
    """Return e^(t/5) (cos t, sin t), t uniform on [0, 64]: ever thinner on the way out.  # shape: (n, 2)"""
    t = np.random.default_rng(0).uniform(0.0, 64.0, n)
    return np.exp(0.2 * t)[:, None] * np.column_stack([np.cos(t), np.sin(t)])


def data_sets(n: int) -> list[Set]:
    """Return the generated sets, and the real ones where they are there."""
    found = [Set("smile", smile(n), 1.0), Set("spiral", spiral(n), 1000.0)]
    folder = Path(os.environ.get("KPCA_DATA") or _HERE.parent / "../shared/data").resolve()
    for name, file, key, share in (
        ("alanine dipeptide", "alanine_dipeptide_10k.npz", "X", 0.5),
        ("usps", "usps.npz", "X_train", 1.0),
    ):
        if not (folder / file).is_file():
            log(f"{name} is left out: set KPCA_DATA to the folder that holds {file}")
            continue
        with np.load(folder / file) as stored:
            X = np.asarray(stored[key], dtype=np.float64)[:n]
        found.append(Set(name, X, share * float(np.sqrt(0.5 / median_gamma(X)))))
    return found


# -- measuring --------------------------------------------------------------------------------------------------------


def least(item: Set, ranks: tuple[int, ...]) -> list[float]:
    """Return what the best approximation of each rank leaves: the later eigenvalues over the trace."""
    kernel = RBF(sigma=item.sigma)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the smallest of 150 not having converged: they do not show here
        values = KernelPCA(max(ranks), kernel=kernel, center=False, tol=1e-8, random_state=0).fit(item.X).eigenvalues_
    left = 1.0 - np.cumsum(values) / len(item.X)
    return [max(float(left[min(rank, len(left)) - 1]), 0.0) for rank in ranks]


def measure(item: Set, method: str, rank: int, seeds: int, threads: int) -> dict[str, Any]:
    """Return the errors and times of one way to choose so many landmarks, over the seeds."""
    kernel = RBF(sigma=item.sigma)
    errors, seconds = [], []
    for seed in range(seeds):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that fewer landmarks explain everything is a result here
            started = time.perf_counter()
            landmarks = choose_landmarks(kernel, item.X, rank, method, seed=seed, threads=threads)
            seconds.append(time.perf_counter() - started)
        features = NystroemMap(kernel, landmarks.points, np.float64)
        errors.append(unexplained_fraction(features, item.X, threads=threads))
    return {
        "set": item.name,
        "n": len(item.X),
        "sigma": item.sigma,
        "method": method,
        "rank": rank,
        "errors": errors,
        "error": statistics.median(errors),
        "seconds": statistics.median(seconds),
    }


# -- showing ----------------------------------------------------------------------------------------------------------


def table(item: Set, rows: list[dict[str, Any]], bound: list[float]) -> None:
    """Print the errors of one set; the last column says whether pivots were at or below chance and clusters."""
    error = {(row["rank"], row["method"]): row["error"] for row in rows}
    seconds = {(row["rank"], row["method"]): row["seconds"] for row in rows}
    ranks = sorted({row["rank"] for row in rows})
    lines = []
    for rank, best in zip(ranks, bound, strict=True):
        ours = error[rank, "rpcholesky"]
        met = [ours <= max(error[rank, other], _ROUNDING) for other in ("uniform", "kmeans")]
        cells = [f"{error[rank, method]:.2e} ({seconds[rank, method]:.2f} s)" for method in METHODS]
        lines.append([str(rank), *cells, f"{best:.2e}", verdict(met[0], "≤ uniform"), verdict(met[1], "≤ kmeans")])
    title = f"{item.name}: n = {len(item.X)}, d = {item.X.shape[1]}, sigma = {item.sigma:.4g}; tr(K - K^) / tr K"
    show(title, ["rank", *METHODS, "least possible", "asked", "asked"], lines)


def draw(sets: list[Set], rows: list[dict[str, Any]], bounds: dict[str, list[float]], file: Path) -> None:
    """Draw error against rank, a panel per set, with the range over the seeds."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(1, len(sets), figsize=(4.2 * len(sets), 4.0), squeeze=False, layout="constrained")
    for panel, item in zip(panels[0], sets, strict=True):
        mine = [row for row in rows if row["set"] == item.name]
        ranks = sorted({row["rank"] for row in mine})
        for method, marker in zip(METHODS, "os^D", strict=True):
            series = sorted((row for row in mine if row["method"] == method), key=lambda row: row["rank"])
            (line,) = panel.plot(ranks, [row["error"] for row in series], marker=marker, markersize=4, label=method)
            low, high = ([pick(row["errors"]) for row in series] for pick in (min, max))
            panel.fill_between(ranks, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
        floor = 0.1 * min(row["error"] for row in mine)
        shown = [(rank, left) for rank, left in zip(ranks, bounds[item.name], strict=True) if left > max(floor, 1e-9)]
        panel.plot(*zip(*shown, strict=True), "k--", linewidth=1, label="least possible")
        panel.set(yscale="log", xlabel="landmarks", title=f"{item.name}, n = {len(item.X)}, σ = {item.sigma:.3g}")
        panel.grid(alpha=0.3)
    panels[0][0].set_ylabel("unexplained fraction of the trace")
    panels[0][0].legend(frameon=False, fontsize=9)
    figure.savefig(file, dpi=130)
    plt.close(figure)
    log(f"written: benchmarks/results/{file.name}")


def main() -> None:
    """Measure all sets."""
    options = parse(__doc__)
    sets = chosen(data_sets(600 if options.quick else 10_000), options, lambda item: item.name)
    ranks, seeds = ((10, 20, 50), 2) if options.quick else (RANKS, 5)
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    rows: list[dict[str, Any]] = []
    bounds: dict[str, list[float]] = {}
    for item in sets:
        bounds[item.name] = least(item, ranks)
        mine = []
        for method in METHODS:
            mine += [measure(item, method, rank, seeds, threads) for rank in ranks]
            log(f"{item.name}: {method} done")
        table(item, mine, bounds[item.name])
        rows += mine
    save("landmarks", options, [{**row, "least": bounds[row["set"]][ranks.index(row["rank"])]} for row in rows])
    draw(sets, rows, bounds, result_file("landmarks.png", options))


if __name__ == "__main__":
    main()
