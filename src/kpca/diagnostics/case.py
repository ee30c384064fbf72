"""A fitted model with the rows it was fitted to, and what several looks share: computed once, when first asked for."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

from kpca.diagnostics.entries import Entries
from kpca.diagnostics.halves import Half, halves_of
from kpca.gram import Gram
from kpca.gram.operator import center
from kpca.kernels import ArcCosine, Composite, Cosine, Kernel, Linear, PairwiseCallable
from kpca.kernels._checks import as_float64, canonical
from kpca.linalg import mean_of_rows
from kpca.planning.rules import better_shifted

FloatArray = NDArray[Any]
# Rows of the matrix that is looked at as a whole; fewer where each kernel value is a call of Python.
_SAMPLE, _SAMPLE_OF_CALLS = 1000, 150
# Digits to which rows of unit length must agree to be the same row.
_UNIT_DIGITS = {np.dtype(np.float64): 10, np.dtype(np.float32): 5}


@dataclass(frozen=True, eq=False)
class Case:
    """What is looked at. `rows` is None where the model keeps none and none were given."""

    model: Any
    kernel: Kernel  # Entries of a precomputed matrix
    rows: Any  # shape: (n, d)
    weights: FloatArray | None  # of `rows`, all positive
    whole: bool  # True if `rows` are all rows of the fit
    new: Any  # shape: (m, d)
    names: list[str] | None  # of the columns
    center: bool
    values: FloatArray  # kept eigenvalues, float64, shape: (k,)
    effective: float  # rows of the fit, (sum w)^2 / sum w^2
    feature_map: Any  # None for an exact model
    resamples: int
    seed: int
    threads: int

    @property
    def linear(self) -> bool:
        """True if this is PCA."""
        return isinstance(self.kernel, Linear)

    @property
    def precomputed(self) -> bool:
        """True if there is a matrix in the place of rows of data."""
        return isinstance(self.kernel, Entries)

    @property
    def slow(self) -> bool:
        """True if kernel values are dear: calls of Python, or products of a LinearOperator."""
        return _has_calls(self.kernel)

    def why_no_data(self) -> str | None:
        """Return why there are no rows of data to look at, None if there are."""
        if self.precomputed:
            return "a precomputed kernel has no rows of data"
        return self.why_no_rows()

    def why_no_rows(self) -> str | None:
        """Return why there is nothing to compare rows by, None if there is."""
        return "the model keeps no training rows: give them as X" if self.rows is None else None

    @cached_property
    def groups(self) -> NDArray[np.intp]:
        """The same number for rows that are the same to the kernel.  # shape: (n,)"""
        return groups_of(self._seen_by_kernel())

    def _seen_by_kernel(self) -> Any:
        if isinstance(self.kernel, Entries):
            K, some = self.kernel.K, self.rows[:, 0].astype(np.intp)
            return K if len(some) == K.shape[0] else K[some]
        if isinstance(self.kernel, Cosine) or (isinstance(self.kernel, ArcCosine) and self.kernel.order == 0):
            unit = Cosine().prepare(self.rows)  # these see directions only
            digits = _UNIT_DIGITS[unit.dtype]
            if sparse.issparse(unit):
                unit.data = np.round(unit.data, digits)
                return unit
            return np.round(unit, digits)
        return self.rows

    @cached_property
    def sample(self) -> NDArray[np.intp]:
        """Numbers of the rows that stand for all.  # shape: (m,)"""
        n, most = self.rows.shape[0], _SAMPLE_OF_CALLS if self.slow else _SAMPLE
        if n <= most:
            return np.arange(n)
        return np.sort(np.random.default_rng(self.seed).choice(n, most, replace=False))

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
        products: FloatArray = relative @ relative.T
        return products

    @cached_property
    def matrix(self) -> FloatArray:
        """The centred kernel matrix of the sampled rows.  # shape: (m, m)"""
        return self.matrix_of(self.kernel)

    @cached_property
    def spectrum(self) -> FloatArray:
        """All eigenvalues of `matrix`, largest first.  # shape: (m,)"""
        values: FloatArray = np.linalg.eigvalsh(self.matrix)[::-1]
        return values

    @cached_property
    def halves(self) -> list[Half]:
        """The model fitted to one half of the rows, ready for the other; empty where there are too few."""
        return halves_of(self)


def _has_calls(kernel: Kernel) -> bool:
    if isinstance(kernel, Composite):
        return any(_has_calls(member) for member in kernel.members)
    if isinstance(kernel, Entries):
        return isinstance(kernel.K, LinearOperator)  # a column of it is a product
    return isinstance(kernel, PairwiseCallable)


def groups_of(X: Any) -> NDArray[np.intp]:
    """Return a number for each row, the same for rows that are equal, in order of appearance.  # shape: (n,)"""
    if not (isinstance(X, np.ndarray) or sparse.issparse(X)):
        return np.arange(X.shape[0])  # a LinearOperator has no rows to compare
    numbers: dict[bytes, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in row_keys(X)], dtype=np.intp)


def row_keys(X: Any) -> list[bytes]:
    """Return a digest of each row: the same for equal rows of the same kind and dtype."""
    if sparse.issparse(X):
        X = canonical(sparse.csr_matrix(X))
    return [hashlib.blake2b(_row_bytes(X, i), digest_size=16).digest() for i in range(X.shape[0])]


def _row_bytes(X: Any, i: int) -> bytes:
    if isinstance(X, np.ndarray):
        dense: bytes = (X[i] + 0.0).tobytes()  # -0.0 is 0.0
        return dense
    part = slice(X.indptr[i], X.indptr[i + 1])
    stored = X.data[part] != 0
    where: bytes = X.indices[part][stored].astype(np.int64).tobytes()
    what: bytes = X.data[part][stored].tobytes()
    return where + what
