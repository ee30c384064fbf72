"""Monitoring: the same verdicts for any cut of a stream, whatever the batches are made of and whatever is missing."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import FrozenInstanceError, astuple
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import BaseEstimator

from kpca._base.errors import InputError
from kpca.detector.limits import Statistics
from kpca.detector.rules import run_rule
from kpca.detector.watching import RowStatus, monitor
from kpca.kernels import Chi2, Linear

NUMBERS = ("t2", "spe", "combined")


class Plain(BaseEstimator):  # type: ignore[misc]
    """A detector that is easy to follow: t2 from the row itself, spe from its change since `lags` rows before.

    It learns the mean of what it is given.
    """

    n_jobs = 1

    def __init__(self, columns: int = 2, lags: int = 0, limit: float = 9.0) -> None:
        self.n_features_in_, self.lags, self.statistic = columns, lags, "t2"
        self.limits_ = {"t2": limit, "spe": limit, "combined": 2 * limit}
        self._recipe = SimpleNamespace(kernel=Linear())
        self.mean = np.zeros(columns)
        self.learned: list[np.ndarray] = []

    @property
    def offset_(self) -> float:
        return -self.limits_[self.statistic]

    def fit(self, X: Any) -> Plain:
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def _check_fitted(self) -> None:
        pass

    def _scaled(self, X: np.ndarray) -> np.ndarray:
        return X

    def _measured(self, rows: np.ndarray, unit: float) -> Statistics:
        assert np.isfinite(rows).all()
        assert rows.shape[1] == (self.lags + 1) * self.n_features_in_
        now, before = rows[:, : self.n_features_in_], rows[:, -self.n_features_in_ :]
        t2 = ((now - self.mean) ** 2).sum(axis=1)
        spe = ((now - before) ** 2).sum(axis=1)
        return Statistics(t2, spe, t2 + spe)

    def _learn(self, rows: np.ndarray, unit: float) -> None:
        now = rows[:, : self.n_features_in_]
        self.learned.extend(now)
        for row in now:
            self.mean = 0.9 * self.mean + 0.1 * row


def stream(n: int = 60, columns: int = 2, seed: int = 0) -> np.ndarray:
    """Normal rows with some far out, alone and together."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, columns))
    X[rng.random(n) < 0.1] += 6.0
    X[n // 2 : n // 2 + 6] += 6.0
    return X


def assert_same(found: list[RowStatus], expected: list[RowStatus]) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert_allclose([getattr(one, name) for name in NUMBERS], [getattr(other, name) for name in NUMBERS])
        for name in ("row", "label", "beyond", "beyond_t2", "beyond_spe", "alarm", "started", "missing"):
            assert getattr(one, name) == getattr(other, name)


# ---- what a status says


def test_every_field() -> None:
    X = np.zeros((8, 2))
    X[3:7] = 3.0
    found = list(monitor(Plain(lags=1), [X], k=2, of=3))
    assert [status.row for status in found] == list(range(8))
    assert [status.t2 for status in found] == [0, 0, 0, 18, 18, 18, 18, 0]
    assert [status.spe for status in found] == [0, 0, 0, 18, 0, 0, 0, 18]
    assert [status.combined for status in found] == [0, 0, 0, 36, 18, 18, 18, 18]
    assert [status.beyond for status in found] == [0, 0, 0, 1, 1, 1, 1, 0]
    assert [status.beyond_t2 for status in found] == [0, 0, 0, 1, 1, 1, 1, 0]
    assert [status.beyond_spe for status in found] == [0, 0, 0, 1, 0, 0, 0, 1]
    assert [status.alarm for status in found] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert [status.started for status in found] == [None] * 4 + [4] * 4
    assert not any(status.missing for status in found)
    assert all(status.label is None for status in found)
    with pytest.raises(FrozenInstanceError):
        found[0].alarm = True  # type: ignore[misc]
    kinds = [type(value) for value in astuple(found[4])]
    assert kinds == [int, type(None), float, float, float, bool, bool, bool, bool, int, bool]


def test_a_second_alarm_has_a_start_of_its_own() -> None:
    X = np.zeros((9, 2))
    X[[1, 2, 6, 7]] = 9.0
    found = list(monitor(Plain(), X, k=2, of=2))
    assert [status.started for status in found] == [None, None, 2, None, None, None, None, 7, None]


@pytest.mark.parametrize("statistic", NUMBERS)
def test_the_statistic_that_is_watched(statistic: str) -> None:
    X, detector = stream(), Plain(lags=1)
    found = list(monitor(detector, [X], statistic=statistic, k=1, of=1))
    beyond = [getattr(status, statistic) > detector.limits_[statistic] for status in found]
    assert [status.beyond for status in found] == beyond == [status.alarm for status in found]
    assert any(beyond)
    assert not all(beyond)
    detector.statistic = statistic
    assert_same(list(monitor(detector, [X], k=1, of=1)), found)


def test_a_row_at_its_limit_is_not_beyond_it() -> None:
    assert [status.beyond for status in monitor(Plain(), np.array([[3.0, 0.0], [3.0, 1e-6]]))] == [False, True]


# ---- cuts


@given(
    cuts=st.lists(st.integers(0, 40), max_size=10),
    lags=st.integers(0, 3),
    rule=st.sampled_from([(1, 1), (2, 3), (3, 5)]),
    missing=st.sets(st.integers(0, 39), max_size=12),
    seed=st.integers(0, 1000),
)
def test_any_cut_gives_the_same(
    cuts: list[int], lags: int, rule: tuple[int, int], missing: set[int], seed: int
) -> None:
    X = stream(40, seed=seed)
    X[sorted(missing), 1] = np.nan
    k, of = rule
    whole = list(monitor(Plain(lags=lags), [X], k=k, of=of))
    edges = [0, *sorted(cuts), 40]
    parts = [X[start:stop] for start, stop in pairwise(edges)]
    assert_same(list(monitor(Plain(lags=lags), parts, k=k, of=of)), whole)
    assert_same(list(monitor(Plain(lags=lags), list(X), k=k, of=of)), whole)  # single rows
    alarm = run_rule([status.beyond for status in whole], k, of)
    assert [status.alarm for status in whole] == alarm.tolist()


@given(cuts=st.lists(st.integers(0, 40), max_size=10), seed=st.integers(0, 1000))
def test_which_rows_are_learned_does_not_depend_on_the_cut(cuts: list[int], seed: int) -> None:
    X = stream(40, seed=seed)

    class Unmoved(Plain):
        def _learn(self, rows: np.ndarray, unit: float) -> None:
            self.learned.extend(rows)

    whole, cut = Unmoved(), Unmoved()
    list(monitor(whole, [X], adapt=True))
    list(monitor(cut, [X[start:stop] for start, stop in pairwise([0, *sorted(cuts), 40])], adapt=True))
    assert_array_equal(np.array(cut.learned).reshape(-1, 2), np.array(whole.learned).reshape(-1, 2))


def test_batches_are_taken_one_at_a_time_and_not_kept() -> None:
    buffer = np.zeros((2, 2))
    taken = []

    def batches() -> Iterator[np.ndarray]:
        for number in range(6):
            taken.append(number)
            buffer[:] = number
            yield buffer

    statuses = monitor(Plain(lags=1), batches(), adapt=True, of=3)
    assert taken == []
    found = [next(statuses) for _ in range(3)]
    assert taken == [0, 1]
    found += list(statuses)
    assert [status.spe for status in found] == [0, 0, 2, 0, 2, 0, 2, 0, 2, 0, 2, 0]


def test_a_stream_without_end() -> None:
    def forever() -> Iterator[np.ndarray]:
        while True:
            yield np.zeros(2)

    statuses = monitor(Plain(), forever(), adapt=True)
    assert [next(statuses).row for _ in range(100)][-1] == 99


# ---- what batches may be


def test_kinds_of_batches() -> None:
    X = stream(12)
    expected = list(monitor(Plain(lags=2), [X]))
    frame = pd.DataFrame(X, columns=["a", "b"])
    for batches in (
        X,
        [X],
        [X.tolist()],
        X.tolist(),
        iter(X),
        [X[:5], np.empty((0, 2)), [], X[5], X[6:]],
        [sparse.csr_array(X)],
        sparse.csr_array(X),
        pl.DataFrame(X, schema=["a", "b"]),
        [frame.iloc[:0], pl.DataFrame(X, schema=["a", "b"])],
        np.ma.MaskedArray(X, mask=np.zeros_like(X, dtype=bool)),
        X.reshape(3, 4, 2),
        np.asfortranarray(X),
        np.repeat(X, 2, axis=0)[::2],
    ):
        assert_same(list(monitor(Plain(lags=2), batches)), expected)
    assert list(monitor(Plain(), [])) == []
    assert list(monitor(Plain(), [np.empty((0, 2)), [], pd.DataFrame()])) == []


def test_numbers_of_other_types() -> None:
    rows = [[1, 5], [0, 2]]
    expected = list(monitor(Plain(), [np.array(rows, dtype=float)]))
    for dtype in (np.int8, np.uint64, np.float16, np.float32, object):
        assert_same(list(monitor(Plain(), [np.array(rows, dtype=dtype)])), expected)
    own = list(monitor(Plain(), pd.DataFrame(rows, columns=["a", "b"], dtype="Int64")))
    assert [status.t2 for status in own] == [status.t2 for status in expected] == [26, 4]


def test_labels_come_from_the_index() -> None:
    X = stream(6)
    times = pd.date_range("2024-01-01", periods=6, freq="h")
    frame = pd.DataFrame(X, columns=["a", "b"], index=times)
    for batches in (frame, [frame.iloc[:2], frame.iloc[2:]], [row for _, row in frame.iterrows()]):
        assert [status.label for status in monitor(Plain(), batches)] == list(times)
    mixed = list(monitor(Plain(), [frame.iloc[:1], X[1:2], frame.iloc[2]]))
    assert [status.label for status in mixed] == [times[0], None, times[2]]
    assert [status.row for status in mixed] == [0, 1, 2]


def test_names_of_columns_are_compared() -> None:
    detector: Any = Plain()
    detector.feature_names_in_ = np.array(["a", "b"], dtype=object)
    frame = pd.DataFrame(np.zeros((2, 2)), columns=["a", "b"])
    assert len(list(monitor(detector, [frame, frame.iloc[0], frame.to_numpy()]))) == 5
    message = "At row 2 of the stream: columns must be .* in that order; got 'b' in place of 'a'"
    for wrong in (frame[["b", "a"]], frame[["b", "a"]].iloc[0], pl.from_pandas(frame[["b", "a"]])):
        with pytest.raises(InputError, match=message):
            list(monitor(detector, [frame, wrong]))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (np.zeros((4, 3)), r"At row 5 of the stream a batch must have 2 columns.*; got shape \(4, 3\)"),
        (np.zeros(3), r"At row 5 .* got shape \(1, 3\)"),
        (np.zeros((1, 2, 2)), r"At row 5 .* got shape \(1, 2, 2\)"),
        (pd.DataFrame(np.zeros((1, 1))), r"At row 5 .* got shape \(1, 1\)"),
        (7.0, "At row 5 of the stream: a batch must be rows, or one row; got the number 7.0"),
        (["a", "b"], "At row 5 of the stream: a batch must hold real numbers only; got <U1"),
        ([["1", "2"]], "At row 5 .* real numbers only"),
        (np.zeros(2, dtype=complex), "At row 5 .* real numbers only; got complex128"),
        (np.array([object(), 1.0], dtype=object), "At row 5 of the stream a batch must hold numbers only"),
        ([[1.0, 2.0], [3.0]], "At row 5 of the stream a batch must hold numbers only"),
        (None, "At row 5"),
        (pd.DataFrame({"a": ["x"], "b": [1.0]}), "At row 5 of the stream: X must hold numbers only"),
        (pd.Series(["x", "y"]), "At row 5 of the stream a batch must hold numbers only"),
    ],
)
def test_what_is_no_batch_names_the_row(wrong: Any, message: str) -> None:
    statuses = monitor(Plain(), [np.zeros((5, 2)), wrong])
    assert [next(statuses).row for _ in range(5)][-1] == 4
    with pytest.raises(InputError, match=message):
        next(statuses)


