"""H5AD files as tables, and scores as H5AD files."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anndata as ad
import h5py
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse

from kpca import InputError, config
from kpca.data import h5ad
from kpca.data.rows import Table
from kpca.data.sinks import open_writer
from kpca.io.anndata import open_h5ad

pytestmark = pytest.mark.usefixtures("at_once")
LOOK_FIRST = h5ad.look_first  # before the fixture replaces it


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that are known to be whole, or harmlessly broken, are read without a first look, which takes a process."""
    monkeypatch.setattr(h5ad, "look_first", lambda name, columns: None)


def written(path: Path, form: str = "csr", dtype: Any = np.float32, n: int = 50, d: int = 6) -> Any:
    X = np.random.default_rng(0).poisson(1.0, size=(n, d)).astype(dtype)
    adata = ad.AnnData({"dense": lambda X: X, "csr": sparse.csr_matrix, "csc": sparse.csc_matrix}[form](X))
    adata.obs_names = [f"cell{number}" for number in range(n)]
    adata.var_names = [f"gene{number}" for number in range(d)]
    adata.obs["kind"] = pd.Categorical(np.where(np.arange(n) % 3 == 0, None, "ab"), categories=["ab", "unused"])
    adata.obs["number"] = np.arange(n)
    adata.obs["text"] = [f"t{number % 4}" for number in range(n)]
    adata.obs["maybe"] = pd.array([None, *range(1, n)], dtype="Int64")
    adata.layers["twice"] = adata.X * 2
    adata.obsm["X_pca"] = X[:, :2].astype(np.float64)
    adata.write_h5ad(path)
    return adata


def dense(X: Any) -> Any:
    return X.toarray() if sparse.issparse(X) else np.asarray(X)


