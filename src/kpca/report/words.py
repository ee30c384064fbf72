"""How numbers and names are written on the page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

LONG = 80  # letters of a name or id on the page
# Letters that print nothing, and what is shown in their place: the picture of a control character, or a sign for one
# that has none and for marks that turn the direction of the text after them.
_TURNING = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f"
_SIGNS = {code: 0x2400 + code for code in range(0x20)}
_SIGNS |= dict.fromkeys([*range(0x7F, 0xA0), *range(0xD800, 0xE000), *map(ord, _TURNING)], 0xFFFD)
_SIGNS |= dict.fromkeys(map(ord, "\t\r\n"), ord(" "))
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def plain(text: Any) -> str:
    """Return what is called `str` of anything; bytes are read as UTF-8."""
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)


def visible(text: Any, most: int = LONG) -> str:
    """Return a text of one line in which nothing is hidden: marks that print nothing are shown as signs.

    What is longer than `most` loses its middle.
    """
    line = " ".join(shown(plain(text)[: 20 * most]).split()) or "(empty)"
    return line if len(line) <= most else f"{line[: most * 2 // 3]}…{line[-(most - most * 2 // 3 - 1) :]}"


def shown(text: Any) -> str:
    """Return a text in which nothing is hidden, its spaces as they are; line breaks become spaces."""
    return plain(text).translate(_SIGNS)


def number(value: float, digits: int = 4) -> str:
    """Return a number in a few digits, with a true minus."""
    value = float(value) + 0.0  # which makes 0 of -0
    if not math.isfinite(value):
        return "—" if math.isnan(value) else "∞" if value > 0 else "−∞"
    text, power = f"{value:,.0f}", ""
    if value != round(value) or abs(value) >= 1e6:
        if 1e-4 <= abs(value) < 1e6:
            text = f"{value:,.{max(0, digits - 1 - math.floor(math.log10(abs(value))))}f}"
        else:
            text, _, exponent = f"{value:.{digits - 1}e}".partition("e")
            power = f" × 10{str(int(exponent)).translate(_RAISED)}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
    return f"{text}{power}".replace("-", "−")


def aligned(values: Sequence[float], digits: int = 3) -> list[str]:
    """Return numbers of one kind with the same decimals: as many as the largest differences between them ask for."""
    span = max(values) - min(values) or max(map(abs, values))
    if not math.isfinite(span) or not 1e-4 <= span < 1e6 or max(map(abs, values)) >= 1e6:
        return [number(value, digits) for value in values]
    decimals = max(0, digits - 1 - math.floor(math.log10(span)))
    if all(round(value, decimals) == round(value) for value in values):
        decimals = 0
    return [f"{value + 0.0:,.{decimals}f}".replace("-", "−") for value in values]


def label(value: Any) -> str:
    """Return a label, a class or a number, as it is written in a table."""
    return number(float(value)) if isinstance(value, float | np.floating) else visible(value, 24)


def percent(share: float) -> str:
    """Return a share in per cent, to a tenth; finer where it is small."""
    value = 100.0 * float(share)
    if math.isnan(value):
        return "—"
    if 0 < abs(value) < 0.05:
        return f"{value:.1g} %" if abs(value) >= 1e-4 else "below 0.0001 %"
    return f"{value:.0f} %" if value in (0.0, 100.0) else f"{value:.1f} %"


def count(number_of: int, noun: str, plural: str | None = None) -> str:
    """Return a number of things, such as "1 row" or "20,000 rows"."""
    return f"{number_of:,} {noun if number_of == 1 else plural or noun + 's'}"


def listed(items: Sequence[str]) -> str:
    """Return "a", "a and b", or "a, b and c"."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def sentence(text: str) -> str:
    """Return a text that begins with a capital letter and ends with a full stop."""
    text = " ".join(text.split())
    return f"{text[:1].upper()}{text[1:]}{'.' if text and text[-1] not in '.!?' else ''}"


def id_texts(ids: Any) -> list[str]:
    """Return the ids of rows as texts; whole numbers have no decimals."""
    values = np.asarray(ids)
    if values.dtype.kind == "f" and np.isfinite(values).all() and (values == np.round(values)).all():
        return [f"{value:.0f}" for value in values.tolist()]
    # of times NumPy's own texts, for `tolist` would make others of them
    return [plain(value) for value in (values if values.dtype.kind in "Mm" else values.tolist())]
