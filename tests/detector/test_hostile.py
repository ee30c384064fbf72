"""The detector against data and settings that nobody had in mind."""

import warnings
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.ensemble import IsolationForest
from sklearn.gaussian_process.kernels import DotProduct
from sklearn.model_selection import GroupKFold, KFold, RepeatedKFold, ShuffleSplit, StratifiedKFold, TimeSeriesSplit

from kpca import InputError, KernelPCA, KernelPCADetector, kernels
from kpca.detector import monitor
from kpca.detector.modelling import splits


def normal(n: int, d: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, d))


# -- limits -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gamma", ["wide", "median"])
@pytest.mark.parametrize("stream", [False, True])
def test_false_alarms_of_many_columns_are_as_many_as_asked_for(gamma, stream):
    """Models of fewer rows overrate the variance of their last component, by which the SPE is divided."""
    beyond = []
    for seed in range(2):
        rng = np.random.default_rng(seed)
        X = rng.random(size=(800, 60))
        detector = KernelPCADetector(gamma=gamma)
        if stream:
            for batch in np.array_split(X, 2):
                detector.partial_fit(batch)
        else:
            detector.fit(X)
        beyond.append(np.mean(detector.predict(rng.random(size=(2000, 60))) == -1))
    assert 0.01 < np.mean(beyond) < 0.07


def test_faded_rows_do_not_count_as_whole_ones():
    detector = KernelPCADetector(confidence=0.95, forgetting=0.3).fit(normal(100))
    with pytest.warns(UserWarning, match="A limit at 0.95 needs 19 rows; of 9"):
        for start in range(0, 60, 5):
            detector.partial_fit(normal(60, seed=1)[start : start + 5])


@pytest.mark.parametrize(
    ("folds", "lags", "message"),
    [
        (GroupKFold(5), 0, "without labels and groups, as KFold"),
        (StratifiedKFold(5), 0, "without labels and groups"),
        (KFold(500), 0, r"must split these 100 rows.*n_splits=500"),
        (TimeSeriesSplit(99), 0, "leaves 1 of 100"),
        (KFold(5, shuffle=True, random_state=0), 9, "share moments with it: give more rows, fewer lags"),
        (5, 80, "share moments with it: give more rows, fewer lags"),
        ([1, 2], 0, "whole number from 2 or a cross-validator"),
    ],
)
def test_folds_that_cannot_be_say_so(folds, lags, message):
    with pytest.raises(InputError, match=message) as found:
        KernelPCADetector(folds=folds, lags=lags).fit(normal(100))
    assert str(found.value).count("\n") == 0


@pytest.mark.parametrize("folds", [ShuffleSplit(3, random_state=0), RepeatedKFold(n_splits=4, random_state=0)])
def test_every_cross_validator_of_rows_will_do(folds):
    limits = KernelPCADetector(folds=folds).fit(normal(100)).limits_
    assert limits.rows == sum(len(held) for _, held in folds.split(normal(100)))


def test_rows_next_to_those_held_out_take_no_part():
    """Also where folds are shuffled: what has a moment in common with a row that is held out."""
    folds = KFold(30, shuffle=True, random_state=0)
    found = list(splits(normal(90), folds, lags=2, seed=0))
    assert len(found) == 30
    for fitted, held in found:
        assert np.abs(fitted[:, None] - held).min() > 2
        assert len(fitted) >= 90 - 5 * len(held)


# -- parameters -------------------------------------------------------------------------------------------------------


def test_numbers_of_numpy_are_numbers():
    X = normal(100)
    assert KernelPCADetector(confidence=np.float32(0.5)).fit(X).limits_.rows == 100


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"scale": np.ones(3)}, "scale must be"),
        ({"limit": np.ones(3)}, "limit must be"),
        ({"gamma": "wyde"}, "'wide', 'scale' or 'median'; got 'wyde'"),
        ({"kernel": "chi2"}, "give scale=None"),
        ({"kernel": "additive_chi2", "scale": "robust"}, "give scale=None"),
    ],
)
def test_wrong_parameters_name_the_remedy(wrong, message):
    with pytest.raises(InputError, match=message):
        KernelPCADetector(**wrong).fit(np.abs(normal(50)))


