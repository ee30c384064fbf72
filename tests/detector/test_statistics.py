"""T^2, SPE and their combination against the slow truth, and their gradients against finite differences."""

import numpy as np
import pytest
from reference import slow_statistics
from sklearn.datasets import make_blobs

from kpca import IncrementalKernelPCA, InputError, KernelPCA, Nystroem, kernels
from kpca.detector.limits import STATISTICS, measure_of
from kpca.features.derivatives import derivatives_of, why_no_derivatives

SMOOTH = {
    "linear": kernels.Linear(),
    "rbf": kernels.RBF(gamma=0.2),
    "rbf, a gamma per feature": kernels.RBF(gamma=np.array([0.1, 0.3, 0.05, 0.2])),
    "poly": kernels.Polynomial(degree=3, gamma=0.3, coef0=1.0),
    "poly of degree 2.5": kernels.Polynomial(degree=2.5, gamma=0.1, coef0=5.0),
    "sigmoid": kernels.Sigmoid(gamma=0.1, coef0=0.2),
    "cosine": kernels.Cosine(),
    "matern 1/2": kernels.Matern(length_scale=2.0, nu=0.5),
    "matern 3/2": kernels.Matern(length_scale=2.0, nu=1.5),
    "matern 5/2": kernels.Matern(length_scale=2.0, nu=2.5),
    "rational quadratic": kernels.RationalQuadratic(length_scale=2.0, alpha=0.7),
    "arc-cosine": kernels.ArcCosine(1),
    "sum": kernels.RBF(gamma=0.2) + 0.1 * kernels.Linear(),
    "product": kernels.RBF(gamma=0.1) * kernels.Polynomial(degree=2, gamma=0.1, coef0=1.0),
}


def rows(n: int = 60, seed: int = 0) -> np.ndarray:
    return make_blobs(n, 4, centers=3, random_state=seed)[0] / 4.0


def fitted(kind: str, kernel: kernels.Kernel, X: np.ndarray) -> object:
    landmarks = Nystroem(rank=20, landmarks="kmeans")
    match kind:
        case "exact":
            model = KernelPCA(3, kernel=kernel, eigen_solver="dense")
        case "landmarks":
            model = KernelPCA(3, kernel=kernel, approximation=landmarks, random_state=0)
        case _:
            model = IncrementalKernelPCA(3, kernel=kernel, approximation=landmarks, random_state=0)
    return model.fit(X)


@pytest.mark.filterwarnings("ignore:.*landmarks explain all rows")
@pytest.mark.parametrize("name", SMOOTH)
def test_statistics_are_those_of_the_slow_truth(name):
    X, new = rows(), rows(15, seed=1)
    model = KernelPCA(3, kernel=SMOOTH[name], eigen_solver="dense").fit(X)
    found = measure_of(model)(new)
    truth = slow_statistics(SMOOTH[name].block, X, new, 3)
    for statistic in STATISTICS:
        np.testing.assert_allclose(found[statistic], truth[statistic], rtol=1e-6, atol=1e-9)


@pytest.mark.filterwarnings("ignore:.*landmarks explain all rows")
@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("kind", ["exact", "landmarks", "stream"])
def test_gradients_are_those_of_finite_differences(name, kind):
    X, new = rows(), rows(6, seed=1)
    measure = measure_of(fitted(kind, SMOOTH[name], X))
    h = 1e-5
    for statistic in STATISTICS:
        surface = measure.surface(statistic)
        np.testing.assert_allclose(surface.values(new), measure(new)[statistic], rtol=1e-6, atol=1e-9)
        found = surface.gradients(new)
        steps = [(surface.values(new + h * e) - surface.values(new - h * e)) / (2 * h) for e in np.eye(4)]
        truth = np.column_stack(steps)
        np.testing.assert_allclose(found, truth, rtol=2e-4, atol=2e-5 * np.abs(truth).max())


@pytest.mark.filterwarnings("ignore:.*landmarks explain all rows")
@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("kind", ["exact", "landmarks", "stream"])
def test_the_jacobian_of_scores_is_that_of_finite_differences(name, kind):
    X, new = rows(), rows(6, seed=1)
    model = fitted(kind, SMOOTH[name], X)
    found = derivatives_of(model._projecting()).jacobian(new)
    h = 1e-5
    truth = np.stack([(model.transform(new + h * e) - model.transform(new - h * e)) / (2 * h) for e in np.eye(4)], -1)
    np.testing.assert_allclose(found, truth, rtol=1e-4, atol=1e-5 * np.abs(truth).max())


def test_the_jacobian_does_not_depend_on_threads():
    X = np.random.default_rng(0).normal(size=(700, 4))
    projection = KernelPCA(3, kernel="rbf").fit(X)._projecting()
    np.testing.assert_array_equal(
        derivatives_of(projection, threads=1).jacobian(X), derivatives_of(projection, threads=2).jacobian(X)
    )


def test_float32_models_have_surfaces_in_double_precision():
    X, new = rows().astype(np.float32), rows(6, seed=1).astype(np.float32)
    surface = measure_of(KernelPCA(5, kernel="rbf", gamma=0.2).fit(X)).surface("combined")
    assert surface.values(new).dtype == np.float64
    assert surface.gradients(new).dtype == np.float64


def test_components_that_are_rounding_count_as_outside():
    X = np.random.default_rng(0).normal(size=(80, 1)) @ np.ones((1, 3))  # one direction, three columns
    measure = measure_of(KernelPCA(3, kernel="linear").fit(X))
    assert len(measure.variances) == 1
    found = measure(np.array([[1.0, 1.0, 1.0], [1.0, 0.0, 0.0]]))
    assert found.spe[0] < 1e-20 and found.spe[1] > 0.1


def test_rows_without_variance_leave_only_the_residual():
    found = measure_of(KernelPCA(2, kernel="rbf").fit(np.ones((10, 3))))(np.array([[1.0, 1, 1], [5, 5, 5]]))
    assert (found.t2 == 0).all()
    assert found.spe[0] < 1e-12 and found.spe[1] > 0.5
    np.testing.assert_array_equal(found.combined, found.spe)


def test_what_has_no_statistics_or_gradients_says_so():
    K = rows() @ rows().T
    with pytest.raises(InputError, match="precomputed kernel"):
        measure_of(KernelPCA(2, kernel="precomputed").fit(K))
    chi2 = KernelPCA(2, kernel="chi2", gamma=0.1).fit(np.abs(rows()))
    assert measure_of(chi2)(np.abs(rows(5))).spe.shape == (5,)
    assert "chi2 kernel has no gradient" in why_no_derivatives(chi2._projecting())
    with pytest.raises(InputError, match="chi2 kernel has no gradient"):
        measure_of(chi2).surface("spe")
    with pytest.raises(InputError, match="statistic must be"):
        measure_of(chi2)(np.abs(rows(5)))["T2"]
