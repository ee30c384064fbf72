"""What a search returns: the model, everything that was tried, and why this one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kpca.kernel_pca import KernelPCA
from kpca.selection.candidates import Candidate
from kpca.selection.choice import Choice
from kpca.selection.criteria import Criterion
from kpca.selection.trials import Trial

_SHOWN = 12


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
    trials: tuple[Trial, ...] = field(repr=False, default=())

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


def table_of(trials: Sequence[Trial], criterion: Criterion) -> tuple[dict[str, Any], ...]:
    """Return an entry for every kernel and number of components that was tried, the best first."""
    entries = []
    for trial in trials:
        scores = criterion.score(trial.means)
        for place, count in enumerate(trial.counts):
            losses = trial.losses[place]
            if not np.isfinite(losses).all():
                continue
            error = float(np.std(losses, ddof=1) / np.sqrt(losses.size)) if losses.size > 1 else None
            entries.append(
                {
                    "label": trial.candidate.label,
                    **trial.candidate.parameters,
                    "n_components": count,
                    "score": float(scores[place]),
                    "standard_error": error,
                    "rows": trial.rows,
                    "seconds": trial.seconds,
                }
            )
    entries.sort(key=lambda entry: -entry["score"])
    return tuple(entries)


def reason_of(
    choice: Choice, criterion: Criterion, trials: Sequence[Trial], asked: Sequence[Candidate], complete: bool
) -> str:
    """Return why this kernel and this number of components were chosen, in words."""
    label, count = choice.trial.candidate.label, choice.count
    components = f"{count} component" + ("" if count == 1 else "s")
    score = float(criterion.score(choice.trial.means)[choice.place])
    kinds = len({trial.candidate.name for trial in trials})
    tried = f"{len(trials)} kernels" + (f" of {kinds} kinds" if kinds > 1 else "")
    text = f"{label} with {components}: {criterion.title} {score:.3f}"
    if choice.simpler:
        best = choice.best
        top = float(criterion.score(best.means)[choice.best_place])
        text += (
            f", within one standard error of the best of {tried} ({best.candidate.label} with "
            f"{best.counts[choice.best_place]}: {top:.3f}); {choice.simpler} was preferred."
        )
    else:
        text += f", the best of {tried}." if len(trials) > 1 else ", the only one tried."
    if not criterion.comparable and kinds > 1:
        text += " Different kernels have different variances: compare this score within one kind of kernel only."
    edge = _at_edge(choice.trial.candidate, asked)
    if edge:
        text += f" Its gamma is the {edge} that was tried: try a wider grid."
    failed = [trial for trial in trials if trial.failure]
    if failed:
        text += f" {len(failed)} could not be tried, the first because: {failed[0].failure}"
    if not complete:
        text += f" The time was up before all {len(asked)} had been tried on all rows."
    return text


def reason_of_none(trials: Sequence[Trial], criterion: Criterion) -> str:
    """Return why there is nothing to choose."""
    failures = [trial.failure for trial in trials if trial.failure]
    if failures:
        return failures[0]
    if any(trial.components for trial in trials):
        return f"Criterion {criterion.name!r} must give a finite number for some kernel; it gave none on these rows."
    return "No kernel has a component of variance on these rows."


def _at_edge(chosen: Candidate, asked: Sequence[Candidate]) -> str:
    """Return which end of its grid a bandwidth lies at, where that may mean that a better one lies beyond."""
    gamma = chosen.parameters.get("gamma")
    grid = [other.parameters.get("gamma") for other in asked if other.name == chosen.name]
    if not isinstance(gamma, float) or len(set(map(repr, grid))) < 3 or not all(isinstance(one, float) for one in grid):
        return ""
    return "largest" if gamma == max(grid) else ""  # type: ignore[type-var]
