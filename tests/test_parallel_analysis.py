"""Parallel analysis: against a plain version, on planted numbers of components, on hostile data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from scipy import sparse

from kpca import kernels
from kpca.parallel_analysis import leading_values, parallel_analysis, permuted

FloatArray = NDArray[Any]
KERNELS = {
    "linear": kernels.Linear(),
    "rbf": kernels.RBF(0.1),
    "poly": kernels.Polynomial(2, 0.1, 1.0),
    "laplacian": kernels.Laplacian(0.1),
}


def make_data(n: int = 80, d: int = 5, seed: int = 0) -> FloatArray:
    return np.random.default_rng(seed).standard_normal((n, d)) * 2.0 * 0.6 ** np.arange(d)


def plain_values(kernel: kernels.Kernel, X: FloatArray, *, center: bool = True) -> FloatArray:
    K = kernel.block(X, X)
    H = np.eye(len(X)) - 1.0 / len(X) if center else np.eye(len(X))
    return np.linalg.eigvalsh(H @ K @ H)[::-1]


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("n", [60, 800])
@pytest.mark.parametrize("name", KERNELS)
def test_values_are_those_of_the_kernel_matrix(name: str, n: int, center: bool) -> None:
    X = make_data(n)
    values, trace = leading_values(KERNELS[name], X, 5, center=center)
    truth = plain_values(KERNELS[name], X, center=center)
    assert_allclose(values, truth[:5], rtol=0, atol=1e-5 * truth[0])
    assert_allclose(trace, truth.sum())


@pytest.mark.parametrize("name", KERNELS)
def test_null_is_the_quantile_of_permuted_columns(name: str) -> None:
    X = make_data()
    found = parallel_analysis(KERNELS[name], X, 4, permutations=5, quantile=0.8, seed=3)
    drawn = []
    for number in range(5):
        rng = np.random.default_rng([3, number])
        drawn.append(plain_values(KERNELS[name], permuted(X, rng))[:4])
    assert_allclose(found.values, plain_values(KERNELS[name], X)[:4])
    assert_allclose(found.null, np.quantile(drawn, 0.8, axis=0))


@given(seed=st.integers(0, 99), n=st.integers(1, 40), d=st.integers(1, 6), density=st.floats(0, 1))
def test_permuting_keeps_the_columns(seed: int, n: int, d: int, density: float) -> None:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < density)
    for rows in (X, sparse.csr_matrix(X)):
        moved = permuted(rows, np.random.default_rng(seed))
        dense = moved.toarray() if sparse.issparse(moved) else moved
        assert sparse.issparse(moved) == sparse.issparse(rows)
        assert_array_equal(np.sort(dense, axis=0), np.sort(X, axis=0))


@pytest.mark.parametrize("entries", [2, 5])
def test_sparse_columns_go_to_all_places_alike(entries: int) -> None:
    X = sparse.csr_matrix(np.arange(8)[:, None] < entries, dtype=float)
    rng = np.random.default_rng(0)
    visits = sum(permuted(X, rng).toarray()[:, 0] for _ in range(2000))
    assert_allclose(visits, 2000 * entries / 8, rtol=0.12)
