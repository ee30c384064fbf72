"""Explicit features: maps with f(x).f(y) close to k(x, y), so that kernel PCA becomes PCA of the features."""

from kpca.features.base import FeatureMap, IdentityMap
from kpca.features.landmarks import Landmarks, choose_landmarks, unexplained_fraction
from kpca.features.nystroem import Nystroem, fit_nystroem
from kpca.features.nystroem_map import NystroemMap
from kpca.features.random import KernelError, RandomFeatures, RandomMap, draw_features, fit_random, kernel_error
from kpca.features.scatter import Scatter, scatter_of

__all__ = [
    "FeatureMap",
    "IdentityMap",
    "KernelError",
    "Landmarks",
    "Nystroem",
    "NystroemMap",
    "RandomFeatures",
    "RandomMap",
    "Scatter",
    "choose_landmarks",
    "draw_features",
    "fit_nystroem",
    "fit_random",
    "kernel_error",
    "scatter_of",
    "unexplained_fraction",
]
