"""The way back of the linear kernel: mean plus components, exactly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca.preimage.limits import Box, inside, pulled
from kpca.preimage.result import Found

FloatArray = NDArray[Any]


@dataclass(frozen=True)
class LinearWay:
    """x = mean + V t: the nearest row that has these scores."""

    components: FloatArray  # shape: (k, d)
    mean: FloatArray  # shape: (d,)
    box: Box | None = None
    penalty: float = 0.0

    def __call__(self, scores: FloatArray, *, inputs: FloatArray | None = None, threads: int = 1) -> Found:
        """Return a row for each row of scores."""
        m = len(scores)
        rows = (scores @ self.components + self.mean).astype(self.components.dtype, copy=False)
        rows = inside(pulled(rows, inputs, self.penalty), self.box)
        return Found(rows, np.zeros(m, np.intp), np.ones(m, bool))
