"""Sums of kernel values, whitened at the end: the same scatter, with a measured bound on what rounding did to it."""

import numpy as np
import pytest
import reference
from scipy import sparse

import kpca
from kpca import KernelPCA, Nystroem
from kpca.features import NystroemMap, scatter_of
from kpca.kernels import RBF, Laplacian, Polynomial

RNG = np.random.default_rng(0)
X = np.vstack(
    [RNG.normal(size=(1200, 4)), RNG.normal(size=(600, 4)) * 0.3 + 2.0, np.repeat(RNG.normal(size=(2, 4)), 100, 0)]
)
X = X[RNG.permutation(len(X))]
WEIGHTS = RNG.uniform(0.5, 2.0, size=len(X)) * (RNG.random(len(X)) < 0.9)


def both(monkeypatch, landmarks, rows, weights=None, **options):
    """Return the scatter of whitened sums, and that of whitened rows."""
    late = scatter_of(landmarks, rows, weights, **options)
    with monkeypatch.context() as patch:
        patch.setattr("kpca.features.scatter.WHITENED_LATE", np.inf)
        early = scatter_of(landmarks, rows, weights, **options)
    return late, early


@pytest.mark.parametrize("kernel", [RBF(2.0), RBF(5.0), Laplacian(0.3), Polynomial(2, 0.2, 1.0)], ids=str)
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
def test_float64_sums_are_those_of_whitened_rows(monkeypatch, kernel, weights, form):
    landmarks = NystroemMap(kernel, X[:80])
    late, early = both(monkeypatch, landmarks, form(X), weights)
    assert late.of_values and not early.of_values and late.rounding > 0.0
    assert late.rounding <= 1e-12 * late.trace
    np.testing.assert_allclose(late.matrix, early.matrix, atol=1e-12 * early.trace)
    np.testing.assert_allclose(late.mean, early.mean, atol=1e-11 * np.sqrt(early.trace / early.mass))
    assert late.rows == early.rows
    assert late.mass == pytest.approx(early.mass, rel=1e-14)
    assert late.trace == pytest.approx(early.trace, rel=1e-13)
    assert late.unexplained == pytest.approx(early.unexplained, abs=1e-11 * early.trace)
    np.testing.assert_array_equal(late.matrix, late.matrix.T)


@pytest.mark.parametrize("gamma", [0.5, 1.0, 10.0, 300.0])
@pytest.mark.parametrize("order", ["mixed", "sorted"])
@pytest.mark.parametrize("numbers", [50_000, 2_000_000], ids=["pieces", "piece"])
def test_what_rounding_did_is_within_what_was_measured(monkeypatch, gamma, order, numbers):
    """The sums alone, accepted or not: against sums in float64 of the same float32 kernel values."""
    monkeypatch.setattr("kpca.features.scatter.PIECE_NUMBERS", numbers)
    monkeypatch.setattr("kpca.features.scatter._allowed", lambda *_: np.inf)
    rows = (X if order == "mixed" else X[np.argsort(X[:, 0])]).astype(np.float32)
    some = np.random.default_rng(1).permutation(len(rows))[:120]
    landmarks = NystroemMap(RBF(gamma), rows[some], np.float32)
    assert landmarks.precision(np.float32) == np.float32
    late = scatter_of(landmarks, rows)
    K = np.empty((len(rows), landmarks.rank), dtype=np.float32)
    landmarks.fill_values(rows, K)
    F = landmarks.whitened(K.T.astype(np.float64)).T
    errors = np.linalg.eigvalsh(late.matrix - (F - F.mean(axis=0)).T @ (F - F.mean(axis=0)))
    assert 0.0 < np.abs(errors).max() <= late.rounding
    assert abs(late.unexplained - (late.trace - np.square(F).sum())) <= late.rounding
    assert late.rounding <= 200.0 * np.abs(errors).max()  # and says something


def test_ill_conditioned_landmarks_whiten_rows(monkeypatch):
    rows = X[:, :2]
    landmarks = NystroemMap(RBF(0.01), rows[:100])
    late, early = both(monkeypatch, landmarks, rows)
    assert not late.of_values
    np.testing.assert_array_equal(late.matrix, early.matrix)


