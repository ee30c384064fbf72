"""What components are called, and which are asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca.errors import InputError


def component_title(component: int) -> str:
    """Return what people call a component; arguments count from 0, people from 1."""
    return f"component {component + 1}"


def chosen_components(components: Any, k: int) -> NDArray[np.intp]:
    """Return different numbers of components, all of them for None.  # shape: (c,)"""
    return np.arange(k) if components is None else different_numbers("components", components, k)


def different_numbers(name: str, numbers: Any, limit: int) -> NDArray[np.intp]:
    """Return different whole numbers from 0 to limit - 1, or raise InputError.  # shape: (c,)"""
    try:
        found = np.atleast_1d(np.asarray(numbers))
    except ValueError:  # lists of different lengths
        found = np.empty(0)
    whole = found.ndim == 1 and found.dtype.kind in "iu" and found.size > 0
    if not whole or found.min() < 0 or found.max() >= limit or len(np.unique(found)) < found.size:
        raise InputError(f"{name} must be different whole numbers from 0 to {limit - 1}; got {numbers!r}.")
    return found.astype(np.intp)
