"""Block Krylov against the dense truth, on spectra made to be difficult; its bounds must always contain the truth."""

import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reference import centred, kernel_values, spectrum
from sklearn.exceptions import ConvergenceWarning

import kpca.gram.operator as operator_module
from kpca.gram import Centered, Gram, MatrixGram
from kpca.kernels import RBF, Cosine, Exponential, Polynomial
from kpca.spectrum import solve_dense, solve_krylov


@pytest.fixture(autouse=True)
def float32_tiles_also_for_few_rows(monkeypatch):
    monkeypatch.setattr(operator_module, "_DOUBLE_ROWS", 0)
    monkeypatch.setattr(operator_module, "_ONE_THREAD_ROWS", 0)


class Known(MatrixGram):
    """A matrix with known eigenvalues, said to be positive semidefinite where it is."""

    def __init__(self, values, seed=0):
        rng = np.random.default_rng(seed)
        Q, _ = np.linalg.qr(rng.standard_normal((len(values), len(values))))
        K = (Q * values) @ Q.T
        super().__init__((K + K.T) / 2)
        self.values = np.sort(values)[::-1]

    @property
    def psd(self):
        return bool(self.values.min() >= 0)


def decay(n, rate=0.9):
    return rate ** np.arange(n)


SPECTRA = {
    "geometric": decay(300),
    "slow": 1.0 / (1.0 + np.arange(300.0)),
    "clustered": np.concatenate([np.full(5, 1.0) + 1e-9 * np.arange(5), np.full(20, 0.5), decay(275, 0.8) * 0.1]),
    "repeated above the block": np.concatenate([np.ones(40), decay(260, 0.9) * 0.5]),
    "identity": np.ones(300),
    "rank three": np.concatenate([[3.0, 2.0, 1.0], np.zeros(297)]),
    "rank one": np.concatenate([[1.0], np.zeros(299)]),
    "zero": np.zeros(300),
    "indefinite": np.concatenate([decay(150), -decay(150, 0.95) * 2.0]),
    "tiny": decay(300) * 1e-100,
    "huge": decay(300) * 1e100,
}


@pytest.mark.parametrize("name", SPECTRA)
@pytest.mark.parametrize("k", [1, 4, 10])
@pytest.mark.parametrize("tol", [1e-10, 1e-5])
def test_known_spectra(name, k, tol):
    operator = Known(SPECTRA[name])
    found = solve_krylov(operator, k, tol)
    truth, top = operator.values[:k], max(abs(operator.values[0]), 1e-300)
    # an eigenvalue is wrong by at most the residual; 1e-9 is what tol = 0 promises
    assert np.abs(found.values - truth).max() <= max(10 * tol, 1e-9) * top
    assert (found.bounds[:, 0] <= truth).all()
    assert (truth <= found.bounds[:, 1]).all()
    assert found.converged
    gaps = operator._data @ found.vectors - found.vectors * found.values
    assert np.linalg.norm(gaps, axis=0).max() <= 1.1 * tol * max(np.abs(operator.values).max(), 1e-300)
    np.testing.assert_allclose(found.vectors.T @ found.vectors, np.eye(k), atol=1e-12)


