"""Parallel analysis: against a plain version, on planted numbers of components, on hostile data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel_table import tuned_kernels
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from scipy import sparse

from kpca import kernels
from kpca.estimators.n_components import leading_values, parallel_analysis, permuted

FloatArray = NDArray[Any]
KERNELS = tuned_kernels("linear", "rbf", "poly", "laplacian")


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


def planted(n: int, d: int, q: int, seed: int) -> FloatArray:
    """Rows of q factors of equal size: unequal ones the plain rule may miss."""
    rng = np.random.default_rng(seed)
    loadings = np.linalg.qr(rng.standard_normal((d, q)))[0].T * np.sqrt(0.6 * d)
    return rng.standard_normal((n, q)) @ loadings + 0.7 * rng.standard_normal((n, d))


@pytest.mark.parametrize("q", [1, 3])
def test_planted_factors_are_counted(q: int) -> None:
    counts = [parallel_analysis(KERNELS["linear"], planted(200, 15, q, seed), 8, seed=seed).count for seed in range(10)]
    assert counts == [q] * 10


def test_independent_columns_have_no_components() -> None:
    counts = [parallel_analysis(KERNELS["rbf"], make_data(100, 5, seed), 5, seed=seed).count for seed in range(10)]
    assert sum(counts) <= 1


def test_excess_is_what_is_above_the_null() -> None:
    X = planted(150, 10, 2, 0)
    found = parallel_analysis(KERNELS["linear"], X, 6)
    assert found.count == 2
    above = (found.values - found.null)[:2].sum() / plain_values(KERNELS["linear"], X).sum()
    assert_allclose(found.excess, above)
    assert parallel_analysis(KERNELS["linear"], make_data(100), 3).excess == 0.0


@given(seed=st.integers(0, 50), n=st.integers(3, 25), d=st.integers(1, 4), name=st.sampled_from(sorted(KERNELS)))
def test_counts_stay_within_the_rank(seed: int, n: int, d: int, name: str) -> None:
    X = np.round(np.random.default_rng(seed).standard_normal((n, d)), 1)
    found = parallel_analysis(KERNELS[name], X, 6, permutations=5, seed=seed)
    rank = int((plain_values(KERNELS[name], X) > 1e-8).sum())
    assert 0 <= found.count <= rank
    assert len(found.values) == len(found.null) == min(6, n - 1, d if name == "linear" else n)
    assert (np.diff(found.values) <= 1e-9).all()


@given(seed=st.integers(0, 30), name=st.sampled_from(sorted(KERNELS)))
def test_the_order_of_rows_does_not_matter(seed: int, name: str) -> None:
    X = make_data(30, 3, seed)
    order = np.random.default_rng(seed).permutation(30)
    here, there = (leading_values(KERNELS[name], rows, 5, center=True)[0] for rows in (X, X[order]))
    assert_allclose(here, there, atol=1e-9 * here[0])


@pytest.mark.parametrize("name", KERNELS)
def test_bits_repeat_with_any_number_of_threads(name: str) -> None:
    X = planted(150, 6, 2, 1)
    one, two = (parallel_analysis(KERNELS[name], X, 4, threads=threads) for threads in (1, 2))
    assert_array_equal(one.values, two.values)
    assert_array_equal(one.null, two.null)


def test_hostile_rows() -> None:
    X = planted(120, 6, 2, 0)
    for name in ("linear", "rbf"):
        plain = parallel_analysis(KERNELS[name], X, 4)
        for rows, tolerance in ((X + 1e6, 1e-6), (X.astype(np.float32), 1e-4)):
            other = parallel_analysis(KERNELS[name], rows, 4)
            assert_allclose(other.values, plain.values, rtol=tolerance)
            assert other.count == plain.count
        with_constant = parallel_analysis(KERNELS[name], np.column_stack([X, np.ones(120)]), 4)
        assert_allclose(with_constant.values, plain.values)
        assert parallel_analysis(KERNELS[name], sparse.csr_matrix(X), 4).count == plain.count
    assert parallel_analysis(KERNELS["rbf"], np.ones((5, 2)), 3).count == 0
    assert parallel_analysis(KERNELS["rbf"], X[:, :1], 3).count == 0  # one column has nothing to permute
    assert parallel_analysis(KERNELS["rbf"], X[:3], 9).values.shape == (2,)
    sample = X[np.sort(np.random.default_rng(0).choice(120, 40, replace=False))]
    few = parallel_analysis(KERNELS["rbf"], X, 3, max_rows=40)
    assert_array_equal(few.values, parallel_analysis(KERNELS["rbf"], sample, 3).values)
