"""How many components: six ways to ask, and an answer that says why."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from kpca._base.config import thread_count
from kpca._base.errors import InputError
from kpca._base.validation import whole_number
from kpca.data.sources import in_memory
from kpca.estimators.kernel_pca import KernelPCA
from kpca.estimators.n_components import (
    Choice,
    ParallelAnalysis,
    analysis,
    elbow,
    leading_values,
    parallel_analysis,
    said,
    with_mean,
)
from kpca.selection.cross_validated import (
    checked_rows,
    counts_to_try,
    is_precomputed,
    kernel_of,
    meant_model,
    neighbour_curve,
    reconstruction_curve,
    share,
)
from kpca.selection.stability import bootstrap_stability

FloatArray = NDArray[Any]
# Components that are looked at where nobody says how many.
_MOST, _MOST_RESAMPLED, _MOST_VALUES = 50, 20, 100
# Rows that are looked at: a regression for each count and fold, or an eigenproblem for each draw, must stay short.
_ROWS = {"parallel": 600, "horn": 1000, "knn": 2000, "reconstruction": 500, "stability": 1000}
_THRESHOLDS = {"reconstruction": 0.9, "stability": 0.8}
# An eigenvalue below this part of the largest is rounding.
_NO_VARIANCE = 1e-10


@dataclass(frozen=True)
class ComponentCount:
    """A number of components, and what it was chosen by."""

    count: int
    method: str
    reason: str  # one sentence, with the numbers
    curve: dict[str, FloatArray] = field(repr=False)  # "components": 1, 2, ..., and what was measured for each


@dataclass(frozen=True)
class _Question:
    """What a method needs to know."""

    model: KernelPCA
    X: Any
    y: Any
    most: int | None
    fraction: float
    threshold: float
    cv: Any
    n_neighbors: int
    resamples: int
    permutations: int
    seed: int
    max_rows: int

    @property
    def square(self) -> bool:
        """True if X is a kernel matrix."""
        return is_precomputed(self.model)

    @property
    def threads(self) -> int:
        return thread_count(self.model.n_jobs)

    def rows(self) -> tuple[Any, Any]:
        """Return at most `max_rows` rows, and which they are (None: all)."""
        return checked_rows(self.X, self.max_rows, self.seed, square=self.square)

    def limit(self, available: int, usual: int) -> int:
        """Return how many components to look at."""
        return max(1, min(self.most or usual, available))


def n_components(
    X: Any,
    y: Any = None,
    *,
    method: str = "parallel",
    estimator: KernelPCA | None = None,
    max_components: int | None = None,
    fraction: float = 0.95,
    threshold: float | None = None,
    cv: Any = None,
    n_neighbors: int = 5,
    resamples: int = 20,
    permutations: int = 20,
    seed: int = 0,
    max_rows: int | None = None,
    **parameters: Any,
) -> ComponentCount:
    """Choose the number of components of kernel PCA, and say why.

    Parameters
    ----------
    X : rows of data as KernelPCA takes them, or the kernel matrix if kernel="precomputed" (for "fraction", "elbow" and
        "knn").
    y : labels for "knn", or numbers to predict (of which more than one in five rows has one of its own).
    method : how to choose:

        - "parallel": components above what chance gives. Each eigenvalue is compared with that of rows which have the
          structure of the components before it, and otherwise columns that know nothing of each other.
        - "horn": plain parallel analysis, each eigenvalue against that of the same number when all columns are
          permuted, above its 95 % quantile. It misses components that stronger ones overshadow.
        - "fraction": the smallest number that explains `fraction` of the variance in feature space.
        - "elbow": where the eigenvalues fall into large and small ones (profile likelihood of Zhu & Ghodsi 2006).
        - "knn": the smallest number whose scores predict y by nearest neighbours within one standard error of the best,
          over folds in each of which the model is fitted anew.
        - "reconstruction": the smallest number from whose scores held-out rows can be restored to `threshold` of their
          variance, or, where none is enough, within one standard error of the best.
        - "stability": the largest number, up to half of all, whose subspace stays when rows are drawn again: with s the
          mean squared cosine of the canonical angles, 1 - j (1 - s) is at least `threshold`.
    estimator : a KernelPCA, fitted or not, whose parameters are meant; or give its parameters here: kernel, gamma, ...
    max_components : the most that is looked at; None is 50 (20 for "stability", 100 for "elbow"; "fraction" takes what
        it needs).
    fraction, threshold : see above; the default threshold is 0.9 for "reconstruction", 0.8 for "stability".
    cv : number of folds (shuffled, stratified for labels) or a splitter of scikit-learn; None is 5 folds.
    n_neighbors : for "knn".
    resamples, permutations : of "stability", and of "parallel" and "horn".
    seed : of samples, folds and draws.
    max_rows : a sample of so many rows is looked at, where there are more; "fraction" and "elbow" fit the model to all.

    Examples
    --------
    >>> import numpy as np
    >>> from kpca import selection
    >>> random = np.random.default_rng(0)
    >>> X = 6.0 * random.standard_normal((4, 8))[np.arange(200) % 4] + random.standard_normal((200, 8))
    >>> found = selection.n_components(X, kernel="rbf", gamma="median")  # four clusters
    >>> found.count, found.method
    (3, 'parallel')
    """
    if method not in _METHODS:
        close = difflib.get_close_matches(str(method), list(_METHODS), n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise InputError(f"method must be one of {', '.join(map(repr, _METHODS))}; got {method!r}.{hint}")
    question = _Question(
        model=meant_model(estimator, parameters),
        X=X,
        y=y,
        most=None if max_components is None else whole_number("max_components", max_components, 1),
        fraction=share("fraction", fraction),
        threshold=share("threshold", _THRESHOLDS.get(method, 0.9) if threshold is None else threshold),
        cv=cv,
        n_neighbors=whole_number("n_neighbors", n_neighbors, 1),
        resamples=whole_number("resamples", resamples, 2),
        permutations=whole_number("permutations", permutations, 2),
        seed=whole_number("seed", seed, 0),
        max_rows=whole_number("max_rows", _ROWS.get(method, 2000) if max_rows is None else max_rows, 3),
    )
    if question.square and method in ("parallel", "horn", "reconstruction", "stability"):
        raise InputError(
            f"method={method!r} must have rows of data; kernel='precomputed' has none: take 'elbow' or 'fraction'."
        )
    return _METHODS[method](question)


def _counted(count: int, method: str, reason: str, **curve: Any) -> ComponentCount:
    arrays = {name: np.asarray(values, dtype=np.float64) for name, values in curve.items()}
    length = len(next(iter(arrays.values())))
    counts = {} if "components" in arrays else {"components": np.arange(1.0, length + 1)}
    return ComponentCount(int(count), method, reason, counts | arrays)


def _by_fraction(question: _Question) -> ComponentCount:
    wanted = question.fraction if question.most is None else question.most
    model = _fitted(question, wanted)
    shares = np.cumsum(model.explained_variance_ratio_.astype(np.float64))
    count = int(np.argmax(shares >= question.fraction - 1e-9)) + 1
    if not len(shares) or shares[-1] < question.fraction - 1e-9:
        count = max(1, len(shares))
        reached = f"only {shares[-1] if len(shares) else 0.0:.4g}, of the {question.fraction:.4g} asked for"
    else:
        before = f"; {count - 1} explain {shares[count - 2]:.4g}" if count > 1 else ""
        reached = f"{shares[count - 1]:.4g} of the variance, at least the {question.fraction:.4g} asked for{before}"
    return _counted(count, "fraction", f"{count} explain {reached}.", share=shares)


def _by_elbow(question: _Question) -> ComponentCount:
    usual = _MOST_VALUES if question.most is None else question.most
    available = usual
    if in_memory(question.X):
        rows = question.X.shape[0] if hasattr(question.X, "shape") else len(question.X)
        available = max(1, int(rows) - 1)
    model = _fitted(question, min(usual, available))
    values = model.eigenvalues_.astype(np.float64)
    positive = values[values > _NO_VARIANCE * max(float(values.max(initial=0.0)), 0.0)]
    if len(positive) < 3:
        reason = f"There are {len(positive)} components with variance, too few for an elbow."
        return _counted(max(1, len(positive)), "elbow", reason, eigenvalue=values, likelihood=np.zeros(len(values)))
    count, likelihood = elbow(positive)
    reason = (
        f"The eigenvalues are likeliest to fall into two groups after {count} of the {len(positive)} looked at: "
        f"{positive[count - 1]:.4g}, then {positive[count]:.4g}."
    )
    padded = np.full(len(values), np.nan)
    padded[: len(likelihood)] = likelihood
    return _counted(count, "elbow", reason, eigenvalue=values, likelihood=padded)


def _by_parallel(question: _Question) -> ComponentCount:
    X, most = _columns(question)
    found, null = analysis(
        kernel_of(question.model, X),
        X,
        most,
        permutations=question.permutations,
        seed=question.seed,
        threads=question.threads,
    )
    return _above(question, found, said(found, null, most), "parallel")


def _by_horn(question: _Question) -> ComponentCount:
    X, most = _columns(question)
    found = parallel_analysis(
        kernel_of(question.model, X),
        X,
        most,
        permutations=question.permutations,
        seed=question.seed,
        threads=question.threads,
        max_rows=X.shape[0],
    )
    return _above(question, found, said(found, "the data with permuted columns", most), "horn")


def _columns(question: _Question) -> tuple[Any, int]:
    """Return rows with columns to permute, and how many components to look at."""
    X, _ = question.rows()
    if X.shape[1] < 2:
        raise InputError("Parallel analysis must have at least 2 columns to permute; X has 1: take method='elbow'.")
    return X, question.limit(X.shape[0] - 1, _MOST)


def _above(question: _Question, found: ParallelAnalysis, reason: str, method: str) -> ComponentCount:
    choice = with_mean(Choice(max(1, found.count), reason), centred=bool(question.model.center))
    return _counted(choice.count, method, choice.reason, eigenvalue=found.values, null=found.null)


def _by_neighbours(question: _Question) -> ComponentCount:
    X, some = question.rows()
    if not in_memory(question.X):
        raise InputError("method='knn' must have rows in memory, beside their labels; got a file or chunks.")
    y = question.y if question.y is None or some is None else np.asarray(question.y)[some]
    # a fold leaves at least half of the rows
    counts = counts_to_try(question.limit(X.shape[0] // 2, _MOST))
    curve, measure = neighbour_curve(
        question.model,
        X,
        y,
        counts,
        cv=question.cv,
        n_neighbors=question.n_neighbors,
        seed=question.seed,
        square=question.square,
    )
    place, best = curve.smallest_within_one_error(), int(np.argmax(curve.means))
    reason = (
        f"The smallest number within one standard error of the best: {measure} {curve.means[place]:.4g} with "
        f"{curve.counts[place]}, against {curve.means[best]:.4g} +- {curve.errors[best]:.2g} with {curve.counts[best]}."
    )
    return _counted(
        int(curve.counts[place]), "knn", reason, components=curve.counts, score=curve.means, error=curve.errors
    )


def _by_reconstruction(question: _Question) -> ComponentCount:
    X, _ = question.rows()
    counts = counts_to_try(question.limit(X.shape[0] // 2, _MOST))
    curve = reconstruction_curve(question.model, X, counts, cv=question.cv, seed=question.seed)
    enough = curve.means >= question.threshold
    if enough.any():
        place = int(np.argmax(enough))
        before = f"; {curve.counts[place - 1]} restore {curve.means[place - 1]:.4g}" if place else ""
        reason = (
            f"{curve.counts[place]} restore {curve.means[place]:.4g} of the variance of held-out rows, at least the "
            f"{question.threshold:.4g} asked for{before}."
        )
    else:
        place, best = curve.smallest_within_one_error(), int(np.argmax(curve.means))
        reason = (
            f"No number restores {question.threshold:.4g} of the variance of held-out rows; {curve.counts[place]} is "
            f"the smallest within one standard error of the best: {curve.means[place]:.4g}, against "
            f"{curve.means[best]:.4g} +- {curve.errors[best]:.2g} with {curve.counts[best]}."
        )
    return _counted(
        int(curve.counts[place]),
        "reconstruction",
        reason,
        components=curve.counts,
        share=curve.means,
        error=curve.errors,
    )


def _by_stability(question: _Question) -> ComponentCount:
    X, _ = question.rows()
    kernel = kernel_of(question.model, X)
    centred = bool(question.model.center)
    values = leading_values(kernel, X, X.shape[0], center=centred, threads=question.threads)[0]
    rank = int(np.count_nonzero(values > _NO_VARIANCE * max(float(values[0]), np.finfo(np.float64).tiny)))
    # all of the space stays whatever the rows, and of more than half of it what is left out is what stays
    most = question.limit(rank // 2, _MOST_RESAMPLED)
    found = bootstrap_stability(
        kernel,
        X,
        most,
        center=centred,
        resamples=question.resamples,
        seed=question.seed,
        threads=question.threads,
        max_rows=X.shape[0],
    )
    # with a mean squared cosine of s, no direction of j has less than 1 - j (1 - s)
    worst = np.maximum(1.0 - np.arange(1, len(found.subspaces) + 1) * (1.0 - found.subspaces), 0.0)
    stable = np.flatnonzero(worst >= question.threshold)
    if len(stable):
        count = int(stable[-1]) + 1
        reason = (
            f"{count} is the largest number whose subspace stays when rows are drawn again: no direction below "
            f"{worst[count - 1]:.4g}, at least the {question.threshold:.4g} asked for."
        )
    else:
        count = 1
        reason = (
            f"No subspace stays to {question.threshold:.4g} when rows are drawn again, that of "
            f"{int(np.argmax(worst)) + 1} to {worst.max():.4g}; one component is kept."
        )
    return _counted(count, "stability", reason, subspace=found.subspaces, component=found.components, worst=worst)


def _fitted(question: _Question, wanted: int | float) -> KernelPCA:
    """Return the model fitted to all rows, with this number or share, without a way back."""
    model: KernelPCA = clone(question.model)
    model.set_params(n_components=wanted, preimage=None, fit_inverse_transform=False)
    return model.fit(question.X)


_METHODS: dict[str, Callable[[_Question], ComponentCount]] = {
    "parallel": _by_parallel,
    "horn": _by_horn,
    "fraction": _by_fraction,
    "elbow": _by_elbow,
    "knn": _by_neighbours,
    "reconstruction": _by_reconstruction,
    "stability": _by_stability,
}
