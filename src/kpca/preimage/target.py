"""What a fitted model offers to those who look for a way back to its data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from kpca.kernels import Kernel
from kpca.preimage.expansion import Expansion

FloatArray = NDArray[Any]


@dataclass(frozen=True)
class Target:
    """A kernel, some rows with their scores, and how scores combine rows in feature space."""

    kernel: Kernel
    rows: FloatArray  # training rows, all or some of them, shape: (n, d)
    scores: FloatArray  # theirs, shape: (n, k)
    weights: FloatArray | None  # theirs, all positive, shape: (n,)
    expansion: Expansion | None  # None where the model has none
