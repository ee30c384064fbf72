"""100 000 rows on this machine: time, passes, memory, share of the roofline, and how the cost grows with n."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from benchmarks._child import MIB, OtherWork, memory_now, memory_peak, reset_peak
from benchmarks._data import clustered, median_gamma
from benchmarks._race import Run, chosen, log, parse, run_task, save, show, touch_memory, verdict
from benchmarks._truth import rbf_residual

_LIMIT, _MAX_EXPONENT = "500MiB", 2.05
# Asked of the largest fit, with the limit and without: at most so many GiB, at least this share of the roofline.
_ASKED = {_LIMIT: (0.7, "in all", 0.65), None: (2.0, "above start", 0.70)}
_SIDE, _TILE = 2048, 512


def fit(*, n: int, d: int, k: int, tol: float, memory_limit: str | None, check: bool) -> dict[str, Any]:
    """Fit once, noting when each pass ends, between two measurements of the machine; in the fresh process."""
    import kpca
    from kpca.spectrum.krylov import block_size, step_size

    X = clustered(n, d)
    gamma = median_gamma(X)
    model = kpca.KernelPCA(k, kernel="rbf", gamma=gamma, tol=tol, random_state=0)
    model.fit(X[:600])
    rates = roofline()
    ends: list[float] = []
    reset_peak()
    before = memory_now()
    others = OtherWork()
    start = time.perf_counter()
    with kpca.config(memory_limit=memory_limit, progress=lambda state: ends.append(time.perf_counter())):
        model.fit(X)
    seconds = time.perf_counter() - start
    result: dict[str, Any] = {"seconds": seconds, "others_share": others.share(seconds)}
    peak = memory_peak()
    result |= {"total_peak_mib": peak / MIB, "peak_mib": (peak - before) / MIB, "passes": model.n_passes_}
    # The first pass also has the start of the fit in it, so it counts only where there is no other.
    result["pass_seconds"] = np.diff(ends).tolist() or [seconds]
    rates = {name: max(rate, rates[name]) for name, rate in roofline().items()}
    pairs = n * (n + 1) / 2
    # docs/mathematics.md, section 2: distance, both products, one exp per unordered pair; the first pass is wider
    first, later = (
        pairs * (2 * (d + 2) + 4 * b) / rates["gemm_flops"] + pairs / rates["exps"]
        for b in (block_size(k), step_size(k))
    )
    result |= {"rates": rates, "block": block_size(k), "ideal_pass_seconds": later}
    result["ideal_seconds"] = first + (model.n_passes_ - 1) * later
    if check:
        result["residual"] = rbf_residual(X, gamma, model.eigenvalues_, model.eigenvectors_)
    return result


def roofline() -> dict[str, float]:
    """Return the best rates of this machine on all cores, in float32: flops of a large GEMM, expm1 inside the cache."""
    from threadpoolctl import threadpool_limits

    from kpca._base.config import thread_count
    from kpca.kernels.profiles import compiled

    threads = thread_count()
    rng = np.random.default_rng(0)
    A = rng.normal(size=(_SIDE, _SIDE)).astype(np.float32)
    outs = [np.empty_like(A) for _ in range(threads)]
    tiles = [-3.0 * rng.random((_TILE, _TILE), dtype=np.float32) for _ in range(threads)]
    values = [np.empty_like(tile) for tile in tiles]

    def multiply(i: int) -> None:
        np.matmul(A, A, out=outs[i])

    def exponentiate(i: int) -> None:
        for _ in range(50):
            if not compiled(tiles[i], ("expm1",)):  # in place: the loop takes the same time for any numbers
                np.expm1(tiles[i], out=values[i])

    flops = 2.0 * _SIDE**3
    together = _best_seconds(lambda: multiply(0))
    with threadpool_limits(1), ThreadPoolExecutor(threads) as pool:
        apart = _best_seconds(lambda: list(pool.map(multiply, range(threads))))
        exp = _best_seconds(lambda: list(pool.map(exponentiate, range(threads))))
    return {"gemm_flops": max(flops / together, threads * flops / apart), "exps": threads * 50 * _TILE**2 / exp}


def _best_seconds(call: Callable[[], Any], repeats: int = 7) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def pass_seconds(runs: list[Run]) -> float:
    """Return the time of a typical pass, in the round least disturbed."""
    return float(min(statistics.median(run["pass_seconds"]) for run in runs))


def summary(n: int, limit: str | None, runs: list[Run], judged: bool) -> tuple[dict[str, Any], list[str]]:
    """Return the results for one n and memory limit, and its line in the table."""
    best = min(run["seconds"] for run in runs)
    median = statistics.median(run["seconds"] for run in runs)
    share = max(run["ideal_pass_seconds"] / statistics.median(run["pass_seconds"]) for run in runs)
    whole = max(run["ideal_seconds"] / run["seconds"] for run in runs)
    peaks = {"in all": "total_peak_mib", "above start": "peak_mib"}
    gib = {which: max(run[name] for run in runs) / 1024 for which, name in peaks.items()}
    most, which, least = _ASKED[limit]
    row = {"n": n, "memory_limit": limit, "best": best, "median": median, "pass_seconds": pass_seconds(runs)}
    row |= {"share": share, "share_of_whole_fit": whole, "gib": gib, "residual": runs[0]["residual"], "runs": runs}
    cells = [
        _title((n, limit)),
        f"{best:.2f}",
        f"{median:.2f}",
        str(runs[0]["passes"]),
        f"{row['pass_seconds']:.3f}",
        f"{min(run['ideal_pass_seconds'] for run in runs):.3f}",
        f"{share:.0%}",
        verdict(share >= least if judged else None, f"≥ {least:.0%}"),
        f"{whole:.0%}",
        *(f"{value:.2f}" for value in gib.values()),
        verdict(gib[which] < most if judged else None, f"< {most:g} {which}"),
        f"{row['residual']:.1e}",
        f"{max(run['others_share'] for run in runs):.0%}",
    ]
    return row, cells


def _title(case: tuple[int, str | None]) -> str:
    n, limit = case
    return f"{n}, {limit or 'default'}"


def main() -> None:
    """Run the race."""
    options = parse(__doc__)
    touch_memory(min(options.touch_gib, 2))
    sizes = (1500, 3000, 6000) if options.quick else (25_000, 50_000, 100_000)
    cases = chosen([*((n, _LIMIT) for n in sizes), (sizes[-1], None)], options, _title)
    runs: dict[tuple[int, str | None], list[Run]] = {case: [] for case in cases}
    for number in range(options.repeats):
        for case in cases:
            args = {"n": case[0], "d": 50, "k": 10, "tol": 1e-6, "memory_limit": case[1], "check": number == 0}
            runs[case].append(run_task("benchmarks.bench_large:fit", args))
            log(f"{_title(case)}: round {number + 1}: {runs[case][-1]['seconds']:.2f} s")
    summaries = [summary(n, limit, runs[n, limit], n == sizes[-1]) for n, limit in cases]
    columns = ["n, memory limit", "best s", "median s", "passes", "pass s", "ideal pass s", "share", "asked"]
    columns += ["share of fit", "GiB in all", "above start", "asked", "residual", "others"]
    show("fit of large data, d=50, k=10, tol=1e-6", columns, [cells for _, cells in summaries])
    limited = [(n, pass_seconds(runs[n, limit])) for n, limit in cases if limit]
    logs = np.log(limited).T
    exponent = float(np.polyfit(logs[0], logs[1], 1)[0]) if len(limited) > 1 else None
    if exponent is not None:
        met = exponent <= _MAX_EXPONENT
        show("growth", ["cost of a pass", "asked"], [[f"n^{exponent:.3f}", verdict(met, f"≤ {_MAX_EXPONENT}")]])
    save("large", options, {"sizes": [row for row, _ in summaries], "exponent": exponent})


if __name__ == "__main__":
    main()
