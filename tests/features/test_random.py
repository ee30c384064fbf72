"""Random features: right on average, with an error that falls as rank^(-1/2), the same on every machine."""

from __future__ import annotations

import math
import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.linalg import hadamard

from kpca import kernels as ours
from kpca._base.errors import InputError
from kpca.features import RandomMap, draw_features, fit_random, kernel_error
from kpca.features.frequencies import _haar_frames, draw_projection
from kpca.kernels import Kernel

EACH = (0.3, 0.1, 0.05, 0.2, 0.1)
RANKS = (64, 128, 256, 512, 1024)


@dataclass(frozen=True)
class Case:
    kernel: Kernel
    d: int = 5
    structures: tuple[str, ...] = ("independent", "orthogonal")
    seeds: int = 30
    non_negative: bool = False
    sparse: bool = True

    def data(self, n: int, seed: int = 0) -> np.ndarray:
        X = np.random.default_rng(seed).normal(size=(n, self.d))
        return np.abs(X) if self.non_negative else X

    def pairs(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Near and far pairs."""
        X, noise = self.data(n), self.data(n, seed=1)
        share = np.linspace(0.2, 1.0, n)[:, None]
        return X, (1 - share) * X + share * noise


ALONE = ("independent",)
CASES = {
    "rbf": Case(ours.RBF(0.1)),
    "rbf each": Case(ours.RBF(EACH)),
    "laplacian": Case(ours.Laplacian(0.2), structures=ALONE),
    "exponential": Case(ours.Exponential(2.0)),
    "matern 1/2": Case(ours.Matern(0.5, 2.0)),
    "matern 3/2": Case(ours.Matern(1.5, 2.0)),
    "matern 5/2": Case(ours.Matern(2.5, 2.0)),
    "matern each": Case(ours.Matern(1.5, (1.0, 2.0, 3.0, 4.0, 5.0))),
    "rational quadratic": Case(ours.RationalQuadratic(0.8, 2.0)),
    # Few coordinates seldom meet in one place of a count sketch, and then err by much: more of them need fewer seeds.
    "poly 1": Case(ours.Polynomial(1, 0.05, 1.0), d=40, structures=ALONE, seeds=60),
    "poly 2": Case(ours.Polynomial(2, 0.05, 1.0), d=40, structures=ALONE, seeds=60),
    "poly 3": Case(ours.Polynomial(3, 0.02, 1.0), d=40, structures=ALONE, seeds=60),
    "poly without constant": Case(ours.Polynomial(2, 0.05, 0.0), d=40, structures=ALONE, seeds=60),
    # Orthogonal directions are exact for these two from rank d on.
    "linear": Case(ours.Linear(), structures=ALONE),
    "cosine": Case(ours.Cosine(), structures=ALONE),
    "arc_cosine0": Case(ours.ArcCosine(0)),
    "arc_cosine1": Case(ours.ArcCosine(1)),
    "additive_chi2": Case(ours.AdditiveChi2(), structures=ALONE, seeds=60, non_negative=True, sparse=False),
    "histogram": Case(ours.HistogramIntersection(), structures=ALONE, seeds=60, non_negative=True),
    "scaled": Case(3 * ours.RBF(0.1)),
    "sum": Case(2 * ours.RBF(0.1) + ours.Laplacian(0.2) + 1),
}
every = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
every_drawn = pytest.mark.parametrize(
    ("case", "structure"),
    [pytest.param(case, s, id=f"{name}-{s}") for name, case in CASES.items() for s in case.structures],
)


def errors(case: Case, rank: int, structure: str, seeds: range, n: int) -> np.ndarray:
    """f(x).f(y) - k(x, y) for fixed pairs and many seeds.  # shape: (seeds, n)"""
    X, Y = case.pairs(n)
    exact = np.diagonal(case.kernel.block(X, Y))
    if case.kernel == ours.AdditiveChi2():
        exact = (4 * X * Y / (X + Y)).sum(axis=1)
    found = []
    for seed in seeds:
        features = draw_features(case.kernel, case.d, rank, structure=structure, seed=seed)
        found.append((features(X) * features(Y)).sum(axis=1) - exact)
    return np.array(found)


def rms(values: Any) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


# ---- right on average, and how far from it


@every_drawn
def test_error_falls_as_the_root_of_the_rank(case: Case, structure: str) -> None:
    sizes = [rms(errors(case, rank, structure, range(rank, rank + case.seeds), 40)) for rank in RANKS]
    slope = np.polyfit(np.log(RANKS), np.log(sizes), 1)[0]
    assert -0.6 <= slope <= -0.4


@every_drawn
@pytest.mark.parametrize("rank", [16, 17])
def test_unbiased(case: Case, structure: str, rank: int) -> None:
    found = errors(case, rank, structure, range(250), 6)
    standard_error = found.std(axis=0, ddof=1) / math.sqrt(len(found))
    assert (np.abs(found.mean(axis=0)) <= 4 * standard_error).all()
    # and the test would see a bias of a tenth of the kernel
    X, Y = case.pairs(6)
    assert (standard_error < 0.1 * np.abs(case.kernel.block(X, Y)).max()).all()


@pytest.mark.parametrize("kernel", [ours.RBF(0.05), ours.RBF(0.2)], ids=repr)
def test_orthogonal_beats_independent_and_hadamard_keeps_up(kernel: Kernel) -> None:
    case = Case(kernel, d=16)
    size = {name: rms(errors(case, 256, name, range(40), 40)) for name in ("independent", "orthogonal", "hadamard")}
    assert size["orthogonal"] < 0.95 * size["independent"]
    assert size["hadamard"] < 1.2 * size["orthogonal"]


@pytest.mark.parametrize("name", ["rbf", "matern 3/2", "rational quadratic", "arc_cosine0", "arc_cosine1"])
def test_hadamard_is_unbiased_to_within_its_noise(name: str) -> None:
    found = errors(CASES[name], 128, "hadamard", range(200), 6)
    standard_error = found.std(axis=0, ddof=1) / math.sqrt(len(found))
    assert (np.abs(found.mean(axis=0)) <= 4 * standard_error).all()


@pytest.mark.parametrize("structure", ["orthogonal", "hadamard"])
@pytest.mark.parametrize("kernel", [ours.Linear(), ours.Cosine()], ids=repr)
def test_orthogonal_projections_of_whole_blocks_lose_nothing(kernel: Kernel, structure: str) -> None:
    X = np.random.default_rng(0).normal(size=(9, 16))
    F = draw_features(kernel, 16, 64, structure=structure)(X)
    assert_allclose(F @ F.T, kernel.block(X, X), atol=1e-12)


@pytest.mark.parametrize(
    "name", ["rbf", "laplacian", "matern 5/2", "rational quadratic", "arc_cosine0", "additive_chi2"]
)
def test_the_diagonal_is_exact(name: str) -> None:
    case = CASES[name]
    X = case.data(8)
    F = draw_features(case.kernel, case.d, 20)(X)
    expected = 2 * X.sum(axis=1) if name == "additive_chi2" else 1.0
    assert_allclose((F**2).sum(axis=1), expected, rtol=1e-12)


# ---- directions


@given(d=st.integers(1, 12), count=st.integers(1, 30), seed=st.integers(0, 2**32))
def test_orthogonal_blocks_are_orthogonal(d: int, count: int, seed: int) -> None:
    projection: Any = draw_projection(np.random.default_rng(seed), d, count, "orthogonal", scale=np.ones(d))
    W = projection.weights
    assert W.shape == (d, count)
    for start in range(0, count, d):
        inner = W[:, start : start + d].T @ W[:, start : start + d]
        assert_allclose(inner, np.diag(np.diag(inner)), atol=1e-10)


@pytest.mark.parametrize("d", [1, 5, 64, 100, 700])
def test_hadamard_is_the_product_of_the_matrices(d: int) -> None:
    rng = np.random.default_rng(d)
    origin, scale = rng.normal(size=d), rng.uniform(1, 2, size=d)
    p = max(64, 2 ** math.ceil(math.log2(d)))
    count = p + 3
    projection: Any = draw_projection(rng, d, count, "hadamard", scale=scale, origin=origin)
    H = hadamard(p)
    blocks = [H @ np.diag(D1) @ H @ np.diag(D2) @ H @ np.diag(D3) for D1, D2, D3 in projection.signs]
    assert len(blocks) == 2
    X = rng.normal(size=(3, d))
    padded = np.zeros((3, p))
    padded[:, :d] = (X - origin) * scale
    expected = np.hstack([padded @ block.T for block in blocks])[:, :count] * projection.stretch
    out = np.empty((3, count))
    projection.into(X, out)
    assert_allclose(out, expected, rtol=1e-10, atol=1e-10)


# ---- what must not matter


@every
def test_sparse_equals_dense(case: Case) -> None:
    X = case.data(30)
    X[X < 0.5] = 0
    features = fit_random(case.kernel, X, 33)
    if not case.sparse:
        with pytest.raises(InputError, match="must be given a dense array"):
            features(sparse.csr_array(X))
        return
    for kind in (sparse.csr_array, sparse.csr_matrix):
        for dtype, tolerance in ((np.float64, 1e-12), (np.float32, 2e-4)):
            found = features(kind(X.astype(dtype)))
            assert isinstance(found, np.ndarray)
            assert found.dtype == dtype
            assert_allclose(found, features(X), atol=tolerance * np.abs(features(X)).max())
    assert_allclose(fit_random(case.kernel, sparse.csr_array(X), 33)(X), features(X), atol=1e-5)


def test_sparse_hadamard_equals_dense() -> None:
    X = np.random.default_rng(0).normal(size=(10, 70))
    X[X < 0.5] = 0
    features = fit_random(ours.RBF(0.01), X, 300, "hadamard")
    assert_allclose(features(sparse.csr_array(X)), features(X), atol=1e-13)


@every
def test_bits_repeat_whatever_the_threads(case: Case) -> None:
    X = case.data(3000)
    features = draw_features(case.kernel, case.d, 150, seed=3)
    one = features(X, threads=1)
    assert one.shape == (3000, 150)
    assert_array_equal(features(X, threads=3), one)
    assert_array_equal(draw_features(case.kernel, case.d, 150, seed=3)(X, threads=2), one)
    assert_array_equal(pickle.loads(pickle.dumps(features))(X), one)
    assert not np.array_equal(draw_features(case.kernel, case.d, 150, seed=4)(X), one)


@every_drawn
def test_float32_is_close_to_float64(case: Case, structure: str) -> None:
    X = case.data(50).astype(np.float32)
    features = draw_features(case.kernel, case.d, 64, structure=structure)
    found, exact = features(X), features(X.astype(np.float64))
    assert found.dtype == np.float32
    assert exact.dtype == np.float64
    # Where a frequency is huge a phase has few digits left in float32, but then nothing depends on it: most must agree.
    gap = np.abs(found - exact) / np.abs(exact).max()
    assert np.quantile(gap, 0.9) < 1e-5
    kept = draw_features(case.kernel, case.d, 64, structure=structure, dtype=np.float32)
    assert np.quantile(np.abs(kept(X) - found), 0.9) < 1e-5 * np.abs(exact).max()


@pytest.mark.parametrize("structure", ["independent", "orthogonal", "hadamard"])
@pytest.mark.parametrize("name", ["rbf", "rbf each", "laplacian", "exponential", "matern 5/2", "rational quadratic"])
def test_an_offset_changes_nothing(name: str, structure: str) -> None:
    case = CASES[name]
    if name == "laplacian" and structure == "hadamard":
        return
    X = (np.round(case.data(40) * 8) / 8).astype(np.float32)
    moved = X + np.float32(2**20)
    assert_array_equal(moved - np.float32(2**20), X)
    gram = []
    for rows in (X, moved, sparse.csr_array(moved)):
        F = fit_random(case.kernel, rows, 128, structure)(rows)
        assert F.dtype == np.float32
        gram.append(F @ F.T)
    assert_allclose(gram[1], gram[0], atol=2e-4)
    assert_allclose(gram[2], gram[0], atol=2e-4)
    # without the origin it would
    F = draw_features(case.kernel, case.d, 128, structure=structure)(moved)
    assert np.abs(F @ F.T - gram[0]).max() > 1e-2


def test_the_origin_moves_both_precisions_alike() -> None:
    X = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32) + np.float32(1e6 / 3)
    features = fit_random(ours.RBF(0.5), X, 60)
    assert_allclose(features(X), features(X.astype(np.float64)), atol=1e-5)


