"""How long a fit takes, from the work it does and the rates of this machine."""

from __future__ import annotations

from dataclasses import dataclass

from kpca.features.landmarks import CHOSEN_FROM
from kpca.features.scatter import FEW, WHITENED_LATE
from kpca.linalg import SHARE_FOR_ALL, exhaustive
from kpca.planning.estimate import Outlook
from kpca.planning.problem import Problem
from kpca.planning.rates import TileCost, machine_rates, tile_cost
from kpca.planning.rules import better_shifted
from kpca.spectrum.dense import COPIED
from kpca.spectrum.krylov import block_size, step_size

# What every fit does besides: checks, small arrays, starting threads.
_SETUP = 0.004
_PER_PASS = 0.0015
# Bytes per second of simple arithmetic on arrays that do not fit the cache.
_STREAM = 6e9
# Arrays as long as the block that a pass reads and writes besides its products.
_SWEEPS = 24
# Above so many components BLAS's own threads work on the basis (as in a fit).
_NARROW = 40
# LAPACK on a large matrix runs at so many times the rate of a small one, per thread.
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


@dataclass(frozen=True)
class Tiles:
    """How many tiles there are and how many are kept."""

    rows: int
    count: int
    kept: int
    cost: TileCost  # in a later pass

    @property
    def share(self) -> float:
        """The part that is computed only once."""
        return self.kept / max(self.count, 1)


def cost_of_tiles(problem: Problem, columns: int, *, single: bool) -> TileCost:
    """Return the measured cost of the problem's own kernel values."""
    assert problem.kernel is not None
    shifted = problem.center and better_shifted(problem.kernel, problem.sample)
    size = 4 if single else 8
    return tile_cost(problem.kernel, problem.sample, size, columns, shifted=shifted, threads=problem.threads)


def krylov_seconds(problem: Problem, k: int, basis: int, ahead: Outlook, tiles: Tiles) -> float:
    """Return the time of block Krylov with a basis of so many vectors."""
    n, rates, cost = problem.n, machine_rates(), tiles.cost
    block, step = block_size(k), step_size(k)
    pairs, threads = 0.5 * n * n / problem.threads, problem.threads
    item = 4 if ahead.single else 8
    cheap = ahead.passes - ahead.refresh
    first = pairs * (cost.fill + cost.products * block / step) + rates.fresh * tiles.share * pairs * threads * item
    later = max(cheap - 1.0, 0.0) * pairs * ((1.0 - tiles.share) * cost.fill + cost.products)
    refresh = 0.0
    if ahead.refresh:
        double = cost_of_tiles(problem, k + block, single=False)
        refresh = pairs * (double.fill + double.products)
    landmarks = min(n, max(min(_LANDMARKS, n // 16), 3 * block))
    start = n * landmarks * (cost.fill + cost.products) / threads + 9.0 * landmarks**3 / rates.eigh_small
    return _SETUP + start + first + later + refresh + basis_seconds(problem, n, k, basis, ahead.passes)


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


def features_seconds(problem: Problem, rank: int, k: int) -> float:
    """Return the time of explicit features: kernel values with landmarks, their whitening, their scatter."""
    n, rates = problem.n, machine_rates()
    cost = cost_of_tiles(problem, 16, single=problem.itemsize == 4)
    speed = rates.flops_single if problem.itemsize == 4 else rates.flops_double
    values = n * rank * cost.fill / problem.threads
    some = min(n, CHOSEN_FROM) if problem.pivoted else 0
    choosing = some * rank * cost.fill / problem.threads + 2.0 * some * rank**2 / (rates.flops_double * problem.threads)
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
