"""Labels of rows: whatever they are, a picture shows them, and rows without one stay without."""

from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.colors import to_rgb

from kpca import InputError, plots
from kpca.plots._labels import MOST_CLASSES, labels_of, sample_of
from kpca.plots.axes import COLOURS, MARKERS

ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=40),
    st.binary(max_size=5),
    st.decimals(allow_nan=False),
    st.dates(date(1800, 1, 1), date(2200, 1, 1)),
)
ONE_KIND = st.sampled_from([st.integers(), st.floats(), st.text(max_size=9), st.booleans(), st.none()])


@given(st.lists(ANYTHING, min_size=1, max_size=30))
def test_labels_of_any_kind_become_classes_or_numbers(y: list[Any]) -> None:
    found = labels_of(y, len(y))
    assert found is not None and (found.codes is None) != (found.values is None)
    if found.codes is not None:
        assert found.codes.min() >= -1 and found.codes.max() < len(found.names) <= MOST_CLASSES
        for label, code in zip(y, found.codes, strict=True):
            assert (code < 0) >= (label is None)
    else:
        assert not np.isinf(found.values).any() and np.isnan(found.values).sum() >= sum(one is None for one in y)


@settings(max_examples=15)
@given(ONE_KIND.flatmap(lambda kind: st.lists(kind, min_size=2, max_size=25)), st.sampled_from([1, 2, 3]))
def test_no_labels_stop_a_picture(y: list[Any], dimensions: int) -> None:
    scores = np.random.default_rng(0).normal(size=(len(y), 3))
    display = plots.EmbeddingDisplay.from_scores(scores, y, components=range(dimensions))
    display.figure_.draw_without_rendering()


@pytest.mark.parametrize(
    ("y", "names", "codes"),
    [
        (["b", None, "a", float("nan")], ("a", "b"), [1, -1, 0, -1]),
        (np.array([2.0, np.nan, 1.0, np.inf]), ("1", "2"), [1, -1, 0, -1]),
        ([True, False, True, True], ("False", "True"), [1, 0, 1, 1]),
        ([1, "1", "a", 2.5], ("1", "2.5", "a"), [0, 0, 2, 1]),
        ([Decimal(3), 1, None, 3.0], ("1", "3"), [1, 0, -1, 1]),
        ([0.1 + 0.2, 0.3, 10**6, 10**6 + 1], ("0.3", "0.30000000000000004", "1000000", "1000001"), [1, 0, 2, 3]),
        (np.array(["2024-01-02", "NaT", "2024-01-01", "NaT"], "M8[D]"), ("2024-01-01", "2024-01-02"), [1, -1, 0, -1]),
        ([b"x", b"\xff", b"x", None], ("x", "\ufffd"), [0, 1, 0, -1]),
        ([None] * 4, (), [-1] * 4),
    ],
)
def test_few_values_are_classes(y: Any, names: tuple[str, ...], codes: list[int]) -> None:
    found = labels_of(y, 4)
    assert found is not None and found.names == names
    np.testing.assert_array_equal(found.codes, codes)


def test_pandas_gaps_and_names() -> None:
    pandas = pytest.importorskip("pandas")
    found = labels_of(pandas.Series([1, None, 3] * 5 + list(range(20)), dtype="Int64", name="size"), 35)
    assert found is not None and found.meaning == "size" and np.isnan(found.values).sum() == 5
    found = labels_of(pandas.Categorical(["b", None, "a"]), 3)
    assert found is not None and found.names == ("a", "b") and list(found.codes) == [1, -1, 0]
    found = labels_of(pandas.array(["b", pandas.NA, "a"]), 3)
    assert found is not None and list(found.codes) == [1, -1, 0]


def test_the_most_frequent_of_many_classes() -> None:
    y = np.repeat([f"c{i:02d}" for i in range(20)], np.arange(20) + 1)
    found = labels_of(y, len(y))
    assert found is not None and found.rest == 11
    assert found.names == (*(f"c{i}" for i in range(11, 20)), "others (11 classes)")
    np.testing.assert_array_equal(np.bincount(found.codes), [*range(12, 21), 66])


def test_times_are_a_scale_of_years() -> None:
    days = [datetime(2020, 1, 1) + timedelta(days=30 * i) for i in range(30)]
    found = labels_of(days, 30)
    assert found is not None and found.meaning == "year"
    assert found.values[0] == pytest.approx(2020.0, abs=0.01) and np.all(np.diff(found.values) > 0.0)


@pytest.mark.parametrize("size", [1e-320, 1e-300, 1e200, 1e308])
def test_numbers_of_any_size_have_a_scale(size: float) -> None:
    found = labels_of(np.arange(1, 31) / 30.0 * size, 30)
    assert found is not None and found.values is not None
    assert 1.0 <= found.values.max() <= 10.0 and found.power == int(np.floor(np.log10(size)))


def test_a_sample_has_some_of_each_class() -> None:
    labels = labels_of(np.where(np.arange(50_000) < 7, "rare", "common"), 50_000)
    assert labels is not None
    rows = sample_of(labels, 1_000, 40)
    assert len(set(rows)) == len(rows) <= 1_041 and set(range(7)) <= set(rows)


def test_classes_can_be_told_apart_without_colour() -> None:
    assert len(set(MARKERS)) == len(MARKERS) == len(COLOURS) == MOST_CLASSES
    lightness = [float(np.dot(to_rgb(colour), [0.2126, 0.7152, 0.0722])) for colour in COLOURS]
    # the first few, which most pictures have, differ in grey too
    assert min(abs(a - b) for a, b in pairwise(lightness[:6])) > 0.1
    assert max(lightness) < 0.75  # and all are seen on white


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([1, 2], r"one label per row, 3 in all; got shape \(2,\)"),
        ([[1], [2], [3]], r"got shape \(3, 1\)"),
        ([[1], [2, 3], [3]], "lists of different lengths"),
        (np.array([1j, 2, 3]), "complex"),
        ("abc", r"got shape \(\)"),
    ],
)
def test_what_is_no_label_per_row(y: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        labels_of(y, 3)
