"""What a way back to the data returns: rows, and for each of them how it was found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kpca.errors import InputError

FloatArray = NDArray[Any]


@dataclass(frozen=True)
class Found:
    """Pre-images of some scores: finite, always; what was done instead where the method failed is in `fallbacks`."""

    rows: FloatArray  # shape: (m, d)
    iterations: NDArray[np.intp]  # 0 where a map was applied, shape: (m,)
    converged: NDArray[np.bool_]  # shape: (m,)
    fallbacks: dict[str, NDArray[np.bool_]] = field(default_factory=dict)  # a sentence -> which rows, shape: (m,)
    gains: FloatArray | None = None  # by how much scores were multiplied, where they were, shape: (m,)

    @staticmethod
    def empty(m: int, d: int, dtype: np.dtype[Any]) -> Found:
        """Return room for what will be found for m rows, gains included."""
        return Found(np.empty((m, d), dtype), np.zeros(m, np.intp), np.zeros(m, bool), {}, np.ones(m))

    def write(self, rows: slice | NDArray[np.bool_], part: Found) -> None:
        """Write what was found for some of the rows."""
        self.rows[rows], self.iterations[rows], self.converged[rows] = part.rows, part.iterations, part.converged
        if self.gains is not None and part.gains is not None:
            self.gains[rows] = part.gains
        for sentence, which in part.fallbacks.items():
            if which.any():
                self.fallbacks.setdefault(sentence, np.zeros(len(self.rows), bool))[rows] = which

    @staticmethod
    def joined(parts: list[Found]) -> Found:
        """Return what was found for the rows of all parts, one after the other."""
        if len(parts) == 1:
            return parts[0]
        if not parts:
            raise InputError("X must have rows; got none.")
        sentences = {sentence for part in parts for sentence in part.fallbacks}
        return Found(
            np.concatenate([part.rows for part in parts]),
            np.concatenate([part.iterations for part in parts]),
            np.concatenate([part.converged for part in parts]),
            {
                sentence: np.concatenate(
                    [part.fallbacks.get(sentence, np.zeros(len(part.rows), bool)) for part in parts]
                )
                for sentence in sorted(sentences)
            },
            None if parts[0].gains is None else np.concatenate([part.gains for part in parts]),
        )


class Way(Protocol):
    """A fitted way from scores to rows of data."""

    def __call__(self, scores: FloatArray, *, inputs: FloatArray | None = None, threads: int = 1) -> Found:
        """Return a row for each row of scores; `inputs` are the rows that the scores are of, where they are known."""