def test_copies_beyond_the_block_are_found():
    """Multiplicity 40 and a block of 16: without a probe the residuals are perfect, and copies are missing."""
    values = np.concatenate([[2.0], np.ones(40), np.full(259, 0.1)])
    found = solve_krylov(Known(values), 5, 1e-10)
    np.testing.assert_allclose(found.values, [2, 1, 1, 1, 1], atol=1e-9)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    n=st.integers(40, 160),
    k=st.integers(1, 8),
    seed=st.integers(0, 10_000),
    copies=st.integers(1, 30),
    zeros=st.integers(0, 100),
    spread=st.floats(-6, 0),
    tol=st.sampled_from([1e-10, 1e-6, 1e-3]),
)
def test_bounds_contain_the_truth(n, k, seed, copies, zeros, spread, tol):
    rng = np.random.default_rng(seed)
    values = np.sort(10 ** rng.uniform(spread, 0, size=n))[::-1].copy()
    place = rng.integers(0, n)
    values[place : place + copies] = values[place]
    values[n - min(zeros, n - 1) :] = 0.0
    operator = Known(values, seed)
    found = solve_krylov(operator, k, tol, seed=seed)
    truth = operator.values[:k]
    assert (found.bounds[:, 0] <= truth).all()
    assert (truth <= found.bounds[:, 1]).all()
    assert np.abs(found.values - truth).max() <= max(tol, 1e-10) * 10 * truth[0]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 10_000),
    log_width=st.floats(-3, 3),
    kernel=st.sampled_from(["rbf", "exponential", "poly"]),
    duplicates=st.booleans(),
    tol=st.sampled_from([1e-10, 1e-6, 1e-4]),
    single=st.booleans(),
)
def test_bounds_of_kernels_contain_the_truth(seed, log_width, kernel, duplicates, tol, single):
    """Bandwidths from 1/1000 to 1000 times the spread of the data, float32 tiles wherever the solver takes them."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((130, 3)) + (rng.integers(0, 3, 130) * 5.0)[:, None]
    if duplicates:
        X[60:] = X[:70]
    gamma = 0.5 * 10.0 ** (-2 * log_width)
    made = {
        "rbf": RBF(gamma=gamma),
        "exponential": Exponential(length_scale=1 / np.sqrt(2 * gamma)),
        "poly": Polynomial(degree=2, gamma=min(gamma, 1.0), coef0=1.0),
    }[kernel]
    name_gamma = min(gamma, 1.0) if kernel == "poly" else gamma
    truth, _ = spectrum(centred(kernel_values(kernel, X, X, gamma=name_gamma, degree=2)))
    operator = Centered(Gram(made, X, shifted=kernel != "poly" and log_width > 0))
    found = solve_krylov(operator, 5, tol, largest=float(truth[0]) if single else None)
    rounding = 1e-13 * max(truth[0], abs(kernel_values(kernel, X, X, gamma=name_gamma, degree=2)).max())
    assert (found.bounds[:, 0] <= truth[:5] + rounding).all()
    assert (truth[:5] <= found.bounds[:, 1] + rounding).all()
    assert found.converged


def test_not_converging_is_said_and_still_bounded():
    operator = Known(1.0 / (1.0 + np.arange(300.0)) ** 0.2)
    with pytest.warns(ConvergenceWarning, match="did not converge in 2 passes"):
        found = solve_krylov(operator, 4, 1e-10, max_passes=2)
    assert not found.converged
    assert (found.bounds[:, 0] <= operator.values[:4]).all()
    assert (operator.values[:4] <= found.bounds[:, 1]).all()


def test_what_is_rounding_is_given_up_and_orthonormal():
    """All rows have one direction to twelve digits: nothing is left in B but the rounding of K."""
    X = np.random.default_rng(0).standard_normal((150, 10)) + 1e7
    operator = Centered(Gram(Cosine(), X))
    with pytest.warns(ConvergenceWarning, match="less is rounding, so raise tol"):
        found = solve_krylov(operator, 3, 1e-10)
    assert found.n_passes < 40
    np.testing.assert_allclose(found.vectors.T @ found.vectors, np.eye(3), atol=1e-12)


def test_a_wrong_guess_does_no_harm():
    operator = Known(np.concatenate([[5.0, 4.0, 3.0], decay(297, 0.9)]))
    vectors = solve_dense(operator, 20).vectors
    found = solve_krylov(operator, 3, 1e-10, start=vectors[:, 3:15], largest=1.0)  # the guess misses all that is wanted
    np.testing.assert_allclose(found.values, [5, 4, 3], rtol=1e-9)


@pytest.mark.parametrize("k", [1, 3, 40, 250])
def test_dense_bounds_and_residuals(k):
    operator = Known(SPECTRA["clustered"])
    found = solve_dense(operator, k)
    truth = operator.values[:k]
    assert (found.bounds[:, 0] <= truth).all()
    assert (truth <= found.bounds[:, 1]).all()
    assert found.residuals.max() < 1e-12


def test_repeats_to_the_bit():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1500, 6))
    first, second = (solve_krylov(Centered(Gram(RBF(gamma=0.1), X, threads=t)), 5, 1e-10) for t in (1, 3))
    np.testing.assert_array_equal(first.values, second.values)
    np.testing.assert_array_equal(first.vectors, second.vectors)


def test_nothing_is_warned_of_in_an_ordinary_run():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert solve_krylov(Known(SPECTRA["geometric"]), 5, 1e-10).converged
