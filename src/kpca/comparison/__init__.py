"""Many ways to draw the same rows in a few dimensions, side by side: what each takes, and what it keeps."""

from kpca.comparison.methods import NAMES
from kpca.comparison.result import Comparison, MethodResult
from kpca.comparison.runner import compare

__all__ = ["NAMES", "Comparison", "MethodResult", "compare"]
