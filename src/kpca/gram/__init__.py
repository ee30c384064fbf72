"""The kernel matrix as an operator: tiles, never (necessarily) a matrix."""

from kpca.gram.factored import MatrixGram
from kpca.gram.operator import Centered, CrossGram, Gram, Moments, Operator, Precision

__all__ = ["Centered", "CrossGram", "Gram", "MatrixGram", "Moments", "Operator", "Precision"]