@every
@pytest.mark.parametrize("rank", [2, 3, 7])
def test_rank_is_the_number_of_columns(case: Case, rank: int) -> None:
    if isinstance(case.kernel, ours.Sum):
        rank = max(rank, 3)
    F = draw_features(case.kernel, case.d, rank)(case.data(4))
    assert F.shape == (4, rank)
    assert np.isfinite(F).all()


@pytest.mark.parametrize("structure", ["independent", "orthogonal", "hadamard"])
@pytest.mark.parametrize("kernel", [ours.RBF(0.5), ours.Matern(1.5), ours.ArcCosine(1)], ids=repr)
def test_one_feature(kernel: Kernel, structure: str) -> None:
    case = Case(kernel, d=1)
    found = errors(case, 2048, structure, range(10), 20)
    X, Y = case.pairs(20)
    assert rms(found) < 0.06 * np.abs(kernel.block(X, Y)).max()


def test_no_rows_and_rows_of_zeros() -> None:
    for case in CASES.values():
        features = draw_features(case.kernel, case.d, 8)
        assert features(np.empty((0, case.d))).shape == (0, 8)
        assert np.isfinite(features(np.zeros((2, case.d)))).all()
    F = draw_features(ours.ArcCosine(0), 3, 50)(np.zeros((1, 3)))
    assert_allclose(F @ F.T, 0.5)


