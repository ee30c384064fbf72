"""The harness: contenders take turns, each in a fresh process; results go to a table and to JSON.

A task is "module:function"; it runs in its own process and returns a dictionary of what it measured. It times the call
alone: imports, data and checks of the answer are outside.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import os
import platform
import re
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

Item = TypeVar("Item")
Run = dict[str, Any]
_ROOT = Path(__file__).resolve().parents[1]
_RESULTS = Path(__file__).resolve().parent / "results"


# -- what is raced ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Contender:
    """Who runs: a task, its arguments and environment, and the speed asked as a multiple of the first contender's."""

    name: str
    task: str
    args: dict[str, Any] = field(default_factory=dict)
    floor: float | None = None
    memory_limit_mib: float | None = None
    env: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Heat:
    """Contenders for the same task on the same data; the first is the one the others are compared with."""

    title: str
    contenders: Sequence[Contender]


def parse(
    doc: str | None, argv: Sequence[str] | None = None, *, more: Mapping[str, dict[str, Any]] | None = None
) -> argparse.Namespace:
    """Return the options that all races have, and those that one has more: a name and what argparse is told of it.

    Every race starts here, so this is also where it says what it runs on.
    """
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("--quick", action="store_true", help="tiny sizes, one round: does it run at all")
    parser.add_argument("--repeats", type=int, help="rounds, each with a fresh process per contender (default: 3)")
    parser.add_argument("--touch-gib", type=int, help="memory to touch before the race (default: 6)")
    parser.add_argument("--only", default="", help="run only what has this text in its title")
    for name, details in (more or {}).items():
        parser.add_argument(name, **details)
    options = parser.parse_args(argv)
    if options.repeats is None:
        options.repeats = 1 if options.quick else 3
    if options.touch_gib is None:
        options.touch_gib = 0 if options.quick else 6
    print(sentence(machine()), flush=True)
    return options


# -- running ----------------------------------------------------------------------------------------------------------


def run_task(
    task: str,
    args: dict[str, Any],
    *,
    limit: float | None = None,
    env: Mapping[str, str] | None = None,
    cores: int | None = None,
) -> Run:
    """Run a task in a fresh process and return its result; TimeoutError if it takes more than `limit` seconds.

    `env` is added to the environment; `cores` binds the process to so many cores, and BLAS to as many threads.
    """
    job = json.dumps({"task": task, "args": args, "cores": cores})
    command = [sys.executable, "-m", "benchmarks._child"]
    around = {**os.environ, **(env or {}), **({"OPENBLAS_NUM_THREADS": str(cores)} if cores else {})}
    try:
        done = subprocess.run(
            command, input=job, capture_output=True, text=True, cwd=_ROOT, env=around, check=False, timeout=limit
        )
    except subprocess.TimeoutExpired:
        raise TimeoutError(f"{task} took more than {limit:g} s on {args}") from None
    if done.returncode:
        raise RuntimeError(f"{task} failed with exit code {done.returncode} on {args}:\n{done.stderr}")
    result: Run = json.loads(done.stdout)
    return result


def log(line: str) -> None:
    """Say on stderr what is going on."""
    print(line, file=sys.stderr, flush=True)


def touch_memory(gib: int) -> None:
    """Fill and free some memory first.

    On a virtual machine the first touch of memory that the host has not backed yet costs seconds, and would be charged
    to whoever comes first.
    """
    free = 2.0 * gib
    if match := re.search(r"MemAvailable:\s+(\d+) kB", _read("/proc/meminfo")):
        free = int(match[1]) / 2**20
    gib = min(gib, int(free / 2))
    if gib > 0:
        log(f"touching {gib} GiB of memory")
        run_task("benchmarks._child:touch", {"gib": gib})


