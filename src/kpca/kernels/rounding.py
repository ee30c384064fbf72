"""What rounding may do to a whole matrix of float64 kernel values: docs/mathematics.md, section 4, "Errors".

Errors are bounds, on the safe side: a Frobenius norm |S E S|_F for the errors E of the entries and weights w = s^2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from kpca.kernels.arrays import FloatArray

UNIT = 0.5 * float(np.finfo(np.float64).eps)
# A profile f is right to so many roundings of its value.
PROFILE = 8.0 * UNIT
# Roundings of a prepared row, of the numbers that prepare it, and of what is done with a sum after it is formed.
_AROUND = 6.0
# A sum of m terms of one size and sign may be wrong by the largest rounding of it this share of m times, all of one
# sign; more than some hundred terms BLAS adds up in parts.
_DRIFT, _ROOTS = 0.25, 4.0
# The square of a norm may be off by so much of itself: float32 passes find it, too.
_SQUARES = 1e-6
# Of (a + b)^4 and (a + b)^8.
_POWERS = np.arange(9)
_CHOICES = [np.array([math.comb(power, k) for k in range(power + 1)], dtype=np.float64) for power in (4, 8)]


@dataclass(frozen=True)
class Lengths:
    """Prepared rows by their squared lengths, and how wrong the numbers t may be that are computed of them.

    |dt| is at most `error` times |x| |y|, of distances (|x| + |y|)^2; of pairs at less than `near`, which are computed
    from differences of their rows, it is at most `error` |t|.
    """

    squares: FloatArray  # shape: (n,)
    error: float
    near: float = 0.0  # in units of t
    steepness: float = math.inf  # |f'| / f of the other pairs, where it was measured

    def times(self, factor: float) -> Lengths:
        """Return those of t times a factor."""
        return replace(self, squares=self.squares * factor, near=self.near * factor)


def around(terms: int) -> float:
    """Return the error of a number that a sum of so many terms makes, as a share of what enters it."""
    return UNIT * (_AROUND + min(_DRIFT * terms, _ROOTS * math.sqrt(terms)))


def beside_diagonal(norm: float, weights: FloatArray) -> float:
    """Return the norm of the entries beside the diagonal, which is 1 and no entry more; a bound of it for any norm."""
    mass = float(weights.sum())
    if norm >= mass:
        return mass
    return math.sqrt(max(norm**2 - float(weights @ weights), 0.0) + _SQUARES * norm**2)


def pair_norms(weights: FloatArray, squares: FloatArray) -> tuple[float, float]:
    """Return (sum of w_i w_j S_ij^2)^(1/2) and (sum of w_i w_j S_ij^4)^(1/4) for S_ij = (|x_i| + |x_j|)^2."""
    largest = float(squares.max(initial=0.0))
    if not largest > 0:
        return 0.0, 0.0
    moments = weights @ np.sqrt(squares / largest)[:, None] ** _POWERS
    square, fourth = (float(c @ (moments[: len(c)] * moments[len(c) - 1 :: -1])) for c in _CHOICES)
    return largest * math.sqrt(square), largest * math.sqrt(math.sqrt(fourth))


def times_logarithm(norm: float, mass: float) -> float:
    """Return the most that the norm of v log v may be, for values v from 0 to 1 of this norm.

    Relative errors of the exponent of e^-s do that. As a function of v^2 its square is concave up to the largest value,
    1/e^2, and then it is largest where all v are alike (Jensen).
    """
    share = norm / mass if mass > 0 else 0.0
    return norm * math.log(1.0 / share) if 0.0 < share < math.exp(-1) else mass * math.exp(-1) if share > 0 else 0.0
