"""A whole search: what it promises for each way to ask for it, and for data that one would rather not get."""

import doctest
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import make_circles
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, LeaveOneOut, ShuffleSplit, StratifiedKFold
from threadpoolctl import threadpool_limits

import kpca
from kpca import kernels, selection
from kpca._base.errors import InputError
from kpca.selection import tuning
from kpca.selection.trials import NAMES

RNG = np.random.default_rng(4)
X = RNG.normal(size=(40, 3)) * [3.0, 2.0, 1.0]
Y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 1)
FEW = {"kernels": {"linear": None, "rbf": 4}, "n_components": [1, 2]}


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def checked(found: selection.Tuning) -> selection.Tuning:
    """What holds for every outcome."""
    scores = [entry["score"] for entry in found.table]
    assert np.isfinite(scores).all() and np.isfinite(found.best_score)
    assert scores == sorted(scores, reverse=True)
    chosen = {**found.best_params, "score": found.best_score}
    assert any(all(_same(entry.get(key), value) for key, value in chosen.items()) for entry in found.table)
    assert found.best_score <= scores[0]
    assert found.best_params.items() <= found.best_estimator.get_params().items()
    assert found.to_dicts() == list(found.table)
    text = str(found)
    assert text.startswith(found.reason) and "nan" not in text
    assert found.reason.endswith(".")
    return found


def _same(a, b) -> bool:
    return a is b or bool(np.array_equal(a, b))


# -- what comes out ---------------------------------------------------------------------------------------------------


def test_circles_want_a_curved_kernel() -> None:
    rows, y = make_circles(150, factor=0.6, noise=0.05, random_state=0)
    found = checked(selection.tune(rows, y, n_components=1))
    assert found.best_params["kernel"] != "linear"
    linear = next(entry for entry in found.table if entry["kernel"] == "linear")
    assert found.best_score > linear["score"] + 0.1


def test_the_result_is_fitted_to_all_rows_with_the_kernel_that_was_tried() -> None:
    found = checked(selection.tune(X, kernels={"rbf": 3}, n_components=[2]))
    model = found.best_estimator
    assert model.X_fit_.shape == X.shape
    assert model.kernel_ in [trial.candidate.kernel for trial in found.trials]
    alone = kpca.KernelPCA(**found.best_params).fit(X)
    assert np.array_equal(model.transform(X), alone.transform(X))
    assert found.criterion == "reconstruction" and found.complete and found.seconds > 0


@pytest.mark.parametrize("parameters", [{"degree": 5, "coef0": 2.0}, {"gamma": 0.3}, {"gamma": "scale"}])
@pytest.mark.parametrize("grid", [{"gamma": [0.1]}, {"degree": [2]}, {"coef0": [0.5]}, {}])
def test_parameters_of_the_estimator_are_tried_as_they_will_be_used(parameters, grid) -> None:
    estimator = kpca.KernelPCA(kernel="poly", **parameters)
    found = checked(selection.tune(X, kernels={"poly": grid}, n_components=2, estimator=estimator))
    tried, used = found.trials[0].candidate.kernel, found.best_estimator.kernel_
    assert tried == used
    for name, value in {**{key: one for key, one in parameters.items() if one != "scale"}}.items():
        assert getattr(used, name) == (grid[name][0] if name in grid else value)


def test_arguments_of_functions_are_tried_as_they_will_be_used() -> None:
    def power(A, B, exponent=1):
        return (A @ B.T) ** exponent

    estimator = kpca.KernelPCA(kernel_params={"exponent": 3})
    found = checked(selection.tune(X, kernels=power, n_components=2, estimator=estimator))
    assert found.trials[0].candidate.kernel == found.best_estimator.kernel_
    assert found.best_estimator.kernel_.params == {"exponent": 3}


@pytest.mark.parametrize("criterion", [*NAMES, "accuracy", "neg_log_loss"])
def test_every_criterion(criterion: str) -> None:
    found = checked(selection.tune(X, Y, criterion=criterion, **FEW))
    assert found.criterion == criterion
    assert found.best_params["n_components"] in FEW["n_components"]


def test_a_predictor_of_the_user() -> None:
    found = checked(selection.tune(X, Y, criterion="accuracy", predictor=LogisticRegression(), **FEW))
    assert "LogisticRegression" in found.reason


