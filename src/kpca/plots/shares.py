"""What each variable contributes to an alarm: signed bars, the largest first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kpca.errors import InputError
from kpca.plots._axes import (
    BAR,
    COLOURS,
    INK,
    SMALL,
    FloatArray,
    factored,
    headline,
    how_many,
    leave_room,
    names_of,
    numbers_of,
    panels_for,
    short,
    tidy,
)

if TYPE_CHECKING:
    from kpca.plots._axes import Axes, Figure

_DOWN, _REST = COLOURS[1], "#BDBDBD"
_SEEN = 0.01  # of the change of the score: a gap above it has a bar of its own
_WORDS = {"t2": "T²", "spe": "SPE", "combined": "combined statistic"}


def contributions(found: Any, *, row: int | None = None, n: int = 15, ax: Any = None) -> Figure:
    """Return the largest contributions of the variables to a statistic, as bars to the right (up) and left (down).

    The variables that have no bar are summed up in "others", and what the contributions together miss of the change,
    if that can be seen, in "not attributed": all bars together are the score less that of the baseline.

    Parameters
    ----------
    found : the contributions of rows: an object with `names`, `values` (m, d), `score` (m,), `baseline_score` (a number
        or one per row), `statistic` and `method`, as `KernelPCADetector.contributions` returns it.
    row : the row to show, counted from 0; None is the mean over all rows.
    n : bars for variables, at most.
    ax : axes to draw into; None is a new figure.
    """
    values: Any = getattr(found, "values", None)
    if np.ndim(values) != 2:
        raise InputError(f"contributions must be an array of rows by variables; got {values!r}.")
    count, width = np.shape(values)
    names = names_of(found.names, width)
    if row is not None and not (type(row) is not bool and isinstance(row, int | np.integer) and 0 <= row < count):
        raise InputError(f"row must be a number from 0 to {count - 1}, or None for their mean; got {row!r}.")
    rows = slice(None) if row is None else slice(row, row + 1)
    mean = numbers_of("contributions", np.asarray(values)[rows], 2).mean(axis=0)  # shape: (d,)
    reached = float(np.broadcast_to(found.score, (count,))[rows].mean())
    start = float(np.broadcast_to(found.baseline_score, (count,))[rows].mean())
    kept = _largest(mean, how_many(n))
    labels, bars = [names[j] for j in kept], [float(mean[j]) for j in kept]
    left_over = width - len(kept)
    if left_over:
        labels.append(f"others ({left_over})")
        bars.append(float(mean.sum() - mean[kept].sum()))
    gap = reached - start - float(mean.sum())
    if abs(gap) > _SEEN * max(abs(reached - start), _SEEN * float(np.abs(mean).max())):
        labels.append("not attributed")
        bars.append(gap)
    figure, (axes,) = panels_for(ax, 1, 7.0, 1.5 + 0.26 * len(bars))
    name = _WORDS.get(str(found.statistic), str(found.statistic))
    who = f"Mean of {count:,} rows" if count > 1 and row is None else f"Row {row or 0}"
    meaning = f"contribution to the {name}, by {_method(str(found.method))}\nfrom {_baseline(found)}"
    lengths, meaning = factored(np.array(bars), meaning)
    axes.set_xlabel(meaning)
    signed_bars(axes, labels, lengths, len(kept))
    headline(axes, f"{who}: {name} {short(reached)}, baseline {short(start)}", fontweight="bold")
    return figure


def _largest(values: FloatArray, n: int) -> list[int]:
    """Return the numbers of the n largest values in absolute terms; one more if it would be the only other."""
    order = np.argsort(-np.abs(values), kind="stable")
    return [int(j) for j in order[: n if n + 1 < len(values) else len(values)]]


def _method(method: str) -> str:
    return {"integrated": "integrated gradients", "gradient": "gradient × difference"}.get(method, method)


def _baseline(found: Any) -> str:
    return str(getattr(found, "baseline_name", "the baseline"))


def signed_bars(axes: Axes, labels: list[str], bars: FloatArray, variables: int) -> None:
    """Draw bars from zero, the first at the top, each with its number; hatching marks the negative ones too."""
    places = np.arange(len(bars))
    colours = [(BAR if bar >= 0.0 else _DOWN) if i < variables else _REST for i, bar in enumerate(bars)]
    drawn = axes.barh(places, bars, height=0.72, color=colours, edgecolor="white", linewidth=0.0)
    for patch, bar in zip(drawn, bars, strict=True):
        if bar < 0.0:
            patch.set_hatch("////")
        gap = 4 if bar >= 0.0 else -4
        axes.annotate(
            short(float(bar), sign=True),
            (float(bar), patch.get_y() + patch.get_height() / 2),
            xytext=(gap, 0),
            textcoords="offset points",
            ha="left" if bar >= 0.0 else "right",
            va="center",
            fontsize=SMALL,
            color=INK,
            in_layout=False,  # there will be room for it
        )
    axes.axvline(0.0, color=INK, linewidth=0.9)
    axes.set_yticks(places, labels)
    axes.set_ylim(len(bars) - 0.4, -0.6)
    axes.locator_params(axis="x", nbins=6)
    tidy(axes, grid="x")
    leave_room(axes, bars)
