"""selection.n_components: each method on planted data and against a plain version, and what it refuses."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from scipy import sparse
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier

from benchmarks._planted import Planted
from kpca import InputError, KernelPCA, selection

FloatArray = NDArray[Any]
METHODS = ["parallel", "horn", "fraction", "elbow", "knn", "reconstruction", "stability"]
CLUSTERS = Planted("", "clusters", 120, 5, 4, 9.0)
RBF = {"kernel": "rbf", "gamma": "median"}


def clusters(seed: int = 0) -> tuple[FloatArray, NDArray[np.int64]]:
    return CLUSTERS.draw(seed), np.arange(CLUSTERS.n) % 4


# -- each method ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["parallel", "elbow", "knn"])
@pytest.mark.parametrize("seed", range(3))
def test_clusters(method: str, seed: int) -> None:
    X, y = clusters(seed)
    found = selection.n_components(X, y, method=method, kernel="rbf", gamma=20.0 / (2 * 15.0**2))
    assert 1 <= found.count <= 3 if method == "knn" else found.count == 3
    assert found.method == method


@pytest.mark.parametrize("method", ["parallel", "horn", "stability"])
def test_factors(method: str) -> None:
    X = Planted("", "factors", 200, 12, 3, 0.5).draw(1)
    assert selection.n_components(X, method=method).count == 3


def test_fraction_is_the_smallest_number_that_explains_it() -> None:
    X, _ = clusters()
    shares = np.cumsum(KernelPCA(**RBF).fit(X).explained_variance_ratio_)
    for fraction in (0.3, 0.9, 0.99):
        found = selection.n_components(X, method="fraction", fraction=fraction, **RBF)
        assert found.count == int(np.searchsorted(shares, fraction)) + 1
        assert_allclose(found.curve["share"], shares[: found.count], rtol=1e-6)
    few = selection.n_components(X, method="fraction", max_components=2, **RBF)
    assert few.count == 2
    assert "only" in few.reason


def test_neighbours_against_a_plain_loop() -> None:
    X, y = clusters()
    y = np.where(np.random.default_rng(0).random(len(y)) < 0.2, (y + 1) % 4, y)
    found = selection.n_components(X, y, method="knn", max_components=8, n_neighbors=3, cv=4, seed=2, **RBF)
    scores = np.zeros((4, 8))
    for number, (train, test) in enumerate(StratifiedKFold(4, shuffle=True, random_state=2).split(X, y)):
        model = KernelPCA(8, **RBF).fit(X[train])
        known, new = model.transform(X[train]), model.transform(X[test])
        for j in range(8):
            nearest = KNeighborsClassifier(3).fit(known[:, : j + 1], y[train])
            scores[number, j] = nearest.score(new[:, : j + 1], y[test])
    assert_allclose(found.curve["score"], scores.mean(axis=0))
    assert_allclose(found.curve["error"], scores.std(axis=0, ddof=1) / 2)
    best = np.argmax(scores.mean(axis=0))
    enough = found.curve["score"] >= found.curve["score"][best] - found.curve["error"][best]
    assert found.count == np.argmax(enough) + 1


def test_neighbours_predict_numbers_and_words() -> None:
    X, y = clusters()
    numbers = X[:, 0] + 0.1 * X[:, 1]
    found = selection.n_components(X, numbers, method="knn", kernel="linear")
    assert "R^2" in found.reason
    words = np.array(["a", "b", "c", "d"], dtype=object)[y]
    assert "accuracy" in selection.n_components(X, words, method="knn", cv=KFold(3), **RBF).reason
    assert "R^2" in selection.n_components(X, np.arange(len(X)), method="knn", kernel="linear").reason


def test_neighbours_of_a_precomputed_matrix() -> None:
    X, y = clusters()
    gamma = 0.01
    K = np.exp(-gamma * ((X[:, None] - X[None]) ** 2).sum(axis=-1))
    here = selection.n_components(X, y, method="knn", kernel="rbf", gamma=gamma, max_components=6)
    there = selection.n_components(K, y, method="knn", kernel="precomputed", max_components=6)
    assert there.count == here.count
    assert_allclose(there.curve["score"], here.curve["score"])


def test_reconstruction_of_the_linear_kernel_is_held_out_variance() -> None:
    X = Planted("", "factors", 90, 8, 3, 2.0).draw(0)
    found = selection.n_components(X, method="reconstruction", cv=3, seed=1)
    shares = np.zeros((3, 8))
    for number, (train, test) in enumerate(KFold(3, shuffle=True, random_state=1).split(X)):
        mean = X[train].mean(axis=0)
        _, _, V = np.linalg.svd(X[train] - mean)
        for j in range(8):
            left = (X[test] - mean) - (X[test] - mean) @ V[: j + 1].T @ V[: j + 1]
            shares[number, j] = 1 - (left**2).sum() / ((X[test] - mean) ** 2).sum()
    assert_allclose(found.curve["share"][:8], shares.mean(axis=0), rtol=1e-6)
    assert found.count == np.argmax(shares.mean(axis=0) >= 0.9) + 1


def test_reconstruction_by_ridge_and_where_it_never_reaches_the_threshold() -> None:
    X, _ = clusters()
    found = selection.n_components(X, method="reconstruction", max_components=12, **RBF)
    assert found.curve["share"][found.count - 1] >= 0.9
    never = selection.n_components(X, method="reconstruction", max_components=3, threshold=0.999, **RBF)
    assert "No number restores 0.999" in never.reason
    assert 1 <= never.count <= 3


def test_stability_says_what_its_subspaces_lose() -> None:
    X = Planted("", "factors", 200, 12, 3, 0.5).draw(1)
    found = selection.n_components(X, method="stability")
    j = np.arange(1, len(found.curve["subspace"]) + 1)
    assert_allclose(found.curve["worst"], np.maximum(1 - j * (1 - found.curve["subspace"]), 0))
    assert found.curve["worst"][found.count - 1] >= 0.8
    assert (found.curve["worst"][found.count :] < 0.8).all()
    assert len(j) == 6  # half of all
    noise = np.random.default_rng(0).standard_normal((200, 12))
    assert "No subspace stays" in selection.n_components(noise, method="stability").reason


def test_parallel_keeps_one_where_nothing_stands_out() -> None:
    X = np.random.default_rng(0).standard_normal((100, 5))
    for method in ("parallel", "horn"):
        found = selection.n_components(X, method=method, **RBF)
        assert found.count == 1
        assert "no component above chance" in found.reason


# -- what all have in common ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_answers(method: str) -> None:
    X, y = clusters()
    found = selection.n_components(X, y, method=method, max_components=6, resamples=4, permutations=6, **RBF)
    assert isinstance(found, selection.ComponentCount)
    assert 1 <= found.count <= 6
    assert found.reason.endswith(".")
    assert "\n" not in found.reason
    lengths = {len(values) for values in found.curve.values()}
    assert len(lengths) == 1
    assert (np.diff(found.curve["components"]) > 0).all()
    again = selection.n_components(X, y, method=method, max_components=6, resamples=4, permutations=6, **RBF)
    assert again.reason == found.reason
    for name in found.curve:
        assert_array_equal(again.curve[name], found.curve[name])
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.count = 1  # type: ignore[misc]


@pytest.mark.parametrize("method", METHODS)
def test_an_estimator_stands_for_its_parameters(method: str) -> None:
    X, y = clusters()
    options: dict[str, Any] = {"method": method, "max_components": 4, "resamples": 4, "permutations": 6}
    plain = selection.n_components(X, y, **options, **RBF)
    for estimator in (KernelPCA(2, **RBF), KernelPCA("auto", preimage="ridge", **RBF).fit(X)):
        assert selection.n_components(X, y, estimator=estimator, **options).reason == plain.reason
        assert estimator.n_components in (2, "auto")


@pytest.mark.parametrize("method", METHODS)
def test_kinds_of_rows(method: str) -> None:
    X, y = clusters()
    options: dict[str, Any] = {"method": method, "max_components": 4, "resamples": 4, "permutations": 6, **RBF}
    plain = selection.n_components(X, y, **options).count
    assert selection.n_components(pd.DataFrame(X, columns=list("abcde")), pd.Series(y), **options).count == plain
    assert selection.n_components(pl.DataFrame(X), y, **options).count == plain
    assert selection.n_components(X.astype(np.float32), y, **options).count == plain
    assert selection.n_components(X.tolist(), y.tolist(), **options).count == plain
    if method == "reconstruction":
        with pytest.raises(InputError, match="dense rows"):
            selection.n_components(sparse.csr_matrix(X), y, **options)
    else:
        assert selection.n_components(sparse.csr_matrix(X), y, **options).count == plain


@pytest.mark.parametrize("method", ["parallel", "horn", "fraction", "elbow", "reconstruction", "stability"])
def test_rows_in_files(tmp_path: Path, method: str) -> None:
    X, _ = clusters()
    np.save(tmp_path / "rows.npy", X)
    options: dict[str, Any] = {"method": method, "max_components": 4, "resamples": 4, "permutations": 6, **RBF}
    assert selection.n_components(tmp_path / "rows.npy", **options).count == selection.n_components(X, **options).count


@pytest.mark.parametrize("method", METHODS)
def test_samples_of_many_rows(method: str) -> None:
    X, y = clusters()
    found = selection.n_components(X, y, method=method, max_components=3, max_rows=60, resamples=4, cv=3, **RBF)
    assert 1 <= found.count <= 3


@settings(max_examples=25)
@given(seed=st.integers(0, 99), n=st.integers(4, 12), d=st.integers(2, 4), method=st.sampled_from(METHODS))
def test_few_rows(seed: int, n: int, d: int, method: str) -> None:
    X = np.round(np.random.default_rng(seed).standard_normal((n, d)), 1)
    found = selection.n_components(
        X, np.arange(n) % 2 + 0.5 * X[:, 0], method=method, cv=2, resamples=3, permutations=4, seed=seed, **RBF
    )
    assert 1 <= found.count <= n


@pytest.mark.parametrize("method", [method for method in METHODS if method not in ("parallel", "horn")])
def test_one_column(method: str) -> None:
    X = np.random.default_rng(0).standard_normal((40, 1))
    assert selection.n_components(X, X[:, 0] > 0, method=method, **RBF).count >= 1


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.filterwarnings("ignore:All rows are alike")
def test_rows_that_are_all_alike(method: str) -> None:
    X = np.ones((12, 3))
    assert selection.n_components(X, np.arange(12) % 2, method=method, cv=2, **RBF).count >= 1


# -- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"method": "paralel"}, "Did you mean 'parallel'"),
        ({"max_components": 0}, "max_components must be a whole number from 1"),
        ({"fraction": 1.5}, "fraction must be a number between 0 and 1"),
        ({"threshold": 0}, "threshold must be a number between 0 and 1"),
        ({"method": "knn"}, "must have y"),
        ({"method": "knn", "y": [1, 2]}, "one entry per row"),
        ({"method": "knn", "y": [np.nan] * 120}, "y must be finite"),
        ({"method": "knn", "y": [0, 1] * 60, "cv": 1}, "from 2 folds"),
        ({"estimator": KernelPCA(), "kernel": "rbf"}, "got kernel as well"),
        ({"estimator": "rbf"}, "estimator must be a KernelPCA"),
        ({"gama": 1.0}, "gama is no parameter"),
        ({"n_components": 3}, "n_components is no parameter"),
        ({"resamples": 1}, "resamples must be a whole number from 2"),
        ({"kernel": "rfb"}, "Did you mean 'rbf'"),
    ],
)
def test_refusals(given: dict[str, Any], message: str) -> None:
    X, _ = clusters()
    with pytest.raises(InputError, match=message):
        selection.n_components(X, **given)


@pytest.mark.parametrize("method", METHODS)
def test_refused_data(method: str) -> None:
    X, y = clusters()
    X[3, 2] = np.nan
    with pytest.raises(InputError, match="finite"):
        selection.n_components(X, y, method=method, **RBF)
    with pytest.raises(InputError):
        selection.n_components(X[:1, :2], y[:1], method=method, **RBF)
    if method in ("parallel", "horn"):
        with pytest.raises(InputError, match="at least 2 columns"):
            selection.n_components(X[:, :1], method=method)


@pytest.mark.parametrize("method", ["parallel", "horn", "reconstruction", "stability"])
def test_a_precomputed_matrix_has_no_rows(method: str) -> None:
    with pytest.raises(InputError, match="has none"):
        selection.n_components(np.eye(5), method=method, kernel="precomputed")


def test_precomputed_spectra() -> None:
    X, _ = clusters()
    K = np.exp(-0.01 * ((X[:, None] - X[None]) ** 2).sum(axis=-1))
    for method in ("fraction", "elbow"):
        there = selection.n_components(K, method=method, kernel="precomputed")
        assert there.count == selection.n_components(X, method=method, kernel="rbf", gamma=0.01).count
