"""The README's table of speed: fits and transforms beside scikit-learn, as this machine is and without AVX-512.

Prints Markdown; --write puts it between the two markers in README.md.
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks import bench_fit, bench_transform
from benchmarks._race import Contender, Heat, chosen, log, machine, parse, race, save, sentence, touch_memory

_README = Path(__file__).resolve().parents[1] / "README.md"
_START, _END = "<!-- speed -->", "<!-- end of speed -->"
# What makes a CPU with AVX-512 one of AVX2, for NumPy, BLAS and our loops.
_AVX2 = {
    "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR",
    "OPENBLAS_CORETYPE": "Haswell",
    "KPCA_SIMD": "v3",
}
Rows = dict[tuple[str, str], dict[str, Any]]


def kinds() -> dict[str, dict[str, str]]:
    """Return the kinds of CPU that this machine can be, each with the environment that makes it one."""
    as_it_is = machine()["instructions"] or "this CPU"
    return {as_it_is: {}} | ({"AVX2": _AVX2} if as_it_is == "AVX-512" else {})


def heats(*, quick: bool, only: str) -> list[Heat]:
    """Return what is raced, every other heat if quick; the fit of many rows has nobody to race against."""
    large, small, most, new, calls = (2000, 1000, 3000, 300, 3) if quick else (20_000, 4_000, 100_000, 2_000, 7)
    args = {"library": "kpca", "n": most, "k": 10, "tol": 1e-6, "truth": [], "memory_limit": None}
    alone = Contender("kpca", bench_fit.FIT, args)
    every = 2 if quick else 1
    fits, transforms = bench_fit.heats(large, small, only), bench_transform.heats(large, new, calls)
    return [*fits[::every], Heat(f"n={most} alone", [alone]), *transforms[::every]]


def measured(raced: list[Heat], env: dict[str, str], options: argparse.Namespace) -> Rows:
    """Race all heats in one environment; return rows by heat and contender."""
    within = [Heat(heat.title, [replace(contender, env=env) for contender in heat.contenders]) for heat in raced]
    return {(row["heat"], row["contender"]): row for row in race(within, options)}


# -- the table --------------------------------------------------------------------------------------------------------


def title(heat: Heat, args: dict[str, Any]) -> str:
    """Return what a reader of the README is told about a task."""
    if "new" in args:
        return f"transform of {args['new']:,} rows, fitted to {args['n']:,}, {args['dtype']}"
    if heat.title.endswith("defaults"):
        return f"fit of {args['n']:,} rows, defaults of both"
    tol = f"{args['tol']:g}".replace("e-0", "e-")
    limit = f', `memory_limit="{args["memory_limit"]}"`' if args["memory_limit"] else ""
    return f"fit of {args['n']:,} rows, `tol={tol}`{limit}"


def _seconds(value: float) -> str:
    return f"{1000 * value:.2g} ms" if value < 0.1 else f"{value:.2g} s" if value < 10 else f"{value:.0f} s"


def _memory(row: dict[str, Any]) -> str:
    return f"{row['peak_mib']:.0f} MiB" if row["peak_mib"] < 1000 else f"{row['peak_mib'] / 1024:.1f} GiB"


def cells(ours: dict[str, Any], theirs: dict[str, Any] | None) -> list[str]:
    """Return four cells: both times, their ratio, and both peaks of memory."""
    if theirs is None:
        return [_seconds(ours["median"]), "", "", _memory(ours)]
    ratio = f"{theirs['median'] / ours['median']:.1f}×"
    return [_seconds(ours["median"]), _seconds(theirs["median"]), ratio, f"{_memory(ours)}, {_memory(theirs)}"]


def table(raced: list[Heat], found: dict[str, Rows], rounds: int) -> list[str]:
    """Return the lines of Markdown: a row per task, four columns per kind of CPU, and what was measured how."""
    columns = ["10 components, Gaussian kernel, 50 features"]
    for kind in found:
        columns += [f"{kind}: kpca", "scikit-learn", "ratio", "peak memory"]
    lines = [columns, ["---"] * len(columns)]
    for heat in raced:
        first, *rest = heat.contenders
        for contender in rest or [first]:
            line = [title(heat, contender.args)]
            for rows in found.values():
                theirs = rows[heat.title, first.name] if rest else None
                line += cells(rows[heat.title, contender.name], theirs)
            lines.append(line)
    return [
        *(f"| {' | '.join(line)} |" for line in lines),
        "",
        f"Medians of {rounds} rounds of `python -m benchmarks.readme_table`, a fresh process each. Memory is what a",
        'call took above what was held before. scikit-learn has `eigen_solver="arpack"`, unless it says defaults.',
        "",
        *(
            f"- {kind}{', the same CPU with AVX-512 switched off' if env else ''}: {sentence(machine(**env))}"
            for kind, env in kinds().items()
        ),
    ]


def replaced(text: str, lines: list[str]) -> str:
    """Return the README with other lines between the markers; exit if they are not there."""
    block = "\n".join([_START, *lines, _END])
    new, count = re.subn(f"{_START}.*?{_END}", lambda _: block, text, flags=re.DOTALL)
    if count != 1:
        sys.exit(f"README.md must have the lines {_START} and {_END} once: add them where the table belongs.")
    return new


def main() -> None:
    """Race, print, and write if asked to."""
    options = parse(__doc__, more={"--write": {"action": "store_true", "help": "put the table into README.md"}})
    if options.write:
        if options.quick or options.only:
            sys.exit("Only the whole table is written: leave out --quick and --only.")
        replaced(_README.read_text(encoding="utf-8"), [])  # refuses now, not after all races
    touch_memory(options.touch_gib)
    raced = chosen(heats(quick=options.quick, only=options.only), options, lambda heat: heat.title)
    found: dict[str, Rows] = {}
    for kind, env in kinds().items():
        log(f"{kind}:")
        found[kind] = measured(raced, env, options)
    lines = table(raced, found, options.repeats)
    print("\n".join(["", *lines]))
    save("readme_table", options, {kind: list(rows.values()) for kind, rows in found.items()})
    if options.write:
        _README.write_text(replaced(_README.read_text(encoding="utf-8"), lines), encoding="utf-8")


if __name__ == "__main__":
    main()
