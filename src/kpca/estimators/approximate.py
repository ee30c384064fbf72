"""From what the user says about the approximation to a feature map for a kernel and its data."""

from __future__ import annotations

import difflib
import math
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kpca._base.config import memory_budget, require, row_columns
from kpca._base.errors import InputError, Setting
from kpca._base.linalg import FloatArray, largest_eigenpairs
from kpca._base.progress import row_monitor
from kpca._base.threads import single_threaded
from kpca.estimators.cost import Request
from kpca.estimators.exact import (
    Decomposition,
    count_reaching,
    settled,
    signs_of,
    warn_of_unrelated,
    without_rounding,
)
from kpca.estimators.memory import features_bytes
from kpca.estimators.plan import default_rank, is_random, pivoted, rank_of
from kpca.features import (
    FeatureMap,
    IdentityMap,
    Nystroem,
    NystroemMap,
    RandomFeatures,
    Scatter,
    fit_nystroem,
    fit_random,
    scatter_of,
)
from kpca.features.projection import SCORES_AT_ONCE, Centre, FeatureProjection, KernelProjection, LinearProjection
from kpca.features.random import kernel_error
from kpca.features.scatter import FEW
from kpca.gram.tiles import over_slices
from kpca.kernels import Kernel, Linear
from kpca.kernels.base import has_bandwidth
from kpca.spectrum import Spectrum
from kpca.spectrum.result import participation_ratio

NAMES = ("nystroem", "rff", "auto")


@dataclass(frozen=True)
class FittedMap:
    """A feature map for some data, and what is known about its error."""

    feature_map: FeatureMap
    kernel_error: float  # measured root mean square error of a kernel value; 0 where the trace left is a certificate
    solver: str


def check_approximation(approximation: Any, *, precomputed: bool) -> None:
    """Raise InputError unless this is something that `KernelPCA(approximation=...)` takes."""
    known = approximation is None or isinstance(approximation, Nystroem | RandomFeatures)
    if not known and approximation not in NAMES:
        close = difflib.get_close_matches(str(approximation).lower(), NAMES, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        kinds = f"{', '.join(map(repr, NAMES))}, or a kpca.Nystroem or kpca.RandomFeatures object"
        raise InputError(f"must be None, {kinds}; got {approximation!r}.{hint}", param="approximation")
    if approximation is not None and precomputed:
        message = "needs rows of data to take landmarks or features from; a precomputed kernel has none"
        raise InputError(message, param="approximation", remedy=("leave ", Setting("approximation", None)))


def fit_map(
    approximation: Any, kernel: Kernel, X: Any, request: Request, *, n_rows: int = 0, weights: FloatArray | None = None
) -> FittedMap:
    """Return the features that an approximation has for a kernel; of the linear kernel, the rows themselves.

    `n_rows` is the number of rows whose scores will be kept, 0 for a stream. A stream that has just begun takes fewer
    landmarks than asked for if it has fewer rows.
    """
    if isinstance(kernel, Linear):
        return FittedMap(IdentityMap(X.shape[1]), 0.0, "primal")
    named, seed, n_components = isinstance(approximation, str), request.seed, request.n_components
    rank = default_rank(n_components)
    wanted = n_components if isinstance(n_components, int) else 0
    require(_needed(approximation, X, n_rows, n_components, request.threads), memory_budget, "or take fewer features")
    if is_random(approximation):
        settings = RandomFeatures(rank) if named else approximation
        if settings.rank < wanted:
            raise _too_few(settings.rank, wanted)
        _refuse_second_kernel(settings)
        drawn = fit_random(kernel, X, settings.rank, settings.structure, seed=seed, threads=request.threads)
        if drawn.centred_only and not request.center:
            message = f"Random features of the {kernel.name} kernel need centring; for center=False take "
            raise InputError((message, Setting("approximation", "nystroem"), " or another kernel"))
        error = kernel_error(drawn, X, seed=seed, threads=request.threads).rms
        if not np.isfinite(error):
            raise not_finite(kernel, "data")
        return FittedMap(drawn, error, "random features")
    settings = Nystroem(min(rank, X.shape[0])) if named else approximation
    if isinstance(settings.rank, int) and settings.rank < wanted:
        raise _too_few(settings.rank, wanted)
    _refuse_second_kernel(settings)
    rows = X.shape[0] if weights is None else int(np.count_nonzero(weights))
    count = settings.rank if n_rows else min(settings.rank, rows)
    landmarks = fit_nystroem(kernel, X, count, settings.landmarks, weights=weights, seed=seed, threads=request.threads)
    # Of a kernel that may be indefinite the trace that is left bounds nothing: its error is measured on some rows.
    error = 0.0 if landmarks.exact else landmarks.sampled_error(X, seed)
    return FittedMap(landmarks, error, "nystroem")


def _too_few(rank: int, wanted: int) -> InputError:
    message = (f"{wanted} components need at least as many features; ", Setting("rank", rank))
    return InputError(message, remedy="raise the rank of the approximation, or ask for fewer components")


def _needed(approximation: Any, X: Any, n_rows: int, n_components: int | float | None, threads: int) -> int:
    """Return the memory that a fit with these features takes."""
    n = X.shape[0]
    rank = rank_of(approximation, n_components, n)
    k = n_components if isinstance(n_components, int) else rank
    how = {"rank": rank, "itemsize": X.dtype.itemsize, "threads": threads}
    drawn, pivots = X.shape[1] if is_random(approximation) else 0, pivoted(approximation, n, rank)
    return features_bytes(n_rows or n, row_columns(X), k if n_rows else 0, drawn=drawn, chosen_from=pivots, **how)


def _refuse_second_kernel(settings: Nystroem | RandomFeatures) -> None:
    if settings.kernel is not None:
        name = type(settings).__name__
        got = f"{name}(kernel={settings.kernel!r})"
        raise InputError(f"The kernel is that of the estimator; got another in {got}: leave {name}'s kernel at None.")


# -- Kernel PCA with explicit features: components from the scatter of the features, and the way from rows to scores --

FeaturesProjection = LinearProjection | KernelProjection | FeatureProjection
# What rounding does to features, relative to the root of k(x, x), where the map does not know better.
_FEATURE_ERROR = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 2.5e-7}
# How far sums of squared scores may be from eigenvalues: angles of 2e-3 and 2e-5 at most.
_MISMATCH = {np.dtype(np.float64): 1e-9, np.dtype(np.float32): 1e-5}
# A cosine that is not rounding.
_CLEARLY = 1e-6
# With fewer rows than this nothing is said of their bandwidth.
_FEWEST_UNRELATED = 200


