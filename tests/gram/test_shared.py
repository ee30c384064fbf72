"""Kernels evaluated from arguments they share are the same as each on its own, whatever is kept."""

import numpy as np
import pytest
from scipy import sparse

from kpca import kernels
from kpca._base.errors import InputError
from kpca.gram import Gram
from kpca.gram.shared import SharedArguments

RADIAL = [
    kernels.RBF(0.01),
    kernels.RBF(3.0),
    kernels.Exponential(0.7),
    kernels.Matern(1.5, 2.0),
    kernels.Matern(2.5, 0.1),
    kernels.RationalQuadratic(0.5, 1.3),
]
DOT = [kernels.Linear(), kernels.Polynomial(2, 0.3, 1.0), kernels.Polynomial(5, 0.01, 0.5), kernels.Sigmoid(0.02, 0.1)]
L1 = [kernels.Laplacian(0.05), kernels.Laplacian(4.0)]
CHI2 = [kernels.Chi2(0.1), kernels.Chi2(2.0)]
FAMILIES = {"distance": RADIAL, "dot": DOT, "l1": L1, "chi2": CHI2}


def rows(kind: str, n: int = 130, d: int = 4) -> np.ndarray:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(n, d))
    X[7] = X[3]
    X[11] = X[3] + 1e-9
    return np.abs(X) if kind == "chi2" else X


@pytest.mark.parametrize("budget", [0, 20_000, 2**24])
@pytest.mark.parametrize("kind", FAMILIES)
def test_values_are_those_of_the_kernel_alone(kind: str, budget: int) -> None:
    X = rows(kind)
    shared = SharedArguments(FAMILIES[kind], X, budget=budget)
    for _ in range(2):  # the second time some are kept
        for kernel in FAMILIES[kind]:
            K = Gram(kernel, X, arguments=shared).matrix()
            truth = kernel.block(X, X)
            assert np.abs(K - truth).max() <= 1e-7 * np.abs(truth).max(), kernel


@pytest.mark.parametrize(("kind", "form"), [*((kind, np.asarray) for kind in FAMILIES), ("dot", sparse.csr_array)])
def test_new_rows_against_known_ones(kind: str, form) -> None:
    X, new = rows(kind), rows(kind, n=40)[::-1]
    V = np.random.default_rng(0).normal(size=(len(X), 2))
    for budget in (0, 2**24):
        shared = SharedArguments(FAMILIES[kind], form(X), budget=budget, new=form(new))
        for kernel in FAMILIES[kind]:
            truth = kernel.block(new, X) @ V
            for single, error in ((True, 1e-5), (False, 1e-7)):
                for threads in (1, 2):
                    found = shared.new_times(kernel, V, single=single, shifted=False, threads=threads)
                    assert np.abs(found - truth).max() <= error * np.abs(kernel.block(new, X)).max() * len(X), kernel


@pytest.mark.parametrize("kind", FAMILIES)
def test_bits_do_not_depend_on_what_is_kept(kind: str) -> None:
    X = rows(kind, n=900)
    V = np.random.default_rng(0).normal(size=(900, 3))
    for kernel in FAMILIES[kind]:
        products = []
        for budget in (0, 500_000, 2**26):
            shared = SharedArguments(FAMILIES[kind], X, budget=budget)
            for precision in ("single", "double"):
                gram = Gram(kernel, X, arguments=shared, threads=2).at(precision)
                gram @ V
                products.append((precision, gram @ V))
        for precision in ("single", "double"):
            first, *others = [product for name, product in products if name == precision]
            assert all(np.array_equal(first, other) for other in others)


def test_memory_is_kept_to_the_budget() -> None:
    X = rows("distance", n=1500)
    shared = SharedArguments(RADIAL, X, budget=4_000_000)
    Gram(RADIAL[0], X, arguments=shared).matrix()
    assert 2_000_000 < sum(tile.nbytes for tile in shared._tiles.values()) <= 4_000_000


def test_offset_costs_no_digits() -> None:
    X = rows("distance")
    for offset, tolerance in ((0.0, 1e-12), (1e6, 1e-7)):
        shared = SharedArguments([kernels.RBF(0.1), kernels.RBF(1.0)], X + offset, budget=2**20)
        K = Gram(kernels.RBF(0.1), X + offset, arguments=shared).matrix()
        assert np.abs(K - kernels.RBF(0.1).block(X + offset, X + offset)).max() <= tolerance


def test_far_clusters_in_float32_use_float64_distances() -> None:
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(200, 3)) + 3e3 * rng.integers(0, 3, (200, 1))).astype(np.float32)
    family = [kernels.RBF(0.01), kernels.RBF(1.0)]
    shared = SharedArguments(family, X, budget=2**20)
    for kernel in family:
        K = Gram(kernel, X, arguments=shared, precision="single").block(slice(0, 200), slice(0, 200))
        assert np.abs(K - kernel.block(X.astype(np.float64), X.astype(np.float64))).max() < 2e-6


@pytest.mark.parametrize("kind", ["distance", "dot"])
def test_sparse_rows(kind: str) -> None:
    X = sparse.random(120, 30, density=0.2, format="csr", random_state=0)
    shared = SharedArguments(FAMILIES[kind], X, budget=2**20)
    for kernel in FAMILIES[kind]:
        K = Gram(kernel, X, arguments=shared).matrix()
        truth = kernel.block(X, X)
        assert np.abs(K - truth).max() <= 1e-7 * np.abs(truth).max()


def test_kernels_of_different_kinds_do_not_share() -> None:
    X = rows("distance")
    for family in (
        [kernels.RBF(1.0), kernels.Linear()],
        [kernels.Cosine(), kernels.Cosine()],
        [kernels.RBF([1.0] * 4)],
    ):
        with pytest.raises(InputError, match="one kind"):
            SharedArguments(family, X, budget=0)
    shared = SharedArguments([kernels.RBF(1.0)], X, budget=0)
    for other in (kernels.RBF(2.0), kernels.Laplacian(1.0)):  # narrower than announced, or of another kind
        with pytest.raises(InputError, match="must be shared"):
            Gram(other, X, arguments=shared).matrix()
