"""Integrated gradients against closed forms, slow sums, and what they must add up to."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_table import tuned_kernels
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray

from kpca import IncrementalKernelPCA, InputError, KernelPCA, kernels
from kpca.detector.attribution import TOLERANCE, attribute
from kpca.detector.limits import STATISTICS, measure_of

FloatArray = NDArray[Any]
KERNELS: dict[str, Any] = tuned_kernels(
    "linear", "poly", "rbf", "matern12", "matern32", "matern52", "rational_quadratic", "cosine", "arc_cosine1"
) | {
    "sum": kernels.RBF(0.05) + 0.1 * kernels.Linear(),
    "product": kernels.RBF(0.02) * kernels.Polynomial(1, 0.1, 1.0),
}


class Exact:
    """A surface without rounding to speak of."""

    def resolution(self, X: FloatArray) -> FloatArray:
        return np.zeros(len(X))


class Quadratic(Exact):
    """x'Mx, whose contributions from 0 are x_j (Mx)_j."""

    def __init__(self, M: FloatArray) -> None:
        self.M = M

    def values(self, X: FloatArray) -> FloatArray:
        return np.einsum("ij,jk,ik->i", X, self.M, X)

    def gradients(self, X: FloatArray) -> FloatArray:
        return X @ (self.M + self.M.T)


class Bump(Exact):
    """1 - exp(-|x - c|^2 / w): flat far away, steep near c, so that far rows have all of it in one place."""

    def __init__(self, c: FloatArray, w: float = 1.0) -> None:
        self.c, self.w = c, w

    def values(self, X: FloatArray) -> FloatArray:
        return -np.expm1(-np.square(X - self.c).sum(axis=1) / self.w)

    def gradients(self, X: FloatArray) -> FloatArray:
        return 2.0 * (X - self.c) / self.w * np.exp(-np.square(X - self.c).sum(axis=1) / self.w)[:, None]


class Kink(Exact):
    """|x - c|_1: its gradient jumps where the line crosses a coordinate of c."""

    def __init__(self, c: FloatArray) -> None:
        self.c = c

    def values(self, X: FloatArray) -> FloatArray:
        return np.abs(X - self.c).sum(axis=1)

    def gradients(self, X: FloatArray) -> FloatArray:
        return np.sign(X - self.c)


def rows_of(n: int = 80, d: int = 4, dtype: Any = np.float64, seed: int = 0) -> FloatArray:
    return (np.random.default_rng(seed).standard_normal((n, d)) * 0.8 ** np.arange(d) + 0.3).astype(dtype)


def model_of(kind: str, kernel: Any, X: FloatArray) -> Any:
    if kind == "nystroem":
        return KernelPCA(3, kernel=kernel, approximation="nystroem", random_state=0).fit(X)
    if kind == "incremental":
        return IncrementalKernelPCA(3, kernel=kernel, random_state=0).fit(X)
    return KernelPCA(3, kernel=kernel).fit(X)


# -- closed forms ---------------------------------------------------------------------------


def test_quadratic_form_in_closed_form() -> None:
    rng = np.random.default_rng(0)
    M, X = rng.standard_normal((5, 5)), rng.standard_normal((700, 5))
    found = attribute(Quadratic(M), X, np.zeros(5))
    assert_allclose(found.values, X * (X @ (M + M.T)) / 2.0, atol=1e-12)
    assert_array_equal(found.baseline_score, np.zeros(700))


@pytest.mark.parametrize("distance", [1e-3, 1.0, 30.0, 1e6, 1e12])
def test_bump_at_any_distance(distance: float) -> None:
    """By symmetry the contributions of a bump at the baseline are proportional to the squared differences."""
    rng = np.random.default_rng(1)
    directions = rng.standard_normal((6, 4))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    c = rng.standard_normal(4)
    surface = Bump(c)
    found = attribute(surface, c + distance * directions, c)
    assert_allclose(found.values, directions**2 * found.score[:, None], rtol=1e-4 if distance > 1e9 else 1e-6)
    assert found.relative_gap.max() <= 1e-8


