"""The engine seam: what computes kernel values, chosen by the rows at hand. Nothing outside `gram` names an engine.

A new engine is a file `gram/_<name>.py` with an object that satisfies `Engine`, and a row in `_ENGINES`. Operators
(`gram.operator`) keep weights, centring, moments and precisions and leave the work to it; solvers get vectors from
`Operator.placed` and never ask where these live. Done on the host in NumPy for all engines: random numbers,
eigenproblems of the size of a basis, whole matrices for LAPACK. NumPy's alone so far: the profiles of `kpca.kernels`,
which work in place by ufuncs; arguments shared by several kernels (`gram.shared`); explicit features (`gram.factored`,
`kpca.features`); pre-images. These expect rows in main memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from array_api_compat import array_namespace, is_torch_array
from array_api_compat import device as device_of
from numpy.typing import NDArray

from kpca._base.config import check_device, device_setting
from kpca._base.threads import in_order
from kpca.gram._evaluators import Evaluator, Memo
from kpca.gram._numpy import NumpyEngine
from kpca.gram.slopes import Slopes
from kpca.gram.tiles import by_slices, over_slices, slices
from kpca.kernels import Kernel

__all__ = ["CrossTiles", "Engine", "Evaluator", "SymmetricTiles", "engine_for", "evaluator", "has_single"]
__all__ += ["band_by_band", "column_norms", "copy_columns", "empty_columns", "inner_products", "like", "side_by_side"]
__all__ += ["some_columns", "sum_over_bands", "to_host"]

FloatArray = NDArray[Any]
Array = NDArray[Any]  # of any namespace of the array API standard; to mypy one of NumPy
# Rows of tall columns that a thread works on at a time: some of their columns stay in its cache, and the work takes
# longer than to wake a thread. Up to so many rows, all are done before threads have met, if columns are not many.
_BAND_ROWS, _FEW_ROWS, _WIDE_ROWS = 4096, 8192, 512
_COPIED_COLUMNS = 4


class SymmetricTiles(Protocol):
    """K(X, X) - constant in one precision."""

    n_evaluations: int  # kernel values computed so far

    @property
    def values(self) -> Evaluator:
        """What fills tiles, made of the rows when it is first asked for."""

    @property
    def ready(self) -> bool:
        """True once that has been made."""

    @property
    def held_bytes(self) -> int:
        """What was made of the rows and is held on to; kept tiles are not counted."""

    @property
    def constant(self) -> float:
        """What is subtracted from all kernel values."""

    @property
    def diagonal(self) -> Array:
        """k(x_i, x_i) - constant.  # shape: (n,)"""

    def error(self, norm: float) -> float:
        """Return what rounding may have done to all values of float64, |S E S|_F, where theirs is |S K S|_F = norm."""

    def keep(self, budget: int, reuses: int = 2) -> None:
        """Keep values from now on, as many as `budget` bytes hold; they are expected to be used so many times more."""

    def release(self) -> None:
        """Let go of what was kept and of what was made of the rows."""

    def fill(self, rows: slice, columns: slice, out: Array) -> None:
        """Write a block into `out`, with the exact diagonal where it meets it."""

    def multiply(self, V: Array, weights: Array | None = None, *, moments: bool = False) -> tuple[Array, Array, float]:
        """Return K V in double precision; with `moments` also K w and w'(K * K)w, w = 1 without weights.

        K V has the same bits with and without `moments`.  # shapes: (n, b), (n,)
        """

    def rows_times(self, rows: NDArray[np.intp], V: Array, dtype: np.dtype[Any]) -> FloatArray:
        """Return some rows of K V, with kernel values of either precision, in main memory.  # shape: (r, b)"""

    def matrix(self) -> FloatArray:
        """Return all of K in double precision, in main memory.  # shape: (n, n)"""


class CrossTiles(Protocol):
    """K(X, Y) - constant."""

    constant: float

    def multiply(self, V: Array) -> Array:
        """Return the product in double precision, never holding more than a part of the matrix.  # shape: (m, b)"""


class Engine(Protocol):
    """Computes for the rows it takes, on its devices."""

    devices: tuple[str, ...]

    def tiles(self, *rows: Any, **options: Any) -> SymmetricTiles:
        """(kernel, X, dtype, *, shifted, threads, arguments, weights): the rows of X among each other."""

    def cross(self, *rows: Any, **options: Any) -> CrossTiles:
        """(kernel, X, Y, dtype, *, shifted, threads, memo): rows X against columns Y."""

    def evaluator(self, *rows: Any, **options: Any) -> Evaluator:
        """(kernel, X, Y, dtype, *, shifted, memo, threads): blocks, and the arguments t of a profile kernel."""

    def slopes(self, *rows: Any, **options: Any) -> Slopes:
        """(kernel, rows, *, shifted): contractions of gradients and second derivatives."""

    def takes(self, X: Any) -> bool:
        """Return True if the rows live where this engine computes."""

    def placed(self, V: FloatArray) -> Array:
        """Return an array, of main memory and any strides or there already, where the products of this engine live."""

    def has_single(self, kernel: Kernel, X: Any) -> bool:
        """Return True if float32 values cost less than float64 ones, and do not overflow."""


# Asked in this order; the last one takes what no other does.
_ENGINES: tuple[Engine, ...] = (NumpyEngine(),)


def engine_for(X: Any, device: str | None = None) -> Engine:
    """Return the engine of the device that was asked for, here or by `kpca.config`; else that of the rows."""
    asked = device_setting() if device is None else check_device(device)
    return next(engine for engine in _ENGINES if engine.takes(X) and (asked is None or asked in engine.devices))


