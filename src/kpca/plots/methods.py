"""Embeddings by many methods, side by side."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

from kpca.planning.result import time_words
from kpca.plots._axes import FAINT, INK, SMALL, FloatArray, dot_size, new_figure, plain, power_of, times, without
from kpca.plots._cloud import class_legend, density, dots
from kpca.plots._labels import Labels, labels_of, sample_of

if TYPE_CHECKING:
    from kpca.comparison import Comparison, MethodResult
    from kpca.plots._axes import Axes, Figure

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
    figure = new_figure(2.7 * across + 0.3, 3.05 * down + 0.1)
    layout: Any = figure.get_layout_engine()
    layout.set(w_pad=0.08, h_pad=0.08, rect=(0.0, 0.0, 1.0, 1.0 - 0.06 / down))  # room above the first titles
    panels = figure.subplots(down, across, squeeze=False).ravel()
    points = None
    # names at the middle of their classes, unless they would cover each other and the dots
    classes = labels if labels is not None and labels.codes is not None else None
    apart = classes is None or all(len(name) <= _SHORT for name in classes.names)
    for axes, row in zip(panels, result.rows, strict=False):
        points = _embedding(axes, row, labels, names=SMALL - 1 if apart else 0) or points
    for axes in panels[count:]:
        axes.remove()
    if points is not None:
        bar = figure.colorbar(points, ax=list(panels[:count]), shrink=0.6, aspect=40, pad=0.01)
        if labels is not None:
            bar.set_label(plain(labels.meaning, 40) + times(labels.power), color=INK)
    elif classes is not None and not apart:
        class_legend(figure, classes)
    return figure


def _cloud(axes: Axes, x: FloatArray, y: FloatArray, labels: Labels | None, names: int) -> tuple[Any, str]:
    """Draw rows: all of a few, of many how dense they are, or some of each class; return a scale, and what to note."""
    if len(x) < _MANY or (labels is not None and labels.codes is None and len(x) <= 5 * _MANY):
        return dots(axes, x, y, labels, area=dot_size(len(x)) / 3.0, names=names), ""
    if labels is None:
        density(axes, x, y, equal=True)
        return None, ""
    if labels.codes is None:
        rows = np.random.default_rng(0).choice(len(x), _MANY, replace=False)
    else:
        rows = sample_of(labels, _DOTS, 40)
    return dots(axes, x[rows], y[rows], labels.only(rows), area=2.5, names=names), f", {len(rows):,} dots"


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
    points, shown = _cloud(axes, first, second, labels, names)
    axes.set_aspect("equal", adjustable="datalim")
    kept = "" if row.trustworthiness is None else f"trustworthiness {row.trustworthiness:.2f}, "
    axes.text(0.0, 1.03, kept + time_words(row.seconds or 0.0) + shown, ha="left", va="bottom", **style)
    return points
