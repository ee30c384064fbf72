"""How much memory a fit takes beyond what the process holds already: bounds, so that a memory limit is a promise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from scipy import sparse

from kpca._base.config import BASE, BLAS_BUFFER, memory_limit, require
from kpca._base.linalg import SHARE_FOR_ALL, exhaustive
from kpca.features.scatter import PIECE_NUMBERS, SHORTEST_PIECE
from kpca.gram.tiles import workers_bytes
from kpca.kernels import Kernel, Product, ProfileKernel, RadialKernel, Scaled, Sum
from kpca.spectrum.dense import COPIED
from kpca.spectrum.krylov import basis_size, block_size, smallest_basis

# Rows by which the number of components is decided, and the most components that are looked at.
DECIDED_BY_ROWS, MOST_DECIDED = 600, 50
# Numbers of these rows in all; but never fewer rows than this.
_NUMBERS, _FEWEST_ROWS = 5_000_000, 200
# Numbers in a chunk of rows of the linear kernel, with a temporary.
_CHUNK_NUMBERS = 200_000
_SPARSE_COLUMNS = 64
# Without a limit set, what a fit takes so that tiles can be kept: at most this, and no more than a quarter of the free
# memory; and the share of all (float32) tiles for which it does so.
_UNASKED_BYTES, _WORTH_KEEPING = 2 * 2**30, 0.25


def deciding_rows(n: int, d: int) -> int:
    """Return how many of n rows of d columns the number of components is decided by."""
    return min(n, DECIDED_BY_ROWS, max(_FEWEST_ROWS, _NUMBERS // max(d, 1)))


def fits_dense(m: int, d: int) -> bool:
    """Return True if m sparse rows may be made dense."""
    return m * d <= _NUMBERS


# -- what is made of the data -----------------------------------------------------------------------------------------


def prepared_columns(kernel: Kernel | None, d: int) -> int:
    """Return the numbers per row that an evaluator holds: none, one set of features, or two with norms beside them."""
    if isinstance(kernel, Sum | Product):
        return sum(prepared_columns(member, d) for member in kernel.members)
    if isinstance(kernel, Scaled):
        return prepared_columns(kernel.kernel, d)
    if not isinstance(kernel, ProfileKernel):
        return 0
    return 2 * (d + 2) if isinstance(kernel, RadialKernel) else d


def held_by(gram: Any) -> int:
    """Return what lies in memory through all passes: the data and what the evaluators of both precisions made of it."""
    single = gram.at("single")
    double: int = gram.hand(lambda rows: prepared_bytes(gram.kernel, rows))
    return int(gram.data_bytes) + (0 if single is gram else int(single.held_bytes)) + double


def prepared_bytes(kernel: Kernel | None, X: Any, itemsize: int = 8) -> int:
    """Return what an evaluator of this precision holds, without making it."""
    if sparse.issparse(X):
        return 2 * X.nnz * 12 if isinstance(kernel, ProfileKernel) else 0
    return int(X.shape[0] * prepared_columns(kernel, X.shape[1]) * itemsize)


# -- kernel matrices --------------------------------------------------------------------------------------------------


def dense_bytes(n: int, k: int, held: int = 0) -> int:
    """Return what the whole matrix takes: with LAPACK's workspace first, with the eigenvectors afterwards."""
    copied = n <= COPIED and exhaustive(k, n)
    solving = 8 * n * n * (1 + copied + 2 * (k > n * SHARE_FOR_ALL)) + 8 * n * (k + 64)
    storing = 8 * n * n * copied + 8 * n * (4 * k + 64)
    return max(solving, storing) + held + BASE


def krylov_bytes(n: int, k: int, room: int, held: int, threads: int) -> int:
    """Return what block Krylov takes without keeping a tile, with a basis of `room` vectors filled to the last."""
    return held + 8 * n * (2 * room + temporaries(k)) + 32 * room * room + workers_bytes(threads, n) + BASE


def temporaries(k: int) -> int:
    """Return the columns of length n beside basis and images: a refresh multiplies k + block of them, in copies."""
    block = block_size(k)
    return 5 * (k + block) + block


@dataclass(frozen=True)
class KrylovLayout:
    """How block Krylov divides its memory."""

    room: int  # vectors of the basis, as many images
    tiles: int  # bytes for tiles that are kept
    why: str  # no more than that


