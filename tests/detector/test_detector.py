"""The detector: scikit-learn's contract, far points, false alarms, limits, lags, streams, and wrong input."""

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from kpca import IncrementalKernelPCA, InputError, KernelPCA, KernelPCADetector, Nystroem, RandomFeatures, kernels
from kpca.detector.limits import STATISTICS, Calibration, Statistics
from kpca.detector.modelling import lagged, remembered

FEW = pytest.mark.filterwarnings("ignore:A limit at")
RADIAL = {
    "rbf": {"kernel": "rbf"},
    "rbf, narrow": {"kernel": "rbf", "gamma": 2.0},
    "rbf, median": {"kernel": "rbf", "gamma": "median"},
    "laplacian": {"kernel": "laplacian"},
    "exponential": {"kernel": kernels.Exponential(2.0)},
    "matern 1/2": {"kernel": kernels.Matern(0.5, 2.0)},
    "matern 3/2": {"kernel": kernels.Matern(1.5, 2.0)},
    "matern 5/2": {"kernel": kernels.Matern(2.5, 2.0)},
    "rational quadratic": {"kernel": kernels.RationalQuadratic(1.0, 2.0)},
    "sum": {"kernel": kernels.RBF(gamma=0.1) + kernels.Matern(1.5, 1.0)},
    "product": {"kernel": kernels.RBF(gamma=0.1) * kernels.RationalQuadratic(1.0, 1.0)},
}


def normal(n: int, d: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, d))


