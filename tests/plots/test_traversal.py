"""Traversals: what a component does to rows, as pictures or as lines."""

from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from sklearn.datasets import load_digits, load_wine
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kpca import InputError, KernelPCA, plots
from kpca.plots import TraversalDisplay
from kpca.preimage import traverse

DIGITS = load_digits().data[:200]
WINE = load_wine()


def linear(k: int) -> KernelPCA:
    return KernelPCA(k, preimage="auto")


def test_pictures_along_components() -> None:
    model = KernelPCA(5, kernel="rbf", gamma="median", preimage="fixed-point").fit(DIGITS)
    display = TraversalDisplay.from_estimator(model, DIGITS, components=[2, 0], steps=5, image_shape=(8, 8))
    for number, component in enumerate((2, 0)):
        positions, rows = traverse(model, component, 5)
        np.testing.assert_array_equal(display.positions, positions)
        np.testing.assert_array_equal(display.rows[number], rows)
    shown = np.array([axes.images[0].get_array().ravel() for axes in display.axes_])
    np.testing.assert_allclose(shown, display.rows.reshape(10, 64))
    words = [text.get_text() for text in display.figure_.texts]
    assert f"component 3\n({100 * model.explained_variance_ratio_[2]:.1f} % of variance)" in words
    assert [axes.get_title() for axes in display.axes_[:5]] == ["−2", "−1", "0", "+1", "+2"]


def test_the_variables_that_change_most() -> None:
    model = linear(3).fit(WINE.data)
    display = TraversalDisplay.from_estimator(model, WINE.data, names=WINE.feature_names, n=4)
    assert len(display.axes_) == 3
    spread = WINE.data.std(axis=0)
    for number, lines in enumerate(display.lines_):
        change = (display.rows[number] - display.rows[number][4]) / spread
        order = np.argsort(-np.ptp(change, axis=0))[:4]
        assert [line.get_label() for line in lines] == [WINE.feature_names[j] for j in order]
        for line, j in zip(lines, order, strict=True):
            np.testing.assert_allclose(line.get_ydata(), change[:, j], atol=1e-12)
        assert len({(str(line.get_linestyle()), line.get_marker()) for line in lines}) == 4  # known without colour
    assert display.axes_[0].get_title(loc="left").endswith("4 of 13 variables")


def test_steps_before_the_model_are_undone() -> None:
    pipeline = make_pipeline(StandardScaler(), linear(2)).fit(WINE.data)
    display = TraversalDisplay.from_estimator(pipeline, WINE.data, components=1, steps=3)
    _, rows = traverse(pipeline[-1], 0, 3)
    np.testing.assert_allclose(display.rows[0], pipeline[:-1].inverse_transform(rows))
    np.testing.assert_allclose(display.rows[0][1], WINE.data.mean(axis=0))
    around = TraversalDisplay.from_estimator(pipeline, WINE.data, components=1, steps=3, around=WINE.data[7])
    assert np.abs(around.rows[0][1] - WINE.data[7]).sum() < np.abs(display.rows[0][1] - WINE.data[7]).sum()


def test_rows_go_back_to_the_units_of_the_data() -> None:
    model = linear(2).fit(WINE.data)
    display = TraversalDisplay.from_estimator(model, components=1, steps=3, restore=lambda rows: 1000.0 * rows)
    np.testing.assert_allclose(display.rows[0], 1000.0 * traverse(model, 0, 3)[1])


def test_a_frame_knows_its_names() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(WINE.data, columns=WINE.feature_names)
    display = TraversalDisplay.from_estimator(linear(2).fit(frame), frame, components=1, n=1)
    assert display.lines_[0][0].get_label() == "proline"


def test_drawn_twice_and_into_axes() -> None:
    display = TraversalDisplay.from_estimator(linear(2).fit(WINE.data), components=2)
    panels = Figure().subplots(2, 1)
    assert display.plot(ax=panels, n=2).axes_ == list(panels)
    assert [len(lines) for lines in display.lines_] == [2, 2]
    assert len(plots.traversal(linear(2).fit(WINE.data), components=1).axes) == 1


@pytest.mark.parametrize("size", [0.0, 1e-300, 1e200])
def test_any_size(size: float) -> None:
    rows = np.random.default_rng(0).normal(size=(1, 3, 4)) * size
    display = TraversalDisplay(positions=[-1, 0, 1], rows=rows, components=[0], scale=[1.0, 0.0, 1.0, 1.0]).plot()
    display.figure_.draw_without_rendering()
    assert len(display.lines_[0]) == (3 if size else 0)  # a column that is constant has no scale to change by
    if not size:
        assert display.axes_[0].get_title(loc="left").endswith("no variable changes")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"components": 0}, "how many to go along, 1 or more"),
        ({"components": [2]}, "some of 0 to 1"),
        ({"n": 0}, "n must be"),
        ({"ax": Figure().subplots()}, "ax must be 2 matplotlib axes"),
        ({"image_shape": (13, 1), "ax": Figure().subplots()}, "figure of their own"),
        ({"image_shape": (5, 5)}, "5 x 5 = 25"),
    ],
)
def test_what_cannot_be_walked(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        TraversalDisplay.from_estimator(linear(2).fit(WINE.data), **{"components": 2, **arguments})


def test_no_way_back() -> None:
    with pytest.raises(NotFittedError, match="not fitted yet"):
        plots.traversal(KernelPCA(2))
    with pytest.raises(NotFittedError, match="set it and fit again"):
        plots.traversal(KernelPCA(2).fit(WINE.data))
