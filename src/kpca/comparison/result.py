"""What an embedding keeps of the rows, as it is measured, and what a comparison found, as data and as text."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.spatial.distance import pdist, squareform
from scipy.stats import rankdata
from sklearn.manifold import trustworthiness
from sklearn.metrics import accuracy_score, r2_score
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

from kpca._base.errors import InputError, Setting
from kpca._base.linalg import FloatArray
from kpca._base.text import text_table
from kpca._base.validation import check_mask
from kpca.comparison.methods import find, plain
from kpca.estimators.plan import size_words
from kpca.selection.rows import name_classes, plain_labels

# What `best` judges by -> True if more is better.
CRITERIA = dict.fromkeys(("trustworthiness", "continuity", "distance_correlation", "rank_correlation", "knn"), True)
CRITERIA |= {"seconds": False, "peak_bytes": False}
KINDS = ("auto", "classes", "numbers")
# Whole numbers pass for classes where there are so few of them, or five rows for each: one per fold.
_FEW = 10
_FOLDS = 5
_PAIRS = 200_000  # whose distances are correlated: their chance error is some 0.002
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


@dataclass(frozen=True)
class TargetColumn:
    """One column of y: numbers as float64, classes as 0, 1, 2, ..."""

    name: str
    values: NDArray[Any]  # shape: (n,)
    classes: bool

    @property
    def measure(self) -> str:
        """What predictions of it are judged by."""
        return "accuracy" if self.classes else "R2"


def check_targets(y: Any, n: int, kind: str) -> tuple[TargetColumn, ...]:
    """Return the columns of y, none for None."""
    if kind not in KINDS:
        raise InputError(f"target_kind must be one of {', '.join(map(repr, KINDS))}; got {kind!r}.")
    if y is None:
        return ()
    check_mask(y, "y", "an entry per row")
    columns = _columns(y)
    for name, values in columns:
        if values.shape != (n,):
            raise InputError(f"y must have one entry (or one row) per row of X, {n} in all; {name} has {len(values)}.")
    return tuple(_target(name, values, kind) for name, values in columns)


def _columns(y: Any) -> list[tuple[str, NDArray[Any]]]:
    if hasattr(y, "columns") and hasattr(y, "to_numpy"):  # a frame: columns of different types, with names
        return [(str(name), np.asarray(y[name].to_numpy())) for name in y.columns]
    name = getattr(y, "name", None)
    values = np.asarray(y.to_numpy() if hasattr(y, "to_numpy") else y)
    if values.ndim == 1:
        return [(name if isinstance(name, str) and name else "y", values)]
    if values.ndim != 2 or not values.shape[1]:
        raise InputError(f"y must have one entry per row, or one column per target; got shape {values.shape}.")
    if values.shape[1] == 1:
        return [("y", values[:, 0])]
    return [(f"y{column}", values[:, column]) for column in range(values.shape[1])]


def _target(name: str, values: NDArray[Any], kind: str) -> TargetColumn:
    labels = plain_labels(values) if values.dtype.kind == "O" else values
    if labels is None or (labels.dtype.kind == "f" and not np.isfinite(labels).all()):
        gaps = f" holds {'None or NaN' if labels is None else 'NaN or infinity'}"
        raise InputError(("must have no gaps; ", Setting(name), gaps), param="y", remedy="leave such rows out")
    values = labels
    if values.dtype.kind == "c":
        raise InputError(f"y must hold real numbers or classes; {name} is complex: take its size, or its parts.")
    if kind == "numbers" and values.dtype.kind not in "iufb":
        raise InputError(f"target_kind='numbers' needs numbers; {name} is of type {values.dtype}.")
    fractions = values.dtype.kind in "iuf" and not (values == np.round(values)).all()
    many = values.dtype.kind in "iuf" and not name_classes(values, min(_FEW, len(values) / 2))
    if kind == "numbers" or (kind == "auto" and (fractions or many)):
        return TargetColumn(name, values.astype(np.float64), classes=False)
    return TargetColumn(name, np.unique(values, return_inverse=True)[1].astype(np.intp), classes=True)


class Yardstick:
    """Some rows, their distances and their targets, against which each embedding is held."""

    def __init__(self, X: Any, targets: tuple[TargetColumn, ...], n_neighbors: int, most_rows: int, seed: int) -> None:
        n, rng = X.shape[0], np.random.default_rng(seed)
        self.rows = np.sort(rng.choice(n, most_rows, replace=False)) if n > most_rows else np.arange(n)
        m = len(self.rows)
        # scikit-learn's limit: of more neighbours than half the rows the worst case is no longer known
        self.n_neighbors = min(n_neighbors, (m - 1) // 2)
        self._wanted, self._seed = n_neighbors, seed
        self._X = _normalised(X[self.rows])
        self._distances = _distances(self._X)  # shape: (m, m)
        # pairs of different rows whose distances are correlated: all, or always the same ones of many
        first = rng.integers(0, m, _PAIRS)
        some = (first, (first + rng.integers(1, m, _PAIRS)) % m)
        self.pairs = np.triu_indices(m, k=1) if m * (m - 1) // 2 <= _PAIRS else some
        self._targets = [TargetColumn(t.name, t.values[self.rows], t.classes) for t in targets]

    def __call__(self, embedding: FloatArray) -> tuple[dict[str, Any], list[str]]:
        """Return the figures of an embedding of all rows, as `MethodResult` names them, and why some cannot be had."""
        E = _normalised(embedding[self.rows])
        predicted = [(target, *self._predicted(E, target)) for target in self._targets]
        knn = tuple(score for _, score, _ in predicted)
        notes = [f"no {target.measure} of {target.name}: {why}" for target, _, why in predicted if why]
        distances = _distances(E)
        if not distances.any():
            return {"knn": knn}, ["all rows are at the same place", *notes]
        truth, found = self._distances[self.pairs], distances[self.pairs]
        neighbours = {"n_neighbors": self.n_neighbors, "metric": "precomputed"}
        figures = {
            "trustworthiness": float(trustworthiness(self._distances, E, **neighbours)),
            "continuity": float(trustworthiness(distances, self._X, **neighbours)),
            "distance_correlation": _correlation(truth, found),
            "rank_correlation": _correlation(rankdata(truth), rankdata(found)),
            "knn": knn,
        }
        return figures, notes

    def _predicted(self, E: FloatArray, target: TargetColumn) -> tuple[float | None, str]:
        """Return how well neighbours in the embedding foretell a target: out-of-fold predictions, judged together."""
        y, m = target.values, len(E)
        counts = np.bincount(y) if target.classes else np.array([m])
        folds = int(min(_FOLDS, m, counts.max()))
        if len(np.unique(y)) < 2:
            return None, "it has one value only"
        if folds < 2:
            return None, "no class has two rows"
        k = min(self._wanted, m - math.ceil(m / folds))
        model: Any = KNeighborsClassifier(k) if target.classes else KNeighborsRegressor(k)
        splitter = StratifiedKFold if target.classes else KFold
        found = cross_val_predict(model, E, y, cv=splitter(folds, shuffle=True, random_state=self._seed % 2**32))
        return float(accuracy_score(y, found) if target.classes else r2_score(y, found)), ""


def _normalised(X: Any) -> Any:
    """Return rows in float64, about their mean and of size 1: no measure depends on these, but the rounding does."""
    X = X.astype(np.float64)
    largest = float(abs(X).max()) or 1.0
    X = X / largest  # before the mean, which may be a sum of huge numbers
    if sparse.issparse(X):
        return X
    X -= X.mean(axis=0)
    return X / (float(np.abs(X).max()) or 1.0)


def _distances(X: Any) -> FloatArray:
    """Return all distances, of dense rows from their differences.  # shape: (m, m)"""
    if not sparse.issparse(X):
        return np.asarray(squareform(pdist(X), checks=False))
    found: FloatArray = euclidean_distances(X)
    np.fill_diagonal(found, 0.0)
    return found


def _correlation(a: FloatArray, b: FloatArray) -> float | None:
    """Return Pearson's correlation; sums by NumPy, whose bits do not depend on threads as those of BLAS do."""
    a, b = a - a.mean(), b - b.mean()
    size = math.sqrt(float(np.sum(a * a)) * float(np.sum(b * b)))
    return float(np.clip(np.sum(a * b) / size, -1.0, 1.0)) if size > 0 else None
