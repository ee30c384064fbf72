"""Numbers and texts in the form in which they travel inside a page: short, and harmless whatever they are."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_STEPS = 65534  # of a range; one more stands for "no number"
_MISSING = 65535
_DECIMALS = 12  # digits of the ends of a range


def packed(values: Any) -> dict[str, Any]:
    """Return numbers to 1/65534 of their range, two bytes each; what is not finite becomes "no number"."""
    numbers = np.asarray(values, dtype=np.float64)
    finite = np.isfinite(numbers)
    # halves: the difference of two numbers of 1e308 is no number
    low = float(numbers[finite].min() / 2) if finite.any() else 0.0
    high = float(numbers[finite].max() / 2) if finite.any() else 0.0
    steps = np.full(numbers.shape, _MISSING, dtype="<u2")
    width = high - low
    if width > 0:
        steps[finite] = np.rint((numbers[finite] / 2 - low) / width * _STEPS).astype("<u2")
    else:
        steps[finite] = 0
    return {"low": 2 * low, "high": 2 * high, "steps": _base64(steps)}


def unpacked(pack: Mapping[str, Any]) -> NDArray[np.float64]:
    """Return the numbers of a pack, NaN for "no number"; what the page does in its own language."""
    steps = np.frombuffer(base64.b64decode(pack["steps"]), dtype="<u2")
    part = steps / _STEPS
    numbers: NDArray[np.float64] = pack["low"] * (1 - part) + pack["high"] * part
    numbers[steps == _MISSING] = np.nan
    return numbers


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
    limits = np.arange(1, int(lengths.max()) + 1)
    totals = np.array([np.minimum(lengths, limit).sum() for limit in _steps(limits)])
    fitting = _steps(limits)[totals <= budget]
    limit = max(int(fitting[-1]) if len(fitting) else 4, 4)
    return [text if len(text) <= limit else f"{text[: limit - 1]}…" for text in texts], limit


def _steps(limits: NDArray[Any]) -> NDArray[Any]:
    """Return a few lengths to try: every one of the short ones, fewer of the long ones."""
    few: NDArray[Any] = np.unique(np.geomspace(1, limits[-1], 200).astype(int))
    return np.asarray(few[few <= limits[-1]])


def json_for_page(data: Any) -> str:
    """Return JSON that may stand between the tags of a script: no tag, no comment, no line separator in it.

    Numbers that are not finite are refused by `json`, which would be a fault of this package.
    """
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"), sort_keys=True)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
