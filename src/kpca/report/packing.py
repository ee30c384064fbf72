"""Numbers, texts and pictures in the form in which they travel inside a page: short, and harmless whatever they are."""

from __future__ import annotations

import base64
import html
import json
import math
import struct
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca.plots.axes import COLOURS
from kpca.report.words import LONG, id_texts, shown, visible

_STEPS = 65534  # of a range; one more stands for "no number"


def packed(values: Any) -> dict[str, Any]:
    """Return numbers to 1/65534 of their range, two bytes each; what is not finite becomes "no number"."""
    numbers = np.asarray(values, dtype=np.float64)
    finite = np.isfinite(numbers)
    # halves: the difference of two numbers of 1e308 is no number
    low, high = (float(end(numbers[finite]) / 2) if finite.any() else 0.0 for end in (np.min, np.max))
    steps = np.full(numbers.shape, _STEPS + 1)
    steps[finite] = np.rint((numbers[finite] / 2 - low) / (high - low) * _STEPS) if high > low else 0
    return {"low": 2 * low, "high": 2 * high, "steps": whole(steps, "<u2")}


def whole(values: NDArray[Any], kind: str = "<u4") -> str:
    """Return whole numbers below 2^32, four bytes each, or in another kind of numbers."""
    return base64.b64encode(np.ascontiguousarray(values, dtype=kind).tobytes()).decode("ascii")


def numbers(values: Sequence[float] | NDArray[Any]) -> list[float | None]:
    """Return numbers for JSON, rounded to 9 digits; None for what is not finite."""
    return [float(f"{value:.9g}") if np.isfinite(value) else None for value in np.asarray(values, np.float64).tolist()]


def shortened(texts: Sequence[str], budget: int) -> tuple[list[str], int | None]:
    """Return texts that take at most about `budget` letters together, and the length they were cut to, if they were."""
    lengths = np.array([len(text) for text in texts] or [0])
    if lengths.sum() <= budget:
        return list(texts), None
    # a few lengths to try: every one of the short ones, fewer of the long ones
    limits = np.unique(np.geomspace(1, int(lengths.max()), 200).astype(int)).tolist()
    limit = max([4, *(limit for limit in limits if np.minimum(lengths, limit).sum() <= budget)])
    return [text if len(text) <= limit else f"{text[: limit - 1]}…" for text in texts], limit


def json_for_page(data: Any) -> str:
    """Return JSON that may stand between the tags of a script: no tag, no comment, no line separator in it."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"), sort_keys=True)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


# -- What values make of the colours of dots: classes, or numbers on a scale ------------------------------------------

PALETTE = COLOURS
# The same hues, light enough for a dark page.
_LIGHT = "#9A8CF0 #E88C9B #4FBF7C #E3CB66 #86CDF2 #DB78A8 #6AD0C0 #C4C455 #D688CC #B0B0B0"
DARK_PALETTE = tuple(_LIGHT.split())
_MOST_NAMES = 500  # classes whose names are in the page


def classes_or_numbers(values: NDArray[Any], most: int = len(PALETTE)) -> dict[str, Any]:
    """Return values as classes with names if they are texts or at most `most` different numbers, else as numbers."""
    array = np.asarray(values)
    if array.dtype.kind in "iuf" and len(np.unique(array[~np.isnan(array.astype(np.float64))])) > most:
        finite = array[np.isfinite(array.astype(np.float64))].astype(np.float64)
        low, high = np.quantile(finite, [0.01, 0.99])  # a few far values are not to take the whole scale of colours
        if not low < high:
            low, high = finite.min(), finite.max()
        return {"kind": "numbers", "values": packed(array), "low": float(low), "high": float(high)}
    texts = id_texts(array)
    if array.dtype.kind == "O":
        gaps = [value is None or (isinstance(value, float) and np.isnan(value)) for value in array]
        texts = ["(none)" if gap else text for gap, text in zip(gaps, texts, strict=True)]
    names, member, sizes = np.unique([visible(text, 40) for text in texts], return_inverse=True, return_counts=True)
    order = np.array(sorted(range(len(names)), key=lambda i: _natural(str(names[i]))), dtype=np.intp)
    if len(names) > len(PALETTE):  # the largest have colours of their own
        order = order[np.argsort(-sizes[order], kind="stable")]
    kept = [str(name) for name in names[order[:_MOST_NAMES]]] + ["(another)"] * (len(names) > _MOST_NAMES)
    codes = whole(np.minimum(np.argsort(order)[member], _MOST_NAMES), "<u2")
    largest = sizes[order[: len(PALETTE)]].tolist()
    return {"kind": "classes", "names": kept, "sizes": largest, "count": len(names), "codes": codes}


def _natural(text: str) -> tuple[int, float, str]:
    """Return what puts numbers in the order of numbers, before texts."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    return (0, value, text) if math.isfinite(value) else (1, 0.0, text)


