"""What a plan says, as data and in words."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from kpca import kernels
from kpca._base.config import BASE, memory_budget, memory_limit, require, thread_count
from kpca._base.errors import InputError, Setting
from kpca._base.validation import check_data, check_parameters, check_rows
from kpca.estimators import memory
from kpca.estimators.cost import (
    Outlook,
    Problem,
    TileCost,
    Tiles,
    basis_seconds,
    cost_of_tiles,
    decision_seconds,
    dense_seconds,
    drawn_rows,
    expected_count,
    features_seconds,
    held_bytes,
    krylov_seconds,
    linear_seconds,
    machine_rates,
    made_up_rows,
    outlook,
    usual_passes,
)
from kpca.estimators.memory import MOST_DECIDED, deciding_rows
from kpca.estimators.routes import FINEST_TOL, FIRST_TRY, default_rank, kernel_route, linear_route, pivoted, reuses
from kpca.gram.tiles import EDGE, SLAB_BYTES, edges, workers_bytes
from kpca.kernels import Kernel, Linear
from kpca.preimage.back import LEARNED_ROWS
from kpca.preimage.learned import ridge_bytes
from kpca.spectrum.factored import FEW_SPARSE
from kpca.spectrum.krylov import basis_size, block_size, smallest_basis, step_size

_TITLES = {
    "dense": "the whole kernel matrix, solved by LAPACK",
    "krylov": "block Krylov on tiles of the kernel matrix",
    "primal": "the covariance of the features, solved whole",
    "dual": "the products of the rows, solved whole",
    "primal-krylov": "block Krylov on the covariance of the features",
    "dual-krylov": "block Krylov on the products of the rows",
    "features": "explicit features",
}


@dataclass(frozen=True)
class Plan:
    """Which way a fit goes and why, with what it is expected to take."""

    route: str  # "dense", "krylov", "primal", "dual", "primal-krylov", "dual-krylov" or "features"
    reason: str
    n: int
    d: int
    k: int  # components that will be looked for
    k_known: bool  # False for a fraction of the variance and for "auto": k is then an estimate
    block: int  # columns of the first pass, 0 where there are none
    basis: int  # vectors of the basis before a restart, 0 where there are none
    pass_precision: str  # "float32" or "float64": what most of the work is done in
    refresh: bool  # float64 products put float32 ones right in the end
    tile_rows: int  # rows and columns of a tile, 0 where there are none
    tiles: int
    tiles_kept: int  # that are computed only once
    passes: float  # expected
    passes_range: tuple[int, int]
    memory_bytes: int  # expected peak above what the process holds before
    memory_bound: int  # what it stays below, without tiles that are kept
    memory_limit: int
    seconds: float  # expected
    threads: int
    rank: int | None = None  # of explicit features

    @property
    def precision(self) -> str:
        """The precision of the work in words."""
        if self.refresh:
            return f"{self.pass_precision} passes, float64 refresh"
        return f"{self.pass_precision} throughout, sums in float64" if self.pass_precision == "float32" else "float64"

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as plain data, ready for JSON."""
        return asdict(self) | {"precision": self.precision, "passes_range": list(self.passes_range)}

    def __str__(self) -> str:
        about = "" if self.k_known else "about "
        lines = [
            f"Route: {self.route}, {_TITLES[self.route]}.",
            f"Why: {self.reason}.",
            f"Size: {about}{self.k:,} components of {self.n:,} rows and {self.d:,} columns, on "
            f"{_count(self.threads, 'thread')}.",
            f"Precision: {self.precision}.",
        ]
        if self.rank is not None:
            lines.append(f"Features: {self.rank:,} numbers stand for each row.")
        if self.tiles:
            lines.append(
                f"Tiles: {self.tiles:,} of {self.tile_rows:,} rows, {self.tiles_kept:,} of them kept; blocks of "
                f"{self.block} columns, a basis of {self.basis:,}."
            )
        if self.block:
            low, high = self.passes_range
            lines.append(f"Passes: about {self.passes:.0f}, between {low} and {high} depending on the data.")
        lines.append(f"Memory: about {size_words(self.memory_bytes)} of the {size_words(self.memory_limit)} allowed.")
        lines.append(f"Time: about {time_words(self.seconds)}.")
        return "\n".join(lines)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def size_words(size: float) -> str:
    """Return bytes in a unit that reads well."""
    for unit, name in ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB")):
        if size >= 0.995 * unit:
            return f"{_three_digits(size / unit)} {name}"
    return f"{_three_digits(size / 2**10)} KiB"


