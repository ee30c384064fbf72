"""`kpca report`: a page about a file, for a colleague."""

from __future__ import annotations

import click

from kpca.cli._code import Source, call
from kpca.cli._command import SectionedCommand, check_standard_input
from kpca.cli._options import (
    DataOptions,
    ModelOptions,
    RunOptions,
    data_options,
    extra_option,
    model_options,
    output_option,
    run_options,
)


@click.command(cls=SectionedCommand, short_help="Write a page about a file: a map, what is behind it, what is odd.")
@click.argument("file")
@extra_option("Model", "--model", metavar="FILE", help="What kpca fit or kpca tune wrote; fitted to FILE if unsaid.")
@output_option("Where to write the page; the name of the data with .html if unsaid.")
@model_options
@data_options
@run_options
def report(
    *, file: str, model: str | None, output: str | None, settings: ModelOptions, data: DataOptions, run: RunOptions
) -> None:
    """Write a page about the rows of FILE: a map to explore, what is behind it, what is odd, how to repeat it.

    The page is one HTML file that needs no network. Of very many rows it shows a sample.

    \b
    kpca report flowers.csv --label species
    kpca report new.csv --model flowers.kpca -o new.html
    """
    from kpca.cli import _model
    from kpca.cli._outputs import PAGES, check_output, where
    from kpca.cli._run import Run
    from kpca.report import report_on_table

    check_standard_input(file, model)
    this = Run(run)
    target = output or _model.default_output(file, ".html")
    check_output(target, PAGES)
    with this.working("Reading"):
        ready = _model.fitted_or_loaded(this, model, file, data, settings, preimage="auto")
        fitted, script = ready.fitted, ready.script
        script.needs("from kpca.report import report_on_table")
        script.add(call("report_on_table", Source("model"), Source("table"), target))
        this.stage("Writing the page")
        report_on_table(
            fitted.pipeline,
            ready.data.table,
            target,
            code=str(script),
            command=_model.command_line(),
            seed=run.seed,
            about=fitted.about,
        )
    this.say(ready.data.sentence)
    _model.show_model(this, fitted)
    this.say(*where({"The page is": target}))
    result = {"command": "report", "data": ready.data.facts, "model": _model.spectrum_facts(fitted.model)}
    this.finish({**result, "output": target}, str(script))
