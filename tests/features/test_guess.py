"""The first guess of the leading eigenvectors: near the true ones, for weights, sparse rows and both ways to it."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.gaussian_process.kernels import ExpSineSquared

from kpca import InputError, KernelPCA
from kpca.features import guess
from kpca.features.guess import leading_eigenvectors
from kpca.gram import Centered, Gram
from kpca.kernels import RBF, Matern, Sigmoid, from_gaussian_process

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


@pytest.mark.slow
@pytest.mark.parametrize("most", [200, 700])
def test_some_rows_stand_for_all(monkeypatch, most):
    monkeypatch.setattr(guess, "_FEW_ROWS", 0)
    monkeypatch.setattr(guess, "_MOST_ROWS", most)
    gram = Gram(RBF(0.05), X, scale=RNG.uniform(0.5, 1.5, size=len(X)), shifted=True, threads=2)
    found, largest = leading_eigenvectors(gram, 8, centred=True, seed=0)
    values, vectors = np.linalg.eigh(Centered(gram).matrix())
    cosines = np.linalg.svd(np.linalg.qr(found)[0].T @ vectors[:, ::-1][:, :3], compute_uv=False)
    assert cosines.min() > (0.99 if most == 700 else 0.95)
    assert largest / values[-1] == pytest.approx(1.0, abs=0.1 if most == 700 else 0.3)


def test_a_kernel_that_is_not_definite_after_all_has_another_guess(monkeypatch):
    monkeypatch.setattr(guess, "_FEW_ROWS", 0)
    gram = Gram(from_gaussian_process(ExpSineSquared()), X[:, :2])
    assert not gram.psd
    gram.psd = True
    found, largest = leading_eigenvectors(gram, 5, centred=True, seed=0)
    assert found.shape == (700, 5)
    assert largest > 0


@pytest.mark.parametrize("few_rows", [0, 5000], ids=["features", "extension"])
@pytest.mark.parametrize("place", [0, 350])
def test_what_overflows_is_refused_in_a_sentence(monkeypatch, few_rows, place):
    monkeypatch.setattr(guess, "_FEW_ROWS", few_rows)
    rows = X.copy()
    rows[place] = 1e200
    with np.errstate(all="ignore"), pytest.raises(InputError, match="values of the poly kernel must be finite"):
        KernelPCA(3, kernel="poly", gamma=1.0, eigen_solver="krylov").fit(rows)
