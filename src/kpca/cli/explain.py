"""`kpca explain`, `kpca compare` and `kpca report`: what a model sees, what other methods see, and a page about it."""

from __future__ import annotations

from typing import Any

import click

from kpca.cli import _model
from kpca.cli._command import SectionedCommand
from kpca.cli._options import (
    DataOptions,
    ModelOptions,
    RunOptions,
    components_option,
    data_options,
    model_option,
    model_options,
    names,
    option,
    output_option,
    picture_option,
    run_options,
)
from kpca.cli._run import MODEL, PAGES, PICTURES, TABLE, Run, Source, changed

_SHOWN_VARIABLES, _SHOWN_COMPONENTS = 15, 5
_FOUND = Source("found")


@click.command(cls=SectionedCommand, short_help="Tell which columns are behind the components.")
@click.argument("file")
@model_option("What kpca fit wrote; fitted to FILE if unsaid.")
@option(
    "Explanation",
    "--by",
    type=click.Choice(["gradient", "permutation"]),
    default="gradient",
    help="How scores change with a column: when it changes a little, or when it is shuffled.",
)
@output_option("Write the figures of all columns; - is standard output.")
@picture_option("Draw the most important columns")
@model_options
@data_options
@run_options
def explain(
    *,
    file: str,
    model: str | None,
    by: str,
    output: str | None,
    picture: str | None,
    settings: ModelOptions,
    data: DataOptions,
    run: RunOptions,
) -> None:
    """Tell which columns of FILE are behind the components.

    \b
    kpca explain flowers.csv --label species --picture columns.png
    """
    from kpca import explain, io, plots
    from kpca.io.anomalies import importance_table

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
        arguments = Source("model[-1]"), Source("rows.X")
        this.script.calls(f"kpca.explain.{function.__name__}", *arguments, to="found", names=Source("names"), **extra)
        this.script.add("print(found)")
        if output is not None:
            io.write_importance(found, output)
            this.script.calls("kpca.io:write_importance", _FOUND, output)
        if picture is not None:
            plots.save(plots.importance(found), picture)
            this.script.calls("kpca:plots.save", Source("plots.importance(found)"), picture)
    titles, table = importance_table(found)
    headers = ["column", *titles[: 1 + _SHOWN_COMPONENTS]]
    figures = [
        [names[j], *(f"{value:.3g}" for value in table[j, : 1 + _SHOWN_COMPONENTS])]
        for j in found.order[:_SHOWN_VARIABLES]
    ]
    this.say(opened.sentence, str(found).splitlines()[0])
    this.table("Columns", headers, figures, " columns", of=len(names))
    this.say_where({"The figures are": output, "The picture is": picture})
    columns = {name: dict(zip(titles, row, strict=True)) for name, row in zip(names, table, strict=True)}
    this.finish(data=opened.facts, columns=columns, outputs=_model.given(figures=output, picture=picture))


@click.command(cls=SectionedCommand, short_help="Draw the rows by many methods, and measure each.")
@click.argument("file")
@option("Methods", "--methods", type=names, help="Such as PCA,kernel PCA,t-SNE,UMAP,Isomap,MDS; all if unsaid.")
@components_option("Methods", int, "Dimensions of the maps.", default=2)
@option("Methods", "--max-rows", type=int, default=5000, help="Rows up to which methods with n × n matrices take part.")
@output_option("Write the figures of all methods; - is standard output.")
@picture_option("Draw the maps of all methods side by side")
@data_options
@run_options
def compare(
    *,
    file: str,
    methods: tuple[str, ...] | None,
    components: int,
    max_rows: int,
    output: str | None,
    picture: str | None,
    data: DataOptions,
    run: RunOptions,
) -> None:
    """Draw the rows of FILE by many methods; tell what each takes and what it keeps.

    \b
    kpca compare flowers.csv --label species --picture maps.png
    """
    from kpca import compare, io, plots

    this = Run(run, reads=[file], data=output)
    this.will_write_table(output, beside="name")
    this.will_write(picture, PICTURES)
    arguments: dict[str, Any] = {"methods": list(methods) if methods else None, "n_components": components}
    arguments |= {"max_rows": max_rows, "random_state": run.seed}
    with this.working("Reading"):
        opened, _, rows = _model.rows_of(this, file, data)
        this.stage("Comparing")
        found = compare(rows.X, rows.labels, **arguments)
        given = changed(arguments, {"n_components": 2, "max_rows": 5000, "random_state": 0})
        this.script.calls("kpca.compare", Source("rows.X"), Source("rows.labels"), to="found", **given)
        this.script.add("print(found)")
        if output is not None:
            io.write_comparison(found, output)
            this.script.calls("kpca.io:write_comparison", _FOUND, output)
        if picture is not None:
            plots.save(plots.comparison(found, rows.labels), picture)
            this.script.calls("kpca:plots.save", Source("plots.comparison(found, rows.labels)"), picture)
    this.say(opened.sentence, "", str(found))
    this.say_where({"The figures are": output, "The picture is": picture})
    this.finish(data=opened.facts, methods=found.to_dicts(), outputs=_model.given(figures=output, picture=picture))


@click.command(cls=SectionedCommand, short_help="Write a page about a file: a map, what is behind it, what is odd.")
@click.argument("file")
@model_option("What kpca fit or kpca tune wrote; fitted to FILE if unsaid.")
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
