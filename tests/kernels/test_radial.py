"""Radial profiles near zero, far away and backwards, against sixty-digit arithmetic."""

from __future__ import annotations

from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from kpca.kernels import RBF, Exponential, Matern, RadialKernel, RationalQuadratic

KERNELS = [
    RBF(1.0),
    Exponential(1.0),
    Matern(0.5),
    Matern(1.5),
    Matern(2.5),
    RationalQuadratic(0.3),
    RationalQuadratic(1e6),
]
every = pytest.mark.parametrize("kernel", KERNELS, ids=repr)


def drop(kernel: RadialKernel, t: float) -> float:
    """f(t) - 1 with sixty digits, from the formula as it stands."""
    with localcontext() as context:
        context.prec = 60
        return float(profile(kernel, -Decimal(float(t))) - 1)


def bend(kernel: RadialKernel, t: float) -> float:
    """f''(t) from second differences with so many digits that 30 of them are left."""
    with localcontext() as context:
        s = -Decimal(float(t))
        # f may be 1 - 1e-300 u, so digits for the size of t as well
        context.prec = 100 + 2 * abs(s.adjusted()) + int(s.sqrt())
        h = s.scaleb(-25)
        sides = profile(kernel, s + h) + profile(kernel, s - h) - 2 * profile(kernel, s)
        return float(sides / (h * h))


def profile(kernel: RadialKernel, s: Decimal) -> Decimal:
    """f(-s), from the formula as it stands."""
    if isinstance(kernel, RBF):
        return (-s).exp()
    if isinstance(kernel, RationalQuadratic):
        return (-Decimal(kernel.alpha) * (1 + s).ln()).exp()
    u = s.sqrt()
    nu = kernel.nu if isinstance(kernel, Matern) else 0.5
    factor = {0.5: Decimal(1), 1.5: 1 + u, 2.5: 1 + u + u * u / 3}[nu]
    return factor * (-u).exp()


@every
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-14), (np.float32, 4e-6)])
def test_shifted_has_all_its_digits(kernel: RadialKernel, dtype: Any, tolerance: float) -> None:
    t = -np.geomspace(1e-20, 100.0, 400).astype(dtype)
    t = np.append(t, [-0.0625, np.nextafter(dtype(-0.0625), dtype(0)), -1e-30]).astype(dtype)  # where the series ends
    expected = [drop(kernel, x) for x in t]
    assert kernel.shifted(t) is t
    assert t.dtype == dtype
    assert_allclose(t, expected, rtol=tolerance)


@every
def test_shifted_is_value_less_one(kernel: RadialKernel) -> None:
    t = -np.geomspace(1e-6, 1e4, 100)
    assert_allclose(kernel.shifted(t.copy()), kernel.value(t.copy()) - kernel.at_zero, atol=1e-15)


@every
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_zero_and_infinity(kernel: RadialKernel, dtype: Any) -> None:
    ends = np.array([0.0, -0.0, -np.inf], dtype=dtype)
    assert_array_equal(kernel.value(ends.copy()), [1, 1, 0])
    assert_array_equal(kernel.shifted(ends.copy()), [0, 0, -1])
    slope = kernel.derivative(ends)
    assert slope[2] == 0
    assert np.isinf(slope[0]) == kernel.singular_at_zero
    assert (slope[:2] > 0).all()
    assert kernel.singular_at_zero == (kernel in (Exponential(1.0), Matern(0.5)))


@every
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 4e-14), (np.float32, 3e-5)])
def test_curvature_is_the_second_derivative(kernel: RadialKernel, dtype: Any, tolerance: float) -> None:
    t = -np.concatenate([np.geomspace(1e-20, 1.0, 15), np.geomspace(2.0, 300.0, 12)]).astype(dtype)
    before = t.copy()
    curvature = kernel.curvature(t)
    assert curvature.dtype == dtype
    assert_array_equal(t, before)
    expected = np.array([bend(kernel, x) for x in t])
    # e^t of a large t has lost as many digits as t has before the point
    spread = np.abs(t) if isinstance(kernel, RBF) or getattr(kernel, "alpha", 0) > 1e3 else 1.0
    normal = expected > np.finfo(dtype).tiny
    assert (np.abs(curvature - expected) <= tolerance * np.maximum(spread, 1.0) * expected)[normal].all()
    assert normal.sum() >= 12


@every
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_curvature_at_zero_and_infinity(kernel: RadialKernel, dtype: Any) -> None:
    ends = np.array([0.0, -0.0, -np.inf, -np.finfo(dtype).max, -np.finfo(dtype).tiny], dtype=dtype)
    curvature = kernel.curvature(ends)
    assert not np.isnan(curvature).any()
    assert_array_equal(curvature[2:4], 0)
    pole = kernel in (Exponential(1.0), Matern(0.5), Matern(1.5))
    assert_array_equal(np.isinf(curvature[:2]), pole)
    assert (curvature[[0, 1, 4]] > 0).all()
    if kernel != Exponential(1.0) and kernel != Matern(0.5):
        assert np.isfinite(curvature[4])


@every
def test_inverse_undoes_value(kernel: RadialKernel) -> None:
    t = -np.geomspace(1e-3, 300.0, 200)
    value = kernel.value(t.copy())
    t, value = t[value > 1e-280], value[value > 1e-280]
    # The value itself is only good to one rounding: that much of f, over the slope, is all that can be asked for.
    unavoidable = 1e-15 * value / kernel.derivative(t)
    assert (np.abs(kernel.inverse(value) - t) <= 1e-12 * np.abs(t) + 4 * unavoidable).all()


@every
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_inverse_clips(kernel: RadialKernel, dtype: Any) -> None:
    value = np.array([1.0, 1.5, 0.5, 0.0, -1.0], dtype=dtype)
    before = value.copy()
    t = kernel.inverse(value)
    assert t.dtype == dtype
    assert_array_equal(value, before)
    assert_array_equal(t[:2], 0)
    assert_allclose(kernel.value(t[2:3].copy()), 0.5, rtol=1e-6)
    assert t[3] == t[4] < 10 * t[2]
    assert np.isfinite(t).all()
    if kernel != RationalQuadratic(0.3):  # whose tail is so heavy that the distance itself overflows
        assert_allclose(kernel.value(t[3:].astype(np.float64)), np.finfo(dtype).tiny, rtol=1e-3)


def test_matern_one_half_is_the_exponential() -> None:
    t = -np.geomspace(1e-3, 10, 20)
    a, b = Matern(0.5, 1.3), Exponential(1.3)
    X = np.random.default_rng(0).normal(size=(4, 2))
    assert_array_equal(a.prepare(X), b.prepare(X))
    assert_array_equal(a.value(t.copy()), b.value(t.copy()))
    assert_array_equal(a.shifted(t.copy()), b.shifted(t.copy()))
    assert_array_equal(a.derivative(t), b.derivative(t))


@pytest.mark.parametrize(
    "kernel", [RBF(1e-9), Matern(1.5, 1e4), Matern(2.5, 1e5), RationalQuadratic(2.0, 1e5)], ids=repr
)
def test_wide_bandwidths_are_linear_after_centring(kernel: RadialKernel) -> None:
    # sigma -> infinity gives linear PCA (docs/mathematics.md, section 1): f(t) - f(0) -> f'(0) t, with all its digits
    t = -np.random.default_rng(0).uniform(1e-12, 1e-9, 50)
    assert_allclose(kernel.shifted(t.copy()) / t, kernel.derivative(np.zeros(1))[0], rtol=1e-3)
