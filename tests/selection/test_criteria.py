"""Every criterion against its slow truth, over kernels, dtypes, sparse and dense rows, and kinds of labels."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_table import tuned
from scipy import sparse
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.metrics import accuracy_score, make_scorer, r2_score
from sklearn.model_selection import KFold, LeaveOneOut
from threadpoolctl import threadpool_limits

from kpca import kernels
from kpca._base.errors import InputError
from kpca.estimators.cost import Request
from kpca.estimators.fitted import restoration_errors, total_variance
from kpca.estimators.n_components import parallel_analysis
from kpca.selection.candidates import Candidate, candidates
from kpca.selection.rows import check_labels, folds_of
from kpca.selection.stability import bootstrap_stability
from kpca.selection.trials import (
    NAMES,
    Bench,
    Gap,
    HeldOutVariance,
    KernelTrial,
    Prediction,
    Restoration,
    check_criterion,
)

RNG = np.random.default_rng(1)
N, COUNTS = 45, (1, 2, 4)
DENSE = RNG.normal(size=(N, 6)) * [4.0, 3.0, 2.0, 1.0, 1.0, 1.0]
POSITIVE = np.abs(DENSE)
CLASSES = (DENSE[:, 0] > 0).astype(int) + (DENSE[:, 1] > 1)
NUMBERS = DENSE[:, 0] - 2 * DENSE[:, 1] + RNG.normal(size=N)
KERNELS = tuned("linear", "rbf", "poly", "cosine", "laplacian", "matern52")
LABELS = {
    "classes": CLASSES,
    "text": np.array(["ant", "bee", "cow"])[CLASSES],
    "bools": CLASSES > 0,
    "numbers": NUMBERS,
    "targets": np.column_stack([NUMBERS, DENSE[:, 2] * 100]),
}


def folds(n: int = N, number: int = 3):
    return folds_of(KFold(number, shuffle=True, random_state=0), n, None, 0)


def tried(bench: Bench, *order: Candidate, threads: int = 1) -> list[KernelTrial]:
    """What comes of candidates, by default of all there are."""
    trials: list[KernelTrial] = []
    replace(bench, request=replace(bench.request, threads=threads)).try_(order or bench.candidates, trials.append)
    return trials


def trial_of(name, criterion, X=DENSE, y=None, *, pairs=None, center=True, counts=COUNTS, **parameters):
    """One kernel, tried."""
    parameters = {**KERNELS.get(name, {}), **parameters}
    (candidate,) = candidates({name: {key: [value] for key, value in parameters.items()}}, X, 1)
    request = Request(max(counts) + criterion.beyond, tol=1e-9, center=center)
    pairs = folds(X.shape[0]) if pairs is None else pairs
    bench = Bench([candidate], X, y, folds=pairs, criterion=criterion, counts=counts, request=request)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (trial,) = tried(bench)
    assert trial.failure == ""
    return trial


def slow_scores(name, fit, new, k):
    """Scores of both sides of a fold, from the whole kernel matrix."""
    K = reference.kernel_values(name, fit, fit, **KERNELS[name])
    K_new = reference.kernel_values(name, new, fit, **KERNELS[name])
    return reference.scores(K, K, k), reference.scores(K, K_new, k)


def dense_of(X):
    return X.toarray() if sparse.issparse(X) else X


# Few enough zeros that no two rows point the same way: of equal neighbours any may be taken.
THIN = np.where(np.abs(DENSE) > 0.4, DENSE, 0.0)
ROWS = {
    "float64": DENSE,
    "float32": DENSE.astype(np.float32),
    "csr": sparse.csr_matrix(THIN),
    "csr array float32": sparse.csr_array(THIN.astype(np.float32)),
}


# -- rows restored from scores ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize("name", KERNELS)
def test_reconstruction(name: str, kind: str) -> None:
    X = ROWS[kind]
    whole = dense_of(X).astype(np.float64)
    spread = np.sum((whole - whole.mean(axis=0)) ** 2) / N
    for place, count in enumerate(COUNTS):
        truth = []
        for fit, held_out in folds():
            scores, new_scores = slow_scores(name, whole[fit], whole[held_out], count)
            truth.append(reference.restoration_errors(whole[fit], scores, whole[held_out], new_scores) / spread)
        losses = trial_of(name, Restoration(), X).losses[place]
        assert losses.shape == (N,)
        assert np.allclose(losses, np.concatenate(truth), rtol=1e-4 if "32" in kind else 1e-8)


@pytest.mark.parametrize("kind", ROWS)
def test_restoration_by_loops(kind: str) -> None:
    X = ROWS[kind]
    scores = RNG.normal(size=(N, 2))
    for neighbours in (1, 5, 29):
        found = restoration_errors(X[:30], scores[:30], X[30:], scores[30:], neighbours)
        truth = reference.restoration_errors(dense_of(X)[:30], scores[:30], dense_of(X)[30:], scores[30:], neighbours)
        assert np.allclose(found, truth, rtol=1e-5 if "32" in kind else 1e-12)
    nothing = restoration_errors(X[:30], scores[:30, :0], X[30:], scores[30:, :0])
    whole = dense_of(X).astype(np.float64)
    assert np.allclose(nothing, np.sum((whole[30:] - whole[:30].mean(axis=0)) ** 2, axis=1), rtol=1e-6)
    assert total_variance(X) == pytest.approx(np.sum(np.var(whole, axis=0)), rel=1e-6)


def test_of_equal_neighbours_the_same_are_taken_whatever_the_threads() -> None:
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(40, 20))[rng.integers(0, 40, 6000)]  # so many columns that all pairs are looked at
    rows = rng.normal(size=(6000, 3))
    found = []
    for threads in (1, 2, 4):
        with threadpool_limits(threads):
            found.append(restoration_errors(rows[:4000], scores[:4000], rows[4000:], scores[4000:]))
    assert np.array_equal(found[0], found[1]) and np.array_equal(found[0], found[2])


@pytest.mark.parametrize("rows", [np.ones((9, 2)) * 0.5, np.zeros((4, 3)), sparse.csr_matrix((5, 3))])
def test_the_variance_of_rows_that_are_all_alike_is_one(rows) -> None:
    assert total_variance(rows) == 1.0


def test_one_row_far_out_does_not_make_its_fold_all_that_counts() -> None:
    """Errors are relative to the variance of all rows: that of a fit without the far row is 1e16 times smaller."""
    X = np.vstack([DENSE, [[1e8, 0, 0, 0, 0, 0]]])
    losses = trial_of("rbf", Restoration(), X, pairs=folds(N + 1)).losses
    assert losses.max() < 100


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1))
def test_the_order_of_held_out_rows_does_not_matter(seed: int) -> None:
    order = np.random.default_rng(seed).permutation(15)
    pair = (np.arange(30), np.arange(30, 45))
    for criterion, y in ((Restoration(), None), (HeldOutVariance(), None), (Prediction(True), NUMBERS)):
        first = trial_of("rbf", criterion, y=y, pairs=[pair]).losses
        second = trial_of("rbf", criterion, y=y, pairs=[(pair[0], pair[1][order])]).losses
        assert np.allclose(first[:, order], second, rtol=1e-9)


@settings(max_examples=20)
@given(st.floats(-1e4, 1e4), st.sampled_from(["rbf", "laplacian", "matern52"]))
def test_radial_kernels_do_not_see_a_shift(shift: float, name: str) -> None:
    for criterion in (Restoration(), HeldOutVariance()):
        here, there = (trial_of(name, criterion, X).losses for X in (DENSE, DENSE + shift))
        assert np.allclose(here, there, rtol=1e-5, atol=1e-7)


@given(st.sampled_from([1e-12, 1e-3, 1e12]))
def test_scores_have_no_units(scale: float) -> None:
    for criterion in (Restoration(), HeldOutVariance()):
        here = trial_of("rbf", criterion, DENSE).losses
        there = trial_of("rbf", criterion, DENSE * scale, gamma=KERNELS["rbf"]["gamma"] / scale**2).losses
        assert np.allclose(here, there, rtol=1e-5, atol=1e-9)


# -- variance in feature space ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize("name", KERNELS)
def test_held_out_variance(name: str, kind: str) -> None:
    X = ROWS[kind]
    whole = dense_of(X).astype(np.float64)
    losses = trial_of(name, HeldOutVariance(), X).losses
    for place, count in enumerate(COUNTS):
        truth = []
        for fit, held_out in folds():
            K, K_new, K_own = (
                reference.kernel_values(name, whole[a], whole[b], **KERNELS[name])
                for a, b in ((fit, fit), (held_out, fit), (held_out, held_out))
            )
            truth.append(reference.held_out_variance(K, K_new, np.diag(K_own), count))
        assert np.allclose(losses[place], np.concatenate(truth), atol=2e-4 if "32" in kind else 1e-8)


def test_held_out_variance_without_centring() -> None:
    losses = trial_of("rbf", HeldOutVariance(), center=False).losses
    assert (losses >= 0).all()
    assert (np.diff(losses.mean(axis=1)) <= 1e-12).all()  # more components leave less


# -- labels -----------------------------------------------------------------------------------------------------------


def nearest(scores, new_scores, count=5):
    return [sorted(range(len(scores)), key=lambda i: np.sum((scores[i] - one) ** 2))[:count] for one in new_scores]


@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("name", ["linear", "rbf", "poly"])
def test_neighbours_predict_labels(name: str, labels: str) -> None:
    y = check_labels(LABELS[labels], N)
    criterion = check_criterion("knn", y)
    losses = trial_of(name, criterion, y=y).losses
    for place, count in enumerate(COUNTS):
        truth = []
        for fit, held_out in folds():
            places = nearest(*slow_scores(name, DENSE[fit], DENSE[held_out], count))
            for row, near in zip(held_out, places, strict=True):
                around = y[fit][near]
                if criterion.continuous:
                    truth.append(np.mean((around.mean(axis=0) - y[row]) ** 2 / y.var(axis=0)))
                else:
                    values, votes = np.unique(around, return_counts=True)
                    truth.append(float(values[votes.argmax()] != y[row]))
        assert np.allclose(losses[place], truth)


def test_single_rows_as_folds_have_scores_like_larger_ones() -> None:
    one = trial_of("linear", Prediction(True), y=NUMBERS, pairs=folds_of(LeaveOneOut(), N, None, 0)).means
    several = trial_of("linear", Prediction(True), y=NUMBERS, pairs=folds(number=15)).means
    assert np.allclose(one, several, atol=0.1)


@pytest.mark.parametrize("y", [np.zeros(N, int), np.full(N, 1.5), np.array(["a"] * N), np.r_[7, np.zeros(N - 1, int)]])
def test_labels_that_say_nothing(y) -> None:
    labels = check_labels(y, N)
    losses = trial_of("rbf", check_criterion(None, labels), y=labels).losses
    assert np.isfinite(losses).all()
    assert losses.mean() <= 1 / N + 1e-12


@pytest.mark.parametrize(
    ("criterion", "labels", "predictor", "measure"),
    [
        ("accuracy", "classes", LogisticRegression(), accuracy_score),
        (make_scorer(accuracy_score), "text", RidgeClassifier(), accuracy_score),
        ("r2", "numbers", LinearRegression(), r2_score),
        ("r2", "targets", LinearRegression(), r2_score),
    ],
)
def test_scorers_judge_predictors_by_fold(criterion, labels, predictor, measure) -> None:
    y = LABELS[labels]
    losses = trial_of("poly", check_criterion(criterion, y, predictor), y=y).losses
    assert losses.shape == (len(COUNTS), 3)
    for place, count in enumerate(COUNTS):
        for number, (fit, held_out) in enumerate(folds()):
            scores, new_scores = slow_scores("poly", DENSE[fit], DENSE[held_out], count)
            predicted = predictor.fit(scores, y[fit]).predict(new_scores)
            assert losses[place, number] == pytest.approx(-measure(y[held_out], predicted), abs=1e-6)


def test_scorers_without_a_predictor_use_as_many_neighbours_as_there_are() -> None:
    y, X = CLASSES[:6], DENSE[:6]
    trial = trial_of("rbf", check_criterion("accuracy", y), X, y, pairs=folds(6, 3), counts=(1,))
    assert np.isfinite(trial.losses).all()


@pytest.mark.parametrize(
    ("criterion", "labels", "predictor"),
    [
        ("neg_log_loss", "classes", RidgeClassifier()),  # no predict_proba
        ("roc_auc", "classes", None),  # three classes
        ("neg_log_loss", "numbers", None),
        ("accuracy", "numbers", None),
        (lambda model, scores, y: None, "classes", None),
        (lambda model, scores: 1.0, "classes", None),
    ],
)
def test_scorers_that_do_not_suit_say_so(criterion, labels, predictor) -> None:
    y = LABELS[labels]
    judged = check_criterion(criterion, y, predictor)
    with pytest.raises(InputError, match="must be able to judge") as caught:
        (candidate,) = candidates({"rbf": [0.1]}, DENSE, 1)
        bench = Bench([candidate], DENSE, y, folds=folds(), criterion=judged, counts=(1,), request=Request(1, tol=1e-6))
        raise InputError(tried(bench)[0].failure)
    assert "\n" not in str(caught.value)


# -- criteria of the whole --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", KERNELS)
def test_gap(name: str) -> None:
    K = reference.kernel_values(name, DENSE, DENSE, **KERNELS[name])
    values = reference.spectrum(reference.centred(K))[0]
    losses = trial_of(name, Gap()).losses
    assert np.allclose(-losses[:, 0], [1 - values[count] / values[count - 1] for count in COUNTS])


def test_no_gap_is_known_after_the_last_component() -> None:
    losses = trial_of("linear", Gap(), DENSE[:, :2], counts=(1, 2)).losses
    assert np.isfinite(losses[0]).all() and np.isnan(losses[1]).all()


@pytest.mark.parametrize("name", ["rbf", "linear"])
def test_parallel_analysis(name: str) -> None:
    trial = trial_of(name, check_criterion("parallel", None), counts=(1, 2, 4))
    found = parallel_analysis(trial.candidate.kernel, DENSE, 4, seed=0)
    above = np.maximum(found.values - found.null, 0)
    above[found.count :] = 0
    shares = np.cumsum(above)[[0, 1, 3]] / above.sum() * found.excess if found.count else np.zeros(3)
    assert np.allclose(-trial.losses[:, 0], shares)


def test_stability() -> None:
    trial = trial_of("rbf", check_criterion("stability", None))
    found = bootstrap_stability(trial.candidate.kernel, DENSE, 4, resamples=5, seed=0)
    assert np.allclose(-trial.losses[:, 0], found.subspaces[[0, 1, 3]])


@pytest.mark.parametrize("name", NAMES)
def test_scores_are_larger_the_better_and_never_minus_zero(name: str) -> None:
    criterion = check_criterion(name, CLASSES)
    scores = criterion.score(np.array([0.0, 1.0]))
    assert scores[0] > scores[1]
    assert not np.signbit(criterion.score(np.array([0.0]))).any()
    assert criterion.name == name
    assert criterion.title


# -- what is meant ----------------------------------------------------------------------------------------------------


def test_nothing_said_is_by_what_there_is() -> None:
    assert check_criterion(None, None) == Restoration()
    for y, continuous in ((CLASSES, False), (NUMBERS, True)):
        found = check_criterion(None, y)
        assert isinstance(found, Prediction) and found.continuous is continuous
    own = Restoration(neighbours=1)
    assert check_criterion(own, None) is own


@pytest.mark.parametrize("criterion", ["recon", "Reconstruction", "rsquared", 3, ["knn"], b"knn"])
def test_no_such_criterion(criterion) -> None:
    with pytest.raises(InputError, match="criterion must be"):
        check_criterion(criterion, CLASSES)


@pytest.mark.parametrize("criterion", ["knn", "accuracy", make_scorer(accuracy_score)])
def test_labels_are_needed(criterion) -> None:
    with pytest.raises(InputError, match="must be given labels"):
        check_criterion(criterion, None)


@pytest.mark.parametrize(
    ("criterion", "predictor"),
    [
        (None, LogisticRegression()),
        ("knn", LogisticRegression()),
        ("reconstruction", LogisticRegression()),
        ("accuracy", 3),
        ("accuracy", LogisticRegression),
    ],
)
def test_predictors_go_with_scorers(criterion, predictor) -> None:
    with pytest.raises(InputError, match="predictor"):
        check_criterion(criterion, CLASSES, predictor)
    with pytest.raises(InputError):
        check_criterion(None, None, predictor)


# -- labels as they come ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("y", "kind"),
    [
        ([0, 1, 2, 0], "i"),
        ([0.0, 1.0, 2.0, 0.0], "i"),  # classes that went through a float column
        ([0.5, 1.0, 2.0, 0.0], "f"),
        ([True, False, True, True], "b"),
        (["a", "b", "a", "b"], "U"),
        (np.array(["a", "b", "a", 3], dtype=object), "U"),
        (np.array([1, 2, 1, 2], dtype=object), "i"),
        (np.array([0.5, 2, 1, 2], dtype=object), "f"),
        (np.array([[0.0], [1.0], [0.0], [2.0]]), "i"),
        (np.round(DENSE[:4, :2]), "f"),  # several targets are numbers, whole or not
        (np.array(["2020-01-01"] * 4, dtype="datetime64[D]"), "U"),
        (np.array([1e300, -1e300, 0.0, 1.0]), "f"),
    ],
)
def test_kinds_of_labels(y, kind: str) -> None:
    assert check_labels(y, 4).dtype.kind == kind


@pytest.mark.parametrize(
    "y",
    [
        [0, 1, 2],
        3,
        "text",
        [[1], [2, 3], [1], [2]],
        [0.5, np.nan, 1.0, 2.0],
        [0.5, np.inf, 1.0, 2.0],
        ["a", None, "b", "a"],
        ["a", float("nan"), "b", "a"],
        np.array(["a", np.nan, "b", "a"], dtype=object),
        np.array([1.0, None, 2.0, 3.0], dtype=object),
        np.array([1j, 2, 3, 4]),
        np.array([b"a", b"b", b"a", b"b"]),
        np.ones((4, 2), dtype=int),
        np.ones((4, 2, 2)),
        sparse.csr_matrix(np.ones((4, 1))),
    ],
)
def test_what_is_no_label(y) -> None:
    with pytest.raises(InputError, match="y must") as caught:
        check_labels(y, 4)
    assert "\n" not in str(caught.value)


def test_kernels_that_fail_are_results() -> None:
    for kernel, rows, why in (
        (kernels.Chi2(1.0), DENSE, "0 or above"),
        (kernels.RBF([1.0, 2.0]), DENSE, "per feature"),
        (kernels.Sigmoid(10.0, -3.0), DENSE, "negative eigenvalues"),
        (kernels.Polynomial(2.5, 1.0, 0.0), DENSE, "whole degree"),
        (kernels.Polynomial(40, 1.0, 0.0), DENSE * 1e12, "finite"),
    ):
        (candidate,) = candidates(kernel, rows, 1)
        request = Request(29, tol=1e-6)
        bench = Bench([candidate], rows, None, folds=folds(), criterion=Restoration(), counts=(29,), request=request)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            (trial,) = tried(bench)
        assert why in trial.failure
        assert np.isnan(trial.losses).all()


@pytest.mark.parametrize(
    "criterion", [Restoration(), Prediction(False), HeldOutVariance(), Gap()], ids=lambda c: c.name
)
def test_threads_change_no_bit(criterion) -> None:
    """Folds and candidates overlap in time; each fold still follows its kernels in the order they are given."""
    X = np.random.default_rng(0).normal(size=(660, 5))
    several = candidates({"rbf": 5, "poly": [2, 3], "linear": None}, X, 1)
    request = Request(3 + criterion.beyond, tol=1e-3)
    bench = Bench(several, X, (X[:, 0] > 0).astype(int), folds(len(X)), criterion, (1, 3), request)
    alone = tried(bench)
    assert [trial.candidate for trial in alone] == several
    for threads in (2, 3, 7):
        together = tried(bench, threads=threads)
        assert [trial.candidate for trial in together] == several
        for one, other in zip(alone, together, strict=True):
            np.testing.assert_array_equal(one.losses, other.losses)
