"""Importance and arrows against finite differences of `transform`, over kernels, models and dtypes; invariants."""

from importlib import import_module

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import make_blobs

from kpca import IncrementalKernelPCA, InputError, KernelPCA, Nystroem, RandomFeatures, config, explain, kernels
from kpca.features.derivatives import why_no_derivatives

module = import_module("kpca.explain.importance")  # the function has the same name

SMOOTH = {
    "linear": kernels.Linear(),
    "rbf": kernels.RBF(gamma=0.2),
    "rbf, a gamma per feature": kernels.RBF(gamma=np.array([0.1, 0.3, 0.05, 0.2])),
    "poly": kernels.Polynomial(degree=3, gamma=0.3, coef0=1.0),
    "sigmoid": kernels.Sigmoid(gamma=0.1, coef0=0.2),
    "cosine": kernels.Cosine(),
    "exponential": kernels.resolve("exponential", np.zeros((1, 4)), gamma=0.3),
    "matern 1/2": kernels.Matern(length_scale=2.0, nu=0.5),
    "matern 3/2": kernels.Matern(length_scale=2.0, nu=1.5),
    "matern 5/2": kernels.Matern(length_scale=2.0, nu=2.5),
    "rational quadratic": kernels.RationalQuadratic(length_scale=2.0, alpha=0.7),
    "arc-cosine 0": kernels.ArcCosine(0),
    "arc-cosine 1": kernels.ArcCosine(1),
    "sum": kernels.RBF(gamma=0.2) + 0.1 * kernels.Linear(),
    "product": kernels.RBF(gamma=0.1) * kernels.Polynomial(degree=2, gamma=0.1, coef0=1.0),
}
pytestmark = pytest.mark.filterwarnings("ignore:.*landmarks explain all rows")


def rows(n: int = 60, seed: int = 0) -> np.ndarray:
    return make_blobs(n, 4, centers=3, random_state=seed)[0] / 4.0


def fitted(kind: str, kernel: object, X: np.ndarray, k: int = 3) -> object:
    landmarks = Nystroem(rank=20, landmarks="kmeans")
    match kind:
        case "exact":
            model = KernelPCA(k, kernel=kernel)
        case "landmarks":
            model = KernelPCA(k, kernel=kernel, approximation=landmarks, random_state=0)
        case "random features":
            model = KernelPCA(k, kernel=kernel, approximation=RandomFeatures(rank=64), random_state=0)
        case _:
            model = IncrementalKernelPCA(k, kernel=kernel, approximation=landmarks, random_state=0)
    return model.fit(X)


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("kind", ["exact", "landmarks", "stream"])
def test_importance_is_the_mean_size_of_finite_differences(kind, name):
    model, new = fitted(kind, SMOOTH[name], rows()), rows(8, seed=1)  # new rows: no kernel has a kink there
    found = explain.importance(model, new)
    each, overall = reference.importance(model.transform, new)
    np.testing.assert_allclose(found.by_component, each, rtol=2e-5, atol=1e-8)
    np.testing.assert_allclose(found.values, overall, rtol=2e-5, atol=1e-8)
    shares = model.explained_variance_ / model.explained_variance_.sum()
    np.testing.assert_allclose(
        explain.importance(model, new, weighted=True).values,
        reference.importance(model.transform, new, weights=shares)[1],
        rtol=2e-5,
        atol=1e-8,
    )


@pytest.mark.parametrize("name", ["rbf", "matern 5/2"])
def test_random_features_are_explained_too(name):
    model, new = fitted("random features", SMOOTH[name], rows()), rows(8, seed=1)
    if not hasattr(model.feature_map_, "pull"):
        pytest.skip("random features have no gradients here")
    assert why_no_derivatives(model._projecting()) is None
    each, overall = reference.importance(model.transform, new)
    found = explain.importance(model, new)
    np.testing.assert_allclose(found.by_component, each, rtol=2e-5, atol=1e-8)
    np.testing.assert_allclose(found.values, overall, rtol=2e-5, atol=1e-8)


@pytest.mark.parametrize("name", ["linear", "rbf", "poly", "cosine", "product"])
@pytest.mark.parametrize("kind", ["exact", "landmarks", "stream"])
def test_single_precision_agrees_with_double(kind, name):
    X = rows(80)
    double, single = (explain.importance(fitted(kind, SMOOTH[name], X.astype(t)), X.astype(t)) for t in ("f8", "f4"))
    np.testing.assert_allclose(single.values, double.values, rtol=5e-3)
    assert single.values.dtype == np.float64


@pytest.mark.parametrize("kind", ["exact", "landmarks", "stream"])
def test_chosen_components_are_those_of_all(kind):
    model, X = fitted(kind, SMOOTH["rbf"], rows()), rows(20, seed=1)
    whole, some = explain.importance(model, X), explain.importance(model, X, components=[2, 0])
    np.testing.assert_allclose(some.by_component, whole.by_component[[2, 0]], rtol=1e-10)
    np.testing.assert_array_equal(some.components, [2, 0])
    alone = explain.importance(model, X, components=1)
    np.testing.assert_allclose(alone.values, whole.by_component[1], rtol=1e-10)
    np.testing.assert_allclose(alone.by_component[0], whole.by_component[1], rtol=1e-10)