@pytest.mark.parametrize("form", ["dense", "csr", "csc"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.uint8, np.bool_])
def test_rows_come_as_they_were_stored(form: str, dtype: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.h5ad"
    adata = written(path, form, dtype)
    table = open_h5ad(path)
    assert table.name == str(path) and table.n_rows == 50 and table.image_shape is None
    assert table.dtype == (np.float32 if dtype == np.float32 else np.float64) and table.sparse == (form != "dense")
    assert table.layout.numbers == tuple(adata.var_names) and table.layout.categories == ()
    whole = table.whole()
    assert whole.numbers.dtype == table.dtype and len(whole) == 50
    np.testing.assert_array_equal(dense(whole.numbers), dense(adata.X))
    np.testing.assert_array_equal(whole.ids, np.asarray(adata.obs_names, dtype=object))
    for rows in (1, 7, 50, 1000, None):
        parts = list(table.chunks(rows))
        assert [len(part) for part in parts[:-1]] == [rows] * (len(parts) - 1)
        assert [part.first for part in parts] == list(np.cumsum([0, *map(len, parts[:-1])]))
        np.testing.assert_array_equal(np.vstack([dense(part.numbers) for part in parts]), dense(adata.X))
        np.testing.assert_array_equal(np.concatenate([part.ids for part in parts]), whole.ids)
    assert table.digest() == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("form", ["dense", "csr", "csc"])
def test_columns_are_chosen_by_name(form: str, tmp_path: Path) -> None:
    path = tmp_path / "a.h5ad"
    X = dense(written(path, form).X)
    table = open_h5ad(path, columns=["gene4", "gene1"])
    assert table.layout.numbers == ("gene4", "gene1")
    np.testing.assert_array_equal(dense(table.whole().numbers), X[:, [4, 1]])
    np.testing.assert_array_equal(np.vstack([dense(part.numbers) for part in table.chunks(8)]), X[:, [4, 1]])
    left = open_h5ad(path, drop=["gene0", "gene5"])
    assert left.layout.numbers == ("gene1", "gene2", "gene3", "gene4")
    np.testing.assert_array_equal(dense(left.whole().numbers), X[:, 1:5])


def test_layers_embeddings_labels_and_ids(tmp_path: Path) -> None:
    path = tmp_path / "a.h5ad"
    adata = written(path)
    np.testing.assert_array_equal(dense(open_h5ad(path, layer="twice").whole().numbers), 2 * dense(adata.X))
    embedded = open_h5ad(path, use_rep="X_pca", label="kind", id="text")
    assert embedded.layout.numbers == ("X_pca_0", "X_pca_1") and not embedded.sparse
    assert embedded.layout.label == "kind" and embedded.layout.id == "text"
    rows = embedded.whole()
    np.testing.assert_array_equal(rows.numbers, adata.obsm["X_pca"])
    assert rows.ids.tolist() == adata.obs["text"].tolist()
    assert rows.labels.tolist()[:4] == [None, "ab", "ab", None]
    assert open_h5ad(path, label="number").whole().labels.tolist() == list(range(50))
    maybe = open_h5ad(path, label="maybe").whole().labels
    assert np.isnan(maybe[0]) and maybe[1:].tolist() == list(range(1, 50))


def test_categories_of_older_files(tmp_path: Path) -> None:
    path = tmp_path / "a.h5ad"
    written(path)
    with h5py.File(path, "r+") as file:
        del file["obs/kind"]
        file["obs/kind"] = np.array([-1, 0, 1] * 16 + [0, 1], dtype=np.int8)
        file["obs/__categories/kind"] = np.array([b"T cell", b"B cell"], dtype=object)
    assert open_h5ad(path, label="kind").whole().labels.tolist()[:3] == [None, "T cell", "B cell"]


def test_codes_without_a_category_are_damage(tmp_path: Path) -> None:
    path = tmp_path / "a.h5ad"
    written(path)
    with h5py.File(path, "r+") as file:
        del file["obs/kind"]
        file["obs/kind"] = np.full(50, 7, dtype=np.int8)
        file["obs/__categories/kind"] = np.array([b"T cell"], dtype=object)
    assert "whole H5AD" in refused(path, label="kind")


def test_it_is_a_table(tmp_path: Path) -> None:
    written(tmp_path / "a.h5ad")
    table: Table = open_h5ad(tmp_path / "a.h5ad")
    assert all(hasattr(table, name) for name in Table.__annotations__ or ["layout", "chunks", "whole", "digest"])


@pytest.mark.filterwarnings("ignore:Variable names are not unique")
def test_genes_of_the_same_name_are_told_apart(tmp_path: Path) -> None:
    adata = ad.AnnData(np.ones((3, 4), dtype=np.float32))
    adata.var_names = ["a", "a", "a-1", "a"]
    adata.write_h5ad(tmp_path / "a.h5ad")
    assert open_h5ad(tmp_path / "a.h5ad").layout.numbers == ("a", "a-2", "a-1", "a-3")


def test_missing_numbers_stay_nan(tmp_path: Path) -> None:
    ad.AnnData(np.array([[1.0, np.nan], [2.0, 3.0]])).write_h5ad(tmp_path / "a.h5ad")
    assert np.isnan(open_h5ad(tmp_path / "a.h5ad").whole().numbers[0, 1])


# -- what is refused --------------------------------------------------------------------------------------------------


def refused(path: Any, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        table = open_h5ad(path, **options)
        table.whole()
    text = str(caught.value)
    assert "\n" not in text and os.path.basename(path) in text
    return text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"columns": ["gene11"]}, "did you mean 'gene1'?"),
        ({"drop": ["nothing like it"]}, "'gene0'"),
        ({"label": "kinds"}, "did you mean 'kind'?"),
        ({"id": "xyz"}, "'number'"),
        ({"layer": "twise"}, "did you mean 'twice'?"),
        ({"use_rep": "X_umap"}, "'X_pca'"),
        ({"drop": [f"gene{number}" for number in range(6)]}, "all 6 are left out"),
    ],
)
def test_unknown_names(options: dict[str, Any], words: str, tmp_path: Path) -> None:
    written(tmp_path / "a.h5ad")
    assert words in refused(tmp_path / "a.h5ad", **options)


def _edit(change: Callable[[Any], None]) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        with h5py.File(path, "r+") as file:
            change(file)

    return damage


def _replace(key: str, value: Any) -> Callable[[Any], None]:
    def change(file: Any) -> None:
        del file[key]
        file[key] = value

    return change


def _remove(key: str) -> Callable[[Any], None]:
    return lambda file: file.__delitem__(key)


def _external(file: Any) -> None:
    del file["X"]
    file["X"] = h5py.ExternalLink("other.h5ad", "/X")


def _huge(file: Any) -> None:
    del file["X"]
    file.create_dataset("X", shape=(50, 10**12), dtype="f4", chunks=(1, 1000))


def _huge_column(file: Any) -> None:
    del file["obs/text"]
    file.create_dataset("obs/text", shape=(10**12,), dtype="i8", chunks=(1000,))


