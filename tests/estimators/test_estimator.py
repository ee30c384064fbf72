"""KernelPCA against the truth.

Scikit-learn's dense solver, PCA, identities of docs/mathematics.md, LAPACK on the plain matrix.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_table import tuned
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import eigh
from scipy.sparse.linalg import LinearOperator, aslinearoperator
from scipy.spatial.distance import cdist
from sklearn import decomposition
from sklearn.exceptions import NotFittedError
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.utils.validation import check_is_fitted

import kpca
from kpca import KernelPCA, kernels

FloatArray = NDArray[Any]
FLOATS = [np.float64, np.float32]
SIZES = [60, 700]  # the dense route, and block Krylov
SOLVERS = ["auto", "dense", "krylov", "arpack", "randomized"]
ACCURACY = {np.dtype(np.float64): 1e-8, np.dtype(np.float32): 3e-5}  # relative to the largest eigenvalue

# One row per kernel. The parameters of the sigmoid are such that its indefinite part is negligible.
KERNELS = tuned("linear", "poly", "rbf", "sigmoid", "cosine", "laplacian", "chi2")
RADIAL = ["rbf", "laplacian", "matern12", "matern32", "matern52", "rational_quadratic"]


def make_data(n: int, dtype: Any = np.float64, *, d: int = 6, seed: int = 0, positive: bool = False) -> FloatArray:
    """Rows whose features have standard deviations 2, 1.4, 1, ...: eigenvalues are well apart."""
    X = np.random.default_rng(seed).standard_normal((n, d)) * 2.0 * 0.7 ** np.arange(d)
    return (np.abs(X) if positive else X).astype(dtype)


def truth(K: FloatArray, *, center: bool = True) -> tuple[FloatArray, FloatArray]:
    """All eigenvalues of the (centred) matrix in descending order and their vectors, plainly, in float64."""
    K = np.asarray(K, dtype=np.float64)
    if center:
        K = K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()
    values, vectors = eigh(0.5 * (K + K.T))
    return values[::-1], vectors[:, ::-1]


def gaussian_minus_one(X: FloatArray, gamma: float) -> FloatArray:
    """exp(-gamma |x - y|^2) - 1 from differences of rows: the constant goes with centring, the digits stay."""
    return np.expm1(-gamma * cdist(X.astype(np.float64), X.astype(np.float64), "sqeuclidean"))


def same_up_to_sign(ours: FloatArray, theirs: FloatArray, atol: Any) -> None:
    """Columns are equal, each up to its sign; `atol` may be one per column."""
    signs = np.sign(np.sum(ours.astype(np.float64) * theirs, axis=0))
    assert np.all(np.abs(ours * np.where(signs == 0, 1.0, signs) - theirs) <= atol)


def score_tolerance(values: FloatArray, k: int, accuracy: float) -> FloatArray:
    """How far scores may be apart: a vector turns by the error over the gap, and new rows divide by sqrt(lambda)."""
    top = values[0]
    gaps = np.array([np.abs(np.delete(values, j) - values[j]).min() for j in range(k)])
    return 20.0 * accuracy * np.sqrt(top) * (top / gaps) * np.sqrt(top / values[:k])


def fitted_state(model: KernelPCA) -> dict[str, Any]:
    """What a fit has left on the estimator: all but the parameters."""
    return {name: value for name, value in vars(model).items() if name not in model.get_params()}


def assert_same_fit(a: KernelPCA, b: KernelPCA, rows: Any) -> None:
    """Two fits agree to the last bit."""
    assert_array_equal(a.eigenvalues_, b.eigenvalues_)
    assert_array_equal(a.eigenvectors_, b.eigenvectors_)
    assert_array_equal(a.explained_variance_ratio_, b.explained_variance_ratio_)
    assert_array_equal(a.eigenvalue_bounds_, b.eigenvalue_bounds_)
    assert_array_equal(a.transform(rows), b.transform(rows))


# -- parity with scikit-learn -----------------------------------------------------------------------------------------


def scikit_learns(k: int | None, kernel: str, X: FloatArray, new: FloatArray) -> tuple[Any, FloatArray]:
    """scikit-learn's fit of these rows and its scores of new ones, always in float64, of the numbers as rounded."""
    X, new = X.astype(np.float64), new.astype(np.float64)
    if kernel in ("laplacian", "chi2"):  # it has these functions, but does not take their names
        K, K_new = (pairwise_kernels(rows, X, metric=kernel, **KERNELS[kernel]) for rows in (X, new))
        model = decomposition.KernelPCA(k, kernel="precomputed", eigen_solver="dense").fit(K)
        return model, model.transform(K_new)
    model = decomposition.KernelPCA(k, kernel=kernel, eigen_solver="dense", **KERNELS[kernel]).fit(X)
    return model, model.transform(new)


@pytest.mark.parametrize("k", [2, 5])
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_parity(kernel: str, dtype: Any, n: int, k: int) -> None:
    X = make_data(n + 20, dtype, positive=kernel == "chi2")
    X, new = X[:n], X[n:]
    ours = KernelPCA(k, kernel=kernel, **KERNELS[kernel]).fit(X)
    theirs, theirs_new = scikit_learns(k + 1, kernel, X, new)
    values, accuracy = theirs.eigenvalues_, ACCURACY[X.dtype]
    assert_allclose(ours.eigenvalues_, values[:k], rtol=0, atol=accuracy * values[0])
    atol = score_tolerance(values, k, accuracy)
    training = (theirs.eigenvectors_ * np.sqrt(values))[:, :k]
    same_up_to_sign(ours.fit_transform(X), training, atol)
    same_up_to_sign(ours.transform(X), training, atol)
    same_up_to_sign(ours.transform(new), theirs_new[:, :k], atol)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf", "cosine", "laplacian"])
def test_parity_of_all_components(kernel: str, dtype: Any, n: int) -> None:
    X = make_data(n, dtype)
    ours = KernelPCA(kernel=kernel, **KERNELS[kernel]).fit(X)
    theirs, _ = scikit_learns(None, kernel, X, X[:1])
    values, accuracy = theirs.eigenvalues_, ACCURACY[X.dtype]
    count = np.count_nonzero(values > 10 * accuracy * values[0])  # the rest may be rounding
    assert count <= ours.n_components_ <= n - 1
    assert (ours.eigenvalues_ > 0).all()
    assert_allclose(ours.eigenvalues_[:count], values[:count], rtol=0, atol=accuracy * values[0])


