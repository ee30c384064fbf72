"""Permutation importance against a double loop, with and without fitting anew, for every kernel that compares rows."""

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import make_blobs

from kpca import IncrementalKernelPCA, InputError, KernelPCA, Nystroem, config, explain
from kpca._base.validation import seed_of

KERNELS = ["linear", "rbf", "poly", "cosine", "laplacian", "chi2", "histogram_intersection"]
pytestmark = pytest.mark.filterwarnings("ignore:.*landmarks explain all rows")


def rows(n: int = 40, seed: int = 0) -> np.ndarray:
    return np.abs(make_blobs(n, 4, centers=3, random_state=seed)[0] / 4.0)


def orders(m: int, repeats: int = 5, random_state: int = 0) -> list[np.ndarray]:
    return [np.random.default_rng([seed_of(random_state), number]).permutation(m) for number in range(repeats)]


@pytest.mark.parametrize(
    ("kind", "kernel"),
    [("exact", "additive_chi2"), *((kind, name) for kind in ("exact", "landmarks", "stream") for name in KERNELS)],
)
def test_shares_are_those_of_the_double_loop(kind, kernel):
    X, gamma = rows(), 0.1
    landmarks = Nystroem(rank=20, landmarks="kmeans")
    if kind == "exact":
        model = KernelPCA(2, kernel=kernel, gamma=gamma).fit(X)
    elif kind == "landmarks":
        model = KernelPCA(2, kernel=kernel, gamma=gamma, approximation=landmarks, random_state=0).fit(X)
    else:
        model = IncrementalKernelPCA(2, kernel=kernel, gamma=gamma, approximation=landmarks, random_state=0).fit(X)
    found = explain.permutation_importance(model, X)
    truth = np.array(
        [[reference.shuffled_share(model.transform, X, m, order) for m in range(4)] for order in orders(len(X))]
    ).transpose(0, 2, 1)  # shape: (repeats, k, d)
    np.testing.assert_allclose(found.by_component, truth.mean(axis=0), rtol=1e-8)
    np.testing.assert_allclose(found.by_component_deviations, truth.std(axis=0, ddof=1), rtol=1e-6, atol=1e-12)
    variances = model.transform(X).var(axis=0)
    overall = np.einsum("rjm,j->rm", truth, variances / variances.sum())
    np.testing.assert_allclose(found.values, overall.mean(axis=0), rtol=1e-8)
    np.testing.assert_allclose(found.deviations, overall.std(axis=0, ddof=1), rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("kernel", ["linear", "rbf", "laplacian"])
def test_refitted_shares_are_those_of_models_fitted_anew(kernel):
    X = rows()
    model = KernelPCA(3, kernel=kernel, gamma=0.1).fit(X)
    found = explain.permutation_importance(model, refit=True, components=[0, 2], repeats=2, random_state=7)
    own = model.eigenvalues_[[0, 2]]
    truth = np.empty((2, 3, 4))
    for number, order in enumerate(orders(len(X), 2, 7)):
        for m in range(4):
            moved = X.copy()
            moved[:, m] = X[order, m]
            left = KernelPCA(3, kernel=kernel, gamma=0.1).fit(moved).eigenvalues_[[0, 2]]
            truth[number, :, m] = [*(1 - left / own), 1 - left.sum() / own.sum()]
    np.testing.assert_allclose(found.by_component, truth.mean(axis=0)[:2], rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(found.values, truth.mean(axis=0)[2], rtol=1e-7, atol=1e-9)
    assert found.refit and found.repeats == 2


def test_refitting_asks_the_kernel_and_not_the_approximation():
    X = rows(60)
    exact = KernelPCA(3, kernel="rbf", gamma=0.1).fit(X)
    few = KernelPCA(3, kernel="rbf", gamma=0.1, approximation=Nystroem(rank=15), random_state=0).fit(X)
    expected = explain.permutation_importance(exact, X, refit=True).values
    np.testing.assert_allclose(
        explain.permutation_importance(few, X, refit=True).values, expected, rtol=1e-6, atol=1e-9
    )


def test_one_component_of_one_variable_is_gone_with_it():
    X = np.random.default_rng(0).standard_normal((400, 3)) * [1.0, 1e-3, 0.0]
    found = explain.permutation_importance(KernelPCA(1).fit(X), max_rows=400, repeats=10)
    assert found.values[0] == pytest.approx(1.0, abs=0.05)
    assert 0 < found.values[1] < 1e-4
    assert found.values[2] == 0.0 and found.deviations[2] == 0.0


def test_components_without_variance_lose_nothing():
    X = np.outer(np.arange(20.0), [1.0, 2.0])
    found = explain.permutation_importance(KernelPCA(2).fit(X))
    assert np.isfinite(found.by_component).all() and np.isfinite(found.values).all()
    refitted = explain.permutation_importance(KernelPCA(2).fit(X), refit=True)
    assert np.isfinite(refitted.values).all()


@given(st.permutations(range(4)), st.booleans())
def test_permuting_columns_permutes_shares(order, refit):
    X = rows()
    one, other = (
        explain.permutation_importance(KernelPCA(2, kernel="rbf", gamma=0.1).fit(Y), refit=refit, repeats=2)
        for Y in (X, X[:, order])
    )
    np.testing.assert_allclose(other.values, one.values[order], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("refit", [False, True])
def test_seeds_repeat_and_matter_and_threads_do_not(refit):
    model = KernelPCA(2, kernel="rbf", gamma=0.1).fit(rows(150))

    def asked(**options):
        return explain.permutation_importance(model, refit=refit, max_rows=100, **options).values

    one = asked(random_state=1)
    np.testing.assert_array_equal(one, asked(random_state=1))
    assert (one != asked(random_state=2)).any()
    with config(threads=2):
        np.testing.assert_array_equal(one, asked(random_state=1))


def test_single_precision_agrees_with_double():
    X = rows(80)
    double, single = (
        explain.permutation_importance(KernelPCA(2, kernel="rbf", gamma=0.1).fit(X.astype(t))).values
        for t in ("f8", "f4")
    )
    np.testing.assert_allclose(single, double, rtol=1e-3)


def test_sparse_rows_are_shuffled_too():
    from scipy import sparse

    X = rows() * (np.random.default_rng(3).random((40, 4)) < 0.7)
    dense, thin = (KernelPCA(2, kernel="rbf", gamma=0.1).fit(Y) for Y in (X, sparse.csr_matrix(X)))
    for refit in (False, True):
        one, other = (explain.permutation_importance(model, refit=refit).values for model in (dense, thin))
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"repeats": 0}, "repeats must be a whole number from 1"),
        ({"max_rows": 1}, "max_rows must be a whole number from 2"),
        ({"components": [9]}, "components must be"),
        ({"random_state": "x"}, "random_state"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(options, match):
    with pytest.raises(InputError, match=match):
        explain.permutation_importance(KernelPCA(2).fit(rows()), **options)
