"""scikit-learn's Gaussian-process kernels, translated or wrapped: the values are theirs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from reference import centred, spectrum
from scipy import sparse
from sklearn.decomposition import KernelPCA
from sklearn.gaussian_process import kernels as gp
from sklearn.metrics.pairwise import pairwise_kernels

from kpca import KernelPCA as OurKernelPCA
from kpca._base.errors import InputError
from kpca.kernels import (
    RBF,
    Constant,
    GaussianProcess,
    Matern,
    Polynomial,
    RationalQuadratic,
    Scaled,
    Sum,
    from_gaussian_process,
)

EACH = np.array([0.5, 1.0, 3.0])
TRANSLATED: list[tuple[Any, Any]] = [
    (gp.RBF(1.3), RBF(sigma=1.3)),
    (gp.RBF([1.3]), RBF(sigma=1.3)),
    (gp.RBF(EACH), RBF(sigma=tuple(EACH))),
    (gp.Matern(0.7, nu=0.5), Matern(0.5, 0.7)),
    (gp.Matern(0.7, nu=1.5), Matern(1.5, 0.7)),
    (gp.Matern(0.7, nu=2.5), Matern(2.5, 0.7)),
    (gp.Matern(EACH, nu=2.5), Matern(2.5, tuple(EACH))),
    (gp.Matern(0.7, nu=np.inf), RBF(sigma=0.7)),
    (gp.RationalQuadratic(0.7, 2.0), RationalQuadratic(2.0, 0.7)),
    (gp.DotProduct(0.4), Polynomial(1, 1.0, 0.4**2)),
    (gp.DotProduct(0.4) ** 2, Polynomial(2, 1.0, 0.4**2)),
    (gp.ConstantKernel(2.0), Constant(2.0)),
    (gp.ConstantKernel(2.0) * gp.RBF(1.3), Scaled(RBF(sigma=1.3), 2.0)),
    (gp.RBF(1.3) + gp.DotProduct(1.0), Sum((RBF(sigma=1.3), Polynomial(1, 1.0, 1.0)))),
    (gp.RBF(1.3) + 1.5, Sum((RBF(sigma=1.3), Constant(1.5)))),
]
WRAPPED: list[Any] = [
    gp.Matern(0.7, nu=0.8),
    gp.ExpSineSquared(1.2, 3.0),
    gp.RBF(1.0) ** 2,
    gp.PairwiseKernel(metric="laplacian", gamma=0.4),
    gp.PairwiseKernel(metric="sigmoid", gamma=0.4),
]


class Doubled(gp.RBF):
    """A subclass that computes something else must not be taken for its parent."""

    def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
        return 2 * super().__call__(X, Y)

    def diag(self, X: Any) -> Any:
        return 2 * super().diag(X)


def data(n: int = 7, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, 3))


@pytest.mark.parametrize(("theirs", "ours"), TRANSLATED, ids=lambda kernel: str(kernel)[:40])
def test_translated(theirs: Any, ours: Any) -> None:
    assert from_gaussian_process(theirs) == ours


@pytest.mark.parametrize("theirs", [*WRAPPED, Doubled(1.0), gp.Exponentiation(Doubled(1.0), 2)], ids=str)
def test_wrapped(theirs: Any) -> None:
    kernel = from_gaussian_process(theirs)
    assert kernel == GaussianProcess(theirs)
    hash(kernel)


@pytest.mark.parametrize("theirs", [pair[0] for pair in TRANSLATED] + WRAPPED + [Doubled(1.0) + gp.RBF(0.3)], ids=str)
def test_values_are_theirs(theirs: Any) -> None:
    X, Y = data(), data(5, seed=1)
    kernel = from_gaussian_process(theirs)
    kernel.check(X)
    assert_allclose(kernel.block(X, X), theirs(X), rtol=1e-12, atol=1e-14)
    assert_allclose(kernel.block(X, Y), theirs(X, Y), rtol=1e-12, atol=1e-14)
    assert_allclose(kernel.diagonal(X), theirs.diag(X), rtol=1e-12)
    assert kernel.block(X.astype(np.float32), Y.astype(np.float32)).dtype == np.float32
    assert kernel.shift_invariant <= theirs.is_stationary()


NOISY = [
    gp.WhiteKernel(0.5),
    gp.RBF(1.3) + gp.WhiteKernel(0.5),
    gp.RBF(1.3) * gp.WhiteKernel(0.5),
    (gp.RBF(1.3) + gp.WhiteKernel(0.5)) ** 2,
    gp.ConstantKernel(2.0) * gp.RBF(1.3) + gp.ExpSineSquared() + gp.WhiteKernel(0.5),
]


@pytest.mark.parametrize("theirs", NOISY, ids=str)
def test_white_noise_counts_as_zero_as_in_scikit_learns_kernel_pca(theirs: Any) -> None:
    X = data()
    kernel = from_gaussian_process(theirs)
    expected = pairwise_kernels(X, metric=theirs)
    assert_allclose(kernel.block(X, X), expected, rtol=1e-12, atol=1e-14)
    assert_allclose(kernel.diagonal(X), np.diagonal(expected), rtol=1e-12)


def test_scikit_learns_kernel_pca_sees_no_noise() -> None:
    clean, noisy = (KernelPCA(2, kernel=k).fit(data()).eigenvalues_ for k in (gp.RBF(1.0), gp.RBF(1.0) + NOISY[0]))
    assert_allclose(clean, noisy)
    assert from_gaussian_process(gp.RBF(1.0) + gp.WhiteKernel(0.5)) == RBF(sigma=1.0)


@pytest.mark.parametrize(
    ("theirs", "psd"),
    [
        (gp.ExpSineSquared(), False),
        (gp.RBF() + gp.ExpSineSquared() ** 2, False),
        (gp.PairwiseKernel(metric="rbf"), True),
        (gp.PairwiseKernel(metric="rbf", gamma=-1.0), False),
        (gp.PairwiseKernel(metric="poly"), True),
        (gp.PairwiseKernel(metric="poly", pairwise_kernels_kwargs={"coef0": -1.0}), False),
        (Doubled(1.0), False),  # for all we know
        (gp.RationalQuadratic(alpha=2.0) ** 2, True),
        (gp.PairwiseKernel(metric="sigmoid"), False),
        (gp.PairwiseKernel(metric="additive_chi2"), False),
        (gp.RBF() + gp.PairwiseKernel(metric="sigmoid"), False),
        (gp.Exponentiation(gp.PairwiseKernel(metric="sigmoid") + gp.RBF(), 2), False),
        (gp.RBF() ** 2, True),
        (gp.ExpSineSquared() ** 0.5, False),
        (gp.DotProduct() ** 0.5, False),
    ],
    ids=str,
)
def test_definiteness(theirs: Any, psd: bool) -> None:
    kernel = from_gaussian_process(theirs)
    assert kernel.psd == psd
    on_the_line = gp.ExpSineSquared in {type(part) for part in theirs.get_params().values()} | {type(theirs)}
    assert kernel.psd_in(1) == (psd or (on_the_line and "0.5" not in str(theirs)))
    assert kernel.psd_in(2) == psd
    for columns in (1, 2, 3):
        if kernel.psd_in(columns):
            for scale in (0.1, 1.0, 10.0):
                K = kernel.block(X := scale * np.random.default_rng(columns).normal(size=(30, columns)), X)
                assert np.linalg.eigvalsh(K)[0] >= -1e-12 * np.trace(K)


def test_a_negative_constant_is_no_covariance() -> None:
    assert not from_gaussian_process(gp.Exponentiation(gp.ConstantKernel(-2.0), 3)).psd


def test_bounds_where_a_kernel_is_definite_on_the_line_alone() -> None:
    """The trace bounds what is missing only if no eigenvalue is negative."""
    X = np.random.default_rng(0).normal(size=(500, 2))
    kernel = gp.ExpSineSquared(1.0, 1.0)
    model = OurKernelPCA(20, kernel=kernel, eigen_solver="krylov", tol=0.1)
    with pytest.warns(UserWarning, match="not positive semidefinite"):
        model.fit(X)
    truth = spectrum(centred(kernel(X)))[0][:20]
    assert (model.eigenvalue_bounds_[:, 0] <= truth + 1e-12 * truth[0]).all()
    assert (truth <= model.eigenvalue_bounds_[:, 1] + 1e-12 * truth[0]).all()


def test_refusals() -> None:
    with pytest.raises(InputError, match="kernel must give one matrix; got a CompoundKernel"):
        from_gaussian_process(gp.CompoundKernel([gp.RBF(), gp.RBF()]))
    with pytest.raises(InputError, match="must be given a dense array; got a sparse matrix"):
        from_gaussian_process(gp.ExpSineSquared()).check(sparse.csr_array(data()))
    with pytest.raises(InputError, match="got 2 values for 3 features"):
        from_gaussian_process(gp.RBF([1.0, 2.0])).check(data())
    with pytest.raises(InputError, match="must be defined on these data; it says: Anisotropic"):
        from_gaussian_process(gp.Matern([1.0, 2.0], nu=0.8)).check(data())
