"""Data in which a few variables have to do with each other, among noise of the same variance: no linear trace of it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[Any]
# What is planted -> the columns it is planted in.
PLANTED = {"ring": (0, 1), "xor": (0, 1, 2), "xor among two-valued noise": (0, 1, 2), "product": (0, 1, 2)}


def structure(kind: str, seed: int, n: int = 500, d: int = 10) -> FloatArray:
    """Return rows whose columns all have variance 1 and no correlation but by chance.  # shape: (n, d)"""
    random = np.random.default_rng(seed)
    X = random.standard_normal((n, d))
    noise = random.standard_normal((n, 3))
    match kind:
        case "ring":
            angle = random.uniform(0.0, 2.0 * np.pi, n)
            X[:, :2] = np.column_stack([np.cos(angle), np.sin(angle)]) + 0.125 * noise[:, :2]
        case "xor" | "xor among two-valued noise":
            if kind != "xor":
                X = np.sign(X) + 0.25 * random.standard_normal((n, d))
            signs = np.sign(random.standard_normal((n, 2)))
            X[:, :3] = np.column_stack([signs, signs[:, 0] * signs[:, 1]]) + 0.25 * noise
        case "product":
            X[:, 2] = X[:, 0] * X[:, 1] + 0.25 * noise[:, 2]
    X -= X.mean(axis=0)
    X /= X.std(axis=0)
    return X


def found(values: FloatArray, planted: tuple[int, ...]) -> bool:
    """Return True if the planted variables have the largest values."""
    return set(np.argsort(-values)[: len(planted)].tolist()) == set(planted)


def loadings(X: FloatArray, k: int = 3) -> FloatArray:
    """Return the norms of the first k loadings of plain PCA, for each variable.  # shape: (d,)"""
    _, sizes, directions = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    norms: FloatArray = np.linalg.norm(sizes[:k, None] * directions[:k], axis=0)
    return norms
