"""Monitoring with a real detector: an outlier, a fault, slow drift, lags over batches, labels and holes."""

from __future__ import annotations

import copy
import warnings
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from kpca import KernelPCADetector
from kpca.detector.rules import alarm_windows, detection_delay, false_alarm_rate
from kpca.detector.watching import RowStatus, monitor

FAULT = np.array([0.0, 0.0, 0.0, 1.5, 0.0, 0.0])  # one sensor says something else than the others
DRIFT = np.array([1.0, -0.8, 0.6, -1.0, 0.8, 0.4])


def process(n: int, seed: int) -> np.ndarray:
    """Six sensors of two things that go on."""
    rng = np.random.default_rng(seed)
    a, b = rng.uniform(-1.0, 1.0, size=(2, n))
    X = np.column_stack([a, b, a * b, a + b, np.sin(2 * a), np.cos(2 * b)])
    return X + 0.05 * rng.normal(size=X.shape)


def fitted(**changes: Any) -> KernelPCADetector:
    return KernelPCADetector(confidence=0.99, random_state=0, **changes).fit(process(500, 0))


def alarms(statuses: list[RowStatus]) -> np.ndarray:
    return np.array([status.alarm for status in statuses])


KINDS: dict[str, dict[str, Any]] = {
    "default": {},
    "linear": {"kernel": "linear"},
    "landmarks": {"approximation": "nystroem"},
    "random features": {"approximation": "rff"},
    "spe": {"statistic": "spe"},
    "contamination": {"contamination": 0.01},
    "not scaled": {"scale": None},
}


@pytest.mark.parametrize("changes", KINDS.values(), ids=KINDS)
def test_an_outlier_is_no_alarm_and_a_fault_is_one(changes: dict[str, Any]) -> None:
    detector = fitted(**changes)
    X = process(300, 1)
    X[100] += FAULT
    X[200:] += FAULT
    found = list(monitor(detector, [X[start : start + 37] for start in range(0, 300, 37)]))
    assert found[100].beyond
    assert not alarms(found)[:200].any()
    assert false_alarm_rate([status.beyond for status in found[:100]], np.ones(100)) <= 0.04
    delay = detection_delay(alarms(found), 200)
    assert delay is not None
    assert delay <= 4
    windows = alarm_windows(alarms(found))
    assert windows[0].start == 200 + delay == found[-1].started
    # each row by itself is judged as by the detector
    assert_array_equal([status.beyond for status in found], detector.predict(X) == -1)
    for name in ("t2", "spe", "combined"):
        assert_allclose([getattr(status, name) for status in found], detector.statistics(X)[name], rtol=1e-6, atol=1e-9)


def test_slow_drift_is_followed_only_if_asked_for_and_faults_are_still_seen() -> None:
    drifting = process(2000, 5) + np.linspace(0.0, 1.0, 2000)[:, None] * DRIFT
    batches = [drifting[start : start + 100] for start in range(0, 2000, 100)]
    detector = fitted(forgetting=0.9)
    before = detector.statistics(drifting[:50])
    still = alarms(list(monitor(detector, batches)))
    assert not still[:200].any()
    assert still[-500:].mean() > 0.95
    assert_array_equal(detector.statistics(drifting[:50]).combined, before.combined)  # nothing was learned

    following = alarms(list(monitor(detector, batches, adapt=True)))
    assert following.mean() < 0.01
    assert (detector.statistics(drifting[:50]).combined != before.combined).all()

    later = process(100, 6) + DRIFT
    later[20:] += FAULT
    found = alarms(list(monitor(detector, [later])))
    assert not found[:20].any()
    assert detection_delay(found, 20) in range(5)


def test_a_fault_is_not_learned() -> None:
    """However long it lasts, and in whatever batches it comes."""
    X = process(1200, 3)
    X[200:] += FAULT
    for size in (1200, 100, 7):
        detector = fitted(forgetting=0.9)
        found = alarms(list(monitor(detector, [X[start : start + size] for start in range(0, 1200, size)], adapt=True)))
        assert not found[:200].any()
        assert found[210:].mean() > 0.95


