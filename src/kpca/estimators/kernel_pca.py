"""KernelPCA: scikit-learn's contract around the engine, and nothing numerical of its own."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from kpca import kernels
from kpca._base.config import MEMORY_LIMIT, memory_budget, memory_limit, thread_count
from kpca._base.errors import InputError, InputWarning, Setting
from kpca._base.validation import (
    check_data,
    check_parameters,
    check_precomputed,
    check_rows,
    check_symmetric,
    check_weights,
    seed_of,
    unchanged_on_error,
)
from kpca.data.rows import stacked
from kpca.data.sinks import scores_in_chunks
from kpca.data.sources import Source, as_source, in_memory, sample_rows
from kpca.estimators.approximate import Chunks, check_approximation, decompose_features, fit_map
from kpca.estimators.exact import Decomposition, Request, decompose, decompose_matrix, refit
from kpca.estimators.fitted import FittedMixin
from kpca.estimators.memory import MOST_DECIDED
from kpca.estimators.n_components import choose_count, choose_from_values
from kpca.estimators.plan import approximation_needed
from kpca.estimators.routes import FINEST_TOL, FIRST_TRY
from kpca.features.projection import LinearProjection
from kpca.preimage.back import Back, check_preimage, fit_back
from kpca.preimage.learned import RidgeMapWay, fit_ridge_map

FloatArray = NDArray[Any]
_FITTED_PRIVATE = ("_projection", "_back", "_last_report", "_roots", "_frobenius2", "_planned")
# Rows of a source from which the bandwidth and the landmarks are taken.
_SAMPLE = 30_000
# Rows from which an approximate model learns the way back: the map solves a system of that size.
_INVERSE_ROWS = 2000


class KernelPCA(FittedMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
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
        (with an intercept) if fit_inverse_transform, else there is no way back.

    Attributes
    ----------
    eigenvalues_ : (k,), eigenvectors_ : (n, k)
        Of the centred kernel matrix, in descending order; scores of the training rows are eigenvectors_ *
        sqrt(eigenvalues_).
    explained_variance_, explained_variance_ratio_, information_ratio_ : (k,)
        Eigenvalues over n - 1; over the trace; and the root of the summed squares of the first so many eigenvalues over
        that of all. The last two count what was not computed.
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
        self.n_components = n_components
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.alpha = alpha
        self.fit_inverse_transform = fit_inverse_transform
        self.eigen_solver = eigen_solver
        self.tol = tol
        self.max_iter = max_iter
        self.iterated_power = iterated_power
        self.remove_zero_eig = remove_zero_eig
        self.random_state = random_state
        self.copy_X = copy_X
        self.n_jobs = n_jobs
        self.center = center
        self.approximation = approximation
        self.preimage = preimage

    # -- fitting ----------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Find the components of the rows of X.

        Parameters
        ----------
        X : (n, d) array, data frame or CSR matrix; (n, n) kernel matrix if kernel="precomputed".
        y : ignored.
        sample_weight : (n,) weights, not negative; whole numbers act as repeated rows, 0 as an absent one.
        """
        with unchanged_on_error(self):
            for name in [name for name in vars(self) if name in _FITTED_PRIVATE or name.endswith("_")]:
                delattr(self, name)  # nothing of an earlier fit is mixed with this one
            return self._fit(X, sample_weight)

    def _fit(self, X: Any, sample_weight: Any) -> Self:
        check_parameters(self)
        check_preimage(self.preimage)
        precomputed = isinstance(self.kernel, str) and self.kernel == "precomputed"
        check_approximation(self.approximation, precomputed=precomputed)
        if precomputed:
            return self._fit_matrix(X, sample_weight)
        exactly = self.approximation is None
        if not in_memory(X) and not (exactly and isinstance(X, np.memmap)):  # a map serves an exact fit as it is
            source = as_source(X)
            if not exactly and source.repeatable:
                return self._fit_source(source, sample_weight)
            X = self._loaded(source)
        X = check_data(self, X, reset=True, copy=self.copy_X and exactly)
        weights = check_weights(sample_weight, X.shape[0])
        if weights is not None and not weights.all():
            X, weights = X[weights > 0], weights[weights > 0]
        check_rows(X.shape[0])
        gamma, kernel = self._kernel_for(X)
        request = self._request(X.shape[0], X.dtype, self._wanted(kernel, X, weights))
        if self._approximates(kernel, X.shape, request):
            every = max(1, X.shape[0] // _INVERSE_ROWS)
            some = X[::every], None if weights is None else weights[::every]
            return self._fit_features(
                (kernel, gamma), X, weights, request, chunks=lambda: [(X, weights)], some=some, n_rows=X.shape[0]
            )
        if not exactly and self.copy_X:
            X = X.copy()
        found = decompose(kernel, X, weights, request)
        back = None
        if self._wants_back:
            scores = found.spectrum.scores(weights)[:, : self._count(found.spectrum.values)]
            back = self._fitted_back((kernel, gamma), found, scores, X, weights)
        self.kernel_: kernels.Kernel | None = kernel
        self.gamma_, self.X_fit_ = gamma, X
        return self._store(found, X.dtype, X.shape[0] if weights is None else float(weights.sum()), weights, back)

    def _approximates(self, kernel: kernels.Kernel, shape: tuple[int, int], request: Request) -> bool:
        """Return True if explicit features are to be used; the rows of the linear kernel are features already."""
        if self.approximation is None or isinstance(kernel, kernels.Linear):
            return False
        if not (isinstance(self.approximation, str) and self.approximation == "auto"):
            return True
        wanted = request.n_components
        count = shape[0] if wanted is None else wanted if isinstance(wanted, int) else FIRST_TRY
        return approximation_needed(*shape, count, request.tol, request.budget())

    def _loaded(self, source: Source) -> Any:
        """Return all rows of a source: the exact fit compares each with each."""
        size = (source.n_rows or 0) * source.n_columns * source.dtype.itemsize
        if not source.sparse and size > memory_budget():
            raise InputError(
                f"An exact fit holds all rows, {size / 2**20:,.0f} MiB; {memory_budget() / 2**20:,.0f} may be used",
                remedy=(
                    "take ",
                    Setting("approximation", "nystroem"),
                    ", which reads them in chunks, or raise ",
                    MEMORY_LIMIT,
                ),
            )
        return stacked(list(source.chunks()))

    def _fit_source(self, source: Source, sample_weight: Any) -> Self:
        """Fit to rows that are read in chunks: some of them for the kernel and its features, then all of them."""
        self.n_features_in_ = source.n_columns
        if source.names is not None:
            self.feature_names_in_ = np.asarray(source.names, dtype=object)
        some = sample_rows(source, _SAMPLE, 0)
        check_rows(some.shape[0])
        n = source.n_rows if source.n_rows is not None else sum(chunk.shape[0] for chunk in source.chunks())
        weights = check_weights(sample_weight, n)
        gamma, kernel = self._kernel_for(some)
        request = self._request(n, source.dtype, self._wanted(kernel, some, None))
        if not self._approximates(kernel, (n, source.n_columns), request):
            exactly = clone(self).set_params(approximation=None, copy_X=False).fit(self._loaded(source), None, weights)
            self.__dict__.update({**vars(exactly), **self.get_params(deep=False)})
            return self

        def chunks() -> Iterator[tuple[Any, FloatArray | None]]:
            start = 0
            for rows in source.chunks():
                kernel.check(rows)
                mine = None if weights is None else weights[start : start + rows.shape[0]]
                start += rows.shape[0]
                if mine is None or mine.all():
                    yield rows, mine
                elif mine.any():
                    yield rows[mine > 0], mine[mine > 0]

        present = None if weights is None else weights[weights > 0]
        few: tuple[Any, FloatArray | None]
        few = some[:: max(1, some.shape[0] // _INVERSE_ROWS)], None  # from all over the file, which may be sorted
        if present is not None and self._wants_back:
            few = _thinned(chunks(), max(1, len(present) // _INVERSE_ROWS))
        return self._fit_features((kernel, gamma), some, present, request, chunks=chunks, some=few, n_rows=n)

    def _fit_features(
        self,
        kernel_gamma: tuple[kernels.Kernel, Any],
        X: Any,
        weights: FloatArray | None,
        request: Request,
        *,
        chunks: Chunks,
        some: tuple[Any, FloatArray | None],
        n_rows: int,
    ) -> Self:
        """Fit features of the rows X to all rows, which `chunks` gives; learn the way back from some."""
        kernel, gamma = kernel_gamma
        auto = isinstance(self.approximation, str) and self.approximation == "auto"
        fitted = fit_map(
            "nystroem" if auto else self.approximation,
            kernel,
            X,
            n_components=request.n_components,
            n_rows=n_rows,
            centred=request.center,
            weights=weights if weights is not None and len(weights) == X.shape[0] else None,
            seed=request.seed,
            threads=request.threads,
        )
        found = decompose_features(fitted, chunks, X.dtype, request, n_rows=n_rows)
        back = None
        if self._wants_back:
            rows, its_weights = some
            scores = found.projection.head(self._count(found.spectrum.values))(rows, threads=request.threads)
            back = self._fitted_back((kernel, gamma), found, scores, rows, its_weights)
        self.feature_map_ = fitted.feature_map
        self.kernel_, self.gamma_ = kernel, gamma
        self.X_fit_ = getattr(fitted.feature_map, "landmarks", None)  # what new rows are compared with
        n = found.spectrum.vectors.shape[0]
        return self._store(found, X.dtype, n if weights is None else float(weights.sum()), weights, back)

    def _fit_matrix(self, K: Any, sample_weight: Any) -> Self:
        if isinstance(K, LinearOperator):
            self.n_features_in_, dtype = K.shape[1], np.dtype(np.float64)
        else:
            K = check_data(self, K, reset=True, copy=self.copy_X)
            dtype = K.dtype
        check_precomputed(K)
        weights = check_weights(sample_weight, K.shape[0])
        check_rows(K.shape[0] if weights is None else int(np.count_nonzero(weights)), "The kernel matrix")
        check_symmetric(K, centred=self.center)
        wanted = self.n_components
        several = min(MOST_DECIDED, K.shape[0]) if isinstance(wanted, str) else wanted
        found = decompose_matrix(K, weights, self._request(K.shape[0], dtype, several))
        if isinstance(wanted, str):
            choice = choose_from_values(found.spectrum.values)
            found, self.n_components_reason_ = found.head(choice.count), choice.reason
        self.gamma_, self.kernel_, self.X_fit_ = kernels.resolve_gamma(None, K), None, K
        return self._store(found, dtype, K.shape[0] if weights is None else float(weights.sum()), weights, None)

    def _kernel_for(self, X: Any) -> tuple[Any, kernels.Kernel]:
        gamma = kernels.resolve_gamma(self.gamma, X)
        kernel = self._resolved(X, gamma)
        kernel.check(X)
        return gamma, kernel

    def _resolved(self, X: Any, gamma: Any) -> kernels.Kernel:
        return kernels.resolve(
            self.kernel, X, gamma=gamma, degree=self.degree, coef0=self.coef0, kernel_params=self.kernel_params
        )

    def _wanted(self, kernel: kernels.Kernel, X: Any, weights: FloatArray | None) -> int | float | None:
        """Return the number or share of components that is asked for, or decide on a number."""
        if not isinstance(self.n_components, str):
            return self.n_components
        seed, threads = seed_of(self.random_state), thread_count(self.n_jobs)
        choice = choose_count(kernel, X, weights, center=bool(self.center), seed=seed, threads=threads)
        self.n_components_reason_ = choice.reason
        return min(choice.count, int(X.shape[0]))

    def _request(self, n: int, dtype: np.dtype[Any], wanted: int | float | None) -> Request:
        if isinstance(wanted, Integral):
            wanted = int(wanted)
            if wanted > n:
                said = f" is more than the {n} rows; {n} are returned"
                warnings.warn(InputWarning((Setting("n_components", wanted), said)), stacklevel=3)
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

    def _store(self, found: Decomposition, dtype: np.dtype[Any], mass: float, weights: Any, back: Back | None) -> Self:
        spectrum = found.spectrum.head(self._count(found.spectrum.values))
        values = spectrum.values
        top = float(values.max(initial=0.0)) or 1.0
        degrees = mass - 1.0 if self.center and mass > 1.0 else mass
        total = 1.0 if spectrum.trace <= 0 else spectrum.trace  # NaN where the matrix has no entries to sum
        self.eigenvalues_ = values.astype(dtype)
        self.eigenvectors_ = np.ascontiguousarray(spectrum.vectors, dtype=dtype)
        self.explained_variance_ = (values / degrees).astype(dtype)
        self.explained_variance_ratio_ = (values / total).astype(dtype)
        self._frobenius2 = spectrum.frobenius2
        # float32 vectors are rounded once more on the way out
        rounding = float(np.finfo(np.float32).eps) if dtype == np.float32 else 0.0
        self.residuals_ = spectrum.residuals / top + rounding
        self.eigenvalue_bounds_ = spectrum.bounds
        self.solver_, self.n_passes_ = spectrum.solver, spectrum.n_passes
        self.n_components_ = len(values)
        self._projection = found.projection.head(len(values))
        self._roots = np.ones(1) if weights is None else np.sqrt(weights[weights > 0])[:, None]
        self._back = back
        self._planned = ((spectrum.vectors.shape[0], self.n_features_in_), memory_limit())
        if isinstance(self._projection, LinearProjection):
            self.components_, self.mean_ = self._projection.components, self._projection.mean.astype(dtype)
        if back is not None and isinstance(back.way, RidgeMapWay):
            self.dual_coef_, self.X_transformed_fit_ = back.way.map.dual_coef, back.way.map.scores
        return self

    def _count(self, values: FloatArray) -> int:
        """Return how many components are kept: those of eigenvalue 0, the last ones, only if they were counted on."""
        drop = self.remove_zero_eig or self.n_components is None
        return int(np.count_nonzero(values > 0)) if drop else len(values)

    @property
    def _wants_back(self) -> bool:
        return bool(self.fit_inverse_transform) or self.preimage is not None

    def _fitted_back(
        self,
        kernel_gamma: tuple[kernels.Kernel, Any],
        found: Decomposition,
        scores: FloatArray,
        X: Any,
        weights: FloatArray | None,
    ) -> Back:
        """Return the way back from scores to the rows they are of."""
        kernel, gamma = kernel_gamma
        if sparse.issparse(X):
            raise NotImplementedError("inverse_transform needs dense rows to come back to; X is sparse: densify it.")
        scores, threads = np.ascontiguousarray(scores, dtype=X.dtype), thread_count(self.n_jobs)
        settings = check_preimage(self.preimage)
        if settings is not None:
            projection: Any = found.projection.head(scores.shape[1])
            seed = seed_of(self.random_state)
            return fit_back(
                settings, kernel, projection, X, scores, weights=weights, seed=seed, threads=threads, refit=refit
            )
        if np.ndim(gamma):
            raise InputError(
                "fit_inverse_transform needs a single gamma: one per feature of X means nothing for scores."
            )
        of_scores = self._resolved(scores, gamma)
        solved = fit_ridge_map(of_scores, scores, X, float(self.alpha), weights, threads=threads)
        return Back(RidgeMapWay(solved), "ridge", "scikit-learn's map, with an intercept")

    # -- using ------------------------------------------------------------------------------------------------------

    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None) -> FloatArray:
        """Fit to X and return the scores of its rows.  # shape: (n, k)"""
        self.fit(X, y, sample_weight)
        if sample_weight is not None and not np.all(sample_weight):
            return self._scores(X)  # rows of weight 0 took no part in the fit, but have scores
        return self._fitted_scores()

    def transform(self, X: Any) -> FloatArray:
        """Return the scores of the rows of X; kernel values are computed in tiles and not kept.  # shape: (m, k)

        Rows that lie in files or come in chunks are read in chunks; `kpca.write_scores` writes their scores so, too.
        """
        check_is_fitted(self)
        if not in_memory(X):
            return np.concatenate(list(scores_in_chunks(self, self._scores, as_source(X))))
        return self._scores(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.input_tags.pairwise = isinstance(self.kernel, str) and self.kernel == "precomputed"
        return tags


def _thinned(chunks: Iterator[tuple[Any, FloatArray | None]], every: int) -> tuple[Any, FloatArray]:
    """Return every so manieth row of all chunks, with its weight."""
    rows, weights, start = [], [], 0
    for part, its in chunks:
        some = slice(-start % every, None, every)
        rows.append(part[some])
        weights.append(np.ones(rows[-1].shape[0]) if its is None else its[some])
        start += part.shape[0]
    return stacked(rows), np.concatenate(weights)
