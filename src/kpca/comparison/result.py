"""What a comparison found, as data and as a table of text."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from kpca._base.errors import InputError
from kpca._base.linalg import FloatArray
from kpca._base.text import text_table
from kpca.comparison.methods import find, plain
from kpca.estimators.plan import size_words

# What `best` judges by -> True if more is better.
CRITERIA = dict.fromkeys(("trustworthiness", "continuity", "distance_correlation", "rank_correlation", "knn"), True)
CRITERIA |= {"seconds": False, "peak_bytes": False}
_WIDTH = 100  # of the text below the table


@dataclass(frozen=True, eq=False)
class MethodResult:
    """What one method took and what its embedding keeps; None where there is nothing to say.

    Attributes
    ----------
    outcome : "done", "failed", "left out" or "not installed"; for all but the first `error` says why.
    seconds, peak_bytes : of `fit_transform`; memory is above what the process held before, None if not measured.
    trustworthiness : 1 if all neighbours in the embedding are neighbours among the rows (Venna and Kaski 2001).
    continuity : 1 if all neighbours among the rows are neighbours in the embedding: the two exchanged.
    distance_correlation, rank_correlation : Pearson's and Spearman's correlation of the distances of pairs of rows
        with those of the same pairs in the embedding.
    knn : per target, accuracy or R2 of k-NN predictions from the embedding, out of fold.
    places_new_rows : whether the estimator has `transform`, for rows that it was not fitted to.
    embedding : (n, k), embedding of all rows.
    notes : what was changed for these data, and what libraries warned of.
    """

    name: str
    outcome: str
    seconds: float | None = None
    peak_bytes: int | None = None
    trustworthiness: float | None = None
    continuity: float | None = None
    distance_correlation: float | None = None
    rank_correlation: float | None = None
    knn: tuple[float | None, ...] = ()
    places_new_rows: bool | None = None
    embedding: FloatArray | None = None
    error: str | None = None
    notes: tuple[str, ...] = ()

    def figure(self, criterion: str) -> float | None:
        """Return what a criterion of `Comparison.best` is judged by; of several targets the mean."""
        if criterion == "knn":
            known = [score for score in self.knn if score is not None]
            return float(np.mean(known)) if known and len(known) == len(self.knn) else None
        value: float | None = getattr(self, criterion)
        return value


@dataclass(frozen=True, eq=False)
class Comparison:
    """Rows of `kpca.compare`, one per method in the order asked for; `print` shows them as a table.

    Attributes
    ----------
    rows : one `MethodResult` per method.
    shape : (n, d) of the data.
    n_components : components asked for.
    n_neighbors : neighbours that trustworthiness and continuity look at.
    quality_rows, quality_pairs : how many rows, and pairs of them, all measures of quality are of.
    targets : (name, "accuracy" or "R2") of each target.
    notes : what was done to the rows before any method saw them.
    """

    rows: tuple[MethodResult, ...]
    shape: tuple[int, int]
    n_components: int
    n_neighbors: int
    quality_rows: int
    quality_pairs: int
    targets: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> MethodResult:
        """Return the row of a method; capitals, hyphens and spaces in its name do not matter."""
        if not isinstance(name, str):
            raise InputError(f"A method is asked for by its name; got {name!r}: use .rows for the rows by number.")
        found: MethodResult = find(name, {plain(row.name): row for row in self.rows}, "The name of a method")
        return found

    def __iter__(self) -> Iterator[MethodResult]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def best(self, criterion: str = "trustworthiness") -> MethodResult:
        """Return the row that is best by one of the criteria in `CRITERIA`, the first of equals.

        "knn" is the mean over the targets; "seconds" and "peak_bytes" are best when small.
        """
        if criterion not in CRITERIA:
            raise InputError(f"criterion must be one of {', '.join(map(repr, CRITERIA))}; got {criterion!r}.")
        judged = [(value, row) for row in self.rows if (value := row.figure(criterion)) is not None]
        if not judged:
            remedy = ": give compare a y" if criterion == "knn" and not self.targets else ""
            raise InputError(f"No method can be best by {criterion!r}, as none has a figure for it{remedy}.")
        sign = 1.0 if CRITERIA[criterion] else -1.0
        return max(judged, key=lambda pair: sign * pair[0])[1]

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return the rows as plain data, ready for JSON; without the embeddings."""
        names = [name for name, _ in self.targets]
        entries = []
        for row in self.rows:
            entry = {"n_components" if name == "embedding" else name: value for name, value in vars(row).items()}
            entry["knn"] = dict(zip(names, row.knn, strict=True)) if row.knn else {}
            entry["n_components"] = None if row.embedding is None else row.embedding.shape[1]
            entry["notes"] = list(row.notes)
            entries.append(entry)
        return entries

    def __str__(self) -> str:
        titles = ["method", "seconds", "peak memory", "trustworthiness", "continuity", "distances", "ranks"]
        titles += [f"{measure} of {name}" if name != "y" else measure for name, measure in self.targets]
        titles.append("new rows")
        cells = [[row.name, *[""] * (len(titles) - 1)] for row in self]
        for line, row in zip(cells, self.rows, strict=True):
            quality = (row.trustworthiness, row.continuity, row.distance_correlation, row.rank_correlation, *row.knn)
            if row.outcome == "done":
                line[1:] = [
                    "-"
                    if row.seconds is None
                    else f"{row.seconds:.3g}"
                    if row.seconds < 100
                    else f"{row.seconds:,.0f}",
                    "not measured" if row.peak_bytes is None else size_words(row.peak_bytes),
                    *("-" if value is None else f"{value:.3f}" for value in quality),
                    "yes" if row.places_new_rows else "no",
                ]
        header, rule, *lines = text_table(titles, cells)
        for place, row in enumerate(self.rows):
            if row.outcome != "done":
                lines[place] = f"{row.name:{len(rule.split()[0])}}  {row.error}"
        (n, d), some = self.shape, self.quality_rows
        looked_at = f"all {n:,} rows" if some == n else f"{some:,} of the {n:,} rows"
        nearest = f"{self.n_neighbors} neighbour{'s' if self.n_neighbors > 1 else ''}"
        sentences = (
            f"{n:,} rows of {d:,} features, {self.n_components} components. Trustworthiness and continuity look at "
            f"{nearest}; distances and ranks are Pearson's and Spearman's correlation of the distances of "
            f"{self.quality_pairs:,} pairs. Quality is that of {looked_at}."
        )
        lines += ["", *textwrap.wrap(sentences, _WIDTH)]
        for note in (*self.notes, *(f"{row.name}: {note}" for row in self.rows for note in row.notes)):
            lines += textwrap.wrap(note, _WIDTH, initial_indent="- ", subsequent_indent="  ")
        return "\n".join([header, rule, *lines])
