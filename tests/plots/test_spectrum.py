"""Spectra: bars where the shares are, bounds where they are, and what the components explain together."""

from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kpca import IncrementalKernelPCA, InputError, KernelPCA, Nystroem, RandomFeatures, plots
from kpca.plots import SpectrumDisplay

X = load_iris().data


def model(k: int = 6, **options: Any) -> KernelPCA:
    return KernelPCA(k, kernel="rbf", gamma="median", **options).fit(X)


def heights(display: SpectrumDisplay) -> list[float]:
    return [bar.get_height() for bar in display.bars_]


def words(display: SpectrumDisplay) -> list[str]:
    return [text.get_text() for text in display.ax_.get_legend().get_texts()]


def test_shares_and_their_sums() -> None:
    fitted = model()
    display = SpectrumDisplay.from_estimator(fitted, X)
    share = 100 * fitted.explained_variance_ratio_
    np.testing.assert_allclose(heights(display), share)
    np.testing.assert_allclose(display.cumulative_.get_ydata(), np.cumsum(share))
    np.testing.assert_array_equal(display.cumulative_.get_xdata(), np.arange(1, 7))
    assert display.cumulative_.get_linestyle() == "--"  # known without its colour
    assert display.ax_.get_ylabel() == "variance explained (%)"
    assert display.cumulative_ax_.get_ylabel() == "cumulative variance (%)"
    assert display.whiskers_ is None  # too near to be seen
    assert words(display) == ["share", "cumulative (right)"]
    assert SpectrumDisplay.from_estimator(fitted, cumulative=False).cumulative_ is None


@pytest.mark.parametrize("fitted", [make_pipeline(StandardScaler(), KernelPCA(3, kernel="rbf")), PCA(3)])
def test_other_models(fitted: Any) -> None:
    fitted.fit(X)
    final = fitted[-1] if hasattr(fitted, "steps") else fitted
    np.testing.assert_allclose(
        heights(SpectrumDisplay.from_estimator(fitted)), 100 * final.explained_variance_ratio_, rtol=1e-6
    )


@pytest.mark.parametrize(
    "fitted",
    [
        model(5, approximation=Nystroem(rank=12)),
        IncrementalKernelPCA(5, kernel="rbf", gamma="median", approximation=Nystroem(rank=12)).fit(X),
    ],
)
def test_wide_bounds_are_where_they_are(fitted: Any) -> None:
    display = SpectrumDisplay.from_estimator(fitted)
    assert "certified bounds" in words(display)
    _, _, (bars,) = display.whiskers_.lines
    total = fitted.eigenvalues_[0] / fitted.explained_variance_ratio_[0]
    drawn = np.array([segment[:, 1] for segment in bars.get_segments()])
    np.testing.assert_allclose(drawn, 100 * np.asarray(fitted.eigenvalue_bounds_) / total, rtol=1e-6)
    log = display.plot(log=True)
    low, high = log.ax_.get_ylim()
    assert low < 100 * fitted.explained_variance_ratio_.min() and high > 100 * fitted.explained_variance_ratio_.max()


def test_random_features_are_called_an_estimate() -> None:
    display = SpectrumDisplay.from_estimator(model(5, approximation=RandomFeatures(rank=64, random_state=0)))
    assert display.estimate and "estimated bounds" in words(display)
    assert display.ax_.get_title(loc="left").startswith("Estimated spectrum: ")
    assert "estimates" in display.ax_.texts[0].get_text()
    assert not SpectrumDisplay.from_estimator(model()).estimate


def test_two_hundred_components() -> None:
    values = 1.0 / np.arange(1, 201)
    bounds = np.column_stack([values, values + 0.1])
    display = SpectrumDisplay.from_eigenvalues(values, total=8.0, bounds=bounds)
    assert len(display.bars_) == 200 and display.bars_[0].get_width() == 1.0
    vertices = display.whiskers_.get_paths()[0].vertices  # one band in the place of 200 whiskers
    assert vertices[:, 1].max() == pytest.approx(100 * 1.1 / 8.0)
    assert len(display.ax_.get_xticks()) <= 14
    first = display.plot(n=10)
    assert len(first.bars_) == 10 and "the first 10 are shown" in first.ax_.texts[0].get_text()
    assert first.ax_.get_title(loc="left").endswith("in 200 components")


def test_a_spectrum_over_many_decades() -> None:
    values = 10.0 ** -np.arange(30.0)
    values[25:] = 0.0
    display = SpectrumDisplay.from_eigenvalues(values, total=float(values.sum()), log=True)
    assert display.ax_.get_yscale() == "log"
    share = 100 * values / values.sum()
    kept = share > share[0] * 10.0**-18.5
    np.testing.assert_allclose(display.bars_.get_ydata(), share[kept])
    assert f"{(~kept).sum()} without variance are not shown" in display.ax_.texts[0].get_text()


def test_bounds_that_reach_far_or_nowhere() -> None:
    far = SpectrumDisplay.from_eigenvalues([4.0, 1.0], total=1000.0, bounds=[[4.0, 900.0], [1.0, 2.0]])
    assert far.ax_.texts[0].get_text() == "upper bounds reach 90 %" and far.ax_.get_ylim()[1] < 2.0
    none = SpectrumDisplay.from_eigenvalues([4.0, 1.0], total=10.0, bounds=[[4.0, np.inf], [1.0, np.inf]])
    assert none.ax_.texts[0].get_text() == "upper bounds are not known"
    none.figure_.draw_without_rendering()


@pytest.mark.parametrize("values", [[0.0, 0.0], [1.0], [5e-300, 1e-300], [1e200, 1e100], [2.0, 1.0, -0.1]])
@pytest.mark.parametrize("total", [None, 1.0])
@pytest.mark.parametrize("log", [False, True])
def test_any_eigenvalues(values: list[float], total: float | None, log: bool) -> None:
    total = total and max(sum(values), 0.0)
    display = SpectrumDisplay.from_eigenvalues(values, total=total, log=log)
    display.figure_.draw_without_rendering()
    assert np.isfinite(display.ax_.get_ylim()).all()


def test_eigenvalues_without_a_total() -> None:
    display = SpectrumDisplay.from_eigenvalues([3.0, 1.0], bounds=[[2.9, 3.1], [0.5, 1.5]])
    assert heights(display) == [3.0, 1.0] and display.ax_.get_ylabel() == "eigenvalue"
    assert display.cumulative_ is None and display.ax_.get_title(loc="left") == "Spectrum: 2 eigenvalues"


def test_drawn_twice_and_into_axes() -> None:
    display = SpectrumDisplay.from_estimator(model())
    before = heights(display)
    axes = Figure(layout="constrained").subplots()
    assert display.plot(ax=axes).ax_ is axes and heights(display) == before
    assert plots.spectrum(model(), log=True, ax=Figure().subplots()).axes[0].get_yscale() == "log"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SpectrumDisplay.from_eigenvalues([]), "eigenvalues must be finite numbers, 1 or more"),
        (lambda: SpectrumDisplay.from_eigenvalues([np.nan]), "eigenvalues must be finite"),
        (lambda: SpectrumDisplay.from_eigenvalues([1.0], bounds=[1.0]), "a pair per eigenvalue, 1"),
        (lambda: SpectrumDisplay.from_estimator(StandardScaler().fit(X)), "a StandardScaler has none"),
        (lambda: SpectrumDisplay.from_eigenvalues([1.0], n=0), "n must be a whole number"),
        (lambda: SpectrumDisplay.from_eigenvalues([1.0], ax=3), "ax must be matplotlib axes"),
    ],
)
def test_what_is_no_spectrum(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()
