"""Preparation of files, frames and arrays, as `kpca.data.opening` opens them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from io_tables import frame_of, mixed_rows, truth
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.utils.estimator_checks import parametrize_with_checks

import kpca
from kpca import InputError, KernelPCA
from kpca.data.opening import open_table
from kpca.data.preparation import Preparation
from kpca.data.rows import stacked
from kpca.data.sources import Source, as_source

pytest.importorskip("pyarrow")
polars = pytest.importorskip("polars")

ROWS = mixed_rows(400)
FRAME = frame_of(ROWS).assign(key=ROWS.ids, group=ROWS.labels)
SETTINGS: dict[str, Any] = {"encode": "onehot", "impute": "median", "scale": "robust"}


def opened(kind: str, folder: Path, frame: pd.DataFrame = FRAME) -> Any:
    path = folder / f"rows.{kind}"
    if kind.startswith("csv"):
        frame.to_csv(path, index=False)
    elif kind == "tsv":
        frame.to_csv(path, index=False, sep="\t")
    elif kind == "parquet":
        frame.to_parquet(path)
    else:
        frame.to_feather(path)
    return open_table(path, id="key", label="group", encode="onehot")


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "tsv", "parquet", "feather"])
def test_files_become_what_scikit_learn_makes_of_them(kind: str, tmp_path: Path) -> None:
    table = opened(kind, tmp_path)
    preparation = Preparation(**SETTINGS).fit(table)
    X = preparation.transform(table)
    assert_allclose(X, truth(ROWS, "median", "robust"), rtol=1e-9, atol=1e-9)
    with kpca.config(memory_limit=1000):
        source = preparation.transform(table)
    assert isinstance(source, Source)
    assert_array_equal(stacked(list(source.chunks(37))), X)
    assert_array_equal(source.rows([300, 2]), X[[300, 2]])
    model = KernelPCA(3, kernel="rbf", gamma=0.1, approximation="nystroem").fit(source)
    same = KernelPCA(3, kernel="rbf", gamma=0.1, approximation="nystroem").fit(as_source(np.array(X)))
    assert_array_equal(model.eigenvalues_, same.eigenvalues_)
    kept = preparation.prepare(next(iter(table.chunks(10))))
    assert list(kept.ids) == list(ROWS.ids[:10]) and list(kept.labels) == list(ROWS.labels[:10])


def test_another_file_in_another_order(tmp_path: Path) -> None:
    preparation = Preparation(**SETTINGS).fit(opened("csv", tmp_path))
    expected = preparation.transform(opened("csv", tmp_path))
    other = FRAME[list(reversed(FRAME.columns))].assign(extra=1.5, note="x")
    (tmp_path / "new").mkdir()
    assert_array_equal(preparation.transform(opened("parquet", tmp_path / "new", other)), expected)
    without = other.drop(columns=["key", "group"])
    without.to_csv(tmp_path / "bare.csv", index=False)
    assert_array_equal(preparation.transform(open_table(tmp_path / "bare.csv", encode="onehot")), expected)
    with pytest.raises(InputError, match=r"bare\.csv.* lacks 'colour'"):
        without.drop(columns="colour").to_csv(tmp_path / "bare.csv", index=False)
        preparation.transform(open_table(tmp_path / "bare.csv", encode="onehot"))


def test_categories_that_look_like_numbers(tmp_path: Path) -> None:
    """In the new file all of them do: they are texts all the same, as they are written."""
    (tmp_path / "old.csv").write_text("x,code,z\n1,007,u\n2,7,v\n3,1.50,u\n4,K,v\n")
    (tmp_path / "new.csv").write_text("z,code,x\nv,7,1\nu,007,2\nu,1.50,3\nu,,4\n")
    preparation = Preparation(encode="onehot").fit(open_table(tmp_path / "old.csv", encode="onehot"))
    assert list(preparation.get_feature_names_out()[1:5]) == ["code=007", "code=1.50", "code=7", "code=K"]
    new = open_table(tmp_path / "new.csv", encode="onehot")
    assert new.layout.numbers == ("code", "x")
    with pytest.warns(UserWarning, match="'code' holds a missing value"):
        found = preparation.transform(new)
    expected = [[1, 0, 0, 1, 0, 0, 1], [2, 1, 0, 0, 0, 1, 0], [3, 0, 1, 0, 0, 1, 0], [4, 0, 0, 0, 0, 1, 0]]
    assert_array_equal(found, expected)
    frame = pd.DataFrame({"x": [1.0, 2.0], "code": [7, 8], "z": ["u", "v"]})
    frame.to_parquet(tmp_path / "new.parquet")
    with pytest.warns(UserWarning, match="'code' holds '8'"):
        found = preparation.transform(open_table(tmp_path / "new.parquet"))
    assert_array_equal(found[:, 3], [1, 0])


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames(library: str) -> None:
    frame = FRAME.drop(columns=["key", "group"])
    given = frame if library == "pandas" else polars.from_pandas(frame)
    preparation = Preparation(**SETTINGS)
    assert_allclose(preparation.fit_transform(given), truth(ROWS, "median", "robust"), rtol=1e-9, atol=1e-9)
    assert list(preparation.feature_names_in_) == ["a", "b b", "c", "d", "colour", "home town"]
    out = Preparation(**SETTINGS).set_output(transform="pandas").fit_transform(frame)
    assert list(out.columns) == list(preparation.get_feature_names_out())


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_arrays_and_npy(dtype: Any, tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(50, 3)).astype(dtype)
    np.save(tmp_path / "x.npy", X)
    preparation = Preparation(scale="standard").fit(X)
    found = preparation.transform(open_table(tmp_path / "x.npy"))
    assert found.dtype == dtype
    assert_array_equal(found, preparation.transform(X))
    assert_allclose(found.mean(axis=0), 0, atol=1e-6)


def test_a_folder_of_images(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    for number in range(5):
        image.fromarray(np.full((3, 4), number, np.uint8)).save(tmp_path / f"{number}.png")
    table = open_table(tmp_path)
    assert table.image_shape == (3, 4) and Preparation(scale="minmax").fit_transform(table).shape == (5, 12)


# Arrays are refused in the words of the readers of files, which have other words than scikit-learn.
WORDS = "says the same in other words"
EXPECTED = {
    "check_complex_data": WORDS,
    "check_estimators_empty_data_messages": WORDS,
    "check_fit2d_predict1d": WORDS,
    "check_dtype_object": WORDS,
}


@parametrize_with_checks(
    [Preparation(), Preparation(impute="median", scale="standard")], expected_failed_checks=lambda _: EXPECTED
)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)
