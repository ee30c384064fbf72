"""What a fitted model can say of itself in a few sentences and one table: for notebooks and model cards."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from sklearn.utils import estimator_html_repr

from kpca._base.linalg import FloatArray
from kpca.estimators.plan import FINEST_TOL


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
    return approximation_error(model) or _residuals(model)


def approximation_error(model: Any) -> str | None:
    """Return what features instead of the kernel cost; None for an exact model."""
    features = getattr(model, "feature_map_", None)
    if features is None or type(features).__name__ == "IdentityMap":
        return None
    width = spectrum_of(model).uncertainty
    if type(features).__name__ == "RandomMap":
        estimate = f"eigenvalues are estimated to be off by at most {relative(width)} eigenvalue, which is no bound"
        return f"{features.rank} random features: {estimate}"
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


# -- How a model shows itself in a notebook: scikit-learn's diagram and, once it is fitted, spectrum and certificate --

_MOST_BARS = 30
_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 460, 150, 44, 10, 24


class NotebookMixin:
    """Adds to what scikit-learn shows of an estimator; nothing where its display is set to text."""

    def _repr_html_inner(self) -> str:
        return shown(self)

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**options)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] = shown(self)
        return bundle


def shown(model: Any) -> str:
    """Return the diagram of an estimator, with what there is to say of its components below."""
    diagram: str = estimator_html_repr(model)
    fitted = vars(model).get("model_", model)  # a detector stands on a model
    if not is_shown(fitted):
        return diagram
    sentence = f"{explained(fitted)}; {certificate(fitted)}."
    return (
        f'{diagram}<figure style="margin:0.5em 0;max-width:{_WIDTH}px">{_svg(spectrum_of(fitted), whole_of(fitted))}'
        f'<figcaption style="font-size:0.85em;line-height:1.4">{escape(sentence)}</figcaption></figure>'
    )


def _svg(table: SpectrumTable, whole: str) -> str:
    """Return the shares of the components as bars, with their bounds as whiskers; no script, no style of its own."""
    count = min(len(table.values), _MOST_BARS)
    shares = np.nan_to_num(table.shares[:count])
    if not count or not shares.max() > 0:
        return ""
    bounds = np.nan_to_num(table.share_bounds[:count])
    top = float(max(shares.max(), min(bounds.max(), 2.0 * shares.max())))
    step = (_WIDTH - _LEFT) / count
    height = _HEIGHT - _TOP - _BOTTOM

    def level(share: float) -> float:
        return _TOP + height * (1.0 - min(share / top, 1.0))

    marks = []
    for j in range(count):
        left, low, high = _LEFT + (j + 0.15) * step, level(bounds[j, 0]), level(bounds[j, 1])
        middle = _LEFT + (j + 0.5) * step
        share, lower, upper = (f"{100 * value:.3g}" for value in (shares[j], *bounds[j]))
        note = f"component {j + 1}: {share} %, from {lower} to {upper} %"
        marks.append(
            f'<g><title>{escape(note)}</title><rect x="{left:.1f}" y="{level(shares[j]):.1f}" width="{0.7 * step:.1f}" '
            f'height="{_HEIGHT - _BOTTOM - level(shares[j]):.1f}" fill="#4477aa"/>'
            f'<path d="M{middle:.1f} {low:.1f}V{high:.1f}" stroke="currentColor" stroke-width="1.5"/></g>'
        )
    axis = f'<path d="M{_LEFT} {_TOP}V{_HEIGHT - _BOTTOM}H{_WIDTH}" fill="none" stroke="currentColor" opacity="0.5"/>'
    words = "".join(
        f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}">{text}</text>'
        for x, y, anchor, text in (
            (_LEFT - 4, _TOP + 10, "end", f"{100 * top:.3g} %"),
            (_LEFT - 4, _HEIGHT - _BOTTOM, "end", "0 %"),
            (_LEFT, _HEIGHT - 8, "start", "1"),
            (_WIDTH, _HEIGHT - 8, "end", str(count) if count > 1 else ""),
            (0.5 * (_LEFT + _WIDTH), _HEIGHT - 8, "middle", f"component (bars: share of the {whole}, lines: bounds)"),
        )
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="100%" role="img" '
        f'aria-label="Share of the {whole} of {count} components" font-size="11" font-family="sans-serif" '
        f'fill="currentColor">{axis}{"".join(marks)}{words}</svg>'
    )
