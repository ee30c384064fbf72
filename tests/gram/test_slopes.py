"""Gradients of every kernel against differences of its values, and on data that would break them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_table import EACH, FEATURES, RADIAL, SMOOTH
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import pdist
from sklearn.gaussian_process import kernels as gp

from kpca import kernels
from kpca.gram.slopes import Slopes, rows_per_tile, why_not
from kpca.kernels import RBF, ArcCosine, Cosine, Exponential, Kernel, Linear, Matern, from_gaussian_process

smooth = pytest.mark.parametrize("name", SMOOTH)
radial = pytest.mark.parametrize("name", RADIAL)


def data(n: int = 12, m: int = 7, seed: int = 0, d: int = FEATURES) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)), rng.normal(size=(m, d)), rng.normal(size=(m, n))


def slow_gradients(kernel: Kernel, B: Any, Z: Any, W: Any) -> np.ndarray:
    """Central differences of sum_j W_ij k(z_i, b_j), one coordinate of one row at a time."""
    gradients = np.empty(Z.shape)
    for i, m in np.ndindex(*Z.shape):
        h = 1e-6 * max(1.0, float(np.abs(Z[i]).max()))
        up, down = Z[i].copy(), Z[i].copy()
        up[m] += h
        down[m] -= h
        gap = up[m] - down[m]  # what rounding left of 2h
        gradients[i, m] = W[i] @ (kernel.block(up[None], B) - kernel.block(down[None], B))[0] / gap
    return gradients


def slow_own(kernel: Kernel, Z: Any, h: float = 1e-6) -> np.ndarray:
    steps = h * np.eye(Z.shape[1])
    return np.stack([(kernel.diagonal(Z + e) - kernel.diagonal(Z - e)) / (2 * h) for e in steps], axis=1)


def near(actual: Any, expected: Any, tol: float, floor: float = 1e-8) -> None:
    """Equal up to tol of the largest, which counts as at least `floor`."""
    assert_allclose(actual, expected, rtol=0, atol=tol * max(float(np.abs(expected).max(initial=0.0)), floor))


def test_every_kernel_with_gradients_is_in_the_table() -> None:
    def types(kernel: Kernel) -> set[type]:
        return {type(kernel)}.union(*(types(member) for member in getattr(kernel, "members", ())))

    seen = set().union(*(types(kernel) for kernel in SMOOTH.values()))
    concrete = {getattr(kernels, name) for name in kernels.__all__ if isinstance(getattr(kernels, name), type)}
    without = {kernels.Laplacian, kernels.AdditiveChi2, kernels.Chi2, kernels.HistogramIntersection}
    without |= {kernels.PairwiseCallable, kernels.VectorisedCallable, kernels.GaussianProcess}
    abstract = {kernels.Kernel, kernels.ProfileKernel, kernels.RadialKernel, kernels.DotKernel, kernels.Composite}
    assert concrete - without - abstract <= seen


@smooth
def test_sums_and_gradients_are_those_of_the_values(name: str) -> None:
    kernel = SMOOTH[name]
    B, Z, W = data()
    sums, gradients = Slopes(kernel, B).contract(Z, W)
    near(sums, (W * kernel.block(Z, B)).sum(axis=1), 1e-13)
    near(gradients, slow_gradients(kernel, B, Z, W), 2e-8)


@smooth
def test_own_value_and_its_gradient(name: str) -> None:
    kernel = SMOOTH[name]
    B, Z, _ = data()
    values, gradients = Slopes(kernel, B).own(Z)
    near(values, kernel.diagonal(Z), 1e-14)
    near(gradients, slow_own(kernel, Z), 2e-8, floor=0.1)


@smooth
def test_shifted_is_less_a_constant(name: str) -> None:
    kernel = SMOOTH[name]
    B, Z, W = data()
    plain, shifted = Slopes(kernel, B), Slopes(kernel, B, shifted=True)
    assert plain.constant == 0.0
    near(shifted.contract(Z, W)[0] + shifted.constant * W.sum(axis=1), plain.contract(Z, W)[0], 1e-13)
    assert_array_equal(shifted.contract(Z, W)[1], plain.contract(Z, W)[1])
    near(shifted.own(Z)[0] + shifted.constant, plain.own(Z)[0], 1e-15)


@radial
def test_shifted_keeps_the_digits_of_wide_kernels(name: str) -> None:
    B, Z, W = data()
    kernel = SMOOTH[name]
    slopes = Slopes(kernel, B * 1e-9, shifted=True)
    assert slopes.constant > 0
    sums, _ = slopes.contract(Z * 1e-9, W)
    doubled, _ = slopes.contract(Z * 2e-9, W)
    assert np.unique(sums).size == len(Z)  # values less f(0) are 1e-18 for smooth profiles, not 0
    assert np.all(np.isfinite(doubled))


@smooth
def test_float32_rows_are_worked_on_in_float64(name: str) -> None:
    kernel = SMOOTH[name]
    single = [part.astype(np.float32) for part in data()]
    B, Z, W = (part.astype(np.float64) for part in single)
    slopes, wide = Slopes(kernel, single[0]), Slopes(kernel, B)
    for found, expected in zip(
        (*slopes.contract(*single[1:]), *slopes.own(single[1]), slopes.jacobian(single[1], single[2].T)),
        (*wide.contract(Z, W), *wide.own(Z), wide.jacobian(Z, W.T)),
        strict=True,
    ):
        assert_array_equal(found, expected)
        assert found.dtype == np.float64


@pytest.mark.slow
@smooth
def test_many_rows_are_worked_on_in_tiles(name: str) -> None:
    kernel = SMOOTH[name]
    B, Z, W = data(n=2**12 + 1, m=rows_per_tile(2**12 + 1) + 5, d=FEATURES)
    sums, gradients = Slopes(kernel, B).contract(Z, W)
    alone = Slopes(kernel, B).contract(Z[-3:], W[-3:])
    near(sums[-3:], alone[0], 1e-11)
    near(gradients[-3:], alone[1], 1e-11)


@radial
@pytest.mark.parametrize(("dtype", "offset", "tol"), [(np.float64, 1e6, 1e-7), (np.float32, 1e3, 3e-5)])
def test_an_offset_costs_no_digits(name: str, dtype: Any, offset: float, tol: float) -> None:
    kernel = SMOOTH[name]
    B, Z, W = data()
    B, Z = (B + offset).astype(dtype), (Z + offset).astype(dtype)  # rounded: what is left is the truth
    expected = Slopes(kernel, B.astype(np.float64) - offset).contract(Z.astype(np.float64) - offset, W)
    sums, gradients = Slopes(kernel, B).contract(Z, W)
    near(sums, expected[0], tol * 1e-3 if dtype == np.float64 else tol)
    near(gradients, expected[1], tol * 1e-3 if dtype == np.float64 else tol)


@radial
def test_far_clusters_keep_close_pairs(name: str) -> None:
    """Two clusters at 1e6: within them t is 1e-12 of the squared lengths, so differences are needed."""
    kernel = SMOOTH[name]
    B, Z, W = data()
    B[::2] += 2e6
    Z[::2] += 2e6
    sums, gradients = Slopes(kernel, B).contract(Z, W)
    near(sums, (W * kernel.block(Z, B)).sum(axis=1), 1e-8)
    moved = Slopes(kernel, B[::2] - 2e6).contract(Z[::2] - 2e6, W[::2, ::2])[1]
    if "rational" not in name and "gaussian" not in name:  # their tails reach across
        near(gradients[::2], moved, 1e-6)


@pytest.mark.parametrize("kernel", [Exponential(1.3), Exponential(EACH), Matern(0.5, 0.2)])
def test_kink_of_the_exponential_kernel(kernel: Kernel) -> None:
    B, Z, W = data()
    B[3] = B[2]
    Z[0] = B[2]
    others = np.delete(np.arange(len(B)), [2, 3])
    _, gradients = Slopes(kernel, B).contract(Z[:1], W[:1])
    near(gradients, Slopes(kernel, B[others]).contract(Z[:1], W[:1, others])[1], 1e-12)
    # beside the kink the gradient has length W / l and points to the row
    step = np.array([1e-9, 0, 0, 0])
    beside = Slopes(kernel, B[:3]).contract(Z[:1] + step, np.array([[0.0, 0.0, 1.0]]))[1]
    near(beside, slow_step(kernel, B[2], Z[0] + step), 1e-6)


def slow_step(kernel: Kernel, b: np.ndarray, z: np.ndarray) -> np.ndarray:
    """-e^-u grad u with u = |(z - b) / l|."""
    gap = (z - b) / np.asarray(kernel.length_scale)  # type: ignore[attr-defined]
    u = np.linalg.norm(gap)
    return (-np.exp(-u) * gap / u / np.asarray(kernel.length_scale))[None]  # type: ignore[attr-defined]


def test_directions_of_zeros() -> None:
    B, Z, W = data()
    B[1] = 0.0
    Z[0] = 0.0
    for kernel in (Cosine(), ArcCosine(0)):
        sums, gradients = Slopes(kernel, B).contract(Z, W)
        assert_array_equal(gradients[0], 0.0)
        near(sums, (W * kernel.block(Z, B)).sum(axis=1), 1e-14)
    _, gradients = Slopes(ArcCosine(1), B).contract(Z, W)
    near(gradients[0], W[0] @ B / 2, 1e-14)  # the mean of both one-sided derivatives
    near(gradients, slow_gradients(ArcCosine(1), B, Z, W), 1e-8)


def test_cosine_does_not_see_lengths() -> None:
    B, Z, W = data()
    slopes = Slopes(Cosine(), B)
    for scale in (1e-12, 1.0, 1e12):
        _, gradients = slopes.contract(scale * Z, W)
        near(gradients * scale, slopes.contract(Z, W)[1], 1e-12)
        assert np.abs(np.einsum("ij,ij->i", gradients, Z)).max() < 1e-14 * np.abs(gradients).max() * 10


@given(
    name=st.sampled_from(sorted(SMOOTH)),
    power=st.floats(-3, 3),
    far=st.floats(0, 6),
    seed=st.integers(0, 2**32 - 1),
    single=st.booleans(),
)
@settings(max_examples=150)
def test_finite_on_hostile_rows(name: str, power: float, far: float, seed: int, single: bool) -> None:
    rng = np.random.default_rng(seed)
    dtype = np.float32 if single else np.float64
    B = rng.normal(size=(15, FEATURES)).astype(dtype)
    B[5:9] = B[4]
    B[:, 2] = 0.5
    B *= dtype(10.0**power / np.median(pdist(B)))
    Z = np.concatenate([B[:6], np.zeros((1, FEATURES), dtype), B[:3] * dtype(10**far), B[9:11] + dtype(1e-7)])
    W = rng.normal(size=(len(Z), len(B)))
    kernel = SMOOTH[name]
    if name == "poly of degree 2.5":
        B, Z = np.abs(B), np.abs(Z)
    largest = float(np.abs(kernel.diagonal(Z)).max() * 1e3)
    slopes = Slopes(kernel, B)
    sums, gradients = slopes.contract(Z, W)
    own = slopes.own(Z)
    if largest < np.finfo(dtype).max ** 0.9:
        assert all(np.isfinite(part).all() for part in (sums, gradients, *own))


@radial
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_finite_at_the_end_of_the_world(name: str, dtype: Any) -> None:
    B, Z, W = data()
    top = np.finfo(dtype).max / 4
    sums, gradients = Slopes(SMOOTH[name], B.astype(dtype)).contract(np.sign(Z).astype(dtype) * dtype(top), W)
    assert np.isfinite(sums).all() and np.isfinite(gradients).all()


@pytest.mark.parametrize(
    ("kernel", "word"),
    [
        (kernels.Laplacian(0.3), "laplacian"),
        (kernels.Chi2(0.3), "chi2"),
        (kernels.AdditiveChi2(), "additive_chi2"),
        (kernels.HistogramIntersection(), "histogram"),
        (RBF(1.0) + 2.0 * (Linear() * kernels.Laplacian(0.3)), "laplacian"),
        (kernels.from_callable(lambda x, y: float(x @ y), None, np.eye(3)), "callable"),
        (from_gaussian_process(gp.ExpSineSquared()), "ExpSineSquared"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_why_not_names_what_has_no_gradient(kernel: Kernel, word: str) -> None:
    reason = why_not(kernel)
    assert reason is not None and word in reason and "has no gradient here: " in reason
    with pytest.raises(TypeError, match="has no gradient here"):
        Slopes(kernel, np.eye(3))


@smooth
def test_why_not_has_nothing_against_the_others(name: str) -> None:
    assert why_not(SMOOTH[name]) is None
