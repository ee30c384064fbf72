"""Explicit features: maps with f(x).f(y) close to k(x, y), so that kernel PCA becomes PCA of the features."""

from kpca.features.base import FeatureMap

__all__ = ["FeatureMap"]
