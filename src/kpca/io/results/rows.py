"""Scores, cleaned rows and rows restored from scores, written in chunks with the ids and labels of the rows."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca.errors import InputError
from kpca.io.images import ImageWriter
from kpca.io.preparation import Preparation, Prepared
from kpca.io.results.pieces import (
    beside_of,
    columns_beside,
    preparation_of,
    prepared_pieces,
    values_beside,
    values_of,
)
from kpca.io.rows import Rows, Table
from kpca.io.tables import open_writer
from kpca.progress import row_monitor

FloatArray = NDArray[Any]


def write_scores(pipeline: Any, table: Table, path: Any) -> int:
    """Write the scores of the rows of a table to a file in any of the formats of `open_writer`; - is stdout.

    Returns how many rows were written: those with missing values are left out where the preparation drops them.
    """
    model = pipeline[-1]
    names = [str(name) for name in model.get_feature_names_out()]
    layout, count = preparation_of(pipeline).select(table).layout, 0
    with open_writer(path, names, extras=beside_of(pipeline, layout)) as writer:
        for _, part in prepared_pieces(pipeline, table):
            writer.write(np.asarray(model.transform(part.X)), values_of(pipeline, layout, part))
            count += len(part.kept)
            if not writer.wanted:  # whoever read it has gone
                break
    return count


def write_denoised(pipeline: Any, table: Table, path: Any) -> float:
    """Write the rows with what the components do not explain removed, in the units of the table.

    Returns the share of the variance of the prepared rows that was removed.
    """
    preparation, model = preparation_of(pipeline), pipeline[-1]
    removed, layout = _Lost(), preparation.layout_

    def denoised(part: Prepared) -> Rows:
        clean = model.denoise(part.X)
        removed.add(part.X, clean)
        return preparation.inverse_transform(clean)

    beside = preparation.select(table).layout
    extras = [*beside_of(pipeline, beside), *layout.categories]
    with _open_rows(preparation, path, extras, beside.id) as writer:
        for _, part in prepared_pieces(pipeline, table):
            rows = denoised(part)
            writer.write(rows.numbers, {**values_of(pipeline, beside, part), **rows.categories})
    return removed.share


@dataclass(frozen=True)
class Reconstruction:
    """What came of turning scores back into data.

    `size_ratio` is the size of the scores over that of the data, both as float64; `error` the share of the variance of
    the original (prepared) rows that is lost, None without an original.
    """

    rows: int
    size_ratio: float
    error: float | None


def write_reconstruction(pipeline: Any, scores: Table, path: Any, original: Table | None = None) -> Reconstruction:
    """Write the rows of data that a table of scores stands for, in the units of the data of the fit."""
    preparation, model = preparation_of(pipeline), pipeline[-1]
    wanted = [str(name) for name in model.get_feature_names_out()]
    beside = columns_beside(scores.layout)
    places = _places(scores, wanted)
    lost = _Lost()
    truth = None if original is None else _Aligned(pipeline, original)
    layout, count = preparation.layout_, 0
    monitor = row_monitor(scores.n_rows)
    with _open_rows(preparation, path, [*beside, *layout.categories], scores.layout.id) as writer:
        for rows in scores.chunks():
            restored = model.inverse_transform(np.asarray(rows.numbers)[:, places])
            if truth is not None:
                lost.add(truth.next(len(rows)), restored)
            back = preparation.inverse_transform(restored)
            writer.write(back.numbers, {**values_beside(rows.layout, rows.ids, rows.labels), **back.categories})
            count += len(rows)
            if monitor is not None:
                monitor(len(rows))
        if truth is not None:
            truth.finish()
    ratio = len(wanted) / len(preparation.get_feature_names_out())
    return Reconstruction(count, ratio, None if truth is None else lost.share)


def _open_rows(preparation: Preparation, path: Any, extras: list[str], id: str | None) -> Any:
    """Return a writer of rows in the units of the fit; pictures go into a folder, if the path is that of one."""
    if preparation.image_shape_ is not None and path != "-" and not os.path.splitext(os.fsdecode(path))[1]:
        return _Pictures(ImageWriter(path, preparation.image_shape_), id)
    return open_writer(path, list(preparation.layout_.numbers), extras=extras)


class _Pictures:
    """A folder of pictures, written to as tables are."""

    def __init__(self, writer: ImageWriter, id: str | None) -> None:
        self._writer, self._id = writer, id

    def write(self, numbers: FloatArray, extras: Mapping[str, Any]) -> None:
        """Write rows as pictures, each named by its id."""
        self._writer.write(numbers, extras.get(self._id) if self._id is not None else None)

    def __enter__(self) -> _Pictures:
        self._writer.__enter__()
        return self

    def __exit__(self, *failure: Any) -> None:
        self._writer.__exit__(*failure)


class _Lost:
    """Squared differences of rows, and their total variance, in one pass."""

    def __init__(self) -> None:
        self._gap, self._squares, self._count = 0.0, 0.0, 0
        self._origin: FloatArray | None = None
        self._sum: FloatArray = np.zeros(0)

    def add(self, X: FloatArray, other: FloatArray) -> None:
        """Take some rows, and what they became."""
        X = np.asarray(X, dtype=np.float64)
        if self._origin is None:
            self._origin = X.mean(axis=0)  # sums about it do not cancel
            self._sum = np.zeros(X.shape[1])
        self._gap += float(np.square(X - other).sum())
        centred = X - self._origin
        self._squares += float(np.square(centred).sum())
        self._sum = self._sum + centred.sum(axis=0)
        self._count += len(X)

    @property
    def share(self) -> float:
        """What was lost, over the total variance; NaN for rows that are all alike."""
        total = self._squares - float(np.square(self._sum).sum()) / max(self._count, 1)
        return self._gap / total if total > 0 else float("nan")


class _Aligned:
    """Prepared rows of a table, handed out in pieces as long as asked for."""

    def __init__(self, pipeline: Any, table: Table) -> None:
        self._parts = (np.asarray(part.X) for _, part in prepared_pieces(pipeline, table))
        self._name = table.name
        self._left: FloatArray | None = None

    def next(self, count: int) -> FloatArray:
        """Return the next so many rows."""
        taken: list[FloatArray] = [] if self._left is None else [self._left]
        while sum(map(len, taken)) < count:
            part = next(self._parts, None)
            if part is None:
                raise InputError(
                    f"{self._name!r} must have a row for each row of scores; it has fewer: give the same rows."
                )
            taken.append(part)
        whole = np.concatenate(taken)
        self._left = whole[count:]
        return whole[:count]

    def finish(self) -> None:
        """Refuse rows that are left over."""
        if (self._left is not None and len(self._left)) or next(self._parts, None) is not None:
            raise InputError(f"{self._name!r} must have a row for each row of scores; it has more: give the same rows.")


def _places(scores: Table, wanted: list[str]) -> list[int]:
    """Return where the columns of scores are; by their names, or in order where they are as many without names."""
    found = list(scores.layout.numbers)
    more = f"{wanted[0].rstrip('0123456789')}{len(wanted)}"
    if more in found and more not in wanted:
        raise InputError(
            f"{scores.name!r} must have the columns of scores {wanted[0]} to {wanted[-1]}; {more!r} is one of a model "
            "with more components: give a file that `kpca transform` wrote for this model."
        )
    if all(name in found for name in wanted):
        return [found.index(name) for name in wanted]
    if len(found) == len(wanted):
        return list(range(len(found)))
    missing = [name for name in wanted if name not in found]
    raise InputError(
        f"{scores.name!r} must have the columns of scores {wanted[0]} to {wanted[-1]}; {missing[0]!r} is missing: give "
        "a file that `kpca transform` wrote for this model."
    )
