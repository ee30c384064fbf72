"""What README.md and docs/ say: sessions give what they show, commands and targets exist."""

import doctest
import re
import shlex
from pathlib import Path

import pytest

from kpca.cli import main

ROOT = Path(__file__).resolve().parents[1]
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


def test_sessions_in_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the sessions write files
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


def commands_in(text: str) -> list[str]:
    """The lines of a text that call kpca, without what follows a pipe or a comment."""
    lines = re.findall(r"^ {4,}(?:[^|\n]*\| )?(kpca .*)$", text, re.MULTILINE)
    return [re.split(r" [|>#] ?| {2,}#", line)[0] for line in lines]


@pytest.mark.parametrize("file", ["README.md", "docs/commands.md"])
def test_commands_that_are_shown_exist(file: str) -> None:
    shown = commands_in((ROOT / file).read_text(encoding="utf-8"))
    assert len(shown) > 2
    for line in shown:
        name, *arguments = shlex.split(line)[1:]
        command = main.commands[name]
        command.make_context(name, arguments)  # refuses options that there are not


def test_every_command_is_in_the_guide() -> None:
    text = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    assert all(f"| `{name}" in text for name in main.commands)
