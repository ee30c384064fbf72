"""Pieces of HTML from texts; every text is escaped here, and nowhere else."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any

from kpca.report.words import LONG, shown, visible


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


def paragraph(*parts: Any, class_: str | None = None) -> Markup:
    """Return a paragraph."""
    return tag("p", *parts, class_=class_)


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
    head = joined(
        tag("th", title, scope="col", class_=None if column in left else "number")
        for column, title in enumerate(titles)
    )
    body = joined(tag("tr", *_cells(row, left)) for row in rows)
    inside = joined([tag("caption", caption), tag("thead", tag("tr", head)), tag("tbody", body)])
    return tag("div", tag("table", inside), class_="scroll", tabindex="0", role="region", aria_label=caption)


def _cells(row: Sequence[Any], left: Sequence[int]) -> list[Markup]:
    return [
        tag("th", cell, scope="row") if column == 0 else tag("td", cell, class_=None if column in left else "number")
        for column, cell in enumerate(row)
    ]


def bar(share: float, text: str) -> Markup:
    """Return a horizontal bar of a share of its cell, with a text beside it."""
    width = 100.0 * min(max(share, 0.0), 1.0)
    return Markup(
        f'<span class="bar"><span class="filled" style="width:{width:.1f}%"></span></span>'
        f'<span class="value">{escaped(text)}</span>'
    )


def picture(source: str, text: str, caption: Any = None) -> Markup:
    """Return an image with what it shows in words."""
    image = Markup(f'<img src="{source}" alt="{html.escape(visible(text), quote=True)}">')
    return tag("figure", image, tag("figcaption", caption) if caption is not None else "", class_="picture")


def plot(id_: str, text: str, *, class_: str = "plot") -> Markup:
    """Return the place of an interactive picture, with what it shows in words."""
    return tag("div", id=id_, class_=class_, role="figure", aria_label=text)
