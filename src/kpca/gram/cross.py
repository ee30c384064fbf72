"""Kernel values between new rows and known ones, as an operator that never holds them all."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca._base.threads import in_order
from kpca.gram._numpy import Evaluator, evaluator
from kpca.gram.tiles import EDGE, edges
from kpca.kernels import Kernel

FloatArray = NDArray[Any]
# Smaller tiles than the symmetric product's: a few thousand new rows must still give every thread its share.
_EDGE = {4: 512, 8: 280}
# Numbers of new rows that are prepared at a time: what is made of them is as large as they are.
_BAND_NUMBERS = 2_000_000
_SHORTEST_BAND = 4096
# Tiles that a worker holds at the same time: its own, a temporary of the profile, and products on their way.
_TILES_PER_WORKER = 4


def band_rows(d: int) -> int:
    """Return how many new rows are worked on at a time; a matter of their length only."""
    return max(_SHORTEST_BAND, _BAND_NUMBERS // (d + 2))


def workers_bytes(threads: int, n: int) -> int:
    """Return the scratch memory of the worker threads."""
    tile = min(EDGE[4] ** 2 * 4, 8 * n * n)
    return threads * _TILES_PER_WORKER * tile


class CrossGram:
    """K(X, Y) - constant in tiles; rows of X are worked on by several threads, a band of them at a time."""

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
        self._kernel, self._X, self._Y, self._shifted = kernel, X, Y, shifted
        self._memo = {} if memo is None else memo
        self._threads = threads
        self._bands = edges(X.shape[0], band_rows(X.shape[1])) or [slice(0, 0)]
        self._first: Evaluator | None = self._evaluator(self._bands[0])
        self.constant = self._first.constant

    def _evaluator(self, band: slice) -> Evaluator:
        X = self._X if len(self._bands) == 1 else self._X[band]
        return evaluator(self._kernel, X, self._Y, self.dtype, shifted=self._shifted, memo=self._memo)

    def _source(self, band: slice) -> Evaluator:
        """Return the evaluator of a band and hold on to none: two bands at a time would be one too many."""
        source, self._first = self._first, None
        return source or self._evaluator(band)

    def __matmul__(self, V: FloatArray) -> FloatArray:
        """Return (K - constant) V, summed over tiles in float64.  # shape: (m, b)"""
        inner = np.ascontiguousarray(V, dtype=self.dtype)
        out = np.empty((self.shape[0], V.shape[1]))
        for band in self._bands:
            self._multiply(self._source(band), inner, out[band])
        return out

    def _multiply(self, source: Evaluator, inner: FloatArray, out: FloatArray) -> None:
        """Write the product of a band to `out`."""
        columns = edges(self.shape[1], _EDGE[self.dtype.itemsize])
        widest = max((cut.stop - cut.start for cut in columns), default=0)

        def make_worker() -> Any:
            scratch = np.empty(0, dtype=self.dtype)

            def multiply(rows: slice) -> FloatArray:
                nonlocal scratch
                height = rows.stop - rows.start
                if scratch.size < height * widest:
                    scratch = np.empty(height * widest, dtype=self.dtype)
                total = np.zeros((height, inner.shape[1]))
                for cut in columns:
                    tile = scratch[: height * (cut.stop - cut.start)].reshape(height, cut.stop - cut.start)
                    source.fill(rows, cut, tile)
                    total += tile @ inner[cut]
                return total

            return multiply

        def commit(rows: slice, result: FloatArray) -> None:
            out[rows] = result

        in_order(edges(len(out), _EDGE[self.dtype.itemsize]), make_worker, commit, self._threads)
