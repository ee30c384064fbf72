"""Labels of rows as a picture can show them: a few classes, or a scale of numbers, and rows that have none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kpca._base.errors import InputError
from kpca.plots._given import FloatArray, power_of, times, without
from kpca.plots.axes import INK, SMALL, plain

if TYPE_CHECKING:
    from kpca.plots.axes import Axes

MOST_CLASSES = 10  # colours and shapes that can be told apart
OTHERS = "others"
_YEAR = 365.2425  # days


@dataclass(frozen=True)
class Labels:
    """A class for each row, or a number for each row; -1 and NaN are rows without."""

    codes: NDArray[np.intp] | None  # shape: (m,)
    names: tuple[str, ...] = ()  # of the classes; the last may stand for all that are rare
    values: FloatArray | None = None  # shape: (m,)
    meaning: str = ""  # of the numbers
    power: int = 0  # of ten, that the numbers are without
    rest: int = 0  # classes that the last one stands for, 0 where it is one like the others

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Which rows have no label.  # shape: (m,)"""
        if self.codes is not None:
            return np.asarray(self.codes < 0)
        return np.asarray(np.isnan(np.asarray(self.values)), dtype=bool)

    def scale_name(self, otherwise: str = "") -> str:
        """Return what is written at a scale of the numbers."""
        return plain(self.meaning or otherwise, 40) + times(self.power)

    def only(self, rows: Any) -> Labels:
        """Return the labels of some rows; the classes are the same."""
        codes = None if self.codes is None else self.codes[rows]
        return replace(self, codes=codes, values=None if self.values is None else self.values[rows])


def labels_of(y: Any, count: int, meaning: str | None = None) -> Labels | None:
    """Return the labels of `count` rows: classes if at most ten differ, else a scale of numbers.

    Of more than ten texts the nine most frequent are classes, and all others one more.
    """
    if y is None:
        return None
    given = _array(y, count)
    if given.shape != (count,):
        raise InputError(f"There must be one label per row, {count} in all; got shape {given.shape}.")
    name = str(meaning or getattr(y, "name", None) or "")
    if given.dtype.kind == "c":
        raise InputError("Labels must be classes or real numbers; got complex numbers: show a part of them.")
    if given.dtype.kind == "O":
        given = _settled(given)
    if given.dtype.kind in "mM":
        return _times(given, name)
    if given.dtype.kind in "iuf":
        return _numbers(given, name)
    if given.dtype.kind == "b":
        return Labels(given.astype(np.intp), ("False", "True"))
    return _classes(given)


def _times(given: NDArray[Any], name: str) -> Labels:
    """Return points in time as classes where they are few, else as years; spans of time as seconds."""
    if given.dtype.kind == "M":
        if len(np.unique(given[~np.isnat(given)])) <= MOST_CLASSES:
            return _classes(np.array([None if np.isnat(time) else str(time) for time in given], dtype=object))
        days = given.astype("datetime64[s]").astype(np.float64) / 86_400.0
        values = np.where(np.isnat(given), np.nan, 1970.0 + days / _YEAR)
        return Labels(None, values=values, meaning=name or "year")
    seconds = np.where(np.isnat(given), np.nan, given.astype("timedelta64[ms]").astype(np.float64) / 1e3)
    return _numbers(seconds, name or "seconds")


def _array(y: Any, count: int) -> NDArray[Any]:
    """Return labels as an array; a list of texts and gaps as what they are, for NumPy would make texts of gaps."""
    if isinstance(y, list | tuple) and not any(np.ndim(label) for label in y):
        given = np.empty(len(y), dtype=object)
        given[:] = y
        return given
    try:
        return np.asarray(y)
    except ValueError as error:
        raise InputError(f"Labels must be one per row, {count} in all; got lists of different lengths.") from error


def _settled(given: NDArray[Any]) -> NDArray[Any]:
    """Return objects as numbers or points in time, where all are; as they are else."""
    there = np.array([not _is_missing(label) for label in given], dtype=bool)
    kept = given[there]
    if not len(kept):
        return np.full(len(given), np.nan)
    if all(isinstance(label, bool | np.bool_) for label in kept) and there.all():
        return given.astype(bool)
    if all(isinstance(label, Real | Decimal) and not isinstance(label, bool | np.bool_) for label in kept):
        numbers = np.full(len(given), np.nan)
        numbers[there] = [_as_float(label) for label in kept]
        return numbers
    if all(hasattr(label, "isoformat") and hasattr(label, "year") for label in kept):
        times = np.full(len(given), np.datetime64("NaT"), dtype="datetime64[s]")
        local = (label.replace(tzinfo=None) if hasattr(label, "hour") else label for label in kept)
        times[there] = [np.datetime64(label) for label in local]
        return times
    return given