def test_float32_sums_serve_leading_components_only():
    rows = X.astype(np.float32)
    landmarks = NystroemMap(RBF(1.0), rows[:60], np.float32)
    assert landmarks.precision(np.float32) == np.float32
    assert scatter_of(landmarks, rows, leading=True).of_values
    assert not scatter_of(landmarks, rows).of_values
    assert not scatter_of(landmarks, rows[:300], leading=True).of_values  # few rows


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_bits_do_not_depend_on_the_threads(monkeypatch, dtype):
    monkeypatch.setattr("kpca.features.scatter.PIECE_NUMBERS", 20_000)
    rows = X.astype(dtype)
    landmarks = NystroemMap(RBF(1.0), rows[:60], dtype)
    one, three = (scatter_of(landmarks, rows, WEIGHTS, threads=threads, leading=True) for threads in (1, 3))
    assert one.rounding == three.rounding > 0.0
    np.testing.assert_array_equal(one.matrix, three.matrix)
    np.testing.assert_array_equal(one.mean, three.mean)


def test_rounding_is_merged_and_forgotten():
    part = scatter_of(NystroemMap(RBF(1.0), X[:60]), X)
    assert part.merged(part.faded(0.5)).rounding == pytest.approx(1.5 * part.rounding)


@pytest.mark.parametrize("allowed", [0.0, 1e-30, 1e-15, 1.0])
def test_rows_are_counted_once(monkeypatch, allowed):
    monkeypatch.setattr("kpca.features.scatter.PIECE_NUMBERS", 20_000)
    monkeypatch.setattr("kpca.features.scatter._allowed", lambda *_: allowed)
    seen = []
    scatter_of(NystroemMap(RBF(1.0), X[:60]), X, monitor=seen.append)
    assert sum(seen) == len(X)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("gamma", [1e-4, 0.01, 0.3, 3.0, 100.0])
@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
def test_bounds_contain_the_exact_eigenvalues(kernel, gamma, dtype):
    rows = X.astype(dtype)
    K = reference.kernel_values(kernel, rows, rows, gamma=gamma)
    values = np.linalg.eigvalsh(reference.centred(K))[::-1]
    for k in (5, 60):
        model = KernelPCA(k, kernel=kernel, gamma=gamma, approximation=Nystroem(120), random_state=0)
        model.fit(rows)
        found = model.eigenvalues_
        bounds = model.eigenvalue_bounds_
        exactly = values[: len(found)]
        slack = 1e-12 * values[0]  # of the exact ones themselves
        assert (bounds[:, 0] <= exactly + slack).all()
        assert (exactly <= bounds[:, 1] + slack).all()


def test_components_that_follow_rounding_are_found_out(monkeypatch):
    """Where float32 sums are not enough for the components that were asked for, rows are whitened after all."""
    rows = X.astype(np.float32)
    model = KernelPCA(20, kernel="rbf", gamma=0.25, approximation=Nystroem(200, landmarks=np.arange(200)))
    with monkeypatch.context() as patch:
        patch.setattr("kpca.features.scatter.WHITENED_LATE", np.inf)
        plain = model.fit(rows).eigenvalues_
    noise = []

    def disturbed(landmarks, S):
        noise.append(True)
        C = np.array(whiten(landmarks, S))
        return C + 0.1 * np.trace(C) * np.diag(np.arange(len(C)) == len(C) - 1)

    whiten = NystroemMap.whitened_twice
    monkeypatch.setattr(NystroemMap, "whitened_twice", disturbed)
    monkeypatch.setattr("kpca.features.scatter._allowed", lambda *arguments: np.inf if arguments[2] else 0.0)
    np.testing.assert_array_equal(model.fit(rows).eigenvalues_, plain)
    assert noise


def test_few_and_all_components_agree():
    with kpca.config(threads=2):
        few = KernelPCA(10, kernel="rbf", gamma=1.0, approximation=Nystroem(100), random_state=0).fit(X)
        every = KernelPCA(kernel="rbf", gamma=1.0, approximation=Nystroem(100), random_state=0).fit(X)
    np.testing.assert_allclose(few.eigenvalues_, every.eigenvalues_[:10], rtol=1e-11)
