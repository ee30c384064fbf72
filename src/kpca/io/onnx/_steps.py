"""Steps of a scikit-learn pipeline in front of the model, as formulas of an ONNX graph: one row of `TABLE` each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import decomposition, feature_selection, impute, preprocessing

from kpca.errors import InputError
from kpca.io.onnx._functions import absolute, is_zero, maximum, minimum, sqrt
from kpca.io.onnx._graph import Value

FloatArray = NDArray[Any]
Formula = Callable[[Any, Value], Value]


def prepared(name: str, step: Any, X: Value) -> Value:
    """Return the rows as a fitted step leaves them."""
    if step is None or (isinstance(step, str) and step == "passthrough"):
        return X
    formula = _preparation if is_preparation(step) else TABLE.get(type(step))
    if formula is None:
        names = ", ".join(kind.__name__ for kind in TABLE)
        raise InputError(
            f"Exporting as ONNX must know the formula of every step; got {type(step).__name__} as step {name!r}: use "
            f"{names} in front of the model, or do that step outside the file."
        )
    return formula(step, X)


def is_preparation(step: Any) -> bool:
    """Return True for a fitted `kpca.io.preparation.Preparation`, known by what it holds."""
    return all(hasattr(step, name) for name in ("layout_", "numbers_imputer_", "scaler_", "encoder_", "vectorizer_"))


def columns_in(step: Any) -> tuple[int, Any]:
    """Return how many columns a step takes in a file, and their names or None.

    Categories have no numbers: a preparation takes the columns of 0 and 1 that it makes of them.
    """
    if is_preparation(step):
        names = step.get_feature_names_out()
        return len(names), names
    return int(step.n_features_in_), getattr(step, "feature_names_in_", None)


def _preparation(step: Any, X: Value) -> Value:
    """Numbers imputed and scaled; columns of 0 and 1, which come after them, as they are."""
    if step.vectorizer_ is not None:
        raise InputError(
            "An ONNX file takes numbers; this model weighs words of documents: export the model alone, without its "
            "preparation, and give it the weights."
        )
    total, count = len(step.get_feature_names_out()), len(step.layout_.numbers)
    numbers = X if total == count else X.columns(np.arange(count))
    for part in (step.numbers_imputer_, step.scaler_) if count else ():
        numbers = numbers if part is None else TABLE[type(part)](part, numbers)
    if total == count:
        return numbers
    return X.graph.node("Concat", numbers, X.columns(np.arange(count, total)), axis=1) if count else X


def _standard(step: Any, X: Value) -> Value:
    if step.with_mean:
        X = X - step.mean_
    if step.with_std:
        X = X / step.scale_
    return X


def _min_max(step: Any, X: Value) -> Value:
    X = X * step.scale_ + step.min_
    low, high = step.feature_range
    return minimum(maximum(X, float(low)), float(high)) if step.clip else X


def _max_abs(step: Any, X: Value) -> Value:
    X = X / step.scale_
    return minimum(maximum(X, -1.0), 1.0) if getattr(step, "clip", False) else X


def _robust(step: Any, X: Value) -> Value:
    if step.with_centering:
        X = X - step.center_
    if step.with_scaling:
        X = X / step.scale_
    return X


def _normalizer(step: Any, X: Value) -> Value:
    sizes = {
        "l1": lambda: absolute(X).sums(),
        "l2": lambda: sqrt((X * X).sums()),
        "max": lambda: absolute(X).largest(),
    }[step.norm]()
    return X / X.graph.where(is_zero(sizes), 1.0, sizes)


def _imputer(step: Any, X: Value) -> Value:
    fills = np.asarray(step.statistics_)
    if step.add_indicator or fills.dtype.kind not in "fiu":
        raise InputError(
            "Exporting as ONNX needs an imputer of numbers without add_indicator; got "
            f"{step!r}: leave that out, or impute outside the file."
        )
    missing = X.graph.node("IsNaN", X) if _is_nan(step.missing_values) else _equals(X, float(step.missing_values))
    empty = np.isnan(fills)  # columns without a value at the fit are dropped
    filled = X.graph.where(missing, np.where(empty, 0.0, fills), X)
    return filled.columns(np.flatnonzero(~empty)) if empty.any() else filled


def _is_nan(value: Any) -> bool:
    return value is None or (isinstance(value, float) and np.isnan(value))


def _equals(X: Value, number: float) -> Value:
    return X.graph.node("Equal", X, number)


def _pca(step: Any, X: Value) -> Value:
    centred: Value = X - step.mean_
    scores = centred @ np.ascontiguousarray(step.components_.T)
    if not step.whiten:
        return scores
    smallest = np.finfo(step.explained_variance_.dtype).eps
    sizes: FloatArray = np.maximum(np.sqrt(step.explained_variance_), smallest)
    return scores / sizes


def _selected(step: Any, X: Value) -> Value:
    return X.columns(step.get_support(indices=True))


TABLE: dict[type, Formula] = {
    preprocessing.StandardScaler: _standard,
    preprocessing.MinMaxScaler: _min_max,
    preprocessing.MaxAbsScaler: _max_abs,
    preprocessing.RobustScaler: _robust,
    preprocessing.Normalizer: _normalizer,
    impute.SimpleImputer: _imputer,
    feature_selection.VarianceThreshold: _selected,
    feature_selection.SelectKBest: _selected,
    decomposition.PCA: _pca,
}
