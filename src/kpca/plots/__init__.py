"""Pictures of fitted models and of images, as matplotlib figures.

A notebook shows them; `figure.savefig("name.png")` saves them. They are made without pyplot, so that nothing depends on
a screen and no global state is left behind.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from kpca.errors import InputError
from kpca.planning.result import time_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from kpca.comparison import Comparison, MethodResult
    from kpca.kernel_pca import KernelPCA
    from kpca.selection import Path

FloatArray = NDArray[Any]

# Ten colours that people with any colour vision can tell apart (after Paul Tol's "muted"), light ones a little darker.
_COLOURS = (
    "#332288",
    "#CC6677",
    "#117733",
    "#D1B13C",
    "#66B6E0",
    "#882255",
    "#44AA99",
    "#8A8A1F",
    "#AA4499",
    "#7F7F7F",
)
_INK, _FAINT, _BAR = "#222222", "#D9D9D9", "#4C6A92"
_RESOLUTION = 150  # dots per inch of a saved picture
# Of a grid of images: space between two, at the edge, and the width of a letter of a name, in inches; a font size.
_GAP, _EDGE, _LETTER = 0.07, 0.12, 0.085
_SMALL = 8
_ACROSS = 4  # panels of a comparison side by side
_SHORT = 3  # letters of names that are written into small panels


def scores(model: KernelPCA, X: Any, y: Any = None, components: tuple[int, int] = (0, 1)) -> Figure:
    """Return a scatter of the scores of the rows of X on two components.

    Parameters
    ----------
    model : a fitted KernelPCA.
    X : rows to show; what `model.transform` takes.
    y : a class or a number per row, shown as colour; at most ten different values are classes, more numbers a scale.
    components : the two components, counted from 0.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kpca import KernelPCA, plots
    >>> X, y = load_iris(return_X_y=True)
    >>> figure = plots.scores(KernelPCA(3, kernel="rbf", gamma="median").fit(X), X, y)
    >>> figure.axes[0].get_xlabel()
    'component 1 (69.7 % of variance)'
    """
    figure = _figure(6.4, 6.0)
    _scatter(figure.add_subplot(), model, np.asarray(model.transform(X)), _labels(y, X), components)
    return figure


def spectrum(model: KernelPCA) -> Figure:
    """Return the share of variance of each component, with its certified bounds."""
    figure = _figure(6.4, 4.0)
    _bars(figure.add_subplot(), model)
    return figure


def overview(model: KernelPCA, scores: FloatArray, labels: Any = None) -> Figure:
    """Return the scores on the first two components beside the spectrum.

    Parameters
    ----------
    model : a fitted KernelPCA with at least two components.
    scores : what `model.fit_transform` or `model.transform` returned.  # shape: (m, k)
    labels : a class or a number per row, as `y` of `plots.scores`.
    """
    figure = _figure(10.5, 6.0)
    left, right = figure.subplots(1, 2, width_ratios=(1.75, 1.0))
    _scatter(left, model, scores, _labels(labels, scores), (0, 1))
    _bars(right, model)
    return figure


def path(found: Path) -> Figure:
    """Return a path of bandwidths or degrees: shares of variance, how linear and how spread out, and the criterion.

    Parameters
    ----------
    found : what `kpca.selection.path` returned.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kpca import plots, selection
    >>> X, _ = load_iris(return_X_y=True)
    >>> figure = plots.path(selection.path(X, "rbf", grid=8, n_components=3, criterion="reconstruction"))
    >>> [axes.get_ylabel() for axes in figure.axes]
    ['share of variance', 'from 0 to 1', 'reconstruction']
    """
    judged = found.scores is not None
    figure = _figure(7.0, 7.6 if judged else 5.6)
    panels = figure.subplots(3 if judged else 2, 1, sharex=True)
    _path_shares(panels[0], found)
    spread = found.participation / max(found.n_rows - 1, 1)
    panels[1].plot(
        found.values, found.alignment, color=_COLOURS[0], marker="o", markersize=3, label="linear: alignment"
    )
    panels[1].plot(
        found.values,
        spread,
        color=_COLOURS[1],
        marker="s",
        markersize=3,
        linestyle="--",
        label="lost: participation ratio / (n − 1)",
    )
    panels[1].set(ylabel="from 0 to 1", ylim=(-0.03, 1.05))
    panels[1].legend(frameon=False, loc="center left")
    if found.scores is not None:
        _path_scores(panels[2], found)
    for axes in panels:
        if found.parameter == "gamma":
            axes.set_xscale("log")
        _tidy(axes, grid="y")
    narrow = " (small: wide and linear; large: narrow)" if found.parameter == "gamma" else ""
    panels[-1].set_xlabel(f"{found.parameter}{narrow}")
    panels[0].set_title(f"{found.kernel} kernel, {found.n_rows:,} rows", loc="left", fontweight="bold")
    return figure


def _path_shares(axes: Axes, found: Path) -> None:
    """Draw the shares of the first components on top of each other: the upper edge is what all explain together."""
    shares = np.nan_to_num(found.explained_variance_ratio)
    edges = np.column_stack([np.zeros(len(shares)), np.cumsum(shares, axis=1)])
    k = shares.shape[1]
    for j in range(k):
        shade = 0.25 + 0.65 * j / max(k - 1, 1)
        axes.fill_between(found.values, edges[:, j], edges[:, j + 1], color=_BAR, alpha=1.0 - shade, linewidth=0)
        axes.plot(found.values, edges[:, j + 1], color=_INK, linewidth=0.5)
    axes.set(ylabel="share of variance", ylim=(0.0, 1.02))
    axes.annotate(f"components 1 to {k}, the first at the bottom", (0.99, 0.93), xycoords="axes fraction", ha="right")


def _path_scores(axes: Axes, found: Path) -> None:
    assert found.scores is not None and found.standard_errors is not None
    axes.plot(found.values, found.scores, color=_COLOURS[2], marker="o", markersize=3)
    if np.isfinite(found.standard_errors).any():
        low, high = found.scores - found.standard_errors, found.scores + found.standard_errors
        axes.fill_between(found.values, low, high, color=_COLOURS[2], alpha=0.2, linewidth=0)
    axes.axvline(found.best_value, color=_INK, linestyle=":", linewidth=1.2)
    axes.annotate(
        f"best: {found.best_value:.3g}",
        (found.best_value, 0.04),
        xycoords=("data", "axes fraction"),
        xytext=(4, 0),
        textcoords="offset points",
    )
    axes.set_ylabel(str(found.criterion))


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
    figure = _figure(grid.width, grid.height)
    figure.set_layout_engine("none")  # every image has its place; to look for it would take seconds
    style: dict[str, Any] = {"color": _INK, "transform": figure.dpi_scale_trans}
    for i, j in np.ndindex(count, across):
        left, bottom = grid.corner(i, j)
        axes = figure.add_axes(
            (left / grid.width, bottom / grid.height, grid.across / grid.width, grid.down / grid.height)
        )
        # the frame shows where an image ends whose edge is as white as the paper
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set(color=_FAINT, linewidth=0.6)
        axes.imshow(images[i, j], cmap="gray_r" if inverted else "gray", vmin=low, vmax=high, interpolation="nearest")
        if captions:
            axes.set_xlabel(captions[i][j], fontsize=_SMALL, color=_INK, labelpad=2.5)
        if columns and i == 0:
            axes.set_title(columns[j], fontsize=_SMALL + 1, color=_INK, pad=4)
        if rows and j == 0:
            middle = bottom + grid.down / 2
            figure.text(left - _GAP, middle, rows[i], ha="right", va="center", fontsize=_SMALL + 2, **style)
    if title:
        figure.text(_EDGE, grid.height - _EDGE, title, ha="left", va="top", fontsize=12, fontweight="bold", **style)
    return figure


def comparison(result: Comparison, y: Any = None) -> Figure:
    """Return the embeddings of `kpca.compare` side by side; a method without one shows why.

    Each panel has the same scale on both axes and none written on them: most methods give their coordinates no unit.

    Parameters
    ----------
    result : what `kpca.compare` returned; of more than two components the first two are shown.
    y : a class or a number per row, shown as colour, as `y` of `plots.scores`.

    Examples
    --------
    >>> import kpca
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> figure = kpca.plots.comparison(kpca.compare(X, methods=["PCA", "kernel PCA", "MDS"]), y)
    >>> [axes.get_title(loc="left") for axes in figure.axes]
    ['PCA', 'kernel PCA', 'MDS']
    """
    count = len(result.rows)
    across = min(count, _ACROSS)
    down = -(-count // across)
    labels = _labels(y, np.empty((result.shape[0], 0)))
    figure = _figure(2.7 * across + 0.3, 3.05 * down + 0.1)
    layout: Any = figure.get_layout_engine()
    layout.set(w_pad=0.08, h_pad=0.08, rect=(0.0, 0.0, 1.0, 1.0 - 0.06 / down))  # room above the first titles
    panels = figure.subplots(down, across, squeeze=False).ravel()
    points = None
    # names at the middle of their classes, unless they would cover each other and the dots
    classes = np.unique(labels) if labels is not None else np.empty(0)
    apart = len(classes) > len(_COLOURS) or all(len(str(name)) <= _SHORT for name in classes)
    for axes, row in zip(panels, result.rows, strict=False):
        points = _embedding(axes, row, labels, names=_SMALL - 1 if apart else 0) or points
    for axes in panels[count:]:
        axes.remove()
    if points is not None:
        figure.colorbar(points, ax=list(panels[:count]), shrink=0.6, aspect=40, pad=0.01)
    elif not apart:
        _legend(figure, classes)
    return figure


def _figure(width: float, height: float) -> Figure:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("Pictures need matplotlib, which is not installed: pip install 'kpca[plot]'.") from error
    return Figure(figsize=(width, height), dpi=_RESOLUTION, layout="constrained", facecolor="white")


def _labels(y: Any, X: Any) -> NDArray[Any] | None:
    if y is None:
        return None
    labels, rows = np.asarray(y), np.shape(X)[0]
    if labels.shape != (rows,):
        raise InputError(f"There must be one label per row, {rows} in all; got shape {labels.shape}.")
    return labels


# -- grids of images ------------------------------------------------------------------------------------------------


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


# -- panels ---------------------------------------------------------------------------------------------------------


def _scatter(
    axes: Axes, model: KernelPCA, scores: FloatArray, labels: NDArray[Any] | None, components: tuple[int, int]
) -> None:
    first, second = components
    if not (0 <= first < scores.shape[1] and 0 <= second < scores.shape[1]):
        raise InputError(f"components must be two of 0 to {scores.shape[1] - 1}; got {components}.")
    x, y = scores[:, first], scores[:, second]
    points = _dots(axes, x, y, labels, area=_dot_size(len(x)), names=11)
    if points is not None:
        axes.figure.colorbar(points, ax=axes, shrink=0.8)
    axes.set_xlabel(_axis_name(model, first))
    axes.set_ylabel(_axis_name(model, second))
    axes.set_title(f"Scores of {len(x):,} rows", loc="left", fontweight="bold")
    axes.set_box_aspect(1)
    _tidy(axes, grid="both")


def _dots(axes: Axes, x: FloatArray, y: FloatArray, labels: NDArray[Any] | None, *, area: float, names: int) -> Any:
    """Draw a dot per row, coloured by its label; return what a colour bar is made for, None for classes.

    `area` is that of a dot, `names` the font size of the names of classes, 0 for none.
    """
    style: dict[str, Any] = {"s": area, "alpha": 0.7, "linewidths": 0}
    if labels is None:
        axes.scatter(x, y, color=_BAR, **style)
    elif len(np.unique(labels)) <= len(_COLOURS):
        _scatter_classes(axes, x, y, labels, style, fontsize=names)
    elif labels.dtype.kind in "iuf":
        return axes.scatter(x, y, c=labels, cmap="viridis", **style)
    else:
        raise InputError(
            f"Labels must be numbers, or at most {len(_COLOURS)} classes; got {len(np.unique(labels))} classes."
        )
    return None


def _scatter_classes(
    axes: Axes, x: FloatArray, y: FloatArray, labels: NDArray[Any], style: dict[str, Any], *, fontsize: int
) -> None:
    """Draw classes in colours, and write each one's name at its middle: colour alone does not reach everybody.

    A font size of 0 leaves the names to a legend.
    """
    classes, member = np.unique(labels, return_inverse=True)
    colours = np.array(_COLOURS[: len(classes)])
    # All classes in one call, in mixed order: none hides another by being drawn last.
    order = np.random.default_rng(0).permutation(len(x))
    axes.scatter(x[order], y[order], c=colours[member[order]], **style)
    for number, name in enumerate(classes) if fontsize else ():
        axes.annotate(
            str(name),
            (float(np.median(x[member == number])), float(np.median(y[member == number]))),
            color=_INK,
            fontsize=fontsize,
            fontweight="bold",
            ha="center",
            va="center",
            bbox={
                "boxstyle": "round,pad=0.25",
                "facecolor": "white",
                "edgecolor": colours[number],
                "linewidth": fontsize / 5.5,
            },
        )


def _legend(figure: Figure, classes: NDArray[Any]) -> None:
    """Write the names of classes and their colours below the panels."""
    from matplotlib.lines import Line2D

    style: dict[str, Any] = {"linestyle": "", "marker": "o", "markersize": 5}
    dots = [Line2D([], [], color=colour, **style) for colour in _COLOURS[: len(classes)]]
    names = [textwrap.shorten(str(name), 24, placeholder=" …") for name in classes]
    figure.legend(dots, names, loc="outside lower center", ncols=5, fontsize=_SMALL, frameon=False, handletextpad=0.2)


def _embedding(axes: Axes, row: MethodResult, labels: NDArray[Any] | None, *, names: int) -> Any:
    """Draw one method of a comparison; return what a colour bar is made for, if anything."""
    axes.set(xticks=[], yticks=[], box_aspect=1)
    axes.spines[:].set(color=_FAINT, linewidth=0.8)
    name = textwrap.shorten(row.name, 28, placeholder=" …")
    axes.set_title(name, loc="left", fontsize=10, fontweight="bold", color=_INK, pad=17)
    style: dict[str, Any] = {"fontsize": _SMALL, "color": _INK, "transform": axes.transAxes}
    if row.embedding is None:
        reason = "\n".join(textwrap.wrap(row.error or row.outcome, 32, max_lines=9, placeholder=" …"))
        axes.text(0.5, 0.5, reason, ha="center", va="center", **style)
        return None
    E = np.asarray(row.embedding, dtype=np.float64)
    second = E[:, 1] if E.shape[1] > 1 else np.zeros(len(E))
    points = _dots(axes, E[:, 0], second, labels, area=_dot_size(len(E)) / 3.0, names=names)
    axes.set_aspect("equal", adjustable="datalim")
    kept = "" if row.trustworthiness is None else f"trustworthiness {row.trustworthiness:.2f}, "
    axes.text(0.0, 1.03, kept + time_words(row.seconds or 0.0), ha="left", va="bottom", **style)
    return points


def _bars(axes: Axes, model: KernelPCA) -> None:
    """Draw the share of variance of each component; a whisker shows its bounds, where they are wide enough to see."""
    from matplotlib.ticker import MaxNLocator

    share = 100.0 * np.asarray(model.explained_variance_ratio_, dtype=np.float64)
    total = float(model.eigenvalues_[0] / model.explained_variance_ratio_[0]) if share.any() else 1.0
    bounds = 100.0 * np.asarray(model.eigenvalue_bounds_) / total
    number = np.arange(1, len(share) + 1)
    gaps = np.maximum([share - bounds[:, 0], bounds[:, 1] - share], 0.0)  # shape: (2, k)
    wide = gaps.sum(axis=0) > 0.005 * share.max(initial=0.0)
    axes.bar(number, share, width=0.72, color=_BAR)
    if wide.any():
        axes.errorbar(number[wide], share[wide], yerr=gaps[:, wide], fmt="none", ecolor=_INK, elinewidth=1.2, capsize=3)
    axes.set_xlabel("component")
    axes.set_ylabel("variance explained (%)")
    axes.set_title(f"Spectrum: {share.sum():.0f} % in {len(share)} components", loc="left", fontweight="bold")
    axes.xaxis.set_major_locator(MaxNLocator(12, steps=[1, 2, 5, 10], integer=True))
    axes.set_xlim(0.3, len(share) + 0.7)
    axes.set_ylim(bottom=0)
    _tidy(axes, grid="y")


def _axis_name(model: KernelPCA, component: int) -> str:
    return f"component {component + 1} ({100 * float(model.explained_variance_ratio_[component]):.1f} % of variance)"


def _dot_size(count: int) -> float:
    """Return the area of a dot: smaller the more there are."""
    return float(np.clip(18000.0 / max(count, 1), 5.0, 40.0))


def _tidy(axes: Axes, *, grid: Literal["x", "y", "both"]) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(_FAINT)
    axes.tick_params(colors=_INK, length=0)
    axes.grid(axis=grid, color=_FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