def test_wrong_arguments_are_refused_at_once() -> None:
    for changes, message in [
        ({"statistic": "q"}, "statistic must be 't2', 'spe' or 'combined'; got 'q'"),
        ({"k": 4, "of": 3}, "k must not be more than of"),
        ({"batches": 5}, "batches must be rows, or something that gives batches of them; got int"),
        ({"batches": "rows.csv"}, "got str"),
    ]:
        arguments: Any = {"batches": []} | changes
        with pytest.raises(InputError, match=message):
            monitor(Plain(), arguments.pop("batches"), **arguments)


def test_rows_that_the_kernel_refuses_name_the_row() -> None:
    detector = Plain()
    detector._recipe = SimpleNamespace(kernel=Chi2())
    with pytest.raises(InputError, match=r"From row 3 of the stream on: .*negative"):
        list(monitor(detector, [np.ones((3, 2)), -np.ones((2, 2))]))


# ---- what is missing


@pytest.mark.parametrize("hole", [math.nan, math.inf, -math.inf])
def test_a_missing_row_is_reported_and_survived(hole: float) -> None:
    X = np.zeros((6, 2))
    X[2, 1] = hole
    X[3:] = 4.0
    found = list(monitor(Plain(lags=1), [X], k=3, of=3))
    assert [status.missing for status in found] == [False, False, True, False, False, False]
    assert all(math.isnan(getattr(found[2], name)) for name in NUMBERS)
    assert not (found[2].beyond or found[2].beyond_t2 or found[2].beyond_spe or found[2].alarm)
    # the row after it is compared with the last complete one
    assert [status.spe for status in found[3:]] == [32, 0, 0]
    assert [status.alarm for status in found] == [False] * 5 + [True]


