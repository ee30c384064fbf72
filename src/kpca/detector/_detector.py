"""KernelPCADetector: rows that do not belong, with limits and causes."""

from __future__ import annotations

import copy
import warnings
from contextlib import nullcontext
from dataclasses import replace
from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils.validation import check_is_fitted

from kpca import kernels
from kpca._base.config import thread_count
from kpca._base.errors import InputError, Setting
from kpca._base.threads import in_order, kept_single_threaded
from kpca._base.validation import check_data, check_jobs, check_n_components, seed_of, unchanged_on_error, whole_number
from kpca.data.frames import column_names, is_frame
from kpca.data.rows import stacked
from kpca.data.sources import as_source, in_memory
from kpca.detector import limits, modelling
from kpca.detector.contributions import Causes, Contributions, baseline_rows, contributions_of, root_causes
from kpca.detector.limits import Calibration, Limits, Statistics, Written, measure_of
from kpca.detector.modelling import Model, Recipe
from kpca.estimators.approximate import check_approximation
from kpca.estimators.kernel_pca import KernelPCA
from kpca.estimators.summary import NotebookMixin

FloatArray = NDArray[Any]
_FEWEST_ROWS = 5  # rows that a model is made from at least
_APART = 10.0  # how many times larger the last variance of a model may be than that of a part of its rows
# Normal rows that are kept, for the baselines of contributions.
_KEPT = 1000
_LOOKED_AT = 20_000  # rows that these are taken from, at least
_SHARES = (
    ("confidence", np.nextafter(1.0, 0.0), "a number between 0 and 1, such as 0.99"),
    ("contamination", 0.5, "'auto' or a number above 0 and at most 0.5"),
    ("forgetting", 1.0, "a number above 0 and at most 1, which forgets nothing"),
)
_FITTED_PRIVATE = ("_fitted_with", "_recipe", "_measure", "_calibration", "_past", "_normal")