# -- Pieces of HTML from texts; every text is escaped here, and nowhere else ------------------------------------------


class Markup(str):
    """HTML that is finished: it is not escaped again."""

    __slots__ = ()


def escaped(text: Any) -> Markup:
    """Return any text as HTML that shows it; finished HTML stays as it is."""
    return text if isinstance(text, Markup) else Markup(html.escape(shown(text), quote=True))


def name(text: Any, most: int = LONG) -> Markup:
    """Return the name of a column or row, cut where it is long."""
    return Markup(f'<span class="name">{html.escape(visible(text, most), quote=True)}</span>')


def joined(parts: Iterable[Any]) -> Markup:
    """Return pieces one after the other."""
    return Markup("".join(escaped(part) for part in parts))


def tag(kind: str, *parts: Any, **attributes: Any) -> Markup:
    """Return an element with its content; `class_` and `aria_label` are written class and aria-label."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(shown(value), quote=True)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{kind}{written}>{joined(parts)}</{kind}>\n")


def bullets(items: Iterable[Any]) -> Markup:
    """Return a list, or nothing where there are no items."""
    made = [tag("li", item) for item in items]
    return tag("ul", *made) if made else Markup("")


def code(text: str) -> Markup:
    """Return a block of code, its lines as they are."""
    lines = "\n".join(html.escape(shown(line)) for line in text.strip("\n").splitlines())
    return Markup(f'<pre tabindex="0"><code>{lines}</code></pre>\n')


def table(titles: Sequence[Any], rows: Iterable[Sequence[Any]], *, caption: str, left: Sequence[int] = (0,)) -> Markup:
    """Return a table whose first column names its rows; columns in `left` are texts, the others numbers."""
    kinds = [None if column in left else "number" for column in range(len(titles))]
    head = (tag("th", title, scope="col", class_=kind) for title, kind in zip(titles, kinds, strict=True))
    body = []
    for first, *cells in rows:
        others = (tag("td", cell, class_=kind) for cell, kind in zip(cells, kinds[1:], strict=True))
        body.append(tag("tr", tag("th", first, scope="row"), *others))
    inside = [tag("caption", caption), tag("thead", tag("tr", *head)), tag("tbody", *body)]
    return tag("div", tag("table", *inside), class_="scroll", tabindex="0", role="region", aria_label=caption)


def bar(share: float, text: str) -> Markup:
    """Return a horizontal bar of a share of its cell, with a text beside it."""
    width = 100.0 * min(max(share, 0.0), 1.0)
    return Markup(
        f'<span class="bar"><span class="filled" style="width:{width:.1f}%"></span></span>'
        f'<span class="value">{escaped(text)}</span>'
    )


def plot(id_: str, text: str) -> Markup:
    """Return the place of an interactive picture, with what it shows in words."""
    return tag("div", id=id_, class_="plot", role="figure", aria_label=text)


def pictures(made: Iterable[Markup]) -> Markup:
    """Return pictures side by side."""
    return tag("div", *made, class_="pictures")


def picture(values: NDArray[Any], limits: tuple[float, float], text: str, caption: Any = None) -> Markup:
    """Return rows of numbers as a grey image, with what it shows in words; `limits` are black and white."""
    low, high = limits
    levels = np.nan_to_num(np.clip((values - low) / (high - low if high > low else 1.0), 0.0, 1.0))
    source = png(np.rint(255 * levels).astype(np.uint8))
    image = Markup(f'<img src="{source}" alt="{html.escape(visible(text), quote=True)}">')
    return tag("figure", image, tag("figcaption", caption) if caption is not None else "", class_="picture")


def png(levels: NDArray[np.uint8]) -> str:
    """Return grey levels as a `data:` address of a PNG file, by nothing but the standard library."""
    height, width = levels.shape
    lines = np.pad(levels, ((0, 0), (1, 0)))  # each begins with the number of its filter, 0
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    file = b"\x89PNG\r\n\x1a\n"
    for kind, body in ((b"IHDR", head), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b"")):
        file += struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    return "data:image/png;base64," + base64.b64encode(file).decode("ascii")