@pytest.mark.parametrize("n", SIZES)
def test_more_components_than_rows(n: int) -> None:
    X = make_data(n)
    with pytest.warns(UserWarning, match=f"n_components={n + 7} is more than the {n} rows"):
        ours = KernelPCA(n + 7, kernel="rbf").fit(X)
    assert ours.transform(X).shape == decomposition.KernelPCA(n + 7, kernel="rbf").fit_transform(X).shape == (n, n)
    assert np.isfinite(ours.transform(X)).all()


def test_linear_kernel_pads_components_without_variance() -> None:
    X = make_data(60, d=3)
    ours = KernelPCA(10).fit(X)
    assert ours.transform(X).shape == (60, 10)
    assert_array_equal(ours.eigenvalues_[3:], 0.0)
    assert_array_equal(ours.transform(X)[:, 3:], 0.0)
    assert_allclose(ours.eigenvectors_.T @ ours.eigenvectors_, np.eye(10), atol=1e-12)
    assert KernelPCA(10, remove_zero_eig=True).fit(X).transform(X).shape == (60, 3)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
def test_without_centring_eigenvalues_are_second_moments(kernel: str, n: int) -> None:
    X = make_data(n) + 1.0
    K = pairwise_kernels(X, metric=kernel, **KERNELS[kernel])
    values, vectors = truth(K, center=False)
    ours = KernelPCA(4, kernel=kernel, center=False, **KERNELS[kernel]).fit(X)
    atol = score_tolerance(values, 4, 1e-8)
    assert_allclose(ours.eigenvalues_, values[:4], rtol=0, atol=1e-8 * values[0])
    assert_allclose(ours.explained_variance_, values[:4] / n, rtol=0, atol=1e-8 * values[0])
    same_up_to_sign(ours.transform(X), vectors[:, :4] * np.sqrt(values[:4]), atol)
    same_up_to_sign(ours.fit_transform(X), vectors[:, :4] * np.sqrt(values[:4]), atol)
    precomputed = KernelPCA(4, kernel="precomputed", center=False).fit(K)
    same_up_to_sign(precomputed.transform(K), vectors[:, :4] * np.sqrt(values[:4]), atol)


# -- attributes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kernel", ["linear", "rbf", "laplacian", "precomputed"])
def test_attributes(kernel: str, dtype: Any, n: int) -> None:
    X, k = make_data(n, dtype), 3
    rows = (X @ X.T).astype(dtype) if kernel == "precomputed" else X
    inverse = kernel != "precomputed"
    model = KernelPCA(k, kernel=kernel, gamma=0.1, fit_inverse_transform=inverse).fit(rows)
    shapes = {"eigenvalues_": (k,), "eigenvectors_": (n, k), "explained_variance_": (k,)}
    shapes |= {"explained_variance_ratio_": (k,), "information_ratio_": (k,)}
    if kernel == "linear":
        shapes |= {"components_": (k, 6), "mean_": (6,)}
    if inverse:
        shapes |= {"dual_coef_": (n, 6), "X_transformed_fit_": (n, k)}
    for name, shape in shapes.items():
        value = getattr(model, name)
        assert (name, value.shape, value.dtype) == (name, shape, np.dtype(dtype))
    assert model.transform(rows).dtype == dtype
    assert model.fit_transform(rows).dtype == dtype
    assert model.residuals_.shape == (k,) and model.eigenvalue_bounds_.shape == (k, 2)
    assert (model.residuals_ <= (1e-5 if dtype == np.float32 else 1e-10)).all()
    assert (model.eigenvalue_bounds_[:, 0] <= model.eigenvalue_bounds_[:, 1]).all()
    assert isinstance(model.solver_, str) and model.n_passes_ >= 1
    assert model.n_components_ == k and model.n_features_in_ == rows.shape[1]
    assert model.X_fit_.shape == rows.shape
    if kernel != "precomputed":
        assert model.gamma_ == 0.1 and isinstance(model.kernel_, kernels.Kernel)
    if kernel != "linear":
        assert not hasattr(model, "components_") and not hasattr(model, "mean_")


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly", "laplacian"])
def test_bounds_contain_the_exact_eigenvalues(kernel: str, dtype: Any, n: int) -> None:
    X = make_data(n, dtype)
    model = KernelPCA(6, kernel=kernel, **KERNELS[kernel]).fit(X)
    values, _ = truth(pairwise_kernels(X.astype(np.float64), metric=kernel, **KERNELS[kernel]))
    rounding = 1e-13 * values[0]  # of the truth itself
    assert (model.eigenvalue_bounds_[:, 0] <= values[:6] + rounding).all()
    assert (model.eigenvalue_bounds_[:, 1] >= values[:6] - rounding).all()


@pytest.mark.parametrize("n", [60, 1500])
@pytest.mark.parametrize("solver", SOLVERS)
def test_solver_says_which_route_was_taken(solver: str, n: int) -> None:
    model = KernelPCA(3, kernel="rbf", gamma=0.1, eigen_solver=solver).fit(make_data(n))
    expected = solver if solver in ("dense", "krylov") else ("dense" if n == 60 else "krylov")
    assert model.solver_ == expected


# -- identities -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "d"), [(60, 6), (20, 50), (700, 6), (400, 1200)])
@pytest.mark.parametrize("dtype", FLOATS)
def test_linear_kernel_is_pca(dtype: Any, n: int, d: int) -> None:
    X = (make_data(n, d=d, dtype=np.float64) if d < 10 else decaying_data(n, d)).astype(dtype) + dtype(3)
    k, accuracy = 4, ACCURACY[np.dtype(dtype)]
    ours = KernelPCA(k).fit(X)
    pca = decomposition.PCA(k, svd_solver="full").fit(X.astype(np.float64))
    atol = accuracy * pca.explained_variance_[0]
    assert_allclose(ours.explained_variance_, pca.explained_variance_, rtol=0, atol=atol)
    assert_allclose(ours.explained_variance_ratio_, pca.explained_variance_ratio_, rtol=0, atol=accuracy)
    assert_allclose(ours.mean_, pca.mean_, rtol=1e-6 if dtype == np.float32 else 1e-13, atol=accuracy)
    same_up_to_sign(ours.components_.T, pca.components_.T, 20 * accuracy)
    same_up_to_sign(ours.transform(X), pca.transform(X.astype(np.float64)), 50 * accuracy * np.abs(X).max())


def decaying_data(n: int, d: int) -> FloatArray:
    """Many features, most of them of little variance."""
    rng = np.random.default_rng(1)
    return rng.standard_normal((n, d)) * np.maximum(3.0 * 0.6 ** np.arange(d), 0.01)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("coef0", [0.0, 1.0, 2.5])
