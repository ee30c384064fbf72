"""The Nystroem map against its formula, and the transformer against scikit-learn's contract."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel_table import tuned_kernels
from numpy.testing import assert_allclose, assert_array_equal
from reference import kernel_values, spectrum
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import kpca.features.nystroem_map as map_module
from kpca._base.errors import InputError
from kpca.features import FeatureMap, Nystroem, NystroemMap, choose_landmarks, fit_nystroem, unexplained_fraction
from kpca.gram import CrossGram
from kpca.kernels import RBF, Exponential, Laplacian, Linear, Matern, Polynomial, RationalQuadratic, Sigmoid

KERNELS = [
    *tuned_kernels("matern32", "exponential", "poly", "laplacian", "chi2").values(),
    RBF(0.3),
    RBF((0.1, 0.5, 2.0)),
    RBF(0.3) + 2.0 * Linear(),
    RBF(0.1) * RationalQuadratic(1.0, 2.0),
]
every_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=repr)


def rows(n: int, d: int, seed: int = 0) -> Any:
    return np.abs(np.random.default_rng(seed).standard_normal((n, d)))


# -- the map ----------------------------------------------------------------------------------------------------------


@every_kernel
def test_dot_products_are_the_formula(kernel: Any) -> None:
    X, Z = rows(900, 3), rows(30, 3, seed=1)
    features = NystroemMap(kernel, Z)
    F = features(X, threads=2)
    C = kernel.block(X, Z)
    truth = C @ np.linalg.pinv(kernel.block(Z, Z), rcond=1e-13, hermitian=True) @ C.T
    assert F.shape == (900, features.rank) and features.rank <= 30
    assert_allclose(F @ F.T, truth, rtol=0, atol=1e-8 * np.abs(truth).max())
    left = kernel.diagonal(X) - np.diagonal(truth)
    assert_allclose(features.unexplained(X, F), left, rtol=0, atol=1e-8 * kernel.diagonal(X).max())


@every_kernel
def test_all_rows_as_landmarks_give_the_kernel_matrix_back(kernel: Any) -> None:
    X = rows(120, 3)
    features = NystroemMap(kernel, X)
    F, K = features(X), kernel.block(X, X)
    assert_allclose(F @ F.T, K, rtol=0, atol=1e-9 * K.max())
    assert features.unexplained(X, F).max() <= 1e-9 * K.max()


@given(st.integers(0, 10_000), st.integers(1, 25), st.sampled_from(["rbf", "matern32", "poly", "laplacian"]))
def test_certificate(seed: int, rank: int, name: str) -> None:
    """0 <= sum(lambda - lambda^) <= the unexplained trace, with landmarks drawn anyhow, not only from the rows."""
    kernel = {
        "rbf": RBF(0.5),
        "matern32": Matern(1.5, 1.0),
        "poly": Polynomial(3, 0.5, 1.0),
        "laplacian": Laplacian(0.5),
    }
    X, Z = rows(40, 2, seed), 1.5 * rows(rank, 2, seed + 1)
    features = NystroemMap(kernel[name], Z)
    F = features(X)
    K = kernel_values(name, X, X, gamma=0.5)
    gaps = spectrum(K)[0] - spectrum(F @ F.T)[0]
    slack = 1e-8 * np.trace(K)
    assert features.exact
    assert gaps.min() >= -slack
    assert -slack <= gaps.sum() <= features.unexplained(X, F).sum() + slack
    assert spectrum(K - F @ F.T)[0][-1] >= -slack


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rank", [3, 200, 700])
def test_bits_repeat_whatever_the_threads(dtype: Any, rank: int) -> None:
    X = rows(1500, 3).astype(dtype)
    features = NystroemMap(RBF(5.0), X[:rank], dtype)
    assert_array_equal(features(X, threads=1), features(X, threads=3))


def test_pieces_join(monkeypatch: pytest.MonkeyPatch) -> None:
    X = rows(1000, 3)
    features = NystroemMap(RBF(1.0), X[:50])
    whole = features(X)
    monkeypatch.setattr(map_module, "_ROWS", {8: 96})
    monkeypatch.setattr(map_module, "_BYTES_AT_ONCE", 0)
    assert_allclose(features(X, threads=2), whole, rtol=0, atol=1e-9)
    assert features(X[:0]).shape == (0, features.rank)


@pytest.mark.parametrize("kernel", [RBF(1.0), Linear(), Polynomial(2, 1.0, 1.0), Exponential(1.0)], ids=repr)
def test_dependent_points_are_left_out(kernel: Any) -> None:
    X = rows(300, 3)
    Z = np.concatenate([X[:5], X[2:4], X[:5], X[7:8]])
    plain, twice = NystroemMap(kernel, X[[0, 1, 2, 3, 4, 7]]), NystroemMap(kernel, Z)
    assert twice.rank == plain.rank == len(twice.kept) == len(twice.landmarks)
    assert_array_equal(twice.landmarks, Z[twice.kept])
    assert len(np.unique(twice.landmarks, axis=0)) == twice.rank
    assert_allclose(twice(X) @ twice(X).T, plain(X) @ plain(X).T, rtol=0, atol=1e-9 * kernel.diagonal(X).max())


def test_nearly_equal_points_do_no_harm() -> None:
    X = rows(300, 2)
    Z = np.concatenate([X[:20] + 1e-9 * step for step in range(5)])
    features = NystroemMap(RBF(1.0), Z)
    F = features(X)
    K = RBF(1.0).block(X, X)
    assert np.isfinite(F).all() and features.rank < 100
    assert spectrum(K - F @ F.T)[0][-1] >= -1e-7


def test_points_of_very_different_size_all_count() -> None:
    X = rows(200, 6) * np.repeat([1e-4, 1.0, 1e4], [60, 60, 80])[:, None]
    features = NystroemMap(Linear(), X[[0, 1, 2, 70, 71, 150]])
    assert features.rank == 6
    F = features(X)
    sizes = np.linalg.norm(X, axis=1)
    assert_allclose((F @ F.T) / sizes / sizes[:, None], (X @ X.T) / sizes / sizes[:, None], rtol=0, atol=1e-6)


def test_points_with_nothing_to_say_are_refused() -> None:
    with pytest.raises(InputError, match="positive k\\(z, z\\)"):
        NystroemMap(Linear(), np.zeros((3, 2)))
    assert NystroemMap(Linear(), np.array([[0.0, 0.0], [1.0, 2.0]])).rank == 1


@pytest.mark.parametrize(("dtype", "offset", "error"), [(np.float64, 1e6, 1e-7), (np.float32, 1e3, 1e-4)])
def test_offset_changes_nothing(dtype: Any, offset: float, error: float) -> None:
    far = (rows(500, 3) + offset).astype(dtype)
    near = far.astype(np.float64) - offset  # the rows after rounding, exactly
    F = NystroemMap(RBF(0.5), far[:40], dtype)(far).astype(np.float64)
    G = NystroemMap(RBF(0.5), near[:40])(near)
    assert_allclose(F @ F.T, G @ G.T, rtol=0, atol=error)


@pytest.mark.parametrize("gamma", [1e-8, 1e-4, 1e-2, 0.1, 1.0, 100.0])
@pytest.mark.parametrize("d", [2, 20])
def test_float32_features_are_right_to_a_thousandth(gamma: float, d: int) -> None:
    X = np.random.default_rng(0).standard_normal((1000, d)).astype(np.float32)
    features = NystroemMap(RBF(gamma), X[:200], np.float32)
    F = features(X)
    assert F.dtype == np.float32
    errors = np.linalg.norm(F - features(X.astype(np.float64)), axis=1)
    assert errors.max() < 1e-3


def test_float32_is_used_only_where_it_is_enough() -> None:
    X = np.random.default_rng(0).standard_normal((600, 20)).astype(np.float32)
    assert NystroemMap(RBF(0.1), X[:200], np.float32).precision(np.float32) == np.float32
    assert NystroemMap(RBF(0.1), X[:200], np.float32).precision(np.float64) == np.float64
    assert NystroemMap(RBF(1e-4), X[:200], np.float32).precision(np.float32) == np.float64
    assert NystroemMap(Laplacian(0.1), X[:200], np.float32).precision(np.float32) == np.float64


@pytest.mark.parametrize("kernel", [RBF(0.3), Linear(), Polynomial(2, 0.5, 1.0), Laplacian(0.3)], ids=repr)
def test_csr_equals_dense(kernel: Any) -> None:
    X = rows(600, 5)
    X[X < 0.7] = 0.0
    dense = NystroemMap(kernel, X[:30])
    of_sparse = NystroemMap(kernel, sparse.csr_matrix(X[:30]))
    assert sparse.issparse(of_sparse.landmarks)
    F = dense(X)
    for other in (dense(sparse.csr_matrix(X)), of_sparse(X), of_sparse(sparse.csr_matrix(X), threads=2)):
        assert isinstance(other, np.ndarray)
        assert_allclose(other @ other.T, F @ F.T, rtol=0, atol=1e-8 * np.abs(F @ F.T).max())


def test_coefficients_turn_a_projection_into_one_product() -> None:
    X = rows(400, 3)
    features = NystroemMap(RBF(1.0), np.concatenate([X[:30], X[:3]]))
    V = np.random.default_rng(0).standard_normal((features.rank, 4))
    W = features.coefficients(V)
    cross = CrossGram(RBF(1.0), X, features.landmarks, dtype=np.dtype(np.float64))
    assert W.shape == (len(features.landmarks), 4)
    assert_allclose(cross @ W, features(X) @ V, rtol=0, atol=1e-7)


def test_unexplained_fraction_counts_all_rows_with_their_weights() -> None:
    X = rows(5000, 3)
    weights = np.random.default_rng(1).uniform(0.0, 2.0, 5000)
    features = NystroemMap(Polynomial(3, 0.5, 1.0), X[:8])
    left = features.unexplained(X, features(X))
    total = features.kernel.diagonal(X)
    assert unexplained_fraction(features, X) == pytest.approx(left.sum() / total.sum(), rel=1e-10)
    assert unexplained_fraction(features, X, weights) == pytest.approx(weights @ left / (weights @ total), rel=1e-10)
    # measured in float64 also for float32 rows
    single = unexplained_fraction(NystroemMap(RBF(1.0), X[:60], np.float64), X.astype(np.float32))
    assert single == pytest.approx(unexplained_fraction(NystroemMap(RBF(1.0), X[:60]), X), rel=1e-3)


def test_indefinite_kernel_promises_nothing() -> None:
    X = np.random.default_rng(0).standard_normal((100, 3))
    features = fit_nystroem(Sigmoid(1.0, 0.5), X, 20, "uniform")
    assert not features.exact and np.isfinite(features(X)).all()


def test_pickled_map_gives_the_same_bits() -> None:
    X = rows(300, 3)
    features: FeatureMap = NystroemMap(RBF(1.0), X[:20])
    F = features(X)
    assert_array_equal(pickle.loads(pickle.dumps(features))(X), F)
    assert len(pickle.dumps(features)) < 20 * 20 * 8 + 5000  # nothing that can be made again


def test_fit_nystroem_is_choice_and_map() -> None:
    X = rows(400, 3)
    weights = np.random.default_rng(1).uniform(0.0, 2.0, 400)
    features = fit_nystroem(RBF(1.0), X, 25, "rpcholesky", weights=weights, seed=5, threads=2)
    chosen = choose_landmarks(RBF(1.0), X, 25, weights=weights, seed=5)
    assert_array_equal(features.landmarks, chosen.points[features.kept])


# -- the transformer --------------------------------------------------------------------------------------------------

# Landmarks of rows that are repeated, or count twice, have the same law, but not the same draw.
BY_LAW = {
    name: "landmarks are drawn at random: weights and repeated rows agree in law, not draw by draw"
    for name in ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data")
}


@parametrize_with_checks(
    [
        Nystroem(rank=2),
        Nystroem(rank=0.2),
        Nystroem(rank=2, landmarks="uniform", kernel="poly"),
        Nystroem(rank=2, landmarks="kmeans"),
        Nystroem(rank=2, landmarks="leverage", kernel="matern32"),
    ],
    expected_failed_checks=lambda estimator: BY_LAW,
)
@pytest.mark.filterwarnings("ignore:.*landmarks explain all rows", "ignore:Number of distinct clusters")
def test_estimator_contract(estimator: Any, check: Any) -> None:
    check(estimator)


def test_fitted_attributes() -> None:
    X = load_iris().data
    model = Nystroem(rank=30, gamma="median").fit(X)
    F = model.transform(X)
    K = kernel_values("rbf", X, X, gamma=model.gamma_)
    assert F.shape == (150, model.rank_) and model.rank_ == 30 and model.n_features_in_ == 4
    assert_array_equal(model.landmarks_, X[model.landmark_indices_])
    assert model.unexplained_ == pytest.approx(1 - np.square(F).sum() / np.trace(K), rel=1e-6)
    assert 0 < model.unexplained_ < 0.01
    assert_array_equal(model.map_(X), F)
    assert Nystroem(rank=5, landmarks="kmeans").fit(X).landmark_indices_ is None


def test_fraction_of_the_trace() -> None:
    X = load_iris().data
    ranks = [Nystroem(rank=fraction).fit(X).rank_ for fraction in (0.1, 0.01, 0.001)]
    assert Nystroem(rank=0.01).fit(X).unexplained_ <= 0.01
    assert ranks == sorted(set(ranks))


def test_none_is_the_gaussian_kernel() -> None:
    X = load_iris().data
    assert Nystroem(5).fit(X).kernel_ == RBF(0.25)
    assert Nystroem(5, kernel="matern32", gamma=0.5).fit(X).kernel_ == Matern(1.5, 1.0)
    assert Nystroem(5, kernel=Polynomial(2, 1.0, 0.0)).fit(X).kernel_ == Polynomial(2, 1.0, 0.0)


def test_own_landmarks_and_duplicates_among_them() -> None:
    X = np.unique(load_iris().data, axis=0)
    model = Nystroem(landmarks=[7, 3, 7, 60], gamma=1.0).fit(X)
    assert sorted(model.landmark_indices_) == [3, 7, 60] and model.rank_ == 3
    points = Nystroem(landmarks=X[[7, 3, 60]], gamma=1.0).fit(X)
    assert points.landmark_indices_ is None
    assert_allclose(np.square(points.transform(X)).sum(1), np.square(model.transform(X)).sum(1), rtol=1e-10)


def test_seed_matters_and_repeats() -> None:
    X = load_iris().data
    one, same, other = (Nystroem(10, random_state=seed).fit(X).landmark_indices_ for seed in (1, 1, 2))
    assert_array_equal(one, same)
    assert not np.array_equal(one, other)
    assert_array_equal(Nystroem(10).fit(X).landmark_indices_, Nystroem(10).fit(X).landmark_indices_)


def test_rows_of_weight_zero_are_as_good_as_absent() -> None:
    X = load_iris().data
    weights = np.arange(150) % 3
    model = Nystroem(10, gamma="scale").fit(X, sample_weight=weights)
    absent = Nystroem(10, gamma="scale").fit(X[weights > 0], sample_weight=weights[weights > 0])
    assert (weights[model.landmark_indices_] > 0).all()
    assert_array_equal(model.landmarks_, absent.landmarks_)
    assert model.unexplained_ == pytest.approx(absent.unexplained_, rel=1e-9)


@pytest.mark.parametrize("form", ["float64", "float32", "csr", "csr32"])
def test_forms_of_input(form: str) -> None:
    X = load_iris().data
    dtype = np.float32 if "32" in form else np.float64
    rows_in = sparse.csr_matrix(X.astype(dtype)) if "csr" in form else X.astype(dtype)
    F = Nystroem(20, landmarks="uniform").fit_transform(rows_in)
    truth = Nystroem(20, landmarks="uniform").fit_transform(X)
    assert isinstance(F, np.ndarray) and F.dtype == dtype
    assert_allclose(F @ F.T, truth @ truth.T, rtol=0, atol=3e-4 if dtype == np.float32 else 1e-7)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_output_follows_set_output(library: str) -> None:
    frames = pytest.importorskip(library)
    frame = frames.DataFrame({name: load_iris().data[:, i] for i, name in enumerate("abcd")})
    model = Nystroem(3).set_output(transform=library)
    assert list(model.fit_transform(frame).columns) == ["nystroem0", "nystroem1", "nystroem2"]
    assert list(model.feature_names_in_) == list("abcd")


def test_clone_and_joblib(tmp_path: Path) -> None:
    X = load_iris().data
    model = Nystroem(0.01, landmarks="uniform", kernel=RBF(0.5), random_state=3).fit(X)
    joblib.dump(model, tmp_path / "model.joblib")
    assert_array_equal(joblib.load(tmp_path / "model.joblib").transform(X), model.transform(X))
    assert_array_equal(clone(model).fit(X).transform(X), model.transform(X))
    assert not hasattr(clone(model), "map_")


def test_grid_search_over_the_rank() -> None:
    X, y = load_iris(return_X_y=True)
    pipeline = make_pipeline(Nystroem(landmarks="uniform"), LogisticRegression(max_iter=1000))
    search = GridSearchCV(pipeline, {"nystroem__rank": [1, 40]}, cv=3, error_score="raise").fit(X, y)
    assert search.best_params_ == {"nystroem__rank": 40} and search.best_score_ > 0.9


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"rank": 151}, "got 151 for 150 sample"),
        ({"rank": 0}, "rank must be at least 1"),
        ({"rank": 1.5}, "between 0 and 1; got 1.5"),
        ({"landmarks": "k-mean"}, "Did you mean 'kmeans'"),
        ({"landmarks": np.zeros((3, 5))}, "4 columns of X"),
        ({"landmarks": [150]}, "between 0 and 149; got 150"),
        ({"landmarks": np.full((2, 4), np.nan)}, "must be finite"),
        ({"rank": 5, "kernel": "sigmoid"}, "positive semidefinite"),
        ({"rank": 5, "kernel": "precomputed"}, "kernel='precomputed'"),
        ({"rank": 5, "kernel": "rfb"}, "Did you mean 'rbf'"),
        ({"rank": 5, "gamma": -1.0}, "gamma"),
        ({"rank": 5, "n_jobs": 0}, "n_jobs"),
        ({"rank": 5, "kernel": "poly", "degree": 400, "gamma": 1e3}, "must be finite"),
        ({"rank": 5, "kernel": "chi2", "landmarks": -np.ones((2, 4))}, "negative"),
    ],
)
def test_bad_input_meets_one_sentence(parameters: dict[str, Any], message: str) -> None:
    model = Nystroem(**parameters)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InputError, match=message) as caught:
            model.fit(load_iris().data)
    assert "\n" not in str(caught.value) and not hasattr(model, "map_")


def test_transform_needs_a_fit_and_finite_values() -> None:
    with pytest.raises(NotFittedError):
        Nystroem().transform(load_iris().data)
    model = Nystroem(5, kernel="poly", degree=30).fit(load_iris().data)
    with pytest.raises(InputError, match="Kernel values of new rows must be finite"):
        model.transform(np.full((1, 4), 1e30))