def test_small_tiles_and_threads_change_nothing(monkeypatch):
    model, X = fitted("exact", SMOOTH["rbf"], rows()), rows(50, seed=1)
    whole = explain.importance(model, X)
    with config(threads=2):
        np.testing.assert_array_equal(explain.importance(model, X).values, whole.values)
    monkeypatch.setattr(module, "_NUMBERS_AT_ONCE", 3 * 3 * 4)
    np.testing.assert_allclose(explain.importance(model, X).values, whole.values, rtol=1e-12)


def test_many_columns_are_never_held_for_all_rows(monkeypatch):
    """A tile of the Jacobian has at most so many numbers, or one row."""
    X = np.random.default_rng(0).standard_normal((40, 3000))
    model = KernelPCA(5, kernel="rbf", gamma="median").fit(X)
    seen = []
    real = module.Explained.derivatives

    def spied(self, components, what):
        derivatives = real(self, components, what)

        class Spy:
            def jacobian(self, rows):
                J = derivatives.jacobian(rows)
                seen.append(J.size)
                return J

        return Spy()

    monkeypatch.setattr(module.Explained, "derivatives", spied)
    monkeypatch.setattr(module, "_NUMBERS_AT_ONCE", 50_000)
    explain.importance(model)
    assert len(seen) > 10 and max(seen) <= 50_000


def test_rows_that_are_kept_stand_in_for_new_ones():
    X = rows()
    model = fitted("exact", SMOOTH["rbf"], X)
    np.testing.assert_array_equal(explain.importance(model).values, explain.importance(model, X).values)
    for kind in ("landmarks", "stream"):
        model = fitted(kind, SMOOTH["rbf"], X)
        landmarks = model._projecting().X
        assert len(landmarks) == 20
        np.testing.assert_array_equal(explain.importance(model).values, explain.importance(model, landmarks).values)
    with pytest.raises(InputError, match="X must be given"):
        explain.importance(IncrementalKernelPCA(2).fit(X))


def test_more_rows_than_asked_for_are_sampled_the_same_way():
    X = rows(300)
    model = fitted("exact", SMOOTH["rbf"], X)
    some, again = (explain.importance(model, X, max_rows=50) for _ in range(2))
    assert some.rows == 50 and explain.importance(model, X).rows == 300
    np.testing.assert_array_equal(some.values, again.values)
    np.testing.assert_allclose(some.values, explain.importance(model, X).values, rtol=0.3)


@given(st.integers(0, 10**6))
def test_shuffling_rows_changes_nothing(seed):
    X = rows(40)
    model = fitted("exact", SMOOTH["rbf"], X)
    shuffled = np.random.default_rng(seed).permutation(X)
    np.testing.assert_allclose(explain.importance(model, shuffled).values, explain.importance(model, X).values)


@given(st.permutations(range(4)), st.sampled_from(["rbf", "poly", "linear", "cosine", "matern 3/2"]))
def test_permuting_columns_permutes_importance(order, name):
    X = rows(40)
    found = explain.importance(fitted("exact", SMOOTH[name], X[:, order]))
    expected = explain.importance(fitted("exact", SMOOTH[name], X))
    np.testing.assert_allclose(found.values, expected.values[order], rtol=1e-6)


@given(st.sampled_from(sorted(set(SMOOTH) - {"rbf, a gamma per feature"})), st.sampled_from([0.0, 0.1, -3.7]))
def test_a_constant_column_has_no_importance(name, value):
    X = np.insert(rows(40), 2, value, axis=1)
    model = fitted("exact", SMOOTH[name], X)
    assert explain.importance(model).values[2] == 0.0
    assert explain.arrows(model).lengths[2] == 0.0
    assert np.abs(explain.importance(model).values[[0, 1, 3, 4]]).min() > 0


@given(st.integers(0, 10**6), st.integers(1, 4))
def test_importance_of_the_linear_kernel_is_loadings_times_deviations(seed, k):
    X = np.random.default_rng(seed).standard_normal((30, 4)) * [1.0, 5.0, 0.2, 2.0] + 100.0
    model = KernelPCA(k).fit(X)
    found = explain.importance(model)
    expected = np.abs(model.components_) * X.std(axis=0)
    np.testing.assert_allclose(found.by_component, expected, rtol=1e-9)
    np.testing.assert_allclose(found.values, np.linalg.norm(expected, axis=0), rtol=1e-9)
    plain = explain.importance(model, scaled=False)
    np.testing.assert_allclose(plain.by_component, np.abs(model.components_), rtol=1e-9)


def test_weighted_importance_of_the_linear_kernel_is_the_variance_explained():
    """With all components that is the variance of each column, up to its own scale and one factor."""
    X = np.random.default_rng(0).standard_normal((60, 4)) @ np.random.default_rng(1).standard_normal((4, 4))
    found = explain.importance(KernelPCA(4).fit(X), weighted=True, scaled=False)
    np.testing.assert_allclose(found.values / found.values[0], X.std(axis=0) / X.std(axis=0)[0], rtol=1e-9)


