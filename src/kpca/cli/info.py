"""`kpca info`: what is in a file, of data or of a model; and which kernels there are."""

from __future__ import annotations

import os
from typing import Any

import click

from kpca._base.errors import InputError
from kpca.cli._code import Script, Source, call
from kpca.cli._command import SectionedCommand
from kpca.cli._options import DataOptions, RunOptions, extra_option, new_data_options, output_option, run_options

_SHOWN = 40  # columns in the table


@click.command(cls=SectionedCommand, short_help="Tell what is in a file, of data or of a model.")
@click.argument("file", required=False)
@extra_option("Output", "--kernels", is_flag=True, help="List the kernels, with their formulas.")
@new_data_options
@run_options
def info(*, file: str | None, kernels: bool, data: DataOptions, run: RunOptions) -> None:
    """Tell what is in FILE: the columns of a table, or the model in a .kpca file.

    \b
    kpca info flowers.csv
    kpca info flowers.kpca
    kpca info --kernels
    """
    from kpca.cli._run import Run

    this = Run(run)
    if kernels:
        _show_kernels(this)
    elif file is None:
        raise click.UsageError("Missing argument 'FILE'.")
    elif file.lower().endswith(".kpca"):
        _show_saved(this, file)
    else:
        _show_table(this, file, data)


def _show_saved(this: Any, path: str) -> None:
    from kpca import load
    from kpca.cli import _model
    from kpca.cli._outputs import size_of
    from kpca.io.models import read_about

    with this.working("Reading"):
        header = read_about(path)
        loaded = load(path)
    steps = [step for _, step in loaded.steps] if hasattr(loaded, "steps") else [loaded]
    model = steps[-1]
    about = dict(header.about or {})
    this.say(f"{path}: {type(model).__name__}, saved by kpca {header.saved_with.get('kpca')}, {size_of(path)}.")
    facts = about.get("data")
    if isinstance(facts, dict):
        this.say(f"Fitted to {facts.get('name')}, {facts.get('rows')} rows (SHA-256 {str(facts.get('sha256'))[:12]}…).")
    if about.get("command"):
        this.say(f"By: {about['command']}")
    result: dict[str, Any] = {"command": "info", "file": path, "class": type(model).__name__, "about": about}
    if hasattr(model, "eigenvalues_"):
        if len(steps) == 1:
            fitted = _model.Fitted(_model.untreated(model), model, about)
        else:
            fitted = _model.Fitted(steps[0], model, about)
        _model.show_model(this, fitted)
        result["model"] = _model.spectrum_facts(model)
    elif hasattr(model, "limits_"):
        limits = model.limits_
        named = {name: getattr(limits, name) for name in ("t2", "spe", "combined")}
        this.say(", ".join(f"limit of {name} {value:.4g}" for name, value in named.items()) + ".")
        result["limits"] = named
    script = Script("import kpca")
    script.add(f"model = {call('kpca.load', path)}", "print(model)")
    this.finish(result, str(script))


def _show_table(this: Any, path: str, options: DataOptions) -> None:
    from kpca.cli._model import Data
    from kpca.io.summary import summary_of

    with this.working("Reading"):
        opened = Data.opened(path, options)
        columns = summary_of(opened.table)
    this.say(opened.sentence)
    rows = [
        [column.name, column.kind, f"{column.missing:,}", *(_short(value) for value in column.figures)]
        for column in columns[:_SHOWN]
    ]
    more = len(columns) - len(rows)
    this.table(
        "Columns",
        ["name", "kind", "missing", "smallest", "mean", "largest", "different"],
        rows,
        f"... and {more:,} more columns" if more > 0 else "",
    )
    script = Script()
    opened.code(script)
    script.needs("from kpca.io import summary_of")
    script.add("for column in summary_of(table):\n    print(column)")
    entries = [
        {
            "name": column.name,
            "kind": column.kind,
            "missing": column.missing,
            **dict(zip(("smallest", "mean", "largest", "different"), column.figures, strict=True)),
        }
        for column in columns
    ]
    this.finish({"command": "info", "data": opened.facts, "columns": entries}, str(script))


def _short(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _show_kernels(this: Any) -> None:
    import numpy as np

    from kpca import kernels

    rows = []
    for name in sorted(set(kernels.NAMES) - {"precomputed"}):  # a file holds rows, not kernels of them
        made = kernels.resolve(name, np.zeros((1, 1)), gamma=1.0)
        rows.append([name, (type(made).__doc__ or "").strip().splitlines()[0]])
    this.table("Kernels", ["name", "what it is"], rows)
    script = Script("from kpca import kernels")
    script.add("for name in sorted(kernels.NAMES):\n    print(name)")
    this.finish({"command": "info", "kernels": [{"name": name, "about": text} for name, text in rows]}, str(script))


# -- `kpca export`: a model for other programs, and its card for people -----------------------------------------------


@click.command(cls=SectionedCommand, short_help="Write a model for other programs, or a card about it.")
@click.argument("model")
@output_option("Where to write: .onnx for other programs, .md for a model card.", required=True)
@extra_option(
    "Output", "--dtype", type=click.Choice(["float32", "float64"]), help="Of ONNX; that of the model if unsaid."
)
@run_options
def export(*, model: str, output: str, dtype: str | None, run: RunOptions) -> None:
    """Write a MODEL for other programs (.onnx), or a card about it for people (.md).

    \b
    kpca export flowers.kpca -o flowers.onnx
    kpca export flowers.kpca -o flowers.md
    """
    from kpca import load
    from kpca.cli import _model
    from kpca.cli._outputs import check_output, where
    from kpca.cli._run import Run

    suffix = os.path.splitext(output)[1].lower()
    if suffix not in (".onnx", ".md"):
        raise InputError(f"The name of an export must end in .onnx or .md; got {output!r}: rename it.")
    this = Run(run)
    check_output(output)
    script = _model.started(this)
    script.add(f"model = {call('kpca.load', model)}")
    with this.working("Exporting"):
        loaded = load(model)
        if suffix == ".onnx":
            from kpca.io.onnx import export as export_onnx

            export_onnx(loaded, output, dtype=dtype)
            script.needs("from kpca.io import onnx")
            given = {} if dtype is None else {"dtype": dtype}
            script.add(call("onnx.export", Source("model"), output, **given))
        else:
            from kpca.io.card import write_card
            from kpca.io.models import read_about

            write_card(loaded, output, read_about(model).about)
            script.needs("from kpca.io.card import write_card", "from kpca.io.models import read_about")
            script.add(call("write_card", Source("model"), output, Source(call("read_about", model) + ".about")))
    this.say(*where({"The export is": output}))
    this.finish({"command": "export", "model": model, "output": output}, str(script))
