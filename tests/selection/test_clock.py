"""A budget of time is kept, whoever else says stop; time is told by a clock of our own."""

import time
from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kpca
from kpca import selection
from kpca._base.config import progress_callback
from kpca._base.errors import Cancelled, InputError
from kpca.selection import rows as clock_module
from kpca.selection import trials as trials_module
from kpca.selection import tuning as refit_module
from kpca.selection.rows import Clock, TimeUp, parse_seconds
from kpca.selection.trials import Gap

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))


class Hands:
    """The hands of a clock, which move when they are told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def hands(monkeypatch) -> Iterator[Hands]:
    hands = Hands()
    for module in (clock_module, trials_module):
        monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=hands.perf_counter))
    with kpca.config(threads=1):  # who comes first would otherwise be chance
        yield hands


def judging(hands: Hands, seconds: float, pass_seconds: tuple[float, ...] = ()):
    """A criterion that takes its time: so long for each trial, and so long for passes that ask whether to go on."""

    class Slow(Gap):
        def losses(self, fitted, counts):
            for one in pass_seconds:
                hands.now += one
                if callable(progress_callback()) and progress_callback()({"pass": 1}) is False:
                    raise Cancelled("by the monitor")
            hands.now += seconds
            return super().losses(fitted, counts)

    return Slow()


# -- budgets in words -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        (None, None),
        (3, 3.0),
        (0.5, 0.5),
        (np.float32(2.5), 2.5),
        (np.int64(7), 7.0),
        ("60", 60.0),
        ("60s", 60.0),
        (" 2 min ", 120.0),
        ("1.5 Minutes", 90.0),
        ("3m", 180.0),
        ("2h", 7200.0),
        ("2 hours", 7200.0),
        ("250ms", 0.25),
        ("5 secs", 5.0),
    ],
)
def test_budgets(said, seconds) -> None:
    assert parse_seconds(said) == seconds


@pytest.mark.parametrize(
    "said",
    [0, -1, "0s", "-3s", True, float("nan"), float("inf"), "soon", "", "s", "1e3", "5 parsecs", [3], "1,5s", b"3"],
)
def test_what_is_no_budget(said) -> None:
    with pytest.raises(InputError, match="budget must be"):
        parse_seconds(said)


@given(st.floats(1e-3, 1e6), st.sampled_from(["", "s", " s", "min", "ms"]))
def test_text_and_numbers_agree(number: float, unit: str) -> None:
    number = round(number, 3)
    factor = {"": 1.0, "s": 1.0, " s": 1.0, "min": 60.0, "ms": 1e-3}[unit]
    assert parse_seconds(f"{number:f}{unit}") == pytest.approx(number * factor)


# -- the clock --------------------------------------------------------------------------------------------------------


def test_what_is_left(hands: Hands) -> None:
    timed, endless = Clock(5.0), Clock(None)
    hands.now += 2.0
    assert (timed.elapsed, timed.left, endless.left) == (2.0, 3.0, float("inf"))


def test_fits_end_when_no_more_than_the_reserve_is_left(hands: Hands) -> None:
    clock = Clock(5.0)
    with clock.stopping(reserve=2.0):
        go_on = progress_callback()
        assert go_on({}) is True
        hands.now += 2.999
        assert go_on({}) is True
        hands.now += 0.001
        with pytest.raises(TimeUp):
            go_on({})
    with Clock(None).stopping():
        assert progress_callback() is False


def test_the_user_may_say_stop_at_any_time(hands: Hands) -> None:
    for elapsed in (0.0, 10.0):  # also when the time is up: it was the user who said so
        with kpca.config(progress=lambda state: False):
            clock = Clock(5.0)
            hands.now += elapsed
            with clock.stopping(), pytest.raises(Cancelled) as caught:
                progress_callback()({})
        assert not isinstance(caught.value, TimeUp)


# -- a search with a budget -------------------------------------------------------------------------------------------


def search(hands: Hands, budget, rows=X, seconds: float = 1.0, passes: tuple[float, ...] = (), **options):
    options = {"kernels": {"rbf": 8}, "n_components": [1, 2], "refit": False, **options}
    return selection.tune(rows, criterion=judging(hands, seconds, passes), budget=budget, **options)


def test_as_many_as_there_is_time_for(hands: Hands) -> None:
    found = search(hands, 5.5)
    assert len(found.trials) == 5  # a sixth would have ended after the time
    assert not found.complete
    assert "before all 8 had been tried" in found.reason
    assert found.seconds == 5.0


def test_with_time_enough_all_are_tried(hands: Hands) -> None:
    found = search(hands, 8.5)
    assert len(found.trials) == 8
    assert found.complete


def test_one_is_tried_in_any_case(hands: Hands) -> None:
    found = search(hands, "100ms")
    assert len(found.trials) == 1
    assert not found.complete


def test_a_fit_is_ended_between_its_passes(hands: Hands) -> None:
    found = search(hands, 5.0, seconds=0.0, passes=(0.7, 0.7))
    assert len(found.trials) == 3  # 4.2 s; a fourth is not even begun, as those before took longer than what is left
    found = search(hands, 5.0, seconds=0.0, passes=(0.1,), kernels={"rbf": 30})
    assert len(found.trials) == 30
    calls = iter([0.1, 0.1, 9.0])

    class Uneven(Gap):
        def losses(self, fitted, counts):
            hands.now += next(calls)
            if callable(progress_callback()):
                progress_callback()({"pass": 1})
            return super().losses(fitted, counts)

    found = selection.tune(X, criterion=Uneven(), kernels={"rbf": 8}, n_components=1, budget=3, refit=False)
    assert (len(found.trials), found.complete) == (2, False)


def test_many_rows_are_begun_only_if_there_is_time(hands: Hands) -> None:
    rows = RNG.normal(size=(1200, 2))
    found = search(hands, 4.5, rows=rows, kernels={"rbf": 2})
    assert {trial.rows for trial in found.trials} == {600}  # 2 s are gone, and one more trial takes 2.8
    assert not found.complete
    found = search(hands, 100.0, rows=rows, kernels={"rbf": 2})
    assert {trial.rows for trial in found.trials} == {1200}
    assert found.complete


def test_the_best_of_few_rows_come_first(hands: Hands) -> None:
    rows = RNG.normal(size=(1200, 2))
    first = search(hands, 8.9, rows=rows, kernels={"rbf": 8})
    assert {trial.rows for trial in first.trials} == {600}
    best = min(first.trials, key=lambda trial: trial.means.min())
    # 8 s for the few rows, and 6 for some of the best on as many rows as that allows
    second = search(hands, 14.0, rows=rows, kernels={"rbf": 8})
    assert len({trial.rows for trial in second.trials}) == 1 and 600 < second.trials[0].rows < 1200
    assert second.trials[0].candidate.label == best.candidate.label
    assert 3 <= len(second.trials) < 8 and not second.complete
    third = search(hands, 60.0, rows=rows, kernels={"rbf": 8})
    assert {trial.rows for trial in third.trials} == {1200} and len(third.trials) == 8 and third.complete


def test_saying_stop_ends_a_search_without_result(hands: Hands) -> None:
    seen = []

    def stop(state) -> bool:
        seen.append(state)
        return len(seen) < 3

    with kpca.config(progress=stop), pytest.raises(kpca.Cancelled, match="progress callback"):
        search(hands, None)
    assert len(seen) == 3
    with kpca.config(progress=lambda state: False), pytest.raises(kpca.Cancelled) as caught:
        search(hands, 5.0, passes=(9.0,))  # the time is up as well
    assert not isinstance(caught.value, TimeUp)


def test_errors_of_the_callback_are_not_swallowed(hands: Hands) -> None:
    def broken(state) -> None:
        raise KeyError("mine")

    with kpca.config(progress=broken), pytest.raises(KeyError):
        search(hands, 5.0)


# -- the last fit -----------------------------------------------------------------------------------------------------


def last_fit(monkeypatch, hands, seconds, *, n=1000, searched=700, budget=10.0, **parameters):
    """Refit with a plan that says what the test wants: seconds by (rows, approximation)."""
    asked = []

    def planned(model, rows):
        asked.append((len(rows), model.approximation))
        return seconds[len(rows), model.approximation]

    monkeypatch.setattr(refit_module, "_seconds", planned)
    rows = RNG.normal(size=(n, 2))
    model = kpca.KernelPCA(2, kernel="rbf", **parameters)
    return refit_module.refitted(model, rows, rows[:searched], Clock(budget))


def test_exact_if_there_is_time(monkeypatch, hands: Hands) -> None:
    model, note = last_fit(monkeypatch, hands, {(1000, None): 6.0, (1000, "nystroem"): 3.0, (700, None): 4.0})
    assert (model.approximation, len(model.X_fit_), note) == (None, 1000, "")


@pytest.mark.filterwarnings("ignore:.*landmarks explain all rows")
def test_landmarks_if_not(monkeypatch, hands: Hands) -> None:
    seconds = {(1000, None): 60.0, (1000, "nystroem"): 5.0, (700, None): 1.0}
    model, note = last_fit(monkeypatch, hands, seconds)
    assert model.approximation == "nystroem"
    assert "landmarks" in note and "60 s" in note


def test_fewer_rows_if_landmarks_take_too_long(monkeypatch, hands: Hands) -> None:
    seconds = {(1000, None): 60.0, (1000, "nystroem"): 50.0, (700, None): 5.0}
    model, note = last_fit(monkeypatch, hands, seconds)
    assert (model.approximation, len(model.X_fit_)) == (None, 700)
    assert "700 rows of the search" in note


@pytest.mark.filterwarnings("ignore:.*landmarks explain all rows")
def test_the_quickest_if_all_take_too_long(monkeypatch, hands: Hands) -> None:
    seconds = {(1000, None): 60.0, (1000, "nystroem"): 30.0, (700, None): 50.0}
    assert last_fit(monkeypatch, hands, seconds)[0].approximation == "nystroem"
    seconds[700, None] = 20.0
    assert len(last_fit(monkeypatch, hands, seconds)[0].X_fit_) == 700


@pytest.mark.filterwarnings("ignore:.*landmarks explain all rows")
def test_all_rows_were_searched(monkeypatch, hands: Hands) -> None:
    seconds = {(1000, None): 60.0, (1000, "nystroem"): 30.0}
    assert last_fit(monkeypatch, hands, seconds, searched=1000)[0].approximation == "nystroem"
    seconds = {(1000, "rff"): 60.0}
    model, note = last_fit(monkeypatch, hands, seconds, searched=1000, approximation="rff")
    assert model.approximation == "rff" and "no quicker way" in note


@pytest.mark.parametrize("kernel", ["rbf", "linear", kpca.kernels.RBF(0.1)])
def test_lists_of_rows_have_a_last_fit(kernel) -> None:
    found = selection.tune(X.tolist(), kernels=kernel, bandwidths=2, n_components=2, budget=60)
    assert found.best_estimator.transform(X.tolist()).shape == (40, 2)


def test_functions_that_take_some_rows_only_are_planned_with_those() -> None:
    def of_counts(A, B):
        if np.min(A) < 0 or np.min(B) < 0:
            raise ValueError("counts are not negative")
        return np.minimum(A[:, None], B[None]).sum(axis=-1)

    found = selection.tune(np.abs(X), kernels=of_counts, n_components=2, budget=60)
    assert found.best_params["kernel"] is of_counts


@pytest.mark.slow
def test_a_real_budget_is_kept() -> None:
    """All kernels on all these rows, and the fit of the best, take minutes."""
    rows = np.random.default_rng(0).normal(size=(5000, 20))
    started = time.perf_counter()
    found = selection.tune(rows, max_rows=5000, budget=3)
    assert time.perf_counter() - started < 9  # on a machine that has other work to do
    assert not found.complete
    assert found.best_estimator.transform(rows[:5]).shape == (5, found.best_params["n_components"])
