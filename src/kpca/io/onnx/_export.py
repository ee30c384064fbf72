"""A fitted model as an ONNX file, with the steps of a pipeline in front of it: one row of `TABLE` each."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from dataclasses import asdict
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
from kpca.detector import KernelPCADetector
from kpca.detector.limits import ROUNDING, Written
from kpca.estimators.incremental import IncrementalKernelPCA
from kpca.estimators.kernel_pca import KernelPCA
from kpca.features import Nystroem, RandomFeatures
from kpca.features.nystroem_map import NystroemMap
from kpca.features.projection import FeatureProjection, KernelProjection, LinearProjection
from kpca.features.random import RandomMap
from kpca.io.models import named_steps
from kpca.io.onnx._formulas import Own, Pairs, random_features
from kpca.io.onnx._graph import Graph, Output, Value, absolute, at_most, equal, is_zero, maximum, minimum, sqrt

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

# -- The file: input "X" (batch, d); output "scores" (batch, k), or what a detector says of each row (batch,) ----------

_MODELS = (KernelPCA, IncrementalKernelPCA, KernelPCADetector, Nystroem, RandomFeatures)
_DTYPES = (np.dtype(np.float32), np.dtype(np.float64))


def export(model: Any, target: str | os.PathLike[str] | BinaryIO, *, dtype: Any = None) -> None:
    """Write a fitted model as an ONNX file, whose scores are those of `transform`.

    The file has one input, "X" of shape (batch, d), and one output, "scores" of shape (batch, k); of a detector the
    outputs are "t2", "spe", "combined", "decision_function" and "predict", of shape (batch,). Arithmetic inside is in
    float64 also where both are float32. Rows are not checked: NaN gives NaN, and is abnormal.

    Parameters
    ----------
    model : a fitted KernelPCA, IncrementalKernelPCA, Nystroem, RandomFeatures or a KernelPCADetector without lags, or a
        pipeline that ends in one, after scalers and imputers of scikit-learn. Kernels that are Python functions, and
        precomputed ones, have no formula.
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
    if isinstance(last, Nystroem):
        own = last.map_.landmarks.dtype
    else:
        own = last._score_dtype if isinstance(last, KernelPCA | IncrementalKernelPCA) else np.float64
    kind = _checked_dtype(own if dtype is None else dtype)
    if isinstance(steps[0], Preparation):
        names: Any = steps[0].get_feature_names_out()
        d = len(names)  # columns that it makes, not those that it takes
    else:
        d, names = int(steps[0].n_features_in_), getattr(steps[0], "feature_names_in_", None)
    X = graph.entry(kind)
    for name, step in before:
        X = _prepared(name, step, X)
    if isinstance(last, KernelPCADetector):
        outputs = _judged(last, X, float(np.finfo(kind).eps))
    else:
        width = last.rank_ if isinstance(last, Nystroem | RandomFeatures) else len(last.eigenvalues_)
        outputs = {"scores": Output(_scores(last, X), (width,))}
    content = graph.model(outputs, d, kind, _about(last, d, names))
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
            return _values(projection, X) @ _double(projection.coefficients) - _double(projection.offset)
        case FeatureProjection():
            offset = _double(projection.mean) @ _double(projection.directions)
            return _mapped(projection.feature_map, X, _double(projection.directions)) - offset
    raise InputError("ONNX needs a kernel of rows; this model has a precomputed one: fit with kernel='rbf'.")


def _values(projection: KernelProjection, X: Value) -> Value:
    return Pairs(X, _dense(projection.X, X.graph)).values(projection.kernel, shifted=projection.shifted)


def _judged(detector: KernelPCADetector, X: Value, unit: float) -> dict[str, Output]:
    """Return what a detector says of rows whose numbers are rounded to this unit."""
    detector._check_fitted()
    measure, graph = detector._measure, X.graph
    if detector.lags:
        said = f"An ONNX file judges rows one by one; this detector sees each with the {detector.lags} before it"
        raise InputError(said, remedy="export one with lags=0, or watch with kpca.detector.monitor")
    if not len(measure.variances):
        raise InputError("ONNX needs a detector with components; all rows of the fit of this one were alike.")
    rows = X if detector.scaler_ is None else _scaler(detector.scaler_, X)
    scores, left, rounding = _parts(measure.projection, rows, detector._written(unit))
    t2 = (scores * scores) @ (1.0 / measure.variances)[:, None]
    # an SPE below 0 is none either, unless the kernel is not positive semidefinite
    indefinite = isinstance(measure.projection, KernelProjection) and not measure.projection.kernel.psd
    size = absolute(left) if indefinite else left
    spe = graph.where(at_most(size, rounding), 0.0, left)
    found = {"t2": t2, "spe": spe, "combined": t2 + spe / detector._outside}
    found["decision_function"] = -found[detector.statistic] - detector.offset_
    label = graph.where(at_most(-found["decision_function"], 0.0), 1, -1)  # NaN, too, is abnormal
    outputs = {name: Output(value.flat(), ()) for name, value in found.items()}
    return outputs | {"predict": Output(label.flat(), (), whole=True)}


def _parts(projection: Any, X: Value, written: Written) -> tuple[Value, Value, Value]:
    """Return scores, SPE and how large rounding can make it, as `Written.parts` does.  # shapes: (m, k), 2 × (m, 1)"""
    if isinstance(projection, KernelProjection):
        values, own = _values(projection, X), Own(X)
        scores = values @ _double(projection.coefficients) - _double(projection.offset)
        diagonal = own.values(projection.kernel)
        left = diagonal - (scores * scores).sums()
        if projection.centre is not None:
            c = _double(projection.centre.coefficients)
            constant = projection.centre.square - 2.0 * projection.shift * float(c.sum())
            left = left + constant - 2.0 * (values @ c[:, None])
        return scores, left, absolute(diagonal) * ROUNDING
    if isinstance(projection, LinearProjection):
        centred, V = X - _double(projection.mean), _double(projection.components)
    else:
        centred = _mapped(projection.feature_map, X, None) - _double(projection.mean)
        V = _double(projection.directions).T
    scores = centred @ np.ascontiguousarray(V.T)
    rest = centred - scores @ np.ascontiguousarray(V)
    left = (rest * rest).sums()
    if isinstance(projection, LinearProjection):
        numbers = X + written.origin
        rounding = (numbers * numbers) @ written.of_rows(projection)[:, None]
    else:
        rounding = (left + (scores * scores).sums()) * ROUNDING
    return scores, left, maximum(rounding, (centred * centred).sums() * ROUNDING**2)


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
    core = vars(last).get("model_", last)  # a detector stands on a model
    about = {
        "kpca_version": __version__,
        "model": type(last).__name__,
        "kernel": repr(core.kernel_),
        "n_features": str(d),
        "arithmetic": "float64",
    }
    if names is not None:
        about["feature_names"] = json.dumps([str(name) for name in names])
    if isinstance(last, KernelPCADetector):
        about |= {"statistic": last.statistic, "limits": json.dumps(asdict(last.limits_))}
    for name in ("eigenvalues", "explained_variance_ratio"):
        if hasattr(core, f"{name}_"):
            about[name] = json.dumps([float(value) for value in getattr(core, f"{name}_")])
    return about
