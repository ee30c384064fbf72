"""What the pictures share: figures, colours, dots and names. Nothing else here imports matplotlib."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from kpca.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes  # noqa: PLC0414 (the other files take it from here)
    from matplotlib.figure import Figure as Figure  # noqa: PLC0414

    from kpca.kernel_pca import KernelPCA

FloatArray = NDArray[Any]

# Ten colours that people with any colour vision can tell apart (after Paul Tol's "muted"), light ones a little darker.
COLOURS = (
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
INK, FAINT, BAR = "#222222", "#D9D9D9", "#4C6A92"
_RESOLUTION = 150  # dots per inch of a saved picture
SMALL = 8  # a font size
_LONG, _LONG_CLASS = 28, 24  # letters of the name of a variable and of a class, before it is cut


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure, its size in inches."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("Pictures need matplotlib, which is not installed: pip install 'kpca[plot]'.") from error
    return Figure(figsize=(width, height), dpi=_RESOLUTION, layout="constrained", facecolor="white")


def labels_of(y: Any, X: Any) -> NDArray[Any] | None:
    """Return y as an array, after a look whether it has an entry per row of X.  # shape: (m,)"""
    if y is None:
        return None
    labels, rows = np.asarray(y), np.shape(X)[0]
    if labels.shape != (rows,):
        raise InputError(f"There must be one label per row, {rows} in all; got shape {labels.shape}.")
    kinds = {type(label).__name__ for label in labels} if labels.dtype.kind == "O" else set()
    if "str" in kinds and len(kinds) > 1:
        raise InputError(f"Labels must be all texts or all numbers; got {', '.join(sorted(kinds))}: make them texts.")
    return labels


def dots(axes: Axes, x: FloatArray, y: FloatArray, labels: NDArray[Any] | None, *, area: float, names: int) -> Any:
    """Draw a dot per row, coloured by its label; return what a colour bar is made for, None for classes.

    `area` is that of a dot, `names` the font size of the names of classes, 0 for none.
    """
    style: dict[str, Any] = {"s": area, "alpha": 0.7, "linewidths": 0}
    if labels is None:
        axes.scatter(x, y, color=BAR, **style)
    elif len(np.unique(labels)) <= len(COLOURS):
        _scatter_classes(axes, x, y, labels, style, fontsize=names)
    elif labels.dtype.kind in "iuf":
        return axes.scatter(x, y, c=labels, cmap="viridis", **style)
    else:
        raise InputError(
            f"Labels must be numbers, or at most {len(COLOURS)} classes; got {len(np.unique(labels))} classes."
        )
    return None