@dataclass(frozen=True)
class Components:
    """The leading directions of the features, with bounds on the eigenvalues of the kernel matrix itself."""

    feature_map: FeatureMap
    spectrum: Spectrum  # its vectors are directions of the features, shape: (r, k); the trace is the most it can be
    mean_feature: FloatArray  # shape: (r,)
    mean: FloatArray  # what is subtracted from features: their mean, or 0 without centring, shape: (r,)
    mass: float

    def oriented(self) -> Components:
        """Return the components with signs that need no training rows.

        Of the linear kernel: the largest entry of each direction is positive, as in scikit-learn's PCA. Otherwise each
        direction points to the side of the mean feature, which does not depend on the basis that features are in; where
        it is orthogonal to that, the largest entry decides.
        """
        directions = self.spectrum.vectors
        largest = directions[np.argmax(np.abs(directions), axis=0), np.arange(directions.shape[1])]
        towards = self.mean_feature @ directions
        clear = np.abs(towards) > _CLEARLY * float(np.linalg.norm(self.mean_feature))
        if isinstance(self.feature_map, IdentityMap):
            clear[:] = False
        signs = np.where(np.where(clear, towards, largest) < 0, -1.0, 1.0)
        return replace(self, spectrum=replace(self.spectrum, vectors=directions * signs))

    def projection(self, dtype: np.dtype[Any]) -> FeaturesProjection:
        """Return the map from rows to scores; with landmarks it costs one kernel value per landmark and row."""
        features, directions = self.feature_map, self.spectrum.vectors
        if isinstance(features, IdentityMap):
            return LinearProjection(directions.T.astype(dtype), self.mean)
        if not isinstance(features, NystroemMap):
            return FeatureProjection(features, directions.astype(dtype), self.mean)
        return landmark_projection(features, directions, self.mean, features.precision(dtype))


def landmark_projection(
    features: NystroemMap, directions: FloatArray, mean: FloatArray, precision: np.dtype[Any]
) -> KernelProjection:
    """Return the projection on directions of the features less `mean`, written as one on landmarks."""
    A, centre = features.coefficients(directions), Centre(*features.combination(mean)) if mean.any() else None
    rows, offset = features.landmarks, mean @ directions
    return KernelProjection(features.kernel, rows, A, offset, shifted=False, centre=centre, precision=precision)


