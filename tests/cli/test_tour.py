"""The demonstration: its data, its race and its pictures."""

import doctest
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris

from kpca import InputError, KernelPCA, plots
from kpca.cli import tour as demo

ROWS = 200


@pytest.fixture(scope="module")
def fitted() -> SimpleNamespace:
    X, labels = demo.load(ROWS)
    model, scores = demo.fit(X)
    return SimpleNamespace(X=X, labels=labels, model=model, scores=scores)


# -- data and tables ------------------------------------------------------------------------------------------------


def test_data_begins_with_the_digits_themselves() -> None:
    digits, labels = load_digits(return_X_y=True)
    X, y = demo.load(2 * len(digits))
    np.testing.assert_array_equal(X[: len(digits)], digits)
    np.testing.assert_array_equal(y, np.tile(labels, 2))
    noise = X[len(digits) :] - digits
    assert 1.9 < noise.std() < 2.1
    np.testing.assert_array_equal(X, demo.load(2 * len(digits))[0])  # another process makes the same


@pytest.mark.parametrize("rows", [-1, 0, 19, 8986])
def test_rows_that_are_not_there(rows: int) -> None:
    with pytest.raises(InputError, match=rf"20 to 8985 rows.*got a request for {rows}\."):
        demo.load(rows)


def test_components_repeat_what_the_model_knows(fitted: SimpleNamespace) -> None:
    eigenvalues, shares, least, most, residuals = demo.components(fitted.model).T
    assert len(eigenvalues) == 10
    np.testing.assert_allclose(eigenvalues, fitted.model.eigenvalues_)
    np.testing.assert_allclose(shares, fitted.model.explained_variance_ratio_)
    np.testing.assert_array_equal(residuals, fitted.model.residuals_)
    # all of the variance is what the whole spectrum sums to
    whole = KernelPCA(kernel="rbf", gamma=fitted.model.gamma_).fit(fitted.X).eigenvalues_
    exact = whole[:10] / whole.sum()
    assert ((least - 1e-12 <= exact) & (exact <= most + 1e-12)).all()


# -- the race -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_race_in_processes_of_their_own(fitted: SimpleNamespace) -> None:
    gamma = float(fitted.model.gamma_)
    ours, theirs = (demo.race(contender, ROWS, gamma) for contender in list(demo.CONTENDERS)[:2])
    np.testing.assert_allclose(ours["eigenvalues"], fitted.model.eigenvalues_)
    assert demo.difference(theirs["eigenvalues"], ours["eigenvalues"]) < 1e-10
    for result in (ours, theirs):
        assert 0 < result["seconds"] < 60
        if Path("/proc/self/status").exists():
            assert result["peak_bytes"] is not None
            assert 0 < result["peak_bytes"] < 2**30


@pytest.mark.parametrize("contender", demo.CONTENDERS)
def test_job_names_the_estimator_it_measures(contender: str) -> None:
    module, eigen_solver = demo.CONTENDERS[contender]
    estimator = demo._estimator(module, eigen_solver, 0.25)
    assert type(estimator).__module__.partition(".")[0] == module.partition(".")[0]
    assert (estimator.gamma, estimator.eigen_solver, estimator.n_components) == (0.25, eigen_solver, 10)


def test_memory_of_another_system_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kpca.comparison.runner._STATUS", Path("no/such/file"))
    assert demo._measured("kpca.estimators.kernel_pca", "auto", 50, 0.001)["peak_bytes"] is None


def test_contender_that_fails_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(demo.CONTENDERS, "nobody", ("no_such_module", "auto"))
    with pytest.raises(RuntimeError, match=r"nobody could not be measured: .*no_such_module"):
        demo.race("nobody", ROWS, 1.0)


def test_difference_is_relative_to_the_largest() -> None:
    assert demo.difference([4.0, 1.0], [4.0, 2.0]) == 0.25


# -- pictures -------------------------------------------------------------------------------------------------------


def test_overview_shows_scores_and_spectrum(fitted: SimpleNamespace) -> None:
    left, right, _ = plots.overview(fitted.model, fitted.scores, fitted.labels).axes  # the last is of the sums
    np.testing.assert_allclose(
        np.sort(left.collections[0].get_offsets()[:, 0]), np.sort(fitted.scores[:, 0]), rtol=1e-12
    )
    share = 100 * fitted.model.explained_variance_ratio_
    assert left.get_xlabel() == f"component 1 ({share[0]:.1f} % of variance)"
    assert left.get_ylabel() == f"component 2 ({share[1]:.1f} % of variance)"
    assert sorted(text.get_text() for text in left.texts) == [str(digit) for digit in range(10)]
    np.testing.assert_allclose([bar.get_height() for bar in right.patches], share)


def test_scores_of_chosen_components() -> None:
    X, y = load_iris(return_X_y=True)
    model = KernelPCA(4, kernel="rbf", gamma="median").fit(X)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    axes = plots.scores(model, X[::2], names[::2], components=(2, 0)).axes[0]
    assert axes.get_xlabel().startswith("component 3")
    assert axes.get_ylabel().startswith("component 1")
    assert {text.get_text() for text in axes.texts} == {"setosa", "versicolor", "virginica"}
    assert len(axes.collections[0].get_offsets()) == 75


def test_many_numbers_become_a_scale_and_none_one_colour(fitted: SimpleNamespace) -> None:
    scale = plots.scores(fitted.model, fitted.X, np.arange(ROWS))
    assert len(scale.axes) == 2
    plain = plots.scores(fitted.model, fitted.X)
    assert len(plain.axes) == 1
    assert not list(plain.axes[0].texts)


def test_spectrum_shows_wide_bounds_only(fitted: SimpleNamespace) -> None:
    assert len(plots.spectrum(fitted.model).axes[0].containers) == 1  # bars, and no whisker that could be seen
    loose = SimpleNamespace(
        eigenvalues_=np.array([4.0, 2.0]),
        explained_variance_ratio_=np.array([0.4, 0.2]),
        eigenvalue_bounds_=np.array([[4.0, 4.0], [1.9, 2.5]]),
    )
    axes = plots.spectrum(loose).axes[0]
    whisker = axes.collections[0].get_segments()
    assert len(whisker) == 1
    np.testing.assert_allclose(whisker[0], [[2, 19], [2, 25]])  # the second component, in per cent
    assert axes.get_ylim()[0] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"components": (0, 10)}, "of 0 to 9; got \\(0, 10\\)"),
        ({"components": (-1, 0)}, "of 0 to 9; got \\(-1, 0\\)"),
        ({"y": [1, 2]}, "one label per row, 200 in all; got shape \\(2,\\)"),
    ],
)
def test_what_cannot_be_drawn(fitted: SimpleNamespace, arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        plots.scores(fitted.model, fitted.X, **arguments)


def test_missing_matplotlib_is_said(fitted: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"pip install 'kpca\[plot\]'"):
        plots.spectrum(fitted.model)


def test_example_in_the_docstring() -> None:
    failed, attempted = doctest.testmod(plots)
    assert failed == 0 and attempted >= 15