def test_bump_in_the_middle_of_the_line() -> None:
    c = np.array([0.313, -0.2, 0.7])
    surface, b, x = Bump(c, 1e-4), np.full(3, -1.0), np.array([[1.5, 0.4, 2.0]])
    near = c + np.array([[0.002, 0.001, -0.001]])
    found = attribute(surface, near, b)
    assert_allclose(found.values, reference.integrated_gradients(surface.gradients, near, b), rtol=1e-4)
    assert found.relative_gap.max() <= 1e-8
    assert attribute(surface, x, b).relative_gap.max() <= 1e-8


def test_kinks_are_cut_out() -> None:
    c, X = np.array([0.3, 0.11, -0.7]), np.random.default_rng(2).standard_normal((9, 3)) * 3.0
    found = attribute(Kink(c), X, np.ones(3))
    assert_allclose(found.values, np.abs(X - c) - np.abs(1.0 - c), atol=1e-7)


def test_baselines_of_all_forms() -> None:
    M, X = np.diag([1.0, 2.0]), np.array([[1.0, 1.0], [2.0, 0.0], [0.0, 0.0]])
    b = np.array([1.0, -1.0])
    one = attribute(Quadratic(M), X, b)
    assert_allclose(one.values, attribute(Quadratic(M), X, b[None]).values)
    assert_allclose(one.values, attribute(Quadratic(M), X, np.repeat(b[None], 3, axis=0)).values)
    assert_allclose(one.values, [[0.0, 0.0], [3.0, -2.0], [-1.0, -2.0]], atol=1e-12)
    assert_array_equal(attribute(Quadratic(M), X, X).values, np.zeros((3, 2)))


def test_one_column_has_all_of_the_difference() -> None:
    """Exactly, however rough the way is."""
    c, b = np.linspace(-1.0, 1.0, 5), np.zeros(5)
    x = b.copy()
    x[3] = 40.0
    found = attribute(Kink(c), x[None], b)
    assert_array_equal(found.values, [[0.0, 0.0, 0.0, float(found.score[0] - found.baseline_score[0]), 0.0]])


