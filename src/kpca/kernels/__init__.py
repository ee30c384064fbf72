"""What "similar" means: the kernels, the algebra on them, and how a name or a bandwidth becomes one."""

from kpca.kernels.base import Composite, Constant, Kernel, Product, ProfileKernel, Scaled, Sum
from kpca.kernels.callables import PairwiseCallable, VectorisedCallable, from_callable
from kpca.kernels.dot import ArcCosine, Cosine, DotKernel, Linear, Polynomial, Sigmoid
from kpca.kernels.gaussian_process import GaussianProcess, from_gaussian_process
from kpca.kernels.radial import RBF, Exponential, Matern, RadialKernel, RationalQuadratic
from kpca.kernels.resolve import named, resolve, resolve_gamma
from kpca.kernels.sums import AdditiveChi2, Chi2, HistogramIntersection, Laplacian

NAMES: tuple[str, ...] = tuple(named())

__all__ = [
    "NAMES",
    "RBF",
    "AdditiveChi2",
    "ArcCosine",
    "Chi2",
    "Composite",
    "Constant",
    "Cosine",
    "DotKernel",
    "Exponential",
    "GaussianProcess",
    "HistogramIntersection",
    "Kernel",
    "Laplacian",
    "Linear",
    "Matern",
    "PairwiseCallable",
    "Polynomial",
    "Product",
    "ProfileKernel",
    "RadialKernel",
    "RationalQuadratic",
    "Scaled",
    "Sigmoid",
    "Sum",
    "VectorisedCallable",
    "from_callable",
    "from_gaussian_process",
    "resolve",
    "resolve_gamma",
]
