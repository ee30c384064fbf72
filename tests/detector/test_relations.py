"""Exact relations between columns: totals and copies that break, with noise and without, however rows are written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse

import kpca
from kpca import KernelPCADetector
from kpca.detector import monitor
from kpca.detector.limits import STATISTICS

FloatArray = NDArray[Any]
SEEDS = 4


def totals(rng: np.random.Generator, n: int, noise: float) -> FloatArray:
    """Rows of which the last column is the total of the others, but for noise of so many deviations."""
    Z = rng.normal(size=(n, 6))
    return np.column_stack([Z, Z.sum(axis=1) + noise * np.sqrt(6.0) * rng.normal(size=n)])


def copies(rng: np.random.Generator, n: int, noise: float) -> FloatArray:
    Z = rng.normal(size=(n, 6))
    return np.column_stack([Z, Z[:, 0] + noise * rng.normal(size=n)])


def far_apart(rng: np.random.Generator, n: int, noise: float) -> FloatArray:
    """Totals of a million beside columns of a thousandth."""
    Z = rng.normal(size=(n, 6)) * np.array([1e-3, 1e-3, 1.0, 1e3, 1e6, 1e6])
    return np.column_stack([Z, Z.sum(axis=1) + noise * 1.4e6 * rng.normal(size=n)])


def walk(rng: np.random.Generator, n: int, noise: float) -> FloatArray:
    """A process that remembers, with its total."""
    Z = np.zeros((n, 3))
    for i, step in enumerate(rng.normal(size=(n, 3))):
        Z[i] = 0.8 * Z[i - 1] + step
    return np.column_stack([Z, Z.sum(axis=1) + noise * 3.0 * rng.normal(size=n)])


Relation = Callable[[np.random.Generator, int, float], FloatArray]
RELATIONS: dict[str, Relation] = {"totals": totals, "copies": copies, "far apart": far_apart, "walk": walk}


def in_batches(detector: KernelPCADetector, X: FloatArray) -> KernelPCADetector:
    for batch in np.array_split(X, 4):
        detector = detector.partial_fit(batch)
    return detector


def goes_on(detector: KernelPCADetector, X: FloatArray) -> KernelPCADetector:
    return detector.fit(X[: len(X) // 2]).partial_fit(X[len(X) // 2 :])


def rates(
    relation: str,
    noise: float = 0.0,
    *,
    off: float = 1.0,
    learn: Any = KernelPCADetector.fit,
    learned_as: Any = np.float64,
    judged_as: Any = np.float64,
    **settings: Any,
) -> dict[str, tuple[float, float]]:
    """Return how many rows whose last column is off by so many deviations are found, and how many normal ones."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in STATISTICS}
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        X, fresh, broken = (RELATIONS[relation](rng, n, noise) for n in (500, 1000, 1000))
        broken[:, -1] += off * X[:, -1].std() * rng.choice([-1.0, 1.0], 1000)
        detector = learn(KernelPCADetector(random_state=0, **{"kernel": "linear"} | settings), X.astype(learned_as))
        normal, odd = (detector.statistics(rows.astype(judged_as)) for rows in (fresh, broken))
        for name in STATISTICS:
            limit = detector.limits_[name]
            found[name].append((float(np.mean(odd[name] > limit)), float(np.mean(normal[name] > limit))))
    return {name: tuple(np.mean(pairs, axis=0).tolist()) for name, pairs in found.items()}


def assert_found(all_rates: dict[str, tuple[float, float]], most: float = 0.075) -> None:
    found, false_alarms = all_rates["combined"]
    assert found >= 0.999 and found >= all_rates["spe"][0]
    assert 0.025 < false_alarms < most
    assert all_rates["spe"][1] < most and all_rates["t2"][1] < most


