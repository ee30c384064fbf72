"""A report from its subject: every section in order, one page, one file. Nothing else here imports plotly."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from kpca import __version__
from kpca._base.errors import InputError
from kpca._base.files import NewFile
from kpca._base.progress import step_monitor
from kpca.detector.modelling import names_are_known
from kpca.estimators.incremental import IncrementalKernelPCA
from kpca.estimators.kernel_pca import KernelPCA
from kpca.report.embedding import embedding
from kpca.report.material import Material, Section, Subject
from kpca.report.packing import DARK_PALETTE, PALETTE, escaped, joined, json_for_page, tag
from kpca.report.rows import anomalies, preimages, variables
from kpca.report.spectrum import choice, spectrum
from kpca.report.summary import data, findings, reproduce, summary
from kpca.report.words import visible


def plotly_script() -> str:
    """Return plotly.js as text that is safe between the tags of a script."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise InputError("A report needs plotly, which is not installed: pip install 'kpca[web]'.") from None
    source: str = get_plotlyjs()
    # within a text of JavaScript both spellings are the same; in HTML only the first ends the script
    return re.sub(r"<(?=/script|!--)", r"\\x3c", source, flags=re.IGNORECASE)


def page_of(title: str, sections: Sequence[Section]) -> str:
    """Return the whole page."""
    data: dict[str, Any] = {"palette": PALETTE, "darkPalette": DARK_PALETTE}
    for section in sections:
        data |= section.data
    parts = {
        "title": escaped(visible(title, 200)),
        "style": template("style.css"),
        "contents": joined(tag("li", tag("a", part.title, href=f"#{part.id}")) for part in sections),
        "sections": joined(
            tag("section", tag("h2", part.title), part.body, id=part.id, aria_label=part.title) for part in sections
        ),
        "version": escaped(__version__),
        "data": json_for_page(data),
        "plotly": plotly_script(),
        "script": template("report.js"),
    }
    # in one pass: what is put in is not looked at again
    return re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], template("page.html"))


@cache
def template(name: str) -> str:
    """Return a file that lies beside this one."""
    return files("kpca.report").joinpath("templates", name).read_text(encoding="utf-8")


# In the order of the page.
SECTIONS = (summary, data, choice, embedding, spectrum, findings, variables, preimages, anomalies, reproduce)


def html_of(subject: Subject) -> str:
    """Return a report as one page of HTML; `kpca.config(progress=...)` hears of each section."""
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
    new = None
    try:
        new = NewFile(target)  # before the work: a folder that cannot be written to is found out first
        new.file.write(html_of(subject).encode("utf-8"))
        new.finish()
    except BaseException as error:
        if new is not None:
            new.abandon()
        if isinstance(error, OSError):
            why = error.strerror or type(error).__name__
            text = f"The report cannot be written to {target!r} ({why}): name a file in a folder with room for it."
            raise InputError(text) from error
        raise


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
