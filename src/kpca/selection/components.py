"""How many components: seven ways to ask, and an answer that says why."""

from __future__ import annotations

import difflib
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import accumulate, takewhile
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

from kpca import kernels
from kpca._base.config import thread_count
from kpca._base.errors import InputError, Setting
from kpca._base.linalg import FloatArray, mean_of_rows
from kpca._base.validation import check_data, check_precomputed, check_symmetric, whole_number
from kpca.data.sources import in_memory
from kpca.estimators.kernel_pca import KernelPCA
from kpca.estimators.n_components import Choice, analysis, elbow, leading_values, parallel_analysis, said, with_mean
from kpca.estimators.plan import kernel_of
from kpca.preimage import gcv
from kpca.preimage.learned import RidgeMap
from kpca.selection.rows import Indices, folds_of, searched_rows
from kpca.selection.stability import bootstrap_stability

# Components that are looked at where nobody says how many.
_MOST, _MOST_RESAMPLED, _MOST_VALUES = 50, 20, 100
# Rows that are looked at: a regression for each count and fold, or an eigenproblem for each draw, must stay short.
_ROWS = {"parallel": 600, "horn": 1000, "knn": 2000, "reconstruction": 500, "stability": 1000}
_THRESHOLDS = {"reconstruction": 0.9, "stability": 0.8}
# An eigenvalue below this part of the largest is rounding.
_NO_VARIANCE = 1e-10
# Residuals of models that are fitted to be compared: folds differ by far more.
_TOL = 1e-5
_FOLDS = 5


@dataclass(frozen=True)
class ComponentCount:
    """A number of components, and what it was chosen by."""

    count: int
    method: str
    reason: str  # one sentence, with the numbers
    curve: dict[str, FloatArray] = field(repr=False)  # "components": 1, 2, ..., and what was measured for each


@dataclass(frozen=True)
class _Question:
    """What a method needs to know, all of it checked."""

    model: KernelPCA
    X: Any  # for the methods in `_ROWS` at most `max_rows` finite rows in memory, with their labels
    y: NDArray[Any] | None
    most: int | None
    share: float  # that has to be reached
    cv: Any
    n_neighbors: int
    resamples: int
    permutations: int
    seed: int

    @property
    def threads(self) -> int:
        return thread_count(self.model.n_jobs)

    def part(self, rows: Indices, columns: Indices) -> Any:
        """Return some rows; of a kernel matrix, some of their columns."""
        return self.X[rows][:, columns] if _is_matrix(self.model) else self.X[rows]

    def limit(self, available: int, usual: int) -> int:
        """Return how many components to look at."""
        return max(1, min(self.most or usual, available))

    def fitted(self, X: Any, wanted: int | float, **others: Any) -> KernelPCA:
        """Return the model fitted to rows, with this number or share of components, without an inverse map."""
        asked: KernelPCA = clone(self.model)
        asked.set_params(n_components=wanted, preimage=None, fit_inverse_transform=False, **others)
        return asked.fit(X)


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
    model = _meant_model(estimator, parameters)
    most = None if max_components is None else whole_number("max_components", max_components, 1)
    threshold = _THRESHOLDS.get(method, 0.9) if threshold is None else threshold
    for name, share in (("fraction", fraction), ("threshold", threshold)):
        if isinstance(share, bool) or not isinstance(share, Real) or not 0.0 < float(share) < 1.0:
            raise InputError("must be a number between 0 and 1", param=name, value=share)
    max_rows = whole_number("max_rows", _ROWS.get(method, 2000) if max_rows is None else max_rows, 3)
    limits = {"n_neighbors": (n_neighbors, 1), "resamples": (resamples, 2), "permutations": (permutations, 2)}
    how = {name: whole_number(name, *limit) for name, limit in (limits | {"seed": (seed, 0)}).items()}
    if _is_matrix(model) and method in ("parallel", "horn", "reconstruction", "stability"):
        given, remedy = Setting("kernel", "precomputed"), "take 'elbow' or 'fraction'"
        raise InputError((f"method={method!r} must have rows of data; ", given, " has none"), remedy=remedy)
    if method in _ROWS:
        searched = _searched_matrix if _is_matrix(model) else searched_rows
        y = y if method == "knn" else None
        X, y = searched(X, y, max_rows, how["seed"], cv)
    share = float(fraction if method == "fraction" else threshold)
    return _METHODS[method](_Question(model, X, y, most, share, cv, **how))


