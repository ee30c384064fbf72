"""A fitted exact model made small: `transform` against m landmarks instead of all training rows."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kpca._base.config import thread_count
from kpca._base.errors import InputError
from kpca.estimators.approximate import landmark_projection
from kpca.estimators.exact import refit
from kpca.estimators.kernel_pca import KernelPCA
from kpca.features import fit_nystroem
from kpca.features.projection import KernelProjection
from kpca.gram import CrossGram
from kpca.preimage.back import LEARNED_ROWS, check_preimage, fit_back


def compress(model: KernelPCA, m: int, *, landmarks: Any = "rpcholesky", seed: int = 0) -> KernelPCA:
    """Return a copy of a fitted model whose `transform` costs m kernel values a row, and a bound on what it lost.

    Each principal direction v_j, a combination of all training rows in feature space, is replaced by the nearest
    combination of landmarks, its projection on their span. Scores change by <v_j - projection, phi(x) - mean>, so by no
    more than `compression_loss_[j]` = |v_j - projection| times the distance of phi(x) from the mean.

    Parameters
    ----------
    model : a fitted KernelPCA with any kernel but linear and precomputed.
    m : the number of landmarks.
    landmarks : as in `kpca.Nystroem`: a way to choose them among the training rows, or their indices, or points.
    seed : of the choice.

    Examples
    --------
    >>> import kpca
    >>> from sklearn.datasets import load_digits
    >>> X, _ = load_digits(return_X_y=True)
    >>> small = kpca.compress(kpca.KernelPCA(4, kernel="rbf", gamma="median").fit(X), 400)
    >>> small.X_fit_.shape, bool(small.compression_loss_.max() < 0.2)
    ((400, 64), True)
    """
    check_is_fitted(model)
    projection = model._projection
    if not isinstance(projection, KernelProjection):
        kinds = "with a linear or precomputed kernel or random features there is nothing to compress"
        raise InputError(f"compress needs a model that compares new rows with training rows; {kinds}.")
    threads = thread_count(model.n_jobs)
    kernel, rows, A = projection.kernel, projection.X, projection.coefficients.astype(np.float64)
    weights = None if model._roots.size == 1 else np.square(model._roots[:, 0])
    chosen = fit_nystroem(kernel, rows, m, landmarks, weights=weights, seed=seed, threads=threads)
    share = np.full(rows.shape[0], 1.0 / rows.shape[0]) if weights is None else weights / weights.sum()
    cross = CrossGram(kernel, chosen.landmarks, rows, dtype=np.dtype(np.float64), threads=threads)
    images = cross @ np.column_stack([A, share])
    # In features of the landmarks the projection of v_j is g_j = L^-1 K(Z, X) a_j, of length at most |v_j| = 1.
    G = chosen.whitened(images)
    directions, mean = G[:, :-1], G[:, -1]
    loss = np.sqrt(np.clip(1.0 - np.einsum("ij,ij->j", directions, directions), 0.0, 1.0))
    small = copy.copy(model)
    mean = mean if model.center else np.zeros_like(mean)
    small._projection = landmark_projection(chosen, directions, mean, np.dtype(np.float64))
    small.X_fit_ = chosen.landmarks
    small.compression_loss_ = np.where(model.eigenvalues_ > 0, loss, 0.0)
    settings = check_preimage(model.preimage)
    if settings is not None:  # back by landmarks, too, and not by all the rows that are to be left behind
        some = rows[np.linspace(0, rows.shape[0] - 1, min(rows.shape[0], LEARNED_ROWS)).astype(np.intp)]
        scores = small._projection(some, threads=threads).astype(rows.dtype)
        small._back = fit_back(
            settings, kernel, small._projection, some, scores, seed=seed, threads=threads, refit=refit
        )
    return small
