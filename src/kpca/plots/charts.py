"""Control charts: the statistics of monitoring row after row, and where they leave their limits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta, timezone
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from kpca._base.errors import InputError
from kpca.data.rows import is_missing
from kpca.plots._given import FloatArray, power_of, short, times, whole, without
from kpca.plots.axes import COLOURS, INK, SMALL, headline, note, panels_for, plain, tidy

if TYPE_CHECKING:
    from kpca.plots.axes import Axes, Figure

_LABELS = {"t2": "T²", "spe": "SPE", "combined": "combined"}
_COLUMNS = 1200  # of a chart: about what a screen can tell apart
_STEEP = 10.0  # times the limit: a statistic that goes beyond is shown on a logarithmic scale
_HIGHEST = 1e300  # what is above counts as infinite: scales have to go a little further than the values
_SINGLE_WINDOWS = 60  # more alarms are drawn without edges, which would cover the chart
_USUAL = (1e-3, 1e7)  # sizes of statistics that are written as they are
_DEPTH = 1e-3  # of the limit: what is below it on a logarithmic scale is of no interest
_LINE, _BEYOND, _ALARM = "#8BA5C6", COLOURS[5], "#F6F0DE"  # light enough for marks and limits to stand out


def control_chart(
    source: Any,
    against: Any,
    *,
    statistic: str | Sequence[str] | None = None,
    alarm: Any = None,
    onset: int | None = None,
    index: Any = None,
    ax: Any = None,
) -> Figure:
    """Return a chart of T², SPE and both combined, row after row, with limits and the rows beyond them.

    A statistic that goes far beyond its limit is on a logarithmic scale. Of long series every column of the picture
    shows the smallest and the largest value of its rows: no spike is lost.

    Parameters
    ----------
    source : a fitted KernelPCADetector, or statistics: an object with `t2`, `spe` and `combined`, shape (m,) each, or
        what `kpca.detector.monitor` yielded, as a list. NaN is a row without statistics, a gap in the line.
    against : for a detector the rows to show; else the limits, an object with the names of the statistics, each a
        number or a number per row (infinity is no limit), or the detector that has them.
    statistic : the ones to show, of "t2", "spe" and "combined"; None all.
    alarm : rows to shade: True for each of them, shape (m,), slices, or pairs (start, stop) of row numbers.
    onset : the row at which a known fault begins; rows beyond the limit are then counted before it and after.
    index : a number or a time per row for the horizontal axis; None is the row number, from 0.
    ax : axes to draw into, one per statistic; None is a new figure.

    Examples
    --------
    >>> import numpy as np
    >>> from kpca import KernelPCADetector, plots
    >>> rng = np.random.default_rng(0)
    >>> detector = KernelPCADetector().fit(rng.standard_normal((200, 4)))
    >>> later = np.concatenate([rng.standard_normal((30, 4)), 8.0 + rng.standard_normal((10, 4))])
    >>> figure = plots.control_chart(detector, later, onset=30)
    >>> [axes.get_ylabel() for axes in figure.axes]
    ['T²', 'SPE', 'combined']
    """
    display = ControlChartDisplay(statistics=source, limits=against, alarm=alarm, onset=onset, index=index)
    return display.plot(ax, statistic=statistic).figure_


@dataclass(kw_only=True, eq=False, repr=False)
class ControlChartDisplay:
    """T², SPE and both combined, row after row, with their limits; drawn as often as wanted.

    Parameters
    ----------
    statistics : an object with `t2`, `spe` and `combined`, shape (m,) each; or what `kpca.detector.monitor` yielded.
    limits : an object with the same names, each a number or a number per row, or the detector that has them.
    alarm, onset, index : as in `control_chart`.

    Attributes
    ----------
    figure_, axes_ : of the last picture, one axes per statistic.
    """

    statistics: Any
    limits: Any
    alarm: Any = None
    onset: int | None = None
    index: Any = None

    def __post_init__(self) -> None:
        given = self.statistics
        if hasattr(given, "limits_"):  # a detector; the limits are rows
            self.statistics, self.limits = given.statistics(self.limits), given.limits_
            return
        if callable(getattr(given, "statistics", None)):
            raise InputError("The detector must be fitted before its chart can be drawn: call fit first.")
        self.limits = getattr(self.limits, "limits_", self.limits)
        if isinstance(given, list | tuple) and given and all(hasattr(row, "alarm") for row in given):
            parts = {name: np.array([getattr(row, name) for row in given]) for name in (*_LABELS, "alarm")}
            self.statistics = SimpleNamespace(**parts)

    @classmethod
    def from_estimator(
        cls, detector: Any, X: Any, *, alarm: Any = None, onset: int | None = None, index: Any = None, **options: Any
    ) -> Self:
        """Draw the statistics that a fitted detector gives the rows of X; `options` are those of `plot`."""
        return cls(statistics=detector, limits=X, alarm=alarm, onset=onset, index=index).plot(**options)

    @classmethod
    def from_statistics(
        cls, statistics: Any, limits: Any, *, alarm: Any = None, onset: Any = None, index: Any = None, **options: Any
    ) -> Self:
        """Draw statistics that were computed before; `options` are those of `plot`."""
        return cls(statistics=statistics, limits=limits, alarm=alarm, onset=onset, index=index).plot(**options)

    def plot(self, ax: Any = None, *, statistic: str | Sequence[str] | None = None) -> Self:
        """Draw the chart: the statistics that are named, of "t2", "spe" and "combined"; None all.

        `ax` are axes to draw into, one per statistic; None is a new figure.
        """
        asked: Any = list(_LABELS) if statistic is None else statistic
        names = list(asked) if isinstance(asked, Iterable) and not isinstance(asked, str) else [asked]
        if not names or any(name not in list(_LABELS) for name in names):
            words = ", ".join(map(repr, _LABELS))
            raise InputError(f"must be one or more of {words}", param="statistic", value=statistic)
        values = [_values(name, self.statistics) for name in names]
        count, onset = len(values[0]), self.onset
        if any(len(value) != count for value in values):
            raise InputError(f"The statistics must have the same rows; got {', '.join(str(len(v)) for v in values)}.")
        bounds = [_limit(name, self.limits, count) for name in names]
        places, place_name = _places(self.index, count)
        windows = _windows(getattr(self.statistics, "alarm", None) if self.alarm is None else self.alarm, count)
        if onset is not None:
            onset = whole("onset", onset, f"a row number from 0 to {count - 1}, or None", 0, count - 1)
        # the middles between a row and the next one, so that no line hides the row itself
        edges = np.concatenate([places[:1], places[:-1] + np.diff(places) / 2, places[-1:]])
        self.figure_, self.axes_ = panels_for(ax, len(names), 9.0, 0.9 + 2.1 * len(names))
        for axes, name, value, bound in zip(self.axes_, names, values, bounds, strict=True):
            _shade(axes, edges, windows)
            if onset is not None:
                axes.axvline(edges[onset], color=INK, linestyle=":", linewidth=1.4, zorder=1, label="onset")
            power = power_of(value[np.isfinite(value)], bound[np.isfinite(bound)], usual=_USUAL)
            _panel(axes, places, without(value, power), without(bound, power))
            axes.set_ylabel(_LABELS[name] + times(power))
            headline(axes, _summary(name, value, bound, onset), size=10)
        self.axes_[-1].set_xlabel(place_name)
        # what is drawn, said once: below the panels, or in the first of axes that are not ours
        entries: dict[str, Any] = {}
        for axes in self.axes_:
            handles: tuple[list[Any], list[str]] = axes.get_legend_handles_labels()
            for handle, label in zip(*handles, strict=True):
                if label != "beyond the limit" or len(handle.get_offsets()):
                    entries.setdefault(label, handle)
        style: dict[str, Any] = {"fontsize": SMALL, "frameon": False, "markerscale": 1.6}
        style |= {"loc": "outside lower center", "ncols": len(entries)} if ax is None else {"loc": "best"}
        (self.figure_ if ax is None else self.axes_[0]).legend(entries.values(), entries.keys(), **style)
        return self


def _values(name: str, found: Any) -> FloatArray:
    """Return a statistic of all rows; what overflowed is infinite, what is missing NaN.  # shape: (m,)"""
    try:
        values = np.asarray(getattr(found, name, None), dtype=np.float64)
    except (TypeError, ValueError):
        values = np.empty(0)
    if values.ndim != 1 or not np.isfinite(values).any():
        raise InputError(f"The statistic {name!r} must be an array of numbers, one per row; got {found!r}.")
    values = np.where(np.abs(values) > _HIGHEST, np.copysign(np.inf, values), values)
    if not np.isfinite(values).any():
        raise InputError(f"The statistic {name!r} must be finite in some rows; all are too large to draw.")
    return values


