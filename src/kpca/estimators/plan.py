"""Which way a fit goes and why: the one place that decides, for the fit that runs and for the plan that is shown.

Routes follow from sizes and limits alone, so that the same request always takes the same way. `KernelPCA.fit` asks
`features_instead`, `first_count` and the routes; `make_plan` asks the same and adds what `cost` and `memory` estimate.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from numbers import Integral, Real
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from kpca import kernels
from kpca._base.config import BASE, memory_budget, require, thread_count
from kpca._base.errors import InputError, Setting
from kpca._base.validation import check_data, check_jobs, check_n_components, check_rows
from kpca.estimators import cost, memory
from kpca.estimators.cost import FIRST_TRY, Problem, Request
from kpca.estimators.solvers import LARGE_SHARE, SOLVERS, require_whole
from kpca.features import RandomFeatures
from kpca.features.landmarks import rows_chosen_from
from kpca.kernels import Kernel, Linear
from kpca.kernels.profiles import in_use
from kpca.preimage.back import LEARNED_ROWS
from kpca.preimage.learned import ridge_bytes
from kpca.spectrum.factored import FEW_SPARSE
from kpca.spectrum.krylov import basis_size, block_size, smallest_basis

# What tol=0 means: the residual each precision can reach, relative to the largest eigenvalue.
FINEST_TOL: dict[np.dtype[Any], float] = {np.dtype(np.float32): 1e-5, np.dtype(np.float64): 1e-10}
# Features where only the kind of approximation is named: about a second per hundred thousand rows on two cores.
_RANK = 1000
_FEATURES_PER_COMPONENT = 5
# Up to this many rows the whole matrix is solved faster than by products with its tiles; for a few components
# ARPACK on the whole matrix is quicker still, and up to the second limit.
_SMALL, _SMALL_FOR_FEW, _FEW = 700, 1200, 10
# Beyond one component per this many entries of the matrix LAPACK wins: 22 of 1,500 rows, 90 of 3,000, 360 of 6,000.
_SQUARE_PER_COMPONENT = 1e5
# Up to this many rows nobody asks how much memory there is.
_TINY = 256
# The small side of the linear kernel is formed up to this size; beyond it, and for few components, only multiplied.
_DIRECT_SIDE, _DIRECT_SPARSE_SIDE = 1000, 300
# Twenty minutes of two cores, in multiplications and additions of an exact fit.
_LONGEST_FLOPS = 2e14
# What eigen_solver= takes; the last two are names of scikit-learn, which mean "auto".
_EIGEN_SOLVERS = ("auto", *SOLVERS, "arpack", "randomized")


# -- decisions --------------------------------------------------------------------------------------------------------


def check_parameters(estimator: Any) -> None:
    """Check every constructor parameter that is not checked where it is used."""
    check_n_components(estimator.n_components, auto=True)
    solver, limit = estimator.eigen_solver, estimator.max_iter
    if solver not in _EIGEN_SOLVERS:
        raise InputError(f"must be one of {', '.join(map(repr, _EIGEN_SOLVERS))}", param="eigen_solver", value=solver)
    for name, value in (("tol", estimator.tol), ("alpha", estimator.alpha)):
        if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) < math.inf:
            raise InputError("must be a number of at least 0", param=name, value=value)
    if limit is not None and not (isinstance(limit, Integral) and int(limit) >= 1):
        raise InputError("must be None or a whole number of passes from 1", param="max_iter", value=limit)
    check_jobs(estimator.n_jobs)
    wants_back = estimator.fit_inverse_transform or estimator.preimage is not None
    if isinstance(estimator.kernel, str) and estimator.kernel == "precomputed" and wants_back:
        name = "fit_inverse_transform" if estimator.preimage is None else "find pre-images"
        raise InputError(f"Cannot {name} with a precomputed kernel: there is no data to return to.")


def kernel_of(parameters: Any, X: Any, gamma: Any) -> Kernel:
    """Return the kernel that the parameters of an estimator name, with a gamma that has been found, for such rows."""
    names = ("degree", "coef0", "kernel_params")
    kernel = kernels.resolve(parameters.kernel, X, gamma=gamma, **{name: getattr(parameters, name) for name in names})
    kernel.check(X)
    return kernel


def is_auto(setting: Any) -> bool:
    """Return True where the choice is left to us."""
    return isinstance(setting, str) and setting == "auto"


def features_instead(approximation: Any, kernel: Kernel | None, n: int, d: int, request: Request) -> bool:
    """Return True if explicit features are to be used; the rows of the linear kernel are features already."""
    if approximation is None or isinstance(kernel, Linear):
        return False
    if not is_auto(approximation):
        return True
    wanted = request.n_components
    count = n if wanted is None else wanted if isinstance(wanted, int) else FIRST_TRY
    return approximation_needed(n, d, count, request.tol, request.budget())


def approximation_needed(n: int, d: int, k: int, tol: float, limit: int) -> bool:
    """Return True if an exact fit would break the memory limit, or take more than some twenty minutes of two cores.

    The time is counted in flops, for the passes that a tolerance usually takes.
    """
    needed = memory.krylov_bytes(n, k, smallest_basis(k, n), 8 * n * (d + 2 * (d + 2)), 2)
    flops = 0.5 * n * n * cost.usual_passes(tol)[0] * (2.0 * d + 4.0 * block_size(k) + 50.0)
    return needed > limit or flops > _LONGEST_FLOPS


def default_rank(n_components: int | float | str | None) -> int:
    """Return how many features to take where the user has not said."""
    wanted = n_components if isinstance(n_components, int) else 0
    return max(_RANK, _FEATURES_PER_COMPONENT * wanted)


def rank_of(approximation: Any, n_components: int | float | None, n: int | None = None) -> int:
    """Return how many features an approximation takes, as far as is known: landmarks are at most all n rows."""
    rank = getattr(approximation, "rank", None)
    rank = int(rank) if isinstance(rank, Integral) else default_rank(n_components)  # a share of the trace: unknown
    return rank if n is None or is_random(approximation) else min(rank, n)


def is_random(approximation: Any) -> bool:
    """Return True for random features, which know no rows."""
    return approximation == "rff" if isinstance(approximation, str) else isinstance(approximation, RandomFeatures)


def pivoted(approximation: Any, n: int, rank: int) -> int:
    """Return how many of n rows landmarks will be chosen among by pivoted Cholesky, 0 if they are not.

    Its factor, of so many rows, is the largest thing in the fit.
    """
    named = approximation in ("nystroem", "auto") if isinstance(approximation, str) else False
    landmarks = getattr(approximation, "landmarks", None)
    if not (named or (isinstance(landmarks, str) and landmarks == "rpcholesky")):
        return 0
    known = named or isinstance(approximation.rank, Integral)
    return rows_chosen_from(n, rank if known else 0)


@dataclass(frozen=True)
class Route:
    """How the eigenproblem is solved: "dense" or "krylov", for the linear kernel "direct" or "multiplied"."""

    solver: str
    reason: str


def first_count(request: Request, n: int, guess: Callable[[float], int]) -> int:
    """Return how many components of a kernel matrix to look for first.

    For a share of the variance that is all where the whole matrix is solved anyway, otherwise a guess.
    """
    wanted = request.n_components
    if wanted is None or isinstance(wanted, int):
        return n if wanted is None else min(wanted, n)
    if kernel_route(n, FIRST_TRY, request.eigen_solver, request.budget).solver == "dense":
        return n
    return min(guess(wanted), n)


def first_linear_count(request: Request, n: int, d: int, *, sparse: bool) -> int:
    """Return how many components of the linear kernel to look for first."""
    wanted, side = request.n_components, min(n, d)
    if wanted is None or isinstance(wanted, int):
        return side if wanted is None else min(wanted, side)
    whole = linear_route(n, d, FIRST_TRY, request.eigen_solver, sparse=sparse).solver == "direct"
    return side if whole else min(FIRST_TRY, side)


def kernel_route(n: int, k: int, eigen_solver: str, budget: Callable[[], int], *, held: int = 0) -> Route:
    """Return the route for a kernel matrix of n rows, of which k components are wanted.

    `held` is what lies in memory beside the matrix: the data, and what is made of them.
    """
    asked = SOLVERS.get(eigen_solver)
    if asked is not None and asked.serves(n, k, held, budget):
        return Route(eigen_solver, f"eigen_solver={eigen_solver!r}")
    few_rows = n <= _SMALL or (n <= _SMALL_FOR_FEW and k < _FEW)
    if (few_rows or k > n * n / _SQUARE_PER_COMPONENT) and (n <= _TINY or memory.dense_bytes(n, k, held) <= budget()):
        found = "component is" if k == 1 else "components are"
        return Route("dense", f"{k} {found} found faster in the whole matrix of {n} rows")
    if k > n * LARGE_SHARE and require_whole(n, k, held, budget):
        return Route("dense", f"{k} of {n} components are a large share")
    return Route("krylov", f"{k} of {n} components need only products with the kernel matrix")


def linear_route(n: int, d: int, k: int, eigen_solver: str, *, sparse: bool) -> Route:
    """Return the route for the linear kernel, whose small side is min(n, d)."""
    side = min(n, d)
    if eigen_solver == "dense" or side <= (_DIRECT_SPARSE_SIDE if sparse else _DIRECT_SIDE) or k > side * LARGE_SHARE:
        return Route("direct", f"the small side of the data, {side}, is formed and solved whole")
    return Route("multiplied", f"{k} of {side} components need only products with the data")


# -- what a plan says -------------------------------------------------------------------------------------------------

_TITLES = {
    **{name: solver.title for name, solver in SOLVERS.items()},
    "primal": "the covariance of the features, solved whole",
    "dual": "the products of the rows, solved whole",
    "primal-krylov": "block Krylov on the covariance of the features",
    "dual-krylov": "block Krylov on the products of the rows",
    "features": "explicit features",
}


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Which way a fit goes and why, with what it is expected to take."""

    route: str  # "dense", "krylov", "primal", "dual", "primal-krylov", "dual-krylov" or "features"
    reason: str
    n: int
    d: int
    k: int  # components that will be looked for
    k_known: bool  # False for a fraction of the variance and for "auto": k is then an estimate
    block: int = 0  # columns of the first pass, 0 where there are none
    basis: int = 0  # vectors of the basis before a restart, 0 where there are none
    pass_precision: str = "float64"  # or "float32": what most of the work is done in
    refresh: bool = False  # float64 products put float32 ones right in the end
    tile_rows: int = 0  # rows and columns of a tile, 0 where there are none
    tiles: int = 0
    tiles_kept: int = 0  # that are computed only once
    tiles_reason: str = ""  # why no more of them
    passes: float = 1.0  # expected
    passes_range: tuple[int, int] = (1, 1)
    memory_bytes: int  # expected peak above what the process holds before
    memory_bound: int  # what it stays below, without tiles that are kept
    memory_limit: int
    seconds: float  # expected
    threads: int
    rank: int | None = None  # of explicit features
    profiles: str = field(default_factory=in_use)  # how kernel values are computed

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
            f"{self.threads} thread{'' if self.threads == 1 else 's'}.",
            f"Precision: {self.precision}.",
            f"Kernel values: by {self.profiles}.",
        ]
        if self.rank is not None:
            lines.append(f"Features: {self.rank:,} numbers stand for each row.")
        if self.tiles:
            why = f" ({self.tiles_reason})" if self.tiles_reason else ""
            lines.append(
                f"Tiles: {self.tiles:,} of {self.tile_rows:,} rows, {self.tiles_kept:,} of them kept{why}; blocks of "
                f"{self.block} columns, a basis of {self.basis:,}."
            )
        if self.block:
            low, high = self.passes_range
            lines.append(f"Passes: about {self.passes:.0f}, between {low} and {high} depending on the data.")
        lines.append(f"Memory: about {size_words(self.memory_bytes)} of the {size_words(self.memory_limit)} allowed.")
        lines.append(f"Time: about {time_words(self.seconds)}.")
        return "\n".join(lines)


