"""Tables out: what is written is read again to the bit, and what goes wrong leaves the old file."""

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from kpca import InputError
from kpca._base import files
from kpca.data.opening import open_table
from kpca.data.sinks import open_writer

pytestmark = pytest.mark.filterwarnings("ignore:.*Zarr V3 specification.*", "ignore::FutureWarning")
SUFFIXES = [".csv", ".csv.gz", ".tsv", ".npz", ".parquet", ".feather", ".arrow", ".zarr"]
ROWS = np.random.default_rng(0).normal(size=(57, 3)) * 10.0 ** np.arange(-100, 140, 80)
ROWS[3, 1] = np.nan
NAMES = ["KPC1", "KPC2", "größe, x"]
EXTRAS: dict[str, Any] = {
    "id": np.array([f'r"{i},\n' if i % 2 else f"s{i}" for i in range(57)], dtype=object),
    "label": np.arange(57) % 4,
    "alarm": np.arange(57) % 3 == 0,
    "score": np.linspace(-1, 1, 57),
}


def write(path: Path, rows: Any = ROWS, extras: dict[str, Any] = EXTRAS, step: int = 20, **options: Any) -> None:
    with open_writer(path, NAMES, extras=list(extras), **options) as writer:
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            writer.write(rows[part], {name: column[part] for name, column in extras.items()})


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_round_trip(suffix: str, dtype: Any, tmp_path: Path) -> None:
    path, rows = tmp_path / f"out{suffix}", ROWS.clip(-1e30, 1e30).astype(dtype)
    write(path, rows, dtype=dtype)
    for role, name in (("id", "id"), ("label", "label"), ("label", "alarm"), ("label", "score")):
        table = open_table(path, columns=NAMES, **{role: name})  # type: ignore[arg-type]
        found = table.whole()
        assert found.numbers.astype(dtype).tobytes() == rows.tobytes()
        values = found.ids if role == "id" else found.labels
        assert values is not None and values.dtype == EXTRAS[name].dtype
        assert values.tolist() == EXTRAS[name].tolist()


@pytest.mark.parametrize("suffix", [".csv", ".npz", ".parquet", ".feather", ".zarr"])
@pytest.mark.parametrize(
    "values",
    [
        ["a", None, "c"],
        [None, None, None],
        np.array(["x", "y", "z"]),
        np.array([2**60, -1, 0]),
    ],
    ids=str,
)
def test_ids_of_any_type(suffix: str, values: Any, tmp_path: Path) -> None:
    with open_writer(tmp_path / f"out{suffix}", ["v"], extras=["id"]) as writer:
        for place in range(3):  # row by row: the first may be missing
            writer.write(np.ones((1, 1)), {"id": values[place : place + 1]})
    found = open_table(tmp_path / f"out{suffix}", id="id").whole().ids
    assert found is not None and found.tolist() == list(values)


def test_dates_survive_in_arrow(tmp_path: Path) -> None:
    when = np.array(["2020-01-01", "2021-02-03"], dtype="datetime64[D]")
    moments = when.astype("datetime64[us]") + np.timedelta64(1234567, "us")
    for suffix in (".parquet", ".feather"):
        for values in (when, moments):
            with open_writer(tmp_path / f"out{suffix}", ["v"], extras=["id"]) as writer:
                writer.write(np.ones((2, 1)), {"id": values})
            found = open_table(tmp_path / f"out{suffix}", id="id").whole().ids
            assert found is not None and found.dtype.kind == "M"
            assert_array_equal(found, values)


