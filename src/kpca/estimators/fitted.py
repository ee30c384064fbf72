"""Rows restored from scores without a way back: by the mean of known rows whose scores are nearest."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator
from sklearn.exceptions import NotFittedError
from sklearn.neighbors import NearestNeighbors
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from kpca import kernels
from kpca._base.config import config, thread_count
from kpca._base.errors import InputError
from kpca._base.threads import no_openmp_threads
from kpca._base.validation import check_data, check_operator_rows, check_scores
from kpca.data.sinks import scores_in_chunks
from kpca.data.sources import as_source, in_memory
from kpca.estimators.plan import Plan, plan, plan_like
from kpca.estimators.summary import NotebookMixin
from kpca.features import RandomFeatures
from kpca.features.projection import LinearProjection, MatrixProjection, Projection
from kpca.gram.factored import Factored
from kpca.preimage.back import Back, PreimageReport
from kpca.preimage.target import Found

FloatArray = NDArray[Any]
NEIGHBOURS = 5
# Numbers gathered at once.
_GATHERED = 4_000_000


def restoration_errors(
    X: Any, scores: FloatArray, new: Any, new_scores: FloatArray, neighbours: int = NEIGHBOURS
) -> FloatArray:
    """Return the squared distance of each new row from the mean of the rows with the nearest scores.  # shape: (m,)

    Without scores all rows are equally near, and the mean of all is taken.
    """
    if not scores.shape[1]:
        return _squares_from_mean(X, new)
    count = min(neighbours, len(scores))
    nearest = _nearest(scores, new_scores, count)
    if sparse.issparse(X):
        ones = np.full(nearest.size, 1.0 / count)
        starts = np.arange(0, nearest.size + 1, count)
        mean = sparse.csr_array((ones, nearest.ravel(), starts), (len(nearest), X.shape[0]))
        gap = sparse.csr_array(new) - mean @ sparse.csr_array(X)
        return np.asarray(gap.multiply(gap).sum(axis=1), dtype=np.float64).ravel()
    errors = np.empty(len(nearest))
    step = max(1, _GATHERED // (count * X.shape[1]))
    for start in range(0, len(nearest), step):
        part = slice(start, start + step)
        gap = _dense(new[part]) - X[nearest[part]].mean(axis=1, dtype=np.float64)
        errors[part] = np.einsum("ij,ij->i", gap, gap)
    return errors


def _dense(X: Any) -> FloatArray:
    dense: FloatArray = X.toarray() if sparse.issparse(X) else X
    return dense


def _squares_from_mean(X: Any, new: Any) -> FloatArray:
    """Return the squared distance of each new row from the mean of the rows of X.  # shape: (m,)"""
    mean = np.asarray(X.mean(axis=0, dtype=np.float64)).ravel()
    errors = np.empty(new.shape[0])
    step = max(1, _GATHERED // X.shape[1])
    for start in range(0, len(errors), step):
        gap = _dense(new[start : start + step]) - mean
        errors[start : start + step] = np.einsum("ij,ij->i", gap, gap)
    return errors


def total_variance(X: Any) -> float:
    """Return the mean squared distance of the rows from their mean; 1 where they are all alike."""
    if sparse.issparse(X):
        X = X.astype(np.float64)
        mean = np.asarray(X.mean(axis=0)).ravel()
        total = float(X.multiply(X).sum()) / X.shape[0] - float(mean @ mean)
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            total = float(X.var(axis=0, dtype=np.float64).sum())
    return total if total > 0 else 1.0


def _nearest(scores: FloatArray, new_scores: FloatArray, count: int) -> NDArray[np.intp]:
    """Return the numbers of the rows with the nearest scores.  # shape: (m, count)"""
    found: NDArray[np.intp]
    with no_openmp_threads():  # which of equal neighbours is taken would depend on how many threads look
        found = NearestNeighbors(n_neighbors=count).fit(scores).kneighbors(new_scores, return_distance=False)
    return found


# -- What both estimators can do with the way back: restore rows from scores, denoise rows, measure what is lost ------

Made = TypeVar("Made")
_SPACES = ("input", "feature")


def _can_score(estimator: Any) -> bool:
    """Return True if there are rows to compare with, or will be a way back."""
    return bool(estimator._keeps_rows or estimator.preimage is not None)


class RestoringMixin(NotebookMixin, abc.ABC):
    """`inverse_transform`, `denoise` and `reconstruction_error` for an estimator that knows its way back."""

    n_jobs: int | None
    _last_report: PreimageReport | None

    @abc.abstractmethod
    def _way_back(self) -> Back | None:
        """Return the way back, or None where none was asked for."""

    @abc.abstractmethod
    def _checked(self, X: Any) -> Any:
        """Return new rows as the model takes them, or raise InputError."""

    @abc.abstractmethod
    def _scores_of(self, X: Any) -> FloatArray:
        """Return the scores of rows that have been checked.  # shape: (m, k)"""

    @abc.abstractmethod
    def _projecting(self) -> Projection:
        """Return the projection on the components."""

    def inverse_transform(self, X: Any) -> FloatArray:
        """Return rows of data whose scores are about X.  # shape: (m, d)

        How they were found is in `preimage_report_`.
        """
        back = self._required_back("inverse_transform")
        scores = check_scores(X, self._n_features_out, self._score_dtype)
        return self._noted(back, back.restored(scores, threads=thread_count(self.n_jobs)))

    def denoise(self, X: Any) -> FloatArray:
        """Return rows with what the components do not explain removed.  # shape: (m, d)

        That is the pre-image of the projection of each row, looked for near the row itself; rows that lie in files or
        come in chunks are read in chunks. How they were found is in `preimage_report_`.
        """
        back = self._required_back("denoise")
        found = self._in_pieces(X, lambda rows: self._denoised(back, rows))
        return self._noted(back, Found.joined(found))

    def _in_pieces(self, X: Any, work: Callable[[Any], Made]) -> list[Made]:
        """Return what `work` makes of checked rows: of all at once, or of each chunk where they come in chunks."""
        if in_memory(X):
            return [work(self._checked(X))]
        made: list[Made] = []

        def noted(chunk: Any) -> FloatArray:
            made.append(work(self._checked(chunk)))
            return np.empty((chunk.shape[0], 0))

        for _ in scores_in_chunks(self, noted, as_source(X)):
            pass
        return made

    def _denoised(self, back: Back, X: Any) -> Found:
        X = _densified(X)
        return back.denoised(X, self._scores_of, threads=thread_count(self.n_jobs))

    def reconstruction_error(self, X: Any, space: str = "input") -> FloatArray:
        """Return what is lost of each row when only its components are kept.  # shape: (m,)

        Parameters
        ----------
        X : rows of data.
        space : {"input", "feature"}
            "input" is the squared distance of a row from what `denoise` makes of it, in the units of the data;
            "feature" that of phi(x) from its projection, which needs no way back, but can only be compared for the same
            kernel.
        """
        check_is_fitted(self)
        if space not in _SPACES:
            raise InputError(f"space must be 'input' or 'feature'; got {space!r}.")
        if space == "input":
            return self._lost(X)
        projection = self._projecting()
        if isinstance(projection, MatrixProjection):
            raise InputError(
                "reconstruction_error needs k(x, x) of new rows, which a precomputed kernel does not give: take a "
                "kernel of kpca."
            )
        threads = thread_count(self.n_jobs)
        left = self._in_pieces(X, lambda rows: projection.parts(rows, threads=threads).residuals)
        errors: FloatArray = np.maximum(np.concatenate(left), 0.0)
        return errors

    @available_if(_can_score)  # type: ignore[untyped-decorator]
    def score_samples(self, X: Any) -> FloatArray:
        """Return minus the squared distance of each row from what its scores alone restore.  # shape: (m,)

        It is restored by the way back, if there is one, otherwise as the mean of the five rows of the fit (or
        landmarks) with the nearest scores: rows that are alike in their scores should be alike in the data. So kernels
        can be compared.
        """
        check_is_fitted(self)
        threads, back = thread_count(self.n_jobs), self._way_back()
        known = None if back is not None else self._known_rows()

        def errors(rows: Any) -> FloatArray:
            scores = self._scores_of(rows)
            if known is not None:
                return restoration_errors(*known, rows, scores)
            assert back is not None
            gap = np.asarray(_densified(rows), np.float64) - back.restored(scores, threads=threads).rows
            lost: FloatArray = np.einsum("ij,ij->i", gap, gap)
            return lost

        return -np.concatenate(self._in_pieces(X, errors))

    @available_if(_can_score)  # type: ignore[untyped-decorator]
    def score(self, X: Any, y: Any = None) -> float:
        """Return the mean of `score_samples`: larger is better, 0 is perfect. With it `GridSearchCV` needs no labels.

        To choose kernel, bandwidth and number of components, `kpca.selection.tune` is many times faster.
        """
        return float(self.score_samples(X).mean())

    @property
    def _keeps_rows(self) -> bool:
        """True if a fitted model has rows to compare with: those of the fit, or landmarks."""
        return False

    def _known_rows(self) -> tuple[Any, FloatArray]:
        """Return rows that the model keeps, with their scores."""
        raise InputError(
            "score needs rows of the fit to compare with, which this model does not keep: set preimage, which learns "
            "the way back."
        )

    def _lost(self, X: Any) -> FloatArray:
        """Return the squared distances of rows from what `denoise` makes of them; chunks are read once."""
        back = self._required_back("reconstruction_error")

        def lost(rows: Any) -> tuple[Found, FloatArray]:
            found = self._denoised(back, rows)
            gap = np.asarray(_densified(rows), np.float64) - found.rows
            return found, np.einsum("ij,ij->i", gap, gap)

        pieces = self._in_pieces(X, lost)
        self._noted(back, Found.joined([found for found, _ in pieces]))
        return np.concatenate([errors for _, errors in pieces])

    @property
    def preimage_report_(self) -> PreimageReport:
        """How the rows of the last `inverse_transform` or `denoise` were found; before that, how they would be."""
        check_is_fitted(self)
        last: PreimageReport | None = self.__dict__.get("_last_report")
        back = self._required_back("preimage_report_")
        return back.report() if last is None else last

    def _noted(self, back: Back, found: Found) -> FloatArray:
        self._last_report = back.report(found)
        return found.rows

    def _required_back(self, name: str) -> Back:
        check_is_fitted(self)
        back = self._way_back()
        if back is None:
            kind = type(self).__name__
            other = f" or {kind}(fit_inverse_transform=True)" if hasattr(self, "fit_inverse_transform") else ""
            raise NotFittedError(f"{name} needs {kind}(preimage='auto'){other}: set it and fit again.")
        return back

    @property
    @abc.abstractmethod
    def _n_features_out(self) -> int:
        """The number of components."""

    @property
    @abc.abstractmethod
    def _score_dtype(self) -> np.dtype[Any]:
        """The dtype of scores."""


def _densified(X: Any) -> FloatArray:
    dense: FloatArray = X if isinstance(X, np.ndarray) else X.toarray()
    return dense


# -- What a fitted KernelPCA can do: project new rows, restore rows, and say how it was found -------------------------


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
            check_operator_rows(X, self.n_features_in_, precomputed=self.kernel_ is None)
            return X
        X = check_data(self, X, reset=False)
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
        from kpca.estimators import sklearn as interchange

        return interchange.to_sklearn(self)

    @classmethod
    def from_sklearn(cls, model: Any) -> Self:
        """Return scikit-learn's KernelPCA as this one, with its scores and its inverse_transform if it is fitted.

        Residuals and bounds of its components, which it does not have, are measured in a pass over the kernel matrix.
        """
        from kpca.estimators import sklearn as interchange

        made: Self = interchange.from_sklearn(cls(), model)
        return made

    @property
    def _n_features_out(self) -> int:
        return int(self.eigenvalues_.shape[0])

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "eigenvalues_")
