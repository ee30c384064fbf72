"""A fit that starts from its neighbours finds what a fit on its own finds."""

import numpy as np
import pytest
from sklearn.datasets import load_digits, make_circles, make_swiss_roll

import kpca
from kpca import kernels
from kpca.estimators.cost import Request
from kpca.estimators.exact import decompose
from kpca.estimators.warm_start import Follower

RNG = np.random.default_rng(3)


def uneven(n: int) -> np.ndarray:
    """Clusters of very different sizes and widths: eigenvalues change places along the path."""
    sizes = [0.4, 0.2, 0.15, 0.1, 0.08, 0.04, 0.02, 0.01]
    centres = RNG.normal(size=(len(sizes), 5)) * 30
    widths = RNG.uniform(0.05, 5, 8)
    parts = [c + RNG.normal(size=(int(s * n), 5)) * w for c, s, w in zip(centres, sizes, widths, strict=True)]
    return np.vstack(parts)


DATA = {
    "circles": make_circles(900, noise=0.05, factor=0.3, random_state=0)[0],
    "swiss roll": make_swiss_roll(900, random_state=0)[0],
    "digits": load_digits().data[:900],
    "normal": RNG.normal(size=(900, 20)),
    "heavy tails": RNG.standard_t(1.5, size=(900, 4)),
    "grid": np.stack(np.meshgrid(np.arange(30.0), np.arange(30.0)), -1).reshape(-1, 2),
    "uneven": uneven(900),
    "one feature": RNG.uniform(size=(900, 1)),
}
MAKERS = {
    "rbf": kernels.RBF,
    "matern32": lambda gamma: kernels.Matern(1.5, float(np.sqrt(0.5 / gamma))),
    "exponential": lambda gamma: kernels.Exponential(float(np.sqrt(0.5 / gamma))),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("maker", MAKERS)
def test_eigenvalues_along_a_path(name: str, maker: str) -> None:
    X = DATA[name]
    middle = float(kernels.resolve_gamma("median", X))
    family = [MAKERS[maker](float(g)) for g in middle * 2.0 ** np.linspace(-6, 6, 20)]
    request = Request(8, tol=1e-4, eigen_solver="krylov")
    follower = Follower(family, X, request)
    for kernel in family:
        found = follower(kernel).spectrum
        truth = decompose(kernel, X, None, Request(8, tol=1e-10, eigen_solver="dense")).spectrum
        assert np.abs(found.values - truth.values).max() <= 1e-3 * truth.values[0]
        assert abs(found.trace - truth.trace) <= 1e-6 * truth.trace
        assert abs(found.frobenius2 - truth.frobenius2) <= 1e-4 * truth.frobenius2


def test_fewer_passes_than_on_its_own() -> None:
    X = DATA["swiss roll"]
    family = [kernels.RBF(float(g)) for g in np.geomspace(1e-3, 1e-1, 20)]
    request = Request(8, tol=1e-3, eigen_solver="krylov")
    follower = Follower(family, X, request)
    passes = sum(follower(kernel).spectrum.n_passes for kernel in family)
    alone = sum(decompose(kernel, X, None, request).spectrum.n_passes for kernel in family)
    assert passes <= 0.7 * alone


def test_strangers_are_not_followed() -> None:
    """A grid with large steps, and degrees, start anew: what is far says nothing."""
    request = Request(5, tol=1e-3, eigen_solver="krylov")
    follower = Follower([kernels.RBF(1e-3), kernels.RBF(1.0)], DATA["swiss roll"], request)
    follower(kernels.RBF(1e-3))
    kind = (kernels.RBF, ())
    assert follower._near(kind, np.log(1.9e-3)) is not None
    assert follower._near(kind, np.log(1e-2)) is None
    assert follower._near((kernels.Matern, (1.5,)), np.log(1e-3)) is None


def test_the_order_of_the_kernels_is_free_and_repeats() -> None:
    X = DATA["circles"]
    family = [kernels.RBF(float(g)) for g in np.geomspace(0.1, 10, 12)]
    order = np.random.default_rng(0).permutation(12)
    runs = []
    for _ in range(2):
        follower = Follower(family, X, Request(6, tol=1e-6, eigen_solver="krylov", threads=2))
        runs.append([follower(family[i]).spectrum for i in order])
    for i, first, second in zip(order, *runs, strict=True):
        assert np.array_equal(first.vectors, second.vectors)
        truth = decompose(family[i], X, None, Request(6, tol=1e-10)).spectrum
        assert np.abs(first.values - truth.values).max() <= 1e-6 * truth.values[0]


def test_projections_are_those_of_the_kernel() -> None:
    X = DATA["swiss roll"]
    family = [kernels.RBF(float(g)) for g in np.geomspace(1e-3, 1e-2, 5)]
    follower = Follower(family, X[:700], Request(4, tol=1e-8))
    for kernel in family:
        scores = follower(kernel).projection(X[700:])
        model = kpca.KernelPCA(4, kernel=kernel).fit(X[:700])
        assert np.abs(np.abs(scores) - np.abs(model.transform(X[700:]))).max() < 1e-5


def test_a_checkpoint_of_the_user_is_left_alone(tmp_path) -> None:
    family = [kernels.RBF(float(g)) for g in np.geomspace(1e-3, 1e-2, 3)]
    with kpca.config(checkpoint=tmp_path / "fit.ckpt"):
        follower = Follower(family, DATA["swiss roll"], Request(4, tol=1e-3, eigen_solver="krylov"))
        for kernel in family:
            follower(kernel)
    assert list(tmp_path.iterdir()) == []


def test_kernels_that_share_nothing_are_fitted_alone() -> None:
    X = np.abs(DATA["digits"][:200]) + 1.0
    family = [kernels.Cosine(), kernels.Linear(), kernels.HistogramIntersection(), kernels.RBF(1e-3)]
    follower = Follower(family, X, Request(4, tol=1e-8))
    for kernel in family:
        truth = decompose(kernel, X, None, Request(4, tol=1e-8)).spectrum
        assert np.array_equal(follower(kernel).spectrum.values, truth.values)
