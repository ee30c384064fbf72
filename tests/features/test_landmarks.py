"""The choice of landmarks: its law, its certificate, its sentences."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from reference import kernel_values, spectrum
from scipy import sparse
from scipy.stats import chisquare

import kpca
import kpca.features.landmarks as landmarks_module
from kpca._base.errors import InputError
from kpca.features import NystroemMap, choose_landmarks, unexplained_fraction
from kpca.features.pivots import pivoted_cholesky
from kpca.kernels import RBF, AdditiveChi2, Chi2, Laplacian, Linear, Matern, Polynomial, Sigmoid

METHODS = ["rpcholesky", "uniform", "kmeans", "leverage"]
BY_ROWS = ["rpcholesky", "uniform", "leverage"]


def rows(n: int, d: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal((n, d))


def left_out(K: Any, chosen: Any) -> Any:
    """K - K(:, S) K(S, S)^-1 K(S, :), one row eliminated after the other, with digits to spare."""
    rest = K.astype(np.longdouble)
    for s in chosen:
        rest = rest - np.outer(rest[:, s], rest[s]) / rest[s, s]
    return rest.astype(np.float64)


def law(K: Any, rank: int, weights: Any) -> dict[tuple[int, ...], float]:
    """The probability of each sequence of pivots of the plain algorithm, one pivot after the other."""
    found = {}
    for sequence in itertools.permutations(range(len(K)), rank):
        chance = 1.0
        for step, pivot in enumerate(sequence):
            d = weights * np.maximum(np.diagonal(left_out(K, sequence[:step])), 0.0)
            chance *= d[pivot] / d.sum()
        found[sequence] = chance
    return found


# -- randomly pivoted Cholesky ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", [1, 6])
@pytest.mark.parametrize("weighted", [False, True])
def test_pivots_have_the_law_of_the_plain_algorithm(block: int, weighted: bool) -> None:
    X = rows(5, 2, seed=3)
    X[3] = X[0] + 0.05  # two rows that hardly ever go together
    weights = np.array([1.0, 3.0, 0.5, 2.0, 1.0]) if weighted else np.ones(5)
    expected = law(kernel_values("rbf", X, X, gamma=0.3), 3, weights)
    assert sum(expected.values()) == pytest.approx(1.0)
    draws = 800
    counts = dict.fromkeys(expected, 0)
    for seed in range(draws):
        found = pivoted_cholesky(
            RBF(0.3), X, most=3, weights=weights if weighted else None, seed=seed, block=block
        ).indices
        counts[tuple(found.tolist())] += 1
    often = [sequence for sequence, chance in expected.items() if chance * draws >= 5]
    observed = [counts[sequence] for sequence in often]
    chances = [expected[sequence] * draws for sequence in often]
    seen = chisquare([*observed, draws - sum(observed)], [*chances, draws - sum(chances)])
    assert seen.pvalue > 1e-3


def test_trace_error_has_the_mean_of_the_plain_algorithm() -> None:
    """Blocks of the default sizes on 300 rows, against one pivot at a time."""
    X = rows(300, 2)
    blocks, plain = (
        np.array([pivoted_cholesky(RBF(1.0), X, most=30, seed=s, block=b).unexplained for s in range(80)])
        for b in (None, 1)
    )
    error = np.sqrt((blocks.var() + plain.var()) / 80)
    assert abs(blocks.mean() - plain.mean()) < 4 * error
    assert error < 0.1 * plain.mean()


@pytest.mark.parametrize("kernel", [RBF(0.5), Matern(1.5, 2.0), Polynomial(3, 0.5, 1.0), Laplacian(0.3)], ids=repr)
@pytest.mark.parametrize("weighted", [False, True])
def test_residual_is_the_diagonal_of_what_is_left(kernel: Any, weighted: bool) -> None:
    X = rows(540, 3)  # two pieces
    weights = np.random.default_rng(1).uniform(0.0, 2.0, len(X)) if weighted else None
    found = pivoted_cholesky(kernel, X, most=40, weights=weights, threads=2)
    K = kernel.block(X, X)
    truth = np.maximum(np.diagonal(left_out(K, found.indices)), 0.0)
    # polynomials of degree 3 in three variables have 20 coefficients
    assert len(set(found.indices.tolist())) == (20 if isinstance(kernel, Polynomial) else 40)
    assert_allclose(found.residual, truth, rtol=0, atol=1e-9 * K.max())
    assert found.exhausted == isinstance(kernel, Polynomial)
    w = np.ones(len(X)) if weights is None else weights
    assert found.unexplained == pytest.approx(w @ truth / (w @ np.diagonal(K)), rel=1e-6, abs=1e-13)


@given(st.integers(0, 10_000), st.integers(1, 25), st.sampled_from([0.02, 0.5, 20.0]))
def test_certificate(seed: int, rank: int, gamma: float) -> None:
    """0 <= sum(lambda - lambda^) <= the unexplained trace, and no eigenvalue is overestimated."""
    X = rows(40, 2, seed)
    K = kernel_values("rbf", X, X, gamma=gamma)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        chosen = choose_landmarks(RBF(gamma), X, rank, seed=seed).indices
    assert chosen is not None
    rest = left_out(K, chosen)
    gaps = spectrum(K)[0] - spectrum(K - rest)[0]
    slack = 1e-9 * np.trace(K)
    assert gaps.min() >= -slack
    assert -slack <= gaps.sum() <= np.trace(rest) + slack
    # of a few draws the best: at least as good as the first
    found = pivoted_cholesky(RBF(gamma), X, most=rank, seed=seed)
    assert found.unexplained * np.trace(K) == pytest.approx(np.trace(left_out(K, found.indices)), abs=slack)
    assert np.trace(rest) <= found.unexplained * np.trace(K) + slack


@pytest.mark.parametrize("fraction", [0.5, 0.1, 1e-3, 1e-9])
@pytest.mark.parametrize("block", [None, 1, 64])
def test_fraction_is_reached_with_no_pivot_to_spare(fraction: float, block: int | None) -> None:
    X = rows(150, 3)
    K = kernel_values("rbf", X, X, gamma=0.2)
    found = pivoted_cholesky(RBF(0.2), X, most=150, fraction=fraction, block=block)
    before, after = (np.trace(left_out(K, found.indices[:count])) / 150 for count in (-1, None))
    assert after <= fraction * (1 + 1e-4) and before > fraction * (1 - 1e-4)
    assert found.unexplained == pytest.approx(after, rel=1e-4)


def test_rank_deficient_rows_give_fewer_landmarks_and_a_sentence() -> None:
    X = rows(200, 3)
    with pytest.warns(UserWarning, match="3 landmarks explain all rows to rounding; .* rank=20"):
        assert choose_landmarks(Linear(), X, 20).points.shape == (3, 3)
    three = np.repeat(X[:3], 50, axis=0)
    with pytest.warns(UserWarning, match="3 landmarks explain"):
        chosen = choose_landmarks(RBF(0.5), three, 10).indices
    assert chosen is not None and len(np.unique(three[chosen], axis=0)) == 3


def test_every_row_may_be_a_landmark() -> None:
    X = rows(50, 2)
    chosen = choose_landmarks(RBF(50.0), X, 50).indices
    assert chosen is not None and sorted(chosen) == list(range(50))


def test_zeros_have_nothing_to_explain() -> None:
    with pytest.raises(InputError, match="Some k\\(x, x\\) must be positive"):
        choose_landmarks(Linear(), np.zeros((9, 2)), 3)


def test_memory_limit_is_kept() -> None:
    X = rows(3000, 2)
    with kpca.config(memory_limit="1MiB"):
        with pytest.raises(InputError, match=r"100 landmarks .* MiB, more than may be used"):
            choose_landmarks(RBF(100.0), X, 100)
        with pytest.raises(InputError, match="more than may be used"):
            choose_landmarks(RBF(100.0), X, 1e-6)
        few = choose_landmarks(RBF(100.0), X, 0.98)
    assert_array_equal(few.indices, choose_landmarks(RBF(100.0), X, 0.98).indices)


# -- all methods ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("form", ["dense", "csr", "float32"])
def test_choice_repeats_whatever_the_threads(method: str, form: str) -> None:
    X = rows(1500, 4)
    X[X < 0] = 0.0
    given = sparse.csr_matrix(X) if form == "csr" else X.astype(np.float32 if form == "float32" else np.float64)
    one, two = (choose_landmarks(RBF(0.5), given, 40, method, seed=3, threads=threads) for threads in (1, 2))
    other = choose_landmarks(RBF(0.5), given, 40, method, seed=4)
    assert sparse.issparse(one.points) == (form == "csr") and one.points.dtype == given.dtype
    points, again, different = (p.points.toarray() if form == "csr" else p.points for p in (one, two, other))
    assert points.shape == (40, 4) and one.method == method
    assert_array_equal(points, again)
    assert not np.array_equal(points, different)
    if method == "kmeans":
        assert one.indices is None
    else:
        assert one.indices is not None and len(set(one.indices.tolist())) == 40
        assert_array_equal(points, X.astype(given.dtype)[one.indices])


@pytest.mark.parametrize("method", BY_ROWS)
def test_csr_rows_are_chosen_like_dense_ones(method: str) -> None:
    X = rows(300, 4)
    X[np.abs(X) < 0.5] = 0.0
    dense = choose_landmarks(RBF(0.2), X, 20, method).indices
    assert_array_equal(choose_landmarks(RBF(0.2), sparse.csr_matrix(X), 20, method).indices, dense)


@pytest.mark.parametrize("method", METHODS)
def test_offset_changes_nothing(method: str) -> None:
    X = np.round(rows(400, 3), 3)
    near = choose_landmarks(RBF(0.3), X, 25, method)
    far = choose_landmarks(RBF(0.3), X + 1e6, 25, method)
    if method == "kmeans":
        assert_allclose(far.points - 1e6, near.points, atol=1e-6)
    else:
        assert_array_equal(far.indices, near.indices)


@pytest.mark.parametrize("method", BY_ROWS)
def test_rows_of_weight_zero_are_as_good_as_absent(method: str) -> None:
    X = rows(300, 2)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, 300)
    weights[::3] = 0.0
    some = np.flatnonzero(weights)
    chosen = choose_landmarks(RBF(1.0), X, 30, method, weights=weights).indices
    absent = choose_landmarks(RBF(1.0), X[some], 30, method, weights=weights[some]).indices
    assert absent is not None
    assert_array_equal(chosen, some[absent])


@pytest.mark.parametrize("method", METHODS)
def test_heavy_rows_are_explained_better(method: str) -> None:
    """Of two equal clouds one has a hundred times the weight of the other."""
    X = rows(600, 2)
    X[300:] += 20.0
    weights = np.where(np.arange(600) < 300, 1.0, 0.01)
    points = choose_landmarks(RBF(1.0), X, 30, method, weights=weights).points
    heavy = np.count_nonzero(points[:, 0] < 10)
    plain = np.count_nonzero(choose_landmarks(RBF(1.0), X, 30, method).points[:, 0] < 10)
    assert heavy >= 20 and heavy > plain


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("fraction", [0.3, 0.01])
def test_fraction_is_reached_by_every_method(method: str, fraction: float) -> None:
    X = rows(500, 2)
    found = choose_landmarks(RBF(0.5), X, fraction, method)
    share = unexplained_fraction(NystroemMap(RBF(0.5), found.points), X)
    assert share <= fraction * (1 + 1e-6)
    assert found.points.shape[0] < 500


def test_fraction_that_takes_all_rows() -> None:
    assert choose_landmarks(RBF(1e4), rows(40, 2), 0.01, "uniform").points.shape == (40, 2)


def test_many_rows_are_sampled_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landmarks_module, "CHOSEN_FROM", 100)
    X = rows(1000, 2)
    for method in METHODS:
        found = choose_landmarks(RBF(0.5), X, 20, method, weights=np.ones(1000))
        if found.indices is not None:
            assert_array_equal(found.points, X[found.indices])
            assert found.indices.max() > 200
    assert len(choose_landmarks(RBF(50.0), X, 300, "uniform").points) == 300  # more than the sample was to have


@pytest.mark.parametrize("method", BY_ROWS)
def test_fraction_holds_beyond_the_sample(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Landmarks explain the sample they are chosen from better than other rows: these must be asked."""
    monkeypatch.setattr(landmarks_module, "CHOSEN_FROM", 600)
    X = rows(6000, 2)
    shares = []
    for seed in range(5):
        found = choose_landmarks(RBF(2.0), X, 0.05, method, seed=seed)
        assert_array_equal(found.points, X[found.indices])
        shares.append(unexplained_fraction(NystroemMap(RBF(2.0), found.points), X))
    assert max(shares) <= 0.05 * 1.03  # judged by other rows than all
    if method == "rpcholesky":
        assert min(shares) >= 0.04


