"""Pictures of explanations: which variables are shown, in which order, with which numbers."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.quiver import Quiver
from matplotlib.text import Text

from kpca import InputError, plots

NAMES = [f"column {j}" for j in range(20)]


def inside(figure: Any) -> None:
    """Nothing of the axes is cut off."""
    figure.draw_without_rendering()
    whole = figure.bbox
    for axes in figure.axes:
        box = axes.get_tightbbox()
        assert whole.x0 <= box.x0 and box.x1 <= whole.x1 and whole.y0 <= box.y0 and box.y1 <= whole.y1


def ticks(axis: Any) -> list[str]:
    return [label.get_text() for label in axis.get_ticklabels()]


# -- contributions --------------------------------------------------------------------------------------------------


def shares(rows: int = 4, d: int = 20, **changes: Any) -> SimpleNamespace:
    values = np.random.default_rng(1).normal(size=(rows, d))
    found = {
        "names": NAMES[:d],
        "values": values,
        "score": 50.0 + values.sum(axis=1),
        "baseline_score": np.full(rows, 50.0),
        "statistic": "t2",
        "method": "integrated",
    }
    return SimpleNamespace(**{**found, **changes})


def widths(figure: Any) -> list[float]:
    return [bar.get_width() for bar in figure.axes[0].patches]


@pytest.mark.parametrize("row", [None, 0, 3])
def test_largest_contributions_and_the_rest(row: int | None) -> None:
    found = shares()
    figure = plots.contributions(found, row=row, n=5)
    mean = found.values.mean(axis=0) if row is None else found.values[row]
    order = np.argsort(-np.abs(mean))
    axes = figure.axes[0]
    assert ticks(axes.yaxis) == [*(NAMES[j] for j in order[:5]), "others (15)"]
    np.testing.assert_allclose(widths(figure), [*mean[order[:5]], mean[order[5:]].sum()])
    np.testing.assert_allclose(sum(widths(figure)), mean.sum())
    assert axes.get_ylim()[0] > axes.get_ylim()[1]  # the first is at the top
    who = "Mean of 4 rows" if row is None else f"Row {row}"
    assert axes.get_title(loc="left").startswith(f"{who}: T² ")
    assert axes.get_title(loc="left").endswith(", baseline 50")
    assert axes.get_xlabel().startswith("contribution to the T², by integrated gradients")
    inside(figure)


def test_the_sign_is_seen_without_colour() -> None:
    figure = plots.contributions(shares(), row=1, n=8)
    axes = figure.axes[0]
    numbers = [text.get_text() for text in axes.texts]
    for bar, number in zip(axes.patches, numbers, strict=True):
        assert (bar.get_hatch() is None) == (bar.get_width() >= 0.0)
        assert number[0] == ("+" if bar.get_width() >= 0.0 else "−")
    assert {number[0] for number in numbers} == {"+", "−"}


@pytest.mark.parametrize(("width", "scale"), [(7.0, 1.0), (3.5, 1e-7), (3.5, 123.0)])
def test_numbers_at_the_bars_stay_inside(width: float, scale: float) -> None:
    axes = Figure(figsize=(width, 5.0), layout="constrained").subplots()
    found = shares()
    figure = plots.contributions(
        shares(values=scale * found.values, score=scale * found.score, baseline_score=scale * 50.0), n=8, ax=axes
    )
    figure.draw_without_rendering()
    frame = axes.get_window_extent()
    for text in axes.texts:
        box = Text.get_window_extent(text)
        assert frame.x0 <= box.x0 and box.x1 <= frame.x1
    assert ("10^{-8}" in axes.get_xlabel()) == (scale < 1e-3)


def test_a_single_other_variable_has_its_own_bar() -> None:
    assert len(widths(plots.contributions(shares(d=5), n=4))) == 5
    assert len(widths(plots.contributions(shares(d=5), n=3))) == 4
    assert len(widths(plots.contributions(shares(d=5), n=99))) == 5


def test_what_is_not_attributed_has_a_bar() -> None:
    found = shares(1, 3, values=np.array([[3.0, -2.0, 0.0]]), score=np.array([4.0]), baseline_score=1.0)
    figure = plots.contributions(found)
    assert ticks(figure.axes[0].yaxis)[-1] == "not attributed" and widths(figure)[-1] == 2.0
    assert figure.axes[0].texts[2].get_text() == "0"
    close = shares(1, 3, values=np.array([[3.0, -2.0, 0.0]]), score=np.array([2.0 + 1e-5]), baseline_score=1.0)
    assert len(widths(plots.contributions(close))) == 3


def test_rows_without_contributions_do_not_stand_in_the_way_of_others() -> None:
    found = shares()
    found.values[2] = np.nan
    plots.contributions(found, row=1)
    with pytest.raises(InputError, match="contributions must be finite"):
        plots.contributions(found)


def test_nothing_contributes() -> None:
    inside(plots.contributions(shares(1, 3, values=np.zeros((1, 3)), score=1.0, baseline_score=1.0)))


# -- importance -----------------------------------------------------------------------------------------------------


def importance(d: int = 20, k: int = 3, scale: float = 1.0, **more: Any) -> SimpleNamespace:
    each = scale * np.random.default_rng(2).uniform(size=(k, d))
    return SimpleNamespace(names=NAMES[:d], by_component=each, values=np.linalg.norm(each, axis=0), **more)


@pytest.mark.parametrize(("d", "n"), [(20, 6), (4, 20)])
def test_importance_as_bars(d: int, n: int) -> None:
    found = importance(d, scaled=True)
    figure = plots.importance(found, n=n)
    order = np.argsort(-found.values)[:n]
    assert ticks(figure.axes[0].yaxis) == [NAMES[j] for j in order]
    np.testing.assert_allclose(widths(figure), found.values[order])
    assert figure.axes[0].get_xlabel() == "mean change of the scores per standard deviation"
    assert figure.axes[0].get_title(loc="left") == f"Importance of {min(n, d)} of {d} variables"
    inside(figure)


@pytest.mark.parametrize(("k", "scale", "factor"), [(3, 1.0, 1.0), (30, 1e-5, 1e6), (3, 1e7, 1e-6), (1, 0.0, 1.0)])
def test_importance_per_component(k: int, scale: float, factor: float) -> None:
    found = importance(k=k, scale=scale)
    figure = plots.importance(found, n=6, by_component=True)
    order = np.argsort(-found.values, kind="stable")[:6]
    shown = np.asarray(figure.axes[0].images[0].get_array())
    np.testing.assert_allclose(shown, found.by_component[:, order].T * factor)
    assert ticks(figure.axes[0].yaxis) == [NAMES[j] for j in order]
    assert ticks(figure.axes[0].xaxis)[0] == "1" and figure.axes[0].get_xlabel() == "component"
    assert ("×" in figure.axes[1].get_ylabel()) == (factor != 1.0)
    assert len(figure.axes[0].texts) == (18 if k == 3 else 6 if k == 1 else 0)  # numbers where there is room
    inside(figure)


@pytest.mark.parametrize("k", [1, 4, 30])
def test_long_names_leave_room_for_the_title(k: int) -> None:
    found = importance(k=k)
    found.names = [f"a name that does not end, {j}" for j in range(20)]
    inside(plots.importance(found, by_component=True))
    inside(plots.importance(found))
    pair = pairs(3)
    pair.names = found.names[:3]
    inside(plots.interactions(pair))


def test_deviations_are_whiskers() -> None:
    found = importance(5)
    found.values[4], found.deviations = -0.01, np.linspace(0.1, 0.2, 5)
    figure = plots.importance(found)
    axes = figure.axes[0]
    order = np.argsort(-found.values)
    (whiskers,) = axes.collections
    ends = np.array([segment[:, 0] for segment in whiskers.get_segments()])
    np.testing.assert_allclose(
        ends, np.column_stack([found.values - found.deviations, found.values + found.deviations])[order]
    )
    assert axes.get_xlabel() == "share of the variance lost when it is shuffled"
    low, high = axes.get_xlim()
    assert low < ends.min() and ends.max() < high
    inside(figure)
    plots.importance(found, by_component=True)


def test_components_keep_their_numbers() -> None:
    axes = plots.importance(importance(k=2, components=np.array([4, 1])), by_component=True).axes[0]
    assert ticks(axes.xaxis) == ["5", "2"]


def test_shades_are_darker_the_larger_in_grey_too() -> None:
    image = plots.importance(importance(), by_component=True).axes[0].images[0]
    grey = image.get_cmap()(np.linspace(0, 1, 50))[:, :3] @ [0.299, 0.587, 0.114]
    assert (np.diff(grey) < 0).all()


# -- interactions ---------------------------------------------------------------------------------------------------


def pairs(v: int = 20, **more: Any) -> SimpleNamespace:
    values = np.random.default_rng(3).uniform(size=(v, v))
    return SimpleNamespace(names=NAMES[:v], values=values + values.T, **more)


@pytest.mark.parametrize(("v", "n"), [(20, 5), (3, 15), (20, 1), (20, 20)])
def test_interactions_of_those_that_matter(v: int, n: int) -> None:
    found = pairs(v, measure="joint")
    figure = plots.interactions(found, n=n)
    axes = figure.axes[0]
    shown = np.asarray(axes.images[0].get_array().filled(np.nan))
    count = min(max(n, 2), v)
    assert shown.shape == (count, count) and np.isnan(np.diag(shown)).all()
    np.testing.assert_array_equal(shown, shown.T)
    away = found.values - np.diag(np.diag(found.values))
    assert np.nanmax(shown) == away.max()  # the strongest pair is in it
    chosen = [NAMES.index(name) for name in ticks(axes.yaxis)]
    assert ticks(axes.xaxis) == ticks(axes.yaxis)
    assert shown[0, 1] == found.values[chosen[0], chosen[1]]
    assert figure.axes[1].get_ylabel() == "strength of the joint interaction"
    inside(figure)


def test_weaker_than_the_null_is_none() -> None:
    found = pairs(4, null=np.zeros((4, 4)))
    found.values -= 1.0
    figure = plots.interactions(found)
    assert np.nanmin(figure.axes[0].images[0].get_array()) == 0.0
    assert "interaction, above\nthat of permuted columns" in figure.axes[1].get_ylabel()
    found.values[:] = 0.0  # the linear kernel: nothing interacts
    inside(plots.interactions(found))


# -- biplots --------------------------------------------------------------------------------------------------------


def arrows(m: int = 200, v: int = 20, **more: Any) -> SimpleNamespace:
    rng = np.random.default_rng(4)
    each = rng.normal(size=(1, 2, v)) + 0.3 * rng.normal(size=(m, 2, v))
    return SimpleNamespace(
        positions=rng.normal(size=(m, 2)) * [3.0, 1.0],
        arrows=each,
        mean=each.mean(axis=0),
        names=NAMES[:v],
        **more,
    )


def boxes(axes: Any) -> list[Any]:
    """Of the names; the line below the title is the last annotation that is no name."""
    return [text for text in axes.texts if text.get_text() in NAMES]


def overlap(one: Any, other: Any) -> bool:
    """Whether words do; that of an annotation would count the line to its tip."""
    return bool(Text.get_window_extent(one).overlaps(Text.get_window_extent(other)))


@pytest.mark.parametrize(("m", "v", "n"), [(10, 3, 8), (200, 20, 8), (200, 20, 14), (20_000, 4, 2)])
def test_mean_arrows_of_the_longest(m: int, v: int, n: int) -> None:
    found = arrows(m, v, scaled=True)
    figure = plots.biplot(found, n=n)
    axes = figure.axes[0]
    order = np.argsort(-np.hypot(*found.mean))[:n]
    assert [text.get_text() for text in boxes(axes)] == [NAMES[j] for j in order]
    heads = np.array([text.xy for text in axes.texts if text.arrow_patch is not None and not text.get_text()])
    ways = heads - found.positions.mean(axis=0)
    steps = np.hypot(*ways.T) / np.hypot(*found.mean[:, order])
    np.testing.assert_allclose(steps, steps[0])  # one scale for all
    np.testing.assert_allclose(ways, steps[0] * found.mean[:, order].T)
    (note,) = [text.get_text() for text in axes.texts if "arrows" in text.get_text()]
    assert f"step of +{steps[0]:g} standard deviations" in note
    assert axes.get_aspect() == 1.0
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("component 1", "component 2")
    inside(figure)


def test_a_model_is_asked_for_its_arrows(monkeypatch: pytest.MonkeyPatch) -> None:
    """And says how much of the variance the components are."""
    asked = []

    def given(model: Any, X: Any, *, components: tuple[int, int], **options: Any) -> SimpleNamespace:
        asked.append((model, X, components, options))
        return arrows(components=components)

    monkeypatch.setattr("kpca.plots.arrows.explain", SimpleNamespace(arrows=given))
    model = SimpleNamespace(explained_variance_ratio_=np.array([0.5, 0.3, 0.1]))
    axes = plots.biplot(model, "rows", components=(2, 0)).axes[0]
    plots.biplot(model, "rows", np.arange(200), names="ab")
    assert asked == [
        (model, "rows", (2, 0), {"names": None}),
        (model, "rows", (0, 1), {"names": "ab", "max_rows": 200}),  # as many as have labels
    ]
    assert axes.get_xlabel() == "component 3 (10.0 % of variance)"
    assert axes.get_ylabel() == "component 1 (50.0 % of variance)"


def test_names_do_not_cover_each_other() -> None:
    found = arrows(v=12)
    found.mean[:] = np.array([[1.0], [0.5]]) * (1.0 + 0.01 * np.arange(12))  # all in the same direction
    figure = plots.biplot(found, n=12)
    figure.draw_without_rendering()
    names = boxes(figure.axes[0])
    assert len(names) == 12
    assert not any(overlap(one, other) for i, one in enumerate(names) for other in names[i + 1 :])


def test_names_keep_away_from_those_of_classes() -> None:
    found = arrows(v=6)
    y = np.array(["left", "right"])[(found.positions[:, 0] > 0).astype(int)]
    figure = plots.biplot(found, y=y)
    figure.draw_without_rendering()
    classes = [text for text in figure.axes[0].texts if text.get_text() in {"left", "right"}]
    assert len(classes) == 2
    assert not any(overlap(one, other) for one in classes for other in boxes(figure.axes[0]))


@pytest.mark.parametrize("variable", [3, "column 3", np.int64(3)])
def test_the_field_of_one_variable(variable: Any) -> None:
    found = arrows(5_000)
    figure = plots.biplot(found, variable=variable, y=np.linspace(0, 1, 5_000))
    (field,) = [one for one in figure.axes[0].collections if isinstance(one, Quiver)]
    rows = [int(np.flatnonzero((found.positions == place).all(axis=1))[0]) for place in field.XY]
    assert 20 < len(rows) <= 18 * 18 and len(set(rows)) == len(rows)
    ways = np.column_stack([field.U, field.V])
    step = ways[0, 0] / found.arrows[rows[0], 0, 3]
    np.testing.assert_allclose(ways, step * found.arrows[rows, :, 3])
    assert figure.axes[0].get_title(loc="left") == "Where column 3 moves the rows"
    assert len(figure.axes) == 2  # with the scale of y
    inside(figure)


def test_rows_that_nothing_moves() -> None:
    found = arrows()
    found.arrows[:] = found.mean[:] = 0.0
    assert "no variable moves" in plots.biplot(found).axes[0].texts[0].get_text()
    assert "column 0 moves none" in plots.biplot(found, variable=0).axes[0].texts[0].get_text()


# -- all of them ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "picture",
    [
        lambda ax: plots.contributions(shares(), ax=ax),
        lambda ax: plots.importance(importance(), ax=ax),
        lambda ax: plots.importance(importance(), by_component=True, ax=ax),
        lambda ax: plots.interactions(pairs(), ax=ax),
        lambda ax: plots.biplot(arrows(), ax=ax),
    ],
)
def test_axes_of_ones_own(picture: Any) -> None:
    axes = Figure(figsize=(14, 7)).subplots(1, 2)
    assert picture(axes[1]) is axes[1].figure
    assert axes[1].get_title(loc="left") and not axes[0].has_data()
    with pytest.raises(InputError, match="ax must be matplotlib axes"):
        picture(axes)


def test_long_names_are_cut_and_absent_ones_numbered() -> None:
    found = importance(3)
    found.names = ["a name that does not end after thirty letters", 7, "b"]
    found.values = np.array([3.0, 2.0, 1.0])
    labels = ticks(plots.importance(found).axes[0].yaxis)
    assert labels == ["a name that does not end af…", "7", "b"]
    found.names = None
    assert ticks(plots.importance(found).axes[0].yaxis) == ["x0", "x1", "x2"]


@pytest.mark.parametrize(
    ("picture", "message"),
    [
        (lambda: plots.contributions(shares(), row=4), "row must be a number from 0 to 3, or None.*got 4"),
        (lambda: plots.contributions(shares(), row=True), "row must be a number"),
        (lambda: plots.contributions(shares(), n=0), "n must be a whole number.*got 0"),
        (lambda: plots.contributions(shares(names=["a"])), "names must have 20 entries.*got 1"),
        (lambda: plots.contributions(None), "contributions must be an array.*got None"),
        (lambda: plots.importance(importance(), n=2.5), "n must be a whole number.*got 2.5"),
        (lambda: plots.importance(SimpleNamespace(names=["a"])), "importance must be"),
        (lambda: plots.importance(SimpleNamespace(names=["a"], values=[np.nan])), "must be finite numbers"),
        (lambda: plots.interactions(pairs(1)), r"2 or more variables; got shape \(1, 1\)"),
        (lambda: plots.interactions(importance()), "interactions must be finite numbers in 2 dimensions"),
        (lambda: plots.biplot(arrows(), variable="x99"), "name of one of 20 variables, 'column 0'.*got 'x99'"),
        (lambda: plots.biplot(arrows(), variable=20), "or its number; got 20"),
        (lambda: plots.biplot(arrows(), y=[1, 2]), "one label per row, 200"),
        (lambda: plots.biplot(SimpleNamespace(**{**vars(arrows()), "positions": np.ones((9, 3))})), "two components"),
    ],
)
def test_what_cannot_be_drawn(picture: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        picture()
