"""`score` and `score_samples` against loops, and grid searches without labels that rest on them."""

import warnings

import numpy as np
import pandas as pd
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_table import tuned
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

import kpca
from kpca import KernelPCA
from kpca._base.errors import InputError

RNG = np.random.default_rng(6)
X = RNG.normal(size=(60, 4)) * [4.0, 2.0, 1.0, 0.5]
NEW = RNG.normal(size=(25, 4)) * [4.0, 2.0, 1.0, 0.5]
KERNELS = tuned("linear", "rbf", "poly", "cosine", "laplacian")


def slow(name: str, k: int, rows=X, new=NEW):
    K = reference.kernel_values(name, rows, rows, **KERNELS[name])
    K_new = reference.kernel_values(name, new, rows, **KERNELS[name])
    return -reference.restoration_errors(rows, reference.scores(K, K, k), new, reference.scores(K, K_new, k))


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("kind", ["float64", "float32", "csr", "pandas"])
@pytest.mark.parametrize("name", KERNELS)
def test_scores_by_loops(name: str, kind: str, k: int) -> None:
    make = {
        "float64": np.asarray,
        "float32": lambda rows: rows.astype(np.float32),
        "csr": sparse.csr_matrix,
        "pandas": lambda rows: pd.DataFrame(rows, columns=list("abcd")),
    }[kind]
    model = KernelPCA(k, kernel=name, **KERNELS[name]).fit(make(X))
    found = model.score_samples(make(NEW))
    assert found.shape == (25,) and found.dtype == np.float64
    assert np.allclose(found, slow(name, k), rtol=1e-3 if kind == "float32" else 1e-8)
    assert model.score(make(NEW)) == pytest.approx(found.mean())
    assert model.score(make(NEW), np.zeros(25)) == model.score(make(NEW))


def test_sparse_rows_beside_dense_ones() -> None:
    forms = (np.asarray, sparse.csr_matrix, sparse.csr_array)
    for name in ("linear", "rbf"):
        for fitted in forms:
            model = KernelPCA(2, kernel=name, **KERNELS[name]).fit(fitted(X))
            for given_as in forms:
                assert np.allclose(model.score_samples(given_as(NEW)), slow(name, 2))


def test_a_way_back_is_used_where_there_is_one() -> None:
    for parameters in ({"preimage": "ridge"}, {"preimage": "fixed-point"}, {"fit_inverse_transform": True}):
        model = KernelPCA(2, kernel="rbf", gamma=0.05, **parameters).fit(X)
        restored = model.inverse_transform(model.transform(NEW))
        assert np.allclose(model.score_samples(NEW), -np.sum((NEW - restored) ** 2, axis=1))


def test_landmarks_are_what_new_rows_are_compared_with() -> None:
    model = KernelPCA(2, kernel="rbf", gamma=0.05, approximation=kpca.Nystroem(20)).fit(X)
    marks = model.X_fit_
    truth = reference.restoration_errors(marks, model.transform(marks), NEW, model.transform(NEW))
    assert np.allclose(model.score_samples(NEW), -truth)
    few = KernelPCA(1, kernel="rbf", gamma=0.05, approximation=kpca.Nystroem(3)).fit(X)  # fewer than neighbours
    assert np.isfinite(few.score(NEW))


def test_random_features_need_a_way_back() -> None:
    model = KernelPCA(2, kernel="rbf", gamma=0.05, approximation=kpca.RandomFeatures(50)).fit(X)
    assert not hasattr(model, "score") and not hasattr(model, "score_samples")
    assert np.isfinite(model.set_params(preimage="ridge").fit(X).score(NEW))


def test_precomputed_matrices_have_no_rows_to_compare_with() -> None:
    model = KernelPCA(2, kernel="precomputed").fit(X @ X.T)
    assert not hasattr(model, "score") and not hasattr(model, "score_samples")


def test_a_stream_has_a_score_with_a_way_back_only() -> None:
    assert not hasattr(kpca.IncrementalKernelPCA(2), "score")
    model = kpca.IncrementalKernelPCA(2, kernel="rbf", gamma=0.05, preimage="ridge").fit(X)
    assert np.isfinite(model.score(NEW))


def test_rows_in_chunks(tmp_path) -> None:
    model = KernelPCA(2, kernel="rbf", gamma=0.05).fit(X)
    np.save(tmp_path / "new.npy", NEW)
    assert np.allclose(model.score_samples(tmp_path / "new.npy"), model.score_samples(NEW))
    assert np.allclose(model.score_samples([NEW[:10], NEW[10:]]), model.score_samples(NEW))


def test_weights_are_those_of_the_fit() -> None:
    weights = np.r_[np.zeros(10), np.ones(50)]
    model = KernelPCA(2, kernel="rbf", **KERNELS["rbf"]).fit(X, sample_weight=weights)
    assert np.allclose(model.score_samples(NEW), slow("rbf", 2, rows=X[10:]))
    repeated = KernelPCA(2, kernel="rbf", gamma=0.05).fit(X, sample_weight=RNG.integers(1, 4, 60))
    assert np.isfinite(repeated.score(NEW))


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1), st.floats(-1e3, 1e3))
def test_neither_order_nor_place_matter(seed: int, shift: float) -> None:
    order = np.random.default_rng(seed).permutation(25)
    model = KernelPCA(2, kernel="rbf", gamma=0.05).fit(X)
    assert np.allclose(model.score_samples(NEW[order]), model.score_samples(NEW)[order])
    moved = clone(model).fit(X + shift)
    assert np.allclose(moved.score_samples(NEW + shift), model.score_samples(NEW), rtol=1e-6, atol=1e-6)


