"""Back from components to data: pre-images of scores, by several methods behind one contract.

`KernelPCA(preimage=...)` takes a name or one of the settings here; `traverse` walks along a component.
"""

from kpca.preimage.auto import Auto
from kpca.preimage.back import PreimageReport, traverse
from kpca.preimage.distance import Distance
from kpca.preimage.fixed_point import FixedPoint
from kpca.preimage.gradient import Gradient
from kpca.preimage.learned import Learned, Ridge

__all__ = ["Auto", "Distance", "FixedPoint", "Gradient", "Learned", "PreimageReport", "Ridge", "traverse"]
