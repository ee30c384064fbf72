"""The prepared rows of a table: an array where they fit into memory, else a source that prepares chunk after chunk."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from kpca.chunks import Source, default_rows, source_of, stacked
from kpca.errors import InputError
from kpca.io.preparing.survey import changed, chunk_rows, complete, pass_over
from kpca.io.rows import Rows, Table
from kpca.settings import memory_budget
from kpca.storage.base import Indices

if TYPE_CHECKING:
    from kpca.io.preparation import Preparation

# Prepared rows may take this part of the memory budget: the model makes a copy and works with about as much again.
SHARE_OF_MEMORY = 4


def array_or_source(preparation: Preparation, table: Table) -> Any:
    """Return all prepared rows as an array or CSR, or as a source where they take too much of the memory."""
    room = memory_budget() // SHARE_OF_MEMORY
    if not preparation.sparse_:
        row_bytes = preparation.n_features_out_ * preparation.dtype_.itemsize
        if table.n_rows * row_bytes > room and n_kept(preparation, table) * row_bytes > room:
            return prepared_source(preparation, table)
    rows = _gathered(preparation, table, room)
    return prepared_source(preparation, table) if rows is None else rows


def _gathered(preparation: Preparation, table: Table, room: int) -> Any:
    """Return all prepared rows; None where sparse ones turn out to take too much."""
    warned: set[str] = set()
    parts: list[Any] = []
    held = done = 0
    steady = not preparation.sparse_ and not preparation.drops
    X = np.empty((table.n_rows, preparation.n_features_out_), dtype=preparation.dtype_) if steady else None
    for rows in pass_over(table, rows_at_once(preparation, table)):
        chunk = preparation.prepare(rows, warned=warned).X
        if X is not None:
            X[done : done + len(rows)] = chunk
        elif chunk.shape[0]:
            parts.append(chunk)
        done += chunk.shape[0]
        if sparse.issparse(chunk):
            held += chunk.data.nbytes + chunk.indices.nbytes + chunk.indptr.nbytes
            if held > room:
                return None
    check_kept(done, table)
    return X if X is not None else stacked(parts)


def rows_at_once(preparation: Preparation, table: Table) -> int:
    """Return how many rows are prepared together: neither they nor what they become are large."""
    out = default_rows(preparation.n_features_out_, preparation.dtype_, sparse=preparation.sparse_)
    return min(chunk_rows(table), out)


def n_kept(preparation: Preparation, table: Table) -> int:
    """Return the number of rows that are not left out: all of them, or those that a pass finds complete."""
    if not preparation.drops:
        return table.n_rows
    return sum(int(complete(rows).sum()) for rows in pass_over(table))


def check_kept(count: int, table: Table) -> None:
    """Refuse a table of which no row is left."""
    if not count:
        raise InputError(
            f"{table.name} must have at least one row without missing values under --impute drop; each of its "
            f"{table.n_rows:,} rows has some: use --impute median, or leave columns out with --drop."
        )


def prepared_source(preparation: Preparation, table: Table) -> Source:
    """Return the prepared rows as a source of chunks, which reads the table anew in each pass."""
    return source_of(PreparedRows(preparation, table))


class PreparedRows:
    """A reader of rows that are prepared as they are read.

    The columns have no names here, as those of prepared arrays have none: a model that is fitted to this source takes
    arrays without a word. `Preparation.get_feature_names_out` has the names.
    """

    names: list[str] | None = None

    def __init__(self, preparation: Preparation, table: Table) -> None:
        self._preparation = preparation.frozen()
        self._table = table
        self._warned: set[str] = set()
        self.n_columns = preparation.n_features_out_
        self.dtype = preparation.dtype_
        self.sparse = preparation.sparse_
        self.n_rows = n_kept(preparation, table)
        check_kept(self.n_rows, table)

    def blocks(self, rows: int) -> Iterator[Any]:
        """Yield prepared rows; those with missing values may be left out, so blocks are of any length."""
        seen = 0
        for chunk in self._table.chunks(min(rows, self._rows_at_once())):
            block = self._prepared(chunk)
            seen += block.shape[0]
            if block.shape[0]:
                yield block
        if seen != self.n_rows:
            raise changed(self._table, self.n_rows, f"{seen:,}")

    def take(self, indices: Indices) -> Any:
        """Return the prepared rows of these numbers, which ascend, in a pass that ends with the last of them."""
        if not len(indices):
            empty: Any = np.empty((0, self.n_columns), dtype=self.dtype)
            return sparse.csr_array(empty) if self.sparse else empty
        parts: list[Any] = []
        first = done = 0
        for chunk in self._table.chunks(self._rows_at_once()):
            beyond = first + len(chunk)  # for tables that keep all rows
            if not self._preparation.drops and indices[done] >= beyond:
                first = beyond
                continue
            prepared = self._prepared(chunk)  # the whole chunk, so that messages name rows rightly
            end = int(np.searchsorted(indices, first + prepared.shape[0]))
            parts.append(prepared[indices[done:end] - first])
            first, done = first + prepared.shape[0], end
            if done == len(indices):
                break
        return stacked(parts)

    def _rows_at_once(self) -> int:
        return rows_at_once(self._preparation, self._table)

    def _prepared(self, rows: Rows) -> Any:
        return self._preparation.prepare(rows, warned=self._warned).X
