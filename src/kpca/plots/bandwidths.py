"""The picture of a path of bandwidths or degrees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kpca.plots._axes import BAR, COLOURS, INK, SMALL, new_figure, tidy

if TYPE_CHECKING:
    from kpca.plots._axes import Axes, Figure
    from kpca.selection import Path


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
    figure = new_figure(7.0, 7.6 if judged else 5.6)
    panels = figure.subplots(3 if judged else 2, 1, sharex=True)
    _path_shares(panels[0], found)
    spread = found.participation / max(found.n_rows - 1, 1)
    panels[1].plot(found.values, found.alignment, color=COLOURS[0], marker="o", markersize=3, label="linear: alignment")
    panels[1].plot(
        found.values,
        spread,
        color=COLOURS[1],
        marker="s",
        markersize=3,
        linestyle="--",
        label="lost: participation ratio / (n − 1)",
    )
    panels[1].set(ylabel="from 0 to 1", ylim=(-0.03, 1.05))
    panels[1].legend(frameon=False, loc="center left")
    if found.scores is not None:
        _path_scores(panels[2], found)
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


def _path_shares(axes: Axes, found: Path) -> None:
    """Draw the shares of the first components on top of each other: the upper edge is what all explain together."""
    shares = np.nan_to_num(found.explained_variance_ratio)
    edges = np.column_stack([np.zeros(len(shares)), np.cumsum(shares, axis=1)])
    k = shares.shape[1]
    for j in range(k):
        shade = 0.25 + 0.65 * j / max(k - 1, 1)
        axes.fill_between(found.values, edges[:, j], edges[:, j + 1], color=BAR, alpha=1.0 - shade, linewidth=0)
        axes.plot(found.values, edges[:, j + 1], color=INK, linewidth=0.5)
    axes.set(ylabel="share of variance", ylim=(0.0, 1.02))
    words = f"components 1 to {k}, the first at the bottom" if k > 1 else "component 1"
    place: dict[str, Any] = {"xycoords": "axes fraction", "xytext": (0, 4), "textcoords": "offset points"}
    axes.annotate(words, (1.0, 1.0), ha="right", va="bottom", fontsize=SMALL, color=INK, **place)


def _path_scores(axes: Axes, found: Path) -> None:
    assert found.scores is not None and found.standard_errors is not None
    axes.plot(found.values, found.scores, color=COLOURS[2], marker="o", markersize=3)
    if np.isfinite(found.standard_errors).any():
        low, high = found.scores - found.standard_errors, found.scores + found.standard_errors
        axes.fill_between(found.values, low, high, color=COLOURS[2], alpha=0.2, linewidth=0)
    axes.axvline(found.best_value, color=INK, linestyle=":", linewidth=1.2)
    axes.annotate(
        f"best: {found.best_value:.3g}",
        (found.best_value, 0.04),
        xycoords=("data", "axes fraction"),
        xytext=(4, 0),
        textcoords="offset points",
    )
    axes.set_ylabel(str(found.criterion))
