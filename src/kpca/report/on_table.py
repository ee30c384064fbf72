"""A report on a pipeline and the table it is used on: what `kpca report` writes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kpca.chunks import stacked
from kpca.errors import InputError
from kpca.io.preparation import Prepared
from kpca.io.results import joined, preparation_of, prepared_pieces
from kpca.io.rows import Table
from kpca.kernels import RadialKernel
from kpca.report.build import write_report
from kpca.report.subject import DataFacts, Subject

MOST_ROWS = 20_000


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
    rows, complete = _some(pipeline, table, max_rows, seed)
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


def _some(pipeline: Any, table: Table, most: int, seed: int) -> tuple[Prepared, int]:
    """Return the complete rows as the model takes them, or as many as asked for from all over; and of how many."""
    wanted: NDArray[np.bool_] | None = None
    if table.n_rows > most:
        wanted = np.zeros(table.n_rows, dtype=bool)
        wanted[np.random.default_rng(seed).choice(table.n_rows, most, replace=False)] = True
    parts: list[Prepared] = []
    complete = 0
    for _, part in prepared_pieces(pipeline, table):
        complete += len(part.kept)
        chosen = np.ones(len(part.kept), dtype=bool) if wanted is None else wanted[part.kept]
        if chosen.any():
            ids, labels = (None if one is None else one[chosen] for one in (part.ids, part.labels))
            parts.append(Prepared(part.X[chosen], ids, labels, part.kept[chosen]))
    if not parts:
        raise InputError(f"{table.name!r} must have rows that are complete; all were left out: use --impute median.")
    some = Prepared(
        stacked([part.X for part in parts]),
        joined([part.ids for part in parts]),
        joined([part.labels for part in parts]),
        np.concatenate([part.kept for part in parts]),
    )
    return some, complete


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
