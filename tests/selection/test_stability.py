"""Bootstrap stability: against a plain bootstrap with repeated rows, on planted structure, on hostile data."""

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
from scipy.linalg import subspace_angles

from kpca import KernelPCA, kernels
from kpca.selection.stability import Stability, _draw, bootstrap_stability

FloatArray = NDArray[Any]
KERNELS = tuned_kernels("linear", "rbf", "poly", "laplacian")


def make_data(n: int = 80, d: int = 5, seed: int = 0) -> FloatArray:
    return np.random.default_rng(seed).standard_normal((n, d)) * 2.0 * 0.6 ** np.arange(d)


def plain_bootstrap(kernel: kernels.Kernel, X: FloatArray, k: int, resamples: int) -> Stability:
    """The same from rows that are really repeated, refitted and transformed."""
    n = len(X)
    whole = KernelPCA(k, kernel=kernel).fit_transform(X)
    components, subspaces = np.zeros((2, resamples, k))
    for number in range(resamples):
        counts = _draw(n, np.random.default_rng([0, number])).astype(int)
        scores = KernelPCA(k, kernel=kernel).fit(np.repeat(X, counts, axis=0)).transform(X)
        scores -= scores.mean(axis=0)
        for j in range(k):
            components[number, j] = np.corrcoef(whole[:, j], scores[:, j])[0, 1] ** 2
            angles = subspace_angles(whole[:, : j + 1], scores[:, : j + 1])
            subspaces[number, j] = np.mean(np.cos(angles) ** 2)
    return Stability(components.mean(axis=0), subspaces.mean(axis=0), resamples)


@pytest.mark.parametrize("name", KERNELS)
def test_equals_a_bootstrap_with_repeated_rows(name: str) -> None:
    X = make_data()
    found = bootstrap_stability(KERNELS[name], X, 4, resamples=3)
    truth = plain_bootstrap(KERNELS[name], X, 4, 3)
    assert_allclose(found.components, truth.components, atol=1e-7)
    assert_allclose(found.subspaces, truth.subspaces, atol=1e-7)
    assert found.resamples == 3


def test_what_is_planted_is_stable_and_noise_is_not() -> None:
    rng = np.random.default_rng(1)
    X = rng.standard_normal((300, 3)) * [6.0, 4.0, 2.5] @ rng.standard_normal((3, 20)) + rng.standard_normal((300, 20))
    found = bootstrap_stability(kernels.Linear(), X, 6)
    assert found.subspaces[2] > 0.97
    assert found.components[3:].max() < 0.7
    assert found.subspaces[2] > found.subspaces[3]


def test_components_that_may_change_places_share_a_stable_subspace() -> None:
    rng = np.random.default_rng(2)
    X = np.column_stack([5 * rng.standard_normal((400, 2)), rng.standard_normal((400, 4))])
    X[:, :2] = np.linalg.qr(X[:, :2] - X[:, :2].mean(axis=0))[0] * 100.0  # two equal eigenvalues
    found = bootstrap_stability(kernels.Linear(), X, 3)
    assert found.components[0] < 0.9
    assert found.subspaces[1] > 0.97


@given(seed=st.integers(0, 50), n=st.integers(3, 30), d=st.integers(1, 4), name=st.sampled_from(sorted(KERNELS)))
def test_between_0_and_1(seed: int, n: int, d: int, name: str) -> None:
    X = np.round(np.random.default_rng(seed).standard_normal((n, d)), 1)
    found = bootstrap_stability(KERNELS[name], X, 5, resamples=4, seed=seed)
    for cosines in (found.components, found.subspaces):
        assert cosines.shape == (min(5, n - 1),)
        assert ((cosines >= 0) & (cosines <= 1)).all()


@given(seed=st.integers(0, 50), n=st.integers(4, 40), offset=st.sampled_from([0.0, 1e3]))
def test_one_direction_without_noise_is_stable(seed: int, n: int, offset: float) -> None:
    rng = np.random.default_rng(seed)
    X = np.multiply.outer(rng.standard_normal(n), rng.integers(1, 5, 3).astype(float)) + offset
    found = bootstrap_stability(kernels.Linear(), X, 3, seed=seed)
    assert_allclose(found.components[0], 1.0, atol=1e-6)
    assert_allclose(found.subspaces[0], 1.0, atol=1e-6)


def test_signs_of_the_columns_change_nothing() -> None:
    X = make_data()
    there = bootstrap_stability(KERNELS["rbf"], X, 3)
    back = bootstrap_stability(KERNELS["rbf"], X * [1, -1, 1, -1, -1], 3)
    assert_allclose(there.components, back.components, atol=1e-9)


@pytest.mark.parametrize("name", KERNELS)
def test_bits_repeat_with_any_number_of_threads(name: str) -> None:
    X = make_data(150)
    one, two = (bootstrap_stability(KERNELS[name], X, 4, threads=threads) for threads in (1, 2))
    assert_array_equal(one.components, two.components)
    assert_array_equal(one.subspaces, two.subspaces)
    other = bootstrap_stability(KERNELS[name], X, 4, seed=1)
    assert (one.components != other.components).any()


def test_many_rows_are_sampled() -> None:
    X = make_data(400)
    some = X[np.sort(np.random.default_rng(0).choice(400, 50, replace=False))]
    assert_array_equal(
        bootstrap_stability(KERNELS["rbf"], X, 3, max_rows=50).components,
        bootstrap_stability(KERNELS["rbf"], some, 3).components,
    )


def test_hostile_rows() -> None:
    X = make_data(60)
    plain = bootstrap_stability(KERNELS["linear"], X, 3)
    far = bootstrap_stability(KERNELS["linear"], X + 1e6, 3)
    assert_allclose(far.components, plain.components, atol=1e-6)
    for dense, tolerance in ((X.astype(np.float32), 1e-4), (sparse.csr_matrix(X), 1e-9)):
        for name in ("linear", "rbf"):
            other = bootstrap_stability(KERNELS[name], dense, 3)
            assert_allclose(other.components, bootstrap_stability(KERNELS[name], X, 3).components, atol=tolerance)
    alike = bootstrap_stability(KERNELS["rbf"], np.ones((5, 2)), 2)
    assert_array_equal(alike.components, 0.0)
    assert bootstrap_stability(KERNELS["rbf"], X[:3], 5).components.shape == (2,)
    moments = bootstrap_stability(KERNELS["poly"], X + 3.0, 3, center=False)
    assert moments.components[0] > 0.99  # the mean itself


def test_components_beyond_the_rank_are_not_stable() -> None:
    X = np.repeat([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]], 10, axis=0)
    found = bootstrap_stability(KERNELS["rbf"], X, 4)
    assert found.subspaces[1] > 0.999
    assert_array_equal(found.components[2:], 0.0)
    assert found.subspaces[3] > 0.999  # the same span as that of two
