"""Classical MDS and Isomap are kernel PCA of -1/2 D o D, with Euclidean or geodesic distances, to rounding."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import reference
import sklearn.manifold
from numpy.typing import NDArray
from scipy.sparse.csgraph import shortest_path
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits, make_s_curve, make_swiss_roll
from sklearn.manifold import Isomap
from sklearn.neighbors import kneighbors_graph

from kpca import KernelPCA

DATA = {
    "swiss roll": lambda: make_swiss_roll(300, noise=0.05, random_state=0)[0],
    "S-curve": lambda: make_s_curve(300, random_state=0)[0],
    "digits": lambda: load_digits().data[:300],
    "normal": lambda: np.random.default_rng(0).normal(size=(120, 6)),
}


def scaled(D: NDArray[Any], k: int) -> tuple[KernelPCA, NDArray[Any]]:
    """Kernel PCA of -1/2 D o D, which centres it itself; geodesic distances give it negative eigenvalues."""
    model = KernelPCA(k, kernel="precomputed")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The kernel matrix is not positive semidefinite")
        return model, model.fit_transform(-0.5 * D**2)


def assert_same_up_to_signs(found: NDArray[Any], truth: NDArray[Any]) -> None:
    signs = np.sign(np.sum(found * truth, axis=0))
    np.testing.assert_allclose(found * signs, truth, atol=1e-8 * np.abs(truth).max())


@pytest.mark.parametrize("name", DATA)
def test_classical_mds_is_kernel_pca_of_squared_distances(name: str) -> None:
    X = DATA[name]()
    D = cdist(X, X)
    truth, values = reference.classical_scaling(D, 3)
    model, found = scaled(D, 3)
    assert_same_up_to_signs(found, truth)
    np.testing.assert_allclose(model.eigenvalues_, values[:3], rtol=1e-10)
    # of Euclidean distances that is PCA
    assert_same_up_to_signs(found, KernelPCA(3, kernel="linear").fit_transform(X))


@pytest.mark.skipif(not hasattr(sklearn.manifold, "ClassicalMDS"), reason="scikit-learn has ClassicalMDS from 1.8 on.")
@pytest.mark.parametrize("name", DATA)
def test_classical_mds_of_scikit_learn(name: str) -> None:
    X = DATA[name]()
    theirs = sklearn.manifold.ClassicalMDS(3).fit_transform(X)
    assert_same_up_to_signs(scaled(cdist(X, X), 3)[1], theirs)


@pytest.mark.filterwarnings("ignore:The number of connected components", "ignore:Changing the sparsity")  # of digits
@pytest.mark.parametrize("name", DATA)
def test_isomap_is_kernel_pca_of_squared_geodesic_distances(name: str) -> None:
    X = DATA[name]()
    theirs = Isomap(n_components=2, n_neighbors=8, eigen_solver="dense").fit(X)
    D = theirs.dist_matrix_
    model, found = scaled(D, 2)
    assert_same_up_to_signs(found, theirs.embedding_)
    truth, values = reference.classical_scaling(D, 2)
    assert_same_up_to_signs(found, truth)
    np.testing.assert_allclose(model.eigenvalues_, values[:2], rtol=1e-10)


def test_geodesic_distances_from_the_graph_up() -> None:
    """Isomap with nothing of scikit-learn's class: neighbours, shortest paths, kernel PCA."""
    X, t = make_swiss_roll(700, random_state=0)
    graph = kneighbors_graph(X, 7, mode="distance")
    found = scaled(shortest_path(graph, directed=False), 2)[1]
    assert_same_up_to_signs(found, Isomap(n_components=2, n_neighbors=7, eigen_solver="dense").fit_transform(X))
    assert abs(np.corrcoef(found[:, 0], t)[0, 1]) > 0.99  # the first coordinate runs along the roll


def test_the_geodesic_kernel_is_indefinite_and_that_is_said() -> None:
    D = Isomap(n_neighbors=8).fit(DATA["swiss roll"]()).dist_matrix_
    assert reference.classical_scaling(D, 2)[1][-1] < -1.0
    with pytest.warns(UserWarning, match="not positive semidefinite"):
        KernelPCA(2, kernel="precomputed", eigen_solver="krylov").fit(-0.5 * D**2)


@pytest.mark.filterwarnings("ignore:The number of connected components", "ignore:Changing the sparsity")  # of digits
@pytest.mark.parametrize("name", ["swiss roll", "digits"])
def test_new_rows_are_placed_where_isomap_places_them(name: str) -> None:
    X = DATA[name]()
    fitted, new = X[:250], X[250:]
    theirs = Isomap(n_components=2, n_neighbors=8, eigen_solver="dense").fit(fitted)
    # to each fitted row by way of the neighbour that makes it nearest
    distance, index = theirs.nbrs_.kneighbors(new)
    D_new = np.min(distance[:, :, None] + theirs.dist_matrix_[index], axis=1)
    model, _ = scaled(theirs.dist_matrix_, 2)
    assert_same_up_to_signs(model.transform(-0.5 * D_new**2), theirs.transform(new))