@given(st.lists(st.floats(allow_infinity=False), min_size=1, max_size=20), st.sampled_from([".csv", ".tsv", ".csv.gz"]))
@settings(max_examples=60, deadline=None)
def test_floats_in_text_are_exact(tmp_path_factory: pytest.TempPathFactory, values: list[float], suffix: str) -> None:
    path = tmp_path_factory.mktemp("floats") / f"x{suffix}"
    rows = np.array(values)[:, None]
    with open_writer(path, ["v"]) as writer:
        writer.write(rows)
    found = open_table(path).whole().numbers
    assert np.array_equal(np.isnan(found), np.isnan(rows))
    assert np.where(np.isnan(found), 0, found).tobytes() == np.where(np.isnan(rows), 0, rows).tobytes()
    assert_array_equal(
        pd.read_csv(path, sep="\t" if suffix == ".tsv" else ",", float_precision="round_trip").to_numpy(), rows
    )


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npz", ".zarr"])
def test_the_longest_names_are_possible(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / ("ü" * ((255 - len(suffix)) // 2) + suffix)
    for _ in range(2):  # the second replaces the first
        with open_writer(path, ["a"]) as writer:
            writer.write(np.ones((2, 1)))
    assert open_table(path).n_rows == 2
    assert len(os.listdir(tmp_path)) == 1


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".feather"])
def test_texts_that_are_no_unicode_are_refused(suffix: str, tmp_path: Path) -> None:
    with (
        pytest.raises(InputError, match=r"must be Unicode; '\\udcff' is not"),
        open_writer(tmp_path / f"x{suffix}", ["a"], extras=["id"]) as writer,
    ):
        writer.write(np.ones((1, 1)), {"id": np.array(["\udcff"], dtype=object)})
    assert os.listdir(tmp_path) == []


def test_npy_is_a_plain_array(tmp_path: Path) -> None:
    with open_writer(tmp_path / "x.npy", NAMES) as writer:
        writer.write(ROWS[:10])
        writer.write(ROWS[10:])
    assert_array_equal(np.load(tmp_path / "x.npy"), ROWS)


@pytest.mark.parametrize("suffix", [*SUFFIXES, ".npy"])
def test_no_rows(suffix: str, tmp_path: Path) -> None:
    extras = [] if suffix == ".npy" else ["id"]
    with open_writer(tmp_path / f"x{suffix}", NAMES, extras=extras) as writer:
        writer.write(np.empty((0, 3)), {name: np.empty(0, dtype=object) for name in extras})
    assert (tmp_path / f"x{suffix}").exists()
    with pytest.raises(InputError, match="row"):
        open_table(tmp_path / f"x{suffix}", id="id" if extras else None)


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "extras", "options", "says"),
    [
        ("x.npy", ["id"], {}, r"no column 'id': write \.npz or \.csv"),
        ("x.xlsx", [], {}, "must end in .csv"),
        ("x.npy.gz", [], {}, "must not end in .gz"),
        ("no/x.csv", [], {}, "there is no .*no': make it first"),
        ("x.csv", ["KPC1"], {}, "'KPC1' comes twice"),
        ("x.npz", ["X"], {}, "an array called 'X'"),
        ("x.npz", ["names"], {}, "an array called 'names'"),
        ("x.npz", ["a/b"], {}, "an array called 'a/b'"),
        ("x.zarr", ["../x"], {}, "an array called"),
        ("x.csv", [], {"dtype": np.int64}, "float32 or float64"),
        ("x.csv", [], {"format": "xml"}, "format must be one of"),
        ("folder.csv", [], {}, "it is a folder"),
        ("other.zarr", [], {}, "something else"),
        ("pipe.csv", [], {}, "a pipe or a device"),
        ("", [], {}, "path must be"),
    ],
)
def test_refused_before_anything_is_computed(name: str, extras: Any, options: Any, says: str, tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "other.zarr").mkdir()
    os.mkfifo(tmp_path / "pipe.csv")
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(InputError, match=says):
        open_writer(f"{tmp_path}/{name}" if name else "", NAMES, extras=extras, **options)
    assert sorted(os.listdir(tmp_path)) == before


