"""Choosing a kernel, its bandwidth and the number of components."""

from kpca.selection.components import ComponentCount, n_components
from kpca.selection.path import Path, path
from kpca.selection.tuning import Tuning, tune

__all__ = ["ComponentCount", "Path", "Tuning", "n_components", "path", "tune"]
