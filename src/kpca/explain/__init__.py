"""What the components of a fitted model are made of, in terms of the variables."""

from kpca.explain.interactions import Interactions, interactions

__all__ = ["Interactions", "interactions"]
