"""`kpca export`: a model for other programs, and its card for people."""

from __future__ import annotations

import os

import click

from kpca.cli._code import Source, call
from kpca.cli._command import SectionedCommand
from kpca.cli._options import RunOptions, extra_option, output_option, run_options
from kpca.errors import InputError


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
