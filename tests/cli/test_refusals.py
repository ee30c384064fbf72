"""What a user can get wrong becomes one line and exit code 2, with nothing written."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from command_files import example, write

from kpca.cli import main

NAMES = ["a", "b", "c", "d", "e"]


@pytest.fixture
def table(runner: CliRunner, tmp_path: Path) -> str:
    write(tmp_path / "t.csv", "csv", *example(40), NAMES)
    return "t.csv"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fit", "absent.csv"], "absent.csv"),
        (["fit", "t.csv"], "--drop"),
        (["fit", "t.csv", "--drop", "name,ring", "--kernel", "rbff"], "rbf"),
        (["fit", "t.csv", "--label", "rings", "--id", "name"], "ring"),
        (["fit", "t.csv", "--label", "ring", "--id", "ring"], "ring"),
        (["fit", "t.csv", "--drop", "name,ring", "-k", "0"], "--components"),
        (["fit", "t.csv", "--drop", "name,ring", "-k", "three"], "--components"),
        (["fit", "t.csv", "--drop", "name,ring", "--rank", "5"], "--approximation"),
        (["fit", "t.csv", "--drop", "name,ring", "-o", "m.txt"], ".kpca"),
        (["fit", "t.csv", "--drop", "name,ring", "-o", "no/folder/m.kpca"], "folder"),
        (["fit", "t.csv", "--drop", "name,ring", "--picture", "p.gif"], ".png"),
        (["fit", "t.csv", "--drop", "name,ring", "--memory", "lots"], "--memory"),
        (["fit", "t.csv", "--drop", "name,ring", "--threads", "0"], "threads"),
        (["fit", "t.csv", "--columns", "a,,b"], "--columns"),
        (["fit", "t.csv", "--drop", "name,ring", "--device", "cuda"], "cuda"),
        (["transform", "t.csv", "--model", "absent.kpca"], "absent.kpca"),
        (["transform", "t.csv", "--model", "t.csv"], "t.csv"),
        (["transform", "t.csv"], "--model"),
        (["detect", "t.csv", "--drop", "name,ring", "--model", "m.kpca", "--normal", "t.csv"], "--normal"),
        (["detect", "t.csv", "--drop", "name,ring", "--confidence", "2"], "confidence"),
        (["tune", "t.csv", "--drop", "name,ring", "-k", "few"], "--components"),
        (["tune", "t.csv", "--drop", "name,ring", "--budget", "soon"], "budget"),
        (["compare", "t.csv", "--drop", "name,ring", "--methods", "PCB"], "PCA"),
        (["export", "t.csv", "-o", "m.onnx"], "t.csv"),
        (["export", "t.csv", "-o", "m.pkl"], ".onnx"),
        (["report", "t.csv", "--label", "ring", "--drop", "name", "-o", "r.pdf"], ".html"),
        (["info"], "FILE"),
        (["info", "."], "."),
        (["nonsense"], "nonsense"),
    ],
)
def test_one_line_and_nothing_written(
    runner: CliRunner, table: str, tmp_path: Path, arguments: list[str], words: str
) -> None:
    before = sorted(path.name for path in tmp_path.iterdir())
    result = runner.invoke(main, arguments)
    assert result.exit_code == 2, (result.output, result.exception)
    assert isinstance(result.exception, SystemExit)
    errors = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
    assert len(errors) == 1
    assert result.stderr.rstrip().endswith(errors[0])
    assert words in errors[0]
    assert "Traceback" not in result.output
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_model_for_other_columns_names_what_is_missing(runner: CliRunner, table: str, tmp_path: Path) -> None:
    write(tmp_path / "other.csv", "csv", *example(20), ["a", "b", "c", "d", "z"])
    assert runner.invoke(main, ["fit", table, "--drop", "name,ring", "-o", "m.kpca"]).exit_code == 0
    result = runner.invoke(main, ["transform", "other.csv", "--model", "m.kpca", "-o", "s.csv"])
    assert result.exit_code == 2
    assert "'e'" in result.stderr
    assert not Path("s.csv").exists()
