"""A detector is explained by its model, in the columns that the user knows; lags of a variable are summed up."""

import numpy as np
import pandas as pd
import pytest
import reference
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from kpca import InputError, KernelPCADetector, explain

NAMES = ["flow", "level", "heat"]


def rows(n: int = 60) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((n, 3)).cumsum(axis=0) * [1.0, 10.0, 0.1]


def series(X: np.ndarray, lags: int) -> np.ndarray:
    """Rows with their past, the first one repeated, written out."""
    past = [np.vstack([np.repeat(X[:1], lag, axis=0), X[: len(X) - lag]]) for lag in range(lags + 1)]
    return np.hstack(past)


@pytest.mark.filterwarnings("ignore:A limit at")
@pytest.mark.parametrize("lags", [0, 2])
@pytest.mark.parametrize("scale", ["standard", None])
def test_a_detector_is_explained_by_its_model(scale, lags):
    X = rows()
    detector = KernelPCADetector(3, lags=lags, scale=scale, gamma=0.1 if scale else 1e-3).fit(
        pd.DataFrame(X, columns=NAMES)
    )
    frame = pd.DataFrame(rows(20), columns=NAMES)
    units = X.std(axis=0) if scale else np.ones(3)
    means = X.mean(axis=0) if scale else np.zeros(3)
    wide = series((frame.to_numpy() - means) / units, lags)
    each, overall = reference.importance(detector.model_.transform, wide)
    found = explain.importance(detector, frame)
    assert found.names == tuple(NAMES)
    np.testing.assert_allclose(found.values, overall.reshape(lags + 1, 3).sum(axis=0), rtol=1e-4)
    np.testing.assert_allclose(found.by_component, each.reshape(3, lags + 1, 3).sum(axis=1), rtol=1e-4, atol=1e-9)
    per_unit = explain.importance(detector, frame, scaled=False)
    slopes = np.array([reference.slopes(detector.model_.transform, x) for x in wide]) / np.tile(units, lags + 1)
    expected = np.abs(slopes).mean(axis=0).reshape(3, lags + 1, 3).sum(axis=1)
    np.testing.assert_allclose(per_unit.by_component, expected, rtol=1e-4, atol=1e-9)
    pointed = explain.arrows(detector, frame, scaled=False)
    truth = slopes[:, :2].reshape(20, 2, lags + 1, 3).sum(axis=2)
    np.testing.assert_allclose(pointed.arrows, truth, rtol=1e-4, atol=1e-7)
    assert explain.arrows(detector, frame, variables=1).names == (explain.arrows(detector, frame).top(1)[0][0],)
    scores = detector.model_.transform(wide)
    assert explain.extremes(detector, frame, n=1).highest[0, 0] == scores[:, 0].argmax()


@pytest.mark.filterwarnings("ignore:A limit at")
@pytest.mark.parametrize("refit", [False, True])
def test_a_variable_is_shuffled_together_with_its_past(refit):
    detector = KernelPCADetector(3, lags=1, gamma=0.1).fit(rows())
    found = explain.permutation_importance(detector, rows(), repeats=2, refit=refit)
    assert found.values.shape == (3,) and found.names == ("x0", "x1", "x2")
    wide = series((rows() - rows().mean(axis=0)) / rows().std(axis=0), 1)
    again = explain.permutation_importance(detector.model_, wide, repeats=2, refit=refit)
    assert again.values.shape == (6,)
    if not refit:
        order = np.random.default_rng([np.random.RandomState(0).randint(2**31 - 1), 0]).permutation(60)
        moved = wide.copy()
        moved[:, [1, 4]] = wide[order][:, [1, 4]]
        before, after = detector.model_.transform(wide), detector.model_.transform(moved)
        expected = 0.5 * np.square(after - before).mean(axis=0).sum() / before.var(axis=0).sum()
        once = explain.permutation_importance(detector, rows(), repeats=1)
        assert once.values[1] == pytest.approx(expected)


@pytest.mark.filterwarnings("ignore:A limit at")
def test_detectors_in_pipelines_and_the_rows_they_keep():
    X = rows()
    pipeline = make_pipeline(FunctionTransformer(np.tanh, feature_names_out="one-to-one"), KernelPCADetector(2)).fit(X)
    assert explain.importance(pipeline, X).names == ("x0", "x1", "x2")
    detector = KernelPCADetector(2).fit(X)
    np.testing.assert_allclose(explain.importance(detector).values, explain.importance(detector, X).values)
    with pytest.raises(InputError, match="X has 2 features"):
        explain.importance(detector, X[:, :2])
