"""Fit of a Gaussian kernel against scikit-learn: 20 000 rows, two tolerances, 300 MiB or no limit; 4 000 rows."""

from __future__ import annotations

import functools
from typing import Any

from benchmarks._child import bits, measure
from benchmarks._data import clustered, median_gamma
from benchmarks._race import Contender, Heat, parse, race, run_task, save, show_race, touch_memory
from benchmarks._truth import eigenvalue_error, rbf_eigenvalues, rbf_residual

_LIMITS = {"300MiB": 300.0, "default": None}  # in MiB; by default there is none
FIT = "benchmarks.bench_fit:fit"


def fit(
    *,
    library: str,
    n: int,
    k: int,
    tol: float,
    truth: list[float],
    check: bool,
    eigen_solver: str = "auto",
    memory_limit: str | None = None,
) -> dict[str, Any]:
    """Fit one model; in the fresh process. `truth` is empty where nobody knows it."""
    X = clustered(n)
    gamma = median_gamma(X)
    parameters = {"n_components": k, "kernel": "rbf", "gamma": gamma, "tol": tol, "eigen_solver": eigen_solver}
    model = _model(library, memory_limit, random_state=0, **parameters)
    model.fit(X[:600])  # what a library loads or starts at its first call is import time
    fitted, result = measure(lambda: model.fit(X))
    if check:
        if truth:
            result["eigenvalue_error"] = eigenvalue_error(fitted.eigenvalues_, truth)
        result["residual"] = rbf_residual(X, gamma, fitted.eigenvalues_, fitted.eigenvectors_)
    if library == "kpca":
        result |= {"passes": fitted.n_passes_, "bits": bits(fitted.eigenvalues_, fitted.eigenvectors_)}
    return result


def _model(library: str, memory_limit: str | None, **parameters: Any) -> Any:
    if library == "sklearn":
        from sklearn.decomposition import KernelPCA as Theirs

        return Theirs(**parameters)
    import kpca

    if memory_limit is not None:
        kpca.set_config(memory_limit=memory_limit)
    return kpca.KernelPCA(**parameters)


def reference(n: int, k: int) -> dict[str, Any]:
    """Return the eigenvalues to compare with; in a process of its own, because it stores the matrix."""
    X = clustered(n)
    return {"eigenvalues": rbf_eigenvalues(X, median_gamma(X), k).tolist()}


@functools.cache
def truth(n: int, k: int) -> list[float]:
    """Return the reference, computed once."""
    values: list[float] = run_task("benchmarks.bench_fit:reference", {"n": n, "k": k})["eigenvalues"]
    return values


def heats(large: int, small: int, only: str, k: int = 10) -> list[Heat]:
    """Return what is raced."""

    def at(n: int, tol: float, **more: Any) -> dict[str, Any]:
        return {"n": n, "k": k, "tol": tol, "truth": truth(n, k), **more}

    def ours(tol: float, limit: str, floor: float) -> Contender:
        args = at(large, tol, library="kpca", memory_limit=limit if _LIMITS[limit] else None)
        return Contender(f"kpca, {limit}", FIT, args, floor, _LIMITS[limit])

    found = []
    # The titles are asked first: a reference of many rows is not worth computing for a heat that is left out.
    for tol, floor in ((1e-6, 8.0), (0.0, 4.5)):
        title = f"n={large} k={k} tol={tol:g}"
        if only.lower() not in title:
            continue
        theirs = Contender("sklearn arpack", FIT, at(large, tol, library="sklearn", eigen_solver="arpack"))
        found.append(Heat(title, [theirs, *(ours(tol, limit, floor) for limit in _LIMITS)]))
    title = f"n={small} k={k} defaults"
    if only.lower() in title:
        theirs = Contender("sklearn auto", FIT, at(small, 0.0, library="sklearn"))
        found.append(Heat(title, [theirs, Contender("kpca", FIT, at(small, 0.0, library="kpca"), 40.0)]))
    return found


def main() -> None:
    """Run the race."""
    options = parse(__doc__)
    touch_memory(options.touch_gib)
    rows = race(heats(*((2000, 1000) if options.quick else (20_000, 4_000)), options.only), options)
    show_race("fit, Gaussian kernel, d=50", rows)
    save("fit", options, rows)


if __name__ == "__main__":
    main()
