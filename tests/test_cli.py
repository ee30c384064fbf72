"""The command `kpca`, called in this process, and the sessions in README.md."""

import doctest
import re
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import kpca
from kpca import demo
from kpca.cli import main

ROOT = Path(__file__).resolve().parents[1]
ROWS = "200"


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


@pytest.fixture
def no_race(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answer for the contenders, whose processes take seconds to start."""
    answers = {
        demo.CONTENDERS[0]: demo.Result(0.25, 3 * 2**20, [2.0, 1.0]),
        demo.CONTENDERS[1]: demo.Result(1234.5, 1500 * 2**20, [2.0, 1.001]),
        demo.CONTENDERS[2]: demo.Result(2.0, None, [2.0, 1.0]),
    }
    monkeypatch.setattr(demo, "race", lambda contender, rows, gamma: answers[contender])


def png_size(path: Path) -> tuple[int, int]:
    """Width and height of a PNG file, from its header."""
    content = path.read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    return int.from_bytes(content[16:20]), int.from_bytes(content[20:24])


def test_version() -> None:
    result = invoke("--version")
    assert result.exit_code == 0
    assert result.stdout == f"kpca, version {kpca.__version__}\n"


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_lists_the_commands(option: str) -> None:
    result = invoke(option)
    assert result.exit_code == 0
    assert re.search(r"^ +demo +Fit handwritten digits", result.stdout, re.MULTILINE)


def test_help_of_demo_hides_what_is_for_tests() -> None:
    result = invoke("demo", "--help")
    assert "--output" in result.stdout
    assert "kpca-demo.png" in result.stdout
    assert "--rows" not in result.stdout


def test_demo_as_a_user_sees_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = invoke("demo", "--rows", ROWS)
    assert result.exit_code == 0, result.output
    assert "200 images of handwritten digits, 64 pixels each" in result.stdout
    component = re.findall(r"^ +\d+ +\d+\.\d{4}(?: +\d+\.\d{4} %){3} +\de-\d\d *$", result.stdout, re.MULTILINE)
    assert len(component) == 10
    contender = re.findall(r"^ +(kpca|scikit-learn.*?)  +\d+\.\d\d s +(\S+ MiB|unknown)", result.stdout, re.MULTILINE)
    assert [name for name, _ in contender] == [contender.name for contender in demo.CONTENDERS]
    assert "The picture is in kpca-demo.png." in result.stdout
    width, height = png_size(tmp_path / "kpca-demo.png")
    assert 1000 < width < 3000
    assert 600 < height < 2000


@pytest.mark.usefixtures("no_race")
def test_race_table_shows_what_was_measured() -> None:
    lines = invoke("demo", "--rows", ROWS, "--no-picture").stdout.splitlines()
    shown = [" ".join(line.split()) for line in lines]
    assert "kpca 0.25 s 3 MiB" in shown
    assert 'scikit-learn, eigen_solver="auto" 1234.50 s 1,500 MiB 5e-04' in shown
    assert 'scikit-learn, eigen_solver="arpack" 2.00 s unknown 0e+00' in shown


@pytest.mark.usefixtures("no_race")
def test_no_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = invoke("demo", "--rows", ROWS, "--no-picture", "--output", "absent/picture.png")
    assert result.exit_code == 0
    assert "picture" not in result.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("no_race")
@pytest.mark.parametrize(("name", "start"), [("a.svg", b"<?xml"), ("a.pdf", b"%PDF")])
def test_picture_in_other_formats(tmp_path: Path, name: str, start: bytes) -> None:
    assert invoke("demo", "--rows", ROWS, "--output", str(tmp_path / name)).exit_code == 0
    assert (tmp_path / name).read_bytes().startswith(start)


@pytest.mark.usefixtures("no_race")
def test_without_matplotlib_the_tables_are_still_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = invoke("demo", "--rows", ROWS, "--output", str(tmp_path / "picture.png"))
    assert result.exit_code == 0
    assert "eigenvalue" in result.stdout
    assert "Pictures need matplotlib, which is not installed: pip install 'kpca[plot]'." in result.stdout
    assert list(tmp_path.iterdir()) == []


def one_line_of_error(result: Result) -> str:
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


def test_unwritable_path_is_found_before_the_computation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "load", lambda rows: pytest.fail("computed first"))
    result = invoke("demo", "--output", str(tmp_path / "absent" / "picture.png"))
    assert "cannot (No such file or directory)" in one_line_of_error(result)
    assert "must end in .png" in one_line_of_error(invoke("demo", "--output", str(tmp_path / "picture.txt")))


@pytest.mark.usefixtures("no_race")
def test_disk_that_fills_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", full)
    result = invoke("demo", "--rows", ROWS, "--output", str(tmp_path / "picture.png"))
    assert result.exit_code == 1
    assert "could not be written to" in result.stderr
    assert "No space left on device" in result.stderr


def test_input_error_is_one_line() -> None:
    assert "got a request for 7." in one_line_of_error(invoke("demo", "--no-picture", "--rows", "7"))


def test_unknown_command_is_a_usage_error() -> None:
    result = invoke("dmeo")
    assert result.exit_code == 2
    assert "No such command 'dmeo'" in result.stderr


# -- README.md ------------------------------------------------------------------------------------------------------

NUMBER = re.compile(r"-?\b\d+(?:\.\d*)?(?:e[+-]?\d+)?")


class CloseNumbers(doctest.OutputChecker):
    """Compares numbers as numbers: machines differ in the last digit shown, and rounding errors in all of theirs."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        if not super().check_output(NUMBER.sub("#", want), NUMBER.sub("#", got), optionflags):
            return False
        return all(map(self._close, NUMBER.findall(want), NUMBER.findall(got)))

    @staticmethod
    def _close(want: str, got: str) -> bool:
        if "e" in want:  # a residual: its magnitude is what the reader is told
            return 0.01 < float(got) / float(want) < 100
        return float(got) == pytest.approx(float(want), rel=2e-3)


def test_sessions_in_readme() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    sessions = "\n".join(re.findall(r"^```pycon\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    test = doctest.DocTestParser().get_doctest(sessions, {}, "README.md", "README.md", 0)
    assert len(test.examples) > 20
    runner = doctest.DocTestRunner(CloseNumbers(), optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    said: list[str] = []
    runner.run(test, out=said.append)
    assert not said, "".join(said)


def test_readme_checker_sees_a_wrong_number() -> None:
    checker = CloseNumbers()
    assert checker.check_output("[1.2346 2e-12]\n", "[1.2345 7e-13]\n", 0)
    assert not checker.check_output("2e-12\n", "3e-10\n", 0)
    assert not checker.check_output("[1.2346]\n", "[1.3346]\n", 0)
    assert not checker.check_output("[1.2346]\n", "[1.2346 1.0]\n", 0)
    assert not checker.check_output("converged: 4\n", "passes: 4\n", 0)


def test_make_targets_named_in_readme_exist() -> None:
    named = set(re.findall(r"\bmake ([a-z]+)\b", (ROOT / "README.md").read_text(encoding="utf-8")))
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert {"demo", "test"} <= named <= targets
