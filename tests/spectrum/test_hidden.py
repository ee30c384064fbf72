"""No guess hides an eigenvector: starts that leave leading ones out, at any tolerance, from spectra of many kinds."""

from __future__ import annotations

import numpy as np
import pytest

from kpca.gram.factored import MatrixGram
from kpca.gram.operator import Centered
from kpca.spectrum import solve_krylov

N, K = 150, 5
SPECTRA = {
    "falling": 0.7 ** np.arange(N),
    "repeated": np.repeat(0.5 ** np.arange(N // 5), 5),
    "clustered": np.r_[1.0 + 1e-6 * np.arange(12)[::-1], 0.9 * 0.8 ** np.arange(N - 12)],
    "flat": np.linspace(1.0, 0.9, N),
    "few": np.r_[np.linspace(1.0, 0.5, 8), np.zeros(N - 8)],
    "indefinite": np.r_[0.8 ** np.arange(N // 2), -0.9 * 0.7 ** np.arange(N // 2)[::-1]],
}


def known(name):
    """An operator with this spectrum, and its eigenvectors, leading ones first."""
    values = np.sort(SPECTRA[name])[::-1]
    U = np.linalg.qr(np.random.default_rng(3).standard_normal((N, N)))[0]
    return MatrixGram((U * values) @ U.T), values, U


@pytest.mark.parametrize("tol", [0.1, 1e-2, 1e-3, 1e-6, 1e-10])
@pytest.mark.parametrize("hidden", [0, 2, K - 1])
@pytest.mark.parametrize("name", SPECTRA)
def test_an_eigenvector_that_a_start_leaves_out_is_found(name, hidden, tol):
    operator, values, U = known(name)
    start = np.delete(U[:, : K + 8], hidden, axis=1)
    found = solve_krylov(operator, K, tol, start=start)
    assert found.converged
    assert np.abs(found.values - values[:K]).max() <= tol * values[0] + 1e-13
    assert (found.bounds[:, 0] <= values[:K] + 1e-14).all() and (values[:K] - 1e-14 <= found.bounds[:, 1]).all()


@pytest.mark.parametrize(
    "start",
    [np.zeros((N, 4)), np.ones((N, 6)), None, "trailing", "one"],
    ids=["zero", "dependent", "none", "trailing", "one of them"],
)
@pytest.mark.parametrize("name", SPECTRA)
def test_starts_that_say_nothing(name, start):
    operator, values, U = known(name)
    start = {"trailing": U[:, -9:], "one": U[:, 3:4]}.get(start, start) if isinstance(start, str) else start
    found = solve_krylov(operator, K, 1e-8, start=start)
    assert found.converged
    assert np.abs(found.values - values[:K]).max() <= 1e-8 * values[0]
    assert np.abs(found.vectors.T @ found.vectors - np.eye(K)).max() <= 1e-12


def test_random_columns_are_handed_on():
    """A neighbour's columns have shown what it could miss: one more image is enough to see that nothing is new."""
    operator, _, U = known("flat")
    first = solve_krylov(operator, K, 1e-3, start=U[:, : K + 4])
    assert first.probe.shape == (N, 4)
    again = solve_krylov(operator, K, 1e-3, start=U[:, : K + 4], probe=first.probe)
    assert again.n_passes == 1 < first.n_passes


def test_a_basis_that_is_full_stays_orthonormal():
    """Images of random columns lie in what is known already, to rounding, once all of a small rank is known."""
    B = known("few")[0]
    for seed in range(5):
        found = solve_krylov(
            Centered(B), 7, 1e-12, start=np.random.default_rng(seed).standard_normal((N, 20)), seed=seed
        )
        assert np.abs(found.vectors.T @ found.vectors - np.eye(7)).max() <= 1e-12
