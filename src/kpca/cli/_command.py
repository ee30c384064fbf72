"""Commands whose help is in sections, and the boundary where errors become one line and an exit code.

Exit codes: 0 all went well; 2 something the user can put right (a file, an option); 1 anything else that stopped it.
"""

from __future__ import annotations

import re
import signal
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from kpca.errors import Cancelled, InputError

BAD_INPUT = 2
CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class SectionOption(click.Option):
    """An option that knows under which heading of the help it stands."""

    def __init__(self, *args: Any, section: str = "Options", **kwargs: Any) -> None:
        self.section = section
        super().__init__(*args, **kwargs)


class SectionedCommand(click.Command):
    """A command whose options are listed under headings."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, section by section in the order in which the sections first appear."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                sections.setdefault(getattr(parameter, "section", "Run"), []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


class Commands(click.Group):
    """The error boundary around all commands."""

    command_class = SectionedCommand

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order in which they are used, not in that of the alphabet."""
        return list(self.commands)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; what a user can put right becomes one line on stderr and exit code 2."""
        with _errors_in_one_line(), _stopped_like_ctrl_c():
            return super().invoke(ctx)


class _Refused(click.ClickException):
    exit_code = BAD_INPUT


@contextmanager
def _errors_in_one_line() -> Iterator[None]:
    try:
        yield
    except InputError as error:
        raise _Refused(_line(error)) from error
    except ImportError as error:
        # an optional library that is not installed: the message says which extra has it
        if "pip install" not in str(error):
            raise
        raise _Refused(_line(error)) from error
    except Cancelled as error:
        raise click.ClickException(_line(error)) from error
    except MemoryError as error:
        raise click.ClickException(
            "There is not enough memory for this: give --memory a limit, or take --approximation nystroem."
        ) from error


def _line(error: BaseException) -> str:
    """Return a message as one line without control characters, which a terminal would obey."""
    words = _in_options(" ".join(str(error).split()))
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in words)


# Arguments of Python that are options here, as messages of the package name them.
_OPTIONS = "approximation|preimage|kernel|gamma|scale|encode|impute|array|header|delimiter|statistic|confidence|lags"


def _in_options(text: str) -> str:
    """Return a message with what it says of Python's arguments said of options."""
    text = re.sub(r'kpca\.config\(memory_limit="?([\w.]+)"?\)', r"--memory \1", text)
    text = re.sub(r"kpca\.config\((memory_limit|threads)=\.\.\.\)", lambda found: _FLAGS[found[1]], text)
    text = text.replace("size=(height, width)", "--size HEIGHTxWIDTH")
    text = re.sub(rf"\b({_OPTIONS})=['\"]([\w-]+)['\"]", r"--\1 \2", text)
    return re.sub(r"\bmemory_limit\b|\bn_components\b|\brandom_state\b", lambda found: _FLAGS[found[0]], text)


_FLAGS = {"memory_limit": "--memory", "threads": "--threads", "n_components": "--components", "random_state": "--seed"}


@contextmanager
def _stopped_like_ctrl_c() -> Iterator[None]:
    """Let a polite kill clean up as Ctrl-C does: what is half written goes away."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def warnings_as_notes(heard: list[str], *, quiet: bool) -> Iterator[None]:
    """Collect warnings, each once, and print them as notes on stderr."""

    def note(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        text = _line(message) if isinstance(message, Warning) else " ".join(message.split())
        if text in heard or issubclass(category, DeprecationWarning | PendingDeprecationWarning):
            return
        heard.append(text)
        if not quiet:
            click.echo(f"Note: {text}", err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = note
        yield


def is_terminal(stream: Any) -> bool:
    """Return True if somebody looks at what is written there."""
    return bool(getattr(stream, "isatty", lambda: False)())


def stdout_is_taken(*paths: str | None) -> bool:
    """Return True if one of the outputs goes to standard output, where nothing else may then be printed."""
    return any(path == "-" for path in paths)
