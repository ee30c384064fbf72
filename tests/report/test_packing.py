"""What travels inside a page: numbers to a fine step, texts that stay texts."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kpca import kernels
from kpca.report import packing, words
from kpca.report import packing as markup
from kpca.report.packing import classes_or_numbers, png

ANY = st.floats(allow_nan=True, allow_infinity=True)


def unpacked(pack: dict[str, Any]) -> np.ndarray[Any, Any]:
    """Return the numbers of a pack, NaN for "no number"; what the page does in its own language."""
    steps = np.frombuffer(base64.b64decode(pack["steps"]), dtype="<u2")
    part = steps / 65534
    numbers = pack["low"] * (1 - part) + pack["high"] * part
    numbers[steps == 65535] = np.nan
    return numbers


@given(st.lists(ANY, min_size=1, max_size=30))
def test_packed_numbers_come_back_to_a_step(values: list[float]) -> None:
    given_ = np.array(values)
    pack = packing.packed(given_)
    json.dumps(pack, allow_nan=False)
    found = unpacked(pack)
    finite = np.isfinite(given_)
    np.testing.assert_array_equal(np.isnan(found), ~finite)
    step = (pack["high"] / 2 - pack["low"] / 2) / 65534 * 2
    size = max(abs(pack["low"]), abs(pack["high"]))
    np.testing.assert_allclose(found[finite], given_[finite], rtol=0, atol=0.51 * step + 1e-15 * size)


@given(st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8))
def test_json_holds_no_tag_and_comes_back(data: Any) -> None:
    text = packing.json_for_page(data)
    assert not re.search(r"[<>&\u2028\u2029]", text) and text.isascii()
    assert json.loads(text) == json.loads(json.dumps(data))


def test_numbers_that_are_none_are_refused_by_json() -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        packing.json_for_page({"x": float("nan")})


@given(st.text())
def test_visible_text_is_short_and_whole(text: str) -> None:
    shown = words.visible(text)
    assert 0 < len(shown) <= words.LONG
    assert shown.encode("utf-8") and not re.search(r"[\x00-\x1f\u202a-\u202e]", shown)


@given(st.text())
def test_markup_never_lets_a_tag_through(text: str) -> None:
    for made in (markup.name(text), markup.tag("p", text), markup.code(text), markup.tag("p", title=text)):
        inner = re.sub(r"</?(?:span|p|pre|code)(?: [a-z]+=\"[^\"<>]*\")*>", "", made)
        assert "<" not in inner and ">" not in inner


@given(st.lists(st.text(max_size=200), max_size=40), st.integers(10, 500))
def test_shortened_texts_fit_their_budget(texts: list[str], budget: int) -> None:
    short, limit = packing.shortened(texts, budget)
    assert len(short) == len(texts)
    assert sum(map(len, short)) <= max(budget, 4 * len(texts))
    assert limit is not None or short == texts


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (-1, "−1"),
        (1234567, "1.235 × 10⁶"),
        (12345.678, "12,346"),
        (0.1, "0.1"),
        (2.50, "2.5"),
        (1e-5, "1 × 10⁻⁵"),
        (float("nan"), "—"),
        (float("inf"), "∞"),
        (0.99999, "1"),
    ],
)
def test_numbers_read_well(value: float, text: str) -> None:
    assert words.number(value) == text


def test_aligned_numbers_have_the_same_decimals() -> None:
    assert words.aligned([1.0, 2.5, -3.25]) == ["1.00", "2.50", "−3.25"]
    assert words.aligned([10.0, 20.0]) == ["10", "20"]
    assert words.aligned([5.0]) == ["5"]
    assert words.aligned([0.0, 0.0]) == ["0", "0"]
    assert words.percent(0.8123) == "81.2 %" and words.percent(1.0) == "100 %" and words.percent(0.00012) == "0.01 %"


def test_many_classes_share_the_last_colour() -> None:
    labels = np.array([f"c{i}" for i in range(30)] + ["common"] * 9)
    found = classes_or_numbers(labels)
    assert found["kind"] == "classes" and found["count"] == 31 and found["names"][0] == "common"
    assert found["sizes"][0] == 9
    few = classes_or_numbers(np.array([10, 9, 2, 2]))
    assert few["names"] == ["2", "9", "10"] and few["sizes"] == [2, 1, 1]
    assert classes_or_numbers(np.arange(50))["kind"] == "numbers"


@pytest.mark.parametrize(
    ("kernel", "text"),
    [
        (kernels.Linear(), "x · y"),
        (kernels.RBF(0.25), "exp(−0.25 ‖x − y‖²)"),
        (kernels.RBF((0.5, 2.0)), "exp(−Σ γⱼ (xⱼ − yⱼ)²), one γ for each of the 2 columns, from 0.5 to 2"),
        (kernels.Polynomial(3, 1.0, -2.0), "(x · y − 2)^3"),
        (kernels.Matern(1.5, 2.0), "(1 + u) e^(−u) with u = √3 ‖x − y‖ / 2"),
        (kernels.Exponential(), "exp(−‖x − y‖)"),
        (kernels.RationalQuadratic(0.5, 3.0), "(1 + ‖x − y‖² / (2 · 0.5 · 3²))^(−0.5)"),
        (kernels.Laplacian(1.0), "exp(−Σ |xⱼ − yⱼ|)"),
        (2.0 * kernels.RBF(1.0) + kernels.Linear(), "2 · [exp(−‖x − y‖²)] + x · y"),
        (kernels.Linear() * kernels.Cosine(), "[x · y] · [x · y / (‖x‖ ‖y‖)]"),
    ],
)
def test_formulas(kernel: kernels.Kernel, text: str) -> None:
    assert kernel.formula(words.number) == text
    assert kernel.meaning(words.number).endswith(".")


def test_every_named_kernel_has_a_formula() -> None:
    X = np.ones((2, 2))
    for name in kernels.NAMES:
        assert not kernels.resolve(name, X, gamma=0.5).formula(words.number).startswith("<")


def test_pictures_are_png() -> None:
    from io import BytesIO

    image = pytest.importorskip("PIL.Image")
    levels = np.arange(12, dtype=np.uint8).reshape(3, 4) * 20
    file = base64.b64decode(png(levels).removeprefix("data:image/png;base64,"))
    np.testing.assert_array_equal(np.asarray(image.open(BytesIO(file))), levels)