def time_words(seconds: float) -> str:
    """Return seconds in a unit that reads well."""
    if seconds < 0.9995:
        return f"{_two_digits(1000 * seconds)} ms"
    if seconds < 120:
        return f"{_two_digits(seconds)} s"
    if seconds < 7200:
        return f"{_two_digits(seconds / 60)} minutes"
    return f"{_two_digits(seconds / 3600)} hours"


def _two_digits(value: float) -> str:
    return f"{value:.1f}" if value < 9.95 else f"{round(value, 1 - int(math.log10(value))):,.0f}"


def _three_digits(value: float) -> str:
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 99.95 else f"{value:,.0f}"


# -- From data or a mere shape to a plan; nothing of the size of the kernel matrix is computed ------------------------

# Twenty minutes of two cores, in multiplications and additions of an exact fit.
_LONGEST_FLOPS = 2e14


def plan(
    X: Any,
    n_components: Any = None,
    *,
    estimator: Any = None,
    kernel: Any = "linear",
    gamma: Any = None,
    tol: float = 0.0,
    eigen_solver: str = "auto",
    approximation: Any = None,
    degree: float = 3,
    coef0: float = 1,
    kernel_params: dict[str, Any] | None = None,
    center: bool = True,
    fit_inverse_transform: bool = False,
    preimage: Any = None,
    max_iter: int | None = None,
    n_jobs: int | None = None,
    dtype: Any = np.float64,
) -> Plan:
    """Say which way `KernelPCA(...).fit(X)` will go, why, and about how much memory and time it will take.

    Parameters
    ----------
    X : array, CSR matrix, data frame, or just its shape (n, d).
        Of data some rows are looked at; the kernel matrix is not computed. A shape alone gives a wider guess.
    estimator : KernelPCA, fitted or not, whose parameters are meant; no others may then be given.
    dtype : of data that are given by their shape only.
    n_components, kernel, gamma, ... : as in KernelPCA.

    Examples
    --------
    >>> import kpca
    >>> kpca.plan((20_000, 50), 10, kernel="rbf").route
    'krylov'
    """
    given = dict(locals())
    names = [name for name in inspect.signature(plan).parameters if name not in ("X", "estimator", "dtype")]
    parameters = SimpleNamespace(**{name: given[name] for name in names}, alpha=1.0)
    if estimator is not None:
        parameters = _parameters_of(estimator, {name: given[name] for name in names})
    check_parameters(parameters)
    return make_plan(_problem(X, parameters, np.dtype(dtype)))


def plan_like(shape: tuple[int, int], like: Any, *, estimator: Any, dtype: Any) -> Plan:
    """Return the plan of so many sparse rows, of which there are only some: landmarks, or a sample."""
    parameters = _parameters_of(estimator, {})
    check_parameters(parameters)
    problem = _problem(shape, parameters, np.dtype(dtype), like)
    some, some_single, single = held_bytes(problem.kernel, like, like.shape[0], like.shape[1], like.dtype.itemsize)
    share = shape[0] / like.shape[0]
    return make_plan(
        replace(
            problem,
            nnz=math.ceil(share * like.nnz),
            held=math.ceil(share * some),
            held_single=math.ceil(share * some_single),
            single=single,
        )
    )


