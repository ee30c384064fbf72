"""Writing in chunks: every target holds the rows, a file appears whole or not at all."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow.parquet
import pytest
import zarr
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from scipy import sparse

from kpca import KernelPCA
from kpca._base import files
from kpca._base.errors import InputError
from kpca.data.sinks import open_sink
from kpca.data.sources import as_source
from kpca.io.results import write_scores

FloatArray = NDArray[Any]
SUFFIXES = [".npy", ".zarr", ".parquet"]  # which keep the type of the numbers
N, K = 101, 4


def make_rows(seed: int = 0, dtype: Any = np.float64) -> FloatArray:
    return np.random.default_rng(seed).standard_normal((N, K)).astype(dtype)


def contents(path: Path) -> FloatArray:
    return np.concatenate(list(as_source(path).chunks()))


def write_all(target: Any, rows: FloatArray, n_rows: int | None = N) -> None:
    with open_sink(target, n_rows, K, rows.dtype) as sink:
        for start in range(0, len(rows), 30):
            sink.write(rows[start : start + 30])


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_file_holds_the_rows(suffix: str, dtype: Any, known: bool, tmp_path: Path) -> None:
    rows, path = make_rows(dtype=dtype), tmp_path / f"out{suffix}"
    for seed in [0, 1]:  # the second time it replaces the first
        rows = make_rows(seed, dtype)
        write_all(path if known else str(path), rows, N if known else None)
        assert_array_equal(contents(path), rows)
        assert as_source(path).dtype == dtype
        assert os.listdir(tmp_path) == [path.name]


def test_npy_is_what_numpy_writes(tmp_path: Path) -> None:
    write_all(tmp_path / "out.npy", make_rows(), None)
    np.save(tmp_path / "truth.npy", make_rows())
    assert (tmp_path / "out.npy").read_bytes() == (tmp_path / "truth.npy").read_bytes()


def test_row_groups_and_names_of_parquet(tmp_path: Path) -> None:
    rows, path = make_rows(), tmp_path / "out.parquet"
    with open_sink(path, None, K, np.float64, names=["p", "q", "r", "s"]) as sink:
        sink.write(rows[:30])
        sink.write(rows[30:])
    table = pyarrow.parquet.ParquetFile(path)
    assert table.schema_arrow.names == ["p", "q", "r", "s"]
    assert [table.metadata.row_group(group).num_rows for group in range(2)] == [30, N - 30]
    assert_array_equal(pandas.read_parquet(path).to_numpy(), rows)
    write_all(path, rows)
    assert pyarrow.parquet.ParquetFile(path).schema_arrow.names == ["x0", "x1", "x2", "x3"]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_arrays_hold_the_rows(dtype: Any, tmp_path: Path) -> None:
    mapped = np.lib.format.open_memmap(tmp_path / "x.npy", mode="w+", dtype=dtype, shape=(N, K))
    stored = zarr.create_array(tmp_path / "x.zarr", shape=(N, K), chunks=(7, 3), dtype=dtype)
    for target in [np.empty((N, K), dtype), mapped, stored]:
        for n_rows in [N, None]:
            write_all(target, make_rows(), n_rows)
            assert_array_equal(np.asarray(target[:]), make_rows().astype(dtype))
    assert_array_equal(np.load(tmp_path / "x.npy"), make_rows().astype(dtype))


def test_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    np.save(tmp_path / "there" / "real.npy", np.zeros(3))
    (tmp_path / "link.npy").symlink_to(tmp_path / "there" / "real.npy")
    write_all(tmp_path / "link.npy", make_rows())
    assert (tmp_path / "link.npy").is_symlink()
    assert_array_equal(np.load(tmp_path / "there" / "real.npy"), make_rows())


def test_new_files_have_the_usual_permissions(tmp_path: Path) -> None:
    (tmp_path / "usual").touch()
    write_all(tmp_path / "out.npy", make_rows())
    assert (tmp_path / "out.npy").stat().st_mode == (tmp_path / "usual").stat().st_mode


# --- what goes wrong --------------------------------------------------------------------------------------------------


@pytest.fixture(params=[(suffix, old) for suffix in SUFFIXES for old in (True, False)], ids=str)
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A path that must be afterwards as it was before: with its rows, or not there."""
    suffix, old = request.param
    path = tmp_path / f"out{suffix}"
    if old:
        write_all(path, make_rows(7))
    yield path
    assert os.listdir(tmp_path) == ([path.name] if old else [])
    if old:
        assert_array_equal(contents(path), make_rows(7))


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt, InputError, OSError])
def test_exception_leaves_the_target_alone(target: Path, error: type[BaseException]) -> None:
    with pytest.raises(error), open_sink(target, N, K, np.float64) as sink:
        sink.write(make_rows()[:50])
        raise error("in the middle")


