"""What values make of the colours of dots: classes, or numbers on a scale."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca.plots._axes import COLOURS
from kpca.report.packing import codes, packed
from kpca.report.words import id_texts, visible

PALETTE = COLOURS
# The same hues, light enough for a dark page.
DARK_PALETTE = (
    "#9A8CF0",
    "#E88C9B",
    "#4FBF7C",
    "#E3CB66",
    "#86CDF2",
    "#DB78A8",
    "#6AD0C0",
    "#C4C455",
    "#D688CC",
    "#B0B0B0",
)
_MOST_NAMES = 500  # classes whose names are in the page


def classes_or_numbers(values: NDArray[Any], most: int = len(PALETTE)) -> dict[str, Any]:
    """Return values as classes with names, if there are few or they are texts, else as numbers.

    `most` is how many different numbers may still be classes.
    """
    array = np.asarray(values)
    if array.dtype.kind in "iuf" and len(np.unique(array[~np.isnan(array.astype(np.float64))])) > most:
        return {"kind": "numbers", "values": packed(array), **_middle(array)}
    return _classes(id_texts(array) if array.dtype.kind != "O" else [_text(value) for value in array])


def _text(value: Any) -> str:
    missing = value is None or (isinstance(value, float) and np.isnan(value))
    return "(none)" if missing else id_texts(np.array([value], dtype=object))[0]


def _middle(array: NDArray[Any]) -> dict[str, Any]:
    """Return where the scale of colours begins and ends: a few far values are not to take it all."""
    finite = array[np.isfinite(array.astype(np.float64))].astype(np.float64)
    low, high = np.quantile(finite, [0.01, 0.99])
    if not low < high:
        low, high = float(finite.min()), float(finite.max())
    return {"low": float(low), "high": float(high)}


def _classes(texts: list[str]) -> dict[str, Any]:
    shown = np.array([visible(text, 40) for text in texts], dtype=object)
    names, member, sizes = np.unique(shown.astype(str), return_inverse=True, return_counts=True)
    order = np.array(sorted(range(len(names)), key=lambda i: _natural(str(names[i]))), dtype=np.intp)
    if len(names) > len(PALETTE):  # the largest have colours of their own
        order = order[np.argsort(-sizes[order], kind="stable")]
    place = np.empty(len(order), dtype=np.intp)
    place[order] = np.arange(len(order))
    names, member, sizes = names[order], place[member], sizes[order]
    member = np.minimum(member, _MOST_NAMES)
    kept = [str(name) for name in names[:_MOST_NAMES]]
    if len(names) > _MOST_NAMES:
        kept.append("(another)")
    return {
        "kind": "classes",
        "names": kept,
        "sizes": [int(size) for size in sizes[: len(PALETTE)]],
        "count": len(names),
        "codes": codes(member),
    }


def _natural(text: str) -> tuple[int, float, str]:
    """Return what puts numbers in the order of numbers, before texts."""
    try:
        value = float(text)
    except ValueError:
        return 1, 0.0, text
    return (0, value, text) if np.isfinite(value) else (1, 0.0, text)
