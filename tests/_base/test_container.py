"""Arrays in a file: they come back as they were, a changed byte is noticed, and a failed write changes nothing."""

from __future__ import annotations

import errno
import json
import os
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import kpca._base.container as container_module
from kpca._base.container import read_container, remove_leftovers, write_container
from kpca._base.errors import InputError

NUMBERS = st.one_of(
    hnp.boolean_dtypes(),
    hnp.integer_dtypes(endianness="?"),
    hnp.unsigned_integer_dtypes(endianness="?"),
    hnp.floating_dtypes(endianness="?", sizes=(16, 32, 64)),
    hnp.complex_number_dtypes(endianness="?", sizes=(64, 128)),
)
SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5)
LAYOUTS: dict[str, Any] = {
    "as it is": lambda array: array,
    "Fortran": np.asfortranarray,
    "transposed": np.transpose,
    "every second": lambda array: array[::2] if array.ndim else array,
    "reversed": lambda array: array[::-1] if array.ndim else array,
}
SMALL = {"a": np.arange(3.0), "b": np.array([[1, 2]], dtype=np.int32)}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file"


def small(path: Path) -> bytes:
    write_container(path, {"kind": "test", "note": "x"}, SMALL)
    return path.read_bytes()


def assert_intact(path: Path) -> None:
    header, arrays = read_container(path, "test")
    assert header["note"] == "x"
    assert {name: array.tolist() for name, array in arrays.items()} == {"a": [0, 1, 2], "b": [[1, 2]]}
    assert os.listdir(path.parent) == [path.name]  # nothing half written is left


# -- round trip -------------------------------------------------------------------------------------------------------


@given(st.dictionaries(st.text(max_size=8), hnp.arrays(NUMBERS, SHAPES), max_size=3), st.sampled_from(sorted(LAYOUTS)))
def test_arrays_come_back_to_the_bit(tmp_path_factory: Any, arrays: dict[str, Any], layout: str) -> None:
    path = tmp_path_factory.mktemp("round") / "file"
    arrays = {name: LAYOUTS[layout](array) for name, array in arrays.items()}
    write_container(path, {"kind": "test"}, arrays)
    header, back = read_container(path, "test")
    assert header == {"format": "kpca", "version": 1, "kind": "test"}
    assert list(back) == list(arrays)
    for name, array in arrays.items():
        assert back[name].dtype == array.dtype
        assert back[name].shape == array.shape
        assert back[name].tobytes() == array.tobytes()
        assert back[name].flags.writeable
        if array.flags.f_contiguous:
            assert back[name].flags.f_contiguous


@given(
    st.dictionaries(
        st.text(max_size=5).filter(lambda key: key not in {"format", "version", "arrays", "kind"}),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
            max_leaves=6,
        ),
        max_size=4,
    )
)
def test_headers_come_back(tmp_path_factory: Any, header: dict[str, Any]) -> None:
    path = tmp_path_factory.mktemp("round") / "file"
    write_container(path, {"kind": "test", **header}, {})
    assert read_container(path, "test") == ({"format": "kpca", "version": 1, "kind": "test", **header}, {})


def test_a_new_file_replaces_the_old_one(path: Path) -> None:
    write_container(path, {"kind": "test"}, {"old": np.zeros(1000)})
    small(path)
    assert_intact(path)


def test_a_link_stays_a_link(path: Path, tmp_path: Path) -> None:
    """And the file that it leads to is the one that is written, also on another disk."""
    (tmp_path / "elsewhere").mkdir()
    real = tmp_path / "elsewhere" / "real.kpca"
    path.symlink_to(real)
    for number in (1, 2):
        write_container(path, {"kind": "test", "number": number}, {})
        assert path.is_symlink() and real.is_file()
        assert read_container(real, "test")[0]["number"] == number
    assert os.listdir(real.parent) == ["real.kpca"]


def test_a_header_of_more_lists_than_can_be_read_is_not_written(path: Path) -> None:
    with pytest.raises(InputError, match="and 1,000,000 lists; it would be of"):
        write_container(path, {"kind": "test", "about": [[]] * 10**6}, {})
    assert not path.exists()


def test_the_longest_name_and_odd_names_are_possible(tmp_path: Path) -> None:
    for name in ["x" * 255, "ü ? '", ".hidden"]:
        write_container(tmp_path / name, {"kind": "test"}, SMALL)
        _, arrays = read_container(tmp_path / name, "test")
        assert arrays.keys() == SMALL.keys()


