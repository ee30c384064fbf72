"""Which trial is taken: the rules against slow ones, and what must hold whatever the losses are."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from reference import one_standard_error

from kpca.kernels import RBF, Linear
from kpca.selection.candidates import Candidate
from kpca.selection.trials import KernelTrial
from kpca.selection.tuning import choose


def trials_of(losses, linear: int | None = None) -> list[KernelTrial]:
    """Trials with these losses, the kernel of one of them linear."""
    kernels = [Linear() if i == linear else RBF(1.0 + i) for i in range(len(losses))]
    counts = tuple(2**i for i in range(len(losses[0])))
    return [
        KernelTrial(Candidate({"kernel": kernel}, kernel), counts, np.array(one, dtype=np.float64), 10, 0.0)
        for kernel, one in zip(kernels, losses, strict=True)
    ]


@st.composite
def tables(draw):
    """Losses of some kernels, numbers of components and rows, some of them missing."""
    shape = draw(st.tuples(st.integers(1, 5), st.integers(1, 4), st.integers(1, 8)))
    losses = draw(arrays(np.float64, shape, elements=st.floats(-5, 5).map(lambda x: round(x, 1))))
    missing = draw(arrays(np.bool_, shape[:2]))
    losses[missing & draw(st.booleans())] = np.nan
    return losses, draw(st.one_of(st.none(), st.integers(0, shape[0] - 1)))


@given(tables())
def test_both_rules_are_the_slow_ones(table) -> None:
    losses, linear = table
    trials = trials_of(losses, linear)
    best, simple = choose(trials, "best"), choose(trials, "one_se")
    if not np.isfinite(losses.mean(axis=2)).any():
        assert best is None and simple is None
        return
    (i, j), (a, b) = one_standard_error(losses, linear)
    assert best.trial is trials[i] and best.place == j
    assert simple.trial is trials[a] and simple.place == b
    assert simple.best is trials[i] and simple.best_place == j
    assert simple.count == simple.trial.counts[simple.place] <= best.count
    assert np.isfinite(simple.trial.means[simple.place])
    assert bool(simple.simpler) == ((a, b) != (i, j))


@given(tables(), st.randoms(use_true_random=False))
def test_the_order_of_the_rows_does_not_matter(table, random) -> None:
    losses, linear = table
    order = list(range(losses.shape[2]))
    random.shuffle(order)
    first, second = (choose(trials_of(one, linear), "best") for one in (losses, losses[:, :, order]))
    if first is not None:
        assert first.trial.means[first.place] == pytest.approx(second.trial.means[second.place])


def test_nothing_tried_nothing_chosen() -> None:
    assert choose([], "best") is None
    assert choose(trials_of([[[np.nan]]]), "one_se") is None


def test_nan_and_infinity_never_win() -> None:
    losses = [[[np.nan, -9.0], [3.0, 3.0]], [[-np.inf, 0.0], [np.inf, 0.0]], [[4.0, 4.0], [2.0, 2.0]]]
    for rule in ("best", "one_se"):
        chosen = choose(trials_of(losses), rule)
        assert (chosen.trial.candidate.kernel, chosen.place) == (RBF(3.0), 1)


def test_a_failed_trial_beside_others() -> None:
    trials = trials_of([[[1.0, 2.0, 3.0]], [[np.nan, np.nan, np.nan]]])
    failed = KernelTrial(trials[1].candidate, (1,), np.full((1, 1), np.nan), 10, 0.0, "no")
    assert choose([trials[0], failed], "one_se").trial is trials[0]


def test_equal_losses_take_fewest_components_and_the_linear_kernel() -> None:
    chosen = choose(trials_of(np.ones((3, 3, 5)), linear=2), "one_se")
    assert (chosen.trial.candidate.kernel, chosen.count, chosen.simpler) == (Linear(), 1, "the linear kernel")


def test_one_number_per_trial_leaves_the_best() -> None:
    losses = [[[0.5], [0.4]], [[0.45], [0.39]]]
    chosen = choose(trials_of(losses, linear=0), "one_se")
    assert (chosen.trial.candidate.kernel, chosen.place, chosen.simpler) == (RBF(2.0), 1, "")


def test_the_error_is_that_of_the_difference() -> None:
    """Rows that are hard for all kernels say nothing about which is better."""
    hard = np.array([0.0, 10.0, 20.0, 30.0])
    losses = [[hard + 0.1], [hard]]
    assert choose(trials_of(losses, linear=0), "one_se").trial.candidate.kernel == RBF(2.0)
    losses = [[hard + np.array([0.3, -0.2, 0.2, -0.1])], [hard]]
    assert choose(trials_of(losses, linear=0), "one_se").trial.candidate.kernel == Linear()
