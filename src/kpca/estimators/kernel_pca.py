"""KernelPCA: scikit-learn's contract around check, plan, run, keep, and nothing numerical of its own."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any, Self

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator
from sklearn.utils.validation import check_is_fitted

from kpca import kernels
from kpca._base.config import MEMORY_LIMIT, config, memory_budget, thread_count
from kpca._base.errors import InputError, InputWarning, Setting
from kpca._base.linalg import FloatArray
from kpca._base.validation import (
    check_precomputed,
    check_rows,
    check_symmetric,
    check_weights,
    seed_of,
)
from kpca.data.rows import stacked
from kpca.data.sources import Source, as_source, in_memory, sample_rows
from kpca.estimators.approximate import check_approximation, decompose_features, fit_map
from kpca.estimators.cost import Request
from kpca.estimators.exact import Decomposition, decompose, decompose_matrix, refit
from kpca.estimators.fitted import BaseKernelPCA, Fitted, checked_rows, columns_of
from kpca.estimators.memory import MOST_DECIDED
from kpca.estimators.n_components import choose_count, choose_from_values
from kpca.estimators.plan import (
    FINEST_TOL,
    Plan,
    check_parameters,
    features_instead,
    is_auto,
    is_random,
    kernel_of,
    plan,
    plan_like,
)
from kpca.features.projection import SCORES_AT_ONCE, LinearProjection, MatrixProjection
from kpca.gram.factored import Factored
from kpca.gram.tiles import by_slices
from kpca.preimage.back import Back, check_preimage, fit_back
from kpca.preimage.learned import RidgeMapWay, fit_ridge_map

# Rows of a source from which the bandwidth and the landmarks are taken.
_SAMPLE = 30_000
# Rows from which an approximate model learns the inverse map, which solves a system of that size.
_INVERSE_ROWS = 2000


@dataclass(frozen=True)
class FitTask:
    """A fit that has been checked: what it is of, what is wanted, and whether by explicit features."""

    X: Any  # rows of positive weight; of a source, some of its rows; or the kernel matrix
    weights: FloatArray | None  # of all n rows
    n: int
    dtype: np.dtype[Any]
    kernel: kernels.Kernel | None  # None: X is the matrix
    gamma: Any
    request: Request
    columns: dict[str, Any]  # their number and names
    decided: dict[str, Any] = field(default_factory=dict)  # how n_components="auto" was decided
    features: bool = False
    source: Source | None = None

    @property
    def present(self) -> FloatArray | None:
        """The weights that are not 0."""
        return None if self.weights is None else self.weights[self.weights > 0]

    def chunks(self) -> Iterator[tuple[Any, FloatArray | None]]:
        """Read all rows of positive weight, with their weights."""
        if self.source is None:
            yield self.X, self.weights
            return
        start = 0
        for rows in self.source.chunks():
            if self.kernel is not None:
                self.kernel.check(rows)
            mine = None if self.weights is None else self.weights[start : start + rows.shape[0]]
            start += rows.shape[0]
            if mine is None or mine.all():
                yield rows, mine
            elif mine.any():
                yield rows[mine > 0], mine[mine > 0]

    def some(self) -> tuple[Any, FloatArray | None]:
        """Return about 2000 rows with their weights, from all over the data, which may be sorted."""
        if self.source is None or self.weights is None:
            every = max(1, self.X.shape[0] // _INVERSE_ROWS)
            return self.X[::every], None if self.weights is None else self.weights[::every]
        every = max(1, int(np.count_nonzero(self.weights)) // _INVERSE_ROWS)
        parts, weights, start = [], [], 0
        for rows, its in self.chunks():
            here = slice(-start % every, None, every)
            parts.append(rows[here])
            weights.append(np.ones(parts[-1].shape[0]) if its is None else its[here])
            start += rows.shape[0]
        return stacked(parts), np.concatenate(weights)


class KernelPCA(BaseKernelPCA):
    """Kernel PCA that never (necessarily) stores the kernel matrix; drop-in for scikit-learn's.

    Parameters
    ----------
    n_components : int, float, "auto" or None
        How many components; a fraction between 0 and 1 asks for as many as explain that share of the variance. None
        keeps all with a nonzero eigenvalue. "auto" keeps those that stand out of data without structure (parallel
        analysis of at most 600 rows, at most 50 components; of a precomputed matrix, those before the elbow of the
        eigenvalues), at least one: `n_components_reason_` says how that was found.
    kernel : str, callable, kernel object or "precomputed"
        A name of `kpca.kernels.NAMES`, a kernel of `kpca.kernels` (or a sum or product of them), a Gaussian-process
        kernel of scikit-learn, `f(X, Y) -> matrix`, `f(x, y) -> number`, or "precomputed": X is then the kernel matrix,
        dense, sparse or a SciPy LinearOperator.
    gamma : float, "scale", "median", array or None
        Coefficient of rbf, poly, sigmoid, laplacian and chi2: None is 1/n_features, "scale" 1/(n_features * X.var()),
        "median" 1/(2 m^2) with m the median distance of at most 1000 rows. One per feature is possible for rbf.
    degree, coef0, kernel_params : as in scikit-learn.
    alpha, fit_inverse_transform : penalty of scikit-learn's ridge map behind `inverse_transform`, and whether to fit
        it; see `preimage` for better ones.
    eigen_solver : {"auto", "dense", "krylov", "arpack", "randomized"}
        "dense" is LAPACK on the whole matrix, "krylov" block Krylov with certificates; the two names of scikit-learn
        are accepted and served by "auto".
    tol : float
        Residual of every pair, relative to the largest eigenvalue; 0 asks for 1e-10 (float64) or 1e-5 (float32).
    max_iter : int or None
        Passes over the kernel matrix after which to stop with a warning.
    iterated_power : accepted for compatibility; passes end when the residuals are small.
    remove_zero_eig : drop components without variance also when n_components is given.
    random_state : seed of the random start; results hardly depend on it, and not at all on repetition.
    copy_X : keep a copy of X for `transform`; if False, X must not change afterwards.
    n_jobs : threads; None is `kpca.config(threads=...)`.
    center : False leaves the mean in feature space in: eigenvalues are then second moments, not variances.
    approximation : None, "nystroem", "rff", "auto", `kpca.Nystroem` or `kpca.RandomFeatures`
        None never approximates. "nystroem" takes landmarks and "rff" random features, 1000 of them unless an object
        says how many; `transform` then costs one kernel value per landmark instead of one per training row. "auto"
        takes landmarks only where the exact fit would break the limits (see `kpca.plan`).
    preimage : None, "auto", "ridge", "fixed-point", "distance", "gradient", a method of `kpca.preimage`, or a regressor
        How `inverse_transform` and `denoise` come back to the data. "auto" suits the kernel and is weighed on held-out
        rows; a regressor of scikit-learn learns the way from scores to rows. None is the ridge map of scikit-learn
        (with an intercept) if fit_inverse_transform, else there is no inverse map.

    Attributes
    ----------
    eigenvalues_ : (k,), eigenvectors_ : (n, k)
        Of the centred kernel matrix, in descending order; scores of the training rows are eigenvectors_ *
        sqrt(eigenvalues_).
    explained_variance_, explained_variance_ratio_, information_ratio_ : (k,)
        Eigenvalues over n - 1; over the trace; and the root of the summed squares of the first 1, 2, ... eigenvalues
        over that of all. The last two count what was not computed.
    residuals_ : (k,), eigenvalue_bounds_ : (k, 2)
        |B u - lambda u| of every pair over the largest eigenvalue, and bounds on the exact eigenvalues. What float32
        tiles may have added is measured on a sample of rows, times a factor of 4, and is part of both.
    solver_, n_passes_ : the route taken and the passes over the kernel matrix it needed.
    components_, mean_ : (k, d), (d,), for the linear kernel only.
    n_components_reason_ : one sentence on how "auto" came to the number; only there with "auto".
    gamma_, kernel_, n_components_, X_fit_, dual_coef_, X_transformed_fit_, n_features_in_, feature_names_in_.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from kpca import KernelPCA
    >>> X, _ = load_digits(return_X_y=True)
    >>> KernelPCA(n_components=7, kernel="rbf", gamma="median").fit_transform(X).shape
    (1797, 7)
    """

    X_fit_: Any
    eigenvectors_: FloatArray
    _roots: FloatArray  # of the weights
    _frobenius2: float
    _planned: tuple[tuple[int, int], int | None]  # shape of the data, memory limit

    def __init__(
        self,
        n_components: int | float | str | None = None,
        *,
        kernel: Any = "linear",
        gamma: Any = None,
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        alpha: float = 1.0,
        fit_inverse_transform: bool = False,
        eigen_solver: str = "auto",
        tol: float = 0,
        max_iter: int | None = None,
        iterated_power: int | str = "auto",
        remove_zero_eig: bool = False,
        random_state: Any = None,
        copy_X: bool = True,
        n_jobs: int | None = None,
        center: bool = True,
        approximation: Any = None,
        preimage: Any = None,
    ) -> None:
        self.n_components, self.kernel, self.kernel_params = n_components, kernel, kernel_params
        self.gamma, self.degree, self.coef0 = gamma, degree, coef0
        self.alpha, self.fit_inverse_transform, self.preimage = alpha, fit_inverse_transform, preimage
        self.eigen_solver, self.tol, self.max_iter, self.iterated_power = eigen_solver, tol, max_iter, iterated_power
        self.remove_zero_eig, self.center, self.approximation = remove_zero_eig, center, approximation
        self.random_state, self.copy_X, self.n_jobs = random_state, copy_X, n_jobs

    # -- fitting: check, plan, run, keep ----------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Find the components of the rows of X.

        Parameters
        ----------
        X : (n, d) array, data frame or CSR matrix; (n, n) kernel matrix if kernel="precomputed".
        y : ignored.
        sample_weight : (n,) weights, not negative; whole numbers act as repeated rows, 0 as an absent one.
        """
        task = self._task(X, sample_weight)
        fitted = self._run_features(task) if task.features else self._run_exact(task)
        return self._keep(fitted.attributes(task.request.threads))

    def _task(self, X: Any, sample_weight: Any) -> FitTask:
        check_parameters(self)
        check_preimage(self.preimage)
        precomputed = isinstance(self.kernel, str) and self.kernel == "precomputed"
        approximation, columns, copied = self.approximation, {}, self.copy_X
        check_approximation(approximation, precomputed=precomputed)
        if precomputed:
            return self._matrix_task(X, sample_weight)
        exactly = approximation is None
        if not in_memory(X) and not (exactly and isinstance(X, np.memmap)):  # a map serves an exact fit as it is
            source = as_source(X)
            if not exactly and source.repeatable:
                task = self._source_task(source, sample_weight)
                if task.features:
                    return task
                approximation, columns, copied = None, task.columns, False
            X = self._loaded(source)
        X, its = checked_rows(self, X, copied=copied and exactly)
        weights = check_weights(sample_weight, X.shape[0])
        if weights is not None and not weights.all():
            X, weights = X[weights > 0], weights[weights > 0]
        check_rows(X.shape[0])
        task = self._asked(X, weights, X.shape[0], {**its, **columns}, approximation)
        return replace(task, X=X.copy()) if copied and not exactly and not task.features else task

    def _source_task(self, source: Source, sample_weight: Any) -> FitTask:
        """Look at some of the rows that are read in chunks for the kernel and its features."""
        some = sample_rows(source, _SAMPLE, 0)
        check_rows(some.shape[0])
        n = source.n_rows if source.n_rows is not None else sum(chunk.shape[0] for chunk in source.chunks())
        weights = check_weights(sample_weight, n)
        task = self._asked(some, None, n, columns_of(source), self.approximation)
        return replace(task, weights=weights, source=source)

    def _asked(self, X: Any, weights: FloatArray | None, n: int, columns: dict[str, Any], approximate: Any) -> FitTask:
        """Return the fit of n rows of which X are all or some: with its kernel, and the number of components."""
        gamma = kernels.resolve_gamma(self.gamma, X)
        kernel = kernel_of(self, X, gamma)
        wanted, decided = self.n_components, {}
        if isinstance(wanted, str):
            seed, threads = seed_of(self.random_state), thread_count(self.n_jobs)
            choice = choose_count(kernel, X, weights, center=bool(self.center), seed=seed, threads=threads)
            wanted, decided = min(choice.count, int(X.shape[0])), {"n_components_reason_": choice.reason}
        request = self._request(n, X.dtype, wanted)
        features = features_instead(approximate, kernel, n, X.shape[1], request)
        return FitTask(X, weights, n, X.dtype, kernel, gamma, request, columns, decided, features)

    def _matrix_task(self, K: Any, sample_weight: Any) -> FitTask:
        if isinstance(K, LinearOperator):
            columns, dtype = {"n_features_in_": K.shape[1]}, np.dtype(np.float64)
        else:
            K, columns = checked_rows(self, K, copied=self.copy_X)
            dtype = K.dtype
        n = K.shape[0]
        check_precomputed(K)
        weights = check_weights(sample_weight, n)
        check_rows(n if weights is None else int(np.count_nonzero(weights)), "The kernel matrix")
        check_symmetric(K, centred=self.center)
        wanted = self.n_components
        request = self._request(n, dtype, min(MOST_DECIDED, n) if isinstance(wanted, str) else wanted)
        return FitTask(K, weights, n, dtype, None, kernels.resolve_gamma(None, K), request, columns)

    def _loaded(self, source: Source) -> Any:
        """Return all rows of a source: the exact fit compares each with each."""
        size = (source.n_rows or 0) * source.n_columns * source.dtype.itemsize
        if not source.sparse and size > memory_budget():
            raise InputError(
                f"An exact fit holds all rows, {size / 2**20:,.0f} MiB; {memory_budget() / 2**20:,.0f} may be used",
                remedy=("take ", Setting("approximation", "nystroem"), ", which reads chunks, or raise ", MEMORY_LIMIT),
            )
        return stacked(list(source.chunks()))

    def _request(self, n: int, dtype: np.dtype[Any], wanted: int | float | None) -> Request:
        if isinstance(wanted, Integral):
            wanted = int(wanted)
            if wanted > n:
                said = f" is more than the {n} rows; {n} are returned"
                warnings.warn(InputWarning((Setting("n_components", wanted), said)), stacklevel=5)
                wanted = n
        return Request(
            n_components=wanted,
            tol=float(self.tol) or FINEST_TOL[dtype],
            eigen_solver=self.eigen_solver,
            center=bool(self.center),
            max_passes=self.max_iter,
            seed=seed_of(self.random_state),
            threads=thread_count(self.n_jobs),
            budget=memory_budget,
        )

    def _run_exact(self, task: FitTask) -> Fitted:
        X, weights, decided = task.X, task.weights, task.decided
        if task.kernel is not None:
            found = decompose(task.kernel, X, weights, task.request)
        else:
            found = decompose_matrix(X, weights, task.request)
            if isinstance(self.n_components, str):
                choice = choose_from_values(found.spectrum.values)
                found, decided = found.head(choice.count), {"n_components_reason_": choice.reason}
        found, back = self._wanted_of(found), None
        if self._wants_back:
            back = self._inverse(task, found, found.spectrum.scores(weights), X, weights)
        return self._fitted(task, found, weights, X_fit=X, back=back, others=decided)

    def _run_features(self, task: FitTask) -> Fitted:
        """Fit features of some rows to all rows; learn the inverse map from a few."""
        X, request, weights = task.X, task.request, task.present
        assert task.kernel is not None
        named = "nystroem" if is_auto(self.approximation) else self.approximation
        of_X = weights if weights is not None and len(weights) == X.shape[0] else None
        fitted = fit_map(named, task.kernel, X, request, n_rows=task.n, weights=of_X)
        found, back = self._wanted_of(decompose_features(fitted, task.chunks, X.dtype, request, n_rows=task.n)), None
        if self._wants_back:
            rows, its_weights = task.some()
            scores = found.projection(rows, threads=request.threads)
            back = self._inverse(task, found, scores, rows, its_weights)
        others = {"feature_map_": fitted.feature_map, **task.decided}
        X_fit = getattr(fitted.feature_map, "landmarks", None)
        return self._fitted(task, found, weights, X_fit=X_fit, back=back, others=others)

    def _fitted(self, task: FitTask, found: Decomposition, weights: FloatArray | None, **others: Any) -> Fitted:
        mass = found.spectrum.vectors.shape[0] if weights is None else float(weights.sum())
        others |= {"weights": weights, "gamma": task.gamma, "columns": task.columns}
        return Fitted(task.kernel, found.spectrum, found.projection, mass, bool(self.center), task.dtype, **others)

    def _wanted_of(self, found: Decomposition) -> Decomposition:
        """Return the components that are kept: those of eigenvalue 0, the last ones, only if they were counted on."""
        drop = self.remove_zero_eig or self.n_components is None
        return found.head(int(np.count_nonzero(found.spectrum.values > 0))) if drop else found

    @property
    def _wants_back(self) -> bool:
        return bool(self.fit_inverse_transform) or self.preimage is not None

    def _inverse(
        self, task: FitTask, found: Decomposition, scores: FloatArray, X: Any, weights: FloatArray | None
    ) -> Back:
        """Return the inverse map, from scores to the rows they are of."""
        if sparse.issparse(X):
            raise NotImplementedError("inverse_transform needs dense rows to come back to; X is sparse: densify it.")
        scores, threads = np.ascontiguousarray(scores, dtype=X.dtype), thread_count(self.n_jobs)
        settings = check_preimage(self.preimage)
        if settings is not None:
            seed, projection = seed_of(self.random_state), found.projection
            assert task.kernel is not None and not isinstance(projection, MatrixProjection)
            how: dict[str, Any] = {"weights": weights, "seed": seed, "threads": threads, "refit": refit}
            return fit_back(settings, task.kernel, projection, X, scores, **how)
        if np.ndim(task.gamma):
            message = ("fit_inverse_transform needs a single ", Setting("gamma"))
            raise InputError(message, remedy="one per feature of X means nothing for scores")
        of_scores = kernel_of(self, scores, task.gamma)
        solved = fit_ridge_map(of_scores, scores, X, float(self.alpha), weights, threads=threads)
        return Back(RidgeMapWay(solved), "ridge", "scikit-learn's map, with an intercept")

    # -- using ------------------------------------------------------------------------------------------------------

    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None) -> FloatArray:
        """Fit to X and return the scores of its rows.  # shape: (n, k)"""
        self.fit(X, y, sample_weight)
        if sample_weight is not None and not np.all(sample_weight):
            return self._scores(X)  # rows of weight 0 took no part in the fit, but have scores
        return self._fitted_scores()

    def _fitted_scores(self) -> FloatArray:
        """Return the scores of the rows of positive weight that were fitted."""
        vectors, roots = self.eigenvectors_, np.sqrt(self.eigenvalues_)
        own = self._roots.astype(vectors.dtype)

        def work(rows: slice) -> FloatArray:
            scores: FloatArray = vectors[rows] * roots
            return scores if len(own) == 1 else scores / own[rows]

        if len(vectors) <= SCORES_AT_ONCE:
            return work(slice(len(vectors)))
        return by_slices(work, np.empty_like(vectors), SCORES_AT_ONCE, thread_count(self.n_jobs))

    @property
    def _keeps_rows(self) -> bool:
        """False where new rows are compared with none: random features, precomputed kernels."""
        precomputed = isinstance(self.kernel, str) and self.kernel == "precomputed"
        return not (precomputed or is_random(self.approximation))

    def _known_rows(self) -> tuple[Any, FloatArray]:
        if self.kernel_ is None or self.X_fit_ is None:
            return super()._known_rows()
        if hasattr(self, "feature_map_") or hasattr(self, "compression_loss_"):  # landmarks, not the rows of the fit
            return self.X_fit_, self._scores_of(self.X_fit_)
        return self.X_fit_, self._fitted_scores()

    @property
    def plan_(self) -> Plan:
        """Which way the fit went, why, and what memory and time were to be expected of it; made when asked for."""
        check_is_fitted(self)
        rows, limit = self._planned
        whole = not hasattr(self, "feature_map_") and not isinstance(self.X_fit_, LinearOperator | None)
        landmarks = getattr(getattr(self, "feature_map_", None), "landmarks", None)
        with config(memory_limit=limit):
            if sparse.issparse(landmarks):
                return plan_like(rows, landmarks, estimator=self, dtype=self.eigenvalues_.dtype)
            return plan(self.X_fit_ if whole else rows, estimator=self, dtype=self.eigenvalues_.dtype)

    @property
    def information_ratio_(self) -> FloatArray:
        """sqrt(sum of the first squared eigenvalues / sum of all), for one component, two, ...  # shape: (k,)"""
        check_is_fitted(self)
        if np.isnan(self._frobenius2) and isinstance(self._projection, LinearProjection):
            # Not needed for the fit, and as costly as one: found when somebody asks.
            weights = None if self._roots.size == 1 else self._roots[:, 0]
            self._frobenius2 = Factored(self.X_fit_, centred=bool(self.center), scale=weights).sum_of_squares()
        squares = self.eigenvalues_.astype(np.float64) ** 2
        ratio: FloatArray = np.sqrt(np.cumsum(squares) / np.maximum(self._frobenius2, max(squares.sum(), 1e-300)))
        return ratio.astype(self.eigenvalues_.dtype)

    def to_sklearn(self) -> Any:
        """Return scikit-learn's KernelPCA with these parameters and, of a fitted model, with its scores.

        It has no counterpart of weights, approximations and center=False, which are refused. Kernels that it does not
        have by name are given to it as functions of pairs of rows, which it evaluates one by one. Of the inverse maps
        it has the ridge map, without an intercept: with fit_inverse_transform that is solved again, others are left
        out.
        """
        from kpca.estimators import sklearn as interchange

        return interchange.to_sklearn(self)

    @classmethod
    def from_sklearn(cls, model: Any) -> Self:
        """Return scikit-learn's KernelPCA as this one, with its scores and its inverse_transform if it is fitted.

        Residuals and bounds of its components, which it does not have, are measured in a pass over the kernel matrix.
        """
        from kpca.estimators import sklearn as interchange

        made: Self = interchange.from_sklearn(cls(), model)
        return made

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "eigenvalues_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = isinstance(self.kernel, str) and self.kernel == "precomputed"
        return tags
