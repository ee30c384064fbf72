"""Models to scikit-learn's KernelPCA and back: the same components, the same scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import solve
from sklearn.decomposition import KernelPCA as Theirs
from sklearn.preprocessing import KernelCenterer

from kpca import kernels
from kpca._base.config import thread_count
from kpca._base.errors import InputError, Setting
from kpca._base.linalg import FloatArray
from kpca.estimators.exact import Decomposition
from kpca.estimators.fitted import Fitted
from kpca.estimators.plan import kernel_of
from kpca.features.projection import Centre, KernelProjection, LinearProjection, MatrixProjection, Projection
from kpca.gram import Centered, CrossGram, Gram, MatrixGram
from kpca.gram.engine import column_norms
from kpca.gram.factored import Factored
from kpca.preimage.back import Back
from kpca.preimage.learned import RidgeMap, RidgeMapWay
from kpca.spectrum import Spectrum
from kpca.spectrum.result import eigenvalue_bounds

_SOLVER = "scikit-learn"
# A kernel matrix whose row means are below this share of what they were at the fit has been centred since.
_CENTRED = 1e-6


@dataclass(frozen=True)
class OfPairs:
    """A kernel of this package as scikit-learn takes functions: one pair of rows at a time, which is slow."""

    kernel: Any

    def __call__(self, x: Any, y: Any) -> float:
        """Return k(x, y) of two rows."""
        rows = [row if sparse.issparse(row) else np.atleast_2d(row) for row in (x, y)]
        return float(self.kernel.block(*rows)[0, 0])


# -- to scikit-learn --------------------------------------------------------------------------------------------------


def to_sklearn(model: Any) -> Theirs:
    """Return scikit-learn's KernelPCA with the parameters of a model and, where it is fitted, with its components."""
    _refuse(model)
    of_kernel = ("kernel", "gamma", "degree", "coef0", "kernel_params")
    parameters = {name: getattr(model, name) for name in Theirs().get_params() if name not in of_kernel}
    if parameters["eigen_solver"] not in Theirs._parameter_constraints["eigen_solver"][0].options:
        parameters["eigen_solver"] = "auto"
    if not hasattr(model, "eigenvalues_"):
        return Theirs(**parameters, **_unresolved(model))
    parameters["n_components"] = model.n_components_ or None
    made = Theirs(**parameters, **_their_kernel(model.kernel_))
    return _filled(made, model)


def _refuse(model: Any) -> None:
    """Say why a model has no counterpart."""
    reason = None
    fitted = hasattr(model, "eigenvalues_")
    if not model.center:
        reason = "is not centred (center=False)"
    elif (model.approximation not in (None, "auto")) if not fitted else hasattr(model, "feature_map_"):
        reason = "has an approximation"
    elif hasattr(model, "compression_loss_"):
        reason = "is compressed"
    elif fitted and model._roots.size > 1:
        reason = "has weights of rows"
    elif fitted and not isinstance(model.X_fit_, np.ndarray) and not sparse.issparse(model.X_fit_):
        reason = "is of a LinearOperator"
    if reason is not None:
        theirs = "scikit-learn's KernelPCA is exact, centred and without weights"
        raise InputError(f"{theirs}; this model {reason}: fit one that is not.")


def _unresolved(model: Any) -> dict[str, Any]:
    """Return what is said of the kernel before a fit, where scikit-learn has words for it."""
    kernel, gamma, count = model.kernel, model.gamma, model.n_components
    if isinstance(kernel, kernels.Kernel):
        found = _their_kernel(kernel)
        if isinstance(found["kernel"], OfPairs) or gamma is None:
            gamma = found.get("gamma")
    else:
        found = {"kernel": kernel, "degree": model.degree, "coef0": model.coef0, "kernel_params": model.kernel_params}
    if isinstance(count, float | str) or not (gamma is None or np.isscalar(gamma)) or isinstance(gamma, str):
        needed = f" must be numbers for scikit-learn; got {count!r} and {gamma!r}"
        message = ("Without a fit ", Setting("n_components"), " and ", Setting("gamma"), needed)
        raise InputError(message, remedy="fit the model first, or set them")
    names = Theirs._parameter_constraints["kernel"][0].options
    if isinstance(kernel, str) and kernel not in names:
        needed = "kernel must be one that scikit-learn's KernelPCA has"
        raise InputError(f"Without a fit {needed}; got {kernel!r}: fit the model first.")
    return {**found, "gamma": gamma}


