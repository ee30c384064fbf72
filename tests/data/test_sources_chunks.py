"""Reading in chunks: every kind of storage gives the same rows, bad data is refused, memory stays flat."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow
import pyarrow.parquet
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse, stats
from storage_kinds import (
    KINDS,
    SPARSE,
    STREAMS,
    TEXTS,
    D,
    N,
    Restarting,
    dense,
    make_rows,
    mapped,
    pieces_of,
    saved_parquet,
    saved_zarr,
)

from kpca._base.errors import InputError
from kpca.data.sources import CHUNK_BYTES, Source, as_source, default_rows, sample_rows


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_gives_the_same_chunks(kind: str, dtype: Any, tmp_path: Path) -> None:
    X = make_rows(dtype)
    source = as_source(KINDS[kind](X, tmp_path))
    if kind in TEXTS:
        X, dtype = np.float64(X.astype(str)), np.float64
    assert isinstance(source, Source) and as_source(source) is source
    assert (source.n_columns, source.dtype, source.sparse) == (D, np.dtype(dtype), kind in SPARSE)
    assert source.repeatable == (kind != "generator")
    assert source.random_access == (kind not in STREAMS)
    chunks = list(source.chunks(32))
    assert [chunk.shape[0] for chunk in chunks] == [32] * 6 + [11]
    assert all(chunk.dtype == dtype for chunk in chunks)
    assert_array_equal(np.concatenate([dense(chunk) for chunk in chunks]), X)
    assert source.n_rows == N
    if source.repeatable:
        assert_array_equal(np.concatenate([dense(chunk) for chunk in source.chunks()]), X)


@pytest.mark.parametrize("kind", sorted(set(KINDS) - STREAMS))
def test_rows_by_number(kind: str, tmp_path: Path) -> None:
    X = make_rows()
    source = as_source(KINDS[kind](X, tmp_path))
    for wanted in [[0], [N - 1], [5, 3, 3, 150, 202, 0, 90, 91], np.arange(N), np.arange(N)[::-7]]:
        assert_array_equal(dense(source.rows(wanted)), X[wanted])
    for wrong in [[-1], [N], [0.5], [[1]], [True]]:
        with pytest.raises(InputError, match="Row numbers"):
            source.rows(wrong)


@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=8),
    rows=st.integers(1, 20),
    as_csr=st.booleans(),
)
def test_where_pieces_end_does_not_matter(lengths: list[int], rows: int, as_csr: bool) -> None:
    X = np.random.default_rng(0).standard_normal((sum(lengths), 3))
    pieces = np.split(X, np.cumsum(lengths)[:-1])
    joined = list(as_source(X).chunks(rows))
    streamed = list(as_source([sparse.csr_array(piece) for piece in pieces] if as_csr else pieces).chunks(rows))
    assert len(joined) == len(streamed)
    for one, other in zip(joined, streamed, strict=True):
        assert_array_equal(one, dense(other))


def test_chunk_size_is_fixed_by_shape_and_type() -> None:
    for columns in [1, 7, 128, 10_000, 3_000_000]:
        for dtype in [np.float32, np.float64]:
            rows = default_rows(columns, dtype)
            bytes_of_chunk = rows * columns * np.dtype(dtype).itemsize
            assert rows == 1 or bytes_of_chunk <= CHUNK_BYTES
            assert rows == 1 << 16 or bytes_of_chunk > CHUNK_BYTES // 2
    assert default_rows(500, np.float64) == 2097
    assert default_rows(10_000_000, np.float64, sparse=True) == default_rows(256, np.float64, sparse=True) == 2730
    X = np.ones((5000, 500))
    sizes = [chunk.shape[0] for chunk in as_source(X).chunks()]
    assert sizes == [2097, 2097, 806] == [chunk.shape[0] for chunk in as_source(iter([X[:10], X[10:]])).chunks()]


@pytest.mark.parametrize(
    ("stored", "given"),
    [(np.int8, np.float64), (np.uint64, np.float64), (np.bool_, np.float64), (np.float16, np.float32)],
)
@pytest.mark.parametrize("kind", ["array", "pandas", "polars", "npy", "zarr", "parquet", "list of chunks"])
def test_type_given(kind: str, stored: Any, given: Any, tmp_path: Path) -> None:
    if kind == "polars" and stored is np.float16:
        pytest.skip("polars releases differ on float16")
    X = (make_rows() > 0).astype(stored)
    source = as_source(KINDS[kind](X, tmp_path))
    (chunk,) = source.chunks()
    assert source.dtype == chunk.dtype == given
    assert_array_equal(chunk, X)


def test_columns_of_different_types_become_float64() -> None:
    columns: dict[str, Any] = {"whole": [1, 2], "single": np.float32([0.5, 1.5]), "yes": [True, False]}
    for frame in [pandas.DataFrame(columns), polars.DataFrame(columns), pandas.DataFrame(columns).convert_dtypes()]:
        (chunk,) = as_source(frame).chunks()
        assert chunk.dtype == np.float64
        assert_array_equal(chunk, [[1, 0.5, 1], [2, 1.5, 0]])


def test_chunks_of_an_array_are_views() -> None:
    X = make_rows()
    assert all(np.shares_memory(chunk, X) for chunk in as_source(X).chunks(50))


def test_reading_a_private_map_keeps_its_changes(tmp_path: Path) -> None:
    X = mapped(make_rows(), tmp_path, "c")
    X[100] = 7.0
    for _ in range(2):
        assert_array_equal(np.concatenate(list(as_source(X).chunks(10)))[100], np.full(D, 7.0))


def test_reading_a_shared_map_keeps_its_changes(tmp_path: Path) -> None:
    X = mapped(make_rows(), tmp_path, "r+")
    X[100] = 7.0
    assert_array_equal(np.concatenate(list(as_source(X[1:]).chunks(10)))[99], np.full(D, 7.0))
    assert_array_equal(X[100], np.full(D, 7.0))
    assert_array_equal(as_source(X).rows([100, 101]), X[100:102])


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"big-endian"}))
def test_what_is_not_finite_is_named(kind: str, value: float, tmp_path: Path) -> None:
    X = make_rows()
    X[150, 3] = X[120, 3] = X[100, 4] = value
    source = as_source(KINDS[kind](X, tmp_path))
    word = "NaN" if np.isnan(value) else "infinity"
    name = r" \('d'\)" if source.names else ""
    with pytest.raises(InputError, match=f"finite; got {word} first in column 3{name}, row 120: "):
        list(source.chunks(N))
    if source.random_access:
        with pytest.raises(InputError, match=f"column 3{name}, row 150: "):
            source.rows([150, 0])


def test_large_numbers_are_finite() -> None:
    X = np.full((10, 3), 1e308)
    assert_array_equal(next(as_source(X).chunks()), X)


def test_missing_entries_of_frames_and_tables(tmp_path: Path) -> None:
    table = {"full": [1, 2, 3], "holes": [1, None, 3]}
    pyarrow.parquet.write_table(pyarrow.table(table), tmp_path / "x.parquet")
    frames = [polars.DataFrame(table), pandas.DataFrame(table), pandas.DataFrame(table).astype("Int64")]
    for X in [*frames, tmp_path / "x.parquet"]:
        with pytest.raises(InputError, match=r"NaN first in column 1 \('holes'\), row 1: "):
            list(as_source(X).chunks())


def test_text_and_dates_are_named(tmp_path: Path) -> None:
    for values in [["x", "y"], np.array(["2024-01-01", "2024-01-02"], dtype="datetime64[ns]")]:
        columns: dict[str, Any] = {"fine": [1.0, 2.0], "wrong": values}
        pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "x.parquet")
        for X in [pandas.DataFrame(columns), polars.DataFrame(columns), tmp_path / "x.parquet"]:
            with pytest.raises(InputError, match=r"numbers only; column 1 \('wrong'\) (is of|holds .*dates)"):
                as_source(X)
    with pytest.raises(InputError, match=r"column 0 \('kind'\)"):
        as_source(pandas.DataFrame({"kind": pandas.Categorical(["a", "b"])}))


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.ones(3), "2-D"),
        (np.ones((2, 2, 2)), "2-D"),
        (np.ones((0, 2)), "at least one row"),
        (np.ones((2, 0)), "at least one row"),
        (pandas.DataFrame(), "at least one row"),
        (pandas.Series([1.0]), "2-D"),
        (np.ones((2, 2), dtype=complex), "real numbers"),
        (np.array([["a", "b"]]), "numbers only"),
        (np.array([[None, 1.0]]), "numbers only"),
        (np.zeros((2, 1), dtype="datetime64[s]"), "numbers only"),
        (sparse.csr_array(np.ones((2, 2)) * 1j), "real numbers"),
        (3, "iterable of 2-D chunks; got int"),
        (None, "got NoneType"),
        ({"a": [1]}, "got dict"),
        (b"x.npy", "got bytes"),
        ([], "empty list"),
        ([[1.0, 2.0], [3.0]], "2-D"),
        ([1.0, 2.0], "2-D"),
        (["a", "b"], "must end in"),
        (iter([]), "at least one chunk"),
        (iter([3]), "A chunk must be"),
        (iter([np.ones(3)]), "2-D"),
        ("table.xls", "must end in .csv, .txt, .tsv, .tab, .npy"),
        ("missing.npy", "File not found"),
        ("missing.zarr", "File not found"),
    ],
)
def test_refused_at_once(X: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        as_source(X)
    assert "\n" not in str(caught.value) and str(caught.value).endswith(".")


@pytest.mark.parametrize(
    ("pieces", "message"),
    [
        ([np.ones((2, 3)), np.ones((2, 2))], "3 columns; chunk 1 has 2"),
        ([np.ones((2, 3)), sparse.csr_array((2, 3))], "all sparse; chunk 1 differs"),
        ([np.ones((2, 3), np.float32), np.ones((2, 3))], "type of the first, float32; chunk 1 is float64"),
        ([np.ones((2, 3)), np.ones((0, 3))], "at least one row"),
        ([np.ones((2, 3)), np.ones(3)], "2-D"),
        ([np.ones((2, 3)), np.array([["a", "b", "c"]])], "numbers only"),
        (
            [pandas.DataFrame({"a": [1.0]}), pandas.DataFrame({"b": [1.0]})],
            "column names of the first; those of chunk 1",
        ),
        ([np.ones((2, 3)), np.ma.masked_equal(np.eye(3), 0)], "masked"),
        ([np.ones((2, 3)), "chunk"], "must end in"),
        ([np.ones((2, 3)), 5], "A chunk must be"),
    ],
)
def test_chunks_that_do_not_fit(pieces: list[Any], message: str) -> None:
    source = as_source(Restarting(*pieces))
    with pytest.raises(InputError, match=message):
        list(source.chunks())


def test_later_chunks_may_be_narrower_numbers() -> None:
    source = as_source([np.ones((2, 3)), np.ones((2, 3), np.float32), np.ones((2, 3), int)])
    assert [chunk.dtype for chunk in source.chunks(2)] == [np.float64] * 3


def test_generator_is_read_once() -> None:
    source = as_source(piece for piece in pieces_of(make_rows()))
    assert source.n_rows is None and not source.repeatable
    list(source.chunks())
    with pytest.raises(InputError, match="can be read once and have been"):
        source.chunks()
    with pytest.raises(InputError, match="by number"):
        source.rows([0])


def test_rows_that_change_between_passes_are_noticed() -> None:
    stream = Restarting(np.ones((3, 2)), np.ones((3, 2)))
    source = as_source(stream)
    list(source.chunks())
    stream.pieces = stream.pieces[:1]
    with pytest.raises(InputError, match="it gave 6, then 3"):
        list(source.chunks())


@pytest.mark.parametrize("rows", [0, -1, 1.5, True, "8"])
def test_rows_per_chunk_must_be_whole(rows: Any) -> None:
    for X in [np.ones((3, 2)), [np.ones((3, 2))]]:
        with pytest.raises(InputError, match="whole number of rows"):
            as_source(X).chunks(rows)


@pytest.mark.parametrize("kind", ["npy", "npz", "sparse npz", "parquet"])
def test_truncated_and_foreign_files(kind: str, tmp_path: Path) -> None:
    path = Path(KINDS[kind](make_rows(), tmp_path))
    whole = path.read_bytes()
    for content, says in [
        (whole[: len(whole) // 2], "must be a whole"),
        (b"", "it is an empty file"),
        (b"not what the name says", "its first bytes are not"),
        (b"\x80\x04K\x01.", "it is a pickle"),
    ]:
        path.write_bytes(content)
        with pytest.raises(InputError, match=says) as caught:
            list(as_source(path).chunks())
        assert "\n" not in str(caught.value) and path.name in str(caught.value)


def test_damage_inside_a_file(tmp_path: Path) -> None:
    """The footer of Parquet and the metadata of Zarr are fine, the rows are not."""
    path = saved_parquet(np.random.default_rng(0).standard_normal((N, D)), tmp_path)
    content = bytearray(path.read_bytes())
    content[4:200] = bytes(196)
    path.write_bytes(content)
    with pytest.raises(InputError, match="must be a whole Parquet file"):
        list(as_source(path).chunks())
    folder = saved_zarr(make_rows(), tmp_path)
    part = next(file for file in sorted(folder.rglob("c/*/*")) if file.is_file())
    part.write_bytes(part.read_bytes()[:10])
    with pytest.raises(InputError, match=r"Rows 0 to .* of .*x.zarr.* must be readable"):
        list(as_source(folder).chunks(7))


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([[{}, 1]], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "x.npz", rows=np.array([[{}, 1]], dtype=object), allow_pickle=True)
    for name in ["x.npy", "x.npz"]:
        with pytest.raises(InputError, match="must"):
            as_source(tmp_path / name)


def test_foreign_zarr_and_folders(tmp_path: Path) -> None:
    (tmp_path / "x.zarr").mkdir()
    (tmp_path / "x.parquet").mkdir()
    with pytest.raises(InputError, match="must be a whole Zarr array"):
        as_source(tmp_path / "x.zarr")
    with pytest.raises(InputError, match="it holds none"):
        as_source(tmp_path / "x.parquet")
    group = zarr.open_group(tmp_path / "two.zarr")
    for name in "ab":
        group.create_array(name, data=np.ones((2, 2)))
    with pytest.raises(InputError, match=r"it holds 'a' of shape \(2, 2\), 'b'"):
        as_source(tmp_path / "two.zarr")
    np.savez(tmp_path / "two.npz", a=np.ones((2, 2)), b=np.ones((2, 2)))
    with pytest.raises(InputError, match=r"it holds 'a' of shape \(2, 2\), 'b'"):
        as_source(tmp_path / "two.npz")
    np.savez(tmp_path / "two.npz", a=np.ones((2, 3)), b=np.ones(2))
    with pytest.raises(InputError, match=r"must hold one array .* it holds 'b', too: save the rows alone"):
        as_source(tmp_path / "two.npz")


def test_parquet_folder_with_different_columns(tmp_path: Path) -> None:
    for name in "ab":
        pyarrow.parquet.write_table(pyarrow.table({name: [1.0]}), tmp_path / f"{name}.parquet")
    folder = tmp_path.rename(tmp_path.with_suffix(".parquet"))
    with pytest.raises(InputError, match="same columns"):
        as_source(folder)


@pytest.mark.parametrize(("library", "name"), [("pyarrow", "Parquet"), ("zarr", "Zarr")])
def test_missing_library(library: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = KINDS[name.lower()](make_rows(), tmp_path)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(InputError, match=rf"^Reading {name} needs {library}: pip install 'kpca\[io\]'\.$"):
        as_source(path)


# --- sampling ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"generator"}))
def test_sample_is_the_same_for_every_kind(kind: str, tmp_path: Path) -> None:
    """The truth: the rows with the smallest draws."""
    X = make_rows()
    source = as_source(KINDS[kind](X, tmp_path))
    for seed, count in [(0, 1), (1, 40), (2, N)]:
        numbers = np.sort(np.argsort(np.random.default_rng(seed).random(N))[:count])
        assert_array_equal(dense(sample_rows(source, count, seed)), X[numbers])


def test_sample_of_many_rows_and_chunks() -> None:
    """Draws come in portions, here of several; so do the rows of the stream."""
    X = np.arange(2_500_000, dtype=np.float64)[:, None]
    drawn = sample_rows(as_source(X), 1000, 5)
    numbers = np.sort(np.argsort(np.random.default_rng(5).random(len(X)))[:1000])
    assert_array_equal(drawn.ravel(), numbers)
    assert_array_equal(drawn, sample_rows(as_source([X[:7], X[7:1_800_000], X[1_800_000:]]), 1000, 5))


@pytest.mark.parametrize("stream", [False, True])
def test_sample_is_uniform(stream: bool) -> None:
    n, count, times = 40, 8, 2000
    X = np.arange(n, dtype=np.float64)[:, None]
    source = as_source(Restarting(X[:13], X[13:]) if stream else X)
    rows = np.array([sample_rows(source, count, seed).ravel() for seed in range(times)], dtype=int)
    assert (np.diff(rows, axis=1) > 0).all()  # distinct, in order
    seen = np.bincount(rows.ravel(), minlength=n)
    expected = times * count / n
    # Draws without replacement: the sum of squares is smaller by (n - count) / (n - 1) than chi-square's.
    statistic = ((seen - expected) ** 2 / expected).sum() * (n - 1) / (n - count)
    assert stats.chi2(n - 1).ppf(0.001) < statistic < stats.chi2(n - 1).ppf(0.999)
    # Pairs, too: any two rows meet equally often.
    met = np.zeros((n, n))
    for drawn in rows:
        met[np.ix_(drawn, drawn)] += 1
    pairs = met[np.triu_indices(n, 1)]
    mean = times * count * (count - 1) / (n * (n - 1))
    assert abs(pairs.mean() - mean) < 1e-9
    assert 0.8 < pairs.var() / (mean * (1 - mean / times)) < 1.2


def test_samples_refused() -> None:
    X = make_rows()
    for count in [0, -1, 2.5, True]:
        with pytest.raises(InputError, match="whole number of rows"):
            sample_rows(as_source(X), count, 0)  # type: ignore[arg-type]
    for source in [as_source(X), as_source(Restarting(X))]:
        assert_array_equal(sample_rows(source, N + 1, 0), X)
    once = as_source(iter([X]))
    with pytest.raises(InputError, match="cannot be sampled"):
        sample_rows(once, 3, 0)
    assert sum(len(chunk) for chunk in once.chunks()) == N  # and nothing was lost


# --- memory -----------------------------------------------------------------------------------------------------------

READ_THROUGH = """
import sys
import numpy as np
from kpca.data.sources import as_source, sample_rows

