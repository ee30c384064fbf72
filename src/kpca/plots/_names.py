"""Names at the tips of arrows that do not cover each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kpca.plots._axes import INK, SMALL, FloatArray

if TYPE_CHECKING:
    from kpca.plots._axes import Axes

_DISTANCES = np.arange(4.0, 160.0, 6.0)  # of a name from its tip, in points
# away from the direction of its arrow, in radians
_TURNS = np.array([0.0, 0.3, -0.3, 0.6, -0.6, 1.0, -1.0, 1.4, -1.4, 1.9, -1.9, 2.4, -2.4])
_FAR = 9.0  # points: a name that is further away has a line to its tip
_STYLE: dict[str, Any] = {"fontsize": SMALL + 1, "color": INK, "ha": "center", "va": "center", "zorder": 6}


def place_names(axes: Axes, tips: FloatArray, directions: FloatArray, names: Sequence[str]) -> None:
    """Write a name beyond each tip, or as near to it as there is room that no other name takes."""
    root = axes.figure.canvas.figure
    root.draw_without_rendering()  # now it is known where everything is
    point = root.dpi / 72.0
    ends = axes.transData.transform(tips)
    towards = ends - axes.transData.transform(tips - directions)
    shafts = (ends[:, None, :] - towards[:, None, :] * np.linspace(0.0, 0.8, 25)[:, None]).reshape(-1, 2)
    frame = np.array([-4.0, -4.0, 4.0, 4.0]) * point  # around the names of classes
    taken = [np.asarray(text.get_window_extent().extents) + frame for text in axes.texts if text.get_text()]
    room = _Room(np.asarray(axes.get_window_extent().extents), shafts, taken, point)
    for tip, end, way, name in zip(tips, ends, towards, names, strict=True):
        text = axes.annotate(name, tuple(tip), textcoords="offset points", xytext=(0.0, 0.0), **_STYLE)
        box = text.get_window_extent()
        text.remove()
        half = np.array([box.width, box.height]) / 2.0 + 1.5 * point
        middle = room.place(end, float(np.arctan2(way[1], way[0])), half)
        far = float(np.hypot(*np.maximum(np.abs(middle - end) - half, 0.0))) > _FAR * point
        axes.annotate(
            name,
            tuple(tip),
            textcoords="offset points",
            xytext=tuple((middle - end) / point),
            bbox={"boxstyle": "round,pad=0.12", "facecolor": "white", "edgecolor": "none", "alpha": 0.75},
            arrowprops={"arrowstyle": "-", "color": "#888888", "linewidth": 0.7} if far else None,
            **_STYLE,
        )


@dataclass(frozen=True)
class _Room:
    """What is free of a picture, in pixels; a box is (left, lower, right, upper)."""

    frame: FloatArray
    shafts: FloatArray  # points along the arrows, shape: (s, 2)
    taken: list[FloatArray]  # boxes
    point: float  # pixels of a typographic point

    def place(self, end: FloatArray, angle: float, half: FloatArray) -> FloatArray:
        """Return the middle of a box near a tip that covers no other box, and little of the arrows; take it."""
        best, fewest = end, np.inf
        ways = np.column_stack([np.cos(angle + _TURNS), np.sin(angle + _TURNS)])  # shape: (turns, 2)
        # as far as the edge of the box, in each direction, is from its middle
        reach = np.min(half / np.maximum(np.abs(ways), 1e-9), axis=1)
        for distance in _DISTANCES:
            if distance / 12.0 >= fewest:  # what is further away costs more than what there is
                break
            middles = end + ways * (distance * self.point + reach)[:, None]
            costs = self._costs(middles - half, middles + half) + distance / 12.0 + np.abs(_TURNS)
            if costs.min() < fewest:
                best, fewest = middles[costs.argmin()], float(costs.min())
        self.taken.append(np.concatenate([best - half, best + half]))
        return best

    def _costs(self, low: FloatArray, high: FloatArray) -> FloatArray:
        """Return what is bad about boxes with these corners.  # shape: (turns,)"""
        low, high = low[:, None], high[:, None]  # shape: (turns, 1, 2)
        taken = np.reshape(self.taken, (-1, 4))
        covered = ((low < taken[:, 2:]) & (taken[:, :2] < high)).all(axis=2).sum(axis=1)
        outside = ((low < self.frame[:2]) | (high > self.frame[2:])).any(axis=(1, 2))
        crossed = ((low < self.shafts) & (self.shafts < high)).all(axis=2).sum(axis=1)
        costs: FloatArray = 100.0 * (covered + outside) + crossed
        return costs


_RINGS = np.arange(10.0, 170.0, 8.0)  # points: how far a name may be from its place
_ANGLES = np.linspace(0.0, 2.0 * np.pi, 16, endpoint=False)
_MOVED = 16.0  # points: a name that is further away has a line to its place


def place_classes(
    axes: Axes, middles: FloatArray, names: Sequence[str], styles: Sequence[dict[str, Any]], *, most: float = np.inf
) -> list[Any]:
    """Write each name at its middle, or as near to it as no other name is; return the annotations.  # shape: (c, 2)

    A name that is more than `most` points away from its place is left out.
    """
    root = axes.figure.canvas.figure
    root.draw_without_rendering()
    point = root.dpi / 72.0
    frame = np.asarray(axes.get_window_extent().extents)
    places = axes.transData.transform(middles)
    taken = np.empty((0, 4))
    drawn: list[Any] = []
    steps = np.concatenate([np.zeros((1, 2)), *(ring * _circle() for ring in _RINGS)]) * point  # the nearest first
    for middle, place, name, style in zip(middles, places, names, styles, strict=True):
        text = axes.annotate(name, tuple(middle), xytext=(0.0, 0.0), textcoords="offset points", **style)
        box = text.get_window_extent()
        half = np.array([box.width, box.height]) / 2.0 + 4.0 * point
        low, high = (place + steps - half)[:, None], (place + steps + half)[:, None]
        covered = ((low < taken[:, 2:]) & (taken[:, :2] < high)).all(axis=2).sum(axis=1)
        outside = ((low[:, 0] < frame[:2]) | (high[:, 0] > frame[2:])).any(axis=1)
        # 0 is free; of places that are not, the one that covers least, and that nearest
        best = int(np.lexsort((np.arange(len(steps)), covered + 0.5 * outside))[0])
        if (covered[best] and np.isfinite(most)) or float(np.hypot(*steps[best])) > most * point:
            text.remove()
            continue
        taken = np.vstack([taken, np.concatenate([low[best, 0], high[best, 0]])])
        if float(np.hypot(*steps[best])) > _MOVED * point:
            text.remove()
            line = {"arrowstyle": "-", "color": "#666666", "linewidth": 0.8, "shrinkB": 0}
            away: dict[str, Any] = {
                "xytext": tuple(steps[best] / point),
                "textcoords": "offset points",
                "arrowprops": line,
            }
            text = axes.annotate(name, tuple(middle), **away, **style)
        else:
            text.set_position(tuple(steps[best] / point))
        drawn.append(text)
    return drawn


def _circle() -> FloatArray:
    return np.column_stack([np.cos(_ANGLES), np.sin(_ANGLES)])
