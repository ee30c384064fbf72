"""The command as a terminal sees it: bars, colours, Ctrl-C, pipes that close."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

KPCA = [sys.executable, "-m", "kpca"]
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")


def on_a_terminal(arguments: list[str], folder: Path, **environment: str) -> tuple[int, str]:
    """Run a command whose stdout and stderr are a terminal; return its exit code and what it showed."""
    leader, follower = pty.openpty()
    variables = {**os.environ, "TERM": "xterm", "COLUMNS": "100", **environment}
    process = subprocess.Popen([*KPCA, *arguments], stdout=follower, stderr=follower, cwd=folder, env=variables)
    os.close(follower)
    shown = b""
    while True:
        ready, _, _ = select.select([leader], [], [], 0.2)
        if ready:
            try:
                piece = os.read(leader, 65536)
            except OSError:  # Linux says so when the last writer is gone
                break
            if not piece:
                break
            shown += piece
        elif process.poll() is not None:
            break
    os.close(leader)
    return process.wait(), shown.decode(errors="replace")


def drain(leader: int) -> None:
    """Read what a process shows until it ends, so that it does not wait for a reader."""
    with contextlib.suppress(OSError):  # Linux says so when the last writer is gone
        while os.read(leader, 65536):
            pass
    os.close(leader)


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """Enough rows that an exact fit takes a few passes."""
    np.save(tmp_path / "rows.npy", np.random.default_rng(0).normal(size=(3000, 8)).astype(np.float32))
    return tmp_path


@pytest.mark.slow
def test_bar_and_colours_on_a_terminal(rows: Path) -> None:
    code, shown = on_a_terminal(["fit", "rows.npy", "-k", "3", "--tol", "1e-9"], rows)
    assert code == 0, shown
    assert re.search(r"Fitting.*pass \d", shown), shown
    assert "\x1b[" in shown
    code, shown = on_a_terminal(["fit", "rows.npy", "-k", "3"], rows, NO_COLOR="1")
    assert code == 0
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", shown)  # no colour, though a bar moves the cursor


@pytest.mark.slow
def test_bar_counts_rows_in_every_pass_over_a_file(rows: Path) -> None:
    code, shown = on_a_terminal(["info", "rows.npy"], rows)
    assert code == 0, shown
    assert "Reading, 3,000 of 3,000 rows" in shown
    made = ["fit", "rows.npy", "-k", "3", "--preimage", "ridge", "--scores", "scores.csv", "-q"]
    subprocess.run([*KPCA, *made], cwd=rows, check=True)
    code, shown = on_a_terminal(["reconstruct", "scores.csv", "--model", "rows.kpca", "-o", "back.csv"], rows)
    assert code == 0, shown
    assert "Reconstructing, 3,000 of 3,000 rows" in shown


def test_quiet_terminal_has_no_bar(rows: Path) -> None:
    code, shown = on_a_terminal(["fit", "rows.npy", "-k", "3", "--quiet"], rows)
    assert (code, shown) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_run_leaves_nothing_behind(tmp_path: Path, number: signal.Signals) -> None:
    np.save(tmp_path / "rows.npy", np.random.default_rng(0).normal(size=(40_000, 30)))
    old = tmp_path / "rows.kpca"
    old.write_bytes(b"older")
    command = [*KPCA, "fit", "rows.npy", "-k", "40", "--approximation", "none", "--scores", "scores.csv"]
    leader, follower = pty.openpty()
    process = subprocess.Popen(command, cwd=tmp_path, stderr=follower, stdout=subprocess.DEVNULL)
    os.close(follower)
    shown = b""
    while b"Fitting, pass" not in shown:  # in the middle of the work, however busy the machine is
        shown += os.read(leader, 65536)
    process.send_signal(number)
    rest = threading.Thread(target=drain, args=(leader,))
    rest.start()
    process.wait(timeout=60)
    rest.join()
    assert process.returncode == 1
    assert b"Traceback" not in shown
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rows.kpca", "rows.npy"]
    assert old.read_bytes() == b"older"


@pytest.mark.slow
def test_pipe_that_closes_early_is_no_error(rows: Path) -> None:
    subprocess.run([*KPCA, "fit", "rows.npy", "-k", "3", "-q"], cwd=rows, check=True)
    process = subprocess.Popen(
        [*KPCA, "transform", "rows.npy", "--model", "rows.kpca"],
        cwd=rows,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr is not None
    errors = process.stderr.read()
    process.wait(timeout=60)
    assert b"Traceback" not in errors


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no disk that is always full")
@pytest.mark.parametrize("arguments", [["info", "rows.npy"], ["info", "rows.npy", "--json"], ["--help"]])
def test_full_disk_is_one_line(rows: Path, arguments: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run([*KPCA, *arguments], cwd=rows, stdout=full, stderr=subprocess.PIPE, check=False)
    errors = done.stderr.decode().splitlines()
    assert done.returncode == 2, errors
    assert len(errors) == 1
    assert errors[0].startswith("Error: Standard output must take what is written")
