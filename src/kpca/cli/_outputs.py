"""Checks of where results go, before anything is computed, and pictures."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kpca._base.errors import InputError
from kpca.estimators.plan import size_words

if TYPE_CHECKING:
    from kpca.data.rows import Table

PICTURES = (".png", ".svg", ".pdf")
PAGES = (".html", ".htm")
# what outputs are made with, so that its absence is noticed before a long fit and not after it
_NEEDED = ((PICTURES, "matplotlib", "Pictures need matplotlib"), (PAGES, "plotly", "A report needs plotly"))
_EXTRAS = {"matplotlib": "plot", "plotly": "web"}


def check_output(path: str | None, suffixes: Sequence[str] = (), *, inputs: Sequence[str | None] = ()) -> None:
    """Refuse a path that nothing can be written to, so that hours of work are not lost at their end.

    Files that are read are not written to: a slip of the hand must not cost somebody the data.
    """
    if path is None or (path == "-" and not suffixes):
        return
    if suffixes and os.path.splitext(path)[1].lower() not in suffixes:
        raise InputError(f"The name of this output must end in {' or '.join(suffixes)}; got {path!r}: rename it.")
    for ends, library, what in _NEEDED:
        if suffixes is ends and importlib.util.find_spec(library) is None:
            raise InputError(f"{what}, which is not installed: pip install 'kpca[{_EXTRAS[library]}]'.")
    if any(_is_same(path, file) for file in inputs if file not in (None, "-")):
        raise InputError(f"{path!r} must not be read and written at once: give the output another name.")
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise InputError(f"The folder of {path!r} must exist; there is no {folder!r}: make it first.")
    if os.path.isdir(path) and suffixes:
        raise InputError(f"{path!r} must be a file or new; it is a folder: choose another name.")
    if not os.access(folder, os.W_OK) or (os.path.exists(path) and not os.access(path, os.W_OK)):
        raise InputError(f"{path!r} must be writable; there is no permission to: choose another place.")


def check_table_output(
    path: str | None, *, inputs: Sequence[str | None] = (), beside: str | None = None, folder: bool = False
) -> None:
    """Refuse a path that no table can be written to; `beside` is a column of ids or labels that goes with it."""
    from kpca.data.formats import FORMATS, by_name

    if path is None or path == "-":
        return
    format = by_name(path)[0]
    if format is None and not (folder and not os.path.splitext(path)[1]):
        ends = ", ".join(f".{name}" for name in FORMATS)
        new = ", or be that of a new folder for images" if folder else ""
        raise InputError(f"The name of this output must end in {ends}{new}; got {path!r}: rename it.")
    if format == "npy" and beside is not None:
        raise InputError(
            f"{path!r} can hold one array of numbers only, and no column {beside!r} beside it: write .npz, .csv or "
            ".parquet instead."
        )
    check_output(path, inputs=inputs)


def _is_same(path: str, other: str | None) -> bool:
    try:
        return os.path.samefile(path, str(other))
    except OSError:  # one of them is not there
        return False


def where(outputs: dict[str, str | None]) -> list[str]:
    """Return a sentence on where each output is; those to standard output need none."""
    return [f"{what} in {path} ({size_of(path)})." for what, path in outputs.items() if path not in (None, "-")]


def size_of(path: Any) -> str:
    """Return the size of a file, or of all files of a folder, in words."""
    folder = os.path.isdir(path)
    files = [os.path.join(root, name) for root, _, names in os.walk(path) for name in names] if folder else [path]
    return size_words(sum(os.path.getsize(file) for file in files))


def shown_rows(pipeline: Any, table: Table) -> tuple[Any, Any]:
    """Return the scores of all rows and their labels, or None, for a picture."""
    from kpca.data.rows import together as joined
    from kpca.io.results import prepared_pieces

    scores, labels = [], []
    for _, part in prepared_pieces(pipeline, table):
        scores.append(np.asarray(pipeline[-1].transform(part.X)))
        labels.append(part.labels)
    return np.concatenate(scores), joined(labels)


def draw_overview(path: str, pipeline: Any, table: Table) -> None:
    """Draw the rows on the first two components beside the spectrum."""
    from kpca import plots

    scores, labels = shown_rows(pipeline, table)
    plots.save(plots.overview(pipeline[-1], scores, labels), path)