def test_leverage_finds_the_rare_rows() -> None:
    """A few rows far from all others: chance misses most of them, leverage scores do not."""
    X = rows(2000, 2) * 0.1
    rare = np.arange(0, 2000, 200)
    X[rare] += 10.0 * rows(10, 2, seed=5)
    found = {m: choose_landmarks(RBF(0.5), X, 40, m).indices for m in ("uniform", "leverage", "rpcholesky")}
    hits = {m: len(np.intersect1d(indices, rare)) for m, indices in found.items() if indices is not None}
    assert hits["uniform"] <= 2 and hits["leverage"] >= 7 and hits["rpcholesky"] >= 7


# -- the user's own ---------------------------------------------------------------------------------------------------


def test_own_rows_and_points() -> None:
    X = rows(30, 3)
    by_number = choose_landmarks(RBF(1.0), X, 100, [4, 2, 4])
    assert_array_equal(by_number.points, X[[4, 2, 4]])
    assert_array_equal(by_number.indices, [4, 2, 4])
    points = choose_landmarks(RBF(1.0), X.astype(np.float32), 100, [[1, 2, 3], [4, 5, 6]])
    assert points.indices is None and points.points.dtype == np.float32
    assert sparse.issparse(choose_landmarks(RBF(1.0), X, 1, sparse.csc_array(X[:4])).points)