def test_a_missing_row_within_an_alarm_does_not_end_it_if_the_rule_still_holds() -> None:
    X = np.full((8, 2), 5.0)
    X[4] = np.nan
    found = list(monitor(Plain(), X, k=3, of=5))
    assert [status.alarm for status in found] == [False, False] + [True] * 6
    assert found[-1].started == 2


def test_missing_from_the_start_and_altogether() -> None:
    X = np.full((7, 2), np.nan)
    assert all(status.missing and not status.alarm for status in monitor(Plain(lags=2), X))
    X[4:] = [[1.0, 0.0], [1.0, 2.0], [1.0, 2.0]]
    for batches in ([X], list(X)):
        found = list(monitor(Plain(lags=2), batches, adapt=True))
        assert [status.missing for status in found] == [True] * 4 + [False] * 3
        assert [status.spe for status in found[4:]] == [0, 4, 4]  # a series begins with its first complete row


def test_missing_entries_of_other_kinds() -> None:
    frame = pd.DataFrame({"a": pd.array([1, None], dtype="Int64"), "b": [1.0, 2.0]})
    masked = np.ma.MaskedArray([[1.0, 1.0], [1.0, 9.0]], mask=[[False, False], [False, True]])
    for batches in (
        frame,
        [row for _, row in frame.iterrows()],
        masked,
        [[1.0, 1.0], [None, 2.0]],
        pl.DataFrame(frame),
    ):
        assert [status.missing for status in monitor(Plain(), batches)] == [False, True]


