"""The same rows in every format: read in chunks as at once, with ids and labels, to the bit."""

import hashlib
import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import narwhals
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet
import pytest
import zarr
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

import kpca
from kpca import InputError
from kpca.data.opening import open_table, table_of
from kpca.data.rows import Table

N, NAMES = 103, ("a", "b", "c")
RNG = np.random.default_rng(1)
X = RNG.normal(size=(N, 3))
X[5, 1] = np.nan
IDS = np.array([f"r{i}" for i in range(N)], dtype=object)
LABELS = RNG.integers(0, 3, N)
FRAME = pd.DataFrame(X, columns=list(NAMES)).assign(who=IDS, kind=LABELS)


def csv_file(folder: Path) -> Path:
    FRAME.to_csv(folder / "x.csv", index=False)
    return folder / "x.csv"


def tsv_gz(folder: Path) -> Path:
    FRAME.to_csv(folder / "x.tsv.gz", index=False, sep="\t")
    return folder / "x.tsv.gz"


def npz(folder: Path) -> Path:
    np.savez(folder / "x.npz", X=X, names=np.array(NAMES), who=IDS.astype(str), kind=LABELS)
    return folder / "x.npz"


def fortran_npz(folder: Path) -> Path:
    rows = np.asfortranarray(X)
    np.savez_compressed(folder / "x.npz", X=rows, columns=np.array(NAMES), who=IDS.astype("S8"), kind=LABELS)
    return folder / "x.npz"


def parquet(folder: Path) -> Path:
    pa.parquet.write_table(pa.Table.from_pandas(FRAME), folder / "x.parquet", row_group_size=40)
    return folder / "x.parquet"


def parquet_folder(folder: Path) -> Path:
    (folder / "x").mkdir()
    for number, start in enumerate(range(0, N, 50)):
        FRAME[start : start + 50].to_parquet(folder / "x" / f"{number}.parquet", index=False)
    return folder / "x"


def feather(folder: Path) -> Path:
    pa.feather.write_feather(FRAME, folder / "x.feather", chunksize=30)
    return folder / "x.feather"


def arrow_stream(folder: Path) -> Path:
    table = pa.Table.from_pandas(FRAME)
    with pa.ipc.new_stream(folder / "x.arrow", table.schema) as writer:
        writer.write_table(table, max_chunksize=30)
    return folder / "x.arrow"


@pytest.mark.filterwarnings("ignore")
def zarr_group(folder: Path) -> Path:
    group = zarr.open_group(folder / "x.zarr", mode="w", attributes={"names": list(NAMES)})
    group.create_array("X", data=X, chunks=(20, 2))
    group.create_array("kind", data=LABELS)
    group.create_array("who", data=IDS.astype(str))
    return folder / "x.zarr"


FILES: dict[str, Callable[[Path], Path]] = {
    found.__name__: found
    for found in (csv_file, tsv_gz, npz, fortran_npz, parquet, parquet_folder, feather, arrow_stream, zarr_group)
}


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore:.*Zarr V3 specification.*")
@pytest.mark.parametrize("kind", FILES)
def test_every_format_gives_the_same_rows(kind: str, tmp_path: Path) -> None:
    path = FILES[kind](tmp_path)
    table = open_table(path, id="who", label="kind")
    assert (table.name, table.n_rows, table.dtype, table.sparse) == (str(path), N, np.float64, False)
    assert (table.layout.numbers, table.layout.id, table.layout.label) == (NAMES, "who", "kind")
    for rows in (1, 7, 40, 1000, None):
        pieces = list(table.chunks(rows))
        assert [piece.first for piece in pieces] == list(range(0, N, rows or N))
        assert_array_equal(np.concatenate([piece.numbers for piece in pieces]), X)
        assert all(piece.numbers.flags.c_contiguous and piece.numbers.dtype == np.float64 for piece in pieces)
        ids = np.concatenate([piece.ids for piece in pieces])  # type: ignore[list-item]
        labels = np.concatenate([piece.labels for piece in pieces])  # type: ignore[list-item]
        assert ids.dtype == object and ids.tolist() == IDS.tolist()
        assert labels.dtype == np.int64 and labels.tolist() == LABELS.tolist()
    assert_array_equal(table.whole().numbers, X)
    assert_array_equal(open_table(path, columns=["c", "a"]).whole().numbers, X[:, [2, 0]])
    with pytest.raises(InputError, match="rows must be"):
        next(table.chunks(0))


@pytest.mark.parametrize("kind", ["csv_file", "parquet", "npz"])
def test_digest_is_that_of_the_bytes(kind: str, tmp_path: Path) -> None:
    path = FILES[kind](tmp_path)
    assert (
        open_table(path, drop=["who"] if kind != "npz" else None).digest()
        == hashlib.sha256(path.read_bytes()).hexdigest()
    )


