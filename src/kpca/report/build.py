"""A report on a fitted model and rows: every section in order, one page, one file. Nothing else here imports plotly."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from kpca import __version__
from kpca._base.errors import InputError
from kpca._base.files import NewFile, write_failed, write_whole
from kpca._base.progress import step_monitor
from kpca._base.validation import check_data, check_mask
from kpca.data.frames import column_names, row_labels
from kpca.data.rows import Table
from kpca.data.sources import in_memory
from kpca.detector.modelling import names_are_known
from kpca.estimators.incremental import IncrementalKernelPCA
from kpca.estimators.kernel_pca import KernelPCA
from kpca.io.results import MOST_ROWS, preparation_of, sampled_rows
from kpca.kernels import RadialKernel
from kpca.report.components import choice, embedding, spectrum
from kpca.report.material import DataFacts, Material, Subject
from kpca.report.packing import DARK_PALETTE, PALETTE, escaped, joined, json_for_page, tag
from kpca.report.rows import anomalies, preimages, variables
from kpca.report.summary import data, findings, reproduce, summary
from kpca.report.words import visible

# In the order of the page.
SECTIONS = (
    ("summary", "In short", summary),
    ("data", "The data", data),
    ("choice", "What was chosen, and why", choice),
    ("map", "The map of the rows", embedding),
    ("spectrum", "How much the components hold", spectrum),
    ("findings", "What to watch out for", findings),
    ("variables", "What drives the components", variables),
    ("preimages", "What the components look like in the data", preimages),
    ("anomalies", "Unusual rows", anomalies),
    ("reproduce", "How to reproduce this", reproduce),
)


def plotly_script() -> str:
    """Return plotly.js as text that is safe between the tags of a script."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise InputError("A report needs plotly, which is not installed: pip install 'kpca[web]'.") from None
    source: str = get_plotlyjs()
    # within a text of JavaScript both spellings are the same; in HTML only the first ends the script
    return re.sub(r"<(?=/script|!--)", r"\\x3c", source, flags=re.IGNORECASE)


@cache
def template(name: str) -> str:
    """Return a file that lies beside this one."""
    return files("kpca.report").joinpath("templates", name).read_text(encoding="utf-8")


def html_of(subject: Subject) -> str:
    """Return a report as one page of HTML; `kpca.config(progress=...)` hears of each section."""
    _check(subject)
    material = Material(subject)
    monitor = step_monitor(len(SECTIONS), "section")
    made = []
    with names_are_known():
        for id_, title, section in SECTIONS:
            made.append(tag("section", tag("h2", title), *section(material), id=id_, aria_label=title))
            if monitor is not None:
                monitor(name=title)
    parts = {
        "title": escaped(visible(subject.title or f"Kernel PCA of {subject.data.name}", 200)),
        "style": template("style.css"),
        "contents": joined(tag("li", tag("a", title, href=f"#{id_}")) for id_, title, _ in SECTIONS),
        "sections": joined(made),
        "version": escaped(__version__),
        "data": json_for_page({"palette": PALETTE, "darkPalette": DARK_PALETTE, **material.drawings}),
        "plotly": plotly_script(),
        "script": template("report.js"),
    }
    # in one pass: what is put in is not looked at again
    return re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], template("page.html"))


def write_report(path: str | os.PathLike[str], subject: Subject) -> None:
    """Write a report to a file, which appears whole or not at all."""
    target = os.fspath(path)
    if not isinstance(target, str) or not target or "\0" in target:
        raise InputError(f"path must be the path of a file for the report, such as 'report.html'; got {path!r}.")
    if os.path.isdir(target):
        raise InputError(f"path must be the path of a file; {target!r} is a folder: add a name such as report.html.")
    try:
        NewFile(target).abandon()  # before the work: a folder that cannot be written to is found out first
    except OSError as error:
        raise write_failed(repr(target), error, kept=True) from error
    write_whole(target, html_of(subject).encode("utf-8"))


