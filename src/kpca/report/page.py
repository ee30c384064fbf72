"""One page from sections: the template filled in, with style, scripts and data inside."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from kpca import __version__
from kpca.report._plotly import plotly_script
from kpca.report.colours import DARK_PALETTE, PALETTE
from kpca.report.markup import escaped, joined, tag
from kpca.report.packing import json_for_page
from kpca.report.sections.base import Section
from kpca.report.words import visible

_PLACE = re.compile(r"\{\{(\w+)\}\}")


def page_of(title: str, sections: Sequence[Section]) -> str:
    """Return the whole page."""
    data: dict[str, Any] = {"palette": PALETTE, "darkPalette": DARK_PALETTE}
    for section in sections:
        data |= section.data
    return fill(
        template("page.html"),
        {
            "title": escaped(visible(title, 200)),
            "style": template("style.css"),
            "contents": joined(tag("li", tag("a", part.title, href=f"#{part.id}")) for part in sections),
            "sections": joined(
                tag("section", tag("h2", part.title), part.body, id=part.id, aria_label=part.title) for part in sections
            ),
            "version": escaped(__version__),
            "data": json_for_page(data),
            "plotly": plotly_script(),
            "script": template("report.js"),
        },
    )


def fill(text: str, parts: Mapping[str, str]) -> str:
    """Return a template with `{{name}}` replaced, in one pass: what is put in is not looked at again."""
    return _PLACE.sub(lambda place: parts[place[1]], text)


@cache
def template(name: str) -> str:
    """Return a file that lies beside this one."""
    return files("kpca.report").joinpath("templates", name).read_text(encoding="utf-8")
