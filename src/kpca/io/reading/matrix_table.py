"""Tables over a matrix: NumPy and Zarr arrays and sparse matrices, with arrays beside them for ids and labels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kpca.chunks import default_rows
from kpca.errors import InputError
from kpca.io.reading.assigned import Roles, assign
from kpca.io.reading.checked import check_finite, check_room, check_rows, joined, regrouped
from kpca.io.rows import Layout, Rows
from kpca.storage.base import Reader, default_names, quoted

_MOST_COLUMNS = 10_000_000  # each has a name; more than that is a slip, or an attack


class MatrixTable:
    """A table whose columns are those of a matrix, all numbers."""

    image_shape: tuple[int, int] | None = None

    def __init__(
        self,
        name: str,
        reader: Reader,
        roles: Roles,
        digest: Callable[[], str],
        *,
        names: Sequence[str] | None = None,
        sides: Mapping[str, Callable[[], NDArray[Any]]] | None = None,
    ) -> None:
        sides = sides or {}
        self.name, self.n_rows, self.dtype, self.sparse = name, reader.n_rows, reader.dtype, reader.sparse
        if reader.n_columns > _MOST_COLUMNS:
            raise InputError(
                f"{name!r} must have at most {_MOST_COLUMNS} columns; it has {reader.n_columns}: choose some."
            )
        found = names if names is not None else default_names(reader.n_columns)
        self._reader, self._digest = reader, digest
        chosen = assign(repr(name), found, roles, named=names is not None, sides=list(sides))
        if chosen.text is not None:
            raise InputError(
                f"{name!r} must have a column of texts to be read as documents; all of {quoted(chosen.text)} are "
                "numbers: give a CSV or Parquet file."
            )
        places = {column: place for place, column in reversed(list(enumerate(found)))}
        self._used = np.array([places[column] for column in chosen.used])
        self._all = len(self._used) == len(found) and bool((np.diff(self._used) == 1).all())
        self._id, self._label = (self._side(column, places, sides) for column in (chosen.id, chosen.label))
        self.layout = Layout(tuple(chosen.used), (), None, chosen.id, chosen.label)

    def _side(
        self, column: str | None, places: Mapping[str, int], sides: Mapping[str, Callable[[], NDArray[Any]]]
    ) -> int | NDArray[Any] | None:
        """Return where ids or labels are: the place of a column of the matrix, or an array beside it."""
        if column is None:
            return None
        if column in sides:
            return as_values(sides[column](), f"Array {quoted(column)} of {self.name!r}")
        return places[column]

    def chunks(self, rows: int | None = None) -> Iterator[Rows]:
        """Yield checked chunks."""
        count = check_rows(rows, default_rows(self._reader.n_columns, self.dtype, sparse=self.sparse))
        return regrouped(self._pieces(count), count)

    def _pieces(self, rows: int) -> Iterator[Rows]:
        first = 0
        for block in self._reader.blocks(rows):
            numbers = self._numbers(block)
            check_finite(self.name, self.layout.numbers, numbers, first)
            beside = [self._values(block, side, first) for side in (self._id, self._label)]
            yield Rows(self.layout, numbers, ids=beside[0], labels=beside[1], first=first)
            first += block.shape[0]

    def _numbers(self, block: Any) -> Any:
        chosen = block if self._all else block[:, self._used]
        if self.sparse:
            return sparse.csr_array(chosen).astype(self.dtype, copy=False)
        return np.array(chosen, dtype=self.dtype, order="C")  # a copy: the pages of a memory map are given back

    @staticmethod
    def _values(block: Any, side: int | NDArray[Any] | None, first: int) -> NDArray[Any] | None:
        if side is None:
            return None
        if isinstance(side, np.ndarray):
            return side[first : first + block.shape[0]]
        column = block[:, [side]]
        return np.array(column.toarray() if sparse.issparse(column) else column).ravel()

    def whole(self) -> Rows:
        """Return all rows, if there is room for them."""
        if not self.sparse:  # a sparse matrix is in memory already
            check_room(self.name, self.n_rows * len(self._used) * self.dtype.itemsize)
        return joined(list(self.chunks()))

    def digest(self) -> str:
        """Return the SHA-256 of the file, or of the array."""
        return self._digest()


def as_values(array: NDArray[Any], where: str) -> NDArray[Any]:
    """Return ids or labels as tables give them: texts as objects, empty ones as None."""
    if array.dtype.kind == "S":
        try:
            array = np.char.decode(array, "utf-8")
        except UnicodeDecodeError as error:
            raise InputError(f"{where} must be text in UTF-8; it is not: save it as an array of str.") from error
    if array.dtype.kind in "UT":
        texts = np.empty(len(array), dtype=object)
        texts[:] = [text or None for text in array.tolist()]
        return texts
    if array.dtype.kind in "biufM":
        return array.astype(array.dtype.newbyteorder("="), copy=False)
    if array.dtype.kind == "O" and all(value is None or isinstance(value, str) for value in array.tolist()):
        return array
    raise InputError(f"{where} must hold numbers, texts or dates to be id or label; got {array.dtype}: choose another.")
