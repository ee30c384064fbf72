"""Embeddings side by side: every method in its panel, in colours that are explained, and nothing over anything."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kpca import InputError, plots
from kpca.comparison import Comparison, MethodResult

N = 40
LEFT_OUT = "left out: it needs n x n matrices, and takes part up to 5,000 rows: raise max_rows, or give a sample"


def result(count: int = 8, k: int = 2) -> Comparison:
    """A comparison that nobody had to compute."""
    rng = np.random.default_rng(0)
    names = ["PCA", "incremental PCA", "randomised PCA", "kernel PCA", "MDS", "Isomap", "t-SNE", "UMAP", "a ninth"]
    rows = [
        MethodResult(name, "done", 12.3, 10**6, 0.912, 0.9, embedding=rng.normal(size=(N, k)) * [1.0, 5.0, 1.0][:k])
        for name in names[:count]
    ]
    return Comparison(tuple(rows), (N, 5), k, 10, N, 780)


def panels(figure: Any) -> list[Any]:
    return [axes for axes in figure.axes if axes.get_title(loc="left")]


@pytest.mark.parametrize("count", [1, 3, 8, 9])
def test_every_method_has_its_panel(count: int) -> None:
    found = result(count)
    figure = plots.comparison(found)
    assert [axes.get_title(loc="left") for axes in figure.axes] == [row.name for row in found]
    for axes, row in zip(figure.axes, found, strict=True):
        np.testing.assert_array_equal(axes.collections[0].get_offsets(), row.embedding)
        assert axes.texts[0].get_text() == "trustworthiness 0.91, 12 s"
        assert axes.get_aspect() == 1.0  # a distance is the same length in all directions


def test_numbers_share_a_colour_bar_and_classes_their_colours() -> None:
    found = result()
    figure = plots.comparison(found, np.linspace(0, 1, N))
    assert len(figure.axes) == 9 and len({axes.collections[0].get_clim() for axes in panels(figure)}) == 1
    y = np.arange(N) % 3
    figure = plots.comparison(found, y)
    assert len(figure.axes) == 8 and not figure.legends
    for axes in figure.axes:
        assert [text.get_text() for text in axes.texts[:3]] == ["0", "1", "2"]


def test_long_names_of_classes_are_in_a_legend() -> None:
    y = np.array(["setosa", "versicolor"])[np.arange(N) % 2]
    figure = plots.comparison(result(), y)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["setosa", "versicolor"]
    assert all(len(axes.texts) == 1 for axes in figure.axes)
    shown = {tuple(colour) for axes in figure.axes for colour in axes.collections[0].get_facecolors()[:, :3]}
    from matplotlib.colors import to_rgb

    assert shown == {to_rgb(line.get_color()) for line in figure.legends[0].get_lines()}


def test_a_method_without_an_embedding_says_why() -> None:
    found = result(3)
    rows = (found.rows[0], MethodResult("MDS", "left out", error=LEFT_OUT), found.rows[2])
    figure = plots.comparison(replace(found, rows=rows), np.arange(N) / 7)
    axes = panels(figure)[1]
    assert axes.get_title(loc="left") == "MDS" and not axes.collections
    assert " ".join(axes.texts[0].get_text().split()) == LEFT_OUT
    assert len(figure.axes) == 4  # the others still have their colour bar
    plots.comparison(replace(found, rows=rows[1:2]), np.arange(N) / 7)  # nothing to show a scale for


@pytest.mark.parametrize("k", [1, 3])
def test_one_component_and_more_than_two(k: int) -> None:
    found = result(2, k)
    shown = np.asarray(plots.comparison(found).axes[0].collections[0].get_offsets())
    embedding = found.rows[0].embedding
    assert embedding is not None
    np.testing.assert_array_equal(shown[:, 0], embedding[:, 0])
    np.testing.assert_array_equal(shown[:, 1], embedding[:, 1] if k > 1 else 0.0)


@pytest.mark.parametrize("count", [1, 2, 8, 9])
@pytest.mark.parametrize("colours", ["none", "numbers", "classes"])
def test_nothing_overlaps_or_is_cut_off(count: int, colours: str) -> None:
    found = result(count)
    long = replace(found.rows[0], name="an estimator of my own with a name that does not end")
    failed = MethodResult("failed", "failed", error=f"failed: ValueError: {'one word after the other ' * 30}")
    y = {"none": None, "numbers": np.arange(N) / 7, "classes": np.array(["alpha", "beta"])[np.arange(N) % 2]}[colours]
    figure = plots.comparison(replace(found, rows=(*found.rows[:-1], long, failed)), y)
    figure.draw_without_rendering()
    boxes = []
    for axes in panels(figure):
        inside = axes.texts[-1].get_window_extent()
        title = axes.title if axes.title.get_text() else axes._left_title
        boxes += [axes.get_window_extent(), title.get_window_extent()]
        if axes.collections:
            boxes.append(inside)
        else:
            frame = axes.get_window_extent()
            assert frame.x0 < inside.x0 and inside.x1 < frame.x1 and frame.y0 < inside.y0 and inside.y1 < frame.y1
    boxes += [legend.get_window_extent() for legend in figure.legends]
    boxes += [axes.get_tightbbox() for axes in figure.axes if axes not in panels(figure)]
    whole = figure.bbox
    for box in boxes:
        assert whole.x0 <= box.x0 and box.x1 <= whole.x1 and whole.y0 <= box.y0 and box.y1 <= whole.y1
    for number, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[number + 1 :])


def test_labels_that_cannot_be_shown() -> None:
    with pytest.raises(InputError, match=r"one label per row, 40 in all; got shape \(3,\)"):
        plots.comparison(result(), np.zeros(3))


def test_of_many_classes_the_rare_ones_are_one() -> None:
    figure = plots.comparison(result(), np.array([f"class {i:02d}" for i in range(N)]))
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts == [*(f"class {i:02d}" for i in range(9)), "others (31 classes)"]


def test_of_very_many_rows_some_are_drawn() -> None:
    rng = np.random.default_rng(0)
    count = 60_000
    rows = tuple(
        MethodResult(name, "done", 1.0, 10**6, 0.9, 0.9, embedding=rng.normal(size=(count, 2))) for name in ("a", "b")
    )
    found = Comparison(rows, (count, 5), 2, 10, count, 780)
    figure = plots.comparison(found, np.where(np.arange(count) < 50, "rare", "common"))
    for axes in figure.axes:
        assert 2_000 < len(axes.collections[0].get_offsets()) < 6_000
        assert axes.texts[0].get_text().endswith(" dots")
    shaded = plots.comparison(found).axes[0].collections[0]
    assert shaded.get_array().sum() == count  # all rows are in the shades
