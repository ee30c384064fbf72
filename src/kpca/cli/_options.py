"""The options that commands share, each group gathered into one object."""

from __future__ import annotations

import csv
import functools
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import click

from kpca.cli._command import SectionOption

Callback = Callable[..., Any]
FORMATS = ("csv", "tsv", "npy", "npz", "parquet", "feather", "arrow", "zarr", "h5ad")
SCALES = ("auto", "standard", "robust", "minmax", "none")


class NameList(click.ParamType):  # type: ignore[type-arg, unused-ignore]  # generic from click 8.4 on
    """Names separated by commas; a name with a comma in it stands in double quotes."""

    name = "names"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """Return the names."""
        if not isinstance(value, str):
            return tuple(value)
        names = tuple(name.strip() for name in next(csv.reader([value], skipinitialspace=True), []))
        if not names or not all(names):
            self.fail(f"{value!r} must be names separated by commas.", param, ctx)
        return names


class Size(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """HEIGHTxWIDTH in pixels."""

    name = "HEIGHTxWIDTH"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        """Return both numbers."""
        if not isinstance(value, str):
            return value  # type: ignore[no-any-return]
        height, _, width = value.lower().partition("x")
        if not (height.isdecimal() and width.isdecimal()):
            self.fail(f"{value!r} must be of the form 64x48.", param, ctx)
        return int(height), int(width)


class NumberOr(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """A number, or one of some words."""

    def __init__(self, *words: str, whole: bool = False) -> None:
        self.words, self.whole = words, whole
        self.name = "|".join(["number", *words])

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the word, a whole number where it is one, or a number."""
        if not isinstance(value, str) or value in self.words:
            return value
        for kind in (int, float):
            try:
                return kind(value)
            except ValueError:
                continue
        self.fail(f"{value!r} must be a number{''.join(f' or {word}' for word in self.words)}.", param, ctx)


@dataclass(frozen=True)
class DataOptions:
    """How a file is read and treated."""

    columns: tuple[str, ...] | None = None
    drop: tuple[str, ...] | None = None
    label: str | None = None
    id: str | None = None
    text: str | None = None
    encode: str | None = None
    impute: str | None = None
    scale: str = "auto"
    format: str | None = None
    header: bool | None = None
    array: str | None = None
    delimiter: str | None = None
    size: tuple[int, int] | None = None


@dataclass(frozen=True)
class ModelOptions:
    """Which model is fitted."""

    components: Any = 10
    kernel: str = "rbf"
    gamma: Any = "median"
    degree: float = 3.0
    coef0: float = 1.0
    center: bool = True
    approximation: str = "auto"
    rank: int | None = None
    preimage: str | None = None
    tol: float = 0.0


@dataclass(frozen=True)
class RunOptions:
    """How a command runs and what it prints."""

    seed: int = 0
    memory: str | None = None
    threads: int | None = None
    device: str = "cpu"
    json: bool = False
    quiet: bool = False
    show_code: bool = False


def _gathered(kind: type, name: str, *options: Callable[[Callback], Callback]) -> Callable[[Callback], Callback]:
    """Return a decorator that adds options to a command and hands them over as one object."""

    def decorate(callback: Callback) -> Callback:
        @functools.wraps(callback)
        def command(**values: Any) -> Any:
            mine = {field.name: values.pop(field.name) for field in fields(kind) if field.name in values}
            return callback(**values, **{name: kind(**mine)})

        decorated: Callback = command
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return decorate


def _option(section: str, *names: str, **settings: Any) -> Callable[[Callback], Callback]:
    return click.option(*names, cls=SectionOption, section=section, **settings)


_columns = [
    _option("Data", "--columns", type=NameList(), help="Use these columns only, separated by commas."),
    _option("Data", "--drop", type=NameList(), help="Leave these columns out."),
    _option(
        "Data",
        "--label",
        metavar="NAME",
        stands_for=("label", "y"),
        help="Column with what is known of the rows, a class or a number: it colours pictures and is not analysed.",
    ),
    _option("Data", "--id", metavar="NAME", help="Column that names the rows; results keep it."),
]
_format = [
    _option("Data", "--format", type=click.Choice(FORMATS), help="What the file is, where its name does not say it."),
    _option(
        "Data", "--header/--no-header", default=None, help="Whether the first line has names; found out if unsaid."
    ),
    _option("Data", "--array", metavar="NAME", help="Which array of an .npz or Zarr file has the rows."),
    _option("Data", "--delimiter", metavar="CHAR", help="What separates columns; found out if unsaid."),
]
_treatment = [
    _option("Data", "--text", metavar="NAME", help="Column of texts, turned into TF-IDF weights of words."),
    _option(
        "Data",
        "--encode",
        type=click.Choice(["onehot"]),
        help="Turn columns of categories into columns of 0 and 1, one for each value.",
    ),
    _option(
        "Data",
        "--impute",
        type=click.Choice(["median", "mean", "drop"]),
        help="Fill missing values, or drop such rows; without it they are refused.",
    ),
    _option(
        "Data",
        "--scale",
        type=click.Choice(SCALES),
        default="auto",
        show_default=True,
        help="How columns are scaled; auto is standard for tables, none for images, texts and sparse data.",
    ),
]

_size = _option(
    "Data",
    "--size",
    type=Size(),
    metavar="HxW",
    help="Resize the images of a folder to this height and width, such as 64x48.",
)

data_options = _gathered(DataOptions, "data", *_columns, *_treatment, *_format, _size)
# for a model that knows which columns it takes and how it treats them
new_data_options = _gathered(DataOptions, "data", _columns[2], _columns[3], *_format)

model_options = _gathered(
    ModelOptions,
    "settings",
    _option(
        "Model",
        "-k",
        "--components",
        stands_for=("n_components",),
        type=NumberOr("auto"),
        metavar="NUMBER|auto",
        default=10,
        show_default=True,
        help="How many components; below 1, as many as hold that share of the variance; auto finds out.",
    ),
    _option(
        "Model",
        "--kernel",
        metavar="NAME",
        default="rbf",
        show_default=True,
        help="How rows are compared; kpca info --kernels lists the kernels.",
    ),
    _option(
        "Model",
        "--gamma",
        type=NumberOr("median", "scale"),
        metavar="NUMBER|median|scale",
        default="median",
        show_default=True,
        help="Coefficient of the kernel; larger is narrower. median follows the distances of the rows.",
    ),
    _option("Model", "--degree", type=float, default=3.0, show_default=True, help="Degree of the kernel poly."),
    _option(
        "Model", "--coef0", type=float, default=1.0, show_default=True, help="Constant in the kernels poly and sigmoid."
    ),
    _option(
        "Model",
        "--center/--no-center",
        default=True,
        help="Whether the mean is taken out in feature space; it is, unless you say --no-center.",
    ),
    _option(
        "Model",
        "--approximation",
        type=click.Choice(["auto", "none", "nystroem", "rff"]),
        default="auto",
        show_default=True,
        help="auto is exact for up to 20,000 rows, and takes landmarks (nystroem) beyond.",
    ),
    _option(
        "Model",
        "--rank",
        type=int,
        help="How many landmarks (nystroem) or random features (rff); 1000 if unsaid, 300 beyond memory.",
    ),
    _option(
        "Model",
        "--preimage",
        type=click.Choice(["none", "auto", "ridge", "fixed-point", "distance", "gradient"]),
        default=None,
        help="How to come back from components to data; denoise and reconstruct need one.",
    ),
    _option(
        "Model",
        "--tol",
        type=float,
        default=0.0,
        help="Largest residual allowed, relative to the largest eigenvalue; 0 is as small as can be.",
    ),
)

run_options = _gathered(
    RunOptions,
    "run",
    _option(
        "Run",
        "--seed",
        stands_for=("random_state",),
        type=int,
        default=0,
        show_default=True,
        help="Where random numbers start; the same seed gives the same result.",
    ),
    _option(
        "Run",
        "--memory",
        stands_for=("memory_limit",),
        metavar="SIZE",
        help="How much memory may be used, such as 2GiB; half of what is free if unsaid.",
    ),
    _option("Run", "--threads", type=int, help="How many threads compute; one per core if unsaid."),
    _option("Run", "--device", type=click.Choice(["cpu"]), default="cpu", show_default=True, help="Where to compute."),
    _option("Run", "--json", is_flag=True, help="Print the result as JSON on standard output."),
    _option(
        "Run",
        "-q",
        "--quiet",
        is_flag=True,
        help="Print errors only, and what goes to standard output by -o -, --json or --show-code.",
    ),
    _option("Run", "--show-code", is_flag=True, help="Print the Python that does the same, after the run."),
)


def output_option(what: str, *, default: str | None = None, required: bool = False) -> Callable[[Callback], Callback]:
    """Return the option -o/--output of a command."""
    return _option(
        "Output",
        "-o",
        "--output",
        metavar="FILE",
        default=default,
        show_default=bool(default),
        required=required,
        help=what,
    )


def picture_option(what: str) -> Callable[[Callback], Callback]:
    """Return the option --picture of a command."""
    return _option("Output", "--picture", metavar="FILE", help=f"{what} (.png, .svg or .pdf).")


def extra_option(section: str, *names: str, **settings: Any) -> Callable[[Callback], Callback]:
    """Return an option of one command only, under a heading."""
    return _option(section, *names, **settings)