def test_duplicates_have_the_same_features() -> None:
    X = np.repeat(np.random.default_rng(0).normal(size=(1, 5)), 700, axis=0)
    F = draw_features(ours.RBF(0.1), 5, 64)(X)
    assert_allclose(F, np.broadcast_to(F[0], F.shape), atol=1e-14)


def test_integers_are_taken_as_float64() -> None:
    X = np.arange(10).reshape(5, 2)
    features = draw_features(ours.RBF(0.1), 2, 6)
    assert_array_equal(features(X), features(X.astype(np.float64)))


# ---- what the map says of itself


def test_what_the_map_says() -> None:
    features = draw_features(ours.RBF(0.1), 5, 10, structure="hadamard")
    assert (features.rank, features.n_features, features.structure, features.exact) == (10, 5, "hadamard", False)
    assert not features.centred_only
    assert draw_features(ours.Laplacian(0.1), 5, 10).structure == "independent"
    assert draw_features(ours.Laplacian(0.1) + ours.RBF(0.1), 5, 10).structure == "orthogonal"


@pytest.mark.parametrize("kernel", [ours.AdditiveChi2(), 2 * ours.AdditiveChi2() + ours.RBF(0.1)], ids=repr)
def test_additive_chi2_is_itself_once_centred(kernel: Kernel) -> None:
    X = np.abs(np.random.default_rng(0).normal(size=(20, 4)))
    features = draw_features(kernel, 4, 20_000)
    assert features.centred_only
    F = features(X)
    H = np.eye(20) - 1 / 20
    K = kernel.block(X, X)
    assert_allclose(H @ F @ F.T @ H, H @ K @ H, atol=0.1 * np.abs(K).max())
    assert np.abs(F @ F.T - K).max() > 0.5 * np.abs(K).max()
    a = features.offset(X)
    assert a is not None
    assert_allclose(F @ F.T, K + a[:, None] + a, atol=0.1 * np.abs(K).max())


