"""The Nystroem feature map: kernel values with some points, whitened, so that their dot products are kernel values."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import lapack, solve_triangular
from scipy.linalg.blas import dtrmm

from kpca._base.errors import InputError
from kpca._base.linalg import FloatArray
from kpca._base.threads import in_order, single_threaded
from kpca.gram.engine import Evaluator, evaluator, has_single
from kpca.gram.tiles import edges, piece_rows
from kpca.kernels import Kernel

SINGLE, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)
# Rows whose kernel values are made at once, by bytes of an entry; more of few landmarks, up to so many bytes: threads
# that call BLAS for shorter work than that wait for each other.
_ROWS, _MOST_ROWS, _BYTES_AT_ONCE = {4: 512, 8: 288}, 4096, 1_600_000
# The whitening is a triangle; in this many bands of rows nearly half of the work is saved, and GEMM still runs well.
_BANDS = 8
_NARROWEST_BAND = 64
# A landmark of which the others leave less than this share of k(z, z), for each landmark, is a linear combination.
_DEPENDENT = 8.0 * float(np.finfo(np.float64).eps)
# float32 is used where features stay right to this share of sqrt(k(x, x)); measured on some landmarks, whose features
# are known, with a factor to be on the safe side for other rows.
_SINGLE_ERROR, _SAFETY, _PROBES = 1e-3, 2.0, 256
_ROUNDINGS = 8.0
_DOUBLE_ERROR, _LEAST_SINGLE_ERROR = 1e-12, 4.0 * float(np.finfo(np.float32).eps)


class NystroemMap:
    """f(x) = L^-1 k(Z, x) with L L' = K(Z, Z): f(x).f(y) = k(x, Z) K(Z, Z)^+ k(Z, y).

    Points that are linear combinations of others in feature space, such as duplicates, are left out (pivoted Cholesky,
    in float64), so `rank` may be lower than the number of points given; `landmarks` are the points kept and `kept`
    their places among those given.

    Features have the dtype of X. float32 rows are computed in float32 only where that keeps the features right to 1e-3
    of sqrt(k(x, x)), which is measured once, on the landmarks: L^-1 multiplies the rounding of kernel values by up to
    the root of the condition number of K(Z, Z). Where that is too much (wide bandwidths, close landmarks), kernel
    values and whitening are float64 and only the result is rounded; `precision` tells which.
    """

    def __init__(self, kernel: Kernel, points: Any, dtype: Any = np.float64) -> None:
        kernel.check(points)
        self._kernel = kernel
        points = points.astype(np.dtype(dtype), copy=False)
        self.kept, lower = _independent(kernel, points)
        self._points = points[self.kept]
        with single_threaded():
            # shape: (r, r), lower triangle; row j makes feature j
            self._whitening: FloatArray = np.tril(solve_triangular(lower, np.eye(len(lower)), lower=True))
        self._memos: dict[bool, dict[Any, Any]] = {}
        self._forms: dict[bool, Any] = {}
        self._single_error = math.inf
        if has_single(kernel, self._points):
            # measured on float32 features of landmarks, which are the rows of L
            some = np.unique(np.linspace(0, self.rank - 1, min(self.rank, _PROBES)).astype(np.intp))
            found = np.empty((len(some), self.rank), dtype=SINGLE)
            self._fill(self._points[some], SINGLE, found, 1)
            sizes = np.sqrt(np.einsum("ij,ij->i", lower[some], lower[some]))
            errors = np.sqrt(np.square(found - lower[some]).sum(axis=1)) / sizes
            self._single_error = _SAFETY * float(errors.max())

    @property
    def kernel(self) -> Kernel:
        return self._kernel

    @property
    def rank(self) -> int:
        return len(self._whitening)

    @property
    def exact(self) -> bool:
        """True where the kernel is positive semidefinite: K - F F' is so too then."""
        return self._kernel.psd_in(self._points.shape[1])

    @property
    def landmarks(self) -> Any:
        return self._points

    def precision(self, dtype: Any) -> np.dtype[Any]:
        """Return the dtype in which rows of this dtype must be computed: float64, unless float32 is enough."""
        return SINGLE if np.dtype(dtype) == SINGLE and self._single_error <= _SINGLE_ERROR else DOUBLE

    def error(self, dtype: Any) -> float:
        """Return how wrong features may be, as a share of sqrt(k(x, x)); of float32 measured, otherwise rounding."""
        if self.precision(dtype) == SINGLE:
            return max(self._single_error, _LEAST_SINGLE_ERROR)  # landmarks alone may happen to have none
        return float(np.finfo(SINGLE).eps) if np.dtype(dtype) == SINGLE else _DOUBLE_ERROR

    @cached_property
    def rounding(self) -> NDArray[np.float64]:
        """What float64 may do to each feature, as a share of k(x, x): L^-1 enlarges the rounding of kernel values.

        It does so most where little is left of a landmark, where there is little to find, too: eigenvalues hardly
        notice, eigenvectors do.  # shape: (r,)
        """
        lengths = np.sqrt(np.einsum("ij,ij->i", self._whitening, self._whitening))
        return np.asarray(_ROUNDINGS * float(np.finfo(np.float64).eps) * lengths)

    def __call__(self, X: Any, *, threads: int = 1) -> FloatArray:
        out = np.empty((X.shape[0], self.rank), dtype=SINGLE if X.dtype == SINGLE else DOUBLE)
        self._fill(X, self.precision(X.dtype), out, threads)
        return out

    def unexplained(self, X: Any, features: FloatArray) -> NDArray[np.float64]:
        """Return k(x, x) - |f(x)|^2, at least 0: what the features leave out of each row.  # shape: (m,)"""
        left: NDArray[np.float64] = self._kernel.diagonal(X)
        left = left - np.einsum("ij,ij->i", features, features, dtype=np.float64)
        return np.maximum(left, 0.0, out=left)

    def coefficients(self, V: FloatArray) -> NDArray[np.float64]:
        """Return W with f(x) V = k(x, landmarks) W; multiply in `precision(X.dtype)`.  # shape: (r, k)"""
        with single_threaded():
            product: NDArray[np.float64] = self._whitening.T @ np.asarray(V, dtype=np.float64)
        return product

    def combination(self, feature: FloatArray) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return c with L^-1 K c = feature, a combination of landmarks, and its inner products with them, K c.

        # shapes: (r,), (r,)
        """
        levels: NDArray[np.float64] = solve_triangular(self._whitening, feature, lower=True)
        return self.coefficients(feature[:, None])[:, 0], levels

    def sampled_error(self, X: Any, seed: int = 0) -> float:
        """Return the root mean square of K - F F', measured among some rows: for kernels where nothing bounds it."""
        n = X.shape[0]
        some = np.sort(np.random.default_rng(seed).choice(n, min(n, _PROBES), replace=False))
        rows = X[some].astype(np.float64)
        F = self(rows)
        gaps = np.square(np.asarray(self._kernel.block(rows, rows), dtype=np.float64) - F @ F.T)
        own, m = float(np.trace(gaps)), len(some)
        others = float(gaps.sum()) - own
        # the diagonal has n entries of n^2, whatever its share of the sample is
        return math.sqrt(own / (m * n) + others / max(1, m * (m - 1)) * (n - 1) / n)

    def whitened(self, values: FloatArray) -> NDArray[np.float64]:
        """Return L^-1 times rows that stand for the landmarks, such as K(Z, X) A.  # shape: (r, k)"""
        with single_threaded():
            product: NDArray[np.float64] = self._whitening @ values
        return product

    def whitened_twice(self, S: FloatArray) -> NDArray[np.float64]:
        """Return L^-1 S L^-T of a symmetric float64 matrix, which is overwritten.  # shape: (r, r)"""
        upper = self._whitening.T  # in the order of columns that BLAS takes as it is, as is the transpose of S
        with single_threaded():
            half = dtrmm(1.0, upper, S.T, side=1, overwrite_b=1)
            product: NDArray[np.float64] = dtrmm(1.0, upper, half, trans_a=1, overwrite_b=1)
        product += product.T.copy()
        product *= 0.5
        return product

    def fill_values(self, X: Any, out: FloatArray) -> None:
        """Write the kernel values of rows with the landmarks, in the dtype of `out`.  # shape: (m, r)"""
        values, everything = self._evaluator(X, out.dtype), slice(0, self.rank)
        for piece in edges(X.shape[0], _ROWS[out.dtype.itemsize]):
            values.fill(piece, everything, out[piece])

    def __getstate__(self) -> dict[str, Any]:
        state = {name: value for name, value in self.__dict__.items() if name not in ("_bands", "rounding")}
        return {**state, "_memos": {}, "_forms": {}}  # made again where they are needed

    def _evaluator(self, X: Any, dtype: np.dtype[Any]) -> Evaluator:
        is_sparse, points = sparse.issparse(X), self._points
        if sparse.issparse(points) != is_sparse:
            if is_sparse not in self._forms:
                self._forms[is_sparse] = sparse.csr_matrix(points) if is_sparse else points.toarray()
            points = self._forms[is_sparse]
        return evaluator(self._kernel, X, points, dtype, memo=self._memos.setdefault(is_sparse, {}))

    def _fill(self, X: Any, dtype: np.dtype[Any], out: FloatArray, threads: int) -> None:
        bands, everything, shortest = self._bands[dtype], slice(0, self.rank), _ROWS[dtype.itemsize]
        height = max(shortest, min(_BYTES_AT_ONCE // (max(self.rank, 1) * dtype.itemsize), _MOST_ROWS) // 32 * 32)
        pieces = edges(X.shape[0], piece_rows(X.shape[0], self.rank, height))

        def make_worker() -> Any:
            scratch = np.empty((min(height, X.shape[0]), self.rank), dtype=dtype)

            def whiten(piece: slice) -> None:
                values, features = self._evaluator(X[piece], dtype), out[piece]
                for part in edges(len(features), height):
                    K = scratch[: part.stop - part.start]
                    values.fill(part, everything, K)
                    for band, rows in bands:
                        # features of a band need the landmarks up to its end only
                        features[part, band] = K[:, : band.stop] @ rows.T

            return whiten

        in_order(pieces, make_worker, lambda piece, nothing: None, threads)

    @cached_property
    def _bands(self) -> dict[np.dtype[Any], list[tuple[slice, FloatArray]]]:
        """L^-1 in bands of rows, as far as they are not 0, in both precisions."""
        count = max(1, min(_BANDS, self.rank // _NARROWEST_BAND))
        cuts = edges(self.rank, -(-self.rank // count)) if self.rank else []
        double = [(cut, np.ascontiguousarray(self._whitening[cut, : cut.stop])) for cut in cuts]
        return {DOUBLE: double, SINGLE: [(cut, rows.astype(SINGLE)) for cut, rows in double]}


def _independent(kernel: Kernel, points: Any) -> tuple[NDArray[np.intp], FloatArray]:
    """Return which points to keep, largest remainder first, and the Cholesky factor of their kernel matrix."""
    Z = points.astype(np.float64)
    # Overflow shows as infinity, which is met with a sentence below.
    with np.errstate(over="ignore", invalid="ignore"):
        K = np.asarray(kernel.block(Z, Z), dtype=np.float64)
        if not np.isfinite(K).all():
            raise InputError(f"Kernel values of landmarks must be finite; some are NaN or too large: {kernel.remedy}.")
    K = 0.5 * (K + K.T)
    # Rows of very different size are all taken seriously: what counts is the share of k(z, z) that others leave.
    diagonal = np.diagonal(K)
    scale = np.where(diagonal > 0, np.sqrt(np.where(diagonal > 0, diagonal, 1.0)), np.inf)
    with single_threaded():
        factor, pivots, rank, _ = lapack.dpstrf(K / scale / scale[:, None], tol=_DEPENDENT * len(K), lower=1)
    kept = (pivots - 1)[:rank].astype(np.intp)
    if not rank:
        raise InputError("Landmarks must have a positive k(z, z); got none that has: choose other points, or a kernel.")
    return kept, np.tril(factor[:rank, :rank]) * scale[kept, None]
