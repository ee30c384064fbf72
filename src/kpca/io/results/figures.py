"""Figures of explanations and comparisons as tables."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca.io.tables import open_writer

FloatArray = NDArray[Any]
_FIGURES = ("seconds", "peak_bytes", "trustworthiness", "continuity", "distance_correlation", "rank_correlation")


def importance_table(found: Any) -> tuple[list[str], FloatArray]:
    """Return the titles and the figures of what `kpca.explain.importance` found, a row per column of the data."""
    titles = ["overall", *(f"component {int(number) + 1}" for number in found.components)]
    return titles, np.column_stack([found.values, found.by_component.T])


def write_importance(found: Any, path: Any) -> None:
    """Write what `kpca.explain.importance` or `permutation_importance` found, a row per column of the data."""
    titles, table = importance_table(found)
    with open_writer(path, titles, extras=["column"]) as writer:
        writer.write(table, {"column": np.array(found.names, dtype=object)})


def write_comparison(found: Any, path: Any) -> None:
    """Write the figures of `kpca.compare`, a row per method; NaN where there is none."""
    entries = found.to_dicts()
    targets = [name for name, _ in found.targets]
    numbers = [
        [*(entry[name] for name in _FIGURES), *(entry["knn"].get(name) for name in targets)] for entry in entries
    ]
    texts = {name: np.array([entry[name] for entry in entries], dtype=object) for name in ("name", "outcome")}
    with open_writer(path, [*_FIGURES, *(f"knn {name}" for name in targets)], extras=list(texts)) as writer:
        writer.write(np.array(numbers, dtype=np.float64), texts)  # None becomes NaN
