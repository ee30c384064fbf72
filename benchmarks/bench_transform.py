"""Transform of 2 000 new rows against 20 000 training rows, float64 and float32, against scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks._child import bits, measure_many
from benchmarks._data import FloatArray, clustered, median_gamma
from benchmarks._race import Contender, Heat, machine, parse, race, save, show_race, touch_memory
from benchmarks._truth import rbf_row_means

_CHECKED = 200
# What is asked depends on whether NumPy, and so scikit-learn, uses AVX-512.
_FLOORS = {True: {"float64": 5.0, "float32": 10.0}, False: {"float64": 4.0, "float32": 8.0}}


def transform(*, library: str, n: int, new: int, k: int, dtype: str, calls: int, check: bool) -> dict[str, Any]:
    """Fit roughly, then time several transforms; in the fresh process."""
    rows = clustered(n + new).astype(dtype)
    X, fresh = rows[:n], rows[n:]
    gamma = median_gamma(X)
    model = _model(library, n_components=k, kernel="rbf", gamma=gamma, tol=1e-2, random_state=0)
    model.fit(X)  # a rough fit will do: what it costs to apply does not depend on it
    scores, result = measure_many(lambda: model.transform(fresh), at_least=calls, budget=0.0)
    if check:
        result["score_error"] = _score_error(model, X, fresh, gamma, scores)
    result["bits"] = bits(scores)
    return result


def _model(library: str, **parameters: Any) -> Any:
    if library == "sklearn":
        from sklearn.decomposition import KernelPCA as Theirs

        return Theirs(eigen_solver="arpack", **parameters)
    from kpca import KernelPCA

    return KernelPCA(**parameters)


def _score_error(model: Any, X: FloatArray, fresh: FloatArray, gamma: float, scores: FloatArray) -> float:
    """Return how far some scores are from A'(k_x - row means) in float64, relative to the largest score."""
    from scipy.spatial.distance import cdist

    A = model.eigenvectors_.astype(np.float64) / np.sqrt(model.eigenvalues_.astype(np.float64))
    A -= A.mean(axis=0)  # up to rounding it is 0 already
    K = np.exp(-gamma * cdist(fresh[:_CHECKED].astype(np.float64), X.astype(np.float64), "sqeuclidean"))
    exact = (K - rbf_row_means(X, gamma)) @ A
    return float(np.abs(scores[:_CHECKED] - exact).max() / np.abs(exact).max())


def heats(n: int, new: int, calls: int, k: int = 10) -> list[Heat]:
    """Return what is raced."""
    found = []
    for dtype, floor in _FLOORS[machine()["numpy_has_avx512"]].items():
        args = {"n": n, "new": new, "k": k, "dtype": dtype, "calls": calls}
        contenders = [
            Contender("sklearn", "benchmarks.bench_transform:transform", {"library": "sklearn", **args}),
            Contender("kpca", "benchmarks.bench_transform:transform", {"library": "kpca", **args}, floor),
        ]
        found.append(Heat(f"{new} x {n} {dtype}", contenders))
    return found


def main() -> None:
    """Run the race."""
    options = parse(__doc__)
    touch_memory(options.touch_gib)
    rows = race(heats(1500, 300, 3) if options.quick else heats(20_000, 2_000, 7), options)
    show_race("transform, Gaussian kernel, d=50, k=10 (several calls per process)", rows)
    save("transform", options, rows)


if __name__ == "__main__":
    main()
