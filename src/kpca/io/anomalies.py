"""The rows of a table judged by a detector, with the columns behind each alarm."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
    detector = pipeline[-1]
    layout = preparation_of(pipeline).select(table).layout
    limit = -float(detector.offset_)
    named = [f"cause {number}" for number in range(1, causes + 1)]
    extras = [*beside_of(pipeline, layout), "alarm", *named]
    writer = None if path is None else open_writer(path, [*STATISTICS, "limit"], extras=extras)
    parts: list[_Judged] = []
    with nullcontext() if writer is None else writer:
        for judged in _judged(pipeline, table, causes):
            parts.append(judged)
            if writer is not None:
                numbers = np.column_stack([judged.statistics[name] for name in STATISTICS])
                whole = np.column_stack([numbers, np.full(len(numbers), limit)])
                writer.write(whole, {**judged.beside, "alarm": judged.alarms.astype(np.int64), **judged.causes(named)})
    alarms = np.concatenate([part.alarms for part in parts])
    every = Statistics(**{name: np.concatenate([part.statistics[name] for part in parts]) for name in STATISTICS})
    top = _top(parts, detector.statistic)
    return Anomalies(len(alarms), int(alarms.sum()), limit, detector.statistic, top, every, alarms)


@dataclass(frozen=True)
class _Judged:
    """Some rows, judged."""

    statistics: Any
    alarms: NDArray[np.bool_]
    behind: tuple[tuple[str, ...], ...]  # the columns behind each alarm, in the order of the alarms
    beside: dict[str, Any]
    numbers: NDArray[np.int64]  # of the rows in the table

    def causes(self, named: list[str]) -> dict[str, Any]:
        """Return a column of texts for each place of cause, empty for rows within the limit."""
        columns = {name: np.full(len(self.alarms), "", dtype=object) for name in named}
        for row, causes in zip(np.flatnonzero(self.alarms), self.behind, strict=True):
            for name, cause in zip(named, causes, strict=False):
                columns[name][row] = cause
        return columns


def _judged(pipeline: Any, table: Table, causes: int) -> Iterator[_Judged]:
    detector, layout = pipeline[-1], preparation_of(pipeline).select(table).layout
    names = [str(name) for name in pipeline[0].get_feature_names_out()]
    if detector.lags:
        # rows are judged with those before them: chunks would begin without a past
        rows = preparation_of(pipeline).select(table).whole()
        whole = preparation_of(pipeline).prepare(rows)
        tell_left_out(table.name, len(rows), len(whole.kept))
        parts: Any = [whole]
    else:
        parts = (part for _, part in prepared_pieces(pipeline, table))
    for part in parts:
        statistics = detector.statistics(part.X)
        alarms = np.asarray(statistics[detector.statistic] > -detector.offset_)
        behind: tuple[tuple[str, ...], ...] = ()
        if alarms.any() and causes:
            # with lags a row cannot be judged without those before it
            if detector.lags:
                values = detector.contributions(part.X).values[alarms]
            else:
                values = detector.contributions(part.X[alarms]).values
            order = np.argsort(-values, axis=1, kind="stable")[:, :causes]
            behind = tuple(tuple(names[column] for column in best) for best in order)
        beside = values_of(beside_of(pipeline, layout), layout, part)
        yield _Judged(statistics, alarms, behind, beside, np.asarray(part.kept))


def _top(parts: list[_Judged], statistic: str) -> tuple[dict[str, Any], ...]:
    """Return the farthest rows beyond the limit."""
    found: list[dict[str, Any]] = []
    for part in parts:
        for place, row in enumerate(np.flatnonzero(part.alarms)):
            beside = {name: values[row] for name, values in part.beside.items()}
            entry = {ROW: int(part.numbers[row]), **beside, statistic: float(part.statistics[statistic][row])}
            found.append({**entry, "causes": list(part.behind[place]) if part.behind else []})
        found = sorted(found, key=lambda entry: -entry[statistic])[:_TOP]
    return tuple(found)


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