def alternate(heat: Heat, repeats: int) -> dict[str, list[Run]]:
    """Run the contenders in turn, A B A B, so that noise hits all of them; answers are checked in the first round."""
    runs: dict[str, list[Run]] = {contender.name: [] for contender in heat.contenders}
    for number in range(repeats):
        for contender in heat.contenders:
            run = run_task(contender.task, contender.args | {"check": number == 0}, env=contender.env)
            runs[contender.name].append(run)
            log(f"{heat.title}: round {number + 1}, {contender.name}: {run.get('seconds', math.nan):.4g} s")
    return runs


def summarise(heat: Heat, runs: dict[str, list[Run]]) -> list[dict[str, Any]]:
    """Return a row per contender: times, ratios to the first contender, memory, accuracy, and what was asked."""
    rows: list[dict[str, Any]] = []
    for contender in heat.contenders:
        mine = runs[contender.name]
        row: dict[str, Any] = {"heat": heat.title, "contender": contender.name, "floor": contender.floor}
        row["best"] = min(run["seconds"] for run in mine)
        row["median"] = statistics.median(float(run.get("median_seconds") or run["seconds"]) for run in mine)
        first = rows[0] if rows else row
        row["ratio_best"], row["ratio_median"] = first["best"] / row["best"], first["median"] / row["median"]
        row["met"] = None if contender.floor is None else row["ratio_best"] >= contender.floor
        row["peak_mib"] = max(run["peak_mib"] for run in mine)
        row["others_share"] = max(run["others_share"] for run in mine)
        row["memory_limit_mib"] = contender.memory_limit_mib
        for name in ("eigenvalue_error", "residual", "score_error", "components"):
            if name in mine[0]:
                row[name] = mine[0][name]
        row["runs"] = mine
        rows.append(row)
    return rows


def race(heats: Iterable[Heat], options: argparse.Namespace) -> list[dict[str, Any]]:
    """Run all heats and return their rows."""
    rows: list[dict[str, Any]] = []
    for heat in chosen(heats, options, lambda heat: heat.title):
        rows += summarise(heat, alternate(heat, options.repeats))
    return rows


def chosen(items: Iterable[Item], options: argparse.Namespace, title: Callable[[Item], str]) -> list[Item]:
    """Return what `--only` lets through."""
    return [item for item in items if options.only.lower() in title(item).lower()]


# -- showing ----------------------------------------------------------------------------------------------------------


def verdict(met: bool | None, asked: str) -> str:
    """Return what was asked and whether it was met."""
    if met is None:
        return ""
    return f"{asked} [green]yes[/]" if met else f"{asked} [bold red]NO[/]"


