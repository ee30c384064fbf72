"""Bad input meets one sentence: what must hold, what arrived, what to do; and the estimator is left as it was."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, aslinearoperator
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

import kpca
from kpca import InputError, KernelPCA, kernels

ROWS = np.random.default_rng(0).standard_normal((12, 3))
POSITIVE = np.abs(ROWS) + 0.1
MATRIX = ROWS @ ROWS.T
MANY = np.random.default_rng(1).standard_normal((400, 3))


@dataclass(frozen=True)
class Case:
    """A fit that must fail: parameters, rows, and a pattern of the message."""

    message: str
    params: dict[str, Any] = field(default_factory=dict)
    X: Any = field(default_factory=lambda: ROWS)
    weights: Any = None
    settings: dict[str, Any] = field(default_factory=dict)
    error: type[Exception] = InputError


def replaced(X: Any, value: Any, row: int = 4, column: int = 1) -> Any:
    """A copy of the rows with one other entry."""
    X = X.copy()
    X[row, column] = value
    return X


def frame(X: Any) -> Any:
    """The rows as a frame with column names."""
    return pytest.importorskip("pandas").DataFrame(X, columns=["length", "width", "height"])


def raises_with_two_lines(X: Any, Y: Any) -> Any:
    """A kernel function whose own error has several lines."""
    raise ValueError("first line\nsecond line")


def of_wrong_shape(X: Any, Y: Any) -> Any:
    """A kernel function that returns one value per row of X."""
    return np.ones(len(np.atleast_2d(X)))


def of_nothing(X: Any, Y: Any) -> Any:
    """A kernel function that returns NaN for every pair."""
    return np.full((len(X), len(Y)), np.nan)


def of_pairs_nan(x: Any, y: Any) -> float:
    """A function of two rows that returns NaN."""
    return float("nan") if np.ndim(x) == 1 else np.ones(2)  # type: ignore[return-value]


def nan_operator() -> LinearOperator:
    """A LinearOperator whose products are NaN."""
    return LinearOperator((12, 12), matvec=lambda v: v * np.nan, dtype=np.float64)


RBF: dict[str, Any] = {"kernel": "rbf"}
GIVEN: dict[str, Any] = {"kernel": "precomputed"}

FITS: dict[str, Callable[[], Case]] = {
    # what is in X
    "NaN": lambda: Case("finite; got NaN first in column 1", RBF, replaced(ROWS, np.nan)),
    "infinity": lambda: Case("finite; got infinity first in column 2", RBF, replaced(ROWS, np.inf, column=2)),
    "minus infinity": lambda: Case("finite; got infinity first in column 0", RBF, replaced(ROWS, -np.inf, column=0)),
    "NaN in the linear kernel": lambda: Case("got NaN first in column 1", {}, replaced(ROWS, np.nan)),
    "NaN in a frame": lambda: Case(r"got NaN first in column 1 \('width'\)", RBF, frame(replaced(ROWS, np.nan))),
    "NaN in float32": lambda: Case("got NaN first in column 1", RBF, replaced(ROWS.astype(np.float32), np.nan)),
    "NaN in sparse rows": lambda: Case("got NaN first in column 1", RBF, sparse.csr_array(replaced(ROWS, np.nan))),
    "the first bad column is named": lambda: Case(
        "infinity first in column 0", RBF, replaced(replaced(ROWS, np.nan, column=2), np.inf, row=9, column=0)
    ),
    "the first bad column of sparse rows is named": lambda: Case(
        "infinity first in column 0",
        RBF,
        sparse.csr_array(replaced(replaced(ROWS, np.nan, column=2), np.inf, row=9, column=0)),
    ),
    "None in a list": lambda: Case("X must .*(numbers|finite)", RBF, [[1.0, None], [2.0, 3.0], [4.0, 5.0]]),
    "complex": lambda: Case("[Cc]omplex.*real", RBF, ROWS + 1j),
    "complex list": lambda: Case("[Cc]omplex.*real", RBF, [[1 + 2j, 0], [0, 1]]),
    "complex sparse": lambda: Case("[Cc]omplex.*real", RBF, sparse.csr_array(ROWS + 1j)),
    "strings": lambda: Case("X must hold numbers", RBF, np.array([["a", "b"], ["c", "d"]])),
    "strings in a list": lambda: Case("X must hold numbers", RBF, [["a", "b"], ["c", "d"]]),
    "a column of text": lambda: Case("X must hold numbers", RBF, frame(ROWS).assign(width=["wide"] * 12)),
    "objects": lambda: Case("X must hold numbers", RBF, replaced(ROWS.astype(object), "x")),
    # scikit-learn's checks want its own TypeError where a dictionary stands in an array
    "a dictionary among objects": lambda: Case(
        "argument must be .* string.* number", RBF, replaced(ROWS.astype(object), {"a": 1}), error=TypeError
    ),
    # the shape of X
    "no rows": lambda: Case(r"0 sample.*at least 2|at least 2.*0 sample|minimum of \d is required", RBF, ROWS[:0]),
    "one row": lambda: Case("at least 2 rows.*1 sample", RBF, ROWS[:1]),
    "one row, linear": lambda: Case("at least 2 rows.*1 sample", {}, ROWS[:1]),
    "one by one matrix": lambda: Case("at least 2 rows.*1 sample", GIVEN, [[1.0]]),
    "no columns": lambda: Case(r"0 feature\(s\).*minimum of 1 is required", RBF, np.empty((5, 0))),
    "one dimension": lambda: Case("2D|two.dimension|Reshape your data", RBF, ROWS[:, 0]),
    "three dimensions": lambda: Case("dim 3|two.dimension|2D", RBF, ROWS.reshape(3, 4, 3)),
    "a number": lambda: Case("2D|two.dimension|Reshape your data", RBF, 3.0),
    "ragged list": lambda: Case("rows of one length", RBF, [[1.0, 2.0], [3.0], [4.0, 5.0]]),
    "an object": lambda: Case("a list of rows; got object: give", RBF, object()),
    "a dictionary": lambda: Case("a list of rows; got dict: give", RBF, {"a": [1.0, 2.0], "b": [2.0, 4.0]}),
    "nothing": lambda: Case("X|None|array", RBF, None),
    # the kernel
    "unknown kernel": lambda: Case(r"kernel must be one of .*got 'rbff'\. Did you mean 'rbf'\?", {"kernel": "rbff"}),
    "kernel of no kind": lambda: Case("kernel must be .*got 3", {"kernel": 3}),
    "kernel None": lambda: Case("kernel must be .*got None", {"kernel": None}),
    "kernel class": lambda: Case("kernel must be .*class RBF.*call it", {"kernel": kernels.RBF}),
    "negative gamma": lambda: Case("gamma must be positive; got -1", {**RBF, "gamma": -1.0}),
    "gamma 0": lambda: Case("gamma must be positive; got 0", {**RBF, "gamma": 0}),
    "gamma NaN": lambda: Case("gamma must be .*; got nan", {**RBF, "gamma": float("nan")}),
    "gamma unknown": lambda: Case("gamma must be .*; got 'medain'. Did you mean 'median'", {**RBF, "gamma": "medain"}),
    "gamma per feature": lambda: Case("2 values for 3 features", {**RBF, "gamma": [1.0, 2.0]}),
    "gamma per feature of another kernel": lambda: Case(
        "gamma must be a single number", {"kernel": "poly", "gamma": [1.0, 2.0, 3.0]}
    ),
    "negative degree": lambda: Case("degree must not be negative; got -2", {"kernel": "poly", "degree": -2}),
    "degree text": lambda: Case("degree must be .*; got 'x'", {"kernel": "poly", "degree": "x"}),
    "coef0 infinite": lambda: Case("coef0 must be .*; got inf", {"kernel": "poly", "coef0": float("inf")}),
    "fractional power of a negative base": lambda: Case(
        "degree.*whole|whole.*degree|negative base", {"kernel": "poly", "degree": 1.5, "coef0": 0.0}
    ),
    "fractional power of a negative base, many rows": lambda: Case(
        "degree.*whole|whole.*degree|negative base", {"kernel": "poly", "degree": 1.5, "coef0": 0.0}, MANY
    ),
    "chi2 of negative values": lambda: Case("'chi2' must be given values of 0 or above.*column 0", {"kernel": "chi2"}),
    "chi2 of sparse rows": lambda: Case(
        "'chi2' must be given a dense array", {"kernel": "chi2"}, sparse.csr_array(POSITIVE)
    ),
    "overflow": lambda: Case("finite|overflow|large", {"kernel": "poly", "degree": 3}, 1e150 * ROWS),
    "overflow, many rows": lambda: Case("finite|overflow|large", {"kernel": "poly", "degree": 3}, 1e150 * MANY),
    "overflow of the linear kernel": lambda: Case("finite|overflow|large", {}, 1e200 * ROWS),
    "callable of wrong shape": lambda: Case(
        r"of_wrong_shape cannot be used.*expected is f\(X, Y\)", {"kernel": of_wrong_shape}
    ),
    "callable of NaN": lambda: Case("of_nothing must return finite values", {"kernel": of_nothing}),
    "callable of NaN, many rows": lambda: Case("of_nothing must return finite values", {"kernel": of_nothing}, MANY),
    "callable of NaN, pair by pair": lambda: Case("of_pairs_nan must return finite values", {"kernel": of_pairs_nan}),
    "callable that raises": lambda: Case("raises_with_two_lines cannot be used", {"kernel": raises_with_two_lines}),
    # a kernel matrix
    "matrix not square": lambda: Case(r"must be square at fit; got shape \(12, 3\)", GIVEN, ROWS),
    "operator not square": lambda: Case(r"must be square at fit; got shape \(12, 3\)", GIVEN, aslinearoperator(ROWS)),
    "matrix asymmetric": lambda: Case(
        "After centring.*must be symmetric.*differ by up to", GIVEN, replaced(MATRIX, 50.0)
    ),
    "sparse matrix asymmetric": lambda: Case(
        "must be symmetric.*differ by up to", GIVEN, sparse.csr_array(replaced(MATRIX, 50.0))
    ),
    "operator asymmetric": lambda: Case("must be symmetric", GIVEN, aslinearoperator(replaced(MATRIX, 50.0))),
    "matrix asymmetric, not centred": lambda: Case(
        "must be symmetric", {**GIVEN, "center": False}, MATRIX + np.arange(12.0)
    ),
    "NaN in a matrix": lambda: Case("finite; got NaN", GIVEN, replaced(MATRIX, np.nan)),
    "NaN from an operator": lambda: Case("must give finite numbers; got NaN", GIVEN, nan_operator()),
    "inverse of a matrix": lambda: Case(
        "Cannot fit_inverse_transform with a precomputed", {**GIVEN, "fit_inverse_transform": True}, MATRIX
    ),
    # weights
    "weights negative": lambda: Case("not negative; got -1.0 in row 3", RBF, weights=[1, 1, 1, -1] + [1] * 8),
    "weights NaN": lambda: Case("finite.*got nan in row 0", RBF, weights=[np.nan] + [1.0] * 11),
    "weights all zero": lambda: Case("positive for at least two rows; got zeros only", RBF, weights=np.zeros(12)),
    "weights too few": lambda: Case(r"one number per row, 12.*got shape \(5,\)", RBF, weights=np.ones(5)),
    "weights one": lambda: Case(r"one number per row, 12.*got shape \(1,\)", RBF, weights=np.ones(1)),
    "weights in columns": lambda: Case(r"one number per row, 12.*\(12, 1\)", RBF, weights=np.ones((12, 1))),
    "weights text": lambda: Case("sample_weight must be", RBF, weights=["a"] * 12),
    "one row with a weight": lambda: Case("at least (2|two) rows", RBF, weights=[1.0] + [0.0] * 11),
    "one row of a matrix with a weight": lambda: Case(
        "at least (2|two) rows", GIVEN, MATRIX, weights=[1.0] + [0.0] * 11
    ),
    "weights of a matrix too few": lambda: Case("one number per row, 12", GIVEN, MATRIX, weights=np.ones(5)),
    # parameters
    **{
        f"n_components {value!r}": lambda value=value: Case(
            "n_components must be None, a whole number from 1, or a fraction.*; got ", {"n_components": value}
        )
        for value in (0, -1, 1.5, 1.0, 0.0, -0.5, float("nan"), "x", True, [2])
    },
    "tol negative": lambda: Case("tol must be a number of at least 0; got -0.1", {"tol": -0.1}),
    "tol text": lambda: Case("tol must be .*; got 'x'", {"tol": "x"}),
    "alpha negative": lambda: Case("alpha must be .*; got -1", {"alpha": -1}),
    "max_iter 0": lambda: Case("max_iter must be .*; got 0", {"max_iter": 0}),
    "n_jobs 0": lambda: Case("n_jobs must be .*; got 0", {"n_jobs": 0}),
    "eigen_solver": lambda: Case("eigen_solver must be one of .*; got 'lapack'", {"eigen_solver": "lapack"}),
    # the machine
    "all components under a small limit": lambda: Case(
        "memory limit.*n_components", RBF | {"n_components": None}, MANY, settings={"memory_limit": "1MiB"}
    ),
    "dense solver under a small limit": lambda: Case(
        "memory limit.*(n_components|eigen_solver)",
        {**RBF, "eigen_solver": "dense"},
        MANY,
        settings={"memory_limit": "1MiB"},
    ),
    "sparse rows and an inverse": lambda: Case(
        "inverse_transform needs dense rows",
        {**RBF, "fit_inverse_transform": True},
        sparse.csr_array(ROWS),
        error=NotImplementedError,  # as scikit-learn's
    ),
}


def assert_one_sentence(error: BaseException) -> None:
    """The message is one line, reads to its end, and speaks of the user's data, not of our arrays."""
    text = str(error)
    assert "\n" not in text
    assert isinstance(error, TypeError) or text.endswith((".", "?", "!")), text  # a TypeError here is NumPy's own
    assert len(text) > 20, text