class KernelPCADetector(NotebookMixin, OutlierMixin, BaseEstimator):  # type: ignore[misc]
    """Anomalies by kernel PCA: T^2 within the components, the true residual (SPE) outside of them, limits and causes.

    Columns are standardised, a model of the normal rows is fitted, and rows are judged by how far they are from it.
    `decision_function` and `predict` go by one statistic; `statistics` gives all three.

    Parameters
    ----------
    n_components : int, float or None
        As in `KernelPCA`; None is one per column (at most 100) and one per 30 rows (at most 30) more.
    kernel, degree, coef0, kernel_params : as in `KernelPCA`. "linear" is PCA monitoring.
    gamma : float, "wide", "scale", "median", array or None
        As in `KernelPCA`; "wide" is a bandwidth of 8 sqrt(d) median distances, d the number of columns (for names
        without distances, such as poly, 1/n_features; kernel objects keep their own). Components then begin with those
        of PCA, down to relations between columns that hardly vary, and go on with the curvature of the data.
    statistic : {"combined", "spe", "t2"}
        What rows are judged by. "combined" is T^2 + SPE / v: the squared Mahalanobis distance in feature space that
        gives all directions outside the components the same variance v, `residual_variance_`.
    limit : {"quantile", "kde", "theory"}
        Where normal ends: a quantile of rows that were held out, or of their smoothed density; or theory, from the rows
        of the fit: a scaled chi2 of the same mean and variance (T^2 of the linear kernel: the F distribution).
    confidence : float
        The share of normal rows that is to stay within the limit. Single rows beyond it are to be expected; `monitor`
        asks for several before it calls them an alarm.
    contamination : "auto" or float in (0, 0.5]
        A number sets the limit so that this share of the rows of the fit are beyond it, instead of `confidence`.
    scale : "standard", "robust" or None
        How columns are scaled: mean and standard deviation, median and interquartile range, not at all.
    lags : int
        For processes that remember: a row is judged together with so many rows before it. Rows are then in the order of
        time; before the first row of X that row itself stands.
    approximation : "auto", None, "nystroem", "rff", `kpca.Nystroem` or `kpca.RandomFeatures`
        As in `KernelPCA`, but "auto" is exact for up to 5000 rows and takes landmarks beyond: 300, or four per
        component.
    forgetting : float in (0, 1]
        For `partial_fit`: before each batch the weight of all earlier rows is multiplied by this.
    folds : int or cross-validator of scikit-learn
        How rows are held out for limits: in this many parts, each in turn (blocks in time, if there are lags). Of more
        than 50 000 rows 20 000 are held out once.
    random_state : seed of what is held out, and of landmarks.
    n_jobs : threads; None is `kpca.config(threads=...)`.

    Attributes
    ----------
    limits_ : `t2`, `spe`, `combined`, and what they are from.
    offset_ : the limit of the chosen statistic with a minus: `decision_function` is `score_samples` - offset_.
    residual_variance_ : of directions outside the components: what the SPE of rows that were held out shows, at least
        what rounding makes of an exact relation, at most the variance of the last component.
    model_ : the fitted `KernelPCA` or `IncrementalKernelPCA`, of scaled (and lagged) rows.
    scaler_ : scikit-learn's scaler, or None.
    centre_ : (d * (lags + 1),), the mean of the rows the model was made from, scaled.
    n_features_in_, feature_names_in_.

    Examples
    --------
    >>> import numpy as np
    >>> from kpca import KernelPCADetector
    >>> angle = np.random.default_rng(0).uniform(0, 2 * np.pi, 500)
    >>> ring = np.column_stack([np.cos(angle), np.sin(angle)])
    >>> detector = KernelPCADetector().fit(ring)
    >>> detector.predict([[1.0, 0.0], [0.0, 0.0], [30.0, 30.0]]).tolist()
    [1, -1, -1]
    """

    model_: Model
    limits_: Limits
    offset_: float
    residual_variance_: float
    centre_: FloatArray
    scaler_: Any
    _calibration: Calibration
    _past: FloatArray | None  # the newest scaled rows, for those to come

    def __init__(
        self,
        n_components: int | float | None = None,
        *,
        kernel: Any = "rbf",
        gamma: Any = "wide",
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        statistic: str = "combined",
        limit: str = "quantile",
        confidence: float = 0.95,
        contamination: float | str = "auto",
        scale: str | None = "standard",
        lags: int = 0,
        approximation: Any = "auto",
        forgetting: float = 1.0,
        folds: Any = 5,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.statistic = statistic
        self.limit = limit
        self.confidence = confidence
        self.contamination = contamination
        self.scale = scale
        self.lags = lags
        self.approximation = approximation
        self.forgetting = forgetting
        self.folds = folds
        self.random_state = random_state
        self.n_jobs = n_jobs

    # -- fitting ----------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn what is normal from the rows of X, most of which should be.

        Parameters
        ----------
        X : (n, d) array, data frame or CSR matrix; with lags, in the order of time.
        y : ignored.
        """
        with unchanged_on_error(self):
            for name in [name for name in vars(self) if name.endswith("_") or name in _FITTED_PRIVATE]:
                delattr(self, name)
            self._check_parameters()
            self._fit(*self._taken(X, reset=True), streaming=False)
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Learn from more normal rows, so that slow drift is followed; limits then come from how they were judged.

        The first batch decides on scales, bandwidth and landmarks, and so must be typical. After `fit` the model goes
        on as a stream (an exact one by landmarks among its rows). All rows are learned from: leave faults out, as
        `kpca.detector.monitor(..., adapt=True)` does.
        """
        with unchanged_on_error(self):
            self._check_parameters()
            if not hasattr(self, "model_"):
                self._fit(*self._taken(X, reset=True), streaming=True)
                return self
            self._check_fitted()
            rows, unit, past = self._seen(X, self._past)
            self._learn(rows, unit)
            self._past = past
        return self

    def _learn(self, rows: Any, unit: float) -> None:
        """Add rows, scaled and with lags, to the model, after a look at how it judges them."""
        judged, known = self._judge(rows, unit), self.model_
        # a copy, as batches are added to it: what shares the model with this detector does not change
        model = self._recipe.model(known.X_fit_, None) if isinstance(known, KernelPCA) else copy.copy(known)
        self.model_ = model.set_params(forgetting=float(self.forgetting)).partial_fit(rows)
        self._measure = measure_of(self.model_)
        self._calibration = self._calibration.extended(judged, float(self.forgetting))
        self._set_limits(None, rounding=self._weigh(rows, unit))

    def _fit(self, X: Any, unit: float, *, streaming: bool) -> None:
        self.scaler_ = modelling.fitted_scaler(self.scale, X)
        series = self._scaled(X)
        # copied where nothing else does: the model keeps rows, and X is the caller's
        rows = modelling.lagged(series, self.lags)[self.lags :] if self.lags or series is not X else X.copy()
        if rows.shape[0] < _FEWEST_ROWS:
            least = f"at least {_FEWEST_ROWS + self.lags} rows to learn what is normal from"
            raise InputError(f"A detector needs {least}; got {X.shape[0]} sample(s).")
        self._fitted_with = {"lags": self.lags, "statistic": self.statistic}
        parameters = {name: getattr(self, name) for name in ("degree", "coef0", "kernel_params")}
        kernel = modelling.kernel_for(rows, X, self.scale, self.kernel, self.gamma, **parameters)
        count, seed = modelling.components_for(self.n_components, *rows.shape), seed_of(self.random_state)
        self._recipe = Recipe(kernel, count, self.approximation, float(self.forgetting), seed, self.n_jobs)
        self.model_ = self._recipe.model(rows, None if streaming else rows.shape[0])
        self._measure = measure_of(self.model_)
        # all rows are looked at where a limit is theirs; otherwise some show what is normal
        whole = self.limit == "theory" or not isinstance(self.contamination, str)
        some = rows if whole else rows[:: max(1, rows.shape[0] // _LOOKED_AT)]
        own = self._judge(some, unit)
        held = own if self.limit == "theory" else self._held_out(rows, unit)
        self._calibration = Calibration.of(held)
        rounding = self._weigh(some, unit)
        own = own.at(self._outside)
        self._set_limits(own, rounding=rounding)
        self._past = modelling.remembered(series, self.lags)
        modelling.warn_of_model(self.model_, self._measure, None if self.statistic == "t2" else own.spe)
        self.centre_ = np.asarray(rows.mean(axis=0), dtype=np.float64).ravel()
        normal = np.flatnonzero(own[self.statistic] <= max(-self.offset_, float(np.median(own[self.statistic]))))
        self._normal = some[normal[:: max(1, len(normal) // _KEPT)]]

    def _weigh(self, rows: Any, unit: float) -> float:
        """Settle how much the SPE counts beside T^2; return how large rounding makes it for rows like these."""
        some = rows[:: max(1, rows.shape[0] // _KEPT)]
        found = self._written(unit).parts(self._measure.projection, some)[2]
        rounding = float(np.median(found[found > 0.0])) if found.any() else 0.0  # a zero has none
        self.residual_variance_ = self._calibration.outside(self._measure.outside, rounding)
        self._calibration = self._calibration.at(self._outside)
        return rounding

    def _set_limits(self, own: Statistics | None, *, rounding: float) -> None:
        """Set the limits, and the offset that goes with them; `own` are the statistics of the rows of a whole fit."""
        linear = isinstance(self._recipe.kernel, kernels.Linear)
        fitted = (len(self._calibration.weights), len(self._measure.variances)) if linear else None
        confidence = float(self.confidence)
        self.limits_ = self._calibration.limits(self.limit, confidence, rounding=rounding, fitted=fitted)
        if isinstance(self.contamination, str):
            needed = int(np.ceil(confidence / (1.0 - confidence)))
            rows = round(self._calibration.size)
            if self.limit == "quantile" and rows < needed:
                said = f"A limit at {confidence:g} needs {needed} rows; of {rows} the largest statistic is the limit, "
                said += "which more normal rows will exceed than asked: give more rows, or take limit='kde'."
                warnings.warn(said, UserWarning, stacklevel=4)
            self.offset_ = -self.limits_[self.statistic]
        elif own is not None:
            self.offset_ = float(np.quantile(-own[self.statistic], float(self.contamination)))
        else:
            self.offset_ = -self._calibration.quantile(self.statistic, 1.0 - float(self.contamination))

    def _held_out(self, rows: Any, unit: float) -> Statistics:
        """Return the statistics of rows by models that did not see them."""
        written = self._written(unit)
        seed, threads = seed_of(self.random_state), thread_count(self.n_jobs)
        parts = list(modelling.splits(rows, self.folds, lags=self.lags, seed=seed))
        folds, found = modelling.shared_folds(self.model_, rows, parts, self.scale), []
        if folds is None:
            return Statistics.joined([self._held_out_alone(rows, *part, written) for part in parts])

        def judged(fold: modelling.Fold) -> Statistics:
            inner = max(1, threads // len(parts))
            measure = modelling.measure_without(self.model_, rows, fold, len(self._measure.variances), threads=inner)
            return measure(rows[fold.held], written=written, threads=inner)

        with kept_single_threaded():
            in_order(folds, lambda: judged, lambda fold, statistics: found.append(statistics), threads)
        return Statistics.joined(found)

    def _held_out_alone(
        self, rows: Any, fitted: modelling.Indices, held: modelling.Indices, written: Written
    ) -> Statistics:
        """Return the statistics of rows by a model that shares nothing with them, not even scales."""
        # of many columns and few rows the scales alone would make rows look closer than new ones are
        scaler = modelling.fitted_scaler(self.scale, rows[fitted])
        model = self._recipe.model(modelling.scaled(scaler, rows[fitted]), rows.shape[0])
        variances = self._measure.variances
        measure = measure_of(model, len(variances))
        judged = measure(modelling.scaled(scaler, rows[held]), written=written, threads=thread_count(self.n_jobs))
        # Where the two are far apart, a row that lies very far out has set the scales of one of them: its residuals
        # would then set a limit that nothing exceeds, least of all that row. So they are put on one scale.
        last = len(measure.variances) - 1
        ratio = variances[last] / measure.variances[last] if last >= 0 else 1.0
        apart = not 1.0 / _APART <= ratio <= _APART
        return replace(judged, spe=judged.spe * ratio) if apart else judged

    # -- judging ----------------------------------------------------------------------------------------------------

    def statistics(self, X: Any) -> Statistics:
        """Return T^2, SPE and both combined for the rows of X, which may lie in files or come in chunks."""
        self._check_fitted()
        if in_memory(X):
            return self._judge(*self._seen(X)[:2])
        parts, past, source = [], None, as_source(X)
        modelling.compare_names(getattr(self, "feature_names_in_", None), source.names)
        with modelling.names_are_known():
            for chunk in source.chunks():
                rows, unit, past = self._seen(chunk, past)
                parts.append(self._judge(rows, unit))
        return Statistics.joined(parts)

    def score_samples(self, X: Any) -> FloatArray:
        """Return the chosen statistic with a minus: the lower, the more abnormal.  # shape: (m,)"""
        return -self.statistics(X)[self.statistic]

    def decision_function(self, X: Any) -> FloatArray:
        """Return how far rows are within the limit; negative beyond it.  # shape: (m,)"""
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Return 1 for rows within the limit and -1 beyond it.  # shape: (m,)"""
        return np.asarray(np.where(self.decision_function(X) < 0, -1, 1))

    # -- causes -----------------------------------------------------------------------------------------------------

    def contributions(
        self, X: Any, *, statistic: str | None = None, method: str = "integrated", baseline: Any = "mean"
    ) -> Contributions:
        """Return how much each variable contributes to the statistic of each row.

        Parameters
        ----------
        X : rows; with lags, in the order of time.
        statistic : {"combined", "spe", "t2"}; None is that of the detector.
        method : {"integrated", "gradient"}
            Gradients integrated along the line from the baseline, which add up to the difference of both statistics; or
            the gradient at the row times the difference of the two, which is faster and need not.
        baseline : "mean", "nearest" or an array
            What rows are compared with: the mean of the fit, the nearest of at most 1000 normal rows of the fit, or one
            row (or one for each row of X) in the units of the data.
        """
        self._check_fitted()
        name = self.statistic if statistic is None else limits.check_statistic(statistic)
        rows, unit, _ = self._seen(X)
        how: dict[str, Any] = {"outside": self._outside, "written": self._written(unit)}
        surface = self._measure.surface(name, **how, threads=thread_count(self.n_jobs))
        if sparse.issparse(rows):
            raise InputError("Contributions need dense rows; got a sparse matrix: densify it.")

        def prepare(X: Any) -> Any:
            # as the model sees rows that have been the same for as long as it remembers
            with nullcontext() if is_frame(X) else modelling.names_are_known():
                return np.tile(self._scaled(self._taken(X, reset=False)[0]), self.lags + 1)

        compared, called = baseline_rows(baseline, rows, centre=self.centre_, known=self._normal, prepare=prepare)
        names = column_names(None, getattr(self, "feature_names_in_", None), X, self.n_features_in_)
        said: dict[str, Any] = {"statistic": name, "method": method, "baseline_name": called}
        return contributions_of(surface, rows, compared, names=names, lags=self.lags, **said)

    def root_causes(
        self,
        X: Any,
        rows: Any = None,
        *,
        statistic: str | None = None,
        method: str = "integrated",
        baseline: Any = "mean",
    ) -> Causes:
        """Return the variables ranked by their share of an alarm.

        Parameters
        ----------
        X : rows in the order of time.
        rows : the rows of the alarm, a slice, numbers or a mask, such as a window of `kpca.detector.alarm_windows`;
            None is all of X. The first few dozen rows of an alarm say most: controllers answer to a fault, and spread
            it.
        statistic, method, baseline : as in `contributions`.
        """
        return root_causes(self.contributions(X, statistic=statistic, method=method, baseline=baseline), rows)

    # -- rows -------------------------------------------------------------------------------------------------------

    def _seen(self, X: Any, past: FloatArray | None = None) -> tuple[Any, float, FloatArray | None]:
        """Return rows as the model sees them, scaled and with those before, their eps, and the past of the next."""
        taken, unit = self._taken(X, reset=False)
        rows = self._scaled(taken)
        return modelling.lagged(rows, self.lags, past), unit, modelling.remembered(rows, self.lags, past)

    @property
    def _outside(self) -> float:
        """The variance of directions outside the components; in older files that of the last component."""
        return float(getattr(self, "residual_variance_", self._measure.outside))

    def _written(self, unit: float) -> Written:
        """Return how rows came that the model sees scaled and with lags, where `unit` is the eps of their dtype."""
        origin = -np.asarray(self._scaled(np.zeros((1, self.n_features_in_))))[0]
        return Written(np.tile(origin, self.lags + 1), unit)

    def _measured(self, rows: Any, unit: float) -> Statistics:
        """Return the statistics of rows as the model sees them, infinite or NaN where they overflow."""
        written = self._written(unit)
        return self._measure(rows, written=written, threads=thread_count(self.n_jobs)).at(self._outside)

    def _judge(self, rows: Any, unit: float) -> Statistics:
        self._recipe.kernel.check(rows)
        found = self._measured(rows, unit)
        if not np.isfinite(found.combined).all():
            row = int(np.flatnonzero(~np.isfinite(found.combined))[0])
            raise InputError(f"Kernel values must be finite; those of row {row} are not: {self._recipe.kernel.remedy}.")
        return found

    def _taken(self, X: Any, *, reset: bool) -> tuple[Any, float]:
        """Return rows of data in double precision, as T^2 asks for all digits of small variances, and their own eps."""
        if in_memory(X):
            X = check_data(self, X, reset=reset)
        else:
            source = as_source(X)
            if not reset:
                modelling.compare_names(getattr(self, "feature_names_in_", None), source.names)
            with modelling.names_are_known():
                X = check_data(self, stacked(list(source.chunks())), reset=reset)
            if reset and source.names is not None:
                self.feature_names_in_ = np.asarray(source.names, dtype=object)
        if self.lags and sparse.issparse(X):
            raise InputError("need dense rows; got a sparse matrix: densify it.", param="lags")
        return X.astype(np.float64, copy=False), float(np.finfo(X.dtype).eps)

    def _check_fitted(self) -> None:
        """Refuse a detector that is not fitted, or no longer as it was."""
        check_is_fitted(self)
        for name, value in self._fitted_with.items():
            if getattr(self, name) != value:
                now = f" was {value!r} at the fit and is {getattr(self, name)!r} now"
                raise InputError((Setting(name), now), remedy="fit again")

    def _scaled(self, X: Any) -> Any:
        return modelling.scaled(self.scaler_, X)

    def _check_parameters(self) -> None:
        check_n_components(self.n_components)
        check_jobs(self.n_jobs)
        limits.check_statistic(self.statistic)
        limits.check_choice("limit", self.limit, limits.METHODS)
        whole_number("lags", self.lags, 0)
        modelling.check_folds(self.folds)
        limits.check_choice("scale", self.scale, ("standard", "robust", None))
        for name, most, must in _SHARES:
            value = getattr(self, name)
            share = isinstance(value, Real) and not isinstance(value, bool) and 0.0 < float(value) <= most
            if not share and not (name == "contamination" and isinstance(value, str) and value == "auto"):
                raise InputError(f"must be {must}", param=name, value=value)
        if isinstance(self.kernel, str) and self.kernel == "precomputed":
            none = ("A detector needs rows of data; ", Setting("kernel", "precomputed"), " has none")
            raise InputError(none, remedy="take a kernel of kpca")
        check_approximation(self.approximation, precomputed=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