def _bad_pointers(file: Any) -> None:
    file["X/indptr"][5] = 10**6


def _bad_indices(file: Any) -> None:
    file["X/indices"][3] = 99


DAMAGE: dict[str, Callable[[Path], None]] = {
    "empty": lambda path: path.write_bytes(b""),
    "text": lambda path: path.write_text("a,b\n1,2\n") and None,
    "cut in half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]) and None,
    "cut at the end": lambda path: path.write_bytes(path.read_bytes()[:-100]) and None,
    "cut at the start": lambda path: path.write_bytes(path.read_bytes()[100:]) and None,
    "no obs": _edit(_remove("obs")),
    "no var": _edit(_remove("var")),
    "no X": _edit(_remove("X")),
    "X is a number": _edit(_replace("X", 3.0)),
    "X is a vector": _edit(_replace("X", np.ones(5))),
    "X is text": _edit(_replace("X", np.array([["a", "b"], ["c", "d"]], dtype="S1"))),
    "X has other rows": _edit(_replace("X", np.ones((3, 6)))),
    "X has other columns": _edit(_replace("X", np.ones((50, 5)))),
    "X has no rows": _edit(_replace("X", np.ones((0, 6)))),
    "X is complex": _edit(_replace("X", np.ones((50, 6), dtype=complex))),
    "X is in another file": _edit(_external),
    "X claims to be huge": _edit(_huge),
    "X lacks its entries": _edit(_remove("X/data")),
    "X lacks its shape": _edit(lambda file: file["X"].attrs.__delitem__("shape")),
    "X has wrong pointers": _edit(_bad_pointers),
    "X has wrong columns": _edit(_bad_indices),
    "X has fewer indices": _edit(_replace("X/indices", np.zeros(3, dtype=np.int32))),
    "obs is an old table": _edit(_replace("obs", np.zeros(50, dtype=[("index", "S4")]))),
    "obs has no names": _edit(_remove("obs/_index")),
    "var has no names": _edit(_remove("var/_index")),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_broken_files_get_a_sentence(damage: str, tmp_path: Path) -> None:
    path = tmp_path / "broken.h5ad"
    written(path)
    DAMAGE[damage](path)
    refused(path)


def test_a_column_that_claims_to_be_huge(tmp_path: Path) -> None:
    path = tmp_path / "a.h5ad"
    written(path)
    _edit(_huge_column)(path)
    with config(memory_limit="1GiB"):
        refused(path, label="text")


def test_files_that_are_none(tmp_path: Path) -> None:
    assert "none of that name" in refused(tmp_path / "missing.h5ad")
    assert "folder" in refused(tmp_path)
    with h5py.File(tmp_path / "other.h5ad", "w") as file:
        file["data"] = np.ones(3)
    assert "lacks obs and var" in refused(tmp_path / "other.h5ad")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission(tmp_path: Path) -> None:
    path = tmp_path / "a.h5ad"
    written(path)
    path.chmod(0)
    assert "permission" in refused(path)


# -- files that HDF5 does not come back from --------------------------------------------------------------------------


@pytest.fixture
def careful(at_once: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Look first."""
    monkeypatch.setattr(h5ad, "look_first", LOOK_FIRST)


@pytest.mark.slow
@pytest.mark.usefixtures("careful")
def test_texts_that_lead_in_a_circle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(h5ad, "PATIENCE", 3.0)
    path = tmp_path / "a.h5ad"
    written(path)
    content = bytearray(path.read_bytes())
    heap = content.index(b"GCOL") + 16  # texts follow: number, references, size and letters of each
    size = int.from_bytes(content[heap + 8 : heap + 16], "little")
    second = heap + 16 + -(-size // 8) * 8
    content[second : second + 16] = bytes(16)  # free space of no size: the next text is where this one is
    path.write_bytes(content)
    assert "does not end" in refused(path)


@pytest.mark.usefixtures("careful")
def test_whole_files_pass_the_first_look(tmp_path: Path) -> None:
    written(tmp_path / "a.h5ad")
    assert open_h5ad(tmp_path / "a.h5ad", label="kind", id="text").n_rows == 50
    (tmp_path / "text.h5ad").write_text("no HDF5")
    assert "signature" in refused(tmp_path / "text.h5ad")


@pytest.mark.usefixtures("careful")
@settings(max_examples=5, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(start=st.integers(0, 40_000), junk=st.binary(min_size=1, max_size=40))
def test_bytes_changed_anywhere_give_rows_or_a_sentence(start: int, junk: bytes, tmp_path: Path) -> None:
    good, path = tmp_path / "good.h5ad", tmp_path / "fuzzed.h5ad"
    if not good.exists():
        written(good)
    content = bytearray(good.read_bytes())
    start %= len(content)
    content[start : start + len(junk)] = junk
    path.write_bytes(content)
    with config(memory_limit="256MiB"):
        try:
            open_h5ad(path, label="kind").whole()
        except InputError as error:
            assert "\n" not in str(error)


# -- writing ----------------------------------------------------------------------------------------------------------


def test_scores_with_ids_and_labels_come_back(tmp_path: Path) -> None:
    path = tmp_path / "out.h5ad"
    scores = np.random.default_rng(0).normal(size=(70, 3))
    columns = {
        "id": np.array([f"r{number}" for number in range(70)], dtype=object),
        "label": np.array([None, *(f"c{number % 3}" for number in range(69))], dtype=object),
        "alarm": np.arange(70) % 2 == 0,
        "limit": np.linspace(0, 1, 70),
        "day": np.datetime64("2024-02-28") + np.arange(70),
    }
    with open_writer(path, ["K0", "K1", "K2"], extras=list(columns)) as writer:
        for part in (slice(0, 0), slice(0, 33), slice(33, 70)):
            writer.write(scores[part], {name: values[part] for name, values in columns.items()})
    back = ad.read_h5ad(path)
    np.testing.assert_array_equal(back.X, scores)
    assert back.var_names.tolist() == ["K0", "K1", "K2"] and back.obs_names.tolist() == columns["id"].tolist()
    assert back.obs["alarm"].tolist() == columns["alarm"].tolist()
    assert back.obs["limit"].tolist() == columns["limit"].tolist()
    assert back.obs["label"].isna().tolist() == [True] + [False] * 69
    assert back.obs["day"].astype(str).tolist()[1] == "2024-02-29"
    table = open_h5ad(path, label="label")
    assert table.whole().labels.tolist() == columns["label"].tolist()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_without_other_columns(dtype: Any, tmp_path: Path) -> None:
    with open_writer(tmp_path / "a.h5ad", ["a"], dtype=dtype) as writer:
        writer.write(np.ones((2, 1)))
    back = ad.read_h5ad(tmp_path / "a.h5ad")
    assert back.X.dtype == dtype and back.obs_names.tolist() == ["0", "1"] and back.shape == (2, 1)


def test_a_failure_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.h5ad"
    path.write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt), open_writer(path, ["a"]) as writer:
        writer.write(np.ones((2, 1)))
        raise KeyboardInterrupt
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]
    with pytest.raises(InputError, match="must come with"), open_writer(path, ["a"], extras=["id"]) as writer:
        writer.write(np.ones((2, 1)))
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


def test_what_a_file_cannot_hold_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'/'"):
        open_writer(tmp_path / "a.h5ad", ["a"], extras=["a/b"])
    with pytest.raises(InputError, match="folder"):
        open_writer(tmp_path / "none" / "a.h5ad", ["a"])
    assert not list(tmp_path.iterdir())


def test_without_h5py_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(InputError, match=r"pip install 'kpca\[anndata\]'"):
        open_h5ad(tmp_path / "a.h5ad")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="sizes of files are limited on Unix")
def test_a_write_that_fails_does_not_end_the_process(tmp_path: Path) -> None:
    code = """
import resource, sys
import numpy as np
from kpca._base.errors import InputError
from kpca.data.sinks import open_writer
resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))  # as good as a full disk
try:
    with open_writer(sys.argv[1], ["a", "b"]) as writer:
        for _ in range(20):
            writer.write(np.ones((2000, 2)))
except InputError as error:
    print("refused:", error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "x.h5ad")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("refused: ")
    assert list(tmp_path.iterdir()) == []


def test_labels_are_annotations_and_never_genes(tmp_path: Path) -> None:
    path = tmp_path / "cells.h5ad"
    written(path)
    with pytest.raises(InputError, match="has no 'gene1'"):
        open_h5ad(path, label="gene1")
    both = open_h5ad(path, label="obs_names")  # the ids are these names, too
    assert both.layout.id == both.layout.label == "obs_names"
    assert both.whole().labels.tolist() == both.whole().ids.tolist()
