"""Embeddings: every row is drawn where it is, in the shape of its class, and can be drawn again."""

import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from matplotlib.figure import Figure
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kpca import IncrementalKernelPCA, InputError, KernelPCA, plots
from kpca.plots import EmbeddingDisplay

X, SPECIES = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])[SPECIES]


def cloud(m: int = 200, k: int = 3) -> Any:
    return np.random.default_rng(0).normal(size=(m, k)) * ([3.0, 2.0, 1.0][:k])


def offsets(display: EmbeddingDisplay) -> Any:
    return np.asarray(display.points_.get_offsets())


def sorted_rows(P: Any) -> Any:
    return P[np.lexsort(P.T)]


@pytest.mark.parametrize(
    "model",
    [
        KernelPCA(3, kernel="rbf", gamma="median"),
        IncrementalKernelPCA(3, kernel="rbf", gamma="median"),
        make_pipeline(StandardScaler(), KernelPCA(3, kernel="rbf")),
        PCA(3),
    ],
    ids=["exact", "incremental", "pipeline", "PCA"],
)
def test_scores_of_models(model: Any) -> None:
    model.fit(X)
    display = EmbeddingDisplay.from_estimator(model, X, NAMES, components=(2, 0))
    scores = model.transform(X)
    np.testing.assert_allclose(sorted_rows(offsets(display)), sorted_rows(scores[:, [2, 0]]))
    final = model[-1] if hasattr(model, "steps") else model
    share = 100 * final.explained_variance_ratio_
    assert display.ax_.get_xlabel() == f"component 3 ({share[2]:.1f} % of variance)"
    assert display.ax_.get_ylabel() == f"component 1 ({share[0]:.1f} % of variance)"
    assert {text.get_text() for text in display.names_} == set(NAMES)


def test_second_moments_are_not_called_variance() -> None:
    display = EmbeddingDisplay.from_estimator(KernelPCA(2, kernel="rbf", center=False).fit(X), X)
    assert "% of second moment" in display.ax_.get_xlabel()


def test_a_frame_brings_its_ids_and_its_labels_their_name() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, index=[f"flower {i}" for i in range(150)], columns=list("abcd"))
    display = EmbeddingDisplay.from_estimator(KernelPCA(2).fit(frame), frame, frame["a"], annotate=3)
    assert display.colorbar_.ax.get_ylabel() == "a"
    assert [text.get_text()[:7] for text in display.annotations_] == ["flower "] * 3


def test_every_class_has_its_own_shape_and_colour() -> None:
    y = np.arange(200) % 10
    display = EmbeddingDisplay.from_scores(cloud(), y)
    looks: dict[tuple[Any, ...], set[Any]] = {}
    places = {tuple(place): label for place, label in zip(cloud()[:, :2], y, strict=True)}
    faces = display.points_.get_facecolors()
    for place, path, face in zip(offsets(display), display.points_.get_paths(), faces, strict=True):
        looks.setdefault(places[tuple(place)], set()).add((path.vertices.tobytes(), tuple(face)))
    assert len(looks) == 10 and all(len(look) == 1 for look in looks.values())
    assert len({next(iter(look))[0] for look in looks.values()}) == 10  # ten shapes
    assert len({next(iter(look))[1] for look in looks.values()}) == 10  # ten colours
    texts = [text.get_text() for text in display.legend_.get_texts()]
    assert texts == [f"{digit} (20)" for digit in range(10)]


def test_names_of_classes_do_not_cover_each_other() -> None:
    y = np.array([f"class number {i}" for i in range(8)])[np.arange(400) % 8]  # all have the same middle
    for legend in (True, False):
        display = EmbeddingDisplay.from_scores(cloud(400), y, legend=legend)
        display.figure_.draw_without_rendering()
        boxes = [text.get_bbox_patch().get_window_extent() for text in display.names_]
        assert len(boxes) == 8 if not legend else 1 <= len(boxes) <= 8
        assert not any(one.overlaps(other) for i, one in enumerate(boxes) for other in boxes[i + 1 :])


def test_rows_without_a_label_are_grey_and_there() -> None:
    y = np.array(["a", None, "b"], dtype=object)[np.arange(201) % 3]
    display = EmbeddingDisplay.from_scores(cloud(201), y)
    assert len(offsets(display)) == 201
    assert display.legend_.get_texts()[-1].get_text() == "no label (67)"
    numbers = np.where(np.arange(201) % 3, np.arange(201.0), np.nan)
    display = EmbeddingDisplay.from_scores(cloud(201), numbers)
    assert sum(len(one.get_offsets()) for one in display.ax_.collections) == 201
    assert len(offsets(display)) == 134


