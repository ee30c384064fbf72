"""Every other finding: planted and found, not planted and not found; figures against the plain truth."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import reference
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

from kpca import IncrementalKernelPCA, KernelPCA, Nystroem, RandomFeatures, kernels
from kpca.diagnostics.case import Case
from kpca.diagnostics.checks import LOOKS
from kpca.diagnostics.model import negative_mass
from kpca.diagnostics.report import NotLooked
from kpca.diagnostics.rows import _exceeding
from kpca.selection.stability import bootstrap_stability

WINE = StandardScaler().fit_transform(load_wine().data)


def rows(n, d=4, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d)) * 1.5 ** -np.arange(d)


def fitted(X, n_components=3, weights=None, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return KernelPCA(n_components, **parameters).fit(X, sample_weight=weights)


def look(kind, model, X=None, new=None, seed=0):
    """A look, or why it could not be taken."""
    try:
        return LOOKS[kind](Case(model, X, new, 5, seed))
    except NotLooked as reason:
        return str(reason)


# -- indefinite ------------------------------------------------------------------------------------------------------


def test_negative_mass_is_that_of_the_whole_matrix():
    X = rows(80)
    kernel = kernels.Sigmoid(1.0, -1.0)
    truth = reference.negative_mass(kernel.block(X, X))
    assert truth > 0.1
    operators = [kernel.block(X, X), sparse.csr_matrix(kernel.block(X, X)), aslinearoperator(kernel.block(X, X))]
    models = [fitted(X, kernel=kernel), fitted(X, kernel=lambda A, B: np.tanh(A @ B.T - 1))]
    models += [fitted(K, kernel="precomputed") for K in operators]
    for model in models:
        found = look("indefinite", model)
        assert_allclose(found.number, truth, rtol=1e-8)
        assert found.severity == "problem"


@pytest.mark.parametrize("kernel", ["rbf", "poly", "laplacian", "cosine", "arc_cosine1", "histogram_intersection"])
def test_definite_kernels_have_no_negative_mass(kernel):
    assert look("indefinite", fitted(np.abs(rows(60)), kernel=kernel)).number == 0.0


def test_what_centring_makes_definite_is_no_finding_and_rounding_none_either():
    X = np.abs(rows(60))
    assert look("indefinite", fitted(X, kernel="additive_chi2")).severity is None
    bare = fitted(X, kernel="additive_chi2", center=False)
    assert "center=True" in look("indefinite", bare).remedy
    K = kernels.RBF(0.1).block(X, X)
    for dtype in (np.float64, np.float32):
        assert look("indefinite", fitted(K.astype(dtype), kernel="precomputed")).severity is None
    assert negative_mass(np.array([1.0, -1e-12]), 1e-9) == 0.0


def test_a_power_that_is_not_whole_is_told_what_to_do():
    found = look("indefinite", fitted(np.abs(rows(60)) + 1, kernel="poly", degree=0.5, coef0=-0.0))
    assert found.severity is None or "whole degree" in found.remedy
    found = look("indefinite", fitted(rows(60), kernel="poly", degree=3, gamma=1.0, coef0=-2.0))
    assert "coef0" in found.remedy


# -- components ------------------------------------------------------------------------------------------------------


def spread_rows(n, scales, seed=0):
    """Rows whose columns are uncorrelated exactly, of these standard deviations."""
    Q = np.linalg.qr(np.column_stack([np.ones(n), np.random.default_rng(seed).standard_normal((n, len(scales)))]))[0]
    return Q[:, 1:] * np.sqrt(n) * np.asarray(scales)


def test_near_equal_eigenvalues_are_grouped():
    X = spread_rows(200, [4.0, 2.02, 2.0, 1.0, 0.5, 0.499, 0.498])
    found = look("equal_eigenvalues", fitted(X, 7, kernel="linear"))
    assert "components 2 and 3 and 5 to 7 differ" in found.sentence
    assert_allclose(found.number, 1 - (0.499 / 0.5) ** 2, rtol=1e-6)
    apart = fitted(spread_rows(200, [4.0, 3.0, 2.0, 1.0]), 4, kernel="linear")
    assert look("equal_eigenvalues", apart).severity is None


def test_more_rows_tell_closer_eigenvalues_apart():
    for n, close in [(100, True), (2000, False)]:
        found = look("equal_eigenvalues", fitted(spread_rows(n, [2.0, 1.93]), 2, kernel="linear"))
        assert (found.severity is not None) == close
    weights = np.r_[np.full(20, 500.0), np.full(180, 1e-3)]  # worth about 20 rows
    case = Case(fitted(spread_rows(200, [2.0, 1.6]), 2, weights=weights, kernel="linear"), None, None, 5, 0)
    assert_allclose(case.effective, weights.sum() ** 2 / (weights**2).sum())


@pytest.mark.parametrize("kernel", ["linear", "rbf", "laplacian", "poly"])
def test_components_that_change_with_the_rows_are_named(kernel):
    firm = fitted(spread_rows(300, [8.0, 4.0, 2.0]), 1, kernel=kernel, gamma=0.01)
    assert look("unstable", firm).severity is None
    X = spread_rows(100, [6.0, *np.ones(20)])
    found = look("unstable", fitted(X, 5, kernel=kernel, gamma=0.01))
    truth = bootstrap_stability(fitted(X, 5, kernel=kernel, gamma=0.01).kernel_, X, 5, resamples=5)
    assert_allclose(found.number, truth.components.min())
    assert found.severity is not None
    firm = int(found.also["stable_components"])
    assert 1 <= firm <= 4 and f"the first {'' if firm == 1 else f'{firm} '}can be trusted" in found.sentence


def test_rotation_within_a_span_is_a_note():
    found = look("unstable", fitted(spread_rows(300, [4.0, 3.99, 3.98, 0.1, 0.05]), 3, kernel="linear"))
    assert found.severity == "note" and "together" in found.remedy


# -- columns and rows ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["linear", "rbf", "laplacian", "poly", "matern32", "sigmoid", "cosine", "chi2"])
def test_one_feature_that_is_all_the_kernel_sees(kernel):
    X = np.random.default_rng(0).uniform(1.0, 2.0, (100, 4))
    assert look("scale", fitted(X, kernel=kernel)).severity is None
    if kernel == "cosine":
        X[:, 2] = 1e5 * (X[:, 2] - 1.5)
        X[:, :2] *= 1e-3
        X[:, 3] = 1e6
    else:
        X[:, 2] *= 1e4
    frame = pd.DataFrame(X, columns=["length", "mass", "price", "year"])
    found = look("scale", fitted(frame, kernel=kernel, gamma=1e-8))
    assert found.severity is not None and "'price'" in found.sentence
    assert found.number > 0.99


def test_scales_that_the_kernel_makes_up_for_are_no_finding():
    X = rows(100) * [1e4, 1.0, 1.0, 1.0]
    assert look("scale", fitted(X, kernel="rbf", gamma=0.1)).severity is not None
    assert look("scale", fitted(X, kernel="rbf", gamma=[1e-9, 0.1, 0.1, 0.1])).severity is None


def test_binary_columns_constants_and_wild_values_are_no_scale():
    random = np.random.default_rng(0)
    onehot = np.eye(5)[random.integers(0, 5, 300)]
    assert look("scale", fitted(onehot, kernel="rbf")).severity is None
    X = rows(300)
    X[7, 3] = 1e6
    assert look("scale", fitted(X, kernel="rbf", gamma=0.1)).severity is None
    constant = np.column_stack([rows(100, 1), np.full(100, 1e9)])
    assert look("scale", fitted(constant, kernel="rbf")) == "fewer than 2 features vary"
    assert look("scale", fitted(sparse.csr_matrix(onehot), kernel="rbf")).severity is None


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_matrix, lambda X: X.astype(np.float32)])
def test_duplicates_are_counted(make):
    X = rows(60)
    X[3, 1] = 0.0
    twice = np.vstack([X, X[:30]])
    twice[63, 1] = -0.0
    found = look("duplicates", fitted(make(twice), kernel="rbf"))
    assert_allclose(found.number, 30 / 90)
    assert "60 rows" in found.remedy and found.severity == "warning"
    assert look("duplicates", fitted(make(X), kernel="rbf")).number == 0


def test_the_remedy_for_duplicates_gives_the_same_model():
    X = rows(40)
    twice = fitted(np.vstack([X, X[:20]]), kernel="rbf")
    once = fitted(X, weights=np.r_[np.full(20, 2.0), np.ones(20)], kernel="rbf")
    assert_allclose(twice.eigenvalues_, once.eigenvalues_, rtol=1e-8)
    assert look("duplicates", once).number == 0


def test_duplicates_are_what_the_kernel_takes_for_the_same():
    X = rows(50)
    stretched = np.vstack([X, 3.7 * X])
    assert_allclose(look("duplicates", fitted(stretched, kernel="cosine")).number, 0.5)
    assert look("duplicates", fitted(stretched, kernel="rbf")).number == 0
    K = kernels.RBF(1.0).block(np.vstack([X, X]), np.vstack([X, X]))
    assert_allclose(look("duplicates", fitted(K, kernel="precomputed")).number, 0.5)
    weights = np.r_[np.zeros(50), np.ones(50)]
    assert look("duplicates", fitted(K, weights=weights, kernel="precomputed")).number == 0


# -- overfitting -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("degree", "severity"), [(2, None), (8, "warning"), (14, "problem")])
def test_too_few_rows_for_the_degree(degree, severity):
    found = look("overfitting", fitted(WINE, 4, kernel="poly", degree=degree, gamma=1 / 13))
    assert (found.severity) == severity
    if severity:
        assert f"degree (now {degree})" in found.remedy


def test_degrees_of_a_product_add_up():
    kernel = kernels.Polynomial(6, 1 / 13) * kernels.Polynomial(7, 1 / 13) * 2.0
    assert "now 13" in look("overfitting", fitted(WINE, 4, kernel=kernel)).remedy


@pytest.mark.parametrize("kernel", ["linear", "rbf", "laplacian", "cosine", "matern52", "exponential"])
def test_overfitting_is_for_every_kernel(kernel):
    assert look("overfitting", fitted(WINE, 4, kernel=kernel)).number > 0.6
    noise = np.random.default_rng(0).standard_normal((60, 300))
    found = look("overfitting", fitted(noise, 4, kernel=kernel))
    assert found.severity is not None and found.number < 0.2


def test_figure_is_that_of_two_halves():
    X = rows(120)
    model = fitted(X, 4, kernel="rbf", gamma=0.5)
    case = Case(model, None, None, 5, 0)
    inside, outside = [], []
    for half in case.halves:
        A, B = X[half.fitted], half.held
        assert len(A) + len(B) == 120 and not {*map(tuple, A)} & {*map(tuple, B)}
        kernel = kernels.RBF(0.5)
        truth = reference.explained(kernel.block(A, A), kernel.block(B, A), np.ones(len(B)), 4)
        inside.append(truth[0])
        outside.append(truth[1])
    assert_allclose(LOOKS["overfitting"](case).number, np.mean(outside) / np.mean(inside), rtol=1e-4)


def test_twins_are_never_on_both_sides():
    X = rows(60)
    case = Case(fitted(np.vstack([X, X]), kernel="rbf"), None, None, 5, 0)
    for half in case.halves:
        assert not {*map(tuple, case.rows[half.fitted])} & {*map(tuple, half.held)}


# -- approximation ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "matern32"])
def test_too_few_features(kernel):
    X = rows(300, 6)
    pairs = [(Nystroem(4), Nystroem(280)), (RandomFeatures(8), RandomFeatures(2500))]
    for few, many in pairs[:1] if kernel == "laplacian" else pairs:  # whose random features need many more
        poor = look("approximation", fitted(X, 4, kernel=kernel, gamma=0.1, approximation=few), X)
        assert poor.severity is not None and poor.number > 0.1
        assert look("approximation", fitted(X, 4, kernel=kernel, gamma=0.1, approximation=many), X).severity is None
    assert look("approximation", fitted(X, 4, kernel=kernel)) == "the model is exact"


def test_errors_are_measured_and_the_remedy_is_enough():
    X = rows(400, 6)
    model = fitted(X, 5, kernel="rbf", gamma=0.3, approximation=Nystroem(10))
    found = look("approximation", model, X)
    exact = fitted(X, 5, kernel="rbf", gamma=0.3)
    assert_allclose(found.number, np.max(1 - model.eigenvalues_ / exact.eigenvalues_), rtol=1e-6)
    rank = int(found.remedy.split("about ")[1].split()[0])
    again = fitted(X, 5, kernel="rbf", gamma=0.3, approximation=Nystroem(rank))
    assert look("approximation", again, X).severity is None


def test_without_rows_bounds_are_what_is_known():
    X = rows(300, 6)
    for model in (
        fitted(X, 4, kernel="rbf", approximation=Nystroem(10)),
        IncrementalKernelPCA(4, kernel="rbf", approximation=Nystroem(10)).fit(X),
    ):
        found = look("approximation", model)
        bounds = model.eigenvalue_bounds_
        assert_allclose(found.number, np.max((bounds[:, 1] - bounds[:, 0]) / model.eigenvalues_), rtol=1e-6)
        assert "may be wrong" in found.sentence and "give X" in found.remedy
    assert look("approximation", fitted(X, 2, kernel="rbf", gamma=0.01, approximation=Nystroem(200))).severity is None


# -- drift -----------------------------------------------------------------------------------------------------------


def clusters(n, seed, which=(0, 1, 2)):
    random = np.random.default_rng(seed)
    centres = np.array([[4.0, 0, 0, 0], [0, 4.0, 0, 0], [0, 0, 4.0, 0], [-4.0, -4.0, 0, 4.0]])
    return centres[random.choice(which, n)] + random.standard_normal((n, 4))


@pytest.mark.parametrize("kernel", ["linear", "rbf", "laplacian", "poly", "cosine", "matern32", "rational_quadratic"])
def test_drift_is_seen_and_fresh_rows_are_not(kernel):
    for seed in range(6):
        model = fitted(clusters(200, seed), kernel=kernel, gamma=0.1)
        fresh = clusters(80, seed + 100)
        assert look("drift", model, new=fresh).severity is None
        defects = {"shift": fresh + 1.5, "one cluster": clusters(80, seed + 100, (1,))}
        defects["another cluster"] = clusters(80, seed + 100, (3,))
        if kernel != "cosine":  # which sees directions only
            defects["scale"] = 2.5 * fresh
        for name, new in defects.items():
            assert look("drift", model, new=new).severity is not None, (seed, name)


def test_a_few_far_rows_among_many_are_drift():
    model = fitted(clusters(400, 0), kernel="rbf", gamma=0.1)
    fresh = clusters(200, 1)
    fresh[:20] += 30.0
    found = look("drift", model, new=fresh)
    assert found.severity is not None and found.also["beyond_limit"] >= 0.1
    assert found.number < 0.2


def test_training_rows_are_no_drift():
    X = np.random.default_rng(0).standard_normal((100, 60))  # of which a fit explains far more than of others
    model = fitted(X, 10, kernel="rbf")
    assert look("drift", model, new=X).severity is None
    assert look("drift", model, new=X[:3]).startswith("fewer than 5")


def test_drift_of_weighted_sparse_and_approximate_models():
    X, fresh = clusters(200, 0), clusters(80, 1)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 200)
    models = [
        (fitted(X, weights=weights, kernel="rbf", gamma=0.1), None),
        (fitted(X.astype(np.float32), kernel="rbf", gamma=0.1), None),
        (fitted(X, kernel="rbf", gamma=0.1, approximation=Nystroem(30)), X),
        (IncrementalKernelPCA(3, kernel="rbf", gamma=0.1).fit(X), X),
        (fitted(sparse.csr_matrix(X), kernel="rbf", gamma=0.1), None),
    ]
    for model, rows_of in models:
        assert look("drift", model, rows_of, fresh).severity is None
        assert look("drift", model, rows_of, fresh + 2.0).severity is not None


def test_count_beyond_a_limit_has_the_distribution_it_is_said_to_have():
    random = np.random.default_rng(0)
    chances = np.array([_exceeding(random.random(150), random.random(60))[1] for _ in range(1000)])
    for level in (0.02, 0.1, 0.3):
        assert np.mean(chances <= level) <= level + 3 * np.sqrt(level / 1000)
