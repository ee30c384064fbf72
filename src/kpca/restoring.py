"""What both estimators can do with the way back: restore rows from scores, denoise rows, measure what is lost."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from kpca import inputs
from kpca.chunks import as_source, in_memory
from kpca.errors import InputError
from kpca.notebook import NotebookMixin
from kpca.preimage.back import Back
from kpca.preimage.report import PreimageReport
from kpca.preimage.result import Found
from kpca.projection import MatrixProjection, Projection
from kpca.restoration import restoration_errors
from kpca.settings import thread_count
from kpca.sinks import scores_in_chunks

FloatArray = NDArray[Any]
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
        scores = inputs.check_scores(X, self._n_features_out, self._score_dtype)
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
        X = _dense(X)
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
            gap = np.asarray(_dense(rows), np.float64) - back.restored(scores, threads=threads).rows
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
            gap = np.asarray(_dense(rows), np.float64) - found.rows
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


def _dense(X: Any) -> FloatArray:
    dense: FloatArray = X if isinstance(X, np.ndarray) else X.toarray()
    return dense