def test_wrong_rows(tmp_path: Path) -> None:
    for numbers, extras, says in [
        (np.ones((2, 2)), {"id": [1, 2]}, r"shape \(m, 3\); got \(2, 2\)"),
        (np.ones(3), {"id": [1]}, "shape"),
        (np.ones((2, 3)), {}, "columns 'id'; got none"),
        (np.ones((2, 3)), {"id": [1, 2], "x": [1, 2]}, "got 'id', 'x'"),
        (np.ones((2, 3)), {"id": [1]}, "must have 2 entries"),
    ]:
        with pytest.raises(InputError, match=says), open_writer(tmp_path / "x.csv", NAMES, extras=["id"]) as writer:
            writer.write(numbers, extras)
    assert os.listdir(tmp_path) == []
    with open_writer(tmp_path / "x.csv", NAMES) as writer:
        writer.write(ROWS)
    with pytest.raises(InputError, match="has ended"):
        writer.write(ROWS)


# --- what goes wrong --------------------------------------------------------------------------------------------------


@pytest.fixture(params=[(suffix, old) for suffix in [*SUFFIXES, ".npy"] for old in (True, False)], ids=str)
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A path that must be afterwards as it was before: with its rows, or not there."""
    suffix, old = request.param
    path = tmp_path / f"out{suffix}"
    if old:
        with open_writer(path, NAMES) as writer:
            writer.write(ROWS)
    yield path
    assert os.listdir(tmp_path) == ([path.name] if old else [])
    if old:
        assert_array_equal(open_table(path).whole().numbers, ROWS)


def extras_of(path: Path) -> dict[str, Any]:
    return {} if path.suffix == ".npy" else EXTRAS


@pytest.mark.parametrize("error", [KeyboardInterrupt, InputError, OSError])
def test_exception_leaves_the_target_alone(target: Path, error: type[BaseException]) -> None:
    with pytest.raises(error), open_writer(target, NAMES, extras=list(extras_of(target))) as writer:
        writer.write(ROWS, extras_of(target))
        raise error("in the middle")


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


@pytest.mark.parametrize("room", [10, 1000, 3000])
def test_full_disk(target: Path, room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(1).normal(size=(570, 3))  # nothing that a compressor could make small
    extras = {name: np.concatenate([column] * 10) for name, column in extras_of(target).items()}
    if target.suffix == ".zarr":

        def fail(*_: Any) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(zarr.Array, "__setitem__", fail)
    else:
        open_new = files.open_new
        monkeypatch.setattr(files, "open_new", lambda path: FullDisk(open_new(path), room))
    with pytest.raises(InputError, match=r"^The disk must have room for .*it is full.* unchanged\.$"):
        write(target, rows, extras)


def test_no_permission(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if target.suffix == ".zarr":
        return  # a folder that is made beside the target

    def refuse(path: str) -> Any:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(files, "open_new", refuse)
    with pytest.raises(InputError, match="must be writable; the system says: Permission denied"):
        open_writer(target, NAMES, extras=list(extras_of(target)))


# --- standard output --------------------------------------------------------------------------------------------------

SCRIPT = """
import numpy as np
from kpca.data.sinks import open_writer
with open_writer("-", ["a", "b"], extras=["id"]) as writer:
    for start in range({chunks}):
        writer.write(np.full((1000, 2), 0.1), {{"id": np.arange(1000)}})
"""


def run(chunks: int, **options: Any) -> Any:
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-c", SCRIPT.format(chunks=chunks)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, **options)


def test_standard_output() -> None:
    out, err = run(2).communicate(timeout=60)
    assert err == b""
    lines = out.decode().splitlines()
    assert len(lines) == 2001 and lines[:2] == ['"id","a","b"', "0,0.1,0.1"]


def test_reader_that_goes_away_is_no_error() -> None:
    process = run(60)  # ten times as much as a pipe holds
    assert process.stdout is not None and process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    with process.stderr as errors:
        assert errors.read() == b""
    assert process.wait(timeout=60) == 0


def test_standard_output_is_text() -> None:
    with pytest.raises(InputError, match="must be a text table"):
        open_writer("-", ["a"], format="npy")
