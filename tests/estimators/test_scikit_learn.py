"""Changing the import is the whole migration: scikit-learn's own tests, run on our class, and its tools."""

from __future__ import annotations

import importlib.util
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import joblib
import numpy as np
import pytest
import sklearn
import sklearn.decomposition
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_iris, make_circles, make_moons
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from kpca import KernelPCA, kernels

PINNED = "1.9.1"  # the version whose test file must pass as it is


# -- scikit-learn's own file, unmodified ------------------------------------------------------------------------------


@contextmanager
def ours_in_place_of_theirs() -> Iterator[None]:
    """Within the block `from sklearn.decomposition import KernelPCA` gives our class."""
    theirs = sklearn.decomposition.KernelPCA
    sklearn.decomposition.KernelPCA = KernelPCA
    try:
        yield
    finally:
        sklearn.decomposition.KernelPCA = theirs


def load_their_tests() -> ModuleType:
    """Run scikit-learn's test file under another name, with our class in it."""
    file = Path(sklearn.decomposition.__file__).parent / "tests" / "test_kernel_pca.py"
    if not file.is_file():
        raise FileNotFoundError(f"scikit-learn {PINNED} must ship {file}; reinstall it from its wheel.")
    spec = importlib.util.spec_from_file_location("scikit_learn_tests_of_kernel_pca", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with ours_in_place_of_theirs():
        spec.loader.exec_module(module)
    return module


# A missing file is an error of the whole module: nobody should take silence for a pass.
THEIRS = load_their_tests() if sklearn.__version__ == PINNED else None

# Its comment for solver="randomized" calls the expected error "inconsistent with the others": eigenvalues are chosen by
# modulus there. Ours selects by value with every solver: that case alone is left out, and tested the other way round.
SELECTS_BY_MODULUS = "test_precomputed_kernel_not_psd"

if THEIRS is not None:
    THEIR_TESTS = {name: test for name, test in vars(THEIRS).items() if name.startswith("test_")}
    globals().update({name: test for name, test in THEIR_TESTS.items() if name != SELECTS_BY_MODULUS})
    (_solvers,) = [mark for mark in THEIR_TESTS[SELECTS_BY_MODULUS].pytestmark if mark.name == "parametrize"]

    @pytest.mark.parametrize(_solvers.args[0], [solver for solver in _solvers.args[1] if solver != "randomized"])
    def test_precomputed_kernel_not_psd(solver: str) -> None:
        THEIR_TESTS[SELECTS_BY_MODULUS](solver)

    def test_the_case_left_out_expects_an_error_where_ours_fits() -> None:
        with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
            THEIR_TESTS[SELECTS_BY_MODULUS]("randomized")


def test_their_file_was_run_with_our_class() -> None:
    if THEIRS is None:
        pytest.skip(f"The test file of scikit-learn {PINNED} is meant; {sklearn.__version__} is installed.")
    assert THEIRS.KernelPCA is KernelPCA
    assert sklearn.decomposition.KernelPCA is not KernelPCA
    assert len(THEIR_TESTS) >= 20
    assert set(_solvers.args[1]) == {"auto", "dense", "arpack", "randomized"}


@pytest.mark.parametrize("solver", ["auto", "dense", "krylov", "arpack", "randomized"])
def test_indefinite_matrix_is_selected_by_value(solver: str) -> None:
    """Two components of eigenvalues 53, 8, ..., -15 are 53 and 8; by modulus the second would be -15."""
    expected = np.array([53.0, 8.0, 7.0, 5.0, 0.0, -6.0, -15.0])
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(np.column_stack([np.ones(8), rng.standard_normal((8, 7))]))[0][:, 1:]  # orthogonal to 1
    K = (basis * expected) @ basis.T
    K = 0.5 * (K + K.T)
    with pytest.warns(UserWarning, match="not positive semidefinite"):
        fitted = KernelPCA(2, kernel="precomputed", eigen_solver=solver).fit(K)
    assert_allclose(fitted.eigenvalues_, expected[:2], rtol=1e-12)
    with pytest.raises(ValueError, match="There are significant negative eigenvalues"):
        KernelPCA(7, kernel="precomputed", eigen_solver=solver).fit(K)


# -- the estimator contract -------------------------------------------------------------------------------------------


@parametrize_with_checks(
    [
        KernelPCA(),
        KernelPCA(kernel="rbf", n_components=2),
        KernelPCA(kernel="poly"),
        KernelPCA(n_components=0.9, kernel="rbf"),
        KernelPCA(n_components=2, kernel="rbf", approximation="rff"),
    ]
)
def test_estimator_contract(estimator: Any, check: Any) -> None:
    check(estimator)


def test_parameters_are_scikit_learns_with_its_defaults() -> None:
    theirs, ours = sklearn.decomposition.KernelPCA().get_params(), KernelPCA().get_params()
    assert {name: ours.get(name, "missing") for name in theirs} == theirs
    assert list(ours) == sorted(ours) and set(ours) - set(theirs) == {"approximation", "center", "preimage"}


def test_get_and_set_params() -> None:
    model = KernelPCA(3, kernel="rbf", gamma="median")
    assert model.set_params(gamma=0.5, n_components=2) is model
    assert (model.get_params()["gamma"], model.get_params()["n_components"]) == (0.5, 2)
    with pytest.raises(ValueError, match="Invalid parameter 'gama'"):
        model.set_params(gama=1)


@pytest.mark.parametrize(
    "kernel", ["rbf", kernels.RBF(sigma=2.0), kernels.RBF(0.1) + 2 * kernels.Linear()], ids=["name", "object", "sum"]
)
def test_clone(kernel: Any) -> None:
    X = load_iris().data
    model = KernelPCA(2, kernel=kernel, gamma=np.array(0.3)[()]).fit(X)
    copy = clone(model)
    assert not hasattr(copy, "eigenvalues_")
    assert copy.get_params() == model.get_params()
    assert_array_equal(copy.fit(X).transform(X), model.transform(X))


def test_fit_changes_no_parameter() -> None:
    model = KernelPCA(0.9, kernel="rbf", gamma="median", tol=0, random_state=None)
    before = dict(model.get_params())
    model.fit(load_iris().data)
    assert model.get_params() == before


def fitted_models() -> dict[str, tuple[KernelPCA, Any]]:
    """Fitted estimators, each with rows it can transform."""
    X = load_iris().data
    K = X @ X.T
    return {
        "linear": (KernelPCA(2).fit(X), X),
        "rbf": (KernelPCA(2, kernel="rbf", gamma="scale", fit_inverse_transform=True).fit(X), X),
        "object": (KernelPCA(2, kernel=kernels.Matern(1.5, 2.0)).fit(X), X),
        "weights": (KernelPCA(2, kernel="poly").fit(X, sample_weight=np.arange(150) % 3), X),
        "precomputed": (KernelPCA(2, kernel="precomputed").fit(K), K),
        "float32": (KernelPCA(2, kernel="rbf").fit(X.astype(np.float32)), X.astype(np.float32)),
    }


@pytest.mark.parametrize("name", list(fitted_models()))
def test_pickle_and_joblib_round_trips_keep_every_bit(name: str, tmp_path: Path) -> None:
    model, rows = fitted_models()[name]
    joblib.dump(model, tmp_path / "model.joblib")
    for copy in (pickle.loads(pickle.dumps(model)), joblib.load(tmp_path / "model.joblib")):
        assert_array_equal(copy.transform(rows), model.transform(rows))
        assert copy.transform(rows).dtype == model.transform(rows).dtype
        if model.fit_inverse_transform:
            scores = model.transform(rows[:5])
            assert_array_equal(copy.inverse_transform(scores), model.inverse_transform(scores))


# -- frames -----------------------------------------------------------------------------------------------------------


def test_feature_names_out() -> None:
    model = KernelPCA(3, kernel="rbf").fit(load_iris().data)
    assert list(model.get_feature_names_out()) == ["kernelpca0", "kernelpca1", "kernelpca2"]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_output_follows_set_output(library: str) -> None:
    frames = pytest.importorskip(library)
    X = load_iris().data
    frame = frames.DataFrame({name: X[:, i] for i, name in enumerate("abcd")})
    model = KernelPCA(2, kernel="rbf").set_output(transform=library)
    for scores in (model.fit_transform(frame), model.transform(frame)):
        assert isinstance(scores, frames.DataFrame)
        assert list(scores.columns) == ["kernelpca0", "kernelpca1"]
    assert list(model.feature_names_in_) == list("abcd")
    plain = KernelPCA(2, kernel="rbf").fit(X).transform(X)
    assert_allclose(np.asarray(model.transform(frame)), plain, rtol=0, atol=1e-12)


@pytest.mark.parametrize("weight", [2.0, 0.0], ids=["positive", "with-zeros"])
def test_pandas_index_survives(weight: float) -> None:
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(load_iris().data, index=[f"flower {i}" for i in range(150)])
    weights = np.ones(150)
    weights[::3] = weight
    scores = KernelPCA(2, kernel="rbf").set_output(transform="pandas").fit_transform(X, sample_weight=weights)
    assert list(scores.index) == list(X.index)
    assert not scores.isna().any(axis=None)


def test_column_transformer() -> None:
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(load_iris().data, columns=list("abcd"))
    parts = ColumnTransformer([("kpca", KernelPCA(2, kernel="rbf"), ["a", "b", "c"]), ("rest", "passthrough", ["d"])])
    table = parts.fit_transform(X)
    assert list(parts.get_feature_names_out()) == ["kpca__kernelpca0", "kpca__kernelpca1", "rest__d"]
    assert_allclose(table[:, :2], KernelPCA(2, kernel="rbf").fit_transform(X[["a", "b", "c"]]), rtol=0, atol=1e-12)


# -- pipelines and searches -------------------------------------------------------------------------------------------


def test_pipeline() -> None:
    X, y = make_circles(n_samples=400, factor=0.3, noise=0.05, random_state=0)
    pipeline = make_pipeline(StandardScaler(), KernelPCA(2, kernel="rbf", gamma=1.0), LogisticRegression())
    assert pipeline.fit(X[:300], y[:300]).score(X[300:], y[300:]) == 1.0
    assert list(pipeline[:2].get_feature_names_out()) == ["kernelpca0", "kernelpca1"]


def test_half_moons_number_from_outside() -> None:
    """Gaussian kernel, gamma = 15, two components: .86 on the raw data, 1.00 on the scores."""
    X, y = make_moons(100, random_state=123)
    scores = KernelPCA(2, kernel="rbf", gamma=15).fit_transform(X)
    assert LogisticRegression().fit(X, y).score(X, y) < 0.9
    assert LogisticRegression(C=1e3).fit(scores, y).score(scores, y) == 1.0


@pytest.mark.parametrize(
    ("parameter", "values"),
    [
        ("kpca__gamma", [0.01, 1.0, "median", "scale", None]),
        ("kpca__kernel", ["linear", "rbf", "laplacian", kernels.RBF(2.0), kernels.Matern(2.5, 1.0)]),
        ("kpca__n_components", [2, 3, 0.5]),
        ("kpca__eigen_solver", ["dense", "krylov"]),
    ],
)
def test_grid_search(parameter: str, values: list[Any]) -> None:
    X, y = make_circles(n_samples=120, factor=0.3, noise=0.05, random_state=0)
    pipeline = Pipeline([("kpca", KernelPCA(2, kernel="rbf", gamma=2.0)), ("classifier", LogisticRegression())])
    search = GridSearchCV(pipeline, {parameter: values}, cv=3, error_score="raise").fit(X, y)
    assert search.best_score_ > 0.9
    assert [params[parameter] for params in search.cv_results_["params"]] == values


def test_grid_search_over_a_precomputed_matrix_cuts_rows_and_columns() -> None:
    X, y = make_circles(n_samples=120, factor=0.3, noise=0.05, random_state=0)
    K = kernels.RBF(2.0).block(X, X)
    pipeline = Pipeline([("kpca", KernelPCA(kernel="precomputed")), ("classifier", LogisticRegression())])
    search = GridSearchCV(pipeline, {"kpca__n_components": [1, 2]}, cv=3, error_score="raise").fit(K, y)
    assert search.best_score_ == 1.0


@pytest.mark.slow
def test_cross_validation_in_worker_processes() -> None:
    X, y = make_circles(n_samples=120, factor=0.3, noise=0.05, random_state=0)
    pipeline = make_pipeline(KernelPCA(2, kernel="rbf", gamma=2.0), LogisticRegression())
    assert_array_equal(cross_val_score(pipeline, X, y, cv=3, n_jobs=2), cross_val_score(pipeline, X, y, cv=3))


def test_sample_weight_is_routed() -> None:
    X, y = load_iris(return_X_y=True)
    weights = 1.0 + np.arange(150) % 4
    with sklearn.config_context(enable_metadata_routing=True):
        model = KernelPCA(2, kernel="rbf").set_fit_request(sample_weight=True)
        classifier = LogisticRegression(max_iter=500).set_fit_request(sample_weight=False)
        pipeline = Pipeline([("kpca", model), ("classifier", classifier)]).fit(X, y, sample_weight=weights)
    alone = KernelPCA(2, kernel="rbf").fit(X, sample_weight=weights)
    assert_array_equal(pipeline.named_steps["kpca"].eigenvalues_, alone.eigenvalues_)
    assert not np.allclose(alone.eigenvalues_, KernelPCA(2, kernel="rbf").fit(X).eigenvalues_)
