"""Which variables matter, which change each other's effect, and which are behind an alarm: bars and heat maps."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

from kpca._base.errors import InputError
from kpca.plots._given import FloatArray, factored, how_many, numbers_of, short, whole
from kpca.plots.axes import BAR, COLOURS, FAINT, INK, SMALL, headline, lay_out, names_of, note, panels_for, tidy

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
        each = np.maximum(numbers_of("importance by component", found.by_component, 2), 0.0)
        if each.shape[1] != len(values):
            raise InputError(f"by_component must have a column for each of {len(values)} names; got {each.shape}.")
        wide = float(np.clip(2.0 + 0.08 * max(map(len, labels)) + 0.5 * len(each), 4.8, 12.0))
        figure, (axes,) = panels_for(ax, 1, wide, max(1.5 + 0.28 * len(order), 3.6))
        _heat(axes, each[:, order].T, _meaning(found))
        axes.set_yticks(range(len(order)), labels)
        axes.set_xlabel("component")
        numbers = np.asarray(getattr(found, "components", np.arange(len(each))))
        some = range(0, len(each), -(-len(each) // 24))
        axes.set_xticks(some, [str(numbers[j] + 1) for j in some])
        headline(axes, title, settle=True, fontweight="bold")
        return figure
    figure, (axes,) = panels_for(ax, 1, 7.0, 1.3 + 0.26 * len(order))
    spread = getattr(found, "deviations", np.zeros_like(values))
    lengths, meaning = factored(np.array([values[order], spread[order]]), _meaning(found))
    axes.set_xlabel(meaning)
    _bars(axes, labels, *lengths)
    headline(axes, title, fontweight="bold")
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
    _heat(axes, shown, f"strength of the {getattr(found, 'measure', '')} interaction{above}".replace("  ", " "))
    axes.set_box_aspect(1)
    axes.set_yticks(range(len(order)), labels)
    axes.set_xticks(range(len(order)), labels, rotation=90)
    for j in range(len(order)):
        axes.plot([j - 0.5, j + 0.5], [j - 0.5, j + 0.5], color=FAINT, linewidth=0.8)
    headline(axes, f"Interactions of {len(order)} of {len(names)} variables", settle=True, fontweight="bold")
    return figure


def _bars(
    axes: Axes, labels: list[str], values: FloatArray, spread: FloatArray | None = None, *, others: int = 0
) -> None:
    """Draw bars from zero, the first at the top, each with its number; the last `others` stand for no variable.

    With `spread` they have whiskers; without, they are signed, and hatching too marks the negative ones.
    """
    places, signed = np.arange(len(values)), spread is None
    colours = [_DOWN if signed and value < 0.0 else BAR for value in values]
    colours[len(values) - others :] = [_REST] * others
    drawn = axes.barh(places, values, height=0.72, color=colours, edgecolor="white", linewidth=0.0)
    ends = values
    if spread is not None:
        ends = np.maximum(values, 0.0) + spread
        if spread.any():
            axes.errorbar(values, places, xerr=spread, fmt="none", ecolor=INK, elinewidth=1.2, capsize=2.5)
    for patch, place, value, end in zip(drawn, places, values, ends, strict=True):
        left = signed and value < 0.0
        if left:
            patch.set_hatch("////")
        gap, side = (-4, "right") if left else (4 if signed else 5, "left")
        style: dict[str, Any] = {"ha": side, "va": "center", "in_layout": False}  # there will be room for it
        note(axes, short(float(value), sign=signed), (float(end), float(place)), (gap, 0), **style)
    if signed:
        axes.axvline(0.0, color=INK, linewidth=0.9)
    axes.set_yticks(places, labels)
    axes.set_ylim(len(values) - 0.4, -0.6)
    axes.locator_params(axis="x", nbins=6)
    tidy(axes, grid="x")
    # leave room for bars from 0 and for the texts at their ends
    reached = values if spread is None else np.concatenate([values - spread, ends])
    low, high = min(float(reached.min()), 0.0), max(float(reached.max()), 0.0)
    axes.set_xlim(low, high if high > low else 1.0)
    lay_out(axes)  # now it is known how wide the axes are
    width = axes.get_window_extent().width
    text = max(label.get_window_extent().width for label in axes.texts) + 8.0 / 72.0 * axes.figure.canvas.figure.dpi
    before, after = (text if low < 0.0 else 0.0), (text if high > 0.0 or low == 0.0 else 0.0)
    scale = (high - low or 1.0) / max(width - before - after, 0.2 * width)
    axes.set_xlim(low - scale * before, (high if high > low else 1.0) + scale * after)


def _heat(axes: Axes, values: FloatArray, meaning: str) -> None:
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


# -- What each variable contributes to an alarm: signed bars, the largest first ---------------------------------------

_DOWN, _REST = COLOURS[1], "#BDBDBD"  # bars to the left, and those that stand for no variable
_SHARE_SEEN = 0.01  # of the change of the score: a gap above it has a bar of its own
_METHODS = {"integrated": "integrated gradients", "gradient": "gradient × difference"}
_WORDS = {"t2": "T²", "spe": "SPE", "combined": "combined statistic"}


def contributions(found: Any, *, row: int | None = None, n: int = 15, ax: Any = None) -> Figure:
    """Return the largest contributions of the variables to a statistic, as bars to the right (up) and left (down).

    The variables that have no bar are summed up in "others", and what the contributions together miss of the change,
    if that can be seen, in "not attributed": all bars together are the score less that of the baseline.

    Parameters
    ----------
    found : the contributions of rows: an object with `names`, `values` (m, d), `score` (m,), `baseline_score` (a number
        or one per row), `statistic` and `method`, as `KernelPCADetector.contributions` returns it.
    row : the row to show, counted from 0; None is the mean over all rows.
    n : bars for variables, at most.
    ax : axes to draw into; None is a new figure.
    """
    values: Any = getattr(found, "values", None)
    if np.ndim(values) != 2:
        raise InputError(f"contributions must be an array of rows by variables; got {values!r}.")
    count, width = np.shape(values)
    names = names_of(found.names, width)
    rows = slice(None)
    if row is not None:
        row = whole("row", row, f"a number from 0 to {count - 1}, or None for their mean", 0, count - 1)
        rows = slice(row, row + 1)
    mean = numbers_of("contributions", np.asarray(values)[rows], 2).mean(axis=0)  # shape: (d,)
    reached = float(np.broadcast_to(found.score, (count,))[rows].mean())
    start = float(np.broadcast_to(found.baseline_score, (count,))[rows].mean())
    most, order = how_many(n), np.argsort(-np.abs(mean), kind="stable")
    kept = order[: most if most + 1 < width else width]  # one more if it would be the only other
    labels, bars = [names[j] for j in kept], [float(mean[j]) for j in kept]
    left_over = width - len(kept)
    if left_over:
        labels.append(f"others ({left_over})")
        bars.append(float(mean.sum() - mean[kept].sum()))
    gap = reached - start - float(mean.sum())
    if abs(gap) > _SHARE_SEEN * max(abs(reached - start), _SHARE_SEEN * float(np.abs(mean).max())):
        labels.append("not attributed")
        bars.append(gap)
    figure, (axes,) = panels_for(ax, 1, 7.0, 1.5 + 0.26 * len(bars))
    name = _WORDS.get(str(found.statistic), str(found.statistic))
    who = f"Mean of {count:,} rows" if count > 1 and row is None else f"Row {row or 0}"
    method = _METHODS.get(str(found.method), str(found.method))
    baseline = getattr(found, "baseline_name", "the baseline")
    lengths, meaning = factored(np.array(bars), f"contribution to the {name}, by {method}\nfrom {baseline}")
    axes.set_xlabel(meaning)
    _bars(axes, labels, lengths, others=len(bars) - len(kept))
    headline(axes, f"{who}: {name} {short(reached)}, baseline {short(start)}", fontweight="bold")
    return figure
