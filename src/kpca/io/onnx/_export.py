"""A fitted model as an ONNX file, with the steps of a pipeline in front of it: one row of `TABLE` each."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn import decomposition, feature_selection, impute, preprocessing
from sklearn.utils.validation import check_is_fitted

from kpca import __version__
from kpca._base.errors import InputError
from kpca._base.files import write_whole
from kpca.data.preparation import Preparation
from kpca.estimators.incremental import IncrementalKernelPCA
from kpca.estimators.kernel_pca import KernelPCA
from kpca.features import Nystroem, RandomFeatures
from kpca.features.nystroem_map import NystroemMap
from kpca.features.projection import FeatureProjection, KernelProjection, LinearProjection
from kpca.features.random import RandomMap
from kpca.io.models import named_steps
from kpca.io.onnx._formulas import Pairs, random_features
from kpca.io.onnx._graph import Graph, Value, absolute, equal, is_zero, maximum, minimum, sqrt

FloatArray = NDArray[Any]


def _preparation(step: Preparation, X: Value) -> Value:
    """Numbers imputed and scaled; columns of 0 and 1, which come after them, as they are."""
    if step.vectorizer_ is not None:
        said = "An ONNX file takes numbers; this model weighs the words of documents"
        raise InputError(said, remedy="export the model without its preparation, and give it the weights")
    total, count = len(step.get_feature_names_out()), len(step.layout_.numbers)
    numbers = X if total == count else X.columns(np.arange(count))
    for part in (step.numbers_imputer_, step.scaler_) if count else ():
        numbers = numbers if part is None else TABLE[type(part)](part, numbers)
    if total == count:
        return numbers
    return X.graph.node("Concat", numbers, X.columns(np.arange(count, total)), axis=1) if count else X


def _scaler(step: Any, X: Value) -> Value:
    """Standard or robust: a centre taken off, a scale divided by, each None where it is not wanted."""
    robust = isinstance(step, preprocessing.RobustScaler)
    centre, scale = (step.center_ if robust else step.mean_ if step.with_mean else None), step.scale_
    X = X if centre is None else X - centre
    return X if scale is None else X / scale


def _min_max(step: Any, X: Value) -> Value:
    X = X * step.scale_ + step.min_
    low, high = step.feature_range
    return minimum(maximum(X, float(low)), float(high)) if step.clip else X


def _max_abs(step: Any, X: Value) -> Value:
    X = X / step.scale_
    return minimum(maximum(X, -1.0), 1.0) if getattr(step, "clip", False) else X


def _normalizer(step: Any, X: Value) -> Value:
    if step.norm == "l2":
        sizes = sqrt((X * X).sums())
    else:
        sizes = absolute(X).sums() if step.norm == "l1" else absolute(X).largest()
    return X / X.graph.where(is_zero(sizes), 1.0, sizes)


def _imputer(step: Any, X: Value) -> Value:
    fills = np.asarray(step.statistics_)
    if step.add_indicator or fills.dtype.kind not in "fiu":
        raise InputError(f"ONNX needs an imputer of numbers without add_indicator; got {step!r}: impute before.")
    mark = step.missing_values
    by_nan = mark is None or (isinstance(mark, float) and np.isnan(mark))
    missing = X.graph.node("IsNaN", X) if by_nan else equal(X, float(mark))
    empty = np.isnan(fills)  # columns without a value at the fit are dropped
    filled = X.graph.where(missing, np.where(empty, 0.0, fills), X)
    return filled.columns(np.flatnonzero(~empty)) if empty.any() else filled


def _pca(step: Any, X: Value) -> Value:
    centred: Value = X - step.mean_
    scores = centred @ np.ascontiguousarray(step.components_.T)
    if not step.whiten:
        return scores
    smallest = np.finfo(step.explained_variance_.dtype).eps
    sizes: FloatArray = np.maximum(np.sqrt(step.explained_variance_), smallest)
    return scores / sizes


TABLE: dict[type, Callable[[Any, Value], Value]] = {
    preprocessing.StandardScaler: _scaler,
    preprocessing.MinMaxScaler: _min_max,
    preprocessing.MaxAbsScaler: _max_abs,
    preprocessing.RobustScaler: _scaler,
    preprocessing.Normalizer: _normalizer,
    impute.SimpleImputer: _imputer,
    feature_selection.VarianceThreshold: lambda step, X: X.columns(step.get_support(indices=True)),
    feature_selection.SelectKBest: lambda step, X: X.columns(step.get_support(indices=True)),
    decomposition.PCA: _pca,
    Preparation: _preparation,
}

# -- The file: input "X" (batch, d), output "scores" (batch, k) -------------------------------------------------------

_MODELS = (KernelPCA, IncrementalKernelPCA, Nystroem, RandomFeatures)
_DTYPES = (np.dtype(np.float32), np.dtype(np.float64))


def export(model: Any, target: str | os.PathLike[str] | BinaryIO, *, dtype: Any = None) -> None:
    """Write a fitted model as an ONNX file, whose scores are those of `transform`.

    The file has one input, "X" of shape (batch, d), and one output, "scores" of shape (batch, k). Arithmetic inside is
    in float64 also where both are float32. Rows are not checked: NaN gives NaN.

    Parameters
    ----------
    model : a fitted KernelPCA, IncrementalKernelPCA, Nystroem or RandomFeatures, or a pipeline that ends in one, after
        scalers and imputers of scikit-learn. Kernels that are Python functions, and precomputed ones, have no formula.
    target : a path, where the file appears whole or not at all, or a binary file to write to.
    dtype : float32 or float64, of the input and the output; None is that of the model.

    Examples
    --------
    >>> import io
    >>> from sklearn.datasets import load_digits
    >>> from kpca import KernelPCA
    >>> from kpca.io.onnx import export
    >>> X, _ = load_digits(return_X_y=True)
    >>> export(KernelPCA(2, kernel="rbf", gamma="median").fit(X), io.BytesIO())
    """
    to_file = hasattr(target, "write")
    if not to_file and not isinstance(target, str | os.PathLike):
        raise InputError(f"target must be a path or a binary file; got a {type(target).__name__}.")
    *before, (_, last) = named_steps(model) or [("", model)]
    if type(last) not in _MODELS:
        known = ", ".join(kind.__name__ for kind in _MODELS)
        got = repr(last) if isinstance(last, str) or last is None else f"a {type(last).__name__}"
        raise InputError(f"ONNX needs a fitted {known}, or a pipeline that ends in one; got {got}.")
    steps = [*(step for _, step in before), last]
    for step in steps:
        check_is_fitted(step)
    graph = Graph()
    if isinstance(last, Nystroem | RandomFeatures):
        own = last.map_.landmarks.dtype if isinstance(last, Nystroem) else np.float64
        width = last.rank_
    else:
        own, width = last._score_dtype, len(last.eigenvalues_)
    kind = _checked_dtype(own if dtype is None else dtype)
    if isinstance(steps[0], Preparation):
        names: Any = steps[0].get_feature_names_out()
        d = len(names)  # columns that it makes, not those that it takes
    else:
        d, names = int(steps[0].n_features_in_), getattr(steps[0], "feature_names_in_", None)
    X = graph.entry(kind)
    for name, step in before:
        X = _prepared(name, step, X)
    content = graph.model(_scores(last, X), (d, width), kind, _about(last, d, names))
    if to_file:
        target.write(content)  # type: ignore[union-attr]
    else:
        write_whole(os.fspath(target), content)  # type: ignore[arg-type]


def _checked_dtype(dtype: Any) -> np.dtype[Any]:
    with contextlib.suppress(TypeError):
        found: np.dtype[Any] = np.dtype(dtype)
        if found in _DTYPES:
            return found
    raise InputError("must be float32, float64 or None", param="dtype", value=dtype)


def _prepared(name: str, step: Any, X: Value) -> Value:
    """Return the rows as a fitted step leaves them."""
    if type(step) not in TABLE:
        names = ", ".join(kind.__name__ for kind in TABLE if kind is not Preparation)
        raise InputError(
            f"Exporting as ONNX must know the formula of every step; got {type(step).__name__} as step {name!r}: use "
            f"{names} in front of the model, or do that step outside the file."
        )
    return TABLE[type(step)](step, X)


def _scores(model: Any, X: Value) -> Value:
    """Return the scores.  # shape: (m, k)"""
    if isinstance(model, Nystroem | RandomFeatures):
        return _mapped(model.map_, X, None)
    match projection := model._projecting():
        case LinearProjection():
            return (X - _double(projection.mean)) @ np.ascontiguousarray(_double(projection.components).T)
        case KernelProjection():
            pairs = Pairs(X, _dense(projection.X, X.graph))
            values = pairs.values(projection.kernel, shifted=projection.shifted)
            return values @ _double(projection.coefficients) - _double(projection.offset)
        case FeatureProjection():
            offset = _double(projection.mean) @ _double(projection.directions)
            return _mapped(projection.feature_map, X, _double(projection.directions)) - offset
    raise InputError("ONNX needs a kernel of rows; this model has a precomputed one: fit with kernel='rbf'.")


