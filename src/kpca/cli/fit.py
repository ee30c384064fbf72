"""`kpca fit`: a file becomes a model."""

from __future__ import annotations

import click

from kpca.cli._code import Source, call
from kpca.cli._command import SectionedCommand
from kpca.cli._options import (
    DataOptions,
    ModelOptions,
    RunOptions,
    data_options,
    extra_option,
    model_options,
    output_option,
    picture_option,
    run_options,
)


@click.command(cls=SectionedCommand, short_help="Find the components of a file, and save the model.")
@click.argument("file")
@output_option("Where to write the model; the name of the data with .kpca if unsaid.")
@extra_option("Output", "--scores", metavar="FILE", help="Write the scores of the rows, too; - is standard output.")
@picture_option("Draw the rows on the first two components, and the spectrum")
@model_options
@data_options
@run_options
def fit(
    *,
    file: str,
    output: str | None,
    scores: str | None,
    picture: str | None,
    settings: ModelOptions,
    data: DataOptions,
    run: RunOptions,
) -> None:
    """Find the components of the rows of FILE and save the model.

    FILE is a table (.csv, .tsv, also .gz; .parquet, .feather, .arrow, .npy, .npz, .zarr, .h5ad), a folder of images, or
    - for standard input. Files larger than memory are read in pieces.

    \b
    kpca fit flowers.csv --label species --picture flowers.png
    kpca fit reviews.parquet --text review --kernel cosine -k 20
    """
    from kpca import save
    from kpca.cli import _model
    from kpca.cli._outputs import PICTURES, check_output, check_table_output, draw_overview, where
    from kpca.cli._run import Run
    from kpca.io.results import write_scores

    this = Run(run, taken=scores == "-")
    target = output or _model.default_output(file, ".kpca")
    check_output(target, (".kpca",))
    check_table_output(scores, inputs=[file], beside=data.id or data.label)
    check_output(picture, PICTURES)
    with this.working("Reading"):
        ready = _model.fitted_or_loaded(this, None, file, data, settings)
        fitted, table, script = ready.fitted, ready.data.table, ready.script
        this.stage("Saving")
        save(fitted.pipeline, target, about=fitted.about)
        script.add(call("kpca.save", Source("model"), target))
        if scores is not None:
            this.stage("Writing scores")
            write_scores(fitted.pipeline, table, scores)
            script.needs("from kpca.io import write_scores")
            script.add(call("write_scores", Source("model"), Source("table"), scores))
        if picture is not None:
            this.stage("Drawing")
            draw_overview(picture, fitted.pipeline, table)
            script.needs("from kpca import plots")
            script.add(
                "rows = model[0].prepare(table.whole())",
                "figure = plots.overview(model[-1], model[-1].transform(rows.X), rows.labels)",
                call("plots.save", Source("figure"), picture),
            )
    this.say(ready.data.sentence)
    _model.show_model(this, fitted)
    outputs = {"model": target, "scores": scores, "picture": picture}
    this.say(*where({"The model is": target, "The scores are": scores, "The picture is": picture}))
    result = {"command": "fit", "data": ready.data.facts, "model": _model.spectrum_facts(fitted.model)}
    this.finish({**result, "outputs": {what: path for what, path in outputs.items() if path}}, str(script))
