"""The linear kernel by its small side, held against long double where rounding is enlarged most."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_breast_cancer

from benchmarks._exact import good_enough, truth_of
from kpca import IncrementalKernelPCA, KernelPCA, Nystroem
from kpca.gram.factored import Factored
from kpca.kernels import Linear

pytestmark = pytest.mark.skipif(not good_enough(), reason="the truth needs a long double longer than double")
CANCER = load_breast_cancer().data
EPS = {"f": float(np.finfo(np.float32).eps), "d": float(np.finfo(np.float64).eps)}


def far_clusters(n, d, apart, seed=0):
    rng = np.random.default_rng(seed)
    centres = apart * rng.standard_normal((5, d))
    return centres[rng.integers(0, 5, n)] + rng.standard_normal((n, d))


def falling(n, d, decades):
    return np.random.default_rng(1).standard_normal((n, d)) * np.logspace(0, -decades, d)


ROWS = {
    "columns of very different size": CANCER,
    "clusters 1000 deviations apart": far_clusters(200, 8, 1e3),
    "far from 0": far_clusters(200, 5, 1.0) + 1e8,
    "an outlier": np.vstack([far_clusters(100, 4, 1.0), np.full((1, 4), 1e7)]),
    "exact relations": np.hstack([far_clusters(60, 3, 10.0)] * 2),
    "more columns than rows": falling(20, 300, 6) + 1e6,
    "sorted far groups": np.repeat(np.eye(3, 4) * 1e6, 400, axis=0) + np.random.default_rng(2).random((1200, 4)),
}
# the first rows have next to no weight: a point near their mean is far from that of all
UNEVEN = np.r_[np.full(40, 1e-20), np.ones(60)], np.vstack([far_clusters(40, 3, 1.0) + 1e6, far_clusters(60, 3, 1.0)])


def check(model, X, weights=None):
    """Compare all that is claimed with the truth."""
    truth = truth_of(Linear(), X, weights, len(model.eigenvalues_))
    values, U = model.eigenvalues_.astype(np.longdouble), model.eigenvectors_.astype(np.longdouble)
    top = float(truth.values[0])
    low, high = model.eigenvalue_bounds_.T
    assert (low - truth.error <= truth.values).all() and (truth.values <= high + truth.error).all()
    assert (low <= values).all() and (values <= high).all()
    gaps = np.sqrt(np.square(truth.multiply(U) - U * values).sum(axis=0)).astype(float)
    assert (gaps <= 2.0 * model.residuals_ * top).all()
    eps = EPS[model.eigenvalues_.dtype.char]
    there = model.eigenvalues_ > 0
    off = U[:, there].T @ U[:, there] - np.eye(int(there.sum()))
    assert float(np.abs(off).max()) <= 50 * eps
    return gaps, top


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ROWS)
def test_claims_of_the_linear_kernel_hold(name, dtype):
    X = ROWS[name].astype(dtype)
    k = min(6, *X.shape)
    model = KernelPCA(k, kernel="linear").fit(X)
    check(model, X)
    assert model.residuals_.max() <= (4e-7 if dtype == "float32" else 1e-12)
    width = np.ptp(model.eigenvalue_bounds_, axis=1).max() / model.eigenvalues_[0]
    assert width <= (4e-7 if dtype == "float32" else 1e-12)


def test_all_components_of_float32_rows():
    check(KernelPCA(30, kernel="linear").fit(CANCER.astype("f")), CANCER.astype("f"))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_weights_of_very_different_size(dtype):
    weights, X = UNEVEN[0], UNEVEN[1].astype(dtype)
    check(KernelPCA(3, kernel="linear").fit(X, sample_weight=weights), X, weights)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sparse_rows_far_from_their_mean(dtype):
    X = sparse.csr_matrix((far_clusters(50, 4, 1.0) + 1e3).astype(dtype))
    check(KernelPCA(3, kernel="linear").fit(X), X.toarray())


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(1400, 1200), (1200, 1400)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_iterations_end_with_vectors_of_the_rows(shape, dtype):
    X = falling(*shape, 5).astype(dtype)
    model = KernelPCA(8, kernel="linear").fit(X)
    assert model.solver_.endswith("krylov")
    check(model, X)


@pytest.mark.parametrize("shape", [(40, 7), (7, 40)])
def test_cheap_products_of_float32_rows_know_their_error(shape):
    X = far_clusters(*shape, 30.0).astype("f")
    operator, exact = Factored(X, centred=True), Factored(X.astype("d"), centred=True)
    V = np.linalg.qr(np.random.default_rng(0).standard_normal((min(shape), 3)))[0]
    single = operator.at("single")
    assert single is not operator and single.at("double") is operator and exact.at("single") is exact
    off = np.linalg.norm(single @ V - exact @ V, axis=0)
    assert 0 < off.max() <= single.error(V)
    assert np.linalg.norm(operator @ V - exact @ V, axis=0).max() <= operator.error(V)


def test_values_that_float32_cannot_hold_are_refused():
    X = np.array([[3e19], [-3e19]], dtype="f")
    for model in (KernelPCA(1), IncrementalKernelPCA(1)):
        with pytest.raises(ValueError, match=r"must be numbers of float32; the largest is .* float64 rows"):
            model.fit(X).eigenvalues_  # noqa: B018


# -- features: the same questions, with sums over the rows alone ------------------------------------------------------


@pytest.mark.parametrize(
    ("X", "center"),
    [
        (np.array([[0.35012755706390575], [0.35012728126390513]]), False),
        (np.array([[1.8090129187790773], [1.8090123468297824], [1.809012812698127]]), True),
        (np.repeat([[3.0, 1.0]], 4, axis=0) / 7, True),
        (np.float32(far_clusters(60, 3, 1e3)), True),
    ],
)
def test_linear_streams_in_batches(X, center):
    stream = IncrementalKernelPCA(1, center=center)
    for batch in np.array_split(X, 2):
        stream.partial_fit(batch)
    truth = truth_of(Linear(), X, None, 1, center=center)
    low, high = stream.eigenvalue_bounds_.T
    assert (low - truth.error <= truth.values).all() and (truth.values <= high + truth.error).all()
    assert (low <= stream.eigenvalues_).all() and (stream.eigenvalues_ <= high).all()


@pytest.mark.parametrize(
    ("kernel", "X", "rank"),
    [
        ("cosine", np.float32([[444926.53125, 444926.46875], [444926.53125, 444926.5625]]), 1),
        ("rbf", np.float32(np.random.default_rng(0).standard_normal((93, 20))), 59),
        ("exponential", np.float32(np.random.default_rng(0).standard_normal((6, 2)) * 1e3), 4),
    ],
)
def test_landmarks_of_float32_rows(kernel, X, rank):
    model = KernelPCA(1, kernel=kernel, gamma=1.47, approximation=Nystroem(rank), random_state=0).fit(X)
    truth = truth_of(model.kernel_, X, None, 1)
    low, high = model.eigenvalue_bounds_.T
    assert (low - truth.error <= truth.values).all() and (truth.values <= high + truth.error).all()
    assert (high - low >= np.finfo("f").eps / 4 * model.eigenvalues_).all() and (low < high).all()
