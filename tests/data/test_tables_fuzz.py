"""Files of any bytes: either a table that reads the same in chunks as at once, or one sentence."""

import gzip
import io
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet
import pytest
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse

import kpca
from kpca import InputError
from kpca.data.opening import open_table

ROWS = np.random.default_rng(0).normal(size=(30, 3)).round(3)
TABLE = pa.table({"a": ROWS[:, 0], "b": ROWS[:, 1], "who": [f"r{i}" for i in range(30)]})
quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def csv_bytes() -> bytes:
    lines = [f'{a!r},{b!r},"t{c!r}",r{i}' for i, (a, b, c) in enumerate(ROWS.tolist())]
    return ("a,b,c,who\n" + "\n".join(lines) + "\n").encode()


def npy_bytes() -> bytes:
    out = io.BytesIO()
    np.save(out, ROWS)
    return out.getvalue()


def npz_bytes(save: Callable[..., None] = np.savez) -> bytes:
    out = io.BytesIO()
    save(out, X=ROWS, y=np.arange(30))
    return out.getvalue()


def sparse_bytes() -> bytes:
    out = io.BytesIO()
    sparse.save_npz(out, sparse.csr_array(ROWS * (ROWS > 0)), compressed=False)
    return out.getvalue()


def parquet_bytes() -> bytes:
    out = io.BytesIO()
    pa.parquet.write_table(TABLE, out, row_group_size=10)
    return out.getvalue()


def feather_bytes(compression: str = "uncompressed") -> bytes:
    out = io.BytesIO()
    pa.feather.write_feather(TABLE, out, chunksize=10, compression=compression)
    return out.getvalue()


def stream_bytes() -> bytes:
    out = io.BytesIO()
    with pa.ipc.new_stream(out, TABLE.schema) as writer:
        writer.write_table(TABLE, max_chunksize=10)
    return out.getvalue()


FILES = {
    "x.csv": csv_bytes(),
    "x.csv.gz": gzip.compress(csv_bytes(), mtime=0),
    "x.npy": npy_bytes(),
    "stored.npz": npz_bytes(),
    "packed.npz": npz_bytes(np.savez_compressed),
    "sparse.npz": sparse_bytes(),
    "x.parquet": parquet_bytes(),
    "x.feather": feather_bytes(),
    "packed.feather": feather_bytes("lz4"),
    "x.arrow": stream_bytes(),
}


def dense(rows: Any) -> Any:
    return rows.toarray() if sparse.issparse(rows) else rows


def check(path: Path, **options: Any) -> None:
    """Read a file in three ways and compare; an InputError must be one sentence that names it."""
    try:
        with warnings.catch_warnings(), kpca.config(memory_limit=64 << 20):
            warnings.simplefilter("ignore")  # of codecs and file formats, about their own ageing
            table = open_table(path, **options)
            whole = table.whole()
            pieces = list(table.chunks(7))
    except InputError as error:
        message = str(error)
        assert path.name in message and message.isprintable()
        assert ": " in message and message.endswith((".", "?"))
        return
    assert table.n_rows == len(whole) == sum(map(len, pieces))
    assert all(len(piece) == 7 for piece in pieces[:-1])
    stacked = np.concatenate([dense(piece.numbers) for piece in pieces])
    assert stacked.tobytes() == np.ascontiguousarray(dense(whole.numbers)).tobytes()
    assert not np.isinf(stacked).any()
    for name in table.layout.categories:
        assert np.concatenate([piece.categories[name] for piece in pieces]).tolist() == whole.categories[name].tolist()


@st.composite
def mutations(draw: st.DrawFn, names: tuple[str, ...] = tuple(FILES)) -> tuple[str, bytes]:
    """A valid file with some bytes changed, left out, put in, or cut off."""
    name = draw(st.sampled_from(names))
    content = bytearray(FILES[name])
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(content) - 1))
        match draw(st.sampled_from(["flip", "set", "insert", "delete", "cut", "repeat"])):
            case "flip":
                content[place] ^= 1 << draw(st.integers(0, 7))
            case "set":
                content[place : place + 4] = draw(st.binary(min_size=1, max_size=4))
            case "insert":
                content[place:place] = draw(st.binary(min_size=1, max_size=20))
            case "delete":
                del content[place : place + draw(st.integers(1, 50))]
            case "cut":
                del content[max(place, 1) :]
            case _:
                content[place:place] = content[place : place + 100]
        if not content:
            break
    return name, bytes(content)


@given(mutations())
@settings(quick, max_examples=250)
def test_mutated_files(tmp_path: Path, case: tuple[str, bytes]) -> None:
    name, content = case
    (tmp_path / name).write_bytes(content)
    check(tmp_path / name)


@given(st.sampled_from(sorted(FILES)), st.binary(max_size=300))
@quick
def test_random_bytes(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    check(tmp_path / name)


@given(st.sampled_from(["x.npy", "x.parquet", "x.feather", "x.arrow", "stored.npz"]), st.binary(max_size=200))
@quick
def test_random_bytes_after_the_first(tmp_path: Path, name: str, content: bytes) -> None:
    """Past the check of the first bytes."""
    (tmp_path / name).write_bytes(FILES[name][:8] + content + FILES[name][-8:])
    check(tmp_path / name)


@given(
    st.text(st.sampled_from("0123456789.,;|\t\n\r\"'-+eEaNnit# \u00fc\ufeff"), max_size=120),
    st.sampled_from([None, True, False]),
    st.sampled_from([None, "onehot"]),
)
@settings(quick, max_examples=250)
def test_random_texts(tmp_path: Path, content: str, header: bool | None, encode: str | None) -> None:
    (tmp_path / "x.csv").write_bytes(content.encode())
    check(tmp_path / "x.csv", header=header, encode=encode)


@given(st.data())
@settings(quick, max_examples=40)
def test_mutated_zarr(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "x.zarr"
    shutil.rmtree(path, ignore_errors=True)
    zarr.create_array(path, data=ROWS, chunks=(8, 3))
    file = data.draw(st.sampled_from(sorted(found for found in path.rglob("*") if found.is_file())))
    content = bytearray(file.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    content[place : place + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    file.write_bytes(content)
    check(path)


@pytest.mark.parametrize("name", FILES)
def test_unchanged_files_are_read(name: str, tmp_path: Path) -> None:
    """Or the tests above would pass for readers that refuse everything."""
    (tmp_path / name).write_bytes(FILES[name])
    assert open_table(tmp_path / name).n_rows == 30
    check(tmp_path / name)
