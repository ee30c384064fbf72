"""One set of distances (or inner products) for many kernels: what a path over bandwidths or degrees is made of.

Kernels that are functions of the same number per pair, up to a factor, are evaluated from tiles of that number: the
matrix product is paid once, and each kernel costs its profile alone.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca._base.errors import InputError
from kpca._base.linalg import FloatArray
from kpca.gram._evaluators import Evaluator, Rows, evaluator, profile_of
from kpca.kernels import RBF, Exponential, Kernel, Polynomial

Key = tuple[int, int, int, int]


class SharedArguments:
    """The arguments of some kernels for all pairs of the rows of X, in tiles that are kept while `budget` bytes last.

    A tile is kept when it is first asked for; what does not fit is computed anew each time, to the same bits.
    """

    def __init__(self, kernels: Sequence[Kernel], X: Any, *, budget: int) -> None:
        found = [kernel.shared for kernel in kernels]
        names = {shared[0] for shared in found if shared is not None}
        if len(names) != 1 or None in found:
            raise InputError(f"Kernels that share arguments must be of one kind; got {', '.join(map(repr, kernels))}.")
        self._name, self.X = names.pop(), X
        # Arguments are kept with the largest factor that a kernel takes them with.
        self._factor, self._widest = max(
            ((shared[1], kernel) for shared, kernel in zip(found, kernels, strict=True) if shared is not None),
            key=lambda pair: pair[0],
        )
        self._singular = any(getattr(kernel, "singular_at_zero", False) for kernel in kernels)
        self._makers: dict[np.dtype[Any], Any] = {}
        self._tiles: dict[tuple[np.dtype[Any], Key], FloatArray] = {}
        self._left = budget
        self._lock = threading.Lock()

    def evaluator(self, kernel: Kernel, dtype: np.dtype[Any], *, shifted: bool) -> FromArguments:
        shared = kernel.shared
        if shared is None or shared[0] != self._name or shared[1] > self._factor:
            raise InputError(f"The arguments of these kernels must be shared; {kernel!r} has others.")
        with self._lock:
            if dtype not in self._makers:
                self._makers[dtype] = self._maker(dtype)
        return FromArguments(self, self._makers[dtype], kernel, shared[1] / self._factor, shifted)

    def _maker(self, dtype: np.dtype[Any]) -> Any:
        """Return what computes the arguments of the kernel that takes them with the largest factor."""
        # Its errors are the largest, too: what is precise enough for it is so for all.
        kernel = self._widest
        if self._name == "distance":
            kernel = Exponential(1.0 / np.sqrt(self._factor)) if self._singular else RBF(self._factor)
        elif self._name == "dot":
            kernel = Polynomial(1, self._factor, 0.0)
        return evaluator(kernel, self.X, self.X, dtype)

    def arguments(self, maker: Any, rows: Rows, columns: slice, shape: tuple[int, ...]) -> FloatArray:
        """Return the arguments of some pairs: those kept, or computed, and kept if they are a tile and there is room.

        They belong to the store: who changes them changes them for all.
        """
        key = None
        if isinstance(rows, slice):
            key = (maker.argument_dtype, (rows.start, rows.stop, columns.start, columns.stop))
            kept = self._tiles.get(key)
            if kept is not None:
                return kept
        t = np.empty(shape, dtype=maker.argument_dtype)
        maker.arguments(rows, columns, t)
        if self._name == "distance":
            np.minimum(t, 0.0, out=t)
        if key is not None:
            with self._lock:
                if t.nbytes <= self._left and key not in self._tiles:
                    self._left -= t.nbytes
                    self._tiles[key] = t
        return t


class FromArguments(Evaluator):
    """Fills tiles with values of one kernel, from arguments that others use as well."""

    def __init__(self, source: SharedArguments, maker: Any, kernel: Kernel, factor: float, shifted: bool) -> None:
        self._source, self._maker, self._factor = source, maker, factor
        self._profile, self.constant = profile_of(kernel, shifted)
        self.argument_error = maker.argument_error * factor

    def fill(self, rows: Rows, columns: slice, out: FloatArray) -> None:
        t = self._source.arguments(self._maker, rows, columns, out.shape)
        if t.dtype == out.dtype:
            np.multiply(t, t.dtype.type(self._factor), out=out)
            self._profile(out)
        else:
            out[...] = self._profile(t * self._factor)

    def farthest(self, count: int) -> NDArray[np.intp]:
        return np.asarray(self._maker.farthest(count))
