"""The same kernel with other bandwidths: what "too small" and "too large" are measured against."""

from __future__ import annotations

from kpca.kernels.base import Kernel
from kpca.kernels.blocks import Chi2, Laplacian
from kpca.kernels.composite import Composite, Product, Scaled, Sum
from kpca.kernels.radial import RBF, Exponential, Matern, RationalQuadratic


def widened(kernel: Kernel, factor: float) -> Kernel | None:
    """Return the kernel whose distances are divided by a factor; None if it has no bandwidth.

    Of a sum or product every member that has a bandwidth is widened. The distance of `Chi2` is that of additive chi2.
    """
    wider: Kernel | None = None
    match kernel:
        case RBF(gamma=gamma):
            wider = RBF(gamma=_times(gamma, 1.0 / factor**2))
        case Exponential(length_scale=length):
            wider = Exponential(_times(length, factor))
        case Matern(nu=nu, length_scale=length):
            wider = Matern(nu, _times(length, factor))
        case RationalQuadratic(alpha=alpha, length_scale=length):
            wider = RationalQuadratic(alpha, _times(length, factor))
        case Laplacian(gamma=gamma):
            wider = Laplacian(gamma / factor)
        case Chi2(gamma=gamma):
            wider = Chi2(gamma / factor)
        case Composite():
            wider = _composite(kernel, factor)
    return wider


def _composite(kernel: Composite, factor: float) -> Kernel | None:
    members = [widened(member, factor) for member in kernel.members]
    if not any(members):
        return None
    changed = tuple(new or old for new, old in zip(members, kernel.members, strict=True))
    if isinstance(kernel, Scaled):
        return Scaled(changed[0], kernel.factor)
    return Sum(changed) if isinstance(kernel, Sum) else Product(changed)


def _times(value: float | tuple[float, ...], factor: float) -> float | tuple[float, ...]:
    return tuple(item * factor for item in value) if isinstance(value, tuple) else value * factor
