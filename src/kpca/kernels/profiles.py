"""Profiles of kernels by compiled loops (`_simd.c`) where these could be built; elsewhere NumPy does the work.

NumPy vectorises expm1, and float64 exp, only for CPUs with AVX-512. Which loops run follows from the CPU and from the
environment alone, never from a stopwatch: the same machine always gives the same bits.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[Any]
Loop = tuple[Any, ...]  # the name of a compiled loop and its parameters

_VARIABLE = "KPCA_SIMD"
_TITLES = {"v4": "CPUs with AVX-512", "v3": "CPUs with AVX2", "v2": "CPUs with SSE4", "baseline": "this kind of CPU"}
# Loops that NumPy's own functions outrun where they use these instructions, by bytes of a number.
_WIDE = "V4 AVX512"
_NUMPY_FIRST = {
    "tanh": {4: f"V3 AVX2 {_WIDE} NEON ASIMD", 8: _WIDE},
    "power": {4: _WIDE, 8: _WIDE},
    "power_minus_1": {4: _WIDE, 8: _WIDE},
}


@cache
def _loops() -> tuple[Any, str, str]:
    """Return the compiled module (None if it is not in use), the level of its loops, and why it is not in use."""
    asked = os.environ.get(_VARIABLE, "")
    if asked == "0":
        return None, "", f"{_VARIABLE}=0 is set in the environment"
    try:
        from kpca.kernels import _simd  # type: ignore[attr-defined]
    except ImportError as error:
        missing = isinstance(error, ModuleNotFoundError) or "cannot import name" in str(error)
        return None, "", "they were not built when kpca was installed" if missing else f"they do not load: {error}"
    levels: tuple[str, ...] = _simd.levels()
    if not levels:
        return None, "", "there are none for a CPU this old"
    if asked and asked not in levels:
        return None, "", f"{_VARIABLE} must be 0, {', '.join(levels)} or absent here; it is {asked!r}"
    return _simd, asked or levels[0], ""


@cache
def _numpy_outruns(name: str, size: int) -> bool:
    """Return True if NumPy computes this profile of numbers of so many bytes by instructions that make it faster."""
    if name not in _NUMPY_FIRST:
        return False
    signature = {4: "float32", 8: "float64"}[size]
    used = np.lib.introspect.opt_func_info(func_name="^(tanh|log1p)$", signature=signature)
    ways = [str(way.get("current")) for way in used.get("tanh" if name == "tanh" else "log1p", {}).values()]
    return any(word in way for way in ways for word in _NUMPY_FIRST[name][size].split())


def in_use() -> str:
    """Return how kernel values are computed, and if by NumPy alone, why."""
    module, level, reason = _loops()
    return f"compiled loops for {_TITLES[level]}" if module else f"NumPy alone ({reason})"


def compiled(t: Any, loop: Loop) -> bool:
    """Overwrite t by a profile and return True; return False, and leave t alone, where its loop is not to be used."""
    name, *parameters = loop
    module, level, _ = _loops()
    if module is None or not isinstance(t, np.ndarray) or t.dtype.char not in "fd" or not t.dtype.isnative:
        return False
    if _numpy_outruns(name, t.itemsize):
        return False
    if t.flags.c_contiguous or (t.ndim == 2 and t.strides[1] == t.itemsize):
        module.apply(level, name, t if t.ndim <= 2 else t.reshape(-1), *parameters)
    else:
        packed = np.ascontiguousarray(t)
        module.apply(level, name, packed.reshape(-1), *parameters)
        t[...] = packed
    return True


@dataclass(frozen=True)
class Fused:
    """Products, a loop and products again in one call, during which other threads have the interpreter."""

    module: Any
    level: str
    loop: Loop
    lanes: int  # numbers of a vector: vectors to multiply by come in multiples of so many
    rows: int  # that are done at a time

    def scratch(self, width: int, k: int, vectors: int) -> int:
        """Return the numbers of memory that a call needs for tiles of so many columns, each a product of k numbers."""
        panel = 2 * self.lanes
        return -(-width // panel) * panel * k + self.rows * (width + vectors)

    def __call__(self, *matrices: FloatArray | None, bounded: bool, radial: bool, width: int, filled: int) -> float:
        """Multiply a row of tiles by vectors; see `multiply` in `_simd.c`."""
        name, *parameters = self.loop
        how = tuple(parameters), bounded, radial, width, filled
        found: float = self.module.multiply(self.level, name, *how, *matrices)
        return found


def fused(loop: Loop | None, dtype: np.dtype[Any]) -> Fused | None:
    """Return what fills tiles of this precision and multiplies them at once; None where NumPy has to do it."""
    module, level, _ = _loops()
    if module is None or loop is None or _numpy_outruns(loop[0], dtype.itemsize):
        return None
    vector, rows = module.shape(level)
    return Fused(module, level, loop, vector // dtype.itemsize, rows) if vector else None


def centred(X: FloatArray, origin: FloatArray, factors: FloatArray, out: FloatArray, *, column: bool) -> float | None:
    """Write y = (x - origin) factors, then -|y|^2 / 2 and 1 (as a `column` 1 and -|y|^2 / 2) to the rows of `out`.

    Returns the largest |y|^2 / 2; None, and nothing is written, where there are no loops for that.
    """
    module, level, _ = _loops()
    plain = X.dtype.char in "fd" and X.dtype.isnative and X.flags.aligned and X.strides[1] == X.itemsize
    if module is None or not plain or X.strides[0] < X.shape[1] * X.itemsize or X.strides[0] % X.itemsize:
        return None
    largest: float = module.centre(level, X, origin, factors, out, column)
    return largest


def add(total: FloatArray, part: FloatArray) -> None:
    """Add an array of either precision to a float64 one, in place."""
    module, level, _ = _loops()
    if module is None:
        total += part
    else:
        module.add(level, total, part)