def test_wrong_number_of_rows(target: Path) -> None:
    with pytest.raises(InputError, match="only 50 were written"), open_sink(target, N, K, np.float64) as sink:
        sink.write(make_rows()[:50])
    with pytest.raises(InputError, match="more than that"), open_sink(target, 49, K, np.float64) as sink:
        sink.write(make_rows()[:50])
    with pytest.raises(InputError, match=r"shape \(m, 4\)"), open_sink(target, N, K, np.float64) as sink:
        sink.write(make_rows()[:, :3])


class FullDisk:
    """A file on a disk with room for some bytes; it is full for good after that."""

    def __init__(self, file: Any, room: int) -> None:
        self._file, self._room = file, room

    def write(self, data: Any) -> Any:
        self._room -= memoryview(data).nbytes
        if self._room < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return self._file.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


@pytest.mark.parametrize("room", [10, 1500, 4200])
def test_full_disk(target: Path, room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk fills up at the header, at the rows, or at the footer of a Parquet file."""
    if target.suffix == ".zarr":
        left = [room]

        def write(array: Any, key: Any, value: Any) -> None:
            left[0] -= value.nbytes
            if left[0] < 0:
                raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(zarr.Array, "__setitem__", write)
        room = min(room, 3000)
    else:
        open_new = files.open_new
        monkeypatch.setattr(files, "open_new", lambda path: FullDisk(open_new(path), room))
        room = min(room, 3000) if target.suffix == ".npy" else room
    with pytest.raises(InputError, match=r"^The disk must have room for .*it is full.* unchanged\.$"):
        write_all(target, np.concatenate([make_rows()] * 2), 2 * N)


def test_full_disk_under_an_array_does_not_claim_that_it_is_unchanged() -> None:
    class Full(np.ndarray[Any, Any]):
        def __setitem__(self, key: Any, value: Any) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(InputError, match=r"it is full.*; it holds the rows written until then\.$"):
        write_all(np.empty((N, K)).view(Full), make_rows())


def test_full_disk_at_the_very_end(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some file systems only find out when the file is closed, or renamed."""

    def fail(*_: Any) -> None:
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        patch.setattr(os, "rename", fail)
        with pytest.raises(InputError, match="it is full"):
            write_all(target, make_rows())


def test_second_rename_of_a_folder_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old Zarr folder is aside already, and returns."""
    path = tmp_path / "out.zarr"
    write_all(path, make_rows(7))
    rename, calls = os.rename, []

    def second_fails(source: str, target: str) -> None:
        calls.append(source)
        if len(calls) == 2:
            raise PermissionError(errno.EACCES, "Permission denied")
        rename(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", second_fails)
        with pytest.raises(InputError, match="writable; the system says: Permission denied"):
            write_all(path, make_rows())
    assert os.listdir(tmp_path) == [path.name]
    assert_array_equal(contents(path), make_rows(7))


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("out.dat", "must end in .csv, .tsv, .npy"),
        ("no/such/folder/out.npy", "must exist"),
        ("no/such/folder/out.zarr", "must exist"),
        ("no/such/folder/out.parquet", "must exist"),
        (np.empty((N, K + 1)), r"shape \(101, 4\)"),
        (np.empty((N + 1, K)), r"shape \(101, 4\)"),
        (np.empty(N), r"shape \(101, 4\)"),
        (np.empty((N, K), int), "float32 or float64"),
        ([[1.0]], "an array or a path; got list"),
        (None, "got NoneType"),
    ],
)
def test_targets_refused(target: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        open_sink(target, N, K, np.float64)


def test_what_is_no_scores_file_is_not_replaced(tmp_path: Path) -> None:
    for name in ["a.npy", "a.parquet", "a.zarr"]:
        (tmp_path / name).mkdir()
        (tmp_path / name / "precious").touch()
        with pytest.raises(InputError, match="it is"):
            open_sink(tmp_path / name, N, K, np.float64)
        assert (tmp_path / name / "precious").exists()
    assert len(os.listdir(tmp_path)) == 3


def test_parameters_refused(tmp_path: Path) -> None:
    path = tmp_path / "out.parquet"
    with pytest.raises(InputError, match="dtype must be"):
        open_sink(path, N, K, int)
    with pytest.raises(InputError, match="names must be one per column"):
        open_sink(path, N, K, np.float64, names=["a"])
    with pytest.raises(InputError, match="different names"):
        open_sink(path, N, K, np.float64, names=["a", "b", "c", "a"])
    with open_sink(path, None, K, np.float64) as sink:
        sink.write(make_rows())
    with pytest.raises(InputError, match="has ended"):
        sink.write(make_rows())


@pytest.mark.parametrize(("library", "name"), [("pyarrow", "Parquet"), ("zarr", "Zarr")])
def test_missing_library(library: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(InputError, match=rf"^Writing {name} needs {library}: pip install 'kpca\[io\]'\.$"):
        open_sink(tmp_path / f"out.{name.lower()}", N, K, np.float64)
    assert os.listdir(tmp_path) == []


# --- scores of a model ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_scores_in_chunks(suffix: str, tmp_path: Path) -> None:
    X = np.random.default_rng(1).standard_normal((300, 6))
    model = KernelPCA(3, kernel="rbf", gamma=0.1).fit(X)
    truth = model.transform(X)
    np.save(tmp_path / "x.npy", X)
    for given in [X, tmp_path / "x.npy", (X[start : start + 77] for start in range(0, 300, 77)), sparse.csr_matrix(X)]:
        out = tmp_path / f"scores{suffix}"
        assert write_scores(model, given, out, rows=64) is out
        assert_allclose(contents(out), truth, atol=1e-10)
    scores = np.empty((300, 3), np.float32)
    assert write_scores(model, X, scores) is scores
    assert_allclose(scores, truth, atol=1e-5)


def test_scores_keep_the_names_of_a_model(tmp_path: Path) -> None:
    frame = pandas.DataFrame(np.random.default_rng(1).standard_normal((50, 2)), columns=["a", "b"])
    model = KernelPCA(2, kernel="rbf").set_output(transform="pandas").fit(frame)
    out = write_scores(model, polars.from_pandas(frame), tmp_path / "scores.parquet", rows=20)
    assert_allclose(pandas.read_parquet(out), model.transform(frame), atol=1e-12)
    assert list(pandas.read_parquet(out)) == ["kernelpca0", "kernelpca1"]
    with pytest.raises(InputError, match="the columns the model was fitted on"):
        write_scores(model, frame[["b", "a"]], tmp_path / "scores.parquet")


def test_bad_row_far_down_leaves_the_old_scores(tmp_path: Path) -> None:
    X = np.random.default_rng(1).standard_normal((200, 3))
    model = KernelPCA(2, kernel="rbf").fit(X)
    out = write_scores(model, X, tmp_path / "scores.npy")
    before = out.read_bytes()
    X[170, 2] = np.nan
    with pytest.raises(InputError, match="column 2, row 170"):
        write_scores(model, X, out, rows=50)
    assert out.read_bytes() == before
    assert os.listdir(tmp_path) == ["scores.npy"]


def test_scores_over_their_own_data(tmp_path: Path) -> None:
    X = np.random.default_rng(1).standard_normal((200, 3))
    model = KernelPCA(2, kernel="rbf").fit(X)
    np.save(tmp_path / "x.npy", X)
    write_scores(model, tmp_path / "x.npy", tmp_path / "x.npy", rows=50)
    assert_allclose(np.load(tmp_path / "x.npy"), model.transform(X), atol=1e-12)