# -- many rows ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("m", "density", "shaded"), [(19_999, None, False), (20_000, None, True), (50, True, True)])
def test_many_rows_are_shades(m: int, density: bool | None, shaded: bool) -> None:
    display = EmbeddingDisplay.from_scores(cloud(m), density=density)
    assert (display.density_ is not None) == shaded == (display.points_ is None)
    if shaded:
        assert display.density_.get_array().sum() == m  # no row is lost
        assert display.colorbar_.ax.get_ylabel() == "rows in a cell"
    limits = np.array([display.ax_.get_xlim(), display.ax_.get_ylim()])
    P = cloud(m)[:, :2]
    assert (limits[:, 0] < P.min(axis=0)).all() and (P.max(axis=0) < limits[:, 1]).all()


def test_dots_on_demand() -> None:
    display = EmbeddingDisplay.from_scores(cloud(25_000), density=False)
    assert display.density_ is None and len(offsets(display)) == 25_000
    assert display.points_.get_rasterized()


def test_shades_with_some_dots_of_each_class() -> None:
    y = np.where(np.arange(30_000) < 30, "rare", "common")
    display = EmbeddingDisplay.from_scores(cloud(30_000), y)
    assert display.density_.get_array().sum() == 30_000
    assert 2_000 < len(offsets(display)) < 3_000
    known = {tuple(place) for place in cloud(30_000)[:30, :2]}
    assert known <= {tuple(place) for place in offsets(display)}  # all of the rare ones
    assert f"dots: {len(offsets(display)):,} of them" in display.ax_.texts[0].get_text()


def test_numbers_are_averaged_in_the_cells() -> None:
    P = cloud(30_000)
    display = EmbeddingDisplay.from_scores(P, P[:, 0], label_name="first")
    values, (left, _) = display.density_.get_array(), display.density_.get_coordinates()[0, :2, 0]
    width = display.density_.get_coordinates()[0, 1, 0] - left
    middles = display.density_.get_coordinates()[:-1, :-1, 0] + width / 2
    assert np.abs(values - middles).max() <= width / 2 * 1.001
    assert display.colorbar_.ax.get_ylabel() == "mean of first in a cell"


# -- one and three components ---------------------------------------------------------------------------------------


def test_one_component_is_a_histogram() -> None:
    display = EmbeddingDisplay.from_scores(cloud(500, 1))
    assert sum(bar.get_height() for bar in display.ax_.patches) == 500
    assert display.ax_.get_xlabel() == "component 1" and display.ax_.get_ylabel() == "rows"


def test_one_component_has_a_strip_for_each_class() -> None:
    display = EmbeddingDisplay.from_scores(cloud(300), np.array(["a", "b", None])[np.arange(300) % 3], components=1)
    assert [text.get_text() for text in display.ax_.get_yticklabels()] == ["a (100)", "b (100)", "no label (100)"]
    for place, strip in enumerate(display.ax_.collections):
        np.testing.assert_array_equal(np.sort(strip.get_offsets()[:, 0]), np.sort(cloud(300)[place::3, 1]))
        assert np.abs(strip.get_offsets()[:, 1] - place).max() < 0.5


def test_one_component_against_numbers() -> None:
    display = EmbeddingDisplay.from_scores(cloud(300), np.arange(300.0), components=[2], label_name="time")
    np.testing.assert_array_equal(offsets(display), np.column_stack([cloud(300)[:, 2], np.arange(300.0)]))
    assert display.ax_.get_ylabel() == "time"


def test_three_components() -> None:
    model = KernelPCA(3, kernel="rbf", gamma="median").fit(X)
    display = EmbeddingDisplay.from_estimator(model, X, NAMES, components=(0, 1, 2))
    axes: Any = display.ax_
    assert axes.get_zlabel().startswith("component 3 (")
    assert sum(len(one._offsets3d[0]) for one in axes.collections) == 150
    axes = Figure().add_subplot(projection="3d")
    assert display.plot(ax=axes, components=(2, 1, 0)).ax_ is axes
    assert axes.get_xlabel().startswith("component 3 (")
    many = EmbeddingDisplay.from_scores(cloud(30_000), components=(0, 1, 2))
    assert "20,000 of them drawn" in [text.get_text() for text in many.ax_.texts]


# -- drawing again, and anywhere ------------------------------------------------------------------------------------


def test_a_display_is_drawn_as_often_as_wanted() -> None:
    display = EmbeddingDisplay.from_scores(cloud(), np.arange(200) % 3)
    first, before = display.figure_, offsets(display)
    again = display.plot()
    assert again is display and display.figure_ is not first
    np.testing.assert_array_equal(offsets(display), before)
    panels = Figure(layout="constrained").subplots(1, 2)
    display.plot(ax=panels[0]).plot(ax=panels[1], components=(1, 2))
    assert display.ax_ is panels[1] and display.figure_ is panels[1].figure
    assert panels[0].get_xlabel() == "component 1" and panels[1].get_xlabel() == "component 2"


@pytest.mark.parametrize(("scale", "same"), [([1.0, 1.0], True), ([3.0, 1.0], True), ([100.0, 1.0], False)])
def test_scales_are_equal_where_none_becomes_flat(scale: list[float], same: bool) -> None:
    P = np.random.default_rng(0).uniform(size=(400, 2)) * scale
    display = EmbeddingDisplay.from_scores(P)
    assert (display.ax_.get_aspect() == 1.0) == same
    assert EmbeddingDisplay.from_scores(P, equal=True).ax_.get_aspect() == 1.0


