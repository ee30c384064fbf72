"""The compiled loops against the same formulas in extended precision, at every level that this CPU has."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kpca import kernels
from kpca.kernels import profiles

simd = pytest.importorskip("kpca.kernels._simd", reason="the compiled loops were not built here")
LONG = np.longdouble
wide = pytest.mark.skipif(np.finfo(LONG).nmant < 63, reason="long double has no more digits than double here")
used = pytest.mark.skipif(profiles.in_use().startswith("NumPy"), reason="the environment has switched them off")
LEVELS = simd.levels()
# What the loops promise, in units of the last place.
ULPS = {np.float32: 1.5, np.float64: 2.0}
Truth = Callable[[Any], Any]


# -- the truth: textbook formulas, in extended precision --------------------------------------------------------------


def _root(t: Any) -> Any:
    return np.minimum(np.sqrt(-t), LONG(20_000))  # e^-u is 0 by then even here


def _factor(u: Any, nu: int) -> Any:
    return {1: u * 0 + 1, 3: 1 + u, 5: 1 + u + u * u / 3}[nu]


def matern(nu: int) -> Truth:
    return lambda t: _factor(_root(t), nu) * np.exp(-_root(t))


def matern_minus_1(nu: int) -> Truth:
    """By the series of e^-u for small u: that of f - 1 has no term of order u for nu = 3 and 5."""

    def truth(t: Any) -> Any:
        u = _root(t)
        if nu == 1:
            return np.expm1(-u)
        series = np.zeros_like(u)
        for k in range(45, 1, -1):
            numerator = LONG(1 - k) if nu == 3 else LONG((k - 1) * (k - 3)) / 3
            series = series * u + (-1) ** k * numerator / LONG(math.factorial(k))
        return np.where(u < 2, series * u * u, _factor(u, nu) * np.exp(-u) - 1)

    return truth


def matern_slope(nu: int) -> Truth:
    def truth(t: Any) -> Any:
        u = _root(t)
        return np.exp(-u) * {1: 1 / (2 * u), 3: u * 0 + LONG(0.5), 5: (1 + u) / 6}[nu]

    return truth


def power(alpha: float, *, slope: bool = False, minus_1: bool = False) -> Truth:
    """(1 - t)^-alpha, its derivative, or minus 1."""
    factor, exponent = (LONG(alpha), LONG(-alpha - 1.0)) if slope else (LONG(1), -LONG(alpha))
    return lambda t: factor * (np.expm1 if minus_1 else np.exp)(exponent * np.log1p(-t))


def tanh_slope(origin: float) -> Truth:
    def truth(t: Any) -> Any:
        e = np.exp(-2 * np.abs(t + LONG(origin)))
        return 4 * e / (1 + e) ** 2

    return truth


Case = tuple[str, tuple[float, ...], str, Truth]
CASES: list[Case] = [("exp", (), "all", np.exp), ("expm1", (), "all", np.expm1)]
for _nu in (1, 3, 5):
    CASES.append((f"matern{_nu}", (), "distances", matern(_nu)))
    CASES.append((f"matern{_nu}_minus_1", (), "distances", matern_minus_1(_nu)))
    CASES.append((f"matern{_nu}_slope", (), "distances", matern_slope(_nu)))
for _alpha in (0.3, 1.0, 2.5, 40.0, 1e4):
    CASES.append(("power", (1.0, -1.0, -_alpha, 1.0), "distances", power(_alpha)))
    CASES.append(("power", (1.0, -1.0, -_alpha - 1.0, _alpha), "distances", power(_alpha, slope=True)))
    CASES.append(("power_minus_1", (1.0, -1.0, -_alpha, 1.0), "distances", power(_alpha, minus_1=True)))
for _origin in (0.0, 1.0, -3.7):
    CASES.append(("tanh", (_origin,), "all", lambda t, c=_origin: np.tanh(t + LONG(c))))
    CASES.append(("tanh_slope", (_origin,), "all", tanh_slope(_origin)))
    for _degree in (1, 2, 3, 4, 5, 11):
        whole = (_origin, float(_degree), float(_degree))
        CASES.append(("whole_power", whole, "all", lambda t, c=_origin, d=_degree: d * (t + LONG(c)) ** d))
    for _part in (0.5, 2.5):
        broken = (_origin, 1.0, _part, 1.0)
        CASES.append(("power", broken, "all", lambda t, c=_origin, d=_part: (t + LONG(c)) ** LONG(d)))


# -- where they are compared ------------------------------------------------------------------------------------------


def arguments(kind: str, dtype: Any, seed: int = 0, count: int = 20_000) -> Any:
    """Return numbers over all exponents, and many where something happens: breaks, denormals, overflow, no number."""
    rng = np.random.default_rng(seed)
    smallest = -320 if dtype == np.float64 else -44
    if kind == "distances":
        parts = [-(10.0 ** rng.uniform(smallest, 7, count)), -rng.uniform(0, 40, count), -rng.uniform(0, 1e6, count)]
        parts += [-(rng.uniform(0, 3, count) ** 2), np.array([0.0, -0.0, -np.inf, np.nan])]
    else:
        parts = [10.0 ** rng.uniform(smallest, 3, count) * rng.choice([-1, 1], count), rng.uniform(-5, 5, count)]
        parts += [rng.uniform(-760, 720, count), rng.uniform(-110, 90, count)]
        parts += [10.0 ** rng.uniform(3, 37, count) * rng.choice([-1, 1], count)]
        parts += [np.array([0.0, -0.0, np.inf, -np.inf, np.nan])]
    with np.errstate(over="ignore"):
        return np.concatenate(parts).astype(dtype)


def ulps(got: Any, truth: Any) -> Any:
    """Return the distances in units of the last place; 0 where both are NaN, or both too large for a number."""
    info = np.finfo(got.dtype)
    with np.errstate(all="ignore"):
        size = np.maximum(np.abs(truth), LONG(info.smallest_normal))
        error = np.abs(got.astype(LONG) - truth) / np.exp2(np.floor(np.log2(size)) - info.nmant)
        beyond = np.abs(truth) > LONG(info.max) * (1 + LONG(info.eps) / 4)
    error[(beyond & (np.abs(got) == np.inf)) | (np.isnan(truth) & np.isnan(got))] = 0.0
    return error


def applied(level: str, case: Case, t: Any) -> Any:
    out = t.copy()
    simd.apply(level, case[0], out, *case[1])
    return out


@wide
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}{case[1]}")
@pytest.mark.parametrize("level", LEVELS)
def test_loops_are_accurate_over_the_whole_range(level: str, case: Case, dtype: Any) -> None:
    t = arguments(case[2], dtype, seed=len(case[0]))
    with np.errstate(all="ignore"):
        truth = np.asarray(case[3](t.astype(LONG)))
    error = ulps(applied(level, case, t), truth)
    allowed = np.full(len(t), ULPS[dtype])
    if case[0] == "whole_power":  # of a denormal that is multiplied last, as NumPy has it, digits are lost
        info = np.finfo(dtype)
        allowed[np.abs(truth) < info.smallest_normal * 2.0**info.nmant] = 2 * ULPS[dtype] * case[1][2]
    worst = np.argmax(np.where(np.isnan(error), np.inf, error) - allowed)
    assert error[worst] <= allowed[worst], f"{error[worst]} ulp at {t[worst]!r}"


@wide
@settings(max_examples=200, deadline=None)
@given(st.data(), st.sampled_from(CASES), st.sampled_from([np.float32, np.float64]), st.sampled_from(LEVELS))
def test_loops_are_accurate_at_any_number(data: Any, case: Case, dtype: Any, level: str) -> None:
    top = None if case[2] == "all" else 0.0
    numbers = st.floats(max_value=top, allow_nan=top is None, width=32 if dtype == np.float32 else 64)
    t = np.array(data.draw(st.lists(numbers, min_size=1, max_size=40)), dtype)
    if case[0] == "whole_power":
        t = t[(np.abs(t) > 1e-3) | ~np.isfinite(t)]  # denormals: above
    with np.errstate(all="ignore"):
        error = ulps(applied(level, case, t), np.asarray(case[3](t.astype(LONG))))
    assert (error <= ULPS[dtype]).all()


@pytest.mark.parametrize("case", CASES[:13], ids=lambda case: case[0])
def test_levels_with_fma_give_the_same_bits(case: Case) -> None:
    fused = [level for level in LEVELS if level != "v2"]
    for dtype in (np.float32, np.float64):
        t = arguments(case[2], dtype, seed=1)
        first, *others = (applied(level, case, t) for level in fused)
        assert all(np.array_equal(first, other, equal_nan=True) for other in others)


@used
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 40), st.integers(0, 90), st.integers(0, 17), st.sampled_from([np.float32, np.float64]))
def test_bits_do_not_depend_on_place_or_layout(rows: int, columns: int, offset: int, dtype: Any) -> None:
    rng = np.random.default_rng(rows * 1000 + columns)
    t = -rng.exponential(size=(rows, columns)).astype(dtype)
    expected = t.copy()
    assert profiles.compiled(expected, ("expm1",))
    room = np.zeros((rows, columns + offset + 3), dtype)
    part = room[:, offset : offset + columns]  # rows that are not aligned, with others beside them
    part[...] = t
    layouts = [part, np.asfortranarray(t), np.repeat(t, 2, axis=1)[:, ::2], t.reshape(1, rows, columns).copy()]
    for layout in layouts:
        assert profiles.compiled(layout, ("expm1",))
        assert np.array_equal(layout.reshape(rows, columns), expected)
    room[:, offset : offset + columns] = 0
    assert not room.any()


def test_what_there_is_no_loop_for_is_left_alone() -> None:
    for t in (np.float64(-1.0), np.full(3, -1.0, np.float16), np.full(3, -1.0, ">f8"), np.full(3, -1, np.int64)):
        assert not profiles.compiled(t, ("exp",))
        assert (np.asarray(t) == -1).all()
    for wrong in (("v9", "exp"), (LEVELS[0], "sine")):
        with pytest.raises(ValueError, match=r"no level v9|no profile sine"):
            simd.apply(*wrong, np.zeros(3))
    with pytest.raises(TypeError, match="takes 1 parameters"):
        simd.apply(LEVELS[0], "tanh", np.zeros(3))
    with pytest.raises(ValueError, match="read-only"):
        frozen = np.zeros(3)
        frozen.flags.writeable = False
        simd.apply(LEVELS[0], "exp", frozen)
    with pytest.raises(ValueError, match="contiguous rows"):
        simd.apply(LEVELS[0], "exp", np.zeros((4, 4)).T)


def _says(setting: str, code: str = "from kpca.kernels import profiles; print(profiles.in_use())") -> str:
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=os.environ | {"KPCA_SIMD": setting}, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.slow
def test_the_environment_chooses_the_loops() -> None:
    assert _says("0") == "NumPy alone (KPCA_SIMD=0 is set in the environment)"
    assert "it is 'fast'" in _says("fast")
    for level in LEVELS:
        assert _says(level).startswith("compiled loops for")
    broken = "import sys; sys.modules['kpca.kernels._simd'] = None\nfrom kpca.kernels import profiles, RBF\n"
    broken += "import numpy as np; print(RBF(1.0).value(np.zeros(2)), profiles.in_use())"
    assert _says("", broken) == "[1. 1.] NumPy alone (they were not built when kpca was installed)"


@pytest.mark.slow
def test_fits_agree_with_and_without_the_loops() -> None:
    code = """
import numpy as np, kpca
X = np.random.default_rng(0).standard_normal((300, 4))
for kernel in ("rbf", "matern12", "matern32", "matern52", "rational_quadratic", "poly", "laplacian"):
    print(*kpca.KernelPCA(3, kernel=kernel).fit(X).eigenvalues_)
"""
    found = [np.array(_says(setting, code).split(), float) for setting in ("0", *LEVELS)]
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], rtol=1e-12)


@used
def test_kernels_use_them() -> None:
    t = -np.linspace(0, 4, 50)
    for kernel in (kernels.RBF(1.0), kernels.Matern(0.5), kernels.Matern(1.5), kernels.Matern(2.5)):
        expected = {name: getattr(kernel, name)(t.astype(LONG)) for name in ("value", "shifted", "derivative")}
        for name, truth in expected.items():
            np.testing.assert_allclose(getattr(kernel, name)(t.copy()), truth.astype(float), rtol=1e-15, atol=0)
