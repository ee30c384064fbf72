"""Mass, mean and scatter of features: one pass over chunks, merged, weighted, forgotten."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from kpca.features import IdentityMap, Scatter, scatter_of

RNG = np.random.default_rng(0)


def obvious(F, w):
    """Weighted mean and scatter, written out."""
    mean = (w[:, None] * F).sum(axis=0) / w.sum()
    gaps = F - mean
    return mean, (w[:, None] * gaps).T @ gaps


@pytest.mark.parametrize("offset", [0.0, 1e6])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("threads", [1, 3])
def test_one_pass_finds_mean_and_scatter(dtype, offset, threads):
    F = (RNG.normal(size=(3000, 7)) + offset).astype(dtype)
    w = RNG.uniform(0.5, 2.0, size=3000)
    found = scatter_of(IdentityMap(7), F, w, threads=threads)
    mean, matrix = obvious(F.astype(np.float64), w)
    tolerance = 1e-5 if dtype == np.float32 else 1e-9 if offset else 1e-12
    np.testing.assert_allclose(found.mean, mean, rtol=1e-13, atol=1e-6 if dtype == np.float32 else 1e-13)
    np.testing.assert_allclose(found.matrix, matrix, atol=tolerance * np.trace(matrix))
    assert found.rows == 3000
    assert found.mass == pytest.approx(w.sum())


def test_bits_do_not_depend_on_the_threads(monkeypatch):
    monkeypatch.setattr("kpca.features.scatter.PIECE_NUMBERS", 2000)
    F = RNG.normal(size=(3000, 5))
    one, three = (scatter_of(IdentityMap(5), F, threads=threads) for threads in (1, 3))
    np.testing.assert_array_equal(one.matrix, three.matrix)
    np.testing.assert_array_equal(one.mean, three.mean)


@settings(max_examples=40, deadline=None)
@given(
    cuts=st.lists(st.integers(0, 60), max_size=4),
    offset=st.sampled_from([0.0, 1e3, -1e6]),
    seed=st.integers(0, 2**32 - 1),
)
def test_merged_parts_equal_the_whole(cuts, offset, seed):
    rng = np.random.default_rng(seed)
    F = rng.normal(size=(60, 4)) + offset
    w = rng.uniform(0.0, 2.0, size=60) * (rng.random(60) < 0.8)
    w[0] = 1.0
    edges = [0, *sorted(cuts), 60]
    total = Scatter.empty(4)
    for start, stop in itertools.pairwise(edges):
        total = total.merged(scatter_of(IdentityMap(4), F[start:stop], w[start:stop]))
    mean, matrix = obvious(F, w)
    np.testing.assert_allclose(total.mean, mean, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(total.matrix, matrix, atol=1e-11 * max(np.trace(matrix), 1.0) * max(abs(offset), 1.0))
    assert total.rows == np.count_nonzero(w)


def test_forgetting_is_a_change_of_weights():
    F, G = RNG.normal(size=(2, 50, 3))
    kept = scatter_of(IdentityMap(3), F).faded(0.25).merged(scatter_of(IdentityMap(3), G))
    weighted = scatter_of(IdentityMap(3), np.vstack([F, G]), np.repeat([0.25, 1.0], 50))
    np.testing.assert_allclose(kept.matrix, weighted.matrix, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(kept.mean, weighted.mean, atol=1e-13)
    assert kept.mass == pytest.approx(weighted.mass)
    assert kept.rows == 100


def test_without_centring_the_mean_stays_in():
    F = RNG.normal(size=(40, 3)) + 2.0
    found = scatter_of(IdentityMap(3), F)
    np.testing.assert_allclose(found.operator(centred=False), F.T @ F, rtol=1e-12)
    assert found.total_variance(centred=False) == pytest.approx(np.square(F).sum())
    assert found.total_variance(centred=True) == pytest.approx(np.square(F - F.mean(axis=0)).sum())


def test_sparse_rows_and_no_rows():
    S = sparse.random(200, 6, density=0.3, random_state=0, format="csr")
    found, dense = scatter_of(IdentityMap(6), S), scatter_of(IdentityMap(6), S.toarray())
    np.testing.assert_array_equal(found.matrix, dense.matrix)
    assert scatter_of(IdentityMap(6), S[:0]).rows == 0