def krylov_layout(n: int, k: int, budget: Callable[[], int], held: int, threads: int) -> KrylovLayout:
    """Return the length of the basis and what is left for tiles; InputError where a limit has no room for the shortest.

    The basis is shortened for an explicit limit alone, so that results never depend on how much memory is free.
    """
    room, allowed = basis_size(k, n), budget()
    least = smallest_basis(k, n)
    if memory_limit() is not None and krylov_bytes(n, k, room, held, threads) > allowed:
        spare = allowed - krylov_bytes(n, k, 0, held, threads)
        room = min(room, max(least, spare // (16 * n + 32 * room)))
    needed = krylov_bytes(n, k, room, held, threads)
    require(needed, lambda: allowed)
    if memory_limit() is not None:
        return KrylovLayout(room, max(0, allowed - needed), "memory_limit has room for no more")
    # Nobody said that memory may be had: a fit takes little of it, and only where that saves much time.
    spare, enough = min(_UNASKED_BYTES, allowed // 2) - needed, _WORTH_KEEPING * 2 * n * n
    return KrylovLayout(room, spare if spare >= enough else 0, "more only where memory_limit allows it")


# -- the linear kernel ------------------------------------------------------------------------------------------------


def linear_bytes(
    n: int, d: int, k: int, itemsize: int, *, direct: bool, nnz: int | None = None, threads: int = 1
) -> int:
    """Return what the linear kernel takes, whose small side is formed (`direct`) or only multiplied."""
    side, k = min(n, d), min(k, n, d)
    sparse_rows = nnz is not None
    data = n * d * itemsize if nnz is None else nnz * (itemsize + 4) + 8 * n
    features = 0 if sparse_rows or (direct and d <= n) else n * d * itemsize
    if direct:
        forming = 8 * side**2 + (
            16 * n * _SPARSE_COLUMNS + 16 * d * _SPARSE_COLUMNS
            if sparse_rows
            else threads * _CHUNK_NUMBERS * itemsize + (threads + 2) * side**2 * itemsize
        )
        solving = max(forming, dense_bytes(side, k) - BASE)
    else:
        block = block_size(k)
        solving = 8 * side * (2 * basis_size(k, side) + temporaries(k)) + 16 * n * (k + block) + 16 * d * (k + block)
        solving += 32 * basis_size(k, side) ** 2
        solving += 36 * nnz if nnz is not None else 0
    storing = 8 * k * (2 * n + 4 * d + side)
    buffers = threads * BLAS_BUFFER if features else 0
    return data + features + buffers + max(solving, storing) + BASE


# -- what comes before the fit ----------------------------------------------------------------------------------------


def decision_bytes(m: int, d: int, threads: int) -> int:
    """Return what it takes to decide the number of components by m dense rows: a few forms of them, and per thread a
    permuted one, its kernel matrix and a basis.
    """
    side = min(m, d) if d < m else m
    basis = basis_size(MOST_DECIDED, side)
    return 8 * m * d * (7 + 3 * threads) + 8 * threads * (3 * m * m + 4 * m * basis) + 16 * m * m + BASE


# -- what comes after the fit -----------------------------------------------------------------------------------------


def features_bytes(
    n: int, d: int, k: int, *, rank: int, itemsize: int, threads: int, chosen_from: int, drawn: int
) -> int:
    """Return what explicit features take: to choose landmarks, then to sum up pieces, then for the scores of n rows.

    `chosen_from` is the number of rows that pivoted landmarks are chosen among, `drawn` that of the columns which
    random directions are drawn for; 0 where there are none.
    """
    choosing = 8 * chosen_from * (rank + 2 * (d + 2)) + chosen_from * d * itemsize + 24 * rank**2
    # a worker holds the features of a piece, kernel values and rows on their way to them, and two products, which may
    # have to be float64
    piece = min(max(PIECE_NUMBERS, SHORTEST_PIECE * rank), n * rank)
    pieces = threads * (piece * itemsize + 16 * rank**2)
    summing = pieces + 40 * rank**2 + threads * 2**20
    scoring = 32 * rank**2 + 8 * n * 4 * k + 2 * 8 * rank * k
    return max(choosing, summing, scoring) + 8 * rank * (d + 2) + 16 * rank * drawn + BASE
