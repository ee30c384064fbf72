"""gamma: the rules, the numbers, the refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.spatial.distance import pdist
from sklearn.svm import SVC

from kpca._base.errors import InputError
from kpca.kernels import resolve_gamma

X = np.random.default_rng(0).normal(size=(30, 4))


def test_none_is_one_over_features() -> None:
    assert resolve_gamma(None, X) == 0.25


def test_scale_is_scikit_learns() -> None:
    model = SVC(gamma="scale").fit(X, X[:, 0] > 0)
    assert_allclose(resolve_gamma("scale", X), model._gamma)
    assert_allclose(resolve_gamma("scale", X.astype(np.float32)), model._gamma, rtol=1e-6)


@settings(max_examples=30, deadline=None)
@given(n=st.integers(1, 20), d=st.integers(1, 6), seed=st.integers(0, 1000), power=st.integers(-3, 3))
def test_sparse_gives_what_dense_gives(n: int, d: int, seed: int, power: int) -> None:
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.5) * 10.0**power
    for rule in ("scale", "median"):
        assert_allclose(resolve_gamma(rule, sparse.csr_array(A)), resolve_gamma(rule, A), rtol=1e-9)


def test_sparse_with_duplicates_counts_them_once() -> None:
    A = sparse.csr_array((np.array([1.0, 2.0]), np.array([0, 0]), np.array([0, 2, 2])), shape=(2, 2))
    assert_allclose(resolve_gamma("scale", A), resolve_gamma("scale", A.toarray()))
    assert A.nnz == 2


def test_median() -> None:
    assert_allclose(resolve_gamma("median", X), 0.5 / np.median(pdist(X)) ** 2)
    assert_allclose(resolve_gamma("median", X + 1e6), resolve_gamma("median", X), rtol=1e-6)


def test_median_of_a_fixed_sample() -> None:
    many = np.random.default_rng(1).normal(size=(3000, 2))
    first = resolve_gamma("median", many)
    np.random.seed(5)  # noqa: NPY002 - the global state must not matter
    assert resolve_gamma("median", many) == first
    assert_allclose(first, 0.5 / np.median(pdist(many)) ** 2, rtol=0.1)


def test_median_with_many_ties() -> None:
    tied = np.zeros((20, 2))
    tied[0] = [3.0, 4.0]
    assert_allclose(resolve_gamma("median", tied), 0.5 / 25)


@pytest.mark.parametrize("rule", ["scale", "median"])
@pytest.mark.parametrize("constant", [np.zeros((5, 2)), np.full((10, 3), 0.1), np.full((7, 3), 0.1, dtype=np.float32)])
def test_data_without_spread_gives_one(rule: str, constant: Any) -> None:
    assert resolve_gamma(rule, constant) == 1.0
    assert resolve_gamma(rule, sparse.csr_array(constant)) == 1.0


def test_one_row_gives_one() -> None:
    assert resolve_gamma("median", X[:1]) == 1.0


@pytest.mark.parametrize("number", [2, 2.0, np.float32(2), np.int64(2), np.array(2.0)])
def test_numbers_stay(number: Any) -> None:
    gamma = resolve_gamma(number, X)
    assert gamma == 2.0
    assert type(gamma) is float


@pytest.mark.parametrize("sequence", [[1, 2, 3, 4], (1.0, 2.0, 3.0, 4.0), np.arange(1, 5)])
def test_one_per_feature(sequence: Any) -> None:
    gamma = resolve_gamma(sequence, X)
    assert isinstance(gamma, np.ndarray)
    assert gamma.dtype == np.float64
    assert_array_equal(gamma, [1, 2, 3, 4])


@pytest.mark.parametrize(
    ("gamma", "message"),
    [
        (0, "gamma must be positive; got 0"),
        (0.0, "gamma must be positive; got 0.0"),
        (-1.0, "gamma must be positive; got -1.0"),
        (float("nan"), "gamma must be a finite number; got nan"),
        (float("inf"), "gamma must be a finite number; got inf"),
        (True, "gamma must be a finite number; got True"),
        (1j, "gamma must be a positive number, one per feature, None, 'scale' or 'median'; got 1j"),
        ({"a": 1}, "gamma must be a positive number, one per feature, None, 'scale' or 'median'; got {'a': 1}"),
        ("medain", "or 'median'; got 'medain'. Did you mean 'median'?"),
        ("auto", "or 'median'; got 'auto'"),
        ([1.0, 2.0], "gamma must be one number or one per feature; got 2 values for 4 features"),
        ([1.0, 0.0, 1.0, 1.0], r"gamma\[1\] must be positive; got 0.0"),
        ([1.0, 1.0, float("nan"), 1.0], r"gamma\[2\] must be a finite number; got nan"),
        ([1.0, "a", 1.0, 1.0], r"gamma\[1\] must be a finite number; got 'a'"),
        ([], "gamma must be a number or one per feature; got an empty sequence"),
        (np.ones((2, 2)), r"gamma must be a number or one per feature; got an array of shape \(2, 2\)"),
    ],
)
def test_refusals(gamma: Any, message: str) -> None:
    with pytest.raises(InputError, match=message.replace("?", r"\?")):
        resolve_gamma(gamma, X)


@pytest.mark.parametrize("rule", ["scale", "median"])
@pytest.mark.parametrize("scale", [1e-160, 1e160])
def test_spreads_out_of_range_say_so(rule: str, scale: float) -> None:
    with pytest.raises(InputError, match=f"gamma='{rule}' must find a finite bandwidth; .*: rescale X"):
        resolve_gamma(rule, X * scale)