@pytest.mark.parametrize(
    "wanted",
    [
        "linear",
        ["rbf", "cosine"],
        {"rbf": 3, "poly": [2, 3]},
        {"poly": {"degree": [2], "gamma": [0.1, 0.2]}},
        [kernels.RBF(0.1), kernels.RBF(0.1) + kernels.Linear()],
        lambda A, B: A @ B.T,
        list(kernels.NAMES),
        {"rbf": {"gamma": [[0.1, 0.2, 0.3], 0.1]}},
    ],
)
def test_every_way_to_name_kernels(wanted) -> None:
    checked(selection.tune(np.abs(X), kernels=wanted, bandwidths=2, n_components=[1, 2]))


@pytest.mark.parametrize(
    "cv",
    [
        2,
        np.int64(5),
        40,
        None,
        KFold(4),
        LeaveOneOut(),
        ShuffleSplit(3, test_size=0.3, random_state=0),
        [(np.arange(20), np.arange(20, 40))],
        [(list(range(30)), list(range(30, 40))), (list(range(10, 40)), list(range(10)))],
        [(np.arange(40) < 20, np.arange(40) >= 20)],
        ((fit, held_out) for fit, held_out in KFold(3).split(X)),
    ],
)
def test_every_way_to_say_folds(cv) -> None:
    checked(selection.tune(X, cv=cv, kernels=["linear"], n_components=[1, 2]))


def test_folds_of_classes_keep_their_shares() -> None:
    found = selection.tune(X, Y, cv=3, **FEW)
    own = selection.tune(X, Y, cv=StratifiedKFold(3, shuffle=True, random_state=_seed(0)), **FEW)
    assert found.table[0]["score"] == own.table[0]["score"]


def _seed(random_state: int) -> int:
    return int(np.random.RandomState(random_state).randint(2**31 - 1))


def test_folds_say_how_many_components_there_can_be() -> None:
    rows = RNG.normal(size=(100, 90))
    found = selection.tune(rows, kernels="linear", n_components=[1, 80], cv=KFold(10))
    assert {entry["n_components"] for entry in found.table} == {1, 80}
    for cv, most in ((KFold(10), 89), (3, 65), ([(np.arange(10), np.arange(10, 100))], 9)):
        with pytest.raises(InputError, match=f"from 1 to {most} "):
            selection.tune(rows, kernels="linear", n_components=most + 1, cv=cv)


@pytest.mark.parametrize(
    "estimator",
    [
        kpca.KernelPCA(preimage="ridge"),
        kpca.KernelPCA(fit_inverse_transform=True),
        kpca.KernelPCA(approximation=kpca.Nystroem(10)),
        kpca.KernelPCA(approximation=kpca.RandomFeatures(64)),
        kpca.KernelPCA(center=False),
        kpca.KernelPCA(n_jobs=2, tol=1e-4, eigen_solver="dense"),
        kpca.KernelPCA(5, kernel="precomputed"),
    ],
)
def test_other_parameters_are_kept(estimator) -> None:
    before = estimator.get_params()
    found = checked(selection.tune(X, estimator=estimator, kernels={"rbf": 3}, n_components=2))
    kept = ("preimage", "fit_inverse_transform", "center", "n_jobs", "tol", "eigen_solver")
    assert all(getattr(found.best_estimator, name) == before[name] for name in kept)
    assert repr(found.best_estimator.approximation) == repr(before["approximation"])
    assert estimator.get_params() == before and not hasattr(estimator, "eigenvalues_")
    if found.best_estimator.preimage or found.best_estimator.fit_inverse_transform:
        assert found.best_estimator.inverse_transform(found.best_estimator.transform(X)).shape == X.shape


def test_without_a_last_fit() -> None:
    found = checked(selection.tune(X, refit=False, **FEW))
    assert not hasattr(found.best_estimator, "eigenvalues_")


def test_a_sample_is_searched_and_all_rows_are_fitted() -> None:
    rows = RNG.normal(size=(200, 3))
    found = checked(selection.tune(rows, max_rows=50, **FEW))
    assert {entry["rows"] for entry in found.table} == {50}
    assert found.best_estimator.X_fit_.shape == (200, 3)
    with pytest.raises(InputError, match="sampled"):
        selection.tune(rows, max_rows=50, cv=[(np.arange(20), np.arange(20, 40))], **FEW)


