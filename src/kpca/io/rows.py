"""What a table gives: rows whose columns have roles. Files, frames and folders of images all come in this form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Texts = NDArray[np.object_]


@dataclass(frozen=True)
class Layout:
    """The roles of the columns of a table; a column has one role at most, and none if it was left out."""

    numbers: tuple[str, ...]
    categories: tuple[str, ...] = ()  # texts and dates: no numbers, and neither text, id nor label
    text: str | None = None  # documents
    id: str | None = None
    label: str | None = None


@dataclass(frozen=True)
class Rows:
    """Some rows of a table, or all of them. Missing numbers are NaN, missing texts None."""

    layout: Layout
    numbers: Any  # float32 or float64, C-ordered or CSR; shape: (m, p)
    categories: Mapping[str, Texts] = field(default_factory=dict)  # one array of m texts for each of layout.categories
    documents: Texts | None = None  # shape: (m,)
    ids: NDArray[Any] | None = None  # shape: (m,)
    labels: NDArray[Any] | None = None  # numbers or texts; shape: (m,)
    first: int = 0  # the number of the first of these rows in the table, for messages

    def __len__(self) -> int:
        return int(self.numbers.shape[0])


class Table(Protocol):
    """A file, frame or folder whose rows can be read again and again, in chunks or all at once."""

    @property
    def name(self) -> str:
        """What messages call it: mostly a path."""

    @property
    def layout(self) -> Layout:
        """The roles of its columns."""

    @property
    def n_rows(self) -> int:
        """The number of rows, found out by a first reading where the file does not say it."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the numbers: float32 or float64."""

    @property
    def sparse(self) -> bool:
        """Whether the numbers come as CSR."""

    @property
    def image_shape(self) -> tuple[int, int] | None:
        """Height and width, where the numbers of a row are the grey levels of a picture."""

    def chunks(self, rows: int | None = None) -> Iterator[Rows]:
        """Yield the rows in order, in pieces of `rows` rows (about 8 MiB if None), the last one shorter."""

    def whole(self) -> Rows:
        """Return all rows at once."""

    def digest(self) -> str:
        """Return the SHA-256 of what the table was read from, in hexadecimal digits."""
