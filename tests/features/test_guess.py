"""The first guess of the leading eigenvectors: near the true ones, for weights, sparse rows and both ways to it."""

import numpy as np
import pytest
from scipy import sparse

from kpca.features import guess
from kpca.features.guess import leading_eigenvectors
from kpca.gram import Centered, Gram
from kpca.kernels import RBF, Matern, Sigmoid

RNG = np.random.default_rng(0)
X = RNG.normal(size=(700, 6)) + np.repeat(np.eye(6)[:5] * 6, 140, axis=0)


@pytest.mark.slow
@pytest.mark.parametrize("few_rows", [0, 5000], ids=["features", "extension"])
@pytest.mark.parametrize("form", ["dense", "sparse", "single"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("kernel", [RBF(0.05), Matern(1.5, 2.0), Sigmoid(0.01, 0.0)], ids=lambda kernel: kernel.name)
def test_leading_eigenvectors_are_near(monkeypatch, kernel, centred, weighted, form, few_rows):
    monkeypatch.setattr(guess, "_FEW_ROWS", few_rows)
    rows = {"dense": X, "sparse": sparse.csr_matrix(X), "single": X.astype(np.float32)}[form]
    scale = RNG.uniform(0.5, 1.5, size=len(X)) if weighted else None
    gram = Gram(kernel, rows, scale=scale, threads=2)
    found, largest = leading_eigenvectors(gram, 8, centred=centred, seed=0)
    values, vectors = np.linalg.eigh(Centered(gram).matrix() if centred else gram.matrix())
    guessed, _ = np.linalg.qr(found)
    cosines = np.linalg.svd(guessed.T @ vectors[:, ::-1][:, :3], compute_uv=False)
    assert cosines.min() > (0.97 if few_rows == 0 and kernel.psd else 0.8)
    assert 0.5 < largest / values[-1] < 2.0


def test_rows_that_are_all_alike_give_nothing_to_guess(monkeypatch):
    monkeypatch.setattr(guess, "_FEW_ROWS", 0)
    found, _ = leading_eigenvectors(Gram(RBF(1.0), np.ones((400, 3))), 5, centred=True, seed=0)
    assert found.shape[0] == 400
    assert np.isfinite(found).all()
