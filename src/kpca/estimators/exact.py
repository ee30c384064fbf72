"""From data and a kernel to components: choose the operator and the route, solve, and keep what `transform` needs."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator
from sklearn.utils.validation import _check_psd_eigenvalues

from kpca._base.config import require
from kpca._base.errors import InputError
from kpca._base.linalg import FloatArray
from kpca._base.threads import single_threaded
from kpca.estimators.checkpoint import open_checkpoint
from kpca.estimators.cost import FIRST_TRY, Request, better_shifted, count_for_share
from kpca.estimators.memory import held_by, linear_bytes
from kpca.estimators.plan import first_count, first_linear_count, kernel_route, linear_route
from kpca.estimators.solvers import SOLVERS, Near, limits
from kpca.features.projection import (
    SCORES_AT_ONCE,
    Centre,
    KernelProjection,
    LinearProjection,
    MatrixProjection,
    Projection,
)
from kpca.gram import Centered, Gram, MatrixGram
from kpca.gram.factored import Factored
from kpca.gram.shared import SharedArguments
from kpca.gram.tiles import over_slices
from kpca.kernels import Kernel, Linear
from kpca.kernels.base import has_bandwidth
from kpca.spectrum import Spectrum, solve_factored
from kpca.spectrum.result import participation_ratio, unrelated_ratio

_TOO_LARGE = "scale the data, or give float64 rows"
# The fewest rows, the flatness of their spectrum and the mean similarity that speak of too small a bandwidth.
_FEWEST_UNRELATED, _FLAT, _UNRELATED = 10, 0.95, 0.01


@dataclass(frozen=True)
class Decomposition:
    """Components with their certificate, and the way from new points to scores."""

    spectrum: Spectrum
    projection: Projection

    def head(self, k: int) -> Decomposition:
        """Return the first k components."""
        return replace(self, spectrum=self.spectrum.head(k), projection=self.projection.head(k))


@single_threaded()
def decompose(
    kernel: Kernel,
    X: Any,
    weights: FloatArray | None,
    request: Request,
    *,
    arguments: SharedArguments | None = None,
    near: Near | None = None,
) -> Decomposition:
    """Find the components of the rows of X, all of positive weight, under a kernel.

    BLAS has one thread all through, here and for a given matrix: its threads that wait for work would take the cores
    from ours, and as their number belongs to the process, sums would come out in other bits beside other fits.

    `arguments` are those of the kernel, where they are used for others, too; `near` is what is known of kernels that
    differ little, from which the search then starts.
    """
    scale = None if weights is None else np.sqrt(weights)
    if isinstance(kernel, Linear):
        return _decompose_linear(X, scale, request)
    shifted = request.center and better_shifted(kernel, X)
    gram = Gram(kernel, X, scale=scale, shifted=shifted, threads=request.threads, arguments=arguments)
    spectrum = _solve(gram, request, X.dtype, near)
    coefficients, offset = _coefficients(gram, spectrum, request.center)
    centre = _centre(gram) if request.center else None
    gram.release()
    A = coefficients.astype(X.dtype, copy=False)
    return Decomposition(spectrum, KernelProjection(kernel, X, A, offset, gram.shifted, centre=centre))


def refit(
    kernel: Kernel, rows: FloatArray, count: int, *, center: bool, tol: float, seed: int, threads: int
) -> tuple[KernelProjection, FloatArray]:
    """Return the projection and the scores of kernel PCA of some rows, without warnings: all rows had theirs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        found = decompose(kernel, rows, None, Request(count, tol, center=center, seed=seed, threads=threads))
    assert isinstance(found.projection, KernelProjection)
    return found.projection, found.spectrum.scores(None)


@single_threaded()
def decompose_matrix(K: Any, weights: FloatArray | None, request: Request) -> Decomposition:
    """Find the components that belong to a kernel matrix; rows of weight 0 get no say and no coefficient."""
    n = K.shape[0]
    present = np.arange(n) if weights is None else np.flatnonzero(weights)
    scale = None if weights is None else np.sqrt(weights[present])
    gram = MatrixGram(K if len(present) == n else _principal_part(K, present), scale=scale, threads=request.threads)
    spectrum = _solve(gram, request, np.dtype(np.float64) if isinstance(K, LinearOperator) else K.dtype)
    some, offset = _coefficients(gram, spectrum, request.center)
    coefficients = np.zeros((n, some.shape[1]))
    coefficients[present] = some
    return Decomposition(spectrum, MatrixProjection(coefficients, offset))


def _principal_part(K: Any, rows: NDArray[np.intp]) -> Any:
    """Return the rows and columns of K that are present."""
    if not isinstance(K, LinearOperator):
        return K[rows][:, rows]

    def multiply(V: FloatArray) -> FloatArray:
        whole = np.zeros((K.shape[0], V.shape[1]))
        whole[rows] = V
        return np.asarray(K @ whole)[rows]

    return LinearOperator(
        (len(rows), len(rows)), matmat=multiply, matvec=lambda v: multiply(v.reshape(-1, 1))[:, 0], dtype=float
    )


