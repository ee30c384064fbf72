"""A CSV of 1 GB through the command line under --memory 2GiB, and how fast tables are read.

Beside the reading, pandas and Python's csv with NumPy on the same file, whose whole content they hold.
"""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._child import measure
from benchmarks._race import log, parse, run_task, save, show, verdict

_LIMIT_MIB = 2048.0
_COLUMNS = 20


def write(*, path: str, megabytes: float) -> dict[str, Any]:
    """Write rows of floats in 20 clusters, about so many megabytes of text."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(20, _COLUMNS)) * 2
    rows = 0
    with open(path, "w", encoding="ascii") as file:
        file.write(",".join(f"c{number}" for number in range(_COLUMNS)) + "\n")
        while file.tell() < megabytes * 1e6:
            block = centres[rng.integers(0, 20, 20_000)] + rng.normal(size=(20_000, _COLUMNS)) * 0.7
            np.savetxt(file, block, delimiter=",", fmt="%.6f")
            rows += len(block)
    return {"rows": rows, "bytes": os.path.getsize(path)}


def command(*, path: str, arguments: list[str]) -> dict[str, Any]:
    """Run `kpca` on the file in a process of its own, and watch its memory."""
    started, peak = time.perf_counter(), 0.0
    process = subprocess.Popen(
        [sys.executable, "-m", "kpca", *arguments], cwd=Path(path).parent, stdout=subprocess.DEVNULL
    )
    while process.poll() is None:
        peak = max(peak, _peak_of(process.pid))
        time.sleep(0.05)
    return {"seconds": time.perf_counter() - started, "peak_mib": peak / 2**20, "rc": process.returncode}


def _peak_of(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:  # it has just ended
        return 0.0
    found = [line.split()[1] for line in lines if line.startswith("VmHWM")]
    return float(found[0]) * 1024 if found else 0.0


def read_ours(*, path: str) -> dict[str, Any]:
    """Open the file and go through its rows in chunks."""
    from kpca.io import open_table

    def run() -> float:
        return float(sum(rows.numbers.sum() for rows in open_table(path).chunks()))

    return _timed(run)


def read_pandas(*, path: str) -> dict[str, Any]:
    """Read the whole file by pandas."""
    import pandas

    return _timed(lambda: float(pandas.read_csv(path).to_numpy().sum()))


def read_csv(*, path: str) -> dict[str, Any]:
    """Read the whole file by Python's csv."""

    def run() -> float:
        with open(path, newline="", encoding="utf-8") as file:
            reader = csv.reader(file)
            next(reader)
            return float(sum(np.array(row, dtype=np.float64).sum() for row in reader))

    return _timed(run)


def _timed(run: Any) -> dict[str, Any]:
    total, found = measure(run)
    return {**found, "total": total}


def main() -> None:
    """Run it."""
    options = parse(__doc__)
    whole, part = (4.0, 2.0) if options.quick else (1000.0, 200.0)
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        path, small = str(Path(folder) / "rows.csv"), str(Path(folder) / "some.csv")
        facts = run_task("benchmarks.bench_files:write", {"path": path, "megabytes": whole})
        some = run_task("benchmarks.bench_files:write", {"path": small, "megabytes": part})
        lines = []
        for name, arguments in {
            "fit": ["fit", path, "--memory", "2GiB", "-o", "m.kpca"],
            "fit, 1000 landmarks": ["fit", path, "--memory", "2GiB", "--approximation", "nystroem", "--rank", "1000"],
            "transform to Parquet": ["transform", path, "--model", "m.kpca", "--memory", "2GiB", "-o", "s.parquet"],
            "report": ["report", path, "--model", "m.kpca", "--memory", "2GiB", "-o", "r.html"],
        }.items():
            found = run_task("benchmarks.bench_files:command", {"path": path, "arguments": arguments})
            results[name] = found
            log(f"{name}: {found}")
            kept = verdict(found["rc"] == 0 and found["peak_mib"] <= _LIMIT_MIB, f"≤ {_LIMIT_MIB:.0f}")
            lines.append([name, f"{found['seconds']:.1f}", f"{found['peak_mib']:.0f}", kept])
        readers = {}
        for name in ("read_ours", "read_pandas", "read_csv"):
            readers[name] = run_task(f"benchmarks.bench_files:{name}", {"path": small})
            log(f"{name}: {readers[name]}")
    megabytes = facts["bytes"] / 1e6
    title = f"CSV of {megabytes:,.0f} MB, {facts['rows']:,} rows of {_COLUMNS} numbers, whole process"
    show(title, ["command", "seconds", "peak MiB", "limit"], lines)
    show(
        f"reading {some['bytes'] / 1e6:,.0f} MB",
        ["reader", "seconds", "MB/s", "peak MiB"],
        [
            [
                name,
                f"{found['seconds']:.2f}",
                f"{some['bytes'] / 1e6 / found['seconds']:.0f}",
                f"{found['peak_mib']:.0f}",
            ]
            for name, found in readers.items()
        ],
    )
    save("files", options, {"commands": results, "readers": readers, "facts": facts})


if __name__ == "__main__":
    main()
