"""`kpca fit`: a file becomes a model."""

from __future__ import annotations

import os
from dataclasses import replace

import click

from kpca.cli._code import Source, call
from kpca.cli._command import SectionedCommand, check_standard_input, stdout_is_taken
from kpca.cli._options import (
    DataOptions,
    ModelOptions,
    RunOptions,
    data_options,
    extra_option,
    model_options,
    new_data_options,
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


# -- `kpca transform`, `kpca denoise` and `kpca reconstruct`: a saved model at work on files --------------------------

_model_option = extra_option(
    "Model", "--model", metavar="FILE", required=True, help="A model that kpca fit or kpca tune wrote."
)


@click.command(cls=SectionedCommand, short_help="Write the scores of new rows.")
@click.argument("file")
@_model_option
@output_option("Where to write the scores, in any format that can be read; - is standard output.", default="-")
@new_data_options
@run_options
def transform(*, file: str, model: str, output: str, data: DataOptions, run: RunOptions) -> None:
    """Write the scores of the rows of FILE on the components of a model.

    FILE must have the columns the model was fitted to, in any order; it is treated as they were. Ids and labels stay.

    \b
    kpca transform new.csv --model flowers.kpca -o scores.parquet
    cat new.csv | kpca transform - --model flowers.kpca > scores.csv
    """
    from kpca.cli import _model
    from kpca.cli._outputs import check_table_output, where
    from kpca.cli._run import Run
    from kpca.io.results import write_scores

    check_standard_input(file, model)
    this = Run(run, taken=stdout_is_taken(output))
    check_table_output(output, inputs=[file, model])
    with this.working("Reading"):
        ready = _model.loaded(this, model, file, data)
        this.stage("Writing scores")
        count = write_scores(ready.fitted.pipeline, ready.data.table, output)
    this.say(*where({f"Scores of {count:,} rows are": output}))
    ready.script.needs("from kpca.io import write_scores")
    ready.script.add(call("write_scores", Source("model"), Source("table"), output))
    result = {"command": "transform", "data": ready.data.facts, "rows": count, "components": ready.fitted.score_names}
    this.finish({**result, "output": output}, str(ready.script))


@click.command(cls=SectionedCommand, short_help="Remove what the components do not explain.")
@click.argument("file")
@extra_option("Model", "--model", metavar="FILE", help="What kpca fit --preimage auto wrote; fitted to FILE if unsaid.")
@output_option("Where to write the cleaned rows; - is standard output; a new folder for images.", default="-")
@model_options
@data_options
@run_options
def denoise(
    *, file: str, model: str | None, output: str, settings: ModelOptions, data: DataOptions, run: RunOptions
) -> None:
    """Remove from the rows of FILE what the components do not explain.

    The cleaned rows are in the units of the file, with ids and labels. Without --model a model is fitted to the rows
    themselves; more components remove less.

    \b
    kpca denoise spectra.csv -k 20 -o clean.csv
    """
    from kpca.cli import _model
    from kpca.cli._outputs import check_table_output, where
    from kpca.cli._run import Run
    from kpca.io.results import write_denoised

    check_standard_input(file, model)
    this = Run(run, taken=stdout_is_taken(output))
    images = model is not None or os.path.isdir(file)  # a folder of images goes out as one
    check_table_output(output, inputs=[file, model], beside=data.id or data.label, folder=images)
    with this.working("Reading"):
        ready = _model.fitted_or_loaded(this, model, file, data, settings, preimage="auto", way_back=True)
        _model.check_way_back(ready.fitted, model)
        this.stage("Denoising")
        share = write_denoised(ready.fitted.pipeline, ready.data.table, output)
    this.say(f"{100 * share:.2f} % of the variance of the rows was removed.")
    this.say(*where({"The cleaned rows are": output}))
    ready.script.needs("from kpca.io import write_denoised")
    ready.script.add(call("write_denoised", Source("model"), Source("table"), output))
    this.finish({"command": "denoise", "data": ready.data.facts, "removed": share, "output": output}, str(ready.script))


@click.command(cls=SectionedCommand, short_help="Turn scores back into data.")
@click.argument("scores")
@_model_option
@extra_option("Data", "--original", metavar="FILE", help="The rows the scores are of; tells what was lost.")
@output_option("Where to write the rows; - is standard output.", default="-")
@new_data_options
@run_options
def reconstruct(
    *, scores: str, model: str, original: str | None, output: str, data: DataOptions, run: RunOptions
) -> None:
    """Turn SCORES, as kpca transform wrote them, back into rows of data.

    Says how large the scores are beside the data and, with --original, how much of the data is lost; --format,
    --header, --array and --delimiter then tell how to read the original.

    \b
    kpca reconstruct scores.parquet --model spectra.kpca --original spectra.csv -o back.csv
    """
    from kpca.cli import _model
    from kpca.cli._model import opened_for
    from kpca.cli._outputs import check_table_output, where
    from kpca.cli._run import Run
    from kpca.io.results import write_reconstruction

    check_standard_input(scores, model, original)
    this = Run(run, taken=stdout_is_taken(output))
    check_table_output(output, inputs=[scores, model, original], folder=True)
    with this.working("Reading"):
        # what kpca wrote explains itself: where there is an original, it is that which options tell how to read
        plain = data if original is None else replace(data, format=None, header=None, array=None, delimiter=None)
        ready = _model.loaded(this, model, scores, plain)
        fitted, script = ready.fitted, ready.script
        _model.check_way_back(fitted, model)
        arguments = [Source("model"), Source("table"), output]
        truth = None
        if original is not None:
            opened = opened_for(original, data, fitted)
            truth = opened.table
            opened.code(script, "original")
            arguments.append(Source("original"))
        this.stage("Reconstructing")
        found = write_reconstruction(fitted.pipeline, ready.data.table, output, truth)
    share = f"{100 * found.size_ratio:.3g} % of the room of the data, beside the model"
    this.say(f"{found.rows:,} rows from {len(fitted.score_names)} components: the scores take {share}.")
    if found.error is not None:
        this.say(f"{100 * found.error:.2f} % of the variance of the original is lost.")
    this.say(*where({"The rows are": output}))
    script.needs("from kpca.io import write_reconstruction")
    script.add(call("write_reconstruction", *arguments))
    result = {"command": "reconstruct", "rows": found.rows, "size_ratio": found.size_ratio, "lost": found.error}
    this.finish({**result, "output": output}, str(script))
