"""Which variables matter to a model, and which change each other's effect: bars and heat maps."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kpca.errors import InputError
from kpca.plots._axes import (
    BAR,
    FAINT,
    INK,
    SMALL,
    FloatArray,
    factored,
    headline,
    how_many,
    leave_room,
    names_of,
    numbers_of,
    panels_for,
    short,
    tidy,
)

if TYPE_CHECKING:
    from kpca.plots._axes import Axes, Figure

_MAP = "Blues"  # from light to dark, in grey too
_WIDTH = 34  # letters of a line beside a scale
_CELLS, _ACROSS = 230, 20  # of a heat map, in all and beside each other: more have no room for numbers


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
    if values.size > _CELLS or values.shape[1] > _ACROSS:
        return
    for (i, j), value in np.ndenumerate(values):
        if np.isfinite(value):
            tone = "white" if value > 0.65 * top else INK
            axes.text(j, i, f"{value:.{digits}f}", ha="center", va="center", fontsize=SMALL - 1, color=tone)
