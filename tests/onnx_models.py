"""What the tests of ONNX files share: how they are run, what they are compared with, and kernels of every kind."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import onnxruntime
from kernel_table import CASES
from numpy.typing import NDArray

from kpca import kernels as k
from kpca.io.onnx import export

# name -> (kernel, whether it needs values of 0 and above): the table of kernels, and what is hard in a graph
KERNELS: dict[str, tuple[k.Kernel, bool]] = {
    **{name: (case.kernel, case.non_negative) for name, case in CASES.items() if not case.fixed_features},
    "poly, degree 7": (k.Polynomial(7, 0.05, 0.5), False),
    "poly, not whole": (k.Polynomial(1.5, 0.01, 9.0), True),
    "rbf, a gamma per feature": (k.RBF((0.05, 0.1, 0.2, 0.3, 0.4)), False),
    "rbf, wide": (k.RBF(1e-9), False),
    "rbf, narrow": (k.RBF(1e3), False),
    "exponential, wide": (k.Exponential(1e6), False),
    "matern32, wide": (k.Matern(1.5, 1e5), False),
    "matern52": (k.Matern(2.5, (1.0, 2.0, 3.0, 2.0, 1.0)), False),
    "matern52, wide": (k.Matern(2.5, 1e4), False),
    "rational_quadratic, nearly rbf": (k.RationalQuadratic(1e8, 2.0), False),
    "rational_quadratic, wide": (k.RationalQuadratic(0.7, 1e6), False),
    "scaled sum with a constant": (0.3 * (k.Matern(1.5, 2.0) + k.Constant(3.0)), False),
    "sum of wide ones": (0.7 * k.RBF(1e-9) + k.Matern(1.5, 1e4), False),
    "product of two": (k.Product((k.RBF(0.2), k.Exponential(3.0))), False),
    "scaled product": (0.3 * k.RBF(0.1) * k.Cosine(), False),
    "sum of products of counts": (k.RBF(0.2) * k.Polynomial(2, 0.1, 1.0) + k.Chi2(0.1), True),
}


def session(model: Any, dtype: Any = None) -> onnxruntime.InferenceSession:
    """Return the exported model, ready to run."""
    file = io.BytesIO()
    export(model, file, dtype=dtype)
    return onnxruntime.InferenceSession(file.getvalue(), providers=["CPUExecutionProvider"])


def scores_of(model: Any, X: NDArray[Any], dtype: Any = None) -> NDArray[Any]:
    """Return the scores that an exported model has for rows."""
    scores: NDArray[Any] = session(model, dtype).run(["scores"], {"X": X})[0]
    return scores


def truth(model: Any, X: NDArray[Any]) -> NDArray[Any]:
    """Return the scores of a fitted KernelPCA or IncrementalKernelPCA, computed in float64 whatever it was fitted in.

    float32 models round on the way, some of them (far from the origin, narrow kernels) by more than a file may.
    """
    projection = model._projecting()
    exactly = projection if hasattr(projection, "components") else projection.doubled()
    scores: NDArray[Any] = exactly(X.astype(np.float64))
    return scores


def gap(found: NDArray[Any], expected: NDArray[Any]) -> float:
    """Return the largest difference, relative to the largest score (1 if there is nothing but zeros)."""
    size = float(np.abs(expected).max(initial=0.0))
    largest = float(np.abs(found.astype(np.float64) - expected).max(initial=0.0))
    return largest / size if size > 1e-12 else largest


def rows(count: int, d: int = 5, *, seed: int = 0, positive: bool = False, spread: float = 1.0) -> NDArray[Any]:
    """Return normal rows, or their absolute values."""
    X = spread * np.random.default_rng(seed).normal(size=(count, d))
    return np.abs(X) if positive else X