def test_polynomial_of_degree_2_is_pca_of_monomials(coef0: float, n: int) -> None:
    X, gamma = make_data(n, d=3), 0.3
    i, j = np.triu_indices(3, k=1)
    # (g x.y + c)^2 = sum g^2 x_i^2 y_i^2 + sum 2 g^2 x_i x_j y_i y_j + sum 2 g c x_i y_i + c^2
    monomials = [gamma * X**2, np.sqrt(2.0) * gamma * X[:, i] * X[:, j], np.sqrt(2.0 * gamma * coef0) * X]
    pca = decomposition.PCA(5, svd_solver="full")
    scores = pca.fit_transform(np.hstack(monomials))
    ours = KernelPCA(5, kernel="poly", degree=2, gamma=gamma, coef0=coef0).fit(X)
    assert_allclose(ours.explained_variance_, pca.explained_variance_, rtol=0, atol=1e-9 * pca.explained_variance_[0])
    assert_allclose(ours.explained_variance_ratio_, pca.explained_variance_ratio_, rtol=0, atol=1e-9)
    same_up_to_sign(ours.transform(X), scores, score_tolerance(ours.eigenvalues_, 5, 1e-9))


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly", "cosine", "laplacian"])
def test_covariance_of_scores_is_the_explained_variance(kernel: str, n: int) -> None:
    X = make_data(n)
    model = KernelPCA(4, kernel=kernel, **KERNELS[kernel])
    scores = model.fit_transform(X)
    variance = model.explained_variance_
    assert_allclose(np.cov(scores.T), np.diag(variance), rtol=0, atol=1e-9 * variance[0])
    assert_allclose(scores.mean(axis=0), 0.0, atol=1e-9 * np.sqrt(variance[0]))


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly", "laplacian"])
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", FLOATS)
def test_ratios_count_what_was_not_computed(dtype: Any, n: int, kernel: str) -> None:
    X = make_data(n, dtype)
    some = KernelPCA(3, kernel=kernel, **KERNELS[kernel]).fit(X)
    values, _ = truth(pairwise_kernels(X.astype(np.float64), metric=kernel, **KERNELS[kernel]))
    accuracy = ACCURACY[X.dtype]
    assert_allclose(some.explained_variance_ratio_, (values / values.sum())[:3], rtol=0, atol=accuracy)
    information = np.sqrt(np.cumsum(values**2) / np.sum(values**2))
    assert_allclose(some.information_ratio_, information[:3], rtol=0, atol=accuracy)
    everything = KernelPCA(kernel=kernel, **KERNELS[kernel]).fit(X)
    assert_allclose(everything.explained_variance_ratio_.sum(), 1.0, rtol=1e-5)
    assert_allclose(everything.information_ratio_[:3], some.information_ratio_, rtol=0, atol=accuracy)


@pytest.mark.parametrize("n", SIZES)
def test_mean_error_in_feature_space_is_what_the_eigenvalues_leave(n: int) -> None:
    """mean_i (k~_ii - |t_i|^2) = (tr B - sum of the eigenvalues) / n."""
    X = make_data(n)
    K = pairwise_kernels(X, metric="rbf", gamma=0.1)
    model = KernelPCA(4, kernel="rbf", gamma=0.1).fit(X)
    lengths = np.diag(K) - 2.0 * K.mean(axis=1) + K.mean()
    error = np.mean(lengths - np.sum(model.transform(X) ** 2, axis=1))
    trace = model.eigenvalues_[0] / model.explained_variance_ratio_[0]
    assert_allclose(error, (trace - model.eigenvalues_.sum()) / n, rtol=1e-8)
    assert_allclose(trace, lengths.sum(), rtol=1e-10)


@pytest.mark.parametrize(("n", "solver"), [(60, "auto"), (700, "dense"), (700, "krylov")])
@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
@pytest.mark.parametrize("fraction", [0.3, 0.9, 0.97])
def test_fraction_gives_the_fewest_components(fraction: float, kernel: str, n: int, solver: str) -> None:
    X, params = make_data(n), KERNELS[kernel] | ({"gamma": 0.01} if kernel == "rbf" else {})
    values, _ = truth(pairwise_kernels(X, metric=kernel, **params))
    expected = int(np.argmax(np.cumsum(values) >= fraction * values.sum())) + 1
    model = KernelPCA(fraction, kernel=kernel, eigen_solver=solver, **params).fit(X)
    assert model.n_components_ == expected == model.transform(X).shape[1]
    assert_allclose(model.eigenvalues_, values[:expected], rtol=0, atol=1e-8 * values[0])
    assert model.explained_variance_ratio_.sum() >= fraction * (1 - 1e-9)
    if kernel != "linear" and n > 60:
        assert model.solver_ == solver


def test_fraction_that_needs_several_tries() -> None:
    """Narrow bandwidth: far more than the components tried first, so the basis grows until the share is reached."""
    X = make_data(700)
    values, _ = truth(pairwise_kernels(X, metric="rbf", gamma=0.15))
    ratio = np.cumsum(values) / values.sum()
    for fraction in (0.8, 0.9, 0.995):
        model = KernelPCA(fraction, kernel="rbf", gamma=0.15).fit(X)
        assert model.n_components_ == int(np.argmax(ratio >= fraction)) + 1 > 16
        assert_allclose(model.eigenvalues_, values[: model.n_components_], rtol=0, atol=1e-8 * values[0])


# -- weights ----------------------------------------------------------------------------------------------------------