def _decompose_linear(X: Any, scale: FloatArray | None, request: Request) -> Decomposition:
    operator = Factored(X, centred=request.center, scale=scale, threads=request.threads)
    (n, d), side, sparse_rows = X.shape, min(X.shape), sparse.issparse(X)
    count, nnz, found = first_linear_count(request, n, d, sparse=sparse_rows), X.nnz if sparse_rows else None, None
    while found is None:
        direct = linear_route(n, d, count, request.eigen_solver, sparse=sparse_rows).solver == "direct"
        size = X.dtype.itemsize
        require(linear_bytes(n, d, count, size, direct=direct, nnz=nnz, threads=request.threads), request.budget)
        spectrum, components = solve_factored(operator, count, request.tol, direct=direct, **limits(request))
        found = _enough(spectrum, request, last=count == side)
        count = min(2 * count, side)
    spectrum = settled(found, X.dtype)
    if isinstance(request.n_components, int) and request.n_components > side:
        spectrum = _padded(spectrum, min(request.n_components, n))
    signs = signs_of(spectrum.vectors, scale)
    components = np.vstack([components, np.zeros((len(signs), d))])[: len(signs)] * signs[:, None]
    components[spectrum.values <= 0] = 0.0  # no variance, no direction
    spectrum = replace(spectrum, vectors=spectrum.vectors * signs)
    return Decomposition(spectrum, LinearProjection(components.astype(X.dtype), operator.mean))


def _solve(gram: Any, request: Request, dtype: np.dtype[Any], near: Near | None = None) -> Spectrum:
    """Find the components of a kernel operator, centred if asked for."""
    n = gram.shape[0]
    asked = {name: getattr(request, name) for name in ("n_components", "tol", "eigen_solver", "center", "seed")}
    checkpoint = open_checkpoint(gram, **asked)

    def guess(share: float) -> int:
        if gram.kernel is None:
            return FIRST_TRY
        return count_for_share(gram, share, centred=request.center, seed=request.seed)

    count, start, found = first_count(request, n, guess), near, None
    while found is None:
        route = kernel_route(n, count, request.eigen_solver, request.budget, held=held_by(gram))
        known: dict[str, Any] = {"start": start, "near": near, "checkpoint": checkpoint}
        spectrum = SOLVERS[route.solver].solve(gram, count, request, **known)
        count = max(count, len(spectrum.values))  # a resumed fit may have been further
        found = _enough(spectrum, request, last=count == n)
        start, count = Near(spectrum.vectors, float(spectrum.values[0])), min(2 * count, n)
    spectrum = settled(found, dtype)
    if gram.kernel is not None and request.center:
        _warn_of_flat_kernel(gram, spectrum)
    if checkpoint is not None and spectrum.converged:
        checkpoint.remove()
    signs = signs_of(spectrum.vectors, None if (gram.scale == 1.0).all() else gram.scale)
    return replace(spectrum, vectors=spectrum.vectors * signs)


def _enough(spectrum: Spectrum, request: Request, *, last: bool) -> Spectrum | None:
    """Return the components that were asked for; None if they explain less than a fraction and are not the last."""
    fraction = request.n_components
    if fraction is None or isinstance(fraction, int):
        return spectrum
    count = count_reaching(spectrum.values, fraction, spectrum.trace)
    return spectrum.head(count) if count else spectrum if last else None


def count_reaching(values: FloatArray, fraction: float, trace: float) -> int:
    """Return the smallest d with sum of the first d eigenvalues >= fraction * trace; 0 if there is none."""
    reached = np.cumsum(np.maximum(values, 0.0)) >= fraction * trace * (1 - 1e-12)
    return int(np.argmax(reached)) + 1 if reached.any() else 0


def without_rounding(values: FloatArray, error: float, dtype: np.dtype[Any]) -> FloatArray:
    """Return eigenvalues as scikit-learn leaves them: rounding to 0, significant negative ones an error."""
    values = np.where(np.abs(values) <= error, 0.0, values)
    if not len(values):
        return values
    if dtype == np.float32 and values[0] > float(np.finfo(np.float32).max):
        raise InputError(f"Eigenvalues must be numbers of float32; the largest is {values[0]:.3g}", remedy=_TOO_LARGE)
    settled = _check_psd_eigenvalues(values.astype(dtype if dtype == np.float32 else np.float64))
    return np.where(settled == 0, 0.0, values)


def settled(spectrum: Spectrum, dtype: np.dtype[Any]) -> Spectrum:
    """Return the spectrum with such eigenvalues; warn of an indefinite kernel, and of rows that are all alike."""
    values = without_rounding(spectrum.values, spectrum.error, dtype)
    if not len(values):
        return spectrum
    if spectrum.smallest < -1e-5 * max(values[0], 0.0) - 10 * spectrum.error:
        found = f"an eigenvalue of {spectrum.smallest:.3g} was found beside the largest, {values[0]:.3g}"
        said = "components are chosen by value, negative ones carry no variance."
        warnings.warn(f"The kernel matrix is not positive semidefinite: {found}; {said}", stacklevel=2)
    if not values.any():
        said = "All rows are alike under this kernel, so there is no variance to explain and all scores are 0."
        warnings.warn(said, stacklevel=2)
    # what was said of the eigenvalues found holds for those that are shown
    residuals = spectrum.residuals + np.abs(values - spectrum.values)
    lower, upper = np.minimum(spectrum.bounds[:, 0], values), np.maximum(spectrum.bounds[:, 1], values)
    return replace(spectrum, values=values, residuals=residuals, bounds=np.column_stack([lower, upper]))