def attempt(model: KernelPCA, case: Case) -> pytest.ExceptionInfo[Exception]:
    """Run the fit that must fail."""
    with (
        np.errstate(all="ignore"),
        kpca.config(**case.settings),
        pytest.raises(case.error, match=case.message) as caught,
    ):
        model.fit(case.X, sample_weight=case.weights)
    return caught


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", FITS)
def test_bad_fit_says_so_in_one_sentence(name: str) -> None:
    case = FITS[name]()
    assert_one_sentence(attempt(KernelPCA(2).set_params(**case.params), case).value)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", FITS)
def test_bad_fit_leaves_the_estimator_unfitted(name: str) -> None:
    case = FITS[name]()
    model = KernelPCA(2).set_params(**case.params)
    with np.errstate(all="ignore"), kpca.config(**case.settings), pytest.raises(Exception):  # noqa: B017
        model.fit(case.X, sample_weight=case.weights)
    with pytest.raises(NotFittedError):
        check_is_fitted(model)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", FITS)
def test_bad_fit_leaves_the_earlier_fit_intact(name: str) -> None:
    case = FITS[name]()
    model = KernelPCA(2, kernel="rbf").fit(MANY[:30, :2])
    fitted = {key: value for key, value in vars(model).items() if key not in model.get_params()}
    scores = model.transform(MANY[:5, :2])
    with np.errstate(all="ignore"), kpca.config(**case.settings), pytest.raises(Exception):  # noqa: B017
        model.set_params(**case.params).fit(case.X, sample_weight=case.weights)
    after = {key: value for key, value in vars(model).items() if key not in model.get_params()}
    assert sorted(after) == sorted(fitted)
    assert [key for key in fitted if after[key] is not fitted[key]] == []
    model.set_params(**KernelPCA(2, kernel="rbf").get_params())
    assert_array_equal(model.transform(MANY[:5, :2]), scores)


