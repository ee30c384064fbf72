"""Bounds contain the exact eigenvalues, residuals are not understated: on data where rounding has its way.

The truth is computed in long double, from differences of rows; a bound may miss it by nothing.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from reference import exact_eigenvalues, exactly_centred, kernel_values
from sklearn.gaussian_process import kernels as gp

from kpca import KernelPCA, kernels

RNG = np.random.default_rng(0)
NORMAL = RNG.standard_normal((60, 3))
FAR = np.vstack([RNG.standard_normal((60, 3)) + place for place in (0.0, 1e8, -1e8)])
# The same number in all columns, so that roundings of sums have one sign; each row ten times.
SAME = np.repeat(np.repeat(RNG.standard_normal((20, 1)), 1000, axis=1), 10, axis=0)
# Long rows, with inner products that are no larger than those of short ones.
LONG = 1e3 * np.linalg.qr(RNG.standard_normal((6, 6)))[0] + 1e-3 * RNG.standard_normal((6, 6))
APART = np.vstack([1e-5 * RNG.standard_normal((200, 2)), 1e-3 * RNG.standard_normal((200, 2)) + 1.0])
SHARES = np.repeat([1.0, 1e-20], 200)


def radial(name: str, X: np.ndarray, gamma: float, **more: Any) -> tuple[Any, np.ndarray, np.ndarray, dict[str, Any]]:
    """A kernel by its name, the rows, the exact values, and what else `fit` is given."""
    exact = kernel_values(name, X, X, gamma=np.longdouble(gamma), dtype=np.longdouble)
    length = float(np.sqrt(0.5 / gamma))
    made = {
        "rbf": kernels.RBF(gamma),
        "exponential": kernels.Exponential(length),
        "matern32": kernels.Matern(1.5, length),
        "laplacian": kernels.Laplacian(gamma),
    }
    return made[name], X, exact, more


def wide(gamma: float, X: np.ndarray, **more: Any) -> tuple[Any, np.ndarray, np.ndarray, dict[str, Any]]:
    """A Gaussian of which long double, too, would lose the small remainder; centring removes the 1."""
    Z = X.astype(np.longdouble)
    squares = sum(np.subtract.outer(column, column) ** 2 for column in Z.T)
    return kernels.RBF(gamma), X, np.expm1(-np.longdouble(gamma) * squares), more


def dotted(kernel: Any, profile: Any, X: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray, dict[str, Any]]:
    Z = X.astype(np.longdouble)
    return kernel, X, profile(Z @ Z.T), {}


def periodic(period: float, X: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray, dict[str, Any]]:
    Z, pi = X.astype(np.longdouble), np.arccos(np.longdouble(-1))
    distances = np.sqrt(sum(np.subtract.outer(column, column) ** 2 for column in Z.T))
    return (
        gp.ExpSineSquared(0.3, period),
        X,
        np.exp(-2 * (np.sin(pi * distances / period) / np.longdouble(0.3)) ** 2),
        {},
    )


CASES = {
    "clusters far apart": lambda: radial("rbf", FAR, 0.3),
    "clusters far apart, exponential": lambda: radial("exponential", FAR, 0.5),
    "clusters far apart, Matern": lambda: radial("matern32", FAR, 0.5),
    "clusters far apart, Laplacian": lambda: radial("laplacian", FAR, 0.3),
    "equal columns": lambda: radial("rbf", SAME, 1e-3),
    "equal columns, narrow": lambda: radial("rbf", SAME, 5.0),
    "weights of another size": lambda: wide(1.0, APART, sample_weight=SHARES),
    "wide": lambda: wide(1e-12, NORMAL),
    "nearly constant": lambda: dotted(
        kernels.Polynomial(2, 2.0**-20, 1.0), lambda t: 2 * (s := t / 2**20) + s**2, NORMAL
    ),
    "a slope without end": lambda: dotted(kernels.Polynomial(0.5, 1.0, 0.0), np.sqrt, np.abs(NORMAL)),
    "few rows": lambda: dotted(kernels.Sigmoid(1.0, -1.0), lambda t: np.tanh(t - 1), LONG),
    "equal columns, inner products": lambda: dotted(kernels.Polynomial(1, 1.0, 0.0), lambda t: t, SAME),
    "many periods": lambda: periodic(1e-4, NORMAL),
}


@pytest.mark.parametrize("solver", ["dense", "krylov"])
@pytest.mark.parametrize("case", CASES)
def test_bounds_hold_to_the_last_digit(case: str, solver: str) -> None:
    kernel, X, exact, more = CASES[case]()
    B = exactly_centred(exact, more.get("sample_weight"))
    truth = exact_eigenvalues(B)[:2]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = KernelPCA(2, kernel=kernel, eigen_solver=solver, tol=1e-10).fit(X, **more)
    low, high = model.eigenvalue_bounds_.astype(np.longdouble).T
    assert (low <= truth).all(), np.max((low - truth) / truth[0])
    assert (truth <= high).all(), np.max((truth - high) / truth[0])
    assert np.max(high - low) < 1e-6 * truth[0]  # and say something
    U = model.eigenvectors_.astype(np.longdouble)
    residuals = np.linalg.norm(B @ U - U * model.eigenvalues_, axis=0)
    assert (residuals <= 2 * model.residuals_ * model.eigenvalues_[0]).all()


@pytest.mark.parametrize(("name", "width"), [("rbf", 3e-13), ("matern32", 1e-12), ("exponential", 2e-12)])
def test_bounds_of_ordinary_data_are_narrow(name: str, width: float) -> None:
    X = np.random.default_rng(1).standard_normal((400, 10))
    kernel, *_ = radial(name, X, 0.05)
    model = KernelPCA(12, kernel=kernel, eigen_solver="dense").fit(X)
    low, high = model.eigenvalue_bounds_.T
    assert (high - low).max() < width * high[0]