def _warn_of_flat_kernel(gram: Gram, spectrum: Spectrum) -> None:
    """Warn of a bandwidth so small that K is about the identity; trace and norm are known by now.

    The mean similarity keeps quiet about rows that are all about equally far apart, as noise of many features is: its
    spectrum is flat at every bandwidth. Rows that repeat make it less flat; `kpca.diagnostics` counts them.
    """
    weights = gram.scale**2
    if len(weights) < _FEWEST_UNRELATED or not spectrum.trace > 0 or not has_bandwidth(gram.kernel):
        return
    mass, own = float(weights.sum()), gram.diagonal()
    pairs = float(gram.scale @ gram.moments().image) + gram.constant * mass**2
    pairs -= float(weights @ own) + gram.constant * float(weights @ weights)
    mean = pairs / max(mass**2 - float(weights @ weights), 1e-300)
    own_mean = float(own.sum()) / mass + gram.constant
    if not own_mean > 0:
        return  # a kernel under which rows have nothing in common with themselves: no share of it is small
    mean /= own_mean
    warn_of_unrelated(participation_ratio(spectrum.trace, spectrum.frobenius2) / unrelated_ratio(weights), mean)


def warn_of_unrelated(flatness: float, similarity: float) -> None:
    """Warn if a spectrum is about as flat as that of K = I, and rows have on average almost nothing in common."""
    if flatness >= _FLAT and similarity < _UNRELATED:
        said = (
            f"The bandwidth is so small that rows have almost nothing in common: their mean similarity is "
            f"{max(similarity, 0.0):.2g} and the spectrum is {100 * min(flatness, 1.0):.0f} % flat, so components show "
            "single rows; take a wider one (kpca.diagnostics.check(model) suggests which)."
        )
        warnings.warn(said, stacklevel=2)


def _padded(spectrum: Spectrum, count: int) -> Spectrum:
    """Return the spectrum with orthonormal vectors of eigenvalue 0 up to `count` pairs."""
    n, k = spectrum.vectors.shape
    fresh = np.random.default_rng(0).standard_normal((n, count - k))
    for _ in range(2):
        fresh -= spectrum.vectors @ (spectrum.vectors.T @ fresh)
    vectors = np.column_stack([spectrum.vectors, np.linalg.qr(fresh)[0]])
    zeros = np.zeros(count - k)
    errors = zeros + spectrum.error
    values, residuals = np.append(spectrum.values, zeros), np.append(spectrum.residuals, errors)
    bounds = np.vstack([spectrum.bounds, np.column_stack([zeros, errors])])
    return replace(spectrum, values=values, vectors=vectors, residuals=residuals, bounds=bounds)


def signs_of(vectors: FloatArray, scale: FloatArray | None, threads: int = 1) -> FloatArray:
    """Return +-1 per component so that the training score of largest size is positive, ties to the lowest index."""
    scores = vectors if scale is None else vectors / scale[:, None]

    def ends(rows: slice) -> FloatArray:
        return np.stack([scores[rows].max(axis=0), -scores[rows].min(axis=0)])

    n, one = len(scores), len(scores) <= SCORES_AT_ONCE  # threads would not have met
    highest, lowest = ends(slice(n)) if one else np.max(over_slices(ends, n, SCORES_AT_ONCE, threads), axis=0)
    signs = np.where(highest >= lowest, 1.0, -1.0)
    almost = 1.0 - np.sqrt(np.finfo(np.float64).eps)
    for j in np.flatnonzero(np.minimum(highest, lowest) >= np.maximum(highest, lowest) * almost):
        sizes = np.abs(scores[:, j])
        signs[j] = -1.0 if scores[np.argmax(sizes >= sizes.max() * almost), j] < 0 else 1.0
    return signs


def _centre(gram: Gram) -> Centre:
    """Return the mean in feature space: every row in its weight."""
    weights = gram.scale**2
    return Centre(weights / weights.sum(), Centered(gram).row_means() + gram.constant)


def _coefficients(gram: Any, spectrum: Spectrum, center: bool) -> tuple[FloatArray, FloatArray]:
    """Return A = S U / sqrt(lambda), 0 where there is no variance, and what `transform` subtracts, A' (row means)."""
    roots = np.sqrt(spectrum.values)
    A = spectrum.vectors * np.divide(1.0, roots, out=np.zeros_like(roots), where=roots > 0)
    A *= gram.scale[:, None]
    if center:
        # Exactly 1'A = 0: vectors of tiny eigenvalues are mixed with the null vector, and 1/sqrt(lambda) enlarges that.
        weights = gram.scale**2
        A -= np.multiply.outer(weights / weights.sum(), A.sum(axis=0))
    offset = Centered(gram).row_means() @ A if center else np.zeros(len(roots))
    return A, offset