def _parameters_of(estimator: Any, others: dict[str, Any]) -> SimpleNamespace:
    """Return the parameters of an estimator, and refuse others beside it."""
    defaults = inspect.signature(plan).parameters
    spare = [name for name, value in others.items() if value is not defaults[name].default]
    if spare:
        raise InputError(f"With estimator=, its own parameters are used; got {spare[0]} as well: leave it out.")
    if not hasattr(estimator, "get_params"):
        raise InputError(f"estimator must be a KernelPCA; got {type(estimator).__name__}.")
    known = {"approximation": None, "preimage": None} | estimator.get_params(deep=False)
    if isinstance(known["n_components"], str) and hasattr(estimator, "n_components_"):
        known["n_components"] = int(estimator.n_components_)  # it has been decided
    return SimpleNamespace(**known)


def _problem(X: Any, parameters: SimpleNamespace, dtype: np.dtype[Any], like: Any = None) -> Problem:
    """Return the fit as the planner sees it; `like` are rows to look at, where X is a shape."""
    if isinstance(X, tuple) and all(isinstance(size, int | np.integer) for size in X):
        if len(X) != 2:
            raise InputError(f"X must be rows of data or their shape (n, d); got {X}: give two numbers.")
        n, d = int(X[0]), int(X[1])
        if d < 1:
            raise InputError(f"X must have at least 1 column; got the shape {tuple(X)}.")
        if dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
            raise InputError(f"dtype must be float32 or float64; got {dtype}.")
        data = None
    else:
        data = check_data(_Unfitted(), X, reset=True)
        (n, d), dtype = data.shape, data.dtype
    check_rows(n)
    precomputed = isinstance(parameters.kernel, str) and parameters.kernel == "precomputed"
    if precomputed and n != d:
        raise InputError(f"A precomputed kernel matrix must be square at fit; got shape {(n, d)}.")
    known = like if data is None else data
    rows = drawn_rows(known) if known is not None else made_up_rows(n, d, dtype)
    resolved: Kernel | None = None
    if not precomputed:
        gamma = parameters.gamma if data is not None or not isinstance(parameters.gamma, str) else None
        resolved = kernels.resolve(
            parameters.kernel,
            rows,
            gamma=kernels.resolve_gamma(gamma, rows),
            degree=parameters.degree,
            coef0=parameters.coef0,
            kernel_params=parameters.kernel_params,
        )
        resolved.check(rows)
    return problem_of(
        resolved,
        rows,
        data,
        (n, d),
        dtype,
        n_components=parameters.n_components,
        tol=float(parameters.tol) or FINEST_TOL[dtype],
        eigen_solver=parameters.eigen_solver,
        center=bool(parameters.center),
        threads=thread_count(parameters.n_jobs),
        budget=memory_budget,
        inverse=_rows_learned_from(n, parameters),
        rank=_rank(parameters.approximation, n, parameters.n_components),
        pivots=pivoted(parameters.approximation),
    )


def _rows_learned_from(n: int, parameters: SimpleNamespace) -> int:
    """Return how many rows the way back is learned from, 0 if there is none."""
    if parameters.preimage is not None:
        return min(n, LEARNED_ROWS)
    return n if parameters.fit_inverse_transform else 0


class _Unfitted(BaseEstimator):  # type: ignore[misc]
    """Takes what scikit-learn's checks would write on an estimator."""


def _rank(approximation: Any, n: int, n_components: Any) -> int | None:
    if approximation is None:
        return None
    if not isinstance(approximation, str):
        rank = getattr(approximation, "rank", None)
        return min(rank if isinstance(rank, int) else default_rank(n_components), n)  # a share of the trace: unknown
    return min(default_rank(n_components), n) if approximation != "auto" else -1