@pytest.mark.parametrize("noise", [0.0, 1e-6, 2e-5, 1e-4, 1e-2])
@pytest.mark.parametrize("relation", ["totals", "copies"])
def test_what_breaks_is_found_at_the_stated_false_alarms(relation: str, noise: float) -> None:
    """2e-5 is on the edge of what counts as rounding: T^2 of some folds, SPE of others, if each had its own way."""
    assert_found(rates(relation, noise))


@pytest.mark.parametrize("noise", [0.0, 1e-5])
@pytest.mark.parametrize(
    "settings",
    [
        {"scale": "robust"},
        {"scale": None},
        {"limit": "kde"},
        {"limit": "theory"},
        {"n_components": 0.999},
        {"learn": in_batches},
        {"learn": in_batches, "forgetting": 0.7},
        {"learn": goes_on},
        {},
    ],
)
def test_whatever_the_settings(settings: dict[str, Any], noise: float) -> None:
    assert_found(rates("totals", noise, **settings))


@pytest.mark.parametrize("noise", [0.0, 1e-6, 1e-3])
def test_columns_of_very_different_size(noise: float) -> None:
    assert_found(rates("far apart", noise))
    assert_found(rates("far apart", noise, scale=None))


@pytest.mark.parametrize("noise", [0.0, 1e-6, 1e-3])
def test_lags(noise: float) -> None:
    assert_found(rates("walk", noise, lags=2), most=0.09)


@pytest.mark.parametrize("noise", [0.0, 1e-5, 1e-2])
@pytest.mark.parametrize("relation", ["totals", "copies"])
def test_the_default_kernel(relation: str, noise: float) -> None:
    assert_found(rates(relation, noise, kernel="rbf"))


@pytest.mark.parametrize(("noise", "times"), [(0.0, 1e-9), (1e-6, 7.0), (1e-5, 7.0), (1e-3, 7.0)])
def test_breaks_that_hardly_exceed_the_noise_are_found(noise: float, times: float) -> None:
    found = rates("copies", noise, off=times * noise if noise else times)["combined"]
    assert found[0] > 0.99 and found[1] < 0.075


# -- rounding ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("relation", ["totals", "copies", "far apart"])
@pytest.mark.parametrize(
    ("learned_as", "judged_as"), [(np.float32, np.float32), (np.float64, np.float32), (np.float32, np.float64)]
)
def test_single_precision(relation: str, learned_as: Any, judged_as: Any) -> None:
    """A relation holds to rounding only; that of rows may be coarser than that of the rows learned from."""
    assert_found(rates(relation, learned_as=learned_as, judged_as=judged_as))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rounding_is_no_alarm_where_the_rows_of_the_fit_had_none(dtype: Any) -> None:
    """Sums of whole numbers are exact; those of the fractions that come later are not."""
    rng = np.random.default_rng(0)

    def rows(values: FloatArray) -> FloatArray:
        values = (values + 1000.0).astype(dtype)
        return np.column_stack([values, values.sum(axis=1, dtype=dtype)])

    detector = KernelPCADetector(kernel="linear", random_state=0).fit(rows(rng.integers(0, 100, (500, 6))))
    fresh = rows(rng.uniform(0.0, 100.0, (2000, 6)))
    statistics = detector.statistics(fresh)
    assert not (statistics.spe > detector.limits_.spe).any()
    assert 0.03 < np.mean(detector.predict(fresh) == -1) < 0.07
    assert 0.03 < np.mean([status.beyond for status in monitor(detector, np.array_split(fresh, 7))]) < 0.07
    fresh[:, -1] += 1.0
    assert (detector.predict(fresh) == -1).all()


def test_a_large_constant_does_not_hide_what_breaks() -> None:
    """Its rounding is larger than the deviation of the others, but it is in no relation with them."""
    rng = np.random.default_rng(0)
    X, broken = (np.column_stack([np.full(300, 1e7), copies(rng, 300, 0.0)]).astype(np.float32) for _ in range(2))
    broken[:, -1] += 0.1
    assert (KernelPCADetector(kernel="linear", random_state=0).fit(X).predict(broken) == -1).all()