# ---- the measured error


@every
def test_measured_error_is_the_error(case: Case) -> None:
    X = case.data(300)
    features = fit_random(case.kernel, X, 199)  # at 200 orthogonal projections would not err at all
    found = kernel_error(features, X, pairs=1500)
    assert found.label == "estimate"
    F, K = features(X), case.kernel.block(X, X)
    a = features.offset(X)
    K = K if a is None else K + a[:, None] + a
    apart = ~np.eye(300, dtype=bool)
    gap = (F @ F.T - K)[apart]
    assert_allclose(found.rms, rms(gap), rtol=0.2)
    assert 0.3 * np.abs(gap).max() <= found.largest <= np.abs(gap).max() * (1 + 1e-9)
    assert found == kernel_error(features, X, pairs=1500, threads=2)


@pytest.mark.parametrize("name", ["rbf", "laplacian", "matern 3/2", "poly 2", "arc_cosine1", "additive_chi2", "sum"])
def test_standard_error_is_that_of_such_maps(name: str) -> None:
    case = CASES[name]
    X = case.data(300)
    maps = [fit_random(case.kernel, X, 256, "independent", seed=seed) for seed in range(12)]
    measured = [kernel_error(features, X, pairs=800, seed=seed) for seed, features in enumerate(maps)]
    typical = rms([error.rms for error in measured])
    assert_allclose(rms([error.standard_error for error in measured]), typical, rtol=0.25)


