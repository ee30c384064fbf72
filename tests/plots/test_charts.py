"""Control charts: every statistic with its limit, and no row beyond it lost."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kpca import InputError, KernelPCADetector, plots
from kpca.detector.limits import Statistics

LIMITS = SimpleNamespace(t2=9.0, spe=0.5, combined=12.0)


def statistics(count: int = 100) -> Statistics:
    """Statistics of a process that is under control."""
    rng = np.random.default_rng(0)
    return Statistics(rng.uniform(1, 8, count), rng.uniform(0.1, 0.4, count), rng.uniform(1, 11, count))


def with_spikes(count: int, rows: list[int], height: float = 20.0) -> Statistics:
    found = statistics(count)
    found.t2[rows] = height
    return found


def labelled(axes: Any, label: str) -> Any:
    (artist,) = [one for one in (*axes.lines, *axes.collections, *axes.patches) if one.get_label() == label]
    return artist


def marked(axes: Any) -> NDArray[Any]:
    return np.asarray(labelled(axes, "beyond the limit").get_offsets())


def test_every_statistic_with_its_limit() -> None:
    found = statistics()
    figure = plots.control_chart(found, LIMITS)
    assert [axes.get_ylabel() for axes in figure.axes] == ["T²", "SPE", "combined"]
    assert figure.axes[-1].get_xlabel() == "row"
    for axes, name in zip(figure.axes, ("t2", "spe", "combined"), strict=True):
        np.testing.assert_array_equal(labelled(axes, "statistic").get_ydata(), found[name])
        assert set(labelled(axes, "limit").get_ydata()) == {getattr(LIMITS, name)}
        assert labelled(axes, "limit").get_linestyle() == "--"
        assert axes.get_yscale() == "linear" and not len(marked(axes))
        assert "0 of 100 rows (0.0 %) beyond the limit" in axes.get_title(loc="left")


def test_limits_may_be_those_of_a_detector() -> None:
    axes = plots.control_chart(statistics(), SimpleNamespace(limits_=LIMITS), statistic="spe").axes[0]
    assert set(labelled(axes, "limit").get_ydata()) == {LIMITS.spe}


def test_rows_beyond_are_marked_by_their_shape() -> None:
    axes = plots.control_chart(with_spikes(100, [7, 50]), LIMITS, statistic="t2").axes[0]
    np.testing.assert_array_equal(marked(axes), [[7, 20], [50, 20]])
    (shape,) = labelled(axes, "beyond the limit").get_paths()
    assert len(shape.vertices) == 4  # a triangle, closed
    assert axes.get_title(loc="left") == "T²: 2 of 100 rows (2.0 %) beyond the limit"


@pytest.mark.parametrize(("height", "scale"), [(80.0, "linear"), (95.0, "log")])
def test_far_beyond_the_limit_is_a_logarithmic_scale(height: float, scale: str) -> None:
    figure = plots.control_chart(with_spikes(100, [7], height), LIMITS)
    assert [axes.get_yscale() for axes in figure.axes] == [scale, "linear", "linear"]
    low, high = figure.axes[0].get_ylim()
    assert low < 9.0 and height < high


def test_residuals_of_zero_have_no_logarithm() -> None:
    found = statistics()
    found.spe[:3] = [0.0, -1e-17, 1e-9]
    found.spe[9] = 100.0
    axes = plots.control_chart(found, LIMITS, statistic=["spe"]).axes[0]
    assert axes.get_yscale() == "log"
    assert axes.get_ylim()[0] == pytest.approx(5e-4)  # the limit less three decades


@pytest.mark.parametrize("count", [1, 2, 10, 2_400, 2_401, 100_003])
def test_no_spike_of_a_long_series_is_lost(count: int) -> None:
    spikes = sorted({0, count // 3, count - 1})
    figure = plots.control_chart(with_spikes(count, spikes), LIMITS)
    axes = figure.axes[0]
    np.testing.assert_array_equal(marked(axes)[:, 0], spikes)
    line = labelled(axes, "statistic")
    assert len(line.get_xdata()) <= max(3 * 1200 + 100, 0) and (np.diff(line.get_xdata()) > 0).all()
    assert f"{len(spikes)} of {count:,} rows" in axes.get_title(loc="left")


def test_the_lowest_of_a_long_series_is_shown_too() -> None:
    found = statistics(50_000)
    found.t2[12_345] = 0.01
    line = labelled(plots.control_chart(found, LIMITS, statistic="t2").axes[0], "statistic")
    assert 12_345 in line.get_xdata()


def test_a_limit_that_moves() -> None:
    """The row that is beyond is not the highest of its column of the picture."""
    found = Statistics(*(np.ones(30_000) for _ in range(3)))
    found.t2[1_001], moving = 5.0, np.full(30_000, 10.0)
    moving[1_003] = 0.5
    limits = SimpleNamespace(t2=moving, spe=2.0, combined=2.0)
    np.testing.assert_array_equal(marked(plots.control_chart(found, limits).axes[0]), [[1_003, 1.0]])


def test_onset_divides_the_count() -> None:
    figure = plots.control_chart(with_spikes(100, [7, 50, 51, 52]), LIMITS, onset=40)
    assert figure.axes[0].get_title(loc="left") == (
        "T²: beyond the limit 1 of 40 rows (2.5 %) before the onset, 3 of 60 rows (5.0 %) after"
    )
    assert list(labelled(figure.axes[1], "onset").get_xdata()) == [39.5, 39.5]
    first = plots.control_chart(statistics(), LIMITS, onset=0).axes[0]
    assert "before" not in first.get_title(loc="left")


@pytest.mark.parametrize("form", ["mask", "pairs", "slices"])
def test_alarms_are_shaded(form: str) -> None:
    pairs = [(10, 20), (97, 100)]
    mask = np.zeros(100, dtype=bool)
    mask[10:20] = mask[97:] = True
    alarm = {"mask": mask, "pairs": pairs, "slices": [slice(10, 20), slice(97, None)]}[form]
    axes = plots.control_chart(statistics(), LIMITS, alarm=alarm).axes[2]
    spans = [(one.get_x(), one.get_x() + one.get_width()) for one in axes.patches if one.get_label() == "alarm"]
    assert spans == [(9.5, 19.5), (96.5, 99.0)]


@pytest.mark.parametrize("nothing", [np.zeros(100, dtype=bool), [], None])
def test_no_alarm(nothing: Any) -> None:
    assert not plots.control_chart(statistics(), LIMITS, alarm=nothing).axes[0].patches


def test_times_on_the_axis() -> None:
    times = np.datetime64("2024-01-01T00") + np.arange(100) * np.timedelta64(1, "h")
    figure = plots.control_chart(with_spikes(100, [5]), LIMITS, index=times, onset=50, alarm=[(5, 7)])
    assert figure.axes[-1].get_xlabel() == "time"
    figure.draw_without_rendering()


def test_a_named_index() -> None:
    pandas = pytest.importorskip("pandas")
    index = pandas.RangeIndex(1, 101, name="sample")
    axes = plots.control_chart(with_spikes(100, [5]), LIMITS, index=index).axes
    assert axes[-1].get_xlabel() == "sample" and marked(axes[0])[0, 0] == 6


@dataclass
class Detector:
    """A stand-in that gives each row its first column as every statistic."""

    limits_: Any

    def statistics(self, X: Any) -> Statistics:
        return Statistics(X[:, 0], X[:, 0], X[:, 0])


def test_a_detector_and_rows() -> None:
    axes = plots.control_chart(Detector(LIMITS), np.arange(20.0)[:, None]).axes
    assert [len(marked(one)) for one in axes] == [10, 19, 7]


def test_a_real_detector() -> None:
    rng = np.random.default_rng(0)
    normal = rng.standard_normal((200, 4))
    later = np.concatenate([rng.standard_normal((30, 4)), 8.0 + rng.standard_normal((10, 4))])
    detector = KernelPCADetector().fit(normal)
    axes = plots.control_chart(detector, later, onset=30, statistic="combined").axes[0]
    np.testing.assert_array_equal(labelled(axes, "statistic").get_ydata(), detector.statistics(later).combined)
    assert labelled(axes, "limit").get_ydata()[0] == detector.limits_.combined
    assert axes.get_title(loc="left").endswith("10 of 10 rows after")
    with pytest.raises(InputError, match="call fit first"):
        plots.control_chart(KernelPCADetector(), later)


def test_axes_of_ones_own() -> None:
    figure = plots.control_chart(statistics(), LIMITS)
    empty = type(figure)().subplots(2, 1)
    assert plots.control_chart(statistics(), LIMITS, statistic=["spe", "t2"], ax=empty) is empty[0].figure
    assert [axes.get_ylabel() for axes in empty] == ["SPE", "T²"]
    assert empty[0].get_legend() is not None
    one = type(figure)().subplots()
    assert plots.control_chart(statistics(), LIMITS, statistic="spe", ax=one) is one.figure


def test_a_display_is_drawn_as_often_as_wanted() -> None:
    found = with_spikes(100, [7, 50])
    display = plots.ControlChartDisplay.from_statistics(found, LIMITS, onset=40)
    first = display.figure_
    display.plot(statistic="t2")
    assert display.figure_ is not first and len(display.axes_) == 1 and len(first.axes) == 3
    np.testing.assert_array_equal(marked(display.axes_[0]), [[7, 20], [50, 20]])
    panels = type(first)().subplots(3, 1)
    assert display.plot(ax=panels).axes_ == list(panels)


@pytest.mark.parametrize("size", [1e-300, 1e-8, 1e20, 1e200])
def test_statistics_of_any_size(size: float) -> None:
    found = Statistics(*(size * values for values in (statistics().t2, statistics().spe, statistics().combined)))
    limits = SimpleNamespace(t2=9.0 * size, spe=0.5 * size, combined=12.0 * size)
    figure = plots.control_chart(found, limits)
    figure.draw_without_rendering()
    power = int(np.floor(np.log10(9.0 * size)))
    assert figure.axes[0].get_ylabel() == f"T² (× $10^{{{power}}}$)"
    np.testing.assert_allclose(labelled(figure.axes[0], "statistic").get_ydata(), found.t2 / 10.0**power)


@pytest.mark.parametrize("count", [10, 960])
def test_nothing_is_cut_off(count: int) -> None:
    figure = plots.control_chart(with_spikes(count, [4, 5], 1e4), LIMITS, onset=4, alarm=[(5, 9)])
    figure.draw_without_rendering()
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "alarm",
        "onset",
        "statistic",
        "beyond the limit",
        "limit",
    ]
    whole = figure.bbox
    boxes = [axes.get_tightbbox() for axes in figure.axes] + [legend.get_window_extent()]
    for box in boxes:
        assert whole.x0 <= box.x0 and box.x1 <= whole.x1 and whole.y0 <= box.y0 and box.y1 <= whole.y1
    for number, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[number + 1 :])


def test_rows_that_are_missing_and_rows_beyond_all_numbers() -> None:
    found = with_spikes(30_000, [500])
    found.t2[[7, 8, 20_000]] = [np.nan, np.nan, np.inf]
    figure = plots.control_chart(found, LIMITS)
    axes = figure.axes[0]
    np.testing.assert_array_equal(marked(axes)[:, 0], [500, 20_000])
    assert marked(axes)[1, 1] == axes.get_ylim()[1]  # at the upper edge
    assert axes.get_title(loc="left") == "T²: 2 of 30,000 rows (0.0 %) beyond the limit; 2 missing"
    figure.draw_without_rendering()


def test_a_limit_that_does_not_exist() -> None:
    limits = SimpleNamespace(t2=np.inf, spe=0.5, combined=12.0)
    figure = plots.control_chart(statistics(), limits)
    assert "no limit" in [text.get_text() for text in figure.axes[0].texts]
    figure.draw_without_rendering()


def test_rows_of_a_monitor_bring_their_alarms() -> None:
    rows = [SimpleNamespace(t2=t, spe=0.1, combined=1.0, alarm=10 <= t < 15) for t in np.arange(30.0)]
    axes = plots.control_chart(rows, LIMITS).axes[0]
    assert labelled(axes, "alarm").get_x() == 9.5 and len(marked(axes)) == 20


@pytest.mark.parametrize(
    ("found", "limits", "arguments", "message"),
    [
        (Statistics(np.ones(3), np.ones(2), np.ones(2)), LIMITS, {}, "the same rows; got 3, 2, 2"),
        (Statistics(np.full(3, np.nan), *np.ones((2, 3))), LIMITS, {}, "statistic 't2' must be an array of numbers"),
        (SimpleNamespace(t2=np.ones(3)), LIMITS, {}, "statistic 'spe' must be"),
        (statistics(), SimpleNamespace(t2=1.0), {}, "limits must have 'spe' as a number"),
        (statistics(), SimpleNamespace(t2=np.ones(7)), {"statistic": "t2"}, "one for each of 100 rows"),
        (statistics(), LIMITS, {"statistic": "t3"}, "one or more of 't2', 'spe', 'combined'; got 't3'"),
        (statistics(), LIMITS, {"statistic": []}, "one or more of"),
        (statistics(), LIMITS, {"onset": 100}, "onset must be a row number from 0 to 99, or None; got 100"),
        (statistics(), LIMITS, {"index": np.arange(99)}, r"index must be 100 numbers or times.*\(99,\)"),
        (statistics(), LIMITS, {"index": ["a"] * 100}, "index must be 100 numbers or times"),
        (statistics(), LIMITS, {"alarm": np.ones(99, dtype=bool)}, "a truth value for each of 100 rows"),
        (statistics(), LIMITS, {"alarm": [(5, 5)]}, "start < stop"),
        (statistics(), LIMITS, {"alarm": [(5, 101)]}, "pairs of row numbers"),
        (statistics(), LIMITS, {"ax": "here"}, "ax must be 3 matplotlib axes"),
        (SimpleNamespace(statistics=len), None, {}, "call fit first"),
    ],
)
def test_what_cannot_be_charted(found: Any, limits: Any, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        plots.control_chart(found, limits, **arguments)
