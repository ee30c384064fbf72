"""A hostile search for certificates that are wrong: random kernels, data, weights, options and ways to fit."""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import multiprocessing
import os
import time
from collections.abc import Iterator
from typing import Any

from benchmarks._race import log, parse, save, show

Row = dict[str, Any]
_BLOCK = 25
_OPTIONS: dict[str, dict[str, Any]] = {
    "--seeds": {"help": "FROM:TO, without TO itself (default: 0:2000)", "default": "0:2000"},
    "--processes": {"help": "how many work at a time, each with one thread (default: 1)", "type": int, "default": 1},
    "--seconds": {"help": "begin no more cases after so long", "type": float, "default": float("inf")},
    "--most": {"help": "rows of the largest case (default: 6000)", "type": int, "default": 6000},
    "--route": {"help": "only cases that took a route with this text in its name", "default": ""},
    "--shrink": {"help": "a seed whose case fails: make it small, and print it as Python", "type": int},
}


def judged(first: int, stop: int, most: int, only: str, route: str) -> list[Row]:
    """Return what became of the cases of some seeds, those with `only` in their title; runs in a worker."""
    from benchmarks._certificate import judge
    from benchmarks._hostile import draw

    cases = (draw(seed, most) for seed in range(first, stop))
    found = [judge(case) for case in cases if only.lower() in case.title.lower()]
    return [{**vars(one), "failures": one.failures} for one in found if route in one.route]


def search(options: argparse.Namespace) -> Iterator[Row]:
    """Judge all cases, in the order of their seeds; workers start afresh, with one thread of BLAS each."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    first, stop = (int(part) for part in options.seeds.split(":"))
    most = min(options.most, 100) if options.quick else options.most
    started, blocks = time.perf_counter(), collections.deque(range(first, stop, _BLOCK))
    jobs: collections.deque[concurrent.futures.Future[list[Row]]] = collections.deque()
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(options.processes, context) as pool:
        while blocks or jobs:
            while blocks and len(jobs) <= options.processes:
                if time.perf_counter() - started > options.seconds:
                    log(f"out of time before seed {blocks[0]}")
                    blocks.clear()
                    break
                at = blocks.popleft()
                jobs.append(pool.submit(judged, at, min(at + _BLOCK, stop), most, options.only, options.route))
            if jobs:
                yield from jobs.popleft().result()


def report(rows: list[Row], seconds: float) -> None:
    """Print the worst margins by route and check, and what was refused, noted or warned of."""
    names = list(dict.fromkeys(name for row in rows for name in row["margins"]))
    lines = []
    for route in sorted({row["route"] for row in rows}):
        mine = [row for row in rows if row["route"] == route]
        failed, refused = (sum(bool(row[name]) for row in mine) for name in ("failures", "refused"))
        lines.append([route, str(len(mine)), str(failed), str(refused), *(_cell(mine, name) for name in names)])
    failed, work = sum(bool(row["failures"]) for row in rows), sum(row["seconds"] for row in rows)
    title = f"{len(rows)} cases, {failed} failures, {seconds:.0f} s ({work:.0f} s of work); worst margin (failures)"
    show(title, ["route", "cases", "failed", "refused", *names], lines)
    for name in ("refused", "warned"):
        said = collections.Counter(" ".join(row[name].split()[:9]) for row in rows if row[name])
        for words, count in said.most_common(25):
            print(f"{name} {count} times: {words} ...")
    blurred = [row["seed"] for row in rows if row["blur"] > 0.01]
    print(f"the truth is known to less than a hundredth of the bounds in {len(blurred)} cases: {blurred[:10]}")
    slow = sorted(rows, key=lambda row: -row["seconds"])[:3]
    print("slowest: " + ", ".join(f"{row['seed']} ({row['seconds']:.1f} s)" for row in slow))
    for name in dict.fromkeys(name for row in rows for name in row["notes"]):
        beyond = [row["seed"] for row in rows if row["notes"].get(name, 0.0) > 1.0]
        print(f"noted, promised nowhere: {name} beyond its allowance in {len(beyond)} cases: {beyond[:10]}")


def _cell(rows: list[Row], name: str) -> str:
    margins = [row["margins"][name] for row in rows if name in row["margins"]]
    bad = sum(not margin <= 1.0 for margin in margins)
    return "" if not margins else f"{max(margins):.1e}" + (f" ([bold red]{bad}[/])" if bad else "")


def main() -> None:
    """Search, or make one failing case small."""
    options = parse(__doc__, more=_OPTIONS)
    if options.shrink is not None:
        from benchmarks._shrink import shrunk

        print(shrunk(options.shrink, options.most))
        return
    started, rows = time.perf_counter(), []
    for row in search(options):
        rows.append(row)
        if row["failures"]:
            worst = ", ".join(f"{name} {margin:.3g}" for name, margin in row["failures"].items())
            print(f"{row['seed']}: {worst}: {row['title']} {row['crash']}", flush=True)
    report(rows, time.perf_counter() - started)
    brief = ("seed", "route", "margins", "notes", "width", "refused", "seconds")
    save("certificate", options, [row if row["failures"] else {name: row[name] for name in brief} for row in rows])


if __name__ == "__main__":
    main()
