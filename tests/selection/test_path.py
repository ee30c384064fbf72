"""Paths over a parameter against fits one by one, and what they are asked for in the wrong way."""

import doctest
import importlib
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.model_selection import KFold

import kpca
from kpca import selection
from kpca._base.errors import InputError
from kpca.estimators.cost import Request
from kpca.estimators.warm_start import Follower
from kpca.kernels import RBF

path_module = importlib.import_module("kpca.selection.path")  # the package has a function of that name
RNG = np.random.default_rng(2)
X = RNG.normal(size=(70, 4)) * [3.0, 2.0, 1.0, 1.0]
POSITIVE = np.abs(X)
CASES = {
    "rbf": {"grid": [0.01, 0.1, 1.0]},
    "laplacian": {"grid": [0.02, 0.2]},
    "matern32": {"grid": [0.02, 0.2]},
    "chi2": {"grid": [0.1, 1.0]},
    "poly": {"grid": [1, 2, 3], "gamma": 0.1, "coef0": 1.0},
    "sigmoid": {"grid": [1e-3, 1e-2], "coef0": 0.0},
}
KINDS = {
    "float64": POSITIVE,
    "float32": POSITIVE.astype(np.float32),
    "csr": sparse.csr_matrix(np.where(POSITIVE > 0.3, POSITIVE, 0.0)),
}


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


# -- truth ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("kernel", CASES)
def test_each_value_is_what_a_fit_of_its_own_would_say(kernel: str, kind: str) -> None:
    rows, case = KINDS[kind], dict(CASES[kernel])
    if kernel == "chi2" and kind == "csr":
        with pytest.raises(InputError, match="dense array"):
            selection.path(rows, kernel, **case)
        return
    found = selection.path(rows, kernel, n_components=4, tol=1e-10, **case)
    whole = (rows.toarray() if sparse.issparse(rows) else rows).astype(np.float64)
    linear = whole @ whole.T
    digits = 2e-4 if kind == "float32" else 1e-7
    for i, value in enumerate(case.pop("grid")):
        K = reference.kernel_values(kernel, whole, whole, **{**case, found.parameter: value})
        values = reference.spectrum(reference.centred(K))[0]
        k = min(4, int((values > 1e-6 * values[0]).sum()))
        assert np.allclose(found.eigenvalues[i, :k], values[:k], atol=digits * values[0])
        assert np.allclose(found.explained_variance_ratio[i, :k], values[:k] / values.sum(), atol=digits)
        assert found.participation[i] == pytest.approx(reference.participation(K), rel=10 * digits)
        assert found.alignment[i] == pytest.approx(reference.alignment(K, linear), abs=digits)


@pytest.mark.parametrize("criterion", ["reconstruction", "variance", "knn", "accuracy", "gap", "parallel", "stability"])
def test_scores_are_those_of_a_search(criterion: str) -> None:
    y = (X[:, 0] > 0).astype(int)
    options = {"criterion": criterion, "cv": KFold(4, shuffle=True, random_state=0)}
    labels = y if criterion in ("knn", "accuracy") else None
    grid = [0.01, 0.05, 0.25]
    found = selection.path(X, "rbf", grid=grid, n_components=3, y=labels, **options)
    searched = selection.tune(X, labels, kernels={"rbf": grid}, n_components=3, refit=False, **options)
    by_gamma = {entry["gamma"]: entry for entry in searched.table}
    assert np.allclose(found.scores, [by_gamma[gamma]["score"] for gamma in grid])
    errors = [by_gamma[gamma]["standard_error"] for gamma in grid]
    if errors[0] is None:
        assert np.isnan(found.standard_errors).all()
    else:
        assert np.allclose(found.standard_errors, errors)
    assert found.best_value == grid[found.best] == max(by_gamma, key=lambda gamma: by_gamma[gamma]["score"])
    assert str(found).count("*") == 1


def test_without_centring() -> None:
    found = selection.path(X, "rbf", grid=[0.1], n_components=3, center=False, tol=1e-10)
    K = reference.kernel_values("rbf", X, X, gamma=0.1)
    assert np.allclose(found.eigenvalues[0], reference.spectrum(K)[0][:3])
    assert found.alignment[0] == pytest.approx(np.sum(K * (X @ X.T)) / np.linalg.norm(K) / np.linalg.norm(X @ X.T))


