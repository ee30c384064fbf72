"""Which variable is to blame for how much of a statistic: gradients integrated along the line from a baseline.

With D = x - b, the contribution of variable j is D_j times the integral over s in [0, 1] of ds/dx_j at b + s D. By the
fundamental theorem the contributions of a row add up to s(x) - s(b) (Sundararajan, Taly and Yan 2017), and that is how
they are checked: the statistic is known at both ends of any piece of the line. A piece over which the integral and
the difference do not agree is halved, until they do; narrow features of far rows and kinks of a kernel are found
that way, whatever the other rows are. What remains is reported as the gap of the row and never spread over variables.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import quad_vec

from kpca._base.errors import InputError
from kpca.detector.limits import Surface

FloatArray = NDArray[Any]
METHODS = ("integrated", "gradient")
TOLERANCE = 1e-6  # of a gap, relative to the larger of both values

_PIECE_TOLERANCE = 1e-9  # a piece is done when its gap is below this: a thousand pieces still keep the tolerance
# Intervals of one integration. Few: a piece that needs more is halved alone, and its neighbours do not pay for it.
_INTERVALS = 4
_RULE = "gk15"
# Pieces that share the nodes of an integration, and rows that are worked on at a time. Fixed, so that bits repeat.
_PIECES_AT_ONCE = 128
_ROWS_AT_ONCE = 512
# Halving ends when so many pieces of one row fail at once, or when the two ends of a piece are the same row: then it is
# rounding. From the largest row that there is to the smallest it takes no more than this.
_HALVINGS = 2100
_FAILING_PIECES = 128


class Attribution(NamedTuple):
    """Contributions of columns to a statistic."""

    values: FloatArray  # shape: (m, d)
    score: FloatArray  # the statistic of the rows; shape: (m,)
    baseline_score: FloatArray  # and of their baselines; shape: (m,)
    gap: FloatArray  # sum of the contributions less the difference of the statistics; shape: (m,)
    relative_gap: FloatArray  # its size over the larger of both statistics, 0 where it is rounding; shape: (m,)


def attribute(surface: Surface, rows: FloatArray, baseline: FloatArray, method: str = "integrated") -> Attribution:
    """Return the contribution of each column to the statistic of each row.

    Parameters
    ----------
    rows : (m, d), dense.
    baseline : (d,), (1, d) or (m, d).
    method : "integrated", which adds up to the difference of the statistics and warns of rows where it does not to
        1e-6 of the larger one, or "gradient", the gradient at the row times the difference: one evaluation, no sum.
    """
    if method not in METHODS:
        raise InputError(f"method must be 'integrated' or 'gradient'; got {method!r}.")
    rows = np.asarray(rows, dtype=np.float64)
    baseline = np.atleast_2d(np.asarray(baseline, dtype=np.float64))
    if baseline.shape not in {(1, rows.shape[1]), rows.shape}:
        raise InputError(f"A baseline for rows of shape {rows.shape} must be one row or as many; got {baseline.shape}.")
    with np.errstate(over="ignore", invalid="ignore"):  # a row may be that far out: its gap is NaN, and warned of
        score = surface.values(rows)
        baseline_score = np.broadcast_to(surface.values(baseline), score.shape).copy()
        whole = np.broadcast_to(baseline, rows.shape)
        resolution = np.maximum(surface.resolution(rows), surface.resolution(baseline))
        if method == "gradient":
            values = surface.gradients(rows) * (rows - whole)
        else:
            values = np.empty(rows.shape)
            for start in range(0, len(rows), _ROWS_AT_ONCE):
                part = slice(start, start + _ROWS_AT_ONCE)
                ends = (baseline_score[part], score[part])
                values[part] = _integral(surface, rows[part], whole[part], ends, resolution[part])
            resolution *= _FAILING_PIECES  # as many pieces as fail at once may each be off by rounding
        gap = values.sum(axis=1) - (score - baseline_score)
        relative, known = np.zeros(len(gap)), ~(np.abs(gap) <= resolution)
        np.divide(np.abs(gap), _scale(score, baseline_score), out=relative, where=known)
    many = int(np.count_nonzero(~(relative <= TOLERANCE)))
    if many and method == "integrated":
        largest = np.nan_to_num(relative, nan=np.inf, posinf=np.inf).max()
        said = f"The contributions of {many} of {len(gap)} rows do not add up to the difference of the statistics: "
        said += f"the largest gap is {largest:.1e} of the statistic, see `gap`."
        warnings.warn(said, stacklevel=4)  # who asked a detector for contributions
    return Attribution(values, score, baseline_score, gap, relative)


class _Pieces(NamedTuple):
    """Pieces of lines; all of shape (p,)."""

    row: NDArray[np.intp]
    start: FloatArray  # where on the line, 0 is the baseline and 1 the row
    stop: FloatArray
    first: FloatArray  # the statistic at both ends
    last: FloatArray

    def only(self, some: Any) -> _Pieces:
        return _Pieces(*(array[some] for array in self))


def _integral(
    surface: Surface, rows: FloatArray, baseline: FloatArray, ends: Any, resolution: FloatArray
) -> FloatArray:
    """Return the contributions along lines from baselines to rows, piece by piece.  # shape: (m, d)

    The `ends` are the statistics of baselines and rows.
    """
    D = rows - baseline  # shape: (m, d)
    scale = np.maximum(_scale(*ends), resolution / _PIECE_TOLERANCE)
    total, moving = np.zeros(D.shape), np.count_nonzero(D, axis=1)
    # One column alone has all of the difference, exactly, and needs no path.
    alone = moving == 1
    total[alone] = np.where(D[alone] != 0, (ends[1] - ends[0])[alone, None], 0.0)
    known = np.isfinite(ends).all(axis=0)
    total[~known] = np.nan  # the statistic overflows: there is nothing to split

    def at(row: NDArray[np.intp], places: FloatArray) -> FloatArray:
        return np.asarray(baseline[row] + places[:, None] * D[row])

    row = np.flatnonzero((moving > 1) & known)
    pieces = _Pieces(row, np.zeros(len(row)), np.ones(len(row)), *(end[row] for end in ends))
    for halving in range(_HALVINGS + 1):
        if not len(pieces.row):
            break
        tiles = (slice(start, start + _PIECES_AT_ONCE) for start in range(0, len(pieces.row), _PIECES_AT_ONCE))
        parts = np.concatenate([_tile(surface, D, baseline, scale, pieces.only(tile)) for tile in tiles])
        gaps = np.abs(parts.sum(axis=1) - (pieces.last - pieces.first))
        fails = ~(gaps <= _PIECE_TOLERANCE * scale[pieces.row])
        fails &= np.bincount(pieces.row[fails], minlength=len(total))[pieces.row] <= _FAILING_PIECES
        middle = 0.5 * (pieces.start + pieces.stop)
        # a piece is halved if its two ends differ, and there is something between them
        fails &= (pieces.start < middle) & (middle < pieces.stop) & (halving < _HALVINGS)
        some = pieces.only(fails)
        fails[fails] = (at(some.row, some.start) != at(some.row, some.stop)).any(axis=1)
        np.add.at(total, pieces.row[~fails], parts[~fails])
        pieces, middle = pieces.only(fails), middle[fails]
        if len(middle):
            value = surface.values(at(pieces.row, middle))
            halves = ((pieces.start, middle), (middle, pieces.stop), (pieces.first, value), (value, pieces.last))
            pieces = _Pieces(np.repeat(pieces.row, 2), *(np.column_stack(both).ravel() for both in halves))
    return total


def _tile(
    surface: Surface, directions: FloatArray, baselines: FloatArray, scales: FloatArray, pieces: _Pieces
) -> FloatArray:
    """Return the integral over each piece of some lines, all of them at the same nodes.  # shape: (p, d)"""
    row, lengths = pieces.row, (pieces.stop - pieces.start)[:, None]
    D, baseline, scale = directions[row], baselines[row], scales[row][:, None]

    def integrand(u: float) -> FloatArray:
        Z = D * (pieces.start[:, None] + u * lengths)
        Z += baseline
        parts: FloatArray = surface.gradients(Z)
        parts *= D
        parts *= lengths / scale  # so that one tolerance fits all rows
        return parts

    def worst_row(parts: FloatArray) -> float:  # so that no row hides behind the others
        return float(np.abs(parts).sum(axis=1).max())

    with np.errstate(over="ignore", invalid="ignore"):
        limits = {"epsabs": _PIECE_TOLERANCE, "epsrel": 0.0, "limit": _INTERVALS}
        parts, _ = quad_vec(integrand, 0.0, 1.0, norm=worst_row, quadrature=_RULE, **limits)
    if len(row) > 1 and not np.isfinite(parts).all():
        # one row that overflows must not end the integration of the others
        halves = (pieces.only(slice(len(row) // 2)), pieces.only(slice(len(row) // 2, None)))
        return np.concatenate([_tile(surface, directions, baselines, scales, half) for half in halves])
    return np.asarray(parts * scale)


def _scale(score: FloatArray, baseline_score: FloatArray) -> FloatArray:
    return np.asarray(np.maximum(np.maximum(np.abs(score), np.abs(baseline_score)), np.finfo(np.float64).tiny))
