"""How many components stand out: by an elbow of the eigenvalues, or by parallel analysis, as n_components="auto" does.

Parallel analysis asks which eigenvalues are larger than those of data without any structure. The null is the data with
each column permuted on its own: every variable keeps its values, and nothing of how they hang together is left. A
component counts while its eigenvalue is above a high quantile of the one of the same number in such data (Horn 1965;
Buja & Eyuboglu 1992 for permutations and quantiles; Jorgensen & Hansen 2011 for kernels).
"""

from __future__ import annotations

import warnings
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kpca._base.config import memory_budget, require
from kpca._base.errors import InputError, Setting
from kpca._base.linalg import FloatArray, largest_eigenpairs, mean_of_rows
from kpca._base.threads import in_order, single_threaded
from kpca.estimators.cost import better_shifted
from kpca.estimators.memory import DECIDED_BY_ROWS, MOST_DECIDED, deciding_rows, decision_bytes, fits_dense
from kpca.gram import Centered, CrossGram, Gram, MatrixGram
from kpca.gram.factored import Factored
from kpca.kernels import Kernel, Linear
from kpca.kernels.callables import PairwiseCallable
from kpca.spectrum import solve_krylov

_PERMUTATIONS = 20
# Rows where each kernel value is a call of a Python function, some sixty matrices of them.
_ROWS_IN_PYTHON = 150
# An eigenvalue below this part of the largest is rounding.
_NO_VARIANCE = 1e-12
# Up to this many rows, and from this share of all components on, LAPACK's values of the whole matrix are the quicker.
_WHOLE_ROWS, _WHOLE_SHARE = 700, 1 / 40
# Residual of the pairs found by products: their values are then right to about its square, far below the null's spread.
_TOL = 1e-3
# A column of a sparse matrix with more than this share of entries is permuted whole.
_CROWDED = 0.25
# What rounding may add to an eigenvalue, relative to the largest.
_ROUNDING = 1e-10
# A clear case is decided by the first five or ten draws: below their mean, or so many standard deviations above it and
# so much larger than the largest.
_CLEAR_FROM_FIVE, _CLEAR_FROM_TEN, _CLEARLY_LARGER = 8.0, 5.0, 1.05
# How far rows are moved to see how much of their noise the scores follow, in residuals; and how often.
_MOVED, _MOVES = 0.3, 3
# The largest share of noise that is taken for followed; the pairs that are found at first.
_MOST_ABSORBED, _FIRST_PAIRS = 0.98, 16
# Components that are tested one after the other before strides are taken.
_ONE_BY_ONE = 8
# Standard deviations of the null above its mean that an eigenvalue must exceed.
_MARGIN = 3.0


@dataclass(frozen=True)
class Choice:
    """A number of components and one sentence on how it was found."""

    count: int
    reason: str


def choose_count(
    kernel: Kernel, X: Any, weights: FloatArray | None, *, center: bool = True, seed: int = 0, threads: int = 1
) -> Choice:
    """Decide by parallel analysis on at most 600 rows, drawn in proportion to their weights."""
    most = DECIDED_BY_ROWS if sparse.issparse(X) else deciding_rows(*X.shape)
    if isinstance(kernel, PairwiseCallable):
        most = min(most, _ROWS_IN_PYTHON)
    X = drawn_rows(X, weights, most, seed)
    n, d = X.shape
    dense = not sparse.issparse(X) or fits_dense(n, d)
    remedy = ("or give ", Setting("n_components"), " as a number")
    require(decision_bytes(n, d if dense else 0, threads), memory_budget, remedy)
    if d == 1:
        choice = _by_elbow(leading_values(kernel, X, min(n - 1, MOST_DECIDED), center=True, threads=threads)[0])
        choice = Choice(choice.count, f"A single column has nothing to permute. {choice.reason}")
    else:
        found, null = analysis(kernel, X, MOST_DECIDED, seed=seed, threads=threads)
        choice = Choice(max(1, found.count), said(found, null, MOST_DECIDED))
    return with_mean(choice, centred=center)


def with_mean(choice: Choice, *, centred: bool) -> Choice:
    """Return one component more for a model that is not centred: the mean is a component of its own there."""
    if centred:
        return choice
    return Choice(choice.count + 1, f"{choice.reason} One more holds the mean, as center=False leaves it in.")


