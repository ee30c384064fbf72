"""Biplots: rows in the plane of two components, with the directions in which the variables move them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kpca import explain
from kpca._base.errors import InputError
from kpca.plots._cloud import density, dot_size, dots, name_classes, place_names
from kpca.plots._given import Facts, FloatArray, facts_of, how_many, number_of, numbers_of, power_of, times, without
from kpca.plots._labels import Labels, labels_of, sample_of
from kpca.plots.axes import INK, colour_bar, headline, names_of, note_above, panels_for, tidy

if TYPE_CHECKING:
    from kpca.plots.axes import Axes, Figure

_REACH = 0.8  # of the way to the edge of the rows: where the longest mean arrow ends
_CELLS = 18  # of the grid from which the rows of a field are taken, each way
_MANY, _DOTS = 20_000, 2_000  # rows that are shades, and how many of them are dots of classes on top
_DOT = "#9DB2CE"  # light: the arrows are what is read first
_FIELD = 1.2  # cells that a long arrow of a field may cross
_TITLE: dict[str, Any] = {"size": 12, "fontweight": "bold", "pad": 17}  # a line of explanation fits below it


def biplot(
    source: Any,
    X: Any = None,
    y: Any = None,
    *,
    n: int = 8,
    names: Any = None,
    variable: str | int | None = None,
    components: tuple[int, int] = (0, 1),
    ax: Any = None,
) -> Figure:
    """Return the scores of rows on two components, with arrows that show where the variables move them.

    The arrow of a variable is the mean gradient of the two scores, times one step for all variables that is written
    into the picture. For the linear kernel this is the biplot of PCA, in which every row has the same arrow; for other
    kernels the rows differ, and `variable` shows the arrows of one variable at the rows themselves.

    Parameters
    ----------
    source : a fitted model, or arrows: an object with `positions` (m, 2), `arrows` (m, 2, v), `mean` (2, v) and
        `names`, as `kpca.explain.arrows` returns it.
    X : the rows to show, for a model; None is those it keeps. Of many rows without labels a sample is shown.
    y : a class or a number per row, shown as colour, as `y` of `plots.scores`.
    n : variables to show, those with the longest mean arrows. The mean is short where the arrows of the rows turn.
    names : of the columns, for a model that does not know them.
    variable : a name or number; show the field of this variable, an arrow at each of many rows, in place of the means.
    components : the two components, counted from 0, for a model.
    ax : axes to draw into; None is a new figure.
    """
    found = source
    if not hasattr(source, "positions"):
        # a sample of the rows has no labels: what has labels is shown whole
        rows: dict[str, Any] = {} if y is None else {"max_rows": max(len(y), 1)}
        found = explain.arrows(source, X, components=components, names=names, **rows)
    P = numbers_of("positions", found.positions, 2)  # shape: (m, 2)
    A = numbers_of("arrows", found.arrows, 3)  # shape: (m, 2, v)
    if P.shape[1] != 2 or A.shape[:2] != P.shape:
        raise InputError(f"A biplot needs arrows of two components at each of its rows; got {P.shape} and {A.shape}.")
    called = names_of(found.names, A.shape[2])
    labels = labels_of(y, len(P))
    power = power_of(P)  # arrows are changes of the same scores
    P, A = without(P, power), without(A, power)
    known = called if found.names is None else [str(name) for name in found.names]
    chosen = None if variable is None else number_of(variable, known)
    if variable is not None and chosen is None:
        must = f"must be the name of one of {len(known)} variables, {known[0]!r} for instance, or its number"
        raise InputError(must, param="variable", value=variable)
    shown, unit = how_many(n), " standard deviations" if getattr(found, "scaled", False) else ""
    scaled = labels is not None and labels.codes is None  # has a colour bar
    figure, (axes,) = panels_for(ax, 1, 7.9 if scaled else 6.8, 6.7)
    points = _rows(axes, P, labels)
    if points is not None and labels is not None:
        colour_bar(figure, points, axes, labels.scale_name(), shrink=0.8)
    facts = Facts() if source is found else facts_of(source)
    first, second = (facts.axis_name(j) + times(power) for j in tuple(getattr(found, "components", components)))
    axes.set(xlabel=first, ylabel=second)
    axes.set_box_aspect(1)
    axes.set_aspect("equal", adjustable="datalim")
    tidy(axes, grid="both")
    name_classes(axes, P, labels, large=False)
    if chosen is None:
        mean = without(numbers_of("mean", found.mean, 2), power)  # shape: (2, v)
        order = np.argsort(-np.hypot(*mean), kind="stable")[:shown]
        headline(axes, f"Biplot: {len(order)} of {len(called)} variables, {len(P):,} rows", **_TITLE)
        _means(axes, P, mean[:, order], [called[j] for j in order], unit)
    else:
        _field(axes, P, A[:, :, chosen], called[chosen], unit)
        headline(axes, f"Where {called[chosen]} moves the rows", **_TITLE)
    return figure


def _rows(axes: Axes, P: FloatArray, labels: Labels | None) -> Any:
    """Draw the rows, lightly: the arrows are what is read first. Of many rows shades, and some dots of classes."""
    rows: Any = slice(None)
    if len(P) >= _MANY:
        values = None if labels is None else labels.values
        there = slice(None) if values is None else ~np.isnan(values)
        known = None if values is None else values[there]
        shaded = density(axes, P[there, 0], P[there, 1], known, equal=True, faint=True)
        if labels is None or labels.codes is None:
            return None if values is None else shaded
        rows = sample_of(labels, _DOTS, 40)
    area = (0.6 if labels is None else 0.9) * dot_size(len(P))
    some = None if labels is None else labels.only(rows)
    points = dots(axes, P[rows, 0], P[rows, 1], some, area=area, colour=_DOT)
    for drawn in axes.collections:
        drawn.set_alpha(0.6)
    return points


def _round_step(length: float) -> float:
    """Return the largest of 1, 2 and 5 times a power of ten that is not above a length."""
    power = 10.0 ** np.floor(np.log10(length))
    return float(max(step * power for step in (1.0, 2.0, 5.0) if step * power <= length * (1.0 + 1e-12)))


# -- arrows ---------------------------------------------------------------------------------------------------------


def _means(axes: Axes, P: FloatArray, mean: FloatArray, names: Sequence[str], unit: str) -> None:
    """Draw the mean arrows from the middle of the rows, on one scale, with their names at the ends."""
    longest = float(np.hypot(*mean).max())
    middle = P.mean(axis=0)
    if longest == 0.0:
        note_above(axes, "no variable moves the rows on average", 2, 3)
        return
    extent = np.abs(P - middle).max(axis=0)
    step = _round_step(_REACH * float(extent.max() or 1.0) / longest)
    tips = middle + step * mean.T  # shape: (n, 2)
    for tip in tips:
        line = {"arrowstyle": "-|>", "color": INK, "linewidth": 1.3, "shrinkA": 0, "shrinkB": 0}
        axes.annotate("", xy=tuple(tip), xytext=tuple(middle), arrowprops=line, zorder=4)
    axes.update_datalim(tips)
    axes.autoscale_view()
    axes.margins(0.12)
    note_above(axes, f"arrows: mean change of the scores for a step of +{step:g}{unit} in a variable", 2, 3)
    place_names(axes, tips, tips - middle, names)


def _field(axes: Axes, P: FloatArray, arrows: FloatArray, name: str, unit: str) -> None:
    """Draw the arrows of one variable at one row of each cell of a grid over the plane, the first that is in it."""
    size = float(np.ptp(P, axis=0).max()) or 1.0
    cells = np.minimum((P - P.min(axis=0)) / size * _CELLS, _CELLS - 1).astype(np.intp)
    rows = np.sort(np.unique(cells[:, 0] * _CELLS + cells[:, 1], return_index=True)[1])
    lengths = np.hypot(*arrows[rows].T)
    typical = float(np.quantile(lengths, 0.9))
    if typical == 0.0:
        note_above(axes, f"{name} moves none of these rows", 2, 3)
        return
    step = _round_step(_FIELD * (float(np.ptp(P, axis=0).max()) / _CELLS or 1.0) / typical)
    axes.update_datalim(P[rows] + step * arrows[rows])
    axes.autoscale_view()
    style: dict[str, Any] = {"angles": "xy", "scale_units": "xy", "scale": 1.0, "width": 0.0035, "color": INK}
    axes.quiver(*P[rows].T, *(step * arrows[rows]).T, zorder=4, **style)
    note_above(axes, f"arrows: change of the scores for a step of +{step:g}{unit} in {name}", 2, 3)
