"""Randomly pivoted Cholesky, accelerated: rows are drawn by what the rows drawn before leave unexplained.

The plain algorithm draws one row at a time with probability d_s / sum(d), d the diagonal of K - G G'. Here a block of
rows is drawn from d at once; row after row is accepted with probability (what is left of it now) / (what was left when
it was drawn), which gives accepted rows exactly the law of the plain algorithm, and full kernel columns are evaluated
for accepted rows only, all at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from kpca._base.config import memory_budget
from kpca._base.errors import InputError, Setting
from kpca._base.linalg import FloatArray
from kpca._base.threads import in_order, single_threaded
from kpca.gram.engine import evaluator
from kpca.gram.tiles import edges
from kpca.kernels import Kernel

_DOUBLE = np.dtype(np.float64)
_ROWS = 512  # of a piece of work: its kernel values and its rows of the factor stay near the core
_LARGEST_BLOCK = 256
_GROWING = 256  # columns to begin with where nobody knows how many it will take
# What is left of k(x, x) below this share of it is rounding.
_ROUNDING = 1e-13


@dataclass(frozen=True)
class Pivots:
    """The rows drawn, in the order in which they were, and what they leave unexplained."""

    indices: NDArray[np.intp]  # shape: (r,)
    residual: FloatArray  # the diagonal of K - G G' once all are in, shape: (n,)
    unexplained: float  # the (weighted) sum of that over the (weighted) trace
    exhausted: bool  # True if nothing but rounding is left


def pivoted_cholesky(
    kernel: Kernel,
    X: Any,
    *,
    most: int,
    fraction: float = 0.0,
    weights: FloatArray | None = None,
    seed: int = 0,
    threads: int = 1,
    block: int | None = None,
) -> Pivots:
    """Draw rows until there are `most`, or until at most this fraction of the trace is left, or only rounding is.

    Needs 8 n r bytes for the factor. `block` fixes the number of rows drawn at once; it changes the speed and the draw,
    not its law.
    """
    shares = np.ones(X.shape[0]) if weights is None else weights
    rng = np.random.default_rng(seed)
    size = block or min(_LARGEST_BLOCK, max(1, most // 10 if fraction == 0.0 else 4))
    rate = 1.0
    with single_threaded():  # also so that sums repeat to the bit
        factor = _Factor(kernel, X, shares, most=most, expected=0 if fraction else most, threads=threads)
        while factor.rank < most and factor.left > fraction * factor.trace:
            wanted = math.ceil(1.25 * (most - factor.rank) / max(rate, 0.05)) + 1
            # with probability weight * residual, with replacement
            heights = np.cumsum(shares * factor.residual)
            drawn = np.searchsorted(heights, rng.random(min(size, wanted)) * heights[-1], side="right")
            drawn = np.minimum(drawn, len(heights) - 1)
            accepted, lower = factor.sift(rng, drawn)
            rate = len(accepted) / len(drawn)
            if len(accepted):
                factor.extend(accepted, lower, fraction * factor.trace)
            if block is None:  # rejected rows cost little, rounds with few accepted ones are slow
                size = min(2 * size, _LARGEST_BLOCK) if rate > 0.5 else max(1, size // 2) if rate < 0.1 else size
    share = factor.left / factor.trace if factor.trace > 0 else 0.0
    return Pivots(np.array(factor.pivots, dtype=np.intp), factor.residual, share, factor.left == 0.0)


class _Factor:
    """G of K ~ G G', and the diagonal of what is left."""

    def __init__(self, kernel: Kernel, X: Any, weights: FloatArray, *, most: int, expected: int, threads: int) -> None:
        self._kernel, self._X, self._weights, self._threads = kernel, X, weights, threads
        self._most, self._expected = most, expected
        self._memo: dict[Any, Any] = {}  # what the engine makes of all rows, once
        argument_error = evaluator(kernel, X[:1], X, _DOUBLE, memo=self._memo).argument_error
        self._diagonal = np.maximum(kernel.diagonal(X), 0.0)
        self._floor = self._diagonal * (_ROUNDING + 4.0 * argument_error)
        self._pieces = edges(X.shape[0], _ROWS)
        self._G = np.empty((X.shape[0], 0))
        self.residual = self._diagonal.copy()  # shape: (n,)
        self.pivots: list[int] = []
        self.trace = self.left = float(weights @ self.residual)

    @property
    def rank(self) -> int:
        return len(self.pivots)

    def sift(self, rng: np.random.Generator, drawn: NDArray[np.intp]) -> tuple[NDArray[np.intp], FloatArray]:
        """Return the rows accepted and the Cholesky factor of their block of K - G G'.  # shape: (a,), (a, a)"""
        rows = self._G[drawn, : self.rank]
        X = self._X[drawn].astype(np.float64, copy=False)
        H = np.asarray(self._kernel.block(X, X)) - rows @ rows.T  # shape: (b, b)
        before, now, floor = self.residual[drawn], np.diagonal(H).copy(), self._floor[drawn]
        if (now <= floor).any():  # fresh values say that nothing is left of some: they must not be drawn for ever
            self.residual[drawn[now <= floor]] = 0.0
            self.left = float(self._weights @ self.residual)
        luck = rng.random(len(drawn))
        columns = np.zeros((len(drawn), len(drawn)))  # of the factor of H, one for each accepted row
        accepted: list[int] = []
        for j in range(len(drawn)):
            if self.rank + len(accepted) == self._most:
                break
            if now[j] <= floor[j] or luck[j] * before[j] >= now[j]:
                continue
            a = len(accepted)
            column = (H[:, j] - columns[:, :a] @ columns[j, :a]) / math.sqrt(now[j])
            columns[:, a] = column
            now -= column * column
            accepted.append(j)
        kept = np.array(accepted, dtype=np.intp)
        return drawn[kept], np.tril(columns[kept, : len(kept)])

    def extend(self, accepted: NDArray[np.intp], lower: FloatArray, enough: float) -> None:
        """Add the columns of the accepted rows, but no more than it takes to leave `enough` of the trace or less."""
        start, count = self.rank, len(accepted)
        self._make_room(start + count)
        G, known = self._G, self._G[accepted, :start]
        inverse = solve_triangular(lower, np.eye(count), lower=True)
        values = evaluator(self._kernel, self._X[accepted], self._X, _DOUBLE, memo=self._memo)
        gains = np.zeros(count)  # what each column takes off the trace

        def make_worker() -> Any:
            scratch = np.empty((count, max(piece.stop - piece.start for piece in self._pieces)))

            def columns(piece: slice) -> FloatArray:
                tile = scratch.reshape(-1)[: count * (piece.stop - piece.start)].reshape(count, -1)
                values.fill(slice(0, count), piece, tile)
                if start:
                    tile -= known @ G[piece, :start].T
                new: FloatArray = inverse @ tile  # shape: (a, rows of the piece)
                G[piece, start : start + count] = new.T
                new *= new
                return new

            return columns

        def commit(piece: slice, squares: FloatArray) -> None:
            nonlocal gains
            gains += squares @ self._weights[piece]
            self.residual[piece] -= squares.sum(axis=0)

        in_order(self._pieces, make_worker, commit, self._threads)
        kept = min(count, int(np.count_nonzero(self.left - np.cumsum(gains) > enough)) + 1)
        if kept < count:  # the last ones of the block are not needed: take them back
            surplus = G[:, start + kept : start + count]
            self.residual += np.einsum("ij,ij->i", surplus, surplus)
        self.pivots += accepted[:kept].tolist()
        self.residual[accepted[:kept]] = 0.0
        self.residual[self.residual <= self._floor] = 0.0
        self.left = float(self._weights @ self.residual)

    def _make_room(self, rank: int) -> None:
        """Let the factor have at least this many columns: all that may come, or twice as many where nobody knows."""
        n, capacity = self._G.shape
        if rank <= capacity:
            return
        fitting, wanted = memory_budget() // (8 * n), max(rank, self._expected)
        if wanted > fitting:
            raise InputError(
                f"{wanted} landmarks by randomly pivoted Cholesky need {8 * n * wanted / 2**20:.0f} MiB, more than may "
                "be used",
                remedy=("ask for fewer, raise ", Setting("memory_limit"), ", or take landmarks='uniform'"),
            )
        # how much room there is decides about copies, not about numbers
        capacity = max(wanted, min(self._most, fitting, max(2 * capacity, _GROWING)))
        grown = np.empty((n, capacity))
        grown[:, : self.rank] = self._G[:, : self.rank]
        self._G = grown
