"""How the pre-images of the last call were found, in words and as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca.preimage.result import Found

FloatArray = NDArray[Any]


@dataclass(frozen=True)
class PreimageReport:
    """What `preimage_report_` is; `str` puts it in words.

    Attributes
    ----------
    method : the way taken, and `reason` why that one.
    rows : how many rows were asked for; 0 if none have been.
    iterations : (rows,) steps of each, 0 where a map was applied.
    converged : (rows,) False where `max_iter` ended the search.
    fallbacks : a sentence on what was done instead, and which rows it was done for.
    gains : (rows,) by how much the part of each row in the components was lengthened in `denoise`, or None.
    """

    method: str
    reason: str
    rows: int
    iterations: NDArray[np.intp]
    converged: NDArray[np.bool_]
    fallbacks: dict[str, NDArray[np.bool_]]
    gains: FloatArray | None

    @staticmethod
    def of(method: str, reason: str, found: Found | None = None) -> PreimageReport:
        """Return the report on what was found, or on a way that nobody has gone yet."""
        if found is None:
            return PreimageReport(method, reason, 0, np.empty(0, np.intp), np.empty(0, bool), {}, None)
        some = {sentence: which for sentence, which in found.fallbacks.items() if which.any()}
        return PreimageReport(method, reason, len(found.rows), found.iterations, found.converged, some, found.gains)

    def __str__(self) -> str:
        lines = [f"{self.method}: {self.reason}"]
        if self.rows:
            steps = f"{self.rows} rows"
            if self.iterations.any():
                steps += f", {np.median(self.iterations):.0f} steps (median), {self.iterations.max()} at most"
                if not self.converged.all():
                    steps += f"; {np.count_nonzero(~self.converged)} did not converge: raise max_iter"
            lines.append(steps)
        lines += [f"{np.count_nonzero(which)} rows: {sentence}" for sentence, which in self.fallbacks.items()]
        return "\n".join(lines)
