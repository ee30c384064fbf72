"""A bar with the time left, from what the library says of its progress."""

from __future__ import annotations

import json
import math
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import click

from kpca.cli._command import is_terminal, warnings_as_notes

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class Bar:
    """A bar on a terminal; `heard` is what `kpca.config(progress=...)` is given."""

    def __init__(self, progress: Progress, what: str) -> None:
        self._progress = progress
        self._what = what
        self._task: TaskID = progress.add_task(what, total=None, left="")
        self._worst = 0.0  # the residual of the first pass: where an iteration started from
        self._fresh = True  # nothing was heard of this part of the work yet

    def stage(self, what: str) -> None:
        """Begin another part of the work, whose length is not known yet."""
        self._what, self._worst, self._fresh = what, 0.0, True
        # a new one, as a bar with a known length cannot be given an unknown one again
        self._progress.remove_task(self._task)
        self._task = self._progress.add_task(what, total=None, left="")

    def heard(self, state: dict[str, Any]) -> bool:
        """Show a state that the library reports; never asks it to stop."""
        share, detail = self._share(state)
        left = state.get("remaining", math.nan)
        self._progress.update(
            self._task,
            description=f"{self._what}{detail}",
            total=None if share is None else 1.0,
            completed=share or 0.0,
            left=f"{_time(left)} left" if math.isfinite(left) else "",
        )
        if self._fresh:  # shown even where the work is over before the next picture of the bar
            self._fresh = False
            self._progress.refresh()
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


_COMMON = ("pass", "residual", "tol", "elapsed", "remaining", "of", "method", "number")


def _time(seconds: float) -> str:
    if seconds < 99:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


# -- One run of a command: its settings, what it prints where, and the bar while it works -----------------------------

if TYPE_CHECKING:
    from rich.console import Console

    from kpca.cli._options import RunOptions


_NARROWEST = 12  # letters of a column of texts, however narrow the terminal


class Run:
    """What a command prints: results on stdout, everything else on stderr.

    `taken` says that data goes to stdout, so that results must not.
    """

    def __init__(self, options: RunOptions, *, taken: bool = False) -> None:
        if taken and options.json:
            raise click.UsageError("--json and an output to - both want standard output: give -o a file.")
        self.options, self._taken = options, taken
        self._started = time.perf_counter()
        self._notes: list[str] = []
        self._stage: Any = None

    @contextmanager
    def working(self, what: str) -> Iterator[None]:
        """Apply the settings, and show a bar while the work is done, if somebody looks."""
        from kpca._base.config import config

        given: dict[str, Any] = {}
        if self.options.memory is not None:
            given["memory_limit"] = self.options.memory
        if self.options.threads is not None:
            given["threads"] = self.options.threads
        with ExitStack() as stack:
            stack.enter_context(warnings_as_notes(self._notes, quiet=self.options.quiet))
            if not self.options.quiet and is_terminal(sys.stderr):
                self._stage = Bar(stack.enter_context(_rich_progress()), what)
                stack.callback(setattr, self, "_stage", None)
                given["progress"] = self._stage.heard
            stack.enter_context(config(**given))
            yield

    def stage(self, what: str) -> None:
        """Say what is being done now, if there is a bar to say it with."""
        if self._stage is not None:
            self._stage.stage(what)

    @property
    def console(self) -> Console:
        """Where results for people go."""
        from rich.console import Console

        stream = sys.stderr if self._taken else sys.stdout
        width = None if is_terminal(stream) or "COLUMNS" in os.environ else 100
        return Console(file=stream, highlight=False, width=width, soft_wrap=False)

    @property
    def speaks(self) -> bool:
        """Whether results are printed for people."""
        return not (self.options.json or self.options.quiet)

    def say(self, *sentences: str) -> None:
        """Print sentences for people, none of which is taken for markup."""
        if self.speaks:
            for sentence in sentences:
                if sentence and sentence in self._notes:  # said already, as a note
                    continue
                self.console.print(sentence, markup=False, soft_wrap=True)

    def table(self, title: str, headers: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> None:
        """Print a table for people; columns of numbers are aligned to the right."""
        if not self.speaks or not rows:
            return
        from rich import box
        from rich.cells import cell_len
        from rich.table import Table
        from rich.text import Text

        table = Table(title=title, caption=caption or None, title_justify="left", caption_justify="left")
        table.box, table.title_style, table.caption_style = box.SIMPLE_HEAD, "bold", "dim"
        console, needed = self.console, 2
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

    def finish(self, result: dict[str, Any], code: str = "") -> None:
        """Print the result as JSON, if asked, and the code that does the same, if asked."""
        if self.options.json:
            whole = {**result, "notes": self._notes, "seconds": round(time.perf_counter() - self._started, 3)}
            if self.options.show_code:
                whole["code"] = code
            click.echo(json.dumps(jsonable(whole), indent=2, ensure_ascii=False))
        elif self.options.show_code:
            click.echo(code, err=self._taken)


@contextmanager
def _rich_progress() -> Iterator[Any]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = [
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}", markup=False),
    ]
    with Progress(*columns, console=Console(stderr=True, highlight=False), transient=True) as progress:
        yield progress


def _is_number(cell: str) -> bool:
    """Return True for a number, with or without a unit, and for the lack of one."""
    return bool(re.fullmatch(r"(unknown|nan|[-+−]?(\d[\d,.]*|\.\d+)(e[-+]?\d+)?( ?(%|s|[KMGT]iB))?)?", cell.strip()))


def jsonable(value: Any) -> Any:
    """Return a value as JSON can hold it: arrays as lists, and null for what is no finite number."""
    if isinstance(value, dict):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(item) for item in value]
    if hasattr(value, "tolist"):
        return jsonable(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    return str(value)
