"""`kpca info`: what is in a file; `kpca export`: a model for other programs and people; `kpca demo`: a first look."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

import click

from kpca._base.errors import InputError
from kpca.cli import _model
from kpca.cli._options import File, Options, command, new_data, option, output
from kpca.cli._run import Code, Run, size_of

_SHOWN = 40  # columns in the table
_DTYPES = click.Choice(["float32", "float64"])


@command("Tell what is in a file, of data or of a model.", "file", required=False)
@option("--kernels", section="Output", is_flag=True, help="List the kernels, with their formulas.")
@new_data
def info(*, file: File, kernels: bool, data: Options, run: Options) -> None:
    """Tell what is in FILE: the columns of a table, or the model in a .kpca file; without one, what computes here.

    \b
    kpca info
    kpca info flowers.csv
    kpca info flowers.kpca
    kpca info --kernels
    """
    this = Run(run)
    if kernels:
        _show_kernels(this)
    elif file is None:
        _show_machine(this)
    elif file.lower().endswith(".kpca"):
        _show_saved(this, file)
    else:
        _show_table(this, file, data)


def _show_machine(this: Run) -> None:
    """Say what computes here, and with how much."""
    import platform
    from importlib.metadata import version

    from kpca._base.config import memory_budget, memory_limit, thread_count
    from kpca.estimators.plan import size_words
    from kpca.kernels import profiles

    limit, how = memory_budget(), "half of what is free" if memory_limit() is None else "as set"
    libraries = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "scikit-learn"))
    this.say(f"kpca {version('kpca')}, Python {platform.python_version()}, {libraries}.")
    this.say(f"Kernel values: by {profiles.in_use()}.")
    this.say(f"Threads: {thread_count()}. Memory: up to {size_words(limit)}, {how}.")
    this.finish(version=version("kpca"), profiles=profiles.in_use(), threads=thread_count(), memory=limit)


def _show_saved(this: Run, path: str) -> None:
    from kpca import io

    with this.working("Reading"):
        *before, model = _model.steps_of(this.script.call("kpca.load", path, to="model"))
        header = io.read_about(path)
    about = dict(header.about or {})
    this.say(f"{path}: {type(model).__name__}, saved by kpca {header.saved_with.get('kpca')}, {size_of(path)}.")
    facts = about.get("data")
    if isinstance(facts, dict):
        this.say(f"Fitted to {facts.get('name')}, {facts.get('rows')} rows (SHA-256 {str(facts.get('sha256'))[:12]}…).")
    if about.get("command"):
        this.say(f"By: {about['command']}")
    result: dict[str, Any] = {}
    if hasattr(model, "eigenvalues_"):
        _model.show_model(this, _model.PreparedModel(before[0] if before else _model.untreated(model), model, about))
        result["model"] = _model.spectrum_facts(model)
    elif hasattr(model, "limits_"):
        result["limits"] = {name: getattr(model.limits_, name) for name in ("t2", "spe", "combined")}
        this.say(", ".join(f"limit of {name} {value:.4g}" for name, value in result["limits"].items()) + ".")
    this.script.add("print(model)")
    this.finish(file=path, **{"class": type(model).__name__, "about": about, **result})


def _show_table(this: Run, path: str, options: Options) -> None:
    from kpca.io import summary_of

    with this.working("Reading"):
        opened = _model.open_data(this, path, options)
        columns = summary_of(opened.table)
    this.say(opened.sentence)
    headers = ["name", "kind", "missing", "smallest", "mean", "largest", "different"]
    rows = []
    for column in columns[:_SHOWN]:
        figures = ("" if value is None else f"{value:.4g}" for value in column.figures)
        rows.append([column.name, column.kind, f"{column.missing:,}", *figures])
    this.table("Columns", headers, rows, " columns", of=len(columns))
    this.script.uses("kpca.io:summary_of")
    this.script.add("for column in summary_of(table):\n    print(column)")
    entries = ((column.name, column.kind, column.missing, *column.figures) for column in columns)
    this.finish(data=opened.facts, columns=[dict(zip(headers, entry, strict=True)) for entry in entries])


def _show_kernels(this: Run) -> None:
    import numpy as np

    from kpca import kernels

    rows = []
    for name in sorted(set(kernels.NAMES) - {"precomputed"}):  # a file holds rows, not kernels of them
        made = kernels.resolve(name, np.zeros((1, 1)), gamma=1.0)
        rows.append([name, (type(made).__doc__ or "").strip().splitlines()[0]])
    this.table("Kernels", ["name", "what it is"], rows)
    this.script.uses("kpca:kernels")
    this.script.add("for name in sorted(kernels.NAMES):\n    print(name)")
    this.finish(kernels=[{"name": name, "about": text} for name, text in rows])


@command("Write a model for other programs, or a card about it.", "model")
@output(help="Where to write: .onnx for other programs, .md for a model card.", required=True)
@option("--dtype", section="Output", type=_DTYPES, help="Of ONNX; that of the model if unsaid.")
def export(*, model: str, output: str, dtype: str | None, run: Options) -> None:
    """Write a MODEL for other programs (.onnx), or a card about it for people (.md).

    \b
    kpca export flowers.kpca -o flowers.onnx
    kpca export flowers.kpca -o flowers.md
    """
    suffix = os.path.splitext(output)[1].lower()
    if suffix not in (".onnx", ".md"):
        raise InputError(f"The name of an export must end in .onnx or .md; got {output!r}: rename it.")
    this = Run(run)
    this.will_write(output, output="The export is")
    with this.working("Exporting"):
        loaded = Code("model", this.script.call("kpca.load", model, to="model"))
        if suffix == ".onnx":
            import_module("kpca.io.onnx")  # an optional library is behind it
            this.script.call("kpca.io:onnx.export", loaded, output, dtype=dtype)
        else:
            about = this.script.made("kpca.io.models:read_about", model)
            this.script.call("kpca.io.card:write_card", loaded, output, Code(f"{about}.about", about.value.about))
    this.finish(model=model)


@command("A tour in a minute: fit, tune, denoise, detect, and a page to look at.")
@output(metavar="FOLDER", default="kpca-demo", help="Where to write the pictures and the page.")
@option("--rows", section="Output", type=int, default=4000, hidden=True)
def demo(*, output: str, rows: int, run: Options) -> None:
    """Show what kernel PCA does, on data that comes with scikit-learn; takes less than a minute.

    Fits 4,000 images of digits and races scikit-learn, tunes a kernel to two rings, takes noise out of images, finds a
    wine that is none, and writes pictures and a page about the digits.
    """
    from kpca.cli import tour

    tour.show(Run(run), output, rows)
