"""The solvers of a kernel matrix by name: what each is, how it runs, and what it is expected to take.

Which of them a fit takes is decided in `plan`. Another solver is a function of `spectrum` and a row of `SOLVERS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kpca._base.config import BASE, MEMORY_LIMIT
from kpca._base.errors import InputError, Setting
from kpca._base.linalg import FloatArray
from kpca._base.progress import pass_monitor
from kpca.estimators import cost, memory
from kpca.estimators.checkpoint import Checkpoint
from kpca.estimators.cost import Problem, Request
from kpca.features.guess import leading_eigenvectors
from kpca.gram import Centered
from kpca.gram.tiles import LOOK_BYTES, edges, keeping_pays, tile_edge, workers_bytes
from kpca.spectrum import Spectrum, solve_dense, solve_krylov
from kpca.spectrum.krylov import block_size, step_size

# From this share of all components on, the whole spectrum is cheaper than a Krylov basis of that size.
LARGE_SHARE = 1 / 6
# Products after the first that a tolerance takes, about.
_REUSES, _REUSES_WHEN_TIGHT, _LOOSE = 2, 5, 1e-8
# Columns of the first block that stay random beside the guess: they find what the guess has missed.
_RANDOM_COLUMNS = 4


@dataclass(frozen=True)
class Near:
    """What is known of the components under kernels that differ little."""

    columns: FloatArray  # eigenvectors, those of several kernels after each other, shape: (n, b)
    largest: float  # eigenvalue, about
    probe: FloatArray | None = None  # the `probe` of the nearest one's spectrum


@dataclass(frozen=True)
class Solver:
    """A way to the components of a kernel matrix."""

    title: str
    serves: Callable[[int, int, int, Callable[[], int]], bool]  # n, k, held, budget: where it was asked for by name
    solve: Callable[..., Spectrum]
    expected: Callable[[Problem, int], dict[str, Any]]  # the fields of a plan for k components


def limits(request: Request) -> dict[str, Any]:
    """Return what ends an iteration, or watches it."""
    return {"max_passes": request.max_passes, "seed": request.seed, "monitor": pass_monitor()}


# -- the whole matrix -------------------------------------------------------------------------------------------------


def require_whole(n: int, k: int, held: int, budget: Callable[[], int]) -> bool:
    """Return True, or raise InputError if there is no room for the whole matrix; `held` lies in memory beside it."""
    needed, allowed = memory.dense_bytes(n, k, held), budget()
    if needed > allowed:
        raise InputError(
            f"{k} components of {n} rows need the whole kernel matrix, {needed / 2**20:,.0f} MiB; the memory limit is "
            f"{allowed / 2**20:,.0f} MiB",
            remedy=("ask for ", Setting("n_components"), f" below {int(n * LARGE_SHARE)}, or raise ", MEMORY_LIMIT),
        )
    return True


def _solve_whole(gram: Any, count: int, request: Request, **known: Any) -> Spectrum:
    return solve_dense(Centered(gram) if request.center else gram, count)


def _expected_whole(problem: Problem, k: int) -> dict[str, Any]:
    needed = memory.dense_bytes(problem.n, k, problem.held)
    seconds = cost.dense_seconds(problem, k)
    return {"memory_bytes": needed - BASE // 2, "memory_bound": needed, "seconds": seconds}


# -- products with tiles ----------------------------------------------------------------------------------------------


def _solve_by_blocks(
    gram: Any, count: int, request: Request, *, start: Near | None, near: Near | None, checkpoint: Checkpoint | None
) -> Spectrum:
    """Return this many components, or more where a checkpoint has got further; `near` is where all rounds started."""
    n, held = gram.shape[0], memory.held_by(gram)
    operator = Centered(gram) if request.center else gram
    count, keeper = (count, None) if checkpoint is None else checkpoint.at(count)
    layout = memory.krylov_layout(n, count, request.budget, held, request.threads)
    gram.at("single").keep_tiles(0 if near is not None else layout.tiles, _reuses(request.tol))
    if start is None and gram.kernel is not None:
        guess = max(block_size(count) - 1 - _RANDOM_COLUMNS, 1)
        start = Near(*leading_eigenvectors(gram, guess, centred=request.center, seed=request.seed))
    known = {} if start is None else {"start": start.columns, "largest": start.largest, "probe": start.probe}
    how: dict[str, Any] = {**known, "room": layout.room, "keeper": keeper}
    return solve_krylov(operator, count, request.tol, **how, **limits(request))


def _reuses(tol: float) -> int:
    """Return how often a kept tile is likely to be used again."""
    return _REUSES if tol > _LOOSE else _REUSES_WHEN_TIGHT


def _expected_by_blocks(problem: Problem, k: int) -> dict[str, Any]:
    n, threads = problem.n, problem.threads
    ahead = cost.outlook(problem, k)
    layout = memory.krylov_layout(n, k, problem.budget, problem.held, threads)
    rows = count = kept = kept_bytes = 0
    why = ""
    if problem.kernel is None:  # a matrix that is there needs no tiles
        seconds = cost.matrix_seconds(problem, k, layout.room, ahead)
    else:
        item = 4 if problem.single else 8
        tile = cost.cost_of_tiles(problem, step_size(k), single=ahead.single)
        cuts = edges(n, tile_edge(n, item))
        rows, count = cuts[0].stop, len(cuts) * (len(cuts) + 1) // 2
        worth = keeping_pays(cost.machine_rates().fresh, tile.fill / item, _reuses(problem.tol))
        most = count if worth else LOOK_BYTES // (rows * rows * item)
        room = layout.tiles // (rows * rows * item)
        why = "fresh memory costs more time here than it saves" if not worth else layout.why if room < count else ""
        # With float64 passes throughout there are no float32 tiles.
        kept = min(most, count, room) if ahead.single or not problem.single else 0
        seconds = cost.krylov_seconds(problem, k, layout.room, ahead, tile, kept=kept / count)
        kept_bytes = int(kept / count * (n * n / 2 + n * rows / 2) * item)
    vectors = min(layout.room, block_size(k) + step_size(k) * (ahead.passes - 1))
    held = problem.held if ahead.refresh or not ahead.single else problem.held_single
    beside = 8 * n * (2 * vectors + memory.temporaries(k) * (0.8 if ahead.refresh else 0.5))
    return {
        "block": block_size(k),
        "basis": layout.room,
        "tile_rows": rows,
        "tiles": count,
        "tiles_kept": kept,
        "tiles_reason": why,
        "pass_precision": "float32" if ahead.single else "float64",
        "refresh": ahead.refresh,
        "passes": ahead.passes,
        "passes_range": ahead.passes_range,
        "memory_bytes": int(held + beside + kept_bytes + workers_bytes(threads, n) // 2 + BASE // 2),
        "memory_bound": memory.krylov_bytes(n, k, layout.room, problem.held, threads),
        "seconds": seconds,
    }


SOLVERS = {
    "dense": Solver(
        "the whole kernel matrix, solved by LAPACK", require_whole, solve=_solve_whole, expected=_expected_whole
    ),
    "krylov": Solver(
        "block Krylov on tiles of the kernel matrix",
        lambda n, k, held, budget: k <= n // 2,
        solve=_solve_by_blocks,
        expected=_expected_by_blocks,
    ),
}
