"""Run rules: the same as counting row by row, for any cut of a stream; their rates are exact."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from kpca._base.errors import InputError
from kpca.detector import rules
from kpca.detector.rules import (
    RunRule,
    alarm_windows,
    average_run_length,
    detection_delay,
    detection_rate,
    false_alarm_rate,
    run_rule,
    run_rule_rate,
)

sequences = st.lists(st.booleans(), max_size=60)
rules_of = st.integers(1, 9).flatmap(lambda of: st.tuples(st.integers(1, of), st.just(of)))


def slow_rule(beyond: list[bool], k: int, of: int) -> list[bool]:
    return [sum(beyond[max(0, t - of + 1) : t + 1]) >= k for t in range(len(beyond))]


# ---- the rule


@given(beyond=sequences, rule=rules_of)
def test_as_counted_row_by_row(beyond: list[bool], rule: tuple[int, int]) -> None:
    found = run_rule(beyond, *rule)
    assert found.dtype == bool
    assert found.tolist() == slow_rule(beyond, *rule)


@given(beyond=sequences, rule=rules_of, cuts=st.lists(st.integers(0, 60), max_size=12))
def test_any_cut_gives_the_same_alarms(beyond: list[bool], rule: tuple[int, int], cuts: list[int]) -> None:
    stream = RunRule(*rule)
    edges = [0, *sorted(min(cut, len(beyond)) for cut in cuts), len(beyond)]  # batches may be empty
    parts = [stream.update(beyond[start:stop]) for start, stop in pairwise(edges)]
    assert_array_equal(np.concatenate(parts), run_rule(beyond, *rule))


def test_defaults_and_examples() -> None:
    beyond = [1, 0, 1, 0, 1, 0, 0, 0, 1]
    assert np.flatnonzero(run_rule(beyond)).tolist() == [4]
    assert np.flatnonzero(run_rule([1, 1, 1, 0, 0, 0])).tolist() == [2, 3, 4]
    assert run_rule([]).shape == (0,)
    assert_array_equal(run_rule([0, 1, 0], 1, 1), [False, True, False])
    assert not run_rule([1, 1], 3, 5).any()  # rows before the first count as within the limit


@pytest.mark.parametrize(
    "values",
    [
        [1.0, 0.0, 1.0],
        np.array([1, 0, 1], dtype=np.uint8),
        pd.Series([True, False, True]),
        np.array([True, 0, 1], dtype=object),
    ],
)
def test_flags_may_come_as_numbers(values: Any) -> None:
    assert run_rule(values, 1, 1).tolist() == [True, False, True]


def test_the_input_is_left_alone_and_not_kept() -> None:
    flags = np.array([True, True, False])
    stream = RunRule(2, 3)
    stream.update(flags)
    flags[:] = False
    assert stream.update([True]).tolist() == [True]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([0.3, 4.0], "beyond must hold flags, True and False or 1 and 0; got 0.3"),
        ([1.0, math.nan], "got nan"),
        ([1, 2], "got 2"),
        (["yes", "no"], "got 'yes'"),
        ([True, None], "got None"),
        ([[True, False]], r"in one dimension; got shape \(1, 2\)"),
        (True, r"got shape \(\)"),
    ],
)
def test_what_is_no_flag_is_refused(values: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        run_rule(values)


@pytest.mark.parametrize(
    ("k", "of", "message"),
    [
        (0, 5, "k must be a whole number from 1; got 0"),
        (3, 2, "k must not be more than of, an alarm would never come; got 3 of 2"),
        (1.5, 2, "k must be a whole number"),
        (True, 2, "k must be a whole number"),
        (1, 0, "of must be a whole number from 1; got 0"),
    ],
)
def test_wrong_rules_are_refused(k: Any, of: Any, message: str) -> None:
    for call in (lambda: run_rule([True], k, of), lambda: RunRule(k, of), lambda: run_rule_rate(0.1, k, of)):
        with pytest.raises(InputError, match=message):
            call()
    with pytest.raises(InputError, match=message):
        average_run_length(0.1, k, of)


# ---- what is counted


@given(alarm=sequences)
def test_windows_are_the_runs_of_alarms(alarm: list[bool]) -> None:
    windows = alarm_windows(alarm)
    rebuilt = np.zeros(len(alarm), dtype=bool)
    for window in windows:
        assert window.start < window.stop
        assert not rebuilt[max(window.start - 1, 0) : window.stop].any()  # not touching the one before
        rebuilt[window] = True
    assert rebuilt.tolist() == alarm
    assert [window.start for window in windows] == sorted(window.start for window in windows)


def test_windows_at_the_ends() -> None:
    assert alarm_windows([]) == []
    assert alarm_windows([1, 1]) == [slice(0, 2)]
    assert alarm_windows([1, 0, 1, 1]) == [slice(0, 1), slice(2, 4)]


def test_delay() -> None:
    alarm = [0, 1, 0, 0, 0, 1, 1]
    assert detection_delay(alarm, 3) == 2
    assert detection_delay(alarm, 5) == 0
    assert detection_delay(alarm, 1) == 0
    assert detection_delay([1, 1, 0, 0], 2) is None
    assert detection_delay(alarm, np.int64(6)) == 0


@pytest.mark.parametrize(("onset", "message"), [(-1, "from 0; got -1"), (3, "which has 3; got 3"), (0.5, "whole")])
def test_delay_refuses_rows_that_are_not_there(onset: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        detection_delay([0, 1, 0], onset)


def test_rates() -> None:
    flags = [0, 1, 1, 1]
    faulty = np.array([False, False, True, True])
    assert detection_rate(flags, faulty) == 1.0
    assert false_alarm_rate(flags, ~faulty) == 0.5
    with pytest.raises(InputError, match="flags and faulty must have the same rows; got 4 and 3"):
        detection_rate(flags, faulty[:3])
    with pytest.raises(InputError, match="normal must name at least one row"):
        false_alarm_rate(flags, np.zeros(4, dtype=bool))
    with pytest.raises(InputError, match="faulty must hold flags"):
        detection_rate(flags, [2, 3, 0, 1])  # row numbers are no mask


# ---- what to expect of a rule


@pytest.mark.parametrize("rule", [(1, 1), (1, 3), (2, 3), (3, 5), (5, 5), (4, 7)])
@pytest.mark.parametrize("p", [0.01, 0.3, 0.97])
def test_rate_is_that_of_all_windows(rule: tuple[int, int], p: float) -> None:
    k, of = rule
    windows = [window for window in product((0, 1), repeat=of) if sum(window) >= k]
    expected = sum(math.prod(p if bit else 1 - p for bit in window) for window in windows)
    assert run_rule_rate(p, k, of) == pytest.approx(expected, rel=1e-12)


def exact_run_length(p: Fraction, k: int, of: int) -> Fraction:
    """Gauss elimination in fractions, over all windows, none left out."""
    states = [state for state in range(2 ** (of - 1)) if state.bit_count() < k]
    place = {state: number for number, state in enumerate(states)}
    rows: list[dict[int, Fraction]] = []  # the equation of each state; the right side has number -1
    for state in states:
        row = {place[state]: Fraction(1), -1: Fraction(1)}
        for chance, bit in ((p, 1), (1 - p, 0)):
            window = state << 1 | bit
            if window.bit_count() < k:
                column = place[window & (2 ** (of - 1) - 1)]
                row[column] = row.get(column, Fraction(0)) - chance
        rows.append(row)
    for number in range(len(rows) - 1, 0, -1):  # the quiet state comes last
        pivot = rows[number]
        for other in range(number):
            factor = rows[other].pop(number, Fraction(0)) / pivot[number]
            for column, value in pivot.items():
                if factor and column != number:
                    rows[other][column] = rows[other].get(column, Fraction(0)) - factor * value
    return rows[0][-1] / rows[0][0]


@pytest.mark.parametrize("rule", [(1, 1), (1, 4), (2, 2), (2, 3), (3, 5), (4, 5), (3, 6), (2, 6), (6, 6)])
@pytest.mark.parametrize("p", [Fraction(1, 10**6), Fraction(1, 100), Fraction(1, 2), Fraction(99, 100)])
def test_run_length_is_exact(rule: tuple[int, int], p: Fraction) -> None:
    # p is a fraction that a float is not: so far the numbers may differ
    assert average_run_length(float(p), *rule) == pytest.approx(float(exact_run_length(p, *rule)), rel=1e-11)


def test_run_lengths_in_closed_form() -> None:
    for k in (1, 2, 5, 40):
        assert average_run_length(0.2, k, k) == pytest.approx((1 - 0.2**k) / (0.8 * 0.2**k), rel=1e-10)
    assert average_run_length(0.25, 1, 300) == 4.0
    assert average_run_length(0.0) == math.inf
    assert average_run_length(1.0, 4, 6) == 4.0
    assert average_run_length(1e-200, 3, 5) == math.inf  # more than a float can hold
    # two in a window that is never left, but for one in e^1000: the first, then the second
    assert average_run_length(0.5, 2, 1000) == pytest.approx(4.0)
    assert (run_rule_rate(0.0), run_rule_rate(1.0)) == (0.0, 1.0)


def test_simulated_rates_and_run_lengths() -> None:
    rng = np.random.default_rng(0)
    k, of, p = 3, 5, 0.25
    alarm = run_rule(rng.random(400_000) < p, k, of)
    assert alarm.mean() == pytest.approx(run_rule_rate(p, k, of), rel=0.02)
    runs = rng.random((4000, 400)) < p
    lengths = [1 + int(np.flatnonzero(run_rule(run, k, of))[0]) for run in runs]
    assert np.mean(lengths) == pytest.approx(average_run_length(p, k, of), rel=0.05)


@given(p=st.floats(1e-3, 0.999), rule=rules_of)
def test_run_lengths_and_rates_belong_together(p: float, rule: tuple[int, int]) -> None:
    """No alarm before k rows; and a rule that asks for more rows takes longer."""
    k, of = rule
    length = average_run_length(p, k, of)
    assert length >= k / p * (1 - 1e-9)  # k rows beyond take k / p rows
    assert length * (1 + 1e-9) >= average_run_length(p, k, of + 1)
    assert run_rule_rate(p, k, of) <= run_rule_rate(p, k, of + 1) * (1 + 1e-9)
    assert length <= average_run_length(p, k + 1, of + 1) * (1 + 1e-9)


def test_the_table_in_the_documentation_is_right() -> None:
    text = rules.__doc__ or ""
    lines = [line.split() for line in text.splitlines() if line.strip()[:1].isdigit()]
    assert len(lines) == 6
    for line in lines:
        rule = int(line[0]), int(line[2])
        cells = " ".join(line[3:])
        expected = [
            *(f"1 in {spaced(1 / run_rule_rate(p, *rule))}" for p in (0.05, 0.01)),
            *(spaced(average_run_length(p, *rule)) for p in (0.05, 0.01)),
            *(f"{average_run_length(p, *rule):.1f}" for p in (0.5, 0.9)),
        ]
        assert cells == " ".join(expected)


def spaced(number: float) -> str:
    return f"{number:,.0f}".replace(",", " ")


@pytest.mark.parametrize("p", [-0.1, 1.1, math.nan, "0.1", True, None])
def test_what_is_no_probability_is_refused(p: Any) -> None:
    for call in (run_rule_rate, average_run_length):
        with pytest.raises(InputError, match="p must be a probability between 0 and 1; got"):
            call(p)


def test_rules_too_large_to_solve_say_so() -> None:
    with pytest.raises(InputError, match="k and of that are small, or close to each other; got 20 of 40"):
        average_run_length(0.1, 20, 40)
    assert average_run_length(0.1, 5, 20) < average_run_length(0.1, 6, 20)
