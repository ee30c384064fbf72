"""What "similar" means: the kernels, the algebra on them, and how a name or a bandwidth becomes one."""

from kpca.kernels.base import Composite, Constant, Kernel, Product, ProfileKernel, Scaled, Sum
from kpca.kernels.callables import PairwiseCallable, VectorisedCallable, from_callable
from kpca.kernels.dot import ArcCosine, Cosine, DotKernel, Linear, Polynomial, Sigmoid
from kpca.kernels.gaussian_process import GaussianProcess, from_gaussian_process
from kpca.kernels.radial import RBF, Exponential, Matern, RadialKernel, RationalQuadratic
from kpca.kernels.resolve import named, resolve, resolve_gamma
from kpca.kernels.sums import AdditiveChi2, Chi2, HistogramIntersection, Laplacian

NAMES: tuple[str, ...] = tuple(named())

__all__ = ["NAMES", "Composite", "Constant", "Kernel", "Product", "ProfileKernel", "Scaled", "Sum"]
__all__ += ["ArcCosine", "Cosine", "DotKernel", "Linear", "Polynomial", "Sigmoid"]
__all__ += ["RBF", "Exponential", "Matern", "RadialKernel", "RationalQuadratic"]
__all__ += ["AdditiveChi2", "Chi2", "HistogramIntersection", "Laplacian"]
__all__ += ["GaussianProcess", "PairwiseCallable", "VectorisedCallable", "from_callable", "from_gaussian_process"]
__all__ += ["resolve", "resolve_gamma"]
