"""How many rows are worked on at a time, by what there may be of memory."""

from __future__ import annotations

from kpca.gram.slopes import rows_per_tile
from kpca.settings import memory_limit

# Bytes for each kernel value of a tile: all the arrays of its size that a method holds at once.
_BYTES = 64
# Of a limit that is set, the share that tiles may take; the rest is for the rows themselves.
_SHARE = 0.5


def tile_rows(n: int, threads: int) -> int:
    """Return the rows of a tile against n known rows: a matter of n alone, or of a limit that was set."""
    rows, limit = rows_per_tile(n), memory_limit()
    if limit is None:
        return rows
    return max(1, min(rows, int(_SHARE * limit) // (max(threads, 1) * max(n, 1) * _BYTES)))
