"""What all explanations share: a fitted model, rows to explain it at, the components asked for, tables of variables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from kpca._base.config import thread_count
from kpca._base.errors import InputError, InPython, Setting
from kpca._base.text import data_frame, short_name, text_table
from kpca._base.validation import whole_number
from kpca.data.frames import column_names
from kpca.data.sources import as_source, in_memory, sample_rows
from kpca.detector import KernelPCADetector
from kpca.estimators.incremental import IncrementalKernelPCA
from kpca.estimators.kernel_pca import KernelPCA
from kpca.features.derivatives import Derivatives, derivatives_of, why_no_derivatives
from kpca.features.projection import FeatureProjection, KernelProjection, LinearProjection, MatrixProjection, Projection

FloatArray = NDArray[Any]
Model = KernelPCA | IncrementalKernelPCA
_SHOWN_VARIABLES, _SHOWN_COMPONENTS = 15, 6  # in print; all are in the arrays
_NEEDS_ROWS = "Explanations need columns that can be changed, which a precomputed kernel does not have: fit to rows."


@dataclass(frozen=True, eq=False)
class Explained:
    """A fitted model and rows as it takes them."""

    model: Model
    rows: Any  # dense or CSR, shape: (m, copies * d)
    names: tuple[str, ...]  # of the d variables
    copies: int = 1  # of each variable: now, and at earlier moments; all variables of one moment lie together
    units: FloatArray | None = None  # of the columns, where the model sees them scaled, shape: (d,)

    @property
    def projection(self) -> Projection:
        return self.model._projecting()

    @property
    def threads(self) -> int:
        return thread_count(self.model.n_jobs)

    def scores(self, rows: Any) -> FloatArray:
        """Return the scores of rows like these in double precision.  # shape: (m, k)"""
        return self.model._scores_of(rows).astype(np.float64, copy=False)

    def sampled(self, most: int, seed: int | np.random.Generator = 0) -> Explained:
        """Return at most this many of the rows, drawn by chance, in their order."""
        m = self.rows.shape[0]
        if m <= most:
            return self
        some = np.sort(np.random.default_rng(seed).choice(m, most, replace=False))
        return replace(self, rows=self.rows[some])

    def dense(self) -> Explained:
        """Return the rows as a dense array of double precision."""
        return replace(self, rows=_dense(self.rows))

    def scale(self, scaled: bool) -> FloatArray:
        """Return what slopes are multiplied by: per standard deviation, or per unit.  # shape: (copies * d,)"""
        if not scaled:
            return np.ones(self.rows.shape[1]) if self.units is None else np.tile(1.0 / self.units, self.copies)
        rows = _dense(self.rows)
        if len(rows) < 2:
            raise InputError(f"Columns spread from two rows on; got {len(rows)}: give more rows, or scaled=False.")
        peaks = np.abs(rows).max(axis=0)  # taken out, so that squares neither overflow nor vanish
        constant = rows.min(axis=0) == rows.max(axis=0)  # exactly 0 for these
        return np.where(constant, 0.0, peaks * (rows / np.where(peaks == 0, 1.0, peaks)).std(axis=0))

    def per_variable(self, values: FloatArray) -> FloatArray:
        """Return sums over the copies of each variable.  # shape: (..., d)"""
        return np.asarray(values.reshape(*values.shape[:-1], self.copies, len(self.names)).sum(axis=-2))

    def derivatives(self, components: NDArray[np.intp], what: str) -> Derivatives:
        """Return the gradients of some components, or say which explanation does not need them; `what` is this one."""
        reason = why_no_derivatives(self.projection)
        if reason is not None:
            other = InPython("permutation_importance", Setting("by", "permutation"))
            said = f"{what} needs gradients, and there are none: {reason}; take "
            raise InputError((said, other, ", which only shuffles columns"))
        return derivatives_of(_chosen(self.projection, components), threads=self.threads)

    def jacobians(self, components: NDArray[np.intp], what: str, at_once: int) -> Iterator[tuple[slice, FloatArray]]:
        """Yield dt_j/dx of a few rows after the other, of at most `at_once` numbers.  # shape: (tile, c, d)"""
        derivatives, (m, d) = self.derivatives(components, what), self.rows.shape
        step = max(1, at_once // max(len(components) * d, 1))
        for start in range(0, m, step):
            part = slice(start, min(start + step, m))
            yield part, derivatives.jacobian(_dense(self.rows[part]))

    def slopes(
        self, components: NDArray[np.intp], what: str, scale: FloatArray, at_once: int
    ) -> tuple[FloatArray, FloatArray]:
        """Return the means over the rows of dt_j/dx and of its norm over components, per `scale`.  # (c, d), (d,)"""
        total, sizes = np.zeros((len(components), len(self.names))), np.zeros(len(self.names))
        for _, J in self.jacobians(components, what, at_once):
            steps = self.per_variable(J * scale)
            total += steps.sum(axis=0)
            sizes += np.sqrt(np.square(steps).sum(axis=1)).sum(axis=0)
        return total / self.rows.shape[0], sizes / self.rows.shape[0]


def subject_of(model: Any, X: Any = None, names: Any = None, *, most: int | None = None) -> Explained:
    """Return the subject of an explanation, or raise InputError where there is none.

    Parameters
    ----------
    model : a fitted KernelPCA, IncrementalKernelPCA or KernelPCADetector, or a Pipeline that ends in one.
    X : rows as `model` takes them; None: those that the model keeps.
    names : of the columns, of what the last step of a pipeline sees.
    most : of rows that are read in chunks, a sample of this many is looked at.
    """
    if isinstance(model, Pipeline):
        return _of_pipeline(model, X, names, most)
    detector = isinstance(model, KernelPCADetector)
    if not (detector or isinstance(model, KernelPCA | IncrementalKernelPCA)):
        got = repr(model) if isinstance(model, str) else type(model).__name__  # a step of a pipeline may be a word
        kinds = "a fitted KernelPCA, IncrementalKernelPCA or KernelPCADetector, or a Pipeline that ends in one"
        raise InputError(f"model must be {kinds}; got {got}.")
    check_is_fitted(model)
    fitted = model.model_ if detector else model
    if isinstance(fitted._projecting(), MatrixProjection):
        raise InputError(_NEEDS_ROWS)
    known: Iterable[Any] | None = getattr(model, "feature_names_in_", None)
    if not detector and X is not None and not in_memory(X):
        source = as_source(X)
        known = source.names if known is None else known
        X = sample_rows(source, most or 1000, 0)
    rows = kept_rows(fitted) if X is None else model._seen(X)[0] if detector else model._checked(X)
    if rows.shape[0] == 0:
        raise InputError("X must have at least one row to explain the model at; got none.")
    # earlier moments of a variable are copies of it
    copies, units = (model.lags + 1, getattr(model.scaler_, "scale_", None)) if detector else (1, None)
    return Explained(fitted, rows, column_names(names, known, X, rows.shape[1] // copies), copies, units)


def _of_pipeline(pipeline: Pipeline, X: Any, names: Any, most: int | None) -> Explained:
    """Return the subject of the last step; its columns are what the steps before make of those of X."""
    *before, last = _steps(pipeline)
    if not before or not hasattr(last, "fit"):
        return subject_of(last, X, names, most=most)
    check_is_fitted(last)
    rows, labels = X, getattr(X, "columns", None)
    for step in before:
        rows = None if rows is None else step.transform(rows)
        given, labels = None if hasattr(step, "feature_names_in_") else labels, None
        with suppress(AttributeError, ValueError):  # it, or a step within it, has no names, or other columns
            labels = step.get_feature_names_out(given)
    known = getattr(last, "feature_names_in_", labels)
    if names is None and known is not None:
        names = known if len(list(known)) == getattr(last, "n_features_in_", None) else None
    return subject_of(last, rows, names, most=most)


def _steps(pipeline: Pipeline) -> list[Any]:
    """Return the steps that do something, and the last one; those of a pipeline that is the last step follow."""
    *before, last = [step for _, step in pipeline.steps]
    doing = [step for step in before if step is not None and not isinstance(step, str)]
    return doing + (_steps(last) if isinstance(last, Pipeline) else [last])


def kept_rows(model: Model) -> Any:
    """Return the rows that a model keeps: all of its fit, or landmarks."""
    projection = model._projecting()
    if isinstance(projection, KernelProjection):
        return projection.X
    rows = getattr(model, "X_fit_", None)
    if rows is None:
        raise InputError("X must be given, the rows to explain this model at: it does not keep any.")
    return rows


def _chosen(projection: Projection, components: NDArray[np.intp]) -> Projection:
    match projection:
        case LinearProjection():
            return replace(projection, components=projection.components[components])
        case KernelProjection():
            A = np.ascontiguousarray(projection.coefficients[:, components])
            return replace(projection, coefficients=A, offset=projection.offset[components])
        case FeatureProjection():
            return replace(projection, directions=np.ascontiguousarray(projection.directions[:, components]))
        case MatrixProjection():
            raise InputError(_NEEDS_ROWS)


def _dense(X: Any) -> FloatArray:
    return np.asarray((X.toarray() if sparse.issparse(X) else np.asarray(X)).astype(np.float64, copy=False))


def component_title(component: int) -> str:
    """Return what people call a component; arguments count from 0, people from 1."""
    return f"component {component + 1}"


def chosen_components(components: Any, k: int) -> NDArray[np.intp]:
    """Return different numbers of components, all of them for None.  # shape: (c,)"""
    return np.arange(k) if components is None else different_numbers("components", components, k)


def different_numbers(name: str, numbers: Any, limit: int) -> NDArray[np.intp]:
    """Return different whole numbers from 0 to limit - 1, or raise InputError.  # shape: (c,)"""
    try:
        found = np.atleast_1d(np.asarray(numbers))
    except ValueError:  # lists of different lengths
        found = np.empty(0)
    whole = found.ndim == 1 and found.dtype.kind in "iu" and found.size > 0
    if not whole or found.min() < 0 or found.max() >= limit or len(np.unique(found)) < found.size:
        raise InputError(f"must be different whole numbers from 0 to {limit - 1}", param=name, value=numbers)
    return found.astype(np.intp)


def finite(values: FloatArray) -> FloatArray:
    """Return the values, or raise InputError if some of them have overflowed."""
    if not np.isfinite(values).all():
        said = "Explanations must be finite numbers; some here are NaN or too large"
        raise InputError(f"{said}: scale the data, or choose other parameters of the kernel.")
    return values


def number(value: float) -> str:
    """Return a number with three digits."""
    return f"{value:.3g}" if abs(value) < 1e-3 and value != 0 else f"{value:.3f}" if abs(value) < 10 else f"{value:.4g}"


class Ranked:
    """Variables with a figure for each, which puts them in order; `print` shows a table of the first."""

    names: tuple[str, ...]
    components: NDArray[np.intp]
    _figure = "values"  # the attribute that ranks them, shape: (d,)

    @property
    def order(self) -> NDArray[np.intp]:
        """The places of the variables, the most important first.  # shape: (d,)"""
        return np.argsort(-getattr(self, self._figure), kind="stable")

    def top(self, n: int = 10) -> list[tuple[str, float]]:
        """Return the n most important variables with their figures, the most important first."""
        figures = getattr(self, self._figure)
        return [(self.names[place], float(figures[place])) for place in self.order[: whole_number("n", n, 1)]]

    def _frame(self, columns: dict[str, FloatArray]) -> Any:
        return data_frame(columns, index=self.names, index_name="variable")

    def _titled(self, by_component: FloatArray) -> dict[str, FloatArray]:
        """Return one column for each component under its title."""
        return dict(zip(map(component_title, self.components), by_component, strict=True))

    def _table(self, head: str, overall: dict[str, FloatArray], by_component: FloatArray) -> str:
        """Return the first variables and components as text, and a line on what there was no room for."""
        columns = overall | dict(list(self._titled(by_component).items())[:_SHOWN_COMPONENTS])
        cells = [
            [short_name(self.names[place]), *(number(column[place]) for column in columns.values())]
            for place in self.order[:_SHOWN_VARIABLES]
        ]
        more = {"variables": len(self.names) - _SHOWN_VARIABLES, "components": len(self.components) - _SHOWN_COMPONENTS}
        left = " and ".join(f"{count:,} more {what}" for what, count in more.items() if count > 0)
        return "\n".join([head, "", *text_table(["variable", *columns], cells), *([f"... and {left}"] if left else [])])
