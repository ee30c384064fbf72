"""Watching a stream: batches of any kind in, one verdict per row out, and alarms by a run rule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from kpca._base.errors import InputError
from kpca._base.validation import unchanged_on_error
from kpca.data.frames import FrameReader, is_frame
from kpca.detector.limits import STATISTICS, check_statistic
from kpca.detector.modelling import compare_names, is_labelled_row, lagged, remembered
from kpca.detector.rules import RunRule

FloatArray = NDArray[Any]
Flags = NDArray[np.bool_]
# A row this many times as far out as the limit is never learned, not even by itself: one spike must not spoil a model.
_FAR = 10.0


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
        it. Nor is a row that is missing or lies ten times as far out as the limit, nor, with lags, one that such rows
        are part of. A single row beyond the limit is learned, or limits would shrink and shrink. The detector is
        changed, which it is not otherwise; the last of - 1 rows of a stream are not learned.

    A row with NaN or infinity has `missing` set and NaN for statistics. It counts as within the limit, for nothing is
    known of it, and is not learned; with lags, the rows after it see the last complete row in its place. A sensor that
    stays silent gives no alarm: look at `missing`. A row so far out that its kernel values overflow is not missing: it
    is infinitely far beyond the limit.
    """
    check_is_fitted(detector)
    if not hasattr(detector, "_check_fitted"):
        raise InputError(f"monitor needs a fitted kpca.KernelPCADetector; got {type(detector).__name__}.")
    detector._check_fitted()
    watched = check_statistic(detector.statistic if statistic is None else statistic)
    rule = RunRule(k, of)
    whole = isinstance(batches, np.ndarray) and batches.ndim <= 2
    if whole or is_frame(batches) or sparse.issparse(batches) or is_labelled_row(batches):
        batches = [batches]
    if isinstance(batches, str | bytes) or not isinstance(batches, Iterable):
        got = type(batches).__name__
        raise InputError(f"batches must be rows, or something that gives batches of them; got {got}.")
    return _Watch(detector, watched, rule, bool(adapt)).over(batches)


class _Watch:
    """A detector and what it has seen of a stream; if it learns, also rows that an alarm may still include."""

    def __init__(self, detector: Any, statistic: str, rule: RunRule, adapt: bool) -> None:
        self._detector, self._statistic, self._rule, self._adapts = detector, statistic, rule, adapt
        self._row = 0
        self._started: int | None = None
        self._past: FloatArray | None = None  # the newest scaled rows, as many as there are lags
        self._last: FloatArray | None = None  # the last complete row, shape: (d,)
        self._waiting: list[FloatArray] = []  # rows that are not learned yet, scaled and lagged
        self._unit = 0.0  # the largest eps that rows came with
        self._flags: Flags = np.empty((3, 0), dtype=bool)  # of these: not to be learned, beyond, in alarm
        # With lags, rows that are left out are part of the next ones, too: one of the last lags + 1 is enough.
        self._seen_by = RunRule(1, detector.lags + 1)

    def over(self, batches: Iterable[Any]) -> Iterator[RowStatus]:
        names = getattr(self._detector, "feature_names_in_", None)
        for batch in batches:
            yield from self._judged(*_read_batch(batch, self._row, self._detector.n_features_in_, names))
            self._learn()

    def _judged(self, batch: FloatArray, labels: Sequence[Any], unit: float) -> list[RowStatus]:
        """Return the status of each row of a batch, and remember what later rows need."""
        missing, detector = ~np.asarray(np.isfinite(batch).all(axis=1)), self._detector
        values = {name: np.full(len(missing), np.nan) for name in STATISTICS}
        first, rows = self._filled(batch, missing)
        if len(rows):
            with np.errstate(over="ignore", invalid="ignore"):  # a row may be that far out
                scaled = detector._scaled(rows)
                wide = lagged(scaled, detector.lags, self._past)
                self._past = remembered(scaled, detector.lags, self._past)
                try:
                    detector._recipe.kernel.check(wide)
                except InputError as error:
                    raise InputError(f"From row {self._row + first} of the stream on: {error}") from error
                statistics = detector._measured(wide, unit)
            for name, value in values.items():
                value[first:] = np.nan_to_num(statistics[name], nan=np.inf, posinf=np.inf)
                value[missing] = np.nan
        limits = {name: float(detector.limits_[name]) for name in STATISTICS}
        limits[detector.statistic] = float(-detector.offset_)  # which a share of contamination may have set
        beyond = {name: value > limits[name] for name, value in values.items()}  # NaN is not beyond
        watched = self._statistic
        alarm = self._rule.update(beyond[watched])
        if self._adapts and len(rows):
            self._unit = max(self._unit, unit)
            refused = missing | (values[watched] > _FAR * limits[watched])
            self._waiting.append(wide)
            self._flags = np.hstack([self._flags, np.array([refused, beyond[watched], alarm])[:, first:]])
        flags = (beyond[watched], beyond["t2"], beyond["spe"], alarm)
        columns = [column.tolist() for column in (*values.values(), *flags)]  # in the order of RowStatus
        started, numbers = [], range(self._row, self._row + len(missing))
        for number, rings in zip(numbers, alarm, strict=True):
            if not rings:
                self._started = None
            elif self._started is None:
                self._started = number
            started.append(self._started)
        self._row += len(missing)
        return list(map(RowStatus, numbers, labels, *columns, started, missing.tolist()))

    def _filled(self, rows: FloatArray, missing: Flags) -> tuple[int, FloatArray]:
        """Return rows with the last complete one in the place of each that is not.

        Before the first complete row there is none to take: this many rows, the first number returned, are left out.
        """
        complete = np.where(missing, -1, np.arange(len(rows)))
        last = np.maximum.accumulate(complete)  # of each row; -1: in an earlier batch  # shape: (m,)
        known = rows if self._last is None else np.vstack([rows, self._last])  # row -1
        first = 0 if self._last is not None else int(np.count_nonzero(last < 0))
        filled = known[last[first:]]
        if len(filled):
            self._last = filled[-1].copy()
        return first, filled

    def _learn(self) -> None:
        """Give the detector all rows that no alarm can include any more; the others wait on."""
        count = self._flags.shape[1] - (self._rule.of - 1)
        if count <= 0 or not self._waiting:
            return
        refused, beyond, alarm = self._flags
        total = np.concatenate([[0], np.cumsum(alarm)])
        of = self._rule.of
        led_to_alarm = beyond[:count] & (total[of:] > total[:-of])  # one within the window of the rule
        keep = ~self._seen_by.update(refused[:count] | alarm[:count] | led_to_alarm)
        rows = np.concatenate(self._waiting)
        if keep.any():
            with unchanged_on_error(self._detector):
                self._detector._learn(rows[:count][keep], self._unit)
        self._waiting, self._flags = [rows[count:].copy()], self._flags[:, count:]