def weighted_case(kernel: str, n: int, *, dtype: Any = np.float64) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Training rows (or their kernel matrix), new rows of the same kind, and whole weights, some of them 0."""
    X = make_data(n + 15, dtype)
    X, new = X[:n], X[n:]
    weights = np.random.default_rng(3).integers(0, 4, size=n)
    if kernel == "precomputed":
        return pairwise_kernels(X, metric="rbf", gamma=0.1), pairwise_kernels(new, X, metric="rbf", gamma=0.1), weights
    return X, new, weights


def taken(rows: Any, index: Any, kernel: str) -> Any:
    """The rows of an index; of a kernel matrix also its columns."""
    return rows[index][:, index] if kernel == "precomputed" else rows[index]


def assert_equivalent(a: KernelPCA, b: KernelPCA, rows_a: Any, rows_b: Any, accuracy: float = 1e-8) -> None:
    """Two fits describe the same components, signs included."""
    top = b.eigenvalues_[0]
    assert_allclose(a.eigenvalues_, b.eigenvalues_, rtol=0, atol=accuracy * top)
    assert_allclose(a.explained_variance_, b.explained_variance_, rtol=0, atol=accuracy * top)
    assert_allclose(a.explained_variance_ratio_, b.explained_variance_ratio_, rtol=0, atol=accuracy)
    assert_allclose(a.information_ratio_, b.information_ratio_, rtol=0, atol=accuracy)
    gaps = np.abs(np.diff(np.append(b.eigenvalues_, 0.0))).min()
    assert_allclose(a.transform(rows_a), b.transform(rows_b), rtol=0, atol=100 * accuracy * np.sqrt(top) * top / gaps)


@pytest.mark.parametrize(("n", "solver"), [(60, "auto"), (700, "dense"), (700, "krylov")])
@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly", "precomputed"])
@pytest.mark.parametrize("center", [True, False])
def test_whole_weights_are_repeated_rows_and_zero_weights_absent_ones(
    center: bool, kernel: str, n: int, solver: str
) -> None:
    rows, new, weights = weighted_case(kernel, n)
    params = {"gamma": 0.1, "degree": 2} if kernel != "precomputed" else {}
    model = KernelPCA(4, kernel=kernel, eigen_solver=solver, center=center, **params)
    repeated = np.repeat(np.arange(n), weights)
    expected = KernelPCA(**model.get_params()).fit(taken(rows, repeated, kernel))
    model.fit(rows, sample_weight=weights)
    if n > 60 and kernel != "linear":
        assert model.solver_ == expected.solver_ == solver
    columns = new[:, repeated] if kernel == "precomputed" else new
    assert_equivalent(model, expected, new, columns)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("kernel", ["linear", "rbf", "precomputed"])
def test_zero_weights_alone(kernel: str, n: int) -> None:
    rows, new, weights = weighted_case(kernel, n)
    present = np.flatnonzero(weights)
    model = KernelPCA(4, kernel=kernel, gamma=0.1).fit(rows, sample_weight=(weights > 0).astype(float))
    expected = KernelPCA(4, kernel=kernel, gamma=0.1).fit(taken(rows, present, kernel))
    assert_equivalent(model, expected, new, new[:, present] if kernel == "precomputed" else new)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("kernel", ["linear", "rbf", "precomputed"])
@pytest.mark.parametrize("zeros", [False, True])
def test_weighted_scores_of_training_rows(zeros: bool, kernel: str, n: int) -> None:
    """fit_transform is fit().transform(), also for rows of weight 0; their weighted covariance is diagonal."""
    rows, _, weights = weighted_case(kernel, n)
    weights = weights if zeros else weights + 1
    model = KernelPCA(3, kernel=kernel, gamma=0.1)
    scores = model.fit_transform(rows, sample_weight=weights)
    assert scores.shape == (n, 3)
    size = np.abs(scores).max()
    assert_allclose(scores, model.transform(rows), rtol=0, atol=1e-7 * size)
    covariance = np.cov(scores.T, fweights=weights)
    assert_allclose(covariance, np.diag(model.explained_variance_), rtol=0, atol=1e-7 * model.explained_variance_[0])
    as_list = KernelPCA(3, kernel=kernel, gamma=0.1).fit_transform(rows, sample_weight=weights.tolist())
    assert_array_equal(as_list, scores)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_equal_weights_only_scale_the_eigenvalues(kernel: str, n: int) -> None:
    X, new, _ = weighted_case(kernel, n)
    plain = KernelPCA(4, kernel=kernel, gamma=0.1).fit(X)
    weighted = KernelPCA(4, kernel=kernel, gamma=0.1).fit(X, sample_weight=np.full(n, 2.5))
    assert_allclose(weighted.eigenvalues_, 2.5 * plain.eigenvalues_, rtol=1e-8)
    assert_allclose(weighted.transform(new), plain.transform(new), rtol=0, atol=1e-6)
    ones = KernelPCA(4, kernel=kernel, gamma=0.1).fit(X, sample_weight=np.ones(n))
    assert_array_equal(ones.transform(new), plain.transform(new))


def test_weights_and_a_learned_inverse() -> None:
    """Scores the inverse learns from are those of transform, and whole weights are repeated rows there as well."""
    X, _, weights = weighted_case("rbf", 60)
    weights = weights + 1
    model = KernelPCA(4, kernel="rbf", gamma=0.1, fit_inverse_transform=True, alpha=0.1).fit(X, sample_weight=weights)
    assert_allclose(model.X_transformed_fit_, model.transform(X), rtol=0, atol=1e-8)
    repeated = KernelPCA(**model.get_params()).fit(np.repeat(X, weights, axis=0))
    scores = model.transform(X)
    assert_allclose(model.inverse_transform(scores), repeated.inverse_transform(scores), rtol=0, atol=1e-6)


# -- signs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly", "precomputed"])
@pytest.mark.parametrize("weighted", [False, True])
def test_largest_training_score_is_positive(weighted: bool, kernel: str, solver: str, n: int) -> None:
    rows, _, weights = weighted_case(kernel, n)
    model = KernelPCA(5, kernel=kernel, gamma=0.1, eigen_solver=solver)
    scores = model.fit_transform(rows, sample_weight=weights if weighted else None)
    if weighted:
        scores = scores[weights > 0]
    leading = np.argmax(np.abs(scores), axis=0)
    assert (scores[leading, np.arange(5)] > 0).all()


def test_signs_agree_between_solvers_and_dtypes() -> None:
    X = make_data(700)
    expected = np.sign(KernelPCA(5, kernel="rbf", gamma=0.1, eigen_solver="dense").fit_transform(X)[:20])
    for solver in SOLVERS:
        for dtype in FLOATS:
            scores = KernelPCA(5, kernel="rbf", gamma=0.1, eigen_solver=solver).fit_transform(X.astype(dtype))
            assert_array_equal(np.sign(scores[:20]), expected)


def test_tie_goes_to_the_lowest_index() -> None:
    """Data symmetric about 0 has scores of the same size on both sides; the first row decides."""
    X = make_data(40)
    X = np.vstack([X, -X])
    scores = KernelPCA(3).fit_transform(X)
    leading = np.argmax(np.abs(scores) >= np.abs(scores).max(axis=0) * (1 - 1e-9), axis=0)
    assert (leading < 40).all()
    assert (scores[leading, np.arange(3)] > 0).all()


# -- precision --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize(("dtype", "offset"), [(np.float64, 1e6), (np.float32, 1e3)])
@pytest.mark.parametrize("kernel", ["linear", *RADIAL])
def test_an_offset_changes_nothing(kernel: str, dtype: Any, offset: float, n: int) -> None:
    """Against float64 on the same rounded numbers; taking the offset off again is exact."""
    shifted = (make_data(n + 20) + offset).astype(dtype)
    plain = shifted.astype(np.float64) - offset
    ours = KernelPCA(4, kernel=kernel, gamma=0.1).fit(shifted[:n])
    expected = KernelPCA(4, kernel=kernel, gamma=0.1, eigen_solver="dense").fit(plain[:n])
    accuracy = ACCURACY[shifted.dtype]
    atol = score_tolerance(np.append(expected.eigenvalues_, 0.0), 4, accuracy)
    assert_allclose(ours.eigenvalues_, expected.eigenvalues_, rtol=0, atol=accuracy * expected.eigenvalues_[0])
    for rows in (slice(0, n), slice(n, None)):
        same_up_to_sign(ours.transform(shifted[rows]), expected.transform(plain[rows]), atol)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kernel", ["poly", "cosine"])
def test_kernels_of_the_inner_product_do_depend_on_the_origin(kernel: str, dtype: Any) -> None:
    X = make_data(700, dtype)
    ours = KernelPCA(3, kernel=kernel, **KERNELS[kernel]).fit(X + dtype(5))
    values, _ = truth(pairwise_kernels((X + dtype(5)).astype(np.float64), metric=kernel, **KERNELS[kernel]))
    assert_allclose(ours.eigenvalues_, values[:3], rtol=0, atol=ACCURACY[X.dtype] * values[0])


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("distance", [1e2, 1e4])
def test_clusters_far_apart(distance: float, dtype: Any, n: int) -> None:
    """Norms dwarf the distances within clusters even after the mean is subtracted."""
    X = make_data(n + 20)
    X[::2] += distance
    X = X.astype(dtype)
    X, new = X[:n], X[n:]
    values, vectors = truth(gaussian_minus_one(X, 0.1))
    ours = KernelPCA(4, kernel="rbf", gamma=0.1).fit(X)
    accuracy = ACCURACY[X.dtype]
    assert_allclose(ours.eigenvalues_, values[:4], rtol=0, atol=accuracy * values[0])
    assert (ours.eigenvalue_bounds_[:, 0] <= values[:4]).all() and (ours.eigenvalue_bounds_[:, 1] >= values[:4]).all()
    atol = score_tolerance(values[:5], 4, accuracy)
    same_up_to_sign(ours.transform(X), vectors[:, :4] * np.sqrt(values[:4]), atol)
    double = KernelPCA(4, kernel="rbf", gamma=0.1, eigen_solver="dense").fit(X.astype(np.float64))
    same_up_to_sign(ours.transform(new), double.transform(new.astype(np.float64)), atol)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("offset", [0.0, 100.0])
def test_wide_bandwidth_tends_to_pca(offset: float, dtype: Any, n: int) -> None:
    """1000 times the median bandwidth: every kernel value is nearly 1, and B the small remainder."""
    X = (make_data(n) + offset).astype(dtype)
    gamma = 1e-6 * float(KernelPCA(2, kernel="rbf", gamma="median").fit(X).gamma_)
    values, vectors = truth(gaussian_minus_one(X, gamma))
    ours = KernelPCA(4, kernel="rbf", gamma=gamma).fit(X)
    accuracy = ACCURACY[X.dtype]
    assert_allclose(ours.eigenvalues_, values[:4], rtol=0, atol=accuracy * values[0])
    assert_allclose(ours.explained_variance_ratio_, values[:4] / values.sum(), rtol=0, atol=accuracy)
    assert_allclose(ours.information_ratio_[-1], np.sqrt(np.sum(values[:4] ** 2) / np.sum(values**2)), atol=accuracy)
    same_up_to_sign(ours.transform(X), vectors[:, :4] * np.sqrt(values[:4]), score_tolerance(values[:5], 4, accuracy))
    pca = decomposition.PCA(4).fit(X.astype(np.float64))
    assert_allclose(ours.explained_variance_, 2 * gamma * pca.explained_variance_, rtol=1e-4)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", FLOATS)
def test_narrow_bandwidth_gives_equal_eigenvalues(dtype: Any, n: int) -> None:
    """K = I: all n - 1 eigenvalues are 1, and every one of the first five has to be found."""
    X = make_data(n, dtype)
    ours = KernelPCA(5, kernel="rbf", gamma=1e8).fit(X)
    assert_allclose(ours.eigenvalues_, 1.0, rtol=1e-6)
    assert_allclose(ours.explained_variance_ratio_, 1.0 / (n - 1), rtol=1e-5)
    assert_allclose(ours.information_ratio_[-1], np.sqrt(5 / (n - 1)), rtol=1e-5)
    assert_allclose(ours.eigenvectors_.T @ ours.eigenvectors_, np.eye(5), atol=1e-5)
    assert KernelPCA(kernel="rbf", gamma=1e8).fit(X).n_components_ == n - 1


@pytest.mark.parametrize("offset", [0.0, 10.0, 1e3, 1e5])
@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_float32_linear_rank(form: str, offset: float) -> None:
    """Three features have three components, whatever the offset; scikit-learn 1.9.1 keeps 48."""
    X = (np.random.default_rng(0).standard_normal((500, 3)) * [3.0, 2.0, 1.0] + offset).astype(np.float32)
    model = KernelPCA().fit(X if form == "dense" else sparse.csr_array(X))
    values, _ = truth(linear_matrix(X))
    assert model.n_components_ == 3
    assert_allclose(model.eigenvalues_, values[:3], rtol=1e-4)


def linear_matrix(X: FloatArray) -> FloatArray:
    """The linear kernel of rows that were centred in float64 first."""
    X = X.astype(np.float64)
    X = X - X.mean(axis=0)
    return X @ X.T


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_linear_rank_with_more_features_than_rows(dtype: Any, offset: float) -> None:
    X = (np.random.default_rng(0).standard_normal((20, 50)) + offset).astype(dtype)
    model = KernelPCA().fit(X)
    assert model.n_components_ == 19
    assert_allclose(model.eigenvalues_, truth(linear_matrix(X))[0][:19], rtol=1e-4 if dtype == np.float32 else 1e-8)


@pytest.mark.parametrize("offset", [0.0, 1e6, 1e9])
def test_float64_linear_rank(offset: float) -> None:
    X = np.random.default_rng(0).standard_normal((500, 3)) + offset
    assert KernelPCA().fit(X).n_components_ == 3


# -- degenerate data --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly", "laplacian"])
def test_three_distinct_points(kernel: str, dtype: Any, n: int) -> None:
    """Rank 2 however many rows; the naive block loop breaks down here."""
    points = np.array([[0.0, 0.0], [1.0, 0.5], [0.2, 2.0]])
    X = points[np.arange(n) % 3].astype(dtype)
    params = {"gamma": 0.5, "degree": 2}
    values, vectors = truth(pairwise_kernels(X.astype(np.float64), metric=kernel, filter_params=True, **params))
    everything = KernelPCA(kernel=kernel, **params).fit(X)
    assert everything.n_components_ == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        some = KernelPCA(4, kernel=kernel, **params).fit(X)
    accuracy = ACCURACY[X.dtype]
    assert_allclose(some.eigenvalues_, np.append(values[:2], [0.0, 0.0]), rtol=0, atol=accuracy * values[0])
    assert_array_equal(some.transform(X)[:, 2:], 0.0)
    atol = score_tolerance(values[:3], 2, accuracy)
    same_up_to_sign(some.transform(X)[:, :2], vectors[:, :2] * np.sqrt(values[:2]), atol)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_constant_columns_change_nothing(kernel: str, n: int) -> None:
    X = make_data(n)
    wide = np.column_stack([np.full(n, 7.0), X, np.zeros(n)])
    a = KernelPCA(4, kernel=kernel, gamma=0.1).fit(wide)
    b = KernelPCA(4, kernel=kernel, gamma=0.1).fit(X)
    assert_equivalent(a, b, wide, X)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly", "cosine", "laplacian", "chi2"])
@pytest.mark.parametrize("value", [0.0, 1.0, 0.1, 0.3, 1e5 + 0.1])
def test_constant_data(value: float, kernel: str, dtype: Any, n: int) -> None:
    X = np.full((n, 3), value, dtype=dtype)
    for k, count in ((2, 2), (None, 0)):
        with pytest.warns(UserWarning, match="no variance"):
            model = KernelPCA(k, kernel=kernel).fit(X)
        assert_array_equal(model.eigenvalues_, np.zeros(count))
        assert_array_equal(model.transform(X), np.zeros((n, count)))
        assert_array_equal(model.transform(X + dtype(1)), np.zeros((n, count)))
        for name in ("explained_variance_ratio_", "information_ratio_", "residuals_", "eigenvalue_bounds_"):
            assert np.isfinite(getattr(model, name)).all(), name


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
def test_two_rows(kernel: str) -> None:
    X = np.array([[0.0, 1.0], [2.0, 3.0]])
    model = KernelPCA(kernel=kernel).fit(X)
    assert model.n_components_ == 1
    assert_allclose(model.explained_variance_ratio_, 1.0, rtol=1e-12)
    assert_allclose(np.abs(model.transform(X)), np.sqrt(model.eigenvalues_ / 2) * np.ones((2, 1)), rtol=1e-9)


# -- kinds of input ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("container", [sparse.csr_matrix, sparse.csr_array, sparse.csc_array])
@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf", "sigmoid", "cosine", "laplacian", "matern32"])
def test_sparse_equals_dense(kernel: str, container: Any, dtype: Any, n: int) -> None:
    X = make_data(n + 20, dtype)
    X[np.random.default_rng(5).random(X.shape) < 0.6] = 0.0
    X, new = X[:n], X[n:]
    params = KERNELS.get(kernel, {"gamma": 0.1})
    a = KernelPCA(3, kernel=kernel, **params).fit(container(X))
    b = KernelPCA(3, kernel=kernel, **params).fit(X)
    accuracy = ACCURACY[X.dtype]
    assert_equivalent(a, b, container(new), new, accuracy)
    assert a.transform(container(new)).dtype == dtype


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf", "sigmoid", "cosine", "laplacian", "matern32"])
@pytest.mark.parametrize("fit_sparse", [True, False])
def test_sparse_and_dense_rows_meet(fit_sparse: bool, kernel: str) -> None:
    """Fitted on one kind, transform takes the other."""
    X = make_data(80)
    X, new = X[:60], X[60:]
    params = KERNELS.get(kernel, {"gamma": 0.1})
    expected = KernelPCA(3, kernel=kernel, **params).fit(X).transform(new)
    if fit_sparse:
        scores = KernelPCA(3, kernel=kernel, **params).fit(sparse.csr_array(X)).transform(new)
    else:
        scores = KernelPCA(3, kernel=kernel, **params).fit(X).transform(sparse.csr_array(new))
    assert_allclose(scores, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("kernel", ["linear", "rbf", "laplacian"])
def test_other_kinds_of_input(kernel: str, n: int, tmp_path: Path) -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    X = np.round(10 * make_data(n, d=4))  # whole numbers, so that integers are among the kinds
    mapped = np.memmap(tmp_path / "rows", dtype=np.float64, mode="w+", shape=X.shape)
    mapped[:] = X
    columns = {name: X[:, i] for i, name in enumerate("abcd")}
    read_only = X.copy()
    read_only.flags.writeable = False
    kinds = {
        "memmap": mapped,
        "F-ordered": np.asfortranarray(X),
        "strided": np.repeat(X, 2, axis=0)[::2],
        "big-endian": X.astype(">f8"),
        "int64": X.astype(np.int64),
        "int8": np.clip(X, -127, 127).astype(np.int8) if np.abs(X).max() <= 127 else X.astype(np.int16),
        "list": X.tolist(),
        "read-only": read_only,
        "objects": X.astype(object),
        "pandas": pandas.DataFrame(columns),
        "mixed pandas": pandas.DataFrame(columns).astype({"a": np.int64, "b": np.float64}),
        "polars": polars.DataFrame(columns),
    }
    expected = KernelPCA(3, kernel=kernel, gamma=0.01).fit(X)
    for kind, rows in kinds.items():
        model = KernelPCA(3, kernel=kernel, gamma=0.01).fit(rows)
        assert_allclose(model.eigenvalues_, expected.eigenvalues_, rtol=1e-9, err_msg=kind)
        assert_allclose(model.transform(rows), expected.transform(X), rtol=0, atol=1e-6, err_msg=kind)
    assert list(KernelPCA().fit(kinds["pandas"]).feature_names_in_) == list("abcd")


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly", "precomputed"])
def test_fit_changes_none_of_its_arguments(kernel: str, order: Any) -> None:
    X = make_data(60)
    rows = np.array(X @ X.T if kernel == "precomputed" else X, order=order)
    weights = 1.0 + np.arange(60) % 3
    before, weights_before = rows.copy(), weights.copy()
    for copy in (True, False):
        KernelPCA(3, kernel=kernel, copy_X=copy).fit(rows, sample_weight=weights).transform(rows)
    assert_array_equal(rows, before)
    assert_array_equal(weights, weights_before)


def callback_operator(K: FloatArray) -> LinearOperator:
    """A LinearOperator that only multiplies, without entries to look at."""
    return LinearOperator(K.shape, matvec=lambda v: K @ v, matmat=lambda V: K @ V, dtype=np.float64)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("weights", ["none", "positive", "with zeros"])
def test_precomputed_forms_agree(weights: str, n: int) -> None:
    X = make_data(n + 20)
    X, new = X[:n], X[n:]
    K, K_new = (pairwise_kernels(rows, X, metric="rbf", gamma=0.1) for rows in (X, new))
    w = {"none": None, "positive": 1.0 + np.arange(n) % 3, "with zeros": (np.arange(n) % 3).astype(float)}[weights]
    expected = KernelPCA(4, kernel="rbf", gamma=0.1).fit(X, sample_weight=w)
    forms: dict[str, tuple[Any, Any]] = {
        "dense": (K, K_new),
        "F-ordered": (np.asfortranarray(K), K_new),
        "sparse": (sparse.csr_array(K), sparse.csr_array(K_new)),
        "aslinearoperator": (aslinearoperator(K), aslinearoperator(K_new)),
        "operator": (callback_operator(K), K_new),
    }
    for name, (matrix, rows) in forms.items():
        model = KernelPCA(4, kernel="precomputed").fit(matrix, sample_weight=w)
        assert_allclose(model.eigenvalues_, expected.eigenvalues_, rtol=1e-8, err_msg=name)
        assert_allclose(model.transform(rows), expected.transform(new), rtol=0, atol=1e-6, err_msg=name)
        ratio = model.explained_variance_ratio_
        if not np.isnan(ratio).all():  # an operator without entries has no known trace: NaN, never another number
            assert_allclose(ratio, expected.explained_variance_ratio_, rtol=1e-8, err_msg=name)
        training = model.fit_transform(matrix, sample_weight=w)
        assert_allclose(training, expected.transform(X), rtol=0, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_precomputed_float32(container: Any, n: int) -> None:
    """A matrix rounded to float32, and one whose two halves were rounded differently, are symmetric enough."""
    X = make_data(n)
    exact = pairwise_kernels(X, metric="rbf", gamma=0.1)
    values, _ = truth(exact)
    jitter = exact * (1.0 + 1e-7 * np.random.default_rng(0).uniform(-1, 1, exact.shape))
    for K in (exact.astype(np.float32), jitter.astype(np.float32)):
        model = KernelPCA(4, kernel="precomputed").fit(container(K))
        assert_allclose(model.eigenvalues_, values[:4], rtol=0, atol=1e-5 * values[0])
        assert model.transform(container(K)).dtype == np.float32


def test_precomputed_fraction_of_an_operator() -> None:
    X = make_data(700)
    K = pairwise_kernels(X, metric="rbf", gamma=0.01)
    expected = KernelPCA(0.9, kernel="precomputed").fit(K)
    model = KernelPCA(0.9, kernel="precomputed").fit(callback_operator(K))
    assert model.n_components_ == expected.n_components_
    assert_allclose(model.eigenvalues_, expected.eigenvalues_, rtol=1e-8)


@pytest.mark.parametrize("n", SIZES)
def test_callables_equal_the_kernel_they_compute(n: int) -> None:
    X = make_data(n)
    expected = KernelPCA(3, kernel="rbf", gamma=0.1).fit(X)

    def gaussian(A: FloatArray, B: FloatArray, width: float) -> FloatArray:
        return np.exp(-width * cdist(A, B, "sqeuclidean"))

    model = KernelPCA(3, kernel=gaussian, kernel_params={"width": 0.1}).fit(X)
    assert_equivalent(model, expected, X, X)


# -- transform and back -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf", "cosine", "laplacian", "matern12"])
def test_fit_transform_is_fit_then_transform(kernel: str, center: bool, dtype: Any, n: int) -> None:
    X = make_data(n, dtype)
    model = KernelPCA(4, kernel=kernel, center=center, gamma=0.1, degree=2)
    scores = model.fit_transform(X)
    atol = (1e-4 if dtype == np.float32 else 1e-7) * np.abs(scores).max()
    assert_allclose(scores, model.fit(X).transform(X), rtol=0, atol=atol)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf", "precomputed"])
def test_transform_of_training_rows_with_all_components(kernel: str, dtype: Any, n: int) -> None:
    """Components of tiny variance divide by the root of it, so nothing may be left for that to enlarge."""
    X = make_data(n, d=3)
    rows = (pairwise_kernels(X, metric="rbf", gamma=0.05) if kernel == "precomputed" else X).astype(dtype)
    model = KernelPCA(kernel=kernel, gamma=0.05)
    scores = model.fit_transform(rows)
    atol = (2e-2 if dtype == np.float32 else 1e-6) * np.abs(scores).max()
    assert_allclose(model.transform(rows), scores, rtol=0, atol=atol)


def test_transform_in_pieces_equals_transform_at_once() -> None:
    X = make_data(1200)
    model = KernelPCA(3, kernel="rbf", gamma=0.1).fit(X[:700])
    pieces = [model.transform(X[i : i + 100]) for i in range(0, 1200, 100)]
    assert_allclose(np.vstack(pieces), model.transform(X), rtol=0, atol=1e-11)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kernel", ["rbf", "linear", "laplacian", "poly"])
def test_inverse_transform_has_an_intercept(kernel: str, dtype: Any) -> None:
    """Adding 100 to X adds 100 to the reconstruction, where the scores do not change."""
    X = make_data(100, dtype)
    # poly depends on the origin: there only the training target is moved, which is the same as a shifted intercept
    model = KernelPCA(4, kernel=kernel, gamma=0.1, fit_inverse_transform=True, alpha=0.1)
    if kernel == "poly":
        back = model.fit(X).inverse_transform(model.transform(X))
        assert_allclose(back.mean(axis=0), X.mean(axis=0), atol=0.3)
        return
    back = model.fit(X).inverse_transform(model.transform(X))
    moved = model.fit(X + dtype(100)).inverse_transform(model.transform(X + dtype(100)))
    assert back.dtype == moved.dtype == dtype
    assert_allclose(moved - 100, back, rtol=0, atol=2e-3 if dtype == np.float32 else 1e-6)


def test_inverse_transform_reconstructs() -> None:
    X = make_data(300, d=3)
    for kernel in ("linear", "rbf"):
        model = KernelPCA(None, kernel=kernel, gamma=0.05, fit_inverse_transform=True, alpha=1e-6).fit(X)
        back = model.inverse_transform(model.transform(X))
        assert np.linalg.norm(back - X) < 0.01 * np.linalg.norm(X)


@pytest.mark.parametrize("kernel", [kernels.RBF(0.1), lambda A, B: np.exp(-0.1 * cdist(A, B, "sqeuclidean"))])
def test_inverse_transform_for_kernels_given_as_objects(kernel: Any) -> None:
    """An object has its own bandwidth, which serves in the space of scores as the name's does."""
    X = make_data(100)
    model = KernelPCA(4, kernel=kernel, fit_inverse_transform=True, alpha=0.1).fit(X)
    named = KernelPCA(4, kernel="rbf", gamma=0.1, fit_inverse_transform=True, alpha=0.1).fit(X)
    scores = named.transform(X)
    assert_allclose(model.inverse_transform(scores), named.inverse_transform(scores), rtol=0, atol=1e-6)


