"""Choosing: how many components."""

from kpca.selection.components import ComponentCount, n_components

__all__ = ["ComponentCount", "n_components"]
