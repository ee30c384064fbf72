"""Nystroem: landmark features as a transformer of scikit-learn, and as a function for the estimators."""

from __future__ import annotations

from typing import Any, Self

from kpca import kernels
from kpca._base.config import thread_count
from kpca._base.errors import InputError, Setting
from kpca._base.linalg import FloatArray
from kpca._base.validation import check_data, check_jobs, check_weights, seed_of, unchanged_on_error
from kpca.features.base import FeatureTransformer
from kpca.features.landmarks import choose_landmarks, unexplained_fraction
from kpca.features.nystroem_map import NystroemMap


def fit_nystroem(
    kernel: kernels.Kernel,
    X: Any,
    rank: int | float,
    landmarks: Any = "rpcholesky",
    *,
    weights: FloatArray | None = None,
    seed: int = 0,
    threads: int = 1,
) -> NystroemMap:
    """Return the feature map of landmarks chosen for the rows of X; see `choose_landmarks` for the parameters."""
    chosen = choose_landmarks(kernel, X, rank, landmarks, weights=weights, seed=seed, threads=threads)
    return NystroemMap(kernel, chosen.points, X.dtype)


class Nystroem(FeatureTransformer):
    """Features f(x) with f(x).f(y) close to k(x, y), from kernel values with a few landmarks.

    On its own a transformer, for linear models on what a kernel sees; inside KernelPCA the way to large data.

    Parameters
    ----------
    rank : int or float
        The number of landmarks; or, between 0 and 1, the fraction of the trace of K that may stay unexplained.
    landmarks : {"rpcholesky", "uniform", "kmeans", "leverage"} or array
        How to choose them (randomly pivoted Cholesky; by chance; centres of clusters; ridge leverage scores), or the
        numbers of the rows to take (1-D), or the points themselves (2-D). With an array `rank` does not matter.
    kernel : as in KernelPCA, but not "precomputed"; None is "rbf", and the estimator's own inside KernelPCA.
    gamma, degree, coef0, kernel_params : as in KernelPCA.
    random_state : seed of the choice; None repeats too.
    n_jobs : threads; None is `kpca.config(threads=...)`.

    Attributes
    ----------
    map_ : NystroemMap, the features as a function of rows.
    landmarks_ : (r, d), the points kept: those that are not linear combinations of others in feature space.
    landmark_indices_ : (r,), which rows of X they are; None where they are not.
    rank_ : int, the number of features.
    unexplained_ : float
        The fraction of the trace of K that the features leave out, over all training rows (with their weights). For a
        positive semidefinite kernel it bounds what all eigenvalues together can be missing, relative to the trace.
    kernel_, gamma_, n_features_in_, feature_names_in_.

    Notes
    -----
    Landmarks of more than 30 000 rows are chosen among 10 000 to 30 000. float32 rows give float32 features, right to
    1e-3 of sqrt(k(x, x)): computed in float64 where float32 would not reach that.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from kpca.features import Nystroem
    >>> X, _ = load_digits(return_X_y=True)
    >>> Nystroem(rank=50, gamma="median").fit_transform(X).shape
    (1797, 50)
    """

    _what_overflows = "Kernel values of new rows"

    def __init__(
        self,
        rank: int | float = 100,
        landmarks: Any = "rpcholesky",
        *,
        kernel: Any = None,
        gamma: Any = None,
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.rank, self.landmarks = rank, landmarks
        self._keep((kernel, gamma, degree, coef0, kernel_params), random_state, n_jobs)

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Choose landmarks among the rows of X.

        Parameters
        ----------
        X : (n, d) array, data frame or CSR matrix.
        y : ignored.
        sample_weight : (n,) weights, not negative: rows count as often as that, those of weight 0 not at all.
        """
        with unchanged_on_error(self):
            check_jobs(self.n_jobs)
            if isinstance(self.kernel, str) and self.kernel == "precomputed":
                got = ("Nystroem needs rows to choose from; got ", Setting("kernel", "precomputed"))
                raise InputError(got, remedy="give the data and a kernel")
            X = check_data(self, X, reset=True)
            weights = check_weights(sample_weight, X.shape[0])
            kernel, gamma = self._resolved(X, X if weights is None else X[weights > 0])
            kernel.check(X)
            seed, threads = seed_of(self.random_state), thread_count(self.n_jobs)
            chosen = choose_landmarks(kernel, X, self.rank, self.landmarks, weights=weights, seed=seed, threads=threads)
            features = NystroemMap(kernel, chosen.points, X.dtype)
            unexplained = unexplained_fraction(features, X, weights, threads=threads)
        self.kernel_, self.gamma_, self.map_ = kernel, gamma, features
        self.landmarks_, self.rank_, self.unexplained_ = features.landmarks, features.rank, unexplained
        self.landmark_indices_ = None if chosen.indices is None else chosen.indices[features.kept]
        return self
