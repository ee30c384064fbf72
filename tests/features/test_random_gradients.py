"""Gradients of random features are those of finite differences, for every family, structure and precision."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from kpca import kernels as ours
from kpca._base.errors import InputError
from kpca.features import RandomMap, draw_features, fit_random
from kpca.features.frequencies import draw_projection
from kpca.kernels import Kernel

EACH = (0.3, 0.1, 0.05, 0.2, 0.1)
ANY = ("independent", "orthogonal", "hadamard")
ALONE = ("independent",)
SMOOTH: dict[str, tuple[Kernel, tuple[str, ...]]] = {
    "rbf": (ours.RBF(0.1), ANY),
    "rbf each": (ours.RBF(EACH), ANY),
    "laplacian": (ours.Laplacian(0.2), ALONE),
    "exponential": (ours.Exponential(2.0), ANY),
    "matern 3/2": (ours.Matern(1.5, 2.0), ANY),
    "matern each": (ours.Matern(2.5, (1.0, 2.0, 3.0, 4.0, 5.0)), ANY),
    "rational quadratic": (ours.RationalQuadratic(0.8, 2.0), ANY),
    "linear": (ours.Linear(), ANY),
    "cosine": (ours.Cosine(), ANY),
    "arc_cosine1": (ours.ArcCosine(1), ANY),
    "poly 1": (ours.Polynomial(1, 0.5, 1.0), ALONE),
    "poly 2": (ours.Polynomial(2, 0.5, 1.0), ALONE),
    "poly 5": (ours.Polynomial(5, 0.1, 0.5), ALONE),
    "poly without constant": (ours.Polynomial(3, 0.5, 0.0), ALONE),
    "scaled": (3 * ours.RBF(0.1), ANY),
    "sum": (2 * (ours.RBF(0.1) + 0.5 * ours.Laplacian(0.2)) + ours.ArcCosine(1) + 1, ("independent", "orthogonal")),
    "constants": (ours.Constant(2.0) + ours.Constant(3.0), ALONE),
}
drawn = pytest.mark.parametrize(
    ("kernel", "structure"),
    [pytest.param(kernel, s, id=f"{name}-{s}") for name, (kernel, structures) in SMOOTH.items() for s in structures],
)


def truth(features: RandomMap, X: np.ndarray, G: np.ndarray) -> np.ndarray:
    """Central differences, one column after the other.  # shape: (m, d)"""
    found = np.empty(X.shape)
    for column in range(X.shape[1]):
        step = np.zeros(X.shape[1])
        step[column] = 1e-6
        change = features(X + step) - features(X - step)
        found[:, column] = (G * change).sum(axis=1) / 2e-6
    return found


def data(m: int, d: int, rank: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(m, d)), rng.normal(size=(m, rank))


@drawn
@pytest.mark.parametrize("rank", [24, 71])
def test_as_finite_differences(kernel: Kernel, structure: str, rank: int) -> None:
    X, G = data(6, 5, rank)
    features = draw_features(kernel, 5, rank, structure=structure, seed=1)
    assert features.why_no_pull() is None
    found, expected = features.pull(X, G), truth(features, X, G)
    assert found.dtype == np.float64
    assert_allclose(found, expected, atol=1e-6 * max(np.abs(expected).max(), 1e-3))


@drawn
def test_with_an_origin_and_either_precision(kernel: Kernel, structure: str) -> None:
    X, G = data(6, 5, 30)
    X = X.astype(np.float32).astype(np.float64)
    features = fit_random(kernel, X + 3.0, 30, structure, seed=2)
    expected = truth(features, X, G)
    scale = max(np.abs(expected).max(), 1e-3)
    found = features.pull(X, G)
    assert_allclose(found, expected, atol=1e-6 * scale)
    # The function is the same one for rows of float32, and its gradient is computed in float64 all the same.
    assert_array_equal(features.pull(X.astype(np.float32), G), found)
    kept = draw_features(kernel, 5, 30, structure=structure, seed=2, dtype=np.float32)
    assert_allclose(kept.pull(X, G), truth(kept, X, G), atol=1e-6 * scale)


@drawn
def test_each_feature_by_itself(kernel: Kernel, structure: str) -> None:
    """Weights of one feature at a time give the Jacobian: none of them leaks into another."""
    X, _ = data(1, 5, 1)
    features = draw_features(kernel, 5, 11, structure=structure)
    every = features.pull(np.repeat(X, 11, axis=0), np.eye(11))
    for number in range(11):
        G = np.eye(11)[[number]]
        expected = truth(features, X, G)
        assert_allclose(every[[number]], expected, atol=1e-6 * max(np.abs(expected).max(), 1e-3))


@drawn
def test_bits_repeat_whatever_the_threads(kernel: Kernel, structure: str) -> None:
    X, G = data(2500, 5, 150)
    features = draw_features(kernel, 5, 150, structure=structure)
    one = features.pull(X, G)
    assert_array_equal(features.pull(X, G, threads=3), one)
    # rows do not know each other
    assert_allclose(features.pull(X[1000:1010], G[1000:1010]), one[1000:1010], rtol=1e-10, atol=1e-12)


