"""A grid of images: what is shown, on which scale, under which names."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kpca import InputError, plots

TALL, WIDE = 5, 3


def some_images(rows: int = 2, columns: int = 4) -> NDArray[Any]:
    return np.random.default_rng(0).normal(size=(rows, columns, TALL * WIDE))


def texts(figure: Any) -> list[str]:
    return [text.get_text() for text in figure.texts]


def test_every_image_is_shown_in_its_place() -> None:
    images = some_images()
    figure = plots.gallery(images, (TALL, WIDE))
    assert len(figure.axes) == 8
    for axes, image in zip(figure.axes, images.reshape(8, TALL, WIDE), strict=True):
        np.testing.assert_array_equal(axes.images[0].get_array(), image)
    corners = np.array([axes.get_position().p0 for axes in figure.axes]).reshape(2, 4, 2)
    assert (np.diff(corners[:, :, 0], axis=1) > 0).all()  # to the right
    assert (np.diff(corners[:, :, 1], axis=0) < 0).all()  # and down


@pytest.mark.parametrize("limits", [None, (-1.0, 1.0)])
def test_one_scale_of_grey_for_all(limits: tuple[float, float] | None) -> None:
    images = some_images()
    images[1] *= 10.0
    shown = [axes.images[0].get_clim() for axes in plots.gallery(images, (TALL, WIDE), limits=limits).axes]
    assert set(shown) == {limits or (images.min(), images.max())}


def test_ink_on_paper_or_light_on_dark() -> None:
    for inverted, name in ((False, "gray"), (True, "gray_r")):
        axes = plots.gallery(some_images(), (TALL, WIDE), inverted=inverted).axes[0]
        assert axes.images[0].get_cmap().name == name


def test_names_and_captions() -> None:
    captions = [[f"{i}{j}" for j in range(4)] for i in range(2)]
    figure = plots.gallery(
        some_images(), (TALL, WIDE), rows=["one", "two"], columns=list("abcd"), captions=captions, title="All"
    )
    assert [axes.get_xlabel() for axes in figure.axes] == [*captions[0], *captions[1]]
    assert [axes.get_title() for axes in figure.axes] == [*"abcd", "", "", "", ""]
    assert texts(figure) == ["one", "two", "All"]


@pytest.mark.parametrize(
    ("count", "across", "shape"), [(1, 1, (8, 8)), (4, 9, (64, 64)), (7, 10, (16, 16)), (2, 3, (5, 30))]
)
def test_nothing_overlaps_or_is_cut_off(count: int, across: int, shape: tuple[int, int]) -> None:
    images = np.zeros((count, across, shape[0] * shape[1]))
    figure = plots.gallery(
        images,
        shape,
        rows=[f"kernel PCA,\n102{i} components" for i in range(count)],
        columns=[f"{j}" for j in range(across)],
        captions=[["18.3 dB"] * across] * count,
        title="Digits denoised; under each its peak signal-to-noise ratio",
    )
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in figure.texts]
    for axes in figure.axes:
        boxes += [part.get_window_extent() for part in (axes, axes.xaxis.label, axes.title)]
        np.testing.assert_allclose(axes.bbox.height / axes.bbox.width, shape[0] / shape[1], rtol=1e-6)
    boxes = [box for box in boxes if box.width > 0]
    whole = figure.bbox
    for box in boxes:
        assert whole.x0 <= box.x0 and box.x1 <= whole.x1 and whole.y0 <= box.y0 and box.y1 <= whole.y1
    for number, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[number + 1 :])


def test_lists_of_rows_will_do() -> None:
    images = some_images()
    figure = plots.gallery([list(images[0]), images[1].tolist()], (TALL, WIDE))
    np.testing.assert_array_equal(figure.axes[5].images[0].get_array().ravel(), images[1, 1])


@pytest.mark.parametrize(
    ("images", "arguments", "message"),
    [
        (some_images()[0], {}, r"5 x 3 = 15 finite numbers, shape \(r, c, 15\); got shape \(4, 15\)"),
        (np.zeros((2, 4, 16)), {}, r"got shape \(2, 4, 16\)"),
        (np.zeros((2, 0, 15)), {}, r"got shape \(2, 0, 15\)"),
        (np.full((1, 1, 15), np.nan), {}, "finite"),
        ([np.zeros((2, 15)), np.zeros((3, 15))], {}, "equally many in each row"),
        (some_images(), {"rows": ["one"]}, "rows must have 2 entries.*got 1"),
        (some_images(), {"rows": "ab"}, "rows must have 2 entries.*got 'ab'"),
        (some_images(), {"columns": list("abc")}, "columns must have 4 entries.*got 3"),
        (some_images(), {"captions": [["x"] * 4]}, "captions must have 2 entries.*got 1"),
        (some_images(), {"captions": [["x"] * 4, ["x"]]}, "each of the captions must have 4 entries.*got 1"),
        (some_images(), {"limits": (1.0, -1.0)}, r"ascending order; got \(1.0, -1.0\)"),
    ],
)
def test_what_is_no_grid_of_images(images: Any, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        plots.gallery(images, (TALL, WIDE), **arguments)
