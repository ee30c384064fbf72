"""The page in a real browser: nothing is loaded, nothing complains, and the map does what it says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from report.browser import Opened, started
from sklearn.datasets import load_iris

from kpca import KernelPCA
from kpca.report import report_on

pytestmark = pytest.mark.slow  # a browser is started

HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(2)</script>",
    '"><svg onload=alert(3)>',
    "<a href='javascript:alert(4)'>click</a>",
    "';alert(5);//",
    "${alert(6)}",
    "<!-- <script>",
    "{{script}}{{data}}",
    "nul\x00 bell\x07 esc\x1b",
    "right\u202eto\u2066left",
    "Grüße 中文 🙂 \u2028 \u2029",
    "\ud800 lone",
    "x" * 5000,
    "",
]


@pytest.fixture(scope="module")
def iris(tmp_path_factory: pytest.TempPathFactory) -> Path:
    X, y = load_iris(return_X_y=True)
    file: Path = tmp_path_factory.mktemp("report") / "iris.html"
    model = KernelPCA(3, kernel="rbf", gamma="median", preimage="auto").fit(X)
    report_on(model, X, file, labels=np.array(["setosa", "versicolor", "virginica"])[y])
    return file


@pytest.fixture(scope="module")
def start() -> Iterator[Callable[..., Any]]:
    with started() as starting:
        yield starting


@pytest.fixture(scope="module")
def chromium(start: Callable[..., Any]) -> Iterator[Any]:
    running = start()
    yield running
    running.close()


@pytest.fixture(scope="module")
def shared(chromium: Any, iris: Path) -> Iterator[Opened]:
    page = Opened(chromium, iris)
    yield page
    page.context.close()


@pytest.fixture
def opened(shared: Opened) -> Iterator[Opened]:
    """The page as it was when it was opened; loading it anew for each test takes seconds."""
    yield shared
    assert shared.errors == []
    assert shared.requests == [shared.address]  # the file itself and nothing else
    draws = shared.draws
    shared.page.select_option("#axis-y", index=1)
    shared.page.select_option("#colour-by", index=1)
    shared.page.click("#mode-zoom")
    shared.page.click("#mode-reset")
    shared.drawn(draws + 3)


def test_all_pictures_are_drawn(opened: Opened) -> None:
    for id_, least in (("embedding-plot", 150), ("spectrum-plot", 3), ("chart-plot", 150)):
        assert opened.page.locator(f"#{id_} .main-svg").count() > 0
        assert opened.page.locator(f"#{id_} path.point, #{id_} .point path").count() >= least
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 1280


def test_hover_shows_the_row(opened: Opened) -> None:
    opened.page.mouse.move(*opened.place_of(41))
    opened.page.wait_for_function(
        "() => document.querySelector('#embedding-plot .hoverlayer').textContent.includes('row')"
    )
    text = opened.page.locator("#embedding-plot .hoverlayer").text_content()
    assert "row 41" in text and "label setosa" in text and "component 1:" in text


def test_drag_zooms_and_reset_returns(opened: Opened) -> None:
    before = opened.ranges()
    left, top, right, bottom = opened.frame()
    middle = (left + right) / 2, (top + bottom) / 2
    opened.drag((left + 60, top + 60), middle)
    opened.page.wait_for_function(
        "end => document.getElementById('embedding-plot')._fullLayout.xaxis.range[1] < end", arg=before[1]
    )
    after = opened.ranges()
    assert after[1] - after[0] < 0.6 * (before[1] - before[0])
    assert after[3] - after[2] < 0.6 * (before[3] - before[2])
    draws = opened.draws
    opened.page.click("#mode-reset")
    opened.drawn(draws + 1)
    assert opened.ranges() == pytest.approx(before)


def test_lasso_lists_the_rows_inside(opened: Opened) -> None:
    opened.page.click("#mode-lasso")
    left, top, right, bottom = opened.frame()
    corners = [(left + 5, bottom - 5), (right - 5, bottom - 5), (right - 5, top + 5), (left + 5, top + 5)]
    opened.drag((left + 5, top + 5), *corners)
    box = opened.page.locator("#selected-ids")
    box.wait_for(state="visible")
    ids = box.input_value().split("\n")
    assert ids == [str(row) for row in range(150)]
    assert opened.page.locator("#selected-count").inner_text() == "150 rows:"
    with opened.page.expect_download() as waiting:
        opened.page.click("#selected-csv")
    lines = Path(waiting.value.path()).read_text(encoding="utf-8-sig").splitlines()
    assert lines[:2] == ["row,id", "0,0"] and len(lines) == 151
    opened.page.click("#selected-copy")
    opened.page.wait_for_function("() => document.getElementById('selected-told').textContent !== ''")
    assert "Cop" in opened.page.locator("#selected-told").inner_text()


def test_box_lists_the_rows_inside(opened: Opened) -> None:
    opened.page.click("#mode-select")
    left, top, right, bottom = opened.frame()
    opened.drag((left + 5, top + 5), (right - 5, bottom - 5))
    box = opened.page.locator("#selected-ids")
    box.wait_for(state="visible")
    assert len(box.input_value().split("\n")) == 150


def test_picture_can_be_saved(opened: Opened) -> None:
    opened.page.locator("#embedding-plot").hover()
    with opened.page.expect_download() as waiting:
        opened.page.locator("#embedding-plot .modebar-btn").click()
    assert opened.page.locator("#embedding-plot .modebar-btn").count() == 1  # nothing that sends data anywhere
    assert Path(waiting.value.path()).read_bytes().startswith(b"\x89PNG")


def test_small_lasso_lists_only_what_is_inside(opened: Opened) -> None:
    opened.page.click("#mode-lasso")
    x, y = opened.place_of(22)  # the row with the highest score, at the edge of its class
    opened.drag((x - 12, y - 12), (x + 12, y - 12), (x + 12, y + 12), (x - 12, y + 12), (x - 12, y - 12))
    box = opened.page.locator("#selected-ids")
    box.wait_for(state="visible")
    ids = {int(line) for line in box.input_value().split("\n")}
    assert 22 in ids and ids < set(range(50))  # all of the same class, and not all of it


def test_components_and_colours_can_be_chosen(opened: Opened) -> None:
    draws = opened.draws
    first = opened.page.evaluate("Array.from(document.getElementById('embedding-plot').data[0].y).slice(0, 5)")
    opened.page.select_option("#axis-y", index=2)
    opened.drawn(draws + 1)
    second = opened.page.evaluate("Array.from(document.getElementById('embedding-plot').data[0].y).slice(0, 5)")
    assert first != second
    assert "component 3" in opened.page.locator("#embedding-plot .ytitle").text_content()
    assert opened.page.locator("#legend button").count() == 3
    for place, kind in ((2, "number"), (0, "string")):
        draws = opened.draws
        opened.page.select_option("#colour-by", index=place)
        opened.drawn(draws + 1)
        marker = "document.getElementById('embedding-plot').data[0].marker"
        assert opened.page.evaluate(f"typeof [{marker}.color].flat()[0]") == kind
        assert opened.page.locator("#legend button").count() == 0


def test_a_class_can_be_hidden(opened: Opened) -> None:
    draws = opened.draws
    opened.page.locator("#legend button").first.click()
    opened.drawn(draws + 1)
    assert opened.page.evaluate("document.getElementById('embedding-plot').data[0].x.length") == 100
    assert opened.page.locator("#legend button").first.get_attribute("aria-pressed") == "false"


def test_three_dimensions_and_back(opened: Opened) -> None:
    opened.page.click("#mode-3d")
    opened.page.wait_for_function("() => document.getElementById('embedding-plot').dataset.kind === 'scatter3d'")
    assert opened.page.locator("#embedding-plot canvas").count() >= 1
    opened.page.click("#mode-3d")
    opened.page.wait_for_function("() => document.getElementById('embedding-plot').dataset.kind === 'scatter'")
    opened.page.mouse.move(*opened.place_of(41))
    opened.page.wait_for_function(
        "document.querySelector('#embedding-plot .hoverlayer').textContent.includes('row 41')"
    )


def test_without_webgl_all_but_3d_works(start: Callable[..., Any], iris: Path) -> None:
    running = start("--disable-3d-apis")
    page = Opened(running, iris)
    assert page.page.locator("#mode-3d").is_disabled()
    assert "no WebGL" in page.page.locator("#embedding-note").inner_text()
    page.page.mouse.move(*page.place_of(41))
    page.page.wait_for_function(
        "() => document.querySelector('#embedding-plot .hoverlayer').textContent.includes('row 41')"
    )
    assert page.errors == [] and page.requests == [page.address]
    running.close()


@pytest.mark.parametrize("width", [360, 1600])
def test_page_fits_the_screen(chromium: Any, iris: Path, width: int) -> None:
    page = Opened(chromium, iris, color_scheme="dark")
    page.page.set_viewport_size({"width": width, "height": 800})
    page.page.wait_for_timeout(300)
    assert page.page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.errors == [] and page.requests == [page.address]
    page.context.close()


def test_hostile_texts_are_inert(chromium: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    texts = np.array((HOSTILE * 4)[:40], dtype=object)
    X = rng.normal(size=(40, len(HOSTILE)))
    model = KernelPCA(2, kernel="rbf", gamma=0.1).fit(X)
    file = tmp_path / "hostile.html"
    report_on(model, X, file, ids=texts, labels=texts, names=HOSTILE, title=HOSTILE[1])
    page = Opened(chromium, file)
    # every dot is pointed at, every colour is chosen, every row is listed
    texts_of = "document.getElementById('embedding-plot').data[0].text"
    assert page.page.evaluate(f"{texts_of}.every((t) => !/<(?!b>|\\/b>|br>)/.test(t))")
    for option in range(page.page.locator("#colour-by option").count()):
        draws = page.draws
        page.page.select_option("#colour-by", index=option)
        page.drawn(draws + 1)
    x, y = page.page.evaluate(
        "(() => { const p = document.getElementById('embedding-plot'), l = p._fullLayout;"
        " const b = p.getBoundingClientRect(), d = p.data[0], i = d.text.findIndex((t) => t.includes('onerror'));"
        " return [b.left + l._size.l + l.xaxis.d2p(d.x[i]), b.top + l._size.t + l.yaxis.d2p(d.y[i])]; })()"
    )
    page.page.mouse.move(x, y)
    page.page.wait_for_timeout(300)
    page.page.click("#mode-lasso")
    left, top, right, bottom = page.frame()
    left, top, right, bottom = left + 4, top + 4, right - 4, bottom - 4
    page.drag((left, top), (right, top), (right, bottom), (left, bottom), (left, top))
    page.page.locator("#selected-ids").wait_for(state="visible")
    assert "<img src=x onerror=alert(1)>" in page.page.locator("#selected-ids").input_value()
    assert page.page.locator("img:not([src^='data:'])").count() == 0
    assert page.page.locator("main script, main svg[onload], a[href^='javascript']").count() == 0
    assert page.page.evaluate("document.querySelectorAll('script').length") == 3
    assert page.page.title() == HOSTILE[1]
    assert page.errors == [] and page.requests == [page.address]
    page.context.close()