def test_message_about_memory_gives_sizes_that_can_be_read() -> None:
    case = FITS["all components under a small limit"]()
    text = str(attempt(KernelPCA().set_params(**case.params), case).value)
    assert "0.0 GiB" not in text


# -- what fits, but cannot be used so ---------------------------------------------------------------------------------


def fitted(**params: Any) -> KernelPCA:
    """An estimator that fits the good rows, or their matrix."""
    model = KernelPCA(2).set_params(**params)
    return model.fit(MATRIX if model.kernel == "precomputed" else POSITIVE)


USES: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "transform before fit": (lambda: KernelPCA().transform(ROWS), NotFittedError, "not fitted yet"),
    "inverse_transform before fit": (
        lambda: KernelPCA(fit_inverse_transform=True).inverse_transform(ROWS),
        NotFittedError,
        "not fitted yet",
    ),
    "names before fit": (lambda: KernelPCA().get_feature_names_out(), NotFittedError, "not fitted yet"),
    "inverse_transform without its map": (
        lambda: fitted(kernel="rbf").inverse_transform(ROWS[:, :2]),
        NotFittedError,
        r"needs KernelPCA\(preimage='auto'\) or KernelPCA\(fit_inverse_transform=True\)",
    ),
    "inverse_transform of too many scores": (
        lambda: fitted(kernel="rbf", fit_inverse_transform=True).inverse_transform(ROWS),
        InputError,
        r"shape \(m, 2\).*got \(12, 3\)",
    ),
    "inverse_transform of text": (
        lambda: fitted(kernel="rbf", fit_inverse_transform=True).inverse_transform([["a", "b"]]),
        InputError,
        "[Ss]cores must",
    ),
    "inverse_transform of NaN": (
        lambda: fitted(kernel="rbf", fit_inverse_transform=True).inverse_transform([[0.0, np.nan]]),
        InputError,
        "finite",
    ),
    "too few features": (
        lambda: fitted(kernel="rbf").transform(ROWS[:, :2]),
        InputError,
        "X has 2 features, but KernelPCA is expecting 3 features",
    ),
    "too few features, linear": (
        lambda: fitted().transform(ROWS[:, :2]),
        InputError,
        "X has 2 features, but KernelPCA is expecting 3 features",
    ),
    "too few columns of a matrix": (
        lambda: fitted(kernel="precomputed").transform(MATRIX[:, :5]),
        InputError,
        "12.*5|5.*12",
    ),
    "too few columns of an operator": (
        lambda: fitted(kernel="precomputed").transform(aslinearoperator(MATRIX[:, :5])),
        InputError,
        "12.*5|5.*12",
    ),
    "an operator for a kernel of rows": (
        lambda: fitted(kernel="rbf").transform(aslinearoperator(ROWS)),
        InputError,
        "LinearOperator",
    ),
    "an operator of kernel values for the linear kernel": (
        lambda: fitted().transform(aslinearoperator(MATRIX)),
        InputError,
        "LinearOperator",
    ),
    "NaN in new rows": (
        lambda: fitted(kernel="rbf").transform(replaced(ROWS, np.nan)),
        InputError,
        "finite; got NaN first in column 1",
    ),
    "NaN in a frame of new rows": (
        lambda: KernelPCA(2).fit(frame(ROWS)).transform(frame(replaced(ROWS, np.nan))),
        InputError,
        r"finite; got NaN first in column 1 \('width'\)",
    ),
    "new rows in one dimension": (lambda: fitted(kernel="rbf").transform(ROWS[0]), InputError, "Reshape your data|2D"),
    "negative new rows for chi2": (
        lambda: fitted(kernel="chi2").transform(ROWS),
        InputError,
        "'chi2' must be given values of 0 or above",
    ),
    "new rows with a negative base": (
        lambda: fitted(kernel="poly", degree=1.5, coef0=0.0).transform(-POSITIVE),
        InputError,
        "degree.*whole|whole.*degree|negative base",
    ),
    "new rows so large that the kernel overflows": (
        lambda: fitted(kernel="poly").transform(1e150 * ROWS),
        InputError,
        "finite|overflow|large",
    ),
    "complex new rows": (lambda: fitted(kernel="rbf").transform(ROWS + 1j), InputError, "[Cc]omplex.*real"),
    "memory limit": (lambda: kpca.set_config(memory_limit="lots"), InputError, "memory_limit must be .*got 'lots'"),
    "memory limit of no size": (lambda: kpca.set_config(memory_limit="0GiB"), InputError, "memory_limit .*got '0GiB'"),
    "memory limit negative": (lambda: kpca.set_config(memory_limit=-5), InputError, "memory_limit must be .*got -5"),
    "no threads": (lambda: kpca.set_config(threads=0), InputError, "threads must be .*at least 1; got 0"),
    "half a thread": (lambda: kpca.set_config(threads=1.5), InputError, "threads must be .*; got 1.5"),
    "progress": (lambda: kpca.set_config(progress="yes"), InputError, "progress must be .*got 'yes'"),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", USES)
