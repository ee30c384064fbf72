"""Ten million rows of 20 features from a memory-mapped file: fit and transform under 2 GiB, time per row flat.

Beside it, scikit-learn's IncrementalPCA on the features of its RBFSampler, over the same chunks.
"""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._child import measure
from benchmarks._data import median_gamma
from benchmarks._race import log, parse, run_task, save, show, verdict

_LIMIT_MIB, _EXPONENT = 2048.0, 1.05
_CHUNK = 50_000


def write(*, path: str, rows: int, d: int) -> dict[str, Any]:
    """Write rows in 20 clusters to a .npy file, a chunk at a time."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(20, d)) * 2
    file = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(rows, d))
    for start in range(0, rows, 500_000):
        stop = min(start + 500_000, rows)
        file[start:stop] = centres[rng.integers(0, 20, stop - start)] + rng.normal(size=(stop - start, d)) * 0.7
    file.flush()
    return {}


def ours(*, path: str, rows: int, rank: int, k: int, out: str, approximation: str) -> dict[str, Any]:
    """Fit the file and write the scores of its rows to another; in the fresh process."""
    import kpca

    X = np.load(path, mmap_mode="r")[:rows]
    features = kpca.Nystroem(rank) if approximation == "nystroem" else kpca.RandomFeatures(rank)
    gamma = median_gamma(np.asarray(X[:500], dtype=np.float64))
    model = kpca.IncrementalKernelPCA(k, kernel="rbf", gamma=gamma, approximation=features, random_state=0)
    _, fitted = measure(lambda: model.fit(X))
    _, written = measure(lambda: kpca.write_scores(model, X, out))
    bounds = model.eigenvalue_bounds_ / rows
    return {
        "fit": fitted,
        "transform": written,
        "unexplained": model.unexplained_,
        "first": float(model.eigenvalues_[0] / rows),
        "bounds": bounds[0].tolist(),
    }


def theirs(*, path: str, rows: int, rank: int, k: int) -> dict[str, Any]:
    """Fit IncrementalPCA to random features of the same chunks; in the fresh process."""
    from sklearn.decomposition import IncrementalPCA
    from sklearn.kernel_approximation import RBFSampler

    X = np.load(path, mmap_mode="r")[:rows]
    sampler = RBFSampler(gamma=median_gamma(np.asarray(X[:500], dtype=np.float64)), n_components=rank, random_state=0)
    sampler.fit(X[:100])
    model = IncrementalPCA(k)

    def run() -> None:
        for start in range(0, rows, _CHUNK):
            model.partial_fit(sampler.transform(np.asarray(X[start : start + _CHUNK])))

    _, fitted = measure(run)
    return {"fit": fitted}


def main() -> None:
    """Run it."""
    options = parse(__doc__)
    most, d, rank, k = (200_000, 20, 100, 5) if options.quick else (10_000_000, 20, 200, 10)
    sizes = [most // 10, most // 5, most // 2, most]
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        path, out = str(Path(folder) / "rows.npy"), str(Path(folder) / "scores.npy")
        run_task("benchmarks.bench_stream:write", {"path": path, "rows": most, "d": d})
        for rows in sizes:
            args = {"path": path, "rows": rows, "rank": rank, "k": k, "out": out, "approximation": "nystroem"}
            found.append({"rows": rows, **run_task("benchmarks.bench_stream:ours", args)})
            log(f"{rows} rows: {found[-1]['fit']['seconds']:.1f} s, {found[-1]['transform']['seconds']:.1f} s")
        few = most // 50
        other = run_task("benchmarks.bench_stream:theirs", {"path": path, "rows": few, "rank": rank, "k": k})
    exponents = {
        part: math.log(found[-1][part]["seconds"] / found[0][part]["seconds"]) / math.log(sizes[-1] / sizes[0])
        for part in ("fit", "transform")
    }
    show(
        f"{d} features, rank {rank}, k={k}, from a memory-mapped float32 file",
        ["rows", "fit s", "rows/s", "transform s", "rows/s", "peak MiB", "limit", "unexplained"],
        [_cells(row) for row in found],
    )
    speed = few / other["fit"]["seconds"]
    show(
        "beside it",
        ["", "measured", "asked"],
        [
            *(
                [f"{part}: time grows as n^", f"{exponent:.3f}", verdict(exponent <= _EXPONENT, f"≤ {_EXPONENT}")]
                for part, exponent in exponents.items()
            ),
            [f"IncrementalPCA on RBFSampler({rank}), {few} rows", f"{speed:,.0f} rows/s", ""],
        ],
    )
    save("stream", options, {"ours": found, "theirs": other, "exponents": exponents})


def _cells(row: dict[str, Any]) -> list[str]:
    peak = max(row["fit"]["peak_mib"], row["transform"]["peak_mib"])
    return [
        f"{row['rows']:,}",
        f"{row['fit']['seconds']:.1f}",
        f"{row['rows'] / row['fit']['seconds']:,.0f}",
        f"{row['transform']['seconds']:.1f}",
        f"{row['rows'] / row['transform']['seconds']:,.0f}",
        f"{peak:.0f}",
        verdict(peak <= _LIMIT_MIB, f"≤ {_LIMIT_MIB:.0f}"),
        f"{row['unexplained']:.4f}",
    ]


if __name__ == "__main__":
    main()
