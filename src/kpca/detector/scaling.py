"""How columns are scaled before a model sees them."""

from __future__ import annotations

from typing import Any

from scipy import sparse
from sklearn.preprocessing import RobustScaler, StandardScaler

from kpca.errors import InputError
from kpca.kernels import Kernel

SCALES = ("standard", "robust")


def check_scale(scale: Any) -> None:
    """Refuse an unknown way of scaling."""
    if scale is not None and not (isinstance(scale, str) and scale in SCALES):
        raise InputError(f"scale must be 'standard', 'robust' or None; got {scale!r}.")


def fitted_scaler(scale: str | None, X: Any) -> Any:
    """Return scikit-learn's scaler of these rows, None for none; zeros of sparse rows stay zeros."""
    if scale is None:
        return None
    dense = not sparse.issparse(X)
    if scale == "robust":
        return RobustScaler(with_centering=dense).fit(X)
    return StandardScaler(with_mean=dense).fit(X)


def scaled(scaler: Any, X: Any) -> Any:
    """Return rows on the scale of those that a scaler was fitted to."""
    if scaler is None or X.shape[0] == 0:
        return X
    centres = scaler.with_centering if isinstance(scaler, RobustScaler) else scaler.with_mean
    # dense, as a scaler either refuses to centre sparse rows or leaves it out without a word
    return scaler.transform(X.toarray() if centres and sparse.issparse(X) else X)


def check_taken(kernel: Kernel, rows: Any, X: Any, scale: str | None) -> None:
    """Refuse rows that a kernel does not take, and say so if it would take them as they were before scaling.

    X are the rows before they were scaled, None if they are not.
    """
    try:
        kernel.check(rows)
    except InputError:
        if X is None:
            raise
        kernel.check(X)
        raise InputError(
            f"Kernel {kernel.name!r} takes values of 0 or above, and columns that are scaled have others; got "
            f"scale={scale!r}: give scale=None."
        ) from None
