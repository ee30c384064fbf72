"""Is a plan right, and is the memory limit kept: predicted and measured memory and time of every route."""

from __future__ import annotations

from typing import Any

from benchmarks._child import MIB, measure
from benchmarks._data import clustered, median_gamma, normal, sparse_counts
from benchmarks._race import chosen, log, parse, run_task, save, show, touch_memory, verdict

_FACTOR = 2.0
# Below these, a factor means nothing: the allocator's and the scheduler's own steps are as large.
_SMALL_MIB, _SMALL_SECONDS = 16.0, 0.03

_AGAIN, _SHORT = 4, 2.0

RBF = {"kernel": "rbf"}
TIGHT = {"kernel": "rbf", "tol": 1e-6}
LINEAR: dict[str, Any] = {"kernel": "linear"}
# title, rows, columns, components, float size, limit, parameters, task
CASES: list[tuple[str, int, int, int | None, int, str, dict[str, Any], str]] = [
    ("dense few", 1000, 20, 5, 64, "64MiB", RBF, "fit"),
    ("dense some", 700, 50, 30, 64, "64MiB", RBF, "fit"),
    ("dense all", 1500, 50, None, 64, "200MiB", RBF, "fit"),
    ("dense many", 3000, 50, 400, 64, "400MiB", RBF, "fit"),
    ("dense asked for", 3000, 50, 20, 64, "200MiB", RBF | {"eigen_solver": "dense"}, "fit"),
    ("krylov 2,000", 2000, 10, 2, 64, "64MiB", RBF, "fit"),
    ("krylov 4,000 tight limit", 4000, 50, 10, 64, "64MiB", RBF, "fit"),
    ("krylov 5,000 float32", 5000, 50, 10, 32, "100MiB", RBF, "fit"),
    ("krylov 5,000 wide rows", 5000, 500, 10, 64, "300MiB", RBF, "fit"),
    ("krylov 6,000 many", 6000, 50, 100, 64, "500MiB", TIGHT, "fit"),
    ("krylov 6,000 normal", 6000, 50, 10, 64, "300MiB", TIGHT | {"data": "normal"}, "fit"),
    ("krylov 10,000 matern", 10_000, 50, 10, 64, "300MiB", TIGHT | {"kernel": "matern32"}, "fit"),
    ("krylov 10,000 poly", 10_000, 50, 10, 64, "200MiB", TIGHT | {"kernel": "poly"}, "fit"),
    ("krylov 6,000 laplacian", 6000, 10, 5, 64, "300MiB", TIGHT | {"kernel": "laplacian"}, "fit"),
    ("krylov 20,000", 20_000, 50, 10, 64, "300MiB", TIGHT, "fit"),
    ("krylov 20,000 tol=0", 20_000, 50, 10, 64, "300MiB", RBF, "fit"),
    ("krylov 20,000 plenty", 20_000, 50, 10, 64, "2GiB", TIGHT, "fit"),
    ("krylov 20,000 short basis", 20_000, 50, 10, 64, "130MiB", TIGHT, "fit"),
    ("krylov 30,000 float32", 30_000, 100, 2, 32, "300MiB", TIGHT, "fit"),
    ("primal", 50_000, 100, 10, 64, "200MiB", LINEAR, "fit"),
    ("primal float32", 100_000, 50, 5, 32, "100MiB", LINEAR, "fit"),
    ("primal all", 20_000, 300, None, 64, "300MiB", LINEAR, "fit"),
    ("dual", 500, 20_000, 10, 64, "300MiB", LINEAR, "fit"),
    ("primal multiplied", 6000, 2000, 10, 64, "400MiB", TIGHT | LINEAR, "fit"),
    ("dual multiplied", 2000, 5000, 10, 64, "400MiB", TIGHT | LINEAR, "fit"),
    ("primal sparse", 50_000, 200, 10, 64, "300MiB", LINEAR | {"data": "sparse"}, "fit"),
    ("primal sparse multiplied", 20_000, 5000, 10, 64, "200MiB", LINEAR | {"data": "sparse"}, "fit"),
    ("inverse", 3000, 50, 5, 64, "300MiB", TIGHT | {"fit_inverse_transform": True}, "fit"),
    ("landmarks 50,000", 50_000, 20, 10, 64, "300MiB", RBF | {"rank": 500}, "fit"),
    ("landmarks 50,000 float32", 50_000, 20, 10, 32, "300MiB", RBF | {"rank": 500}, "fit"),
    ("landmarks 200,000 float32", 200_000, 20, 20, 32, "300MiB", RBF | {"rank": 300}, "fit"),
    ("landmarks wide rows", 20_000, 200, 50, 64, "400MiB", RBF | {"rank": 1000}, "fit"),
    ("landmarks uniform", 50_000, 20, 10, 64, "200MiB", RBF | {"rank": 500, "landmarks": "uniform"}, "fit"),
    ("random features", 50_000, 20, 10, 64, "200MiB", RBF | {"rank": 500, "landmarks": None}, "fit"),
    ("transform 200,000", 2000, 50, 10, 64, "150MiB", RBF, "transform"),
    ("transform 50,000 float32", 5000, 300, 10, 32, "150MiB", RBF, "transform"),
]
QUICK = ("dense few", "krylov 2,000", "krylov 4,000 tight limit", "primal sparse", "inverse")


