"""What an iteration must remember to go on later as if nothing had happened, and who remembers it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import NDArray

from kpca.gram.operator import Moments, Precision

FloatArray = NDArray[Any]


@dataclass(frozen=True)
class State:
    """Block Krylov after a pass. The arrays are views: they are good until the next pass."""

    k: int
    passes: int
    Q: FloatArray  # the basis, shape (n, size)
    A: FloatArray  # its images, shape (n, size)
    H: FloatArray  # Q'A, shape (size, size)
    errors: FloatArray  # how wrong each image may be, shape (size,)
    cheap: Precision
    single_error: float
    best: float
    best_pass: int
    guessed: int | None  # columns of the guess it began with
    probed: bool
    generator: dict[str, Any]  # of random numbers
    found: dict[Precision, Moments]  # what the products have told of the operator


class Keeper(Protocol):
    """Remembers a state, if only the last one."""

    def load(self) -> State | None:
        """Return the state to go on from, None to begin anew."""

    def save(self, state: State) -> None:
        """Remember a state; called after every pass, it may decline some."""
