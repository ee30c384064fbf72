"""What a fit is likely to take: passes, foretold by some rows; the speed of this machine; and seconds from both."""

from __future__ import annotations

import contextlib
import mmap
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from scipy import sparse

from kpca._base.config import memory_budget, rows_bytes
from kpca._base.linalg import SHARE_FOR_ALL, FloatArray, exhaustive
from kpca._base.threads import in_order, single_threaded
from kpca.estimators.memory import prepared_bytes, prepared_columns
from kpca.features.guess import coarse_eigenvalues, leading_eigenvectors
from kpca.features.scatter import FEW, WHITENED_LATE
from kpca.gram import Centered, Gram
from kpca.gram.engine import evaluator, has_single
from kpca.gram.operator import many_rows
from kpca.gram.tiles import EDGE
from kpca.kernels import Kernel, Linear
from kpca.spectrum.dense import COPIED
from kpca.spectrum.krylov import block_size, needs_refresh, single_is_enough, solve_krylov, step_size

# Rows that stand for all where costs are measured and spectra estimated.
SAMPLE_ROWS = 1000
_MADE_UP_ROWS = 640
# Components first tried when a fraction of the variance is asked for; doubled until it is reached.
FIRST_TRY = 16
_SHIFT_ROWS = 32


@dataclass(frozen=True)
class Request:
    """What is wanted, and what may be used for it."""

    n_components: int | float | None
    tol: float
    eigen_solver: str = "auto"
    center: bool = True
    max_passes: int | None = None
    seed: int = 0
    threads: int = 1
    budget: Callable[[], int] = memory_budget  # asked only where memory matters: the answer takes a while


@dataclass(frozen=True, kw_only=True)
class Problem(Request):
    """A request with the sizes that its cost depends on, and some rows."""

    n: int
    d: int
    kernel: Kernel | None  # None: the matrix is given
    itemsize: int  # of a number of the data
    sample: Any  # some rows, drawn or, without data, made up; shape: (<= SAMPLE_ROWS, d)
    measured: bool  # the sample is of real rows, so its spectrum says something
    nnz: int | None  # numbers in sparse rows
    single: bool  # float32 tiles are of use
    held: int  # bytes of the data and what evaluators make of them, both precisions
    held_single: int  # the same without float64
    decides: bool  # n_components="auto": the number is found first, and n_components is a guess
    inverse: int  # rows that the inverse map is learned from, 0 if there is none
    approximation: Any

    @property
    def linear(self) -> bool:
        """True for the linear kernel, which has routes of its own."""
        return isinstance(self.kernel, Linear)