# ---- learning


def test_without_adapt_nothing_is_learned() -> None:
    detector = Plain()
    before = dict(vars(detector))
    list(monitor(detector, [stream()]))
    assert vars(detector) == before


def test_rows_of_an_alarm_are_not_learned_nor_those_that_led_to_it() -> None:
    X = np.zeros((30, 2))
    X[5] = 8.0  # alone: no alarm, learned as what it is, a rare row
    X[[14, 16, 17]] = 7.0  # 3 of 5: alarm from 17 to 18
    X[20, 0] = np.nan
    X += np.arange(30)[:, None] * 1e-6  # so that rows can be told apart
    for batches in ([X], list(X), [X[:15], X[15:16], X[16:]]):
        detector = Plain(limit=60.0)
        found = list(monitor(detector, batches, adapt=True))
        assert [status.row for status in found if status.alarm] == [17, 18]
        learned = {int(np.flatnonzero((row == X).all(axis=1))[0]) for row in detector.learned}
        assert learned == set(range(26)) - {14, 16, 17, 18, 20}


@pytest.mark.parametrize("lags", [1, 2])
def test_with_lags_rows_that_see_a_fault_are_not_learned_either(lags: int) -> None:
    X = np.zeros((30, 2))
    X[12] = 40.0  # alone, but too far out
    X[20] = np.nan
    X += np.arange(30)[:, None] * 1e-6
    for batches in ([X], list(X), [X[:13], X[13:14], X[14:]]):
        detector = Plain(lags=lags)
        assert not any(status.alarm for status in monitor(detector, batches, adapt=True))
        learned = {int(np.flatnonzero((row == X).all(axis=1))[0]) for row in detector.learned}
        assert learned == set(range(26)) - set(range(12, 13 + lags)) - set(range(20, 21 + lags))


def test_a_failure_to_learn_leaves_the_detector_as_it_was() -> None:
    class Failing(Plain):
        def _learn(self, rows: np.ndarray, unit: float) -> None:
            self.mean = np.full(2, 7.0)
            raise InputError("no")

    detector = Failing()
    with pytest.raises(InputError, match="no"):
        list(monitor(detector, [np.zeros((9, 2))], adapt=True))
    assert_array_equal(detector.mean, np.zeros(2))


def test_adapting_happens_after_a_batch_was_judged() -> None:
    X = np.ones((10, 2))
    detector = Plain()
    statuses = monitor(detector, [X, X], adapt=True, k=1, of=1)
    first = [next(statuses) for _ in range(10)]
    assert not detector.learned
    assert {status.t2 for status in first} == {2.0}
    assert next(statuses).t2 < 0.5
    assert len(detector.learned) == 10


@settings(max_examples=20)
@given(of=st.integers(1, 6), sizes=st.lists(st.integers(0, 7), max_size=8))
def test_rows_wait_no_longer_than_the_rule_is_long(of: int, sizes: list[int]) -> None:
    detector = Plain()
    list(monitor(detector, [np.zeros((size, 2)) for size in sizes], k=1, of=of, adapt=True))
    assert len(detector.learned) == max(0, sum(sizes) - (of - 1))
