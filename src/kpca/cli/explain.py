"""`kpca explain`, `kpca compare` and `kpca report`: what a model sees, what other methods see, and a page about it."""

from __future__ import annotations

from typing import Any

import click

from kpca.cli import _model
from kpca.cli import _options as options
from kpca.cli._options import DataOptions, File, ModelOptions, RunOptions
from kpca.cli._run import MODEL, PAGES, PICTURES, TABLE, Code, Run, changed

_SHOWN_VARIABLES, _SHOWN_COMPONENTS = 15, 5
_FOUND = Code("found")
_BY = "How scores change with a column: when it changes a little, or when it is shuffled."
_METHODS = "Such as PCA,kernel PCA,t-SNE,UMAP,Isomap,MDS; all if unsaid."
_MAX_ROWS = "Rows up to which methods with n × n matrices take part."


@options.command("Tell which columns are behind the components.", "file")
@options.model("What kpca fit wrote; fitted to FILE if unsaid.")
@options.option("Explanation", "--by", type=click.Choice(["gradient", "permutation"]), default="gradient", help=_BY)
@options.output("Write the figures of all columns; - is standard output.")
@options.picture("Draw the most important columns")
@options.settings
@options.data
def explain(
    *, file: str, model: File, by: str, settings: ModelOptions, data: DataOptions, run: RunOptions, **outputs: File
) -> None:
    """Tell which columns of FILE are behind the components.

    \b
    kpca explain flowers.csv --label species --picture columns.png
    """
    from kpca import explain, io, plots
    from kpca.io.anomalies import importance_table

    output, picture = outputs["output"], outputs["picture"]
    this = Run(run, reads=[file, model], data=output)
    this.will_write_table(output, beside="column")
    this.will_write(picture, PICTURES)
    function: Any = explain.importance if by == "gradient" else explain.permutation_importance
    extra = {} if by == "gradient" else {"random_state": run.seed}
    with this.working("Reading"):
        opened, fitted = _model.fitted_or_loaded(this, model, file, data, settings)
        rows = io.rows_in_memory(fitted.preparation, opened.table, seed=run.seed)
        names = [str(name) for name in fitted.preparation.get_feature_names_out()]
        this.stage("Explaining")
        found: Any = function(fitted.model, rows.X, names=names, **extra)
        this.script.add("names = list(model[0].get_feature_names_out())")
        this.script.calls("kpca.io:rows_in_memory", MODEL, TABLE, to="rows", seed=run.seed)
        arguments = Code("model[-1]"), Code("rows.X")
        this.script.calls(f"kpca.explain.{function.__name__}", *arguments, to="found", names=Code("names"), **extra)
        this.script.add("print(found)")
        if output is not None:
            io.write_importance(found, output)
            this.script.calls("kpca.io:write_importance", _FOUND, output)
        if picture is not None:
            plots.save(plots.importance(found), picture)
            this.script.calls("kpca:plots.save", Code("plots.importance(found)"), picture)
    titles, table = importance_table(found)
    headers = ["column", *titles[: 1 + _SHOWN_COMPONENTS]]
    shown = table[:, : 1 + _SHOWN_COMPONENTS]
    figures = [[names[j], *(f"{value:.3g}" for value in shown[j])] for j in found.order[:_SHOWN_VARIABLES]]
    this.say(opened.sentence, str(found).splitlines()[0])
    this.table("Columns", headers, figures, " columns", of=len(names))
    this.say_where({"The figures are": output, "The picture is": picture})
    columns = {name: dict(zip(titles, row, strict=True)) for name, row in zip(names, table, strict=True)}
    this.finish(data=opened.facts, columns=columns, outputs=_model.given(figures=output, picture=picture))


@options.command("Draw the rows by many methods, and measure each.", "file")
@options.option("Methods", "--methods", type=options.names, help=_METHODS)
@options.components("Methods", int, "Dimensions of the maps.", default=2)
@options.option("Methods", "--max-rows", type=int, default=5000, help=_MAX_ROWS)
@options.output("Write the figures of all methods; - is standard output.")
@options.picture("Draw the maps of all methods side by side")
@options.data
def compare(*, file: str, output: File, picture: File, data: DataOptions, run: RunOptions, **settings: Any) -> None:
    """Draw the rows of FILE by many methods; tell what each takes and what it keeps.

    \b
    kpca compare flowers.csv --label species --picture maps.png
    """
    from kpca import compare, io, plots

    this = Run(run, reads=[file], data=output)
    this.will_write_table(output, beside="name")
    this.will_write(picture, PICTURES)
    methods, size = settings["methods"], {"n_components": settings["components"], "max_rows": settings["max_rows"]}
    arguments = {"methods": list(methods) if methods else None, **size, "random_state": run.seed}
    with this.working("Reading"):
        opened, _, rows = _model.rows_of(this, file, data)
        this.stage("Comparing")
        found = compare(rows.X, rows.labels, **arguments)
        given = changed(arguments, {"n_components": 2, "max_rows": 5000, "random_state": 0})
        this.script.calls("kpca.compare", Code("rows.X"), Code("rows.labels"), to="found", **given)
        this.script.add("print(found)")
        if output is not None:
            io.write_comparison(found, output)
            this.script.calls("kpca.io:write_comparison", _FOUND, output)
        if picture is not None:
            plots.save(plots.comparison(found, rows.labels), picture)
            this.script.calls("kpca:plots.save", Code("plots.comparison(found, rows.labels)"), picture)
    this.say(opened.sentence, "", str(found))
    this.say_where({"The figures are": output, "The picture is": picture})
    this.finish(data=opened.facts, methods=found.to_dicts(), outputs=_model.given(figures=output, picture=picture))


@options.command("Write a page about a file: a map, what is behind it, what is odd.", "file")
@options.model("What kpca fit or kpca tune wrote; fitted to FILE if unsaid.")
@options.output("Where to write the page; the name of the data with .html if unsaid.")
@options.settings
@options.data
def report(*, file: str, model: File, output: File, settings: ModelOptions, data: DataOptions, run: RunOptions) -> None:
    """Write a page about the rows of FILE: a map to explore, what is behind it, what is odd, how to repeat it.

    The page is one HTML file that needs no network. Of very many rows it shows a sample.

    \b
    kpca report flowers.csv --label species
    kpca report new.csv --model flowers.kpca -o new.html
    """
    from kpca.report import report_on_table

    this = Run(run, reads=[file, model])
    target = output or _model.default_output(file, ".html")
    this.will_write(target, PAGES)
    with this.working("Reading"):
        opened, fitted = _model.fitted_or_loaded(this, model, file, data, settings, preimage="auto")
        this.script.calls("kpca.report:report_on_table", MODEL, TABLE, target)
        this.stage("Writing the page")
        code, command = str(this.script), _model.command_line()
        report_on_table(
            fitted.pipeline, opened.table, target, code=code, command=command, seed=run.seed, about=fitted.about
        )
    this.say(opened.sentence)
    _model.show_model(this, fitted)
    this.say_where({"The page is": target})
    this.finish(data=opened.facts, model=_model.spectrum_facts(fitted.model), output=target)
