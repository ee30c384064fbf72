"""Real data of the races: files in the folder that KPCA_DATA names, or in ../shared/data."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[Any]


def data_file(name: str) -> Path:
    """Return where a file should be."""
    folder = os.environ.get("KPCA_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data"
    return Path(folder) / name


def usps() -> tuple[FloatArray, NDArray[Any]]:
    """Return the training digits in a random order, and their classes.  # shape: (7291, 256)"""
    with np.load(data_file("usps.npz"), allow_pickle=False) as file:
        X, y = file["X_train"].astype(np.float64), file["y_train"]
    order = np.random.default_rng(0).permutation(len(X))
    return X[order], y[order]


def golub() -> tuple[FloatArray, NDArray[Any]]:
    """Return the logarithms of gene expressions of all patients, and their kind of leukaemia.  # shape: (72, 7129)"""
    with np.load(data_file("golub_leukemia.npz"), allow_pickle=False) as file:
        X = np.vstack([file["X_train"], file["X_test"]])
        y = np.concatenate([file["y_train"], file["y_test"]])
    return np.log10(np.clip(X, 100, 16000)), y
