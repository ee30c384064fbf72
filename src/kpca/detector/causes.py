"""Which variables are behind an alarm: contributions over the rows of a window, ranked.

Contributions show where a fault is seen, which under feedback control changes with time: the first rows show what it
hits, later ones what the controllers do about it. A window of the first few dozen rows of an alarm shows both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca.detector.contributions import Contributions
from kpca.errors import InputError
from kpca.inputs import whole_number
from kpca.tables import data_frame, text_table

FloatArray = NDArray[Any]
_AMONG = 3  # how many variables count as a row's own
_SHOWN = 10


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
    """Return the variables ranked by their mean share of the contributions to some rows.

    Parameters
    ----------
    contributions : of the rows of a series.
    rows : which of them, a slice, numbers or a mask; None is all.
    """
    some = contributions if rows is None else contributions[rows]
    values = some.values
    if not len(values):
        raise InputError("A ranking of causes needs at least one row; got a window without any.")
    if not np.isfinite(values).all():
        raise InputError(
            "A ranking of causes needs finite contributions; some rows have others: leave rows out whose gap is NaN."
        )
    sizes = np.abs(values).sum(axis=1, keepdims=True)
    share = (values / np.where(sizes == 0, 1.0, sizes)).mean(axis=0)
    best = np.argsort(-values, axis=1, kind="stable")[:, :_AMONG]
    often = np.bincount(best.ravel(), minlength=values.shape[1]) / len(values)
    order = np.argsort(-share, kind="stable")
    names = tuple(some.names[j] for j in order)
    return Causes(names, share[order], values.mean(axis=0)[order], often[order], len(values), some.statistic)
