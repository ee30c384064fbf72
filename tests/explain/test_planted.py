"""Variables that have to do with each other are found among noise of the same variance; linear loadings find none."""

import numpy as np
import pytest

from benchmarks._structures import PLANTED, found, loadings, structure
from kpca import KernelPCA, explain
from kpca.kernels import resolve_gamma

SEEDS = range(4)
# Four times the gamma of "median" for rings and clusters, squares for what is a product.
RINGS_AND_CLUSTERS = {"kernel": "rbf", "width": 4.0}
PRODUCTS = {"kernel": "poly", "degree": 2, "coef0": 1.0, "width": 3.0}
CASES = [
    ("ring", RINGS_AND_CLUSTERS, 3),
    ("xor", RINGS_AND_CLUSTERS, 3),
    ("xor", PRODUCTS, 3),
    ("xor among two-valued noise", PRODUCTS, 3),
    ("product", PRODUCTS, 3),
]


def fitted(X: np.ndarray, k: int, kernel: dict) -> KernelPCA:
    kernel = dict(kernel)
    unit = resolve_gamma("median", X) if kernel["kernel"] == "rbf" else 1.0 / X.shape[1]
    return KernelPCA(k, gamma=kernel.pop("width") * unit, **kernel).fit(X)


@pytest.mark.parametrize("kind", PLANTED)
def test_columns_have_the_same_variance_and_no_correlation(kind):
    X = structure(kind, 0, n=20_000)
    np.testing.assert_allclose(X.var(axis=0), 1.0)
    np.testing.assert_allclose(np.corrcoef(X.T), np.eye(10), atol=0.06)


@pytest.mark.parametrize("kind", PLANTED)
def test_linear_loadings_do_not_find_planted_variables(kind):
    assert sum(found(loadings(structure(kind, seed)), PLANTED[kind]) for seed in range(20)) <= 2
    X = structure(kind, 0)
    assert not found(explain.importance(KernelPCA(3).fit(X)).values, PLANTED[kind])


@pytest.mark.parametrize(("kind", "kernel", "k"), CASES)
@pytest.mark.parametrize("seed", SEEDS)
def test_gradients_find_planted_variables(seed, kind, kernel, k):
    X = structure(kind, seed)
    assert found(explain.importance(fitted(X, k, kernel)).values, PLANTED[kind])


@pytest.mark.parametrize(("kind", "kernel", "k"), CASES)
@pytest.mark.parametrize("seed", SEEDS)
def test_shuffling_finds_planted_variables(seed, kind, kernel, k):
    X = structure(kind, seed)
    shares = explain.permutation_importance(fitted(X, k, kernel), repeats=2).values
    assert found(shares, PLANTED[kind])


@pytest.mark.parametrize("kind", PLANTED)
@pytest.mark.parametrize("seed", [0, 1])
def test_refitting_finds_whatever_is_planted_with_one_kernel_and_a_component_per_column(seed, kind):
    X = structure(kind, seed)
    model = fitted(X, X.shape[1], RINGS_AND_CLUSTERS)
    assert found(explain.permutation_importance(model, refit=True, repeats=3).values, PLANTED[kind])


def test_refitting_finds_nothing_where_nothing_is():
    """What chance gives to plain noise is far below what the variables of a product lose."""
    noise, product = np.random.default_rng(5).standard_normal((500, 10)), structure("product", 0)
    by_chance, planted = (
        explain.permutation_importance(fitted(X, 10, RINGS_AND_CLUSTERS), refit=True, repeats=3).values
        for X in (noise, product)
    )
    assert np.abs(by_chance).max() < 0.4 * planted[:3].min()
    assert np.abs(planted[3:]).max() < 0.4 * planted[:3].min()