def _is_matrix(model: KernelPCA) -> bool:
    """Return True if what the model is fitted to is a kernel matrix."""
    return isinstance(model.kernel, str) and model.kernel == "precomputed"


def _searched_matrix(K: Any, y: Any, max_rows: int, seed: int, cv: Any) -> tuple[Any, NDArray[Any] | None]:
    """Return a kernel matrix with labels, or that of a sample of its rows."""
    if not in_memory(K):
        raise InputError("A precomputed kernel matrix must lie in memory here; give an array.")
    K = check_data(KernelPCA(), K, reset=True)
    check_precomputed(K)
    check_symmetric(K, centred=True)
    numbers, labels = searched_rows(np.arange(K.shape[0])[:, None], y, max_rows, seed, cv)
    some = numbers[:, 0].astype(np.intp)
    return K[some][:, some], labels


def _meant_model(estimator: Any, parameters: dict[str, Any]) -> KernelPCA:
    """Return an unfitted model: a copy of the estimator, or one of these parameters of KernelPCA."""
    if estimator is None:
        known = KernelPCA().get_params(deep=False)
        spare = [name for name in parameters if name not in known or name == "n_components"]
        if spare:
            raise InputError(f"{spare[0]} is no parameter of a model whose n_components is asked for: leave it out.")
        return KernelPCA(**parameters)
    if parameters:
        name = next(iter(parameters))
        raise InputError(f"With estimator=, its own parameters are used; got {name} as well: leave it out.")
    if not isinstance(estimator, KernelPCA):
        raise InputError(f"estimator must be a KernelPCA; got {type(estimator).__name__}.")
    return estimator


def _counted(count: int, method: str, reason: str, **curve: Any) -> ComponentCount:
    arrays = {name: np.asarray(values, dtype=np.float64) for name, values in curve.items()}
    length = len(next(iter(arrays.values())))
    return ComponentCount(int(count), method, reason, {"components": np.arange(1.0, length + 1)} | arrays)


def _by_fraction(question: _Question) -> ComponentCount:
    share = question.share
    model = question.fitted(question.X, share if question.most is None else question.most)
    shares = np.cumsum(model.explained_variance_ratio_.astype(np.float64))
    enough = np.flatnonzero(shares >= share - 1e-9)
    if len(enough):
        count = int(enough[0]) + 1
        before = f"; {count - 1} explain {shares[count - 2]:.4g}" if count > 1 else ""
        reached = f"{shares[count - 1]:.4g} of the variance, at least the {share:.4g} asked for{before}"
    else:
        count = max(1, len(shares))
        reached = f"only {shares[-1] if len(shares) else 0.0:.4g}, of the {share:.4g} asked for"
    return _counted(count, "fraction", f"{count} explain {reached}.", share=shares)


def _by_elbow(question: _Question) -> ComponentCount:
    X, most = question.X, question.most or _MOST_VALUES
    if in_memory(X):
        most = question.limit(int(X.shape[0] if hasattr(X, "shape") else len(X)) - 1, _MOST_VALUES)
    values = question.fitted(X, most).eigenvalues_.astype(np.float64)
    positive = values[values > _NO_VARIANCE * values.max(initial=0.0)]
    if len(positive) < 3:
        reason = f"There are {len(positive)} components with variance, too few for an elbow."
        return _counted(max(1, len(positive)), "elbow", reason, eigenvalue=values, likelihood=np.zeros(len(values)))
    count, likelihood = elbow(positive)
    where = f"{count} of the {len(positive)} looked at: {positive[count - 1]:.4g}, then {positive[count]:.4g}"
    reason = f"The eigenvalues are likeliest to fall into two groups after {where}."
    padded = np.pad(likelihood, (0, len(values) - len(likelihood)), constant_values=np.nan)
    return _counted(count, "elbow", reason, eigenvalue=values, likelihood=padded)