def case(
    *, n: int, d: int, k: int | None, bits: int, limit: str, parameters: dict[str, Any], task: str
) -> dict[str, Any]:
    """Plan and run one case; in the fresh process."""
    import numpy as np

    import kpca
    from kpca._base.config import thread_count
    from kpca.features.projection import transform_bytes

    parameters = dict(parameters)
    data = parameters.pop("data", "clustered")
    X: Any = sparse_counts(n, d, 0.01) if data == "sparse" else {"clustered": clustered, "normal": normal}[data](n, d)
    X = X.astype(np.float32 if bits == 32 else np.float64)
    if parameters["kernel"] not in ("linear", "poly"):
        parameters["gamma"] = median_gamma(X)
    if rank := parameters.pop("rank", None):
        landmarks = parameters.pop("landmarks", "rpcholesky")
        features = kpca.RandomFeatures(rank) if landmarks is None else kpca.Nystroem(rank, landmarks=landmarks)
        parameters["approximation"] = features
    model = kpca.KernelPCA(k, **parameters)
    with kpca.config(memory_limit=limit):
        if task == "fit":
            _, result = measure(lambda: model.fit(X))  # first: a plan would warm the libraries up
            for _ in range(_AGAIN if result["seconds"] < _SHORT else 0):  # whom others disturbed gets another try
                result["seconds"] = min(result["seconds"], measure(lambda: model.fit(X))[1]["seconds"])
            plan = kpca.plan(X, estimator=model)
            found = {"route": plan.route, "solver": model.solver_, "passes": model.n_passes_, "plan": plan.as_dict()}
            found |= {"predicted_mib": plan.memory_bytes / MIB, "predicted_seconds": plan.seconds}
            found |= {"bound": plan.memory_bound}
        else:
            with kpca.config(memory_limit=None):
                model.fit(X)
            m = 200_000 if bits == 64 else 50_000
            new = np.tile(X, (m // n, 1))
            _, result = measure(lambda: model.transform(new))
            size = transform_bytes(m, n, d, k or n, itemsize=bits // 8, threads=thread_count())
            found = {
                "route": "transform",
                "solver": "transform",
                "passes": 0,
                "predicted_mib": size / MIB,
                "bound": size,
            }
    return result | found | {"limit_mib": kpca._base.config.parse_bytes(limit) / MIB}


def judged(run: dict[str, Any]) -> dict[str, Any]:
    """Add ratios and verdicts."""
    # Of transform there is a bound and no plan: memory that the fit has left behind serves it too.
    run["memory_ratio"] = (
        None
        if run["solver"] == "transform"
        else max(run["predicted_mib"], _SMALL_MIB) / max(run["peak_mib"], _SMALL_MIB)
    )
    seconds = run.get("predicted_seconds")
    run["time_ratio"] = None
    if seconds is not None:
        run["time_ratio"] = max(seconds, _SMALL_SECONDS) / max(run["seconds"], _SMALL_SECONDS)
    run["kept"] = run["peak_mib"] <= run["limit_mib"]
    ratios = [ratio for ratio in (run["memory_ratio"], run["time_ratio"]) if ratio is not None]
    run["within"] = all(1 / _FACTOR <= ratio <= _FACTOR for ratio in ratios)
    return run


def main() -> None:
    """Run every case once; on a busy machine the times mean little, the memory as much as ever."""
    options = parse(__doc__)
    touch_memory(min(options.touch_gib, 2))
    cases = [case for case in CASES if not options.quick or case[0] in QUICK]
    rows, lines = [], []
    for title, n, d, k, bits, limit, parameters, task in chosen(cases, options, lambda case: case[0]):
        args = {"n": n, "d": d, "k": k, "bits": bits, "limit": limit, "parameters": parameters, "task": task}
        run = judged(run_task("benchmarks.bench_memory:case", args))
        # once more with the least that the plan says is enough: the promise where it is hardest to keep
        tight = run_task("benchmarks.bench_memory:case", args | {"limit": f"{run['bound']}b"})
        run["tight_peak_mib"], run["tight_limit_mib"] = tight["peak_mib"], tight["limit_mib"]
        run["kept"] &= tight["peak_mib"] <= tight["limit_mib"]
        rows.append({"title": title} | args | run)
        log(
            f"{title}: {run['predicted_mib']:.0f} MiB planned, {run['peak_mib']:.0f} taken, "
            f"{run['tight_peak_mib']:.0f} of {run['tight_limit_mib']:.0f} at the least limit; "
            f"{run.get('predicted_seconds', 0):.2f} s planned, {run['seconds']:.2f} taken"
        )
        expected = run.get("plan", {})
        lines.append(
            [
                title,
                run["solver"],
                f"{expected.get('passes', 0):.0f} / {run['passes']}",
                f"{run['predicted_mib']:.0f}",
                f"{run['peak_mib']:.0f}",
                f"≤ {run['limit_mib']:.0f}",
                verdict(run["kept"], f"{run['tight_peak_mib']:.0f} ≤ {run['tight_limit_mib']:.0f}"),
                "" if run["memory_ratio"] is None else f"{run['memory_ratio']:.2f}",
                f"{run.get('predicted_seconds', 0):.3f}",
                f"{run['seconds']:.3f}",
                "" if run["time_ratio"] is None else f"{run['time_ratio']:.2f}",
                verdict(run["within"], "2x"),
                f"{run['others_share']:.0%}",
            ]
        )
    columns = [
        "case",
        "solver",
        "passes",
        "planned MiB",
        "peak MiB",
        "limit",
        "least limit",
        "ratio",
        "planned s",
        "s",
        "ratio",
    ]
    show("plans and what became of them", [*columns, "within", "others"], lines)
    save("memory", options, rows)


if __name__ == "__main__":
    main()