# -- repeatability ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear"])
def test_results_repeat_to_the_bit(kernel: str, dtype: Any) -> None:
    """Over repetitions, thread counts and memory limits."""
    X = make_data(3000, dtype, d=10)
    model = KernelPCA(5, kernel=kernel, gamma=0.1, degree=2)

    def fit(**settings: Any) -> KernelPCA:
        with kpca.config(**settings):
            return KernelPCA(**model.get_params()).fit(X)

    first = fit()
    for again in (fit(), fit(threads=1), fit(threads=2), fit(memory_limit="40MiB"), fit(memory_limit="4GiB")):
        assert_same_fit(again, first, X[:50])
    for jobs in (1, 2):
        assert_same_fit(KernelPCA(**model.set_params(n_jobs=jobs).get_params()).fit(X), first, X[:50])


@pytest.mark.parametrize("n", SIZES)
def test_random_state_hardly_matters(n: int) -> None:
    X = make_data(n)
    a, b = (KernelPCA(4, kernel="rbf", gamma=0.1, random_state=seed).fit(X) for seed in (0, 1))
    assert_equivalent(a, b, X, X, 1e-9)
    assert_same_fit(KernelPCA(4, kernel="rbf", gamma=0.1, random_state=1).fit(X), b, X)


# -- refitting, and fits that fail ------------------------------------------------------------------------------------


