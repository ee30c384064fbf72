"""The engine seam: what computes kernel values, chosen for the rows at hand. Nothing outside `gram` names an engine."""

from kpca.gram._numpy import Evaluator, evaluator, has_single, held_bytes

__all__ = ["Evaluator", "evaluator", "has_single", "held_bytes"]
