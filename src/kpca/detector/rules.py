"""When rows beyond a limit become an alarm: the run rule "k of the last m rows", its rates, and how alarms are counted.

One row in twenty lies beyond a limit of confidence 0.95 though nothing is wrong: an alarm for each would soon be
ignored. If rows are independent, this is what a run rule makes of a share p of rows beyond the limit. The average run
length is the number of rows to the first alarm; where p is the share under a fault, the smaller the better:

              rows in alarm                 average run length
    rule      p = 0.05     p = 0.01         0.05     0.01        0.5    0.9
    1 of 1    1 in 20      1 in 100         20       100         2.0    1.1
    2 of 2    1 in 400     1 in 10 000      420      10 100      6.0    2.3
    2 of 3    1 in 138     1 in 3 356       225      5 125       4.7    2.2
    3 of 3    1 in 8 000   1 in 1 000 000   8 420    1 010 100   14.0   3.7
    3 of 5    1 in 863     1 in 101 517     1 608    172 930     7.3    3.3
    4 of 7    1 in 5 166   1 in 2 926 802   10 222   5 244 832   9.9    4.4

(`run_rule_rate` and `average_run_length` give these numbers for any rule.) Alarms come in clusters, so that their rate
is not one over the run length. Rows of a process depend on those before them, and then false alarms are more frequent
than here: try a rule on normal rows that the detector has not seen.
"""

from __future__ import annotations

import math
from itertools import islice
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import splu
from scipy.special import bdtrc

from kpca._base.errors import InputError
from kpca._base.validation import whole_number

Flags = NDArray[np.bool_]

_MOST_STATES = 20_000  # the equations of an average run length, two numbers each: so many are solved in about a second


class RunRule:
    """The run rule on a stream: flags in, alarms out; the same alarms however the stream is cut into batches."""

    def __init__(self, k: int = 3, of: int = 5) -> None:
        self.k, self.of, _ = _checked_rule(k, of)
        self._recent: Flags = np.zeros(self.of - 1, dtype=bool)  # rows before the first lie within the limit

    def update(self, beyond: Any) -> Flags:
        """Take the flags of the next rows and return which of these rows are in alarm.  # shape: (m,)"""
        flags = _flags("beyond", beyond)
        known = np.concatenate([self._recent, flags])
        counts = np.concatenate([[0], np.cumsum(known)])
        alarm: Flags = counts[self.of :] - counts[: -self.of] >= self.k
        self._recent = known[len(flags) :]
        return alarm


def run_rule(beyond: Any, k: int = 3, of: int = 5) -> Flags:
    """Return for each row whether at least k of the last `of` rows, itself included, lie beyond the limit.

    Rows before the first count as within the limit.  # shape: (m,)
    """
    return RunRule(k, of).update(beyond)


def alarm_windows(alarm: Any) -> list[slice]:
    """Return one slice for each unbroken run of alarms, in order: rows[window] are the rows of an alarm."""
    flags = _flags("alarm", alarm)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    return [slice(int(start), int(stop)) for start, stop in zip(edges[::2], edges[1::2], strict=True)]


def detection_delay(alarm: Any, onset: int) -> int | None:
    """Return the number of rows from `onset`, the first row of a fault, to the first alarm at or after it, else None.

    An alarm at the onset itself is a delay of 0, also if it was there before: look at the false alarms, too.
    """
    flags = _flags("alarm", alarm)
    start = whole_number("onset", onset, 0)
    if start >= len(flags):
        raise InputError(f"onset must be a row of alarm, which has {len(flags)}; got {start}.")
    found = np.flatnonzero(flags[start:])
    return int(found[0]) if len(found) else None


def detection_rate(flags: Any, faulty: Any) -> float:
    """Return the share of faulty rows that are flagged; `faulty` says of each row whether it is one."""
    return _share(flags, faulty, "faulty")


def false_alarm_rate(flags: Any, normal: Any) -> float:
    """Return the share of normal rows that are flagged; `normal` says of each row whether it is one."""
    return _share(flags, normal, "normal")


def run_rule_rate(p: float, k: int = 3, of: int = 5) -> float:
    """Return the share of rows in alarm if rows lie beyond the limit independently, each with probability p.

    Exact, from row `of` on: k or more of `of` is an event of the binomial law.
    """
    k, of, p = _checked_rule(k, of, p)
    return float(bdtrc(k - 1, of, p)) if p < 1.0 else 1.0