def test_measured_error_of_few_rows() -> None:
    features = draw_features(ours.RBF(0.1), 2, 100)
    alone = kernel_error(features, np.ones((1, 2)))
    assert alone.rms < 1e-12
    assert kernel_error(features, np.array([[0.0, 0.0], [1.0, 1.0]], dtype=np.float32)).rms < 0.2


# ---- refusals


@pytest.mark.parametrize(
    "kernel",
    [ours.Chi2(), ours.Sigmoid(), ours.RBF(1.0) * ours.Linear(), ours.RBF(1.0) + ours.Chi2(), 2 * ours.Chi2()],
    ids=repr,
)
def test_kernels_without_features_are_refused(kernel: Kernel) -> None:
    with pytest.raises(
        InputError, match=r"Random features exist for the kernels (?=.*linear)(?=.*rbf)(?=.*laplacian).*; got '"
    ):
        draw_features(kernel, 3, 10)


@pytest.mark.parametrize("kernel", [ours.Polynomial(2.5), ours.Polynomial(0), ours.Polynomial(2, 1.0, -1.0)], ids=repr)
def test_polynomials_without_a_sketch_are_refused(kernel: Kernel) -> None:
    with pytest.raises(InputError, match="a whole degree from 1 and coef0 of at least 0"):
        draw_features(kernel, 3, 10)


def draw(**changes: Any) -> RandomMap:
    arguments: dict[str, Any] = {"kernel": ours.RBF(1.0), "d": 3, "rank": 10} | changes
    return draw_features(**arguments)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rank": 0}, "rank must be a whole number of at least 1; got 0"),
        ({"rank": 2.5}, "rank must be a whole number"),
        ({"rank": True}, "rank must be a whole number"),
        ({"rank": 1, "kernel": ours.ArcCosine(0)}, "at least 2; got 1"),
        ({"rank": 2, "kernel": ours.RBF(1.0) + ours.Laplacian(1.0) + 1}, "at least 3; got 2"),
        ({"structure": "qmc"}, "structure must be one of 'independent', 'orthogonal', 'hadamard'; got 'qmc'"),
        ({"structure": "hadamard", "kernel": ours.Laplacian(1.0)}, "no preferred axes; got 'laplacian'"),
        ({"kernel": ours.RBF((1.0, 2.0))}, "got 2 values for 3 features"),
        ({"origin": [0.0, 0.0]}, "origin must be 3 finite numbers"),
        ({"origin": [0.0, 0.0, math.nan]}, "origin must be 3 finite numbers"),
    ],
)
def test_refusals(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        draw(**changes)


def test_rows_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InputError, match="X must have 3 features, as drawn for; got 2"):
        draw()(np.zeros((4, 2)))
    with pytest.raises(InputError, match="values of 0 or above"):
        draw(kernel=ours.HistogramIntersection())(np.full((4, 3), -1.0))


def test_few_directions_in_many_dimensions_are_orthonormal_and_cheap() -> None:
    frames = _haar_frames(np.random.default_rng(0), 2, 4000, 12)
    assert_allclose(frames.transpose(0, 2, 1) @ frames, np.broadcast_to(np.eye(12), (2, 12, 12)), atol=1e-12)
    assert _haar_frames(np.random.default_rng(0), 0, 200_000, 200_000).shape == (0, 200_000, 200_000)
