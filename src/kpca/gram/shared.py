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
from kpca.gram._evaluators import DOUBLE, SINGLE, ProfileValues, Rows, block_error, evaluator, has_single
from kpca.gram.tiles import CROSS_EDGE, by_slices, edges
from kpca.kernels import RBF, Exponential, Kernel, Polynomial, ProfileKernel
from kpca.kernels.rounding import Lengths


class SharedArguments:
    """The arguments of some kernels for all pairs of the rows of X, in tiles that are kept while `budget` bytes last.

    A tile is kept when it is first asked for; what does not fit is computed anew each time, to the same bits. `new` are
    rows that are to be multiplied against those of X.
    """

    def __init__(self, kernels: Sequence[Kernel], X: Any, *, budget: int, new: Any = None) -> None:
        found = [kernel.shared for kernel in kernels]
        names = {shared[0] for shared in found if shared is not None}
        if len(names) != 1 or None in found:
            raise InputError(f"Kernels that share arguments must be of one kind; got {', '.join(map(repr, kernels))}.")
        self._name, self.X, self._new = names.pop(), X, new
        # Arguments are those of the kernel that takes them with the largest factor. Its errors are the largest, too:
        # what is precise enough for it is so for all.
        factors = [shared[1] for shared in found if shared is not None]
        self._factor = max(factors)
        self._model = kernels[factors.index(self._factor)]
        if self._name == "distance":
            singular = any(getattr(kernel, "singular_at_zero", False) for kernel in kernels)
            self._model = Exponential(1.0 / np.sqrt(self._factor)) if singular else RBF(self._factor)
        elif self._name == "dot":
            self._model = Polynomial(1, self._factor, 0.0)
        self._makers: dict[tuple[np.dtype[Any], bool], Any] = {}
        self._memo: dict[Any, Any] = {}
        self._tiles: dict[Any, FloatArray] = {}
        self._left, self._lock = budget, threading.Lock()

    def evaluator(self, kernel: Kernel, dtype: np.dtype[Any], *, shifted: bool, new: bool = False) -> FromArguments:
        """Return what fills tiles of this kernel between rows of X, or between the new ones and those of X."""
        shared = kernel.shared
        if shared is None or shared[0] != self._name or shared[1] > self._factor:
            raise InputError(f"The arguments of these kernels must be shared; {kernel!r} has others.")
        with self._lock:
            if (dtype, new) not in self._makers:
                rows = self._new if new else self.X
                self._makers[dtype, new] = evaluator(self._model, rows, self.X, dtype, memo=self._memo)
        return FromArguments(self, self._makers[dtype, new], kernel, shared[1] / self._factor, shifted)

    def new_times(self, kernel: Kernel, V: FloatArray, *, single: bool, shifted: bool, threads: int = 1) -> FloatArray:
        """Return K(new, X) V, in single precision where that is enough and there is one.  # shape: (m, b)"""
        single = single and has_single(kernel, self.X) and has_single(kernel, self._new)
        dtype = SINGLE if single else DOUBLE
        values, inner = self.evaluator(kernel, dtype, shifted=shifted, new=True), V.astype(dtype)
        rows, columns = (edges(n, CROSS_EDGE[dtype.itemsize]) for n in (self._new.shape[0], len(V)))

        def work(here: slice) -> FloatArray:
            total = np.zeros((here.stop - here.start, V.shape[1]))
            for cut in columns:
                tile = np.empty((len(total), cut.stop - cut.start), dtype=dtype)
                values.fill(here, cut, tile)
                total += tile @ inner[cut]
            return total

        return by_slices(work, np.empty((self._new.shape[0], V.shape[1])), rows[0].stop, threads)

    def arguments(self, maker: Any, rows: Rows, columns: slice, shape: tuple[int, ...]) -> FloatArray:
        """Return the arguments of some pairs: those kept, or computed, and kept if they are a tile and there is room.

        They belong to the store: who changes them changes them for all.
        """
        key = None
        if isinstance(rows, slice):
            key = (id(maker), rows.start, rows.stop, columns.start, columns.stop)
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


class FromArguments(ProfileValues):
    """Fills tiles with values of one kernel, from arguments that others use as well."""

    def __init__(self, source: SharedArguments, maker: Any, kernel: Kernel, factor: float, shifted: bool) -> None:
        super().__init__(kernel, maker.argument_dtype, shifted=shifted)
        self._source, self._maker, self._factor = source, maker, factor
        self._may_pass_zero = True  # none does
        self.argument_error = maker.argument_error * factor

    def lengths(self) -> Lengths:
        found: Lengths = self._maker.lengths()
        return found.times(self._factor)

    def error(self, X: Any, weights: FloatArray, norm: float) -> float:
        if isinstance(self._kernel, ProfileKernel):
            return super().error(X, weights, norm)
        return block_error(self._kernel, X, weights, norm)

    def arguments(self, rows: Rows, columns: slice, out: FloatArray) -> None:
        t = self._source.arguments(self._maker, rows, columns, out.shape)
        np.multiply(t, t.dtype.type(self._factor), out=out)

    def farthest(self, count: int) -> NDArray[np.intp]:
        return np.asarray(self._maker.farthest(count))
