"""What the pictures share: figures, panels, colours, names and checks. Nothing else here imports matplotlib."""

from __future__ import annotations

import functools
import hashlib
import io
import os
import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from kpca._base.errors import InputError
from kpca._base.files import write_whole
from kpca.plots._given import whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes  # noqa: PLC0414 (the other files take it from here)
    from matplotlib.figure import Figure as Figure  # noqa: PLC0414

# Ten colours that people with any colour vision can tell apart (after Paul Tol's "muted"), light ones a little darker.
COLOURS = ("#332288", "#CC6677", "#117733", "#D1B13C", "#AA4499", "#882255", "#44AA99", "#8A8A1F", "#66B6E0", "#7F7F7F")
# The shapes that go with them: in grey a class is known by its shape.
MARKERS = ("o", "^", "s", "D", "v", "P", "X", "*", "p", "h")
INK, FAINT, BAR = "#222222", "#D9D9D9", "#4C6A92"
_LARGER = {"^": 1.15, "v": 1.15, "P": 1.15, "X": 1.15, "*": 1.45, "p": 1.1, "h": 1.1}  # to look as large as others
_MISSING = "Pictures need matplotlib, which is not installed: pip install 'kpca[plot]'."
_RESOLUTION = 150  # dots per inch of a saved picture
SMALL = 8  # a font size
_LONG = 28  # letters of the name of a variable, before it is cut


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


def marker_path(marker: str) -> Any:
    """Return the outline of a marker, of the size that scatter expects."""
    from matplotlib.markers import MarkerStyle

    style: Any = MarkerStyle(marker)
    return style.get_path().transformed(style.get_transform().frozen().scale(_LARGER.get(marker, 1.0)))


def legend_dot(colour: str, marker: str, size: float = 6.0) -> Any:
    """Return what stands for a class in a legend."""
    from matplotlib.lines import Line2D

    return Line2D([], [], linestyle="", marker=marker, markersize=size, color=colour, markeredgewidth=0.0)


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


