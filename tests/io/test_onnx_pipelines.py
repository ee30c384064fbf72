"""Pipelines of scikit-learn's scalers and imputers in front of a model, as one ONNX file."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from onnx_models import gap, rows, scores_of
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectKBest, VarianceThreshold
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    PowerTransformer,
    RobustScaler,
    StandardScaler,
)

from kpca import InputError, KernelPCA, Nystroem
from kpca.data.rows import Layout, Rows
from kpca.io.onnx import export

STEPS: dict[str, Any] = {
    "standard": StandardScaler(),
    "standard, no mean": StandardScaler(with_mean=False),
    "standard, no scale": StandardScaler(with_std=False),
    "min and max": MinMaxScaler((-1, 3)),
    "min and max, clipped": MinMaxScaler(clip=True),
    "largest": MaxAbsScaler(),
    "robust": RobustScaler(),
    "robust, no scale": RobustScaler(with_scaling=False),
    "robust, no centre": RobustScaler(with_centering=False),
    "rows, l1": Normalizer("l1"),
    "rows, l2": Normalizer(),
    "rows, max": Normalizer("max"),
    "columns that vary": VarianceThreshold(),
    "columns chosen": SelectKBest(k=2),
    "pca": PCA(3),
    "pca, whitened": PCA(2, whiten=True),
    "nothing": "passthrough",
    "imputer": SimpleImputer(strategy="median"),
}


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf"])
@pytest.mark.parametrize("step", STEPS)
def test_a_step_before_the_model(step: str, kernel: str) -> None:
    X = rows(100) * np.array([1.0, 10.0, 0.1, 5.0, 2.0]) + 50.0
    y = np.arange(100) % 3
    model = Pipeline([("step", STEPS[step]), ("model", KernelPCA(2, kernel=kernel, gamma=0.1))]).fit(X, y)
    new = np.vstack([X[:5], rows(20, seed=1) + 50.0, np.zeros((1, 5))])
    assert gap(scores_of(model, new), model.transform(new)) < 1e-9
    single = scores_of(model, new.astype(np.float32), np.float32)
    assert single.dtype == np.float32 and gap(single, model.transform(new.astype(np.float32).astype(float))) < 1e-5


@pytest.mark.parametrize("step", ["standard", "largest", "robust", "pca, whitened", "min and max"])
def test_one_feature(step: str) -> None:
    """A factor for the one feature is a number beside a matrix product, which runtimes like to round to float32."""
    X = rows(60, 1) + 3.0
    preparing = PCA(1, whiten=True) if step.startswith("pca") else STEPS[step]
    for kernel in ("linear", "poly", "sigmoid", "rbf"):
        model = make_pipeline(preparing, KernelPCA(1, kernel=kernel, gamma=0.1)).fit(X)
        assert gap(scores_of(model, X), model.transform(X)) < 1e-12, kernel


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_missing_values_scaled_and_embedded(dtype: Any) -> None:
    X = rows(120).astype(dtype)
    X[::7, 2] = np.nan
    X[:, 4] = np.nan  # nothing to impute from: the column is dropped
    steps = make_pipeline(SimpleImputer(), StandardScaler(), KernelPCA(3, kernel="rbf", gamma="median"))
    with pytest.warns(UserWarning, match="without any observed values"):
        steps.fit(X)
        expected = steps.transform(X)
    assert gap(scores_of(steps, X), expected) < (1e-9 if dtype == np.float64 else 1e-5)


def test_a_number_that_stands_for_missing() -> None:
    X = np.round(rows(80), 1)
    model = make_pipeline(SimpleImputer(missing_values=0.1, strategy="most_frequent"), Nystroem(10, gamma=0.1)).fit(X)
    assert gap(scores_of(model, X), model.transform(X)) < 1e-9


def test_steps_without_a_formula_are_refused() -> None:
    X = rows(50)
    cases: list[tuple[Any, str]] = [
        (make_pipeline(PowerTransformer(), KernelPCA(2)), "PowerTransformer"),
        (make_pipeline(SimpleImputer(add_indicator=True), KernelPCA(2)), "add_indicator"),
        (make_pipeline(KernelPCA(2), StandardScaler()), "StandardScaler"),
        (make_pipeline("passthrough"), "Pipeline"),
    ]
    for model, word in cases:
        with pytest.raises(InputError, match=word) as caught:
            export(model.fit(X), io.BytesIO())
        assert "\n" not in str(caught.value)


def test_steps_must_be_fitted() -> None:
    model = Pipeline([("scale", StandardScaler()), ("model", KernelPCA(2).fit(rows(20)))])
    with pytest.raises(NotFittedError):
        export(model, io.BytesIO())


def test_pipelines_in_pipelines() -> None:
    X = rows(60)
    inner = make_pipeline(SimpleImputer(), "passthrough", StandardScaler())
    last = make_pipeline(MinMaxScaler(), KernelPCA(2, kernel="rbf"), "passthrough")
    model = make_pipeline("passthrough", inner, last).fit(X)
    assert gap(scores_of(model, X), model.transform(X)) < 1e-9


@pytest.mark.parametrize("scale", ["none", "standard", "robust", "minmax"])
@pytest.mark.parametrize("impute", [None, "median", "mean"])
def test_a_preparation_of_numbers(scale: str, impute: str | None) -> None:
    preparation = pytest.importorskip("kpca.data.preparation")
    X = 3.0 * rows(80) + 7.0
    if impute is not None:
        X[::9, 1] = np.nan
    table = Rows(Layout(tuple("abcde")), X)
    prepare = preparation.Preparation(impute=impute, scale=scale)
    steps = Pipeline([("prepare", prepare), ("model", KernelPCA(2, kernel="rbf"))]).fit(table)
    assert gap(scores_of(steps, X), steps.transform(table)) < 1e-9


def test_a_preparation_of_categories_takes_their_columns() -> None:
    preparation = pytest.importorskip("kpca.data.preparation")
    kinds = np.array(["x", "y", "z"], dtype=object)[np.arange(60) % 3]
    table = Rows(Layout(("a", "b"), ("kind",)), rows(60, 2) + 5.0, {"kind": kinds})
    prepare = preparation.Preparation(encode="onehot", scale="standard")
    model = Pipeline([("prepare", prepare), ("model", KernelPCA(2, kernel="rbf"))]).fit(table)
    columns = np.column_stack([table.numbers, *(kinds == value for value in "xyz")]).astype(float)
    assert gap(scores_of(model, columns), model.transform(table)) < 1e-9
