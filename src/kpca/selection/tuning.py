"""Choose kernel, bandwidth and number of components: try many, keep the time, fit the best to all rows, say why."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone

from kpca._base.config import thread_count
from kpca._base.errors import InputError
from kpca._base.progress import step_monitor
from kpca._base.validation import seed_of, whole_number
from kpca.data.sources import in_memory
from kpca.estimators.approximate import check_approximation
from kpca.estimators.cost import Request
from kpca.estimators.kernel_pca import KernelPCA
from kpca.estimators.plan import check_parameters, plan, time_words
from kpca.kernels import Linear
from kpca.preimage.back import check_preimage
from kpca.selection.candidates import Candidate, candidates
from kpca.selection.rows import FOLDS, Clock, TimeUp, component_counts, folds_of, parse_seconds, searched_rows
from kpca.selection.trials import Bench, Criterion, KernelTrial, check_criterion

BANDWIDTHS, MAX_ROWS = 15, 5000
# Residual of the fits that are compared: their losses differ by much more.
TOL = 1e-3
# A plan may be wrong by this factor.
_SAFETY = 1.5
# Rows of the first round, which a budget of time makes before all rows are used; a fit to that few needs no plan.
_FEW_ROWS = 600
# How the time of a trial grows with the rows, measured: distances are quadratic, much else is not.
_GROWTH = 1.5
# Kernels of the first round for which the second has time, at least, if rows are left out.
_SOME_OF_THE_BEST = 4
# Share of a budget that is kept for the last fit at most.
_LAST = 0.5
_SHOWN = 12  # entries of a table in print


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

    def as_good_as_best(trial: KernelTrial, place: int) -> bool:
        """Return True if the loss is no larger than the best by more than a standard error of the difference."""
        if trial is best and place == best_place:
            return True
        gap = trial.losses[place] - best.losses[best_place] if trial.losses.shape[1] == best.losses.shape[1] else np.nan
        if not np.isfinite(gap).all():
            return False
        return bool(np.mean(gap) <= float(np.std(gap, ddof=1)) / np.sqrt(np.size(gap)))

    as_good = np.array([[as_good_as_best(trial, place) for place in range(table.shape[1])] for trial in trials])
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
            if np.isfinite(trial.losses[place]).all():
                entry = {"label": trial.candidate.label, **trial.candidate.parameters, "n_components": count}
                error = trial.error(place)
                entry |= {"score": float(scores[place]), "standard_error": None if np.isnan(error) else error}
                entries.append({**entry, "rows": trial.rows, "seconds": trial.seconds})
    return tuple(sorted(entries, key=lambda entry: -entry["score"]))


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
    chosen = choice.trial.candidate
    grid = [other.parameters.get("gamma") for other in asked if other.name == chosen.name]
    numbers = [gamma for gamma in grid if isinstance(gamma, float)]
    if len(numbers) == len(grid) and len(set(grid)) >= 3 and chosen.parameters.get("gamma") == max(numbers):
        text += " Its gamma is the largest that was tried: try a wider grid."  # a better one may lie beyond
    failed = [trial for trial in trials if trial.failure]
    if failed:
        text += f" {len(failed)} could not be tried, the first because: {failed[0].failure}"
    if not complete:
        text += f" The time was up before all {len(asked)} had been tried on all rows."
    return text


def tune(
    X: Any,
    y: Any = None,
    *,
    kernels: Any = None,
    n_components: Any = None,
    criterion: Any = None,
    predictor: Any = None,
    bandwidths: int = BANDWIDTHS,
    cv: Any = FOLDS,
    budget: Any = None,
    rule: str = "one_se",
    estimator: KernelPCA | None = None,
    max_rows: int = MAX_ROWS,
    refit: bool = True,
    random_state: Any = 0,
) -> Tuning:
    """Find the kernel, its parameters and the number of components that suit the data.

    Every kernel is fitted to all folds but one and judged by the rows of that one, for all numbers of components at
    once. Fits of one kind of kernel share distances and start from each other, which makes them cheap.

    Parameters
    ----------
    X : rows of data: array, data frame, CSR matrix, or what `KernelPCA.fit` reads in chunks.
    y : classes, numbers, or None. With labels, kernels are judged by how well nearest neighbours among the scores
        predict them; without, by how well scores restore the rows themselves.
    kernels : names, kernels of `kpca.kernels`, or a dictionary from names to grids: a number of values, the values of
        gamma (of degree, for "poly"), or a dictionary of lists as `ParameterGrid` takes it. None tries "linear", "rbf",
        "poly" and "cosine".
    n_components : a number, a list of numbers to choose among, or None: 1 to 64.
    criterion : None, "reconstruction", "knn", "parallel", "variance", "gap", "stability", or a scorer of scikit-learn
        by name or as a function, which judges `predictor` fitted to the scores.
    predictor : a classifier or regressor for a scorer; None is k nearest neighbours.
    bandwidths : values of gamma tried for each kernel that has a bandwidth.
    cv : folds, a splitter of scikit-learn, or a list of pairs of row numbers.
    budget : seconds, or text such as "60s", in which to be done, the last fit included; what was not tried by then is
        left out, and `complete` says so. None takes as long as it takes.
    rule : "one_se" takes the fewest components, and the linear kernel before others, that are as good as the best
        within one standard error; "best" the best.
    estimator : a KernelPCA whose other parameters (approximation, preimage, center, ...) the result has.
    max_rows : of more rows than this a sample is used for the search; the result is fitted to all.
    refit : fit the result to X.
    random_state : of the sample and the folds; results repeat.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kpca import selection
    >>> X, y = load_iris(return_X_y=True)
    >>> found = selection.tune(X, kernels={"linear": None, "rbf": 10}, n_components=2)
    >>> found.best_params
    {'kernel': 'linear', 'n_components': 2}
    >>> round(found.best_score, 2)
    0.97
    """
    clock, seed = Clock(parse_seconds(budget)), seed_of(random_state)
    if rule not in ("one_se", "best"):
        raise InputError(f"rule must be 'one_se' or 'best'; got {rule!r}.")
    if estimator is not None and not isinstance(estimator, KernelPCA):
        raise InputError(f"estimator must be a kpca.KernelPCA; got {type(estimator).__name__}.")
    whole_number("bandwidths", bandwidths, 1)
    whole_number("max_rows", max_rows, 4)
    model = KernelPCA() if estimator is None else clone(estimator).set_params(kernel="linear", n_components=None)
    check_parameters(model)
    check_preimage(model.preimage)
    check_approximation(model.approximation, precomputed=False)
    rows, labels = searched_rows(X, y, max_rows, seed, cv)
    if refit and sparse.issparse(rows) and (model.preimage is not None or model.fit_inverse_transform):
        raise InputError("The inverse map needs dense rows; X is sparse: densify it, or do without the inverse map.")
    judged = check_criterion(criterion, labels, predictor)
    folds = folds_of(cv, rows.shape[0], labels, seed) if judged.held_out else []
    fewest = min((len(fit) for fit, _ in folds), default=rows.shape[0])
    counts = component_counts(n_components, max(1, fewest - 1))
    tried = candidates(kernels, rows, bandwidths, model.get_params(deep=False))
    reserve = 0.0
    if refit and clock.budget is not None:  # about what the fit to all rows will take for the costliest kind of kernel
        costly = next((one for one in tried if not isinstance(one.kernel, Linear)), tried[0])
        with suppress(InputError):  # of a kernel that does not take these rows, which its trial will say
            last = clone(model).set_params(**costly.parameters, n_components=max(counts))
            reserve = min(_LAST * clock.budget, _SAFETY * _seconds(last, X))
    threads = thread_count(model.n_jobs)
    request = Request(max(counts) + judged.beyond, TOL, center=bool(model.center), seed=seed, threads=threads)
    trials, complete = _tried(Bench(tried, rows, labels, folds, judged, counts, request), cv, clock, reserve)
    choice = choose(trials, rule)
    if choice is None:
        failures = [trial.failure for trial in trials if trial.failure]
        none = f"Criterion {judged.name!r} must give a finite number for some kernel; it gave none on these rows."
        if not any(trial.components for trial in trials):
            none = "No kernel has a component of variance on these rows."
        raise InputError(failures[0] if failures else none)
    params = {**choice.trial.candidate.parameters, "n_components": choice.count}
    best = clone(model).set_params(**params)
    reason = reason_of(choice, judged, trials, tried, complete)
    if refit:
        best, note = refitted(best, X, rows, clock)
        reason += note
    table, seconds = table_of(trials, judged), clock.elapsed
    return Tuning(best, params, choice.scores(judged)[0], reason, judged.name, table, seconds, complete, tuple(trials))


def _tried(bench: Bench, cv: Any, clock: Clock, reserve: float) -> tuple[list[KernelTrial], bool]:
    """Return the trials, all on the same rows, and whether they are all; those most worth it come first."""
    n = bench.X.shape[0]
    in_rounds = clock.budget is not None and n > _FEW_ROWS
    report = step_monitor(len(bench.candidates) * (2 if in_rounds else 1), "trial")
    a_round = partial(_round, clock=clock, reserve=reserve, report=report)
    if not in_rounds:
        return a_round(bench, bench.candidates)
    # all are tried on few rows: a bandwidth that is no good there is no good
    first, complete = a_round(bench.sampled(_FEW_ROWS, cv), bench.candidates)
    if not complete:
        return first, False
    order = sorted(first, key=lambda trial: np.nanmin(trial.means, initial=np.inf))
    # then on as many rows as leave time for some of the best
    one = max(order[0].seconds, 1e-3)
    growth = max(0.0, clock.left - reserve) / (_SOME_OF_THE_BEST * one)
    rows = min(n, int(_FEW_ROWS * growth ** (1 / _GROWTH)))
    if rows <= _FEW_ROWS:
        return first, False
    again, expected = [trial.candidate for trial in order], one * (rows / _FEW_ROWS) ** _GROWTH
    second, complete = a_round(bench.sampled(rows, cv), again, expected=expected, needed=False)
    if not any(np.isfinite(trial.means).any() for trial in second):
        return first, False
    return second, complete and rows == n


def _round(
    bench: Bench,
    order: Sequence[Candidate],
    *,
    clock: Clock,
    reserve: float,  # seconds to keep for the last fit
    report: Any,
    expected: float = 0.0,
    needed: bool = True,
) -> tuple[list[KernelTrial], bool]:
    """Try one after the other while there is time; the first in any case, if a result is needed."""
    trials: list[KernelTrial] = []

    def ready(place: int) -> None:
        longest = max((trial.seconds for trial in trials), default=expected)
        if (place or not needed) and clock.left - reserve < longest:
            raise TimeUp("There is no time for another trial.")

    def found(trial: KernelTrial) -> None:
        trials.append(trial)
        if report is not None:
            best = choose(trials, "best")
            with clock.asking:
                report(label=trial.candidate.label, score=None if best is None else best.scores(bench.criterion)[1])

    try:
        with clock.stopping(reserve, unless=lambda: needed and not trials):
            bench.try_(order, found, ready)
    except TimeUp:
        return trials, False
    return trials, True


def _seconds(model: KernelPCA, X: Any) -> float:
    """Return the seconds that a plan expects; 0 for rows whose number is not known."""
    if not in_memory(X):
        return 0.0
    by_shape = hasattr(X, "shape") and isinstance(model.kernel, str)  # a function may not take rows that are made up
    return float(plan(X.shape if by_shape else X, estimator=model).seconds)


def refitted(model: KernelPCA, X: Any, some: Any, clock: Clock) -> tuple[KernelPCA, str]:
    """Return the model fitted to X, and what there is to say about it; `some` are the rows of the search.

    Ways that take less are kept in reserve: one that takes longer than its plan is given up while there is time for
    the next.
    """
    if clock.budget is None or not in_memory(X):
        return model.fit(X), ""
    n, searched = len(X) if isinstance(X, list | tuple) else X.shape[0], some.shape[0]
    if n <= _FEW_ROWS:
        return model.fit(X), ""
    ways: list[tuple[KernelPCA, Any, str]] = [(model, X, "")]
    if model.approximation is None:
        quick = clone(model).set_params(approximation="nystroem")
        ways.append((quick, X, "landmarks stand for the kernel (approximation='nystroem')"))
    if searched < n:
        ways.append((model, some, f"the model is fitted to the {searched:,} rows of the search"))
    times = [_SAFETY * _seconds(one, rows) for one, rows, _ in ways]
    short = f" A fit to all {n:,} rows would have taken about {time_words(times[0] / _SAFETY)}"
    for place, (one, rows, what) in enumerate(ways):
        said = f"{short}, so {what}." if what else ""
        quicker = [seconds for seconds in times[place + 1 :] if seconds < times[place]]
        if not quicker:
            late = not what and times[place] > clock.left
            return one.fit(rows), f"{short}, and there is no quicker way." if late else said
        if times[place] <= clock.left:
            try:
                with clock.stopping(min(*quicker, 0.5 * clock.left)):
                    return one.fit(rows), said
            except TimeUp:
                pass  # the plan was wrong
    raise AssertionError("The last way is taken in any case.")