@single_threaded()
def components_of(
    scatter: Scatter, fitted: FittedMap, n_components: int | float | None, *, centred: bool, dtype: np.dtype[Any]
) -> Components:
    """Return the leading components of the features seen."""
    feature_map, rank = fitted.feature_map, fitted.feature_map.rank
    C = scatter.operator(centred=centred)
    squares = C.diagonal().copy()
    frobenius2 = float(np.vdot(C, C))
    if not np.isfinite(frobenius2):
        raise not_finite(feature_map.kernel, "data")
    found = largest_eigenpairs(C, min(n_components, rank) if isinstance(n_components, int) else rank)
    values, directions = np.maximum(found.values, 0.0), found.vectors
    if isinstance(n_components, int) and n_components > rank:  # fewer independent features than components: no variance
        values = np.append(values, np.zeros(n_components - rank))
        directions = np.column_stack([directions, np.zeros((rank, n_components - rank))])
    trace = scatter.total_variance(centred=centred)
    count = _number_of(values, n_components, trace)
    error = rounding = scatter.rounding + 16.0 * float(np.finfo(np.float64).eps) * float(np.sqrt(frobenius2))
    if not isinstance(feature_map, IdentityMap):  # rows that are their own features are wrong by nothing but the sums
        relative = feature_map.error(dtype) if isinstance(feature_map, NystroemMap) else _FEATURE_ERROR[dtype]
        error += 2.0 * relative * scatter.trace
        rounding = 8.0 * float(np.finfo(dtype).eps) * float(np.sqrt(frobenius2))
    # Random features: the norm of K - F F' is at most its Frobenius norm, mass times the root mean square of entries.
    gap = scatter.unexplained if feature_map.exact else scatter.mass * fitted.kernel_error
    bounds = _bounds(values[:count], gap, feature_map, error)
    values, directions = without_rounding(values[:count], rounding, dtype), np.ascontiguousarray(directions[:, :count])
    directions[:, values <= 0] = 0.0  # no variance, no direction
    bounds[:, 0] = np.minimum(bounds[:, 0], values)
    off = None
    if isinstance(feature_map, NystroemMap):
        off = feature_map.rounding * scatter.trace / math.sqrt(max(scatter.mass, 1e-300))
    residuals = gap + _enlarged(error, values, directions, squares, off)
    sums, smallest = (trace, frobenius2), float(values.min(initial=0.0))
    spectrum = Spectrum(values, directions, residuals, bounds, *sums, smallest, 1, True, fitted.solver, rounding)
    return Components(feature_map, spectrum, scatter.mean, scatter.mean if centred else np.zeros(rank), scatter.mass)


def _enlarged(
    error: float, values: FloatArray, directions: FloatArray, squares: FloatArray, off: FloatArray | None
) -> FloatArray:
    """Return what rounding does to |F F'u - lambda u| for u = F v / sqrt(lambda), which enlarges it.  # shape: (k,)

    `squares` are the lengths of the columns of F, squared, and `off` what they are off by (docs/mathematics.md, 7).
    """
    top = float(values.max(initial=0.0))
    times = np.sqrt(np.divide(top, values, out=np.ones_like(values), where=values > 0))
    found: FloatArray = error * times
    if off is not None:
        found += math.sqrt(top) * times * np.linalg.norm(off[:, None] * directions, axis=0)
        found += off @ np.sqrt(np.maximum(squares, 0.0))
    return found


def not_finite(kernel: Kernel, what: str) -> InputError:
    """Return the error for kernel values that overflow."""
    wrong = f"must be finite; for this {what} some are NaN or too large"
    return InputError(f"The values of the {kernel.name} kernel {wrong}: {kernel.remedy}.")


def _number_of(values: FloatArray, n_components: int | float | None, trace: float) -> int:
    if not isinstance(n_components, float):
        return len(values)
    count = count_reaching(values, n_components, trace)
    if not count:
        explained = f"the {len(values)} features explain {values.sum() / max(trace, 1e-300):.3g} of it"
        message = f"{n_components:.3g} of the variance was asked for; {explained}: raise the rank of the approximation."
        warnings.warn(message, stacklevel=2)
    return count or len(values)


def _bounds(values: FloatArray, gap: float, feature_map: FeatureMap, error: float) -> FloatArray:
    """Return bounds of the exact eigenvalues (docs/mathematics.md, section 7).

    Landmarks: K - F F' is positive semidefinite, so no eigenvalue is below the features', and all together are above by
    no more than the trace that is left. Random features: Weyl's inequality, either way.
    """
    below = error if feature_map.exact else error + gap
    return np.column_stack([np.maximum(values - below, 0.0), values + gap + error])


Chunks = Callable[[], Iterable[tuple[Any, FloatArray | None]]]


