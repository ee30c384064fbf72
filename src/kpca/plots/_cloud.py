"""Clouds of points: dots in the colours and shapes of their classes, and shades where there are too many dots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kpca.plots._given import FloatArray
from kpca.plots._labels import Labels
from kpca.plots.axes import BAR, COLOURS, INK, MARKERS, SMALL, colour_bar, legend_dot, marker_path, named, shades, tidy

if TYPE_CHECKING:
    from kpca.plots.axes import Axes, Figure

VECTOR_DOTS = 3_000  # more of them are an image also in vector formats: the file stays small
NO_LABEL = "#B4B4B4"
_LONG_CLASS = 24  # letters of the name of a class, before it is cut
SCALE = "viridis"  # its lightness rises all the way: a scale in grey too
_LETTERS = 60  # of all names of classes together, that are written large
_CELLS = (12, 120)  # of a density, each way: the fewest and the most


def dot_size(count: int) -> float:
    """Return the area of a dot: smaller the more there are."""
    return float(np.clip(18000.0 / max(count, 1), 5.0, 40.0))


def dots(
    axes: Axes, x: FloatArray, y: FloatArray, labels: Labels | None, *, area: float, names: int = 0, colour: str = BAR
) -> Any:
    """Draw a dot per row, coloured by its label; return what a colour bar needs, None for classes.

    `names` is the font size of the names of classes at their middles, 0 for none.
    """
    style: dict[str, Any] = {"alpha": 0.7, "linewidths": 0, "rasterized": len(x) > VECTOR_DOTS}
    if labels is None:
        axes.scatter(x, y, s=area, color=colour, **style)
        return None
    if labels.codes is None:
        assert labels.values is not None
        gone = labels.missing
        if gone.any():
            axes.scatter(x[gone], y[gone], s=0.6 * area, color=NO_LABEL, **style)
        if gone.all():
            return None
        return axes.scatter(x[~gone], y[~gone], s=area, c=labels.values[~gone], cmap=SCALE, **style)
    # all classes in one call, in mixed order: none hides another by being drawn last
    colours, outlines = class_style(labels)
    order = np.random.default_rng(0).permutation(len(x))
    codes = labels.codes[order]  # -1 is the last of each list: rows without a label
    sizes = np.full(len(labels.names) + 1, 1.15 * area)
    sizes[-1] = 0.5 * area
    if labels.rest:  # they are many, and should not cover those that have a name
        sizes[-2] = 0.6 * area
    drawn = axes.scatter(x[order], y[order], s=sizes[codes], c=np.array([*colours, NO_LABEL])[codes], **style)
    paths = [marker_path(marker) for marker in (*outlines, "o")]
    drawn.set_paths([paths[code] for code in codes])
    for number, middle, name in class_names(x, y, labels) if names else ():
        axes.annotate(name, middle, **_class_look(number, names))
    return None


def class_style(labels: Labels) -> tuple[list[str], list[str]]:
    """Return the colour and the marker of each class; what is left over has a colour and a shape of its own."""
    count = len(labels.names)
    colours, markers = list(COLOURS[:count]), list(MARKERS[:count])
    if labels.rest:
        colours[-1], markers[-1] = COLOURS[-1], "8"
    return colours, markers


def class_names(x: FloatArray, y: FloatArray, labels: Labels) -> list[tuple[int, tuple[float, float], str]]:
    """Return number, median place and name of each class that has rows; the rare ones together have no place."""
    found = []
    for number in range(len(labels.names) - bool(labels.rest)):
        member = labels.codes == number
        if np.any(member):
            middle = float(np.median(x[member])), float(np.median(y[member]))
            found.append((number, middle, named(labels.names[number], number, _LONG_CLASS)))
    return found


def _class_look(number: int, size: float) -> dict[str, Any]:
    """Return how the name of a class is written: dark on white, framed in its colour, which not everybody sees."""
    box = {"boxstyle": "round,pad=0.25", "facecolor": "white", "edgecolor": COLOURS[number], "linewidth": size / 5.5}
    place = {"ha": "center", "va": "center", "zorder": 7}
    return {"color": INK, "fontweight": "bold", "bbox": box, "fontsize": size, **place}


def class_entries(labels: Labels, *, counts: bool = True) -> tuple[list[Any], list[str]]:
    """Return markers and names for a legend of classes, with the number of rows of each."""
    assert labels.codes is not None
    colours, markers = class_style(labels)
    sizes = np.bincount(labels.codes[labels.codes >= 0], minlength=len(labels.names))
    shown = np.flatnonzero(sizes).tolist()
    handles = [legend_dot(colours[number], markers[number]) for number in shown]
    texts = [named(labels.names[j], j, _LONG_CLASS) + (f" ({sizes[j]:,})" if counts else "") for j in shown]
    gone = int(labels.missing.sum())
    if gone:
        handles.append(legend_dot(NO_LABEL, "o", 4.0))
        texts.append(f"no label ({gone:,})" if counts else "no label")
    return handles, texts


def class_legend(figure: Figure, labels: Labels, *, counts: bool = False) -> tuple[Any, int]:
    """Write the names of classes below the panels, in as many columns as fit; return the legend and its lines."""
    handles, texts = class_entries(labels, counts=counts)
    longest = max((len(text) for text in texts), default=1)
    across = max(1, min(len(texts), int((float(figure.get_figwidth()) - 0.3) / (0.42 + 0.078 * longest))))
    look: dict[str, Any] = {"fontsize": SMALL, "frameon": False, "handletextpad": 0.2, "columnspacing": 1.5}
    legend = figure.legend(handles, texts, loc="outside lower center", ncols=across, **look)
    return legend, -(-len(texts) // across)


def count_bar(figure: Figure, axes: Axes, mapped: Any) -> Any:
    """Draw the scale of a density beside it, with round numbers of rows."""
    bar = colour_bar(figure, mapped, axes, "rows in a cell", shrink=0.7, pad=0.02, frame=False)
    top = float(mapped.norm.vmax)
    steps = (1, 2, 5) if top < 200 else (1,)
    ticks = [step * 10**power for power in range(12) for step in steps if step * 10**power <= top]
    bar.set_ticks(ticks, labels=[f"{tick:,}" for tick in ticks])
    bar.minorticks_off()
    return bar


# -- Names that do not cover each other -------------------------------------------------------------------------------

_DISTANCES = np.arange(4.0, 160.0, 6.0)  # of a name from its tip, in points
# away from the direction of its arrow, in radians
_TURNS = np.array([0.0, 0.3, -0.3, 0.6, -0.6, 1.0, -1.0, 1.4, -1.4, 1.9, -1.9, 2.4, -2.4])
_FAR = 9.0  # points: a name that is further away has a line to its tip
_STYLE: dict[str, Any] = {"fontsize": SMALL + 1, "color": INK, "ha": "center", "va": "center", "zorder": 6}


class _Room:
    """What is free of a picture, in pixels; a box is (left, lower, right, upper)."""

    def __init__(self, axes: Axes) -> None:
        root = axes.figure.canvas.figure
        root.draw_without_rendering()  # now it is known where everything is
        self.axes, self.point = axes, root.dpi / 72.0
        self.frame = np.asarray(axes.get_window_extent().extents)
        self.taken = np.empty((0, 4))

    def half_size(self, name: str, style: dict[str, Any], room: float) -> FloatArray:
        """Return half the width and height that a name takes, with this many points of room around it."""
        text = self.axes.annotate(name, (0.0, 0.0), xycoords="figure pixels", **style)
        box = text.get_window_extent()
        text.remove()
        half: FloatArray = np.array([box.width, box.height]) / 2.0 + room * self.point
        return half

    def faults(self, middles: FloatArray, half: FloatArray) -> tuple[Any, Any]:
        """Return how many boxes each place would cover, and whether it is partly outside.  # shape: (places,) both"""
        low, high = middles - half, middles + half
        covered = ((low[:, None] < self.taken[:, 2:]) & (self.taken[:, :2] < high[:, None])).all(axis=2).sum(axis=1)
        return covered, ((low < self.frame[:2]) | (high > self.frame[2:])).any(axis=1)

    def write(self, name: str, place: Any, away: FloatArray, half: FloatArray, **style: Any) -> Any:
        """Write a name this many pixels away from its place, and take the room for it."""
        middle = self.axes.transData.transform(place) + away
        self.taken = np.vstack([self.taken, np.concatenate([middle - half, middle + half])])
        offset: dict[str, Any] = {"textcoords": "offset points", "xytext": tuple(away / self.point)}
        return self.axes.annotate(name, tuple(place), **offset, **style)


