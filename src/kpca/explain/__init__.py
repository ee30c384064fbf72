"""What drives a component: variables by gradient or by shuffling, pairs of them, arrows for a biplot, extreme rows."""

from kpca.explain.arrows import Arrows, Extremes, arrows, extremes
from kpca.explain.importance import Importance, importance
from kpca.explain.interactions import Interactions, interactions
from kpca.explain.permutation import PermutationImportance, permutation_importance

__all__ = [
    "Arrows",
    "Extremes",
    "Importance",
    "Interactions",
    "PermutationImportance",
    "arrows",
    "extremes",
    "importance",
    "interactions",
    "permutation_importance",
]