def test_rows_in_a_file(tmp_path) -> None:
    rows = RNG.normal(size=(200, 3))
    np.save(tmp_path / "rows.npy", rows)
    found = checked(selection.tune(tmp_path / "rows.npy", max_rows=60, **FEW))
    assert found.table[0]["rows"] == 60
    assert found.best_estimator.X_fit_.shape == (200, 3)
    with pytest.raises(InputError, match="Labels"):
        selection.tune(tmp_path / "rows.npy", np.zeros(200), **FEW)
    with pytest.raises(InputError, match="cv must be"):
        selection.tune(tmp_path / "rows.npy", cv=[(np.arange(5), np.arange(5, 9))], **FEW)


@pytest.mark.parametrize("rule", ["best", "one_se"])
def test_rules(rule: str) -> None:
    found = checked(selection.tune(X, rule=rule))
    if rule == "best":
        assert found.best_score == found.table[0]["score"]
        assert "the best of" in found.reason


def test_the_reason_names_what_failed() -> None:
    found = checked(selection.tune(X, kernels=["chi2", "linear", "histogram_intersection"], n_components=2))
    assert found.best_params["kernel"] == "linear"
    assert "2 could not be tried" in found.reason and "0 or above" in found.reason


def test_different_variances_are_not_compared_in_silence() -> None:
    assert "within one kind" in selection.tune(X, criterion="variance", **FEW).reason
    assert "within one kind" not in selection.tune(X, criterion="reconstruction", **FEW).reason


def test_the_advice_to_widen_a_grid() -> None:
    rows, y = make_circles(150, factor=0.6, noise=0.05, random_state=0)
    found = selection.tune(rows, y, kernels={"rbf": [1e-3, 1e-2, 10.0]}, n_components=1, rule="best")
    assert found.best_params["gamma"] == 10.0 and "largest" in found.reason
    assert "largest" not in selection.tune(X, kernels={"rbf": [1e-3, 1e-2, 50.0]}, n_components=2).reason


# -- it repeats -------------------------------------------------------------------------------------------------------


@settings(max_examples=6)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["reconstruction", "knn", "variance", "stability", "parallel"]))
def test_a_seed_gives_the_same_search(seed: int, criterion: str) -> None:
    one, two = (
        selection.tune(X, Y, criterion=criterion, random_state=seed, refit=False, max_rows=30, **FEW) for _ in range(2)
    )
    assert _without_time(one) == _without_time(two)


def _without_time(found: selection.Tuning) -> list[dict]:
    return [{key: value for key, value in entry.items() if key != "seconds"} for entry in found.table]


@pytest.mark.slow
@pytest.mark.parametrize("rows", ["random", "repeated", "csr"])
def test_bits_do_not_depend_on_threads(rows: str) -> None:
    data = np.random.default_rng(0).normal(size=(700, 4))
    y = (data[:, 0] > 0).astype(int)
    if rows == "repeated":
        data = np.round(data[:, :2])
    if rows == "csr":
        data = sparse.csr_matrix(np.where(data > 0.5, data, 0.0))
    outcomes = []
    for threads in (1, 2, 3):
        with kpca.config(threads=threads), threadpool_limits(threads):
            for labels in (None, y):
                found = selection.tune(data, labels, kernels={"linear": None, "rbf": 3}, n_components=[1, 2, 4])
                scores = found.best_estimator.transform(data)
                outcomes.append((labels is None, _without_time(found), found.best_params, scores))
    for unlabelled, table, params, scores in outcomes[2:]:
        first = outcomes[0 if unlabelled else 1]
        assert table == first[1] and params == first[2]
        assert np.array_equal(scores, first[3])


def test_rows_and_labels_are_left_alone() -> None:
    rows, y = X.copy(), Y.copy()
    rows.flags.writeable = y.flags.writeable = False
    selection.tune(rows, y, **FEW)
    csr = sparse.csr_matrix(X)
    before = csr.copy()
    selection.tune(csr, **FEW)
    assert np.array_equal(rows, X) and np.array_equal(y, Y)
    assert (csr != before).nnz == 0 and np.array_equal(csr.indices, before.indices)