@pytest.mark.parametrize(
    "array", [np.array([object()]), np.array(["text"]), np.zeros(2, "M8[s]"), np.zeros(1, "f4,f4")]
)
def test_only_plain_numbers_are_written(path: Path, array: Any) -> None:
    with pytest.raises(InputError, match="must hold plain numbers; 'a' holds"):
        write_container(path, {"kind": "test"}, {"a": array})
    assert not path.exists()


@pytest.mark.parametrize("header", [{}, {"kind": 3}, {"kind": "test", "arrays": []}, {"kind": "test", "version": 9}])
def test_a_header_must_say_its_kind_and_leave_our_keys_alone(path: Path, header: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="must have a kind"):
        write_container(path, header, {})


# -- damage -----------------------------------------------------------------------------------------------------------


def test_every_changed_byte_is_noticed(path: Path) -> None:
    content = small(path)
    for position in range(len(content)):
        for change in (0x01, 0x80, 0xFF):
            path.write_bytes(content[:position] + bytes([content[position] ^ change]) + content[position + 1 :])
            with pytest.raises(InputError, match=r"must be .*; it "):
                read_container(path, "test")


def test_every_missing_or_added_end_is_noticed(path: Path) -> None:
    content = small(path)
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(InputError, match=r"must be .*; it "):
            read_container(path, "test")
    path.write_bytes(content + b"\0")
    with pytest.raises(InputError, match="damaged"):
        read_container(path, "test")