def _scatter_classes(
    axes: Axes, x: FloatArray, y: FloatArray, labels: NDArray[Any], style: dict[str, Any], *, fontsize: int
) -> None:
    """Draw classes in colours, and write each one's name at its middle: colour alone does not reach everybody.

    A font size of 0 leaves the names to a legend.
    """
    classes, member = np.unique(labels, return_inverse=True)
    colours = np.array(COLOURS[: len(classes)])
    # All classes in one call, in mixed order: none hides another by being drawn last.
    order = np.random.default_rng(0).permutation(len(x))
    axes.scatter(x[order], y[order], c=colours[member[order]], **style)
    for number, name in enumerate(classes) if fontsize else ():
        axes.annotate(
            plain(name, _LONG_CLASS),
            (float(np.median(x[member == number])), float(np.median(y[member == number]))),
            color=INK,
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


def class_legend(figure: Figure, classes: NDArray[Any]) -> None:
    """Write the names of classes and their colours below the panels."""
    from matplotlib.lines import Line2D

    style: dict[str, Any] = {"linestyle": "", "marker": "o", "markersize": 5}
    dots = [Line2D([], [], color=colour, **style) for colour in COLOURS[: len(classes)]]
    names = [plain(name, _LONG_CLASS) for name in classes]
    figure.legend(dots, names, loc="outside lower center", ncols=5, fontsize=SMALL, frameon=False, handletextpad=0.2)


def component_name(model: KernelPCA, component: int) -> str:
    """Return what an axis of scores is called."""
    return f"component {component + 1} ({100 * float(model.explained_variance_ratio_[component]):.1f} % of variance)"


def dot_size(count: int) -> float:
    """Return the area of a dot: smaller the more there are."""
    return float(np.clip(18000.0 / max(count, 1), 5.0, 40.0))


def tidy(axes: Axes, *, grid: Literal["x", "y", "both"]) -> None:
    """Leave away of the frame what says nothing, and draw a faint grid below the data."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(FAINT)
    axes.tick_params(colors=INK, length=0)
    axes.grid(axis=grid, color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)


def panels_for(ax: Any, count: int, width: float, height: float) -> tuple[Figure, list[Axes]]:
    """Return the axes to draw into, those that were given or new ones below each other, and their figure."""
    if ax is None:
        figure = new_figure(width, height)
        return figure, list(figure.subplots(count, 1, sharex=True, squeeze=False)[:, 0])
    given = [ax] if hasattr(ax, "transData") else list(np.ravel(ax))
    if len(given) != count or not all(hasattr(axes, "transData") for axes in given):
        raise InputError(f"ax must be {count} matplotlib axes, one for each panel, or None; got {ax!r}.")
    return given[0].figure, given


def names_of(names: Any, count: int) -> list[str]:
    """Return the names of variables, cut where they are long; x0, x1, ... where there are none."""
    if names is None:
        return [f"x{number}" for number in range(count)]
    found = [str(name) for name in np.ravel(np.asarray(names, dtype=object))]
    if len(found) != count:
        raise InputError(f"names must have {count} entries, one per variable; got {len(found)}.")
    return [plain(name) for name in found]


def plain(name: Any, most: int = _LONG) -> str:
    """Return a name as a text of one line that is not too long, in which nothing is taken for mathematics."""
    text = " ".join(str(name).split())
    return (text if len(text) <= most else f"{text[: most - 1]}…").replace("$", r"\$")


def how_many(n: Any) -> int:
    """Return how many variables to show, after a look that it is such a number."""
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise InputError(f"n must be a whole number of variables to show, 1 or more; got {n!r}.")
    return int(n)


def numbers_of(name: str, values: Any, ndim: int) -> FloatArray:
    """Return finite numbers as an array, after a look at its shape."""
    try:
        found = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be an array of numbers; got {values!r}.") from error
    if found.ndim != ndim or not found.size or not np.isfinite(found).all():
        raise InputError(f"{name} must be finite numbers in {ndim} dimensions; got shape {found.shape} or a gap in it.")
    return found


def headline(axes: Axes, text: str, *, size: int = 11, settle: bool = False, **style: Any) -> None:
    """Write a title at the left, in as many lines as the width of the axes asks for.

    `settle` finds that width by a layout of the figure; else it is about what it will be.
    """
    if settle:
        axes.figure.canvas.figure.draw_without_rendering()
    points = axes.get_window_extent().width / axes.figure.dpi * 72.0
    letters = max(int(points / (0.56 * size)), 16)
    axes.set_title(textwrap.fill(text, letters), loc="left", fontsize=size, color=INK, **style)


def factored(values: FloatArray, meaning: str) -> tuple[FloatArray, str]:
    """Return values without a power of ten that they share, and their meaning with it: fewer zeros to read."""
    top = float(np.nanmax(np.abs(values), initial=0.0))
    power = int(np.floor(np.log10(top))) if top > 0.0 else 0
    if -3 < power < 6:
        return values, meaning
    return values / 10.0**power, f"{meaning} (× $10^{{{power}}}$)"


def leave_room(axes: Axes, values: FloatArray) -> None:
    """Set the horizontal limits such that bars from 0 and the texts at their ends are inside."""
    root = axes.figure.canvas.figure
    low, high = min(float(values.min()), 0.0), max(float(values.max()), 0.0)
    axes.set_xlim(low, high if high > low else 1.0)
    root.draw_without_rendering()  # now it is known how wide the axes are
    width = axes.get_window_extent().width
    text = max(label.get_window_extent().width for label in axes.texts) + 8.0 / 72.0 * root.dpi
    left, right = (text if low < 0.0 else 0.0), (text if high > 0.0 or low == 0.0 else 0.0)
    scale = (high - low or 1.0) / max(width - left - right, 0.2 * width)
    axes.set_xlim(low - scale * left, (high if high > low else 1.0) + scale * right)


def short(value: float, *, sign: bool = False) -> str:
    """Return a number in three digits, with a true minus; on demand with its sign, whichever that is."""
    if value == 0.0:
        return "0"
    digits = ",.0f" if 1e3 <= abs(value) < 1e6 else ".3g" if float(value).is_integer() else "#.3g"
    return f"{value:{'+' if sign else ''}{digits}}".replace("-", "−").removesuffix(".")
