"""How work spreads over cores, from one to all of them: exact fits, transforms, landmarks and a stream.

Asked of 16 cores, and judged only where there are as many; that results have the same bits is asked everywhere.
"""

from __future__ import annotations

import importlib.util
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._child import bits, function, measure
from benchmarks._data import clustered, median_gamma
from benchmarks._race import (
    Run,
    chosen,
    log,
    machine,
    parse,
    result_file,
    run_task,
    save,
    show,
    touch_memory,
    verdict,
)
from benchmarks.bench_covertype import FILE, ROWS
from benchmarks.bench_fit import FIT

_JUDGED = 16
_CHUNK = 50_000


@dataclass(frozen=True)
class Job:
    """A task of this race or of another one, and what is asked of it on 16 cores."""

    title: str
    task: str
    args: dict[str, Any]
    speed_up: float | None = None
    seconds: float | None = None


def jobs(*, quick: bool) -> list[Job]:
    """Return what is measured."""
    small, large, rows, rank, streamed = (
        (1500, 3000, 20_000, 100, 100_000) if quick else (20_000, 100_000, ROWS, 1000, 1_000_000)
    )
    ours = {"library": "kpca", "check": False}

    def fit(n: int, speed_up: float, seconds: float | None = None) -> Job:
        args = ours | {"n": n, "k": 10, "tol": 1e-6, "truth": []}
        return Job(f"fit of {n:,} rows", FIT, args, speed_up, seconds)

    def transform(new: int) -> Job:
        args = ours | {"n": small, "new": new, "k": 10, "dtype": "float64", "calls": 5}
        return Job(f"transform of {new:,} rows", "benchmarks.bench_transform:transform", args, 8.0)

    data = "covertype" if FILE.exists() else "made-up"
    return [
        fit(small, 6.0),
        fit(large, 9.0, 6.0),
        transform(small // 10),
        transform(small),
        Job(
            f"{rank} landmarks of {rows:,} {data} rows",
            "benchmarks.bench_covertype:fit",
            ours | {"rows": rows, "rank": rank, "k": 20},
            6.0,
        ),
        Job(f"stream of {streamed:,} rows", "benchmarks.bench_cores:stream", {"rows": streamed, "rank": 200, "k": 10}),
    ]


# -- measuring --------------------------------------------------------------------------------------------------------


def threaded(*, task: str, args: dict[str, Any], threads: int) -> dict[str, Any]:
    """Run a task with so many threads of ours; in the fresh process, which is bound to as many cores."""
    import kpca

    with kpca.config(threads=threads):
        return function(task)(**args)


def stream(*, rows: int, rank: int, k: int) -> dict[str, Any]:
    """Fit landmarks to rows in memory, a chunk at a time; in the fresh process."""
    import kpca

    X = clustered(rows, 20).astype(np.float32)
    gamma = median_gamma(X)

    def run(X: Any) -> Any:
        model = kpca.IncrementalKernelPCA(
            k, kernel="rbf", gamma=gamma, approximation=kpca.Nystroem(rank), random_state=0
        )
        for start in range(0, len(X), _CHUNK):
            model.partial_fit(X[start : start + _CHUNK])
        return model.eigenvalues_

    run(X[:1000])  # what is loaded at the first call is import time
    values, result = measure(lambda: run(X))
    return result | {"bits": bits(values)}


def core_counts(cores: int) -> list[int]:
    """Return 1, 2, 4, … and the number of cores."""
    return sorted({2**power for power in range(cores.bit_length())} | {cores})


def summary(job: Job, runs: dict[int, list[Run]]) -> list[dict[str, Any]]:
    """Return a row per number of cores."""
    rows: list[dict[str, Any]] = []
    for cores, mine in runs.items():
        best = min(run["seconds"] for run in mine)
        row: dict[str, Any] = {"job": job.title, "cores": cores, "best": best, "runs": mine}
        row["median"] = statistics.median(run.get("median_seconds") or run["seconds"] for run in mine)
        row["speed_up"] = (rows[0]["best"] if rows else best) / best
        row["cpu"] = statistics.median(run["cpu_seconds"] for run in mine)
        row["same_bits"] = {run["bits"] for run in mine} == {runs[1][0]["bits"]}
        row["others_share"] = max(run["others_share"] for run in mine)
        rows.append(row)
    return rows


# -- showing ----------------------------------------------------------------------------------------------------------


def _cells(job: Job, row: dict[str, Any]) -> list[str]:
    fast = row["speed_up"] >= job.speed_up if job.speed_up and row["cores"] == _JUDGED else None
    short = row["best"] <= job.seconds if job.seconds and row["cores"] == _JUDGED else None
    return [
        job.title,
        str(row["cores"]),
        f"{row['best']:.4g}",
        f"{row['median']:.4g}",
        verdict(short, f"≤ {job.seconds} s"),
        f"{row['speed_up']:.2f}",
        verdict(fast, f"≥ {job.speed_up}"),
        f"{row['speed_up'] / row['cores']:.0%}",
        f"{row['cpu']:.4g}",
        verdict(row["same_bits"], "same bits"),
        f"{row['others_share']:.0%}",
    ]


def draw(rows: list[dict[str, Any]], file: Path) -> None:
    """Draw speed-up against cores, each curve with its name at its end."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    counts = sorted({row["cores"] for row in rows})
    figure, panel = plt.subplots(figsize=(8.0, 4.8), layout="constrained")
    panel.plot(counts, counts, color="0.6", linestyle="--", linewidth=1)
    ends = {"ideal": (float(counts[-1]), "0.4")}
    for title in dict.fromkeys(row["job"] for row in rows):
        speed_ups = [row["speed_up"] for row in rows if row["job"] == title]
        (line,) = panel.plot(counts, speed_ups, marker="o", markersize=4)
        ends[title] = (speed_ups[-1], line.get_color())
    panel.set(xscale="log", yscale="log", xlabel="cores", ylabel="speed-up against one core")
    for axis in (panel.xaxis, panel.yaxis):
        axis.set_ticks(counts, labels=[str(count) for count in counts], minor=False)
        axis.set_ticks([], minor=True)
    panel.grid(alpha=0.3)
    panel.spines[["top", "right"]].set_visible(False)
    # Where curves end close to each other, a name is moved down by a line of text.
    bottom, top = np.log(panel.get_ylim())
    place = np.inf
    for title, (speed_up, color) in sorted(ends.items(), key=lambda end: -end[1][0]):
        place = min((np.log(speed_up) - bottom) / (top - bottom), place - 0.055)
        panel.text(1.02, place, title, color=color, va="center", fontsize=9, transform=panel.transAxes)
    figure.savefig(file, dpi=130)
    plt.close(figure)
    log(f"written: benchmarks/results/{file.name}")


def main() -> None:
    """Measure all jobs on all numbers of cores."""
    options = parse(__doc__)
    counts = core_counts(machine()["cores"])
    touch_memory(options.touch_gib)
    rows: list[dict[str, Any]] = []
    lines = []
    for job in chosen(jobs(quick=options.quick), options, lambda job: job.title):
        runs: dict[int, list[Run]] = {cores: [] for cores in counts}
        for number in range(options.repeats):
            for cores in counts:
                args = {"task": job.task, "args": job.args, "threads": cores}
                runs[cores].append(run_task("benchmarks.bench_cores:threaded", args, cores=cores))
                log(f"{job.title}: round {number + 1}, {cores} cores: {runs[cores][-1]['seconds']:.4g} s")
        found = summary(job, runs)
        rows += found
        lines += [_cells(job, row) for row in found]
    columns = [
        "work",
        "cores",
        "best s",
        "median s",
        "asked",
        "speed-up",
        "asked",
        "efficiency",
        "CPU s",
        "results",
        "others",
    ]
    show("one thread per core", columns, lines)
    save("cores", options, rows)
    if rows and importlib.util.find_spec("matplotlib"):
        draw(rows, result_file("cores.png", options))


if __name__ == "__main__":
    main()
