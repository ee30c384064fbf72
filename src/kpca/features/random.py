"""Random features: maps drawn at random whose dot products are kernel values on average, with an error like r^(-1/2).

What they miss of the trace says nothing about their error: it is measured instead, on random pairs of rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any, Self

import numpy as np
from scipy import sparse

from kpca._base.config import thread_count
from kpca._base.errors import InputError
from kpca._base.linalg import FloatArray
from kpca._base.validation import check_data, check_jobs, seed_of, unchanged_on_error
from kpca.features.base import FeatureTransformer, Inexact
from kpca.features.families import Draw, draw_part, offset, smallest_rank, structure_of
from kpca.features.parts import Part
from kpca.gram.tiles import by_slices, over_slices, slices
from kpca.kernels import Kernel

# Features computed at once, by which the rows of a chunk are chosen: some MiB, and the same on every machine.
_CHUNK = 2**18
_FEWEST_ROWS, _MOST_ROWS = 64, 1024
_PAIRS_AT_ONCE = 16
_SUMMED_ROWS = 16_384


@dataclass(frozen=True, eq=False)
class RandomMap(Inexact):
    """f with f(x).f(y) close to k(x, y): a fixed function of a row once drawn.

    `offset` says what the features of the additive chi-squared kernel stand for; for all others it is None.
    """

    kernel: Kernel
    rank: int
    n_features: int
    structure: str
    origin: FloatArray | None  # subtracted from rows where only differences matter, shape: (d,)
    part: Part

    @property
    def centred_only(self) -> bool:
        """True if f(x).f(y) is k(x, y) + a(x) + a(y): the same as k for a centred model, and for no other."""
        return offset(self.kernel, np.zeros((1, self.n_features))) is not None

    def offset(self, X: Any) -> FloatArray | None:
        return offset(self.kernel, X)

    def __call__(self, X: Any, *, threads: int = 1) -> FloatArray:
        if X.shape[1] != self.n_features:
            raise InputError(f"X must have {self.n_features} features, as drawn for; got {X.shape[1]}.")
        self.kernel.check(X)
        dtype = np.dtype(np.float32) if X.dtype == np.float32 else np.dtype(np.float64)
        # Products of CSR rows are not bound by arithmetic, and the origin is taken off after them: so in float64.
        inner = np.dtype(np.float64) if sparse.issparse(X) else dtype
        part = self.part.at(inner)
        out = np.empty((X.shape[0], self.rank), dtype=dtype)

        def fill(rows: slice) -> None:
            with np.errstate(over="ignore", invalid="ignore"):
                part.fill(X[rows].astype(inner, copy=False), out[rows])

        over_slices(fill, len(out), self._step, threads)
        return out

    def why_no_pull(self) -> str | None:
        return self.part.why_no_pull()

    def pull(self, X: Any, G: FloatArray, *, threads: int = 1) -> FloatArray:
        """Return sum_r G_ir grad f_r(x_i): how a weighted sum of the features changes with each dense row, in float64.

        G has one weight per row and feature (m, r); a broadcast view will do. It is the gradient of the features as
        drawn, for rows of either precision; it exists, too, where that of the kernel does not (Laplacian features are
        smooth), but is then no estimate of anything.  # shape: (m, d)
        """
        reason = self.why_no_pull()
        if reason is not None:
            raise InputError(
                f"Gradients need features that are smooth functions of a row; those of the {self.kernel.name} kernel "
                f"are not, as {reason}: take landmarks, or another kernel."
            )
        if sparse.issparse(X):
            raise InputError("Gradients of features must be given a dense array; got a sparse one: use X.toarray().")
        X, G = np.asarray(X, dtype=np.float64), np.asarray(G)
        if X.ndim != 2 or X.shape[1] != self.n_features:
            raise InputError(f"X must have {self.n_features} features, as drawn for; got shape {X.shape}.")
        if G.shape != (len(X), self.rank):
            raise InputError(f"G must have one weight per row and feature, {(len(X), self.rank)}; got {G.shape}.")
        part = self.part.at(np.dtype(np.float64))

        def pulled(rows: slice) -> FloatArray:
            with np.errstate(over="ignore", invalid="ignore"):
                return part.pull(X[rows], G[rows].astype(np.float64, copy=False))

        return by_slices(pulled, np.empty(X.shape), self._step, threads)

    @property
    def _step(self) -> int:
        return max(_FEWEST_ROWS, min(_MOST_ROWS, _CHUNK // self.rank))


def draw_features(
    kernel: Kernel,
    d: int,
    rank: int,
    *,
    structure: str = "orthogonal",
    seed: int = 0,
    dtype: Any = None,
    origin: Any = None,
) -> RandomMap:
    """Draw `rank` features of a kernel for rows of d columns.

    Parameters
    ----------
    rank : the number of columns, exactly; of an odd number of Fourier features the last is a cosine of random phase.
    structure : {"orthogonal", "independent", "hadamard"}
        How directions are drawn, where the kernel has any: orthogonal ones err least; "hadamard" is nearly as good, for
        columns in the hundreds and more faster, and never stores the directions. The map says which it has.
    dtype : in which the numbers of the map are kept (float64 if None); rows decide in which they are used.
    origin : (d,) row near the data, subtracted where only differences of rows matter: far from it phases lose digits.
    """
    if isinstance(rank, bool) or not isinstance(rank, Integral) or rank < smallest_rank(kernel):
        raise InputError(f"must be a whole number of at least {smallest_rank(kernel)}", param="rank", value=rank)
    found = structure_of(kernel, structure)
    if origin is not None:
        origin = np.asarray(origin, dtype=np.float64)
        if origin.shape != (d,) or not np.isfinite(origin).all():
            raise InputError(f"origin must be {d} finite numbers, one per feature; got shape {origin.shape}.")
        # A float32 number, so that rows of either precision are moved by exactly the same.
        with np.errstate(over="ignore"):
            rounded = origin.astype(np.float32).astype(np.float64)
        origin = np.where(np.isfinite(rounded), rounded, origin)
    draw = Draw(d=d, rank=int(rank), structure=structure, rng=np.random.default_rng(seed), origin=origin)
    part = draw_part(kernel, draw)
    if dtype is not None:
        part = part.at(np.dtype(dtype))
    return RandomMap(kernel, int(rank), d, found, origin, part)


def fit_random(
    kernel: Kernel, X: Any, rank: int, structure: str = "orthogonal", *, seed: int = 0, threads: int = 1
) -> RandomMap:
    """Draw features for the rows of X: their mean is the origin."""
    kernel.check(X)

    def total(rows: slice) -> FloatArray:
        return np.asarray(X[rows].sum(axis=0, dtype=np.float64)).ravel()

    mean = np.sum(over_slices(total, X.shape[0], _SUMMED_ROWS, threads), axis=0) / X.shape[0]
    return draw_features(kernel, X.shape[1], rank, structure=structure, seed=seed, origin=mean)


@dataclass(frozen=True)
class KernelError:
    """How far f(x).f(y) is from k(x, y), measured on random pairs of rows: an estimate, no bound.

    `rms` and `largest` are errors of this map; `standard_error` is what the spread over independent draws says the root
    mean square of such a map is. The first is luck around the second.
    """

    rms: float
    largest: float
    standard_error: float
    pairs: int
    label: str = "estimate"


def kernel_error(
    features: RandomMap, X: Any, *, pairs: int = 2000, blocks: int = 8, seed: int = 0, threads: int = 1
) -> KernelError:
    """Measure the error of a map on random pairs of different rows of X.

    The spread is that of `blocks` (from 2) further maps, independent and each of the rank over `blocks`, on the first
    pairs; for orthogonal directions, which are fewer in each of these maps, it comes out a little large.
    """
    rng = np.random.default_rng((seed, 1))  # other numbers than the features were drawn from
    n = X.shape[0]
    left = rng.integers(0, n, size=pairs)
    right = (left + rng.integers(1, max(n, 2), size=pairs)) % n
    A, B = X[left].astype(np.float64), X[right].astype(np.float64)
    cuts = slices(pairs, _PAIRS_AT_ONCE)  # kernels give blocks: of small ones the diagonal is taken
    exact = np.concatenate([np.diagonal(features.kernel.block(A[cut], B[cut])) for cut in cuts])
    a, b = features.offset(A), features.offset(B)
    if a is not None and b is not None:
        exact = exact + a + b
    errors = _products(features, X[left], X[right], threads) - exact

    few = slice(0, max(1, pairs // blocks))
    rank = max(smallest_rank(features.kernel), features.rank // blocks)
    drawn = []
    for key in rng.integers(0, 2**62, size=blocks).tolist():
        how: dict[str, Any] = {"structure": features.structure, "seed": key, "origin": features.origin}
        other = draw_features(features.kernel, features.n_features, rank, **how)
        drawn.append(_products(other, X[left[few]], X[right[few]], threads))
    variance = float(np.var(drawn, axis=0, ddof=1).mean()) * rank / features.rank
    rms, largest = float(np.sqrt(np.mean(np.square(errors)))), float(np.abs(errors).max())
    return KernelError(rms, largest, float(np.sqrt(variance)), pairs)


def _products(features: RandomMap, X: Any, Y: Any, threads: int) -> FloatArray:
    """Return f(x_i).f(y_i), summed in float64.  # shape: (n,)"""
    products: FloatArray = np.einsum(
        "ij,ij->i", features(X, threads=threads), features(Y, threads=threads), dtype=np.float64
    )
    return products