def show(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table; the first column is text, the others numbers."""
    from rich.console import Console  # here, because contenders import this module too
    from rich.table import Table

    table = Table(title=title, title_justify="left", header_style="bold")
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 else "right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    # Cut off from a terminal rich assumes 80 columns, which breaks every number.
    Console(width=None if sys.stdout.isatty() else 180).print(table)


def show_race(title: str, rows: list[dict[str, Any]]) -> None:
    """Print the rows of `race`; floors are judged by the best times, the ones least disturbed."""
    checks = [name for name in ("eigenvalue_error", "residual", "score_error") if any(name in row for row in rows)]
    columns = [
        "race",
        "contender",
        "best s",
        "median s",
        "ratio best",
        "ratio median",
        "asked",
        "peak MiB",
        "limit",
        "others",
    ]
    show(title, columns + [name.replace("_", " ") for name in checks], [_cells(row, checks) for row in rows])


def _cells(row: dict[str, Any], checks: list[str]) -> list[str]:
    limit = row["memory_limit_mib"]
    return [
        row["heat"],
        row["contender"],
        f"{row['best']:.4g}",
        f"{row['median']:.4g}",
        f"{row['ratio_best']:.2f}",
        f"{row['ratio_median']:.2f}",
        verdict(row["met"], f"≥ {row['floor']}"),
        f"{row['peak_mib']:.0f}",
        "" if limit is None else verdict(row["peak_mib"] <= limit, f"≤ {limit:.0f}"),
        f"{row['others_share']:.0%}",
        *(f"{row[name]:.1e}" if name in row else "" for name in checks),
    ]


# -- keeping ----------------------------------------------------------------------------------------------------------


def save(name: str, options: argparse.Namespace, rows: Any) -> None:
    """Write the results of a race."""
    file = result_file(f"{name}.json", options)
    content = {"race": file.stem, "options": vars(options), "machine": machine(), "rows": rows}
    file.write_text(json.dumps(content, indent=1) + "\n")
    log(f"written: benchmarks/results/{file.name}")


def result_file(name: str, options: argparse.Namespace) -> Path:
    """Return where to write; what `--quick` and `--only` give does not replace whole results."""
    _RESULTS.mkdir(exist_ok=True)
    file = _RESULTS / name
    return file.with_stem(file.stem + ("-quick" if options.quick else "") + ("-part" if options.only else ""))


@functools.cache
def machine(**env: str) -> dict[str, Any]:
    """Return what the times depend on, and nothing that says whose machine it is; `env` as for `run_task`."""
    return run_task("benchmarks._race:facts", {}, env=env)


def sentence(found: dict[str, Any]) -> str:
    """Say what of `machine` decides how fast kernel PCA is."""
    cores = f"{found['cores']} core{'s' if found['cores'] > 1 else ''}"
    cpu = ", ".join(part for part in (found["cpu"], cores, found["instructions"]) if part)
    libraries = f"NumPy uses up to {found['numpy_uses'][-1]}, BLAS is {found['blas']}"
    return f"{cpu}; {libraries}; kernel values by {found['kernel_values_by']}."


def facts() -> dict[str, Any]:
    """Describe the machine and the libraries; runs in a process of its own, which loads them."""
    import joblib
    import numpy
    import scipy.linalg
    import sklearn
    import sklearn.decomposition
    import threadpoolctl
    from numpy._core import _multiarray_umath as core  # type: ignore[attr-defined]

    import kpca
    from kpca.kernels import profiles

    # What NumPy finds at run time, less what NPY_DISABLE_CPU_FEATURES takes away.
    numpy_uses = [name for name in core.__cpu_dispatch__ if core.__cpu_features__.get(name)]
    libraries = threadpoolctl.threadpool_info()
    model = re.search(r"model name\s*:\s*(.+)", _read("/proc/cpuinfo"))
    total = re.search(r"MemTotal:\s+(\d+) kB", _read("/proc/meminfo"))
    keys = ("user_api", "internal_api", "version", "architecture", "num_threads")
    return {
        "cores": joblib.cpu_count(),
        "cpu": model[1].strip() if model else platform.processor() or platform.machine(),
        "instructions": _instructions(),
        "memory_gib": round(int(total[1]) / 2**20, 1) if total else None,
        "system": platform.system(),
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "numpy_uses": numpy_uses or ["its baseline"],
        "numpy_has_avx512": any("V4" in name or "AVX512" in name for name in numpy_uses),
        "blas": _blas(libraries),
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
        "kpca": kpca.__version__,
        "kernel_values_by": profiles.in_use(),
        "libraries": [{key: library.get(key) for key in keys} for library in libraries],
    }


def _instructions() -> str:
    """Return the widest vector instructions of the CPU, "" where the system does not tell."""
    flags = re.search(r"(?:flags|Features)\s*:\s*(.+)", _read("/proc/cpuinfo"))
    names = {"avx512vl": "AVX-512", "avx2": "AVX2", "sse4_2": "SSE4", "asimd": "NEON", "neon": "NEON"}
    has = flags[1].split() if flags else ["neon"] if platform.machine() == "arm64" else []
    return next((title for name, title in names.items() if name in has), "")


def _blas(libraries: list[dict[str, Any]]) -> str:
    """Return NumPy's BLAS (SciPy may bring another), and the CPU that its kernels are made for."""
    found = [library for library in libraries if library["user_api"] == "blas"]
    if not found:
        return "one that does not tell its name"
    mine = next((library for library in found if "numpy" in library["filepath"]), found[0])
    name = mine["internal_api"].replace("openblas", "OpenBLAS")
    return f"{name} {mine['version']} ({mine.get('architecture')} kernels)"


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
