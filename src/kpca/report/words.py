"""How numbers and names are written on the page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from kpca import kernels

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
    value = float(value)
    if math.isnan(value):
        return "—"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    if value == round(value) and abs(value) < 1e6:
        text = f"{value:,.0f}"
    elif 1e-4 <= abs(value) < 1e6:
        text = f"{value:,.{max(0, digits - 1 - math.floor(math.log10(abs(value))))}f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
    else:
        mantissa, _, power = f"{value:.{digits - 1}e}".partition("e")
        mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
        text = f"{mantissa} × 10{str(int(power)).translate(_RAISED)}"
    return text.replace("-", "−")


def aligned(values: Sequence[float], digits: int = 3) -> list[str]:
    """Return numbers of one kind with the same decimals: as many as the largest differences between them ask for."""
    numbers = [float(value) for value in values]
    span = max(numbers) - min(numbers) or max(map(abs, numbers))
    if not math.isfinite(span) or not 1e-4 <= span < 1e6 or max(map(abs, numbers)) >= 1e6:
        return [number(value, digits) for value in numbers]
    decimals = max(0, digits - 1 - math.floor(math.log10(span)))
    if decimals and all(round(value, decimals) == round(value) for value in numbers):
        decimals = 0
    return [f"{value + 0.0:,.{decimals}f}".replace("-", "−") for value in numbers]


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
    return f"{value:.1f} %".replace(".0 %", " %") if value in (0.0, 100.0) else f"{value:.1f} %"


def count(number_of: int, noun: str, plural: str | None = None) -> str:
    """Return a number of things, such as "1 row" or "20,000 rows"."""
    return f"{number_of:,} {noun if number_of == 1 else plural or noun + 's'}"


def listed(items: Sequence[str]) -> str:
    """Return "a", "a and b", or "a, b and c"."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def sentence(text: str) -> str:
    """Return a text that begins with a capital letter and ends with a full stop."""
    text = " ".join(text.split())
    if not text:
        return text
    return f"{text[0].upper()}{text[1:]}" + ("" if text[-1] in ".!?" else ".")


def id_texts(ids: Any) -> list[str]:
    """Return the ids of rows as texts; whole numbers have no decimals."""
    values = np.asarray(ids)
    if values.dtype.kind == "f" and np.isfinite(values).all() and (values == np.round(values)).all():
        return [f"{value:.0f}" for value in values.tolist()]
    if values.dtype.kind in "Mm":
        return [str(value) for value in values]
    return [plain(value) for value in values.tolist()]


# -- A kernel as a formula with its numbers, and what it means in a sentence ------------------------------------------


def formula(kernel: kernels.Kernel) -> str:
    """Return k(x, y) written out, with the parameters as numbers."""
    return f"k(x, y) = {kernel.formula(number)}"


def meaning(kernel: kernels.Kernel) -> str:
    """Return in a sentence what rows are alike to a kernel."""
    return kernel.meaning(number)
