"""Interactions against differences of scores, and on data with planted pairs among variables that are all alike."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import pdist
from sklearn.decomposition import PCA

from kpca import IncrementalKernelPCA, InputError, KernelPCA
from kpca.explain import Interactions, interactions
from kpca.features import RandomFeatures
from kpca.kernels import RBF, Kernel, Matern, Polynomial

Draw = Callable[[np.random.Generator], np.ndarray]


def rows(n: int = 40, d: int = 4, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, d))


def slow_mixed(model: Any, X: np.ndarray, p: int, q: int, h: float = 1e-3) -> np.ndarray:
    """Second differences of scores.  # shape: (m, k)"""
    e, f = h * np.eye(X.shape[1])[[p, q]]
    t = model.transform
    return (t(X + e + f) - t(X + e - f) - t(X - e + f) + t(X - e - f)) / (4 * h * h)


@pytest.mark.parametrize("kernel", [RBF(0.2), Polynomial(3, 0.2, 1.0), RBF(0.1) * Polynomial(2, 0.5, 1.0)], ids=repr)
def test_net_and_total_are_those_of_the_scores(kernel: Kernel) -> None:
    X = rows()
    model = KernelPCA(3, kernel=kernel).fit(X)
    net, total = interactions(model, measure="net"), interactions(model, measure="total", scaled=False)
    spread = X.std(axis=0)
    for p, q in itertools.combinations(range(4), 2):
        mixed = slow_mixed(model, X, p, q)
        assert_allclose(total.values[p, q], np.linalg.norm(mixed, axis=1).mean(), rtol=1e-5)
        assert_allclose(total.components[:, p, q], np.abs(mixed).mean(axis=0), rtol=1e-5)
        mean = np.abs(mixed.mean(axis=0)) * spread[p] * spread[q]
        assert_allclose(net.values[p, q], np.linalg.norm(mean), rtol=1e-4)
        assert_allclose(net.components[:, p, q], mean, rtol=1e-3, atol=1e-6 * mean.max())


def test_joint_is_a_covariance_for_the_polynomial_kernel_of_degree_two() -> None:
    """With all components of (x.y + c)^2: sums over components of variance are covariances over samples."""
    X, c = rows(60, 3), 2.0
    X[:, 2] += X[:, 0] * X[:, 1]
    model = KernelPCA(9, kernel=Polynomial(2, 1.0, c)).fit(X)  # 3 linear and 6 quadratic features
    found = interactions(model, scaled=False)
    slopes = 2 * (X @ X.mean(axis=0) + c)[:, None] * X  # mean over x of the gradient of k(x, s), shape: (n, d)
    variance = np.cov(slopes.T).trace() * model.explained_variance_.sum()
    for p, q in itertools.combinations(range(3), 2):
        together = np.cov(slopes.T, 2 * X[:, p] * X[:, q])[:-1, -1]
        assert_allclose(found.values[p, q], np.linalg.norm(together) / np.sqrt(variance), rtol=1e-9)
        assert found.partners is not None
        assert found.partners[p, q] == np.abs(together).argmax()


@pytest.mark.parametrize("measure", ["joint", "net", "total"])
def test_a_matrix_of_pairs(measure: Any) -> None:
    found = interactions(KernelPCA(3, kernel=RBF(0.2)).fit(rows()), measure=measure)
    assert found.values.shape == (4, 4)
    assert found.components.shape == (3, 4, 4)
    assert_array_equal(found.values, found.values.T)
    assert_array_equal(np.diag(found.values), 0.0)
    assert (found.values[np.triu_indices(4, 1)] > 0).all()
    assert found.names == ("x0", "x1", "x2", "x3")
    assert (found.partners is None) == (measure != "joint")


def test_one_component_is_its_own_total() -> None:
    found = interactions(KernelPCA(3, kernel=RBF(0.2)).fit(rows()), components=[1])
    assert_allclose(found.components[0], found.values, rtol=1e-12)


def test_variables_in_other_units_interact_as_before() -> None:
    X, units = rows(), np.array([1.0, 1e3, 1e-3, 7.0])
    plain = interactions(KernelPCA(3, kernel=RBF((0.2,) * 4)).fit(X))
    other = interactions(KernelPCA(3, kernel=RBF(tuple(0.2 / units**2))).fit(X * units))
    assert_allclose(other.values, plain.values, rtol=1e-8)


def test_a_linear_model_has_none() -> None:
    for model in (KernelPCA(2, kernel="linear").fit(rows()), KernelPCA(2, kernel=Polynomial(1)).fit(rows())):
        assert_array_equal(interactions(model, permutations=1).values, 0.0)