def analysis(
    kernel: Kernel, X: Any, most: int, *, permutations: int = _PERMUTATIONS, seed: int = 0, threads: int = 1
) -> tuple[ParallelAnalysis, str]:
    """Return deflated parallel analysis and what its null is; the plain one for sparse rows too long to be dense."""
    if sparse.issparse(X) and not fits_dense(*X.shape):
        plain = parallel_analysis(kernel, X, most, permutations=permutations, seed=seed, threads=threads)
        return plain, "the data with permuted columns"
    how = {"permutations": permutations, "seed": seed, "threads": threads, "max_rows": X.shape[0]}
    return deflated_analysis(kernel, X, most, **how), "rows with the structure of the components before and no more"


def said(found: ParallelAnalysis, null: str, most: int) -> str:
    """Return what parallel analysis has found in a sentence."""
    count = found.count
    if count == 0:
        first, limit = (found.values[0], found.null[0]) if len(found.values) else (0.0, 0.0)
        why = f"eigenvalue 1, {first:.4g}, has to exceed {limit:.4g} for that"
        return f"Parallel analysis found no component above chance: {why}; one is kept."
    last = f"eigenvalue {count}, {found.values[count - 1]:.4g}, is above {found.null[count - 1]:.4g}"
    if count < len(found.values):
        end = f"eigenvalue {count + 1}, {found.values[count]:.4g}, is not above {found.null[count]:.4g}"
    else:
        end = f"no more than {most} were looked at" if count == most else "there are no more"
    return f"Parallel analysis against {null}: {last}, and {end}."


def choose_from_values(values: FloatArray) -> Choice:
    """Decide by the elbow: a matrix that comes precomputed has no columns to permute."""
    choice = _by_elbow(values)
    return Choice(choice.count, f"A precomputed kernel has no columns to permute. {choice.reason}")


def _by_elbow(values: FloatArray) -> Choice:
    positive = values[values > _NO_VARIANCE * max(float(values.max(initial=0.0)), 0.0)]
    number = len(positive)
    if number < 3:
        return Choice(max(1, number), f"Of components with variance there are {number}, too few for a choice.")
    count, _ = elbow(positive)
    before, after = positive[count - 1], positive[count]
    found = f"{count}: {before:.4g}, then {after:.4g}"
    return Choice(count, f"The likeliest elbow of the first {number} eigenvalues is after {found}.")


def drawn_rows(X: Any, weights: FloatArray | None, most: int, seed: int) -> Any:
    """Return at most this many rows, each drawn at most once, in their order, and those of large weight more often.

    Unequal weights w leave as many rows as the independent ones they are worth, (sum w)^2 / sum w^2.
    """
    n, shares = X.shape[0], None
    count = min(n, most)
    if weights is not None:
        worth = int(weights.sum() ** 2 / np.square(weights).sum() + 0.5)
        count = min(most, max(worth, 2), int(np.count_nonzero(weights)))
        shares = weights / weights.sum()
    return X if count == n else X[np.sort(np.random.default_rng(seed).choice(n, count, replace=False, p=shares))]


def elbow(values: FloatArray) -> tuple[int, FloatArray]:
    """Return how many values stand above the elbow, and the log-likelihood of 1, 2, ... of them.  # shape: (p - 1,)

    That is the profile likelihood of Zhu & Ghodsi (2006). The first q values are taken for draws of one normal law and
    the others for draws of another, with means of their own and one variance:

        l(q) = -(p/2) log(2 pi s^2) - p'/2,  s^2 = (sum_{i<=q} (v_i - m_1)^2 + sum_{i>q} (v_i - m_2)^2) / p', p' = p - 2

    Fewer than three values have no elbow: all of them are counted. Two groups of equal values fit exactly, and are
    infinitely likely.

    Examples
    --------
    >>> import numpy as np
    >>> elbow(np.array([9.0, 8.5, 8.0, 1.2, 1.1, 1.0, 0.9]))[0]
    3
    """
    v = np.sort(np.asarray(values, dtype=np.float64))[::-1]
    p = len(v)
    if p < 3:
        return p, np.zeros(max(p - 1, 0))
    q = np.arange(1, p)
    scale = float(np.abs(v).max()) or 1.0
    v = v / scale
    # sums of squared deviations from the mean of the first q and of the others
    head, head2 = np.cumsum(v)[:-1], np.cumsum(v**2)[:-1]
    tail, tail2 = v.sum() - head, (v**2).sum() - head2
    deviations = np.maximum(head2 - head**2 / q, 0.0) + np.maximum(tail2 - tail**2 / (p - q), 0.0)
    exact = deviations <= 1e-14 * (v**2).sum()
    with np.errstate(divide="ignore"):
        likelihood = -0.5 * p * np.log(2.0 * np.pi * deviations / (p - 2)) - 0.5 * (p - 2)
    likelihood[exact] = np.inf
    return int(np.argmax(likelihood)) + 1, likelihood


