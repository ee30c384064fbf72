"""Biplots: rows in the plane of two components, with the directions in which the variables move them."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kpca import explain
from kpca._base.errors import InputError
from kpca.plots._cloud import class_box, class_middles, class_style, density, dots
from kpca.plots._labels import Labels, labels_of, place_classes, place_names, sample_of
from kpca.plots._models import facts_of
from kpca.plots.axes import (
    BAR,
    FAINT,
    INK,
    LONG_CLASS,
    SMALL,
    FloatArray,
    dot_size,
    factored,
    headline,
    how_many,
    leave_room,
    named,
    names_of,
    numbers_of,
    panels_for,
    plain,
    power_of,
    short,
    tidy,
    times,
    without,
)

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
    found = _arrows(source, X, y, components, names)
    P = numbers_of("positions", found.positions, 2)  # shape: (m, 2)
    A = numbers_of("arrows", found.arrows, 3)  # shape: (m, 2, v)
    if P.shape[1] != 2 or A.shape[:2] != P.shape:
        raise InputError(f"A biplot needs arrows of two components at each of its rows; got {P.shape} and {A.shape}.")
    called = names_of(found.names, A.shape[2])
    labels = labels_of(y, len(P))
    power = power_of(P)  # arrows are changes of the same scores
    P, A = without(P, power), without(A, power)
    chosen = None if variable is None else _number(variable, found.names, A.shape[2])
    shown = how_many(n)
    scaled = labels is not None and labels.codes is None  # has a colour bar
    figure, (axes,) = panels_for(ax, 1, 7.9 if scaled else 6.8, 6.7)
    points = _rows(axes, P, labels)
    if points is not None and labels is not None:
        words = plain(labels.meaning, 40) + times(labels.power)
        figure.colorbar(points, ax=axes, shrink=0.8).set_label(words, color=INK)
    axes.set_xlabel(_axis(source, found, components, 0) + times(power))
    axes.set_ylabel(_axis(source, found, components, 1) + times(power))
    axes.set_box_aspect(1)
    axes.set_aspect("equal", adjustable="datalim")
    tidy(axes, grid="both")
    if labels is not None and labels.codes is not None:
        _name_classes(axes, P, labels)
    if chosen is None:
        mean = without(numbers_of("mean", found.mean, 2), power)  # shape: (2, v)
        order = np.argsort(-np.hypot(*mean), kind="stable")[:shown]
        headline(axes, f"Biplot: {len(order)} of {len(called)} variables, {len(P):,} rows", **_TITLE)
        _means(axes, P, mean[:, order], [called[j] for j in order], _unit(found))
    else:
        _field(axes, P, A[:, :, chosen], called[chosen], _unit(found))
        headline(axes, f"Where {called[chosen]} moves the rows", **_TITLE)
    return figure


def _rows(axes: Axes, P: FloatArray, labels: Labels | None) -> Any:
    """Draw the rows, lightly: the arrows are what is read first. Of many rows shades, and some dots of classes."""
    rows: Any = slice(None)
    if len(P) >= _MANY:
        values = None if labels is None or labels.values is None else labels.values
        there = slice(None) if values is None else ~np.isnan(values)
        known = None if values is None else values[there]
        shaded = density(axes, P[there, 0], P[there, 1], known, equal=True, faint=True)
        if labels is None or labels.codes is None:
            return None if values is None else shaded
        rows = sample_of(labels, _DOTS, 40)
    area = (0.6 if labels is None else 0.9) * dot_size(len(P))
    some = None if labels is None else labels.only(rows)
    points = dots(axes, P[rows, 0], P[rows, 1], some, area=area, names=0, colour=_DOT)
    for drawn in axes.collections:
        drawn.set_alpha(0.6)
    return points


def _name_classes(axes: Axes, P: FloatArray, labels: Labels) -> None:
    middles = class_middles(P[:, 0], P[:, 1], labels)
    colours, _ = class_style(labels)
    names = [named(labels.names[number], number, LONG_CLASS) for number in middles]
    styles = [{"fontsize": 9, **class_box(colours[number], 9)} for number in middles]
    place_classes(axes, np.array(list(middles.values())).reshape(-1, 2), names, styles)


def _arrows(source: Any, X: Any, y: Any, components: tuple[int, int], names: Any) -> Any:
    if hasattr(source, "positions"):
        return source
    # a sample of the rows has no labels: what has labels is shown whole
    whole: dict[str, Any] = {} if y is None else {"max_rows": max(len(y), 1)}
    return explain.arrows(source, X, components=components, names=names, **whole)


def _axis(source: Any, found: Any, components: tuple[int, int], which: int) -> str:
    """Return the name of an axis; a model knows its share of the variance too."""
    number = tuple(getattr(found, "components", components))[which]
    return facts_of(source).axis_name(number) if source is not found else f"component {number + 1}"


def _unit(found: Any) -> str:
    return " standard deviations" if getattr(found, "scaled", False) else ""


def _number(variable: Any, names: Any, count: int) -> int:
    """Return the number of a variable that is given by its name or its number."""
    known = [f"x{j}" for j in range(count)] if names is None else [str(name) for name in names]
    if isinstance(variable, str) and variable in known:
        return known.index(variable)
    if isinstance(variable, int | np.integer) and not isinstance(variable, bool) and 0 <= variable < count:
        return int(variable)
    raise InputError(
        f"variable must be the name of one of {count} variables, {known[0]!r} for instance, or its number; "
        f"got {variable!r}."
    )


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
        _note(axes, "no variable moves the rows on average")
        return
    extent = np.abs(P - middle).max(axis=0)
    step = _round_step(_REACH * float(extent.max() or 1.0) / longest)
    tips = middle + step * mean.T  # shape: (n, 2)
    for tip in tips:
        axes.annotate(
            "",
            xy=tuple(tip),
            xytext=tuple(middle),
            arrowprops={"arrowstyle": "-|>", "color": INK, "linewidth": 1.3, "shrinkA": 0, "shrinkB": 0},
            zorder=4,
        )
    axes.update_datalim(tips)
    axes.autoscale_view()
    axes.margins(0.12)
    _note(axes, f"arrows: mean change of the scores for a step of +{step:g}{unit} in a variable")
    place_names(axes, tips, tips - middle, names)


def _field(axes: Axes, P: FloatArray, arrows: FloatArray, name: str, unit: str) -> None:
    """Draw the arrows of one variable at rows that are spread over the plane."""
    rows = _spread(P)
    lengths = np.hypot(*arrows[rows].T)
    typical = float(np.quantile(lengths, 0.9))
    if typical == 0.0:
        _note(axes, f"{name} moves none of these rows")
        return
    cell = float(np.ptp(P, axis=0).max()) / _CELLS or 1.0
    step = _round_step(_FIELD * cell / typical)
    axes.update_datalim(P[rows] + step * arrows[rows])
    axes.autoscale_view()
    axes.quiver(
        *P[rows].T,
        *(step * arrows[rows]).T,
        angles="xy",
        scale_units="xy",
        scale=1.0,
        width=0.0035,
        color=INK,
        zorder=4,
    )
    _note(axes, f"arrows: change of the scores for a step of +{step:g}{unit} in {name}")


def _spread(P: FloatArray) -> NDArray[np.intp]:
    """Return one row of each cell of a grid over the plane, the first that is in it."""
    low, size = P.min(axis=0), float(np.ptp(P, axis=0).max()) or 1.0
    cells = np.minimum((P - low) / size * _CELLS, _CELLS - 1).astype(np.intp)
    _, first = np.unique(cells[:, 0] * _CELLS + cells[:, 1], return_index=True)
    return np.sort(first)


def _note(axes: Axes, text: str) -> None:
    axes.annotate(
        text, (0.0, 1.0), xycoords="axes fraction", xytext=(2, 3), textcoords="offset points", fontsize=SMALL, color=INK
    )


# -- Which variables matter to a model, and which change each other's effect: bars and heat maps ----------------------

if TYPE_CHECKING:
    from kpca.plots.axes import Axes, Figure

_MAP = "Blues"  # from light to dark, in grey too
_WIDTH = 34  # letters of a line beside a scale
_MOST_CELLS, _ACROSS = 230, 20  # of a heat map, in all and beside each other: more have no room for numbers


def importance(found: Any, *, n: int = 20, by_component: bool = False, ax: Any = None) -> Figure:
    """Return the importance of the variables that matter most, overall as bars or per component as a heat map.

    Parameters
    ----------
    found : what `kpca.explain.importance` or `kpca.explain.permutation_importance` returned: an object with `names`,
        `values` (d,) and `by_component` (c, d). Standard deviations, `deviations` (d,), are drawn as whiskers.
    n : variables to show, at most.
    by_component : show a heat map of variables by components in the place of bars.
    ax : axes to draw into; None is a new figure.
    """
    values = numbers_of("importance", getattr(found, "values", None), 1)
    names = names_of(found.names, len(values))
    order = np.argsort(-values, kind="stable")[: how_many(n)]
    labels = [names[j] for j in order]
    title = f"Importance of {len(order)} of {len(values)} variables"
    if by_component:
        return _map_of_components(found, order, labels, title, ax)
    figure, (axes,) = panels_for(ax, 1, 7.0, 1.3 + 0.26 * len(order))
    spread = getattr(found, "deviations", np.zeros_like(values))
    lengths, meaning = factored(np.array([values[order], spread[order]]), _meaning(found))
    axes.set_xlabel(meaning)
    _bars(axes, labels, *lengths)
    headline(axes, title, fontweight="bold")
    return figure


def _map_of_components(found: Any, order: NDArray[np.intp], labels: list[str], title: str, ax: Any) -> Figure:
    each = np.maximum(numbers_of("importance by component", found.by_component, 2), 0.0)
    if each.shape[1] != len(found.values):
        raise InputError(f"by_component must have a column for each of {len(found.values)} names; got {each.shape}.")
    wide = float(np.clip(2.0 + 0.08 * max(map(len, labels)) + 0.5 * len(each), 4.8, 12.0))
    figure, (axes,) = panels_for(ax, 1, wide, max(1.5 + 0.28 * len(order), 3.6))
    heat(axes, each[:, order].T, _meaning(found))
    axes.set_yticks(range(len(order)), labels)
    axes.set_xlabel("component")
    numbers = np.asarray(getattr(found, "components", np.arange(len(each))))
    some = range(0, len(each), -(-len(each) // 24))
    axes.set_xticks(some, [str(numbers[j] + 1) for j in some])
    headline(axes, title, settle=True, fontweight="bold")
    return figure


def _meaning(found: Any) -> str:
    """Return what the figures of an importance are."""
    if hasattr(found, "deviations"):
        return "share of the variance lost when it is shuffled"
    return f"mean change of the scores per {'standard deviation' if getattr(found, 'scaled', False) else 'unit'}"


def interactions(found: Any, *, n: int = 15, ax: Any = None) -> Figure:
    """Return how strongly pairs of variables interact, as a heat map of those that take part in the strongest ones.

    The diagonal stays empty. Pairs that a null says are weaker than those of permuted columns count as none.

    Parameters
    ----------
    found : an object with `names` and `values` (v, v), as `kpca.explain.interactions` returns it.
    n : variables to show, at most.
    ax : axes to draw into; None is a new figure.
    """
    pairs = np.maximum(numbers_of("interactions", getattr(found, "values", None), 2), 0.0)
    if pairs.shape[0] != pairs.shape[1] or len(pairs) < 2:
        raise InputError(f"interactions must be a square array of 2 or more variables; got shape {pairs.shape}.")
    names = names_of(found.names, len(pairs))
    np.fill_diagonal(pairs, 0.0)
    order = np.argsort(-pairs.max(axis=1), kind="stable")[: max(how_many(n), 2)]
    shown = pairs[np.ix_(order, order)]
    np.fill_diagonal(shown, np.nan)
    labels = [names[j] for j in order]
    size = max(2.2 + 0.38 * len(order), 4.2)
    figure, (axes,) = panels_for(ax, 1, size + 0.7, size)
    above = "" if getattr(found, "null", None) is None else ", above that of permuted columns"
    heat(axes, shown, f"strength of the {getattr(found, 'measure', '')} interaction{above}".replace("  ", " "))
    axes.set_box_aspect(1)
    axes.set_yticks(range(len(order)), labels)
    axes.set_xticks(range(len(order)), labels, rotation=90)
    for j in range(len(order)):
        axes.plot([j - 0.5, j + 0.5], [j - 0.5, j + 0.5], color=FAINT, linewidth=0.8)
    headline(axes, f"Interactions of {len(order)} of {len(names)} variables", settle=True, fontweight="bold")
    return figure


def _bars(axes: Axes, labels: list[str], values: FloatArray, spread: FloatArray) -> None:
    places = np.arange(len(values))
    axes.barh(places, values, height=0.72, color=BAR)
    if spread.any():
        axes.errorbar(values, places, xerr=spread, fmt="none", ecolor=INK, elinewidth=1.2, capsize=2.5)
    for place, value, more in zip(places, values, spread, strict=True):
        axes.annotate(
            short(float(value)),
            (max(float(value), 0.0) + float(more), float(place)),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            fontsize=SMALL,
            color=INK,
            in_layout=False,  # there will be room for it
        )
    axes.set_yticks(places, labels)
    axes.set_ylim(len(values) - 0.4, -0.6)
    axes.locator_params(axis="x", nbins=6)
    tidy(axes, grid="x")
    leave_room(axes, np.concatenate([values - spread, np.maximum(values, 0.0) + spread]))


def heat(axes: Axes, values: FloatArray, meaning: str) -> None:
    """Draw numbers from 0 up as shades, with a scale beside; a few are written into their cells too."""
    values, meaning = factored(values, meaning)
    top = float(np.nanmax(values)) or 1.0
    digits = max(1 - int(np.floor(np.log10(top))), 0)
    image = axes.imshow(values, cmap=_MAP, vmin=0.0, vmax=top, aspect="auto", interpolation="nearest")
    bar = axes.figure.colorbar(image, ax=axes, shrink=0.85, pad=0.02)
    bar.set_label(textwrap.fill(meaning, _WIDTH), fontsize=SMALL + 1, color=INK)
    bar.outline.set_visible(False)
    axes.spines[:].set_visible(False)
    axes.tick_params(colors=INK, length=0, labelsize=SMALL + 1)
    if values.size > _MOST_CELLS or values.shape[1] > _ACROSS:
        return
    for (i, j), value in np.ndenumerate(values):
        if np.isfinite(value):
            tone = "white" if value > 0.65 * top else INK
            axes.text(j, i, f"{value:.{digits}f}", ha="center", va="center", fontsize=SMALL - 1, color=tone)
