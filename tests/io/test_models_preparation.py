"""Pipelines that begin with a preparation: what the command line saves."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.pipeline import Pipeline

from kpca import InputError, KernelPCA, KernelPCADetector
from kpca.data.rows import Layout, Rows
from kpca.io import table_of, write_anomalies
from kpca.io.card import model_card
from kpca.io.models import load, read_about, save

preparation = pytest.importorskip("kpca.data.preparation")

RNG = np.random.default_rng(0)
N = 40
HOLES = np.where(RNG.random((N, 2)) < 0.1, np.nan, RNG.normal(size=(N, 2)))
WORDS = np.array([f"{('red', 'green', 'blue')[i % 3]} apple n{i % 7} is here" for i in range(N)], dtype=object)
LETTERS = np.array([("u", "v", None)[i % 3] for i in range(N)], dtype=object)
TABLES: dict[str, tuple[dict[str, Any], Any]] = {
    "numbers": ({"scale": "standard"}, Rows(Layout(("a", "b")), RNG.normal(size=(N, 2)))),
    "holes": ({"impute": "median", "scale": "robust"}, Rows(Layout(("a", "b")), HOLES)),
    "means": ({"impute": "mean", "scale": "minmax"}, Rows(Layout(("a", "b\n|")), HOLES)),
    "dropped": ({"impute": "drop"}, Rows(Layout(("a", "b")), HOLES)),
    "single": ({}, Rows(Layout(("a", "b")), RNG.normal(size=(N, 2)).astype(np.float32))),
    "sparse": ({"scale": "minmax"}, Rows(Layout(("a", "b")), sparse.csr_array(np.maximum(RNG.normal(size=(N, 2)), 0)))),
    "categories": (
        {"encode": "onehot", "scale": "standard"},
        Rows(Layout(("a", "b"), ("c",)), RNG.normal(size=(N, 2)), {"c": LETTERS}),
    ),
    "words": (
        {"encode": "onehot"},
        Rows(Layout(("a", "b"), ("c",), "t", "i"), RNG.normal(size=(N, 2)), {"c": LETTERS}, WORDS, np.arange(N)),
    ),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_prepared_model_travels(name: str, tmp_path: Path) -> None:
    options, rows = TABLES[name]
    path = tmp_path / "m.kpca"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        steps = [("prepare", preparation.Preparation(**options)), ("model", KernelPCA(2, kernel="rbf"))]
        model = Pipeline(steps).fit(rows)
        save(model, path, about={"seed": 0})
        loaded = load(path)
        assert loaded.transform(rows).tobytes() == model.transform(rows).tobytes()
        assert loaded[0].describe() == model[0].describe()
        assert loaded[0].get_feature_names_out().tolist() == model[0].get_feature_names_out().tolist()
        assert "Steps: Preparation" in model_card(loaded)
    assert read_about(path).steps == ("Preparation", "KernelPCA")
    first = path.read_bytes()
    save(loaded, path, about={"seed": 0})
    assert path.read_bytes() == first


def test_an_unfitted_preparation_travels(tmp_path: Path) -> None:
    model = preparation.Preparation(impute="mean", scale="robust")
    save(model, tmp_path / "m.kpca")
    assert repr(load(tmp_path / "m.kpca")) == repr(model)


@pytest.mark.parametrize("causes", [0, 2, 5])
def test_rows_are_judged_with_as_many_causes_as_asked_for(causes: int, tmp_path: Path) -> None:
    rows = np.vstack([RNG.normal(size=(N, 2)), [[30.0, 0.1]]])
    steps = [("prepare", preparation.Preparation()), ("model", KernelPCADetector(n_components=1))]
    model = Pipeline(steps).fit(Rows(Layout(("x0", "x1")), rows[:-1]))
    found = write_anomalies(model, table_of(rows), tmp_path / "alarms.csv", causes=causes)
    assert found.alarms[-1] and found.top[0]["row"] == N
    assert found.top[0]["causes"] == ["x0", "x1"][:causes]
    header, *lines = (tmp_path / "alarms.csv").read_text().splitlines()
    assert header.count("cause") == causes and len(lines) == N + 1
    with pytest.raises(InputError, match="causes must be a whole number from 0; got -1"):
        write_anomalies(model, table_of(rows), causes=-1)
