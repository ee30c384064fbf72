"""Block Krylov with Rayleigh-Ritz, restarts and certificates: a few passes over an operator that is never stored.

Each pass multiplies a block; the basis grows by the residuals of the leading Ritz pairs. The precision of a pass is
chosen by what it can still spoil: a product that enters a Ritz vector with weight y is wrong by y times its own error,
and y shrinks with the residual. So passes are made in float32; where their error stands in the way, the images of the
Ritz vectors are taken anew in float64 once, and float32 goes on from there (inexact Krylov methods: Bouras & Fraysse
2005, Simoncini & Szyld 2003). The error each image carries is kept beside it and ends in the certificate.

Whatever has n rows lives where the operator multiplies; whatever is of the size of the basis, in main memory.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from kpca.gram.engine import (
    Array,
    FloatArray,
    band_by_band,
    column_norms,
    copy_columns,
    empty_columns,
    inner_products,
    side_by_side,
    some_columns,
    sum_over_bands,
    to_host,
)
from kpca.gram.operator import Operator, Precision
from kpca.spectrum.result import Keeper, Spectrum, State, eigenvalue_bounds

Monitor = Callable[[int, float, float], None]
# A direction counts as missing when its share of the squared lengths of the block, as it came, is below this.
_DEPENDENT = 1e-14
# As much must be left of a squared length for the direction to be clear of the basis.
_LEFT = 0.25
# A Ritz vector's weight on the newest block is about its residual over the gap to the rest of the spectrum.
_WEIGHT_PER_RESIDUAL = 4.0
# Ritz values closer than this (relative to the largest) may be copies of one eigenvalue.
_EQUAL = 1e-6
# Random columns beside a guess, with their images and the images of these: they find what it has missed.
_RANDOM = 4
# What a random column has of an eigenvector, at least, times the root of n: less has one of 30, none of 4 in 10^6.
_LEAST_SHARE = 0.03
# Images after which nothing more is expected to come, also where eigenvalues lie so close that more would be needed:
# at a tolerance of 1e-3, and one more for each digit beyond. No more than a random start would take.
_MOST_IMAGES = 6
# A Ritz pair that has this share of the chain may hide what the chain is there to find.
_OF_CHAIN = 0.1
# A refresh is worth its price once the residuals, relative to the largest eigenvalue, are below this.
_LATE = 1e-3
# Beyond this many components the work on the basis of few rows, too, is enough for several threads.
_NARROW = 40
# Errors of the images above this part of the tolerance are too much.
_REFRESH = 0.8
# Passes without progress after which float32 products are given up, and float64 ones if what is left is rounding.
_PATIENCE = 6
# A pair is left alone once its residual is so small a part of the tolerance.
_SETTLED = 0.1
DEFAULT_PASSES = 300
# Ritz vectors given beyond those asked for: where eigenvalues of a neighbour change places, they are needed.
_SPARE = 6
# What a state takes from an iteration, and gives back, as it is.
_REMEMBERED = ("passes", "cheap", "single_error", "best", "best_pass", "guessed", "probed", "chain", "images")


def block_size(k: int) -> int:
    """Return the columns of the first pass: well above a small k (fewer passes), a fraction of a large one.

    A multiple of 8, because GEMM is slower on a ragged edge.
    """
    wanted = max(16, 2 * k + 4) if k <= 64 else max(136, k // 3)
    return -(-wanted // 8) * 8


def step_size(k: int) -> int:
    """Return the columns of a later pass: fewer make it cheaper and, from a good basis, cost few more passes."""
    return min(block_size(k), -(-max(16, k + 6) // 8) * 8)


def basis_size(k: int, n: int) -> int:
    """Return the number of basis vectors after which the iteration restarts; never a matter of free memory."""
    return min(n, k + 6 * block_size(k))


def smallest_basis(k: int, n: int) -> int:
    """Return the shortest basis the iteration works with: what a restart keeps, and two blocks to go on."""
    return min(n, k + 3 * block_size(k))


def single_is_enough(floor: float, tol: float) -> bool:
    """Return True if float32 products, wrong by `floor` of the largest eigenvalue, can be made harmless."""
    return floor / tol * min(1.0, _WEIGHT_PER_RESIDUAL * 10 * floor) <= 0.25


def needs_refresh(floor: float, tol: float) -> bool:
    """Return True if float32 products alone will not reach the tolerance."""
    return floor > _REFRESH * tol


def solve_krylov(
    operator: Operator,
    k: int,
    tol: float,
    *,
    start: Array | None = None,
    probe: Array | None = None,
    largest: float | None = None,
    max_passes: int | None = None,
    seed: int = 0,
    monitor: Monitor | None = None,
    keeper: Keeper | None = None,
    room: int | None = None,
) -> Spectrum:
    """Return the k largest eigenpairs with residuals of at most tol times the largest eigenvalue.

    Parameters
    ----------
    start : columns that lie near the wanted eigenvectors, if known; random ones are added.  # shape: (n, <= block)
    probe : the `probe` of the spectrum of an operator that differs little, whose vectors are among `start`: it has
        shown what those could miss, and is multiplied once more here.
    largest : an estimate of the largest eigenvalue, which helps to choose the precision of the first pass.
    monitor : called after each pass with its number, the largest relative residual and the tolerance.
    keeper : is given the state after each pass. If it has one from before, the iteration goes on from there, to the
        same bits as without the interruption; `start`, `largest` and `seed` then have no say.
    room : vectors of the basis before a restart, where memory allows fewer than usual; at least `smallest_basis`.
    """
    return _Iteration(operator, k, tol, seed, room=room, probe=probe).run(
        start, largest, max_passes or DEFAULT_PASSES, monitor, keeper
    )


class _Iteration:
    """One run of the iteration: the basis, its images, and the Ritz pairs they give."""

    def __init__(
        self,
        operator: Operator,
        k: int,
        tol: float,
        seed: int,
        *,
        room: int | None = None,
        probe: Array | None = None,
    ) -> None:
        self.operator, self.k, self.tol = operator, k, tol
        self.n = operator.shape[0]
        self.placed, self.threads, self.wide = operator.placed, operator.threads, k > _NARROW
        self.none = self.placed(np.empty((self.n, 0)))
        self.rank = self.n - (operator.null is not None)  # dimension of the space the operator acts on
        self.block = min(block_size(k), self.rank)
        self.rng = np.random.default_rng(seed)
        self.R, self._memory = self.none, np.empty(0)
        self._make_basis(min(basis_size(k, self.n) if room is None else room, self.rank))
        self.size = 0
        self.passes = 0
        self.single_error = 0.0
        self.cheap: Precision = "double"
        self.best, self.best_pass = np.inf, 0
        self.guessed: int | None = None  # columns of the guess
        self.probed = False
        # Random columns, then their images, then the images of these: where the last of them stand in the basis, and
        # how many times they were multiplied; where they come to stand in the next block.
        self.chain, self.images, self.place = -1, 0, 0
        self.probe = probe
        self.most_images = _MOST_IMAGES + max(0, round(-math.log10(max(tol, 1e-16))) - 3)

    def _make_basis(self, room: int) -> None:
        null = self.operator.null  # stands before the basis: new columns are made orthogonal to both
        self.known = empty_columns(self.n, room + (null is not None), self.none)
        if null is not None:
            self.known[:, 0] = null
        self.Q = self.known[:, self.known.shape[1] - room :]
        self.A = empty_columns(self.n, room, self.none)  # images B Q
        self.H = np.zeros((room, room))  # Q' B Q
        self.errors = np.empty(room)  # how wrong each image may be
        self.share = np.empty(room)  # of the chain, squared, in each column

    def run(
        self,
        start: Array | None,
        largest: float | None,
        max_passes: int,
        monitor: Monitor | None,
        keeper: Keeper | None = None,
    ) -> Spectrum:
        columns, precision = self._begin(start, largest, None if keeper is None else keeper.load())
        while True:
            if columns is not None:
                self._extend(columns, precision)
                if links := self._links:
                    self.chain, self.images = self.size - columns.shape[1] + self.place, self.images + 1
                    own = slice(self.chain, min(self.chain + links, self.size))
                    self.share[own], self.probe = 1.0, some_columns(self.Q, np.arange(own.start, own.stop))
                if keeper is not None:  # before anybody hears of the pass: one that was reported is not lost
                    keeper.save(self._state())
            residual = self._ritz()
            if self._links and self.images >= self._images_to_wait_for():
                self.images = self.most_images  # the chain has done its work
            reached = residual + self.drift <= self.tol * self.top
            done = bool(reached[: self.k].all()) and len(self.theta) >= self.k
            if monitor is not None and columns is not None:
                monitor(self.passes, float(residual[: self.k].max(initial=0.0)) / max(self.top, 1e-300), self.tol)
            if done and not self._nothing_unseen():
                if self._links:
                    done = False  # a guess may have left something out: its random columns get time to find it
                elif not self.probed and self._may_hide_copies():
                    self.probed = True
                    columns, precision = self._beside_chain(self._random(self.block)), self.cheap
                    self._make_room(columns.shape[1])
                    continue
            if done or self.size >= self.rank:
                return self._spectrum(converged=True)
            self._watch_progress(residual)
            if self.passes >= max_passes or self._is_rounding(residual):
                worst = float(residual[: self.k].max()) / max(self.top, 1e-300)
                remedy = "raise max_iter or tol" if self.passes >= max_passes else "less is rounding, so raise tol"
                warnings.warn(
                    f"The eigenvectors did not converge in {self.passes} passes: the largest residual is {worst:.1e} "
                    f"of the largest eigenvalue, asked was {self.tol:.1e}; {remedy}.",
                    ConvergenceWarning,
                    stacklevel=2,
                )
                return self._spectrum(converged=False)
            if self._refresh_is_due(residual):
                # The images' own errors are what stands in the way: take those of the Ritz vectors anew, in double.
                columns, precision = self._restart_vectors(), "double"
                continue
            columns = self._beside_chain(self._residual_directions(residual))
            self._make_room(columns.shape[1])
            precision = self.cheap

    def _begin(self, start: Array | None, largest: float | None, state: State | None) -> tuple[Array | None, Precision]:
        """Return the first block and its precision; no block where a state is restored, whose pass was made."""
        if state is None:
            self.guessed = None if start is None else start.shape[1]
            columns = self._start_columns(start)
            return columns, self._first_precision(columns, largest)
        size = len(state.errors)
        if size > self.Q.shape[1]:  # the limit was higher when the state was written: its basis is taken as it is
            self._make_basis(size)
        self.Q[:, :size], self.A[:, :size] = self.placed(state.Q), self.placed(state.A)
        self.H[:size, :size], self.errors[:size], self.share[:size] = state.H, state.errors, state.share
        self.size = size
        for name in _REMEMBERED:
            setattr(self, name, getattr(state, name))
        self.rng.bit_generator.state = state.generator
        self.operator.recall(state.found)
        return None, self.cheap

    def _state(self) -> State:
        size = self.size
        return State(
            k=self.k,
            Q=to_host(self.Q[:, :size]),
            A=to_host(self.A[:, :size]),
            H=self.H[:size, :size],
            errors=self.errors[:size],
            share=self.share[:size],
            generator=dict(self.rng.bit_generator.state),
            found=self.operator.found(),
            **{name: getattr(self, name) for name in _REMEMBERED},
        )

    def _first_precision(self, columns: Array, largest: float | None) -> Precision:
        """Choose the cheap precision, with which all passes but the refreshing ones are made."""
        # float32 will not do if its error is so large that no residual it can reach would make it harmless.
        single = self.operator.at("single")
        if single is self.operator.at("double"):
            return "double"
        self.single_error = single.error(columns)
        if single_is_enough(self.single_error / largest if largest else 0.0, self.tol):
            self.cheap = "single"
        return self.cheap

    def _refresh_is_due(self, residual: FloatArray) -> bool:
        """Return True if the errors of the images keep the pairs from converging, and a refresh would end that."""
        if self.cheap == "double":
            return bool((self.errors[: self.size] > 0.0).any())
        goal = self.tol * self.top
        if not (self.drift[: self.k] > _REFRESH * goal).any():
            return False
        # Once refreshed, float32 images enter with the weight of the residual. Not before it is small, though: a
        # refresh throws the rest of the basis away.
        worst = float(residual[: self.k].max()) / max(self.top, 1e-300)
        harmless = self.single_error * _WEIGHT_PER_RESIDUAL * worst <= 0.25 * goal and worst <= _LATE
        return harmless or bool((residual[: self.k] <= 0.2 * goal).all())

    def _watch_progress(self, residual: FloatArray) -> None:
        """Give float32 up when the residuals stop falling: its error is then larger than it was taken for."""
        worst = float(residual[: self.k].max(initial=0.0))
        if worst < 0.5 * self.best:
            self.best, self.best_pass = worst, self.passes
        elif self.cheap == "single" and self.passes - self.best_pass >= _PATIENCE:
            self.cheap, self.best_pass = "double", self.passes

    def _is_rounding(self, residual: FloatArray) -> bool:
        """Return True if the residuals have stopped falling where products can tell no more."""
        stuck = self.cheap == "double" and self.passes - self.best_pass >= _PATIENCE
        return stuck and float(residual[: self.k].max(initial=0.0)) <= self._error()

    def _start_columns(self, start: Array | None) -> Array:
        # One less than a block: what a guess beside its random columns fills.
        count = min(max(self.block - 1, 1), self.rank)
        if start is None:
            return self._orthonormal(self._random(count))
        start = start[:, : max(min(start.shape[1], self.Q.shape[1] - self.block, self.rank - self._links), 0)]
        count = min(max(count, start.shape[1] + _RANDOM), self.rank, self.Q.shape[1])
        self.place = count - self._links
        first = side_by_side([start, self._random(self.place - start.shape[1])])
        if self.probe is None or self.probe.shape[1] != self._links:
            return self._in_turn(first, self._random(self._links))
        self.images = self.most_images - 1
        return self._in_turn(first, some_columns(self.probe, np.arange(self._links)))

    @property
    def _links(self) -> int:
        """Columns of the chain, in each block; none where nothing was guessed, or nothing can be missing any more."""
        return 0 if self.guessed is None or self.images >= self.most_images else min(_RANDOM, self.rank)

    def _in_turn(self, first: Array, second: Array) -> Array:
        """Return both blocks, orthonormal and each in columns of its own: the second orthogonal to the first."""
        if not (first.shape[1] and second.shape[1]):
            return self._orthonormal(first if first.shape[1] else second)
        first, size = self._orthonormal(first), self.size
        width = first.shape[1]
        if size + width > self.Q.shape[1]:
            self._make_room(width)
            size = self.size
        copy_columns([(first, self.Q[:, size : size + width])], self.threads)
        self.size += width
        second = self._orthonormal(second)
        self.size = size
        return side_by_side([first, second])

    def _beside_chain(self, columns: Array) -> Array:
        """Return the next block: the images of the chain, where there is one, and new columns beside it."""
        links, left = min(self._links, self.rank - self.size), self.rank - self.size
        self.place = 0
        if not links:
            return self._orthonormal(columns[:, : min(left, columns.shape[1])])
        images = some_columns(self.A, np.arange(self.chain, self.chain + links))
        return self._in_turn(images, columns[:, : min(left - links, columns.shape[1])])

    def _images_to_wait_for(self) -> int:
        """Return after how many images the chain is all but sure to have shown any eigenvector that counts.

        One of at least theta_k + tol theta_1 that is missing grows beside those that are known to be at most mu as the
        Chebyshev polynomial of that degree does (docs/mathematics.md, section 2).
        """
        theta, residuals = self.theta, self._all_residuals()
        goal = float(theta[min(self.k, len(theta)) - 1]) + 0.5 * self.tol * self.top
        least = _LEAST_SHARE / math.sqrt(self.n)
        lacking = np.where(theta < goal, np.minimum(np.abs(theta), goal - theta), np.abs(theta))
        mixed = (self.share[: self.size] @ self.Y**2 > _OF_CHAIN) & (residuals > least * lacking)
        mu = float((theta + residuals)[mixed].max(initial=0.0))
        if not 0.0 < mu < goal:
            return 1 if mu <= 0.0 < goal else self.most_images
        growth = math.acosh(2.0 * goal / mu - 1.0)
        return min(math.ceil(math.acosh(1.0 / least) / growth), self.most_images)

    def _random(self, count: int) -> Array:
        return self.placed(self.rng.standard_normal((self.n, count)))

    def _orthonormal(self, V: Array) -> Array:
        """Overwrite V by an orthonormal basis of it orthogonal to the basis so far; what vanishes becomes random.

        Twice is enough (Kahan, Parlett), and once more after columns were replaced or little was left of some. Within
        the block the eigenvectors of V'V do what QR does, at the speed of GEMM, and show which directions are missing
        (Stathopoulos and Wu 2002).
        """
        known = self.known[:, : self.known.shape[1] - self.Q.shape[1] + self.size]
        T, clean = np.diag(1.0 / np.maximum(column_norms(V, self.threads), 1e-300)), 0
        while clean < 2:
            C = self._turn(V, T, known)
            g, Y = np.linalg.eigh(self._clear(V, known, C))
            missing = g < _DEPENDENT * max(float(g[-1]), 1.0)  # of columns that were of length 1
            T, clean = Y / np.sqrt(np.where(missing, 1.0, g)), clean + 1 if clean == 0 or g[0] > _LEFT else 1
            if missing.any():
                self._turn(V, T, known)
                fresh = self._random(int(missing.sum())) / math.sqrt(self.n)
                for number, place in enumerate(np.flatnonzero(missing).tolist()):
                    V[:, place] = fresh[:, number]
                T, clean = np.eye(len(T)), 0
        return self._turned(V, T, V)

    def _turn(self, V: Array, T: FloatArray, left: Array) -> FloatArray:
        """Overwrite V by V T, and return left'V in main memory."""
        here, memory = self.placed(np.ascontiguousarray(T)), self._memory_for(V)

        def work(rows: slice) -> Array:
            V[rows, :] = _product(V, here, rows, memory)
            return left[rows, :].T @ V[rows, :]

        return sum_over_bands(work, V, self.threads, wide=self.wide)

    def _clear(self, V: Array, known: Array, C: FloatArray) -> FloatArray:
        """Overwrite V by V - known C, and return V'V in main memory."""
        here, memory = self.placed(C), self._memory_for(V)

        def work(rows: slice) -> Array:
            V[rows, :] -= _product(known, here, rows, memory)
            return V[rows, :].T @ V[rows, :]

        return sum_over_bands(work, V, self.threads, wide=self.wide)

    # What has n rows is worked on in bands of them, on the threads that the products have, too; in place where that can
    # be, because fresh memory costs more than the work.

    def _by_bands(self, work: Callable[[slice], Array], width: int, out: Array | None = None) -> Array:
        return band_by_band(work, width, self.none, self.threads, out, wide=self.wide)

    def _memory_for(self, V: Array) -> Array | None:
        """Return room for products as large as V: fresh memory would cost more than the work."""
        if not isinstance(V, np.ndarray):
            return None
        if self._memory.size < V.size:
            self._memory = np.empty(V.size)
        return self._memory[: V.size].reshape(V.shape)

    def _turned(self, V: Array, Y: FloatArray, out: Array | None = None) -> Array:
        here = self.placed(np.ascontiguousarray(Y))
        return self._by_bands(lambda rows: V[rows, :] @ here, Y.shape[1], out)

    def _extend(self, V: Array, precision: Precision) -> None:
        operator = self.operator.at(precision)
        W = operator @ V
        self.passes += 1
        old, new = self.size, self.size + V.shape[1]
        exact = operator is self.operator.at("double")
        self.errors[old:new], self.share[old:new] = 0.0 if exact else self.single_error, 0.0
        # The coupling to the old basis comes from the old images: it is as small as the residuals, and the new ones may
        # be wrong by more than that.
        copy_columns([(V, self.Q[:, old:new]), (W, self.A[:, old:new])], self.threads)
        coupling = inner_products(V, self.A[:, :new], self.threads, wide=self.wide)
        self.H[old:new, :old] = coupling[:, :old]
        self.H[:old, old:new] = coupling[:, :old].T
        inside = coupling[:, old:]
        self.H[old:new, old:new] = 0.5 * (inside + inside.T)
        self.size = new

    def _make_room(self, count: int) -> None:
        """Restart with the leading Ritz vectors when the next block does not fit (thick restart)."""
        if self.size + count <= self.Q.shape[1]:
            return
        keep = min(self.k + self.block, self.Q.shape[1] - count, self.size)
        Y = self.Y[:, :keep]
        errors, share = np.sqrt((self.errors[: self.size] ** 2) @ (Y**2)), self.share[: self.size] @ Y**2
        self.Q[:, :keep] = self._combined(keep)
        self.A[:, :keep] = self._turned(self.A[:, : self.size], Y)
        self.H[:keep, :keep] = np.diag(self.theta[:keep])
        self.errors[:keep], self.share[:keep] = errors, share
        self.size = keep

    def _combined(self, stop: int, start: int = 0) -> Array:
        return self._turned(self.Q[:, : self.size], self.Y[:, start:stop])

    def _restart_vectors(self) -> Array:
        vectors = self._combined(min(max(self.k, self.block), self.size))
        links = min(self._links, self.rank - vectors.shape[1])
        last = some_columns(self.Q, np.arange(self.chain, self.chain + links)) if links > 0 else self.none
        self.size, self.place = 0, vectors.shape[1]
        self.images -= links > 0  # the last ones are taken once more
        return self._in_turn(vectors, last)

    def _ritz(self) -> FloatArray:
        """Find the Ritz pairs, and return the residual norms of the leading ones.  # shape: (<= block or k,)"""
        theta, Y = np.linalg.eigh(self.H[: self.size, : self.size])
        self._residuals: FloatArray | None = None  # of all pairs: found when somebody asks
        self.theta, self.Y = theta[::-1], Y[:, ::-1]
        self.top = max(float(np.abs(self.theta).max()), 0.0)
        count = min(max(self.k, self.block), self.size)
        y = np.ascontiguousarray(self.Y[:, :count])
        Q, A = self.Q[:, : self.size], self.A[:, : self.size]
        here, scaled = self.placed(y), self.placed(y * self.theta[:count])
        if self.R.shape[1] != count:
            self.R = empty_columns(self.n, count, self.none)
        R, memory = self.R, self._memory_for(self.R)

        def work(rows: slice) -> FloatArray:
            R[rows, :] = _product(A, here, rows, memory)
            R[rows, :] -= _product(Q, scaled, rows, memory)
            return column_norms(R[rows, :]) ** 2

        self.drift = np.sqrt((self.errors[: self.size] ** 2) @ (y**2))
        self.norms = np.sqrt(sum_over_bands(work, R, self.threads, wide=self.wide))
        return self.norms

    def _residual_directions(self, residual: FloatArray) -> Array:
        """Return the residuals of the first pairs that have not converged."""
        open_ = np.flatnonzero(residual > max(1e-14, _SETTLED * self.tol) * max(self.top, 1e-300))
        open_ = open_[: min(step_size(self.k) - self._links, self.rank - self.size)]
        if len(open_) == 0:
            return self._random(min(self.block, self.rank - self.size))
        return some_columns(self.R, open_)

    def _may_hide_copies(self) -> bool:
        """Return True if an eigenvalue may have more copies than the random columns of the block could find."""
        random_columns = self.block - min(self.guessed or 0, self.block)
        if self.size >= self.rank:
            return False
        theta = self.theta[: self.k + 1]
        # the longest run of equal ones lies between two places where they differ
        apart = np.flatnonzero(np.abs(np.diff(theta, prepend=math.inf, append=-math.inf)) > _EQUAL * self.top)
        longest = int(np.diff(apart).max(initial=1))
        return longest >= max(random_columns, 2) or self.block < self.k

    def _nothing_unseen(self) -> bool:
        """Return True if trace and Frobenius norm leave no room for an eigenvalue that was missed."""
        bounds = self._bounds()
        return bool((bounds[:, 1] - self.theta[: len(bounds)] <= self.tol * self.top).all())

    def _spectrum(self, *, converged: bool) -> Spectrum:
        k = min(self.k, self.size)
        measured = self._measured()
        return Spectrum(
            values=self.theta[:k].copy(),
            vectors=self._combined(k),
            residuals=self._all_residuals()[:k] + self.operator.at("double").error(self.none),
            bounds=self._bounds(),
            trace=measured.trace(),
            frobenius2=measured.frobenius2(),
            smallest=float(self.theta[-1]),
            n_passes=self.passes,
            converged=converged,
            solver="krylov",
            error=self._error(),
            spare=self._combined(k + _SPARE, k),
            probe=self.probe,
        )

    def _measured(self) -> Operator:
        """Return the operator of the best precision used: its moments are known without another pass."""
        return self.operator.at("double" if (self.errors[: self.size] == 0.0).any() else self.cheap)

    def _all_residuals(self) -> FloatArray:
        """Return the residual norms of all Ritz pairs, each with what its image may be wrong by.  # shape: (size,)"""
        if self._residuals is not None:
            return self._residuals
        A, Y = self.A[:, : self.size], self.Y
        # |r|^2 = |A y|^2 - theta^2, good enough for the trailing pairs; the leading ones were measured.
        images = np.einsum("ij,ij->j", Y, inner_products(A, A, self.threads, wide=self.wide) @ Y)
        residuals: FloatArray = np.sqrt(np.maximum(images - self.theta**2, 0.0))
        residuals[: len(self.norms)] = self.norms
        drift: FloatArray = np.sqrt((self.errors[: self.size] ** 2) @ (Y**2))
        self._residuals = residuals + drift
        return self._residuals

    def _error(self) -> float:
        """Return what the products may have done to an eigenvalue: the images' errors and rounding."""
        return float(self.drift[: self.k].max(initial=0.0)) + self.operator.at("double").error(self.none)

    def _bounds(self) -> FloatArray:
        measured, k = self._measured(), min(self.k, self.size)
        most = {"trace": measured.trace(), "square": measured.frobenius2() + measured.frobenius2_error()}
        residuals, error = self._all_residuals(), self._error()
        return eigenvalue_bounds(self.theta, residuals, k, error=error, psd=self.operator.psd, **most)


def _product(V: Array, Y: Array, rows: slice, memory: Array | None) -> Array:
    """Return V Y of some rows, in the memory of these rows if there is one."""
    return V[rows, :] @ Y if memory is None else np.matmul(V[rows, :], Y, out=memory[rows])
