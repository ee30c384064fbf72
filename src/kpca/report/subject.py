"""What a report is about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray


@dataclass(frozen=True)
class DataFacts:
    """What is known of the data before it became the rows of a model."""

    name: str  # of the file, without its folder
    digest: str  # SHA-256, hexadecimal
    n_rows: int  # in the file
    n_columns: int
    kinds: tuple[tuple[str, int], ...] = ()  # ("numbers", 12), ("categories", 2), ...
    missing: int = 0  # entries
    treated: tuple[str, ...] = ()  # sentences: what was imputed, encoded, scaled, left out
    of_fit: bool = True  # the data that model and treatment were fitted to; else other rows


@dataclass(frozen=True)
class Subject:
    """A fitted model and the rows to show; X is in memory, and a sample of the rows where there are very many."""

    model: Any  # KernelPCA or IncrementalKernelPCA, fitted
    X: Any  # dense or CSR, as the model takes it; shape: (m, d)
    ids: NDArray[Any]  # shape: (m,)
    labels: NDArray[Any] | None  # shape: (m,)
    names: tuple[str, ...]  # of the columns of X
    data: DataFacts
    chosen: tuple[str, ...] = ()  # sentences: which kernel, bandwidth, number of components, and why
    code: str = ""  # Python that repeats the fit
    command: str = ""  # the command line that does
    seed: int = 0
    restore: Callable[[NDArray[Any]], NDArray[Any]] | None = None  # rows of X back to the units of the file
    image_shape: tuple[int, int] | None = None  # height and width, where a row is a picture
    title: str = ""  # of the page; empty: made from the name of the data
    numbers: NDArray[Any] | None = None  # places of the rows in the file, from 0; None: 0, 1, ...; shape: (m,)
    drawn_from: int | None = None  # how many rows X is a sample of; None: X is all of them
