"""What drives a component: variables by gradient or by shuffling, arrows for a biplot, the most extreme rows."""

from kpca.explain.arrows import Arrows, arrows
from kpca.explain.extremes import Extremes, extremes
from kpca.explain.importance import Importance, importance
from kpca.explain.permutation import PermutationImportance, permutation_importance

__all__ = [
    "Arrows",
    "Extremes",
    "Importance",
    "PermutationImportance",
    "arrows",
    "extremes",
    "importance",
    "permutation_importance",
]
