"""The sample of a stream: the same however it is cut, rows by their weights, newer rows where older are forgotten."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression

import kpca
from kpca import IncrementalKernelPCA, InputError
from kpca.estimators.stream import Reservoir

ROWS = np.arange(10_000.0)[:, None]


def filled(cuts, size=50, weights=None, rows=ROWS, seed=0, fade=1.0):
    sample = Reservoir(size, seed)
    for part in np.split(np.arange(len(rows)), sorted(cuts)):
        sample = sample.faded(fade).added(rows[part], None if weights is None else weights[part])
    return sample


@given(st.lists(st.integers(0, 10_000), max_size=6), st.integers(1, 80))
def test_the_cut_into_batches_does_not_matter(cuts, size):
    whole, parts = filled([], size), filled(cuts, size)
    np.testing.assert_array_equal(whole.rows, parts.rows)
    assert whole.seen == parts.seen == 10_000 and len(whole.rows) == size


def test_fewer_rows_than_room_are_all_kept_in_order():
    sample = filled([3, 7], size=50, rows=ROWS[:20])
    np.testing.assert_array_equal(sample.rows, ROWS[:20])


def test_rows_come_with_a_chance_like_their_weight_and_never_with_weight_zero():
    weights = np.where(np.arange(10_000) < 5_000, 3.0, 1.0)
    weights[::10] = 0.0
    counts = np.array([(filled([], 200, weights, seed=seed).rows < 5_000).sum() for seed in range(40)])
    # 40 samples of 200: the mean of the share has a standard deviation below 0.005
    assert abs(counts.mean() / 200 - 0.75) < 0.02
    assert not (filled([], 500, weights).rows % 10 == 0).any()


def test_forgetting_prefers_new_rows():
    late = (filled(range(1000, 10_000, 1000), 200, fade=0.3).rows >= 9_000).mean()
    assert late > 0.6
    assert (filled(range(1000, 10_000, 1000), 200).rows >= 9_000).mean() < 0.2


def stream(X, cuts=5, **parameters):
    model = IncrementalKernelPCA(
        12, kernel="rbf", gamma=2.0, approximation=kpca.Nystroem(40), warm_up=150, random_state=0, **parameters
    )
    for batch in np.array_split(X, cuts):
        model.partial_fit(batch)
    return model


@pytest.fixture(scope="module")
def curve():
    rng = np.random.default_rng(0)
    angle = rng.uniform(0, 2 * np.pi, 600)
    return np.column_stack([np.cos(angle), np.sin(angle), np.cos(2 * angle)])


@pytest.mark.parametrize("method", ["auto", "ridge", "fixed-point", "distance", "gradient", LinearRegression()])
def test_a_stream_finds_its_way_back(curve, method):
    noisy = curve[:60] + 0.15 * np.random.default_rng(1).normal(size=(60, 3))
    model = stream(curve, preimage=method)
    found = model.denoise(noisy)
    assert found.shape == (60, 3) and np.isfinite(found).all()
    if not isinstance(method, LinearRegression):
        assert np.square(found - curve[:60]).mean() < 0.6 * np.square(noisy - curve[:60]).mean()
    assert model.inverse_transform(model.transform(noisy)).shape == (60, 3)
    assert model.preimage_report_.rows == 60
    # a new batch makes a new way back
    assert model.partial_fit(curve[:50]).preimage_report_.rows == 0


def test_the_linear_kernel_of_a_stream_leads_back_exactly(curve):
    model = IncrementalKernelPCA(2)
    for batch in np.array_split(curve + 100.0, 4):
        model.partial_fit(batch)
    truth = PCA(2).fit(curve + 100.0)
    np.testing.assert_allclose(
        model.inverse_transform(model.transform(curve)), truth.inverse_transform(truth.transform(curve)), atol=1e-9
    )
    assert "exactly" in str(model.preimage_report_)


def test_without_preimage_a_stream_says_what_to_set(curve):
    with pytest.raises(NotFittedError, match=r"^denoise needs IncrementalKernelPCA\(preimage='auto'\): set it and fit"):
        stream(curve).denoise(curve)


def test_sparse_batches_have_no_way_back(curve):
    with pytest.raises(InputError, match="needs dense rows"):
        IncrementalKernelPCA(2, kernel="rbf", approximation=kpca.Nystroem(20), warm_up=30, preimage="auto").fit(
            sparse.csr_matrix(curve)
        )


def test_a_killed_stream_goes_on_with_the_same_sample(curve, tmp_path):
    batches = np.array_split(curve, 6)
    settings = dict(kernel="rbf", gamma=2.0, approximation=kpca.Nystroem(40), warm_up=150, random_state=0)
    whole = IncrementalKernelPCA(6, preimage="fixed-point", **settings)
    for batch in batches:
        whole.partial_fit(batch)
    with kpca.config(checkpoint=str(tmp_path / "stream")):
        killed = IncrementalKernelPCA(6, preimage="fixed-point", **settings)
        for batch in batches[:4]:
            killed.partial_fit(batch)
        resumed = IncrementalKernelPCA(6, preimage="fixed-point", **settings)
        for batch in batches:
            resumed.partial_fit(batch)
    np.testing.assert_array_equal(resumed._ready.sample.rows, whole._ready.sample.rows)
    np.testing.assert_array_equal(resumed.denoise(curve[:20]), whole.denoise(curve[:20]))


def test_a_compressed_model_leads_back_by_its_landmarks(curve):
    model = kpca.KernelPCA(12, kernel="rbf", gamma=2.0, preimage="fixed-point").fit(curve)
    small = kpca.compress(model, 60)
    noisy = curve[:40] + 0.1
    assert small._back.way.expansion.rows.shape == (60, 3)
    np.testing.assert_allclose(small.denoise(noisy), model.denoise(noisy), atol=0.05)
