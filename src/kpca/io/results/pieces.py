"""The rows of a table on their way through a pipeline, in chunks, and what stands beside their results.

A pipeline is `Preparation`, then a model: what `kpca fit` saves. Neither table nor results need fit into memory.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca.chunks import stacked
from kpca.errors import InputError
from kpca.io.preparation import Preparation, Prepared
from kpca.io.preparing.prepared_source import SHARE_OF_MEMORY
from kpca.io.rows import Layout, Rows, Table
from kpca.progress import row_monitor
from kpca.settings import memory_budget

MOST_ROWS = 20_000  # of a sample
_STORED_PER_ROW = 256  # entries a sparse row is taken to have, if it has that many columns
ROW = "row"  # the column that numbers the rows which are left, where some were dropped and none has an id


def prepared_pieces(pipeline: Any, table: Table) -> Iterator[tuple[Rows, Prepared]]:
    """Yield the rows of a table in chunks: as they are, and as the model takes them."""
    preparation = preparation_of(pipeline)
    chosen = preparation.select(table)
    monitor = row_monitor(chosen.n_rows)
    warned: set[str] = set()  # each column once, not once in every chunk
    seen = kept = 0
    for rows in chosen.chunks():
        part = preparation.prepare(rows, warned=warned)
        seen, kept = seen + len(rows), kept + len(part.kept)
        if len(part.kept):
            yield rows, part
        if monitor is not None:
            monitor(len(rows))
    tell_left_out(chosen.name, seen, kept)


def tell_left_out(name: str, seen: int, kept: int) -> None:
    """Warn of rows that are not among the results, and refuse a table none of whose rows is."""
    if seen and not kept:
        raise InputError(
            f"{name} must have at least one row without missing values, as rows with some are left out; each of its "
            f"{seen:,} rows has some: fill them, or fit a model with --impute median."
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
        warnings.warn(
            f"{len(rows.kept):,} rows, drawn from all {count:,}, stand for those that memory has no room for.",
            stacklevel=2,
        )
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
        raise InputError(f"{table.name!r} must have rows that are complete; all were left out: use --impute median.")
    some = Prepared(
        stacked([part.X for part in parts]),
        joined([part.ids for part in parts]),
        joined([part.labels for part in parts]),
        np.concatenate([part.kept for part in parts]),
    )
    return some, complete


def joined(parts: Sequence[NDArray[Any] | None]) -> NDArray[Any] | None:
    """Return ids or labels of all pieces, None where there are none."""
    there = [part for part in parts if part is not None]
    return np.concatenate(there) if there else None


def preparation_of(pipeline: Any) -> Preparation:
    """Return a preparation itself, or the first step of a pipeline, which must be one."""
    first = pipeline if isinstance(pipeline, Preparation) else pipeline[0]
    if not isinstance(first, Preparation):
        raise InputError(f"The first step of the pipeline must be a kpca.io.Preparation; got {type(first).__name__}.")
    return first


def columns_beside(layout: Layout) -> list[str]:
    return [name for name in (layout.id, layout.label) if name is not None]


def beside_of(pipeline: Any, layout: Layout) -> list[str]:
    """Return the columns that stand beside the results: ids, labels, or the number of a row where some are dropped."""
    beside = columns_beside(layout)
    return [ROW, *beside] if preparation_of(pipeline).drops and layout.id is None else beside


def values_beside(layout: Layout, ids: Any, labels: Any) -> dict[str, Any]:
    values = {layout.id: ids, layout.label: labels}
    return {name: array for name, array in values.items() if name is not None}


def values_of(pipeline: Any, layout: Layout, part: Prepared) -> dict[str, Any]:
    values = values_beside(layout, part.ids, part.labels)
    return {ROW: np.asarray(part.kept), **values} if ROW in beside_of(pipeline, layout) else values