def test_more_components_restore_the_rows_of_the_plane() -> None:
    """Rows on a plane: a second component helps, a third has nothing to add."""
    plane = RNG.normal(size=(300, 2)) @ RNG.normal(size=(2, 5))
    scores = [KernelPCA(k, kernel="linear").fit(plane[:200]).score(plane[200:]) for k in (1, 2)]
    assert scores[0] < 5 * scores[1] < 0


@pytest.mark.filterwarnings("ignore:All rows are alike")
@pytest.mark.parametrize("rows", [np.full((30, 2), 0.1), sparse.csr_matrix((30, 2))])
def test_no_components_restore_the_mean(rows) -> None:
    model = KernelPCA(kernel="rbf").fit(rows)
    assert model.n_components_ == 0
    assert np.allclose(model.score_samples(rows), 0.0)
    mean = np.asarray(rows.mean(axis=0)).ravel()
    assert np.allclose(model.score_samples(np.ones((2, 2))), -np.sum((1 - mean) ** 2))


def test_before_the_fit_and_with_wrong_rows() -> None:
    with pytest.raises(NotFittedError):
        KernelPCA(2).score(X)
    model = KernelPCA(2).fit(X)
    for wrong in (NEW[:, :2], np.where(NEW > 3, np.nan, NEW), [["a"] * 4]):
        with pytest.raises(InputError):
            model.score(wrong)


def test_rows_are_left_alone_and_bits_repeat() -> None:
    new = NEW.copy()
    new.flags.writeable = False
    model = KernelPCA(2, kernel="rbf", gamma=0.05).fit(X)
    runs = []
    for threads in (1, 2):
        with kpca.config(threads=threads):
            runs.append(model.score_samples(new))
    assert np.array_equal(*runs) and np.array_equal(new, NEW)


# -- grid searches ----------------------------------------------------------------------------------------------------

GAMMAS = [1e-3, 0.05, 100.0]


@pytest.mark.parametrize(
    ("parameters", "rows"),
    [
        ({}, X),
        ({}, X.astype(np.float32)),
        ({}, sparse.csr_matrix(X)),
        ({"approximation": kpca.Nystroem(25)}, X),
        ({"preimage": "ridge"}, X),
        ({"center": False}, X),
        ({"n_jobs": 2}, X),
    ],
)
def test_grid_search_without_labels(parameters, rows) -> None:
    model = KernelPCA(2, kernel="rbf", **parameters)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The bandwidth is so small|.*landmarks explain all rows")
        search = GridSearchCV(model, {"gamma": GAMMAS, "n_components": [1, 2]}, cv=3, error_score="raise").fit(rows)
    scores = search.cv_results_["mean_test_score"]
    assert np.isfinite(scores).all() and (scores <= 0).all()
    assert search.best_params_["gamma"] != 100.0  # single rows
    assert search.best_estimator_.transform(rows).shape == (60, search.best_params_["n_components"])
    by_hand = cross_val_score(search.best_estimator_, rows, cv=3).mean()
    assert search.best_score_ == pytest.approx(by_hand)


def test_kernels_are_compared() -> None:
    search = GridSearchCV(KernelPCA(1), {"kernel": ["linear", "cosine", "rbf"]}, cv=3, error_score="raise").fit(X)
    assert search.best_params_["kernel"] == "linear"  # one direction with most of the variance


def test_in_a_pipeline() -> None:
    rows = X * [1e-3, 1.0, 1e3, 1.0] + 1e3
    pipe = make_pipeline(StandardScaler(), KernelPCA(2, kernel="rbf"))
    assert isinstance(pipe, Pipeline)
    grid = {"kernelpca__gamma": GAMMAS[:2], "kernelpca__n_components": [1, 2]}
    search = GridSearchCV(pipe, grid, cv=3, error_score="raise").fit(rows)
    scaled = StandardScaler().fit_transform(rows)
    assert search.best_estimator_.score(rows) == pytest.approx(search.best_estimator_[-1].score(scaled))
    assert search.best_params_["kernelpca__n_components"] == 2


def test_the_same_folds_as_a_search_give_the_same_order() -> None:
    """`tune` is this grid search, faster: relative to the variance, by row instead of by fold."""
    pairs = [(np.arange(40), np.arange(40, 60)), (np.arange(20, 60), np.arange(20))]
    gammas = [0.01, 0.05, 0.2]
    search = GridSearchCV(KernelPCA(2, kernel="rbf"), {"gamma": gammas}, cv=pairs).fit(X)
    found = kpca.selection.tune(X, kernels={"rbf": gammas}, n_components=2, cv=pairs, refit=False)
    by_gamma = {entry["gamma"]: entry["score"] for entry in found.table}
    spread = X.var(axis=0).sum()
    errors = [-(by_gamma[gamma] - 1) * spread for gamma in gammas]
    assert np.allclose(-search.cv_results_["mean_test_score"], errors, rtol=1e-6)
