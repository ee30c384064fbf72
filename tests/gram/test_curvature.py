"""Mixed second derivatives of every kernel against differences of gradients, and on data that would break them."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_table import EACH, FEATURES, RADIAL, SMOOTH
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import pdist

from kpca.gram import _nodes, slopes
from kpca.gram.slopes import Slopes
from kpca.kernels import (
    RBF,
    ArcCosine,
    Cosine,
    Exponential,
    Kernel,
    Laplacian,
    Linear,
    Matern,
    Polynomial,
    RadialKernel,
    RationalQuadratic,
)

PAIRS = [*itertools.combinations(range(FEATURES), 2), (2, 2), (0, 0), (3, 1)]
smooth = pytest.mark.parametrize("name", SMOOTH)
radial = pytest.mark.parametrize("name", RADIAL)


def problem(name: str, n: int = 12, m: int = 7, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, new rows and weights of three components."""
    rng = np.random.default_rng(seed)
    B, Z, A = rng.normal(size=(n, FEATURES)), rng.normal(size=(m, FEATURES)), rng.normal(size=(n, 3))
    if name == "poly of degree 2.5":  # where the base is positive
        B, Z = np.abs(B), np.abs(Z)
    return B, Z, A


def near(actual: Any, expected: Any, tol: float, floor: float = 1e-8) -> None:
    """Equal up to tol of the largest, which counts as at least `floor`."""
    assert_allclose(actual, expected, rtol=0, atol=tol * max(float(np.abs(expected).max(initial=0.0)), floor))


def slow_mixed(kernel: Kernel, B: Any, Z: Any, A: Any, pairs: Any = PAIRS) -> np.ndarray:
    """Central differences of gradients, fourth order: (8 (g(h) - g(-h)) - (g(2h) - g(-2h))) / 12h."""
    gradients = Slopes(kernel, B)
    out = np.empty((len(Z), A.shape[1], len(pairs)))
    for j, (e, (p, q)) in itertools.product(range(A.shape[1]), enumerate(pairs)):
        weights = np.tile(A[:, j], (len(Z), 1))
        h = 2e-4 * np.eye(Z.shape[1])[q]
        g = {s: gradients.contract(Z + s * h, weights)[1][:, p] for s in (-2, -1, 1, 2)}
        out[:, j, e] = (8 * (g[1] - g[-1]) - (g[2] - g[-2])) / (12 * h[q])
    return out


@smooth
def test_mixed_derivatives_are_those_of_the_gradients(name: str) -> None:
    B, Z, A = problem(name)
    mixed = Slopes(SMOOTH[name], B).mixed(Z, A, PAIRS)
    assert mixed.shape == (len(Z), 3, len(PAIRS))
    near(mixed, slow_mixed(SMOOTH[name], B, Z, A), 1e-9 if "each" not in name else 1e-5, floor=1e-3)


@pytest.mark.parametrize(
    ("kernel", "name", "options"),
    [
        (RBF(0.7), "rbf", {"gamma": 0.7}),
        (RBF(EACH), "rbf", {"gamma": EACH}),
        (Exponential(EACH), "exponential", {"gamma": 0.5 / np.square(EACH)}),
        (Polynomial(3, 0.7, 1.5), "poly", {"gamma": 0.7, "degree": 3, "coef0": 1.5}),
        (Polynomial(2, 2.0, 0.0), "poly", {"gamma": 2.0, "degree": 2, "coef0": 0.0}),
    ],
)
def test_mixed_derivatives_are_those_by_hand(kernel: Kernel, name: str, options: dict[str, Any]) -> None:
    B, Z, A = problem(name)
    near(Slopes(kernel, B).mixed(Z, A, PAIRS), reference.mixed_derivatives(name, Z, B, A, PAIRS, **options), 2e-14)


@smooth
def test_the_order_of_a_pair_does_not_matter(name: str) -> None:
    B, Z, A = problem(name)
    mixed = Slopes(SMOOTH[name], B)
    near(mixed.mixed(Z, A, [(p, q) for q, p in PAIRS]), mixed.mixed(Z, A, PAIRS), 1e-13)


@smooth
def test_products_of_all_pairs_agree_with_one_matrix_for_each(name: str) -> None:
    """Where there is a short cut, it gives what the matrices d^2 k / dz^p dz^q give."""
    B, Z, A = problem(name)
    local = Slopes(SMOOTH[name], B)._node.at(Z, exact=True)
    plain = np.stack([local.second(p, q) @ A for p, q in PAIRS], axis=2)
    near(local.contracted(A, PAIRS), plain, 1e-13)


