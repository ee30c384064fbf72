"""Every command on CSV, Parquet and NPY, from the file to the result, and what it says of itself."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from command_files import Files, answered, example, ran, write
from scipy import sparse

import kpca
from kpca.cli import main
from kpca.io import open_table
from kpca.kernels import profiles
from kpca.preimage.back import METHODS

COMMANDS = [
    "report",
    "fit",
    "transform",
    "denoise",
    "reconstruct",
    "tune",
    "explain",
    "detect",
    "compare",
    "info",
    "export",
    "demo",
]


def read_csv(text: str) -> tuple[list[str], list[list[str]]]:
    header, *rows = list(csv.reader(text.splitlines()))
    return header, rows


@pytest.fixture
def model(files: Files, runner: CliRunner) -> str:
    ran(runner, "fit", files.rows, *files.roles, "-k", 3, "--preimage", "ridge", "-o", "model.kpca", "-q")
    return "model.kpca"


def scores_by_hand(files: Files, X: np.ndarray, k: int = 3) -> np.ndarray:
    """The scores of rows by the shortest way in Python: standardise, then kernel PCA."""
    mean, deviation = files.X.mean(axis=0), files.X.std(axis=0)
    pca = kpca.KernelPCA(k, kernel="rbf", gamma="median", random_state=0).fit((files.X - mean) / deviation)
    return np.asarray(pca.transform((X - mean) / deviation))


# -- fit and transform ------------------------------------------------------------------------------------------------


def test_fit_gives_the_model_that_python_gives(files: Files, runner: CliRunner) -> None:
    found = answered(runner, "fit", files.rows, *files.roles, "-k", 3, "--scores", "scores.csv", "--picture", "p.png")
    assert found["outputs"] == {"model": "rows.kpca", "scores": "scores.csv", "picture": "p.png"}
    assert found["model"]["n_components"] == 3
    assert found["data"]["rows"] == 90
    assert Path("p.png").read_bytes()[:4] == b"\x89PNG"
    header, rows = read_csv(Path("scores.csv").read_text())
    beside = ["name", "ring"] if files.labelled else []
    assert header == [*beside, "kernelpca0", "kernelpca1", "kernelpca2"]
    if files.labelled:
        assert [row[0] for row in rows] == [f"row {number}" for number in range(90)]
        assert {row[1] for row in rows} == {"inner", "outer"}
    scores = np.array([row[len(beside) :] for row in rows], dtype=float)
    np.testing.assert_allclose(scores, scores_by_hand(files, files.X), atol=1e-8)


def test_new_rows_are_treated_as_those_of_the_fit(files: Files, runner: CliRunner, model: str) -> None:
    result = ran(runner, "transform", files.new, "--model", model)
    _, rows = read_csv(result.stdout)
    beside = 2 if files.labelled else 0
    assert len(rows) == 30
    scores = np.array([row[beside:] for row in rows], dtype=float)
    np.testing.assert_allclose(scores, scores_by_hand(files, example(30, seed=1)[0]), atol=1e-8)


@pytest.mark.parametrize("suffix", ["csv", "tsv", "csv.gz", "parquet", "feather", "npz", "zarr", "h5ad"])
def test_ids_and_labels_come_back_in_every_format(files: Files, runner: CliRunner, model: str, suffix: str) -> None:
    target = f"scores.{suffix}"
    ran(runner, "transform", files.new, "--model", model, "-o", target)
    roles = {"id": "name", "label": "ring"} if files.labelled else {}
    rows = open_table(target, **roles).whole()
    np.testing.assert_allclose(rows.numbers, scores_by_hand(files, example(30, seed=1)[0]), atol=1e-8)
    if files.labelled:
        assert [str(one) for one in rows.ids[:2]] == ["row 0", "row 1"]
        assert {str(one) for one in rows.labels} == {"inner", "outer"}


def test_columns_may_come_in_another_order(runner: CliRunner, tmp_path: Path) -> None:
    X, ring = example()
    write(tmp_path / "a.csv", "csv", X, ring, ["a", "b", "c", "d", "e"])
    write(tmp_path / "b.csv", "csv", X[:, ::-1], ring, ["e", "d", "c", "b", "a"])
    ran(runner, "fit", "a.csv", "--drop", "name,ring", "-o", "m.kpca")
    first, second = (ran(runner, "transform", name, "--model", "m.kpca").stdout for name in ("a.csv", "b.csv"))
    assert first == second


@pytest.mark.slow
def test_standard_input_and_output(files: Files, model: str, tmp_path: Path) -> None:
    code = [sys.executable, "-m", "kpca", "transform", "-", "--model", model]
    with open(files.new, "rb") as file:
        done = subprocess.run(code, stdin=file, capture_output=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    plain = subprocess.run([*code[:4], str(files.new), *code[5:]], capture_output=True, cwd=tmp_path, check=True)
    assert done.stdout == plain.stdout


def test_rows_that_are_left_out_are_told_and_others_keep_their_ids(runner: CliRunner, tmp_path: Path) -> None:
    X, ring = example(40)
    X[[3, 7], [0, 2]] = np.nan
    write(tmp_path / "gaps.csv", "csv", X, ring, ["a", "b", "c", "d", "e"])
    X[:, 1] = np.nan
    write(tmp_path / "empty.csv", "csv", X, ring, ["a", "b", "c", "d", "e"])
    roles = ["--label", "ring", "--id", "name", "--impute", "drop"]
    ran(runner, "fit", "gaps.csv", *roles, "--preimage", "ridge", "-o", "m.kpca", "-q")
    ran(runner, "detect", "gaps.csv", *roles, "--save", "d.kpca", "-q")
    left = [f"row {number}" for number in range(40) if number not in (3, 7)]
    for command, model in (("transform", "m.kpca"), ("denoise", "m.kpca"), ("detect", "d.kpca")):
        found = answered(runner, command, "gaps.csv", "--model", model, "-o", "out.csv")
        assert found["notes"] == ["2 of 40 rows were left out, because values are missing in them."]
        header, rows = read_csv(Path("out.csv").read_text())
        assert [row[header.index("name")] for row in rows] == left
        refused = runner.invoke(main, [command, "empty.csv", "--model", model, "-o", "none.csv"])
        assert refused.exit_code == 2, refused.output
        assert "at least one row without missing values" in refused.stderr
        assert not Path("none.csv").exists()
    assert "Scores of 38 rows" in ran(runner, "transform", "gaps.csv", "--model", "m.kpca", "-o", "out.csv").stdout


@pytest.mark.parametrize("kind", ["text", "sparse"])
def test_report_of_what_has_no_way_back(runner: CliRunner, kind: str) -> None:
    if kind == "sparse":
        sparse.save_npz("rows.npz", sparse.random(40, 12, 0.3, format="csr", random_state=0))
        ran(runner, "report", "rows.npz", "-k", 2, "-o", "page.html")
    else:
        words = ["kernel of the matrix", "matrix of the rows", "rows and columns", ""]
        Path("rows.csv").write_text("\n".join(["review", *(f'"{word}"' for word in words * 10)]))
        ran(runner, "report", "rows.csv", "--text", "review", "-k", 2, "-o", "page.html")
    assert Path("page.html").stat().st_size > 0


# -- the way back -----------------------------------------------------------------------------------------------------


def test_denoise_is_in_the_units_of_the_file(files: Files, runner: CliRunner, model: str) -> None:
    ran(runner, "denoise", files.rows, *files.roles, "--model", model, "-o", "clean.parquet")
    roles = {"id": "name", "label": "ring"} if files.labelled else {}
    table = open_table("clean.parquet", **roles)
    assert list(table.layout.numbers) == files.names
    clean = table.whole().numbers
    pipeline = kpca.load(model)
    expected = pipeline[-1].denoise(pipeline[0].transform(open_table(files.rows, **roles)))
    back = expected * files.X.std(axis=0) + files.X.mean(axis=0)
    np.testing.assert_allclose(clean, back, rtol=1e-8, atol=1e-8 * np.abs(back).max())


def test_denoise_without_a_model_fits_one(files: Files, runner: CliRunner) -> None:
    found = answered(runner, "denoise", files.rows, *files.roles, "-k", 4, "-o", "clean.csv")
    assert 0 < found["removed"] < 1


def test_scores_back_to_data(files: Files, runner: CliRunner, model: str) -> None:
    ran(runner, "transform", files.rows, "--model", model, "-o", "scores.parquet")
    arguments = ("reconstruct", "scores.parquet", "--model", model, "--original", files.rows, "-o", "back.csv")
    found = answered(runner, *arguments)
    assert found["rows"] == 90
    assert found["size_ratio"] == pytest.approx(3 / 5)
    back = open_table("back.csv", **({"id": "name", "label": "ring"} if files.labelled else {})).whole().numbers
    scaled = (np.asarray(back) - files.X) / files.X.std(axis=0)
    assert found["lost"] == pytest.approx(np.square(scaled).sum() / files.X.size, rel=1e-6)


def test_original_may_be_one_array_of_many(runner: CliRunner) -> None:
    X, _ = example(30)
    np.savez("many.npz", first=X, second=2 * X)
    ran(runner, "fit", "many.npz", "--array", "first", "-k", 3, "--preimage", "ridge", "-o", "m.kpca", "-q")
    ran(runner, "transform", "many.npz", "--array", "first", "--model", "m.kpca", "-o", "scores.csv")
    arguments = ("--model", "m.kpca", "--original", "many.npz", "--array", "first", "-o", "back.csv", "--show-code")
    found = answered(runner, "reconstruct", "scores.csv", *arguments)
    assert 0 < found["lost"] < 1
    assert "open_table('scores.csv')" in found["code"]


def test_model_without_a_way_back_says_what_to_do(files: Files, runner: CliRunner) -> None:
    ran(runner, "fit", files.rows, *files.roles, "-o", "m.kpca", "-q")
    result = runner.invoke(main, ["denoise", str(files.rows), "--model", "m.kpca", "-o", "clean.csv"])
    assert result.exit_code == 2
    assert "--preimage auto" in result.stderr
    assert not Path("clean.csv").exists()


# -- choosing, explaining, watching -----------------------------------------------------------------------------------


def test_tune_saves_the_best(files: Files, runner: CliRunner) -> None:
    arguments = ("--kernels", "linear,rbf", "-k", "1,2", "--bandwidths", 3, "-o", "best.kpca")
    found = answered(runner, "tune", files.rows, *files.roles, *arguments)
    assert found["best"]["kernel"] in ("linear", "rbf")
    assert kpca.load("best.kpca")[-1].n_components_ == found["best"]["n_components"]
    assert len(ran(runner, "transform", files.new, "--model", "best.kpca").stdout.splitlines()) == 31


@pytest.mark.parametrize("by", ["gradient", "permutation"])
def test_explain_names_the_columns(files: Files, runner: CliRunner, by: str) -> None:
    arguments = ("-k", 2, "--by", by, "-o", "why.csv", "--picture", "why.svg")
    found = answered(runner, "explain", files.rows, *files.roles, *arguments)
    assert list(found["columns"]) == files.names
    header, rows = read_csv(Path("why.csv").read_text())
    assert header == ["column", "overall", "component 1", "component 2"]
    assert [row[0] for row in rows] == files.names
    assert Path("why.svg").read_bytes().startswith(b"<?xml")


def test_detect_finds_a_planted_row(files: Files, runner: CliRunner, tmp_path: Path) -> None:
    X, ring = example(30, seed=1)
    X[7] += np.array([0.0, 0.0, 2000.0, 0.0, 0.0])
    odd = tmp_path / f"odd.{files.kind}"
    write(odd, files.kind, X, ring, files.names)
    arguments = ("--normal", files.rows, "--save", "d.kpca", "-o", "alarms.csv", "--picture", "chart.png")
    found = answered(runner, "detect", odd, *files.roles, *arguments)
    assert found["top"][0]["row"] == 7
    assert found["top"][0]["causes"][0] == files.names[2]
    header, rows = read_csv(Path("alarms.csv").read_text())
    assert header[-8:] == ["alarm", "cause 1", "cause 2", "cause 3", "t2", "spe", "combined", "limit"]
    assert rows[7][header.index("alarm")] == "1"
    again = answered(runner, "detect", odd, "--model", "d.kpca")
    assert again["beyond"] == found["beyond"]
    assert again["limit"] == found["limit"]


def test_detect_leaves_sparse_rows_as_they_are(runner: CliRunner) -> None:
    rows = sparse.random(60, 8, 0.5, format="csr", random_state=0)
    sparse.save_npz("rows.npz", rows)
    ran(runner, "detect", "rows.npz", "--save", "d.kpca", "-q")
    assert kpca.load("d.kpca")[-1].scale is None
    ran(runner, "detect", "rows.npz", "--scale", "standard", "--save", "d.kpca", "-q")
    assert kpca.load("d.kpca")[-1].scale == "standard"


def test_compare_methods(files: Files, runner: CliRunner) -> None:
    arguments = ("--methods", "PCA,kernel PCA", "-o", "methods.csv", "--picture", "maps.png")
    found = answered(runner, "compare", files.rows, *files.roles, *arguments)
    assert [entry["name"] for entry in found["methods"]] == ["PCA", "kernel PCA"]
    assert len(read_csv(Path("methods.csv").read_text())[1]) == 2


def test_report_of_data_and_of_a_saved_model(files: Files, runner: CliRunner, model: str) -> None:
    ran(runner, "report", files.rows, *files.roles, "-k", 3, "--preimage", "ridge", "-o", "page.html")
    page = Path("page.html").read_text(encoding="utf-8")
    assert page.lower().startswith("<!doctype html>")
    assert "rows." in page
    ran(runner, "report", files.new, "--model", model, "-o", "new.html")
    assert Path("new.html").stat().st_size < 8 * 2**20


def test_info_of_data_and_of_a_model(files: Files, runner: CliRunner, model: str) -> None:
    found = answered(runner, "info", files.rows)
    assert {column["name"] for column in found["columns"]} >= set(files.names)
    assert found["data"]["rows"] == 90
    told = answered(runner, "info", model)
    assert told["model"]["n_components"] == 3
    assert told["about"]["data"]["sha256"] == found["data"]["sha256"]


def test_export_to_onnx_and_to_a_card(files: Files, runner: CliRunner, model: str) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    ran(runner, "export", model, "-o", "m.onnx")
    session = onnxruntime.InferenceSession("m.onnx")
    X = example(30, seed=1)[0]
    (scores,) = session.run(None, {session.get_inputs()[0].name: X})
    np.testing.assert_allclose(scores, scores_by_hand(files, X), atol=1e-8)
    ran(runner, "export", model, "-o", "m.md")
    assert "rbf" in Path("m.md").read_text(encoding="utf-8").lower()


def test_export_of_a_detector(files: Files, runner: CliRunner) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    ran(runner, "detect", files.new, *files.roles, "--normal", files.rows, "--save", "d.kpca", "-o", "found.csv")
    ran(runner, "export", "d.kpca", "-o", "d.onnx")
    session = onnxruntime.InferenceSession("d.onnx")
    statistic, label = session.run(["combined", "predict"], {"X": example(30, seed=1)[0]})
    found = list(csv.DictReader(Path("found.csv").read_text(encoding="utf-8").splitlines()))
    np.testing.assert_allclose(statistic, [float(row["combined"]) for row in found], rtol=1e-6)
    np.testing.assert_array_equal(label == -1, [row["alarm"] == "1" for row in found])


# -- what commands say of themselves ----------------------------------------------------------------------------------


def test_help_lists_every_command(runner: CliRunner) -> None:
    text = ran(runner, "--help").stdout
    assert all(f"\n  {command} " in text for command in COMMANDS)
    assert list(main.commands) == COMMANDS or set(main.commands) == set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_has_no_gap(runner: CliRunner, command: str) -> None:
    for option in ("-h", "--help"):
        text = ran(runner, command, option).stdout
        assert "Usage:" in text
    for parameter in [one for one in main.commands[command].params if one.param_type_name == "option"]:
        assert getattr(parameter, "hidden", False) or getattr(parameter, "help", None), parameter.name


@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_in_sections(runner: CliRunner, command: str) -> None:
    text = ran(runner, command, "--help").stdout
    sections = [line for line in text.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert sections[-1] == "Run:"
    assert "Options:" not in sections
    assert "\n  FILE\n" not in text
    if command in ("fit", "report", "denoise", "explain"):
        assert set(sections) >= {"Model:", "Data:", "Output:"}


def test_help_starts_without_the_libraries() -> None:
    code = "import sys; from kpca.cli import main; main(['--help'], standalone_mode=False); print(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = done.stdout.splitlines()[-1]
    assert not any(f"'{name}'" in loaded for name in ("numpy", "scipy", "sklearn", "rich", "pyarrow"))


def test_every_inverse_map_of_the_library_can_be_asked_for() -> None:
    preimage = next(option for option in main.commands["fit"].params if option.name == "preimage")
    assert preimage.type.choices == ("none", *METHODS)


def test_quiet_says_nothing(files: Files, runner: CliRunner) -> None:
    result = ran(runner, "fit", files.rows, *files.roles, "-q")
    assert result.output == ""


def test_colours_only_where_somebody_looks(files: Files, runner: CliRunner) -> None:
    assert "\x1b" not in ran(runner, "fit", files.rows, *files.roles).output


def test_completion_script(tmp_path: Path) -> None:
    environment = {**os.environ, "_KPCA_COMPLETE": "zsh_source"}
    done = subprocess.run(
        [Path(sys.executable).with_name("kpca")], capture_output=True, text=True, env=environment, check=False
    )
    assert "compdef" in done.stdout


def test_version(runner: CliRunner) -> None:
    assert ran(runner, "--version").stdout == f"kpca, version {kpca.__version__}\n"


def test_json_and_data_cannot_share_standard_output(files: Files, runner: CliRunner, model: str) -> None:
    result = runner.invoke(main, ["transform", str(files.new), "--model", model, "--json"])
    assert result.exit_code == 2
    assert "--json" in result.stderr


@pytest.mark.parametrize("columns", ["40", "200"])
def test_numbers_are_whole_on_any_terminal(
    files: Files, runner: CliRunner, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    found = answered(runner, "fit", files.rows, *files.roles, "-k", 2)["model"]
    shown = ran(runner, "fit", files.rows, *files.roles, "-k", 2).stdout
    for value, share in zip(found["eigenvalues"], found["explained_variance_ratio"], strict=True):
        assert f" {value:.4g} " in shown
        assert f" {100 * share:.2f} % " in shown
    table = ran(runner, "info", files.rows).stdout
    assert all(name in table for name in files.names)


# -- the code that does the same --------------------------------------------------------------------------------------


def test_shown_code_writes_the_same_files(files: Files, runner: CliRunner, tmp_path: Path) -> None:
    first = ["fit", files.rows, *files.roles, "-k", 3, "--preimage", "ridge", "-o", "m.kpca", "--scores", "s.csv"]
    runs = [
        first,
        ["transform", files.new, "--model", "m.kpca", "-o", "t.csv"],
        ["denoise", files.new, "--model", "m.kpca", "-o", "d.csv"],
        ["reconstruct", "t.csv", "--model", "m.kpca", "--original", files.new, "-o", "r.csv"],
        ["detect", files.new, *files.roles, "--normal", files.rows, "-o", "a.csv", "--save", "d.kpca"],
        ["explain", files.rows, *files.roles, "-k", 2, "-o", "e.csv"],
        ["export", "m.kpca", "-o", "m.md"],
    ]
    for arguments in runs:
        target = str(arguments[arguments.index("--scores" if "--scores" in arguments else "-o") + 1])
        found = answered(runner, *arguments, "--show-code")
        written = (tmp_path / target).read_bytes()
        (tmp_path / target).unlink()
        namespace: dict[str, object] = {}
        exec(compile(found["code"], "shown", "exec"), namespace)
        assert (tmp_path / target).read_bytes() == written, (arguments, found["code"])


def test_shown_code_opens_a_folder_of_images(runner: CliRunner, tmp_path: Path) -> None:
    images = pytest.importorskip("PIL.Image")
    (tmp_path / "pictures").mkdir()
    grey = np.random.default_rng(0).integers(0, 255, (12, 4, 4), dtype=np.uint8)
    for number, pixels in enumerate(grey):
        images.fromarray(pixels).save(tmp_path / "pictures" / f"{number:02}.png")
    ran(runner, "fit", "pictures", "-k", 2, "-o", "m.kpca", "-q")
    found = answered(runner, "transform", "pictures", "--model", "m.kpca", "-o", "s.csv", "--show-code")
    written = Path("s.csv").read_bytes()
    Path("s.csv").unlink()
    exec(compile(found["code"], "shown", "exec"), {})
    assert Path("s.csv").read_bytes() == written


def test_shown_code_is_printed_after_the_result(files: Files, runner: CliRunner) -> None:
    text = ran(runner, "info", files.rows, "--show-code").stdout
    assert text.rstrip().endswith("print(column)")
    found = json.loads(ran(runner, "info", files.rows, "--json").stdout)
    assert "code" not in found


def test_info_without_a_file_says_what_computes_here(runner: CliRunner) -> None:
    assert f"Kernel values: by {profiles.in_use()}." in ran(runner, "info").stdout