@single_threaded()
def decompose_features(
    fitted: FittedMap, chunks: Chunks, dtype: np.dtype[Any], request: Request, *, n_rows: int | None = None
) -> Decomposition:
    """Find the components of the features of all rows, and the scores of these rows: the chunks are read twice.

    `chunks()` gives rows with their weights, all positive, or None; `n_rows` is for the progress that is reported.
    """
    feature_map, wanted, threads = fitted.feature_map, request.n_components, request.threads
    # Where few components are asked for only the upper end of the features' spectrum matters: cheaper sums may do.
    few = isinstance(wanted, int) and wanted * FEW <= feature_map.rank
    for leading in (True, False) if few else (False,):
        scatter = _scatter(feature_map, chunks, request, n_rows, leading=leading)
        components = components_of(scatter, fitted, wanted, centred=request.center, dtype=dtype)
        spectrum, projection = components.spectrum, components.projection(dtype)
        vectors, scale = _scores(projection, chunks, scatter.rows, threads)
        if not leading or not scatter.of_values or _confirmed(spectrum.values, vectors, scale, dtype, threads):
            break
    if request.center:
        _warn_of_flat_features(scatter, components)
    roots = np.sqrt(spectrum.values)
    signs = np.where(roots > 0, signs_of(vectors, None, threads), 1.0)
    factors = np.divide(signs, roots, out=np.zeros_like(roots), where=roots > 0)

    def normalise(rows: slice) -> None:
        vectors[rows] *= factors
        if scale is not None:
            vectors[rows] *= scale[rows, None]

    over_slices(normalise, len(vectors), SCORES_AT_ONCE, threads)
    return Decomposition(settled(replace(spectrum, vectors=vectors), dtype), projection.flipped(signs))


def _warn_of_flat_features(scatter: Scatter, components: Components) -> None:
    """Warn of a bandwidth so small that rows have nothing in common: landmarks then explain nothing but themselves.

    Random features of unrelated rows are noise, of a spectrum as flat as that of n rows in r dimensions.
    """
    features, own = components.feature_map, scatter.trace / max(scatter.mass, 1e-300)
    enough = scatter.rows >= max(2 * features.rank, _FEWEST_UNRELATED)
    if not enough or own <= 0 or not has_bandwidth(features.kernel):
        return
    similarity = float(scatter.mean @ scatter.mean) / own
    if features.exact:
        flatness = features.rank * own / max(scatter.trace - scatter.unexplained, 1e-300)
    else:
        flatness = participation_ratio(float(np.trace(scatter.matrix)), components.spectrum.frobenius2)
        flatness *= 1.0 / scatter.rows + 1.0 / features.rank
    warn_of_unrelated(flatness, similarity)


def _scatter(
    feature_map: FeatureMap, chunks: Chunks, request: Request, n_rows: int | None, *, leading: bool
) -> Scatter:
    scatter, monitor = Scatter.empty(feature_map.rank), row_monitor(n_rows)
    for rows, weights in chunks():
        part = scatter_of(feature_map, rows, weights, threads=request.threads, monitor=monitor, leading=leading)
        scatter = scatter.merged(part)
    return scatter


def _scores(
    projection: FeaturesProjection, chunks: Chunks, n_rows: int, threads: int
) -> tuple[FloatArray, FloatArray | None]:
    """Return the scores of all rows and the roots of their weights, or None: the second reading of the chunks."""
    scores: FloatArray = np.empty((0, 0))
    scale: FloatArray | None = None
    start = 0
    for rows, weights in chunks():
        here = slice(start, start + rows.shape[0])
        part = projection(rows, threads=threads)
        if rows.shape[0] == n_rows:
            # all rows in one chunk: fresh memory for a copy would take longer than the copy
            scores = part.astype(np.float64, copy=False)
        else:
            scores = np.empty((n_rows, part.shape[1])) if start == 0 else scores
            scores[here] = part
        if weights is not None:
            scale = np.ones(n_rows) if scale is None else scale
            scale[here] = np.sqrt(weights)
        start = here.stop
    return scores, scale


def _confirmed(
    values: FloatArray, scores: FloatArray, scale: FloatArray | None, dtype: np.dtype[Any], threads: int
) -> bool:
    """Return True if the sums of squared scores are the eigenvalues: sums of kernel values were exact enough for them.

    With E what rounding did to the scatter C, eigenvectors of C + E were found. Scores are computed row by row and do
    not know of E: their sum of squares is v'Cv = lambda - v'Ev. A direction that rounding has turned by an angle a
    overstates its eigenvalue by about 2 a^2 lambda, and is found out.
    """

    def squares(rows: slice) -> FloatArray:
        weighted = scores[rows] if scale is None else scores[rows] * scale[rows, None]
        return np.asarray(np.einsum("ij,ij->j", weighted, weighted))

    found = np.sum(over_slices(squares, len(scores), SCORES_AT_ONCE, threads), axis=0)
    allowed = _MISMATCH[dtype] * values + float(np.finfo(dtype).eps) * float(values.max(initial=0.0))
    return bool((np.abs(found - values) <= allowed).all())
