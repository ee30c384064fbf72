"""Which variables are behind a statistic, and behind an alarm: contributions to each row, and their ranking.

Lags of one variable are summed, and kept apart beside that. What a row is compared with is its baseline.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import pairwise_distances_argmin

from kpca._base.errors import InputError
from kpca._base.text import data_frame, text_table
from kpca._base.validation import whole_number
from kpca.data.frames import is_frame
from kpca.detector.attribution import attribute
from kpca.detector.limits import Surface
from kpca.detector.modelling import is_labelled_row

FloatArray = NDArray[Any]
_SHOWN = 10  # rows, or variables, in print
_AMONG = 3  # how many variables count as a row's own
_NAMES = {"t2": "T2", "spe": "SPE", "combined": "combined statistic"}


@dataclass(frozen=True, eq=False)
class Contributions:
    """How much each variable contributes to the statistic of each row; `print` shows the largest.

    Attributes
    ----------
    names : of the d variables.
    by_lag : (m, lags + 1, d), contributions of each variable now, one row ago, and so on.
    score : (m,), statistic of the rows.
    baseline : (1, D) or (m, D), what the rows are compared with, as the model sees it: scaled, with lags.
    baseline_score : (m,), statistic of the baselines.
    method : "integrated", contributions of a row add up to score - baseline_score; "gradient", they need not.
    statistic : "t2", "spe" or "combined".
    baseline_name : what the baseline is called.
    """

    names: tuple[str, ...]
    by_lag: FloatArray
    score: FloatArray
    baseline: FloatArray
    baseline_score: FloatArray
    method: str
    statistic: str
    baseline_name: str = "the baseline given"

    @property
    def values(self) -> FloatArray:
        """Contributions, summed over lags.  # shape: (m, d)"""
        return np.asarray(self.by_lag.sum(axis=1))

    @property
    def gap(self) -> FloatArray:
        """Sum of the contributions less score - baseline_score: what the split misses.  # shape: (m,)"""
        return np.asarray(self.by_lag.sum(axis=(1, 2)) - (self.score - self.baseline_score))

    def __len__(self) -> int:
        return len(self.score)

    def __getitem__(self, rows: Any) -> Contributions:
        """Return the contributions of some rows: a number, a slice, numbers or a mask."""
        if isinstance(rows, int | np.integer):
            rows = [rows]
        try:
            parts = {name: getattr(self, name)[rows] for name in ("by_lag", "score", "baseline_score")}
            baseline = self.baseline if len(self.baseline) == 1 else self.baseline[rows]
        except IndexError:
            must = f"Rows must be numbers, a slice or a mask of the {len(self)} rows"
            raise InputError(must, value=rows) from None
        return replace(self, baseline=baseline, **parts)

    def top(self, n: int = 3) -> list[list[tuple[str, float]]]:
        """Return for each row the n variables that contribute most, with their contributions, largest first."""
        values = self.values
        order = np.argsort(-values, axis=1, kind="stable")[:, : whole_number("n", n, 1)]
        return [[(self.names[j], float(row[j])) for j in best] for row, best in zip(values, order, strict=True)]

    def to_pandas(self) -> Any:
        """Return a data frame: a row for each row, a column for each variable."""
        return data_frame(self.values, columns=list(self.names))

    def __str__(self) -> str:
        what = _NAMES.get(self.statistic, self.statistic)
        how = "integrated gradients" if self.method == "integrated" else "gradient times difference"
        lines = [f"Contributions to the {what} of {_count(len(self), 'row')}, from {self.baseline_name}, by {how}.", ""]
        cells: list[list[str]] = []
        if len(self) == 1:
            change = float(self.score[0] - self.baseline_score[0])
            best = self.top(min(len(self.names), _SHOWN))[0]
            if len(best) < len(self.names):
                rest = float(self.values[0].sum()) - sum(value for _, value in best)
                best.append((_count(len(self.names) - len(best), "other"), rest))
            cells = [[name, f"{value:+.4g}", f"{value / change:.1%}" if change else "-"] for name, value in best]
            ends = f"{self.score[0]:.4g}, of the baseline {self.baseline_score[0]:.4g}"
            lines += text_table(["variable", "contribution", "share"], cells)
            lines += ["", f"Statistic of the row {ends}, gap {self.gap[0]:.1e}."]
        else:
            gap = self.gap
            for i, best in enumerate(self[:_SHOWN].top(3)):
                figures = [f"{i}", f"{self.score[i]:.4g}", f"{self.baseline_score[i]:.4g}", f"{gap[i]:.1e}"]
                cells.append([*figures, ", ".join(f"{name} {value:+.3g}" for name, value in best)])
            lines += text_table(["row", "statistic", "baseline", "gap", "largest contributions"], cells, left=(4,))
            left = len(self) - len(cells)
            lines += [f"and {_count(left, 'more row')}"] if left else []
        if self.method == "gradient":
            lines += ["", "These do not add up to the difference of the statistics: the gradient is that at the row."]
        return "\n".join(lines)