def sample_or_made_up(X: Any, n: int, d: int, dtype: np.dtype[Any]) -> Any:
    """Return rows of X at equal distances; without X made-up ones, positive because some kernels ask for that."""
    if X is not None:
        return X[:: max(1, -(-X.shape[0] // SAMPLE_ROWS))]
    return np.abs(np.random.default_rng(0).standard_normal((min(n, _MADE_UP_ROWS), d))).astype(dtype)


def held_bytes(kernel: Kernel | None, X: Any, n: int, d: int, itemsize: int) -> tuple[int, int, bool]:
    """Return what lies in memory with and without float64 evaluators, and whether float32 tiles are of use."""
    if kernel is None:
        data = rows_bytes(X) if X is not None else n * n * itemsize
        return data, data, False
    if X is None:
        per_row = prepared_columns(kernel, d)
        data, double, single = n * d * itemsize, 8 * n * per_row, 4 * n * per_row
        useful = many_rows(n) and per_row > 0
    else:
        data, double, single = rows_bytes(X), prepared_bytes(kernel, X), prepared_bytes(kernel, X, 4)
        useful = many_rows(n) and not sparse.issparse(X) and has_single(kernel, X)
    if not useful:
        return data + double, data + double, False
    return data + single + double, data + single, True


# -- What some rows tell about the spectrum of all: how many passes a fit will take, and what float32 can do for it ---


def better_shifted(kernel: Kernel, X: Any) -> bool:
    """Return True if kernel values are nearer to f(0) than to 0: then f(t) - f(0) carries more of their digits."""
    if not kernel.shift_invariant:
        return False
    some = X[:: max(1, X.shape[0] // _SHIFT_ROWS)]
    K = kernel.block(some, some)
    top = float(kernel.diagonal(some[:1])[0])
    return float(np.square(K - top).sum()) < float(np.square(K).sum())


def count_for_share(gram: Gram, fraction: float, *, centred: bool, seed: int) -> int:
    """Return about how many components explain a fraction of the variance: counted on some rows, and a little more."""
    with single_threaded():
        values = coarse_eigenvalues(gram, centred=centred, seed=seed)
    shares: FloatArray = np.cumsum(values) / max(float(values.sum()), 1e-300)
    count = int(np.searchsorted(shares, fraction)) + 1
    return int(max(FIRST_TRY, count + count // 8 + 8))


# Passes seen with Gaussian kernels on clusters, independent normal numbers and digits, 1,800 to 20,000 rows, 10 to 300
# columns, 2 to 100 components: a tolerance of 1e-3, 1e-6 and 1e-10 took 2 to 14, 3 to 25 and 5 to 40.
_SEEN = ((1e-3, 3.0, (1, 14)), (1e-6, 6.0, (3, 25)), (1e-10, 9.0, (5, 40)))
# More components than this are not tried on a sample: it has too few of its own.
_MOST_TRIED = 64
# Error of float32 products over the largest eigenvalue, where nothing is known.
_USUAL_FLOOR = 3e-7
_FEWEST_ROWS = 400


@dataclass(frozen=True)
class Outlook:
    """What is expected of an iteration."""

    passes: float
    passes_range: tuple[int, int]
    single: bool  # float32 passes will do
    refresh: bool  # and float64 has to put them right in the end


def outlook(problem: Problem, k: int) -> Outlook:
    """Return what to expect: from the same iteration on some of the rows, or without data from experience."""
    passes, extremes = usual_passes(problem.tol)
    floor = _USUAL_FLOOR
    if problem.measured and problem.kernel is not None and not problem.linear and k <= _MOST_TRIED:
        found = _tried(problem, problem.kernel, k)
        if found is not None:
            passes, floor = found
            extremes = (max(1, int(passes / 2)), int(np.ceil(2 * passes)))
    single = problem.single and single_is_enough(floor, problem.tol)
    refresh = single and needs_refresh(floor, problem.tol)
    return Outlook(passes + refresh, (extremes[0], extremes[1] + refresh), single, refresh)


def usual_passes(tol: float) -> tuple[float, tuple[int, int]]:
    """Return the passes that a tolerance usually takes, and the fewest and most that were seen."""
    return next((seen[1:] for seen in _SEEN if tol >= seen[0] * 0.99), _SEEN[-1][1:])


def _tried(problem: Problem, kernel: Kernel, k: int) -> tuple[float, float] | None:
    """Return passes and the error of float32 products, found on the sample; None if that is too small."""
    rows = problem.sample
    m = rows.shape[0]
    if m < max(_FEWEST_ROWS, 6 * k):
        return None
    shifted = problem.center and better_shifted(kernel, rows)
    gram = Gram(kernel, rows, shifted=shifted, threads=1)
    with single_threaded(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is odd about the data the fit itself will say
        start, largest = leading_eigenvectors(gram, max(block_size(k) - 5, 1), centred=problem.center, seed=0)
        operator = Centered(gram) if problem.center else gram
        found = solve_krylov(operator, k, problem.tol, start=start, largest=largest, max_passes=60)
        floor = 0.0
        if problem.single:
            single = Gram(kernel, rows, shifted=shifted, precision="single", threads=1)
            # An error of random sign grows as sqrt(n), the eigenvalue as n.
            error = single.error(found.vectors) * np.sqrt(m / problem.n)
            floor = float(error / max(float(found.values[0]), 1e-300))
    return float(found.n_passes), floor


def expected_count(problem: Problem, fraction: float) -> int:
    """Return about how many components explain a fraction of the variance; without data, the first number tried."""
    kernel, rows = problem.kernel, problem.sample
    if not problem.measured or kernel is None or problem.linear:
        return FIRST_TRY
    gram = Gram(kernel, rows, shifted=problem.center and better_shifted(kernel, rows))
    return count_for_share(gram, fraction, centred=problem.center, seed=0)


# -- What this machine does per second, measured once per process in a few hundredths of a second ---------------------

_REPEATS = 3
# A tile that takes longer is measured on a smaller one.
_LONGEST = 0.004
_SMALL_EDGE = 48
_FRESH_BYTES = 8 * 2**20
_PAGE_BYTES = 4096


@dataclass(frozen=True)
class Rates:
    """Speeds of the machine: products on one thread, LAPACK on all, and what the first touch of memory costs."""

    flops_single: float  # float32 product, per second and thread
    flops_double: float  # float64 product, per second and thread
    flops_narrow: float  # float64 product of a long narrow block, per second and thread
    eigh_small: float  # flops per second of LAPACK on one thread, 9 m^3 for all eigenpairs of 200 rows
    fresh: float  # seconds per byte of memory that was never touched


@dataclass(frozen=True)
class TileCost:
    """Seconds of one thread per kernel value, with all threads at work."""

    fill: float
    products: float  # both products, K V and K'V, for all columns of the block


@cache
def machine_rates() -> Rates:
    """Return the rates of this machine; the first call measures them."""
    rng = np.random.default_rng(0)
    with single_threaded():
        double = rng.standard_normal((384, 384))
        single = double.astype(np.float32)
        out_double, out_single = np.empty_like(double), np.empty_like(single)
        long, narrow = rng.standard_normal((8192, 64)), rng.standard_normal((64, 16))
        image = np.empty((8192, 16))
        symmetric = double[:200, :200] @ double[:200, :200].T
        flops = 2.0 * 384**3
        return Rates(
            flops_single=flops / _best(lambda: np.matmul(single, single, out=out_single)),
            flops_double=flops / _best(lambda: np.matmul(double, double, out=out_double)),
            flops_narrow=2.0 * long.size * 16 / _best(lambda: np.matmul(long, narrow, out=image)),
            eigh_small=9.0 * 200**3 / _best(lambda: np.linalg.eigh(symmetric)),
            fresh=min(_fresh_seconds() for _ in range(_REPEATS)) / _FRESH_BYTES,
        )


def _best(call: Callable[[], Any]) -> float:
    """Return the shortest of a few times: others may take the core meanwhile."""
    times = []
    for _ in range(_REPEATS):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return max(min(times), 1e-9)


def _fresh_seconds() -> float:
    # From the system itself: the allocator might hand out what was used before. In large pages, as NumPy asks for.
    with mmap.mmap(-1, _FRESH_BYTES) as source:
        if hasattr(mmap, "MADV_HUGEPAGE"):
            with contextlib.suppress(OSError):
                source.madvise(mmap.MADV_HUGEPAGE)
        memory = np.frombuffer(source, dtype=np.uint8)
        started = time.perf_counter()
        memory[::_PAGE_BYTES] = 0
        seconds = time.perf_counter() - started
        del memory
    return seconds


def tile_cost(kernel: Kernel, rows: Any, itemsize: int, columns: int, *, shifted: bool, threads: int) -> TileCost:
    """Time tiles of this kernel on some rows of the data, and the products with them, on as many threads as a fit has.

    `rows` need not be as many as a tile has: they are repeated. `columns` is the width of the block.
    """
    dtype = np.dtype(np.float32 if itemsize == 4 else np.float64)
    edge = EDGE[itemsize]
    some = rows[np.arange(edge) % rows.shape[0]]
    small = evaluator(kernel, some[:_SMALL_EDGE], some[:_SMALL_EDGE], dtype, shifted=shifted)
    probe = np.empty((_SMALL_EDGE, _SMALL_EDGE), dtype)
    with single_threaded():
        per_value = _best(lambda: small.fill(slice(0, _SMALL_EDGE), slice(0, _SMALL_EDGE), probe)) / probe.size
    edge = int(min(edge, max(_SMALL_EDGE, (_LONGEST / per_value) ** 0.5)))
    source = evaluator(kernel, some[:edge], some[:edge], dtype, shifted=shifted)
    V = np.random.default_rng(0).standard_normal((edge, columns)).astype(dtype)
    across = np.ascontiguousarray(V.T)
    everything = slice(0, edge)

    def seconds(work: Callable[[FloatArray], Any]) -> float:
        def make_worker() -> Callable[[int], None]:
            tile = np.full((edge, edge), 0.5, dtype)
            source.fill(everything, everything, tile)

            def timed(_: int) -> None:
                started = time.perf_counter()
                work(tile)
                times.append(time.perf_counter() - started)

            return timed

        times: list[float] = []
        in_order(list(range(_REPEATS * threads)), make_worker, lambda piece, result: None, threads)
        return float(np.median(times)) / edge**2

    def multiply(tile: FloatArray) -> None:
        _ = across @ tile.T if itemsize == 8 else tile @ V
        _ = across @ tile

    return TileCost(seconds(lambda tile: source.fill(everything, everything, tile)), seconds(multiply))


# -- How long a fit takes, from the work it does and the rates of this machine ----------------------------------------

# What every fit does besides: checks, small arrays, starting threads.
_SETUP = 0.004
_PER_PASS = 0.0015
# Bytes per second of simple arithmetic on arrays that do not fit the cache.
_STREAM = 6e9
# Arrays as long as the block that a pass reads and writes besides its products.
_SWEEPS = 24
# Above this many components BLAS's own threads work on the basis (as in a fit).
_NARROW = 40
# LAPACK on a large matrix runs at this many times the rate of a small one, per thread.
_LAPACK_GAIN = 1.3
# Products with a vector that ARPACK needs, about.
_ARPACK_PRODUCTS = 60
_ARPACK_SPARSE_PRODUCTS = 150
# Numbers of a sparse matrix multiplied per second, one column.
_SPARSE_RATE = 6e8
_LANDMARKS = 256
# n_components="auto": eigenproblems that are solved, about five for each component that is found and twenty for the
# last, and columns that each multiplies.
_DECISIONS, _DECISION_COLUMNS = 60, 150


def cost_of_tiles(problem: Problem, columns: int, *, single: bool) -> TileCost:
    """Return the measured cost of the problem's own kernel values."""
    assert problem.kernel is not None
    shifted = problem.center and better_shifted(problem.kernel, problem.sample)
    size = 4 if single else 8
    return tile_cost(problem.kernel, problem.sample, size, columns, shifted=shifted, threads=problem.threads)


def krylov_seconds(problem: Problem, k: int, basis: int, ahead: Outlook, cost: TileCost, *, kept: float) -> float:
    """Return the time of block Krylov with a basis of this many vectors, where this share of the tiles is kept."""
    n, rates = problem.n, machine_rates()
    block, step = block_size(k), step_size(k)
    pairs, threads = 0.5 * n * n / problem.threads, problem.threads
    item = 4 if ahead.single else 8
    cheap = ahead.passes - ahead.refresh
    first = pairs * (cost.fill + cost.products * block / step) + rates.fresh * kept * pairs * threads * item
    later = max(cheap - 1.0, 0.0) * pairs * ((1.0 - kept) * cost.fill + cost.products)
    refresh = 0.0
    if ahead.refresh:
        double = cost_of_tiles(problem, k + block, single=False)
        refresh = pairs * (double.fill + double.products)
    landmarks = min(n, max(min(_LANDMARKS, n // 16), 3 * block))
    start = n * landmarks * (cost.fill + cost.products) / threads + 9.0 * landmarks**3 / rates.eigh_small
    return _SETUP + start + first + later + refresh + basis_seconds(problem, n, k, basis, ahead.passes)


def matrix_seconds(problem: Problem, k: int, basis: int, ahead: Outlook) -> float:
    """Return the time of block Krylov on a matrix that is given: reading it is what a pass costs."""
    n, rates = problem.n, machine_rates()
    numbers = float(problem.nnz or n * n)
    speed = rates.flops_narrow * (problem.threads if problem.nnz is None else 1.0 / 8)
    per_pass = 2.0 * numbers * step_size(k) / speed
    return ahead.passes * per_pass + basis_seconds(problem, n, k, basis, ahead.passes)


def basis_seconds(problem: Problem, length: int, k: int, basis: int, passes: float) -> float:
    """Return the time of orthogonalisation and Rayleigh-Ritz over all passes, for vectors of this length."""
    rates = machine_rates()
    block, step = block_size(k), step_size(k)
    size = min(float(basis), block + 0.5 * step * passes)
    flops = length * (10.0 * size * step + 4.0 * size * max(k, block) + 8.0 * step**2)
    speed = rates.flops_narrow * (problem.threads if k > _NARROW else 1)
    sweeps = _SWEEPS * 8.0 * length * max(step, block) / _STREAM
    ritz = 9.0 * size**3 / rates.eigh_small
    fresh = rates.fresh * 16.0 * length * min(float(basis), block + step * passes)
    return passes * (flops / speed + sweeps + ritz + _PER_PASS) + fresh


def eigh_seconds(n: int, k: int, threads: int) -> float:
    """Return the time LAPACK or ARPACK needs for k eigenpairs of n rows."""
    rates = machine_rates()
    if not exhaustive(k, n):
        return _ARPACK_PRODUCTS * (4.0 * n * n / _STREAM + 2e-5)
    speed = rates.eigh_small * (1.0 if n <= COPIED else _LAPACK_GAIN * threads)
    if k > n * SHARE_FOR_ALL:
        return 9.0 * n**3 / speed
    return (2.5 * n**3 + 4.0 * n * n * k) / speed


def dense_seconds(problem: Problem, k: int) -> float:
    """Return the time of the whole matrix: filled, centred, solved, and multiplied once more for the residuals."""
    n, rates = problem.n, machine_rates()
    times = 1 + (n <= COPIED) + 2 * (k > n * SHARE_FOR_ALL)
    moved = 8.0 * n * n * (5.0 / _STREAM + times * rates.fresh)
    filled = 0.0
    if problem.kernel is not None:
        cost = cost_of_tiles(problem, 16, single=False)
        again = n > COPIED and exhaustive(k, n)
        filled = 0.5 * n * n * (cost.fill * (1 + again) + cost.products * again) / problem.threads
    return _SETUP / 2 + filled + moved + eigh_seconds(n, k, problem.threads) + 8.0 * n * k * 10 / _STREAM


def linear_seconds(problem: Problem, k: int, passes: float, basis: int, *, direct: bool) -> float:
    """Return the time of the linear kernel."""
    n, d, rates = problem.n, problem.d, machine_rates()
    side, k = min(n, d), min(k, n, d)
    threads = problem.threads
    scores = 8.0 * k * (n * 6.0 + d * 4.0) / _STREAM + rates.fresh * 16.0 * n * k
    if problem.nnz is not None:
        columns = side if direct else _ARPACK_SPARSE_PRODUCTS + k
        products = 2.0 * problem.nnz * columns / _SPARSE_RATE + 24.0 * problem.nnz / _STREAM
        small = eigh_seconds(side, k, threads) if direct else 0.0
        return _SETUP / 2 + products + small + scores
    speed = (rates.flops_single if problem.itemsize == 4 else rates.flops_double) * threads
    swept = n * d * problem.itemsize * (2.0 / _STREAM + rates.fresh * (1 if direct and d <= n else 2))
    if direct:
        # a symmetric product costs half; of few columns it is far from the best rate
        gram = 1.3 * n * d * side / speed * max(1.0, 128.0 / max(side, 1))
        return _SETUP / 4 + swept + gram + eigh_seconds(side, k, threads) + 2.0 * n * d * k / speed + scores
    narrow = rates.flops_narrow * threads * (2 if problem.itemsize == 4 else 1)
    products = passes * 4.0 * n * d * step_size(k) / narrow
    return _SETUP + swept + products + basis_seconds(problem, side, k, basis, passes) + scores


def features_seconds(problem: Problem, rank: int, k: int, *, pivots: int) -> float:
    """Return the time of explicit features: kernel values with landmarks, their whitening, their scatter.

    `pivots` is the number of rows that landmarks are chosen among by pivoted Cholesky, 0 where they are not.
    """
    n, rates = problem.n, machine_rates()
    cost = cost_of_tiles(problem, 16, single=problem.itemsize == 4)
    speed = rates.flops_single if problem.itemsize == 4 else rates.flops_double
    values = n * rank * cost.fill / problem.threads
    choosing = pivots * rank * (cost.fill + 2.0 * rank / rates.flops_double) / problem.threads
    # a symmetric product for the scatter, and whitening: of the sums where few components are asked for, or float64
    # does for all; else of the rows, by a triangle. Then kernel values again for the scores.
    late = n >= WHITENED_LATE * rank and (problem.itemsize == 8 or k * FEW <= rank)
    products = 1.15 * n * rank**2 / speed + 3.0 * rank**3 / rates.flops_double if late else 2.2 * n * rank**2 / speed
    summing = values + products / problem.threads
    scoring = values + 2.0 * n * rank * k / (rates.flops_narrow * problem.threads) + 64.0 * n * k * rates.fresh
    return _SETUP + choosing + summing + scoring + eigh_seconds(rank, min(k, rank), problem.threads)


def decision_seconds(problem: Problem, m: int) -> float:
    """Return the time it takes to decide the number of components by m rows."""
    rates, side = machine_rates(), min(m, problem.d) if problem.linear else m
    columns = problem.d if problem.nnz is None else -(-problem.nnz // problem.n)
    flops = 2.0 * m * side * columns + 2.0 * side * side * min(_DECISION_COLUMNS, side)
    return _DECISIONS * flops / (rates.flops_double * problem.threads)