def size_words(size: float) -> str:
    """Return bytes in a unit that reads well."""
    units = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
    unit, name = next((one for one in units if size >= 0.995 * one[0]), units[-1])
    value = size / unit
    digits = f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 99.95 else f"{value:,.0f}"
    return f"{digits} {name}"


def time_words(seconds: float) -> str:
    """Return seconds in a unit that reads well."""
    units = ((0.9995, 1000 * seconds, "ms"), (120, seconds, "s"), (7200, seconds / 60, "minutes"))
    found = ((value, unit) for limit, value, unit in units if seconds < limit)
    value, unit = next(found, (seconds / 3600, "hours"))
    digits = f"{value:.1f}" if value < 9.95 else f"{round(value, 1 - int(math.log10(value))):,.0f}"
    return f"{digits} {unit}"


# -- from data or a mere shape to a plan; nothing of the size of the kernel matrix is computed ------------------------


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
    parameters = {name: given[name] for name in names}
    if estimator is not None:
        parameters = _parameters_of(estimator, parameters)
    return make_plan(_problem(X, SimpleNamespace(**{"alpha": 1.0, **parameters}), np.dtype(dtype)))


def plan_like(shape: tuple[int, int], like: Any, *, estimator: Any, dtype: Any) -> Plan:
    """Return the plan of this many sparse rows, of which there are only some: landmarks, or a sample."""
    problem = _problem(shape, SimpleNamespace(**_parameters_of(estimator, {})), np.dtype(dtype), like)
    held, held_single, single = cost.held_bytes(problem.kernel, like, like.shape[0], like.shape[1], like.dtype.itemsize)
    nnz, held, held_single = (math.ceil(shape[0] / like.shape[0] * size) for size in (like.nnz, held, held_single))
    return make_plan(replace(problem, nnz=nnz, held=held, held_single=held_single, single=single))


