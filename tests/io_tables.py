"""Tables for the tests of preparation, and the obvious way to prepare them: a ColumnTransformer on a data frame."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, RobustScaler, StandardScaler

from kpca.data.rows import Layout, Rows
from kpca.data.survey import MemoryTable

SCALERS = {
    "none": "passthrough",
    "standard": StandardScaler(),
    "robust": RobustScaler(),
    "minmax": MinMaxScaler(),
}
COLOURS = np.array(["red", "blue", "rosé", None], dtype=object)
CITIES = np.array(["Bern", "Ulm", "Bonn"], dtype=object)


def mixed_rows(n: int = 300, *, dtype: Any = np.float64, holes: bool = True, seed: int = 0) -> Rows:
    """Rows with 4 numbers (one constant), 2 categories, ids and labels."""
    random = np.random.default_rng(seed)
    numbers = random.normal(size=(n, 4)) * [1.0, 20.0, 0.1, 0.0] + [0.0, 500.0, -3.0, 7.0]
    if holes:
        numbers[random.random((n, 4)) < 0.08] = np.nan
    categories = {
        "colour": COLOURS[random.integers(0, 4 if holes else 3, n)],
        "home town": CITIES[random.integers(0, 3, n)],
    }
    layout = Layout(("a", "b b", "c", "d"), tuple(categories), id="key", label="class")
    ids = np.array([f"r{row}" for row in range(n)], dtype=object)
    return Rows(layout, numbers.astype(dtype), categories, ids=ids, labels=random.integers(0, 3, n))


def numeric_rows(X: Any, **more: Any) -> Rows:
    """Rows of numbers alone."""
    if not sparse.issparse(X):
        X = np.asarray(X)
    return Rows(Layout(tuple(f"x{column}" for column in range(X.shape[1]))), X, **more)


def text_rows(documents: list[str | None]) -> Rows:
    """Rows of documents alone."""
    held = np.empty(len(documents), dtype=object)
    held[:] = documents
    return Rows(Layout((), text="review"), np.zeros((len(documents), 0)), documents=held)


def category_rows(values: list[Any], name: str = "kind") -> Rows:
    """Rows of one category alone."""
    held = np.empty(len(values), dtype=object)
    held[:] = values
    return Rows(Layout((), (name,)), np.zeros((len(values), 0)), {name: held})


def frame_of(rows: Rows) -> pd.DataFrame:
    """The same as a data frame."""
    frame = pd.DataFrame(rows.numbers, columns=list(rows.layout.numbers))
    for name, values in rows.categories.items():
        frame[name] = pd.Series(values, dtype=object)
    return frame


def truth(rows: Rows, impute: str | None, scale: str) -> Any:
    """What scikit-learn makes of the rows, in one go."""
    frame = frame_of(rows)
    if impute == "drop":
        frame = frame[frame.notna().all(axis=1)]
    imputer = SimpleImputer(strategy=impute) if impute in ("median", "mean") else "passthrough"
    steps = [("numbers", make_pipeline(imputer, SCALERS[scale]), list(rows.layout.numbers))]
    if rows.layout.categories:
        steps.append(("texts", OneHotEncoder(sparse_output=False), list(rows.layout.categories)))
    return ColumnTransformer(steps).fit_transform(frame)


class ShortChunks(MemoryTable):
    """A table that counts its passes and gives shorter chunks than asked for by default."""

    def __init__(self, rows: Rows, most: int = 17, **more: Any) -> None:
        super().__init__(rows, **more)
        self.most, self.passes, self.longest = most, 0, 0

    def chunks(self, rows: int | None = None) -> Any:
        self.passes += 1
        for chunk in super().chunks(min(rows or self.most, self.most)):
            self.longest = max(self.longest, len(chunk))
            yield chunk