def test_sparse_rows_are_explained_where_the_kernel_is_linear_or_the_model_dense():
    X = rows() * (np.random.default_rng(3).random((60, 4)) < 0.7)
    linear = KernelPCA(2).fit(sparse.csr_matrix(X))
    np.testing.assert_allclose(explain.importance(linear).values, explain.importance(KernelPCA(2).fit(X)).values)
    dense = fitted("exact", SMOOTH["rbf"], X)
    expected = explain.importance(dense, X).values
    np.testing.assert_allclose(explain.importance(dense, sparse.csr_matrix(X)).values, expected, rtol=1e-9)
    with pytest.raises(InputError, match=r"dense rows.*permutation_importance"):
        explain.importance(KernelPCA(2, kernel="rbf").fit(sparse.csr_matrix(X)))


@pytest.mark.parametrize(
    "kernel", ["laplacian", "chi2", "histogram_intersection", lambda A, B: np.exp(-abs(A - B).sum())]
)
def test_kernels_without_gradients_say_what_works(kernel):
    model = KernelPCA(2, kernel=kernel).fit(np.abs(rows(30)))
    for explanation in (explain.importance, explain.arrows):
        with pytest.raises(InputError, match=r"needs gradients.*take permutation_importance"):
            explanation(model)


def test_precomputed_kernels_have_no_columns():
    X = rows(30)
    model = KernelPCA(2, kernel="precomputed").fit(X @ X.T)
    for explanation in (explain.importance, explain.arrows, explain.permutation_importance):
        with pytest.raises(InputError, match="precomputed kernel"):
            explanation(model)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"components": [3]}, "components must be different whole numbers from 0 to 2"),
        ({"components": [-1]}, "from 0 to 2"),
        ({"components": [1, 1]}, "different"),
        ({"components": []}, "different"),
        ({"components": [0.5]}, "whole numbers"),
        ({"max_rows": 0}, "max_rows must be a whole number"),
        ({"names": ["a"]}, "names must be one for each of the 4 columns; got 1"),
        ({"X": np.zeros((3, 5))}, "5 features"),
        ({"X": np.full((3, 4), np.nan)}, "finite"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(options, match):
    model = fitted("exact", SMOOTH["rbf"], rows())
    with pytest.raises(InputError, match=match):
        explain.importance(model, **options)


def test_only_fitted_models_are_explained():
    from sklearn.decomposition import PCA
    from sklearn.exceptions import NotFittedError

    with pytest.raises(InputError, match=r"model must be a fitted KernelPCA.*got PCA"):
        explain.importance(PCA(1).fit(rows()))
    with pytest.raises(NotFittedError):
        explain.importance(KernelPCA(1), rows())


# -- arrows -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["linear", "rbf", "poly", "arc-cosine 1"])
@pytest.mark.parametrize("kind", ["exact", "stream"])
def test_arrows_are_finite_differences_of_two_scores(kind, name):
    model, new = fitted(kind, SMOOTH[name], rows()), rows(8, seed=1)
    found = explain.arrows(model, new, components=(2, 0))
    truth = np.array([reference.slopes(model.transform, x)[[2, 0]] for x in new]) * new.std(axis=0)
    np.testing.assert_allclose(found.arrows, truth, rtol=2e-5, atol=1e-8)
    np.testing.assert_allclose(found.mean, truth.mean(axis=0), rtol=2e-5, atol=1e-8)
    np.testing.assert_allclose(found.positions, model.transform(new)[:, [2, 0]])
    np.testing.assert_allclose(found.lengths, explain.importance(model, new, components=[2, 0]).values)


def test_arrows_of_the_most_important_variables_keep_their_names():
    X = rows() * [1.0, 0.01, 3.0, 0.02]
    model = fitted("exact", kernels.RBF(gamma=0.1), X)
    whole, two = explain.arrows(model), explain.arrows(model, variables=2, names=["a", "b", "c", "d"])
    assert two.names == ("a", "c") and two.columns.tolist() == [0, 2]
    np.testing.assert_array_equal(two.arrows, whole.arrows[:, :, [0, 2]])
    assert whole.arrows.shape == (60, 2, 4)
    assert explain.arrows(model, variables=9).names == ("x0", "x1", "x2", "x3")
    for wrong in ((0,), (0, 1, 2), (0, 0), (0, 7)):
        with pytest.raises(InputError, match="components must be"):
            explain.arrows(model, components=wrong)
    with pytest.raises(InputError, match="variables must be a whole number from 1"):
        explain.arrows(model, variables=0)


def test_arrows_stay_within_the_memory_limit():
    model = KernelPCA(2).fit(np.random.default_rng(0).standard_normal((1000, 3000)))
    with config(memory_limit="40MiB"), pytest.raises(InputError, match="fewer variables or rows"):
        explain.arrows(model)