@given(d=st.integers(1, 90), count=st.integers(1, 200), structure=st.sampled_from(ANY), seed=st.integers(0, 2**32))
def test_back_is_the_transpose_of_into(d: int, count: int, structure: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    projection = draw_projection(rng, d, count, structure, scale=rng.uniform(0.5, 2.0, d))
    W = np.empty((d, count))
    projection.into(np.eye(d), W)
    weights = rng.normal(size=(3, count))
    assert_allclose(projection.back(weights), weights @ W.T, rtol=1e-10, atol=1e-9)


def test_odd_hadamard_blocks() -> None:
    """More columns than the matrix is large, the last block cut short."""
    X, G = data(3, 70, 601)
    features = draw_features(ours.RBF(0.01), 70, 601, structure="hadamard")
    assert_allclose(features.pull(X, G), truth(features, X, G), atol=1e-7)


def test_broadcast_weights_and_no_rows() -> None:
    X, G = data(5, 5, 20)
    features = draw_features(ours.RBF(0.1), 5, 20)
    assert_array_equal(features.pull(X, np.broadcast_to(G[0], (5, 20))), features.pull(X, np.repeat(G[:1], 5, axis=0)))
    assert features.pull(X[:0], G[:0]).shape == (0, 5)


def test_an_offset_far_away_costs_no_digits() -> None:
    X, G = data(8, 5, 40)
    X = np.round(X * 64) / 64
    moved = draw_features(ours.RBF(0.1), 5, 40, seed=5, origin=np.full(5, 2.0**20)).pull(X + 2.0**20, G)
    assert_array_equal(moved, draw_features(ours.RBF(0.1), 5, 40, seed=5, origin=np.zeros(5)).pull(X, G))


def test_rows_of_zeros() -> None:
    _, G = data(1, 5, 20)
    zero = np.zeros((1, 5))
    assert_array_equal(draw_features(ours.Cosine(), 5, 20).pull(zero, G), zero)
    # Half way between both sides of the kink: what central differences say.
    kinked = draw_features(ours.ArcCosine(1), 5, 20)
    assert_allclose(kinked.pull(zero, G), truth(kinked, zero, G), atol=1e-9)


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_cosine_of_tiny_and_huge_rows(size: float) -> None:
    X, G = data(4, 5, 20)
    features = draw_features(ours.Cosine(), 5, 20)
    assert_allclose(features.pull(X * size, G) * size, features.pull(X, G), rtol=1e-12)


def test_the_kernel_gradient_on_average() -> None:
    """grad_x f(x).f(y) is close to grad_x k(x, y)."""
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(20, 3)), rng.normal(size=(20, 3))
    features = draw_features(ours.RBF(0.2), 3, 20_000)
    gap = X - Y
    expected = -0.4 * gap * np.exp(-0.2 * (gap**2).sum(axis=1))[:, None]
    assert_allclose(features.pull(X, features(Y)), expected, atol=0.02)


def test_memory_stays_bounded() -> None:
    m, rank = 20_000, 256
    X, G = data(m, 4, rank)
    features = draw_features(ours.RBF(0.2), 4, rank)
    tracemalloc.start()
    features.pull(X, G)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.3 * G.nbytes


# ---- refusals


@pytest.mark.parametrize(
    ("kernel", "reason"),
    [
        (ours.ArcCosine(0), "steps, flat almost everywhere"),
        (ours.AdditiveChi2(), "infinitely fast where that column is 0"),
        (ours.HistogramIntersection(), "infinitely fast where that column is 0"),
        (ours.RBF(1.0) + 2 * ours.ArcCosine(0), "steps"),
        (3 * (ours.RBF(1.0) + ours.AdditiveChi2()), "infinitely fast"),
    ],
    ids=repr,
)
def test_features_without_gradients_say_so(kernel: Kernel, reason: str) -> None:
    features = draw_features(kernel, 3, 10)
    assert reason in (features.why_no_pull() or "")
    with pytest.raises(InputError, match=f"Gradients need features that are smooth.*{reason}.*: take landmarks"):
        features.pull(np.ones((2, 3)), np.ones((2, 10)))


@pytest.mark.parametrize(
    ("X", "G", "message"),
    [
        (np.ones((2, 4)), np.ones((2, 10)), r"X must have 3 features, as drawn for; got shape \(2, 4\)"),
        (np.ones(3), np.ones((1, 10)), "X must have 3 features"),
        (np.ones((2, 3)), np.ones((2, 9)), r"G must have one weight per row and feature, \(2, 10\); got \(2, 9\)"),
        (np.ones((2, 3)), np.ones((1, 10)), "G must have one weight per row"),
        (sparse.csr_array(np.ones((2, 3))), np.ones((2, 10)), "must be given a dense array"),
    ],
)
def test_wrong_arguments(X: Any, G: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        draw_features(ours.RBF(1.0), 3, 10).pull(X, G)
