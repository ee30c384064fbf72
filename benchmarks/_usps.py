"""Noisy digits: 300 USPS digits of each class to learn from and 50 others of each to denoise (Mika et al. 1999)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks._real import data_file

FloatArray = NDArray[Any]
SHAPE = (16, 16)
NOISES = ("Gaussian", "speckle")
GAUSSIAN_DEVIATION, SPECKLE_SHARE = 0.5, 0.4


@dataclass(frozen=True)
class Digits:
    """Rows to learn from, clean rows, and as many draws of each noise on them as were asked for."""

    train: FloatArray  # shape: (10 * per class, 256), in [-1, 1]
    clean: FloatArray  # shape: (m, 256)
    labels: NDArray[Any]  # of the clean rows, shape: (m,)
    noisy: dict[str, list[FloatArray]]  # by kind of noise, each shape: (m, 256)


def digits(*, train: int = 300, test: int = 50, draws: int = 1, seed: int = 0) -> Digits:
    """Return so many digits per class, in float64, with noise of both kinds."""
    rng = np.random.default_rng(seed)
    with np.load(data_file("usps.npz"), allow_pickle=False) as file:
        X, y, Z, its = (file[key] for key in ("X_train", "y_train", "X_test", "y_test"))
    learn = np.concatenate([rng.permutation(np.flatnonzero(y == digit))[:train] for digit in range(10)])
    show = np.concatenate([rng.permutation(np.flatnonzero(its == digit))[:test] for digit in range(10)])
    clean = Z[show].astype(np.float64)
    noisy: dict[str, list[FloatArray]] = {kind: [] for kind in NOISES}
    for _ in range(draws):
        noisy["Gaussian"].append(clean + GAUSSIAN_DEVIATION * rng.standard_normal(clean.shape))
        noisy["speckle"].append(speckled(clean, rng))
    return Digits(X[learn].astype(np.float64), clean, its[show], noisy)


def speckled(rows: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return rows of which a share of the pixels, chosen at random, is black or white with equal chance."""
    changed = rows.copy()
    hit = rng.random(rows.shape) < SPECKLE_SHARE
    changed[hit] = rng.choice([-1.0, 1.0], size=np.count_nonzero(hit))
    return changed


def mse(rows: FloatArray, truth: FloatArray) -> float:
    """Return the mean squared error of a pixel."""
    return float(np.square(rows - truth).mean())