# -- data one would rather not get ------------------------------------------------------------------------------------

HOSTILE = {
    "one feature": X[:, :1],
    "constant column": np.column_stack([X, np.full(40, 0.1)]),
    "repeated": np.repeat(X[:5], 8, axis=0),
    "two different": np.repeat(X[:2], 20, axis=0),
    "float32": X.astype(np.float32),
    "offset": X + 1e6,
    "offset float32": (X + 1e6).astype(np.float32),
    "tiny": X * 1e-12,
    "huge": X * 1e12,
    "tiny float32": (X * 1e-12).astype(np.float32),
    "huge float32": (X * 1e12).astype(np.float32),
    "1e100": X * 1e100,
    "1e-170": X * 1e-170,
    "far out": np.vstack([X, [[1e8, 0.0, 0.0]]]),
    "whole": (X * 10).astype(int),
    "bools": X > 0,
    "wide": RNG.normal(size=(12, 200)),
    "csr": sparse.random(60, 20, density=0.2, format="csr", random_state=0),
    "csc float32": sparse.random(60, 20, density=0.2, format="csc", random_state=0, dtype=np.float32),
    "csr array": sparse.csr_array(X),
    "pandas": pd.DataFrame(X, columns=["a", "b", "c"]),
    "polars": pl.DataFrame(X, schema=["a", "b", "c"]),
    "list": X.tolist(),
    "3 rows": X[:3],
    "4 rows": X[:4],
    "5 rows": X[:5],
}


@pytest.mark.parametrize("name", HOSTILE)
def test_data(name: str) -> None:
    rows = HOSTILE[name]
    found = checked(selection.tune(rows, bandwidths=4))
    n = len(rows) if isinstance(rows, list) else rows.shape[0]
    assert found.best_estimator.transform(rows).shape == (n, found.best_params["n_components"])


@pytest.mark.parametrize("criterion", ["knn", "variance", "gap", "parallel", "stability", "accuracy"])
@pytest.mark.parametrize("n", [3, 4, 5])
def test_very_few_rows(n: int, criterion: str) -> None:
    checked(selection.tune(X[:n], Y[:n], criterion=criterion, kernels={"linear": None, "rbf": 3}))


def test_names_of_columns_are_kept() -> None:
    found = selection.tune(HOSTILE["pandas"], **FEW)
    assert list(found.best_estimator.feature_names_in_) == ["a", "b", "c"]


@pytest.mark.parametrize("kernel", kernels.NAMES)
def test_every_kernel_beside_the_linear_one(kernel: str) -> None:
    for rows in (X, sparse.csr_matrix(X)):
        found = checked(selection.tune(rows, kernels=["linear", kernel], bandwidths=2, n_components=[1, 20, 25]))
        assert found.best_params["n_components"] in (1, 20, 25)