def test_the_most_extreme_rows_have_their_ids() -> None:
    P = cloud()
    P[[7, 77]] = [[90.0, 0.0, 0.0], [0.0, -80.0, 0.0]]
    display = EmbeddingDisplay.from_scores(P, ids=[f"row {i}" for i in range(200)], annotate=2)
    assert {text.get_text() for text in display.annotations_} == {"row 7", "row 77"}
    assert not EmbeddingDisplay.from_scores(P).annotations_


@settings(max_examples=15)
@given(
    arrays.arrays(np.float64, st.tuples(st.integers(0, 12), st.integers(1, 3)), elements=st.floats(-1e300, 1e300)),
    st.booleans(),
)
def test_scores_of_any_size_and_shape(scores: Any, density: bool) -> None:
    shaded = density and scores.shape[1] > 1
    display = EmbeddingDisplay.from_scores(scores, density=shaded or None, annotate=2)
    display.figure_.draw_without_rendering()
    assert np.isfinite([*display.ax_.get_xlim(), *display.ax_.get_ylim()]).all()


@pytest.mark.parametrize("size", [1e-300, 1e-20, 1e250])
def test_extreme_sizes_keep_their_power_of_ten_apart(size: float) -> None:
    display = EmbeddingDisplay.from_scores(cloud() * size)
    power = int(np.floor(np.log10(np.abs(cloud()[:, :2]).max() * size)))
    assert f"10^{{{power}}}" in display.ax_.get_xlabel()
    np.testing.assert_allclose(offsets(display), cloud()[:, :2] * size / 10.0**power)


def test_names_that_fonts_do_not_have(recwarn: Any) -> None:
    y = np.array(["日本", "語語", "🙂", "a_b$c$", "", "x" * 99])[np.arange(200) % 6]
    display = EmbeddingDisplay.from_scores(cloud(), y, ids=y, annotate=4, title="$ 🙂 _")
    display.figure_.canvas.draw()
    assert not [one for one in recwarn if "Glyph" in str(one.message)]
    texts = [text.get_text() for text in display.legend_.get_texts()]
    assert len(set(texts)) == 6 and any("(empty)" in text for text in texts) and max(map(len, texts)) < 40


def test_pictures_in_threads_do_not_disturb_each_other() -> None:
    found: list[bytes] = [b""] * 6

    def draw(number: int) -> None:
        display = EmbeddingDisplay.from_scores(cloud(300), np.arange(300) % (number % 3 + 2))
        display.figure_.canvas.draw()
        canvas: Any = display.figure_.canvas
        found[number] = bytes(canvas.buffer_rgba())

    threads = [threading.Thread(target=draw, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[0] == found[3] and found[1] == found[4] and found[2] == found[5] and len(set(found)) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"components": (0, 3)}, r"one, two or three of 0 to 2; got \(0, 3\)"),
        ({"components": (0, 1, 2, 0)}, "one, two or three"),
        ({"components": "ab"}, "one, two or three"),
        ({"components": (True, 0)}, "one, two or three"),
        ({"components": 0, "density": True}, "density needs two components; got 1"),
        ({"annotate": -1}, "annotate must be how many rows"),
        ({"annotate": 2.5}, "annotate must be how many rows"),
        ({"ax": "here"}, "ax must be matplotlib axes"),
        ({"ax": Figure().subplots(), "components": (0, 1, 2)}, "axes of three dimensions"),
        ({"ax": Figure().add_subplot(projection="3d")}, "axes of two dimensions"),
    ],
)
def test_what_cannot_be_drawn(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        EmbeddingDisplay.from_scores(cloud(), **arguments)


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ([[1.0, np.nan]], "those of row 0 are not"),
        ("abc", "array of numbers"),
        (np.zeros((2, 0)), "1 column or more"),
        (np.zeros((2, 2, 2)), r"got shape \(2, 2, 2\)"),
    ],
)
def test_what_are_no_scores(scores: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        EmbeddingDisplay.from_scores(scores)


def test_a_pipeline_that_ends_in_something_else() -> None:
    model = SimpleNamespace(steps=[("a", StandardScaler()), ("b", object())], named_steps={})
    with pytest.raises(InputError, match="last step of the pipeline must be a model with scores; got object"):
        plots.scores(model, X)


def test_a_note_fits_into_the_picture_beside_long_names() -> None:
    labels = np.array(["b" * 60, "a"])[np.arange(6000) % 2]
    display = EmbeddingDisplay.from_scores(np.tile(cloud(300), (20, 1)), labels, components=1)
    display.figure_.canvas.draw()
    note = next(text for text in display.ax_.texts if "middle half" in text.get_text())
    assert "dots:" in note.get_text() and "\n" in note.get_text()
    assert note.get_window_extent().x1 <= display.figure_.bbox.x1
    assert note.get_window_extent().y1 <= display.ax_._left_title.get_window_extent().y0  # type: ignore[attr-defined]
