"""KernelPCA(approximation=...): the attributes of an exact fit, with certificates; and compressed models."""

import joblib
import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import kpca
from kpca import InputError, KernelPCA, Nystroem, RandomFeatures

RNG = np.random.default_rng(0)
X = np.vstack([RNG.normal(size=(200, 5)), RNG.normal(size=(150, 5)) + 3.0, RNG.normal(size=(50, 5)) * 0.1 - 2.0])
NEW = RNG.normal(size=(30, 5))
APPROXIMATIONS = [
    "nystroem",
    "rff",
    Nystroem(80),
    Nystroem(0.05),
    Nystroem(40, landmarks="kmeans"),
    RandomFeatures(300),
]


def exact(name, rows, k, weights=None, **parameters):
    K = reference.kernel_values(name, rows, rows, **parameters)
    return reference.spectrum(reference.centred(K, weights))[0][:k]


@pytest.mark.parametrize("approximation", APPROXIMATIONS, ids=str)
def test_has_the_attributes_of_an_exact_fit(approximation):
    model = KernelPCA(
        3, kernel="rbf", gamma=0.1, approximation=approximation, fit_inverse_transform=True, random_state=0
    )
    scores = model.fit_transform(X)
    exactly = KernelPCA(3, kernel="rbf", gamma=0.1, fit_inverse_transform=True).fit(X)
    for name, value in vars(exactly).items():
        if name.endswith("_") and name not in ("X_fit_", "dual_coef_", "X_transformed_fit_"):
            ours = getattr(model, name)
            assert np.shape(ours) == np.shape(value), name
    np.testing.assert_allclose(model.transform(X), scores, atol=1e-8)
    np.testing.assert_allclose(scores.T @ scores, np.diag(model.eigenvalues_), atol=1e-8 * model.eigenvalues_[0])
    np.testing.assert_allclose(scores.mean(axis=0), 0.0, atol=1e-10)
    tolerance = 0.3 if "andom" in str(approximation) or approximation == "rff" else 0.1
    np.testing.assert_allclose(model.eigenvalues_, exactly.eigenvalues_, rtol=tolerance)
    assert (model.eigenvalue_bounds_[:, 0] <= exactly.eigenvalues_).all()
    assert (exactly.eigenvalues_ <= model.eigenvalue_bounds_[:, 1]).all()
    assert model.inverse_transform(scores).shape == X.shape
    assert np.abs(scores[np.argmax(np.abs(scores), axis=0), range(3)] - np.abs(scores).max(axis=0)).max() == 0.0


