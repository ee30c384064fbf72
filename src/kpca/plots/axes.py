"""What the pictures share: figures, colours, dots and names. Nothing else here imports matplotlib."""

from __future__ import annotations

import functools
import textwrap
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from kpca._base.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes  # noqa: PLC0414 (the other files take it from here)
    from matplotlib.figure import Figure as Figure  # noqa: PLC0414

FloatArray = NDArray[Any]

# Ten colours that people with any colour vision can tell apart (after Paul Tol's "muted"), light ones a little darker.
COLOURS = (
    "#332288",
    "#CC6677",
    "#117733",
    "#D1B13C",
    "#AA4499",
    "#882255",
    "#44AA99",
    "#8A8A1F",
    "#66B6E0",
    "#7F7F7F",
)
# The shapes that go with them: in grey a class is known by its shape.
MARKERS = ("o", "^", "s", "D", "v", "P", "X", "*", "p", "h")
INK, FAINT, BAR = "#222222", "#D9D9D9", "#4C6A92"
_LARGER = {"^": 1.15, "v": 1.15, "P": 1.15, "X": 1.15, "*": 1.45, "p": 1.1, "h": 1.1}  # to look as large as others
NO_LABEL = "#B4B4B4"
_MISSING = "Pictures need matplotlib, which is not installed: pip install 'kpca[plot]'."
_RESOLUTION = 150  # dots per inch of a saved picture
SMALL = 8  # a font size
_USUAL = (1e-6, 1e9)  # sizes of numbers whose scales are written as they are
_LONG, LONG_CLASS = 28, 24  # letters of the name of a variable and of a class, before it is cut


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure, its size in inches."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(_MISSING) from error
    figure = Figure(figsize=(width, height), dpi=_RESOLUTION, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)  # keeps its renderer: without, each look at the size of a text would make a new one
    return figure


def given_axes(ax: Any, *, three: bool = False) -> None:
    """Refuse what is no axes, or axes of the wrong number of dimensions."""
    if not hasattr(ax, "transData"):
        raise InputError(f"ax must be matplotlib axes, or None for a new figure; got {ax!r}.")
    if hasattr(ax, "get_zlim") != three:
        raise InputError(
            f"ax must be axes of {'three' if three else 'two'} dimensions; got the others: "
            f"{'add_subplot(projection=' + repr('3d') + ')' if three else 'add_subplot()'} makes them."
        )


def marker_path(marker: str) -> Any:
    """Return the outline of a marker, of the size that scatter expects."""
    from matplotlib.markers import MarkerStyle

    style: Any = MarkerStyle(marker)
    return style.get_path().transformed(style.get_transform().frozen().scale(_LARGER.get(marker, 1.0)))


def legend_marker(colour: str, marker: str, size: float = 6.0) -> Any:
    """Return what stands for a class in a legend."""
    from matplotlib.lines import Line2D

    return Line2D([], [], linestyle="", marker=marker, markersize=size, color=colour, markeredgewidth=0.0)


def log_colours(low: float, high: float) -> Any:
    """Return a scale of colours on which each factor counts alike."""
    from matplotlib.colors import LogNorm

    return LogNorm(low, max(high, 1.0000001 * low))


def shades(name: str, low: float, high: float) -> Any:
    """Return a part of a colour map: its lightest shades cannot be seen on paper."""
    import matplotlib
    from matplotlib.colors import ListedColormap

    return ListedColormap(matplotlib.colormaps[name](np.linspace(low, high, 256)))


@functools.lru_cache(maxsize=8)
def _characters(families: tuple[str, ...]) -> frozenset[int]:
    """Return the characters that fonts can draw, upright and bold."""
    from matplotlib.font_manager import FontProperties, findfont, get_font

    known: list[set[int]] = []
    for weight in ("normal", "bold"):
        paths = {findfont(FontProperties(family=family, weight=weight)) for family in families}
        known.append({code for path in paths for code in get_font(path).get_charmap()})
    return frozenset(known[0] & known[1])


def drawable(text: str) -> str:
    """Return a text with a box for each character that the font of the pictures does not have."""
    if text.isascii() and text.isprintable():
        return text
    try:
        from matplotlib.font_manager import FontProperties
    except ImportError as error:
        raise ImportError(_MISSING) from error
    known = _characters(tuple(FontProperties().get_family()))
    return "".join(one if ord(one) in known else "□" for one in text if one.isprintable() or one == " ")


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
    return [named(name, number) for number, name in enumerate(found)]


def named(name: Any, number: int, most: int = _LONG) -> str:
    """Return a name as `plain` does; one of which nothing is left, or nothing but boxes, gets its number."""
    text = plain(name, most)
    if not text:
        return "(empty)"
    return text if text.replace("□", "").strip(" …") else f"{text[:6]} ({number})"


def plain(name: Any, most: int = _LONG) -> str:
    """Return a name as a text of one line that is not too long, in which nothing is taken for mathematics."""
    text = drawable(" ".join(str(name).split()))
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
        _lay_out(axes.figure.canvas.figure)
    points = axes.get_window_extent().width / axes.figure.dpi * 72.0
    letters = max(int(points / (0.56 * size)), 16)
    axes.set_title(textwrap.fill(text, letters), loc="left", fontsize=size, color=INK, **style)


def titled(axes: Axes, title: str, note: str) -> None:
    """Write a title, and below it a note in as many lines as the width of the axes asks for."""
    lines: list[str] = []
    if note:
        _lay_out(axes.figure.canvas.figure)  # long names of classes leave less room than the figure has
        points = axes.get_window_extent().width / axes.figure.dpi * 72.0
        lines = textwrap.wrap(note, max(int(points / (0.54 * SMALL)), 24))
        place: dict[str, Any] = {"xycoords": "axes fraction", "xytext": (0, 4), "textcoords": "offset points"}
        axes.annotate("\n".join(lines), (0.0, 1.0), fontsize=SMALL, color=INK, **place)
    axes.set_title(title, loc="left", fontweight="bold", pad=6 + 1.5 * SMALL * len(lines))


def _lay_out(figure: Figure) -> None:
    """Find the places of all axes, without drawing anything."""
    engine: Any = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)


def power_of(*values: FloatArray, usual: tuple[float, float] = _USUAL) -> int:
    """Return the power of ten to leave away where numbers are so small or large that scales would fail, else 0."""
    top = max((float(np.abs(some).max(initial=0.0)) for some in values), default=0.0)
    if top == 0.0 or not np.isfinite(top) or usual[0] <= top <= usual[1]:
        return 0
    return int(np.floor(np.log10(top)))


def without(values: FloatArray, power: int) -> FloatArray:
    """Return numbers without a power of ten; in two steps, for extreme powers have no inverse."""
    return values / 10.0 ** (power // 2) / 10.0 ** (power - power // 2) if power else values


def times(power: int) -> str:
    """Return how a power of ten that was left away is written behind a name."""
    return f" (× $10^{{{power}}}$)" if power else ""


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
    _lay_out(root)  # now it is known how wide the axes are
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
