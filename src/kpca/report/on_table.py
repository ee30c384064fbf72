"""A report on a pipeline and the table it is used on: what `kpca report` writes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import sparse

from kpca.io.results.pieces import MOST_ROWS, preparation_of, sampled_rows
from kpca.io.rows import Table
from kpca.kernels import RadialKernel
from kpca.report.build import write_report
from kpca.report.subject import DataFacts, Subject


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
    kinds = {
        "numbers": len(layout.numbers),
        "categories": len(layout.categories),
        "texts": int(layout.text is not None),
    }
    way_back = None if layout.text is not None else (lambda X: np.asarray(preparation.inverse_transform(X).numbers))
    numeric = not layout.categories
    reason = (about or {}).get("reason")
    digest = table.digest()
    of_fit = preparation.n_rows_ == table.n_rows and _digest_of(about) in (None, digest)
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
        restore=way_back if numeric else None,
        image_shape=table.image_shape,
        numbers=rows.kept,
        drawn_from=complete,
    )
    write_report(path, subject)


def _bandwidth(model: Any) -> tuple[str, ...]:
    """Return why the bandwidth is what it is, where there is one and a rule chose it."""
    gamma = model.gamma
    if not isinstance(model.kernel_, RadialKernel):
        return ()
    if isinstance(gamma, str) and gamma == "median":
        return (
            "The bandwidth is the median distance between rows (the median rule): a middle way between a kernel to "
            "which all rows are alike and one to which no two are; kpca tune compares others on held-out rows.",
        )
    if isinstance(gamma, str) and gamma == "scale":
        return ("The bandwidth follows the number of columns and their variance, as scikit-learn's 'scale' does.",)
    return ()


def _digest_of(about: Mapping[str, Any] | None) -> str | None:
    """Return the digest of the data that a model was fitted to, None if nobody kept it."""
    data = (about or {}).get("data")
    found = data.get("sha256") if isinstance(data, Mapping) else None
    return found if isinstance(found, str) else None


def _missing(table: Table) -> int:
    """Return how many entries of a table are missing: those of the fit say nothing about other rows."""
    total = 0
    for rows in table.chunks():
        numbers = rows.numbers.data if sparse.issparse(rows.numbers) else rows.numbers
        total += int(np.isnan(numbers).sum())
        total += sum(sum(text is None for text in texts) for texts in rows.categories.values())
    return total
