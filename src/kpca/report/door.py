"""A report for people who have a fitted model and an array."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from kpca._base.errors import InputError
from kpca._base.validation import check_data
from kpca.data.frames import column_names, row_labels
from kpca.data.rows import Table
from kpca.data.sources import in_memory
from kpca.detector.modelling import names_are_known
from kpca.io.results import MOST_ROWS, preparation_of, sampled_rows
from kpca.kernels import RadialKernel
from kpca.report.build import html_of, write_report
from kpca.report.material import DataFacts, Subject


def report_on(
    model: Any,
    X: Any,
    path: str | os.PathLike[str] | None = None,
    *,
    ids: Any = None,
    labels: Any = None,
    names: Any = None,
    title: str | None = None,
    image_shape: tuple[int, int] | None = None,
) -> str | None:
    """Make a report on a fitted model and rows of data: one page of HTML that needs no network.

    Parameters
    ----------
    model : a fitted KernelPCA or IncrementalKernelPCA, or a Pipeline that ends in one.
    X : the rows as `model` takes them: an array, data frame or sparse matrix in memory.
    path : the file to write; None returns the page as text.
    ids : what the rows are called, one for each; None: the index of a data frame, or their numbers.
    labels : classes or numbers to colour the rows by, one for each; the model does not see them.
    names : of the columns that the model sees; None: those of the data frame, or x0, x1, ...
    title : of the page.
    image_shape : height and width, where a row is a picture.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kpca import KernelPCA
    >>> from kpca.report import report_on
    >>> X, y = load_iris(return_X_y=True)
    >>> page = report_on(KernelPCA(2, kernel="rbf", gamma="median").fit(X), X, labels=y)
    >>> page[:15]
    '<!doctype html>'
    """
    subject = subject_of(model, X, ids=ids, labels=labels, names=names, title=title, image_shape=image_shape)
    if path is None:
        return html_of(subject)
    write_report(path, subject)
    return None


def subject_of(
    model: Any, X: Any, *, ids: Any, labels: Any, names: Any, title: str | None, image_shape: tuple[int, int] | None
) -> Subject:
    """Return what a report on these rows is about."""
    if not in_memory(X):
        raise InputError("X must be in memory, an array, data frame or sparse matrix: read some of the rows first.")
    steps = model.steps if isinstance(model, Pipeline) else [("", model)]
    before, last = (model[:-1] if len(steps) > 1 else None), steps[-1][1]
    check_is_fitted(last)
    if title is not None and not isinstance(title, str):
        raise InputError(f"title must be a text; got {title!r}.")
    with names_are_known():
        rows = X if before is None else before.transform(X)
        if before is None:
            names = column_names(names, getattr(last, "feature_names_in_", None), X, _width(X))
        rows = check_data(last, rows, reset=False)
    m, d = rows.shape
    values = X.tocsr() if sparse.issparse(X) else np.asarray(X)
    seed = getattr(last, "random_state", None)
    return Subject(
        model=last,
        X=rows,
        ids=row_labels(ids, X, m),
        labels=None if labels is None else _labels(labels, m),
        names=column_names(names if before is None else _names_after(before, names, X, d), None, rows, d),
        data=DataFacts(
            name="the data" if title is None else title,
            digest=digest_of(values),
            n_rows=m,
            n_columns=_width(X),
            treated=() if before is None else tuple(f"{type(step).__name__} was applied" for _, step in before.steps),
        ),
        code=_code(model, values),
        seed=int(seed) if isinstance(seed, int | np.integer) else 0,
        restore=None if before is None else _restore(before, d),
        image_shape=image_shape,
        title=title or "",
    )


def _width(X: Any) -> int:
    shape = np.shape(X) if not sparse.issparse(X) else X.shape
    if len(shape) != 2:
        raise InputError(f"X must be a 2-D array, data frame or sparse matrix; got shape {shape}.")
    return int(shape[1])


def _names_after(before: Pipeline, names: Any, X: Any, d: int) -> Any:
    """Return the names of what the steps before the model make of the columns of X."""
    if names is not None:
        return names
    if not all(hasattr(step, "get_feature_names_out") for _, step in before.steps):
        return None
    known = getattr(X, "columns", None)
    found = before.get_feature_names_out(None if known is None else [str(name) for name in known])
    return list(found) if len(found) == d else None


def _restore(before: Pipeline, d: int) -> Callable[[NDArray[Any]], NDArray[Any]] | None:
    """Return the inverse of the steps before the model, where they have one to rows of as many columns."""
    if not hasattr(before, "inverse_transform"):
        return None
    back: Callable[[NDArray[Any]], NDArray[Any]] = before.inverse_transform
    return back if np.shape(back(np.zeros((1, d)))) == (1, d) else None


def _labels(labels: Any, m: int) -> NDArray[Any]:
    if isinstance(labels, str) or not isinstance(labels, Iterable) or len(list(labels)) != m:
        raise InputError(f"labels must be one for each of the {m} rows; got {labels!r:.80}.")
    found = np.asarray(labels)
    if found.ndim == 1:
        return found
    each = np.empty(m, dtype=object)
    each[:] = [str(label) for label in labels]
    return each


def digest_of(X: Any) -> str:
    """Return the SHA-256 of an array: of its bytes in C order; of a sparse one, of its three arrays."""
    digest = hashlib.sha256()
    if sparse.issparse(X):
        for part in (X.data, X.indices, X.indptr):
            digest.update(np.ascontiguousarray(part).tobytes())
    elif X.dtype.kind == "O":
        digest.update(repr(X.tolist()).encode("utf-8", "backslashreplace"))
    else:
        digest.update(np.ascontiguousarray(X).tobytes())
    return digest.hexdigest()


def _code(model: Any, X: Any) -> str:
    """Return Python that fits the same model again, to data that the reader has to bring."""
    steps = [type(step) for step in (model, *(step for _, step in getattr(model, "steps", ())))]
    ours = sorted({kind.__name__ for kind in steps if kind.__module__.startswith("kpca")})
    lines = [f"from kpca import {', '.join(ours)}"]
    for kind in steps:
        if not kind.__module__.startswith("kpca"):  # scikit-learn's inner modules begin with an underscore
            public = ".".join(part for part in kind.__module__.split(".") if not part.startswith("_"))
            lines.append(f"from {public} import {kind.__name__}")
    form = f"{X.shape[0]} rows, {X.shape[1]} columns, {X.dtype}{', CSR' if sparse.issparse(X) else ''}"
    lines += ["", f"X = ...  # your data: {form}; SHA-256 below"]
    written = re.sub(r"<function (\S+) at 0x[0-9a-f]+>", r"\1", model.__repr__(N_CHAR_MAX=20_000))
    return "\n".join([*lines, f"model = {written}", "model.fit(X)"])


# -- A report on a pipeline and the table it is used on: what `kpca report` writes ------------------------------------


def report_on_table(
    pipeline: Any,
    table: Table,
    path: str | os.PathLike[str],
    *,
    code: str = "",
    command: str = "",
    seed: int = 0,
    about: Mapping[str, Any] | None = None,
    max_rows: int = MOST_ROWS,
) -> None:
    """Write a page about the rows of a table, as a fitted pipeline sees them.

    Parameters
    ----------
    pipeline : `kpca.io.Preparation`, then a fitted KernelPCA or IncrementalKernelPCA: what `kpca fit` saves.
    table : what `kpca.io.open_table` opened; of more than `max_rows` rows a sample is shown, always the same.
    path : the .html file to write.
    code, command : Python and a command line that repeat it, for the last section.
    seed : of the sample.
    about : what was saved with the model.
    """
    preparation, model = preparation_of(pipeline), pipeline[-1]
    rows, complete = sampled_rows(pipeline, table, max_rows, seed)
    layout = preparation.layout_
    text = layout.text is not None
    kinds = {"numbers": len(layout.numbers), "categories": len(layout.categories), "texts": int(text)}
    restore = None if text or layout.categories else (lambda X: np.asarray(preparation.inverse_transform(X).numbers))
    reason, fitted_to = (about or {}).get("reason"), (about or {}).get("data")
    digest = table.digest()
    known = fitted_to.get("sha256") if isinstance(fitted_to, Mapping) else None  # of the data of the fit
    of_fit = preparation.n_rows_ == table.n_rows and (known == digest or not isinstance(known, str))
    subject = Subject(
        model=model,
        X=rows.X,
        ids=rows.kept if rows.ids is None else rows.ids,
        labels=rows.labels,
        names=tuple(str(name) for name in preparation.get_feature_names_out()),
        data=DataFacts(
            name=os.path.basename(os.path.normpath(table.name)),
            digest=digest,
            n_rows=table.n_rows,
            n_columns=sum(kinds.values()),
            kinds=tuple((kind, count) for kind, count in kinds.items() if count),
            missing=preparation.n_missing_ if of_fit else _missing(preparation.select(table)),
            treated=preparation.describe(),
            of_fit=of_fit,
        ),
        chosen=(str(reason),) if reason else _bandwidth(model),
        code=code,
        command=command,
        seed=seed,
        restore=restore,
        image_shape=table.image_shape,
        numbers=rows.kept,
        drawn_from=complete,
    )
    write_report(path, subject)


_RULES = {
    "median": "The bandwidth is the median distance between rows (the median rule): a middle way between a kernel to "
    "which all rows are alike and one to which no two are; kpca tune compares others on held-out rows.",
    "scale": "The bandwidth follows the number of columns and their variance, as scikit-learn's 'scale' does.",
}


def _bandwidth(model: Any) -> tuple[str, ...]:
    """Return why the bandwidth is what it is, where there is one and a rule chose it."""
    ruled = isinstance(model.gamma, str) and isinstance(model.kernel_, RadialKernel)
    return (_RULES[model.gamma],) if ruled and model.gamma in _RULES else ()


def _missing(table: Table) -> int:
    """Return how many entries of a table are missing: those of the fit say nothing about other rows."""
    total = 0
    for rows in table.chunks():
        numbers = rows.numbers.data if sparse.issparse(rows.numbers) else rows.numbers
        total += int(np.isnan(numbers).sum())
        total += sum(sum(text is None for text in texts) for texts in rows.categories.values())
    return total
