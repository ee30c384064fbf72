"""An iteration that goes on from a state is the iteration it was: every later state is the same, field by field."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

import kpca.gram.operator as operator_module
from kpca.gram import Centered, Gram, MatrixGram
from kpca.kernels import RBF, Exponential
from kpca.spectrum import Spectrum, State, solve_krylov

X = np.random.default_rng(0).standard_normal((900, 5)) * 0.8 ** np.arange(5)


class Memory:
    """Keeps copies of all states, and begins with one of them."""

    def __init__(self, first: State | None = None) -> None:
        self.first = first
        self.states: list[State] = []

    def load(self) -> State | None:
        return self.first

    def save(self, state: State) -> None:
        copies = {name: getattr(state, name).copy() for name in ("Q", "A", "H", "errors", "share")}
        self.states.append(replace(state, **copies))


def tight() -> Any:
    return Centered(Gram(RBF(0.05), X))


def rough() -> Any:
    return Gram(Exponential(3.0), X)


def copies() -> Any:
    """More copies of an eigenvalue than random columns: there is a probe."""
    values = np.concatenate([[2.0], np.ones(40), np.full(259, 0.1)])
    Q, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((300, 300)))
    return MatrixGram((Q * values) @ Q.T)


def stuck() -> Any:
    """float32 products whose error was taken for 0: their residuals stop falling, and float64 takes over."""
    operator = Gram(RBF(0.05), X)
    operator.at("single").error = lambda V: 0.0  # type: ignore[method-assign]
    return operator


CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "float64": (tight, {"k": 4, "tol": 1e-10}),
    "many": (rough, {"k": 70, "tol": 1e-4}),
    "guess": (tight, {"k": 4, "tol": 1e-3, "start": np.random.default_rng(1).standard_normal((900, 3))}),
    "empty guess": (tight, {"k": 4, "tol": 1e-3, "start": np.empty((900, 0))}),
    "probe": (copies, {"k": 5, "tol": 1e-10, "start": np.random.default_rng(1).standard_normal((300, 14))}),
    "stuck": (stuck, {"k": 4, "tol": 1e-13, "max_passes": 25}),
    "restarts": (rough, {"k": 2, "tol": 1e-13, "largest": 500.0}),
}


def assert_equal(found: Any, expected: Any) -> None:
    for field in fields(expected):
        if field.name == "probe":
            continue  # for neighbours, whose fits have no checkpoints
        one, other = getattr(found, field.name), getattr(expected, field.name)
        if field.name == "found":
            assert list(one) == list(other)
            for precision in one:
                assert_equal(one[precision], other[precision])
        else:
            np.testing.assert_array_equal(one, other, err_msg=field.name)


def run(case: str, first: State | None = None) -> tuple[Spectrum, list[State]]:
    make, arguments = CASES[case]
    memory = Memory(first)
    return solve_krylov(make(), **arguments, keeper=memory), memory.states


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The eigenvectors did not converge")
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("double_rows", [0, 4096])
def test_all_later_states_are_the_same(case: str, double_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operator_module, "_DOUBLE_ROWS", double_rows)
    expected, states = run(case)
    assert len(states) == expected.n_passes
    for number in sorted({*range(min(4, len(states))), len(states) - 2, len(states) - 1}):
        found, later = run(case, states[number])
        for one, other in zip(later, states[number + 1 :], strict=True):
            assert_equal(one, other)
        assert_equal(found, expected)


@pytest.mark.filterwarnings("ignore:The eigenvectors did not converge")
def test_the_cases_hold_what_they_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each field of a state changes in some case: otherwise it would not be tested."""
    monkeypatch.setattr(operator_module, "_DOUBLE_ROWS", 0)
    states = {case: run(case)[1] for case in CASES}
    assert any(state.probed for state in states["probe"]) and not states["probe"][0].probed
    assert states["guess"][0].guessed == 3 and states["empty guess"][0].guessed == 0
    assert states["float64"][0].guessed is None
    assert {state.cheap for state in states["stuck"]} == {"single", "double"}
    assert {len(state.found) for state in states["float64"]} == {1, 2}
    assert states["float64"][0].single_error > 0
    assert len({state.best for state in states["many"]}) > 2
    sizes = [len(state.errors) for state in states["restarts"]]
    assert sizes != sorted(sizes)
    assert (np.diff([state.passes for state in states["restarts"]]) == 1).all()
