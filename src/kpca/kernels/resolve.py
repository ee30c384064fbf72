"""From what the user says about the kernel (a name, a function, an object) to a kernel."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca.errors import InputError
from kpca.kernels._checks import Matrix
from kpca.kernels.arc_cosine import ArcCosine
from kpca.kernels.base import Kernel
from kpca.kernels.blocks import AdditiveChi2, Chi2, HistogramIntersection, Laplacian
from kpca.kernels.callables import from_callable
from kpca.kernels.dot import Cosine, Linear, Polynomial, Sigmoid
from kpca.kernels.gaussian_process import from_gaussian_process, is_gaussian_process
from kpca.kernels.radial import RBF, Exponential, Matern, RationalQuadratic

_Builder = Callable[[float, float, float], Kernel]


def _length(gamma: float) -> float:
    """Return the length scale of a Gaussian with this gamma, 1 / sqrt(2 gamma)."""
    return float(np.sqrt(0.5 / gamma))


# name -> kernel of (gamma, degree, coef0)
_BUILDERS: dict[str, _Builder] = {
    "linear": lambda gamma, degree, coef0: Linear(),
    "poly": lambda gamma, degree, coef0: Polynomial(degree, gamma, coef0),
    "polynomial": lambda gamma, degree, coef0: Polynomial(degree, gamma, coef0),
    "rbf": lambda gamma, degree, coef0: RBF(gamma),
    "sigmoid": lambda gamma, degree, coef0: Sigmoid(gamma, coef0),
    "cosine": lambda gamma, degree, coef0: Cosine(),
    "laplacian": lambda gamma, degree, coef0: Laplacian(gamma),
    "exponential": lambda gamma, degree, coef0: Exponential(_length(gamma)),
    "matern12": lambda gamma, degree, coef0: Matern(0.5, _length(gamma)),
    "matern32": lambda gamma, degree, coef0: Matern(1.5, _length(gamma)),
    "matern52": lambda gamma, degree, coef0: Matern(2.5, _length(gamma)),
    "rational_quadratic": lambda gamma, degree, coef0: RationalQuadratic(1.0, _length(gamma)),
    "chi2": lambda gamma, degree, coef0: Chi2(gamma),
    "additive_chi2": lambda gamma, degree, coef0: AdditiveChi2(),
    "histogram_intersection": lambda gamma, degree, coef0: HistogramIntersection(),
    "arc_cosine0": lambda gamma, degree, coef0: ArcCosine(0),
    "arc_cosine1": lambda gamma, degree, coef0: ArcCosine(1),
}

NAMES: tuple[str, ...] = tuple(_BUILDERS)


def resolve(
    kernel: object,
    X: Matrix,
    *,
    gamma: float | NDArray[np.float64],
    degree: float = 3,
    coef0: float = 1,
    kernel_params: Mapping[str, Any] | None = None,
) -> Kernel:
    """Return the kernel that is meant; gamma, degree and coef0 go to named ones, kernel_params to functions.

    A kernel object keeps its own parameters. `gamma` is what `resolve_gamma` returned.
    """
    if isinstance(kernel, Kernel):
        return kernel
    if isinstance(kernel, str):
        return _by_name(kernel, gamma, degree, coef0)
    if isinstance(kernel, type) and issubclass(kernel, Kernel):
        raise InputError(
            f"kernel must be a kernel object; got the class {kernel.__name__}: call it with its parameters."
        )
    if is_gaussian_process(kernel):
        return from_gaussian_process(kernel)
    if callable(kernel):
        return from_callable(kernel, kernel_params, X)
    raise InputError(f"kernel must be a name, a kernel object or a function; got {kernel!r}: try kernel='rbf'.")


def _by_name(name: str, gamma: float | NDArray[np.float64], degree: float, coef0: float) -> Kernel:
    if name not in _BUILDERS:
        close = difflib.get_close_matches(name.lower(), NAMES, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise InputError(f"kernel must be one of {', '.join(map(repr, NAMES))}; got {name!r}.{hint}")
    if np.ndim(gamma) and name != "rbf":
        raise InputError(
            f"gamma must be a single number for kernel={name!r}; got {len(np.atleast_1d(gamma))} values: "
            "use one number, or kernel='rbf', which takes one per feature."
        )
    # RBF stores a sequence as a tuple; the others have just been given a number.
    return _BUILDERS[name](gamma, degree, coef0)  # type: ignore[arg-type]
