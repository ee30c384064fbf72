"""Results of a pipeline for the rows of a table, written in chunks with the ids and labels of the rows.

A pipeline is `Preparation`, then a model: what `kpca fit` saves. Neither table nor results need fit into memory.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca.errors import InputError
from kpca.io.images import ImageWriter
from kpca.io.preparation import Preparation, Prepared
from kpca.io.rows import Layout, Rows, Table
from kpca.io.tables import open_writer
from kpca.progress import row_monitor

FloatArray = NDArray[Any]
_ROW = "row"  # the column that numbers the rows which are left, where some were dropped and none has an id
_FIGURES = ("seconds", "peak_bytes", "trustworthiness", "continuity", "distance_correlation", "rank_correlation")
_TOP = 10  # rows in the summary of anomalies


def prepared_pieces(pipeline: Any, table: Table) -> Iterator[tuple[Rows, Prepared]]:
    """Yield the rows of a table in chunks: as they are, and as the model takes them."""
    preparation = preparation_of(pipeline)
    chosen = preparation.select(table)
    monitor = row_monitor(chosen.n_rows)
    warned: set[str] = set()  # each column once, not once in every chunk
    seen = kept = 0
    for rows in chosen.chunks():
        part = preparation.prepare(rows, warned=warned)
        seen, kept = seen + len(rows), kept + len(part.kept)
        if len(part.kept):
            yield rows, part
        if monitor is not None:
            monitor(len(rows))
    _tell_left_out(chosen.name, seen, kept)


def _tell_left_out(name: str, seen: int, kept: int) -> None:
    """Warn of rows that are not among the results, and refuse a table none of whose rows is."""
    if seen and not kept:
        raise InputError(
            f"{name} must have at least one row without missing values, as rows with some are left out; each of its "
            f"{seen:,} rows has some: fill them, or fit a model with --impute median."
        )
    if kept < seen:
        left = f"{seen - kept:,} of {seen:,} rows {'was' if seen - kept == 1 else 'were'} left out"
        warnings.warn(f"{left}, because values are missing in them.", stacklevel=3)


def joined(parts: Sequence[NDArray[Any] | None]) -> NDArray[Any] | None:
    """Return ids or labels of all pieces, None where there are none."""
    there = [part for part in parts if part is not None]
    return np.concatenate(there) if there else None


def preparation_of(pipeline: Any) -> Preparation:
    """Return the first step of a pipeline, which must be a preparation."""
    first = pipeline[0]
    if not isinstance(first, Preparation):
        raise InputError(f"The first step of the pipeline must be a kpca.io.Preparation; got {type(first).__name__}.")
    return first


def write_scores(pipeline: Any, table: Table, path: Any) -> int:
    """Write the scores of the rows of a table to a file in any of the formats of `open_writer`; - is stdout.

    Returns how many rows were written: those with missing values are left out where the preparation drops them.
    """
    model = pipeline[-1]
    names = [str(name) for name in model.get_feature_names_out()]
    layout, count = preparation_of(pipeline).select(table).layout, 0
    with open_writer(path, names, extras=_beside_of(pipeline, layout)) as writer:
        for _, part in prepared_pieces(pipeline, table):
            writer.write(np.asarray(model.transform(part.X)), _values_of(pipeline, layout, part))
            count += len(part.kept)
    return count


def write_denoised(pipeline: Any, table: Table, path: Any) -> float:
    """Write the rows with what the components do not explain removed, in the units of the table.

    Returns the share of the variance of the prepared rows that was removed.
    """
    preparation, model = preparation_of(pipeline), pipeline[-1]
    removed, layout = _Lost(), preparation.layout_

    def denoised(part: Prepared) -> Rows:
        clean = model.denoise(part.X)
        removed.add(part.X, clean)
        return preparation.inverse_transform(clean)

    beside = preparation.select(table).layout
    extras = [*_beside_of(pipeline, beside), *layout.categories]
    with _open_rows(preparation, path, extras, beside.id) as writer:
        for _, part in prepared_pieces(pipeline, table):
            rows = denoised(part)
            writer.write(rows.numbers, {**_values_of(pipeline, beside, part), **rows.categories})
    return removed.share


@dataclass(frozen=True)
class Reconstruction:
    """What came of turning scores back into data.

    `size_ratio` is the size of the scores over that of the data, both as float64; `error` the share of the variance of
    the original (prepared) rows that is lost, None without an original.
    """

    rows: int
    size_ratio: float
    error: float | None


def write_reconstruction(pipeline: Any, scores: Table, path: Any, original: Table | None = None) -> Reconstruction:
    """Write the rows of data that a table of scores stands for, in the units of the data of the fit."""
    preparation, model = preparation_of(pipeline), pipeline[-1]
    wanted = [str(name) for name in model.get_feature_names_out()]
    beside = _beside(scores.layout)
    places = _places(scores, wanted)
    lost = _Lost()
    truth = None if original is None else _Aligned(pipeline, original)
    layout, count = preparation.layout_, 0
    monitor = row_monitor(scores.n_rows)
    with _open_rows(preparation, path, [*beside, *layout.categories], scores.layout.id) as writer:
        for rows in scores.chunks():
            restored = model.inverse_transform(np.asarray(rows.numbers)[:, places])
            if truth is not None:
                lost.add(truth.next(len(rows)), restored)
            back = preparation.inverse_transform(restored)
            writer.write(back.numbers, {**_values(rows.layout, rows.ids, rows.labels), **back.categories})
            count += len(rows)
            if monitor is not None:
                monitor(len(rows))
        if truth is not None:
            truth.finish()
    ratio = len(wanted) / len(preparation.get_feature_names_out())
    return Reconstruction(count, ratio, None if truth is None else lost.share)


@dataclass(frozen=True)
class Anomalies:
    """Rows beyond the limit: how many of how many, and the farthest with the columns that contribute most."""

    rows: int
    beyond: int
    limit: float
    statistic: str
    top: tuple[dict[str, Any], ...]
    values: FloatArray  # the statistic of each row; shape: (rows,)
    alarms: NDArray[np.bool_]


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
    statistics, layout = ("t2", "spe", "combined"), preparation_of(pipeline).select(table).layout
    limit = -float(detector.offset_)
    named = [f"cause {number}" for number in range(1, causes + 1)]
    extras = [*_beside_of(pipeline, layout), "alarm", *named]
    writer = None if path is None else open_writer(path, [*statistics, "limit"], extras=extras)
    parts: list[_Judged] = []
    with _entered(writer):
        for judged in _judged(pipeline, table, causes):
            parts.append(judged)
            if writer is not None:
                numbers = np.column_stack([judged.statistics[name] for name in statistics])
                whole = np.column_stack([numbers, np.full(len(numbers), limit)])
                writer.write(whole, {**judged.beside, "alarm": judged.alarms.astype(np.int64), **judged.causes(named)})
    values = np.concatenate([part.statistics[detector.statistic] for part in parts])
    alarms = np.concatenate([part.alarms for part in parts])
    return Anomalies(
        len(values), int(alarms.sum()), limit, detector.statistic, _top(parts, detector.statistic), values, alarms
    )


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
    numbers = [
        [*(entry[name] for name in _FIGURES), *(entry["knn"].get(name) for name in targets)] for entry in entries
    ]
    texts = {name: np.array([entry[name] for entry in entries], dtype=object) for name in ("name", "outcome")}
    with open_writer(path, [*_FIGURES, *(f"knn {name}" for name in targets)], extras=list(texts)) as writer:
        writer.write(np.array(numbers, dtype=np.float64), texts)  # None becomes NaN


# -- writing ----------------------------------------------------------------------------------------------------------


def _open_rows(preparation: Preparation, path: Any, extras: list[str], id: str | None) -> Any:
    """Return a writer of rows in the units of the fit; pictures go into a folder, if the path is that of one."""
    if preparation.image_shape_ is not None and path != "-" and not os.path.splitext(os.fsdecode(path))[1]:
        return _Pictures(ImageWriter(path, preparation.image_shape_), id)
    return open_writer(path, list(preparation.layout_.numbers), extras=extras)


class _Pictures:
    """A folder of pictures, written to as tables are."""

    def __init__(self, writer: ImageWriter, id: str | None) -> None:
        self._writer, self._id = writer, id

    def write(self, numbers: FloatArray, extras: Mapping[str, Any]) -> None:
        """Write rows as pictures, each named by its id."""
        self._writer.write(numbers, extras.get(self._id) if self._id is not None else None)

    def __enter__(self) -> _Pictures:
        self._writer.__enter__()
        return self

    def __exit__(self, *failure: Any) -> None:
        self._writer.__exit__(*failure)


def _beside(layout: Layout) -> list[str]:
    return [name for name in (layout.id, layout.label) if name is not None]


def _beside_of(pipeline: Any, layout: Layout) -> list[str]:
    """Return the columns that stand beside the results: ids, labels, or the number of a row where some are dropped."""
    beside = _beside(layout)
    return [_ROW, *beside] if preparation_of(pipeline).drops and layout.id is None else beside


def _values(layout: Layout, ids: Any, labels: Any) -> dict[str, Any]:
    values = {layout.id: ids, layout.label: labels}
    return {name: array for name, array in values.items() if name is not None}


def _values_of(pipeline: Any, layout: Layout, part: Prepared) -> dict[str, Any]:
    values = _values(layout, part.ids, part.labels)
    return {_ROW: np.asarray(part.kept), **values} if _ROW in _beside_of(pipeline, layout) else values


def _entered(writer: Any) -> Any:
    from contextlib import nullcontext

    return nullcontext() if writer is None else writer


class _Lost:
    """Squared differences of rows, and their total variance, in one pass."""

    def __init__(self) -> None:
        self._gap, self._squares, self._count = 0.0, 0.0, 0
        self._origin: FloatArray | None = None
        self._sum: FloatArray = np.zeros(0)

    def add(self, X: FloatArray, other: FloatArray) -> None:
        """Take some rows, and what they became."""
        X = np.asarray(X, dtype=np.float64)
        if self._origin is None:
            self._origin = X.mean(axis=0)  # sums about it do not cancel
            self._sum = np.zeros(X.shape[1])
        self._gap += float(np.square(X - other).sum())
        centred = X - self._origin
        self._squares += float(np.square(centred).sum())
        self._sum = self._sum + centred.sum(axis=0)
        self._count += len(X)

    @property
    def share(self) -> float:
        """What was lost, over the total variance; NaN for rows that are all alike."""
        total = self._squares - float(np.square(self._sum).sum()) / max(self._count, 1)
        return self._gap / total if total > 0 else float("nan")


class _Aligned:
    """Prepared rows of a table, handed out in pieces as long as asked for."""

    def __init__(self, pipeline: Any, table: Table) -> None:
        self._parts = (np.asarray(part.X) for _, part in prepared_pieces(pipeline, table))
        self._name = table.name
        self._left: FloatArray | None = None

    def next(self, count: int) -> FloatArray:
        """Return the next so many rows."""
        taken: list[FloatArray] = [] if self._left is None else [self._left]
        while sum(map(len, taken)) < count:
            part = next(self._parts, None)
            if part is None:
                raise InputError(
                    f"{self._name!r} must have a row for each row of scores; it has fewer: give the same rows."
                )
            taken.append(part)
        whole = np.concatenate(taken)
        self._left = whole[count:]
        return whole[:count]

    def finish(self) -> None:
        """Refuse rows that are left over."""
        if (self._left is not None and len(self._left)) or next(self._parts, None) is not None:
            raise InputError(f"{self._name!r} must have a row for each row of scores; it has more: give the same rows.")


def _places(scores: Table, wanted: list[str]) -> list[int]:
    """Return where the columns of scores are; by their names, or in order where they are as many without names."""
    found = list(scores.layout.numbers)
    more = f"{wanted[0].rstrip('0123456789')}{len(wanted)}"
    if more in found and more not in wanted:
        raise InputError(
            f"{scores.name!r} must have the columns of scores {wanted[0]} to {wanted[-1]}; {more!r} is one of a model "
            "with more components: give a file that `kpca transform` wrote for this model."
        )
    if all(name in found for name in wanted):
        return [found.index(name) for name in wanted]
    if len(found) == len(wanted):
        return list(range(len(found)))
    missing = [name for name in wanted if name not in found]
    raise InputError(
        f"{scores.name!r} must have the columns of scores {wanted[0]} to {wanted[-1]}; {missing[0]!r} is missing: give "
        "a file that `kpca transform` wrote for this model."
    )


# -- anomalies --------------------------------------------------------------------------------------------------------


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
        _tell_left_out(table.name, len(rows), len(whole.kept))
        parts: Any = [whole]
    else:
        parts = (part for _, part in prepared_pieces(pipeline, table))
    for part in parts:
        statistics = detector.statistics(part.X)
        alarms = np.asarray(statistics[detector.statistic] > -detector.offset_)
        behind: tuple[tuple[str, ...], ...] = ()
        if alarms.any() and causes:
            # with lags a row cannot be judged without those before it
            values = (
                detector.contributions(part.X).values[alarms]
                if detector.lags
                else (detector.contributions(part.X[alarms]).values)
            )
            order = np.argsort(-values, axis=1, kind="stable")[:, :causes]
            behind = tuple(tuple(names[column] for column in best) for best in order)
        yield _Judged(statistics, alarms, behind, _values_of(pipeline, layout, part), np.asarray(part.kept))


def _top(parts: list[_Judged], statistic: str) -> tuple[dict[str, Any], ...]:
    """Return the farthest rows beyond the limit."""
    found: list[dict[str, Any]] = []
    for part in parts:
        for place, row in enumerate(np.flatnonzero(part.alarms)):
            beside = {name: values[row] for name, values in part.beside.items()}
            entry = {_ROW: int(part.numbers[row]), **beside, statistic: float(part.statistics[statistic][row])}
            found.append({**entry, "causes": list(part.behind[place]) if part.behind else []})
        found = sorted(found, key=lambda entry: -entry[statistic])[:_TOP]
    return tuple(found)