# -- properties -------------------------------------------------------------------------------------------------------


@settings(max_examples=15)
@given(st.integers(0, 2**32 - 1), st.floats(-100, 100), st.sampled_from(["rbf", "laplacian"]))
def test_the_place_and_the_order_of_rows_do_not_matter(seed: int, shift: float, kernel: str) -> None:
    order = np.random.default_rng(seed).permutation(len(X))
    here, there = (selection.path(rows, kernel, grid=[0.05, 0.2], n_components=3) for rows in (X, X[order] + shift))
    assert np.allclose(here.eigenvalues, there.eigenvalues, rtol=1e-6)
    assert np.allclose(here.participation, there.participation, rtol=1e-6)
    assert np.allclose(here.alignment, there.alignment, atol=1e-6)


def test_narrower_is_richer_and_less_linear() -> None:
    found = selection.path(X, "rbf")
    assert len(found.values) == 30
    assert (np.diff(found.values) > 0).all()
    assert (np.diff(found.participation) > 0).all()
    assert found.alignment[0] > 0.999 and (np.diff(found.alignment) < 1e-9).all()


def test_bits_repeat_whatever_the_threads() -> None:
    rows = RNG.normal(size=(900, 5))
    runs = []
    for threads in (1, 2, 2):
        with kpca.config(threads=threads):
            runs.append(selection.path(rows, "rbf", grid=5, n_components=3, criterion="reconstruction"))
    for one in runs[1:]:
        for name in ("values", "eigenvalues", "participation", "alignment", "scores", "standard_errors"):
            assert np.array_equal(getattr(runs[0], name), getattr(one, name), equal_nan=True), name


def test_the_order_and_repetition_of_values_do_not_matter() -> None:
    first = selection.path(X, "rbf", grid=[0.1, 1.0, 0.1])
    second = selection.path(X, "rbf", grid=iter([1.0, 0.1]))
    assert np.array_equal(first.values, [0.1, 1.0])
    assert np.array_equal(first.eigenvalues, second.eigenvalues)


def test_as_plain_data() -> None:
    found = selection.path(X, "poly", grid=[1, 2], n_components=2, criterion="reconstruction")
    entries = found.to_dicts()
    assert [entry["degree"] for entry in entries] == [1.0, 2.0]
    assert set(entries[0]) == {
        "degree",
        "participation",
        "alignment",
        "eigenvalues",
        "explained_variance_ratio",
        "score",
    }
    assert all(isinstance(entry["score"], float) for entry in entries)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames(frame) -> None:
    found = selection.path(frame({f"c{i}": X[:, i] for i in range(4)}), grid=[0.1, 1.0])
    assert np.allclose(found.eigenvalues, selection.path(X, grid=[0.1, 1.0]).eigenvalues, rtol=1e-12)


def test_rows_are_left_alone() -> None:
    rows = X.copy()
    rows.flags.writeable = False
    selection.path(rows, "rbf", grid=4, criterion="reconstruction", n_components=2)
    assert np.array_equal(rows, X)


# -- few rows, few components -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [3, 4, 5, 7])
def test_few_rows_are_judged_with_the_components_there_are(n: int) -> None:
    found = selection.path(X[:n], "rbf", criterion="reconstruction")
    assert found.eigenvalues.shape == (30, n - 1)
    assert np.isfinite(found.scores).all()
    assert 0 <= found.best < 30


def test_degrees_of_low_rank_have_a_score() -> None:
    found = selection.path(X[:, :2], "poly", criterion="reconstruction")
    assert np.isfinite(found.scores).all()
    assert np.isnan(found.eigenvalues[0, 2:]).all() or np.allclose(found.eigenvalues[0, 2:], 0)


