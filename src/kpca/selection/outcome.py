"""What comes of many trials: the best, or the simplest that is as good as far as one can tell, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kpca.estimators.kernel_pca import KernelPCA
from kpca.kernels import Linear
from kpca.selection.candidates import Candidate
from kpca.selection.criteria import Criterion
from kpca.selection.trials import KernelTrial

_SHOWN = 12  # entries of a table in print
RULES = ("one_se", "best")


@dataclass(frozen=True)
class Chosen:
    """A trial and a number of components, and why."""

    trial: KernelTrial
    place: int  # of the number of components among the counts of the trial
    best: KernelTrial  # the smallest loss of all
    best_place: int
    simpler: str  # what was preferred to the best for being as good and simpler; empty where the best was taken

    @property
    def count(self) -> int:
        return self.trial.counts[self.place]

    def scores(self, criterion: Criterion) -> tuple[float, float]:
        """Return the score of the choice, and that of the best."""
        places = ((self.trial, self.place), (self.best, self.best_place))
        score, top = (float(criterion.score(trial.means)[place]) for trial, place in places)
        return score, top


def choose(trials: Sequence[KernelTrial], rule: str) -> Chosen | None:
    """Return the choice among trials on the same rows, None if none of them has a loss.

    "best" is the smallest mean loss. "one_se" takes the fewest components with which some kernel comes within one
    standard error of it, the error of the difference row by row (or fold by fold); among the kernels that do, the
    linear one if it is there, else the one with the smallest loss.
    """
    table = np.array([trial.means for trial in trials]) if trials else np.empty((0, 0))  # shape: (trials, counts)
    if not np.isfinite(table).any():
        return None
    filled = np.where(np.isfinite(table), table, np.inf)
    first, best_place = (int(place) for place in np.unravel_index(int(filled.argmin()), filled.shape))
    best = trials[first]
    if rule == "best" or best.losses.shape[1] < 2:
        return Chosen(best, best_place, best, best_place, "")
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
    return Chosen(trials[taken], fewest, best, best_place, simpler)


def _as_good(trial: KernelTrial, place: int, best: KernelTrial, best_place: int) -> bool:
    """Return True if the loss is no larger than the best by more than a standard error of the difference."""
    if trial is best and place == best_place:
        return True
    gap = trial.losses[place] - best.losses[best_place] if trial.losses.shape[1] == best.losses.shape[1] else np.nan
    if not np.isfinite(gap).all():
        return False
    error = float(np.std(gap, ddof=1)) / np.sqrt(np.size(gap))
    return bool(np.mean(gap) <= error)


@dataclass(frozen=True)
class Tuning:
    """The outcome of a search: the model, what was tried, and why this one."""

    best_estimator: KernelPCA  # fitted to all rows, unless refit=False
    best_params: dict[str, Any]
    best_score: float
    reason: str
    criterion: str
    table: tuple[dict[str, Any], ...]  # one entry for every kernel and number of components tried, best first
    seconds: float
    complete: bool  # False where the budget was used up before all was tried on all rows
    trials: tuple[KernelTrial, ...] = field(repr=False, default=())

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return the table as plain data."""
        return [dict(entry) for entry in self.table]

    def __str__(self) -> str:
        lines = [self.reason, "", f"{'score':>8}  {'± s.e.':>7}  {'components':>10}  {'rows':>6}  {'s':>6}  kernel"]
        for entry in self.table[:_SHOWN]:
            error = "" if entry["standard_error"] is None else f"{entry['standard_error']:.4f}"
            lines.append(
                f"{entry['score']:8.4f}  {error:>7}  {entry['n_components']:>10}  {entry['rows']:>6}  "
                f"{entry['seconds']:6.2f}  {entry['label']}"
            )
        if len(self.table) > _SHOWN:
            lines.append(f"... and {len(self.table) - _SHOWN} more in .table")
        return "\n".join(lines)


def table_of(trials: Sequence[KernelTrial], criterion: Criterion) -> tuple[dict[str, Any], ...]:
    """Return an entry for every kernel and number of components that was tried, the best first."""
    entries = []
    for trial in trials:
        scores = criterion.score(trial.means)
        for place, count in enumerate(trial.counts):
            if not np.isfinite(trial.losses[place]).all():
                continue
            entry = {"label": trial.candidate.label, **trial.candidate.parameters, "n_components": count}
            error = trial.error(place)
            entry |= {"score": float(scores[place]), "standard_error": None if np.isnan(error) else error}
            entries.append({**entry, "rows": trial.rows, "seconds": trial.seconds})
    entries.sort(key=lambda entry: -entry["score"])
    return tuple(entries)


def reason_of(
    choice: Chosen, criterion: Criterion, trials: Sequence[KernelTrial], asked: Sequence[Candidate], complete: bool
) -> str:
    """Return why this kernel and this number of components were chosen, in words."""
    label, count = choice.trial.candidate.label, choice.count
    components = f"{count} component" + ("" if count == 1 else "s")
    score, top = choice.scores(criterion)
    kinds = len({trial.candidate.name for trial in trials})
    tried = f"{len(trials)} kernels" + (f" of {kinds} kinds" if kinds > 1 else "")
    text = f"{label} with {components}: {criterion.title} {score:.3f}"
    if choice.simpler:
        best = f"{choice.best.candidate.label} with {choice.best.counts[choice.best_place]}: {top:.3f}"
        text += f", within one standard error of the best of {tried} ({best}); {choice.simpler} was preferred."
    else:
        text += f", the best of {tried}." if len(trials) > 1 else ", the only one tried."
    if not criterion.comparable and kinds > 1:
        text += " Different kernels have different variances: compare this score within one kind of kernel only."
    if _at_edge(choice.trial.candidate, asked):
        text += " Its gamma is the largest that was tried: try a wider grid."
    failed = [trial for trial in trials if trial.failure]
    if failed:
        text += f" {len(failed)} could not be tried, the first because: {failed[0].failure}"
    if not complete:
        text += f" The time was up before all {len(asked)} had been tried on all rows."
    return text


def reason_of_none(trials: Sequence[KernelTrial], criterion: Criterion) -> str:
    """Return why there is nothing to choose."""
    failures = [trial.failure for trial in trials if trial.failure]
    if failures:
        return failures[0]
    if any(trial.components for trial in trials):
        return f"Criterion {criterion.name!r} must give a finite number for some kernel; it gave none on these rows."
    return "No kernel has a component of variance on these rows."


def _at_edge(chosen: Candidate, asked: Sequence[Candidate]) -> bool:
    """Return True if a bandwidth lies at the narrow end of its grid: a better one may lie beyond."""
    gamma = chosen.parameters.get("gamma")
    grid = [other.parameters.get("gamma") for other in asked if other.name == chosen.name]
    numbers = [one for one in (gamma, *grid) if isinstance(one, float)]
    return len(numbers) == len(grid) + 1 and len(set(grid)) >= 3 and gamma == max(numbers)
