"""One run of a command: what it writes and prints where, the bar while it works, and the Python that does the same."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import re
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import click

from kpca._base.errors import InputError
from kpca.cli._command import one_line

if TYPE_CHECKING:
    from rich.console import Console

PICTURES = (".png", ".svg", ".pdf")
PAGES = (".html", ".htm")
MODELS = (".kpca",)
# what outputs are made with, so that its absence is noticed before a long fit and not after it
_NEEDED = {
    PICTURES: ("matplotlib", "Pictures need matplotlib", "plot"),
    PAGES: ("plotly", "A report needs plotly", "web"),
}
_NARROWEST = 12  # letters of a column of texts, however narrow the terminal


class Run:
    """What a command prints: results on stdout, everything else on stderr.

    `reads` are the files it reads; `data` is where rows go, - for stdout, which results must then leave alone.
    """

    def __init__(self, options: dict[str, Any], *, reads: Sequence[str | None] = (), data: str | None = None) -> None:
        if list(reads).count("-") > 1:
            raise click.UsageError("Standard input can be read only once: give - for one file, names for the others.")
        if data == "-" and sys.stdout is None:
            raise click.UsageError("Standard output is closed: give -o a file.")
        if data == "-" and options["json"]:
            raise click.UsageError("--json and an output to - both want standard output: give -o a file.")
        self.seed, self._options, self._taken = int(options["seed"]), options, data == "-"
        self._speaks = not (options["json"] or options["quiet"])  # whether results are printed for people
        self._reads = [path for path in reads if path is not None and path != "-"]
        self.script = Script(memory_limit=options["memory"], threads=options["threads"])
        self._started = time.perf_counter()
        self._notes: list[str] = []
        self._outputs: dict[str, tuple[str, str | None]] = {}  # what is said of each in the end, and its path
        self._bar: _Bar | None = None

    # -- outputs, checked before anything is computed --

    def will_write(self, path: str | None, suffixes: Sequence[str] = (), **called: str) -> None:
        """Refuse a path that nothing can be written to, so that hours of work are not lost at their end.

        Files that are read are not written to: a slip of the hand must not cost somebody the data. What the output is
        `called` in JSON, and how people are told of it, is kept for the end, as in `model="The model is"`.
        """
        self._outputs |= {name: (words, path) for name, words in called.items()}
        if path is None or (path == "-" and not suffixes):
            return
        if suffixes and os.path.splitext(path)[1].lower() not in suffixes:
            raise InputError(f"The name of this output must end in {' or '.join(suffixes)}; got {path!r}: rename it.")
        library, what, extra = _NEEDED.get(tuple(suffixes), ("sys", "", ""))
        if importlib.util.find_spec(library) is None:
            raise InputError(f"{what}, which is not installed: pip install 'kpca[{extra}]'.")
        for file in self._reads if os.path.exists(path) else ():
            if os.path.exists(file) and os.path.samefile(path, file):
                if file == self._reads[0] and file.endswith(".kpca"):  # the data, and their default output
                    raise InputError(f"{path!r} is a model: give the data it is to be used on.")
                raise InputError(f"{path!r} must not be read and written at once: give the output another name.")
        folder = os.path.dirname(os.path.abspath(path))
        if not os.path.isdir(folder):
            raise InputError(f"The folder of {path!r} must exist; there is no {folder!r}: make it first.")
        if os.path.isdir(path) and suffixes:
            raise InputError(f"{path!r} must be a file or new; it is a folder: choose another name.")
        if not os.access(folder, os.W_OK) or (os.path.exists(path) and not os.access(path, os.W_OK)):
            raise InputError(f"{path!r} must be writable; no permission: choose another place.")

    def will_write_table(
        self, path: str | None, *, beside: str | None = None, folder: bool = False, **called: str
    ) -> None:
        """Refuse a path that no table can be written to; `beside` is a column of ids or labels that goes with it."""
        from kpca.data.formats import FORMATS, by_name

        format = None if path is None else by_name(path)[0]
        if path not in (None, "-") and format is None and not (folder and not os.path.splitext(str(path))[1]):
            ends = ", ".join(f".{name}" for name in FORMATS)
            new = ", or be that of a new folder for images" if folder else ""
            raise InputError(f"The name of this output must end in {ends}{new}; got {path!r}: rename it.")
        if format == "npy" and beside is not None:
            said = f"{path!r} can hold one array of numbers only, and no column {beside!r} beside it"
            raise InputError(said, remedy="write .npz, .csv or .parquet instead")
        self.will_write(path, **called)

    # -- the work --

    @contextmanager
    def working(self, what: str) -> Iterator[None]:
        """Apply the settings, and show a bar while the work is done, if somebody looks."""
        from kpca._base.config import config

        given: dict[str, Any] = dict(self.script.settings)
        with ExitStack() as stack:
            stack.enter_context(warnings.catch_warnings())
            warnings.simplefilter("always")
            warnings.showwarning = self._note
            if not self._options["quiet"] and sys.stderr.isatty():
                self._bar = _Bar(what)
                stack.enter_context(self._bar.progress)
                stack.callback(setattr, self, "_bar", None)
                given["progress"] = self._bar.heard
            stack.enter_context(config(**given))
            yield

    def _note(self, message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        """Keep a warning as a note, and print it on stderr, once."""
        text = one_line(message) if isinstance(message, Warning) else " ".join(message.split())
        if text in self._notes or issubclass(category, DeprecationWarning | PendingDeprecationWarning):
            return
        self._notes.append(text)
        if not self._options["quiet"]:
            click.echo(f"Note: {text}", err=True)

    def stage(self, what: str) -> None:
        """Say what is being done now, if there is a bar to say it with."""
        if self._bar is not None:
            self._bar.stage(what)

    # -- results --

    @property
    def _console(self) -> Console:
        from rich.console import Console

        stream = sys.stderr if self._taken else sys.stdout
        width = None if stream.isatty() or "COLUMNS" in os.environ else 100
        return Console(file=stream, highlight=False, width=width, soft_wrap=False)

    def say(self, *sentences: str) -> None:
        """Print sentences for people, none of which is taken for markup."""
        for sentence in sentences if self._speaks else ():
            if not sentence or sentence not in self._notes:  # else it was said already, as a note
                self._console.print(sentence, markup=False, soft_wrap=True)

    def table(self, title: str, headers: list[str], rows: list[list[str]], caption: str = "", *, of: int = -1) -> None:
        """Print a table for people, numbers aligned to the right; if `of` more rows exist, the caption names them."""
        if not self._speaks or not rows:
            return
        from rich import box
        from rich.cells import cell_len
        from rich.table import Table
        from rich.text import Text

        if of >= 0:
            caption = f"... and {of - len(rows):,} more{caption}" if of > len(rows) else ""
        table = Table(title=title, caption=caption or None, title_justify="left", caption_justify="left")
        table.box, table.title_style, table.caption_style = box.SIMPLE_HEAD, "bold", "dim"
        console, needed = self._console, 2
        for column, header in enumerate(headers):
            numbers = all(_is_number(row[column]) for row in rows)
            longest = max(map(cell_len, [header, *(row[column] for row in rows)]))
            needed += 3 + (longest if numbers else min(longest, _NARROWEST))
            table.add_column(header, justify="right" if numbers else "left", no_wrap=numbers, overflow="fold")
        # half a number is a wrong one: lines may be longer than the terminal is wide
        console.width = max(console.width, needed)
        for row in rows:
            table.add_row(*(Text(" ".join(cell.split())) for cell in row))
        console.print(table)

    def say_where(self, what: str, path: str | None) -> None:
        """Say where an output is; standard output needs no words."""
        if path is not None and path != "-":
            self.say(f"{what} in {path} ({size_of(path)}).")

    def finish(self, **result: Any) -> None:
        """Say where the outputs are, or print the result as JSON, and the code that does the same, as asked."""
        for what, path in self._outputs.values():
            self.say_where(what, path)
        if self._options["json"]:
            outputs = {name: path for name, (_, path) in self._outputs.items() if path or name == "output"}
            result |= outputs if "output" in outputs else {"outputs": outputs} if self._outputs else {}
            seconds = round(time.perf_counter() - self._started, 3)
            whole = {"command": click.get_current_context().info_name, **result, "notes": self._notes}
            whole |= {"seconds": seconds, **({"code": str(self.script)} if self._options["show_code"] else {})}
            click.echo(json.dumps(_jsonable(whole), indent=2, ensure_ascii=False))
        elif self._options["show_code"]:
            click.echo(str(self.script), err=self._taken)


def size_of(path: Any) -> str:
    """Return the size of a file, or of all files of a folder, in words."""
    from kpca.estimators.plan import size_words

    folder = os.path.isdir(path)
    files = [os.path.join(root, name) for root, _, names in os.walk(path) for name in names] if folder else [path]
    return size_words(sum(os.path.getsize(file) for file in files))


def _is_number(cell: str) -> bool:
    """Return True for a number, with or without a unit, and for the lack of one."""
    return bool(re.fullmatch(r"(unknown|nan|[-+−]?(\d[\d,.]*|\.\d+)(e[-+]?\d+)?( ?(%|s|[KMGT]iB))?)?", cell.strip()))


def _jsonable(value: Any) -> Any:
    """Return a value as JSON can hold it: arrays as lists, and null for what is no finite number."""
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, dict):
        return {str(key): _jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_jsonable(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, int | str) else str(value)


# -- A bar with the time left, from what the library says of its progress ---------------------------------------------

_COMMON = ("pass", "residual", "tol", "elapsed", "remaining", "of", "method", "number")


class _Bar:
    """A bar on a terminal; `heard` is what `kpca.config(progress=...)` is given."""

    def __init__(self, what: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        text, left = (TextColumn(f"{{task.{field}}}", markup=False) for field in ("description", "fields[left]"))
        columns = (SpinnerColumn(), text, BarColumn(), TimeElapsedColumn(), left)
        self.progress = Progress(*columns, console=Console(stderr=True, highlight=False), transient=True)
        self._task: Any = None
        self.stage(what)

    def stage(self, what: str) -> None:
        """Begin another part of the work, whose length is not known yet."""
        self._what = what
        self._worst = 0.0  # the residual of the first pass: where an iteration started from
        self._fresh = True  # nothing was heard of this part of the work yet
        if self._task is not None:  # a bar with a known length cannot be given an unknown one again
            self.progress.remove_task(self._task)
        self._task = self.progress.add_task(what, total=None, left="")

    def heard(self, state: dict[str, Any]) -> bool:
        """Show a state that the library reports; never asks it to stop."""
        share, detail = self._share(state)
        remaining, whole = state.get("remaining", math.nan), None if share is None else 1.0
        per, unit = (1, "s") if remaining < 99 else (60, "min") if remaining < 5400 else (3600, "h")
        left = f"{remaining / per:.{1 if unit == 'h' else 0}f} {unit} left" if math.isfinite(remaining) else ""
        said: dict[str, Any] = {"description": f"{self._what}{detail}", "left": left}
        # shown at once the first time: the work may be over before the next picture of the bar
        self.progress.update(self._task, total=whole, completed=share or 0.0, refresh=self._fresh, **said)
        self._fresh = False
        return True

    def _share(self, state: dict[str, Any]) -> tuple[float | None, str]:
        """Return how much of the work is done, if that is known, and how far it is in words."""
        total = state.get("of")
        if "rows" in state:
            of = f" of {total:,}" if total else ""
            return (state["rows"] / total if total else None), f", {state['rows']:,}{of} rows"
        if total:
            named = [key for key in state if key not in _COMMON]
            done = state.get("number", state.get(named[0], 0) if named else 0)
            label = state.get("method") or state.get("label") or ""
            return (max(done - 1, 0) if "number" in state else done) / total, f", {label}" if label else ""
        residual, tol = state.get("residual", math.nan), state.get("tol", math.nan)
        if not (residual > 0 and tol > 0):
            return None, ""
        self._worst = max(self._worst, residual)
        if self._worst <= tol:
            return 1.0, ""
        share = math.log(self._worst / residual) / math.log(self._worst / tol)
        return min(max(share, 0.0), 1.0), f", pass {state['pass']}"


# -- The Python that does what a command did --------------------------------------------------------------------------

_WIDTH = 100


class Code(str):
    """Source text, and the value that it stands for."""

    value: Any

    def __new__(cls, text: str, value: Any = None) -> Code:
        """Return the text, which knows its value."""
        made = super().__new__(cls, text)
        made.value = value
        return made


class Script:
    """What a command does by calls of the library, and the program of these calls that --show-code prints.

    A function is named with the module it is imported from, as in "kpca.io:open_table" or "kpca:plots.save"; one of
    kpca itself is written whole, as in "kpca.load". The settings of `kpca.config` come first; None is none.
    """

    def __init__(self, **settings: Any) -> None:
        self.settings = {name: value for name, value in settings.items() if value is not None}
        self._imports: set[tuple[str, str]] = set()  # modules and what is imported from them
        self._lines: list[str] = []

    def add(self, *lines: str) -> None:
        """Add lines, each a statement."""
        self._lines += lines

    def call(self, function: str, *args: Any, to: str = "", **kwargs: Any) -> Any:
        """Call a function, and add the call, whose result has the name `to`, if any; as `made` does it otherwise."""
        made = self.made(function, *args, **kwargs)
        self.add(f"{to} = {made}" if to else made)
        return made.value

    def made(self, function: str, *args: Any, usual: dict[str, Any] | None = None, **kwargs: Any) -> Code:
        """Call a function, and return the call as `written`, with its result as value."""
        module, _, name = function.rpartition(":")
        found = attrgetter(name if module else name.removeprefix("kpca."))(import_module(module or "kpca"))
        value = found(*map(_value, args), **{key: _value(given) for key, given in kwargs.items()})
        return Code(self.written(function, *args, usual=usual, **kwargs), value)

    def written(self, function: str, *args: Any, usual: dict[str, Any] | None = None, **kwargs: Any) -> str:
        """Return a call as source text, without calling anything.

        Arguments are shown by `repr`, unless they are `Code` already; named ones that are None or `usual` are left out.
        """
        name, known = self.uses(function), usual or {}
        named = {key: value for key, value in kwargs.items() if value != known.get(key)}
        parts = [*map(_text, args), *(f"{key}={_text(value)}" for key, value in named.items())]
        line = f"{name}({', '.join(parts)})"
        inside = "".join(f"    {part},\n" for part in parts)
        return line if len(line) <= _WIDTH else f"{name}(\n{inside})"

    def uses(self, function: str) -> str:
        """Import a function, and return what it is called then."""
        module, _, name = function.rpartition(":")
        self._imports.add((module, name.partition(".")[0]))
        return name

    def __str__(self) -> str:
        modules = sorted({module for module, _ in self._imports} | ({""} if self.settings else set()))
        head = []
        for module in modules:
            names = ", ".join(sorted(name for home, name in self._imports if home == module))
            head += [f"from {module} import {names}"] if module else ["import kpca", *([""] if modules[1:] else [])]
        settings = ", ".join(f"{name}={value!r}" for name, value in self.settings.items())
        return "\n".join([*head, "", *([f"kpca.set_config({settings})"] if settings else []), *self._lines])


def _value(argument: Any) -> Any:
    return argument.value if isinstance(argument, Code) else argument


def _text(value: Any) -> str:
    if isinstance(value, Code):
        return str(value).replace("\n", "\n    ")
    return repr(list(value)) if isinstance(value, tuple) else repr(value)