def status(key):
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(key + ":")) / 1024

def reset():
    with open("/proc/self/clear_refs", "w") as control:
        control.write("5")

path, how = sys.argv[1:]
X = np.load(path, mmap_mode="r") if how == "map" else path
warm = np.ones((8, 128))
for chunk in as_source(warm).chunks(): chunk @ chunk.T
reset()
base = status("VmHWM")
total = 0.0
source = as_source(X)
for chunk in source.chunks():
    total += float(chunk.sum())
if source.n_rows:
    sample_rows(source, 5000, 0)
print(total, status("VmHWM") - base)
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the peak of resident memory is Linux's to tell")
@pytest.mark.parametrize("how", ["path", "map"])
def test_memory_stays_flat(how: str, tmp_path: Path) -> None:
    """A file of 400 MB, read through and sampled: anonymous and file-backed pages together stay far below it."""
    rows = 400 * 10**6 // (128 * 8)
    X = np.lib.format.open_memmap(tmp_path / "x.npy", mode="w+", dtype=np.float64, shape=(rows, 128))
    X[::100_000] = 1.0
    expected = 128.0 * len(X[::100_000])
    del X
    command = [sys.executable, "-c", READ_THROUGH, str(tmp_path / "x.npy"), how]
    printed = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout.split()
    assert float(printed[0]) == expected
    assert float(printed[1]) < 60