def _parameters_of(estimator: Any, others: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of an estimator, and refuse others beside it."""
    defaults = inspect.signature(plan).parameters
    spare = [name for name, value in others.items() if value is not defaults[name].default]
    if spare:
        raise InputError(f"With estimator=, its own parameters are used; got {spare[0]} as well: leave it out.")
    if not hasattr(estimator, "get_params"):
        raise InputError(f"estimator must be a KernelPCA; got {type(estimator).__name__}.")
    known: dict[str, Any] = {"approximation": None, "preimage": None} | estimator.get_params(deep=False)
    if isinstance(known["n_components"], str) and hasattr(estimator, "n_components_"):
        known["n_components"] = int(estimator.n_components_)  # it has been decided
    return known


def _problem(X: Any, parameters: SimpleNamespace, dtype: np.dtype[Any], like: Any = None) -> Problem:
    """Return the fit as the planner sees it; X may be a shape, and `like` then rows to look at."""
    check_parameters(parameters)
    if isinstance(X, tuple) and all(isinstance(size, int | np.integer) for size in X):
        if len(X) != 2:
            raise InputError(f"X must be rows of data or their shape (n, d); got {X}: give two numbers.")
        n, d = int(X[0]), int(X[1])
        if d < 1:
            raise InputError(f"X must have at least 1 column; got the shape {tuple(X)}.")
        if dtype not in FINEST_TOL:
            raise InputError(f"dtype must be float32 or float64; got {dtype}.")
        data = None
    else:
        data = check_data(BaseEstimator(), X, reset=True)  # which takes what scikit-learn's checks write down
        (n, d), dtype = data.shape, data.dtype
    check_rows(n)
    precomputed = isinstance(parameters.kernel, str) and parameters.kernel == "precomputed"
    if precomputed and n != d:
        raise InputError(f"A precomputed kernel matrix must be square at fit; got shape {(n, d)}.")
    rows = cost.sample_or_made_up(like if data is None else data, n, d, dtype)
    kernel: Kernel | None = None
    if not precomputed:
        gamma = parameters.gamma if data is not None or not isinstance(parameters.gamma, str) else None
        kernel = kernel_of(parameters, rows, kernels.resolve_gamma(gamma, rows))
    wanted, decides = parameters.n_components, isinstance(parameters.n_components, str)
    if decides:  # a few, as a rule
        wanted = FIRST_TRY if kernel is not None else memory.MOST_DECIDED
    held, held_single, single = cost.held_bytes(kernel, data, n, d, dtype.itemsize)
    limit = memory_budget()
    learned = n if parameters.fit_inverse_transform else 0
    return Problem(
        n_components=min(int(wanted), n) if isinstance(wanted, int | np.integer) else wanted,
        tol=float(parameters.tol) or FINEST_TOL[dtype],
        eigen_solver=parameters.eigen_solver,
        center=bool(parameters.center),
        threads=thread_count(parameters.n_jobs),
        budget=lambda: limit,
        n=n,
        d=d,
        kernel=kernel,
        itemsize=dtype.itemsize,
        sample=rows,
        measured=data is not None,
        nnz=int(data.nnz) if data is not None and sparse.issparse(data) else None,
        single=single,
        held=held,
        held_single=held_single,
        decides=decides,
        inverse=learned if parameters.preimage is None else min(n, LEARNED_ROWS),
        approximation=parameters.approximation,
    )


def _kernel_plan(problem: Problem) -> dict[str, Any]:
    n = problem.n
    k = first_count(problem, n, lambda share: cost.expected_count(problem, share))
    route = kernel_route(n, k, problem.eigen_solver, problem.budget, held=problem.held)
    expected = SOLVERS[route.solver].expected(problem, k)
    return {"route": route.solver, "reason": route.reason, "k": k, **expected}


def _linear_plan(problem: Problem) -> dict[str, Any]:
    n, d, sparse_rows = problem.n, problem.d, problem.nnz is not None
    k = first_linear_count(problem, n, d, sparse=sparse_rows)
    route = linear_route(n, d, k, problem.eigen_solver, sparse=sparse_rows)
    direct = route.solver == "direct"
    passes, extremes = (1.0, (1, 1)) if direct else cost.usual_passes(problem.tol)
    needed = memory.linear_bytes(n, d, k, problem.itemsize, direct=direct, nnz=problem.nnz, threads=problem.threads)
    require(needed, problem.budget)
    expected = needed - BASE // 2
    if problem.nnz is not None and not direct and k <= FEW_SPARSE:  # ARPACK takes little beside the data
        vectors = max(2 * k + 1, 20) + 2 * k
        expected = 20 * problem.nnz + 8 * (n + d) * 3 * k + 8 * min(n, d) * vectors
    basis = 0 if direct else basis_size(k, min(n, d))
    name = "primal" if d <= n else "dual"
    return {
        "route": name if direct else f"{name}-krylov",
        "reason": route.reason,
        "k": k,
        "block": 0 if direct else block_size(k),
        "basis": basis,
        "pass_precision": "float32" if problem.itemsize == 4 and not sparse_rows else "float64",
        "passes": passes,
        "passes_range": extremes,
        "memory_bytes": expected,
        "memory_bound": needed,
        "seconds": cost.linear_seconds(problem, k, passes, basis, direct=direct),
    }


def _features_plan(problem: Problem) -> dict[str, Any]:
    n, wanted = problem.n, problem.n_components
    rank = rank_of(problem.approximation, None if problem.decides else wanted, n)
    pivots = pivoted(problem.approximation, n, rank)
    k = min(rank, wanted) if isinstance(wanted, int) else rank
    columns = problem.d if problem.nnz is None else -(-2 * problem.nnz // n)
    how = {"rank": rank, "itemsize": problem.itemsize, "threads": problem.threads, "chosen_from": pivots}
    drawn = problem.d if is_random(problem.approximation) else 0
    needed = memory.features_bytes(n, columns, k, drawn=drawn, **how)
    require(needed, problem.budget, "or take fewer features")
    return {
        "route": "features",
        "reason": f"{rank} features were asked for to stand for the kernel",
        "k": k,
        "pass_precision": "float32" if problem.itemsize == 4 else "float64",
        "memory_bytes": needed - BASE // 2,
        "memory_bound": needed,
        "seconds": cost.features_seconds(problem, rank, k, pivots=pivots),
        "rank": rank,
    }


def make_plan(problem: Problem) -> Plan:
    """Return the plan of a problem: the route that a fit takes, and what that is likely to cost."""
    n, d, m = problem.n, problem.d, problem.inverse
    features = features_instead(problem.approximation, problem.kernel, n, d, problem)
    route = _features_plan if features else _linear_plan if problem.linear else _kernel_plan
    found = route(problem)
    beside: list[tuple[int, float]] = []  # a number to decide, an inverse map to learn
    if m:
        needed = ridge_bytes(m, d, found["k"], problem.itemsize) + 24 * n * found["k"]
        require(needed, problem.budget)
        rates, flops = cost.machine_rates(), m**3 / 3.0 + 2.0 * m**2 * d
        beside.append((needed, flops / (rates.flops_double * problem.threads) + 8.0 * m**2 * rates.fresh))
    if problem.decides and problem.kernel is not None:
        rows = memory.deciding_rows(n, d)
        needed = memory.decision_bytes(rows, d if problem.nnz is None else 0, problem.threads)
        require(needed, problem.budget, ("or give ", Setting("n_components"), " as a number"))
        beside.append((needed, cost.decision_seconds(problem, rows)))
    for needed, seconds in beside:
        found["memory_bytes"] = max(found["memory_bytes"], needed)
        found["memory_bound"] = max(found["memory_bound"], needed)
        found["seconds"] += seconds
    limit = problem.budget()
    found["memory_bytes"] = min(found["memory_bytes"], limit)
    assert math.isfinite(found["seconds"])
    known = not (problem.decides or isinstance(problem.n_components, float))
    return Plan(n=n, d=d, k_known=known, memory_limit=limit, threads=problem.threads, **found)