def _their_kernel(kernel: kernels.Kernel | None) -> dict[str, Any]:
    """Return the parameters by which scikit-learn knows a kernel; a function of pairs for one that it does not."""
    found: dict[str, Any] = {"kernel": OfPairs(kernel)}
    match kernel:
        case None:
            found = {"kernel": "precomputed"}
        case kernels.Linear() | kernels.Cosine():
            found = {"kernel": kernel.name}
        case kernels.RBF(gamma=float(number)):
            found = {"kernel": "rbf", "gamma": number}
        case kernels.Polynomial(degree=degree, gamma=number, coef0=coef0):
            found = {"kernel": "poly", "gamma": number, "degree": degree, "coef0": coef0}
        case kernels.Sigmoid(gamma=number, coef0=coef0):
            found = {"kernel": "sigmoid", "gamma": number, "coef0": coef0}
        case kernels.PairwiseCallable(function=function, params=params):
            found = {"kernel": function, "kernel_params": dict(params) or None}
    return found


def _filled(made: Theirs, model: Any) -> Theirs:
    """Return scikit-learn's model with what its own fit would have left."""
    X, kernel = model.X_fit_, model.kernel_
    n = X.shape[0]
    if kernel is None:
        means = np.asarray(X.mean(axis=0), dtype=np.float64).ravel()
    else:
        ones = np.full((n, 1), 1.0 / n)
        cross = CrossGram(kernel, X, X, dtype=np.dtype(np.float64), threads=thread_count(model.n_jobs))
        means = np.asarray(cross @ ones, dtype=np.float64)[:, 0] + cross.constant
    made.X_fit_, made.n_features_in_ = X, model.n_features_in_
    if hasattr(model, "feature_names_in_"):
        made.feature_names_in_ = model.feature_names_in_
    made.gamma_ = made.gamma if made.gamma is not None else 1.0 / X.shape[1]
    made.eigenvalues_, made.eigenvectors_ = model.eigenvalues_, model.eigenvectors_
    centerer = KernelCenterer().set_output(transform="default")
    centerer.K_fit_rows_, centerer.K_fit_all_ = means.astype(X.dtype), X.dtype.type(means.mean())
    centerer.n_features_in_ = n
    made._centerer = centerer
    if made.fit_inverse_transform:
        scores = model._fitted_scores()
        # scikit-learn's map has no intercept: it is solved again, not taken over
        of_scores = kernel_of(model, scores, model.gamma_)
        K = Gram(of_scores, scores).matrix().astype(np.float64)
        K.flat[:: n + 1] += float(model.alpha)
        made.dual_coef_ = solve(K, np.asarray(X, dtype=np.float64), assume_a="pos").astype(X.dtype)
        made.X_transformed_fit_ = scores
    return made


# -- from scikit-learn ------------------------------------------------------------------------------------------------


