"""Small decisions that a fit and its plan must take alike."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca import blas
from kpca.gram import Gram
from kpca.gram.coarse import coarse_eigenvalues
from kpca.kernels import Kernel

# What tol=0 means: the residual each precision can reach, relative to the largest eigenvalue.
FINEST_TOL: dict[np.dtype[Any], float] = {np.dtype(np.float32): 1e-5, np.dtype(np.float64): 1e-10}
# Components first tried when a fraction of the variance is asked for; doubled until it is reached.
FIRST_TRY = 16
# Rows that a map from scores back to rows is learned from: it solves a system of that size.
LEARNED_ROWS = 3000
# Features where only the kind of approximation is named: about a second per hundred thousand rows on two cores.
_RANK = 1000
_FEATURES_PER_COMPONENT = 5
# Products after the first that a tolerance takes, about.
_REUSES, _REUSES_WHEN_TIGHT, _LOOSE = 2, 5, 1e-8
_SAMPLE = 32


def reuses(tol: float) -> int:
    """Return how often a kept tile is likely to be used again."""
    return _REUSES if tol > _LOOSE else _REUSES_WHEN_TIGHT


def default_rank(n_components: int | float | str | None) -> int:
    """Return how many features to take where the user has not said."""
    wanted = n_components if isinstance(n_components, int) else 0
    return max(_RANK, _FEATURES_PER_COMPONENT * wanted)


def pivoted(approximation: Any) -> bool:
    """Return True if landmarks will be chosen by pivoted Cholesky, whose factor is the largest thing in the fit."""
    if isinstance(approximation, str):
        return approximation in ("nystroem", "auto")
    landmarks = getattr(approximation, "landmarks", None)
    return isinstance(landmarks, str) and landmarks == "rpcholesky"


def count_for_share(gram: Gram, fraction: float, *, centred: bool, seed: int) -> int:
    """Return about how many components explain a fraction of the variance: counted on some rows, and a little more."""
    with blas.single_threaded():
        values = coarse_eigenvalues(gram, centred=centred, seed=seed)
    shares: NDArray[np.float64] = np.cumsum(values) / max(float(values.sum()), 1e-300)
    count = int(np.searchsorted(shares, fraction)) + 1
    return int(max(FIRST_TRY, count + count // 8 + 8))


def better_shifted(kernel: Kernel, X: Any) -> bool:
    """Return True if kernel values are nearer to f(0) than to 0: then f(t) - f(0) carries more of their digits."""
    if not kernel.shift_invariant:
        return False
    some = X[:: max(1, X.shape[0] // _SAMPLE)]
    K = kernel.block(some, some)
    top = float(kernel.diagonal(some[:1])[0])
    return float(np.square(K - top).sum()) < float(np.square(K).sum())
