"""Embeddings by many methods, side by side."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

from kpca.estimators.plan import time_words
from kpca.plots._cloud import class_legend, density, dot_size, dots
from kpca.plots._given import power_of, without
from kpca.plots._labels import Labels, labels_of, sample_of
from kpca.plots.axes import BAR, COLOURS, FAINT, INK, SMALL, colour_bar, note, panels_for, tidy

if TYPE_CHECKING:
    from kpca.comparison import Comparison, MethodResult
    from kpca.plots.axes import Axes, Figure
    from kpca.selection import Path

_ACROSS = 4  # panels of a comparison side by side
_MANY, _DOTS = 20_000, 4_000  # rows that are too many for dots; dots that are drawn of them
_SHORT = 3  # letters of names that are written into small panels


def comparison(result: Comparison, y: Any = None) -> Figure:
    """Return the embeddings of `kpca.compare` side by side; a method without one shows why.

    Each panel has the same scale on both axes and none written on them: most methods give their coordinates no unit.

    Parameters
    ----------
    result : what `kpca.compare` returned; of more than two components the first two are shown.
    y : a class or a number per row, shown as colour, as `y` of `plots.scores`.

    Examples
    --------
    >>> import kpca
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> figure = kpca.plots.comparison(kpca.compare(X, methods=["PCA", "kernel PCA", "MDS"]), y)
    >>> [axes.get_title(loc="left") for axes in figure.axes]
    ['PCA', 'kernel PCA', 'MDS']
    """
    count = len(result.rows)
    across = min(count, _ACROSS)
    down = -(-count // across)
    labels = labels_of(y, result.shape[0])
    figure, panels = panels_for(None, count, 2.7 * across + 0.3, 3.05 * down + 0.1, across=across)
    layout: Any = figure.get_layout_engine()
    layout.set(w_pad=0.08, h_pad=0.08, rect=(0.0, 0.0, 1.0, 1.0 - 0.06 / down))  # room above the first titles
    points = None
    # names at the middle of their classes, unless they would cover each other and the dots
    classes = labels if labels is not None and labels.codes is not None else None
    apart = classes is None or all(len(name) <= _SHORT for name in classes.names)
    for axes, row in zip(panels, result.rows, strict=True):
        points = _embedding(axes, row, labels, names=SMALL - 1 if apart else 0) or points
    if points is not None and labels is not None:
        colour_bar(figure, points, panels, labels.scale_name(), shrink=0.6, aspect=40, pad=0.01)
    elif classes is not None and not apart:
        class_legend(figure, classes)
    return figure


def _embedding(axes: Axes, row: MethodResult, labels: Labels | None, *, names: int) -> Any:
    """Draw one method of a comparison; return what a colour bar is made for, if anything."""
    axes.set(xticks=[], yticks=[], box_aspect=1)
    axes.spines[:].set(color=FAINT, linewidth=0.8)
    name = textwrap.shorten(row.name, 28, placeholder=" …")
    axes.set_title(name, loc="left", fontsize=10, fontweight="bold", color=INK, pad=17)
    style: dict[str, Any] = {"fontsize": SMALL, "color": INK, "transform": axes.transAxes}
    if row.embedding is None:
        reason = "\n".join(textwrap.wrap(row.error or row.outcome, 32, max_lines=9, placeholder=" …"))
        axes.text(0.5, 0.5, reason, ha="center", va="center", **style)
        return None
    E = np.asarray(row.embedding, dtype=np.float64)
    second = E[:, 1] if E.shape[1] > 1 else np.zeros(len(E))
    power = power_of(E[:, 0], second)
    first, second = without(E[:, 0], power), without(second, power)
    points, shown = None, ""
    if len(E) < _MANY or (labels is not None and labels.codes is None and len(E) <= 5 * _MANY):
        points = dots(axes, first, second, labels, area=dot_size(len(E)) / 3.0, names=names)
    elif labels is None:
        density(axes, first, second, equal=True)
    else:  # some rows, of each class a few
        rows = np.random.default_rng(0).choice(len(E), _MANY, replace=False)
        if labels.codes is not None:
            rows = sample_of(labels, _DOTS, 40)
        points = dots(axes, first[rows], second[rows], labels.only(rows), area=2.5, names=names)
        shown = f", {len(rows):,} dots"
    axes.set_aspect("equal", adjustable="datalim")
    kept = "" if row.trustworthiness is None else f"trustworthiness {row.trustworthiness:.2f}, "
    axes.text(0.0, 1.03, kept + time_words(row.seconds or 0.0) + shown, ha="left", va="bottom", **style)
    return points


# -- The picture of a path of bandwidths or degrees -------------------------------------------------------------------


def path(found: Path) -> Figure:
    """Return a path of bandwidths or degrees: shares of variance, how linear and how spread out, and the criterion.

    Parameters
    ----------
    found : what `kpca.selection.path` returned.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kpca import plots, selection
    >>> X, _ = load_iris(return_X_y=True)
    >>> figure = plots.path(selection.path(X, "rbf", grid=8, n_components=3, criterion="reconstruction"))
    >>> [axes.get_ylabel() for axes in figure.axes]
    ['share of variance', 'from 0 to 1', 'reconstruction']
    """
    judged = found.scores is not None
    figure, panels = panels_for(None, 3 if judged else 2, 7.0, 7.6 if judged else 5.6)
    shares = np.nan_to_num(found.explained_variance_ratio)
    edges, k = np.cumsum(np.insert(shares, 0, 0.0, axis=1), axis=1).T, shares.shape[1]
    for j in range(k):  # on top of each other: the upper edge is what all explain together
        shade = 0.25 + 0.65 * j / max(k - 1, 1)
        panels[0].fill_between(found.values, edges[j], edges[j + 1], color=BAR, alpha=1.0 - shade, linewidth=0)
        panels[0].plot(found.values, edges[j + 1], color=INK, linewidth=0.5)
    panels[0].set(ylabel="share of variance", ylim=(0.0, 1.02))
    words = f"components 1 to {k}, the first at the bottom" if k > 1 else "component 1"
    note(panels[0], words, (1.0, 1.0), (0, 4), xycoords="axes fraction", ha="right", va="bottom")
    spread = found.participation / max(found.n_rows - 1, 1)
    mark: dict[str, Any] = {"marker": "o", "markersize": 3}
    panels[1].plot(found.values, found.alignment, color=COLOURS[0], label="linear: alignment", **mark)
    mark |= {"marker": "s", "linestyle": "--"}
    panels[1].plot(found.values, spread, color=COLOURS[1], label="lost: participation ratio / (n − 1)", **mark)
    panels[1].set(ylabel="from 0 to 1", ylim=(-0.03, 1.05))
    panels[1].legend(frameon=False, loc="center left")
    if found.scores is not None and found.standard_errors is not None:
        panels[2].plot(found.values, found.scores, color=COLOURS[2], marker="o", markersize=3)
        if np.isfinite(found.standard_errors).any():
            low, high = found.scores - found.standard_errors, found.scores + found.standard_errors
            panels[2].fill_between(found.values, low, high, color=COLOURS[2], alpha=0.2, linewidth=0)
        panels[2].axvline(found.best_value, color=INK, linestyle=":", linewidth=1.2)
        place: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "xytext": (4, 0), "textcoords": "offset points"}
        panels[2].annotate(f"best: {found.best_value:.3g}", (found.best_value, 0.04), **place)
        panels[2].set_ylabel(str(found.criterion))
    for axes in panels:
        if found.parameter == "gamma":
            axes.set_xscale("log")
        else:
            axes.locator_params(axis="x", integer=True)
        tidy(axes, grid="y")
        axes.tick_params(which="minor", length=0)
    narrow = " (small: wide and linear; large: narrow)" if found.parameter == "gamma" else ""
    panels[-1].set_xlabel(f"{found.parameter}{narrow}")
    panels[0].set_title(f"{found.kernel} kernel, {found.n_rows:,} rows", loc="left", fontweight="bold")
    return figure