def test_a_detector_that_was_changed_is_fitted_again():
    """Else the limit of one statistic would judge another, and rows would have the wrong width."""
    X = normal(100)
    for changed in ({"statistic": "spe"}, {"lags": 2}):
        detector = KernelPCADetector().fit(X).set_params(**changed)
        (name,) = changed
        for use in (detector.predict, detector.contributions, detector.partial_fit, partial(monitor, detector)):
            with pytest.raises(InputError, match=f"{name} was .* fit again"):
                use(X)
        assert detector.fit(X).predict(X).shape == (100,)
    for wrong, message in (({"limit": "foo"}, "limit must"), ({"confidence": 2}, "confidence must")):
        with pytest.raises(InputError, match=message):
            KernelPCADetector().fit(X).set_params(**wrong).partial_fit(X)
    faded = KernelPCADetector().fit(X).set_params(forgetting=0.5).partial_fit(X)
    assert faded.model_.forgetting == 0.5


# -- rows -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", ["standard", "robust", None])
def test_sparse_rows_are_judged_as_dense_ones(scale):
    X, new = normal(150) + 2.0, normal(20, seed=1) + 2.0
    detector = KernelPCADetector(scale=scale).fit(X)
    np.testing.assert_allclose(detector.score_samples(sparse.csr_matrix(new)), detector.score_samples(new), rtol=1e-9)


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_the_rows_of_the_caller_are_not_kept(kernel):
    X = normal(100)
    detector = KernelPCADetector(kernel=kernel, scale=None).fit(X)
    assert not np.shares_memory(detector.model_.X_fit_, X)


def test_names_are_compared_wherever_rows_come_from(tmp_path):
    frame = pd.DataFrame(normal(100), columns=["a", "b", "c"])
    other = frame[["b", "a", "c"]]
    frame.to_parquet(tmp_path / "rows.parquet")
    other.to_parquet(tmp_path / "other.parquet")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for source in (tmp_path / "rows.parquet", [frame[:50], frame[50:]]):
            detector = KernelPCADetector().fit(source)
            assert list(detector.feature_names_in_) == ["a", "b", "c"]
            assert detector.contributions(source).names == ("a", "b", "c")
            np.testing.assert_array_equal(detector.predict(source), detector.predict(frame))
            for wrong in (tmp_path / "other.parquet", [other]):
                for use in (detector.predict, detector.partial_fit, detector.contributions):
                    with pytest.raises(InputError, match="got 'b' in place of 'a'"):
                        use(wrong)


def test_baselines_may_be_frames_and_have_the_columns_of_the_fit():
    frame = pd.DataFrame(normal(100), columns=["a", "b", "c"])
    detector, rows = KernelPCADetector().fit(frame), frame[:3]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        by_array = detector.contributions(rows, baseline=frame.to_numpy()[9])
        by_row = detector.contributions(rows, baseline=frame.iloc[9])
        by_polars = detector.contributions(rows, baseline=pl.DataFrame(frame.iloc[[9]].to_dict("list")))
        np.testing.assert_array_equal(by_row.values, by_array.values)
        np.testing.assert_array_equal(by_polars.values, by_array.values)
    for wrong in (frame.iloc[9][["b", "a", "c"]], rows[["b", "a", "c"]]):
        with pytest.raises(InputError, match="feature names"):
            detector.contributions(rows, baseline=wrong)


# -- kernels ----------------------------------------------------------------------------------------------------------


