"""The last fit of a search, to all rows: exact where there is time for it, else with landmarks, and then it says so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sklearn.base import clone

from kpca.chunks import in_memory
from kpca.errors import InputError
from kpca.kernel_pca import KernelPCA
from kpca.kernels import Linear
from kpca.planning import plan
from kpca.planning.result import time_words
from kpca.selection.candidates import Candidate
from kpca.selection.clock import Clock, TimeUp

# A plan may be wrong by so much.
_SAFETY = 1.5
# Rows whose fit is worth no plan.
_FEW_ROWS = 600


def seconds_to_refit(estimator: KernelPCA, candidates: Sequence[Candidate], count: int, X: Any) -> float:
    """Return about how long the fit to all rows of X will take, for the costliest kind of candidate."""
    costly = next((one for one in candidates if not isinstance(one.kernel, Linear)), candidates[0])
    model = clone(estimator).set_params(**costly.parameters, n_components=count)
    try:
        return _SAFETY * _seconds(model, X)
    except InputError:  # of a kernel that does not take these rows, which its trial will say
        return 0.0


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