def _read_batch(
    batch: Any, row: int, columns: int, names: Sequence[str] | None
) -> tuple[FloatArray, Sequence[Any], float]:
    """Return a copy of a batch, NaN where it has no numbers; labels of its rows, None where it has none; their eps.

    An InputError says which row of the stream the batch begins with.
    """
    labels: Sequence[Any] = ()
    try:
        found = batch.columns if is_frame(batch) else batch.index if is_labelled_row(batch) else ()
        named = len(found) > 0 and len(batch) > 0 and all(isinstance(name, str) for name in found)
        if named and names is not None and len(found) == len(names):
            compare_names(names, found)
        if is_frame(batch):
            labels = list(batch.index) if hasattr(batch, "iloc") else ()
            rows = FrameReader(batch).take(np.arange(len(batch))) if 0 not in batch.shape else np.empty((0, columns))
        elif is_labelled_row(batch):
            rows, labels = batch.to_numpy(dtype=np.float64, na_value=np.nan), [batch.name]
        else:
            rows = batch.toarray() if sparse.issparse(batch) else batch
            rows = np.ma.filled(rows.astype(np.float64), np.nan) if np.ma.isMaskedArray(rows) else np.asarray(rows)
            if rows.dtype.kind not in "biufO":
                raise InputError(f"a batch must hold real numbers only; got {rows.dtype}.")
            if rows.ndim == 0:
                raise InputError(f"a batch must be rows, or one row; got the number {rows.item()!r}.")
        unit = float(np.finfo(rows.dtype if rows.dtype == np.float32 else np.float64).eps)
        rows = np.array(rows, dtype=np.float64)
    except InputError as error:
        raise InputError(f"At row {row} of the stream: {error}") from error
    except (TypeError, ValueError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise InputError(f"At row {row} of the stream a batch must hold numbers only; {reason}.") from error
    if len(rows) == 0:
        return np.empty((0, columns)), (), unit
    if rows.ndim == 1:
        rows, labels = rows[None], labels[:1]  # a single row
    if rows.ndim != 2 or rows.shape[1] != columns:
        must = f"must have {columns} columns, as the detector was fitted to; got shape {rows.shape}"
        raise InputError(f"At row {row} of the stream a batch {must}.")
    return rows, labels if len(labels) else [None] * len(rows), unit
