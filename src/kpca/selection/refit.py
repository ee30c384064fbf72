"""The last fit of a search, to all rows: exact where there is time for it, else with landmarks, and then it says so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sklearn.base import clone

from kpca.chunks import in_memory
from kpca.errors import Cancelled
from kpca.kernel_pca import KernelPCA
from kpca.kernels import Linear
from kpca.planning import plan
from kpca.planning.result import time_words
from kpca.selection.candidates import Candidate
from kpca.selection.clock import Clock

# A plan may be wrong by so much.
_SAFETY = 1.5


def seconds_to_refit(estimator: KernelPCA, candidates: Sequence[Candidate], count: int, X: Any) -> float:
    """Return about how long the fit to all rows of X will take, for the costliest kind of candidate."""
    costly = next((one for one in candidates if not isinstance(one.kernel, Linear)), candidates[0])
    model = clone(estimator).set_params(**costly.parameters, n_components=count)
    return _SAFETY * _seconds(model, X)


def _seconds(model: KernelPCA, X: Any) -> float:
    """Return the seconds that a plan expects; 0 for rows whose number is not known."""
    if not in_memory(X):
        return 0.0
    return float(plan(X.shape if hasattr(X, "shape") else X, estimator=model).seconds)


def refitted(model: KernelPCA, X: Any, some: Any, clock: Clock) -> tuple[KernelPCA, str]:
    """Return the model fitted to X, and what there is to say about it; `some` are the rows of the search."""
    if clock.budget is None or not in_memory(X):
        return model.fit(X), ""
    exact = (model.approximation is None and not isinstance(model.kernel, str | None)) or model.kernel != "linear"
    expected = _seconds(model, X)
    if _SAFETY * expected <= clock.left or X.shape[0] == some.shape[0]:
        try:
            with clock.stopping(0.0 if exact and X.shape[0] > some.shape[0] else float("-inf")):
                return model.fit(X), ""
        except Cancelled:
            if clock.left > 0:
                raise
    short = f" A fit to all {X.shape[0]:,} rows would have taken about {time_words(expected)}"
    if model.approximation is None:
        quick = clone(model).set_params(approximation="nystroem")
        if _SAFETY * _seconds(quick, X) <= clock.left:
            return quick.fit(X), f"{short}, so landmarks stand for the kernel (approximation='nystroem')."
    return model.fit(some), f"{short}, so the model is fitted to the {some.shape[0]:,} rows of the search."
