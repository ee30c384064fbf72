"""Names of columns, of the fit and of rows that come later."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from kpca.errors import InputError


def compare_names(known: Sequence[str] | None, names: Sequence[str] | None) -> None:
    """Refuse other columns than those of the fit, or another order, where both have names."""
    if known is None or names is None or list(known) == list(names):
        return
    if len(known) != len(names):
        raise InputError(f"Columns must be the {len(known)} of the fit; got {len(names)}.")
    expected, got = next((name, other) for name, other in zip(known, names, strict=True) if name != other)
    raise InputError(
        f"The feature names must be those of the fit, in that order; got {got!r} in place of {expected!r}."
    )


@contextmanager
def names_are_known() -> Iterator[None]:
    """Silence the remark that rows have no names: they have been compared, or are numbers in the order of the fit."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        yield
