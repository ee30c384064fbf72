"""The algebra of kernels: flat, scalars in front, properties from the members."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from kpca._base.errors import InputError
from kpca.kernels import (
    RBF,
    Chi2,
    Constant,
    HistogramIntersection,
    Kernel,
    Laplacian,
    Linear,
    Product,
    Scaled,
    Sum,
    VectorisedCallable,
)

A, B, C = RBF(1.0), Linear(), Laplacian(0.5)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (A + B + C, Sum((A, B, C))),
        (A + (B + C), Sum((A, B, C))),
        (A * B * C, Product((A, B, C))),
        (A + 2, Sum((A, Constant(2.0)))),
        (2 + A, Sum((A, Constant(2.0)))),
        (A + 0, A),
        (A + Constant(0.0), A),
        (Constant(0.0) + A, A),
        (Constant(0.0) + 0, Constant(0.0)),
        (sum([A, B]), Sum((A, B))),
        (2 * A, Scaled(A, 2.0)),
        (A * np.float64(2), Scaled(A, 2.0)),
        (np.float64(2) * A, Scaled(A, 2.0)),
        (np.float32(2) + A, Sum((A, Constant(2.0)))),
        (1 * A, A),
        (3 * (2 * A), Scaled(A, 6.0)),
        ((2 * A) * (3 * B), Scaled(Product((A, B)), 6.0)),
        (Constant(2.0) * A, Scaled(A, 2.0)),
        (Constant(2.0) * 3, Constant(6.0)),
        (Constant(2.0) * Constant(0.5) * A, A),
        (2 * (A + B), Scaled(Sum((A, B)), 2.0)),
        (A * (B + C), Product((A, Sum((B, C))))),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_algebra(made: Kernel, expected: Kernel) -> None:
    assert made == expected


def test_values_combine() -> None:
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(6, 3)), rng.normal(size=(4, 3))
    a, b, c = (kernel.block(X, Y) for kernel in (A, B, C))
    assert_allclose((A + 2 * B * C + 0.5).block(X, Y), a + 2 * b * c + 0.5, rtol=1e-14)
    assert_allclose((0 * A).block(X, Y), 0)
    low = (A + B).block(X.astype(np.float32), Y.astype(np.float32))
    assert low.dtype == np.float32
    assert Constant(2.0).block(X.astype(np.float32), Y).dtype == np.float32


def test_properties_derive_from_members() -> None:
    assert (A + C).shift_invariant
    assert (A * C + 1).shift_invariant
    assert not (A + B).shift_invariant
    assert (2 * A).members == (A,)
    assert (A + B).members == (A, B)


def test_members_refuse_for_the_whole() -> None:
    X = np.array([[1.0, 2.0], [1.0, -2.0]])
    for kernel in (A + Chi2(), A * HistogramIntersection(), 2 * Chi2()):
        with pytest.raises(InputError, match="negative ones in column 1"):
            kernel.check(X)
    with pytest.raises(InputError, match="got 3 values for 2 features"):
        (RBF([1, 2, 3]) + A).check(X)


def test_a_members_array_is_not_overwritten() -> None:
    kept = np.ones((2, 2))
    function = VectorisedCallable(lambda X, Y: kept)
    X = np.eye(2)
    for kernel in (function + A, function * A, 2 * function):
        kernel.block(X, X)
    assert_array_equal(kept, 1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: A * -1, "a number times a kernel must not be negative; got -1"),
        (lambda: A + -0.5, "a number added to a kernel must not be negative; got -0.5"),
        (lambda: A * float("nan"), "must be a finite number; got nan"),
        (lambda: A + float("inf"), "must be a finite number; got inf"),
        (lambda: A * True, "must be a finite number; got True"),
        (lambda: Sum(()), "Sum must be made of kernels; got nothing"),
        (lambda: Product((A, 2.0)), "Product must be made of kernels; got 2.0"),  # type: ignore[arg-type]
        (lambda: Scaled(A, -2.0), "factor must not be negative; got -2.0"),
        (lambda: Scaled("rbf", 2.0), "Scaled must be made of kernels; got 'rbf'"),  # type: ignore[arg-type]
        (lambda: Constant(-1.0), "constant must not be negative; got -1.0"),
    ],
)
def test_bad_algebra(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


@pytest.mark.parametrize("other", ["rbf", None, np.ones(2), 1j])
def test_other_things_do_not_combine(other: Any) -> None:
    with pytest.raises(TypeError):
        A + other
    with pytest.raises(TypeError):
        other * A
