"""A fitted model with the rows it was fitted to, and what several looks share: computed once, when first asked for."""

from __future__ import annotations

import hashlib
import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

from kpca._base.config import thread_count
from kpca._base.errors import InputError
from kpca._base.linalg import FloatArray, mean_of_rows
from kpca._base.validation import check_rows
from kpca.data.sources import as_source, in_memory, sample_rows
from kpca.diagnostics.report import NotLooked
from kpca.estimators.cost import Request, better_shifted
from kpca.estimators.exact import decompose
from kpca.estimators.incremental import IncrementalKernelPCA
from kpca.estimators.kernel_pca import KernelPCA
from kpca.features.projection import MatrixProjection, Projection
from kpca.gram import Gram
from kpca.gram.operator import center
from kpca.kernels import ArcCosine, Composite, Cosine, Kernel, Linear, PairwiseCallable
from kpca.kernels.arrays import as_float64, canonical
from kpca.selection.rows import row_sample, some_rows

# Rows that are looked at; of more, a sample.
_MOST_ROWS = 50_000
# Rows of the matrix that is looked at as a whole; fewer where each kernel value is a call of Python.
_SAMPLE, _SAMPLE_OF_CALLS = 1000, 150
# Digits to which rows of unit length must agree to be the same row.
_UNIT_DIGITS = {np.dtype(np.float64): 10, np.dtype(np.float32): 5}
# An eigenvalue below this part of the largest is rounding.
_NO_VARIANCE = 1e-10
# Rows of both halves together, and the fewest; few where each kernel value is a call of Python.
_MOST, _MOST_OF_CALLS, _FEWEST = 4000, 200, 10
# Up to this many rows each half has its turn: one split of few rows is a matter of luck.
_BOTH_WAYS = 1000
# With as many components as rows any model explains all it was fitted to; so at most one for this many rows.
_ROWS_PER_COMPONENT = 4
_TOL = 1e-6


@dataclass(frozen=True, eq=False)
class Entries(Kernel):
    """A precomputed matrix as a kernel, k(i, j) = K_ij: its "rows of data" are numbers of rows."""

    K: Any  # dense, CSR or a LinearOperator, shape: (n, n)
    name: ClassVar[str] = "precomputed"

    @property
    def psd(self) -> bool:
        """Nothing is known of a matrix that somebody else made."""
        return False

    def block(self, X: Any, Y: Any) -> FloatArray:
        """Return the entries of these rows and columns in float64.  # shape: (n, m)"""
        i, j = X[:, 0].astype(np.intp), Y[:, 0].astype(np.intp)
        if isinstance(self.K, LinearOperator):  # of which few columns are asked for, as each is a product
            some = (self.K @ (np.arange(self.K.shape[0])[:, None] == j).astype(np.float64))[i]
        else:
            some = self.K[i][:, j]
        return np.asarray(some.toarray() if sparse.issparse(some) else some, dtype=np.float64)

    def diagonal(self, X: Any) -> NDArray[np.float64]:
        """Return the entries (i, i).  # shape: (n,)"""
        if isinstance(self.K, LinearOperator):
            return self.block(X, X).diagonal()
        return np.asarray(self.K.diagonal()[X[:, 0].astype(np.intp)], dtype=np.float64)


@dataclass(frozen=True)
class Half:
    """Components of one half of the rows, and the other half, which took no part."""

    projection: Projection
    values: FloatArray  # eigenvalues, shape: (k,)
    mass: float  # sum of the weights of the fitted rows
    explained: float  # share of the variance of the fitted rows
    variance: float  # trace of the covariance of the fitted rows
    length: float  # mean of k(x, x)
    fitted: NDArray[np.intp]  # numbers of the fitted rows
    held: Any  # rows that were held out, shape: (m, d)
    held_weights: FloatArray  # shape: (m,)

    def parts(self, X: Any, threads: int) -> tuple[FloatArray, FloatArray]:
        """Return the scores of rows and the squared length of what they leave of each.  # shapes: (m, k), (m,)"""
        assert not isinstance(self.projection, MatrixProjection)
        return self.projection.parts(X, threads=threads)

    def explained_outside(self, threads: int) -> float:
        """Return the share of the variance of held-out rows that the components of the others explain."""
        scores, left = self.parts(self.held, threads)
        explained = np.einsum("ij,ij->i", scores, scores)
        total = float(self.held_weights @ (explained + left))
        return float(self.held_weights @ explained) / total if total > 0 else float("nan")


