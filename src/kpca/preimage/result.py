"""What a way back to the data returns: rows, and for each of them how it was found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[Any]


@dataclass(frozen=True)
class Found:
    """Pre-images of some scores: finite, always; what was done instead where the method failed is in `fallbacks`."""

    rows: FloatArray  # shape: (m, d)
    iterations: NDArray[np.intp]  # 0 where a map was applied, shape: (m,)
    converged: NDArray[np.bool_]  # shape: (m,)
    fallbacks: dict[str, NDArray[np.bool_]] = field(default_factory=dict)  # a sentence -> which rows, shape: (m,)


class Way(Protocol):
    """A fitted way from scores to rows of data."""

    def __call__(self, scores: FloatArray, *, inputs: FloatArray | None = None, threads: int = 1) -> Found:
        """Return a row for each row of scores; `inputs` are the rows that the scores are of, where they are known."""