@smooth
def test_rows_and_pairs_in_pieces_and_on_threads(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    B, Z, A = problem(name, n=40, m=30)
    whole = Slopes(SMOOTH[name], B).mixed(Z, A, PAIRS)
    monkeypatch.setattr(slopes, "rows_per_tile", lambda n: 4)
    monkeypatch.setattr(_nodes, "_NUMBERS_AT_ONCE", 40 * 3)  # one pair at a time
    pieces = Slopes(SMOOTH[name], B).mixed(Z, A, PAIRS)
    near(pieces, whole, 1e-12)
    assert_array_equal(Slopes(SMOOTH[name], B).mixed(Z, A, PAIRS, threads=2), pieces)


def test_no_pairs_and_no_rows() -> None:
    B, Z, A = problem("rbf")
    assert Slopes(RBF(1.0), B).mixed(Z, A, []).shape == (len(Z), 3, 0)
    assert Slopes(RBF(1.0), B).mixed(Z[:0], A, PAIRS).shape == (0, 3, len(PAIRS))


def test_kernels_without_gradients_are_refused() -> None:
    B, _, _ = problem("rbf")
    with pytest.raises(TypeError, match="laplacian kernel has no gradient"):
        Slopes(RBF(1.0) + Laplacian(1.0), B)


def test_the_linear_kernel_has_none() -> None:
    B, Z, A = problem("linear")
    assert_array_equal(Slopes(2.0 * Linear() + 1.0, B).mixed(Z, A, PAIRS), 0.0)


@radial
@pytest.mark.parametrize(("dtype", "offset"), [(np.float64, 1e6), (np.float32, 1e3)])
def test_an_offset_costs_no_digits(name: str, dtype: Any, offset: float) -> None:
    B, Z, A = problem(name)
    B, Z = (B + offset).astype(dtype), (Z + offset).astype(dtype)  # rounded: what is left is the truth
    expected = Slopes(SMOOTH[name], B.astype(np.float64) - offset).mixed(Z.astype(np.float64) - offset, A, PAIRS)
    near(Slopes(SMOOTH[name], B).mixed(Z, A, PAIRS), expected, 1e-9)


@pytest.mark.parametrize("kernel", [RBF(0.7), RBF(EACH), Matern(2.5, 2.2), Matern(1.5), Exponential(1.7)], ids=repr)
def test_far_clusters_keep_close_pairs(kernel: RadialKernel) -> None:
    """Two clusters at 1e6: multiplied out, (b - z)_p (b - z)_q would be a difference of numbers of size 1e12."""
    B, Z, A = problem("")
    B[::2] += 2e6
    Z[::2] += 2e6
    here = Slopes(kernel, B[::2] - 2e6).mixed(Z[::2] - 2e6, A[::2], PAIRS)
    near(Slopes(kernel, B).mixed(Z, A, PAIRS)[::2], here, 1e-8)


@pytest.mark.parametrize("kernel", [Exponential(1.3), Matern(0.5, 0.2), 2.0 * Exponential(EACH)], ids=repr)
def test_rows_on_the_kink_do_not_count(kernel: Kernel) -> None:
    B, Z, A = problem("")
    B[3] = B[2]
    Z[0] = B[2]
    others = np.delete(np.arange(len(B)), [2, 3])
    near(
        Slopes(kernel, B).mixed(Z[:1], A, PAIRS),
        Slopes(kernel, B[others]).mixed(Z[:1], A[others], PAIRS),
        1e-12,
    )


@pytest.mark.parametrize(
    "kernel", [RBF(0.4), Matern(1.5, 0.8), Matern(2.5, 1.2), RationalQuadratic(0.7, 2.0)], ids=repr
)
def test_smooth_profiles_count_where_rows_coincide(kernel: RadialKernel) -> None:
    """There the second derivative is -2 f'(0) s^2 for p = q and 0 otherwise, although f'' of Matern 3/2 is infinite."""
    B, _, _ = problem("")
    mixed = Slopes(kernel, B[:1]).mixed(B[:1], np.ones((1, 1)), [(1, 1), (0, 1)])
    factor = float(kernel.prepare(np.ones((1, 1)))[0, 0])
    near(mixed.ravel(), [-2 * kernel.derivative(np.zeros(1))[0] * factor**2, 0.0], 1e-13)


@pytest.mark.parametrize("kernel", [Cosine(), ArcCosine(0), ArcCosine(1)], ids=repr)
def test_directions_of_zeros_and_rows_that_agree(kernel: Kernel) -> None:
    B, Z, A = problem("")
    B[1] = 0.0
    Z[0] = 0.0
    Z[1] = 3.0 * B[4]
    mixed = Slopes(kernel, B).mixed(Z, A, PAIRS)
    assert np.isfinite(mixed).all()
    assert_array_equal(mixed[0], 0.0)
    rest = np.delete(np.arange(len(B)), [1, 4])  # rows of zeros change nothing, and a row in the same direction
    near(Slopes(kernel, B[rest]).mixed(Z[2:], A[rest], PAIRS) + lone(kernel, B[4], Z[2:], A[4]), mixed[2:], 1e-12)
    if kernel == ArcCosine(0):
        near(mixed[1:2], Slopes(kernel, B[rest]).mixed(Z[1:2], A[rest], PAIRS), 1e-6)


def lone(kernel: Kernel, b: np.ndarray, Z: np.ndarray, a: np.ndarray) -> np.ndarray:
    return Slopes(kernel, b[None]).mixed(Z, a[None], PAIRS)


@given(
    name=st.sampled_from(sorted(SMOOTH)),
    power=st.floats(-3, 3),
    far=st.floats(0, 6),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=150)
def test_finite_on_hostile_rows(name: str, power: float, far: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    B = rng.normal(size=(15, FEATURES))
    B[5:9] = B[4]
    B[:, 2] = 0.5
    B *= 10.0**power / np.median(pdist(B))
    Z = np.concatenate([B[:6], np.zeros((1, FEATURES)), B[:3] * 10**far, B[9:11] + 1e-7])
    A = rng.normal(size=(len(B), 2))
    if name == "poly of degree 2.5":
        B, Z = np.abs(B), np.abs(Z)
    assert np.isfinite(Slopes(SMOOTH[name], B).mixed(Z, A, PAIRS)).all()


@radial
def test_rows_beyond_squares(name: str) -> None:
    B, Z, A = problem(name)
    Z = np.concatenate([Z * 1e200, Z * 1e-200, B + 1e-200])
    assert np.isfinite(Slopes(SMOOTH[name], B).mixed(Z, A, PAIRS)).all()
