"""How many components: seven ways to ask, and an answer that says why."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

from kpca import kernels
from kpca._base.config import thread_count
from kpca._base.errors import InputError, Setting
from kpca._base.linalg import FloatArray, mean_of_rows
from kpca._base.validation import check_data, check_precomputed, check_rows, check_symmetric, whole_number
from kpca.data.sources import as_source, in_memory, sample_rows
from kpca.estimators.kernel_pca import KernelPCA
from kpca.estimators.n_components import Choice, analysis, elbow, leading_values, parallel_analysis, said, with_mean
from kpca.estimators.plan import kernel_of
from kpca.preimage import gcv
from kpca.preimage.learned import RidgeMap
from kpca.selection.rows import Indices, check_labels, folds_of, row_sample
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
        return isinstance(self.model.kernel, str) and self.model.kernel == "precomputed"

    @property
    def threads(self) -> int:
        return thread_count(self.model.n_jobs)

    def rows(self) -> tuple[Any, Indices | None]:
        """Return at most `max_rows` finite rows in memory, and which they are; None is all, or unknown for a stream."""
        if not in_memory(self.X):
            if self.square:
                raise InputError("A precomputed kernel matrix must lie in memory here; give an array.")
            return sample_rows(as_source(self.X), self.max_rows, self.seed), None
        X = check_data(KernelPCA(), self.X, reset=True)
        check_rows(X.shape[0])
        if self.square:
            check_precomputed(X)
            check_symmetric(X, centred=True)
        some = row_sample(X.shape[0], self.max_rows, self.seed)
        return (X if some is None else self.part(X, some, some)), some

    def part(self, X: Any, rows: Indices, columns: Indices) -> Any:
        """Return some rows; of a kernel matrix, some of their columns."""
        return X[rows][:, columns] if self.square else X[rows]

    def kernel(self, X: Any) -> kernels.Kernel:
        """Return the kernel of the model for these rows."""
        return kernel_of(self.model, X, kernels.resolve_gamma(self.model.gamma, X))

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
        model=_meant_model(estimator, parameters),
        X=X,
        y=y,
        most=None if max_components is None else whole_number("max_components", max_components, 1),
        fraction=_share("fraction", fraction),
        threshold=_share("threshold", _THRESHOLDS.get(method, 0.9) if threshold is None else threshold),
        cv=cv,
        n_neighbors=whole_number("n_neighbors", n_neighbors, 1),
        resamples=whole_number("resamples", resamples, 2),
        permutations=whole_number("permutations", permutations, 2),
        seed=whole_number("seed", seed, 0),
        max_rows=whole_number("max_rows", _ROWS.get(method, 2000) if max_rows is None else max_rows, 3),
    )
    if question.square and method in ("parallel", "horn", "reconstruction", "stability"):
        given, remedy = Setting("kernel", "precomputed"), "take 'elbow' or 'fraction'"
        raise InputError((f"method={method!r} must have rows of data; ", given, " has none"), remedy=remedy)
    return _METHODS[method](question)


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
    model: KernelPCA = clone(estimator)
    return model


def _share(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0.0 < float(value) < 1.0:
        raise InputError("must be a number between 0 and 1", param=name, value=value)
    return float(value)


def _counted(count: int, method: str, reason: str, **curve: Any) -> ComponentCount:
    arrays = {name: np.asarray(values, dtype=np.float64) for name, values in curve.items()}
    length = len(next(iter(arrays.values())))
    return ComponentCount(int(count), method, reason, {"components": np.arange(1.0, length + 1)} | arrays)


def _fitted(model: KernelPCA, X: Any, wanted: int | float, **others: Any) -> KernelPCA:
    """Return the model fitted to rows, with this number or share of components, without an inverse map."""
    asked: KernelPCA = clone(model)
    asked.set_params(n_components=wanted, preimage=None, fit_inverse_transform=False, **others)
    return asked.fit(X)


def _by_fraction(question: _Question) -> ComponentCount:
    wanted = question.fraction if question.most is None else question.most
    model = _fitted(question.model, question.X, wanted)
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
    usual = available = question.most or _MOST_VALUES
    if in_memory(question.X):
        rows = question.X.shape[0] if hasattr(question.X, "shape") else len(question.X)
        available = max(1, int(rows) - 1)
    model = _fitted(question.model, question.X, min(usual, available))
    values = model.eigenvalues_.astype(np.float64)
    positive = values[values > _NO_VARIANCE * max(float(values.max(initial=0.0)), 0.0)]
    if len(positive) < 3:
        reason = f"There are {len(positive)} components with variance, too few for an elbow."
        return _counted(max(1, len(positive)), "elbow", reason, eigenvalue=values, likelihood=np.zeros(len(values)))
    count, likelihood = elbow(positive)
    where = f"{count} of the {len(positive)} looked at: {positive[count - 1]:.4g}, then {positive[count]:.4g}"
    reason = f"The eigenvalues are likeliest to fall into two groups after {where}."
    padded = np.pad(likelihood, (0, len(values) - len(likelihood)), constant_values=np.nan)
    return _counted(count, "elbow", reason, eigenvalue=values, likelihood=padded)


def _by_parallel(question: _Question, method: str = "parallel") -> ComponentCount:
    X, _ = question.rows()
    if X.shape[1] < 2:
        raise InputError("Parallel analysis must have at least 2 columns to permute; X has 1: take method='elbow'.")
    kernel, most = question.kernel(X), question.limit(X.shape[0] - 1, _MOST)
    how: dict[str, Any] = {"permutations": question.permutations, "seed": question.seed, "threads": question.threads}
    if method == "horn":
        found = parallel_analysis(kernel, X, most, max_rows=X.shape[0], **how)
        null = "the data with permuted columns"
    else:
        found, null = analysis(kernel, X, most, **how)
    choice = with_mean(Choice(max(1, found.count), said(found, null, most)), centred=bool(question.model.center))
    return _counted(choice.count, method, choice.reason, eigenvalue=found.values, null=found.null)


@dataclass(frozen=True)
class _Curve:
    """A measure of held-out rows for some numbers of components: its mean over folds, and the error of that."""

    counts: list[int]
    means: FloatArray  # shape: (q,)
    errors: FloatArray  # standard errors, shape: (q,)

    @staticmethod
    def of(question: _Question, X: Any, y: Any, judge: Callable[..., list[float]]) -> _Curve:
        """Fit the model to all folds but one, as often as there are folds, and judge by the rows of that one."""
        n, measured = X.shape[0], []
        counts = _counts_to_try(question.limit(n // 2, _MOST))  # a fold leaves at least half of the rows
        folds = folds_of(max(2, min(_FOLDS, n)) if question.cv is None else question.cv, n, y, question.seed)
        fewest, tol = min(len(train) for train, _ in folds), float(question.model.tol) or _TOL
        if fewest < 2:
            raise InputError(f"Each fold must leave at least 2 rows to fit; X has {n}: take more folds, or more rows.")
        for train, test in folds:
            rows = question.part(X, train, train)
            with warnings.catch_warnings():
                # fewer rows than components, no variance: a fit to all rows will say it
                warnings.simplefilter("ignore")
                most = min(max(counts), rows.shape[0])
                fitted = _fitted(question.model, rows, most, remove_zero_eig=False, tol=tol)
            known, new = (fitted.transform(question.part(X, some, train)) for some in (train, test))
            measured.append(judge(fitted, counts, (known, new), (train, test), fewest))
        spread = np.std(measured, axis=0, ddof=1) if len(measured) > 1 else np.zeros(len(counts))
        return _Curve(counts, np.mean(measured, axis=0), spread / np.sqrt(len(measured)))

    def near_best(self) -> tuple[int, str]:
        """Return the place of the smallest count within one standard error of the best, and how they compare."""
        best = int(np.argmax(self.means))
        place = int(np.argmax(self.means >= self.means[best] - self.errors[best]))
        return place, f"against {self.means[best]:.4g} +- {self.errors[best]:.2g} with {self.counts[best]}"

    def counted(self, place: int, method: str, reason: str, measure: str) -> ComponentCount:
        curve = {"components": self.counts, measure: self.means, "error": self.errors}
        return _counted(self.counts[place], method, reason, **curve)


def _counts_to_try(most: int) -> list[int]:
    """Return 1, 2, ... 10, then steps of a quarter, up to `most`, which is the last."""
    counts = [1]
    while counts[-1] < most:
        counts.append(counts[-1] + 1 if counts[-1] < 10 else int(np.ceil(1.25 * counts[-1])))
    return [*counts[:-1], most]


def _by_neighbours(question: _Question) -> ComponentCount:
    """Judge by accuracy (or R^2) of the nearest neighbours by scores."""
    X, some = question.rows()
    if not in_memory(question.X):
        raise InputError("method='knn' must have rows in memory, beside their labels; got a file or chunks.")
    if question.y is None:
        raise InputError("method='knn' must have y, a label or a number for each row; got None.")
    y = check_labels(question.y if some is None else np.asarray(question.y)[some], X.shape[0])
    measure, kind = ("R^2", KNeighborsRegressor) if y.dtype.kind == "f" else ("accuracy", KNeighborsClassifier)

    def judge(_: KernelPCA, counts: list[int], scores: Any, fold: Any, fewest: int) -> list[float]:
        (known, new), (train, test), near = scores, fold, min(question.n_neighbors, fewest)
        return [kind(near).fit(known[:, :j], y[train]).score(new[:, :j], y[test]) for j in counts]

    curve = _Curve.of(question, X, y, judge)
    place, best = curve.near_best()
    found = f"{measure} {curve.means[place]:.4g} with {curve.counts[place]}, {best}"
    return curve.counted(place, "knn", f"The smallest number within one standard error of the best: {found}.", "score")


def _by_reconstruction(question: _Question) -> ComponentCount:
    """Judge by the share of the held-out rows' variance that comes back from this many scores.

    The inverse map of the first j scores is linear for the linear kernel, and else a ridge regression whose bandwidth
    and penalty generalised cross-validation chooses on the training rows.
    """
    X, _ = question.rows()
    if sparse.issparse(X):
        raise InputError("method='reconstruction' must have dense rows to come back to; X is sparse: densify it.")

    def judge(fitted: KernelPCA, counts: list[int], scores: Any, fold: Any, _: int) -> list[float]:
        known, new = (part.astype(np.float64) for part in scores)
        mean = mean_of_rows(X[fold[0]])
        rows, truth = (X[some] - mean for some in fold)
        whole = float(np.square(truth).sum())
        back = []
        for j in counts:
            if hasattr(fitted, "components_"):
                restored = new[:, :j] @ fitted.components_[:j]
            else:
                restored = _restored(known[:, :j], rows, new[:, :j], question.threads)
            back.append(1.0 - float(np.square(truth - restored).sum()) / whole if whole > 0 else 1.0)
        return back

    curve = _Curve.of(question, X, None, judge)
    enough = curve.means >= question.threshold
    if enough.any():
        place = int(np.argmax(enough))
        before = f"; {curve.counts[place - 1]} restore {curve.means[place - 1]:.4g}" if place else ""
        restored = f"{curve.means[place]:.4g} of the variance of held-out rows"
        reason = f"{curve.counts[place]} restore {restored}, at least the {question.threshold:.4g} asked for{before}."
    else:
        place, best = curve.near_best()
        reason = (
            f"No number restores {question.threshold:.4g} of the variance of held-out rows; {curve.counts[place]} is "
            f"the smallest within one standard error of the best: {curve.means[place]:.4g}, {best}."
        )
    return curve.counted(place, "reconstruction", reason, "share")


def _restored(known: FloatArray, rows: FloatArray, new: FloatArray, threads: int) -> FloatArray:
    """Return centred rows for new scores, by a regression of known ones.  # shape: (m, d)"""
    found, none = gcv.fit(known, rows, None, alpha=None, gamma=None, threads=threads), np.zeros(rows.shape[1])
    if found is None:
        return np.tile(none, (len(new), 1))
    return RidgeMap(kernels.RBF(gamma=found.gamma), known, found.coefficients, none)(new, threads=threads)


def _by_stability(question: _Question) -> ComponentCount:
    X, _ = question.rows()
    kernel, centred = question.kernel(X), bool(question.model.center)
    values = leading_values(kernel, X, X.shape[0], center=centred, threads=question.threads)[0]
    rank = int(np.count_nonzero(values > _NO_VARIANCE * max(float(values[0]), np.finfo(np.float64).tiny)))
    # all of the space stays whatever the rows, and of more than half of it what is left out is what stays
    most = question.limit(rank // 2, _MOST_RESAMPLED)
    how = {"resamples": question.resamples, "seed": question.seed, "threads": question.threads}
    found = bootstrap_stability(kernel, X, most, center=centred, max_rows=X.shape[0], **how)
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


_METHODS: dict[str, Callable[[_Question], ComponentCount]] = {
    "parallel": _by_parallel,
    "horn": lambda question: _by_parallel(question, "horn"),
    "fraction": _by_fraction,
    "elbow": _by_elbow,
    "knn": _by_neighbours,
    "reconstruction": _by_reconstruction,
    "stability": _by_stability,
}
