"""The same kernel with other bandwidths: what "too small" and "too large" are measured against."""

from __future__ import annotations

import math

from kpca.kernels.base import Kernel
from kpca.kernels.blocks import Chi2, Laplacian
from kpca.kernels.composite import Composite, Product, Scaled, Sum
from kpca.kernels.radial import RBF, Exponential, Matern, RationalQuadratic

# Decimal exponents of a parameter beyond which its square, and so a distance, could not be written.
_DECADES = 300


def has_bandwidth(kernel: Kernel) -> bool:
    """Return True if distances enter a kernel, or a member of it, over a bandwidth."""
    if isinstance(kernel, Composite):
        return any(has_bandwidth(member) for member in kernel.members)
    return isinstance(kernel, RBF | Exponential | Matern | RationalQuadratic | Laplacian | Chi2)


def widened(kernel: Kernel, factor: float) -> Kernel | None:
    """Return the kernel whose distances are divided by a factor; None if it has no bandwidth, or no number for it.

    Of a sum or product every member that has a bandwidth is widened. The distance of `Chi2` is that of additive chi2.
    """
    wider: Kernel | None = None
    if not _possible(kernel, factor):
        return wider
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


def _possible(kernel: Kernel, factor: float) -> bool:
    """Return False if the parameter would leave the range of numbers."""
    power = 2 if isinstance(kernel, RBF) else 1
    value = getattr(kernel, "gamma", getattr(kernel, "length_scale", 1.0))
    sizes = [math.log10(item) for item in (value if isinstance(value, tuple) else (value,))]
    return all(abs(size) + power * abs(math.log10(factor)) < _DECADES for size in sizes)


def _times(value: float | tuple[float, ...], factor: float) -> float | tuple[float, ...]:
    return tuple(item * factor for item in value) if isinstance(value, tuple) else value * factor