def test_landmarks_and_streams() -> None:
    X = rows(200)
    exact = interactions(KernelPCA(3, kernel=RBF(0.1)).fit(X), X)
    nystroem = KernelPCA(3, kernel=RBF(0.1), approximation="nystroem", random_state=0).fit(X)
    stream = IncrementalKernelPCA(3, kernel=RBF(0.1), random_state=0).fit(X)
    for model in (nystroem, stream):
        assert_allclose(interactions(model, X).values, exact.values, rtol=0.05, atol=0.02 * exact.values.max())
        assert interactions(model).values.shape == (4, 4)


def test_models_without_second_derivatives_say_so() -> None:
    X = rows()
    with pytest.raises(InputError, match="random features have none"):
        interactions(KernelPCA(2, kernel=RBF(0.2), approximation=RandomFeatures(50), random_state=0).fit(X), X)
    with pytest.raises(InputError, match="laplacian kernel has no gradient"):
        interactions(KernelPCA(2, kernel="laplacian").fit(X))
    with pytest.raises(InputError, match="precomputed"):
        interactions(KernelPCA(2, kernel="precomputed").fit(X @ X.T), X @ X.T)


def test_wrong_arguments_are_named() -> None:
    model = KernelPCA(2, kernel=RBF(0.2)).fit(rows())
    with pytest.raises(InputError, match="measure must be one of 'joint'"):
        interactions(model, measure="mean")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="measure must be one of 'joint'"):
        interactions(model, measure=[])  # type: ignore[arg-type]
    with pytest.raises(InputError, match="components must be different whole numbers from 0 to 1"):
        interactions(model, components=[0, 2])
    with pytest.raises(InputError, match="variables must be different whole numbers from 0 to 3"):
        interactions(model, variables=[0, 0])
    with pytest.raises(InputError, match="got 'y'"):
        interactions(model, variables=["y"])
    with pytest.raises(InputError, match="one for each of the 4 columns; got 2"):
        interactions(model, names=["a", "b"])


def test_names_come_from_the_frame_or_the_caller() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(rows(), columns=["heat", "flow", "level", "speed"])
    model = KernelPCA(2, kernel=RBF(0.2)).fit(frame)
    found = interactions(model, variables=["speed", "heat", "flow"])
    assert found.names == ("speed", "heat", "flow")
    assert_array_equal(found.variables, [3, 0, 1])
    whole = interactions(model, frame)
    assert found.values[0, 1] == pytest.approx(whole.values[3, 0], rel=1e-12)
    table = whole.to_pandas()
    assert list(table.columns) == list(table.index) == ["heat", "flow", "level", "speed"]
    assert_array_equal(table.to_numpy(), whole.values)
    assert interactions(model, names=["a", "b", "c", "d"]).names == ("a", "b", "c", "d")


def test_the_strongest_come_first_in_print() -> None:
    values = np.array([[0.0, 1.0, 3.0], [1.0, 0.0, 2.0], [3.0, 2.0, 0.0]])
    found = Interactions(("a", "b", "c"), np.arange(3), values, values[None], "net")
    assert found.top(2) == [("a", "c", 3.0), ("b", "c", 2.0)]
    assert len(found.top()) == 3
    assert [line.split() for line in str(found).splitlines()[4:]] == [
        ["a", "c", "3.000"],
        ["b", "c", "2.000"],
        ["a", "b", "1.000"],
    ]


def test_only_the_most_important_of_many_variables() -> None:
    X = rows(60, 25)
    X[:, 3:8] *= 1e-3
    found = interactions(KernelPCA(5, kernel=RBF(0.02)).fit(X))
    assert_array_equal(found.variables, [0, 1, 2, *range(8, 25)])
    assert "180 weaker pairs" in str(found)


def test_rows_are_drawn_and_the_draw_repeats() -> None:
    X = rows(300)
    model = KernelPCA(3, kernel=RBF(0.2)).fit(X)
    some = interactions(model, max_rows=50, measure="total", permutations=2)
    assert_array_equal(interactions(model, max_rows=50, measure="total", permutations=2).values, some.values)
    assert (
        interactions(model, max_rows=50, measure="total", permutations=2, random_state=1).values != some.values
    ).any()
    assert some.null is not None
    plain = interactions(model, max_rows=50, measure="total")
    assert_allclose(some.values + some.null, plain.values, rtol=1e-12)


