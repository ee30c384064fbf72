"""Pictures of a fitted model: its scores and its spectrum."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kpca.errors import InputError
from kpca.plots._axes import BAR, INK, FloatArray, component_name, dot_size, dots, labels_of, new_figure, tidy

if TYPE_CHECKING:
    from kpca.kernel_pca import KernelPCA
    from kpca.plots._axes import Axes, Figure


def scores(model: KernelPCA, X: Any, y: Any = None, components: tuple[int, int] = (0, 1)) -> Figure:
    """Return a scatter of the scores of the rows of X on two components.

    Parameters
    ----------
    model : a fitted KernelPCA.
    X : rows to show; what `model.transform` takes.
    y : a class or a number per row, shown as colour; at most ten different values are classes, more numbers a scale.
    components : the two components, counted from 0.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kpca import KernelPCA, plots
    >>> X, y = load_iris(return_X_y=True)
    >>> figure = plots.scores(KernelPCA(3, kernel="rbf", gamma="median").fit(X), X, y)
    >>> figure.axes[0].get_xlabel()
    'component 1 (69.7 % of variance)'
    """
    figure = new_figure(6.4, 6.0)
    _scatter(figure.add_subplot(), model, np.asarray(model.transform(X)), labels_of(y, X), components)
    return figure


def spectrum(model: KernelPCA) -> Figure:
    """Return the share of variance of each component, with its certified bounds."""
    figure = new_figure(6.4, 4.0)
    _bars(figure.add_subplot(), model)
    return figure


def overview(model: KernelPCA, scores: FloatArray, labels: Any = None) -> Figure:
    """Return the scores on the first two components beside the spectrum.

    Parameters
    ----------
    model : a fitted KernelPCA with at least two components.
    scores : what `model.fit_transform` or `model.transform` returned.  # shape: (m, k)
    labels : a class or a number per row, as `y` of `plots.scores`.
    """
    figure = new_figure(10.5, 6.0)
    left, right = figure.subplots(1, 2, width_ratios=(1.75, 1.0))
    _scatter(left, model, scores, labels_of(labels, scores), (0, 1))
    _bars(right, model)
    return figure


def _scatter(
    axes: Axes, model: KernelPCA, scores: FloatArray, labels: NDArray[Any] | None, components: tuple[int, int]
) -> None:
    first, second = components
    if not (0 <= first < scores.shape[1] and 0 <= second < scores.shape[1]):
        raise InputError(f"components must be two of 0 to {scores.shape[1] - 1}; got {components}.")
    x, y = scores[:, first], scores[:, second]
    points = dots(axes, x, y, labels, area=dot_size(len(x)), names=11)
    if points is not None:
        axes.figure.colorbar(points, ax=axes, shrink=0.8)
    axes.set_xlabel(component_name(model, first))
    axes.set_ylabel(component_name(model, second))
    axes.set_title(f"Scores of {len(x):,} rows", loc="left", fontweight="bold")
    axes.set_box_aspect(1)
    tidy(axes, grid="both")


def _bars(axes: Axes, model: KernelPCA) -> None:
    """Draw the share of variance of each component; a whisker shows its bounds, where they are wide enough to see."""
    share = 100.0 * np.asarray(model.explained_variance_ratio_, dtype=np.float64)
    total = float(model.eigenvalues_[0] / model.explained_variance_ratio_[0]) if share.any() else 1.0
    bounds = 100.0 * np.asarray(model.eigenvalue_bounds_) / total
    number = np.arange(1, len(share) + 1)
    gaps = np.maximum([share - bounds[:, 0], bounds[:, 1] - share], 0.0)  # shape: (2, k)
    wide = gaps.sum(axis=0) > 0.005 * share.max(initial=0.0)
    axes.bar(number, share, width=0.72, color=BAR)
    if wide.any():
        axes.errorbar(number[wide], share[wide], yerr=gaps[:, wide], fmt="none", ecolor=INK, elinewidth=1.2, capsize=3)
    axes.set_xlabel("component")
    axes.set_ylabel("variance explained (%)")
    axes.set_title(f"Spectrum: {share.sum():.0f} % in {len(share)} components", loc="left", fontweight="bold")
    axes.locator_params(axis="x", nbins=12, steps=[1, 2, 5, 10], integer=True)
    axes.set_xlim(0.3, len(share) + 0.7)
    axes.set_ylim(bottom=0)
    tidy(axes, grid="y")
