"""Contributions with lags and names, baselines, and causes over a window."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray

from kpca import InputError
from kpca.detector.contributions import Contributions, baseline_rows, contributions_of, root_causes

FloatArray = NDArray[Any]


class Squares:
    """sum_j w_j x_j^2, whose contributions from 0 are w_j x_j^2."""

    def resolution(self, X: FloatArray) -> FloatArray:
        return np.zeros(len(X))

    def __init__(self, w: FloatArray) -> None:
        self.w = w

    def values(self, X: FloatArray) -> FloatArray:
        return X**2 @ self.w

    def gradients(self, X: FloatArray) -> FloatArray:
        return 2.0 * X * self.w


def made(values: Any, names: Any = ("a", "b", "c", "d"), **more: Any) -> Contributions:
    values = np.asarray(values, dtype=np.float64)
    score = values.sum(axis=1)
    options = {"method": "integrated", "statistic": "spe"} | more
    names = tuple(names)[: values.shape[1]]
    return Contributions(names, values[:, None], score, np.zeros((1, len(names))), np.zeros(len(score)), **options)


def test_lags_are_summed_per_variable_and_kept_apart() -> None:
    rows, w = np.arange(1.0, 13.0).reshape(2, 6), np.arange(1.0, 7.0)  # 2 variables, now and two rows before
    found = contributions_of(Squares(w), rows, np.zeros(6), names=["u", "v"], lags=2, statistic="t2")
    parts = w * rows**2
    assert_allclose(found.by_lag, parts.reshape(2, 3, 2))
    assert_allclose(found.values[:, 0], parts[:, 0] + parts[:, 2] + parts[:, 4])
    assert_allclose(found.values.sum(axis=1), found.score - found.baseline_score)
    assert_allclose(found.gap, 0.0, atol=1e-10)


def test_columns_must_fit_names_and_lags() -> None:
    with pytest.raises(InputError, match="1 lag of 2 variables must have 4 columns; got 3"):
        contributions_of(Squares(np.ones(3)), np.ones((1, 3)), np.zeros(3), names=["u", "v"], lags=1, statistic="t2")


def test_top_is_sorted_and_ties_keep_the_order_of_columns() -> None:
    found = made([[1.0, 5.0, -7.0, 5.0], [0.0, 0.0, 0.0, 1.0]])
    assert found.top(3) == [[("b", 5.0), ("d", 5.0), ("a", 1.0)], [("d", 1.0), ("a", 0.0), ("b", 0.0)]]
    assert len(found.top(99)[0]) == 4


@pytest.mark.parametrize("n", [0, -1, 1.5, True, "3"])
def test_top_of_no_number(n: Any) -> None:
    with pytest.raises(InputError, match="n must be a whole number"):
        made([[1.0, 2.0]]).top(n)
    with pytest.raises(InputError, match="n must be a whole number"):
        root_causes(made([[1.0, 2.0]])).top(n)


def test_some_rows() -> None:
    found = made(np.arange(12.0).reshape(4, 3))
    assert_array_equal(found[1].values, [[3.0, 4.0, 5.0]])
    assert_array_equal(found[-1].score, [30.0])
    assert_array_equal(found[1:3].values, found.values[1:3])
    assert_array_equal(found[found.score > 10].score, [12.0, 21.0, 30.0])
    assert_array_equal(found[[2, 0]].score, [21.0, 3.0])
    for bad in (9, [7], np.ones(3, dtype=bool), "a"):
        with pytest.raises(InputError, match="Rows must be numbers, a slice or a mask of the 4 rows"):
            found[bad]


def test_baselines_of_rows_follow_them() -> None:
    rows = np.arange(6.0).reshape(3, 2)
    found = contributions_of(Squares(np.ones(2)), rows, rows - 1.0, names="ab", statistic="t2")
    assert_array_equal(found[1:].baseline, rows[1:] - 1.0)


def test_printed_table_of_one_row_and_of_many() -> None:
    text = str(made([[1.0, 6.0, -2.0, 5.0]]))
    assert "Contributions to the SPE of 1 row, from the baseline given, by integrated gradients." in text
    lines = text.splitlines()
    assert [line.split()[0] for line in lines[4:8]] == ["b", "d", "a", "c"]
    assert "60.0%" in lines[4]
    assert "gap 0.0e+00" in text
    many = str(made(np.tile([[1.0, 6.0, -2.0, 5.0]], (14, 1))))
    assert "b +6, d +5, a +1" in many
    assert "and 4 more rows" in many
    assert "do not add up" in str(made([[1.0, 2.0]], method="gradient"))


def test_rest_is_summed_up_in_the_table_of_one_row() -> None:
    text = str(made(np.arange(20.0)[None], names=[f"x{j}" for j in range(20)]))
    assert "10 others" in text
    assert "+45" in text


def test_to_pandas() -> None:
    pandas = pytest.importorskip("pandas")
    found = made([[1.0, 2.0], [3.0, 4.0]])
    frame = found.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame.columns) == ["a", "b"]
    assert_array_equal(frame.to_numpy(), found.values)
    ranked = root_causes(found).to_pandas()
    assert list(ranked["variable"]) == ["b", "a"]
    assert list(ranked.index) == [1, 2]


def test_without_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match="to_pandas needs pandas"):
        made([[1.0, 2.0]]).to_pandas()


# -- causes ---------------------------------------------------------------------------


def test_each_row_of_a_window_counts_the_same() -> None:
    values = [[100.0, 0.0, 0.0], [0.0, 3.0, 1.0], [0.0, 3.0, -1.0]]
    found = root_causes(made(values))
    assert found.names == ("b", "a", "c")
    assert_allclose(found.share, [0.5, 1 / 3, 0.0], atol=1e-12)
    assert_allclose(found.mean, [2.0, 100 / 3, 0.0])
    assert found.n_rows == 3
    assert (found.rank("b"), found.rank("c")) == (1, 3)
    assert found.top(2) == ["b", "a"]
    assert len(found) == 3


def test_share_of_rows_in_which_a_variable_is_among_three() -> None:
    found = root_causes(made([[4.0, 3.0, 2.0, 1.0], [4.0, 3.0, 1.0, 2.0]]))
    assert dict(zip(found.names, found.top_share, strict=True)) == {"a": 1.0, "b": 1.0, "c": 0.5, "d": 0.5}


def test_window() -> None:
    values = made([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    assert root_causes(values, slice(0, 1)).names[0] == "a"
    assert root_causes(values, [1, 2]).names[0] == "b"
    assert root_causes(values, np.array([True, False, False])).n_rows == 1


def test_rows_at_their_baseline_have_no_cause() -> None:
    assert_array_equal(root_causes(made([[0.0, 0.0]])).share, [0.0, 0.0])


def test_window_without_rows_or_with_infinite_contributions() -> None:
    with pytest.raises(InputError, match="at least one row"):
        root_causes(made([[1.0, 2.0]]), slice(0, 0))
    with pytest.raises(InputError, match="finite contributions"):
        root_causes(made([[1.0, np.nan]]))
    with pytest.raises(InputError, match="no variable 'z'"):
        root_causes(made([[1.0, 2.0]])).rank("z")


def test_printed_ranking() -> None:
    lines = str(root_causes(made(np.arange(12.0)[None], names=[f"x{j}" for j in range(12)]))).splitlines()
    assert lines[0].split()[:2] == ["rank", "share"]
    assert lines[2].split()[0] == "1"
    assert lines[2].endswith("x11")
    assert lines[-1] == "and 2 more variables"


# -- baselines ---------------------------------------------------------------------------


def resolve(baseline: Any, rows: FloatArray, known: FloatArray) -> tuple[FloatArray, str]:
    return baseline_rows(baseline, rows, centre=known.mean(axis=0), known=known, prepare=lambda B: 2.0 * B)


def test_mean_and_nearest_and_given() -> None:
    known, rows = np.array([[0.0, 0.0], [10.0, 0.0]]), np.array([[9.0, 1.0], [1.0, 1.0], [-5.0, 0.0]])
    assert_array_equal(resolve("mean", rows, known)[0], [[5.0, 0.0]])
    assert_array_equal(resolve("nearest", rows, known)[0], known[[1, 0, 0]])
    assert_array_equal(resolve([1.0, 2.0], rows, known)[0], [[2.0, 4.0]])
    assert_array_equal(resolve(rows, rows, known)[0], 2.0 * rows)


def test_nearest_with_an_offset() -> None:
    known = 1e9 + np.arange(50.0)[:, None] * np.ones((1, 3))
    assert_array_equal(resolve("nearest", known + 0.25, known)[0], known)


@pytest.mark.parametrize("bad", ["median", np.ones((2, 2)), np.ones((1, 1, 2)), 3.0, [np.nan, 1.0]])
def test_bad_baselines(bad: Any) -> None:
    with pytest.raises(InputError, match="aseline must be"):
        resolve(bad, np.ones((3, 2)), np.ones((4, 2)))
