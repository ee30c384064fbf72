"""What drives a component: variables by gradient or by shuffling, pairs of them, arrows for a biplot, extreme rows."""

from kpca.explain.arrows import Arrows, Extremes, arrows, extremes
from kpca.explain.importance import Importance, PermutationImportance, importance, permutation_importance
from kpca.explain.interactions import Interactions, interactions

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
