"""What a fitted model can say of itself in a few sentences and one table: for notebooks and model cards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca.planning.rules import FINEST_TOL

FloatArray = NDArray[Any]


@dataclass(frozen=True)
class SpectrumTable:
    """Eigenvalues, their bounds and their shares of the variance."""

    values: FloatArray  # shape: (k,)
    bounds: FloatArray  # shape: (k, 2)
    shares: FloatArray  # NaN where the total is not known, shape: (k,)

    @property
    def share_bounds(self) -> FloatArray:
        """Bounds of the shares.  # shape: (k, 2)"""
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = np.where(self.values > 0, self.shares / self.values, 0.0)
        bounds: FloatArray = np.clip(self.bounds * factor[:, None], 0.0, 1.0)
        return bounds

    @property
    def uncertainty(self) -> float:
        """The widest of the bounds over the largest eigenvalue; 0 where there is no variance."""
        largest = float(self.values.max(initial=0.0))
        return float(np.diff(self.bounds, axis=1).max(initial=0.0)) / largest if largest > 0 else 0.0


def is_shown(model: Any) -> bool:
    """Return True for a fitted KernelPCA or IncrementalKernelPCA whose components are there, or soon found."""
    if "_stream" in vars(model):
        return model._stream.fitted is not None
    return "eigenvalues_" in vars(model)


def spectrum_of(model: Any) -> SpectrumTable:
    """Return the spectrum of a fitted KernelPCA or IncrementalKernelPCA."""
    parts = (model.eigenvalues_, model.eigenvalue_bounds_, model.explained_variance_ratio_)
    return SpectrumTable(*(np.asarray(part, dtype=np.float64) for part in parts))


def rows_of(model: Any) -> int:
    """Return the number of rows of the fit."""
    return int(model._stream.scatter.rows) if "_stream" in vars(model) else len(model.eigenvectors_)


def explained(model: Any) -> str:
    """Return how much the components explain, of how much."""
    table = spectrum_of(model)
    count, total = len(table.values), float(table.shares.sum())
    noun = "component" if count == 1 else "components"
    verb = "explains" if count == 1 else "explain"
    share = f" {verb} {_percent(total)} of the {whole_of(model)}" if np.isfinite(total) else ""
    return f"{count} {noun} of {rows_of(model):,} rows{share}"


def whole_of(model: Any) -> str:
    """Return what shares are shares of: without centring that is no variance."""
    return "variance" if getattr(model, "center", True) else "second moment"


def certificate(model: Any) -> str:
    """Return how far the eigenvalues can be trusted, and why."""
    if "_stream" in vars(model) or hasattr(model, "feature_map_"):
        return approximation_error(model) or _residuals(model)
    return _residuals(model)


def approximation_error(model: Any) -> str | None:
    """Return what features instead of the kernel cost; None for an exact model."""
    features = getattr(model, "feature_map_", None)
    if features is None or type(features).__name__ == "IdentityMap":
        return None
    width = spectrum_of(model).uncertainty
    if type(features).__name__ == "RandomMap":
        return (
            f"{features.rank} random features: eigenvalues are estimated to be off by at most {relative(width)} "
            "eigenvalue, which is no bound"
        )
    kind = "bounded" if features.exact else "estimated"
    return f"{features.rank} landmarks: what they leave out is {kind} by {relative(width)} eigenvalue"


def _residuals(model: Any) -> str:
    if not hasattr(model, "residuals_"):
        return f"bounds on the eigenvalues are at most {relative(spectrum_of(model).uncertainty)} wide"
    largest = float(np.max(model.residuals_, initial=0.0))
    asked = float(model.tol) or FINEST_TOL[model.eigenvalues_.dtype]
    reached = f"{asked:.0e} was asked for" if largest <= asked else f"{asked:.0e} was asked for and not reached"
    passes = f"{model.n_passes_} pass{'' if model.n_passes_ == 1 else 'es'}"
    return (
        f"residuals are at most {largest:.1e} of the largest eigenvalue ({reached}), by the {model.solver_} solver in "
        f"{passes}; guaranteed bounds on the eigenvalues are at most {relative(spectrum_of(model).uncertainty)} wide"
    )


def relative(share: float) -> str:
    """Return a multiple of the largest eigenvalue in words."""
    if share > 1.5:
        return f"{share:.3g} times the largest"
    return f"{share:.1e} of the largest" if share < 1e-3 else f"{_percent(share)} of the largest"


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"