# ---- planted pairs: all variables have variance 1 and no correlation, so that linear components say nothing


def product(rng: np.random.Generator) -> np.ndarray:
    X = rng.normal(size=(500, 10))
    X[:, 2] = X[:, 0] * X[:, 1] + 0.4 * X[:, 2]
    return X


def exclusive_or(rng: np.random.Generator) -> np.ndarray:
    X = rng.normal(size=(500, 10))
    signs = rng.choice([-1.0, 1.0], size=(500, 2))
    X[:, :3] = np.column_stack([signs, signs.prod(axis=1)]) + 0.4 * X[:, :3]
    return X


def parabola(rng: np.random.Generator) -> np.ndarray:
    X = rng.normal(size=(500, 10))
    X[:, 1] = (X[:, 0] ** 2 - 1) / np.sqrt(2) + 0.4 * X[:, 1]
    return X


def ring(rng: np.random.Generator) -> np.ndarray:
    X = rng.normal(size=(500, 8))
    angle = rng.uniform(0, 2 * np.pi, 500)
    X[:, :2] = np.column_stack([np.cos(angle), np.sin(angle)]) + 0.15 * X[:, :2]
    return X


THREE = {("x0", "x1"), ("x0", "x2"), ("x1", "x2")}
PLANTED: dict[Draw, set[tuple[str, str]]] = {
    product: THREE,
    exclusive_or: THREE,
    parabola: {("x0", "x1")},
    ring: {("x0", "x1")},
}


def drawn(draw: Draw, seed: int) -> np.ndarray:
    X = draw(np.random.default_rng(seed))
    return (X - X.mean(axis=0)) / X.std(axis=0)


def linear_top(X: np.ndarray, pairs: int, k: int) -> set[tuple[str, str]]:
    """The pairs that load together most on the linear components."""
    pca = PCA(k).fit(X)
    size = np.abs(pca.components_)
    loads = np.einsum("jp,jq,j->pq", size, size, pca.explained_variance_)
    order = sorted(itertools.combinations(range(X.shape[1]), 2), key=lambda pair: -loads[pair])
    return {(f"x{p}", f"x{q}") for p, q in order[:pairs]}


def top(model: KernelPCA, n: int, **options: Any) -> set[tuple[str, str]]:
    return {(a, b) for a, b, _ in interactions(model, max_rows=200, **options).top(n)}


KERNELS: dict[str, Callable[[float], Kernel]] = {
    "poly": lambda _: Polynomial(2, 1.0, 10.0),
    "rbf": lambda median: RBF(sigma=median),
    "wide rbf": lambda median: RBF(sigma=4 * median),
    "matern": lambda median: Matern(1.5, median),
}


@pytest.mark.slow
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("draw", [product, exclusive_or, parabola], ids=lambda draw: draw.__name__)
def test_planted_products_are_the_strongest(draw: Draw, kernel: str) -> None:
    wanted = PLANTED[draw]
    for seed in range(4):
        X = drawn(draw, seed)
        median = float(np.median(pdist(X)))
        for k in (10, 30):
            model = KernelPCA(k, kernel=KERNELS[kernel](median)).fit(X)
            assert top(model, len(wanted)) == wanted, (seed, k)
        assert linear_top(X, len(wanted), 10) != wanted


def test_a_planted_product_is_gone_when_columns_are_permuted() -> None:
    for seed in range(4):
        X = drawn(product, seed)
        apart = np.random.default_rng(seed).permuted(X, axis=0)
        kernel = RBF(sigma=float(np.median(pdist(X))))
        strengths = [interactions(KernelPCA(10, kernel=kernel).fit(part)).top(1)[0][2] for part in (X, apart)]
        assert top(KernelPCA(10, kernel=kernel).fit(apart), 3) != THREE
        assert strengths[0] > 2 * strengths[1]


def test_the_partner_of_a_product_is_what_it_is_equal_to() -> None:
    X = drawn(product, 0)
    found = interactions(KernelPCA(10, kernel=RBF(sigma=float(np.median(pdist(X))))).fit(X))
    assert found.partners is not None
    assert found.partners[0, 1] == 2
    assert found.partners[1, 2] == 0


def test_a_ring_is_above_its_null() -> None:
    for seed in range(4):
        X = drawn(ring, seed)
        model = KernelPCA(8, kernel=RBF(sigma=0.5 * float(np.median(pdist(X))))).fit(X)
        assert top(model, 1, measure="total", permutations=5) == PLANTED[ring]
        assert linear_top(X, 1, 8) != PLANTED[ring]
