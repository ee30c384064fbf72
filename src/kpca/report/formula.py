"""A kernel as a formula with its numbers, and what it means in a sentence."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from kpca import kernels
from kpca.report.words import number


def formula(kernel: kernels.Kernel) -> str:
    """Return k(x, y) written out, with the parameters as numbers."""
    return f"k(x, y) = {_body(kernel)}"


def meaning(kernel: kernels.Kernel) -> str:
    """Return in a sentence what rows are alike to a kernel."""
    if isinstance(kernel, kernels.RBF) and isinstance(kernel.gamma, float):
        far = number(math.sqrt(math.log(2.0) / kernel.gamma), 3)
        return f"Two rows are fully alike (1) if they are equal, and half alike (0.5) at a distance of {far}."
    found = (text for kind, text in _MEANINGS.items() if isinstance(kernel, kind))
    return next(found, "It says how alike two rows are.")


def _body(kernel: Any) -> str:
    found = (write for kind, write in _WRITERS.items() if isinstance(kernel, kind))
    return next(found, repr)(kernel)


def _rbf(kernel: kernels.RBF) -> str:
    if isinstance(kernel.gamma, tuple):
        return f"exp(−Σ γⱼ (xⱼ − yⱼ)²), {_each('γ', kernel.gamma)}"
    return f"exp(−{_times(kernel.gamma)}‖x − y‖²)"


def _matern(kernel: kernels.Matern) -> str:
    profile = {0.5: "e^(−u)", 1.5: "(1 + u) e^(−u)"}.get(kernel.nu, "(1 + u + u²/3) e^(−u)")
    root = "" if kernel.nu == 0.5 else f"√{number(2 * kernel.nu)} "
    length = kernel.length_scale
    return f"{profile} with u = {root}‖x − y‖{_over(length)}{_scales(length)}"


def _rational(kernel: kernels.RationalQuadratic) -> str:
    alpha, length = number(kernel.alpha), kernel.length_scale
    if isinstance(length, tuple):
        return f"(1 + ‖(x − y) / ℓ‖² / (2 · {alpha}))^(−{alpha}){_scales(length)}"
    return f"(1 + ‖x − y‖² / (2 · {alpha} · {number(length)}²))^(−{alpha})"


def _called(kernel: kernels.VectorisedCallable | kernels.PairwiseCallable) -> str:
    function = kernel.function
    return f"{getattr(function, '__name__', None) or type(function).__name__}(x, y), a function of its own"


def _times(factor: float) -> str:
    return "" if factor == 1 else f"{number(factor)} "


def _plus(shift: float) -> str:
    return "" if shift == 0 else f" + {number(shift)}" if shift > 0 else f" − {number(-shift)}"


def _over(length: Any) -> str:
    return " / ℓ" if isinstance(length, tuple) else "" if length == 1 else f" / {number(length)}"


def _scales(length: Any) -> str:
    return f", {_each('ℓ', length)}" if isinstance(length, tuple) else ""


def _each(letter: str, values: tuple[float, ...]) -> str:
    low, high = float(np.min(values)), float(np.max(values))
    return f"one {letter} for each of the {len(values):,} columns, from {number(low)} to {number(high)}"


_DISTANCE = "Two rows are fully alike (1) if they are equal, and the less alike the farther apart they are."
_COUNTS = "It compares counts or histograms, column by column."
_MEANINGS: dict[type, str] = {
    kernels.Linear: "This is the inner product: it makes kernel PCA ordinary PCA, and components straight directions.",
    kernels.RadialKernel: _DISTANCE,
    kernels.Laplacian: _DISTANCE,
    kernels.Cosine: "Two rows are alike if their columns have the same proportions, whatever their size.",
    kernels.Polynomial: "Products of several columns count, so that components see how columns act together.",
    kernels.Sigmoid: "It follows the inner product up to a ceiling; it is not a true similarity for all data.",
    kernels.Chi2: _COUNTS,
    kernels.AdditiveChi2: _COUNTS,
    kernels.HistogramIntersection: _COUNTS,
}
_WRITERS: dict[type, Callable[[Any], str]] = {
    kernels.Linear: lambda _: "x · y",
    kernels.Cosine: lambda _: "x · y / (‖x‖ ‖y‖)",
    kernels.Polynomial: lambda k: f"({_times(k.gamma)}x · y{_plus(k.coef0)})^{number(k.degree)}",
    kernels.Sigmoid: lambda k: f"tanh({_times(k.gamma)}x · y{_plus(k.coef0)})",
    kernels.RBF: _rbf,
    kernels.Exponential: lambda k: f"exp(−‖x − y‖{_over(k.length_scale)}){_scales(k.length_scale)}",
    kernels.Matern: _matern,
    kernels.RationalQuadratic: _rational,
    kernels.Laplacian: lambda k: f"exp(−{_times(k.gamma)}Σ |xⱼ − yⱼ|)",
    kernels.Chi2: lambda k: f"exp(−{_times(k.gamma)}Σ (xⱼ − yⱼ)² / (xⱼ + yⱼ))",
    kernels.AdditiveChi2: lambda _: "−Σ (xⱼ − yⱼ)² / (xⱼ + yⱼ)",
    kernels.HistogramIntersection: lambda _: "Σ min(xⱼ, yⱼ)",
    kernels.Constant: lambda k: number(k.constant),
    kernels.Sum: lambda k: " + ".join(_body(member) for member in k.members),
    kernels.Product: lambda k: " · ".join(f"[{_body(member)}]" for member in k.members),
    kernels.Scaled: lambda k: f"{number(k.factor)} · [{_body(k.kernel)}]",
    kernels.VectorisedCallable: _called,
    kernels.PairwiseCallable: _called,
}
