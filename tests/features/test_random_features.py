"""RandomFeatures: scikit-learn's contract around the features."""

from __future__ import annotations

import pickle
from typing import Any

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits, make_circles
from sklearn.gaussian_process import kernels as gp
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import kpca
from kpca import kernels as ours
from kpca._base.errors import InputError
from kpca.features import RandomFeatures, fit_random

X = load_digits().data[:400] / 16


@parametrize_with_checks([RandomFeatures(rank=6), RandomFeatures(rank=7, structure="hadamard", kernel="matern32")])
def test_scikit_learns_checks(estimator: Any, check: Any) -> None:
    check(estimator)


def test_alone_the_kernel_is_gaussian() -> None:
    model = RandomFeatures(rank=4000, gamma="median").fit(X)
    K = ours.RBF(ours.resolve_gamma("median", X)).block(X, X)
    F = model.transform(X)
    assert model.kernel_ == ours.RBF(model.gamma_)
    assert model.rank_ == 4000 == F.shape[1]
    gap = F @ F.T - K
    assert np.abs(gap).max() < 0.1
    off = gap[~np.eye(len(X), dtype=bool)]
    assert_allclose(model.kernel_error_.rms, np.sqrt(np.mean(off**2)), rtol=0.2)
    assert model.kernel_error_.label == "estimate"


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        ("poly", ours.Polynomial(2, 0.1, 0.5)),
        ("laplacian", ours.Laplacian(0.1)),
        ("arc_cosine1", ours.ArcCosine(1)),
        (ours.Matern(2.5, 3.0), ours.Matern(2.5, 3.0)),
        (gp.RBF(2.0), ours.RBF(0.125)),
    ],
)
def test_kernels(kernel: Any, expected: Any) -> None:
    model = RandomFeatures(rank=30, kernel=kernel, gamma=0.1, degree=2, coef0=0.5).fit(X)
    assert model.kernel_ == expected
    assert_array_equal(model.transform(X), fit_random(expected, X, 30)(X))


def test_gamma_per_feature() -> None:
    gamma = np.linspace(0.01, 0.1, X.shape[1])
    model = RandomFeatures(rank=50, gamma=gamma).fit(X)
    assert_allclose(model.kernel_.gamma, gamma)


def test_dtype_and_sparsity() -> None:
    model = RandomFeatures(rank=50, gamma=0.1).fit(X.astype(np.float32))
    single = model.transform(X.astype(np.float32))
    assert single.dtype == np.float32
    assert model.transform(X).dtype == np.float64
    assert_allclose(single, model.transform(X), atol=1e-5)
    assert_allclose(model.transform(sparse.csr_matrix(X)), model.transform(X), atol=1e-12)
    rows = sparse.csr_array(X)
    assert_allclose(RandomFeatures(rank=50, gamma=0.1).fit(rows).transform(rows), model.transform(X), atol=1e-5)


def test_seeds_threads_copies() -> None:
    model = RandomFeatures(rank=40, random_state=3)
    F = model.fit_transform(X)
    assert_array_equal(clone(model).fit(X).transform(X), F)
    assert_array_equal(clone(model).set_params(n_jobs=2).fit(X).transform(X), F)
    assert_array_equal(pickle.loads(pickle.dumps(model)).transform(X), F)
    assert not np.allclose(clone(model).set_params(random_state=4).fit_transform(X), F)
    unseeded = RandomFeatures(rank=40)
    assert_array_equal(unseeded.fit_transform(X), clone(unseeded).fit_transform(X))
    with kpca.config(threads=2):
        assert_array_equal(clone(model).fit_transform(X), F)


def test_joblib(tmp_path: Any) -> None:
    model = RandomFeatures(rank=40, kernel="poly").fit(X)
    joblib.dump(model, tmp_path / "model")
    assert_array_equal(joblib.load(tmp_path / "model").transform(X), model.transform(X))


def test_frames() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X[:, :3], columns=["a", "b", "c"])
    model = RandomFeatures(rank=4).set_output(transform="pandas").fit(frame)
    assert list(model.transform(frame).columns) == [f"randomfeatures{i}" for i in range(4)]
    assert list(model.feature_names_in_) == ["a", "b", "c"]


def test_a_linear_model_of_them_is_a_kernel_model() -> None:
    circles, label = make_circles(400, factor=0.4, noise=0.05, random_state=0)
    pipeline = make_pipeline(RandomFeatures(gamma=2.0), LogisticRegression())
    search = GridSearchCV(pipeline, {"randomfeatures__rank": [1, 100]}, cv=3).fit(circles, label)
    assert search.best_params_ == {"randomfeatures__rank": 100}
    assert search.best_score_ > 0.98


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"rank": 0}, "rank must be a whole number"),
        ({"rank": "many"}, "rank must be a whole number"),
        ({"structure": "Orthogonal"}, "structure must be one of"),
        ({"kernel": "chi2"}, "Random features exist for the kernels"),
        ({"kernel": "precomputed"}, "kernel must be one of"),
        ({"gamma": -1.0}, "gamma must be positive"),
        ({"n_jobs": 0}, "n_jobs must be None"),
    ],
)
def test_refusals(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        RandomFeatures(**{"rank": 10, **parameters}).fit(X)


def test_features_too_large_are_refused() -> None:
    model = RandomFeatures(rank=10, kernel="poly", degree=9).fit(X.astype(np.float32))
    with pytest.raises(InputError, match="Features must be finite; some are NaN or too large: scale the data"):
        model.transform((X * 1e10).astype(np.float32))
    with pytest.raises(InputError, match="Features must be finite"):
        model.fit((X * 1e10).astype(np.float32))


def test_a_refused_fit_changes_nothing() -> None:
    model = RandomFeatures(rank=10).fit(X)
    before = model.transform(X)
    with pytest.raises(InputError):
        model.set_params(kernel="chi2").fit(X[:, :5])
    assert_array_equal(model.transform(X), before)