def place_names(axes: Axes, tips: FloatArray, directions: FloatArray, names: Sequence[str]) -> None:
    """Write a name beyond each tip, or as near to it as there is room that no other name takes."""
    room = _Room(axes)
    ends = axes.transData.transform(tips)
    towards = ends - axes.transData.transform(tips - directions)
    shafts = (ends[:, None, :] - towards[:, None, :] * np.linspace(0.0, 0.8, 25)[:, None]).reshape(-1, 2)
    frame = np.array([-4.0, -4.0, 4.0, 4.0]) * room.point  # around the names of classes
    there = [np.asarray(text.get_window_extent().extents) + frame for text in axes.texts if text.get_text()]
    room.taken = np.reshape(there, (-1, 4))
    for tip, end, way, name in zip(tips, ends, towards, names, strict=True):
        half = room.half_size(name, _STYLE, 1.5)
        angles = float(np.arctan2(way[1], way[0])) + _TURNS
        ways = np.column_stack([np.cos(angles), np.sin(angles)])  # shape: (turns, 2)
        # as far as the edge of the box, in each direction, is from its middle
        reach = np.min(half / np.maximum(np.abs(ways), 1e-9), axis=1)
        steps = (ways * (_DISTANCES[:, None] * room.point + reach)[:, :, None]).reshape(-1, 2)
        covered, outside = room.faults(end + steps, half)
        low, high = (end + steps - half)[:, None], (end + steps + half)[:, None]
        crossed = ((low < shafts) & (shafts < high)).all(axis=2).sum(axis=1)
        far = (_DISTANCES[:, None] / 12.0 + np.abs(_TURNS)).ravel()
        away = steps[np.argmin(100.0 * (covered + outside) + crossed + far)]
        apart = float(np.hypot(*np.maximum(np.abs(away) - half, 0.0))) > _FAR * room.point
        box = {"boxstyle": "round,pad=0.12", "facecolor": "white", "edgecolor": "none", "alpha": 0.75}
        line = {"arrowstyle": "-", "color": "#888888", "linewidth": 0.7} if apart else None
        room.write(name, tip, away, half, bbox=box, arrowprops=line, **_STYLE)


