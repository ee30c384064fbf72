"""Small decisions that a fit and its plan must take alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca._base.config import MEMORY_LIMIT
from kpca._base.errors import InputError, Setting
from kpca._base.threads import single_threaded
from kpca.estimators.memory import dense_bytes
from kpca.features.guess import coarse_eigenvalues
from kpca.gram import Gram
from kpca.kernels import Kernel

# What tol=0 means: the residual each precision can reach, relative to the largest eigenvalue.
FINEST_TOL: dict[np.dtype[Any], float] = {np.dtype(np.float32): 1e-5, np.dtype(np.float64): 1e-10}
# Components first tried when a fraction of the variance is asked for; doubled until it is reached.
FIRST_TRY = 16
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
    with single_threaded():
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


# -- Which way a fit goes, and why: from sizes and limits alone, so that the same request always takes the same way ---

# Up to this many rows the whole matrix is solved faster than by products with its tiles; for a few components
# ARPACK on the whole matrix is quicker still, and up to the second limit.
_SMALL, _SMALL_FOR_FEW, _FEW = 700, 1200, 10
# Beyond one component per so many entries of the matrix LAPACK wins: 22 of 1,500 rows, 90 of 3,000, 360 of 6,000.
_SQUARE_PER_COMPONENT = 1e5
# Up to this many rows nobody asks how much memory there is.
_TINY = 256
# From this share of all components on, the whole spectrum is cheaper than a Krylov basis of that size.
_LARGE_SHARE = 1 / 6
# The small side of the linear kernel is formed up to this size; beyond it, and for few components, only multiplied.
_DIRECT_SIDE, _DIRECT_SPARSE_SIDE = 1000, 300


@dataclass(frozen=True)
class Route:
    """How the eigenproblem is solved: "dense" or "krylov", for the linear kernel "direct" or "multiplied"."""

    solver: str
    reason: str


def kernel_route(n: int, k: int, eigen_solver: str, budget: Callable[[], int], *, held: int = 0) -> Route:
    """Return the route for a kernel matrix of n rows, of which k components are wanted.

    `held` is what lies in memory beside the matrix: the data, and what is made of them.
    """
    if eigen_solver == "dense":
        _require_memory(n, k, budget(), held)
        return Route("dense", "eigen_solver='dense'")
    if eigen_solver == "krylov" and k <= n // 2:
        return Route("krylov", "eigen_solver='krylov'")
    few_rows = n <= _SMALL or (n <= _SMALL_FOR_FEW and k < _FEW)
    if (few_rows or k > n * n / _SQUARE_PER_COMPONENT) and (n <= _TINY or dense_bytes(n, k, held) <= budget()):
        found = "component is" if k == 1 else "components are"
        return Route("dense", f"{k} {found} found faster in the whole matrix of {n} rows")
    if k > n * _LARGE_SHARE:
        _require_memory(n, k, budget(), held)
        return Route("dense", f"{k} of {n} components are a large share")
    return Route("krylov", f"{k} of {n} components need only products with the kernel matrix")


def linear_route(n: int, d: int, k: int, eigen_solver: str, *, sparse: bool) -> Route:
    """Return the route for the linear kernel, whose small side is min(n, d)."""
    side = min(n, d)
    if eigen_solver == "dense" or side <= (_DIRECT_SPARSE_SIDE if sparse else _DIRECT_SIDE) or k > side * _LARGE_SHARE:
        return Route("direct", f"the small side of the data, {side}, is formed and solved whole")
    return Route("multiplied", f"{k} of {side} components need only products with the data")


def _require_memory(n: int, k: int, budget: int, held: int) -> None:
    needed = dense_bytes(n, k, held)
    if needed > budget:
        raise InputError(
            f"{k} components of {n} rows need the whole kernel matrix, {needed / 2**20:,.0f} MiB; the memory limit is "
            f"{budget / 2**20:,.0f} MiB",
            remedy=(
                "ask for ",
                Setting("n_components"),
                f" below {int(n * _LARGE_SHARE)}, or raise ",
                MEMORY_LIMIT,
            ),
        )
