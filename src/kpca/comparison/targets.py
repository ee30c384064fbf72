"""What is known of the rows, and whether it is classes or numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca.errors import InputError

KINDS = ("auto", "classes", "numbers")
# Whole numbers pass for classes where there are few of them, or this many rows for each: one per fold.
_FEW, _EACH = 10, 5


@dataclass(frozen=True)
class Target:
    """One column of y: numbers as float64, classes as 0, 1, 2, ..."""

    name: str
    values: NDArray[Any]  # shape: (n,)
    classes: bool

    @property
    def measure(self) -> str:
        """What predictions of it are judged by."""
        return "accuracy" if self.classes else "R2"


def check_targets(y: Any, n: int, kind: str) -> tuple[Target, ...]:
    """Return the columns of y, none for None."""
    if kind not in KINDS:
        raise InputError(f"target_kind must be one of {', '.join(map(repr, KINDS))}; got {kind!r}.")
    if y is None:
        return ()
    columns = _columns(y)
    for name, values in columns:
        if values.shape != (n,):
            raise InputError(f"y must have one entry (or one row) per row of X, {n} in all; {name} has {len(values)}.")
    return tuple(_target(name, values, kind) for name, values in columns)


def _columns(y: Any) -> list[tuple[str, NDArray[Any]]]:
    if hasattr(y, "columns") and hasattr(y, "to_numpy"):  # a frame: columns of different types, with names
        return [(str(name), np.asarray(y[name].to_numpy())) for name in y.columns]
    name = getattr(y, "name", None)
    values = np.asarray(y.to_numpy() if hasattr(y, "to_numpy") else y)
    if values.ndim == 1:
        return [(name if isinstance(name, str) and name else "y", values)]
    if values.ndim != 2 or not values.shape[1]:
        raise InputError(f"y must have one entry per row, or one column per target; got shape {values.shape}.")
    if values.shape[1] == 1:
        return [("y", values[:, 0])]
    return [(f"y{column}", values[:, column]) for column in range(values.shape[1])]


def _target(name: str, values: NDArray[Any], kind: str) -> Target:
    if values.dtype.kind == "O":
        values = _without_objects(name, values)
    if values.dtype.kind == "c":
        raise InputError(f"y must hold real numbers or classes; {name} is complex: take its size, or its parts.")
    numeric = values.dtype.kind in "iuf"
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise InputError(f"y must have no gaps; {name} holds NaN or infinity: leave such rows out.")
    if kind == "numbers" and values.dtype.kind not in "iufb":
        raise InputError(f"target_kind='numbers' needs numbers; {name} is of type {values.dtype}.")
    if kind == "numbers" or (kind == "auto" and numeric and not _pass_for_classes(values)):
        return Target(name, values.astype(np.float64), classes=False)
    return Target(name, np.unique(values, return_inverse=True)[1].astype(np.intp), classes=True)


def _without_objects(name: str, values: NDArray[Any]) -> NDArray[Any]:
    """Return numbers where all objects are numbers, else texts."""
    if any(_is_gap(value) for value in values.tolist()):
        raise InputError(f"y must have no gaps; {name} holds None or NaN: leave such rows out.")
    if all(isinstance(value, bool | int | float | np.number | np.bool_) for value in values.tolist()):
        return values.astype(np.float64)
    return values.astype(str)


def _is_gap(value: Any) -> bool:
    # pandas' NA answers every question with itself, also whether it is itself; NaN says no
    return value is None or type(value).__name__ == "NAType" or bool(value != value)  # noqa: PLR0124


def _pass_for_classes(values: NDArray[Any]) -> bool:
    """Whether these numbers can be names: whole, and each there often enough."""
    if not (values == np.round(values)).all():
        return False
    distinct = len(np.unique(values))
    return distinct <= min(_FEW, len(values) / 2) or len(values) >= _EACH * distinct
