"""How numbers and names are written on the page."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
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
    if isinstance(text, bytes):
        return text.decode("utf-8", "replace")
    return str(text)


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
    if isinstance(value, float | np.floating):
        return number(float(value))
    return visible(value, 24)


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
    return f"k(x, y) = {_body(kernel)}"


def meaning(kernel: kernels.Kernel) -> str:
    """Return in a sentence what rows are alike to a kernel."""
    if isinstance(kernel, kernels.RBF) and isinstance(kernel.gamma, float):
        far = number(math.sqrt(math.log(2.0) / kernel.gamma), 3)
        return f"Two rows are fully alike (1) if they are equal, and half alike (0.5) at a distance of {far}."
    found = (text for kind, text in _MEANINGS.items() if isinstance(kernel, kind))
    return next(found, "It says how alike two rows are.")


def _body(kernel: Any) -> str:
    found = (write for kind, write in _WRITERS.items() if isinstance(kernel, kind))
    return next(found, repr)(kernel)


def _rbf(kernel: kernels.RBF) -> str:
    if isinstance(kernel.gamma, tuple):
        return f"exp(−Σ γⱼ (xⱼ − yⱼ)²), {_each('γ', kernel.gamma)}"
    return f"exp(−{_times(kernel.gamma)}‖x − y‖²)"


def _matern(kernel: kernels.Matern) -> str:
    profile = {0.5: "e^(−u)", 1.5: "(1 + u) e^(−u)"}.get(kernel.nu, "(1 + u + u²/3) e^(−u)")
    root = "" if kernel.nu == 0.5 else f"√{number(2 * kernel.nu)} "
    length = kernel.length_scale
    return f"{profile} with u = {root}‖x − y‖{_over(length)}{_scales(length)}"


def _rational(kernel: kernels.RationalQuadratic) -> str:
    alpha, length = number(kernel.alpha), kernel.length_scale
    if isinstance(length, tuple):
        return f"(1 + ‖(x − y) / ℓ‖² / (2 · {alpha}))^(−{alpha}){_scales(length)}"
    return f"(1 + ‖x − y‖² / (2 · {alpha} · {number(length)}²))^(−{alpha})"


def _called(kernel: kernels.VectorisedCallable | kernels.PairwiseCallable) -> str:
    function = kernel.function
    return f"{getattr(function, '__name__', None) or type(function).__name__}(x, y), a function of its own"


def _times(factor: float) -> str:
    return "" if factor == 1 else f"{number(factor)} "


def _plus(shift: float) -> str:
    return "" if shift == 0 else f" + {number(shift)}" if shift > 0 else f" − {number(-shift)}"


def _over(length: Any) -> str:
    return " / ℓ" if isinstance(length, tuple) else "" if length == 1 else f" / {number(length)}"


def _scales(length: Any) -> str:
    return f", {_each('ℓ', length)}" if isinstance(length, tuple) else ""


def _each(letter: str, values: tuple[float, ...]) -> str:
    low, high = float(np.min(values)), float(np.max(values))
    return f"one {letter} for each of the {len(values):,} columns, from {number(low)} to {number(high)}"


_DISTANCE = "Two rows are fully alike (1) if they are equal, and the less alike the farther apart they are."
_COUNTS = "It compares counts or histograms, column by column."
_MEANINGS: dict[type, str] = {
    kernels.Linear: "This is the inner product: it makes kernel PCA ordinary PCA, and components straight directions.",
    kernels.RadialKernel: _DISTANCE,
    kernels.Laplacian: _DISTANCE,
    kernels.Cosine: "Two rows are alike if their columns have the same proportions, whatever their size.",
    kernels.Polynomial: "Products of several columns count, so that components see how columns act together.",
    kernels.Sigmoid: "It follows the inner product up to a ceiling; it is not a true similarity for all data.",
    kernels.Chi2: _COUNTS,
    kernels.AdditiveChi2: _COUNTS,
    kernels.HistogramIntersection: _COUNTS,
}
_WRITERS: dict[type, Callable[[Any], str]] = {
    kernels.Linear: lambda _: "x · y",
    kernels.Cosine: lambda _: "x · y / (‖x‖ ‖y‖)",
    kernels.Polynomial: lambda k: f"({_times(k.gamma)}x · y{_plus(k.coef0)})^{number(k.degree)}",
    kernels.Sigmoid: lambda k: f"tanh({_times(k.gamma)}x · y{_plus(k.coef0)})",
    kernels.RBF: _rbf,
    kernels.Exponential: lambda k: f"exp(−‖x − y‖{_over(k.length_scale)}){_scales(k.length_scale)}",
    kernels.Matern: _matern,
    kernels.RationalQuadratic: _rational,
    kernels.Laplacian: lambda k: f"exp(−{_times(k.gamma)}Σ |xⱼ − yⱼ|)",
    kernels.Chi2: lambda k: f"exp(−{_times(k.gamma)}Σ (xⱼ − yⱼ)² / (xⱼ + yⱼ))",
    kernels.AdditiveChi2: lambda _: "−Σ (xⱼ − yⱼ)² / (xⱼ + yⱼ)",
    kernels.HistogramIntersection: lambda _: "Σ min(xⱼ, yⱼ)",
    kernels.Constant: lambda k: number(k.constant),
    kernels.Sum: lambda k: " + ".join(_body(member) for member in k.members),
    kernels.Product: lambda k: " · ".join(f"[{_body(member)}]" for member in k.members),
    kernels.Scaled: lambda k: f"{number(k.factor)} · [{_body(k.kernel)}]",
    kernels.VectorisedCallable: _called,
    kernels.PairwiseCallable: _called,
}