def test_digest_of_a_folder_sees_names_and_content(tmp_path: Path) -> None:
    path = parquet_folder(tmp_path)
    first = open_table(path).digest()
    assert open_table(path).digest() == first
    (path / "2.parquet").rename(path / "3.parquet")
    assert open_table(path).digest() != first


def test_npy(tmp_path: Path) -> None:
    for rows, dtype in ((X, np.float64), (X.astype(np.float32), np.float32), (LABELS[:, None], np.float64)):
        for order in ("C", "F"):
            np.save(tmp_path / "x.npy", np.asarray(rows, order=order))  # type: ignore[call-overload]
            table = open_table(tmp_path / "x.npy")
            assert table.dtype == dtype
            assert_array_equal(table.whole().numbers, rows)
            assert_array_equal(np.concatenate([piece.numbers for piece in table.chunks(10)]), rows)
    np.save(tmp_path / "x.npy", X)
    table = open_table(tmp_path / "x.npy", label="x2", drop=[0])
    assert (table.layout.numbers, table.layout.label) == (("x1",), "x2")
    assert_array_equal(table.whole().labels, X[:, 2])


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bsr", "dia"])
def test_sparse_npz_with_labels(form: str, tmp_path: Path) -> None:
    rows = sparse.random_array((40, 6), density=0.3, rng=np.random.default_rng(0), format=form)
    sparse.save_npz(tmp_path / "s.npz", rows)
    with np.load(tmp_path / "s.npz") as kept:
        np.savez(tmp_path / "x.npz", **kept, y=np.arange(40), who=IDS[:40].astype(str))
    table = open_table(tmp_path / "x.npz", label="y", id="who")
    assert table.sparse and table.n_rows == 40
    assert_array_equal(table.whole().numbers.toarray(), rows.toarray())
    assert_array_equal(table.whole().labels, np.arange(40))
    assert_array_equal(np.concatenate([piece.numbers.toarray() for piece in table.chunks(7)]), rows.toarray())
    assert_array_equal(open_table(tmp_path / "x.npz", columns=[4]).whole().numbers.toarray(), rows.toarray()[:, [4]])
    assert_array_equal(open_table(tmp_path / "x.npz", label="x1").whole().labels, rows.toarray()[:, 1])


