"""Small problems, 100 to 2 000 rows, few to all components, Gaussian and linear, against scikit-learn's KernelPCA."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

from benchmarks._child import measure_many
from benchmarks._data import FloatArray, clustered, median_gamma
from benchmarks._race import Contender, Heat, alternate, chosen, parse, save, show_race, summarise, touch_memory
from benchmarks._truth import centred_matrix, eigenvalue_error, matrix_residual, rbf_rows

_FLOOR = 0.9


def small(library: str, n: int, kernel: str, budget: float, check: bool) -> dict[str, Any]:
    """Fit and transform at every number of components, many times each; in the fresh process."""
    import numpy as np
    from scipy.linalg import eigvalsh

    if library == "sklearn":
        from sklearn.decomposition import KernelPCA
    else:
        from kpca import KernelPCA
    X = clustered(n, 20)
    gamma = median_gamma(X)
    B = _centred_kernel(X, kernel, gamma) if check else np.empty((0, 0))
    truth = eigvalsh(B)[::-1] if check else np.empty(0)
    cases = {}
    for name, k in counts(n).items():
        model = KernelPCA(n_components=k, kernel=kernel, gamma=gamma, random_state=0)
        model.fit_transform(X)  # what is loaded or started at the first call is import time
        _, result = measure_many(functools.partial(model.fit_transform, X), at_least=3, budget=budget)
        if check:
            result["eigenvalue_error"] = eigenvalue_error(model.eigenvalues_, truth)
            result["residual"] = matrix_residual(B, model.eigenvalues_, model.eigenvectors_)
            result["components"] = len(model.eigenvalues_)
        cases[name] = result
    return {"cases": cases, "seconds": sum(case["seconds"] for case in cases.values())}


def _centred_kernel(X: FloatArray, kernel: str, gamma: float) -> FloatArray:
    import numpy as np

    X = X - X.mean(axis=0)
    return centred_matrix(X @ X.T if kernel == "linear" else rbf_rows(X, gamma, np.arange(len(X))))


def counts(n: int) -> dict[str, int | None]:
    """Return the numbers of components asked for."""
    return {"k=2": 2, "k=10": 10, "k=n/2": n // 2, "k=all": None}


def main() -> None:
    """Run the race."""
    options = parse(__doc__)
    touch_memory(min(options.touch_gib, 1))
    sizes, budget = ((100, 400), 0.05) if options.quick else ((100, 200, 500, 1000, 2000), 0.7)
    heats = []
    for kernel in ("rbf", "linear"):
        for n in sizes:
            args = {"n": n, "kernel": kernel, "budget": budget}
            theirs = Contender("sklearn", "benchmarks.bench_small:small", {"library": "sklearn", **args})
            ours = Contender("kpca", "benchmarks.bench_small:small", {"library": "kpca", **args}, _FLOOR)
            heats.append(Heat(f"{kernel} n={n}", [theirs, ours]))
    rows = []
    for heat in chosen(heats, options, lambda heat: heat.title):
        runs = alternate(heat, options.repeats)
        for case in counts(1):
            split = {name: [run["cases"][case] for run in mine] for name, mine in runs.items()}
            rows += summarise(replace(heat, title=f"{heat.title} {case}"), split)
    show_race("fit_transform of small data, d=20 (many calls per process)", rows)
    save("small", options, rows)


if __name__ == "__main__":
    main()