def test_indefinite_kernels_are_warned_of():
    X = normal(100)
    with pytest.warns(UserWarning, match=r"The SPE of 100% of the rows is negative.*statistic='t2'"):
        detector = KernelPCADetector(kernel="sigmoid").fit(X)
    assert detector.score_samples(np.full((1, 3), 30.0))[0] > detector.score_samples(X).max()  # far, and "normal"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        KernelPCADetector(kernel="sigmoid", statistic="t2").fit(X)
        KernelPCADetector(kernel=lambda x, y: float(x @ y)).fit(X[:40])  # not known to be semidefinite, but it is


def test_landmarks_without_variance_are_warned_of():
    with pytest.warns(UserWarning, match="All rows are alike under this kernel"):
        KernelPCADetector(gamma=1e-25, approximation="nystroem").fit(normal(100))


def test_a_residual_of_rounding_is_zero():
    """All is explained by as many components as there are columns, whatever the features are made of."""
    X = normal(200)
    for approximation in (None, "rff"):
        detector = KernelPCADetector(kernel=DotProduct(1.0), approximation=approximation, statistic="spe").fit(X)
        assert (detector.statistics(normal(50, seed=1)).spe == 0).all()


def test_a_kernel_without_similarity_to_itself_has_a_model():
    X = np.abs(normal(60)) + 0.1
    model = KernelPCA(2, kernel=kernels.Chi2(1.0) * kernels.AdditiveChi2()).fit(X)
    assert (model.eigenvalues_ > 0).all()


def test_contributions_to_what_is_all_explained_are_quiet():
    X = normal(100)
    detector = KernelPCADetector(kernel="linear", statistic="spe").fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = detector.contributions(np.vstack([X[:3], np.full((1, 3), 1e12)]))
    assert np.isfinite(found.values).all()


def test_a_monitor_needs_a_detector_of_ours():
    with pytest.raises(InputError, match=r"needs a fitted kpca\.KernelPCADetector; got IsolationForest"):
        monitor(IsolationForest(n_estimators=5).fit(normal(20)), normal(5))


@pytest.mark.parametrize("baseline", ["mean", "nearest"])
def test_contributions_of_fill_values_add_up(baseline):
    """Files of measurements write 9.97e36 for what is missing: all of the statistic lies near the baseline."""
    X = normal(100)
    found = KernelPCADetector().fit(X).contributions([[9.97e36, 0.1, 0.2], [1e60, -1e50, 0.0]], baseline=baseline)
    np.testing.assert_allclose(found.values.sum(axis=1), found.score - found.baseline_score, rtol=1e-6)
    assert [best[0][0] for best in found.top(1)] == ["x0", "x0"]


def test_rows_that_overflow_are_warned_of_once_and_by_name():
    detector = KernelPCADetector(kernel="linear").fit(normal(100))
    with pytest.warns(UserWarning) as caught:
        detector.contributions([[1e300, 1e308, 0.0], [0.0, 1.0, 2.0]])
    assert [str(warning.message)[:43] for warning in caught] == ["The contributions of 1 of 2 rows do not add"]
    assert caught[0].filename == __file__


def test_false_alarms_of_more_columns_than_rows_are_as_many_as_asked_for():
    """Scales of all rows must not be known to the models that judge those held out."""
    beyond = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        detector = KernelPCADetector().fit(rng.standard_t(3, size=(60, 500)))
        beyond.append(np.mean(detector.predict(rng.standard_t(3, size=(500, 500))) == -1))
    assert np.mean(beyond) < 0.08


@pytest.mark.parametrize(("n", "d"), [(80, 2), (200, 5), (400, 2), (400, 10)])
def test_a_far_row_among_those_of_the_fit_does_not_set_the_limit(n: int, d: int) -> None:
    X = np.random.default_rng(0).normal(size=(n, d))
    X = np.vstack([X, np.eye(2, d).sum(axis=0) * 60.0])
    detector = KernelPCADetector(random_state=0).fit(X)
    assert detector.predict(X)[-1] == -1
    assert np.argmin(detector.score_samples(X)) == n
