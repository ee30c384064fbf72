"""What a fit leaves, and what can be done with it: scores of new rows, rows restored from scores, and their errors."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from kpca._base.config import memory_limit, thread_count
from kpca._base.errors import InputError
from kpca._base.linalg import FloatArray
from kpca._base.threads import no_openmp_threads
from kpca._base.validation import all_finite, check_data, check_operator_rows, check_scores
from kpca.data.sinks import scores_in_chunks
from kpca.data.sources import Source, as_source, in_memory
from kpca.estimators.summary import NotebookMixin
from kpca.features.projection import LinearProjection, MatrixProjection, Projection, converted
from kpca.kernels import Kernel
from kpca.preimage.back import Back, PreimageReport
from kpca.preimage.learned import RidgeMapWay
from kpca.preimage.target import Found
from kpca.spectrum import Spectrum

NEIGHBOURS = 5
# Numbers gathered at once.
_GATHERED = 4_000_000
Made = TypeVar("Made")


@dataclass(frozen=True)
class Fitted:
    """All that a fit found: behind every fitted attribute of both estimators."""

    kernel: Kernel | None  # None: the matrix was given
    spectrum: Spectrum
    projection: Projection
    mass: float  # the sum of the weights
    center: bool
    dtype: np.dtype[Any]  # of the data, and so of what the estimator shows
    gamma: Any = None
    X_fit: Any = None  # what new rows are compared with
    weights: FloatArray | None = None
    back: Back | None = None
    columns: dict[str, Any] = field(default_factory=dict)  # their number and names, as scikit-learn keeps them
    others: dict[str, Any] = field(default_factory=dict)  # attributes that only some fits leave

    @property
    def eigenvalues(self) -> FloatArray:
        """In the precision of the data.  # shape: (k,)"""
        return self.spectrum.values.astype(self.dtype)

    @property
    def eigenvalue_bounds(self) -> FloatArray:
        """Bounds of the exact eigenvalues, between which those that are shown lie, too.  # shape: (k, 2)"""
        bounds, shown = self.spectrum.bounds, self.eigenvalues.astype(np.float64)
        if self.dtype != np.float32:
            return bounds
        rounding = 0.5 * float(np.finfo(np.float32).eps) * np.abs(shown)
        return np.column_stack([np.minimum(bounds[:, 0], shown - rounding), np.maximum(bounds[:, 1], shown + rounding)])

    @property
    def explained_variance(self) -> FloatArray:
        """Eigenvalues over mass - 1, or over the mass without centring.  # shape: (k,)"""
        degrees = self.mass - 1.0 if self.center and self.mass > 1.0 else self.mass
        return (self.spectrum.values / degrees).astype(self.dtype)

    @property
    def explained_variance_ratio(self) -> FloatArray:
        """Eigenvalues over the trace; NaN where the matrix has no entries to sum.  # shape: (k,)"""
        trace = self.spectrum.trace
        return (self.spectrum.values / (1.0 if trace <= 0 else trace)).astype(self.dtype)

    @property
    def linear(self) -> dict[str, FloatArray]:
        """Directions and mean, of the linear kernel only."""
        if not isinstance(self.projection, LinearProjection):
            return {}
        return {"components_": self.projection.components, "mean_": self.projection.mean.astype(self.dtype)}

    def attributes(self, threads: int = 1) -> dict[str, Any]:
        """Return the attributes of a fitted KernelPCA by their names, which model files know."""
        spectrum, weights = self.spectrum, self.weights
        top = float(spectrum.values.max(initial=0.0)) or 1.0
        # float32 vectors are rounded once more on the way out; the norm of an indefinite matrix may be above its top
        psd, squares = self.kernel is not None and self.kernel.psd, float(np.nan_to_num(spectrum.frobenius2))
        norm = 1.0 if psd else max(1.0, np.sqrt(squares) / top)
        rounding = norm * float(np.finfo(np.float32).eps) if self.dtype == np.float32 else 0.0
        found = {
            **self.columns,
            "kernel_": self.kernel,
            "gamma_": self.gamma,
            "X_fit_": self.X_fit,
            "eigenvalues_": self.eigenvalues,
            "eigenvectors_": np.asarray(converted(spectrum.vectors, self.dtype, threads), order="A"),
            "explained_variance_": self.explained_variance,
            "explained_variance_ratio_": self.explained_variance_ratio,
            "residuals_": spectrum.residuals / top + rounding,
            "eigenvalue_bounds_": self.eigenvalue_bounds,
            "solver_": spectrum.solver,
            "n_passes_": spectrum.n_passes,
            "n_components_": len(spectrum.values),
            **self.linear,
            **self.others,
            "_frobenius2": spectrum.frobenius2,
            "_projection": self.projection,
            "_roots": np.ones(1) if weights is None else np.sqrt(weights[weights > 0])[:, None],
            "_back": self.back,
            "_planned": ((spectrum.vectors.shape[0], self.columns["n_features_in_"]), memory_limit()),
            "_last_report": None,
        }
        if self.back is not None and isinstance(self.back.way, RidgeMapWay):
            found |= {"dual_coef_": self.back.way.map.dual_coef, "X_transformed_fit_": self.back.way.map.scores}
        return found