def test_array_of_several(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", train=X, test=X[:10])
    assert open_table(tmp_path / "x.npz", array="test").n_rows == 10


def test_types_of_arrow(tmp_path: Path) -> None:
    when = pd.to_datetime(["2020-01-01", None, "2021-06-01"])
    frame = pd.DataFrame(
        {
            "small": np.array([1, 2, 3], np.int8),
            "holes": pd.array([1, None, 3], dtype="Int64"),
            "truth": [True, False, True],
            "when": when,
            "group": pd.Categorical(["u", "v", "u"]),
            "level": pd.Categorical([3, 1, 3]),
            "nothing": [None, None, None],
            "money": pa.array([1, None, 2], pa.decimal128(10, 2)).to_pandas(),
        }
    )
    frame.to_parquet(tmp_path / "x.parquet")
    pa.feather.write_feather(pa.Table.from_pandas(frame), tmp_path / "x.feather")
    for file in ("x.parquet", "x.feather"):
        table = open_table(tmp_path / file)
        assert table.layout.numbers == ("small", "holes", "truth", "level", "nothing", "money")
        assert table.layout.categories == ("when", "group")
        rows = table.whole()
        assert_array_equal(
            rows.numbers, [[1, 1, 1, 3, np.nan, 1], [2, np.nan, 0, 1, np.nan, np.nan], [3, 3, 1, 3, np.nan, 2]]
        )
        assert rows.categories["group"].tolist() == ["u", "v", "u"]
        assert rows.categories["when"].tolist() == ["2020-01-01 00:00:00", None, "2021-06-01 00:00:00"]
        assert rows.categories["when"].tolist() == table_of(frame).whole().categories["when"].tolist()
        assert open_table(tmp_path / file, label="holes").whole().labels.tolist() == [1, None, 3]  # type: ignore[union-attr]
        assert open_table(tmp_path / file, label="truth").whole().labels.dtype == bool  # type: ignore[union-attr]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_moments_are_the_same_texts_in_any_unit(unit: str, tmp_path: Path) -> None:
    """Or the categories of a model would be unknown in a file that another program wrote."""
    when = pa.array([0, 10**9 * 3661], pa.timestamp("ns")).cast(pa.timestamp(unit))
    pa.parquet.write_table(pa.table({"when": when}), tmp_path / "x.parquet")
    found = open_table(tmp_path / "x.parquet").whole().categories["when"].tolist()
    assert found == ["1970-01-01 00:00:00", "1970-01-01 01:01:01"]


def test_parts_of_seconds_stay(tmp_path: Path) -> None:
    when = pa.array([10**9 * 3661 + 120_000_000, 10**9 * 3660, 1], pa.timestamp("ns"))
    pa.parquet.write_table(pa.table({"when": when}), tmp_path / "x.parquet")
    found = open_table(tmp_path / "x.parquet").whole().categories["when"].tolist()
    assert found == ["1970-01-01 01:01:01.12", "1970-01-01 01:01:00", "1970-01-01 00:00:00.000000001"]


def test_the_largest_whole_numbers_in_frames_stay_whole() -> None:
    ids = np.array([1, 2**64 - 1], dtype=np.uint64)
    rows = table_of(pd.DataFrame({"id": ids, "a": [1.0, 2.0]}), id="id").whole()
    assert rows.ids is not None and rows.ids.dtype == np.uint64 and rows.ids.tolist() == ids.tolist()
    huge = table_of(pd.DataFrame({"id": [1, 2**70], "a": [1.0, 2.0]}, dtype=object), id="id").whole()
    assert huge.ids is not None and huge.ids.tolist() == [1, 2**70]


def test_what_is_masked_is_missing() -> None:
    masked = np.ma.masked_array(np.arange(4).reshape(2, 2), mask=[[True, False], [False, False]])
    assert_array_equal(table_of(masked).whole().numbers, [[np.nan, 1], [2, 3]])
    assert table_of(masked.astype(np.float32)).dtype == np.float32


@pytest.mark.parametrize("given", ["x.csv", Path("x.csv"), {"a": [1, 2]}])
def test_what_is_no_table_in_memory(given: Any) -> None:
    with pytest.raises(InputError, match="X must be a data frame, an array or a sparse matrix; got"):
        table_of(given)


def test_float32_stays_where_all_numbers_are(tmp_path: Path) -> None:
    frame = FRAME[list(NAMES)].astype(np.float32)
    frame.to_parquet(tmp_path / "x.parquet")
    assert open_table(tmp_path / "x.parquet").dtype == np.float32
    frame.assign(d=1.0).to_parquet(tmp_path / "x.parquet")
    assert open_table(tmp_path / "x.parquet").dtype == np.float64


def test_stored_index_is_the_id(tmp_path: Path) -> None:
    frame = FRAME[list(NAMES)].set_index(pd.Index(IDS, name="cell"))
    frame.to_parquet(tmp_path / "x.parquet")
    frame.to_csv(tmp_path / "x.csv")
    rows = open_table(tmp_path / "x.parquet").whole()
    assert rows.layout.id == "cell" and rows.ids is not None and rows.ids.tolist() == IDS.tolist()
    assert open_table(tmp_path / "x.csv").layout.categories == ("cell",)  # named: nothing says that it is an index
    unnamed = frame.rename_axis(None)
    unnamed.to_csv(tmp_path / "x.csv")
    assert open_table(tmp_path / "x.csv").layout.id == "index"


# --- memory, standard input, frames -----------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore:.*Zarr V3 specification.*")
@pytest.mark.parametrize("kind", ["csv_file", "parquet", "zarr_group", "feather"])
def test_whole_is_refused_where_it_does_not_fit(kind: str, tmp_path: Path) -> None:
    table = open_table(FILES[kind](tmp_path), label="kind", id="who")
    with kpca.config(memory_limit=1000):
        with pytest.raises(InputError, match=r"must fit into memory .* read it in chunks"):
            table.whole()
        assert sum(len(rows) for rows in table.chunks(10)) == N


class Standard:
    """Standard input that holds these bytes."""

    def __init__(self, content: bytes) -> None:
        self.buffer = io.BytesIO(content)


@pytest.mark.parametrize("kind", ["csv_file", "tsv_gz", "npz", "parquet", "feather", "arrow_stream"])
def test_standard_input(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = FILES[kind](tmp_path).read_bytes()
    monkeypatch.setattr(sys, "stdin", Standard(content))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    table = open_table("-", id="who", label="kind")
    assert table.name == "standard input"
    assert_array_equal(table.whole().numbers, X)
    assert table.digest() == hashlib.sha256(content).hexdigest()


def test_standard_input_of_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Standard(b""))
    with pytest.raises(InputError, match="standard input' must have rows of data"):
        open_table("-")


def frames() -> dict[str, Any]:
    return {"pandas": FRAME, "polars": pl.from_pandas(FRAME), "pyarrow": pa.Table.from_pandas(FRAME)}


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_frames(library: str) -> None:
    table = table_of(frames()[library], id="who", label="kind")
    assert_array_equal(table.whole().numbers, X)
    assert_array_equal(np.concatenate([piece.numbers for piece in table.chunks(9)]), X)
    assert table.whole().ids.tolist() == IDS.tolist()  # type: ignore[union-attr]
    assert table.whole().labels.tolist() == LABELS.tolist()  # type: ignore[union-attr]
    assert table.digest() == table_of(frames()[library], id="who", label="kind").digest()
    assert table.digest() != table_of(frames()[library], id="who", drop=["kind", "c"]).digest()
    assert table_of(frames()[library]).layout.categories == ("who",)


def test_columns_of_pyarrow_of_any_type() -> None:
    columns = {
        "whole": [1, None, 3],
        "truth": [True, False, None],
        "group": pa.array(["u", "v", "u"]).dictionary_encode(),
        "when": pa.array([0, None, 3600], pa.timestamp("s")),
        "nothing": pa.nulls(3),
    }
    rows = table_of(pa.table(columns)).whole()
    assert rows.layout.numbers == ("whole", "truth", "nothing") and rows.layout.categories == ("group", "when")
    assert_array_equal(rows.numbers, [[1, 1, np.nan], [np.nan, 0, np.nan], [3, np.nan, np.nan]])
    assert rows.categories["group"].tolist() == ["u", "v", "u"]
    assert rows.categories["when"].tolist() == ["1970-01-01 00:00:00", None, "1970-01-01 01:00:00"]
    assert table_of(pa.table(columns), label="whole").whole().labels.tolist() == [1, None, 3]  # type: ignore[union-attr]


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_models_of_frames(library: str) -> None:
    """Fitted to a frame of any library, a model knows the names and gives the same scores as for the array."""
    rows = np.where(np.isnan(X), 0.0, X)
    frame = pd.DataFrame(rows, columns=list(NAMES))
    given = {"pandas": frame, "polars": pl.from_pandas(frame), "pyarrow": pa.Table.from_pandas(frame)}[library]
    truth = kpca.KernelPCA(2, kernel="rbf", gamma=0.5).fit(rows).transform(rows)
    model = kpca.KernelPCA(2, kernel="rbf", gamma=0.5).fit(given)
    assert list(model.feature_names_in_) == list(NAMES)
    assert_allclose(model.transform(given), truth, atol=1e-12)
    with pytest.raises(InputError, match=r"first in column 1 \('b'\)"):
        kpca.KernelPCA(2).fit(narwhals.from_native(frames()[library]).select(NAMES).to_native())


def test_index_of_a_frame_is_the_id() -> None:
    rows = table_of(FRAME[list(NAMES)].set_index(pd.Index(IDS))).whole()
    assert rows.layout.id == "index" and rows.ids is not None and rows.ids.tolist() == IDS.tolist()
    assert table_of(FRAME[list(NAMES)]).layout.id is None


@pytest.mark.parametrize(
    "make",
    [np.asarray, np.asfortranarray, sparse.csr_array, sparse.csc_matrix, sparse.dok_matrix, lambda X: X.tolist()],
)
def test_arrays_in_memory(make: Callable[[Any], Any]) -> None:
    rows = np.arange(12.0).reshape(4, 3)
    table: Table = table_of(make(rows), drop=["x1"])
    found = table.whole().numbers
    assert_array_equal(found.toarray() if table.sparse else found, rows[:, [0, 2]])


@pytest.mark.parametrize(
    ("frame", "says"),
    [
        (pd.DataFrame({"a": [1.0], "b": [[1, 2]]}), "type 'list'"),
        (pd.DataFrame({"a": [1j]}), "type 'complex128'"),
        (pd.DataFrame({"a": []}), "at least one row"),
        (pd.DataFrame(index=[0, 1]), "left to analyse"),
        (pd.DataFrame(index=range(2)), "at least one column"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "different names"),
        (pd.DataFrame({"a": [1.0, np.inf]}), r"row 1 \(counted from 0\) of column 'a'"),
        (pl.DataFrame({"a": [[1, 2]]}), "type 'List"),
        (pa.table({"a": [[1, 2]]}), "type 'List"),
        (pa.table([[1.0], [2.0]], names=["a", "a"]), "different names"),
        (pa.table({"a": [1.0, np.inf]}), r"row 1 \(counted from 0\) of column 'a'"),
        (np.zeros(3), "2-D"),
        ([[1], [1, 2]], "rows of equal length"),
        (np.array([["a"]]), "numbers only"),
    ],
)
def test_frames_refused(frame: Any, says: str) -> None:
    with pytest.raises(InputError, match=says):
        table_of(frame).whole()
