"""A sample of the rows of a stream that is always ready, and the same however the stream is cut into batches."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca.errors import InputError

FloatArray = NDArray[Any]
# Uniform numbers are drawn in blocks of this many rows, so that a row's number depends on its place only.
_BLOCK = 4096


@dataclass(frozen=True)
class Reservoir:
    """The rows with the largest keys log(u) / w, u uniform: each row with a chance like its weight w.

    That is weighted sampling without replacement (Efraimidis and Spirakis 2006). To forget is to divide keys by the
    factor that weights are multiplied by.
    """

    size: int
    seed: int
    seen: int = 0  # rows so far, those of weight 0 too
    rows: FloatArray | None = None  # in the order of the stream, shape: (m, d)
    keys: FloatArray | None = None  # shape: (m,)

    def added(self, rows: FloatArray, weights: FloatArray | None) -> Reservoir:
        """Return the sample with a batch taken in."""
        u = self._uniform(self.seen, self.seen + len(rows))
        with np.errstate(divide="ignore"):
            keys = np.log(u) if weights is None else np.log(u) / weights
        present = slice(None) if weights is None else weights > 0
        rows, keys = rows[present], keys[present]
        seen = self.seen + len(u)
        if self.rows is not None and self.keys is not None:
            # of the batch only what may stay is copied
            floor = self.keys.min() if len(self.keys) == self.size else -np.inf
            hopeful = keys > floor
            rows, keys = np.concatenate([self.rows, rows[hopeful]]), np.concatenate([self.keys, keys[hopeful]])
        if len(keys) > self.size:
            kept = np.sort(np.argpartition(-keys, self.size - 1)[: self.size])
            rows, keys = rows[kept], keys[kept]
        return replace(self, seen=seen, rows=np.array(rows), keys=np.array(keys))

    def faded(self, factor: float) -> Reservoir:
        """Return the sample with all weights so far multiplied by a factor."""
        return self if self.keys is None or factor == 1.0 else replace(self, keys=self.keys / factor)

    def _uniform(self, start: int, stop: int) -> FloatArray:
        """Return the numbers of the rows from start to stop, in (0, 1].  # shape: (stop - start,)"""
        blocks = range(start // _BLOCK, -(-stop // _BLOCK))
        drawn = [1.0 - np.random.default_rng((self.seed, block)).random(_BLOCK) for block in blocks]
        first = start - (start // _BLOCK) * _BLOCK
        return np.concatenate(drawn)[first : first + stop - start] if drawn else np.empty(0)

    def arrays(self) -> dict[str, FloatArray]:
        """Return what a checkpoint keeps."""
        if self.rows is None or self.keys is None:
            return {}
        return {"sample rows": self.rows, "sample keys": self.keys, "sample seen": np.array([self.seen])}

    def recalled(self, arrays: dict[str, FloatArray]) -> Reservoir:
        """Return the sample that a checkpoint kept."""
        if "sample rows" not in arrays:
            return self
        rows, keys = arrays["sample rows"], arrays["sample keys"]
        if rows.ndim != 2 or keys.shape != (len(rows),) or len(rows) > self.size:
            raise InputError("The sample of a checkpoint must be rows with a key each; it is not: delete the file.")
        return replace(self, seen=int(arrays["sample seen"][0]), rows=rows, keys=keys)
