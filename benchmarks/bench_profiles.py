"""Kernel values per second of one core: our compiled loops at every level this CPU has, and NumPy's way.

Beside them two bounds measured in the same process, and the largest error of both in units of the last place.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks._data import FloatArray
from benchmarks._race import Run, chosen, log, machine, parse, run_task, save, show
from kpca import kernels

_TILES = {"256 KiB": 2**18, "1.6 MB": 4 * 640**2}  # bytes
_CHECKED, _SIDE = 4000, 1024
# Multiplications of e^x in src/kpca/kernels/_simd.c, most of them fused with an addition: 3 to bring x near 0, 5 or 10
# of the polynomial, 2 to finish it. Additions alone, comparisons and the factor 2^k are not counted.
_MULTIPLY_ADDS = {"float32": 10, "float64": 15}
_BOUNDED = ("exp", "expm1")
_LONG = np.longdouble


# -- what is computed -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Profile:
    """A profile: what its loop is told, what the kernel class does, the formula, and where it is used."""

    parameters: tuple[float, ...]
    method: Callable[[FloatArray], Any]
    formula: Callable[[Any], Any]
    span: tuple[float, float] = (-20.0, 0.0)


def _matern(nu: int, minus_1: bool) -> Profile:
    def formula(t: Any) -> Any:
        u = np.sqrt(-t)
        rest = {1: 0 * u, 3: u, 5: u + u * u / 3}[nu]
        return np.expm1(-u) + rest * np.exp(-u) if minus_1 else (1 + rest) * np.exp(-u)

    kernel = kernels.Matern(nu=nu / 2)
    return Profile((), kernel.shifted if minus_1 else kernel.value, formula)


def profiles() -> dict[str, Profile]:
    """Return all profiles by the names of their loops."""
    gaussian, quadratic = kernels.RBF(1.0), kernels.RationalQuadratic(alpha=2.5)
    power = (1.0, -1.0, -2.5, 1.0)  # (1 - t)^-2.5
    matern = {f"matern{nu}{end}": _matern(nu, bool(end)) for nu in (1, 3, 5) for end in ("", "_minus_1")}
    return {
        "exp": Profile((), gaussian.value, np.exp),
        "expm1": Profile((), gaussian.shifted, np.expm1),
        **matern,
        "power": Profile(power, quadratic.value, lambda t: np.exp(-2.5 * np.log1p(-t))),
        "power_minus_1": Profile(power, quadratic.shifted, lambda t: np.expm1(-2.5 * np.log1p(-t))),
        "whole_power": Profile(
            (1.0, 3.0, 1.0), kernels.Polynomial(degree=3, coef0=1.0).value, lambda t: (t + 1) ** 3, (-3.0, 3.0)
        ),
        "tanh": Profile((1.0,), kernels.Sigmoid(coef0=1.0).value, lambda t: np.tanh(t + 1), (-3.0, 3.0)),
    }


def callables(name: str, profile: Profile) -> dict[str, Callable[[FloatArray], Any]]:
    """Return what overwrites numbers by a profile: the loop of every level, and NumPy, as KPCA_SIMD=0 is set."""

    def loop(level: str) -> Callable[[FloatArray], Any]:
        return lambda t: _simd.apply(level, name, t, *profile.parameters)

    try:
        from kpca.kernels import _simd  # type: ignore[attr-defined]
    except ImportError:  # they were not built
        return {"NumPy": profile.method}
    return {level: loop(level) for level in _simd.levels()} | {"NumPy": profile.method}


# -- measuring --------------------------------------------------------------------------------------------------------


def measured(*, names: list[str], dtype: str, seconds: float) -> dict[str, Any]:
    """Measure profiles in one precision; in the fresh process, which has one core and one BLAS thread."""
    rng = np.random.default_rng(0)
    arithmetic = _products(dtype, seconds) / _MULTIPLY_ADDS[dtype]
    found: dict[str, Any] = {}
    for name in names:
        profile = profiles()[name]
        calls = callables(name, profile)
        some = rng.uniform(*profile.span, _CHECKED).astype(dtype)
        rates: dict[str, dict[str, float]] = {}
        for tile, size in _TILES.items():
            t = rng.uniform(*profile.span, size // some.itemsize).astype(dtype)
            rates[tile] = {way: _rate(call, t, seconds) for way, call in calls.items()}
            rates[tile]["memory bound"] = _rate(lambda t: np.multiply(t, 0.5, out=t), t, seconds)
            rates[tile] |= {"arithmetic bound": arithmetic} if name in _BOUNDED else {}
        found[name] = {"rates": rates, "ulps": {way: _ulps(call, some, profile) for way, call in calls.items()}}
    return {"profiles": found}


def _rate(call: Callable[[FloatArray], Any], given: FloatArray, seconds: float) -> float:
    """Return how many numbers a second are overwritten at best, always starting from the same ones."""
    t = np.empty_like(given)
    times: list[float] = []
    while len(times) < 5 or sum(times) < seconds:
        np.copyto(t, given)
        start = time.perf_counter()
        call(t)
        times.append(time.perf_counter() - start)
    return len(t) / min(times)


def _products(dtype: str, seconds: float) -> float:
    """Return the multiply-adds per second of a matrix product."""
    A = np.ones((_SIDE, _SIDE), dtype)
    out = np.empty_like(A)
    return _SIDE**2 * _rate(lambda _: np.matmul(A, A, out=out), A, seconds)


def _ulps(call: Callable[[FloatArray], Any], given: FloatArray, profile: Profile) -> float | None:
    """Return the largest error in units of the last place; None where there is nothing more precise to compare with."""
    info = np.finfo(given.dtype)
    if np.finfo(_LONG).nmant <= info.nmant:
        return None
    t, exact = given.copy(), profile.formula(given.astype(_LONG))
    call(t)
    unit = np.exp2(np.floor(np.log2(np.abs(exact))) - info.nmant)
    return float((np.abs(t.astype(_LONG) - exact) / unit).max())


def best(dtype: str, runs: list[Run]) -> list[dict[str, Any]]:
    """Return a row per profile and tile, with the best rates of all rounds."""
    return [
        {
            "profile": name,
            "dtype": dtype,
            "tile": tile,
            "rates": {way: max(run["profiles"][name]["rates"][tile][way] for run in runs) for way in rates},
            "ulps": found["ulps"],
        }
        for name, found in runs[0]["profiles"].items()
        for tile, rates in found["rates"].items()
    ]


def _cells(row: dict[str, Any], ways: list[str]) -> list[str]:
    ours = [error for way, error in row["ulps"].items() if way != "NumPy"]
    errors = [None if None in ours else max(ours, default=None), row["ulps"]["NumPy"]]
    return [
        f"{row['profile']} {row['dtype']}, {row['tile']}",
        *(f"{row['rates'][way] / 1e9:.3f}" if way in row["rates"] else "" for way in ways),
        *("" if error is None else f"{error:.2f}" for error in errors),
    ]


def main() -> None:
    """Measure both precisions."""
    options = parse(__doc__)
    env = {"KPCA_SIMD": "0"}  # the kernel classes take NumPy's way; the loops are called by their names
    if machine()["instructions"] == "AVX-512":  # kernels for AVX2 would make the arithmetic bound too low
        env["OPENBLAS_CORETYPE"] = "SkylakeX"
    args = {"names": chosen(profiles(), options, str), "seconds": 0.002 if options.quick else 0.1}
    rows: list[dict[str, Any]] = []
    for dtype in _MULTIPLY_ADDS:
        runs: list[Run] = []
        for number in range(options.repeats):
            runs.append(run_task("benchmarks.bench_profiles:measured", args | {"dtype": dtype}, env=env, cores=1))
            log(f"{dtype}: round {number + 1} done")
        rows += best(dtype, runs)
    ways = list(dict.fromkeys(way for row in rows for way in row["rates"]))
    counts = " and ".join(f"{count} ({dtype})" for dtype, count in _MULTIPLY_ADDS.items())
    title = f"10^9 kernel values per second, one core; arithmetic bound: {counts} multiply-adds per value"
    show(title, ["profile", *ways, "ulp, ours", "ulp, NumPy"], [_cells(row, ways) for row in rows])
    save("profiles", options, rows)


if __name__ == "__main__":
    main()
