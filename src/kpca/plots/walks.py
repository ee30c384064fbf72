"""Rows of data that are pictures themselves, and walks along the components."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from kpca._base.errors import InputError
from kpca.data.frames import column_names
from kpca.plots._given import Facts, FloatArray, components_of, factored, facts_of, final_step, how_many
from kpca.plots.axes import COLOURS, FAINT, INK, MARKERS, SMALL, headline, names_of, new_figure, panels_for, tidy
from kpca.preimage import traverse

if TYPE_CHECKING:
    from kpca.plots.axes import Axes, Figure

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
    size = shape[0] * shape[1]
    must = f"images must be rows of images of {shape[0]} x {shape[1]} = {size} finite numbers"
    try:
        array = np.asarray(images if isinstance(images, np.ndarray) else np.stack(list(images)), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{must}, equally many in each row of the grid; got {error}.") from error
    if array.ndim != 3 or array.shape[2] != size or not array.size or not np.isfinite(array).all():
        raise InputError(f"{must}, shape (r, c, {size}); got shape {array.shape} or a gap in it.")
    count, across = array.shape[:2]
    array = array.reshape(count, across, *shape)
    expected: list[tuple[str, Any, int]] = [("rows", rows, count), ("columns", columns, across)]
    expected += [("captions", captions, count), *(("each of the captions", line, across) for line in captions or ())]
    for name, texts, wanted in expected:
        if texts is not None and (isinstance(texts, str) or len(texts) != wanted):
            got = repr(texts) if isinstance(texts, str) else f"{len(texts)}"
            raise InputError(f"{name} must have {wanted} entries, one for each of its images; got {got}.")
    low, high = (float(array.min()), float(array.max())) if limits is None else limits
    if not low <= high:
        raise InputError(f"limits must be a pair (black, white) of numbers in ascending order; got {limits!r}.")
    # in inches: an image is as large as ten inches allow, and never larger than is of use
    wide = float(np.clip((10.0 - 1.5 * bool(rows)) / across - _GAP, 0.35, 1.4))
    tall = wide * shape[0] / shape[1]
    longest = max((len(line) for name in rows or () for line in str(name).split("\n")), default=0)
    margin = _EDGE + (_GAP + longest * _LETTER if rows else 0.0)  # left of the images
    head = _EDGE + (0.24 if columns else 0.0) + (0.3 if title else 0.0)
    below = _GAP + (0.19 if captions else 0.0)
    width = max(margin + across * (wide + _GAP) + _EDGE, 2 * _EDGE + len(title or "") * 1.35 * _LETTER)
    height = head + count * (tall + below) + _EDGE
    figure = new_figure(width, height)
    figure.set_layout_engine("none")  # every image has its place; to look for it would take seconds
    style: dict[str, Any] = {"color": INK, "transform": figure.dpi_scale_trans}
    for i, j in np.ndindex(count, across):
        left, bottom = margin + j * (wide + _GAP), height - head - (i + 1) * tall - i * below
        axes = figure.add_axes((left / width, bottom / height, wide / width, tall / height))
        # the frame shows where an image ends whose edge is as white as the paper
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set(color=FAINT, linewidth=0.6)
        axes.imshow(array[i, j], cmap="gray_r" if inverted else "gray", vmin=low, vmax=high, interpolation="nearest")
        if captions:
            axes.set_xlabel(captions[i][j], fontsize=SMALL, color=INK, labelpad=2.5)
        if columns and i == 0:
            axes.set_title(columns[j], fontsize=SMALL + 1, color=INK, pad=4)
        if rows and j == 0:
            figure.text(left - _GAP, bottom + tall / 2, rows[i], ha="right", va="center", fontsize=SMALL + 2, **style)
    if title:
        figure.text(_EDGE, height - _EDGE, title, ha="left", va="top", fontsize=12, fontweight="bold", **style)
    return figure


# -- Traversals: what rows look like on the way along a component, from low scores to high ones -----------------------

_LINES = 6  # variables of a panel
_STYLES = ("-", "--", "-.", ":", (0, (6, 1.5)), (0, (3, 1, 1, 1, 1, 1)))


@dataclass(kw_only=True, eq=False, repr=False)
class TraversalDisplay:
    """The pre-images of points along components: rows of pictures, or lines of the variables that change most.

    Parameters
    ----------
    positions : (s,) where the points are, in standard deviations of the component.
    rows : (c, s, d) their pre-images, for each of c components.
    components : (c,) their numbers, from 0.
    shares : (k,) of the variance, of all components; None for none.
    names : of the d columns; None is x0, x1, ...
    scale : (d,) by which changes of a column are measured, its standard deviation say; None is its own unit.
    image_shape : (height, width) where a row is a picture.

    Attributes
    ----------
    figure_, axes_ : of the last picture: one axes per picture, or one per component.
    lines_ : those of each component, where rows are no pictures.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from kpca import KernelPCA, plots
    >>> X, _ = load_digits(return_X_y=True)
    >>> model = KernelPCA(8, kernel="rbf", gamma="median", preimage="fixed-point").fit(X[:300])
    >>> display = plots.TraversalDisplay.from_estimator(model, X[:300], components=2, steps=5, image_shape=(8, 8))
    >>> len(display.axes_), display.rows.shape
    (10, (2, 5, 64))
    """

    positions: Any
    rows: Any
    components: Sequence[int]
    shares: Any = None
    names: Any = None
    scale: Any = None
    image_shape: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        self.positions = np.asarray(self.positions, dtype=np.float64)
        self.rows = np.asarray(self.rows, dtype=np.float64)
        self.components = tuple(int(component) for component in self.components)
        wanted = (len(self.components), len(self.positions))
        if self.rows.ndim != 3 or self.rows.shape[:2] != wanted or not np.isfinite(self.rows).all():
            got = f"got shape {self.rows.shape} or a gap in it"
            raise InputError(f"rows must be finite, shape {(*wanted, 'd')}; {got}.")
        self.facts = Facts.of(self.shares)
        self.scale = None if self.scale is None else np.asarray(self.scale, dtype=np.float64)

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        X: Any = None,
        y: Any = None,
        *,
        components: Any = 3,
        steps: Any = 9,
        span: float = 2.0,
        around: Any = None,
        names: Any = None,
        image_shape: tuple[int, int] | None = None,
        restore: Callable[[FloatArray], FloatArray] | None = None,
        **options: Any,
    ) -> Self:
        """Go along components of a fitted model that has pre-images, and draw what is there.

        Parameters
        ----------
        model : a fitted model, or a pipeline that ends in one; the steps before it are undone where they can be.
        X : rows; changes of a column are then measured in its standard deviations. y is not needed.
        components : how many, from the first, or their numbers, from 0.
        steps, span, around : as in `kpca.preimage.traverse`.
        names : of the columns.
        image_shape : (height, width) where a row is a picture.
        restore : brings rows of the model back to the units of the data.
        options : those of `plot`.
        """
        head, final = final_step(model)
        check_is_fitted(final)
        words = "how many to go along, 1 or more, or some"
        chosen = components_of(components, int(getattr(final, "n_components_", 0)), words, np.inf, counted=True)
        if head is not None and around is not None:
            around = head.transform(around if np.ndim(around) == 2 else np.atleast_2d(np.asarray(around)))
        walks = [traverse(final, component, steps, span=span, around=around) for component in chosen]
        back = restore or getattr(head, "inverse_transform", None)
        rows = np.stack([np.asarray(found if back is None else back(found), dtype=np.float64) for _, found in walks])
        known = getattr(model, "feature_names_in_", None)
        return cls(
            positions=walks[0][0],
            rows=rows,
            components=chosen,
            shares=facts_of(final),
            names=column_names(names, known, X, rows.shape[2]),
            scale=_deviations(X, rows.shape[2]),
            image_shape=image_shape,
        ).plot(**options)

    def plot(self, ax: Any = None, *, n: int = _LINES, inverted: bool = False) -> Self:
        """Draw the way along each component.

        Parameters
        ----------
        ax : axes to draw into, one per component, for lines; None is a new figure. Pictures have their own figure.
        n : variables of a panel, at most: those that change most. Not for pictures.
        inverted : show large values black, as ink on paper. For pictures.
        """
        self.lines_: list[Any] = []
        self.figure_: Any
        if self.image_shape is not None:
            if ax is not None:
                raise InputError("ax must be None for pictures: they have a figure of their own.")
            self.figure_ = gallery(
                self.rows,
                self.image_shape,
                rows=[self.facts.axis_name(component).replace(" (", "\n(") for component in self.components],
                columns=["0" if at == 0.0 else f"{at:+.3g}".replace("-", "−") for at in self.positions],
                inverted=inverted,
                title="Along the components: pre-images, in standard deviations from the middle",
            )
            self.axes_ = list(self.figure_.axes)
            return self
        count, shown = len(self.components), how_many(n)
        self.figure_, self.axes_ = panels_for(ax, count, 7.6, 0.6 + 2.3 * count)
        names = names_of(self.names, self.rows.shape[2])
        for number, axes in enumerate(self.axes_):
            self._panel(axes, number, names, shown)
        self.axes_[-1].set_xlabel("position along the component (standard deviations)")
        return self

    def _panel(self, axes: Axes, number: int, names: Sequence[str], count: int) -> None:
        """Draw the variables that change most, each with its name at its end."""
        rows = self.rows[number]  # shape: (s, d)
        middle = int(np.argmin(np.abs(self.positions)))
        unit = np.ones(rows.shape[1]) if self.scale is None else np.where(self.scale > 0.0, self.scale, np.inf)
        change = (rows - rows[middle]) / unit
        order = np.argsort(-np.ptp(change, axis=0), kind="stable")[:count]
        order = order[np.ptp(change[:, order], axis=0) > 0.0]
        meaning = "change" if self.scale is None else "change (standard deviations)"
        shown, meaning = factored(change[:, order], meaning)
        drawn = []
        for place, j in enumerate(order):
            style: dict[str, Any] = {"color": COLOURS[place % 10], "linestyle": _STYLES[place % 6], "label": names[j]}
            mark: dict[str, Any] = {"marker": MARKERS[place % 10], "markersize": 4.0, "linewidth": 1.4}
            drawn += axes.plot(self.positions, shown[:, place], **style, **mark)
        self.lines_.append(drawn)
        axes.axhline(0.0, color=FAINT, linewidth=1.0, zorder=0)
        axes.set_ylabel(meaning.replace(" (", "\n("), fontsize=SMALL + 1)
        tidy(axes, grid="both")
        if drawn:
            axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.02), fontsize=SMALL, frameon=False, handlelength=3.0)
        whole = f"{len(order)} of {rows.shape[1]} variables" if len(order) else "no variable changes"
        headline(axes, f"{self.facts.axis_name(self.components[number])}: {whole}", size=10, fontweight="bold")


def traversal(model: Any, X: Any = None, **options: Any) -> Figure:
    """Return what rows look like along components: rows of pictures, or lines of the variables that change most.

    `options` are those of `TraversalDisplay.from_estimator` and its `plot`: components, steps, image_shape and so on.
    """
    figure: Figure = TraversalDisplay.from_estimator(model, X, **options).figure_
    return figure


def _deviations(X: Any, d: int) -> FloatArray | None:
    """Return the standard deviation of each column of X, None where X is not given or has other columns."""
    try:
        spread: Any = None if X is None else np.sqrt(StandardScaler(with_mean=False).fit(X).var_)
    except (TypeError, ValueError):  # texts and dates have none
        return None
    return spread if np.shape(spread) == (d,) else None
