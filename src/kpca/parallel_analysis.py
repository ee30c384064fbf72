"""Parallel analysis: which eigenvalues are larger than those of data without any structure.

The null is the data with each column permuted on its own: every variable keeps its values, and nothing of how they
hang together is left. A component counts while its eigenvalue is above a high quantile of the one of the same number
in such data (Horn 1965; Buja & Eyuboglu 1992 for permutations and quantiles; Jorgensen & Hansen 2011 for kernels).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kpca.gram import Centered, Gram, MatrixGram
from kpca.gram.factored import Factored
from kpca.gram.workers import in_order
from kpca.kernels import Kernel, Linear
from kpca.planning.rules import better_shifted
from kpca.spectrum import solve_krylov

FloatArray = NDArray[Any]
# Up to this many rows, and from this share of all components on, LAPACK's values of the whole matrix are the quicker.
_WHOLE_ROWS, _WHOLE_SHARE = 700, 1 / 40
# Residual of the pairs found by products: their values are then right to about its square, far below the null's spread.
_TOL = 1e-3
# A column of a sparse matrix with more than this share of entries is permuted whole.
_CROWDED = 0.25
# What rounding may add to an eigenvalue, relative to the largest.
_ROUNDING = 1e-10


@dataclass(frozen=True)
class ParallelAnalysis:
    """Eigenvalues of the data and of data without structure, and how many of the first stand out."""

    values: FloatArray  # of the data, descending, shape: (k,)
    null: FloatArray  # quantile of those of the permuted data, shape: (k,)
    count: int  # leading components above the null
    excess: float  # sum over those of (value - null), relative to the trace of the data's operator


def parallel_analysis(
    kernel: Kernel,
    X: Any,
    max_components: int,
    *,
    permutations: int = 20,
    quantile: float = 0.95,
    center: bool = True,
    seed: int = 0,
    threads: int = 1,
    max_rows: int = 2000,
) -> ParallelAnalysis:
    """Count the components whose eigenvalues are above those of the data with independently permuted columns.

    Parameters
    ----------
    kernel : a kernel of `kpca.kernels`, with its parameters; the permuted data are compared under the same.
    X : (n, d) array or CSR matrix of finite numbers.
    max_components : how many components are looked at.
    permutations : how often the columns are permuted.
    quantile : of the permuted data's eigenvalues that must be exceeded.
    max_rows : of more rows than this a sample is used, the same for the same seed.

    Examples
    --------
    >>> import numpy as np
    >>> from kpca import kernels
    >>> random = np.random.default_rng(0)
    >>> X = random.standard_normal((300, 2)) @ random.standard_normal((2, 10)) + random.standard_normal((300, 10))
    >>> parallel_analysis(kernels.Linear(), X, 8).count
    2
    """
    if X.shape[0] > max_rows:
        X = X[np.sort(np.random.default_rng(seed).choice(X.shape[0], max_rows, replace=False))]
    n, d = X.shape
    k = min(max_components, n - 1 if center else n, d if isinstance(kernel, Linear) else n)
    values, trace = leading_values(kernel, X, k, center=center, threads=threads)
    drawn = np.empty((permutations, k))

    def commit(number: int, found: FloatArray) -> None:
        drawn[number] = found

    def permuted_values(number: int) -> FloatArray:
        rows = permuted(X, np.random.default_rng([seed, number]))
        return leading_values(kernel, rows, k, center=center)[0]

    in_order(list(range(permutations)), lambda: permuted_values, commit, threads)
    null = np.quantile(drawn, quantile, axis=0)
    above = values > null + _ROUNDING * max(float(values[0]), float(null[0]))
    count = k if above.all() else int(np.argmin(above))
    excess = float((values - null)[:count].sum()) / trace if count else 0.0
    return ParallelAnalysis(values, null, count, excess)


def leading_values(kernel: Kernel, X: Any, k: int, *, center: bool, threads: int = 1) -> tuple[FloatArray, float]:
    """Return the k largest eigenvalues of the (centred) kernel matrix, at least 0, and its trace.  # shape: (k,)"""
    if isinstance(kernel, Linear):
        operator: Any = Factored(X, centred=center, threads=threads)
    else:
        gram = Gram(kernel, X, shifted=center and better_shifted(kernel, X), threads=threads)
        operator = Centered(gram) if center else gram
    B = operator.matrix()
    if len(B) <= _WHOLE_ROWS or k > _WHOLE_SHARE * len(B):
        values = np.linalg.eigvalsh(B)[::-1][:k]
    else:
        values = solve_krylov(MatrixGram(B), k, _TOL).values
    return np.maximum(values, 0.0), float(np.trace(B))


def permuted(X: Any, random: np.random.Generator) -> Any:
    """Return X with every column permuted on its own; a CSR matrix stays one, with the same number of entries."""
    if not sparse.issparse(X):
        return random.permuted(X, axis=0)
    columns = X.tocsc()
    n, counts = X.shape[0], np.diff(columns.indptr)
    rows = np.empty(columns.nnz, dtype=np.int64)
    crowded = np.flatnonzero(counts > _CROWDED * n)
    for column in crowded:
        rows[columns.indptr[column] : columns.indptr[column + 1]] = random.permutation(n)[: counts[column]]
    few = np.flatnonzero(np.repeat(counts <= _CROWDED * n, counts))
    rows[few] = _distinct(n, np.repeat(np.arange(X.shape[1]), counts)[few], random)
    moved = sparse.csc_matrix((columns.data, rows, columns.indptr), shape=X.shape)
    moved.sort_indices()
    return moved.tocsr()


def _distinct(n: int, columns: NDArray[np.int64], random: np.random.Generator) -> NDArray[np.int64]:
    """Return a random row for each entry, none twice in a column: what is taken is drawn again.  # shape: (nnz,)"""
    rows = random.integers(0, n, len(columns))
    while True:
        _, first = np.unique(columns * n + rows, return_index=True)
        if len(first) == len(rows):
            return rows
        again = np.ones(len(rows), dtype=bool)
        again[first] = False
        rows[again] = random.integers(0, n, int(again.sum()))