def evaluator(
    kernel: Kernel,
    X: Any,
    Y: Any,
    dtype: np.dtype[Any],
    *,
    shifted: bool = False,
    memo: Memo | None = None,
    threads: int = 1,
) -> Evaluator:
    """Return what fills tiles of K(X, Y), by the engine of these rows.

    `shifted` subtracts f(0) where the kernel can. `memo` remembers what was made of Y, for a next X against the same Y.
    """
    return engine_for(X).evaluator(kernel, X, Y, dtype, shifted=shifted, memo=memo, threads=threads)


def has_single(kernel: Kernel, X: Any) -> bool:
    """Return True if float32 tiles cost less than float64 ones, by the engine of these rows."""
    return engine_for(X).has_single(kernel, X)


# -- Between main memory and where an engine computes: the only ways, and both are named -------------------------------


def to_host(V: Array) -> FloatArray:
    """Return an array of any namespace in main memory; a NumPy array as it is."""
    return V if isinstance(V, np.ndarray) else np.asarray(V.cpu() if is_torch_array(V) else V)


def like(V: FloatArray, other: Array) -> Array:
    """Return an array of main memory where `other` is; as it is beside a NumPy array."""
    if isinstance(other, np.ndarray):
        return V
    placed: Array = array_namespace(other).asarray(V, device=device_of(other))
    return placed


def empty_columns(n: int, count: int, other: Array) -> Array:
    """Return room for columns where `other` is, each of them contiguous.  # shape: (n, count)"""
    if isinstance(other, np.ndarray):
        return np.empty((n, count), order="F")
    xp = array_namespace(other)
    room: Array = xp.empty((count, n), dtype=xp.float64, device=device_of(other))
    return room.T


def band_by_band(
    work: Callable[[slice], Array],
    width: int,
    other: Array,
    threads: int | None,
    out: Array | None = None,
    *,
    wide: bool = False,
) -> Array:
    """Return columns where `other` is, of which `work` gives some rows; those of main memory on these threads.

    They may be written to `out`, which `work` may read at the rows it is asked for. `threads=None` leaves all rows, and
    so the threads, to BLAS; `wide` says that there are so many columns that few rows are work enough for a thread.
    # shape: (len(other), width)
    """
    if not (step := _step(other, threads, wide=wide)):
        return work(slice(None))
    out = empty_columns(other.shape[0], width, other) if out is None else out
    return by_slices(work, out, step, threads or 1)


def inner_products(A: Array, B: Array, threads: int | None = None, *, wide: bool = False) -> FloatArray:
    """Return A'B in main memory; threads as above, and sums over bands in the order of the rows.  # shape: (a, b)"""
    return sum_over_bands(lambda rows: A[rows, :].T @ B[rows, :], A, threads, wide=wide)


def sum_over_bands(
    work: Callable[[slice], Array], other: Array, threads: int | None, *, wide: bool = False
) -> FloatArray:
    """Return in main memory the sum of what `work` makes of some rows, in their order; the rest as above."""
    if not (step := _step(other, threads, wide=wide)):
        return to_host(work(slice(None)))
    return np.asarray(sum(over_slices(work, other.shape[0], step, threads or 1)))


def _step(other: Array, threads: int | None, *, wide: bool) -> int:
    """Return how many rows are worked on at a time; 0 for all. The number of threads has no say in it."""
    if threads is None or not isinstance(other, np.ndarray):
        return 0
    return _BAND_ROWS if len(other) > _FEW_ROWS else _WIDE_ROWS if wide else 0


def copy_columns(pairs: list[tuple[Array, Array]], threads: int | None) -> None:
    """Write columns to others, all of one shape: (from, to); on these threads, column by column.

    Fresh memory comes in pages of up to 2 MiB. Those of `empty_columns` hold all rows of some columns, and threads that
    work on bands of rows would wait for the same ones.
    """
    n, b = pairs[0][0].shape
    if threads is None or n <= _FEW_ROWS or not isinstance(pairs[0][0], np.ndarray):
        for V, out in pairs:
            out[:, :] = V
        return
    parts = [(V, out, columns) for V, out in pairs for columns in slices(b, _COPIED_COLUMNS)]

    def copy(part: tuple[Array, Array, slice]) -> None:
        V, out, columns = part
        out[:, columns] = V[:, columns]

    in_order(parts, lambda: copy, lambda *_: None, threads)


def column_norms(V: Array, threads: int | None = None) -> FloatArray:
    """Return the lengths of the columns, in main memory.  # shape: (b,)"""
    if not isinstance(V, np.ndarray):
        xp = array_namespace(V)
        return to_host(xp.sqrt(xp.sum(V * V, axis=0)))
    return np.asarray(np.sqrt(sum_over_bands(lambda rows: np.einsum("ij,ij->j", V[rows], V[rows]), V, threads)))


def some_columns(V: Array, places: NDArray[np.intp]) -> Array:
    """Return some of the columns.  # shape: (n, len(places))"""
    if isinstance(V, np.ndarray):
        return V[:, places]
    some: Array = array_namespace(V).take(V, like(places, V), axis=1)
    return some


def side_by_side(parts: list[Array]) -> Array:
    """Return the columns of all parts.  # shape: (n, b)"""
    joined: Array = (np if isinstance(parts[0], np.ndarray) else array_namespace(parts[0])).concat(parts, axis=1)
    return joined
