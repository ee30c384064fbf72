"""Explanations and their pictures, asked for in ways that nobody planned: odd names, rows, pipelines and numbers."""

from __future__ import annotations

import datetime
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from kpca import InputError, KernelPCA, Nystroem, explain
from kpca._base.text import short_name, text_table
from kpca.data.frames import row_labels
from kpca.explain import arrows, extremes, importance, interactions, permutation_importance

ALL: list[Any] = [importance, arrows, permutation_importance, interactions]


def rows(n: int = 40, d: int = 4, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, d))


def model(k: int = 3, **more: Any) -> KernelPCA:
    return KernelPCA(k, kernel="rbf", gamma=0.2, **more).fit(rows())


# -- arguments --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("explanation", [*ALL, extremes])
def test_components_in_lists_of_different_lengths(explanation: Any) -> None:
    with pytest.raises(InputError, match="components must be different whole numbers from 0 to 2"):
        explanation(model(), components=[[0], [1, 2]])


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"variables": 3}, "variables must be several names"),
        ({"variables": "heat"}, "got 'heat'"),
        ({"random_state": -1}, "random_state must be"),
        ({"random_state": "a"}, "random_state must be"),
        ({"names": 5}, "names must be one for each of the 4 columns; got 5"),
    ],
)
def test_wrong_arguments_of_interactions(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        interactions(model(), **changes)


def test_arrows_of_a_single_component() -> None:
    with pytest.raises(InputError, match="Arrows need two components"):
        arrows(model(1))


@pytest.mark.parametrize("explanation", [*ALL, extremes])
@pytest.mark.parametrize("n", [-1, 2.5, 0])
def test_so_many_at_the_top_are_none(explanation: Any, n: Any) -> None:
    with pytest.raises(InputError, match="n must be a whole number from 1"):
        explanation(model()).top(n)


def test_results_can_be_compared() -> None:
    one, other = interactions(model()), interactions(model())
    assert one != other and len({one, other}) == 2


# -- rows -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("explanation", ALL)
def test_one_row_has_no_spread_and_cannot_be_shuffled(explanation: Any) -> None:
    """A table of zeros would say that no variable matters."""
    with pytest.raises(InputError, match="from two rows on"):
        explanation(model(), rows(1))


def test_one_row_per_unit() -> None:
    X = rows(5)
    each = [importance(model(), X[i : i + 1], scaled=False).values for i in range(5)]
    assert_allclose(np.mean(each, axis=0), importance(model(), X, scaled=False).values, rtol=1e-12)


@pytest.mark.parametrize("size", [1e200, 1e-200])
def test_standard_deviations_neither_overflow_nor_vanish(size: float) -> None:
    X = rows()
    found = importance(KernelPCA(2).fit(X), X * size)
    assert_allclose(found.values / size, importance(KernelPCA(2).fit(X), X).values, rtol=1e-12)


def test_gradients_that_overflow_are_no_result() -> None:
    fitted = KernelPCA(2, kernel="poly").fit(rows())
    for explanation in (importance, interactions):
        with pytest.raises(InputError, match="must be finite"), np.errstate(all="ignore"):
            explanation(fitted, rows() * 1e200)


# -- the null of interactions -----------------------------------------------------------------------------------------


def test_a_null_is_fitted_to_the_rows_of_the_model_however_few_are_looked_at() -> None:
    found = interactions(model(20), rows(5, seed=1), permutations=1)
    assert found.null is not None and np.isfinite(found.values).all()


def test_a_null_of_landmarks_would_be_another_model() -> None:
    landmarks = model(3, approximation=Nystroem(10))
    with pytest.raises(InputError, match="landmarks only: give X"):
        interactions(landmarks, permutations=1)
    assert interactions(landmarks, rows(), permutations=1).null is not None
    with pytest.raises(InputError, match="more rows than the 3 components"):
        interactions(landmarks, rows(3), permutations=1)


def test_noise_stays_below_its_null_and_a_product_does_not() -> None:
    """How the docstring says that a table is read."""
    for seed in range(3):
        X = rows(300, 6, seed)
        for product in (False, True):
            if product:
                X[:, 2] = X[:, 0] * X[:, 1] + 0.5 * X[:, 2]
            found = interactions(KernelPCA(6, kernel="rbf", gamma="median").fit(X), permutations=5)
            p, q, strength = found.top(1)[0]
            assert found.null is not None
            null = found.null[found.names.index(p), found.names.index(q)]
            assert (strength > null) == product
            assert not product or {p, q} < {"x0", "x1", "x2"}


# -- pipelines --------------------------------------------------------------------------------------------------------


def frame(columns: list[Any]) -> Any:
    return pytest.importorskip("pandas").DataFrame(rows(), columns=columns)


def test_a_pipeline_within_a_pipeline() -> None:
    data = frame(list("abcd"))
    inner = make_pipeline(PCA(3), KernelPCA(2, kernel="rbf"))
    assert importance(make_pipeline(StandardScaler(), inner).fit(data), data).names == ("pca0", "pca1", "pca2")
    plain = make_pipeline(StandardScaler(), make_pipeline(StandardScaler(), KernelPCA(2, kernel="rbf"))).fit(data)
    flat = make_pipeline(StandardScaler(), StandardScaler(), KernelPCA(2, kernel="rbf")).fit(data)
    for X in (data, None):
        found = importance(plain, X)
        assert found.names == ("a", "b", "c", "d")
        assert_array_equal(found.values, importance(flat, X).values)


def test_a_step_that_cannot_name_its_columns() -> None:
    nameless = ColumnTransformer([("f", FunctionTransformer(np.asarray), ["a", "b"])], remainder="passthrough")
    fitted = make_pipeline(nameless, KernelPCA(2, kernel="rbf")).fit(frame(list("abcd")))
    assert importance(fitted, frame(list("abcd"))).names == ("x0", "x1", "x2", "x3")


def test_a_frame_for_steps_that_were_fitted_to_arrays() -> None:
    pytest.importorskip("pandas")
    steps = make_pipeline(StandardScaler(), PCA(3), KernelPCA(2, kernel="rbf")).set_output(transform="pandas")
    with pytest.warns(UserWarning, match="feature names"):
        assert importance(steps.fit(rows()), frame(list("abcd"))).names == ("pca0", "pca1", "pca2")


def test_a_pipeline_without_a_last_step() -> None:
    empty = Pipeline([("scale", StandardScaler()), ("last", "passthrough")]).fit(rows())
    for explanation in (*ALL, extremes):
        with pytest.raises(InputError, match="got 'passthrough'"):
            explanation(empty, rows())


# -- names and print --------------------------------------------------------------------------------------------------


def test_print_keeps_a_line_per_variable() -> None:
    names = ["new\nline", "高さ", "n" * 90, "tab\tand more"]
    for explanation in ALL:
        found = explanation(model(), names=names)
        lines = str(found).splitlines()
        assert max(map(len, lines)) < 125 and found.names == tuple(names)
        assert any("new line" in line for line in lines) and any("tab and more" in line for line in lines)


def test_columns_of_tables_are_aligned_whatever_the_letters() -> None:
    wide, plain = text_table(["name", "value"], [["高さ", "1"], ["abcd", "22"]])[2:]
    assert wide == "高さ      1" and plain == "abcd     22"
    accented = text_table(["name", "value"], [["e\u0301", "1"]])[2]
    assert accented == "e\u0301         1"


def test_long_names_keep_both_ends() -> None:
    name = short_name("first " + "x" * 90 + " last")
    assert len(name) == 40 and name.startswith("first") and name.endswith("last") and "…" in name


@pytest.mark.parametrize("ids", [[(1, 2), (3,)], [[1], [2, 3]], [1, "a"], iter("ab")])
def test_rows_may_be_called_anything(ids: Any) -> None:
    assert len(row_labels(ids, None, 2)) == 2


@pytest.mark.parametrize("ids", [5, "ab"])
def test_ids_that_are_none(ids: Any) -> None:
    with pytest.raises(InputError, match="ids must be one for each of the 2 rows"):
        row_labels(ids, None, 2)


# -- pictures ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def plots() -> Any:
    pytest.importorskip("matplotlib")
    from kpca import plots

    return plots


LIMITS = SimpleNamespace(t2=9.0, spe=9.0, combined=9.0)


def statistics(values: Any) -> SimpleNamespace:
    return SimpleNamespace(t2=values, spe=values, combined=values)


def test_names_are_no_mathematics(plots: Any) -> None:
    """Two dollar signs would make a formula of what is between them, or stop at it."""
    names = ["$_^$", "a$b$c", "new\nline", "plain"]
    found = importance(model(), names=names)
    drawn = [
        plots.importance(found),
        plots.importance(found, by_component=True),
        plots.interactions(interactions(model(), names=names)),
        plots.biplot(model(), rows(), names=names),
        plots.biplot(model(), rows(), names=names, variable="$_^$"),
        plots.biplot(model(), rows(), np.array(["$_^$", "b"] * 20)),
        plots.scores(model(), rows(), np.array(["$_^$", "x" * 300] * 20)),
    ]
    for figure in drawn:
        figure.draw_without_rendering()
    labels = [label.get_text() for label in drawn[0].axes[0].get_yticklabels()]
    assert sorted(labels) == sorted([r"\$_^\$", r"a\$b\$c", "new line", "plain"])
    written = [text.get_text() for text in drawn[-1].axes[0].texts]
    assert max(map(len, written)) <= 24


def test_a_title_is_as_wide_as_the_bars_beside_long_names(plots: Any) -> None:
    values = np.array([[1234.5, -77.7, 3.0]] * 3000)
    found = SimpleNamespace(
        names=["W" * 60, "b", "c"],
        values=values,
        score=values.sum(axis=1),
        baseline_score=11.3,
        statistic="combined",
        method="integrated",
    )
    figure = plots.contributions(found)
    figure.draw_without_rendering()
    title = figure.axes[0]._left_title.get_window_extent()
    assert title.x1 <= figure.bbox.x1


def test_thousands_of_alarms_are_drawn_at_once(plots: Any) -> None:
    values = np.ones(60_000)
    mask = np.arange(60_000) % 200 == 7
    axes = plots.control_chart(statistics(values), LIMITS, alarm=mask, statistic="t2").axes[0]
    assert not axes.patches
    (shaded,) = [one for one in axes.collections if one.get_label() == "alarm"]
    spans = [(path.vertices[:, 0].min(), path.vertices[:, 0].max()) for path in shaded.get_paths()]
    assert all(any(low <= row <= high for low, high in spans) for row in np.flatnonzero(mask))
    assert len(spans) == mask.sum()  # 50 rows are a column: none is joined to the next


def test_times_with_zones_and_lists_of_times(plots: Any) -> None:
    zone = datetime.timezone(datetime.timedelta(hours=2))
    start = datetime.datetime(2024, 10, 26, 22, tzinfo=zone)
    times = [start + datetime.timedelta(hours=hour) for hour in range(30)]
    days = [datetime.date(2024, 1, 1) + datetime.timedelta(days=day) for day in range(30)]
    for index in (times, [moment.replace(tzinfo=None) for moment in times], days):
        axes = plots.control_chart(statistics(np.arange(30.0)), LIMITS, index=index, onset=4).axes[2]
        assert axes.get_xlabel() == "time"
    pandas = pytest.importorskip("pandas")
    clocks_go_back = pandas.date_range("2024-10-26", periods=30, freq="h", tz="Europe/Berlin")
    for index in (clocks_go_back, pandas.Series(clocks_go_back)):
        line = plots.control_chart(statistics(np.arange(30.0)), LIMITS, index=index).axes[0].lines[0]
        assert (np.diff(line.get_xdata()) > np.timedelta64(0)).all()


@pytest.mark.parametrize("index", [np.arange(30.0)[::-1], np.full(30, np.nan), [np.datetime64("NaT")] * 30])
def test_an_index_without_an_order(plots: Any, index: Any) -> None:
    with pytest.raises(InputError, match="index must not decrease"):
        plots.control_chart(statistics(np.arange(30.0)), LIMITS, index=index)


def test_values_too_large_to_draw_are_infinite(plots: Any) -> None:
    figure = plots.control_chart(statistics(np.array([1.0, 1e308, 3.0])), LIMITS)
    figure.draw_without_rendering()
    assert "1 of 3 rows" in figure.axes[0].get_title(loc="left")
    with pytest.raises(InputError, match="too large to draw"):
        plots.control_chart(statistics(np.array([1e305])), LIMITS)


def test_a_statistic_that_is_none(plots: Any) -> None:
    for statistic in (5, [["t2"]], []):
        with pytest.raises(InputError, match="statistic must be one or more of"):
            plots.control_chart(statistics(np.ones(3)), LIMITS, statistic=statistic)


def test_labels_with_gaps(plots: Any) -> None:
    axes = plots.biplot(model(), rows(), [None, "only"] * 20).axes[0]
    assert "only" in [text.get_text() for text in axes.texts] and len(axes.collections[0].get_offsets()) == 40


def test_explanations_do_not_change_what_they_are_given() -> None:
    X, fitted = rows(), model()
    before, parameters = X.copy(), fitted.get_params()
    for explanation in (*ALL, explain.extremes):
        explanation(fitted, X)
    assert_array_equal(X, before)
    assert fitted.get_params() == parameters
