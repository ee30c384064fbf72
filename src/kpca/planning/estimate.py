"""What some rows tell about the spectrum of all: how many passes a fit will take, and what float32 can do for it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from kpca import blas
from kpca.features.guess import leading_eigenvectors
from kpca.gram import Centered, Gram
from kpca.kernels import Kernel
from kpca.planning.problem import Problem
from kpca.planning.rules import better_shifted, count_for_share
from kpca.spectrum.krylov import block_size, needs_refresh, single_is_enough, solve_krylov

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
    for known, middle, extremes in _SEEN:
        if tol >= known * 0.99:
            return middle, extremes
    return _SEEN[-1][1], _SEEN[-1][2]


def _tried(problem: Problem, kernel: Kernel, k: int) -> tuple[float, float] | None:
    """Return passes and the error of float32 products, found on the sample; None if that is too small."""
    rows = problem.sample
    m = rows.shape[0]
    if m < max(_FEWEST_ROWS, 6 * k):
        return None
    shifted = problem.center and better_shifted(kernel, rows)
    gram = Gram(kernel, rows, shifted=shifted, threads=1)
    with blas.single_threaded(), warnings.catch_warnings():
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


def expected_count(problem: Problem, fraction: float) -> int | None:
    """Return about how many components explain a fraction of the variance; None without data."""
    if not problem.measured or problem.kernel is None or problem.linear:
        return None
    gram = Gram(
        problem.kernel, problem.sample, shifted=problem.center and better_shifted(problem.kernel, problem.sample)
    )
    return count_for_share(gram, fraction, centred=problem.center, seed=0)
