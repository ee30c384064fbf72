"""The picture of a path shows what the path holds."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

from kpca import plots, selection

pytest.importorskip("matplotlib")
X = load_iris().data


def drawn(axes, number: int) -> np.ndarray:
    return np.asarray(axes.lines[number].get_ydata(), dtype=float)


def test_bandwidths_with_a_criterion() -> None:
    found = selection.path(X, "rbf", grid=[0.01, 0.1, 1.0, 10.0], n_components=3, criterion="reconstruction")
    shares, between, scores = plots.path(found).axes
    assert [axes.get_xscale() for axes in (shares, between, scores)] == ["log"] * 3
    assert np.allclose(drawn(shares, 2), found.explained_variance_ratio.sum(axis=1))
    assert np.allclose(drawn(between, 0), found.alignment)
    assert np.allclose(drawn(between, 1), found.participation / 149)
    assert np.allclose(drawn(scores, 0), found.scores)
    assert scores.lines[1].get_xdata()[0] == found.best_value
    assert scores.get_ylabel() == "reconstruction"


def test_degrees_without_a_criterion() -> None:
    figure = plots.path(selection.path(X, "poly", grid=3, n_components=2))
    assert len(figure.axes) == 2
    assert figure.axes[0].get_xscale() == "linear"
    assert figure.axes[1].get_xlabel() == "degree"


def test_fewer_components_than_asked_for() -> None:
    """Linear data have two components under degree 1: the third is drawn without height."""
    figure = plots.path(selection.path(X[:, :2], "poly", grid=2, n_components=3))
    assert all(np.isfinite(drawn(figure.axes[0], number)).all() for number in range(3))