# -- parallel analysis ------------------------------------------------------------------------------------------------


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
    """Count the components whose eigenvalues exceed a quantile of those of the data with permuted columns."""
    X = drawn_rows(X, None, max_rows, seed)
    n, d = X.shape
    k = min(max_components, n - 1 if center else n, d if isinstance(kernel, Linear) else n)
    values, trace = leading_values(kernel, X, k, center=center, threads=threads)
    drawn: list[FloatArray] = []

    def permuted_values(number: int) -> FloatArray:
        rows = permuted(X, np.random.default_rng([seed, number]))
        return leading_values(kernel, rows, k, center=center)[0]

    in_order(list(range(permutations)), lambda: permuted_values, lambda _, found: drawn.append(found), threads)
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


# -- Parallel analysis that goes on from what it has found: is there structure beyond the first j components? ---------


def deflated_analysis(
    kernel: Kernel, X: Any, most: int, *, permutations: int = 20, seed: int = 0, threads: int = 1, max_rows: int = 600
) -> ParallelAnalysis:
    """Count components one after the other, each against data that have the structure of those before it, and no more.

    The result lists the components up to the first that did not count; `null` is what each had to exceed. Beyond the
    eighth not all are tested, and the null between is interpolated.
    """
    # BLAS's own threads, which go on spinning after a call, would take the cores from ours between two steps.
    with single_threaded(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is odd about the data the fit itself will say
        data = _Rows(kernel, X, max_rows, seed, threads)
        n, d = data.X.shape
        most = min(most, n - 1, d if isinstance(kernel, Linear) else n)
        tested: dict[int, float] = {}  # what each eigenvalue that was looked at had to exceed

        def counts(j: int) -> bool:
            value, first = data.value(j), data.value(0)
            if value <= max(_ROUNDING * first, 0.0):
                tested[j] = value
                return False
            tested[j] = _threshold(data, j, value, permutations)
            return value > tested[j] + _ROUNDING * first

        count = _first_without(counts, most)
    listed = min(count + 1, most)
    values = np.array([data.value(j) for j in range(listed)])
    null = np.interp(np.arange(listed), sorted(tested), [tested[j] for j in sorted(tested)]) if listed else values
    excess = float((values - null)[:count].sum()) / data.trace if count else 0.0
    return ParallelAnalysis(values, null, count, excess)


def _first_without(counts: Callable[[int], bool], most: int) -> int:
    """Return the first number for which `counts` is false, `most` if there is none.

    The first few are asked one by one; then strides are taken, and the last one is searched by halves: with twenty
    components not each of them needs to be confirmed.
    """
    known = 0  # all before it count
    while known < most:
        ahead = min(most, known + (1 if known < _ONE_BY_ONE else known // 2))
        if counts(ahead - 1):
            known = ahead
            continue
        return known + bisect_left(range(known, ahead - 1), True, key=lambda j: not counts(j))
    return most


def _threshold(data: _Rows, j: int, value: float, permutations: int) -> float:
    """Return what eigenvalue j + 1 has to exceed, from as many draws as it takes to be sure."""
    draw = data.null(j)
    drawn: list[float] = []
    for last, clear in ((5, _CLEAR_FROM_FIVE), (10, _CLEAR_FROM_TEN), (permutations, np.inf)):
        numbers = list(range(len(drawn), min(last, permutations)))
        in_order(numbers, lambda: draw, lambda _, found: drawn.append(found), data.threads)
        mean, spread = float(np.mean(drawn)), float(np.std(drawn, ddof=min(1, len(drawn) - 1)))
        if value <= mean or (value > mean + clear * spread and value > _CLEARLY_LARGER * max(drawn)):
            break
    return mean + _MARGIN * spread


class _Rows:
    """The rows and their components; makes rows that have the structure of the first j components only."""

    def __init__(self, kernel: Kernel, X: Any, max_rows: int, seed: int, threads: int) -> None:
        X = drawn_rows(X, None, max_rows, seed)
        X = np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)
        self.kernel, self.seed, self.threads = kernel, seed, threads
        self._mean = mean_of_rows(X)
        self._deviations = X - self._mean
        if kernel.shift_invariant or isinstance(kernel, Linear):
            self._mean = np.zeros(X.shape[1])  # it has no say, and would cost digits
        self.X = self._mean + self._deviations
        self._least = 0.0 if _refuses_negative(kernel, X.shape[1]) else -np.inf
        self._shifted = better_shifted(kernel, self.X)
        B = self._operator().matrix()
        self.trace = float(np.trace(B))
        self._values, self._vectors = self._find(B, _FIRST_PAIRS)

    def _operator(self) -> Any:
        if isinstance(self.kernel, Linear):
            return Factored(self.X, centred=True, threads=self.threads)
        return Centered(Gram(self.kernel, self.X, shifted=self._shifted, threads=self.threads))

    def _find(self, B: FloatArray, k: int) -> tuple[FloatArray, FloatArray]:
        """Return leading eigenvalues of the data, and their vectors.  # shape: (k,), (n, k)"""
        found = largest_eigenpairs(B, min(k, len(B)))
        vectors = found.vectors
        if isinstance(self.kernel, Linear) and self.X.shape[1] <= len(self.X):  # directions: the primal is smaller
            vectors = self._deviations @ vectors
            vectors /= np.maximum(np.linalg.norm(vectors, axis=0), np.finfo(np.float64).tiny)
        return np.maximum(found.values, 0.0), vectors

    def value(self, j: int) -> float:
        """Return eigenvalue j + 1."""
        if j >= len(self._values):
            self._values, self._vectors = self._find(self._operator().matrix(), 2 * len(self._values))
        return float(self._values[j]) if j < len(self._values) else 0.0

    def null(self, j: int) -> Callable[[int], float]:
        """Return a function that draws eigenvalue j + 1 of rows with the structure of j components."""
        U = self._vectors[:, :j]
        explained = U @ (U.T @ self._deviations)
        residuals = self._deviations - explained
        base = self._mean + explained
        n = len(residuals)
        if np.linalg.norm(residuals) <= _ROUNDING * np.linalg.norm(self._deviations):
            return lambda number: float(self._values[j])  # nothing is left of the rows to be permuted
        f = 1.0 / np.sqrt((1.0 - self._absorbed(j, residuals)) * (1.0 - j / n))

        def draw(number: int) -> float:
            random = np.random.default_rng([self.seed, j, number])
            rows = np.maximum(base + f * random.permuted(residuals, axis=0), self._least)
            return float(leading_values(self.kernel, rows, j + 1, center=True)[0][j])

        return draw

    def _absorbed(self, j: int, residuals: FloatArray) -> float:
        """Return the share of a row's noise that its own first j scores, and so its regression, follow."""
        if j == 0:
            return 0.0
        U, roots = self._vectors[:, :j], np.sqrt(self._values[:j])
        A = U / roots  # scores are A'(k_x - means), and the regression on them has coefficients A'(X - mean)
        slopes = A.T @ self._deviations
        along = along_all = 0.0
        here = self._scores(self.X, A)
        for number in range(_MOVES):
            random = np.random.default_rng([self.seed, j, number, 1])
            moved = np.maximum(self.X + _MOVED * random.permuted(residuals, axis=0), self._least)
            e = moved - self.X
            along += float(np.vdot(e, (self._scores(moved, A) - here) @ slopes))
            along_all += float(np.vdot(e, e))
        return min(max(along / max(along_all, np.finfo(np.float64).tiny), 0.0), _MOST_ABSORBED)

    def _scores(self, rows: FloatArray, A: FloatArray) -> FloatArray:
        """Return scores up to a constant.  # shape: (n, j)"""
        dtype = np.dtype(np.float64)
        return CrossGram(self.kernel, rows, self.X, dtype=dtype, shifted=self._shifted, threads=self.threads) @ A


def _refuses_negative(kernel: Kernel, d: int) -> bool:
    """Return True for a kernel of quantities, such as chi2; the null must then not be negative either."""
    try:
        kernel.check(np.full((1, d), -1.0))
    except InputError:
        return True
    return False
