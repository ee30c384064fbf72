"""What an embedding keeps of the rows: neighbours, distances, and what is known of them, be it classes or numbers."""

from __future__ import annotations

import math
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
from kpca.selection.rows import name_classes, plain_labels

KINDS = ("auto", "classes", "numbers")
# Whole numbers pass for classes where there are so few of them, or five rows for each: one per fold.
_FEW = 10
_FOLDS = 5
_PAIRS = 200_000  # whose distances are correlated: their chance error is some 0.002


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
    plain = plain_labels(values) if values.dtype.kind == "O" else values
    if plain is None or (plain.dtype.kind == "f" and not np.isfinite(plain).all()):
        gaps = f" holds {'None or NaN' if plain is None else 'NaN or infinity'}"
        raise InputError(("must have no gaps; ", Setting(name), gaps), param="y", remedy="leave such rows out")
    values = plain
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