class Case:
    """A fitted model, its rows and new ones. `rows` is None where the model keeps none and none were given."""

    def __init__(self, model: Any, X: Any, new: Any, resamples: int, seed: int) -> None:
        self.model, self.resamples, self.seed = model, resamples, seed
        self.center, self.threads = bool(model.center), thread_count(model.n_jobs)
        self.values: FloatArray = np.asarray(model.eigenvalues_, dtype=np.float64)  # those kept, shape: (k,)
        self.feature_map: Any = getattr(model, "feature_map_", None)  # None for an exact model
        self.precomputed = model.kernel_ is None  # there is a matrix in the place of rows of data
        self.kernel: Kernel = Entries(model.X_fit_) if self.precomputed else model.kernel_
        self.psd = self.kernel.psd_in(model.n_features_in_)
        self.slow = _has_calls(self.kernel)
        roots = getattr(model, "_roots", None)
        # of all rows of the fit, all positive; then those of `rows`, and whether these are all rows of the fit
        self.fit_weights: FloatArray | None = None if roots is None or roots.size == 1 else np.square(roots[:, 0])
        self.weights, self.whole = self.fit_weights, True
        if not self.precomputed:
            self.rows: Any = self._some_rows(X)  # shape: (n, d)
            self.new: Any = None if new is None else some_rows(self._loaded(new)[0], _MOST_ROWS, seed)  # shape: (m, d)
            return
        if X is not None or new is not None:
            raise InputError("A model of a precomputed kernel has no rows of data; leave X and new at None.")
        self.new, n = None, model.X_fit_.shape[0]
        self.rows = np.arange(n, dtype=np.float64)[:, None]
        if model.eigenvectors_.shape[0] != n:  # rows of weight 0 have coefficients of 0
            self.rows = self.rows[np.any(model._projection.coefficients != 0, axis=1)]
        if self.weights is not None and len(self.weights) != len(self.rows):
            self.weights = None

    def _some_rows(self, X: Any) -> Any:
        """Return the rows to look at, None if there are none; sets their weights, and whether they are all."""
        model, weights = self.model, self.fit_weights
        if X is None:
            kept = isinstance(model, KernelPCA) and self.feature_map is None
            if not kept or model.X_fit_.shape[0] != model.eigenvectors_.shape[0]:  # a compressed model has landmarks
                self.weights, self.whole = None, False
                return None
            X = model.X_fit_
        else:
            X, whole = self._loaded(X)
            check_rows(X.shape[0])
            if weights is not None and (len(weights) != X.shape[0] or not whole):
                needed = f"the {len(weights)} rows of positive weight that the model was fitted to, in memory"
                raise InputError(f"X must be {needed}; got {X.shape[0]} rows: their weights would not be known.")
            streamed = isinstance(model, IncrementalKernelPCA)
            fitted = model.n_samples_seen_ if streamed else model.eigenvectors_.shape[0]
            self.whole = whole and X.shape[0] == fitted
        some = row_sample(X.shape[0], _MOST_ROWS, self.seed)
        if some is None:
            return X
        self.weights, self.whole = None if weights is None else weights[some], False
        return X[some]

    def _loaded(self, X: Any) -> tuple[Any, bool]:
        """Return rows as the model takes them, of a file a sample, and whether they are all rows."""
        if in_memory(X):
            rows = self.model._checked(X)
            return (rows.tocsr() if sparse.issparse(rows) else rows), True
        source = as_source(X)
        some = sample_rows(source, _MOST_ROWS, self.seed)
        return self.model._checked(some), source.n_rows is not None and some.shape[0] == source.n_rows

    def need_rows(self, *, of_data: bool = False) -> None:
        """Take no look without rows, or without rows of data."""
        if of_data and self.precomputed:
            raise NotLooked("a precomputed kernel has no rows of data")
        if self.rows is None:
            raise NotLooked("the model keeps no training rows: give them as X")

    @property
    def effective(self) -> float:
        """What the rows of the fit are worth, (sum w)^2 / sum w^2."""
        if isinstance(self.model, IncrementalKernelPCA):
            return float(min(self.model.n_samples_seen_, self.model.mass_))
        w = self.fit_weights
        return float(self.model.eigenvectors_.shape[0] if w is None else w.sum() ** 2 / (w**2).sum())

    @cached_property
    def solid(self) -> FloatArray:
        """The kept eigenvalues that are more than rounding."""
        return np.asarray(self.values[self.values > _NO_VARIANCE * self.values.max(initial=0.0)])

    @cached_property
    def groups(self) -> NDArray[np.intp]:
        """The same number for rows that are the same to the kernel, in order of appearance.  # shape: (n,)"""
        seen, kernel = self.rows, self.kernel
        if isinstance(kernel, Entries):
            some = self.rows[:, 0].astype(np.intp)
            if isinstance(kernel.K, LinearOperator):  # which has no rows to compare
                return np.arange(len(some))
            seen = kernel.K if len(some) == kernel.K.shape[0] else kernel.K[some]
        elif isinstance(kernel, Cosine) or (isinstance(kernel, ArcCosine) and kernel.order == 0):
            seen = Cosine().prepare(self.rows)  # these see directions only
            digits = _UNIT_DIGITS[seen.dtype]
            if sparse.issparse(seen):
                seen.data = np.round(seen.data, digits)
            else:
                seen = np.round(seen, digits)
        numbers: dict[bytes, int] = {}
        return np.array([numbers.setdefault(key, len(numbers)) for key in row_keys(seen)], dtype=np.intp)

    @cached_property
    def sample(self) -> NDArray[np.intp]:
        """Numbers of the rows that stand for all.  # shape: (m,)"""
        n, most = self.rows.shape[0], _SAMPLE_OF_CALLS if self.slow else _SAMPLE
        drawn = row_sample(n, most, self.seed)
        return np.arange(n) if drawn is None else drawn

    @property
    def sampled(self) -> str:
        """What to say of a figure that was measured on a sample, empty if it was not."""
        m = len(self.sample)
        return "" if self.whole and m == self.rows.shape[0] else f" (estimated on {m:,} rows)"

    @cached_property
    def some(self) -> Any:
        """The sampled rows in float64, dense or CSR.  # shape: (m, d)"""
        return as_float64(self.rows[self.sample])

    @cached_property
    def roots(self) -> FloatArray:
        """Square roots of the weights of the sampled rows.  # shape: (m,)"""
        return np.ones(len(self.sample)) if self.weights is None else np.sqrt(self.weights[self.sample])

    def matrix_of(self, kernel: Kernel, *, centred: bool = True) -> FloatArray:
        """Return the (centred) kernel matrix of the sampled rows, as a fit would compute it.  # shape: (m, m)"""
        if isinstance(kernel, Linear) and centred:
            return self.products_of(self.some)
        shifted = centred and better_shifted(kernel, self.some)
        K = Gram(kernel, self.some, scale=self.roots, shifted=shifted, threads=self.threads).matrix()
        return center(K, self.roots) if centred else K

    def products_of(self, rows: Any) -> FloatArray:
        """Return the centred inner products of rows that belong to the sampled ones.  # shape: (m, m)"""
        if sparse.issparse(rows):
            roots = sparse.diags(self.roots)
            return center((roots @ rows @ rows.T @ roots).toarray(), self.roots)
        relative = (rows - mean_of_rows(rows, self.roots**2)) * self.roots[:, None]  # an offset costs no digits
        return np.asarray(relative @ relative.T)

    @cached_property
    def matrix(self) -> FloatArray:
        """The centred kernel matrix of the sampled rows.  # shape: (m, m)"""
        return self.matrix_of(self.kernel)

    @cached_property
    def spectrum(self) -> FloatArray:
        """All eigenvalues of `matrix`, largest first.  # shape: (m,)"""
        return np.linalg.eigvalsh(self.matrix)[::-1]

    @cached_property
    def halves(self) -> list[Half]:
        """The model fitted to half of the rows, for few rows also the other way round; none where there are too few.

        Rows that are equal stay together: a twin that was held out is no news.
        """
        random = np.random.default_rng([self.seed, 1])
        some = random.permutation(self.rows.shape[0])[: _MOST_OF_CALLS if self.slow else _MOST]
        _, group = np.unique(self.groups[some], return_inverse=True)
        side = random.permutation(int(group.max()) + 1)[group] * 2 <= group.max()
        one, other = np.sort(some[side]), np.sort(some[~side])
        if min(len(one), len(other)) * 2 < _FEWEST:
            return []
        turns = [(one, other), (other, one)] if len(some) <= _BOTH_WAYS else [(one, other)]
        return [self._half(*turn) for turn in turns]

    def _half(self, fitted: NDArray[np.intp], held: NDArray[np.intp]) -> Half:
        count = min(len(self.values), max(1, len(fitted) // _ROWS_PER_COMPONENT))
        request = Request(count, _TOL, center=self.center, seed=self.seed, threads=self.threads)
        weights = np.ones(self.rows.shape[0]) if self.weights is None else self.weights
        rows = as_float64(self.rows[fitted])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what the model itself has warned of
            found = decompose(self.kernel, rows, None if self.weights is None else weights[fitted], request)
        values, trace, mass = found.spectrum.values, found.spectrum.trace, float(weights[fitted].sum())
        found = found.head(max(1, int(np.count_nonzero(values > 0))))
        explained = float(values.sum() / trace) if trace > 0 else float("nan")
        sizes = (mass, explained, float(trace) / mass, float(np.abs(self.kernel.diagonal(rows)).mean()))
        others = as_float64(self.rows[held])
        return Half(found.projection, found.spectrum.values, *sizes, fitted, others, weights[held])


def _has_calls(kernel: Kernel) -> bool:
    """Return True if kernel values are dear: calls of Python, or products of a LinearOperator."""
    if isinstance(kernel, Composite):
        return any(_has_calls(member) for member in kernel.members)
    if isinstance(kernel, Entries):
        return isinstance(kernel.K, LinearOperator)  # a column of it is a product
    return isinstance(kernel, PairwiseCallable)


def row_keys(X: Any) -> list[bytes]:
    """Return a digest of each row: the same for equal rows of the same kind and dtype."""
    if sparse.issparse(X):
        X = canonical(sparse.csr_matrix(X))
    return [hashlib.blake2b(_row_bytes(X, i), digest_size=16).digest() for i in range(X.shape[0])]


def _row_bytes(X: Any, i: int) -> bytes:
    if isinstance(X, np.ndarray):
        return bytes((X[i] + 0.0).tobytes())  # -0.0 is 0.0
    part = slice(X.indptr[i], X.indptr[i + 1])
    stored = X.data[part] != 0
    return bytes(X.indices[part][stored].astype(np.int64).tobytes() + X.data[part][stored].tobytes())