@pytest.mark.parametrize("settings", [{}, {"scale": None}])
@pytest.mark.parametrize("as_sparse", [False, True])
def test_copies_of_columns_that_are_mostly_zero(as_sparse: bool, settings: dict[str, Any]) -> None:
    """Zeros are written down without rounding, but the other numbers are not."""
    X = sparse.random_array((800, 15), density=0.3, rng=0, format="csr")
    X = sparse.hstack([X, X[:, [0]]]).tocsr()
    known, fresh, broken = X[:400], X[400:], X[400:] + sparse.csr_array(0.5 * np.eye(16)[[-1] * 400])
    known, fresh, broken = (rows if as_sparse else rows.toarray() for rows in (known, fresh, broken))
    detector = KernelPCADetector(kernel="linear", random_state=0, **settings).fit(known)
    assert (detector.predict(broken) == -1).all()
    assert 0.01 < np.mean(detector.predict(fresh) == -1) < 0.1


# -- the variance outside ---------------------------------------------------------------------------------------------


def test_the_residual_counts_by_its_own_variance() -> None:
    X = copies(np.random.default_rng(0), 2000, 1e-5)
    detector = KernelPCADetector(kernel="linear", scale=None, random_state=0).fit(X)
    assert detector.residual_variance_ == pytest.approx(1e-10 / 2.0, rel=0.15)  # of the difference over its root of 2
    statistics = detector.statistics(X)
    np.testing.assert_allclose(statistics.combined, statistics.t2 + statistics.spe / detector.residual_variance_)


@pytest.mark.parametrize("settings", [{}, {"gamma": "median"}, {"kernel": "linear", "n_components": 2}])
def test_it_is_no_more_than_that_of_the_last_component(settings: dict[str, Any]) -> None:
    """So that a row far from everything is above every inlier."""
    detector = KernelPCADetector(random_state=0, **settings).fit(np.random.default_rng(0).normal(size=(300, 5)))
    assert 0.0 < detector.residual_variance_ <= detector.model_.explained_variance_[-1]


def test_one_broken_row_among_those_of_the_fit_hides_no_other() -> None:
    rng = np.random.default_rng(0)
    X, fresh = totals(rng, 500, 0.0), totals(rng, 500, 0.0)
    X[7, -1] += 2.5
    detector = KernelPCADetector(kernel="linear", random_state=0).fit(X)
    assert 0.02 < np.mean(detector.predict(fresh) == -1) < 0.09
    fresh[:, -1] += 2.5
    assert (detector.predict(fresh) == -1).all()


@pytest.mark.parametrize("noise", [0.0, 1e-6])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.filterwarnings("error")
def test_contributions_to_a_break_add_up_and_name_it(noise: float, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    X, rows = (totals(rng, n, noise).astype(dtype) for n in (500, 40))
    rows[:20, -1] += 2.5
    detector = KernelPCADetector(kernel="linear", random_state=0).fit(X)
    found = detector.contributions(rows)
    np.testing.assert_allclose(found.score, -detector.score_samples(rows), rtol=1e-6)
    np.testing.assert_allclose(found.values[:20].sum(axis=1), (found.score - found.baseline_score)[:20], rtol=1e-6)
    assert np.abs(found.gap[20:]).max() < 0.1
    assert detector.root_causes(rows, slice(20)).top(1) == ["x6"]


def test_a_saved_detector_judges_alike(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = totals(rng, 200, 0.0)
    detector = KernelPCADetector(kernel="linear", random_state=0).fit(X)
    kpca.save(detector, tmp_path / "detector.kpca")
    again = kpca.load(tmp_path / "detector.kpca")
    broken = X + np.eye(7)[-1]
    np.testing.assert_array_equal(again.score_samples(broken), detector.score_samples(broken))
    assert again.residual_variance_ == detector.residual_variance_
    more = totals(rng, 100, 0.0)
    np.testing.assert_array_equal(
        again.partial_fit(more).score_samples(broken), detector.partial_fit(more).score_samples(broken)
    )
