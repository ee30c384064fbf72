"""The elbow of planted spectra, against the likelihood written out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.stats import norm

from kpca.estimators.n_components import elbow


@pytest.mark.parametrize("q", [1, 2, 5, 9])
def test_planted_groups(q: int) -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        values = np.concatenate([10 + rng.standard_normal(q), 1 + 0.3 * rng.standard_normal(30)])
        assert elbow(values)[0] == q


def test_likelihood_is_that_of_two_normal_laws() -> None:
    v = np.sort(np.random.default_rng(0).exponential(size=12))[::-1]
    _, likelihood = elbow(v)
    scaled = v / v[0]
    for q in range(1, 12):
        head, tail = scaled[:q], scaled[q:]
        deviation = np.concatenate([head - head.mean(), tail - tail.mean()])
        spread = np.sqrt((deviation**2).sum() / 10)
        assert_allclose(likelihood[q - 1], norm.logpdf(deviation, scale=spread).sum(), rtol=1e-9)


@given(st.lists(st.floats(0, 1e6), min_size=0, max_size=20), st.floats(1e-3, 1e3))
def test_within_the_list_and_without_a_unit(values: list[float], scale: float) -> None:
    v = np.array(values)
    count, likelihood = elbow(v)
    assert 0 <= count <= len(v)
    assert len(likelihood) == max(len(v) - 1, 0)
    assert not np.isnan(likelihood).any()
    if len(v) > 2 and np.unique(v).size == len(v) and np.diff(np.sort(v)).min() > 1e-3 * v.max():
        assert elbow(scale * v)[0] == count


def test_short_and_equal_lists() -> None:
    assert elbow(np.array([]))[0] == 0
    assert elbow(np.array([3.0, 1.0]))[0] == 2
    assert elbow(np.array([5.0, 5.0, 1.0, 1.0, 1.0]))[0] == 2
    assert elbow(np.zeros(4))[0] >= 1
