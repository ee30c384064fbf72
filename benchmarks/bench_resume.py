"""Killed and resumed: an exact fit of 60,000 rows and a stream, each killed by SIGKILL in the middle of its work.

Both must end with the eigenvalues of a run that nobody disturbed, to 1e-10 of the largest.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks._race import log, parse, save, show, verdict

_SAME = 1e-10


def work(kind: str, n: int, path: str | None) -> None:
    """Fit, and say on stdout how far it is; in a process of its own."""
    import numpy as np

    import kpca
    from benchmarks._data import clustered, median_gamma

    X = clustered(n)
    gamma = median_gamma(X)
    heard: list[int] = []

    def tell(number: int) -> None:
        heard.append(number)
        print(number, flush=True)

    started = time.perf_counter()
    with kpca.config(checkpoint=path, progress=lambda state: tell(state["pass"])):
        if kind == "exact":
            model: Any = kpca.KernelPCA(10, kernel="rbf", gamma=gamma, tol=1e-8, random_state=0).fit(X)
        else:
            model = kpca.IncrementalKernelPCA(10, kernel="rbf", gamma=gamma, approximation=kpca.Nystroem(500))

            def batches() -> Any:
                for number, batch in enumerate(np.array_split(X, 20)):
                    yield batch
                    tell(number)

            model.fit(batches())
    seconds = time.perf_counter() - started
    print(json.dumps({"values": np.asarray(model.eigenvalues_).tolist(), "seconds": seconds}), flush=True)


def run(kind: str, n: int, path: str | None, kill_at: int | None = None) -> dict[str, Any]:
    """Run the work in a process, and kill it when it has got so far."""
    command = [sys.executable, "-m", "benchmarks.bench_resume", "--work", kind, str(n), path or ""]
    root = Path(__file__).resolve().parents[1]
    heard: list[int] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) as process:
        assert process.stdout is not None
        for line in process.stdout:
            said = json.loads(line)
            if isinstance(said, dict):
                return {**said, "heard": heard}
            heard.append(said)
            if kill_at is not None and said >= kill_at:
                time.sleep(0.2)  # into the next pass or batch
                os.kill(process.pid, signal.SIGKILL)
                break
    return {"heard": heard}


def main() -> None:
    """Run both."""
    options = parse(__doc__)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for kind, n, kill_at in (("exact", 5_000 if options.quick else 60_000, 2), ("stream", 40_000, 9)):
            path = str(Path(folder) / kind)
            fresh = run(kind, n, None)
            killed = run(kind, n, path, kill_at)
            log(f"{kind}: killed after {killed['heard'][-1]}, checkpoint of {os.path.getsize(path) / 2**20:.0f} MiB")
            resumed = run(kind, n, path)
            gap = max(abs(a - b) for a, b in zip(fresh["values"], resumed["values"], strict=True)) / fresh["values"][0]
            rows.append({"kind": kind, "n": n, "fresh": fresh, "killed": killed, "resumed": resumed, "gap": gap})
    show(
        "killed by SIGKILL and resumed",
        [
            "fit",
            "rows",
            "undisturbed s",
            "killed after",
            "resumed: says first",
            "resumed s",
            "eigenvalues differ",
            "asked",
        ],
        [
            [
                row["kind"],
                f"{row['n']:,}",
                f"{row['fresh']['seconds']:.1f}",
                f"{'pass' if row['kind'] == 'exact' else 'batch'} {row['killed']['heard'][-1]}",
                str(row["resumed"]["heard"][0]) if row["resumed"]["heard"] else "",
                f"{row['resumed']['seconds']:.1f}",
                f"{row['gap']:.1e}",
                verdict(row["gap"] <= _SAME, f"≤ {_SAME:.0e}"),
            ]
            for row in rows
        ],
    )
    save("resume", options, rows)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        work(sys.argv[2], int(sys.argv[3]), sys.argv[4] or None)
    else:
        main()
