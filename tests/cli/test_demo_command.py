"""`kpca demo` as a user sees it, and what can go wrong with it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from command_files import answered, ran

from kpca.cli import main
from kpca.cli import tour as demo

ROWS = "200"


@pytest.fixture
def no_race(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answer for the contenders, whose processes take seconds to start."""
    found = [(0.25, 3 * 2**20, [2.0, 1.0]), (1234.5, 1500 * 2**20, [2.0, 1.001]), (2.0, None, [2.0, 1.0])]
    named = [dict(zip(("seconds", "peak_bytes", "eigenvalues"), figures, strict=True)) for figures in found]
    answers = dict(zip(demo.CONTENDERS, named, strict=True))
    monkeypatch.setattr(demo, "race", lambda contender, rows, gamma: answers[contender])


@pytest.fixture
def no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out what has tests of its own and takes seconds."""
    monkeypatch.setattr("kpca.cli.tour.write_page", lambda path: path.write_text("page"))


@pytest.mark.slow
def test_tour_as_a_user_sees_it(runner: CliRunner, tmp_path: Path) -> None:
    shown = ran(runner, "demo", "--rows", ROWS).stdout
    assert "200 images of handwritten digits, 64 pixels each" in shown
    component = re.findall(r"^ +\d+ +\d+\.\d{4}(?: +\d+\.\d{4} %){3} +\de-\d\d *$", shown, re.MULTILINE)
    assert len(component) == 10
    contender = re.findall(r"^ +(kpca|scikit-learn.*?)  +\d+\.\d\d s +(\S+ MiB|unknown)", shown, re.MULTILINE)
    assert [name for name, _ in contender] == list(demo.CONTENDERS)
    assert [step for step in re.findall(r"^(\d)\. [A-Z]", shown, re.MULTILINE)] == list("12345")
    before, after, by_pca = map(float, re.findall(r"0\.\d{3}", shown.split("3. Denoise")[1])[:3])
    assert after < by_pca < before
    assert "most of it comes from flavanoids" in " ".join(shown.split())
    assert str(Path("kpca-demo") / "report.html") in shown
    folder = tmp_path / "kpca-demo"
    assert sorted(path.name for path in folder.iterdir()) == ["denoised.png", "map.png", "report.html"]
    assert (folder / "map.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.slow
@pytest.mark.usefixtures("no_race", "no_page")
def test_race_table_shows_what_was_measured(runner: CliRunner) -> None:
    shown = [" ".join(line.split()) for line in ran(runner, "demo", "--rows", ROWS).stdout.splitlines()]
    assert "kpca 0.25 s 3 MiB" in shown
    assert 'scikit-learn, eigen_solver="auto" 1234.50 s 1,500 MiB 5e-04' in shown
    assert 'scikit-learn, eigen_solver="arpack" 2.00 s unknown 0e+00' in shown
    found = answered(runner, "demo", "--rows", ROWS)
    assert found["race"]["kpca"]["seconds"] == 0.25
    assert found["odd"]["found"] == "flavanoids"


@pytest.mark.parametrize(
    ("arguments", "words"), [(["--rows", "7"], "got a request for 7."), (["-o", "no/such"], "no/such")]
)
def test_refusals(runner: CliRunner, tmp_path: Path, arguments: list[str], words: str) -> None:
    result = runner.invoke(main, ["demo", *arguments])
    assert result.exit_code == 2
    assert words in result.stderr
    assert list(tmp_path.iterdir()) == []