@pytest.mark.parametrize("changes", [{}, {"kernel": "linear"}], ids=["rbf", "linear"])
def test_one_spike_does_not_spoil_a_model_that_learns(changes: dict[str, Any]) -> None:
    X = process(400, 4)
    X[100, 2] = 1e6
    detector = fitted(**changes)
    found = list(monitor(detector, [X[start : start + 50] for start in range(0, 400, 50)], adapt=True))
    assert found[100].beyond
    assert not alarms(found).any()
    faulty = process(20, 5) + FAULT
    assert alarms(list(monitor(detector, [faulty])))[3:].mean() > 0.8


@pytest.mark.parametrize("size", [1e30, 1e160, 1e300, 1.7e308])
@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
def test_rows_so_far_out_that_numbers_overflow(kernel: str, size: float) -> None:
    X = process(6, 1)
    expected = [status.alarm for status in monitor(fitted(kernel=kernel), [X], k=1, of=1)]
    expected[2] = True
    X[2, 3] = size
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = list(monitor(fitted(kernel=kernel), [X], k=1, of=1, adapt=True))
    assert [status.alarm for status in found] == expected
    assert not found[2].missing
    assert found[2].combined > 100 * found[1].combined


DETECTORS = {lags: fitted(lags=lags) for lags in (0, 1, 3)}


@settings(max_examples=25)
@given(
    lags=st.sampled_from([0, 1, 3]),
    cuts=st.lists(st.integers(0, 40), max_size=8),
    missing=st.sets(st.integers(0, 39), max_size=6),
)
def test_any_cut_gives_the_same_verdicts(lags: int, cuts: list[int], missing: set[int]) -> None:
    X = process(40, 2)
    X[15:22] += FAULT
    X[sorted(missing), 0] = np.nan
    whole = list(monitor(DETECTORS[lags], [X]))
    cut = list(monitor(DETECTORS[lags], [X[start:stop] for start, stop in pairwise([0, *sorted(cuts), 40])]))
    for one, other in zip(cut, whole, strict=True):
        assert_allclose([one.t2, one.spe, one.combined], [other.t2, other.spe, other.combined], rtol=1e-6)
        for name in ("row", "beyond", "beyond_t2", "beyond_spe", "alarm", "started", "missing"):
            assert getattr(one, name) == getattr(other, name)
    if not missing:
        assert_allclose([status.combined for status in whole], DETECTORS[lags].statistics(X).combined, rtol=1e-6)


def test_the_detector_is_left_alone() -> None:
    detector = fitted(lags=1)
    X = process(50, 2)
    before = copy.deepcopy(vars(detector))
    list(monitor(detector, [X], k=1, of=1))
    assert vars(detector).keys() == before.keys()
    assert detector.limits_ == before["limits_"]
    assert_array_equal(detector._past, before["_past"])


def test_frames_with_names_give_no_warning_and_keep_their_labels() -> None:
    names = [f"sensor {number}" for number in range(6)]
    times = pd.date_range("2024-03-01", periods=30, freq="min")
    detector = KernelPCADetector(lags=1).fit(pd.DataFrame(process(300, 0), columns=names))
    frame = pd.DataFrame(process(30, 1), columns=names, index=times)
    frame.iloc[4, 2] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = list(monitor(detector, [frame.iloc[:10], frame.iloc[10], frame.iloc[11:].to_numpy()], adapt=True))
    assert [status.label for status in found] == [*times[:11], *[None] * 19]
    assert [status.row for status in found if status.missing] == [4]


def test_with_lags_a_detector_learns_from_a_stream() -> None:
    X = process(300, 5) + np.linspace(0.0, 1.0, 300)[:, None] * DRIFT
    X[50] = np.nan
    detector = fitted(lags=2, forgetting=0.9)
    before = detector.model_
    found = list(monitor(detector, [X[start : start + 30] for start in range(0, 300, 30)], adapt=True))
    assert len(found) == 300
    assert detector.model_ is not before
    assert detector.statistics(X[:5]).t2.shape == (5,)