@pytest.mark.parametrize(
    "rows",
    [
        np.where(X > 4, np.nan, X),
        np.where(X > 4, np.inf, X),
        np.array([["a", "b"]] * 10),
        pd.DataFrame({"a": ["x"] * 9, "b": range(9)}),
        pl.DataFrame({"a": ["x"] * 9, "b": range(9)}),
        pd.DataFrame({"a": pd.array([1, None, 3] * 4, dtype="Int64")}),
        X + 1j,
        X[:1],
        X[:2],  # fewer than folds
        np.empty((0, 3)),
        np.empty((10, 0)),
        np.full((30, 2), 0.1),
        np.zeros((30, 2)),
        sparse.csr_matrix((30, 4)),
        X * 1e200,
        "no such file.npy",
        None,
    ],
)
def test_data_that_cannot_be_searched_is_one_sentence(rows) -> None:
    with pytest.raises(InputError) as caught:
        selection.tune(rows)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "wrong",
    [
        {"cv": 1},
        {"cv": 41},
        {"cv": True},
        {"cv": "five"},
        {"cv": 2.5},
        {"cv": KFold},
        {"cv": []},
        {"cv": [1, 2]},
        {"cv": StratifiedKFold(3)},  # there are no classes
        {"cv": [(np.arange(40), np.arange(0))]},
        {"cv": [(np.arange(0), np.arange(40))]},
        {"cv": [(np.arange(20), np.arange(35, 45))]},
        {"cv": [(np.arange(20), np.array([-1]))]},
        {"cv": [(np.arange(20.0), np.arange(20.0, 40.0))]},
        {"cv": [(np.arange(3),) * 3]},
        {"cv": [(np.zeros(10, int), np.arange(10, 40))]},  # one row, ten times
        {"n_components": 0},
        {"n_components": 26},
        {"n_components": [1, 100]},
        {"n_components": []},
        {"n_components": True},
        {"n_components": 0.9},
        {"n_components": "auto"},
        {"kernels": []},
        {"kernels": "chi2"},
        {"kernels": {"rbf": [0.0]}},
        {"criterion": "knn"},
        {"criterion": "nope"},
        {"predictor": LogisticRegression()},
        {"bandwidths": 0},
        {"bandwidths": 2.0},
        {"max_rows": 3},
        {"max_rows": None},
        {"rule": "two_se"},
        {"budget": "soon"},
        {"random_state": "a"},
        {"random_state": -1},
        {"estimator": 3},
        {"estimator": kpca.IncrementalKernelPCA()},
        {"estimator": kpca.KernelPCA},
        {"estimator": kpca.KernelPCA(tol=-1)},
        {"estimator": kpca.KernelPCA(preimage="nope")},
        {"estimator": kpca.KernelPCA(approximation="nope")},
        {"estimator": kpca.KernelPCA(n_jobs=0)},
        {"X": sparse.csr_matrix(X), "estimator": kpca.KernelPCA(preimage="ridge")},
        {"y": Y[:-1]},
        {"y": np.where(np.arange(40) == 3, np.nan, X[:, 0])},
        {"y": X[:, 0], "criterion": lambda model, scores, y: float("nan")},
        {"y": X[:, 0], "criterion": lambda model, scores, y: float("inf")},
    ],
)
def test_what_is_asked_for_wrongly_is_one_sentence(wrong) -> None:
    with pytest.raises(InputError) as caught:
        selection.tune(**{"X": X, "kernels": {"linear": None, "rbf": 2}, **wrong})
    assert "\n" not in str(caught.value)


def test_parameters_of_the_result_are_looked_at_before_the_search() -> None:
    heard = []
    with kpca.config(progress=heard.append), pytest.raises(InputError):
        selection.tune(X, estimator=kpca.KernelPCA(preimage="nope"), **FEW)
    assert heard == []


def test_errors_in_a_scorer_are_the_users_own() -> None:
    with pytest.raises(ZeroDivisionError):
        selection.tune(X, Y, criterion=lambda model, scores, y: 1 / 0, **FEW)


def test_little_memory() -> None:
    rows = np.random.default_rng(0).normal(size=(1500, 10))
    whole = selection.tune(rows, **FEW)
    with kpca.config(memory_limit="50MiB"):
        little = checked(selection.tune(rows, **FEW))
    assert _without_time(little) == _without_time(whole)
    with kpca.config(memory_limit="1MiB"), pytest.raises(InputError, match="memory"):
        selection.tune(rows, **FEW)


# -- progress ---------------------------------------------------------------------------------------------------------


def test_a_callback_hears_of_each_trial() -> None:
    heard = []
    with kpca.config(progress=heard.append):
        found = selection.tune(X, **FEW)
    steps = [state for state in heard if "trial" in state]
    assert [(state["trial"], state["of"]) for state in steps] == [(i, 5) for i in range(1, 6)]
    assert [state["label"] for state in steps] == [trial.candidate.label for trial in found.trials]
    assert steps[-1]["score"] == found.table[0]["score"]
    assert all(state["elapsed"] >= 0 and state["remaining"] >= 0 for state in steps)


def test_a_callback_may_stop() -> None:
    def raising(state) -> None:
        raise kpca.Cancelled("enough")

    for callback in (lambda state: False, raising):
        for budget in (None, 60):
            with kpca.config(progress=callback), pytest.raises(kpca.Cancelled):
                selection.tune(X, budget=budget, **FEW)


def test_lines_are_printed(capfd) -> None:
    with kpca.config(progress=True):
        selection.tune(X, **FEW)
    said = capfd.readouterr().err
    assert "trial 5 of 5" in said and "pass" not in said


def test_the_example_in_the_documentation() -> None:
    failed, tried = doctest.testmod(tuning)
    assert tried and not failed