def _as_float(label: Any) -> float:
    try:
        return float(label)
    except OverflowError:  # a whole number beyond all floats
        return np.inf


def _is_missing(label: Any) -> bool:
    if label is None:
        return True
    try:
        return bool(label != label)  # noqa: PLR0124 (NaN and NaT)
    except (TypeError, ValueError):  # pandas' NA has no truth value; a list of labels is none missing
        return type(label).__name__ == "NAType"


def _numbers(given: NDArray[Any], name: str) -> Labels:
    values = given.astype(np.float64)
    values[~np.isfinite(values)] = np.nan
    there = ~np.isnan(values)
    found = np.unique(values[there])
    if len(found) > MOST_CLASSES:
        power = power_of(found)
        return Labels(None, values=without(values, power), meaning=name, power=power)
    codes = np.where(there, np.searchsorted(found, values), -1)
    short = (int(value) if value.is_integer() and abs(value) < 1e15 else value for value in found.tolist())
    return Labels(codes, tuple(map(repr, short)))


def _text(label: Any) -> str:
    return label.decode("utf-8", "replace") if isinstance(label, bytes) else str(label)


def _classes(given: NDArray[Any]) -> Labels:
    """Return texts as classes; by a table of names: sorting half a million texts takes seconds."""
    table: dict[str, int] = {}
    codes = np.empty(len(given), dtype=np.intp)
    for row, label in enumerate(given.tolist()):
        codes[row] = -1 if _is_missing(label) else table.setdefault(_text(label), len(table))
    found = sorted(table)
    order = np.empty(len(found) + 1, dtype=np.intp)
    order[[table[name] for name in found]] = np.arange(len(found))
    order[-1] = -1  # a row without a label stays one
    codes = order[codes]
    if len(found) <= MOST_CLASSES:
        return Labels(codes, tuple(found))
    # the most frequent, and of those that are equally frequent the first by name; shown in the order of names
    counts = np.bincount(codes[codes >= 0], minlength=len(found))
    kept = np.sort(np.argsort(-counts, kind="stable")[: MOST_CLASSES - 1])
    number = np.full(len(found) + 1, len(kept), dtype=np.intp)
    number[kept] = np.arange(len(kept))
    number[-1] = -1
    rest = len(found) - len(kept)
    return Labels(number[codes], (*(found[j] for j in kept), f"{OTHERS} ({rest:,} classes)"), rest=rest)


def sample_of(labels: Labels, most: int, least: int) -> NDArray[np.intp]:
    """Return at most about this many rows, of each class its share but not fewer than `least`, in mixed order."""
    assert labels.codes is not None
    rng = np.random.default_rng(0)
    parts: list[NDArray[np.intp]] = []
    count = len(labels.codes)
    for number in range(len(labels.names)):
        rows = np.flatnonzero(labels.codes == number)
        size = min(len(rows), max(least, round(most * len(rows) / max(count, 1))))
        parts.append(rng.choice(rows, size, replace=False))
    return np.asarray(rng.permutation(np.concatenate([*parts, np.empty(0, dtype=np.intp)])), dtype=np.intp)


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

    def write(self, name: str, place: FloatArray, away: FloatArray, half: FloatArray, **style: Any) -> Any:
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


def place_classes(
    axes: Axes, middles: FloatArray, names: Sequence[str], styles: Sequence[dict[str, Any]], *, most: float = np.inf
) -> list[Any]:
    """Write each name as near to its middle as there is room; leave out those more than `most` points away."""
    room = _Room(axes)
    drawn: list[Any] = []
    circle = np.column_stack([np.cos(_ANGLES), np.sin(_ANGLES)])
    steps = np.concatenate([np.zeros((1, 2)), *(ring * circle for ring in _RINGS)]) * room.point  # the nearest first
    for middle, name, style in zip(middles, names, styles, strict=True):
        half = room.half_size(name, style, 4.0)
        covered, outside = room.faults(axes.transData.transform(middle) + steps, half)
        best = int(np.argmin(covered + 0.5 * outside))  # 0 is free; else what covers least, and of such the nearest
        far = float(np.hypot(*steps[best])) / room.point
        if (covered[best] and np.isfinite(most)) or far > most:
            continue
        line = {"arrowstyle": "-", "color": "#666666", "linewidth": 0.8, "shrinkB": 0} if far > _MOVED else None
        drawn.append(room.write(name, middle, steps[best], half, arrowprops=line, **style))
    return drawn