def contributions_of(
    surface: Surface, rows: FloatArray, baseline_rows: FloatArray, *, names: Sequence[str], lags: int = 0, **said: Any
) -> Contributions:
    """Return the contributions of variables to one statistic of rows.

    Rows and baselines, one or as many, are ordered x_t, x_{t-1}, ..., as the model sees them: scaled, which does not
    change contributions.  # shapes: (m, d (lags + 1)), (1 or m, d (lags + 1))

    What is `said` is the statistic, the method ("integrated" if unsaid) and the name of the baseline, as in the result.
    """
    d = len(names)
    if rows.shape[1] != d * (lags + 1):
        what = f"Rows with {_count(lags, 'lag')} of {_count(d, 'variable')}"
        raise InputError(f"{what} must have {d * (lags + 1)} columns; got {rows.shape[1]}.")
    said = {"method": "integrated", **said}
    found = attribute(surface, rows, baseline_rows, said["method"])
    by_lag = found.values.reshape(len(rows), lags + 1, d)
    ends = found.score, np.atleast_2d(baseline_rows), found.baseline_score
    return Contributions(tuple(map(str, names)), by_lag, *ends, **said)


def baseline_rows(
    baseline: Any, rows: FloatArray, *, centre: FloatArray, known: FloatArray, prepare: Callable[[Any], FloatArray]
) -> tuple[FloatArray, str]:
    """Return baselines in the space of the model, one or as many as rows, and what they are called.

    Parameters
    ----------
    baseline : "mean", "nearest", or an array or data frame in the units of the data: (d,) for all rows, or one row for
        each.
    rows, centre, known : (m, D), (D,), (n, D); rows, the mean of the fit and normal rows of it, as the model sees them.
    prepare : takes rows in the units of the data to that form.
    """
    if isinstance(baseline, str):
        if baseline == "mean":
            return np.atleast_2d(np.asarray(centre, dtype=np.float64)), "the mean training row"
        if baseline == "nearest":
            # around the centre, as an offset would eat the digits of the distances
            nearest = pairwise_distances_argmin(rows - centre, known - centre)
            return np.asarray(known[nearest], dtype=np.float64), "the nearest training row"
        raise InputError(f"baseline must be 'mean', 'nearest' or an array; got {baseline!r}.")
    given = baseline.to_frame().T if is_labelled_row(baseline) else baseline
    given = given if is_frame(given) else np.asarray(given)  # names of columns are compared with those of the fit
    if len(given.shape) not in (1, 2) or (len(given.shape) == 2 and len(given) not in (1, len(rows))):
        raise InputError(f"A baseline must be one row or one for each of {len(rows)} rows; got shape {given.shape}.")
    made = np.asarray(prepare(given if is_frame(given) else np.atleast_2d(given)), dtype=np.float64)
    if not np.isfinite(made).all():
        raise InputError("A baseline must be finite; got NaN or infinity: fill in what is missing.")
    return made, "the baseline given"


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


@dataclass(frozen=True, eq=False)
class Causes:
    """Variables in the order of their share of the alarm, largest first; `print` shows a table.

    Attributes
    ----------
    names : of all variables, in that order.
    share : (d,), mean over the rows of the window of the contribution over the sum of the sizes of all contributions
        to that row. Every row counts the same: in the mean contribution the rows farthest out would decide alone.
    mean : (d,), mean contribution.
    top_share : (d,), share of the rows in which the variable is among the three that contribute most.
    n_rows : rows of the window.
    statistic : what the contributions are to.
    """

    names: tuple[str, ...]
    share: FloatArray
    mean: FloatArray
    top_share: FloatArray
    n_rows: int
    statistic: str

    def __len__(self) -> int:
        return len(self.names)

    def top(self, n: int = 3) -> list[str]:
        """Return the names of the first n."""
        return list(self.names[: whole_number("n", n, 1)])

    def rank(self, name: str) -> int:
        """Return the place of a variable; the first is 1."""
        if name not in self.names:
            raise InputError(f"There is no variable {name!r} among the {len(self.names)} of this ranking.")
        return self.names.index(name) + 1

    def to_pandas(self) -> Any:
        """Return a data frame with a row for each variable."""
        columns = {"variable": list(self.names), "share": self.share, "mean": self.mean, "top_share": self.top_share}
        return data_frame(columns, index=range(1, len(self.names) + 1), index_name="rank")

    def __str__(self) -> str:
        cells = [
            [f"{i + 1}", f"{self.share[i]:.1%}", f"{self.mean[i]:+.4g}", f"{self.top_share[i]:.0%}", self.names[i]]
            for i in range(min(_SHOWN, len(self.names)))
        ]
        titles = ["rank", "share", "mean contribution", f"rows in top {_AMONG}", "variable"]
        lines = text_table(titles, cells, left=(4,))
        left = len(self.names) - len(cells)
        return "\n".join([*lines, f"and {left} more variables"] if left else lines)


def root_causes(contributions: Contributions, rows: Any = None) -> Causes:
    """Return the variables ranked by their mean share of the contributions to some rows; None is all rows."""
    some = contributions if rows is None else contributions[rows]
    values = some.values
    if not len(values):
        raise InputError("A ranking of causes needs at least one row; got a window without any.")
    if not np.isfinite(values).all():
        raise InputError("A ranking of causes needs finite contributions: leave rows out whose gap is NaN.")
    sizes = np.abs(values).sum(axis=1, keepdims=True)
    share = (values / np.where(sizes == 0, 1.0, sizes)).mean(axis=0)
    best = np.argsort(-values, axis=1, kind="stable")[:, :_AMONG]
    often = np.bincount(best.ravel(), minlength=values.shape[1]) / len(values)
    order = np.argsort(-share, kind="stable")
    names = tuple(some.names[j] for j in order)
    return Causes(names, share[order], values.mean(axis=0)[order], often[order], len(values), some.statistic)
