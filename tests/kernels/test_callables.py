"""Functions as kernels: which kind they are is found out, and what they return is checked."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.metrics.pairwise import laplacian_kernel, pairwise_kernels, rbf_kernel

from kpca._base.errors import InputError
from kpca.kernels import PairwiseCallable, VectorisedCallable, from_callable


def data(n: int = 8, d: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, d))


def stateful(X: Any, Y: Any) -> Any:
    """A vectorised function that is not a kernel: its values depend on the other rows."""
    return (X[:, :] @ Y[:, :].T) / np.abs(X).max()


VECTORISED = {
    "matmul": lambda X, Y: X @ Y.T,
    "rbf_kernel": rbf_kernel,
    "laplacian_kernel": laplacian_kernel,
    "ones": lambda X, Y: np.ones((X.shape[0], Y.shape[0])),
    "integers": lambda X, Y: np.ones((X.shape[0], Y.shape[0]), dtype=int),
    "broadcast": lambda X, Y: np.exp(-np.abs(X[:, None, :] - Y[None, :, :]).sum(axis=2)),
    "nested lists": lambda X, Y: (X @ Y.T).tolist(),
}
PAIRWISE = {
    "minimum": lambda x, y: np.minimum(x, y).sum(),
    "matmul": lambda x, y: x @ y,  # on three features, (2, 3) @ (3, 3) has the shape of a vectorised answer
    "dot": np.dot,
    "python": lambda x, y: float(sum(a * b for a, b in zip(x, y, strict=True))),
    "equal": lambda x, y: bool((x == y).all()),
    "broadcast to scalar": lambda x, y: np.exp(-np.sum((x - y) ** 2)),
    "zero-dimensional": lambda x, y: np.array(x[0] * y[0]),
}


@pytest.mark.parametrize("d", [1, 2, 3, 5])
@pytest.mark.parametrize("n", [1, 2, 4, 5, 9])
@pytest.mark.parametrize("function", VECTORISED.values(), ids=VECTORISED)
def test_vectorised(function: Any, n: int, d: int) -> None:
    X, Y = data(n, d), data(4, d, seed=1)
    kernel = from_callable(function, None, X)
    assert isinstance(kernel, VectorisedCallable)
    assert_allclose(kernel.block(X, Y), function(X, Y))
    assert_allclose(kernel.diagonal(X), np.diagonal(function(X, X)))
    assert kernel.block(X.astype(np.float32), Y.astype(np.float32)).dtype == np.float32


@pytest.mark.parametrize("d", [1, 2, 3, 5])
@pytest.mark.parametrize("n", [1, 2, 5])
@pytest.mark.parametrize("function", PAIRWISE.values(), ids=PAIRWISE)
def test_pairwise(function: Any, n: int, d: int) -> None:
    X, Y = data(n, d), data(4, d, seed=1)
    kernel = from_callable(function, None, X)
    assert isinstance(kernel, PairwiseCallable)
    assert_allclose(kernel.block(X, Y), pairwise_kernels(X, Y, metric=function))
    assert_allclose(kernel.block(X, X), pairwise_kernels(X, metric=function))
    assert_allclose(kernel.diagonal(X), [function(x, x) for x in X])


def test_many_diagonal_blocks() -> None:
    X = data(150)
    assert_allclose(from_callable(rbf_kernel, None, X).diagonal(X), np.ones(150))


def test_float32_rounding_does_not_hide_a_vectorised_function() -> None:
    X = (data(20, 2000) * 1e3).astype(np.float32)
    assert isinstance(from_callable(VECTORISED["matmul"], None, X), VectorisedCallable)


def test_params_are_passed_on() -> None:
    X = data()
    assert_allclose(from_callable(rbf_kernel, {"gamma": 0.2}, X).block(X, X), rbf_kernel(X, gamma=0.2))
    pairwise = from_callable(lambda x, y, power: float(x @ y) ** power, {"power": 2}, X)
    assert isinstance(pairwise, PairwiseCallable)
    assert_allclose(pairwise.block(X, X), (X @ X.T) ** 2)


def test_nothing_is_known_about_them() -> None:
    kernel = from_callable(rbf_kernel, {"gamma": 1.0}, data())
    assert not kernel.psd
    assert not kernel.shift_invariant
    assert kernel == VectorisedCallable(rbf_kernel, {"gamma": 1.0})
    assert hash(kernel) == hash(VectorisedCallable(rbf_kernel, {"gamma": 1.0}))


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csr_array])
def test_sparse_rows_are_passed_as_scikit_learn_does(kind: Any) -> None:
    X = data()
    X[X < 0] = 0
    rows = kind(X)
    vectorised = from_callable(lambda A, B: A @ B.T, None, rows)
    assert isinstance(vectorised, VectorisedCallable)
    assert_allclose(vectorised.block(rows, rows[:3]), X @ X[:3].T)
    assert_allclose(vectorised.diagonal(rows), (X**2).sum(axis=1))
    pairwise = from_callable(lambda a, b: a.minimum(b).sum(), None, rows)
    assert isinstance(pairwise, PairwiseCallable)
    assert_allclose(pairwise.block(rows, rows), np.minimum(X[:, None], X[None]).sum(axis=2))


def test_probing_is_silent() -> None:
    def noisy(x: Any, y: Any) -> Any:
        warnings.warn("loud", stacklevel=1)
        return np.log(-1.0 - np.abs(x @ y)) if x.ndim == 2 else 1.0 / np.float64(0.0) * 0 + 1.0

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        from_callable(lambda X, Y: np.log(X @ Y.T * 0 - 1.0), None, data())
        with pytest.raises(RuntimeWarning):
            np.log(np.float64(-1.0))
        from_callable(noisy, None, data())


# ---- refusals


def raising(x: Any, y: Any) -> Any:
    raise KeyError("no such thing")


def test_exceptions_come_back_in_words() -> None:
    with pytest.raises(
        InputError, match="kernel raising cannot be used: it raised KeyError: 'no such thing'"
    ) as caught:
        from_callable(raising, None, data())
    assert isinstance(caught.value.__cause__, KeyError)
    with pytest.raises(InputError, match="kernel 3 cannot be used: it raised TypeError"):
        from_callable(3, None, data())  # type: ignore[arg-type]


def test_missing_parameters_say_so() -> None:
    with pytest.raises(InputError, match="unexpected keyword argument 'width'"):
        from_callable(rbf_kernel, {"width": 1.0}, data())


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x, y: x, r"returned an array of shape \(2, 3\) but an array of shape \(1, 3\) for 1 and 1"),
        (lambda x, y: None, "it returned None"),
        (lambda x, y: "near", "it returned 'near'"),
        (lambda x, y: 1j, "it returned 1j"),
        (lambda x, y: np.ones((2, 3)), r"for one pair.*expected is f\(X, Y\)"),
        (lambda x, y: (x @ y.T).astype(complex), "returned an array"),
        (stateful, "with other values than for each pair alone"),
        (
            lambda X, Y: np.outer(X[:, 0], Y[:, 0]).ravel(),
            r"returned an array of shape \(6,\) for 2 and 3 rows, raised",
        ),
        (lambda x, y: [[1], [2, 3]], "inhomogeneous"),
        (lambda x, y: sparse.csr_array(np.ones((4, 4))), r"a sparse matrix of shape \(4, 4\)"),
        (lambda x, y: object(), "it returned a object"),
    ],
)
def test_useless_answers_are_refused(function: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        from_callable(function, None, data())


def test_later_answers_are_checked_too() -> None:
    X, Y = data(6), data(7)
    wrong_shape = VectorisedCallable(lambda X, Y: np.ones((2, 2)))
    with pytest.raises(InputError, match=r"must return real numbers of shape \(6, 7\); got shape \(2, 2\) of float64"):
        wrong_shape.block(X, Y)
    with pytest.raises(InputError, match="of complex128"):
        VectorisedCallable(lambda X, Y: np.ones((6, 7), dtype=complex)).block(X, Y)
    with pytest.raises(InputError, match="must return finite values; got 42 of 42 NaN or infinite"):
        VectorisedCallable(lambda X, Y: np.full((6, 7), np.nan)).block(X, Y)
    with pytest.raises(InputError, match="must return finite values; got 6 of 6"):
        PairwiseCallable(lambda x, y: np.inf).diagonal(X)
    with pytest.raises(InputError, match="must return finite values"):
        PairwiseCallable(lambda x, y: np.nan).block(X, Y)
    with pytest.raises(InputError, match=r"must return a real number for two rows; got an array of shape \(3,\)"):
        PairwiseCallable(lambda x, y: x * y).block(X, Y)
