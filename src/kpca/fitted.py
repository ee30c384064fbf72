"""What a fitted KernelPCA can do: project new rows, restore rows, and say how it was found."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator
from sklearn.utils.validation import check_is_fitted

from kpca import inputs, kernels
from kpca.errors import InputError
from kpca.features import RandomFeatures
from kpca.gram.factored import Factored
from kpca.planning import Plan, plan, plan_like
from kpca.preimage.back import Back
from kpca.projection import LinearProjection, Projection
from kpca.restoring import RestoringMixin
from kpca.settings import config, thread_count

FloatArray = NDArray[Any]


class FittedMixin(RestoringMixin):
    """What needs nothing but the result of a fit."""

    kernel: Any
    center: bool
    approximation: Any
    kernel_: kernels.Kernel | None
    X_fit_: Any
    eigenvalues_: FloatArray
    eigenvectors_: FloatArray
    n_features_in_: int
    _projection: Projection
    _back: Back | None
    _roots: FloatArray  # of the weights
    _frobenius2: float
    _planned: tuple[tuple[int, int], int | None]

    def _fitted_scores(self) -> FloatArray:
        """Return the scores of the rows of positive weight that were fitted."""
        scores: FloatArray = self.eigenvectors_ * np.sqrt(self.eigenvalues_)
        if self._roots.size > 1:
            scores /= self._roots.astype(scores.dtype)
        return scores

    @property
    def _keeps_rows(self) -> bool:
        """False where new rows are compared with none: random features, precomputed kernels."""
        precomputed = isinstance(self.kernel, str) and self.kernel == "precomputed"
        by_chance = isinstance(self.approximation, RandomFeatures) or (
            isinstance(self.approximation, str) and self.approximation == "rff"
        )
        return not (precomputed or by_chance)

    def _known_rows(self) -> tuple[Any, FloatArray]:
        if self.kernel_ is None or self.X_fit_ is None:
            return super()._known_rows()
        if hasattr(self, "feature_map_") or hasattr(self, "compression_loss_"):  # landmarks, not the rows of the fit
            return self.X_fit_, self._scores_of(self.X_fit_)
        return self.X_fit_, self._fitted_scores()

    def _scores(self, X: Any) -> FloatArray:
        return self._scores_of(self._checked(X))

    def _checked(self, X: Any) -> Any:
        if isinstance(X, LinearOperator):
            inputs.check_operator_rows(X, self.n_features_in_, precomputed=self.kernel_ is None)
            return X
        X = inputs.check_data(self, X, reset=False)
        if self.kernel_ is None:
            return X
        self.kernel_.check(X)
        return X.astype(self._score_dtype, copy=False)

    def _scores_of(self, X: Any) -> FloatArray:
        with np.errstate(over="ignore", invalid="ignore"):
            scores: FloatArray = self._projection(X, threads=thread_count(self.n_jobs))
            scores = scores.astype(self._score_dtype, copy=False)
        if not np.isfinite(scores).all():
            remedy = "scale them" if self.kernel_ is None else self.kernel_.remedy
            raise InputError(f"Kernel values of new rows must be finite; some are NaN or too large: {remedy}.")
        return scores

    def _projecting(self) -> Projection:
        return self._projection

    def _way_back(self) -> Back | None:
        return self._back

    @property
    def _score_dtype(self) -> np.dtype[Any]:
        return self.eigenvalues_.dtype

    @property
    def plan_(self) -> Plan:
        """Which way the fit went, why, and what memory and time were to be expected of it; made when asked for."""
        check_is_fitted(self)
        rows, limit = self._planned
        whole = (
            self.X_fit_ is not None
            and not hasattr(self, "feature_map_")
            and not isinstance(self.X_fit_, LinearOperator)
        )
        landmarks = getattr(getattr(self, "feature_map_", None), "landmarks", None)
        with config(memory_limit=limit):
            if sparse.issparse(landmarks):
                return plan_like(rows, landmarks, estimator=self, dtype=self.eigenvalues_.dtype)
            return plan(self.X_fit_ if whole else rows, estimator=self, dtype=self.eigenvalues_.dtype)

    @property
    def information_ratio_(self) -> FloatArray:
        """sqrt(sum of the first squared eigenvalues / sum of all), for one component, two, ...  # shape: (k,)"""
        check_is_fitted(self)
        if np.isnan(self._frobenius2) and isinstance(self._projection, LinearProjection):
            # Not needed for the fit, and as costly as one: found when somebody asks.
            weights = None if self._roots.size == 1 else self._roots[:, 0]
            self._frobenius2 = Factored(self.X_fit_, centred=bool(self.center), scale=weights).sum_of_squares()
        squares = self.eigenvalues_.astype(np.float64) ** 2
        ratio: FloatArray = np.sqrt(np.cumsum(squares) / np.maximum(self._frobenius2, max(squares.sum(), 1e-300)))
        return ratio.astype(self.eigenvalues_.dtype)

    def to_sklearn(self) -> Any:
        """Return scikit-learn's KernelPCA with these parameters and, of a fitted model, with its scores.

        It has no counterpart of weights, approximations and center=False, which are refused. Kernels that it does not
        have by name are given to it as functions of pairs of rows, which it evaluates one by one. Of the ways back it
        has the ridge map, without an intercept: with fit_inverse_transform that is solved again, others are left out.
        """
        from kpca import interchange  # scikit-learn's decompositions are many, and hardly ever needed

        return interchange.to_sklearn(self)

    @classmethod
    def from_sklearn(cls, model: Any) -> Self:
        """Return scikit-learn's KernelPCA as this one, with its scores and its inverse_transform if it is fitted.

        Residuals and bounds of its components, which it does not have, are measured in a pass over the kernel matrix.
        """
        from kpca import interchange

        made: Self = interchange.from_sklearn(cls(), model)
        return made

    @property
    def _n_features_out(self) -> int:
        return int(self.eigenvalues_.shape[0])

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "eigenvalues_")
