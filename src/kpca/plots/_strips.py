"""Scores on a single component: a histogram, a strip for each class, or scores against a number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kpca.plots._axes import BAR, INK, LONG_CLASS, NO_LABEL, FloatArray, dot_size, named, plain, tidy, times
from kpca.plots._cloud import VECTOR_DOTS, class_style, count_bar, density
from kpca.plots._labels import Labels

if TYPE_CHECKING:
    from kpca.plots._axes import Axes

_PER_STRIP = 1_500  # dots: more become a block
_MANY = 20_000


def strips(axes: Axes, x: FloatArray, labels: Labels | None) -> tuple[str, Any]:
    """Draw scores on one component; return what there is to note, and the dots or bars."""
    if labels is None:
        return _histogram(axes, x)
    if labels.codes is not None:
        return _per_class(axes, x, labels)
    return _against(axes, x, labels)


def _histogram(axes: Axes, x: FloatArray) -> tuple[str, Any]:
    count = int(np.clip(np.sqrt(len(x)), 8, 100))
    low, high = float(x.min()), float(x.max())
    if high - low <= 1e-12 * max(abs(low), abs(high)):  # one value, up to rounding: bars of no width have no place
        low, high = low - (0.5 * abs(low) or 0.5), high + (0.5 * abs(high) or 0.5)
    heights, edges = np.histogram(x, bins=count, range=(low, high))
    bars = axes.bar(
        edges[:-1], heights, width=np.diff(edges), align="edge", color=BAR, edgecolor="white", linewidth=0.4
    )
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
        name = "no label" if number < 0 else named(labels.names[number], number, LONG_CLASS)
        names.append(f"{name} ({len(mine):,})")
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    tidy(axes, grid="x")
    sampled = f"; dots: {shown:,} of them" if shown < len(x) else ""
    return f"bars: the middle half of a class, with its median{sampled}", drawn


def _against(axes: Axes, x: FloatArray, labels: Labels) -> tuple[str, Any]:
    """Draw scores against the number of each row."""
    assert labels.values is not None
    there = ~labels.missing
    tidy(axes, grid="both")
    if not there.any():
        return _histogram(axes, x)
    values = labels.values[there]
    drawn: Any
    if len(values) >= _MANY:
        drawn = density(axes, x[there], values, equal=False)
        count_bar(axes.figure.canvas.figure, axes, drawn)
    else:
        style: dict[str, Any] = {"alpha": 0.7, "linewidths": 0, "rasterized": len(values) > VECTOR_DOTS}
        drawn = axes.scatter(x[there], values, s=dot_size(len(values)), color=BAR, **style)
    axes.set_ylabel(plain(labels.meaning or "label", 40) + times(labels.power))
    gone = len(x) - int(there.sum())
    return (f"{gone:,} rows without a number are not shown" if gone else ""), drawn