@settings(max_examples=25, deadline=None)
@given(
    kernel=st.sampled_from(["rbf", "poly", "laplacian", "matern32", "chi2"]),
    rank=st.integers(2, 30),
    method=st.sampled_from(["rpcholesky", "uniform", "kmeans", "leverage"]),
    log_gamma=st.floats(-4, 3),
    repeats=st.integers(1, 3),
    weighted=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
@pytest.mark.filterwarnings("ignore")
def test_certificate_contains_the_truth(kernel, rank, method, log_gamma, repeats, weighted, seed):
    rng = np.random.default_rng(seed)
    rows = np.repeat(np.abs(rng.normal(size=(40 // repeats, 3))), repeats, axis=0)
    weights = rng.uniform(0.5, 2.0, size=len(rows)) if weighted else None
    gamma = 10.0**log_gamma
    model = KernelPCA(
        2, kernel=kernel, gamma=gamma, approximation=Nystroem(rank, landmarks=method), random_state=seed % 97
    )
    model.fit(rows, sample_weight=weights)
    values = exact(kernel, rows, 2, weights, gamma=gamma)
    slack = 1e-9 * max(values[0], 1e-12)
    assert (model.eigenvalue_bounds_[:, 0] <= values + slack).all()
    assert (values <= model.eigenvalue_bounds_[:, 1] + slack).all()


def test_the_error_of_a_kernel_of_unknown_kind_is_measured():
    def tanh(A, B):
        return np.tanh(0.3 * A @ B.T + 0.5)  # indefinite

    def bell(A, B):
        return np.exp(-0.1 * ((A[:, None] - B[None]) ** 2).sum(axis=2))  # not, but nobody knows

    for function in (tanh, bell):
        model = KernelPCA(3, kernel=function, approximation=Nystroem(12, landmarks="uniform"), random_state=0).fit(X)
        values = reference.spectrum(reference.centred(function(X, X)))[0][:3]
        assert (model.eigenvalue_bounds_[:, 0] <= values).all()
        assert (values <= model.eigenvalue_bounds_[:, 1]).all()
        assert (model.eigenvalue_bounds_[:, 1] > model.eigenvalues_ * 1.001).all()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("approximation", ["nystroem", "rff", Nystroem(5)], ids=str)
def test_data_without_variance_has_components_without_it(approximation):
    model = KernelPCA(3, kernel="rbf", approximation=approximation)
    assert not model.fit(np.ones((40, 2))).eigenvalues_.any()
    assert not model.transform(np.ones((4, 2))).any()
    few = KernelPCA(3, kernel="rbf", approximation=approximation).fit(np.repeat(X[:2], 20, axis=0))
    exactly = KernelPCA(3, kernel="rbf").fit(np.repeat(X[:2], 20, axis=0))
    tolerance = 0.2 if approximation == "rff" else 1e-9
    np.testing.assert_allclose(few.eigenvalues_, exactly.eigenvalues_, rtol=tolerance, atol=1e-10)


FLAT = {
    "three different rows": np.repeat(X[:3], 100, axis=0),
    "rows that are all alike": np.full((300, 5), 1.7),
    "zeros": np.zeros((300, 5)),
    "a line": np.outer(X[:300, 0], [1.0, -2.0, 0.5, 3.0]),
    "fewer columns than components": X[:, :3],
}
WAYS = {
    "landmarks": KernelPCA(6, approximation=Nystroem(20)),
    "uncentred": KernelPCA(6, approximation="nystroem", center=False),
    "random features": KernelPCA(6, approximation="rff"),
    "stream": kpca.IncrementalKernelPCA(6, approximation=Nystroem(20)),
    "stream of random features": kpca.IncrementalKernelPCA(6, approximation=RandomFeatures(40)),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", "laplacian"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("rows", FLAT)
@pytest.mark.parametrize("way", WAYS)
def test_a_component_without_variance_scores_zero(way, rows, dtype, kernel, tmp_path):
    data = FLAT[rows].astype(dtype)
    new = 2 * NEW[:, : data.shape[1]].astype(dtype)
    model = clone(WAYS[way]).set_params(kernel=kernel).fit(data)
    none = model.eigenvalues_ == 0
    approximate = kernel != "linear" or not isinstance(model, KernelPCA)
    if approximate and (kernel == "linear" or "rows" in rows or rows == "zeros"):  # where the rank of K is clear
        K = reference.kernel_values(kernel, data, data, gamma=1 / data.shape[1])
        K = reference.centred(K) if model.center else K
        rank = np.linalg.matrix_rank(K, tol=1e-4 * max(np.trace(K), 1e-9))
        np.testing.assert_array_equal(none, np.arange(len(none)) >= rank)
    kpca.save(model, tmp_path / "model.kpca")
    for one in (model, kpca.load(tmp_path / "model.kpca")):
        np.testing.assert_array_equal(one.transform(new)[:, none], 0.0)
        np.testing.assert_array_equal(one.transform(data)[:, none], 0.0)
    if getattr(model, "solver_", "") == "nystroem":
        np.testing.assert_array_equal(kpca.compress(model, 1).transform(new)[:, none], 0.0)


def test_directions_without_variance_do_not_drift():
    model = kpca.IncrementalKernelPCA(4)
    for batch in np.split(X[:300, :2], 3):
        model.partial_fit(batch @ [[1.0, 0, 0, 0], [0, 3.0, 0, 0]])
    assert np.count_nonzero(model.eigenvalues_) == 2
    assert model.drift_ < 1e-10
    assert np.isnan(kpca.IncrementalKernelPCA(2).partial_fit(X[:1]).partial_fit(X).drift_)  # nothing to turn from


def test_whole_number_weights_are_repeated_rows():
    w = RNG.integers(0, 3, size=len(X))
    settings = {"kernel": "rbf", "gamma": 0.1, "approximation": Nystroem(50, landmarks=X[:50])}
    weighted = KernelPCA(3, **settings).fit(X, sample_weight=w)
    repeated = KernelPCA(3, **settings).fit(np.repeat(X, w, axis=0))
    np.testing.assert_allclose(weighted.eigenvalues_, repeated.eigenvalues_, rtol=1e-9)
    np.testing.assert_allclose(weighted.transform(NEW), repeated.transform(NEW), atol=1e-7)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_wide_and_narrow_bandwidths_in_both_precisions(dtype, scale):
    rows = X.astype(dtype)
    model = KernelPCA(3, kernel="rbf", gamma=0.1 * scale, approximation=Nystroem(100, landmarks=np.arange(100))).fit(
        rows
    )
    K = reference.kernel_values("rbf", rows, rows[:100], gamma=0.1 * scale)
    F = K @ np.linalg.pinv(np.linalg.cholesky(K[:100] + 1e-14 * np.eye(100))).T
    values = np.linalg.eigvalsh(np.cov(F.T, bias=True) * len(rows))[::-1][:3]
    np.testing.assert_allclose(model.eigenvalues_, values, rtol=1e-3 if dtype == np.float32 else 1e-7)
    assert model.transform(NEW.astype(dtype)).dtype == dtype
    np.testing.assert_allclose(
        model.transform(rows[:50]), model.fit_transform(rows)[:50], atol=1e-4 * np.sqrt(values[0] / len(rows))
    )


def test_sparse_rows():
    S = sparse.random(300, 40, density=0.1, random_state=0, format="csr")
    for approximation in (Nystroem(60, landmarks=np.arange(60)), RandomFeatures(64)):
        model = KernelPCA(3, kernel="rbf", approximation=approximation, random_state=0)
        dense = clone(model).fit(S.toarray())
        np.testing.assert_allclose(model.fit(S).eigenvalues_, dense.eigenvalues_, rtol=1e-6)
        np.testing.assert_allclose(model.transform(S[:9]), dense.transform(S.toarray()[:9]), atol=1e-6)


def test_share_of_variance_and_all_components():
    share = KernelPCA(0.5, kernel="rbf", gamma=0.1, approximation=Nystroem(100)).fit(X)
    assert share.explained_variance_ratio_.sum() >= 0.5
    assert share.explained_variance_ratio_[:-1].sum() < 0.5
    with pytest.warns(UserWarning, match="raise the rank"):
        KernelPCA(0.99, kernel="rbf", gamma=2.0, approximation=Nystroem(20)).fit(X)
    every = KernelPCA(kernel="rbf", gamma=0.1, approximation=Nystroem(20)).fit(X)
    assert every.n_components_ <= 20


def test_linear_kernel_and_auto_stay_exact():
    plain = KernelPCA(3).fit(X)
    np.testing.assert_array_equal(KernelPCA(3, approximation="nystroem").fit(X).eigenvalues_, plain.eigenvalues_)
    auto = KernelPCA(3, kernel="rbf", approximation="auto").fit(X)
    np.testing.assert_array_equal(auto.eigenvalues_, KernelPCA(3, kernel="rbf").fit(X).eigenvalues_)
    assert not hasattr(auto, "feature_map_")


def test_parameters_can_be_searched_and_models_stored(tmp_path):
    y = (X[:, 0] > 1.5).astype(int)
    pipeline = make_pipeline(KernelPCA(3, kernel="rbf", approximation=Nystroem(20)), LogisticRegression())
    search = GridSearchCV(pipeline, {"kernelpca__approximation__rank": [10, 30]}, cv=2).fit(X, y)
    assert search.best_params_["kernelpca__approximation__rank"] in (10, 30)
    for approximation in (Nystroem(20), RandomFeatures(30)):
        model = KernelPCA(2, kernel="rbf", approximation=approximation).fit(X)
        joblib.dump(model, tmp_path / "model")
        np.testing.assert_array_equal(joblib.load(tmp_path / "model").transform(NEW), model.transform(NEW))


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"approximation": "nystrom"}, "Did you mean 'nystroem'"),
        ({"approximation": 7}, "approximation must be"),
        ({"approximation": "nystroem", "kernel": "precomputed"}, "has none"),
        ({"approximation": Nystroem(500)}, "rank"),
        ({"approximation": Nystroem(2)}, "at least as many features"),
        ({"approximation": Nystroem(20, landmarks=np.zeros((3, 2)))}, "columns|features|width"),
        ({"approximation": "rff", "kernel": "sigmoid"}, "features"),
        ({"approximation": "nystroem", "kernel": "sigmoid"}, "positive semidefinite"),
        ({"approximation": RandomFeatures(64, kernel="rbf")}, "kernel is that of the estimator"),
    ],
)
def test_bad_parameters_get_one_sentence(parameters, said):
    settings = {"kernel": "rbf", **parameters}
    rows = X @ X.T if settings["kernel"] == "precomputed" else X
    with pytest.raises(InputError, match=said) as caught:
        KernelPCA(3, **settings).fit(rows)
    assert str(caught.value).count(".\n") == 0
    assert "feature_map_" not in vars(KernelPCA(3, **settings))


class TestCompress:
    def test_all_training_rows_lose_nothing(self):
        model = KernelPCA(3, kernel="rbf", gamma=0.1).fit(X)
        small = kpca.compress(model, len(X), landmarks=np.arange(len(X)))
        np.testing.assert_allclose(small.transform(NEW), model.transform(NEW), atol=1e-6)
        assert small.compression_loss_.max() < 1e-4

    @pytest.mark.parametrize("weights", [None, RNG.uniform(0.5, 2.0, size=len(X))], ids=["plain", "weighted"])
    @pytest.mark.parametrize("center", [True, False])
    @pytest.mark.parametrize("kernel", ["rbf", "poly", "laplacian"])
    def test_scores_change_by_no_more_than_the_bound(self, kernel, center, weights):
        model = KernelPCA(4, kernel=kernel, gamma=0.1, degree=2, center=center).fit(X, sample_weight=weights)
        small = kpca.compress(model, 60)
        rows = np.vstack([X, NEW, NEW * 3])
        # |phi(x) - mean|^2, or |phi(x)|^2 where there is no mean
        w = np.ones(len(X)) if weights is None else weights
        w = w / w.sum()
        K = reference.kernel_values(kernel, rows, X, gamma=0.1, degree=2)
        distance2 = np.diag(reference.kernel_values(kernel, rows, rows, gamma=0.1, degree=2)).copy()
        if center:
            distance2 += -2 * K @ w + w @ reference.kernel_values(kernel, X, X, gamma=0.1, degree=2) @ w
        change = np.abs(small.transform(rows) - model.transform(rows))
        bound = small.compression_loss_ * np.sqrt(distance2)[:, None]
        assert (change <= bound * (1 + 1e-6) + 1e-7 * np.abs(model.transform(rows)).max()).all()
        assert small.compression_loss_.max() < 0.9
        assert small.X_fit_.shape[0] <= 60 < model.X_fit_.shape[0]

    def test_what_has_nothing_to_compress_is_refused(self):
        with pytest.raises(InputError, match="nothing to compress"):
            kpca.compress(KernelPCA(2).fit(X), 10)


@pytest.mark.slow
@pytest.mark.parametrize("approximation", [Nystroem(30), RandomFeatures(40)], ids=["nystroem", "random"])
def test_many_sparse_columns_are_not_counted_as_dense(approximation):
    S = sparse.random(400, 100_000, density=1e-4, random_state=0, format="csr")
    with kpca.config(memory_limit="200MiB"):  # 400 dense rows would take more
        model = KernelPCA(2, kernel="rbf", gamma=0.5, approximation=approximation).fit(S)
        assert np.isfinite(model.transform(S[:3])).all()