_RINGS = np.arange(10.0, 170.0, 8.0)  # points: how far a name may be from its place
_ANGLES = np.linspace(0.0, 2.0 * np.pi, 16, endpoint=False)
_MOVED = 16.0  # points: a name that is further away has a line to its place


def name_classes(axes: Axes, P: FloatArray, labels: Labels | None, *, large: bool, most: float = np.inf) -> list[Any]:
    """Write the names of classes near their middles, `large` if short; leave out those `most` points away."""
    drawn: list[Any] = []
    if labels is None or labels.codes is None:
        return drawn
    found = class_names(P[:, 0], P[:, 1], labels)
    size = 11 if large and sum(len(name) for _, _, name in found) <= _LETTERS else 9
    room = _Room(axes)
    circle = np.column_stack([np.cos(_ANGLES), np.sin(_ANGLES)])
    steps = np.concatenate([np.zeros((1, 2)), *(ring * circle for ring in _RINGS)]) * room.point  # the nearest first
    for number, middle, name in found:
        style = _class_look(number, size)
        half = room.half_size(name, style, 4.0)
        covered, outside = room.faults(axes.transData.transform(middle) + steps, half)
        best = int(np.argmin(covered + 0.5 * outside))  # 0 is free; else what covers least, and of such the nearest
        far = float(np.hypot(*steps[best])) / room.point
        if (covered[best] and np.isfinite(most)) or far > most:
            continue
        line = {"arrowstyle": "-", "color": "#666666", "linewidth": 0.8, "shrinkB": 0} if far > _MOVED else None
        drawn.append(room.write(name, middle, steps[best], half, arrowprops=line, **style))
    return drawn


# -- density --------------------------------------------------------------------------------------------------------


def density(
    axes: Axes, x: FloatArray, y: FloatArray, values: FloatArray | None = None, *, equal: bool, faint: bool = False
) -> Any:
    """Shade cells of the plane by their number of rows, or the mean of values there; return what a colour bar needs."""
    most = int(np.clip(0.6 * np.sqrt(len(x)), *_CELLS))
    spans = np.array([np.ptp(x), np.ptp(y)])
    numbers = np.full(2, most)
    if equal and spans.max() > 0.0:  # cells are squares
        numbers = np.maximum(np.ceil(most * spans / spans.max()), 1).astype(int)
    edges = []
    for along, span, number in zip((x, y), spans, numbers, strict=True):
        middle, low, high = float(np.mean(along)), float(along.min()), float(along.max())
        if span == 0.0:  # one value: a cell around it
            half = 0.5 * (float(spans.max()) / most or abs(middle) * 0.1 or 1.0)
            low, high = middle - half, middle + half
        edges.append(np.linspace(low, high, (int(number) if span > 0.0 else 1) + 1))
    counts = np.histogram2d(x, y, bins=edges)[0]
    empty = counts == 0
    axes.use_sticky_edges = False  # leave a margin around them as around dots
    style: dict[str, Any] = {"rasterized": True, "zorder": 1.5}
    if values is None:
        style |= {"norm": "log", "vmin": 1, "vmax": max(int(counts.max()), 1.0000001)}  # each factor counts alike
        colours = shades("Greys", 0.12, 0.5) if faint else shades("Blues", 0.25, 1.0)
        return axes.pcolormesh(*edges, np.ma.masked_array(counts, empty).T, cmap=colours, **style)
    sums = np.histogram2d(x, y, bins=edges, weights=values)[0]
    means = np.ma.masked_array(sums / np.maximum(counts, 1), empty)
    return axes.pcolormesh(*edges, means.T, cmap=SCALE, **style)


