"""What a plan says, as data and in words."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

_TITLES = {
    "dense": "the whole kernel matrix, solved by LAPACK",
    "krylov": "block Krylov on tiles of the kernel matrix",
    "primal": "the covariance of the features, solved whole",
    "dual": "the products of the rows, solved whole",
    "primal-krylov": "block Krylov on the covariance of the features",
    "dual-krylov": "block Krylov on the products of the rows",
    "features": "explicit features",
}


@dataclass(frozen=True)
class Plan:
    """Which way a fit goes and why, with what it is expected to take."""

    route: str  # "dense", "krylov", "primal", "dual", "primal-krylov", "dual-krylov" or "features"
    reason: str
    n: int
    d: int
    k: int  # components that will be looked for
    k_known: bool  # False for a fraction of the variance and for "auto": k is then an estimate
    block: int  # columns of the first pass, 0 where there are none
    basis: int  # vectors of the basis before a restart, 0 where there are none
    pass_precision: str  # "float32" or "float64": what most of the work is done in
    refresh: bool  # float64 products put float32 ones right in the end
    tile_rows: int  # rows and columns of a tile, 0 where there are none
    tiles: int
    tiles_kept: int  # that are computed only once
    passes: float  # expected
    passes_range: tuple[int, int]
    memory_bytes: int  # expected peak above what the process holds before
    memory_bound: int  # what it stays below, without tiles that are kept
    memory_limit: int
    seconds: float  # expected
    threads: int
    rank: int | None = None  # of explicit features

    @property
    def precision(self) -> str:
        """The precision of the work in words."""
        if self.refresh:
            return f"{self.pass_precision} passes, float64 refresh"
        return f"{self.pass_precision} throughout, sums in float64" if self.pass_precision == "float32" else "float64"

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as plain data, ready for JSON."""
        return asdict(self) | {"precision": self.precision, "passes_range": list(self.passes_range)}

    def __str__(self) -> str:
        about = "" if self.k_known else "about "
        lines = [
            f"Route: {self.route}, {_TITLES[self.route]}.",
            f"Why: {self.reason}.",
            f"Size: {about}{self.k:,} components of {self.n:,} rows and {self.d:,} columns, on "
            f"{_count(self.threads, 'thread')}.",
            f"Precision: {self.precision}.",
        ]
        if self.rank is not None:
            lines.append(f"Features: {self.rank:,} numbers stand for each row.")
        if self.tiles:
            lines.append(
                f"Tiles: {self.tiles:,} of {self.tile_rows:,} rows, {self.tiles_kept:,} of them kept; blocks of "
                f"{self.block} columns, a basis of {self.basis:,}."
            )
        if self.block:
            low, high = self.passes_range
            lines.append(f"Passes: about {self.passes:.0f}, between {low} and {high} depending on the data.")
        lines.append(f"Memory: about {size_words(self.memory_bytes)} of the {size_words(self.memory_limit)} allowed.")
        lines.append(f"Time: about {time_words(self.seconds)}.")
        return "\n".join(lines)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def size_words(size: float) -> str:
    """Return bytes in a unit that reads well."""
    for unit, name in ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB")):
        if size >= 0.995 * unit:
            return f"{_three_digits(size / unit)} {name}"
    return f"{_three_digits(size / 2**10)} KiB"


def time_words(seconds: float) -> str:
    """Return seconds in a unit that reads well."""
    if seconds < 0.9995:
        return f"{_two_digits(1000 * seconds)} ms"
    if seconds < 120:
        return f"{_two_digits(seconds)} s"
    if seconds < 7200:
        return f"{_two_digits(seconds / 60)} minutes"
    return f"{_two_digits(seconds / 3600)} hours"


def _two_digits(value: float) -> str:
    return f"{value:.1f}" if value < 9.95 else f"{round(value, 1 - int(math.log10(value))):,.0f}"


def _three_digits(value: float) -> str:
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 99.95 else f"{value:,.0f}"
