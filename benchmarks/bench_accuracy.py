"""Every kernel, solver and precision against a dense float64 truth: eigenvalues, subspaces, residuals, bounds."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import eigh
from scipy.spatial.distance import cdist

from benchmarks._child import measure
from benchmarks._data import FloatArray, clustered
from benchmarks._race import chosen, log, parse, run_task, save, show, verdict
from benchmarks._truth import centred_matrix, eigenvalue_error, matrix_residual

_TOL = {"float64": 1e-10, "float32": 1e-5}  # what tol=0 asks for
_EPS = float(np.finfo(np.float64).eps)


def _chi2(X: FloatArray) -> FloatArray:
    total = np.zeros((len(X), len(X)))
    for column in X.T:
        gap, both = np.subtract.outer(column, column), np.add.outer(column, column)
        total += np.divide(gap**2, both, out=np.zeros_like(both), where=both > 0)
    return total


def _squares(X: FloatArray) -> FloatArray:
    return np.asarray(cdist(X, X, "sqeuclidean"))


def _manhattan(X: FloatArray) -> FloatArray:
    return np.asarray(cdist(X, X, "cityblock"))


def _dots(X: FloatArray) -> FloatArray:
    dots: FloatArray = X @ X.T
    return dots


def _cosines(X: FloatArray) -> FloatArray:
    return _dots(X / np.linalg.norm(X, axis=1, keepdims=True))


def _matern32(s: FloatArray, gamma: float) -> FloatArray:
    u = np.sqrt(6.0 * gamma * s)  # sqrt(3) r / l with l = 1 / sqrt(2 gamma)
    return np.asarray((1 + u) * np.exp(-u))


def _matern52(s: FloatArray, gamma: float) -> FloatArray:
    u = np.sqrt(10.0 * gamma * s)
    return np.asarray((1 + u + u**2 / 3) * np.exp(-u))


# name: what the kernel depends on, the profile f(s, gamma), and gamma from a typical s
_KERNELS: dict[str, tuple[Callable[[FloatArray], FloatArray], Callable[[FloatArray, float], Any], float]] = {
    "rbf": (_squares, lambda s, gamma: np.exp(-gamma * s), 0.5),
    "laplacian": (_manhattan, lambda s, gamma: np.exp(-gamma * s), 1.0),
    "poly": (_dots, lambda s, gamma: (gamma * s + 1.0) ** 3, 0.5),
    "sigmoid": (_dots, lambda s, gamma: np.tanh(gamma * s + 1.0), 0.05),
    "cosine": (_cosines, lambda s, gamma: s, 1.0),
    "matern12": (_squares, lambda s, gamma: np.exp(-np.sqrt(2.0 * gamma * s)), 0.5),
    "matern32": (_squares, _matern32, 0.5),
    "matern52": (_squares, _matern52, 0.5),
    "rational_quadratic": (_squares, lambda s, gamma: 1.0 / (1.0 + gamma * s), 0.5),
    "chi2": (_chi2, lambda s, gamma: np.exp(-gamma * s), 1.0),
}


def accuracy(kernel: str, dtype: str, n: int, k: int, check: bool) -> dict[str, Any]:
    """Compare both solvers with the truth, for one kernel and one precision of the data; in the fresh process."""
    from kpca import KernelPCA

    X = clustered(n, 20)
    X = (np.abs(X) if kernel == "chi2" else X).astype(dtype)
    argument, profile, factor = _KERNELS[kernel]
    s = argument(X.astype(np.float64))  # the truth is that of the rounded data
    gamma = float(factor / np.median(np.abs(s)))
    B = centred_matrix(profile(s, gamma))
    values, vectors = eigh(0.5 * (B + B.T))
    values, vectors = values[::-1], vectors[:, ::-1][:, :k]
    solvers = {}
    for solver in ("dense", "krylov"):
        model = KernelPCA(k, kernel=kernel, gamma=gamma, eigen_solver=solver, random_state=0)
        _, result = measure(functools.partial(model.fit, X))
        bounds, U = model.eigenvalue_bounds_, np.linalg.qr(model.eigenvectors_.astype(np.float64))[0]
        slack = 16 * _EPS * values[0]  # LAPACK's answer is not exact either
        inside = (bounds[:, 0] - slack <= values[:k]) & (values[:k] <= bounds[:, 1] + slack)
        gap = (values[k - 1] - values[k]) / values[0]
        # |P - P'|_2 is the sine of the largest angle: what of U is outside the true subspace
        projector = float(np.linalg.norm(U - vectors @ (vectors.T @ U), 2))
        solvers[solver] = result | {
            "eigenvalue_error": eigenvalue_error(model.eigenvalues_, values[:k]),
            "gap": float(gap),
            "projector_error": projector,
            "scaled_projector_error": float(projector * gap),
            "reported_residual": float(model.residuals_.max()),
            "residual": matrix_residual(B, model.eigenvalues_, model.eigenvectors_),
            "bounds_hold": bool(inside.all()),
            "bounds_width": float((bounds[:, 1] - bounds[:, 0]).max() / values[0]),
            "route": model.solver_,
        }
    return {"solvers": solvers}


def main() -> None:
    """Run all kernels."""
    options = parse(__doc__)
    n = 400 if options.quick else 1500
    rows, lines = [], []
    for kernel in chosen(_KERNELS, options, str):
        for dtype, tol in _TOL.items():
            args = {"kernel": kernel, "dtype": dtype, "n": n, "k": 10, "check": True}
            run = run_task("benchmarks.bench_accuracy:accuracy", args)
            log(f"{kernel} {dtype}: done")
            for solver, result in run["solvers"].items():
                met = result["eigenvalue_error"] <= tol and result["scaled_projector_error"] <= np.sqrt(10) * tol
                rows.append(args | {"solver": solver, "met": bool(met), "warnings": run.get("warnings", [])} | result)
                lines.append(
                    [
                        f"{kernel} {dtype} {solver}",
                        f"{result['eigenvalue_error']:.1e}",
                        f"{result['scaled_projector_error']:.1e}",
                        verdict(met, f"≤ {tol:.0e}"),
                        f"{result['reported_residual']:.1e}",
                        f"{result['residual']:.1e}",
                        verdict(result["bounds_hold"], "hold"),
                        f"{result['bounds_width']:.1e}",
                    ]
                )
    columns = ["case", "eigenvalue error", "projector error x gap", "asked", "reported residual", "true residual"]
    show(f"accuracy, n={n}, k=10, tol=0, relative to the largest eigenvalue", [*columns, "bounds", "width"], lines)
    save("accuracy", options, rows)


if __name__ == "__main__":
    main()
