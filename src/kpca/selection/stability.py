"""How far components depend on the rows that happened to be drawn: the bootstrap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from kpca._base.linalg import FloatArray, mean_of_rows
from kpca._base.threads import in_order
from kpca.estimators.cost import better_shifted
from kpca.gram import Gram, MatrixGram
from kpca.gram.operator import center as centred
from kpca.kernels import Kernel, Linear
from kpca.selection.rows import some_rows
from kpca.spectrum import solve_krylov

# An eigenvalue below this part of the largest is rounding; its scores say nothing.
_NO_VARIANCE = 1e-12
# Up to this many rows, and from this share of all components on, LAPACK's pairs of the whole matrix are the quicker;
# residuals of the others are far below what another draw of the rows changes.
_WHOLE_ROWS, _WHOLE_SHARE, _TOL = 400, 1 / 12, 1e-5


@dataclass(frozen=True)
class Stability:
    """Squared cosines between components of the data and of resampled data; 1 is the same, 0 unrelated."""

    components: FloatArray  # each component with the one of the same number; 0 without variance, shape: (k,)
    subspaces: FloatArray  # the spans of the first 1, 2, ... components, mean over canonical angles, shape: (k,)
    resamples: int


def bootstrap_stability(
    kernel: Kernel,
    X: Any,
    n_components: int,
    *,
    center: bool = True,
    resamples: int = 10,
    seed: int = 0,
    threads: int = 1,
    max_rows: int = 1000,
) -> Stability:
    """Say how much each component, and the span of the first ones, changes when the rows are drawn again.

    Rows are drawn with replacement, which is to weigh them by how often each was drawn. Components are compared by the
    scores they give to the same probe rows, all rows of X, less their mean: for a component the squared correlation,
    for a subspace the mean squared cosine of the canonical angles. Both ignore signs; only the second ignores an
    exchange of components whose eigenvalues are close. If there are more than `max_rows` rows, a sample is used.
    """
    X = some_rows(X, max_rows, seed)
    n = X.shape[0]
    if isinstance(kernel, Linear) and center and not sparse.issparse(X):
        rows = X - mean_of_rows(X)  # before the product, so that an offset costs no digits
        K: FloatArray = rows @ rows.T
    else:  # up to a constant where it will be centred
        K = Gram(kernel, X, shifted=center and better_shifted(kernel, X), threads=threads).matrix()
    k = min(n_components, n - 1 if center else n)
    whole = _orthonormal(_scores(K, np.ones(n), k, center=center))
    rank = np.minimum(np.arange(1, k + 1), max(1, int(np.count_nonzero(whole.any(axis=0)))))
    totals = np.zeros((2, k))

    def compare(number: int) -> tuple[FloatArray, FloatArray]:
        scores = _scores(K, _draw(n, np.random.default_rng([seed, number])), k, center=center)
        # squared cosines of each pair of columns, those of `whole` being of unit length or 0
        lengths, products = (np.einsum("ij,ij->j", other, scores) for other in (scores, whole))
        cosines = np.divide(products**2, lengths, out=np.zeros_like(lengths), where=lengths > 0)
        # and between the spans of the first 1, 2, ... columns
        squares = np.square(whole.T @ _orthonormal(scores))
        return cosines, np.cumsum(np.cumsum(squares, axis=0), axis=1).diagonal() / rank

    def commit(_: int, found: tuple[FloatArray, FloatArray]) -> None:
        np.add(totals, found, out=totals)

    in_order(list(range(resamples)), lambda: compare, commit, threads)
    components, subspaces = np.clip(totals / resamples, 0.0, 1.0)
    return Stability(components, subspaces, resamples)


def _draw(n: int, random: np.random.Generator) -> FloatArray:
    """Return how often each of n rows is drawn in n draws; again, if it was one row only.  # shape: (n,)"""
    while True:
        counts = np.bincount(random.integers(0, n, n), minlength=n)
        if np.count_nonzero(counts) > 1:
            return counts.astype(np.float64)


def _scores(K: FloatArray, weights: FloatArray, k: int, *, center: bool) -> FloatArray:
    """Return scores of all rows on the components of the weighted ones, less their mean; 0 without variance.

    t = A'k_x with A = S U / sqrt(lambda), 1'A = 0 (docs/mathematics.md, section 1).  # shape: (n, k)
    """
    present = np.flatnonzero(weights)
    roots = np.sqrt(weights[present])
    M = K[np.ix_(present, present)] * np.multiply.outer(roots, roots)
    if center:
        M = centred(M, roots)
    most = min(k, len(present))
    if len(M) <= _WHOLE_ROWS or most > _WHOLE_SHARE * len(M):
        values, vectors = (found[..., ::-1][..., :most] for found in np.linalg.eigh(M))
    else:
        pairs = solve_krylov(MatrixGram(M), most, _TOL)
        values, vectors = pairs.values, pairs.vectors
    solid = values > _NO_VARIANCE * max(float(values[0]), 0.0)
    A = vectors[:, solid] * roots[:, None] / np.sqrt(values[solid])
    if center:
        shares = weights[present] / weights.sum()
        A -= np.multiply.outer(shares, A.sum(axis=0))
    scores = np.zeros((len(K), k))
    scores[:, np.flatnonzero(solid)] = K[:, present] @ A
    return scores - scores.mean(axis=0) if center else scores


def _orthonormal(scores: FloatArray) -> FloatArray:
    """Return Q of scores = Q R, with zero columns where the scores are 0: the first j span those of the first j."""
    Q = np.zeros_like(scores)
    present = np.flatnonzero(scores.any(axis=0))
    Q[:, present] = np.linalg.qr(scores[:, present])[0]
    return Q