def ring(n: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    angle = rng.uniform(0, 2 * np.pi, n)
    return np.column_stack([np.cos(angle), np.sin(angle)]) + 0.05 * rng.normal(size=(n, 2))


# -- scikit-learn's contract ------------------------------------------------------------------------------------------


@FEW
@parametrize_with_checks(
    [
        KernelPCADetector(),
        KernelPCADetector(kernel="linear", limit="theory"),
        KernelPCADetector(approximation="nystroem", statistic="spe", limit="kde", scale="robust"),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_column_names_are_kept_and_compared():
    frame = pd.DataFrame(normal(100), columns=["a", "b", "c"])
    detector = KernelPCADetector().fit(frame)
    assert list(detector.feature_names_in_) == ["a", "b", "c"]
    with pytest.raises(ValueError, match="feature names"):
        detector.predict(frame[["b", "a", "c"]])


def test_named_kernels_are_widened_and_objects_are_not():
    X = normal(100)
    mine = kernels.RBF(gamma=0.5)
    assert KernelPCADetector(kernel=mine).fit(X).model_.kernel_ == mine
    wide, median = (KernelPCADetector(gamma=gamma).fit(X).model_.kernel_.gamma for gamma in ("wide", "median"))
    assert wide == pytest.approx(median / (64 * 3))
    assert KernelPCADetector(kernel="poly").fit(X).model_.kernel_.gamma == pytest.approx(1 / 3)


# -- what is far is abnormal ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RADIAL)
@pytest.mark.parametrize("approximation", [None, "nystroem", "stream"])
@pytest.mark.parametrize("statistic", ["combined", "spe"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_far_point_is_above_every_inlier(name, approximation, statistic):
    X, fresh = normal(300), normal(2000, seed=1)
    detector = KernelPCADetector(**RADIAL[name], statistic=statistic, approximation=None)
    if approximation == "nystroem":
        detector.set_params(approximation=Nystroem(rank=100, landmarks="uniform"))
    detector = detector.partial_fit(X) if approximation == "stream" else detector.fit(X)
    far = np.array([[30.0, 30.0, 30.0], [-1e3, 0, 0], [0, 1e6, 0], [1e9, -1e9, 1e9]])
    assert detector.score_samples(far).max() < detector.score_samples(fresh).min()
    assert detector.score_samples(far).max() < detector.score_samples(X).min()
    assert (detector.predict(far) == -1).all()


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_residual_within_the_span_alone_would_call_a_far_point_normal():
    """The mistake of summing discarded components only, which is the reason for the true residual."""
    X = normal(300)
    model = KernelPCA(None, kernel="rbf", gamma=0.5).fit(X)
    far, within = model.transform(np.full((1, 3), 30.0)), model.transform(X)
    mistaken = np.square(far[:, 10:]).sum(), np.square(within[:, 10:]).sum(axis=1)
    assert mistaken[0] < np.quantile(mistaken[1], 0.5)


@pytest.mark.parametrize("kind", [None, "nystroem", "rff", "stream"])
def test_a_hole_in_the_data_is_found(kind):
    detector = KernelPCADetector(approximation=None if kind == "stream" else kind, random_state=0)
    detector = detector.partial_fit(ring(400)) if kind == "stream" else detector.fit(ring(400))
    assert detector.predict([[0.0, 0.0]])[0] == -1
    assert detector.predict(ring(500, seed=1)).mean() > 0.8
    linear = KernelPCADetector(kernel="linear").fit(ring(400))
    assert linear.predict([[0.0, 0.0]])[0] == 1


# -- limits -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "d", "settings_"),
    [
        (500, 5, {}),
        (500, 5, {"gamma": "median"}),
        (400, 20, {}),
        (500, 5, {"kernel": "linear"}),
        (500, 5, {"limit": "kde"}),
    ],
)
def test_false_alarms_are_as_many_as_asked_for(n, d, settings_):
    beyond = {name: [] for name in STATISTICS}
    for seed in range(20):
        rng = np.random.default_rng(seed)
        mix = np.random.default_rng(7).normal(size=(d, d))
        detector = KernelPCADetector(confidence=0.99, **settings_).fit(rng.normal(size=(n, d)) @ mix)
        found = detector.statistics(rng.normal(size=(2000, d)) @ mix)
        for name in STATISTICS:
            beyond[name].append(np.mean(found[name] > detector.limits_[name]))
    names = ("t2", "combined") if settings_.get("kernel") == "linear" else STATISTICS  # all is explained: no residual
    for name in names:
        assert 0.005 <= np.mean(beyond[name]) <= 0.015, name


@given(st.integers(20, 400), st.floats(0.5, 0.99), st.integers(0, 5))
@settings(max_examples=40, deadline=None)
def test_the_quantile_is_that_of_numpy_where_weights_are_equal(n, level, seed):
    values = np.random.default_rng(seed).gamma(2.0, size=n)
    found = Calibration.of(Statistics(values, values, values)).quantile("spe", level)
    assert found == pytest.approx(np.quantile(values, level, method="weibull"), rel=1e-9)


def test_theory_is_right_where_it_applies():
    """Normal rows and the linear kernel: T^2 of new rows is F; and a chi2 has the moments of a chi2."""
    rates = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        detector = KernelPCADetector(3, kernel="linear", limit="theory", confidence=0.99).fit(rng.normal(size=(60, 3)))
        rates.append(np.mean(detector.statistics(rng.normal(size=(2000, 3))).t2 > detector.limits_.t2))
    assert 0.007 < np.mean(rates) < 0.013
    draws = np.random.default_rng(0).chisquare(5, size=200_000)
    limits = Calibration.of(Statistics(draws, draws, draws)).limits("theory", 0.99)
    assert limits.spe == pytest.approx(15.086, rel=0.02)


def test_few_rows_are_remarked_on():
    with pytest.warns(UserWarning, match="A limit at 0.99 needs 99 rows"):
        KernelPCADetector(confidence=0.99).fit(normal(40))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        KernelPCADetector(confidence=0.99, limit="kde").fit(normal(40))
        KernelPCADetector(confidence=0.99).fit(normal(99))


def test_contamination_sets_the_share_of_outliers():
    X = normal(200)
    detector = KernelPCADetector(contamination=0.1).fit(X)
    assert (detector.predict(X) == -1).sum() == 20
    np.testing.assert_array_equal(detector.fit_predict(X), detector.predict(X))


def test_folds_may_be_a_cross_validator():
    X = normal(200)
    blocks = KernelPCADetector(folds=KFold(4)).fit(X)
    assert blocks.limits_.rows == 200
    assert blocks.limits_ != KernelPCADetector(folds=4).fit(X).limits_


def test_many_rows_are_held_out_once(monkeypatch):
    monkeypatch.setattr("kpca.detector.modelling._MANY_ROWS", 1000)
    monkeypatch.setattr("kpca.detector.modelling._HELD_OUT", 400)
    assert KernelPCADetector().fit(normal(1001)).limits_.rows == 400


def test_results_repeat_to_the_bit():
    X = normal(300)
    one, other = (KernelPCADetector(random_state=3, n_jobs=jobs).fit(X) for jobs in (1, 2))
    assert one.limits_ == other.limits_
    np.testing.assert_array_equal(one.score_samples(X), other.score_samples(X))


# -- models -----------------------------------------------------------------------------------------------------------


def test_which_model_is_underneath():
    X = normal(200)
    assert isinstance(KernelPCADetector().fit(X).model_, KernelPCA)
    for kind in ("nystroem", "rff", Nystroem(rank=50), RandomFeatures(rank=64)):
        assert isinstance(KernelPCADetector(approximation=kind).fit(X).model_, IncrementalKernelPCA)


def test_landmarks_judge_as_the_exact_model_does(monkeypatch):
    X, fresh = ring(600), ring(300, seed=1)
    exact = KernelPCADetector(approximation=None).fit(X)
    monkeypatch.setattr("kpca.detector.modelling._EXACT_ROWS", 100)
    landmarks = KernelPCADetector().fit(X)
    assert isinstance(landmarks.model_, IncrementalKernelPCA)
    np.testing.assert_allclose(landmarks.score_samples(fresh), exact.score_samples(fresh), rtol=0.05)
    np.testing.assert_allclose(landmarks.limits_.combined, exact.limits_.combined, rtol=0.05)


def test_units_do_not_matter_when_columns_are_scaled():
    X, fresh = normal(150), normal(20, seed=1)
    units, zeros = np.array([1e-3, 1.0, 1e4]), np.array([5.0, -2.0, 1e5])
    one = KernelPCADetector().fit(X)
    other = KernelPCADetector().fit(X * units + zeros)
    np.testing.assert_allclose(other.score_samples(fresh * units + zeros), one.score_samples(fresh), rtol=1e-4)
    unscaled = KernelPCADetector(scale=None).fit(X)
    inside = make_pipeline(StandardScaler(), KernelPCADetector(scale=None)).fit(X)
    assert unscaled.scaler_ is None
    np.testing.assert_allclose(inside.score_samples(fresh), one.score_samples(fresh), rtol=1e-9)


def test_sparse_rows_and_single_precision_are_taken():
    X = normal(150)
    X[X < 0.5] = 0.0
    dense = KernelPCADetector(scale=None).fit(X).score_samples(X)
    np.testing.assert_allclose(
        KernelPCADetector(scale=None).fit(sparse.csr_matrix(X)).score_samples(sparse.csr_matrix(X)), dense, rtol=1e-6
    )
    assert KernelPCADetector().fit(sparse.csr_matrix(X)).predict(sparse.csr_matrix(X)).shape == (150,)
    single = KernelPCADetector(scale=None).fit(X.astype(np.float32)).score_samples(X.astype(np.float32))
    np.testing.assert_allclose(single, dense, rtol=1e-3)


def test_constant_columns_and_duplicates_do_no_harm():
    X = np.column_stack([normal(120), np.full(120, 7.0)])
    X[60:] = X[:60]
    detector = KernelPCADetector().fit(X)
    assert np.isfinite(detector.score_samples(X)).all()
    moved = X[:1].copy()
    moved[0, 3] = 9.0  # a column that never moved
    assert detector.predict(moved)[0] == -1
    same = KernelPCADetector().fit(np.ones((50, 2)))
    assert same.predict([[1.0, 1.0], [2.0, 2.0]]).tolist() == [1, -1]


def test_files_and_chunks_are_read(tmp_path):
    X = normal(300)
    np.save(tmp_path / "rows.npy", X)
    detector = KernelPCADetector(lags=2).fit(tmp_path / "rows.npy")
    whole = detector.statistics(X)
    np.testing.assert_allclose(detector.statistics(tmp_path / "rows.npy").spe, whole.spe, rtol=1e-9)
    np.testing.assert_allclose(detector.statistics(iter([X[:7], X[7:8], X[8:]])).t2, whole.t2, rtol=1e-9)


# -- lags -------------------------------------------------------------------------------------------------------------


def test_lagged_rows_by_hand():
    X = np.arange(4.0)[:, None]
    np.testing.assert_array_equal(lagged(X, 2), [[0, 0, 0], [1, 0, 0], [2, 1, 0], [3, 2, 1]])
    np.testing.assert_array_equal(lagged(X, 2, np.array([[-2.0], [-1.0]]))[:2], [[0, -1, -2], [1, 0, -1]])
    np.testing.assert_array_equal(lagged(X, 2, np.array([[-1.0]]))[:2], [[0, -1, -1], [1, 0, -1]])
    assert lagged(X[:0], 2).shape == (0, 3)
    np.testing.assert_array_equal(remembered(X, 2), [[2], [3]])
    np.testing.assert_array_equal(remembered(X[:1], 2, np.array([[-2.0], [-1.0]])), [[-1], [0]])


@given(st.lists(st.integers(0, 7), max_size=6), st.integers(0, 4))
@settings(max_examples=60, deadline=None)
def test_lagged_rows_do_not_depend_on_how_the_series_is_cut(cuts, lags):
    X = np.random.default_rng(0).normal(size=(25, 2))
    past, parts, start = None, [], 0
    for stop in [*np.minimum(np.cumsum(cuts), 25).astype(int), 25]:
        parts.append(lagged(X[start:stop], lags, past))
        past, start = remembered(X[start:stop], lags, past), stop
    np.testing.assert_array_equal(np.concatenate(parts), lagged(X, lags))


def test_lags_find_what_single_rows_do_not_show():
    """A slow wave: each value is seen all the time, but not one jump from top to bottom."""
    time = np.arange(800)
    rng = np.random.default_rng(0)
    wave = np.column_stack([np.sin(time / 20), np.cos(time / 31)]) + 0.02 * rng.normal(size=(800, 2))
    jumping = wave.copy()
    jumping[600:] = np.where(time[600:, None] % 2 == 0, wave[600:], wave[400:600])
    blind, seeing = KernelPCADetector().fit(wave[:500]), KernelPCADetector(lags=2).fit(wave[:500])
    assert np.mean(seeing.predict(jumping[602:]) == -1) > 0.9
    assert np.mean(blind.predict(jumping[602:]) == -1) < 0.5
    assert seeing.model_.n_features_in_ == 6


# -- streams ----------------------------------------------------------------------------------------------------------


def test_slow_drift_is_followed():
    rng = np.random.default_rng(0)
    start = rng.normal(size=(400, 3))
    fixed = KernelPCADetector(random_state=0).fit(start)
    moving = KernelPCADetector(random_state=0, forgetting=0.5).fit(start)
    late = []
    for step in range(1, 31):
        batch = rng.normal(size=(100, 3)) + 0.1 * step
        late.append((np.mean(fixed.predict(batch) == -1), np.mean(moving.predict(batch) == -1)))
        moving.partial_fit(batch)
    assert late[-1][0] > 0.5
    assert np.mean(late, axis=0)[1] < 0.2
    assert isinstance(moving.model_, IncrementalKernelPCA) and isinstance(fixed.model_, KernelPCA)


@pytest.mark.filterwarnings("ignore:A limit at")
def test_a_stream_from_the_start_keeps_its_false_alarms():
    rng = np.random.default_rng(0)
    detector = KernelPCADetector(confidence=0.99)
    for _ in range(10):
        detector.partial_fit(rng.normal(size=(100, 4)))
    assert detector.limits_.rows == 1000
    assert 0.003 < np.mean(detector.predict(rng.normal(size=(5000, 4))) == -1) < 0.02


def test_a_refused_batch_changes_nothing():
    detector = KernelPCADetector().fit(normal(200))
    before, limits = detector.score_samples(normal(20, seed=1)), detector.limits_
    shared = detector.model_
    for wrong in (np.full((3, 3), np.nan), normal(5, d=4), [["a", "b", "c"]]):
        with pytest.raises(ValueError, match=r"finite|features|numbers"):
            detector.partial_fit(wrong)
    assert detector.limits_ is limits and detector.model_ is shared
    np.testing.assert_array_equal(detector.score_samples(normal(20, seed=1)), before)
    detector.partial_fit(normal(50, seed=2))
    other = detector.model_
    detector.partial_fit(normal(50, seed=3))
    assert other.n_samples_seen_ == 250 and detector.model_.n_samples_seen_ == 300


# -- wrong input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"statistic": "q"}, "statistic must be"),
        ({"limit": "chi2"}, "limit must be"),
        ({"confidence": 1.0}, "confidence must be"),
        ({"confidence": 99}, "confidence must be"),
        ({"contamination": 0.7}, "contamination must be"),
        ({"contamination": "some"}, "contamination must be"),
        ({"scale": "minmax"}, "scale must be"),
        ({"lags": -1}, "lags must be"),
        ({"lags": 1.5}, "lags must be"),
        ({"folds": 1}, "folds must be"),
        ({"forgetting": 0}, "forgetting must be"),
        ({"kernel": "precomputed"}, "precomputed"),
        ({"kernel": "gauss"}, "kernel"),
        ({"gamma": "narrow"}, "gamma"),
        ({"n_components": 0}, "n_components must be"),
        ({"n_components": "auto"}, "n_components must be"),
        ({"approximation": "magic"}, "approximation"),
    ],
)
def test_wrong_parameters_get_one_sentence(wrong, message):
    with pytest.raises(InputError, match=message) as caught:
        KernelPCADetector(**wrong).fit(normal(50))
    assert "\n" not in str(caught.value)


def test_wrong_rows_get_one_sentence():
    with pytest.raises(InputError, match="at least 5 rows"):
        KernelPCADetector().fit(normal(4))
    with pytest.raises(InputError, match="at least 8 rows"):
        KernelPCADetector(lags=3).fit(normal(7))
    with pytest.raises(InputError, match="lags need dense rows"):
        KernelPCADetector(lags=1).fit(sparse.csr_matrix(normal(50)))
    with pytest.raises(InputError, match="finite"):
        KernelPCADetector().fit(np.array([[np.inf, 1.0]] * 20))
    with pytest.raises(InputError, match="0 or above"):
        KernelPCADetector(kernel="chi2", scale=None).fit(normal(50))


def test_an_interrupted_fit_leaves_the_detector_as_it_was():
    detector = KernelPCADetector().fit(normal(100))
    before = dict(vars(detector))
    with pytest.raises(InputError):
        detector.fit(normal(3))
    assert vars(detector) == before
    assert clone(detector).get_params() == detector.get_params()
