"""From what the user says about the approximation to a feature map for a kernel and its data."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca.errors import InputError
from kpca.features import FeatureMap, IdentityMap, Nystroem, RandomFeatures, fit_nystroem, fit_random
from kpca.features.random import kernel_error
from kpca.kernels import Kernel, Linear
from kpca.planning.memory import features_bytes, require, row_columns
from kpca.planning.rules import default_rank, pivoted
from kpca.settings import memory_budget

FloatArray = NDArray[Any]
NAMES = ("nystroem", "rff", "auto")


@dataclass(frozen=True)
class FittedMap:
    """A feature map for some data, and what is known about its error."""

    feature_map: FeatureMap
    kernel_error: float  # measured root mean square error of a kernel value; 0 where the trace left is a certificate
    solver: str


def check_approximation(approximation: Any, *, precomputed: bool) -> None:
    """Raise InputError unless this is something that `KernelPCA(approximation=...)` takes."""
    known = approximation is None or isinstance(approximation, Nystroem | RandomFeatures)
    if not known and approximation not in NAMES:
        close = difflib.get_close_matches(str(approximation).lower(), NAMES, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise InputError(
            f"approximation must be None, {', '.join(map(repr, NAMES))}, or a kpca.Nystroem or kpca.RandomFeatures "
            f"object; got {approximation!r}.{hint}"
        )
    if approximation is not None and precomputed:
        raise InputError(
            "approximation needs rows of data to take landmarks or features from; a precomputed kernel has none: "
            "leave approximation=None."
        )


def fit_map(
    approximation: Any,
    kernel: Kernel,
    X: Any,
    *,
    n_components: int | float | None,
    n_rows: int = 0,
    centred: bool = True,
    few_rows: bool = False,
    weights: FloatArray | None = None,
    seed: int = 0,
    threads: int = 1,
) -> FittedMap:
    """Return the features that an approximation has for a kernel; of the linear kernel, the rows themselves.

    `n_rows` is the number of rows whose scores will be kept, 0 if none. `few_rows` takes fewer landmarks than asked
    where there are fewer rows, instead of refusing: of a stream that has just begun.
    """
    if isinstance(kernel, Linear):
        return FittedMap(IdentityMap(X.shape[1]), 0.0, "primal")
    named = isinstance(approximation, str)
    rank = default_rank(n_components)
    wanted = n_components if isinstance(n_components, int) else 0
    require(_needed(approximation, X, n_rows, n_components, threads), memory_budget, "or take fewer features")
    if approximation == "rff" if named else isinstance(approximation, RandomFeatures):
        settings = RandomFeatures(rank) if named else approximation
        if settings.rank < wanted:
            raise _too_few(settings.rank, wanted)
        _refuse_second_kernel(settings)
        drawn = fit_random(kernel, X, settings.rank, settings.structure, seed=seed)
        if drawn.centred_only and not centred:
            raise InputError(
                f"Random features of the {kernel.name} kernel stand for it after centring only; center=False needs "
                "another kernel, or approximation='nystroem'."
            )
        return FittedMap(drawn, kernel_error(drawn, X, seed=seed).rms, "random features")
    settings = Nystroem(min(rank, X.shape[0])) if named else approximation
    if isinstance(settings.rank, int) and settings.rank < wanted:
        raise _too_few(settings.rank, wanted)
    _refuse_second_kernel(settings)
    rows = X.shape[0] if weights is None else int(np.count_nonzero(weights))
    count = min(settings.rank, rows) if few_rows else settings.rank
    landmarks = fit_nystroem(kernel, X, count, settings.landmarks, weights=weights, seed=seed, threads=threads)
    # Of a kernel that may be indefinite the trace that is left bounds nothing: its error is measured on some rows.
    error = 0.0 if landmarks.exact else landmarks.sampled_error(X, seed)
    return FittedMap(landmarks, error, "nystroem")


def _too_few(rank: int, wanted: int) -> InputError:
    return InputError(
        f"{wanted} components need at least as many features; rank={rank}: raise the rank of the approximation, or ask "
        "for fewer components."
    )


def _needed(approximation: Any, X: Any, n_rows: int, n_components: int | float | None, threads: int) -> int:
    """Return the memory that a fit with these features takes."""
    rank = getattr(approximation, "rank", None)
    rank = rank if isinstance(rank, int) else default_rank(n_components)
    k = n_components if isinstance(n_components, int) else rank
    drawn = approximation == "rff" if isinstance(approximation, str) else isinstance(approximation, RandomFeatures)
    directions = 16 * rank * X.shape[1] if drawn else 0
    return directions + features_bytes(
        n_rows or X.shape[0],
        row_columns(X),
        k if n_rows else 0,
        rank=rank if drawn else min(rank, X.shape[0]),
        itemsize=X.dtype.itemsize,
        threads=threads,
        chosen_from=X.shape[0] if pivoted(approximation) else 0,
    )


def _refuse_second_kernel(settings: Nystroem | RandomFeatures) -> None:
    if settings.kernel is not None:
        name = type(settings).__name__
        raise InputError(
            f"The kernel is that of the estimator; got another one in {name}(kernel={settings.kernel!r}): leave "
            f"{name}'s kernel at None."
        )