def checked_rows(estimator: Any, X: Any, *, copied: bool = False) -> tuple[Any, dict[str, Any]]:
    """Return the rows of a fit and what scikit-learn keeps of their columns, with the estimator left as it is."""
    aside = copy(estimator)  # takes what scikit-learn's checks write down
    X = check_data(aside, X, reset=True, copy=copied, threads=thread_count(estimator.n_jobs))
    return X, {name: vars(aside)[name] for name in ("n_features_in_", "feature_names_in_") if name in vars(aside)}


def columns_of(source: Source) -> dict[str, Any]:
    """Return the same of rows that are read in chunks."""
    named = {} if source.names is None else {"feature_names_in_": np.asarray(source.names, dtype=object)}
    return {"n_features_in_": source.n_columns, **named}


# -- using a fit ------------------------------------------------------------------------------------------------------


def _can_score(estimator: Any) -> bool:
    """Return True if there are rows to compare with, or will be an inverse map."""
    return bool(estimator._keeps_rows or estimator.preimage is not None)


class BaseKernelPCA(
    NotebookMixin,
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """What both estimators can do with a fit; it needs the attributes below and nothing of how they were found."""

    n_jobs: int | None
    kernel_: Kernel | None
    n_features_in_: int
    eigenvalues_: FloatArray
    _projection: Projection
    _back: Back | None
    _last_report: PreimageReport | None = None

    def _keep(self, attributes: dict[str, Any]) -> Self:
        """Put a fit in the place of an earlier one, of which nothing remains."""
        for name in [name for name in vars(self) if name.endswith("_") and name not in attributes]:
            delattr(self, name)
        self.__dict__.update(attributes)
        return self

    def _projecting(self) -> Projection:
        """Return the projection on the components."""
        return self._projection

    def _way_back(self) -> Back | None:
        """Return the inverse map, or None where none was asked for."""
        return self._back

    def transform(self, X: Any) -> FloatArray:
        """Return the scores of the rows of X; kernel values are computed in tiles and not kept.  # shape: (m, k)

        Rows that lie in files or come in chunks are read in chunks; `kpca.write_scores` writes their scores so, too.
        """
        check_is_fitted(self)
        if not in_memory(X):
            return np.concatenate(list(scores_in_chunks(self, self._scores, as_source(X))))
        return self._scores(X)

    def _scores(self, X: Any) -> FloatArray:
        return self._scores_of(self._checked(X))

    def _checked(self, X: Any) -> Any:
        """Return new rows as the model takes them, or raise InputError."""
        kernel = self.kernel_
        if isinstance(X, LinearOperator):
            check_operator_rows(X, self.n_features_in_, precomputed=kernel is None)
            return X
        X = check_data(self, X, reset=False, threads=thread_count(self.n_jobs))
        if kernel is None:
            return X
        kernel.check(X)
        return X.astype(self._score_dtype, copy=False)

    def _scores_of(self, X: Any) -> FloatArray:
        """Return the scores of rows that have been checked.  # shape: (m, k)"""
        threads = thread_count(self.n_jobs)
        with np.errstate(over="ignore", invalid="ignore"):
            scores: FloatArray = self._projecting()(X, threads=threads)
            scores = converted(scores, self._score_dtype, threads)
        if not all_finite(scores, threads):
            remedy = "scale them" if self.kernel_ is None else self.kernel_.remedy
            raise InputError(f"Kernel values of new rows must be finite; some are NaN or too large: {remedy}.")
        return scores

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
            "feature" that of phi(x) from its projection, which needs no inverse map, but can only be compared for the
            same kernel.
        """
        check_is_fitted(self)
        if space not in ("input", "feature"):
            raise InputError(f"space must be 'input' or 'feature'; got {space!r}.")
        if space == "input":
            back = self._required_back("reconstruction_error")
            pieces = self._in_pieces(
                X, lambda rows: (made := self._denoised(back, rows), _squared_distances(rows, made))
            )
            self._noted(back, Found.joined([found for found, _ in pieces]))
            return np.concatenate([errors for _, errors in pieces])
        projection = self._projecting()
        if isinstance(projection, MatrixProjection):
            needed = "needs k(x, x) of new rows, which a precomputed kernel does not give: take a kernel of kpca"
            raise InputError(f"reconstruction_error {needed}.")
        threads = thread_count(self.n_jobs)
        left = self._in_pieces(X, lambda rows: projection.parts(rows, threads=threads).residuals)
        errors: FloatArray = np.maximum(np.concatenate(left), 0.0)
        return errors

    @available_if(_can_score)  # type: ignore[untyped-decorator]
    def score_samples(self, X: Any) -> FloatArray:
        """Return minus the squared distance of each row from what its scores alone restore.  # shape: (m,)

        It is restored by the inverse map, if there is one, otherwise as the mean of the five rows of the fit (or
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
            return _squared_distances(rows, back.restored(scores, threads=threads))

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
        needed = "needs rows of the fit to compare with, which this model does not keep"
        raise InputError(f"score {needed}: set preimage, which learns an inverse map.")

    @property
    def preimage_report_(self) -> PreimageReport:
        """How the rows of the last `inverse_transform` or `denoise` were found; before that, how they would be."""
        check_is_fitted(self)
        back = self._required_back("preimage_report_")
        return back.report() if self._last_report is None else self._last_report

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
    def _n_features_out(self) -> int:
        return len(self.eigenvalues_)

    @property
    def _score_dtype(self) -> np.dtype[Any]:
        return self.eigenvalues_.dtype

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _densified(X: Any) -> FloatArray:
    dense: FloatArray = X.toarray() if sparse.issparse(X) else X
    return dense


def _squared_distances(rows: Any, found: Found) -> FloatArray:
    gap = np.asarray(_densified(rows), np.float64) - found.rows
    squares: FloatArray = np.einsum("ij,ij->i", gap, gap)
    return squares


# -- rows restored without an inverse map: by the mean of known rows whose scores are nearest -------------------------


def restoration_errors(
    X: Any, scores: FloatArray, new: Any, new_scores: FloatArray, neighbours: int = NEIGHBOURS
) -> FloatArray:
    """Return the squared distance of each new row from the mean of the rows with the nearest scores.  # shape: (m,)

    Without scores all rows are equally near, and the mean of all is taken.
    """
    from sklearn.neighbors import NearestNeighbors  # takes a while to load

    if not scores.shape[1]:
        mean = np.asarray(X.mean(axis=0, dtype=np.float64)).ravel()
        return _squared_gaps(new, lambda part: mean, X.shape[1])
    count = min(neighbours, len(scores))
    with no_openmp_threads():  # which of equal neighbours is taken would depend on how many threads look
        nearest = NearestNeighbors(n_neighbors=count).fit(scores).kneighbors(new_scores, return_distance=False)
    if sparse.issparse(X):
        ones = np.full(nearest.size, 1.0 / count)
        starts = np.arange(0, nearest.size + 1, count)
        mean = sparse.csr_array((ones, nearest.ravel(), starts), (len(nearest), X.shape[0]))
        gap = sparse.csr_array(new) - mean @ sparse.csr_array(X)
        return np.asarray(gap.multiply(gap).sum(axis=1), dtype=np.float64).ravel()
    return _squared_gaps(new, lambda part: X[nearest[part]].mean(axis=1, dtype=np.float64), count * X.shape[1])


def _squared_gaps(rows: Any, restored: Callable[[slice], FloatArray], numbers: int) -> FloatArray:
    """Return the squared distance of each row from what is restored of it with this many numbers.  # shape: (m,)"""
    errors = np.empty(rows.shape[0])
    step = max(1, _GATHERED // numbers)
    for start in range(0, len(errors), step):
        part = slice(start, start + step)
        gap = _densified(rows[part]) - restored(part)
        errors[part] = np.einsum("ij,ij->i", gap, gap)
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