def tidy(axes: Axes, *, grid: Literal["x", "y", "both"]) -> None:
    """Hide the parts of the frame that say nothing, and draw a faint grid below the data."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(FAINT)
    axes.tick_params(colors=INK, length=0)
    axes.grid(axis=grid, color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)


def panels_for(
    ax: Any, count: int, width: float, height: float, *, across: int = 1, three: bool = False
) -> tuple[Figure, list[Axes]]:
    """Return a figure and its panels: the axes that were given, or new ones, `across` of them side by side."""
    if ax is None:
        figure = new_figure(width, height)
        across = min(count, across)
        kind = {"projection": "3d" if three else None}
        grid = figure.subplots(-(-count // across), across, sharex=across == 1, squeeze=False, subplot_kw=kind).ravel()
        for spare in grid[count:]:
            spare.remove()
        return figure, list(grid[:count])
    given = [ax] if hasattr(ax, "transData") else list(np.ravel(np.asarray(ax, dtype=object)))
    if len(given) != count or not all(hasattr(axes, "transData") for axes in given):
        wanted = "matplotlib axes" if count == 1 else f"{count} matplotlib axes, one for each panel"
        raise InputError(f"must be {wanted}, or None for a new figure", param="ax", value=ax)
    if any(hasattr(axes, "get_zlim") != three for axes in given):
        words = ("three", "two", "add_subplot(projection='3d')") if three else ("two", "three", "add_subplot()")
        raise InputError(f"ax must be axes of {words[0]} dimensions; got axes of {words[1]}: {words[2]} makes them.")
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
    """Return a name as a text of one line that is not too long, in which nothing is taken for mathematics.

    A box stands for each character that the font of the pictures does not have.
    """
    text = " ".join(str(name).split())
    if not (text.isascii() and text.isprintable()):
        try:
            from matplotlib.font_manager import FontProperties
        except ImportError as error:
            raise ImportError(_MISSING) from error
        known = _characters(tuple(FontProperties().get_family()))
        text = "".join(one if ord(one) in known else "□" for one in text if one.isprintable() or one == " ")
    return (text if len(text) <= most else f"{text[: most - 1]}…").replace("$", r"\$")


def note(axes: Axes, text: str, place: Any, offset: tuple[float, float], **style: Any) -> None:
    """Write a small note this many points away from a place."""
    axes.annotate(text, place, xytext=offset, textcoords="offset points", fontsize=SMALL, color=INK, **style)


def note_above(axes: Axes, text: str, left: float = 0.0, up: float = 4.0, **style: Any) -> None:
    """Write a small note just above the axes, at their left edge."""
    note(axes, text, (0.0, 1.0), (left, up), xycoords="axes fraction", **style)


def headline(axes: Axes, text: str, *, size: int = 11, settle: bool = False, **style: Any) -> None:
    """Write a title at the left, wrapped to the width of the axes; `settle` lays the figure out to find that width."""
    if settle:
        lay_out(axes)
    axes.set_title("\n".join(_wrapped(axes, text, 0.56 * size, 16)), loc="left", fontsize=size, color=INK, **style)


def titled(axes: Axes, title: str, note: str) -> None:
    """Write a title, and below it a note in as many lines as the width of the axes asks for."""
    lines: list[str] = []
    if note:
        lay_out(axes)  # long names of classes leave less room than the figure has
        lines = _wrapped(axes, note, 0.54 * SMALL, 24)
        note_above(axes, "\n".join(lines))
    axes.set_title(title, loc="left", fontweight="bold", pad=6 + 1.5 * SMALL * len(lines))


def _wrapped(axes: Axes, text: str, width: float, least: int) -> list[str]:
    """Return a text in lines as wide as the axes, or of `least` letters, which are so many points wide."""
    return textwrap.wrap(text, max(int(axes.get_window_extent().width / axes.figure.dpi * 72.0 / width), least))


def lay_out(axes: Axes) -> None:
    """Find the places of all axes of the figure, without drawing anything."""
    root = axes.figure.canvas.figure
    engine: Any = root.get_layout_engine()
    if engine is not None:
        engine.execute(root)


def colour_bar(figure: Figure, mapped: Any, ax: Any, text: str, *, frame: bool = True, **style: Any) -> Any:
    """Draw the scale of colours beside the axes, with what it means; return it."""
    bar = figure.colorbar(mapped, ax=ax, **style)
    bar.set_label(text, color=INK)
    bar.outline.set_visible(frame)
    return bar


# -- Pictures in files: whole or not at all, and the same bytes for the same picture ----------------------------------

# What matplotlib writes into files besides the picture: dates and versions, which change from run to run.
_METADATA: dict[str, dict[str, Any]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
_IDENTIFIER = re.compile(r'\bid="((?:C[0-9a-f]+_[0-9a-f]+_|[A-Za-z]{0,5})[0-9a-f]{10})"')


def save(figure: Figure, path: str | os.PathLike[str], *, resolution: int = 150) -> None:
    """Write a picture to a .png, .svg or .pdf file; an error leaves what was there as it was.

    Parameters
    ----------
    figure : what a function here returned, or `figure_` of a display.
    path : its ending says the format.
    resolution : pixels per inch of a .png, and of the dots in other formats.

    Examples
    --------
    >>> import tempfile
    >>> from kpca import plots
    >>> figure = plots.SpectrumDisplay.from_eigenvalues([3.0, 1.0], total=5.0).figure_
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     plots.save(figure, f"{folder}/spectrum.svg")
    """
    if not hasattr(figure, "savefig"):
        got = " (a display has it as figure_)" if hasattr(figure, "figure_") else ""
        raise InputError(f"figure must be a matplotlib figure; got {type(figure).__name__}{got}.")
    target = Path(os.fspath(path))
    ending = target.suffix.lower()
    if ending not in _METADATA:
        raise InputError(f"The name of the picture must end in {', '.join(_METADATA)}; got {str(target)!r}.")
    dpi = whole("resolution", resolution, "a whole number of pixels per inch, 20 to 2400", 20, 2400)
    buffer = io.BytesIO()
    figure.savefig(buffer, format=ending[1:], dpi=dpi, metadata=_METADATA[ending])
    document = buffer.getvalue()
    names = list(dict.fromkeys(_IDENTIFIER.findall(document.decode("utf-8")))) if ending == ".svg" else []
    if names:  # identifiers that follow from the content: a setting of matplotlib would do it for all users
        number = {name: f"{order:x}" for order, name in enumerate(names)}
        any_of_them = re.compile(rf"\b({'|'.join(map(re.escape, names))})\b")
        numbered = any_of_them.sub(lambda found: f"\0{number[found[1]]}\0", document.decode("utf-8"))
        digest = hashlib.sha256(numbered.encode("utf-8")).hexdigest()[:8]
        document = re.sub("\0([0-9a-f]+)\0", lambda found: f"i{digest}-{found[1]}", numbered).encode("utf-8")
    write_whole(target, document)
