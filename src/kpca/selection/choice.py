"""Which of many trials to take: the best, or the simplest that is as good as far as one can tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca.kernels import Linear
from kpca.selection.trials import Trial

FloatArray = NDArray[Any]
RULES = ("one_se", "best")


@dataclass(frozen=True)
class Choice:
    """A trial and a number of components, and why."""

    trial: Trial
    place: int  # of the number of components among the counts of the trial
    best: Trial  # the smallest loss of all
    best_place: int
    simpler: str  # what was preferred to the best for being as good and simpler; empty where the best was taken

    @property
    def count(self) -> int:
        """The number of components."""
        return self.trial.counts[self.place]


def choose(trials: Sequence[Trial], rule: str) -> Choice | None:
    """Return the choice among trials on the same rows, None if none of them has a loss.

    "best" is the smallest mean loss. "one_se" takes the fewest components with which some kernel comes within one
    standard error of it, the error of the difference row by row (or fold by fold); among the kernels that do, the
    linear one if it is there, else the one with the smallest loss.
    """
    table = np.array([trial.means for trial in trials]) if trials else np.empty((0, 0))  # shape: (trials, counts)
    if not np.isfinite(table).any():
        return None
    filled = np.where(np.isfinite(table), table, np.inf)
    first, place = np.unravel_index(int(filled.argmin()), filled.shape)
    best, best_place = trials[int(first)], int(place)
    if rule == "best" or best.losses.shape[1] < 2:
        return Choice(best, best_place, best, best_place, "")
    as_good = np.array([[_as_good(trial, j, best, best_place) for j in range(table.shape[1])] for trial in trials])
    fewest = int(np.argmax(as_good.any(axis=0)))
    among = [int(i) for i in np.flatnonzero(as_good[:, fewest])]
    linear = [i for i in among if isinstance(trials[i].candidate.kernel, Linear)]
    taken = linear[0] if linear else min(among, key=lambda i: filled[i, fewest])
    simpler = ""
    if linear and trials[taken] is not best:
        simpler = "the linear kernel"
    elif fewest != best_place:
        simpler = "fewer components"
    return Choice(trials[taken], fewest, best, best_place, simpler)


def _as_good(trial: Trial, place: int, best: Trial, best_place: int) -> bool:
    """Return True if the loss is no larger than the best by more than a standard error of the difference."""
    if trial is best and place == best_place:
        return True
    gap = trial.losses[place] - best.losses[best_place] if trial.losses.shape[1] == best.losses.shape[1] else np.nan
    if not np.isfinite(gap).all():
        return False
    error = float(np.std(gap, ddof=1)) / np.sqrt(np.size(gap))
    return bool(np.mean(gap) <= error)
