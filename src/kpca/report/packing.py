"""Numbers and texts in the form in which they travel inside a page: short, and harmless whatever they are."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca.plots.axes import COLOURS
from kpca.report.words import id_texts, visible

_STEPS = 65534  # of a range; one more stands for "no number"
_MISSING = 65535


def packed(values: Any) -> dict[str, Any]:
    """Return numbers to 1/65534 of their range, two bytes each; what is not finite becomes "no number"."""
    numbers = np.asarray(values, dtype=np.float64)
    finite = np.isfinite(numbers)
    # halves: the difference of two numbers of 1e308 is no number
    low, high = (float(end(numbers[finite]) / 2) if finite.any() else 0.0 for end in (np.min, np.max))
    steps = np.full(numbers.shape, _MISSING, dtype="<u2")
    steps[finite] = np.rint((numbers[finite] / 2 - low) / (high - low) * _STEPS) if high > low else 0
    return {"low": 2 * low, "high": 2 * high, "steps": _base64(steps)}


def codes(values: NDArray[Any]) -> str:
    """Return small whole numbers, two bytes each."""
    return _base64(np.asarray(values, dtype="<u2"))


def whole(values: NDArray[Any]) -> str:
    """Return whole numbers below 2^32, four bytes each."""
    return _base64(np.asarray(values, dtype="<u4"))


def _base64(values: NDArray[Any]) -> str:
    return base64.b64encode(np.ascontiguousarray(values).tobytes()).decode("ascii")


def numbers(values: Sequence[float] | NDArray[Any]) -> list[float | None]:
    """Return numbers for JSON, rounded to 9 digits; None for what is not finite."""
    return [float(f"{value:.9g}") if np.isfinite(value) else None for value in np.asarray(values, np.float64).tolist()]


def shortened(texts: Sequence[str], budget: int) -> tuple[list[str], int | None]:
    """Return texts that take at most about `budget` letters together, and the length they were cut to, if they were."""
    lengths = np.array([len(text) for text in texts] or [0])
    if lengths.sum() <= budget:
        return list(texts), None
    # a few lengths to try: every one of the short ones, fewer of the long ones
    limits = np.unique(np.geomspace(1, int(lengths.max()), 200).astype(int))
    fitting = [int(limit) for limit in limits if np.minimum(lengths, limit).sum() <= budget]
    limit = max(fitting[-1] if fitting else 4, 4)
    return [text if len(text) <= limit else f"{text[: limit - 1]}…" for text in texts], limit


def json_for_page(data: Any) -> str:
    """Return JSON that may stand between the tags of a script: no tag, no comment, no line separator in it.

    Numbers that are not finite are refused by `json`, which would be a fault of this package.
    """
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"), sort_keys=True)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


# -- What values make of the colours of dots: classes, or numbers on a scale ------------------------------------------

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


# -- Small grey pictures as PNG inside the page, by nothing but the standard library ----------------------------------


def grey_picture(values: NDArray[Any], low: float, high: float) -> str:
    """Return rows of numbers as the address of a picture: `low` is black, `high` is white."""
    span = high - low if high > low else 1.0
    levels = np.nan_to_num(np.clip((np.asarray(values, np.float64) - low) / span, 0.0, 1.0))
    return png(np.rint(255 * levels).astype(np.uint8))


def png(levels: NDArray[np.uint8]) -> str:
    """Return grey levels as a `data:` address of a PNG file."""
    height, width = levels.shape
    lines = np.zeros((height, width + 1), dtype=np.uint8)  # each begins with the number of its filter, 0
    lines[:, 1:] = levels
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    file = b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", head) + _chunk(b"IDAT", zlib.compress(lines.tobytes(), 9))
    return "data:image/png;base64," + base64.b64encode(file + _chunk(b"IEND", b"")).decode("ascii")


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