def problem_of(
    kernel: Kernel | None,
    rows: Any,
    X: Any,
    shape: tuple[int, int],
    dtype: np.dtype[Any],
    *,
    n_components: int | float | str | None,
    tol: float,
    eigen_solver: str,
    center: bool,
    threads: int,
    budget: Callable[[], int] = memory_budget,
    inverse: int = 0,
    rank: int | None = None,
    pivots: bool = True,
) -> Problem:
    """Return the problem of these rows; X is None where only its shape is known."""
    n, d = shape
    held, held_single, single = held_bytes(kernel, X, n, d, dtype.itemsize)
    whole = isinstance(n_components, int | np.integer)
    return Problem(
        n=n,
        d=d,
        n_components=min(int(n_components), n) if whole and n_components is not None else n_components,
        kernel=kernel,
        itemsize=dtype.itemsize,
        sample=rows,
        measured=X is not None,
        nnz=int(X.nnz) if sparse.issparse(X) else None,
        single=single,
        held=held,
        held_single=held_single,
        tol=tol,
        eigen_solver=eigen_solver,
        center=center,
        threads=threads,
        limit=budget(),
        explicit_limit=memory_limit() is not None,
        inverse=inverse,
        rank=None if isinstance(kernel, Linear) else rank,  # its rows are their own features
        pivoted=pivots,
    )


# -- plans ------------------------------------------------------------------------------------------------------------


def make_plan(problem: Problem) -> Plan:
    """Return the plan of a problem."""
    if problem.rank == -1:  # "auto"
        k = _expected_count(problem)[0]
        if not approximation_needed(problem.n, problem.d, k, problem.tol, problem.limit, held=problem.held):
            problem = _with(problem, rank=None)
        else:
            problem = _with(problem, rank=min(default_rank(problem.n_components), problem.n))
    if problem.rank is not None:
        return _features_plan(problem, problem.rank)
    return _linear_plan(problem) if problem.linear else _kernel_plan(problem)


def approximation_needed(n: int, d: int, k: int, tol: float, limit: int, *, held: int = 0) -> bool:
    """Return True if an exact fit would break the memory limit, or take more than some twenty minutes of two cores.

    A matter of sizes and the limit alone, so that the same request always gets the same answer: the time is counted
    in flops, for the passes that a tolerance usually takes.
    """
    held = held or 8 * n * (d + 2 * (d + 2))
    needed = memory.krylov_bytes(n, k, smallest_basis(k, n), held, 2)
    flops = 0.5 * n * n * usual_passes(tol)[0] * (2.0 * d + 4.0 * block_size(k) + 50.0)
    return needed > limit or flops > _LONGEST_FLOPS


def _with(problem: Problem, **changes: Any) -> Problem:
    return Problem(**{**problem.__dict__, **changes})


def _expected_count(problem: Problem) -> tuple[int, bool]:
    """Return how many components a kernel fit looks for, and whether that is certain."""
    wanted, n = problem.n_components, problem.n
    if wanted is None:
        return n, True
    if isinstance(wanted, int):
        return wanted, True
    if isinstance(wanted, str):  # "auto": a few, as a rule
        return min(n, FIRST_TRY if problem.kernel is not None else MOST_DECIDED), False
    if kernel_route(n, FIRST_TRY, problem.eigen_solver, lambda: problem.limit, held=problem.held).solver == "dense":
        return n, False
    return min(n, expected_count(problem, float(wanted)) or FIRST_TRY), False


def _kernel_plan(problem: Problem) -> Plan:
    n = problem.n
    k, known = _expected_count(problem)
    route = kernel_route(n, k, problem.eigen_solver, lambda: problem.limit, held=problem.held)
    if route.solver == "krylov":
        return _krylov_plan(problem, k, known, route.reason)
    needed = memory.dense_bytes(n, k, problem.held)
    return _finished(
        problem,
        route="dense",
        reason=route.reason,
        k=k,
        k_known=known,
        memory_bytes=needed - BASE // 2,
        memory_bound=needed,
        seconds=dense_seconds(problem, k),
    )


