"""How many rows and components n_components="auto" looks at: sizes that decide, and so are the same everywhere."""

from __future__ import annotations

# Rows by which the number of components is decided, and the most components that are looked at.
DECIDED_BY_ROWS, MOST_DECIDED = 600, 50
# Numbers of these rows in all; but never fewer rows than this.
_NUMBERS, _FEWEST_ROWS = 5_000_000, 200


def deciding_rows(n: int, d: int) -> int:
    """Return how many of n rows of d columns the number of components is decided by."""
    return min(n, DECIDED_BY_ROWS, max(_FEWEST_ROWS, _NUMBERS // max(d, 1)))


def fits_dense(m: int, d: int) -> bool:
    """Return True if m sparse rows may be made dense."""
    return m * d <= _NUMBERS
