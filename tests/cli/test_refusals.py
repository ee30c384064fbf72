"""What a user can get wrong becomes one line and exit code 2, with nothing written."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from command_files import example, write

from kpca._base.errors import InputError, Setting
from kpca.cli import main
from kpca.cli._command import in_options

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
        (["info", "."], "."),
        (["nonsense"], "nonsense"),
        (["fit", "t.csv", "--drop", "name,ring", "-o", "-"], ".kpca"),
        (["fit", "t.csv", "--drop", "name,ring", "--picture", "-"], ".png"),
        (["report", "t.csv", "--drop", "name,ring", "-o", "-"], ".html"),
        (["fit", "t.csv", "--drop", "name,ring", "--scores", "s.xyz"], ".parquet"),
        (["fit", "t.csv", "--label", "ring", "--id", "name", "--scores", "s.npy"], "'name'"),
        (["fit", "t.csv", "--drop", "name,ring", "--scores", "t.csv"], "read and written"),
        (["denoise", "t.csv", "--drop", "name,ring", "-o", "./t.csv"], "read and written"),
        (["denoise", "t.csv", "--drop", "name,ring", "-o", "folder"], ".parquet"),
        (["detect", "t.csv", "--drop", "name,ring", "-o", "t.csv"], "read and written"),
        (["detect", "-", "--normal", "-", "--drop", "name,ring"], "once"),
        (["fit", "t.csv", "--drop", "name,rings"], "--drop names"),
        (["fit", "t.csv", "--drop", "name,ring", "--gamma", "-1"], "--gamma must be positive"),
        (["fit", "t.csv", "--drop", "name,ring", "--seed", "-1"], "--seed must be a whole number from 0 to 2**32 - 1;"),
        (["fit", "t.csv", "--drop", "name,ring", "-k", "1.5"], "--components must be a whole number from 1,"),
        (["tune", "t.csv", "--drop", "name,ring", "--criterion", "knn"], "--label"),
        (["tune", "t.csv", "--drop", "name,ring", "--kernels", "rbff"], "--kernels"),
        (["fit", "t.csv", "--text", "ring", "--drop", "name", "--preimage", "auto"], "leave --preimage out"),
        (["denoise", "t.csv", "--text", "ring", "--drop", "name", "-o", "clean.csv"], "texts"),
        (["explain", "t.csv", "--text", "ring", "--drop", "name"], "--by permutation"),
        (["fit", "."], "."),
        (["fit", ""], "''"),
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


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (["report", "-k", "2"], "--components"),
        (["explain", "--kernel", "poly"], "--kernel"),
        (["denoise", "--scale", "none"], "--scale"),
        (["denoise", "--impute", "mean"], "--impute"),
        (["detect", "--confidence", "0.99"], "--confidence"),
        (["transform", "--id", "a"], "--id"),
    ],
)
def test_what_a_saved_model_has_settled_is_not_ignored(
    runner: CliRunner, table: str, arguments: list[str], option: str
) -> None:
    command, *settings = arguments
    maker = ["detect", "--save", "m.kpca"] if command == "detect" else ["fit", "--preimage", "ridge", "-o", "m.kpca"]
    assert runner.invoke(main, [*maker, table, "--drop", "name,ring"]).exit_code == 0
    result = runner.invoke(main, [command, table, "--model", "m.kpca", *settings])
    assert result.exit_code == 2
    assert result.stderr.startswith(f"Error: {option} must ")


def test_scores_of_a_larger_model_are_refused(runner: CliRunner, table: str) -> None:
    for count in ("2", "3"):
        made = ["fit", table, "--drop", "name,ring", "-k", count, "--preimage", "ridge", "-o", f"{count}.kpca"]
        assert runner.invoke(main, [*made, "--scores", f"{count}.csv"]).exit_code == 0
    result = runner.invoke(main, ["reconstruct", "3.csv", "--model", "2.kpca", "-o", "back.csv"])
    assert result.exit_code == 2
    assert "'kernelpca2'" in result.stderr
    assert not Path("back.csv").exists()


@pytest.mark.parametrize(
    ("command", "setting", "words"),
    [
        ("fit", Setting("memory_limit"), "--memory"),
        ("fit", Setting("memory_limit", "16MiB"), "--memory 16MiB"),
        ("fit", Setting("n_components", 200), "--components 200"),
        ("fit", Setting("approximation", "nystroem"), "--approximation nystroem"),
        ("fit", Setting("approximation", None), "--approximation none"),
        ("fit", Setting("size", (64, 48)), "--size 64x48"),
        ("fit", Setting("drop", ["a", "b"]), "--drop a,b"),
        ("fit", Setting("drop", "two words"), "--drop 'two words'"),
        ("fit", Setting("header", True), "--header"),
        ("fit", Setting("header", False), "--no-header"),
        ("detect", Setting("lags"), "--lags"),
        ("tune", Setting("y"), "--label"),
        ("compare", Setting("max_rows", 10), "--max-rows 10"),
        ("compare", Setting("random_state"), "--seed"),
        ("explain", Setting("by", "permutation"), "--by permutation"),
        ("transform", Setting("impute", "median"), "kpca fit --impute median"),  # an option of the command that fits
        ("fit", Setting("X"), "The data"),
    ],
)
def test_parameters_are_written_as_options(command: str, setting: Setting, words: str) -> None:
    with click.Context(main.commands[command], parent=click.Context(main)):
        assert in_options(setting) == words


def test_names_inside_of_other_words_stay() -> None:
    with click.Context(main.commands["fit"]):
        error = InputError("The values of the rbf kernel, RBF(gamma=0.5), must be finite.")
        assert error.told(in_options) == str(error)


@pytest.mark.parametrize(
    ("library", "arguments", "extra"),
    [("matplotlib", ["fit", "--picture", "p.png"], "kpca[plot]"), ("plotly", ["report"], "kpca[web]")],
)
def test_missing_library_is_noticed_before_the_fit(
    runner: CliRunner, table: str, monkeypatch: pytest.MonkeyPatch, library: str, arguments: list[str], extra: str
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == library else found(name, *rest)
    )
    command, *options = arguments
    result = runner.invoke(main, [command, table, "--drop", "name,ring", *options])
    assert result.exit_code == 2
    assert extra in result.stderr
    assert sorted(path.name for path in Path.cwd().iterdir()) == ["t.csv"]


def test_model_given_as_data_is_called_one(runner: CliRunner, tmp_path: Path) -> None:
    (tmp_path / "m.kpca").write_bytes(b"a model")
    result = runner.invoke(main, ["fit", "m.kpca"])  # whose output would be the same file
    assert result.exit_code == 2 and "is a model" in result.stderr
    assert (tmp_path / "m.kpca").read_bytes() == b"a model"


@pytest.mark.parametrize("command", ["fit", "detect", "tune", "report"])
def test_dates_in_a_file_are_named_with_what_to_do(runner: CliRunner, tmp_path: Path, command: str) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    when = pandas.date_range("2024-01-01", periods=40, freq="h")
    X, _ = example(40)
    frame = pandas.DataFrame(X, columns=NAMES).assign(when=when, lasting=when - when[0])
    frame.to_parquet(tmp_path / "d.parquet")
    done = runner.invoke(main, [command, "d.parquet"])
    assert done.exit_code == 2
    assert done.stderr.strip() == (
        "Error: d.parquet must hold numbers, or be told what to do with the other columns; 'when' (40 different "
        "values), 'lasting' (40 different values) hold texts or dates: name one with --label or --id, leave some out "
        "with --drop, or use --encode onehot."
    )
