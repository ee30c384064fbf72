"""A real browser for tests of the page: it has no network, and everything it complains about is kept."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
NAMES = ("chromium", "chromium-browser", "google-chrome")


@contextmanager
def started() -> Iterator[Callable[..., Any]]:
    """Yield what starts Chromium with further arguments; the test is skipped where there is none."""
    api = pytest.importorskip("playwright.sync_api", reason="This test needs playwright, which is not installed.")
    path = next((found for name in NAMES if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip(f"This test needs a browser; there is none of {', '.join(NAMES)}.")
    with api.sync_playwright() as playwright:
        yield lambda *more: playwright.chromium.launch(executable_path=path, args=[*ARGUMENTS, *more])


class Opened:
    """A page, with all that it asked for and complained about."""

    def __init__(self, running: Any, file: Path, **context: Any) -> None:
        self.context = running.new_context(viewport={"width": 1280, "height": 900}, accept_downloads=True, **context)
        self.page = self.context.new_page()
        self.requests: list[str] = []
        self.errors: list[str] = []
        self.page.on("request", self._asked)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("dialog", self._refused)
        self.page.on("console", self._noted)
        self.address = file.resolve().as_uri()
        self.page.goto(self.address)
        self.drawn(1)

    def _asked(self, request: Any) -> None:
        if not request.url.startswith(("data:", "blob:")):  # which are inside the page
            self.requests.append(request.url)

    def _refused(self, dialog: Any) -> None:
        self.errors.append(f"a dialog opened: {dialog.message}")
        dialog.dismiss()

    def _noted(self, message: Any) -> None:
        if message.type == "error":
            self.errors.append(message.text)

    def drawn(self, times: int) -> None:
        """Wait until the map has been drawn so many times."""
        self.page.wait_for_function(
            "n => Number(document.getElementById('embedding-plot').dataset.drawn || 0) >= n", arg=times, timeout=30_000
        )

    @property
    def draws(self) -> int:
        """How many times the map has been drawn."""
        return int(self.page.evaluate("Number(document.getElementById('embedding-plot').dataset.drawn)"))

    def ranges(self) -> list[float]:
        """Return the ends of both axes of the map."""
        found = self.page.evaluate(
            "(() => { const l = document.getElementById('embedding-plot')._fullLayout;"
            " return [...l.xaxis.range, ...l.yaxis.range]; })()"
        )
        return [float(end) for end in found]

    def place_of(self, row: int) -> tuple[float, float]:
        """Return where on the screen the dot of a row is."""
        self.page.locator("#embedding-plot").scroll_into_view_if_needed()
        found = self.page.evaluate(
            """row => {
                const plot = document.getElementById('embedding-plot'), layout = plot._fullLayout, trace = plot.data[0];
                const at = trace.text.findIndex((text) => text.startsWith(`<b>row ${row}</b>`));
                const box = plot.getBoundingClientRect();
                return [box.left + layout._size.l + layout.xaxis.d2p(trace.x[at]),
                        box.top + layout._size.t + layout.yaxis.d2p(trace.y[at])];
            }""",
            row,
        )
        return float(found[0]), float(found[1])

    def drag(self, start: tuple[float, float], *corners: tuple[float, float]) -> None:
        """Press the mouse, move it along corners, and let go."""
        self.page.mouse.move(*start)
        self.page.mouse.down()
        for corner in corners:
            self.page.mouse.move(*corner, steps=5)
        self.page.mouse.up()

    def frame(self) -> tuple[float, float, float, float]:
        """Return left, top, right and bottom of the area of the map with dots."""
        self.page.locator("#embedding-plot").scroll_into_view_if_needed()
        found = self.page.evaluate(
            "(() => { const p = document.getElementById('embedding-plot'), s = p._fullLayout._size,"
            " b = p.getBoundingClientRect();"
            " return [b.left + s.l, b.top + s.t, b.left + s.l + s.w, b.top + s.t + s.h]; })()"
        )
        left, top, right, bottom = found
        return left, top, right, bottom