STALE: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "linear then rbf": ({"kernel": "linear"}, {"kernel": "rbf"}),
    "with an inverse, then without": (
        {"kernel": "rbf", "fit_inverse_transform": True},
        {"kernel": "rbf", "fit_inverse_transform": False},
    ),
    "data then matrix": ({"kernel": "linear"}, {"kernel": "precomputed"}),
    "matrix then data": ({"kernel": "precomputed"}, {"kernel": "rbf"}),
}


@pytest.mark.parametrize("case", STALE)
def test_refit_leaves_nothing_stale(case: str) -> None:
    before, after = STALE[case]
    X, other = make_data(60), make_data(80, seed=9, d=4)
    model = KernelPCA(3, gamma=0.1).set_params(**before)
    model.fit(X @ X.T if before["kernel"] == "precomputed" else X)
    rows = other @ other.T if after["kernel"] == "precomputed" else other
    fresh = KernelPCA(3, gamma=0.1).set_params(**after).fit(rows)
    model.set_params(**after).fit(rows)
    assert set(fitted_state(model)) == set(fitted_state(fresh))
    assert_same_fit(model, fresh, rows)


def test_refit_without_column_names_forgets_them() -> None:
    pandas = pytest.importorskip("pandas")
    X = make_data(60)
    K = X @ X.T
    for kernel, rows in (("rbf", X), ("precomputed", K), ("precomputed", aslinearoperator(K))):
        model = KernelPCA(3, kernel="rbf").fit(pandas.DataFrame(X, columns=list("abcdef")))
        model.set_params(kernel=kernel).fit(rows)
        assert not hasattr(model, "feature_names_in_")
        assert model.n_features_in_ == rows.shape[1]