def test_gradient_method_does_not_add_up_and_does_not_warn() -> None:
    M, X = np.diag([1.0, 2.0]), np.array([[1.0, 1.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = attribute(Quadratic(M), X, np.zeros(2), method="gradient")
    assert_allclose(found.values, [[2.0, 4.0]])
    assert_allclose(found.gap, [3.0])


def test_a_gap_is_reported_and_warned_of() -> None:
    class Wrong(Quadratic):
        def gradients(self, X: FloatArray) -> FloatArray:
            return 1.01 * super().gradients(X)

    X = np.array([[1.0, 1.0], [0.0, 0.0], [2.0, 3.0]])
    with pytest.warns(UserWarning, match=r"2 of 3 rows do not add up.*1\.0e-02") as caught:
        found = attribute(Wrong(np.eye(2)), X, np.zeros(2))
    assert len(caught) == 1
    assert_allclose(found.gap, [0.02, 0.0, 0.13], atol=1e-9)
    assert_allclose(found.values, 1.01 * X**2, rtol=1e-9)  # not smeared


def test_a_row_that_overflows_leaves_the_others_alone() -> None:
    class Steep(Quadratic):
        def gradients(self, X: FloatArray) -> FloatArray:
            made: FloatArray = super().gradients(X)
            made[np.abs(X).max(axis=1) > 5.0] = np.inf
            return made

    X = np.array([[1.0, 2.0], [100.0, 3.0], [-1.0, 0.5]])
    with pytest.warns(UserWarning, match="1 of 3 rows"):
        found = attribute(Steep(np.eye(2)), X, np.zeros(2))
    assert_allclose(found.values[[0, 2]], X[[0, 2]] ** 2, rtol=1e-9)
    assert not np.isfinite(found.gap[1])


@pytest.mark.parametrize("method", ["both", None, 3])
def test_unknown_method(method: Any) -> None:
    with pytest.raises(InputError, match="method must be"):
        attribute(Quadratic(np.eye(2)), np.ones((1, 2)), np.zeros(2), method)


def test_baseline_of_another_shape() -> None:
    with pytest.raises(InputError, match=r"one row or as many; got \(2, 2\)"):
        attribute(Quadratic(np.eye(2)), np.ones((3, 2)), np.zeros((2, 2)))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.01, 100.0), st.integers(1, 5))
def test_sums_for_random_bumps(seed: int, stretch: float, d: int) -> None:
    rng = np.random.default_rng(seed)
    surface = Bump(rng.standard_normal(d))
    found = attribute(surface, stretch * rng.standard_normal((7, d)), rng.standard_normal(d))
    assert found.relative_gap.max() <= 1e-7


# -- the statistics of models ---------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("kind", ["exact", "nystroem", "incremental"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_contributions_add_up(kernel: str, kind: str, dtype: Any) -> None:
    X = rows_of(dtype=dtype)
    measure = measure_of(model_of(kind, KERNELS[kernel], X))
    far = X[:3] + 30.0 / np.sqrt(2 * 0.05) * np.array([[1.0, 0, 0.5, 0], [0, -1.0, 0.1, 0.3], [0.5, 0.5, 0.5, 0.5]])
    rows = np.vstack([rows_of(4, seed=1), far, X[:2], X.mean(axis=0)[None]]).astype(dtype)
    for name in STATISTICS:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = attribute(measure.surface(name), rows, X.mean(axis=0))
        assert found.relative_gap.max() <= TOLERANCE / 10


@pytest.mark.parametrize("kind", ["exact", "nystroem", "incremental"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_gradients_of_statistics_are_slopes(kernel: str, kind: str) -> None:
    X, h = rows_of(), 1e-5
    measure, rows = measure_of(model_of(kind, KERNELS[kernel], X)), rows_of(4, seed=3)
    for name in STATISTICS:
        surface = measure.surface(name)
        slopes = np.stack([(surface.values(rows + e) - surface.values(rows - e)) / (2 * h) for e in h * np.eye(4)], 1)
        found = surface.gradients(rows)
        assert_allclose(found, slopes, atol=2e-5 * np.abs(slopes).max())


@pytest.mark.parametrize("name", STATISTICS)
@pytest.mark.parametrize("kernel", ["rbf", "matern12", "poly"])
def test_contributions_are_the_slow_sum(kernel: str, name: str) -> None:
    X = rows_of(40)
    surface = measure_of(model_of("exact", KERNELS[kernel], X)).surface(name)
    rows, b = rows_of(3, seed=4) * 2.0, X[0]
    slow = reference.integrated_gradients(surface.gradients, rows, b, steps=2000)
    assert_allclose(attribute(surface, rows, b).values, slow, atol=1e-4 * np.abs(slow).max())


def test_rows_do_not_touch_each_other() -> None:
    X = rows_of()
    surface = measure_of(model_of("exact", KERNELS["matern12"], X)).surface("combined")
    rows = np.vstack([rows_of(6, seed=5), 1e6 * rows_of(1, seed=6), X[:2]])
    together = attribute(surface, rows, X[7])
    alone = np.vstack([attribute(surface, row[None], X[7]).values for row in rows])
    assert_allclose(together.values, alone, atol=1e-7 * together.score.max())
    assert_array_equal(together.values, attribute(surface, rows, X[7]).values)


def test_an_offset_costs_no_more_than_its_digits() -> None:
    X, offset = rows_of(), 1e6
    plain = measure_of(model_of("exact", KERNELS["rbf"], X)).surface("spe")
    moved = measure_of(model_of("exact", KERNELS["rbf"], X + offset)).surface("spe")
    rows = rows_of(5, seed=8)
    there = attribute(moved, rows + offset, X.mean(axis=0) + offset)
    assert there.relative_gap.max() <= TOLERANCE
    assert_allclose(there.values, attribute(plain, rows, X.mean(axis=0)).values, atol=1e-6)


def test_scaling_does_not_change_contributions() -> None:
    X, s = rows_of(), np.array([10.0, 0.1, 3.0, 1e-3])
    surface = measure_of(model_of("exact", KERNELS["rbf"], X)).surface("t2")

    class Scaled(Exact):
        def values(self, Z: FloatArray) -> FloatArray:
            return surface.values(Z / s)

        def gradients(self, Z: FloatArray) -> FloatArray:
            return surface.gradients(Z / s) / s

    rows = rows_of(4, seed=9)
    assert_allclose(attribute(Scaled(), rows * s, X[0] * s).values, attribute(surface, rows, X[0]).values, rtol=1e-6)
