"""Where a list of eigenvalues falls into large and small ones, by the profile likelihood of Zhu & Ghodsi (2006).

The first q values are taken for draws of one normal law and the others for draws of another, with means of their own
and one variance; the q under which the values are likeliest is the elbow:

    l(q) = -(p/2) log(2 pi s^2) - p'/2,   s^2 = (sum_{i<=q} (v_i - m_1)^2 + sum_{i>q} (v_i - m_2)^2) / p',  p' = p - 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kpca._base.config import memory_budget, require
from kpca._base.errors import Setting
from kpca.estimators.memory import DECIDED_BY_ROWS, MOST_DECIDED, deciding_rows, decision_bytes, fits_dense
from kpca.estimators.parallel_analysis import ParallelAnalysis, deflated_analysis, leading_values, parallel_analysis
from kpca.kernels import Kernel
from kpca.kernels.callables import PairwiseCallable

FloatArray = NDArray[Any]


def elbow(values: FloatArray) -> tuple[int, FloatArray]:
    """Return how many values stand above the elbow, and the log-likelihood of 1, 2, ... of them.  # shape: (p - 1,)

    Fewer than three values have no elbow: all of them are counted. Two groups of equal values fit exactly, and are
    infinitely likely.

    Examples
    --------
    >>> import numpy as np
    >>> elbow(np.array([9.0, 8.5, 8.0, 1.2, 1.1, 1.0, 0.9]))[0]
    3
    """
    v = np.sort(np.asarray(values, dtype=np.float64))[::-1]
    p = len(v)
    if p < 3:
        return p, np.zeros(max(p - 1, 0))
    q = np.arange(1, p)
    scale = float(np.abs(v).max()) or 1.0
    v = v / scale
    # sums of squared deviations from the mean of the first q and of the others
    head, head2 = np.cumsum(v)[:-1], np.cumsum(v**2)[:-1]
    tail, tail2 = v.sum() - head, (v**2).sum() - head2
    deviations = np.maximum(head2 - head**2 / q, 0.0) + np.maximum(tail2 - tail**2 / (p - q), 0.0)
    exact = deviations <= 1e-14 * (v**2).sum()
    with np.errstate(divide="ignore"):
        likelihood = -0.5 * p * np.log(2.0 * np.pi * deviations / (p - 2)) - 0.5 * (p - 2)
    likelihood[exact] = np.inf
    return int(np.argmax(likelihood)) + 1, likelihood


# -- n_components="auto": how many components a model gets that was not told, and why ---------------------------------

_PERMUTATIONS = 20
# Rows where each kernel value is a call of a Python function, some sixty matrices of them.
_ROWS_IN_PYTHON = 150
# An eigenvalue below this part of the largest is rounding.
_NO_VARIANCE = 1e-12


@dataclass(frozen=True)
class Choice:
    """A number of components and one sentence on how it was found."""

    count: int
    reason: str


def choose_count(
    kernel: Kernel, X: Any, weights: FloatArray | None, *, center: bool = True, seed: int = 0, threads: int = 1
) -> Choice:
    """Decide by parallel analysis on at most 600 rows, drawn in proportion to their weights."""
    most = DECIDED_BY_ROWS if sparse.issparse(X) else deciding_rows(*X.shape)
    if isinstance(kernel, PairwiseCallable):
        most = min(most, _ROWS_IN_PYTHON)
    X = drawn_rows(X, weights, most, seed)
    n, d = X.shape
    dense = not sparse.issparse(X) or fits_dense(n, d)
    require(
        decision_bytes(n, d if dense else 0, threads),
        memory_budget,
        ("or give ", Setting("n_components"), " as a number"),
    )
    if d == 1:
        choice = _by_elbow(leading_values(kernel, X, min(n - 1, MOST_DECIDED), center=True, threads=threads)[0])
        choice = Choice(choice.count, f"A single column has nothing to permute. {choice.reason}")
    else:
        found, null = analysis(kernel, X, MOST_DECIDED, seed=seed, threads=threads)
        choice = Choice(max(1, found.count), said(found, null, MOST_DECIDED))
    return with_mean(choice, centred=center)


def with_mean(choice: Choice, *, centred: bool) -> Choice:
    """Return one component more for a model that is not centred: the mean is a component of its own there."""
    if centred:
        return choice
    return Choice(choice.count + 1, f"{choice.reason} One more holds the mean, as center=False leaves it in.")


def analysis(
    kernel: Kernel, X: Any, most: int, *, permutations: int = _PERMUTATIONS, seed: int = 0, threads: int = 1
) -> tuple[ParallelAnalysis, str]:
    """Return deflated parallel analysis and what its null is; the plain one for sparse rows too long to be dense."""
    if sparse.issparse(X) and not fits_dense(*X.shape):
        plain = parallel_analysis(kernel, X, most, permutations=permutations, seed=seed, threads=threads)
        return plain, "the data with permuted columns"
    found = deflated_analysis(
        kernel, X, most, permutations=permutations, seed=seed, threads=threads, max_rows=X.shape[0]
    )
    return found, "rows with the structure of the components before and no more"


def said(found: ParallelAnalysis, null: str, most: int) -> str:
    """Return what parallel analysis has found in a sentence."""
    count = found.count
    if count == 0:
        first, limit = (found.values[0], found.null[0]) if len(found.values) else (0.0, 0.0)
        return (
            f"Parallel analysis found no component above chance: eigenvalue 1, {first:.4g}, has to exceed {limit:.4g} "
            "for that; one is kept."
        )
    last = f"eigenvalue {count}, {found.values[count - 1]:.4g}, is above {found.null[count - 1]:.4g}"
    if count < len(found.values):
        end = f"eigenvalue {count + 1}, {found.values[count]:.4g}, is not above {found.null[count]:.4g}"
    else:
        end = f"no more than {most} were looked at" if count == most else "there are no more"
    return f"Parallel analysis against {null}: {last}, and {end}."


def choose_from_values(values: FloatArray) -> Choice:
    """Decide by the elbow: a matrix that comes precomputed has no columns to permute."""
    choice = _by_elbow(values)
    return Choice(choice.count, f"A precomputed kernel has no columns to permute. {choice.reason}")


def _by_elbow(values: FloatArray) -> Choice:
    positive = values[values > _NO_VARIANCE * max(float(values.max(initial=0.0)), 0.0)]
    number = len(positive)
    if number < 3:
        return Choice(max(1, number), f"Of components with variance there are {number}, too few for a choice.")
    count, _ = elbow(positive)
    before, after = positive[count - 1], positive[count]
    return Choice(
        count,
        f"The likeliest elbow of the first {number} eigenvalues is after {count}: {before:.4g}, then {after:.4g}.",
    )


def drawn_rows(X: Any, weights: FloatArray | None, most: int, seed: int) -> Any:
    """Return at most so many rows, each drawn at most once, in their order, and those of large weight more often.

    Unequal weights w leave as many rows as the independent ones they are worth, (sum w)^2 / sum w^2.
    """
    n = X.shape[0]
    if weights is None:
        if n <= most:
            return X
        return X[np.sort(np.random.default_rng(seed).choice(n, most, replace=False))]
    worth = int(weights.sum() ** 2 / np.square(weights).sum() + 0.5)
    count = min(most, max(worth, 2), int(np.count_nonzero(weights)))
    if count == n:
        return X
    shares = weights / weights.sum()
    return X[np.sort(np.random.default_rng(seed).choice(n, count, replace=False, p=shares))]