def stop_at_once(state: dict[str, Any]) -> bool:
    """A progress callback that cancels."""
    return False


def failing_fits() -> dict[str, tuple[dict[str, Any], Any, dict[str, Any], dict[str, Any]]]:
    """Parameters, rows, arguments of fit and settings of fits that cannot succeed, at each stage of one."""
    X = make_data(700, d=4)
    hole = X.copy()
    hole[3, 2] = np.nan
    asymmetric = pairwise_kernels(X, metric="rbf")
    asymmetric[0, 1] += 5.0
    indefinite = np.random.default_rng(0).standard_normal((700, 700))

    def breaks_late(A: FloatArray, B: FloatArray) -> FloatArray:
        if len(A) > 10:
            raise RuntimeError("too many rows")
        return A @ B.T

    return {
        "parameter": ({"tol": -1.0}, X, {}, {}),
        "kernel": ({"kernel": "rbv"}, X, {}, {}),
        "hole": ({"kernel": "rbf"}, hole, {}, {}),
        "one row": ({"kernel": "rbf"}, X[:1], {}, {}),
        "weights": ({"kernel": "rbf"}, X, {"sample_weight": -np.ones(700)}, {}),
        "asymmetric": ({"kernel": "precomputed"}, asymmetric, {}, {}),
        "callable": ({"kernel": breaks_late}, X, {}, {}),
        "memory": ({"kernel": "rbf", "n_components": None}, X, {}, {"memory_limit": "1MiB"}),
        "cancelled": ({"kernel": "rbf", "eigen_solver": "krylov"}, X, {}, {"progress": stop_at_once}),
        "sparse inverse": ({"kernel": "rbf", "fit_inverse_transform": True}, sparse.csr_array(X), {}, {}),
        "indefinite": ({"kernel": "precomputed", "n_components": 600}, indefinite + indefinite.T, {}, {}),
    }


@pytest.mark.parametrize("case", failing_fits())
def test_a_failing_fit_leaves_nothing_behind(case: str) -> None:
    params, rows, arguments, settings = failing_fits()[case]
    model = KernelPCA(3).set_params(**params)
    with kpca.config(**settings), pytest.raises((ValueError, RuntimeError, NotImplementedError)):
        model.fit(rows, **arguments)
    assert fitted_state(model) == {}
    with pytest.raises(NotFittedError):
        check_is_fitted(model)
    with pytest.raises(NotFittedError):
        model.transform(rows)


@pytest.mark.parametrize("case", failing_fits())
def test_a_failing_fit_leaves_the_earlier_one_intact(case: str) -> None:
    params, rows, arguments, settings = failing_fits()[case]
    X = make_data(60)
    model = KernelPCA(3, kernel="rbf", gamma=0.1).fit(X)
    before, scores = dict(fitted_state(model)), model.transform(X)
    with kpca.config(**settings), pytest.raises((ValueError, RuntimeError, NotImplementedError)):
        model.set_params(**params).fit(rows, **arguments)
    after = fitted_state(model)
    assert set(after) == set(before)
    assert [name for name in before if after[name] is not before[name]] == []
    assert_array_equal(model.transform(X), scores)
