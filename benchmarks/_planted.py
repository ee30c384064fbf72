"""Data in which a known number of components is planted; always the same for the same seed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist

FloatArray = NDArray[Any]


@dataclass(frozen=True)
class Planted:
    """A way to draw data, the model that looks at them, and how many components it should find."""

    title: str
    kind: str  # "factors" or "clusters"
    n: int
    d: int
    planted: int  # factors, or clusters
    strength: float  # variance of a factor per column, or least distance of two centres; noise has variance 1
    decay: float = 1.0  # of the factors' standard deviations, from one to the next
    kernel: str = "linear"
    width: float = 1.0  # gamma as a multiple of 1 / (2 m^2), m the median distance; for poly, of 1 / d

    @property
    def count(self) -> int:
        """The components that are there; at least one is always kept."""
        return max(1, self.planted - (self.kind == "clusters"))

    def draw(self, seed: int) -> FloatArray:
        """Return rows.  # shape: (n, d)"""
        random = np.random.default_rng(seed)
        noise = random.standard_normal((self.n, self.d))
        if self.kind == "clusters":
            return _centres(self.planted, self.d, self.strength, random)[np.arange(self.n) % self.planted] + noise
        if not self.planted:
            return noise
        loadings = np.linalg.qr(random.standard_normal((self.d, self.planted)))[0].T
        sizes = np.sqrt(self.d * self.strength) * self.decay ** np.arange(self.planted)
        rows: FloatArray = random.standard_normal((self.n, self.planted)) @ (loadings * sizes[:, None]) + noise
        return rows

    def model(self, X: FloatArray) -> dict[str, Any]:
        """Return the parameters of KernelPCA."""
        if self.kernel == "poly":
            return {"kernel": "poly", "degree": 2, "gamma": self.width / self.d, "coef0": 1.0, "n_jobs": 1}
        if self.kernel == "rbf":
            return {"kernel": "rbf", "gamma": self.width / (2.0 * float(np.median(pdist(X))) ** 2), "n_jobs": 1}
        return {"kernel": self.kernel, "n_jobs": 1}


def _centres(count: int, d: int, distance: float, random: np.random.Generator) -> FloatArray:
    """Return centres whose nearest two are so far apart, and none more than three and a half times that."""
    while True:
        centres = random.standard_normal((count, d))
        apart = pdist(centres)
        if apart.max() < 3.5 * apart.min():
            return centres * (distance / float(apart.min()))


CASES = [
    Planted("linear: noise only", "factors", 200, 20, 0, 0.0),
    Planted("linear: 2 factors, 10 columns", "factors", 200, 10, 2, 0.3),
    Planted("linear: 5 unequal factors, 20 columns", "factors", 300, 20, 5, 0.4, decay=0.8),
    Planted("linear: 3 factors, 30 columns, 100 rows", "factors", 100, 30, 3, 0.3),
    Planted("linear: 3 factors, 300 columns, 100 rows", "factors", 100, 300, 3, 0.3),
    Planted("linear: 3 factors, one 8 times the last", "factors", 200, 10, 3, 1.0, decay=0.6),
    Planted("poly: 2 factors, 10 columns, 0.03/d", "factors", 200, 10, 2, 0.5, kernel="poly", width=0.03),
    *(
        Planted(f"poly: {c} clusters, {d} columns, {width:g}/d", "clusters", 200, d, c, 8.0, 1.0, "poly", width)
        for c, d in ((3, 5), (4, 10))
        for width in (0.1, 1.0)
    ),
    *(
        Planted(f"rbf: {c} clusters, {d} columns, {width:g}x median", "clusters", 200, d, c, 8.0, 1.0, "rbf", width)
        for c, d in ((3, 2), (2, 3), (3, 5), (5, 5), (6, 20))
        for width in (0.3, 1.0, 3.0, 10.0)
    ),
]