def _limit(name: str, limits: Any, count: int) -> FloatArray:
    """Return the limit at each row.  # shape: (m,)"""
    limit = np.asarray(getattr(limits, name, np.nan), dtype=np.float64)
    if limit.shape not in {(), (count,)} or np.isnan(limit).any():
        raise InputError(f"limits must have {name!r} as a number, or one for each of {count} rows; got {limits!r}.")
    return np.broadcast_to(limit, (count,))


def _places(index: Any, count: int) -> tuple[NDArray[Any], str]:
    """Return where the rows stand on the horizontal axis, and what that is called."""
    if index is None:
        return np.arange(count), "row"
    places = np.asarray(index)
    if places.dtype.kind == "O" and places.ndim == 1 and all(isinstance(place, date) for place in places):
        # by the clock of the first row that has a zone, without summer time, by which clocks go back
        offset = next((place.utcoffset() for place in places if getattr(place, "tzinfo", None)), None)
        zone = timezone(offset or timedelta())
        local = [p.astimezone(zone).replace(tzinfo=None) if getattr(p, "tzinfo", None) else p for p in places]
        places = np.array([np.datetime64("NaT" if is_missing(place) else place, "us") for place in local])
    if places.shape != (count,) or places.dtype.kind not in "iufM":
        got = f"got shape {places.shape}, {places.dtype}"
        raise InputError(f"index must be {count} numbers or times, one per row; {got}.")
    if (places != places).any() or (places[1:] < places[:-1]).any():  # noqa: PLR0124 (NaN and NaT differ from all)
        raise InputError("index must not decrease from row to row, nor have gaps (NaN): sort the rows by it first.")
    name = getattr(index, "name", None)
    return places, plain(name) if name else "time" if places.dtype.kind == "M" else "row"


