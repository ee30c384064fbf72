"""`kpca fit`: a file becomes a model; `kpca transform`, `denoise` and `reconstruct`: a model at work on files."""

from __future__ import annotations

import os

from kpca.cli import _model
from kpca.cli import _options as options
from kpca.cli._options import File, Options
from kpca.cli._run import MODELS, PICTURES, Code, Run

_SCORES = "Write the scores of the rows, too; - is standard output."
_saved_model = options.model(help="A model that kpca fit or kpca tune wrote.", required=True)


@options.command("Find the components of a file, and save the model.", "file")
@options.output(help="Where to write the model; the name of the data with .kpca if unsaid.")
@options.option("--scores", section="Output", metavar="FILE", help=_SCORES)
@options.picture(help="Draw the rows on the first two components, and the spectrum (.png, .svg or .pdf).")
@options.settings
@options.data
def fit(
    *, file: str, output: File, scores: File, picture: File, settings: Options, data: Options, run: Options
) -> None:
    """Find the components of the rows of FILE and save the model.

    FILE is a table (.csv, .tsv, also .gz; .parquet, .feather, .arrow, .npy, .npz, .zarr, .h5ad), a folder of images, or
    - for standard input. Files larger than memory are read in pieces.

    \b
    kpca fit flowers.csv --label species --picture flowers.png
    kpca fit reviews.parquet --text review --kernel cosine -k 20
    """
    this = Run(run, reads=[file], data=scores)
    target = output or _model.default_output(file, ".kpca")
    this.will_write(target, MODELS, model="The model is")
    this.will_write_table(scores, beside=data["id"] or data["label"], scores="The scores are")
    this.will_write(picture, PICTURES, picture="The picture is")
    with this.working("Reading"):
        opened, fitted = _model.fitted_or_loaded(this, None, file, data, settings)
        this.stage("Saving")
        fitted.save(this, target)
        if scores is not None:
            this.stage("Writing scores")
            this.script.call("kpca.io:write_scores", fitted.code, opened.code, scores)
        if picture is not None:
            this.stage("Drawing")
            scored, labels = _model.shown_rows(fitted, opened)
            rows = Code("model[-1].transform(rows.X)", scored), Code("rows.labels", labels)
            this.script.add("rows = model[0].prepare(table.whole())")
            figure = this.script.call("kpca:plots.overview", Code("model[-1]", fitted.model), *rows, to="figure")
            this.script.call("kpca:plots.save", Code("figure", figure), picture)
    this.say(opened.sentence)
    _model.show_model(this, fitted)
    this.finish(data=opened.facts, model=_model.spectrum_facts(fitted.model))


@options.command("Write the scores of new rows.", "file")
@_saved_model
@options.output(help="Where to write the scores, in any format that can be read; - is standard output.", default="-")
@options.new_data
def transform(*, file: str, model: str, output: str, data: Options, run: Options) -> None:
    """Write the scores of the rows of FILE on the components of a model.

    FILE must have the columns the model was fitted to, in any order; it is treated as they were. Ids and labels stay.

    \b
    kpca transform new.csv --model flowers.kpca -o scores.parquet
    cat new.csv | kpca transform - --model flowers.kpca > scores.csv
    """
    this = Run(run, reads=[file, model], data=output)
    this.will_write_table(output)
    with this.working("Reading"):
        opened, fitted = _model.loaded(this, model, file, data)
        this.stage("Writing scores")
        count = this.script.call("kpca.io:write_scores", fitted.code, opened.code, output)
    this.say_where(f"Scores of {count:,} rows are", output)
    this.finish(data=opened.facts, rows=count, components=fitted.model.get_feature_names_out(), output=output)


@options.command("Remove what the components do not explain.", "file")
@options.model(help="What kpca fit --preimage auto wrote; fitted to FILE if unsaid.")
@options.output(help="Where to write the cleaned rows; - is standard output; a new folder for images.", default="-")
@options.settings
@options.data
def denoise(*, file: str, model: File, output: str, settings: Options, data: Options, run: Options) -> None:
    """Remove from the rows of FILE what the components do not explain.

    The cleaned rows are in the units of the file, with ids and labels. Without --model a model is fitted to the rows
    themselves; more components remove less.

    \b
    kpca denoise spectra.csv -k 20 -o clean.csv
    """
    this = Run(run, reads=[file, model], data=output)
    images = model is not None or os.path.isdir(file)  # a folder of images goes out as one
    this.will_write_table(output, beside=data["id"] or data["label"], folder=images, output="The cleaned rows are")
    with this.working("Reading"):
        opened, fitted = _model.fitted_or_loaded(this, model, file, data, settings, inverse="needed")
        _model.check_inverse(fitted, model)
        this.stage("Denoising")
        share = this.script.call("kpca.io:write_denoised", fitted.code, opened.code, output)
    this.say(f"{100 * share:.2f} % of the variance of the rows was removed.")
    this.finish(data=opened.facts, removed=share)


@options.command("Turn scores back into data.", "scores")
@_saved_model
@options.option("--original", section="Data", metavar="FILE", help="The rows the scores are of; tells what was lost.")
@options.output(help="Where to write the rows; - is standard output.", default="-")
@options.new_data
def reconstruct(*, scores: str, model: str, original: File, output: str, data: Options, run: Options) -> None:
    """Turn SCORES, as kpca transform wrote them, back into rows of data.

    Says how large the scores are beside the data and, with --original, how much of the data is lost; --format,
    --header, --array and --delimiter then tell how to read the original.

    \b
    kpca reconstruct scores.parquet --model spectra.kpca --original spectra.csv -o back.csv
    """
    this = Run(run, reads=[scores, model, original], data=output)
    this.will_write_table(output, folder=True, output="The rows are")
    with this.working("Reading"):
        # what kpca wrote explains itself: where there is an original, it is that which options tell how to read
        plain = data if original is None else {"id": data["id"], "label": data["label"]}
        opened, fitted = _model.loaded(this, model, scores, plain)
        _model.check_inverse(fitted, model)
        beside = []
        if original is not None:
            beside = [Code("original", _model.open_for(this, original, data, fitted, to="original").table)]
        this.stage("Reconstructing")
        found = this.script.call("kpca.io:write_reconstruction", fitted.code, opened.code, output, *beside)
    share = f"{100 * found.size_ratio:.3g} % of the room of the data, beside the model"
    this.say(f"{found.rows:,} rows from {fitted.model.n_components_} components: the scores take {share}.")
    if found.error is not None:
        this.say(f"{100 * found.error:.2f} % of the variance of the original is lost.")
    this.finish(rows=found.rows, size_ratio=found.size_ratio, lost=found.error)
