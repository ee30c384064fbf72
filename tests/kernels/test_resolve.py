"""Names, objects and functions become kernels; everything else, and every bad parameter, one sentence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernel_table import NAMED
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.gaussian_process import kernels as gp
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS, pairwise_kernels

from kpca._base.errors import InputError
from kpca.kernels import (
    NAMES,
    RBF,
    AdditiveChi2,
    Chi2,
    Exponential,
    HistogramIntersection,
    Laplacian,
    Linear,
    Matern,
    PairwiseCallable,
    Polynomial,
    RationalQuadratic,
    Sigmoid,
    VectorisedCallable,
    resolve,
)

X = np.abs(np.random.default_rng(0).normal(size=(9, 3)))


@pytest.mark.parametrize("name", NAMES)
def test_names(name: str) -> None:
    kernel = resolve(name, X, gamma=0.7, degree=2, coef0=1.5, kernel_params={"ignored": 1})
    assert kernel == NAMED[name]
    if name in PAIRWISE_KERNEL_FUNCTIONS:
        theirs = pairwise_kernels(X, metric=name, filter_params=True, gamma=0.7, degree=2, coef0=1.5)
        assert_allclose(kernel.block(X, X), theirs, rtol=1e-12)


def test_every_name_of_scikit_learns_is_known() -> None:
    assert set(PAIRWISE_KERNEL_FUNCTIONS) <= set(NAMES)
    assert set(NAMED) == set(NAMES)


def test_wide_kernels_agree_to_second_order() -> None:
    # the length scale taken from gamma means the same for each: 1 - gamma r^2 for the Gaussian and rational quadratic
    rbf, rational = (resolve(name, X, gamma=1e-6).block(X, X) for name in ("rbf", "rational_quadratic"))
    assert_allclose(1 - rational, 1 - rbf, rtol=1e-4, atol=1e-15)


def test_objects_and_functions() -> None:
    kernel = RBF(1.0) + Linear()
    assert resolve(kernel, X, gamma=0.7) is kernel
    assert resolve(gp.RBF(2.0), X, gamma=0.7) == RBF(sigma=2.0)
    assert isinstance(resolve(lambda A, B: A @ B.T, X, gamma=0.7), VectorisedCallable)
    pairwise = resolve(lambda a, b, p: float(a @ b) ** p, X, gamma=0.7, kernel_params={"p": 2})
    assert isinstance(pairwise, PairwiseCallable)
    assert pairwise.params == {"p": 2}


def test_gamma_per_feature() -> None:
    each = np.array([1.0, 2.0, 3.0])
    assert resolve("rbf", X, gamma=each) == RBF((1.0, 2.0, 3.0))
    for name in set(NAMES) - {"rbf"}:
        with pytest.raises(InputError, match=f"gamma must be a single number for kernel='{name}'; got 3 values"):
            resolve(name, X, gamma=each)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        ("rfb", r"kernel must be one of .*'linear', 'poly', .*; got 'rfb'. Did you mean 'rbf'\?"),
        ("RBF", r"got 'RBF'. Did you mean 'rbf'\?"),
        ("matern", r"got 'matern'. Did you mean 'matern\d\d'\?"),
        ("xyzzy", r"got 'xyzzy'.$"),
        (RBF, "kernel must be a kernel object; got the class RBF: call it"),
        (None, "kernel must be a name, a kernel object or a function; got None"),
        (3, "kernel must be a name, a kernel object or a function; got 3"),
    ],
)
def test_unknown_kernels(kernel: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        resolve(kernel, X, gamma=0.7)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (RBF, "RBF must be given exactly one of gamma and sigma; got gamma=None, sigma=None"),
        (lambda: RBF(1.0, 1.0), "exactly one of gamma and sigma; got gamma=1.0, sigma=1.0"),
        (lambda: RBF(0.0), "gamma must be positive; got 0.0"),
        (lambda: RBF(sigma=-1), "sigma must be positive; got -1"),
        (lambda: RBF([1.0, -1.0]), r"gamma\[1\] must be positive; got -1.0"),
        (lambda: RBF("scale"), "gamma must be a finite number; got 'scale'"),
        (lambda: RBF(np.ones((2, 2))), r"gamma must be a number or one per feature; got an array of shape \(2, 2\)"),
        (lambda: Exponential(0), "length_scale must be positive; got 0"),
        (lambda: Matern(1.0), "nu must be 0.5, 1.5 or 2.5; got 1.0"),
        (lambda: Matern(1.5, float("nan")), "length_scale must be a finite number; got nan"),
        (lambda: RationalQuadratic(-1.0), "alpha must be positive; got -1.0"),
        (lambda: RationalQuadratic(1.0, -1.0), "length_scale must be positive; got -1.0"),
        (lambda: Polynomial(-1), "degree must not be negative; got -1"),
        (lambda: Polynomial(3, 0.0), "gamma must be positive; got 0.0"),
        (lambda: Polynomial(3, 1.0, float("inf")), "coef0 must be a finite number; got inf"),
        (lambda: Sigmoid(-2.0), "gamma must be positive; got -2.0"),
        (lambda: Sigmoid(1.0, "a"), "coef0 must be a finite number; got 'a'"),
        (lambda: Laplacian(0.0), "gamma must be positive; got 0.0"),
        (lambda: Chi2(-0.5), "gamma must be positive; got -0.5"),
    ],
)
def test_bad_parameters(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


@pytest.mark.parametrize("kernel", [Chi2(), AdditiveChi2(), HistogramIntersection()], ids=lambda k: k.name)
def test_negative_data(kernel: Any) -> None:
    bad = X.copy()
    bad[4, 2] = bad[5, 1] = -1e-9
    message = f"kernel '{kernel.name}' must be given values of 0 or above; got negative ones in column 1"
    with pytest.raises(InputError, match=message):
        kernel.check(bad)
    with pytest.raises(InputError, match=message):
        kernel.block(X, bad)
    with pytest.raises(InputError, match=message):
        kernel.block(bad, X)
    kernel.check(X)
    if kernel.accepts_sparse:
        with pytest.raises(InputError, match=message):
            kernel.check(sparse.csr_array(bad))


def test_lengths_per_feature_are_checked() -> None:
    for kernel in (RBF([1.0, 2.0]), Exponential([1.0, 2.0])):
        for rows in (X, sparse.csr_array(X)):
            with pytest.raises(InputError, match="got 2 values for 3 features: give 3 values or a single one"):
                kernel.prepare(rows)
            with pytest.raises(InputError, match="got 2 values for 3 features"):
                kernel.block(rows, rows)
            with pytest.raises(InputError, match="got 2 values for 3 features"):
                kernel.check(rows)
