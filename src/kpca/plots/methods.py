"""Embeddings by many methods, side by side."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kpca.planning.result import time_words
from kpca.plots._axes import COLOURS, FAINT, INK, SMALL, class_legend, dot_size, dots, labels_of, new_figure

if TYPE_CHECKING:
    from kpca.comparison import Comparison, MethodResult
    from kpca.plots._axes import Axes, Figure

_ACROSS = 4  # panels of a comparison side by side
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
    labels = labels_of(y, np.empty((result.shape[0], 0)))
    figure = new_figure(2.7 * across + 0.3, 3.05 * down + 0.1)
    layout: Any = figure.get_layout_engine()
    layout.set(w_pad=0.08, h_pad=0.08, rect=(0.0, 0.0, 1.0, 1.0 - 0.06 / down))  # room above the first titles
    panels = figure.subplots(down, across, squeeze=False).ravel()
    points = None
    # names at the middle of their classes, unless they would cover each other and the dots
    classes = np.unique(labels) if labels is not None else np.empty(0)
    apart = len(classes) > len(COLOURS) or all(len(str(name)) <= _SHORT for name in classes)
    for axes, row in zip(panels, result.rows, strict=False):
        points = _embedding(axes, row, labels, names=SMALL - 1 if apart else 0) or points
    for axes in panels[count:]:
        axes.remove()
    if points is not None:
        figure.colorbar(points, ax=list(panels[:count]), shrink=0.6, aspect=40, pad=0.01)
    elif not apart:
        class_legend(figure, classes)
    return figure


def _embedding(axes: Axes, row: MethodResult, labels: NDArray[Any] | None, *, names: int) -> Any:
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
    points = dots(axes, E[:, 0], second, labels, area=dot_size(len(E)) / 3.0, names=names)
    axes.set_aspect("equal", adjustable="datalim")
    kept = "" if row.trustworthiness is None else f"trustworthiness {row.trustworthiness:.2f}, "
    axes.text(0.0, 1.03, kept + time_words(row.seconds or 0.0), ha="left", va="bottom", **style)
    return points
