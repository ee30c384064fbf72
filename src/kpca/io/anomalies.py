"""The rows of a table judged by a detector, with the columns behind each alarm."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca._base.validation import whole_number
from kpca.data.preparation import Prepared
from kpca.data.rows import Table
from kpca.data.sinks import open_writer
from kpca.detector.limits import STATISTICS, Statistics
from kpca.io.results import ROW, beside_of, preparation_of, prepared_pieces, tell_left_out, values_of

_TOP = 10  # rows in the summary


@dataclass(frozen=True)
class Anomalies:
    """Rows beyond the limit: how many of how many, and the farthest with the columns that contribute most."""

    rows: int
    beyond: int
    limit: float
    statistic: str
    top: tuple[dict[str, Any], ...]
    statistics: Statistics  # of each row; shape: (rows,) each
    alarms: NDArray[np.bool_]  # shape: (rows,)


def write_anomalies(pipeline: Any, table: Table, path: Any = None, *, causes: int = 3) -> Anomalies:
    """Judge the rows of a table by a detector; write its statistics, alarms and the columns behind them.

    Parameters
    ----------
    pipeline : `Preparation`, then a fitted `KernelPCADetector`.
    table : rows, in the order of time if the detector has lags.
    path : where to write; None writes nothing.
    causes : how many columns to name for each row beyond the limit.
    """
    causes, detector = whole_number("causes", causes, 0), pipeline[-1]
    layout, beside = beside_of(pipeline, table)
    limit = -float(detector.offset_)
    named = [f"cause {number}" for number in range(1, causes + 1)]
    extras = [*beside, "alarm", *named]
    writer = None if path is None else open_writer(path, [*STATISTICS, "limit"], extras=extras)
    found: list[Statistics] = []
    beyond: list[NDArray[np.bool_]] = []
    top: list[dict[str, Any]] = []
    with nullcontext() if writer is None else writer:
        for part in _parts(pipeline, table):
            statistics = detector.statistics(part.X)
            judged = statistics[detector.statistic]
            alarms = np.asarray(judged > -detector.offset_)
            behind = _behind(pipeline, part.X, alarms, causes)
            texts = values_of(beside, layout, part)
            if writer is not None:
                numbers = [*(statistics[name] for name in STATISTICS), np.full(len(alarms), limit)]
                reasons = dict(zip(named, behind.T, strict=True))
                writer.write(np.column_stack(numbers), {**texts, "alarm": alarms.astype(np.int64), **reasons})
            for row in np.flatnonzero(alarms):
                entry = {ROW: int(part.kept[row]), **{name: values[row] for name, values in texts.items()}}
                top.append({**entry, detector.statistic: float(judged[row]), "causes": [*filter(None, behind[row])]})
            top = sorted(top, key=lambda entry: -entry[detector.statistic])[:_TOP]
            found.append(statistics)
            beyond.append(alarms)
    every, whole = Statistics.joined(found), np.concatenate(beyond)
    return Anomalies(len(whole), int(whole.sum()), limit, detector.statistic, tuple(top), every, whole)


def _parts(pipeline: Any, table: Table) -> Iterator[Prepared]:
    if not pipeline[-1].lags:
        yield from (part for _, part in prepared_pieces(pipeline, table))
        return
    # rows are judged with those before them: chunks would begin without a past
    rows = preparation_of(pipeline).select(table).whole()
    whole = preparation_of(pipeline).prepare(rows)
    tell_left_out(table.name, len(rows), len(whole.kept))
    yield whole


def _behind(pipeline: Any, X: Any, alarms: NDArray[np.bool_], causes: int) -> NDArray[Any]:
    """Return the columns behind each alarm, empty texts for rows within the limit.  # shape: (m, causes)"""
    behind = np.full((len(alarms), causes), "", dtype=object)
    if alarms.any() and causes:
        detector, names = pipeline[-1], np.array(pipeline[0].get_feature_names_out(), dtype=object)
        # with lags a row cannot be judged without those before it
        lags = bool(detector.lags)
        values = detector.contributions(X).values[alarms] if lags else detector.contributions(X[alarms]).values
        order = np.argsort(-values, axis=1, kind="stable")[:, :causes]
        behind[alarms, : order.shape[1]] = names[order]
    return behind


# -- Figures of explanations and comparisons as tables ----------------------------------------------------------------

FloatArray = NDArray[Any]
_FIGURES = ("seconds", "peak_bytes", "trustworthiness", "continuity", "distance_correlation", "rank_correlation")


def importance_table(found: Any) -> tuple[list[str], FloatArray]:
    """Return the titles and the figures of what `kpca.explain.importance` found, a row per column of the data."""
    titles = ["overall", *(f"component {int(number) + 1}" for number in found.components)]
    return titles, np.column_stack([found.values, found.by_component.T])


def write_importance(found: Any, path: Any) -> None:
    """Write what `kpca.explain.importance` or `permutation_importance` found, a row per column of the data."""
    titles, table = importance_table(found)
    with open_writer(path, titles, extras=["column"]) as writer:
        writer.write(table, {"column": np.array(found.names, dtype=object)})


def write_comparison(found: Any, path: Any) -> None:
    """Write the figures of `kpca.compare`, a row per method; NaN where there is none."""
    entries = found.to_dicts()
    targets = [name for name, _ in found.targets]
    numbers = [[*map(entry.get, _FIGURES), *map(entry["knn"].get, targets)] for entry in entries]
    texts = {name: np.array([entry[name] for entry in entries], dtype=object) for name in ("name", "outcome")}
    with open_writer(path, [*_FIGURES, *(f"knn {name}" for name in targets)], extras=list(texts)) as writer:
        writer.write(np.array(numbers, dtype=np.float64), texts)  # None becomes NaN
