"""RandomFeatures: random features as a transformer, alone or as an approximation inside kernel PCA."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from kpca import inputs, kernels
from kpca.errors import InputError
from kpca.features.random import KernelError, RandomMap, fit_random, kernel_error
from kpca.settings import thread_count

FloatArray = NDArray[Any]


class RandomFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Random features: a linear model of them is close to a kernel model, for the cost of `rank` columns.

    Parameters
    ----------
    rank : int
        How many features; the error falls as rank^(-1/2).
    structure : {"orthogonal", "independent", "hadamard"}
        How directions are drawn. Orthogonal ones err least; "hadamard" is faster for hundreds of columns and more.
        Kernels without directions (laplacian, poly, additive_chi2, histogram_intersection) are drawn independently.
    kernel : str, kernel object or None
        rbf, laplacian, exponential, matern12, matern32, matern52, rational_quadratic, poly, linear, cosine,
        arc_cosine0, arc_cosine1, additive_chi2, histogram_intersection, an object of `kpca.kernels`, or sums and
        multiples of these. None is "rbf", and inside an estimator the estimator's kernel. The features of
        additive_chi2 stand for sum 4xy / (x + y), which is the same kernel once centred.
    gamma, degree, coef0, kernel_params : as in KernelPCA.
    random_state : seed of the draw; None is always the same one.
    n_jobs : threads; None is `kpca.config(threads=...)`.

    Attributes
    ----------
    map_ : the features as a function of rows.
    rank_ : int, their number.
    kernel_ : the kernel they stand for; gamma_ : what gamma came to.
    kernel_error_ : how far f(x).f(y) is from k(x, y) on random pairs of rows of X: an estimate.
    n_features_in_, feature_names_in_.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from kpca.features import RandomFeatures
    >>> X, _ = load_digits(return_X_y=True)
    >>> RandomFeatures(rank=500, gamma="median").fit_transform(X).shape
    (1797, 500)
    """

    def __init__(
        self,
        rank: int = 1000,
        structure: str = "orthogonal",
        *,
        kernel: Any = None,
        gamma: Any = None,
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.rank = rank
        self.structure = structure
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None) -> Self:
        """Draw the features and measure their error on the rows of X; y is ignored."""
        with inputs.unchanged_on_error(self):
            return self._fit(X)

    def _fit(self, X: Any) -> Self:
        inputs.check_jobs(self.n_jobs)
        X = inputs.check_data(self, X, reset=True)
        gamma = kernels.resolve_gamma(self.gamma, X)
        kernel = kernels.resolve(
            "rbf" if self.kernel is None else self.kernel,
            X,
            gamma=gamma,
            degree=self.degree,
            coef0=self.coef0,
            kernel_params=self.kernel_params,
        )
        seed = inputs.seed_of(self.random_state)
        drawn = fit_random(kernel, X, self.rank, self.structure, seed=seed)
        with np.errstate(over="ignore", invalid="ignore"):
            error = kernel_error(drawn, X, seed=seed, threads=thread_count(self.n_jobs))
        if not np.isfinite(error.rms):
            raise InputError(f"Features must be finite; some are NaN or too large: {kernel.remedy}.")
        self.map_: RandomMap = drawn
        self.kernel_error_: KernelError = error
        self.kernel_, self.gamma_, self.rank_ = kernel, gamma, drawn.rank
        return self

    def transform(self, X: Any) -> FloatArray:
        """Return the features of rows, dense and in the precision of X.  # shape: (m, rank)"""
        check_is_fitted(self)
        X = inputs.check_data(self, X, reset=False)
        features = self.map_(X, threads=thread_count(self.n_jobs))
        if not np.isfinite(features).all():
            raise InputError(f"Features must be finite; some are NaN or too large: {self.kernel_.remedy}.")
        return features

    @property
    def _n_features_out(self) -> int:
        return self.rank_

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "map_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