@pytest.mark.parametrize(
    "rows",
    [
        X[:, :1],
        np.column_stack([X, np.ones(70)]),
        np.repeat(X[:7], 10, axis=0),
        X + 1e6,
        X * 1e-12,
        X * 1e12,
        X * 1e100,
        (X * 1e12).astype(np.float32),
        np.vstack([X, [[1e8, 0, 0, 0]]]),
        X > 0,
    ],
)
def test_rows_as_they_come(rows) -> None:
    found = selection.path(rows, "rbf", grid=5, n_components=2, criterion="reconstruction")
    assert np.isfinite(found.scores).all()
    assert np.isfinite(found.participation).all()
    assert ((found.alignment > 0) & (found.alignment <= 1 + 1e-9)).all()


@pytest.mark.parametrize("rows", [np.ones((20, 2)) * 0.1, np.zeros((20, 2)), sparse.csr_matrix((20, 3))])
def test_rows_that_are_all_alike_have_no_best_value(rows) -> None:
    found = selection.path(rows, "rbf", grid=3, n_components=2, criterion="reconstruction")
    assert np.isnan(found.scores).all()
    assert "*" not in str(found)
    with pytest.raises(InputError, match="no best value without a finite score"):
        found.best  # noqa: B018
    with pytest.raises(InputError, match="without a criterion"):
        selection.path(X, grid=[1.0]).best_value  # noqa: B018


# -- asked for in the wrong way ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        {"kernel": "linear"},
        {"kernel": "cosine"},
        {"kernel": "nope"},
        {"kernel": RBF(1.0)},
        {"kernel": "chi2"},  # negative rows
        {"kernel": "poly", "grid": [2.5]},
        {"kernel": "sigmoid", "grid": [10.0], "coef0": -3.0, "n_components": 60},
        {"grid": ["a"]},
        {"grid": [None]},
        {"grid": []},
        {"grid": 0},
        {"grid": -1},
        {"grid": True},
        {"grid": 2.5},
        {"grid": [np.nan]},
        {"grid": [0.0, 1.0]},
        {"grid": [-1.0]},
        {"grid": np.ones((2, 2))},
        {"parameter": "coef0"},
        {"parameter": "alpha"},
        {"kernel": "poly", "parameter": "degree", "grid": 0},
        {"parameter": "degree", "grid": [1, 2]},  # rbf has none
        {"gamma": 2.0},
        {"foo": 2.0},
        {"tol": -1.0},
        {"tol": "fine"},
        {"n_components": 0},
        {"n_components": True},
        {"n_components": 2.0},
        {"n_jobs": 0},
        {"max_rows": 0},
        {"max_rows": None},
        {"random_state": "a"},
        {"random_state": -1},
        {"criterion": "knn"},
        {"criterion": "reconstruction", "cv": 1},
        {"criterion": "reconstruction", "cv": []},
        {"criterion": "accuracy", "y": X[:, 0], "grid": 2},
        {"X": np.where(X > 3, np.nan, X)},
        {"X": [["a", "b"]] * 9},
        {"X": X[:1]},
        {"X": X * 1e200},
    ],
)
def test_one_sentence(wrong) -> None:
    with pytest.raises(InputError) as caught:
        selection.path(**{"X": X, **wrong})
    assert "\n" not in str(caught.value)


def test_no_tolerance_is_the_finest() -> None:
    found = selection.path(X, grid=[0.1], tol=0, n_components=3)
    assert found.residuals.max() < 1e-9


def test_a_callback_hears_of_each_value_and_may_stop() -> None:
    heard = []
    with kpca.config(progress=heard.append):
        selection.path(X, grid=[0.1, 1.0], criterion="reconstruction", n_components=2)
    steps = [state for state in heard if "fit" in state]
    assert [(state["fit"], state["of"]) for state in steps] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    with kpca.config(progress=lambda state: False), pytest.raises(kpca.Cancelled):
        selection.path(X, grid=[0.1, 1.0])


def test_a_follower_takes_kernels_that_were_not_announced() -> None:
    follower = Follower([RBF(0.1), RBF(0.2)], X, Request(3, tol=1e-9))
    for gamma in (0.15, 0.9):
        values = reference.spectrum(reference.centred(reference.kernel_values("rbf", X, X, gamma=gamma)))[0][:3]
        assert np.allclose(follower(RBF(gamma)).spectrum.values, values)


def test_the_example_in_the_documentation() -> None:
    failed, tried = doctest.testmod(path_module)
    assert tried and not failed