def _krylov_plan(problem: Problem, k: int, known: bool, reason: str) -> Plan:
    n, threads = problem.n, problem.threads
    ahead = outlook(problem, k)
    layout = memory.krylov_layout(n, k, lambda: problem.limit, problem.held, threads)
    if problem.kernel is None:  # a matrix that is there needs no tiles
        tiles = Tiles(0, 0, 0, TileCost(0.0, 0.0))
        seconds, kept_bytes = _matrix_seconds(problem, k, layout.room, ahead), 0
    else:
        item = 4 if problem.single else 8
        cost = cost_of_tiles(problem, step_size(k), single=ahead.single)
        cuts = edges(n, EDGE[item])
        rows = cuts[0].stop
        count = len(cuts) * (len(cuts) + 1) // 2
        worth = machine_rates().fresh <= reuses(problem.tol) * cost.fill / item
        # Fresh memory is judged by two slabs. With float64 passes throughout there are no float32 tiles.
        most = count if worth else 2 * SLAB_BYTES // (rows * rows * item)
        kept = min(most, count, layout.tiles // (rows * rows * item)) if ahead.single or not problem.single else 0
        tiles = Tiles(rows, count, kept, cost)
        seconds = krylov_seconds(problem, k, layout.room, ahead, tiles)
        kept_bytes = int(tiles.share * (n * n / 2 + n * rows / 2) * item)
    vectors = min(layout.room, block_size(k) + step_size(k) * (ahead.passes - 1))
    held = problem.held if ahead.refresh or not ahead.single else problem.held_single
    beside = 8 * n * (2 * vectors + memory.temporaries(k) * (0.8 if ahead.refresh else 0.5))
    expected = held + beside + kept_bytes + workers_bytes(threads, n) // 2 + BASE // 2
    return _finished(
        problem,
        route="krylov",
        reason=reason,
        k=k,
        k_known=known,
        block=block_size(k),
        basis=layout.room,
        tile_rows=tiles.rows,
        tiles=tiles.count,
        tiles_kept=tiles.kept,
        pass_precision="float32" if ahead.single else "float64",
        refresh=ahead.refresh,
        passes=ahead.passes,
        passes_range=ahead.passes_range,
        memory_bytes=int(expected),
        memory_bound=memory.krylov_bytes(n, k, layout.room, problem.held, threads),
        seconds=seconds,
    )


def _matrix_seconds(problem: Problem, k: int, basis: int, ahead: Outlook) -> float:
    """Return the time of block Krylov on a matrix that is given: reading it is what a pass costs."""
    n, rates = problem.n, machine_rates()
    numbers = float(problem.nnz or n * n)
    speed = rates.flops_narrow * (problem.threads if problem.nnz is None else 1.0 / 8)
    per_pass = 2.0 * numbers * step_size(k) / speed
    return ahead.passes * per_pass + basis_seconds(problem, n, k, basis, ahead.passes)


def _linear_plan(problem: Problem) -> Plan:
    n, d = problem.n, problem.d
    side, sparse_rows = min(n, d), problem.nnz is not None
    wanted = problem.n_components
    whole = linear_route(n, d, FIRST_TRY, problem.eigen_solver, sparse=sparse_rows).solver == "direct"
    k = side if wanted is None else wanted if isinstance(wanted, int) else FIRST_TRY
    if isinstance(wanted, float) and whole:
        k = side
    k = min(k, side)
    route = linear_route(n, d, k, problem.eigen_solver, sparse=sparse_rows)
    direct = route.solver == "direct"
    passes, extremes = (1.0, (1, 1)) if direct else usual_passes(problem.tol)
    needed = memory.linear_bytes(n, d, k, problem.itemsize, direct=direct, nnz=problem.nnz, threads=problem.threads)
    require(needed, lambda: problem.limit)
    basis = 0 if direct else basis_size(k, side)
    name = "primal" if d <= n else "dual"
    return _finished(
        problem,
        route=name if direct else f"{name}-krylov",
        reason=route.reason,
        k=k,
        k_known=not isinstance(wanted, float | str),
        block=0 if direct else block_size(k),
        basis=basis,
        pass_precision="float32" if problem.itemsize == 4 and not sparse_rows else "float64",
        passes=passes,
        passes_range=extremes,
        memory_bytes=_linear_expected(problem, k, needed, direct=direct),
        memory_bound=needed,
        seconds=linear_seconds(problem, k, passes, basis, direct=direct),
    )


def _linear_expected(problem: Problem, k: int, bound: int, *, direct: bool) -> int:
    """Return the memory that is likely: of sparse rows ARPACK finds a few components, with little beside the data."""
    if problem.nnz is None or direct or k > FEW_SPARSE:
        return bound - BASE // 2
    vectors = max(2 * k + 1, 20) + 2 * k
    return 20 * problem.nnz + 8 * (problem.n + problem.d) * 3 * k + 8 * min(problem.n, problem.d) * vectors


def _features_plan(problem: Problem, rank: int) -> Plan:
    n, item = problem.n, problem.itemsize
    wanted = problem.n_components
    k = min(rank, wanted) if isinstance(wanted, int) else min(rank, FIRST_TRY) if isinstance(wanted, str) else rank
    columns = problem.d if problem.nnz is None else -(-2 * problem.nnz // n)
    needed = memory.features_bytes(
        n, columns, k, rank=rank, itemsize=item, threads=problem.threads, chosen_from=n if problem.pivoted else 0
    )
    require(needed, lambda: problem.limit, "or take fewer features")
    return _finished(
        problem,
        route="features",
        reason=f"{rank} features were asked for to stand for the kernel",
        k=k,
        k_known=not isinstance(wanted, float | str),
        pass_precision="float32" if item == 4 else "float64",
        memory_bytes=needed - BASE // 2,
        memory_bound=needed,
        seconds=features_seconds(problem, rank, k),
        rank=rank,
    )


def _finished(problem: Problem, **found: Any) -> Plan:
    """Return a plan with what all routes have in common, and the way back where it is asked for."""
    if problem.inverse:
        n = problem.inverse
        ridge = ridge_bytes(n, problem.d, found["k"], problem.itemsize) + 24 * problem.n * found["k"]
        require(ridge, lambda: problem.limit)
        found["memory_bytes"] = max(found["memory_bytes"], ridge)
        found["memory_bound"] = max(found["memory_bound"], ridge)
        rates = machine_rates()
        flops = n**3 / 3.0 + 2.0 * n**2 * problem.d
        found["seconds"] += flops / (rates.flops_double * problem.threads) + 8.0 * n**2 * rates.fresh
    if isinstance(problem.n_components, str) and problem.kernel is not None:
        m, dense = deciding_rows(problem.n, problem.d), problem.nnz is None
        deciding = memory.decision_bytes(m, problem.d if dense else 0, problem.threads)
        require(deciding, lambda: problem.limit, ("or give ", Setting("n_components"), " as a number"))
        found["memory_bytes"] = max(found["memory_bytes"], deciding)
        found["memory_bound"] = max(found["memory_bound"], deciding)
        found["seconds"] += decision_seconds(problem, m)
    usual: dict[str, Any] = {
        "block": 0,
        "basis": 0,
        "pass_precision": "float64",
        "refresh": False,
        "tile_rows": 0,
        "tiles": 0,
        "tiles_kept": 0,
        "passes": 1.0,
        "passes_range": (1, 1),
    }
    found["memory_bytes"] = min(found["memory_bytes"], problem.limit)
    assert math.isfinite(found["seconds"])
    return Plan(
        n=problem.n,
        d=problem.d,
        memory_limit=problem.limit,
        threads=problem.threads,
        **(usual | found),
    )
