"""Rows that lie in memory, as a table."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kpca.chunks import default_rows
from kpca.errors import InputError
from kpca.io.rows import Layout, Rows


def part(rows: Rows, chosen: slice | NDArray[Any]) -> Rows:
    """Return some of the rows: a slice, a mask or positions. `first` is kept right for slices only."""
    start = rows.first + (chosen.start or 0 if isinstance(chosen, slice) else 0)
    return replace(
        rows,
        numbers=rows.numbers[chosen],
        categories={name: values[chosen] for name, values in rows.categories.items()},
        documents=None if rows.documents is None else rows.documents[chosen],
        ids=None if rows.ids is None else rows.ids[chosen],
        labels=None if rows.labels is None else rows.labels[chosen],
        first=start,
    )


class MemoryTable:
    """A table around rows that are in memory already."""

    def __init__(self, rows: Rows, name: str = "The data", image_shape: tuple[int, int] | None = None) -> None:
        if sparse.issparse(rows.numbers):
            rows = replace(rows, numbers=sparse.csr_array(rows.numbers))
        if rows.numbers.dtype not in (np.float32, np.float64):
            raise InputError(f"{name} must hold its numbers as float32 or float64; got {rows.numbers.dtype}.")
        self._rows = rows
        self.name = name
        self.image_shape = image_shape

    @property
    def layout(self) -> Layout:
        """The roles of the columns."""
        return self._rows.layout

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return len(self._rows)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the numbers."""
        dtype: np.dtype[Any] = self._rows.numbers.dtype
        return dtype

    @property
    def sparse(self) -> bool:
        """Whether the numbers are CSR."""
        return bool(sparse.issparse(self._rows.numbers))

    def chunks(self, rows: int | None = None) -> Iterator[Rows]:
        """Yield the rows in pieces, which are views."""
        rows = rows or default_rows(max(self._rows.numbers.shape[1], 1), self.dtype, sparse=self.sparse)
        for start in range(0, self.n_rows, rows):
            yield part(self._rows, slice(start, start + rows))

    def whole(self) -> Rows:
        """Return all rows."""
        return self._rows

    def digest(self) -> str:
        """Return the SHA-256 of the entries, column by column."""
        held, found = self._rows, hashlib.sha256(repr(self.layout).encode())
        numbers = held.numbers
        arrays = [numbers.data, numbers.indices, numbers.indptr] if self.sparse else [numbers]
        for array in arrays:
            found.update(np.ascontiguousarray(array).view(np.uint8).data if array.size else b"")
        for column in [*held.categories.values(), held.documents, held.ids, held.labels]:
            if column is not None:
                found.update(repr(column.tolist()).encode("utf-8", "surrogatepass"))
        return found.hexdigest()
