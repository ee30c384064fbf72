"""How a model shows itself in a notebook: scikit-learn's diagram and, once it is fitted, spectrum and certificate."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np
from sklearn.utils import estimator_html_repr

from kpca.facts import SpectrumTable, certificate, explained, is_shown, spectrum_of, whole_of

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
        note = (
            f"component {j + 1}: {100 * shares[j]:.3g} %, from {100 * bounds[j, 0]:.3g} to {100 * bounds[j, 1]:.3g} %"
        )
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
