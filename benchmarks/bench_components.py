"""How often each way to choose the number of components finds a planted one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks._planted import CASES
from benchmarks._race import chosen, log, parse, run_task, save, show, verdict

_METHODS = ["parallel", "horn", "elbow", "fraction", "stability"]
_ASKED = 95  # of 100, by parallel analysis
# Kernels wider than the median distance, and polynomials far from linear: reported, not asked for.
_NOT_ASKED = ("0.3x", " 1/d")


def counts(title: str, seeds: int, methods: Sequence[str], check: bool) -> dict[str, Any]:
    """Return what each method says for each seed of a case; in the fresh process."""
    import warnings

    from kpca import selection

    case = next(case for case in CASES if case.title == title)
    found: dict[str, list[int]] = {method: [] for method in methods}
    warnings.simplefilter("ignore")
    for seed in range(seeds):
        X = case.draw(seed)
        for method in methods:
            found[method].append(selection.n_components(X, method=method, seed=seed, **case.model(X)).count)
    return {"counts": found}


def main() -> None:
    """Run all cases."""
    options = parse(__doc__, more={"--seeds": {"type": int, "default": 100, "help": "draws of each case"}})
    seeds = 2 if options.quick else options.seeds
    rows, lines = [], []
    for case in chosen(CASES, options, lambda case: case.title):
        args = {"title": case.title, "seeds": seeds, "methods": _METHODS, "check": True}
        run = run_task("benchmarks.bench_components:counts", args)
        right = {method: sum(count == case.count for count in found) for method, found in run["counts"].items()}
        mean = {method: sum(found) / seeds for method, found in run["counts"].items()}
        asked = not any(text in case.title for text in _NOT_ASKED)
        met = right["parallel"] * 100 >= _ASKED * seeds if asked else None
        log(f"{case.title}: {right}")
        rows.append({"case": case.title, "planted": case.count, "right": right, "mean": mean, "met": met} | run)
        cells = [f"{right[method]} ({mean[method]:.1f})" for method in _METHODS]
        lines.append([case.title, str(case.count), *cells, verdict(met, f"≥ {_ASKED} %")])
    show(f"planted numbers found in {seeds} draws (mean count)", ["case", "planted", *_METHODS, "asked"], lines)
    save("components", options, rows)


if __name__ == "__main__":
    main()
