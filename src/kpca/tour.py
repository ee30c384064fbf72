"""The rest of `kpca demo`: choosing a kernel, cleaning images, finding what is odd, and a page about it all.

All data ships with scikit-learn; every step returns what the command prints.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits, load_wine, make_circles
from sklearn.decomposition import PCA

from kpca.detector import KernelPCADetector
from kpca.kernel_pca import KernelPCA
from kpca.selection import tune

FloatArray = NDArray[Any]
IMAGE_SHAPE = (8, 8)
_GREYS = 16.0
_FITTED_IMAGES = 1200
_NOISE = 0.25
_SHOWN_IMAGES = 8
# A usual value of one column of the wines, but not in a wine that is otherwise like the first.
_BROKEN_COLUMN, _BROKEN_VALUE = "flavanoids", 0.6


def choose() -> str:
    """Tune on two rings, which no line separates; return why this kernel."""
    rings, ring = make_circles(400, factor=0.3, noise=0.05, random_state=0)
    return tune(rings, ring, n_components=1).reason


@dataclass(frozen=True)
class Cleaned:
    """Images without noise, with it, and cleaned; mean squared errors of grey levels from 0 to 1."""

    model: KernelPCA
    true: FloatArray
    noisy: FloatArray
    clean: FloatArray
    error_before: float
    error_after: float
    error_of_pca: float

    def rows(self) -> list[FloatArray]:
        """Return some images as the rows of a gallery: as they were, with noise, cleaned."""
        return [images[:_SHOWN_IMAGES] for images in (self.true, self.noisy, self.clean)]


def clean() -> Cleaned:
    """Learn digits from some images, take the noise out of others, and do the same by PCA at its best."""
    X = load_digits().data / _GREYS
    known, true = X[:_FITTED_IMAGES], X[_FITTED_IMAGES:]
    noisy = true + np.random.default_rng(0).normal(scale=_NOISE, size=true.shape)
    model = KernelPCA(100, kernel="rbf", gamma="median", preimage="auto").fit(known)
    cleaned = model.denoise(noisy)
    linear = (PCA(count).fit(known) for count in range(5, 40, 2))
    by_pca = min(_error(pca.inverse_transform(pca.transform(noisy)), true) for pca in linear)
    return Cleaned(model, true, noisy, cleaned, _error(noisy, true), _error(cleaned, true), by_pca)


def _error(rows: FloatArray, true: FloatArray) -> float:
    return float(np.square(rows - true).mean())


@dataclass(frozen=True)
class Odd:
    """A row with a broken relation between its columns, judged by a detector that never saw one."""

    changed: str
    value: float
    statistic: float
    limit: float
    found: str  # the column that contributes most


def watch() -> Odd:
    """Learn what wines are like, and judge one whose flavanoids do not fit the rest of it."""
    wine = load_wine()
    names = list(wine.feature_names)
    detector = KernelPCADetector().fit(wine.data)
    row = wine.data[:1].copy()
    row[0, names.index(_BROKEN_COLUMN)] = _BROKEN_VALUE
    statistic = -float(detector.score_samples(row)[0])
    worst = int(np.argmax(detector.contributions(row).values[0]))
    return Odd(_BROKEN_COLUMN, _BROKEN_VALUE, statistic, -float(detector.offset_), names[worst])


def write_page(path: Path) -> None:
    """Write a report on the digits."""
    from kpca.report import report_on

    digits = load_digits()
    X = digits.data / _GREYS
    model = KernelPCA(6, kernel="rbf", gamma="median", preimage="ridge").fit(X)
    report_on(model, X, path, labels=digits.target, title="Handwritten digits", image_shape=IMAGE_SHAPE)
