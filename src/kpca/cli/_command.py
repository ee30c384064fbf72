"""Commands whose help is in sections, and the boundary where errors become one line and an exit code.

Exit codes: 0 all went well; 2 something the user can put right (a file, an option); 1 anything else that stopped it.
"""

from __future__ import annotations

import errno
import os
import re
import shlex
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from kpca._base.errors import Cancelled, InputError, InputWarning, Setting
from kpca._base.files import silence_stdout

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
_LAST = "Run"  # the section of what all commands have


class SectionOption(click.Option):
    """An option that knows under which heading of the help it stands, and for which parameters of Python.

    Options of one `group` reach the command together, as a dictionary of that name.
    """

    def __init__(
        self, *names: Any, section: str, group: str = "", stands_for: tuple[str, ...] = (), **settings: Any
    ) -> None:
        super().__init__(*names, **settings)
        self.section, self.group, self.stands_for = section, group, stands_for or (self.name,)


class SectionedCommand(click.Command):
    """A command whose options are listed under headings."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; messages name its options."""
        for option in self.params:
            if isinstance(option, SectionOption) and option.group:
                ctx.params.setdefault(option.group, {})[option.name] = ctx.params.pop(str(option.name))
        with _errors_in_one_line():
            return super().invoke(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, section by section in the order in which the sections first appear, `Run` at the end."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in sorted(self.get_params(ctx), key=lambda one: getattr(one, "section", _LAST) == _LAST):
            record = parameter.get_help_record(ctx) if isinstance(parameter, click.Option) else None
            if record is not None:
                sections.setdefault(getattr(parameter, "section", _LAST), []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


class Commands(click.Group):
    """The error boundary around all commands."""

    command_class = SectionedCommand

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order in which they are used, not in that of the alphabet."""
        return list(self.commands)

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Parse the command line; the help may meet a full disk as well."""
        with _errors_in_one_line():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; what a user can put right becomes one line on stderr and exit code 2."""
        at_home = threading.current_thread() is threading.main_thread()  # where alone signals can be handled
        # a polite kill cleans up as Ctrl-C does: what is half written goes away
        before = signal.signal(signal.SIGTERM, signal.default_int_handler) if at_home else None
        try:
            with _errors_in_one_line():
                return super().invoke(ctx)
        finally:
            if at_home:
                signal.signal(signal.SIGTERM, before)


class _Refused(click.ClickException):
    exit_code = 2


@contextmanager
def _errors_in_one_line() -> Iterator[None]:
    try:
        yield
    except (InputError, ImportError) as error:
        # where an optional library is missing, the message says which extra it is in
        if isinstance(error, ImportError) and "pip install" not in str(error):
            raise
        raise _Refused(one_line(error)) from error
    except Cancelled as error:
        raise click.ClickException(one_line(error)) from error
    except OSError as error:
        if error.errno == errno.EPIPE:  # nobody reads any more, which is no error
            raise
        if error.filename is None:
            silence_stdout()
        what = "Standard output" if error.filename is None else repr(os.fsdecode(error.filename))
        said = (error.strerror or str(error)).lower()
        raise _Refused(one_line(f"{what} must take what is written; the system says: {said}.")) from error
    except MemoryError as error:
        remedy = "give --memory a limit, or take --approximation nystroem"
        raise click.ClickException(f"There is not enough memory for this: {remedy}.") from error


def one_line(error: BaseException | str) -> str:
    """Return a message as one line without control characters, which a terminal would obey."""
    told = error.told(in_options) if isinstance(error, InputError | InputWarning) else str(error)
    words = " ".join(told.split())
    words = re.sub(r"'?[^\s']*kpca-\w+/standard input'?", "standard input", words)
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in words)


def in_options(setting: Setting) -> str:
    """Return a setting as the shell writes it, or as Python does where no option stands for it.

    A command that takes a model as it is has no options for the fit: they are those of `kpca fit`.
    """
    context = click.get_current_context(silent=True)
    own = [] if context is None else context.command.params
    fit = None if context is None else getattr(context.find_root().command, "commands", {}).get("fit")
    others = [] if fit is None or any(option.name == "impute" for option in own) else fit.params
    for option in [*own, *others]:
        if isinstance(option, SectionOption) and setting.name in option.stands_for:
            flag, value = ("" if option in own else "kpca fit ") + max(option.opts, key=len), setting.value
            if isinstance(value, bool):
                return flag if value else max(option.secondary_opts, key=len, default=f"no {flag}")
            if isinstance(value, tuple | list):
                value = ("x" if option.name == "size" else ",").join(map(str, value))
            return flag if value is ... else f"{flag} {'none' if value is None else shlex.quote(str(value))}"
    return "The data" if setting.name == "X" else str(setting)


_TREATMENT = ("text", "encode", "impute", "scale", "size")
_FILES = ("model", "normal", "save")


def check_settled() -> None:
    """Refuse options that a saved model has settled already: they would do nothing."""
    context = click.get_current_context()
    for parameter in context.command.params:
        name = str(parameter.name)
        settles = getattr(parameter, "section", "") == "Model" or name in _TREATMENT
        typed = context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
        if settles and typed and name not in _FILES:
            said = "must be left out beside --model, which keeps what it was fitted with"
            raise InputError(f"{max(parameter.opts, key=len)} {said}", remedy="leave it out, or fit a new model")