def _by_parallel(question: _Question, method: str = "parallel") -> ComponentCount:
    X, model = question.X, question.model
    if X.shape[1] < 2:
        raise InputError("Parallel analysis must have at least 2 columns to permute; X has 1: take method='elbow'.")
    kernel, most = kernel_of(model, X, kernels.resolve_gamma(model.gamma, X)), question.limit(X.shape[0] - 1, _MOST)
    how: dict[str, Any] = {"permutations": question.permutations, "seed": question.seed, "threads": question.threads}
    if method == "horn":
        found = parallel_analysis(kernel, X, most, max_rows=X.shape[0], **how)
        null = "the data with permuted columns"
    else:
        found, null = analysis(kernel, X, most, **how)
    choice = with_mean(Choice(max(1, found.count), said(found, null, most)), centred=bool(model.center))
    return _counted(choice.count, method, choice.reason, eigenvalue=found.values, null=found.null)


def _by_stability(question: _Question) -> ComponentCount:
    X, model, asked = question.X, question.model, question.share
    kernel, centred = kernel_of(model, X, kernels.resolve_gamma(model.gamma, X)), bool(model.center)
    values = leading_values(kernel, X, X.shape[0], center=centred, threads=question.threads)[0]
    rank = int(np.count_nonzero(values > _NO_VARIANCE * max(float(values[0]), np.finfo(np.float64).tiny)))
    # all of the space stays whatever the rows, and of more than half of it what is left out is what stays
    most = question.limit(rank // 2, _MOST_RESAMPLED)
    how = {"resamples": question.resamples, "seed": question.seed, "threads": question.threads}
    found = bootstrap_stability(kernel, X, most, center=centred, max_rows=X.shape[0], **how)
    # with a mean squared cosine of s, no direction of j has less than 1 - j (1 - s)
    worst = np.maximum(1.0 - np.arange(1, len(found.subspaces) + 1) * (1.0 - found.subspaces), 0.0)
    stable = np.flatnonzero(worst >= asked)
    count = int(stable[-1]) + 1 if len(stable) else 1
    if len(stable):
        reached = f"no direction below {worst[count - 1]:.4g}, at least the {asked:.4g} asked for"
        reason = f"{count} is the largest number whose subspace stays when rows are drawn again: {reached}."
    else:
        nearest = f"that of {int(np.argmax(worst)) + 1} to {worst.max():.4g}"
        reason = f"No subspace stays to {asked:.4g} when rows are drawn again, {nearest}; one component is kept."
    return _counted(count, "stability", reason, subspace=found.subspaces, component=found.components, worst=worst)


def _judged(question: _Question, judge: Callable[..., list[float]]) -> tuple[list[int], FloatArray, FloatArray]:
    """Return numbers of components, the mean over folds of a measure of held-out rows for each, and its error.

    The model is fitted to all folds but one, as often as there are folds, and judged by the rows of that one.
    """
    n, measured = question.X.shape[0], []
    most = question.limit(n // 2, _MOST)  # a fold leaves at least half of the rows
    steps = accumulate(range(most), lambda count, _: count + 1 if count < 10 else math.ceil(1.25 * count), initial=1)
    counts = [*takewhile(lambda count: count < most, steps), most]
    folds = folds_of(min(_FOLDS, n) if question.cv is None else question.cv, n, question.y, question.seed)
    fewest = min(len(train) for train, _ in folds)
    if fewest < 2:
        raise InputError(f"Each fold must leave at least 2 rows to fit; X has {n}: take more folds, or more rows.")
    how = {"remove_zero_eig": False, "tol": float(question.model.tol) or _TOL}
    for train, test in folds:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # fewer rows than components, no variance: a fit to all rows will say it
            fitted = question.fitted(question.part(train, train), min(most, len(train)), **how)
        scores = [fitted.transform(question.part(some, train)) for some in (train, test)]
        measured.append(judge(fitted, counts, scores, (train, test), fewest))
    spread = np.std(measured, axis=0, ddof=1) if len(measured) > 1 else np.zeros(len(counts))
    return counts, np.mean(measured, axis=0), spread / np.sqrt(len(measured))


def _near_best(counts: list[int], means: FloatArray, errors: FloatArray) -> tuple[int, str]:
    """Return the place of the smallest count within one standard error of the best, and how they compare."""
    best = int(np.argmax(means))
    place = int(np.argmax(means >= means[best] - errors[best]))
    return place, f"against {means[best]:.4g} +- {errors[best]:.2g} with {counts[best]}"


def _by_neighbours(question: _Question) -> ComponentCount:
    """Judge by accuracy (or R^2) of the nearest neighbours by scores."""
    y = question.y
    if y is None:
        raise InputError("method='knn' must have y, a label or a number for each row; got None.")
    measure, kind = ("R^2", KNeighborsRegressor) if y.dtype.kind == "f" else ("accuracy", KNeighborsClassifier)

    def judge(_: KernelPCA, counts: list[int], scores: Any, fold: Any, fewest: int) -> list[float]:
        (known, new), (train, test), near = scores, fold, min(question.n_neighbors, fewest)
        return [kind(near).fit(known[:, :j], y[train]).score(new[:, :j], y[test]) for j in counts]

    counts, means, errors = _judged(question, judge)
    place, best = _near_best(counts, means, errors)
    found = f"{measure} {means[place]:.4g} with {counts[place]}, {best}"
    reason = f"The smallest number within one standard error of the best: {found}."
    return _counted(counts[place], "knn", reason, components=counts, score=means, error=errors)


def _by_reconstruction(question: _Question) -> ComponentCount:
    """Judge by the share of the held-out rows' variance that comes back from this many scores.

    The inverse map of the first j scores is linear for the linear kernel, and else a ridge regression whose bandwidth
    and penalty generalised cross-validation chooses on the training rows.
    """
    X, asked, threads = question.X, question.share, question.threads
    if sparse.issparse(X):
        raise InputError("method='reconstruction' must have dense rows to come back to; X is sparse: densify it.")

    def judge(fitted: KernelPCA, counts: list[int], scores: Any, fold: Any, _: int) -> list[float]:
        known, new = (part.astype(np.float64) for part in scores)
        mean = mean_of_rows(X[fold[0]])
        rows, truth = (X[some] - mean for some in fold)
        whole = float(np.square(truth).sum())
        back = []
        for j in counts:
            restored: FloatArray = np.zeros_like(truth)
            if hasattr(fitted, "components_"):
                restored = new[:, :j] @ fitted.components_[:j]
            elif found := gcv.fit(known[:, :j], rows, None, alpha=None, gamma=None, threads=threads):
                ridge = RidgeMap(kernels.RBF(gamma=found.gamma), known[:, :j], found.coefficients, np.zeros_like(mean))
                restored = ridge(new[:, :j], threads=threads)
            back.append(1.0 - float(np.square(truth - restored).sum()) / whole if whole > 0 else 1.0)
        return back

    counts, means, errors = _judged(question, judge)
    enough = np.flatnonzero(means >= asked)
    if len(enough):
        place = int(enough[0])
        before = f"; {counts[place - 1]} restore {means[place - 1]:.4g}" if place else ""
        restored = f"{means[place]:.4g} of the variance of held-out rows"
        reason = f"{counts[place]} restore {restored}, at least the {asked:.4g} asked for{before}."
    else:
        place, best = _near_best(counts, means, errors)
        near = f"{counts[place]} is the smallest within one standard error of the best: {means[place]:.4g}, {best}"
        reason = f"No number restores {asked:.4g} of the variance of held-out rows; {near}."
    return _counted(counts[place], "reconstruction", reason, components=counts, share=means, error=errors)


_METHODS: dict[str, Callable[[_Question], ComponentCount]] = {
    "parallel": _by_parallel,
    "horn": lambda question: _by_parallel(question, "horn"),
    "fraction": _by_fraction,
    "elbow": _by_elbow,
    "knn": _by_neighbours,
    "reconstruction": _by_reconstruction,
    "stability": _by_stability,
}
