"""A hostile search for certificates that are wrong: random kernels, data, weights, options and routes against the truth."""

from __future__ import annotations

import collections
import concurrent.futures
import multiprocessing
import os
import time
from typing import Any

from benchmarks._race import parse, save, show

_BLOCK = 50


def judged(first: int, last: int, most: int, only: str) -> list[dict[str, Any]]:
    """Judge the cases of some seeds; runs in a worker."""
    from benchmarks._certificate import judge
    from benchmarks._hostile import draw

    rows = []
    for seed in range(first, last):
        case = draw(seed, most=most)
        if only and only.lower() not in case.title.lower():
            continue
        found = judge(case)
        rows.append({**vars(found), "failures": found.failures})
    return rows


def main() -> None:
    """Search."""
    more = {
        "--seeds": {"default": "0:2000", "help": "FROM:TO"},
        "--processes": {"type": int, "default": 1},
        "--most": {"type": int, "default": 6000, "help": "rows of the largest case"},
        "--seconds": {"type": float, "default": float("inf"), "help": "begin no more cases after so long"},
    }
    options = parse(__doc__, more=more)
    first, last = (int(part) for part in options.seeds.split(":"))
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # for the workers, which start afresh
    started, rows = time.perf_counter(), []
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(options.processes, context) as pool:
        jobs = collections.deque()
        blocks = iter(range(first, last, _BLOCK))
        while True:
            while len(jobs) < 2 * options.processes and time.perf_counter() - started < options.seconds:
                at = next(blocks, None)
                if at is None:
                    break
                jobs.append(pool.submit(judged, at, min(at + _BLOCK, last), options.most, options.only))
            if not jobs:
                break
            new = jobs.popleft().result()
            for row in new:
                if row["failures"]:
                    worst = ", ".join(f"{name} {margin:.3g}" for name, margin in row["failures"].items())
                    print(f"{row['seed']}: {worst}: {row['title']} {row['crash']}", flush=True)
            rows += new
    seconds = time.perf_counter() - started
    report(rows, seconds)
    save("certificate", options, rows)


def report(rows: list[dict[str, Any]], seconds: float) -> None:
    """Print failures and the worst margin by route and by check."""
    names = list(dict.fromkeys(name for row in rows for name in row["margins"]))
    routes = sorted({row["route"] for row in rows})
    table = []
    for route in routes:
        mine = [row for row in rows if row["route"] == route]
        cells = []
        for name in names:
            margins = [row["margins"][name] for row in mine if name in row["margins"]]
            bad = sum(not margin <= 1 for margin in margins)
            cells.append(f"{bad} ({max(margins):.2g})" if margins else "")
        refused, crashed = (sum(bool(row[name]) for row in mine) for name in ("refused", "crash"))
        failed = sum(bool(row["failures"]) for row in mine)
        table.append([route, str(len(mine)), str(failed), str(refused), str(crashed), *cells])
    failed = sum(bool(row["failures"]) for row in rows)
    cpu = sum(row["seconds"] for row in rows)
    title = f"{len(rows)} cases, {failed} failures, {seconds:.0f} s ({cpu:.0f} s of cases); failures (worst margin) by check"
    show(title, ["route", "cases", "failed", "refused", "crashed", *names], table)


if __name__ == "__main__":
    main()
