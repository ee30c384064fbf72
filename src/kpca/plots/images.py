"""Grids of images: rows of data that are pictures themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kpca.errors import InputError
from kpca.plots._axes import FAINT, INK, SMALL, FloatArray, new_figure

if TYPE_CHECKING:
    from kpca.plots._axes import Figure

# Space between two images, at the edge, and the width of a letter of a name, in inches.
_GAP, _EDGE, _LETTER = 0.07, 0.12, 0.085


def gallery(
    images: Any,
    shape: tuple[int, int],
    *,
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    captions: Sequence[Sequence[str]] | None = None,
    limits: tuple[float, float] | None = None,
    inverted: bool = False,
    title: str | None = None,
) -> Figure:
    """Return a grid of small grey pictures: rows of data that are images, all on one scale of grey.

    Parameters
    ----------
    images : (r, c, height * width) array, or r arrays of c rows each: what `denoise` or `preimage.traverse` returns.
    shape : (height, width) of an image.
    rows, columns : a name for each row of the grid, at its left, and for each column, above it.
    captions : a short text for under each image, r lists of c.
    limits : values shown as black and as white, and all beyond; None is the range of all images together.
    inverted : show large values black, as ink on paper.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from kpca import plots
    >>> X, _ = load_digits(return_X_y=True)
    >>> figure = plots.gallery([X[:10], X[10:20]], (8, 8), rows=["first ten", "next ten"], inverted=True)
    >>> len(figure.axes)
    20
    """
    images = _images(images, shape)
    count, across = images.shape[:2]
    _expect_texts("rows", rows, count)
    _expect_texts("columns", columns, across)
    _expect_texts("captions", captions, count)
    for line in captions or ():
        _expect_texts("each of the captions", line, across)
    low, high = (float(images.min()), float(images.max())) if limits is None else limits
    if not low <= high:
        raise InputError(f"limits must be a pair (black, white) of numbers in ascending order; got {limits!r}.")
    grid = _Grid.of(images.shape, rows, bool(columns), bool(captions), title)
    figure = new_figure(grid.width, grid.height)
    figure.set_layout_engine("none")  # every image has its place; to look for it would take seconds
    style: dict[str, Any] = {"color": INK, "transform": figure.dpi_scale_trans}
    for i, j in np.ndindex(count, across):
        left, bottom = grid.corner(i, j)
        axes = figure.add_axes(
            (left / grid.width, bottom / grid.height, grid.across / grid.width, grid.down / grid.height)
        )
        # the frame shows where an image ends whose edge is as white as the paper
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set(color=FAINT, linewidth=0.6)
        axes.imshow(images[i, j], cmap="gray_r" if inverted else "gray", vmin=low, vmax=high, interpolation="nearest")
        if captions:
            axes.set_xlabel(captions[i][j], fontsize=SMALL, color=INK, labelpad=2.5)
        if columns and i == 0:
            axes.set_title(columns[j], fontsize=SMALL + 1, color=INK, pad=4)
        if rows and j == 0:
            middle = bottom + grid.down / 2
            figure.text(left - _GAP, middle, rows[i], ha="right", va="center", fontsize=SMALL + 2, **style)
    if title:
        figure.text(_EDGE, grid.height - _EDGE, title, ha="left", va="top", fontsize=12, fontweight="bold", **style)
    return figure


def _images(images: Any, shape: tuple[int, int]) -> FloatArray:
    """Return images as an array.  # shape: (r, c, height, width)"""
    wanted = f"images must be rows of lines of {shape[0]} x {shape[1]} = {shape[0] * shape[1]} finite numbers"
    try:
        array = np.asarray(images if isinstance(images, np.ndarray) else np.stack(list(images)), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{wanted}, equally many in each line of the grid; got {error}.") from error
    if array.ndim != 3 or array.shape[2] != shape[0] * shape[1] or not array.size or not np.isfinite(array).all():
        raise InputError(f"{wanted}, shape (r, c, {shape[0] * shape[1]}); got shape {array.shape} or a gap in it.")
    return array.reshape(*array.shape[:2], *shape)


def _expect_texts(name: str, texts: Any, count: int) -> None:
    if texts is not None and (isinstance(texts, str) or len(texts) != count):
        found = repr(texts) if isinstance(texts, str) else f"{len(texts)}"
        raise InputError(f"{name} must have {count} entries, one for each of its images; got {found}.")


@dataclass(frozen=True)
class _Grid:
    """Where images and words go, in inches; what is between the images is theirs, the margins are the names'."""

    width: float
    height: float
    across: float  # width of an image
    down: float  # height of an image
    margin: float  # left of the images
    head: float  # above them
    caption: float  # below each

    @staticmethod
    def of(shape: tuple[int, ...], rows: Any, columns: bool, captions: bool, title: str | None) -> _Grid:
        count, images, tall, wide = shape
        # as large as ten inches allow, and never larger than is of use
        across = float(np.clip((10.0 - 1.5 * bool(rows)) / images - _GAP, 0.35, 1.4))
        down = across * tall / wide
        longest = max((len(line) for name in rows or () for line in str(name).split("\n")), default=0)
        margin = _EDGE + (_GAP + longest * _LETTER if rows else 0.0)
        head = _EDGE + (0.24 if columns else 0.0) + (0.3 if title else 0.0)
        caption = 0.19 if captions else 0.0
        width = max(margin + images * (across + _GAP) + _EDGE, 2 * _EDGE + len(title or "") * 1.35 * _LETTER)
        height = head + count * (down + caption + _GAP) + _EDGE
        return _Grid(width, height, across, down, margin, head, caption)

    def corner(self, i: int, j: int) -> tuple[float, float]:
        """Return the left and the lower edge of an image."""
        bottom = self.height - self.head - (i + 1) * self.down - i * (self.caption + _GAP)
        return self.margin + j * (self.across + _GAP), bottom
