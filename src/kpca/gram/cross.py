"""Kernel values between new rows and known ones, as an operator that never holds them all."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca.gram._numpy import evaluator
from kpca.gram.tiles import edges
from kpca.gram.workers import in_order
from kpca.kernels import Kernel

FloatArray = NDArray[Any]
# Smaller tiles than the symmetric product's: a few thousand new rows must still give every thread its share.
_EDGE = {4: 512, 8: 280}


class CrossGram:
    """K(X, Y) - constant in tiles; rows of X are worked on by several threads."""

    def __init__(
        self,
        kernel: Kernel,
        X: Any,
        Y: Any,
        *,
        dtype: np.dtype[Any],
        shifted: bool = False,
        threads: int = 1,
        memo: dict[Any, Any] | None = None,
    ) -> None:
        self.shape, self.dtype = (X.shape[0], Y.shape[0]), dtype
        self._evaluator = evaluator(kernel, X, Y, dtype, shifted=shifted, memo=memo)
        self._threads = threads
        self.constant = self._evaluator.constant

    def __matmul__(self, V: FloatArray) -> FloatArray:
        """Return (K - constant) V, summed over tiles in float64.  # shape: (m, b)"""
        inner = np.ascontiguousarray(V, dtype=self.dtype)
        out = np.empty((self.shape[0], V.shape[1]))
        columns = edges(self.shape[1], _EDGE[self.dtype.itemsize])
        widest = max((cut.stop - cut.start for cut in columns), default=0)

        def make_worker() -> Any:
            scratch = np.empty(0, dtype=self.dtype)

            def multiply(rows: slice) -> FloatArray:
                nonlocal scratch
                height = rows.stop - rows.start
                if scratch.size < height * widest:
                    scratch = np.empty(height * widest, dtype=self.dtype)
                total = np.zeros((height, V.shape[1]))
                for cut in columns:
                    tile = scratch[: height * (cut.stop - cut.start)].reshape(height, cut.stop - cut.start)
                    self._evaluator.fill(rows, cut, tile)
                    total += tile @ inner[cut]
                return total

            return multiply

        def commit(rows: slice, result: FloatArray) -> None:
            out[rows] = result

        in_order(edges(self.shape[0], _EDGE[self.dtype.itemsize]), make_worker, commit, self._threads)
        return out