def forged(header: Any, body: bytes = b"") -> bytes:
    """A file whose digest is right and whose header is not."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    content = container_module._MAGIC + len(text).to_bytes(8, "little") + text + body
    return content + container_module.hashlib.sha256(content).digest()


ENTRY = {"name": "a", "dtype": "<f8", "shape": [1], "order": "C"}
GOOD = {"format": "kpca", "version": 1, "kind": "test", "arrays": [ENTRY]}


def test_the_forger_can_write_what_is_right(path: Path) -> None:
    path.write_bytes(forged(GOOD, bytes(8)))
    assert read_container(path, "test")[1]["a"].tolist() == [0.0]


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"[1]",
        b"{" * 100,
        b"[" * 200_000,
        b"9" * 5000,
        b"\xff",
        {**GOOD, "format": "other"},
        {**GOOD, "version": "1"},
        {**GOOD, "kind": 1},
        {**GOOD, "arrays": 3},
        {**GOOD, "arrays": [3]},
        {**GOOD, "arrays": []},
        *(
            {**GOOD, "arrays": [{**ENTRY, **wrong}]}
            for wrong in [
                {"dtype": "|O"},
                {"dtype": "|O8"},
                {"dtype": "<M8"},
                {"dtype": "f8,f8"},
                {"dtype": "<f16"},
                {"dtype": 3},
                {"shape": [-1]},
                {"shape": [-1, -1]},
                {"shape": [2]},
                {"shape": [10**15]},
                {"shape": [10**30]},
                {"shape": [1.0]},
                {"shape": [True]},
                {"shape": "1"},
                {"shape": [1] * 100},
            ]
        ),
    ],
)
def test_a_forged_header_is_refused_and_takes_no_memory(path: Path, header: Any) -> None:
    path.write_bytes(forged(header, bytes(8)))
    with pytest.raises(InputError, match="damaged"):
        read_container(path, "test")


def test_a_header_longer_than_the_file_takes_no_memory(path: Path) -> None:
    path.write_bytes(container_module._MAGIC + b"\xff" * 8 + bytes(100))
    with pytest.raises(InputError, match="damaged"):
        read_container(path, "test")


# -- other files ------------------------------------------------------------------------------------------------------


class Trap:
    """Unpickling this would be noticed."""

    def __reduce__(self) -> Any:
        return pytest.fail, ("Something was unpickled.",)


@pytest.mark.parametrize(
    "content", [b"", b"hello", pickle.dumps(Trap()), b"\x93NUMPY" + bytes(100), b"PK\x03\x04" * 40]
)
def test_foreign_files_are_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(InputError, match=f"{re.escape(str(path))} must be a file that kpca wrote"):
        read_container(path, "test")


def test_a_newer_version_is_refused(path: Path) -> None:
    path.write_bytes(forged({**GOOD, "version": 2, "arrays": []}, bytes(8)))
    with pytest.raises(InputError, match="it is of version 2: update kpca"):
        read_container(path, "test")


def test_another_kind_is_refused(path: Path) -> None:
    small(path)
    with pytest.raises(InputError, match="must hold a model; it holds a test: choose another path"):
        read_container(path, "model")


def test_a_folder_or_nothing_cannot_be_read_or_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"must be a file; it is something else: "):
        read_container(tmp_path, "test")
    with pytest.raises(InputError, match="there is no such file"):
        read_container(tmp_path / "none", "test")
    with pytest.raises(InputError, match="must be a file, or not exist"):
        write_container(tmp_path, {"kind": "test"}, {})
    with pytest.raises(InputError, match=r"The folder of .* must exist; there is no .*: make it first"):
        write_container(tmp_path / "none" / "file", {"kind": "test"}, {})
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="This machine has no special files to try.")
def test_what_is_no_file_is_not_replaced() -> None:
    with pytest.raises(InputError, match="must be a file, or not exist"):
        write_container(os.devnull, {"kind": "test"}, {})
    with pytest.raises(InputError, match="must be a file"):
        read_container(os.devnull, "test")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="The superuser may write anywhere.")
def test_without_permission(path: Path) -> None:
    small(path)
    path.parent.chmod(0o500)
    try:
        with pytest.raises(InputError, match="no permission"):
            write_container(path, {"kind": "test"}, {})
    finally:
        path.parent.chmod(0o700)
    assert_intact(path)


# -- all or nothing ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("where", "error", "expected", "message"),
    [
        ("fsync", OSError(errno.ENOSPC, "No space left on device"), InputError, "the disk is full: free some space"),
        ("fsync", OSError(errno.EIO, "Input/output error"), InputError, "the system says 'input/output error'"),
        ("replace", PermissionError(errno.EACCES, "Permission denied"), InputError, "no permission"),
        ("fsync", KeyboardInterrupt(), KeyboardInterrupt, "^$"),
        ("replace", MemoryError(), MemoryError, "^$"),
    ],
)
def test_a_failed_write_leaves_the_old_file(
    path: Path, monkeypatch: pytest.MonkeyPatch, where: str, error: BaseException, expected: Any, message: str
) -> None:
    small(path)

    def fail(*arguments: Any) -> None:
        raise error

    with monkeypatch.context() as patch, pytest.raises(expected, match=message):
        patch.setattr(os, where, fail)
        write_container(path, {"kind": "test"}, {"new": np.zeros(5)})
    assert_intact(path)


def test_a_full_disk_in_the_middle_of_a_write(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small(path)

    def half(text: bytes, arrays: Any) -> Any:
        yield b"half of it"
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(InputError, match="the disk is full"):
        patch.setattr(container_module, "_pieces", half)
        write_container(path, {"kind": "test"}, {"new": np.zeros(5)})
    assert_intact(path)


def test_the_old_file_is_there_until_the_new_one_is_on_the_disk(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = small(path)
    seen: list[str] = []
    fsync, replace = os.fsync, os.replace

    def synced(number: int) -> None:
        assert path.read_bytes() == content
        seen.append("fsync")
        fsync(number)

    def replaced(source: Any, target: Any) -> None:
        assert path.read_bytes() == content
        assert Path(source).parent == path.parent  # one file system: a rename is atomic there
        seen.append("replace")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    write_container(path, {"kind": "test"}, {"new": np.zeros(5)})
    assert seen == ["fsync", "replace"]
    assert list(read_container(path, "test")[1]) == ["new"]


def test_leftovers_of_killed_writers_are_removed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = path.with_name("other")

    def refuse(*arguments: Any, **options: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", lambda *names: None)  # as if killed just before
        for target in (path, path, other):
            write_container(target, {"kind": "test"}, SMALL)
    assert len(os.listdir(path.parent)) == 3
    with monkeypatch.context() as patch, pytest.raises(InputError, match="a writable folder; no permission"):
        patch.setattr(Path, "unlink", refuse)
        remove_leftovers(path)
    remove_leftovers(path)
    assert len(os.listdir(path.parent)) == 1  # that of the other file is not ours
    remove_leftovers(other)
    assert os.listdir(path.parent) == []
