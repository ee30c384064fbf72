"""The options that commands share; those of a group reach a command as one dictionary."""

from __future__ import annotations

import csv
import functools
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import click

from kpca.cli._command import SectionedCommand, SectionOption

File = str | None  # the path of a file that need not be named
Options = dict[str, Any]  # of a group, by name
Callback = Callable[..., Any]
Decorator = Callable[[Callback], Callback]
FORMATS = ("csv", "tsv", "npy", "npz", "parquet", "feather", "arrow", "zarr", "h5ad")
SCALES = ("auto", "standard", "robust", "minmax", "none")


def names(value: str) -> tuple[str, ...]:
    """Return names that are separated by commas; a name with a comma in it stands in double quotes."""
    found = tuple(name.strip() for name in next(csv.reader([value], skipinitialspace=True), []))
    if not found or not all(found):
        raise click.BadParameter(f"{value!r} must be names separated by commas.")
    return found


def _size(value: str) -> tuple[int, int]:
    """Return HEIGHTxWIDTH as two numbers of pixels."""
    height, _, width = value.lower().partition("x")
    if not (height.isdecimal() and width.isdecimal()):
        raise click.BadParameter(f"{value!r} must be of the form 64x48.")
    return int(height), int(width)


def number_or(*words: str) -> Callable[[Any], Any]:
    """Return what reads a number, whole where it is, or one of some words."""

    def read(value: Any) -> Any:
        if not isinstance(value, str) or value in words:
            return value
        for kind in (int, float):
            with suppress(ValueError):
                return kind(value)
        raise click.BadParameter(f"{value!r} must be a number{''.join(f' or {word}' for word in words)}.")

    return read


def command(short_help: str, argument: str = "", **settings: Any) -> Callable[[Callback], click.Command]:
    """Return a decorator that makes a command of a function: with an argument, if named, and what all commands have."""

    def decorate(callback: Callback) -> click.Command:
        with_options = _run_options(callback)
        taking = click.argument(argument, **settings)(with_options) if argument else with_options
        return click.command(cls=SectionedCommand, short_help=short_help)(taking)

    return decorate


def option(*names: str, show_default: bool = True, **settings: Any) -> Decorator:
    """Return an option under a heading (`section`) of the help, which shows its default if there is one."""
    shown = show_default and settings.get("default") is not None
    return click.option(*names, cls=SectionOption, show_default=shown, **settings)


def _all(*options: Decorator) -> Decorator:
    """Return a decorator that adds options to a command, in this order."""
    return lambda callback: functools.reduce(lambda made, option: option(made), reversed(options), callback)


output = functools.partial(option, "-o", "--output", section="Output", metavar="FILE")
picture = functools.partial(option, "--picture", section="Output", metavar="FILE")
model = functools.partial(option, "--model", section="Model", metavar="FILE")
components = functools.partial(option, "-k", "--components", stands_for=("n_components",))

_data = functools.partial(option, section="Data", group="data")
_LABEL = "Column with what is known of the rows, a class or a number: it colours pictures and is not analysed."
_names = [
    _data("--label", metavar="NAME", stands_for=("label", "y"), help=_LABEL),
    _data("--id", metavar="NAME", help="Column that names the rows; results keep it."),
]
_format = [
    _data("--format", type=click.Choice(FORMATS), help="What the file is, where its name does not say it."),
    _data("--header/--no-header", default=None, help="Whether the first line has names; found out if unsaid."),
    _data("--array", metavar="NAME", help="Which array of an .npz or Zarr file has the rows."),
    _data("--delimiter", metavar="CHAR", help="What separates columns; found out if unsaid."),
]
_ENCODE = "Turn columns of categories into columns of 0 and 1, one for each value."
_IMPUTE = "Fill missing values, or drop such rows; without it they are refused."
_SCALE = "How columns are scaled; auto is standard for tables, none for images, texts and sparse data."
_SIZE = "Resize the images of a folder to this height and width, such as 64x48."

data = _all(
    _data("--columns", type=names, help="Use these columns only, separated by commas."),
    _data("--drop", type=names, help="Leave these columns out."),
    *_names,
    _data("--text", metavar="NAME", help="Column of texts, turned into TF-IDF weights of words."),
    _data("--encode", type=click.Choice(["onehot"]), help=_ENCODE),
    _data("--impute", type=click.Choice(["median", "mean", "drop"]), help=_IMPUTE),
    _data("--scale", type=click.Choice(SCALES), default="auto", help=_SCALE),
    *_format,
    _data("--size", type=_size, metavar="HxW", help=_SIZE),
)
# for a model that knows which columns it takes and how it treats them
new_data = _all(*_names, *_format)

_model = functools.partial(option, section="Model", group="settings")
_COMPONENTS = "How many components; below 1, as many as hold that share of the variance; auto finds out."
_COUNT: Options = {"type": number_or("auto"), "metavar": "NUMBER|auto", "default": 10}
_KERNEL = "How rows are compared; kpca info --kernels lists the kernels."
_GAMMA = "Coefficient of the kernel; larger is narrower. median follows the distances of the rows."
_CENTER = "Whether the mean is taken out in feature space; it is, unless you say --no-center."
_APPROXIMATION = "auto is exact for up to 20,000 rows, and takes landmarks (nystroem) beyond."
_RANK = "How many landmarks (nystroem) or random features (rff); 1000 if unsaid, 300 beyond memory."
_PREIMAGE = "How to come back from components to data; denoise and reconstruct need one."
_TOL = "Largest residual allowed, relative to the largest eigenvalue; 0 is as small as can be."
_APPROXIMATIONS = click.Choice(["auto", "none", "nystroem", "rff"])
# Those of the library, which takes a second to import: help must not wait for it.
_PREIMAGES = click.Choice(["none", "auto", "ridge", "fixed-point", "distance", "gradient"])

settings = _all(
    components(section="Model", group="settings", help=_COMPONENTS, **_COUNT),
    _model("--kernel", metavar="NAME", default="rbf", help=_KERNEL),
    _model("--gamma", type=number_or("median", "scale"), metavar="NUMBER|median|scale", default="median", help=_GAMMA),
    _model("--degree", type=float, default=3.0, help="Degree of the kernel poly."),
    _model("--coef0", type=float, default=1.0, help="Constant in the kernels poly and sigmoid."),
    _model("--center/--no-center", default=True, show_default=False, help=_CENTER),
    _model("--approximation", type=_APPROXIMATIONS, default="auto", help=_APPROXIMATION),
    _model("--rank", type=int, help=_RANK),
    _model("--preimage", type=_PREIMAGES, help=_PREIMAGE),
    _model("--tol", type=float, default=0.0, show_default=False, help=_TOL),
)

_run = functools.partial(option, section="Run", group="run")
_SEED = "Where random numbers start; the same seed gives the same result."
_MEMORY = "How much memory may be used, such as 2GiB; half of what is free if unsaid."
_QUIET = "Print errors only, and what goes to standard output by -o -, --json or --show-code."

_run_options = _all(
    _run("--seed", type=int, default=0, stands_for=("random_state",), help=_SEED),
    _run("--memory", metavar="SIZE", stands_for=("memory_limit",), help=_MEMORY),
    _run("--threads", type=int, help="How many threads compute; one per core if unsaid."),
    _run("--device", type=click.Choice(["cpu"]), default="cpu", help="Where to compute."),
    _run("--json", is_flag=True, help="Print the result as JSON on standard output."),
    _run("-q", "--quiet", is_flag=True, help=_QUIET),
    _run("--show-code", is_flag=True, help="Print the Python that does the same, after the run."),
)