def _check(subject: Subject) -> None:
    model = subject.model
    if not isinstance(model, KernelPCA | IncrementalKernelPCA):
        remedy = "of a pipeline, give the last step and the rows as it takes them, or use kpca.report.report_on"
        kinds = f"a fitted KernelPCA or IncrementalKernelPCA; got {type(model).__name__}"
        raise InputError(f"A report is about {kinds}", remedy=remedy)
    check_is_fitted(model)
    if model.kernel_ is None:
        raise InputError("A report needs rows; a model of a precomputed kernel has none: fit with a kernel of kpca.")
    X = subject.X
    if not (sparse.issparse(X) or isinstance(X, np.ndarray)) or X.ndim != 2 or X.shape[0] < 1:
        raise InputError(f"X must be a 2-D array or sparse matrix with at least one row; got {type(X).__name__}.")
    m, d = X.shape
    for what, length, of in (("ids", m, "rows"), ("labels", m, "rows"), ("names", d, "columns")):
        values = getattr(subject, what)
        if values is not None and len(values) != length:
            raise InputError(f"{what} must be one for each of the {length} {of}; got {len(values)}.")
    if subject.image_shape is not None and int(np.prod(subject.image_shape)) != d:
        raise InputError(f"image_shape must have {d} dots, one per column; got {subject.image_shape}.")


# -- A report for people who have a fitted model and an array ---------------------------------------------------------


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
    last = steps[-1][1]
    before: Any = model[:-1] if len(steps) > 1 else None
    check_is_fitted(last)
    if title is not None and not isinstance(title, str):
        raise InputError(f"title must be a text; got {title!r}.")
    shape = X.shape if sparse.issparse(X) else np.shape(X)
    if len(shape) != 2:
        raise InputError(f"X must be a 2-D array, data frame or sparse matrix; got shape {shape}.")
    with names_are_known():
        rows = X if before is None else before.transform(X)
        if before is None:
            names = column_names(names, getattr(last, "feature_names_in_", None), X, shape[1])
        rows = check_data(last, rows, reset=False)
    m, d = rows.shape
    restore: Callable[[NDArray[Any]], NDArray[Any]] | None = getattr(before, "inverse_transform", None)
    if restore is not None and np.shape(restore(np.zeros((1, d)))) != (1, d):
        restore = None
    if names is None and all(hasattr(step, "get_feature_names_out") for _, step in before.steps):
        columns = getattr(X, "columns", None)
        known = before.get_feature_names_out(None if columns is None else [str(name) for name in columns])
        names = known if len(known) == d else None
    values: Any = X.tocsr() if sparse.issparse(X) else np.asarray(X)
    digest = hashlib.sha256()  # of the bytes in C order; of a sparse array, of its three arrays
    for part in (values.data, values.indices, values.indptr) if sparse.issparse(values) else (values,):
        texts = repr(part.tolist()).encode("utf-8", "backslashreplace") if part.dtype.kind == "O" else None
        digest.update(np.ascontiguousarray(part).tobytes() if texts is None else texts)
    seed = getattr(last, "random_state", None)
    return Subject(
        model=last,
        X=rows,
        ids=row_labels(ids, X, m),
        labels=None if labels is None else _labels(labels, m),
        names=column_names(names, None, rows, d),
        data=DataFacts(
            name="the data" if title is None else title,
            digest=digest.hexdigest(),
            n_rows=m,
            n_columns=shape[1],
            treated=() if before is None else tuple(f"{type(step).__name__} was applied" for _, step in before.steps),
        ),
        code=_code(model, values),
        seed=int(seed) if isinstance(seed, int | np.integer) else 0,
        restore=restore,
        image_shape=image_shape,
        title=title or "",
    )


def _labels(labels: Any, m: int) -> NDArray[Any]:
    check_mask(labels, "labels", "one for each row")
    if isinstance(labels, str) or not isinstance(labels, Iterable) or len(list(labels)) != m:
        raise InputError(f"labels must be one for each of the {m} rows; got {labels!r:.80}.")
    found = np.asarray(labels)
    return found if found.ndim == 1 else np.array([str(label) for label in labels], dtype=object)


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
    if not reason and isinstance(model.gamma, str) and isinstance(model.kernel_, RadialKernel):
        reason = _RULES.get(model.gamma)
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
        chosen=(str(reason),) if reason else (),
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


def _missing(table: Table) -> int:
    """Return how many entries of a table are missing: those of the fit say nothing about other rows."""
    total = 0
    for rows in table.chunks():
        numbers = rows.numbers.data if sparse.issparse(rows.numbers) else rows.numbers
        total += int(np.isnan(numbers).sum())
        total += sum(sum(text is None for text in texts) for texts in rows.categories.values())
    return total
