"""Every kernel against its formula, scikit-learn's and its own promises: one row of the table per kernel."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError, fields
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernel_table import CASES, FEATURES, Case
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.spatial.distance import cdist

from kpca import kernels as ours
from kpca._base.errors import InputError
from kpca.kernels import Kernel, ProfileKernel, RadialKernel
from kpca.kernels.base import KERNELS

PROFILES = [name for name, case in CASES.items() if isinstance(case.kernel, ProfileKernel)]
RADIAL = [name for name, case in CASES.items() if isinstance(case.kernel, RadialKernel)]
ANY_WIDTH = [name for name, case in CASES.items() if not case.fixed_features]

every = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
every_profile = pytest.mark.parametrize("case", [CASES[name] for name in PROFILES], ids=PROFILES)
every_radial = pytest.mark.parametrize("case", [CASES[name] for name in RADIAL], ids=RADIAL)
quick = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
seeds = st.integers(0, 2**32 - 1)
scales = st.floats(-3, 3).map(lambda power: 10.0**power)


def arguments(kernel: ProfileKernel, X: Any, Y: Any) -> Any:
    """t for all pairs, the way an engine would do it."""
    A, B = kernel.prepare(X), kernel.prepare(Y)
    if sparse.issparse(A):
        A, B = A.toarray(), B.toarray()
    return A @ B.T if kernel.argument == "dot" else -cdist(A, B, "sqeuclidean")


def close(actual: Any, expected: Any, rtol: float) -> None:
    """Equal up to rtol of each value and of the largest: values of dot kernels cancel, so small ones may not hold."""
    assert_allclose(actual, expected, rtol=rtol, atol=rtol * float(np.abs(expected).max(initial=0.0)))


def test_the_table_has_every_kernel() -> None:
    def kinds(kernel: Kernel) -> set[type]:
        return {type(kernel)}.union(*(kinds(member) for member in getattr(kernel, "members", ())))

    assert set().union(*(kinds(case.kernel) for case in CASES.values())) == set(KERNELS) - {ours.GaussianProcess}


# ---- values


@every
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_block_is_the_formula(case: Case, dtype: Any) -> None:
    X, Y = case.data(7).astype(dtype), case.data(5, seed=1).astype(dtype)
    X[0] = 0.0
    Y[0] = X[1]
    expected = [[case.slow(x, y) for y in Y.tolist()] for x in X.tolist()]
    K = case.kernel.block(X, Y)
    assert K.dtype == dtype
    assert K.shape == (7, 5)
    close(K, np.array(expected), 1e-13 if dtype == np.float64 else 2e-7)


@pytest.mark.parametrize("case", [c for c in CASES.values() if c.scikit_learn], ids=lambda c: repr(c.kernel))
def test_block_is_scikit_learns(case: Case) -> None:
    X, Y = case.data(8), case.data(6, seed=1)
    assert case.scikit_learn is not None
    close(case.kernel.block(X, Y), case.scikit_learn(X, Y), 1e-13)


@every
@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csr_array])
def test_sparse_equals_dense(case: Case, kind: Any) -> None:
    X, Y = case.data(9), case.data(4, seed=1)
    X[X < 0.2] = 0
    Y[1] = X[2]
    if not case.sparse:
        with pytest.raises(InputError, match="must be given a dense array; got a sparse matrix"):
            case.kernel.check(kind(X))
        return
    case.kernel.check(kind(X))
    K = case.kernel.block(kind(X), kind(Y))
    assert isinstance(K, np.ndarray)
    close(K, case.kernel.block(X, Y), 1e-13)
    close(case.kernel.diagonal(kind(X)), case.kernel.diagonal(X), 1e-14)


def test_sparse_input_is_not_changed() -> None:
    X = sparse.csr_matrix(
        (np.array([2.0, 1.0]), np.array([2, 0]), np.array([0, 2, 2])), shape=(2, FEATURES)
    )  # unsorted
    before = X.indices.copy()
    dense = X.toarray()
    for case in CASES.values():
        if case.sparse:
            case.kernel.check(X)
            close(case.kernel.block(X, X), case.kernel.block(dense, dense), 1e-13)
            close(case.kernel.diagonal(X), case.kernel.diagonal(dense), 1e-13)
    assert_array_equal(X.indices, before)
    assert_array_equal(X.data, [2, 1])


@every
@quick
@given(shape=st.tuples(st.integers(1, 12), st.integers(1, 12), st.integers(1, 8)), seed=seeds, scale=scales)
def test_invariants(case: Case, shape: tuple[int, int, int], seed: int, scale: float) -> None:
    n, m, d = shape
    d = FEATURES if case.fixed_features else d
    X, Y = case.data(n, d, seed, scale), case.data(m, d, seed + 1, scale)
    kernel = case.kernel
    K = kernel.block(X, X)
    close(kernel.block(X, Y), kernel.block(Y, X).T, 1e-13)
    diagonal = kernel.diagonal(X)
    assert diagonal.dtype == np.float64
    close(diagonal, np.diagonal(K), 1e-12)
    assert np.isfinite(K).all()
    if kernel.psd:
        eigenvalues = np.linalg.eigvalsh((K + K.T) / 2)
        assert eigenvalues[0] >= -1e-10 * np.abs(eigenvalues).max()
    if isinstance(kernel, ProfileKernel):
        close(kernel.value(arguments(kernel, X, Y)), kernel.block(X, Y), 1e-11)


@every
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_shift_invariance_is_as_declared(case: Case, scale: float) -> None:
    X = case.data(6, scale=scale)
    moved = X + 2.0**20  # then X is what the rounded sum says it is
    X = moved - 2.0**20
    if case.non_negative:
        X, moved = np.abs(X), np.abs(X) + 2.0**20
    same = np.allclose(case.kernel.block(moved, moved), case.kernel.block(X, X), rtol=1e-12, atol=0)
    degree_zero = case.kernel == ours.Polynomial(0)
    if case.kernel.shift_invariant:
        assert same
    elif scale == 1.0 and not degree_zero:
        assert not same


def test_sparse_near_duplicates_keep_their_distance() -> None:
    X = np.full((1, 4), 1000.0)
    Y = X + 2.0**-20
    K = ours.Exponential(1.0).block(sparse.csr_array(X), sparse.csr_array(Y))
    assert_allclose(1 - K, -np.expm1(-(2.0**-19)), rtol=1e-9)


# ---- definiteness


@pytest.mark.parametrize(
    ("kernel", "X"),
    [
        (ours.Sigmoid(1.0, -1.0), [[0.1], [2.0]]),
        (ours.AdditiveChi2(), [[1.0], [2.0]]),
        (ours.Polynomial(1, 1.0, -1.0), [[0.0], [0.5]]),
        # FitzGerald and Horn: a power that is not whole and below n - 2 is indefinite for (1 + c i j)
        (ours.Polynomial(1.5, 1.0, 1.0), [[0.3], [0.6], [0.9], [1.2], [1.5]]),
        (ours.RBF(1.0) + ours.Sigmoid(1.0, -5.0), [[0.1], [0.3]]),
    ],
)
def test_kernels_called_indefinite_are(kernel: Kernel, X: Any) -> None:
    assert not kernel.psd
    X = np.array(X)
    eigenvalues = np.linalg.eigvalsh(kernel.block(X, X))
    assert eigenvalues[0] < -1e-12 * eigenvalues[-1]


def test_psd_is_derived() -> None:
    assert ours.Polynomial(2, 1.0, 0.0).psd
    assert ours.Polynomial(2.0, 1.0, 0.0).psd
    assert not ours.Polynomial(2, 1.0, -0.1).psd
    assert not ours.Polynomial(2.5).psd
    assert (ours.RBF(1.0) * ours.Linear() + 2).psd
    assert not (ours.RBF(1.0) * ours.Sigmoid()).psd
    assert not (2 * ours.AdditiveChi2()).psd


# ---- profiles


@every_profile
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_value_is_in_place_and_keeps_the_dtype(case: Case, dtype: Any) -> None:
    t = np.linspace(0.1, 2.0, 12, dtype=dtype).reshape(3, 4)
    t = -t if isinstance(case.kernel, RadialKernel) else t
    kernel = case.kernel
    assert isinstance(kernel, ProfileKernel)
    slope = kernel.derivative(t)
    assert slope is not t
    assert slope.dtype == dtype
    exact = kernel.value(t.astype(np.float64))
    assert kernel.value(t) is t
    assert t.dtype == dtype
    close(t, exact, 1e-14 if dtype == np.float64 else 2e-6)


@every_profile
def test_derivative_is_the_slope(case: Case) -> None:
    kernel = case.kernel
    assert isinstance(kernel, ProfileKernel)
    t = np.geomspace(1e-3, 20.0, 60)
    t = -t if isinstance(kernel, RadialKernel) else np.concatenate([t, [] if case.non_negative else -t])
    before = t.copy()
    h = 1e-5 * np.abs(t)
    slope = (kernel.value(t + h) - kernel.value(t - h)) / (2 * h)
    value = np.abs(kernel.value(t.copy()))
    error = np.abs(kernel.derivative(t) - slope)
    assert (error <= 1e-7 * np.abs(slope) + 1e-15 * np.maximum(value, 1.0) / h).all()
    assert_array_equal(t, before)


@every_profile
def test_curvature_is_the_slope_of_the_slope(case: Case) -> None:
    kernel = case.kernel
    assert isinstance(kernel, ProfileKernel)
    t = np.concatenate([np.geomspace(1e-8, 1e-3, 20), np.geomspace(1e-3, 20.0, 60), np.geomspace(20.0, 1e6, 30)])
    t = -t if isinstance(kernel, RadialKernel) else np.concatenate([t, [] if case.non_negative else -t])
    before = t.copy()
    h = 1e-5 * np.abs(t)
    curvature = (kernel.derivative(t + h) - kernel.derivative(t - h)) / (2 * h)
    slope = np.abs(kernel.derivative(t))
    error = np.abs(kernel.curvature(t) - curvature)
    assert np.isfinite(kernel.curvature(t)).all()
    assert (error <= 1e-7 * np.abs(curvature) + 4e-15 * np.maximum(slope, 1.0) / h + 1e-300).all()
    assert_array_equal(t, before)
    single = t[np.abs(t) < 30].astype(np.float32)
    rounded = kernel.curvature(single)
    assert rounded.dtype == np.float32
    close(rounded, kernel.curvature(single.astype(np.float64)), 2e-5)


@every_profile
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_prepare_keeps_dtype_and_sparsity(case: Case, dtype: Any) -> None:
    kernel = case.kernel
    assert isinstance(kernel, ProfileKernel)
    X = case.data(6).astype(dtype)
    X[X < 0.3] = 0
    before = X.copy()
    prepared = kernel.prepare(X)
    assert prepared.dtype == dtype
    assert (prepared is X) == (kernel == ours.Linear())
    for kind in (sparse.csr_matrix, sparse.csr_array):
        rows = kind(X)
        scaled = kernel.prepare(rows)
        assert isinstance(scaled, kind)
        assert scaled.format == "csr"
        assert scaled.dtype == dtype
        assert scaled.nnz == rows.nnz
        assert_allclose(scaled.toarray(), prepared, rtol=1e-6)
        assert_array_equal(rows.toarray(), before)
    assert_array_equal(X, before)


def test_cosine_rows_have_length_one_at_any_scale() -> None:
    X = np.array([[3.0, 4.0], [0.0, 0.0], [3e-300, 4e-300], [3e300, 4e300], [3e-320, 4e-320]])
    lengths = np.linalg.norm(ours.Cosine().prepare(X), axis=1)
    assert_allclose(lengths, [1, 0, 1, 1, 1], rtol=1e-4)
    assert_array_equal(ours.Cosine().diagonal(np.zeros((2, 3))), [0, 0])
    tiny = (X[:1] * 1e-30).astype(np.float32)
    assert_allclose(np.linalg.norm(ours.Cosine().prepare(tiny)), 1, rtol=1e-6)


# ---- objects


@every
def test_kernels_are_values(case: Case) -> None:
    kernel = case.kernel
    assert pickle.loads(pickle.dumps(kernel)) == kernel
    assert hash(pickle.loads(pickle.dumps(kernel))) == hash(kernel)
    assert eval(repr(kernel), dict(vars(ours))) == kernel
    assert isinstance(kernel.name, str)
    for field in fields(kernel):  # type: ignore[arg-type]
        with pytest.raises(FrozenInstanceError):
            setattr(kernel, field.name, 1.0)


def test_rbf_knows_its_width() -> None:
    assert ours.RBF(gamma=0.5).sigma == 1.0
    assert ours.RBF(sigma=1.0) == ours.RBF(gamma=0.5)
    assert_allclose(ours.RBF(sigma=[1.0, 2.0]).gamma, [0.5, 0.125])
    assert_allclose(ours.RBF(gamma=np.array([0.5, 0.125])).sigma, [1.0, 2.0])
    assert ours.RBF(gamma=np.float32(2.0)) == ours.RBF(np.array(2.0)) == ours.RBF(2)
    assert ours.Polynomial(3.0) == ours.Polynomial(3)
    assert repr(ours.Polynomial(3.0)) == "Polynomial(degree=3, gamma=1.0, coef0=1.0)"
