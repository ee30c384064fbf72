"""Broken and hostile files: each gets one sentence that names it and the remedy, and little memory is taken."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kpca import InputError
from kpca.data.opening import open_table
from tests.data.broken_files import BROKEN, NUMBERS

ROOT = Path(__file__).resolve().parents[2]
REMEDY = re.compile(
    r": (add|allow|change|check|choose|copy|correct|drop|encode|fill|give|leave|make|mend|name|pickles are never|"
    r"read|rename|save|take|unpack|use|write|did you mean|it has) ?[^:]*[.?]$"
)
PEAK = 600 << 20  # bytes: libraries, tables of 128 MiB at most, and lines of 32 MiB at most


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What came of reading the corpus, in a process with a limit on its memory."""
    folder = tmp_path_factory.mktemp("broken")
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-m", "tests.data.read_broken", str(folder)],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("name", BROKEN)
def test_one_sentence(name: str, outcomes: dict[str, Any]) -> None:
    outcome, (_, says, _) = outcomes["outcomes"][name], BROKEN[name]
    message = outcome["message"]
    assert outcome["kind"] == "InputError", outcome
    assert message.isprintable()  # one line, nothing for a terminal to obey
    assert outcome["path"] in message
    assert re.search(says, message), message
    assert REMEDY.search(message), message
    assert outcome["clean"], "Something was left behind, or run."
    assert outcome["seconds"] < 60


def test_corpus_is_large() -> None:
    assert len(BROKEN) >= 60


def test_memory_is_bounded(outcomes: dict[str, Any]) -> None:
    assert outcomes["peak"] < PEAK


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_no_permission(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(NUMBERS)
    (tmp_path / "x.csv").chmod(0)
    with pytest.raises(InputError, match=r"x\.csv' must be readable.*: change its permissions"):
        open_table(tmp_path / "x.csv")


def test_file_that_is_withheld(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a file without permission does, for tests that run as root."""
    (tmp_path / "x.csv").write_text(NUMBERS)

    def refuse(*_: Any, **__: Any) -> Any:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(InputError, match=r"x\.csv' must be readable; .* Permission denied: change its permissions"):
        open_table(tmp_path / "x.csv")


@pytest.mark.parametrize("path", ["", "a\0b.csv", 7, None, b"x.csv", ["x.csv"]])
def test_what_is_no_path(path: Any) -> None:
    with pytest.raises(InputError, match="path must be the path of a file or folder; got"):
        open_table(path)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"format": "xlsx"}, "format must be one of csv"),
        ({"delimiter": ",,"}, "delimiter must be a single character"),
        ({"delimiter": '"'}, "delimiter must be a single character"),
        ({"delimiter": "é"}, "ASCII"),
        ({"columns": 3.5}, "columns must be a list"),
        ({"columns": []}, "left to analyse"),
        ({"array": "X"}, "array is for npz and zarr"),
    ],
)
def test_options_refused(options: dict[str, Any], says: str, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(NUMBERS)
    with pytest.raises(InputError, match=says):
        open_table(tmp_path / "x.csv", **options)


def test_file_that_changes_while_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(NUMBERS)
    table = open_table(path)
    for content in (NUMBERS + "1,2,3\n", NUMBERS.replace("3,0.75,6", "3,oops,6"), "a,b\n1,2\n"):
        path.write_text(content)
        with pytest.raises(InputError, match=r"x\.csv' must"):
            table.whole()
    path.unlink()
    with pytest.raises(InputError, match=r"x\.csv' must"):
        table.whole()
    with pytest.raises(InputError, match=r"x\.csv' must"):
        table.digest()