def from_sklearn(empty: Any, theirs: Any) -> Any:
    """Return an empty model with the parameters of scikit-learn's and, where that is fitted, with its components.

    Residuals and bounds are measured, which takes a pass over the kernel matrix.
    """
    if not isinstance(theirs, Theirs):
        raise InputError(f"from_sklearn needs a KernelPCA of sklearn.decomposition; got {type(theirs).__name__}.")
    model = empty.set_params(**theirs.get_params(deep=False))
    if not hasattr(theirs, "eigenvalues_"):
        return model
    X = theirs.X_fit_
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float64)
    values, vectors = np.asarray(theirs.eigenvalues_), np.asarray(theirs.eigenvectors_)
    finite = np.isfinite(values).all() and np.isfinite(vectors).all()
    if not finite or (values < 0).any() or vectors.shape != (X.shape[0], len(values)):
        raise InputError("A fitted KernelPCA must have finite eigenvalues from 0, and a vector of each; this has not.")
    gamma = float(theirs.gamma_)
    kernel, means = None, np.asarray(theirs._centerer.K_fit_rows_, dtype=np.float64)
    if isinstance(theirs.kernel, str) and theirs.kernel == "precomputed":
        X = _original(X, means, float(theirs._centerer.K_fit_all_))
    else:
        kernel = kernel_of(theirs, X, gamma)
    values, vectors = values.astype(np.float64), vectors.astype(np.float64)
    roots = np.sqrt(values)
    A = vectors * np.divide(1.0, roots, out=np.zeros_like(roots), where=roots > 0)
    A -= A.mean(axis=0)  # exactly 0 in all, so that the mean of new kernel values drops out
    operator, projection = _projected(kernel, X, A, means, thread_count(theirs.n_jobs))
    spectrum = _certified(operator, values, vectors)
    columns = {name: getattr(theirs, name) for name in ("n_features_in_", "feature_names_in_") if hasattr(theirs, name)}
    back = None
    if theirs.fit_inverse_transform:
        scores = np.ascontiguousarray(theirs.X_transformed_fit_, dtype=X.dtype)
        solved = RidgeMap(kernel_of(theirs, scores, gamma), scores, theirs.dual_coef_, np.zeros(X.shape[1]))
        back = Back(RidgeMapWay(solved), "ridge", "scikit-learn's map, as it was fitted")
    found = model._wanted_of(Decomposition(spectrum, projection))
    parts, columns = (found.spectrum, found.projection), columns | {"n_features_in_": X.shape[1]}
    fitted = Fitted(kernel, *parts, X.shape[0], True, X.dtype, gamma, X_fit=X, back=back, columns=columns)
    return model._keep(fitted.attributes())


def _original(K: Any, means: FloatArray, mean: float) -> Any:
    """Return a kernel matrix as it was given: scikit-learn centres it in place."""
    now = np.asarray(K.mean(axis=0), dtype=np.float64).ravel()
    if np.abs(now).max() > _CENTRED * np.abs(means).max() or sparse.issparse(K):
        return K
    return (K + means + means[:, None] - mean).astype(K.dtype)


def _projected(
    kernel: kernels.Kernel | None, X: Any, A: FloatArray, means: FloatArray, threads: int
) -> tuple[Any, Projection]:
    """Return the operator whose eigenvectors are known, and the projection by coefficients A of the rows."""
    if kernel is None:
        return Centered(MatrixGram(X)), MatrixProjection(A, means @ A)
    if isinstance(kernel, kernels.Linear):
        features = Factored(X, centred=True, threads=threads)
        components = features.transposed_times(A).T
        return features, LinearProjection(np.ascontiguousarray(components, dtype=X.dtype), features.mean)
    gram = Gram(kernel, X, precision="double", threads=threads)
    centred = Centered(gram)
    row_means = centred.row_means()
    centre = Centre(np.full(X.shape[0], 1.0 / X.shape[0]), row_means + gram.constant)
    return centred, KernelProjection(kernel, X, A.astype(X.dtype), row_means @ A, gram.shifted, centre=centre)


def _certified(operator: Any, values: FloatArray, vectors: FloatArray) -> Spectrum:
    """Return eigenpairs that somebody else found, with residuals and bounds as measured."""
    # Bounds need Ritz values of orthonormal vectors, which these are to their own precision only.
    Q, R = np.linalg.qr(vectors.astype(np.float64))
    factored = isinstance(operator, Factored)
    images = operator.features_times(operator.transposed_times(Q)) if factored else operator @ Q
    ritz, Y = np.linalg.eigh(0.5 * (Q.T @ images + images.T @ Q))
    ritz, Y = ritz[::-1], Y[:, ::-1]
    error = float(operator.error(Q)) if len(values) else 0.0
    trace, squares = float(operator.trace()), float(operator.frobenius2())
    most, k = squares + float(operator.frobenius2_error()), len(values)
    lengths = column_norms(images @ Y - Q @ (Y * ritz))
    bounds = eigenvalue_bounds(ritz, lengths, k, error=error, trace=trace, square=most, psd=operator.psd)
    lower, upper = np.minimum(bounds[:, 0], values), np.maximum(bounds[:, 1], values)
    bounds, smallest = np.column_stack([lower, upper]), float(values.min(initial=0.0))
    residuals = column_norms(images @ R - vectors * values) + error
    return Spectrum(values, vectors, residuals, bounds, trace, squares, smallest, 1, True, _SOLVER, error)
