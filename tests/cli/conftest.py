"""The same rows as CSV, Parquet and NPY, and a place of its own for each run of a command."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from command_files import KINDS, Files, example, write


@pytest.fixture(scope="session", params=KINDS)
def files(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder, kind = tmp_path_factory.mktemp(request.param), request.param
    names = ["x0", "x1", "x2", "x3", "x4"] if kind == "npy" else ["across", "up", "copy", "noise", "small noise"]
    rows, new = folder / f"rows.{kind}", folder / f"new.{kind}"
    X, ring = example()
    write(rows, kind, X, ring, names)
    write(new, kind, *example(30, seed=1), names)
    roles = [] if kind == "npy" else ["--label", "ring", "--id", "name"]
    return Files(kind, rows, new, roles, names, X)


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    monkeypatch.chdir(tmp_path)
    return CliRunner()