def average_run_length(p: float, k: int = 3, of: int = 5) -> float:
    """Return the expected number of rows up to and including the first alarm; rows lie beyond independently.

    With p the false-alarm rate of single rows this is the average run length of a healthy process (ARL0); with p the
    share of rows that a fault puts beyond the limit it is the expected number of rows until the fault is seen.
    """
    k, of, p = _checked_rule(k, of, p)
    if p in (0.0, 1.0):
        return math.inf if p == 0.0 else float(k)
    if k == 1:
        return 1.0 / p
    return _cycle_length(p, *_transitions(k, of))


def _cycle_length(p: float, after_beyond: NDArray[np.intp], after_within: NDArray[np.intp]) -> float:
    """Return the run length as rows per cycle over alarms per cycle, a cycle being what lies between two quiet states.

    Alarms per cycle may be 1e-30: they are a sum of what is positive, and keep their digits. As a solution of the
    equations for the run length itself they would be the difference of two numbers close to 1.
    """
    count = len(after_beyond) - 1  # states but for the quiet one, which is number 0; -1 is alarm
    system = sparse.eye_array(count, format="csc")
    alarms = np.zeros(count)
    for chance, following in ((p, after_beyond[1:]), (1.0 - p, after_within[1:])):
        inside = np.flatnonzero(following > 0)
        entries = (np.full(len(inside), chance), (inside, following[inside] - 1))
        system = system - sparse.csc_array(entries, shape=(count, count))
        alarms[following < 0] += chance
    solved = splu(system.tocsc()).solve(np.column_stack([np.ones(count), alarms]))
    rows, chances = solved[after_beyond[0] - 1]
    return float((1.0 + p * rows) / (p * chances)) if p * chances > 0 else math.inf


def _transitions(k: int, of: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return to which state each state goes after a row beyond and after one within the limit; -1 is alarm.

    A state holds the last of - 1 rows as bits, the newest lowest. Number 0 is quiet: no bit is set.
    """
    states, found = {0: 0}, [0]
    following: tuple[list[int], list[int]] = ([], [])
    for state in found:  # grows meanwhile
        for bit, numbers in zip((1, 0), following, strict=True):
            window = state << 1 | bit
            if window.bit_count() >= k:
                numbers.append(-1)
                continue
            # An alarm has no more than of - k rows within the limit, so rows before so many and one more play no role.
            within = (age for age in range(of - 1) if not window >> age & 1)
            new = window & ((1 << next(islice(within, of - k, None), of - 1)) - 1)
            if new not in states:
                states[new] = len(found)
                found.append(new)
            numbers.append(states[new])
        if len(found) > _MOST_STATES:
            needed = "An average run length needs k and of that are small, or close to each other"
            raise InputError(f"{needed}; got {k} of {of}: take fewer rows, or simulate.")
    return np.array(following[0]), np.array(following[1])


def _checked_rule(k: Any, of: Any, p: Any = 0.0) -> tuple[int, int, float]:
    if isinstance(p, bool | np.bool_) or not isinstance(p, Real) or not 0.0 <= float(p) <= 1.0:
        raise InputError(f"p must be a probability between 0 and 1; got {p!r}.")
    checked, rows = whole_number("k", k, 1), whole_number("of", of, 1)
    if checked > rows:
        raise InputError(f"k must not be more than of, an alarm would never come; got {checked} of {rows}.")
    return checked, rows, float(p)


def _flags(name: str, values: Any) -> Flags:
    """Return one flag per row, of booleans or of zeros and ones."""
    flags = np.asarray(values)
    if flags.ndim != 1:
        raise InputError(f"{name} must have one flag per row, in one dimension; got shape {flags.shape}.")
    for value in [] if flags.dtype == bool else flags.tolist():
        if not (isinstance(value, Real | np.bool_) and value in (0, 1)):
            strange = value.item() if isinstance(value, np.generic) else value
            raise InputError(f"{name} must hold flags, True and False or 1 and 0; got {strange!r}.")
    return flags.astype(bool)


def _share(flags: Any, among: Any, name: str) -> float:
    found, chosen = _flags("flags", flags), _flags(name, among)
    if found.shape != chosen.shape:
        raise InputError(f"flags and {name} must have the same rows; got {len(found)} and {len(chosen)}.")
    if not chosen.any():
        raise InputError(f"{name} must name at least one row, a share of none is no number; got none of {len(chosen)}.")
    return float(found[chosen].mean())
