"""A report from its subject: every section in order, one page, one file."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from kpca.detector.columns import names_are_known
from kpca.errors import InputError
from kpca.incremental import IncrementalKernelPCA
from kpca.kernel_pca import KernelPCA
from kpca.progress import step_monitor
from kpca.report.material import Material
from kpca.report.page import page_of
from kpca.report.sections.anomalies import anomalies
from kpca.report.sections.base import Section
from kpca.report.sections.choice import choice
from kpca.report.sections.data import data
from kpca.report.sections.embedding import embedding
from kpca.report.sections.findings import findings
from kpca.report.sections.preimages import preimages
from kpca.report.sections.reproduce import reproduce
from kpca.report.sections.spectrum import spectrum
from kpca.report.sections.summary import summary
from kpca.report.sections.variables import variables
from kpca.report.subject import Subject
from kpca.storage.files import NewFile

# In the order of the page.
SECTIONS: tuple[Callable[[Material], Section], ...] = (
    summary,
    data,
    choice,
    embedding,
    spectrum,
    findings,
    variables,
    preimages,
    anomalies,
    reproduce,
)


def html_of(subject: Subject) -> str:
    """Return a report as one page of HTML that needs nothing else.

    What takes longest is told to `kpca.config(progress=...)`, a step per section.
    """
    _check(subject)
    material = Material(subject)
    monitor = step_monitor(len(SECTIONS), "section")
    made = []
    with names_are_known():
        for section in SECTIONS:
            made.append(section(material))
            if monitor is not None:
                monitor(name=made[-1].title)
    return page_of(subject.title or f"Kernel PCA of {subject.data.name}", made)


def write_report(path: str | os.PathLike[str], subject: Subject) -> None:
    """Write a report to a file, which appears whole or not at all."""
    target = os.fspath(path)
    if not isinstance(target, str) or not target or "\0" in target:
        raise InputError(f"path must be the path of a file for the report, such as 'report.html'; got {path!r}.")
    if os.path.isdir(target):
        raise InputError(f"path must be the path of a file; {target!r} is a folder: add a name such as report.html.")
    try:
        new = NewFile(target)  # before the work: a folder that cannot be written to is found out first
    except OSError as error:
        raise _unwritable(target, error) from error
    try:
        new.file.write(html_of(subject).encode("utf-8"))
        new.finish()
    except OSError as error:
        new.abandon()
        raise _unwritable(target, error) from error
    except BaseException:
        new.abandon()
        raise


def _unwritable(path: str, error: OSError) -> InputError:
    why = error.strerror or type(error).__name__
    return InputError(f"The report cannot be written to {path!r} ({why}): name a file in a folder with room for it.")


def _check(subject: Subject) -> None:
    """Refuse a subject that does not fit together."""
    model = subject.model
    if not isinstance(model, KernelPCA | IncrementalKernelPCA):
        raise InputError(
            f"A report is about a fitted KernelPCA or IncrementalKernelPCA; got {type(model).__name__}: of a pipeline, "
            "give the last step and the rows as it takes them, or use kpca.report.report_on."
        )
    check_is_fitted(model)
    if model.kernel_ is None:
        raise InputError(
            "A report needs rows of data, and a model of a precomputed kernel has none: fit with a kernel of kpca."
        )
    X = subject.X
    if not (sparse.issparse(X) or isinstance(X, np.ndarray)) or X.ndim != 2 or X.shape[0] < 1:
        raise InputError(f"X must be a 2-D array or sparse matrix with at least one row; got {type(X).__name__}.")
    m, d = X.shape
    _check_length("ids", subject.ids, m, "rows")
    if subject.labels is not None:
        _check_length("labels", subject.labels, m, "rows")
    _check_length("names", subject.names, d, "columns")
    if subject.image_shape is not None and int(np.prod(subject.image_shape)) != d:
        raise InputError(f"image_shape must have {d} dots, one per column; got {subject.image_shape}.")


def _check_length(what: str, values: Any, length: int, of: str) -> None:
    if len(values) != length:
        raise InputError(f"{what} must be one for each of the {length} {of}; got {len(values)}.")
