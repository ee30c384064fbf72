"""Pictures of a fitted model: its scores and its spectrum."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kpca.plots._axes import FloatArray, new_figure
from kpca.plots._cloud import class_legend
from kpca.plots.embedding import EmbeddingDisplay
from kpca.plots.scree import SpectrumDisplay

if TYPE_CHECKING:
    from kpca.plots._axes import Figure


def scores(model: Any, X: Any, y: Any = None, components: Any = None, **options: Any) -> Figure:
    """Return the scores of the rows of X on two components, on one or on three.

    Parameters
    ----------
    model : a fitted model, or a pipeline that ends in one.
    X : rows to show; what `model.transform` takes.
    y : a class or a number per row; at most ten different values are classes, more numbers a scale.
    components : counted from 0; None is the first two.
    options : those of `EmbeddingDisplay.from_estimator` and its `plot`: ids, density, annotate, ax and so on.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kpca import KernelPCA, plots
    >>> X, y = load_iris(return_X_y=True)
    >>> figure = plots.scores(KernelPCA(3, kernel="rbf", gamma="median").fit(X), X, y)
    >>> figure.axes[0].get_xlabel()
    'component 1 (69.7 % of variance)'
    """
    return EmbeddingDisplay.from_estimator(model, X, y, components=components, **options).figure_


def spectrum(model: Any, **options: Any) -> Figure:
    """Return the share of variance of each component, with its certified bounds, and what they are together.

    `options` are those of `SpectrumDisplay.plot`: log, cumulative, n, ax.
    """
    return SpectrumDisplay.from_estimator(model, **options).figure_


def overview(model: Any, scores: FloatArray, labels: Any = None, *, ids: Any = None) -> Figure:
    """Return the scores on the first two components beside the spectrum.

    Parameters
    ----------
    model : a fitted model, or a pipeline that ends in one.
    scores : what `model.fit_transform` or `model.transform` returned.  # shape: (m, k)
    labels : a class or a number per row, as `y` of `plots.scores`.
    ids : what the rows are called.
    """
    figure = new_figure(11.0, 6.0)
    left, right = figure.subplots(1, 2, width_ratios=(1.75, 1.0))
    left.set_box_aspect(1)
    display = EmbeddingDisplay.from_scores(scores, labels, model=model, ids=ids, ax=left, legend=False)
    if display.labels is not None and display.labels.codes is not None:
        class_legend(figure, display.labels, counts=True)
    SpectrumDisplay.from_estimator(model, ax=right)
    return figure