class RandomFeatures(FeatureTransformer):
    """Random features: a linear model of them is close to a kernel model, for the cost of `rank` columns.

    Parameters
    ----------
    rank : int
        How many features; the error falls as rank^(-1/2).
    structure : {"orthogonal", "independent", "hadamard"}
        How directions are drawn. Orthogonal ones err least; "hadamard" is faster for hundreds of columns and more.
        Kernels without directions (laplacian, poly, additive_chi2, histogram_intersection) are drawn independently.
    kernel : str, kernel object or None
        rbf, laplacian, exponential, matern12, matern32, matern52, rational_quadratic, poly, linear, cosine,
        arc_cosine0, arc_cosine1, additive_chi2, histogram_intersection, an object of `kpca.kernels`, or sums and
        multiples of these. None is "rbf", and inside an estimator the estimator's kernel. The features of
        additive_chi2 stand for sum 4xy / (x + y), which is the same kernel once centred.
    gamma, degree, coef0, kernel_params : as in KernelPCA.
    random_state : seed of the draw; None is always the same one.
    n_jobs : threads; None is `kpca.config(threads=...)`.

    Attributes
    ----------
    map_ : the features as a function of rows.
    rank_ : int, their number.
    kernel_ : the kernel they stand for; gamma_ : what gamma came to.
    kernel_error_ : how far f(x).f(y) is from k(x, y) on random pairs of rows of X: an estimate.
    n_features_in_, feature_names_in_.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from kpca.features import RandomFeatures
    >>> features = RandomFeatures(rank=500, gamma="median").fit(load_digits().data)
    >>> bool(features.kernel_error_.rms < 0.05)
    True
    """

    _what_overflows = "Features"

    def __init__(
        self,
        rank: int = 1000,
        structure: str = "orthogonal",
        *,
        kernel: Any = None,
        gamma: Any = None,
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.rank, self.structure = rank, structure
        self._keep((kernel, gamma, degree, coef0, kernel_params), random_state, n_jobs)

    def fit(self, X: Any, y: Any = None) -> Self:
        """Draw the features and measure their error on the rows of X; y is ignored."""
        with unchanged_on_error(self):
            check_jobs(self.n_jobs)
            X = check_data(self, X, reset=True)
            kernel, gamma = self._resolved(X, X)
            seed, threads = seed_of(self.random_state), thread_count(self.n_jobs)
            drawn = fit_random(kernel, X, self.rank, self.structure, seed=seed, threads=threads)
            with np.errstate(over="ignore", invalid="ignore"):
                error = kernel_error(drawn, X, seed=seed, threads=threads)
            if not np.isfinite(error.rms):
                raise InputError(f"Features must be finite; some are NaN or too large: {kernel.remedy}.")
        self.map_: RandomMap = drawn
        self.kernel_error_: KernelError = error
        self.kernel_, self.gamma_, self.rank_ = kernel, gamma, drawn.rank
        return self
