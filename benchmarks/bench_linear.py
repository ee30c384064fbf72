"""The linear kernel against scikit-learn's PCA: tall, wide, square, sparse, float32."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from benchmarks._child import measure_many
from benchmarks._data import clustered, decaying, normal, sparse_counts
from benchmarks._race import Contender, Heat, parse, race, run_task, save, show_race, touch_memory
from benchmarks._truth import FloatArray, eigenvalue_error

# 1.0 is asked; a tenth is left to noise.
_FLOOR = 0.9
_LINEAR = "benchmarks.bench_linear:linear"
# title, what makes the data, its size, components, dtype
_CASES: list[tuple[str, str, tuple[int, int], int | None, str]] = [
    ("tall", "clustered", (20_000, 50), 10, "float64"),
    ("tall", "clustered", (20_000, 50), 10, "float32"),
    ("tall, many features", "normal", (2_000, 500), 10, "float64"),
    ("tall, many features", "normal", (2_000, 500), 10, "float32"),
    ("wide", "normal", (500, 5_000), 10, "float64"),
    ("square, decaying", "decaying", (3_000, 3_000), 10, "float64"),
    ("all components", "normal", (1_000, 200), None, "float64"),
    ("sparse", "sparse", (5_000, 20_000), 10, "float64"),
]


def make(data: str, shape: list[int], dtype: str) -> Any:
    """Return the data of a case."""
    if data == "sparse":
        return sparse_counts(shape[0], shape[1], 1e-3).astype(dtype)
    return {"clustered": clustered, "normal": normal, "decaying": decaying}[data](*shape).astype(dtype)


def linear(
    *,
    library: str,
    data: str,
    shape: list[int],
    k: int | None,
    dtype: str,
    truth: list[float],
    budget: float,
    check: bool,
) -> dict[str, Any]:
    """Time fit_transform; in the fresh process."""
    X = make(data, shape, dtype)
    model = _model(library, k, sparse.issparse(X))
    model.fit_transform(X[: max(40, 4 * (k or 1))])  # what is loaded at the first call is import time
    scores, result = measure_many(lambda: model.fit_transform(X), at_least=3, budget=budget)
    if check:
        centred = library != "truncated"
        values = model.eigenvalues_ if library == "kpca" else model.singular_values_.astype(np.float64) ** 2
        result["components"] = len(values)
        result["residual"] = _residual(X, values, scores, centred)
        if centred:
            result["eigenvalue_error"] = eigenvalue_error(values, truth)
    return result


def _model(library: str, k: int | None, is_sparse: bool) -> Any:
    if library == "kpca":
        from kpca import KernelPCA

        return KernelPCA(n_components=k, kernel="linear", random_state=0)
    from sklearn.decomposition import PCA, TruncatedSVD

    if library == "truncated":
        return TruncatedSVD(k, algorithm="arpack", random_state=0)
    return PCA(k, svd_solver="arpack" if is_sparse else "auto", random_state=0)


def _mean(X: Any) -> FloatArray:
    return np.asarray(X.mean(axis=0), dtype=np.float64).reshape(1, -1)


def _residual(X: Any, values: FloatArray, scores: FloatArray, centred: bool) -> float:
    """Return the largest |B u - lambda u| / lambda_1, B = X X' of the (centred) rows and u the unit scores."""
    X, values = X.astype(np.float64), np.asarray(values, dtype=np.float64)
    mean = _mean(X) if centred else np.zeros((1, X.shape[1]))
    U = scores.astype(np.float64)
    U = U / np.linalg.norm(U, axis=0)
    inner = X.T @ U - mean.T * U.sum(axis=0)  # (X - 1 mean)' U
    R = X @ inner - mean @ inner - U * values
    return float(np.linalg.norm(R, axis=0).max() / values[0])


def reference(data: str, shape: list[int], k: int | None, dtype: str) -> dict[str, Any]:
    """Return the eigenvalues of the centred Gram matrix, from its smaller side."""
    from scipy.linalg import eigvalsh
    from scipy.sparse.linalg import LinearOperator, eigsh

    X = make(data, shape, dtype).astype(np.float64)
    if not sparse.issparse(X):
        X = X - X.mean(axis=0)
        small = X.T @ X if shape[0] >= shape[1] else X @ X.T
        side = len(small)
        top = None if k is None else (side - k, side - 1)
        return {"eigenvalues": eigvalsh(small, subset_by_index=top)[::-1].tolist()}
    mean = _mean(X)[0]

    def multiply(v: FloatArray) -> FloatArray:
        v = v.ravel() - v.mean()
        image: FloatArray = X @ (X.T @ v)
        image -= X @ mean * v.sum()
        return np.asarray(image - image.mean())

    operator = LinearOperator((shape[0], shape[0]), matvec=multiply, dtype=np.float64)
    start = np.random.default_rng(0).normal(size=shape[0])
    return {"eigenvalues": np.sort(eigsh(operator, k, which="LA", v0=start)[0])[::-1].tolist()}


def heats(shrink: int, budget: float, only: str) -> list[Heat]:
    """Return what is raced."""
    found = []
    for name, data, (rows, columns), k, dtype in _CASES:
        shape = [max(rows // shrink, 100), max(columns // shrink, 50)]
        title = f"{name} {shape[0]} x {shape[1]} k={k or 'all'} {dtype}"
        if only.lower() not in title.lower():
            continue
        case: dict[str, Any] = {"data": data, "shape": shape, "k": k, "dtype": dtype}
        args = case | {"budget": budget, "truth": run_task("benchmarks.bench_linear:reference", case)["eigenvalues"]}
        contenders = [
            Contender("sklearn PCA", _LINEAR, {"library": "sklearn", **args}),
            Contender("kpca linear", _LINEAR, {"library": "kpca", **args}, _FLOOR),
        ]
        if data == "sparse":
            # for comparison only: it leaves the mean in
            contenders.append(Contender("TruncatedSVD", _LINEAR, {"library": "truncated", **args}))
        found.append(Heat(title, contenders))
    return found


def main() -> None:
    """Run the race."""
    options = parse(__doc__)
    touch_memory(min(options.touch_gib, 2))
    rows = race(heats(10, 0.1, options.only) if options.quick else heats(1, 2.0, options.only), options)
    show_race("linear kernel against PCA (several calls per process)", rows)
    save("linear", options, rows)


if __name__ == "__main__":
    main()