def _mapped(feature_map: Any, X: Value, V: FloatArray | None) -> Value:
    """Return f(x) V, or f(x) itself."""
    if isinstance(feature_map, RandomMap):
        return random_features(feature_map.part, X, V, feature_map.rank)
    assert isinstance(feature_map, NystroemMap)
    values = Pairs(X, _dense(feature_map.landmarks, X.graph)).values(feature_map.kernel)
    return values @ feature_map.coefficients(np.eye(feature_map.rank) if V is None else V)


def _double(array: Any) -> FloatArray:
    return np.asarray(array, dtype=np.float64)


def _dense(rows: Any, graph: Graph) -> FloatArray:
    """Return known rows as a dense array, unless that alone is too large for a file."""
    graph.reserve(8 * rows.shape[0] * rows.shape[1])
    return np.ascontiguousarray(rows.toarray() if sparse.issparse(rows) else rows, dtype=np.float64)


def _about(last: Any, d: int, names: Any) -> dict[str, str]:
    """Return what the file says about itself, texts only."""
    about = {
        "kpca_version": __version__,
        "model": type(last).__name__,
        "kernel": repr(last.kernel_),
        "n_features": str(d),
        "arithmetic": "float64",
    }
    if names is not None:
        about["feature_names"] = json.dumps([str(name) for name in names])
    for name in ("eigenvalues", "explained_variance_ratio"):
        if hasattr(last, f"{name}_"):
            about[name] = json.dumps([float(value) for value in getattr(last, f"{name}_")])
    return about
