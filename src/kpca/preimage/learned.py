"""Inverse maps that are learned from training scores and rows: by kernel ridge regression, or by any regressor.

Kernel ridge regression is that of Bakir, Weston and Schoelkopf (2004). The rows are centred first, so that a constant
added to the data is added to the reconstruction. `fit_ridge_map` is scikit-learn's `fit_inverse_transform`, with an
intercept.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from kpca._base.config import BASE, BLAS_BUFFER, memory_budget, require
from kpca._base.errors import InputError
from kpca._base.linalg import FloatArray, mean_of_rows, threads_for
from kpca.gram import CrossGram, Gram
from kpca.kernels import RBF, Kernel
from kpca.preimage import gcv
from kpca.preimage.target import Box, Found, PreimageMethod, PreimageTarget

# What the rounding of float32 kernel values may add to a row, as a share of the spread of the rows.
_SINGLE_ERROR = 1e-4
# Distinct rows from which on a penalty can be chosen by leaving rows out, and the one for fewer.
_FEWEST, _HARDLY_ANY = 5, 1e-8
NOT_FINITE = "The regressor predicted values that are not finite; the mean of the training rows was taken instead."


def ridge_bytes(n: int, d: int, k: int, itemsize: int = 8) -> int:
    """Return what the map of fit_inverse_transform takes: the matrix of the scores, the rows, the solution."""
    return 8 * n * n + 8 * n * (4 * d + 3 * (k + 2)) + n * k * itemsize + BLAS_BUFFER + BASE


@dataclass(frozen=True)
class RidgeMap:
    """A fitted map from scores to rows of data."""

    kernel: Kernel
    scores: FloatArray  # of the training rows, shape: (n, k)
    dual_coef: FloatArray  # shape: (n, d)
    mean: FloatArray  # shape: (d,)

    def __call__(self, scores: FloatArray, *, threads: int = 1) -> FloatArray:
        cross = CrossGram(self.kernel, scores, self.scores, dtype=scores.dtype, threads=threads)
        return (cross @ self.dual_coef + self.mean).astype(scores.dtype, copy=False)


@dataclass(frozen=True)
class RidgeMapWay:
    """The ridge map as the inverse map of a model."""

    map: RidgeMap

    def __call__(self, scores: FloatArray, *, inputs: FloatArray | None = None, threads: int = 1) -> Found:
        return Found.mapped(self.map(scores, threads=threads))


def fit_ridge_map(
    kernel: Kernel, scores: FloatArray, X: FloatArray, alpha: float, weights: FloatArray | None, *, threads: int = 1
) -> RidgeMap:
    """Solve (K + alpha / weights) C = X - mean, with K the kernel matrix of the scores."""
    kernel.check(scores)
    n, d = X.shape
    require(ridge_bytes(n, d, scores.shape[1], X.dtype.itemsize), memory_budget, "or leave fit_inverse_transform out")
    K = Gram(kernel, scores, threads=threads).matrix()
    K.flat[:: len(K) + 1] += alpha if weights is None else alpha / weights
    mean = mean_of_rows(X, weights)
    try:
        # K is symmetric, and its transpose is in LAPACK's order: it is factored where it lies
        with threads_for(n):
            factor = cho_factor(K.T, lower=True, overwrite_a=True, check_finite=False)
            dual_coef = cho_solve(factor, X - mean, overwrite_b=True, check_finite=False)
    except LinAlgError as error:
        raise InputError(
            f"The ridge system of fit_inverse_transform must be positive definite; with alpha={alpha} it is singular: "
            "raise alpha."
        ) from error
    return RidgeMap(kernel, scores, dual_coef.astype(X.dtype, copy=False), mean)


class Ridge(PreimageMethod):
    """Learn the inverse map by kernel ridge regression from scores to rows.

    Parameters
    ----------
    alpha : the penalty, in units of kernel values (divided by the weight of a row, where rows have weights); None lets
        generalised cross-validation choose it. Where the system is singular it is raised until it is not: the fitted
        map says which alpha it used.
    gamma : of the Gaussian kernel between scores; None lets generalised cross-validation choose among a few multiples
        of what the median distance suggests.
    box : (low, high), numbers or one per feature, that results are clipped to.
    penalty : pull towards the inputs, where they are known: (row + penalty * input) / (1 + penalty).
    rescale : whether scores of rows that lie outside what the components explain are brought to full length first.
    """

    name, takes_gains = "ridge", True

    def __init__(
        self,
        alpha: float | None = None,
        gamma: float | None = None,
        box: Any = None,
        penalty: float = 0.0,
        rescale: bool = True,
    ) -> None:
        self.alpha, self.gamma = alpha, gamma
        self.box, self.penalty, self.rescale = box, penalty, rescale

    def fitted(self, target: PreimageTarget, *, seed: int = 0, threads: int = 1) -> RidgeWay:
        target = _distinct(target)
        n, d = target.rows.shape
        alpha = _number_or_none("alpha", self.alpha, positive=False)
        gamma = _number_or_none("gamma", self.gamma, positive=True)
        if alpha is None and n < _FEWEST:  # nothing to be learned from leaving one out
            alpha = _HARDLY_ANY
        self.rescales()
        limits = self.limits(d)
        # three solutions are alive while the penalty is refined, each as large as the rows
        copies = 1 if alpha is not None or n <= gcv.SPECTRAL_ROWS else 2
        needed = ridge_bytes(n, copies * d, target.scores.shape[1], target.scores.dtype.itemsize)
        require(needed, memory_budget, "or learn from fewer rows")
        mean = mean_of_rows(target.rows, target.weights)
        fit = gcv.fit(target.scores, target.rows - mean, target.weights, alpha=alpha, gamma=gamma, threads=threads)
        if fit is None:
            return RidgeWay(None, mean, target.rows.dtype, 0.0, 0.0, np.empty((0, 4)), *limits)
        # float32 if the scores have it, and coefficients are not so large that its rounding would show
        spread = float(np.sqrt(np.square(target.rows - mean).mean()))
        size = float(np.sqrt(np.square(fit.coefficients).sum() / max(d, 1)))
        harmless = float(np.finfo(np.float32).eps) * size <= _SINGLE_ERROR * spread
        dtype = np.float32 if target.scores.dtype == np.float32 and harmless else np.float64
        scores = target.scores.astype(dtype, copy=False)
        solved = RidgeMap(RBF(gamma=fit.gamma), scores, fit.coefficients.astype(dtype), mean)
        return RidgeWay(solved, mean, target.rows.dtype, fit.alpha, fit.gamma, fit.table, *limits)


def _distinct(target: PreimageTarget) -> PreimageTarget:
    """Return the target with each row once, with the weights of all: a row left out must not be known by its twin."""
    rows = np.ascontiguousarray(target.rows)
    whole = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
    _, first, which = np.unique(whole, return_index=True, return_inverse=True)
    if len(first) == len(rows):
        return target
    weights = np.bincount(which, weights=target.weights)
    order = np.argsort(first)
    first, weights = first[order], weights[order].astype(np.float64)
    return replace(target, rows=rows[first], scores=target.scores[first], weights=weights)


@dataclass(frozen=True)
class RidgeWay:
    """A fitted kernel ridge regression; `gcv` lists gamma, alpha, criterion and rows of all that was tried."""

    map: RidgeMap | None  # None where the scores tell nothing apart, and the mean is the answer
    mean: FloatArray  # shape: (d,)
    dtype: np.dtype[Any]
    alpha: float
    gamma: float
    gcv: FloatArray  # shape: (q, 4)
    box: Box | None
    penalty: float

    def __call__(self, scores: FloatArray, *, inputs: FloatArray | None = None, threads: int = 1) -> Found:
        """Return the rows that belong to these scores; far from all training scores that is the mean row."""
        if self.map is None or not len(scores):
            rows = np.tile(self.mean, (len(scores), 1))
        else:
            rows = self.map(np.asarray(scores, dtype=self.map.scores.dtype), threads=threads)
        return Found.mapped(rows.astype(self.dtype, copy=False), inputs, self.box, self.penalty)


class Learned(PreimageMethod):
    """Learn the inverse map by a regressor of scikit-learn, from scores to rows.

    Parameters
    ----------
    regressor : an estimator with fit and predict. A copy is fitted; where its random_state is None it is given the seed
        of the model. Weights of rows are passed on if its fit takes sample_weight.
    box : (low, high), numbers or one per feature, that results are clipped to.
    penalty : pull towards the inputs, where they are known: (row + penalty * input) / (1 + penalty).
    """

    exact_if_linear = False

    def __init__(self, regressor: Any, box: Any = None, penalty: float = 0.0) -> None:
        self.regressor, self.box, self.penalty = regressor, box, penalty

    @property
    def name(self) -> str:  # type: ignore[override]
        return type(self.regressor).__name__

    def fitted(self, target: PreimageTarget, *, seed: int = 0, threads: int = 1) -> LearnedWay:
        d = target.rows.shape[1]
        limits = self.limits(d)
        mean = mean_of_rows(target.rows, target.weights)
        if target.scores.shape[1] == 0:
            return LearnedWay(None, mean, target.rows.dtype, *limits)
        if isinstance(self.regressor, type) or not all(hasattr(self.regressor, name) for name in ("fit", "predict")):
            must, remedy = "must be an estimator with fit and predict", "give one of scikit-learn's, such as "
            raise InputError(must, param="regressor", value=self.regressor, remedy=remedy + "KNeighborsRegressor()")
        try:
            regressor = clone(self.regressor)
        except TypeError as error:
            must = f"regressor must be an estimator that scikit-learn can clone; got {self.regressor!r}."
            raise InputError(must) from error
        found = regressor.get_params(deep=True).items()
        drawn = [name for name, value in found if value is None and name.split("__")[-1] == "random_state"]
        regressor.set_params(**dict.fromkeys(drawn, seed))
        weighted = target.weights is not None and has_fit_parameter(regressor, "sample_weight")
        rows, weights = target.rows[:, 0] if d == 1 else target.rows, {"sample_weight": target.weights}
        try:
            regressor.fit(target.scores, rows, **(weights if weighted else {}))
        except ValueError as error:
            if d > 1 and _fits_one_column(self.regressor, target):
                raise _one_column(regressor, d) from error
            raise InputError(f"regressor must learn rows from scores; {self.name} says: {error}") from error
        way = LearnedWay(regressor, mean, target.rows.dtype, *limits)
        way(target.scores[:1])  # a wrong shape is found out now, not when the map is used
        return way


@dataclass(frozen=True)
class LearnedWay:
    """A fitted regressor from scores to rows."""

    regressor: Any  # None where there are no components, and the mean is the answer
    mean: FloatArray  # shape: (d,)
    dtype: np.dtype[Any]
    box: Box | None
    penalty: float

    def __call__(self, scores: FloatArray, *, inputs: FloatArray | None = None, threads: int = 1) -> Found:
        """Return what the regressor predicts; the mean row where that is not finite."""
        m, d = len(scores), len(self.mean)
        none = self.regressor is None or not m
        predicted = np.tile(self.mean, (m, 1)) if none else np.asarray(self.regressor.predict(scores))
        if predicted.shape != (m, d) and not (d == 1 and predicted.shape == (m,)):
            if predicted.ndim == 1:
                raise _one_column(self.regressor, d)
            got = f"{type(self.regressor).__name__} predicted {predicted.shape}"
            raise InputError(f"regressor must predict an array of shape {(m, d)}; {got}: take another one.")
        with np.errstate(over="ignore"):  # too large for float32 is not finite either
            rows = predicted.reshape(m, d).astype(self.dtype)
        bad = ~np.isfinite(rows).all(axis=1)
        rows[bad] = self.mean.astype(self.dtype)
        return Found.mapped(rows, inputs, self.box, self.penalty, {NOT_FINITE: bad})


def _number_or_none(name: str, value: Any, *, positive: bool) -> float | None:
    """Return None or a finite number that is not negative, and not 0 either if it must be positive."""
    if value is None:
        return None
    real = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not real or not np.isfinite(value) or value < 0 or (positive and value == 0):
        must = f"must be None, to have it chosen, or a finite number {'above' if positive else 'from'} 0"
        raise InputError(must, param=name, value=value)
    return float(value)


def _fits_one_column(regressor: Any, target: PreimageTarget) -> bool:
    """Return True if a regressor that refused all columns takes one; what its tags say of columns is not always so."""
    try:
        clone(regressor).fit(target.scores, target.rows[:, 0])
    except ValueError:
        return False
    return True


def _one_column(regressor: Any, d: int) -> InputError:
    must = f"regressor must predict all {d} columns of the data; {type(regressor).__name__} predicts one"
    return InputError(must, remedy="wrap it in sklearn.multioutput.MultiOutputRegressor")
