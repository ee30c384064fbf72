"""Batches of a stream as arrays: frames, arrays, lists and single rows, with the labels that frames give their rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kpca.errors import InputError
from kpca.storage.frames import FrameReader, is_frame

FloatArray = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Batch:
    """Some rows of a stream, copied: what they came in may be used again."""

    rows: FloatArray  # shape: (m, d)
    labels: Sequence[Any]  # None each where a batch has none

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Which rows have an entry that is NaN or infinite.  # shape: (m,)"""
        return ~np.asarray(np.isfinite(self.rows).all(axis=1))


def each_batch(batches: Any) -> Iterable[Any]:
    """Return what is to be looped over: an array, a frame or a row that is given as it is counts as one batch."""
    whole = isinstance(batches, np.ndarray) and batches.ndim <= 2
    if whole or is_frame(batches) or sparse.issparse(batches) or is_labelled_row(batches):
        return [batches]
    if isinstance(batches, str | bytes) or not isinstance(batches, Iterable):
        raise InputError(
            f"batches must be rows, or something that gives batches of them; got {type(batches).__name__}."
        )
    return batches


def read_batch(batch: Any, row: int, columns: int, names: Sequence[str] | None) -> Batch:
    """Return a batch whose first row is number `row` of its stream, or raise InputError that says so."""
    try:
        _check_names(batch, names)
        rows, labels = _read(batch)
    except InputError as error:
        raise InputError(f"At row {row} of the stream: {error}") from error
    except (TypeError, ValueError) as error:
        raise InputError(
            f"At row {row} of the stream a batch must hold numbers only; {' '.join(str(error).split()).rstrip('.')}."
        ) from error
    if len(rows) == 0:
        return Batch(np.empty((0, columns)), ())
    if rows.ndim == 1:
        rows, labels = rows[None], labels[:1]  # a single row
    if rows.ndim != 2 or rows.shape[1] != columns:
        raise InputError(
            f"At row {row} of the stream a batch must have {columns} columns, as the detector was fitted to; got "
            f"shape {rows.shape}."
        )
    return Batch(rows, labels if len(labels) else [None] * len(rows))


def _read(batch: Any) -> tuple[FloatArray, Sequence[Any]]:
    """Return the numbers of a batch, NaN where there are none, and the labels of its rows, if it has any."""
    if is_frame(batch):
        if 0 in batch.shape:
            return np.empty((0, 0)), ()
        labels = list(batch.index) if hasattr(batch, "iloc") else ()
        return np.array(FrameReader(batch).take(np.arange(len(batch))), dtype=np.float64), labels
    if is_labelled_row(batch):
        return batch.to_numpy(dtype=np.float64, na_value=np.nan).copy(), [batch.name]
    if sparse.issparse(batch):
        batch = batch.toarray()
    if np.ma.isMaskedArray(batch):
        batch = np.ma.filled(batch.astype(np.float64), np.nan)
    found = np.asarray(batch)
    if found.dtype.kind not in "biufO":
        raise InputError(f"a batch must hold real numbers only; got {found.dtype}.")
    if found.ndim == 0:
        raise InputError(f"a batch must be rows, or one row; got the number {found.item()!r}.")
    return np.array(found, dtype=np.float64), ()


def _check_names(batch: Any, names: Sequence[str] | None) -> None:
    """Refuse columns in another order, or others, where both sides have names."""
    if names is None or not len(batch):
        return
    found = batch.columns if is_frame(batch) else batch.index if is_labelled_row(batch) else None
    if found is None or not all(isinstance(name, str) for name in found):
        return
    if len(found) == len(names) and list(found) != list(names):
        pairs = zip(names, found, strict=True)
        expected, got = next((name, other) for name, other in pairs if name != other)
        raise InputError(
            f"columns must be those the detector was fitted to, in that order; got {got!r} in place of {expected!r}."
        )


def is_labelled_row(batch: Any) -> bool:
    """Whether this is a row of a pandas frame."""
    return hasattr(batch, "iloc") and hasattr(batch, "name") and not hasattr(batch, "columns")