def test_bad_use_says_so_in_one_sentence(name: str) -> None:
    use, error, message = USES[name]
    with np.errstate(all="ignore"), pytest.raises(error, match=message) as caught:
        use()
    assert_one_sentence(caught.value)


def test_the_one_error_type_is_a_value_error() -> None:
    assert issubclass(InputError, ValueError)


# -- Every door that takes rows looks at what is masked, and says what a frame holds that is no number ----------------

MANY_ROWS = np.random.default_rng(2).standard_normal((60, 3))
CLASSES = MANY_ROWS[:, 0] > 0
MODEL = KernelPCA(2, kernel="rbf", preimage="ridge").fit(MANY_ROWS)
DETECTOR = kpca.KernelPCADetector(contamination=0.1).fit(MANY_ROWS)
DOORS: dict[str, Callable[[Any], Any]] = {
    "fit": lambda X: KernelPCA(2, kernel="rbf").fit(X).eigenvalues_,
    "linear": lambda X: KernelPCA(2).fit_transform(X),
    "landmarks": lambda X: KernelPCA(2, kernel="rbf", approximation=kpca.Nystroem(9)).fit(X).eigenvalues_,
    "Nystroem": lambda X: kpca.Nystroem(5).fit_transform(X),
    "RandomFeatures": lambda X: kpca.RandomFeatures(8).fit_transform(X),
    "stream": lambda X: kpca.IncrementalKernelPCA(2).fit(X).eigenvalues_,
    "first batch": lambda X: kpca.IncrementalKernelPCA(2).partial_fit(X).eigenvalues_,
    "later batch": lambda X: kpca.IncrementalKernelPCA(2).partial_fit(MANY_ROWS).partial_fit(X).eigenvalues_,
    "chunks": lambda X: kpca.IncrementalKernelPCA(2).fit([X, X]).eigenvalues_,
    "transform": MODEL.transform,
    "denoise": MODEL.denoise,
    "reconstruction error": MODEL.reconstruction_error,
    "score": MODEL.score_samples,
    "detector": lambda X: kpca.KernelPCADetector(contamination=0.1).fit(X).offset_,
    "detector, a batch": lambda X: kpca.KernelPCADetector(contamination=0.1).partial_fit(X).offset_,
    "predict": DETECTOR.predict,
    "contributions": lambda X: DETECTOR.contributions(X).values,
    "tune": lambda X: kpca.selection.tune(X, n_components=1, cv=2, kernels={"rbf": [0.1]}).reason,
    "path": lambda X: str(kpca.selection.path(X, "rbf", grid=[0.1, 1.0], n_components=2)),
    "components": lambda X: kpca.selection.n_components(X, kernel="rbf").count,
    "plan": lambda X: kpca.plan(X, 2, kernel="rbf").route,
    "check": lambda X: str(kpca.diagnostics.check(MODEL, X)),
    "importance": lambda X: kpca.explain.importance(MODEL, X).top(1),
    "permutations": lambda X: kpca.explain.permutation_importance(MODEL, X, repeats=2).top(1),
    "write_scores": lambda X: kpca.write_scores(MODEL, X, np.empty((len(MANY_ROWS), 2))),
}
OTHERS: dict[str, Callable[[Any], Any]] = {
    "scores": lambda X: MODEL.inverse_transform(X[:, :2]),
    "a list of rows": lambda X: KernelPCA(2).fit(list(X)).eigenvalues_,
    "points": lambda X: kpca.Nystroem(landmarks=X[:9]).fit_transform(MANY_ROWS),
    "a matrix": lambda X: KernelPCA(2, kernel="precomputed").fit(X[3:6] + X[3:6].T + 9 * np.eye(3)).eigenvalues_,
    "weights": lambda X: KernelPCA(2).fit(MANY_ROWS, sample_weight=abs(X[:, 1])).eigenvalues_,
    "labels": lambda X: kpca.selection.tune(MANY_ROWS, X[:, 1] > 0, n_components=1, cv=2).reason,
    "targets": lambda X: str(kpca.compare(MANY_ROWS, X[:, 1] > 0, methods=["PCA"]).best("knn").name),
    "a row to start from": lambda X: kpca.preimage.traverse(MODEL, 0, 3, around=X[4])[1],
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("door", [*DOORS, *OTHERS])
def test_masked_entries_are_missing_and_arrays_without_them_are_taken(door: str) -> None:
    enter = {**DOORS, **OTHERS}[door]
    masked = np.ma.masked_array(MANY_ROWS.copy(), mask=np.zeros_like(MANY_ROWS, dtype=bool))
    assert_array_equal(enter(masked), enter(MANY_ROWS))
    masked[4, 1] = np.ma.masked
    with pytest.raises(InputError, match=r"must have .*; got \d+ masked entr.*: fill what is masked"):
        enter(masked)


def test_how_many_entries_are_masked_is_said() -> None:
    masked = np.ma.masked_less(MANY_ROWS, 0.0)
    with pytest.raises(InputError, match=rf"got {np.count_nonzero(MANY_ROWS < 0)} masked entries"):
        KernelPCA(2).fit(masked)


def frames_of_times() -> dict[str, tuple[Any, str]]:
    """Frames with columns of dates, times and durations, and how a message speaks of these."""
    pandas, polars, arrow = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    moments = pandas.date_range("2024-01-01", periods=len(MANY_ROWS), freq="h")
    numbers = {"a": MANY_ROWS[:, 0], "b": MANY_ROWS[:, 1]}
    lasting, days = moments - moments[0], [moment.date() for moment in moments]
    one, both = r"column 2 \('when'\) holds dates or times", r"column 2 \('when'\), column 3 \('for'\) hold dates"
    return {
        "pandas": (pandas.DataFrame({**numbers, "when": moments, "for": lasting}), both),
        "pandas, of a zone": (pandas.DataFrame({**numbers, "when": moments.tz_localize("UTC")}), one),
        "pandas, of arrow": (
            pandas.DataFrame({**numbers, "when": pandas.array(moments, dtype="timestamp[us][pyarrow]")}),
            one,
        ),
        "pandas, nothing else": (pandas.DataFrame({"a": moments, "when": moments}), r"column 0 \('a'\), column 1"),
        "polars": (polars.DataFrame({**numbers, "when": moments.to_numpy(), "for": lasting.to_numpy()}), both),
        "polars, days": (polars.DataFrame({**numbers, "when": days}), one),
        "polars, hours": (polars.DataFrame({**numbers, "when": [moment.time() for moment in moments]}), one),
        "pyarrow": (arrow.table({**numbers, "when": moments.to_numpy(), "for": lasting.to_numpy()}), both),
        "pyarrow, days": (arrow.table({**numbers, "when": days}), one),
        "array": (np.array([moments, moments]).T, "got datetime64"),
        "durations": (np.array([lasting, lasting]).T, "got timedelta64"),
    }


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("door", DOORS)
def test_dates_and_times_are_no_numbers(door: str) -> None:
    for kind, (X, held) in frames_of_times().items():
        with pytest.raises(InputError) as refused:
            DOORS[door](X)
        refused.match(f"^X must hold numbers only; .*{held}.*: make numbers of dates and times, such as days since")
        assert str(refused.value).count(".") == 1, kind


def test_columns_of_objects_that_are_dates_are_named() -> None:
    pandas = pytest.importorskip("pandas")
    days = [moment.date() for moment in pandas.date_range("2024-01-01", periods=12)]
    with pytest.raises(InputError, match=r"column 1 \('when'\) holds dates or times"):
        KernelPCA(2).fit(pandas.DataFrame({"a": ROWS[:, 0], "when": [None, *days[1:]], "b": ROWS[:, 1]}))
    with pytest.raises(InputError, match=r"must hold numbers only; got datetime.date: make numbers"):
        KernelPCA(2).fit([[1.0, day] for day in days])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("door", [*DOORS, "table_of", "Preparation"])
def test_lazy_frames_have_to_be_collected(door: str) -> None:
    lazy = pytest.importorskip("polars").DataFrame(MANY_ROWS, schema=["a", "b", "c"]).lazy()
    more = {"table_of": kpca.io.table_of, "Preparation": kpca.io.Preparation().fit}
    with pytest.raises(InputError, match=r"^X must be loaded; got a LazyFrame: collect\(\) it first\.$"):
        {**DOORS, **more}[door](lazy)