NAN = np.full((2, 3), np.nan)


@pytest.mark.parametrize(
    ("rank", "method", "message"),
    [
        (0, "uniform", "rank must be at least 1; got 0"),
        (31, "uniform", "rank must be at most .*; got 31 for 30 sample"),
        (1.0, "uniform", "between 0 and 1; got 1.0"),
        (0.0, "uniform", "between 0 and 1; got 0.0"),
        (-0.5, "uniform", "between 0 and 1; got -0.5"),
        (True, "uniform", "got True"),
        ("many", "uniform", "got 'many'"),
        (None, "uniform", "got None"),
        (np.nan, "uniform", "got nan"),
        (5, "rpcolesky", "Did you mean 'rpcholesky'\\?"),
        (5, "k-means", "Did you mean 'kmeans'\\?"),
        (5, "zzz", "got 'zzz'\\.$"),
        (5, None, "got NoneType"),
        (5, [], "got list of shape \\(0,\\)"),
        (5, [0.5, 1.5], "got list"),
        (5, [True, False], "got list"),
        (5, [[1, 2], [3]], "ragged"),
        (5, [0, 30], "between 0 and 29; got 30"),
        (5, [-1], "between 0 and 29; got -1"),
        (5, np.zeros((2, 4)), "must have the 3 columns of X, .*; got shape \\(2, 4\\)"),
        (5, np.zeros((0, 3)), "got shape \\(0, 3\\)"),
        (5, NAN, "must be finite"),
        (5, sparse.csr_matrix(NAN), "must be finite"),
    ],
)
def test_bad_input_meets_one_sentence(rank: Any, method: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        choose_landmarks(RBF(1.0), rows(30, 3), rank, method)


def test_rows_of_weight_zero_do_not_count_as_landmarks() -> None:
    with pytest.raises(InputError, match="got 6 for 5 sample"):
        choose_landmarks(RBF(1.0), rows(30, 3), 6, weights=(np.arange(30) < 5).astype(float))


@pytest.mark.parametrize("kernel", [Sigmoid(0.1, 0.0), AdditiveChi2(), RBF(1.0) + Sigmoid(0.1, 0.0)], ids=repr)
@pytest.mark.parametrize("method", ["rpcholesky", "leverage"])
def test_indefinite_kernels_are_refused_where_residuals_must_be_positive(kernel: Any, method: str) -> None:
    with pytest.raises(InputError, match=f"landmarks={method!r} needs a kernel known to be positive semidefinite"):
        choose_landmarks(kernel, np.abs(rows(30, 3)), 5, method)
    assert len(choose_landmarks(kernel, np.abs(rows(30, 3)), 5, "uniform").points) == 5


def test_kernels_that_only_give_blocks() -> None:
    X = np.abs(rows(200, 3))
    for method in METHODS:
        assert choose_landmarks(Chi2(0.5), X, 10, method).points.shape == (10, 3)