def _shade(axes: Axes, edges: NDArray[Any], windows: list[list[int]]) -> None:
    """Colour the background from the first row of each alarm to its last."""
    if len(windows) <= _SINGLE_WINDOWS:
        for start, stop in windows:
            style: dict[str, Any] = {"facecolor": _ALARM, "edgecolor": "#B5A36A", "linewidth": 0.8, "zorder": 0}
            axes.axvspan(edges[start], edges[stop], label="alarm", **style)
        return
    count = len(edges) - 1
    width = -(-count // _COLUMNS)
    alarms = np.zeros(-(-count // width), dtype=bool)  # of the columns of the picture: none is lost
    for start, stop in windows:
        alarms[start // width : -(-stop // width)] = True
    joined = [(edges[i * width], edges[min(j * width, count)]) for i, j in _windows(alarms, len(alarms))]
    spans: Any = [(low, high - low) for low, high in joined]
    whole: Any = axes.get_xaxis_transform()
    axes.broken_barh(spans, (0.0, 1.0), transform=whole, facecolor=_ALARM, linewidth=0.0, zorder=0, label="alarm")


def _windows(alarm: Any, count: int) -> list[list[int]]:
    """Return pairs (start, stop), the stop not included."""
    if isinstance(alarm, list | tuple) and alarm and all(isinstance(window, slice) for window in alarm):
        alarm = [window.indices(count)[:2] for window in alarm]
    given = np.asarray(alarm)
    if given.dtype == bool and given.shape == (count,):
        turns = np.flatnonzero(np.diff(given.astype(np.int8), prepend=0, append=0))
        return list(turns.reshape(-1, 2).tolist())
    if alarm is None or given.size == 0:
        return []
    whole = given.dtype.kind in "iu" and given.ndim == 2 and given.shape[1] == 2
    if not whole or (given < 0).any() or (given > count).any() or (given[:, 0] >= given[:, 1]).any():
        wanted = f"a truth value for each of {count} rows, slices, or pairs of row numbers (start, stop), start < stop"
        raise InputError(f"alarm must be {wanted}; got shape {given.shape}, {given.dtype}.")
    return list(given.tolist())


def _panel(axes: Axes, places: NDArray[Any], values: FloatArray, limit: FloatArray) -> None:
    shown = _columns(values, limit)
    x, y, bound = places[shown], values[shown], limit[shown]
    beyond = y > bound
    finite = np.concatenate([y[np.isfinite(y)], bound[np.isfinite(bound)]])
    highest, least = float(finite.max()), float(bound.min())
    low, high = min(0.0, 1.05 * float(finite.min())), 1.08 * highest if highest > 0.0 else 1.0
    if least > 0.0 and highest > _STEEP * least:
        lowest = max(0.7 * float(y.min(initial=np.inf, where=y > 0.0)), _DEPTH * least)
        low, high = min(lowest, 0.7 * least), 1.6 * highest
        axes.set_yscale("log", nonpositive="clip")
    y = np.minimum(y, high)  # infinity is at the upper edge
    axes.plot(x, y, color=_LINE, linewidth=0.8, label="statistic")
    if len(values) <= 60:  # few enough to be seen one by one
        axes.scatter(x[~beyond], y[~beyond], s=14, color=_LINE, zorder=3)
    look: dict[str, Any] = {"s": float(np.clip(6000.0 / len(y), 5.0, 24.0)), "marker": "^", "color": _BEYOND}
    axes.scatter(x[beyond], y[beyond], linewidths=0, zorder=3, label="beyond the limit", **look)
    axes.plot(x, bound, color=INK, linestyle=(0, (5, 3)), linewidth=1.2, zorder=4, label="limit")
    bounded = bool(np.isfinite(bound[-1]))
    text = f"limit {short(float(bound[-1]))}" if bounded else "no limit"
    place = (1.0, float(bound[-1]) if bounded else high)
    note(axes, text, place, (3, 0), xycoords=("axes fraction", "data"), va="center")
    axes.set_ylim(low, high)
    axes.margins(x=0.01)
    if places.dtype.kind in "iu":
        axes.locator_params(axis="x", integer=True)
    tidy(axes, grid="y")
    axes.tick_params(which="minor", length=0)


def _columns(values: FloatArray, limit: FloatArray) -> NDArray[np.intp]:
    """Return the rows to draw: all of a short series, of each column of a long one the lowest and the highest."""
    width = -(-len(values) // _COLUMNS)
    if width <= 2:
        return np.arange(len(values))
    whole = len(values) // width * width
    starts = np.arange(0, whole, width)
    seen = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        excess = np.where(values > limit, values - limit, -np.inf)  # where the limit moves, not in the order of values
    kept = [np.arange(whole, len(values))]
    for quantity in (np.where(seen, -values, -np.inf), np.where(seen, values, -np.inf), excess):
        kept.append(starts + quantity[:whole].reshape(-1, width).argmax(axis=1))
    return np.unique(np.concatenate(kept)).astype(np.intp)


def _summary(name: str, values: FloatArray, limit: FloatArray, onset: int | None) -> str:
    def share(beyond: NDArray[np.bool_]) -> str:
        percent = f" ({100.0 * beyond.mean():.1f} %)" if len(beyond) > 20 else ""  # of a few rows it says nothing
        return f"{beyond.sum():,} of {len(beyond):,} rows{percent}"

    beyond, missing = values > limit, int(np.isnan(values).sum())
    gaps = f"; {missing:,} missing" if missing else ""
    if not onset:  # none, or from the first row
        return f"{_LABELS[name]}: {share(beyond)} beyond the limit{gaps}"
    parts = f"{share(beyond[:onset])} before the onset, {share(beyond[onset:])} after"
    return f"{_LABELS[name]}: beyond the limit {parts}{gaps}"
