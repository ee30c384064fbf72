"""Files that do not fit into the memory limit: read in pieces, with models that keep nothing of each row."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from command_files import answered, ran

import kpca
from kpca.io import open_table

ROWS, COLUMNS = 200_000, 8
FIT = ("--approximation", "nystroem", "--rank", 40, "-k", 3)
LIMIT = "40MiB"  # of which prepared rows may take a quarter


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("large") / "rows.csv"
    X = np.random.default_rng(0).normal(size=(ROWS, COLUMNS)).round(3) * np.arange(1, COLUMNS + 1)
    names = ",".join(f"c{number}" for number in range(COLUMNS))
    lines = np.column_stack([np.arange(ROWS), X])
    np.savetxt(path, lines, fmt=["%d"] + ["%.3f"] * COLUMNS, delimiter=",", header=f"key,{names}", comments="")
    return path


@pytest.mark.slow
def test_fit_reads_in_pieces_and_keeps_no_rows(large: Path, runner: CliRunner) -> None:
    found = answered(runner, "fit", large, "--id", "key", *FIT, "--memory", LIMIT, "-o", "m.kpca", "--show-code")
    assert found["model"]["class"] == "IncrementalKernelPCA"
    assert "kpca.IncrementalKernelPCA(" in found["code"]
    assert Path("m.kpca").stat().st_size < 200_000
    ran(runner, "transform", large, "--model", "m.kpca", "--memory", LIMIT, "-o", "s.parquet")
    written = open_table("s.parquet", id="key").whole()
    np.testing.assert_array_equal(written.ids, np.arange(ROWS))
    table, pipeline = open_table(large, id="key"), kpca.load("m.kpca")
    rows = pipeline[0].prepare(table.whole())
    np.testing.assert_allclose(written.numbers, pipeline[-1].transform(rows.X), atol=1e-12)


def test_result_is_that_of_rows_in_memory(large: Path, runner: CliRunner) -> None:
    pieces = answered(runner, "fit", large, "--id", "key", *FIT, "--memory", LIMIT, "-o", "a.kpca")["model"]
    whole = answered(runner, "fit", large, "--id", "key", *FIT, "-o", "b.kpca")["model"]
    assert (pieces["class"], whole["class"]) == ("IncrementalKernelPCA", "KernelPCA")
    # other rows are drawn for the bandwidth and the landmarks, so they agree as two samples do
    np.testing.assert_allclose(pieces["explained_variance_ratio"], whole["explained_variance_ratio"], rtol=0.1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ("explain", *FIT),
        ("tune", "--kernels", "linear", "-k", "1,2", "-o", "best.kpca"),
        ("compare", "--methods", "PCA"),
    ],
    ids=lambda command: command[0],
)
def test_a_sample_stands_for_rows_without_room(large: Path, runner: CliRunner, command: tuple[object, ...]) -> None:
    name, *options = command
    found = answered(runner, name, large, "--id", "key", *options, "--memory", LIMIT)
    assert any("20,000 rows, drawn from all 200,000" in note for note in found["notes"])
    told = answered(runner, name, large, "--id", "key", *options)
    assert not any("drawn from all" in note for note in told["notes"])