# -- Scores on a single component: a histogram, a strip for each class, or scores against a number --------------------

_PER_STRIP = 1_500  # dots: more become a block
_MANY = 20_000


def strips(axes: Axes, x: FloatArray, labels: Labels | None) -> tuple[str, Any]:
    """Draw scores on one component; return what there is to note, and the dots or bars."""
    if labels is None:
        return _histogram(axes, x)
    if labels.codes is not None:
        return _per_class(axes, x, labels)
    there = ~labels.missing
    tidy(axes, grid="both")
    if not there.any():
        return _histogram(axes, x)
    values = np.asarray(labels.values)[there]
    drawn: Any
    if len(values) >= _MANY:
        drawn = density(axes, x[there], values, equal=False)
        count_bar(axes.figure.canvas.figure, axes, drawn)
    else:
        dots(axes, x[there], values, None, area=dot_size(len(values)))
        drawn = axes.collections[-1]
    axes.set_ylabel(labels.scale_name("label"))
    gone = len(x) - int(there.sum())
    return (f"{gone:,} rows without a number are not shown" if gone else ""), drawn


def _histogram(axes: Axes, x: FloatArray) -> tuple[str, Any]:
    count = int(np.clip(np.sqrt(len(x)), 8, 100))
    low, high = float(x.min()), float(x.max())
    if high - low <= 1e-12 * max(abs(low), abs(high)):  # one value, up to rounding: bars of no width have no place
        low, high = low - (0.5 * abs(low) or 0.5), high + (0.5 * abs(high) or 0.5)
    style: dict[str, Any] = {"color": BAR, "edgecolor": "white", "linewidth": 0.4}
    *_, bars = axes.hist(x, bins=count, range=(low, high), **style)
    axes.set_ylabel("rows")
    axes.locator_params(axis="y", integer=True)
    tidy(axes, grid="y")
    return "", bars


def _per_class(axes: Axes, x: FloatArray, labels: Labels) -> tuple[str, Any]:
    """Draw a strip of dots for each class, spread so that they are seen; a bar marks its middle half."""
    assert labels.codes is not None
    colours, markers = class_style(labels)
    rng = np.random.default_rng(0)
    names, shown, drawn = [], 0, None
    classes = [number for number in range(len(labels.names)) if (labels.codes == number).any()]
    for place, number in enumerate([*classes, *([-1] if labels.missing.any() else [])]):
        mine = x[labels.codes == number]
        some = mine if len(mine) <= _PER_STRIP else rng.choice(mine, _PER_STRIP, replace=False)
        shown += len(some)
        colour, marker = (NO_LABEL, "o") if number < 0 else (colours[number], markers[number])
        spread = place + rng.uniform(-0.3, 0.3, len(some))
        style: dict[str, Any] = {"linewidths": 0, "alpha": 0.6, "rasterized": len(some) > VECTOR_DOTS // 10}
        drawn = axes.scatter(some, spread, s=0.8 * dot_size(8 * len(some)), color=colour, marker=marker, **style)
        low, middle, high = np.quantile(mine, [0.25, 0.5, 0.75])
        axes.plot([low, high], [place, place], color=INK, linewidth=2.0, solid_capstyle="butt", zorder=4)
        axes.plot([middle], [place], color=INK, marker="|", markersize=14, markeredgewidth=2.0, zorder=4)
        name = "no label" if number < 0 else named(labels.names[number], number, _LONG_CLASS)
        names.append(f"{name} ({len(mine):,})")
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    tidy(axes, grid="x")
    sampled = f"; dots: {shown:,} of them" if shown < len(x) else ""
    return f"bars: the middle half of a class, with its median{sampled}", drawn
