"""The rows of a table on their way through a pipeline, in chunks, and what stands beside their results.

A pipeline is `Preparation`, then a model: what `kpca fit` saves. Neither table nor results need fit into memory.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca._base.config import memory_budget
from kpca._base.errors import InputError, Setting
from kpca._base.progress import row_monitor
from kpca.data.images import ImageWriter
from kpca.data.preparation import SHARE_OF_MEMORY, Preparation, Prepared
from kpca.data.rows import Layout, Rows, Table, stacked, together
from kpca.data.sinks import open_sink, open_writer, scores_in_chunks
from kpca.data.sources import as_source

MOST_ROWS = 20_000  # of a sample
_STORED_PER_ROW = 256  # entries a sparse row is taken to have, if it has that many columns
ROW = "row"  # the column that numbers the rows which are left, where some were dropped and none has an id


def prepared_pieces(pipeline: Any, table: Table) -> Iterator[tuple[Rows, Prepared]]:
    """Yield the rows of a table in chunks: as they are, and as the model takes them."""
    preparation = preparation_of(pipeline)
    chosen = preparation.select(table)
    warned: set[str] = set()  # each column once, not once in every chunk
    seen = kept = 0
    for rows in watched(chosen):
        part = preparation.prepare(rows, warned=warned)
        seen, kept = seen + len(rows), kept + len(part.kept)
        if len(part.kept):
            yield rows, part
    tell_left_out(chosen.name, seen, kept)


def watched(table: Table) -> Iterator[Rows]:
    """Yield the rows of a table in chunks, and report progress after each."""
    monitor = row_monitor(table.n_rows)
    for rows in table.chunks():
        yield rows
        if monitor is not None:
            monitor(len(rows))


def tell_left_out(name: str, seen: int, kept: int) -> None:
    """Warn of rows that are not among the results, and refuse a table none of whose rows is."""
    if seen and not kept:
        raise InputError(
            f"{name} must have at least one row without missing values, as rows with some are left out; each of its "
            f"{seen:,} rows has some",
            remedy=("fill them, or fit a model with ", Setting("impute", "median")),
        )
    if kept < seen:
        left = f"{seen - kept:,} of {seen:,} rows {'was' if seen - kept == 1 else 'were'} left out"
        warnings.warn(f"{left}, because values are missing in them.", stacklevel=3)


def rows_in_memory(pipeline: Any, table: Table, *, most: int = MOST_ROWS, seed: int = 0) -> Prepared:
    """Return all rows of a table as a model takes them or, where they take too much memory, a sample, and warn of it.

    Too much is more than a quarter of what `kpca.config(memory_limit=...)` allows.
    """
    preparation = preparation_of(pipeline)
    stored = min(preparation.n_features_out_, _STORED_PER_ROW) if preparation.sparse_ else preparation.n_features_out_
    fits = table.n_rows * stored * preparation.dtype_.itemsize <= memory_budget() // SHARE_OF_MEMORY
    rows, count = sampled_rows(pipeline, table, table.n_rows if fits else most, seed)
    if len(rows.kept) < count:
        told = f"{len(rows.kept):,} rows, drawn from all {count:,}, stand for those that memory has no room for."
        warnings.warn(told, stacklevel=2)
    return rows


def sampled_rows(pipeline: Any, table: Table, most: int, seed: int) -> tuple[Prepared, int]:
    """Return the complete rows as the model takes them, or as many as asked for from all over; and of how many."""
    wanted: NDArray[np.bool_] | None = None
    if table.n_rows > most:
        wanted = np.zeros(table.n_rows, dtype=bool)
        wanted[np.random.default_rng(seed).choice(table.n_rows, most, replace=False)] = True
    parts: list[Prepared] = []
    complete = 0
    for _, part in prepared_pieces(pipeline, table):
        complete += len(part.kept)
        chosen = np.ones(len(part.kept), dtype=bool) if wanted is None else wanted[part.kept]
        if chosen.any():
            ids, labels = (None if one is None else one[chosen] for one in (part.ids, part.labels))
            parts.append(Prepared(part.X[chosen], ids, labels, part.kept[chosen]))
    if not parts:
        raise InputError(
            f"{table.name!r} must have rows that are complete; all were left out",
            remedy=("use ", Setting("impute", "median")),
        )
    ids, labels = together([part.ids for part in parts]), together([part.labels for part in parts])
    kept = np.concatenate([part.kept for part in parts])
    return Prepared(stacked([part.X for part in parts]), ids, labels, kept), complete


def preparation_of(pipeline: Any) -> Preparation:
    """Return a preparation itself, or the first step of a pipeline, which must be one."""
    first = pipeline if isinstance(pipeline, Preparation) else pipeline[0]
    if not isinstance(first, Preparation):
        raise InputError(f"The first step of the pipeline must be a kpca.io.Preparation; got {type(first).__name__}.")
    return first


def beside_of(pipeline: Any, table: Table) -> tuple[Layout, list[str]]:
    """Return the layout of a table, and the columns that stand beside results.

    These are ids and labels, and the number of a row where some are dropped and none has an id.
    """
    preparation = preparation_of(pipeline)
    layout = preparation.select(table).layout
    return layout, [ROW, *layout.beside] if preparation.drops and layout.id is None else layout.beside


def values_of(names: list[str], layout: Layout, part: Prepared | Rows) -> dict[str, Any]:
    """Return the columns of these names that stand beside some rows."""
    kept = part.kept if isinstance(part, Prepared) else None
    values = {ROW: kept, layout.id: part.ids, layout.label: part.labels}
    return {name: values[name] for name in names}


# -- Scores, cleaned rows and rows restored from scores, written in chunks with the ids and labels of the rows --------

FloatArray = NDArray[Any]


def write_scores(model: Any, X: Any, out: Any, rows: int | None = None) -> Any:
    """Write the scores of rows to `out`, chunk by chunk; neither rows nor scores need fit into memory.

    Parameters
    ----------
    model : fitted estimator with `transform`; for a table a pipeline, `Preparation` and then such an estimator.
    X : array, frame, path or iterable of chunks, or a table that `open_table` opened
        Of a table, ids and labels are written beside the scores.
    out : array, memory map, Zarr array or path
        An array of the shape of the scores, or a path in any of the formats of `open_writer`; a file appears whole or
        not at all. Of a table only a path; "-" is standard output.
    rows : int, optional
        Rows per chunk; about 8 MiB of X if not given. A table has chunks of its own.

    Returns
    -------
    out, as it was given. Of a table, how many rows were written: those with missing values are left out where the
    preparation drops them.
    """
    if hasattr(X, "layout"):
        if not hasattr(model, "steps"):
            told = "The scores of a table need a pipeline of a Preparation and a model"
            raise InputError(f"{told}; got {type(model).__name__}", remedy="give such a pipeline, or an array as X")
        layout, beside = beside_of(model, X)
        with open_writer(out, [str(name) for name in model[-1].get_feature_names_out()], extras=beside) as writer:
            for _, piece in prepared_pieces(model, X):
                writer.write(np.asarray(model[-1].transform(piece.X)), values_of(beside, layout, piece))
                if not writer.wanted:  # whoever read it has gone
                    break
        return writer.n_rows
    source = as_source(X)
    parts = scores_in_chunks(model, model.transform, source, rows)
    scores = next(parts)
    names = [str(name) for name in model.get_feature_names_out()] if hasattr(model, "get_feature_names_out") else None
    with open_sink(out, source.n_rows, scores.shape[1], scores.dtype, names=names) as sink:
        for part in chain([scores], parts):
            sink.write(part)
    return out


def write_denoised(pipeline: Any, table: Table, path: Any) -> float:
    """Write the rows with what the components do not explain removed, in the units of the table.

    Returns the share of the variance of the prepared rows that was removed.
    """
    preparation, model, removed = preparation_of(pipeline), pipeline[-1], _Lost()
    layout, beside = beside_of(pipeline, table)
    with _open_rows(preparation, path, [*beside, *preparation.layout_.categories], layout.id) as writer:
        for _, part in prepared_pieces(pipeline, table):
            clean = model.denoise(part.X)
            removed.add(part.X, clean)
            rows = preparation.inverse_transform(clean)
            writer.write(rows.numbers, {**values_of(beside, layout, part), **rows.categories})
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
    beside = scores.layout.beside
    places = _places(scores, wanted)
    lost = _Lost()
    truth = None if original is None else _Aligned(pipeline, original)
    layout, count = preparation.layout_, 0
    with _open_rows(preparation, path, [*beside, *layout.categories], scores.layout.id) as writer:
        for rows in watched(scores):
            restored = model.inverse_transform(np.asarray(rows.numbers)[:, places])
            if truth is not None:
                lost.add(truth.next(len(rows)), restored)
            back = preparation.inverse_transform(restored)
            writer.write(back.numbers, {**values_of(beside, rows.layout, rows), **back.categories})
            count += len(rows)
        if truth is not None:
            truth.finish()
    ratio = len(wanted) / len(preparation.get_feature_names_out())
    return Reconstruction(count, ratio, None if truth is None else lost.share)


def _open_rows(preparation: Preparation, path: Any, extras: list[str], id: str | None) -> Any:
    """Return a writer of rows in the units of the fit; pictures go into a folder, if the path is that of one."""
    if preparation.image_shape_ is not None and path != "-" and not os.path.splitext(os.fsdecode(path))[1]:
        return ImageWriter(path, preparation.image_shape_, id)
    return open_writer(path, list(preparation.layout_.numbers), extras=extras)


class _Lost:
    """Squared differences of rows, and their total variance, in one pass."""

    def __init__(self) -> None:
        self._gap, self._squares, self._count = 0.0, 0.0, 0
        self._origin: FloatArray | None = None
        self._sum: FloatArray = np.zeros(0)

    def add(self, X: FloatArray, other: FloatArray) -> None:
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
        taken: list[FloatArray] = [] if self._left is None else [self._left]
        while sum(map(len, taken)) < count:
            part = next(self._parts, None)
            if part is None:
                raise self._other_rows("fewer")
            taken.append(part)
        whole = np.concatenate(taken)
        self._left = whole[count:]
        return whole[:count]

    def finish(self) -> None:
        """Refuse rows that are left over."""
        if (self._left is not None and len(self._left)) or next(self._parts, None) is not None:
            raise self._other_rows("more")

    def _other_rows(self, how_many: str) -> InputError:
        said = f"{self._name!r} must have a row for each row of scores; it has {how_many}"
        return InputError(said, remedy="give the same rows")


def _places(scores: Table, wanted: list[str]) -> list[int]:
    """Return where the columns of scores are; by their names, or in order where they are as many without names."""
    found = list(scores.layout.numbers)
    more = f"{wanted[0].rstrip('0123456789')}{len(wanted)}"
    if more in found and more not in wanted:
        wrong = f"{more!r} is one of a model with more components"
    elif all(name in found for name in wanted):
        return [found.index(name) for name in wanted]
    elif len(found) == len(wanted):
        return list(range(len(found)))
    else:
        wrong = f"{next(name for name in wanted if name not in found)!r} is missing"
    said = f"{scores.name!r} must have the scores {wanted[0]} to {wanted[-1]} of this model; {wrong}"
    raise InputError(said, remedy="give a file of scores that this model made")
