"""Small exact models, built by hand, for those who look for pre-images."""

from __future__ import annotations

import numpy as np
import reference

from kpca.preimage.target import Expansion, PreimageTarget


def target(kernel, X, k=None, *, weights=None, dtype=None):
    """Kernel PCA of X by the slow reference, as a fitted model offers it; k=None keeps every component there is."""
    exact = np.asarray(X, dtype=np.float64)
    K = kernel.block(exact, exact)
    values, _ = reference.spectrum(reference.centred(K, weights))
    rank = int(np.sum(values > 1e-10 * values[0]))
    parts = reference.expansion_parts(K, rank if k is None else min(k, rank), weights)
    rows = exact if dtype is None else exact.astype(dtype)
    parts["scores"] = parts["scores"].astype(rows.dtype)
    return PreimageTarget(
        kernel,
        rows,
        parts["scores"],
        None if weights is None else np.asarray(weights, dtype=np.float64),
        Expansion(kernel=kernel, rows=rows, **parts),
    )


def scores_of(model, X):
    """Scores of new rows: A' k_x - offset."""
    K = model.kernel.block(np.asarray(X, dtype=np.float64), model.expansion.rows.astype(np.float64))
    return K @ model.expansion.directions - model.expansion.offset


def swiss(n, d=5, seed=0, noise=0.05):
    """A curved sheet in d dimensions."""
    rng = np.random.default_rng(seed)
    u, v = rng.uniform(0, 3, n), rng.uniform(-1, 1, n)
    sheet = np.column_stack([u * np.cos(2 * u), u * np.sin(2 * u), v])
    return sheet @ rng.standard_normal((3, d)) + noise * rng.standard_normal((n, d))
