"""Watching a stream: rows in, one verdict per row out, and alarms by a run rule.

The verdicts are the same however the stream is cut into batches (statistics to rounding), also with lags: what came
before a batch is remembered. With `adapt` they are not quite, because learning happens between batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from kpca.detector.batches import Batch, each_batch, read_batch
from kpca.detector.rules import RunRule
from kpca.statistics import Statistics, check_statistic

FloatArray = NDArray[Any]
Flags = NDArray[np.bool_]


class Limits(Protocol):
    """The limit of each statistic."""

    def __getitem__(self, name: str) -> float: ...


class Watcher(Protocol):
    """What is needed of a fitted detector."""

    statistic: str
    n_features_in_: int
    limits_: Any

    def _statistics_after(self, X: FloatArray, history: Any) -> Statistics:
        """Return the statistics of rows that follow those of a history; None if there is none."""

    def _history(self, X: FloatArray, history: Any) -> Any:
        """Return the history that rows leave behind which follow those of another."""

    def _learn_after(self, X: FloatArray, history: Any, keep: Flags) -> None:
        """Add the rows named by `keep` to the model; the others are only what came before those."""


@dataclass(frozen=True, slots=True)
class RowStatus:
    """What a monitor says of one row."""

    row: int  # number since the start of the stream
    label: Any  # of the row in the index of its data frame, else None
    t2: float
    spe: float
    combined: float
    beyond: bool  # whether the statistic that is watched lies beyond its limit
    beyond_t2: bool
    beyond_spe: bool
    alarm: bool  # by the run rule
    started: int | None  # the row at which the alarm began that this row is in
    missing: bool  # whether the row had NaN or infinity, so that its statistics are NaN


def monitor(
    detector: Any, batches: Any, *, statistic: str | None = None, k: int = 3, of: int = 5, adapt: bool = False
) -> Iterator[RowStatus]:
    """Yield the status of each row of a stream; alarm is given where k of the last `of` rows lie beyond the limit.

    Parameters
    ----------
    batches : whatever gives batches: arrays, data frames, lists of rows, single rows (in one dimension), of any
        length, also empty. One array or data frame by itself is one batch. The next one is taken when all rows of the
        one before have been looked at.
    statistic : the statistic that is watched, "t2", "spe" or "combined"; None takes that of the detector.
    k, of : the run rule; kpca.detector.average_run_length says how often it is wrong. k = of = 1 gives an alarm for
        each row beyond the limit.
    adapt : whether the detector learns, so that slow drift is followed. Rows are given to it once no alarm can include
        them any more, of - 1 rows later, and never if one did: those in alarm, and those beyond the limit that led to
        it. The detector is changed then, and only then; the last of - 1 rows of a stream are not learned.

    A row with NaN or infinity has `missing` set and NaN for statistics. It counts as within the limit, for nothing is
    known of it, and is not learned; with lags, the rows after it see the last complete row in its place. A sensor that
    stays silent gives no alarm: look at `missing`.
    """
    check_is_fitted(detector)
    name = detector.statistic if statistic is None else statistic
    watch = _Watch(detector, check_statistic(name), RunRule(k, of), bool(adapt))
    return watch.over(each_batch(batches))


class _Watch:
    """A detector and what it has seen of a stream."""

    def __init__(self, detector: Watcher, statistic: str, rule: RunRule, adapt: bool) -> None:
        self._detector, self._statistic, self._rule = detector, statistic, rule
        self._row = 0
        self._started: int | None = None
        self._past: Any = None  # the history of the rows so far
        self._last: FloatArray | None = None  # the last complete row, shape: (d,)
        self._learner = _Learner(detector, rule.of) if adapt else None

    def over(self, batches: Iterable[Any]) -> Iterator[RowStatus]:
        names = getattr(self._detector, "feature_names_in_", None)
        for batch in batches:
            yield from self._judged(read_batch(batch, self._row, self._detector.n_features_in_, names))
            if self._learner is not None:
                self._learner.learn()

    def _judged(self, batch: Batch) -> list[RowStatus]:
        """Return the status of each row of a batch, and remember what later rows need."""
        missing = batch.missing
        values = {name: np.full(len(missing), np.nan) for name in ("t2", "spe", "combined")}
        first, rows = self._filled(batch.rows, missing)
        if len(rows):
            statistics = self._detector._statistics_after(rows, self._past)
            for name, value in values.items():
                value[first:] = statistics[name]
                value[missing] = np.nan
            self._past = self._detector._history(rows, self._past)
        limits = self._detector.limits_
        with np.errstate(invalid="ignore"):
            beyond = {name: value > limits[name] for name, value in values.items()}  # NaN is not beyond
        alarm = self._rule.update(beyond[self._statistic])
        if self._learner is not None:
            self._learner.take(rows, missing[first:], beyond[self._statistic][first:], alarm[first:])
        started = self._starts(alarm)
        flags = (beyond[self._statistic], beyond["t2"], beyond["spe"], alarm)
        columns = [column.tolist() for column in (*values.values(), *flags)]  # in the order of RowStatus
        rows_of = range(self._row, self._row + len(missing))
        self._row += len(missing)
        return list(map(RowStatus, rows_of, batch.labels, *columns, started, missing.tolist()))

    def _filled(self, rows: FloatArray, missing: Flags) -> tuple[int, FloatArray]:
        """Return rows with the last complete one in the place of each that is not.

        Before the first complete row there is none to take: so many rows, the first number returned, are left out.
        """
        complete = np.where(missing, -1, np.arange(len(rows)))
        last = np.maximum.accumulate(complete)  # of each row; -1: in an earlier batch  # shape: (m,)
        known = rows if self._last is None else np.vstack([rows, self._last])  # row -1
        first = 0 if self._last is not None else int(np.count_nonzero(last < 0))
        filled = known[last[first:]]
        if len(filled):
            self._last = filled[-1].copy()
        return first, filled

    def _starts(self, alarm: Flags) -> list[int | None]:
        """Return for each row of a batch where the alarm began that it is in."""
        found = []
        for number, rings in enumerate(alarm, start=self._row):
            if not rings:
                self._started = None
            elif self._started is None:
                self._started = number
            found.append(self._started)
        return found


class _Learner:
    """Rows that wait until it is certain that no alarm includes them."""

    def __init__(self, detector: Watcher, of: int) -> None:
        self._detector, self._of = detector, of
        self._past: Any = None  # the history before the rows that wait
        self._rows: FloatArray = np.empty((0, detector.n_features_in_))
        self._flags: Flags = np.empty((3, 0), dtype=bool)  # missing, beyond, in alarm

    def take(self, rows: FloatArray, missing: Flags, beyond: Flags, alarm: Flags) -> None:
        """Add the rows that have just been judged."""
        self._rows = np.vstack([self._rows, rows]) if len(self._rows) else rows
        self._flags = np.hstack([self._flags, [missing, beyond, alarm]])

    def learn(self) -> None:
        """Give the detector all rows that are certain; the others wait on."""
        count = len(self._rows) - (self._of - 1)
        if count <= 0:
            return
        missing, beyond, alarm = self._flags
        # alarms within a window that begins with the row
        later = np.concatenate([[0], np.cumsum(alarm)])
        accused = beyond[:count] & (later[self._of :] - later[: -self._of] > 0)
        keep = ~(missing[:count] | alarm[:count] | accused)
        rows = self._rows[:count]
        if keep.any():
            self._detector._learn_after(rows, self._past, keep)
        self._past = self._detector._history(rows, self._past)
        self._rows, self._flags = self._rows[count:], self._flags[:, count:]
