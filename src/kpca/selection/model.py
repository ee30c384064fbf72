"""What choosing starts from: a model that is meant, and some rows in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone

from kpca import inputs, kernels
from kpca.chunks import as_source, in_memory, sample_rows
from kpca.errors import InputError
from kpca.kernel_pca import KernelPCA


class _Unfitted(BaseEstimator):  # type: ignore[misc]
    """Takes what scikit-learn's checks would write on an estimator."""


def meant_model(estimator: Any, parameters: dict[str, Any]) -> KernelPCA:
    """Return an unfitted model: a copy of the estimator, or one of these parameters of KernelPCA."""
    if estimator is not None:
        if parameters:
            name = next(iter(parameters))
            raise InputError(f"With estimator=, its own parameters are used; got {name} as well: leave it out.")
        if not isinstance(estimator, KernelPCA):
            raise InputError(f"estimator must be a KernelPCA; got {type(estimator).__name__}.")
        model: KernelPCA = clone(estimator)
    else:
        known = KernelPCA().get_params(deep=False)
        spare = [name for name in parameters if name not in known or name == "n_components"]
        if spare:
            raise InputError(f"{spare[0]} is no parameter of a model whose n_components is asked for: leave it out.")
        model = KernelPCA(**parameters)
    return model


def is_precomputed(model: KernelPCA) -> bool:
    """Return True if X is the kernel matrix."""
    return isinstance(model.kernel, str) and model.kernel == "precomputed"


def checked_rows(X: Any, most: int, seed: int, *, square: bool) -> tuple[Any, np.ndarray[Any, Any] | None]:
    """Return finite rows in memory, at most so many, and which they are; None: all, or not known for a stream."""
    if not in_memory(X):
        if square:
            raise InputError("A precomputed kernel matrix must lie in memory here; give an array.")
        return sample_rows(as_source(X), most, seed), None
    X = inputs.check_data(_Unfitted(), X, reset=True)
    inputs.check_rows(X.shape[0])
    if square:
        inputs.check_precomputed(X)
        inputs.check_symmetric(X, centred=True)
    if X.shape[0] <= most:
        return X, None
    some = np.sort(np.random.default_rng(seed).choice(X.shape[0], most, replace=False))
    return (X[some][:, some] if square else X[some]), some


def kernel_of(model: KernelPCA, X: Any) -> kernels.Kernel:
    """Return the kernel of a model for these rows."""
    kernel = kernels.resolve(
        model.kernel,
        X,
        gamma=kernels.resolve_gamma(model.gamma, X),
        degree=model.degree,
        coef0=model.coef0,
        kernel_params=model.kernel_params,
    )
    kernel.check(X)
    return kernel


def share(name: str, value: Any) -> float:
    """Return a number between 0 and 1, both excluded, or raise InputError."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0.0 < float(value) < 1.0:
        raise InputError(f"{name} must be a number between 0 and 1; got {value!r}.")
    return float(value)


def counts_to_try(most: int) -> list[int]:
    """Return 1, 2, ... 10, then steps of a quarter, up to `most`, which is the last."""
    counts, step = [], 1
    while step < most:
        counts.append(step)
        step = step + 1 if step < 10 else int(np.ceil(1.25 * step))
    return [*counts, most]
