"""Every kernel x solver x dtype against the dense float64 truth: eigenvalues, subspaces, scores, bounds."""

import warnings

import numpy as np
import pytest
from kernel_table import TUNED
from reference import centred, kernel_values, projector_error, scores, spectrum

from kpca import KernelPCA

KERNELS = list(TUNED)
# Eigenvalues within this of the largest; projectors within the second times lambda_1 / gap.
LIMITS = {"float64": (1e-9, 1e-7), "float32": (2e-5, 2e-3)}


def data(kernel, n=350, d=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) + 3.0 * rng.standard_normal((4, d))[rng.integers(0, 4, n)]
    if kernel in ("chi2", "additive_chi2", "histogram_intersection", "sigmoid"):
        X = np.abs(X) / 4
    return X


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("solver", ["dense", "krylov", "auto", "arpack", "randomized"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_against_the_dense_truth(kernel, solver, dtype):
    k = 5
    X = data(kernel).astype(dtype)
    X_new = data(kernel, n=40, seed=1).astype(dtype)
    gamma = 0.05 if kernel != "sigmoid" else 0.3
    K = kernel_values(kernel, X, X, gamma=gamma, degree=3, coef0=0.5)
    truth, U = spectrum(centred(K))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The kernel matrix is not positive")
        model = KernelPCA(k, kernel=kernel, gamma=gamma, coef0=0.5, eigen_solver=solver).fit(X)
    values, angles = LIMITS[dtype]
    assert np.abs(model.eigenvalues_ - truth[:k]).max() <= values * truth[0]
    assert projector_error(model.eigenvectors_.astype(np.float64), U, truth, k) <= angles
    lower, upper = model.eigenvalue_bounds_.T
    assert (lower <= truth[:k]).all()
    assert (truth[:k] <= upper).all()
    expected = scores(K, kernel_values(kernel, X_new, X, gamma=gamma, degree=3, coef0=0.5), k)
    found = model.transform(X_new)
    assert found.dtype == np.dtype(dtype)
    # signs are ours; a single component may rotate by the eigenvalue gap, which this data keeps wide
    assert np.abs(np.abs(found) - np.abs(expected)).max() <= 1e3 * angles * np.abs(expected).max()
    assert model.solver_ in ("dense", "krylov", "primal", "primal-krylov")
    assert model.residuals_.max() <= (1e-10 if dtype == "float64" else 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("factor", [1e-3, 1e-2, 1.0, 1e2, 1e3])
@pytest.mark.parametrize("kernel", ["rbf", "exponential", "matern32", "matern52", "rational_quadratic"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("solver", ["dense", "krylov"])
def test_bandwidths_from_too_narrow_to_too_wide(factor, kernel, dtype, solver):
    X = data(kernel).astype(dtype)
    gamma = 0.02 / factor**2
    truth, _ = spectrum(_centred_exactly(kernel, X, gamma))
    model = KernelPCA(4, kernel=kernel, gamma=gamma, eigen_solver=solver).fit(X)
    values, _ = LIMITS[dtype]
    assert np.abs(model.eigenvalues_ - truth[:4]).max() <= values * truth[0]
    assert (model.eigenvalue_bounds_[:, 0] <= truth[:4] * (1 + 1e-12)).all()
    assert (truth[:4] <= model.eigenvalue_bounds_[:, 1] * (1 + 1e-12)).all()


def _centred_exactly(kernel, X, gamma):
    """The truth where all entries are near 1: extended precision keeps the digits that centring leaves."""
    X = X.astype(np.longdouble)
    s = sum(np.subtract.outer(X[:, m], X[:, m]) ** 2 for m in range(X.shape[1]))
    r = np.sqrt(s) * np.sqrt(np.longdouble(2 * gamma))
    root3, root5 = np.sqrt(np.longdouble(3)), np.sqrt(np.longdouble(5))
    K = {
        "rbf": lambda: np.exp(-np.longdouble(gamma) * s),
        "exponential": lambda: np.exp(-r),
        "matern32": lambda: (1 + root3 * r) * np.exp(-root3 * r),
        "matern52": lambda: (1 + root5 * r + 5 * r**2 / 3) * np.exp(-root5 * r),
        "rational_quadratic": lambda: 1 / (1 + r**2 / 2),
    }[kernel]()
    K -= K.mean(axis=0)
    K -= K.mean(axis=1)[:, None]
    return K.astype(np.float64)


@pytest.mark.parametrize("distance", [1e2, 1e4, 1e6])
@pytest.mark.parametrize("solver", ["dense", "krylov"])
@pytest.mark.parametrize("kernel", ["rbf", "matern12", "matern52"])
def test_far_apart_clusters(distance, solver, kernel):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((330, 4))
    X[:165] += distance
    truth, _ = spectrum(centred(kernel_values(kernel, X, X, gamma=0.2)))
    model = KernelPCA(4, kernel=kernel, gamma=0.2, eigen_solver=solver).fit(X)
    assert np.abs(model.eigenvalues_ - truth[:4]).max() <= 1e-9 * truth[0]


@pytest.mark.parametrize("kernel", ["rbf", "exponential", "laplacian", "linear", "poly"])
@pytest.mark.parametrize("solver", ["dense", "krylov"])
def test_three_distinct_rows(kernel, solver):
    """Rank two after centring, every distance but three exactly 0."""
    X = np.repeat(np.array([[0.0, 1.0], [2.0, 0.3], [1.0, 5.0]]), 120, axis=0)
    truth, _ = spectrum(centred(kernel_values(kernel, X, X, gamma=0.7)))
    model = KernelPCA(4, kernel=kernel, gamma=0.7, eigen_solver=solver).fit(X)
    np.testing.assert_allclose(model.eigenvalues_, truth[:4], atol=1e-9 * truth[0])
    rank = int((truth > 1e-9 * truth[0]).sum())
    assert (model.eigenvalues_[rank:] == 0).all()
    assert np.isfinite(model.transform(X[:5])).all()
