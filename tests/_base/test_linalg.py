"""Eigenpairs by whichever library is faster must be the largest ones, whatever the spectrum."""

import numpy as np
import pytest

from kpca._base.linalg import exhaustive, largest_eigenpairs, mean_of_rows
from kpca.estimators.plan import kernel_route, linear_route


def matrix(values, seed=0):
    Q, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((len(values), len(values))))
    K = (Q * values) @ Q.T
    return (K + K.T) / 2


SPECTRA = {
    "decaying": 0.9 ** np.arange(400.0),
    "six copies on top": np.concatenate([np.full(6, 2.0), 0.95 ** np.arange(394.0)]),
    "copies just above the last": np.concatenate([[1.0], np.full(4, 0.97), [0.96], 0.95 ** np.arange(1.0, 395.0)]),
    "all alike": np.ones(400),
    "nothing": np.zeros(400),
    "rank two": np.concatenate([[2.0, 1.0], np.zeros(398)]),
    "indefinite": np.concatenate([0.9 ** np.arange(200.0), -3.0 * 0.9 ** np.arange(200.0)]),
}


@pytest.mark.parametrize("k", [1, 4, 9, 12, 60, 400])
@pytest.mark.parametrize("name", SPECTRA)
def test_the_largest_by_value(name, k):
    """k < 10 goes to ARPACK, which may pass over copies; k = 12 to bisection, k = 60 and 400 to divide and conquer."""
    B = matrix(SPECTRA[name])
    found = largest_eigenpairs(B.copy(), k)
    top = max(np.abs(SPECTRA[name]).max(), 1.0)
    np.testing.assert_allclose(found.values, np.sort(SPECTRA[name])[::-1][:k], atol=1e-10 * top)
    np.testing.assert_allclose(B @ found.vectors, found.vectors * found.values, atol=1e-9 * top)
    np.testing.assert_allclose(found.vectors.T @ found.vectors, np.eye(k), atol=1e-10)


@pytest.mark.parametrize("k", [3, 12])
def test_where_bisection_returns_nothing(k):
    n = 350
    B = np.eye(n) - 1.0 / n
    found = largest_eigenpairs(B.copy(), k)
    np.testing.assert_allclose(found.values, np.ones(k), atol=1e-12)
    np.testing.assert_allclose(B @ found.vectors, found.vectors, atol=1e-10)


def test_mean_of_rows_is_exact_for_equal_rows_and_keeps_digits():
    row = np.array([0.1, 0.3, 1e5 + 0.1])
    np.testing.assert_array_equal(mean_of_rows(np.tile(row, (777, 1))), row)
    X = np.random.default_rng(0).standard_normal((9000, 3)) + 1e8
    weights = np.random.default_rng(1).uniform(0.5, 2.0, 9000)
    exact = np.average(X.astype(np.longdouble), axis=0, weights=weights).astype(np.float64)
    np.testing.assert_allclose(mean_of_rows(X, weights), exact, rtol=1e-15)


def test_routes():
    def plenty():
        return 2**40

    assert kernel_route(100, 2, "auto", plenty).solver == "dense"
    assert kernel_route(1000, 2, "auto", plenty).solver == "dense"
    assert not exhaustive(2, 1000)
    assert kernel_route(5000, 10, "auto", plenty).solver == "krylov"
    assert kernel_route(3000, 300, "auto", plenty).solver == "dense"
    assert kernel_route(3000, 300, "auto", lambda: 2**20).solver == "krylov"  # no room for the matrix
    assert kernel_route(200, 5, "krylov", plenty).solver == "krylov"
    assert linear_route(5000, 50, 10, "auto", sparse=False).solver == "direct"
    assert linear_route(5000, 5000, 10, "auto", sparse=False).solver == "multiplied"
