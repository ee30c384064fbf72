"""Pre-images by descent: against models built by hand, slopes at the result, limits, and data that would break them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_table import tuned_kernels
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from scipy.spatial.distance import pdist

from kpca._base.errors import InputError
from kpca.kernels import (
    RBF,
    Cosine,
    Kernel,
    Laplacian,
    Linear,
    Matern,
    Polynomial,
    Sigmoid,
)
from kpca.preimage.descent import Point, descend
from kpca.preimage.gradient import Gradient, GradientWay
from kpca.preimage.target import Expansion, PreimageTarget

KERNELS: dict[str, Kernel] = tuned_kernels(
    *("rbf", "exponential", "matern32", "matern52", "rational_quadratic", "linear", "poly", "sigmoid"),
    *("cosine", "arc_cosine0", "arc_cosine1"),
) | {
    "rbf each": RBF((0.3, 0.1, 0.8)),
    "poly 3": Polynomial(3, 0.5, 1.0),
    "poly 4 homogeneous": Polynomial(4, 0.5, 0.0),
    "sum": RBF(0.3) + 0.1 * Linear(),
    "product": (1.0 + Linear()) * Matern(1.5, 2.0),
}
# The others have kinks, or (sigmoid) objectives that may have no minimum.
SMOOTH = [name for name in KERNELS if name not in ("exponential", "arc_cosine0", "arc_cosine1", "sigmoid")]
every = pytest.mark.parametrize("name", KERNELS)


def rows(n: int = 25, seed: int = 0, d: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, d))


def model(kernel: Kernel, X: Any, k: int | None = None) -> Expansion:
    return Expansion(kernel, **reference.expansion(kernel, X, k))


def way(expansion: Expansion, **settings: Any) -> GradientWay:
    target = PreimageTarget(expansion.kernel, expansion.rows, expansion.scores, None, expansion)
    return Gradient(**settings).fitted(target, seed=0, threads=1)


def scores_of(expansion: Expansion, Z: Any) -> np.ndarray:
    return expansion.kernel.block(Z, expansion.rows) @ expansion.directions - expansion.offset


def objective(expansion: Expansion, Z: Any, scores: Any) -> np.ndarray:
    g = expansion.coefficients(scores)
    return np.array(
        [reference.feature_distance(expansion.kernel, z, expansion.rows, w) for z, w in zip(Z, g, strict=True)]
    )


def slopes(expansion: Expansion, Z: Any, scores: Any, h: float = 1e-5) -> np.ndarray:
    steps = h * np.eye(Z.shape[1])
    return np.stack(
        [(objective(expansion, Z + e, scores) - objective(expansion, Z - e, scores)) / (2 * h) for e in steps], axis=1
    )


# ---- the right answers


@pytest.mark.parametrize(
    "name",
    ["rbf", "rbf each", "exponential", "matern32", "matern52", "rational_quadratic", "linear", "poly 3", "sum"],
)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_at_full_rank_a_training_row_comes_back(name: str, dtype: Any) -> None:
    X = rows().astype(dtype)
    expansion = model(KERNELS[name], X)
    found = way(expansion)(expansion.scores, inputs=None)
    assert found.rows.dtype == dtype
    assert found.converged.all() and not found.fallbacks
    assert_allclose(found.rows, X, atol=1e-4 * np.abs(X).max())


@pytest.mark.parametrize(
    "name", ["rbf", "rbf each", "matern32", "matern52", "rational_quadratic", "linear", "poly 3", "sum", "product"]
)
def test_at_full_rank_a_training_row_is_found_from_beside_it(name: str) -> None:
    X = rows()
    expansion = model(KERNELS[name], X)
    found = way(expansion)(expansion.scores, start=X + 0.2 * rows(seed=1))
    assert found.converged.all()
    assert_allclose(found.rows, X, atol=1e-4 * np.abs(X).max())


def test_linear_is_the_reconstruction_of_pca() -> None:
    X, Z = rows(d=5), rows(seed=1, d=5)
    expansion = model(Linear(), X, 2)
    _, V = np.linalg.eigh(np.cov(X.T))
    V = V[:, -2:]
    expected = X.mean(axis=0) + (Z - X.mean(axis=0)) @ V @ V.T
    for inputs in (None, Z):
        assert_allclose(way(expansion)(scores_of(expansion, Z), inputs=inputs).rows, expected, atol=1e-6)


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("with_inputs", [False, True])
def test_the_slope_is_zero_at_the_result(name: str, with_inputs: bool) -> None:
    expansion, Z = model(KERNELS[name], rows(), 2), rows(seed=1)
    scores = scores_of(expansion, Z)
    found = way(expansion)(scores, inputs=Z if with_inputs else None)
    assert found.converged.all() and not found.fallbacks
    before = np.abs(slopes(expansion, Z, scores)).max()
    assert np.abs(slopes(expansion, found.rows, scores)).max() < 2e-5 * before


@every
def test_never_above_any_start(name: str) -> None:
    expansion, Z = model(KERNELS[name], rows(), 3), rows(seed=1)
    scores = scores_of(expansion, Z)
    reached = objective(expansion, way(expansion)(scores, inputs=Z).rows, scores)
    known = np.array([objective(expansion, np.tile(b, (len(Z), 1)), scores) for b in expansion.rows]).min(axis=0)
    lowest = np.minimum(known, objective(expansion, Z, scores))
    assert (reached <= lowest + 1e-12 * np.abs(lowest)).all()
    start = rows(seed=2)
    refined = objective(expansion, way(expansion)(scores, start=start).rows, scores)
    assert (refined <= objective(expansion, start, scores) + 1e-12).all()
    assert (refined < objective(expansion, start, scores) - 1e-3).any()


@pytest.mark.parametrize("name", SMOOTH)
def test_each_row_is_what_scipy_finds(name: str) -> None:
    expansion, Z = model(KERNELS[name], rows(), 3), rows(6, seed=1)
    scores = scores_of(expansion, Z)
    found = way(expansion)(scores, start=Z)
    agree = 0
    for z, t, row in zip(Z, scores, found.rows, strict=True):
        truth = minimize(lambda y, t=t: objective(expansion, y[None], t[None])[0], z, method="BFGS")
        ours = objective(expansion, row[None], t[None])[0]
        agree += ours <= truth.fun + 1e-6 * abs(truth.fun)
    assert agree >= len(Z) - 1  # one may end in another valley


def test_gains_lengthen_what_is_looked_for() -> None:
    expansion, Z = model(RBF(0.3), rows(), 3), rows(6, seed=1)
    scores, gains = scores_of(expansion, Z), np.linspace(0.5, 3.0, 6)
    expected = way(expansion)(expansion.amplified(scores, gains)).rows
    assert_array_equal(expansion.amplified(scores, None), scores)
    assert np.abs(way(expansion)(scores).rows - expected).max() > 1e-2


def test_cosine_keeps_the_length_of_the_start() -> None:
    expansion, start = model(Cosine(), rows(), 2), 7.0 * rows(seed=1)
    found = way(expansion)(scores_of(expansion, rows(seed=3)), start=start)
    assert_allclose(np.linalg.norm(found.rows, axis=1), np.linalg.norm(start, axis=1), rtol=1e-12)
    assert np.abs(found.rows - start).max() > 0.1


# ---- equivariance, batches, threads


@pytest.mark.parametrize("name", ["rbf", "matern32", "rational_quadratic"])
def test_an_offset_comes_back(name: str) -> None:
    X, Z = rows(), rows(seed=1)
    expansion = model(KERNELS[name], X, 3)
    scores = scores_of(expansion, Z)
    expected = way(expansion)(scores, inputs=Z).rows
    other = model(KERNELS[name], X + 1e6, 3)
    signs = np.sign((other.scores * expansion.scores).sum(axis=0))
    moved = way(other)(scores * signs, inputs=Z + 1e6).rows - 1e6
    assert_allclose(moved, expected, atol=1e-4)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_scaled_data_have_scaled_pre_images(scale: float) -> None:
    X, Z = rows(), rows(seed=1)
    expansion, other = model(RBF(0.3), X, 3), model(RBF(0.3 / scale**2), X * scale, 3)
    scores = scores_of(expansion, Z)
    signs = np.sign((expansion.scores * other.scores).sum(axis=0))
    found = way(other)(scores * signs, inputs=Z * scale).rows
    assert_allclose(found / scale, way(expansion)(scores, inputs=Z).rows, atol=1e-5)


@every
def test_a_row_alone_is_the_row_in_company(name: str) -> None:
    expansion, Z = model(KERNELS[name], rows(), 3), rows(40, seed=1)
    scores = scores_of(expansion, Z)
    together = way(expansion)(scores, inputs=Z).rows
    alone = np.concatenate([way(expansion)(scores[i : i + 1], inputs=Z[i : i + 1]).rows for i in range(40)])
    # Kinks decide by rounding how they are approached
    assert_allclose(alone, together, atol=1e-4 if name in SMOOTH else 1e-2)


def test_threads_change_no_bit() -> None:
    expansion, Z = model(RBF(0.3), rows(), 3), rows(1200, seed=1)  # three tiles
    scores = scores_of(expansion, Z)
    one, two = (way(expansion)(scores, inputs=Z, threads=threads) for threads in (1, 2))
    assert_array_equal(one.rows, two.rows)
    assert_array_equal(one.iterations, two.iterations)


# ---- limits


@every
def test_box_is_kept_and_its_edges_are_stationary(name: str) -> None:
    expansion, Z = model(KERNELS[name], rows(), 2), rows(seed=1)
    scores = scores_of(expansion, Z)
    low, high = np.array([-0.4, -np.inf, 0.0]), np.array([0.4, 0.3, 0.0])
    found = way(expansion, box=(low, high))(scores, inputs=Z).rows
    assert (found >= low).all() and (found <= high).all()
    if name in SMOOTH:
        slope = slopes(expansion, found, scores)
        held = ((found <= low) & (slope > 0)) | ((found >= high) & (slope < 0))
        assert held.any() and not held[:, :2].all()
        assert np.abs(np.where(held, 0.0, slope)).max() < 1e-4 * np.abs(slopes(expansion, Z, scores)).max()


@pytest.mark.parametrize("name", SMOOTH)
def test_penalty_leads_to_the_input(name: str) -> None:
    expansion, Z = model(KERNELS[name], rows(), 2), rows(seed=1)
    scores = scores_of(expansion, Z)
    gaps = [np.linalg.norm(way(expansion, penalty=p)(scores, inputs=Z).rows - Z) for p in (0.0, 1.0, 1e9)]
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < 1e-5
    assert_array_equal(way(expansion, penalty=1.0)(scores).rows, way(expansion)(scores).rows)  # no inputs, no pull


def test_penalty_is_in_the_scale_of_the_kernel() -> None:
    """At the result the slope of the objective is that of the pull, 2 penalty |z' - x'|^2."""
    gamma, penalty = np.array([0.3, 0.1, 0.8]), 0.05
    expansion, Z = model(RBF(gamma), rows(), 2), rows(seed=1)
    scores = scores_of(expansion, Z)
    found = way(expansion, penalty=penalty)(scores, inputs=Z).rows
    assert_allclose(slopes(expansion, found, scores), -4 * penalty * gamma * (found - Z), atol=1e-5)


@pytest.mark.parametrize("name", ["cosine", "sum"])
def test_penalty_is_in_the_spread_of_the_data_without_a_scale(name: str) -> None:
    expansion, Z = model(KERNELS[name], rows(), 2), rows(seed=1)
    scores, spread = scores_of(expansion, Z), rows().var(axis=0).sum()
    found = way(expansion, penalty=0.05)(scores, inputs=Z).rows
    regular = np.linalg.norm(found, axis=1) > 0.05  # at zero, where a direction may turn round, cosine has no slope
    assert regular.sum() >= len(Z) - 1
    slope = slopes(expansion, found, scores)[regular]
    assert_allclose(slope, -4 * 0.05 / spread * (found - Z)[regular], atol=1e-5)


# ---- hostile


@pytest.mark.slow
@given(
    name=st.sampled_from(sorted(KERNELS)),
    power=st.floats(-3, 3),
    seed=st.integers(0, 2**32 - 1),
    k=st.integers(1, 6),
    single=st.booleans(),
    given_inputs=st.booleans(),
)
@settings(max_examples=200)
def test_finite_whatever_the_bandwidth(
    name: str, power: float, seed: int, k: int, single: bool, given_inputs: bool
) -> None:
    X = rows(14, seed)
    X[4:7] = X[3]
    X[:, 2] *= 1e-3
    X *= 10.0**power / np.median(pdist(X))
    X = X.astype(np.float32 if single else np.float64)
    with np.errstate(invalid="ignore"):
        expansion = model(KERNELS[name], X.astype(np.float64), k)
    if not np.isfinite(expansion.directions).all():  # sigmoid: not that many positive eigenvalues
        return
    Z = np.concatenate([X[:5], 3.0 * X[5:8], np.zeros((1, 3), X.dtype), 1e3 * X[:1]])
    scores = scores_of(expansion, Z)
    found = way(expansion)(scores, inputs=Z if given_inputs else None)
    assert np.isfinite(found.rows).all()
    assert expansion.kernel.shift_invariant or not found.fallbacks
    known = np.array([objective(expansion, np.tile(b, (len(Z), 1)), scores) for b in expansion.rows]).min(axis=0)
    reached = objective(expansion, found.rows, scores)
    noise = np.abs(expansion.coefficients(scores)).sum(axis=1) * np.abs(expansion.diagonal).max()
    assert (reached <= known + 1e-10 * (1 + noise)).all()


def test_what_is_least_at_infinity_stays_at_its_start() -> None:
    """All coefficients are negative: the farther from everything, the better."""
    X = rows()
    n = len(X)
    zeros, ones = np.zeros(n), np.ones(n)
    expansion = Expansion(RBF(0.3), X, np.zeros((n, 1)), -ones / n, np.zeros(1), zeros[:, None], zeros, ones, 0.0)
    found = way(expansion)(np.zeros((n, 1)), start=X)
    left = found.fallbacks["the descent left the data far behind, and its start is returned"]
    assert left.any() and not found.converged[left].any()
    assert_allclose(found.rows[left], X[left], rtol=1e-14)


@pytest.mark.parametrize("kernel", [Sigmoid(0.1, 0.5), Sigmoid(2.0, -0.5), Polynomial(3, 0.5, -1.0)])
@pytest.mark.parametrize("box", [None, (-0.5, 0.7)])
def test_indefinite_kernels_stay_near_the_data(kernel: Kernel, box: Any) -> None:
    X, Z = rows(), rows(seed=1)
    expansion = model(kernel, X, 2)
    scores = scores_of(expansion, Z)
    found = way(expansion, box=box)(scores, inputs=Z)
    assert found.converged.mean() > 0.9 and not found.fallbacks
    width = np.ptp(X, axis=0)
    low, high = X.min(axis=0) - width / 2, X.max(axis=0) + width / 2
    if box is not None:
        low, high = np.maximum(low, box[0]), np.minimum(high, box[1])
    assert (found.rows >= low).all() and (found.rows <= high).all()
    slope = slopes(expansion, found.rows, scores)
    held = ((found.rows <= low + 1e-12) & (slope > 0)) | ((found.rows >= high - 1e-12) & (slope < 0))
    before = np.abs(slopes(expansion, Z, scores)).max()
    assert np.abs(np.where(held, 0.0, slope))[found.converged].max() < 1e-4 * before


def test_an_indefinite_kernel_obeys_a_box_far_from_the_data() -> None:
    expansion = model(Sigmoid(0.1, 0.5), rows(), 2)
    found = way(expansion, box=(50.0, 51.0))(expansion.scores).rows
    assert (found >= 50.0).all() and (found <= 51.0).all()


def test_rows_that_are_all_alike() -> None:
    X = np.ones((5, 3))
    expansion = Expansion(
        RBF(1.0), X, np.zeros((5, 1)), np.full(5, 0.2), np.zeros(1), np.zeros((5, 1)), np.ones(5), np.ones(5), 1.0
    )
    assert_allclose(way(expansion)(np.zeros((2, 1))).rows, 1.0, atol=1e-6)


def test_no_start_is_recorded() -> None:
    X = np.abs(rows())
    expansion = model(Polynomial(2.5, 1.0, 0.0), X, 2)
    found = way(expansion)(expansion.scores[:3], start=-0.3 * X[:3])  # no power of a negative number
    (sentence, failed), *rest = found.fallbacks.items()
    assert "no finite number at the start" in sentence and failed.all() and not rest
    assert not found.converged.any()
    assert_allclose(found.rows, -0.3 * X[:3], rtol=1e-14)


def test_scores_that_are_no_numbers_give_rows_that_are() -> None:
    expansion = model(RBF(0.3), rows(), 3)
    scores = expansion.scores[:3].copy()
    scores[1] = np.nan
    found = way(expansion)(scores, start=np.array([[1.0, 2.0, 3.0], [0.0, 0.0, 0.0], [np.inf, 0.0, 0.0]]))
    assert np.isfinite(found.rows).all()
    (one, unknown), (two, failed) = sorted(found.fallbacks.items(), reverse=True)
    assert "start given is not finite" in one and "no finite number at the start" in two
    assert_array_equal(unknown, [False, False, True])
    assert_array_equal(failed, [False, True, False])


def test_no_scores_no_rows() -> None:
    found = way(model(RBF(0.3), rows(), 3))(np.empty((0, 3)))
    assert found.rows.shape == (0, 3) and found.iterations.shape == found.converged.shape == (0,)


def test_max_iter_ends_it() -> None:
    expansion, Z = model(RBF(0.3), rows(), 3), rows(seed=1)
    found = way(expansion, max_iter=1)(scores_of(expansion, Z), start=Z)
    assert found.iterations.max() == 1
    assert not found.converged.all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tol": 0.0}, "tol must be a positive number; got 0.0"),
        ({"tol": "x"}, "tol must be a positive number"),
        ({"max_iter": 0}, "max_iter must be a whole number from 1; got 0"),
        ({"max_iter": 1.5}, "max_iter must be a whole number"),
        ({"penalty": -1.0}, "penalty must be"),
        ({"box": (1.0, 0.0)}, "box must have low <= high"),
    ],
)
def test_settings_are_checked(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        way(model(RBF(0.3), rows(), 2), **settings)


def test_kernels_without_gradients_are_refused() -> None:
    with pytest.raises(InputError, match=r"^preimage='gradient' needs .*the laplacian kernel has no gradient.*ridge"):
        way(model(Laplacian(0.3), rows(), 2))
    expansion = model(RBF(0.3), rows(), 2)
    with pytest.raises(InputError, match="needs a model that is a combination of known rows"):
        Gradient().fitted(PreimageTarget(expansion.kernel, rows(), expansion.scores, None, None), seed=0, threads=1)


# ---- the descent itself


def rosenbrock(Y: np.ndarray, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A curved valley of a steepness of its own for each row, with the minimum at (1, 1)."""
    steep = 10.0 ** (numbers % 4)
    x, y = Y.T
    values = (1 - x) ** 2 + steep * (y - x**2) ** 2
    return values, np.stack([-2 * (1 - x) - 4 * steep * x * (y - x**2), 2 * steep * (y - x**2)], axis=1)


def test_descent_through_curved_valleys() -> None:
    start = 2.0 * rows(40, d=2)
    found = descend(rosenbrock, Point(start, *rosenbrock(start, np.arange(40))), None, max_iter=500, tol=1e-8)
    assert found.converged.all()
    assert_allclose(found.rows, 1.0, atol=1e-5)


def test_descent_within_bounds_is_scipys() -> None:
    bounds = np.array([-0.5, -np.inf]), np.array([0.6, 0.2])
    start = (2.0 * rows(40, d=2)).clip(*bounds)
    found = descend(rosenbrock, Point(start, *rosenbrock(start, np.arange(40))), bounds, max_iter=500, tol=1e-8)
    assert found.converged.all()
    for i, row in enumerate(found.rows):
        truth = minimize(
            lambda y, i=i: [part[0] for part in rosenbrock(y[None], np.array([i]))],
            start[i],
            jac=True,
            method="L-BFGS-B",
            bounds=np.transpose(bounds),
            options={"ftol": 1e-15, "gtol": 1e-10},
        )
        assert rosenbrock(row[None], np.array([i]))[0][0] <= truth.fun + 1e-7
