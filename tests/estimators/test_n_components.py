"""KernelPCA(n_components="auto"): the number, the reason, and that nothing else changes."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import kpca
from benchmarks._planted import Planted
from kpca import IncrementalKernelPCA, InputError, KernelPCA
from kpca.estimators.n_components import choose_count, drawn_rows

FloatArray = NDArray[Any]
CLUSTERS = Planted("", "clusters", 180, 5, 4, 9.0)


def clusters(seed: int = 0) -> FloatArray:
    return CLUSTERS.draw(seed)


@pytest.mark.parametrize("kernel", ["linear", "rbf", "laplacian"])
def test_the_planted_number_and_otherwise_the_same_model(kernel: str) -> None:
    X = clusters()
    auto = KernelPCA("auto", kernel=kernel, gamma="median").fit(X)
    assert auto.n_components_ == 3
    assert auto.n_components == "auto"
    assert "eigenvalue 3" in auto.n_components_reason_
    assert auto.n_components_reason_.count("\n") == 0
    plain = KernelPCA(3, kernel=kernel, gamma="median").fit(X)
    assert_array_equal(auto.eigenvalues_, plain.eigenvalues_)
    assert_array_equal(auto.transform(X[:5]), plain.transform(X[:5]))
    assert not hasattr(plain, "n_components_reason_")


def test_a_fit_with_a_number_forgets_the_reason() -> None:
    model = KernelPCA("auto", kernel="rbf", gamma="median").fit(clusters())
    assert not hasattr(model.set_params(n_components=2).fit(clusters()), "n_components_reason_")


def test_bits_repeat() -> None:
    X = clusters()
    reasons = {
        KernelPCA("auto", kernel="rbf", gamma="median", n_jobs=jobs).fit(X).n_components_reason_ for jobs in (1, 2, 1)
    }
    assert len(reasons) == 1


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, np.float32, sparse.csr_matrix], ids=str)
def test_kinds_of_rows(make: Any) -> None:
    X = clusters()
    rows = X.astype(np.float32) if make is np.float32 else make(X)
    if isinstance(rows, pd.DataFrame):
        rows.columns = [f"c{i}" for i in range(5)]
    assert KernelPCA("auto", kernel="rbf", gamma="median").fit(rows).n_components_ == 3


@pytest.mark.parametrize("approximation", ["nystroem", "rff", "auto", kpca.Nystroem(rank=60)], ids=str)
def test_approximations(approximation: Any) -> None:
    model = KernelPCA("auto", kernel="rbf", gamma="median", approximation=approximation).fit(clusters())
    assert model.n_components_ == 3
    assert model.transform(clusters()[:2]).shape == (2, 3)


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_rows_in_chunks(tmp_path: Path, kernel: str) -> None:
    np.save(tmp_path / "rows.npy", clusters())
    model = KernelPCA("auto", kernel=kernel, gamma="median", approximation="nystroem").fit(tmp_path / "rows.npy")
    assert model.n_components_ == 3
    assert "eigenvalue 3" in model.n_components_reason_


def test_precomputed_takes_the_elbow() -> None:
    X = clusters()
    K = np.exp(-0.01 * ((X[:, None] - X[None]) ** 2).sum(axis=-1))
    for matrix in (K, aslinearoperator(K), sparse.csr_matrix(K)):
        model = KernelPCA("auto", kernel="precomputed").fit(matrix)
        assert model.n_components_ == 3
        assert "elbow" in model.n_components_reason_
        assert model.transform(K[:4]).shape == (4, 3)
    assert_allclose(model.eigenvalues_, KernelPCA(3, kernel="precomputed").fit(K).eigenvalues_, rtol=1e-8)


def test_callables_and_composites() -> None:
    X = clusters()

    def similar(A: FloatArray, B: FloatArray) -> FloatArray:
        return np.exp(-0.01 * ((A[:, None] - B[None]) ** 2).sum(axis=-1))

    assert KernelPCA("auto", kernel=similar).fit(X).n_components_ == 3
    both = kpca.kernels.RBF(0.01) + 0.5 * kpca.kernels.RBF(0.02)
    assert KernelPCA("auto", kernel=both).fit(X).n_components_ == 3


def test_at_least_one_and_no_more_than_the_rows() -> None:
    rng = np.random.default_rng(0)
    for X in (rng.standard_normal((100, 6)), rng.standard_normal((3, 4)), rng.standard_normal((2, 3))):
        for kernel in ("linear", "rbf"):
            model = KernelPCA("auto", kernel=kernel).fit(X)
            assert model.n_components_ == 1
            assert "no component above chance" in model.n_components_reason_
    with pytest.warns(UserWarning, match="alike"):
        assert KernelPCA("auto", kernel="rbf").fit(np.ones((10, 3))).n_components_ == 1
    line = KernelPCA("auto", kernel="rbf").fit(rng.standard_normal((50, 1)))
    assert line.n_components_ >= 1
    assert "single column" in line.n_components_reason_


def test_without_centring_the_mean_is_one_more() -> None:
    model = KernelPCA("auto", kernel="rbf", gamma="median", center=False).fit(clusters())
    assert model.n_components_ == 4
    assert "the mean" in model.n_components_reason_


def test_weights() -> None:
    X = clusters()
    rng = np.random.default_rng(1)
    model = KernelPCA("auto", kernel="rbf", gamma="median").fit(X, sample_weight=rng.uniform(0.5, 2.0, len(X)))
    assert model.n_components_ == 3
    present = (np.arange(len(X)) % 4 < 2).astype(float)  # two of the four clusters
    assert KernelPCA("auto", kernel="rbf", gamma="median").fit(X, sample_weight=present).n_components_ == 1
    assert_array_equal(drawn_rows(X, np.full(len(X), 2.5), 1000, 0), X)
    few = drawn_rows(X, np.r_[1e3, 1e3, np.full(len(X) - 2, 1e-3)], 1000, 0)
    assert few.shape == (2, 5)


def test_many_rows_are_sampled() -> None:
    X = Planted("", "clusters", 2000, 4, 3, 9.0).draw(0)
    assert drawn_rows(X, None, 600, 0).shape == (600, 4)
    assert KernelPCA("auto", kernel="rbf", gamma="median", tol=1e-3).fit(X).n_components_ == 2


def test_wide_sparse_rows_are_compared_with_permuted_columns() -> None:
    topics = sparse.random(300, 20_000, density=0.001, format="lil", random_state=0)
    topics[:100, :60] = 1.0
    topics[100:200, 60:120] = 1.0
    choice = choose_count(kpca.kernels.Linear(), topics.tocsr(), None)
    assert choice.count == 2
    assert "permuted columns" in choice.reason


def test_works_where_estimators_are_copied_and_searched() -> None:
    X = clusters()
    y = np.arange(len(X)) % 4
    model = KernelPCA("auto", kernel="rbf", gamma="median")
    assert clone(model).get_params()["n_components"] == "auto"
    assert repr(model).startswith("KernelPCA(gamma='median', kernel='rbf', n_components='auto')")
    fitted = pickle.loads(pickle.dumps(model.fit(X)))
    assert fitted.n_components_reason_ == model.n_components_reason_
    search = GridSearchCV(
        make_pipeline(KernelPCA(kernel="rbf", gamma="median"), LogisticRegression()),
        {"kernelpca__n_components": [1, "auto"]},
        cv=3,
    ).fit(X, y)
    assert search.best_params_ == {"kernelpca__n_components": "auto"}


def test_plans() -> None:
    X = clusters()
    for arguments in ({"kernel": "rbf"}, {"kernel": "linear"}, {"kernel": "rbf", "approximation": "nystroem"}):
        plan = kpca.plan(X, "auto", **arguments)
        assert not plan.k_known
        assert plan.k >= 1
        assert plan.seconds > kpca.plan(X, 16, **arguments).seconds * 0.5
        assert "about" in str(plan)
    assert kpca.plan((5000, 5000), "auto", kernel="precomputed").k == 50
    fitted = KernelPCA("auto", kernel="rbf", gamma="median").fit(X)
    assert (fitted.plan_.k, fitted.plan_.k_known) == (3, True)


def test_a_memory_limit_is_kept() -> None:
    X = np.random.default_rng(0).standard_normal((600, 2000))
    with kpca.config(memory_limit="80MiB"), pytest.raises(InputError, match="n_components as a number"):
        KernelPCA("auto", kernel="rbf").fit(X)
    with kpca.config(memory_limit="80MiB"), pytest.raises(InputError, match="n_components as a number"):
        kpca.plan(X, "auto", kernel="rbf")


def test_checkpoints_belong_to_the_fit(tmp_path: Path) -> None:
    X = Planted("", "clusters", 1500, 4, 3, 9.0).draw(0)
    with kpca.config(checkpoint=tmp_path / "fit.ckpt"):
        assert KernelPCA("auto", kernel="rbf", gamma="median", tol=1e-3).fit(X).n_components_ == 2
    assert not (tmp_path / "fit.ckpt").exists()


@pytest.mark.parametrize("wrong", ["many", "Auto", ""])
def test_other_words_are_refused(wrong: str) -> None:
    with pytest.raises(InputError, match=r"n_components must be None.* or 'auto'; got"):
        KernelPCA(wrong).fit(clusters())


def test_streams_refuse_it() -> None:
    with pytest.raises(InputError, match="before a stream begins"):
        IncrementalKernelPCA("auto", kernel="rbf").partial_fit(clusters())


def test_refused_data_leave_no_reason() -> None:
    model = KernelPCA("auto", kernel="rbf")
    with pytest.raises(InputError, match="finite"):
        model.fit(np.array([[1.0, np.nan], [2.0, 3.0]]))
    assert not hasattr(model, "n_components_reason_")
